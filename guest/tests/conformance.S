/* Boots like the programs that test a RISC-V implementation: in machine mode, by writing registers
   that may not exist; then it enters user mode, runs the tests, and calls the environment, whose
   trap handler writes to `tohost`: 1 if all tests pass, 2 n + 1 if test n has failed. There is no
   runtime and no stack. -DFAIL=n makes test n fail, and -DTRAP raises an unexpected exception. */

#define TEST gp /* the number of the current test */

/* One test: `code` must leave `right` in a0. */
#define CHECK(number, right, code...) \
    li TEST, number;                  \
    code;                             \
    .ifc number, FAIL;                \
    addi a0, a0, 1;                   \
    .endif;                           \
    li t6, right;                     \
    bne a0, t6, fail

#ifndef FAIL
#define FAIL none
#endif

/* Accesses a register that may not exist: the trap handler skips the access. */
.macro may_be_missing access:vararg
    la t0, 1f
    csrw mtvec, t0
    \access
    .align 2
1:
.endm

    .section .text.init
    .globl _start
    .align 6
_start:
    j boot

    .align 2
trap:
    csrr t5, mcause
    li t6, 8 /* environment call from user mode */
    beq t5, t6, tell_host
    li t6, 11 /* from machine mode */
    beq t5, t6, tell_host
    ori TEST, TEST, 1337 /* any other cause is an error */
tell_host:
    la t5, tohost
1:  sw TEST, 0(t5)
    sw zero, 4(t5)
    j 1b

boot:
    .irp register, ra, sp, gp, tp, t0, t1, t2, s0, s1, a0, a1, a2, a3, a4, a5, a6, a7
    li \register, 0
    .endr
    csrr a0, mhartid
1:  bnez a0, 1b /* one hart only */
    may_be_missing csrwi 0x744, 8 /* mnstatus: non-maskable interrupts can be taken */
    may_be_missing csrwi 0x180, 0 /* satp: no translation */
    li t1, (1 << 53) - 1
    li t2, 0x1f
    may_be_missing csrw 0x3b0, t1 /* pmpaddr0 and pmpcfg0: all accesses are permitted */
    may_be_missing csrw 0x3a0, t2
    csrwi mie, 0
    may_be_missing csrwi 0x302, 0 /* medeleg and mideleg: no trap is delegated */
    may_be_missing csrwi 0x303, 0
    may_be_missing csrw 0x105, zero /* stvec */
    li TEST, 0
    la t0, trap
    csrw mtvec, t0
    csrwi mstatus, 0
    li a0, 3 << 13 & 3 << 13 >> 1 /* mstatus.FS: initial */
    csrs mstatus, a0
    csrwi fcsr, 0
    la t0, user
    csrw mepc, t0
    csrr a0, mhartid
    mret

    .text
user:
#ifdef TRAP
    csrr a0, mscratch /* not in user mode */
#endif
    CHECK(2, 0xffffffff80000000, li a0, 0x7fffffff; addiw a0, a0, 1)
    CHECK(3, -2, li a0, -7; li a1, 3; div a0, a0, a1)
    CHECK(4, -1, li a0, 5; div a0, a0, zero)
    CHECK(5, 0xfffffffffffffffe, li a0, -1; li a1, -1; mulhu a0, a0, a1)
    CHECK(6, 0x0807060504030201, la a1, bytes; ld a0, 1(a1))
    CHECK(7, 40, la a1, word; li a0, 2; amoadd.d a0, a0, (a1))
    CHECK(8, 0, la a1, word; lr.d a0, (a1); li a2, 7; sc.d a0, a2, (a1))
    CHECK(9, 7, la a1, word; ld a0, 0(a1))
    CHECK(10, 0x4002000000000000, li a0, 9; fcvt.d.l fa0, a0; fsqrt.d fa0, fa0; \
        li a0, 3; fcvt.d.l fa1, a0; fdiv.d fa1, fa0, fa1; fadd.d fa0, fa1, fa1; \
        li a0, 4; fcvt.d.l fa1, a0; fdiv.d fa1, fa0, fa1; fadd.d fa0, fa1, fa0; \
        fsub.d fa0, fa0, fa1; fdiv.d fa1, fa1, fa0; fadd.d fa0, fa0, fa1; fmv.x.d a0, fa0)
    CHECK(11, 1, frflags a0; li a1, 1; fcvt.d.l fa0, a1; li a1, 3; fcvt.d.l fa1, a1; \
        fdiv.d fa0, fa0, fa1; frflags a0)
    CHECK(12, 12, li a0, 5; c.addi a0, 7)
    CHECK(13, 3, li a0, 0; li a1, 3; 1: addi a0, a0, 1; addi a1, a1, -1; bnez a1, 1b)

    fence
    li TEST, 1
    li a7, 93
    li a0, 0
    ecall

fail:
    fence
    slli TEST, TEST, 1
    ori TEST, TEST, 1
    li a7, 93
    mv a0, TEST
    ecall
    unimp

    .data
    .align 3
bytes:
    .byte 0, 1, 2, 3, 4, 5, 6, 7, 8
    .align 3
word:
    .dword 40

    .section .tohost, "aw", @progbits
    .align 6
    .globl tohost
tohost:
    .dword 0
    .size tohost, 8
    .align 6
    .globl fromhost
fromhost:
    .dword 0
    .size fromhost, 8
