/**
 * The key-value store behind a network interface with descriptor rings: each hart polls its own,
 * and steals frames from others while that is empty. If there are more rings than harts, all harts
 * serve those that are no hart's own.
 *
 * As in ZygOS (Prekas, Kogias and Bugnion, SOSP 2017), without its kernel: a frame is claimed by a
 * compare-and-swap, and the reply is sent through the ring of the hart that has claimed it. See
 * ring_shared.h; services/compared_store.h has the parameters, and services/store.h the messages.
 */
#include <services/compared_rings.h>
/* Above: the number of ring entries. */
#include <ring_sender.h>
#include <ring_shared.h>

static struct shared_ring *rings;
static uint64_t queue_count;

void prepare(void) { compared_prepare_shared_rings(); }

int hart_main(int hart) {
  struct shared_ring *own = &rings[hart];
  struct ring_sender *sender = &ring_senders[hart];
  uint64_t other = (uint64_t)hart;
  for (;;) {
    ring_take_back(sender);
    if (sender->spares == 0)
      continue;
    struct shared_ring *ring = own;
    uint32_t number;
    if (!shared_ring_claim(ring, &number)) {
      other = other + 1 == queue_count ? 0 : other + 1;
      ring = &rings[other];
      if (!shared_ring_claim(ring, &number))
        continue;
    }
    uint64_t buffer = sender->spare[--sender->spares], bytes;
    struct frame *frame = shared_ring_take(ring, number, &buffer, &bytes);
    if (frame == NULL) {
      sender->spare[sender->spares++] = buffer;
      continue;
    }
    bytes = ring_answer(frame, bytes);
    dma_nic_send(&sender->ring, frame, bytes);
  }
}

int main(void) {
  queue_count = reg_read64(DMA_NIC_QUEUES);
  ring_check_queues(queue_count);
  rings = aligned_alloc(64, queue_count * sizeof *rings);
  ring_senders = aligned_alloc(64, harts * sizeof *ring_senders);
  for (uint64_t queue = 0; queue < queue_count; queue++) {
    struct dma_nic_queue ring;
    dma_nic_open(&ring, (int)queue);
    shared_ring_begin(&rings[queue], &ring);
    ring_give_queue(queue, &ring);
  }
  harts_release();
  return hart_main(0);
}
