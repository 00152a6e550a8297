/**
 * The key-value store behind a network interface with descriptor rings and a frame counter for
 * each: any hart takes frames of any ring, and polls the counters, eight per line.
 *
 * It is notify/bitmap.h adapted to this interface, which adds 1 after each frame instead of setting
 * bits. A hart counts down by compare-and-swap for each frame that it takes. See ring_shared.h;
 * services/compared_store.h has the parameters, and services/store.h the messages.
 */
#include <services/compared_rings.h>
/* Above: the number of ring entries. */
#include <ring_sender.h>
#include <ring_shared.h>

static struct shared_ring *rings;
static uint64_t *counters, queue_count;

void prepare(void) { compared_prepare_shared_rings(); }

/* Decrements a counter unless it is 0; returns whether it did. */
static inline int count_down(uint64_t *counter) {
  uint64_t count = __atomic_load_n(counter, __ATOMIC_RELAXED);
  while (count != 0)
    if (__atomic_compare_exchange_n(counter, &count, count - 1, 0, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED))
      return 1;
  return 0;
}

int hart_main(int hart) {
  struct ring_sender *sender = &ring_senders[hart];
  uint64_t queue = (uint64_t)hart;
  for (;;) {
    ring_take_back(sender);
    if (sender->spares == 0)
      continue;
    uint64_t left = queue_count;
    while (left != 0 && !count_down(&counters[queue])) {
      queue = queue + 1 == queue_count ? 0 : queue + 1;
      left--;
    }
    if (left == 0)
      continue;
    uint64_t buffer = sender->spare[--sender->spares], bytes;
    struct shared_ring *ring = &rings[queue];
    struct frame *frame = shared_ring_take(ring, shared_ring_number(ring), &buffer, &bytes);
    queue = queue + 1 == queue_count ? 0 : queue + 1;
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
  counters = aligned_alloc(64, queue_count * sizeof *counters);
  ring_senders = aligned_alloc(64, harts * sizeof *ring_senders);
  for (uint64_t queue = 0; queue < queue_count; queue++) {
    struct dma_nic_queue ring;
    dma_nic_open_with_doorbell(&ring, (int)queue, &counters[queue]);
    shared_ring_begin(&rings[queue], &ring);
    ring_give_queue(queue, &ring);
  }
  harts_release();
  return hart_main(0);
}
