/**
 * Runs critical regions (docs/critical-region.md): for each frame first the user routine, which
 * computes values that a server will compute of the frame, and then the regions sent by hardware
 * beside the core that will serve the frame.
 *
 * The user routine has two halves. interface_capture() copies the words that it needs of the frame,
 * which is then delivered; interface_arguments() computes with them while the packet is in flight.
 * The halves here are for the key-value store of services/store.h: two values, which are hashes of
 * words of the message. Firmware for another service defines INTERFACE_ARGUMENTS and its own
 * halves, and includes this file, as critical-regions-object-cache.c does.
 */
#ifndef INTERFACE_ARGUMENTS
#include <services/keys.h>
#endif
#include <interface.h>

enum {
  REGION_CODE_BYTES = 512, /* As in crates/critical-region/src/listener.rs, like the next one. */
  REGION_PIECES = 16,
  REGION_CORES = 16, /* Of the host. Regions of further cores have no space. */
  REGION_ARGUMENTS = 6,
  REGION_TOLD = 8, /* The values of one frame in this many are sent to the core. */
};

/* The regions sent by hardware beside a core of the host. */
struct regions {
  uint64_t list; /* Their number, and the number of each one's piece of code, as bytes. */
  uint64_t budget;
  uint64_t unused[6];
  uint8_t code[REGION_PIECES][REGION_CODE_BYTES];
};

static struct regions regions[REGION_CORES] __attribute__((aligned(64)));

#ifndef INTERFACE_ARGUMENTS
struct captured {
  uint64_t words[2];
};

/* Copies the words of a frame that the user routine needs; returns whether the frame has them. */
static inline int interface_capture(const struct frame *frame, uint64_t bytes,
                                    struct captured *captured) {
  enum { FIRST = 3, SECOND = 4 }; /* After the load generator's words and the operation. */
  if (bytes < sizeof *frame + (SECOND + 1) * sizeof *frame->payload)
    return 0;
  captured->words[0] = frame->payload[FIRST];
  captured->words[1] = frame->payload[SECOND];
  return 1;
}

/* Computes the values that a server will compute, and returns their number. */
static inline uint64_t interface_arguments(const struct captured *captured, uint64_t *values) {
  key_of_words(values, swap64(captured->words[0]), swap64(captured->words[1]));
  return 2;
}
#endif

/* The state of each core's frame. */
static struct {
  struct captured captured;
  uint64_t values[REGION_ARGUMENTS];
} frames[32];

void firmware(uint64_t core) {
  struct captured *captured = &frames[core].captured;
  uint64_t *values = frames[core].values, host_cores = interface_host_cores();
  uint64_t untold = 0;
  interface_open(regions, sizeof regions);
  for (;;) {
    uint64_t bytes = interface_next(), queue = interface_queue();
    int is_request = interface_capture(interface_frame(), bytes, captured);
    /* Each hart has the queue of its number, and consecutive harts are on different cores. */
    uint64_t host_core = queue;
    while (host_core >= host_cores)
      host_core -= host_cores;
    /* The values must precede the frame, which waits for them: therefore only a few frames' are
     * sent. */
    int is_told = is_request && untold == 0;
    untold = untold == 0 ? REGION_TOLD - 1 : untold - 1;
    if (is_told) {
      uint64_t count = interface_arguments(captured, values);
      interface_note(host_core);
      for (uint64_t value = 0; value < count; value++)
        interface_note(values[value]);
    }
    interface_deliver(queue);
    if (!is_request || host_core >= REGION_CORES)
      continue;
    const struct regions *of = &regions[host_core];
    uint64_t list = __atomic_load_n(&of->list, __ATOMIC_RELAXED), left = list & 0xff;
    if (left == 0)
      continue;
    if (!is_told)
      interface_arguments(captured, values);
    interface_steer(host_core);
    do {
      list >>= 8;
      interface_run(of->code[list & 0xff], (uint64_t)values, of->budget);
    } while (--left);
  }
}
