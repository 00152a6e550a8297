//! The tags of a bank of a non-inclusive last-level cache.

use crate::replacement::Policy;
use crate::{LineAddress, LookUp, Replacement, Slot};
use std::ops::Range;

const NO_LINE: u64 = u64::MAX;

/// Set-associative. The caller supplies the index of a line, from which its set follows.
#[derive(Clone, Debug, state::State)]
pub(crate) struct LineArray {
    #[state(fixed)]
    ways: usize,
    #[state(fixed)]
    set_mask: u64,
    /// Line numbers, set by set; [`NO_LINE`] in a free way.
    #[state(slice)]
    lines: Vec<u64>,
    /// Whether each line is newer than memory.
    #[state(slice)]
    dirty: Vec<bool>,
    /// The replacement policy's byte of each way.
    #[state(octets)]
    order: Vec<u8>,
    policy: Policy,
}

impl LineArray {
    pub(crate) fn new(sets: usize, ways: usize, replacement: Replacement) -> LineArray {
        let policy = Policy::new(replacement);
        LineArray {
            ways,
            set_mask: sets as u64 - 1,
            lines: vec![NO_LINE; sets * ways],
            dirty: vec![false; sets * ways],
            order: policy.empty_set(ways).repeat(sets),
            policy,
        }
    }

    fn set(&self, index: u64) -> Range<usize> {
        let start = (index & self.set_mask) as usize * self.ways;
        start..start + self.ways
    }

    /// The position of `line`, with information for a prefetcher.
    pub(crate) fn look_up(&self, index: u64, line: LineAddress) -> LookUp {
        LookUp {
            line,
            slot: self.find(index, line).map(|place| place as Slot),
            set: self.set(index).start,
        }
    }

    /// Number of places for lines, and of ways in each set.
    pub(crate) fn places(&self) -> (usize, usize) {
        (self.lines.len(), self.ways)
    }

    fn find(&self, index: u64, line: LineAddress) -> Option<usize> {
        let set = self.set(index);
        let mut lines = self.lines[set.clone()].iter();
        let way = lines.position(|&other| other == line.0)?;
        Some(set.start + way)
    }

    pub(crate) fn contains(&self, index: u64, line: LineAddress) -> bool {
        self.find(index, line).is_some()
    }

    /// Uses `line`; false if it is absent.
    pub(crate) fn touch(&mut self, index: u64, line: LineAddress) -> bool {
        let found = self.find(index, line);
        if let Some(place) = found {
            let set = self.set(index);
            let way = place - set.start;
            self.policy.touch(&mut self.order[set], way);
        }
        found.is_some()
    }

    /// Number of ways of a set.
    pub(crate) fn ways(&self) -> usize {
        self.ways
    }

    /// Uses `line`, after filling it into one of `ways` if it was absent. Returns the evicted line,
    /// and whether it was newer than memory.
    pub(crate) fn install(
        &mut self,
        index: u64,
        line: LineAddress,
        dirty: bool,
        ways: Range<usize>,
    ) -> Option<(LineAddress, bool)> {
        let set = self.set(index);
        if let Some(place) = self.find(index, line) {
            self.dirty[place] |= dirty;
            let way = place - set.start;
            self.policy.touch(&mut self.order[set], way);
            return None;
        }
        let lines = &self.lines[set.clone()];
        let order = &mut self.order[set.clone()];
        let free = || ways.clone().find(|&way| lines[way] == NO_LINE);
        let way = self.policy.victim(order, free, |way| ways.contains(&way))?;
        let place = set.start + way;
        let old = self.lines[place];
        let evicted = (old != NO_LINE).then_some((LineAddress(old), self.dirty[place]));
        if evicted.is_some() {
            self.policy.evict(order, way);
        }
        self.policy.insert(order, way);
        self.lines[place] = line.0;
        self.dirty[place] = dirty;
        evicted
    }

    /// Drops `line`; returns whether it was newer than memory, if it was present.
    pub(crate) fn remove(&mut self, index: u64, line: LineAddress) -> Option<bool> {
        let place = self.find(index, line)?;
        self.lines[place] = NO_LINE;
        Some(self.dirty[place])
    }

    /// For the exhaustive exploration: hashes the state that determines the array's behaviour.
    #[cfg(test)]
    pub(crate) fn hash_state(&self, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        self.order.hash(hasher);
        for (line, dirty) in self.lines.iter().zip(&self.dirty) {
            (line, *dirty && *line != NO_LINE).hash(hasher);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_line_makes_room() {
        // Two sets of two ways; lines 0, 2, 4 share a set.
        let mut array = LineArray::new(2, 2, Replacement::Lru);
        let line = |number: u64| (number, LineAddress(number));
        let install = |array: &mut LineArray, number, dirty| {
            let (index, line) = line(number);
            array.install(index, line, dirty, 0..2)
        };
        assert_eq!(install(&mut array, 0, true), None);
        assert_eq!(install(&mut array, 2, false), None);
        assert_eq!(install(&mut array, 1, false), None);
        assert!(array.touch(0, LineAddress(0)));
        assert_eq!(install(&mut array, 4, false), Some((LineAddress(2), false)));
        assert_eq!(install(&mut array, 2, false), Some((LineAddress(0), true)));
        assert!(!array.contains(0, LineAddress(0)));
        // The second time it only becomes newer than memory.
        assert_eq!(install(&mut array, 2, true), None);
        assert_eq!(array.remove(2, LineAddress(2)), Some(true));
        assert_eq!(array.remove(2, LineAddress(2)), None);
        // A free way is used before a line is evicted.
        assert_eq!(install(&mut array, 6, false), None);
        assert!(array.contains(4, LineAddress(4)));
    }
}
