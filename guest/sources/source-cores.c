/**
 * The sources of the traffic on cores of the server (`traffic.sources = "cores"`), beside those of
 * the data plane. It is compiled into the data plane's program.
 *
 * Each queue is written by one core, as the only producer of a lock-free ring: the core copies an
 * item into the next slot and adds 1 to the queue's doorbell, by its own stores and an atomic. It
 * knows at most how many items are in the queue, and looks at what the consumer writes only when
 * the queue may be full; if it is, the item is dropped.
 *
 * What arrives is the I/O device's (crates/queues/src/io_source/cores.rs): it writes the items of a
 * core into a ring of arrivals in the core's memory. A core reads `source_arrived`, which is
 * answered when there are some, and may use the entries until it reads it again.
 */
#include <io.h>
#include <runtime.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/** Entries of a ring of arrivals. */
enum { SOURCE_ENTRIES = 16 };
/** The most that there is: cores, queues (crates/server/src/description.rs), and bytes of an entry,
 * whose packet may have 9000. */
enum { SOURCE_CORES = 32, SOURCE_QUEUES = 8192, SOURCE_ENTRY_BYTES = 143 * LINE_BYTES };

/** An entry of a ring of arrivals. */
struct source_arrival {
  uint64_t queue;  /**< Whose item it is. */
  uint64_t bytes;  /**< How many of the slot are used. */
  uint64_t filled; /**< How many items of the queue are the device's: a run can begin with full
                        rings. */
  uint64_t unused[5];
  struct io_slot slot;
};

/** What a core keeps of a queue that it writes. */
struct source_queue {
  struct io_doorbell *doorbell;
  uint8_t *ring;
  const uint64_t *taken; /**< What the consumer has taken, for a doorbell that is never counted
                              down. */
  uint64_t *wake;
  uint64_t wake_addend;
  uint64_t slot;  /**< How many items have been put into it. */
  uint64_t count; /**< It has at most this many items. */
  uint64_t filled;
} __attribute__((aligned(LINE_BYTES)));

static struct source_queue source_queues[SOURCE_QUEUES];
static uint8_t source_rings[SOURCE_CORES][SOURCE_ENTRIES * SOURCE_ENTRY_BYTES]
    __attribute__((aligned(LINE_BYTES)));

/** Copies so many bytes, and up to 7 more: slots are whole lines. */
static inline void source_copy(uint64_t *to, const uint64_t *from, uint64_t bytes) {
  for (uint64_t word = 0; word < (bytes + 7) / 8; word += 4) {
    uint64_t a = from[word], b = from[word + 1], c = from[word + 2], d = from[word + 3];
    to[word] = a;
    to[word + 1] = b;
    to[word + 2] = c;
    to[word + 3] = d;
  }
}

/** Whether a queue has room. One slot stays free: it may still be being read (see io_take). */
static inline int source_has_room(struct source_queue *queue, uint64_t capacity) {
  if (queue->count + 1 < capacity)
    return 1;
  if (queue->taken)
    queue->count = (uint32_t)(queue->slot - __atomic_load_n(queue->taken, __ATOMIC_ACQUIRE));
  else
    queue->count = __atomic_load_n(&queue->doorbell->items, __ATOMIC_ACQUIRE);
  return queue->count + 1 < capacity;
}

/** Puts an item that has arrived into its queue; whether there was room. */
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

/** Copies out of the table what a core has to know of the queues. */
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

/** The first of the harts that run sources has read the table. */
static uint64_t source_learned;

/** What a hart does: of those that run sources it is `number`. */
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
    /* What has been read of the entries before, and then the answer before what it is about. */
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

/** Runs sources on a hart that the program leaves alone, if it is to. */
void source_cores(uint64_t hart);

void source_cores(uint64_t hart) {
  uint64_t first = io_device()->data_plane_cores;
  if (hart >= first && hart - first < io_device()->source_cores)
    source_run(hart - first);
}

#ifndef SOURCES_WITH_CO_RUNNER /* Then it is co_runner.h that defines it. */
int hart_beside(int hart) {
  source_cores((uint64_t)hart);
  return 0;
}
#endif
