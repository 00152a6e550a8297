//! Loads look for their values, stores are performed, lines come and go.

use crate::core::{Core, MissingLoad, NEVER, WAIT_TABLE_ENTRIES, WaitingLoad, WaitsFor, Why};
use crate::extension::Extension;
use crate::kind::CoreKind;
use crate::probe::Found;
use crate::queues::{Load, Store, StoreKind, covers, low_bytes, overlap};
use crate::spec::MemoryModel;
use crate::stack::Stall;
use crate::window::{SlotKind, UNKNOWN};
use fabric::{
    CacheNotice, FirstFill, FirstLevel, LineAddress, Observation, Outbox, RequestOutcome,
    SecondNotice, Side, Slot, Source, Time, ToCache,
};
use riscv::Class;

/// What older stores mean for a load.
enum Older {
    Nothing,
    /// It has to wait.
    Wait(WaitsFor),
    /// It takes a store's value.
    Forward {
        store: u64,
        value: u64,
        ready: u64,
    },
}

impl<X: Extension, K: CoreKind> Core<X, K> {
    pub(crate) fn wait_entry(&self, pc: u64) -> usize {
        (pc >> 1) as usize % WAIT_TABLE_ENTRIES
    }

    /// What the stores before the load in slot `index`, whose address is known, mean for it.
    #[inline(always)]
    fn older_stores(&mut self, index: usize) -> Older {
        let rest = self.hart.window.rest(index);
        if rest.stores_before <= self.hart.stores.head {
            return Older::Nothing;
        }
        let load = self.hart.loads.get(rest.queue_number);
        let older = if self.hart.stores.unknown_addresses == 0
            && !self.hart.stores.may_overlap(load.address, load.bytes)
        {
            Older::Nothing
        } else {
            self.search_older_stores(index)
        };
        if matches!(older, Older::Nothing) && self.hart.stores.unknown_addresses == 0 {
            // None of them will ever be in the way.
            self.hart.window.rest_mut(index).stores_before = self.hart.stores.head;
        }
        older
    }

    /// The same by looking at each of them.
    #[inline(never)]
    fn search_older_stores(&self, index: usize) -> Older {
        let rest = self.hart.window.rest(index);
        let load = self.hart.loads.get(rest.queue_number);
        let pc = self
            .hart
            .window
            .slot(self.hart.window.deferred(index).position)
            .tags
            .pc;
        let waits = self.shared.wait_table[self.wait_entry(pc)];
        for older in (self.hart.stores.head..rest.stores_before).rev() {
            let store = self.hart.stores.get(older);
            if !store.address_known {
                if waits || store.kind == StoreKind::Atomic {
                    return Older::Wait(WaitsFor::StoreKnown(older));
                }
                continue;
            }
            if !overlap(store.address, store.bytes, load.address, load.bytes) {
                continue;
            }
            if store.kind == StoreKind::Atomic
                || !covers(store.address, store.bytes, load.address, load.bytes)
            {
                return Older::Wait(WaitsFor::StorePerformed(older));
            }
            if store.data_ready >= UNKNOWN {
                return Older::Wait(WaitsFor::StoreKnown(older));
            }
            let shift = (load.address - store.address) * 8;
            return Older::Forward {
                store: older,
                value: low_bytes(store.data >> shift, load.bytes),
                ready: store.data_ready,
            };
        }
        Older::Nothing
    }

    /// Takes the value from an older store or waits for one; false if none is in the way.
    #[inline(always)]
    fn served_by_older_store(&mut self, index: usize, issue: u64) -> bool {
        let deferred = self.hart.window.deferred(index);
        let position = deferred.position;
        let instruction = deferred.instruction;
        match self.older_stores(index) {
            Older::Nothing => return false,
            Older::Wait(until) => self.hart.waiting_loads.push(WaitingLoad {
                until,
                index: index as u32,
                issue,
            }),
            Older::Forward {
                store,
                value,
                ready,
            } => {
                let performed = issue.max(ready);
                let done = performed + self.shared.spec.l1_data.hit_latency_cycles;
                let number = self.hart.window.rest(index).queue_number;
                let entry = self.hart.loads.get_mut(number);
                entry.performed = performed;
                entry.forwarded_from = store + 1;
                self.hart.statistics.forwarded_loads += 1;
                self.note_found(position, Found::Store);
                self.resolve(index, instruction.load_value(value), done);
            }
        }
        true
    }

    /// Looks for the value of the load in slot `index`, whose address is known: in older stores,
    /// in the cache, or by asking for the line.
    pub(crate) fn access_load(&mut self, index: usize, issue: u64, outbox: &mut Outbox) {
        if self.served_by_older_store(index, issue) {
            return;
        }
        let number = self.hart.window.rest(index).queue_number;
        let line = LineAddress::of(self.hart.loads.get(number).address);
        if let Some(slot) = self.shared.data_cache.find(line) {
            self.shared.data_cache.touch(slot);
            self.hart.statistics.data_hits += 1;
            if self.hart.observes {
                self.tell_prefetcher_of(index, issue, outbox);
            }
            let done = issue + self.shared.spec.l1_data.hit_latency_cycles;
            self.take_value(index, slot, issue, done);
            return;
        }
        self.load_misses(index, line, issue, outbox);
    }

    /// The load in slot `index` asks for its line, which is not in the data cache.
    #[inline(always)]
    pub(crate) fn load_misses(
        &mut self,
        index: usize,
        line: LineAddress,
        issue: u64,
        outbox: &mut Outbox,
    ) {
        let at = self.departure(issue, self.shared.spec.l1_data.hit_latency_cycles);
        let load = MissingLoad {
            line,
            index: index as u32,
            live: true,
            issue,
        };
        match self.request_line((Side::Data, line, false), at, outbox) {
            RequestOutcome::Full => self.hart.refused.push_back(load),
            outcome => {
                // What is under way was expected when it was sent.
                if outcome == RequestOutcome::Sent {
                    self.expect_answer(at);
                }
                self.hart.statistics.data_misses += 1;
                self.shared.spin.disturb();
                self.hart.missing.push(load);
                if self.hart.observes {
                    self.tell_prefetcher_of(index, issue, outbox);
                }
            }
        }
    }

    /// The load in slot `index` reads its value out of the cache, at cycle `performed`.
    #[inline(always)]
    fn take_value(&mut self, index: usize, slot: Slot, performed: u64, done: u64) {
        let instruction = self.hart.window.deferred(index).instruction;
        let number = self.hart.window.rest(index).queue_number;
        let load = self.hart.loads.get_mut(number);
        load.performed = performed;
        let offset = (load.address % 64) as usize;
        let raw = self
            .shared
            .data_cache
            .line(slot)
            .read(offset, usize::from(load.bytes));
        // Of eight bytes nothing is left to extend.
        let value = match load.bytes {
            8 => raw,
            _ => instruction.load_value(raw),
        };
        self.resolve(index, value, done);
    }

    /// Lets waiting loads try again whose wait has ended.
    pub(crate) fn unpark(&mut self, now: u64, outbox: &mut Outbox) {
        let mut place = 0;
        while let Some(&load) = self.hart.waiting_loads.get(place) {
            let goes = match load.until {
                WaitsFor::StorePerformed(number) => number < self.hart.stores.head,
                WaitsFor::StoreKnown(number) => {
                    let store = self.hart.stores.get(number);
                    number < self.hart.stores.head
                        || (store.address_known && store.data_ready < UNKNOWN)
                }
            };
            if goes {
                self.hart.waiting_loads.remove(place);
                self.access_load(load.index as usize, load.issue.max(now), outbox);
            } else {
                place += 1;
            }
        }
    }

    /// Lets the refused loads, in order, have what there is of miss registers.
    fn retry_refused(&mut self, now: u64, outbox: &mut Outbox) {
        while let Some(&load) = self.hart.refused.front() {
            if self.shared.data_cache.refuses_to_read(load.line) {
                return;
            }
            self.hart.refused.pop_front();
            self.access_load(load.index as usize, load.issue.max(now), outbox);
        }
    }

    /// Handles the common cases of [`Core::perform_stores`] and returns whether it did: the oldest
    /// entry is a store, no instruction waits for it to perform, and no line still has to be
    /// requested.
    #[inline]
    pub(crate) fn perform_store_at_once(&mut self, now: u64) -> bool {
        if !self.hart.stores.next_is_plain()
            || self.hart.stores.last_performed >= now
            || !self.hart.waiting_loads.is_empty()
            || self.shared.others_watch
        {
            return false;
        }
        let head = self.hart.stores.get(self.hart.stores.head);
        if head.commit < now
            && let Some(slot) = self.owned_recent(head)
        {
            // Mostly it is the only one that has committed, or those behind it have their lines,
            // too.
            let mut next = self.hart.stores.requested.max(self.hart.stores.head + 1);
            loop {
                if next == self.hart.stores.tail || self.hart.stores.get(next).commit >= now {
                    self.hart.stores.requested = next;
                    self.perform_oldest(slot, now);
                    return true;
                }
                let store = self.hart.stores.get(next);
                if store.kind == StoreKind::Store && self.owned_recent(store).is_none() {
                    break;
                }
                next += 1;
            }
        }
        self.wait_or_perform(now)
    }

    /// Where the line of a store is, if it is the most recently used of its set and may be written.
    #[inline(always)]
    fn owned_recent(&self, store: &Store) -> Option<Slot> {
        let recent = self
            .shared
            .data_cache
            .find_recent(LineAddress::of(store.address));
        recent.filter(|&slot| self.shared.data_cache.writable(slot))
    }

    /// The same where several stores have committed, or the line of the oldest is not here.
    #[inline(never)]
    fn wait_or_perform(&mut self, now: u64) -> bool {
        let mut event = NEVER;
        while self.hart.stores.requested < self.hart.stores.tail {
            let store = self.hart.stores.get(self.hart.stores.requested);
            if store.commit >= now {
                if store.commit < UNKNOWN {
                    event = store.commit + 1;
                }
                break;
            }
            if store.kind == StoreKind::Store {
                let line = LineAddress::of(store.address);
                if !self.owns(line) && !self.shared.data_cache.is_asked_for(line) {
                    return false;
                }
            }
            self.hart.stores.requested += 1;
        }
        let head = self.hart.stores.get(self.hart.stores.head);
        let line = LineAddress::of(head.address);
        // Before it has committed, it has not asked for its line either.
        if head.commit < now {
            if let Some(slot) = self.shared.data_cache.find_and_touch_owned(line) {
                self.perform_oldest(slot, now);
                return true;
            }
            if !self.shared.data_cache.is_asked_for(line) {
                return false;
            }
        }
        self.hart.store_event = event;
        self.shared.spin.disturb();
        true
    }

    /// Performs the oldest store, whose line is in `slot` and nobody else's.
    #[inline(always)]
    fn perform_oldest(&mut self, slot: Slot, now: u64) {
        let head = self.hart.stores.get(self.hart.stores.head);
        let (address, bytes, data) = (head.address, head.bytes, head.data);
        self.shared.spin.disturb();
        let bytes = usize::from(bytes);
        self.observe(now, slot, (address, bytes), data);
        self.shared
            .data_cache
            .line_mut(slot)
            .write((address % 64) as usize, bytes, data);
        self.hart.stores.last_performed = now;
        self.hart.statistics.stores += 1;
        self.hart.stores.pop_plain(address, bytes as u8);
        self.hart.store_event = self.next_store_after(now);
    }

    /// When the store queue wants attention next, one of its entries having been performed at
    /// `now`.
    #[inline(always)]
    fn next_store_after(&self, now: u64) -> u64 {
        if self.hart.stores.is_empty() {
            return NEVER;
        }
        // Those behind it commit later.
        match self.hart.stores.get(self.hart.stores.head).commit {
            UNKNOWN.. => NEVER,
            commit => commit.max(now) + 1,
        }
    }

    /// Whether the data cache has `line` and may write it.
    #[inline(always)]
    fn owns(&self, line: LineAddress) -> bool {
        let recent = self.shared.data_cache.find_recent(line);
        let slot = recent.or_else(|| self.shared.data_cache.find(line));
        slot.is_some_and(|slot| self.shared.data_cache.writable(slot))
    }

    /// Asks for the lines of committed stores, and performs the oldest if it can be.
    pub(crate) fn perform_stores(&mut self, now: u64, outbox: &mut Outbox) {
        self.shared.spin.disturb();
        self.hart.store_event = NEVER;
        let hit_latency = self.shared.spec.l1_data.hit_latency_cycles;
        while self.hart.stores.requested < self.hart.stores.tail {
            let store = self.hart.stores.get(self.hart.stores.requested);
            if store.commit >= now {
                if store.commit < UNKNOWN {
                    self.hart.store_event = store.commit + 1;
                }
                break;
            }
            if store.kind == StoreKind::Store {
                let line = LineAddress::of(store.address);
                if !self.owns(line) {
                    let at = self.departure(now, hit_latency);
                    let wanted = (Side::Data, line, true);
                    if self.request_line(wanted, at, outbox) == RequestOutcome::Full {
                        break;
                    }
                }
            }
            self.hart.stores.requested += 1;
        }
        if self.hart.stores.is_empty() {
            return;
        }
        let head = self.hart.stores.get(self.hart.stores.head);
        if head.commit >= UNKNOWN {
            return;
        }
        let (kind, address, data) = (head.kind, head.address, head.data);
        let bytes = usize::from(head.bytes);
        let instruction = head.instruction;
        let turn = (head.commit + 1).max(self.hart.stores.last_performed + 1);
        if turn > now {
            self.hart.store_event = self.hart.store_event.min(turn);
            return;
        }
        let line = LineAddress::of(address);
        let slot = self.shared.data_cache.find(line);
        if kind == StoreKind::Atomic
            && instruction.class == Class::StoreConditional
            && self.hart.reservation != Some(line)
        {
            self.finish_atomic(1, now, outbox);
            return;
        }
        match slot.filter(|&slot| self.shared.data_cache.writable(slot)) {
            Some(slot) => {
                self.shared.data_cache.touch(slot);
                let offset = (address % 64) as usize;
                match kind {
                    StoreKind::Store => {
                        self.observe(now, slot, (address, bytes), data);
                        self.shared
                            .data_cache
                            .line_mut(slot)
                            .write(offset, bytes, data);
                        self.tell_other_harts(now, address, bytes as u8);
                        self.hart.stores.last_performed = now;
                        self.hart.statistics.stores += 1;
                        self.hart.stores.pop();
                        self.after_store(now, outbox);
                    }
                    StoreKind::Atomic => {
                        let old = self.shared.data_cache.line(slot).read(offset, bytes);
                        let conditional = instruction.class == Class::StoreConditional;
                        let new = if conditional {
                            data
                        } else {
                            low_bytes(instruction.atomic_result(old, data), bytes as u8)
                        };
                        self.observe(now, slot, (address, bytes), new);
                        self.shared
                            .data_cache
                            .line_mut(slot)
                            .write(offset, bytes, new);
                        self.tell_other_harts(now, address, bytes as u8);
                        let result = if conditional {
                            0
                        } else {
                            instruction.load_value(old)
                        };
                        self.hart.statistics.stores += 1;
                        self.finish_atomic(result, now, outbox);
                    }
                }
            }
            None => {
                let at = self.departure(now, hit_latency);
                // If it is outstanding already, or no miss register is free, a fill brings us
                // back here.
                self.request_line((Side::Data, line, true), at, outbox);
            }
        }
    }

    /// A store of so many bytes to an address, in its line in `slot`, is about to be performed.
    #[inline(always)]
    fn observe(&mut self, now: u64, slot: Slot, place: (u64, usize), value: u64) {
        if self.shared.watch.contains(place.0) {
            self.note_observation(now, slot, place, value);
        }
    }

    #[inline(never)]
    fn note_observation(
        &mut self,
        now: u64,
        slot: Slot,
        (address, bytes): (u64, usize),
        value: u64,
    ) {
        let before = self
            .shared
            .data_cache
            .line(slot)
            .read((address % 64) as usize, bytes);
        self.shared.observations.push(Observation {
            at: self.shared.clock.time(now),
            core: self.shared.id,
            address,
            before,
            value,
        });
    }

    fn finish_atomic(&mut self, result: u64, now: u64, outbox: &mut Outbox) {
        let head = *self.hart.stores.get(self.hart.stores.head);
        let index = self.hart.window.index(head.position);
        self.hart.stores.last_performed = now;
        let done = now + self.shared.spec.l1_data.hit_latency_cycles;
        let conditional = head.instruction.class == Class::StoreConditional;
        self.hart.stores.pop();
        // Committed counts atomics when their slot commits, which is now.
        self.resolve(index, result, done);
        if conditional {
            self.hart.reservation = None;
            self.hart.attempts.store(head.address, result == 0);
            if self.hart.attempts.are_in_vain() {
                let pc = self.hart.window.slot(head.position).tags.pc;
                let why = Why::Conditionals(self.hart.attempts);
                self.crash_at(now, why, pc, Some(head.instruction.bits));
            }
            self.release_held(now, outbox);
        }
        self.after_store(now, outbox);
    }

    fn after_store(&mut self, now: u64, outbox: &mut Outbox) {
        self.wake_all(now, outbox);
        self.hart.store_event = self.hart.store_event.min(self.next_store_after(now));
    }

    /// Asks for a line for one of the first-level caches, in order to write it or only to read it:
    /// its home, or the second-level cache if there is one. The request leaves at `at`.
    #[inline]
    pub(crate) fn request_line(
        &mut self,
        (side, line, write): (Side, LineAddress, bool),
        at: Time,
        outbox: &mut Outbox,
    ) -> RequestOutcome {
        if self.shared.second_level.is_some() {
            return self.request_second_level((side, line, write), at, outbox);
        }
        match side {
            Side::Instruction => self
                .shared
                .instruction_cache
                .request(line, write, at, outbox),
            Side::Data => self.shared.data_cache.request(line, write, at, outbox),
        }
    }

    #[inline(never)]
    fn request_second_level(
        &mut self,
        wanted: (Side, LineAddress, bool),
        at: Time,
        outbox: &mut Outbox,
    ) -> RequestOutcome {
        let Some(second) = &mut self.shared.second_level else {
            return RequestOutcome::Full;
        };
        let first = FirstLevel {
            instruction: &mut self.shared.instruction_cache,
            data: &mut self.shared.data_cache,
        };
        let cycle = self.shared.clock.cycle_at_or_after(at);
        let outcome = second.request(first, wanted, cycle, outbox);
        self.shared.second_level_event = second.next_found();
        self.shared.stop = self.shared.stop.min(self.shared.second_level_event);
        outcome
    }

    /// The second-level cache has found lines for the first level.
    #[inline(never)]
    pub(crate) fn second_level_found(&mut self, now: u64, outbox: &mut Outbox) {
        self.shared.spin.disturb();
        while let Some(second) = &mut self.shared.second_level {
            let first = FirstLevel {
                instruction: &mut self.shared.instruction_cache,
                data: &mut self.shared.data_cache,
            };
            let found = second.found(first, now, outbox);
            self.shared.second_level_event = second.next_found();
            let Some((side, fill)) = found else {
                return;
            };
            if side == Side::Data {
                self.first_level_filled(fill, Source::SecondLevel, now, outbox);
            }
        }
    }

    /// A message for the second-level cache.
    #[inline(never)]
    fn second_level_message(
        &mut self,
        now: u64,
        line: LineAddress,
        message: &ToCache,
        outbox: &mut Outbox,
    ) {
        let Some(second) = &mut self.shared.second_level else {
            return;
        };
        let first = FirstLevel {
            instruction: &mut self.shared.instruction_cache,
            data: &mut self.shared.data_cache,
        };
        match second.receive(first, line, message, now, outbox) {
            SecondNotice::None => {}
            SecondNotice::Lost(line) => self.line_lost(line, now),
            SecondNotice::Filled {
                source,
                evicted,
                data,
                ..
            } => {
                if let Some(evicted) = evicted {
                    self.line_lost(evicted, now);
                }
                if let Some(fill) = data {
                    self.first_level_filled(fill, source, now, outbox);
                } else {
                    self.finish_fill(line, now, outbox);
                }
            }
        }
        self.shared.second_level_event = self
            .shared
            .second_level
            .as_ref()
            .map_or(NEVER, |second| second.next_found());
    }

    /// A message for the data cache.
    pub(crate) fn data_message(
        &mut self,
        now: u64,
        line: LineAddress,
        message: &ToCache,
        outbox: &mut Outbox,
    ) {
        if self.shared.second_level.is_some() {
            self.second_level_message(now, line, message, outbox);
            return;
        }
        let at = self.departure(now, self.shared.spec.l1_data.hit_latency_cycles);
        let notice = self.shared.data_cache.receive(line, message, at, outbox);
        match notice {
            CacheNotice::None | CacheNotice::Downgraded(_) => {}
            CacheNotice::Lost(line) => self.line_lost(line, now),
            CacheNotice::Filled {
                slot,
                evicted,
                source,
                ..
            } => {
                self.for_each_hart(|core| core.charge_miss(line, source, now));
                self.line_filled(line, (slot, source), evicted, now, outbox);
            }
        }
    }

    /// `line` has come: if dispatch has been held up by the oldest load, and it is of this line,
    /// it is known now what it waited for.
    #[inline(always)]
    fn charge_miss(&mut self, line: LineAddress, source: Source, now: u64) {
        if self.hart.stall != Stall::Miss || self.hart.window.all_known() {
            return;
        }
        let oldest = self.hart.window.commit_known;
        let rest = self.hart.window.rest(self.hart.window.index(oldest));
        if self.hart.window.slot(oldest).tags.kind != SlotKind::Load
            || LineAddress::of(self.hart.loads.get(rest.queue_number).address) != line
        {
            return;
        }
        let cycles = now.saturating_sub(self.hart.charged);
        let stack = &mut self.hart.statistics.stack;
        match source {
            Source::SecondLevel => stack.l2 += cycles,
            Source::LastLevel => stack.last_level += cycles,
            Source::Cache => stack.remote_cache += cycles,
            Source::Memory => stack.memory += cycles,
        }
        self.hart.charged += cycles;
    }

    /// The same for a line that has come by way of the second level.
    #[inline(never)]
    fn first_level_filled(
        &mut self,
        fill: FirstFill,
        source: Source,
        now: u64,
        outbox: &mut Outbox,
    ) {
        self.for_each_hart(|core| core.charge_miss(fill.line, source, now));
        self.line_filled(fill.line, (fill.slot, source), fill.evicted, now, outbox);
    }

    #[inline(always)]
    fn line_filled(
        &mut self,
        line: LineAddress,
        (slot, source): (Slot, Source),
        evicted: Option<LineAddress>,
        now: u64,
        outbox: &mut Outbox,
    ) {
        self.hart.statistics.lines_filled += 1;
        if let Some(prefetching) = &mut self.shared.data_prefetching {
            prefetching.filled(line, slot, evicted);
        }
        if let Some(evicted) = evicted {
            self.hart.statistics.lines_evicted += 1;
            self.line_lost(evicted, now);
        }
        if self.shared.translation.is_some() {
            self.walks_have_line(line, slot, now, outbox);
        }
        self.for_each_hart(|core| core.use_line(line, (slot, source), now, outbox));
        // Only now may the line go to someone who has asked for it meanwhile.
        let mut held = false;
        self.for_each_hart(|core| {
            if !held && core.is_held_line(line, now) {
                held = true;
                core.hold_fill(line, now, outbox);
            }
        });
        if !held {
            self.finish_fill(line, now, outbox);
        }
        for (line, message) in std::mem::take(&mut self.shared.postponed) {
            self.data_message(now, line, &message, outbox);
        }
        self.use_miss_register(now, outbox);
    }

    /// The loads, the stores and the instruction executed alone that wait for a line which has
    /// come.
    #[inline(always)]
    fn use_line(
        &mut self,
        line: LineAddress,
        (slot, source): (Slot, Source),
        now: u64,
        outbox: &mut Outbox,
    ) {
        let hit_latency = self.shared.spec.l1_data.hit_latency_cycles;
        let mut arrived = std::mem::take(&mut self.shared.arrived);
        // Mostly they have asked one behind the other.
        let mut place = 0;
        while let Some(first) = self.hart.missing[place..]
            .iter()
            .position(|one| one.line == line)
        {
            place += first;
            let others = self.hart.missing[place..]
                .iter()
                .position(|one| one.line != line);
            let end = others.map_or(self.hart.missing.len(), |others| place + others);
            arrived.extend(self.hart.missing.drain(place..end));
        }
        for (place, load) in arrived.drain(..).enumerate() {
            let index = load.index as usize;
            // A load that looks later than the line comes finds it like any other. An older store
            // may have turned out to be of its address meanwhile.
            let performed = load.issue.max(now);
            if load.live && !self.served_by_older_store(index, performed) {
                let done = (load.issue + hit_latency).max(now + 1);
                let position = self.hart.window.deferred(index).position;
                let found = match place {
                    0 => Found::Line(source),
                    _ => Found::Awaited(source),
                };
                self.note_found(position, found);
                self.take_value(index, slot, performed, done);
            }
        }
        self.shared.arrived = arrived;
        self.wake_all(now, outbox);
        // What is due now may still be to be done, and the line gone by then.
        if (self.hart.store_event > now || self.is_multithreaded()) && !self.hart.stores.is_empty()
        {
            self.perform_stores(now, outbox);
        }
        if let Some(serial) = &self.hart.serial
            && serial.waits_for_line(line)
        {
            self.run_serial(now, outbox);
        }
    }

    /// A line has come that this hart has reserved: who has asked for it meanwhile waits.
    fn hold_fill(&mut self, line: LineAddress, now: u64, outbox: &mut Outbox) {
        let forward = match &mut self.shared.second_level {
            None => self.shared.data_cache.keep_fill(),
            Some(second) => second.keep_fill(now, outbox),
        };
        if let Some(forward) = forward {
            self.hart.held.push((line, forward));
        }
    }

    /// A miss register has become free: the oldest load goes first that found none.
    #[inline(always)]
    fn use_miss_register(&mut self, now: u64, outbox: &mut Outbox) {
        if self.shared.translation.is_some() {
            self.retry_walks(now, outbox);
        }
        if self.is_multithreaded() {
            self.share_miss_register(now, outbox);
        } else {
            self.retry_misses(now, outbox);
        }
        if !self.shared.stashes.is_empty() {
            self.fetch_stashes(now, outbox);
        }
    }

    /// What this hart may do when a miss register has become free.
    #[inline(always)]
    pub(crate) fn retry_misses(&mut self, now: u64, outbox: &mut Outbox) {
        if !self.hart.refused.is_empty() {
            self.retry_refused(now, outbox);
            self.wake_all(now, outbox);
        }
        if self.hart.store_event > now && !self.hart.stores.is_empty() {
            self.hart.store_event = self.hart.store_event.min(now + 1);
        }
    }

    /// Asks for the lines that have been hinted at, in order, as far as there are miss registers.
    pub(crate) fn fetch_stashes(&mut self, now: u64, outbox: &mut Outbox) {
        while let Some(&line) = self.shared.stashes.front() {
            if !self.owns(line) {
                let at = self.departure(now, self.shared.spec.l1_data.hit_latency_cycles);
                let wanted = (Side::Data, line, true);
                if self.request_line(wanted, at, outbox) == RequestOutcome::Full {
                    return;
                }
            }
            self.shared.stashes.pop_front();
        }
    }

    fn is_held_line(&self, line: LineAddress, now: u64) -> bool {
        self.hart.reservation == Some(line)
            && self.hart.hold_until != NEVER
            && now < self.hart.hold_until
    }

    pub(crate) fn finish_fill(&mut self, line: LineAddress, now: u64, outbox: &mut Outbox) {
        let lost = if let Some(second) = &mut self.shared.second_level {
            let first = FirstLevel {
                instruction: &mut self.shared.instruction_cache,
                data: &mut self.shared.data_cache,
            };
            second.finish_fill(first, line, now, outbox)
        } else {
            let at = self.departure(now, self.shared.spec.l1_data.hit_latency_cycles);
            let notice = self.shared.data_cache.finish_fill(line, at, outbox);
            matches!(notice, CacheNotice::Lost(_))
        };
        if lost {
            self.line_lost(line, now);
        }
    }

    /// The core no longer holds `line`. Loads that were given its value for a cycle that is still
    /// to come must look again; so must loads that were done before an older one of the same line,
    /// for the two may now see two values in the wrong order. With TSO the older one may be of any
    /// line (Gharachorloo, Gupta and Hennessy, "Two Techniques to Enhance the Performance of Memory
    /// Consistency Models", ICPP 1991: speculative loads).
    fn line_lost(&mut self, line: LineAddress, now: u64) {
        self.for_each_hart(|core| {
            core.lose_reservation(line, now);
            if core.hart.loads.may_touch(line) {
                core.look_again(now, |load| LineAddress::of(load.address) == line);
            }
        });
    }

    /// Somebody else has written `line`, or taken it.
    pub(crate) fn lose_reservation(&mut self, line: LineAddress, now: u64) {
        if self.hart.reservation == Some(line) {
            self.hart.reservation = None;
            // It may have been replaced while others were kept waiting for it.
            self.hart.hold_until = if self.hart.held.is_empty() {
                NEVER
            } else {
                now
            };
        }
    }

    /// Loads of what is `lost` may have a value that is too old: see [`Core::line_lost`].
    pub(crate) fn look_again(&mut self, now: u64, lost: impl Fn(&Load) -> bool) {
        let all_in_order = self.shared.spec.memory_model == MemoryModel::Tso;
        let mut older_waits = false;
        for number in self.hart.loads.in_flight(now) {
            let load = *self.hart.loads.get(number);
            let unknown = load.address == u64::MAX;
            if unknown || lost(&load) {
                let taken = load.performed < UNKNOWN && !unknown;
                let from_cache = load.forwarded_from == 0;
                // A forwarded value is no longer the hart's own news once its store is performed.
                let from_line = load.forwarded_from <= self.hart.stores.head;
                if taken && (from_cache && load.performed > now || from_line && older_waits) {
                    let pc = self.hart.window.slot(load.position).tags.pc;
                    self.hart.statistics.memory_order_squashes += 1;
                    self.squash(load.position, now, pc, now + self.front_end());
                    self.blame(now, Stall::MemoryOrder);
                    return;
                }
                older_waits |= load.performed >= UNKNOWN;
            }
            older_waits |= all_in_order && load.performed > now;
        }
    }
}
