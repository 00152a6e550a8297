/**
 * The dot product of a message and weights in memory, computed as the words are read from the
 * register.
 *
 * The nanoPU paper's stateful job (Section 3.5, Listing 2; "optimal" in Figure 6). dot-product.h
 * has the messages.
 */
#include <lnic.h>
#define SERVICE_ON_ALL_HARTS
#include <nanopu/service.h>
#include <services/dot-product.h>

void prepare(void) { dot_product_prepare(); }

static inline void serve(void) {
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
  uint64_t result = 0;
  for (; factors > 0; factors--) {
    uint64_t factor = lnic_read();
    result += factor * dot_product_weight(factor);
  }
  lnic_write_r(result);
  lnic_copy();
}

int main(void) {
  dot_product_read_weights();
  return service_on_all_harts();
}
