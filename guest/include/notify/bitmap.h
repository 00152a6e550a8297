/**
 * software-bitmap: a bit for each non-empty queue, in plain memory; no new hardware.
 *
 * The device rings a doorbell and, if the queue was empty, sets the queue's bit. A hart takes the
 * first bit from its position on (Zbb's CTZ), clears it, and sets it again if it leaves items in
 * the queue. Each cluster has its own words: 512 queues are a line, so that an idle hart polls
 * words in its first-level cache, for up to thousands of queues.
 *
 * There is no second level above it: 1000 queues are 16 words, which are searched in some ten
 * cycles; and the device would have to write a summary word after the bit, one more miss between an
 * item and its hart.
 *
 * Nothing is lost, and no queue is served by two harts. Consider a token for each non-empty queue.
 * It is created when the doorbell is incremented from 0: the device then turns it into the bit. The
 * hart that clears the bit has it: clearing is atomic, so only one hart does. It disappears when
 * the hart decrements the doorbell to 0; if items are left, which the same atomic operation
 * returns, the hart turns it into the bit again. So there is exactly one token as long as there are
 * items, and none otherwise. A bit that is set is never set again: the device may add where others
 * OR. In order, harts decrement the doorbell when items have been processed: until then there is no
 * second token.
 */
#ifndef NOTIFY_BITMAP_H
#define NOTIFY_BITMAP_H

#include <notify/queues.h>

/* The words of each cluster. */
static uint64_t **bitmap_words;

/* The index of the lowest set bit of a non-zero word: CTZ of Zbb, which is not enabled in the
 * compiler. */
static inline uint64_t bitmap_first(uint64_t word) {
  uint64_t bit;
  __asm__(".insn i 0x13, 1, %0, %1, 0x601" : "=r"(bit) : "r"(word));
  return bit;
}

/* Takes a queue: clears its bit. Returns the queue's index in the cluster. */
static inline uint64_t bitmap_claim(uint64_t *words, uint64_t place, uint64_t places) {
  uint64_t count = (places + 63) / 64;
  uint64_t word = place / 64;
  uint64_t bits = __atomic_load_n(&words[word], __ATOMIC_RELAXED) & ~0ul << place % 64;
  for (;;) {
    while (!bits) {
      word = word + 1 == count ? 0 : word + 1;
      bits = __atomic_load_n(&words[word], __ATOMIC_RELAXED);
    }
    uint64_t mask = bits & -bits;
    if (__atomic_fetch_and(&words[word], ~mask, __ATOMIC_ACQUIRE) & mask)
      return word * 64 + bitmap_first(mask);
    bits ^= mask; /* Another hart was faster. */
  }
}

/* Decrements the doorbell, and returns the queue if items are left. */
static inline void bitmap_count_down(const struct data_plane_hart *hart,
                                     const struct data_plane_work *work) {
  uint64_t place = work->queue - hart->begin;
  struct io_doorbell *doorbell = data_plane_state.queues[work->queue].doorbell;
  if (__atomic_fetch_sub(&doorbell->count, work->count, __ATOMIC_ACQ_REL) != work->count)
    __atomic_fetch_or(&bitmap_words[hart->cluster][place / 64], 1ul << place % 64,
                      __ATOMIC_RELEASE);
}

static inline struct data_plane_work bitmap_next(struct data_plane_hart *hart) {
  uint64_t number = hart->begin + bitmap_claim(bitmap_words[hart->cluster],
                                               hart->next - hart->begin, hart->end - hart->begin);
  hart->next = data_plane_after(hart, number);
  struct data_plane_queue *queue = &data_plane_state.queues[number];
  struct data_plane_work work = {
      .queue = number, .first = queue->head, .count = data_plane_batch(queue->doorbell)};
  data_plane_await_readers(queue, work.first + work.count);
  queue->head = work.first + work.count;
  return work;
}

static inline void bitmap_set_up(volatile struct io_registers *device,
                                 struct io_descriptor *table) {
  (void)device;
  uint64_t clusters = data_plane_state.clusters;
  bitmap_words = aligned_alloc(LINE_BYTES, clusters * sizeof *bitmap_words);
  for (uint64_t cluster = 0; cluster < clusters; cluster++) {
    uint64_t begin = data_plane_begin(cluster), places = data_plane_begin(cluster + 1) - begin;
    uint64_t lines = (places / 8 + LINE_BYTES) / LINE_BYTES;
    uint64_t *words = aligned_alloc(LINE_BYTES, lines * LINE_BYTES);
    bitmap_words[cluster] = words;
    for (uint64_t place = 0; place < places; place++) {
      table[begin + place].wake = (uint64_t)&words[place / 64];
      table[begin + place].wake_addend = 1ul << place % 64;
    }
  }
}

static const struct notify_mechanism notify_bitmap = {bitmap_set_up, bitmap_next,
                                                      bitmap_count_down};

#endif
