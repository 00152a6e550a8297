/**
 * Sends every message back to its sender, with the last word of the first message in place of its
 * own. So the last reply contains the time of the first request, as in the prototype's program for
 * the paper's Figure 4.
 */
#include <lnic.h>
#include <nanopu/unrolled.h>

FOR_ALL_WORDS_BUT_ONE(copy_all_but_one, lnic_copy())

/** Sends all words of the next message except the last one. */
static inline void send_all_but_one(void) {
  lnic_wait();
  uint64_t header = lnic_read();
  lnic_write_r(header);
  copy_all_but_one(header & LEN_MASK);
}

int main(void) {
  lnic_add_context(SERVICE_CONTEXT, 0);
  send_all_but_one();
  uint64_t stamp = lnic_read();
  lnic_write_r(stamp);
  lnic_msg_done();
  for (;;) {
    send_all_but_one();
    lnic_read();
    lnic_write_r(stamp);
    lnic_msg_done();
  }
}
