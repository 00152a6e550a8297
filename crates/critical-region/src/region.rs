//! A critical region, which is sent to the network interface at the end of an epoch.

use crate::convention::{Root, result};
use crate::instruction_cache::{ContextInstructionCache, Entry, Operand};
use crate::prediction::Begins;
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
    /// The instruction.
    pub instruction: Instruction,
    /// Its kind.
    pub kind: Kind,
    /// Its result comes with the region, so it is not executed: it begins a chain, and its result
    /// is predicted.
    pub given: bool,
    /// The operands that begin a chain; their values come with the region.
    pub roots: [Option<Register>; 2],
    /// The operands that are PC-relative addresses, and these addresses.
    pub addresses: [Option<(Register, u64)>; 2],
    /// Whether it has an operand that no instruction of the procedure has written: control flow can
    /// depend on the result of a call.
    pub unknown: bool,
    /// Whether it is a load that missed the second-level cache often.
    pub misses: bool,
}

/// A register with which a region begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveIn {
    /// The register.
    pub register: Register,
    /// Its value, or its source.
    pub state: RegisterState,
    /// The purpose of the register; `None` if it holds the result of a root.
    pub root: Option<Root>,
}

/// The ready instructions of an epoch whose registers are ready, and these registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// The address of its procedure's first instruction, if that is known.
    pub procedure: Option<u64>,
    /// In the order of their addresses; the region begins at the first one.
    pub instructions: Vec<RegionInstruction>,
    /// The registers that they need, in the order of their numbers; a result precedes a root of the
    /// same register.
    pub registers: Vec<LiveIn>,
}

impl Region {
    /// Whether the instruction at `pc` is part of it.
    pub fn contains(&self, pc: u64) -> bool {
        let place = self.instructions.binary_search_by_key(&pc, |one| one.pc);
        place.is_ok()
    }

    /// Whether a load that misses often is executed if these instructions are; without one the
    /// region is useless.
    pub fn fetches(&self, executable: &[bool]) -> bool {
        let mut instructions = self.instructions.iter().zip(executable);
        instructions.any(|(one, can)| *can && one.misses && !one.given)
    }

    /// The instruction at which control continues that goes to `pc`: instructions outside of the
    /// region are passed through. The number of instructions stands for the end.
    pub(crate) fn place_of(&self, pc: u64) -> usize {
        self.instructions.partition_point(|one| one.pc < pc)
    }

    /// The region of an epoch (Section 4.4, at its end): the ready instructions of the cache except
    /// those whose operands are unavailable.
    pub(crate) fn of(
        cache: &ContextInstructionCache,
        states: &RegisterStates,
        procedure: Option<u64>,
    ) -> Region {
        let ready = cache.iter().filter(|entry| entry.ready);
        let mut members: BTreeMap<u64, &Entry> = ready.map(|entry| (entry.pc, entry)).collect();
        let knows = |begins| states.get(begins) != RegisterState::Unknown;
        // An operand that a user routine returned yields another result for each packet.
        let is_computed = |entry: &Entry| {
            let mut states = dead(entry).map(|one| states.get(Begins::Operand(one.register)));
            states.any(|state| matches!(state, RegisterState::ReadyDyn(_)))
        };
        let given = |entry: &Entry| {
            let register = given_result(entry)?;
            (knows(Begins::Result(register)) && !is_computed(entry)).then_some(register)
        };
        // Removes instructions with unavailable operands, and then their dependents. Cyclic
        // dependences of a loop stay.
        loop {
            let missing = members.values().filter(|entry| {
                let needs = entry.operands.iter().flatten().flatten();
                let has_operands = needs.clone().all(|operand| match operand.producer {
                    Producer::Invalid => false,
                    Producer::Dead => knows(Begins::Operand(operand.register)),
                    Producer::Address(_) => true,
                    Producer::Instruction(pc) => members.contains_key(&pc),
                });
                !(has_operands || given(entry).is_some() || entry.is_control())
            });
            let missing: Vec<u64> = missing.map(|entry| entry.pc).collect();
            if missing.is_empty() {
                break;
            }
            members.retain(|pc, _| !missing.contains(pc));
        }
        let mut region = Region {
            procedure,
            ..Region::default()
        };
        let mut registers = BTreeMap::new();
        for entry in members.values() {
            let Some(instruction) = entry.instruction else {
                continue;
            };
            let given = given(entry);
            if let Some(register) = given {
                registers.insert((register, false), None);
            } else {
                for operand in dead(entry) {
                    let root = Root::of(operand.register);
                    registers.insert((operand.register, true), root);
                }
            }
            let operands = || entry.operands.into_iter().flatten().flatten();
            let mut addresses = operands().filter_map(|operand| match operand.producer {
                Producer::Address(address) => Some((operand.register, address)),
                _ => None,
            });
            region.instructions.push(RegionInstruction {
                pc: entry.pc,
                instruction,
                kind: kind(entry, &instruction, &members),
                given: given.is_some(),
                misses: entry.misses,
                roots: roots(entry),
                addresses: [addresses.next(), addresses.next()],
                unknown: operands().any(|operand| operand.producer == Producer::Invalid),
            });
        }
        let known = registers
            .into_iter()
            .map(|((register, is_operand), root)| LiveIn {
                register,
                state: states.get(match is_operand {
                    true => Begins::Operand(register),
                    false => Begins::Result(register),
                }),
                root,
            });
        region.registers = known
            .filter(|one| one.state != RegisterState::Unknown)
            .collect();
        region
    }
}

/// The operands of an entry that begin a chain.
pub(crate) fn dead(entry: &Entry) -> impl Iterator<Item = Operand> {
    let operands = entry.operands.into_iter().flatten().flatten();
    operands.filter(|operand| operand.producer == Producer::Dead)
}

/// The registers of these operands.
fn roots(entry: &Entry) -> [Option<Register>; 2] {
    let mut registers = dead(entry).map(|operand| operand.register);
    [registers.next(), registers.next()]
}

/// The register whose value replaces a root instruction, if there is one.
///
/// An instruction all of whose operands are `DEAD` begins a chain, and the register that it writes
/// is predicted (`%rax` of 0x41b571 in Section 4.4). An instruction that misses often must be
/// executed, or its line would not be fetched: its operands are predicted. So are those of an
/// instruction without an integer result.
pub(crate) fn root_result(entry: &Entry) -> Option<Register> {
    let instruction = entry.instruction.as_ref()?;
    let operands = entry.operands?;
    let mut operands = operands.iter().flatten().peekable();
    operands.peek()?;
    let is_root = operands.all(|one| matches!(one.producer, Producer::Dead | Producer::Address(_)));
    (is_root && !entry.misses)
        .then(|| result(instruction))
        .flatten()
}

/// The same, if its value is the one that is kept: the first of several results of one register.
pub(crate) fn given_result(entry: &Entry) -> Option<Register> {
    root_result(entry).filter(|_| entry.begins)
}

/// The kind of an instruction. A load depends on another one if the chain that computes its address
/// contains a load.
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
