//! Privileged state of a hart, and the events that change it: traps, trap returns, interrupts.

use serde::{Deserialize, Serialize};

use crate::csr::{COUNTERS, Csrs, EVENT_COUNTERS, HARDWARE_INTERRUPTS, status};
use crate::instruction::{Instruction, Operation};
use crate::paging::{Accessor, Space};
use crate::trap::{Cause, Trap};

/// A privilege mode.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    state::State,
    state::Plain,
)]
pub enum Privilege {
    /// Applications.
    User,
    /// Operating systems, which manage the memory of applications.
    Supervisor,
    /// The mode after reset, in which everything is permitted.
    Machine,
}

impl Privilege {
    /// The encoding in `mstatus.MPP`.
    pub const fn encoding(self) -> u64 {
        match self {
            Privilege::User => 0,
            Privilege::Supervisor => 1,
            Privilege::Machine => 3,
        }
    }

    const fn decode(encoding: u64) -> Privilege {
        match encoding & 3 {
            0 => Privilege::User,
            1 => Privilege::Supervisor,
            _ => Privilege::Machine,
        }
    }
}

/// The effect of `mret`, `sret`, `wfi`, `sfence.vma`, `wrs.nto` or `wrs.sto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemOutcome {
    /// Continue at this address.
    Jump(u64),
    /// Halt until an interrupt is pending ([`Hart::wakes_from_wait`]), then continue with the next
    /// instruction.
    WaitForInterrupt,
    /// Discard translations according to [`Flush`](crate::paging::Flush), then continue with the
    /// next instruction.
    FlushTranslations,
    /// Optionally halt until the reservation is lost or an interrupt is pending, then continue with
    /// the next instruction; the halt may end at any time. "Zawrs" Extension for
    /// Wait-on-Reservation-Set instructions.
    WaitOnReservation(TimeOut),
}

/// The effect of the time-out of a wait on a reservation, after a time of the implementation's
/// choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub enum TimeOut {
    /// There is no time-out: the wait may last for ever.
    Never,
    /// The instruction completes.
    Done,
    /// The instruction is illegal.
    Illegal,
}

/// A hart's privileged state. The hart's user keeps its program counter and registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, state::State)]
pub struct Hart {
    /// The mode it runs in.
    pub privilege: Privilege,
    /// Its control and status registers.
    pub csrs: Csrs,
}

impl Hart {
    /// A hart after reset: machine mode, interrupts and floating point off, `scounteren` all ones,
    /// all else zero.
    pub fn new(hart_id: u64) -> Hart {
        let csrs = Csrs {
            mstatus: 0,
            mie: 0,
            mip: 0,
            medeleg: 0,
            mideleg: 0,
            stvec: 0,
            sscratch: 0,
            sepc: 0,
            scause: 0,
            stval: 0,
            satp: 0,
            // A system with only machine and user mode has `mcounteren` alone.
            scounteren: COUNTERS,
            senvcfg: 0,
            mtvec: 0,
            mscratch: 0,
            mepc: 0,
            mcause: 0,
            mtval: 0,
            mcounteren: 0,
            menvcfg: 0,
            mhartid: hart_id,
            fcsr: 0,
            pmpcfg: [0; 2],
            pmpaddr: [0; 16],
            cycle_offset: 0,
            instret_offset: 0,
            event: [0; EVENT_COUNTERS],
            event_offset: [0; EVENT_COUNTERS],
        };
        Hart {
            privilege: Privilege::Machine,
            csrs,
        }
    }

    /// Whether this mode may set `satp` and flush translations; otherwise these instructions trap.
    pub(crate) fn manages_translation(&self) -> bool {
        match self.privilege {
            Privilege::Machine => true,
            Privilege::Supervisor => self.csrs.mstatus & status::TVM == 0,
            Privilege::User => false,
        }
    }

    /// The current translation of instruction addresses, if any.
    #[inline]
    pub fn fetch_space(&self) -> Option<Space> {
        self.space(self.privilege)
    }

    /// The current translation of the addresses of loads, stores and atomics, if any.
    #[inline]
    pub fn data_space(&self) -> Option<Space> {
        let status = self.csrs.mstatus;
        if self.privilege == Privilege::Machine && status & status::MPRV != 0 {
            return self.space(Privilege::decode(status >> status::MPP_SHIFT));
        }
        self.space(self.privilege)
    }

    #[inline]
    fn space(&self, privilege: Privilege) -> Option<Space> {
        if self.csrs.satp == 0 {
            return None;
        }
        let executable_is_readable = self.csrs.mstatus & status::MXR != 0;
        let accessor = match privilege {
            Privilege::Machine => return None,
            Privilege::Supervisor => Accessor::Supervisor {
                reaches_user: self.csrs.mstatus & status::SUM != 0,
                executable_is_readable,
            },
            Privilege::User => Accessor::User {
                executable_is_readable,
            },
        };
        Space::of(self.csrs.satp, accessor)
    }

    /// Enters the trap handler and returns its address. `pc` is the address of the instruction that
    /// trapped or, for an interrupt, of the next instruction.
    pub fn take_trap(&mut self, trap: Trap, pc: u64) -> u64 {
        let csrs = &mut self.csrs;
        let delegated = match trap.cause {
            Cause::Interrupt(number) => csrs.mideleg >> (number & 63),
            cause => csrs.medeleg >> cause.code(),
        };
        let previous = self.privilege;
        let (vector, enabled, was_enabled);
        if previous != Privilege::Machine && delegated & 1 != 0 {
            (csrs.sepc, csrs.scause, csrs.stval) = (pc & !1, trap.cause.code(), trap.value);
            (vector, enabled, was_enabled) = (csrs.stvec, status::SIE, status::SPIE);
            csrs.mstatus &= !status::SPP;
            if previous == Privilege::Supervisor {
                csrs.mstatus |= status::SPP;
            }
            self.privilege = Privilege::Supervisor;
        } else {
            (csrs.mepc, csrs.mcause, csrs.mtval) = (pc & !1, trap.cause.code(), trap.value);
            (vector, enabled, was_enabled) = (csrs.mtvec, status::MIE, status::MPIE);
            csrs.mstatus &= !status::MPP;
            csrs.mstatus |= previous.encoding() << status::MPP_SHIFT;
            self.privilege = Privilege::Machine;
        }
        let saved = if csrs.mstatus & enabled != 0 {
            was_enabled
        } else {
            0
        };
        csrs.mstatus = csrs.mstatus & !(enabled | was_enabled) | saved;
        let base = vector & !3;
        match trap.cause {
            Cause::Interrupt(n) if vector & 1 != 0 => base.wrapping_add(4 * u64::from(n)),
            _ => base,
        }
    }

    /// Executes an instruction of [`crate::Class::System`]; `pc` is the instruction's own address.
    /// Calls and breakpoints always trap, and so do instructions that this privilege forbids.
    pub fn system(&mut self, i: &Instruction, pc: u64) -> Result<SystemOutcome, Trap> {
        let machine = self.privilege == Privilege::Machine;
        let supervisor = self.privilege == Privilege::Supervisor;
        let traps = |bit: u64| self.csrs.mstatus & bit != 0;
        match i.operation {
            Operation::Ecall => Err(Trap {
                cause: match self.privilege {
                    Privilege::User => Cause::EcallUser,
                    Privilege::Supervisor => Cause::EcallSupervisor,
                    Privilege::Machine => Cause::EcallMachine,
                },
                value: 0,
            }),
            Operation::Ebreak => Err(Trap {
                cause: Cause::Breakpoint,
                value: pc,
            }),
            Operation::Mret if machine => Ok(SystemOutcome::Jump(self.return_from_machine())),
            Operation::Sret if machine || supervisor && !traps(status::TSR) => {
                Ok(SystemOutcome::Jump(self.return_from_supervisor()))
            }
            Operation::SfenceVma if self.manages_translation() => {
                Ok(SystemOutcome::FlushTranslations)
            }
            Operation::Wfi if machine || !traps(status::TW) => Ok(SystemOutcome::WaitForInterrupt),
            Operation::WrsNto => Ok(SystemOutcome::WaitOnReservation(
                if machine || !traps(status::TW) {
                    TimeOut::Never
                } else {
                    TimeOut::Illegal
                },
            )),
            Operation::WrsSto => Ok(SystemOutcome::WaitOnReservation(TimeOut::Done)),
            _ => Err(Trap {
                cause: Cause::IllegalInstruction,
                value: i.bits.into(),
            }),
        }
    }

    fn return_from_machine(&mut self) -> u64 {
        let status = self.csrs.mstatus;
        self.privilege = Privilege::decode(status >> status::MPP_SHIFT);
        let enabled = if status & status::MPIE != 0 {
            status::MIE
        } else {
            0
        };
        self.csrs.mstatus = status & !(status::MIE | status::MPP) | status::MPIE | enabled;
        if self.privilege != Privilege::Machine {
            self.csrs.mstatus &= !status::MPRV;
        }
        self.csrs.mepc
    }

    fn return_from_supervisor(&mut self) -> u64 {
        let status = self.csrs.mstatus;
        self.privilege = Privilege::decode(u64::from(status & status::SPP != 0));
        let enabled = if status & status::SPIE != 0 {
            status::SIE
        } else {
            0
        };
        let cleared = status::SIE | status::SPP | status::MPRV;
        self.csrs.mstatus = status & !cleared | status::SPIE | enabled;
        self.csrs.sepc
    }

    /// Raises or lowers the interrupt `bit` of `mip`: 3 software, 7 timer, 11 external, 16 to
    /// 63 the platform's. Other bits do not exist, and stay zero.
    #[inline]
    pub fn set_interrupt(&mut self, bit: u8, level: bool) {
        let mask = 1_u64.checked_shl(bit.into()).unwrap_or(0) & HARDWARE_INTERRUPTS;
        if level {
            self.csrs.mip |= mask;
        } else {
            self.csrs.mip &= !mask;
        }
    }

    /// Whether any interrupt is enabled, so that one may be taken as soon as it is pending.
    pub fn enables_interrupts(&self) -> bool {
        self.csrs.mie != 0
    }

    /// The interrupt to take before the next instruction, if any. Machine-mode interrupts precede
    /// delegated ones; within each mode, the order is external, software, timer, and then the
    /// platform's by ascending number.
    #[inline]
    pub fn pending_interrupt(&self) -> Option<Trap> {
        let pending = self.csrs.mip & self.csrs.mie;
        if pending == 0 {
            return None;
        }
        let status = self.csrs.mstatus;
        let (machine_takes, supervisor_takes) = match self.privilege {
            Privilege::User => (true, true),
            Privilege::Supervisor => (true, status & status::SIE != 0),
            Privilege::Machine => (status & status::MIE != 0, false),
        };
        let delegated = pending & self.csrs.mideleg;
        let due = match pending & !self.csrs.mideleg {
            own if own != 0 && machine_takes => own,
            _ if supervisor_takes => delegated,
            _ => 0,
        };
        if due == 0 {
            return None;
        }
        let standard = [11, 3, 7, 9, 1, 5];
        let standard = standard.into_iter().find(|bit| due >> bit & 1 != 0);
        let number = standard.unwrap_or(due.trailing_zeros() as u8);
        Some(Trap {
            cause: Cause::Interrupt(number),
            value: 0,
        })
    }

    /// Whether `wfi` ends: an interrupt is pending and enabled in `mie`, even if `mstatus` disables
    /// it.
    #[inline]
    pub fn wakes_from_wait(&self) -> bool {
        self.csrs.mip & self.csrs.mie != 0
    }

    /// The accrued exception flags (`fflags`).
    #[inline]
    pub fn float_flags(&self) -> u8 {
        (self.csrs.fcsr & 0x1f) as u8
    }

    /// Adds exception flags; marks the floating-point state dirty if there are any.
    #[inline]
    pub fn add_flags(&mut self, flags: u8) {
        if flags != 0 {
            self.csrs.fcsr |= u64::from(flags & 0x1f);
            self.set_float_dirty();
        }
    }

    /// The dynamic rounding mode (`frm`), 0 to 7; 5 to 7 are reserved.
    #[inline]
    pub fn rounding_mode(&self) -> u8 {
        (self.csrs.fcsr >> 5 & 7) as u8
    }

    /// Whether floating-point instructions are enabled: `mstatus.FS` is not Off. Otherwise they are
    /// illegal.
    #[inline]
    pub fn float_enabled(&self) -> bool {
        self.csrs.mstatus & status::FS != 0
    }

    /// Sets `mstatus.FS` to Dirty; must be called when a floating-point register is written.
    #[inline]
    pub fn set_float_dirty(&mut self) {
        self.csrs.mstatus |= status::FS;
    }
}
