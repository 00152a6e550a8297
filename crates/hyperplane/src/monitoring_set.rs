//! The monitoring set: the watched doorbell lines and their queues (§III-B, §IV-A).
//!
//! A banked, ZCache-like Cuckoo hash table, of two ways in the paper. A look-up reads one entry of
//! each way; an insertion walks the table and moves entries between their possible positions until
//! it finds a free one. [`conflicts`](crate::conflicts()) measures the achievable occupancy.

use fabric::LineAddress;
use std::fmt;

/// A queue's number.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, state::State, state::Plain,
)]
pub struct Qid(pub u32);

/// The most ways that a table can have.
pub const MAX_WAYS: usize = 8;

/// One place of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State)]
struct Entry {
    /// The whole line address; hardware would omit the bits that the position and the bank imply.
    tag: LineAddress,
    /// The queue whose doorbell is in the line.
    qid: Qid,
    /// Armed: the next grant of ownership of the line activates the queue.
    monitoring: bool,
    /// The place is taken.
    valid: bool,
}

const EMPTY: Entry = Entry {
    tag: LineAddress(0),
    qid: Qid(0),
    monitoring: false,
    valid: false,
};

/// The reason why a line was not inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// The table walk found no empty place (§IV-A): the driver must choose another line.
    Conflict,
    /// The QID is not below the number of entries.
    QidOutOfRange,
    /// The QID has a doorbell already.
    DuplicateQid,
    /// The line holds another queue's doorbell.
    DuplicateLine,
}

impl fmt::Display for InsertError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            InsertError::Conflict => "the table walk found no place for the line",
            InsertError::QidOutOfRange => "the QID is not below the number of entries",
            InsertError::DuplicateQid => "the QID has a doorbell already",
            InsertError::DuplicateLine => "the line holds another queue's doorbell",
        })
    }
}

impl std::error::Error for InsertError {}

/// The monitoring set.
#[derive(Clone, Debug, PartialEq, Eq, state::State)]
pub struct MonitoringSet {
    /// `banks` × `ways` × `rows` places.
    #[state(slice)]
    places: Vec<Entry>,
    #[state(fixed)]
    banks: usize,
    #[state(fixed)]
    ways: usize,
    #[state(fixed)]
    rows: usize,
    /// The maximum number of positions that an insertion visits.
    #[state(fixed)]
    walk_places: usize,
    /// The bits of a key that determine each bit of its row, way by way.
    #[state(fixed)]
    hashes: Vec<u64>,
    /// The doorbell line of each QID, for `QWAIT-REMOVE`; hardware would search for it.
    #[state(slice)]
    line_of: Vec<Option<LineAddress>>,
    occupied: usize,
    armed: usize,
}

impl MonitoringSet {
    /// An empty table of `banks` banks with `ways` ways (2 to [`MAX_WAYS`]) of `rows` rows each;
    /// `rows` is a power of two.
    pub fn new(banks: usize, ways: usize, rows: usize) -> MonitoringSet {
        debug_assert!(banks > 0 && (2..=MAX_WAYS).contains(&ways) && rows.is_power_of_two());
        let entries = banks * ways * rows;
        MonitoringSet {
            places: vec![EMPTY; entries],
            banks,
            ways,
            rows,
            walk_places: usize::MAX,
            hashes: hashes(ways, rows),
            line_of: vec![None; entries],
            occupied: 0,
            armed: 0,
        }
    }

    /// The same table with walks of at most `places` positions (the ZCache's replacement
    /// candidates).
    pub fn with_walks_of(self, places: usize) -> MonitoringSet {
        MonitoringSet {
            walk_places: places,
            ..self
        }
    }

    /// The same table for QIDs below `qids`, as one of several which share the numbers.
    pub(crate) fn for_qids(self, qids: usize) -> MonitoringSet {
        MonitoringSet {
            line_of: vec![None; qids],
            ..self
        }
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.places.fill(EMPTY);
        self.line_of.fill(None);
        self.occupied = 0;
        self.armed = 0;
    }

    /// Adds a disarmed entry, by a table walk.
    ///
    /// The walk is a breadth-first search. It starts from the line's possible positions and
    /// continues to the other positions of each entry that it finds, until a position is free; then
    /// each entry on the path moves by one. It visits no position twice, so it ends after at most
    /// all positions of one bank. Without a limit it is exact: a conflict means that no arrangement
    /// of the bank's entries has room for the line. A failed walk moves nothing.
    pub fn insert(&mut self, line: LineAddress, qid: Qid) -> Result<(), InsertError> {
        match self.line_of.get(qid.0 as usize) {
            None => return Err(InsertError::QidOutOfRange),
            Some(Some(_)) => return Err(InsertError::DuplicateQid),
            Some(None) => {}
        }
        if self.find(line).is_some() {
            return Err(InsertError::DuplicateLine);
        }
        // Each step is a place and the number of the step before it.
        let mut walk: Vec<(usize, Option<usize>)> = Vec::new();
        let mut visited = vec![false; self.ways * self.rows];
        let first = self.first_place(line);
        let mut step = 0;
        let mut next = line;
        loop {
            let before = (!walk.is_empty()).then_some(step);
            for place in self.places_of(next) {
                if !std::mem::replace(&mut visited[place - first], true) {
                    walk.push((place, before));
                }
            }
            walk.truncate(self.walk_places);
            step = before.map_or(0, |before| before + 1);
            let Some(&(place, _)) = walk.get(step) else {
                return Err(InsertError::Conflict);
            };
            if !self.places[place].valid {
                break;
            }
            next = self.places[place].tag;
        }
        while let (place, Some(before)) = walk[step] {
            self.places[place] = self.places[walk[before].0];
            step = before;
        }
        self.places[walk[step].0] = Entry {
            tag: line,
            qid,
            monitoring: false,
            valid: true,
        };
        self.line_of[qid.0 as usize] = Some(line);
        self.occupied += 1;
        Ok(())
    }

    /// Removes the entry of `qid`. Returns its line, or `None` if there is no such entry.
    pub fn remove(&mut self, qid: Qid) -> Option<LineAddress> {
        let line = self.line_of.get_mut(qid.0 as usize)?.take()?;
        let place = self.find(line)?;
        self.armed -= usize::from(self.places[place].monitoring);
        self.occupied -= 1;
        self.places[place] = EMPTY;
        Some(line)
    }

    /// Sets the monitoring bit of `line`. Returns whether the line has an entry.
    pub fn arm(&mut self, line: LineAddress) -> bool {
        self.set_monitoring(line, true)
    }

    /// Clears the monitoring bit of `line`. Returns whether the line has an entry.
    pub fn disarm(&mut self, line: LineAddress) -> bool {
        self.set_monitoring(line, false)
    }

    /// A cache is granted ownership of `line`: if the line is armed, disarms it and returns its
    /// queue.
    pub fn snoop(&mut self, line: LineAddress) -> Option<Qid> {
        if self.armed == 0 {
            return None;
        }
        let place = self.find(line)?;
        let Entry {
            qid, monitoring, ..
        } = self.places[place];
        self.set_monitoring(line, false);
        monitoring.then_some(qid)
    }

    /// Whether `qid` has an entry.
    pub fn contains(&self, qid: Qid) -> bool {
        matches!(self.line_of.get(qid.0 as usize), Some(Some(_)))
    }

    /// The number of places, which is also the number of QIDs of a table that is alone.
    pub fn entries(&self) -> usize {
        self.places.len()
    }

    /// The number of places taken.
    pub fn occupied(&self) -> usize {
        self.occupied
    }

    /// The number of entries that are armed.
    pub fn armed(&self) -> usize {
        self.armed
    }

    fn set_monitoring(&mut self, line: LineAddress, monitoring: bool) -> bool {
        let Some(place) = self.find(line) else {
            return false;
        };
        self.armed -= usize::from(self.places[place].monitoring);
        self.armed += usize::from(monitoring);
        self.places[place].monitoring = monitoring;
        true
    }

    fn find(&self, line: LineAddress) -> Option<usize> {
        self.places_of(line)
            .find(|&place| self.places[place].valid && self.places[place].tag == line)
    }

    /// The first place of a line's bank. Lines are spread over the banks as they are over the
    /// directory.
    fn first_place(&self, line: LineAddress) -> usize {
        (line.0 % self.banks as u64) as usize * self.ways * self.rows
    }

    /// The places where `line` can be, one in each way of its bank.
    fn places_of(&self, line: LineAddress) -> impl Iterator<Item = usize> + '_ {
        let (first, key) = (self.first_place(line), line.0 / self.banks as u64);
        let bits = self.rows.trailing_zeros() as usize;
        (0..self.ways).map(move |way| {
            let hash = &self.hashes[way * bits..(way + 1) * bits];
            first + way * self.rows + row(hash, key)
        })
    }
}

/// The row of `key`: H0 or H1 of the paper's Fig. 5, taken from the H3 family of hash functions, as
/// in the ZCache. Each bit of the row is the parity of some of the key's bits: a tree of XOR gates.
fn row(hash: &[u64], key: u64) -> usize {
    let bits = hash.iter().enumerate();
    bits.map(|(bit, chosen)| ((key & chosen).count_ones() as usize & 1) << bit)
        .sum()
}

/// The key's bits that make each bit of a row, for each way: fixed random halves.
///
/// Bit `n` of the row depends on bit `n` of the key and on higher ones only. So each way maps
/// `rows` consecutive keys, aligned, to `rows` different rows; with two ways, two such blocks meet
/// each row of each way exactly twice; and lines that meet no row more than twice can always all be
/// placed.
fn hashes(ways: usize, rows: usize) -> Vec<u64> {
    let bits = rows.trailing_zeros();
    let chosen = |way: usize, bit: u32| {
        let random = mix((way as u64) << 32 | u64::from(bit));
        (random << 1) << bit | 1 << bit
    };
    (0..ways)
        .flat_map(|way| (0..bits).map(move |bit| chosen(way, bit)))
        .collect()
}

/// The output function of SplitMix64: here, a source of constants.
pub(crate) const fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Everything visible from outside: armed lines by QID.
    fn content(set: &MonitoringSet) -> BTreeMap<Qid, (LineAddress, bool)> {
        let valid = set.places.iter().filter(|entry| entry.valid);
        valid
            .map(|entry| (entry.qid, (entry.tag, entry.monitoring)))
            .collect()
    }

    /// Whether each line can have a place of its own: by augmenting paths, one line at a time.
    fn all_fit(set: &MonitoringSet, lines: &[LineAddress]) -> bool {
        fn place(
            wanted: &[Vec<usize>],
            line: usize,
            holder: &mut [Option<usize>],
            seen: &mut [bool],
        ) -> bool {
            wanted[line].iter().any(|&at| {
                !std::mem::replace(&mut seen[at], true)
                    && holder[at].is_none_or(|other| place(wanted, other, holder, seen))
                    && {
                        holder[at] = Some(line);
                        true
                    }
            })
        }
        let wanted: Vec<Vec<usize>> = lines
            .iter()
            .map(|&line| set.places_of(line).collect())
            .collect();
        let mut holder = vec![None; set.entries()];
        (0..lines.len()).all(|line| {
            let mut seen = vec![false; set.entries()];
            place(&wanted, line, &mut holder, &mut seen)
        })
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64, u32),
        Remove(u32),
        Arm(u64),
        Disarm(u64),
        Snoop(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let line = 0..64_u64;
        let qid = 0..36_u32;
        prop_oneof![
            3 => (line.clone(), qid.clone()).prop_map(|(line, qid)| Step::Insert(line, qid)),
            1 => qid.prop_map(Step::Remove),
            2 => line.clone().prop_map(Step::Arm),
            1 => line.clone().prop_map(Step::Disarm),
            1 => line.prop_map(Step::Snoop),
        ]
    }

    proptest! {
        /// The table against a plain map: what is inserted is found, what is removed is gone,
        /// monitoring bits survive relocation, what fails changes nothing, and it fails only if
        /// the lines cannot all fit.
        #[test]
        fn agrees_with_a_map(
            steps in prop::collection::vec(step(), 1..200),
            base in any::<u32>(),
            banks in 1_usize..4,
            (ways, rows) in prop::sample::select(vec![(2, 4), (3, 2), (4, 2), (2, 8)]),
        ) {
            let mut set = MonitoringSet::new(banks, ways, rows);
            let mut map: BTreeMap<Qid, (LineAddress, bool)> = BTreeMap::new();
            // Spread the lines so that the hash functions see many bits.
            let at = |line: u64| LineAddress((u64::from(base) + line).wrapping_mul(0x1_0000_0001));
            let holder = |map: &BTreeMap<Qid, (LineAddress, bool)>, line| {
                map.iter().find(|(_, held)| held.0 == line).map(|(&qid, _)| qid)
            };
            for step in steps {
                let before = set.clone();
                match step {
                    Step::Insert(line, qid) => {
                        let (line, qid) = (at(line), Qid(qid));
                        let result = set.insert(line, qid);
                        let mut lines: Vec<_> = map.values().map(|held| held.0).collect();
                        lines.push(line);
                        let expected = if qid.0 as usize >= set.entries() {
                            Err(InsertError::QidOutOfRange)
                        } else if map.contains_key(&qid) {
                            Err(InsertError::DuplicateQid)
                        } else if holder(&map, line).is_some() {
                            Err(InsertError::DuplicateLine)
                        } else if !all_fit(&set, &lines) {
                            Err(InsertError::Conflict)
                        } else {
                            map.insert(qid, (line, false));
                            Ok(())
                        };
                        prop_assert_eq!(result, expected);
                        if result.is_err() {
                            prop_assert_eq!(&set, &before);
                        }
                    }
                    Step::Remove(qid) => {
                        let expected = map.remove(&Qid(qid)).map(|held| held.0);
                        prop_assert_eq!(set.remove(Qid(qid)), expected);
                    }
                    Step::Arm(line) | Step::Disarm(line) => {
                        let armed = matches!(step, Step::Arm(_));
                        let line = at(line);
                        let qid = holder(&map, line);
                        if let Some(qid) = qid {
                            map.insert(qid, (line, armed));
                        }
                        let found = if armed { set.arm(line) } else { set.disarm(line) };
                        prop_assert_eq!(found, qid.is_some());
                    }
                    Step::Snoop(line) => {
                        let line = at(line);
                        let qid = holder(&map, line).filter(|qid| map[qid].1);
                        if let Some(qid) = qid {
                            map.insert(qid, (line, false));
                        }
                        prop_assert_eq!(set.snoop(line), qid);
                    }
                }
                prop_assert_eq!(content(&set), map.clone());
                prop_assert_eq!(set.occupied(), map.len());
                prop_assert_eq!(set.armed(), map.values().filter(|held| held.1).count());
                prop_assert!((0..36).all(|qid| set.contains(Qid(qid)) == map.contains_key(&Qid(qid))));
            }
        }

        /// Any two blocks of consecutive lines, aligned, fill the whole table.
        #[test]
        fn consecutive_lines_never_conflict(
            banks in prop::sample::select(vec![1_usize, 4, 6, 16]),
            blocks in any::<[u32; 2]>().prop_filter("two blocks", |blocks| blocks[0] != blocks[1]),
            order in any::<u64>(),
        ) {
            let mut set = MonitoringSet::new(banks, 2, 32);
            let half = banks as u64 * 32;
            let block = |block| (0..half).map(move |line| u64::from(block) * half + line);
            let mut lines: Vec<u64> = blocks.into_iter().flat_map(block).collect();
            lines.sort_by_key(|&line| mix(order ^ line));
            for (qid, line) in lines.into_iter().enumerate() {
                prop_assert_eq!(set.insert(LineAddress(line), Qid(qid as u32)), Ok(()));
            }
            prop_assert_eq!(set.occupied(), set.entries());
        }
    }

    /// Neither lines nor QIDs are left of entries that were cleared.
    #[test]
    fn a_cleared_table_takes_the_same_entries_again() {
        let mut set = MonitoringSet::new(1, 2, 8);
        for _ in 0..2 {
            assert_eq!(set.insert(LineAddress(5), Qid(3)), Ok(()));
            assert!(set.arm(LineAddress(5)));
            assert_eq!((set.occupied(), set.armed()), (1, 1));
            set.clear();
            assert_eq!((set.occupied(), set.armed()), (0, 0));
        }
    }

    /// A walk that may look at few places gives up sooner, and never finds a place that a longer
    /// one does not.
    #[test]
    fn short_walks_conflict_sooner() {
        let placed = |walk| {
            let mut set = MonitoringSet::new(1, 4, 64).with_walks_of(walk);
            (0..256)
                .filter(|&qid| set.insert(LineAddress(mix(qid)), Qid(qid as u32)).is_ok())
                .count()
        };
        let found = [4, 16, 52, usize::MAX].map(placed);
        assert!(found.is_sorted() && found[0] < found[3], "{found:?}");
    }
}
