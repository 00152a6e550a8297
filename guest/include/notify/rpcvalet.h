/**
 * rpcvalet: the network interface dispatches messages to harts (RPCValet, ASPLOS 2019).
 *
 * A message's node is its queue; the nodes of a second messaging domain are numbered after those of
 * the first, and so on. The reply is a message to that node, and the following replenish ends the
 * request. Messages of one node reach several harts concurrently. Payloads that do not fit into a
 * message are transferred by rendezvous, in both directions: the buffers for replies are the
 * segment of the domain's context, so that only its nodes can read them.
 *
 * A program that defines RPCVALET_REPLENISHES_FIRST as 1 before it includes this file replenishes
 * when the reply is in its buffer and the request is no longer needed, before it sends the reply. A
 * request then ends at the same point as with the other mechanisms, whose tenants fetch the
 * replies.
 */
#ifndef NOTIFY_RPCVALET_H
#define NOTIFY_RPCVALET_H

#include <notify/queues.h>
#include <sonuma.h>
#include <string.h>

#ifndef RPCVALET_REPLENISHES_FIRST
#define RPCVALET_REPLENISHES_FIRST 0
#endif

/* A buffer for a reply, and the slot of that reply; whole lines. */
struct rpcvalet_buffer {
  uint64_t node;
  int64_t slot;                 /* Negative: none. */
  struct rpcvalet_buffer *next; /* A hart's buffers form a ring. */
  uint64_t descriptor[4]
      __attribute__((aligned(LINE_BYTES))); /* What goes in place of a large one. */
  uint8_t bytes[] __attribute__((aligned(LINE_BYTES)));
} __attribute__((aligned(LINE_BYTES)));

/* The initial number of buffers, so that no hart waits for a reply's replenish, a round trip. */
enum { RPCVALET_BUFFERS = 8 };

static struct {
  volatile uint64_t *counter;
  uint64_t without_slot; /* Replies that could not be sent. */
} rpcvalet_lost __attribute__((aligned(LINE_BYTES)));

/* A messaging domain: the number of its first node among those of all domains, and the segment of
 * its context, which has room for the harts' initial buffers and for a buffer in each slot. Unused
 * memory costs nothing. */
static struct rpcvalet_domain {
  uint64_t first_node;
  uint8_t *segment, *next, *end; /* Free from `next` on. */
} __attribute__((aligned(LINE_BYTES))) rpcvalet_domains[SONUMA_CONTEXTS];

/* A hart's private state. */
static struct rpcvalet_hart {
  struct rpcvalet_domain *domain;
  struct rpcvalet_buffer *buffer; /* The most recently used one. */
  struct io_slot *large;          /* For a request that does not fit into a message. */
} __attribute__((aligned(LINE_BYTES))) * rpcvalet_harts;

/* One hart allocates memory at a time. */
static uint64_t rpcvalet_memory_lock;

static inline uint64_t rpcvalet_buffer_bytes(void) {
  return sizeof(struct rpcvalet_buffer) + data_plane_state.slot_bytes;
}

/* Memory of a domain's segment, of which the last `cleared` bytes are cleared, as by a driver; null
 * if none is left. */
static inline void *rpcvalet_take(struct rpcvalet_domain *domain, uint64_t bytes,
                                  uint64_t cleared) {
  uint8_t *memory = 0;
  data_plane_lock(&rpcvalet_memory_lock);
  if (bytes <= (uint64_t)(domain->end - domain->next)) {
    memory = domain->next;
    domain->next += bytes;
    io_cleared(domain->next - cleared, cleared);
  }
  data_plane_unlock(&rpcvalet_memory_lock);
  return memory;
}

/* Adds a buffer after `last`; the first one if that is null. Null without room. */
static inline struct rpcvalet_buffer *rpcvalet_add_buffer(struct rpcvalet_domain *domain,
                                                          struct rpcvalet_buffer *last) {
  struct rpcvalet_buffer *buffer =
      rpcvalet_take(domain, rpcvalet_buffer_bytes(), data_plane_state.slot_bytes);
  if (!buffer)
    return 0;
  buffer->slot = -1;
  buffer->next = last ? last->next : buffer;
  if (last)
    last->next = buffer;
  return buffer;
}

/* Opens a context and its messaging domain, and makes the private state of its harts. */
static inline void rpcvalet_open(uint64_t ctx_id) {
  const volatile struct sonuma_registers *device = sonuma_device(ctx_id);
  struct rpcvalet_domain *domain = &rpcvalet_domains[ctx_id];
  uint64_t first = device->domain_first_hart, count = device->domain_harts;
  uint64_t slot_bytes = data_plane_state.slot_bytes, slots = device->nodes * device->slots;
  uint64_t bytes =
      (RPCVALET_BUFFERS * count + slots) * rpcvalet_buffer_bytes() + count * slot_bytes;
  domain->first_node = device->domain_first_node;
  domain->segment = domain->next = aligned_alloc(LINE_BYTES, bytes);
  domain->end = domain->segment + bytes;
  int error = sonuma_open_context(ctx_id, domain->segment, bytes);
  if (error == SONUMA_OK)
    error = sonuma_open_domain(ctx_id);
  if (error == SONUMA_NOT_IN_MEMORY)
    fail("Buffers for replies, %lu bytes for each of %lu slots, are more than there is memory: use "
         "fewer slots (server.rpcvalet.slots) or a larger server.memory_mib.",
         rpcvalet_buffer_bytes(), slots);
  if (error != SONUMA_OK)
    fail("Opening context %lu gives %d.", ctx_id, error);
  for (uint64_t hart = first; hart < first + count; hart++) {
    struct rpcvalet_buffer *buffer = 0;
    for (int place = 0; place < RPCVALET_BUFFERS; place++)
      buffer = rpcvalet_add_buffer(domain, buffer);
    rpcvalet_harts[hart] = (struct rpcvalet_hart){
        .domain = domain,
        .buffer = buffer,
        .large = rpcvalet_take(domain, slot_bytes, slot_bytes),
    };
  }
}

static inline void rpcvalet_set_up(void) {
  if (data_plane_state.cores > harts)
    fail("The data plane is to run on %lu harts, and the server has %lu.", data_plane_state.cores,
         harts);
  rpcvalet_lost.counter = io_counter("replies_without_slot");
  rpcvalet_harts = aligned_alloc(LINE_BYTES, data_plane_state.cores * sizeof(struct rpcvalet_hart));
  uint64_t domains = sonuma_domains();
  for (uint64_t ctx_id = 0; ctx_id < domains; ctx_id++)
    rpcvalet_open(ctx_id);
}

/* The next free buffer. A node that never replenishes keeps as many as it has slots. */
static inline struct rpcvalet_buffer *rpcvalet_next_buffer(struct rpcvalet_domain *domain,
                                                           uint64_t ctx_id,
                                                           struct rpcvalet_buffer *last) {
  struct rpcvalet_buffer *buffer = last;
  for (;;) {
    do {
      buffer = buffer->next;
      if (buffer->slot < 0 || sonuma_is_free(ctx_id, buffer->node, buffer->slot))
        return buffer;
    } while (buffer != last);
    struct rpcvalet_buffer *added = rpcvalet_add_buffer(domain, last);
    if (added)
      return added;
  }
}

/* Sends a reply. If no slot is free, the reply is lost, which is counted: its node takes none. */
static inline void rpcvalet_reply(struct sonuma_endpoint *endpoint,
                                  const struct rpcvalet_domain *domain,
                                  struct rpcvalet_buffer *buffer,
                                  const struct sonuma_message *request) {
  struct io_slot *reply = (struct io_slot *)buffer->bytes;
  if (reply->flags & IO_FLAG_ERROR)
    reply->length = 0;
  const void *message = reply;
  uint64_t bytes = sizeof *reply + reply->length;
  if (bytes > sonuma_contexts[request->ctx_id].max_message_bytes) {
    buffer->descriptor[0] = reply->length | (uint64_t)(reply->flags | IO_FLAG_RENDEZVOUS) << 32;
    buffer->descriptor[1] = reply->item;
    buffer->descriptor[2] = (uint64_t)((uint8_t *)reply - domain->segment);
    buffer->descriptor[3] = bytes;
    message = buffer->descriptor;
    bytes = sizeof buffer->descriptor;
  }
  buffer->node = request->node;
  buffer->slot = sonuma_send(endpoint, request->ctx_id, request->node, message, bytes);
  if (buffer->slot < 0)
    *rpcvalet_lost.counter = __atomic_add_fetch(&rpcvalet_lost.without_slot, 1, __ATOMIC_RELAXED);
}

/* A hart's loop. */
static inline __attribute__((always_inline, noreturn)) void
rpcvalet_run(int hart, void (*process)(uint64_t, const struct io_slot *, struct io_slot *)) {
  struct sonuma_endpoint *endpoint = sonuma_endpoint(hart);
  struct rpcvalet_domain *domain = rpcvalet_harts[hart].domain;
  const uint64_t first_node = domain->first_node;
  struct rpcvalet_buffer *buffer = rpcvalet_harts[hart].buffer;
  struct io_slot *large = rpcvalet_harts[hart].large;
  for (;;) {
    struct sonuma_message message = sonuma_receive(endpoint);
    const struct io_slot *in = message.data;
    int error = SONUMA_OK;
    if (in->flags & IO_FLAG_RENDEZVOUS) {
      const uint64_t *where = (const uint64_t *)in->packet;
      if (where[1] <= data_plane_state.slot_bytes)
        error = sonuma_read(endpoint, message.ctx_id, message.node, large, where[0], where[1]);
      else
        error = SONUMA_TOO_LARGE;
      if (error == SONUMA_OK)
        in = large;
    }
    buffer = rpcvalet_next_buffer(domain, message.ctx_id, buffer);
    struct io_slot *out = (struct io_slot *)buffer->bytes;
    out->flags = 0;
    out->item = in->item;
    if (error == SONUMA_OK)
      process(first_node + message.node, in, out);
    else
      out->flags = IO_FLAG_ERROR; /* The node does not have the announced data. */
    if (RPCVALET_REPLENISHES_FIRST)
      sonuma_replenish(endpoint, &message);
    rpcvalet_reply(endpoint, domain, buffer, &message);
    if (!RPCVALET_REPLENISHES_FIRST)
      sonuma_replenish(endpoint, &message);
  }
}

#endif
