/**
 * Delivers each packet unchanged, and counts those to private addresses (10.0.0.0/8).
 *
 *     nanoplane run examples/encapsulation.toml --set data_plane.program=examples/private.c
 */
#include <data_plane.h>

static volatile uint64_t *private_packets; /* A counter in the result; write-only. */
static uint64_t count;

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  (void)queue;
  enum { DESTINATION = 16 }; /* The offset of the destination in an IPv4 header (RFC 791). */
  if (in->packet[DESTINATION] == 10)
    *private_packets = ++count;
  memcpy(out->packet, in->packet, in->length);
  out->length = in->length;
}

int main(void) {
  private_packets = io_counter("private_packets");
  return data_plane();
}
