/**
 * RAID protection: the P and Q parity of a stripe over eight data disks (RAID 6).
 *
 * An item is a stripe: eight data blocks of equal length, one behind the other. The tenant receives
 * the block for the disk P and behind it the one for Q; the data is written to its disks unchanged.
 * With bytes as elements of GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1, and 2 as generator (H. P.
 * Anvin, "The mathematics of RAID-6"):
 *
 *     P = D0 + D1 + ... + D7        Q = D0 + 2 D1 + 4 D2 + ... + 128 D7
 *
 * Any two lost disks can be recomputed from the others. RAID 6 groups of eight plus two disks are
 * common. Blocks are a multiple of 8 bytes, so a stripe is a multiple of 64; any other length is
 * passed on as an error.
 *
 * Q is evaluated by Horner's rule on eight bytes at once, in 64-bit words.
 */
#include <data_plane.h>

enum { DISKS = 8, STRIPE_UNIT = DISKS * sizeof(uint64_t) };

/* Doubles each of eight bytes. A bit shifted out of a byte is reduced to x^4 + x^3 + x^2 + 1. */
static inline uint64_t times2(uint64_t bytes) {
  uint64_t carries = bytes >> 7 & 0x0101010101010101;
  return (bytes & 0x7f7f7f7f7f7f7f7f) << 1 ^ carries * 0x1d;
}

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  (void)queue;
  if (in->length == 0 || in->length % STRIPE_UNIT != 0) {
    out->length = 0;
    out->flags = IO_FLAG_ERROR; /* The tenant counts it. */
    return;
  }
  uint64_t words = in->length / STRIPE_UNIT;
  const uint64_t *data = (const uint64_t *)in->packet;
  uint64_t *parity = (uint64_t *)out->packet;
  for (uint64_t word = 0; word < words; word++) {
    uint64_t p = data[(DISKS - 1) * words + word], q = p;
#pragma GCC unroll 8
    for (int disk = DISKS - 2; disk >= 0; disk--) {
      uint64_t block = data[(uint64_t)disk * words + word];
      p ^= block;
      q = times2(q) ^ block;
    }
    parity[word] = p;
    parity[words + word] = q;
  }
  out->length = (uint32_t)(2 * words * sizeof(uint64_t));
}

int main(void) {
  io_device()->items = IO_ITEMS_BLOCKS;
  return data_plane();
}
