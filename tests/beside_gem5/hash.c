/* A chained hash table of 20,000 entries of 88 bytes, filled and then read 40,000 times. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ENTRIES 20000
#define BUCKETS 16384
#define LOOK_UPS 40000

struct entry {
  struct entry *next;
  uint64_t key[2];
  uint64_t value[8];
};

static struct entry *buckets[BUCKETS];

static uint64_t bucket(uint64_t first, uint64_t second) {
  uint64_t hash = first * 0x9E3779B97F4A7C15 ^ second;
  hash *= 0xC2B2AE3D27D4EB4F;
  return (hash ^ hash >> 29) % BUCKETS;
}

int main(void) {
  struct entry *pool = malloc(sizeof(struct entry) * ENTRIES);
  for (uint64_t i = 0; i < ENTRIES; i++) {
    struct entry *entry = pool + i * 7919 % ENTRIES;
    entry->key[0] = i;
    entry->key[1] = i * 31;
    for (uint64_t k = 0; k < 8; k++)
      entry->value[k] = i ^ k;
    struct entry **head = buckets + bucket(i, i * 31);
    entry->next = *head;
    *head = entry;
  }
  uint64_t state = 99, sum = 0; /* a linear congruential generator */
  for (int look_up = 0; look_up < LOOK_UPS; look_up++) {
    state = state * 6364136223846793005 + 1;
    uint64_t key = (state >> 33) % ENTRIES;
    struct entry *entry = buckets[bucket(key, key * 31)];
    while (entry && (entry->key[0] != key || entry->key[1] != key * 31))
      entry = entry->next;
    for (int k = 0; entry && k < 8; k++)
      sum += entry->value[k];
  }
  printf("%lu\n", sum);
  return 0;
}
