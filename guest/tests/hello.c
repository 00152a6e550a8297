/* Prints with every conversion that printf has. */
#include <stdio.h>

int main(void) {
  printf("hello, %s\n", "world");
  printf("[%d] [%5d] [%05d] [%u] [%x] [%c] [%%]\n", -42, -42, -42, 42u, 0xbeefu, 'z');
  printf("[%ld] [%lu] [%016lx] [%5s]\n", -1234567890123l, 18446744073709551615ul, 0xc0ffeeul, "ab");
  puts("bye");
  return 0;
}
