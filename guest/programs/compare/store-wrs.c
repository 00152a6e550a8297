/**
 * The key-value store behind a network interface with rings of descriptors: each hart serves its
 * own, and sleeps on its next descriptor while that is empty (WRS.NTO of Zawrs).
 *
 * The interface's write of the descriptor ends the sleep; there is nothing else to be told.
 * services/compared_store.h has the parameters, and services/store.h the messages.
 */
#include <services/compared_rings.h>
/* Above: how many entries rings have. */
#include <ring_queues.h>

void prepare(void) { compared_prepare_rings(); }

/* Waits for a frame. */
static inline struct frame *await(struct dma_nic_queue *queue, uint64_t *bytes) {
  for (;;) {
    struct frame *frame = dma_nic_receive(queue, bytes);
    if (frame != NULL)
      return frame;
    /* Buffers that are being sent come back by nobody's write to this line. */
    if (queue->taken != queue->given)
      wait_while(&dma_nic_at(queue->receive_ring, queue->taken)->upper, DMA_NIC_BUFFER_BYTES);
  }
}

int hart_main(int hart) {
  struct dma_nic_queue *queue = &ring_queues[hart];
  for (;;) {
    uint64_t bytes;
    struct frame *frame = await(queue, &bytes);
    bytes = ring_answer(frame, bytes);
    dma_nic_send(queue, frame, bytes);
  }
}

int main(void) {
  ring_queues_open();
  harts_release();
  return hart_main(0);
}
