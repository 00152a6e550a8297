/**
 * A rate limiter: limits the rates at which queues are served, by QWAIT.DISABLE and QWAIT.ENABLE.
 *
 * HyperPlane, MICRO 2020, Section III-A: "If a queue is disabled via QWAIT-DISABLE, its QID will
 * not be returned until its service procedure is re-enabled via QWAIT-ENABLE (e.g., by timer). An
 * example use case of these primitives is to limit the processing rate of a queue".
 *
 * Each limited queue has a token bucket. The hart that takes the last token disables the queue and
 * enters it into a timing wheel; a separate hart, woken by the CLINT's timer each microsecond,
 * enables the queues whose next token is due. (A hart of the data plane cannot do this: one that
 * halts in QWAIT takes its interrupts afterwards.) Meanwhile arrivals wait in their queue, as the
 * ready set remembers them.
 *
 * data_plane.parameters:
 *   rate_mrps       the limit of each limited queue, in million items per second (0.1)
 *   burst_items     the depth of the bucket: the burst of a queue that was idle (8); with less than
 *                   2, tokens are lost while the timer is late
 *   limited_queues  the number of limited queues, from queue 0 on (all)
 */
#include <memory_map.h>
#include <queues.h>

/* A token, as a fixed-point number. */
static const uint64_t TOKEN = 1 << 20;

struct bucket {
  uint64_t tokens;
  uint64_t filled_us; /* The time of the last refill. */
  uint64_t next;      /* In the timing wheel: 1 plus the next queue of the list, or 0. */
} __attribute__((aligned(LINE_BYTES)));

static struct bucket *buckets;
static uint64_t limited, tokens_per_us, max_tokens;

/* For each coming microsecond, a list of the queues to enable in it. Any hart pushes onto a list by
 * a compare-and-swap of its head; the timer's hart takes whole lists, so that there is no ABA
 * problem.
 */
enum { WHEEL = 1024 };
static uint64_t wheel[WHEEL];
static uint64_t wheel_us; /* Lists before this time have been taken. */

/* Disables a queue until it has a token. */
static void defer(uint64_t qid) {
  struct bucket *bucket = &buckets[qid];
  qwait_disable(qid);
  uint64_t wait_us = (TOKEN - bucket->tokens + tokens_per_us - 1) / tokens_per_us;
  uint64_t due_us = bucket->filled_us + wait_us;
  /* A list that is being taken now would serve its queue a revolution late, and the wheel covers
   * only one revolution: a queue without a token when it is enabled is deferred again. */
  uint64_t taken_us = __atomic_load_n(&wheel_us, __ATOMIC_ACQUIRE);
  if (due_us < taken_us + 2)
    due_us = taken_us + 2;
  if (due_us > taken_us + WHEEL - 1)
    due_us = taken_us + WHEEL - 1;
  uint64_t *list = &wheel[due_us % WHEEL], first = __atomic_load_n(list, __ATOMIC_RELAXED);
  do
    bucket->next = first;
  while (
      !__atomic_compare_exchange_n(list, &first, qid + 1, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

/* A queue has one hart at a time, from QWAIT to QWAIT.RECONSIDER, so its bucket needs no lock. */
static _Noreturn void serve(void) {
  for (;;) {
    uint64_t qid = qwait();
    struct queue *queue = &queues.all[qid];
    if (!qwait_verify(&queue->doorbell->count))
      continue;
    if (qid < limited) {
      struct bucket *bucket = &buckets[qid];
      uint64_t now_us = time_us();
      bucket->tokens += (now_us - bucket->filled_us) * tokens_per_us;
      bucket->filled_us = now_us;
      if (bucket->tokens > max_tokens)
        bucket->tokens = max_tokens;
      if (bucket->tokens >= TOKEN) {
        bucket->tokens -= TOKEN;
        queue_give(queue, queue_take(queue));
      }
      if (bucket->tokens < TOKEN)
        defer(qid);
    } else {
      queue_give(queue, queue_take(queue));
    }
    qwait_reconsider(qid, &queue->doorbell->count);
  }
}

/* The timer's hart. */
static _Noreturn void turn(uint64_t hart) {
  volatile uint64_t *compare = (volatile uint64_t *)CLINT_MTIMECMP + hart;
  uint64_t tick_us = time_us();
  *compare = tick_us;
  __asm__ volatile(
      "csrw mie, %0" ::"r"(1 << 7)); /* WFI ends when the timer interrupt is pending. */
  for (;;) {
    for (uint64_t now_us = time_us(); tick_us <= now_us; tick_us++) {
      uint64_t qid = __atomic_exchange_n(&wheel[tick_us % WHEEL], 0, __ATOMIC_ACQUIRE);
      __atomic_store_n(&wheel_us, tick_us, __ATOMIC_RELEASE);
      while (qid != 0) {
        uint64_t next = buckets[qid - 1].next; /* Once it is enabled it may be deferred again. */
        qwait_enable(qid - 1);
        qid = next;
      }
    }
    *compare = tick_us;
    __asm__ volatile("wfi" ::: "memory");
  }
}

int hart_main(int hart) {
  if ((uint64_t)hart < queues.cores)
    serve();
  if ((uint64_t)hart == queues.cores)
    turn((uint64_t)hart);
  return 0;
}

int main(void) {
  queues_make(1);
  double rate_mrps = io_parameter("rate_mrps", 0.1);
  double burst_items = io_parameter("burst_items", 8);
  double limited_queues = io_parameter("limited_queues", (double)queues.count);
  if (!(rate_mrps >= 0.001 && rate_mrps <= 1000))
    fail("data_plane.parameters.rate_mrps must be from 0.001 to 1000.");
  if (!(burst_items >= 1 && burst_items <= 1e6))
    fail("data_plane.parameters.burst_items must be from 1 to 1000000.");
  if (!(limited_queues >= 0 && limited_queues <= (double)queues.count))
    fail("data_plane.parameters.limited_queues must be from 0 to %lu, the number of queues.",
         queues.count);
  tokens_per_us =
      (uint64_t)(rate_mrps * (double)TOKEN); /* A million a second is one a microsecond. */
  max_tokens = (uint64_t)(burst_items * (double)TOKEN);
  limited = (uint64_t)limited_queues;
  buckets = aligned_alloc(LINE_BYTES, queues.count * sizeof(struct bucket));
  wheel_us = time_us();
  for (uint64_t qid = 0; qid < limited; qid++)
    buckets[qid] = (struct bucket){.tokens = max_tokens, .filled_us = wheel_us};
  queues_monitor();
  harts_release();
  queues_start();
  return hart_main(0);
}
