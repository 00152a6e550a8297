/**
 * Firmware of a programmable network interface (docs/programmable-interface.md): what its cores do
 * with the frames that come from the network.
 *
 *     void firmware(uint64_t core) {
 *       for (;;) {
 *         interface_next();
 *         ... look at interface_frame() ...
 *         interface_deliver(interface_queue());
 *       }
 *     }
 *
 * Every core begins with firmware(). Variables are in the scratchpad, and all cores share them; use
 * __atomic_fetch_add() and its kin. There are no floating-point instructions and no malloc(). A
 * pointer to host memory can be dereferenced to load from it, and not to store.
 */
#ifndef INTERFACE_H
#define INTERFACE_H

#include <frames.h>
#include <interface_map.h>
#include <stdint.h>

/** What every core executes. It must not return. */
void firmware(uint64_t core);

#define INTERFACE_REGISTER(address) (*(volatile uint64_t *)(address))

/** Waits for the oldest frame that no core has; returns its bytes. */
static inline uint64_t interface_next(void) { return INTERFACE_REGISTER(INTERFACE_NEXT); }

/** The core's frame, where it is in the interface's buffer. It can be changed there. */
static inline struct frame *interface_frame(void) { return (struct frame *)INTERFACE_FRAME_START; }

/** The hash of the frame's addresses and ports (receive-side scaling). */
static inline uint32_t interface_hash(void) { return (uint32_t)INTERFACE_REGISTER(INTERFACE_HASH); }

/** The receive ring of the host that receive-side scaling chooses for the frame. */
static inline uint64_t interface_queue(void) { return INTERFACE_REGISTER(INTERFACE_QUEUE); }

/** How many receive rings the host has. */
static inline uint64_t interface_queues(void) { return INTERFACE_REGISTER(INTERFACE_QUEUES); }

/** How many cores the host has. */
static inline uint64_t interface_host_cores(void) {
  return INTERFACE_REGISTER(INTERFACE_HOST_CORES);
}

/** How many cores the interface has. */
static inline uint64_t interface_cores(void) { return INTERFACE_REGISTER(INTERFACE_CORES); }

/** The cycle of the interface's clock. */
static inline uint64_t interface_cycle(void) { return INTERFACE_REGISTER(INTERFACE_CYCLE); }

/* The frame has all that was stored into it before it is given away. */
static inline void interface_finish(uint64_t address, uint64_t value) {
  __asm__ volatile("" ::: "memory");
  INTERFACE_REGISTER(address) = value;
}

/** The frame goes into receive ring `queue` of the host. Frames of one flow leave the cores in the
 * order in which they came. */
static inline void interface_deliver(uint64_t queue) { interface_finish(INTERFACE_DELIVER, queue); }

/** The first `bytes` bytes of the frame's buffer go out to the network. */
static inline void interface_send(uint64_t bytes) { interface_finish(INTERFACE_SEND, bytes); }

/** The frame is dropped. */
static inline void interface_drop(void) { interface_finish(INTERFACE_DROP, 0); }

/** From now on, lines that this core loads from host memory go into the first-level data cache of
 * core `core` of the host, too. */
static inline void interface_steer(uint64_t core) { INTERFACE_REGISTER(INTERFACE_STEER) = core; }

/** From now on they do not. */
static inline void interface_steer_nowhere(void) {
  INTERFACE_REGISTER(INTERFACE_STEER) = UINT64_MAX;
}

/** Begins to load the line at `address` of host memory, for its steering tag alone. */
static inline void interface_prefetch(const void *address) {
  /* prefetch.r 0(address), for assemblers without Zicbop: ori x0, address, 1. */
  __asm__ volatile("ori x0, %0, 1" ::"r"(address));
}

/** Waits for all loads of host memory of this core; returns how many of those since the last call
 * found no memory, and brought 0. */
static inline uint64_t interface_drain(void) {
  (void)INTERFACE_REGISTER(INTERFACE_DRAIN);
  return INTERFACE_REGISTER(INTERFACE_FAULTS);
}

/** What interface_run() says of the code. */
enum interface_run {
  INTERFACE_ENDED_BY_CODE = 0,    /**< It has come to an `ebreak`. */
  INTERFACE_ENDED_BY_BUDGET = 1,  /**< It has executed as many instructions as it may. */
  INTERFACE_ENDED_BY_REFUSAL = 2, /**< It has come to what it may not do. */
  INTERFACE_ENDED_BY_FAULT = 3,   /**< A load has found no memory. */
};

/** Runs code in the scratchpad that is not trusted: it has registers of its own, which are 0 but
 * for `a0`, and can do nothing but compute, and load from the scratchpad and host memory. It ends
 * at an `ebreak`, after so many instructions, at what it may not do, or when a load finds no
 * memory. Its loads that are still under way come, for their steering tags. Returns why it has
 * ended. */
static inline uint64_t interface_run(const void *code, uint64_t argument,
                                     uint64_t max_instructions) {
  INTERFACE_REGISTER(INTERFACE_RUN_ARGUMENT) = argument;
  INTERFACE_REGISTER(INTERFACE_RUN_BUDGET) = max_instructions;
  interface_finish(INTERFACE_RUN, (uint64_t)code);
  __asm__ volatile("" ::: "memory");
  return INTERFACE_REGISTER(INTERFACE_RUN_ENDED);
}

/** Notes a word for hardware of the host that listens, if there is any: it has the notes of a
 * frame, and the address of its buffer, when the frame is delivered. The first note is the core of
 * the host for which they are. A frame can have 7. */
static inline void interface_note(uint64_t word) { INTERFACE_REGISTER(INTERFACE_NOTE) = word; }

/** What hardware of the host sends is put here, at offsets that it knows. */
static inline void interface_open(void *start, uint64_t bytes) {
  INTERFACE_REGISTER(INTERFACE_WINDOW) = (uint64_t)start;
  INTERFACE_REGISTER(INTERFACE_WINDOW_BYTES) = bytes;
}

#endif
