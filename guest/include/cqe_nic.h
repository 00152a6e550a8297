/**
 * A network interface with completion queues (docs/conventional-nic.md): its registers, and the
 * layout of work requests and completions. poll_mode/port.h is the driver.
 */
#ifndef CQE_NIC_H
#define CQE_NIC_H

#include <memory_map.h>
#include <stdint.h>

#define CQE_NIC_BASE CQE_NIC_REGISTERS_START
#define CQE_NIC_PORTS (CQE_NIC_BASE + 0x00)
#define CQE_NIC_QUEUES (CQE_NIC_BASE + 0x08)
#define CQE_NIC_ADDRESS (CQE_NIC_BASE + 0x10)
#define CQE_NIC_MAX_FRAME_BYTES (CQE_NIC_BASE + 0x18)
#define CQE_NIC_KEY (CQE_NIC_BASE + 0x20)
#define CQE_NIC_INDIRECTION (CQE_NIC_BASE + 0x48)

/** The page of a queue pair: those of the second port follow those of the first. */
#define CQE_NIC_PAGE(pair) (CQE_NIC_BASE + 0x1000 * (1 + (uint64_t)(pair)))
/* In a queue pair's page: */
#define CQE_NIC_RECEIVE 0x00     /* the registers of the receive queue, */
#define CQE_NIC_SEND 0x40        /* those of the send queue, */
#define CQE_NIC_DOORBELL 0x800   /* its doorbell, */
#define CQE_NIC_COUNTER 0x808    /* the word that counts completions of the receive queue, */
#define CQE_NIC_ARM 0x810        /* the arming of their interrupts, */
#define CQE_NIC_BLUE_FLAME 0x900 /* and the write-combining registers. */
/* The registers of a queue: */
#define CQE_NIC_QUEUE_RING 0x00
#define CQE_NIC_QUEUE_STRIDES 0x08
#define CQE_NIC_QUEUE_RECORD 0x10
#define CQE_NIC_QUEUE_COMPLETIONS 0x18
#define CQE_NIC_QUEUE_COMPLETIONS_RECORD 0x20
#define CQE_NIC_QUEUE_COMPLETION_ENTRIES 0x28
#define CQE_NIC_QUEUE_ENTRIES 0x30
#define CQE_NIC_QUEUE_COMPRESSION 0x38 /* receive queue only, before it starts */

enum {
  CQE_NIC_INDIRECTION_ENTRIES = 512,
  CQE_INVALID = 0xf,       /**< Completion opcode: not written by the interface, */
  CQE_SENT = 0x0,          /**< a completed send work request, */
  CQE_RECEIVED = 0x2,      /**< a received frame, */
  CQE_SEND_ERROR = 0xd,    /**< a failed send work request, */
  CQE_RECEIVE_ERROR = 0xe, /**< or an unusable receive buffer. */
  CQE_COMPRESSED = 0x0c,   /**< In the owner byte: the title of compressed completions. */
  WQE_SEND = 0x0a,         /**< Send work request for one frame, */
  WQE_SEND_PACKETS = 0x29, /**< or for a frame in each segment. */
  WQE_COMPLETES = 0x08,    /**< The work request produces a completion. */
  WQE_SEGMENT_BYTES = 16,
  WQE_BLOCK_BYTES = 64,
};

/** A segment that names a buffer; all numbers are big-endian. A receive work request is one. */
struct wqe_segment {
  uint32_t bytes;
  uint32_t key;
  uint64_t address;
};

/** The first two segments of a send work request. */
struct wqe_header {
  uint32_t operation; /**< The index of its first block times 2^8, and the opcode. */
  uint32_t segments;  /**< The queue's number times 2^8, and the number of segments. */
  uint32_t flags;     /**< WQE_COMPLETES. */
  uint32_t immediate;
  uint32_t reserved[3];
  uint16_t inline_header_bytes;
  uint8_t inline_header[2];
};

/** A block of a send queue: a work request for one or two frames, or the start of a longer one. */
struct wqe_block {
  struct wqe_header header;
  struct wqe_segment segments[2];
};

/** A completion. */
struct cqe {
  uint16_t reserved_1;
  uint16_t buffer;
  uint32_t reserved_2[2];
  uint32_t hash; /**< The receive-side-scaling hash. */
  uint32_t reserved_3[7];
  uint32_t byte_count; /**< With multi-packet buffers also the strides times 2^16. */
  uint64_t timestamp;  /**< Nanoseconds. */
  uint32_t queue;
  uint16_t counter; /**< The index of the work request. */
  uint8_t signature;
  uint8_t owner; /**< The opcode times 16; bit 0 is the parity of the pass over the queue. */
};

/** One of the completions that a title stands for; a block has eight. */
struct mini_cqe {
  uint32_t hash;
  uint32_t byte_count;
};

_Static_assert(sizeof(struct wqe_header) == 32 && sizeof(struct wqe_block) == WQE_BLOCK_BYTES, "");
_Static_assert(sizeof(struct cqe) == 64 && sizeof(struct wqe_segment) == WQE_SEGMENT_BYTES, "");

#endif
