/**
 * Calibration: the latency of a load in a chain of dependent loads.
 *
 * Each line of an array of `working_set_bytes` (4096) holds the address of another. A request
 * follows `loads` (1000) of these addresses. They visit all lines in a cycle: in random order, or
 * with `is_sequential` = 1 in sequential order. Queues of the same number modulo `arrays` (1)
 * continue each other's chase through a shared array.
 *
 * The time of a request is that of its loads plus that of the data plane, some 100 cycles. The
 * array is filled before simulated time begins.
 */
#include <data_plane.h>
#include <kernels/pointer_chase.h>

static uint64_t loads;

static uint64_t arrays;

static struct chase_line **places; /* Of each array, the current line of its queues' chase. */

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  (void)in;
  uint64_t array = queue % arrays;
  places[array] = chase(places[array], loads);
  out->length = 8;
}

void prepare(void) {
  uint64_t count = (uint64_t)io_parameter("working_set_bytes", 4096) / LINE_BYTES;
  arrays = (uint64_t)io_parameter("arrays", 1);
  if (count == 0 || arrays == 0)
    fail("data_plane.parameters.working_set_bytes must be %d or more, and .arrays 1 or more.",
         LINE_BYTES);
  int is_sequential = io_parameter("is_sequential", 0) != 0;
  loads = (uint64_t)io_parameter("loads", 1000);
  places = malloc(arrays * sizeof *places);
  for (uint64_t array = 0; array < arrays; array++)
    places[array] = make_chase(count, is_sequential);
}

int main(void) { return data_plane(); }
