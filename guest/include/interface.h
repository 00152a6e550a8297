/**
 * Firmware of a programmable network interface (docs/programmable-interface.md), whose cores
 * process the frames from the network.
 *
 *     void firmware(uint64_t core) {
 *       for (;;) {
 *         interface_next();
 *         ... look at interface_frame() ...
 *         interface_deliver(interface_queue());
 *       }
 *     }
 *
 * Every core starts in firmware(). Variables are in the scratchpad, which all cores share; use
 * __atomic_fetch_add() and the like. There are no floating-point instructions, and there is no
 * malloc(). A pointer to host memory can be used for loads, but not for stores.
 */
#ifndef INTERFACE_H
#define INTERFACE_H

#include <frames.h>
#include <interface_map.h>
#include <stdint.h>

/** The program of every core. It must not return. */
void firmware(uint64_t core);

#define INTERFACE_REGISTER(address) (*(volatile uint64_t *)(address))

/** Takes the oldest frame that no core has; waits for one. Returns its length. */
static inline uint64_t interface_next(void) { return INTERFACE_REGISTER(INTERFACE_NEXT); }

/** The core's frame, in the interface's buffer. It can be modified there. */
static inline struct frame *interface_frame(void) { return (struct frame *)INTERFACE_FRAME_START; }

/** The hash of the frame's addresses and ports (receive-side scaling). */
static inline uint32_t interface_hash(void) { return (uint32_t)INTERFACE_REGISTER(INTERFACE_HASH); }

/** The receive ring of the host that receive-side scaling chooses for the frame. */
static inline uint64_t interface_queue(void) { return INTERFACE_REGISTER(INTERFACE_QUEUE); }

/** The number of the host's receive rings. */
static inline uint64_t interface_queues(void) { return INTERFACE_REGISTER(INTERFACE_QUEUES); }

/** The number of the host's cores. */
static inline uint64_t interface_host_cores(void) {
  return INTERFACE_REGISTER(INTERFACE_HOST_CORES);
}

/** The number of the interface's cores. */
static inline uint64_t interface_cores(void) { return INTERFACE_REGISTER(INTERFACE_CORES); }

/** The cycle of the interface's clock. */
static inline uint64_t interface_cycle(void) { return INTERFACE_REGISTER(INTERFACE_CYCLE); }

/* All stores to the frame must complete before it is handed over. */
static inline void interface_finish(uint64_t address, uint64_t value) {
  __asm__ volatile("" ::: "memory");
  INTERFACE_REGISTER(address) = value;
}

/** Delivers the frame to receive ring `queue` of the host. Frames of one flow leave the cores in
 * the order of their arrival. */
static inline void interface_deliver(uint64_t queue) { interface_finish(INTERFACE_DELIVER, queue); }

/** Sends the first `bytes` bytes of the frame's buffer to the network. */
static inline void interface_send(uint64_t bytes) { interface_finish(INTERFACE_SEND, bytes); }

/** Drops the frame. */
static inline void interface_drop(void) { interface_finish(INTERFACE_DROP, 0); }

/** From now on, the lines that this core loads from host memory are also placed in the first-level
 * data cache of core `core` of the host. */
static inline void interface_steer(uint64_t core) { INTERFACE_REGISTER(INTERFACE_STEER) = core; }

/** Ends that. */
static inline void interface_steer_nowhere(void) {
  INTERFACE_REGISTER(INTERFACE_STEER) = UINT64_MAX;
}

/** Starts a load of the line at `address` of host memory, only for its steering tag. */
static inline void interface_prefetch(const void *address) {
  /* prefetch.r 0(address), for assemblers without Zicbop: ori x0, address, 1. */
  __asm__ volatile("ori x0, %0, 1" ::"r"(address));
}

/** Waits for all of this core's loads from host memory; returns how many since the last call found
 * no memory, and returned 0. */
static inline uint64_t interface_drain(void) {
  (void)INTERFACE_REGISTER(INTERFACE_DRAIN);
  return INTERFACE_REGISTER(INTERFACE_FAULTS);
}

/** The reason why code in interface_run() ended. */
enum interface_run {
  INTERFACE_ENDED_BY_CODE = 0,    /**< It reached an `ebreak`. */
  INTERFACE_ENDED_BY_BUDGET = 1,  /**< It executed the maximum number of instructions. */
  INTERFACE_ENDED_BY_REFUSAL = 2, /**< It reached a forbidden instruction or address. */
  INTERFACE_ENDED_BY_FAULT = 3,   /**< A load found no memory. */
};

/** Runs untrusted code in the scratchpad. The code has its own registers, which are 0 except for
 * `a0`, and can only compute, and load from the scratchpad and from host memory. It ends at an
 * `ebreak`, after the maximum number of instructions, at a forbidden instruction or address, or
 * when a load finds no memory. Outstanding loads complete, for their steering tags. Returns the
 * reason of the end. */
static inline uint64_t interface_run(const void *code, uint64_t argument,
                                     uint64_t max_instructions) {
  INTERFACE_REGISTER(INTERFACE_RUN_ARGUMENT) = argument;
  INTERFACE_REGISTER(INTERFACE_RUN_BUDGET) = max_instructions;
  interface_finish(INTERFACE_RUN, (uint64_t)code);
  __asm__ volatile("" ::: "memory");
  return INTERFACE_REGISTER(INTERFACE_RUN_ENDED);
}

/** Notes a word for hardware of the host that listens, if there is any: when the frame is
 * delivered, that hardware receives the frame's notes, and the address of its buffer. The first
 * note is the core of the host for which they are. A frame can have 7. */
static inline void interface_note(uint64_t word) { INTERFACE_REGISTER(INTERFACE_NOTE) = word; }

/** Opens memory to which hardware of the host writes, at offsets that both know. */
static inline void interface_open(void *start, uint64_t bytes) {
  INTERFACE_REGISTER(INTERFACE_WINDOW) = (uint64_t)start;
  INTERFACE_REGISTER(INTERFACE_WINDOW_BYTES) = bytes;
}

#endif
