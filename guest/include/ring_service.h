/**
 * A service behind a network interface with descriptor rings: each hart polls its own.
 *
 *     static inline uint64_t serve(const uint64_t *request, uint64_t bytes, uint64_t *reply);
 *     int main(void) { return ring_service(); }
 *
 * See ring_answer.h for serve(). Receive-side scaling selects the hart. Before it includes this
 * file, a program can define the number of descriptors of a ring (DMA_NIC_ENTRIES), and the bytes
 * of a buffer (DMA_NIC_BUFFER_BYTES).
 */
#ifndef RING_SERVICE_H
#define RING_SERVICE_H

#include <dma_nic.h>
#include <ring_answer.h>
#include <ring_queues.h>

int hart_main(int hart) {
  struct dma_nic_queue *queue = &ring_queues[hart];
  for (;;) {
    uint64_t bytes;
    struct frame *frame = dma_nic_receive(queue, &bytes);
    if (frame == NULL)
      continue;
    bytes = ring_answer(frame, bytes);
    dma_nic_send(queue, frame, bytes);
  }
}

static inline int ring_service(void) {
  ring_queues_open();
  harts_release();
  return hart_main(0);
}

#endif
