//! Several hardware threads: harts that share an out-of-order core.
//!
//! The code handles one hart, the one in `Core::hart`. The others wait in `Core::others`; a pointer
//! is swapped when the core switches to another ([`Core::switch_to`]). State private to a hart is
//! in its [`HartState`]. The harts share everything else: caches and their miss registers, ports,
//! issue width, scheduler, decoded instructions, and the predictor's tables. They share the entries
//! of the reorder buffer and of the load and store queues without partitions, so any number of
//! harts goes with any number of entries, and a hart that has halted, with all its instructions
//! committed, costs the others nothing.
//!
//! **Dispatch.** [`crate::thread_policy`] decides which hart dispatches first in a cycle. The next
//! hart gets the rest of the core's width. A hart without entries has no waiting instruction, so
//! ICOUNT prefers it to all that hold some: none starves.
//!
//! **Visibility of stores.** A store becomes visible to the other harts when it performs in the
//! shared cache, through one port, which the harts use in turn. It affects the loads, the
//! reservations and the waits on reservations of the other harts as the loss of the line affects
//! another core. A load takes no value from another hart's store queue, so a store becomes visible
//! to all other harts at the same time.
//!
//! The results do not depend on how far the core is allowed to run ahead: all decisions here depend
//! only on the state of the harts in a cycle.

use crate::blocks::NOWHERE;
use crate::core::{Core, NEVER, Shared};
use crate::hart::HartState;
use crate::kind::CoreKind;
use crate::queues::overlap;
use crate::spec::MAX_THREADS;
use crate::stack::Stall;
use crate::thread_policy::Candidate;
use fabric::{Inbox, LineAddress, Outbox};

impl<K: CoreKind> Core<K> {
    /// Whether it has several harts.
    #[inline(always)]
    pub(crate) fn is_multithreaded(&self) -> bool {
        K::MULTITHREADED
    }

    /// The harts other than the current one, in the order of their numbers.
    #[inline(always)]
    pub(crate) fn others(&self) -> impl Iterator<Item = &HartState> {
        self.others.iter().flatten().map(|hart| &**hart)
    }

    /// All harts, the current one first.
    pub(crate) fn harts(&self) -> impl Iterator<Item = &HartState> {
        std::iter::once(&*self.hart).chain(self.others())
    }

    /// The hart on this hardware thread, which exists.
    pub(crate) fn hart_of(&self, thread: u8) -> &HartState {
        let other = self.others.get(usize::from(thread));
        match other.and_then(Option::as_ref) {
            Some(other) => other,
            None => &self.hart,
        }
    }

    /// Makes the hart on this hardware thread the current one.
    #[inline(always)]
    pub(crate) fn switch_to(&mut self, thread: u8) {
        if K::MULTITHREADED && self.hart.thread != thread {
            self.exchange(thread);
        }
    }

    #[inline(never)]
    fn exchange(&mut self, thread: u8) {
        let place = self.others.get_mut(usize::from(thread));
        if let Some(next) = place.and_then(Option::take) {
            let last = std::mem::replace(&mut self.hart, next);
            let place = usize::from(last.thread);
            self.others[place] = Some(last);
        }
    }

    /// Performs an action for each hart, in the order of their numbers.
    #[inline]
    pub(crate) fn for_each_hart(&mut self, mut action: impl FnMut(&mut Self)) {
        if !self.is_multithreaded() {
            return action(self);
        }
        let thread = self.hart.thread;
        for each in 0..self.shared.spec.threads {
            self.switch_to(each);
            action(self);
        }
        self.switch_to(thread);
    }

    /// Performs an action for one hart.
    pub(crate) fn with_hart<T>(&mut self, thread: u8, action: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.hart.thread;
        self.switch_to(thread);
        let result = action(self);
        self.switch_to(before);
        result
    }

    /// Performs an action for all harts, in the order of `key`.
    fn for_each_by(
        &mut self,
        key: impl Fn(&HartState) -> (u64, u8),
        mut action: impl FnMut(&mut Self),
    ) {
        let mut order = [((NEVER, 0), 0); MAX_THREADS];
        let mut count = 0;
        for hart in self.harts() {
            order[count] = (key(hart), hart.thread);
            count += 1;
        }
        order[..count].sort_unstable();
        for &(_, thread) in &order[..count] {
            self.with_hart(thread, &mut action);
        }
    }

    /// The next cycle in which a hart can dispatch, unless an event comes before.
    pub(crate) fn next_dispatch(&self) -> u64 {
        let next = self.harts().map(HartState::next_dispatch);
        next.min().unwrap_or(NEVER)
    }

    /// The loop of [`Core::run`] for a core with several harts.
    pub(crate) fn run_threads(
        &mut self,
        limit: u64,
        feedback: u64,
        inbox: &mut Inbox,
        outbox: &mut Outbox,
    ) {
        self.shared.feedback = feedback;
        let mut limit = limit;
        let mut sent = outbox.messages.len();
        while self.shared.crash.is_none() {
            let delivery = self.shared.clock.cycle_at_or_after(inbox.next_at());
            let event = delivery.min(self.own_event());
            if self.dozes() {
                if event >= limit {
                    break;
                }
                self.wake_up(event);
            }
            let next = self.next_dispatch();
            if event <= next {
                if event >= limit {
                    break;
                }
                self.handle_event(event, event == delivery, inbox, outbox);
            } else if next >= limit {
                break;
            } else {
                self.dispatch_threads(next, limit.min(delivery), outbox);
            }
            if outbox.messages.len() > sent {
                for message in &outbox.messages[sent..] {
                    let departure = self.shared.clock.cycle_at_or_after(message.at);
                    limit = limit.min(departure.saturating_add(feedback));
                }
                sent = outbox.messages.len();
            }
        }
    }

    /// Handles the event at `now`: a message, or one of the core's own events.
    fn handle_event(
        &mut self,
        now: u64,
        is_delivery: bool,
        inbox: &mut Inbox,
        outbox: &mut Outbox,
    ) {
        self.advance_scheduler(now);
        let mut waited = [false; MAX_THREADS];
        self.for_each_hart(|core| {
            waited[usize::from(core.hart.thread)] = core.hart.waits();
            core.hart.blocked = false;
        });
        if is_delivery {
            if let Some(delivery) = inbox.first() {
                self.deliver(now, &delivery.kind, outbox);
                inbox.remove_first();
            }
        } else {
            self.own_events(now, outbox);
        }
        self.for_each_hart(|core| {
            if core.hart.serial.is_some() {
                core.run_serial(now, outbox);
            } else if now > core.hart.dispatch_cycle && waited[usize::from(core.hart.thread)]
                || now < core.hart.dispatch_cycle
                    && core.hart.stall.is_for_room()
                    && core.shares_room(now)
            {
                // Progress of one hart may free entries for another.
                core.hart.dispatch_cycle = now;
            }
        });
    }

    /// Whether other harts have entries that may become free.
    fn shares_room(&self, now: u64) -> bool {
        self.others()
            .any(|other| other.is_leaving(now) || !other.window.all_known())
    }

    /// Performs the stores of all harts that are due at `now`. They share one port, which the least
    /// recently served hart gets first. A store that has waited for a line is performed when the
    /// line arrives, whether the port is taken or not, so that no other requester takes the line
    /// first.
    pub(crate) fn perform_due_stores(&mut self, now: u64, outbox: &mut Outbox) {
        if !self.is_multithreaded() {
            if self.hart.store_event <= now {
                self.perform_stores(now, outbox);
            }
            return;
        }
        self.for_each_by(
            |hart| (hart.stores.last_performed, hart.thread),
            |core| {
                if core.hart.store_event > now {
                    return;
                }
                let took_port = |other: &HartState| other.stores.last_performed == now;
                if core.others().any(took_port) {
                    core.hart.store_event = now + 1;
                } else {
                    core.perform_stores(now, outbox);
                }
            },
        );
    }

    /// A miss register has become free: the hart whose load was refused first gets it; of equals,
    /// the current one, then the following ones.
    pub(crate) fn share_miss_register(&mut self, now: u64, outbox: &mut Outbox) {
        let (first, threads) = (self.hart.thread, self.shared.spec.threads);
        self.for_each_by(
            |hart| {
                let refused = hart.refused.front().map_or(NEVER, |load| load.issue);
                (refused, (hart.thread + threads - first) % threads)
            },
            |core| core.retry_misses(now, outbox),
        );
    }

    /// Some harts can dispatch at `now`, and no event comes before `stop`.
    fn dispatch_threads(&mut self, now: u64, stop: u64, outbox: &mut Outbox) {
        let mut taken = [Taken::default(); MAX_THREADS];
        let mut candidates = [Candidate::default(); MAX_THREADS];
        let mut count = 0;
        let mut later = NEVER;
        for hart in std::iter::once(&mut self.hart).chain(self.others.iter_mut().flatten()) {
            taken[usize::from(hart.thread)] = Taken::by::<K>(hart, now);
            let next = hart.next_dispatch();
            if next == now {
                let (thread, waiting) = (hart.thread, hart.window.waiting(now));
                candidates[count] = Candidate { thread, waiting };
                count += 1;
            } else {
                later = later.min(next);
            }
        }
        let candidates = &mut candidates[..count];
        let until = if count == 1 {
            stop.min(later)
        } else {
            let policy = &self.shared.policy;
            policy.order(candidates, self.shared.spec.threads);
            stop.min(now + 1)
        };
        let mut dispatched = 0;
        for one in &*candidates {
            let others = Taken::by_others(&taken, one.thread);
            let instructions = self.dispatch_one_hart(one.thread, (now, until), &others, outbox);
            dispatched |= u8::from(instructions > 0) << one.thread;
            if count > 1 {
                // Dispatch by one hart does not affect the others: stores, which may, are performed
                // in between.
                taken[usize::from(one.thread)] = Taken::by::<K>(&mut self.hart, now);
            }
        }
        let Shared { policy, spec, .. } = &mut self.shared;
        policy.shared(candidates, dispatched, spec.threads);
    }

    /// Lets one hart dispatch: from `now` until `until` if the others, which have `taken` this
    /// share, do not dispatch meanwhile, and otherwise in the rest of the cycle `now`. Returns how
    /// many instructions it dispatched in that cycle, if no more.
    fn dispatch_one_hart(
        &mut self,
        thread: u8,
        (now, until): (u64, u64),
        taken: &Taken,
        outbox: &mut Outbox,
    ) -> u8 {
        self.switch_to(thread);
        let Core { shared, hart, .. } = self;
        hart.window.share_with(taken.window);
        hart.loads.share_with(taken.loads);
        hart.stores.share_with(taken.stores);
        shared.others_watch = taken.watches;
        shared.spin.allow_alone(!taken.is_awake);
        // As long as entries are to become free, room is checked in each cycle.
        let leaving = taken.is_leaving;
        let left = match shared.shared_cycle == now {
            true => shared.shared_left,
            false => shared.spec.width,
        };
        let one_cycle = leaving || left < shared.spec.width;
        shared.cycle_width = left;
        hart.dispatch_left = left;
        let before = hart.window.tail;
        let until = until.min(self.other_event());
        self.shared.stop = if one_cycle { until.min(now + 1) } else { until };
        if !self.begin_trap() {
            if left > 0 {
                self.dispatch(outbox);
            } else {
                // A hart that is stalled already remains so until it dispatches.
                if self.hart.stall == Stall::None {
                    self.held_up(Stall::OtherHart);
                }
                self.hart.dispatch_cycle = now + 1;
            }
        }
        let Core { shared, hart, .. } = self;
        shared.cycle_width = shared.spec.width;
        // A taken branch ends fetch for this hart alone. In later cycles no other hart dispatches.
        let dispatched = hart.window.tail.saturating_sub(before).min(left.into()) as u8;
        (shared.shared_cycle, shared.shared_left) = (now, left - dispatched);
        if leaving {
            if hart.blocked {
                hart.blocked = false;
                hart.dispatch_cycle = now + 1;
            } else if hart.stall.is_for_room() {
                hart.dispatch_cycle = hart.dispatch_cycle.min(now + 1);
            }
        }
        dispatched
    }

    /// The current hart has written these bytes at `now`: the others lose their reservations of the
    /// line, and loads that have read it too early are squashed.
    #[inline]
    pub(crate) fn tell_other_harts(&mut self, now: u64, address: u64, bytes: u8) {
        let line = LineAddress::of(address);
        for thread in 0..self.others.len() {
            if !self.others[thread]
                .as_ref()
                .is_some_and(|other| other.minds(line))
            {
                continue;
            }
            self.with_hart(thread as u8, |core| {
                if core.hart.reservation == Some(line) {
                    core.lose_reservation(line, now);
                    // It may wait for this store.
                    if core.hart.serial.is_some() {
                        core.hart.serial_event = core.hart.serial_event.min(now);
                    }
                }
                core.look_again(now, |load| {
                    overlap(load.address, load.bytes, address, bytes)
                });
            });
        }
    }

    /// Decoded instructions have been dropped: cursors become invalid.
    pub(crate) fn forget_cursors(&mut self) {
        self.for_each_hart(|core| core.hart.cursor = NOWHERE);
    }
}

/// The shared resources that harts use, seen by one that is about to dispatch.
#[derive(Clone, Copy, Default)]
struct Taken {
    window: u64,
    loads: u64,
    stores: u64,
    /// A store may affect one of them.
    watches: bool,
    /// One has instructions in progress.
    is_awake: bool,
    /// One has entries that are to become free.
    is_leaving: bool,
}

impl Taken {
    /// The share of one hart at `now`.
    fn by<K: CoreKind>(hart: &mut HartState, now: u64) -> Taken {
        let loads = hart.loads.occupied(now);
        Taken {
            window: hart.window.occupied(now),
            loads,
            stores: hart.stores.occupied(),
            watches: hart.reservation.is_some()
                || loads > 0
                || hart.blocked && hart.stall == Stall::StoreBuffer,
            is_awake: !hart.sleeps::<K>(now),
            is_leaving: hart.is_leaving(now),
        }
    }

    /// The sum over all harts except the one on hardware thread `thread`.
    fn by_others(each: &[Taken], thread: u8) -> Taken {
        let mut sum = Taken::default();
        for (_, one) in (0..).zip(each).filter(|&(other, _)| other != thread) {
            sum.window += one.window;
            sum.loads += one.loads;
            sum.stores += one.stores;
            sum.watches |= one.watches;
            sum.is_awake |= one.is_awake;
            sum.is_leaving |= one.is_leaving;
        }
        sum
    }
}
