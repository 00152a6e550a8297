/**
 * Stacks that do not get in one another's way.
 *
 * The stacks of the harts are a mebibyte apart, so that the same line of each has the same set of a
 * last-level cache, which may have fewer ways than there are harts. Where memory has pages these
 * are spread over the sets; here each hart begins some pages below the top of its stack instead.
 */
#ifndef SERVICES_STACKS_H
#define SERVICES_STACKS_H

#include <stdint.h>

enum { STACK_SHIFT_BYTES = 4096, STACK_SHIFTS = 32 };

/** Runs `run(hart)` on a part of the hart's stack that is in other sets than that of its
 * neighbours. */
static inline int run_apart(int hart, int (*run)(int hart)) {
  volatile uint8_t *above =
      __builtin_alloca((uint64_t)(hart % STACK_SHIFTS + 1) * STACK_SHIFT_BYTES);
  above[0] = 0; /* It is there, and stays there while `run` does. */
  int result = run(hart);
  return result + above[0];
}

#endif
