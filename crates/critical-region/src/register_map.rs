//! The register-to-PC map: Table II of Figure 10.

use crate::convention::{REGISTERS, Root, is_always_root, is_call, is_pc_relative, result};
use riscv::{Instruction, Register};

/// Who has written a register, as the register-to-PC map has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Producer {
    /// `INVALID`: nobody since the region began.
    Invalid,
    /// `DEAD`: it begins a chain, and its value is to be predicted.
    Dead,
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
    /// Who has written `register`.
    pub fn producer(&self, register: Register) -> Producer {
        self.producers[usize::from(register)]
    }

    fn set_roots(&mut self, which: impl Fn(Register) -> bool) {
        for register in (0..REGISTERS as Register).filter(|&register| which(register)) {
            self.producers[usize::from(register)] = Producer::Dead;
        }
    }

    /// The region begins: roots become `DEAD`, other registers `INVALID`.
    pub fn begin_region(&mut self) {
        *self = RegisterMap::default();
        self.set_roots(|register| Root::of(register).is_some());
    }

    /// The instruction at `pc` has been executed. A PC-relative address is a root; and a call makes
    /// roots of the registers that are a function's arguments, which keeps chains inside of a
    /// procedure (Section 4.1, whose list has `%rbp` and `%rsp`, too).
    pub fn executed(&mut self, pc: u64, instruction: &Instruction) {
        if let Some(register) = result(instruction)
            && !is_always_root(register)
        {
            self.producers[usize::from(register)] = match is_pc_relative(instruction) {
                true => Producer::Dead,
                false => Producer::Instruction(pc),
            };
        }
        if is_call(instruction) {
            self.set_roots(|register| Root::of(register).is_some());
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
        let run = |map: &mut RegisterMap, pc, bits| map.executed(pc, &riscv::decode(bits));
        run(&mut map, 0x10, 0x0000_0797); // auipc a5, 0
        assert_eq!(map.producer(A5), Producer::Dead);
        run(&mut map, 0x14, 0x0007_b503); // ld a0, 0(a5)
        assert_eq!(map.producer(A0), Producer::Instruction(0x14));
        run(&mut map, 0x18, 0xff01_0113); // addi sp, sp, -16
        assert_eq!(map.producer(SP), Producer::Dead);
        run(&mut map, 0x1c, 0x0005_0493); // mv s1, a0
        run(&mut map, 0x20, 0x0400_00ef); // jal ra, +64
        assert_eq!(map.producer(A0), Producer::Dead, "an argument");
        assert_eq!(map.producer(S1), Producer::Instruction(0x1c));
        map.begin_region();
        assert_eq!(
            (map.producer(S1), map.producer(A5)),
            (Producer::Invalid, Producer::Dead)
        );
    }
}
