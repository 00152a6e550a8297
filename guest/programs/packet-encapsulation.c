/**
 * Packet encapsulation: IPv4 packets into GRE into IPv6 (HyperPlane, MICRO 2020, Section V-A).
 *
 * Each queue's tenant has its own tunnel. The packet is prefixed with an IPv6 header (RFC 8200) and
 * a GRE header without options (RFC 2784), and is itself unchanged. The traffic class is the
 * packet's type of service, as in RFC 2983's uniform model; the flow label is a hash of the
 * packet's flow, so that routers can spread the flows of a tunnel over equal paths (RFC 6438).
 */
#include <data_plane.h>
#include <ipv4.h>

enum {
  IPV6_HEADER_BYTES = 40,
  GRE_HEADER_BYTES = 4,
  OUTER_BYTES = IPV6_HEADER_BYTES + GRE_HEADER_BYTES,

  NEXT_HEADER_GRE = 47,
  HOP_LIMIT = 64,
  GRE_PROTOCOL_IPV4 = 0x0800,
};

/* The two endpoints of a tenant's tunnel, in network byte order. */
struct tunnel {
  uint64_t source[2];
  uint64_t destination[2];
};

static struct tunnel *tunnels;

/* Tunnels from 2001:db8::1 to 2001:db8:1::(queue): the prefix for documentation (RFC 3849). */
static void make_tunnels(uint64_t queues) {
  tunnels = aligned_alloc(LINE_BYTES, queues * sizeof(struct tunnel));
  for (uint64_t queue = 0; queue < queues; queue++) {
    tunnels[queue].source[0] = swap64(0x20010db800000000);
    tunnels[queue].source[1] = swap64(1);
    tunnels[queue].destination[0] = swap64(0x20010db800010000);
    tunnels[queue].destination[1] = swap64(queue);
  }
}

/* 20 bits that are the same for all packets of a flow. Only the first fragment has ports. */
static inline uint32_t flow_label(const struct ipv4 *header, uint32_t header_bytes,
                                  uint32_t packet_bytes) {
  uint64_t addresses = (uint64_t)header->source << 32 | header->destination;
  uint64_t rest = ipv4_flow_rest(header, header_bytes, packet_bytes);
  return (uint32_t)(ipv4_flow_hash(addresses, rest) >> 44);
}

static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
  const struct ipv4 *header = (const struct ipv4 *)in->packet;
  uint32_t bytes = in->length;
  if (!ipv4_is_packet(in)) {
    out->length = 0;
    out->flags = IO_FLAG_ERROR; /* The tenant counts it. */
    return;
  }

  const struct tunnel *tunnel = &tunnels[queue];
  uint32_t version_class_label = 6u << 28 | (uint32_t)header->type_of_service << 20 |
                                 flow_label(header, ipv4_header_bytes(header), bytes);
  uint32_t payload_bytes = GRE_HEADER_BYTES + bytes;
  uint64_t *outer = (uint64_t *)out->packet;
  outer[0] = swap64((uint64_t)version_class_label << 32 | payload_bytes << 16 |
                    NEXT_HEADER_GRE << 8 | HOP_LIMIT);
  outer[1] = tunnel->source[0];
  outer[2] = tunnel->source[1];
  outer[3] = tunnel->destination[0];
  outer[4] = tunnel->destination[1];
  *(uint32_t *)(outer + 5) = (uint32_t)swap16(GRE_PROTOCOL_IPV4) << 16; /* No flags, version 0. */
  memcpy(out->packet + OUTER_BYTES, in->packet, bytes);
  out->length = OUTER_BYTES + bytes;
}

int main(void) {
  make_tunnels(io_device()->queues);
  return data_plane();
}
