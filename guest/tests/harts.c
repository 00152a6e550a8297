/* All harts increment one variable 1000 times; hart 0 checks the sum. */
#include <runtime.h>
#include <stdio.h>

static uint64_t count, finished;

static void work(void) {
  for (int i = 0; i < 1000; i++)
    __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
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
  printf("%lu harts, %lu\n", harts, count);
  return count == 1000 * harts ? 0 : 1;
}
