/**
 * Receive-burst loops over drivers of network interfaces: the common part of
 * notify/more/spin-mlx5.h and spin-ixgbe-vector.h.
 *
 * The loop is that of DPDK 18.11's TestPMD (app/test-pmd): an array of pointers to *streams*, each
 * of which names a port and a queue. For each stream it calls a function through a pointer, which
 * calls the driver's receive-burst function through the port's table, like rte_eth_rx_burst()
 * (lib/librte_ethdev). On its way to the driver an empty poll loads:
 *
 * - the pointer to the stream and the stream, a line;
 * - the port: the driver's function, the array of queues and that of callbacks, lines that all
 *   polls share;
 * - the pointer to the queue and the pointer to its callbacks, of which there are none
 *   (RTE_ETHDEV_RXTX_CALLBACKS).
 *
 * A queue belongs to one hart: "DPDK does not support sharing a NIC queue among multiple cores"
 * (Golestani et al., SoCC 2019, Section 7).
 *
 * No item is lost: the device writes completions in order and never more than fit, and a driver
 * takes each once, since it advances its index by the number that it returns.
 */
#ifndef NOTIFY_RECEIVE_BURST_H
#define NOTIFY_RECEIVE_BURST_H

#include <notify/queues.h>

enum {
  RECEIVE_PAGE_BYTES = 4096,
  RECEIVE_AT_ONCE = 4,
  /* The distance of buffers, with DPDK's usual sizes: a pool's header of a line, the buffer's two
   * lines, head-room of 128 bytes and 2 KiB of data. */
  RECEIVE_BUFFER_BYTES = 37 * LINE_BYTES,
};
/* Head-room, one reference, one segment. */
#define RECEIVE_REARM (128 | 1ul << 16 | 1ul << 32)

/* A packet buffer's first line: struct rte_mbuf of DPDK 18.11, which has a second one. */
struct receive_buffer {
  uint64_t address;
  uint64_t bus_address;
  uint64_t rearm; /* Offset of the data, references, segments and port: the same for all. */
  uint64_t flags;
  uint32_t packet_type;
  uint32_t packet_bytes;
  uint16_t data_bytes;
  uint16_t vlan;
  uint32_t hash;
  uint32_t flow;
  uint16_t outer_vlan;
  uint16_t buffer_bytes;
  uint64_t timestamp;
  uint64_t second_line[LINE_BYTES / 8];
} __attribute__((aligned(LINE_BYTES)));
_Static_assert(sizeof(struct receive_buffer) == 2 * LINE_BYTES, "two lines");

/* Fills `buffers` with up to `most` received ones. Returns their number. */
typedef uint64_t (*receive_function)(void *queue, struct receive_buffer **buffers, uint64_t most);

/* struct fwd_stream of TestPMD. */
struct receive_stream {
  uint16_t port;
  uint16_t queue;
  uint16_t send_port;
  uint16_t send_queue;
  uint32_t packets;
} __attribute__((aligned(LINE_BYTES)));

/* struct rte_eth_dev, and behind a pointer struct rte_eth_dev_data. */
static struct receive_port {
  receive_function burst;
  struct receive_port_data {
    void **queues;
  } *data;
  void (**callbacks)(uint64_t count);
} __attribute__((aligned(LINE_BYTES))) receive_ports[1];

/* A word that reports the number of items read to the device; in its own line. */
struct receive_taken {
  uint64_t count;
} __attribute__((aligned(LINE_BYTES)));

static struct {
  struct receive_stream **streams;
  struct receive_taken *taken;
  uint64_t *first; /* The index of each queue's next item. */
  uint8_t *pool;
} receive;

/* A buffer of the pool. Items are in the slots of their ring: only a buffer's metadata lines are
 * used. */
static inline struct receive_buffer *receive_pool_buffer(uint64_t number) {
  return (struct receive_buffer *)(receive.pool + number * RECEIVE_BUFFER_BYTES);
}

/* rte_eth_rx_burst(). */
static inline uint64_t receive_burst(uint16_t number, uint16_t queue,
                                     struct receive_buffer **buffers, uint64_t most) {
  struct receive_port *port = &receive_ports[number];
  uint64_t count = port->burst(port->data->queues[queue], buffers, most);
  void (*callback)(uint64_t count) = __atomic_load_n(&port->callbacks[queue], __ATOMIC_RELAXED);
  if (callback)
    callback(count);
  return count;
}

/* TestPMD's function for a stream; here the caller forwards. */
static __attribute__((noinline)) uint64_t receive_forward(struct receive_stream *stream) {
  struct receive_buffer *buffers[32 + RECEIVE_AT_ONCE];
  uint64_t most = data_plane_state.batch < 32 ? data_plane_state.batch : 32;
  uint64_t count = receive_burst(stream->port, stream->queue, buffers, most);
  if (count)
    stream->packets += (uint32_t)count;
  return count;
}

static inline struct data_plane_work receive_next(struct data_plane_hart *hart) {
  /* Through a pointer, as in TestPMD, so that the compiler cannot inline the call. */
  uint64_t (*call)(struct receive_stream *) = receive_forward;
  __asm__("" : "+r"(call));
  uint64_t number = hart->next, count;
  while (!(count = call(receive.streams[number])))
    number = number + 1 == hart->end ? hart->begin : number + 1;
  hart->next = data_plane_after(hart, number);
  struct data_plane_work work = {.queue = number,
                                 .first = receive.first[number],
                                 .count = count,
                                 .taken = &receive.taken[number].count};
  receive.first[number] += count;
  return work;
}

static inline void receive_done(const struct data_plane_hart *hart,
                                const struct data_plane_work *work) {
  (void)hart;
  (void)work;
}

/* Page-aligned memory, as the drivers reserve it for rings. */
static inline void *receive_pages(uint64_t bytes) {
  bytes = (bytes + RECEIVE_PAGE_BYTES - 1) / RECEIVE_PAGE_BYTES * RECEIVE_PAGE_BYTES;
  return aligned_alloc(RECEIVE_PAGE_BYTES, bytes);
}

/* Makes the port; the driver then makes its queues. */
static inline void receive_set_up(volatile struct io_registers *device, struct io_descriptor *table,
                                  receive_function burst, enum io_completions completions) {
  if (data_plane_is_shared())
    fail("A queue of a network interface belongs to one core: use data_plane.organisation = "
         "\"scale-out\".");
  static struct receive_port_data data;
  uint64_t queues = data_plane_state.queue_count;
  data.queues = aligned_alloc(LINE_BYTES, queues * sizeof *data.queues);
  receive_ports[0].burst = burst;
  receive_ports[0].data = &data;
  receive_ports[0].callbacks =
      aligned_alloc(LINE_BYTES, queues * sizeof *receive_ports[0].callbacks);
  receive.streams = aligned_alloc(LINE_BYTES, queues * sizeof *receive.streams);
  receive.taken = aligned_alloc(LINE_BYTES, queues * sizeof *receive.taken);
  receive.first = aligned_alloc(LINE_BYTES, queues * sizeof *receive.first);
  struct receive_stream *streams = aligned_alloc(LINE_BYTES, queues * sizeof *streams);
  for (uint64_t number = 0; number < queues; number++) {
    streams[number] = (struct receive_stream){.queue = (uint16_t)number};
    receive.streams[number] = &streams[number];
    table[number].taken = (uint64_t)&receive.taken[number].count;
  }
  receive.pool = aligned_alloc(LINE_BYTES, queues * data_plane_state.ring_slots *
                                               (uint64_t)RECEIVE_BUFFER_BYTES);
  device->completions = completions;
}

#endif
