/**
 * Completion queues of the interface with descriptor rings (dma_nic.h), from which several harts
 * take frames of many rings without a lock.
 *
 * A ring whose queue reports to a completion queue has its received frames announced there, with
 * the queue and the frame's number in its ring, in place of its descriptor. So a hart that serves
 * many rings polls one place. The hart that has claimed a completion takes the frame off its ring
 * as described in ring_shared.h. It reads the completion before it claims it: unclaimed completions
 * keep their buffers, of which there are no more than entries, so the interface does not overwrite
 * them.
 */
#ifndef RING_COMPLETIONS_H
#define RING_COMPLETIONS_H

#include <dma_nic.h>
#include <ring_shared.h>

/** A completion. */
struct ring_completion {
  uint16_t bytes;  /**< Of the frame. */
  uint16_t status; /**< Bit 0: 1 in the first pass over the completion queue, 0 in the second ... */
  uint32_t hash;   /**< The receive-side-scaling hash. */
  uint32_t queue;
  uint32_t number; /**< Of the frame in its ring. */
};

/** A shared completion queue. */
struct ring_completions {
  struct ring_completion *entries;
  uint32_t count;                              /**< Of entries, a power of two. */
  uint32_t taken __attribute__((aligned(64))); /**< Numbers claimed by harts. */
} __attribute__((aligned(64)));

/** Opens completion queue `number`, whose queues have so many buffers together. */
static inline void ring_completions_open(struct ring_completions *queue, uint64_t number,
                                         uint64_t buffers) {
  uint32_t count = 4;
  while (count < buffers)
    count *= 2;
  *queue = (struct ring_completions){.count = count};
  queue->entries = aligned_alloc(64, count * sizeof *queue->entries);
  if (queue->entries == NULL)
    fail("There is no memory for the completion queues of the network interface.");
  memset(queue->entries, 0, count * sizeof *queue->entries);
  reg_write64(DMA_NIC_PAGE(number) + DMA_NIC_COMPLETION_RING, (uint64_t)queue->entries);
  reg_write64(DMA_NIC_PAGE(number) + DMA_NIC_COMPLETION_ENTRIES, count);
}

/** Claims the next completion. Returns whether there is one. */
static inline int ring_completions_claim(struct ring_completions *queue,
                                         struct ring_completion *claimed) {
  uint32_t number = __atomic_load_n(&queue->taken, __ATOMIC_RELAXED);
  struct ring_completion *entry = &queue->entries[number & (queue->count - 1)];
  uint16_t status = __atomic_load_n(&entry->status, __ATOMIC_ACQUIRE);
  if (((status & DMA_NIC_DONE) == 0) != ((number & queue->count) != 0))
    return 0;
  claimed->bytes = entry->bytes;
  claimed->status = status;
  claimed->queue = entry->queue;
  claimed->number = entry->number;
  return __atomic_compare_exchange_n(&queue->taken, &number, number + 1, 0, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
}

#endif
