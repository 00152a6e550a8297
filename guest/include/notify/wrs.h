/**
 * wrs: poll every doorbell, and sleep with WRS.NTO (Zawrs) while all queues are empty.
 *
 * A reservation covers one line, and each doorbell has its own. Each cluster therefore has one more
 * line, its *event* line, whose counter the device increments after it has rung for an item that
 * entered an empty queue. A hart sleeps on that line. It then saves the polling: once awake, it
 * must find the queue as spin does.
 *
 * No wake-up is lost. A hart reads the counter, checks all its queues, and sleeps only if the
 * counter is unchanged, which LR and WRS check atomically. An item that enters an empty queue after
 * the hart has checked it changes the counter after the hart has read it. An item that enters a
 * non-empty queue needs no wake-up from the device: a hart that sees items takes them, unless
 * another hart has the queue, in order. That hart, when it returns the queue with items left,
 * changes the counter if a hart sleeps; so does a hart that takes some of the items and leaves
 * others. A hart increments `sleepers` before its last check. If it saw the queue taken, it did so
 * before the queue was returned, so the hart that returned it sees the sleeper.
 */
#ifndef NOTIFY_WRS_H
#define NOTIFY_WRS_H

#include <notify/spin.h>

/* The line on which the harts of a cluster sleep. */
struct wrs_cluster {
  uint64_t event __attribute__((aligned(LINE_BYTES)));
  uint64_t sleepers __attribute__((aligned(LINE_BYTES)));
};

static struct wrs_cluster *wrs_clusters;

/* Checks every queue once. */
static inline int wrs_round(struct data_plane_hart *hart, struct data_plane_work *work) {
  uint64_t start = hart->next;
  return spin_search(hart, start, hart->end, work) || spin_search(hart, hart->begin, start, work);
}

/* Wakes sleeping harts if items are left. */
static inline void wrs_wake_others(struct wrs_cluster *cluster) {
  if (__atomic_load_n(&cluster->sleepers, __ATOMIC_RELAXED))
    __atomic_fetch_add(&cluster->event, 1, __ATOMIC_RELEASE);
}

static inline struct data_plane_work wrs_next(struct data_plane_hart *hart) {
  struct wrs_cluster *cluster = &wrs_clusters[hart->cluster];
  struct data_plane_work work;
  while (!wrs_round(hart, &work)) {
    if (data_plane_is_shared())
      __atomic_fetch_add(&cluster->sleepers, 1, __ATOMIC_SEQ_CST);
    uint64_t event = __atomic_load_n(&cluster->event, __ATOMIC_ACQUIRE);
    int found = wrs_round(hart, &work);
    if (!found)
      wait_while(&cluster->event, event);
    if (data_plane_is_shared())
      __atomic_fetch_sub(&cluster->sleepers, 1, __ATOMIC_RELAXED);
    if (found)
      break;
  }
  if (data_plane_is_shared() && !data_plane_state.is_late &&
      io_count(data_plane_state.queues[work.queue].doorbell))
    wrs_wake_others(cluster);
  return work;
}

static inline void wrs_done(const struct data_plane_hart *hart,
                            const struct data_plane_work *work) {
  if (!data_plane_state.is_late)
    return;
  __atomic_exchange_n(&spin_locks[work->queue].held, 0, __ATOMIC_SEQ_CST);
  if (io_count(data_plane_state.queues[work->queue].doorbell))
    wrs_wake_others(&wrs_clusters[hart->cluster]);
}

static inline void wrs_set_up(volatile struct io_registers *device, struct io_descriptor *table) {
  spin_set_up(device, table);
  wrs_clusters = aligned_alloc(LINE_BYTES, data_plane_state.clusters * sizeof *wrs_clusters);
  for (uint64_t cluster = 0; cluster < data_plane_state.clusters; cluster++)
    for (uint64_t number = data_plane_begin(cluster); number < data_plane_begin(cluster + 1);
         number++) {
      table[number].wake = (uint64_t)&wrs_clusters[cluster].event;
      table[number].wake_addend = 1;
    }
}

static const struct notify_mechanism notify_wrs = {wrs_set_up, wrs_next, wrs_done};

#endif
