/**
 * The time of a swap of threads: from the event by which the hardware decides for another thread
 * until that thread's first instruction (the nanoPU paper's Section 3.2).
 *
 * One thread is about to finish a message while another one's message waits. It reads the cycle
 * counter and writes `lmsgdone`, and with that write the scheduler raises its interrupt. The other
 * thread's first instructions read the counter again, and find out that it has a message. Prints
 * the first swap, which meets cold caches, and the others.
 */
#include <lnic_threads.h>
#include <nanopu/measure.h>
#include <stdlib.h>

#ifndef SWAPS
#define SWAPS 1000
#endif

enum { FIRST_CONTEXT = 1, OTHER_CONTEXT = 2, WAIT_CYCLES = 1000 };

static volatile uint64_t begin;

/* The interface loops messages for its own address back. */
static void send(uint64_t context, uint64_t word) {
  lnic_write_r(header_to((uint64_t)0x0a000001 << 32 | context << 16, 1));
  lnic_write_r(word);
}

/* Sends a message to itself and one to the other thread, which waits until the first is done. */
static void first(uint64_t swaps) {
  lnic_wait();
  lnic_read();
  lnic_read();
  lnic_msg_done();
  for (; swaps > 0; swaps--) {
    send(FIRST_CONTEXT, swaps);
    send(OTHER_CONTEXT, swaps);
    lnic_wait();
    lnic_read();
    for (uint64_t until = clock_cycles() + WAIT_CYCLES; clock_cycles() < until;)
      ;
    if (lnic_read() != swaps)
      fail("Another thread has read this one's words.");
    begin = clock_cycles();
    lnic_msg_done();
  }
}

static void other(uint64_t swaps) {
  static struct measure first_swap, later_swaps;
  for (uint64_t left = swaps; left > 0; left--) {
    while (!begin)
      lnic_wait();
    uint64_t cycles = clock_cycles() - begin;
    begin = 0;
    lnic_read();
    if (lnic_read() != left)
      fail("Another thread has read this one's words.");
    measure_add(left == swaps ? &first_swap : &later_swaps, cycles);
    /* Printing here would exceed the limit for a message at priority 0. */
    lnic_msg_done();
  }
  measure_print(&first_swap, "first swap");
  measure_print(&later_swaps, "swaps");
  exit(0);
}

int main(void) {
  lnic_add_thread(OTHER_CONTEXT, 0, other, 1 + SWAPS);
  lnic_add_thread(FIRST_CONTEXT, 0, first, 1 + SWAPS);
  send(FIRST_CONTEXT, 0);
  lnic_run_threads();
}
