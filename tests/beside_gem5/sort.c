/* Quicksort of 60,000 random integers: branches that nobody can predict. */

#include <stdint.h>
#include <stdio.h>

#define COUNT 60000

static uint32_t numbers[COUNT];

static void sort(uint32_t *first, long count) {
  while (count > 1) {
    uint32_t pivot = first[count / 2];
    long low = 0, high = count - 1;
    for (;;) {
      while (first[low] < pivot)
        low++;
      while (first[high] > pivot)
        high--;
      if (low >= high)
        break;
      uint32_t kept = first[low];
      first[low++] = first[high];
      first[high--] = kept;
    }
    sort(first, low);
    first += low;
    count -= low;
  }
}

int main(void) {
  uint32_t state = 1; /* xorshift */
  for (int i = 0; i < COUNT; i++) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    numbers[i] = state;
  }
  sort(numbers, COUNT);
  uint64_t sum = 0;
  for (int i = 0; i < COUNT; i++)
    sum = sum * 31 + numbers[i];
  printf("%lu\n", sum);
  return 0;
}
