/**
 * Sends every message back to its sender, with each of its words incremented.
 *
 * The nanoPU paper's stateless job (Section 5.2.1, Figure 5): a word is moved from register to
 * register through an addition, and never to memory.
 */
#include <lnic.h>
#define SERVICE_ON_ALL_HARTS
#include <nanopu/service.h>

static inline void serve(void) {
  uint64_t header = lnic_read();
  lnic_write_r(header);
  FOR_EACH_WORD(message_words(header), lnic_add_int_i(1));
}

int main(void) { return service_on_all_harts(); }
