/**
 * A ring of pointers in a fixed array, for several producers and consumers, without locks.
 *
 * Each side has a head and a tail. A producer advances the head by compare-and-swap, which reserves
 * its slots, writes them, waits until earlier reservations are complete, and advances the tail.
 * (Like DPDK's ring, and FreeBSD's bufring before it.) Each side has its own line.
 */
#ifndef POLL_MODE_RING_H
#define POLL_MODE_RING_H

#include <poll_mode/lcore.h>
#include <stdlib.h>

enum ring_flags {
  RING_F_SP_ENQ = 1, /**< One hart enqueues. */
  RING_F_SC_DEQ = 2, /**< One hart dequeues. */
};

/** A side of a ring: the numbers of reserved and of completed slots, modulo 2^32. */
struct ring_headtail {
  uint32_t head;
  uint32_t tail;
  uint32_t is_single;
} __cache_aligned;

struct ring {
  uint32_t size;     /**< A power of two, ... */
  uint32_t mask;     /**< ... less 1, ... */
  uint32_t capacity; /**< ... and how many fit: as many as `mask`. */
  struct ring_headtail prod, cons;
  void *slots[] __cache_aligned;
};

/** Creates a ring of `count` slots, a power of two, one of which stays empty; NULL if that is
 * impossible. */
static inline struct ring *ring_create(uint32_t count, unsigned flags) {
  if (count < 2 || (count & (count - 1)) != 0)
    return NULL;
  struct ring *ring = aligned_alloc(CACHE_LINE_SIZE, sizeof *ring + count * sizeof(void *));
  ring->size = count;
  ring->mask = ring->capacity = count - 1;
  ring->prod.is_single = (flags & RING_F_SP_ENQ) != 0;
  ring->cons.is_single = (flags & RING_F_SC_DEQ) != 0;
  return ring;
}

/** The number of entries, including those being written. */
static inline unsigned ring_count(const struct ring *ring) {
  uint32_t prod = __atomic_load_n(&ring->prod.tail, __ATOMIC_RELAXED);
  uint32_t cons = __atomic_load_n(&ring->cons.tail, __ATOMIC_RELAXED);
  return min_of(prod - cons, ring->capacity);
}

/* Reserves up to `count` slots of a side, as far as the other side's tail and `extra` allow: all of
 * them or none, if `whole`. Returns their number. */
static inline unsigned ring_move_head(struct ring_headtail *side, const uint32_t *other,
                                      uint32_t extra, unsigned count, int whole, uint32_t *old) {
  uint32_t head = __atomic_load_n(&side->head, __ATOMIC_RELAXED);
  for (;;) {
    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* The other tail is read after this head. */
    uint32_t there = extra + __atomic_load_n(other, __ATOMIC_ACQUIRE) - head;
    unsigned taken = count;
    if (unlikely(taken > there))
      taken = whole ? 0 : there;
    *old = head;
    if (taken == 0)
      return 0;
    if (side->is_single) {
      side->head = head + taken;
      return taken;
    }
    if (likely(__atomic_compare_exchange_n(&side->head, &head, head + taken, 0, __ATOMIC_RELAXED,
                                           __ATOMIC_RELAXED)))
      return taken;
  }
}

/* Completes the slots from `old` on. */
static inline void ring_update_tail(struct ring_headtail *side, uint32_t old, unsigned count) {
  if (!side->is_single)
    while (__atomic_load_n(&side->tail, __ATOMIC_RELAXED) != old)
      pause();
  __atomic_store_n(&side->tail, old + count, __ATOMIC_RELEASE);
}

static inline unsigned ring_enqueue(struct ring *ring, void *const *objects, unsigned count,
                                    int whole) {
  uint32_t old;
  count = ring_move_head(&ring->prod, &ring->cons.tail, ring->capacity, count, whole, &old);
  for (unsigned place = 0; place < count; place++)
    ring->slots[(old + place) & ring->mask] = objects[place];
  if (count)
    ring_update_tail(&ring->prod, old, count);
  return count;
}

static inline unsigned ring_dequeue(struct ring *ring, void **objects, unsigned count, int whole) {
  uint32_t old;
  count = ring_move_head(&ring->cons, &ring->prod.tail, 0, count, whole, &old);
  for (unsigned place = 0; place < count; place++)
    objects[place] = ring->slots[(old + place) & ring->mask];
  if (count)
    ring_update_tail(&ring->cons, old, count);
  return count;
}

/** Enqueues as many of the objects as fit; returns their number. */
static inline unsigned ring_enqueue_burst(struct ring *ring, void *const *objects, unsigned count) {
  return ring_enqueue(ring, objects, count, 0);
}

/** Enqueues all objects or none; returns their number. */
static inline unsigned ring_enqueue_bulk(struct ring *ring, void *const *objects, unsigned count) {
  return ring_enqueue(ring, objects, count, 1);
}

/** Dequeues up to `count` objects; returns their number. */
static inline unsigned ring_dequeue_burst(struct ring *ring, void **objects, unsigned count) {
  return ring_dequeue(ring, objects, count, 0);
}

/** Dequeues `count` objects or none; returns their number. */
static inline unsigned ring_dequeue_bulk(struct ring *ring, void **objects, unsigned count) {
  return ring_dequeue(ring, objects, count, 1);
}

#endif
