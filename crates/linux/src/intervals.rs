//! Sets of addresses, as intervals.

use std::collections::BTreeMap;

/// Disjoint intervals, each with a value; adjacent intervals with equal values are merged.
#[derive(Clone, Debug)]
pub(crate) struct Intervals<T> {
    /// Start to end (exclusive) and value.
    map: BTreeMap<u64, (u64, T)>,
}

impl<T: Copy + PartialEq> Intervals<T> {
    pub fn new() -> Intervals<T> {
        Intervals {
            map: BTreeMap::new(),
        }
    }

    /// The known parts that lie in `start..end`.
    pub fn within(&self, start: u64, end: u64) -> Vec<(u64, u64, T)> {
        let before = self.map.range(..start).next_back();
        before
            .into_iter()
            .chain(self.map.range(start..end))
            .map(|(&from, &(to, value))| (from.max(start), to.min(end), value))
            .filter(|(from, to, _)| from < to)
            .collect()
    }

    /// The value at an address.
    pub fn get(&self, address: u64) -> Option<T> {
        let (_, &(end, value)) = self.map.range(..=address).next_back()?;
        (address < end).then_some(value)
    }

    /// Removes `start..end`.
    pub fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        if let Some((&from, &(to, value))) = self.map.range(..start).next_back()
            && to > start
        {
            self.map.insert(from, (start, value));
            if to > end {
                self.map.insert(end, (to, value));
            }
        }
        let inside: Vec<u64> = self.map.range(start..end).map(|(&from, _)| from).collect();
        for from in inside {
            if let Some((to, value)) = self.map.remove(&from)
                && to > end
            {
                self.map.insert(end, (to, value));
            }
        }
    }

    /// Gives `start..end` one value, replacing earlier ones.
    pub fn insert(&mut self, start: u64, end: u64, value: T) {
        if start >= end {
            return;
        }
        self.remove(start, end);
        let (mut start, mut end) = (start, end);
        if let Some((&from, &(to, other))) = self.map.range(..start).next_back()
            && to == start
            && other == value
        {
            start = from;
        }
        if let Some(&(to, other)) = self.map.get(&end)
            && other == value
        {
            self.map.remove(&end);
            end = to;
        }
        self.map.insert(start, (end, value));
    }

    /// The lowest free `length` bytes at `from` or above that end at `limit` or below.
    pub fn first_free(&self, from: u64, limit: u64, length: u64) -> Option<u64> {
        let mut place = from;
        for (start, end, _) in self.within(from, limit) {
            if start - place >= length {
                return Some(place);
            }
            place = end;
        }
        (limit.checked_sub(place)? >= length).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_out_and_joined() {
        let mut set = Intervals::new();
        set.insert(10, 50, 'a');
        set.insert(20, 30, 'b');
        let all = |set: &Intervals<char>| set.within(0, 100);
        assert_eq!(
            all(&set),
            [(10, 20, 'a'), (20, 30, 'b'), (30, 50, 'a')],
            "the middle has another value"
        );
        set.insert(20, 30, 'a');
        assert_eq!(all(&set), [(10, 50, 'a')]);
        set.remove(0, 15);
        set.remove(40, 60);
        set.remove(25, 26);
        assert_eq!(all(&set), [(15, 25, 'a'), (26, 40, 'a')]);
        assert_eq!(set.within(20, 30), [(20, 25, 'a'), (26, 30, 'a')]);
    }

    #[test]
    fn the_first_gap_that_is_large_enough_is_found() {
        let mut set = Intervals::new();
        set.insert(10, 20, ());
        set.insert(25, 40, ());
        assert_eq!(set.first_free(0, 100, 10), Some(0));
        assert_eq!(set.first_free(5, 100, 5), Some(5));
        assert_eq!(set.first_free(12, 100, 5), Some(20));
        assert_eq!(set.first_free(12, 100, 6), Some(40));
        assert_eq!(set.first_free(12, 100, 61), None);
    }
}
