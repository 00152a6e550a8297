/**
 * The store of services/compared_store.h behind RPCValet's network interface: the common part of
 * programs that differ in how a hart waits for its next message.
 */
#ifndef SERVICES_COMPARED_MESSAGES_H
#define SERVICES_COMPARED_MESSAGES_H

#include <services/compared_store.h>
#include <sonuma.h>

/* Waits for a hart's next message. */
static inline struct sonuma_message compared_receive(struct sonuma_endpoint *endpoint);

enum {
  REPLY_BUFFERS = 8, /* Per hart: as many as can be in flight. */
};

static uint8_t *replies;
static uint64_t reply_bytes; /* A slot's header and the longest reply, rounded up to a line. */

void prepare(void) {
  compared_prepare_store(STORE_WIRE);
  uint64_t longest =
      sizeof(struct io_slot) + (WIRE_LOAD_WORDS + STORE_VALUE_WORDS) * sizeof(uint64_t);
  reply_bytes = (longest + LINE_BYTES - 1) & -(uint64_t)LINE_BYTES;
}

int hart_main(int hart) {
  struct sonuma_endpoint *endpoint = sonuma_endpoint(hart);
  struct {
    uint64_t node;
    int64_t slot; /* Below 0: the buffer has not been sent. */
  } sent[REPLY_BUFFERS];
  for (int place = 0; place < REPLY_BUFFERS; place++)
    sent[place].slot = -1;
  for (int place = 0;; place = (place + 1) % REPLY_BUFFERS) {
    struct sonuma_message message = compared_receive(endpoint);
    const struct io_slot *in = message.data;
    while (sent[place].slot >= 0 &&
           !sonuma_is_free(message.ctx_id, sent[place].node, sent[place].slot))
      ;
    struct io_slot *out =
        (struct io_slot *)(replies + (hart * REPLY_BUFFERS + place) * reply_bytes);
    out->length = (uint32_t)compared_answer((const uint64_t *)in->packet, in->length,
                                            (uint64_t *)out->packet);
    out->flags = 0;
    out->item = in->item;
    sent[place].node = message.node;
    do
      sent[place].slot =
          sonuma_send(endpoint, message.ctx_id, message.node, out, sizeof *out + out->length);
    while (sent[place].slot == SONUMA_NO_SLOT);
    sonuma_replenish(endpoint, &message);
  }
}

int main(void) {
  sonuma_open();
  replies = sonuma_memory(harts * REPLY_BUFFERS * reply_bytes);
  harts_release();
  io_device()->start = 1;
  return hart_main(0);
}

#endif
