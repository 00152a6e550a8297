/**
 * Sends every frame back to its sender, each word of its payload incremented: nanoPU's Figure 5.
 * Each word is loaded from the last-level cache and written back to memory.
 */
#define FRAME_ROUND 30
#include <frame_service.h>

static inline uint64_t serve(struct frame *frame, uint64_t payload_bytes) {
  swap_eth(frame);
  uint64_t words = (payload_bytes + 7) / 8;
  for (uint64_t word = 0; word < words; word++)
    frame->payload[word] = frame_word(frame_word(frame->payload[word]) + 1);
  return payload_bytes;
}

int main(void) { return frame_service_in_rounds(); }
