//! Skipping of periods of a core and the fabric together.
//!
//! A loop over more lines than a core's caches hold never reaches a steady state, so the core alone
//! cannot skip it. But if one core runs alone, stores nothing, and no agent is called, then core
//! and fabric may return to an earlier state, relative to the time. From then on everything repeats
//! until the next timer of an agent, and is advanced by whole periods.
//!
//! Sample points are compared shortly after the loop has closed with the same registers: the core
//! with its caches, messages in flight, the entries of the last-level cache used in between, and
//! the predictions (not the counters, which settle over several iterations) of the branch
//! predictor. If the length of the period is known from earlier, several sample points of each
//! iteration are compared with those of the previous one, so that a repetition is found within an
//! iteration.

use crate::engine::Engine;
use fabric::FootprintMark;
use pipeline::{ClosedLoop, NEVER};
use state::{Comparer, State};

/// Maximum number of compared sample points after which a loop is assumed to have no period for
/// now.
const MAX_LOOKS: u64 = 12;

/// Sample points are only checked if nothing disturbs a period for this many cycles: an iteration
/// over more lines than a first-level cache holds takes about as many, and with fewer left no
/// period could be skipped.
const WORTH_SKIPPING_CYCLES: u64 = 5000;

/// The search for a period.
pub(crate) struct Period {
    /// The next sample point to check; [`NEVER`] if a loop must close first.
    pub(crate) look_at: u64,
    core: usize,
    /// Distance of sample points from the closing of the loop, in cycles.
    after: u64,
    /// Number of calls of agents at the first sample point.
    calls: u64,
    /// Number of sample points checked without knowing the length of a period.
    looks: u64,
    /// The loop whose closing precedes the next sample point.
    closed: ClosedLoop,
    /// The sample points for comparison with the next ones: one of each phase.
    remembered: Vec<SamplePoint>,
}

/// A sample point that has been checked.
struct SamplePoint {
    /// The loop that had closed.
    closed: ClosedLoop,
    cycle: u64,
    state: Comparer,
    footprint: FootprintMark,
    /// See [`pipeline::Periodic::mark_branches`].
    branches: usize,
}

impl Engine {
    /// The cycle before which no period is interrupted from outside.
    fn undisturbed_until(&self) -> u64 {
        let alarm = self.clock.cycle_of(self.fabric.next_timer());
        alarm.min(self.end).min(self.pause)
    }

    /// Drops the sample points so far.
    fn forget_period(&mut self) {
        if let Some(period) = self.period.take() {
            self.end_records(period.core);
        }
    }

    /// Stops recording operations since a sample point.
    fn end_records(&mut self, core: usize) {
        self.fabric.end_footprint();
        self.cores[core].end_branches();
    }

    /// Discards the knowledge about repeating loops, so that later skipping does not depend on it.
    pub fn forget_loops(&mut self) {
        self.forget_period();
        for core in &mut self.cores {
            core.forget_loops();
        }
    }

    /// Whether to check a sample point, if the next event is at `now`.
    #[inline]
    pub(crate) fn is_sample_point(&mut self, now: u64) -> bool {
        let Some(period) = &self.period else {
            return false;
        };
        if self.active & !(1 << period.core) != 0 {
            self.forget_period();
            return false;
        }
        now >= period.look_at && now < self.end
    }

    /// Handles the closing of a loop in `cycle` by a core that has run up to `limit`: this may be a
    /// period.
    pub(crate) fn loop_closed(&mut self, core: usize, closed: ClosedLoop, limit: u64) {
        let cycle = closed.cycle;
        let calls = self.fabric.agent_calls();
        match &self.period {
            Some(period) if period.look_at != NEVER => return,
            Some(period) if period.calls != calls => self.forget_period(),
            _ => {}
        }
        if self.active & !(1 << core) != 0 || !self.fabric.can_repeat() {
            return;
        }
        // The core has stopped where the first of its messages might be answered.
        let departures = self.outbox.messages.iter().map(|message| message.at);
        let answered = departures.min().map_or(NEVER, |at| {
            self.clock
                .cycle_at_or_after(at)
                .saturating_add(self.delivery)
        });
        // All events before this cycle can be handled before any event in it.
        let horizon = 2 * (self.departure + self.delivery);
        let earliest = limit.min(answered) + horizon;
        // Later, the core may have run further when it reports.
        let first = earliest - cycle + horizon;
        let after = self.period.as_ref().map_or(first, |period| period.after);
        let at = cycle + after;
        let until = self.undisturbed_until();
        if at < earliest || until == NEVER || at.saturating_add(WORTH_SKIPPING_CYCLES) >= until {
            return;
        }
        let period = self.period.get_or_insert(Period {
            look_at: at,
            core,
            after,
            calls,
            looks: 0,
            closed,
            remembered: Vec::new(),
        });
        period.look_at = at;
        period.closed = closed;
    }

    /// All events before a sample point have been handled. If the state equals that of an earlier
    /// sample point, and no agent has been called and nothing stored in between, it will repeat
    /// until an agent's timer, and time can advance by whole periods. While the length of a period
    /// is not known, the search uses Brent's method, as for the periods of single cores.
    pub(crate) fn look_for_period(&mut self) {
        let Some(mut period) = self.period.take() else {
            return;
        };
        let now = std::mem::replace(&mut period.look_at, NEVER);
        let (core, closed) = (period.core, period.closed);
        let time = |cycle| self.clock.time(cycle).as_fs();
        let other = period
            .remembered
            .first()
            .map(|sample_point| &sample_point.state);
        let mut state = Comparer::new(now, time(now), other);
        self.fabric.settle(now);
        self.cores[core].compare(now, &mut state);
        self.inboxes[core].walk(&mut state);
        self.fabric.walk(&mut state);
        period.looks += u64::from(!closed.is_known);
        let undisturbed = period.calls == self.fabric.agent_calls();
        if state.is_refused() || !undisturbed || period.looks > MAX_LOOKS {
            if !closed.is_known {
                self.cores[core].refuse_period();
            }
            self.end_records(core);
            return;
        }
        let mut sample_points = period.remembered.iter();
        let place =
            sample_points.position(|sample_point| sample_point.closed.phase == closed.phase);
        if let Some(earlier) = place.map(|place| &period.remembered[place])
            && state.is_equal(&earlier.state)
            && self.fabric.footprint_holds(&earlier.footprint)
        {
            let cycles = now - earlier.cycle;
            let times = self.undisturbed_until().saturating_sub(now) / cycles;
            let times = self.cores[core].repeat_branches(earlier.branches, times);
            if times > 0 {
                let skipped = times * cycles;
                let mut mover = state.mover(&earlier.state, times, skipped, time(skipped));
                self.cores[core].move_on(now, skipped, [earlier.closed, closed], &mut mover);
                self.inboxes[core].walk(&mut mover);
                self.fabric.walk(&mut mover);
                self.end_records(core);
                self.update_next(core);
                return;
            }
        }
        let sample_point = SamplePoint {
            closed,
            cycle: now,
            state,
            footprint: self.fabric.mark_footprint(),
            branches: self.cores[core].mark_branches(),
        };
        match place {
            None => period.remembered.push(sample_point),
            Some(place) if closed.is_known || period.looks.is_power_of_two() => {
                period.remembered[place] = sample_point;
            }
            Some(_) => {}
        }
        self.period = Some(period);
    }
}
