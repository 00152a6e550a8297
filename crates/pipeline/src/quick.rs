//! The innermost loop: dispatch of what is plain.
//!
//! Nearly all instructions are such. [`Core::dispatch_quickly`] does for them what
//! [`dispatch`](crate::dispatch) does for all, to the bit, and stops before the first that needs
//! more. What changes with each instruction is in variables, and what is rare is elsewhere, so that
//! the host has it in registers. There is one loop for a window of which all is known, and one for an
//! out-of-order core that waits for lines: there instructions are deferred, too. A probe turns both
//! off: the server's `tests/exactness.rs` and `tests/differential.rs` compare runs with and without
//! one.

use crate::blocks::{Decoded, NOWHERE, Quick};
use crate::core::Core;
use crate::extension::Extension;
use crate::ports::Unit;
use crate::predictor::is_link;
use crate::queues::{Load, Store, StoreKind, low_bytes};
use crate::stack::Stall;
use crate::window::{Slot, UNKNOWN};
use fabric::{LineAddress, Outbox};
use riscv::{SINK, branch_taken, evaluate_integer};

/// For so many instructions at once it is found out whether there is room.
const ROOM_FOR: u64 = 8;

/// What changes with each instruction.
struct Front {
    cycle: u64,
    left: u8,
    tail: u64,
    last_commit: u64,
    /// In order: the last issue, if it may be later than the present cycle.
    last_issue: u64,
    in_scheduler: u32,
    /// Instructions before this position have room in the reorder buffer, and in order need not wait
    /// for `last_issue`.
    room: u64,
}

impl<X: Extension, const IN_ORDER: bool> Core<X, IN_ORDER> {
    /// Dispatches instructions, and stops where [`Core::dispatch`] has more to do.
    #[inline(always)]
    pub(crate) fn dispatch_quickly(&mut self, outbox: &mut Outbox) {
        if self.attends
            || self.blocks.instruction(self.cursor).quick == Quick::No
            || self.window.capacity() == 0
        {
            return;
        }
        if self.stall != Stall::None {
            // Cycles that wait for a line are charged when it comes.
            if self.stall == Stall::Miss
                || self.dispatch_left == 0
                || self.dispatch_cycle >= self.next_stop()
                || self.sibling.is_some()
            {
                return;
            }
            // If it is held up once more, that begins now.
            self.blame(self.dispatch_cycle, Stall::None);
        }
        if self.window.all_known() {
            if let Some(pc) = self.dispatch_many::<true>(outbox) {
                self.look_for_period(pc);
            }
        } else if !IN_ORDER {
            self.dispatch_many::<false>(outbox);
        }
    }

    /// The same when nobody attends to the instructions in flight, and dispatch has not been held
    /// up. `KNOWN`: all is known of them. Returns where a loop has come back to that turns quietly.
    #[inline(never)]
    fn dispatch_many<const KNOWN: bool>(&mut self, outbox: &mut Outbox) -> Option<u64> {
        let mut stop = self.next_stop();
        let mut at = self.front();
        if at.left != 0 && at.cycle >= stop {
            return None;
        }
        // So that it can be read while other things are changed; nothing is decoded meanwhile.
        let code = self.blocks.lend();
        let mut quiet_loop = None;
        let mut pc = self.pc;
        let mut start = self.cursor;
        let mut start_tail = at.tail;
        'blocks: loop {
            if start == NOWHERE {
                if at.left == 0 {
                    at.cycle += 1;
                    at.left = self.spec.width;
                    if at.cycle >= stop {
                        stop = self.stop_after(at.cycle);
                        if at.cycle >= stop {
                            break;
                        }
                    }
                }
                let line = LineAddress::of(pc);
                match self.blocks.find(pc) {
                    Some(found) if self.instruction_cache.find_and_touch(line).is_some() => {
                        start = found;
                    }
                    _ => break,
                }
                start_tail = at.tail;
            }
            for decoded in &code[start as usize..] {
                if at.left == 0 {
                    at.cycle += 1;
                    at.left = self.spec.width;
                    if at.cycle >= stop {
                        stop = self.stop_after(at.cycle);
                        if at.cycle >= stop {
                            pc = decoded.pc;
                            break 'blocks;
                        }
                    }
                }
                let i = &decoded.instruction;
                if decoded.quick >= Quick::End {
                    pc = decoded.pc;
                    if decoded.quick == Quick::End {
                        start = NOWHERE;
                        continue 'blocks;
                    }
                    break 'blocks;
                }
                let ready = self.ready[usize::from(i.rs1)].max(self.ready[usize::from(i.rs2)]);
                debug_assert!(
                    !KNOWN || ready < UNKNOWN,
                    "a result is unknown while all is known"
                );
                let waits = if IN_ORDER {
                    ready > at.cycle + 1
                } else {
                    self.issue_scheduled(&mut at);
                    at.in_scheduler >= u32::from(self.spec.scheduler_entries)
                };
                if waits || at.tail >= at.room {
                    if !IN_ORDER && waits && at.in_scheduler == self.unissued {
                        // All are the other hart's.
                        pc = decoded.pc;
                        break 'blocks;
                    }
                    let mut until = if at.tail >= at.room {
                        self.room_from(&mut at)
                    } else {
                        at.cycle
                    };
                    if !KNOWN && until >= UNKNOWN {
                        pc = decoded.pc;
                        break 'blocks;
                    }
                    if IN_ORDER {
                        // It stays in front of the execution stage until it can issue.
                        until = until.max(ready.max(at.last_issue).saturating_sub(1));
                    } else if waits {
                        until = until.max(at.cycle + 1);
                    }
                    while until > at.cycle {
                        let dispatched = u64::from(at.left != self.cycle_width);
                        let base = &mut self.statistics.stack.base;
                        charge(base, &mut self.charged, at.cycle + dispatched);
                        at.cycle = until;
                        at.left = self.spec.width;
                        if at.cycle >= stop {
                            stop = self.stop_after(at.cycle);
                            if at.cycle >= stop {
                                self.stall = Stall::Execution;
                                pc = decoded.pc;
                                break 'blocks;
                            }
                        }
                        let execution = &mut self.statistics.stack.execution;
                        charge(execution, &mut self.charged, at.cycle);
                        if !IN_ORDER {
                            self.issue_scheduled(&mut at);
                            if at.in_scheduler >= u32::from(self.spec.scheduler_entries) {
                                if at.in_scheduler == self.unissued {
                                    pc = decoded.pc;
                                    break 'blocks;
                                }
                                until += 1;
                            }
                        }
                    }
                }

                let a = self.registers[usize::from(i.rs1)];
                let b = self.registers[usize::from(i.rs2)];
                if decoded.quick == Quick::Integer {
                    if !KNOWN && ready >= UNKNOWN {
                        self.enter_deferred(&mut at, decoded);
                    } else {
                        let value = evaluate_integer(i, decoded.pc, a, b);
                        self.enter::<KNOWN>(&mut at, decoded, value, ready);
                    }
                    continue;
                }
                let bytes = decoded.bytes;
                match decoded.quick {
                    Quick::Load | Quick::SignedLoad => {
                        let address = i.address(a);
                        let is_known = KNOWN || ready < UNKNOWN;
                        if self.loads.leaving_commit() >= at.cycle
                            || is_known && address % 64 + u64::from(bytes) > 64
                            || !KNOWN && self.acquire.is_some()
                        {
                            pc = decoded.pc;
                            break 'blocks;
                        }
                        // No store's address is waited for when all is known.
                        let is_first = is_known
                            && (KNOWN || self.stores.unknown_addresses == 0)
                            && !self.stores.may_overlap(address, bytes);
                        let line = LineAddress::of(address);
                        // A line that a load waits for is not here.
                        let is_missing =
                            !KNOWN && self.missing.last().is_some_and(|l| l.line == line);
                        let slot = if is_first && !is_missing {
                            self.data_cache.find_and_touch(line)
                        } else {
                            None
                        };
                        let Some(slot) = slot else {
                            pc = decoded.pc;
                            if KNOWN || is_known && !self.region.contains(address) {
                                break 'blocks;
                            }
                            if is_first {
                                let place = (at.tail, at.cycle);
                                self.enter_miss(place, decoded, (address, ready), outbox);
                                at.in_scheduler += 1;
                                at.tail += 1;
                                at.left -= 1;
                                stop = self.next_stop();
                                continue;
                            }
                            let cursor = start + (at.tail - start_tail) as u32;
                            self.write_back::<KNOWN>(&at, pc, cursor);
                            let base = (address, ready);
                            self.defer_load(*i, decoded.need, base, outbox);
                            at = Front {
                                room: at.room,
                                ..self.front()
                            };
                            (pc, start, start_tail) = (self.pc, self.cursor, at.tail);
                            stop = self.next_stop();
                            continue 'blocks;
                        };
                        let line = self.data_cache.line(slot);
                        let mut value = line.read((address % 64) as usize, usize::from(bytes));
                        if decoded.quick == Quick::SignedLoad {
                            let unused = 64 - 8 * u32::from(bytes);
                            value = ((value << unused) as i64 >> unused) as u64;
                        }
                        let issue = self.enter::<KNOWN>(&mut at, decoded, value, ready);
                        self.loads.push(Load {
                            position: at.tail - 1,
                            address,
                            performed: issue,
                            forwarded_from: 0,
                            commit: if KNOWN { at.last_commit } else { UNKNOWN },
                            bytes,
                        });
                        self.loads.committed += u64::from(KNOWN);
                        self.statistics.data_hits += 1;
                    }
                    Quick::Store => {
                        let address = i.address(a);
                        if self.stores.is_full()
                            || !KNOWN && self.ready[usize::from(i.rs1)] >= UNKNOWN
                            || address % 64 + u64::from(bytes) > 64
                            || !self.region.contains(address)
                        {
                            pc = decoded.pc;
                            break 'blocks;
                        }
                        let mut store = Store {
                            position: at.tail,
                            address,
                            data: low_bytes(b, bytes),
                            data_ready: UNKNOWN,
                            commit: UNKNOWN,
                            instruction: *i,
                            bytes,
                            address_known: true,
                            kind: StoreKind::Store,
                        };
                        if !KNOWN && ready >= UNKNOWN {
                            let number = self.stores.push(store);
                            let index = self.enter_deferred(&mut at, decoded);
                            self.window.rest_mut(index).queue_number = number;
                            continue;
                        }
                        store.data_ready = self.enter::<KNOWN>(&mut at, decoded, 0, ready);
                        if KNOWN {
                            store.commit = at.last_commit;
                        }
                        self.stores.push(store);
                        if KNOWN {
                            self.stores.committed += 1;
                            self.store_event = self.store_event.min(at.last_commit + 1);
                            stop = stop.min(self.store_event);
                        }
                    }
                    Quick::Branch => {
                        pc = decoded.pc;
                        if !KNOWN && ready >= UNKNOWN {
                            let cursor = start + (at.tail - start_tail) as u32;
                            self.write_back::<KNOWN>(&at, pc, cursor);
                            self.dispatch_branch(*i, decoded.need, [a, b], ready);
                            at = Front {
                                room: at.room,
                                ..self.front()
                            };
                            (pc, start, start_tail) = (self.pc, self.cursor, at.tail);
                            continue 'blocks;
                        }
                        self.statistics.branches += 1;
                        let taken = branch_taken(i.operation, a, b);
                        let lookup = self.predictor.lookup(pc);
                        self.predictor.push_history(taken);
                        self.predictor.train(&lookup, taken);
                        let issue = self.enter::<KNOWN>(&mut at, decoded, 0, ready);
                        let target = pc.wrapping_add(i.immediate as u64);
                        if taken != lookup.taken && target != i.next(pc) {
                            pc = if taken { target } else { i.next(pc) };
                            start = NOWHERE;
                            self.mispredicted(&mut at, issue + u64::from(decoded.need.latency));
                            break 'blocks;
                        }
                        if taken {
                            at.left = 0;
                            start = NOWHERE;
                            let backward = target <= pc;
                            pc = target;
                            if backward && self.turns::<KNOWN>(&at, pc) {
                                quiet_loop = Some(pc);
                                break 'blocks;
                            }
                            continue 'blocks;
                        }
                    }
                    Quick::Jump => {
                        let next = i.next(decoded.pc);
                        self.enter::<KNOWN>(&mut at, decoded, next, ready);
                        at.left = 0;
                        start = NOWHERE;
                        pc = decoded.pc.wrapping_add(i.immediate as u64);
                        if is_link(i.rd) {
                            self.predictor.push_return(next);
                        } else if pc <= decoded.pc && self.turns::<KNOWN>(&at, pc) {
                            quiet_loop = Some(pc);
                            break 'blocks;
                        }
                        continue 'blocks;
                    }
                    _ => {
                        if !KNOWN && ready >= UNKNOWN {
                            pc = decoded.pc;
                            break 'blocks;
                        }
                        self.statistics.branches += 1;
                        let next = i.next(decoded.pc);
                        let predicted = self.predictor.indirect(i, decoded.pc);
                        let issue = self.enter::<KNOWN>(&mut at, decoded, next, ready);
                        at.left = 0;
                        start = NOWHERE;
                        pc = a.wrapping_add(i.immediate as u64) & !1;
                        if predicted != Some(pc) {
                            self.predictor.set_target(decoded.pc, pc);
                            self.mispredicted(&mut at, issue + u64::from(decoded.need.latency));
                            break 'blocks;
                        }
                        continue 'blocks;
                    }
                }
            }
        }
        self.blocks.take_back(code);
        let cursor = if start == NOWHERE {
            NOWHERE
        } else {
            start + (at.tail - start_tail) as u32
        };
        self.write_back::<KNOWN>(&at, pc, cursor);
        quiet_loop
    }

    /// Where dispatch is.
    #[inline(always)]
    fn front(&self) -> Front {
        Front {
            cycle: self.dispatch_cycle,
            left: self.dispatch_left,
            tail: self.window.tail,
            last_commit: self.window.last_commit,
            last_issue: self.last_issue,
            in_scheduler: self.in_scheduler,
            room: 0,
        }
    }

    /// Dispatch is there, and goes on with the instruction at `pc`.
    #[inline(always)]
    fn write_back<const KNOWN: bool>(&mut self, at: &Front, pc: u64, cursor: u32) {
        self.pc = pc;
        self.cursor = cursor;
        self.dispatch_cycle = at.cycle;
        self.dispatch_left = at.left;
        if IN_ORDER && at.tail > self.window.tail {
            self.last_issue = self.window.slot(at.tail - 1).issue;
        }
        self.in_scheduler = at.in_scheduler;
        self.statistics.instructions += at.tail - self.window.tail;
        self.window.tail = at.tail;
        if KNOWN {
            self.window.commit_known = at.tail;
            self.window.last_commit = at.last_commit;
        }
        // Nobody ever waits for what is thrown away.
        self.ready[usize::from(SINK)] = 0;
    }

    /// A backward branch to `pc` is taken: whether it is time to look for a period. Until all is
    /// known, it is not.
    #[inline(always)]
    fn turns<const KNOWN: bool>(&mut self, at: &Front, pc: u64) -> bool {
        if KNOWN {
            return self.spin.turns_quietly(self.activity, &self.registers);
        }
        self.dispatch_cycle = at.cycle;
        self.turns_to(pc);
        false
    }

    /// Puts an instruction into the window whose operands are ready at `ready`; says when it issues.
    #[inline(always)]
    fn enter<const KNOWN: bool>(
        &mut self,
        at: &mut Front,
        decoded: &Decoded,
        value: u64,
        ready: u64,
    ) -> u64 {
        let need = decoded.need;
        let next = at.cycle + 1;
        let unit = decoded.tags.unit;
        let issue = if !IN_ORDER {
            at.in_scheduler += 1;
            self.calendar.issue(unit, need, ready.max(next))
        } else if need.is_frequent() && self.calendar.is_free_after(at.cycle, at.last_issue) {
            next
        } else {
            at.last_issue = self.calendar.issue(unit, need, next);
            if at.last_issue > next {
                at.room = 0;
            }
            at.last_issue
        };
        let done = issue + u64::from(need.latency);
        let commit = if KNOWN {
            self.window.commit_at(at.tail, at.last_commit, done)
        } else {
            UNKNOWN
        };
        let register = usize::from(decoded.instruction.rd);
        let slot = Slot {
            issue,
            complete: done,
            previous_value: self.registers[register],
            previous_ready: self.ready[register],
            pc: decoded.pc,
            tags: decoded.tags,
        };
        self.window.place(at.tail, slot, commit);
        self.registers[register] = value;
        self.ready[register] = done;
        if KNOWN {
            at.last_commit = commit;
        }
        at.tail += 1;
        at.left -= 1;
        issue
    }

    /// Puts an instruction into the window that waits for some of its two operands; says where it is
    /// among what is deferred.
    #[inline(always)]
    fn enter_deferred(&mut self, at: &mut Front, decoded: &Decoded) -> usize {
        let place = (at.tail, at.cycle, decoded.pc);
        let index = self.place_deferred::<2>(place, &decoded.instruction, decoded.tags, UNKNOWN);
        at.in_scheduler += 1;
        self.unissued += 1;
        at.tail += 1;
        at.left -= 1;
        index
    }

    /// Puts a load into the window whose address is ready at `ready`, with no older store in its way, and
    /// whose line is not in the data cache.
    #[inline(never)]
    fn enter_miss(
        &mut self,
        (position, cycle): (u64, u64),
        decoded: &Decoded,
        (address, ready): (u64, u64),
        outbox: &mut Outbox,
    ) {
        let need = decoded.need;
        let earliest = ready.max(cycle + 1);
        let issue = self.calendar.issue(Unit::Load, need, earliest);
        let number = self.loads.push(Load {
            position,
            address,
            performed: UNKNOWN,
            forwarded_from: 0,
            commit: UNKNOWN,
            bytes: decoded.bytes,
        });
        let place = (position, cycle, decoded.pc);
        let index = self.place_deferred::<0>(place, &decoded.instruction, decoded.tags, issue);
        let rest = self.window.rest_mut(index);
        rest.queue_number = number;
        rest.stores_before = 0;
        self.load_misses(index, LineAddress::of(address), issue, outbox);
    }

    /// The dispatch cycle has come to `cycle`, which it may not reach now. If that is because of a store,
    /// performs it. Returns which cycle it may not reach from now on.
    #[inline(always)]
    fn stop_after(&mut self, cycle: u64) -> u64 {
        if self.store_event <= cycle && self.store_event < self.stop {
            self.perform_until(cycle)
        } else {
            self.next_stop()
        }
    }

    /// The dispatch cycle has come to `cycle`: performs stores whose turn that is, as far as this is
    /// all that has to be done. Returns which cycle it may not reach now.
    #[inline(never)]
    fn perform_until(&mut self, cycle: u64) -> u64 {
        loop {
            let now = self.store_event;
            if now > cycle || now >= self.stop || !self.perform_store_at_once(now) {
                return self.next_stop();
            }
        }
    }

    /// The first cycle, from the present one on, in which the reorder buffer has room.
    #[inline(always)]
    fn room_from(&self, at: &mut Front) -> u64 {
        // Instructions commit in order: one that can enter when a later one has left can before.
        let oldest = self.window.leaving_at(at.tail);
        let later = (oldest + ROOM_FOR - 1).min(at.tail - 1);
        if self.window.commit(later) < at.cycle {
            at.room = at.tail + (later - oldest) + 1;
        }
        at.cycle.max(self.window.commit(oldest) + 1)
    }

    /// What was to issue before the present cycle has left the scheduler.
    #[inline(always)]
    fn issue_scheduled(&mut self, at: &mut Front) {
        while self.scheduler_cycle < at.cycle {
            if at.in_scheduler == self.unissued {
                self.scheduler_cycle = at.cycle;
                return;
            }
            at.in_scheduler -= u32::from(self.calendar.issues(self.scheduler_cycle));
            self.scheduler_cycle += 1;
        }
    }

    /// The branch or jump that has just been dispatched and is done at `done` leads elsewhere than
    /// was predicted.
    #[inline(always)]
    fn mispredicted(&mut self, at: &mut Front, done: u64) {
        self.statistics.mispredictions += 1;
        charge(
            &mut self.statistics.stack.base,
            &mut self.charged,
            at.cycle + 1,
        );
        self.stall = Stall::Branch;
        at.cycle = done + self.front_end();
        at.left = self.spec.width;
    }
}

/// Charges the cycles before `until` that have not been charged to `part`.
#[inline(always)]
fn charge(part: &mut u64, charged: &mut u64, until: u64) {
    let cycles = until.saturating_sub(*charged);
    *part += cycles;
    *charged += cycles;
}
