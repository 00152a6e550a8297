//! The "C" extension: each 16-bit instruction stands for one 32-bit instruction.

const ZERO: u32 = 0;
const RA: u32 = 1;
const SP: u32 = 2;

/// The 32-bit encoding that the compressed instruction `half` stands for, if it is one.
/// Hints expand to ordinary instructions with destination `x0`. RISC-V Unprivileged ISA, "C"
/// Extension, section "RVC Instruction Set Listings".
pub(crate) fn expand(half: u16) -> Option<u32> {
    let c = u32::from(half);
    let field = |low: u32, width: u32| c >> low & ((1 << width) - 1);
    // `rd`/`rs1`, `rs2`, and the three-bit forms of both, which name x8 to x15.
    let (rd, rs2) = (field(7, 5), field(2, 5));
    let (rd_short, rs2_short) = (8 + field(7, 3), 8 + field(2, 3));
    // Immediates. Their bits are scattered to minimize multiplexers in hardware.
    let imm6 = sign_extend(field(12, 1) << 5 | field(2, 5), 6);
    let shamt = field(12, 1) << 5 | field(2, 5);
    let word = field(10, 3) << 3 | field(6, 1) << 2 | field(5, 1) << 6;
    let double = field(10, 3) << 3 | field(5, 2) << 6;
    let word_sp = field(12, 1) << 5 | field(4, 3) << 2 | field(2, 2) << 6;
    let double_sp = field(12, 1) << 5 | field(5, 2) << 3 | field(2, 3) << 6;
    let store_word_sp = field(9, 4) << 2 | field(7, 2) << 6;
    let store_double_sp = field(10, 3) << 3 | field(7, 3) << 6;

    Some(match (c & 3, c >> 13) {
        // c.addi4spn; the encoding of all zeros is defined to be illegal
        (0, 0) => {
            let offset = field(11, 2) << 4 | field(7, 4) << 6 | field(6, 1) << 2 | field(5, 1) << 3;
            if offset == 0 {
                return None;
            }
            i_type(0x13, 0, rs2_short, SP, offset)
        }
        (0, 1) => i_type(0x07, 3, rs2_short, rd_short, double), // c.fld
        (0, 2) => i_type(0x03, 2, rs2_short, rd_short, word),   // c.lw
        (0, 3) => i_type(0x03, 3, rs2_short, rd_short, double), // c.ld
        (0, 5) => s_type(0x27, 3, rd_short, rs2_short, double), // c.fsd
        (0, 6) => s_type(0x23, 2, rd_short, rs2_short, word),   // c.sw
        (0, 7) => s_type(0x23, 3, rd_short, rs2_short, double), // c.sd

        (1, 0) => i_type(0x13, 0, rd, rd, imm6), // c.addi, c.nop
        (1, 1) if rd != 0 => i_type(0x1b, 0, rd, rd, imm6), // c.addiw
        (1, 2) => i_type(0x13, 0, rd, ZERO, imm6), // c.li
        (1, 3) if imm6 == 0 => return None,
        // c.addi16sp
        (1, 3) if rd == SP => {
            let offset = field(12, 1) << 9
                | field(6, 1) << 4
                | field(5, 1) << 6
                | field(3, 2) << 7
                | field(2, 1) << 5;
            i_type(0x13, 0, SP, SP, sign_extend(offset, 10))
        }
        (1, 3) => 0x37 | rd << 7 | imm6 << 12, // c.lui
        (1, 4) => match (field(10, 2), field(12, 1), field(5, 2)) {
            (0, _, _) => i_type(0x13, 5, rd_short, rd_short, shamt), // c.srli
            (1, _, _) => i_type(0x13, 5, rd_short, rd_short, 0x400 | shamt), // c.srai
            (2, _, _) => i_type(0x13, 7, rd_short, rd_short, imm6),  // c.andi
            (3, 0, 0) => r_type(0x33, 0, 0x20, rd_short, rd_short, rs2_short), // c.sub
            (3, 0, 1) => r_type(0x33, 4, 0x00, rd_short, rd_short, rs2_short), // c.xor
            (3, 0, 2) => r_type(0x33, 6, 0x00, rd_short, rd_short, rs2_short), // c.or
            (3, 0, 3) => r_type(0x33, 7, 0x00, rd_short, rd_short, rs2_short), // c.and
            (3, 1, 0) => r_type(0x3b, 0, 0x20, rd_short, rd_short, rs2_short), // c.subw
            (3, 1, 1) => r_type(0x3b, 0, 0x00, rd_short, rd_short, rs2_short), // c.addw
            _ => return None,
        },
        // c.j
        (1, 5) => {
            let offset = field(12, 1) << 11
                | field(11, 1) << 4
                | field(9, 2) << 8
                | field(8, 1) << 10
                | field(7, 1) << 6
                | field(6, 1) << 7
                | field(3, 3) << 1
                | field(2, 1) << 5;
            j_type(0x6f, ZERO, sign_extend(offset, 12))
        }
        // c.beqz, c.bnez
        (1, 6 | 7) => {
            let offset = field(12, 1) << 8
                | field(10, 2) << 3
                | field(5, 2) << 6
                | field(3, 2) << 1
                | field(2, 1) << 5;
            b_type(0x63, field(13, 1), rd_short, ZERO, sign_extend(offset, 9))
        }

        (2, 0) => i_type(0x13, 1, rd, rd, shamt), // c.slli
        (2, 1) => i_type(0x07, 3, rd, SP, double_sp), // c.fldsp
        (2, 2) if rd != 0 => i_type(0x03, 2, rd, SP, word_sp), // c.lwsp
        (2, 3) if rd != 0 => i_type(0x03, 3, rd, SP, double_sp), // c.ldsp
        (2, 4) => match (field(12, 1), rd, rs2) {
            (0, 0, 0) => return None,
            (0, _, 0) => i_type(0x67, 0, ZERO, rd, 0), // c.jr
            (0, _, _) => r_type(0x33, 0, 0, rd, ZERO, rs2), // c.mv
            (_, 0, 0) => 0x0010_0073,                  // c.ebreak
            (_, _, 0) => i_type(0x67, 0, RA, rd, 0),   // c.jalr
            (_, _, _) => r_type(0x33, 0, 0, rd, rd, rs2), // c.add
        },
        (2, 5) => s_type(0x27, 3, SP, rs2, store_double_sp), // c.fsdsp
        (2, 6) => s_type(0x23, 2, SP, rs2, store_word_sp),   // c.swsp
        (2, 7) => s_type(0x23, 3, SP, rs2, store_double_sp), // c.sdsp
        _ => return None,
    })
}

fn sign_extend(value: u32, width: u32) -> u32 {
    ((value << (32 - width)) as i32 >> (32 - width)) as u32
}

fn i_type(opcode: u32, funct3: u32, rd: u32, rs1: u32, immediate: u32) -> u32 {
    opcode | rd << 7 | funct3 << 12 | rs1 << 15 | immediate << 20
}

fn r_type(opcode: u32, funct3: u32, funct7: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
    opcode | rd << 7 | funct3 << 12 | rs1 << 15 | rs2 << 20 | funct7 << 25
}

fn s_type(opcode: u32, funct3: u32, rs1: u32, rs2: u32, offset: u32) -> u32 {
    opcode | (offset & 0x1f) << 7 | funct3 << 12 | rs1 << 15 | rs2 << 20 | offset >> 5 << 25
}

fn b_type(opcode: u32, funct3: u32, rs1: u32, rs2: u32, offset: u32) -> u32 {
    let scattered = (offset >> 11 & 1) << 7
        | (offset >> 1 & 0xf) << 8
        | (offset >> 5 & 0x3f) << 25
        | (offset >> 12 & 1) << 31;
    opcode | funct3 << 12 | rs1 << 15 | rs2 << 20 | scattered
}

fn j_type(opcode: u32, rd: u32, offset: u32) -> u32 {
    let scattered = (offset >> 12 & 0xff) << 12
        | (offset >> 11 & 1) << 20
        | (offset >> 1 & 0x3ff) << 21
        | (offset >> 20 & 1) << 31;
    opcode | rd << 7 | scattered
}
