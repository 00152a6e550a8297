/**
 * Memory and strings, by aligned words of 8 bytes, since a core may split a misaligned access or
 * trap on it. If source and destination have different alignments, memcpy reads aligned words and
 * combines neighbours by shifts.
 */
#include <stdint.h>
#include <string.h>

/* The compiler must not turn these loops into calls of the functions that they implement. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

typedef uint64_t __attribute__((may_alias)) word;

enum { WORD = sizeof(word) };

static inline uint64_t misalignment(const void *address) { return (uintptr_t)address % WORD; }

void *memcpy(void *restrict destination, const void *restrict source, size_t bytes) {
  uint8_t *to = destination;
  const uint8_t *from = source;

  while (bytes && misalignment(to)) {
    *to++ = *from++;
    bytes--;
  }

  word *to_word = (word *)to;
  uint64_t shift = 8 * misalignment(from);
  if (shift == 0) {
    const word *from_word = (const word *)from;
    for (; bytes >= 8 * WORD; bytes -= 8 * WORD, to_word += 8, from_word += 8) {
      word w0 = from_word[0], w1 = from_word[1], w2 = from_word[2], w3 = from_word[3];
      word w4 = from_word[4], w5 = from_word[5], w6 = from_word[6], w7 = from_word[7];
      to_word[0] = w0, to_word[1] = w1, to_word[2] = w2, to_word[3] = w3;
      to_word[4] = w4, to_word[5] = w5, to_word[6] = w6, to_word[7] = w7;
    }
    for (; bytes >= WORD; bytes -= WORD)
      *to_word++ = *from_word++;
    from = (const uint8_t *)from_word;
  } else if (bytes >= WORD) {
    /* Every aligned word that is read holds at least one byte of the source. */
    const word *from_word = (const word *)(from - misalignment(from));
    uint64_t back = 64 - shift;
    word low = *from_word++;
    for (; bytes >= 4 * WORD; bytes -= 4 * WORD, to_word += 4, from_word += 4, from += 4 * WORD) {
      word w0 = from_word[0], w1 = from_word[1], w2 = from_word[2], w3 = from_word[3];
      to_word[0] = low >> shift | w0 << back;
      to_word[1] = w0 >> shift | w1 << back;
      to_word[2] = w1 >> shift | w2 << back;
      to_word[3] = w2 >> shift | w3 << back;
      low = w3;
    }
    for (; bytes >= WORD; bytes -= WORD, from += WORD) {
      word high = *from_word++;
      *to_word++ = low >> shift | high << back;
      low = high;
    }
  }

  to = (uint8_t *)to_word;
  while (bytes--)
    *to++ = *from++;
  return destination;
}

void *memmove(void *destination, const void *source, size_t bytes) {
  uint8_t *to = destination;
  const uint8_t *from = source;
  if ((uintptr_t)to - (uintptr_t)from >= bytes) {
    /* Copying forwards is right: the destination does not start inside the source. */
    if ((uintptr_t)from - (uintptr_t)to >= bytes)
      return memcpy(destination, source, bytes);
    while (bytes--)
      *to++ = *from++;
    return destination;
  }
  while (bytes--)
    to[bytes] = from[bytes];
  return destination;
}

void *memset(void *destination, int value, size_t bytes) {
  uint8_t *to = destination;
  word pattern = (uint8_t)value * 0x0101010101010101u;

  while (bytes && misalignment(to)) {
    *to++ = (uint8_t)value;
    bytes--;
  }
  word *to_word = (word *)to;
  for (; bytes >= 8 * WORD; bytes -= 8 * WORD, to_word += 8) {
    to_word[0] = pattern, to_word[1] = pattern, to_word[2] = pattern, to_word[3] = pattern;
    to_word[4] = pattern, to_word[5] = pattern, to_word[6] = pattern, to_word[7] = pattern;
  }
  for (; bytes >= WORD; bytes -= WORD)
    *to_word++ = pattern;
  to = (uint8_t *)to_word;
  while (bytes--)
    *to++ = (uint8_t)value;
  return destination;
}

int memcmp(const void *left, const void *right, size_t bytes) {
  const uint8_t *l = left, *r = right;
  if (misalignment(l) == 0 && misalignment(r) == 0) {
    while (bytes >= WORD && *(const word *)l == *(const word *)r) {
      l += WORD, r += WORD;
      bytes -= WORD;
    }
  }
  for (; bytes; bytes--, l++, r++) {
    if (*l != *r)
      return *l < *r ? -1 : 1;
  }
  return 0;
}

size_t strlen(const char *text) {
  const char *end = text;
  while (*end)
    end++;
  return (size_t)(end - text);
}

int strcmp(const char *left, const char *right) {
  while (*left && *left == *right)
    left++, right++;
  return (uint8_t)*left - (uint8_t)*right;
}

int strncmp(const char *left, const char *right, size_t bytes) {
  for (; bytes; bytes--, left++, right++) {
    if (*left != *right || !*left)
      return (uint8_t)*left - (uint8_t)*right;
  }
  return 0;
}

char *strcpy(char *restrict destination, const char *restrict source) {
  char *to = destination;
  while ((*to++ = *source++))
    ;
  return destination;
}
