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
  uint64_t message[DOT_PRODUCT_MAX_FACTORS];
  uint64_t header, words = message_begin(&header, DOT_PRODUCT_HEADER_WORDS);
  if (words == 0)
    return;
  uint64_t type = lnic_read(), factors = lnic_read();
  if (!dot_product_is_request(type, factors, words)) {
    refuse(header, DOT_PRODUCT_HEADER_WORDS);
    return;
  }
  lnic_write_r(header_to(header, DOT_PRODUCT_REPLY_WORDS));
  lnic_write_i(DOT_PRODUCT_REPLY);
  for (uint64_t at = 0; at < factors; at++)
    message[at] = lnic_read();
  __asm__ volatile("" : : "r"(message) : "memory"); /* Forces the message to memory. */
  uint64_t result = 0;
  for (uint64_t at = 0; at < factors; at++)
    result += message[at] * dot_product_weight(message[at]);
  lnic_write_r(result);
  lnic_copy();
}

int main(void) {
  dot_product_read_weights();
  return service_on_all_harts();
}
