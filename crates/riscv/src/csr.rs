//! Control and status registers: their contents, reads and writes.

use serde::{Deserialize, Serialize};

use crate::hart::{Hart, Privilege};
use crate::instruction::{Instruction, Operation};
use crate::trap::{Cause, Trap};

/// The values of the counters, as if software had never written them. The model of time supplies
/// them; a hart does not keep time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Clock cycles the core has run.
    pub cycle: u64,
    /// Ticks of the real-time clock.
    pub time: u64,
    /// Instructions the hart has retired before this one.
    pub instret: u64,
}

/// The control and status registers, as stored. All fields hold legal values only. Privileged
/// Architecture, chapters "Machine-Level ISA" and "Supervisor-Level ISA". `sstatus`, `sie` and
/// `sip` are parts of `mstatus`, `mie` and `mip`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, state::State)]
pub struct Csrs {
    /// `mstatus`, without the bits that are constant or derived (SXL, UXL, SD).
    pub mstatus: u64,
    /// `mie`: enabled interrupts.
    pub mie: u64,
    /// `mip`: pending interrupts. Software sets those of supervisor mode, and
    /// [`Hart::set_interrupt`] the others.
    pub mip: u64,
    /// `medeleg`: exceptions that supervisor mode handles unless they come from machine mode.
    pub medeleg: u64,
    /// `mideleg`: interrupts that supervisor mode handles.
    pub mideleg: u64,
    /// `mtvec`: address of the trap handler; bit 0 if interrupts are vectored.
    pub mtvec: u64,
    /// `mscratch`.
    pub mscratch: u64,
    /// `mepc`: the address at which the last trap occurred.
    pub mepc: u64,
    /// `mcause`: its cause.
    pub mcause: u64,
    /// `mtval`: its address or encoding.
    pub mtval: u64,
    /// `stvec`, as `mtvec`.
    pub stvec: u64,
    /// `sscratch`.
    pub sscratch: u64,
    /// `sepc`.
    pub sepc: u64,
    /// `scause`.
    pub scause: u64,
    /// `stval`.
    pub stval: u64,
    /// `satp`: the translation of addresses in supervisor and user mode.
    pub satp: u64,
    /// `scounteren`: counters that user mode may read if supervisor mode may.
    pub scounteren: u64,
    /// `senvcfg`: FIOM only.
    pub senvcfg: u64,
    /// `mcounteren`: counters that the other modes may read (bits 0 to 2: cycle, time, instret;
    /// from bit 3 on the event counters).
    pub mcounteren: u64,
    /// `menvcfg`: FIOM only.
    pub menvcfg: u64,
    /// `mhartid`.
    #[state(fixed)]
    pub mhartid: u64,
    /// `fcsr`: rounding mode in bits 7:5, exception flags in bits 4:0.
    pub fcsr: u64,
    /// `pmpcfg0` and `pmpcfg2`. Physical memory protection is stored, but protects nothing.
    pub pmpcfg: [u64; 2],
    /// `pmpaddr0` to `pmpaddr15`.
    pub pmpaddr: [u64; 16],
    /// The difference that software has added to `mcycle` by writing it.
    pub cycle_offset: u64,
    /// The difference that software has added to `minstret` by writing it.
    pub instret_offset: u64,
    /// `mhpmevent3` to `mhpmevent10`: the event of each counter; 0: none.
    pub event: [u8; EVENT_COUNTERS],
    /// The differences between the event counters and the numbers of their events.
    pub event_offset: [u64; EVENT_COUNTERS],
}

/// `mhpmcounter3` to `mhpmcounter10` count; the others are constant zero.
pub const EVENT_COUNTERS: usize = 8;

/// The number of occurrences of an event, by the event's number; `None` if there is no such event.
/// Number 0 is never an event.
pub type Events<'a> = &'a dyn Fn(u8) -> Option<u64>;

/// The event counter that an `mhpmevent`, `mhpmcounter` or `hpmcounter` belongs to.
fn event_counter(number: u16) -> Option<usize> {
    let counter = usize::from(number & 31).checked_sub(3)?;
    (counter < EVENT_COUNTERS).then_some(counter)
}

impl Csrs {
    /// The value of an event counter.
    fn events(&self, number: u16, events: Events<'_>) -> u64 {
        event_counter(number).map_or(0, |one| {
            let happened = events(self.event[one]).unwrap_or(0);
            happened.wrapping_add(self.event_offset[one])
        })
    }

    /// Sets the value of an event counter.
    fn set_events(&mut self, number: u16, value: u64, events: Events<'_>) {
        if let Some(one) = event_counter(number) {
            let happened = events(self.event[one]).unwrap_or(0);
            self.event_offset[one] = value.wrapping_sub(happened);
        }
    }

    /// SD, if there is floating-point state to be saved.
    fn dirty(&self) -> u64 {
        match self.mstatus & status::FS {
            status::FS => status::SD,
            _ => 0,
        }
    }

    /// Selects the counter's event, or none if there is no such event. The counter keeps its value.
    fn select_event(&mut self, number: u16, event: u64, events: Events<'_>) {
        if let Some(one) = event_counter(number) {
            let value = self.events(number, events);
            let event = u8::try_from(event).unwrap_or(0);
            self.event[one] = events(event).map_or(0, |_| event);
            self.set_events(number, value, events);
        }
    }
}

/// The fields of `mstatus`.
pub(crate) mod status {
    pub const SIE: u64 = 1 << 1;
    pub const MIE: u64 = 1 << 3;
    pub const SPIE: u64 = 1 << 5;
    pub const MPIE: u64 = 1 << 7;
    pub const SPP: u64 = 1 << 8;
    pub const MPP: u64 = 3 << MPP_SHIFT;
    pub const MPP_SHIFT: u32 = 11;
    pub const FS: u64 = 3 << 13;
    pub const MPRV: u64 = 1 << 17;
    pub const SUM: u64 = 1 << 18;
    pub const MXR: u64 = 1 << 19;
    pub const TVM: u64 = 1 << 20;
    pub const TW: u64 = 1 << 21;
    pub const TSR: u64 = 1 << 22;
    pub const UXL_64: u64 = 2 << 32;
    pub const SXL_64: u64 = 2 << 34;
    pub const SD: u64 = 1 << 63;
    /// The writable fields that `sstatus` has, too.
    pub const SUPERVISOR: u64 = SIE | SPIE | SPP | FS | SUM | MXR;
    /// All writable fields.
    pub const WRITABLE: u64 = SUPERVISOR | MIE | MPIE | MPP | MPRV | TVM | TW | TSR;
}

/// RV64, with the extensions A, B, C, D, F, I, M, supervisor and user mode.
const MISA: u64 =
    2 << 62 | 1 << 20 | 1 << 18 | 1 << 12 | 1 << 8 | 1 << 5 | 1 << 3 | 1 << 2 | 1 << 1 | 1;

/// Software, timer and external interrupts of machine mode, and the platform's own.
pub(crate) const HARDWARE_INTERRUPTS: u64 = !0xffff | 1 << 11 | 1 << 7 | 1 << 3;
/// Software, timer and external interrupts of supervisor mode.
const SUPERVISOR_INTERRUPTS: u64 = 1 << 9 | 1 << 5 | 1 << 1;
/// The interrupts that supervisor mode may itself make pending.
const SUPERVISOR_SOFTWARE: u64 = 1 << 1;
/// Interrupts that can be delegated: none of machine mode's.
const DELEGABLE_INTERRUPTS: u64 = !0xffff | SUPERVISOR_INTERRUPTS;
/// Exceptions that can be delegated: all that can occur below machine mode, including the reserved
/// ones of extensions.
const DELEGABLE_EXCEPTIONS: u64 = 0xff << 24 | 1 << 15 | 1 << 13 | 1 << 12 | 0x3ff;

/// `mcounteren` and `scounteren` have a bit for each counter.
pub(crate) const COUNTERS: u64 = (1 << (3 + EVENT_COUNTERS)) - 1;

impl Hart {
    /// Executes a CSR instruction: returns the value for `rd`, or an illegal-instruction trap if
    /// the CSR does not exist, is inaccessible at this privilege, or is read-only and written.
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
        // Bits 11:10 encode whether it is writable, bits 9:8 the lowest privilege.
        let needed = match number >> 8 & 3 {
            0 => Privilege::User,
            1 => Privilege::Supervisor,
            _ => Privilege::Machine,
        };
        let is_trapped = number == 0x180 && !self.manages_translation();
        if self.privilege < needed || is_trapped {
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

    /// The value of a CSR in any mode, for observers of the hart; `None` if it does not exist or is
    /// disabled.
    pub fn csr_value(&self, number: u16, counters: Counters, events: Events<'_>) -> Option<u64> {
        self.read(number, counters, events)
    }

    /// The value of a CSR, if it exists and is readable now.
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
            0x100 => csrs.mstatus & status::SUPERVISOR | status::UXL_64 | csrs.dirty(),
            0x104 => csrs.mie & csrs.mideleg,
            0x105 => csrs.stvec,
            0x106 => csrs.scounteren,
            0x10a => csrs.senvcfg,
            0x140 => csrs.sscratch,
            0x141 => csrs.sepc,
            0x142 => csrs.scause,
            0x143 => csrs.stval,
            0x144 => csrs.mip & csrs.mideleg,
            0x180 => csrs.satp,
            0x300 => csrs.mstatus | status::SXL_64 | status::UXL_64 | csrs.dirty(),
            0x301 => MISA,
            0x302 => csrs.medeleg,
            0x303 => csrs.mideleg,
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
            // "Sdtrig (ISA Extension)"). Programs that look for breakpoints expect this answer.
            0x7a0..=0x7a3 => 0,
            0xf11..=0xf13 | 0xf15 => 0, // mvendorid, marchid, mimpid, mconfigptr
            0xf14 => csrs.mhartid,
            _ => return None,
        })
    }

    /// Writes an existing CSR; illegal values are replaced by legal ones.
    fn write(&mut self, number: u16, value: u64, counters: Counters, events: Events<'_>) {
        let csrs = &mut self.csrs;
        match number {
            0x001 => csrs.fcsr = csrs.fcsr & !0x1f | value & 0x1f,
            0x002 => csrs.fcsr = csrs.fcsr & 0x1f | (value & 7) << 5,
            0x003 => csrs.fcsr = value & 0xff,
            0x100 => {
                let new = value & status::SUPERVISOR;
                csrs.mstatus = csrs.mstatus & !status::SUPERVISOR | new;
            }
            0x104 => csrs.mie = csrs.mie & !csrs.mideleg | value & csrs.mideleg,
            0x105 => csrs.stvec = value & !2,
            0x106 => csrs.scounteren = value & COUNTERS,
            0x10a => csrs.senvcfg = value & 1,
            0x140 => csrs.sscratch = value,
            0x141 => csrs.sepc = value & !1,
            0x142 => csrs.scause = value,
            0x143 => csrs.stval = value,
            0x144 => {
                let changed = SUPERVISOR_SOFTWARE & csrs.mideleg;
                csrs.mip = csrs.mip & !changed | value & changed;
            }
            // Bare, Sv39, Sv48. "If satp is written with an unsupported MODE, the entire write has
            // no effect."
            0x180 if matches!(value >> 60, 0 | 8 | 9) => csrs.satp = value,
            0x300 => {
                let mut new = value & status::WRITABLE;
                if new & status::MPP == 2 << status::MPP_SHIFT {
                    // There is no such mode: keep the old one.
                    new = new & !status::MPP | csrs.mstatus & status::MPP;
                }
                csrs.mstatus = new;
            }
            0x302 => csrs.medeleg = value & DELEGABLE_EXCEPTIONS,
            0x303 => csrs.mideleg = value & DELEGABLE_INTERRUPTS,
            0x304 => csrs.mie = value & (HARDWARE_INTERRUPTS | SUPERVISOR_INTERRUPTS),
            0x305 => csrs.mtvec = value & !2,
            0x306 => csrs.mcounteren = value & COUNTERS,
            0x30a => csrs.menvcfg = value & 1,
            0x340 => csrs.mscratch = value,
            0x341 => csrs.mepc = value & !1,
            0x342 => csrs.mcause = value,
            0x343 => csrs.mtval = value,
            0x344 => {
                let others = csrs.mip & !SUPERVISOR_INTERRUPTS;
                csrs.mip = others | value & SUPERVISOR_INTERRUPTS;
            }
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
        let enabled = match self.privilege {
            Privilege::Machine => u64::MAX,
            Privilege::Supervisor => self.csrs.mcounteren,
            Privilege::User => self.csrs.mcounteren & self.csrs.scounteren,
        };
        enabled >> (number & 31) & 1 != 0
    }
}

/// The value that a CSR instruction writes into a CSR holding `old`; `None` for `csrrs` and `csrrc`
/// whose operand is `x0` or the immediate 0. For CSRs outside the hart, such as those of an
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

/// Eight entries of a byte each: R, W, X and the matching mode are kept. The lock bit is not, since
/// entries protect nothing; nor is the reserved combination of W without R.
fn pmp_config(value: u64) -> u64 {
    let readable = value & 0x0101_0101_0101_0101;
    value & (0x1d1d_1d1d_1d1d_1d1d | readable << 1)
}
