/**
 * Increases the words of a stream of messages by one, and reports when the stream began.
 *
 * | message | words |
 * | --- | --- |
 * | configuration | 0, how many messages follow, the time of their beginning |
 * | data | 1, any words, a time |
 * | reply to data | 1, the words plus one, the time of the beginning |
 *
 * There is no reply to a configuration. So whoever takes the last reply knows how long the stream
 * took. Data beyond what was configured are refused.
 */
#include <lnic.h>
#include <nanopu/service.h>

enum { CONFIGURATION = 0, DATA = 1 };

static uint64_t messages_left, start_time;

static inline void serve(void) {
  uint64_t header, words = message_begin(&header, 2);
  if (words == 0)
    return;
  uint64_t type = lnic_read();
  if (type == DATA && messages_left > 0) {
    messages_left--;
    lnic_write_r(header);
    lnic_write_r(type);
    for (uint64_t left = words - 2; left > 0; left--)
      lnic_add_int_i(1);
    lnic_read(); /* When it was sent. */
    lnic_write_r(start_time);
  } else if (type == CONFIGURATION && words == 3) {
    messages_left = lnic_read();
    start_time = lnic_read();
  } else {
    refuse(header, 1);
  }
}

int main(void) { return service_on_one_hart(); }
