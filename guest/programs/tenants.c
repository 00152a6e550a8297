/**
 * Tenants that connect and disconnect while traffic flows: QWAIT.ADD and QWAIT.REMOVE at run time.
 *
 * HyperPlane, MICRO 2020, Section III-A: QWAIT-ADD "is used when a new tenant connects to the data
 * plane"; when one terminates, it is disconnected "by removing its QIDs and releasing their space
 * from the monitoring set via QWAIT_REMOVE". Here a separate hart, the driver, repeatedly chooses a
 * random queue: a tenant of that queue disconnects; without one, a new tenant connects, with
 * another doorbell and other rings, which belonged to a different tenant before.
 *
 * The device closes a queue with a last item that has IO_FLAG_LAST. The hart that takes this item
 * owns the queue exclusively, as always from QWAIT to QWAIT.RECONSIDER, and the queue is empty: the
 * hart can remove the queue without a lock, and no late wake-up can occur.
 *
 * data_plane.parameters:
 *   change_us  microseconds between two choices (5)
 *   seed       the seed of the random choices (1)
 * program_counters: came, left, doorbell_conflicts
 */
#include <queues.h>

/* The driver's state of a queue. */
enum state {
  HERE,    /* It has a tenant. */
  LEAVING, /* It is closed and may still have items. */
  REMOVED, /* The data plane has removed it. */
};

struct seat {
  uint64_t state;
} __attribute__((aligned(LINE_BYTES)));

static struct seat *seats;
static uint8_t *line_is_used; /* For each doorbell address, whether a queue has it. */
static uint64_t change_us, random_state;

static uint64_t random_below(uint64_t limit) {
  random_state =
      random_state * 6364136223846793005 + 1442695040888963407; /* Knuth's, as in MMIX. */
  return (random_state >> 33) % limit;
}

static _Noreturn void serve(void) {
  for (;;) {
    uint64_t qid = qwait();
    struct queue *queue = &queues.all[qid];
    if (!qwait_verify(&queue->doorbell->count))
      continue;
    const struct io_slot *in = queue_take(queue);
    int is_last = (in->flags & IO_FLAG_LAST) != 0;
    queue_give(queue, in);
    if (is_last) {
      int64_t result = qwait_remove(qid);
      if (result != QWAIT_OK)
        fail("QWAIT.REMOVE of queue %lu answers %ld.", qid, result);
      __atomic_store_n(&seats[qid].state, REMOVED, __ATOMIC_RELEASE);
    } else {
      qwait_reconsider(qid, &queue->doorbell->count);
    }
  }
}

/* Adds the queue with a free doorbell; returns the number of conflicts. */
static uint64_t add(uint64_t qid) {
  struct queue *queue = &queues.all[qid];
  line_is_used[queue->doorbell - queues.doorbells] = 0;
  for (uint64_t conflicts = 0;; conflicts++) {
    uint64_t line = random_below(queues.doorbell_count);
    while (line_is_used[line])
      line = line + 1 == queues.doorbell_count ? 0 : line + 1;
    queue->doorbell = &queues.doorbells[line];
    int64_t result = qwait_add(qid, &queue->doorbell->count);
    if (result == QWAIT_OK) {
      line_is_used[line] = 1;
      return conflicts;
    }
    if (result != QWAIT_CONFLICT)
      fail("QWAIT.ADD of queue %lu answers %ld.", qid, result);
  }
}

/* The driver. */
static _Noreturn void change(void) {
  volatile struct io_registers *device = io_device();
  volatile uint64_t *tenants = io_tenants();
  volatile uint64_t *came = io_counter("came"), *left = io_counter("left");
  volatile uint64_t *conflicted = io_counter("doorbell_conflicts");
  uint8_t *spare_ring = queues_ring(queues.ring_bytes);
  uint8_t *spare_tenant_ring = queues_ring(queues.tenant_ring_bytes);
  uint64_t arrivals = 0, departures = 0, conflicts = 0, due_us = time_us();
  for (;; due_us += change_us) {
    while (time_us() < due_us)
      ;
    uint64_t qid = random_below(queues.count);
    struct queue *queue = &queues.all[qid];
    uint64_t state = __atomic_load_n(&seats[qid].state, __ATOMIC_ACQUIRE);
    if (state == HERE) {
      seats[qid].state = LEAVING;
      device->states[qid] = IO_CLOSED;
      *left = ++departures;
    } else if (state == REMOVED && tenants[qid] == IO_CLOSED) {
      uint8_t *ring = queue->ring, *tenant_ring = queue->tenant_ring;
      queue->ring = spare_ring;
      queue->tenant_ring = spare_tenant_ring;
      queue->offset = queue->tenant_offset = 0;
      queue->tenant_room = queues.capacity;
      spare_ring = ring;
      spare_tenant_ring = tenant_ring;
      conflicts += add(qid);
      queues.table[qid].doorbell = (uint64_t)queue->doorbell;
      queues.table[qid].ring = (uint64_t)queue->ring;
      queues.table[qid].tenant_ring = (uint64_t)queue->tenant_ring;
      seats[qid].state = HERE;
      __atomic_thread_fence(__ATOMIC_SEQ_CST); /* All stores before the device's reads. */
      tenants[qid] = IO_OPEN;
      while (tenants[qid] != IO_OPEN)
        ;
      device->states[qid] = IO_OPEN;
      while (device->states[qid] != IO_OPEN)
        ;
      *came = ++arrivals;
      *conflicted = conflicts;
    }
  }
}

int hart_main(int hart) {
  if ((uint64_t)hart < queues.cores)
    serve();
  if ((uint64_t)hart == queues.cores)
    change();
  return 0;
}

int main(void) {
  queues_make(1);
  double change = io_parameter("change_us", 5), seed = io_parameter("seed", 1);
  if (!(change >= 1 && change <= 1e6))
    fail("data_plane.parameters.change_us must be from 1 to 1000000.");
  if (!(seed >= 0 && seed <= 1e9))
    fail("data_plane.parameters.seed must be from 0 to 1000000000.");
  change_us = (uint64_t)change;
  random_state = (uint64_t)seed;
  seats = aligned_alloc(LINE_BYTES, queues.count * sizeof(struct seat));
  queues_monitor();
  line_is_used = calloc(queues.doorbell_count, 1);
  for (uint64_t qid = 0; qid < queues.count; qid++)
    line_is_used[queues.all[qid].doorbell - queues.doorbells] = 1;
  queues_start();
  while (io_device()->states[0] != IO_OPEN) /* Until the device has read the queues' addresses. */
    ;
  harts_release();
  return hart_main(0);
}
