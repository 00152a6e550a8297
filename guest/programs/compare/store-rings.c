/**
 * The key-value store behind a network interface with rings of descriptors: each hart polls its
 * own.
 *
 * Receive-side scaling chooses the hart. services/store.h has the messages.
 */
#define DMA_NIC_ENTRIES                                                                            \
  128 /* Of 16 harts together 2048 buffers, as behind the other interfaces.                        \
       */
#include <dma_nic.h>
#include <frames.h>
#include <services/wire_store.h>

void prepare(void) { store_prepare_as(STORE_WIRE); }

static struct dma_nic_queue *queues;

int hart_main(int hart) {
  struct dma_nic_queue *queue = &queues[hart];
  for (;;) {
    uint64_t bytes;
    struct frame *frame = dma_nic_receive(queue, &bytes);
    if (frame == NULL)
      continue;
    bytes = frame_payload_bytes(frame, bytes);
    uint64_t reply_bytes = wire_store_answer(frame->payload, bytes, frame->payload);
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
