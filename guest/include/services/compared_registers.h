/**
 * The store of services/compared_store.h on nanoPU: the common part of programs that differ in how
 * a hart waits for its next message.
 *
 * The store is the same as with the other interfaces, with its values in memory, so messages pass
 * through a buffer, and any hart may serve.
 */
#ifndef SERVICES_COMPARED_REGISTERS_H
#define SERVICES_COMPARED_REGISTERS_H

#include <services/compared_store.h>
/* Above: the number of words of a value. */
#include <lnic.h>
#include <nanopu/service.h>

void prepare(void) { compared_prepare_store(STORE_NUMBERS); }

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
  uint64_t value[STORE_MOST_VALUE_WORDS] __attribute__((aligned(64)));
  uint64_t *to = value;
  if (operation == STORE_WRITE)
    FOR_EACH_WORD(STORE_VALUE_WORDS, *to++ = lnic_read());
  compared_work(service_time);
  uint64_t value_words = store_answer(operation, first, second, value, value);
  lnic_write_r(header_to(header, LOAD_WORDS + (value_words == 0 ? 1 : value_words)));
  lnic_write_r(service_time);
  lnic_write_r(sent_time);
  if (value_words == 0) {
    lnic_write_r(value[0]);
    return;
  }
  const uint64_t *from = value;
  FOR_EACH_WORD(value_words, lnic_write_m(*from++));
}

#endif
