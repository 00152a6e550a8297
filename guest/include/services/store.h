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
 * The store is that of mica.h. It hashes keys itself, so that clients need not; the hash in the
 * message is not used. Programs that send values directly from the store to the network run on one
 * hart: they cannot retry if another hart changes a value meanwhile. store_answer() is for any
 * hart.
 */
#ifndef SERVICES_STORE_H
#define SERVICES_STORE_H

#include <byte_order.h>
#include <mica.h>
#include <operations.h>
#include <runtime.h>
#include <services/keys.h>

/** Words of a value: a program can define them before it includes this file, also as a variable
 * that is set before prepare() fills the store, and their maximum. */
#ifndef STORE_VALUE_WORDS
#define STORE_VALUE_WORDS 64 /* 512 bytes. */
#define STORE_MOST_VALUE_WORDS STORE_VALUE_WORDS
#endif

enum {
  STORE_READ = 1,
  STORE_WRITE = 2,
  STORE_NOT_FOUND = 0,
  STORE_DONE = 1,
  STORE_KEYS = 10000,      /**< Initial keys: their first word is 0 and so on, the second 0. */
  STORE_REQUEST_WORDS = 6, /**< In a read; in a write the value follows. */
};

static struct mica store;

/** The byte order of values in a store. */
enum store_order {
  STORE_NUMBERS, /**< Numbers: for programs that receive and send them so. */
  STORE_WIRE,    /**< The wire's order, so that they can be copied. */
};

/** Fills a store with the keys from `first` to before `end`, and their initial values. */
static inline void store_fill(struct mica *of, uint64_t first, uint64_t end,
                              enum store_order order) {
  uint64_t value[STORE_MOST_VALUE_WORDS];
  const uint64_t value_bytes = STORE_VALUE_WORDS * sizeof *value;
  /* Twice the room of all items, for new keys. */
  mica_make(of, (end - first) / 2, 2 * (end - first) * mica_item_bytes(value_bytes));
  for (uint64_t number = first; number < end; number++) {
    uint64_t key[2];
    key_of_words(key, number, 0);
    for (uint64_t word = 0; word < STORE_VALUE_WORDS; word++)
      value[word] = operation_mix(number * STORE_VALUE_WORDS + word);
    for (uint64_t word = 0; word < STORE_VALUE_WORDS && order == STORE_WIRE; word++)
      value[word] = swap64(value[word]);
    if (mica_put(of, 0, key, (const uint8_t *)value, value_bytes) != 0)
      fail("The store has no room for its first keys.");
  }
}

/** Fills the store with the keys, and their initial values. */
static inline void store_prepare_as(enum store_order order) {
  store_fill(&store, 0, STORE_KEYS, order);
}

/** The same with values as numbers. */
static inline void store_prepare(void) { store_prepare_as(STORE_NUMBERS); }

/** Answers a request, on any hart: writes the reply after the load generator's words to `reply`,
 * and returns the number of its value's words, or 0 if it is a status of one word. `value` is that
 * of a write; values have the store's byte order. */
static inline uint64_t store_answer(uint64_t operation, uint64_t first, uint64_t second,
                                    const uint64_t *value, uint64_t *reply) {
  const uint64_t value_bytes = STORE_VALUE_WORDS * sizeof *value;
  uint64_t key[2];
  key_of_words(key, first, second);
  if (operation == STORE_WRITE) {
    uint64_t hart;
    __asm__("csrr %0, mhartid" : "=r"(hart));
    mica_put(&store, hart, key, (const uint8_t *)value, value_bytes);
    reply[0] = STORE_DONE;
    return 0;
  }
  if (mica_get(&store, key, (uint8_t *)reply, value_bytes) >= 0)
    return STORE_VALUE_WORDS;
  reply[0] = STORE_NOT_FOUND;
  return 0;
}

/** Whether a message of this length can be such a request. */
static inline int store_is_request(uint64_t operation, uint64_t words) {
  return (operation == STORE_READ && words == STORE_REQUEST_WORDS) ||
         (operation == STORE_WRITE && words == STORE_REQUEST_WORDS + STORE_VALUE_WORDS);
}

#endif
