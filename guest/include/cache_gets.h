/**
 * The interface between a server with the cache of memcache.h and the firmware cache-gets.c, which
 * serves gets from the server's memory: a table at the beginning of the interface's scratchpad.
 */
#ifndef CACHE_GETS_H
#define CACHE_GETS_H

#include <stdint.h>

enum {
  CACHE_GETS_OFFSET = 64, /* In the scratchpad, after the firmware's first instructions. */
  CACHE_GETS_ENTRIES = 7, /* In an associative bucket; the eighth word points to the next bucket. */
  CACHE_GETS_TAG_SHIFT = 48,
};

/** How the item of a key is found. */
enum cache_gets_kind {
  CACHE_GETS_NOTHING = 0,     /**< The server has not set it yet. */
  CACHE_GETS_CHAINS = 1,      /**< Buckets are pointers to the first item of a chain. */
  CACHE_GETS_ASSOCIATIVE = 2, /**< Buckets are lines: see cache_gets_entry(). */
};

struct cache_gets_table {
  uint64_t buckets, mask;
  uint64_t kind; /**< Written last. */
};

/** The entry of an associative bucket for an item: its address, and the upper 16 bits of its key's
 * hash, which distinguish it from most other keys without a read of the item. */
static inline uint64_t cache_gets_entry(uint64_t item, uint32_t hash) {
  return (uint64_t)(hash >> 16) << CACHE_GETS_TAG_SHIFT | item;
}

/* Words of an item, at these offsets of struct memcache_item. */
enum { CACHE_GETS_CHAIN = 2, CACHE_GETS_VALUE_BYTES = 4, CACHE_GETS_KEY = 6 };

#endif
