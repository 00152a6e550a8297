/* All harts work on blocks of one array, which they take from one counter, and add up their results
 * in another. So lines move between all caches, some 22 for each thousand instructions. */
#include <runtime.h>

enum { WORDS = 1 << 16, BLOCK = 512, ROUNDS = 4 };

static uint64_t words[WORDS];
static uint64_t next_block, sum, finished;

static void work(void) {
  for (;;) {
    uint64_t block = __atomic_fetch_add(&next_block, 1, __ATOMIC_RELAXED);
    if (block >= ROUNDS * (WORDS / BLOCK))
      break;
    uint64_t *first = words + block % (WORDS / BLOCK) * BLOCK;
    uint64_t value = block;
    for (int i = 0; i < BLOCK; i++) {
      value = value * 6364136223846793005ULL + first[i];
      first[i] = value >> 7;
    }
    __atomic_fetch_add(&sum, value, __ATOMIC_RELAXED);
  }
  __atomic_fetch_add(&finished, 1, __ATOMIC_RELEASE);
}

int hart_main(int hart) {
  (void)hart;
  work();
  return 0;
}

int main(void) {
  harts_release();
  work();
  while (__atomic_load_n(&finished, __ATOMIC_ACQUIRE) != harts)
    ;
  return 0;
}
