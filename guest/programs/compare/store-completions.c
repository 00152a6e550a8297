/**
 * The key-value store behind a network interface with descriptor rings that report to completion
 * queues, one for each hart: each hart polls its own, and steals from others while that is empty.
 *
 * It is store-stealing.c for any number of rings: ring n reports to the completion queue of hart n
 * modulo the harts. See ring_completions.h; services/compared_store.h has the parameters, and
 * services/store.h the messages.
 */
#include <services/compared_rings.h>
/* Above: the number of ring entries. */
#include <ring_completions.h>
#include <ring_sender.h>
#include <ring_shared.h>

static struct shared_ring *rings;
static struct ring_completions *completions;

void prepare(void) { compared_prepare_shared_rings(); }

int hart_main(int hart) {
  struct ring_completions *own = &completions[hart];
  struct ring_sender *sender = &ring_senders[hart];
  uint64_t other = (uint64_t)hart;
  for (;;) {
    ring_take_back(sender);
    if (sender->spares == 0)
      continue;
    struct ring_completion completion;
    if (!ring_completions_claim(own, &completion)) {
      other = other + 1 == harts ? 0 : other + 1;
      if (!ring_completions_claim(&completions[other], &completion))
        continue;
    }
    uint64_t buffer = sender->spare[--sender->spares], bytes;
    struct frame *frame =
        shared_ring_take(&rings[completion.queue], completion.number, &buffer, &bytes);
    if (completion.status & DMA_NIC_ERROR) {
      sender->spare[sender->spares++] = buffer;
      continue;
    }
    bytes = ring_answer(frame, completion.bytes);
    dma_nic_send(&sender->ring, frame, bytes);
  }
}

int main(void) {
  uint64_t queue_count = reg_read64(DMA_NIC_QUEUES);
  ring_check_queues(queue_count);
  rings = aligned_alloc(64, queue_count * sizeof *rings);
  completions = aligned_alloc(64, harts * sizeof *completions);
  ring_senders = aligned_alloc(64, harts * sizeof *ring_senders);
  for (uint64_t hart = 0; hart < harts; hart++) {
    uint64_t of_hart = (queue_count - hart + harts - 1) / harts;
    ring_completions_open(&completions[hart], hart, of_hart * DMA_NIC_ENTRIES);
  }
  for (uint64_t queue = 0; queue < queue_count; queue++) {
    struct dma_nic_queue ring;
    reg_write64(DMA_NIC_PAGE(queue) + DMA_NIC_COMPLETIONS, queue % harts);
    dma_nic_open(&ring, (int)queue);
    shared_ring_begin(&rings[queue], &ring);
    ring_give_queue(queue, &ring);
  }
  harts_release();
  return hart_main(0);
}
