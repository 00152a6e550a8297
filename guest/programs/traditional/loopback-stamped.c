/**
 * Sends every frame back to its sender, in rounds, with the last word of the first frame in
 * place of its own, as the prototype's program for nanoPU's Figure 4 does. It also reads the first
 * word of each frame: a frame that begins with all ones, or has no word, is sent back unchanged.
 */
#define FRAME_ROUND 20
#include <frame_service.h>

static uint64_t stamp;
static int is_stamped;

static inline uint64_t serve(struct frame *frame, uint64_t payload_bytes) {
  swap_eth(frame);
  uint64_t words = payload_bytes / sizeof frame->payload[0];
  if (words == 0 || frame_word(frame->payload[0]) == ~(uint64_t)0)
    return payload_bytes;
  uint64_t *last = &frame->payload[words - 1];
  if (!is_stamped) {
    is_stamped = 1;
    stamp = *last;
  }
  *last = stamp;
  return payload_bytes;
}

int main(void) { return frame_service_in_rounds(); }
