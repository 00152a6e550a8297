/* What QWAIT waits for, and what it does not: prints cycles and results. */
#include <io.h>
#include <memory_map.h>
#include <qwait.h>
#include <runtime.h>
#include <stdio.h>

enum { QID = 3, TRIES = 64 };

static struct io_doorbell *const doorbell = (struct io_doorbell *)DOORBELLS_START;

/* Lines that nobody has read yet, so that they come from memory. */
static volatile struct {
  uint64_t word;
} __attribute__((aligned(64))) cold[4];
static uint64_t flag;

/* The other hart rings the doorbell when it sees the flag. */
int hart_main(int hart) {
  if (hart == 1) {
    while (__atomic_load_n(&flag, __ATOMIC_ACQUIRE) == 0)
      ;
    io_ring(doorbell);
  }
  return 0;
}

static uint64_t cycle(void) {
  uint64_t now;
  __asm__ volatile("rdcycle %0" : "=r"(now)::"memory");
  return now;
}

static __attribute__((noinline)) uint64_t take_if(const volatile uint64_t *condition) {
  return *condition ? qwait_nonblocking() : QWAIT_NONE;
}

static struct {
  uint64_t alone, behind_store, barrier;
} cycles;

static __attribute__((noinline)) void measure(int time) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  uint64_t begin = cycle();
  qwait_nonblocking();
  cycles.alone = cycle() - begin;
  begin = cycle();
  cold[time].word = 1;
  qwait_nonblocking();
  cycles.behind_store = cycle() - begin;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  begin = cycle();
  cold[2 + time].word = 1;
  qwait_enable(QID);
  cycles.barrier = cycle() - begin;
}

int main(void) {
  if (qwait_init((uint64_t)doorbell, LINE_BYTES, QWAIT_ROUND_ROBIN) != QWAIT_OK ||
      qwait_add(QID, &doorbell->count) != QWAIT_OK)
    fail("The queue cannot be added.");
  harts_release();
  measure(0); /* Brings the instructions into the cache. */
  measure(1);
  printf("alone %lu\nbehind a store %lu\nbarrier %lu\n", cycles.alone, cycles.behind_store,
         cycles.barrier);

  /* The store must be performed while the hart halts, or nobody rings the doorbell. */
  flag = 1;
  printf("halted %lu\n", qwait());

  /* A predicted QWAIT on a wrong path takes no queue. */
  static const volatile uint64_t yes = 1;
  for (int time = 0; time < TRIES; time++)
    take_if(&yes);
  qwait_reconsider(QID, &doorbell->count); /* The item is still there. */
  static volatile uint64_t no __attribute__((aligned(64)));
  uint64_t predicted = take_if(&no), then = qwait_nonblocking();
  printf("predicted %ld\nthen %lu\n", (int64_t)predicted, then);
  return 0;
}
