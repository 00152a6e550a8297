/**
 * A service behind the on-chip network interface, in batches, so that the interface moves frames
 * while the core processes others (nanoPU, Section 5.2.1: "batches of 30 packets").
 *
 *     static inline uint64_t serve(struct frame *frame, uint64_t payload_bytes) { ... }
 *
 *     int main(void) { return frame_service(); }
 *
 * serve() turns a request into its reply in place, including the addresses, and returns the length
 * of the reply's payload.
 */
#ifndef FRAME_SERVICE_H
#define FRAME_SERVICE_H

#include <frames.h>
#include <ice_nic.h>

enum {
  FRAME_BATCH = 30,
  LOAD_WORDS = 2, /**< The words that a load generator prepends to a request. */
};

static uint64_t serve(struct frame *frame, uint64_t payload_bytes);

/** The reply to a frame that is not a request of the service: one word. */
static inline uint64_t frame_refuse(struct frame *frame) {
  swap_addresses(frame);
  frame->payload[0] = ~(uint64_t)0;
  return sizeof frame->payload[0];
}

static inline int frame_service(void) {
  static uint8_t buffers[FRAME_BATCH][NIC_BUFFER_BYTES] __attribute__((aligned(64)));
  for (;;) {
    for (int place = 0; place < FRAME_BATCH; place++)
      nic_post_recv(buffers[place]);
    for (int place = 0; place < FRAME_BATCH; place++) {
      struct frame *frame = (struct frame *)buffers[place];
      uint64_t bytes = frame_payload_bytes(frame, (uint64_t)nic_wait_recv());
      uint64_t reply_bytes = serve(frame, bytes);
      if (reply_bytes != bytes)
        frame_set_payload_bytes(frame, reply_bytes);
      nic_post_send(frame, sizeof *frame + reply_bytes);
    }
    nic_wait_send_batch(FRAME_BATCH);
  }
  return 0;
}

#ifdef FRAME_ROUND

/** Turns the frame in `buffer`, which has been received with so many bytes, into its reply, and
 * posts it for sending. */
static inline void frame_answer(void *buffer, int received_bytes) {
  struct frame *frame = (struct frame *)buffer;
  uint64_t bytes = frame_payload_bytes(frame, (uint64_t)received_bytes);
  uint64_t reply_bytes = serve(frame, bytes);
  if (reply_bytes != bytes)
    frame_set_payload_bytes(frame, reply_bytes);
  nic_post_send(frame, sizeof *frame + reply_bytes);
}

/**
 * The same in rounds, as the programs of nanoPU's published tests serve (Figures 4 to 6): the first
 * frame of a round is received alone, and only then are there buffers for the `FRAME_ROUND` others.
 * The first frame of a published round configures the program, and has no reply; here it is a
 * request like the others. Buffers have the published size, and so do not all begin with a line.
 */
static inline int frame_service_in_rounds(void) {
  enum { BUFFER_WORDS = 258 }; /* ETH_MAX_WORDS */
  static uint64_t buffers[1 + FRAME_ROUND][BUFFER_WORDS] __attribute__((aligned(64)));
  for (;;) {
    frame_answer(buffers[FRAME_ROUND], nic_recv(buffers[FRAME_ROUND]));
    for (int place = 0; place < FRAME_ROUND; place++)
      nic_post_recv(buffers[place]);
    for (int place = 0; place < FRAME_ROUND; place++)
      frame_answer(buffers[place], nic_wait_recv());
    nic_wait_send_batch(1 + FRAME_ROUND);
  }
  return 0;
}

#endif

#endif
