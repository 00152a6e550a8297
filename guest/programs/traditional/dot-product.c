/**
 * The dot product of a message, which is in memory, and weights, which should be in the L1 cache:
 * nanoPU's Figure 6. dot-product.h has the messages.
 */
#define FRAME_ROUND 30
#include <frame_service.h>
#include <services/dot-product.h>

void prepare(void) { dot_product_prepare(); }

/* Ethernet addresses alone are exchanged, as in the published program. */
static inline uint64_t refuse(struct frame *frame) {
  swap_eth(frame);
  frame->payload[0] = ~(uint64_t)0;
  return sizeof frame->payload[0];
}

static inline uint64_t serve(struct frame *frame, uint64_t payload_bytes) {
  uint64_t words = (payload_bytes + 7) / 8;
  uint64_t *payload = frame->payload;
  if (words < DOT_PRODUCT_HEADER_WORDS)
    return refuse(frame);
  uint64_t factors = frame_word(payload[1]);
  if (!dot_product_is_request(frame_word(payload[0]), factors, words))
    return refuse(frame);
  uint64_t result = 0;
  const uint64_t *next = payload + DOT_PRODUCT_HEADER_WORDS;
  for (; factors > 0; factors--) {
    uint64_t factor = frame_word(*next++);
    result += factor * dot_product_weight(factor);
  }
  uint64_t stamp = *next;
  swap_eth(frame);
  payload[0] = frame_word(DOT_PRODUCT_REPLY);
  payload[1] = frame_word(result);
  payload[2] = stamp;
  return DOT_PRODUCT_REPLY_WORDS * sizeof *payload;
}

int main(void) {
  dot_product_read_weights();
  return frame_service_in_rounds();
}
