//! A core's part in a period of core and fabric together.
//!
//! A loop over more lines than the caches hold never comes to rest, so [`crate::skip`] cannot see
//! that it repeats. But where nothing is stored, nobody else acts, and nobody asks for the time,
//! the whole server may come back to the same state but for the time. The core notices when a loop
//! closes with the same registers as some iterations ago. Whoever runs core and fabric compares the
//! sample points that are a little after that ([`Core::compare`]), and if two are equal moves all
//! on by many periods ([`Core::move_on`]).

use crate::core::{Core, NEVER};
use crate::extension::Extension;
use crate::predictor::BranchStep;
use crate::stack::{CycleStack, PARTS};
use crate::window::{OPERANDS, UNKNOWN};
use riscv::Class;
use state::{Purpose, State, Walker};

/// Iterations until the first state is remembered, and by how many times more each later one is.
const FIRST_MARK: u64 = 16;

/// So many sample points of a period that is known are proposed.
const PHASES: u64 = 4;

/// After so many of them without finding it again it is forgotten.
const MAX_PROPOSALS: u64 = 8 * PHASES;

/// What branches have done since a sample point is recorded up to so many steps.
const MAX_BRANCH_STEPS: usize = 1 << 20;

/// Looks for loops that come back to the same registers, by Brent's method. Where a period has been
/// found before, its length is known: then sample points are proposed that are that far from each
/// other.
#[derive(Default)]
pub(crate) struct LoopMark {
    /// Since the last state change.
    iterations: u64,
    /// The iteration at which another state is remembered, or a sample point of a known period is
    /// proposed.
    next: u64,
    /// See [`Core::state_changes`].
    state_changes: u64,
    /// What is remembered: where the loop closed, and the registers then.
    pc: u64,
    registers: Vec<u64>,
    /// What may be a period.
    proposed: Option<ClosedLoop>,
    /// Iterations to wait for before the next proposal.
    patience: u64,
    /// The period that was found last.
    known: Option<KnownPeriod>,
}

/// A period that has been found.
struct KnownPeriod {
    /// Its length.
    iterations: u64,
    /// How many iterations after the last state change the first sample point is proposed: about
    /// where everything repeats itself, as it was the last time.
    begin: u64,
    /// Which of its sample points is proposed next.
    phase: u64,
    /// How many have been proposed since it was found.
    proposals: u64,
}

impl KnownPeriod {
    /// Iterations between two sample points that are proposed.
    fn stride(&self) -> u64 {
        self.iterations.div_ceil(PHASES)
    }
}

/// A loop has closed at which a period may begin or have ended.
#[derive(Clone, Copy, Debug)]
pub struct ClosedLoop {
    /// In which cycle.
    pub cycle: u64,
    /// How often loops have closed since the last state change.
    pub iterations: u64,
    /// Which of the sample points that are looked at: it is to be compared with the last one of the
    /// same phase.
    pub phase: u64,
    /// Whether there has been a period of this length; otherwise the registers alone tell.
    pub is_known: bool,
}

impl<X: Extension, const IN_ORDER: bool> Core<X, IN_ORDER> {
    /// How often something has been done after which no iteration of a loop is like those before: a
    /// store, or a look at the clock.
    #[inline(always)]
    fn state_changes(&self) -> u64 {
        self.statistics.stores + self.clock_reads
    }

    /// A backward branch to `pc` is taken, or predicted to be.
    #[inline]
    pub(crate) fn begins_iteration_at(&mut self, pc: u64) {
        // With another hart beside it no core is looked at.
        if !self.spin.enabled || self.other_hart.is_some() {
            return;
        }
        let state_changes = self.state_changes();
        let mark = &mut self.spin.mark;
        mark.iterations += 1;
        if mark.state_changes != state_changes && mark.iterations == 1 {
            // A state change in every iteration, as in most loops: nothing has been noted since the
            // last one.
            mark.state_changes = state_changes;
            mark.iterations = 0;
        } else if mark.state_changes != state_changes || mark.iterations >= mark.next {
            self.set_mark(pc);
        } else if mark.pc == pc
            && mark.iterations >= mark.patience
            && mark.registers[..] == self.registers[..]
        {
            mark.proposed = Some(ClosedLoop {
                cycle: self.dispatch_cycle,
                iterations: mark.iterations,
                phase: 0,
                is_known: false,
            });
        }
    }

    #[inline(never)]
    fn set_mark(&mut self, pc: u64) {
        let state_changes = self.state_changes();
        if self.spin.mark.state_changes != state_changes {
            self.interrupt_branches();
            let mark = &mut self.spin.mark;
            let known = mark
                .known
                .take()
                .map(|known| KnownPeriod { phase: 0, ..known });
            *mark = LoopMark {
                state_changes,
                next: known.as_ref().map_or(FIRST_MARK, |known| known.begin),
                registers: std::mem::take(&mut mark.registers),
                pc: NEVER,
                known,
                ..LoopMark::default()
            };
            return;
        }
        let mark = &mut self.spin.mark;
        if let Some(known) = &mut mark.known {
            if known.proposals < MAX_PROPOSALS {
                known.proposals += 1;
                mark.proposed = Some(ClosedLoop {
                    cycle: self.dispatch_cycle,
                    iterations: mark.iterations,
                    phase: known.phase,
                    is_known: true,
                });
                // The same sample points come again after just the iterations of a period.
                let stride = known.stride();
                let left = known.iterations.saturating_sub(known.phase * stride);
                mark.next = mark.iterations + stride.min(left);
                known.phase = if left <= stride { 0 } else { known.phase + 1 };
                return;
            }
            mark.known = None;
        }
        self.interrupt_branches();
        let mark = &mut self.spin.mark;
        mark.next = mark.iterations.saturating_mul(FIRST_MARK).max(FIRST_MARK);
        mark.pc = pc;
        mark.registers.clear();
        mark.registers.extend_from_slice(&self.registers);
    }

    /// A loop at which a period may begin or have ended, if one has closed since this was last asked.
    #[inline]
    pub fn take_closed_loop(&mut self) -> Option<ClosedLoop> {
        self.spin.mark.proposed.take()
    }

    /// What has closed was no period: the next comes after twice as many iterations.
    pub fn refuse_period(&mut self) {
        let mark = &mut self.spin.mark;
        mark.patience = mark.iterations.saturating_mul(2);
    }

    /// Forgets what has been noticed of loops.
    pub fn forget_loops(&mut self) {
        self.spin.mark = LoopMark::default();
        self.spin.forget();
    }

    /// Shows what decides on all that the core does from the beginning of cycle `now` on, before
    /// which it has done everything. Two sample points between which nothing has been stored, and
    /// at which this is equal, are followed by the same, if the fabric is equal, too. Registers and
    /// queues are numbered from their ends; what is over counts no more.
    pub fn compare(&mut self, now: u64, walker: &mut dyn Walker) {
        let quiet = self.stores.is_empty()
            && self.serial.is_none()
            && self.posted.is_empty()
            && self.refused_store.is_none()
            && self.stashes.is_empty()
            && self.crash.is_none()
            && self.acquire.is_none()
            && self.probed.is_none()
            && self.held.is_empty()
            && self.waiting_loads.is_empty()
            && self.woken.is_empty()
            && !self.float_in_window
            && !self.dozes()
            && self.other_hart.is_none()
            && !X::IS_ACTIVE;
        if !quiet {
            walker.refuse("the core does more than to read".to_string());
            return;
        }
        // All fields. What is not shown below is fixed, empty, dead at the beginning of a cycle, or only
        // tells one use of something from another.
        state::fields!(
            self,
            walker,
            Core {
                spec: fixed,
                id: fixed,
                clock: fixed,
                memory_map: fixed,
                thread: fixed,
                other_hart: fixed,
                went_first: fixed,
                slots: fixed,
                cycle_width: fixed,
                other_hart_watches: fixed,
                region: fixed,
                hart: fixed,
                extension: fixed,
                at_port: fixed,
                handler_from: fixed,
                registers: fixed,
                ready: fixed,
                pc: fixed,
                cursor: fixed,
                dispatch_cycle: fixed,
                dispatch_left: fixed,
                last_issue: fixed,
                stop: fixed,
                feedback: fixed,
                blocked: fixed,
                window: fixed,
                calendar: fixed,
                in_scheduler: fixed,
                unissued: fixed,
                scheduler_cycle: fixed,
                float_in_window: fixed,
                observes: fixed,
                probed: fixed,
                acquire: fixed,
                predictor: fixed,
                branch_steps: fixed,
                records_branches: fixed,
                blocks: fixed,
                instruction_cache: fixed,
                data_cache: fixed,
                second_level: fixed,
                second_level_event: fixed,
                loads: fixed,
                stores: fixed,
                stashes: fixed,
                postponed: fixed,
                missing: fixed,
                arrived: fixed,
                waiting_loads: fixed,
                refused: fixed,
                woken: fixed,
                wait_table: fixed,
                store_event: fixed,
                serial: fixed,
                serial_event: fixed,
                posted: fixed,
                refused_store: fixed,
                reservation: fixed,
                awaited: fixed,
                attempts: fixed,
                hold_until: fixed,
                held: fixed,
                activity: fixed,
                next_token: fixed,
                clock_reads: fixed,
                watch: fixed,
                observations: fixed,
                crash: fixed,
                statistics: fixed,
                skipped_cycles: fixed,
                stall: fixed,
                charged: fixed,
                spin: fixed,
            }
        );
        self.advance_scheduler(now);
        self.compare_window(now, walker);
        self.compare_loads(now, walker);
        let mut ahead = Vec::new();
        self.calendar.ahead_of(now, &mut ahead);
        let mut charged = now.wrapping_sub(self.charged);
        let mut numbers = [
            self.state_changes(),
            self.pc,
            u64::from(self.cursor),
            u64::from(self.dispatch_left),
            u64::from(self.in_scheduler),
            u64::from(self.unissued),
            self.stall as u64,
            u64::from(self.blocked),
        ];
        numbers.walk(walker);
        walker.number(&mut charged);
        ahead.walk(walker);
        self.registers.walk(walker);
        self.region.walk(walker);
        self.hart.walk(walker);
        self.extension.walk(walker);
        self.predictor.walk(walker);
        if IN_ORDER {
            self.predictor.walk_counters(walker);
        }
        self.wait_table.walk(walker);
        self.reservation.walk(walker);
        self.awaited.walk(walker);
        self.attempts.walk(walker);
        self.blocks.walk(&self.calendar, walker);
        for cycle in [
            &mut self.dispatch_cycle,
            &mut self.last_issue,
            &mut self.scheduler_cycle,
            &mut self.second_level_event,
            &mut self.store_event,
            &mut self.serial_event,
            &mut self.hold_until,
            &mut self.stores.last_performed,
        ] {
            walker.cycle(cycle);
        }
        self.walk_caches_and_counts(walker);
    }

    fn walk_caches_and_counts(&mut self, walker: &mut dyn Walker) {
        if walker.purpose() == Purpose::Compare {
            self.instruction_cache.compare_version(walker);
        }
        self.data_cache.walk(walker);
        if let Some(second) = &mut self.second_level {
            second.walk(walker);
        }
        self.statistics.operations = self.calendar.operations;
        self.statistics.walk(walker);
        self.calendar.operations = self.statistics.operations;
    }

    fn compare_window(&mut self, now: u64, walker: &mut dyn Walker) {
        let tail = self.window.tail;
        let ring = self.window.deferred_entries();
        // The place of what is deferred, counted from the tail.
        let place = |index: u64| index.wrapping_sub(tail) & (ring - 1);
        let whose = |ready: u64| match ready {
            UNKNOWN.. => UNKNOWN + place(ready - UNKNOWN),
            cycle => cycle,
        };
        for &ready in &self.ready {
            walker.cycle(&mut whose(ready));
        }
        walker.number(&mut (tail - self.window.commit_known));
        walker.cycle(&mut self.window.last_commit);
        for position in self.window.recent() {
            walker.cycle(self.window.commit_mut(position));
            let slot = self.window.slot_mut(position);
            walker.cycle(&mut slot.issue);
            walker.cycle(&mut slot.complete);
            walker.cycle(&mut whose(slot.previous_ready));
            walker.number(&mut slot.previous_value);
            walker.number(&mut slot.tags.pc);
            slot.tags.rd.walk(walker);
            slot.tags.flags.walk(walker);
            slot.tags.kind.walk(walker);
            slot.tags.unit.walk(walker);
        }
        for position in tail.saturating_sub(ring)..tail {
            let index = self.window.index(position);
            let deferred = self.window.deferred(index).clone();
            let is_used = deferred.position == position;
            is_used.clone().walk(walker);
            if !is_used {
                continue;
            }
            let is_load = deferred.instruction.class == Class::Load;
            let rest = self.window.rest(index);
            let queue_number = match is_load {
                true => self.loads.tail.wrapping_sub(rest.queue_number),
                false => 0,
            };
            let value = match deferred.resolved {
                true => deferred.value(),
                false => 0,
            };
            let mut numbers = [
                u64::from(deferred.instruction.bits),
                u64::from(deferred.pending),
                u64::from(deferred.resolved),
                value,
                queue_number,
                rest.stores_before.saturating_sub(self.stores.head),
            ];
            numbers.walk(walker);
            let operands = match deferred.instruction.class {
                Class::FloatFused => 3,
                _ => 2,
            };
            for operand in 0..operands {
                let value = self.window.operand(index, operand);
                match deferred.pending & (1 << operand) {
                    0 => value,
                    _ => place(value),
                }
                .walk(walker);
            }
            walker.cycle(&mut deferred.earliest.clone());
            if deferred.resolved {
                continue;
            }
            for waiter in self.window.waiters(index) {
                let mut pair = [
                    place(u64::from(waiter) / OPERANDS as u64),
                    u64::from(waiter) % OPERANDS as u64,
                ];
                pair.walk(walker);
            }
            if matches!(
                deferred.instruction.class,
                Class::Branch | Class::JumpRegister
            ) {
                let mut prediction = self.window.predictions[index];
                let (stack, charged) = &mut prediction.cycles;
                let mut since = stack.parts_until(&self.statistics.stack);
                since.walk(walker);
                walker.number(&mut now.wrapping_sub(*charged));
                walker.number(&mut prediction.next);
                prediction.lookup.walk(walker);
                prediction.returns.walk(walker);
            }
        }
    }

    fn compare_loads(&mut self, now: u64, walker: &mut dyn Walker) {
        let tail = self.window.tail;
        walker.number(&mut (self.loads.tail - self.loads.committed));
        for number in self.loads.in_queue() {
            let stores = self.stores.head;
            let load = self.loads.get_mut(number);
            // A store that has been performed is as good as any other.
            let from = match load.forwarded_from {
                0 => 0,
                store if store <= stores => 1,
                store => store - stores + 1,
            };
            let mut numbers = [
                tail.wrapping_sub(load.position),
                load.address,
                from,
                u64::from(load.bytes),
            ];
            numbers.walk(walker);
            walker.cycle(&mut load.performed);
            walker.cycle(&mut load.commit);
        }
        let ring = self.window.deferred_entries();
        for load in self.missing.iter().chain(&self.refused) {
            let mut numbers = [
                load.line.0,
                u64::from(load.index).wrapping_sub(tail) & (ring - 1),
                u64::from(load.live),
                now.wrapping_sub(load.issue),
            ];
            numbers.walk(walker);
        }
        let mut numbers = [self.missing.len() as u64, self.refused.len() as u64];
        numbers.walk(walker);
    }

    /// Moves on by `cycles` from the beginning of cycle `now`, with a walker that does so in the
    /// order of [`Core::compare`]. The period is between the loops that had closed before the two
    /// sample points that are equal.
    pub fn move_on(
        &mut self,
        now: u64,
        cycles: u64,
        ends: [ClosedLoop; 2],
        walker: &mut dyn Walker,
    ) {
        let before = self.statistics.stack;
        self.calendar.shift_all(now, cycles);
        self.ready.iter_mut().for_each(|cycle| walker.cycle(cycle));
        self.window.walk(walker);
        self.loads.walk(walker);
        self.stores.walk(walker);
        self.missing.walk(walker);
        self.refused.walk(walker);
        for cycle in [
            &mut self.charged,
            &mut self.dispatch_cycle,
            &mut self.last_issue,
            &mut self.scheduler_cycle,
            &mut self.second_level_event,
            &mut self.store_event,
            &mut self.serial_event,
            &mut self.hold_until,
        ] {
            walker.cycle(cycle);
        }
        self.walk_caches_and_counts(walker);
        // What was counted when a branch was dispatched has been counted that much later.
        let counted = before.parts_until(&self.statistics.stack);
        for prediction in self.window.predictions.iter_mut() {
            prediction.cycles.0.add_parts(&counted);
        }
        self.skipped_cycles += cycles;
        let known = self.spin.mark.known.take();
        self.forget_loops();
        if IN_ORDER {
            // Most iterations are closed in the short way there, which does not count them.
            return;
        }
        let [first, last] = ends;
        // A loop has closed in it, or it would not have been proposed.
        let mut known = KnownPeriod {
            iterations: (last.iterations - first.iterations).max(1),
            begin: known.map_or(1, |known| known.begin),
            phase: 0,
            proposals: 0,
        };
        if first.is_known {
            // If the first sample point was one of a period already, an earlier one may be.
            known.begin = match first.iterations == known.begin {
                true => first.iterations.saturating_sub(known.stride()).max(1),
                false => first.iterations,
            };
        }
        self.spin.mark.known = Some(known);
    }

    /// This is a sample point that others may be compared with: what branches do from now on is
    /// recorded. Returns how much of that there has been, to be told to [`Core::repeat_branches`].
    /// In order nothing is: there the counters are compared.
    pub fn mark_branches(&mut self) -> usize {
        if !IN_ORDER {
            self.records_branches = true;
            self.observes = true;
        }
        self.branch_steps.len()
    }

    /// The core has come back to where it was at a sample point, but for the counters that predict
    /// branches. Goes through what branches have done since, over and over again, up to `times`
    /// times, as long as all predictions come out the same: then all else does, too. Returns how
    /// often they did; the counters are what they are then.
    pub fn repeat_branches(&mut self, mark: usize, times: u64) -> u64 {
        self.predictor.repeat(&self.branch_steps[mark..], times)
    }

    /// Branches are recorded no more, and what has been recorded is forgotten.
    pub fn end_branches(&mut self) {
        self.interrupt_branches();
        self.branch_steps.clear();
    }

    /// Branches are not recorded until the next sample point: nothing comes back to those so far.
    /// So what comes may be dispatched quickly again.
    #[inline(never)]
    fn interrupt_branches(&mut self) {
        if self.records_branches {
            self.branch_steps.push(BranchStep::Gap);
            self.records_branches = false;
            self.observes = self.is_observed();
        }
    }

    /// Records what a branch does, if that is wanted.
    #[inline]
    pub(crate) fn note_branch(&mut self, step: BranchStep) {
        if self.records_branches {
            self.branch_steps.push(step);
            if self.branch_steps.len() >= MAX_BRANCH_STEPS {
                self.interrupt_branches();
            }
        }
    }
}

impl CycleStack {
    /// What has been counted since then, up to `later`.
    fn parts_until(&self, later: &CycleStack) -> [u64; PARTS] {
        let (one, other) = (self.parts(), later.parts());
        std::array::from_fn(|part| other[part].wrapping_sub(one[part]))
    }
}
