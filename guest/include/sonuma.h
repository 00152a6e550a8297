/**
 * Scale-Out NUMA (ASPLOS 2014) with RPCValet's messages (ASPLOS 2019): the programming interface of
 * an integrated network interface.
 *
 *     sonuma_open();                             on one hart, once
 *     harts_release();
 *     io_device()->start = 1;                    messages come from now on
 *
 *     struct sonuma_endpoint *endpoint = sonuma_endpoint(hart);       on each hart
 *     for (;;) {
 *       struct sonuma_message message = sonuma_receive(endpoint);
 *       ... read message.data, write a reply into a buffer ...
 *       sonuma_send(endpoint, message.ctx_id, message.node, buffer, bytes);
 *       sonuma_replenish(endpoint, &message);
 *     }
 *
 * A *context* is a global address space with a number, ctx_id. Each participating node registers a
 * *segment* of its memory with it. A one-sided operation names the context, a node, and an offset
 * in that node's segment:
 *
 *     sonuma_open_context(1, segment, bytes);
 *     sonuma_read(endpoint, 1, node, buffer, offset, bytes);
 *
 * The remote node checks context and bounds, and answers with an error, which is returned through
 * the completion queue. Segments of two contexts do not overlap, so that no operation in one
 * reaches memory of the other.
 *
 * A context may have a *messaging domain* (RPCValet, Section 4.2): a send buffer and a receive
 * buffer in memory, with S slots in each for each of its N nodes. A message goes into the slot with
 * the same number at the other end. By `replenish` the receiver reports that it has processed the
 * message; then the sender may reuse its slot. The description determines which contexts have a
 * domain, and which harts receive the messages of each (`server.rpcvalet.domains`). sonuma_open()
 * opens all of them.
 *
 * Each hart has a *queue pair* for all contexts: it posts requests to its work queue, each with its
 * context, and receives messages and results in its completion queue; both are in memory, with an
 * entry a line.
 *
 * If harts take messages off their domain's shared queue themselves (`server.rpcvalet.dispatch.mode
 * = "software"`), they use a queue lock, as in RPCValet. If the program has the parameter `turns` =
 * 1, there is no lock: an idle hart takes the next number by fetch-and-add, and the entry with that
 * number belongs to it, whenever it arrives.
 *
 * An endpoint is private to its hart. The hart that has received a message replenishes it.
 */
#ifndef SONUMA_H
#define SONUMA_H

#include <io.h>
#include <memory_map.h>
#include <runtime.h>
#include <stdint.h>
#include <stdlib.h>

/** The registers of the network interface, 64 bits each: a block for each context. In a context
 * without a messaging domain, those of messages are 0. */
struct sonuma_registers {
  uint64_t nodes;              /**< 0x00: N. */
  uint64_t slots;              /**< 0x08: S. */
  uint64_t max_message_bytes;  /**< 0x10: bytes of the largest message. */
  uint64_t queue_pairs;        /**< 0x18: the queue pairs: hart k's first line is line k. */
  uint64_t stride_lines;       /**< 0x20: lines between consecutive entries of a hart. */
  uint64_t work_entries;       /**< 0x28: entries of a work queue. */
  uint64_t completion_entries; /**< 0x30: entries of a completion queue, which follows. */
  uint64_t shared_bytes;       /**< 0x38: bytes of the shared completion queues. */
  uint64_t shared_entries;     /**< 0x40: entries of each of these. */
  uint64_t is_software;        /**< 0x48: 1: harts take messages off the shared queue. */
  uint64_t harts;              /**< 0x50: the number of harts with a queue pair. */
  uint64_t shared_head;        /**< 0x58: in software, the shared queue's head, a count. */
  uint64_t send_buffer;        /**< 0x60: write the address of the send slots, ... */
  uint64_t receive_buffer;     /**< 0x68: ... the receive slots, ... */
  uint64_t shared_queues;      /**< 0x70: ... and the shared queues: multiples of 64. */
  uint64_t open;               /**< 0x78: write 1: the domain is open. */
  uint64_t segment;            /**< 0x80: write the start of the segment, ... */
  uint64_t segment_bytes;      /**< 0x88: ... its length, ... */
  uint64_t open_context;       /**< 0x90: ... and 1. It then reads 1: the context is open. */
  uint64_t registered;         /**< 0x98: the result: an enum sonuma_registered. */
  uint64_t domains;            /**< 0xa0: the number of contexts with a domain: the first ones. */
  uint64_t domain_first_hart;  /**< 0xa8: the first hart that receives the domain's messages, ... */
  uint64_t domain_harts;       /**< 0xb0: ... and their number. */
  uint64_t domain_first_node;  /**< 0xb8: its node 0's number among the nodes of all domains. */
  uint64_t unused[(0x100 - 0xc0) / 8];
};

/** The number of contexts: ctx_id 0 to this - 1. */
enum { SONUMA_CONTEXTS = 16 };

/** The registers of a context. */
static inline volatile struct sonuma_registers *sonuma_device(uint64_t ctx_id) {
  return (volatile struct sonuma_registers *)SONUMA_REGISTERS_START + ctx_id;
}

/** Errors; 0 is success. */
enum sonuma_error {
  SONUMA_OK = 0,
  SONUMA_ALREADY_OPEN = -1, /**< The context, or its domain, is open. */
  SONUMA_NOT_OPEN = -2,     /**< The context, or its domain, is not open. */
  SONUMA_NO_SUCH_NODE = -3, /**< The node's number is not below the context's number of nodes. */
  SONUMA_TOO_LARGE = -4,    /**< More bytes than the largest message, read or segment. */
  SONUMA_EMPTY = -5,        /**< No bytes. */
  SONUMA_MISALIGNED = -6, /**< An address, an offset or a segment's size is not a multiple of 64. */
  SONUMA_NO_SLOT = -7,    /**< All slots for the node are in use: it has replenished none. */
  SONUMA_NOT_RECEIVED = -8,     /**< The message has been replenished, or is invalid. */
  SONUMA_NO_SUCH_CONTEXT = -9,  /**< There can only be SONUMA_CONTEXTS contexts. */
  SONUMA_NO_DOMAIN = -10,       /**< The description gives the context no messaging domain. */
  SONUMA_NOT_IN_MEMORY = -11,   /**< The segment is not in memory. */
  SONUMA_OVERLAPS = -12,        /**< The segment overlaps another context's. */
  SONUMA_UNKNOWN_CONTEXT = -13, /**< The other node has no segment in this context. */
  SONUMA_OUTSIDE_SEGMENT = -14, /**< Some bytes are beyond the end of the other node's segment. */
};

/* `struct sonuma_registers.registered` (crates/rpcvalet/src/context.rs). */
enum sonuma_registered {
  SONUMA_REGISTERED = 0,
  SONUMA_REGISTERED_ALREADY,
  SONUMA_REGISTERED_EMPTY,
  SONUMA_REGISTERED_MISALIGNED,
  SONUMA_REGISTERED_TOO_LARGE,
  SONUMA_REGISTERED_NOT_IN_MEMORY,
  SONUMA_REGISTERED_OVERLAPS,
};

/* Kinds of entries (crates/rpcvalet/src/header.rs), and the positions of the fields of their first
 * word. */
enum {
  SONUMA_POST_SEND = 32,
  SONUMA_POST_REPLENISH = 33,
  SONUMA_POST_READ = 34,
  SONUMA_POST_WRITE = 35,
  SONUMA_DISPATCH = 37,
  SONUMA_NODE = 6,
  SONUMA_SLOT = 20,
  SONUMA_PHASE = 32,
  SONUMA_CONTEXT = 42,
  SONUMA_BYTES = 46,                /* In a completion: its status. */
  SONUMA_MAX_BYTES = (1 << 18) - 1, /**< In a one-sided operation. */
  SONUMA_MAX_PENDING = 32,
};
/** The largest segment. */
#define SONUMA_MAX_SEGMENT_BYTES (1ul << 34)

/** A send slot: 32 bytes (Figure 5a). */
struct sonuma_send_slot {
  uint64_t valid; /**< In use. The network interface resets it. */
  uint64_t payload;
  uint64_t bytes;
  uint64_t unused;
};

/** A received message. */
struct sonuma_message {
  const void *data; /**< In its receive slot; 64-byte aligned. */
  uint32_t bytes;
  uint16_t node; /**< The sender. */
  uint16_t slot;
  uint64_t ctx_id; /**< Its context. */
};

/* A queue lock (Mellor-Crummey and Scott, 1991). */
struct sonuma_lock_node {
  struct sonuma_lock_node *next;
  uint64_t waits;
} __attribute__((aligned(LINE_BYTES)));

/* The shared state of harts that take messages off one shared queue: a lock, or the next number. */
struct sonuma_sharing {
  struct sonuma_lock_node *lock;
  uint64_t next_turn __attribute__((aligned(LINE_BYTES))); /* A line of its own. */
} __attribute__((aligned(LINE_BYTES)));

/* A hart's state of its messaging domain for each message: one line. */
struct sonuma_hart_domain {
  uint64_t ctx_id;
  uint64_t slots, receive_stride;
  const uint8_t *receive_buffer;
  /* In software, otherwise null: the address of the shared queue's head, the address of its entry
   * with the phase in the lowest bit, the queue, and the state of the harts that share it. */
  uint64_t *head;
  uint64_t *shared, *shared_end;
  struct sonuma_sharing *sharing;
} __attribute__((aligned(LINE_BYTES)));

/** A hart's queue pair, and the hart's state of it. */
struct sonuma_endpoint {
  /* The next entries of both queues, which are `stride` bytes apart, and their phases. */
  uint8_t *work, *completion;
  uint64_t work_phase, completion_phase;
  uint8_t *work_begin, *work_end, *completion_end;
  uint64_t stride;
  uint64_t *consumed; /* The number of work-queue entries that the network interface has read. */
  uint64_t posted;    /* Entries posted. */
  uint64_t free_from; /* At least this many of them have been read. */
  uint64_t pending_first, pending_end;
  uint64_t pending[SONUMA_MAX_PENDING]; /* Messages received while it waited for something else. */
  uint64_t turn; /* The number and phase of this hart's entry of the shared queue; or 0. */
  struct sonuma_hart_domain domain;
  struct sonuma_lock_node lock_node;
} __attribute__((aligned(LINE_BYTES)));

/* The program's state of a context. */
struct sonuma_context {
  /* Of its domain, if that is open. */
  uint64_t nodes, slots, max_message_bytes;
  struct sonuma_send_slot *send_buffer;
  uint8_t *receive_buffer;
  uint64_t receive_stride;
  uint32_t *heads; /* For each node, the send slot to try first. */
  uint64_t is_domain_open;
  /* Of the context. */
  uint64_t all_nodes;
  uint64_t is_open;
  struct sonuma_sharing sharing;
} __attribute__((aligned(4 * LINE_BYTES)));

static struct sonuma_context sonuma_contexts[SONUMA_CONTEXTS];

static struct {
  uint64_t work_entries;
  uint64_t by_turns;                 /* Whether the program has the parameter `turns`. */
  struct sonuma_endpoint *endpoints; /* Null: not made yet. */
} sonuma_state __attribute__((aligned(LINE_BYTES)));

/** The memory of a domain in bytes: 32 x N x S + (max_msg_size + 64) x N x S (Section 4.2). */
static inline uint64_t sonuma_footprint(uint64_t nodes, uint64_t slots, uint64_t max_bytes) {
  return nodes * slots * sizeof(struct sonuma_send_slot) + nodes * slots * (max_bytes + LINE_BYTES);
}

/* Cleared memory, as a driver allocates it. */
static inline void *sonuma_memory(uint64_t bytes) {
  void *memory = aligned_alloc(LINE_BYTES, bytes);
  io_cleared(memory, bytes);
  return memory;
}

/* Ends the program with a message if there is no such network interface. */
static inline void sonuma_expect_interface(void) {
  if (io_device()->notify != IO_NOTIFY_RPCVALET)
    fail(
        "This server has no network interface for messages: use data_plane.notify = \"rpcvalet\".");
}

/* Makes the harts' endpoints, once. */
static inline void sonuma_make_endpoints(void) {
  volatile struct sonuma_registers *device = sonuma_device(0);
  if (sonuma_state.endpoints)
    return;
  sonuma_state.work_entries = device->work_entries;
  uint64_t endpoints = device->harts, stride = device->stride_lines * LINE_BYTES;
  sonuma_state.endpoints = aligned_alloc(LINE_BYTES, endpoints * sizeof(struct sonuma_endpoint));
  for (uint64_t hart = 0; hart < endpoints; hart++) {
    uint8_t *work = (uint8_t *)device->queue_pairs + hart * LINE_BYTES;
    uint8_t *completion = work + sonuma_state.work_entries * stride;
    uint8_t *end = completion + device->completion_entries * stride;
    sonuma_state.endpoints[hart] = (struct sonuma_endpoint){
        .work = work,
        .work_phase = 1,
        .work_begin = work,
        .work_end = completion,
        .completion = completion,
        .completion_phase = 1,
        .completion_end = end,
        .stride = stride,
        .consumed = (uint64_t *)end,
    };
  }
}

/**
 * Opens a context: registers `bytes` bytes of memory at `segment` with it, which the other nodes
 * can read and write from then on; both are multiples of 64. A context is opened once, and stays
 * open. To be called on one hart, before the others use it. Ends the program with a message if
 * there is no such network interface.
 */
static inline int sonuma_open_context(uint64_t ctx_id, void *segment, uint64_t bytes) {
  static const int errors[] = {
      [SONUMA_REGISTERED] = SONUMA_OK,
      [SONUMA_REGISTERED_ALREADY] = SONUMA_ALREADY_OPEN,
      [SONUMA_REGISTERED_EMPTY] = SONUMA_EMPTY,
      [SONUMA_REGISTERED_MISALIGNED] = SONUMA_MISALIGNED,
      [SONUMA_REGISTERED_TOO_LARGE] = SONUMA_TOO_LARGE,
      [SONUMA_REGISTERED_NOT_IN_MEMORY] = SONUMA_NOT_IN_MEMORY,
      [SONUMA_REGISTERED_OVERLAPS] = SONUMA_OVERLAPS,
  };
  sonuma_expect_interface();
  if (ctx_id >= SONUMA_CONTEXTS)
    return SONUMA_NO_SUCH_CONTEXT;
  sonuma_make_endpoints();
  volatile struct sonuma_registers *device = sonuma_device(ctx_id);
  device->segment = (uint64_t)segment;
  device->segment_bytes = bytes;
  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* It precedes the interface's accesses. */
  device->open_context = 1;
  int error = errors[device->registered];
  if (error == SONUMA_OK) {
    sonuma_contexts[ctx_id].all_nodes = device->nodes;
    sonuma_contexts[ctx_id].is_open = 1;
  }
  return error;
}

/** Makes the messaging domain of an open context, if the description gives it one. To be called on
 * one hart, before the others use it. */
static inline int sonuma_open_domain(uint64_t ctx_id) {
  if (ctx_id >= SONUMA_CONTEXTS)
    return SONUMA_NO_SUCH_CONTEXT;
  struct sonuma_context *context = &sonuma_contexts[ctx_id];
  volatile struct sonuma_registers *device = sonuma_device(ctx_id);
  if (!context->is_open)
    return SONUMA_NOT_OPEN;
  if (context->is_domain_open)
    return SONUMA_ALREADY_OPEN;
  uint64_t nodes = device->nodes, slots = device->slots;
  if (!slots)
    return SONUMA_NO_DOMAIN;
  context->nodes = nodes;
  context->slots = slots;
  context->max_message_bytes = device->max_message_bytes;
  context->receive_stride = context->max_message_bytes + LINE_BYTES;
  uint64_t send_bytes = nodes * slots * sizeof(struct sonuma_send_slot);
  context->send_buffer = sonuma_memory((send_bytes + LINE_BYTES - 1) & ~(LINE_BYTES - 1ul));
  context->receive_buffer = sonuma_memory(nodes * slots * context->receive_stride);
  context->heads = aligned_alloc(LINE_BYTES, nodes * sizeof(uint32_t) + LINE_BYTES);
  uint64_t *shared = sonuma_memory(device->shared_bytes);
  uint64_t *head = device->is_software ? (uint64_t *)device->shared_head : 0;
  if (head) {
    *head = (uint64_t)shared | 1;
    sonuma_state.by_turns = io_parameter("turns", 0) != 0;
  }
  uint64_t first_hart = device->domain_first_hart, harts = device->domain_harts;
  for (uint64_t hart = first_hart; hart < first_hart + harts; hart++)
    sonuma_state.endpoints[hart].domain = (struct sonuma_hart_domain){
        .ctx_id = ctx_id,
        .slots = slots,
        .receive_stride = context->receive_stride,
        .receive_buffer = context->receive_buffer,
        .head = head,
        .shared = shared,
        .shared_end = shared + device->shared_entries,
        .sharing = &context->sharing,
    };
  device->send_buffer = (uint64_t)context->send_buffer;
  device->receive_buffer = (uint64_t)context->receive_buffer;
  device->shared_queues = (uint64_t)shared;
  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* It precedes the interface's accesses. */
  device->open = 1;
  context->is_domain_open = 1;
  return SONUMA_OK;
}

/** The number of contexts with a messaging domain in the description: the first ones. */
static inline uint64_t sonuma_domains(void) { return sonuma_device(0)->domains; }

/** Opens the contexts with a messaging domain, each with one line of memory as its segment, and
 * their domains. */
static inline int sonuma_open(void) {
  sonuma_expect_interface();
  uint64_t domains = sonuma_domains();
  for (uint64_t ctx_id = 0; ctx_id < domains; ctx_id++) {
    int error = sonuma_open_context(ctx_id, aligned_alloc(LINE_BYTES, LINE_BYTES), LINE_BYTES);
    if (error == SONUMA_OK)
      error = sonuma_open_domain(ctx_id);
    if (error != SONUMA_OK)
      return error;
  }
  return SONUMA_OK;
}

/** The endpoint of a hart; null if it has none. */
static inline struct sonuma_endpoint *sonuma_endpoint(int hart) {
  return (uint64_t)hart < sonuma_device(0)->harts ? &sonuma_state.endpoints[hart] : 0;
}

/* Writes an entry of the work queue; waits for room. Earlier writes are visible before it is. */
static inline void sonuma_post(struct sonuma_endpoint *endpoint, uint64_t word, const void *local,
                               uint64_t remote) {
  while (endpoint->posted - endpoint->free_from == sonuma_state.work_entries)
    endpoint->free_from = __atomic_load_n(endpoint->consumed, __ATOMIC_RELAXED);
  uint64_t *entry = (uint64_t *)endpoint->work;
  entry[0] = (uint64_t)local;
  entry[1] = remote;
  __atomic_store_n(&entry[7], word | endpoint->work_phase << SONUMA_PHASE, __ATOMIC_RELEASE);
  endpoint->posted++;
  endpoint->work += endpoint->stride;
  if (endpoint->work == endpoint->work_end) {
    endpoint->work = endpoint->work_begin;
    endpoint->work_phase ^= 1;
  }
}

/* Decodes a completion. The message is of the hart's domain, since it gets no others, so no look-up
 * depends on the entry, which has just arrived. */
static inline struct sonuma_message sonuma_message_of(const struct sonuma_endpoint *endpoint,
                                                      uint64_t word) {
  uint64_t node = word >> SONUMA_NODE & 0x3fff, slot = word >> SONUMA_SLOT & 0xfff;
  const struct sonuma_hart_domain *domain = &endpoint->domain;
  uint64_t place = node * domain->slots + slot;
  return (struct sonuma_message){
      .data = domain->receive_buffer + place * domain->receive_stride + LINE_BYTES,
      .bytes = (uint32_t)(word >> SONUMA_BYTES),
      .node = (uint16_t)node,
      .slot = (uint16_t)slot,
      .ctx_id = domain->ctx_id,
  };
}

/* The next entry of the completion queue, or 0. Memory is initially 0, which is not the phase of
 * the first lap. */
static inline uint64_t sonuma_completion(struct sonuma_endpoint *endpoint) {
  uint64_t word = __atomic_load_n((uint64_t *)endpoint->completion, __ATOMIC_RELAXED);
  if ((word >> SONUMA_PHASE & 1) != endpoint->completion_phase)
    return 0;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  endpoint->completion += endpoint->stride;
  if (endpoint->completion == endpoint->completion_end) {
    endpoint->completion = endpoint->work_end; /* After the work queue. */
    endpoint->completion_phase ^= 1;
  }
  return word;
}

static inline void sonuma_lock(struct sonuma_lock_node **lock, struct sonuma_lock_node *node) {
  node->next = 0;
  node->waits = 1;
  struct sonuma_lock_node *before = __atomic_exchange_n(lock, node, __ATOMIC_ACQ_REL);
  if (!before)
    return;
  __atomic_store_n(&before->next, node, __ATOMIC_RELEASE);
  while (__atomic_load_n(&node->waits, __ATOMIC_RELAXED))
    ;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

static inline void sonuma_unlock(struct sonuma_lock_node **lock, struct sonuma_lock_node *node) {
  struct sonuma_lock_node *next = __atomic_load_n(&node->next, __ATOMIC_ACQUIRE);
  if (!next) {
    struct sonuma_lock_node *last = node;
    if (__atomic_compare_exchange_n(lock, &last, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
      return;
    while (!(next = __atomic_load_n(&node->next, __ATOMIC_ACQUIRE)))
      ;
  }
  __atomic_store_n(&next->waits, 0, __ATOMIC_RELEASE);
}

/* The entry at a head of the shared queue, or 0. */
static inline uint64_t sonuma_shared_entry(uint64_t head) {
  uint64_t word = __atomic_load_n((uint64_t *)(head & ~7ul), __ATOMIC_RELAXED);
  return ((word >> SONUMA_PHASE ^ head) & 1) == 0 ? word : 0;
}

/* Takes the message with this hart's number, if it has arrived. A hart without a number takes the
 * next one. */
static inline uint64_t sonuma_take_turn(struct sonuma_endpoint *endpoint) {
  const struct sonuma_hart_domain *domain = &endpoint->domain;
  if (!endpoint->turn) {
    uint64_t count = __atomic_fetch_add(&domain->sharing->next_turn, 1, __ATOMIC_RELAXED);
    uint64_t entries = (uint64_t)(domain->shared_end - domain->shared);
    uint64_t phase = ~(count / entries) & 1;
    endpoint->turn = (uint64_t)(domain->shared + count % entries) | phase;
  }
  uint64_t word = sonuma_shared_entry(endpoint->turn);
  if (word) {
    endpoint->turn = 0;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
  }
  return word;
}

/* Takes a message off the shared queue, under the lock, which is not requested while the queue is
 * empty. */
static inline uint64_t sonuma_pull(struct sonuma_endpoint *endpoint) {
  if (sonuma_state.by_turns)
    return sonuma_take_turn(endpoint);
  const struct sonuma_hart_domain *domain = &endpoint->domain;
  if (!sonuma_shared_entry(__atomic_load_n(domain->head, __ATOMIC_RELAXED)))
    return 0;
  sonuma_lock(&domain->sharing->lock, &endpoint->lock_node);
  uint64_t head = *domain->head;
  uint64_t word = sonuma_shared_entry(head);
  if (word) {
    head += sizeof word;
    if ((head & ~7ul) == (uint64_t)domain->shared_end)
      head = (uint64_t)domain->shared | (~head & 1);
    __atomic_store_n(domain->head, head, __ATOMIC_RELAXED);
  }
  sonuma_unlock(&domain->sharing->lock, &endpoint->lock_node);
  if (word)
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return word;
}

/** Takes a message for this hart if there is one; returns whether there was. */
static inline int sonuma_poll(struct sonuma_endpoint *endpoint, struct sonuma_message *message) {
  uint64_t word;
  if (endpoint->pending_first != endpoint->pending_end)
    word = endpoint->pending[endpoint->pending_first++ % SONUMA_MAX_PENDING];
  else if (endpoint->domain.head)
    word = sonuma_pull(endpoint);
  else
    word = sonuma_completion(endpoint);
  if (!word)
    return 0;
  *message = sonuma_message_of(endpoint, word);
  return 1;
}

/** Takes the next message for this hart; waits for one. */
static inline struct sonuma_message sonuma_receive(struct sonuma_endpoint *endpoint) {
  struct sonuma_message message;
  while (!sonuma_poll(endpoint, &message))
    ;
  return message;
}

/* Takes a free slot for a node; returns -1 if there is none. */
static inline int64_t sonuma_take_slot(struct sonuma_context *context, uint64_t node) {
  struct sonuma_send_slot *slots = &context->send_buffer[node * context->slots];
  uint64_t head = __atomic_load_n(&context->heads[node], __ATOMIC_RELAXED);
  for (uint64_t tried = 0; tried < context->slots; tried++) {
    uint64_t slot = (head + tried) % context->slots;
    if (__atomic_load_n(&slots[slot].valid, __ATOMIC_RELAXED) == 0 &&
        __atomic_exchange_n(&slots[slot].valid, 1, __ATOMIC_ACQUIRE) == 0) {
      __atomic_store_n(&context->heads[node], (uint32_t)(slot + 1), __ATOMIC_RELAXED);
      return (int64_t)slot;
    }
  }
  return -1;
}

/**
 * Sends `bytes` bytes at `buffer`, a multiple of 64, to a node of a context's messaging domain.
 * Returns the slot of the message, or an error. The buffer belongs to the network interface until
 * sonuma_is_free() returns true.
 */
static inline int64_t sonuma_send(struct sonuma_endpoint *endpoint, uint64_t ctx_id, uint64_t node,
                                  const void *buffer, uint64_t bytes) {
  if (ctx_id >= SONUMA_CONTEXTS)
    return SONUMA_NO_SUCH_CONTEXT;
  struct sonuma_context *context = &sonuma_contexts[ctx_id];
  if (!context->is_domain_open)
    return SONUMA_NOT_OPEN;
  if (node >= context->nodes)
    return SONUMA_NO_SUCH_NODE;
  if (bytes == 0)
    return SONUMA_EMPTY;
  if (bytes > context->max_message_bytes)
    return SONUMA_TOO_LARGE;
  if ((uint64_t)buffer % LINE_BYTES)
    return SONUMA_MISALIGNED;
  int64_t slot = sonuma_take_slot(context, node);
  if (slot < 0)
    return SONUMA_NO_SLOT;
  struct sonuma_send_slot *place = &context->send_buffer[node * context->slots + (uint64_t)slot];
  place->payload = (uint64_t)buffer;
  place->bytes = bytes;
  sonuma_post(endpoint,
              SONUMA_POST_SEND | node << SONUMA_NODE | (uint64_t)slot << SONUMA_SLOT |
                  ctx_id << SONUMA_CONTEXT | bytes << SONUMA_BYTES,
              buffer, 0);
  return slot;
}

/** Whether a node has replenished the message that was sent into a slot. */
static inline int sonuma_is_free(uint64_t ctx_id, uint64_t node, int64_t slot) {
  const struct sonuma_context *context = &sonuma_contexts[ctx_id];
  const struct sonuma_send_slot *slots = &context->send_buffer[node * context->slots];
  return __atomic_load_n(&slots[slot].valid, __ATOMIC_ACQUIRE) == 0;
}

/** Reports that a message has been processed: the sender may reuse its slot. */
static inline int sonuma_replenish(struct sonuma_endpoint *endpoint,
                                   struct sonuma_message *message) {
  if (!message->data)
    return SONUMA_NOT_RECEIVED;
  sonuma_post(endpoint,
              SONUMA_POST_REPLENISH | (uint64_t)message->node << SONUMA_NODE |
                  (uint64_t)message->slot << SONUMA_SLOT | message->ctx_id << SONUMA_CONTEXT,
              0, 0);
  message->data = 0;
  return SONUMA_OK;
}

/* Performs a one-sided operation, and waits for its completion. Messages that arrive meanwhile are
 * kept. */
static inline int sonuma_one_sided(struct sonuma_endpoint *endpoint, uint64_t kind, uint64_t ctx_id,
                                   uint64_t node, const void *local, uint64_t offset,
                                   uint64_t bytes) {
  /* By the status of the completion: `enum Status` in crates/rpcvalet/src/header.rs. */
  static const int errors[] = {SONUMA_OK, SONUMA_UNKNOWN_CONTEXT, SONUMA_OUTSIDE_SEGMENT};
  if (ctx_id >= SONUMA_CONTEXTS)
    return SONUMA_NO_SUCH_CONTEXT;
  if (!sonuma_contexts[ctx_id].is_open)
    return SONUMA_NOT_OPEN;
  if (node >= sonuma_contexts[ctx_id].all_nodes)
    return SONUMA_NO_SUCH_NODE;
  if (bytes == 0)
    return SONUMA_EMPTY;
  if (bytes > SONUMA_MAX_BYTES)
    return SONUMA_TOO_LARGE;
  if ((uint64_t)local % LINE_BYTES || offset % LINE_BYTES)
    return SONUMA_MISALIGNED;
  if (offset > SONUMA_MAX_SEGMENT_BYTES - bytes)
    return SONUMA_OUTSIDE_SEGMENT; /* For any node. */
  sonuma_post(endpoint,
              kind | node << SONUMA_NODE | ctx_id << SONUMA_CONTEXT | bytes << SONUMA_BYTES, local,
              offset);
  for (;;) {
    uint64_t word = sonuma_completion(endpoint);
    if (!word)
      continue;
    if ((word & 0x3f) != SONUMA_DISPATCH)
      return errors[word >> SONUMA_BYTES];
    endpoint->pending[endpoint->pending_end++ % SONUMA_MAX_PENDING] = word;
  }
}

/** Reads `bytes` bytes of a node's segment of a context, from `offset` on, into `local`. Offset and
 * address are multiples of 64, and the bytes after the last one in its line do not change. After
 * SONUMA_OUTSIDE_SEGMENT the lines within the segment have been read. */
static inline int sonuma_read(struct sonuma_endpoint *endpoint, uint64_t ctx_id, uint64_t node,
                              void *local, uint64_t offset, uint64_t bytes) {
  return sonuma_one_sided(endpoint, SONUMA_POST_READ, ctx_id, node, local, offset, bytes);
}

/** Writes whole lines, `bytes` rounded up to a multiple of 64, from `local` into a node's segment
 * of a context. After SONUMA_OUTSIDE_SEGMENT the lines within the segment have been written. */
static inline int sonuma_write(struct sonuma_endpoint *endpoint, uint64_t ctx_id, uint64_t node,
                               const void *local, uint64_t offset, uint64_t bytes) {
  return sonuma_one_sided(endpoint, SONUMA_POST_WRITE, ctx_id, node, local, offset, bytes);
}

#endif
