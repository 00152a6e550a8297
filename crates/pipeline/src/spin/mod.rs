//! Skipping of spin loops, in which a core repeatedly reads the same lines.
//!
//! [`doze`] skips loops over lines that the caches hold: the core stops until a message arrives.
//! [`period`] skips loops over more lines, of core and fabric together, with the server's engine.
//! Neither changes a result.
//!
//! Other modules must observe these rules:
//!
//! - every action of a core other than plain execution from its caches calls [`SpinSkip::disturb`],
//!   and reading the time calls [`SpinSkip::clock_is_read`];
//! - a backward branch that is taken calls `Core::closes_loop`, or, if it is only predicted,
//!   `Core::begins_iteration_at`; the innermost loop does so in two steps,
//!   [`SpinSkip::repeats_quietly`] and `Core::look_for_period`;
//! - each look-up and each outcome of a conditional branch is reported to `Core::note_branch`;
//! - a core that dozes (`Core::dozes`) does nothing until `Core::wake_up` is called.
//!
//! State that determines a core's behaviour, and that its `walk` does not reach, must be compared
//! in both files. A component that every iteration changes must forbid skipping
//! ([`SpinSkip::allow`]).

mod doze;
mod period;

pub use period::{ClosedLoop, Periodic};

use crate::core::REGISTERS;
use crate::predictor::{BranchContext, BranchStep, Predictor};
use doze::{Doze, Remembered};
use period::LoopMark;
use state::{Purpose, State, Walker};

/// Iterations of quiet looping before a period is looked for.
const QUIET_ITERATIONS: u64 = 8;

/// The number of times that the whole state is remembered because the last loop's period is known.
const KNOWN_ATTEMPTS: u64 = 4;

/// Looks for a period by Brent's method: remembers the registers, compares later ones with them, and
/// remembers new ones after twice as many iterations. Only when the registers return is the whole
/// state remembered, and compared when they return again: loops that compute never cost a copy.
///
/// If the last period was long, the core is probably in the same loop again, as when it polls many
/// queues in turn: the whole state is remembered after one such period, and compared after the next.
#[derive(Default, state::State)]
#[state(fields)]
pub(crate) struct SpinSkip {
    /// Whether a loop may be skipped.
    #[state(fixed)]
    enabled: bool,
    /// The same, apart from the condition that the core's other harts sleep.
    #[state(fixed)]
    wanted: bool,
    /// Counts all actions other than plain execution from the caches.
    activity: u64,
    /// The number of reads of the time by the guest, whose behaviour may depend on them.
    #[state(fixed)]
    clock_reads: u64,
    /// Skipped cycles: a property of the host's run, so they are neither compared nor saved.
    #[state(fixed)]
    skipped_cycles: u64,
    /// The value of `activity` when the loop last closed.
    seen: u64,
    quiet_iterations: u64,
    /// The iteration from which on a new state is remembered, unless the old one has returned.
    next: u64,
    /// The iterations of the last period, if it was long; 0 if it was not, or not found again.
    #[state(fixed)]
    known: u64,
    /// How often the state was remembered because of it, since the loop was last disturbed.
    #[state(fixed)]
    attempts: u64,
    /// A register that has differed from the remembered state, and its value there.
    telltale: u8,
    told: u64,
    /// Whether `remembered` is of the present loop.
    is_marked: bool,
    #[state(fixed)]
    remembered: Option<Box<Remembered>>,
    doze: Option<Doze>,
    /// Looks for loops that exceed the caches.
    #[state(fixed)]
    mark: LoopMark,
    /// The effects of branches since a sample point, and whether they are being recorded.
    #[state(fixed)]
    branch_steps: Vec<BranchStep>,
    #[state(fixed)]
    records_branches: bool,
}

impl SpinSkip {
    /// Records an action other than plain execution from the caches: the loop is not quiet.
    #[inline(always)]
    pub fn disturb(&mut self) {
        self.activity += 1;
    }

    /// Takes the last disturbance back.
    pub fn excuse(&mut self) {
        self.activity -= 1;
    }

    /// The guest has read the time.
    pub fn clock_is_read(&mut self) {
        self.clock_reads += 1;
    }

    /// Allows skipping, if it is wanted, only while the core's other harts sleep.
    pub fn allow_alone(&mut self, is_alone: bool) {
        self.enabled = self.wanted && is_alone;
    }

    /// Whether branches must be reported to `Core::note_branch`.
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
        self.next = QUIET_ITERATIONS;
        self.known = 0;
        self.is_marked = false;
        self.remembered = None;
    }

    /// `of` is the core's predictor, and the hart's part of it. Loops are not compared.
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

    /// Allows or forbids skipping, and returns whether it was allowed.
    pub fn allow(&mut self, on: bool) -> bool {
        self.enabled = on;
        std::mem::replace(&mut self.wanted, on)
    }

    /// Counts an iteration of a loop; returns whether to look for a period.
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
        if self.quiet_iterations <= QUIET_ITERATIONS {
            if self.quiet_iterations < QUIET_ITERATIONS {
                return false;
            }
            self.next = QUIET_ITERATIONS.max(self.known + 1);
            self.attempts = 0;
            self.is_marked = false;
        }
        self.quiet_iterations >= self.next
            || self.is_marked && registers[usize::from(self.telltale)] == self.told
    }
}
