/**
 * Sends every message back to its sender, whatever its length.
 */
#include <lnic.h>
#include <nanopu/messages.h>

int main(void) {
  lnic_add_context(0, 0);
  for (;;) {
    lnic_wait();
    uint64_t header = lnic_read();
    lnic_write_r(header);
    FOR_EACH_WORD(message_words(header), lnic_copy());
    lnic_msg_done();
  }
}
