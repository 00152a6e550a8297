//! The innermost loop: dispatch of plain instructions.
//!
//! Nearly all instructions are plain. For these, [`Core::dispatch_quickly`] has exactly the same
//! effect as [`dispatch`](crate::dispatch), and it stops before the first instruction that needs
//! the general path. State that changes with each instruction is in local variables, and rare cases
//! are in separate functions, so that the host keeps this state in registers. One loop handles a
//! window in which every value is known; another handles an out-of-order core that waits for lines
//! and defers instructions. A second instance of each handles translated addresses and a data cache
//! with a prefetcher, for accesses that hit the first-level TLB. A probe disables all of them: the
//! server's `tests/exactness.rs` and `tests/differential.rs` compare runs with and without one.

mod enter;
mod front;

use crate::blocks::{NOWHERE, Quick};
use crate::core::Core;
use crate::dispatch::LoadAddress;
use crate::kind::CoreKind;
use crate::predictor::is_link;
use crate::queues::{Load, Overlapping, Store, StoreKind, low_bytes};
use crate::stack::Stall;
use crate::translation::Translates;
use crate::window::UNKNOWN;
use fabric::{LineAddress, Outbox};
use front::{Front, charge};
use riscv::paging::Access;

impl<K: CoreKind> Core<K> {
    /// Dispatches instructions until one needs [`Core::dispatch`].
    #[inline(always)]
    pub(crate) fn dispatch_quickly(&mut self, outbox: &mut Outbox) {
        if self.hart.observes_window
            || self.shared.blocks.instruction(self.hart.cursor).quick == Quick::No
            || self.hart.window.capacity() == 0
        {
            return;
        }
        if self.hart.stall != Stall::None {
            // Cycles that wait for a line are charged when it arrives, and a fetch that has waited
            // does not count as a hit.
            if self.hart.stall == Stall::Miss
                || self.hart.fetch_buffer.waits()
                || self.hart.dispatch_left == 0
                || self.hart.dispatch_cycle >= self.next_stop()
                || self.is_multithreaded()
            {
                return;
            }
            // If dispatch stalls again, the stall begins now.
            self.blame(self.hart.dispatch_cycle, Stall::None);
        }
        match self.hart.observes {
            false => self.dispatch_known_or_not::<false>(outbox),
            // On an in-order core, a data access that waits for its page stalls all younger
            // instructions.
            true if K::IN_ORDER && self.waits_for_walk() => {}
            true => self.dispatch_known_or_not::<true>(outbox),
        }
    }

    #[inline(always)]
    fn dispatch_known_or_not<const OBSERVED: bool>(&mut self, outbox: &mut Outbox) {
        if self.hart.window.all_known() {
            let quiet_loop = if K::IN_ORDER && self.shared.spec.width == 1 {
                self.dispatch_many::<true, true, OBSERVED>(outbox)
            } else {
                self.dispatch_many::<true, false, OBSERVED>(outbox)
            };
            if let Some(pc) = quiet_loop {
                self.look_for_period(pc);
            }
        } else if !K::IN_ORDER {
            self.dispatch_many::<false, false, OBSERVED>(outbox);
        }
    }

    /// The same if no probe observes the instructions in flight, and dispatch is not stalled.
    /// `OBSERVED`: addresses may be translated, or the data cache may have a prefetcher. `KNOWN`:
    /// all values in the window are known. `SINGLE`: an in-order core that dispatches one
    /// instruction a cycle. Returns the start of a loop that repeats without external events.
    #[inline(never)]
    fn dispatch_many<const KNOWN: bool, const SINGLE: bool, const OBSERVED: bool>(
        &mut self,
        outbox: &mut Outbox,
    ) -> Option<u64> {
        let mut stop = self.next_stop();
        let mut at = self.front();
        if at.left() != 0 && at.cycle >= stop {
            return None;
        }
        let how = match OBSERVED {
            true => self.how_translated()?,
            false => Translates::NOTHING,
        };
        // Lent, so that it can be read while other state changes; nothing is decoded meanwhile.
        let mut code = self.shared.blocks.lend();
        let mut quiet_loop = None;
        let mut pc = self.hart.pc;
        let mut start = self.hart.cursor;
        let mut start_tail = at.tail;
        // The instruction that ended the last block, if it leads to one place.
        let mut before = NOWHERE;
        if SINGLE && at.left() == 0 {
            at.cycle += 1;
            at.set_left(1);
        }
        'blocks: loop {
            if start == NOWHERE {
                if at.begin_cycle::<SINGLE>(self.shared.spec.width) && at.cycle >= stop {
                    stop = self.stop_after(at.cycle);
                    if at.cycle >= stop {
                        break;
                    }
                }
                let block = match OBSERVED {
                    true => self.block_at(&how, pc, at.cycle),
                    false => {
                        let found = self.shared.blocks.find_behind(&mut code, before, pc);
                        before = NOWHERE;
                        found.map(|start| (start, LineAddress::of(pc)))
                    }
                };
                let line = match block {
                    Some((found, line))
                        if self.shared.instruction_cache.find_and_touch(line).is_some() =>
                    {
                        start = found;
                        line
                    }
                    _ => break,
                };
                self.hart.statistics.instruction_hits += 1;
                if OBSERVED && how.translates_fetches() {
                    self.note_fetch();
                }
                if OBSERVED && self.shared.instruction_prefetching.is_some() {
                    self.note_fetched_line(line, at.cycle, outbox);
                    stop = stop.min(self.next_stop());
                    if SINGLE {
                        at.limit = at.limit.min(at.tail.saturating_add(stop - at.cycle));
                    }
                }
                start_tail = at.tail;
            }
            for decoded in &code[start as usize..] {
                let i = &decoded.instruction;
                if decoded.quick >= Quick::End {
                    pc = decoded.tags.pc;
                    if decoded.quick == Quick::End {
                        before = start + (at.tail - start_tail) as u32;
                        start = NOWHERE;
                        continue 'blocks;
                    }
                    break 'blocks;
                }
                // On an in-order core it stays before the execution stage until it can issue.
                let waits = if SINGLE && at.latest <= at.cycle + 1 {
                    debug_assert!(
                        self.operands_ready(decoded) <= at.cycle + 1,
                        "it has to wait"
                    );
                    false
                } else {
                    K::IN_ORDER && self.operands_ready(decoded) > at.cycle + 1
                };
                if waits || at.tail >= at.limit {
                    if at.begin_cycle::<SINGLE>(self.shared.spec.width) && at.cycle >= stop {
                        stop = self.stop_after(at.cycle);
                        if at.cycle >= stop {
                            pc = decoded.tags.pc;
                            break 'blocks;
                        }
                    }
                    let mut until = if at.tail >= at.room {
                        self.room_from(&mut at)
                    } else {
                        at.cycle
                    };
                    if !KNOWN && until >= UNKNOWN {
                        pc = decoded.tags.pc;
                        break 'blocks;
                    }
                    if K::IN_ORDER {
                        let ready = self.operands_ready(decoded);
                        until = until.max(ready.max(at.last_issue).saturating_sub(1));
                    } else {
                        self.issue_scheduled(&mut at);
                        if at.tail >= at.scheduler_until {
                            if self.in_scheduler_at(&at) == self.shared.unissued {
                                // The other harts use all of them.
                                pc = decoded.tags.pc;
                                break 'blocks;
                            }
                            until = until.max(self.next_to_issue::<KNOWN>(&at, stop) + 1);
                        }
                    }
                    while until > at.cycle {
                        let left = if SINGLE { 1 } else { at.left() };
                        let dispatched = u64::from(left != self.shared.cycle_width);
                        let hart = &mut *self.hart;
                        let base = &mut hart.statistics.stack.base;
                        charge(base, &mut hart.charged, at.cycle + dispatched);
                        at.cycle = until;
                        at.set_left(self.shared.spec.width);
                        if at.cycle >= stop {
                            stop = self.stop_after(at.cycle);
                            if at.cycle >= stop {
                                self.hart.stall = Stall::Execution;
                                pc = decoded.tags.pc;
                                break 'blocks;
                            }
                        }
                        let hart = &mut *self.hart;
                        let execution = &mut hart.statistics.stack.execution;
                        charge(execution, &mut hart.charged, at.cycle);
                        if !K::IN_ORDER {
                            self.issue_scheduled(&mut at);
                            if at.tail >= at.scheduler_until {
                                if self.in_scheduler_at(&at) == self.shared.unissued {
                                    // The other harts use all of them.
                                    pc = decoded.tags.pc;
                                    break 'blocks;
                                }
                                until = self.next_to_issue::<KNOWN>(&at, stop) + 1;
                            }
                        }
                    }
                    at.limit = at.room.max(at.tail + 1);
                    if SINGLE {
                        at.limit = at.limit.min(at.tail.saturating_add(stop - at.cycle));
                    } else {
                        at.limit = at.limit.min(at.width_until);
                    }
                    if !K::IN_ORDER {
                        at.limit = at.limit.min(at.scheduler_until);
                    }
                }

                let a = self.hart.registers[usize::from(i.rs1)];
                let b = self.hart.registers[usize::from(i.rs2)];
                if decoded.quick == Quick::Integer {
                    let mut ready = self.operands_ready(decoded);
                    if !KNOWN && ready >= UNKNOWN {
                        self.enter_deferred(&mut at, decoded);
                    } else {
                        let value = (decoded.evaluate)(i, decoded.tags.pc, a, b);
                        if KNOWN {
                            // Reading it again is cheaper than preserving it across a call.
                            ready = self.operands_ready(decoded);
                        }
                        self.enter::<KNOWN, SINGLE, true>(&mut at, decoded, value, ready, 0);
                    }
                    continue;
                }
                let ready = self.operands_ready(decoded);
                let bytes = decoded.bytes;
                match decoded.quick {
                    Quick::Load | Quick::SignedLoad => {
                        let mut address = i.address(a);
                        let is_known = KNOWN || ready < UNKNOWN;
                        if self.hart.loads.leaving_commit() >= at.cycle
                            || is_known && !self.hart.is_in_one_piece(address, bytes)
                            || !KNOWN && self.hart.acquire.is_some()
                        {
                            pc = decoded.tags.pc;
                            break 'blocks;
                        }
                        let mut hit = None;
                        if OBSERVED && is_known {
                            hit = self.hit(&how, Access::Load, address, at.cycle);
                            let Some(hit) = &hit else {
                                pc = decoded.tags.pc;
                                break 'blocks;
                            };
                            address = hit.physical;
                        }
                        // If all values are known, no store's address is outstanding.
                        let mut is_first = is_known
                            && (KNOWN || self.hart.stores.unknown_addresses == 0)
                            && !self.hart.stores.may_overlap(address, bytes);
                        if KNOWN && !is_first {
                            match self.hart.stores.overlapping(address, bytes) {
                                Overlapping::None => is_first = true,
                                Overlapping::Covers(store)
                                    if self.hart.region.contains(address) =>
                                {
                                    self.note_hit(&hit);
                                    self.enter_forwarded::<SINGLE>(
                                        &mut at, decoded, address, store,
                                    );
                                    continue;
                                }
                                _ => {}
                            }
                        }
                        let line = LineAddress::of(address);
                        // A load's line is missing.
                        let is_missing =
                            !KNOWN && self.hart.missing.last().is_some_and(|l| l.line == line);
                        let slot = if is_first && !is_missing {
                            self.shared.data_cache.find_and_touch(line)
                        } else {
                            None
                        };
                        let Some(slot) = slot else {
                            pc = decoded.tags.pc;
                            if KNOWN || is_known && !self.hart.region.contains(address) {
                                break 'blocks;
                            }
                            if is_first {
                                self.note_hit(&hit);
                                let place = (at.tail, at.cycle);
                                self.enter_miss(place, decoded, (address, ready), outbox);
                                at.tail += 1;
                                stop = self.next_stop();
                                continue;
                            }
                            if OBSERVED && is_known {
                                break 'blocks;
                            }
                            let cursor = start + (at.tail - start_tail) as u32;
                            self.write_back::<KNOWN>(&at, pc, cursor);
                            let page_from = 0;
                            let wanted = match is_known {
                                true => LoadAddress::Known { address, page_from },
                                false => LoadAddress::Unknown,
                            };
                            self.defer_load(*i, decoded.need, (wanted, ready), outbox);
                            at = Front {
                                room: at.room,
                                ..self.front()
                            };
                            (pc, start, start_tail) = (self.hart.pc, self.hart.cursor, at.tail);
                            stop = self.next_stop();
                            continue 'blocks;
                        };
                        let line = self.shared.data_cache.line(slot);
                        let value = decoded.extended(line.read_from((address % 64) as usize));
                        self.note_hit(&hit);
                        let issue =
                            self.enter::<KNOWN, SINGLE, true>(&mut at, decoded, value, ready, 0);
                        if SINGLE {
                            let done = issue + u64::from(decoded.need.latency);
                            at.latest = at.latest.max(done);
                        }
                        self.hart.loads.push(Load {
                            position: at.tail - 1,
                            address,
                            performed: issue,
                            forwarded_from: 0,
                            commit: if KNOWN { at.last_commit } else { UNKNOWN },
                            bytes,
                        });
                        self.hart.loads.committed += u64::from(KNOWN);
                        self.hart.statistics.data_hits += 1;
                        if OBSERVED && self.shared.data_prefetching.is_some() {
                            self.tell_prefetcher((decoded.tags.pc, address), issue, outbox);
                            stop = stop.min(self.next_stop());
                            if SINGLE {
                                at.limit = at.limit.min(at.tail.saturating_add(stop - at.cycle));
                            }
                        }
                    }
                    Quick::Store => {
                        let mut address = i.address(a);
                        let mut hit = None;
                        if OBSERVED && (KNOWN || ready < UNKNOWN) {
                            hit = self.hit(&how, Access::Store, address, at.cycle);
                            address = hit.as_ref().map_or(address, |hit| hit.physical);
                        }
                        if self.hart.stores.is_full()
                            || !KNOWN && self.hart.ready[usize::from(i.rs1)] >= UNKNOWN
                            || OBSERVED && hit.is_none()
                            || !self.hart.is_in_one_piece(address, bytes)
                            || !self.hart.region.contains(address)
                        {
                            pc = decoded.tags.pc;
                            break 'blocks;
                        }
                        self.note_hit(&hit);
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
                            let number = self.hart.stores.push(store);
                            let index = self.enter_deferred(&mut at, decoded);
                            self.hart.window.rest_mut(index).queue_number = number;
                            continue;
                        }
                        store.data_ready =
                            self.enter::<KNOWN, SINGLE, true>(&mut at, decoded, 0, ready, 0);
                        if KNOWN {
                            store.commit = at.last_commit;
                        }
                        self.hart.stores.push(store);
                        if KNOWN {
                            self.hart.stores.committed += 1;
                            self.hart.store_event = self.hart.store_event.min(at.last_commit + 1);
                            stop = stop.min(self.hart.store_event);
                            if SINGLE {
                                at.limit = at.limit.min(at.tail.saturating_add(stop - at.cycle));
                            }
                        }
                    }
                    Quick::Branch => {
                        pc = decoded.tags.pc;
                        if !KNOWN && ready >= UNKNOWN {
                            let cursor = start + (at.tail - start_tail) as u32;
                            self.write_back::<KNOWN>(&at, pc, cursor);
                            self.dispatch_branch(*i, decoded.need, [a, b], ready);
                            at = Front {
                                room: at.room,
                                ..self.front()
                            };
                            (pc, start, start_tail) = (self.hart.pc, self.hart.cursor, at.tail);
                            continue 'blocks;
                        }
                        self.hart.statistics.branches += 1;
                        let taken = (decoded.evaluate)(i, pc, a, b) != 0;
                        let lookup = self.shared.predictor.lookup(&self.hart.branches, pc);
                        self.hart.branches.push_history(taken);
                        self.shared.predictor.train(&lookup, taken);
                        let next = at.cycle + 1;
                        let issue =
                            self.enter::<KNOWN, SINGLE, true>(&mut at, decoded, 0, ready, 0);
                        let target = pc.wrapping_add(i.immediate as u64);
                        if taken != lookup.taken && target != i.next(pc) {
                            pc = if taken { target } else { i.next(pc) };
                            start = NOWHERE;
                            let done = issue + u64::from(decoded.need.latency);
                            self.mispredicted(&mut at, next, done);
                            break 'blocks;
                        }
                        if taken {
                            at.end_cycle::<SINGLE>();
                            before = start + (at.tail - start_tail) as u32 - 1;
                            start = NOWHERE;
                            let backward = target <= pc;
                            pc = target;
                            if backward && self.loop_repeats::<KNOWN>(&at, pc) {
                                quiet_loop = Some(pc);
                                break 'blocks;
                            }
                            continue 'blocks;
                        }
                    }
                    Quick::Jump => {
                        let next = i.next(decoded.tags.pc);
                        self.enter::<KNOWN, SINGLE, true>(&mut at, decoded, next, ready, 0);
                        at.end_cycle::<SINGLE>();
                        before = start + (at.tail - start_tail) as u32 - 1;
                        start = NOWHERE;
                        pc = decoded.tags.pc.wrapping_add(i.immediate as u64);
                        if is_link(i.rd) {
                            self.hart.branches.push_return(next);
                        } else if pc <= decoded.tags.pc && self.loop_repeats::<KNOWN>(&at, pc) {
                            quiet_loop = Some(pc);
                            break 'blocks;
                        }
                        continue 'blocks;
                    }
                    Quick::Rare => {
                        if !KNOWN && ready >= UNKNOWN {
                            self.enter_deferred(&mut at, decoded);
                        } else {
                            let value = (decoded.evaluate)(i, decoded.tags.pc, a, b);
                            (at, _) =
                                self.enter_rarely::<KNOWN, SINGLE>(at, decoded, value, ready, 0);
                        }
                    }
                    _ => {
                        if !KNOWN && ready >= UNKNOWN {
                            pc = decoded.tags.pc;
                            break 'blocks;
                        }
                        self.hart.statistics.branches += 1;
                        let link = i.next(decoded.tags.pc);
                        let predicted = self.shared.predictor.indirect(
                            &mut self.hart.branches,
                            i,
                            decoded.tags.pc,
                        );
                        let next = at.cycle + 1;
                        let issue;
                        (at, issue) =
                            self.enter_rarely::<KNOWN, SINGLE>(at, decoded, link, ready, 0);
                        at.end_cycle::<SINGLE>();
                        start = NOWHERE;
                        pc = a.wrapping_add(i.immediate as u64) & !1;
                        if predicted != Some(pc) {
                            self.shared.predictor.set_target(decoded.tags.pc, pc);
                            let done = issue + u64::from(decoded.need.latency);
                            self.mispredicted(&mut at, next, done);
                            break 'blocks;
                        }
                        continue 'blocks;
                    }
                }
            }
        }
        self.shared.blocks.take_back(code);
        let cursor = if start == NOWHERE {
            NOWHERE
        } else {
            start + (at.tail - start_tail) as u32
        };
        if SINGLE {
            if quiet_loop.is_some() {
                // The branch ends the cycle.
                at.cycle -= 1;
            }
            at.set_left(u8::from(quiet_loop.is_none()));
        }
        self.write_back::<KNOWN>(&at, pc, cursor);
        quiet_loop
    }

    /// A backward branch to `pc` is taken: returns whether to look for a period. There is none
    /// until all values are known.
    #[inline(always)]
    fn loop_repeats<const KNOWN: bool>(&mut self, at: &Front, pc: u64) -> bool {
        if KNOWN {
            return self.shared.spin.repeats_quietly(&self.hart.registers);
        }
        self.hart.dispatch_cycle = at.cycle;
        self.begins_iteration_at(pc);
        false
    }

    /// The dispatch cycle has reached `cycle`, the limit of this loop. If a store is the reason for
    /// the limit, performs it. Returns the new limit.
    #[inline(always)]
    fn stop_after(&mut self, cycle: u64) -> u64 {
        if self.hart.store_event <= cycle && self.hart.store_event < self.shared.stop {
            self.perform_until(cycle)
        } else {
            self.next_stop()
        }
    }

    /// The dispatch cycle has reached `cycle`: performs the stores that are due, as long as nothing
    /// else has to be done. Returns the new limit.
    #[inline(never)]
    fn perform_until(&mut self, cycle: u64) -> u64 {
        loop {
            let now = self.hart.store_event;
            if now > cycle || now >= self.shared.stop || !self.perform_store_at_once(now) {
                return self.next_stop();
            }
        }
    }
}
