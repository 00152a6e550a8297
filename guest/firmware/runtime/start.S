# Where every core of a programmable network interface begins: its stack is at the end of the
# scratchpad, which is zero where firmware is not. There is no other hardware to set up.

#include <interface_map.h>

    .section .text.start, "ax"
    .globl _start
    .type _start, @function
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    li t0, INTERFACE_STACK
    ld sp, 0(t0)
    li t0, INTERFACE_CORE
    ld a0, 0(t0)
    call firmware
    # It must not return: this loops without end, and is reported so.
1:  j 1b
    .size _start, . - _start

# What firmware.ld takes from the map. It stands behind _start: of a number that is known an
# assembler would make another instruction than `la`.
    .globl __scratchpad
    .set __scratchpad, INTERFACE_SCRATCHPAD_START
