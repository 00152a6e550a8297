/**
 * software-ready-set: HyperPlane's monitoring set in hardware, its ready set in software
 * (HyperPlane, MICRO 2020, Sections III-B and V-E).
 *
 * The hardware returns QIDs in the order in which they were activated. Software appends them to an
 * unsorted list and, for each item, "iterates over the list of ready QIDs in a piece of code and
 * returns one of them based on the policy": round-robin takes the next one after the last in
 * circular order. If the list is empty, it waits in QWAIT.
 *
 * A QID is in one place at a time: armed, in the hardware's ready set, in the list, or with a hart.
 * A queue that QWAIT_RECONSIDER finds non-empty returns to the hardware, and from there to the next
 * hart that calls QWAIT. Harts that share queues share the list under a lock, and a hart that finds
 * it empty waits in QWAIT with the lock held: while it waits no other hart can move QIDs into the
 * list, and the next hart in line follows as soon as it has its QID.
 */
#ifndef NOTIFY_READY_SET_H
#define NOTIFY_READY_SET_H

#include <notify/hyperplane.h>

/* A cluster's ready set. */
struct ready_list {
  uint64_t lock __attribute__((aligned(LINE_BYTES)));
  uint64_t count __attribute__((aligned(LINE_BYTES)));
  uint32_t last; /* The queue that was served last. */
  uint32_t *qids;
};

static struct ready_list *ready_lists;

/* Removes the next QID by the policy from a non-empty list. */
static inline uint64_t ready_select(struct ready_list *list) {
  uint32_t *qids = list->qids;
  uint64_t count = list->count, best = 0;
  /* Relative to the one after the last, modulo 2^32, queues are in circular order. */
  uint32_t start = data_plane_state.is_strict ? 0 : list->last + 1;
  uint32_t least = qids[0] - start;
  for (uint64_t place = 1; place < count; place++) {
    uint32_t distance = qids[place] - start;
    if (distance < least) {
      least = distance;
      best = place;
    }
  }
  uint64_t qid = qids[best];
  qids[best] = qids[count - 1];
  list->count = count - 1;
  return qid;
}

static inline struct data_plane_work ready_next(struct data_plane_hart *hart) {
  struct ready_list *list = &ready_lists[hart->cluster];
  for (;;) {
    uint64_t qid;
    if (data_plane_is_shared())
      data_plane_lock(&list->lock);
    while ((qid = qwait_nonblocking_in(hart->cluster)) != QWAIT_NONE)
      list->qids[list->count++] = (uint32_t)qid;
    qid = list->count ? ready_select(list) : qwait_in(hart->cluster);
    list->last = (uint32_t)qid;
    if (data_plane_is_shared())
      data_plane_unlock(&list->lock);
    if (qwait_verify(&data_plane_state.queues[qid].doorbell->count))
      return data_plane_take(qid);
  }
}

static inline void ready_set_up(volatile struct io_registers *device, struct io_descriptor *table) {
  uint64_t clusters = data_plane_state.clusters;
  ready_lists = aligned_alloc(LINE_BYTES, clusters * sizeof *ready_lists);
  for (uint64_t cluster = 0; cluster < clusters; cluster++) {
    uint64_t queues = data_plane_begin(cluster + 1) - data_plane_begin(cluster);
    ready_lists[cluster].qids = aligned_alloc(LINE_BYTES, queues * sizeof *ready_lists->qids);
    ready_lists[cluster].last = (uint32_t)data_plane_begin(cluster) - 1;
  }
  hyperplane_add_queues(device, table, QWAIT_ACTIVATION_ORDER);
}

static const struct notify_mechanism notify_ready_set = {ready_set_up, ready_next, hyperplane_done};

#endif
