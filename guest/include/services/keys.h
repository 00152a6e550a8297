/**
 * Keys of two words for the table of mica.h, whose keys are hashes.
 */
#ifndef SERVICES_KEYS_H
#define SERVICES_KEYS_H

#include <operations.h>
#include <stdint.h>

/** Makes a key of the table from any two words. The mapping is invertible, so different words make
 * different keys. */
static inline void key_of_words(uint64_t key[2], uint64_t first, uint64_t second) {
  key[0] = operation_mix(first ^ second * 0x9e3779b97f4a7c15);
  key[1] = key[0] ^ second;
}

#endif
