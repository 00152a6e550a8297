//! The events that the programmable counters of a hart, `mhpmcounter3` to `mhpmcounter10`, count.
//!
//! They are read off the counts that the simulator keeps anyway, so they cost nothing where nobody
//! reads them.

use crate::statistics::CoreStatistics;
use crate::translation::TranslationStatistics;
use fabric::{PrefetchStatistics, SecondLevelStatistics};

/// The counts of a core when a hart reads one of its counters.
pub(crate) struct Counts<'a> {
    pub(crate) hart: &'a CoreStatistics,
    /// What is not attributed to a hart of the core is in the counts of any of them.
    pub(crate) other_harts: &'a dyn Fn(fn(&CoreStatistics) -> u64) -> u64,
    /// The second-level cache's, of all harts of the core; like the following, only if there is
    /// one.
    pub(crate) second_level: Option<SecondLevelStatistics>,
    pub(crate) l1_prefetches: Option<PrefetchStatistics>,
    pub(crate) l2_prefetches: Option<PrefetchStatistics>,
    /// Of all harts of the core.
    pub(crate) translation: Option<TranslationStatistics>,
}

impl Counts<'_> {
    /// The sum of a count over the core's harts.
    fn of_core(&self, count: fn(&CoreStatistics) -> u64) -> u64 {
        count(self.hart) + (self.other_harts)(count)
    }
}

/// Declares the events, numbered from 1.
macro_rules! events {
    ($(#[doc = $meaning:literal] $name:literal => |$counts:ident| $count:expr,)*) => {
        /// The name of each event, and what it counts. The first one is written into `mhpmevent` as
        /// 1, the second one as 2, and so on.
        pub const EVENTS: &[(&str, &str)] = &[$(($name, $meaning)),*];

        const COUNT: &[fn(&Counts<'_>) -> Option<u64>] = &[$(|$counts| $count),*];
    };
}

events! {
    /// Loads that found their line in the first-level data cache.
    "L1_DATA_HITS" => |counts| Some(counts.hart.data_hits),
    /// Loads that did not.
    "L1_DATA_MISSES" => |counts| Some(counts.hart.data_misses),
    /// Fetches whose line was not in the first-level instruction cache.
    "L1_INSTRUCTION_MISSES" => |counts| Some(counts.hart.instruction_misses),
    /// First-level misses of the core's harts that found their line in the second level.
    "L2_HITS" => |counts| Some(counts.second_level?.hits),
    /// First-level misses of the core's harts that did not.
    "L2_MISSES" => |counts| Some(counts.second_level?.misses),
    /// Conditional branches and indirect jumps.
    "BRANCHES" => |counts| Some(counts.hart.branches),
    /// Those that were predicted wrongly.
    "MISPREDICTIONS" => |counts| Some(counts.hart.mispredictions),
    /// Stores and atomics performed.
    "STORES" => |counts| Some(counts.hart.stores),
    /// Loads that took the value of an older store.
    "FORWARDED_LOADS" => |counts| Some(counts.hart.forwarded_loads),
    /// Loads that were undone for the order of memory accesses.
    "MEMORY_ORDER_SQUASHES" => |counts| Some(counts.hart.memory_order_squashes),
    /// Instructions that were executed on a wrong path or had to be repeated.
    "SQUASHED_INSTRUCTIONS" => |counts| Some(counts.hart.squashed_instructions),
    /// Lines that the prefetcher of the first-level data cache fetched, for all harts of the core.
    "L1_PREFETCHES" => |counts| Some(counts.l1_prefetches?.issued),
    /// Lines that the prefetcher of the second-level cache fetched, for all harts of the core.
    "L2_PREFETCHES" => |counts| Some(counts.l2_prefetches?.issued),
    /// Loads, stores and atomics of the core's harts whose page the first-level TLB did not have.
    "L1_DATA_TLB_MISSES" => |counts| Some(counts.translation?.l1_data_tlb_misses),
    /// Fetches of the core's harts whose page the first-level TLB did not have.
    "L1_INSTRUCTION_TLB_MISSES" => |counts| Some(counts.translation?.l1_instruction_tlb_misses),
    /// Misses of both first-level TLBs whose page the second-level TLB did not have: page walks.
    "L2_TLB_MISSES" => |counts| Some(counts.translation?.l2_tlb_misses),
    /// Cycles of page walks.
    "PAGE_WALK_CYCLES" => |counts| Some(counts.translation?.page_walk_cycles),
    /// Loads, stores and atomics of the core's harts whose page the first-level TLB had.
    "L1_DATA_TLB_HITS" => |counts| Some(counts.translation?.l1_data_tlb_hits),
    /// Misses of both first-level TLBs whose page the second-level TLB had.
    "L2_TLB_HITS" => |counts| Some(counts.translation?.l2_tlb_hits),
    /// Page faults of the core's harts, without those of wrong paths.
    "PAGE_FAULTS" => |counts| Some(counts.translation?.page_faults),
    /// Prefetched lines that had come to the first-level data cache when they were needed.
    "L1_PREFETCHES_USEFUL" => |counts| Some(counts.l1_prefetches?.useful),
    /// Prefetched lines that were still on their way there when they were needed.
    "L1_PREFETCHES_LATE" => |counts| Some(counts.l1_prefetches?.late),
    /// Misses of lines that prefetched ones had replaced there.
    "L1_PREFETCHES_POLLUTING" => |counts| Some(counts.l1_prefetches?.polluting),
    /// Prefetched lines that had come to the second-level cache when they were needed.
    "L2_PREFETCHES_USEFUL" => |counts| Some(counts.l2_prefetches?.useful),
    /// Prefetched lines that were still on their way there when they were needed.
    "L2_PREFETCHES_LATE" => |counts| Some(counts.l2_prefetches?.late),
    /// Misses of lines that prefetched ones had replaced there.
    "L2_PREFETCHES_POLLUTING" => |counts| Some(counts.l2_prefetches?.polluting),
    /// Fetches of the core's harts, each up to a jump or a line's end, whose page that TLB had.
    "L1_INSTRUCTION_TLB_HITS" => |counts| Some(counts.translation?.l1_instruction_tlb_hits),
    /// Page walks that began below the first table, for the caches of the upper levels had it.
    "STRUCTURE_CACHE_HITS" => |counts| Some(counts.translation?.structure_cache_hits),
    /// Fetches, each up to a jump or a line's end, whose line that cache had.
    "L1_INSTRUCTION_HITS" => |counts| Some(counts.hart.instruction_hits),
    /// Requests of the core's caches and prefetchers that the last-level cache served.
    "LAST_LEVEL_HITS" => |counts| Some(counts.of_core(|one| one.last_level_hits)),
    /// Those whose line had to come from memory.
    "LAST_LEVEL_MISSES" => |counts| Some(counts.of_core(|one| one.last_level_misses)),
    /// Those whose line came from the private cache that owned it.
    "REMOTE_CACHE_HITS" => |counts| Some(counts.of_core(|one| one.remote_cache_hits)),
}

/// The number of occurrences of the event `number`; `None` if there is no such event, or if the core
/// lacks the structure that it is about.
pub(crate) fn count(number: u8, counts: &Counts<'_>) -> Option<u64> {
    let index = usize::from(number).checked_sub(1)?;
    COUNT.get(index)?(counts)
}
