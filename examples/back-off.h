/**
 * back-off: poll the doorbell of every queue, and after a round that finds nothing wait before the
 * next one.
 *
 * A mechanism from outside of the simulator, for programs that name it before they include
 * data_plane.h (examples/back-off.c). It takes the place of `spin`: with
 * `data_plane.notify = "spin"` it runs.
 */
#ifndef BACK_OFF_H
#define BACK_OFF_H

#include <notify/spin.h>

enum { BACK_OFF_ITERATIONS = 100 }; /* Of an empty loop: some two cycles each. */

static inline struct data_plane_work back_off_next(struct data_plane_hart *hart) {
  struct data_plane_work work;
  uint64_t begin = hart->next;
  while (!spin_search(hart, begin, hart->end, &work)) {
    for (int i = 0; i < BACK_OFF_ITERATIONS; i++)
      __asm__ volatile(""); /* The compiler would leave the loop out. */
    begin = hart->begin;
  }
  return work;
}

static const struct notify_mechanism notify_back_off = {spin_set_up, back_off_next, spin_done};

#define NOTIFY_CODE IO_NOTIFY_SPIN
#define NOTIFY_MECHANISM notify_back_off

#endif
