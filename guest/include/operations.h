/**
 * Operations on the keys of a store: requests, replies, and the keys and values that a store has
 * from the beginning. Items are such requests if the program says IO_ITEMS_OPERATIONS.
 *
 * A request is a head, the key, and for a put the value. A reply is a head, and then the value of a
 * get, or the pairs of a scan, each with a head of its own and filled up to eight bytes. Numbers
 * have the hart's byte order. Nothing else is in a request or a reply.
 */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include <stdint.h>

enum operation { OPERATION_GET = 0, OPERATION_PUT = 1, OPERATION_SCAN = 2 };

struct operation_request {
  uint8_t operation; /**< enum operation. */
  uint8_t key_bytes;
  uint16_t more;   /**< A put: bytes of the value. A scan: how many keys. A get: 0. */
  uint32_t number; /**< The reply has it, too. */
  uint8_t key[];
};

enum operation_status {
  OPERATION_DONE = 0,
  OPERATION_NOT_FOUND = 1, /**< There is no such key. */
  OPERATION_NO_ROOM = 2,   /**< The store is full. */
};

struct operation_reply {
  uint8_t status; /**< enum operation_status. */
  uint8_t operation;
  uint16_t count;  /**< Pairs behind a scan's; otherwise bytes of the value. */
  uint32_t number; /**< Of the request. */
  uint8_t data[];
};

/** A key and its value in the reply to a scan, in the order of the keys' bytes. */
struct operation_pair {
  uint32_t key_bytes;
  uint32_t value_bytes;
  uint8_t data[]; /**< The key, and then the value. */
};

enum {
  OPERATION_KEY_BYTES = 16, /**< Of generated keys. */
};

/** Whether `bytes` bytes are one whole request. */
static inline int operation_is_whole(const struct operation_request *request, uint64_t bytes) {
  if (bytes < sizeof *request)
    return 0;
  uint64_t value_bytes = request->operation == OPERATION_PUT ? request->more : 0;
  return request->operation <= OPERATION_SCAN &&
         bytes == sizeof *request + request->key_bytes + value_bytes;
}

/* One step of SplitMix64 (Steele, Lea and Flood 2014). */
static inline uint64_t operation_mix(uint64_t number) {
  uint64_t mixed = number + 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  return mixed ^ mixed >> 31;
}

/** The key with a number, as the generator has it. */
static inline void operation_key(uint64_t number, uint64_t key[2]) {
  key[0] = operation_mix(number);
  key[1] = operation_mix(key[0]);
}

/** The first value of a key: words that follow from the key, as many bytes as are asked for. */
static inline void operation_first_value(const uint64_t key[2], uint8_t *value, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word = operation_mix(key[1] + at);
    for (uint64_t byte = 0; byte < sizeof word && at + byte < bytes; byte++)
      value[at + byte] = (uint8_t)(word >> 8 * byte);
  }
}

#endif
