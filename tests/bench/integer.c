/* Integer work out of the first-level cache: mixing, a checksum by table, a histogram. */
#include <stdint.h>

#ifndef ROUNDS
#define ROUNDS 300
#endif

enum { BYTES = 2048 };

static uint32_t table[256];
static uint8_t buffer[BYTES];

static uint64_t mixed(uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdULL;
  return value ^ value >> 29;
}

__attribute__((noinline)) static uint64_t checksum(uint64_t start) {
  uint64_t sum = start;
  for (int i = 0; i < BYTES; i++)
    sum = table[(sum ^ buffer[i]) & 255] ^ sum >> 8;
  return sum;
}

int main(void) {
  uint64_t sum = 0;
  for (int i = 0; i < 256; i++)
    table[i] = (uint32_t)mixed((uint64_t)i);
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t histogram[16] = {0};
    for (int i = 0; i < BYTES; i++)
      buffer[i] = (uint8_t)(mixed((uint64_t)(i + round)) >> 5);
    sum += checksum(sum);
    for (int i = 0; i < BYTES; i++)
      histogram[buffer[i] & 15] += buffer[i * 7 % BYTES] * 3u;
    for (int i = 0; i < 16; i++)
      sum ^= histogram[i];
  }
  return sum == 0;
}
