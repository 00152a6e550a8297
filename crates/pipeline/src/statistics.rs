//! Counts of a core.

use crate::ports::Unit;
use crate::stack::CycleStack;
use crate::translation::TranslationStatistics;
use fabric::{PrefetchStatistics, Source, ToCache};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Issued operations by execution unit, without those squashed before issue; the operations of the
/// integer, load and store units follow from the other counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
#[state(all(count))]
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Operations {
    /// Multiplications of integers.
    pub multiplications: u64,
    /// Divisions of integers, with and without remainder.
    pub divisions: u64,
    /// Additions of floating-point numbers; also comparisons, conversions and moves.
    pub float_additions: u64,
    /// Multiplications of floating-point numbers, alone and fused with an addition.
    pub float_multiplications: u64,
    /// Divisions of floating-point numbers; also square roots.
    pub float_divisions: u64,
}

impl Operations {
    /// The count of `unit`, if there is one.
    pub(crate) fn of(&mut self, unit: Unit) -> Option<&mut u64> {
        match unit {
            Unit::Integer | Unit::Load | Unit::Store => None,
            Unit::Multiply => Some(&mut self.multiplications),
            Unit::Divide => Some(&mut self.divisions),
            Unit::FloatAdd => Some(&mut self.float_additions),
            Unit::FloatMultiply => Some(&mut self.float_multiplications),
            Unit::FloatDivide => Some(&mut self.float_divisions),
        }
    }

    /// The sum of all counts.
    pub fn total(&self) -> u64 {
        self.multiplications + self.divisions + self.float()
    }

    /// The sum of the floating-point counts.
    pub fn float(&self) -> u64 {
        self.float_additions + self.float_multiplications + self.float_divisions
    }
}

/// Counts of prefetch instructions ("Zicbop"). An instruction that only the first count includes
/// found its line in the cache or in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
#[state(all(count))]
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct SoftwarePrefetchStatistics {
    /// Instructions that have issued, including those on a wrong path.
    pub executed: u64,
    /// Lines that they have requested.
    pub issued: u64,
    /// Instructions without a free miss register, without memory, or without a page that allows the
    /// access.
    pub dropped: u64,
    /// Lines that had arrived when they were needed.
    pub useful: u64,
    /// Lines that were still in flight when they were needed.
    pub late: u64,
    /// Lines that were evicted without having been needed.
    pub unused: u64,
}

impl SoftwarePrefetchStatistics {
    /// Whether all counts are 0.
    pub fn is_nothing(&self) -> bool {
        *self == SoftwarePrefetchStatistics::default()
    }

    /// Adds the counts of a cache.
    pub(crate) fn add(&mut self, counts: PrefetchStatistics) {
        self.issued += counts.issued;
        self.useful += counts.useful;
        self.late += counts.late;
        self.unused += counts.unused;
    }
}

/// Counts of a core's events.
#[derive(
    Clone,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    state::State,
    state::Plain,
)]
pub struct CoreStatistics {
    /// Instructions, without squashed ones.
    #[state(count)]
    pub instructions: u64,
    /// Instructions that were executed on a wrong path or had to be repeated.
    #[state(count)]
    pub squashed_instructions: u64,
    /// Cycles in which the hart had halted voluntarily: `QWAIT`, `WFI`, `WRS`.
    #[state(count)]
    pub halted_cycles: u64,
    /// Conditional branches and indirect jumps.
    #[state(count)]
    pub branches: u64,
    /// Mispredicted branches.
    #[state(count)]
    pub mispredictions: u64,
    /// Loads that found their line.
    #[state(count)]
    pub data_hits: u64,
    /// Loads that did not find their line.
    #[state(count)]
    pub data_misses: u64,
    /// Loads that took the value of an older store.
    #[state(count)]
    pub forwarded_loads: u64,
    /// Stores and atomics performed.
    #[state(count)]
    pub stores: u64,
    /// Fetches, each up to a jump or a line's end, whose line was in the first-level instruction
    /// cache.
    #[state(count)]
    pub instruction_hits: u64,
    /// Fetches whose line was not in the first-level instruction cache.
    #[state(count)]
    pub instruction_misses: u64,
    /// Misses of both first-level caches that hit the second-level cache.
    #[state(count)]
    pub l2_hits: u64,
    /// Misses of both first-level caches that went to the line's home.
    #[state(count)]
    pub l2_misses: u64,
    /// Requests of the core's caches, including its prefetchers, that the last-level cache served:
    /// it had the line, or granted the permission to write it.
    #[state(count)]
    pub last_level_hits: u64,
    /// Requests of the core's caches and prefetchers whose line had to come from memory.
    #[state(count)]
    pub last_level_misses: u64,
    /// Requests of the core's caches and prefetchers whose line came from the private cache that
    /// owned it.
    #[state(count)]
    pub remote_cache_hits: u64,
    /// Counts of the prefetcher of the first-level data cache, if it was active.
    #[serde(default, skip_serializing_if = "PrefetchStatistics::is_nothing")]
    pub l1_prefetches: PrefetchStatistics,
    /// Counts of the prefetcher of the first-level instruction cache, if it was active.
    #[serde(default, skip_serializing_if = "PrefetchStatistics::is_nothing")]
    pub l1_instruction_prefetches: PrefetchStatistics,
    /// Counts of the prefetcher of the second-level cache, if it was active.
    #[serde(default, skip_serializing_if = "PrefetchStatistics::is_nothing")]
    pub l2_prefetches: PrefetchStatistics,
    /// Counts of prefetch instructions, if there were any.
    #[serde(
        default,
        skip_serializing_if = "SoftwarePrefetchStatistics::is_nothing"
    )]
    pub software_prefetches: SoftwarePrefetchStatistics,
    /// Counts of address translation, if there were misses.
    #[serde(default, skip_serializing_if = "TranslationStatistics::is_nothing")]
    pub translation: TranslationStatistics,
    /// Lines filled into the first-level data cache.
    #[state(count)]
    pub lines_filled: u64,
    /// Lines evicted from the first-level data cache.
    #[state(count)]
    pub lines_evicted: u64,
    /// Requests of the fabric for a line of the data cache, or of the second level if there is one.
    #[state(count)]
    pub snoops: u64,
    /// Snoops of a line that the core owned and sent, instead of only invalidating it.
    #[state(count)]
    pub lines_sent: u64,
    /// Operations of the rarer execution units.
    pub operations: Operations,
    /// Loads squashed because another core wrote their line before they could have performed in
    /// order, or because an older store turned out to have the same address.
    #[state(count)]
    pub memory_order_squashes: u64,
    /// The cycle stack.
    pub stack: CycleStack,
}

impl CoreStatistics {
    /// Counts a message of the fabric to the data cache, or to the second level.
    pub(crate) fn note_message(&mut self, message: &ToCache) {
        match message {
            ToCache::Data(_, source, _) => self.note_source(*source),
            ToCache::PutAck => {}
            ToCache::Invalidate => self.snoops += 1,
            ToCache::ForwardGetS { .. } | ToCache::ForwardGetM { .. } => {
                self.snoops += 1;
                self.lines_sent += 1;
            }
        }
    }

    /// Counts the source of a line that one of the core's caches has requested.
    pub(crate) fn note_source(&mut self, source: Source) {
        match source {
            // The second level's hits are not answers of the fabric.
            Source::SecondLevel => {}
            Source::LastLevel => self.last_level_hits += 1,
            Source::Memory => self.last_level_misses += 1,
            Source::Cache => self.remote_cache_hits += 1,
        }
    }
}
