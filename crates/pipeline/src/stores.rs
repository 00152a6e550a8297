//! Committed stores and atomics perform in order, when the core owns their lines.

use crate::core::{Core, NEVER, Why};
use crate::kind::CoreKind;
use crate::queues::{Store, StoreKind, low_bytes};
use crate::window::UNKNOWN;
use fabric::{LineAddress, Observation, Outbox, RequestOutcome, Side, Slot};
use riscv::Class;

impl<K: CoreKind> Core<K> {
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
            // Usually it is the only committed one, or the lines of the following ones are
            // requested, too.
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

    /// The slot of a store's line, if it is the most recently used of its set and writable.
    #[inline(always)]
    fn owned_recent(&self, store: &Store) -> Option<Slot> {
        let recent = self
            .shared
            .data_cache
            .find_recent(LineAddress::of(store.address));
        recent.filter(|&slot| self.shared.data_cache.writable(slot))
    }

    /// The same if several stores have committed, or the line of the oldest is missing.
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
                if !self.owns(line) && !self.shared.data_cache.joins_miss(line) {
                    return false;
                }
            }
            self.hart.stores.requested += 1;
        }
        let head = self.hart.stores.get(self.hart.stores.head);
        let line = LineAddress::of(head.address);
        // Before it has committed, its line has not been requested either.
        if head.commit < now {
            if let Some(slot) = self.shared.data_cache.find_and_touch_owned(line) {
                self.perform_oldest(slot, now);
                return true;
            }
            if !self.shared.data_cache.joins_miss(line) {
                return false;
            }
        }
        self.hart.store_event = event;
        self.shared.spin.disturb();
        true
    }

    /// Performs the oldest store, whose line is in `slot` in an exclusive state.
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

    /// The cycle of the store queue's next event, after one of its entries has performed at `now`.
    #[inline(always)]
    fn next_store_after(&self, now: u64) -> u64 {
        if self.hart.stores.is_empty() {
            return NEVER;
        }
        // Those after it commit later.
        match self.hart.stores.get(self.hart.stores.head).commit {
            UNKNOWN.. => NEVER,
            commit => commit.max(now) + 1,
        }
    }

    /// Whether the data cache has `line` and may write it.
    #[inline(always)]
    pub(crate) fn owns(&self, line: LineAddress) -> bool {
        let recent = self.shared.data_cache.find_recent(line);
        let slot = recent.or_else(|| self.shared.data_cache.find(line));
        slot.is_some_and(|slot| self.shared.data_cache.writable(slot))
    }

    /// Requests the lines of committed stores, and performs the oldest if its line is writable.
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
        let start = (head.commit + 1).max(self.hart.stores.last_performed + 1);
        if start > now {
            self.hart.store_event = self.hart.store_event.min(start);
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
                        let position = self.hart.stores.get(self.hart.stores.head).position;
                        self.note_stored(position, new);
                        self.finish_atomic(result, now, outbox);
                    }
                }
            }
            None => {
                let at = self.departure(now, hit_latency);
                // If it is outstanding already, or no miss register is free, a fill calls this
                // again.
                self.request_line((Side::Data, line, true), at, outbox);
            }
        }
    }

    /// Reports a store of `place.1` bytes in the line in `slot`, which is about to be performed.
    #[inline(always)]
    pub(crate) fn observe(&mut self, now: u64, slot: Slot, place: (u64, usize), value: u64) {
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
        // The atomic commits when its slot commits, which is now.
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

    pub(crate) fn after_store(&mut self, now: u64, outbox: &mut Outbox) {
        self.wake_all(now, outbox);
        self.hart.store_event = self.hart.store_event.min(self.next_store_after(now));
    }
}
