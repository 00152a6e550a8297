//! Privileged state of a hart: its control and status registers, and what changes them.

use serde::{Deserialize, Serialize};

use crate::instruction::{Instruction, Operation};
use crate::trap::{Cause, Trap};

/// How much a program may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Privilege {
    /// Applications.
    User,
    /// Everything is allowed; the mode after reset.
    Machine,
}

state::choice!(Privilege { User, Machine });

/// What the counters would read if nothing had been written to them. Whoever keeps time
/// knows; a hart does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Clock cycles the core has run.
    pub cycle: u64,
    /// Ticks of the real-time clock.
    pub time: u64,
    /// Instructions the hart has retired before this one.
    pub instret: u64,
}

/// What `mret`, `wfi`, `wrs.nto` or `wrs.sto` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemOutcome {
    /// Go on at this address.
    Jump(u64),
    /// Halt until an interrupt is pending ([`Hart::wakes_from_wait`]), then go on after.
    WaitForInterrupt,
    /// The hart may halt until its reservation is gone or an interrupt is pending, and then goes
    /// on after; it may go on at any time.
    /// "Zawrs" Extension for Wait-on-Reservation-Set instructions.
    WaitOnReservation(TimeOut),
}

/// What ends a wait on a reservation after a time of the implementation's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeOut {
    /// Nothing: the wait may last for ever.
    Never,
    /// The instruction is done.
    Done,
    /// The instruction is illegal.
    Illegal,
}

state::choice!(TimeOut {
    Never,
    Done,
    Illegal
});

/// The control and status registers, as they are stored. All fields hold legal values only.
/// Privileged Architecture, chapter "Machine-Level ISA".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Csrs {
    /// `mstatus`, without the bits that are constant or derived (UXL, SD).
    pub mstatus: u64,
    /// `mie`: interrupts that are enabled.
    pub mie: u64,
    /// `mip`: interrupts that are pending. Set by [`Hart::set_interrupt`] only.
    pub mip: u64,
    /// `mtvec`: address of the trap handler; bit 0 if interrupts are vectored.
    pub mtvec: u64,
    /// `mscratch`.
    pub mscratch: u64,
    /// `mepc`: where the last trap came from.
    pub mepc: u64,
    /// `mcause`: why.
    pub mcause: u64,
    /// `mtval`: with what address or encoding.
    pub mtval: u64,
    /// `mcounteren`: counters that user mode may read (bits 0 to 2: cycle, time, instret; from bit
    /// 3 on those of events).
    pub mcounteren: u64,
    /// `menvcfg`: FIOM only.
    pub menvcfg: u64,
    /// `mhartid`.
    pub mhartid: u64,
    /// `fcsr`: rounding mode in bits 7:5, exception flags in bits 4:0.
    pub fcsr: u64,
    /// `pmpcfg0` and `pmpcfg2`. Physical memory protection is stored, but protects nothing.
    pub pmpcfg: [u64; 2],
    /// `pmpaddr0` to `pmpaddr15`.
    pub pmpaddr: [u64; 16],
    /// What software has added to `mcycle` by writing it.
    pub cycle_offset: u64,
    /// What software has added to `minstret` by writing it.
    pub instret_offset: u64,
    /// `mhpmevent3` to `mhpmevent10`: what each counter counts; 0: nothing.
    pub event: [u8; EVENT_COUNTERS],
    /// What the counters of events have beyond the number of their events.
    pub event_offset: [u64; EVENT_COUNTERS],
}

/// `mhpmcounter3` to `mhpmcounter10` count; the others are constant zero.
pub const EVENT_COUNTERS: usize = 8;

/// How often an event has happened, by its number; `None` if there is no such event. There is none
/// with the number 0.
pub type Events<'a> = &'a dyn Fn(u8) -> Option<u64>;

state::component!(Csrs {
    mstatus,
    mie,
    mip,
    mtvec,
    mscratch,
    mepc,
    mcause,
    mtval,
    mcounteren,
    menvcfg,
    mhartid: fixed,
    fcsr,
    pmpcfg,
    pmpaddr,
    cycle_offset,
    instret_offset,
    event,
    event_offset,
});

/// Which of the counters of events an `mhpmevent`, `mhpmcounter` or `hpmcounter` is about.
fn event_counter(number: u16) -> Option<usize> {
    let counter = usize::from(number & 31).checked_sub(3)?;
    (counter < EVENT_COUNTERS).then_some(counter)
}

impl Csrs {
    /// The value of a counter of events.
    fn events(&self, number: u16, events: Events<'_>) -> u64 {
        event_counter(number).map_or(0, |one| {
            let happened = events(self.event[one]).unwrap_or(0);
            happened.wrapping_add(self.event_offset[one])
        })
    }

    /// The counter has this value now.
    fn set_events(&mut self, number: u16, value: u64, events: Events<'_>) {
        if let Some(one) = event_counter(number) {
            let happened = events(self.event[one]).unwrap_or(0);
            self.event_offset[one] = value.wrapping_sub(happened);
        }
    }

    /// The counter counts another event from now on, if there is such an event, and nothing if
    /// not. It keeps its value.
    fn select_event(&mut self, number: u16, event: u64, events: Events<'_>) {
        if let Some(one) = event_counter(number) {
            let value = self.events(number, events);
            let event = u8::try_from(event).unwrap_or(0);
            self.event[one] = events(event).map_or(0, |_| event);
            self.set_events(number, value, events);
        }
    }
}

const MIE: u64 = 1 << 3;
const MPIE: u64 = 1 << 7;
const MPP: u64 = 3 << 11;
const FS: u64 = 3 << 13;
const MPRV: u64 = 1 << 17;
const TW: u64 = 1 << 21;
const UXL_64: u64 = 2 << 32;
const SD: u64 = 1 << 63;

/// RV64, with the extensions A, B, C, D, F, I, M and user mode.
const MISA: u64 = 2 << 62 | 1 << 20 | 1 << 12 | 1 << 8 | 1 << 5 | 1 << 3 | 1 << 2 | 1 << 1 | 1;

/// Software, timer and external interrupts, and the platform's own.
const INTERRUPTS: u64 = !0xffff | 1 << 11 | 1 << 7 | 1 << 3;

/// A hart's privileged state. Its program counter and registers live with whoever runs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hart {
    /// The mode it runs in.
    pub privilege: Privilege,
    /// Its control and status registers.
    pub csrs: Csrs,
}

state::component!(Hart { privilege, csrs });

impl Hart {
    /// A hart after reset: machine mode, interrupts and floating point off, all else zero.
    pub fn new(hart_id: u64) -> Hart {
        let csrs = Csrs {
            mstatus: 0,
            mie: 0,
            mip: 0,
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

    /// Executes a CSR instruction: the value for `rd`, or an illegal-instruction trap if the
    /// CSR does not exist, is out of reach of this privilege, or is read-only and written.
    /// "Zicsr" Extension; Privileged Architecture, chapter "Control and Status Registers".
    ///
    /// A written `minstret` counts from the next instruction on, as if this one had retired.
    pub fn csr(
        &mut self,
        i: &Instruction,
        rs1_value: u64,
        counters: Counters,
        events: Events<'_>,
    ) -> Result<u64, Trap> {
        let illegal = Trap {
            cause: Cause::IllegalInstruction,
            value: i.bits.into(),
        };
        let number = i.csr_number();
        // Bits 11:10 say whether it can be written, bits 9:8 who may access it.
        let needs_machine = number >> 8 & 3 != 0;
        if needs_machine && self.privilege != Privilege::Machine {
            return Err(illegal);
        }
        let old = self.read(number, counters, events).ok_or(illegal)?;
        if let Some(new) = csr_update(i, old, rs1_value) {
            if number >> 10 == 3 {
                return Err(illegal);
            }
            self.write(number, new, counters, events);
        }
        Ok(old)
    }

    /// The value of a CSR that exists and that may be read now.
    fn read(&self, number: u16, counters: Counters, events: Events<'_>) -> Option<u64> {
        let csrs = &self.csrs;
        Some(match number {
            0x001..=0x003 if !self.float_enabled() => return None,
            0x001 => csrs.fcsr & 0x1f,
            0x002 => csrs.fcsr >> 5,
            0x003 => csrs.fcsr,
            0xc00..=0xc1f if !self.counter_enabled(number) => return None,
            0xb00 | 0xc00 => counters.cycle.wrapping_add(csrs.cycle_offset),
            0xc01 => counters.time,
            0xb02 | 0xc02 => counters.instret.wrapping_add(csrs.instret_offset),
            0xb03..=0xb1f | 0xc03..=0xc1f => csrs.events(number, events), // mhpmcounter3..31, hpmcounter3..31
            0x300 => {
                let dirty = if csrs.mstatus & FS == FS { SD } else { 0 };
                csrs.mstatus | UXL_64 | dirty
            }
            0x301 => MISA,
            0x304 => csrs.mie,
            0x305 => csrs.mtvec,
            0x306 => csrs.mcounteren,
            0x30a => csrs.menvcfg,
            0x320 => 0, // mcountinhibit
            0x323..=0x33f => event_counter(number).map_or(0, |one| csrs.event[one].into()),
            0x340 => csrs.mscratch,
            0x341 => csrs.mepc,
            0x342 => csrs.mcause,
            0x343 => csrs.mtval,
            0x344 => csrs.mip,
            0x3a0 => csrs.pmpcfg[0],
            0x3a2 => csrs.pmpcfg[1],
            0x3b0..=0x3bf => csrs.pmpaddr[usize::from(number & 15)],
            // tselect, tdata1 to tdata3: "there are no triggers" (Debug Specification, chapter
            // "Sdtrig (ISA Extension)"). Programs that look for breakpoints expect to be told so.
            0x7a0..=0x7a3 => 0,
            0xf11..=0xf13 | 0xf15 => 0, // mvendorid, marchid, mimpid, mconfigptr
            0xf14 => csrs.mhartid,
            _ => return None,
        })
    }

    /// Writes a CSR that exists; what is not legal in it is replaced by what is.
    fn write(&mut self, number: u16, value: u64, counters: Counters, events: Events<'_>) {
        let csrs = &mut self.csrs;
        match number {
            0x001 => csrs.fcsr = csrs.fcsr & !0x1f | value & 0x1f,
            0x002 => csrs.fcsr = csrs.fcsr & 0x1f | (value & 7) << 5,
            0x003 => csrs.fcsr = value & 0xff,
            0x300 => {
                let mut new = value & (MIE | MPIE | MPP | FS | MPRV | TW);
                if !matches!(new & MPP, 0 | MPP) {
                    new = new & !MPP | csrs.mstatus & MPP; // no such mode: stays as it was
                }
                csrs.mstatus = new;
            }
            0x304 => csrs.mie = value & INTERRUPTS,
            0x305 => csrs.mtvec = value & !2,
            0x306 => csrs.mcounteren = value & ((1 << (3 + EVENT_COUNTERS)) - 1),
            0x30a => csrs.menvcfg = value & 1,
            0x340 => csrs.mscratch = value,
            0x341 => csrs.mepc = value & !1,
            0x342 => csrs.mcause = value,
            0x343 => csrs.mtval = value,
            0x3a0 | 0x3a2 => csrs.pmpcfg[usize::from(number >> 1 & 1)] = pmp_config(value),
            0x3b0..=0x3bf => csrs.pmpaddr[usize::from(number & 15)] = value & ((1 << 54) - 1),
            0xb00 => csrs.cycle_offset = value.wrapping_sub(counters.cycle),
            0xb02 => csrs.instret_offset = value.wrapping_sub(counters.instret).wrapping_sub(1),
            0x323..=0x33f => csrs.select_event(number, value, events),
            0xb03..=0xb1f => csrs.set_events(number, value, events),
            _ => {} // constant
        }
        if matches!(number, 0x001..=0x003) {
            self.set_float_dirty();
        }
    }

    fn counter_enabled(&self, number: u16) -> bool {
        self.privilege == Privilege::Machine || self.csrs.mcounteren >> (number & 31) & 1 != 0
    }

    /// Enters the trap handler: its address. `pc` is that of the instruction that trapped or,
    /// for an interrupt, of the one that would have come next.
    pub fn take_trap(&mut self, trap: Trap, pc: u64) -> u64 {
        let csrs = &mut self.csrs;
        csrs.mepc = pc & !1;
        csrs.mcause = trap.cause.code();
        csrs.mtval = trap.value;
        let previous_mie = if csrs.mstatus & MIE != 0 { MPIE } else { 0 };
        let previous_mode = if self.privilege == Privilege::Machine {
            MPP
        } else {
            0
        };
        csrs.mstatus = csrs.mstatus & !(MIE | MPIE | MPP) | previous_mie | previous_mode;
        self.privilege = Privilege::Machine;
        let base = csrs.mtvec & !3;
        match trap.cause {
            Cause::Interrupt(n) if csrs.mtvec & 1 != 0 => base.wrapping_add(4 * u64::from(n)),
            _ => base,
        }
    }

    /// Executes what is of [`crate::Class::System`]; `pc` is the instruction's own address.
    /// Calls and breakpoints always trap, and so does what this privilege forbids.
    pub fn system(&mut self, i: &Instruction, pc: u64) -> Result<SystemOutcome, Trap> {
        let machine = self.privilege == Privilege::Machine;
        match i.operation {
            Operation::Ecall if machine => Err(Trap {
                cause: Cause::EcallMachine,
                value: 0,
            }),
            Operation::Ecall => Err(Trap {
                cause: Cause::EcallUser,
                value: 0,
            }),
            Operation::Ebreak => Err(Trap {
                cause: Cause::Breakpoint,
                value: pc,
            }),
            Operation::Mret if machine => Ok(SystemOutcome::Jump(self.return_from_trap())),
            Operation::Wfi if machine || self.csrs.mstatus & TW == 0 => {
                Ok(SystemOutcome::WaitForInterrupt)
            }
            Operation::WrsNto => Ok(SystemOutcome::WaitOnReservation(
                if machine || self.csrs.mstatus & TW == 0 {
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

    fn return_from_trap(&mut self) -> u64 {
        let status = self.csrs.mstatus;
        let mie = if status & MPIE != 0 { MIE } else { 0 };
        self.csrs.mstatus = status & !(MIE | MPP) | MPIE | mie;
        if status & MPP == 0 {
            self.privilege = Privilege::User;
            self.csrs.mstatus &= !MPRV;
        }
        self.csrs.mepc
    }

    /// Raises or lowers the interrupt `bit` of `mip`: 3 software, 7 timer, 11 external, 16 to
    /// 63 the platform's. Other bits do not exist, and stay zero.
    #[inline]
    pub fn set_interrupt(&mut self, bit: u8, level: bool) {
        let mask = 1_u64.checked_shl(bit.into()).unwrap_or(0) & INTERRUPTS;
        if level {
            self.csrs.mip |= mask;
        } else {
            self.csrs.mip &= !mask;
        }
    }

    /// The interrupt to take before the next instruction, if there is one: external before
    /// software before timer before the platform's, of which the lowest number goes first.
    #[inline]
    pub fn pending_interrupt(&self) -> Option<Trap> {
        let pending = self.csrs.mip & self.csrs.mie;
        let enabled = self.privilege == Privilege::User || self.csrs.mstatus & MIE != 0;
        if pending == 0 || !enabled {
            return None;
        }
        let standard = [11, 3, 7].into_iter().find(|bit| pending >> bit & 1 != 0);
        let number = standard.unwrap_or(pending.trailing_zeros() as u8);
        Some(Trap {
            cause: Cause::Interrupt(number),
            value: 0,
        })
    }

    /// Whether `wfi` ends: an interrupt is pending and enabled in `mie`, even if `mstatus.MIE`
    /// keeps it from being taken.
    #[inline]
    pub fn wakes_from_wait(&self) -> bool {
        self.csrs.mip & self.csrs.mie != 0
    }

    /// The exception flags that have accumulated (`fflags`).
    #[inline]
    pub fn float_flags(&self) -> u8 {
        (self.csrs.fcsr & 0x1f) as u8
    }

    /// Adds exception flags; makes the floating-point state dirty if there are any.
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

    /// Whether floating-point instructions may be executed: `mstatus.FS` is not Off. If it is,
    /// they are illegal.
    #[inline]
    pub fn float_enabled(&self) -> bool {
        self.csrs.mstatus & FS != 0
    }

    /// Sets `mstatus.FS` to Dirty; to be called when a floating-point register is written.
    #[inline]
    pub fn set_float_dirty(&mut self) {
        self.csrs.mstatus |= FS;
    }
}

/// What a CSR instruction writes into a CSR that holds `old`; nothing for `csrrs` and `csrrc`
/// whose operand is `x0` or the immediate 0. For CSRs that are no hart's, such as those of an
/// extension.
#[inline]
pub fn csr_update(i: &Instruction, old: u64, rs1_value: u64) -> Option<u64> {
    let immediate = i.csr_immediate();
    match i.operation {
        Operation::Csrrw => Some(rs1_value),
        Operation::Csrrs if i.rs1 != 0 => Some(old | rs1_value),
        Operation::Csrrc if i.rs1 != 0 => Some(old & !rs1_value),
        Operation::Csrrwi => Some(immediate),
        Operation::Csrrsi if immediate != 0 => Some(old | immediate),
        Operation::Csrrci if immediate != 0 => Some(old & !immediate),
        _ => None,
    }
}

/// Eight entries of a byte each: R, W, X and the matching mode stay. The lock does not, since
/// entries protect nothing; nor does the reserved combination of W without R.
fn pmp_config(value: u64) -> u64 {
    let readable = value & 0x0101_0101_0101_0101;
    value & (0x1d1d_1d1d_1d1d_1d1d | readable << 1)
}
