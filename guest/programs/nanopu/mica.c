/**
 * A key-value store that reads and writes its values word by word between registers and memory.
 *
 * MICA as the nanoPU paper optimises it (Section 5.3, Figure 9). store.h has the messages.
 */
#include <lnic.h>
#include <nanopu/store.h>

void prepare(void) { store_prepare(); }

/* The words of a key's value; or none. */
static inline uint64_t *value_of(const uint64_t key[2]) {
  const struct mica_bucket *bucket = mica_bucket(&store, key);
  int place = mica_find(&store, bucket, key);
  return place < 0 ? NULL : (uint64_t *)mica_item(&store, bucket->entries[place])->value;
}

/* A key that is new has no place yet that its value could go to. */
static __attribute__((noinline)) int put_new(const uint64_t key[2]) {
  uint64_t value[STORE_VALUE_WORDS];
  for (int word = 0; word < STORE_VALUE_WORDS; word++)
    value[word] = lnic_read();
  return mica_put(&store, 0, key, (const uint8_t *)value, sizeof value);
}

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
  uint64_t first = lnic_read(), second = lnic_read(), key[2];
  lnic_read(); /* The hash. */
  key_of_words(key, first, second);
  uint64_t *value = value_of(key);
  if (operation == STORE_WRITE) {
    if (value == NULL) {
      put_new(key);
    } else {
#pragma GCC unroll 64
      for (int word = 0; word < STORE_VALUE_WORDS; word++)
        value[word] = lnic_read();
    }
    store_reply(header, service_time, sent_time, STORE_DONE);
  } else if (value == NULL) {
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
