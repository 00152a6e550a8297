//! Two hardware threads: two harts on one out-of-order core.
//!
//! The core is written for one hart. What belongs to a hart alone is exchanged when it is the other
//! one's turn ([`Core::switch_to`]); what is not exchanged the two share: caches and their miss
//! registers, ports, issue width, scheduler, decoded instructions, and the predictor's tables. The
//! reorder buffer and the queues of loads and stores are shared by their number of entries: a hart may
//! have all that the other one has not got. Nothing is set aside for a hart, so one that has halted
//! and whose instructions have all committed costs the other one nothing.
//!
//! **Who dispatches.** ICOUNT of Tullsen et al., "Exploiting Choice: Instruction Fetch and Issue on an
//! Implementable Simultaneous Multithreading Processor", 1996, as ICOUNT.2 with the core's width: in
//! each cycle the hart goes first that has fewer instructions which have been dispatched and have not
//! issued, and what it leaves of the width is the other one's. Of equals that goes first which did not
//! the last time. (The paper counts what is being decoded, too, which no hart here has: what is on its
//! way through the front end is not yet instructions.)
//!
//! **One sees the other's stores** when they are performed in the cache that both use. To loads of the
//! other one, to its reservation and to its wait on it, a store is what the loss of the line is to
//! another core's. A load takes no value out of the other one's store queue, so that a store is seen
//! by all other harts at once.
//!
//! The results do not depend on which hart's state is in the core, nor on how far the core was
//! allowed to run: all that is decided here depends on what the harts are doing in a cycle.

use crate::blocks::NOWHERE;
use crate::core::{Core, MissingLoad, NEVER, PostedStore, REGISTERS, WaitingLoad};
use crate::extension::Extension;
use crate::predictor::BranchContext;
use crate::probe::Probed;
use crate::queues::{LoadQueue, StoreQueue, overlap};
use crate::serializing::Serializing;
use crate::spec::CoreSpec;
use crate::stack::Stall;
use crate::statistics::{CoreStatistics, Operations};
use crate::window::Window;
use fabric::{AddressRange, Inbox, LineAddress, Outbox, ToCache};
use riscv::{Attempts, Hart, SINK};
use state::{State, Walker};
use std::collections::VecDeque;

/// Registers that there are; see [`REGISTERS`].
const LIVE_REGISTERS: usize = SINK as usize + 1;

/// What belongs to a hart alone: that of the hart which is not in the core. The fields are those of
/// [`Core`].
pub(crate) struct OtherHart<X> {
    pub region: AddressRange,
    pub hart: Hart,
    pub extension: X,
    pub handler_from: u64,
    pub registers: [u64; LIVE_REGISTERS],
    pub ready: [u64; LIVE_REGISTERS],
    pub pc: u64,
    pub cursor: u32,
    pub dispatch_cycle: u64,
    pub dispatch_left: u8,
    pub blocked: bool,
    pub window: Window,
    pub float_in_window: bool,
    pub observes: bool,
    pub probed: Option<Box<Probed>>,
    pub acquire: Option<u64>,
    pub branches: BranchContext,
    pub loads: LoadQueue,
    pub stores: StoreQueue,
    pub missing: Vec<MissingLoad>,
    pub waiting_loads: Vec<WaitingLoad>,
    pub refused: VecDeque<MissingLoad>,
    pub woken: Vec<u32>,
    pub store_event: u64,
    pub serial: Option<Serializing>,
    pub serial_event: u64,
    pub posted: VecDeque<PostedStore>,
    pub refused_store: Option<PostedStore>,
    pub reservation: Option<LineAddress>,
    pub awaited: Option<LineAddress>,
    pub attempts: Attempts,
    pub hold_until: u64,
    pub held: Vec<(LineAddress, ToCache)>,
    pub statistics: CoreStatistics,
    pub operations: Operations,
    pub stall: Stall,
    pub charged: u64,
}

impl<X: Extension> State for OtherHart<X> {
    fn walk(&mut self, walker: &mut dyn Walker) {
        state::fields!(
            self,
            walker,
            OtherHart {
                region,
                hart,
                extension: fixed,
                handler_from,
                registers,
                ready: cycles,
                pc,
                cursor,
                dispatch_cycle: cycle,
                dispatch_left,
                blocked,
                window,
                float_in_window,
                observes: fixed,
                probed: fixed,
                acquire,
                branches,
                loads,
                stores,
                missing,
                waiting_loads,
                refused,
                woken: fixed,
                store_event: cycle,
                serial,
                serial_event: cycle,
                posted,
                refused_store,
                reservation,
                awaited,
                attempts,
                hold_until: cycle,
                held,
                statistics,
                operations,
                stall,
                charged: cycle,
            }
        );
        self.extension.walk(walker);
        self.observes = self.float_in_window || self.probed.is_some();
    }
}

impl<X> OtherHart<X> {
    /// The second hart of a core, which begins at `entry` with its number in `a0`.
    pub fn new(spec: &CoreSpec, number: u64, extension: X, entry: u64) -> OtherHart<X> {
        let mut registers = [0; LIVE_REGISTERS];
        registers[10] = number;
        OtherHart {
            region: AddressRange::default(),
            hart: Hart::new(number),
            extension,
            handler_from: 0,
            registers,
            ready: [0; LIVE_REGISTERS],
            pc: entry,
            cursor: NOWHERE,
            dispatch_cycle: 0,
            dispatch_left: spec.width,
            blocked: false,
            window: Window::new(spec.rob_entries, spec.width),
            float_in_window: false,
            observes: false,
            probed: None,
            acquire: None,
            branches: BranchContext::default(),
            loads: LoadQueue::new(spec.load_queue_entries, spec.threads),
            stores: StoreQueue::new(spec.store_queue_entries),
            missing: Vec::new(),
            waiting_loads: Vec::new(),
            refused: VecDeque::new(),
            woken: Vec::new(),
            store_event: NEVER,
            serial: None,
            serial_event: NEVER,
            posted: VecDeque::new(),
            refused_store: None,
            reservation: None,
            awaited: None,
            attempts: Attempts::default(),
            hold_until: NEVER,
            held: Vec::new(),
            statistics: CoreStatistics::default(),
            operations: Operations::default(),
            stall: Stall::None,
            charged: 0,
        }
    }

    /// When something is to be done for this hart, apart from dispatch.
    fn own_event(&self) -> u64
    where
        X: Extension,
    {
        let held = if self.held.is_empty() {
            NEVER
        } else {
            self.hold_until
        };
        let own = self.store_event.min(self.serial_event).min(held);
        if X::IS_ACTIVE {
            own.min(self.extension.next_event())
        } else {
            own
        }
    }

    fn next_dispatch(&self) -> u64 {
        if self.blocked || self.serial.is_some() {
            NEVER
        } else {
            self.dispatch_cycle
        }
    }

    /// Whether a store to `line` may mean something to this hart.
    fn minds(&self, line: LineAddress) -> bool {
        self.reservation == Some(line) || self.loads.may_touch(line)
    }

    /// Whether this hart waits for a message, or for a store of the other one, and has nothing under
    /// way at `now`.
    fn sleeps(&self, now: u64) -> bool
    where
        X: Extension,
    {
        self.serial.is_some()
            && self.own_event() == NEVER
            && self.held.is_empty()
            && (self.hold_until == NEVER || self.hold_until <= now)
            && self.stores.is_empty()
            && self.missing.is_empty()
            && self.waiting_loads.is_empty()
            && self.refused.is_empty()
            && self.window.all_known()
            && self.window.last_commit < now
    }

    /// Whether entries of this hart are to become free at `now` or later, as far as is known.
    fn is_leaving(&self, now: u64) -> bool {
        self.window.last_commit >= now
    }
}

macro_rules! exchange {
    ($core:ident, $other_hart:ident: $($field:ident),* $(,)?) => {
        $(std::mem::swap(&mut $core.$field, &mut $other_hart.$field);)*
    };
}

impl<X: Extension, const IN_ORDER: bool> Core<X, IN_ORDER> {
    /// Puts the state of the hart with this number into the core.
    #[inline]
    pub(crate) fn switch_to(&mut self, thread: u8) {
        if self.thread != thread {
            self.exchange();
        }
    }

    #[inline(never)]
    fn exchange(&mut self) {
        let Some(mut other_hart) = self.other_hart.take() else {
            return;
        };
        self.thread ^= 1;
        const { assert!(LIVE_REGISTERS <= REGISTERS) };
        self.registers[..LIVE_REGISTERS].swap_with_slice(&mut other_hart.registers);
        self.ready[..LIVE_REGISTERS].swap_with_slice(&mut other_hart.ready);
        self.predictor.exchange_context(&mut other_hart.branches);
        std::mem::swap(&mut self.calendar.operations, &mut other_hart.operations);
        exchange!(self, other_hart:
            region, hart, extension, handler_from, pc, cursor, dispatch_cycle, dispatch_left, blocked, window,
            float_in_window, observes, probed, acquire, loads, stores, missing, waiting_loads, refused, woken,
            store_event, serial, serial_event, posted, refused_store, reservation, awaited, attempts,
            hold_until, held, statistics, stall, charged,
        );
        self.other_hart = Some(other_hart);
    }

    /// Does something for each hart, in the order of their numbers.
    #[inline]
    pub(crate) fn for_each_hart(&mut self, mut action: impl FnMut(&mut Self)) {
        if self.other_hart.is_none() {
            return action(self);
        }
        let thread = self.thread;
        for each in 0..2 {
            self.switch_to(each);
            action(self);
        }
        self.switch_to(thread);
    }

    /// The same for one of them.
    pub(crate) fn with_hart<T>(&mut self, thread: u8, action: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.thread;
        self.switch_to(thread);
        let result = action(self);
        self.switch_to(before);
        result
    }

    /// When something is to be done for the hart that is not in the core, apart from dispatch.
    #[inline]
    pub(crate) fn other_hart_event(&self) -> u64 {
        let other_hart = self.other_hart.as_ref();
        other_hart.map_or(NEVER, |other_hart| other_hart.own_event())
    }

    fn next_dispatch(&self) -> u64 {
        if self.blocked || self.serial.is_some() {
            NEVER
        } else {
            self.dispatch_cycle
        }
    }

    /// What [`Core::next_cycle`] says of a core with two harts.
    pub(crate) fn next_cycle_of_both(&self) -> u64 {
        let other_hart = self.other_hart.as_ref();
        self.next_dispatch()
            .min(other_hart.map_or(NEVER, |other_hart| other_hart.next_dispatch()))
            .min(self.own_event())
    }

    /// What [`Core::run`] does of a core with two harts.
    pub(crate) fn run_both(
        &mut self,
        limit: u64,
        feedback: u64,
        inbox: &mut Inbox,
        outbox: &mut Outbox,
    ) {
        self.feedback = feedback;
        let mut limit = limit;
        let mut sent = outbox.messages.len();
        while self.crash.is_none() {
            let delivery = self.clock.cycle_at_or_after(inbox.next_at());
            let event = delivery.min(self.own_event());
            if self.dozes() {
                if event >= limit {
                    break;
                }
                self.wake_up(event);
            }
            let other_hart = self.other_hart.as_ref();
            let other = other_hart.map_or(NEVER, |other_hart| other_hart.next_dispatch());
            let own = self.next_dispatch();
            let next = own.min(other);
            if event <= next {
                if event >= limit {
                    break;
                }
                self.handle_event(event, event == delivery, inbox, outbox);
            } else if next >= limit {
                break;
            } else {
                let stop = limit.min(delivery);
                if own == other {
                    self.share_cycle(next, stop, outbox);
                } else {
                    let thread = self.thread ^ u8::from(other < own);
                    let until = stop.min(own.max(other));
                    self.dispatch_one_hart(thread, next, until, outbox);
                }
            }
            if outbox.messages.len() > sent {
                for message in &outbox.messages[sent..] {
                    let departure = self.clock.cycle_at_or_after(message.at);
                    limit = limit.min(departure.saturating_add(feedback));
                }
                sent = outbox.messages.len();
            }
        }
    }

    /// What happens at `now`: a message comes, or one of the core's own events.
    fn handle_event(
        &mut self,
        now: u64,
        is_delivery: bool,
        inbox: &mut Inbox,
        outbox: &mut Outbox,
    ) {
        self.advance_scheduler(now);
        let mut waited = [false; 2];
        let mut thread = 0;
        self.for_each_hart(|core| {
            waited[thread] = core.blocked || core.serial.is_some();
            core.blocked = false;
            thread += 1;
        });
        if is_delivery {
            if let Some(delivery) = inbox.first() {
                self.deliver(now, &delivery.kind, outbox);
                inbox.remove_first();
            }
        } else {
            self.own_events(now, outbox);
        }
        let mut thread = 0;
        self.for_each_hart(|core| {
            if core.serial.is_some() {
                core.run_serial(now, outbox);
            } else if now > core.dispatch_cycle && waited[thread]
                || now < core.dispatch_cycle && core.stall.is_for_room() && core.shares_room(now)
            {
                // What has become known of one hart's instructions may make room for the other's.
                core.dispatch_cycle = now;
            }
            thread += 1;
        });
    }

    /// Whether the other hart has entries that may become free.
    fn shares_room(&self, now: u64) -> bool {
        let other_hart = self.other_hart.as_ref();
        other_hart.is_some_and(|other| other.is_leaving(now) || !other.window.all_known())
    }

    /// The stores of both harts that are due at `now`. They are performed through one port, and that
    /// hart goes first which did not perform one the last time. A store that has waited for a line is
    /// performed when it comes, with the port taken or not, lest others take the line first.
    pub(crate) fn perform_due_stores(&mut self, now: u64, outbox: &mut Outbox) {
        let Some(other_hart) = &self.other_hart else {
            if self.store_event <= now {
                self.perform_stores(now, outbox);
            }
            return;
        };
        let own = (self.stores.last_performed, self.thread);
        let other = (other_hart.stores.last_performed, self.thread ^ 1);
        for (_, thread) in [own.min(other), own.max(other)] {
            self.with_hart(thread, |core| {
                let other = core.other_hart.as_ref();
                if core.store_event > now {
                    return;
                }
                if other.is_some_and(|other| other.stores.last_performed == now) {
                    core.store_event = now + 1;
                } else {
                    core.perform_stores(now, outbox);
                }
            });
        }
    }

    /// Both harts can dispatch at `now`, and nothing comes before `stop`.
    fn share_cycle(&mut self, now: u64, stop: u64, outbox: &mut Outbox) {
        let own = self.window.waiting(now);
        let Some(other_hart) = &mut self.other_hart else {
            return;
        };
        let other = other_hart.window.waiting(now);
        let first = match own.cmp(&other) {
            std::cmp::Ordering::Less => self.thread,
            std::cmp::Ordering::Greater => self.thread ^ 1,
            std::cmp::Ordering::Equal => self.went_first ^ 1,
        };
        let until = stop.min(now + 1);
        let one = self.dispatch_one_hart(first, now, until, outbox);
        let two = self.dispatch_one_hart(first ^ 1, now, until, outbox);
        if one > 0 && two > 0 {
            self.went_first = first;
        }
    }

    /// Lets one hart dispatch from `now` until `until`, in which the other one does not, or in what is
    /// left of the cycle `now`. Returns how many instructions it dispatched in that cycle, if no more.
    fn dispatch_one_hart(&mut self, thread: u8, now: u64, until: u64, outbox: &mut Outbox) -> u8 {
        self.switch_to(thread);
        let Some(other_hart) = &mut self.other_hart else {
            return 0;
        };
        let leaving = other_hart.is_leaving(now);
        self.window.share_with(other_hart.window.occupied(now));
        self.loads.share_with(other_hart.loads.occupied(now));
        self.stores.share_with(other_hart.stores.occupied());
        self.other_hart_watches = other_hart.reservation.is_some()
            || other_hart.loads.occupied(now) > 0
            || other_hart.blocked && other_hart.stall == Stall::StoreBuffer;
        self.spin.enabled = self.spin.wanted && other_hart.sleeps(now);
        // As long as it is known that entries become free, room has to be looked for each cycle.
        let left = if self.slots.0 == now {
            self.slots.1
        } else {
            self.spec.width
        };
        let one_cycle = leaving || left < self.spec.width;
        let until = until.min(self.other_event());
        self.stop = if one_cycle { until.min(now + 1) } else { until };
        let before = self.window.tail;
        self.cycle_width = left;
        self.dispatch_left = left;
        if !self.begin_trap() {
            if left > 0 {
                self.dispatch(outbox);
            } else {
                // Who is held up already is so until it dispatches.
                if self.stall == Stall::None {
                    self.held_up(Stall::OtherHart);
                }
                self.dispatch_cycle = now + 1;
            }
        }
        self.cycle_width = self.spec.width;
        // Fetch ends with a taken branch for this hart alone. In later cycles the other one does not
        // dispatch.
        let dispatched = self.window.tail.saturating_sub(before).min(left.into()) as u8;
        self.slots = (now, left - dispatched);
        if leaving {
            if self.blocked {
                self.blocked = false;
                self.dispatch_cycle = now + 1;
            } else if self.stall.is_for_room() {
                self.dispatch_cycle = self.dispatch_cycle.min(now + 1);
            }
        }
        dispatched
    }

    /// The hart in the core has written these bytes, at `now`: the other one's reservation of their
    /// line is gone, and its loads must not have read them too early.
    #[inline]
    pub(crate) fn tell_other_hart(&mut self, now: u64, address: u64, bytes: u8) {
        let line = LineAddress::of(address);
        let Some(other_hart) = &self.other_hart else {
            return;
        };
        if !other_hart.minds(line) {
            return;
        }
        self.with_hart(self.thread ^ 1, |core| {
            if core.reservation == Some(line) {
                core.lose_reservation(line, now);
                // It may wait for this.
                if core.serial.is_some() {
                    core.serial_event = core.serial_event.min(now);
                }
            }
            core.look_again(now, |load| {
                overlap(load.address, load.bytes, address, bytes)
            });
        });
    }

    /// What has been decoded is forgotten: nobody knows where the next instruction is.
    pub(crate) fn forget_cursors(&mut self) {
        self.cursor = NOWHERE;
        if let Some(other_hart) = &mut self.other_hart {
            other_hart.cursor = NOWHERE;
        }
    }
}
