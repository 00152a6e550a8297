//! Regions as code for the interface's cores, executed by a model of such a core.

use crate::programs::{Way, any_way, regions};
use critical_region::{
    Kind, LiveIn, Region, RegionInstruction, RegisterState, Unsent, code, convention, executable,
};
use proptest::prelude::*;
use riscv::{Class, Instruction, Operation, branch_taken, decode, evaluate_integer};

/// The address of the code.
const PLACE: u64 = 0x1000_0000;
const ROOM: usize = 4096;

fn sent(region: &Region) -> Result<Vec<u8>, Unsent> {
    code(region, &executable(region), ROOM)
}

/// The instruction at `pc`; `None` after the end of the code.
fn instruction_at(code: &[u8], pc: u64) -> Option<Instruction> {
    let at = usize::try_from(pc.checked_sub(PLACE)?).ok()?;
    let half = |at: usize| {
        Some(u32::from(u16::from_le_bytes(
            code.get(at..at + 2)?.try_into().ok()?,
        )))
    };
    let low = half(at)?;
    match riscv::is_compressed(low as u16) {
        true => Some(decode(low)),
        false => Some(decode(half(at + 2)? << 16 | low)),
    }
}

/// The addresses outside of the code from which it loads, until `ebreak` or the maximum number of
/// instructions. `arguments` is the array to which `a0` points.
fn loads(code: &[u8], arguments: &[u64], most: usize, memory: impl Fn(u64) -> u64) -> Vec<u64> {
    const ARGUMENTS: u64 = 0x1002_0000;
    let mut registers = [0u64; 65];
    registers[10] = ARGUMENTS;
    let (mut pc, mut loaded) = (PLACE, Vec::new());
    for _ in 0..most {
        let i = instruction_at(code, pc).expect("control stays in the code");
        if i.operation == Operation::Ebreak {
            return loaded;
        }
        let [a, b] = [i.rs1, i.rs2].map(|register| registers[usize::from(register)]);
        let mut next = i.next(pc);
        let value = match i.class {
            Class::Load => {
                let address = i.address(a);
                let of_code = address.checked_sub(PLACE).map(|at| at as usize);
                let of_code = of_code.and_then(|at| code.get(at..at + 8));
                let of_arguments = address.checked_sub(ARGUMENTS).map(|at| at as usize / 8);
                match (of_code, of_arguments.and_then(|place| arguments.get(place))) {
                    (Some(bytes), _) => u64::from_le_bytes(bytes.try_into().unwrap()),
                    (None, Some(&argument)) => argument,
                    (None, None) => {
                        loaded.push(address);
                        i.load_value(memory(address))
                    }
                }
            }
            Class::Branch => {
                if branch_taken(i.operation, a, b) {
                    next = i.jump_target(pc, a);
                }
                0
            }
            Class::Jump => {
                next = i.jump_target(pc, a);
                evaluate_integer(&i, pc, a, b)
            }
            Class::Alu | Class::Multiply | Class::Divide => evaluate_integer(&i, pc, a, b),
            class => panic!("{class:?} in the code of a region"),
        };
        registers[usize::from(i.rd)] = value;
        registers[0] = 0;
        pc = next;
    }
    loaded
}

fn ld(rd: u32, rs1: u32, offset: u32) -> u32 {
    offset << 20 | rs1 << 15 | 3 << 12 | rd << 7 | 0x03
}

fn addi(rd: u32, rs1: u32, immediate: u32) -> u32 {
    immediate << 20 | rs1 << 15 | rd << 7 | 0x13
}

/// A region of these instructions, with the roots of each, and whether its result is given.
fn region(
    instructions: &[(u64, u32, [Option<u8>; 2], bool)],
    registers: &[(u8, RegisterState)],
) -> Region {
    Region {
        procedure: None,
        instructions: instructions
            .iter()
            .map(|&(pc, bits, roots, given)| RegionInstruction {
                pc,
                instruction: decode(bits),
                kind: Kind::Other,
                given,
                roots,
                addresses: [None; 2],
                unknown: false,
                misses: false,
            })
            .collect(),
        registers: registers
            .iter()
            .map(|&(register, state)| LiveIn {
                register,
                state,
                // A result, if an instruction is given it.
                root: convention::Root::of(register).filter(|_| {
                    let mut given = instructions.iter().filter(|(.., given)| *given);
                    !given.any(|(_, bits, ..)| decode(*bits).rd == register)
                }),
            })
            .collect(),
    }
}

/// The look-up of Table 4: a bucket, selected by a hash that is computed for each packet, of a
/// table whose address is predicted, and the chain of items, whose links are at offset 16.
fn lookup(table: RegisterState, hash: RegisterState) -> Region {
    region(
        &[
            (0x100, 0x0000_0617, [None, None], true), // auipc a2: the table
            (0x104, 0x0035_9793, [Some(11), None], false), // slli a5, a1, 3
            (0x108, 0x00f6_0733, [None, None], false), // add a4, a2, a5
            (0x10c, ld(14, 14, 0), [None, None], false), // ld a4, 0(a4)
            (0x110, 0x0007_0863, [None, None], false), // beqz a4, 0x120
            (0x118, ld(14, 14, 16), [None, None], false), // ld a4, 16(a4)
            (0x11c, 0xfe07_1ae3, [None, None], false), // bnez a4, 0x110
        ],
        &[(12, table), (11, hash)],
    )
}

#[test]
fn a_lookup_follows_the_chain() {
    let table = 0x8123_4560;
    let lookup = lookup(RegisterState::Ready(table), RegisterState::ReadyDyn(1));
    let code = sent(&lookup).unwrap();
    let item = |number: u64| 0x8800_0000 + 0x100 * number;
    let memory = |address: u64| match address {
        _ if address == table + 8 * 5 => item(1),
        _ if address == item(1) + 16 => item(2),
        _ if address == item(2) + 16 => item(3),
        _ => 0,
    };
    let expected = [table + 40, item(1) + 16, item(2) + 16, item(3) + 16];
    assert_eq!(loads(&code, &[99, 5], 100, memory), expected);
    // An empty bucket ends the region.
    assert_eq!(loads(&code, &[99, 6], 100, memory), [table + 48]);
    // A chain without an end stops at the budget: six instructions up to the bucket, and then a
    // load in every three.
    assert_eq!(loads(&code, &[99, 5], 40, |_| item(1)).len(), 12);
}

/// Two procedures get the same register from their callers: each reads its own value.
#[test]
fn roots_are_loaded_where_they_are_read() {
    let twice = region(
        &[
            (0x100, ld(10, 10, 0), [Some(10), None], false),
            (0x104, ld(11, 10, 8), [None, None], false),
            (0x200, ld(12, 10, 16), [Some(10), None], false),
            (0x204, ld(13, 10, 24), [Some(10), None], false),
        ],
        &[(10, RegisterState::Ready(0x9000_0000))],
    );
    let code = sent(&twice).unwrap();
    let expected = [0x9000_0000, 0x7000_0008, 0x9000_0010, 0x9000_0018];
    assert_eq!(loads(&code, &[], 100, |_| 0x7000_0000), expected);
}

/// Control flow that leaves the region ends it, and instructions outside of the region are passed
/// through.
#[test]
fn control_flow_that_leaves_ends_the_region() {
    let leaving = |bits| {
        region(
            &[
                (0x100, ld(11, 10, 0), [Some(10), None], false),
                (0x104, bits, [None, None], false),
                (0x110, ld(11, 10, 8), [None, None], false),
            ],
            &[(10, RegisterState::Ready(0x9000_0000))],
        )
    };
    let run = |bits| loads(&sent(&leaving(bits)).unwrap(), &[], 100, |_| 1).len();
    assert_eq!(run(0x1000_006f), 1, "a jump to 0x204");
    assert_eq!(
        run(0x0080_006f),
        2,
        "a jump to 0x10c, which is not in the region"
    );
    assert_eq!(run(0x0005_8067), 1, "a jump to what a register has");
    assert_eq!(run(0x0005_8463), 2, "a branch that is not taken");
}

/// A loop that copies values, as it is found: `t2` is its own predecessor, and its initial value is
/// unknown. The loop's instructions are left out; those before and after it stay.
#[test]
fn a_loop_that_nothing_begins_is_left_out() {
    let of = |begin: &[(u64, u32, [Option<u8>; 2], bool)]| {
        let mut instructions = vec![(0x100, ld(11, 10, 0), [Some(10), None], false)];
        instructions.extend(begin);
        instructions.extend([
            (0x200, ld(5, 7, 40), [None, None], false), // ld t0, 40(t2)
            (0x204, addi(7, 7, 64), [None, None], false), // addi t2, t2, 64
            (0x208, 0xfe00_1ce3 | 7 << 15 | 11 << 20, [None, None], false), // bne t2, a1, 0x200
            (0x20c, ld(12, 11, 8), [None, None], false),
        ]);
        region(&instructions, &[(10, RegisterState::Ready(0x9000_0000))])
    };
    let without = of(&[]);
    assert_eq!(executable(&without), [true, false, false, false, true]);
    let words: [u32; 8] = [
        0x0000_0517,    // auipc a0, 0
        ld(10, 10, 24), // the value of a0
        ld(11, 10, 0),
        ld(12, 11, 8),
        0x0010_0073, // ebreak
        0,
        0x9000_0000,
        0,
    ];
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    assert_eq!(sent(&without), Ok(bytes));
    let with = of(&[(0x1fc, addi(7, 11, 0), [None, None], false)]);
    assert_eq!(executable(&with), [true; 6]);
}

/// Operands come from the end of a loop, but not from instructions that are not executed.
#[test]
fn operands_come_from_what_is_executed() {
    let a0 = [(10, RegisterState::Ready(0x9000_0000))];
    let condition_behind = region(
        &[
            (0x100, 0x0080_006f, [None, None], false), // j 0x108
            (0x104, ld(5, 7, 0), [None, None], false),
            (0x108, addi(7, 10, 0), [Some(10), None], false),
            (0x10c, 0xfe00_1ce3 | 7 << 15, [None, None], false), // bnez t2, 0x104
        ],
        &a0,
    );
    assert_eq!(executable(&condition_behind), [true; 4]);
    let overwritten = region(
        &[
            (0x100, ld(11, 10, 0), [Some(10), None], false),
            (0x104, ld(12, 11, 0), [None, None], false),
            (0x108, 0x01d5_85b3, [None, None], false), // add a1, a1, t4
            (0x10c, ld(12, 11, 0), [None, None], false),
            (0x110, ld(13, 12, 0), [Some(12), None], false), // a2 is another one's, and not known
        ],
        &a0,
    );
    assert_eq!(executable(&overwritten), [true, true, false, false, false]);
}

/// A loop whose only exit is a branch without operands is executed once.
#[test]
fn a_loop_that_nothing_leaves_is_not_closed() {
    let of = |condition: u32| {
        region(
            &[
                (0x100, ld(11, 10, 0), [Some(10), None], false),
                (0x104, ld(11, 11, 8), [None, None], false),
                (0x108, 0x0000_0663 | condition << 15, [None, None], false), // beqz ..., 0x114
                (0x110, 0xff5f_f06f, [None, None], false),                   // j 0x104
            ],
            &[(10, RegisterState::Ready(0x9000_0000))],
        )
    };
    assert_eq!(executable(&of(28)), [true, true, false, false]);
    assert_eq!(loads(&sent(&of(28)).unwrap(), &[], 100, |_| 1).len(), 2);
    assert_eq!(executable(&of(11)), [true; 4]);
}

/// Regions without enough room, or without a register for the arguments.
#[test]
fn what_cannot_be_sent() {
    let large: Vec<_> = (0..1200u64)
        .map(|number| (4 * number, ld(11, 10, 0), [Some(10), None], false))
        .collect();
    let large = region(&large, &[(10, RegisterState::Ready(0x9000_0000))]);
    assert_eq!(sent(&large), Err(Unsent::TooLarge));
    let all: Vec<_> = (1..32u32)
        .map(|register| {
            (
                4 * u64::from(register),
                ld(register, 10, 0),
                [Some(10), None],
                false,
            )
        })
        .collect();
    let all = region(&all, &[(10, RegisterState::ReadyDyn(0))]);
    assert_eq!(sent(&all), Err(Unsent::NoRegister));
}

proptest! {
    /// The code of any region only changes registers, stays within itself, and depends only on the
    /// region.
    #[test]
    fn code_is_contained(way in any_way(), memory in any::<u64>()) {
        for region in &regions(&way) {
            let Ok(bytes) = sent(region) else {
                continue;
            };
            prop_assert_eq!(bytes.len() % 8, 0);
            loads(&bytes, &[memory; 6], 300, |address| memory ^ address);
            prop_assert_eq!(Ok(bytes), sent(region));
        }
    }
}

#[test]
fn a_way_is_shared() {
    let way: Way = (vec![decode(ld(11, 10, 0))], vec![(true, 1, 0); 20]);
    assert_eq!(regions(&way).len(), 1);
}
