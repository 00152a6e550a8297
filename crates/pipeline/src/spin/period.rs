//! A core's part in a period of core and fabric together.
//!
//! A loop over more lines than the caches hold never reaches a steady state that [`super::doze`]
//! could detect. But if nothing is stored, no other component acts and the time is not read, the
//! whole server may return to the same state except for the time. The core detects a loop that
//! closes with the same registers as some iterations ago. The engine compares sample points shortly
//! after that ([`Periodic::compare`]), and if two are equal, advances everything by many periods
//! ([`Periodic::move_on`]).

use crate::core::{Core, NEVER};
use crate::kind::CoreKind;
use crate::predictor::BranchStep;
use crate::stack::{CycleStack, PARTS};
use crate::window::{OPERANDS, UNKNOWN};
use riscv::Class;
use state::{State, Walker};

/// Iterations until the first state is remembered; each later state comes after so many times as
/// many iterations.
const FIRST_MARK: u64 = 16;

/// The number of sample points that are proposed in each known period.
const PHASES: u64 = 4;

/// A known period is discarded after so many sample points in which it was not found again.
const MAX_PROPOSALS: u64 = 8 * PHASES;

/// The maximum number of branch steps recorded since a sample point.
const MAX_BRANCH_STEPS: usize = 1 << 20;

/// Looks for loops that return to the same registers, by Brent's method. If a period has been found
/// before, its length is known, and sample points are proposed at that distance.
#[derive(Default)]
pub(super) struct LoopMark {
    /// Iterations since the last state change.
    iterations: u64,
    /// The iteration at which the next state is remembered, or the next sample point of a known
    /// period is proposed.
    next: u64,
    /// See [`Core::state_changes`].
    state_changes: u64,
    /// The remembered state: where the loop closed, and the registers.
    pc: u64,
    registers: Vec<u64>,
    /// A possible period.
    proposed: Option<ClosedLoop>,
    /// Iterations until the next proposal.
    patience: u64,
    /// The last period that was found.
    known: Option<KnownPeriod>,
}

/// A period that was found.
struct KnownPeriod {
    /// Its length in iterations.
    iterations: u64,
    /// The number of iterations from the last state change to the first proposed sample point:
    /// approximately where the repetition began the last time.
    begin: u64,
    /// The next of its sample points to propose.
    phase: u64,
    /// The number of sample points proposed since it was found.
    proposals: u64,
}

impl KnownPeriod {
    /// Iterations between two proposed sample points.
    fn stride(&self) -> u64 {
        self.iterations.div_ceil(PHASES)
    }
}

/// A closed loop, at which a period may begin or end.
#[derive(Clone, Copy, Debug)]
pub struct ClosedLoop {
    /// The cycle.
    pub cycle: u64,
    /// The number of loops closed since the last state change.
    pub iterations: u64,
    /// The index of the sample point in its period: it must be compared with the last one of the
    /// same phase.
    pub phase: u64,
    /// Whether a period of this length has been found before; otherwise only the registers agree.
    pub is_known: bool,
}

/// A core whose periods an engine can find and skip, together with those of the fabric.
pub trait Periodic {
    /// A loop at which a period may begin or end, if one has closed since the last call.
    fn take_closed_loop(&mut self) -> Option<ClosedLoop>;

    /// The closed loop is not a period: the next proposal comes after twice as many iterations.
    fn refuse_period(&mut self);

    /// Discards all observations of loops.
    fn forget_loops(&mut self);

    /// Walks the state that determines the core's behaviour from the beginning of cycle `now` on,
    /// up to which it has run. If this state and the fabric's are equal at two sample points, and
    /// nothing has been stored in between, the same execution follows both. Registers and queues
    /// are numbered from their ends; completed instructions do not count.
    fn compare(&mut self, now: u64, walker: &mut dyn Walker);

    /// Advances the state by `cycles` from the beginning of cycle `now`, with a walker that visits
    /// it in the order of [`Periodic::compare`]. `ends` are the loops that had closed before the
    /// two equal sample points, and delimit the period.
    fn move_on(&mut self, now: u64, cycles: u64, ends: [ClosedLoop; 2], walker: &mut dyn Walker);

    /// Marks a sample point: from now on the effects of branches are recorded. Returns the present
    /// length of the record, for [`Periodic::repeat_branches`]. An in-order core records nothing:
    /// its counters are compared.
    fn mark_branches(&mut self) -> usize;

    /// The core has returned to the state of a sample point, except for the counters of the branch
    /// predictor. Repeats the recorded branches since then up to `times` times, as long as all
    /// predictions stay the same: everything else then does, too. Returns the number of
    /// repetitions, after which the counters have their new values.
    fn repeat_branches(&mut self, mark: usize, times: u64) -> u64;

    /// Stops recording branches, and discards the record.
    fn end_branches(&mut self);
}

impl<K: CoreKind> Periodic for Core<K> {
    fn take_closed_loop(&mut self) -> Option<ClosedLoop> {
        self.shared.spin.mark.proposed.take()
    }

    fn refuse_period(&mut self) {
        let mark = &mut self.shared.spin.mark;
        mark.patience = mark.iterations.saturating_mul(2);
    }

    fn forget_loops(&mut self) {
        self.shared.spin.mark = LoopMark::default();
        self.shared.spin.forget();
    }

    fn compare(&mut self, now: u64, walker: &mut dyn Walker) {
        let translation = self.shared.translation.as_mut();
        let walks_nothing = translation.is_none_or(|one| {
            one.settle(now);
            one.is_quiet()
        });
        let quiet = walks_nothing
            && self.hart.stores.is_empty()
            && self.hart.serial.is_none()
            && self.hart.posted.is_empty()
            && self.hart.refused_store.is_none()
            && self.shared.stashes.is_empty()
            && self.shared.crash.is_none()
            && self.hart.acquire.is_none()
            && self.hart.probed.is_none()
            && self.hart.held.is_empty()
            && self.hart.waiting_loads.is_empty()
            && self.hart.woken.is_empty()
            && !self.hart.float_in_window
            && !self.dozes()
            && !self.is_multithreaded()
            && !K::IS_ACTIVE;
        if !quiet {
            walker.refuse("the core does more than read".to_string());
            return;
        }
        self.advance_scheduler(now);
        self.walk(walker);
        // Compared differently from how it is saved: see `apart` of [`state::fields`].
        self.compare_window(now, walker);
        self.compare_loads(now, walker);
        let mut ahead = Vec::new();
        self.shared.calendar.ahead_of(now, &mut ahead);
        ahead.walk(walker);
        walker.number(&mut self.state_changes());
        walker.number(&mut now.wrapping_sub(self.hart.charged));
        walker.cycle(&mut self.hart.stores.last_performed);
        self.shared.instruction_cache.compare_version(walker);
        if K::IN_ORDER {
            self.shared.predictor.walk_counters(walker);
        }
    }

    fn move_on(&mut self, now: u64, cycles: u64, ends: [ClosedLoop; 2], walker: &mut dyn Walker) {
        let before = self.hart.statistics.stack;
        self.shared.calendar.shift_all(now, cycles);
        self.walk(walker);
        // Counts that are recorded at a branch's dispatch have been counted that much later.
        let counted = before.parts_until(&self.hart.statistics.stack);
        for prediction in self.hart.window.predictions.iter_mut() {
            prediction.cycles.0.add_parts(&counted);
        }
        self.shared.spin.skipped_cycles += cycles;
        let known = self.shared.spin.mark.known.take();
        self.forget_loops();
        if K::IN_ORDER {
            // The quick path closes most iterations and does not count them.
            return;
        }
        let [first, last] = ends;
        // A loop has closed in it, since it was proposed.
        let mut known = KnownPeriod {
            iterations: (last.iterations - first.iterations).max(1),
            begin: known.map_or(1, |known| known.begin),
            phase: 0,
            proposals: 0,
        };
        if first.is_known {
            // If the first sample point was in a period already, an earlier one may be, too.
            known.begin = match first.iterations == known.begin {
                true => first.iterations.saturating_sub(known.stride()).max(1),
                false => first.iterations,
            };
        }
        self.shared.spin.mark.known = Some(known);
    }

    fn mark_branches(&mut self) -> usize {
        if !K::IN_ORDER {
            self.shared.spin.records_branches = true;
            self.hart.observe_window();
        }
        self.shared.spin.branch_steps.len()
    }

    fn repeat_branches(&mut self, mark: usize, times: u64) -> u64 {
        self.shared
            .predictor
            .repeat(&self.shared.spin.branch_steps[mark..], times)
    }

    fn end_branches(&mut self) {
        self.interrupt_branches();
        self.shared.spin.branch_steps.clear();
    }
}

impl<K: CoreKind> Core<K> {
    /// The number of actions after which no iteration of a loop is like the previous ones: a store,
    /// or a read of the time.
    #[inline(always)]
    fn state_changes(&self) -> u64 {
        self.hart.statistics.stores + self.shared.spin.clock_reads
    }

    /// A backward branch to `pc` is taken, or predicted taken.
    #[inline]
    pub(crate) fn begins_iteration_at(&mut self, pc: u64) {
        // Cores with several harts are excluded.
        if !self.shared.spin.enabled || self.is_multithreaded() {
            return;
        }
        let state_changes = self.state_changes();
        let mark = &mut self.shared.spin.mark;
        mark.iterations += 1;
        if mark.state_changes != state_changes && mark.iterations == 1 {
            // A state change in every iteration, as in most loops: nothing has been recorded since
            // the last one.
            mark.state_changes = state_changes;
            mark.iterations = 0;
        } else if mark.state_changes != state_changes || mark.iterations >= mark.next {
            self.set_mark(pc);
        } else if mark.pc == pc
            && mark.iterations >= mark.patience
            && mark.registers[..] == self.hart.registers[..]
        {
            mark.proposed = Some(ClosedLoop {
                cycle: self.hart.dispatch_cycle,
                iterations: mark.iterations,
                phase: 0,
                is_known: false,
            });
        }
    }

    #[inline(never)]
    fn set_mark(&mut self, pc: u64) {
        let state_changes = self.state_changes();
        if self.shared.spin.mark.state_changes != state_changes {
            self.interrupt_branches();
            let mark = &mut self.shared.spin.mark;
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
        let mark = &mut self.shared.spin.mark;
        if let Some(known) = &mut mark.known {
            if known.proposals < MAX_PROPOSALS {
                known.proposals += 1;
                mark.proposed = Some(ClosedLoop {
                    cycle: self.hart.dispatch_cycle,
                    iterations: mark.iterations,
                    phase: known.phase,
                    is_known: true,
                });
                // The same sample points recur after exactly the iterations of a period.
                let stride = known.stride();
                let left = known.iterations.saturating_sub(known.phase * stride);
                mark.next = mark.iterations + stride.min(left);
                known.phase = if left <= stride { 0 } else { known.phase + 1 };
                return;
            }
            mark.known = None;
        }
        self.interrupt_branches();
        let mark = &mut self.shared.spin.mark;
        mark.next = mark.iterations.saturating_mul(FIRST_MARK).max(FIRST_MARK);
        mark.pc = pc;
        mark.registers.clear();
        mark.registers.extend_from_slice(&self.hart.registers);
    }

    fn compare_window(&mut self, now: u64, walker: &mut dyn Walker) {
        let tail = self.hart.window.tail;
        let ring = self.hart.window.deferred_entries();
        // The index of a deferred instruction, counted from the tail.
        let place = |index: u64| index.wrapping_sub(tail) & (ring - 1);
        let whose = |ready: u64| match ready {
            UNKNOWN.. => UNKNOWN + place(ready - UNKNOWN),
            cycle => cycle,
        };
        for &ready in &self.hart.ready {
            walker.cycle(&mut whose(ready));
        }
        walker.number(&mut (tail - self.hart.window.commit_known));
        walker.cycle(&mut self.hart.window.last_commit);
        for position in self.hart.window.recent() {
            walker.cycle(self.hart.window.commit_mut(position));
            let slot = self.hart.window.slot_mut(position);
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
            let index = self.hart.window.index(position);
            let deferred = self.hart.window.deferred(index).clone();
            let is_used = deferred.position == position;
            is_used.clone().walk(walker);
            if !is_used {
                continue;
            }
            let is_load = deferred.instruction.class == Class::Load;
            let rest = self.hart.window.rest(index);
            let queue_number = match is_load {
                true => self.hart.loads.tail.wrapping_sub(rest.queue_number),
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
                rest.stores_before.saturating_sub(self.hart.stores.head),
            ];
            numbers.walk(walker);
            let operands = match deferred.instruction.class {
                Class::FloatFused => 3,
                _ => 2,
            };
            for operand in 0..operands {
                let value = self.hart.window.operand(index, operand);
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
            for waiter in self.hart.window.waiters(index) {
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
                let mut prediction = self.hart.window.predictions[index];
                let (stack, charged) = &mut prediction.cycles;
                let mut since = stack.parts_until(&self.hart.statistics.stack);
                since.walk(walker);
                walker.number(&mut now.wrapping_sub(*charged));
                walker.number(&mut prediction.next);
                prediction.lookup.walk(walker);
                prediction.returns.walk(walker);
            }
        }
    }

    fn compare_loads(&mut self, now: u64, walker: &mut dyn Walker) {
        let tail = self.hart.window.tail;
        walker.number(&mut (self.hart.loads.tail - self.hart.loads.committed));
        for number in self.hart.loads.in_queue() {
            let stores = self.hart.stores.head;
            let load = self.hart.loads.get_mut(number);
            // All performed stores are equivalent.
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
        let ring = self.hart.window.deferred_entries();
        for load in self.hart.missing.iter().chain(&self.hart.refused) {
            let mut numbers = [
                load.line.0,
                u64::from(load.index).wrapping_sub(tail) & (ring - 1),
                u64::from(load.live),
                now.wrapping_sub(load.issue),
            ];
            numbers.walk(walker);
        }
        let mut numbers = [
            self.hart.missing.len() as u64,
            self.hart.refused.len() as u64,
        ];
        numbers.walk(walker);
    }

    /// Branches are not recorded until the next sample point, since nothing will be compared with
    /// the previous ones. Dispatch may take the quick path again.
    #[inline(never)]
    fn interrupt_branches(&mut self) {
        if self.shared.spin.records_branches {
            self.shared.spin.branch_steps.push(BranchStep::Gap);
            self.shared.spin.records_branches = false;
            self.look_for_observers();
        }
    }

    /// Records the effect of a branch, if branches are being recorded.
    #[inline]
    pub(crate) fn note_branch(&mut self, step: BranchStep) {
        if self.shared.spin.records_branches {
            self.shared.spin.branch_steps.push(step);
            if self.shared.spin.branch_steps.len() >= MAX_BRANCH_STEPS {
                self.interrupt_branches();
            }
        }
    }
}

impl CycleStack {
    /// The counts since then, up to `later`.
    fn parts_until(&self, later: &CycleStack) -> [u64; PARTS] {
        let (one, other) = (self.parts(), later.parts());
        std::array::from_fn(|part| other[part].wrapping_sub(one[part]))
    }
}
