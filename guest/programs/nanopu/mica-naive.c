/**
 * A key-value store whose values go through buffers in memory between the registers and the store.
 *
 * MICA with its API as it is, the "naive" one of the nanoPU paper (Section 5.3, Figure 9). store.h
 * has the messages.
 */
#include <lnic.h>
#include <nanopu/store.h>

void prepare(void) { store_prepare(); }

static inline void serve(void) {
  static uint64_t value[STORE_VALUE_WORDS] __attribute__((aligned(64)));
  uint64_t header = lnic_read();
  uint64_t words = message_words(header);
  if (words < STORE_REQUEST_WORDS) {
    refuse(header, 0);
    return;
  }
  uint64_t service_time = lnic_read(), sent_time = lnic_read();
  uint64_t operation = lnic_read();
  if (!store_is_request(operation, words)) {
    refuse(header, LOAD_WORDS + 1);
    return;
  }
  uint64_t first = lnic_read(), second = lnic_read(), key[2];
  lnic_read(); /* The hash. */
  key_of_words(key, first, second);
  if (operation == STORE_WRITE) {
#pragma GCC unroll 64
    for (int word = 0; word < STORE_VALUE_WORDS; word++)
      value[word] = lnic_read();
    mica_put(&store, 0, key, (const uint8_t *)value, sizeof value);
    store_reply(header, service_time, sent_time, STORE_DONE);
  } else if (mica_get(&store, key, (uint8_t *)value, sizeof value) < 0) {
    store_reply(header, service_time, sent_time, STORE_NOT_FOUND);
  } else {
    lnic_write_r(header_to(header, LOAD_WORDS + STORE_VALUE_WORDS));
    lnic_write_r(service_time);
    lnic_write_r(sent_time);
#pragma GCC unroll 64
    for (int word = 0; word < STORE_VALUE_WORDS; word++)
      lnic_write_m(value[word]);
  }
}

int main(void) { return service_on_one_hart(); }
