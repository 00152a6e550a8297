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

#endif
