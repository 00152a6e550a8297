//! The port for a debugger: it stops harts between two instructions, reads and changes their
//! registers, and resumes them. Without a debugger a core only checks for one before each run of
//! dispatch.
//!
//! A hart stops like one that takes a trap: everything older is done, its stores are performed, and
//! nothing younger has begun. The time that this takes is part of the simulation. A debugger that
//! attaches and never stops a hart leaves all times unchanged.
//!
//! A breakpoint is decoded into the blocks in place of the instruction; memory does not change.
//! With watchpoints, loads and stores are decoded likewise: each is checked when its address is
//! known and everything older is done, and then executed.

use crate::core::Core;
use crate::kind::CoreKind;
use crate::serializing::Serializing;
use fabric::LineAddress;
use riscv::{Cause, Class, Counters, Hart, Instruction, Operation, Privilege, SINK, Trap, decode};
use std::collections::BTreeSet;

/// A watchpoint: memory whose accesses stop a hart when they are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Its first byte, before translation.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
    /// Whether loads and atomics stop the hart.
    pub reads: bool,
    /// Whether stores and atomics stop the hart.
    pub writes: bool,
}

/// All breakpoints and watchpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// Before the instructions at these addresses.
    pub breakpoints: BTreeSet<u64>,
    /// After accesses to this memory.
    pub watches: Vec<Watch>,
}

impl Stops {
    /// Whether a hart checks for a stop at this instruction.
    fn concern(&self, pc: u64, i: &Instruction) -> bool {
        self.breakpoints.contains(&pc) || !self.watches.is_empty() && i.class.is_memory()
    }

    /// The instruction that is decoded in place of the one at `pc`. The encoding is kept.
    pub(crate) fn replace(&self, pc: u64, i: Instruction) -> Instruction {
        if !self.concern(pc, &i) {
            return i;
        }
        Instruction {
            operation: Operation::Ebreak,
            class: Class::System,
            rd: SINK,
            rs1: 0,
            rs2: 0,
            rs3: 0,
            rounding: 0,
            immediate: 0,
            ..i
        }
    }

    /// The watchpoint that an access with this base hits, and the first watched byte.
    fn hit(&self, i: &Instruction, base: u64) -> Option<StopCause> {
        let (address, bytes) = (i.address(base), u64::from(i.access_bytes()));
        let reads = matches!(i.class, Class::Load | Class::LoadReserved | Class::Atomic);
        let writes = matches!(
            i.class,
            Class::Store | Class::StoreConditional | Class::Atomic
        );
        let mut watches = self.watches.iter();
        let watch = watches.find(|watch| {
            // Addresses may wrap around.
            let overlaps = address.wrapping_sub(watch.address) < watch.bytes
                || watch.address.wrapping_sub(address) < bytes;
            overlaps && (watch.reads && reads || watch.writes && writes)
        })?;
        let is_behind = address.wrapping_sub(watch.address) < watch.bytes;
        Some(StopCause::Watch {
            watch: *watch,
            address: if is_behind { address } else { watch.address },
        })
    }
}

/// The cause of a hart's stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// A request of the debugger.
    Requested,
    /// It has come to a breakpoint.
    Breakpoint,
    /// The end of a step of one instruction.
    Step,
    /// An access to watched memory.
    Watch {
        /// The watchpoint.
        watch: Watch,
        /// The first watched byte that was accessed.
        address: u64,
    },
}

/// The state of a hart, as a debugger sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// It executes instructions, or is about to stop.
    Runs,
    /// It waits in an instruction, for an interrupt or for an answer. If a stop has been requested,
    /// it stops when that has come.
    Waits,
    /// It has stopped.
    Stopped(StopCause),
}

/// A step: the next instruction is executed even at a breakpoint.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The number of instructions that the hart had executed before.
    from: u64,
    pc: u64,
    /// The cause of a stop after it, if it stops.
    cause: Option<StopCause>,
    /// The watchpoint that it hits.
    hit: Option<StopCause>,
}

impl Step {
    /// The cause of the hart's stop after the instruction, if it stops.
    fn ends_with(&self) -> Option<StopCause> {
        self.hit.or(self.cause)
    }
}

/// The debug state of a hart.
#[derive(Debug)]
pub(crate) struct Debugged {
    /// It never stops in machine mode, which belongs to the simulator's firmware.
    spares_machine_mode: bool,
    /// A stop before the next instruction is requested.
    stop_requested: bool,
    step: Option<Step>,
    /// The cause of its stop.
    cause: StopCause,
}

impl Debugged {
    /// A trap is taken.
    pub fn trapped(&mut self) {
        if let Some(step) = &mut self.step {
            step.from = u64::MAX;
            // The instruction has accessed nothing.
            step.hit = None;
        }
    }

    /// Whether the hart takes the general path, on which it executes a single instruction.
    pub fn steps(&self) -> bool {
        self.step.is_some_and(|step| step.ends_with().is_some())
    }
}

/// A debugger's interface to the harts of a core. A hardware thread without a hart is ignored.
pub trait Debuggable {
    /// Begins or ends debugging of the harts. `spares_machine_mode`: they never stop in machine
    /// mode. Meanwhile spinning is not skipped.
    fn debug(&mut self, spares_machine_mode: Option<bool>);
    /// Sets the breakpoints and watchpoints.
    fn set_stops(&mut self, stops: &Stops);
    /// Requests a stop before the hart's next instruction.
    fn stop(&mut self, thread: u8);
    /// The state of the hart.
    fn halt(&self, thread: u8) -> Halt;
    /// Resumes the hart, not before `cycle`; if it `steps`, for one instruction.
    fn go_on(&mut self, thread: u8, steps: bool, cycle: u64);
    /// A cycle that no hart has passed, if all have stopped or wait.
    fn reached(&self) -> u64;
    /// Whether one of them has stopped.
    fn has_stopped(&self) -> bool;
    /// `x0` to `x31` and `f0` to `f31`.
    fn registers(&self, thread: u8) -> [u64; 64];
    /// Changes one of these registers of a stopped hart.
    fn set_debugged_register(&mut self, thread: u8, register: usize, value: u64);
    /// Changes the program counter of a stopped hart.
    fn set_pc(&mut self, thread: u8, pc: u64);
    /// The privileged state.
    fn privileged(&self, thread: u8) -> &Hart;
    /// The value of a CSR, whatever the mode.
    fn csr(&self, thread: u8, number: u16) -> Option<u64>;
    /// Changes bytes of a line in all of the core's caches, and drops decoded instructions. Returns
    /// false if a cache is evicting the line; retry when time has passed.
    fn patch(&mut self, line: LineAddress, offset: usize, bytes: &[u8]) -> bool;
}

impl<K: CoreKind> Debuggable for Core<K> {
    fn debug(&mut self, spares_machine_mode: Option<bool>) {
        self.shared.spin.allow(false);
        self.for_each_hart(|core| {
            core.hart.debug = spares_machine_mode.map(|spares_machine_mode| {
                Box::new(Debugged {
                    spares_machine_mode,
                    stop_requested: false,
                    step: None,
                    cause: StopCause::Requested,
                })
            });
            let hart = &mut *core.hart;
            if hart.debug.is_some() && hart.dispatch_cycle == 0 && hart.serial.is_none() {
                // It has not begun, so there is nothing to wait for.
                let mut stopped = Serializing::stop().stopped();
                stopped.pc = hart.pc;
                hart.serial = Some(stopped);
            }
            core.look_for_observers();
        });
        if spares_machine_mode.is_none() && self.shared.blocks.stops.is_some() {
            self.set_stops(&Stops::default());
        }
    }

    fn set_stops(&mut self, stops: &Stops) {
        let any = *stops != Stops::default();
        if !any && self.shared.blocks.stops.is_none() {
            return;
        }
        self.shared.blocks.stops = any.then(|| Box::new(stops.clone()));
        self.shared.blocks.clear();
        self.forget_cursors();
    }

    fn stop(&mut self, thread: u8) {
        self.with_hart(thread, |core| {
            if let Some(debug) = &mut core.hart.debug
                && !debug.stop_requested
            {
                (debug.stop_requested, debug.cause) = (true, StopCause::Requested);
            }
        });
    }

    fn halt(&self, thread: u8) -> Halt {
        let hart = self.hart_of(thread);
        match (&hart.serial, &hart.debug) {
            (Some(serial), Some(debug)) if serial.has_stopped() => Halt::Stopped(debug.cause),
            (Some(serial), _) if serial.waits_for_others() => Halt::Waits,
            _ => Halt::Runs,
        }
    }

    fn go_on(&mut self, thread: u8, steps: bool, cycle: u64) {
        self.with_hart(thread, |core| {
            let hart = &mut *core.hart;
            let Some(debug) = &mut hart.debug else {
                return;
            };
            debug.stop_requested = false;
            debug.step = Some(Step {
                from: hart.statistics.instructions,
                pc: hart.pc,
                cause: steps.then_some(StopCause::Step),
                hit: None,
            });
            let serial = hart.serial.filter(Serializing::has_stopped);
            let (pc, cycle) = (hart.pc, cycle.max(hart.dispatch_cycle));
            core.look_for_observers();
            if let Some(serial) = serial {
                core.leave_serial(&serial, cycle);
                core.redirect(pc, cycle);
            }
        });
    }

    fn reached(&self) -> u64 {
        let cycles = self.harts().map(|hart| hart.dispatch_cycle);
        cycles.max().unwrap_or_default()
    }

    fn has_stopped(&self) -> bool {
        let mut serials = self.harts().map(|hart| hart.serial.as_ref());
        serials.any(|serial| serial.is_some_and(Serializing::has_stopped))
    }

    fn registers(&self, thread: u8) -> [u64; 64] {
        let mut registers = [0; 64];
        registers.copy_from_slice(&self.hart_of(thread).registers[..64]);
        registers
    }

    fn set_debugged_register(&mut self, thread: u8, register: usize, value: u64) {
        if (1..64).contains(&register) {
            self.with_hart(thread, |core| {
                core.hart.registers[register] = value;
                if register >= 32 {
                    core.hart.privileged.set_float_dirty();
                }
            });
        }
    }

    fn set_pc(&mut self, thread: u8, pc: u64) {
        self.with_hart(thread, |core| core.hart.pc = pc & !1);
    }

    fn privileged(&self, thread: u8) -> &Hart {
        &self.hart_of(thread).privileged
    }

    fn csr(&self, thread: u8, number: u16) -> Option<u64> {
        let hart = self.hart_of(thread);
        let cycle = hart.dispatch_cycle;
        let counters = Counters {
            cycle,
            time: self.shared.clock.time(cycle).as_fs() / crate::serializing::TIME_TICK.as_fs(),
            instret: hart.statistics.instructions,
        };
        hart.privileged.csr_value(number, counters, &|_| None)
    }

    fn patch(&mut self, line: LineAddress, offset: usize, bytes: &[u8]) -> bool {
        let shared = &mut self.shared;
        let second = shared.second_level.as_deref_mut();
        if shared.data_cache.gives_up(line)
            || second.as_ref().is_some_and(|second| second.gives_up(line))
        {
            return false;
        }
        if let Some(second) = second {
            second.patch(line, offset, bytes);
        }
        shared.data_cache.patch(line, offset, bytes);
        shared.instruction_cache.patch(line, offset, bytes);
        shared.blocks.clear();
        self.for_each_hart(|core| *core.hart.fetch_buffer = crate::fetch::FetchBuffer::default());
        self.forget_cursors();
        true
    }
}

impl<K: CoreKind> Core<K> {
    /// Called before the next instruction: returns whether the hart stops instead.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin_stop(&mut self) -> bool {
        let instructions = self.hart.statistics.instructions;
        let is_machine = self.hart.privileged.privilege == Privilege::Machine;
        let Some(debug) = self.hart.debug.as_deref_mut() else {
            return false;
        };
        let is_spared = debug.spares_machine_mode && is_machine;
        if let Some(step) = debug.step {
            if step.from == instructions {
                if step.ends_with().is_some() {
                    self.dispatch_one_alone();
                }
                return false;
            }
            if step.ends_with().is_some() && is_spared {
                return false;
            }
            debug.step = None;
            if let Some(cause) = step.ends_with() {
                debug.stop_requested = true;
                debug.cause = cause;
            }
            self.look_for_observers();
        }
        let Some(debug) = self.hart.debug.as_deref_mut() else {
            return false;
        };
        if !debug.stop_requested || is_spared {
            return false;
        }
        self.begin_serial(Serializing::stop());
        true
    }

    /// Dispatches one instruction, and then stops dispatch for the present.
    fn dispatch_one_alone(&mut self) {
        self.hart.dispatch_left = self.hart.dispatch_left.min(1);
        self.shared.stop = self.shared.stop.min(self.hart.dispatch_cycle + 1);
    }

    /// Everything older is done at `now`: stops the hart, at a breakpoint or for the recorded
    /// cause.
    pub(crate) fn come_to_stop(&mut self, serial: Serializing, is_breakpoint: bool, now: u64) {
        if let Some(debug) = self.hart.debug.as_deref_mut()
            && is_breakpoint
        {
            debug.cause = StopCause::Breakpoint;
        }
        self.hart.dispatch_cycle = self.hart.dispatch_cycle.max(now);
        self.hart.serial = Some(serial.stopped());
    }

    /// Whether the trap of instruction `i` at `pc` is that of a breakpoint or a watchpoint.
    #[cold]
    pub(crate) fn is_at_stop(&self, i: &Instruction, pc: u64, trap: &Trap) -> bool {
        let Some(stops) = &self.shared.blocks.stops else {
            return false;
        };
        trap.cause == Cause::Breakpoint
            && !self.executes_replaced(pc)
            && stops.concern(pc, &decode(i.bits))
    }

    /// Everything older than the replaced instruction at `serial` is done: checks for a stop.
    pub(crate) fn look_at_stop(&mut self, serial: Serializing, now: u64) {
        let is_breakpoint = self.shared.blocks.stops.as_ref();
        let is_breakpoint = is_breakpoint.is_some_and(|s| s.breakpoints.contains(&serial.pc));
        let is_machine = self.hart.privileged.privilege == Privilege::Machine;
        let from = self.hart.statistics.instructions;
        let Some(debug) = self.hart.debug.as_deref_mut() else {
            return;
        };
        if is_breakpoint && !(debug.spares_machine_mode && is_machine) {
            return self.come_to_stop(serial, true, now);
        }
        // A step that ends with this instruction still ends.
        let cause = debug.step.and_then(|step| step.cause);
        debug.step = Some(Step {
            from,
            pc: serial.pc,
            cause,
            hit: None,
        });
        self.look_for_observers();
        self.leave_serial(&serial, now);
        self.redirect(serial.pc, now + 1);
    }

    /// Whether the replaced instruction at `pc` is to be executed now.
    fn executes_replaced(&self, pc: u64) -> bool {
        let debug = self.hart.debug.as_deref();
        debug
            .and_then(|debug| debug.step)
            .is_some_and(|step| step.from == self.hart.statistics.instructions && step.pc == pc)
    }

    /// The instruction that `i`, the next one, has replaced, if it is to be executed now. All older
    /// ones are done.
    #[cold]
    pub(crate) fn replaced(&mut self, i: &Instruction) -> Option<Instruction> {
        let pc = self.hart.pc;
        if i.operation != Operation::Ebreak || !self.executes_replaced(pc) {
            return None;
        }
        let original = decode(i.bits);
        if original.class.is_memory() {
            let base = self.hart.registers[usize::from(original.rs1)];
            let stops = self.shared.blocks.stops.as_ref();
            let hit = stops.and_then(|stops| stops.hit(&original, base));
            let is_machine = self.hart.privileged.privilege == Privilege::Machine;
            if let (Some(hit), Some(debug)) = (hit, self.hart.debug.as_deref_mut())
                && let Some(step) = &mut debug.step
                && !(debug.spares_machine_mode && is_machine)
            {
                step.hit = Some(hit);
                self.dispatch_one_alone();
                self.look_for_observers();
            }
        }
        Some(original)
    }
}
