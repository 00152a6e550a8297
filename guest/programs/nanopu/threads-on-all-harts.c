/**
 * Two threads of priority 0 on every hart: nanoPU's choice of a core together with the bound on how
 * long a thread keeps it (Sections 5.2.2 and 5.2.3).
 *
 * The parameter `max_cycles` is how long a message may take at priority 0, 3200 by default, which
 * are the paper's 1 us. busy_threads.h has the threads. Service times are the threads' own cycles,
 * so that a core does as much work with interruptions as without.
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
