//! Skipping of spin loops over cached lines.
//!
//! If a loop returns to the same state of everything that determines the core's behaviour, and has
//! only read lines that the core holds, it will continue in the same way until a message arrives.
//! The core then *dozes*: it does nothing and delays no other unit. When a message arrives, whole
//! periods are skipped: times advance, counts are multiplied, and nothing else changes.

use crate::core::{Core, NAMED_REGISTERS, NEVER};
use crate::kind::CoreKind;
use crate::predictor::{BranchContext, Predictor};
use crate::spin::{KNOWN_ATTEMPTS, QUIET_ITERATIONS};
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

/// The registers at the beginning of an iteration, and then the whole state of a later one with the
/// same registers.
#[derive(state::State)]
pub(super) struct Remembered {
    pc: u64,
    registers: [u64; NAMED_REGISTERS],
    /// The quiet iteration at whose end the registers were remembered.
    iteration: u64,
    /// The rest is remembered, too, and at the end of which iteration: the same one if a long period
    /// was known, otherwise the one after which the registers had returned.
    is_whole: bool,
    whole_iteration: u64,
    #[state(cycle)]
    cycle: u64,
    statistics: CoreStatistics,
    /// What [`Core::timing`] tells.
    timing: Vec<u64>,
    /// The replacement states of the data cache and of the instruction cache.
    replacement: [(Vec<u8>, Vec<Slot>); 2],
    /// [`Predictor::changes`].
    predictor_changes: u64,
    /// A copy of the predictor, which was changing in the loop.
    has_predictor: bool,
    predictor: Predictor,
    branches: BranchContext,
}

impl Remembered {
    pub(super) fn nothing((predictor, branches): (&Predictor, &BranchContext)) -> Remembered {
        Remembered {
            pc: 0,
            registers: [0; NAMED_REGISTERS],
            iteration: 0,
            is_whole: false,
            whole_iteration: 0,
            cycle: 0,
            statistics: CoreStatistics::default(),
            timing: Vec::new(),
            replacement: Default::default(),
            predictor_changes: 0,
            has_predictor: false,
            predictor: predictor.clone(),
            branches: branches.clone(),
        }
    }
}

impl<K: CoreKind> Core<K> {
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
            if periods == 0 {
                return;
            }
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
        if self.shared.spin.is_marked && self.has_returned(pc) {
            if !self.is_quiet() {
                return;
            }
            match self.shared.spin.remembered.take_if(|one| !one.is_whole) {
                Some(remembered) => {
                    let spin = &mut self.shared.spin;
                    let period = spin.quiet_iterations - remembered.iteration;
                    spin.next = spin.next.max(spin.quiet_iterations + period);
                    let changes = self.shared.predictor.changes() != remembered.predictor_changes;
                    self.shared.spin.remembered = Some(self.remember(remembered, changes));
                    return;
                }
                None => self.compare(),
            }
        }
        if !self.dozes() && self.shared.spin.quiet_iterations >= self.shared.spin.next {
            self.mark(pc);
        }
    }

    /// Whether the registers are the remembered ones.
    fn has_returned(&mut self, pc: u64) -> bool {
        let spin = &mut self.shared.spin;
        let Some(remembered) = spin.remembered.as_ref().filter(|one| one.pc == pc) else {
            return false;
        };
        let mut pairs = remembered.registers.iter().zip(&self.hart.registers);
        if let Some(other) = pairs.position(|(then, now)| then != now) {
            spin.telltale = other as u8;
            spin.told = remembered.registers[other];
            return false;
        }
        true
    }

    /// Remembers the registers, or the whole state if a long period is known.
    fn mark(&mut self, pc: u64) {
        let of = (&self.shared.predictor, &self.hart.branches);
        let spin = &mut self.shared.spin;
        let nothing = || Box::new(Remembered::nothing(of));
        let remembered = spin.remembered.get_or_insert_with(nothing);
        remembered.pc = pc;
        remembered
            .registers
            .copy_from_slice(&self.hart.registers[..NAMED_REGISTERS]);
        remembered.is_whole = false;
        remembered.iteration = spin.quiet_iterations;
        remembered.predictor_changes = self.shared.predictor.changes();
        spin.told = self.hart.registers[usize::from(spin.telltale)];
        spin.is_marked = true;
        if spin.known < QUIET_ITERATIONS || spin.attempts == KNOWN_ATTEMPTS {
            spin.known = 0;
            spin.next = 2 * spin.quiet_iterations;
            return;
        }
        spin.next = spin.quiet_iterations + spin.known;
        spin.attempts += 1;
        if self.is_quiet()
            && let Some(remembered) = self.shared.spin.remembered.take()
        {
            self.shared.spin.remembered = Some(self.remember(remembered, true));
        }
    }

    /// Compares the state with the remembered one, which has the same registers: the core dozes if
    /// all of it is the same.
    fn compare(&mut self) {
        let Some(remembered) = &self.shared.spin.remembered else {
            return;
        };
        let period = self.hart.dispatch_cycle - remembered.cycle;
        if period == 0 {
            return;
        }
        // What costs least and differs most often comes first.
        let changes = self.shared.predictor.changes();
        let has_settled = changes == remembered.predictor_changes;
        if self.hart.branches != remembered.branches
            || !(has_settled || remembered.has_predictor)
            || !self.has_timing_as_remembered()
        {
            return;
        }
        let Some(remembered) = &self.shared.spin.remembered else {
            return;
        };
        let is_alike = |cache: &PrivateCache, (order, recent): &(Vec<u8>, Vec<Slot>)| {
            cache.replacement_order() == (order, recent)
        };
        let [data, instructions] = &remembered.replacement;
        if is_alike(&self.shared.data_cache, data)
            && is_alike(&self.shared.instruction_cache, instructions)
            && (has_settled || self.shared.predictor == remembered.predictor)
        {
            // Where the registers return soon, the state does after as few iterations, once it has
            // settled.
            let returned = remembered.whole_iteration - remembered.iteration;
            self.shared.spin.known = match returned {
                1..QUIET_ITERATIONS => 0,
                _ => self.shared.spin.quiet_iterations - remembered.whole_iteration,
            };
            self.shared.spin.doze = Some(Doze {
                period,
                before: remembered.statistics.clone(),
            });
            // Dispatch ends here.
            self.shared.stop = self.hart.dispatch_cycle;
        }
    }

    fn has_timing_as_remembered(&mut self) -> bool {
        let Some(remembered) = self.shared.spin.remembered.take() else {
            return false;
        };
        let mut words = remembered.timing.iter();
        let is_alike = self.timing(|word| words.next() == Some(&word)) && words.next().is_none();
        self.shared.spin.remembered = Some(remembered);
        is_alike
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

    /// Adds the rest of the state to the registers in `remembered`, with the predictor if it may
    /// change in the loop.
    fn remember(
        &mut self,
        mut remembered: Box<Remembered>,
        has_predictor: bool,
    ) -> Box<Remembered> {
        let one = &mut *remembered;
        one.is_whole = true;
        one.whole_iteration = self.shared.spin.quiet_iterations;
        one.cycle = self.hart.dispatch_cycle;
        one.timing.clear();
        self.timing(|word| {
            one.timing.push(word);
            true
        });
        one.statistics = self.hart.statistics.clone();
        if let Some(translation) = &self.shared.translation {
            one.statistics.translation = translation.statistics();
        }
        let caches = [&self.shared.data_cache, &self.shared.instruction_cache];
        for (cache, (order, recent)) in caches.iter().zip(&mut one.replacement) {
            let (order_now, recent_now) = cache.replacement_order();
            order.clear();
            order.extend_from_slice(order_now);
            recent.clear();
            recent.extend_from_slice(recent_now);
        }
        one.has_predictor = has_predictor;
        one.predictor_changes = self.shared.predictor.changes();
        if one.has_predictor {
            one.predictor.copy_from(&self.shared.predictor);
        }
        one.branches.clone_from(&self.hart.branches);
        remembered
    }

    /// Tells future events relative to now, and whether the caches are the same, until `tell`
    /// returns false. Returns whether it has told all. What differs most often comes first.
    fn timing(&mut self, mut tell: impl FnMut(u64) -> bool) -> bool {
        self.blame(self.hart.dispatch_cycle, Stall::None);
        let now = self.hart.dispatch_cycle;
        let relative = |cycle: u64| cycle.saturating_sub(now);
        let horizon = self.horizon();
        let first = [
            horizon,
            relative(self.hart.window.last_commit),
            relative(self.hart.last_issue),
            u64::from(self.shared.in_scheduler),
            relative(self.shared.scheduler_cycle),
            self.shared.data_cache.content_version(),
            self.shared.instruction_cache.content_version(),
        ];
        let ready = &self.hart.ready[..NAMED_REGISTERS];
        if !(first.into_iter().all(&mut tell)
            && self.times_in_flight(now, &mut tell)
            && ready.iter().map(|&ready| relative(ready)).all(&mut tell)
            && self.shared.calendar.ahead(now, horizon).all(&mut tell))
        {
            return false;
        }
        // Only first-level misses access the second level, so that its replacement state changes no
        // more than its contents.
        if let Some(second) = &self.shared.second_level
            && !tell(second.cache().content_version())
        {
            return false;
        }
        // The same holds for the second-level TLB.
        if let Some(translation) = &self.shared.translation {
            let fetched = self.hart.fetched.iter().flat_map(|fetched| {
                let place = [fetched.page, fetched.space, fetched.frame.number()];
                let times = [relative(fetched.from), u64::from(fetched.has_missed)];
                place.into_iter().chain(times)
            });
            if !translation.words().chain(fetched).all(&mut tell) {
                return false;
            }
        }
        let Some(prefetching) = &mut self.shared.data_prefetching else {
            return true;
        };
        let mut words = Vec::new();
        prefetching.append_words(&mut words);
        words.into_iter().all(tell)
    }

    /// Tells the commits that are not before `now`, and the loads among them, as
    /// [`Core::timing`] does: older ones have left the reorder buffer and the load queue.
    fn times_in_flight(&self, now: u64, tell: &mut impl FnMut(u64) -> bool) -> bool {
        let recent = self.hart.window.recent().rev();
        let commits = recent.map(|position| self.hart.window.commit(position));
        let mut commits = commits.take_while(|&commit| commit >= now);
        if !(commits.all(|commit| tell(commit - now)) && tell(NEVER)) {
            return false;
        }
        let loads = self.hart.loads.in_queue().rev();
        let loads = loads.map(|number| self.hart.loads.get(number));
        let mut loads = loads.take_while(|load| load.commit >= now);
        loads.all(|load| {
            let performed = load.performed.saturating_sub(now);
            tell(load.commit - now) && tell(performed) && tell(load.address)
        }) && tell(NEVER)
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
        self.hart.ready[..NAMED_REGISTERS]
            .iter_mut()
            .for_each(move_on);
        for position in self.hart.window.recent().rev() {
            if self.hart.window.commit(position) < now {
                // All of this and of older ones is over.
                break;
            }
            move_on(self.hart.window.commit_mut(position));
            let slot = self.hart.window.slot_mut(position);
            move_on(&mut slot.complete);
            move_on(&mut slot.issue);
            // The values that a squash restores.
            move_on(&mut slot.previous_ready);
        }
        for number in self.hart.loads.in_queue().rev() {
            let load = self.hart.loads.get_mut(number);
            if load.commit < now {
                break;
            }
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
