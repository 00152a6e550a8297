/**
 * wrs: poll every doorbell, and sleep with WRS.NTO (Zawrs) while all queues are empty.
 *
 * A reservation covers one line, and there is a line for each doorbell. So each cluster has one
 * more, its *event* line, whose counter the device moves on after it has rung for an item that
 * came into an empty queue. That line is what a hart sleeps on. What it sleeps through is the
 * polling: once awake, it has to find the queue as spin does.
 *
 * No wake-up is lost. A hart reads the counter, looks at all its queues, and sleeps only if the
 * counter is still what it was, which LR and WRS check in one step. An item that comes into an
 * empty queue after the hart has looked at it moves the counter after the hart has read it. One
 * that comes into a queue that is not empty needs no wake-up from the device: a hart that sees
 * items takes them. Unless another hart has the queue, in order: then that one, when it gives the
 * queue back and items are left, moves the counter if a hart sleeps; and so does a hart that takes
 * some of the items and leaves others. `sleepers` is counted up before a hart looks for the last
 * time. If it saw the queue taken, it did so before the queue was given back, so whoever gave it
 * back sees the sleeper.
 */
#ifndef NOTIFY_WRS_H
#define NOTIFY_WRS_H

#include <notify/spin.h>

/* What the harts of a cluster sleep on. */
struct wrs_cluster {
  uint64_t event __attribute__((aligned(LINE_BYTES)));
  uint64_t sleepers __attribute__((aligned(LINE_BYTES)));
};

static struct wrs_cluster *wrs_clusters;

/* Looks at every queue once. */
static inline int wrs_round(struct data_plane_hart *hart, struct data_plane_work *work) {
  uint64_t start = hart->next;
  return spin_search(hart, start, hart->end, work) || spin_search(hart, hart->begin, start, work);
}

/* Wakes those that sleep although there are items left. */
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
