/**
 * User-level interrupts: a program is interrupted without its kernel.
 *
 * The programming interface of Intel's user interrupts (Software Developer's Manual, Volume 3,
 * chapter "User Interrupts") and of xUI (Aydogmus et al., "Extended User Interrupts (xUI): Fast and
 * Flexible Notification without Polling", ASPLOS 2025), with RISC-V's CSRs instead of a stack
 * frame.
 *
 * A receiving hart has a *descriptor* in memory. A sender sets the vector's bit in it, and notifies
 * the hart if no other sender has. The hart fetches the vectors, leaves its program for its handler
 * with the highest of them, and returns with user_interrupt_return(). While it is in the handler,
 * no other interrupt is delivered. Senders find descriptors through a *table of targets*.
 *
 *     user_interrupt_receive(&descriptor, hart, handler);
 *     user_interrupt_on();
 *
 * A program may restrict interrupts to certain places: user_interrupt_at_safepoints(1), and
 * user_interrupt_safepoint() in each of them.
 *
 * Encoding: opcode custom-1 (0x2B), type R, funct3 = 0, funct7 = the operation; a safepoint is a
 * hint. CSRs: 0x800 to 0x809. A core without user interrupts takes an illegal instruction
 * exception, except for safepoints, which have no effect there.
 */
#ifndef USER_INTERRUPT_H
#define USER_INTERRUPT_H

#include <stdint.h>

#define CSR_UI_HANDLER 0x800      /* the handler's address; 0: nothing is delivered */
#define CSR_UI_PC 0x801           /* where the program continues after the handler */
#define CSR_UI_VECTOR 0x802       /* the delivered vector */
#define CSR_UI_SCRATCH 0x803      /* a word for the handler */
#define CSR_UI_DESCRIPTOR 0x804   /* the address of the hart's descriptor; 0: none */
#define CSR_UI_NOTIFICATION 0x805 /* the vector of the hart's notification */
#define CSR_UI_TARGETS 0x806      /* the address of the table of targets */
#define CSR_UI_TARGET_COUNT 0x807 /* the number of its entries */
#define CSR_UI_REQUESTS 0x808     /* fetched and undelivered vectors, a bit for each */
#define CSR_UI_SAFEPOINTS 0x809   /* 1: interrupts are delivered only at safepoints */

/** A receiver's descriptor (Intel: UPID). Other harts and the interrupt controller change it
 * atomically. */
struct user_interrupt_descriptor {
  uint64_t control;  /**< Bits 63:32 the hart, 23:16 its notification vector; and enum below. */
  uint64_t requests; /**< The posted vectors, a bit for each of 64. */
} __attribute__((aligned(64)));

enum user_interrupt_control {
  USER_INTERRUPT_OUTSTANDING = 1, /**< The hart has been notified. */
  USER_INTERRUPT_SUPPRESSED = 2,  /**< The hart is not notified; vectors are posted. */
};

/** An entry of the table of targets (Intel: UITT). */
struct user_interrupt_target {
  uint64_t control; /**< 1 if it is valid, and the vector in bits 15:8. */
  struct user_interrupt_descriptor *descriptor;
} __attribute__((aligned(16)));

#define USER_INTERRUPT_INSTRUCTION(funct7, rd, rs1, rs2)                                           \
  ".insn r 0x2B, 0, " #funct7 ", " rd ", " rs1 ", " rs2

#define user_interrupt_read_csr(number)                                                            \
  ({                                                                                               \
    uint64_t value_;                                                                               \
    __asm__ volatile("csrr %0, %1" : "=r"(value_) : "i"(number));                                  \
    value_;                                                                                        \
  })

#define user_interrupt_write_csr(number, value)                                                    \
  __asm__ volatile("csrw %0, %1" : : "i"(number), "rK"((uint64_t)(value)) : "memory")

/** The last instruction of a handler, `uiret`; in assembly language, because it returns. */
#define USER_INTERRUPT_RETURN USER_INTERRUPT_INSTRUCTION(0, "x0", "x0", "x0")

/** senduipi: posts the vector of an entry of the table, and notifies its hart if necessary. A full
 * barrier: the receiver sees all earlier writes. */
static inline void user_interrupt_send(uint64_t target) {
  __asm__ volatile(USER_INTERRUPT_INSTRUCTION(1, "x0", "%0", "x0")::"r"(target) : "memory");
}

/** clui: blocks delivery. Interrupts stay pending, and end a WFI. */
static inline void user_interrupt_off(void) {
  __asm__ volatile(USER_INTERRUPT_INSTRUCTION(2, "x0", "x0", "x0")::: "memory");
}

/** stui: allows delivery; pending interrupts are delivered before the next instruction. */
static inline void user_interrupt_on(void) {
  __asm__ volatile(USER_INTERRUPT_INSTRUCTION(3, "x0", "x0", "x0")::: "memory");
}

/** testui: whether interrupts are delivered. */
static inline int user_interrupt_is_on(void) {
  uint64_t is_on;
  __asm__ volatile(USER_INTERRUPT_INSTRUCTION(4, "%0", "x0", "x0") : "=r"(is_on)::"memory");
  return is_on != 0;
}

/** Interrupts this hart with a vector after this number of cycles, and repeatedly if it is
 * periodic; 0 cycles stop the timer (xUI's set_timer and clear_timer). */
static inline void user_interrupt_set_timer(uint64_t cycles, uint64_t vector, int periodic) {
  __asm__ volatile(USER_INTERRUPT_INSTRUCTION(5, "x0", "%0", "%1")::"r"(cycles),
                   "r"(vector | (periodic ? 256 : 0))
                   : "memory");
}

/** Restricts delivery to safepoints, or allows it anywhere again. Returns whether it is restricted:
 * a hart whose deliveries flush has no safepoints. */
static inline int user_interrupt_at_safepoints(int alone) {
  user_interrupt_write_csr(CSR_UI_SAFEPOINTS, alone != 0);
  return user_interrupt_read_csr(CSR_UI_SAFEPOINTS) == (uint64_t)(alone != 0);
}

/** A safepoint (xUI): `slti x0, x0, 1`, a hint that costs as much as a no-op. A pending interrupt
 * is delivered before it; CSR_UI_PC is its address. */
static inline void user_interrupt_safepoint(void) {
  __asm__ volatile("slti x0, x0, 1" ::: "memory");
}

/** Routes a device's interrupts to an entry of this hart's table. The source of an I/O queue is its
 * number. For set-up. */
static inline void user_interrupt_route(uint64_t source, uint64_t target) {
  __asm__ volatile(USER_INTERRUPT_INSTRUCTION(6, "x0", "%0", "%1")::"r"(source), "r"(target)
                   : "memory");
}

/** A descriptor's control word without an outstanding notification. */
static inline uint64_t user_interrupt_control(uint64_t hart, uint64_t notification) {
  return hart << 32 | notification << 16;
}

/** Lets this hart receive the interrupts posted in a descriptor, whose control word must be
 * initialized. */
static inline void user_interrupt_receive(struct user_interrupt_descriptor *descriptor,
                                          void (*handler)(void)) {
  user_interrupt_write_csr(CSR_UI_HANDLER, (uint64_t)handler);
  user_interrupt_write_csr(CSR_UI_NOTIFICATION, descriptor->control >> 16 & 0xff);
  user_interrupt_write_csr(CSR_UI_DESCRIPTOR, (uint64_t)descriptor);
}

#endif
