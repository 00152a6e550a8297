/**
 * Two threads of priority 0 with a limit of 1 us per message: nanoPU's Figure 8. busy_threads.h has
 * the threads.
 */
#include <nanopu/busy_threads.h>

int main(void) { return busy_threads(0, 0, 3200); }
