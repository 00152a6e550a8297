/**
 * The gravitational force of a cluster of bodies, at its centre of mass, on requesting bodies.
 *
 * The nanoPU paper's N-body simulation (Table 1): a node of the tree of clusters.
 *
 * | message | words |
 * | --- | --- |
 * | configuration | 0, x and y of the centre of mass, how many requests follow, a time |
 * | request | 1, x and y of the body, a time |
 * | reply to a request | 2, the force, the configuration's time |
 *
 * A configuration has no reply; requests beyond the configured number are refused. Positions are
 * integers below 2^26. The force is a double, 1 / (the square of the distance), and 0 on a body at
 * the centre itself: the body multiplies it by the masses and the gravitational constant. All
 * operations but the division are exact, so that every processor has the same result.
 */
#include <lnic.h>
#include <nanopu/service.h>

enum { CONFIGURATION = 0, REQUEST = 1, REPLY = 2, REPLY_WORDS = 3 };

static const uint64_t end_of_space = (uint64_t)1 << 26;

static uint64_t center_x, center_y, requests_left, start_time;

/* The bits of the force as a double. */
static inline uint64_t force_on(uint64_t x, uint64_t y) {
  union {
    double value;
    uint64_t bits;
  } force = {.value = 0};
  double along_x = (double)((int64_t)x - (int64_t)center_x);
  double along_y = (double)((int64_t)y - (int64_t)center_y);
  double squared_distance = along_x * along_x + along_y * along_y;
  if (squared_distance != 0)
    force.value = 1 / squared_distance;
  return force.bits;
}

static inline void serve(void) {
  uint64_t header, words = message_begin(&header, 3);
  if (words == 0)
    return;
  uint64_t type = lnic_read(), x = lnic_read(), y = lnic_read();
  if (x >= end_of_space || y >= end_of_space) {
    refuse(header, 3);
  } else if (type == REQUEST && words == 4 && requests_left > 0) {
    lnic_read(); /* The time of sending. */
    requests_left--;
    lnic_write_r(header_to(header, REPLY_WORDS));
    lnic_write_i(REPLY);
    lnic_write_r(force_on(x, y));
    lnic_write_r(start_time);
  } else if (type == CONFIGURATION && words == 5) {
    center_x = x;
    center_y = y;
    requests_left = lnic_read();
    start_time = lnic_read();
  } else {
    refuse(header, 3);
  }
}

int main(void) { return service_on_one_hart(); }
