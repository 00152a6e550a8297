/* Prints where the stack of each hart is. */
#include <runtime.h>
#include <stdio.h>

static uint64_t stacks[64], finished;

static void look(uint64_t hart) {
  stacks[hart] = (uint64_t)__builtin_frame_address(0);
  __atomic_fetch_add(&finished, 1, __ATOMIC_RELEASE);
}

int hart_main(int hart) {
  look((uint64_t)hart);
  return 0;
}

int main(void) {
  harts_release();
  look(0);
  while (__atomic_load_n(&finished, __ATOMIC_ACQUIRE) != harts)
    ;
  for (uint64_t hart = 0; hart < harts; hart++)
    printf("%lx\n", stacks[hart]);
  return 0;
}
