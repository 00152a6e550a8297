/* Known answers for include/aes.h: FIPS 197, Appendices A.3 and C.3, and SP 800-38A, F.2.5. Exits
 * with 0, or with 1 after printing the error. */
#include <aes.h>
#include <runtime.h>
#include <string.h>

enum { CHAINED_BLOCKS = 4 };

static void check(int right, const char *what) {
  if (!right)
    fail("wrong: %s", what);
}

/* Converts hexadecimal digits to bytes. */
static void read_bytes(void *to, const char *digits) {
  for (uint8_t *byte = to; *digits; byte++) {
    *byte = 0;
    for (int digit = 0; digit < 2; digit++, digits++)
      *byte = (uint8_t)(*byte << 4 | (*digits <= '9' ? *digits - '0' : *digits - 'a' + 10));
  }
}

static void expand(struct aes_256 *to, const char *digits) {
  uint32_t key[AES_256_KEY_BYTES / 4];
  read_bytes(key, digits);
  aes_256_expand(to, key);
}

int main(void) {
  struct aes_256 key;
  struct aes_block block, expected;
  aes_make_tables();

  expand(&key, "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
  read_bytes(&expected, "fe4890d1e6188d0b046df344706c631e");
  check(memcmp(&key.round[AES_256_ROUNDS], &expected, sizeof expected) == 0, "the key's expansion");

  struct aes_block plain[CHAINED_BLOCKS], encrypted[CHAINED_BLOCKS];
  read_bytes(&block, "000102030405060708090a0b0c0d0e0f");
  read_bytes(plain, "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
                    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710");
  read_bytes(encrypted, "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d"
                        "39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b");
  for (int number = 0; number < CHAINED_BLOCKS; number++) {
    block = aes_256_cbc(&key, block, plain[number]);
    check(memcmp(&block, &encrypted[number], sizeof block) == 0, "chained blocks");
  }

  expand(&key, "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
  read_bytes(&block, "00112233445566778899aabbccddeeff");
  read_bytes(&expected, "8ea2b7ca516745bfeafc49904b496089");
  block = aes_256_encrypt(&key, block);
  check(memcmp(&block, &expected, sizeof block) == 0, "a block");
  return 0;
}
