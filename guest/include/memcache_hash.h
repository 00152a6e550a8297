/**
 * The hash of keys in the cache of memcache.h: MurmurHash3_x86_32 (Appleby 2011) with the seed 0.
 */
#ifndef MEMCACHE_HASH_H
#define MEMCACHE_HASH_H

#include <stdint.h>
#include <string.h>

static inline uint32_t memcache_rotate(uint32_t word, int by) {
  return word << by | word >> (32 - by);
}

static inline uint32_t memcache_scramble(uint32_t word) {
  return memcache_rotate(word * 0xcc9e2d51, 15) * 0x1b873593;
}

static inline uint32_t memcache_hash_word(uint32_t hash, uint32_t word) {
  return memcache_rotate(hash ^ memcache_scramble(word), 13) * 5 + 0xe6546b64;
}

/* The bytes after the last whole word, and the finalization. */
static inline uint32_t memcache_hash_end(uint32_t hash, const uint8_t *key, uint64_t at,
                                         uint64_t bytes) {
  uint32_t word = 0;
  for (uint64_t byte = bytes; byte > at; byte--)
    word = word << 8 | key[byte - 1];
  hash ^= memcache_scramble(word) ^ (uint32_t)bytes;
  hash = (hash ^ hash >> 16) * 0x85ebca6b;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35;
  return hash ^ hash >> 16;
}

static inline uint32_t memcache_hash(const uint8_t *key, uint64_t bytes) {
  uint32_t hash = 0, word;
  uint64_t at = 0;
  for (; at + sizeof word <= bytes; at += sizeof word) {
    memcpy(&word, key + at, sizeof word);
    hash = memcache_hash_word(hash, word);
  }
  return memcache_hash_end(hash, key, at, bytes);
}

/* The same for a key at an address that is a multiple of 4: one load for each word. */
static inline uint32_t memcache_hash_aligned(const uint32_t *key, uint64_t bytes) {
  uint32_t hash = 0;
  uint64_t at = 0;
  for (; at + sizeof *key <= bytes; at += sizeof *key)
    hash = memcache_hash_word(hash, key[at / sizeof *key]);
  return memcache_hash_end(hash, (const uint8_t *)key, at, bytes);
}

#endif
