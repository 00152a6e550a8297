/* Checks the output of programs/packet-encapsulation.c byte by byte. Exits with 0, or with 1 after
 * printing the error. */
#define main packet_encapsulation_main
#include "../programs/packet-encapsulation.c"
#undef main

enum { QUEUE = 259, PACKET_BYTES = 61 };

static _Alignas(64) uint8_t in_bytes[128], out_bytes[256];
static struct io_slot *const in = (struct io_slot *)in_bytes, *const out =
                                                                  (struct io_slot *)out_bytes;

static void check(int right, const char *what) {
  if (!right)
    fail("wrong: %s", what);
}

/* A UDP packet from 10.0.0.1:4660 to 10.1.2.3:80 with type of service 0xb8. */
static void make_packet(void) {
  static const uint8_t headers[28] = {
      0x45, 0xb8, 0, PACKET_BYTES, 0, 1, 0, 0,    64,   17, 0,  0, 10,
      0,    0,    1, 10,           1, 2, 3, 0x12, 0x34, 0,  80, 0, PACKET_BYTES - 20,
      0,    0,
  };
  memset(in_bytes, 0, sizeof in_bytes);
  memset(out_bytes, 0xee, sizeof out_bytes);
  memcpy(in->packet, headers, sizeof headers);
  for (uint8_t byte = sizeof headers; byte < PACKET_BYTES; byte++)
    in->packet[byte] = byte;
  in->length = PACKET_BYTES;
  out->flags = 0;
}

static uint32_t label(void) {
  const uint8_t *packet = out->packet;
  return (uint32_t)(packet[1] & 0xf) << 16 | (uint32_t)packet[2] << 8 | packet[3];
}

static void check_packet(void) {
  static const uint8_t source[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};
  static const uint8_t destination[16] = {0x20, 0x01, 0x0d, 0xb8, 0, 1, [14] = 1, [15] = 3};
  const uint8_t *packet = out->packet;
  make_packet();
  process(QUEUE, in, out);
  check(out->flags == 0 && out->length == PACKET_BYTES + 44, "length");
  check(packet[0] == 0x6b && packet[1] >> 4 == 0x8, "version and traffic class");
  check(packet[4] == 0 && packet[5] == PACKET_BYTES + 4, "payload length");
  check(packet[6] == 47 && packet[7] == 64, "next header and hop limit");
  check(memcmp(packet + 8, source, 16) == 0, "source");
  check(memcmp(packet + 24, destination, 16) == 0, "destination");
  check(packet[40] == 0 && packet[41] == 0 && packet[42] == 8 && packet[43] == 0, "GRE header");
  check(memcmp(packet + 44, in->packet, PACKET_BYTES) == 0, "inner packet");
  check(packet[44 + PACKET_BYTES] == 0xee, "written too far");
}

static void check_flow_label(void) {
  make_packet();
  process(QUEUE, in, out);
  uint32_t first = label();
  in->packet[40]++;
  process(QUEUE, in, out);
  check(label() == first, "the label depends on the payload");
  in->packet[21]++;
  process(QUEUE, in, out);
  check(label() != first, "the label does not depend on the port");
  in->packet[6] = 0x20; /* More fragments: this one must not use the port. */
  process(QUEUE, in, out);
  first = label();
  in->packet[21]++;
  process(QUEUE, in, out);
  check(label() == first, "the label of a fragment depends on the port");
}

static void check_error(int byte, uint8_t value, const char *what) {
  make_packet();
  in->packet[byte] = value;
  process(QUEUE, in, out);
  check(out->flags == IO_FLAG_ERROR && out->length == 0, what);
}

int main(void) {
  make_tunnels(QUEUE + 1);
  check_packet();
  check_flow_label();
  check_error(0, 0x65, "version 6 is accepted");
  check_error(0, 0x44, "a header of 16 bytes is accepted");
  check_error(3, PACKET_BYTES - 1, "a wrong total length is accepted");
  make_packet();
  in->length = 19;
  process(QUEUE, in, out);
  check(out->flags == IO_FLAG_ERROR, "19 bytes are accepted");
  return 0;
}
