/* Runs at whatever address it is put, without a C library. */

static long number = 40;

static long call(long which, long first, long second, long third) {
  register long a7 __asm__("a7") = which;
  register long a0 __asm__("a0") = first;
  register long a1 __asm__("a1") = second;
  register long a2 __asm__("a2") = third;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
  return a0;
}

void _start(void) {
  static const char text[] = "anywhere\n";
  number += call(64, 1, (long)text, sizeof text - 1) == sizeof text - 1;
  call(94, number, 0, 0);
  __builtin_unreachable();
}
