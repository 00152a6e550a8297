//! A core's part in a period of core and fabric together.
//!
//! A loop over more lines than the caches hold never comes to rest, so [`crate::skip`] cannot see
//! that it repeats. But where nothing is stored, and nobody else acts, the whole server may come back
//! to the same state but for the time. The core notices when a loop closes with the same registers
//! as some turns ago. Whoever runs core and fabric compares the moments that are a little after that
//! ([`Core::compare`]), and if two are equal moves all on by many periods ([`Core::move_on`]).

use crate::core::{Core, NEVER};
use crate::extension::Extension;
use crate::stack::{CycleStack, PARTS};
use crate::window::{OPERANDS, UNKNOWN};
use riscv::Class;
use state::{State, Walker};

/// Turns until the first state is remembered, and by how many times more each later one is.
const FIRST_MARK: u64 = 16;

/// Looks for loops that come back to the same registers, by Brent's method.
#[derive(Default)]
pub(crate) struct LoopMark {
    /// Since the last store.
    turns: u64,
    /// The turn at which another state is remembered.
    next: u64,
    stores: u64,
    /// What is remembered: where the loop closed, and the registers then.
    pc: u64,
    registers: Vec<u64>,
    /// The cycle in which what may be a period has ended.
    proposed: Option<u64>,
    /// Turns to wait for before the next proposal.
    patience: u64,
}

impl<X: Extension, const IN_ORDER: bool> Core<X, IN_ORDER> {
    /// A backward branch to `pc` is taken, or predicted to be.
    #[inline]
    pub(crate) fn turns_to(&mut self, pc: u64) {
        // With another hart beside it no core is looked at.
        if !self.spin.enabled || self.sibling.is_some() {
            return;
        }
        let mark = &mut self.spin.mark;
        mark.turns += 1;
        if mark.stores != self.statistics.stores || mark.turns >= mark.next {
            self.set_mark(pc);
        } else if mark.pc == pc
            && mark.turns >= mark.patience
            && mark.registers[..] == self.registers[..]
        {
            mark.proposed = Some(self.dispatch_cycle);
        }
    }

    #[inline(never)]
    fn set_mark(&mut self, pc: u64) {
        let mark = &mut self.spin.mark;
        if mark.stores != self.statistics.stores {
            *mark = LoopMark {
                stores: self.statistics.stores,
                next: FIRST_MARK,
                registers: std::mem::take(&mut mark.registers),
                pc: NEVER,
                ..LoopMark::default()
            };
            return;
        }
        mark.next = mark.turns.saturating_mul(FIRST_MARK).max(FIRST_MARK);
        mark.pc = pc;
        mark.registers.clear();
        mark.registers.extend_from_slice(&self.registers);
    }

    /// The cycle in which what may be a period has ended, if a loop has closed since this was last
    /// asked.
    #[inline]
    pub fn take_closed_loop(&mut self) -> Option<u64> {
        self.spin.mark.proposed.take()
    }

    /// What has closed was no period: the next comes after twice as many turns.
    pub fn refuse_period(&mut self) {
        let mark = &mut self.spin.mark;
        mark.patience = mark.turns.saturating_mul(2);
    }

    /// Forgets what has been noticed of loops.
    pub fn forget_loops(&mut self) {
        self.spin.mark = LoopMark::default();
        self.spin.forget();
    }

    /// Shows what decides on all that the core does from the beginning of cycle `now` on, before
    /// which it has done everything. Two moments between which nothing has been stored, and at which
    /// this is equal, are followed by the same, if the fabric is equal, too. Registers and queues are
    /// numbered from their ends; what is over counts no more.
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
            && self.parked.is_empty()
            && self.woken.is_empty()
            && !self.float_in_window
            && !self.dozes()
            && self.sibling.is_none()
            && !X::HAS_PORT;
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
                sibling: fixed,
                went_first: fixed,
                slots: fixed,
                cycle_width: fixed,
                sibling_watches: fixed,
                region: fixed,
                hart: fixed,
                extension: fixed,
                at_port: fixed,
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
                attends: fixed,
                probed: fixed,
                acquire: fixed,
                predictor: fixed,
                blocks: fixed,
                instruction_cache: fixed,
                data_cache: fixed,
                second_level: fixed,
                second_level_event: fixed,
                loads: fixed,
                stores: fixed,
                stashes: fixed,
                missing: fixed,
                arrived: fixed,
                parked: fixed,
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
                hold_until: fixed,
                held: fixed,
                activity: fixed,
                next_token: fixed,
                watch: fixed,
                observations: fixed,
                crash: fixed,
                statistics: fixed,
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
            self.statistics.stores,
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
        self.wait_table.walk(walker);
        self.reservation.walk(walker);
        self.awaited.walk(walker);
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
        self.instruction_cache.walk(walker);
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
            walker.number(&mut slot.pc);
            slot.tags.rd.walk(walker);
            slot.tags.flags.walk(walker);
            slot.tags.kind.walk(walker);
            slot.tags.unit.walk(walker);
        }
        for position in tail.saturating_sub(ring)..tail {
            let index = self.window.index(position);
            let deferred = self.window.deferred(index);
            let is_used = deferred.position == position && deferred.id != 0;
            is_used.clone().walk(walker);
            if !is_used {
                continue;
            }
            let is_load = deferred.instruction.class == Class::Load;
            let queue_number = match is_load {
                true => self.loads.tail.wrapping_sub(deferred.queue_number),
                false => 0,
            };
            let (value, ready) = match deferred.resolved {
                true => (deferred.value, deferred.ready),
                false => (0, 0),
            };
            let mut numbers = [
                u64::from(deferred.instruction.bits),
                u64::from(deferred.pending),
                u64::from(deferred.resolved),
                value,
                queue_number,
                deferred.stores_before.saturating_sub(self.stores.head),
            ];
            numbers.walk(walker);
            for operand in 0..3 {
                match deferred.pending & (1 << operand) {
                    0 => deferred.operands[operand],
                    _ => place(deferred.operands[operand]),
                }
                .walk(walker);
            }
            walker.cycle(&mut deferred.earliest.clone());
            walker.cycle(&mut whose(ready));
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
                u64::from(self.window.is_live(load.index as usize, load.id)),
                now.wrapping_sub(load.issue),
            ];
            numbers.walk(walker);
        }
        let mut numbers = [self.missing.len() as u64, self.refused.len() as u64];
        numbers.walk(walker);
    }

    /// Moves on by `cycles` from the beginning of cycle `now`, with a walker that does so in the
    /// order of [`Core::compare`].
    pub fn move_on(&mut self, now: u64, cycles: u64, walker: &mut dyn Walker) {
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
        self.statistics.skipped_cycles += cycles;
        self.forget_loops();
    }
}

impl CycleStack {
    /// What has been counted since then, up to `later`.
    fn parts_until(&self, later: &CycleStack) -> [u64; PARTS] {
        let (one, other) = (self.parts(), later.parts());
        std::array::from_fn(|part| other[part].wrapping_sub(one[part]))
    }
}
