/**
 * Two threads of priority 0, which have any time for a message: the comparison of nanoPU's
 * Figure 8. busy_threads.h has them.
 */
#include <nanopu/busy_threads.h>

int main(void) { return busy_threads(0, 0, 1ull << 40); }
