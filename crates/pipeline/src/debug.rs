//! The port for a debugger: it stops harts between two instructions, reads and changes their
//! registers, and lets them go on. A core without one pays nothing but a look at whether there is
//! one before each run of dispatch.
//!
//! A hart stops as it takes a trap: everything older is done, its stores are performed, and nothing
//! younger has begun. So the time that this takes is part of the simulation, and what a debugger
//! only attaches to, and never stops, takes the cycles that it takes without one.
//!
//! A breakpoint is decoded into the blocks in place of the instruction, and memory stays as it is.
//! With watches, loads and stores are decoded so: each is looked at when its address is known and
//! everything older is done, and then executed.

use crate::core::Core;
use crate::extension::Extension;
use crate::kind::CoreKind;
use crate::serializing::Serializing;
use fabric::LineAddress;
use riscv::{Cause, Class, Counters, Hart, Instruction, Operation, Privilege, SINK, Trap, decode};
use std::collections::BTreeSet;

/// Memory, accesses to which stop a hart when they are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Its first byte, before translation.
    pub address: u64,
    /// How many there are.
    pub bytes: u64,
    /// Whether loads and atomics stop the hart.
    pub reads: bool,
    /// Whether stores and atomics do.
    pub writes: bool,
}

/// Where harts stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// Before the instructions at these addresses.
    pub breakpoints: BTreeSet<u64>,
    /// After accesses to this memory.
    pub watches: Vec<Watch>,
}

impl Stops {
    /// Whether a hart looks for a reason to stop at this instruction.
    fn concern(&self, pc: u64, i: &Instruction) -> bool {
        self.breakpoints.contains(&pc) || !self.watches.is_empty() && i.class.is_memory()
    }

    /// What is decoded in place of the instruction at `pc`. Its encoding stays.
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

    /// The watch that an access with this base meets, and the first watched byte.
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

/// Why a hart has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// It was told to.
    Told,
    /// It has come to a breakpoint.
    Breakpoint,
    /// It has executed the one instruction that it was to execute.
    Step,
    /// It has accessed what is watched.
    Watch {
        /// What that is.
        watch: Watch,
        /// The first byte of it that was accessed.
        address: u64,
    },
}

/// What a hart does, as a debugger sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// It executes instructions, or is about to stop.
    Runs,
    /// It waits in an instruction, for an interrupt or for an answer. It stops when that has come,
    /// if it has been told to.
    Waits,
    /// It has stopped.
    Stopped(StopCause),
}

/// The next instruction is executed although it is at a breakpoint.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// What the hart had executed before.
    from: u64,
    pc: u64,
    /// Why it stops then, if it does.
    cause: Option<StopCause>,
    /// What it accesses is watched.
    hit: Option<StopCause>,
}

impl Step {
    /// Why the hart stops behind the instruction, if it does.
    fn ends_with(&self) -> Option<StopCause> {
        self.hit.or(self.cause)
    }
}

/// A hart that is debugged.
#[derive(Debug)]
pub(crate) struct Debugged {
    /// It never stops in machine mode, which is not the program's.
    spares_machine_mode: bool,
    /// It is to stop before its next instruction.
    told: bool,
    step: Option<Step>,
    /// Why it has stopped.
    cause: StopCause,
}

impl Debugged {
    /// A trap is taken.
    pub fn trapped(&mut self) {
        if let Some(step) = &mut self.step {
            step.from = u64::MAX;
            // It has accessed nothing.
            step.hit = None;
        }
    }

    /// Whether the hart takes the general path, on which it executes one instruction and no more.
    pub fn steps(&self) -> bool {
        self.step.is_some_and(|step| step.ends_with().is_some())
    }
}

/// What a debugger does with the harts of a core. Those of a thread without a hart are nobody's.
pub trait Debuggable {
    /// Lets the harts be debugged, or no more. `spares_machine_mode`: they never stop in machine
    /// mode. Spinning is not skipped meanwhile.
    fn debug(&mut self, spares_machine_mode: Option<bool>);
    /// Harts stop here from now on.
    fn set_stops(&mut self, stops: &Stops);
    /// The hart stops before its next instruction.
    fn stop(&mut self, thread: u8);
    /// What the hart does.
    fn halt(&self, thread: u8) -> Halt;
    /// The hart goes on, not before `cycle`; if it `steps`, for one instruction.
    fn go_on(&mut self, thread: u8, steps: bool, cycle: u64);
    /// A cycle that no hart has gone past, if all have stopped or wait.
    fn reached(&self) -> u64;
    /// Whether one of them has stopped.
    fn has_stopped(&self) -> bool;
    /// `x0` to `x31` and `f0` to `f31`.
    fn registers(&self, thread: u8) -> [u64; 64];
    /// Changes one of these of a hart that has stopped.
    fn set_debugged_register(&mut self, thread: u8, register: usize, value: u64);
    /// Changes the program counter of a hart that has stopped.
    fn set_pc(&mut self, thread: u8, pc: u64);
    /// The privileged state.
    fn privileged(&self, thread: u8) -> &Hart;
    /// The value of a CSR, whatever the mode.
    fn csr(&self, thread: u8, number: u16) -> Option<u64>;
    /// Changes bytes of a line in all its caches, and forgets what has been decoded. False: a cache
    /// is giving up the line; try it again when time has passed.
    fn patch(&mut self, line: LineAddress, offset: usize, bytes: &[u8]) -> bool;
}

impl<X: Extension, K: CoreKind> Debuggable for Core<X, K> {
    fn debug(&mut self, spares_machine_mode: Option<bool>) {
        self.shared.spin.allow(false);
        self.for_each_hart(|core| {
            core.hart.debug = spares_machine_mode.map(|spares_machine_mode| {
                Box::new(Debugged {
                    spares_machine_mode,
                    told: false,
                    step: None,
                    cause: StopCause::Told,
                })
            });
            let hart = &mut *core.hart;
            if hart.debug.is_some() && hart.dispatch_cycle == 0 && hart.serial.is_none() {
                // It has not begun, so nothing has to be waited for.
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
                && !debug.told
            {
                (debug.told, debug.cause) = (true, StopCause::Told);
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
            debug.told = false;
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

impl<X: Extension, K: CoreKind> Core<X, K> {
    /// Before the next instruction: whether the hart stops instead. It may be let execute one.
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
                debug.told = true;
                debug.cause = cause;
            }
            self.look_for_observers();
        }
        let Some(debug) = self.hart.debug.as_deref_mut() else {
            return false;
        };
        if !debug.told || is_spared {
            return false;
        }
        self.begin_serial(Serializing::stop());
        true
    }

    /// The next instruction is the last one to be dispatched for now.
    fn dispatch_one_alone(&mut self) {
        self.hart.dispatch_left = self.hart.dispatch_left.min(1);
        self.shared.stop = self.shared.stop.min(self.hart.dispatch_cycle + 1);
    }

    /// Everything older is done at `now`: the hart stops, at a breakpoint or for the cause that it has.
    pub(crate) fn come_to_stop(&mut self, serial: Serializing, is_breakpoint: bool, now: u64) {
        if let Some(debug) = self.hart.debug.as_deref_mut()
            && is_breakpoint
        {
            debug.cause = StopCause::Breakpoint;
        }
        self.hart.dispatch_cycle = self.hart.dispatch_cycle.max(now);
        self.hart.serial = Some(serial.stopped());
    }

    /// Whether the trap of instruction `i` at `pc` is that of a place where harts stop.
    #[cold]
    pub(crate) fn is_at_stop(&self, i: &Instruction, pc: u64, trap: &Trap) -> bool {
        let Some(stops) = &self.shared.blocks.stops else {
            return false;
        };
        trap.cause == Cause::Breakpoint
            && !self.executes_replaced(pc)
            && stops.concern(pc, &decode(i.bits))
    }

    /// Everything older than what has been replaced at `serial` is done.
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
        // A step that ends with this instruction is not forgotten.
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

    /// Whether what has been replaced at `pc` is to be executed now.
    fn executes_replaced(&self, pc: u64) -> bool {
        let debug = self.hart.debug.as_deref();
        debug
            .and_then(|debug| debug.step)
            .is_some_and(|step| step.from == self.hart.statistics.instructions && step.pc == pc)
    }

    /// The instruction that `i`, which is next, has replaced, if it is to be executed now. All
    /// older ones are done.
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
