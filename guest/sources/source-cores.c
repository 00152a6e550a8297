/**
 * The traffic sources on cores of the server (`traffic.sources = "cores"`) besides those of the
 * data plane. They are compiled into the data plane's program.
 *
 * Each queue is written by one core, as the only producer of a lock-free ring: the core copies an
 * item into the next slot and adds 1 to the queue's doorbell, by its own stores and an atomic. It
 * keeps an upper bound on the number of items in the queue, and reads the consumer's state only
 * when the queue may be full; if it is full, the item is dropped.
 *
 * The arrivals come from the I/O device (crates/queues/src/io_source/cores.rs): it writes the items
 * of a core into an arrival ring in the core's memory. A read of `source_arrived` returns the
 * number of new items, once there are any, and the core may use these entries until its next read.
 */
#include <io.h>
#include <runtime.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/** Entries of an arrival ring. */
enum { SOURCE_ENTRIES = 16 };
/** The maxima: cores, queues (crates/server/src/description.rs), and bytes of an entry, whose
 * packet may have 9000. */
enum { SOURCE_CORES = 32, SOURCE_QUEUES = 8192, SOURCE_ENTRY_BYTES = 143 * LINE_BYTES };

/** An entry of an arrival ring. */
struct source_arrival {
  uint64_t queue;  /**< The queue of the item. */
  uint64_t bytes;  /**< Number of used bytes of the slot. */
  uint64_t filled; /**< Number of items that the device has put into the queue: a run can start
                        with full rings. */
  uint64_t unused[5];
  struct io_slot slot;
};

/** A core's state of a queue that it writes. */
struct source_queue {
  struct io_doorbell *doorbell;
  uint8_t *ring;
  const uint64_t *taken; /**< Number of items that the consumer has taken, for a doorbell that is
                              never counted down. */
  uint64_t *wake;
  uint64_t wake_addend;
  uint64_t slot;  /**< Number of items put into it. */
  uint64_t count; /**< Upper bound on the number of items in it. */
  uint64_t filled;
} __attribute__((aligned(LINE_BYTES)));

static struct source_queue source_queues[SOURCE_QUEUES];
static uint8_t source_rings[SOURCE_CORES][SOURCE_ENTRIES * SOURCE_ENTRY_BYTES]
    __attribute__((aligned(LINE_BYTES)));

/** Copies these bytes, and up to 31 more: slots are whole lines. */
static inline void source_copy(uint64_t *to, const uint64_t *from, uint64_t bytes) {
  for (uint64_t word = 0; word < (bytes + 7) / 8; word += 4) {
    uint64_t a = from[word], b = from[word + 1], c = from[word + 2], d = from[word + 3];
    to[word] = a;
    to[word + 1] = b;
    to[word + 2] = c;
    to[word + 3] = d;
  }
}

/** Whether a queue has space. One slot stays free: it may still be being read (see io_take). */
static inline int source_has_room(struct source_queue *queue, uint64_t capacity) {
  if (queue->count + 1 < capacity)
    return 1;
  if (queue->taken)
    queue->count = (uint32_t)(queue->slot - __atomic_load_n(queue->taken, __ATOMIC_ACQUIRE));
  else
    queue->count = __atomic_load_n(&queue->doorbell->items, __ATOMIC_ACQUIRE);
  return queue->count + 1 < capacity;
}

/** Puts an item that has arrived into its queue; returns whether there was space. */
static inline int source_put(const struct source_arrival *arrival, uint64_t capacity,
                             uint64_t ring_slots, uint64_t slot_bytes) {
  struct source_queue *queue = &source_queues[arrival->queue];
  queue->count += arrival->filled - queue->filled;
  queue->slot += arrival->filled - queue->filled;
  queue->filled = arrival->filled;
  if (!source_has_room(queue, capacity))
    return 0;
  uint8_t *slot = queue->ring + (queue->slot & (ring_slots - 1)) * slot_bytes;
  source_copy((uint64_t *)slot, (const uint64_t *)&arrival->slot, arrival->bytes);
  queue->slot++;
  uint32_t before = (uint32_t)__atomic_fetch_add(&queue->doorbell->count, 1, __ATOMIC_RELEASE);
  queue->count = queue->taken ? queue->count + 1 : before + 1;
  if (before == 0 && queue->wake)
    __atomic_fetch_add(queue->wake, queue->wake_addend, __ATOMIC_RELEASE);
  return 1;
}

/** Copies the fields of the table that a core needs of the queues. */
static void source_learn(const struct io_descriptor *table, uint64_t queues) {
  for (uint64_t number = 0; number < queues; number++) {
    const struct io_descriptor *descriptor = &table[number];
    source_queues[number] = (struct source_queue){
        .doorbell = (struct io_doorbell *)descriptor->doorbell,
        .ring = (uint8_t *)descriptor->ring,
        .taken = (const uint64_t *)descriptor->taken,
        .wake = (uint64_t *)descriptor->wake,
        .wake_addend = descriptor->wake_addend,
    };
  }
}

/** Set when the first of the harts that run sources has read the table. */
static uint64_t source_learned;

/** Runs the sources on the `number`-th hart that runs sources. */
static void source_run(uint64_t number) {
  volatile struct io_registers *device = io_device();
  uint64_t capacity = device->capacity, ring_slots = device->ring_slots;
  uint64_t slot_bytes = device->slot_bytes, entry = 0;
  uint64_t entry_bytes = sizeof(struct source_arrival) - sizeof(struct io_slot) + slot_bytes;
  if (number == 0) {
    while (!device->start)
      ;
    source_learn((const struct io_descriptor *)device->table, device->queues);
    __atomic_store_n(&source_learned, 1, __ATOMIC_RELEASE);
  }
  wait_while(&source_learned, 0);
  device->source_rings[number] = (uint64_t)source_rings[number];
  for (;;) {
    /* Earlier reads of entries precede the read of the device, and that precedes later ones. */
    __asm__ volatile("fence rw, io" ::: "memory");
    uint64_t arrived = device->source_arrived[number];
    __asm__ volatile("fence io, rw" ::: "memory");
    for (; arrived; arrived--) {
      const struct source_arrival *arrival =
          (const struct source_arrival *)(source_rings[number] + entry * entry_bytes);
      if (!source_put(arrival, capacity, ring_slots, slot_bytes)) {
        device->source_dropped[number] = 1;
        __asm__ volatile("fence io, rw" ::: "memory");
      }
      entry = (entry + 1) % SOURCE_ENTRIES;
    }
  }
}

/** Runs the sources on a hart that the program leaves idle, if it is one of theirs. */
void source_cores(uint64_t hart);

void source_cores(uint64_t hart) {
  uint64_t first = io_device()->data_plane_cores;
  if (hart >= first && hart - first < io_device()->source_cores)
    source_run(hart - first);
}

#ifndef SOURCES_WITH_CO_RUNNER /* Otherwise co_runner.h defines it. */
int hart_beside(int hart) {
  source_cores((uint64_t)hart);
  return 0;
}
#endif
