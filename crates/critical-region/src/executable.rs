//! Which instructions of a region can be executed.
//!
//! Identification keeps what goes around in a loop: its instructions are ready because of each
//! other (Section 4.4), even if nobody knows with what the loop begins. The interface would execute
//! them with registers that nothing has set. The paper has such instructions, too: "2.7% of the
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
/// values, or have been set by instructions that can be executed, whichever way control has come.
///
/// A jump back is not, if no branch that can be executed leads out of the loop that it closes: how
/// often that goes around is not known, and it would end at the budget.
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

/// Whether the instruction at `place` is a jump that closes a loop without an end.
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
    // It begins with all that can be, and in each iteration something goes that needs what is not
    // set, until nothing more does.
    loop {
        let set = set_on_all_ways(region, &executable);
        let mut is_final = true;
        for (place, one) in instructions.iter().enumerate() {
            // A jump to what a register has ends the region, whatever it has.
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

/// Which registers are set where each instruction begins, whichever way control has come.
fn set_on_all_ways(region: &Region, executable: &[bool]) -> Vec<Registers> {
    let instructions = &region.instructions;
    // Whence control does not come, everything is set.
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
                // What is not executed leaves another value than the program does.
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
    // Floating-point registers are in no region.
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
