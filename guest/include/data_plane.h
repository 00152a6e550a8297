/**
 * A data plane: takes items off the device's queues, has them processed, gives them to the tenants.
 *
 * A program supplies process() and calls data_plane() in main():
 *
 *     #include <data_plane.h>
 *
 *     static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out) {
 *       ... write out->packet and out->length ...
 *     }
 *
 *     int main(void) { return data_plane(); }
 *
 * How it waits for work, spinning or QWAIT, and on how many harts it runs is in the device's
 * registers. Either way a visit to a queue takes one item, and queues have their turn round-robin
 * (with QWAIT: by the policy of the registers).
 *
 * On several harts, spinning divides the queues among them (scale-out); with QWAIT they share all
 * queues (scale-up), and a queue is reconsidered only after its item has been processed, which
 * keeps its items in order (HyperPlane, MICRO 2020, Section III-B).
 */
#ifndef DATA_PLANE_H
#define DATA_PLANE_H

#include <io.h>
#include <qwait.h>
#include <runtime.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/**
 * The program's work on one item of a queue: reads `in`, writes out->packet, out->length and, on
 * an error, out->flags (0 before the call). Items of one queue come one after the other, of
 * different queues on different harts at once.
 */
static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out);

/* What the data plane keeps of a queue; a line of its own, since it moves between harts. */
struct data_plane_queue {
  struct io_doorbell *doorbell;
  uint8_t *ring;
  uint64_t offset; /* Of the next slot in the device ring. */
  struct io_doorbell *tenant_doorbell;
  uint8_t *tenant_ring;
  uint64_t tenant_offset; /* Of the next slot in the tenant ring. */
  uint64_t tenant_room;   /* At least this many items fit into the tenant ring. */
} __attribute__((aligned(LINE_BYTES)));

static struct {
  struct data_plane_queue *queues;
  struct io_doorbell *doorbells; /* Spinning: queue k has doorbell k. */
  uint64_t queue_count;
  uint64_t capacity;
  uint64_t slot_bytes;
  uint64_t ring_bytes;
  uint64_t cores;
  uint64_t notify;
} data_plane_state __attribute__((aligned(LINE_BYTES)));

/* The item that is next in a queue: process it, give it to the tenant. */
static inline void data_plane_pass(uint64_t number, const struct io_slot *in) {
  struct data_plane_queue *queue = &data_plane_state.queues[number];
  if (queue->tenant_room == 0)
    queue->tenant_room = io_room(queue->tenant_doorbell, data_plane_state.capacity);
  queue->tenant_room--;

  struct io_slot *out = (struct io_slot *)(queue->tenant_ring + queue->tenant_offset);
  out->flags = 0;
  out->item = in->item;
  process(number, in, out);
  io_ring(queue->tenant_doorbell);

  queue->tenant_offset += data_plane_state.slot_bytes;
  if (queue->tenant_offset == data_plane_state.ring_bytes)
    queue->tenant_offset = 0;
}

/* Dequeues: counts the item down, and returns its slot. */
static inline const struct io_slot *data_plane_take(uint64_t number) {
  struct data_plane_queue *queue = &data_plane_state.queues[number];
  io_take(queue->doorbell);
  const struct io_slot *slot = (const struct io_slot *)(queue->ring + queue->offset);
  queue->offset += data_plane_state.slot_bytes;
  if (queue->offset == data_plane_state.ring_bytes)
    queue->offset = 0;
  return slot;
}

/*
 * The next doorbell with an item, from `next` on and around. As tight as a loop can be: a load and
 * a branch for each doorbell, and nothing that would keep an out-of-order core from having the
 * loads of many doorbells under way at once.
 */
static inline struct io_doorbell *
data_plane_poll(struct io_doorbell *next, struct io_doorbell *begin, struct io_doorbell *end) {
  for (;;) {
    for (; end - next >= 8; next += 8) {
      if (io_count(next))
        return next;
      if (io_count(next + 1))
        return next + 1;
      if (io_count(next + 2))
        return next + 2;
      if (io_count(next + 3))
        return next + 3;
      if (io_count(next + 4))
        return next + 4;
      if (io_count(next + 5))
        return next + 5;
      if (io_count(next + 6))
        return next + 6;
      if (io_count(next + 7))
        return next + 7;
    }
    for (; next < end; next++) {
      if (io_count(next))
        return next;
    }
    next = begin;
  }
}

/* Spinning: this hart's part of the queues, one after the other. */
static inline _Noreturn void data_plane_spin(uint64_t hart) {
  uint64_t queues = data_plane_state.queue_count, cores = data_plane_state.cores;
  struct io_doorbell *doorbells = data_plane_state.doorbells;
  struct io_doorbell *begin = doorbells + queues * hart / cores;
  struct io_doorbell *end = doorbells + queues * (hart + 1) / cores;
  struct io_doorbell *next = begin;
  for (;;) {
    next = data_plane_poll(next, begin, end);
    uint64_t number = (uint64_t)(next - doorbells);
    data_plane_pass(number, data_plane_take(number));
    next++;
  }
}

/* Algorithm 1, lines 10 to 20. */
static inline _Noreturn void data_plane_qwait(void) {
  for (;;) {
    uint64_t qid = qwait();
    struct io_doorbell *doorbell = data_plane_state.queues[qid].doorbell;
    if (!qwait_verify(&doorbell->count))
      continue;
    const struct io_slot *item = data_plane_take(qid);
    qwait_reconsider(qid, &doorbell->count);
    data_plane_pass(qid, item);
  }
}

/* The same with lines 18 and 19 swapped, for several harts. */
static inline _Noreturn void data_plane_qwait_in_order(void) {
  for (;;) {
    uint64_t qid = qwait();
    struct io_doorbell *doorbell = data_plane_state.queues[qid].doorbell;
    if (!qwait_verify(&doorbell->count))
      continue;
    data_plane_pass(qid, data_plane_take(qid));
    qwait_reconsider(qid, &doorbell->count);
  }
}

int hart_main(int hart) {
  if ((uint64_t)hart >= data_plane_state.cores)
    return 0;
  if (data_plane_state.notify == IO_NOTIFY_SPIN)
    data_plane_spin((uint64_t)hart);
  if (data_plane_state.cores > 1)
    data_plane_qwait_in_order();
  data_plane_qwait();
}

/* A ring, each line of it written once: a driver clears its buffers, and caches are then from the
   beginning as they are later. */
static uint8_t *data_plane_ring(uint64_t bytes) {
  uint8_t *ring = aligned_alloc(LINE_BYTES, bytes);
  for (uint64_t offset = 0; offset < bytes; offset += LINE_BYTES)
    *(volatile uint64_t *)(ring + offset) = 0;
  return ring;
}

/* Gives every queue a doorbell that the monitoring set can hold. Returns how many did not fit. */
static inline uint64_t data_plane_add_queues(uint64_t doorbell_bytes, enum qwait_policy policy) {
  uint64_t doorbell_count = doorbell_bytes / sizeof(struct io_doorbell), used = 0;
  int64_t initialized = qwait_init((uint64_t)data_plane_state.doorbells, doorbell_bytes, policy);
  if (initialized != QWAIT_OK)
    fail("QWAIT.INIT for doorbells at %p with policy %u answers %ld.",
         (void *)data_plane_state.doorbells, (unsigned)policy, initialized);
  for (uint64_t qid = 0; qid < data_plane_state.queue_count; qid++) {
    int64_t result = QWAIT_CONFLICT;
    while (result == QWAIT_CONFLICT && used < doorbell_count) {
      data_plane_state.queues[qid].doorbell = &data_plane_state.doorbells[used++];
      result = qwait_add(qid, &data_plane_state.queues[qid].doorbell->count);
    }
    if (result == QWAIT_CONFLICT)
      fail("HyperPlane's monitoring set has no room for queue %lu: all %lu doorbell addresses have "
           "been tried. Use fewer queues or a larger monitoring set.",
           qid, doorbell_count);
    if (result == QWAIT_QID_OUT_OF_RANGE)
      fail("HyperPlane's ready set has no entry for queue %lu. Use fewer queues or a larger ready "
           "set.",
           qid);
    if (result != QWAIT_OK)
      fail("QWAIT.ADD of queue %lu at doorbell %p answers %ld.", qid,
           (void *)data_plane_state.queues[qid].doorbell, result);
    if (policy == QWAIT_WEIGHTED_ROUND_ROBIN)
      qwait_set_weight(qid, io_device()->weights[qid]);
  }
  return used - data_plane_state.queue_count;
}

/** Makes the queues, tells the device about them, and runs the data plane; does not return. */
static inline int data_plane(void) {
  volatile struct io_registers *device = io_device();
  uint64_t queues = device->queues, doorbell_bytes = device->doorbell_bytes;
  uint64_t policy = device->policy;
  struct io_doorbell *tenant_doorbells = (struct io_doorbell *)device->tenant_doorbell_start;

  data_plane_state.queue_count = queues;
  data_plane_state.capacity = device->capacity;
  data_plane_state.slot_bytes = device->slot_bytes;
  data_plane_state.ring_bytes = device->capacity * device->slot_bytes;
  data_plane_state.cores = device->data_plane_cores;
  data_plane_state.notify = device->notify;
  data_plane_state.doorbells = (struct io_doorbell *)device->doorbell_start;
  data_plane_state.queues = aligned_alloc(LINE_BYTES, queues * sizeof(struct data_plane_queue));

  if (data_plane_state.cores > harts)
    fail("The data plane is to run on %lu harts, and the server has %lu.", data_plane_state.cores,
         harts);
  if (queues * sizeof(struct io_doorbell) > doorbell_bytes ||
      queues * sizeof(struct io_doorbell) > device->tenant_doorbell_bytes)
    fail("The doorbell ranges are too small for %lu queues.", queues);

  /* A line more than a ring needs keeps the rings from all beginning in the same cache sets. */
  uint64_t ring_bytes = data_plane_state.ring_bytes + LINE_BYTES;
  for (uint64_t number = 0; number < queues; number++) {
    data_plane_state.queues[number] = (struct data_plane_queue){
        .doorbell = &data_plane_state.doorbells[number],
        .ring = data_plane_ring(ring_bytes),
        .tenant_doorbell = &tenant_doorbells[number],
        .tenant_ring = data_plane_ring(ring_bytes),
        .tenant_room = data_plane_state.capacity,
    };
  }
  if (data_plane_state.notify == IO_NOTIFY_HYPERPLANE)
    device->conflicts = data_plane_add_queues(doorbell_bytes, (enum qwait_policy)policy);

  struct io_descriptor *table = aligned_alloc(LINE_BYTES, queues * sizeof(struct io_descriptor));
  for (uint64_t number = 0; number < queues; number++) {
    const struct data_plane_queue *queue = &data_plane_state.queues[number];
    table[number] = (struct io_descriptor){
        .doorbell = (uint64_t)queue->doorbell,
        .ring = (uint64_t)queue->ring,
        .tenant_doorbell = (uint64_t)queue->tenant_doorbell,
        .tenant_ring = (uint64_t)queue->tenant_ring,
    };
  }
  harts_release();

  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* The table before the device reads it. */
  device->table = (uint64_t)table;
  device->start = 1;
  return hart_main(0);
}

#endif
