/* Uses an instruction of the extension V; without a C library. */

void _start(void) {
  __asm__ volatile("vsetvli a0, zero, e8, m1, ta, ma" ::: "a0");
  __builtin_unreachable();
}
