/**
 * The dot product of a message and weights in memory, computed after the message has been copied to
 * memory.
 *
 * "Naive" in the nanoPU paper's Figure 6; dot-product.h has the messages.
 */
#include <lnic.h>
#define SERVICE_ON_ALL_HARTS
#include <nanopu/service.h>
#include <services/dot-product.h>

void prepare(void) { dot_product_prepare(); }

static inline void serve(void) {
  uint64_t message[2 + 2 * DOT_PRODUCT_MAX_PAIRS];
  uint64_t header = lnic_read();
  uint64_t words = message_words(header);
  if (words < 2 || words > sizeof message / sizeof *message) {
    refuse(header, 0);
    return;
  }
  for (uint64_t at = 0; at < words; at++)
    message[at] = lnic_read();
  __asm__ volatile("" : : "r"(message) : "memory"); /* Forces the message to memory. */

  uint64_t pairs = message[1];
  if (message[0] != DOT_PRODUCT_DATA || pairs > DOT_PRODUCT_MAX_PAIRS || words != 2 + 2 * pairs) {
    refuse(header, words);
    return;
  }
  uint64_t result = 0;
  for (uint64_t pair = 0; pair < pairs; pair++)
    result += message[3 + 2 * pair] * dot_product_weight(message[2 + 2 * pair]);
  lnic_write_r(header_to(header, DOT_PRODUCT_REPLY_WORDS));
  lnic_write_i(DOT_PRODUCT_REPLY);
  lnic_write_r(result);
}

int main(void) { return service_on_all_harts(); }
