/**
 * The cost of false sharing: a data plane whose doorbells share cache lines with words that another
 * hart writes.
 *
 * The monitoring set compares line addresses, not words. A write to another word of an armed
 * doorbell's line wakes its queue, and QWAIT.VERIFY finds it empty and arms it again: a spurious
 * wake-up (HyperPlane, MICRO 2020, Section III-A). Here a separate hart writes the word behind the
 * counter of randomly chosen doorbells. In the result, `hyperplane.spurious_wake_ups` counts the
 * spurious wake-ups, and `program_counters.stray_writes` the writes.
 *
 * data_plane.parameters:
 *   stray_mrps  writes, in millions per second (1; 0: none)
 */
#include <queues.h>

static uint64_t cycles_between_writes; /* Times 2^8; 0: none. */
static volatile uint64_t *stray_writes;

static inline uint64_t cycle(void) {
  uint64_t cycle;
  __asm__ volatile("csrr %0, mcycle" : "=r"(cycle)::"memory");
  return cycle;
}

/* Cycles per microsecond, times 2^8, measured for so long that both ends do not matter. */
static uint64_t measure_clock(void) {
  enum { MICROSECONDS = 64 };
  uint64_t begin_us = time_us(), now_us;
  while ((now_us = time_us()) == begin_us)
    ;
  uint64_t begin = cycle();
  while (time_us() != now_us + MICROSECONDS)
    ;
  return ((cycle() - begin) << 8) / MICROSECONDS;
}

/* The writing hart. */
static _Noreturn void stray(void) {
  uint64_t random = 1, due = cycle() << 8;
  for (uint64_t writes = 0;; due += cycles_between_writes) {
    while (cycle() << 8 < due)
      ;
    random = random * 6364136223846793005 + 1442695040888963407; /* Knuth's, as in MMIX. */
    struct io_doorbell *doorbell = queues.all[(random >> 32) % queues.count].doorbell;
    __atomic_store_n(&doorbell->unused[0], random, __ATOMIC_RELAXED);
    *stray_writes = ++writes;
  }
}

/* Algorithm 1, lines 10 to 20, with lines 18 and 19 swapped because several harts may serve. */
static _Noreturn void serve(void) {
  for (;;) {
    uint64_t qid = qwait();
    struct queue *queue = &queues.all[qid];
    if (!qwait_verify(&queue->doorbell->count))
      continue;
    queue_give(queue, queue_take(queue));
    qwait_reconsider(qid, &queue->doorbell->count);
  }
}

int hart_main(int hart) {
  if ((uint64_t)hart < queues.cores)
    serve();
  if ((uint64_t)hart == queues.cores && cycles_between_writes)
    stray();
  return 0;
}

int main(void) {
  queues_make(1);
  double stray_mrps = io_parameter("stray_mrps", 1);
  if (!(stray_mrps == 0 || (stray_mrps >= 0.001 && stray_mrps <= 20)))
    fail("data_plane.parameters.stray_mrps must be 0, or from 0.001 to 20.");
  if (stray_mrps > 0)
    cycles_between_writes = (uint64_t)((double)measure_clock() / stray_mrps);
  stray_writes = io_counter("stray_writes");
  queues_monitor();
  harts_release();
  queues_start();
  return hart_main(0);
}
