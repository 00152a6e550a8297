//! Spinning is skipped: loops in which a core only reads, again and again, the same lines.
//!
//! [`doze`] skips loops over lines that the caches hold: the core stops until a message comes.
//! [`period`] skips loops over more lines, of core and fabric together, with the server's engine.
//! Neither changes a result.
//!
//! Other modules need to know this much:
//!
//! - whatever a core does that is not plain execution out of its caches calls
//!   [`SpinSkip::disturb`], and reading the time calls [`SpinSkip::clock_is_read`];
//! - a backward branch that is taken calls `Core::closes_loop`, or, if it is only predicted,
//!   `Core::begins_iteration_at`; the innermost loop does so in two steps,
//!   [`SpinSkip::repeats_quietly`] and `Core::look_for_period`;
//! - each look-up and each outcome of a conditional branch is told to `Core::note_branch`;
//! - a core that dozes (`Core::dozes`) does nothing until `Core::wake_up` is called.
//!
//! State that decides what a core does next, and is not reached by its `walk`, is to be compared in
//! both files. A component that no iteration leaves as it was forbids skipping
//! ([`SpinSkip::allow`]).

mod doze;
mod period;

pub use period::{ClosedLoop, Periodic};

use crate::core::REGISTERS;
use crate::predictor::{BranchContext, BranchStep, Predictor};
use doze::{Doze, Remembered};
use period::LoopMark;
use state::{Purpose, State, Walker};

/// Iterations of quiet looping before looking for a period.
const QUIET_ITERATIONS: u64 = 32;

/// Looks for a period, by Brent's method: remember a state, compare with those that follow, and
/// remember a new one after twice as many iterations.
#[derive(Default, state::State)]
#[state(fields)]
pub(crate) struct SpinSkip {
    /// Whether a loop may be skipped.
    #[state(fixed)]
    enabled: bool,
    /// The same, if the core's other harts do nothing.
    #[state(fixed)]
    wanted: bool,
    /// Counts everything that is not plain execution out of the caches.
    activity: u64,
    /// The number of reads of the time by the guest, whose behaviour may depend on them.
    #[state(fixed)]
    clock_reads: u64,
    /// Cycles that have been skipped. Neither compared nor written down: it is the host's.
    #[state(fixed)]
    skipped_cycles: u64,
    /// What there had been of activity when the loop last came back.
    seen: u64,
    quiet_iterations: u64,
    /// A register that has differed before from what is remembered, and its value there.
    telltale: u8,
    told: u64,
    #[state(fixed)]
    remembered: Option<Box<Remembered>>,
    doze: Option<Doze>,
    /// Loops that the caches cannot hold.
    #[state(fixed)]
    mark: LoopMark,
    /// What branches have done since a sample point, and whether that is being recorded.
    #[state(fixed)]
    branch_steps: Vec<BranchStep>,
    #[state(fixed)]
    records_branches: bool,
}

impl SpinSkip {
    /// Records an event other than plain execution out of the caches: no loop is quiet.
    #[inline(always)]
    pub fn disturb(&mut self) {
        self.activity += 1;
    }

    /// The last disturbance was none.
    pub fn excuse(&mut self) {
        self.activity -= 1;
    }

    /// The guest has read the time.
    pub fn clock_is_read(&mut self) {
        self.clock_reads += 1;
    }

    /// Allows to skip loops, if that is wanted, only while the core's other harts sleep.
    pub fn allow_alone(&mut self, is_alone: bool) {
        self.enabled = self.wanted && is_alone;
    }

    /// Whether branches are to be told to `Core::note_branch`.
    pub fn records_branches(&self) -> bool {
        self.records_branches
    }

    /// Cycles that have been skipped.
    pub fn skipped_cycles(&self) -> u64 {
        self.skipped_cycles
    }

    /// Drops the state of a loop in which the core does not doze.
    fn forget(&mut self) {
        self.quiet_iterations = 0;
        self.remembered = None;
    }

    /// `of` is the core's predictor, and what a hart has of it. Loops are not compared.
    pub(crate) fn walk(&mut self, of: (&Predictor, &BranchContext), walker: &mut dyn Walker) {
        if walker.purpose() != Purpose::Exact {
            return;
        }
        self.walk_fields(walker);
        let mut remembers = self.remembered.is_some();
        remembers.walk(walker);
        if remembers != self.remembered.is_some() {
            self.remembered = remembers.then(|| Box::new(Remembered::nothing(of)));
        }
        if let Some(remembered) = &mut self.remembered {
            remembered.walk(walker);
        }
    }

    /// Allows or forbids to skip loops, and returns whether it was allowed.
    pub fn allow(&mut self, on: bool) -> bool {
        self.enabled = on;
        std::mem::replace(&mut self.wanted, on)
    }

    /// One more iteration of a loop: returns whether to look for a period.
    #[inline(always)]
    pub fn repeats_quietly(&mut self, registers: &[u64; REGISTERS]) -> bool {
        if !self.enabled {
            return false;
        }
        if self.seen != self.activity {
            self.seen = self.activity;
            self.quiet_iterations = 0;
            return false;
        }
        self.quiet_iterations += 1;
        self.quiet_iterations >= QUIET_ITERATIONS
            && (registers[usize::from(self.telltale)] == self.told
                || self.quiet_iterations.is_power_of_two())
    }
}
