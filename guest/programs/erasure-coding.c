/**
 * Erasure coding: Reed-Solomon with a Cauchy matrix, four parity fragments for eight of data.
 *
 * An item is an object: eight data fragments of equal length, one behind the other. The tenant
 * receives the four parity fragments; any eight of the twelve fragments suffice to recover the
 * object. Baidu's Atlas stores its objects with RS(8, 4) (Lai et al., MSST 2015); HDFS and Ceph
 * have codes of this size, too.
 *
 * The code is Cauchy Reed-Solomon (Bloemer et al., "An XOR-Based Erasure-Resilient Coding Scheme",
 * 1995) over GF(16) modulo x^4 + x + 1. A fragment is four strips; strip b has bit b of its
 * elements. Multiplying 64 elements by a constant then takes a few exclusive-ors of words, as many
 * as the constant's 4 x 4 bit matrix has ones. So an object is a multiple of 256 bytes: 8 fragments
 * of 4 strips of 8 bytes. Any other length is passed on as an error.
 */
#include <data_plane.h>

enum {
  DATA = 8,
  PARITY = 4,
  BITS = 4,
  OBJECT_UNIT = DATA * BITS * sizeof(uint64_t),
};

/*
 * Row i, column j: s(i) (x(0) + y(j)) / (x(i) + y(j)), with x = 0, 1, 2, 3, y = 4, 5, 7, 8, 9, 11,
 * 12, 13 and s = 1, 10, 12, 14. This is a Cauchy matrix whose rows and columns have been scaled,
 * which keeps every square submatrix invertible (Plank and Xu, "Optimizing Cauchy Reed-Solomon
 * Codes", NCA 2006). No choice of x, y and s whose first row is ones has fewer ones in its bit
 * matrices: 198 of 512.
 */
static const uint8_t matrix[PARITY][DATA] = {
    {1, 1, 1, 1, 1, 1, 1, 1},
    {8, 1, 9, 13, 6, 11, 4, 2},
    {8, 3, 5, 1, 13, 9, 2, 11},
    {8, 9, 3, 11, 2, 1, 6, 13},
};

/* sum += constant * element, for 64 elements in words of one bit each. The loops are unrolled and
 * the constant is known, so that only exclusive-ors remain. */
__attribute__((always_inline)) static inline void
multiply_and_add(uint64_t sum[BITS], const uint64_t element[BITS], unsigned constant) {
#pragma GCC unroll 4
  for (int bit = 0; bit < BITS; bit++) {
#pragma GCC unroll 4
    for (int to = 0; to < BITS; to++)
      if (constant >> to & 1)
        sum[to] ^= element[bit];
    constant = constant << 1 ^ (constant >> 3) * 0x13; /* Times x. */
  }
}

/* Keeps a sum in registers at this point of the program. Otherwise the compiler looks for
 * subexpressions shared between rows, which needs all 32 words of the data live at once, with 16
 * registers available. */
__attribute__((always_inline)) static inline void keep(uint64_t sum[BITS]) {
  __asm__("" : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3]));
}

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  (void)queue;
  if (in->length == 0 || in->length % OBJECT_UNIT != 0) {
    out->length = 0;
    out->flags = IO_FLAG_ERROR; /* The tenant counts it. */
    return;
  }
  uint64_t words = in->length / OBJECT_UNIT; /* Per strip. */
  const uint64_t *data = (const uint64_t *)in->packet;
  uint64_t *parity = (uint64_t *)out->packet;
  for (uint64_t word = 0; word < words; word++) {
    const uint64_t *strip = data + word;
    uint64_t sum[PARITY][BITS] = {{0}};
#pragma GCC unroll 8
    for (int fragment = 0; fragment < DATA; fragment++) {
      uint64_t element[BITS];
#pragma GCC unroll 4
      for (int bit = 0; bit < BITS; bit++) {
        element[bit] = *strip;
        strip += words;
        __asm__("" : "+r"(strip));
      }
#pragma GCC unroll 4
      for (int row = 0; row < PARITY; row++) {
        multiply_and_add(sum[row], element, matrix[row][fragment]);
        keep(sum[row]);
      }
    }
    uint64_t *to = parity + word;
#pragma GCC unroll 4
    for (int row = 0; row < PARITY; row++) {
#pragma GCC unroll 4
      for (int bit = 0; bit < BITS; bit++) {
        *to = sum[row][bit];
        to += words;
        __asm__("" : "+r"(to));
      }
    }
  }
  out->length = (uint32_t)(PARITY * BITS * words * sizeof(uint64_t));
}

int main(void) {
  io_device()->items = IO_ITEMS_BLOCKS;
  return data_plane();
}
