/**
 * rpcvalet: the network interface gives each hart its messages (RPCValet, ASPLOS 2019).
 *
 * A message's node is its queue. The reply is a message back to it, and the replenish behind that
 * ends the request. Messages of one node come to several harts at once. What does not fit into a
 * message goes by rendezvous, in both directions.
 */
#ifndef NOTIFY_RPCVALET_H
#define NOTIFY_RPCVALET_H

#include <notify/queues.h>
#include <sonuma.h>
#include <string.h>

/* A buffer for a reply, and the slot in which that is; whole lines. */
struct rpcvalet_buffer {
  uint64_t node;
  int64_t slot; /* Below 0: in none. */
  uint8_t *bytes;
  struct rpcvalet_buffer *next; /* The buffers of a hart are in a ring. */
  uint64_t descriptor[4]
      __attribute__((aligned(LINE_BYTES))); /* What goes in place of a large one. */
} __attribute__((aligned(LINE_BYTES)));

/* As many for a start, so that nobody waits for a reply's replenish, a round trip away. */
enum { RPCVALET_BUFFERS = 8 };

static struct {
  volatile uint64_t *counter;
  uint64_t without_slot; /* Replies that could not be sent. */
} rpcvalet_lost __attribute__((aligned(LINE_BYTES)));

/* What a hart has of its own. */
static struct rpcvalet_hart {
  struct rpcvalet_buffer *buffer; /* The one that was used last. */
  struct io_slot *large;          /* For a request that did not fit into a message. */
} __attribute__((aligned(LINE_BYTES))) * rpcvalet_harts;

/* Memory is given out to one hart at a time. */
static uint64_t rpcvalet_memory_lock;

/* Adds a buffer behind `last`; the first one if that is null. */
static inline struct rpcvalet_buffer *rpcvalet_add_buffer(struct rpcvalet_buffer *last) {
  data_plane_lock(&rpcvalet_memory_lock);
  struct rpcvalet_buffer *buffer = aligned_alloc(LINE_BYTES, sizeof *buffer);
  buffer->bytes = sonuma_memory(data_plane_state.slot_bytes);
  data_plane_unlock(&rpcvalet_memory_lock);
  buffer->slot = -1;
  buffer->next = last ? last->next : buffer;
  if (last)
    last->next = buffer;
  return buffer;
}

static inline void rpcvalet_set_up(void) {
  if (data_plane_state.cores > harts)
    fail("The data plane is to run on %lu harts, and the server has %lu.", data_plane_state.cores,
         harts);
  rpcvalet_lost.counter = io_counter("replies_without_slot");
  sonuma_open();
  rpcvalet_harts = aligned_alloc(LINE_BYTES, data_plane_state.cores * sizeof(struct rpcvalet_hart));
  for (uint64_t hart = 0; hart < data_plane_state.cores; hart++) {
    struct rpcvalet_buffer *buffer = 0;
    for (int count = 0; count < RPCVALET_BUFFERS; count++)
      buffer = rpcvalet_add_buffer(buffer);
    rpcvalet_harts[hart].buffer = buffer;
    rpcvalet_harts[hart].large = sonuma_memory(data_plane_state.slot_bytes);
  }
}

/* The next buffer that is free. A node that never replenishes keeps as many as it has slots. */
static inline struct rpcvalet_buffer *rpcvalet_next_buffer(struct rpcvalet_buffer *last) {
  struct rpcvalet_buffer *buffer = last;
  do {
    buffer = buffer->next;
    if (buffer->slot < 0 || sonuma_is_free(buffer->node, buffer->slot))
      return buffer;
  } while (buffer != last);
  return rpcvalet_add_buffer(last);
}

/* Sends a reply. One that finds no slot is lost, which is counted: its node takes none. */
static inline void rpcvalet_reply(struct sonuma_endpoint *endpoint, struct rpcvalet_buffer *buffer,
                                  uint64_t node) {
  struct io_slot *reply = (struct io_slot *)buffer->bytes;
  if (reply->flags & IO_FLAG_ERROR)
    reply->length = 0;
  const void *message = reply;
  uint64_t bytes = sizeof *reply + reply->length;
  if (bytes > sonuma_state.max_message_bytes) {
    buffer->descriptor[0] = reply->length | (uint64_t)(reply->flags | IO_FLAG_RENDEZVOUS) << 32;
    buffer->descriptor[1] = reply->item;
    buffer->descriptor[2] = (uint64_t)reply;
    buffer->descriptor[3] = bytes;
    message = buffer->descriptor;
    bytes = sizeof buffer->descriptor;
  }
  buffer->node = node;
  buffer->slot = sonuma_send(endpoint, node, message, bytes);
  if (buffer->slot < 0)
    *rpcvalet_lost.counter = __atomic_add_fetch(&rpcvalet_lost.without_slot, 1, __ATOMIC_RELAXED);
}

/* A hart's loop. */
static inline __attribute__((always_inline, noreturn)) void
rpcvalet_run(int hart, void (*process)(uint64_t, const struct io_slot *, struct io_slot *)) {
  struct sonuma_endpoint *endpoint = sonuma_endpoint(hart);
  struct rpcvalet_buffer *buffer = rpcvalet_harts[hart].buffer;
  struct io_slot *large = rpcvalet_harts[hart].large;
  for (;;) {
    struct sonuma_message message = sonuma_receive(endpoint);
    const struct io_slot *in = message.data;
    if (in->flags & IO_FLAG_RENDEZVOUS) {
      const uint64_t *where = (const uint64_t *)in->packet;
      sonuma_read(endpoint, message.node, large, where[0], where[1]);
      in = large;
    }
    buffer = rpcvalet_next_buffer(buffer);
    struct io_slot *out = (struct io_slot *)buffer->bytes;
    out->flags = 0;
    out->item = in->item;
    process(message.node, in, out);
    rpcvalet_reply(endpoint, buffer, message.node);
    sonuma_replenish(endpoint, &message);
  }
}

#endif
