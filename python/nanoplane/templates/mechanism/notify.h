/**
 * ready-list: take the next queue with items from a register, and wait in the read if there is
 * none.
 *
 * The I/O device puts a queue on the list when an item comes into the empty queue. From the read
 * that takes it off, the queue is the hart's alone, until the hart counts its items down. If others
 * are left then, the hart puts the queue back; if none are, the next item comes into an empty
 * queue. So no queue with items is off the list for good, and none is on it twice.
 */
#ifndef NOTIFY_READY_LIST_H
#define NOTIFY_READY_LIST_H

#include <memory_map.h>
#include <notify/queues.h>

/* The registers: crates/ready_list/src/list.rs. */
struct ready_list_registers {
  uint64_t put;   /* Written: a queue that has items left. */
  uint64_t route; /* Written: a queue, and from bit 32 on its cluster. */
  uint64_t unused[510];
  uint64_t next[512]; /* Read, of each cluster: the next queue. */
};

static volatile struct ready_list_registers *const ready_list =
    (volatile struct ready_list_registers *)READY_LIST_REGISTERS_START;

static inline struct data_plane_work ready_list_next(struct data_plane_hart *hart) {
  uint64_t number = ready_list->next[hart->cluster];
  /* The queue is read behind the register. */
  __asm__ volatile("fence i, rw" ::: "memory");
  struct data_plane_queue *queue = &data_plane_state.queues[number];
  struct data_plane_work work = {
      .queue = number, .first = queue->head, .count = data_plane_batch(queue->doorbell)};
  data_plane_await_readers(queue, work.first + work.count);
  queue->head = work.first + work.count;
  return work;
}

static inline void ready_list_done(const struct data_plane_hart *hart,
                                   const struct data_plane_work *work) {
  (void)hart;
  struct io_doorbell *doorbell = data_plane_state.queues[work->queue].doorbell;
  if (__atomic_fetch_sub(&doorbell->count, work->count, __ATOMIC_ACQ_REL) != work->count) {
    /* Whoever takes the queue finds what this hart has written. */
    __asm__ volatile("fence rw, o" ::: "memory");
    ready_list->put = work->queue;
  }
}

static inline void ready_list_set_up(volatile struct io_registers *device,
                                     struct io_descriptor *table) {
  (void)device;
  (void)table;
  for (uint64_t cluster = 0; cluster < data_plane_state.clusters; cluster++)
    for (uint64_t queue = data_plane_begin(cluster); queue < data_plane_begin(cluster + 1); queue++)
      ready_list->route = cluster << 32 | queue;
}

static const struct notify_mechanism notify_ready_list = {ready_list_set_up, ready_list_next,
                                                          ready_list_done};

#define NOTIFY_CODE IO_NOTIFY_READY_LIST
#define NOTIFY_MECHANISM notify_ready_list

#endif
