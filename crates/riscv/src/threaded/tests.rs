//! Random programs, compared with the interpreter instruction by instruction.

#[path = "../../../../tests/rust/random.rs"]
mod random;

use super::*;
use crate::decode::Pattern;
use crate::instruction::{Entry, SINK};
use crate::interpreter::Memory;
use crate::paged::PagedMemory;
use random::Random;
use std::collections::BTreeSet;

const CODE: u64 = 0x8000_0000;
const CODE_BYTES: u64 = 0x1000;
const DATA: u64 = 0x8000_2000;
const DATA_BYTES: u64 = 0x2000;
/// Half a page of memory, which is not in the page table.
const PART: u64 = 0x8000_6000;
const PART_BYTES: u64 = 0x800;
/// Registers that hold data addresses and are never written.
const POINTERS: std::ops::Range<u32> = 5..9;
/// A pointer of compressed instructions, which is never written either. (A pointer to the program
/// would make it modify itself, which becomes visible at different times.)
const SP: u32 = 2;
const WORDS: usize = 120;

/// A random instruction of this row of the table, with operands that have an effect.
fn encode(entry: &Entry, random: &mut Random) -> u32 {
    let Pattern { mask, value } = entry.pattern;
    let mut bits = random.next() as u32 & !mask | value;
    let set = |bits: u32, at: u32, width: u32, field: u64| {
        let ones = ((1 << width) - 1) << at;
        bits & !ones | (field as u32) << at & ones
    };
    if entry.class.is_memory() {
        bits = set(bits, 15, 5, u64::from(POINTERS.start) + random.below(4));
        // Mostly within reach of the pointers: small, and of every alignment.
        if entry.class == Class::Load {
            bits = set(bits, 20, 12, random.below(64).wrapping_sub(32));
        } else if entry.class == Class::Store {
            bits = set(bits, 25, 7, random.one_of(&[0, 0x7f]));
        }
    }
    match entry.class {
        // Up to 32 bytes away: bits 4:1, and the sign in 12 and 10:5 (B-type), or in 20 and 19:5
        // (J-type).
        Class::Branch => {
            let sign = random.one_of(&[0, 0x7f]);
            bits = set(set(bits, 25, 7, sign), 7, 1, sign);
        }
        Class::Jump => {
            let sign = random.one_of(&[0, u64::MAX]);
            bits = set(set(set(bits, 12, 8, sign), 31, 1, sign), 20, 1, sign);
            bits = set(bits, 25, 6, sign);
        }
        Class::Csr => {
            let number = [
                0x001, 0x002, 0x003, 0x300, 0x340, 0x341, 0xb02, 0xc00, 0xc02, 0x7c0,
            ];
            bits = set(bits, 20, 12, random.one_of(&number));
        }
        _ => {}
    }
    // Stores and branches have a part of their immediate there.
    let writes = !matches!(entry.class, Class::Store | Class::Branch) && mask >> 7 & 0x1f == 0;
    let rd = bits >> 7 & 0x1f;
    if writes && (rd == SP || POINTERS.contains(&rd)) {
        bits = set(bits, 7, 5, 10);
    }
    bits
}

fn program(random: &mut Random) -> Vec<u32> {
    (0..WORDS)
        .map(|_| {
            // Integer instructions more often than their share of the table, and occasionally two
            // compressed instructions or data that resemble them.
            if random.below(16) == 0 {
                let [one, other] = [(); 2].map(|()| random.next() as u32 & 0xfffe & !(0x1f << 7));
                return one | other << 16;
            }
            let row = random.below(TABLE.len() as u64) as usize;
            encode(&TABLE[row], random)
        })
        .collect()
}

fn machine(program: &[u32], random: &mut Random) -> Machine<PagedMemory> {
    let mut memory = PagedMemory::new(vec![
        CODE..CODE + CODE_BYTES,
        DATA..DATA + DATA_BYTES,
        PART..PART + PART_BYTES,
    ]);
    for (index, &word) in program.iter().enumerate() {
        memory.write(CODE + 4 * index as u64, 4, word.into());
    }
    for address in (DATA..DATA + 256).chain(PART..PART + 256).step_by(8) {
        memory.write(address, 8, random.next());
    }
    let mut machine = Machine::new(memory, CODE);
    for register in 1..64 {
        let shift = random.below(64);
        machine.registers[register] = random.next() >> shift;
    }
    let pointers = [
        DATA + 64,
        DATA + 64 + random.below(128),
        // Across pages, into unmapped addresses, and into pages missing from the table.
        random.one_of(&[DATA + 0xff8, DATA + DATA_BYTES - 4]),
        PART + 64,
    ];
    machine.registers[SP as usize] = DATA + 512;
    for (register, pointer) in (POINTERS.start as usize..).zip(pointers) {
        machine.registers[register] = pointer;
    }
    machine.hart.set_float_dirty();
    machine
}

fn assert_same(found: &Machine<PagedMemory>, expected: &Machine<PagedMemory>, seed: u64) {
    assert_eq!(found.pc, expected.pc, "pc, seed {seed}");
    let registers = ..usize::from(SINK);
    assert_eq!(
        found.registers[registers], expected.registers[registers],
        "before {:#x}, seed {seed}",
        found.pc
    );
    assert_eq!(found.hart, expected.hart, "seed {seed}");
    assert_eq!(found.retired, expected.retired, "seed {seed}");
    assert_eq!(found.reservation, expected.reservation, "seed {seed}");
}

/// Runs a program in both ways; records the operations executed by the fast path, and by steps.
fn compare(seed: u64, plain: &mut BTreeSet<Operation>, stepped: &mut BTreeSet<Operation>) {
    let mut random = Random(seed);
    let program = program(&mut random);
    let mut found = machine(&program, &mut random);
    let mut expected = found.clone();
    let mut threaded = Threaded::default();
    for _ in 0..40 {
        let limit = random.below(40);
        let executed = threaded.run(&mut found, limit);
        assert!(executed <= limit);
        for _ in 0..executed {
            match expected.step() {
                Step::Retired(i) => plain.insert(i.operation),
                other => panic!("{other:?} at {:#x}, seed {seed}", expected.pc),
            };
        }
        assert_same(&found, &expected, seed);
        if executed == limit {
            continue;
        }
        let step = expected.step();
        assert_eq!(threaded.step(&mut found), step, "seed {seed}");
        assert_same(&found, &expected, seed);
        match step {
            Step::Retired(i) => {
                stepped.insert(i.operation);
            }
            // Continue with another instruction; the same ones would repeat otherwise.
            _ => found.pc = CODE + 4 * random.below(WORDS as u64),
        }
        (found.waiting, expected.waiting) = (false, false);
        expected.pc = found.pc;
    }
    for address in (DATA..DATA + DATA_BYTES)
        .chain(PART..PART + PART_BYTES)
        .step_by(8)
    {
        let of = |machine: &mut Machine<PagedMemory>| machine.memory.read(address, 8);
        assert_eq!(
            of(&mut found),
            of(&mut expected),
            "{address:#x}, seed {seed}"
        );
    }
}

#[test]
fn executes_what_the_interpreter_does() {
    let (mut plain, mut stepped) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..1000 {
        compare(seed, &mut plain, &mut stepped);
    }
    // Every instruction was executed, and in the intended way: a plain one is only stepped in
    // special cases, such as a misaligned address.
    let is_special = |entry: &&Entry| {
        matches!(
            entry.class,
            Class::Atomic
                | Class::LoadReserved
                | Class::StoreConditional
                | Class::FenceI
                | Class::Csr
                | Class::System
        )
    };
    let traps = |operation| matches!(operation, Operation::Ecall | Operation::Ebreak);
    for entry in TABLE {
        let operation = entry.operation;
        if is_special(&entry) {
            assert!(
                stepped.contains(&operation) || traps(operation),
                "{operation:?}"
            );
            assert!(!plain.contains(&operation), "{operation:?}");
        } else {
            assert!(plain.contains(&operation), "{operation:?}");
        }
    }
    assert!(stepped.contains(&Operation::Lw) && stepped.contains(&Operation::Sd));
}

/// `addi a0, a0, 1; j -4`, and then the first instruction becomes `addi a0, a0, 2`.
#[test]
fn changed_instructions_are_seen_after_fence_i() {
    let range = CODE..CODE + CODE_BYTES;
    let mut memory = PagedMemory::new(vec![range]);
    memory.write(CODE, 4, 0x0015_0513);
    memory.write(CODE + 4, 4, 0xffdf_f06f);
    memory.write(CODE + 8, 4, 0x0000_100f); // fence.i
    memory.write(CODE + 12, 4, 0xff5f_f06f); // j -12
    let mut machine = Machine::new(memory, CODE);
    let mut threaded = Threaded::default();
    assert_eq!(threaded.run(&mut machine, 20), 20);
    assert_eq!(machine.registers[10], 10);
    machine.memory.write(CODE, 4, 0x0025_0513);
    machine.pc = CODE + 8;
    assert_eq!(threaded.run(&mut machine, 20), 0);
    assert!(matches!(threaded.step(&mut machine), Step::Retired(i) if i.class == Class::FenceI));
    assert_eq!(threaded.run(&mut machine, 21), 21);
    assert_eq!(machine.registers[10], 10 + 20);
}

/// More instructions than the limit: they are discarded and decoded again.
#[test]
fn forgets_what_is_too_much() {
    let words = 3 * OPERATIONS_LIMIT as u64 / 2;
    let range = CODE..CODE + 4 * words + 4;
    let mut memory = PagedMemory::new(vec![range]);
    for word in 0..words {
        memory.write(CODE + 4 * word, 4, 0x0015_0513); // addi a0, a0, 1
    }
    let mut machine = Machine::new(memory, CODE);
    let mut threaded = Threaded::default();
    for round in 1..3 {
        machine.pc = CODE;
        assert_eq!(threaded.run(&mut machine, words), words);
        assert_eq!(machine.registers[10], round * words);
        assert!(threaded.operations.len() <= OPERATIONS_LIMIT + TRACE_LIMIT);
    }
}
