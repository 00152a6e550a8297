/**
 * Sends every message back to its sender, with each of its words incremented.
 *
 * The nanoPU paper's stateless job (Section 5.2.1, Figure 5): a word is moved from register to
 * register through an addition, and never to memory.
 */
#include <lnic.h>
#define SERVICE_ON_ALL_HARTS
#include <nanopu/service.h>
#include <nanopu/unrolled.h>

FOR_ALL_WORDS_BUT_ONE(increment_all_but_one, lnic_add_int_i(1))

static inline void serve(void) {
  uint64_t header = lnic_read();
  lnic_write_r(header);
  increment_all_but_one(header & LEN_MASK);
  lnic_add_int_i(1);
}

int main(void) { return service_on_all_harts(); }
