/**
 * The key-value store behind a network interface with descriptor rings: each hart serves its own,
 * and sleeps on its next descriptor while that is empty (WRS.NTO of Zawrs).
 *
 * The interface's write of the descriptor ends the sleep; no other notification is needed.
 * services/compared_store.h has the parameters, and services/store.h the messages.
 */
#include <services/compared_rings.h>
/* Above: the number of ring entries. */
#include <ring_queues.h>

void prepare(void) { compared_prepare_rings(); }

/* Waits for a frame. */
static inline struct frame *await(struct dma_nic_queue *queue, uint64_t *bytes) {
  for (;;) {
    struct frame *frame = dma_nic_receive(queue, bytes);
    if (frame != NULL)
      return frame;
    /* Without a free buffer the hart polls, because the end of a send does not write this line. */
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
