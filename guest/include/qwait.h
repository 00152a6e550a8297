/**
 * QWAIT: waiting for the next of many queues.
 *
 * The programmer's interface of HyperPlane (Mirhosseini, Golestani, Wenisch: HyperPlane: A Scalable
 * Low-Latency Notification Accelerator for Software Data Planes, MICRO 2020), Section III-A and
 * Algorithm 1. Sections below are those of the paper.
 *
 * A *queue* has a number, its QID, and a *doorbell*: a cache line of its own whose first eight
 * bytes count the items in the queue. Producers atomically add 1 after they have written an item;
 * the consumer atomically subtracts 1 before it takes one. The *monitoring set* watches the armed
 * doorbells for writes; a write disarms the doorbell and puts the QID into the *ready set*. QWAIT
 * takes the next QID out of the ready set, or halts the hart until there is one.
 *
 *     qwait_init(range, length, QWAIT_ROUND_ROBIN);
 *     for each queue: qwait_add(qid, doorbell);       another doorbell if it says conflict
 *
 *     for (;;) {
 *       uint64_t qid = qwait();
 *       if (!qwait_verify(doorbell_of[qid]))
 *         continue;                                   a spurious wake-up; armed again
 *       take one item off the queue;
 *       qwait_reconsider(qid, doorbell_of[qid]);
 *       process the item;
 *     }
 *
 * Where items of one queue must be processed in order by several harts, reconsider after the
 * processing (Section III-B): no other hart gets the QID before.
 *
 * Encoding: opcode custom-0 (0x0B), type R, funct3 = 0, funct7 = the operation. A core without
 * HyperPlane takes an illegal instruction exception. The set-up operations are privileged; programs
 * here run in machine mode.
 */
#ifndef QWAIT_H
#define QWAIT_H

#include <stdbool.h>
#include <stdint.h>

/** The QID that no queue has: what qwait_nonblocking() returns when no queue is ready. */
#define QWAIT_NONE UINT64_MAX

/** The choice among several ready queues (Section IV-B). */
enum qwait_policy {
  /** The next one after the last, in the order of QIDs. */
  QWAIT_ROUND_ROBIN = 0,
  /** The same, but a queue is chosen for as many consecutive items as its weight. */
  QWAIT_WEIGHTED_ROUND_ROBIN = 1,
  /** The lowest QID. */
  QWAIT_STRICT_PRIORITY = 2,
  /** The one that has been ready the longest: for software with its own policy. */
  QWAIT_ACTIVATION_ORDER = 3,
};

/** Results of the set-up operations. */
enum qwait_error {
  QWAIT_OK = 0,
  /** The monitoring set, a Cuckoo hash table, has no place for this address. Another doorbell
   * address may fit (Section IV-A). */
  QWAIT_CONFLICT = -1,
  /** The QID is not below the number of entries in the ready set. */
  QWAIT_QID_OUT_OF_RANGE = -2,
  /** The QID has a doorbell already. */
  QWAIT_QID_IN_USE = -3,
  /** The doorbell is not in the range of qwait_init(). */
  QWAIT_DOORBELL_OUT_OF_RANGE = -4,
  /** Another queue's doorbell is in the same line. */
  QWAIT_LINE_IN_USE = -5,
  /** The doorbell's address is not a multiple of 8. */
  QWAIT_DOORBELL_MISALIGNED = -6,
  /** The QID has no doorbell. */
  QWAIT_QID_UNKNOWN = -7,
  /** The range is empty, does not start at a line, or is not memory that the hardware snoops. */
  QWAIT_RANGE_NOT_SNOOPED = -8,
  /** There is no such policy. */
  QWAIT_POLICY_UNKNOWN = -9,
};

#define QWAIT_INSTRUCTION(funct7, rd, rs1, rs2)                                                    \
  ".insn r 0x0B, 0, " #funct7 ", " rd ", " rs1 ", " rs2

/* === The data plane === */

/**
 * QWAIT: the next ready queue.
 *
 * Takes one QID out of the ready set by the service policy and returns it. If no queue is ready,
 * the hart halts, without executing anything, until one is. The returned queue may be empty (see
 * qwait_verify). Harts that wait at the same time get different QIDs.
 *
 * On two sockets each has a ready set, of the queues whose doorbells are in its memory, and a hart
 * accesses its own; while it halts, it also accesses the other socket's, if the server is so
 * described.
 *
 * Not a barrier: earlier stores may be performed after it. It takes no queue before its execution
 * is certain.
 *
 * Cost: 50 cycles (Section IV-C: a conservative estimate of the path to the chip's ready set and
 * its 12.25 ns). A halted hart resumes when a doorbell's write reaches the monitoring set, 5 cycles
 * of look-up later.
 */
static inline uint64_t qwait(void) {
  uint64_t qid;
  __asm__ volatile(QWAIT_INSTRUCTION(0, "%0", "x0", "x0") : "=r"(qid)::"memory");
  return qid;
}

/**
 * QWAIT of one partition of the ready set (Section V-C): returns only its queues. All queues are in
 * partition 0, which is qwait()'s, until qwait_set_partition() moves them.
 */
static inline uint64_t qwait_in(uint64_t partition) {
  uint64_t qid;
  __asm__ volatile(QWAIT_INSTRUCTION(0, "%0", "%1", "x0") : "=r"(qid) : "r"(partition) : "memory");
  return qid;
}

/**
 * QWAIT.NB: the next ready queue, without waiting.
 *
 * Like qwait(), but returns QWAIT_NONE immediately if no queue is ready; for harts with other work
 * (Section III-A). Cost: 50 cycles.
 */
static inline uint64_t qwait_nonblocking(void) {
  uint64_t qid;
  __asm__ volatile(QWAIT_INSTRUCTION(1, "%0", "x0", "x0") : "=r"(qid)::"memory");
  return qid;
}

/** QWAIT.NB of one partition. */
static inline uint64_t qwait_nonblocking_in(uint64_t partition) {
  uint64_t qid;
  __asm__ volatile(QWAIT_INSTRUCTION(1, "%0", "%1", "x0") : "=r"(qid) : "r"(partition) : "memory");
  return qid;
}

/**
 * QWAIT.VERIFY: whether a queue that qwait() returned has an item.
 *
 * Reads the doorbell's counter. If it is zero, rearms the doorbell and returns false; the queue
 * will be returned after the next write to the doorbell. Otherwise returns true. Atomic with
 * respect to arrivals, and a memory barrier: later instructions begin after it is done. It filters
 * spurious wake-ups, for example from false sharing (Section III-A).
 *
 * Cost: a read of the doorbell's line; to arm, a coherence read at the line's home, after which no
 * cache owns the line.
 */
static inline bool qwait_verify(const volatile uint64_t *doorbell) {
  uint64_t has_work;
  __asm__ volatile(QWAIT_INSTRUCTION(2, "%0", "%1", "x0")
                   : "=r"(has_work)
                   : "r"(doorbell)
                   : "memory");
  return has_work != 0;
}

/**
 * QWAIT.RECONSIDER: this hart has taken its item off the queue.
 *
 * If the doorbell's counter is zero, arms the doorbell. Otherwise puts the QID back into the ready
 * set. Must follow each qwait_verify() that returned true, or the queue is never returned again.
 * Atomic with respect to arrivals, and a memory barrier: it is not issued before the earlier writes
 * of this hart are done, so its own decrement of the counter does not look like an arrival (Section
 * III-B).
 *
 * Cost: as qwait_verify.
 */
static inline void qwait_reconsider(uint64_t qid, const volatile uint64_t *doorbell) {
  __asm__ volatile(QWAIT_INSTRUCTION(3, "x0", "%0", "%1")::"r"(qid), "r"(doorbell) : "memory");
}

/**
 * QWAIT.ENABLE: lets qwait() return a queue again after qwait_disable().
 */
static inline void qwait_enable(uint64_t qid) {
  __asm__ volatile(QWAIT_INSTRUCTION(4, "x0", "%0", "x0")::"r"(qid) : "memory");
}

/**
 * QWAIT.DISABLE: keeps qwait() from returning a queue although it is ready, for example to limit
 * its rate (Section III-A). Arrivals are remembered. A queue is enabled when it is added.
 */
static inline void qwait_disable(uint64_t qid) {
  __asm__ volatile(QWAIT_INSTRUCTION(5, "x0", "%0", "x0")::"r"(qid) : "memory");
}

/* === Set-up === */

/**
 * QWAIT.INIT: removes all queues and sets the range of doorbells and the policy.
 *
 * Doorbells can be anywhere in [start, start + length); start and length are multiples of 64. Must
 * be called once, before any hart calls qwait(). Returns QWAIT_OK, QWAIT_RANGE_NOT_SNOOPED or
 * QWAIT_POLICY_UNKNOWN.
 */
static inline int64_t qwait_init(uint64_t start, uint64_t length, enum qwait_policy policy) {
  int64_t result;
  __asm__ volatile(QWAIT_INSTRUCTION(6, "%0", "%1", "%2")
                   : "=r"(result)
                   : "r"(start), "r"(length | (uint64_t)policy)
                   : "memory");
  return result;
}

/**
 * QWAIT.ADD: gives a queue its doorbell and arms it.
 *
 * A queue whose counter is not zero is ready immediately. Returns QWAIT_OK or a negative enum
 * qwait_error; on QWAIT_CONFLICT give the queue another doorbell (Algorithm 1, lines 4 to 6). Slow:
 * it may move many entries of the monitoring set (Section IV-A).
 */
static inline int64_t qwait_add(uint64_t qid, const volatile uint64_t *doorbell) {
  int64_t result;
  __asm__ volatile(QWAIT_INSTRUCTION(7, "%0", "%1", "%2")
                   : "=r"(result)
                   : "r"(qid), "r"(doorbell)
                   : "memory");
  return result;
}

/**
 * QWAIT.REMOVE: takes a queue out of the monitoring set and the ready set.
 *
 * Returns QWAIT_OK, QWAIT_QID_OUT_OF_RANGE or QWAIT_QID_UNKNOWN.
 */
static inline int64_t qwait_remove(uint64_t qid) {
  int64_t result;
  __asm__ volatile(QWAIT_INSTRUCTION(8, "%0", "%1", "x0") : "=r"(result) : "r"(qid) : "memory");
  return result;
}

/**
 * QWAIT.WEIGHT: the number of consecutive items of a queue with QWAIT_WEIGHTED_ROUND_ROBIN; 1
 * initially.
 */
static inline void qwait_set_weight(uint64_t qid, uint64_t weight) {
  __asm__ volatile(QWAIT_INSTRUCTION(9, "x0", "%0", "%1")::"r"(qid), "r"(weight) : "memory");
}

/** The maximum number of partitions of the ready set. */
enum { QWAIT_PARTITIONS = 32 };

/**
 * QWAIT.PARTITION: moves a queue to another partition of the ready set. Each partition applies the
 * policy independently.
 */
static inline void qwait_set_partition(uint64_t qid, uint64_t partition) {
  __asm__ volatile(QWAIT_INSTRUCTION(10, "x0", "%0", "%1")::"r"(qid), "r"(partition) : "memory");
}

#endif
