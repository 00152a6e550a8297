//! The instructions of a region that can be executed.
//!
//! Identification keeps cyclic dependences of loops: their instructions are ready because of each
//! other (Section 4.4), even if the loop's initial values are unknown. The interface would execute
//! them with uninitialized registers. The paper has such instructions, too: "2.7% of the
//! instructions failed executing due to unknown register values" (Section 6.1).

use crate::convention::{operands, result};
use crate::region::{Region, RegionInstruction};
use crate::register_state::RegisterState;
use riscv::{Class, Register};

/// Registers, a bit for each.
type Registers = u32;

fn bit(register: Register) -> Registers {
    1 << register
}

/// For each instruction of the region, whether it can be executed: its operands are roots with
/// known values, or are set by executable instructions on every path to it.
///
/// A backward jump is not executable if no executable branch leaves the loop that it closes: the
/// number of iterations is unknown, and the loop would only end at the budget.
pub fn executable(region: &Region) -> Vec<bool> {
    let mut endless = vec![false; region.instructions.len()];
    loop {
        let executable = with_operands(region, &endless);
        let found = (0..endless.len()).find(|&place| {
            executable[place] && is_endless(region, &executable, place) && !endless[place]
        });
        match found {
            Some(place) => endless[place] = true,
            None => return executable,
        }
    }
}

/// Whether the instruction at `place` is a jump that closes an endless loop.
fn is_endless(region: &Region, executable: &[bool], place: usize) -> bool {
    let target = |one: &RegionInstruction| region.place_of(one.instruction.jump_target(one.pc, 0));
    let jump = &region.instructions[place];
    let first = match jump.instruction.class {
        Class::Jump => target(jump),
        _ => return false,
    };
    let mut inside = (first..place).filter(|&at| executable[at]);
    let leads_out = |at: usize| {
        let one = &region.instructions[at];
        match one.instruction.class {
            Class::Branch => !(first..=place).contains(&target(one)),
            class => class == Class::JumpRegister,
        }
    };
    first <= place && !inside.any(leads_out)
}

/// The same, without the jumps that close `endless` loops.
fn with_operands(region: &Region, endless: &[bool]) -> Vec<bool> {
    let instructions = &region.instructions;
    let known = region.registers.iter();
    let known = known.filter(|one| one.state != RegisterState::Unknown);
    let known = known.filter(|one| one.root.is_some());
    let known: Registers = known.fold(0, |all, one| all | bit(one.register));
    let mut executable = vec![true; instructions.len()];
    // A greatest fixed point: initially all instructions are executable, and each iteration removes
    // those that need an unset register.
    loop {
        let set = set_on_all_ways(region, &executable);
        let mut is_final = true;
        for (place, one) in instructions.iter().enumerate() {
            // An indirect jump ends the region, whatever its target.
            let is_end = one.instruction.class == Class::JumpRegister;
            let can = one.given || is_end || !one.unknown && has_operands(one, known, set[place]);
            let can = can && !endless[place];
            is_final &= can == executable[place] || !executable[place];
            executable[place] &= can;
        }
        if is_final {
            return executable;
        }
    }
}

/// The registers that are set before each instruction on every path to it.
fn set_on_all_ways(region: &Region, executable: &[bool]) -> Vec<Registers> {
    let instructions = &region.instructions;
    // Before any path is known, all registers count as set.
    let mut set = vec![Registers::MAX; instructions.len() + 1];
    set[0] = 0;
    loop {
        let before = set.clone();
        for (place, (one, &can)) in instructions.iter().zip(executable).enumerate() {
            let mut after = set[place];
            if can && !one.given {
                let roots = one.roots.into_iter().flatten();
                let addresses = one.addresses.into_iter().flatten();
                let begins = roots.chain(addresses.map(|(register, _)| register));
                after |= begins.fold(0, |all, register| all | bit(register));
            }
            if let Some(register) = result(&one.instruction) {
                // An instruction that is left out does not write the program's value.
                after = after & !bit(register) | if can { bit(register) } else { 0 };
            }
            let class = one.instruction.class;
            if !can || !matches!(class, Class::Jump | Class::JumpRegister) {
                set[place + 1] &= after;
            }
            if can && matches!(class, Class::Branch | Class::Jump) {
                set[region.place_of(one.instruction.jump_target(one.pc, 0))] &= after;
            }
        }
        if before == set {
            return set;
        }
    }
}

fn has_operands(one: &RegionInstruction, known: Registers, set: Registers) -> bool {
    // No region contains floating-point registers.
    let Some(operands) = operands(&one.instruction) else {
        return false;
    };
    operands.into_iter().flatten().all(|register| {
        let mut addresses = one.addresses.iter().flatten();
        if addresses.any(|&(address, _)| address == register) {
            return true;
        }
        let provided = match one.roots.contains(&Some(register)) {
            true => known,
            false => set,
        };
        provided & bit(register) != 0
    })
}
