/* Written by `make docs` from crates/pipeline/src/events.rs. */
#ifndef COUNTER_EVENTS_H
#define COUNTER_EVENTS_H

/** What a counter counts. */
enum counter_event {
  /** Nothing. */
  COUNTER_NOTHING = 0,
  /** Loads that found their line in the first-level data cache. */
  COUNTER_L1_DATA_HITS = 1,
  /** Loads that did not. */
  COUNTER_L1_DATA_MISSES = 2,
  /** Fetches whose line was not in the first-level instruction cache. */
  COUNTER_L1_INSTRUCTION_MISSES = 3,
  /** First-level misses of the core's harts that found their line in the second level. */
  COUNTER_L2_HITS = 4,
  /** First-level misses of the core's harts that did not. */
  COUNTER_L2_MISSES = 5,
  /** Conditional branches and indirect jumps. */
  COUNTER_BRANCHES = 6,
  /** Those that were predicted wrongly. */
  COUNTER_MISPREDICTIONS = 7,
  /** Stores and atomics performed. */
  COUNTER_STORES = 8,
  /** Loads that took the value of an older store. */
  COUNTER_FORWARDED_LOADS = 9,
  /** Loads that were undone for the order of memory accesses. */
  COUNTER_MEMORY_ORDER_SQUASHES = 10,
  /** Instructions that were executed on a wrong path or had to be repeated. */
  COUNTER_SQUASHED_INSTRUCTIONS = 11,
  /** Lines that the prefetcher of the first-level data cache fetched, for all harts of the core. */
  COUNTER_L1_PREFETCHES = 12,
  /** Lines that the prefetcher of the second-level cache fetched, for all harts of the core. */
  COUNTER_L2_PREFETCHES = 13,
  /** Loads, stores and atomics of the core's harts whose page the first-level TLB did not have. */
  COUNTER_L1_DATA_TLB_MISSES = 14,
  /** Fetches of the core's harts whose page the first-level TLB did not have. */
  COUNTER_L1_INSTRUCTION_TLB_MISSES = 15,
  /** Misses of both first-level TLBs whose page the second-level TLB did not have: page walks. */
  COUNTER_L2_TLB_MISSES = 16,
  /** Cycles of page walks. */
  COUNTER_PAGE_WALK_CYCLES = 17,
  /** Loads, stores and atomics of the core's harts whose page the first-level TLB had. */
  COUNTER_L1_DATA_TLB_HITS = 18,
  /** Misses of both first-level TLBs whose page the second-level TLB had. */
  COUNTER_L2_TLB_HITS = 19,
  /** Page faults of the core's harts, without those of wrong paths. */
  COUNTER_PAGE_FAULTS = 20,
  /** Prefetched lines that had come to the first-level data cache when they were needed. */
  COUNTER_L1_PREFETCHES_USEFUL = 21,
  /** Prefetched lines that were still on their way there when they were needed. */
  COUNTER_L1_PREFETCHES_LATE = 22,
  /** Misses of lines that prefetched ones had replaced there. */
  COUNTER_L1_PREFETCHES_POLLUTING = 23,
  /** Prefetched lines that had come to the second-level cache when they were needed. */
  COUNTER_L2_PREFETCHES_USEFUL = 24,
  /** Prefetched lines that were still on their way there when they were needed. */
  COUNTER_L2_PREFETCHES_LATE = 25,
  /** Misses of lines that prefetched ones had replaced there. */
  COUNTER_L2_PREFETCHES_POLLUTING = 26,
  /** Fetches of the core's harts, each up to a jump or a line's end, whose page that TLB had. */
  COUNTER_L1_INSTRUCTION_TLB_HITS = 27,
  /** Page walks that began below the first table, for the caches of the upper levels had it. */
  COUNTER_STRUCTURE_CACHE_HITS = 28,
  /** Fetches, each up to a jump or a line's end, whose line that cache had. */
  COUNTER_L1_INSTRUCTION_HITS = 29,
  /** Requests of the core's caches and prefetchers that the last-level cache served. */
  COUNTER_LAST_LEVEL_HITS = 30,
  /** Those whose line had to come from memory. */
  COUNTER_LAST_LEVEL_MISSES = 31,
  /** Those whose line came from the private cache that owned it. */
  COUNTER_REMOTE_CACHE_HITS = 32,
};

#endif
