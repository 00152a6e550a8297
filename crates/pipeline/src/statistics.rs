//! What a core counts.

use crate::ports::Unit;
use crate::stack::CycleStack;
use crate::translation::TranslationStatistics;
use fabric::{PrefetchStatistics, ToCache};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Operations that were issued and not undone before that, by their execution units; those of
/// the integer, load and store units are told by the other counts.
#[derive(
    Clone,
    Copy,
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
#[state(all(count))]
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
    /// The count of `unit`, if it is one of those that are counted.
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

    fn join(&mut self, other: &Operations) {
        self.multiplications += other.multiplications;
        self.divisions += other.divisions;
        self.float_additions += other.float_additions;
        self.float_multiplications += other.float_multiplications;
        self.float_divisions += other.float_divisions;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.multiplications + self.divisions + self.float()
    }

    /// Those of floating point.
    pub fn float(&self) -> u64 {
        self.float_additions + self.float_multiplications + self.float_divisions
    }
}

/// What prefetch instructions ("Zicbop") have done. One that is in no count but the first has found
/// its line in the cache or on its way.
#[derive(
    Clone,
    Copy,
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
pub struct SoftwarePrefetchStatistics {
    /// Instructions that have issued, those on a wrong path among them.
    #[state(count)]
    pub executed: u64,
    /// Lines that they have asked for.
    #[state(count)]
    pub issued: u64,
    /// Instructions that have found no miss register, no memory, or no page that allows the access.
    #[state(count)]
    pub dropped: u64,
    /// Lines that had come when they were needed.
    #[state(count)]
    pub useful: u64,
    /// Lines that were still on their way when they were needed.
    #[state(count)]
    pub late: u64,
    /// Lines that were never needed before another line took their place.
    #[state(count)]
    pub unused: u64,
}

impl SoftwarePrefetchStatistics {
    /// Whether there were none.
    pub fn is_nothing(&self) -> bool {
        *self == SoftwarePrefetchStatistics::default()
    }

    /// Adds what a cache has counted.
    pub(crate) fn add(&mut self, counts: PrefetchStatistics) {
        self.issued += counts.issued;
        self.useful += counts.useful;
        self.late += counts.late;
        self.unused += counts.unused;
    }
}

/// Counts of what a core has done.
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
    /// Instructions, without those that were undone.
    #[state(count)]
    pub instructions: u64,
    /// Instructions that were executed on a wrong path or had to be done again.
    #[state(count)]
    pub squashed_instructions: u64,
    /// Cycles in which the hart had halted of its own will: `QWAIT`, `WFI`, `WRS`.
    #[state(count)]
    pub halted_cycles: u64,
    /// Conditional branches and indirect jumps.
    #[state(count)]
    pub branches: u64,
    /// Branches that were predicted wrongly.
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
    /// Blocks whose line had to be fetched first.
    #[state(count)]
    pub instruction_misses: u64,
    /// Misses of both first-level caches for which the second-level cache had the line.
    #[state(count)]
    pub l2_hits: u64,
    /// Misses of both first-level caches for which the line's home had to be asked.
    #[state(count)]
    pub l2_misses: u64,
    /// What the prefetcher of the first-level data cache has done, if it has done anything.
    #[serde(default, skip_serializing_if = "PrefetchStatistics::is_nothing")]
    pub l1_prefetches: PrefetchStatistics,
    /// What the prefetcher of the second-level cache has done, if it has done anything.
    #[serde(default, skip_serializing_if = "PrefetchStatistics::is_nothing")]
    pub l2_prefetches: PrefetchStatistics,
    /// What prefetch instructions have done, if there were any.
    #[serde(
        default,
        skip_serializing_if = "SoftwarePrefetchStatistics::is_nothing"
    )]
    pub software_prefetches: SoftwarePrefetchStatistics,
    /// What the translation of addresses has cost, if it has missed anything.
    #[serde(default, skip_serializing_if = "TranslationStatistics::is_nothing")]
    pub translation: TranslationStatistics,
    /// Lines that came into the first-level data cache.
    #[state(count)]
    pub lines_filled: u64,
    /// Lines that left the first-level data cache to make room.
    #[state(count)]
    pub lines_evicted: u64,
    /// Times that the fabric asked for a line of the data cache, or of the second level if there
    /// is one.
    #[state(count)]
    pub snoops: u64,
    /// Snoops of a line that the core owned and sent, and did not only give up.
    #[state(count)]
    pub lines_sent: u64,
    /// Operations of the rarer execution units.
    pub operations: Operations,
    /// Loads undone because another core wrote their line before they could have been done in
    /// order, or because an older store proved to be to the same address.
    #[state(count)]
    pub memory_order_squashes: u64,
    /// Where the cycles went.
    pub stack: CycleStack,
}

impl CoreStatistics {
    /// The fabric has sent the data cache, or the second level, a message.
    pub(crate) fn note_message(&mut self, message: &ToCache) {
        match message {
            ToCache::Data(..) | ToCache::PutAck => {}
            ToCache::Invalidate => self.snoops += 1,
            ToCache::ForwardGetS { .. } | ToCache::ForwardGetM { .. } => {
                self.snoops += 1;
                self.lines_sent += 1;
            }
        }
    }

    /// Adds what another hart of the core has done.
    pub(crate) fn join(&mut self, other: &CoreStatistics) {
        self.instructions += other.instructions;
        self.squashed_instructions += other.squashed_instructions;
        self.halted_cycles += other.halted_cycles;
        self.branches += other.branches;
        self.mispredictions += other.mispredictions;
        self.data_hits += other.data_hits;
        self.data_misses += other.data_misses;
        self.forwarded_loads += other.forwarded_loads;
        self.stores += other.stores;
        self.instruction_misses += other.instruction_misses;
        self.l2_hits += other.l2_hits;
        self.l2_misses += other.l2_misses;
        self.software_prefetches.executed += other.software_prefetches.executed;
        self.software_prefetches.dropped += other.software_prefetches.dropped;
        self.lines_filled += other.lines_filled;
        self.lines_evicted += other.lines_evicted;
        self.snoops += other.snoops;
        self.lines_sent += other.lines_sent;
        self.operations.join(&other.operations);
        self.memory_order_squashes += other.memory_order_squashes;
        self.stack.add_parts(&other.stack.parts());
    }

    /// Adds what has been counted since `before`, another `times` times.
    pub(crate) fn repeat(&mut self, before: &CoreStatistics, times: u64) {
        let repeat = |now: &mut u64, before: u64| *now += (*now - before) * times;
        repeat(&mut self.instructions, before.instructions);
        repeat(
            &mut self.squashed_instructions,
            before.squashed_instructions,
        );
        repeat(&mut self.halted_cycles, before.halted_cycles);
        self.stack.repeat(&before.stack, times);
        repeat(&mut self.branches, before.branches);
        repeat(&mut self.mispredictions, before.mispredictions);
        repeat(&mut self.data_hits, before.data_hits);
        repeat(&mut self.data_misses, before.data_misses);
        repeat(&mut self.forwarded_loads, before.forwarded_loads);
        repeat(&mut self.stores, before.stores);
        repeat(&mut self.instruction_misses, before.instruction_misses);
        let (now, then) = (&mut self.software_prefetches, &before.software_prefetches);
        repeat(&mut now.executed, then.executed);
        repeat(&mut now.dropped, then.dropped);
        repeat(&mut self.lines_filled, before.lines_filled);
        repeat(&mut self.lines_evicted, before.lines_evicted);
        repeat(&mut self.snoops, before.snoops);
        repeat(&mut self.lines_sent, before.lines_sent);
        let (now, then) = (&mut self.operations, &before.operations);
        repeat(&mut now.multiplications, then.multiplications);
        repeat(&mut now.divisions, then.divisions);
        repeat(&mut now.float_additions, then.float_additions);
        repeat(&mut now.float_multiplications, then.float_multiplications);
        repeat(&mut now.float_divisions, then.float_divisions);
        repeat(
            &mut self.memory_order_squashes,
            before.memory_order_squashes,
        );
    }
}
