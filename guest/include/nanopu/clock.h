/**
 * The time of a hart, in cycles of its clock.
 */
#ifndef NANOPU_CLOCK_H
#define NANOPU_CLOCK_H

#include <stdint.h>

static inline uint64_t clock_cycles(void) {
  uint64_t cycles;
  __asm__ volatile("csrr %0, mcycle" : "=r"(cycles));
  return cycles;
}

#endif
