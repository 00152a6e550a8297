/**
 * Waiting for packets instead of polling: by QWAIT, or by user-level interrupts.
 *
 * **QWAIT** (qwait.h; the server's system `hyperplane`, and `server.cqe_nic.counters`). The
 * interface counts the completions of a receive queue in a line of memory that the monitoring set
 * watches. A hart waits for the next queue with packets among all queues of a partition, and owns
 * it until it has taken a burst: several harts can thus share queues.
 *
 *     rx_qwait_begin();
 *     eth_rx_qwait_setup(port, queue, partition);    for each queue, before eth_dev_start(port)
 *     for (;;) {
 *       uint16_t received = eth_rx_qwait_burst(partition, pkts, 32);
 *       ...
 *     }
 *
 * **Interrupts** (user_interrupt.h; the system `user_interrupts`). In the manner of DPDK's
 * receive-queue interrupts (rte_eth_dev_rx_intr_enable(), rte_epoll_wait()), a queue belongs to a
 * hart and has a vector; a hart without packets enables the interrupts of its queues and sleeps
 * until one of them has packets. There are 64 vectors, so a hart with more queues has several
 * queues on one.
 *
 *     eth_dev_rx_intr_setup(port, queue, lcore, vector);    for each queue
 *     rx_intr_begin();                                      each hart
 *     for (;;) {
 *       uint64_t vectors = rx_intr_wait();
 *       for each queue of these vectors: eth_rx_burst() until it returns 0, and then
 *         eth_dev_rx_intr_enable(port, queue);
 *     }
 *
 * No wake-up is lost. QWAIT.RECONSIDER arms the monitoring set, and checks the counter. An
 * interrupt is enabled with the number of completions that were taken: if there are more, it is
 * sent immediately. Interrupts are delivered only in rx_intr_wait() and rx_intr_poll(); an earlier
 * one is pending, and ends the sleep.
 */
#ifndef POLL_MODE_WAIT_H
#define POLL_MODE_WAIT_H

#include <poll_mode/port.h>
#include <qwait.h>
#include <user_interrupt.h>

/* The number of a queue among those of all ports. */
static inline uint64_t rx_number(uint16_t port, uint16_t queue) {
  static uint64_t pairs; /* The first hart reads it, which takes half a microsecond. */
  if (pairs == 0)
    pairs = reg_read64(CQE_NIC_QUEUES);
  return port * pairs + queue;
}

/* === QWAIT === */

/* A receive queue that harts wait for: its QID is its index. */
struct rx_qwait {
  uint16_t port, queue;
  struct rx_queue *rxq;
  volatile uint64_t *counter;
};

static struct rx_qwait rx_qwaits[MAX_ETHPORTS * MAX_QUEUES];
static uint64_t rx_qwait_count, rx_qwait_lines;

/** Must be called before queues are set up. */
static inline void rx_qwait_begin(void) {
  if (qwait_init(DOORBELLS_START, EXECUTED_DOORBELLS * CACHE_LINE_SIZE, QWAIT_ROUND_ROBIN) !=
      QWAIT_OK)
    fail("QWAIT.INIT failed.");
}

/** Lets the interface count a queue, in a line that the monitoring set has room for, and puts the
 * queue into a partition of the ready set. Must be called before the port is started. */
static inline void eth_rx_qwait_setup(uint16_t port, uint16_t queue, uint64_t partition) {
  uint64_t qid = rx_qwait_count++;
  struct rx_qwait *waited = &rx_qwaits[qid];
  int64_t result;
  do {
    if (rx_qwait_lines == EXECUTED_DOORBELLS)
      fail("There is no doorbell left for queue %u of port %u.", queue, port);
    waited->counter = (volatile uint64_t *)(DOORBELLS_START + CACHE_LINE_SIZE * rx_qwait_lines++);
    result = qwait_add(qid, waited->counter);
  } while (result == QWAIT_CONFLICT);
  if (result != QWAIT_OK)
    fail("QWAIT.ADD of queue %u of port %u answers %ld.", queue, port, result);
  qwait_set_partition(qid, partition);
  waited->port = port;
  waited->queue = queue;
  waited->rxq = eth_devices[port].rx_queues[queue];
  reg_write64(CQE_NIC_PAGE(rx_number(port, queue)) + CQE_NIC_COUNTER, (uint64_t)waited->counter);
}

/** Waits until a queue of a partition has packets, and takes up to `nb_pkts` of them, like
 * eth_rx_burst(); 0 after a spurious wake-up. Other harts may then take the queue: packets of the
 * next burst may overtake these. */
static inline uint16_t eth_rx_qwait_burst(uint64_t partition, struct mbuf **rx_pkts,
                                          uint16_t nb_pkts) {
  uint64_t qid = qwait_in(partition);
  struct rx_qwait *waited = &rx_qwaits[qid];
  if (unlikely(!qwait_verify(waited->counter)))
    return 0;
  /* The counted completions are visible. */
  uint64_t there = *waited->counter;
  uint32_t before = waited->rxq->cq_ci;
  uint16_t received =
      eth_rx_burst(waited->port, waited->queue, rx_pkts, (uint16_t)min_of(there, nb_pkts));
  __atomic_fetch_sub(waited->counter, waited->rxq->cq_ci - before, __ATOMIC_RELAXED);
  qwait_reconsider(qid, waited->counter);
  return received;
}

/* === Interrupts === */

enum {
  RX_INTR_VECTORS = 64,
  RX_INTR_NOTIFICATION = 0xec, /* The vector of harts' notifications: arbitrary. */
};

/* The state shared by a hart and its handler. */
struct rx_intr {
  uint64_t vectors;  /* Delivered ones, a bit for each. */
  uint64_t saved[2]; /* Registers of the program. */
  struct user_interrupt_descriptor descriptor;
};

static struct rx_intr rx_intrs[MAX_LCORE];
static struct user_interrupt_target rx_intr_targets[MAX_LCORE * RX_INTR_VECTORS];

/* Records the vector. CSR_UI_SCRATCH has the address of the struct rx_intr. */
static __attribute__((naked, aligned(64))) void rx_intr_handler(void) {
  __asm__ volatile("csrrw t0, %0, t0\n\t"
                   "sd t1, 8(t0)\n\t"
                   "sd t2, 16(t0)\n\t"
                   "csrr t1, %1\n\t"
                   "li t2, 1\n\t"
                   "sll t2, t2, t1\n\t"
                   "ld t1, 0(t0)\n\t"
                   "or t1, t1, t2\n\t"
                   "sd t1, 0(t0)\n\t"
                   "ld t1, 8(t0)\n\t"
                   "ld t2, 16(t0)\n\t"
                   "csrrw t0, %0, t0\n\t" USER_INTERRUPT_RETURN
                   :
                   : "i"(CSR_UI_SCRATCH), "i"(CSR_UI_VECTOR));
}

/** Routes a queue's interrupts to a hart, with a vector from 0 to 63. */
static inline void eth_dev_rx_intr_setup(uint16_t port, uint16_t queue, unsigned lcore,
                                         uint64_t vector) {
  struct user_interrupt_descriptor *descriptor = &rx_intrs[lcore].descriptor;
  descriptor->control = user_interrupt_control(lcore, RX_INTR_NOTIFICATION);
  uint64_t target = lcore * RX_INTR_VECTORS + vector;
  rx_intr_targets[target] =
      (struct user_interrupt_target){.control = vector << 8 | 1, .descriptor = descriptor};
  user_interrupt_write_csr(CSR_UI_TARGETS, (uint64_t)rx_intr_targets);
  user_interrupt_write_csr(CSR_UI_TARGET_COUNT, MAX_LCORE * RX_INTR_VECTORS);
  user_interrupt_route(rx_number(port, queue), target);
}

/** Each hart must call it before it waits. */
static inline void rx_intr_begin(void) {
  struct rx_intr *own = &rx_intrs[lcore_id()];
  user_interrupt_off();
  user_interrupt_write_csr(CSR_UI_SCRATCH, (uint64_t)own);
  user_interrupt_receive(&own->descriptor, rx_intr_handler);
}

/** Requests one interrupt of a queue: immediately if a packet has arrived and was not taken, and
 * otherwise with the next one. `registers` is CQE_NIC_PAGE() of its number. */
static inline void eth_dev_rx_intr_enable(uint64_t registers, const struct rx_queue *rxq) {
  reg_write64(registers + CQE_NIC_ARM, rxq->cq_ci);
}

/** The vectors since the last call, a bit for each. */
static inline uint64_t rx_intr_poll(void) {
  struct rx_intr *own = &rx_intrs[lcore_id()];
  user_interrupt_on();
  user_interrupt_off();
  uint64_t vectors = *(volatile uint64_t *)&own->vectors;
  own->vectors = 0;
  return vectors;
}

/** The same, but waits for at least one. */
static inline uint64_t rx_intr_wait(void) {
  for (;;) {
    uint64_t vectors = rx_intr_poll();
    if (vectors)
      return vectors;
    __asm__ volatile("wfi" ::: "memory");
  }
}

#endif
