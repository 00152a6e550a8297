/**
 * Pointer chasing: each line of an array holds the address of another, so that each load depends on
 * the previous one.
 */
#ifndef KERNELS_POINTER_CHASE_H
#define KERNELS_POINTER_CHASE_H

#include <io.h>
#include <stdint.h>
#include <stdlib.h>

struct chase_line {
  struct chase_line *next;
  uint8_t rest[LINE_BYTES - sizeof(struct chase_line *)];
};

/* A generator of random numbers: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). */
static inline uint64_t chase_random_below(uint64_t bound) {
  static uint64_t state;
  state += 0x9e3779b97f4a7c15;
  uint64_t mixed = state;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  return (mixed ^ mixed >> 31) % bound;
}

/**
 * Makes an array of `count` lines and returns the first: one cycle through all of them,
 * sequentially or in random order, by Sattolo's shuffle of the lines' own addresses.
 */
static inline struct chase_line *make_chase(uint64_t count, int is_sequential) {
  struct chase_line *lines = aligned_alloc(LINE_BYTES, count * sizeof *lines);
  for (uint64_t line = 0; line < count; line++)
    lines[line].next = &lines[is_sequential ? (line + 1) % count : line];
  if (is_sequential)
    return lines;
  for (uint64_t left = count - 1; left > 0; left--) {
    uint64_t other = chase_random_below(left);
    struct chase_line *next = lines[left].next;
    lines[left].next = lines[other].next;
    lines[other].next = next;
  }
  return lines;
}

/** Follows `loads` addresses from a line on, and returns the last line. */
static inline struct chase_line *chase(struct chase_line *line, uint64_t loads) {
#pragma GCC unroll 8
  for (uint64_t left = loads; left > 0; left--)
    line = *(struct chase_line *volatile *)&line->next;
  return line;
}

#endif
