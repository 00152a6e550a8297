/**
 * Logical cores, time, and other processor-specific functions of the library.
 *
 * The library has the interfaces and names of the Data Plane Development Kit, without its prefix:
 * rte_eth_rx_burst() is eth_rx_burst() here. docs/poll-mode.md lists what is available and what
 * differs.
 */
#ifndef POLL_MODE_LCORE_H
#define POLL_MODE_LCORE_H

#include <memory_map.h>
#include <stdint.h>
#include <string.h>

enum {
  CACHE_LINE_SIZE = 64,
  MAX_LCORE = 64,
};

#define __cache_aligned __attribute__((aligned(CACHE_LINE_SIZE)))
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define min_of(left, right) ((left) < (right) ? (left) : (right))

/** Must be called first on each hart, with the hart's number, like DPDK's launcher. */
static inline void lcore_begin(int hart) { __asm__ volatile("mv tp, %0" : : "r"((uint64_t)hart)); }

/** The number of the hart. */
static inline unsigned lcore_id(void) {
  uint64_t hart;
  __asm__("mv %0, tp" : "=r"(hart));
  return (unsigned)hart;
}

/** The cycle counter. */
static inline uint64_t rdtsc(void) {
  uint64_t cycles;
  __asm__ volatile("rdcycle %0" : "=r"(cycles));
  return cycles;
}

/** The frequency of the cycle counter, measured over ten microseconds of the timer. */
static inline uint64_t get_tsc_hz(void) {
  volatile uint64_t *time = (volatile uint64_t *)CLINT_MTIME;
  uint64_t begin = *time;
  while (*time == begin)
    ;
  begin = *time;
  uint64_t cycles = rdtsc();
  while (*time < begin + 10)
    ;
  return (rdtsc() - cycles) / 10 * 1000000;
}

/** Prefetches a line into the data cache: PREFETCH.R of Zicbop. */
static inline void prefetch0(const volatile void *address) {
  __asm__ volatile(".insn i 0x13, 6, x0, %0, 1" : : "r"(address));
}

/** Pauses briefly in a loop: PAUSE of Zihintpause. */
static inline void pause(void) { __asm__ volatile(".4byte 0x0100000f"); }

/** Executes for a number of nanoseconds at `hz` cycles a second. */
static inline void delay_ns(uint64_t nanoseconds, uint64_t hz) {
  uint64_t begin = rdtsc(), cycles = nanoseconds * (hz / 1000000) / 1000;
  while (rdtsc() - begin < cycles)
    ;
}

/** Earlier loads and stores are performed before later stores, those to devices included. */
static inline void io_wmb(void) { __asm__ volatile("fence rw, ow" : : : "memory"); }

/** Earlier loads are performed before later ones. */
static inline void io_rmb(void) { __asm__ volatile("fence r, r" : : : "memory"); }

#endif
