/* Alternatives to include/aes.h for AES-256 encryption: one table and rotations, and bit slicing.
 * Checks that all give the same result, and prints the cost for 64 chained blocks, 1 KiB.
 * docs/tasks.md has the resulting decision. */
#include "measured.h"
#include <aes.h>
#include <runtime.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS = 64, BLOCK_BITS = 16 };

/* One table instead of four: the others are rotations of it. */
static inline uint32_t rotated_column(struct aes_block state, int column, uint32_t key) {
  const uint32_t *table = aes_table[0];
  return table[state.column[column] & 0xff] ^
         aes_rotate32(table[state.column[(column + 1) % 4] >> 8 & 0xff], 8) ^
         aes_rotate32(table[state.column[(column + 2) % 4] >> 16 & 0xff], 16) ^
         aes_rotate32(table[state.column[(column + 3) % 4] >> 24], 24) ^ key;
}

static struct aes_block rotated(const struct aes_256 *key, struct aes_block state) {
  for (int column = 0; column < 4; column++)
    state.column[column] ^= key->round[0].column[column];
#pragma GCC unroll 14
  for (int round = 1; round < AES_256_ROUNDS; round++) {
    const uint32_t *words = key->round[round].column;
    state = (struct aes_block){{
        rotated_column(state, 0, words[0]),
        rotated_column(state, 1, words[1]),
        rotated_column(state, 2, words[2]),
        rotated_column(state, 3, words[3]),
    }};
  }
  const uint32_t *words = key->round[AES_256_ROUNDS].column;
  return (struct aes_block){{
      aes_last_column(state, 0, words[0]),
      aes_last_column(state, 1, words[1]),
      aes_last_column(state, 2, words[2]),
      aes_last_column(state, 3, words[3]),
  }};
}

/* Bit-sliced: bit i of word b is bit b of byte i. A block uses 16 of a word's 64 bits; four blocks
 * would cost the same, but in a chain each depends on the previous one. */
struct sliced {
  uint64_t bit[8];
};

static struct sliced slice(struct aes_block block) {
  struct sliced sliced = {{0}};
  for (int place = 0; place < BLOCK_BITS; place++)
    for (int bit = 0; bit < 8; bit++)
      sliced.bit[bit] |= (uint64_t)(block.column[place / 4] >> (8 * (place % 4) + bit) & 1)
                         << place;
  return sliced;
}

/* The same for a block in transit: rows of 8 bits are transposed in words (Warren, "Hacker's
 * Delight", Section 7-3). */
static inline uint64_t transpose8(uint64_t x) {
  uint64_t t = (x ^ x >> 7) & 0x00aa00aa00aa00aa;
  x ^= t ^ t << 7;
  t = (x ^ x >> 14) & 0x0000cccc0000cccc;
  x ^= t ^ t << 14;
  t = (x ^ x >> 28) & 0x00000000f0f0f0f0;
  return x ^ t ^ t << 28;
}

static inline struct sliced slice_fast(struct aes_block block) {
  uint64_t low = transpose8(block.column[0] | (uint64_t)block.column[1] << 32);
  uint64_t high = transpose8(block.column[2] | (uint64_t)block.column[3] << 32);
  struct sliced sliced;
#pragma GCC unroll 8
  for (int bit = 0; bit < 8; bit++)
    sliced.bit[bit] = (low >> 8 * bit & 0xff) | (high >> 8 * bit & 0xff) << 8;
  return sliced;
}

static inline struct aes_block unslice(struct sliced sliced) {
  uint64_t low = 0, high = 0;
#pragma GCC unroll 8
  for (int bit = 0; bit < 8; bit++) {
    low |= (sliced.bit[bit] & 0xff) << 8 * bit;
    high |= (sliced.bit[bit] >> 8 & 0xff) << 8 * bit;
  }
  low = transpose8(low);
  high = transpose8(high);
  return (struct aes_block){
      {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)}};
}

/* The S-box in 115 gates and 4 inversions: Boyar and Peralta, "A depth-16 circuit for the AES
 * S-box", 2011. Their x0 is the highest bit. */
static inline struct sliced substitute(struct sliced in) {
  uint64_t x0 = in.bit[7], x1 = in.bit[6], x2 = in.bit[5], x3 = in.bit[4];
  uint64_t x4 = in.bit[3], x5 = in.bit[2], x6 = in.bit[1], x7 = in.bit[0];
  uint64_t y14 = x3 ^ x5, y13 = x0 ^ x6, y9 = x0 ^ x3, y8 = x0 ^ x5, t0 = x1 ^ x2;
  uint64_t y1 = t0 ^ x7, y4 = y1 ^ x3, y12 = y13 ^ y14, y2 = y1 ^ x0, y5 = y1 ^ x6;
  uint64_t y3 = y5 ^ y8, t1 = x4 ^ y12, y15 = t1 ^ x5, y20 = t1 ^ x1, y6 = y15 ^ x7;
  uint64_t y10 = y15 ^ t0, y11 = y20 ^ y9, y7 = x7 ^ y11, y17 = y10 ^ y11, y19 = y10 ^ y8;
  uint64_t y16 = t0 ^ y11, y21 = y13 ^ y16, y18 = x0 ^ y16;
  uint64_t t2 = y12 & y15, t4 = (y3 & y6) ^ t2, t6 = (y4 & x7) ^ t2, t7 = y13 & y16;
  uint64_t t9 = (y5 & y1) ^ t7, t11 = (y2 & y7) ^ t7, t12 = y9 & y11, t14 = (y14 & y17) ^ t12;
  uint64_t t16 = (y8 & y10) ^ t12, t21 = t4 ^ t14 ^ y20, t22 = t6 ^ t16 ^ y19;
  uint64_t t23 = t9 ^ t14 ^ y21, t24 = t11 ^ t16 ^ y18, t25 = t21 ^ t22, t26 = t21 & t23;
  uint64_t t27 = t24 ^ t26, t29 = (t25 & t27) ^ t22, t31 = t22 ^ t26;
  uint64_t t33 = (t31 & (t23 ^ t24)) ^ t24, t34 = t23 ^ t33, t36 = t24 & (t27 ^ t33);
  uint64_t t37 = t36 ^ t34, t40 = t25 ^ (t29 & (t27 ^ t36)), t41 = t40 ^ t37, t42 = t29 ^ t33;
  uint64_t t43 = t29 ^ t40, t44 = t33 ^ t37, t45 = t42 ^ t41;
  uint64_t z0 = t44 & y15, z1 = t37 & y6, z2 = t33 & x7, z3 = t43 & y16, z4 = t40 & y1;
  uint64_t z5 = t29 & y7, z6 = t42 & y11, z7 = t45 & y17, z8 = t41 & y10, z9 = t44 & y12;
  uint64_t z10 = t37 & y3, z11 = t33 & y4, z12 = t43 & y13, z13 = t40 & y5, z14 = t29 & y2;
  uint64_t z15 = t42 & y9, z16 = t45 & y14, z17 = t41 & y8;
  uint64_t t46 = z15 ^ z16, t47 = z10 ^ z11, t48 = z5 ^ z13, t49 = z9 ^ z10, t50 = z2 ^ z12;
  uint64_t t51 = z2 ^ z5, t52 = z7 ^ z8, t53 = z0 ^ z3, t54 = z6 ^ z7, t55 = z16 ^ z17;
  uint64_t t56 = z12 ^ t48, t57 = t50 ^ t53, t58 = z4 ^ t46, t59 = z3 ^ t54, t60 = t46 ^ t57;
  uint64_t t61 = z14 ^ t57, t62 = t52 ^ t58, t63 = t49 ^ t58, t64 = z4 ^ t59, t65 = t61 ^ t62;
  uint64_t t66 = z1 ^ t63, t67 = t64 ^ t65, s3 = t53 ^ t66;
  return (struct sliced){
      {t48 ^ ~t60, t56 ^ ~t62, t47 ^ t65, t51 ^ t66, s3, t55 ^ ~t67, t64 ^ ~s3, t59 ^ t63}};
}

/* Each row from columns to the right of it: bits of row r are 4 apart. */
static inline uint64_t shift_rows(uint64_t word) {
  word &= 0xffff;
  word |= word << 16;
  return (word & 0x1111) | (word >> 4 & 0x2222) | (word >> 8 & 0x4444) | (word >> 12 & 0x8888);
}

static inline uint64_t next_row(uint64_t word) {
  return (word >> 1 & 0x7777) | (word << 3 & 0x8888);
}

static inline uint64_t second_row(uint64_t word) {
  return (word >> 2 & 0x3333) | (word << 2 & 0xcccc);
}

/* 2 a + 3 b + c + d = 2 (a + b) + b + (c + d), for each row. */
static inline struct sliced mix_columns(struct sliced in) {
  struct sliced next, sum, out;
#pragma GCC unroll 8
  for (int bit = 0; bit < 8; bit++) {
    next.bit[bit] = next_row(in.bit[bit]);
    sum.bit[bit] = in.bit[bit] ^ next.bit[bit];
  }
#pragma GCC unroll 8
  for (int bit = 0; bit < 8; bit++) {
    uint64_t twice = bit == 0 ? sum.bit[7] : sum.bit[bit - 1];
    if (bit == 1 || bit == 3 || bit == 4)
      twice ^= sum.bit[7];
    out.bit[bit] = twice ^ next.bit[bit] ^ second_row(sum.bit[bit]);
  }
  return out;
}

static struct sliced sliced_key[AES_256_ROUNDS + 1];

static inline struct sliced add_key(struct sliced state, int round) {
#pragma GCC unroll 8
  for (int bit = 0; bit < 8; bit++)
    state.bit[bit] ^= sliced_key[round].bit[bit];
  return state;
}

static struct aes_block bit_sliced(const struct aes_256 *key, struct aes_block block) {
  (void)key;
  struct sliced state = add_key(slice_fast(block), 0);
  for (int round = 1; round <= AES_256_ROUNDS; round++) {
    state = substitute(state);
#pragma GCC unroll 8
    for (int bit = 0; bit < 8; bit++)
      state.bit[bit] = shift_rows(state.bit[bit]);
    if (round < AES_256_ROUNDS)
      state = mix_columns(state);
    state = add_key(state, round);
  }
  return unslice(state);
}

static struct aes_block four_tables(const struct aes_256 *key, struct aes_block block) {
  return aes_256_encrypt(key, block);
}

/* Chained; measures the second execution, with warm caches. */
#define MEASURE(encrypt)                                                                           \
  do {                                                                                             \
    for (int iteration = 0; iteration < 2; iteration++) {                                          \
      uint64_t begin = cycle(), first = instructions();                                            \
      block = (struct aes_block){{1, 2, 3, 4}};                                                    \
      for (int number = 0; number < BLOCKS; number++)                                              \
        block = encrypt(&key, block);                                                              \
      cycles = cycle() - begin, executed = instructions() - first;                                 \
    }                                                                                              \
    if (expected.column[0] == 0)                                                                   \
      expected = block;                                                                            \
    if (memcmp(&block, &expected, sizeof block) != 0)                                              \
      fail("%s gives something else", #encrypt);                                                   \
    printf("%s: %lu cycles and %lu instructions a block\n", #encrypt, cycles / BLOCKS,             \
           executed / BLOCKS);                                                                     \
  } while (0)

int main(void) {
  struct aes_256 key;
  struct aes_block block, expected = {{0}};
  uint64_t cycles, executed;
  aes_make_tables();
  aes_256_expand(&key, (const uint32_t[8]){1, 2, 3, 4, 5, 6, 7, 8});
  for (int round = 0; round <= AES_256_ROUNDS; round++)
    sliced_key[round] = slice(key.round[round]);
  MEASURE(four_tables);
  MEASURE(rotated);
  MEASURE(bit_sliced);
  return 0;
}
