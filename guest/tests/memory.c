/* Checks the memory functions against bytewise ones, for all alignments and many lengths. Exits
 * with 0, or with 1 after printing the error. */
#include <runtime.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SPACE = 256, GUARD = 0xa5 };

static uint8_t source[SPACE], destination[SPACE], expected[SPACE];

static void check(const char *what, uint64_t to, uint64_t from, uint64_t bytes) {
  for (uint64_t place = 0; place < SPACE; place++)
    if (destination[place] != expected[place])
      fail("%s: to %lu, from %lu, %lu bytes: wrong at %lu", what, to, from, bytes, place);
}

/* Fills both destinations equally. `byte` is volatile so that the compiler keeps these loops. */
static void fill(void) {
  for (volatile uint64_t byte = 0; byte < SPACE; byte++) {
    source[byte] = (uint8_t)(byte * 7 + 1);
    destination[byte] = expected[byte] = (uint8_t)(byte * 13 + GUARD);
  }
}

int main(void) {
  for (uint64_t to = 0; to < 8; to++)
    for (uint64_t from = 0; from < 8; from++)
      for (uint64_t bytes = 0; bytes < 150; bytes += bytes < 40 ? 1 : 13) {
        fill();
        for (volatile uint64_t byte = 0; byte < bytes; byte++)
          expected[to + byte] = source[from + byte];
        if (memcpy(destination + to, source + from, bytes) != destination + to)
          fail("memcpy: wrong result");
        check("memcpy", to, from, bytes);
        if (memcmp(destination + to, source + from, bytes) != 0)
          fail("memcmp: to %lu, from %lu, %lu bytes: not equal", to, from, bytes);
        if (bytes) {
          destination[to + bytes - 1]++;
          int order = (uint8_t)(source[from + bytes - 1] + 1) ? 1 : -1;
          if (memcmp(destination + to, source + from, bytes) != order)
            fail("memcmp: to %lu, from %lu, %lu bytes: wrong order", to, from, bytes);
        }

        fill();
        for (volatile uint64_t byte = 0; byte < bytes; byte++)
          expected[to + byte] = (uint8_t)from;
        memset(destination + to, (int)from, bytes);
        check("memset", to, from, bytes);

        /* Overlapping, in both directions. */
        fill();
        for (volatile uint64_t byte = 0; byte < bytes; byte++)
          expected[to + byte] = (uint8_t)((from + byte) * 13 + GUARD);
        memmove(destination + to, destination + from, bytes);
        check("memmove", to, from, bytes);
      }

  if (strlen("") != 0 || strlen("seven..") != 7)
    fail("strlen");
  if (strcmp("abc", "abc") != 0 || strcmp("abc", "abd") >= 0 || strcmp("abc", "ab") <= 0)
    fail("strcmp");
  if (strncmp("abc", "abd", 2) != 0 || strncmp("abc", "abd", 3) >= 0)
    fail("strncmp");
  uint8_t *first = malloc(3), *second = calloc(5, 5), *third = aligned_alloc(4096, 1);
  if (second < first + 3 || third < second + 25 || (uintptr_t)second % 16 ||
      (uintptr_t)third % 4096 || second[24] != 0)
    fail("malloc");
  return 0;
}
