/**
 * The store of services/store.h behind an interface that transfers requests and replies in the
 * wire's format: big-endian words.
 */
#ifndef SERVICES_WIRE_STORE_H
#define SERVICES_WIRE_STORE_H

#include <byte_order.h>
#include <services/store.h>

enum { WIRE_LOAD_WORDS = 2 /**< What a load generator puts in front, and wants to have back. */ };

/** Answers a request of this length; returns the reply's length. Both are aligned to 8, and may be
 * in the same place. The reply to a malformed request is one word, all ones. */
static inline uint64_t wire_store_answer(const uint64_t *request, uint64_t bytes, uint64_t *reply) {
  uint64_t words = (bytes + sizeof *request - 1) / sizeof *request;
  uint64_t operation = words < STORE_REQUEST_WORDS ? 0 : swap64(request[WIRE_LOAD_WORDS]);
  if (!store_is_request(operation, words)) {
    reply[0] = ~(uint64_t)0;
    return sizeof *reply;
  }
  uint64_t *answer = reply + WIRE_LOAD_WORDS;
  for (int word = 0; word < WIRE_LOAD_WORDS; word++)
    reply[word] = request[word];
  uint64_t value_words =
      store_answer(operation, swap64(request[WIRE_LOAD_WORDS + 1]),
                   swap64(request[WIRE_LOAD_WORDS + 2]), request + STORE_REQUEST_WORDS, answer);
  if (value_words != 0)
    return (WIRE_LOAD_WORDS + value_words) * sizeof *reply;
  answer[0] = swap64(answer[0]);
  return (WIRE_LOAD_WORDS + 1) * sizeof *reply;
}

#endif
