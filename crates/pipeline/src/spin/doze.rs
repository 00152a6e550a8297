//! Skipping of spin loops over cached lines.
//!
//! If a loop returns to the same state of everything that determines the core's behaviour, and has
//! only read lines that the core holds, it will continue in the same way until a message arrives.
//! The core then *dozes*: it does nothing and delays no other unit. When a message arrives, whole
//! periods are skipped: times advance, counts are multiplied, and nothing else changes.

use crate::core::{Core, NEVER, REGISTERS};
use crate::extension::Extension;
use crate::kind::CoreKind;
use crate::predictor::{BranchContext, Predictor};
use crate::stack::Stall;
use crate::statistics::CoreStatistics;
use crate::window::UNKNOWN;
use fabric::{Outbox, PrivateCache, Slot};

/// The core is in a loop that only a message can end.
#[derive(state::State, state::Plain)]
pub(super) struct Doze {
    period: u64,
    /// The counts one period ago.
    before: CoreStatistics,
}

#[derive(state::State)]
pub(super) struct Remembered {
    pc: u64,
    #[state(cycle)]
    cycle: u64,
    registers: [u64; REGISTERS],
    statistics: CoreStatistics,
    timing: Vec<u64>,
    /// The replacement states of the data cache and of the instruction cache.
    replacement: [(Vec<u8>, Vec<Slot>); 2],
    predictor: Predictor,
    branches: BranchContext,
}

impl Remembered {
    pub(super) fn nothing((predictor, branches): (&Predictor, &BranchContext)) -> Remembered {
        Remembered {
            pc: 0,
            cycle: 0,
            registers: [0; REGISTERS],
            statistics: CoreStatistics::default(),
            timing: Vec::new(),
            replacement: Default::default(),
            predictor: predictor.clone(),
            branches: branches.clone(),
        }
    }
}

impl<X: Extension, K: CoreKind> Core<X, K> {
    /// A taken backward branch leads to `pc`.
    #[inline]
    pub(crate) fn closes_loop(&mut self, pc: u64) {
        self.begins_iteration_at(pc);
        if self.shared.spin.repeats_quietly(&self.hart.registers) {
            self.look_for_period(pc);
        }
    }

    /// Whether only a message can change the core's behaviour.
    #[inline]
    pub(crate) fn dozes(&self) -> bool {
        self.shared.spin.doze.is_some()
    }

    /// Skips all periods that end before `cycle`; from there on the core is awake.
    pub(crate) fn wake_up(&mut self, cycle: u64) {
        if let Some(Doze { period, mut before }) = self.shared.spin.doze.take() {
            self.advance_scheduler(self.hart.dispatch_cycle);
            let room = cycle.saturating_sub(self.hart.dispatch_cycle + 1);
            let periods = room / period;
            // The hart's counts do not include those of the core's translation.
            let translated = std::mem::take(&mut before.translation);
            state::repeat_counts(&mut self.hart.statistics, &before, periods);
            if let Some(translation) = &mut self.shared.translation {
                translation.repeat(&translated, periods);
            }
            self.shared.spin.skipped_cycles += periods * period;
            self.shift(periods * period);
        }
    }

    /// Advances a dozing core to `cycle`, before which there is no message.
    pub fn catch_up(&mut self, cycle: u64) {
        if self.dozes() {
            self.wake_up(cycle);
            let (mut inbox, mut outbox) = (fabric::Inbox::default(), Outbox::default());
            let wanted = self.shared.spin.allow(false);
            self.run(cycle, NEVER, &mut inbox, &mut outbox);
            self.shared.spin.allow(wanted);
        }
    }

    /// The loop at `pc` is about to start another iteration: compares it with the remembered state.
    #[inline(never)]
    pub(crate) fn look_for_period(&mut self, pc: u64) {
        if let Some(translation) = &mut self.shared.translation {
            translation.settle(self.hart.dispatch_cycle);
        }
        let iterations = self.shared.spin.quiet_iterations;
        if iterations.is_power_of_two() {
            if self.is_quiet() {
                self.shared.spin.remembered = Some(Box::new(self.remember(pc)));
                self.shared.spin.told = self.hart.registers[usize::from(self.shared.spin.telltale)];
            } else {
                self.shared.spin.quiet_iterations = 0;
            }
            return;
        }
        let Some(remembered) = &self.shared.spin.remembered else {
            return;
        };
        if remembered.pc != pc {
            return;
        }
        let mut pairs = remembered.registers.iter().zip(&self.hart.registers);
        if let Some(other) = pairs.position(|(then, now)| then != now) {
            self.shared.spin.telltale = other as u8;
            self.shared.spin.told = remembered.registers[other];
            return;
        }
        let period = self.hart.dispatch_cycle - remembered.cycle;
        if period == 0 || !self.is_quiet() {
            return;
        }
        let is_alike = |cache: &PrivateCache, (order, recent): &(Vec<u8>, Vec<Slot>)| {
            cache.replacement_order() == (order, recent)
        };
        let [data, instructions] = &remembered.replacement;
        // Compared before anything is copied, because the branch predictor usually settles last.
        if self.hart.branches == remembered.branches
            && is_alike(&self.shared.data_cache, data)
            && is_alike(&self.shared.instruction_cache, instructions)
            && self.shared.predictor == remembered.predictor
            && self.has_timing_as_remembered()
            && let Some(remembered) = &self.shared.spin.remembered
        {
            self.shared.spin.doze = Some(Doze {
                period,
                before: remembered.statistics.clone(),
            });
            // Dispatch ends here.
            self.shared.stop = self.hart.dispatch_cycle;
        }
    }

    fn has_timing_as_remembered(&mut self) -> bool {
        let timing = self.timing();
        let remembered = &self.shared.spin.remembered;
        remembered.as_ref().is_some_and(|one| one.timing == timing)
    }

    fn is_quiet(&self) -> bool {
        self.hart.stores.is_empty()
            && self.shared.stashes.is_empty()
            && self.hart.missing.is_empty()
            && self.hart.waiting_loads.is_empty()
            && self.hart.refused.is_empty()
            && self.hart.posted.is_empty()
            && self.hart.window.all_known()
            && self.hart.acquire.is_none()
            && self.hart.store_event == NEVER
            && self.shared.data_cache.outstanding() == 0
            && self.shared.instruction_cache.outstanding() == 0
            && self
                .shared
                .second_level
                .as_ref()
                .is_none_or(|one| one.is_quiet())
            && self
                .shared
                .translation
                .as_ref()
                .is_none_or(|one| one.is_quiet())
            && self.hart.held.is_empty()
            && (self.hart.hold_until == NEVER || self.hart.hold_until <= self.hart.dispatch_cycle)
            && !self.hart.float_in_window
    }

    /// How far ahead there are reservations.
    fn horizon(&self) -> u64 {
        self.hart
            .window
            .last_commit
            .saturating_sub(self.hart.dispatch_cycle)
            + 8
    }

    fn remember(&mut self, pc: u64) -> Remembered {
        let timing = self.timing();
        let caches = [&self.shared.data_cache, &self.shared.instruction_cache];
        let mut statistics = self.hart.statistics.clone();
        if let Some(translation) = &self.shared.translation {
            statistics.translation = translation.statistics();
        }
        Remembered {
            pc,
            cycle: self.hart.dispatch_cycle,
            registers: self.hart.registers,
            statistics,
            timing,
            replacement: caches.map(|cache| {
                let (order, recent) = cache.replacement_order();
                (order.to_vec(), recent.to_vec())
            }),
            predictor: self.shared.predictor.clone(),
            branches: self.hart.branches.clone(),
        }
    }

    /// Future events relative to now, and whether the caches are the same.
    fn timing(&mut self) -> Vec<u64> {
        self.blame(self.hart.dispatch_cycle, Stall::None);
        let now = self.hart.dispatch_cycle;
        let relative = |cycle: u64| cycle.saturating_sub(now);
        let horizon = self.horizon();
        // About the length with translation.
        let mut timing = Vec::with_capacity(2048);
        timing.extend([
            horizon,
            relative(self.hart.window.last_commit),
            relative(self.hart.last_issue),
            u64::from(self.shared.in_scheduler),
            relative(self.shared.scheduler_cycle),
            self.shared.data_cache.content_version(),
            self.shared.instruction_cache.content_version(),
        ]);
        // Only first-level misses access the second level, so that its replacement state changes no
        // more than its contents.
        timing.extend(
            self.shared
                .second_level
                .iter()
                .map(|one| one.cache().content_version()),
        );
        // The same holds for the second-level TLB.
        if let Some(translation) = &self.shared.translation {
            timing.extend(translation.words());
            for fetched in &self.hart.fetched {
                timing.extend([fetched.page, fetched.space, fetched.frame.number()]);
                timing.push(relative(fetched.from));
                timing.push(u64::from(fetched.has_missed));
            }
        }
        if let Some(prefetching) = &mut self.shared.data_prefetching {
            prefetching.append_words(&mut timing);
        }
        timing.extend(self.hart.ready.iter().map(|&ready| relative(ready)));
        let recent = self.hart.window.recent();
        timing.extend(recent.map(|position| relative(self.hart.window.commit(position))));
        for number in self.hart.loads.in_queue() {
            let load = self.hart.loads.get(number);
            timing.push(relative(load.commit));
            timing.push(relative(load.performed));
            timing.push(load.address);
        }
        self.shared.calendar.ahead(now, horizon, &mut timing);
        timing
    }

    /// Moves all future events by `cycles`.
    fn shift(&mut self, cycles: u64) {
        let now = self.hart.dispatch_cycle;
        let move_on = |cycle: &mut u64| {
            if *cycle >= now && *cycle < UNKNOWN {
                *cycle += cycles;
            }
        };
        let horizon = self.horizon();
        self.shared.calendar.shift(now, horizon, cycles);
        self.hart.ready.iter_mut().for_each(move_on);
        for position in self.hart.window.recent() {
            move_on(self.hart.window.commit_mut(position));
            let slot = self.hart.window.slot_mut(position);
            move_on(&mut slot.complete);
            move_on(&mut slot.issue);
            // The values that a squash restores.
            move_on(&mut slot.previous_ready);
        }
        for number in self.hart.loads.in_queue() {
            let load = self.hart.loads.get_mut(number);
            move_on(&mut load.commit);
            move_on(&mut load.performed);
        }
        move_on(&mut self.hart.window.last_commit);
        move_on(&mut self.hart.last_issue);
        // Everything issued before now has left the scheduler already.
        self.shared.scheduler_cycle += cycles;
        self.hart.dispatch_cycle += cycles;
        self.hart.charged += cycles;
    }
}
