/**
 * nanoPU's network interface for programs: messages are read from one register and written to
 * another. Names and numbers are those of the published prototype, so that its programs can be
 * compiled against this file.
 *
 * A message, in both directions, is an application header, with the peer's IPv4 address, the peer's
 * context and the length in bytes, and then the payload in words of 8 bytes. Each read of netRX
 * takes the next word that the running context has received, and each write to netTX appends a word
 * to the message that it sends. Payload words are big-endian on the wire, and numbers here.
 *
 * Including this file keeps the compiler from using x30 and x31 for anything else: compiler.py
 * looks for LNIC_RESERVED_REGISTERS.
 */
#ifndef LNIC_H
#define LNIC_H

#include <stdint.h>

#define LNIC_RESERVED_REGISTERS x30, x31
#ifndef REGISTERS_RESERVED
#error "x30 and x31 are not reserved: compile with -ffixed-x30 -ffixed-x31 and define this"
#endif

/* The registers: netRX and netTX. */
#define LREAD "x30"
#define LWRITE "x31"

/* The control and status registers. */
#define CSR_LMSGSRDY 0x52        /* 1: a message waits for the running context */
#define CSR_LCURCONTEXT 0x53     /* the running context (layer-4 port); "lcurport" in the paper */
#define CSR_LNICCMD 0x54         /* bit 0 bind the context, 1 remove it, 2 start the timer */
#define CSR_LCURPRIORITY 0x55    /* priority of the running context; 0 is the highest */
#define CSR_LNICUCMD 0x56        /* bit 0 "lmsgdone", bit 1 "lidle" in the paper */
#define CSR_LNICRDY 0x57         /* 1: the interface is ready */
#define CSR_LTARGETCONTEXT 0x58  /* the context that the scheduler selects */
#define CSR_LTARGETPRIORITY 0x59 /* its priority */
#define CSR_LMSGCYCLES 0x60      /* the maximum number of cycles for a message at priority 0 */
#define CSR_LIDLECYCLES 0x61     /* cycles */

/** The context of the thread-switching kernel, which has no messages. */
#define LNIC_KERNEL_CONTEXT 0xffff

#define LNIC_WORD_SIZE 8

/* The fields of an application header. */
#define IP_MASK 0xffffffff00000000ull
#define CONTEXT_MASK 0x00000000ffff0000ull
#define PORT_MASK CONTEXT_MASK
#define LEN_MASK 0x000000000000ffffull

/* By register number, which every assembler accepts. */
#define lnic_read_csr(number)                                                                      \
  __extension__({                                                                                  \
    uint64_t value_;                                                                               \
    __asm__ volatile("csrr %0, %1" : "=r"(value_) : "i"(number));                                  \
    value_;                                                                                        \
  })
#define lnic_write_csr(number, value)                                                              \
  __asm__ volatile("csrw %0, %1" : : "i"(number), "rK"((uint64_t)(value)) : "memory")

/** Binds a context, which is a layer-4 port, to this hart. The first bound context runs. */
#define lnic_add_context(context, priority)                                                        \
  do {                                                                                             \
    lnic_write_csr(CSR_LCURCONTEXT, context);                                                      \
    lnic_write_csr(CSR_LCURPRIORITY, priority);                                                    \
    lnic_write_csr(CSR_LNICCMD, 1);                                                                \
  } while (0)

/** Starts the timer with which the thread scheduler decides (CSR_LNICCMD). */
#define lnic_start_timer() lnic_write_csr(CSR_LNICCMD, 4)

/** Whether a message waits. */
#define lnic_ready() (lnic_read_csr(CSR_LMSGSRDY) != 0)

/** Reports that the running thread has no work until a message arrives. */
#define lnic_idle() lnic_write_csr(CSR_LNICUCMD, 2)

/** Waits for a message. */
#define lnic_wait()                                                                                \
  do {                                                                                             \
    while (lnic_read_csr(CSR_LMSGSRDY) == 0)                                                       \
      lnic_idle();                                                                                 \
  } while (0)

/** Reports that the message has been processed: the interface may send this core the next one. */
#define lnic_msg_done() lnic_write_csr(CSR_LNICUCMD, 1)

/** The next received word. There must be one. */
#define lnic_read()                                                                                \
  __extension__({                                                                                  \
    uint64_t word_;                                                                                \
    __asm__ volatile("mv %0, " LREAD : "=r"(word_));                                               \
    word_;                                                                                         \
  })

/** Sends the next received word. */
#define lnic_copy() __asm__ volatile("mv " LWRITE ", " LREAD)

/** Sends the next received word plus a constant of 12 bits. */
#define lnic_add_int_i(value) __asm__ volatile("addi " LWRITE ", " LREAD ", %0" : : "i"(value))

/** Sends a word: out of a register, a constant, and out of memory. */
#define lnic_write_r(value) __asm__ volatile("mv " LWRITE ", %0" : : "r"((uint64_t)(value)))
#define lnic_write_i(value) __asm__ volatile("li " LWRITE ", %0" : : "i"(value))
#define lnic_write_m(value) __asm__ volatile("ld " LWRITE ", %0" : : "m"(value))

/** Sends 16 zero bytes to context 0 of 0.0.0.0, by which published programs report to their test
 * that they are ready. If no host has that address, the message is lost. */
#define lnic_boot()                                                                                \
  do {                                                                                             \
    lnic_write_i(16);                                                                              \
    lnic_write_i(0);                                                                               \
    lnic_write_i(0);                                                                               \
  } while (0)
#define lnic_boot_msg() lnic_boot()

/** Branches to a label if `instruction` ("bne") is taken for the next received word and `value`. */
#define lnic_branch(instruction, value, target)                                                    \
  __asm__ goto(instruction " %0, " LREAD ", %l1" : : "r"((uint64_t)(value)) : : target)

#endif
