/**
 * A co-runner: a program on the second hardware thread of each core that runs the data plane.
 *
 * It is compiled into the data plane's program (`data_plane.co_runner`) and defines co_run(), which
 * begins when the data plane calls harts_release() and does not return:
 *
 *     #include <co_runner.h>
 *
 *     static void co_run(void) {
 *       for (;;)
 *         ...
 *     }
 */
#ifndef CO_RUNNER_H
#define CO_RUNNER_H

#include <io.h>
#include <runtime.h>
#include <stdint.h>

static void co_run(void);

#ifdef SOURCES_WITH_CO_RUNNER
/* In guest/sources/source-cores.c. */
void source_cores(uint64_t hart);
#endif

int hart_beside(int hart) {
  uint64_t number = (uint64_t)hart;
#ifdef SOURCES_WITH_CO_RUNNER
  source_cores(number);
#endif
  if (number >= server_cores && number - server_cores < io_device()->data_plane_cores)
    co_run();
  return 0;
}

#endif
