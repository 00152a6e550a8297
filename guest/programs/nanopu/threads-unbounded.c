/**
 * Two threads of priority 0 without a limit on the time per message: the baseline of nanoPU's
 * Figure 8. busy_threads.h has the threads.
 */
#include <nanopu/busy_threads.h>

int main(void) { return busy_threads(0, 0, 1ull << 40); }
