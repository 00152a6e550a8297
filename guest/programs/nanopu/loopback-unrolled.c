/**
 * Sends every message back to its sender, without a loop over its words, as the prototype's program
 * for the paper's Figure 3 does.
 */
#include <lnic.h>
#include <nanopu/unrolled.h>

FOR_ALL_WORDS_BUT_ONE(copy_all_but_one, lnic_copy())

int main(void) {
  lnic_add_context(SERVICE_CONTEXT, 0);
  for (;;) {
    lnic_wait();
    uint64_t header = lnic_read();
    lnic_write_r(header);
    copy_all_but_one(header & LEN_MASK);
    lnic_copy();
    lnic_msg_done();
  }
}
