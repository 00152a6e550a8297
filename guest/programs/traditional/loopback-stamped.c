/**
 * Sends every frame back to its sender, in batches, with the last word of the first one in place of
 * its own. The prototype's program for nanoPU's Figure 4 does so. It looks at the first word of
 * each, too: a frame that begins with all ones, or has no word, goes back as it is.
 */
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

int main(void) { return frame_service(); }
