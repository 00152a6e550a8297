//! Serializing instructions: they begin when all older instructions are done, and younger ones
//! begin when they are done. They are CSR instructions, fences, traps, accesses to devices,
//! accesses that cross a line, `LR`, waits (`WFI`, `WRS`), and the instructions of extensions.

mod accesses;
mod extension;
mod fence;

use crate::core::{Core, Crash, NEVER, PostedStore, Why};
use crate::events::{self, Counts};
use crate::fetch::FetchBuffer;
use crate::kind::CoreKind;
use crate::port::AtPort;
use crate::stack::Stall;
use crate::statistics::CoreStatistics;
use crate::translation::Frame;
use crate::window::SlotKind;
use fabric::{AddressRange, LineAddress, Outbox, SecondLevel, Time, Update};
use riscv::paging::Flush;
use riscv::{Cause, Class, Counters, Instruction, SINK, SystemOutcome, TimeOut, Trap, csr_update};

pub(crate) use fence::FenceEffect;

/// The duration of `WRS.STO`, and of `WRS.NTO` where its wait is bounded. "Zawrs" Extension: some
/// 10 to 100 times an on-chip cache miss.
const SHORT_WAIT_CYCLES: u64 = 1000;

/// `mtime` counts microseconds, as on the platforms of the published programs.
pub(crate) const TIME_TICK: Time = Time::from_fs(1_000_000_000);

/// From an in-order core's dispatch, which is its decode stage, through execution and memory to its
/// write-back stage. There CSRs are read and written and traps are taken, as in Rocket (`csr.io.rw`
/// and `take_pc_wb` in `RocketCore.scala`).
const WRITE_BACK_CYCLES: u64 = 3;

#[derive(Clone, Copy, Debug, state::State, state::Plain)]
enum Kind {
    Instruction(Instruction),
    /// There is no memory at this address, which the instruction covers.
    FetchFault(u64),
    Interrupt(Trap),
    /// The extension interrupts the hart's program.
    Delivery {
        tracked: bool,
    },
    /// The extension's port refuses the instruction, or the instruction's page is not executable.
    Exception(Trap),
    /// A device has refused a store after which the core has continued.
    RefusedStore(PostedStore),
    /// A debugger stops the hart.
    Stop,
}

#[derive(Clone, Copy, Debug, state::State, state::Plain)]
enum State {
    /// Waits for older instructions to complete.
    Drain,
    /// Waits for a line in the data cache; `asked`: this instruction has requested it.
    Line {
        line: LineAddress,
        write: bool,
        asked: bool,
    },
    /// Waits for an agent's answer.
    Reply { token: u64 },
    /// The answer has arrived.
    Replied(Result<u64, ()>),
    /// Reads a value from the data cache.
    Paused {
        #[state(cycle)]
        until: u64,
        value: u64,
    },
    /// Waits for its page until this cycle, or until a page walk has ended.
    Page {
        #[state(cycle)]
        until: u64,
    },
    /// `WFI`.
    Interrupt,
    /// `WRS.NTO`, `WRS.STO`: waits until the reservation is lost, or until its timeout.
    Reservation {
        #[state(cycle)]
        until: u64,
        time_out: TimeOut,
    },
    /// A debugger has stopped the hart.
    Stopped,
}

/// A serializing instruction, from dispatch until it is done.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
pub(crate) struct Serializing {
    kind: Kind,
    pub pc: u64,
    state: State,
    /// For an access that crosses a line: the bytes that are done, and their value.
    bytes_done: u8,
    gathered: u64,
    /// The number of its pages that have been translated, and their frames.
    pages_known: u8,
    frames: [Frame; 2],
    /// For an extension's instruction: the number of steps done, and the update of the current
    /// access.
    step: u32,
    update: Option<Update>,
    #[state(maybe_cycle)]
    halted_since: Option<u64>,
    waits_for: &'static str,
    /// The cycle in which it reached dispatch.
    #[state(cycle)]
    pub since: u64,
}

impl Serializing {
    fn new(kind: Kind, pc: u64) -> Serializing {
        Serializing {
            kind,
            pc,
            state: State::Drain,
            bytes_done: 0,
            gathered: 0,
            pages_known: 0,
            frames: [Frame::of(0); 2],
            step: 0,
            update: None,
            halted_since: None,
            waits_for: "",
            since: 0,
        }
    }

    pub fn instruction(instruction: Instruction, pc: u64) -> Serializing {
        Serializing::new(Kind::Instruction(instruction), pc)
    }

    pub fn fetch_fault(pc: u64, missing: u64) -> Serializing {
        Serializing::new(Kind::FetchFault(missing), pc)
    }

    pub fn interrupt(trap: Trap) -> Serializing {
        Serializing::new(Kind::Interrupt(trap), 0)
    }

    pub fn exception(trap: Trap) -> Serializing {
        Serializing::new(Kind::Exception(trap), 0)
    }

    /// The stop of a hart by a debugger.
    pub fn stop() -> Serializing {
        Serializing::new(Kind::Stop, 0)
    }

    /// The same after the hart has stopped.
    pub fn stopped(self) -> Serializing {
        Serializing {
            state: State::Stopped,
            ..self
        }
    }

    /// Whether a debugger has stopped the hart.
    pub fn has_stopped(&self) -> bool {
        matches!(self.state, State::Stopped)
    }

    /// Whether the hart waits for another component.
    pub fn waits_for_others(&self) -> bool {
        matches!(
            self.state,
            State::Interrupt | State::Reply { .. } | State::Reservation { until: NEVER, .. }
        )
    }

    /// Whether it can no longer be undone.
    pub fn has_begun(&self) -> bool {
        !matches!(self.state, State::Drain)
    }

    /// Whether it is an instruction that has not begun.
    pub fn can_wait(&self) -> bool {
        matches!(self.kind, Kind::Instruction(_)) && !self.has_begun()
    }

    pub fn is_halted(&self) -> bool {
        self.halted_since.is_some()
    }

    /// Whether it passes through the pipeline and takes effect in write-back. Accesses to memory
    /// and to devices take effect earlier.
    fn ends_in_write_back(&self) -> bool {
        match self.kind {
            Kind::Instruction(i) => {
                matches!(i.class, Class::Csr | Class::System | Class::Illegal)
            }
            Kind::Delivery { .. } | Kind::Stop => false,
            Kind::FetchFault(_)
            | Kind::Interrupt(_)
            | Kind::Exception(_)
            | Kind::RefusedStore(_) => true,
        }
    }

    pub fn halted_since(&self) -> Option<u64> {
        self.halted_since
    }

    /// Whether the extension determines its effect.
    fn is_of_extension(&self) -> bool {
        match self.kind {
            Kind::Instruction(i) => i.class == Class::Custom,
            kind => matches!(kind, Kind::Delivery { .. }),
        }
    }

    pub fn waits_for_line(&self, wanted: LineAddress) -> bool {
        matches!(self.state, State::Line { line, asked: true, .. } if line == wanted)
    }
}

/// Whether a write of this CSR affects only its readers: `mscratch`, `mepc`, `mcause`, `mtval`.
/// After a write of any other CSR, Rocket fetches again (`write_flush` in `CSR.scala`).
fn holds_words_only(csr: u16) -> bool {
    (0x340..=0x343).contains(&csr)
}

/// Whether this CSR counts time or events: `cycle`, `time`, `instret` and machine mode's
/// equivalents.
fn tells_time(csr: u16) -> bool {
    matches!(csr, 0xb00 | 0xb02 | 0xc00..=0xc02)
}

impl<K: CoreKind> Core<K> {
    pub(crate) fn begin_serial(&mut self, serial: Serializing) {
        self.note_alone();
        self.hart.serial = Some(Serializing {
            pc: self.hart.pc,
            since: self.hart.dispatch_cycle,
            ..serial
        });
        self.hart.serial_event = self.hart.dispatch_cycle;
        self.held_up(Stall::Serializing);
    }

    /// Begins the trap of a store that a device has refused, or an interrupt, if one is pending.
    /// Returns whether it did.
    pub(crate) fn begin_trap(&mut self) -> bool {
        if self.hart.debug.is_some() && self.begin_stop() {
            return true;
        }
        let serial = match self.hart.refused_store {
            Some(store) => Serializing::new(Kind::RefusedStore(store), 0),
            None => match self.hart.privileged.pending_interrupt() {
                Some(trap) => Serializing::interrupt(trap),
                None if K::IS_ACTIVE => return self.begin_delivery(),
                None => return false,
            },
        };
        self.begin_serial(serial);
        true
    }

    /// Whether the event that the hart waits for in `WFI` or `WRS` has come.
    fn wakes_from_wait(&self) -> bool {
        self.hart.privileged.wakes_from_wait() || K::IS_ACTIVE && self.hart.extension.wakes()
    }

    /// What the core waits for, in words.
    pub fn waiting_for(&self) -> Option<String> {
        if self.dozes() {
            return Some("what it polls to change".to_string());
        }
        if let Some(serial) = &self.hart.serial {
            return Some(match serial.state {
                State::Drain => self.oldest_waits_for(),
                State::Page { .. } => "a page walk".to_string(),
                State::Line { line, .. } => format!("the line at {:#x}", line.base()),
                State::Reply { .. } if serial.waits_for.is_empty() => {
                    "the answer of a device".to_string()
                }
                State::Reply { .. } => serial.waits_for.to_string(),
                State::Interrupt => "an interrupt (WFI)".to_string(),
                State::Stopped => "the debugger".to_string(),
                State::Reservation { .. } => self.hart.reservation.map_or_else(
                    || "nothing".to_string(),
                    |line| format!("a store to the line at {:#x} (WRS)", line.base()),
                ),
                State::Replied(_) | State::Paused { .. } => "nothing".to_string(),
            });
        }
        let missing = self.hart.missing.first();
        missing.map(|load| format!("the line at {:#x}", load.line.base()))
    }

    /// What the oldest incomplete instruction waits for.
    fn oldest_waits_for(&self) -> String {
        if self.hart.window.all_known() {
            if self.hart.stores.is_empty()
                && let Some(store) = self.hart.posted.front()
            {
                return format!(
                    "a device to take its store to {:#x} at pc {:#x}",
                    store.address, store.pc
                );
            }
            let store = self.hart.stores.get(self.hart.stores.head);
            return format!("its store to {:#x} to be performed", store.address);
        }
        let slot = self.hart.window.slot(self.hart.window.commit_known);
        let number = self.hart.stores.committed;
        match slot.tags.kind {
            SlotKind::Atomic => format!(
                "its atomic access to {:#x} at pc {:#x} to be performed",
                self.hart.stores.get(number).address,
                slot.tags.pc
            ),
            _ => format!("its instruction at pc {:#x}", slot.tags.pc),
        }
    }

    /// Handles an agent's answer to the request with this token.
    pub(crate) fn replied_to(&mut self, token: u64, result: Result<u64, ()>) {
        let is_it = |store: &PostedStore| store.token == token;
        if let Some(place) = self.hart.posted.iter().position(is_it) {
            let store = self.hart.posted.remove(place);
            if result.is_err() {
                self.hart.refused_store = self.hart.refused_store.or(store);
            }
        } else if let Some(serial) = &mut self.hart.serial
            && matches!(serial.state, State::Reply { token: expected } if expected == token)
        {
            serial.state = State::Replied(result);
        }
    }

    /// Advances the serializing instruction at cycle `now`.
    pub(crate) fn run_serial(&mut self, now: u64, outbox: &mut Outbox) {
        self.continue_serial(now, outbox);
        if K::IS_ACTIVE {
            self.send_from_extension(outbox);
        }
    }

    fn continue_serial(&mut self, now: u64, outbox: &mut Outbox) {
        let Some(serial) = self.hart.serial else {
            return;
        };
        match serial.state {
            State::Drain
                if K::IS_ACTIVE && matches!(serial.kind, Kind::Delivery { tracked: true }) =>
            {
                if now < serial.since {
                    self.hart.serial_event = serial.since;
                } else {
                    self.continue_delivery(serial, 0, now, outbox);
                }
            }
            State::Drain => {
                if !self.hart.window.all_known() {
                    return;
                }
                let mut at = serial.since.max(self.hart.window.last_commit + 1);
                if self.needs_stores_performed(&serial) {
                    if !self.hart.stores.is_empty() {
                        return;
                    }
                    at = at.max(self.hart.stores.last_performed + 1);
                }
                if !self.devices_have_answered(&serial) {
                    return;
                }
                if K::IN_ORDER && serial.ends_in_write_back() {
                    at = at.max(serial.since + WRITE_BACK_CYCLES);
                }
                if at > now {
                    self.hart.serial_event = at;
                    return;
                }
                self.retire_all_flags();
                if K::HAS_PORT
                    && let Some(at_port) = self.hart.at_port
                    && let Err(trap) = self.leave_port(at_port)
                {
                    let pc = at_port.pc;
                    return self.trap(Serializing { pc, ..serial }, trap, now);
                }
                let kind = match self.hart.refused_store.take() {
                    Some(store) => Kind::RefusedStore(store),
                    None => serial.kind,
                };
                self.execute_serial(Serializing { kind, ..serial }, now, outbox);
            }
            State::Line { line, write, .. } => self.try_line(serial, line, write, now, outbox),
            State::Reply { .. } | State::Stopped => {}
            State::Replied(result) => self.replied(serial, result, now, outbox),
            State::Paused { until, value } => {
                if now < until {
                    self.hart.serial_event = until;
                } else {
                    self.resume_extension(serial, value, now, outbox);
                }
            }
            State::Page { until } => {
                if now < until {
                    self.hart.serial_event = until;
                } else if let Kind::Instruction(i) = serial.kind {
                    self.page_is_known(serial, i, now, outbox);
                }
            }
            State::Interrupt => {
                if self.wakes_from_wait() {
                    self.finish(serial, 0, now + 1);
                }
            }
            State::Reservation { until, time_out } => {
                self.wait_on_reservation(serial, until, time_out, now);
            }
        }
    }

    /// "Zawrs" Extension for Wait-on-Reservation-Set instructions: the hart halts as long as it
    /// holds a reservation, no interrupt is pending, and its time is not over.
    fn wait_on_reservation(
        &mut self,
        serial: Serializing,
        until: u64,
        time_out: TimeOut,
        now: u64,
    ) {
        if self.hart.reservation.is_none() || self.wakes_from_wait() {
            self.finish(serial, 0, now + 1);
        } else if now < until {
            self.hart.serial_event = until;
            self.wait(Serializing {
                state: State::Reservation { until, time_out },
                halted_since: serial.halted_since.or(Some(now)),
                ..serial
            });
        } else if time_out == TimeOut::Illegal {
            self.illegal(serial, now);
        } else {
            self.finish(serial, 0, now + 1);
        }
    }

    fn needs_stores_performed(&self, serial: &Serializing) -> bool {
        match serial.kind {
            Kind::Instruction(i) => match i.class {
                Class::Csr | Class::Illegal => false,
                Class::Fence => {
                    FenceEffect::of(&i, self.shared.spec.memory_model) == FenceEffect::Stores
                }
                Class::Custom => self.hart.extension.is_barrier(&i),
                _ => true,
            },
            Kind::Stop => true,
            Kind::FetchFault(_)
            | Kind::Interrupt(_)
            | Kind::Delivery { .. }
            | Kind::Exception(_)
            | Kind::RefusedStore(_) => false,
        }
    }

    /// Whether enough stores to devices have been answered for this instruction to begin.
    fn devices_have_answered(&self, serial: &Serializing) -> bool {
        let Kind::Instruction(i) = serial.kind else {
            return true;
        };
        match i.class {
            Class::Csr | Class::Illegal => true,
            Class::Fence => self.hart.posted.is_empty() || !FenceEffect::orders_output(&i),
            Class::Store => {
                self.hart.posted.len() < usize::from(self.shared.spec.posted_device_stores.max(1))
            }
            _ => self.hart.posted.is_empty(),
        }
    }

    /// All instructions in the window have committed: makes their floating-point flags visible.
    fn retire_all_flags(&mut self) {
        if !self.hart.float_in_window {
            return;
        }
        for position in self.hart.window.settled() - 1..self.hart.window.tail {
            let flags = std::mem::take(&mut self.hart.window.slot_mut(position).tags.flags);
            if flags != 0 {
                self.hart.privileged.add_flags(flags);
            }
        }
        self.hart.float_in_window = false;
        self.look_for_observers();
    }

    pub(crate) fn access_csr(&mut self, i: &Instruction, rs1: u64, now: u64) -> Result<u64, Trap> {
        let counters = self.counters(now);
        let second_level = self.shared.second_level.as_deref();
        let prefetching = self.shared.data_prefetching.as_ref();
        let hart = &mut *self.hart;
        let others = &self.others;
        let other_harts = |count: fn(&CoreStatistics) -> u64| {
            let others = others.iter().flatten();
            others.map(|other| count(&other.statistics)).sum()
        };
        let translation = self.shared.translation.as_ref();
        let events = |event: u8| {
            let counts = Counts {
                hart: &hart.statistics,
                other_harts: &other_harts,
                second_level: second_level.map(SecondLevel::statistics),
                l1_prefetches: prefetching.map(|one| one.statistics()),
                l2_prefetches: second_level.and_then(SecondLevel::prefetches),
                translation: translation.map(|one| one.statistics()),
            };
            events::count(event, &counts)
        };
        hart.privileged.csr(i, rs1, counters, &events)
    }

    fn counters(&self, now: u64) -> Counters {
        Counters {
            cycle: now,
            time: self.shared.clock.time(now).as_fs() / TIME_TICK.as_fs(),
            instret: self.hart.statistics.instructions,
        }
    }

    fn execute_serial(&mut self, serial: Serializing, now: u64, outbox: &mut Outbox) {
        let i = match serial.kind {
            Kind::Instruction(i) => i,
            Kind::FetchFault(missing) => {
                let trap = Trap {
                    cause: Cause::InstructionAccess,
                    value: missing,
                };
                return self.trap(serial, trap, now);
            }
            Kind::Interrupt(trap) | Kind::Exception(trap) => return self.trap(serial, trap, now),
            Kind::Delivery { .. } => return self.continue_delivery(serial, 0, now, outbox),
            Kind::Stop => return self.come_to_stop(serial, false, now),
            Kind::RefusedStore(store) => {
                let trap = Trap {
                    cause: Cause::StoreAccess,
                    value: store.address,
                };
                return self.trap(serial, trap, now);
            }
        };
        if K::HAS_PORT
            && let Err(trap) = self.show_input(&i)
        {
            return self.trap(serial, trap, now);
        }
        let rs1 = self.hart.registers[usize::from(i.rs1)];
        let next = serial.pc.wrapping_add(u64::from(i.length));
        match i.class {
            Class::Csr if K::IS_ACTIVE && self.access_extension_csr(&serial, &i, rs1, now) => {}
            Class::Csr => match self.access_csr(&i, rs1, now) {
                Ok(old) => {
                    let written = csr_update(&i, old, rs1).is_some();
                    let refetch = K::IN_ORDER && written && !holds_words_only(i.csr_number());
                    if tells_time(i.csr_number()) {
                        self.shared.spin.clock_is_read();
                    }
                    self.translation_may_change();
                    self.finish_csr(serial, old, refetch, now);
                }
                Err(trap) => self.trap(serial, trap, now),
            },
            Class::Fence => self.finish(serial, 0, now + 1),
            Class::FenceI => {
                self.shared.blocks.clear();
                self.forget_cursors();
                *self.hart.fetch_buffer = FetchBuffer::default();
                self.finish(serial, 0, now + 1);
                self.redirect(next, now + self.front_end());
            }
            Class::System => match self.hart.privileged.system(&i, serial.pc) {
                Ok(SystemOutcome::Jump(target)) => {
                    if self.is_user() {
                        // User mode may not be allowed to write this line.
                        self.hart.region = AddressRange::default();
                    }
                    self.translation_may_change();
                    self.finish(serial, 0, now + 1);
                    self.redirect(target, now + self.front_end());
                }
                Ok(SystemOutcome::FlushTranslations) => {
                    let rs2 = self.hart.registers[usize::from(i.rs2)];
                    self.flush_translations(&Flush::of(&i, rs1, rs2), now);
                    // The next instruction is fetched again, as after a `fence.i`.
                    self.finish(serial, 0, now + 1);
                    self.redirect(next, now + self.front_end());
                }
                Ok(SystemOutcome::WaitForInterrupt) => {
                    if self.wakes_from_wait() {
                        self.finish(serial, 0, now + 1);
                    } else {
                        self.wait(Serializing {
                            state: State::Interrupt,
                            halted_since: Some(now),
                            ..serial
                        });
                    }
                }
                Ok(SystemOutcome::WaitOnReservation(time_out)) => {
                    self.hart.awaited = self.hart.reservation;
                    // The next instruction is not an `SC`: release the line to a waiting requester,
                    // and with it the reservation.
                    self.release_held(now, outbox);
                    let until = match time_out {
                        TimeOut::Never => NEVER,
                        TimeOut::Done | TimeOut::Illegal => now + SHORT_WAIT_CYCLES,
                    };
                    self.wait_on_reservation(serial, until, time_out, now);
                }
                Err(trap) if self.is_at_stop(&i, serial.pc, &trap) => {
                    self.look_at_stop(serial, now);
                }
                Err(trap) => self.trap(serial, trap, now),
            },
            Class::Custom => {
                let invocation = self.invocation(&serial, i, now);
                let action = self.hart.extension.begin(&invocation);
                self.act(serial, action, now, outbox);
            }
            Class::Load
            | Class::Store
            | Class::Atomic
            | Class::LoadReserved
            | Class::StoreConditional => self.execute_access(serial, i, now, outbox),
            _ => self.illegal(serial, now),
        }
    }

    /// A CSR has been accessed in cycle `now`. On an in-order core, an instruction that has waited
    /// for its value in the decode stage continues in the same cycle; after `refetch` it is fetched
    /// then.
    fn finish_csr(&mut self, serial: Serializing, old: u64, refetch: bool, now: u64) {
        self.finish(serial, old, now + u64::from(!K::IN_ORDER));
        if refetch {
            self.redirect(self.hart.pc, now + self.front_end());
        }
    }

    fn illegal(&mut self, serial: Serializing, now: u64) {
        if let Kind::Instruction(i) = serial.kind {
            let trap = Trap {
                cause: Cause::IllegalInstruction,
                value: u64::from(i.bits),
            };
            self.trap(serial, trap, now);
        }
    }

    fn wait(&mut self, serial: Serializing) {
        self.hart.serial = Some(serial);
    }

    /// Completes the instruction; its value can be used from `ready` on.
    fn finish(&mut self, serial: Serializing, value: u64, ready: u64) {
        let Kind::Instruction(i) = serial.kind else {
            return;
        };
        if i.rd != SINK {
            self.hart.registers[usize::from(i.rd)] = value;
            self.hart.ready[usize::from(i.rd)] = ready;
        }
        if K::HAS_PORT && self.hart.extension.has_registers() {
            let registers = self.hart.port_registers;
            let at_port = AtPort {
                pc: serial.pc,
                takes: registers.takes(&i),
                gives: registers.gives(&i),
            };
            if let Err(trap) = self.leave_port(at_port) {
                return self.trap(serial, trap, ready - 1);
            }
        }
        self.end_serial(&serial, ready - 1);
        self.redirect(serial.pc.wrapping_add(u64::from(i.length)), ready);
    }

    fn end_serial(&mut self, serial: &Serializing, now: u64) {
        self.leave_serial(serial, now);
        if let Kind::Instruction(i) = serial.kind {
            self.hart.statistics.instructions += 1;
            self.report_alone(i, serial, now);
        }
        self.hart.window.last_commit = self.hart.window.last_commit.max(now);
    }

    pub(crate) fn leave_serial(&mut self, serial: &Serializing, now: u64) {
        if let Some(since) = serial.halted_since {
            self.hart.statistics.halted_cycles += now - since;
        }
        self.hart.serial = None;
        self.hart.serial_event = NEVER;
        // A fence changes nothing but the time. What it waits for disturbs the loop by itself.
        if !matches!(serial.kind, Kind::Instruction(i) if i.class == Class::Fence) {
            self.shared.spin.disturb();
        }
    }

    fn trap(&mut self, serial: Serializing, trap: Trap, now: u64) {
        if let Some(translation) = &mut self.shared.translation {
            translation.note_trap(trap.cause);
        }
        if let Some(debug) = &mut self.hart.debug {
            debug.trapped();
        }
        let handler = self.hart.privileged.take_trap(trap, serial.pc);
        self.translation_may_change();
        self.leave_serial(&serial, now);
        // A fence alone does not disturb spinning; one that traps does.
        self.shared.spin.disturb();
        if handler == 0 {
            let (pc, instruction) = match serial.kind {
                Kind::Instruction(i) => (serial.pc, Some(i.bits)),
                // A handler would get the pc that the core has reached, but the crash report names
                // the store.
                Kind::RefusedStore(store) => (store.pc, Some(store.bits)),
                _ => (serial.pc, None),
            };
            self.crash_at(now, Why::Trap(trap), pc, instruction);
        }
        self.redirect(handler, now + self.front_end());
    }

    /// Records that the guest has crashed at `now`.
    pub(crate) fn crash_at(&mut self, now: u64, why: Why, pc: u64, instruction: Option<u32>) {
        let mut registers = [0; 32];
        registers.copy_from_slice(&self.hart.registers[..32]);
        self.shared.crash = Some(Crash {
            cycle: now,
            hart: self.hart.privileged.csrs.mhartid,
            why,
            pc,
            registers,
            instruction,
        });
    }
}
