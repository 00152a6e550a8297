//! What other components read of a core: its counts, its clock, and its newest copies of lines.

use super::{Core, Shared};
use crate::kind::CoreKind;
use crate::statistics::CoreStatistics;
use fabric::{LineAddress, LineData, NewerLines, SecondLevelStatistics, State};
use riscv::Trap;

impl<K: CoreKind> Core<K> {
    /// The core's counts before `cycle`: all its harts together.
    pub fn statistics(&self, cycle: u64) -> CoreStatistics {
        let mut statistics = self.hart.statistics(cycle);
        for other in self.others() {
            state::add_counts(&mut statistics, &other.statistics(cycle));
        }
        if let Some(second) = &self.shared.second_level {
            let SecondLevelStatistics { hits, misses } = second.statistics();
            (statistics.l2_hits, statistics.l2_misses) = (hits, misses);
            statistics.l2_prefetches = second.prefetches().unwrap_or_default();
        }
        if let Some(prefetching) = &self.shared.data_prefetching {
            statistics.l1_prefetches = prefetching.statistics();
        }
        if let Some(prefetching) = &self.shared.instruction_prefetching {
            statistics.l1_instruction_prefetches = prefetching.statistics();
        }
        let Shared {
            data_cache,
            instruction_cache,
            ..
        } = &self.shared;
        statistics.software_prefetches.add(data_cache.prefetches());
        statistics
            .software_prefetches
            .add(instruction_cache.prefetches());
        if let Some(translation) = &self.shared.translation {
            statistics.translation = translation.statistics();
        }
        statistics
    }

    /// The number of instructions that its harts have dispatched and not squashed.
    pub fn instructions(&self) -> u64 {
        self.harts().map(|hart| hart.statistics.instructions).sum()
    }

    /// Cycles that were not simulated one by one because the core provably only spun. Their number
    /// depends on how far the core is allowed to run, so they are not part of its counts.
    pub fn skipped_cycles(&self) -> u64 {
        self.shared.spin.skipped_cycles()
    }

    /// Counts of one hart before `cycle`. Line transfers and second-level accesses are not
    /// attributed to a hart: only their sum over the harts is meaningful.
    pub fn hart_statistics(&self, thread: u8, cycle: u64) -> CoreStatistics {
        self.hart_of(thread).statistics(cycle)
    }

    /// Explains a trap of the core's extension.
    pub fn explain(&self, trap: &Trap) -> Option<String> {
        self.hart.extension.explain(trap)
    }

    /// The core's clock, in cycles.
    pub fn cycle(&self) -> u64 {
        self.hart.dispatch_cycle
    }

    /// The program counter of the hart of a hardware thread.
    pub fn pc(&self, thread: u8) -> u64 {
        self.hart_of(thread).pc
    }

    /// Whether all harts have halted voluntarily and wait to be woken.
    pub fn is_halted(&self) -> bool {
        self.harts().all(|hart| hart.is_halted())
    }

    /// The core's newest copy of `line`, if it holds one, for checkers.
    pub fn copy_of(&self, line: LineAddress) -> Option<(State, LineData)> {
        let second = self
            .shared
            .second_level
            .as_ref()
            .map(|second| second.cache());
        [Some(&self.shared.data_cache), second]
            .into_iter()
            .flatten()
            .find_map(|cache| {
                let slot = cache.find(line)?;
                Some((cache.state(slot), *cache.line(slot)))
            })
    }

    /// The number of lines in its data cache and its second-level cache.
    pub fn data_lines(&self) -> u64 {
        let second = self.shared.second_level.as_ref();
        let second = second.map_or(0, |second| second.cache().occupied());
        second + self.shared.data_cache.occupied()
    }

    /// Adds the lines of which its caches hold newer copies than their homes.
    pub fn add_newer_lines(&self, lines: &mut NewerLines) {
        if let Some(second) = &self.shared.second_level {
            lines.add(second.cache());
        }
        lines.add(&self.shared.data_cache);
    }
}
