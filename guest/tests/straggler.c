/**
 * Returns each packet unchanged to the tenant, prefixed with the number of its queue; but one
 * packet in 64 takes hundreds of times as long, and is read only then: for tests of an item that
 * younger ones of its queue overtake.
 */
#include <data_plane.h>

/* The last byte of a packet's number: behind the headers of IPv4 and UDP. */
enum { NUMBER_END = 31 };

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  if (in->packet[NUMBER_END] % 64 == 0) {
    uint64_t value = ~0ul, divisor = 1;
    for (int division = 0; division < 10000; division++)
      __asm__ volatile("divu %0, %0, %1" : "+r"(value) : "r"(divisor));
  }
  *(uint64_t *)out->packet = queue;
  memcpy(out->packet + sizeof queue, in->packet, in->length);
  out->length = (uint32_t)sizeof queue + in->length;
}

int main(void) { return data_plane(); }
