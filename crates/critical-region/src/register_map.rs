//! The register-to-PC map: Table II of Figure 10.

use crate::convention::{REGISTERS, Root, is_always_root, is_callers, is_pc_relative, result};
use riscv::{Instruction, Operation, Register};

/// The producer of a register's value, in the register-to-PC map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Producer {
    /// `INVALID`: none since the region began.
    Invalid,
    /// `DEAD`: it begins a chain, and its value must be predicted.
    Dead,
    /// A PC-relative address, which is constant: `%rip` and a displacement on x86-64, `auipc` with
    /// its `addi` on RV64. It begins a chain, too.
    Address(u64),
    /// The instruction at this address.
    Instruction(u64),
}

/// For each register of a hart, the instruction that wrote it last.
#[derive(Clone, Debug)]
pub struct RegisterMap {
    producers: [Producer; REGISTERS],
}

impl Default for RegisterMap {
    fn default() -> RegisterMap {
        let mut map = RegisterMap {
            producers: [Producer::Invalid; REGISTERS],
        };
        map.set_roots(is_always_root);
        map
    }
}

impl RegisterMap {
    /// The producer of `register`.
    pub fn producer(&self, register: Register) -> Producer {
        self.producers[usize::from(register)]
    }

    fn set_roots(&mut self, which: impl Fn(Register) -> bool) {
        for register in (0..REGISTERS as Register).filter(|&register| which(register)) {
            self.producers[usize::from(register)] = Producer::Dead;
        }
    }

    /// A pass through the region begins: roots become `DEAD`, other registers `INVALID`.
    pub fn begin_region(&mut self) {
        *self = RegisterMap::default();
        self.set_roots(|register| Root::of(register).is_some());
    }

    /// The instruction at `pc` has been executed, with this result.
    pub fn executed(&mut self, pc: u64, instruction: &Instruction, value: Option<u64>) {
        if let Some(register) = result(instruction)
            && !is_always_root(register)
        {
            let is_address = is_pc_relative(instruction)
                || instruction.operation == Operation::Addi
                    && matches!(self.producer(instruction.rs1), Producer::Address(_));
            self.producers[usize::from(register)] = match value {
                Some(value) if is_address => Producer::Address(value),
                _ => Producer::Instruction(pc),
            };
        }
    }

    /// A called function has returned. Caller-saved registers have unknown values; others have
    /// those from before the call.
    pub fn return_from_call(&mut self) {
        for register in (0..REGISTERS as Register).filter(|&register| is_callers(register)) {
            self.producers[usize::from(register)] = Producer::Invalid;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SP: Register = 2;
    const A0: Register = 10;
    const A5: Register = 15;
    const S1: Register = 9;

    #[test]
    fn roots_are_dead_and_others_have_their_writer() {
        let mut map = RegisterMap::default();
        let run =
            |map: &mut RegisterMap, pc, bits| map.executed(pc, &riscv::decode(bits), Some(pc));
        run(&mut map, 0xc, 0x0000_0797); // auipc a5, 0
        run(&mut map, 0x10, 0x0047_8793); // addi a5, a5, 4
        assert_eq!(map.producer(A5), Producer::Address(0x10));
        run(&mut map, 0x14, 0x0007_b503); // ld a0, 0(a5)
        assert_eq!(map.producer(A0), Producer::Instruction(0x14));
        run(&mut map, 0x18, 0xff01_0113); // addi sp, sp, -16
        assert_eq!(map.producer(SP), Producer::Dead);
        run(&mut map, 0x1c, 0x0005_0493); // mv s1, a0
        assert_eq!(map.producer(A0), Producer::Instruction(0x14));
        map.return_from_call();
        assert_eq!(map.producer(A0), Producer::Invalid, "the result of a call");
        assert_eq!(map.producer(S1), Producer::Instruction(0x1c));
        map.begin_region();
        assert_eq!(
            (map.producer(S1), map.producer(A5)),
            (Producer::Invalid, Producer::Dead)
        );
    }
}
