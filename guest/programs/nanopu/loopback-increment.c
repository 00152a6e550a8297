/**
 * Sends every message back to its sender, each of its words increased by one.
 *
 * The nanoPU paper's stateless job (Section 5.2.1, Figure 5): a word goes from register to register
 * by way of an addition, and never to memory.
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
