/**
 * Serves gets of the cache of memcache.h from the server's memory: the interface answers, without
 * the server's cores. The server publishes the table's address (cache_gets.h).
 *
 * It takes no locks, so the cache must not change meanwhile: it serves only gets. Any other message
 * is answered as an invalid request, with one word of ones.
 */
#include <cache_gets.h>
#include <interface.h>
#include <memcache_hash.h>
#include <operations.h>
#include <services/wire_operations.h>
#include <stddef.h>

/* At CACHE_GETS_OFFSET: _start is shorter than a line. */
__asm__(".pushsection .text.start, \"ax\"\n"
        ".balign 64\n"
        ".globl cache_gets_table\n"
        "cache_gets_table: .zero 64\n"
        ".popsection\n");
extern volatile const struct cache_gets_table cache_gets_table;
_Static_assert(CACHE_GETS_OFFSET == 64, "the table is behind _start");

/* Number of overlapping loads of host memory. */
enum { BATCH = 8 };

/* The words of an item that are loaded together. */
enum { KEY_WORDS = 4 };
struct visited {
  uint64_t chain, lengths;
};

/* Whether the first `bytes` bytes of two words of keys are equal. */
static inline int is_same(uint64_t one, uint64_t other, uint64_t bytes) {
  return bytes >= 8 ? one == other : bytes == 0 || (one ^ other) << (64 - 8 * bytes) == 0;
}

/* Whether the item has the key, which starts at a word and is padded with arbitrary bytes. */
static inline int visit(const uint64_t *item, const uint64_t *key, uint64_t key_bytes,
                        struct visited *visited) {
  uint64_t chain = item[CACHE_GETS_CHAIN], lengths = item[CACHE_GETS_VALUE_BYTES];
  uint64_t stored[KEY_WORDS];
#pragma GCC unroll 4
  for (int word = 0; word < KEY_WORDS; word++)
    stored[word] = item[CACHE_GETS_KEY + word];
  *visited = (struct visited){chain, lengths};
  if (lengths >> 56 != key_bytes)
    return 0;
#pragma GCC unroll 4
  for (int word = 0; word < KEY_WORDS; word++) {
    if (!is_same(stored[word], key[word], key_bytes))
      return 0;
    if (key_bytes <= 8)
      return 1;
    key_bytes -= 8;
  }
  for (uint64_t word = KEY_WORDS;; word++) {
    if (!is_same(item[CACHE_GETS_KEY + word], key[word], key_bytes))
      return 0;
    if (key_bytes <= 8)
      return 1;
    key_bytes -= 8;
  }
}

/* Copies bytes of host memory from any address to an aligned one, and up to BATCH words more. */
static inline void copy(uint64_t *to, uint64_t from, uint64_t bytes) {
  const uint64_t *words = (const uint64_t *)(from & ~UINT64_C(7));
  uint64_t shift = 8 * (from & 7), before = *words++;
  for (uint64_t done = 0; done < bytes; done += 8 * BATCH) {
    uint64_t batch[BATCH];
#pragma GCC unroll 8
    for (int word = 0; word < BATCH; word++)
      batch[word] = words[word];
#pragma GCC unroll 8
    for (int word = 0; word < BATCH; word++) {
      to[word] = before >> shift | batch[word] << 1 << (63 - shift);
      before = batch[word];
    }
    words += BATCH;
    to += BATCH;
  }
}

/* The item of a key, or NULL. */
static inline const uint64_t *find(const uint64_t *key, uint64_t key_bytes, uint32_t hash,
                                   struct visited *visited) {
  uint64_t place = hash & cache_gets_table.mask;
  if (cache_gets_table.kind == CACHE_GETS_CHAINS) {
    const uint64_t *item = (const uint64_t *)((const uint64_t *)cache_gets_table.buckets)[place];
    while (item != NULL && !visit(item, key, key_bytes, visited))
      item = (const uint64_t *)visited->chain;
    return item;
  }
  const uint64_t *bucket = (const uint64_t *)cache_gets_table.buckets + place * 8;
  while (bucket != NULL) {
    uint64_t entries[CACHE_GETS_ENTRIES + 1];
#pragma GCC unroll 8
    for (int entry = 0; entry <= CACHE_GETS_ENTRIES; entry++)
      entries[entry] = bucket[entry];
#pragma GCC unroll 7
    for (int entry = 0; entry < CACHE_GETS_ENTRIES; entry++) {
      if (entries[entry] >> CACHE_GETS_TAG_SHIFT != hash >> 16 || entries[entry] == 0)
        continue;
      const uint64_t *item = (const uint64_t *)(entries[entry] << 16 >> 16);
      if (visit(item, key, key_bytes, visited))
        return item;
    }
    bucket = (const uint64_t *)entries[CACHE_GETS_ENTRIES];
  }
  return NULL;
}

/* Replaces a get by its reply, and returns the reply's bytes. */
static uint64_t answer(struct operation_request *request) {
  const struct operation_request head = *request;
  const uint64_t *key = (const uint64_t *)request->key;
  uint32_t hash = memcache_hash_aligned((const uint32_t *)key, head.key_bytes);
  struct visited visited;
  const uint64_t *item = find(key, head.key_bytes, hash, &visited);
  struct operation_reply *reply = (struct operation_reply *)request;
  *reply = (struct operation_reply){
      .status = item != NULL ? OPERATION_DONE : OPERATION_NOT_FOUND,
      .operation = OPERATION_GET,
      .number = head.number,
  };
  if (item == NULL)
    return sizeof *reply;
  uint32_t value_bytes = (uint32_t)visited.lengths;
  reply->count = (uint16_t)value_bytes;
  copy((uint64_t *)reply->data, (uint64_t)(item + CACHE_GETS_KEY) + head.key_bytes, value_bytes);
  return sizeof *reply + value_bytes;
}

void firmware(uint64_t core) {
  (void)core;
  for (;;) {
    uint64_t frame_bytes = interface_next();
    struct frame *frame = interface_frame();
    uint64_t bytes = frame_payload_bytes(frame, frame_bytes);
    uint64_t front = WIRE_OPERATIONS_WORDS * sizeof(uint64_t);
    struct operation_request *request =
        (struct operation_request *)(frame->payload + WIRE_OPERATIONS_WORDS);
    if (bytes > front && operation_is_whole(request, bytes - front) && request->key_bytes > 0 &&
        request->operation == OPERATION_GET && cache_gets_table.kind != CACHE_GETS_NOTHING) {
      bytes = front + answer(request);
    } else {
      frame->payload[0] = ~UINT64_C(0);
      bytes = sizeof(uint64_t);
    }
    swap_addresses(frame);
    frame_set_payload_bytes(frame, bytes);
    interface_send(sizeof *frame + bytes);
  }
}
