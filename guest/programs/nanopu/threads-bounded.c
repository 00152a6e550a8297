/**
 * Two threads of priority 0, which have 1 us for a message: nanoPU's Figure 8. busy_threads.h has
 * them.
 */
#include <nanopu/busy_threads.h>

int main(void) { return busy_threads(0, 0, 3200); }
