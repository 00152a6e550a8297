/**
 * spin: poll the doorbell of every queue.
 *
 * The tightest possible loop: a load and a branch for each doorbell, and nothing that would keep an
 * out-of-order core from having the loads of many doorbells outstanding.
 *
 * Harts that share queues start their rounds at different queues, and claim those with items:
 *
 * - in order: by a lock of the queue, which they try only if the doorbell shows items and the lock
 *   is free, and release when the items are processed. A hart that fails continues with the next
 *   queue. The lock has its own line: in the doorbell's line it would take that line from all
 *   polling harts twice an item;
 * - otherwise: by a compare-and-swap of the doorbell itself, whose upper half is the index of the
 *   next item. It decrements the count and advances the index in one step, so that there is nothing
 *   to release.
 *
 * docs/notification.md compares them with other mechanisms. Nothing is lost: every round sees the
 * contents of every queue, and each item is counted down once, by the hart that then has it.
 */
#ifndef NOTIFY_SPIN_H
#define NOTIFY_SPIN_H

#include <notify/queues.h>

/* The first doorbell with an item from `next` to before `end`; `end` if there is none. */
static inline __attribute__((always_inline)) struct io_doorbell *
spin_scan(struct io_doorbell *next, struct io_doorbell *end) {
  for (; end - next >= 8; next += 8) {
    if (io_count(next))
      return next;
    if (io_count(next + 1))
      return next + 1;
    if (io_count(next + 2))
      return next + 2;
    if (io_count(next + 3))
      return next + 3;
    if (io_count(next + 4))
      return next + 4;
    if (io_count(next + 5))
      return next + 5;
    if (io_count(next + 6))
      return next + 6;
    if (io_count(next + 7))
      return next + 7;
  }
  for (; next < end; next++)
    if (io_count(next))
      return next;
  return end;
}

/* In order: the lock of a queue, in its own line. */
static struct spin_lock {
  uint32_t held;
} __attribute__((aligned(LINE_BYTES))) * spin_locks;

/* Takes items of a shared queue, and keeps the queue. Returns whether there were any. */
static inline int spin_claim_queue(uint64_t number, struct data_plane_work *work) {
  uint32_t *held = &spin_locks[number].held;
  if (__atomic_load_n(held, __ATOMIC_RELAXED) || __atomic_exchange_n(held, 1, __ATOMIC_ACQUIRE))
    return 0;
  if (io_count(data_plane_state.queues[number].doorbell)) {
    *work = data_plane_take(number);
    return 1;
  }
  __atomic_store_n(held, 0, __ATOMIC_RELEASE);
  return 0;
}

/* Takes items of a shared queue, and releases the queue. Returns whether there were any. A hart
 * that loses the race continues with the next queue. */
static inline int spin_claim_items(uint64_t number, struct data_plane_work *work) {
  struct data_plane_queue *queue = &data_plane_state.queues[number];
  uint64_t word = __atomic_load_n(&queue->doorbell->count, __ATOMIC_RELAXED);
  uint64_t items = (uint32_t)word, head = word >> 32;
  if (!items)
    return 0;
  uint64_t count = items < data_plane_state.batch ? items : data_plane_state.batch;
  data_plane_await_readers(queue, head + count);
  uint64_t claimed = (head + count) << 32 | (items - count);
  *work = (struct data_plane_work){.queue = number, .first = head, .count = count};
  return __atomic_compare_exchange_n(&queue->doorbell->count, &word, claimed, 0, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED);
}

static inline int spin_claim(uint64_t number, struct data_plane_work *work) {
  return data_plane_state.is_late ? spin_claim_queue(number, work) : spin_claim_items(number, work);
}

/* Takes items of the first non-empty queue from `begin` to before `end`. Returns whether there were
 * any. A search without success writes nothing, as an idle loop should. */
static inline __attribute__((always_inline)) int spin_search(struct data_plane_hart *hart,
                                                             uint64_t begin, uint64_t end,
                                                             struct data_plane_work *work) {
  struct io_doorbell *doorbells = data_plane_state.doorbells;
  struct io_doorbell *next = doorbells + begin, *last = doorbells + end;
  while ((next = spin_scan(next, last)) < last) {
    uint64_t number = (uint64_t)(next - doorbells);
    if (!data_plane_is_shared()) {
      *work = data_plane_take(number);
    } else if (!spin_claim(number, work)) {
      next++;
      continue;
    }
    hart->next = data_plane_after(hart, number);
    return 1;
  }
  return 0;
}

static inline struct data_plane_work spin_next(struct data_plane_hart *hart) {
  struct data_plane_work work;
  uint64_t begin = hart->next;
  while (!spin_search(hart, begin, hart->end, &work))
    begin = hart->begin;
  return work;
}

static inline void spin_done(const struct data_plane_hart *hart,
                             const struct data_plane_work *work) {
  (void)hart;
  if (data_plane_state.is_late)
    __atomic_store_n(&spin_locks[work->queue].held, 0, __ATOMIC_RELEASE);
}

static inline void spin_set_up(volatile struct io_registers *device, struct io_descriptor *table) {
  (void)device;
  (void)table;
  spin_locks = aligned_alloc(LINE_BYTES, data_plane_state.queue_count * sizeof *spin_locks);
}

static const struct notify_mechanism notify_spin = {spin_set_up, spin_next, spin_done};

#endif
