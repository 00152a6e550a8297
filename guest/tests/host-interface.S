/* A program with its own start-up code, like riscv-tests and riscv-pk: `tohost` and `fromhost` are
   words between its instructions. It requests the arguments of main() from the host, writes the
   second one, and exits with their number. */

    .section .text.init
    .globl _start
_start:
    csrr t0, mhartid
2:  bnez t0, 2b
    j start

    .align 6
    .globl tohost
tohost:
    .dword 0
    .globl fromhost
fromhost:
    .dword 0
/* In the cache line of both words. a0 to a3: the number of a call, and its arguments. */
host_call:
    la t0, call
    sd a0, 0(t0)
    sd a1, 8(t0)
    sd a2, 16(t0)
    sd a3, 24(t0)
    fence
    la t1, tohost
    sd t0, 0(t1)
1:  ld t2, 8(t1)
    beqz t2, 1b
    sd zero, 8(t1)
    fence
    ld a0, 0(t0)
    ret

start:
    li a0, 2011 /* getmainvars */
    la a1, variables
    li a2, 0 /* no space */
    call host_call
    li t0, -12
    bne a0, t0, fail
    li a0, 2011
    la a1, variables
    li a2, 256
    call host_call
    bnez a0, fail

    la s0, variables
    ld s1, 0(s0) /* argc */
    ld a2, 16(s0) /* argv[1] */
    mv a3, zero
1:  add t1, a2, a3
    lbu t1, 0(t1)
    beqz t1, 2f
    addi a3, a3, 1
    j 1b
2:  li a0, 64 /* write */
    li a1, 1
    call host_call
    j exit
fail:
    li s1, -1
exit:
    slli s1, s1, 1
    ori s1, s1, 1
    la t1, tohost
1:  sd s1, 0(t1)
    j 1b

    .data
    .align 3
/* Neither begins a line. */
    .dword 0
call:
    .fill 8, 8
variables:
    .fill 32, 8
