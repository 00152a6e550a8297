/**
 * The dot product of a message, which is in memory, and weights, which should be in the L1 cache:
 * nanoPU's Figure 6. dot-product.h has the messages.
 */
#include <frame_service.h>
#include <services/dot-product.h>

void prepare(void) { dot_product_prepare(); }

static inline uint64_t serve(struct frame *frame, uint64_t payload_bytes) {
  uint64_t words = (payload_bytes + 7) / 8;
  uint64_t *payload = frame->payload;
  if (words < 2 || frame_word(payload[0]) != DOT_PRODUCT_DATA)
    return frame_refuse(frame);
  uint64_t pairs = frame_word(payload[1]);
  if (pairs > DOT_PRODUCT_MAX_PAIRS || words != 2 + 2 * pairs)
    return frame_refuse(frame);
  uint64_t result = 0;
  const uint64_t *pair = payload + 2;
  for (; pairs > 0; pairs--, pair += 2)
    result += frame_word(pair[1]) * dot_product_weight(frame_word(pair[0]));
  swap_addresses(frame);
  payload[0] = frame_word(DOT_PRODUCT_REPLY);
  payload[1] = frame_word(result);
  return DOT_PRODUCT_REPLY_WORDS * sizeof *payload;
}

int main(void) { return frame_service(); }
