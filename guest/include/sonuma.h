/**
 * Scale-Out NUMA (ASPLOS 2014) with RPCValet's messages (ASPLOS 2019): the programmer's side of an
 * integrated network interface.
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
 * A *context* is a global address space, with a number, ctx_id. Each node that takes part registers
 * a *segment* of its memory with it. A one-sided operation names context, node, and an offset in
 * that node's segment:
 *
 *     sonuma_open_context(1, segment, bytes);
 *     sonuma_read(endpoint, 1, node, buffer, offset, bytes);
 *
 * The node at the other end checks context and bounds, and answers an error, which comes back
 * through the completion queue. Segments of two contexts have no byte in common, so that nothing
 * that is done in one reaches memory of the other.
 *
 * A context may have a *messaging domain* (RPCValet, Section 4.2): a send buffer and a receive
 * buffer in memory, with S slots in each for each of its N nodes. A message goes into the slot of
 * its number at the other end. The receiver says with `replenish` that it has processed the
 * message; then the sender may use its slot again. The description says which contexts have one,
 * and which harts get the messages of which domain (`server.rpcvalet.domains`). sonuma_open() opens
 * all of them.
 *
 * Each hart has a *queue pair* for all contexts: what it wants done goes into its work queue, each
 * entry with its context, and what is for it comes into its completion queue, both in memory, an
 * entry a line.
 *
 * Where harts take messages off their domain's shared queue by themselves
 * (`server.rpcvalet.dispatch.mode = "software"`), they do so under a queue lock, as in RPCValet. If
 * the program has the parameter `turns` = 1, there is no lock: a hart that has nothing to do takes
 * the next number by fetch-and-add, and the entry of that number is its own, whenever it comes.
 *
 * An endpoint is its hart's alone. Who has received a message replenishes it.
 */
#ifndef SONUMA_H
#define SONUMA_H

#include <io.h>
#include <memory_map.h>
#include <runtime.h>
#include <stdint.h>
#include <stdlib.h>

/** The registers of the network interface, 64 bits each: a block for each context. Where a context
 * has no messaging domain, what is about messages is 0. */
struct sonuma_registers {
  uint64_t nodes;             /**< 0x00: N. */
  uint64_t slots;             /**< 0x08: S. */
  uint64_t max_message_bytes; /**< 0x10: bytes of the largest message. */
  uint64_t queue_pairs;  /**< 0x18: where the queue pairs are: hart k's first line is line k. */
  uint64_t stride_lines; /**< 0x20: lines from an entry of a hart to its next. */
  uint64_t work_entries; /**< 0x28: entries of a work queue. */
  uint64_t completion_entries; /**< 0x30: entries of a completion queue, which is behind it. */
  uint64_t shared_bytes;       /**< 0x38: bytes of the shared completion queues. */
  uint64_t shared_entries;     /**< 0x40: entries of each. */
  uint64_t is_software;        /**< 0x48: 1: harts take messages off the shared queue. */
  uint64_t harts;              /**< 0x50: how many harts have a queue pair. */
  uint64_t shared_head;        /**< 0x58: where harts then keep its head, which counts takes. */
  uint64_t send_buffer;        /**< 0x60: write where the send slots are, ... */
  uint64_t receive_buffer;     /**< 0x68: ... the receive slots, ... */
  uint64_t shared_queues;      /**< 0x70: ... and the shared queues: multiples of 64. */
  uint64_t open;               /**< 0x78: write 1: the domain is open. */
  uint64_t segment;            /**< 0x80: write where the segment begins, ... */
  uint64_t segment_bytes;      /**< 0x88: ... how many bytes it has, ... */
  uint64_t open_context;       /**< 0x90: ... and 1. 1 then: the context is open. */
  uint64_t registered;         /**< 0x98: what came of that: an enum sonuma_registered. */
  uint64_t domains;            /**< 0xa0: so many contexts have a domain: the first ones. */
  uint64_t domain_first_hart;  /**< 0xa8: the first hart that gets the domain's messages, ... */
  uint64_t domain_harts;       /**< 0xb0: ... and how many do. */
  uint64_t domain_first_node;  /**< 0xb8: its node 0's number among the nodes of all domains. */
  uint64_t unused[(0x100 - 0xc0) / 8];
};

/** How many contexts there can be: ctx_id 0 to here - 1. */
enum { SONUMA_CONTEXTS = 16 };

/** The registers of a context. */
static inline volatile struct sonuma_registers *sonuma_device(uint64_t ctx_id) {
  return (volatile struct sonuma_registers *)SONUMA_REGISTERS_START + ctx_id;
}

/** What went wrong; 0 if nothing did. */
enum sonuma_error {
  SONUMA_OK = 0,
  SONUMA_ALREADY_OPEN = -1, /**< The context, or its domain, is open. */
  SONUMA_NOT_OPEN = -2,     /**< It is not. */
  SONUMA_NO_SUCH_NODE = -3, /**< The node's number is not below that of the context's nodes. */
  SONUMA_TOO_LARGE = -4,    /**< More bytes than the largest message, a read or a segment has. */
  SONUMA_EMPTY = -5,        /**< No bytes. */
  SONUMA_MISALIGNED = -6, /**< An address, an offset or a segment's size is not a multiple of 64. */
  SONUMA_NO_SLOT = -7,    /**< All slots towards the node are in use: it has replenished none. */
  SONUMA_NOT_RECEIVED = -8,     /**< The message has been replenished, or is none. */
  SONUMA_NO_SUCH_CONTEXT = -9,  /**< There can only be SONUMA_CONTEXTS contexts. */
  SONUMA_NO_DOMAIN = -10,       /**< The description gives the context no messaging domain. */
  SONUMA_NOT_IN_MEMORY = -11,   /**< The segment is not in memory. */
  SONUMA_OVERLAPS = -12,        /**< The segment has a part of another context's. */
  SONUMA_UNKNOWN_CONTEXT = -13, /**< The other node has no segment in this context. */
  SONUMA_OUTSIDE_SEGMENT = -14, /**< Some of the bytes are behind the other node's segment. */
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

/* Kinds of entries (crates/rpcvalet/src/header.rs), and where the fields of their first word are.
 */
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
  SONUMA_BYTES = 46,                /* Of a completion: its status. */
  SONUMA_MAX_BYTES = (1 << 18) - 1, /**< Of a one-sided operation. */
  SONUMA_MAX_PENDING = 32,
};
/** No segment has more. */
#define SONUMA_MAX_SEGMENT_BYTES (1ul << 34)

/** A send slot: 32 bytes (Figure 5a). */
struct sonuma_send_slot {
  uint64_t valid; /**< In use. The network interface resets it. */
  uint64_t payload;
  uint64_t bytes;
  uint64_t unused;
};

/** A message that has been received. */
struct sonuma_message {
  const void *data; /**< In its receive slot; 64-byte aligned. */
  uint32_t bytes;
  uint16_t node; /**< Where it comes from. */
  uint16_t slot;
  uint64_t ctx_id; /**< In which context. */
};

/* A queue lock (Mellor-Crummey and Scott, 1991). */
struct sonuma_lock_node {
  struct sonuma_lock_node *next;
  uint64_t waits;
} __attribute__((aligned(LINE_BYTES)));

/* What harts have together that take messages off one shared queue: a lock, or turns. */
struct sonuma_sharing {
  struct sonuma_lock_node *lock;
  uint64_t next_turn __attribute__((aligned(LINE_BYTES))); /* A line of its own. */
} __attribute__((aligned(LINE_BYTES)));

/* What a hart needs of its messaging domain for each message: a line. */
struct sonuma_hart_domain {
  uint64_t ctx_id;
  uint64_t slots, receive_stride;
  const uint8_t *receive_buffer;
  /* For software, else null: where the head of the shared queue is kept, the address of its entry,
   * whose phase is the lowest bit. And the queue, and what the harts that share it have together.
   */
  uint64_t *head;
  uint64_t *shared, *shared_end;
  struct sonuma_sharing *sharing;
} __attribute__((aligned(LINE_BYTES)));

/** A hart's queue pair, and what the hart knows of it. */
struct sonuma_endpoint {
  /* The next entries of both queues, which are `stride` bytes apart, and their phases. */
  uint8_t *work, *completion;
  uint64_t work_phase, completion_phase;
  uint8_t *work_begin, *work_end, *completion_end;
  uint64_t stride;
  uint64_t *consumed; /* How far the network interface has read the work queue. */
  uint64_t posted;    /* Entries posted. */
  uint64_t free_from; /* At least so many of them have been read. */
  uint64_t pending_first, pending_end;
  uint64_t pending[SONUMA_MAX_PENDING]; /* Messages that came while it waited for something else. */
  uint64_t turn; /* The entry of the shared queue that is this hart's, and its phase; or 0. */
  struct sonuma_hart_domain domain;
  struct sonuma_lock_node lock_node;
} __attribute__((aligned(LINE_BYTES)));

/* What the program knows of a context. */
struct sonuma_context {
  /* Of its domain, if that is open. */
  uint64_t nodes, slots, max_message_bytes;
  struct sonuma_send_slot *send_buffer;
  uint8_t *receive_buffer;
  uint64_t receive_stride;
  uint32_t *heads; /* For each node the send slot that is looked at first. */
  uint64_t is_domain_open;
  /* Of the context. */
  uint64_t all_nodes;
  uint64_t is_open;
  struct sonuma_sharing sharing;
} __attribute__((aligned(4 * LINE_BYTES)));

static struct sonuma_context sonuma_contexts[SONUMA_CONTEXTS];

static struct {
  uint64_t work_entries;
  uint64_t by_turns;                 /* Whether the program has the parameter. */
  struct sonuma_endpoint *endpoints; /* Null: there are none yet. */
} sonuma_state __attribute__((aligned(LINE_BYTES)));

/** Bytes of memory of a domain: 32 x N x S + (max_msg_size + 64) x N x S (Section 4.2). */
static inline uint64_t sonuma_footprint(uint64_t nodes, uint64_t slots, uint64_t max_bytes) {
  return nodes * slots * sizeof(struct sonuma_send_slot) + nodes * slots * (max_bytes + LINE_BYTES);
}

/* Memory that has been cleared, as a driver does. */
static inline void *sonuma_memory(uint64_t bytes) {
  void *memory = aligned_alloc(LINE_BYTES, bytes);
  io_cleared(memory, bytes);
  return memory;
}

/* Ends the program with a message where there is no such network interface. */
static inline void sonuma_expect_interface(void) {
  if (io_device()->notify != IO_NOTIFY_RPCVALET)
    fail(
        "This server has no network interface for messages: use data_plane.notify = \"rpcvalet\".");
}

/* The harts' endpoints, which are made once. */
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
 * open. On one hart, before the others use it. Ends the program with a message where there is no
 * such network interface.
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
  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* All of it before the network interface uses it. */
  device->open_context = 1;
  int error = errors[device->registered];
  if (error == SONUMA_OK) {
    sonuma_contexts[ctx_id].all_nodes = device->nodes;
    sonuma_contexts[ctx_id].is_open = 1;
  }
  return error;
}

/** Makes the messaging domain that the description gives a context, which is open. On one hart,
 * before the others use it. */
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
  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* All of it before the network interface uses it. */
  device->open = 1;
  context->is_domain_open = 1;
  return SONUMA_OK;
}

/** How many contexts of the description have a messaging domain: the first ones. */
static inline uint64_t sonuma_domains(void) { return sonuma_device(0)->domains; }

/** Opens the contexts that have a messaging domain, each with a line of memory as its segment, and
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

/* Writes an entry of the work queue; waits for room. What was written before is there when it is.
 */
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

/* What a completion says: the message is of the hart's domain, for it gets no others. So nothing is
 * looked up by what is in the entry, which has just come. */
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

/* The next entry of the completion queue, or 0. Memory is 0 at first, so that nothing has the phase
 * of the first lap. */
static inline uint64_t sonuma_completion(struct sonuma_endpoint *endpoint) {
  uint64_t word = __atomic_load_n((uint64_t *)endpoint->completion, __ATOMIC_RELAXED);
  if ((word >> SONUMA_PHASE & 1) != endpoint->completion_phase)
    return 0;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  endpoint->completion += endpoint->stride;
  if (endpoint->completion == endpoint->completion_end) {
    endpoint->completion = endpoint->work_end; /* Behind the work queue. */
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

/* Takes the message whose turn is this hart's, if it has come. The next free turn is its own. */
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

/* Takes a message off the shared queue, under the lock, which nobody asks for while it is empty. */
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

/** Takes a message if there is one for this hart: returns whether there was. */
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

/* A slot towards a node, which is then in use; or -1. */
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
 * Returns the slot that the message takes, or an error. The buffer is the network interface's until
 * sonuma_is_free() says otherwise.
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

/** Says that a message has been processed: its slot is the sender's again. */
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

/* A one-sided operation: waits until it is over. Messages that come meanwhile are kept. */
static inline int sonuma_one_sided(struct sonuma_endpoint *endpoint, uint64_t kind, uint64_t ctx_id,
                                   uint64_t node, const void *local, uint64_t offset,
                                   uint64_t bytes) {
  /* By the status in the completion: `enum Status` in crates/rpcvalet/src/header.rs. */
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
    return SONUMA_OUTSIDE_SEGMENT; /* Of whichever node. */
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
 * address are multiples of 64, and what is behind the last byte in its line stays. After
 * SONUMA_OUTSIDE_SEGMENT the lines that are in the segment have been read. */
static inline int sonuma_read(struct sonuma_endpoint *endpoint, uint64_t ctx_id, uint64_t node,
                              void *local, uint64_t offset, uint64_t bytes) {
  return sonuma_one_sided(endpoint, SONUMA_POST_READ, ctx_id, node, local, offset, bytes);
}

/** Writes whole lines, `bytes` rounded up to a multiple of 64, from `local` into a node's segment
 * of a context. After SONUMA_OUTSIDE_SEGMENT the lines that are in the segment have been written.
 */
static inline int sonuma_write(struct sonuma_endpoint *endpoint, uint64_t ctx_id, uint64_t node,
                               const void *local, uint64_t offset, uint64_t bytes) {
  return sonuma_one_sided(endpoint, SONUMA_POST_WRITE, ctx_id, node, local, offset, bytes);
}

#endif
