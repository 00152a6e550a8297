/**
 * The key-value store behind a network interface with descriptor rings: each hart polls its own,
 * and rings one doorbell for the replies of a burst.
 *
 * A burst ends when no other frame has arrived, or after `burst` of them (16 by default).
 * services/compared_store.h has the other parameters, and services/store.h the messages.
 */
#include <services/compared_rings.h>
/* Above: the number of ring entries. */
#include <ring_queues.h>

static uint64_t burst;

void prepare(void) {
  compared_prepare_rings();
  burst = compared_number("burst", 16, 1, 256, 1);
}

/* Puts a reply on the ring in place of its request, without ringing the doorbell. */
static inline void answer(struct dma_nic_queue *queue, struct frame *frame, uint64_t bytes) {
  bytes = ring_answer(frame, bytes);
  struct dma_nic_descriptor *descriptor = dma_nic_at(queue->send_ring, queue->sent++);
  descriptor->address = (uint64_t)frame;
  descriptor->upper = bytes;
}

int hart_main(int hart) {
  struct dma_nic_queue *queue = &ring_queues[hart];
  for (;;) {
    uint64_t bytes;
    struct frame *frame = dma_nic_receive(queue, &bytes);
    if (frame == NULL)
      continue;
    for (uint64_t frames = 1;; frames++) {
      answer(queue, frame, bytes);
      if (frames == burst || (frame = dma_nic_receive(queue, &bytes)) == NULL)
        break;
    }
    dma_nic_ring_doorbell(queue->registers + DMA_NIC_SEND + DMA_NIC_TAIL, queue->sent);
  }
}

int main(void) {
  ring_queues_open();
  harts_release();
  return hart_main(0);
}
