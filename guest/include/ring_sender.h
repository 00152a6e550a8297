/**
 * Descriptor rings whose frames any hart takes (dma_nic.h): each hart has a send ring and spare
 * buffers, one of which replaces each frame's buffer that it takes off a receive ring.
 */
#ifndef RING_SENDER_H
#define RING_SENDER_H

#include <dma_nic.h>

/** Spare buffers of each hart: at most the descriptors of a send ring. A program can define them
 * before it includes this file, also as a variable that is set before it opens queues, and their
 * maximum. */
#ifndef RING_SPARE_BUFFERS
#define RING_SPARE_BUFFERS 32
#define RING_MOST_SPARE_BUFFERS RING_SPARE_BUFFERS
#endif

/** A hart's send ring, and its buffers. */
struct ring_sender {
  struct dma_nic_queue ring;
  uint64_t spares;
  uint64_t spare[RING_MOST_SPARE_BUFFERS];
} __attribute__((aligned(64)));

static struct ring_sender *ring_senders;

/** Fails unless the interface has a queue for each hart, which sends on the one with its number. */
static inline void ring_check_queues(uint64_t count) {
  if (count < harts)
    fail("There are %lu harts, and the network interface has %lu queues; there must be one to send "
         "for each hart.",
         harts, count);
}

/** Reclaims the buffers of sent frames that have been read. */
static inline void ring_take_back(struct ring_sender *sender) {
  struct dma_nic_queue *ring = &sender->ring;
  while (ring->freed != ring->sent) {
    struct dma_nic_descriptor *descriptor = dma_nic_at(ring->send_ring, ring->freed);
    uint16_t status = __atomic_load_n(&descriptor->status, __ATOMIC_ACQUIRE);
    if (!(status & DMA_NIC_DONE))
      return;
    ring->errors += (status & DMA_NIC_ERROR) != 0;
    ring->freed++;
    sender->spare[sender->spares++] = descriptor->address;
  }
}

/** Allocates the spare buffers of a hart. */
static inline void ring_give_spares(struct ring_sender *sender) {
  uint8_t *buffers = aligned_alloc(64, RING_SPARE_BUFFERS * DMA_NIC_BUFFER_BYTES);
  for (uint64_t place = 0; place < RING_SPARE_BUFFERS; place++)
    sender->spare[place] = (uint64_t)buffers + place * DMA_NIC_BUFFER_BYTES;
  sender->spares = RING_SPARE_BUFFERS;
}

/** Gives an opened queue to the hart with its number, if there is one, to send on; and spare
 * buffers. */
static inline void ring_give_queue(uint64_t number, const struct dma_nic_queue *queue) {
  if (number >= harts)
    return;
  ring_senders[number].ring = *queue;
  ring_give_spares(&ring_senders[number]);
}

#endif
