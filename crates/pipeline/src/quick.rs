//! The innermost loop: dispatch of what is plain.
//!
//! Nearly all instructions are plain. [`Core::dispatch_quickly`] does for them exactly what
//! [`dispatch`](crate::dispatch) does for all, and stops before the first that needs more. State
//! that changes with each instruction is in local variables, and rare cases are in other functions,
//! so that the host keeps this state in registers. One loop handles a window in which every value
//! is known; another handles an out-of-order core that waits for lines and defers instructions.
//! Each of them comes once more for addresses that are translated and for a data cache with a
//! prefetcher: it takes the accesses that hit in the first-level TLB. A probe turns all off: the
//! server's `tests/exactness.rs` and `tests/differential.rs` compare runs with and without one.

use crate::blocks::{Decoded, NOWHERE, Quick};
use crate::core::Core;
use crate::dispatch::LoadAddress;
use crate::extension::Extension;
use crate::kind::CoreKind;
use crate::ports::Unit;
use crate::predictor::is_link;
use crate::queues::{Load, Overlapping, Store, StoreKind, low_bytes};
use crate::stack::Stall;
use crate::translation::Translates;
use crate::window::{Slot, UNKNOWN};
use fabric::{LineAddress, Outbox};
use riscv::SINK;
use riscv::paging::Access;

/// For so many instructions at once, at most, it is found out whether there is room.
const ROOM_FOR: u64 = 16;

/// What changes with each instruction.
#[derive(Clone, Copy)]
struct Front {
    cycle: u64,
    tail: u64,
    last_commit: u64,
    /// In order: the last issue, if it may be later than the present cycle.
    last_issue: u64,
    /// One a cycle, in order: no result is ready later, but for those that the instruction behind
    /// it need not wait for.
    latest: u64,
    /// The width of the cycle is used up by the instruction before this position.
    width_until: u64,
    /// The scheduler is full of those before this position.
    scheduler_until: u64,
    /// Instructions before this position have room in the reorder buffer, and in order need not
    /// wait for `last_issue`.
    room: u64,
    /// For those before this position, none of that has to be looked at. A core of one instruction
    /// a cycle is then also sure not to come to the cycle at which it has to stop.
    limit: u64,
}

impl Front {
    /// What is left of the cycle's width.
    #[inline(always)]
    fn left(&self) -> u8 {
        (self.width_until - self.tail) as u8
    }

    /// Goes on to the next cycle if nothing is left of the present one. Says whether a cycle
    /// begins.
    #[inline(always)]
    fn begin_cycle<const SINGLE: bool>(&mut self, width: u8) -> bool {
        if SINGLE {
            return true;
        }
        let begins = self.left() == 0;
        if begins {
            self.cycle += 1;
            self.set_left(width);
        }
        begins
    }

    /// Nothing more is dispatched in this cycle. A core of one instruction a cycle is in the next
    /// one already.
    #[inline(always)]
    fn end_cycle<const SINGLE: bool>(&mut self) {
        if !SINGLE {
            self.set_left(0);
        }
    }

    /// The present cycle has so much width left.
    #[inline(always)]
    fn set_left(&mut self, left: u8) {
        self.width_until = self.tail + u64::from(left);
        self.limit = 0;
    }
}

impl<X: Extension, K: CoreKind> Core<X, K> {
    /// Dispatches instructions, and stops where [`Core::dispatch`] has more to do.
    #[inline(always)]
    pub(crate) fn dispatch_quickly(&mut self, outbox: &mut Outbox) {
        if self.hart.observes_window
            || self.shared.blocks.instruction(self.hart.cursor).quick == Quick::No
            || self.hart.window.capacity() == 0
        {
            return;
        }
        if self.hart.stall != Stall::None {
            // Cycles that wait for a line are charged when it comes, and a fetch that has waited is
            // no hit.
            if self.hart.stall == Stall::Miss
                || self.hart.fetch_buffer.waits()
                || self.hart.dispatch_left == 0
                || self.hart.dispatch_cycle >= self.next_stop()
                || self.is_multithreaded()
            {
                return;
            }
            // If it is held up once more, that begins now.
            self.blame(self.hart.dispatch_cycle, Stall::None);
        }
        match self.hart.observes {
            false => self.dispatch_known_or_not::<false>(outbox),
            // In order, a data access that waits for its page holds up all behind it.
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

    /// The same when nobody observes the instructions in flight, and dispatch has not been held up.
    /// `OBSERVED`: addresses may be translated, or the data cache have a prefetcher. `KNOWN`: all
    /// is known of them. `SINGLE`: one is dispatched in a cycle, in order; then the next cycle
    /// begins with each. Returns where a loop begins anew that repeats quietly.
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
        // So that it can be read while other things are changed; nothing is decoded meanwhile.
        let code = self.shared.blocks.lend();
        let mut quiet_loop = None;
        let mut pc = self.hart.pc;
        let mut start = self.hart.cursor;
        let mut start_tail = at.tail;
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
                        let found = self.shared.blocks.find(pc);
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
                        start = NOWHERE;
                        continue 'blocks;
                    }
                    break 'blocks;
                }
                // In order, it stays in front of the execution stage until it can issue.
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
                                // All are the other harts'.
                                pc = decoded.tags.pc;
                                break 'blocks;
                            }
                            until = until.max(at.cycle + 1);
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
                                    // All are the other harts'.
                                    pc = decoded.tags.pc;
                                    break 'blocks;
                                }
                                until += 1;
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
                            // To read it again costs less than to keep it across a call.
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
                            || is_known && address % 64 + u64::from(bytes) > 64
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
                        // No store's address is waited for when all is known.
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
                        // A line that a load waits for is not here.
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
                            || address % 64 + u64::from(bytes) > 64
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
                // As the branch leaves it.
                at.cycle -= 1;
            }
            at.set_left(u8::from(quiet_loop.is_none()));
        }
        self.write_back::<KNOWN>(&at, pc, cursor);
        quiet_loop
    }

    /// Where dispatch is.
    #[inline(always)]
    fn front(&self) -> Front {
        let tail = self.hart.window.tail;
        let scheduler_entries = u64::from(self.shared.spec.scheduler_entries);
        Front {
            cycle: self.hart.dispatch_cycle,
            tail,
            last_commit: self.hart.window.last_commit,
            last_issue: self.hart.last_issue,
            // What commits is done before, and no other register is waited for.
            latest: self.hart.window.last_commit,
            width_until: tail + u64::from(self.hart.dispatch_left),
            scheduler_until: tail + scheduler_entries - u64::from(self.shared.in_scheduler),
            room: 0,
            limit: 0,
        }
    }

    /// Dispatch is there, and goes on with the instruction at `pc`.
    #[inline(always)]
    fn write_back<const KNOWN: bool>(&mut self, at: &Front, pc: u64, cursor: u32) {
        self.hart.pc = pc;
        self.hart.cursor = cursor;
        self.hart.dispatch_cycle = at.cycle;
        self.hart.dispatch_left = at.left();
        if K::IN_ORDER && at.tail > self.hart.window.tail {
            self.hart.last_issue = self.hart.window.slot(at.tail - 1).issue;
        }
        if !K::IN_ORDER {
            self.shared.in_scheduler = self.in_scheduler_at(at);
        }
        self.hart.statistics.instructions += at.tail - self.hart.window.tail;
        self.hart.window.tail = at.tail;
        if KNOWN {
            self.hart.window.commit_known = at.tail;
            self.hart.window.last_commit = at.last_commit;
        }
        // Nobody ever waits for what is thrown away.
        self.hart.ready[usize::from(SINK)] = 0;
    }

    /// A backward branch to `pc` is taken: whether it is time to look for a period. Until all is
    /// known, it is not.
    #[inline(always)]
    fn loop_repeats<const KNOWN: bool>(&mut self, at: &Front, pc: u64) -> bool {
        if KNOWN {
            return self.shared.spin.repeats_quietly(&self.hart.registers);
        }
        self.hart.dispatch_cycle = at.cycle;
        self.begins_iteration_at(pc);
        false
    }

    /// When the two operands of an instruction are ready.
    #[inline(always)]
    fn operands_ready(&self, decoded: &Decoded) -> u64 {
        let i = &decoded.instruction;
        self.hart.ready[usize::from(i.rs1)].max(self.hart.ready[usize::from(i.rs2)])
    }

    /// How many instructions are in the scheduler.
    #[inline(always)]
    fn in_scheduler_at(&self, at: &Front) -> u32 {
        (u64::from(self.shared.spec.scheduler_entries) + at.tail - at.scheduler_until) as u32
    }

    /// Puts an instruction into the window whose operands are ready at `ready`, and whose work
    /// begins when it has issued, but not before `begin`; says when it issues.
    #[inline(always)]
    fn enter<const KNOWN: bool, const SINGLE: bool, const FREQUENT: bool>(
        &mut self,
        at: &mut Front,
        decoded: &Decoded,
        value: u64,
        ready: u64,
        begin: u64,
    ) -> u64 {
        let need = decoded.need;
        let next = at.cycle + 1;
        let issue = if !K::IN_ORDER {
            let earliest = ready.max(next);
            if FREQUENT {
                self.shared.calendar.issue_frequent(need, earliest)
            } else {
                self.issue_at(decoded, earliest)
            }
        } else if SINGLE && (FREQUENT || need.is_frequent()) && at.last_issue <= at.cycle {
            // Each cycle has one: those after it are dispatched later, and issue later.
            next
        } else {
            at.last_issue = self.issue_at(decoded, next);
            at.latest = at.latest.max(at.last_issue + u64::from(need.latency));
            if at.last_issue > next {
                at.room = 0;
                at.limit = 0;
            }
            at.last_issue
        };
        let done = issue.max(begin) + u64::from(need.latency);
        if SINGLE && !FREQUENT {
            at.latest = at.latest.max(done);
        }
        let commit = if !KNOWN {
            UNKNOWN
        } else if SINGLE {
            (done + 1).max(at.last_commit + 1)
        } else {
            self.hart.window.commit_at(at.tail, at.last_commit, done)
        };
        let register = usize::from(decoded.instruction.rd);
        let slot = Slot {
            issue,
            complete: done,
            previous_value: self.hart.registers[register],
            previous_ready: self.hart.ready[register],
            tags: decoded.tags,
        };
        self.hart.window.place(at.tail, slot, commit);
        self.hart.registers[register] = value;
        self.hart.ready[register] = done;
        if KNOWN {
            at.last_commit = commit;
        }
        at.tail += 1;
        if SINGLE {
            at.cycle = next;
        }
        issue
    }

    /// The same for what is not done often: the loop above stays small.
    #[inline(never)]
    fn enter_rarely<const KNOWN: bool, const SINGLE: bool>(
        &mut self,
        mut at: Front,
        decoded: &Decoded,
        value: u64,
        ready: u64,
        begin: u64,
    ) -> (Front, u64) {
        let issue = self.enter::<KNOWN, SINGLE, false>(&mut at, decoded, value, ready, begin);
        (at, issue)
    }

    /// Books the issue of an instruction at `earliest` or later, in the cases that the caller has
    /// no shorter way for.
    #[inline(never)]
    fn issue_at(&mut self, decoded: &Decoded, earliest: u64) -> u64 {
        self.shared.calendar.issue(
            decoded.tags.unit,
            decoded.need,
            earliest,
            &mut self.hart.statistics.operations,
        )
    }

    /// Puts a load into the window that takes its value from the store of that number.
    #[inline(always)]
    fn enter_forwarded<const SINGLE: bool>(
        &mut self,
        at: &mut Front,
        decoded: &Decoded,
        address: u64,
        number: u64,
    ) {
        let store = self.hart.stores.get(number);
        let data = store.data >> ((address - store.address) * 8);
        let value = decoded.extended(data);
        let begin = store.data_ready;
        let ready = self.operands_ready(decoded);
        let issue;
        (*at, issue) = self.enter_rarely::<true, SINGLE>(*at, decoded, value, ready, begin);
        self.hart.loads.push(Load {
            position: at.tail - 1,
            address,
            performed: issue.max(begin),
            forwarded_from: number + 1,
            commit: at.last_commit,
            bytes: decoded.bytes,
        });
        self.hart.loads.committed += 1;
        self.hart.statistics.forwarded_loads += 1;
    }

    /// Puts an instruction into the window that waits for some of its two operands; says where it
    /// is among what is deferred.
    #[inline(always)]
    fn enter_deferred(&mut self, at: &mut Front, decoded: &Decoded) -> usize {
        let place = (at.tail, at.cycle);
        let index = self.place_deferred::<2>(place, &decoded.instruction, decoded.tags, UNKNOWN);
        self.shared.unissued += 1;
        at.tail += 1;
        index
    }

    /// Puts a load into the window whose address is ready at `ready`, with no older store in its
    /// way, and whose line is not in the data cache.
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
        let issue = self.shared.calendar.issue(
            Unit::Load,
            need,
            earliest,
            &mut self.hart.statistics.operations,
        );
        let number = self.hart.loads.push(Load {
            position,
            address,
            performed: UNKNOWN,
            forwarded_from: 0,
            commit: UNKNOWN,
            bytes: decoded.bytes,
        });
        let place = (position, cycle);
        let index = self.place_deferred::<0>(place, &decoded.instruction, decoded.tags, issue);
        let rest = self.hart.window.rest_mut(index);
        rest.queue_number = number;
        rest.stores_before = 0;
        self.load_misses(index, LineAddress::of(address), issue, outbox);
    }

    /// The dispatch cycle has come to `cycle`, which it may not reach now. If that is because of a
    /// store, performs it. Returns which cycle it may not reach from now on.
    #[inline(always)]
    fn stop_after(&mut self, cycle: u64) -> u64 {
        if self.hart.store_event <= cycle && self.hart.store_event < self.shared.stop {
            self.perform_until(cycle)
        } else {
            self.next_stop()
        }
    }

    /// The dispatch cycle has come to `cycle`: performs stores that are due then, as far as this
    /// is all that has to be done. Returns which cycle it may not reach now.
    #[inline(never)]
    fn perform_until(&mut self, cycle: u64) -> u64 {
        loop {
            let now = self.hart.store_event;
            if now > cycle || now >= self.shared.stop || !self.perform_store_at_once(now) {
                return self.next_stop();
            }
        }
    }

    /// The first cycle, from the present one on, in which the reorder buffer has room.
    #[inline(always)]
    fn room_from(&self, at: &mut Front) -> u64 {
        // Instructions commit in order: one that can enter when a later one has left can before.
        let oldest = self.hart.window.leaving_at(at.tail);
        let more = (ROOM_FOR - 1).min(self.hart.window.capacity() / 2);
        if self.hart.window.commit(oldest + more) < at.cycle {
            at.room = at.tail + more + 1;
        }
        at.cycle.max(self.hart.window.commit(oldest) + 1)
    }

    /// What was to issue before the present cycle has left the scheduler.
    #[inline(always)]
    fn issue_scheduled(&mut self, at: &mut Front) {
        if self.shared.scheduler_cycle >= at.cycle {
            return;
        }
        let entries = u64::from(self.shared.spec.scheduler_entries);
        let until_when_empty = at.tail + entries - u64::from(self.shared.unissued);
        let mut cycle = self.shared.scheduler_cycle;
        while cycle < at.cycle && at.scheduler_until != until_when_empty {
            at.scheduler_until += u64::from(self.shared.calendar.issues(cycle));
            cycle += 1;
        }
        self.shared.scheduler_cycle = at.cycle;
    }

    /// The branch or jump that has just been dispatched, before the cycle `next`, and is done at
    /// `done` leads elsewhere than was predicted.
    #[inline(always)]
    fn mispredicted(&mut self, at: &mut Front, next: u64, done: u64) {
        let hart = &mut *self.hart;
        hart.statistics.mispredictions += 1;
        charge(&mut hart.statistics.stack.base, &mut hart.charged, next);
        hart.stall = Stall::Branch;
        at.cycle = done + self.front_end();
        at.set_left(self.shared.spec.width);
    }
}

/// Charges the cycles before `until` that have not been charged to `part`.
#[inline(always)]
fn charge(part: &mut u64, charged: &mut u64, until: u64) {
    let cycles = until.saturating_sub(*charged);
    *part += cycles;
    *charged += cycles;
}
