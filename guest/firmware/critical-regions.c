/**
 * Runs critical regions (docs/critical-region.md): for each frame the user routine, which says what
 * a server will compute of it first, and then the region that hardware beside the core that will
 * serve the frame has sent. The frame is delivered in between, so that it waits for neither.
 *
 * The user routine is interface_arguments(). This one is for the key-value store of
 * services/store.h: it returns the two words of the key, which are hashes of those in the message.
 * Firmware for another service defines INTERFACE_ARGUMENTS and its own routine, and includes this
 * file.
 */
#include <interface.h>
#include <services/keys.h>

enum {
  REGION_CODE_BYTES = 4096, /* As in crates/critical-region/src/listener.rs. */
  REGION_CORES = 16,        /* Of the host. Regions of further ones have no room. */
  REGION_ARGUMENTS = 6,
};

/* What hardware beside a core of the host has sent. */
struct region {
  uint64_t current; /* Which of the pieces of code, from 1 on; 0: none yet. */
  uint64_t budget;
  uint64_t unused[6];
  uint8_t code[2][REGION_CODE_BYTES];
};

static struct region regions[REGION_CORES] __attribute__((aligned(64)));
static uint64_t arguments[32][REGION_ARGUMENTS]; /* Of each core's frame. */

#ifndef INTERFACE_ARGUMENTS
/* Writes what a server will compute of a frame, and returns how many values that are. */
static inline uint64_t interface_arguments(const struct frame *frame, uint64_t bytes,
                                           uint64_t *values) {
  enum { FIRST = 3, SECOND = 4 }; /* Behind the load generator's words and the operation. */
  if (bytes < sizeof *frame + (SECOND + 1) * sizeof *values)
    return 0;
  key_of_words(values, swap64(frame->payload[FIRST]), swap64(frame->payload[SECOND]));
  return 2;
}
#endif

void firmware(uint64_t core) {
  interface_open(regions, sizeof regions);
  for (;;) {
    uint64_t bytes = interface_next(), *values = arguments[core];
    uint64_t count = interface_arguments(interface_frame(), bytes, values);
    uint64_t queue = interface_queue();
    /* Each hart has the queue of its number, and consecutive harts are on different cores. */
    uint64_t host_core = queue % interface_host_cores();
    interface_note(host_core);
    for (uint64_t value = 0; value < count; value++)
      interface_note(values[value]);
    interface_deliver(queue);
    if (host_core >= REGION_CORES)
      continue;
    const struct region *region = &regions[host_core];
    uint64_t current = __atomic_load_n(&region->current, __ATOMIC_RELAXED);
    if (current == 0)
      continue;
    interface_steer(host_core);
    interface_run(region->code[current - 1], (uint64_t)values, region->budget);
  }
}
