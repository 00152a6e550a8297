/**
 * The weights of the dot product, and its messages, which are those of the published test for
 * nanoPU's Figure 6: each word is the number of a weight, and the factor of that weight, too.
 *
 * | message | words |
 * | --- | --- |
 * | request | 1, how many factors, the factors, a stamp |
 * | reply | 2, the sum of the factors, each times its weight, the stamp |
 */
#ifndef SERVICES_DOT_PRODUCT_H
#define SERVICES_DOT_PRODUCT_H

#include <stdint.h>

enum {
  DOT_PRODUCT_DATA = 1,
  DOT_PRODUCT_REPLY = 2,
  DOT_PRODUCT_REPLY_WORDS = 3,
  DOT_PRODUCT_HEADER_WORDS = 2,
  DOT_PRODUCT_OTHER_WORDS = 3, /**< Words of a request beside its factors. */
  /** Fills the prototype's L1 cache of 16 KiB (Section 5.2.1); the published test uses the first
   * 2000. A power of two: a larger number selects another weight, which costs one instruction and
   * needs no error reply. */
  DOT_PRODUCT_WEIGHTS = 2048,
  DOT_PRODUCT_MAX_FACTORS = 253, /**< In a message of 2048 bytes. */
};

static uint64_t dot_product_weights[DOT_PRODUCT_WEIGHTS] __attribute__((aligned(64)));

/** Fills in the weights: each is its number, as in the published programs. */
static inline void dot_product_prepare(void) {
  for (uint64_t number = 0; number < DOT_PRODUCT_WEIGHTS; number++)
    dot_product_weights[number] = number;
}

/** Brings the weights into the cache: the published programs write them, and then read them. */
static inline void dot_product_read_weights(void) {
  for (int pass = 0; pass < 2; pass++)
    for (uint64_t number = 0; number < DOT_PRODUCT_WEIGHTS; number++)
      (void)*(volatile uint64_t *)&dot_product_weights[number];
}

static inline uint64_t dot_product_weight(uint64_t number) {
  return dot_product_weights[number % DOT_PRODUCT_WEIGHTS];
}

/** Whether a request's first two words are valid for a message of so many words. */
static inline int dot_product_is_request(uint64_t type, uint64_t factors, uint64_t words) {
  return type == DOT_PRODUCT_DATA && factors <= DOT_PRODUCT_MAX_FACTORS &&
         words == DOT_PRODUCT_OTHER_WORDS + factors;
}

#endif
