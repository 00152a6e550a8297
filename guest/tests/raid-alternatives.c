/* Alternatives to programs/raid-protection.c for computing Q: without a multiplication, and with
 * tables. Checks that all give the same result, and prints the cost for a stripe of 4 KiB.
 * docs/tasks.md has the resulting decision. */
#define main raid_protection_main
#include "../programs/raid-protection.c"
#undef main

#include "measured.h"
#include <stdio.h>

enum { STRIPE_BYTES = 4096, BLOCK_BYTES = STRIPE_BYTES / DISKS };

static _Alignas(64) uint8_t in_bytes[STRIPE_BYTES + 64], out_bytes[STRIPE_BYTES],
    expected[2 * BLOCK_BYTES];
static struct io_slot *const in = (struct io_slot *)in_bytes, *const out =
                                                                  (struct io_slot *)out_bytes;

/* Carries become masks, as in the Linux kernel (lib/raid6/int.uc). */
static inline uint64_t times2_by_masks(uint64_t bytes) {
  uint64_t carries = bytes & 0x8080808080808080;
  uint64_t masks = (carries << 1) - (carries >> 7);
  return (bytes << 1 & 0xfefefefefefefefe) ^ (masks & 0x1d1d1d1d1d1d1d1d);
}

static void by_masks(void) {
  uint64_t words = in->length / STRIPE_UNIT;
  const uint64_t *data = (const uint64_t *)in->packet;
  uint64_t *parity = (uint64_t *)out->packet;
  for (uint64_t word = 0; word < words; word++) {
    uint64_t p = data[(DISKS - 1) * words + word], q = p;
#pragma GCC unroll 8
    for (int disk = DISKS - 2; disk >= 0; disk--) {
      uint64_t block = data[(uint64_t)disk * words + word];
      p ^= block;
      q = times2_by_masks(q) ^ block;
    }
    parity[word] = p;
    parity[words + word] = q;
  }
}

/* Products with the powers of 2, one table per disk. */
static uint8_t products[DISKS][256];

static void make_products(void) {
  for (int byte = 0; byte < 256; byte++) {
    products[0][byte] = (uint8_t)byte;
    for (int disk = 1; disk < DISKS; disk++)
      products[disk][byte] = (uint8_t)times2(products[disk - 1][byte]);
  }
}

static void by_tables(void) {
  uint64_t bytes = in->length / DISKS;
  for (uint64_t byte = 0; byte < bytes; byte++) {
    uint8_t p = 0, q = 0;
#pragma GCC unroll 8
    for (int disk = 0; disk < DISKS; disk++) {
      uint8_t data = in->packet[(uint64_t)disk * bytes + byte];
      p ^= data;
      q ^= products[disk][data];
    }
    out->packet[byte] = p;
    out->packet[bytes + byte] = q;
  }
}

static void by_multiplication(void) { process(0, in, out); }

/* Measures the second execution, with warm caches. */
static void measure(void (*encode)(void), const char *name) {
  uint64_t cycles = 0, executed = 0;
  for (int turn = 0; turn < 2; turn++) {
    memset(out->packet, 0, sizeof expected);
    uint64_t begin = cycle(), first = instructions();
    encode();
    cycles = cycle() - begin, executed = instructions() - first;
  }
  if (encode == by_multiplication)
    memcpy(expected, out->packet, sizeof expected);
  if (memcmp(out->packet, expected, sizeof expected) != 0)
    fail("%s: something else comes out", name);
  printf("%s: %lu cycles and %lu instructions\n", name, cycles, executed);
}

int main(void) {
  uint64_t random = 1;
  in->length = STRIPE_BYTES;
  for (uint64_t byte = 0; byte < STRIPE_BYTES; byte++) {
    random = random * 6364136223846793005 + 1442695040888963407; /* Knuth's generator. */
    in->packet[byte] = (uint8_t)(random >> 56);
  }
  make_products();
  measure(by_multiplication, "a multiplication");
  measure(by_masks, "masks");
  measure(by_tables, "tables");
  return 0;
}
