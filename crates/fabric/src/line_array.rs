//! The tags of the lines that a bank of a non-inclusive last-level cache has.

use crate::{LineAddress, ranks};

const NO_LINE: u64 = u64::MAX;

/// Set-associative, true LRU. Who uses it tells the index of a line, from which its set follows.
#[derive(Clone, Debug)]
pub(crate) struct LineArray {
    ways: usize,
    set_mask: u64,
    /// Line numbers, set by set; [`NO_LINE`] in a free way.
    lines: Vec<u64>,
    /// Newer than memory.
    dirty: Vec<bool>,
    /// 0 for the most recently used way of a set, up to ways - 1.
    ranks: Vec<u8>,
}

state::component!(LineArray {
    ways: fixed,
    set_mask: fixed,
    lines: slice,
    dirty: slice,
    ranks: octets,
});

impl LineArray {
    pub(crate) fn new(sets: usize, ways: usize) -> LineArray {
        LineArray {
            ways,
            set_mask: sets as u64 - 1,
            lines: vec![NO_LINE; sets * ways],
            dirty: vec![false; sets * ways],
            ranks: (0..sets * ways).map(|place| (place % ways) as u8).collect(),
        }
    }

    fn set(&self, index: u64) -> std::ops::Range<usize> {
        let start = (index & self.set_mask) as usize * self.ways;
        start..start + self.ways
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

    /// Makes `line` the most recently used of its set; false if it is not here.
    pub(crate) fn touch(&mut self, index: u64, line: LineAddress) -> bool {
        let found = self.find(index, line);
        if let Some(place) = found {
            let set = self.set(index);
            let way = place - set.start;
            ranks::touch(&mut self.ranks[set], way);
        }
        found.is_some()
    }

    /// Puts `line` in, if it is not here, and makes it the most recently used of its set. Returns
    /// the line that had to make room, and whether that was newer than memory.
    pub(crate) fn install(
        &mut self,
        index: u64,
        line: LineAddress,
        dirty: bool,
    ) -> Option<(LineAddress, bool)> {
        let mut evicted = None;
        let place = self.find(index, line).or_else(|| {
            let set = self.set(index);
            let place = if self.lines[set.clone()].contains(&NO_LINE) {
                set.filter(|&place| self.lines[place] == NO_LINE)
                    .max_by_key(|&place| self.ranks[place])?
            } else {
                let place = set.start + ranks::last(&self.ranks[set]);
                evicted = Some((LineAddress(self.lines[place]), self.dirty[place]));
                place
            };
            self.lines[place] = line.0;
            self.dirty[place] = false;
            Some(place)
        });
        if let Some(place) = place {
            self.dirty[place] |= dirty;
            self.touch(index, line);
        }
        evicted
    }

    /// Drops `line`; returns whether it was newer than memory, if it was here.
    pub(crate) fn remove(&mut self, index: u64, line: LineAddress) -> Option<bool> {
        let place = self.find(index, line)?;
        self.lines[place] = NO_LINE;
        Some(self.dirty[place])
    }

    /// For the exhaustive exploration: what decides on the array's behaviour.
    #[cfg(test)]
    pub(crate) fn hash_state(&self, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        self.ranks.hash(hasher);
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
        let mut array = LineArray::new(2, 2);
        let line = |number: u64| (number, LineAddress(number));
        let install = |array: &mut LineArray, number, dirty| {
            let (index, line) = line(number);
            array.install(index, line, dirty)
        };
        assert_eq!(install(&mut array, 0, true), None);
        assert_eq!(install(&mut array, 2, false), None);
        assert_eq!(install(&mut array, 1, false), None);
        assert!(array.touch(0, LineAddress(0)));
        assert_eq!(install(&mut array, 4, false), Some((LineAddress(2), false)));
        assert_eq!(install(&mut array, 2, false), Some((LineAddress(0), true)));
        assert!(!array.contains(0, LineAddress(0)));
        // A second time it only becomes newer than memory.
        assert_eq!(install(&mut array, 2, true), None);
        assert_eq!(array.remove(2, LineAddress(2)), Some(true));
        assert_eq!(array.remove(2, LineAddress(2)), None);
        // A free way is taken before a line has to go.
        assert_eq!(install(&mut array, 6, false), None);
        assert!(array.contains(4, LineAddress(4)));
    }
}
