//! A critical region: what is sent to the network interface at the end of an epoch.

use crate::convention::{Root, result};
use crate::instruction_cache::{ContextInstructionCache, Entry, Operand};
use crate::register_map::Producer;
use crate::register_state::{RegisterState, RegisterStates};
use riscv::{Class, Instruction, Operation, Register};
use std::collections::BTreeMap;

/// The kinds of Figure 12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Arithmetic.
    Alu,
    /// A load whose address comes from no other load of the region.
    IndependentLoad,
    /// A load whose address depends on another load of the region.
    DependentLoad,
    /// Control flow, and copies from register to register.
    Other,
}

/// An instruction of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionInstruction {
    /// Its address.
    pub pc: u64,
    /// What it is.
    pub instruction: Instruction,
    /// What kind of instruction it is.
    pub kind: Kind,
    /// Its result comes with the region, so it is not executed: it begins a chain, and its value is
    /// predicted.
    pub given: bool,
    /// The operands that begin a chain: their values come with the region.
    pub roots: [Option<Register>; 2],
}

/// A register with which a region begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveIn {
    /// The register.
    pub register: Register,
    /// Its value, or whence it comes.
    pub state: RegisterState,
    /// What the register is for; `None` if it has the result of a root.
    pub root: Option<Root>,
}

/// The ready instructions of an epoch whose registers are ready, with these registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// In the order of their addresses; the region begins at the first.
    pub instructions: Vec<RegionInstruction>,
    /// The registers that they need, in the order of their numbers.
    pub registers: Vec<LiveIn>,
}

impl Region {
    /// Whether the instruction at `pc` is part of it.
    pub fn contains(&self, pc: u64) -> bool {
        let place = self.instructions.binary_search_by_key(&pc, |one| one.pc);
        place.is_ok()
    }

    /// The instruction to which control comes that goes to `pc`: what is left out is passed
    /// through. The number of instructions stands for the end.
    pub(crate) fn place_of(&self, pc: u64) -> usize {
        self.instructions.partition_point(|one| one.pc < pc)
    }

    /// The region of an epoch (Section 4.4, at its end): the ready instructions of the cache
    /// without those whose operands nobody can provide.
    pub(crate) fn of(cache: &ContextInstructionCache, states: &RegisterStates) -> Region {
        let ready = cache.iter().filter(|entry| entry.ready);
        let mut members: BTreeMap<u64, &Entry> = ready.map(|entry| (entry.pc, entry)).collect();
        let knows = |register| states.get(register) != RegisterState::Unknown;
        // Who depends on what is not there goes, and then who depends on that. What goes around in
        // a loop stays.
        loop {
            let missing = members.values().filter(|entry| {
                let needs = entry.operands.iter().flatten().flatten();
                let has_operands = needs.clone().all(|operand| match operand.producer {
                    Producer::Invalid => false,
                    Producer::Dead => knows(operand.register),
                    Producer::Instruction(pc) => members.contains_key(&pc),
                });
                let is_given = given_result(entry).is_some_and(knows);
                !(has_operands || is_given || entry.is_control())
            });
            let missing: Vec<u64> = missing.map(|entry| entry.pc).collect();
            if missing.is_empty() {
                break;
            }
            members.retain(|pc, _| !missing.contains(pc));
        }
        let mut region = Region::default();
        let mut registers = BTreeMap::new();
        for entry in members.values() {
            let Some(instruction) = entry.instruction else {
                continue;
            };
            let given = given_result(entry).filter(|&register| knows(register));
            if let Some(register) = given {
                registers.entry(register).or_insert(None);
            } else {
                for operand in dead(entry) {
                    registers.insert(operand.register, Root::of(operand.register));
                }
            }
            region.instructions.push(RegionInstruction {
                pc: entry.pc,
                instruction,
                kind: kind(entry, &instruction, &members),
                given: given.is_some(),
                roots: roots(entry),
            });
        }
        let known = registers.into_iter().map(|(register, root)| LiveIn {
            register,
            state: states.get(register),
            root,
        });
        region.registers = known
            .filter(|one| one.state != RegisterState::Unknown)
            .collect();
        region
    }
}

/// The operands that begin a chain.
pub(crate) fn dead(entry: &Entry) -> impl Iterator<Item = Operand> {
    let operands = entry.operands.into_iter().flatten().flatten();
    operands.filter(|operand| operand.producer == Producer::Dead)
}

/// Their registers.
fn roots(entry: &Entry) -> [Option<Register>; 2] {
    let mut registers = dead(entry).map(|operand| operand.register);
    [registers.next(), registers.next()]
}

/// The register whose value stands for a root instruction, if there is one.
///
/// An instruction all of whose operands are `DEAD` begins a chain, and the register that it writes
/// is predicted (`%rax` of 0x41b571 in Section 4.4). One that misses itself is to be executed, or
/// its line would not be fetched: its operands are predicted. So are those of an instruction
/// without an integer result.
pub(crate) fn given_result(entry: &Entry) -> Option<Register> {
    let instruction = entry.instruction.as_ref()?;
    let operands = entry.operands?;
    let mut operands = operands.iter().flatten().peekable();
    operands.peek()?;
    let is_root = operands.all(|operand| operand.producer == Producer::Dead);
    (is_root && !entry.misses)
        .then(|| result(instruction))
        .flatten()
}

/// Which kind an instruction is: a load depends on another if any of the chain that leads to its
/// address is a load.
fn kind(entry: &Entry, instruction: &Instruction, members: &BTreeMap<u64, &Entry>) -> Kind {
    let is_copy = instruction.operation == Operation::Addi && instruction.immediate == 0;
    match instruction.class {
        Class::Load => {}
        _ if instruction.class.is_control() || is_copy => return Kind::Other,
        _ => return Kind::Alu,
    }
    let mut seen = vec![entry.pc];
    let mut chain = vec![entry];
    while let Some(one) = chain.pop() {
        for operand in one.operands.iter().flatten().flatten() {
            let Producer::Instruction(pc) = operand.producer else {
                continue;
            };
            let Some(producer) = members.get(&pc) else {
                continue;
            };
            if producer
                .instruction
                .is_some_and(|one| one.class == Class::Load)
            {
                return Kind::DependentLoad;
            }
            if !seen.contains(&pc) {
                seen.push(pc);
                chain.push(producer);
            }
        }
    }
    Kind::IndependentLoad
}
