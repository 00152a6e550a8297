/**
 * Operations on a store (operations.h) in the messages of a load generator, which prepends two
 * words to each that must be returned.
 */
#ifndef SERVICES_WIRE_OPERATIONS_H
#define SERVICES_WIRE_OPERATIONS_H

#include <stdint.h>

enum { WIRE_OPERATIONS_WORDS = 2 /**< What a load generator puts in front. */ };

/** Writes the reply to an operation, in the same place or elsewhere with this much room, and
 * returns its length; 0 if the operation is malformed. */
typedef uint32_t operation_handler(const void *request, uint32_t bytes, void *reply, uint32_t room);

/** Answers a message of this length; returns the reply's length, `most` at most. Both are aligned
 * to 8, and may be in the same place. The reply to a malformed request is one word, all ones. */
static inline uint64_t wire_operations_answer(operation_handler *handle, const uint64_t *request,
                                              uint64_t bytes, uint64_t *reply, uint64_t most) {
  const uint64_t front = WIRE_OPERATIONS_WORDS * sizeof *request;
  uint32_t reply_bytes = 0;
  if (bytes > front)
    reply_bytes = handle(request + WIRE_OPERATIONS_WORDS, (uint32_t)(bytes - front),
                         reply + WIRE_OPERATIONS_WORDS, (uint32_t)(most - front));
  if (reply_bytes == 0) {
    reply[0] = ~(uint64_t)0;
    return sizeof *reply;
  }
  for (int word = 0; word < WIRE_OPERATIONS_WORDS; word++)
    reply[word] = request[word];
  return front + reply_bytes;
}

#endif
