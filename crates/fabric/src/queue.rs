//! Events in order of time.

use crate::{Clock, Time};
use state::{Plain, Purpose, State, Walker};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of cycles with a list of their own.
const NEAR_CYCLES: u64 = 1024;
const WORDS: usize = NEAR_CYCLES as usize / 64;
const NONE: u32 = u32::MAX;

/// The order of events: by time, and simultaneous ones by the numbers that came with them.
type Key = u128;

const NEVER: Key = Key::MAX;

#[inline(always)]
fn key(at: Time, order: u64) -> Key {
    Key::from(at.as_fs()) << 64 | Key::from(order)
}

#[inline(always)]
fn time_of(key: Key) -> Time {
    Time::from_fs((key >> 64) as u64)
}

/// An event's position in the order.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    /// The next entry of the same cycle, or the next free one.
    next: u32,
}

/// A queue of events. Those of the near future are in a list for each cycle, usually of one or two
/// events; the few others are in a heap.
#[derive(Clone, Debug)]
pub(crate) struct Queue<E> {
    clock: Clock,
    /// The first event of each near cycle, and a bit for each cycle that has one.
    first: Box<[u32; NEAR_CYCLES as usize]>,
    occupied: [u64; WORDS],
    /// A bit for each nonzero word of `occupied`.
    occupied_words: u32,
    /// All events in the lists are from this cycle on, and less than [`NEAR_CYCLES`] after it.
    base: u64,
    far: BinaryHeap<Reverse<(Key, u32)>>,
    entries: Vec<Entry>,
    /// Indexed by the places of the entries.
    events: Vec<E>,
    /// The first free entry.
    free: u32,
    /// The next event, or [`NEVER`].
    next: Key,
    /// The bucket of its list; [`NONE`]: it is the first of the heap, or there is none.
    next_bucket: u32,
}

/// Events at requested times.
pub(crate) trait Alarm {
    /// Whether the event is an alarm. Alarms do not take part in periods.
    fn is_alarm(&self) -> bool;
}

/// The place of an event does not matter, so events are walked in order.
impl<E: Copy + Plain + Alarm> State for Queue<E> {
    fn walk(&mut self, walker: &mut dyn Walker) {
        let mut events = self.in_order();
        let mut base = self.base;
        if walker.purpose() == Purpose::Exact {
            events.walk(walker);
            walker.cycle(&mut base);
        } else {
            for (at, _, event) in events.iter_mut().filter(|one| !one.2.is_alarm()) {
                at.walk(walker);
                event.walk(walker);
            }
            if walker.purpose() == Purpose::Compare {
                return;
            }
            walker.cycle(&mut base);
        }
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
            occupied: [0; WORDS],
            occupied_words: 0,
            base: 0,
            far: BinaryHeap::new(),
            entries: Vec::new(),
            events: Vec::new(),
            free: NONE,
            next: NEVER,
            next_bucket: NONE,
        }
    }

    /// Adds an event, not before the last one taken.
    #[inline(always)]
    pub fn push(&mut self, at: Time, order: u64, event: E) {
        let key = key(at, order);
        let mut place = self.free;
        if let (Some(entry), Some(old)) = (
            self.entries.get_mut(place as usize),
            self.events.get_mut(place as usize),
        ) {
            self.free = entry.next;
            entry.key = key;
            *old = event;
        } else {
            place = self.add_entry(key, event);
        }
        self.insert(place, key, self.clock.cycle_of(at));
    }

    /// Reinserts an event that has been [taken](Queue::take_before), at the beginning of `cycle`.
    #[inline]
    pub fn put_back(&mut self, place: u32, cycle: u64, order: u64) {
        let key = key(self.clock.time(cycle), order);
        self.entries[place as usize].key = key;
        self.insert(place, key, cycle);
    }

    /// Puts an event into the list of its cycle.
    #[inline]
    fn insert(&mut self, place: u32, key: Key, cycle: u64) {
        if cycle.wrapping_sub(self.base) >= NEAR_CYCLES {
            self.push_far(key, place);
            return;
        }
        let bucket = (cycle % NEAR_CYCLES) as usize;
        let first = self.first[bucket];
        if let Some(entry) = self.entries.get(first as usize)
            && entry.key < key
        {
            self.insert_behind(first, key, place);
            return;
        }
        self.entries[place as usize].next = first;
        self.first[bucket] = place;
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
        self.occupied_words |= 1 << (bucket / 64);
        if key < self.next {
            self.next = key;
            self.next_bucket = bucket as u32;
        }
    }

    #[cold]
    fn add_entry(&mut self, key: Key, event: E) -> u32 {
        let next = NONE;
        self.entries.push(Entry { key, next });
        self.events.push(event);
        (self.entries.len() - 1) as u32
    }

    #[inline(never)]
    fn push_far(&mut self, key: Key, place: u32) {
        self.far.push(Reverse((key, place)));
        if key < self.next {
            self.next = key;
            self.next_bucket = NONE;
        }
    }

    /// Inserts an event into a cycle's list, after the one at `before`, at the position given by
    /// its key.
    #[inline(never)]
    fn insert_behind(&mut self, mut before: u32, key: Key, place: u32) {
        let mut after = self.entries[before as usize].next;
        while let Some(entry) = self.entries.get(after as usize)
            && entry.key < key
        {
            before = after;
            after = entry.next;
        }
        self.entries[before as usize].next = place;
        self.entries[place as usize].next = after;
    }

    /// The time of the first [alarm](Alarm); [`Time::NEVER`] if there is none.
    pub fn next_alarm(&self) -> Time
    where
        E: Alarm,
    {
        let events = self.in_order().into_iter();
        let mut alarms = events.filter(|(_, _, event)| event.is_alarm());
        alarms.next().map_or(Time::NEVER, |(at, ..)| at)
    }

    /// All events in order.
    fn in_order(&self) -> Vec<(Time, u64, E)> {
        let mut is_free = vec![false; self.entries.len()];
        let mut free = self.free;
        while let Some(entry) = self.entries.get(free as usize) {
            is_free[free as usize] = true;
            free = entry.next;
        }
        let all = self.entries.iter().zip(&self.events).zip(is_free);
        let mut events: Vec<(Time, u64, E)> = all
            .filter(|(_, is_free)| !is_free)
            .map(|((entry, &event), _)| (time_of(entry.key), entry.key as u64, event))
            .collect();
        events.sort_by_key(|&(at, order, _)| (at, order));
        events
    }

    /// The time of the next event; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_at(&self) -> Time {
        time_of(self.next)
    }

    /// Takes the next event if it is before `until`. It stays at the returned place until it is
    /// [freed](Queue::free) or [put back](Queue::put_back).
    #[inline(always)]
    pub fn take_before(&mut self, until: Time) -> Option<(Time, u32)> {
        let at = time_of(self.next);
        if at >= until {
            return None;
        }
        let bucket = self.next_bucket as usize;
        let Some(first) = self.first.get_mut(bucket) else {
            let place = self.far.pop()?.0.1;
            self.base = self.clock.cycle_of(at);
            self.find_next();
            return Some((at, place));
        };
        let place = *first;
        let after = self.entries[place as usize].next;
        *first = after;
        self.base += (bucket as u64).wrapping_sub(self.base) % NEAR_CYCLES;
        if let Some(entry) = self.entries.get(after as usize)
            && self.far.is_empty()
        {
            self.next = entry.key;
            return Some((at, place));
        }
        let rest = u64::from(after != NONE) << (bucket % 64);
        let word = &mut self.occupied[bucket / 64];
        *word = *word & !(1 << (bucket % 64)) | rest;
        let emptied = u32::from(*word == 0);
        self.occupied_words &= !(emptied << (bucket / 64));
        self.find_next();
        Some((at, place))
    }

    /// The event at `place`.
    #[inline]
    pub fn event(&mut self, place: u32) -> &mut E {
        &mut self.events[place as usize]
    }

    /// Frees the place of an event that has been taken.
    #[inline]
    pub fn free(&mut self, place: u32) {
        self.entries[place as usize].next = self.free;
        self.free = place;
    }

    /// The cycle of the last event taken.
    #[inline]
    pub fn cycle(&self) -> u64 {
        self.base
    }

    #[inline(always)]
    fn find_next(&mut self) {
        self.next = NEVER;
        self.next_bucket = NONE;
        if let Some(bucket) = self.first_bucket() {
            self.next = self.entries[self.first[bucket] as usize].key;
            self.next_bucket = bucket as u32;
        }
        if let Some(&Reverse((key, _))) = self.far.peek()
            && key < self.next
        {
            self.next = key;
            self.next_bucket = NONE;
        }
    }

    /// The bucket of the first near cycle with events.
    #[inline(always)]
    fn first_bucket(&self) -> Option<usize> {
        let start = (self.base % NEAR_CYCLES) as usize;
        let word = self.occupied[start / 64] >> (start % 64);
        if word != 0 {
            return Some(start + word.trailing_zeros() as usize);
        }
        self.first_bucket_behind(start / 64)
    }

    /// The same, from word `first` of `occupied` on, wrapping around; bits before the base in that
    /// word come last.
    #[inline]
    fn first_bucket_behind(&self, first: usize) -> Option<usize> {
        let twice = self.occupied_words | self.occupied_words << WORDS;
        let steps = (twice >> first >> 1).trailing_zeros() as usize;
        let word = (first + 1 + steps) % WORDS;
        (self.occupied_words != 0)
            .then(|| word * 64 + self.occupied[word].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pop_before<E: Copy>(queue: &mut Queue<E>, until: Time) -> Option<(Time, E)> {
        let (at, place) = queue.take_before(until)?;
        let event = *queue.event(place);
        queue.free(place);
        Some((at, event))
    }

    proptest! {
        /// Events come in the order of (time, order), whatever their distance.
        #[test]
        fn order(steps in prop::collection::vec((0u64..4, 0u64..3_000_000, any::<u8>()), 1..300)) {
            let clock = Clock::from_ghz(1e6 / 997.0);
            let mut queue = Queue::new(clock);
            let mut expected = std::collections::BTreeSet::new();
            let mut now = Time::ZERO;
            for (number, (kind, distance, order)) in steps.into_iter().enumerate() {
                if kind == 0 {
                    let taken = pop_before(&mut queue, Time::NEVER);
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
            while let Some((at, number)) = pop_before(&mut queue, Time::NEVER) {
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
        assert_eq!(pop_before(&mut queue, Time::from_ns(5.0)), None);
        assert_eq!(
            pop_before(&mut queue, Time::from_ns(5.000_001)),
            Some((Time::from_ns(5.0), 'a'))
        );
    }
}
