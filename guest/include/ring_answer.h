/**
 * Answers the request of a frame (frames.h) in place.
 *
 *     static inline uint64_t serve(const uint64_t *request, uint64_t bytes, uint64_t *reply);
 *     #include <ring_answer.h>
 *
 * serve() writes the reply to a message, in the same place, and returns the reply's length.
 */
#ifndef RING_ANSWER_H
#define RING_ANSWER_H

#include <frames.h>

/** Turns a frame of `bytes` bytes with a request into one with its reply. Returns its length. */
static inline uint64_t ring_answer(struct frame *frame, uint64_t bytes) {
  bytes = frame_payload_bytes(frame, bytes);
  uint64_t reply_bytes = serve(frame->payload, bytes, frame->payload);
  swap_addresses(frame);
  frame_set_payload_bytes(frame, reply_bytes);
  return sizeof *frame + reply_bytes;
}

#endif
