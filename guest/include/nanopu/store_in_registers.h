/**
 * Values of nanoPU's key-value store word by word between registers and memory, without a buffer.
 *
 * MICA as the nanoPU paper optimises it (Section 5.3). A value in transfer cannot be read again:
 * only one hart may access a store.
 */
#ifndef NANOPU_STORE_IN_REGISTERS_H
#define NANOPU_STORE_IN_REGISTERS_H

#include <nanopu/store.h>

/* The words of a key's value, or NULL. */
static inline uint64_t *value_of(const struct mica *of, const uint64_t key[2]) {
  const struct mica_bucket *bucket = mica_bucket(of, key);
  int place = mica_find(of, bucket, key);
  return place < 0 ? NULL : (uint64_t *)mica_item(of, bucket->entries[place])->value;
}

/* A new key has no allocated space yet for its value. */
static __attribute__((noinline)) void put_new(struct mica *of, const uint64_t key[2]) {
  uint64_t value[STORE_VALUE_WORDS];
  for (int word = 0; word < STORE_VALUE_WORDS; word++)
    value[word] = lnic_read();
  mica_put(of, 0, key, (const uint8_t *)value, sizeof value);
}

static inline void write_value(struct mica *of, const uint64_t key[2]) {
  uint64_t *value = value_of(of, key);
  if (value == NULL) {
    put_new(of, key);
    return;
  }
#pragma GCC unroll 64
  for (int word = 0; word < STORE_VALUE_WORDS; word++)
    value[word] = lnic_read();
}

static inline int read_value(const struct mica *of, const struct load_request *request,
                             const uint64_t key[2]) {
  const uint64_t *value = value_of(of, key);
  if (value == NULL)
    return 0;
  reply_value(request, value);
  return 1;
}

#endif
