/**
 * The common parts of all notification mechanisms: the data plane's queues, its harts, and how
 * harts take items from queues.
 *
 * A mechanism is a struct notify_mechanism in its own file. Its next() finds a queue with items and
 * takes up to a batch of them; the hart then owns the queue until the mechanism's done() releases
 * it. data_plane.h decides when done() is called:
 *
 * - *early*, before the items are processed, if a hart has private queues, or if items need not be
 *   in order (HyperPlane, MICRO 2020, Algorithm 1 as printed);
 * - *late*, after the items are processed, if harts share queues whose items must be in order
 *   (lines 18 and 19 swapped).
 */
#ifndef NOTIFY_QUEUES_H
#define NOTIFY_QUEUES_H

#include <io.h>
#include <runtime.h>
#include <stdint.h>
#include <stdlib.h>

/* The data plane's state of a queue; in its own line, since it moves between harts. */
struct data_plane_queue {
  struct io_doorbell *doorbell;
  uint8_t *ring;
  uint64_t head; /* The number of items taken: the next one's index. */
  struct io_doorbell *tenant_doorbell;
  uint8_t *tenant_ring;
  uint64_t tenant_tail;               /* The number of items given to the tenant. */
  uint64_t tenant_room;               /* At least this many items fit into the tenant ring. */
  struct data_plane_sharing *sharing; /* If items of the queue are processed concurrently. */
} __attribute__((aligned(LINE_BYTES)));

/*
 * The shared state of harts that process items of one queue concurrently.
 *
 * Reading. The device may refill a slot once its item is counted as taken and the ring has wrapped
 * around: not before `ring_slots - capacity + 1` later items are taken. So a hart takes an item
 * only if all items that far before it have been read: see data_plane_await_readers().
 *
 * Writing. A result is assembled in the hart's own buffer and then copied into the next slot of the
 * tenant ring, in the order of completion: as in DPDK's rte_ring for several producers, a hart
 * claims a slot (`claimed`), fills it, and waits until all earlier ones are published.
 */
struct data_plane_sharing {
  uint64_t read_below;  /* All items below have been read: a lower bound. */
  uint64_t claimed;     /* The number of claimed slots of the tenant ring. */
  uint64_t published;   /* The number of slots announced to the tenant. */
  uint64_t empty_below; /* All slots below can be filled: a lower bound. */
  uint8_t laps[]
      __attribute__((aligned(LINE_BYTES))); /* The lap in which each slot was last read. */
} __attribute__((aligned(LINE_BYTES)));

/* A hart of the data plane. */
struct data_plane_hart {
  uint64_t cluster;       /* The cluster, whose harts share queues. */
  uint64_t begin, end;    /* The cluster's queues: from `begin` to before `end`. */
  uint64_t next;          /* Where its search starts. */
  struct io_slot *result; /* Its buffer for results of shared queues. */
};

/* Items that a hart has taken. */
struct data_plane_work {
  uint64_t queue;
  uint64_t first;  /* The index of the first one. */
  uint64_t count;  /* The number of items. */
  uint64_t *taken; /* If not null, where the device reads how far they have been read. */
};

/** A way to find queues with items. */
struct notify_mechanism {
  /** On hart 0, before the device starts: completes the table that the device reads. */
  void (*set_up)(volatile struct io_registers *device, struct io_descriptor *table);
  /** Takes up to a batch of items of the next non-empty queue; waits for one. */
  struct data_plane_work (*next)(struct data_plane_hart *hart);
  /** Releases the queue to other harts. */
  void (*done)(const struct data_plane_hart *hart, const struct data_plane_work *work);
};

static struct {
  struct data_plane_queue *queues;
  struct io_doorbell *doorbells; /* Queue k has doorbell k, if there is no monitoring set. */
  uint64_t queue_count;
  uint64_t capacity;
  uint64_t slot_bytes;
  uint64_t ring_slots;
  uint64_t cores;
  uint64_t cluster_cores;
  uint64_t clusters;
  uint64_t batch;
  uint64_t is_strict; /* Lowest queue first; otherwise round-robin. */
  uint64_t is_late;   /* See the top of this file. */
  uint64_t notify;
  uint8_t *results; /* A slot for each hart, if harts process items of one queue concurrently. */
  /* The first queue in the memory of the second socket; without one, the number of queues. */
  uint64_t second_queue;
  uint64_t second_memory; /* The next free address there. */
} data_plane_state __attribute__((aligned(LINE_BYTES)));

/* Whether several harts share a queue. */
static inline int data_plane_is_shared(void) { return data_plane_state.cluster_cores > 1; }

/* The first queue of a cluster. */
static inline uint64_t data_plane_begin(uint64_t cluster) {
  return data_plane_state.queue_count * cluster / data_plane_state.clusters;
}

/* Where a hart's search starts after it has served a queue. */
static inline uint64_t data_plane_after(const struct data_plane_hart *hart, uint64_t queue) {
  if (data_plane_state.is_strict || queue + 1 == hart->end)
    return hart->begin;
  return queue + 1;
}

static inline const struct io_slot *data_plane_slot(const struct data_plane_queue *queue,
                                                    uint64_t index) {
  uint64_t slot = index & (data_plane_state.ring_slots - 1);
  return (const struct io_slot *)(queue->ring + slot * data_plane_state.slot_bytes);
}

/* The lap of the ring of an item; consecutive laps differ. */
static inline uint8_t data_plane_lap(uint64_t index) {
  return (uint8_t)(index / data_plane_state.ring_slots + 1);
}

/* Before the items below `head` are counted as taken, waits until every item has been read whose
 * slot the device could then fill. It ends, since no hart that reads such an item waits here. */
static inline void data_plane_await_readers(const struct data_plane_queue *queue, uint64_t head) {
  struct data_plane_sharing *sharing = queue->sharing;
  if (!sharing)
    return;
  uint64_t apart = data_plane_state.ring_slots - data_plane_state.capacity + 1;
  uint64_t below = __atomic_load_n(&sharing->read_below, __ATOMIC_RELAXED);
  if (head <= below + apart)
    return;
  /* As far as possible, so that the next search is far away. */
  for (; below < head; below++) {
    const uint8_t *lap = &sharing->laps[below & (data_plane_state.ring_slots - 1)];
    while (__atomic_load_n(lap, __ATOMIC_RELAXED) != data_plane_lap(below))
      if (head <= below + apart)
        goto enough;
  }
enough:
  /* The device observes the count, which must not precede these reads. */
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  __atomic_store_n(&sharing->read_below, below, __ATOMIC_RELAXED);
}

/* The number of items to take from a non-empty queue that this hart owns. */
static inline uint64_t data_plane_batch(const struct io_doorbell *doorbell) {
  if (data_plane_state.batch == 1)
    return 1;
  uint64_t count = __atomic_load_n(&doorbell->items, __ATOMIC_ACQUIRE);
  return count < data_plane_state.batch ? count : data_plane_state.batch;
}

/* Dequeues from a non-empty queue that this hart owns: decrements the doorbell. */
static inline struct data_plane_work data_plane_take(uint64_t number) {
  struct data_plane_queue *queue = &data_plane_state.queues[number];
  uint64_t count = data_plane_batch(queue->doorbell);
  struct data_plane_work work = {.queue = number, .first = queue->head, .count = count};
  data_plane_await_readers(queue, work.first + count);
  io_take_several(queue->doorbell, count);
  queue->head = work.first + count;
  return work;
}

/* A spin lock: a hart that does not get it sleeps until its line is written. */
static inline void data_plane_lock(uint64_t *lock) {
  while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
    wait_while(lock, 1);
}

static inline void data_plane_unlock(uint64_t *lock) {
  __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif
