/**
 * AES with keys of 256 bits (FIPS 197), encryption only, and its cipher block chaining (SP
 * 800-38A).
 *
 * A round's SubBytes, ShiftRows and MixColumns are four table look-ups for each column, as in the
 * cipher's proposal (Daemen and Rijmen, "The Rijndael Block Cipher", 1999, Section 5.2.1). The four
 * tables take 4 KiB. Their indices depend on the key: a program that shares the cache could learn
 * the key (Osvik, Shamir and Tromer, 2006).
 */
#ifndef AES_H
#define AES_H

#include <stdint.h>

enum {
  AES_BLOCK_BYTES = 16,
  AES_256_KEY_BYTES = 32,
  AES_256_ROUNDS = 14,
};

/** A block's four columns; row 0 is in the lowest byte, as in memory. */
struct aes_block {
  uint32_t column[4];
};

/** An expanded key: one block for each round, and one before them. */
struct aes_256 {
  struct aes_block round[AES_256_ROUNDS + 1];
};

static uint8_t aes_substitution[256];
/* The contribution of a byte of row r to its column. The rows of [0] are 2, 1, 1 and 3 times its
 * S-box. */
static uint32_t aes_table[4][256];

/* Twice a byte, in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1. */
static inline uint8_t aes_double(uint8_t value) {
  return (uint8_t)(value << 1 ^ (value >> 7) * 0x1b);
}

static inline uint8_t aes_rotate8(uint8_t value, int bits) {
  return (uint8_t)(value << bits | value >> (8 - bits));
}

static inline uint32_t aes_rotate32(uint32_t value, int bits) {
  return bits == 0 ? value : value << bits | value >> (32 - bits);
}

/** Makes the tables; must be called first. */
static inline void aes_make_tables(void) {
  /* 3 generates the field: `power` goes through all non-zero elements, and `inverse` backwards. */
  uint8_t power = 1, inverse = 1;
  do {
    power ^= aes_double(power);
    inverse ^= (uint8_t)(inverse << 1); /* Division by 3 is multiplication by 0xf6. */
    inverse ^= (uint8_t)(inverse << 2);
    inverse ^= (uint8_t)(inverse << 4);
    inverse ^= (inverse >> 7) * 0x09;
    aes_substitution[power] = 0x63 ^ inverse ^ aes_rotate8(inverse, 1) ^ aes_rotate8(inverse, 2) ^
                              aes_rotate8(inverse, 3) ^ aes_rotate8(inverse, 4);
  } while (power != 1);
  aes_substitution[0] = 0x63;

  for (int byte = 0; byte < 256; byte++) {
    uint32_t once = aes_substitution[byte], twice = aes_double((uint8_t)once);
    uint32_t column = twice | once << 8 | once << 16 | (once ^ twice) << 24;
    for (int row = 0; row < 4; row++)
      aes_table[row][byte] = aes_rotate32(column, 8 * row);
  }
}

static inline uint32_t aes_substitute(uint32_t column) {
  return aes_substitution[column & 0xff] | (uint32_t)aes_substitution[column >> 8 & 0xff] << 8 |
         (uint32_t)aes_substitution[column >> 16 & 0xff] << 16 |
         (uint32_t)aes_substitution[column >> 24] << 24;
}

/** Expands a key of eight words (FIPS 197, Section 5.2). */
static inline void aes_256_expand(struct aes_256 *to, const uint32_t key[8]) {
  enum { KEY_WORDS = 8, WORDS = 4 * (AES_256_ROUNDS + 1) };
  uint32_t words[WORDS];
  uint8_t round_constant = 1;
  for (int word = 0; word < WORDS; word++) {
    if (word < KEY_WORDS) {
      words[word] = key[word];
      continue;
    }
    uint32_t before = words[word - 1];
    if (word % KEY_WORDS == 0) {
      before = aes_substitute(aes_rotate32(before, 24)) ^ round_constant;
      round_constant = aes_double(round_constant);
    } else if (word % KEY_WORDS == 4) {
      before = aes_substitute(before);
    }
    words[word] = words[word - KEY_WORDS] ^ before;
  }
  for (int word = 0; word < WORDS; word++)
    to->round[word / 4].column[word % 4] = words[word];
}

/* ShiftRows takes row r of a column from the r-th next column. */
static inline uint32_t aes_column(struct aes_block state, int column, uint32_t key) {
  uint32_t row0 = aes_table[0][state.column[column] & 0xff];
  uint32_t row1 = aes_table[1][state.column[(column + 1) % 4] >> 8 & 0xff];
  uint32_t row2 = aes_table[2][state.column[(column + 2) % 4] >> 16 & 0xff];
  uint32_t row3 = aes_table[3][state.column[(column + 3) % 4] >> 24];
  return (row1 ^ row2) ^ ((row0 ^ key) ^ row3);
}

/* The last round has no MixColumns. */
static inline uint32_t aes_last_column(struct aes_block state, int column, uint32_t key) {
  uint32_t shifted = (state.column[column] & 0xff) | (state.column[(column + 1) % 4] & 0xff00) |
                     (state.column[(column + 2) % 4] & 0xff0000) |
                     (state.column[(column + 3) % 4] & 0xff000000);
  return aes_substitute(shifted) ^ key;
}

/** Encrypts a block. */
static inline struct aes_block aes_256_encrypt(const struct aes_256 *key, struct aes_block state) {
  for (int column = 0; column < 4; column++)
    state.column[column] ^= key->round[0].column[column];
#pragma GCC unroll 14
  for (int round = 1; round < AES_256_ROUNDS; round++) {
    const uint32_t *round_key = key->round[round].column;
    state = (struct aes_block){{
        aes_column(state, 0, round_key[0]),
        aes_column(state, 1, round_key[1]),
        aes_column(state, 2, round_key[2]),
        aes_column(state, 3, round_key[3]),
    }};
  }
  const uint32_t *round_key = key->round[AES_256_ROUNDS].column;
  return (struct aes_block){{
      aes_last_column(state, 0, round_key[0]),
      aes_last_column(state, 1, round_key[1]),
      aes_last_column(state, 2, round_key[2]),
      aes_last_column(state, 3, round_key[3]),
  }};
}

/** Encrypts a block of a chain: `before` is the previous block's ciphertext, or the initialization
 * vector (SP 800-38A, Section 6.2). */
static inline struct aes_block aes_256_cbc(const struct aes_256 *key, struct aes_block before,
                                           struct aes_block plain) {
  for (int column = 0; column < 4; column++)
    plain.column[column] ^= before.column[column];
  return aes_256_encrypt(key, plain);
}

#endif
