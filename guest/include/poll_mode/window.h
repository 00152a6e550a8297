/**
 * What a hart does in each of several windows of time, printed: packets, polls, cycles,
 * instructions, and misses, by the counters of the hart. A program calls window_update() now and
 * then; the first call behind the end of a window prints it.
 *
 * Parameters: `window_us` (the length of each; 0: nothing is measured), `skip_us` (what comes
 * before the first one, 20), `windows` (after so many the program exits; 0: it goes on).
 */
#ifndef POLL_MODE_WINDOW_H
#define POLL_MODE_WINDOW_H

#include <counters.h>
#include <io.h>
#include <poll_mode/lcore.h>
#include <stdio.h>

enum { WINDOW_POLLS = 32 }; /* Time is looked at after so many polls. */

/** What a hart has done since it began. */
struct work {
  uint64_t polls;
  uint64_t packets;
  uint64_t useful; /**< Cycles spent on packets; 0 if the program does not tell them apart. */
};

struct window {
  uint64_t left, length, end; /* Windows to come; cycles of each; when this one ends. */
  uint64_t next_polls;
  uint64_t begin, instructions, l1_misses, l2_misses;
  struct work before;
};

static inline uint64_t rdinstret(void) {
  uint64_t instructions;
  __asm__ volatile("rdinstret %0" : "=r"(instructions));
  return instructions;
}

static inline void window_open(struct window *window, const struct work *work) {
  window->before = *work;
  window->l1_misses = counter_read(3);
  window->l2_misses = counter_read(4);
  window->instructions = rdinstret();
  window->begin = rdtsc();
}

/** Begins to measure; returns whether the parameters ask for it. In prepare(), and the rest in
 * window_start(). */
static inline int window_prepare(struct window *window) {
  window->left = (uint64_t)io_parameter("windows", 0);
  window->length = (uint64_t)io_parameter("window_us", 0);
  window->end = (uint64_t)io_parameter("skip_us", 20);
  return window->length != 0;
}

/** Begins to count, at `hz` cycles a second. */
static inline void window_start(struct window *window, uint64_t hz) {
  counter_select(3, COUNTER_L1_DATA_MISSES);
  counter_select(4, COUNTER_L2_MISSES);
  window->length *= hz / 1000000;
  window->end = rdtsc() + window->end * (hz / 1000000);
}

/** Prints a window that has ended. Returns 1 if that was the last one. */
static inline int window_update(struct window *window, const struct work *work) {
  if (likely(work->polls < window->next_polls))
    return 0;
  window->next_polls = work->polls + WINDOW_POLLS;
  uint64_t now = rdtsc();
  if (likely(now < window->end))
    return 0;
  if (window->begin) {
    printf("window: %lu cycles %lu instructions %lu polls %lu packets %lu useful %lu l1 %lu l2\n",
           now - window->begin, rdinstret() - window->instructions,
           work->polls - window->before.polls, work->packets - window->before.packets,
           work->useful - window->before.useful, counter_read(3) - window->l1_misses,
           counter_read(4) - window->l2_misses);
    if (window->left && --window->left == 0)
      return 1;
  }
  window_open(window, work);
  window->end = window->begin + window->length;
  return 0;
}

#endif
