# Where every hart begins: machine mode, a0 = its number, a1 = how many harts there are, a2 = how many
# cores they are on: harts from a2 on are second hardware threads, in the order of the cores, then come
# the third ones. Memory is zero at the start, so nothing needs clearing. mtvec stays 0: a trap is a crash, and the simulator
# reports it.

#include <memory_map.h>

    .section .text.start, "ax"
    .globl _start
    .type _start, @function
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop

    # The floating-point unit: mstatus.FS = 1 (initial), rounding to nearest.
    li t0, 1 << 13
    csrs mstatus, t0
    csrw fcsr, zero

    # Hart k's stack ends STACK_STRIDE * k above __first_stack; what lies below it is not mapped.
    la sp, __first_stack
    li t0, STACK_STRIDE
    mul t0, t0, a0
    add sp, sp, t0

    bnez a0, park
    la t0, harts
    sd a1, 0(t0)
    la t0, server_cores
    sd a2, 0(t0)
    call prepare
    li a0, 0 # argc
    la a1, no_arguments
    call main
    tail exit

    # The other harts halt until harts_release() sets its flag and raises their software
    # interrupt. It only ends the halt: interrupts stay disabled in mstatus.
park:
    mv s0, a0
    csrsi mie, 8 # MSIE
    la s1, harts_released
1:  wfi
    lw t0, 0(s1)
    beqz t0, 1b
    fence r, rw
    li t0, CLINT_MSIP # That of hart k is at 4 * k.
    slli t1, s0, 2
    add t0, t0, t1
    sw zero, 0(t0)
    csrci mie, 8
    mv a0, s0
    call hart_main
    # A hart whose hart_main returns is free for a co-runner, if there is one.
    mv a0, s0
    call hart_beside
2:  wfi
    j 2b
    .size _start, . - _start

    .section .rodata
    .balign 8
no_arguments:
    .dword 0

# What guest.ld and _start take from the memory map. It stands behind _start: of a number that is
# known an assembler would make another instruction than `la`.
    .globl __main_memory
    .set __main_memory, MAIN_MEMORY_START
    .globl __first_stack
    .set __first_stack, FIRST_STACK
