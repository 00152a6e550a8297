/**
 * Calibration: the latency of a load from memory while other cores load the memory, as in Intel's
 * Memory Latency Checker.
 *
 * The data plane, on one core, chases pointers in random order through an array of
 * `working_set_bytes` (67108864), with `loads` (256) of them per request. Each of `streams` (0)
 * other cores walks its own array of `stream_bytes` (8388608) line by line, endlessly, with a delay
 * of `delay_cycles` (0) between two lines. It reads the lines, or writes the fraction
 * `written_fraction` (0) of them, spread evenly. One instruction accesses each line, as a vector of
 * 64 bytes would.
 * vector of 64 bytes would.
 */
#include <data_plane.h>
#include <kernels/pointer_chase.h>

enum { WORDS = LINE_BYTES / sizeof(uint64_t) };

static uint64_t loads, streams, stream_lines, delay_cycles, written_per_1024;
static struct chase_line *place; /* The chase's current line. */
static uint64_t **arrays;        /* Of the streams. */

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  (void)queue;
  (void)in;
  place = chase(place, loads);
  out->length = 8;
}

void prepare(void) {
  uint64_t count = (uint64_t)io_parameter("working_set_bytes", 67108864) / LINE_BYTES;
  loads = (uint64_t)io_parameter("loads", 256);
  streams = (uint64_t)io_parameter("streams", 0);
  stream_lines = (uint64_t)io_parameter("stream_bytes", 8388608) / LINE_BYTES;
  delay_cycles = (uint64_t)io_parameter("delay_cycles", 0);
  written_per_1024 = (uint64_t)(io_parameter("written_fraction", 0) * 1024);
  if (count == 0 || stream_lines == 0)
    fail("data_plane.parameters.working_set_bytes and .stream_bytes must be %d or more.",
         LINE_BYTES);
  if (written_per_1024 > 1024)
    fail("data_plane.parameters.written_fraction must be from 0 to 1.");
  place = make_chase(count, 0);
  arrays = malloc(streams * sizeof *arrays);
  for (uint64_t stream = 0; stream < streams; stream++)
    arrays[stream] = aligned_alloc(LINE_BYTES, stream_lines * LINE_BYTES);
}

/* The cores besides that of the data plane, from 1 on. */
int hart_beside(int hart) {
  uint64_t stream = (uint64_t)hart - 1;
  if (hart == 0 || stream >= streams)
    return 0;
  /* Streams start at different lines, for the reason in memory-stream.c. */
  uint64_t line = stream * 0x9e3779b97f4a7c15 % stream_lines, share = 0;
  for (;;) {
    volatile uint64_t *word = arrays[stream] + line * WORDS;
    share += written_per_1024;
    if (share >= 1024) {
      share -= 1024;
      *word = line;
    } else {
      (void)*word;
    }
    if (++line == stream_lines)
      line = 0;
    for (uint64_t left = delay_cycles; left > 0; left--)
      __asm__ volatile("");
  }
}

int main(void) {
  if (streams >= server_cores)
    fail("data_plane.parameters.streams is %lu; beside the data plane's core there are %lu.",
         streams, server_cores - 1);
  return data_plane();
}
