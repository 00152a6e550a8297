/**
 * Operations on a store (operations.h) in the messages of a load generator, which puts two words in
 * front of each and wants to have them back.
 */
#ifndef SERVICES_WIRE_OPERATIONS_H
#define SERVICES_WIRE_OPERATIONS_H

#include <stdint.h>

enum { WIRE_OPERATIONS_WORDS = 2 /**< What a load generator puts in front. */ };

/** Writes the reply to an operation, which may be at the same place and have so much room, and
 * returns its bytes; 0 if the operation is none. */
typedef uint32_t operation_handler(const void *request, uint32_t bytes, void *reply, uint32_t room);

/** Answers a message of so many bytes; returns the reply's bytes, `most` at most. Both are aligned
 * to 8, and may be at the same place. The reply to what is no request is one word, all ones. */
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
