/* Alternatives to the multiplication of programs/erasure-coding.c: a code over GF(256) with the
 * same number of fragments, with tables and on eight bytes at once, which must agree. Prints the
 * cost for an object of 4 KiB. docs/tasks.md has the resulting decision. */
#define main erasure_coding_main
#include "../programs/erasure-coding.c"
#undef main

#include "measured.h"
#include <stdio.h>

enum { OBJECT_BYTES = 4096, FRAGMENT_BYTES = OBJECT_BYTES / DATA };

static _Alignas(64) uint8_t in_bytes[OBJECT_BYTES + 64], out_bytes[OBJECT_BYTES],
    expected[PARITY * FRAGMENT_BYTES];
static struct io_slot *const in = (struct io_slot *)in_bytes, *const out =
                                                                  (struct io_slot *)out_bytes;

/* A Cauchy matrix over GF(256) modulo x^8 + x^4 + x^3 + x^2 + 1: 1 / (i + j), for i below 4 and j
 * from 4 on. */
static const uint8_t wide_matrix[PARITY][DATA] = {
    {71, 167, 122, 186, 173, 157, 221, 152},
    {167, 71, 186, 122, 157, 173, 152, 221},
    {122, 186, 71, 167, 221, 152, 173, 157},
    {186, 122, 167, 71, 152, 221, 157, 173},
};
static uint8_t products[PARITY][DATA][256];

static uint8_t product(uint8_t left, uint8_t right) {
  unsigned sum = 0;
  for (int bit = 7; bit >= 0; bit--) {
    sum = sum << 1 ^ (sum >> 7) * 0x11d;
    if (right >> bit & 1)
      sum ^= left;
  }
  return (uint8_t)sum;
}

static void make_products(void) {
  for (int row = 0; row < PARITY; row++)
    for (int fragment = 0; fragment < DATA; fragment++)
      for (int byte = 0; byte < 256; byte++)
        products[row][fragment][byte] = product((uint8_t)byte, wide_matrix[row][fragment]);
}

static void by_tables(void) {
  for (uint64_t byte = 0; byte < FRAGMENT_BYTES; byte++) {
    uint8_t sum[PARITY] = {0};
#pragma GCC unroll 8
    for (int fragment = 0; fragment < DATA; fragment++) {
      uint8_t data = in->packet[(uint64_t)fragment * FRAGMENT_BYTES + byte];
#pragma GCC unroll 4
      for (int row = 0; row < PARITY; row++)
        sum[row] ^= products[row][fragment][data];
    }
    for (int row = 0; row < PARITY; row++)
      out->packet[(uint64_t)row * FRAGMENT_BYTES + byte] = sum[row];
  }
}

static inline uint64_t times2(uint64_t bytes) {
  uint64_t carries = bytes >> 7 & 0x0101010101010101;
  return (bytes & 0x7f7f7f7f7f7f7f7f) << 1 ^ carries * 0x1d;
}

/* Eight bytes at once: adds each fragment's multiples with the powers of 2 that the matrix, which
 * the compiler knows, contains. */
static void by_words(void) {
  enum { WORDS = FRAGMENT_BYTES / 8 };
  const uint64_t *data = (const uint64_t *)in->packet;
  uint64_t *parity = (uint64_t *)out->packet;
  for (uint64_t word = 0; word < WORDS; word++) {
    uint64_t sum[PARITY] = {0};
#pragma GCC unroll 8
    for (uint64_t fragment = 0; fragment < DATA; fragment++) {
      uint64_t power = data[fragment * WORDS + word];
#pragma GCC unroll 8
      for (int bit = 0; bit < 8; bit++) {
#pragma GCC unroll 4
        for (int row = 0; row < PARITY; row++)
          if (wide_matrix[row][fragment] >> bit & 1)
            sum[row] ^= power;
        power = times2(power);
      }
    }
    for (int row = 0; row < PARITY; row++)
      parity[(uint64_t)row * WORDS + word] = sum[row];
  }
}

static void by_bits(void) { process(0, in, out); }

/* Measures the second execution, with warm caches. */
static void measure(void (*encode)(void), const char *name) {
  uint64_t cycles = 0, executed = 0;
  for (int iteration = 0; iteration < 2; iteration++) {
    memset(out->packet, 0, sizeof expected);
    uint64_t begin = cycle(), first = instructions();
    encode();
    cycles = cycle() - begin, executed = instructions() - first;
  }
  if (encode == by_tables)
    memcpy(expected, out->packet, sizeof expected);
  if (encode == by_words && memcmp(out->packet, expected, sizeof expected) != 0)
    fail("%s: something else comes out", name);
  printf("%s: %lu cycles and %lu instructions\n", name, cycles, executed);
}

int main(void) {
  uint64_t random = 1;
  in->length = OBJECT_BYTES;
  for (uint64_t byte = 0; byte < OBJECT_BYTES; byte++) {
    random = random * 6364136223846793005 + 1442695040888963407; /* Knuth's generator. */
    in->packet[byte] = (uint8_t)(random >> 56);
  }
  make_products();
  measure(by_bits, "exclusive-ors of strips");
  measure(by_tables, "tables");
  measure(by_words, "words");
  return 0;
}
