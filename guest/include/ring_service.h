/**
 * A service behind a network interface with rings of descriptors: each hart polls its own.
 *
 *     static inline uint64_t serve(const uint64_t *request, uint64_t bytes, uint64_t *reply);
 *     int main(void) { return ring_service(); }
 *
 * serve() writes the reply to a message, which is at the same place, and returns the reply's bytes.
 * Receive-side scaling chooses the hart. A program can say before it includes this how many
 * descriptors a ring has (DMA_NIC_ENTRIES), and bytes a buffer (DMA_NIC_BUFFER_BYTES).
 */
#ifndef RING_SERVICE_H
#define RING_SERVICE_H

#include <dma_nic.h>
#include <frames.h>

static struct dma_nic_queue *ring_queues;

int hart_main(int hart) {
  struct dma_nic_queue *queue = &ring_queues[hart];
  for (;;) {
    uint64_t bytes;
    struct frame *frame = dma_nic_receive(queue, &bytes);
    if (frame == NULL)
      continue;
    bytes = frame_payload_bytes(frame, bytes);
    uint64_t reply_bytes = serve(frame->payload, bytes, frame->payload);
    swap_addresses(frame);
    frame_set_payload_bytes(frame, reply_bytes);
    dma_nic_send(queue, frame, sizeof *frame + reply_bytes);
  }
}

static inline int ring_service(void) {
  if (reg_read64(DMA_NIC_QUEUES) != harts)
    fail("There are %lu harts; the network interface must have as many queues.", harts);
  ring_queues = aligned_alloc(64, harts * sizeof *ring_queues);
  for (uint64_t hart = 0; hart < harts; hart++)
    dma_nic_open(&ring_queues[hart], (int)hart);
  harts_release();
  return hart_main(0);
}

#endif
