/**
 * spin-mlx5: polling as in DPDK 18.11 on a ConnectX-5, the interface of both papers' servers
 * (Golestani et al., SoCC 2019, Table 1; HyperPlane, MICRO 2020, Section II-C).
 *
 * The receive function is a scalar equivalent of rxq_burst_v() in
 * drivers/net/mlx5/mlx5_rxtx_vec_sse.h, which processes four packets at a time. Even an empty poll
 * reads the next four completions and the next four buffers' pointers and fills in the four
 * buffers, and only then checks which of the completions are valid. Each vector of 16 bytes is two
 * words here, and a shuffle of its bytes some shifts: docs/polling.md compares the measured
 * instructions and lines of an empty poll with those of the original.
 *
 * As in DPDK, completions are entries of 64 bytes with an owner bit (enum io_completions), a ring
 * of them begins on a page (mlx5_alloc_verbs_buf()), and the queue's fields are at the offsets of
 * struct mlx5_rxq_data, of whose nine lines a poll reads five, followed by the buffers' pointers.
 * There is a fence only if items have arrived: on x86-64 loads need none.
 *
 * Left out: compressed completions, flow marks, timestamps, errors, and the pool's cache: the
 * buffer of a slot is posted again when its item has been read. A burst of fewer than four returns
 * the first ones and reads the others again; the original returns none.
 */
#ifndef NOTIFY_SPIN_MLX5_H
#define NOTIFY_SPIN_MLX5_H

#include <notify/bitmap.h>
#include <notify/receive_burst.h>
#include <stddef.h>

/* A completion in the device's format; big-endian. */
struct mlx5_completion {
  uint8_t packet_info;
  uint8_t reserved[11];
  uint32_t hash;
  uint8_t hash_type;
  uint8_t reserved_too[11];
  uint16_t header_type;
  uint16_t vlan;
  uint8_t reserved_as_well[12];
  uint32_t bytes;
  uint64_t timestamp;
  uint64_t last; /* The flow's tag, the receive entry's index, and in the upper byte opcode, format
                    and owner. */
};
_Static_assert(sizeof(struct mlx5_completion) == LINE_BYTES, "a line");

enum {
  MLX5_OWNER = 1,
  MLX5_INVALID = 0xf0,
  MLX5_COMPRESSED = 0x0c,
  MLX5_CHECKSUM_FLAGS = 0x106,
};

/* A receive queue: struct mlx5_rxq_data of DPDK 18.11, with the same offsets. */
struct mlx5_queue {
  struct {
    uint32_t log_entries;
    uint32_t has_hash;
    volatile uint32_t *posted;   /* Doorbell record of the receive queue. */
    volatile uint64_t *consumed; /* Doorbell record of the completion queue. */
    uint16_t port;
    uint32_t receive_index;
    uint16_t strides;
    uint32_t returned_index;
    uint32_t completion_index;
    uint16_t replenish_threshold;
  } __attribute__((aligned(LINE_BYTES)));
  uint8_t memory_regions[240 - LINE_BYTES];
  void *receive_entries; /* At 240. */
  struct mlx5_completion *completions;
  uint64_t compressed[2];
  struct receive_buffer **buffers; /* At 272. */
  void *pools[3];
  uint64_t statistics[5];
  uint64_t rearm; /* At 344. */
  uint64_t unused[4];
  struct receive_buffer fake; /* At 384: behind the last pointers. */
  void *user_access;          /* At 512. */
  uint32_t number;
  uint8_t armed;
  uint32_t tunnel;
  /* The control plane's part of the queue takes a line or two. */
  struct receive_buffer *pointers[] __attribute__((aligned(LINE_BYTES)));
};
_Static_assert(offsetof(struct mlx5_queue, completions) == 248 &&
                   offsetof(struct mlx5_queue, buffers) == 272 &&
                   offsetof(struct mlx5_queue, rearm) == 344 &&
                   offsetof(struct mlx5_queue, tunnel) == 528,
               "the fields are in the lines in which DPDK 18.11 has them");

/* The packet type by packet information and type of header (mlx5_ptype_table). */
static uint32_t mlx5_packet_types[256] __attribute__((aligned(LINE_BYTES)));

/* A big-endian number of this many bits: REV8 of Zbb, which is not enabled in the compiler, in
 * place of the original's shuffle. */
static inline uint64_t mlx5_number(uint64_t value, int bits) {
  uint64_t swapped;
  __asm__(".insn i 0x13, 5, %0, %1, 0x6b8" : "=r"(swapped) : "r"(value));
  return swapped >> (64 - bits);
}

/* Fills in a buffer from a completion: lengths, VLAN, hash, flags and type. */
static inline __attribute__((always_inline)) void
mlx5_fill(const struct mlx5_queue *queue, const volatile struct mlx5_completion *completion,
          uint64_t last, struct receive_buffer *buffer) {
  uint64_t length = mlx5_number(((const volatile uint16_t *)&completion->bytes)[1], 16);
  uint64_t vlan = mlx5_number(completion->vlan, 16);
  uint64_t hash = mlx5_number(completion->hash, 32);
  uint64_t info = (completion->header_type & 0xfd06) | (uint64_t)(completion->packet_info & 3)
                                                           << 16;
  uint64_t type = info >> 10 & 0xff;
  uint64_t good = info & MLX5_CHECKSUM_FLAGS;
  uint64_t words[2] = {mlx5_packet_types[type] | (type >> 6 & 1) * queue->tunnel | length << 32,
                       length | vlan << 16 | hash << 32};
  *(volatile uint64_t *)&buffer->packet_type = words[0];
  *(volatile uint64_t *)&buffer->data_bytes = words[1];
  *(volatile uint32_t *)&buffer->flow = (uint32_t)last & 0xffffff;
  *(volatile uint64_t *)&buffer->rearm = queue->rearm;
  *(volatile uint64_t *)&buffer->flags = queue->has_hash << 1 | (good << 6 | good >> 1);
}

/* The number of valid completions among four, from the first on. `owner` is the owner bit of
 * invalid ones. */
static inline __attribute__((always_inline)) uint64_t mlx5_valid(const uint64_t *last,
                                                                 uint64_t owner) {
  uint64_t invalid = 0;
  for (int place = 0; place < RECEIVE_AT_ONCE; place++) {
    uint64_t own = last[place] >> 56;
    uint64_t is_stale = (own & MLX5_OWNER) == owner;
    uint64_t is_invalid = (own & MLX5_INVALID) == MLX5_INVALID;
    uint64_t is_compressed = (own & MLX5_COMPRESSED) == MLX5_COMPRESSED;
    invalid |= (is_stale | is_invalid | is_compressed) << place;
  }
  return bitmap_first(invalid | 1 << RECEIVE_AT_ONCE);
}

/* rxq_burst_v(). */
static uint64_t mlx5_receive(void *from, struct receive_buffer **buffers, uint64_t most) {
  struct mlx5_queue *queue = from;
  uint64_t entries = 1ul << queue->log_entries, mask = entries - 1;
  uint64_t index = queue->completion_index, received = 0;
  uint64_t owner = index & entries ? 0 : MLX5_OWNER;
  volatile struct mlx5_completion *completion = &queue->completions[index & mask];
  struct receive_buffer **posted = &queue->buffers[index & mask];
  if (entries - (queue->receive_index - queue->returned_index) >= queue->replenish_threshold)
    *queue->posted = queue->receive_index = queue->returned_index + (uint32_t)entries;
  if (most > entries - (index & mask))
    most = entries - (index & mask);
  while (received < most) {
    /* At the end of the ring, repeat its last entry. */
    uint64_t left = entries - (index & mask) - received, one = left > 1, two = left > 2 ? 2 : one,
             three = left > 3 ? 3 : two;
    uint64_t last[RECEIVE_AT_ONCE];
    last[3] = completion[three].last;
    last[2] = completion[two].last;
    struct receive_buffer *zeroth = posted[0], *first = posted[1], *second = posted[2],
                          *third = posted[3];
    last[1] = completion[one].last;
    last[0] = completion[0].last;
    *(struct receive_buffer *volatile *)&buffers[received] = zeroth;
    *(struct receive_buffer *volatile *)&buffers[received + 1] = first;
    *(struct receive_buffer *volatile *)&buffers[received + 2] = second;
    *(struct receive_buffer *volatile *)&buffers[received + 3] = third;
    mlx5_fill(queue, &completion[three], last[3], third);
    mlx5_fill(queue, &completion[two], last[2], second);
    mlx5_fill(queue, &completion[one], last[1], first);
    mlx5_fill(queue, &completion[0], last[0], zeroth);
    uint64_t valid = mlx5_valid(last, owner);
    if (valid > left)
      valid = left;
    received += valid;
    completion += valid;
    posted += valid;
    if (valid != RECEIVE_AT_ONCE)
      break;
  }
  if (received == 0)
    return 0;
  if (received > most)
    received = most;
  __atomic_thread_fence(__ATOMIC_ACQUIRE); /* The items are read after their completions. */
  queue->completion_index += (uint32_t)received;
  queue->returned_index += (uint32_t)received;
  queue->statistics[1] += received;
  *queue->consumed = queue->completion_index;
  return received;
}

static inline void mlx5_set_up(volatile struct io_registers *device, struct io_descriptor *table) {
  receive_set_up(device, table, mlx5_receive, IO_COMPLETIONS_OWNER_BIT);
  uint64_t entries = data_plane_state.ring_slots;
  struct io_consumer *consumers = (struct io_consumer *)device->consumers;
  uint32_t log_entries = 0;
  while (1ul << log_entries < entries)
    log_entries++;
  for (uint64_t number = 0; number < data_plane_state.queue_count; number++) {
    struct mlx5_queue *queue = aligned_alloc(
        LINE_BYTES, sizeof *queue + (entries + RECEIVE_AT_ONCE) * sizeof *queue->pointers);
    queue->buffers = queue->pointers;
    queue->rearm = RECEIVE_REARM;
    queue->number = (uint32_t)number;
    queue->log_entries = log_entries;
    queue->posted = (volatile uint32_t *)&consumers[number].own;
    queue->consumed = &consumers[number].taken;
    queue->receive_index = (uint32_t)entries;
    queue->replenish_threshold = (uint16_t)(entries / 4 < 64 ? entries / 4 : 64);
    for (uint64_t entry = 0; entry < entries; entry++)
      queue->buffers[entry] = receive_pool_buffer(number * entries + entry);
    for (uint64_t entry = entries; entry < entries + RECEIVE_AT_ONCE; entry++)
      queue->buffers[entry] = &queue->fake;
    receive_ports[0].data->queues[number] = queue;
  }
  for (uint64_t number = 0; number < data_plane_state.queue_count; number++) {
    struct mlx5_queue *queue = receive_ports[0].data->queues[number];
    queue->completions = receive_pages(entries * sizeof *queue->completions);
    for (uint64_t entry = 0; entry < entries; entry++)
      queue->completions[entry].last = (uint64_t)(MLX5_INVALID | MLX5_OWNER) << 56;
    table[number].completions = (uint64_t)queue->completions;
  }
}

static const struct notify_mechanism notify_mlx5 = {mlx5_set_up, receive_next, receive_done};

#define NOTIFY_CODE IO_NOTIFY_SPIN_MLX5
#define NOTIFY_MECHANISM notify_mlx5

#endif
