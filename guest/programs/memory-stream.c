/**
 * Calibration: the rate at which a core reads and writes memory, sequentially, or with `is_random`
 * = 1 at independent random lines.
 *
 * Each queue has an array of `working_set_bytes` (1048576). A request reads the next `bytes`
 * (65536) of it, wrapping around at the end; with `written_fraction` = 1 it writes them, and with a
 * number between 0 and 1 it writes that fraction of the lines, spread evenly, and reads the others.
 * One instruction accesses each line, as a vector of 64 bytes would.
 *
 * Queues start at different lines. If all started at the first, arrays whose size is a multiple of
 * the DRAM banks' would use the banks in step, which a real machine's scattered pages do not.
 */
#include <data_plane.h>

enum { WORDS = LINE_BYTES / sizeof(uint64_t) };

static uint64_t lines, lines_per_request, written_per_1024;
static int is_random;

struct stream {
  uint64_t *words;
  uint64_t next;  /* Line. */
  uint64_t drawn; /* The last random number. */
  uint64_t share; /* The accumulated fraction of a write, in units of 1/1024. */
} __attribute__((aligned(LINE_BYTES)));

static struct stream *streams;

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  (void)in;
  struct stream *stream = &streams[queue];
  uint64_t sum = 0;
  for (uint64_t left = lines_per_request; left > 0; left--) {
    uint64_t *line = stream->words + stream->next * WORDS;
    stream->share += written_per_1024;
    if (stream->share >= 1024) {
      stream->share -= 1024;
      *(volatile uint64_t *)line = left;
    } else {
      sum += *(volatile uint64_t *)line;
    }
    if (is_random) {
      /* A linear congruential generator (Knuth), of which the upper half is used. */
      stream->drawn = stream->drawn * 6364136223846793005 + 1442695040888963407;
      stream->next = (stream->drawn >> 32) * lines >> 32;
    } else if (++stream->next == lines) {
      stream->next = 0;
    }
  }
  out->length = sizeof sum;
  memcpy(out->packet, &sum, sizeof sum);
}

int main(void) {
  lines = (uint64_t)io_parameter("working_set_bytes", 1048576) / LINE_BYTES;
  lines_per_request = (uint64_t)io_parameter("bytes", 65536) / LINE_BYTES;
  written_per_1024 = (uint64_t)(io_parameter("written_fraction", 0) * 1024);
  is_random = io_parameter("is_random", 0) != 0;
  uint64_t queues = io_device()->queues;
  if (lines == 0 || lines_per_request == 0)
    fail("data_plane.parameters.working_set_bytes and .bytes must be %d or more.", LINE_BYTES);
  if (written_per_1024 > 1024)
    fail("data_plane.parameters.written_fraction must be from 0 to 1.");
  streams = aligned_alloc(LINE_BYTES, queues * sizeof *streams);
  for (uint64_t queue = 0; queue < queues; queue++)
    streams[queue] = (struct stream){
        .words = aligned_alloc(LINE_BYTES, lines * LINE_BYTES),
        .next = queue * 0x9e3779b97f4a7c15 % lines,
        .drawn = queue * 0x9e3779b97f4a7c15,
    };
  return data_plane();
}
