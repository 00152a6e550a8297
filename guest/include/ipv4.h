/**
 * IPv4 packets.
 */
#ifndef IPV4_H
#define IPV4_H

#include <byte_order.h>
#include <io.h>
#include <stdint.h>

enum {
  IPV4_HEADER_BYTES = 20, /**< Without options. */
  PROTOCOL_TCP = 6,
  PROTOCOL_UDP = 17,
};

/* A packet is accessed as fields and as words for its checksum: the compiler must know that they
 * alias. */
typedef uint32_t __attribute__((may_alias)) ipv4_word;

/** An IPv4 header (RFC 791); the packet in a slot is aligned to 8 bytes. */
struct __attribute__((may_alias)) ipv4 {
  uint8_t version_and_header_words;
  uint8_t type_of_service;
  uint16_t total_bytes;
  uint16_t identification;
  uint16_t fragment;
  uint8_t time_to_live;
  uint8_t protocol;
  uint16_t checksum;
  uint32_t source;
  uint32_t destination;
};

/** Bytes of the header, options included. */
static inline uint32_t ipv4_header_bytes(const struct ipv4 *header) {
  return 4 * (header->version_and_header_words & 0xfu);
}

/** Whether an item is a single IPv4 packet, by its version and lengths. */
static inline int ipv4_is_packet(const struct io_slot *in) {
  const struct ipv4 *header = (const struct ipv4 *)in->packet;
  uint32_t header_bytes = ipv4_header_bytes(header);
  return in->length >= IPV4_HEADER_BYTES && header->version_and_header_words >> 4 == 4 &&
         header_bytes >= IPV4_HEADER_BYTES && header_bytes <= in->length &&
         swap16(header->total_bytes) == in->length;
}

/** Whether it is not a fragment: its offset is 0, and no more fragments follow. */
static inline int ipv4_is_whole(const struct ipv4 *header) {
  return (swap16(header->fragment) & 0x3fff) == 0;
}

/** A sum of 16-bit words with its carries added in (RFC 1071); 0 only if all words are 0. */
static inline uint16_t ipv4_fold(uint64_t sum) {
  sum = (sum >> 32) + (sum & 0xffffffff);
  sum = (sum >> 16) + (sum & 0xffff);
  sum = (sum >> 16) + (sum & 0xffff);
  return (uint16_t)((sum >> 16) + (sum & 0xffff));
}

/** The sum of a header's words: 0xffff if its checksum is right, in either byte order. */
static inline uint16_t ipv4_header_sum(const struct ipv4 *header) {
  const ipv4_word *words = (const ipv4_word *)header;
  uint64_t sum = 0;
  for (uint32_t word = 0; word < ipv4_header_bytes(header) / 4; word++)
    sum += words[word];
  return ipv4_fold(sum);
}

/** The part of a flow's key besides the addresses: protocol and both ports, in the order of memory.
 * It is 0 for packets other than whole ones of TCP or UDP. */
static inline uint64_t ipv4_flow_rest(const struct ipv4 *header, uint32_t header_bytes,
                                      uint32_t packet_bytes) {
  uint64_t rest = header->protocol;
  int has_ports = header->protocol == PROTOCOL_TCP || header->protocol == PROTOCOL_UDP;
  if (ipv4_is_whole(header) && has_ports && packet_bytes >= header_bytes + 4)
    rest |= (uint64_t)*(const ipv4_word *)((const uint8_t *)header + header_bytes) << 8;
  return rest;
}

/** A hash of a flow; the upper bits are the best. It multiplies by odd constants (the golden ratio;
 * xxHash's second prime): the upper bits of the product depend on all bits of the key. */
static inline uint64_t ipv4_flow_hash(uint64_t addresses, uint64_t rest) {
  uint64_t hash = (addresses ^ rest * 0xc2b2ae3d27d4eb4f) * 0x9e3779b97f4a7c15;
  return (hash ^ hash >> 32) * 0x9e3779b97f4a7c15;
}

#endif
