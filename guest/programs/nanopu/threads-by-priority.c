/**
 * Two threads of priorities 0 and 1 without a limit on the time per message: nanoPU's Figure 7.
 * busy_threads.h has the threads.
 */
#include <nanopu/busy_threads.h>

int main(void) { return busy_threads(0, 1, 1ull << 40); }
