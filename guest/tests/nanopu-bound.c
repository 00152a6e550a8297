/**
 * How long misbehaving threads of nanoPU delay a well-behaved one. Hart 1 sends messages to threads
 * of priority 0 on hart 0, at once; all but the last of them take three times the limit. Prints,
 * for none to three others and several times each, the cycles from sending the last one's message
 * until it is done.
 */
#include <lnic_threads.h>
#include <nanopu/busy.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  THREADS = LNIC_MAX_THREADS,
  LAST = THREADS - 1,
  CLIENT = 9,
  ITERATIONS = 4,
  MAX_CYCLES = 3200,
  WELL_BEHAVED_CYCLES = 3000,
  OVERRUN_CYCLES = 3 * MAX_CYCLES,
  PAUSE_CYCLES = 40000, /* Until all threads have reported that they are idle. */
};

static volatile uint64_t finished[THREADS], done_at;

static void work(uint64_t number) {
  for (;;) {
    lnic_wait();
    (void)lnic_read();
    uint64_t service_cycles = lnic_read();
    busy_iterations(service_cycles * BUSY_MEASURED_ITERATIONS / busy_measured_cycles);
    if (number == LAST)
      done_at = clock_cycles();
    lnic_msg_done();
    /* The priority may have been lowered, the last thread's by cold caches: set it to 0 again. */
    lnic_write_csr(CSR_LCURPRIORITY, 0);
    lnic_write_csr(CSR_LNICCMD, 1);
    finished[number]++;
  }
}

/* The interface loops back messages to itself. */
static void send(uint64_t context, uint64_t word) {
  lnic_write_r(0x0a000001ull << 32 | context << 16 | 8);
  lnic_write_r(word);
}

static uint64_t response(uint64_t others) {
  uint64_t before[THREADS];
  for (int place = 0; place < THREADS; place++)
    before[place] = finished[place];
  for (uint64_t other = 0; other < others; other++)
    send(other, OVERRUN_CYCLES);
  uint64_t sent_at = clock_cycles();
  send(LAST, WELL_BEHAVED_CYCLES);
  for (uint64_t other = 0; other < others; other++)
    while (finished[other] == before[other])
      ;
  while (finished[LAST] == before[LAST])
    ;
  for (uint64_t until = clock_cycles() + PAUSE_CYCLES; clock_cycles() < until;)
    ;
  return done_at - sent_at;
}

int hart_main(int hart) {
  if (hart != 1)
    return 0;
  lnic_add_context(CLIENT, 0);
  uint64_t cycles[THREADS][ITERATIONS];
  for (uint64_t others = 0; others < THREADS; others++)
    for (int iteration = 0; iteration < ITERATIONS; iteration++)
      cycles[others][iteration] = response(others);
  for (int others = 0; others < THREADS; others++)
    for (int iteration = 0; iteration < ITERATIONS; iteration++)
      printf("%d %lu\n", others, cycles[others][iteration]);
  exit(0);
}

int main(void) {
  busy_prepare();
  lnic_write_csr(CSR_LMSGCYCLES, MAX_CYCLES);
  for (uint64_t number = 0; number < THREADS; number++)
    lnic_add_thread(number, 0, work, number);
  harts_release();
  lnic_run_threads();
}
