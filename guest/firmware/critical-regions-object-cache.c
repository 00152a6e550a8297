/**
 * Runs critical regions for the cache of object_cache.h: the user routine hashes the key, as the
 * cache does, and parses its length.
 */
#define INTERFACE_ARGUMENTS

#include <interface.h>
#include <memcache_hash.h>
#include <operations.h>
#include <services/wire_operations.h>

struct captured {
  uint64_t key_bytes;
  uint64_t key[32];
};

static inline int interface_capture(const struct frame *frame, uint64_t bytes,
                                    struct captured *captured) {
  const struct operation_request *request = (const void *)(frame->payload + WIRE_OPERATIONS_WORDS);
  const uint64_t *key = frame->payload + WIRE_OPERATIONS_WORDS + 1;
  uint64_t front = sizeof *frame + WIRE_OPERATIONS_WORDS * sizeof *frame->payload;
  if (bytes < front + sizeof *request)
    return 0;
  captured->key_bytes = request->key_bytes;
  if (bytes < front + sizeof *request + captured->key_bytes)
    return 0;
  /* The last word may have bytes behind the key; the frame's buffer has room for them. */
  for (uint64_t word = 0; word * sizeof *key < captured->key_bytes; word++)
    captured->key[word] = key[word];
  return 1;
}

static inline uint64_t interface_arguments(const struct captured *captured, uint64_t *values) {
  /* A register holds an unsigned 32-bit number sign-extended. */
  const void *key = captured->key;
  values[0] = (uint64_t)(int64_t)(int32_t)memcache_hash_aligned(key, captured->key_bytes);
  values[1] = captured->key_bytes;
  return 2;
}

#include "critical-regions.c"
