/**
 * Sends every message back to where it came from, whatever its length.
 */
#include <lnic.h>

int main(void) {
  lnic_add_context(0, 0);
  for (;;) {
    lnic_wait();
    uint64_t header = lnic_read();
    lnic_write_r(header);
    for (uint64_t bytes = header & LEN_MASK, done = 0; done < bytes; done += LNIC_WORD_SIZE)
      lnic_copy();
    lnic_msg_done();
  }
}
