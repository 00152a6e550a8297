/**
 * A service behind a network interface with descriptor rings and HyperPlane: any hart takes the
 * next frame of any queue, and halts while there is none. Otherwise like ring_service.h.
 *
 * The interface rings a queue's doorbell for each frame. A hart owns a queue from QWAIT to
 * RECONSIDER: it takes a frame off the ring and puts one of its own buffers in its place. Each hart
 * sends on its own ring.
 *
 * A program that defines RING_QWAIT_OF_CORES before it includes this has a partition of the ready
 * set for each core: the harts of a core take frames of the queues with their numbers alone, so
 * that the interface, which chooses the queue, also chooses the core.
 */
#ifndef RING_SERVICE_QWAIT_H
#define RING_SERVICE_QWAIT_H

#include <dma_nic.h>
#include <io.h>
#include <memory_map.h>
#include <qwait.h>
#include <ring_answer.h>
#include <ring_sender.h>

/* The range that the monitoring set snoops. */
static struct io_doorbell *const ring_doorbells = (struct io_doorbell *)DOORBELLS_START;

/* A queue that all harts serve. */
struct ring_queue {
  struct dma_nic_queue ring;
  struct io_doorbell *doorbell;
} __attribute__((aligned(64)));

static struct ring_queue *ring_queues;

#ifdef RING_QWAIT_OF_CORES
/* The partition of the queue with a hart's number: that of the hart's core. */
static inline uint64_t ring_partition(uint64_t number) { return number % server_cores; }

static inline uint64_t ring_qwait(uint64_t partition) { return qwait_in(partition); }
#else
static inline uint64_t ring_partition(uint64_t number) {
  (void)number;
  return 0;
}

static inline uint64_t ring_qwait(uint64_t partition) {
  (void)partition;
  return qwait();
}
#endif

/* Takes the oldest frame of a non-empty queue, and its length; NULL if it had a receive error. */
static inline struct frame *ring_take(struct dma_nic_queue *ring, struct ring_sender *sender,
                                      uint64_t *bytes) {
  struct dma_nic_descriptor *descriptor = dma_nic_at(ring->receive_ring, ring->taken++);
  uint16_t status = __atomic_load_n(&descriptor->status, __ATOMIC_ACQUIRE);
  uint64_t frame = descriptor->address;
  *bytes = descriptor->bytes;
  dma_nic_give(ring, sender->spare[--sender->spares]);
  if (!(status & DMA_NIC_ERROR))
    return (struct frame *)frame;
  ring->errors++;
  sender->spare[sender->spares++] = frame;
  return NULL;
}

int hart_main(int hart) {
  struct ring_sender *sender = &ring_senders[hart];
  uint64_t partition = ring_partition((uint64_t)hart);
  for (;;) {
    do
      ring_take_back(sender);
    while (sender->spares == 0);
    uint64_t qid = ring_qwait(partition);
    struct ring_queue *queue = &ring_queues[qid];
    if (!qwait_verify(&queue->doorbell->count))
      continue;
    uint64_t bytes;
    struct frame *frame = ring_take(&queue->ring, sender, &bytes);
    io_take(queue->doorbell);
    qwait_reconsider(qid, &queue->doorbell->count);
    if (frame == NULL)
      continue;
    bytes = ring_answer(frame, bytes);
    dma_nic_send(&sender->ring, frame, bytes);
  }
}

/* Gives a queue a doorbell that fits into the monitoring set. */
static void ring_add_doorbell(uint64_t qid) {
  static uint64_t next;
  int64_t result;
  do {
    if (next == EXECUTED_DOORBELLS)
      fail("There is no doorbell left for queue %lu.", qid);
    ring_queues[qid].doorbell = &ring_doorbells[next++];
    result = qwait_add(qid, &ring_queues[qid].doorbell->count);
  } while (result == QWAIT_CONFLICT);
  if (result != QWAIT_OK)
    fail("QWAIT.ADD of queue %lu answers %ld.", qid, result);
#ifdef RING_QWAIT_OF_CORES
  qwait_set_partition(qid, ring_partition(qid));
#endif
}

static inline int ring_service(void) {
  uint64_t count = reg_read64(DMA_NIC_QUEUES);
  ring_check_queues(count);
#ifdef RING_QWAIT_OF_CORES
  if (server_cores > QWAIT_PARTITIONS)
    fail("There are %lu cores; each has a partition of the ready set, which has %d.", server_cores,
         (int)QWAIT_PARTITIONS);
#endif
  if (qwait_init((uint64_t)ring_doorbells, EXECUTED_DOORBELLS * LINE_BYTES, QWAIT_ROUND_ROBIN) !=
      QWAIT_OK)
    fail("QWAIT.INIT failed.");
  ring_queues = aligned_alloc(64, count * sizeof *ring_queues);
  ring_senders = aligned_alloc(64, harts * sizeof *ring_senders);
  for (uint64_t qid = 0; qid < count; qid++) {
    ring_add_doorbell(qid);
    dma_nic_open_with_doorbell(&ring_queues[qid].ring, (int)qid, &ring_queues[qid].doorbell->count);
  }
  for (uint64_t hart = 0; hart < harts; hart++) {
    ring_senders[hart].ring = ring_queues[hart].ring;
    ring_give_spares(&ring_senders[hart]);
  }
  harts_release();
  return hart_main(0);
}

#endif
