/**
 * Counts misses of 64 lines, at their first load and at the second.
 */
#include <counters.h>
#include <memory_map.h>
#include <stdio.h>

static volatile uint64_t lines[64][8] __attribute__((aligned(64)));

static uint64_t misses(void) {
  uint64_t before = counter_read(3);
#pragma GCC unroll 64
  for (int line = 0; line < 64; line++)
    (void)lines[line][0];
  __asm__ volatile("fence" ::: "memory");
  return counter_read(3) - before;
}

int main(void) {
  if (!counter_select(3, COUNTER_L1_DATA_MISSES)) {
    printf("nothing is counted\n");
    return 0;
  }
  uint64_t first = misses(), second = misses();
  printf("%lu misses, then %lu\n", first, second);
  printf("no such event: %d\n", counter_select(4, (enum counter_event)99));
  return 0;
}
