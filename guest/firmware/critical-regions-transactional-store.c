/**
 * Runs critical regions for the transactions of transactional_store.h: the user routine parses the
 * request, and draws the district, the first part of most keys that a transaction looks up.
 */
#define INTERFACE_ARGUMENTS

#include <byte_order.h>
#include <interface.h>
#include <operations.h>
#include <services/wire_operations.h>

struct captured {
  uint64_t warehouse, seed;
};

static inline int interface_capture(const struct frame *frame, uint64_t bytes,
                                    struct captured *captured) {
  const struct operation_request *request = (const void *)(frame->payload + WIRE_OPERATIONS_WORDS);
  if (bytes < sizeof *frame + (WIRE_OPERATIONS_WORDS + 2) * sizeof *frame->payload)
    return 0;
  captured->warehouse = request->more;
  captured->seed = frame->payload[WIRE_OPERATIONS_WORDS + 1];
  return 1;
}

static inline uint64_t interface_arguments(const struct captured *captured, uint64_t *values) {
  /* As in tpcc_random() and tpcc_pair(), and with keys in memory order, which is the order of
   * bytes. */
  uint64_t state = captured->seed + 0x9e3779b97f4a7c15;
  uint64_t district = 1 + ((operation_mix(state) >> 32) * 10 >> 32);
  values[0] = swap64(captured->warehouse);
  values[1] = swap64(captured->warehouse << 32 | district);
  return 2;
}

#include "critical-regions.c"
