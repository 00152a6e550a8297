/**
 * Words that are taken one after the other without a loop, as the published programs for nanoPU's
 * Figures 3 to 5 take them: a function looks for the length among those that it knows, the shortest
 * first, and jumps into the middle of a sequence of instructions.
 */
#ifndef NANOPU_UNROLLED_H
#define NANOPU_UNROLLED_H

#include <nanopu/messages.h>

#define TWICE(statements) statements statements

/** Defines a function that does `statement`, which takes one word, for all words of a message of so
 * many bytes except one. Messages of 8 times a power of two bytes have no loop. */
#define FOR_ALL_WORDS_BUT_ONE(name, statement)                                                     \
  static __attribute__((noinline)) void name(uint64_t bytes) {                                     \
    if (__builtin_expect(bytes == WORD_BYTES, 1))                                                  \
      return;                                                                                      \
    switch (bytes) {                                                                               \
    case 1024:                                                                                     \
      TWICE(TWICE(TWICE(TWICE(FOUR_WORDS(statement);))))                                           \
      __attribute__((fallthrough));                                                                \
    case 512:                                                                                      \
      TWICE(TWICE(TWICE(FOUR_WORDS(statement);)))                                                  \
      __attribute__((fallthrough));                                                                \
    case 256:                                                                                      \
      TWICE(TWICE(FOUR_WORDS(statement);))                                                         \
      __attribute__((fallthrough));                                                                \
    case 128:                                                                                      \
      TWICE(FOUR_WORDS(statement);)                                                                \
      __attribute__((fallthrough));                                                                \
    case 64:                                                                                       \
      FOUR_WORDS(statement);                                                                       \
      __attribute__((fallthrough));                                                                \
    case 32:                                                                                       \
      TWICE(statement;)                                                                            \
      __attribute__((fallthrough));                                                                \
    case 16:                                                                                       \
      statement;                                                                                   \
      return;                                                                                      \
    default:                                                                                       \
      FOR_EACH_WORD((bytes + WORD_BYTES - 1) / WORD_BYTES - 1, statement);                         \
    }                                                                                              \
  }

#endif
