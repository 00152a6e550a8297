/* As conformance.S, with virtual memory: supervisor mode owns all page tables and maps a page of
   user mode at its first access, with only the permissions that this access needs. User mode counts
   the page faults in s10 and calls the environment, and supervisor mode writes to `tohost`: 1 if
   all tests pass, 2 n + 1 if test n has failed. -DFAIL=n makes test n fail, and -DTRAP adds an
   access that is never mapped. */

#define TEST gp /* the number of the current test */
#define PAGES 8 /* pages of user mode, from 0 on */
#define PAGE(number) number << 12

/* One test: `code` must leave `right` in a0. */
#define CHECK(number, right, code...) \
    li TEST, number;                  \
    code;                             \
    .ifc number, FAIL;                \
    addi a0, a0, 1;                   \
    .endif;                           \
    li t0, right;                     \
    bne a0, t0, fail

#ifndef FAIL
#define FAIL none
#endif

/* Bits of a page-table entry, and the position of its page number. */
#define VALID 0x01
#define READ 0x02
#define WRITE 0x04
#define EXECUTE 0x08
#define USER 0x10
#define ACCESSED 0x40
#define DIRTY 0x80
#define TO_ENTRY 2 /* right, of an address */

    .section .text.init
    .globl _start
    .align 6
_start:
    csrr a0, mhartid
1:  bnez a0, 1b /* one hart only */
    la t0, unexpected
    csrw mtvec, t0

    /* Supervisor mode's gigabyte is at its physical address. */
    la t0, root
    li t1, 0x80000000 >> TO_ENTRY | VALID | READ | WRITE | EXECUTE | ACCESSED | DIRTY
    sd t1, 16(t0)
    la t1, middle
    srli t1, t1, TO_ENTRY
    ori t1, t1, VALID
    sd t1, 0(t0)
    la t2, middle
    la t1, leaf
    srli t1, t1, TO_ENTRY
    ori t1, t1, VALID
    sd t1, 0(t2)
    srli t0, t0, 12
    li t1, 8 << 60 /* Sv39 */
    or t0, t0, t1
    csrw satp, t0
    sfence.vma

    /* Calls of user mode and page faults are supervisor mode's. */
    li t0, 1 << 8 | 1 << 12 | 1 << 13 | 1 << 15
    csrw medeleg, t0
    la t0, trap
    csrw stvec, t0
    li t0, 3 << 11 /* mstatus.MPP: supervisor mode */
    csrc mstatus, t0
    li t0, 1 << 11
    csrs mstatus, t0
    la t0, supervisor
    csrw mepc, t0
    mret

supervisor:
    li s10, 0
    li t0, 1 << 8 /* sstatus.SPP: user mode */
    csrc sstatus, t0
    li t0, PAGE(1)
    csrw sepc, t0
    sret

    .align 2
trap:
    csrr t3, scause
    li t4, 8
    beq t3, t4, tell_host
    csrr t4, stval
    srli t5, t4, 12
    li t6, PAGES
    bgeu t5, t6, unexpected
    /* Its frame, its entry, and what the access needs. */
    slli t6, t5, 12
    la a7, frames
    add t6, t6, a7
    srli t6, t6, TO_ENTRY
    ori t6, t6, VALID | READ | USER | ACCESSED
    addi t3, t3, -13
    beqz t3, put
    bltz t3, fetched
    ori t6, t6, WRITE | DIRTY
    j put
fetched:
    ori t6, t6, EXECUTE
put:
    slli t5, t5, 3
    la a7, leaf
    add t5, t5, a7
    sd t6, 0(t5)
    sfence.vma t4
    addi s10, s10, 1
    sret

    .align 2
unexpected:
    li TEST, 1337
tell_host:
    la t0, tohost
1:  sd TEST, 0(t0)
    j 1b

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

    .text
    .balign 4096
frames:
    .skip 4096

/* Page 1. */
user:
#ifdef TRAP
    li a1, PAGE(PAGES)
    lb a0, 0(a1)
#endif
    CHECK(2, 1, mv a0, s10) /* the fetch of this page */
    CHECK(3, 0x1234, li a1, PAGE(2); lh a0, 0(a1))
    CHECK(4, 2, lh a0, 0(a1); mv a0, s10) /* the second load has none */
    CHECK(5, 7, li a0, 7; sd a0, 8(a1); ld a0, 8(a1)) /* it may only be read until then */
    CHECK(6, 3, mv a0, s10)
    CHECK(7, 0x55667788, li a1, PAGE(4); ld a0, -4(a1); srli a0, a0, 32) /* in two pages */
    CHECK(8, 5, mv a0, s10)
    CHECK(9, 40, li a1, PAGE(5); li a0, 2; amoadd.d a0, a0, (a1))
    CHECK(10, 42, ld a0, 0(a1))
    CHECK(11, 6, mv a0, s10)
    CHECK(12, 6, li a1, PAGE(6); jalr a1) /* to a page that returns at once: one more */
    li TEST, 1
    ecall
fail:
    slli TEST, TEST, 1
    ori TEST, TEST, 1
    ecall

    .balign 4096
    .half 0x1234 /* page 2 */
    .balign 4096
    .skip 4092 /* page 3 */
    .word 0x11223344
    .word 0x55667788 /* page 4 */
    .balign 4096
    .dword 40 /* page 5 */
    .balign 4096
    mv a0, s10 /* page 6 */
    addi a0, a0, -1
    ret
    .balign 4096
    .skip 4096 /* page 7 */

    .bss
    .balign 4096
root:
    .skip 4096
middle:
    .skip 4096
leaf:
    .skip 4096
