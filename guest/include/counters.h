/**
 * Event counters: a hart has eight, numbered from 3 to 10, each of which counts a selected event.
 *
 *     counter_select(3, COUNTER_L1_DATA_MISSES);
 *     uint64_t before = counter_read(3);
 *     ...
 *     printf("%lu misses\n", counter_read(3) - before);
 *
 * The registers are `mhpmevent` and `mhpmcounter` of the Privileged Architecture. They only count
 * in timed runs; otherwise counter_select() returns 0.
 */
#ifndef COUNTERS_H
#define COUNTERS_H

#include <counter_events.h>
#include <stdint.h>

/** Lets a counter, a constant from 3 to 10, count an event. Returns whether it can. */
#define counter_select(counter, event)                                                             \
  ({                                                                                               \
    uint64_t counter_event = (event), counter_selected;                                            \
    __asm__ volatile("csrw %1, %2\n"                                                               \
                     "csrr %0, %1"                                                                 \
                     : "=r"(counter_selected)                                                      \
                     : "i"(0x320 + (counter)), "r"(counter_event));                                \
    counter_selected == counter_event;                                                             \
  })

/** Reads a counter, a constant from 3 to 10. */
#define counter_read(counter)                                                                      \
  ({                                                                                               \
    uint64_t counter_value;                                                                        \
    __asm__ volatile("csrr %0, %1" : "=r"(counter_value) : "i"(0xb00 + (counter)) : "memory");     \
    counter_value;                                                                                 \
  })

#endif
