/* Memory that is taken, given back and taken again, in many sizes; what is new is zero. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(what) ((what) ? (void)0 : fail(__LINE__, #what))
#define SLOTS 64

static void fail(int line, const char *what) {
  printf("line %d: %s\n", line, what);
  exit(1);
}

static uint64_t state = 1;

static uint64_t random_number(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}

static int is_zero(const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (bytes[i])
      return 0;
  return 1;
}

int main(void) {
  /* The heap and its mappings. */
  static unsigned char *blocks[SLOTS];
  static size_t lengths[SLOTS];
  for (int iteration = 0; iteration < 600; iteration++) {
    int slot = random_number() % SLOTS;
    for (size_t i = 0; i < lengths[slot]; i += 61)
      CHECK(blocks[slot][i] == (unsigned char)(slot + i));
    size_t length = 1 + random_number() % (iteration % 20 ? 2000 : 300000);
    if (iteration % 3 == 0) {
      free(blocks[slot]);
      blocks[slot] = calloc(1, length);
      CHECK(is_zero((char *)blocks[slot], length));
    } else {
      blocks[slot] = realloc(blocks[slot], length);
    }
    CHECK(blocks[slot]);
    lengths[slot] = length;
    for (size_t i = 0; i < length; i += 61)
      blocks[slot][i] = (unsigned char)(slot + i);
  }

  /* Mappings: what is mapped again is zero, wherever it is. */
  const size_t page = 4096;
  char *first = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(first != MAP_FAILED && is_zero(first, 4 * page));
  memset(first, 1, 4 * page);
  CHECK(munmap(first + page, page) == 0);
  CHECK(first[0] == 1 && first[2 * page] == 1);
  char *fixed = mmap(first + page, page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  CHECK(fixed == first + page && is_zero(fixed, page));
  CHECK(mprotect(first, page, PROT_READ) == 0);
  CHECK(madvise(first, 4 * page, MADV_DONTNEED) == 0 && is_zero(first, 4 * page));
  char *small = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  small[3 * page] = 5;
  char *larger = mremap(small, 4 * page, 100 * page, MREMAP_MAYMOVE);
  CHECK(larger != MAP_FAILED && larger[3 * page] == 5);
  CHECK(is_zero(larger + 4 * page, 96 * page));

  /* Addresses alone take no memory, and there are many. */
  char *reserved = mmap(NULL, 16ul << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(reserved != MAP_FAILED);
  CHECK(mprotect(reserved + (8ul << 30), page, PROT_READ | PROT_WRITE) == 0);
  reserved[8ul << 30] = 1;
  CHECK(munmap(reserved, 16ul << 30) == 0);
  CHECK(mmap(NULL, 16ul << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
        MAP_FAILED);

  /* The end of the heap. */
  char *end = sbrk(0);
  CHECK(end != (char *)-1);
  puts("memory: right");
  return 0;
}
