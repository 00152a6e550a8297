/**
 * spin-poll-mode: polling as in DPDK's poll-mode drivers.
 *
 * For every queue in turn the data plane calls a receive-burst function through a pointer in the
 * port's table, like rte_eth_rx_burst() (lib/ethdev/rte_ethdev.h), and processes up to 32 items.
 * The driver is that of DPDK for lock-free queues in memory: eth_ring_rx() of
 * drivers/net/ring/rte_eth_ring.c over an rte_ring (lib/ring/rte_ring_core.h) with one producer and
 * one consumer. An empty poll reads the same as in DPDK:
 *
 * - the port's table, the pointer to the queue, and the pointer to the queue's callbacks, of which
 *   there are none (RTE_ETHDEV_RXTX_CALLBACKS, which is enabled by default);
 * - the queue, half a line;
 * - the ring's three lines: flags, the consumer's index, and the producer's index, which the device
 *   increments (the doorbell).
 *
 * Drivers of network cards read about as much: ixgbe_recv_pkts() reads two lines of the queue and
 * one of descriptors. There are two differences. eth_ring_rx() adds to its count of packets even
 * when there are none; here only a count that changes is written. And rte_ring orders its loads;
 * here a fence is executed only if there are items. Polls of empty queues therefore write nothing,
 * and an out-of-order core can overlap several of them.
 *
 * A DPDK queue belongs to one hart. Harts that share queues need a lock around the call
 * (rte_spinlock_trylock()); they try it only if the ring is not empty.
 */
#ifndef NOTIFY_POLL_MODE_H
#define NOTIFY_POLL_MODE_H

#include <notify/queues.h>
#include <stddef.h>

enum { POLL_MODE_SINGLE_CONSUMER = 2 }; /* RING_F_SC_DEQ */

/* 0: harts that share queues try the lock of every queue, even of empty ones, to measure the cost.
 * No data plane here uses it. */
#ifndef POLL_MODE_LOOKS_FIRST
#define POLL_MODE_LOOKS_FIRST 1
#endif

/* A ring with the layout of struct rte_ring. The producer's line is the doorbell; the others are
 * those of struct io_consumer, so that the simulator observes when items are taken. */
struct poll_mode_ring {
  struct {
    uint32_t flags;
  } __attribute__((aligned(LINE_BYTES)));
  struct {
    uint64_t consumer; /* The index of the next item to take. */
    uint64_t lock;     /* Held by the hart that has the queue. */
  } __attribute__((aligned(LINE_BYTES)));
};

/* A driver's queue, as struct ring_queue. */
struct poll_mode_queue {
  struct poll_mode_ring *ring;
  const struct io_doorbell *producer; /* Its `items` is the index of the next item to arrive. */
  uint64_t number;
  uint64_t received; /* A statistic. */
};

/* A line that the device reads when the ring seems full. */
struct poll_mode_taken {
  uint64_t count;
} __attribute__((aligned(LINE_BYTES)));

/* Takes up to `most` items. Returns their number, and the first one's index in `first`. */
typedef uint64_t (*poll_mode_burst)(struct poll_mode_queue *queue, uint64_t most, uint64_t *first);

/* Called with the items of a burst. */
typedef void (*poll_mode_callback)(struct poll_mode_queue *queue, uint64_t first, uint64_t count);

/* A port: the equivalent of DPDK's rte_eth_fp_ops. */
static struct {
  poll_mode_burst burst;
  struct poll_mode_queue **queues;
  poll_mode_callback *callbacks;
  struct poll_mode_taken *taken;
} poll_mode_port;

/* The number of items in a ring. Indices are 32 bits wide. */
static inline uint64_t poll_mode_items(const struct poll_mode_queue *queue) {
  uint32_t produced = (uint32_t)io_count(queue->producer);
  return produced - (uint32_t)__atomic_load_n(&queue->ring->consumer, __ATOMIC_RELAXED);
}

/* The equivalent of rte_ring_dequeue_burst(). */
static inline uint64_t poll_mode_dequeue(struct poll_mode_queue *queue, uint64_t most,
                                         uint64_t *first) {
  uint64_t items = poll_mode_items(queue);
  if (items == 0)
    return 0;
  __atomic_thread_fence(
      __ATOMIC_ACQUIRE); /* The slots are read after the index; not needed for empty polls. */
  if (items > most)
    items = most;
  *first = queue->ring->consumer;
  data_plane_await_readers(&data_plane_state.queues[queue->number], *first + items);
  __atomic_store_n(&queue->ring->consumer, *first + items, __ATOMIC_RELAXED);
  return items;
}

/* The driver's function, as eth_ring_rx(). */
static uint64_t poll_mode_receive(struct poll_mode_queue *queue, uint64_t most, uint64_t *first) {
  uint64_t count = poll_mode_dequeue(queue, most, first);
  if (!(__atomic_load_n(&queue->ring->flags, __ATOMIC_RELAXED) & POLL_MODE_SINGLE_CONSUMER))
    __atomic_fetch_add(&queue->received, count, __ATOMIC_RELAXED);
  else if (count)
    queue->received += count;
  return count;
}

/* The equivalent of rte_eth_rx_burst(). */
static inline uint64_t poll_mode_receive_burst(uint64_t number, uint64_t most, uint64_t *first) {
  struct poll_mode_queue *queue = poll_mode_port.queues[number];
  uint64_t count = poll_mode_port.burst(queue, most, first);
  poll_mode_callback callback =
      __atomic_load_n(&poll_mode_port.callbacks[number], __ATOMIC_RELAXED);
  if (callback)
    callback(queue, *first, count);
  return count;
}

/* For harts that share queues. Returns whether this hart now has the queue. */
static inline int poll_mode_try_lock(uint64_t number) {
  struct poll_mode_queue *queue = poll_mode_port.queues[number];
  if (POLL_MODE_LOOKS_FIRST &&
      (poll_mode_items(queue) == 0 || __atomic_load_n(&queue->ring->lock, __ATOMIC_RELAXED)))
    return 0;
  return !__atomic_exchange_n(&queue->ring->lock, 1, __ATOMIC_ACQUIRE);
}

static inline struct data_plane_work poll_mode_next(struct data_plane_hart *hart) {
  uint64_t number = hart->next, first, count;
  for (;; number = number + 1 == hart->end ? hart->begin : number + 1) {
    if (data_plane_is_shared() && !poll_mode_try_lock(number))
      continue;
    count = poll_mode_receive_burst(number, data_plane_state.batch, &first);
    if (count)
      break;
    if (data_plane_is_shared())
      data_plane_unlock(&poll_mode_port.queues[number]->ring->lock);
  }
  hart->next = data_plane_after(hart, number);
  struct data_plane_work work = {.queue = number,
                                 .first = first,
                                 .count = count,
                                 .taken = &poll_mode_port.taken[number].count};
  if (data_plane_state.queues[work.queue].sharing) {
    /* Other harts may have older items: the device is notified immediately, and kept away from them
     * by data_plane_await_readers(). Under the lock, so that the count only increases. */
    __atomic_store_n(work.taken, work.first + work.count, __ATOMIC_RELEASE);
    work.taken = 0;
  }
  return work;
}

static inline void poll_mode_done(const struct data_plane_hart *hart,
                                  const struct data_plane_work *work) {
  (void)hart;
  if (data_plane_is_shared())
    data_plane_unlock(&poll_mode_port.queues[work->queue]->ring->lock);
}

_Static_assert(sizeof(struct poll_mode_ring) == sizeof(struct io_consumer) &&
                   offsetof(struct poll_mode_ring, consumer) == offsetof(struct io_consumer, taken),
               "the device sees the consumer's index");

static inline void poll_mode_set_up(volatile struct io_registers *device,
                                    struct io_descriptor *table) {
  uint64_t queues = data_plane_state.queue_count;
  struct poll_mode_queue *driver = aligned_alloc(LINE_BYTES, queues * sizeof *driver);
  struct poll_mode_ring *rings = (struct poll_mode_ring *)device->consumers;
  poll_mode_port.burst = poll_mode_receive;
  poll_mode_port.queues = aligned_alloc(LINE_BYTES, queues * sizeof *poll_mode_port.queues);
  poll_mode_port.callbacks = aligned_alloc(LINE_BYTES, queues * sizeof *poll_mode_port.callbacks);
  poll_mode_port.taken = aligned_alloc(LINE_BYTES, queues * sizeof *poll_mode_port.taken);
  for (uint64_t number = 0; number < queues; number++) {
    /* Harts that share a queue are serialized by its lock. */
    rings[number] = (struct poll_mode_ring){{.flags = POLL_MODE_SINGLE_CONSUMER}, {}};
    driver[number] = (struct poll_mode_queue){
        .ring = &rings[number],
        .producer = data_plane_state.queues[number].doorbell,
        .number = number,
    };
    poll_mode_port.queues[number] = &driver[number];
    table[number].taken = (uint64_t)&poll_mode_port.taken[number].count;
  }
}

static const struct notify_mechanism notify_poll_mode = {poll_mode_set_up, poll_mode_next,
                                                         poll_mode_done};

#endif
