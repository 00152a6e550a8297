/**
 * Synthetic work: each packet specifies its processing time.
 *
 * A UDP packet (IPv4, no options) whose payload begins with the text "work" takes as many
 * nanoseconds as the four bytes behind it specify, most significant byte first. A pcap file thus
 * holds the distribution of service times, and each request has the same service time in every
 * system. Any other packet takes DEFAULT_NS. The tenant receives the packet's headers and first
 * eight bytes, or, with the parameter `reply_bytes`, that many newly written bytes (plus the slot's
 * header of 16).
 *
 * The time is spent in a loop of dependent divisions, calibrated against the clock (`mtime`) when
 * the program starts. The data plane's own time for an item is added to it.
 */
#include <data_plane.h>
#include <memory_map.h>

enum { DEFAULT_NS = 1000 };

/* Where the text and the time are: behind an IPv4 header (RFC 791) and a UDP header (RFC 768). */
enum { WORK = 28, TIME = 32, WORK_END = 36, PROTOCOL = 9, PROTOCOL_UDP = 17 };

/* Divisions per nanosecond, times 2^20. */
static uint64_t divisions_per_ns;

/* Bytes of a result; 0: the headers and first eight bytes. */
static uint64_t reply_bytes;

/* Dependent divisions: few instructions for a long time, and therefore cheap to simulate. */
static inline void divide(uint64_t divisions) {
  uint64_t value = ~0ul, divisor = 1;
#pragma GCC unroll 8
  for (; divisions > 0; divisions--)
    __asm__ volatile("divu %0, %0, %1" : "+r"(value) : "r"(divisor));
}

static inline uint64_t cycle(void) {
  uint64_t cycle;
  __asm__ volatile("csrr %0, mcycle" : "=r"(cycle)::"memory");
  return cycle;
}

/* The cycle in which the CLINT's clock, mtime, starts its next microsecond. */
static uint64_t next_microsecond(uint64_t *microsecond) {
  volatile uint64_t *clock = (volatile uint64_t *)CLINT_MTIME;
  uint64_t before = *clock;
  while ((*microsecond = *clock) == before)
    ;
  return cycle();
}

/* The clock's resolution is some 50 ns, so the cycles of a long time are counted, and the divisions
 * per cycle. */
static void measure_division(void) {
  enum { DIVISIONS = 16384 };
  uint64_t begin, end;
  uint64_t first = next_microsecond(&begin);
  divide(DIVISIONS);
  uint64_t divided = cycle();
  uint64_t last = next_microsecond(&end);
  uint64_t cycles_per_us = (last - first) / (end - begin);
  divisions_per_ns = (DIVISIONS * cycles_per_us << 20) / ((divided - first) * 1000);
}

static inline uint32_t service_ns(const struct io_slot *in) {
  const uint8_t *time = in->packet + TIME;
  if (in->length < WORK_END || in->packet[0] != 0x45 || in->packet[PROTOCOL] != PROTOCOL_UDP ||
      memcmp(in->packet + WORK, "work", 4) != 0)
    return DEFAULT_NS;
  return (uint32_t)time[0] << 24 | (uint32_t)time[1] << 16 | (uint32_t)time[2] << 8 | time[3];
}

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  (void)queue;
  divide(service_ns(in) * divisions_per_ns >> 20);
  out->length = in->length < WORK_END ? in->length : WORK_END;
  memcpy(out->packet, in->packet, out->length);
  if (reply_bytes > out->length) {
    memset(out->packet + out->length, 0, reply_bytes - out->length);
    out->length = (uint32_t)reply_bytes;
  }
}

int main(void) {
  reply_bytes = (uint64_t)io_parameter("reply_bytes", 0);
  uint64_t most = io_device()->slot_bytes - sizeof(struct io_slot);
  if (reply_bytes > most)
    fail("data_plane.parameters.reply_bytes is %lu, and a slot has room for %lu: make "
         "traffic.packet_bytes larger.",
         reply_bytes, most);
  measure_division();
  return data_plane();
}
