/**
 * A data plane: takes items from the device's queues, processes them, and gives them to the
 * tenants.
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
 * The device's registers select the notification mechanism, the number of harts and the sharing of
 * queues; the program does not change. The mechanisms are in notify/, a file each:
 *
 * | `data_plane.notify` | file | how a hart finds the next queue |
 * | --- | --- | --- |
 * | `spin` | spin.h | polls every doorbell |
 * | `spin-poll-mode` | poll_mode.h | calls a receive-burst function for every queue |
 * | `wrs` | wrs.h | polls every doorbell, and sleeps while all queues are empty |
 * | `software-bitmap` | bitmap.h | looks for a bit that the device sets |
 * | `software-ready-set` | ready_set.h | iterates over a list that QWAIT feeds |
 * | `hyperplane` | hyperplane.h | executes QWAIT |
 * | `rpcvalet` | rpcvalet.h | is given messages by the network interface, and sends replies |
 * | any other NAME | more/NAME.h | as described in the file, which is only compiled in if selected
 * |
 *
 * A visit to a queue takes up to a batch of items, by default one.
 */
#ifndef DATA_PLANE_H
#define DATA_PLANE_H

#include <io.h>
#include <notify/bitmap.h>
#include <notify/hyperplane.h>
#include <notify/poll_mode.h>
#include <notify/queues.h>
#include <notify/ready_set.h>
#include <notify/rpcvalet.h>
#include <notify/spin.h>
#include <notify/wrs.h>
#include <runtime.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/**
 * The program's work on one item of a queue: reads `in`, writes out->packet, out->length and, on
 * an error, out->flags (0 before the call). Items of one queue are processed one at a time, unless
 * the description permits otherwise (`data_plane.in_order`); items of different queues may be
 * processed on different harts at the same time.
 */
static inline void process(uint64_t queue, const struct io_slot *in, struct io_slot *out);

/* The next slot of a tenant ring that is this hart's alone. */
static inline struct io_slot *data_plane_tenant_slot(struct data_plane_queue *queue) {
  if (queue->tenant_room == 0)
    queue->tenant_room = io_room(queue->tenant_doorbell, data_plane_state.capacity);
  queue->tenant_room--;
  uint64_t slot = queue->tenant_tail++ & (data_plane_state.capacity - 1);
  return (struct io_slot *)(queue->tenant_ring + slot * data_plane_state.slot_bytes);
}

/* Copies a result into the next slot of a tenant ring that other harts fill, too, and tells the
 * tenant: see struct data_plane_sharing. */
static inline void data_plane_publish(struct data_plane_queue *queue,
                                      const struct io_slot *result) {
  struct data_plane_sharing *sharing = queue->sharing;
  uint64_t index = __atomic_fetch_add(&sharing->claimed, 1, __ATOMIC_RELAXED);
  /* The tenant has taken at least as many as were published before its count is read, less the
   * count. When all before this one are published, there is nothing else to wait for. */
  while (index >= __atomic_load_n(&sharing->empty_below, __ATOMIC_ACQUIRE)) {
    uint64_t published = __atomic_load_n(&sharing->published, __ATOMIC_ACQUIRE);
    uint64_t count = __atomic_load_n(&queue->tenant_doorbell->count, __ATOMIC_ACQUIRE);
    if (index < published + data_plane_state.capacity - count)
      __atomic_store_n(&sharing->empty_below, published + data_plane_state.capacity - count,
                       __ATOMIC_RELEASE);
  }
  uint64_t slot = index & (data_plane_state.capacity - 1);
  memcpy(queue->tenant_ring + slot * data_plane_state.slot_bytes, result,
         sizeof *result + result->length);
  while (__atomic_load_n(&sharing->published, __ATOMIC_ACQUIRE) != index)
    ;
  io_ring(queue->tenant_doorbell);
  __atomic_store_n(&sharing->published, index + 1, __ATOMIC_RELEASE);
}

/* Processes the items that were taken, and gives them to the tenant. */
static inline __attribute__((always_inline)) void
data_plane_serve(const struct data_plane_hart *hart, const struct data_plane_work *work) {
  struct data_plane_queue *queue = &data_plane_state.queues[work->queue];
  struct data_plane_sharing *sharing = queue->sharing;
  for (uint64_t index = work->first; index != work->first + work->count; index++) {
    const struct io_slot *in = data_plane_slot(queue, index);
    struct io_slot *out = sharing ? hart->result : data_plane_tenant_slot(queue);
    out->flags = 0;
    out->item = in->item;
    process(work->queue, in, out);
    if (sharing) {
      __atomic_store_n(&sharing->laps[index & (data_plane_state.ring_slots - 1)],
                       data_plane_lap(index), __ATOMIC_RELEASE);
      data_plane_publish(queue, out);
    } else {
      io_ring(queue->tenant_doorbell);
    }
    if (work->taken)
      __atomic_store_n(work->taken, index + 1, __ATOMIC_RELEASE);
  }
}

/* A hart's loop. The mechanism is a compile-time constant, so that its functions are inlined. */
static inline __attribute__((always_inline, noreturn)) void
data_plane_run(struct data_plane_hart hart, const struct notify_mechanism *mechanism) {
  for (;;) {
    struct data_plane_work work = mechanism->next(&hart);
    if (!data_plane_state.is_late)
      mechanism->done(&hart, &work);
    data_plane_serve(&hart, &work);
    if (data_plane_state.is_late)
      mechanism->done(&hart, &work);
  }
}

/* A mechanism of notify/more is only compiled in if the description selects it, so that the code of
 * other data planes does not change. */
#ifdef DATA_PLANE_NOTIFY
#include DATA_PLANE_NOTIFY
#endif
#if defined(DATA_PLANE_NOTIFY) && !defined(NOTIFY_RUN)
#define DATA_PLANE_ASKED_FOR(with) with(NOTIFY_CODE, NOTIFY_MECHANISM);
#else
#define DATA_PLANE_ASKED_FOR(with)
#endif

/* Applies `with` to each mechanism; data_plane_state.notify says which one is used. */
#define DATA_PLANE_MECHANISMS(with)                                                                \
  DATA_PLANE_ASKED_FOR(with)                                                                       \
  with(IO_NOTIFY_SPIN, notify_spin);                                                               \
  with(IO_NOTIFY_SPIN_POLL_MODE, notify_poll_mode);                                                \
  with(IO_NOTIFY_WRS, notify_wrs);                                                                 \
  with(IO_NOTIFY_SOFTWARE_BITMAP, notify_bitmap);                                                  \
  with(IO_NOTIFY_SOFTWARE_READY_SET, notify_ready_set);                                            \
  with(IO_NOTIFY_HYPERPLANE, notify_hyperplane)

int hart_main(int number) {
  if ((uint64_t)number >= data_plane_state.cores)
    return 0;
#ifdef NOTIFY_RUN
  NOTIFY_RUN((uint64_t)number);
#else
  if (data_plane_state.notify == IO_NOTIFY_RPCVALET)
    rpcvalet_run(number, process);
  uint64_t cluster = (uint64_t)number / data_plane_state.cluster_cores;
  uint64_t member = (uint64_t)number % data_plane_state.cluster_cores;
  struct data_plane_hart hart = {
      .cluster = cluster,
      .begin = data_plane_begin(cluster),
      .end = data_plane_begin(cluster + 1),
  };
  while (hart.begin == hart.end) /* More clusters than queues. */
    __asm__ volatile("wfi");
  /* Harts that share queues start at different ones. */
  hart.next = hart.begin;
  if (!data_plane_state.is_strict)
    hart.next += (hart.end - hart.begin) * member / data_plane_state.cluster_cores;
  if (data_plane_is_shared() && !data_plane_state.is_late)
    hart.result = (struct io_slot *)(data_plane_state.results +
                                     (uint64_t)number * data_plane_state.slot_bytes);
#define DATA_PLANE_RUN(code, mechanism)                                                            \
  if (data_plane_state.notify == code)                                                             \
  data_plane_run(hart, &mechanism)
  DATA_PLANE_MECHANISMS(DATA_PLANE_RUN);
#undef DATA_PLANE_RUN
  fail("The device asks for the notification mechanism %lu, which is not known.",
       data_plane_state.notify);
#endif
}

/* Decides which queues are in the memory of the second socket, if there is one: the second half.
   Their states follow on the others' in memory, so that it begins with theirs, and so do their
   doorbells, of which the second half is in its memory. */
static void data_plane_place_queues(volatile struct io_registers *device, uint64_t count) {
  uint64_t second_socket = device->second_socket, bytes = sizeof(struct data_plane_queue);
  if (second_socket) {
    uint64_t first_queues = count / 2;
    data_plane_state.second_queue = first_queues;
    data_plane_state.queues = (struct data_plane_queue *)second_socket - first_queues;
    data_plane_state.doorbells +=
        device->doorbell_bytes / sizeof(struct io_doorbell) / 2 - first_queues;
    data_plane_state.second_memory = second_socket + (count - first_queues) * bytes;
  } else {
    data_plane_state.second_queue = count;
    data_plane_state.queues = aligned_alloc(LINE_BYTES, count * bytes);
  }
}

/* Allocates memory of a queue's socket. */
static void *data_plane_allocate(uint64_t queue, uint64_t bytes) {
  if (queue < data_plane_state.second_queue) {
    void *memory = aligned_alloc(LINE_BYTES, bytes);
    if (data_plane_state.second_memory &&
        (uint64_t)memory + bytes > (uint64_t)data_plane_state.queues)
      fail("The queues do not fit into the memory of the first socket: use a larger memory_mib, or "
           "fewer queues.");
    return memory;
  }
  void *memory = (void *)data_plane_state.second_memory;
  data_plane_state.second_memory += (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
  return memory;
}

/* A cleared ring, which caches hold from the beginning as they do later. After it there are 1 to 32
 * unused lines, pseudo-randomly (Knuth's multiplicative hash): rings at equal distances would share
 * cache sets, all or every few of them, and so would busy queues at equal distances. */
static uint8_t *data_plane_ring(uint64_t queue, uint64_t bytes) {
  static uint32_t rings;
  uint64_t lines_behind = 1 + (++rings * 2654435761u >> 27);
  uint8_t *ring = data_plane_allocate(queue, bytes + lines_behind * LINE_BYTES);
  io_cleared(ring, bytes);
  return ring;
}

/* The shared state of harts that process items of one queue concurrently. */
static struct data_plane_sharing *data_plane_make_sharing(uint64_t queue) {
  struct data_plane_sharing *sharing =
      data_plane_allocate(queue, sizeof *sharing + data_plane_state.ring_slots);
  sharing->empty_below = data_plane_state.capacity;
  return sharing;
}

/** Makes the queues, tells the device about them, and runs the data plane; does not return. */
static inline int data_plane(void) {
  volatile struct io_registers *device = io_device();
  uint64_t queues = device->queues;
#ifdef NOTIFY_SET_UP
  data_plane_state.cores = device->data_plane_cores;
  data_plane_state.slot_bytes = device->slot_bytes;
  if (data_plane_state.cores > harts)
    fail("The data plane is to run on %lu harts, and the server has %lu.", data_plane_state.cores,
         harts);
  NOTIFY_SET_UP();
  harts_release();
  return hart_main(0);
#endif
  if (device->notify == IO_NOTIFY_RPCVALET) {
    data_plane_state.cores = device->data_plane_cores;
    data_plane_state.notify = IO_NOTIFY_RPCVALET;
    data_plane_state.slot_bytes = device->slot_bytes;
    rpcvalet_set_up();
    harts_release();
    device->start = 1;
    return hart_main(0);
  }
  struct io_doorbell *tenant_doorbells = (struct io_doorbell *)device->tenant_doorbell_start;

  data_plane_state.queue_count = queues;
  data_plane_state.capacity = device->capacity;
  data_plane_state.slot_bytes = device->slot_bytes;
  data_plane_state.ring_slots = device->ring_slots;
  data_plane_state.cores = device->data_plane_cores;
  data_plane_state.cluster_cores = device->cluster_cores;
  data_plane_state.clusters = data_plane_state.cores / data_plane_state.cluster_cores;
  data_plane_state.batch = device->batch;
  data_plane_state.is_strict = device->policy == QWAIT_STRICT_PRIORITY;
  data_plane_state.is_late = data_plane_is_shared() && device->in_order;
  data_plane_state.notify = device->notify;
  data_plane_state.doorbells = (struct io_doorbell *)device->doorbell_start;
  data_plane_place_queues(device, queues);

  if (data_plane_state.cores > harts)
    fail("The data plane is to run on %lu harts, and the server has %lu.", data_plane_state.cores,
         harts);
  if (queues * sizeof(struct io_doorbell) > device->doorbell_bytes ||
      queues * sizeof(struct io_doorbell) > device->tenant_doorbell_bytes)
    fail("The doorbell ranges are too small for %lu queues.", queues);

  uint64_t ring_bytes = data_plane_state.ring_slots * data_plane_state.slot_bytes;
  uint64_t tenant_bytes = data_plane_state.capacity * data_plane_state.slot_bytes;
  int is_overlapping = data_plane_is_shared() && !data_plane_state.is_late;
  struct io_descriptor *table = aligned_alloc(LINE_BYTES, queues * sizeof(struct io_descriptor));
  for (uint64_t number = 0; number < queues; number++) {
    struct data_plane_queue *queue = &data_plane_state.queues[number];
    *queue = (struct data_plane_queue){
        .doorbell = &data_plane_state.doorbells[number],
        .ring = data_plane_ring(number, ring_bytes),
        .tenant_doorbell = &tenant_doorbells[number],
        .tenant_ring = data_plane_ring(number, tenant_bytes),
        .tenant_room = data_plane_state.capacity,
        .sharing = is_overlapping ? data_plane_make_sharing(number) : 0,
    };
    table[number] = (struct io_descriptor){
        .doorbell = (uint64_t)queue->doorbell,
        .ring = (uint64_t)queue->ring,
        .tenant_doorbell = (uint64_t)queue->tenant_doorbell,
        .tenant_ring = (uint64_t)queue->tenant_ring,
    };
  }
  if (is_overlapping)
    data_plane_state.results =
        data_plane_ring(0, data_plane_state.cores * data_plane_state.slot_bytes);
#define DATA_PLANE_SET_UP(code, mechanism)                                                         \
  if (data_plane_state.notify == code)                                                             \
  mechanism.set_up(device, table)
  DATA_PLANE_MECHANISMS(DATA_PLANE_SET_UP);
#undef DATA_PLANE_SET_UP
  harts_release();

  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* The table precedes the device's reads. */
  device->table = (uint64_t)table;
  device->start = 1;
  return hart_main(0);
}

#endif
