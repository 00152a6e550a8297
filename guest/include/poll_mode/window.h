/**
 * Prints a hart's activity in each of several windows of time: packets, polls, cycles,
 * instructions, and misses, by the hart's counters. A program calls window_update() regularly; the
 * first call after the end of a window prints it.
 *
 * Parameters: `window_us` (the length of each; 0: no measurement), `skip_us` (the time before the
 * first one, 20), `windows` (the number after which the program exits; 0: it continues).
 */
#ifndef POLL_MODE_WINDOW_H
#define POLL_MODE_WINDOW_H

#include <counters.h>
#include <io.h>
#include <poll_mode/lcore.h>
#include <stdio.h>

enum { WINDOW_POLLS = 32 }; /* Time is checked after so many polls. */

/** A hart's activity since its start. */
struct work {
  uint64_t polls;
  uint64_t packets;
  uint64_t useful; /**< Cycles spent on packets; 0 if the program does not tell them apart. */
};

struct window {
  uint64_t left, length, end; /* Windows left; cycles of each; the end of this one. */
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

/** Prepares a measurement; returns whether the parameters request one. To be called in prepare();
 * window_start() does the rest. */
static inline int window_prepare(struct window *window) {
  window->left = (uint64_t)io_parameter("windows", 0);
  window->length = (uint64_t)io_parameter("window_us", 0);
  window->end = (uint64_t)io_parameter("skip_us", 20);
  return window->length != 0;
}

/** Starts counting, at `hz` cycles a second. */
static inline void window_start(struct window *window, uint64_t hz) {
  counter_select(3, COUNTER_L1_DATA_MISSES);
  counter_select(4, COUNTER_L2_MISSES);
  window->length *= hz / 1000000;
  window->end = rdtsc() + window->end * (hz / 1000000);
}

/** Prints a window that has ended. Returns 1 if it was the last one. */
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
