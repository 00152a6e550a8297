/**
 * Serves each request for the number of cycles in its first word, on every hart, to measure
 * nanoPU's core selection (Section 5.2.3). busy.h has the messages.
 */
#include <lnic.h>
#define SERVICE_ON_ALL_HARTS
#define BUSY_ON_CORE /* The same for a thread that runs alone, and faster to simulate. */
#include <nanopu/busy.h>
#include <nanopu/service.h>

static inline void serve(void) { busy_serve(); }

int main(void) {
  busy_prepare();
  return service_on_all_harts();
}
