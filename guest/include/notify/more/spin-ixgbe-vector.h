/**
 * spin-ixgbe-vector: polling as DPDK 18.11 does it on an Intel 82599.
 *
 * The receive function is a scalar equivalent of _recv_raw_pkts_vec() in
 * drivers/net/ixgbe/ixgbe_rxtx_vec_sse.c. Unlike that of mlx5 (spin-mlx5.h), it checks the done bit
 * of the next descriptor first, and returns if it is clear: an empty poll reads two lines of the
 * queue and one of descriptors. Otherwise it processes four descriptors and four buffers at a time.
 *
 * As in DPDK, descriptors are 16 bytes with a done bit (enum io_completions), a ring has the room
 * of the largest one and 32 descriptors more (RX_RING_SZ) and is aligned to 128 bytes, not to a
 * page, and the queue's fields are in the same lines as in struct ixgbe_rx_queue.
 *
 * Left out: VLANs, packet types, and the pool's cache. The original posts buffers when 32 have been
 * taken, for which an empty poll reads one more field; a ring here can be shorter, so each burst
 * clears its descriptors for the next lap. A burst of fewer than four returns the first ones; the
 * original returns none.
 */
#ifndef NOTIFY_SPIN_IXGBE_VECTOR_H
#define NOTIFY_SPIN_IXGBE_VECTOR_H

#include <notify/bitmap.h>
#include <notify/receive_burst.h>
#include <stddef.h>

enum { IXGBE_DONE = 1, IXGBE_RING_BYTES = (4096 + 32) * 16, IXGBE_ALIGN = 128 };

/* A descriptor in the device's write-back format. */
struct ixgbe_descriptor {
  uint32_t packet_info;
  uint32_t hash;
  uint32_t status;
  uint16_t bytes;
  uint16_t vlan;
};

/* A receive queue: the first lines of struct ixgbe_rx_queue of DPDK 18.11. */
struct ixgbe_queue {
  void *pool;
  volatile struct ixgbe_descriptor *ring;
  uint64_t ring_bus_address;
  volatile uint64_t *tail_register; /* Here: where the device reads the number of taken items. */
  void *head_register;
  struct receive_buffer **buffers;
  void *scattered[3];
  uint64_t rearm; /* At 72. */
  uint16_t entries;
  uint16_t tail;
  uint64_t unused[4];
  uint64_t taken; /* All of them. */
} __attribute__((aligned(LINE_BYTES)));
_Static_assert(offsetof(struct ixgbe_queue, rearm) == 72,
               "the fields are in the lines in which DPDK 18.11 has them");

/* Fills in a buffer from a descriptor. */
static inline __attribute__((always_inline)) void
ixgbe_fill(const struct ixgbe_queue *queue, const volatile struct ixgbe_descriptor *descriptor,
           struct receive_buffer *buffer) {
  uint32_t bytes = descriptor->bytes;
  buffer->rearm = queue->rearm;
  buffer->flags = 0;
  buffer->packet_type = descriptor->packet_info & 0xfff;
  buffer->packet_bytes = bytes;
  buffer->data_bytes = (uint16_t)bytes;
  buffer->vlan = descriptor->vlan;
  buffer->hash = descriptor->hash;
}

/* _recv_raw_pkts_vec(). */
static uint64_t ixgbe_receive(void *from, struct receive_buffer **buffers, uint64_t most) {
  struct ixgbe_queue *queue = from;
  volatile struct ixgbe_descriptor *next = &queue->ring[queue->tail];
  if (!(next->status & IXGBE_DONE))
    return 0;
  struct receive_buffer **posted = &queue->buffers[queue->tail];
  uint64_t received = 0, left = queue->entries - queue->tail;
  if (most > left)
    most = left;
  while (received < most) {
    uint64_t undone = 1 << RECEIVE_AT_ONCE;
    for (uint64_t place = RECEIVE_AT_ONCE; place-- > 0;) {
      buffers[received + place] = posted[place];
      undone |= (~next[place].status & IXGBE_DONE) << place;
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    for (uint64_t place = RECEIVE_AT_ONCE; place-- > 0;)
      ixgbe_fill(queue, &next[place], posted[place]);
    uint64_t done = bitmap_first(undone);
    received += done;
    next += done;
    posted += done;
    if (done != RECEIVE_AT_ONCE)
      break;
  }
  if (received > most)
    received = most;
  /* For the next lap, before the device may reuse the entries. */
  for (uint64_t place = 0; place < received; place++)
    queue->ring[queue->tail + place].status = 0;
  queue->tail = (uint16_t)((queue->tail + received) & (queue->entries - 1));
  queue->taken += received;
  *queue->tail_register = queue->taken;
  return received;
}

static inline void ixgbe_set_up(volatile struct io_registers *device, struct io_descriptor *table) {
  receive_set_up(device, table, ixgbe_receive, IO_COMPLETIONS_DONE_BIT);
  uint64_t entries = data_plane_state.ring_slots;
  struct io_consumer *consumers = (struct io_consumer *)device->consumers;
  if ((entries + 32) * sizeof(struct ixgbe_descriptor) > IXGBE_RING_BYTES)
    fail("A ring of the 82599 has at most 4096 descriptors: use a smaller traffic.queue_capacity.");
  for (uint64_t number = 0; number < data_plane_state.queue_count; number++) {
    struct ixgbe_queue *queue = aligned_alloc(LINE_BYTES, sizeof *queue);
    queue->buffers =
        aligned_alloc(LINE_BYTES, (entries + RECEIVE_AT_ONCE) * sizeof *queue->buffers);
    queue->tail_register = &consumers[number].taken;
    queue->rearm = RECEIVE_REARM;
    queue->entries = (uint16_t)entries;
    struct receive_buffer *fake = aligned_alloc(LINE_BYTES, sizeof *fake);
    for (uint64_t entry = 0; entry < entries + RECEIVE_AT_ONCE; entry++)
      queue->buffers[entry] =
          entry < entries ? receive_pool_buffer(number * entries + entry) : fake;
    receive_ports[0].data->queues[number] = queue;
  }
  for (uint64_t number = 0; number < data_plane_state.queue_count; number++) {
    struct ixgbe_queue *queue = receive_ports[0].data->queues[number];
    queue->ring = aligned_alloc(IXGBE_ALIGN, IXGBE_RING_BYTES);
    aligned_alloc(IXGBE_ALIGN, IXGBE_ALIGN); /* The header in front of a zone of memory. */
    table[number].completions = (uint64_t)queue->ring;
  }
}

static const struct notify_mechanism notify_ixgbe = {ixgbe_set_up, receive_next, receive_done};

#define NOTIFY_CODE IO_NOTIFY_SPIN_IXGBE_VECTOR
#define NOTIFY_MECHANISM notify_ixgbe

#endif
