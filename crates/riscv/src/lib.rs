//! The RISC-V instruction set: RV64GC with Zicsr and Zifencei, bit manipulation (B: Zba, Zbb, Zbs),
//! Zawrs and Zicbop, in machine, supervisor and user mode, with the virtual memory of Sv39 and
//! Sv48.
//!
//! The *meaning* of instructions is defined here: [`decode()`], [`evaluate`], the CSRs and traps of
//! a [`Hart`], and the [`elf`] files of programs. Timing and memory are modelled elsewhere.
//! [`interpreter`] combines the parts in the simplest way; it is the executable specification
//! against which faster users of these functions are tested. [`threaded`] is one of them: it
//! executes programs without timing, twenty times as fast.
//!
//! Sources: *The RISC-V Instruction Set Manual*, Volume I (Unprivileged ISA) and Volume II
//! (Privileged Architecture), version 20240411.
//!
//! A page whose A bit is clear, or whose D bit at a store, is a page fault (Svade): hardware never
//! writes into page tables.
//!
//! Not implemented: physical memory protection, whose registers keep their values but protect
//! nothing; traps of `wfi` in user mode while `mstatus.TW` is clear; debug mode and triggers.
//!
//! ```
//! let add = riscv::decode(0x00b5_0533); // add a0, a0, a1
//! assert_eq!(riscv::disassemble(&add, 0), "add a0, a0, a1");
//! let mut flags = 0;
//! assert_eq!(riscv::evaluate(&add, 0, 2, 3, 0, 0, &mut flags), 5);
//! ```

mod absent;
mod attempts;
mod compressed;
mod csr;
mod decode;
mod disassemble;
pub mod elf;
mod execute;
pub mod float;
mod hart;
mod instruction;
pub mod interpreter;
pub mod paged;
pub mod paging;
pub mod threaded;
mod trap;
mod virtual_pages;

pub use absent::absent_extension;
pub use attempts::Attempts;
pub use csr::{Counters, Csrs, EVENT_COUNTERS, Events, csr_update};
pub use decode::{decode, is_compressed};
pub use disassemble::{Names, disassemble, disassemble_with, register_name};
pub use execute::{
    Evaluator, branch_taken, evaluate, evaluate_integer, evaluator, illegal_rounding,
};
pub use hart::{Hart, Privilege, SystemOutcome, TimeOut};
pub use instruction::{Class, Instruction, Operation, Register, SINK};
pub use trap::{Cause, Trap};
