/**
 * Increments the words of a stream of messages, and reports the start time of the stream.
 *
 * | message | words |
 * | --- | --- |
 * | configuration | 0, how many messages follow, the time of their beginning |
 * | data | 1, any words, a time |
 * | reply to data | 1, the words plus one, the time of the beginning |
 *
 * A configuration has no reply. The receiver of the last reply can thus compute the duration of the
 * stream. Data beyond the configured number are refused.
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
    lnic_read(); /* The time of sending. */
    lnic_write_r(start_time);
  } else if (type == CONFIGURATION && words == 3) {
    messages_left = lnic_read();
    start_time = lnic_read();
  } else {
    refuse(header, 1);
  }
}

int main(void) { return service_on_one_hart(); }
