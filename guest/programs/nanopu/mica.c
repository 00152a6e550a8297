/**
 * A key-value store that reads and writes its values word by word between registers and memory.
 *
 * MICA as the nanoPU paper optimises it (Section 5.3, Figure 9). services/store.h has the messages.
 */
#include <lnic.h>
#include <nanopu/store.h>

void prepare(void) { store_prepare(); }

/* The words of a key's value, or NULL. */
static inline uint64_t *value_of(const uint64_t key[2]) {
  const struct mica_bucket *bucket = mica_bucket(&store, key);
  int place = mica_find(&store, bucket, key);
  return place < 0 ? NULL : (uint64_t *)mica_item(&store, bucket->entries[place])->value;
}

/* A new key has no allocated space yet for its value. */
static __attribute__((noinline)) void put_new(const uint64_t key[2]) {
  uint64_t value[STORE_VALUE_WORDS];
  for (int word = 0; word < STORE_VALUE_WORDS; word++)
    value[word] = lnic_read();
  mica_put(&store, 0, key, (const uint8_t *)value, sizeof value);
}

static inline void write_value(const uint64_t key[2]) {
  uint64_t *value = value_of(key);
  if (value == NULL) {
    put_new(key);
    return;
  }
#pragma GCC unroll 64
  for (int word = 0; word < STORE_VALUE_WORDS; word++)
    value[word] = lnic_read();
}

static inline int read_value(const struct load_request *request, const uint64_t key[2]) {
  const uint64_t *value = value_of(key);
  if (value == NULL)
    return 0;
  request_reply(request, STORE_VALUE_WORDS);
#pragma GCC unroll 64
  for (int word = 0; word < STORE_VALUE_WORDS; word++)
    lnic_write_m(value[word]);
  return 1;
}

int main(void) { return service_on_one_hart(); }
