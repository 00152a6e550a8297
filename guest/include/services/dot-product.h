/**
 * The weights of the dot product, and its messages (nanoPU's Listing 2).
 *
 * | message | words |
 * | --- | --- |
 * | request | 1, how many pairs, pairs of the weight's number and a value |
 * | reply | 2, the sum of the values, each times its weight |
 */
#ifndef SERVICES_DOT_PRODUCT_H
#define SERVICES_DOT_PRODUCT_H

#include <operations.h>

enum {
  DOT_PRODUCT_DATA = 1,
  DOT_PRODUCT_REPLY = 2,
  DOT_PRODUCT_REPLY_WORDS = 2,
  /** Fills the prototype's L1 cache of 16 KiB (Section 5.2.1). A power of two: a larger number
   * selects another weight, which costs one instruction and needs no error reply. */
  DOT_PRODUCT_WEIGHTS = 2048,
  DOT_PRODUCT_MAX_PAIRS = 127, /**< In a message of 2048 bytes. */
};

static uint64_t dot_product_weights[DOT_PRODUCT_WEIGHTS] __attribute__((aligned(64)));

/** Fills in the weights. */
static inline void dot_product_prepare(void) {
  for (uint64_t number = 0; number < DOT_PRODUCT_WEIGHTS; number++)
    dot_product_weights[number] = operation_mix(number);
}

static inline uint64_t dot_product_weight(uint64_t number) {
  return dot_product_weights[number % DOT_PRODUCT_WEIGHTS];
}

#endif
