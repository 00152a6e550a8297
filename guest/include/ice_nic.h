/**
 * The on-chip network interface (docs/conventional-nic.md), by the names of IceNIC's published
 * programs, so that these can be compiled against this file. Stores post requests, and loads take
 * completions; the description gives the length of both queues. A store to a full queue, and a load
 * from an empty one, wait.
 */
#ifndef ICE_NIC_H
#define ICE_NIC_H

#include <memory_map.h>
#include <mmio.h>
#include <stdint.h>

#define SIMPLENIC_BASE ICE_NIC_REGISTERS_START
#define SIMPLENIC_SEND_REQ (SIMPLENIC_BASE + 0)
#define SIMPLENIC_RECV_REQ (SIMPLENIC_BASE + 8)
#define SIMPLENIC_SEND_COMP (SIMPLENIC_BASE + 16)
#define SIMPLENIC_RECV_COMP (SIMPLENIC_BASE + 18)
#define SIMPLENIC_COUNTS (SIMPLENIC_BASE + 20)
#define SIMPLENIC_MACADDR (SIMPLENIC_BASE + 24)
#define SIMPLENIC_INTMASK (SIMPLENIC_BASE + 32)

/** Bytes of a buffer: the longest frame, 1520, rounded up to whole lines. */
enum { NIC_BUFFER_BYTES = 1536 };

/** The interface's Ethernet address, its first byte lowest. */
static inline uint64_t nic_macaddr(void) { return reg_read64(SIMPLENIC_MACADDR); }

/** The number of free entries in the queue of send requests, ... */
static inline int nic_send_req_avail(void) { return reg_read32(SIMPLENIC_COUNTS) & 0xff; }

static inline int nic_recv_req_avail(void) { return (reg_read32(SIMPLENIC_COUNTS) >> 8) & 0xff; }

/** ... and the number of completions that wait. */
static inline int nic_send_comp_avail(void) { return (reg_read32(SIMPLENIC_COUNTS) >> 16) & 0xff; }

static inline int nic_recv_comp_avail(void) { return (reg_read32(SIMPLENIC_COUNTS) >> 24) & 0xff; }

/** Posts a frame for sending, once there is room. It includes everything written before. */
static inline void nic_post_send(void *data, uint64_t bytes) {
  uint64_t address = (uint64_t)data & ((1ul << 48) - 1);
  while (nic_send_req_avail() == 0)
    ;
  __atomic_thread_fence(
      __ATOMIC_SEQ_CST); /* Earlier stores must be visible before the interface reads. */
  reg_write64(SIMPLENIC_SEND_REQ, bytes << 48 | address);
}

/** The same for a part of a frame, which goes on with the next one. Each part is completed. */
static inline void nic_post_send_part(void *data, uint64_t bytes) {
  nic_post_send(data, 1ul << 15 | bytes);
}

/** Waits until a frame has been read, and its buffer is free. */
static inline void nic_complete_send(void) {
  while (nic_send_comp_avail() == 0)
    ;
  reg_read16(SIMPLENIC_SEND_COMP);
}

/** The same for `count` frames. */
static inline void nic_wait_send_batch(int count) {
  for (int done = 0; done < count; done++)
    nic_complete_send();
}

/** Posts a receive buffer, once there is room. */
static inline void nic_post_recv(void *buffer) {
  while (nic_recv_req_avail() == 0)
    ;
  reg_write64(SIMPLENIC_RECV_REQ, (uint64_t)buffer);
}

/** Waits for a frame, which is in the oldest buffer; returns its length, rounded up to a multiple
 * of 8. */
static inline int nic_wait_recv(void) {
  while (nic_recv_comp_avail() == 0)
    ;
  int bytes = reg_read16(SIMPLENIC_RECV_COMP);
  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* Loads of the frame come after this. */
  return bytes;
}

/** Sends a frame and waits until it has been read. */
static inline void nic_send(void *data, uint64_t bytes) {
  nic_post_send(data, bytes);
  nic_complete_send();
}

/** Receives a frame. */
static inline int nic_recv(void *buffer) {
  nic_post_recv(buffer);
  return nic_wait_recv();
}

#endif
