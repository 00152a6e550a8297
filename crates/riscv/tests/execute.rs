//! Results that the manual states explicitly.

use riscv::{
    Instruction, Operation, branch_taken, decode, evaluate, evaluate_integer, evaluator,
    illegal_rounding,
};

/// Encodes an R-type instruction on a1 and a2, to a0.
fn r(opcode: u32, funct3: u32, funct7: u32) -> Instruction {
    decode(opcode | 10 << 7 | funct3 << 12 | 11 << 15 | 12 << 20 | funct7 << 25)
}

fn run(i: &Instruction, a: u64, b: u64) -> u64 {
    let mut flags = 0;
    let result = evaluate(i, 0x1000, a, b, 0, 0, &mut flags);
    assert_eq!(flags, 0);
    result
}

/// "M" Extension, table "Semantics for division by zero and division overflow".
#[test]
fn division_corners() {
    let least = i64::MIN as u64;
    let min_w = i32::MIN as u64;
    let minus = u64::MAX;
    let [div, divu, rem, remu] = [4, 5, 6, 7].map(|funct3| r(0x33, funct3, 1));
    for a in [0, 1, 7, least, minus] {
        assert_eq!(run(&div, a, 0), minus);
        assert_eq!(run(&divu, a, 0), minus);
        assert_eq!(run(&rem, a, 0), a);
        assert_eq!(run(&remu, a, 0), a);
    }
    assert_eq!(run(&div, least, minus), least);
    assert_eq!(run(&rem, least, minus), 0);
    assert_eq!(run(&divu, least, minus), 0);
    assert_eq!(run(&remu, least, minus), least);
    assert_eq!(run(&div, -7_i64 as u64, 2), -3_i64 as u64);
    assert_eq!(run(&rem, -7_i64 as u64, 2), minus);
    assert_eq!(run(&rem, 7, -2_i64 as u64), 1);

    let [divw, divuw, remw, remuw] = [4, 5, 6, 7].map(|funct3| r(0x3b, funct3, 1));
    // The upper halves are ignored, and results are sign-extended from bit 31.
    assert_eq!(run(&divw, 1 << 40 | 7, 1 << 40), minus);
    assert_eq!(run(&divuw, 7, 1 << 32), minus);
    assert_eq!(run(&remw, 1 << 40 | 0x8000_0000, 0), min_w);
    assert_eq!(run(&remuw, 0x8000_0001, 0), 0xffff_ffff_8000_0001);
    assert_eq!(run(&divw, min_w, minus), min_w);
    assert_eq!(run(&remw, min_w, minus), 0);
    assert_eq!(run(&divuw, 0xffff_fffe, 1), -2_i64 as u64);
}

#[test]
fn high_products() {
    let [mulh, mulhsu, mulhu] = [1, 2, 3].map(|funct3| r(0x33, funct3, 1));
    let (minus, least) = (u64::MAX, i64::MIN as u64);
    assert_eq!(run(&mulh, minus, minus), 0);
    assert_eq!(run(&mulhsu, minus, minus), minus);
    assert_eq!(run(&mulhu, minus, minus), minus - 1);
    assert_eq!(run(&mulh, least, least), 1 << 62);
    assert_eq!(run(&mulhsu, least, minus), least);
}

#[test]
fn shifts_use_the_low_bits_of_the_amount() {
    assert_eq!(run(&r(0x33, 1, 0), 1, 64 + 3), 8);
    assert_eq!(run(&r(0x33, 5, 0x20), i64::MIN as u64, 127), u64::MAX);
    assert_eq!(run(&r(0x3b, 1, 0), 1, 32 + 31), 0xffff_ffff_8000_0000);
    assert_eq!(
        run(&r(0x3b, 5, 0), 0xffff_ffff_8000_0000, 32),
        0xffff_ffff_8000_0000
    );
    assert_eq!(
        run(&r(0x3b, 5, 0x20), 0x8000_0000, 4),
        0xffff_ffff_f800_0000
    );
}

#[test]
fn addresses_and_links() {
    assert_eq!(run(&decode(0xffff_f517), 0, 0), 0); // auipc a0, 0xfffff at 0x1000
    assert_eq!(run(&decode(0x8000_0537), 0, 0), 0xffff_ffff_8000_0000); // lui a0, 0x80000
    assert_eq!(run(&decode(0x0000_00ef), 0, 0), 0x1004); // jal
    assert_eq!(run(&decode(0x9782), 0x2000, 0), 0x1002); // c.jalr a5
    let jalr = decode(0x0035_00e7); // jalr ra, 3(a0)
    assert_eq!(jalr.jump_target(0x1000, 0x2000), 0x2002);
    assert_eq!(jalr.jump_target(0x1000, u64::MAX), 2);
}

#[test]
fn branches() {
    use Operation::{Beq, Bge, Bgeu, Blt, Bltu, Bne};
    let taken = |a, b| [Beq, Bne, Blt, Bge, Bltu, Bgeu].map(|o| branch_taken(o, a, b));
    assert_eq!(taken(1, 1), [true, false, false, true, false, true]);
    assert_eq!(taken(1, 2), [false, true, true, false, true, false]);
    assert_eq!(taken(u64::MAX, 0), [false, true, true, false, false, true]);
    assert!(!branch_taken(Operation::Add, 0, 0));
}

#[test]
fn singles_must_be_boxed() {
    let one = 0xffff_ffff_3f80_0000;
    let nan = 0xffff_ffff_7fc0_0000;
    let mut flags = 0;
    let fadd = decode(0x00c5_8553); // fadd.s, rne
    let mut add = |a, b| evaluate(&fadd, 0, a, b, 0, 0, &mut flags);
    assert_eq!(add(one, one), 0xffff_ffff_4000_0000);
    assert_eq!(add(one, 0x3f80_0000), nan);
    assert_eq!(flags, 0); // the NaN it is taken for is quiet
    let fsgnj = r(0x53, 0, 0x10);
    assert_eq!(run(&fsgnj, 0x3f80_0000, one | 1 << 31), nan | 1 << 31);
    let fmv_x_w = decode(0xe005_8553);
    assert_eq!(run(&fmv_x_w, 0x1_8000_0001, 0), 0xffff_ffff_8000_0001);
}

#[test]
fn loads_extend() {
    let load = |funct3: u32| decode(0x03 | 10 << 7 | funct3 << 12 | 11 << 15);
    let values = [0, 1, 2, 3, 4, 5, 6].map(|f| load(f).load_value(0x8080_8080_8080_8080 & mask(f)));
    assert_eq!(values[0], -128_i64 as u64);
    assert_eq!(values[1], 0xffff_ffff_ffff_8080);
    assert_eq!(values[2], 0xffff_ffff_8080_8080);
    assert_eq!(values[3], 0x8080_8080_8080_8080);
    assert_eq!(values[4..], [0x80, 0x8080, 0x8080_8080]);
    let flw = decode(0x0005_a507);
    assert_eq!(flw.load_value(0x3f80_0000), 0xffff_ffff_3f80_0000);
    let lr_w = decode(0x1005_a52f);
    assert_eq!(lr_w.load_value(0x8000_0000), 0xffff_ffff_8000_0000);
}

fn mask(funct3: u32) -> u64 {
    u64::MAX >> (64 - (8 << (funct3 & 3)))
}

#[test]
fn rounding_modes_that_do_not_exist() {
    let fadd = |mode: u32| decode(0x00c5_8553 | mode << 12);
    assert!((0..=4).all(|mode| !illegal_rounding(&fadd(mode), 7)));
    assert!((0..=4).all(|frm| !illegal_rounding(&fadd(7), frm)));
    assert!((5..=7).all(|frm| illegal_rounding(&fadd(7), frm)));
    assert_eq!(fadd(5).operation, Operation::Illegal);
    assert!(illegal_rounding(
        &Instruction {
            rounding: 6,
            ..fadd(0)
        },
        0
    ));
}

/// "B" Extension for Bit Manipulation: operands without a set bit, and the ignored upper half of
/// word operands.
#[test]
fn bits_are_counted() {
    let unary = |opcode: u32, funct12: u32| {
        decode(opcode | 10 << 7 | 1 << 12 | 11 << 15 | funct12 << 20) // to a0, of a1
    };
    let [clz, ctz, cpop] = [0x600, 0x601, 0x602].map(|funct12| unary(0x13, funct12));
    let [clzw, ctzw, cpopw] = [0x600, 0x601, 0x602].map(|funct12| unary(0x1b, funct12));
    let all = |a| [&clz, &ctz, &cpop, &clzw, &ctzw, &cpopw].map(|i| run(i, a, 0));
    assert_eq!(all(0), [64, 64, 0, 32, 32, 0]);
    assert_eq!(all(1), [63, 0, 1, 31, 0, 1]);
    assert_eq!(all(u64::MAX), [0, 0, 64, 0, 0, 32]);
    assert_eq!(all(i64::MIN as u64), [0, 63, 1, 32, 32, 0]);
    assert_eq!(all(0x0000_0001_8000_0000), [31, 31, 2, 0, 31, 1]);
}

#[test]
fn bytes_are_turned_and_combined() {
    let rev8 = decode(0x6b85_d513); // a0, a1
    let orc_b = decode(0x2875_d513);
    assert_eq!(run(&rev8, 0x0102_0304_0506_0708, 0), 0x0807_0605_0403_0201);
    assert_eq!(run(&orc_b, 0x0001_8000_ff00_0010, 0), 0x00ff_ff00_ff00_00ff);
}

#[test]
fn addresses_are_scaled() {
    let [sh1add, sh2add, sh3add] = [2, 4, 6].map(|funct3| r(0x33, funct3, 0x10));
    let [sh1add_uw, sh2add_uw, sh3add_uw] = [2, 4, 6].map(|funct3| r(0x3b, funct3, 0x10));
    let index = 0xffff_ffff_0000_0005;
    assert_eq!(run(&sh1add, 5, 1000), 1010);
    assert_eq!(run(&sh2add, 5, 1000), 1020);
    assert_eq!(run(&sh3add, u64::MAX, 1000), 992);
    assert_eq!(run(&sh1add_uw, index, 1000), 1010);
    assert_eq!(run(&sh2add_uw, index, 1000), 1020);
    assert_eq!(run(&sh3add_uw, index, 1000), 1040);
    assert_eq!(run(&r(0x3b, 0, 0x04), index, 1000), 1005); // add.uw
}

#[test]
fn an_evaluator_computes_what_its_operation_does() {
    let values = [0, 1, 0x7fff_ffff, 1 << 31, u64::MAX, 0x0123_4567_89ab_cdef];
    for operation in Operation::all() {
        let instruction = Instruction {
            operation,
            immediate: -13,
            ..Instruction::illegal(0, 4)
        };
        for (a, b) in values.iter().flat_map(|&a| values.map(|b| (a, b))) {
            let expected = match operation {
                Operation::Beq
                | Operation::Bne
                | Operation::Blt
                | Operation::Bge
                | Operation::Bltu
                | Operation::Bgeu => branch_taken(operation, a, b).into(),
                _ => evaluate_integer(&instruction, 0x1000, a, b),
            };
            let value = evaluator(operation)(&instruction, 0x1000, a, b);
            assert_eq!(value, expected, "{operation:?} of {a:#x} and {b:#x}");
        }
    }
}
