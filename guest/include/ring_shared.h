/**
 * Rings of descriptors that several harts take frames from, without a lock (dma_nic.h).
 *
 * A frame of a ring has a number. Who has the number, and nobody else, takes the frame: waits for
 * its descriptor, puts another buffer in its place, and gives that to the interface. Buffers are
 * given in the order of numbers, because the interface is told how many there are; so a hart waits
 * until those before it have given theirs, which they do at once when they have their frames.
 * Therefore descriptors that say "done" and whose number is below `given` are of this round of the
 * ring: shared_ring_claim() looks at `given` first.
 */
#ifndef RING_SHARED_H
#define RING_SHARED_H

#include <dma_nic.h>
#include <frames.h>

/* Tells the interface a number, before any other hart tells it a higher one: a store to a device is
 * posted, so that the hart's next store may be seen before it has arrived. */
static inline void shared_ring_tell(uint64_t tail, uint32_t number) {
  dma_nic_ring_doorbell(tail, number);
  __asm__ volatile("fence o, w" ::: "memory");
}

/** A ring to receive. */
struct shared_ring {
  struct dma_nic_queue ring;                   /**< Of this its registers and rings alone. */
  uint32_t taken __attribute__((aligned(64))); /**< Numbers that harts have, */
  uint32_t given __attribute__((aligned(64))); /**< and that buffers have been given for. */
} __attribute__((aligned(64)));

/** Begins with a ring whose queue has been opened. */
static inline void shared_ring_begin(struct shared_ring *shared, const struct dma_nic_queue *ring) {
  shared->ring = *ring;
  shared->given = DMA_NIC_ENTRIES;
}

/** The next number, whether or not its frame has come. */
static inline uint32_t shared_ring_number(struct shared_ring *shared) {
  return __atomic_fetch_add(&shared->taken, 1, __ATOMIC_RELAXED);
}

/** Whether the frame of a number has come. */
static inline int shared_ring_has_come(struct shared_ring *shared, uint32_t number) {
  if ((int32_t)(__atomic_load_n(&shared->given, __ATOMIC_ACQUIRE) - number) <= 0)
    return 0;
  struct dma_nic_descriptor *descriptor = dma_nic_at(shared->ring.receive_ring, number);
  return (__atomic_load_n(&descriptor->status, __ATOMIC_ACQUIRE) & DMA_NIC_DONE) != 0;
}

/** Takes the number of a frame that has come. Returns whether there is one. */
static inline int shared_ring_claim(struct shared_ring *shared, uint32_t *number) {
  *number = __atomic_load_n(&shared->taken, __ATOMIC_RELAXED);
  return shared_ring_has_come(shared, *number) &&
         __atomic_compare_exchange_n(&shared->taken, number, *number + 1, 0, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
}

/** Takes the frame of a number, which has come, and its bytes, and gives a buffer for it. Returns
 * NULL if the interface could not receive it; *buffer is then the buffer that was there. */
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
 * A ring to send that several harts use. Each descriptor has a buffer: first a free one, and then
 * that of the last frame that was sent by it. Who sends a frame gets the buffer that was there, so
 * that no hart needs more than one.
 */
struct shared_sender {
  struct dma_nic_queue ring;                  /**< Of this its registers and rings alone. */
  uint32_t sent __attribute__((aligned(64))); /**< Numbers that harts have, */
  uint32_t told __attribute__((aligned(64))); /**< and that the interface has been told of. */
} __attribute__((aligned(64)));

/** Begins with a ring whose queue has been opened. */
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
  /* Not before the one that had it last has been told of, or else its "done" is an older one. */
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
