/**
 * Two threads of priorities 0 and 1 on every hart, without a limit on the time per message: the
 * published program behind JBSQ with preemption. busy_threads.h has the threads.
 */
#include <nanopu/busy_threads.h>

int hart_main(int hart) {
  (void)hart;
  return busy_threads(0, 1, 1ull << 40);
}

int main(void) {
  harts_release();
  return hart_main(0);
}
