/* Everything beyond sequential execution: interrupts, traps, reservations, accesses across pages,
 * written instructions, rounding. The output does not depend on timing. */
#include <memory_map.h>
#include <runtime.h>
#include <stdio.h>

enum { TICKS_US = 5, ROUNDS = 500 };

static volatile uint64_t *const timer_compare = (uint64_t *)CLINT_MTIMECMP;
static volatile const uint64_t *const timer = (uint64_t *)CLINT_MTIME;

static volatile uint64_t rung, causes, trap_cause, trap_value;
static uint64_t count, finished;
static _Alignas(4096) uint8_t pages[3 * 4096];
static uint32_t code[2];

/* Counts timer interrupts; skips an instruction of four bytes that traps. */
__attribute__((interrupt("machine"), aligned(4))) static void handle(void) {
  uint64_t cause;
  __asm__ volatile("csrr %0, mcause" : "=r"(cause));
  if (cause >> 63) {
    causes |= 1ul << (cause & 63);
    rung++;
    *timer_compare += TICKS_US;
    return;
  }
  uint64_t value, pc;
  __asm__ volatile("csrr %0, mtval\n csrr %1, mepc" : "=r"(value), "=r"(pc));
  trap_cause = cause;
  trap_value = value;
  __asm__ volatile("csrw mepc, %0" ::"r"(pc + 4));
}

static void show_timer(void) {
  *timer_compare = *timer + TICKS_US;
  __asm__ volatile("csrs mie, %0\n csrsi mstatus, 8" ::"r"(1ul << 7));
  while (rung < 3)
    __asm__ volatile("wfi");
  /* The same without halting. */
  while (rung < 6)
    ;
  __asm__ volatile("csrci mstatus, 8\n csrc mie, %0" ::"r"(1ul << 7));
  *timer_compare = ~0ul;
  printf("timer: %s, interrupts %lx\n", rung >= 6 ? "rings" : "silent", causes);
}

static void show_traps(void) {
  uint64_t kept = 7;
  __asm__ volatile(".option push\n .option norvc\n ld %0, 5(%1)\n .option pop"
                   : "+r"(kept)
                   : "r"(0x12345678ul)
                   : "memory");
  printf("load: cause %lu, value %lx, destination %lu\n", trap_cause, trap_value, kept);
  __asm__ volatile(".4byte 0xffffffff");
  printf("illegal: cause %lu, value %lx\n", trap_cause, trap_value);
  __asm__ volatile("amoadd.d zero, zero, (%0)" ::"r"(&pages[4]) : "memory");
  printf("atomic: cause %lu, low bits %lx\n", trap_cause, trap_value & 7);
  /* Devices do not support atomics. */
  __asm__ volatile("amoadd.d zero, zero, (%0)" ::"r"(timer_compare) : "memory");
  printf("device: cause %lu, value %lx\n", trap_cause, trap_value);
}

static void show_pages(void) {
  for (int offset = 1; offset < 8; offset++) {
    uint8_t *place = &pages[4096 - offset];
    uint64_t found;
    __asm__ volatile("sd %1, 0(%2)\n ld %0, 0(%2)"
                     : "=r"(found)
                     : "r"(0x0123456789abcdeful * (uint64_t)offset), "r"(place)
                     : "memory");
    printf("%lx%c", found, offset < 7 ? ' ' : '\n');
  }
}

/* addi a0, a0, NUMBER and ret, written one after the other into the same place. */
static void show_written_code(void) {
  uint64_t sum = 0;
  for (uint32_t number = 1; number <= 5; number++) {
    code[0] = number << 20 | 10 << 15 | 10 << 7 | 0x13;
    code[1] = 0x00008067;
    __asm__ volatile("fence.i" ::: "memory");
    sum = ((uint64_t (*)(uint64_t))(uintptr_t)code)(sum);
  }
  printf("written code: %lu\n", sum);
}

static void show_rounding(void) {
  for (uint64_t mode = 0; mode < 5; mode++) {
    double quotient;
    uint64_t flags;
    __asm__ volatile("csrw fcsr, zero\n csrw frm, %2\n fdiv.d %0, %3, %4\n csrr %1, fflags\n"
                     " csrw frm, zero"
                     : "=f"(quotient), "=r"(flags)
                     : "r"(mode), "f"(-1.0), "f"(3.0));
    uint64_t bits;
    __asm__ volatile("fmv.x.d %0, %1" : "=r"(bits) : "f"(quotient));
    printf("%lx %lx%c", bits & 0xf, flags, mode < 4 ? ' ' : '\n');
  }
}

static void work(void) {
  for (int i = 0; i < ROUNDS; i++) {
    uint64_t old, failed;
    __asm__ volatile("1: lr.d %0, (%2)\n addi %0, %0, 1\n sc.d %1, %0, (%2)\n bnez %1, 1b"
                     : "=&r"(old), "=&r"(failed)
                     : "r"(&count)
                     : "memory");
  }
  __atomic_fetch_add(&finished, 1, __ATOMIC_RELEASE);
}

int hart_main(int hart) {
  (void)hart;
  work();
  return 0;
}

int main(void) {
  __asm__ volatile("csrw mtvec, %0" ::"r"(handle));
  show_timer();
  show_traps();
  show_pages();
  show_written_code();
  show_rounding();
  harts_release();
  work();
  for (uint64_t now = 0; now != harts;)
    now = wait_while(&finished, now);
  printf("reservations: %s\n", count == ROUNDS * harts ? "all" : "some are lost");
  return 5;
}
