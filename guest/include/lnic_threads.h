/**
 * Threads on nanoPU: the kernel that switches threads at the hardware thread scheduler's request.
 *
 * The hardware selects the thread, raises machine interrupt 16 and provides the thread's context in
 * a CSR. The kernel saves the registers of one thread, writes the context of the next one to the
 * hardware, and resumes it. Everything is in machine mode and in one address space, as on the
 * published prototype.
 */
#ifndef LNIC_THREADS_H
#define LNIC_THREADS_H

#include <lnic.h>
#include <runtime.h>
#include <stdbool.h>
#include <stddef.h>

enum {
  LNIC_MAX_THREADS = 4, /* Of a hart: as many as have queues. */
  LNIC_MAX_HARTS = 16,
  LNIC_STACK_BYTES = 16384,
};

/** A thread that is not running. lnic_trap depends on the offset of its registers. */
struct lnic_thread {
  uint64_t registers[31]; /* The program counter first, then x1 to x29. */
  uint64_t context;       /* lnic_trap depends on this offset, too. */
  double floats[32];
  uint64_t float_status;
  bool has_floats; /* It has used floating-point registers, which are saved in `floats`. */
  struct lnic_kernel *kernel;
};

/** A hart's threads. The last one is the kernel's idle thread; it waits for the first interrupt. */
struct lnic_kernel {
  struct lnic_thread threads[LNIC_MAX_THREADS + 1];
  uint64_t count;
  uint8_t stacks[LNIC_MAX_THREADS][LNIC_STACK_BYTES] __attribute__((aligned(16)));
};

static struct lnic_kernel lnic_kernels[LNIC_MAX_HARTS];

// clang-format off
#define LNIC_EACH_FLOAT(OPERATE)                                                                   \
  OPERATE(0) OPERATE(1) OPERATE(2) OPERATE(3) OPERATE(4) OPERATE(5) OPERATE(6) OPERATE(7)          \
  OPERATE(8) OPERATE(9) OPERATE(10) OPERATE(11) OPERATE(12) OPERATE(13) OPERATE(14) OPERATE(15)    \
  OPERATE(16) OPERATE(17) OPERATE(18) OPERATE(19) OPERATE(20) OPERATE(21) OPERATE(22) OPERATE(23)  \
  OPERATE(24) OPERATE(25) OPERATE(26) OPERATE(27) OPERATE(28) OPERATE(29) OPERATE(30) OPERATE(31)
// clang-format on
#define LNIC_SAVE_FLOAT(number) "fsd f" #number ", 8*" #number "(%0)\n"
#define LNIC_RESTORE_FLOAT(number) "fld f" #number ", 8*" #number "(%0)\n"

enum { MSTATUS_FS = 3 << 13, MSTATUS_FS_CLEAN = 2 << 13 };

/* Only a thread that has used floating point since it was resumed has changed these registers. */
static inline void lnic_swap_floats(struct lnic_thread *from, struct lnic_thread *to) {
  uint64_t status;
  __asm__ volatile("csrr %0, mstatus" : "=r"(status));
  bool changed = (status & MSTATUS_FS) == MSTATUS_FS;
  if (changed) {
    __asm__ volatile(LNIC_EACH_FLOAT(LNIC_SAVE_FLOAT) : : "r"(from->floats) : "memory");
    __asm__ volatile("csrr %0, fcsr" : "=r"(from->float_status));
    from->has_floats = true;
  }
  if (to->has_floats) {
    __asm__ volatile("csrw fcsr, %0" : : "r"(to->float_status));
    __asm__ volatile(LNIC_EACH_FLOAT(LNIC_RESTORE_FLOAT) : : "r"(to->floats) : "memory");
  }
  if (changed || to->has_floats)
    __asm__ volatile("csrc mstatus, %0\n"
                     "csrs mstatus, %1"
                     :
                     : "r"((uint64_t)MSTATUS_FS), "r"((uint64_t)MSTATUS_FS_CLEAN));
}

/* Called with the running thread, whose registers have been saved; returns the thread to resume. */
__attribute__((used)) static struct lnic_thread *lnic_swap(struct lnic_thread *running,
                                                           uint64_t cause) {
  if (cause != (1ull << 63 | 16)) {
    /* Another trap. The instruction traps again without a handler; the report gives the cause. */
    __asm__ volatile("csrw mtvec, zero");
    return running;
  }
  uint64_t context = lnic_read_csr(CSR_LTARGETCONTEXT);
  struct lnic_thread *next = running->kernel->threads;
  while (next->context != context)
    next++;
  lnic_swap_floats(running, next);
  return next;
}

_Static_assert(offsetof(struct lnic_thread, context) == 248, "lnic_trap reads it from there");

/* mscratch points to the running thread. x30 and x31 belong to no thread. The context is written to
 * the hardware last, since its time counts from then on. */
// clang-format off
#define LNIC_EACH_REGISTER(OPERATE)                                                                \
  OPERATE(1) OPERATE(2) OPERATE(3) OPERATE(4) OPERATE(6) OPERATE(7) OPERATE(8) OPERATE(9)          \
  OPERATE(12) OPERATE(13) OPERATE(14) OPERATE(15) OPERATE(16) OPERATE(17) OPERATE(18) OPERATE(19)  \
  OPERATE(20) OPERATE(21) OPERATE(22) OPERATE(23) OPERATE(24) OPERATE(25) OPERATE(26) OPERATE(27)  \
  OPERATE(28) OPERATE(29)
// clang-format on
#define LNIC_SAVE(number) "sd x" #number ", 8*" #number "(x5)\n"
#define LNIC_RESTORE(number) "ld x" #number ", 8*" #number "(x10)\n"
__asm__(".text\n"
        ".balign 64\n"
        "lnic_trap:\n"
        "csrrw x5, mscratch, x5\n"
        "sd x10, 80(x5)\n"
        "sd x11, 88(x5)\n" LNIC_EACH_REGISTER(LNIC_SAVE) //
        "csrr x11, mscratch\n"
        "sd x11, 40(x5)\n"
        "csrr x11, mepc\n"
        "sd x11, 0(x5)\n"
        "csrr x11, mcause\n"
        "mv x10, x5\n"
        "call lnic_swap\n"
        "csrw mscratch, x10\n"
        "ld x11, 0(x10)\n"
        "csrw mepc, x11\n"
        "ld x5, 40(x10)\n" LNIC_EACH_REGISTER(LNIC_RESTORE) //
        "ld x11, 248(x10)\n"
        "csrw 0x53, x11\n" /* lcurcontext */
        "ld x11, 88(x10)\n"
        "ld x10, 80(x10)\n"
        "mret\n");

extern char lnic_trap[];

static inline struct lnic_kernel *lnic_kernel(void) {
  uint64_t hart;
  __asm__("csrr %0, mhartid" : "=r"(hart));
  if (hart >= LNIC_MAX_HARTS)
    fail("lnic_threads.h is for %d harts, and this is hart %lu\n", LNIC_MAX_HARTS, hart);
  return &lnic_kernels[hart];
}

/* The return address of threads: a thread that returns has no more work. */
static _Noreturn inline void lnic_thread_end(void) {
  for (;;)
    lnic_idle();
}

/** Binds a context to this hart, and gives it a thread that starts with `entry(argument)` and runs
 * when a message for it arrives. */
static inline void lnic_add_thread(uint64_t context, uint64_t priority, void (*entry)(uint64_t),
                                   uint64_t argument) {
  struct lnic_kernel *kernel = lnic_kernel();
  for (uint64_t other = 0; other < kernel->count; other++) {
    if (kernel->threads[other].context == context)
      fail("context %lu is in use: it has a thread on this hart already\n", context);
  }
  lnic_add_context(context, priority);
  if (kernel->count == LNIC_MAX_THREADS)
    fail("lnic_threads.h is for %d threads of a hart, and this is one more\n", LNIC_MAX_THREADS);
  struct lnic_thread *thread = &kernel->threads[kernel->count];
  uint64_t global;
  __asm__("mv %0, gp" : "=r"(global));
  thread->registers[0] = (uintptr_t)entry;
  thread->registers[1] = (uintptr_t)lnic_thread_end;
  thread->registers[2] = (uintptr_t)kernel->stacks[kernel->count] + LNIC_STACK_BYTES;
  thread->registers[3] = global;
  thread->registers[10] = argument;
  thread->context = context;
  thread->kernel = kernel;
  kernel->count++;
}

/** Lets this hart's threads run. */
static _Noreturn inline void lnic_run_threads(void) {
  struct lnic_kernel *kernel = lnic_kernel();
  struct lnic_thread *own = &kernel->threads[kernel->count];
  own->context = LNIC_KERNEL_CONTEXT;
  own->kernel = kernel;
  lnic_write_csr(CSR_LCURCONTEXT, LNIC_KERNEL_CONTEXT);
  lnic_start_timer();
  __asm__ volatile("csrw mscratch, %0\n"
                   "csrw mtvec, %1\n"
                   "csrs mie, %2\n"
                   "csrsi mstatus, 8" /* MIE */
                   :
                   : "r"(own), "r"(lnic_trap), "r"(1ul << 16)
                   : "memory");
  for (;;)
    __asm__ volatile("wfi");
}

#endif
