/**
 * hyperplane: QWAIT returns the next queue (HyperPlane, MICRO 2020, Algorithm 1).
 *
 * Each cluster has a partition of the ready set (Section V-C). A hart owns a queue that QWAIT has
 * returned until it reconsiders the queue.
 */
#ifndef NOTIFY_HYPERPLANE_H
#define NOTIFY_HYPERPLANE_H

#include <notify/queues.h>
#include <qwait.h>

/* Lines 10 to 17. */
static inline struct data_plane_work hyperplane_next(struct data_plane_hart *hart) {
  for (;;) {
    uint64_t qid = qwait_in(hart->cluster);
    if (qwait_verify(&data_plane_state.queues[qid].doorbell->count))
      return data_plane_take(qid);
  }
}

/* Line 18. */
static inline void hyperplane_done(const struct data_plane_hart *hart,
                                   const struct data_plane_work *work) {
  (void)hart;
  qwait_reconsider(work->queue, &data_plane_state.queues[work->queue].doorbell->count);
}

/* Lines 1 to 8: gives every queue a doorbell that the monitoring set can hold. */
static inline void hyperplane_add_queues(volatile struct io_registers *device,
                                         struct io_descriptor *table, enum qwait_policy policy) {
  struct io_doorbell *doorbells = (struct io_doorbell *)device->doorbell_start;
  uint64_t doorbell_bytes = device->doorbell_bytes, used = 0, given_up = 0;
  uint64_t doorbell_count = doorbell_bytes / sizeof(struct io_doorbell);
  /* Queues of the second socket have their doorbells in its memory, which is the second half. */
  uint64_t end = device->second_socket ? doorbell_count / 2 : doorbell_count;
  int64_t initialized = qwait_init((uint64_t)doorbells, doorbell_bytes, policy);
  if (initialized != QWAIT_OK)
    fail("QWAIT.INIT for doorbells at %p with policy %u answers %ld.", (void *)doorbells,
         (unsigned)policy, initialized);
  for (uint64_t qid = 0, cluster = 0; qid < data_plane_state.queue_count; qid++) {
    struct data_plane_queue *queue = &data_plane_state.queues[qid];
    int64_t result = QWAIT_CONFLICT;
    if (qid == data_plane_state.second_queue) {
      used = end;
      end = doorbell_count;
    }
    while (result == QWAIT_CONFLICT && used < end) {
      queue->doorbell = &doorbells[used++];
      result = qwait_add(qid, &queue->doorbell->count);
      given_up += result == QWAIT_CONFLICT;
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
      fail("QWAIT.ADD of queue %lu at doorbell %p answers %ld.", qid, (void *)queue->doorbell,
           result);
    while (qid >= data_plane_begin(cluster + 1))
      cluster++;
    if (cluster)
      qwait_set_partition(qid, cluster);
    if (policy == QWAIT_WEIGHTED_ROUND_ROBIN)
      qwait_set_weight(qid, device->weights[qid]);
    table[qid].doorbell = (uint64_t)queue->doorbell;
  }
  device->conflicts = given_up;
}

static inline void hyperplane_set_up(volatile struct io_registers *device,
                                     struct io_descriptor *table) {
  hyperplane_add_queues(device, table, (enum qwait_policy)device->policy);
}

static const struct notify_mechanism notify_hyperplane = {hyperplane_set_up, hyperplane_next,
                                                          hyperplane_done};

#endif
