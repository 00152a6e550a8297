/**
 * How long nanoPU takes from the moment at which another thread should run to that thread's first
 * instruction. Prints cycles.
 */
#include <lnic_threads.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t begin;

static inline uint64_t cycles(void) {
  uint64_t now;
  __asm__ volatile("csrr %0, mcycle" : "=r"(now));
  return now;
}

/* The interface gives the server what it sends to itself. */
static void send(uint64_t context, uint64_t word) {
  lnic_write_r(0x0a000001ull << 32 | context << 16 | 8);
  lnic_write_r(word);
}

/* Sends itself and the other thread a message, and the other one's waits until its own is done. */
static void first(uint64_t turns) {
  lnic_wait();
  lnic_read();
  lnic_read();
  lnic_msg_done();
  for (; turns; turns--) {
    send(1, turns);
    send(2, turns);
    lnic_wait();
    lnic_read();
    for (uint64_t until = cycles() + 1000; cycles() < until;)
      ;
    if (lnic_read() != turns)
      fail("another thread has read this one's words\n");
    begin = cycles();
    lnic_msg_done();
  }
}

static void second(uint64_t turns) {
  for (;;) {
    uint64_t end = cycles();
    printf("%lu\n", end - begin);
    lnic_read();
    if (lnic_read() != turns)
      fail("another thread has read this one's words\n");
    lnic_msg_done();
    if (--turns == 0)
      exit(0);
    begin = 0;
    while (!begin)
      lnic_wait();
  }
}

int main(void) {
  lnic_add_thread(2, 0, second, 8);
  lnic_add_thread(1, 0, first, 8);
  send(1, 0);
  lnic_run_threads();
}
