//! What the interface's code would compute where a hart goes through the same region.

use crate::convention::{REGISTERS, result};
use crate::region::{Region, RegionInstruction};
use crate::register_state::RegisterState;
use pipeline::Executed;
use riscv::{Class, Register, evaluate_integer};

/// The registers that the code of a region would have, while a hart passes through the region from
/// its first instruction on.
///
/// A load that the code makes with the hart's address has the hart's value; behind one with another
/// address its value is unknown, and what depends on it is wrong. What user routines return is
/// right.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    registers: [Option<u64>; REGISTERS],
    /// Whether the hart has passed the first instruction.
    is_inside: bool,
}

impl Shadow {
    /// Before the first pass.
    pub fn new() -> Shadow {
        Shadow {
            registers: [None; REGISTERS],
            is_inside: false,
        }
    }

    /// The hart has executed the instruction at `place`; `has` are its registers before. Returns
    /// for a load whether the code would load from the same address.
    pub fn follow(
        &mut self,
        region: &Region,
        place: usize,
        executed: &Executed,
        has: impl Fn(Register) -> Option<u64>,
    ) -> Option<bool> {
        if place == 0 {
            self.registers = [None; REGISTERS];
            self.is_inside = true;
        }
        if !self.is_inside {
            return None;
        }
        let one = &region.instructions[place];
        let instruction = &one.instruction;
        if one.given {
            let begins = region.registers.iter();
            let mut given = begins
                .filter(|live_in| live_in.root.is_none() && live_in.register == instruction.rd);
            let value = given.find_map(|live_in| match live_in.state {
                RegisterState::Ready(value) => Some(value),
                RegisterState::ReadyDyn(_) => executed.value,
                RegisterState::Unknown => None,
            });
            self.put(instruction.rd, value);
            return None;
        }
        let values = [instruction.rs1, instruction.rs2]
            .map(|register| self.operand(region, one, register, &has));
        for (register, value) in [instruction.rs1, instruction.rs2].into_iter().zip(values) {
            if one.roots.contains(&Some(register)) {
                self.put(register, value);
            }
        }
        match instruction.class {
            Class::Load => {
                let address = values[0].map(|base| instruction.address(base));
                let is_right = address.is_some() && address == executed.address;
                let value = executed.value.filter(|_| is_right);
                if let Some(register) = result(instruction) {
                    self.put(register, value);
                }
                Some(is_right)
            }
            Class::Alu | Class::Multiply | Class::Divide => {
                let value = match values {
                    [Some(a), Some(b)] => Some(evaluate_integer(instruction, one.pc, a, b)),
                    _ => None,
                };
                if let Some(register) = result(instruction) {
                    self.put(register, value);
                }
                None
            }
            _ => None,
        }
    }

    /// What the code has for an operand of an instruction.
    fn operand(
        &self,
        region: &Region,
        of: &RegionInstruction,
        register: Register,
        has: &impl Fn(Register) -> Option<u64>,
    ) -> Option<u64> {
        if register == 0 {
            return Some(0);
        }
        let mut addresses = of.addresses.iter().flatten();
        if let Some((_, address)) = addresses.find(|(one, _)| *one == register) {
            return Some(*address);
        }
        if !of.roots.contains(&Some(register)) {
            return *self.registers.get(usize::from(register))?;
        }
        let mut roots = region.registers.iter();
        let live_in = roots.find(|one| one.root.is_some() && one.register == register)?;
        match live_in.state {
            RegisterState::Ready(value) => Some(value),
            RegisterState::ReadyDyn(_) => has(register),
            RegisterState::Unknown => None,
        }
    }

    fn put(&mut self, register: Register, value: Option<u64>) {
        if let Some(place) = self.registers.get_mut(usize::from(register)) {
            *place = value;
        }
    }
}
