/**
 * Queues for programs with their own loop: the steps of `data_plane.h` around its loop.
 *
 *     int main(void) {
 *       queues_make(0);
 *       queues_monitor();                      QWAIT.INIT, and QWAIT.ADD for each queue
 *       harts_release();
 *       queues_start();                        items arrive from now on
 *       for (;;) {
 *         uint64_t qid = qwait();
 *         struct queue *queue = &queues.all[qid];
 *         if (!qwait_verify(&queue->doorbell->count))
 *           continue;
 *         const struct io_slot *in = queue_take(queue);
 *         qwait_reconsider(qid, &queue->doorbell->count);
 *         ...
 *         queue_give(queue, in);
 *       }
 *     }
 */
#ifndef QUEUES_H
#define QUEUES_H

#include <io.h>
#include <qwait.h>
#include <runtime.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/** The program's state of a queue; whole lines, since it moves between harts. */
struct queue {
  struct io_doorbell *doorbell;
  uint8_t *ring;
  uint64_t offset; /**< Of the next slot in the device ring. */
  struct io_doorbell *tenant_doorbell;
  uint8_t *tenant_ring;
  uint64_t tenant_offset; /**< Of the next slot in the tenant ring. */
  uint64_t tenant_room;   /**< At least this many items fit into the tenant ring. */
} __attribute__((aligned(LINE_BYTES)));

/** All queues, and their properties from the device. */
static struct {
  struct queue *all;
  uint64_t count;
  uint64_t capacity;
  uint64_t slot_bytes;
  uint64_t ring_bytes;           /**< Of a device ring. */
  uint64_t tenant_ring_bytes;    /**< Of a tenant ring. */
  uint64_t cores;                /**< Harts 0 to this - 1 run the data plane. */
  struct io_doorbell *doorbells; /**< The device doorbells ... */
  uint64_t doorbell_count;       /**< ... and their number. */
  struct io_descriptor *table;   /**< The device's input. */
} queues __attribute__((aligned(LINE_BYTES)));

/* A ring that has been cleared. One line more than it needs keeps the rings from all beginning in
   the same cache sets. */
static inline uint8_t *queues_ring(uint64_t bytes) {
  bytes += LINE_BYTES;
  uint8_t *ring = aligned_alloc(LINE_BYTES, bytes);
  io_cleared(ring, bytes);
  return ring;
}

/** Makes the queues: rings, and for queue k doorbell k. `spare_harts` are wanted beside those of
 * the data plane. */
static inline void queues_make(uint64_t spare_harts) {
  volatile struct io_registers *device = io_device();
  queues.count = device->queues;
  queues.capacity = device->capacity;
  queues.slot_bytes = device->slot_bytes;
  queues.ring_bytes = device->ring_slots * queues.slot_bytes;
  queues.tenant_ring_bytes = queues.capacity * queues.slot_bytes;
  queues.cores = device->data_plane_cores;
  queues.doorbells = (struct io_doorbell *)device->doorbell_start;
  queues.doorbell_count = device->doorbell_bytes / sizeof(struct io_doorbell);
  if (queues.cores + spare_harts > harts)
    fail("This program needs %lu harts beside the %lu of the data plane, and the server has %lu: "
         "use fewer data_plane_cores.",
         spare_harts, queues.cores, harts);
  if (device->ring_slots != queues.capacity)
    fail("This program takes items one at a time: leave out data_plane.batch and "
         "data_plane.in_order.");
  if (device->notify != IO_NOTIFY_HYPERPLANE)
    fail("This program waits with QWAIT: use data_plane.notify = \"hyperplane\".");
  if (device->cluster_cores != queues.cores)
    fail("All cores share the queues of this program: use data_plane.organisation = \"scale-up\".");
  struct io_doorbell *tenant_doorbells = (struct io_doorbell *)device->tenant_doorbell_start;
  queues.all = aligned_alloc(LINE_BYTES, queues.count * sizeof(struct queue));
  for (uint64_t number = 0; number < queues.count; number++)
    queues.all[number] = (struct queue){
        .doorbell = &queues.doorbells[number],
        .ring = queues_ring(queues.ring_bytes),
        .tenant_doorbell = &tenant_doorbells[number],
        .tenant_ring = queues_ring(queues.tenant_ring_bytes),
        .tenant_room = queues.capacity,
    };
}

/** Tells HyperPlane about the queues (Algorithm 1, lines 1 to 8), and the device how many doorbells
 * did not fit. */
static inline void queues_monitor(void) {
  volatile struct io_registers *device = io_device();
  enum qwait_policy policy = (enum qwait_policy)device->policy;
  uint64_t bytes = queues.doorbell_count * sizeof(struct io_doorbell), used = 0;
  int64_t result = qwait_init((uint64_t)queues.doorbells, bytes, policy);
  if (result != QWAIT_OK)
    fail("QWAIT.INIT answers %ld.", result);
  for (uint64_t qid = 0; qid < queues.count; qid++) {
    do {
      if (used == queues.doorbell_count)
        fail("HyperPlane's monitoring set has no room for queue %lu: all %lu doorbell addresses "
             "have been tried.",
             qid, queues.doorbell_count);
      queues.all[qid].doorbell = &queues.doorbells[used++];
      result = qwait_add(qid, &queues.all[qid].doorbell->count);
    } while (result == QWAIT_CONFLICT);
    if (result != QWAIT_OK)
      fail("QWAIT.ADD of queue %lu answers %ld.", qid, result);
    if (policy == QWAIT_WEIGHTED_ROUND_ROBIN)
      qwait_set_weight(qid, device->weights[qid]);
  }
  device->conflicts = used - queues.count;
}

/** Tells the device where the queues are. Items arrive from now on. */
static inline void queues_start(void) {
  volatile struct io_registers *device = io_device();
  queues.table = aligned_alloc(LINE_BYTES, queues.count * sizeof(struct io_descriptor));
  for (uint64_t number = 0; number < queues.count; number++) {
    const struct queue *queue = &queues.all[number];
    queues.table[number] = (struct io_descriptor){
        .doorbell = (uint64_t)queue->doorbell,
        .ring = (uint64_t)queue->ring,
        .tenant_doorbell = (uint64_t)queue->tenant_doorbell,
        .tenant_ring = (uint64_t)queue->tenant_ring,
    };
  }
  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* The table precedes the device's reads. */
  device->table = (uint64_t)queues.table;
  device->start = 1;
}

/* The slot after the one at `offset`. */
static inline uint64_t queues_next(uint64_t offset, uint64_t ring_bytes) {
  offset += queues.slot_bytes;
  return offset == ring_bytes ? 0 : offset;
}

/** Dequeues an item that is there: decrements the count, and returns the item's slot. */
static inline const struct io_slot *queue_take(struct queue *queue) {
  io_take(queue->doorbell);
  const struct io_slot *slot = (const struct io_slot *)(queue->ring + queue->offset);
  queue->offset = queues_next(queue->offset, queues.ring_bytes);
  return slot;
}

/** Gives an item to its tenant unchanged; waits until there is room. */
static inline void queue_give(struct queue *queue, const struct io_slot *in) {
  if (queue->tenant_room == 0)
    queue->tenant_room = io_room(queue->tenant_doorbell, queues.capacity);
  queue->tenant_room--;
  struct io_slot *out = (struct io_slot *)(queue->tenant_ring + queue->tenant_offset);
  out->length = in->length;
  out->flags = in->flags; /* The flag at the end of a queue is passed on. */
  out->item = in->item;
  memcpy(out->packet, in->packet, in->length);
  io_ring(queue->tenant_doorbell);
  queue->tenant_offset = queues_next(queue->tenant_offset, queues.tenant_ring_bytes);
}

/** The clock, in microseconds: the CLINT's mtime as a counter of the hart. */
static inline uint64_t time_us(void) {
  uint64_t time;
  __asm__ volatile("csrr %0, time" : "=r"(time)::"memory");
  return time;
}

#endif
