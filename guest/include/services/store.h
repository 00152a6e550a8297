/**
 * The key-value store of nanoPU's MICA, and its messages (Section 5.3).
 *
 * | message | words |
 * | --- | --- |
 * | read | two of the load generator, 1, two of the key, a hash |
 * | write | two of the load generator, 2, two of the key, a hash, 64 of the value |
 * | reply to a read | two of the load generator, 64 of the value; or one, 0: there is no such key |
 * | reply to a write | two of the load generator, 1 |
 *
 * The store is that of mica.h. It hashes keys by itself, so that a client need not know how; the
 * hash in the message is not used. One hart serves it, for all that it reads goes straight to the
 * network: it cannot begin again, should another hart change a value meanwhile.
 */
#ifndef SERVICES_STORE_H
#define SERVICES_STORE_H

#include <mica.h>
#include <operations.h>
#include <runtime.h>
#include <services/keys.h>

enum {
  STORE_READ = 1,
  STORE_WRITE = 2,
  STORE_NOT_FOUND = 0,
  STORE_DONE = 1,
  STORE_KEYS = 10000,     /**< From the beginning: their first word is 0 and so on, the second 0. */
  STORE_VALUE_WORDS = 64, /**< 512 bytes. */
  STORE_REQUEST_WORDS = 6, /**< Of a read; in a write the value follows. */
};

static struct mica store;

/** Fills the store with the keys, and their first values. */
static inline void store_prepare(void) {
  uint64_t value[STORE_VALUE_WORDS];
  /* Twice the room of all items, for keys that are new. */
  mica_make(&store, STORE_KEYS / 2, 2 * STORE_KEYS * mica_item_bytes(sizeof value));
  for (uint64_t number = 0; number < STORE_KEYS; number++) {
    uint64_t key[2];
    key_of_words(key, number, 0);
    for (uint64_t word = 0; word < STORE_VALUE_WORDS; word++)
      value[word] = operation_mix(number * STORE_VALUE_WORDS + word);
    if (mica_put(&store, 0, key, (const uint8_t *)value, sizeof value) != 0)
      fail("The store has no room for its first keys.");
  }
}

/** Whether a message of so many words can be such a request. */
static inline int store_is_request(uint64_t operation, uint64_t words) {
  return (operation == STORE_READ && words == STORE_REQUEST_WORDS) ||
         (operation == STORE_WRITE && words == STORE_REQUEST_WORDS + STORE_VALUE_WORDS);
}

#endif
