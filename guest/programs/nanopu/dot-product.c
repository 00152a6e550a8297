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
  uint64_t header, words = message_begin(&header, 2);
  if (words == 0)
    return;
  uint64_t type = lnic_read(), pairs = lnic_read();
  if (type != DOT_PRODUCT_DATA || pairs > DOT_PRODUCT_MAX_PAIRS || words != 2 + 2 * pairs) {
    refuse(header, 2);
    return;
  }
  uint64_t result = 0;
  for (; pairs > 0; pairs--) {
    uint64_t number = lnic_read();
    uint64_t value = lnic_read();
    result += value * dot_product_weight(number);
  }
  lnic_write_r(header_to(header, DOT_PRODUCT_REPLY_WORDS));
  lnic_write_i(DOT_PRODUCT_REPLY);
  lnic_write_r(result);
}

int main(void) { return service_on_all_harts(); }
