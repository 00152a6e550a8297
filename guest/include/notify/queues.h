/**
 * What every notification mechanism works on: the data plane's queues, its harts, and how items
 * are taken from the one by the other.
 *
 * A mechanism is a struct notify_mechanism in a file of its own. Its next() finds a queue with
 * items and takes up to a batch of them; from then on the queue is the hart's alone, until its
 * done() lets others have it. When done() is called, data_plane.h decides:
 *
 * - *early*, before the items are processed, where a hart has its queues to itself, and where
 *   items need not be in order (HyperPlane, MICRO 2020, Algorithm 1 as printed);
 * - *late*, after it, where harts share queues whose items have to be in order (lines 18 and 19
 *   swapped).
 */
#ifndef NOTIFY_QUEUES_H
#define NOTIFY_QUEUES_H

#include <io.h>
#include <runtime.h>
#include <stdint.h>
#include <stdlib.h>

/* What the data plane keeps of a queue; a line of its own, since it moves between harts. */
struct data_plane_queue {
  struct io_doorbell *doorbell;
  uint8_t *ring;
  uint64_t head; /* How many items have been taken: the next one's index. */
  struct io_doorbell *tenant_doorbell;
  uint8_t *tenant_ring;
  uint64_t tenant_tail;               /* How many items the tenant has been given. */
  uint64_t tenant_room;               /* At least this many items fit into the tenant ring. */
  struct data_plane_sharing *sharing; /* If items of the queue are processed at the same time. */
} __attribute__((aligned(LINE_BYTES)));

/*
 * What harts need that process items of one queue at the same time.
 *
 * Reading. The device may fill a slot again once its item is counted as taken and the ring has come
 * round: not before `ring_slots - capacity + 1` later items are taken. So a hart takes an item only
 * if all that are this far before it have been read: see data_plane_await_readers().
 *
 * Writing. A result is put together in the hart's own buffer and then copied into the next slot of
 * the tenant ring, in the order in which harts are done: as in DPDK's rte_ring for several
 * producers, a hart claims a slot (`claimed`), fills it, and waits for those before it to be
 * published.
 */
struct data_plane_sharing {
  uint64_t read_below;  /* All items below have been read. May be behind the truth. */
  uint64_t claimed;     /* Slots of the tenant ring that harts have claimed. */
  uint64_t published;   /* Those whose results the tenant has been told of. */
  uint64_t empty_below; /* All slots below can be filled. May be behind the truth. */
  uint8_t laps[] __attribute__((aligned(LINE_BYTES))); /* In which lap each slot was read last. */
} __attribute__((aligned(LINE_BYTES)));

/* A hart of the data plane. */
struct data_plane_hart {
  uint64_t cluster;       /* The harts that share queues with it. */
  uint64_t begin, end;    /* Their queues: from `begin` to before `end`. */
  uint64_t next;          /* Where it looks first. */
  struct io_slot *result; /* Where it puts a result together if its queue is shared. */
};

/* Items that a hart has taken. */
struct data_plane_work {
  uint64_t queue;
  uint64_t first;  /* The index of the first one. */
  uint64_t count;  /* How many. */
  uint64_t *taken; /* If not null: where the device learns how far they have been read. */
};

/** A way to find queues with items. */
struct notify_mechanism {
  /** On hart 0, before the device starts: completes the table that the device reads. */
  void (*set_up)(volatile struct io_registers *device, struct io_descriptor *table);
  /** Takes up to a batch of items of the next queue that has some; waits for one. */
  struct data_plane_work (*next)(struct data_plane_hart *hart);
  /** Lets others have the queue. */
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
  uint64_t is_strict; /* The lowest queue first; otherwise one after the other. */
  uint64_t is_late;   /* See the top of this file. */
  uint64_t notify;
  uint8_t *results; /* A slot for each hart, if harts process items of one queue at once. */
  /* The first queue in the memory of the second socket; if there is none, their number. */
  uint64_t second_queue;
  uint64_t second_memory; /* The next free address there. */
} data_plane_state __attribute__((aligned(LINE_BYTES)));

/* Whether several harts share a queue. */
static inline int data_plane_is_shared(void) { return data_plane_state.cluster_cores > 1; }

/* The first queue of a cluster. */
static inline uint64_t data_plane_begin(uint64_t cluster) {
  return data_plane_state.queue_count * cluster / data_plane_state.clusters;
}

/* Where a hart looks after it has served a queue. */
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

/* In which lap of the ring an item is; one lap differs from the next. */
static inline uint8_t data_plane_lap(uint64_t index) {
  return (uint8_t)(index / data_plane_state.ring_slots + 1);
}

/* Before the items below `head` are counted as taken: waits until every item has been read whose
 * slot the device could then fill. No hart that reads one waits for this, so it ends. */
static inline void data_plane_await_readers(const struct data_plane_queue *queue, uint64_t head) {
  struct data_plane_sharing *sharing = queue->sharing;
  if (!sharing)
    return;
  uint64_t apart = data_plane_state.ring_slots - data_plane_state.capacity + 1;
  uint64_t below = __atomic_load_n(&sharing->read_below, __ATOMIC_RELAXED);
  if (head <= below + apart)
    return;
  /* As far as possible, so that the next look is far away. */
  for (; below < head; below++) {
    const uint8_t *lap = &sharing->laps[below & (data_plane_state.ring_slots - 1)];
    while (__atomic_load_n(lap, __ATOMIC_RELAXED) != data_plane_lap(below))
      if (head <= below + apart)
        goto enough;
  }
enough:
  /* The count is what the device sees; it must not be earlier than these reads. */
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  __atomic_store_n(&sharing->read_below, below, __ATOMIC_RELAXED);
}

/* How many items to take of a queue that has some and is this hart's. */
static inline uint64_t data_plane_batch(const struct io_doorbell *doorbell) {
  if (data_plane_state.batch == 1)
    return 1;
  uint64_t count = __atomic_load_n(&doorbell->items, __ATOMIC_ACQUIRE);
  return count < data_plane_state.batch ? count : data_plane_state.batch;
}

/* Dequeues from a queue that has items and is this hart's: counts them down. */
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
