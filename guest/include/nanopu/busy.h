/**
 * Service times that a load generator tells: a request is served for as many cycles as its first
 * word says, and its reply is those two words.
 *
 * As in the published program, a request is served until the cycle counter has moved on by so many,
 * whoever runs meanwhile: the request of a thread that is swapped out goes on. With BUSY_ON_CORE
 * the cycles are the thread's own, and those in which another thread runs do not count: it works by
 * iterations of a loop, whose length is measured in the beginning. A thread that is alone takes as
 * long either way.
 */
#ifndef NANOPU_BUSY_H
#define NANOPU_BUSY_H

#include <nanopu/clock.h>
#include <nanopu/messages.h>

enum { BUSY_MEASURED_ITERATIONS = 4096 };

static uint64_t busy_measured_cycles;

static inline void busy_iterations(uint64_t iterations) {
  if (iterations == 0)
    return;
  __asm__ volatile(".balign 16\n"
                   "1: addi %0, %0, -1\n"
                   "bnez %0, 1b"
                   : "+r"(iterations));
}

/** To be called before anything works by iterations. */
static inline void busy_prepare(void) {
  for (int time = 0; time < 2; time++) { /* The first one fills caches. */
    uint64_t begin = clock_cycles();
    busy_iterations(BUSY_MEASURED_ITERATIONS);
    busy_measured_cycles = clock_cycles() - begin;
  }
}

static inline void busy_work(uint64_t service_cycles) {
#ifdef BUSY_ON_CORE
  busy_iterations(service_cycles * BUSY_MEASURED_ITERATIONS / busy_measured_cycles);
#else
  uint64_t begin = clock_cycles();
  while (clock_cycles() - begin < service_cycles)
    ;
#endif
}

/** Serves a message. What it has behind the two words is read and means nothing. */
static inline void busy_serve(void) {
  struct load_request request;
  if (!request_begin(&request, LOAD_WORDS))
    return;
  uint64_t service_cycles = request.load[0];
  FOR_EACH_WORD(request.words - LOAD_WORDS, (void)lnic_read());
  busy_work(service_cycles);
  request_reply(&request, 0);
}

#endif
