//! The registers that begin a chain of dependent instructions, by RV64's calling convention.
//!
//! Section 4.1 names `%rip`, `%rsp`, `%rbp` and the argument registers of x86-64. Their equivalents
//! in the RISC-V psABI are:
//!
//! | x86-64 | RV64 |
//! | --- | --- |
//! | `%rsp` | `sp` |
//! | `%rbp` | `s0`, which is the frame pointer `fp` |
//! | `%rdi`, `%rsi`, `%rdx`, `%rcx`, `%r8`, `%r9` | `a0` to `a7` |
//! | `%rip` | the result of `auipc`, and `gp`, from which the linker relaxes it |
//! | `%fs` (not in the paper's list) | `tp` |

use riscv::{Class, Instruction, Operation, Register};

/// The number of integer registers. `x0` is counted, but is never a root.
pub const REGISTERS: usize = 32;

const RA: Register = 1;
const SP: Register = 2;
const GP: Register = 3;
const TP: Register = 4;
const T0: Register = 5;
const FP: Register = 8;
const A0: Register = 10;
const A7: Register = 17;

/// The purpose of a register that begins a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Root {
    /// An argument of the function: `a0` to `a7`.
    Argument,
    /// The stack or the frame: `sp`, `s0`.
    Stack,
    /// Global or thread-local data: `gp`, `tp`.
    Data,
}

impl Root {
    /// The purpose of `register`; `None` if it begins no chain.
    pub fn of(register: Register) -> Option<Root> {
        match register {
            A0..=A7 => Some(Root::Argument),
            SP | FP => Some(Root::Stack),
            GP | TP => Some(Root::Data),
            _ => None,
        }
    }
}

/// Whether a register begins a chain whichever instruction has written it: the address of the
/// stack, of global or of thread-local data. A prologue's `addi sp, sp, -32` is therefore part of
/// no chain.
pub fn is_always_root(register: Register) -> bool {
    matches!(register, SP | GP | TP)
}

/// Whether an instruction calls a function: a jump that links in `ra` or `t0`. After it the
/// argument registers hold arguments.
pub fn is_call(instruction: &Instruction) -> bool {
    let links = matches!(instruction.rd, RA | T0);
    links && matches!(instruction.class, Class::Jump | Class::JumpRegister)
}

/// Whether an instruction returns from a function: a jump to the address in `ra` or `t0`.
pub fn is_return(instruction: &Instruction) -> bool {
    let is_link = matches!(instruction.rs1, RA | T0);
    is_link && instruction.class == Class::JumpRegister && !is_call(instruction)
}

/// Whether a register is caller-saved.
pub fn is_callers(register: Register) -> bool {
    matches!(register, RA | T0..=7 | A0..=A7 | 28..=31)
}

/// Whether an instruction is control flow within a procedure: a branch, or a jump that is neither a
/// call nor a return. Calls and returns are a procedure's boundaries.
pub fn is_local_control(instruction: &Instruction) -> bool {
    match instruction.class {
        Class::Branch => true,
        Class::Jump => !is_call(instruction),
        Class::JumpRegister => !is_call(instruction) && !matches!(instruction.rs1, RA | T0),
        _ => false,
    }
}

/// Whether it computes a PC-relative address, like `%rip` addressing.
pub fn is_pc_relative(instruction: &Instruction) -> bool {
    instruction.operation == Operation::Auipc
}

/// The integer registers that an instruction reads, without `x0`. Loads read their base; branches
/// and arithmetic up to two registers. `None` if it reads a floating-point register.
pub fn operands(instruction: &Instruction) -> Option<[Option<Register>; 2]> {
    let named = [instruction.rs1, instruction.rs2, instruction.rs3];
    if named
        .iter()
        .any(|&register| register >= REGISTERS as Register)
    {
        return None;
    }
    let read = |register: Register| (register != 0).then_some(register);
    // `add a0, a1, a1` has one operand.
    let second = read(named[1]).filter(|&second| second != named[0]);
    Some(match read(named[0]) {
        None => [second, None],
        first => [first, second],
    })
}

/// The integer register that an instruction writes.
pub fn result(instruction: &Instruction) -> Option<Register> {
    (1..REGISTERS as Register)
        .contains(&instruction.rd)
        .then_some(instruction.rd)
}

/// Whether the interface's cores can execute it in a region: integer arithmetic, loads, and control
/// flow within a procedure. None of them changes memory.
pub fn is_offloadable(instruction: &Instruction) -> bool {
    matches!(
        instruction.class,
        Class::Alu | Class::Multiply | Class::Divide | Class::Load
    ) || is_local_control(instruction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bits: u32) -> Instruction {
        riscv::decode(bits)
    }

    #[test]
    fn roots_are_those_of_the_calling_convention() {
        let named = |root| {
            let registers = (0..REGISTERS as Register).filter(move |&one| Root::of(one) == root);
            registers.map(riscv::register_name).collect::<Vec<_>>()
        };
        assert_eq!(
            named(Some(Root::Argument)),
            ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7"]
        );
        assert_eq!(named(Some(Root::Stack)), ["sp", "s0"]);
        assert_eq!(named(Some(Root::Data)), ["gp", "tp"]);
    }

    #[test]
    fn operands_are_integer_registers_that_are_read() {
        // addi a0, a1, 8; add a0, a1, a1; add a0, zero, a2; lui a0, 1; ld a0, 8(s1)
        let registers = [
            0x0085_8513,
            0x00b5_8533,
            0x00c0_0533,
            0x0000_1537,
            0x0084_b503,
        ]
        .map(|bits| operands(&decode(bits)));
        assert_eq!(
            registers,
            [
                Some([Some(11), None]),
                Some([Some(11), None]),
                Some([Some(12), None]),
                Some([None, None]),
                Some([Some(9), None]),
            ]
        );
        // fmv.x.d a0, fa0 reads a floating-point register; fld fa0, 0(a0) writes one.
        assert_eq!(operands(&decode(0xe205_0553)), None);
        assert_eq!(operands(&decode(0x0005_3507)), Some([Some(10), None]));
        assert_eq!(result(&decode(0x0005_3507)), None);
    }

    #[test]
    fn calls_and_returns_are_no_control_flow_of_a_region() {
        let (call, jump, ret, indirect, branch) = (
            0x0000_00ef,
            0x0000_006f,
            0x0000_8067,
            0x0007_8067,
            0x0005_0463,
        );
        assert!(is_call(&decode(call)) && !is_local_control(&decode(call)));
        assert!(!is_call(&decode(ret)) && !is_local_control(&decode(ret)));
        for bits in [jump, indirect, branch] {
            assert!(is_local_control(&decode(bits)), "{bits:#x}");
        }
    }
}
