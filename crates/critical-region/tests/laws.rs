//! What holds for the regions of any program.

use critical_region::{Identification, Region, Sizes, convention};
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

/// A program, and a way through it: for each step whether a load misses, which value there is, and
/// where control flow leads.
type Way = (Vec<Instruction>, Vec<(bool, u64, usize)>);

fn any_way() -> impl Strategy<Value = Way> {
    let program = prop::collection::vec(any_instruction(), 2..60);
    let step = (any::<bool>(), 0..4u64, any::<usize>());
    (program, prop::collection::vec(step, 1..600))
}

fn regions((program, way): &Way) -> Vec<Region> {
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
            pc: CODE + 4 * place as u64,
            instruction,
            names: &riscv::Names::STANDARD,
            dispatched: 0,
            issued: None,
            completed: None,
            ended: 0,
            halted_cycles: 0,
            undone: false,
            value: Some(value),
            address: None,
            found: (instruction.class == Class::Load).then_some(found),
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

proptest! {
    /// Instructions only read memory, come in the order of their addresses, and are no more than
    /// the cache has entries. Whatever one of them reads is a register with which the region
    /// begins, or the result of one of them; control flow may read what is not known.
    #[test]
    fn regions_are_closed(way in any_way()) {
        let epochs = regions(&way);
        for region in &epochs {
            prop_assert!(region.instructions.len() <= 32);
            prop_assert!(region.instructions.is_sorted_by(|one, next| one.pc < next.pc));
            let begins_with = |register| {
                let mut registers = region.registers.iter();
                registers.any(|live_in| live_in.register == register)
            };
            let is_written = |register| {
                let mut instructions = region.instructions.iter();
                instructions.any(|one| convention::result(&one.instruction) == Some(register))
            };
            for one in &region.instructions {
                let instruction = &one.instruction;
                prop_assert!(convention::is_offloadable(instruction));
                if one.given {
                    let result = convention::result(instruction);
                    prop_assert!(result.is_some_and(begins_with));
                } else if !instruction.class.is_control() {
                    let read = convention::operands(instruction).expect("of integers");
                    for register in read.into_iter().flatten() {
                        prop_assert!(begins_with(register) || is_written(register), "{region:?}");
                    }
                }
            }
        }
        prop_assert_eq!(&epochs, &regions(&way), "the same program gives the same regions");
    }
}
