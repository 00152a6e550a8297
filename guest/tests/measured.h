/* Counts for programs that measure themselves. */
#ifndef MEASURED_H
#define MEASURED_H

#include <stdint.h>

static inline uint64_t cycle(void) {
  uint64_t cycle;
  __asm__ volatile("csrr %0, mcycle" : "=r"(cycle)::"memory");
  return cycle;
}

static inline uint64_t instructions(void) {
  uint64_t count;
  __asm__ volatile("csrr %0, minstret" : "=r"(count)::"memory");
  return count;
}

#endif
