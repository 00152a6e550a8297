//! What a core counts.

use crate::stack::CycleStack;
use serde::{Deserialize, Serialize};

/// Counts of what a core has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreStatistics {
    /// Instructions, without those that were undone.
    pub instructions: u64,
    /// Instructions that were executed on a wrong path or had to be done again.
    pub squashed_instructions: u64,
    /// Cycles in which the hart had halted of its own will: `QWAIT`, `WFI`, `WRS`.
    pub halted_cycles: u64,
    /// Conditional branches and indirect jumps.
    pub branches: u64,
    /// Those predicted wrongly.
    pub mispredictions: u64,
    /// Loads that found their line.
    pub data_hits: u64,
    /// Loads that did not.
    pub data_misses: u64,
    /// Loads that took the value of an older store.
    pub forwarded_loads: u64,
    /// Stores and atomics performed.
    pub stores: u64,
    /// Blocks whose line had to be fetched first.
    pub instruction_misses: u64,
    /// Misses of both first-level caches for which the second-level cache had the line.
    pub l2_hits: u64,
    /// Those for which it had to ask the line's home.
    pub l2_misses: u64,
    /// Loads undone because another core wrote their line before they could have been done in
    /// order, or because an older store proved to be to the same address.
    pub memory_order_squashes: u64,
    /// Where the cycles went.
    pub stack: CycleStack,
    /// Cycles that were not simulated one by one because the core provably only spun.
    pub skipped_cycles: u64,
}

state::component!(CoreStatistics {
    instructions: count,
    squashed_instructions: count,
    halted_cycles: count,
    branches: count,
    mispredictions: count,
    data_hits: count,
    data_misses: count,
    forwarded_loads: count,
    stores: count,
    instruction_misses: count,
    l2_hits: count,
    l2_misses: count,
    memory_order_squashes: count,
    stack,
    skipped_cycles: count,
});

impl CoreStatistics {
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
        repeat(
            &mut self.memory_order_squashes,
            before.memory_order_squashes,
        );
    }
}
