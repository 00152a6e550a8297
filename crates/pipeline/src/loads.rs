//! Loads get their values from older stores, from the data cache, or by a miss.

use crate::core::{Core, MissingLoad, WAIT_TABLE_ENTRIES, WaitingLoad, WaitsFor};
use crate::kind::CoreKind;
use crate::probe::Found;
use crate::queues::{Load, StoreKind, covers, low_bytes, overlap};
use crate::spec::MemoryModel;
use crate::stack::Stall;
use crate::window::UNKNOWN;
use fabric::{LineAddress, Outbox, RequestOutcome, Side, Slot};

/// The effect of older stores on a load.
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

impl<K: CoreKind> Core<K> {
    pub(crate) fn wait_entry(&self, pc: u64) -> usize {
        (pc >> 1) as usize % WAIT_TABLE_ENTRIES
    }

    /// The effect of the stores before the load in slot `index`, whose address is known.
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
            // None of them will ever conflict.
            self.hart.window.rest_mut(index).stores_before = self.hart.stores.head;
        }
        older
    }

    /// The same by a search of the store queue.
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

    /// Takes the value from an older store or waits for one; returns false if none overlaps.
    #[inline(always)]
    pub(crate) fn served_by_older_store(&mut self, index: usize, issue: u64) -> bool {
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

    /// Gets the value of the load in slot `index`, whose address is known: from older stores, from
    /// the cache, or by requesting the line.
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

    /// The load in slot `index` requests its line, which is not in the data cache.
    #[inline(always)]
    pub(crate) fn load_misses(
        &mut self,
        index: usize,
        line: LineAddress,
        issue: u64,
        outbox: &mut Outbox,
    ) {
        if self.hart.supplies.is_some() && self.is_supplied(index, line, issue) {
            return;
        }
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
                // For an outstanding line, the answer was expected when the request was sent.
                if outcome == RequestOutcome::Sent {
                    self.expect_answer(at);
                }
                if self.shared.spec.perfect_first_level {
                    self.hart.statistics.data_hits += 1;
                } else {
                    self.hart.statistics.data_misses += 1;
                }
                self.shared.spin.disturb();
                self.hart.missing.push(load);
                if self.hart.observes {
                    self.tell_prefetcher_of(index, issue, outbox);
                }
            }
        }
    }

    /// The load in slot `index` reads its value from the cache, at cycle `performed`.
    #[inline(always)]
    pub(crate) fn take_value(&mut self, index: usize, slot: Slot, performed: u64, done: u64) {
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
        // A value of eight bytes needs no extension.
        let value = match load.bytes {
            8 => raw,
            _ => instruction.load_value(raw),
        };
        self.resolve(index, value, done);
    }

    /// Retries loads whose wait has ended.
    pub(crate) fn retry_waiting_loads(&mut self, now: u64, outbox: &mut Outbox) {
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

    /// Gives free miss registers to the refused loads, in order.
    pub(crate) fn retry_refused(&mut self, now: u64, outbox: &mut Outbox) {
        while let Some(&load) = self.hart.refused.front() {
            if self.shared.data_cache.refuses_to_read(load.line) {
                return;
            }
            self.hart.refused.pop_front();
            self.access_load(load.index as usize, load.issue.max(now), outbox);
        }
    }

    /// Loads of what is `lost` may have a stale value: see [`Core::line_lost`].
    pub(crate) fn look_again(&mut self, now: u64, lost: impl Fn(&Load) -> bool) {
        let all_in_order = self.shared.spec.memory_model == MemoryModel::Tso;
        let mut older_waits = false;
        for number in self.hart.loads.in_flight(now) {
            let load = *self.hart.loads.get(number);
            let unknown = load.address == u64::MAX;
            if unknown || lost(&load) {
                let taken = load.performed < UNKNOWN && !unknown;
                let from_cache = load.forwarded_from == 0;
                // Once its store is performed, a forwarded value is no longer private to the hart.
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
