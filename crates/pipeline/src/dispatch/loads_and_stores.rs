//! Dispatch of loads and stores: they take entries of the load and store queues.

use super::Stop;
use crate::core::Core;
use crate::kind::CoreKind;
use crate::ports::{Need, Unit};
use crate::queues::{Load, Store, StoreKind};
use crate::spec::MemoryModel;
use crate::stack::Stall;
use crate::translation::{PageAtDispatch, Wanted};
use crate::window::{SlotKind, UNKNOWN};
use fabric::{LineAddress, Outbox};
use riscv::paging::Access;
use riscv::{Class, Instruction};

/// A load's address at dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadAddress {
    /// Its base is unknown.
    Unknown,
    /// Its physical address, and the first cycle in which its page may be used.
    Known { address: u64, page_from: u64 },
    /// A page walk for this address is in progress.
    InWalk(u64),
}

impl<K: CoreKind> Core<K> {
    #[inline(always)]
    pub(super) fn dispatch_load(
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
        // The common case, in a few steps: no conflict with an older store, and a hit.
        if base_ready < UNKNOWN
            && self.hart.stores.unknown_addresses == 0
            && self.hart.is_in_one_piece(address, bytes)
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
                self.note_page(address);
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

    /// Dispatches a load whose value is unknown. If its address is known, it is in plain memory.
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

    /// Whether younger loads must wait until atomic `i` has performed.
    pub(crate) fn acquires(&self, i: &Instruction) -> bool {
        // "Ztso": all AMOs behave as if they had both annotations.
        i.acquire() || i.class == Class::Atomic && self.shared.spec.memory_model == MemoryModel::Tso
    }

    pub(super) fn dispatch_store(
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
            // A store's data can be forwarded; an atomic needs its page first.
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
