/**
 * The key-value store on nanoPU: messages come out of a register and go into one.
 *
 * The store is the one that the other interfaces have, with its values in memory, so that they go
 * by way of a buffer and any hart may serve. services/store.h has the messages.
 */
#include <lnic.h>
#include <nanopu/service.h>
#include <services/store.h>

void prepare(void) { store_prepare(); }

static inline void serve(void) {
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
  uint64_t first = lnic_read(), second = lnic_read();
  lnic_read(); /* The hash. */
  uint64_t value[STORE_VALUE_WORDS] __attribute__((aligned(64)));
  if (operation == STORE_WRITE) {
#pragma GCC unroll 64
    for (int word = 0; word < STORE_VALUE_WORDS; word++)
      value[word] = lnic_read();
  }
  uint64_t answer_words = store_answer(operation, first, second, value, value);
  lnic_write_r(header_to(header, LOAD_WORDS + answer_words));
  lnic_write_r(service_time);
  lnic_write_r(sent_time);
  if (answer_words == 1) {
    lnic_write_r(value[0]);
    return;
  }
#pragma GCC unroll 64
  for (int word = 0; word < STORE_VALUE_WORDS; word++)
    lnic_write_m(value[word]);
}

int hart_main(int hart) {
  (void)hart;
  return service();
}

int main(void) {
  harts_release();
  return hart_main(0);
}
