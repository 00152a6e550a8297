//! The state of one hart.

use crate::blocks::NOWHERE;
use crate::core::{MissingLoad, NEVER, PostedStore, REGISTERS, WaitingLoad};
use crate::debug::Debugged;
use crate::departures::Departure;
use crate::extension::{Extension, PortRegisters};
use crate::fetch::FetchBuffer;
use crate::kind::CoreKind;
use crate::port::AtPort;
use crate::predictor::BranchContext;
use crate::probe::Probed;
use crate::queues::{LoadQueue, StoreQueue};
use crate::serializing::Serializing;
use crate::spec::CoreSpec;
use crate::stack::Stall;
use crate::statistics::CoreStatistics;
use crate::supply::Supplies;
use crate::translation::FetchedPage;
use crate::window::Window;
use fabric::{AddressRange, LINE_BYTES, LineAddress, ToCache};
use riscv::{Attempts, Hart};
use std::collections::VecDeque;

state::declare! {
    /// The private state of one hart. [`Shared`](crate::core::Shared) holds the state that the
    /// harts of a core share.
    pub(crate) struct HartState {
        /// The number of its hardware thread.
        pub thread: u8 => fixed = thread,
        /// Privilege mode and CSRs.
        pub privileged: Hart = Hart::new(number),
        /// The registers of the extension's port.
        pub port_registers: PortRegisters => fixed = extension.port_registers(),
        /// Behind a pointer, so that cores are compiled once for all extensions; only its own
        /// instructions, registers and events call it.
        pub extension: Box<dyn Extension> => own = extension,
        /// An instruction at the extension's port that has not completed.
        pub at_port: Option<AtPort> => exact = None,
        /// Tracked deliveries, and returns from handlers, that may have to be undone; oldest first.
        pub departures: VecDeque<Departure> => exact = VecDeque::new(),
        /// A delivery waits for a safepoint, which is checked before each dispatch.
        pub awaits_safepoint: bool => fixed = false,
        /// See [`alignment_mask`](crate::spec::MisalignedAccesses::alignment_mask).
        pub alignment_mask: u64 => fixed = spec.misaligned_accesses.alignment_mask(),
        /// The most recently used region of memory.
        pub region: AddressRange = AddressRange::default(),

        pub registers: [u64; REGISTERS] = first_registers(number),
        /// The cycle from which each register's value can be used; at
        /// [`UNKNOWN`](crate::window::UNKNOWN) and above, its producer.
        pub ready: [u64; REGISTERS] => apart cycles = [0; REGISTERS],
        pub pc: u64 = entry,
        /// The index of the next instruction in the decoded blocks.
        pub cursor: u32 = NOWHERE,
        /// With translation: the page of the last fetch, and the page after it, if an instruction
        /// crosses from one into the other.
        pub fetched: [FetchedPage; 2] = [FetchedPage::NONE; 2],
        pub fetch_buffer: Box<FetchBuffer> = Box::default(),
        pub dispatch_cycle: u64 => cycle = 0,
        pub dispatch_left: u8 = spec.width,
        /// On an in-order core: the cycle of the last issue.
        pub last_issue: u64 => cycle = 0,
        /// Dispatch is stalled until an event.
        pub blocked: bool = false,

        pub window: Window => apart = Window::new(spec.rob_entries, spec.commit_width()),
        pub float_in_window: bool = false,
        /// Dispatched instructions are observed: see
        /// [`Core::look_for_observers`](crate::core::Core::look_for_observers).
        pub observes: bool => fixed = false,
        /// The window is observed, so the general path is taken.
        pub observes_window: bool => fixed = false,
        pub probed: Option<Box<Probed>> => fixed = None,
        pub debug: Option<Box<Debugged>> => fixed = None,
        /// The position of an atomic with acquire semantics that has not been performed.
        pub acquire: Option<u64> = None,
        pub branches: BranchContext = BranchContext::new(&spec.predictor),

        pub loads: LoadQueue => apart = LoadQueue::new(spec.load_queue_entries, spec.threads),
        pub stores: StoreQueue => apart = StoreQueue::new(spec.store_queue_entries),
        pub missing: Vec<MissingLoad> => apart = Vec::new(),
        pub waiting_loads: Vec<WaitingLoad> = Vec::new(),
        /// Missing loads that found all miss registers in use.
        pub refused: VecDeque<MissingLoad> => apart = VecDeque::new(),
        /// Loads that the core's supplier has, if there is one.
        pub supplies: Option<Box<Supplies>> => fixed = None,
        /// Slots whose last operand has just become known; empty otherwise.
        pub woken: Vec<u32> => fixed = Vec::new(),
        /// The cycle of the store queue's next event.
        pub store_event: u64 => cycle = NEVER,
        pub serial: Option<Serializing> = None,
        pub serial_event: u64 => cycle = NEVER,
        /// Unanswered stores to devices, oldest first.
        pub posted: VecDeque<PostedStore> = VecDeque::new(),
        /// The first refused store; the trap precedes the next instruction.
        pub refused_store: Option<PostedStore> = None,
        pub reservation: Option<LineAddress> = None,
        /// The line on which the last instruction of Zawrs waited, until the next `LR`.
        pub awaited: Option<LineAddress> = None,
        pub attempts: Attempts = Attempts::default(),
        /// The end of the hold of the reserved line, and the messages that wait for it.
        pub hold_until: u64 => cycle = NEVER,
        pub held: Vec<(LineAddress, ToCache)> = Vec::new(),

        pub statistics: CoreStatistics = CoreStatistics::default(),
        /// The cause of the present stall of dispatch, and the cycle up to which cycles have been
        /// charged.
        pub stall: Stall = Stall::None,
        pub charged: u64 => apart cycle = 0,
    }

    /// The hart `number` on a hardware thread of a core: it starts at `entry` with its number in
    /// `a0`.
    pub fn new(spec: &CoreSpec, thread: u8, number: u64, extension: Box<dyn Extension>, entry: u64);
}

/// A hart starts with its number in `a0`.
fn first_registers(number: u64) -> [u64; REGISTERS] {
    let mut registers = [0; REGISTERS];
    registers[10] = number;
    registers
}

impl HartState {
    /// Makes the hart take the general path from now on.
    pub fn observe_window(&mut self) {
        (self.observes, self.observes_window) = (true, true);
    }

    /// Whether an access is inside one line, and does not trap for its alignment.
    #[inline(always)]
    pub fn is_in_one_piece(&self, address: u64, bytes: u8) -> bool {
        debug_assert!(bytes.is_power_of_two());
        let bytes = u64::from(bytes);
        address % LINE_BYTES as u64 + bytes <= LINE_BYTES as u64
            && address & (bytes - 1) & self.alignment_mask == 0
    }

    /// The cycle of this hart's next event other than dispatch.
    #[inline(always)]
    pub fn own_event<K: CoreKind>(&self) -> u64 {
        self.store_event.min(self.other_event::<K>())
    }

    /// The cycle of this hart's next event other than dispatch and stores.
    #[inline(always)]
    pub fn other_event<K: CoreKind>(&self) -> u64 {
        let held = match self.held.is_empty() {
            true => NEVER,
            false => self.hold_until,
        };
        self.serial_event.min(held).min(self.extension_event::<K>())
    }

    /// The cycle of its extension's next timer.
    #[inline(always)]
    pub fn extension_event<K: CoreKind>(&self) -> u64 {
        match K::IS_ACTIVE {
            true => self.extension.next_event(),
            false => NEVER,
        }
    }

    /// The next cycle in which it can dispatch, unless an event comes before.
    pub fn next_dispatch(&self) -> u64 {
        match self.waits() {
            true => NEVER,
            false => self.dispatch_cycle,
        }
    }

    /// Whether it dispatches nothing until an event.
    #[inline(always)]
    pub fn waits(&self) -> bool {
        self.blocked || self.serial.is_some()
    }

    /// Whether it has halted voluntarily and waits to be woken.
    pub fn is_halted(&self) -> bool {
        self.serial.as_ref().is_some_and(Serializing::is_halted)
    }

    /// Whether a store to `line` may affect this hart.
    pub fn minds(&self, line: LineAddress) -> bool {
        self.reservation == Some(line) || self.loads.may_touch(line)
    }

    /// Whether it waits for a message, or for a store of another hart, and has nothing in progress
    /// at `now`.
    pub fn sleeps<K: CoreKind>(&self, now: u64) -> bool {
        self.serial.is_some()
            && self.own_event::<K>() == NEVER
            && self.held.is_empty()
            && (self.hold_until == NEVER || self.hold_until <= now)
            && self.stores.is_empty()
            && self.missing.is_empty()
            && self.waiting_loads.is_empty()
            && self.refused.is_empty()
            && self.window.all_known()
            && self.window.last_commit < now
    }

    /// Whether entries of this hart may become free at `now` or later.
    pub fn is_leaving(&self, now: u64) -> bool {
        self.window.last_commit >= now
    }

    /// Its counts before `cycle`.
    pub fn statistics(&self, cycle: u64) -> CoreStatistics {
        let mut statistics = self.statistics.clone();
        if let Some(since) = self.serial.as_ref().and_then(Serializing::halted_since) {
            statistics.halted_cycles += cycle.saturating_sub(since);
        }
        let stack = &mut statistics.stack;
        stack.add(self.stall, cycle.saturating_sub(self.charged));
        // A hart halts in serializing instructions.
        stack.halted = statistics.halted_cycles;
        stack.serial = stack.serial.saturating_sub(stack.halted);
        statistics
    }
}
