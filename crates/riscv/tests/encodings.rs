//! Encodings produced by GNU as decode to the assembled instructions.

use std::collections::BTreeSet;

use riscv::{Class, Instruction, Operation, SINK, decode, disassemble};

/// The address of the instructions, for the targets of jumps and branches.
const PC: u64 = 0x8010_0000;

#[rustfmt::skip]
const BASE: &[(u32, &str)] = &[
    (0x1234_5537, "lui a0, 0x12345"),
    (0xffff_ffb7, "lui t6, 0xfffff"),
    (0x0000_1037, "lui zero, 0x1"),
    (0x8000_0517, "auipc a0, 0x80000"),
    (0x0000_1117, "auipc sp, 0x1"),
    (0x7fff_f0ef, "jal ra, 0x801ffffe"),
    (0x8000_006f, "jal zero, 0x80000000"),
    (0x0010_02ef, "jal t0, 0x80100800"),
    (0xffff_f0ef, "jal ra, 0x800ffffe"),
    (0x8005_00e7, "jalr ra, -2048(a0)"),
    (0x0000_8067, "jalr zero, 0(ra)"),
    (0x7ff3_8367, "jalr t1, 2047(t2)"),
    (0x7ff5_0fe3, "beq a0, t6, 0x80100ffe"),
    (0x81f5_1063, "bne a0, t6, 0x800ff000"),
    (0x01f5_40e3, "blt a0, t6, 0x80100800"),
    (0xfff5_5fe3, "bge a0, t6, 0x800ffffe"),
    (0x7ff5_6063, "bltu a0, t6, 0x801007e0"),
    (0x01f5_7f63, "bgeu a0, t6, 0x8010001e"),
    (0x8001_0503, "lb a0, -2048(sp)"),
    (0x8001_1503, "lh a0, -2048(sp)"),
    (0x8001_2503, "lw a0, -2048(sp)"),
    (0x8001_3503, "ld a0, -2048(sp)"),
    (0x8001_4503, "lbu a0, -2048(sp)"),
    (0x8001_5503, "lhu a0, -2048(sp)"),
    (0x8001_6503, "lwu a0, -2048(sp)"),
    (0x7ff1_2507, "flw fa0, 2047(sp)"),
    (0x7ff1_3507, "fld fa0, 2047(sp)"),
    (0x8111_0023, "sb a7, -2048(sp)"),
    (0x8111_1023, "sh a7, -2048(sp)"),
    (0x8111_2023, "sw a7, -2048(sp)"),
    (0x8111_3023, "sd a7, -2048(sp)"),
    (0x000f_afa3, "sw zero, 31(t6)"),
    (0x029f_b023, "sd s1, 32(t6)"),
    (0x7ffa_2fa7, "fsw ft11, 2047(s4)"),
    (0x7ffa_3fa7, "fsd ft11, 2047(s4)"),
    (0x800f_8513, "addi a0, t6, -2048"),
    (0x800f_a513, "slti a0, t6, -2048"),
    (0x800f_b513, "sltiu a0, t6, -2048"),
    (0x800f_c513, "xori a0, t6, -2048"),
    (0x800f_e513, "ori a0, t6, -2048"),
    (0x800f_f513, "andi a0, t6, -2048"),
    (0x8005_6013, "prefetch.i -2048(a0)"),
    (0x0015_6013, "prefetch.r 0(a0)"),
    (0x7e3f_e013, "prefetch.w 2016(t6)"),
    (0x0025_6013, "ori zero, a0, 2"),
    (0x0015_6093, "ori ra, a0, 1"),
    (0x800f_851b, "addiw a0, t6, -2048"),
    (0x0000_0013, "addi zero, zero, 0"),
    (0x7ff0_0793, "addi a5, zero, 2047"),
    (0x03f4_9513, "slli a0, s1, 63"),
    (0x03f4_d513, "srli a0, s1, 63"),
    (0x43f4_d513, "srai a0, s1, 63"),
    (0x01f4_951b, "slliw a0, s1, 31"),
    (0x01f4_d51b, "srliw a0, s1, 31"),
    (0x41f4_d51b, "sraiw a0, s1, 31"),
    (0x0125_0fb3, "add t6, a0, s2"),
    (0x4125_0fb3, "sub t6, a0, s2"),
    (0x0125_1fb3, "sll t6, a0, s2"),
    (0x0125_2fb3, "slt t6, a0, s2"),
    (0x0125_3fb3, "sltu t6, a0, s2"),
    (0x0125_4fb3, "xor t6, a0, s2"),
    (0x0125_5fb3, "srl t6, a0, s2"),
    (0x4125_5fb3, "sra t6, a0, s2"),
    (0x0125_6fb3, "or t6, a0, s2"),
    (0x0125_7fb3, "and t6, a0, s2"),
    (0x0325_0fb3, "mul t6, a0, s2"),
    (0x0325_1fb3, "mulh t6, a0, s2"),
    (0x0325_2fb3, "mulhsu t6, a0, s2"),
    (0x0325_3fb3, "mulhu t6, a0, s2"),
    (0x0325_4fb3, "div t6, a0, s2"),
    (0x0325_5fb3, "divu t6, a0, s2"),
    (0x0325_6fb3, "rem t6, a0, s2"),
    (0x0325_7fb3, "remu t6, a0, s2"),
    (0x0125_0fbb, "addw t6, a0, s2"),
    (0x4125_0fbb, "subw t6, a0, s2"),
    (0x0125_1fbb, "sllw t6, a0, s2"),
    (0x0125_5fbb, "srlw t6, a0, s2"),
    (0x4125_5fbb, "sraw t6, a0, s2"),
    (0x0325_0fbb, "mulw t6, a0, s2"),
    (0x0325_4fbb, "divw t6, a0, s2"),
    (0x0325_5fbb, "divuw t6, a0, s2"),
    (0x0325_6fbb, "remw t6, a0, s2"),
    (0x0325_7fbb, "remuw t6, a0, s2"),
    (0x2125_2fb3, "sh1add t6, a0, s2"),
    (0x2125_4fb3, "sh2add t6, a0, s2"),
    (0x2125_6fb3, "sh3add t6, a0, s2"),
    (0x4125_7fb3, "andn t6, a0, s2"),
    (0x4125_6fb3, "orn t6, a0, s2"),
    (0x4125_4fb3, "xnor t6, a0, s2"),
    (0x0b25_4fb3, "min t6, a0, s2"),
    (0x0b25_5fb3, "minu t6, a0, s2"),
    (0x0b25_6fb3, "max t6, a0, s2"),
    (0x0b25_7fb3, "maxu t6, a0, s2"),
    (0x6125_1fb3, "rol t6, a0, s2"),
    (0x6125_5fb3, "ror t6, a0, s2"),
    (0x2925_1fb3, "bset t6, a0, s2"),
    (0x4925_1fb3, "bclr t6, a0, s2"),
    (0x6925_1fb3, "binv t6, a0, s2"),
    (0x4925_5fb3, "bext t6, a0, s2"),
    (0x0925_0fbb, "add.uw t6, a0, s2"),
    (0x2125_2fbb, "sh1add.uw t6, a0, s2"),
    (0x2125_4fbb, "sh2add.uw t6, a0, s2"),
    (0x2125_6fbb, "sh3add.uw t6, a0, s2"),
    (0x6125_1fbb, "rolw t6, a0, s2"),
    (0x6125_5fbb, "rorw t6, a0, s2"),
    (0x0805_4fbb, "zext.h t6, a0"),
    (0x63f4_d513, "rori a0, s1, 63"),
    (0x2bf4_9513, "bseti a0, s1, 63"),
    (0x4bf4_9513, "bclri a0, s1, 63"),
    (0x6bf4_9513, "binvi a0, s1, 63"),
    (0x4bf4_d513, "bexti a0, s1, 63"),
    (0x2804_9513, "bseti a0, s1, 0"),
    (0x4a04_d513, "bexti a0, s1, 32"),
    (0x600f_9513, "clz a0, t6"),
    (0x601f_9513, "ctz a0, t6"),
    (0x602f_9513, "cpop a0, t6"),
    (0x604f_9513, "sext.b a0, t6"),
    (0x605f_9513, "sext.h a0, t6"),
    (0x287f_d513, "orc.b a0, t6"),
    (0x6b8f_d513, "rev8 a0, t6"),
    (0x61f4_d51b, "roriw a0, s1, 31"),
    (0x0bf4_951b, "slli.uw a0, s1, 63"),
    (0x600f_951b, "clzw a0, t6"),
    (0x601f_951b, "ctzw a0, t6"),
    (0x602f_951b, "cpopw a0, t6"),
    (0x00d0_0073, "wrs.nto"),
    (0x01d0_0073, "wrs.sto"),
    (0x0ff0_000f, "fence iorw, iorw"),
    (0x0230_000f, "fence r, rw"),
    (0x0110_000f, "fence w, w"),
    (0x8330_000f, "fence.tso"),
    (0x0000_100f, "fence.i"),
    (0x0000_0073, "ecall"),
    (0x0010_0073, "ebreak"),
    (0x1020_0073, "sret"),
    (0x3020_0073, "mret"),
    (0x12b5_0073, "sfence.vma a0, a1"),
    (0x1200_0073, "sfence.vma zero, zero"),
    (0x1050_0073, "wfi"),
    (0x300f_9573, "csrrw a0, mstatus, t6"),
    (0x300f_a573, "csrrs a0, mstatus, t6"),
    (0x300f_b573, "csrrc a0, mstatus, t6"),
    (0x003f_d573, "csrrwi a0, fcsr, 31"),
    (0x003f_e573, "csrrsi a0, fcsr, 31"),
    (0x003f_f573, "csrrci a0, fcsr, 31"),
    (0xc000_2573, "csrrs a0, cycle, zero"),
    (0x7c05_9073, "csrrw zero, 0x7c0, a1"),
    (0xf140_2473, "csrrs s0, mhartid, zero"),
    (0x1004_a52f, "lr.w a0, (s1)"),
    (0x1404_a52f, "lr.w.aq a0, (s1)"),
    (0x1bf4_a52f, "sc.w.rl a0, t6, (s1)"),
    (0x19f4_a52f, "sc.w a0, t6, (s1)"),
    (0x09f4_a52f, "amoswap.w a0, t6, (s1)"),
    (0x01f4_a52f, "amoadd.w a0, t6, (s1)"),
    (0x21f4_a52f, "amoxor.w a0, t6, (s1)"),
    (0x61f4_a52f, "amoand.w a0, t6, (s1)"),
    (0x41f4_a52f, "amoor.w a0, t6, (s1)"),
    (0x81f4_a52f, "amomin.w a0, t6, (s1)"),
    (0xa1f4_a52f, "amomax.w a0, t6, (s1)"),
    (0xc1f4_a52f, "amominu.w a0, t6, (s1)"),
    (0xe1f4_a52f, "amomaxu.w a0, t6, (s1)"),
    (0x06b6_202f, "amoadd.w.aqrl zero, a1, (a2)"),
    (0x1004_b52f, "lr.d a0, (s1)"),
    (0x1404_b52f, "lr.d.aq a0, (s1)"),
    (0x1bf4_b52f, "sc.d.rl a0, t6, (s1)"),
    (0x19f4_b52f, "sc.d a0, t6, (s1)"),
    (0x09f4_b52f, "amoswap.d a0, t6, (s1)"),
    (0x01f4_b52f, "amoadd.d a0, t6, (s1)"),
    (0x21f4_b52f, "amoxor.d a0, t6, (s1)"),
    (0x61f4_b52f, "amoand.d a0, t6, (s1)"),
    (0x41f4_b52f, "amoor.d a0, t6, (s1)"),
    (0x81f4_b52f, "amomin.d a0, t6, (s1)"),
    (0xa1f4_b52f, "amomax.d a0, t6, (s1)"),
    (0xc1f4_b52f, "amominu.d a0, t6, (s1)"),
    (0xe1f4_b52f, "amomaxu.d a0, t6, (s1)"),
    (0x06b6_302f, "amoadd.d.aqrl zero, a1, (a2)"),
    (0x092f_f543, "fmadd.s fa0, ft11, fs2, ft1"),
    (0x092f_f547, "fmsub.s fa0, ft11, fs2, ft1"),
    (0x092f_f54b, "fnmsub.s fa0, ft11, fs2, ft1"),
    (0x092f_f54f, "fnmadd.s fa0, ft11, fs2, ft1"),
    (0x68c5_9543, "fmadd.s fa0, fa1, fa2, fa3, rtz"),
    (0x012f_f553, "fadd.s fa0, ft11, fs2"),
    (0x092f_f553, "fsub.s fa0, ft11, fs2"),
    (0x112f_f553, "fmul.s fa0, ft11, fs2"),
    (0x192f_f553, "fdiv.s fa0, ft11, fs2"),
    (0x00c5_8553, "fadd.s fa0, fa1, fa2, rne"),
    (0x00c5_9553, "fadd.s fa0, fa1, fa2, rtz"),
    (0x00c5_a553, "fadd.s fa0, fa1, fa2, rdn"),
    (0x00c5_b553, "fadd.s fa0, fa1, fa2, rup"),
    (0x00c5_c553, "fadd.s fa0, fa1, fa2, rmm"),
    (0x580f_f553, "fsqrt.s fa0, ft11"),
    (0x212f_8553, "fsgnj.s fa0, ft11, fs2"),
    (0x212f_9553, "fsgnjn.s fa0, ft11, fs2"),
    (0x212f_a553, "fsgnjx.s fa0, ft11, fs2"),
    (0x292f_8553, "fmin.s fa0, ft11, fs2"),
    (0x292f_9553, "fmax.s fa0, ft11, fs2"),
    (0xa12f_a553, "feq.s a0, ft11, fs2"),
    (0xa12f_9553, "flt.s a0, ft11, fs2"),
    (0xa12f_8553, "fle.s a0, ft11, fs2"),
    (0xe00f_9553, "fclass.s a0, ft11"),
    (0xc00f_f553, "fcvt.w.s a0, ft11"),
    (0xc00f_9553, "fcvt.w.s a0, ft11, rtz"),
    (0xd00f_f553, "fcvt.s.w fa0, t6"),
    (0xc01f_f553, "fcvt.wu.s a0, ft11"),
    (0xc01f_9553, "fcvt.wu.s a0, ft11, rtz"),
    (0xd01f_f553, "fcvt.s.wu fa0, t6"),
    (0xc02f_f553, "fcvt.l.s a0, ft11"),
    (0xc02f_9553, "fcvt.l.s a0, ft11, rtz"),
    (0xd02f_f553, "fcvt.s.l fa0, t6"),
    (0xc03f_f553, "fcvt.lu.s a0, ft11"),
    (0xc03f_9553, "fcvt.lu.s a0, ft11, rtz"),
    (0xd03f_f553, "fcvt.s.lu fa0, t6"),
    (0x0b2f_f543, "fmadd.d fa0, ft11, fs2, ft1"),
    (0x0b2f_f547, "fmsub.d fa0, ft11, fs2, ft1"),
    (0x0b2f_f54b, "fnmsub.d fa0, ft11, fs2, ft1"),
    (0x0b2f_f54f, "fnmadd.d fa0, ft11, fs2, ft1"),
    (0x6ac5_9543, "fmadd.d fa0, fa1, fa2, fa3, rtz"),
    (0x032f_f553, "fadd.d fa0, ft11, fs2"),
    (0x0b2f_f553, "fsub.d fa0, ft11, fs2"),
    (0x132f_f553, "fmul.d fa0, ft11, fs2"),
    (0x1b2f_f553, "fdiv.d fa0, ft11, fs2"),
    (0x02c5_8553, "fadd.d fa0, fa1, fa2, rne"),
    (0x02c5_9553, "fadd.d fa0, fa1, fa2, rtz"),
    (0x02c5_a553, "fadd.d fa0, fa1, fa2, rdn"),
    (0x02c5_b553, "fadd.d fa0, fa1, fa2, rup"),
    (0x02c5_c553, "fadd.d fa0, fa1, fa2, rmm"),
    (0x5a0f_f553, "fsqrt.d fa0, ft11"),
    (0x232f_8553, "fsgnj.d fa0, ft11, fs2"),
    (0x232f_9553, "fsgnjn.d fa0, ft11, fs2"),
    (0x232f_a553, "fsgnjx.d fa0, ft11, fs2"),
    (0x2b2f_8553, "fmin.d fa0, ft11, fs2"),
    (0x2b2f_9553, "fmax.d fa0, ft11, fs2"),
    (0xa32f_a553, "feq.d a0, ft11, fs2"),
    (0xa32f_9553, "flt.d a0, ft11, fs2"),
    (0xa32f_8553, "fle.d a0, ft11, fs2"),
    (0xe20f_9553, "fclass.d a0, ft11"),
    (0xc20f_f553, "fcvt.w.d a0, ft11"),
    (0xc20f_9553, "fcvt.w.d a0, ft11, rtz"),
    (0xd20f_8553, "fcvt.d.w fa0, t6"),
    (0xc21f_f553, "fcvt.wu.d a0, ft11"),
    (0xc21f_9553, "fcvt.wu.d a0, ft11, rtz"),
    (0xd21f_8553, "fcvt.d.wu fa0, t6"),
    (0xc22f_f553, "fcvt.l.d a0, ft11"),
    (0xc22f_9553, "fcvt.l.d a0, ft11, rtz"),
    (0xd22f_f553, "fcvt.d.l fa0, t6"),
    (0xc23f_f553, "fcvt.lu.d a0, ft11"),
    (0xc23f_9553, "fcvt.lu.d a0, ft11, rtz"),
    (0xd23f_f553, "fcvt.d.lu fa0, t6"),
    (0x401f_f553, "fcvt.s.d fa0, ft11"),
    (0x420f_8553, "fcvt.d.s fa0, ft11"),
    (0xe00f_8553, "fmv.x.w a0, ft11"),
    (0xe20f_8553, "fmv.x.d a0, ft11"),
    (0xf00f_8553, "fmv.w.x fa0, t6"),
    (0xf20f_8553, "fmv.d.x fa0, t6"),
];

/// The encoding, the compressed instruction, and its expansion.
#[rustfmt::skip]
const COMPRESSED: &[(u16, &str, &str)] = &[
    (0x1fe8, "c.addi4spn a0, sp, 1020", "addi a0, sp, 1020"),
    (0x0040, "c.addi4spn s0, sp, 4", "addi s0, sp, 4"),
    (0x3ce8, "c.fld fa0, 248(s1)", "fld fa0, 248(s1)"),
    (0x5ce8, "c.lw a0, 124(s1)", "lw a0, 124(s1)"),
    (0x415c, "c.lw a5, 4(a0)", "lw a5, 4(a0)"),
    (0x7ce8, "c.ld a0, 248(s1)", "ld a0, 248(s1)"),
    (0x60a8, "c.ld a0, 64(s1)", "ld a0, 64(s1)"),
    (0xa784, "c.fsd fs1, 8(a5)", "fsd fs1, 8(a5)"),
    (0xc2b8, "c.sw a4, 64(a3)", "sw a4, 64(a3)"),
    (0xfdd0, "c.sd a2, 184(a1)", "sd a2, 184(a1)"),
    (0x0001, "c.nop", "addi zero, zero, 0"),
    (0x1f81, "c.addi t6, -32", "addi t6, t6, -32"),
    (0x257d, "c.addiw a0, 31", "addiw a0, a0, 31"),
    (0x2081, "c.addiw ra, 0", "addiw ra, ra, 0"),
    (0x557d, "c.li a0, -1", "addi a0, zero, -1"),
    (0x7101, "c.addi16sp sp, -512", "addi sp, sp, -512"),
    (0x617d, "c.addi16sp sp, 496", "addi sp, sp, 496"),
    (0x6141, "c.addi16sp sp, 16", "addi sp, sp, 16"),
    (0x7501, "c.lui a0, 0xfffe0", "lui a0, 0xfffe0"),
    (0x6ffd, "c.lui t6, 31", "lui t6, 0x1f"),
    (0x917d, "c.srli a0, 63", "srli a0, a0, 63"),
    (0x8785, "c.srai a5, 1", "srai a5, a5, 1"),
    (0x9801, "c.andi s0, -32", "andi s0, s0, -32"),
    (0x8d0d, "c.sub a0, a1", "sub a0, a0, a1"),
    (0x8c3d, "c.xor s0, a5", "xor s0, s0, a5"),
    (0x8d4d, "c.or a0, a1", "or a0, a0, a1"),
    (0x8d6d, "c.and a0, a1", "and a0, a0, a1"),
    (0x9d0d, "c.subw a0, a1", "subw a0, a0, a1"),
    (0x9d2d, "c.addw a0, a1", "addw a0, a0, a1"),
    (0xb001, "c.j . - 2048", "jal zero, 0x800ff800"),
    (0xaffd, "c.j . + 2046", "jal zero, 0x801007fe"),
    (0xab91, "c.j . + 0x554", "jal zero, 0x80100554"),
    (0xd101, "c.beqz a0, . - 256", "beq a0, zero, 0x800fff00"),
    (0xecfd, "c.bnez s1, . + 254", "bne s1, zero, 0x801000fe"),
    (0xe8b1, "c.bnez s1, . + 0x54", "bne s1, zero, 0x80100054"),
    (0x1ffe, "c.slli t6, 63", "slli t6, t6, 63"),
    (0x3ffe, "c.fldsp ft11, 504(sp)", "fld ft11, 504(sp)"),
    (0x557e, "c.lwsp a0, 252(sp)", "lw a0, 252(sp)"),
    (0x4086, "c.lwsp ra, 64(sp)", "lw ra, 64(sp)"),
    (0x757e, "c.ldsp a0, 504(sp)", "ld a0, 504(sp)"),
    (0x60a2, "c.ldsp ra, 8(sp)", "ld ra, 8(sp)"),
    (0x8082, "c.jr ra", "jalr zero, 0(ra)"),
    (0x857e, "c.mv a0, t6", "add a0, zero, t6"),
    (0x9002, "c.ebreak", "ebreak"),
    (0x9782, "c.jalr a5", "jalr ra, 0(a5)"),
    (0x957e, "c.add a0, t6", "add a0, a0, t6"),
    (0xbfa2, "c.fsdsp fs0, 504(sp)", "fsd fs0, 504(sp)"),
    (0xdfaa, "c.swsp a0, 252(sp)", "sw a0, 252(sp)"),
    (0xe46e, "c.sdsp s11, 8(sp)", "sd s11, 8(sp)"),
    (0xe2ee, "c.sdsp s11, 320(sp)", "sd s11, 320(sp)"),
];

#[test]
fn base_encodings() {
    for &(bits, text) in BASE {
        let instruction = decode(bits);
        assert_eq!(disassemble(&instruction, PC), text, "{bits:#010x}");
        assert_eq!((instruction.length, instruction.bits), (4, bits), "{text}");
    }
}

#[test]
fn every_operation_is_tested() {
    let tested: BTreeSet<_> = BASE
        .iter()
        .map(|&(bits, _)| decode(bits).operation)
        .collect();
    let missing: Vec<_> = Operation::all()
        .filter(|operation| !tested.contains(operation))
        .collect();
    assert_eq!(missing, [Operation::Custom, Operation::Illegal]);
}

#[test]
fn compressed_encodings() {
    for &(half, compressed, text) in COMPRESSED {
        // The following bytes in memory must not matter.
        let instruction = decode(0xdead_0000 | u32::from(half));
        assert_eq!(disassemble(&instruction, PC), text, "{compressed}");
        assert_eq!(
            (instruction.length, instruction.bits),
            (2, half.into()),
            "{compressed}"
        );
    }
}

#[test]
fn every_compressed_instruction_is_tested() {
    let tested: BTreeSet<_> = COMPRESSED
        .iter()
        .map(|(_, name, _)| name.split(' ').next().unwrap())
        .collect();
    assert_eq!(tested.len(), 37);
}

#[test]
fn reserved_compressed_encodings_are_illegal() {
    let reserved = [
        (0x0000, "all zeros"),
        (0x0008, "c.addi4spn of 0"),
        (0x2001, "c.addiw to x0"),
        (0x6101, "c.addi16sp of 0"),
        (0x6501, "c.lui of 0"),
        (0x8000, "quadrant 0, funct3 4"),
        (0x9c41, "c.subw's row, funct2 2"),
        (0x9c61, "c.subw's row, funct2 3"),
        (0x4002, "c.lwsp to x0"),
        (0x6002, "c.ldsp to x0"),
        (0x8002, "c.jr to x0"),
    ];
    for (half, what) in reserved {
        assert_eq!(decode(half), Instruction::illegal(half, 2), "{what}");
    }
}

#[test]
fn illegal_encodings() {
    let illegal = [
        (0xffff_ffff, "all ones"),
        (0x0000_707f, "opcode for longer instructions"),
        (0x0000_7003, "load of funct3 7"),
        (0x0000_3067, "jalr of funct3 3"),
        (0x0200_101b, "slliw by 32"),
        (0x4000_1013, "slli of funct6 16"),
        (0x1020_00f3, "sret with a destination"),
        (0x1200_00f3, "sfence.vma with a destination"),
        (0x3020_00f3, "mret with a destination"),
        (0x0000_4073, "csr of funct3 4"),
        (0x1015_252f, "lr.w with rs2"),
        (0x1005_052f, "lr of a byte"),
        (0x00c5_d553, "fadd.s, rounding mode 5"),
        (0x00c5_e553, "fadd.s, rounding mode 6"),
        (0x04c5_8553, "format that does not exist: half"),
        (0x5811_f553, "fsqrt.s with rs2"),
        (0x603f_9513, "between cpop and sext.b"),
        (0x606f_9513, "behind sext.h"),
        (0x603f_951b, "behind cpopw"),
        (0x604f_951b, "sext.b of a word"),
        (0x286f_d513, "before orc.b"),
        (0x288f_d513, "behind orc.b"),
        (0x698f_d513, "rev8 of RV32"),
        (0x6b9f_d513, "behind rev8"),
        (0x0805_4fb3, "zext.h of RV32"),
        (0x0925_4fbb, "packw: zext.h with rs2 (Zbkb)"),
        (0x0925_4fb3, "pack (Zbkb)"),
        (0x0b25_1fb3, "clmul (Zbc)"),
        (0x2925_2fb3, "xperm4 (Zbkx)"),
        (0x2125_1fb3, "sh1add of funct3 1"),
        (0x4125_4fbb, "xnor of words"),
        (0x0b25_4fbb, "min of words"),
        (0x2925_1fbb, "bset of words"),
        (0x2814_951b, "bseti of a word"),
        (0x63f4_d51b, "roriw by 63"),
        (0x0ff4_951b, "slli.uw of funct6 3"),
        (0x63f4_9513, "rori of funct3 1"),
        (0x2bf4_d513, "bseti of funct3 5"),
        (0x6bf4_d513, "binvi of funct3 5"),
        (0x00d0_00f3, "wrs.nto with a destination"),
        (0x00d0_8073, "wrs.nto with rs1"),
        (0x01d0_00f3, "wrs.sto with a destination"),
        (0x00c0_0073, "before wrs.nto"),
        (0x00e0_0073, "behind wrs.nto"),
        (0x02d0_0073, "funct12 0x02d"),
    ];
    for (bits, what) in illegal {
        assert_eq!(decode(bits), Instruction::illegal(bits, 4), "{what}");
    }
}

/// The number of legal `(funct3, funct7, rs2)`, in the opcodes that bit manipulation extends, is
/// the number that the manual lists: no other encoding has become legal, and no pattern hides
/// another.
#[test]
fn no_other_encodings_have_become_legal() {
    let legal = |opcode: u32| -> usize {
        (0..1 << 15)
            .filter(|fields| {
                let (funct3, rest) = (fields & 7, fields >> 3);
                let bits = opcode | 10 << 7 | funct3 << 12 | 11 << 15 | rest << 20;
                decode(bits).operation != Operation::Illegal
            })
            .count()
    };
    // addi and its kin; shifts, rotations and single bits by an amount of 6 bits; unary ones.
    assert_eq!(legal(0x13), 6 * 4096 + 8 * 64 + 7, "OP-IMM");
    // addiw; amounts of 5 bits; slli.uw; unary ones.
    assert_eq!(legal(0x1b), 4096 + 4 * 32 + 64 + 3, "OP-IMM-32");
    // "I", "M", Zba, Zbb, Zbs.
    assert_eq!(legal(0x33), (10 + 8 + 3 + 9 + 4) * 32, "OP");
    // zext.h is one of 32.
    assert_eq!(legal(0x3b), (5 + 5 + 4 + 2) * 32 + 1, "OP-32");
}

#[test]
fn operands() {
    let of = |bits| {
        let i = decode(bits);
        (i.rd, i.rs1, i.rs2, i.rs3, i.immediate, i.rounding)
    };
    assert_eq!(of(0x00b6_0533), (10, 12, 11, 0, 0, 0)); // add a0, a2, a1
    assert_eq!(of(0x00b6_0033), (SINK, 12, 11, 0, 0, 0)); // add zero, a2, a1
    assert_eq!(of(0x8001_2503), (10, 2, 0, 0, -2048, 0)); // lw a0, -2048(sp)
    assert_eq!(of(0x00b1_2027), (SINK, 2, 32 + 11, 0, 0, 0)); // fsw fa1, 0(sp)
    assert_eq!(of(0x6ac5_f543), (32 + 10, 32 + 11, 32 + 12, 32 + 13, 0, 7)); // fmadd.d
    assert_eq!(of(0xffff_f537), (10, 0, 0, 0, -4096, 0)); // lui a0, 0xfffff
    assert_eq!(of(0x3000_d073), (SINK, 0, 0, 0, 0x1300, 0)); // csrrwi zero, mstatus, 1
    let i = decode(0x3000_d073);
    assert_eq!((i.csr_number(), i.csr_immediate()), (0x300, 1));
}

#[test]
fn custom_instructions_keep_their_fields() {
    for opcode in [0x0b, 0x2b, 0x5b, 0x7b] {
        let i = decode(0x0ac5_f500 | opcode);
        assert_eq!((i.operation, i.class), (Operation::Custom, Class::Custom));
        assert_eq!(
            (i.rd, i.rs1, i.rs2, i.funct3(), i.funct7()),
            (10, 11, 12, 7, 5)
        );
        assert_eq!(i.bits, 0x0ac5_f500 | opcode);
    }
}

#[test]
fn ordering_bits_belong_to_atomics_alone() {
    let lr = decode(0x1404_a52f); // lr.w.aq a0, (s1)
    assert_eq!((lr.acquire(), lr.release()), (true, false));
    let amo = decode(0x06b6_202f); // amoadd.w.aqrl zero, a1, (a2)
    assert_eq!((amo.acquire(), amo.release(), amo.rd), (true, true, SINK));
    let addi = decode(0xfff0_0513);
    assert_eq!((addi.acquire(), addi.release()), (false, false));
}

/// Decoding, naming and executing arbitrary bits never panics, and decoded instructions name
/// existing registers.
#[test]
fn any_bits_will_do() {
    let mut bits = 0_u32;
    for _ in 0..2_000_000 {
        bits = bits.wrapping_mul(0x915f_77f5).wrapping_add(0x1234_5677);
        let i = decode(bits);
        assert!(
            i.rd != 0 && i.rd <= SINK && i.rs1.max(i.rs2).max(i.rs3) < SINK,
            "{i:?}"
        );
        assert!(!disassemble(&i, u64::MAX).is_empty());
        let mut flags = 0;
        let wide = u64::from(bits) << 32 | u64::from(!bits);
        for mode in 0..8 {
            riscv::evaluate(
                &i,
                u64::MAX,
                wide,
                !wide,
                wide.rotate_left(9),
                mode,
                &mut flags,
            );
        }
        i.atomic_result(wide, !wide);
        i.load_value(wide);
        i.store_value(wide);
        i.jump_target(u64::MAX, wide);
    }
}
