//! Spinning is skipped.
//!
//! When a loop comes back to the same state of everything that decides what the core does next,
//! and has only read lines that it holds, it will go on in the same way until a message arrives.
//! The core then *dozes*: it does nothing and keeps nobody waiting. When a message comes, whole
//! periods are skipped: times move on, counts are multiplied, nothing else changes.

use crate::core::{Core, NEVER, REGISTERS};
use crate::extension::Extension;
use crate::period::LoopMark;
use crate::predictor::Predictor;
use crate::stack::Stall;
use crate::statistics::CoreStatistics;
use crate::window::UNKNOWN;
use fabric::Outbox;
use state::{Plain, State, Walker};

/// Iterations of quiet looping before looking for a period.
const QUIET_TURNS: u64 = 32;

/// Looks for a period, by Brent's method: remember a state, compare with those that follow, and
/// remember a new one after twice as many iterations.
#[derive(Default)]
pub(crate) struct SpinSkip {
    /// Whether a loop may be skipped.
    pub enabled: bool,
    /// The same, if the core's other hart does nothing.
    pub wanted: bool,
    activity: u64,
    quiet_iterations: u64,
    /// A register that has differed before from what is remembered, and its value there.
    telltale: u8,
    told: u64,
    remembered: Option<Box<Remembered>>,
    doze: Option<Doze>,
    /// Loops that the caches cannot hold.
    pub mark: LoopMark,
}

impl SpinSkip {
    /// Forgets what has been seen of a loop in which the core does not doze.
    pub(crate) fn forget(&mut self) {
        self.quiet_iterations = 0;
        self.remembered = None;
    }

    /// `predictor` is the core's.
    pub(crate) fn walk(&mut self, predictor: &Predictor, walker: &mut dyn Walker) {
        state::fields!(
            self,
            walker,
            SpinSkip {
                enabled: fixed,
                wanted: fixed,
                activity,
                quiet_iterations,
                telltale,
                told,
                remembered: fixed,
                doze,
                mark: fixed,
            }
        );
        let mut remembers = self.remembered.is_some();
        remembers.walk(walker);
        if remembers != self.remembered.is_some() {
            self.remembered = remembers.then(|| Box::new(Remembered::nothing(predictor)));
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

    /// A loop turns once more, after so much `activity`: whether it is time to look for a period.
    #[inline(always)]
    pub fn repeats_quietly(&mut self, activity: u64, registers: &[u64; REGISTERS]) -> bool {
        if !self.enabled {
            return false;
        }
        if self.activity != activity {
            self.activity = activity;
            self.quiet_iterations = 0;
            return false;
        }
        self.quiet_iterations += 1;
        self.quiet_iterations >= QUIET_TURNS
            && (registers[usize::from(self.telltale)] == self.told
                || self.quiet_iterations.is_power_of_two())
    }
}

/// The core is in a loop that it will not leave by itself.
struct Doze {
    period: u64,
    /// What had been counted one period ago.
    before: CoreStatistics,
}

state::component!(Doze { period, before });

impl Plain for Doze {
    fn blank() -> Doze {
        Doze {
            period: 0,
            before: CoreStatistics::default(),
        }
    }
}

struct Remembered {
    pc: u64,
    cycle: u64,
    registers: [u64; REGISTERS],
    statistics: CoreStatistics,
    timing: Vec<u64>,
    /// Of the data cache and of the instruction cache.
    replacement: [Vec<u8>; 2],
    predictor: Predictor,
}

impl Remembered {
    fn nothing(predictor: &Predictor) -> Remembered {
        Remembered {
            pc: 0,
            cycle: 0,
            registers: [0; REGISTERS],
            statistics: CoreStatistics::default(),
            timing: Vec::new(),
            replacement: [Vec::new(), Vec::new()],
            predictor: predictor.clone(),
        }
    }
}

state::component!(Remembered {
    pc,
    cycle: cycle,
    registers,
    statistics,
    timing,
    replacement,
    predictor,
});

impl<X: Extension, const IN_ORDER: bool> Core<X, IN_ORDER> {
    /// A taken backward branch leads to `pc`.
    #[inline]
    pub(crate) fn closes_loop(&mut self, pc: u64) {
        self.begins_iteration_at(pc);
        if self.spin.repeats_quietly(self.activity, &self.registers) {
            self.look_for_period(pc);
        }
    }

    /// Whether nothing but a message can change what the core does.
    #[inline]
    pub(crate) fn dozes(&self) -> bool {
        self.spin.doze.is_some()
    }

    /// Skips as many periods as end before `cycle`; from there on the core is awake.
    pub(crate) fn wake_up(&mut self, cycle: u64) {
        if let Some(Doze { period, before }) = self.spin.doze.take() {
            self.advance_scheduler(self.dispatch_cycle);
            let room = cycle.saturating_sub(self.dispatch_cycle + 1);
            let periods = room / period;
            self.statistics.operations = self.calendar.operations;
            self.statistics.repeat(&before, periods);
            self.calendar.operations = self.statistics.operations;
            self.skipped_cycles += periods * period;
            self.shift(periods * period);
        }
    }

    /// Catches up with what a dozing core has done before `cycle`: there is no message before
    /// that.
    pub fn catch_up(&mut self, cycle: u64) {
        if self.dozes() {
            self.wake_up(cycle);
            let (mut inbox, mut outbox) = (fabric::Inbox::default(), Outbox::default());
            let wanted = self.spin.allow(false);
            self.run(cycle, NEVER, &mut inbox, &mut outbox);
            self.spin.allow(wanted);
        }
    }

    /// The loop that begins at `pc` is about to iteration once more.
    #[inline(never)]
    pub(crate) fn look_for_period(&mut self, pc: u64) {
        let iterations = self.spin.quiet_iterations;
        if iterations.is_power_of_two() {
            if self.is_quiet() {
                self.spin.remembered = Some(Box::new(self.remember(pc)));
                self.spin.told = self.registers[usize::from(self.spin.telltale)];
            } else {
                self.spin.quiet_iterations = 0;
            }
            return;
        }
        let Some(remembered) = &self.spin.remembered else {
            return;
        };
        if remembered.pc != pc {
            return;
        }
        let mut pairs = remembered.registers.iter().zip(&self.registers);
        if let Some(other) = pairs.position(|(then, now)| then != now) {
            self.spin.telltale = other as u8;
            self.spin.told = remembered.registers[other];
            return;
        }
        let period = self.dispatch_cycle - remembered.cycle;
        if period == 0 || !self.is_quiet() {
            return;
        }
        let timing = self.timing();
        let Some(remembered) = &self.spin.remembered else {
            return;
        };
        let [data, instructions] = &remembered.replacement;
        // Nothing is copied: the predictor has more than all else.
        if timing == remembered.timing
            && self.data_cache.replacement_order() == data
            && self.instruction_cache.replacement_order() == instructions
            && self.predictor == remembered.predictor
        {
            self.spin.doze = Some(Doze {
                period,
                before: remembered.statistics.clone(),
            });
            // Dispatch ends here.
            self.stop = self.dispatch_cycle;
        }
    }

    fn is_quiet(&self) -> bool {
        self.stores.is_empty()
            && self.stashes.is_empty()
            && self.missing.is_empty()
            && self.waiting_loads.is_empty()
            && self.refused.is_empty()
            && self.posted.is_empty()
            && self.window.all_known()
            && self.acquire.is_none()
            && self.store_event == NEVER
            && self.data_cache.outstanding() == 0
            && self.instruction_cache.outstanding() == 0
            && self.second_level.as_ref().is_none_or(|one| one.is_quiet())
            && self.held.is_empty()
            && (self.hold_until == NEVER || self.hold_until <= self.dispatch_cycle)
            && !self.float_in_window
    }

    /// How far ahead anything is booked.
    fn horizon(&self) -> u64 {
        self.window.last_commit.saturating_sub(self.dispatch_cycle) + 8
    }

    fn remember(&mut self, pc: u64) -> Remembered {
        let timing = self.timing();
        let caches = [&self.data_cache, &self.instruction_cache];
        Remembered {
            pc,
            cycle: self.dispatch_cycle,
            registers: self.registers,
            statistics: self.statistics.clone(),
            timing,
            replacement: caches.map(|cache| cache.replacement_order().to_vec()),
            predictor: self.predictor.clone(),
        }
    }

    /// What is still to come, as seen from now, and whether the caches are the same.
    fn timing(&mut self) -> Vec<u64> {
        self.blame(self.dispatch_cycle, Stall::None);
        self.statistics.operations = self.calendar.operations;
        let now = self.dispatch_cycle;
        let relative = |cycle: u64| cycle.saturating_sub(now);
        let horizon = self.horizon();
        let mut timing = vec![
            horizon,
            relative(self.window.last_commit),
            relative(self.last_issue),
            u64::from(self.in_scheduler),
            relative(self.scheduler_cycle),
            self.data_cache.content_version(),
            self.instruction_cache.content_version(),
        ];
        // Nothing but a miss of the first level touches the second, so that its order of
        // replacement changes no more than its content.
        timing.extend(
            self.second_level
                .iter()
                .map(|one| one.cache().content_version()),
        );
        timing.extend(self.ready.iter().map(|&ready| relative(ready)));
        let recent = self.window.recent();
        timing.extend(recent.map(|position| relative(self.window.commit(position))));
        for number in self.loads.in_queue() {
            let load = self.loads.get(number);
            timing.push(relative(load.commit));
            timing.push(relative(load.performed));
            timing.push(load.address);
        }
        self.calendar.ahead(now, horizon, &mut timing);
        timing
    }

    /// Moves everything that is still to come by `cycles`.
    fn shift(&mut self, cycles: u64) {
        let now = self.dispatch_cycle;
        let move_on = |cycle: &mut u64| {
            if *cycle >= now && *cycle < UNKNOWN {
                *cycle += cycles;
            }
        };
        let horizon = self.horizon();
        self.calendar.shift(now, horizon, cycles);
        self.ready.iter_mut().for_each(move_on);
        for position in self.window.recent() {
            move_on(self.window.commit_mut(position));
            let slot = self.window.slot_mut(position);
            move_on(&mut slot.complete);
            move_on(&mut slot.issue);
            // What a squash puts back.
            move_on(&mut slot.previous_ready);
        }
        for number in self.loads.in_queue() {
            let load = self.loads.get_mut(number);
            move_on(&mut load.commit);
            move_on(&mut load.performed);
        }
        move_on(&mut self.window.last_commit);
        move_on(&mut self.last_issue);
        // Everything issued before now has left the scheduler already.
        self.scheduler_cycle += cycles;
        self.dispatch_cycle += cycles;
        self.charged += cycles;
    }
}
