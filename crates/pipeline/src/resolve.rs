//! The effects of a value that becomes known: waiting instructions execute, branches are checked,
//! commit continues.

use crate::core::Core;
use crate::hart::HartState;
use crate::kind::CoreKind;
use crate::ports::Unit;
use crate::predictor::BranchStep;
use crate::queues::{LoadQueue, StoreQueue, overlap};
use crate::stack::Stall;
use crate::window::{NOBODY, OPERANDS, Parts, SlotKind, UNKNOWN};
use fabric::Outbox;
use riscv::{Class, branch_taken, evaluate, evaluate_integer};

/// The state that changes when loads and stores commit.
struct Queues<'core> {
    loads: &'core mut LoadQueue,
    stores: &'core mut StoreQueue,
    store_event: &'core mut u64,
}

impl Queues<'_> {
    /// The next instruction in order commits at `commit`.
    #[inline(always)]
    fn committed(&mut self, kind: SlotKind, commit: u64) {
        // A `match` would compile to a jump that the host mispredicts.
        if kind == SlotKind::Load {
            let number = self.loads.committed;
            self.loads.get_mut(number).commit = commit;
            self.loads.committed += 1;
        } else if kind == SlotKind::Store {
            let number = self.stores.committed;
            self.stores.get_mut(number).commit = commit;
            self.stores.committed += 1;
            *self.store_event = (*self.store_event).min(commit + 1);
        } else if kind == SlotKind::Atomic {
            self.stores.committed += 1;
        }
    }
}

impl<K: CoreKind> Core<K> {
    /// Gives the deferred instruction in slot `index` its result, usable from cycle `done` on.
    /// Instructions that waited only for this result are put on the list for [`Core::wake_all`],
    /// which must follow.
    #[inline(always)]
    pub(crate) fn resolve(&mut self, index: usize, value: u64, done: u64) {
        let hart = &mut *self.hart;
        // Borrowed separately, so that the host keeps these fields in registers.
        let Parts {
            slots,
            deferred,
            rest,
        } = hart.window.parts();
        let resolved = &mut deferred[index as u64];
        let mut waiter = resolved.resolve(value, done);
        let position = resolved.position;
        let register = usize::from(resolved.instruction.rd);
        slots[position].complete = done;
        if hart.ready[register] == UNKNOWN + index as u64 {
            hart.registers[register] = value;
            hart.ready[register] = done;
        }
        if hart.acquire == Some(position) {
            hart.acquire = None;
        }
        if waiter == NOBODY {
            return;
        }
        let first = hart.woken.len();
        while waiter != NOBODY {
            let (index, operand) = (waiter as usize / OPERANDS, waiter as usize % OPERANDS);
            let waiting = &mut deferred[index as u64];
            waiting.earliest = waiting.earliest.max(done);
            waiting.pending &= !(1 << operand);
            // A store's address is useful before its data is known.
            if waiting.pending == 0 || waiting.is_store && operand == 0 {
                hart.woken.push(index as u32);
            }
            waiter = match waiting.next_waiters.get(operand) {
                Some(&next) => {
                    waiting.operands[operand] = value;
                    next
                }
                None => rest[index as u64].supply_third(value),
            };
        }
        // They were found from the youngest to the oldest; execute them in program order.
        if hart.woken.len() - first > 1 {
            hart.woken[first..].reverse();
        }
    }

    /// Executes all instructions whose last operand has become known, and their dependents. Then
    /// commit continues.
    pub(crate) fn wake_all(&mut self, now: u64, outbox: &mut Outbox) {
        loop {
            let mut next = 0;
            while let Some(&index) = self.hart.woken.get(next) {
                next += 1;
                let index = index as usize;
                // No instruction is dispatched before this is done, so squashed slots are not
                // reused.
                if self.hart.window.is_live(index) {
                    self.wake(index, now, outbox);
                }
            }
            self.hart.woken.clear();
            if self.hart.waiting_loads.is_empty() {
                break;
            }
            self.retry_waiting_loads(now, outbox);
            if self.hart.woken.is_empty() {
                break;
            }
        }
        self.commit_known();
    }

    #[inline(always)]
    fn wake(&mut self, index: usize, now: u64, outbox: &mut Outbox) {
        let deferred = self.hart.window.deferred(index);
        let instruction = deferred.instruction;
        match instruction.class {
            Class::Alu | Class::Multiply | Class::Divide | Class::Fence => {
                let [a, b] = deferred.operands;
                let unit = match instruction.class {
                    Class::Multiply => Unit::Multiply,
                    Class::Divide => Unit::Divide,
                    _ => Unit::Integer,
                };
                // The pc does not matter: instructions that use it have no operands to wait for.
                let value = evaluate_integer(&instruction, 0, a, b);
                let done = self.issue_deferred(index, unit, now);
                self.resolve(index, value, done);
            }
            Class::Load => self.wake_load(index, now, outbox),
            Class::Prefetch => self.wake_prefetch(index, now, outbox),
            Class::Store if self.is_address_known(index) => {
                if deferred.pending == 0
                    && self.hart.window.slot(deferred.position).issue >= UNKNOWN
                {
                    self.store_has_data(index, now, outbox);
                }
            }
            Class::Store | Class::Atomic | Class::StoreConditional => {
                self.wake_store(index, now, outbox);
            }
            Class::Branch | Class::JumpRegister => self.wake_branch(index, now),
            _ => self.wake_float(index, now),
        }
    }

    /// Whether the address of the store in slot `index` is known.
    #[inline(always)]
    fn is_address_known(&self, index: usize) -> bool {
        let number = self.hart.window.rest(index).queue_number;
        self.hart.stores.get(number).address_known
    }

    #[inline(never)]
    fn wake_float(&mut self, index: usize, now: u64) {
        let deferred = self.hart.window.deferred(index);
        let [a, b] = deferred.operands;
        let c = self.hart.window.rest(index).third;
        let position = deferred.position;
        let instruction = deferred.instruction;
        let slot = self.hart.window.slot(position);
        let (pc, unit) = (slot.tags.pc, slot.tags.unit);
        let done = self.issue_deferred(index, unit, now);
        let mut flags = 0;
        let value = evaluate(
            &instruction,
            pc,
            a,
            b,
            c,
            self.hart.privileged.rounding_mode(),
            &mut flags,
        );
        if flags != 0 {
            self.hart.float_in_window = true;
            self.hart.observe_window();
            self.hart.window.slot_mut(position).tags.flags = flags;
        }
        self.resolve(index, value, done);
    }

    /// Books the issue of a deferred instruction whose operands are known; returns the cycle in
    /// which its unit is done with it.
    #[inline(always)]
    pub(crate) fn issue_deferred(&mut self, index: usize, unit: Unit, now: u64) -> u64 {
        let deferred = self.hart.window.deferred(index);
        let (earliest, position) = (deferred.earliest.max(now + 1), deferred.position);
        let need = self.shared.calendar.need(unit);
        let issue =
            self.shared
                .calendar
                .issue(unit, need, earliest, &mut self.hart.statistics.operations);
        self.hart.window.slot_mut(position).issue = issue;
        self.shared.unissued -= 1;
        issue + u64::from(need.latency)
    }

    #[inline(never)]
    fn wake_branch(&mut self, index: usize, now: u64) {
        let done = self.issue_deferred(index, Unit::Integer, now);
        let deferred = self.hart.window.deferred(index);
        let instruction = deferred.instruction;
        let [a, b] = deferred.operands;
        let position = deferred.position;
        let prediction = &self.hart.window.predictions[index];
        let (predicted, lookup) = (prediction.next, prediction.lookup);
        let pc = self.hart.window.slot(position).tags.pc;
        let link = pc.wrapping_add(u64::from(instruction.length));
        let conditional = instruction.class == Class::Branch;
        let taken = !conditional || branch_taken(instruction.operation, a, b);
        let next = if taken {
            instruction.jump_target(pc, a)
        } else {
            link
        };
        if conditional {
            self.shared.predictor.train(&lookup, taken);
            self.note_branch(BranchStep::Train(lookup, taken));
        }
        if next != predicted {
            self.hart.statistics.mispredictions += 1;
            let prediction = &self.hart.window.predictions[index];
            let (returns, cycles) = (prediction.returns, prediction.cycles);
            if K::IS_ACTIVE {
                // What follows the branch at once is no handler's either.
                self.undo_departures(position, now);
            }
            self.squash(position + 1, now, next, done + self.front_end());
            self.blame_all_since(cycles, Stall::Branch);
            self.hart.branches.returns = returns;
            if conditional {
                self.hart.branches.correct_history(&lookup, taken);
            } else {
                self.hart.branches.restore_history(&lookup);
                self.shared.predictor.set_target(pc, next);
            }
        }
        self.resolve(index, if conditional { 0 } else { link }, done);
    }

    #[inline(never)]
    fn wake_load(&mut self, index: usize, now: u64, outbox: &mut Outbox) {
        let deferred = self.hart.window.deferred(index);
        let position = deferred.position;
        let instruction = deferred.instruction;
        let number = self.hart.window.rest(index).queue_number;
        let address = deferred.operands[0].wrapping_add(instruction.immediate as i64 as u64);
        if self.hart.observes && self.has_page_tables() {
            return self.wake_translated_load(index, address, now, outbox);
        }
        if !self.is_plain(address, instruction.access_bytes()) {
            // A device, no memory, or two lines: executed again, in order.
            let pc = self.hart.window.slot(position).tags.pc;
            self.squash(position, now, pc, now + self.front_end());
            self.blame(now, Stall::Serializing);
            return;
        }
        self.hart.loads.set_address(number, address);
        self.issue_deferred(index, Unit::Load, now);
        let issue = self.hart.window.slot(position).issue;
        self.begin_load(index, (issue, now), outbox);
    }

    #[inline(never)]
    fn wake_store(&mut self, index: usize, now: u64, outbox: &mut Outbox) {
        let deferred = self.hart.window.deferred(index);
        let position = deferred.position;
        let instruction = deferred.instruction;
        let number = self.hart.window.rest(index).queue_number;
        let pending = deferred.pending;
        let operands = deferred.operands;
        let atomic = instruction.class != Class::Store;
        if !self.hart.stores.get(number).address_known {
            let address = if atomic {
                operands[0]
            } else {
                operands[0].wrapping_add(instruction.immediate as i64 as u64)
            };
            let bytes = instruction.access_bytes();
            if self.hart.observes && self.has_page_tables() {
                return self.wake_translated_store(index, address, now, outbox);
            }
            if !self.is_plain(address, bytes) || (atomic && address % u64::from(bytes) != 0) {
                let pc = self.hart.window.slot(position).tags.pc;
                self.squash(position, now, pc, now + self.front_end());
                self.blame(now, Stall::Serializing);
                return;
            }
            self.hart.stores.set_address(number, address);
            self.check_younger_loads(position, number, address, bytes, now);
        }
        if pending > 0 || self.hart.window.slot(position).issue < UNKNOWN {
            return;
        }
        self.store_has_data(index, now, outbox);
    }

    /// Issues a store or atomic whose address and data are known.
    #[inline(always)]
    pub(crate) fn store_has_data(&mut self, index: usize, now: u64, outbox: &mut Outbox) {
        let mut done = self.issue_deferred(index, Unit::Store, now);
        let mut is_translated = true;
        if self.hart.observes {
            let number = self.hart.window.rest(index).queue_number;
            let address = self.hart.stores.get(number).address;
            let issue = done - 1;
            match self.data_page((address, index), (issue, now), outbox) {
                Some(at) => done += at - issue,
                None => is_translated = false,
            }
        }
        let HartState { window, stores, .. } = &mut *self.hart;
        let deferred = window.deferred(index);
        let instruction = deferred.instruction;
        let data = deferred.operands[1];
        let store = stores.get_mut(window.rest(index).queue_number);
        let bytes = store.bytes;
        store.data = crate::queues::low_bytes(data, bytes);
        if instruction.class == Class::Store {
            store.data_ready = window.slot(deferred.position).issue;
            if is_translated {
                // No instruction waits for a store's result, but probes observe it.
                self.resolve(index, data, done);
            }
        } else if is_translated {
            store.data_ready = done - 1;
        }
    }

    /// The page of a store or an atomic that has waited for it is known from cycle `at` on.
    pub(crate) fn store_has_page(&mut self, index: usize, at: u64) {
        let deferred = self.hart.window.deferred(index);
        if deferred.instruction.class == Class::Store {
            let data = deferred.operands[1];
            self.resolve(index, data, at + 1);
        } else {
            let number = self.hart.window.rest(index).queue_number;
            self.hart.stores.get_mut(number).data_ready = at;
        }
    }

    /// A store's address has become known: a younger load that has read from there has the wrong
    /// value.
    pub(crate) fn check_younger_loads(
        &mut self,
        position: u64,
        number: u64,
        address: u64,
        bytes: u8,
        now: u64,
    ) {
        let wrong = self.hart.loads.in_flight(now).find(|&load| {
            let load = self.hart.loads.get(load);
            load.position > position
                && load.address != u64::MAX
                && load.performed < UNKNOWN
                && load.forwarded_from <= number
                && overlap(load.address, load.bytes, address, bytes)
        });
        if let Some(load) = wrong {
            let load_position = self.hart.loads.get(load).position;
            let pc = self.hart.window.slot(load_position).tags.pc;
            let entry = self.wait_entry(pc);
            self.shared.wait_table[entry] = true;
            self.hart.statistics.memory_order_squashes += 1;
            self.squash(load_position, now, pc, now + self.front_end());
            self.blame(now, Stall::MemoryOrder);
        }
    }

    /// Assigns commit cycles to all instructions, in order, up to the first incomplete one.
    pub(crate) fn commit_known(&mut self) {
        let hart = &mut *self.hart;
        let tail = hart.window.tail;
        let mut position = hart.window.commit_known;
        let mut commit = hart.window.last_commit;
        let mut is_atomic = false;
        // Borrowed separately, so that the host keeps these fields in registers.
        let (slots, mut commits) = hart.window.in_order();
        let mut queues = Queues {
            loads: &mut hart.loads,
            stores: &mut hart.stores,
            store_event: &mut hart.store_event,
        };
        while position != tail {
            let slot = &slots[position];
            if slot.complete >= UNKNOWN {
                is_atomic = slot.tags.kind == SlotKind::Atomic;
                break;
            }
            commit = commits.next(position, commit, slot.complete);
            position += 1;
            if slot.tags.kind != SlotKind::Plain {
                queues.committed(slot.tags.kind, commit);
            }
        }
        hart.window.commit_known = position;
        hart.window.last_commit = commit;
        if is_atomic {
            self.arm_atomic();
        }
    }

    /// The next instruction in order commits at `commit`.
    #[inline(always)]
    pub(crate) fn committed(&mut self, kind: SlotKind, commit: u64) {
        let hart = &mut *self.hart;
        let mut queues = Queues {
            loads: &mut hart.loads,
            stores: &mut hart.stores,
            store_event: &mut hart.store_event,
        };
        queues.committed(kind, commit);
    }

    /// If the oldest incomplete instruction is an atomic, everything before it is done: it may be
    /// performed when its operands are there and it is the oldest in the store queue.
    #[inline(never)]
    fn arm_atomic(&mut self) {
        let hart = &mut *self.hart;
        let number = hart.stores.committed;
        let last_commit = hart.window.last_commit;
        let store = hart.stores.get_mut(number);
        if store.address_known && store.data_ready < UNKNOWN && store.commit >= UNKNOWN {
            store.commit = last_commit.max(store.data_ready);
            hart.store_event = hart.store_event.min(store.commit + 1);
        }
    }
}
