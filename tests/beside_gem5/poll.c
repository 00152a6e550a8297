/* Polls 1000 queue heads, a line each, 64 KB of them; one poll in 64 finds an item and touches
 * more. */

#include <stdint.h>
#include <stdio.h>

#define QUEUES 1000
#define PASSES 1500
#define ARRIVALS 16 /* in each pass */

static struct {
  _Alignas(64) volatile uint64_t count;
} queues[QUEUES];
static uint64_t items[65536];

int main(void) {
  uint64_t found = 0, sum = 0, state = 12345; /* a linear congruential generator */
  for (int i = 0; i < QUEUES; i++)
    queues[i].count = 0;
  for (int pass = 0; pass < PASSES; pass++) {
    for (int i = 0; i < QUEUES; i++) {
      if (queues[i].count == 0)
        continue;
      queues[i].count--;
      found++;
      uint64_t *item = items + (state >> 20 & 8191) * 8;
      sum += *item;
      *item = sum;
    }
    for (int i = 0; i < ARRIVALS; i++) {
      state = state * 6364136223846793005 + 1442695040888963407;
      queues[(state >> 33) % QUEUES].count++;
    }
  }
  printf("%lu %lu\n", found, sum);
  return 0;
}
