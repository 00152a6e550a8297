/**
 * A router's work on a packet: decrements the time to live and updates the header checksum.
 *
 *     nanoplane run examples/encapsulation.toml --set data_plane.program=examples/router.c
 */
#include <data_plane.h>

/* An IPv4 header (RFC 791): its minimum length, and the offsets of its fields. */
enum { HEADER_BYTES = 20, TIME_TO_LIVE = 8, CHECKSUM = 10 };

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  (void)queue;
  if (in->length < HEADER_BYTES || in->packet[0] >> 4 != 4 || in->packet[TIME_TO_LIVE] <= 1) {
    out->length = 0;
    out->flags = IO_FLAG_ERROR;
    return;
  }
  memcpy(out->packet, in->packet, in->length);
  out->length = in->length;
  out->packet[TIME_TO_LIVE]--;

  /* The word with the time to live has lost 0x100, so the checksum gains it (RFC 1624). */
  uint32_t sum = (uint32_t)out->packet[CHECKSUM] << 8 | out->packet[CHECKSUM + 1];
  sum += 0x100;
  sum += sum >= 0xffff;
  out->packet[CHECKSUM] = (uint8_t)(sum >> 8);
  out->packet[CHECKSUM + 1] = (uint8_t)sum;
}

int main(void) { return data_plane(); }
