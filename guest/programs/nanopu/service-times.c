/**
 * Serves each request for as many cycles as its first word says, on every hart: what nanoPU's
 * choice of a core is measured with (Section 5.2.3). busy.h has the messages.
 */
#include <lnic.h>
#define SERVICE_ON_ALL_HARTS
#define BUSY_ON_CORE /* The same for a thread that is alone, and simulated faster. */
#include <nanopu/busy.h>
#include <nanopu/service.h>

static inline void serve(void) { busy_serve(); }

int main(void) {
  busy_prepare();
  return service_on_all_harts();
}
