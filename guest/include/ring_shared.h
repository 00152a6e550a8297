/**
 * Descriptor rings from which several harts take frames without a lock (dma_nic.h).
 *
 * The frames of a ring are numbered. Only the hart that has claimed a number takes the frame: it
 * waits for the descriptor, puts another buffer in its place, and returns that buffer to the
 * interface. Buffers are returned in the order of numbers, because the doorbell tells the interface
 * their number; a hart therefore waits until earlier harts have returned theirs, which they do as
 * soon as they have their frames. Descriptors marked "done" whose number is below `given` are thus
 * of this pass over the ring: shared_ring_claim() reads `given` first.
 */
#ifndef RING_SHARED_H
#define RING_SHARED_H

#include <dma_nic.h>
#include <frames.h>

/* Writes a number to the interface before any other hart writes a higher one: a store to a device
 * is posted, so that the hart's next store may be visible before it has arrived. */
static inline void shared_ring_tell(uint64_t tail, uint32_t number) {
  dma_nic_ring_doorbell(tail, number);
  __asm__ volatile("fence o, w" ::: "memory");
}

/** A shared receive ring. */
struct shared_ring {
  struct dma_nic_queue ring;                   /**< Only its registers and rings are used. */
  uint32_t taken __attribute__((aligned(64))); /**< Numbers claimed by harts, */
  uint32_t given __attribute__((aligned(64))); /**< and numbers whose buffers have been returned. */
} __attribute__((aligned(64)));

/** Starts with a ring whose queue has been opened. */
static inline void shared_ring_begin(struct shared_ring *shared, const struct dma_nic_queue *ring) {
  shared->ring = *ring;
  shared->given = DMA_NIC_ENTRIES;
}

/** Claims the next number, whether or not its frame has arrived. */
static inline uint32_t shared_ring_number(struct shared_ring *shared) {
  return __atomic_fetch_add(&shared->taken, 1, __ATOMIC_RELAXED);
}

/** Whether the frame of a number has arrived. */
static inline int shared_ring_has_come(struct shared_ring *shared, uint32_t number) {
  if ((int32_t)(__atomic_load_n(&shared->given, __ATOMIC_ACQUIRE) - number) <= 0)
    return 0;
  struct dma_nic_descriptor *descriptor = dma_nic_at(shared->ring.receive_ring, number);
  return (__atomic_load_n(&descriptor->status, __ATOMIC_ACQUIRE) & DMA_NIC_DONE) != 0;
}

/** Claims the number of an arrived frame. Returns whether there is one. */
static inline int shared_ring_claim(struct shared_ring *shared, uint32_t *number) {
  *number = __atomic_load_n(&shared->taken, __ATOMIC_RELAXED);
  return shared_ring_has_come(shared, *number) &&
         __atomic_compare_exchange_n(&shared->taken, number, *number + 1, 0, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
}

/** Takes the frame of a claimed number, which has arrived, and its length, and returns a buffer for
 * it. NULL if it had a receive error; *buffer is then the buffer that was there. */
static inline struct frame *shared_ring_take(struct shared_ring *shared, uint32_t number,
                                             uint64_t *buffer, uint64_t *bytes) {
  struct dma_nic_descriptor *descriptor = dma_nic_at(shared->ring.receive_ring, number);
  uint16_t status = descriptor->status;
  uint64_t frame = descriptor->address;
  *bytes = descriptor->bytes;
  descriptor->address = *buffer;
  descriptor->upper = DMA_NIC_BUFFER_BYTES;
  uint32_t giving = number + (uint32_t)DMA_NIC_ENTRIES;
  while (__atomic_load_n(&shared->given, __ATOMIC_ACQUIRE) != giving)
    ;
  if (((giving + 1) & (DMA_NIC_DOORBELL_FRAMES - 1)) == 0)
    shared_ring_tell(shared->ring.registers + DMA_NIC_RECEIVE + DMA_NIC_TAIL, giving + 1);
  __atomic_store_n(&shared->given, giving + 1, __ATOMIC_RELEASE);
  *buffer = frame;
  return status & DMA_NIC_ERROR ? NULL : (struct frame *)frame;
}

/**
 * A send ring that several harts share. Each descriptor has a buffer: initially a free one, and
 * later that of the last frame sent by it. A hart that sends a frame gets the buffer that was
 * there, so that no hart needs more than one.
 */
struct shared_sender {
  struct dma_nic_queue ring;                  /**< Only its registers and rings are used. */
  uint32_t sent __attribute__((aligned(64))); /**< Numbers claimed by harts, */
  uint32_t told __attribute__((aligned(64))); /**< and numbers announced to the interface. */
} __attribute__((aligned(64)));

/** Starts with a ring whose queue has been opened. */
static inline void shared_sender_begin(struct shared_sender *shared,
                                       const struct dma_nic_queue *ring) {
  shared->ring = *ring;
  uint8_t *buffers = aligned_alloc(64, DMA_NIC_ENTRIES * DMA_NIC_BUFFER_BYTES);
  for (uint32_t place = 0; place < DMA_NIC_ENTRIES; place++) {
    struct dma_nic_descriptor *descriptor = dma_nic_at(ring->send_ring, place);
    descriptor->address = (uint64_t)buffers + place * DMA_NIC_BUFFER_BYTES;
    descriptor->status = DMA_NIC_DONE;
  }
}

/** Sends a frame, and returns a free buffer. */
static inline uint64_t shared_sender_send(struct shared_sender *shared, struct frame *frame,
                                          uint64_t bytes) {
  uint32_t number = __atomic_fetch_add(&shared->sent, 1, __ATOMIC_RELAXED);
  struct dma_nic_descriptor *descriptor = dma_nic_at(shared->ring.send_ring, number);
  /* Wait until the descriptor's previous frame is announced; before that its "done" is stale. */
  while ((int32_t)(__atomic_load_n(&shared->told, __ATOMIC_ACQUIRE) - number) <=
         -(int32_t)DMA_NIC_ENTRIES)
    ;
  while (!(__atomic_load_n(&descriptor->status, __ATOMIC_ACQUIRE) & DMA_NIC_DONE))
    ;
  uint64_t buffer = descriptor->address;
  descriptor->address = (uint64_t)frame;
  descriptor->upper = bytes;
  while (__atomic_load_n(&shared->told, __ATOMIC_ACQUIRE) != number)
    ;
  shared_ring_tell(shared->ring.registers + DMA_NIC_SEND + DMA_NIC_TAIL, number + 1);
  __atomic_store_n(&shared->told, number + 1, __ATOMIC_RELEASE);
  return buffer;
}

#endif
