/**
 * spin: poll the doorbell of every queue.
 *
 * As tight as a loop can be: a load and a branch for each doorbell, and nothing that would keep an
 * out-of-order core from having the loads of many doorbells under way at once.
 *
 * Harts that share queues begin their rounds at different places, and claim what they find by one
 * compare-and-swap of the doorbell itself, which both counts items down and
 *
 * - in order: sets the upper half, `claim`, until the items are processed. Others see in the
 *   word that they poll anyway that the queue is taken, and go on;
 * - otherwise: moves the queue's head, which then is in the upper half, on by as many items. So a
 *   claim is a single atomic operation, and nothing has to be given back.
 *
 * A hart that loses the race for an item goes on to the next queue. Nothing is lost: what is in a
 * queue is seen by every round, and each item is counted down, once, by the one that then has it.
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

/* Takes items of a queue that other harts may be after, too. Returns whether there are any. */
static inline int spin_claim(uint64_t number, struct data_plane_work *work) {
  struct data_plane_queue *queue = &data_plane_state.queues[number];
  uint64_t word = __atomic_load_n(&queue->doorbell->count, __ATOMIC_RELAXED), claimed;
  do {
    uint64_t items = (uint32_t)word, claim = word >> 32;
    if (!items || (data_plane_state.is_late && claim))
      return 0;
    work->queue = number;
    work->first = claim;
    work->count = items < data_plane_state.batch ? items : data_plane_state.batch;
    work->taken = 0;
    if (data_plane_state.is_late) {
      claimed = word - work->count + (1ul << 32);
    } else {
      data_plane_await_readers(queue, claim + work->count);
      claimed = (claim + work->count) << 32 | (items - work->count);
    }
  } while (!__atomic_compare_exchange_n(&queue->doorbell->count, &word, claimed, 0,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  if (data_plane_state.is_late) {
    work->first = queue->head;
    queue->head += work->count;
  }
  return 1;
}

/* Takes items of the first queue that has some, from `begin` to before `end`. Returns whether there
 * are any. A search that finds nothing writes nothing, as an idle loop should not. */
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
    __atomic_store_n(&data_plane_state.queues[work->queue].doorbell->claim, 0, __ATOMIC_RELEASE);
}

static inline void spin_set_up(volatile struct io_registers *device, struct io_descriptor *table) {
  (void)device;
  (void)table;
}

static const struct notify_mechanism notify_spin = {spin_set_up, spin_next, spin_done};

#endif
