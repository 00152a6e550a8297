/**
 * Calibration: what a load takes that needs the value of the one before.
 *
 * Each line of an array of `working_set_bytes` (4096) holds the address of another. A request
 * follows `loads` (1000) of these addresses. They lead through all lines and back to the first: in
 * an order drawn at random, or with `is_sequential` = 1 one line after the other. Queues of the
 * same number modulo `arrays` (1) follow each other through an array of their own.
 *
 * The time of a request is that of its loads and of the data plane around it, some 100 cycles. The
 * array is filled before simulated time begins.
 */
#include <data_plane.h>

static uint64_t loads;

struct line {
  struct line *next;
  uint8_t rest[LINE_BYTES - sizeof(struct line *)];
};

static uint64_t arrays;

static struct line **places; /* Of each array, the line that its queues have come to. */

/* A generator of random numbers: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t random_below(uint64_t bound) {
  static uint64_t state;
  state += 0x9e3779b97f4a7c15;
  uint64_t mixed = state;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  return (mixed ^ mixed >> 31) % bound;
}

/* One cycle through all lines. At random it is Sattolo's shuffle of the lines' own addresses, which
 * is done in place. */
static struct line *make_cycle(uint64_t count, int is_sequential) {
  struct line *lines = aligned_alloc(LINE_BYTES, count * sizeof *lines);
  for (uint64_t line = 0; line < count; line++)
    lines[line].next = &lines[is_sequential ? (line + 1) % count : line];
  if (is_sequential)
    return lines;
  for (uint64_t left = count - 1; left > 0; left--) {
    uint64_t other = random_below(left);
    struct line *next = lines[left].next;
    lines[left].next = lines[other].next;
    lines[other].next = next;
  }
  return lines;
}

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  (void)in;
  uint64_t array = queue % arrays;
  struct line *line = places[array];
#pragma GCC unroll 8
  for (uint64_t left = loads; left > 0; left--)
    line = *(struct line *volatile *)&line->next;
  places[array] = line;
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
    places[array] = make_cycle(count, is_sequential);
}

int main(void) { return data_plane(); }
