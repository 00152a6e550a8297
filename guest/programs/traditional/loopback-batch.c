/**
 * Sends every frame back to its sender, in batches: the throughput is nanoPU's Figure 4.
 */
#include <frame_service.h>

static inline uint64_t serve(struct frame *frame, uint64_t payload_bytes) {
  swap_eth(frame);
  return payload_bytes;
}

int main(void) { return frame_service(); }
