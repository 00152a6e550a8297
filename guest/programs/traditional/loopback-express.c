/**
 * Sends every frame back to its sender, through a network interface behind PCI Express: each hart
 * serves its own queue.
 */
#include <dma_nic.h>
#include <frames.h>

int hart_main(int hart) {
  if ((uint64_t)hart >= reg_read64(DMA_NIC_QUEUES))
    return 0;
  struct dma_nic_queue queue;
  dma_nic_open(&queue, hart);
  for (;;) {
    uint64_t bytes;
    struct frame *frame = dma_nic_receive(&queue, &bytes);
    if (frame == NULL)
      continue;
    swap_eth(frame);
    dma_nic_send(&queue, frame, bytes);
  }
}

int main(void) {
  harts_release();
  return hart_main(0);
}
