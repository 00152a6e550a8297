/**
 * A network interface behind PCI Express (docs/conventional-nic.md): a pair of descriptor rings in
 * memory for each hart.
 *
 *     struct dma_nic_queue queue;
 *     dma_nic_open(&queue, hart);
 *     for (;;) {
 *       uint64_t bytes;
 *       void *frame = dma_nic_receive(&queue, &bytes);
 *       if (frame == NULL)
 *         continue;
 * ... turn it into its reply ...
 *       dma_nic_send(&queue, frame, bytes);
 *     }
 *
 * A buffer comes with a received frame, and is returned when the frame that is sent from it has
 * been read; then it receives another frame. Only its hart uses a queue. A doorbell is a store to
 * the device; the program otherwise only polls memory.
 */
#ifndef DMA_NIC_H
#define DMA_NIC_H

#include <memory_map.h>
#include <mmio.h>
#include <runtime.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/** Entries of each ring, and the number of buffers: a power of two. A program can define it before
 * it includes this file, also as a variable that is set before it opens queues. */
#ifndef DMA_NIC_ENTRIES
#define DMA_NIC_ENTRIES 256
#endif

/** Bytes of each buffer: a multiple of 64; can be defined likewise. */
#ifndef DMA_NIC_BUFFER_BYTES
#define DMA_NIC_BUFFER_BYTES 2048
#endif

/** The number of buffers that are returned together, at most the entries of a ring; can be defined
 * likewise. */
#ifndef DMA_NIC_DOORBELL_FRAMES
#define DMA_NIC_DOORBELL_FRAMES 8
#endif

enum {
  DMA_NIC_DONE = 1,
  DMA_NIC_ERROR = 2,
};

#define DMA_NIC_BASE DMA_NIC_REGISTERS_START
#define DMA_NIC_QUEUES (DMA_NIC_BASE + 0x00)
#define DMA_NIC_ADDRESS (DMA_NIC_BASE + 0x08)
#define DMA_NIC_MAX_FRAME_BYTES (DMA_NIC_BASE + 0x10)
#define DMA_NIC_PAGE(queue) (DMA_NIC_BASE + 0x1000 * (1 + (uint64_t)(queue)))
#define DMA_NIC_RECEIVE 0x00 /* The receive ring, of empty buffers ... */
#define DMA_NIC_SEND 0x20    /* ... and the send ring: */
#define DMA_NIC_RING 0x00
#define DMA_NIC_RING_ENTRIES 0x08
#define DMA_NIC_TAIL 0x10
#define DMA_NIC_HEAD 0x18
#define DMA_NIC_DOORBELL 0x40  /* In the queue's page. */
#define DMA_NIC_INTERRUPT 0x48 /* In the queue's page. */
/* In the queue's page: the number of the completion queue to which its frames are reported, and the
 * completion queue with the page's number (ring_completions.h). */
#define DMA_NIC_COMPLETIONS 0x50
#define DMA_NIC_COMPLETION_RING 0x58
#define DMA_NIC_COMPLETION_ENTRIES 0x60

struct dma_nic_descriptor {
  uint64_t address;
  union {
    uint64_t upper;
    struct {
      uint16_t bytes;
      uint16_t status;
      uint32_t hash; /**< The receive-side-scaling hash. */
    };
  };
};

struct dma_nic_queue {
  uint64_t registers;
  struct dma_nic_descriptor *receive_ring, *send_ring;
  uint32_t taken;  /**< Frames taken off the receive ring, */
  uint32_t given;  /**< buffers put on it, */
  uint32_t rung;   /**< and announced by doorbell; */
  uint32_t sent;   /**< frames put on the send ring, */
  uint32_t freed;  /**< and those whose buffers are free again. */
  uint32_t errors; /**< Descriptors with errors. */
};

static inline struct dma_nic_descriptor *dma_nic_at(struct dma_nic_descriptor *ring,
                                                    uint32_t number) {
  return &ring[number & (DMA_NIC_ENTRIES - 1)];
}

static inline void dma_nic_ring_doorbell(uint64_t tail, uint32_t number) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* The descriptors precede the doorbell. */
  reg_write64(tail, number);
}

/* Puts a buffer on the receive ring. */
static inline void dma_nic_give(struct dma_nic_queue *queue, uint64_t buffer) {
  struct dma_nic_descriptor *descriptor = dma_nic_at(queue->receive_ring, queue->given++);
  descriptor->address = buffer;
  descriptor->upper = DMA_NIC_BUFFER_BYTES;
  if (queue->given - queue->rung >= DMA_NIC_DOORBELL_FRAMES) {
    queue->rung = queue->given;
    dma_nic_ring_doorbell(queue->registers + DMA_NIC_RECEIVE + DMA_NIC_TAIL, queue->given);
  }
}

/** Ends the program if frames can be longer than a buffer. */
static inline void dma_nic_check_buffers(void) {
  uint64_t longest = reg_read64(DMA_NIC_MAX_FRAME_BYTES);
  if (longest > DMA_NIC_BUFFER_BYTES)
    fail("Frames can have %lu bytes (server.dma_nic.max_frame_bytes), and buffers have %lu.",
         longest, (uint64_t)DMA_NIC_BUFFER_BYTES);
}

/** Opens a queue, whose number is below DMA_NIC_QUEUES: its rings, with as many buffers as they
 * have entries. For each received frame the interface adds 1 to `doorbell`, unless it is NULL. */
static inline void dma_nic_open_with_doorbell(struct dma_nic_queue *queue, int number,
                                              uint64_t *doorbell) {
  const uint64_t ring_bytes = DMA_NIC_ENTRIES * sizeof(struct dma_nic_descriptor);
  *queue = (struct dma_nic_queue){
      .registers = DMA_NIC_PAGE(number),
      .receive_ring = aligned_alloc(64, ring_bytes),
      .send_ring = aligned_alloc(64, ring_bytes),
  };
  uint8_t *buffers = aligned_alloc(64, DMA_NIC_ENTRIES * DMA_NIC_BUFFER_BYTES);
  if (buffers == NULL || queue->receive_ring == NULL || queue->send_ring == NULL)
    fail("There is no memory for the rings of the network interface.");
  if (doorbell != NULL)
    reg_write64(queue->registers + DMA_NIC_DOORBELL, (uint64_t)doorbell);
  reg_write64(queue->registers + DMA_NIC_RECEIVE + DMA_NIC_RING, (uint64_t)queue->receive_ring);
  reg_write64(queue->registers + DMA_NIC_RECEIVE + DMA_NIC_RING_ENTRIES, DMA_NIC_ENTRIES);
  reg_write64(queue->registers + DMA_NIC_SEND + DMA_NIC_RING, (uint64_t)queue->send_ring);
  reg_write64(queue->registers + DMA_NIC_SEND + DMA_NIC_RING_ENTRIES, DMA_NIC_ENTRIES);
  for (uint64_t place = 0; place < DMA_NIC_ENTRIES; place++)
    dma_nic_give(queue, (uint64_t)buffers + place * DMA_NIC_BUFFER_BYTES);
}

/** The same without a doorbell. */
static inline void dma_nic_open(struct dma_nic_queue *queue, int number) {
  dma_nic_open_with_doorbell(queue, number, NULL);
}

/* Returns the buffers of sent frames that have been read. */
static inline void dma_nic_free(struct dma_nic_queue *queue) {
  while (queue->freed != queue->sent) {
    struct dma_nic_descriptor *descriptor = dma_nic_at(queue->send_ring, queue->freed);
    uint16_t status = __atomic_load_n(&descriptor->status, __ATOMIC_ACQUIRE);
    if (!(status & DMA_NIC_DONE))
      return;
    queue->errors += (status & DMA_NIC_ERROR) != 0;
    queue->freed++;
    dma_nic_give(queue, descriptor->address);
  }
}

/** The oldest received frame, and its length; NULL if there is none. */
static inline void *dma_nic_receive(struct dma_nic_queue *queue, uint64_t *bytes) {
  dma_nic_free(queue);
  struct dma_nic_descriptor *descriptor = dma_nic_at(queue->receive_ring, queue->taken);
  uint16_t status = __atomic_load_n(&descriptor->status, __ATOMIC_ACQUIRE);
  if (!(status & DMA_NIC_DONE) || queue->taken == queue->given)
    return NULL;
  queue->taken++;
  if (status & DMA_NIC_ERROR) {
    queue->errors++;
    dma_nic_give(queue, descriptor->address);
    return NULL;
  }
  *bytes = descriptor->bytes;
  return (void *)descriptor->address;
}

/** Requests one interrupt for a queue: immediately if an unprocessed frame is there, and otherwise
 * with the next one. The source of the interrupt is the queue's number. For systems that take
 * interrupts (user_interrupt.h). */
static inline void dma_nic_interrupt(struct dma_nic_queue *queue) {
  reg_write64(queue->registers + DMA_NIC_INTERRUPT, queue->taken);
}

/** Sends a frame from the buffer in which one was received. There is always room: there are no more
 * buffers than descriptors. */
static inline void dma_nic_send(struct dma_nic_queue *queue, void *frame, uint64_t bytes) {
  struct dma_nic_descriptor *descriptor = dma_nic_at(queue->send_ring, queue->sent++);
  descriptor->address = (uint64_t)frame;
  descriptor->upper = bytes;
  dma_nic_ring_doorbell(queue->registers + DMA_NIC_SEND + DMA_NIC_TAIL, queue->sent);
}

#endif
