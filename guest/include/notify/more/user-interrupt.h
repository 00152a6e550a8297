/**
 * user-interrupt: process work while there is some, and sleep until a user-level interrupt.
 *
 * As with software-bitmap, the device sets a queue's bit when an item enters the empty queue, and a
 * bit is the token of its queue (see bitmap.h). After the bit it sends an interrupt, whose vector
 * identifies the word of the bitmap. A hart that finds no bit, even within
 * `data_plane.parameters.poll_cycles` (0 by default), sleeps. The interrupt handler records the
 * vector, so that the hart searches that word first.
 *
 * Interrupts are only delivered while the hart sleeps: as long as it has work it need not be
 * notified, as with Linux's NAPI. Interrupts that arrive meanwhile are pending, and end the next
 * sleep immediately.
 *
 * No wake-up is lost. The device sets the bit before it sends the interrupt. A hart reads all bits,
 * and then waits with interrupts disabled: an interrupt that arrives after the search is pending
 * and ends WFI, and so does an earlier one; then the hart searches again. A bit that a hart sets
 * because it leaves items in a queue needs no interrupt: that hart searches again before it sleeps.
 *
 * If harts share queues, the device interrupts one of them for each queue. A hart that leaves work
 * to others therefore sends an interrupt to a sleeping one. `sleeping` has a bit for each hart that
 * is about to sleep, which it sets before its last search; the hart that clears the bit sends the
 * interrupt.
 */
#ifndef NOTIFY_USER_INTERRUPT_H
#define NOTIFY_USER_INTERRUPT_H

#include <notify/bitmap.h>
#include <user_interrupt.h>

/* The vector of harts' notifications: arbitrary. */
enum { USER_INTERRUPT_NOTIFICATION = 0xec, USER_INTERRUPT_VECTORS = 64 };

/* The state shared by a hart and its handler. */
struct user_interrupt_hart {
  uint64_t vector; /* The last one delivered. */
  uint64_t saved;  /* The program's register that the handler uses. */
  uint64_t number; /* The hart's number. */
  struct user_interrupt_descriptor descriptor;
};

/* The shared state of harts that share queues. */
struct user_interrupt_cluster {
  uint64_t sleeping;
} __attribute__((aligned(LINE_BYTES)));

static struct {
  struct user_interrupt_hart *harts;
  struct user_interrupt_cluster *clusters;
  struct user_interrupt_target *targets;
  uint64_t target_count;
  uint64_t poll_cycles;
} user_interrupts;

/* Records the vector. CSR_UI_SCRATCH has the address of the struct user_interrupt_hart. */
static __attribute__((naked, aligned(64))) void user_interrupt_handler(void) {
  __asm__ volatile("csrrw t0, %0, t0\n\t"
                   "sd t1, 8(t0)\n\t"
                   "csrr t1, %1\n\t"
                   "sd t1, 0(t0)\n\t"
                   "ld t1, 8(t0)\n\t"
                   "csrrw t0, %0, t0\n\t" USER_INTERRUPT_RETURN
                   :
                   : "i"(CSR_UI_SCRATCH), "i"(CSR_UI_VECTOR));
}

/* Takes the first queue from `place` on whose bit is set: its index in the cluster, or `places` if
 * there is none. */
static inline uint64_t user_interrupt_claim(uint64_t *words, uint64_t place, uint64_t places) {
  uint64_t count = (places + 63) / 64;
  uint64_t word = place / 64;
  uint64_t bits = __atomic_load_n(&words[word], __ATOMIC_RELAXED) & ~0ul << place % 64;
  /* The first word is searched twice: from the index on, and whole. */
  for (uint64_t looked_at = 0;;) {
    while (!bits) {
      if (looked_at++ == count)
        return places;
      word = word + 1 == count ? 0 : word + 1;
      bits = __atomic_load_n(&words[word], __ATOMIC_RELAXED);
    }
    uint64_t mask = bits & -bits;
    if (__atomic_fetch_and(&words[word], ~mask, __ATOMIC_ACQUIRE) & mask)
      return word * 64 + bitmap_first(mask);
    bits ^= mask; /* Another hart was faster. */
  }
}

static inline uint64_t user_interrupt_cycle(void) {
  uint64_t cycle;
  __asm__ volatile("rdcycle %0" : "=r"(cycle));
  return cycle;
}

/* Sets a hart's descriptor up when it first has no work. */
static __attribute__((noinline)) struct user_interrupt_hart *user_interrupt_begin(void) {
  uint64_t number;
  __asm__ volatile("csrr %0, mhartid" : "=r"(number));
  struct user_interrupt_hart *own = &user_interrupts.harts[number];
  own->number = number;
  user_interrupt_write_csr(CSR_UI_SCRATCH, (uint64_t)own);
  user_interrupt_write_csr(CSR_UI_TARGETS, (uint64_t)user_interrupts.targets);
  user_interrupt_write_csr(CSR_UI_TARGET_COUNT, user_interrupts.target_count);
  user_interrupt_receive(&own->descriptor, user_interrupt_handler);
  return own;
}

static inline struct user_interrupt_hart *user_interrupt_own(void) {
  struct user_interrupt_hart *own =
      (struct user_interrupt_hart *)user_interrupt_read_csr(CSR_UI_SCRATCH);
  return own ? own : user_interrupt_begin();
}

/* Wakes another hart of the cluster, if one sleeps. */
static __attribute__((noinline)) void
user_interrupt_wake_another(const struct data_plane_hart *hart) {
  uint64_t *sleeping = &user_interrupts.clusters[hart->cluster].sleeping;
  uint64_t bits = __atomic_load_n(sleeping, __ATOMIC_RELAXED);
  while (bits) {
    uint64_t one = bits & -bits;
    if (__atomic_fetch_and(sleeping, ~one, __ATOMIC_ACQ_REL) & one) {
      user_interrupt_own();
      uint64_t number = hart->cluster * data_plane_state.cluster_cores + bitmap_first(one);
      user_interrupt_send(number * USER_INTERRUPT_VECTORS);
      return;
    }
    bits ^= one;
  }
}

/* Waits for a queue with items: its index in the cluster. */
static __attribute__((noinline)) uint64_t user_interrupt_wait(struct data_plane_hart *hart,
                                                              uint64_t *words, uint64_t places) {
  struct user_interrupt_hart *own = user_interrupt_own();
  uint64_t place;
  if (user_interrupts.poll_cycles) {
    uint64_t end = user_interrupt_cycle() + user_interrupts.poll_cycles;
    do {
      place = user_interrupt_claim(words, hart->next - hart->begin, places);
      if (place != places)
        return place;
    } while (user_interrupt_cycle() < end);
  }
  uint64_t *sleeping = &user_interrupts.clusters[hart->cluster].sleeping;
  uint64_t member = 1ul << own->number % data_plane_state.cluster_cores;
  uint64_t first = hart->next - hart->begin;
  for (;;) {
    if (data_plane_is_shared())
      __atomic_fetch_or(sleeping, member, __ATOMIC_SEQ_CST);
    place = user_interrupt_claim(words, first, places);
    if (place == places) {
      own->vector = USER_INTERRUPT_VECTORS;
      __asm__ volatile("wfi" ::: "memory");
      user_interrupt_on();
      user_interrupt_off();
    }
    if (data_plane_is_shared())
      __atomic_fetch_and(sleeping, ~member, __ATOMIC_RELAXED);
    if (place != places)
      return place;
    uint64_t vector = *(volatile uint64_t *)&own->vector;
    first = data_plane_state.is_strict || vector * 64 >= places ? 0 : vector * 64;
  }
}

static inline struct data_plane_work user_interrupt_next(struct data_plane_hart *hart) {
  uint64_t *words = bitmap_words[hart->cluster];
  uint64_t places = hart->end - hart->begin;
  uint64_t place = user_interrupt_claim(words, hart->next - hart->begin, places);
  if (place == places)
    place = user_interrupt_wait(hart, words, places);
  if (data_plane_is_shared() && __atomic_load_n(&words[place / 64], __ATOMIC_RELAXED))
    user_interrupt_wake_another(hart);
  uint64_t number = hart->begin + place;
  hart->next = data_plane_after(hart, number);
  struct data_plane_queue *queue = &data_plane_state.queues[number];
  struct data_plane_work work = {
      .queue = number, .first = queue->head, .count = data_plane_batch(queue->doorbell)};
  data_plane_await_readers(queue, work.first + work.count);
  queue->head = work.first + work.count;
  return work;
}

static inline void user_interrupt_done(const struct data_plane_hart *hart,
                                       const struct data_plane_work *work) {
  bitmap_count_down(hart, work);
  if (data_plane_is_shared()) {
    /* The bit precedes the read of the sleepers. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (io_count(data_plane_state.queues[work->queue].doorbell))
      user_interrupt_wake_another(hart);
  }
}

/* Each hart has a descriptor, and the table has an entry for each of its vectors. Harts that share
 * queues each receive the interrupts of equally many. */
static inline void user_interrupt_set_up(volatile struct io_registers *device,
                                         struct io_descriptor *table) {
  bitmap_set_up(device, table);
  uint64_t cores = data_plane_state.cores, members = data_plane_state.cluster_cores;
  uint64_t targets = cores * USER_INTERRUPT_VECTORS, clusters = data_plane_state.clusters;
  user_interrupts.target_count = targets;
  user_interrupts.clusters = aligned_alloc(LINE_BYTES, clusters * sizeof *user_interrupts.clusters);
  user_interrupts.poll_cycles = (uint64_t)io_parameter("poll_cycles", 0);
  user_interrupts.harts = aligned_alloc(LINE_BYTES, cores * sizeof *user_interrupts.harts);
  user_interrupts.targets = aligned_alloc(LINE_BYTES, targets * sizeof *user_interrupts.targets);
  for (uint64_t hart = 0; hart < cores; hart++) {
    struct user_interrupt_descriptor *descriptor = &user_interrupts.harts[hart].descriptor;
    descriptor->control = user_interrupt_control(hart, USER_INTERRUPT_NOTIFICATION);
    descriptor->requests = 0;
    for (uint64_t vector = 0; vector < USER_INTERRUPT_VECTORS; vector++)
      user_interrupts.targets[hart * USER_INTERRUPT_VECTORS + vector] =
          (struct user_interrupt_target){.control = vector << 8 | 1, .descriptor = descriptor};
  }
  user_interrupt_write_csr(CSR_UI_TARGETS, (uint64_t)user_interrupts.targets);
  user_interrupt_write_csr(CSR_UI_TARGET_COUNT, targets);
  for (uint64_t cluster = 0; cluster < clusters; cluster++) {
    user_interrupts.clusters[cluster].sleeping = 0;
    uint64_t begin = data_plane_begin(cluster), end = data_plane_begin(cluster + 1);
    for (uint64_t number = begin; number < end; number++) {
      uint64_t place = number - begin, hart = cluster * members + place % members;
      uint64_t vector = place / 64 % USER_INTERRUPT_VECTORS;
      user_interrupt_route(number, hart * USER_INTERRUPT_VECTORS + vector);
    }
  }
}

static const struct notify_mechanism notify_user_interrupt = {
    user_interrupt_set_up, user_interrupt_next, user_interrupt_done};

#define NOTIFY_CODE IO_NOTIFY_USER_INTERRUPT
#define NOTIFY_MECHANISM notify_user_interrupt

#endif
