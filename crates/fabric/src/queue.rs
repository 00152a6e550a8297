//! Events in the order of their times.

use crate::{Clock, Time};
use state::{Plain, State, Walker};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Cycles for which there is a list each.
const NEAR_CYCLES: u64 = 1024;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    at: Time,
    /// Orders events of one time.
    order: u64,
    /// The next one of the same cycle.
    next: u32,
    event: E,
}

/// A queue of events. Those of the near future are in a list for each cycle, which has one or two
/// of them as a rule; the others, few, are in a heap.
#[derive(Clone, Debug)]
pub(crate) struct Queue<E> {
    clock: Clock,
    /// The first event of each near cycle, and which cycles have one.
    first: Box<[u32; NEAR_CYCLES as usize]>,
    occupied: [u64; NEAR_CYCLES as usize / 64],
    /// Nothing in the lists is before this cycle, nor [`NEAR_CYCLES`] after it.
    base: u64,
    far: BinaryHeap<Reverse<(Time, u64, u32)>>,
    entries: Vec<Entry<E>>,
    free: Vec<u32>,
    /// Time and order of the next event.
    next: (Time, u64),
    /// Where its list is; [`NONE`]: it is the first of the heap, or there is none.
    next_bucket: u32,
}

const NEVER: (Time, u64) = (Time::NEVER, u64::MAX);

/// Where an event lies makes no difference, so they are walked in their order.
impl<E: Copy + Plain> State for Queue<E> {
    fn walk(&mut self, walker: &mut dyn Walker) {
        let mut events = self.events();
        events.walk(walker);
        let mut base = self.base;
        walker.cycle(&mut base);
        *self = Queue::new(self.clock);
        self.base = base;
        for (at, order, event) in events {
            self.push(at, order, event);
        }
    }
}

impl<E: Copy> Queue<E> {
    pub fn new(clock: Clock) -> Queue<E> {
        Queue {
            clock,
            first: Box::new([NONE; NEAR_CYCLES as usize]),
            occupied: [0; NEAR_CYCLES as usize / 64],
            base: 0,
            far: BinaryHeap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            next: NEVER,
            next_bucket: NONE,
        }
    }

    /// Adds an event, not before the last that was taken.
    #[inline]
    pub fn push(&mut self, at: Time, order: u64, event: E) {
        let entry = Entry {
            at,
            order,
            next: NONE,
            event,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        let cycle = self.clock.cycle_of(at);
        let bucket = if cycle.wrapping_sub(self.base) < NEAR_CYCLES {
            let bucket = (cycle % NEAR_CYCLES) as u32;
            self.insert(bucket as usize, place);
            bucket
        } else {
            self.far.push(Reverse((at, order, place)));
            NONE
        };
        if (at, order) < self.next {
            self.next = (at, order);
            self.next_bucket = bucket;
        }
    }

    /// Puts an event into a cycle's list, where its order tells.
    #[inline]
    fn insert(&mut self, bucket: usize, place: u32) {
        let Entry { at, order, .. } = self.entries[place as usize];
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
        let mut before = NONE;
        let mut after = self.first[bucket];
        while after != NONE {
            let other = &self.entries[after as usize];
            if (other.at, other.order) > (at, order) {
                break;
            }
            before = after;
            after = other.next;
        }
        self.entries[place as usize].next = after;
        if before == NONE {
            self.first[bucket] = place;
        } else {
            self.entries[before as usize].next = place;
        }
    }

    /// All events in their order.
    fn events(&self) -> Vec<(Time, u64, E)> {
        let mut is_free = vec![false; self.entries.len()];
        for &place in &self.free {
            is_free[place as usize] = true;
        }
        let entries = self.entries.iter().zip(is_free).filter(|one| !one.1);
        let mut events: Vec<(Time, u64, E)> = entries
            .map(|(entry, _)| (entry.at, entry.order, entry.event))
            .collect();
        events.sort_by_key(|&(at, order, _)| (at, order));
        events
    }

    /// When the next event is; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_at(&self) -> Time {
        self.next.0
    }

    /// Takes the next event if it is before `until`.
    #[inline]
    pub fn pop_before(&mut self, until: Time) -> Option<(Time, E)> {
        if self.next.0 >= until {
            return None;
        }
        let bucket = self.next_bucket as usize;
        let place = if self.next_bucket == NONE {
            self.far.pop()?.0.2
        } else {
            let place = self.first[bucket];
            let after = self.entries[place as usize].next;
            self.first[bucket] = after;
            if after == NONE {
                self.occupied[bucket / 64] &= !(1 << (bucket % 64));
            }
            place
        };
        self.free.push(place);
        let Entry { at, event, .. } = self.entries[place as usize];
        self.base = self.clock.cycle_of(at);
        self.find_next();
        Some((at, event))
    }

    #[inline]
    fn find_next(&mut self) {
        self.next = NEVER;
        self.next_bucket = NONE;
        if let Some(bucket) = self.first_bucket() {
            let entry = &self.entries[self.first[bucket] as usize];
            self.next = (entry.at, entry.order);
            self.next_bucket = bucket as u32;
        }
        if let Some(&Reverse((at, order, _))) = self.far.peek()
            && (at, order) < self.next
        {
            self.next = (at, order);
            self.next_bucket = NONE;
        }
    }

    /// The first near cycle that has events, as the place of its list.
    #[inline]
    fn first_bucket(&self) -> Option<usize> {
        let start = (self.base % NEAR_CYCLES) as usize;
        let words = self.occupied.len();
        let word = self.occupied[start / 64] >> (start % 64);
        if word != 0 {
            return Some(start + word.trailing_zeros() as usize);
        }
        (1..=words)
            .map(|step| (start / 64 + step) % words)
            .find(|&word| self.occupied[word] != 0)
            .map(|word| word * 64 + self.occupied[word].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The events come in the order of (time, order), whatever their distance.
        #[test]
        fn order(steps in prop::collection::vec((0u64..4, 0u64..3_000_000, any::<u8>()), 1..300)) {
            let clock = Clock::from_ghz(1e6 / 997.0);
            let mut queue = Queue::new(clock);
            let mut expected = std::collections::BTreeSet::new();
            let mut now = Time::ZERO;
            for (number, (kind, distance, order)) in steps.into_iter().enumerate() {
                if kind == 0 {
                    let taken = queue.pop_before(Time::NEVER);
                    let first = expected.pop_first();
                    prop_assert_eq!(taken, first.map(|(at, _, number)| (at, number)));
                    now = taken.map_or(now, |(at, _)| at);
                } else {
                    let distance = if kind == 1 { distance } else { distance % 5000 };
                    let at = now + Time::from_fs(distance);
                    let order = u64::from(order) << 32 | number as u64;
                    queue.push(at, order, number);
                    expected.insert((at, order, number));
                }
                let next = expected.first().map_or(Time::NEVER, |(at, ..)| *at);
                prop_assert_eq!(queue.next_at(), next);
            }
            while let Some((at, number)) = queue.pop_before(Time::NEVER) {
                let first = expected.pop_first();
                prop_assert_eq!(first.map(|(at, _, number)| (at, number)), Some((at, number)));
            }
            prop_assert!(expected.is_empty());
        }
    }

    #[test]
    fn nothing_is_taken_at_the_limit() {
        let mut queue = Queue::new(Clock::from_ghz(1.0));
        queue.push(Time::from_ns(5.0), 0, 'a');
        assert_eq!(queue.pop_before(Time::from_ns(5.0)), None);
        assert_eq!(
            queue.pop_before(Time::from_ns(5.000_001)),
            Some((Time::from_ns(5.0), 'a'))
        );
    }
}
