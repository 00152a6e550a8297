//! The load queue and the store queue.

use crate::ring::Ring;
use crate::window::UNKNOWN;
use fabric::LineAddress;
use riscv::Instruction;

/// A load in the load queue.
#[derive(Clone, Copy, Debug, state::State)]
pub struct Load {
    pub position: u64,
    /// [`u64::MAX`]: unknown.
    pub address: u64,
    /// The cycle in which its value was or will be read; unknown while it waits.
    #[state(cycle)]
    pub performed: u64,
    /// The store that forwarded its value: its number plus one, or 0.
    pub forwarded_from: u64,
    /// The cycle in which it commits; unknown until its value is known.
    #[state(cycle)]
    pub commit: u64,
    pub bytes: u8,
}

/// Loads in program order, with ever-increasing numbers.
#[derive(state::State)]
pub struct LoadQueue {
    entries: Ring<Load>,
    /// The low bits of each entry's line: a filter for [`LoadQueue::may_touch`].
    lines: Ring<u32>,
    #[state(fixed)]
    entries_in_all: u64,
    /// The entries available to this hart, which the core's other harts do not use.
    capacity: u64,
    pub tail: u64,
    /// All before this number have left the queue.
    departed: u64,
    /// The first load whose commit cycle is unknown.
    pub committed: u64,
    /// All before this number have committed and can no longer be squashed.
    settled: u64,
}

impl LoadQueue {
    /// The queue of a core with this number of hardware threads.
    pub fn new(capacity: u16, threads: u8) -> LoadQueue {
        let load = Load {
            position: 0,
            address: 0,
            performed: 0,
            forwarded_from: 0,
            commit: 0,
            bytes: 0,
        };
        // One more entry for the next load if this hart may have none: see `share_with`.
        let length = usize::from(capacity) + usize::from(threads > 1);
        let entries = Ring::new(length, load);
        // A sentinel before the first load, which committed in cycle 0.
        let first = entries.length();
        LoadQueue {
            lines: Ring::new(first as usize, 0),
            entries,
            entries_in_all: u64::from(capacity),
            capacity: u64::from(capacity),
            tail: first,
            departed: first,
            committed: first,
            settled: first,
        }
    }

    #[inline(always)]
    pub fn get(&self, number: u64) -> &Load {
        &self.entries[number]
    }

    #[inline(always)]
    pub fn get_mut(&mut self, number: u64) -> &mut Load {
        &mut self.entries[number]
    }

    /// The commit cycle of the load that leaves the queue when the next one enters it.
    #[inline(always)]
    pub fn leaving_commit(&self) -> u64 {
        self.get(self.tail - self.capacity).commit
    }

    /// Limits this hart to the entries that the other harts do not use.
    pub fn share_with(&mut self, others: u64) {
        self.capacity = self.entries_in_all - others;
        if self.capacity == 0 {
            // The load that would have to leave is the next one itself.
            let tail = self.tail;
            self.get_mut(tail).commit = UNKNOWN;
        }
    }

    /// The number of entries in use at `cycle`, which never decreases.
    pub fn occupied(&mut self, cycle: u64) -> u64 {
        self.departed = self.departed.max(self.tail - self.entries_in_all);
        while self.departed < self.committed && self.get(self.departed).commit < cycle {
            self.departed += 1;
        }
        self.tail - self.departed
    }

    /// Sets the address of a load that was pushed without one.
    #[inline]
    pub fn set_address(&mut self, number: u64, address: u64) {
        self.get_mut(number).address = address;
        self.lines[number] = LineAddress::of(address).0 as u32;
    }

    /// Whether a load, perhaps one that has left, may be of this line: a filter by the line's low
    /// bits.
    #[inline]
    pub fn may_touch(&self, line: LineAddress) -> bool {
        let low = line.0 as u32;
        self.lines
            .all()
            .iter()
            .fold(false, |any, &other| any | (other == low))
    }

    #[inline]
    pub fn push(&mut self, load: Load) -> u64 {
        let number = self.tail;
        *self.get_mut(number) = load;
        self.lines[number] = LineAddress::of(load.address).0 as u32;
        self.tail += 1;
        number
    }

    /// Removes the youngest entry, which has been squashed.
    pub fn unpush(&mut self) {
        let tail = self.tail - 1;
        // No load waits for it to leave the queue.
        self.get_mut(tail).commit = 0;
        self.tail = tail;
        self.committed = self.committed.min(tail);
    }

    /// The numbers of all loads in the queue.
    pub fn in_queue(&self) -> std::ops::Range<u64> {
        self.tail - self.entries_in_all..self.tail
    }

    /// The numbers of all loads that have not committed at `now`.
    #[inline]
    pub fn in_flight(&mut self, now: u64) -> std::ops::Range<u64> {
        // Earlier loads have left the queue, and their entries are reused.
        self.settled = self.settled.max(self.tail - self.entries_in_all);
        while self.settled < self.committed && self.get(self.settled).commit <= now {
            self.settled += 1;
        }
        self.settled..self.tail
    }
}

/// The effect of a store-queue entry when it is the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub enum StoreKind {
    Store,
    /// An atomic read-modify-write, or a store-conditional.
    Atomic,
}

/// A store or atomic that has not been performed.
#[derive(Clone, Copy, Debug, state::State)]
pub struct Store {
    pub position: u64,
    pub address: u64,
    pub data: u64,
    /// The cycle from which its data can be forwarded; unknown until the data is available.
    #[state(cycle)]
    pub data_ready: u64,
    /// The cycle in which it commits; it may be performed from then on.
    #[state(cycle)]
    pub commit: u64,
    pub instruction: Instruction,
    pub bytes: u8,
    pub address_known: bool,
    pub kind: StoreKind,
}

/// The youngest store that overlaps a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlapping {
    /// There is none.
    None,
    /// The store with this number contains all of the load's bytes.
    Covers(u64),
    /// It must be performed first.
    Partly,
}

const FILTER_ENTRIES: usize = 1024;

/// Stores in program order, with ever-increasing numbers, from dispatch until they are performed.
#[derive(state::State)]
pub struct StoreQueue {
    entries: Ring<Store>,
    #[state(fixed)]
    entries_in_all: u64,
    /// The entries available to this hart, which the core's other harts do not use.
    capacity: u64,
    pub head: u64,
    pub tail: u64,
    /// The first store whose commit cycle is unknown.
    pub committed: u64,
    /// The first store that has not requested ownership of its line.
    pub requested: u64,
    #[state(cycle)]
    pub last_performed: u64,
    /// The number of entries without an address.
    pub unknown_addresses: u32,
    /// The number of entries that overlap each 8-byte word, by the word's low bits: a load that
    /// finds 0 need not search.
    filter: Box<[u8; FILTER_ENTRIES]>,
}

impl StoreQueue {
    pub fn new(capacity: u16) -> StoreQueue {
        let store = Store {
            position: 0,
            address: 0,
            data: 0,
            data_ready: 0,
            commit: 0,
            instruction: Instruction::illegal(0, 4),
            bytes: 0,
            address_known: false,
            kind: StoreKind::Store,
        };
        StoreQueue {
            entries: Ring::new(capacity.into(), store),
            entries_in_all: u64::from(capacity),
            capacity: u64::from(capacity),
            head: 0,
            tail: 0,
            committed: 0,
            requested: 0,
            last_performed: 0,
            unknown_addresses: 0,
            filter: Box::new([0; FILTER_ENTRIES]),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// The number of entries in use.
    pub fn occupied(&self) -> u64 {
        self.tail - self.head
    }

    /// Limits this hart to the entries that the other harts do not use.
    pub fn share_with(&mut self, others: u64) {
        self.capacity = self.entries_in_all - others;
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.tail - self.head >= self.capacity
    }

    /// Whether the oldest entry exists and is not an atomic.
    #[inline]
    pub fn next_is_plain(&self) -> bool {
        !self.is_empty() && self.get(self.head).kind == StoreKind::Store
    }

    #[inline(always)]
    pub fn get(&self, number: u64) -> &Store {
        &self.entries[number]
    }

    #[inline(always)]
    pub fn get_mut(&mut self, number: u64) -> &mut Store {
        &mut self.entries[number]
    }

    #[inline]
    fn words(address: u64, bytes: u8) -> (usize, usize) {
        let first = (address >> 3) as usize % FILTER_ENTRIES;
        // In one line, so that the sum never overflows.
        let last = ((address + (u64::from(bytes) - 1)) >> 3) as usize % FILTER_ENTRIES;
        (first, last)
    }

    /// Whether an entry with a known address may overlap.
    #[inline]
    pub fn may_overlap(&self, address: u64, bytes: u8) -> bool {
        let (first, last) = Self::words(address, bytes);
        self.filter[first] | self.filter[last] != 0
    }

    /// The youngest entry that overlaps a load younger than all of them, if their addresses and
    /// their data are known.
    #[inline(never)]
    pub fn overlapping(&self, address: u64, bytes: u8) -> Overlapping {
        for number in (self.head..self.tail).rev() {
            let store = self.get(number);
            if overlap(store.address, store.bytes, address, bytes) {
                let is_plain = store.kind == StoreKind::Store;
                return if is_plain && covers(store.address, store.bytes, address, bytes) {
                    Overlapping::Covers(number)
                } else {
                    Overlapping::Partly
                };
            }
        }
        Overlapping::None
    }

    #[inline]
    fn count(&mut self, address: u64, bytes: u8, step: i8) {
        let (first, last) = Self::words(address, bytes);
        self.filter[first] = self.filter[first].wrapping_add_signed(step);
        if last != first {
            self.filter[last] = self.filter[last].wrapping_add_signed(step);
        }
    }

    #[inline]
    pub fn push(&mut self, store: Store) -> u64 {
        let number = self.tail;
        if store.address_known {
            self.count(store.address, store.bytes, 1);
        } else {
            self.unknown_addresses += 1;
        }
        *self.get_mut(number) = store;
        self.tail += 1;
        number
    }

    /// Sets the address of an entry that was pushed without one.
    pub fn set_address(&mut self, number: u64, address: u64) {
        let store = self.get_mut(number);
        store.address = address;
        store.address_known = true;
        let bytes = store.bytes;
        self.count(address, bytes, 1);
        self.unknown_addresses -= 1;
    }

    fn forget(&mut self, number: u64) {
        let store = self.get(number);
        if store.address_known {
            self.count(store.address, store.bytes, -1);
        } else {
            self.unknown_addresses -= 1;
        }
    }

    /// Removes the oldest entry, which has been performed.
    pub fn pop(&mut self) {
        self.forget(self.head);
        self.head += 1;
        self.requested = self.requested.max(self.head);
    }

    /// The same if it is a store of this size to a known address.
    #[inline(always)]
    pub fn pop_plain(&mut self, address: u64, bytes: u8) {
        self.count(address, bytes, -1);
        self.head += 1;
        self.requested = self.requested.max(self.head);
    }

    /// Removes the youngest entry, which has been squashed.
    pub fn unpush(&mut self) {
        self.tail -= 1;
        self.forget(self.tail);
        self.committed = self.committed.min(self.tail);
        self.requested = self.requested.min(self.tail);
    }
}

/// Whether two accesses share a byte.
#[inline]
pub fn overlap(a: u64, a_bytes: u8, b: u64, b_bytes: u8) -> bool {
    a < b + u64::from(b_bytes) && b < a + u64::from(a_bytes)
}

/// Whether the `outer` access covers all of the `inner` one.
#[inline]
pub fn covers(outer: u64, outer_bytes: u8, inner: u64, inner_bytes: u8) -> bool {
    outer <= inner && inner + u64::from(inner_bytes) <= outer + u64::from(outer_bytes)
}

/// The low `bytes` bytes of `value`.
#[inline]
pub fn low_bytes(value: u64, bytes: u8) -> u64 {
    if bytes >= 8 {
        value
    } else {
        value & ((1 << (bytes * 8)) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_has_to_do_with_the_youngest_store_that_it_touches() {
        let mut queue = StoreQueue::new(4);
        let mut push = |address, bytes, kind| {
            queue.push(Store {
                position: 0,
                address,
                data: 0,
                data_ready: 0,
                commit: 0,
                instruction: Instruction::illegal(0, 4),
                bytes,
                address_known: true,
                kind,
            })
        };
        let word = push(0x100, 8, StoreKind::Store);
        let half = push(0x104, 4, StoreKind::Store);
        push(0x110, 8, StoreKind::Atomic);
        assert_eq!(queue.overlapping(0x100, 4), Overlapping::Covers(word));
        assert_eq!(queue.overlapping(0x106, 2), Overlapping::Covers(half));
        assert_eq!(queue.overlapping(0x100, 8), Overlapping::Partly);
        assert_eq!(queue.overlapping(0x110, 8), Overlapping::Partly);
        assert_eq!(queue.overlapping(0x108, 8), Overlapping::None);
        queue.pop_plain(0x100, 8);
        assert_eq!(queue.overlapping(0x100, 4), Overlapping::None);
        queue.pop_plain(0x104, 4);
        assert!(!queue.may_overlap(0x100, 8));
    }
}
