/**
 * The time that nanoPU takes from the event that makes another thread run to that thread's first
 * instruction. Prints cycles.
 */
#include <lnic_threads.h>
#include <stdio.h>
#include <stdlib.h>

enum { ITERATIONS = 8 };

static volatile uint64_t begin;

static inline uint64_t cycles(void) {
  uint64_t now;
  __asm__ volatile("csrr %0, mcycle" : "=r"(now));
  return now;
}

/* The interface loops back messages to itself. */
static void send(uint64_t context, uint64_t word) {
  lnic_write_r(0x0a000001ull << 32 | context << 16 | 8);
  lnic_write_r(word);
}

/* Sends a message to itself and one to the other thread, which waits until the first is done. */
static void first(uint64_t iterations) {
  lnic_wait();
  lnic_read();
  lnic_read();
  lnic_msg_done();
  for (; iterations; iterations--) {
    send(1, iterations);
    send(2, iterations);
    lnic_wait();
    lnic_read();
    for (uint64_t until = cycles() + 1000; cycles() < until;)
      ;
    if (lnic_read() != iterations)
      fail("another thread has read this one's words\n");
    begin = cycles();
    lnic_msg_done();
  }
}

static void second(uint64_t iterations) {
  uint64_t spent[ITERATIONS];
  for (uint64_t iteration = 0; iteration < iterations; iteration++) {
    while (!begin)
      lnic_wait();
    spent[iteration] = cycles() - begin;
    begin = 0;
    lnic_read();
    if (lnic_read() != iterations - iteration)
      fail("another thread has read this one's words\n");
    /* Printing here would exceed the limit for a message at priority 0. */
    lnic_msg_done();
  }
  for (uint64_t iteration = 0; iteration < iterations; iteration++)
    printf("%lu\n", spent[iteration]);
  exit(0);
}

int main(void) {
  lnic_add_thread(2, 0, second, ITERATIONS);
  lnic_add_thread(1, 0, first, ITERATIONS);
  send(1, 0);
  lnic_run_threads();
}
