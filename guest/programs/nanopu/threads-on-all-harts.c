/**
 * Two threads of priority 0 on every hart: nanoPU's core selection together with the bound on a
 * thread's time per message (Sections 5.2.2 and 5.2.3).
 *
 * The parameter `max_cycles` is the limit for a message at priority 0, by default 3200, the paper's
 * 1 us. busy_threads.h has the threads. Service times are counted in the thread's own cycles, so
 * that a core does the same work with interruptions as without.
 */
#include <io.h>
#define BUSY_ON_CORE
#include <nanopu/busy_threads.h>

static uint64_t max_cycles;

void prepare(void) { max_cycles = (uint64_t)io_parameter("max_cycles", 3200); }

int hart_main(int hart) {
  (void)hart;
  return busy_threads(0, 0, max_cycles);
}

int main(void) {
  harts_release();
  return hart_main(0);
}
