/**
 * Two threads on hart 0 that serve requests of busy.h, with which nanoPU's scheduler is measured
 * (Section 5.2.2). Their contexts are 0 and 1.
 */
#ifndef NANOPU_BUSY_THREADS_H
#define NANOPU_BUSY_THREADS_H

#include <lnic_threads.h>
#include <nanopu/busy.h>

static void busy_thread(uint64_t unused) {
  (void)unused;
  for (;;) {
    lnic_wait();
    busy_serve();
    lnic_msg_done();
  }
}

/** Runs both threads with these priorities; a thread of priority 0 may spend this many cycles on a
 * message. */
static inline int busy_threads(uint64_t first_priority, uint64_t second_priority,
                               uint64_t max_cycles) {
#ifdef BUSY_ON_CORE
  busy_prepare();
#endif
  lnic_write_csr(CSR_LMSGCYCLES, max_cycles);
  lnic_add_thread(0, first_priority, busy_thread, 0);
  lnic_add_thread(1, second_priority, busy_thread, 0);
  lnic_run_threads();
}

#endif
