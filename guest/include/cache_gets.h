/**
 * What a server that has the cache of memcache.h in its memory and the firmware cache-gets.c, which
 * serves gets from there, tell each other: a table at the beginning of the interface's scratchpad.
 */
#ifndef CACHE_GETS_H
#define CACHE_GETS_H

#include <stdint.h>

enum {
  CACHE_GETS_OFFSET = 64, /* In the scratchpad, behind the firmware's first instructions. */
  CACHE_GETS_ENTRIES = 7, /* Of an associative bucket; the eighth word leads to another one. */
  CACHE_GETS_TAG_SHIFT = 48,
};

/** How a key leads to its item. */
enum cache_gets_kind {
  CACHE_GETS_NOTHING = 0,     /**< The server has not said it yet. */
  CACHE_GETS_CHAINS = 1,      /**< Buckets are pointers to the first item of a chain. */
  CACHE_GETS_ASSOCIATIVE = 2, /**< Buckets are lines: see cache_gets_entry(). */
};

struct cache_gets_table {
  uint64_t buckets, mask;
  uint64_t kind; /**< Written last. */
};

/** The entry of an associative bucket for an item: its address, and the upper 16 bits of the hash
 * of its key, by which most other keys are told from it without a look at the item. */
static inline uint64_t cache_gets_entry(uint64_t item, uint32_t hash) {
  return (uint64_t)(hash >> 16) << CACHE_GETS_TAG_SHIFT | item;
}

/* Words of an item, counted from its beginning: struct memcache_item has them. */
enum { CACHE_GETS_CHAIN = 2, CACHE_GETS_VALUE_BYTES = 4, CACHE_GETS_KEY = 6 };

#endif
