/**
 * Descriptor rings with a private pair for each hart (dma_nic.h).
 */
#ifndef RING_QUEUES_H
#define RING_QUEUES_H

#include <dma_nic.h>

static struct dma_nic_queue *ring_queues;

/** Allocates as many queues as there are harts. */
static inline void ring_queues_make(void) {
  if (reg_read64(DMA_NIC_QUEUES) != harts)
    fail("There are %lu harts; the network interface must have as many queues.", harts);
  ring_queues = aligned_alloc(64, harts * sizeof *ring_queues);
}

/** Allocates the queues, and opens them. */
static inline void ring_queues_open(void) {
  ring_queues_make();
  for (uint64_t hart = 0; hart < harts; hart++)
    dma_nic_open(&ring_queues[hart], (int)hart);
}

#endif
