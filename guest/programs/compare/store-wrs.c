/**
 * The key-value store behind a network interface with rings of descriptors: each hart serves its
 * own, and sleeps on its next descriptor while that is empty (WRS.NTO of Zawrs).
 *
 * The interface's write of the descriptor ends the sleep; there is nothing else to be told.
 * services/compared_store.h has the parameters, and services/store.h the messages.
 */
#include <services/compared_store.h>
/* Above: how many entries rings have. */
#include <dma_nic.h>
#include <frames.h>

static struct dma_nic_queue *queues;

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
  struct dma_nic_queue *queue = &queues[hart];
  for (;;) {
    uint64_t bytes;
    struct frame *frame = await(queue, &bytes);
    bytes = frame_payload_bytes(frame, bytes);
    uint64_t reply_bytes = compared_answer(frame->payload, bytes, frame->payload);
    swap_addresses(frame);
    frame_set_payload_bytes(frame, reply_bytes);
    dma_nic_send(queue, frame, sizeof *frame + reply_bytes);
  }
}

int main(void) {
  if (reg_read64(DMA_NIC_QUEUES) != harts)
    fail("There are %lu harts; the network interface must have as many queues.", harts);
  queues = aligned_alloc(64, harts * sizeof *queues);
  for (uint64_t hart = 0; hart < harts; hart++)
    dma_nic_open(&queues[hart], (int)hart);
  harts_release();
  return hart_main(0);
}
