/**
 * The common part of nanoPU's services.
 *
 *     #include <lnic.h>
 *     #include <nanopu/service.h>
 *
 *     static inline void serve(void) { ... reads one message and sends what it has to say ... }
 *
 *     int main(void) { return service_on_all_harts(); }
 */
#ifndef NANOPU_SERVICE_H
#define NANOPU_SERVICE_H

#include <lnic.h>
#include <nanopu/messages.h>
#include <runtime.h>

static void serve(void);

/* Serves messages of a context on this hart for ever. */
static inline int service_in(uint64_t context) {
  lnic_add_context(context, 0);
  for (;;) {
    lnic_wait();
    serve();
    lnic_msg_done();
  }
  return 0;
}

static inline int service(void) { return service_in(SERVICE_CONTEXT); }

/** Serves only on this hart, for a service whose data only one hart may change. */
static inline int service_on_one_hart(void) { return service(); }

#ifdef SERVICE_ON_ALL_HARTS
int hart_main(int hart) {
  (void)hart;
  return service();
}

/** Serves on every hart; the interface chooses whom a message goes to. */
static inline int service_on_all_harts(void) {
  harts_release();
  return service();
}
#endif

#endif
