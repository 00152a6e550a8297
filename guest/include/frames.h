/**
 * Frames as conventional network interfaces write them into memory: headers of Ethernet, IPv4 and
 * the transport of nanoPU's published prototype, and a payload. Numbers are big-endian:
 * byte_order.h.
 */
#ifndef FRAMES_H
#define FRAMES_H

#include <byte_order.h>
#include <stdint.h>
#include <string.h>

#define MAC_ADDR_SIZE 6

struct eth_header {
  uint8_t dst_mac[MAC_ADDR_SIZE];
  uint8_t src_mac[MAC_ADDR_SIZE];
  uint16_t ethtype;
} __attribute__((packed));

struct ipv4_header {
  uint8_t ver_ihl;
  uint8_t dscp_ecn; /**< The priority in switches, times four. */
  uint16_t length;  /**< Of this header and everything after it. */
  uint16_t ident;
  uint16_t flags_frag_off;
  uint8_t ttl;
  uint8_t proto;
  uint16_t cksum;
  uint32_t src_addr;
  uint32_t dst_addr;
} __attribute__((packed));

struct lnic_header {
  uint8_t flags;
  uint16_t src; /**< Contexts: the layer-4 ports. */
  uint16_t dst;
  uint16_t msg_len; /**< Payload bytes of the whole message. */
  uint8_t pkt_offset;
  uint16_t pull_offset;
  uint16_t msg_id;
  uint16_t buf_ptr;
  uint8_t buf_size_class;
  uint8_t upper[7]; /**< The upper bits of msg_len, pkt_offset and pull_offset, and a priority. */
  uint64_t tag;     /**< Identifies the message in reports. A reply must keep its request's. */
} __attribute__((packed));

/** A frame. */
struct frame {
  struct eth_header eth;
  struct ipv4_header ipv4;
  struct lnic_header lnic;
  uint64_t payload[];
};

_Static_assert(sizeof(struct frame) == 64, "the headers have 64 bytes");

/** Converts a word between a frame's byte order and the hart's, in one instruction: the published
 * prototype's harts have a custom one, and these have Zbb's rev8. */
static inline uint64_t frame_word(uint64_t word) {
#ifdef __riscv
  uint64_t reversed;
  __asm__(".insn i 0x13, 5, %0, %1, 0x6b8" : "=r"(reversed) : "r"(word));
  return reversed;
#else
  return __builtin_bswap64(word);
#endif
}

/** Exchanges the Ethernet addresses, by which switches forward, so that the frame returns to its
 * sender. Six bytes are copied in place, as the compiler of the published programs does; function
 * calls would take 190 cycles in all. */
static inline void swap_eth(struct frame *frame) {
  uint8_t address[MAC_ADDR_SIZE];
  __builtin_memcpy(address, frame->eth.dst_mac, MAC_ADDR_SIZE);
  __builtin_memcpy(frame->eth.dst_mac, frame->eth.src_mac, MAC_ADDR_SIZE);
  __builtin_memcpy(frame->eth.src_mac, address, MAC_ADDR_SIZE);
}

/** Exchanges all addresses, so that the frame returns to the context that sent it. */
static inline void swap_addresses(struct frame *frame) {
  swap_eth(frame);
  uint32_t address = frame->ipv4.dst_addr;
  frame->ipv4.dst_addr = frame->ipv4.src_addr;
  frame->ipv4.src_addr = address;
  uint16_t context = frame->lnic.dst;
  frame->lnic.dst = frame->lnic.src;
  frame->lnic.src = context;
}

/** The payload bytes of a frame with this many bytes, of which the last few may be padding. */
static inline uint64_t frame_payload_bytes(const struct frame *frame, uint64_t bytes) {
  uint64_t most = bytes - sizeof *frame;
  uint64_t told = (uint64_t)swap16(frame->ipv4.length) + sizeof frame->eth - sizeof *frame;
  return told < most ? told : most;
}

/** Sets the length of a frame that contains a whole message, and clears the upper bits in place: a
 * call of memset() would take 80 cycles. The IPv4 checksum does not change: simulated links do not
 * corrupt frames, and nothing checks it. */
static inline void frame_set_payload_bytes(struct frame *frame, uint64_t payload_bytes) {
  uint64_t behind_ethernet = sizeof *frame - sizeof frame->eth + payload_bytes;
  frame->ipv4.length = swap16((uint16_t)behind_ethernet);
  frame->lnic.msg_len = swap16((uint16_t)payload_bytes);
  __builtin_memset(frame->lnic.upper, 0, sizeof frame->lnic.upper);
}

#endif
