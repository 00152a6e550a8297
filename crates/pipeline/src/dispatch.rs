//! Dispatch: instructions enter the window in program order.

mod branches;
mod loads_and_stores;

use crate::blocks::{Decoded, Route};
use crate::core::{Core, Shared};
use crate::kind::CoreKind;
use crate::port::AtPort;
use crate::ports::{Need, Unit};
use crate::serializing::Serializing;
use crate::stack::Stall;
use crate::window::{Deferred, NOBODY, Slot, SlotKind, Tags, UNKNOWN};
use fabric::Outbox;
pub(crate) use loads_and_stores::LoadAddress;
use riscv::{Instruction, Operation, SINK, evaluate, evaluate_integer, illegal_rounding};

/// The reason why this call of dispatch ends.
enum Stop {
    /// The dispatch cycle has reached the next event.
    Time,
    /// Dispatch stalls until an event.
    Blocked(Stall),
    /// The instruction is executed alone.
    Serializing,
    /// The block ends.
    Block,
}

impl<K: CoreKind> Core<K> {
    /// Dispatches until the dispatch cycle reaches `self.shared.stop`, or dispatch stalls.
    pub(crate) fn dispatch(&mut self, outbox: &mut Outbox) {
        loop {
            self.dispatch_quickly(outbox);
            if K::IN_ORDER && self.hart.observes && self.waits_for_walk() {
                // A data access that waits for its page stalls all younger instructions.
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
                // A load or a store may have to be executed alone.
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
                    if !K::IN_ORDER && self.hart.supplies.is_some() && stall == Stall::Miss {
                        self.offer_window(outbox);
                    }
                    return;
                }
            }
        }
    }

    /// The cycle that dispatch may not reach before events have been handled.
    #[inline(always)]
    pub(crate) fn next_stop(&self) -> u64 {
        self.shared.stop.min(self.hart.store_event)
    }

    /// The dispatch cycle has reached `next_stop`. If the next event is a store to perform,
    /// performs it and returns true, unless other harts must be notified.
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

    /// Dispatches the instruction at the cursor.
    #[inline(always)]
    fn dispatch_one(&mut self, outbox: &mut Outbox) -> Result<(), Stop> {
        if K::IS_ACTIVE && self.hart.awaits_safepoint && self.begin_at_safepoint() {
            return Err(Stop::Serializing);
        }
        if K::HAS_PORT {
            self.finish_output(outbox)?;
            let decoded = self.shared.blocks.instruction(self.hart.cursor);
            if decoded.port {
                let decoded = *decoded;
                return self.dispatch_at_port(decoded, outbox);
            }
        }
        self.dispatch_plain(outbox)
    }

    /// Dispatches an instruction that reads or writes a register of the extension's port.
    #[inline(never)]
    fn dispatch_at_port(&mut self, decoded: Decoded, outbox: &mut Outbox) -> Result<(), Stop> {
        let Decoded {
            instruction: i,
            route,
            ..
        } = decoded;
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
        let registers = self.hart.port_registers;
        if registers.gives(&i) {
            // In the decode stage, a register waits for the previous instruction that writes it, as
            // an operand does: two loads into it take a cycle more than one into another register
            // would (`hazard_targets` in `RocketCore.scala`).
            let issue = self.hart.ready[usize::from(registers.output)];
            if issue > self.hart.dispatch_cycle + 1 {
                self.wait_until(issue - 1, Stall::Execution)?;
            }
        }
        let pc = self.hart.pc;
        self.dispatch_decoded(decoded, outbox)?;
        self.shared.spin.disturb();
        self.hart.at_port = Some(AtPort {
            pc,
            takes: registers.takes(&i),
            gives: registers.gives(&i),
        });
        self.finish_output(outbox)
    }

    /// Completes the last instruction at the port, before anything else is dispatched.
    fn finish_output(&mut self, outbox: &mut Outbox) -> Result<(), Stop> {
        let Some(at_port) = self.hart.at_port else {
            return Ok(());
        };
        let output = usize::from(self.hart.port_registers.output);
        if at_port.gives && self.hart.ready[output] >= UNKNOWN {
            return Err(Stop::Blocked(Stall::Miss));
        }
        let done = self.leave_port(at_port);
        self.send_from_extension(outbox);
        if let Err(trap) = done {
            // Squashing it needs no action, because it has not written a register.
            self.redirect(at_port.pc, self.hart.dispatch_cycle);
            self.hart.statistics.instructions -= 1;
            self.begin_serial(Serializing::exception(trap));
            return Err(Stop::Serializing);
        }
        Ok(())
    }

    #[inline(always)]
    fn dispatch_plain(&mut self, outbox: &mut Outbox) -> Result<(), Stop> {
        let decoded = *self.shared.blocks.instruction(self.hart.cursor);
        let Decoded {
            instruction: i,
            route,
            need,
            ..
        } = decoded;
        if route >= Route::Serializing {
            return match route {
                Route::End => Err(Stop::Block),
                _ if K::IS_ACTIVE && !K::IN_ORDER && self.hart.extension.returns(&i) => {
                    if !self.has_room() {
                        self.wait_for_room()?;
                    }
                    self.dispatch_return(&i, need);
                    // An interrupt is taken before the next instruction.
                    Err(Stop::Time)
                }
                _ => self.alone_or_replaced(i, outbox),
            };
        }
        self.dispatch_decoded(decoded, outbox)
    }

    /// The instruction at the cursor is executed alone, or a debugger has replaced it and it must
    /// be executed now.
    #[inline(never)]
    fn alone_or_replaced(&mut self, i: Instruction, outbox: &mut Outbox) -> Result<(), Stop> {
        if self.hart.debug.is_some()
            && let Some(original) = self.replaced(&i)
        {
            let Shared {
                blocks, calendar, ..
            } = &self.shared;
            let decoded = blocks.original(original, self.hart.pc, calendar);
            if K::HAS_PORT && decoded.port {
                return self.dispatch_at_port(decoded, outbox);
            }
            if decoded.route < Route::Serializing {
                return self.dispatch_decoded(decoded, outbox);
            }
            return self.alone(original);
        }
        self.alone(i)
    }

    /// Dispatches an instruction that enters the window.
    #[inline(always)]
    fn dispatch_decoded(&mut self, decoded: Decoded, outbox: &mut Outbox) -> Result<(), Stop> {
        let Decoded {
            instruction: i,
            route,
            need,
            tags,
            float,
            ..
        } = decoded;
        if float {
            self.check_float(&i)?;
        }
        // `map` of an array would be called out of line, and would copy the array onto itself.
        let [first, second] = [usize::from(i.rs1), usize::from(i.rs2)];
        let [a, b] = [self.hart.registers[first], self.hart.registers[second]];
        let [a_ready, b_ready] = [self.hart.ready[first], self.hart.ready[second]];
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
            // An instruction stays before the execution stage until it can issue.
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
            // Also on a wrong path: the specification allows `mstatus.FS` to become dirty too
            // often.
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

    /// The resources of product `i`, whose first operand is `a`: an iterative multiplier detects
    /// that no bits are left one cycle late, and never in its last cycle (`eOut` in Rocket's
    /// `Multiplier.scala`). Upper halves take all cycles, products of 32 bits at most half of them.
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

    /// The reason why the oldest incomplete instruction waits.
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

    /// Advances the dispatch cycle to `cycle`.
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

    /// Reserves the issue of an instruction that is being dispatched and whose operands are ready
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
            self.hart.observe_window();
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

    /// The instruction that leaves the reorder buffer now can no longer be squashed: its
    /// floating-point flags become visible.
    pub(crate) fn retire_flags(&mut self) {
        let leaving = self.hart.window.settled();
        let flags = std::mem::take(&mut self.hart.window.slot_mut(leaving).tags.flags);
        if flags != 0 {
            self.hart.privileged.add_flags(flags);
        }
    }

    /// Puts an instruction with an unknown result into the window, and returns its index. It has
    /// been issued, or `issue` is [`UNKNOWN`] and it waits for some of its first `SOURCES`
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

    /// Puts such an instruction, dispatched in `cycle`, at its position, without counting it.
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
        for (operand, register) in [i.rs1, i.rs2].into_iter().enumerate() {
            let register = usize::from(register);
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
}
