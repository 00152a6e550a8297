//! Cycle stacks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cause of a dispatch stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub(crate) enum Stall {
    /// None: instructions are dispatched.
    None,
    Branch,
    MemoryOrder,
    Fetch,
    Execution,
    /// A load miss; the source of its line is known when it arrives.
    Miss,
    StoreBuffer,
    Serializing,
    /// The core's other harts dispatch, or use all entries.
    OtherHart,
}

/// A hart's cycles by the cause that held up dispatch; their sum is the core's cycles. (A stack at
/// dispatch, as in Eyerman et al., "Multi-Stage CPI Stacks", 2018.) The stack of a core is the sum
/// over its harts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
#[state(all(count))]
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct CycleStack {
    /// Cycles in which instructions were dispatched that were not squashed.
    pub base: u64,
    /// Mispredictions: from the dispatch of the branch, if it had to wait for an operand, or from
    /// its execution, to the first instruction of the right path.
    pub branch: u64,
    /// Loads that had to be repeated.
    pub memory_order: u64,
    /// Instructions that had to be fetched from outside the core.
    pub instruction_cache: u64,
    /// The reorder buffer, the scheduler, the load queue, or on an in-order core an operand, waited
    /// for instructions in execution.
    pub execution: u64,
    /// Instructions waited for a line that was in the core's second-level cache.
    pub l2: u64,
    /// Instructions waited for a line that was in the last-level cache.
    pub last_level: u64,
    /// Instructions waited for a line that was in another private cache.
    pub remote_cache: u64,
    /// Instructions waited for a line that was in memory.
    pub memory: u64,
    /// The store queue was full, or an atomic had to perform first.
    pub store_buffer: u64,
    /// Serializing instructions, and the wait for older instructions before them.
    pub serial: u64,
    /// The core's other harts took the whole width, or had all entries of the reorder buffer or of
    /// a queue. Cores with one hart do not show it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub other_hart: u64,
    /// The hart had halted voluntarily.
    pub halted: u64,
}

fn is_zero(cycles: &u64) -> bool {
    *cycles == 0
}

impl Stall {
    /// Whether dispatch waits for entries that become free in a known cycle.
    pub(crate) fn is_for_room(self) -> bool {
        self == Stall::Execution
    }
}

/// The number of parts.
pub(crate) const PARTS: usize = 13;

impl CycleStack {
    pub(crate) fn add(&mut self, stall: Stall, cycles: u64) {
        *match stall {
            Stall::None => &mut self.base,
            Stall::Branch => &mut self.branch,
            Stall::MemoryOrder => &mut self.memory_order,
            Stall::Fetch => &mut self.instruction_cache,
            Stall::Execution | Stall::Miss => &mut self.execution,
            Stall::StoreBuffer => &mut self.store_buffer,
            Stall::Serializing => &mut self.serial,
            Stall::OtherHart => &mut self.other_hart,
        } += cycles;
    }

    /// All cycles.
    pub fn total(&self) -> u64 {
        self.parts().iter().sum()
    }

    /// The parts, in order.
    pub(crate) fn parts(&self) -> [u64; PARTS] {
        let mut copy = *self;
        copy.parts_mut().map(|part| *part)
    }

    fn parts_mut(&mut self) -> [&mut u64; PARTS] {
        [
            &mut self.base,
            &mut self.branch,
            &mut self.memory_order,
            &mut self.instruction_cache,
            &mut self.execution,
            &mut self.l2,
            &mut self.last_level,
            &mut self.remote_cache,
            &mut self.memory,
            &mut self.store_buffer,
            &mut self.serial,
            &mut self.other_hart,
            &mut self.halted,
        ]
    }

    /// Adds `more` to the parts.
    pub(crate) fn add_parts(&mut self, more: &[u64; PARTS]) {
        for (part, more) in self.parts_mut().into_iter().zip(more) {
            *part = part.wrapping_add(*more);
        }
    }
}
