//! Random programs, paths through them, and their regions.

use critical_region::{Identification, Region, Sizes};
use fabric::Source;
use pipeline::{Executed, Found};
use proptest::prelude::*;
use riscv::{Class, Instruction};

const CODE: u64 = 0x8000_0000;

/// Loads, stores, arithmetic, constants, branches, calls, returns and atomics of random registers.
fn any_instruction() -> impl Strategy<Value = Instruction> {
    let register = 0..32u32;
    let fields = (0..12u8, register.clone(), register.clone(), register);
    fields.prop_map(|(kind, rd, rs1, rs2)| {
        let bits = match kind {
            0..=3 => rs1 << 15 | 3 << 12 | rd << 7 | 0x03, // ld
            4 => rs2 << 20 | rs1 << 15 | 3 << 12 | 0x23,   // sd
            5 => rs2 << 20 | rs1 << 15 | rd << 7 | 0x33,   // add
            6 => rs2 << 20 | rs1 << 15 | rd << 7 | 0x13,   // addi
            7 => rs2 << 12 | rd << 7 | 0x17,               // auipc
            8 | 9 => rs2 << 20 | rs1 << 15 | 1 << 12 | 8 << 7 | 0x63, // bne
            10 => rs1 << 15 | (rd & 1) << 7 | 0x67,        // jalr
            _ => rs2 << 20 | rs1 << 15 | 3 << 12 | rd << 7 | 0x2f, // amoadd.d
        };
        riscv::decode(bits)
    })
}

/// A program, and a path through it: for each step whether a load misses, the result, and the
/// target of control flow.
pub type Way = (Vec<Instruction>, Vec<(bool, u64, usize)>);

pub fn any_way() -> impl Strategy<Value = Way> {
    let program = prop::collection::vec(any_instruction(), 2..60);
    let step = (any::<bool>(), 0..4u64, any::<usize>());
    (program, prop::collection::vec(step, 1..600))
}

pub fn regions((program, way): &Way) -> Vec<Region> {
    let sizes = Sizes {
        instructions: 32,
        ways: 4,
        epoch_misses: 20,
        ..Sizes::default()
    };
    let mut hardware = Identification::new(sizes, 1);
    let mut regions = Vec::new();
    let mut place = 0;
    for &(misses, value, target) in way {
        let instruction = program[place];
        let found = match misses {
            true => Found::Line(Source::Memory),
            false => Found::Line(Source::SecondLevel),
        };
        let executed = Executed {
            value: Some(value),
            found: (instruction.class == Class::Load).then_some(found),
            ..Executed::committed(CODE + 4 * place as u64, instruction)
        };
        hardware.set_arguments(0, &[value]);
        let epoch = hardware.committed(0, &executed);
        regions.extend(epoch.map(|epoch| epoch.region));
        let next = if instruction.class.is_control() {
            target
        } else {
            place + 1
        };
        place = next % program.len();
    }
    regions
}
