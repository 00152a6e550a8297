//! A core: its state, and how its time advances.
//!
//! Instructions are taken in program order along the predicted path. One whose operands are known
//! is executed at once: its issue, completion and commit cycles are arithmetic on the cycles of
//! its operands, of the ports and of the reorder buffer. One that needs a value that is not known
//! yet, because a load has missed, is *deferred*: it waits in its slot of the window until the
//! value arrives, while younger ones go on; a branch among them is followed as predicted, and
//! undone if the prediction proves wrong.
//!
//! The *dispatch cycle* is the core's clock. What happens at a given cycle (a message from the
//! fabric, a store that is performed) is done before anything is dispatched in that cycle, and in
//! the order of the cycles. So what a core does depends on the times of its messages alone, never
//! on how far it was allowed to run in one go.

use crate::blocks::{Blocks, NOWHERE};
use crate::extension::Extension;
use crate::port::AtPort;
use crate::ports::Calendar;
use crate::predictor::{BranchStep, Predictor};
use crate::probe::Probed;
use crate::queues::{LoadQueue, StoreKind, StoreQueue};
use crate::serializing::Serializing;
use crate::skip::SpinSkip;
use crate::spec::{CoreSpec, Model};
use crate::stack::{CycleStack, Stall};
use crate::statistics::CoreStatistics;
use crate::threads::OtherHart;
use crate::window::{SlotKind, UNKNOWN, Window};
use fabric::{
    AddressRange, CacheId, CacheNotice, Clock, CoreId, DeliveryKind, Inbox, LineAddress, LineData,
    MemoryMap, Observation, Outbox, PrivateCache, SecondLevel, SecondLevelStatistics, State, Time,
    ToCache,
};
use riscv::{Attempts, Hart, Privilege, SINK, Trap};
use state::Walker;
use std::collections::VecDeque;

/// The integer and the floating-point registers and [`riscv::SINK`] are 65; with a place for every
/// `u8`, no access has to be checked.
pub(crate) const REGISTERS: usize = 256;

/// Never, in cycles.
pub const NEVER: u64 = u64::MAX;

/// How many cycles a line that `LR` has reserved is kept from others, so that the `SC` that
/// follows can succeed (the specification asks for eventual success of short sequences).
pub(crate) const RESERVATION_HOLD_CYCLES: u64 = 64;

/// A load that has missed and waits for its line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingLoad {
    pub line: LineAddress,
    pub index: u32,
    /// It has not been squashed.
    pub live: bool,
    pub issue: u64,
}

state::plain!(MissingLoad {
    line,
    index,
    live,
    issue: cycle
});

/// What a waiting load waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// A store's address and data.
    StoreKnown(u64),
    /// A store to be performed.
    StorePerformed(u64),
}

state::choice!(WaitsFor { StoreKnown(number), StorePerformed(number) });

/// A load that cannot look for its value yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingLoad {
    pub until: WaitsFor,
    pub index: u32,
    pub issue: u64,
}

state::plain!(WaitingLoad {
    until,
    index,
    issue: cycle
});

/// A store to a device that has been sent and after which the core has gone on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostedStore {
    pub token: u64,
    pub address: u64,
    pub pc: u64,
    /// The instruction's encoding.
    pub bits: u32,
}

state::plain!(PostedStore {
    token,
    address,
    pc,
    bits
});

/// Why a guest has crashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A trap that no handler of the guest takes.
    Trap(Trap),
    /// Its `SC`s fail for ever.
    Conditionals(Attempts),
}

state::choice!(Why { Trap(trap), Conditionals(attempts) });

/// The guest has crashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    /// In which cycle.
    pub cycle: u64,
    /// Which hart.
    pub hart: u64,
    /// Why.
    pub why: Why,
    /// Where.
    pub pc: u64,
    /// The 32 integer registers.
    pub registers: [u64; 32],
    /// The instruction's encoding, if it could be fetched.
    pub instruction: Option<u32>,
}

state::plain!(Crash {
    cycle: cycle,
    hart,
    why,
    pc,
    registers,
    instruction
});

/// Two sets of tables are never needed: `pc` of loads that once ran ahead of a store that they
/// depended on, as bits (the wait table of the Alpha 21264).
pub(crate) const WAIT_TABLE_ENTRIES: usize = 1024;

/// A core with one hart, or with two: then the state of one of them is here, and that of the other in
/// `other_hart`. See [`crate::threads`].
///
/// `IN_ORDER` chooses the model at compile time; see [`Model`].
pub struct Core<X, const IN_ORDER: bool> {
    pub(crate) spec: CoreSpec,
    pub(crate) id: CoreId,
    pub(crate) clock: Clock,
    pub(crate) memory_map: MemoryMap,
    /// Which of its harts the core is now.
    pub(crate) thread: u8,
    /// The other one.
    pub(crate) other_hart: Option<Box<OtherHart<X>>>,
    /// Of two harts: which went first in the last cycle that they shared.
    pub(crate) went_first: u8,
    /// A cycle, and how much of its width is left.
    pub(crate) slots: (u64, u8),
    /// The width that this hart has in the first cycle of its turn.
    pub(crate) cycle_width: u8,
    /// A store may mean something to the other hart.
    pub(crate) other_hart_watches: bool,
    /// The region of memory that was used last.
    pub(crate) region: AddressRange,
    pub(crate) hart: Hart,
    pub(crate) extension: X,
    /// An instruction at the extension's port that is not done.
    pub(crate) at_port: Option<AtPort>,
    /// The position from which on the hart is in the handler of the last tracked delivery.
    pub(crate) handler_from: u64,

    pub(crate) registers: [u64; REGISTERS],
    /// When each register's value can be used; at [`UNKNOWN`] and above: whose result it will be.
    pub(crate) ready: [u64; REGISTERS],
    pub(crate) pc: u64,
    /// Where the next instruction is in the decoded blocks.
    pub(crate) cursor: u32,
    pub(crate) dispatch_cycle: u64,
    pub(crate) dispatch_left: u8,
    pub(crate) last_issue: u64,
    /// The dispatch cycle may not reach this before events have been handled; nor `store_event`.
    pub(crate) stop: u64,
    /// The fabric may answer a message so many cycles after its departure.
    pub(crate) feedback: u64,
    /// Dispatch can do nothing until something else has happened.
    pub(crate) blocked: bool,

    pub(crate) window: Window,
    pub(crate) calendar: Calendar,
    /// Dispatched and not issued before `scheduler_cycle`.
    pub(crate) in_scheduler: u32,
    /// Those of them whose issue cycle is not known.
    pub(crate) unissued: u32,
    pub(crate) scheduler_cycle: u64,
    pub(crate) float_in_window: bool,
    /// Somebody wants to know what goes through the window: see [`Core::is_observed`].
    pub(crate) observes: bool,
    pub(crate) probed: Option<Box<Probed>>,
    /// An atomic with acquire semantics that has not been performed: position.
    pub(crate) acquire: Option<u64>,

    pub(crate) predictor: Predictor,
    /// What branches have done since a sample point, and whether that is being recorded.
    pub(crate) branch_steps: Vec<BranchStep>,
    pub(crate) records_branches: bool,
    pub(crate) blocks: Blocks,
    pub(crate) instruction_cache: PrivateCache,
    pub(crate) data_cache: PrivateCache,
    pub(crate) second_level: Option<Box<SecondLevel>>,
    /// When the second level has a line for the first.
    pub(crate) second_level_event: u64,
    pub(crate) loads: LoadQueue,
    pub(crate) stores: StoreQueue,
    /// Lines to be fetched that have been hinted at, when there are miss registers, oldest first.
    pub(crate) stashes: VecDeque<LineAddress>,
    /// Messages that were released while a fill was being used, and are delivered when it has been
    /// finished; empty otherwise.
    pub(crate) postponed: Vec<(LineAddress, ToCache)>,
    pub(crate) missing: Vec<MissingLoad>,
    /// Those of them whose line has just come; empty otherwise.
    pub(crate) arrived: Vec<MissingLoad>,
    pub(crate) waiting_loads: Vec<WaitingLoad>,
    /// Loads that have missed while all miss registers were in use.
    pub(crate) refused: VecDeque<MissingLoad>,
    /// Slots whose last operand has just become known; empty otherwise.
    pub(crate) woken: Vec<u32>,
    pub(crate) wait_table: Box<[bool; WAIT_TABLE_ENTRIES]>,
    /// When the store queue wants attention.
    pub(crate) store_event: u64,
    pub(crate) serial: Option<Serializing>,
    pub(crate) serial_event: u64,
    /// Stores to devices that have not been answered, oldest first.
    pub(crate) posted: VecDeque<PostedStore>,
    /// The first that has been refused; the trap comes before the next instruction.
    pub(crate) refused_store: Option<PostedStore>,
    pub(crate) reservation: Option<LineAddress>,
    /// The line that the last instruction of Zawrs waited on, until the next `LR`.
    pub(crate) awaited: Option<LineAddress>,
    pub(crate) attempts: Attempts,
    /// Until when the reserved line is kept, and what waits for it.
    pub(crate) hold_until: u64,
    pub(crate) held: Vec<(LineAddress, ToCache)>,
    /// Counts everything that is not plain execution out of the caches.
    pub(crate) activity: u64,
    pub(crate) next_token: u64,
    /// How often the guest has asked for the time: what it does from then on may depend on that.
    pub(crate) clock_reads: u64,

    pub(crate) watch: AddressRange,
    /// Stores performed to watched addresses, for the server to take.
    pub observations: Vec<Observation>,
    /// Set when the guest has crashed; the core does nothing more.
    pub crash: Option<Crash>,
    pub(crate) statistics: CoreStatistics,
    /// See [`Core::skipped_cycles`]. Neither compared nor written down: it is the host's.
    pub(crate) skipped_cycles: u64,
    /// What holds up dispatch now, and up to where the cycles have been charged.
    pub(crate) stall: Stall,
    pub(crate) charged: u64,
    pub(crate) spin: SpinSkip,
}

impl<X: Extension, const IN_ORDER: bool> state::State for Core<X, IN_ORDER> {
    fn walk(&mut self, walker: &mut dyn Walker) {
        // What is not written down of a hart belongs to it, and not to its place.
        let mut thread = self.thread;
        thread.walk(walker);
        self.switch_to(thread);
        state::fields!(
            self,
            walker,
            Core {
                spec: fixed,
                id: fixed,
                clock: fixed,
                memory_map: fixed,
                thread: fixed,
                other_hart: inside,
                went_first,
                slots: fixed,
                cycle_width: fixed,
                other_hart_watches: fixed,
                region,
                hart,
                extension: fixed,
                at_port,
                handler_from,
                registers,
                ready: cycles,
                pc,
                cursor,
                dispatch_cycle: cycle,
                dispatch_left,
                last_issue: cycle,
                stop: cycle,
                feedback,
                blocked,
                window,
                calendar,
                in_scheduler,
                unissued,
                scheduler_cycle: cycle,
                float_in_window,
                observes: fixed,
                probed: fixed,
                acquire,
                predictor,
                branch_steps: fixed,
                records_branches: fixed,
                blocks: fixed,
                instruction_cache,
                data_cache,
                second_level: inside,
                second_level_event: cycle,
                loads,
                stores,
                stashes,
                postponed: fixed,
                missing,
                arrived: fixed,
                waiting_loads,
                refused,
                woken: fixed,
                wait_table,
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
                activity,
                next_token,
                clock_reads: fixed,
                watch: fixed,
                observations: fixed,
                crash,
                statistics,
                skipped_cycles: fixed,
                stall,
                charged: cycle,
                spin: fixed,
            }
        );
        let (cycle, left) = &mut self.slots;
        walker.cycle(cycle);
        left.walk(walker);
        self.extension.walk(walker);
        self.blocks.walk(&self.calendar, walker);
        self.spin.walk(&self.predictor, walker);
        // Probes are not written down: they are there or not as the caller wants.
        self.observes = self.is_observed();
    }
}

impl<X: Extension, const IN_ORDER: bool> Core<X, IN_ORDER> {
    /// A core whose harts begin at `entry` with their numbers, `harts`, in `a0`: one for each of its
    /// hardware threads.
    pub fn new(
        spec: &CoreSpec,
        id: CoreId,
        clock: Clock,
        memory_map: MemoryMap,
        extension: X,
        harts: &[u64],
        entry: u64,
    ) -> Self
    where
        X: Clone,
    {
        debug_assert_eq!(IN_ORDER, spec.model == Model::InOrder);
        debug_assert_eq!(harts.len(), usize::from(spec.threads));
        let other_hart = harts.get(1).map(|&number| {
            let mut extension = extension.clone();
            extension.place(id, number);
            Box::new(OtherHart::new(spec, number, extension, entry))
        });
        let number = harts.first().copied().unwrap_or_default();
        let mut extension = extension;
        extension.place(id, number);
        let calendar = Calendar::new(spec);
        let mut registers = [0; REGISTERS];
        registers[10] = number;
        Core {
            id,
            clock,
            memory_map,
            thread: 0,
            other_hart,
            went_first: 0,
            slots: (NEVER, 0),
            cycle_width: spec.width,
            other_hart_watches: false,
            region: AddressRange::default(),
            hart: Hart::new(number),
            extension,
            at_port: None,
            handler_from: 0,
            registers,
            ready: [0; REGISTERS],
            pc: entry,
            cursor: NOWHERE,
            dispatch_cycle: 0,
            dispatch_left: spec.width,
            last_issue: 0,
            stop: 0,
            feedback: 0,
            blocked: false,
            window: Window::new(spec.rob_entries, spec.width),
            blocks: Blocks::new(&calendar, spec.memory_model),
            calendar,
            in_scheduler: 0,
            unissued: 0,
            scheduler_cycle: 0,
            float_in_window: false,
            observes: false,
            probed: None,
            acquire: None,
            predictor: Predictor::new(&spec.predictor),
            branch_steps: Vec::new(),
            records_branches: false,
            instruction_cache: PrivateCache::new(&spec.l1_instruction, CacheId::instruction(id))
                .replacing(spec.l1_replacement),
            data_cache: PrivateCache::new(&spec.l1_data, CacheId::data(id))
                .replacing(spec.l1_replacement),
            second_level: spec
                .l2
                .as_ref()
                .map(|l2| Box::new(SecondLevel::new(&l2.cache(), CacheId::data(id), clock))),
            second_level_event: NEVER,
            loads: LoadQueue::new(spec.load_queue_entries, spec.threads),
            stores: StoreQueue::new(spec.store_queue_entries),
            stashes: VecDeque::new(),
            postponed: Vec::new(),
            missing: Vec::new(),
            arrived: Vec::new(),
            waiting_loads: Vec::new(),
            refused: VecDeque::new(),
            woken: Vec::new(),
            wait_table: Box::new([false; WAIT_TABLE_ENTRIES]),
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
            activity: 0,
            next_token: 0,
            clock_reads: 0,
            watch: AddressRange::default(),
            observations: Vec::new(),
            crash: None,
            statistics: CoreStatistics::default(),
            skipped_cycles: 0,
            stall: Stall::None,
            charged: 0,
            spin: SpinSkip::default(),
            spec: spec.clone(),
        }
    }

    /// Whether somebody wants to know what goes through the window: for floating-point flags, a probe, or
    /// to record what branches do.
    pub(crate) fn is_observed(&self) -> bool {
        self.float_in_window || self.probed.is_some() || self.records_branches
    }

    /// Sets an integer register of all harts before the core starts.
    pub fn set_register(&mut self, register: usize, value: u64) {
        if (1..32).contains(&register) {
            self.for_each_hart(|core| core.registers[register] = value);
        }
    }

    /// Lets the hart go on from where it is elsewhere, before the core starts: with its CSRs, `x0` to
    /// `x31` and `f0` to `f31`.
    pub fn begin(&mut self, hart: &Hart, pc: u64, registers: &[u64; 64]) {
        self.hart = hart.clone();
        self.pc = pc;
        self.registers[..64].copy_from_slice(registers);
    }

    /// Reports every store performed to `range` in [`Core::observations`].
    pub fn watch(&mut self, range: AddressRange) {
        self.watch = range;
    }

    /// Turns the skipping of spinning on or off. It never changes a result.
    pub fn set_skip_spinning(&mut self, on: bool) {
        let other = self.other_hart.as_ref();
        let probed = self.probed.is_some() || other.is_some_and(|other| other.probed.is_some());
        self.spin.allow(on && !probed);
    }

    /// Cycles between what a core does and the departure of the message that it causes: at least
    /// the time to look into its cache.
    pub fn departure_cycles(spec: &CoreSpec) -> u64 {
        let second_level = spec.l2.as_ref();
        spec.l1_instruction
            .hit_latency_cycles
            .min(spec.l1_data.hit_latency_cycles)
            .min(second_level.map_or(NEVER, |l2| l2.hit_latency_cycles))
    }

    /// Counts of what the core has done before `cycle`: all its harts together.
    pub fn statistics(&self, cycle: u64) -> CoreStatistics {
        let mut statistics = self.hart_statistics(0, cycle);
        if self.other_hart.is_some() {
            statistics.join(&self.hart_statistics(1, cycle));
        }
        if let Some(second) = &self.second_level {
            let SecondLevelStatistics { hits, misses } = second.statistics();
            (statistics.l2_hits, statistics.l2_misses) = (hits, misses);
        }
        statistics
    }

    /// Instructions that its harts have dispatched and not undone.
    pub fn instructions(&self) -> u64 {
        let other_hart = self.other_hart.as_ref();
        let others = other_hart.map_or(0, |other| other.statistics.instructions);
        self.statistics.instructions + others
    }

    /// Cycles that were not simulated one by one because the core provably only spun. How many these are
    /// depends on how far the core is allowed to run, so they are no part of what it has done.
    pub fn skipped_cycles(&self) -> u64 {
        self.skipped_cycles
    }

    /// Counts of what one of its harts has done before `cycle`. What comes and goes between the core
    /// and the fabric is nobody's: of the lines and the second level only the sum over the harts has a
    /// meaning.
    pub fn hart_statistics(&self, thread: u8, cycle: u64) -> CoreStatistics {
        let (statistics, operations, serial, stall, charged) = match &self.other_hart {
            Some(other) if thread != self.thread => (
                &other.statistics,
                other.operations,
                &other.serial,
                other.stall,
                other.charged,
            ),
            _ => (
                &self.statistics,
                self.calendar.operations,
                &self.serial,
                self.stall,
                self.charged,
            ),
        };
        let mut statistics = statistics.clone();
        statistics.operations = operations;
        if let Some(since) = serial.as_ref().and_then(Serializing::halted_since) {
            statistics.halted_cycles += cycle.saturating_sub(since);
        }
        let stack = &mut statistics.stack;
        stack.add(stall, cycle.saturating_sub(charged));
        // A hart halts in instructions that are executed alone.
        stack.halted = statistics.halted_cycles;
        stack.serial = stack.serial.saturating_sub(stack.halted);
        statistics
    }

    /// What a trap of the core's extension means.
    pub fn explain(&self, trap: &Trap) -> Option<String> {
        self.extension.explain(trap)
    }

    /// The core's clock, in cycles.
    pub fn cycle(&self) -> u64 {
        self.dispatch_cycle
    }

    /// Where the hart of a hardware thread is.
    pub fn pc(&self, thread: u8) -> u64 {
        match &self.other_hart {
            Some(other) if thread != self.thread => other.pc,
            _ => self.pc,
        }
    }

    /// Whether all harts have halted of their own will and wait to be woken.
    pub fn is_halted(&self) -> bool {
        let other = self.other_hart.as_ref();
        let halted =
            |serial: &Option<Serializing>| serial.as_ref().is_some_and(Serializing::is_halted);
        halted(&self.serial) && other.is_none_or(|other| halted(&other.serial))
    }

    /// The core's newest copy of `line`, if it holds one, for checkers.
    pub fn copy_of(&self, line: LineAddress) -> Option<(State, LineData)> {
        let second = self.second_level.as_ref().map(|second| second.cache());
        [Some(&self.data_cache), second]
            .into_iter()
            .flatten()
            .find_map(|cache| {
                let slot = cache.find(line)?;
                Some((cache.state(slot), *cache.line(slot)))
            })
    }

    /// When the core next does something that others might notice, with the messages in `inbox`: a
    /// cycle, or [`NEVER`] if only another message can wake it.
    pub fn next_cycle(&self, inbox: &Inbox) -> u64 {
        let (own, delivery) = if self.crash.is_some() {
            (NEVER, inbox.next_at())
        } else if self.dozes() {
            (self.extension_event(), inbox.next_at())
        } else if self.other_hart.is_some() {
            (self.next_cycle_of_both(), inbox.next_at())
        } else if self.serial.is_some() {
            (self.own_event(), inbox.next_at())
        } else if self.blocked {
            (self.own_event(), inbox.next_awaited_at())
        } else {
            (self.dispatch_cycle.min(self.own_event()), inbox.next_at())
        };
        own.min(self.clock.cycle_at_or_after(delivery))
    }

    pub(crate) fn own_event(&self) -> u64 {
        self.store_event.min(self.other_event())
    }

    /// The same without the store queue of the hart that the core is.
    pub(crate) fn other_event(&self) -> u64 {
        let held = if self.held.is_empty() {
            NEVER
        } else {
            self.hold_until
        };
        self.serial_event
            .min(held)
            .min(self.second_level_event)
            .min(self.other_hart_event())
            .min(self.extension_event())
    }

    /// When the extension next does something by itself.
    #[inline(always)]
    fn extension_event(&self) -> u64 {
        if X::IS_ACTIVE {
            self.extension.next_event()
        } else {
            NEVER
        }
    }

    /// Does everything that happens before cycle `limit`, with the messages in `inbox`; whatever
    /// is for the fabric goes to `outbox`. If the core sends something, it stops `feedback`
    /// cycles after the first departure, for the fabric might answer then.
    pub fn run(&mut self, limit: u64, feedback: u64, inbox: &mut Inbox, outbox: &mut Outbox) {
        if self.other_hart.is_some() {
            return self.run_both(limit, feedback, inbox, outbox);
        }
        self.feedback = feedback;
        let mut limit = limit;
        let mut sent = outbox.messages.len();
        let mut delivery = self.clock.cycle_at_or_after(inbox.next_at());
        while self.crash.is_none() {
            let event = delivery.min(self.own_event());
            if self.dozes() {
                if event >= limit {
                    break;
                }
                self.wake_up(event);
            }
            let waiting = self.blocked || self.serial.is_some();
            if waiting || event <= self.dispatch_cycle {
                if event >= limit {
                    break;
                }
                let blocked = self.blocked && self.serial.is_none();
                if event < delivery
                    && event == self.store_event
                    && (!waiting || blocked && self.stall == Stall::Miss)
                    && self.perform_store_at_once(event)
                {
                    // What waits for a line waits still.
                    continue;
                }
                self.blocked = false;
                self.advance_scheduler(event);
                if event == delivery {
                    if let Some(delivery) = inbox.first() {
                        // Nobody is blocked by an eviction that has not ended.
                        self.blocked = blocked && delivery.kind.is_acknowledgement();
                        self.deliver(event, &delivery.kind, outbox);
                        inbox.remove_first();
                    }
                    delivery = self.clock.cycle_at_or_after(inbox.next_at());
                } else {
                    self.own_events(event, outbox);
                }
                if self.serial.is_some() {
                    self.run_serial(event, outbox);
                } else if waiting && event > self.dispatch_cycle {
                    self.dispatch_cycle = event;
                    self.dispatch_left = self.spec.width;
                }
            } else if self.dispatch_cycle >= limit {
                break;
            } else {
                self.stop = limit.min(delivery).min(self.other_event());
                if !self.begin_trap() {
                    self.dispatch(outbox);
                }
            }
            if outbox.messages.len() > sent {
                for message in &outbox.messages[sent..] {
                    limit = limit.min(
                        self.clock
                            .cycle_at_or_after(message.at)
                            .saturating_add(feedback),
                    );
                }
                sent = outbox.messages.len();
            }
        }
    }

    pub(crate) fn own_events(&mut self, now: u64, outbox: &mut Outbox) {
        self.perform_due_stores(now, outbox);
        if self.second_level_event <= now {
            self.second_level_found(now, outbox);
        }
        self.for_each_hart(|core| {
            if X::IS_ACTIVE && core.extension.next_event() <= now {
                core.activity += 1;
                core.extension.event(now);
                core.extension_has_changed(now, outbox);
            }
            if core.serial_event <= now {
                core.serial_event = NEVER;
            }
            if core.hold_until <= now && !core.held.is_empty() {
                core.release_held(now, outbox);
            }
        });
    }

    pub(crate) fn deliver(&mut self, now: u64, kind: &DeliveryKind, outbox: &mut Outbox) {
        self.activity += 1;
        match *kind {
            DeliveryKind::Cache {
                cache,
                line,
                ref message,
            } => {
                if cache == CacheId::instruction(self.id) {
                    self.instruction_message(now, line, message, outbox);
                    return;
                }
                if matches!(message, ToCache::PutAck) && self.second_level.is_none() {
                    // It concerns nothing but the cache.
                    self.data_cache.acknowledge(line);
                    return;
                }
                self.statistics.note_message(message);
                let mut held = false;
                self.for_each_hart(|core| {
                    if !held && core.is_held(now, line, message) {
                        core.held.push((line, *message));
                        held = true;
                    }
                });
                if !held {
                    self.data_message(now, line, message, outbox);
                }
            }
            DeliveryKind::Reply { token, result } => {
                self.for_each_hart(|core| core.replied_to(token, result));
            }
            DeliveryKind::Stash { line } => {
                self.stashes.push_back(line);
                self.fetch_stashes(now, outbox);
            }
            DeliveryKind::Notice { thread, header } => {
                if X::IS_ACTIVE && self.has_hart(thread) {
                    self.with_hart(thread, |core| {
                        core.extension.notice(now, header);
                        core.extension_has_changed(now, outbox);
                    });
                }
            }
            DeliveryKind::Interrupt { thread, bit, level } => {
                if self.has_hart(thread) {
                    self.with_hart(thread, |core| core.hart.set_interrupt(bit, level));
                }
            }
        }
    }

    fn has_hart(&self, thread: u8) -> bool {
        thread == self.thread || self.other_hart.is_some()
    }

    fn is_held(&self, now: u64, line: LineAddress, message: &ToCache) -> bool {
        self.reservation == Some(line)
            && now < self.hold_until
            && self.hold_until != NEVER
            && matches!(
                message,
                ToCache::Invalidate | ToCache::ForwardGetS { .. } | ToCache::ForwardGetM { .. }
            )
    }

    pub(crate) fn release_held(&mut self, now: u64, outbox: &mut Outbox) {
        self.hold_until = NEVER;
        if self.is_filling() {
            // A store that waited for the line of one hart may end the hold of another line.
            self.postponed.append(&mut self.held);
            return;
        }
        for (line, message) in std::mem::take(&mut self.held) {
            self.data_message(now, line, &message, outbox);
        }
    }

    /// Whether a line has come for data and its use has not ended.
    fn is_filling(&self) -> bool {
        match &self.second_level {
            None => self.data_cache.is_filling(),
            Some(second) => second.is_filling(),
        }
    }

    fn instruction_message(
        &mut self,
        now: u64,
        line: LineAddress,
        message: &ToCache,
        outbox: &mut Outbox,
    ) {
        let at = self.departure(now, self.spec.l1_instruction.hit_latency_cycles);
        let mut notice = self.instruction_cache.receive(line, message, at, outbox);
        while let CacheNotice::Filled { .. } = notice {
            // A line that may be used only once is fetched again; code that is being written
            // while it runs is rare enough.
            notice = self.instruction_cache.finish_fill(line, at, outbox);
        }
    }

    /// When a message leaves that is caused at `now` and for which a cache is looked into.
    #[inline]
    pub(crate) fn departure(&self, now: u64, hit_latency_cycles: u64) -> Time {
        self.clock.time(now + hit_latency_cycles)
    }

    /// Whether the hart runs in user mode.
    pub(crate) fn is_user(&self) -> bool {
        self.hart.privilege == Privilege::User
    }

    /// Whether an access to `address` is to plain memory, which this hart may write now, and inside
    /// one line.
    #[inline]
    pub(crate) fn is_plain(&mut self, address: u64, bytes: u8) -> bool {
        if address % 64 + u64::from(bytes) > 64 {
            return false;
        }
        if self.region.contains(address) {
            return true;
        }
        match self.memory_map.memory_around(address, self.is_user()) {
            Some(range) => {
                self.region = range;
                true
            }
            None => false,
        }
    }

    /// What was to issue before `cycle` has left the scheduler.
    #[inline(always)]
    pub(crate) fn advance_scheduler(&mut self, cycle: u64) {
        while self.scheduler_cycle < cycle {
            if self.in_scheduler == self.unissued {
                self.scheduler_cycle = cycle;
                return;
            }
            self.in_scheduler -= u32::from(self.calendar.issues(self.scheduler_cycle));
            self.scheduler_cycle += 1;
        }
    }

    /// At `now`, undoes everything from `position` on; fetch goes on at `pc`, to be dispatched
    /// from `cycle`.
    pub(crate) fn squash(&mut self, position: u64, now: u64, pc: u64, cycle: u64) {
        debug_assert!(
            position == self.window.tail || self.window.commit(position) > now,
            "an instruction is undone that has committed"
        );
        if X::IS_ACTIVE {
            self.undo_delivery(position);
            self.abandon_delivery(now);
        }
        let squashed = self.window.tail - position;
        self.activity += 1;
        self.statistics.squashed_instructions += squashed;
        self.statistics.instructions -= squashed;
        for _ in 0..squashed {
            self.report_undone(now);
            let slot = self.window.unpush();
            let at = self.window.tail;
            let index = self.window.index(at);
            let register = usize::from(slot.tags.rd);
            self.registers[register] = slot.previous_value;
            self.ready[register] = slot.previous_ready;
            if slot.previous_ready >= UNKNOWN {
                let producer = self
                    .window
                    .deferred((slot.previous_ready - UNKNOWN) as usize);
                if producer.resolved {
                    self.registers[register] = producer.value();
                    self.ready[register] = producer.ready();
                }
            }
            match slot.tags.kind {
                SlotKind::Plain => {}
                SlotKind::Load => self.loads.unpush(),
                SlotKind::Store | SlotKind::Atomic => self.stores.unpush(),
            }
            if slot.issue >= UNKNOWN {
                self.in_scheduler -= 1;
                self.unissued -= 1;
            } else if slot.issue > now {
                if !IN_ORDER {
                    self.in_scheduler -= 1;
                }
                self.calendar.cancel(slot.tags.unit, slot.issue);
            }
            let deferred = self.window.deferred_mut(index);
            if deferred.position == at {
                let waits = deferred.pending != 0;
                deferred.position = 0;
                deferred.resolved = true;
                if waits {
                    self.window.stop_waiting(index);
                }
            }
        }
        // Nobody ever waits for what is thrown away.
        self.ready[usize::from(SINK)] = 0;
        self.window.uncommit();
        let window = &self.window;
        self.waiting_loads
            .retain(|load| window.is_live(load.index as usize));
        self.refused
            .retain(|load| window.is_live(load.index as usize));
        for load in &mut self.missing {
            load.live &= window.is_live(load.index as usize);
        }
        if self.acquire.is_some_and(|acquire| acquire >= position) {
            self.acquire = self.youngest_acquire();
        }
        self.redirect(pc, cycle);
        if X::IS_ACTIVE && self.extension.wants_delivery().is_some() {
            // That comes before anything is dispatched.
            self.stop = cycle;
        }
        self.blocked = false;
        // The younger one of two is squashed, or it would not be the last one.
        self.at_port = None;
        // A serializing instruction behind the squashed ones was on the wrong path.
        self.serial = None;
        self.serial_event = NEVER;
    }

    /// Where the youngest atomic is that has not been performed and holds back the loads behind it.
    fn youngest_acquire(&self) -> Option<u64> {
        (self.stores.head..self.stores.tail)
            .rev()
            .map(|number| self.stores.get(number))
            .find(|store| store.kind == StoreKind::Atomic && self.acquires(&store.instruction))
            .map(|store| store.position)
    }

    /// Fetch goes on at `pc`; its first instruction is dispatched at `cycle`.
    pub(crate) fn redirect(&mut self, pc: u64, cycle: u64) {
        self.pc = pc;
        self.cursor = NOWHERE;
        self.dispatch_cycle = cycle;
        self.dispatch_left = self.spec.width;
    }

    /// From cycle `from` on, dispatch is held up by `stall`.
    pub(crate) fn blame(&mut self, from: u64, stall: Stall) {
        let cycles = from.saturating_sub(self.charged);
        self.statistics.stack.add(self.stall, cycles);
        self.charged += cycles;
        self.stall = stall;
    }

    /// Dispatch cannot go on in its cycle, because of `stall`.
    #[inline]
    pub(crate) fn held_up(&mut self, stall: Stall) {
        if self.stall != stall {
            let dispatched = self.dispatch_left != self.cycle_width;
            self.blame(self.dispatch_cycle + u64::from(dispatched), stall);
        }
    }

    /// Everything since then was in vain, because of `stall`.
    pub(crate) fn blame_all_since(&mut self, (stack, charged): (CycleStack, u64), stall: Stall) {
        self.statistics.stack = stack;
        self.charged = charged;
        self.stall = stall;
    }

    /// Dispatch has sent a message that departs at `at`: it may not go past a possible answer.
    #[inline]
    pub(crate) fn expect_answer(&mut self, at: Time) {
        let answer = self.clock.cycle_at_or_after(at) + self.feedback;
        self.stop = self.stop.min(answer);
    }

    pub(crate) fn front_end(&self) -> u64 {
        u64::from(self.spec.front_end_cycles)
    }
}
