/**
 * One client of an incast: sends a server a message of one packet at clock times common to all
 * clients, and prints the latency of the replies.
 *
 * The server is 10.0.0.1, context 0, and runs `service-times` (the nanoPU paper's Section 5.2.3).
 */
#include <lnic.h>
#include <memory_map.h>
#include <nanopu/measure.h>

#ifndef INCASTS
#define INCASTS 300
#endif

enum {
  EVERY_US = 100, /* Longer than the slowest exchange. */
  PACKET_WORDS = 128,
  CLIENT_CONTEXT = 0,
  TIMER_INTERRUPT = 1 << 7,
};

static const uint64_t server = (uint64_t)0x0a000001 << 32 | (uint64_t)SERVICE_CONTEXT << 16;
static volatile uint64_t *const timer_compare = (uint64_t *)CLINT_MTIMECMP;
static volatile const uint64_t *const timer_us = (uint64_t *)CLINT_MTIME;

static struct measure measure;

/* Halts until the clock reaches a time. An interrupt that is not taken wakes the hart. */
static void sleep_until(uint64_t us) {
  *timer_compare = us;
  while (*timer_us < us)
    __asm__ volatile("wfi");
}

/* The duration of a message and its reply, in cycles. */
static uint64_t exchange(uint64_t number) {
  uint64_t begin = clock_cycles();
  lnic_write_r(header_to(server, PACKET_WORDS));
  lnic_write_i(0); /* No service time. */
  lnic_write_r(number);
  FOR_EACH_WORD(PACKET_WORDS - LOAD_WORDS, lnic_write_i(0));
  while (!lnic_ready())
    ;
  uint64_t cycles = clock_cycles() - begin;
  uint64_t header = lnic_read();
  if (message_words(header) != LOAD_WORDS)
    fail("The server has refused a message.");
  lnic_read();
  if (lnic_read() != number)
    fail("A reply is not the last message's.");
  lnic_msg_done();
  return cycles;
}

int main(void) {
  lnic_add_context(CLIENT_CONTEXT, 0);
  __asm__ volatile("csrs mie, %0" : : "r"((uint64_t)TIMER_INTERRUPT));
  /* In the first one the program is not in the caches yet. */
  for (uint64_t number = 0; number <= INCASTS; number++) {
    sleep_until((number + 1) * EVERY_US);
    uint64_t cycles = exchange(number);
    if (number > 0)
      measure_add(&measure, cycles);
  }
  measure_print(&measure, "incast");
  return 0;
}
