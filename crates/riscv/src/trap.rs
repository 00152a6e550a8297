//! Exceptions and interrupts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A reason to leave the program for the trap handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, state::State, state::Plain)]
pub struct Trap {
    /// The cause.
    pub cause: Cause,
    /// What `mtval` or `stval` receives: the faulting address, the illegal encoding, or 0.
    pub value: u64,
}

/// The cause of a trap. Privileged Architecture, section "Machine Cause (mcause) Register".
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, state::State, state::Plain,
)]
pub enum Cause {
    /// Jump to an odd address. Impossible with the "C" extension; included for completeness.
    InstructionMisaligned,
    /// The address is not executable memory.
    InstructionAccess,
    /// Not an instruction, or one that this privilege or state forbids.
    IllegalInstruction,
    /// `ebreak`.
    Breakpoint,
    /// Misaligned load (only `lr` here).
    LoadMisaligned,
    /// The address is not readable memory.
    LoadAccess,
    /// Misaligned store or atomic (only atomics here).
    StoreMisaligned,
    /// The address is not writable memory.
    StoreAccess,
    /// `ecall` in user mode.
    EcallUser,
    /// `ecall` in supervisor mode.
    EcallSupervisor,
    /// `ecall` in machine mode.
    EcallMachine,
    /// The page of an instruction is not executable.
    InstructionPage,
    /// The page of a load is not readable.
    LoadPage,
    /// The page of a store or an atomic is not writable.
    StorePage,
    /// An exception of hardware beside the hart, with a number reserved for custom use: 24 to 31.
    Custom(u8),
    /// Interrupt with this number: 3 software, 7 timer, 11 external of machine mode, 1, 5 and 9
    /// those of supervisor mode, 16 to 63 the platform's.
    Interrupt(u8),
}

impl Cause {
    /// The value of `mcause`; interrupts have bit 63 set.
    pub const fn code(self) -> u64 {
        match self {
            Cause::InstructionMisaligned => 0,
            Cause::InstructionAccess => 1,
            Cause::IllegalInstruction => 2,
            Cause::Breakpoint => 3,
            Cause::LoadMisaligned => 4,
            Cause::LoadAccess => 5,
            Cause::StoreMisaligned => 6,
            Cause::StoreAccess => 7,
            Cause::EcallUser => 8,
            Cause::EcallSupervisor => 9,
            Cause::EcallMachine => 11,
            Cause::InstructionPage => 12,
            Cause::LoadPage => 13,
            Cause::StorePage => 15,
            Cause::Custom(number) => number as u64,
            Cause::Interrupt(number) => 1 << 63 | number as u64,
        }
    }

    /// Whether it is an interrupt, which no instruction caused.
    pub const fn is_interrupt(self) -> bool {
        matches!(self, Cause::Interrupt(_))
    }

    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::InstructionMisaligned => "misaligned instruction address",
            Cause::InstructionAccess => "instruction access fault",
            Cause::IllegalInstruction => "illegal instruction",
            Cause::Breakpoint => "breakpoint",
            Cause::LoadMisaligned => "misaligned load address",
            Cause::LoadAccess => "load access fault",
            Cause::StoreMisaligned => "misaligned store or atomic address",
            Cause::StoreAccess => "store or atomic access fault",
            Cause::EcallUser => "environment call from user mode",
            Cause::EcallSupervisor => "environment call from supervisor mode",
            Cause::EcallMachine => "environment call from machine mode",
            Cause::InstructionPage => "instruction page fault",
            Cause::LoadPage => "load page fault",
            Cause::StorePage => "store or atomic page fault",
            Cause::Custom(_) => "exception of an extension",
            Cause::Interrupt(1) => "supervisor software interrupt",
            Cause::Interrupt(5) => "supervisor timer interrupt",
            Cause::Interrupt(9) => "supervisor external interrupt",
            Cause::Interrupt(3) => "machine software interrupt",
            Cause::Interrupt(7) => "machine timer interrupt",
            Cause::Interrupt(11) => "machine external interrupt",
            Cause::Interrupt(_) => "platform interrupt",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Cause::Interrupt(number @ 16..) | Cause::Custom(number) => write!(f, " {number}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.cause {
            Cause::EcallUser
            | Cause::EcallSupervisor
            | Cause::EcallMachine
            | Cause::Interrupt(_) => self.cause.fmt(f),
            Cause::IllegalInstruction => write!(f, "{} {:#010x}", self.cause, self.value),
            _ => write!(f, "{} at {:#x}", self.cause, self.value),
        }
    }
}
