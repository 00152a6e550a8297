//! A core: its state, and how its time advances.
//!
//! Instructions are taken in program order along the predicted path. One whose operands are known
//! is executed immediately: its issue, completion and commit cycles are computed from the cycles of
//! its operands, of the ports and of the reorder buffer. One that needs an unknown value, because a
//! load has missed, is *deferred*: it waits in its slot of the window until the value arrives,
//! while younger ones continue. A branch among them follows its prediction, and younger
//! instructions are squashed if the prediction was wrong.
//!
//! The *dispatch cycle* is the core's clock. Events of a cycle (a message from the fabric, a store
//! that performs) are handled before anything is dispatched in that cycle, and in the order of
//! cycles. A core's behaviour therefore depends only on the times of its messages, never on how far
//! it was allowed to run ahead.

mod delivery;
mod squash;
mod view;

use crate::blocks::{Blocks, NOWHERE};
use crate::extension::Extension;
use crate::hart::HartState;
use crate::kind::{CoreKind, Place};
use crate::ports::Calendar;
use crate::predictor::Predictor;
use crate::spec::{CoreSpec, Model};
use crate::spin::SpinSkip;
use crate::stack::{CycleStack, Stall};
use crate::supply::Supplier;
use crate::thread_policy::ThreadPolicy;
use crate::translation::Translation;
use fabric::{
    AddressRange, CacheId, Clock, CoreId, DeliveryKind, Inbox, LineAddress, MemoryMap, Observation,
    Outbox, Prefetching, PrivateCache, SecondLevel, Time, ToCache,
};
use riscv::{Attempts, Hart, Privilege, SINK, Trap};
use state::Walker;
use std::collections::VecDeque;

/// The integer and the floating-point registers and [`riscv::SINK`] are 65; with an entry for every
/// `u8`, no access needs a bounds check.
pub(crate) const REGISTERS: usize = 256;

/// The number of those that instructions name.
pub(crate) const NAMED_REGISTERS: usize = SINK as usize + 1;

/// The cycle that never comes.
pub const NEVER: u64 = u64::MAX;

/// The cycles for which a core keeps a line reserved by `LR`, so that the following `SC` can
/// succeed (the specification requires eventual success of short sequences).
pub(crate) const RESERVATION_HOLD_CYCLES: u64 = 64;

/// A load that has missed and waits for its line.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
pub(crate) struct MissingLoad {
    pub line: LineAddress,
    pub index: u32,
    /// It has not been squashed.
    pub live: bool,
    #[state(cycle)]
    pub issue: u64,
}

/// The event that a waiting load waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub(crate) enum WaitsFor {
    /// A store's address and data.
    StoreKnown(u64),
    /// A store to be performed.
    StorePerformed(u64),
}

/// A load that cannot access its value yet.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
pub(crate) struct WaitingLoad {
    pub until: WaitsFor,
    pub index: u32,
    #[state(cycle)]
    pub issue: u64,
}

/// An unanswered store to a device.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
pub(crate) struct PostedStore {
    pub token: u64,
    pub address: u64,
    pub pc: u64,
    /// The instruction's encoding.
    pub bits: u32,
}

/// The cause of a guest's crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub enum Why {
    /// A trap that no handler of the guest takes.
    Trap(Trap),
    /// A loop whose `SC`s fail for ever.
    Conditionals(Attempts),
}

/// A crash of the guest.
#[derive(Clone, Debug, PartialEq, Eq, state::State, state::Plain)]
pub struct Crash {
    /// The cycle.
    #[state(cycle)]
    pub cycle: u64,
    /// The number of the hart.
    pub hart: u64,
    /// The cause.
    pub why: Why,
    /// The program counter.
    pub pc: u64,
    /// The 32 integer registers.
    pub registers: [u64; 32],
    /// The instruction's encoding, if it could be fetched.
    pub instruction: Option<u32>,
}

/// The number of entries of [`Shared::wait_table`].
pub(crate) const WAIT_TABLE_ENTRIES: usize = 1024;

state::declare! {
    /// The state that the harts of a core share.
    pub(crate) struct Shared {
        pub spec: CoreSpec => fixed = spec.clone(),
        pub id: CoreId => fixed = id,
        pub clock: Clock => fixed = clock,
        pub memory_map: MemoryMap => fixed = memory_map.clone(),

        /// The dispatch cycle may reach neither this nor `store_event` before events have been
        /// handled.
        pub stop: u64 => exact cycle = 0,
        /// The minimum number of cycles from a message's departure to the fabric's answer.
        pub feedback: u64 => exact = 0,
        pub policy: ThreadPolicy => exact = ThreadPolicy::default(),
        /// With several harts: a cycle, and the remaining width in it.
        pub shared_cycle: u64 => exact cycle = NEVER,
        pub shared_left: u8 => exact = 0,
        /// The width available to a hart in the first cycle in which it dispatches.
        pub cycle_width: u8 => fixed = spec.width,
        /// A store may affect another hart of the core.
        pub others_watch: bool => fixed = false,

        pub blocks: Blocks => fixed = Blocks::new(&calendar, spec.memory_model),
        pub calendar: Calendar => exact = calendar,
        /// The number of instructions dispatched and not issued before `scheduler_cycle`.
        pub in_scheduler: u32 = 0,
        /// The number of those whose issue cycle is unknown.
        pub unissued: u32 = 0,
        pub scheduler_cycle: u64 => cycle = 0,
        pub predictor: Predictor = Predictor::new(&spec.predictor),
        /// The `pc` of loads that once passed a store that they depended on, as bits (the wait
        /// table of the Alpha 21264). Two copies of it are never compared.
        pub wait_table: Box<[bool; WAIT_TABLE_ENTRIES]> = Box::new([false; WAIT_TABLE_ENTRIES]),

        pub instruction_cache: PrivateCache => exact =
            PrivateCache::new(&spec.l1_instruction, CacheId::instruction(id)),
        pub data_cache: PrivateCache =
            PrivateCache::new(&spec.l1_data, CacheId::data(id)),
        /// The prefetcher of the data cache.
        pub data_prefetching: Option<Box<Prefetching>> => inside = None,
        /// The prefetcher of the instruction cache.
        pub instruction_prefetching: Option<Box<Prefetching>> => inside = None,
        /// TLBs and page walkers: from the beginning if they are described, and otherwise from when
        /// a hart first has page tables.
        pub translation: Option<Box<Translation>> => inside = Translation::of(&spec.translation),
        pub second_level: Option<Box<SecondLevel>> => inside = spec
            .l2
            .as_ref()
            .map(|l2| {
                SecondLevel::with_prefetcher(l2, CacheId::data(id), clock, &memory_map)
            })
            .map(Box::new),
        /// The time at which the second level has a line for the first level.
        pub second_level_event: u64 => cycle = NEVER,
        /// Hinted lines that wait for miss registers, oldest first.
        pub stashes: VecDeque<(LineAddress, bool)> = VecDeque::new(),
        /// Messages that were released while a fill was being handled, and are delivered
        /// afterwards; empty otherwise.
        pub postponed: Vec<(LineAddress, ToCache)> => fixed = Vec::new(),
        /// Missing loads whose line has just arrived; empty otherwise.
        pub arrived: Vec<MissingLoad> => fixed = Vec::new(),

        pub next_token: u64 => exact = 0,
        pub watch: AddressRange => fixed = AddressRange::default(),
        /// Stores performed to watched addresses, for the server to take.
        pub observations: Vec<Observation> => fixed = Vec::new(),
        /// Hardware outside of the core that gets the values of some loads: see [`crate::supply`].
        pub supplier: Option<Box<dyn Supplier>> => fixed = None,
        /// Set when the guest has crashed; the core then stops.
        pub crash: Option<Crash> = None,
        pub spin: SpinSkip => fixed = SpinSkip::default(),
    }

    fn new(
        spec: &CoreSpec,
        id: CoreId,
        clock: Clock,
        memory_map: MemoryMap,
        calendar: Calendar,
    );
}

/// A core with one hart or several. The code handles one hart, the one in `hart`; the others wait
/// in `others`. See [`crate::threads`].
pub struct Core<K: CoreKind> {
    pub(crate) shared: Shared,
    /// The current hart.
    pub(crate) hart: K::Place<HartState>,
    /// With several harts: the others by hardware thread, with a gap for the current one.
    pub(crate) others: Vec<Option<K::Place<HartState>>>,
}

impl<K: CoreKind> state::State for Core<K> {
    fn walk(&mut self, walker: &mut dyn Walker) {
        // Unsaved state belongs to a hart, not to its place.
        let mut thread = self.hart.thread;
        thread.walk(walker);
        self.switch_to(thread);
        self.walk_whether_translated(walker);
        self.shared.walk(walker);
        self.for_each_hart(|core| {
            core.hart.walk(walker);
            // Probes are not saved: the caller decides whether to attach any.
            core.look_for_observers();
        });
        let Shared {
            blocks,
            calendar,
            spin,
            predictor,
            ..
        } = &mut self.shared;
        blocks.walk(calendar, walker);
        spin.walk((predictor, &self.hart.branches), walker);
    }
}

impl<K: CoreKind> Core<K> {
    /// A core whose harts start at `entry` with their numbers, `harts`, in `a0`: one for each of
    /// its hardware threads.
    pub fn new(
        spec: &CoreSpec,
        id: CoreId,
        clock: Clock,
        memory_map: MemoryMap,
        extension: &dyn Extension,
        harts: &[u64],
        entry: u64,
    ) -> Self {
        debug_assert_eq!(K::IS_ACTIVE, extension.is_active());
        debug_assert_eq!(K::IN_ORDER, spec.model == Model::InOrder);
        debug_assert_eq!(K::MULTITHREADED, spec.threads > 1);
        debug_assert_eq!(harts.len(), usize::from(spec.threads));
        let hart = |thread: usize| {
            let number = harts.get(thread).copied().unwrap_or_default();
            let mut extension = extension.copy();
            extension.place(id, number);
            K::Place::of(HartState::new(spec, thread as u8, number, extension, entry))
        };
        let others = match harts.len() {
            0 | 1 => Vec::new(),
            threads => (0..threads)
                .map(|thread| (thread > 0).then(|| hart(thread)))
                .collect(),
        };
        let mut core = Core {
            shared: Shared::new(spec, id, clock, memory_map, Calendar::new(spec)),
            hart: hart(0),
            others,
        };
        core.attach_prefetchers();
        core
    }

    /// Determines whether the general path must be taken because something observes the window:
    /// floating-point flags, a probe, the recording of branches, a delivery that waits for a
    /// safepoint, or a debugger that steps. Translation and the prefetchers of the first-level
    /// caches only affect memory accesses.
    pub(crate) fn look_for_observers(&mut self) {
        let observes_window = self.hart.float_in_window
            || self.hart.probed.is_some()
            || self.shared.spin.records_branches()
            || self.hart.awaits_safepoint
            || self.hart.debug.as_ref().is_some_and(|debug| debug.steps());
        self.hart.observes_window = observes_window;
        self.hart.observes = observes_window
            || self.shared.data_prefetching.is_some()
            || self.shared.instruction_prefetching.is_some()
            || self.translates();
    }

    /// Sets an integer register of all harts before the core starts.
    pub fn set_register(&mut self, register: usize, value: u64) {
        if (1..32).contains(&register) {
            self.for_each_hart(|core| core.hart.registers[register] = value);
        }
    }

    /// Starts the hart from the state of another simulator, before the core starts: with its CSRs,
    /// `x0` to `x31` and `f0` to `f31`.
    pub fn begin(&mut self, hart: &Hart, pc: u64, registers: &[u64; 64]) {
        self.hart.privileged = hart.clone();
        self.hart.pc = pc;
        self.hart.registers[..64].copy_from_slice(registers);
        self.translation_may_change();
    }

    /// Reports every store performed to `range` in
    /// [`CoreModel::observations`](crate::CoreModel::observations).
    pub fn watch(&mut self, range: AddressRange) {
        self.shared.watch = range;
    }

    /// Turns the skipping of spinning on or off. It never changes a result.
    pub fn set_skip_spinning(&mut self, on: bool) {
        let probed = self.harts().any(|hart| hart.probed.is_some());
        let supplied = self.shared.supplier.is_some();
        self.shared.spin.allow(on && !probed && !supplied);
    }

    /// The cycle of the core's next externally visible action, with the messages in `inbox`, or
    /// [`NEVER`] if only another message can wake it.
    pub fn next_cycle(&self, inbox: &Inbox) -> u64 {
        let (own, delivery) = if self.shared.crash.is_some() {
            (NEVER, inbox.next_at())
        } else if self.dozes() {
            (self.hart.extension_event::<K>(), self.next_delivery(inbox))
        } else if self.is_multithreaded() {
            (self.next_dispatch().min(self.own_event()), inbox.next_at())
        } else if self.hart.serial.is_some() {
            (self.own_event(), self.next_delivery(inbox))
        } else if self.hart.blocked {
            (self.own_event(), inbox.next_awaited_at())
        } else {
            (
                self.hart.dispatch_cycle.min(self.own_event()),
                self.next_delivery(inbox),
            )
        };
        own.min(self.shared.clock.cycle_at_or_after(delivery))
    }

    /// The time of the next message that the core has to take in its time. The acknowledgement of
    /// an eviction matters only to later messages about the line, unless it may end an eviction of
    /// the second level.
    #[inline(always)]
    fn next_delivery(&self, inbox: &Inbox) -> Time {
        match self.shared.second_level {
            None => inbox.next_awaited_at(),
            Some(_) => inbox.next_at(),
        }
    }

    /// Takes the acknowledgements of evictions that come before `limit` and before all other
    /// messages.
    #[inline(always)]
    fn take_acknowledgements(&mut self, limit: u64, inbox: &mut Inbox) {
        if self.shared.second_level.is_some() {
            return;
        }
        while let Some(delivery) = inbox.first()
            && let DeliveryKind::Cache {
                cache,
                line,
                message: ToCache::PutAck,
            } = delivery.kind
            && self.shared.clock.cycle_at_or_after(delivery.at) < limit
        {
            let is_data = cache == CacheId::data(self.shared.id);
            let cache = match is_data {
                true => &mut self.shared.data_cache,
                false => &mut self.shared.instruction_cache,
            };
            cache.acknowledge(line);
            inbox.remove_first();
        }
    }

    /// The cycle of the next event other than dispatch.
    pub(crate) fn own_event(&self) -> u64 {
        self.hart.store_event.min(self.other_event())
    }

    /// The cycle of the next event other than dispatch and the current hart's stores.
    pub(crate) fn other_event(&self) -> u64 {
        let others = self.others().map(|other| other.own_event::<K>());
        self.hart
            .other_event::<K>()
            .min(self.shared.second_level_event)
            .min(others.min().unwrap_or(NEVER))
    }

    /// Runs the core up to cycle `limit`, with the messages in `inbox`; messages to the fabric go
    /// to `outbox`. If the core sends a message, it stops `feedback` cycles after the first
    /// departure, when the fabric could answer.
    pub fn run(&mut self, limit: u64, feedback: u64, inbox: &mut Inbox, outbox: &mut Outbox) {
        if self.is_multithreaded() {
            return self.run_threads(limit, feedback, inbox, outbox);
        }
        self.shared.feedback = feedback;
        let mut limit = limit;
        let mut sent = outbox.messages.len();
        let mut delivery = self
            .shared
            .clock
            .cycle_at_or_after(self.next_delivery(inbox));
        while self.shared.crash.is_none() {
            let event = delivery.min(self.own_event());
            if self.dozes() {
                if event >= limit {
                    break;
                }
                self.wake_up(event);
            }
            let waiting = self.hart.waits();
            if waiting || event <= self.hart.dispatch_cycle {
                if event >= limit {
                    break;
                }
                let blocked = self.hart.blocked && self.hart.serial.is_none();
                if event < delivery
                    && event == self.hart.store_event
                    && (!waiting || blocked && self.hart.stall == Stall::Miss)
                    && self.perform_store_at_once(event)
                {
                    // Instructions that wait for a line still wait.
                    continue;
                }
                self.hart.blocked = false;
                self.advance_scheduler(event);
                if event == delivery {
                    self.take_acknowledgements(NEVER, inbox);
                    if let Some(delivery) = inbox.first() {
                        // The acknowledgement of an eviction ends no stall.
                        self.hart.blocked = blocked && delivery.kind.is_acknowledgement();
                        self.deliver(event, &delivery.kind, outbox);
                        inbox.remove_first();
                    }
                    delivery = self
                        .shared
                        .clock
                        .cycle_at_or_after(self.next_delivery(inbox));
                } else {
                    self.own_events(event, outbox);
                }
                if self.hart.serial.is_some() {
                    self.run_serial(event, outbox);
                } else if waiting && event > self.hart.dispatch_cycle {
                    self.hart.dispatch_cycle = event;
                    self.hart.dispatch_left = self.shared.spec.width;
                }
            } else if self.hart.dispatch_cycle >= limit {
                break;
            } else {
                self.shared.stop = limit.min(delivery).min(self.other_event());
                if !self.begin_trap() {
                    self.dispatch(outbox);
                }
            }
            if outbox.messages.len() > sent {
                for message in &outbox.messages[sent..] {
                    limit = limit.min(
                        self.shared
                            .clock
                            .cycle_at_or_after(message.at)
                            .saturating_add(feedback),
                    );
                }
                sent = outbox.messages.len();
            }
        }
        self.take_acknowledgements(limit, inbox);
    }

    pub(crate) fn own_events(&mut self, now: u64, outbox: &mut Outbox) {
        self.perform_due_stores(now, outbox);
        if self.shared.second_level_event <= now {
            self.second_level_found(now, outbox);
        }
        self.for_each_hart(|core| {
            if K::IS_ACTIVE && core.hart.extension.next_event() <= now {
                core.shared.spin.disturb();
                core.hart.extension.event(now);
                core.extension_has_changed(now, outbox);
            }
            if core.hart.serial_event <= now {
                core.hart.serial_event = NEVER;
            }
            if core.hart.hold_until <= now && !core.hart.held.is_empty() {
                core.release_held(now, outbox);
            }
        });
    }

    /// The departure of a message that is caused at `now` and follows a cache look-up.
    #[inline]
    pub(crate) fn departure(&self, now: u64, hit_latency_cycles: u64) -> Time {
        if self.shared.spec.perfect_first_level {
            return self.shared.clock.time(now);
        }
        self.shared.clock.time(now + hit_latency_cycles)
    }

    /// Whether the hart runs in user mode.
    pub(crate) fn is_user(&self) -> bool {
        self.hart.privileged.privilege == Privilege::User
    }

    /// Whether an access to `address` is to plain memory that this hart may write, inside one line,
    /// and does not trap for its alignment.
    #[inline]
    pub(crate) fn is_plain(&mut self, address: u64, bytes: u8) -> bool {
        if !self.hart.is_in_one_piece(address, bytes) {
            return false;
        }
        if self.hart.region.contains(address) {
            return true;
        }
        match self
            .shared
            .memory_map
            .memory_around(address, self.is_user())
        {
            Some(range) => {
                self.hart.region = range;
                true
            }
            None => false,
        }
    }

    /// Removes instructions from the scheduler that were to issue before `cycle`.
    #[inline(always)]
    pub(crate) fn advance_scheduler(&mut self, cycle: u64) {
        while self.shared.scheduler_cycle < cycle {
            if self.shared.in_scheduler == self.shared.unissued {
                self.shared.scheduler_cycle = cycle;
                return;
            }
            self.shared.in_scheduler -=
                u32::from(self.shared.calendar.issues(self.shared.scheduler_cycle));
            self.shared.scheduler_cycle += 1;
        }
    }

    /// Fetch continues at `pc`; its first instruction is dispatched at `cycle`.
    pub(crate) fn redirect(&mut self, pc: u64, cycle: u64) {
        self.hart.pc = pc;
        self.hart.cursor = NOWHERE;
        self.hart.dispatch_cycle = cycle;
        self.hart.dispatch_left = self.shared.spec.width;
        self.hart.fetch_buffer.give_up();
    }

    /// From cycle `from` on, cycles are charged to `stall`.
    pub(crate) fn blame(&mut self, from: u64, stall: Stall) {
        let hart = &mut *self.hart;
        let cycles = from.saturating_sub(hart.charged);
        hart.statistics.stack.add(hart.stall, cycles);
        hart.charged += cycles;
        hart.stall = stall;
    }

    /// Dispatch stalls in its cycle, because of `stall`.
    #[inline]
    pub(crate) fn held_up(&mut self, stall: Stall) {
        if self.hart.stall != stall {
            let dispatched = self.hart.dispatch_left != self.shared.cycle_width;
            self.blame(self.hart.dispatch_cycle + u64::from(dispatched), stall);
        }
    }

    /// Charges all cycles since the sample to `stall`: their work is squashed.
    pub(crate) fn blame_all_since(&mut self, (stack, charged): (CycleStack, u64), stall: Stall) {
        self.hart.statistics.stack = stack;
        self.hart.charged = charged;
        self.hart.stall = stall;
    }

    /// Dispatch has sent a message that departs at `at`: it must stop before a possible answer.
    #[inline]
    pub(crate) fn expect_answer(&mut self, at: Time) {
        let answer = self.shared.clock.cycle_at_or_after(at) + self.shared.feedback;
        self.shared.stop = self.shared.stop.min(answer);
    }

    pub(crate) fn front_end(&self) -> u64 {
        u64::from(self.shared.spec.front_end_cycles)
    }
}
