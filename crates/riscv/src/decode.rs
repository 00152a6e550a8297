//! Decoding of an encoding into an [`Instruction`].

use crate::compressed;
use crate::instruction::{Class, Entry, Format, Instruction, Operation, Register, SINK, TABLE};

/// The bits that identify an instruction: those under `mask` must equal `value`.
#[derive(Clone, Copy)]
pub(crate) struct Pattern {
    pub mask: u32,
    pub value: u32,
}

pub(crate) const FUNCT3: u32 = 7 << 12;
const FUNCT7: u32 = 0x7f << 25;
const RD: u32 = 0x1f << 7;
const RS2: u32 = 0x1f << 20;
const OPCODE: u32 = 0x7f;
const OP_FP: u32 = 0x53;

const fn pattern(mask: u32, value: u32) -> Pattern {
    Pattern { mask, value }
}

/// Identified by the major opcode alone.
pub(crate) const fn major(opcode: u32) -> Pattern {
    pattern(OPCODE, opcode)
}

pub(crate) const fn i(opcode: u32, funct3: u32) -> Pattern {
    pattern(OPCODE | FUNCT3, opcode | funct3 << 12)
}

/// Shift by a 6-bit immediate, which leaves six bits of `funct7`.
pub(crate) const fn shift(opcode: u32, funct3: u32, funct6: u32) -> Pattern {
    pattern(
        OPCODE | FUNCT3 | 0x3f << 26,
        opcode | funct3 << 12 | funct6 << 26,
    )
}

pub(crate) const fn r(opcode: u32, funct3: u32, funct7: u32) -> Pattern {
    pattern(
        OPCODE | FUNCT3 | FUNCT7,
        opcode | funct3 << 12 | funct7 << 25,
    )
}

/// One operand; the whole immediate identifies the instruction.
pub(crate) const fn unary(opcode: u32, funct3: u32, funct12: u32) -> Pattern {
    pattern(
        OPCODE | FUNCT3 | 0xfff << 20,
        opcode | funct3 << 12 | funct12 << 20,
    )
}

/// "Zicbop": `ori x0`, with the lower five bits of the immediate identifying the instruction.
pub(crate) const fn prefetch(kind: u32) -> Pattern {
    let Pattern { mask, value } = i(0x13, 6);
    pattern(mask | RD | RS2, value | kind << 20)
}

pub(crate) const fn csr(funct3: u32) -> Pattern {
    i(0x73, funct3)
}

/// `sfence.vma`: two operands and no result.
pub(crate) const fn flush(funct7: u32) -> Pattern {
    let Pattern { mask, value } = r(0x73, 0, funct7);
    pattern(mask | RD, value)
}

pub(crate) const fn whole(bits: u32) -> Pattern {
    pattern(u32::MAX, bits)
}

/// The "A" extension: the two bits below `funct5` are `aq` and `rl`.
pub(crate) const fn amo(width: u32, funct5: u32) -> Pattern {
    pattern(
        OPCODE | FUNCT3 | 0x1f << 27,
        0x2f | width << 12 | funct5 << 27,
    )
}

pub(crate) const fn lr(width: u32) -> Pattern {
    let Pattern { mask, value } = amo(width, 0x02);
    pattern(mask | RS2, value)
}

/// Floating point with a rounding mode in place of `funct3`.
pub(crate) const fn float(funct7: u32) -> Pattern {
    pattern(OPCODE | FUNCT7, OP_FP | funct7 << 25)
}

/// As [`float`], with `rs2` identifying the instruction.
pub(crate) const fn float_unary(funct7: u32, rs2: u32) -> Pattern {
    pattern(OPCODE | FUNCT7 | RS2, OP_FP | funct7 << 25 | rs2 << 20)
}

pub(crate) const fn float3(funct7: u32, funct3: u32) -> Pattern {
    r(OP_FP, funct3, funct7)
}

pub(crate) const fn float3_unary(funct7: u32, rs2: u32, funct3: u32) -> Pattern {
    let Pattern { mask, value } = r(OP_FP, funct3, funct7);
    pattern(mask | RS2, value | rs2 << 20)
}

/// Fused multiply-add; `width` 0 is single, 1 is double.
pub(crate) const fn fused(opcode: u32, width: u32) -> Pattern {
    pattern(OPCODE | 3 << 25, opcode | width << 25)
}

/// The rows of [`TABLE`] with each major opcode (bits 6:2): first and end.
const RANGES: [(u8, u8); 32] = {
    let mut ranges = [(0, 0); 32];
    let mut row = 0;
    while row < TABLE.len() {
        let opcode = (TABLE[row].pattern.value >> 2 & 0x1f) as usize;
        if ranges[opcode].1 == 0 {
            ranges[opcode].0 = row as u8;
        } else {
            assert!(
                ranges[opcode].1 == row as u8,
                "the instructions of an opcode are not adjacent"
            );
        }
        row += 1;
        ranges[opcode].1 = row as u8;
    }
    ranges
};

/// Whether an instruction consists only of its first 16 bits.
#[inline]
pub fn is_compressed(low_half: u16) -> bool {
    low_half & 3 != 3
}

/// Decodes the instruction in `bits`; only the low half counts if that is a compressed instruction.
/// Every value decodes: encodings without an instruction become [`Operation::Illegal`]. Reserved
/// rounding modes (5 and 6) are illegal here; [`crate::illegal_rounding`] detects a reserved `frm`
/// at execution.
pub fn decode(bits: u32) -> Instruction {
    if is_compressed(bits as u16) {
        let half = bits & 0xffff;
        return match compressed::expand(half as u16) {
            Some(expanded) => Instruction {
                length: 2,
                bits: half,
                ..decode_base(expanded)
            },
            None => Instruction::illegal(half, 2),
        };
    }
    decode_base(bits)
}

fn decode_base(bits: u32) -> Instruction {
    let opcode = bits & OPCODE;
    if matches!(opcode, 0x0b | 0x2b | 0x5b | 0x7b) {
        return Instruction {
            operation: Operation::Custom,
            class: Class::Custom,
            rd: destination(bits),
            rs1: integer(bits, 15),
            rs2: integer(bits, 20),
            immediate: bits as i32 >> 20,
            ..Instruction::illegal(bits, 4)
        };
    }
    let (start, end) = RANGES[(bits >> 2 & 0x1f) as usize];
    TABLE[start as usize..end as usize]
        .iter()
        .find(|entry| bits & entry.pattern.mask == entry.pattern.value)
        .map_or(Instruction::illegal(bits, 4), |entry| operands(entry, bits))
}

fn operands(entry: &Entry, bits: u32) -> Instruction {
    let plain = Instruction {
        operation: entry.operation,
        class: entry.class,
        ..Instruction::illegal(bits, 4)
    };
    let (rd, rs1, rs2) = (destination(bits), integer(bits, 15), integer(bits, 20));
    let (fd, fs1, fs2, fs3) = (
        float_at(bits, 7),
        float_at(bits, 15),
        float_at(bits, 20),
        float_at(bits, 27),
    );
    let immediate = bits as i32 >> 20;
    let mut instruction = match entry.format {
        Format::Bare => plain,
        Format::Upper => Instruction {
            rd,
            immediate: (bits & 0xffff_f000) as i32,
            ..plain
        },
        Format::Jump => Instruction {
            rd,
            immediate: jump_offset(bits),
            ..plain
        },
        Format::Load | Format::Immediate => Instruction {
            rd,
            rs1,
            immediate,
            ..plain
        },
        Format::FloatLoad => Instruction {
            rd: fd,
            rs1,
            immediate,
            ..plain
        },
        Format::Store => Instruction {
            rs1,
            rs2,
            immediate: store_offset(bits),
            ..plain
        },
        // The offset's lower five bits, in the place of `rd`, are zero.
        Format::Prefetch => Instruction {
            rs1,
            immediate: store_offset(bits),
            ..plain
        },
        Format::FloatStore => Instruction {
            rs1,
            rs2: fs2,
            immediate: store_offset(bits),
            ..plain
        },
        Format::Branch => Instruction {
            rs1,
            rs2,
            immediate: branch_offset(bits),
            ..plain
        },
        Format::Shift => Instruction {
            rd,
            rs1,
            immediate: immediate & 0x3f,
            ..plain
        },
        Format::Register | Format::Atomic => Instruction {
            rd,
            rs1,
            rs2,
            ..plain
        },
        Format::Flush => Instruction { rs1, rs2, ..plain },
        Format::Reserve | Format::Unary => Instruction { rd, rs1, ..plain },
        Format::Csr => Instruction {
            rd,
            rs1,
            immediate: immediate & 0xfff,
            ..plain
        },
        Format::CsrImmediate => Instruction {
            rd,
            immediate: immediate & 0xfff | i32::from(rs1) << 12,
            ..plain
        },
        Format::Fence => Instruction {
            immediate: immediate & 0xfff,
            ..plain
        },
        Format::Float4 => Instruction {
            rd: fd,
            rs1: fs1,
            rs2: fs2,
            rs3: fs3,
            ..plain
        },
        Format::Float3 => Instruction {
            rd: fd,
            rs1: fs1,
            rs2: fs2,
            ..plain
        },
        Format::Float2 => Instruction {
            rd: fd,
            rs1: fs1,
            ..plain
        },
        Format::FloatCompare => Instruction {
            rd,
            rs1: fs1,
            rs2: fs2,
            ..plain
        },
        Format::FloatToInteger => Instruction {
            rd,
            rs1: fs1,
            ..plain
        },
        Format::IntegerToFloat => Instruction {
            rd: fd,
            rs1,
            ..plain
        },
        Format::Custom => plain,
    };
    // Floating-point arithmetic whose `funct3` identifies no instruction has the rounding mode
    // there.
    if entry.takes_rounding() {
        instruction.rounding = (bits >> 12 & 7) as u8;
        if matches!(instruction.rounding, 5 | 6) {
            return Instruction::illegal(bits, 4);
        }
    }
    instruction
}

fn integer(bits: u32, at: u32) -> Register {
    (bits >> at & 0x1f) as u8
}

fn destination(bits: u32) -> Register {
    match integer(bits, 7) {
        0 => SINK,
        rd => rd,
    }
}

fn float_at(bits: u32, at: u32) -> Register {
    32 + integer(bits, at)
}

/// S-type: 31:25 are bits 11:5, 11:7 are bits 4:0.
fn store_offset(bits: u32) -> i32 {
    (bits as i32 >> 25 << 5) | (bits >> 7 & 0x1f) as i32
}

/// B-type: bit 31 is bit 12, 30:25 are bits 10:5, 11:8 are bits 4:1, bit 7 is bit 11.
fn branch_offset(bits: u32) -> i32 {
    let low = (bits >> 7 & 1) << 11 | (bits >> 25 & 0x3f) << 5 | (bits >> 8 & 0xf) << 1;
    (bits as i32 >> 31 << 12) | low as i32
}

/// J-type: bit 31 is bit 20, 30:21 are bits 10:1, bit 20 is bit 11, 19:12 are bits 19:12.
fn jump_offset(bits: u32) -> i32 {
    let low = bits & 0x000f_f000 | (bits >> 20 & 1) << 11 | (bits >> 21 & 0x3ff) << 1;
    (bits as i32 >> 31 << 20) | low as i32
}
