/* Calls itself until the stack is full. */
#include <stdio.h>

static __attribute__((noinline)) int descend(int depth) {
  volatile char frame[1000];
  frame[0] = (char)depth;
  if (depth < 0)
    return 0;
  return descend(depth + 1) + frame[0];
}

int main(void) {
  printf("%d\n", descend(0));
  return 0;
}
