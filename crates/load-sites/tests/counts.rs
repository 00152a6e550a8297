//! What is counted of a small program, against numbers derived by hand.

use fabric::Source;
use load_sites::{Counter, SiteCounts};
use pipeline::{Executed, Found};
use riscv::Class;
use riscv::interpreter::{FlatMemory, Machine, Memory, Step};
use std::collections::HashSet;

const CODE: u64 = 0x8000_0000;
const DATA: u64 = 0x8000_1000;

/// Ten times around: `s0` stays at the data, `s1` advances by 16 bytes, and `s2` by 64 from the 62nd
/// byte on.
const PROGRAM: [u32; 9] = [
    0x0004_3583, // 00 ld   a1, 0(s0)
    0x0004_b603, // 04 ld   a2, 0(s1)
    0x0009_2683, // 08 lw   a3, 0(s2)
    0x00b4_3023, // 0c sd   a1, 0(s0)
    0x0104_8493, // 10 addi s1, s1, 16
    0x0409_0913, // 14 addi s2, s2, 64
    0xfff2_8293, // 18 addi t0, t0, -1
    0xfe02_92e3, // 1c bnez t0, 00
    0x03f4_4503, // 20 lbu  a0, 63(s0)
];
const END: u64 = CODE + 0x24;
const ROUNDS: u64 = 10;

/// What a probe sees of the program; instructions of every second round also come on a wrong path.
fn counted(limit: Option<std::ops::Range<u64>>) -> Counter {
    let mut memory = FlatMemory::new(CODE, 0x3000);
    for (place, bits) in (CODE..).step_by(4).zip(PROGRAM) {
        memory.write(place, 4, bits.into());
    }
    let mut machine = Machine::new(memory, CODE);
    for (register, value) in [(5, ROUNDS), (8, DATA), (9, DATA), (18, DATA + 62)] {
        machine.registers[register] = value;
    }
    let mut counter = Counter::default();
    if let Some(range) = limit {
        counter.limit(vec![range]);
    }
    while machine.pc != END {
        let pc = machine.pc;
        let base = machine.registers;
        let Step::Retired(instruction) = machine.step() else {
            panic!("a trap at {pc:#x}");
        };
        let is_load = instruction.class == Class::Load;
        let is_access = is_load || instruction.class == Class::Store;
        let address = instruction.address(base[usize::from(instruction.rs1)]);
        let round = ROUNDS - base[5];
        // `s1` comes to a new line in every fourth round.
        let found = match (pc, round) {
            (0x8000_0004, 0) => Found::Line(Source::Memory),
            (0x8000_0004, 4) => Found::Line(Source::SecondLevel),
            (0x8000_0004, 8) => Found::Awaited(Source::Memory),
            _ => Found::DataCache,
        };
        let executed = Executed {
            address: is_access.then_some(address),
            found: is_load.then_some(found),
            ..Executed::committed(pc, instruction)
        };
        counter.count(&executed);
        if round % 2 == 1 {
            counter.count(&Executed {
                undone: true,
                ..executed
            });
        }
    }
    counter
}

fn lines(first: u64, count: u64) -> HashSet<u64> {
    (first / 64..first / 64 + count).collect()
}

#[test]
fn accesses_lines_and_misses() {
    let counter = counted(None);
    let site = |accesses, lines, text: &str| SiteCounts {
        accesses,
        lines,
        text: text.to_string(),
        ..SiteCounts::default()
    };
    // Ten loads from steps of 16 bytes are in lines 0, 1 and 2. Ten of four bytes from the 62nd of
    // a line are in that and the next one: 11 lines.
    let expected = [
        (CODE, site(10, lines(DATA, 1), "ld a1, 0(s0)")),
        (
            CODE + 0x4,
            SiteCounts {
                misses: 2,
                second_level_misses: 1,
                awaited: 1,
                ..site(10, lines(DATA, 3), "ld a2, 0(s1)")
            },
        ),
        (CODE + 0x8, site(10, lines(DATA, 11), "lw a3, 0(s2)")),
        // The last byte of a line.
        (CODE + 0x20, site(1, lines(DATA, 1), "lbu a0, 63(s0)")),
    ];
    let found: Vec<_> = counter.sites().clone().into_iter().collect();
    assert_eq!(found, expected);
}

#[test]
fn loads_elsewhere_are_not_counted() {
    let counter = counted(Some(CODE + 4..CODE + 8));
    let pcs: Vec<u64> = counter.sites().keys().copied().collect();
    assert_eq!(pcs, [CODE + 4]);
    assert_eq!(counter.sites()[&(CODE + 4)].accesses, 10);
}
