/* Jumps to an address without memory. */
#include <stdint.h>

static __attribute__((noinline)) void jump_to(uintptr_t address) { ((void (*)(void))address)(); }

int main(void) {
  volatile uintptr_t nowhere = 0xdead0000;
  jump_to(nowhere);
  return 0;
}
