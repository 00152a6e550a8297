//! Chains: instructions that depend on a load, up to the last load among them.

use fabric::LineAddress;
use pipeline::{FullWindow, InFlight, Operand};
use riscv::{Class, Instruction};
use std::collections::BTreeMap;

/// Where an operand of an instruction of a chain comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The core has sent its value.
    Value(u64),
    /// The load that the chain begins with.
    Source,
    /// The instruction of the chain with this number.
    Step(usize),
}

/// The kind of an instruction of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Arithmetic.
    Arithmetic,
    /// A load, with its number among those that the core has handed over.
    Load(u8),
    /// A branch or an indirect jump, with what the core has predicted.
    Branch(u64),
}

/// An instruction of a chain.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The instruction.
    pub instruction: Instruction,
    /// Its address.
    pub pc: u64,
    /// Its operands.
    pub operands: [From; 2],
    /// Its kind.
    pub work: Work,
}

/// A chain.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The line whose arrival begins it.
    pub line: LineAddress,
    /// What the load that it begins with accesses there.
    pub address: u64,
    /// That load.
    pub source: Instruction,
    /// In program order; the last one is a load.
    pub steps: Vec<Step>,
    /// The positions of its loads in the core's window, in program order.
    pub loads: Vec<u64>,
    /// Values of registers that the core sends.
    pub values: usize,
}

/// Operations of the paper's list: integer addition, subtraction and moves; logic, shifts and
/// extensions; loads. Comparisons and bit manipulation are arithmetic of RISC-V as well.
fn work(one: &InFlight) -> Option<Work> {
    match one.instruction.class {
        Class::Alu => Some(Work::Arithmetic),
        Class::Load if !one.instruction.writes_float() => Some(Work::Load(0)),
        Class::Branch | Class::JumpRegister => one.predicted.map(Work::Branch),
        _ => None,
    }
}

/// The chain that begins with the oldest load of a window, of at most `limit` instructions; `None`
/// if no load depends on it.
pub fn build(window: &FullWindow<'_>, limit: usize) -> Option<Chain> {
    let mut waiting = window.waiting();
    let source = waiting
        .next()
        .filter(|one| one.position == window.oldest())?;
    let mut places = BTreeMap::from([(source.position, From::Source)]);
    let mut steps: Vec<Step> = Vec::new();
    let mut loads = Vec::new();
    let mut used = 0;
    for one in waiting {
        if steps.len() == limit {
            break;
        }
        let of_chain = |operand: Operand| match operand {
            Operand::Value(value) => Some(From::Value(value)),
            // Of what is not in the chain nobody knows when it will come.
            Operand::Result(position) => places.get(&position).copied(),
        };
        let [first, second] = one.operands.map(of_chain);
        let (Some(first), Some(second), Some(mut work)) = (first, second, work(&one)) else {
            continue;
        };
        let is_value = |from: From| matches!(from, From::Value(_));
        if is_value(first) && is_value(second) {
            continue;
        }
        if let Work::Load(_) = work {
            work = Work::Load(loads.len() as u8);
            loads.push(one.position);
        }
        places.insert(one.position, From::Step(steps.len()));
        steps.push(Step {
            instruction: one.instruction,
            pc: one.pc,
            operands: [first, second],
            work,
        });
        if let Work::Load(_) = work {
            used = steps.len();
        }
    }
    steps.truncate(used);
    if steps.is_empty() {
        return None;
    }
    let values = |step: &Step| {
        let registers = [step.instruction.rs1, step.instruction.rs2];
        let read = step.operands.iter().zip(registers);
        read.filter(|&(from, register)| matches!(from, From::Value(_)) && register != 0)
            .count()
    };
    Some(Chain {
        line: window.line(),
        address: window.address(),
        source: source.instruction,
        values: steps.iter().map(values).sum(),
        steps,
        loads,
    })
}
