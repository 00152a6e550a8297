//! Dispatch: instructions enter the window in program order.

use crate::blocks::{Decoded, NOWHERE, Route};
use crate::core::Core;
use crate::extension::Extension;
use crate::kind::CoreKind;
use crate::port::AtPort;
use crate::ports::{Need, Unit};
use crate::predictor::{BranchStep, is_link};
use crate::queues::{Load, Store, StoreKind};
use crate::serializing::Serializing;
use crate::spec::MemoryModel;
use crate::stack::{CycleStack, Stall};
use crate::translation::{PageAtDispatch, Wanted};
use crate::window::{Deferred, NOBODY, Prediction, Slot, SlotKind, Tags, UNKNOWN};
use fabric::{LineAddress, Outbox};
use riscv::paging::Access;
use riscv::{
    Class, Instruction, Operation, SINK, branch_taken, evaluate, evaluate_integer, illegal_rounding,
};

/// Why dispatch cannot go on in this call.
enum Stop {
    /// The dispatch cycle has reached the next event.
    Time,
    /// Only an event can help.
    Blocked(Stall),
    /// The instruction is executed alone.
    Serializing,
    /// The block is over.
    Block,
}

/// What is known of the address of a load that is dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadAddress {
    /// Its base is not known.
    Unknown,
    /// Its physical address, and from when on its page may be used.
    Known { address: u64, page_from: u64 },
    /// A page walk looks for the page of this address.
    InWalk(u64),
}

impl<X: Extension, K: CoreKind> Core<X, K> {
    /// Dispatches until the dispatch cycle reaches `self.shared.stop`, or something has to be
    /// waited for.
    pub(crate) fn dispatch(&mut self, outbox: &mut Outbox) {
        loop {
            self.dispatch_quickly(outbox);
            if K::IN_ORDER && self.hart.observes && self.waits_for_walk() {
                // A data access that waits for its page holds up all behind it.
                self.held_up(Stall::Miss);
                self.hart.blocked = true;
                return;
            }
            if self.hart.dispatch_left == 0 {
                self.hart.dispatch_cycle += 1;
                self.hart.dispatch_left = self.shared.spec.width;
            }
            if self.hart.dispatch_cycle >= self.next_stop() {
                if self.store_is_next(outbox) {
                    continue;
                }
                return;
            }
            match self.dispatch_one(outbox) {
                // A load or a store may have turned out to be executed alone.
                Ok(()) if self.hart.observes && self.hart.serial.is_some() => return,
                Ok(()) => {}
                Err(Stop::Block) => {
                    if !self.fetch(outbox) {
                        return;
                    }
                }
                Err(Stop::Time | Stop::Serializing) => return,
                Err(Stop::Blocked(stall)) => {
                    self.held_up(stall);
                    self.hart.blocked = true;
                    return;
                }
            }
        }
    }

    /// The dispatch cycle may not reach this before events have been handled.
    #[inline(always)]
    pub(crate) fn next_stop(&self) -> u64 {
        self.shared.stop.min(self.hart.store_event)
    }

    /// The dispatch cycle has reached `next_stop`. If what comes first is that a store is
    /// performed, does that and returns true, unless others must know of it.
    #[inline(always)]
    fn store_is_next(&mut self, outbox: &mut Outbox) -> bool {
        let now = self.hart.store_event;
        now < self.shared.stop
            && now <= self.hart.dispatch_cycle
            && !self.shared.others_watch
            && self.perform_next_store(now, outbox)
    }

    #[inline(never)]
    fn perform_next_store(&mut self, now: u64, outbox: &mut Outbox) -> bool {
        self.advance_scheduler(now);
        if self.perform_store_at_once(now) {
            return true;
        }
        if !self.hart.stores.next_is_plain() {
            return false;
        }
        let sent = outbox.messages.len();
        self.perform_stores(now, outbox);
        outbox.messages.len() == sent
    }

    /// Ends the instruction at the cursor; the next one follows it.
    #[inline(always)]
    pub(crate) fn step(&mut self, instruction: &Instruction) {
        if self.hart.stall != Stall::None {
            self.blame(self.hart.dispatch_cycle, Stall::None);
        }
        self.hart.pc = self.hart.pc.wrapping_add(u64::from(instruction.length));
        self.hart.cursor += 1;
        self.hart.dispatch_left -= 1;
        self.hart.statistics.instructions += 1;
    }

    /// The instruction at the cursor is followed by the one at `target`.
    #[inline]
    fn jump(&mut self, target: u64) {
        self.hart.pc = target;
        self.hart.cursor = NOWHERE;
        // Fetch ends with a taken branch.
        self.hart.dispatch_left = 0;
    }

    /// Dispatches the instruction at the cursor.
    #[inline(always)]
    fn dispatch_one(&mut self, outbox: &mut Outbox) -> Result<(), Stop> {
        if X::IS_ACTIVE && self.hart.awaits_safepoint && self.begin_at_safepoint() {
            return Err(Stop::Serializing);
        }
        if X::HAS_REGISTERS {
            self.finish_output(outbox)?;
            if self.shared.blocks.instruction(self.hart.cursor).port {
                return self.dispatch_at_port(outbox);
            }
        }
        self.dispatch_plain(outbox)
    }

    /// Dispatches an instruction that takes or gives a word of the extension's.
    #[inline(never)]
    fn dispatch_at_port(&mut self, outbox: &mut Outbox) -> Result<(), Stop> {
        let Decoded {
            instruction: i,
            route,
            ..
        } = *self.shared.blocks.instruction(self.hart.cursor);
        if route >= Route::Serializing {
            return self.alone(i);
        }
        if !self.hart.window.all_known() {
            return Err(Stop::Blocked(self.oldest_stall()));
        }
        if let Err(trap) = self.show_input(&i) {
            self.begin_serial(Serializing::exception(trap));
            return Err(Stop::Serializing);
        }
        let registers = Self::port_registers();
        if registers.gives(&i) {
            // A register waits in the decode stage for whoever writes it before, as for an operand:
            // two loads into it take a cycle more than one into another would (`hazard_targets` in
            // `RocketCore.scala`).
            let issue = self.hart.ready[usize::from(X::OUTPUT)];
            if issue > self.hart.dispatch_cycle + 1 {
                self.wait_until(issue - 1, Stall::Execution)?;
            }
        }
        let pc = self.hart.pc;
        self.dispatch_plain(outbox)?;
        self.shared.spin.disturb();
        self.hart.at_port = Some(AtPort {
            pc,
            takes: registers.takes(&i),
            gives: registers.gives(&i),
        });
        self.finish_output(outbox)
    }

    /// Ends what the last instruction at the port has begun. Nothing else is dispatched before.
    fn finish_output(&mut self, outbox: &mut Outbox) -> Result<(), Stop> {
        let Some(at_port) = self.hart.at_port else {
            return Ok(());
        };
        if at_port.gives && self.hart.ready[usize::from(X::OUTPUT)] >= UNKNOWN {
            return Err(Stop::Blocked(Stall::Miss));
        }
        let done = self.leave_port(at_port);
        self.send_from_extension(outbox);
        if let Err(trap) = done {
            // It is undone by doing nothing: what it has written is no register.
            self.redirect(at_port.pc, self.hart.dispatch_cycle);
            self.hart.statistics.instructions -= 1;
            self.begin_serial(Serializing::exception(trap));
            return Err(Stop::Serializing);
        }
        Ok(())
    }

    #[inline(always)]
    fn dispatch_plain(&mut self, outbox: &mut Outbox) -> Result<(), Stop> {
        let Decoded {
            instruction: i,
            route,
            need,
            tags,
            float,
            ..
        } = *self.shared.blocks.instruction(self.hart.cursor);
        if route >= Route::Serializing {
            return if route == Route::End {
                Err(Stop::Block)
            } else {
                self.alone(i)
            };
        }
        if float {
            self.check_float(&i)?;
        }
        let [a, b] = [i.rs1, i.rs2].map(|register| self.hart.registers[usize::from(register)]);
        let [a_ready, b_ready] =
            [i.rs1, i.rs2].map(|register| self.hart.ready[usize::from(register)]);
        let mut ready = a_ready.max(b_ready);
        if route == Route::Float {
            ready = ready.max(self.hart.ready[usize::from(i.rs3)]);
        }
        if K::IN_ORDER && ready >= UNKNOWN {
            return Err(Stop::Blocked(Stall::Miss));
        }
        if !self.has_room() {
            self.wait_for_room()?;
        }
        if K::IN_ORDER {
            // An instruction stays in front of the execution stage until it can issue.
            let issue = ready.max(self.hart.last_issue);
            if issue > self.hart.dispatch_cycle + 1 {
                self.wait_until(issue - 1, Stall::Execution)?;
            }
        }
        if route == Route::Integer {
            if ready < UNKNOWN {
                let need = if K::IN_ORDER && tags.unit == Unit::Multiply {
                    self.multiplication(&i, need, a)
                } else {
                    need
                };
                let issue = self.issue(tags.unit, need, ready);
                let done = issue + u64::from(need.latency);
                let value = evaluate_integer(&i, self.hart.pc, a, b);
                self.push(&i, SlotKind::Plain, tags.unit, issue, value, done, 0);
            } else {
                self.defer::<2>(&i, SlotKind::Plain, tags.unit, UNKNOWN);
            }
            self.step(&i);
            return Ok(());
        }
        match route {
            Route::Load => return self.dispatch_load(i, need, a, a_ready, outbox),
            Route::Store => {
                return self.dispatch_store(i, need, [a, b], [a_ready, b_ready], outbox);
            }
            Route::Prefetch => self.dispatch_prefetch(i, need, (a, a_ready), outbox),
            Route::Branch => self.dispatch_branch(i, need, [a, b], ready),
            Route::Jump => self.dispatch_jump(i, need),
            Route::JumpRegister => self.dispatch_indirect(i, need, a, a_ready),
            _ => self.dispatch_float(i, tags.unit, need, [a, b], ready),
        }
        Ok(())
    }

    /// The instruction at the cursor is executed alone.
    #[inline(never)]
    fn alone(&mut self, i: Instruction) -> Result<(), Stop> {
        self.begin_serial(Serializing::instruction(i, self.hart.pc));
        Err(Stop::Serializing)
    }

    /// Whether a floating-point instruction may be executed.
    #[inline(never)]
    fn check_float(&mut self, i: &Instruction) -> Result<(), Stop> {
        if !self.hart.privileged.float_enabled()
            || illegal_rounding(i, self.hart.privileged.rounding_mode())
        {
            return self.alone(Instruction::illegal(i.bits, i.length));
        }
        if i.writes_float() {
            // Also on a wrong path: the specification lets `mstatus.FS` be dirty too often.
            self.hart.privileged.set_float_dirty();
        }
        Ok(())
    }

    #[inline(never)]
    fn dispatch_float(
        &mut self,
        i: Instruction,
        unit: Unit,
        need: Need,
        [a, b]: [u64; 2],
        ready: u64,
    ) {
        if ready < UNKNOWN {
            let issue = self.issue(unit, need, ready);
            let done = issue + u64::from(need.latency);
            let mut flags = 0;
            let c = self.hart.registers[usize::from(i.rs3)];
            let rounding = self.hart.privileged.rounding_mode();
            let value = evaluate(&i, self.hart.pc, a, b, c, rounding, &mut flags);
            self.push(&i, SlotKind::Plain, unit, issue, value, done, flags);
        } else {
            self.defer::<3>(&i, SlotKind::Plain, unit, UNKNOWN);
        }
        self.step(&i);
    }

    /// What product `i` needs, whose first operand is `a`: an iterative multiplier sees that
    /// nothing is left of it one cycle after that is so, and never in its last one (`eOut` in
    /// Rocket's `Multiplier.scala`). Upper halves take all cycles, products of 32 bits at most half
    /// of them.
    #[inline(never)]
    fn multiplication(&self, i: &Instruction, need: Need, a: u64) -> Need {
        let bits_per_cycle = u32::from(self.shared.calendar.multiplier_bits_per_cycle);
        if bits_per_cycle == 0 {
            return need;
        }
        let all = 64 / bits_per_cycle;
        let used = |bits: u32| bits.div_ceil(bits_per_cycle).max(1) + 1;
        let cycles = match i.operation {
            Operation::Mul => used(64 - a.leading_zeros()).min(all),
            Operation::Mulw => used(32 - (a as u32).leading_zeros()).min(all / 2),
            _ => all,
        };
        need.done_sooner(all - cycles)
    }

    #[inline(never)]
    fn dispatch_jump(&mut self, i: Instruction, need: Need) {
        let issue = self.issue(Unit::Integer, need, 0);
        let done = issue + u64::from(need.latency);
        let pc = self.hart.pc;
        let next = i.next(pc);
        self.push(&i, SlotKind::Plain, Unit::Integer, issue, next, done, 0);
        let target = i.jump_target(pc, 0);
        if is_link(i.rd) {
            self.hart.branches.push_return(next);
        }
        self.step(&i);
        self.jump(target);
        if target <= pc && !is_link(i.rd) {
            self.closes_loop(target);
        }
    }

    /// Whether the reorder buffer and the scheduler have room.
    #[inline(always)]
    fn has_room(&mut self) -> bool {
        if !K::IN_ORDER {
            self.advance_scheduler(self.hart.dispatch_cycle);
        }
        self.hart.window.commit(self.hart.window.leaving()) < self.hart.dispatch_cycle
            && (K::IN_ORDER
                || self.shared.in_scheduler < u32::from(self.shared.spec.scheduler_entries))
    }

    /// Waits until the reorder buffer and the scheduler have room.
    #[inline(never)]
    fn wait_for_room(&mut self) -> Result<(), Stop> {
        let commit = self.hart.window.commit(self.hart.window.leaving());
        if commit >= UNKNOWN {
            return Err(Stop::Blocked(self.oldest_stall()));
        }
        if commit >= self.hart.dispatch_cycle {
            self.wait_until(commit + 1, Stall::Execution)?;
        }
        if K::IN_ORDER {
            return Ok(());
        }
        self.advance_scheduler(self.hart.dispatch_cycle);
        while self.shared.in_scheduler >= u32::from(self.shared.spec.scheduler_entries) {
            if self.shared.in_scheduler == self.shared.unissued {
                return Err(Stop::Blocked(self.oldest_stall()));
            }
            self.wait_until(self.hart.dispatch_cycle + 1, Stall::Execution)?;
            self.advance_scheduler(self.hart.dispatch_cycle);
        }
        Ok(())
    }

    /// What the oldest instruction that is not done waits for.
    fn oldest_stall(&self) -> Stall {
        if self.hart.window.all_known() {
            return Stall::OtherHart;
        }
        match self
            .hart
            .window
            .slot(self.hart.window.commit_known)
            .tags
            .kind
        {
            SlotKind::Atomic => Stall::StoreBuffer,
            _ => Stall::Miss,
        }
    }

    /// Moves the dispatch cycle on to `cycle`.
    #[inline]
    fn wait_until(&mut self, cycle: u64, stall: Stall) -> Result<(), Stop> {
        self.held_up(stall);
        self.hart.dispatch_cycle = cycle;
        self.hart.dispatch_left = self.shared.spec.width;
        if cycle >= self.next_stop() {
            Err(Stop::Time)
        } else {
            Ok(())
        }
    }

    /// Books the issue of an instruction that is being dispatched and whose operands are ready
    /// at `ready`.
    #[inline(always)]
    pub(crate) fn issue(&mut self, unit: Unit, need: Need, ready: u64) -> u64 {
        let mut earliest = ready.max(self.hart.dispatch_cycle + 1);
        if K::IN_ORDER {
            if need.is_frequent()
                && self
                    .shared
                    .calendar
                    .is_free_after(self.hart.dispatch_cycle, self.hart.last_issue)
            {
                self.hart.last_issue = earliest;
                return earliest;
            }
            earliest = earliest.max(self.hart.last_issue);
        }
        let issue =
            self.shared
                .calendar
                .issue(unit, need, earliest, &mut self.hart.statistics.operations);
        if K::IN_ORDER {
            self.hart.last_issue = issue;
        } else {
            self.shared.in_scheduler += 1;
        }
        issue
    }

    /// Puts an instruction whose result is known into the window.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn push(
        &mut self,
        i: &Instruction,
        kind: SlotKind,
        unit: Unit,
        issue: u64,
        value: u64,
        done: u64,
        flags: u8,
    ) {
        if flags != 0 {
            self.hart.float_in_window = true;
            self.hart.observes = true;
        }
        if self.hart.observes {
            self.note_instruction(i, Some(value));
        }
        let register = usize::from(i.rd);
        let hart = &mut *self.hart;
        let in_order = hart.window.all_known();
        hart.window.push(Slot {
            issue,
            complete: done,
            previous_value: hart.registers[register],
            previous_ready: hart.ready[register],
            tags: Tags {
                pc: hart.pc,
                rd: i.rd,
                flags,
                kind,
                unit,
            },
        });
        hart.registers[register] = value;
        hart.ready[register] = done;
        hart.ready[usize::from(SINK)] = 0;
        if in_order {
            let commit = hart.window.commit_next(done);
            self.committed(kind, commit);
        }
    }

    /// The instruction that leaves the reorder buffer now can no longer be undone: its
    /// floating-point flags become visible.
    pub(crate) fn retire_flags(&mut self) {
        let leaving = self.hart.window.settled();
        let flags = std::mem::take(&mut self.hart.window.slot_mut(leaving).tags.flags);
        if flags != 0 {
            self.hart.privileged.add_flags(flags);
        }
    }

    /// Puts an instruction into the window whose result is not known, and returns its index. It
    /// has been issued, or `issue` is [`UNKNOWN`] and it waits for some of its first `SOURCES`
    /// operands.
    #[inline(always)]
    pub(crate) fn defer<const SOURCES: usize>(
        &mut self,
        i: &Instruction,
        kind: SlotKind,
        unit: Unit,
        issue: u64,
    ) -> usize {
        if issue >= UNKNOWN {
            self.shared.in_scheduler += 1;
            self.shared.unissued += 1;
        }
        if self.hart.observes {
            self.note_instruction(i, None);
        }
        let tags = Tags {
            pc: self.hart.pc,
            rd: i.rd,
            flags: 0,
            kind,
            unit,
        };
        let place = (self.hart.window.tail, self.hart.dispatch_cycle);
        let index = self.place_deferred::<SOURCES>(place, i, tags, issue);
        self.hart.window.tail += 1;
        index
    }

    /// Puts such an instruction, which is dispatched in `cycle`, to its position,
    /// without counting it.
    #[inline(always)]
    pub(crate) fn place_deferred<const SOURCES: usize>(
        &mut self,
        (position, cycle): (u64, u64),
        i: &Instruction,
        tags: Tags,
        issue: u64,
    ) -> usize {
        let index = self.hart.window.index(position);
        let mut earliest = cycle + 1;
        let mut pending = 0;
        let mut operands = [0; 2];
        let mut next_waiters = [NOBODY; 2];
        for (operand, register) in [i.rs1, i.rs2].map(usize::from).into_iter().enumerate() {
            let ready = self.hart.ready[register];
            operands[operand] = self.hart.registers[register];
            if operand < SOURCES && ready >= UNKNOWN {
                let producer = (ready - UNKNOWN) as usize;
                pending |= 1 << operand;
                operands[operand] = producer as u64;
                next_waiters[operand] = self.hart.window.wait_for(index, operand, producer);
            } else if operand < SOURCES {
                earliest = earliest.max(ready);
            }
        }
        if SOURCES > 2 {
            let register = usize::from(i.rs3);
            let ready = self.hart.ready[register];
            let producer = (ready >= UNKNOWN).then(|| (ready - UNKNOWN) as usize);
            match producer {
                Some(_) => pending |= 1 << 2,
                None => earliest = earliest.max(ready),
            }
            let value = self.hart.registers[register];
            self.hart.window.set_third(index, value, producer);
        }
        *self.hart.window.deferred_mut(index) = Deferred {
            position,
            instruction: *i,
            operands,
            earliest,
            waiters: NOBODY,
            next_waiters,
            pending,
            is_store: matches!(tags.kind, SlotKind::Store | SlotKind::Atomic),
            resolved: false,
        };
        let register = usize::from(i.rd);
        let slot = Slot {
            issue,
            complete: UNKNOWN,
            previous_value: self.hart.registers[register],
            previous_ready: self.hart.ready[register],
            tags,
        };
        self.hart.window.place(position, slot, UNKNOWN);
        if i.rd != SINK {
            self.hart.ready[register] = UNKNOWN + index as u64;
        }
        index
    }

    /// Where the cycles have gone, this one included, in which an instruction is dispatched.
    fn cycles_so_far(&mut self) -> (CycleStack, u64) {
        if self.hart.stall != Stall::None {
            self.blame(self.hart.dispatch_cycle, Stall::None);
        }
        let cycles = (self.hart.dispatch_cycle + 1).saturating_sub(self.hart.charged);
        self.hart.statistics.stack.base += cycles;
        self.hart.charged += cycles;
        (self.hart.statistics.stack, self.hart.charged)
    }

    #[inline(never)]
    pub(crate) fn dispatch_branch(
        &mut self,
        i: Instruction,
        need: Need,
        [a, b]: [u64; 2],
        ready: u64,
    ) {
        self.hart.statistics.branches += 1;
        let pc = self.hart.pc;
        let target = i.jump_target(pc, 0);
        let next = pc.wrapping_add(u64::from(i.length));
        let lookup = self.shared.predictor.lookup(&self.hart.branches, pc);
        self.note_branch(BranchStep::Predict(lookup));
        if ready < UNKNOWN {
            let taken = branch_taken(i.operation, a, b);
            let issue = self.issue(Unit::Integer, need, ready);
            let done = issue + u64::from(need.latency);
            self.push(&i, SlotKind::Plain, Unit::Integer, issue, 0, done, 0);
            self.hart.branches.push_history(taken);
            self.shared.predictor.train(&lookup, taken);
            self.note_branch(BranchStep::Train(lookup, taken));
            self.step(&i);
            if taken {
                self.jump(target);
            }
            if taken != lookup.taken && target != next {
                self.hart.statistics.mispredictions += 1;
                self.blame(self.hart.dispatch_cycle + 1, Stall::Branch);
                self.redirect(self.hart.pc, done + self.front_end());
            } else if taken && target <= pc {
                self.closes_loop(target);
            }
        } else {
            let index = self.defer::<2>(&i, SlotKind::Plain, Unit::Integer, UNKNOWN);
            self.hart.window.predictions[index] = Prediction {
                next: if lookup.taken { target } else { next },
                lookup,
                returns: self.hart.branches.returns,
                cycles: self.cycles_so_far(),
            };
            self.hart.branches.push_history(lookup.taken);
            self.step(&i);
            if lookup.taken {
                self.jump(target);
                if target <= pc {
                    self.begins_iteration_at(target);
                }
            }
        }
    }

    fn dispatch_indirect(&mut self, i: Instruction, need: Need, a: u64, ready: u64) {
        self.hart.statistics.branches += 1;
        let pc = self.hart.pc;
        let next = pc.wrapping_add(u64::from(i.length));
        let lookup = self.shared.predictor.lookup(&self.hart.branches, pc);
        let predicted = self
            .shared
            .predictor
            .indirect(&mut self.hart.branches, &i, pc);
        if ready < UNKNOWN {
            let target = i.jump_target(pc, a);
            let issue = self.issue(Unit::Integer, need, ready);
            let done = issue + u64::from(need.latency);
            self.push(&i, SlotKind::Plain, Unit::Integer, issue, next, done, 0);
            self.step(&i);
            self.jump(target);
            if predicted != Some(target) {
                self.shared.predictor.set_target(pc, target);
                self.hart.statistics.mispredictions += 1;
                self.blame(self.hart.dispatch_cycle + 1, Stall::Branch);
                self.redirect(target, done + self.front_end());
            }
        } else {
            let predicted = predicted.unwrap_or(next) & !1;
            let index = self.defer::<1>(&i, SlotKind::Plain, Unit::Integer, UNKNOWN);
            self.hart.window.predictions[index] = Prediction {
                next: predicted,
                lookup,
                returns: self.hart.branches.returns,
                cycles: self.cycles_so_far(),
            };
            self.step(&i);
            self.jump(predicted);
        }
    }

    #[inline(always)]
    fn dispatch_load(
        &mut self,
        i: Instruction,
        need: Need,
        base: u64,
        base_ready: u64,
        outbox: &mut Outbox,
    ) -> Result<(), Stop> {
        if self.hart.acquire.is_some() {
            return Err(Stop::Blocked(Stall::StoreBuffer));
        }
        let commit = self.hart.loads.leaving_commit();
        if commit >= self.hart.dispatch_cycle {
            if commit >= UNKNOWN {
                return Err(Stop::Blocked(self.oldest_stall()));
            }
            self.wait_until(commit + 1, Stall::Execution)?;
        }
        let mut address = i.address(base);
        let bytes = i.access_bytes();
        let mut page_from = 0;
        if self.hart.observes && base_ready < UNKNOWN && self.has_page_tables() {
            match self.page_at_dispatch(&i, address, base_ready, outbox) {
                PageAtDispatch::Known { physical, from } => (address, page_from) = (physical, from),
                PageAtDispatch::Alone => return self.alone(i),
                PageAtDispatch::Walk => {
                    let wanted = LoadAddress::InWalk(address);
                    self.defer_load(i, need, (wanted, base_ready), outbox);
                    return Ok(());
                }
            }
        }
        // The common case, in a few steps: no older store is in the way, and the line is here.
        if base_ready < UNKNOWN
            && self.hart.stores.unknown_addresses == 0
            && address % 64 + u64::from(bytes) <= 64
            && !self.hart.stores.may_overlap(address, bytes)
            && (!self.hart.observes || self.has_page(address, page_from))
            && let Some(slot) = self
                .shared
                .data_cache
                .find_and_touch(LineAddress::of(address))
        {
            let raw = self
                .shared
                .data_cache
                .line(slot)
                .read((address % 64) as usize, usize::from(bytes));
            let issue = self.issue(Unit::Load, need, base_ready);
            let done = issue + self.shared.spec.l1_data.hit_latency_cycles;
            let hart = &mut *self.hart;
            hart.loads.push(Load {
                position: hart.window.tail,
                address,
                performed: issue,
                forwarded_from: 0,
                commit: UNKNOWN,
                bytes,
            });
            self.hart.statistics.data_hits += 1;
            if self.hart.observes {
                self.tell_prefetcher((self.hart.pc, address), issue, outbox);
            }
            let value = i.load_value(raw);
            self.push(&i, SlotKind::Load, Unit::Load, issue, value, done, 0);
            self.step(&i);
            return Ok(());
        }
        if base_ready < UNKNOWN && !self.is_plain(address, bytes) {
            return self.alone(i);
        }
        let wanted = match base_ready {
            UNKNOWN.. => LoadAddress::Unknown,
            _ => LoadAddress::Known { address, page_from },
        };
        self.defer_load(i, need, (wanted, base_ready), outbox);
        Ok(())
    }

    /// Dispatches a load whose value is not known yet. If its address is, it is plain.
    #[inline(never)]
    pub(crate) fn defer_load(
        &mut self,
        i: Instruction,
        need: Need,
        (wanted, base_ready): (LoadAddress, u64),
        outbox: &mut Outbox,
    ) {
        let bytes = i.access_bytes();
        let hart = &mut *self.hart;
        let number = hart.loads.push(Load {
            position: hart.window.tail,
            address: match wanted {
                LoadAddress::Known { address, .. } => address,
                LoadAddress::InWalk(_) | LoadAddress::Unknown => u64::MAX,
            },
            performed: UNKNOWN,
            forwarded_from: 0,
            commit: UNKNOWN,
            bytes,
        });
        let (index, issue) = if wanted == LoadAddress::Unknown {
            let index = self.defer::<1>(&i, SlotKind::Load, Unit::Load, UNKNOWN);
            (index, UNKNOWN)
        } else {
            let issue = self.issue(Unit::Load, need, base_ready);
            (
                self.defer::<0>(&i, SlotKind::Load, Unit::Load, issue),
                issue,
            )
        };
        let stores = self.hart.stores.tail;
        let rest = self.hart.window.rest_mut(index);
        rest.queue_number = number;
        rest.stores_before = stores;
        let now = self.hart.dispatch_cycle;
        self.step(&i);
        match wanted {
            LoadAddress::Known { page_from, .. } => {
                self.begin_load(index, (issue.max(page_from), now), outbox);
                if self.hart.window.deferred(index).resolved {
                    self.wake_all(now, outbox);
                }
            }
            LoadAddress::InWalk(address) => {
                self.wait_for_walk(Access::Load, address, Wanted::Slot(index as u32), issue);
            }
            LoadAddress::Unknown => {}
        }
    }

    /// Whether no younger load may look for its value before atomic `i` is performed.
    pub(crate) fn acquires(&self, i: &Instruction) -> bool {
        // "Ztso": all AMOs behave as if they had both annotations.
        i.acquire() || i.class == Class::Atomic && self.shared.spec.memory_model == MemoryModel::Tso
    }

    fn dispatch_store(
        &mut self,
        i: Instruction,
        need: Need,
        [base, data]: [u64; 2],
        [base_ready, data_ready]: [u64; 2],
        outbox: &mut Outbox,
    ) -> Result<(), Stop> {
        if self.hart.stores.is_full() {
            return Err(Stop::Blocked(Stall::StoreBuffer));
        }
        let bytes = i.access_bytes();
        let atomic = i.class != Class::Store;
        let mut address_known = base_ready < UNKNOWN;
        let mut address = i.address(base);
        let mut page_from = 0;
        let mut in_walk = None;
        if self.hart.observes && address_known && self.has_page_tables() {
            match self.page_at_dispatch(&i, address, base_ready, outbox) {
                PageAtDispatch::Known { physical, from } => (address, page_from) = (physical, from),
                PageAtDispatch::Alone => return self.alone(i),
                PageAtDispatch::Walk => {
                    in_walk = Some(address);
                    address_known = false;
                }
            }
        }
        if address_known
            && (!self.is_plain(address, bytes)
                || (atomic && !address.is_multiple_of(u64::from(bytes))))
        {
            return self.alone(i);
        }
        let kind = if atomic {
            SlotKind::Atomic
        } else {
            SlotKind::Store
        };
        let hart = &mut *self.hart;
        let number = hart.stores.push(Store {
            position: hart.window.tail,
            address,
            data: i.store_value(data),
            data_ready: UNKNOWN,
            commit: UNKNOWN,
            instruction: i,
            bytes,
            address_known,
            kind: if atomic {
                StoreKind::Atomic
            } else {
                StoreKind::Store
            },
        });
        if base_ready < UNKNOWN && data_ready < UNKNOWN {
            let issue = self.issue(Unit::Store, need, base_ready.max(data_ready));
            let mut page = Some(issue);
            if let Some(address) = in_walk {
                let index = self.hart.window.index(self.hart.window.tail);
                self.wait_for_walk(Access::Store, address, Wanted::Slot(index as u32), issue);
                page = None;
            } else if self.hart.observes {
                let index = self.hart.window.index(self.hart.window.tail);
                let now = self.hart.dispatch_cycle;
                page = self
                    .data_page((address, index), (issue, now), outbox)
                    .map(|at| at.max(page_from));
            }
            // What is stored can be forwarded; what is to be exchanged is done with the page.
            self.hart.stores.get_mut(number).data_ready = match atomic {
                true => page.unwrap_or(UNKNOWN),
                false => issue,
            };
            if let Some(at) = page
                && !atomic
            {
                self.push(&i, kind, Unit::Store, issue, 0, at + 1, 0);
                self.step(&i);
                return Ok(());
            }
            let index = self.defer::<0>(&i, kind, Unit::Store, issue);
            self.hart.window.rest_mut(index).queue_number = number;
            self.hart.window.deferred_mut(index).operands[1] = data;
        } else {
            let index = self.defer::<2>(&i, kind, Unit::Store, UNKNOWN);
            self.hart.window.rest_mut(index).queue_number = number;
            let deferred = self.hart.window.deferred_mut(index);
            deferred.earliest = deferred.earliest.max(page_from);
            if let Some(address) = in_walk {
                self.wait_for_walk(Access::Store, address, Wanted::Slot(index as u32), 0);
            }
        }
        if atomic && self.acquires(&i) {
            self.hart.acquire = Some(self.hart.window.tail - 1);
        }
        self.step(&i);
        self.commit_known();
        Ok(())
    }
}
