//! The monitoring set: which doorbell lines are watched, and for which queues (§III-B, §IV-A).
//!
//! A banked, ZCache-like Cuckoo hash table of two ways. A look-up reads one place of each way; an
//! insertion walks the table and moves entries between their two places until one is empty.
//!
//! # How full it gets
//!
//! The paper cites a conflict rate of 0.1 % if the table has 5 % to 10 % more entries than there
//! are doorbells (§IV-A). Two ways of one entry a row cannot do that with lines at random: such a
//! Cuckoo table holds half of its entries, whatever the walk. The share of `QWAIT-ADD`s that
//! conflict, for 1024 entries in 16 banks:
//!
//! | doorbells | lines at random | consecutive lines | consecutive, start aligned |
//! | --- | --- | --- | --- |
//! | 460 (45 %) | 0.3 % | 0 | 0 |
//! | 512 (50 %) | 0.6 % | 0 | 0 |
//! | 768 (75 %) | 5.8 % | 0 | 0 |
//! | 931 (91 %, 10 % to spare) | 12.3 % | 1.4 % | 0 |
//! | 972 (95 %, 5 % to spare) | 14.1 % | 2.8 % | 0 |
//! | 1024 (100 %) | 16.4 % | 5.0 % | 0 |
//!
//! The last column is a property of the hash functions (see `hash`), not luck: a driver that
//! allocates doorbell lines one after the other, from an address aligned to half as many lines as
//! there are entries (here 32 KiB), meets no conflict.

use fabric::LineAddress;
use state::{Plain, State, Walker};
use std::fmt;

/// A queue's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Qid(pub u32);

impl State for Qid {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.0.walk(walker);
    }
}

impl Plain for Qid {
    fn blank() -> Qid {
        Qid(0)
    }
}

/// The number of ways, and of places where a line can be.
pub const WAYS: usize = 2;

/// One place of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// The whole line address; hardware would leave out what the place and the bank imply.
    tag: LineAddress,
    /// The queue whose doorbell is in the line.
    qid: Qid,
    /// Armed: the next grant of ownership of the line activates the queue.
    monitoring: bool,
    /// The place is taken.
    valid: bool,
}

state::component!(Entry {
    tag,
    qid,
    monitoring,
    valid
});

const EMPTY: Entry = Entry {
    tag: LineAddress(0),
    qid: Qid(0),
    monitoring: false,
    valid: false,
};

/// Why a line was not inserted.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitoringSet {
    /// `banks` × [`WAYS`] × `rows` places.
    places: Vec<Entry>,
    banks: usize,
    rows: usize,
    /// The doorbell line of each QID, for `QWAIT-REMOVE`; hardware would search for it.
    line_of: Vec<Option<LineAddress>>,
    occupied: usize,
    armed: usize,
}

state::component!(MonitoringSet {
    places: slice,
    banks: fixed,
    rows: fixed,
    line_of: slice,
    occupied,
    armed,
});

impl MonitoringSet {
    /// An empty table of `banks` banks with [`WAYS`] ways of `rows` rows each; `rows` is a power
    /// of two.
    pub fn new(banks: usize, rows: usize) -> MonitoringSet {
        debug_assert!(banks > 0 && rows.is_power_of_two());
        let entries = banks * WAYS * rows;
        MonitoringSet {
            places: vec![EMPTY; entries],
            banks,
            rows,
            line_of: vec![None; entries],
            occupied: 0,
            armed: 0,
        }
    }

    /// Adds a disarmed entry, by a table walk.
    ///
    /// The walk goes breadth first from the line's two places, each time to the other place of the
    /// entry that it finds, until a place is empty; then each entry on the way there moves on by
    /// one. It visits no place twice, so it ends after at most all places of one bank. With two
    /// ways this is exact: a conflict means that no arrangement of the bank's entries leaves a
    /// place for the line. A walk that fails moves nothing.
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
        let mut walk = self.places_of(line).map(|place| (place, None)).to_vec();
        let mut step = 0;
        while self.places[walk[step].0].valid {
            let place = walk[step].0;
            let ways = self.places_of(self.places[place].tag);
            let other = if place == ways[0] { ways[1] } else { ways[0] };
            if walk.iter().all(|&(visited, _)| visited != other) {
                walk.push((other, Some(step)));
            }
            step += 1;
            if step == walk.len() {
                return Err(InsertError::Conflict);
            }
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

    /// The number of places, which is also the number of QIDs.
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
            .into_iter()
            .find(|&place| self.places[place].valid && self.places[place].tag == line)
    }

    /// The two places where `line` can be, one in each way of its bank. Lines are spread over the
    /// banks as they are over the directory.
    fn places_of(&self, line: LineAddress) -> [usize; WAYS] {
        let banks = self.banks as u64;
        let bank = (line.0 % banks) as usize;
        let key = line.0 / banks;
        [0, 1].map(|way| (bank * WAYS + way) * self.rows + hash(way, key, self.rows))
    }
}

/// The row of `key` in `way`: H0 or H1 of the paper's Fig. 5, taken from the H3 family of hash
/// functions, as in the ZCache. Each bit of the row is the parity of a fixed random half of the
/// key's bits: a tree of XOR gates.
///
/// Bit `n` of the row depends on bit `n` of the key and on higher ones only. So each way maps
/// `rows` consecutive keys, aligned, to `rows` different rows; two such blocks meet each row of
/// each way exactly twice; and lines that meet no row more than twice can always all be placed.
fn hash(way: usize, key: u64, rows: usize) -> usize {
    let mut row = 0;
    for bit in 0..rows.trailing_zeros() {
        let random = mix((way as u64) << 32 | u64::from(bit));
        let higher = (random << 1) << bit;
        let own = 1 << bit;
        row |= (((key & (higher | own)).count_ones() & 1) as usize) << bit;
    }
    row
}

/// The output function of SplitMix64: here, a source of constants.
const fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Everything visible from outside: armed lines by QID.
    fn content(set: &MonitoringSet) -> BTreeMap<Qid, (LineAddress, bool)> {
        let valid = set.places.iter().filter(|entry| entry.valid);
        valid
            .map(|entry| (entry.qid, (entry.tag, entry.monitoring)))
            .collect()
    }

    /// Whether the lines' places leave no group of places wanted by more lines than it has: then,
    /// and only then, they all fit.
    fn all_fit(set: &MonitoringSet, lines: &[LineAddress]) -> bool {
        fn root(parent: &[usize], mut place: usize) -> usize {
            while parent[place] != place {
                place = parent[place];
            }
            place
        }
        let mut parent: Vec<usize> = (0..set.entries()).collect();
        let mut spare = vec![1; set.entries()];
        lines.iter().all(|&line| {
            let [a, b] = set.places_of(line).map(|place| root(&parent, place));
            if a != b {
                parent[b] = a;
                spare[a] += spare[b];
            }
            spare[a] -= 1;
            spare[a] >= 0
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
        ) {
            let mut set = MonitoringSet::new(banks, 4);
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
            let mut set = MonitoringSet::new(banks, 32);
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

    /// The share of insertions that conflict while `count` distinct lines are inserted, over many
    /// tables.
    fn conflict_rate(
        banks: usize,
        rows: usize,
        count: usize,
        line: impl Fn(u64, u64) -> u64,
    ) -> f64 {
        let tables = 100;
        let mut conflicts = 0;
        for table in 0..tables {
            let mut set = MonitoringSet::new(banks, rows);
            let mut tried = BTreeSet::new();
            let mut number = 0;
            while tried.len() < count {
                let line = line(table, number);
                number += 1;
                if tried.insert(line) {
                    let result = set.insert(LineAddress(line), Qid(tried.len() as u32 - 1));
                    conflicts += u64::from(result == Err(InsertError::Conflict));
                }
            }
        }
        conflicts as f64 / (tables as f64 * count as f64)
    }

    /// The table in the description of this module.
    #[test]
    fn conflict_rates_are_those_stated() {
        let random = |table: u64, number: u64| mix(mix(table) ^ number) >> 30;
        let consecutive = |table: u64, number: u64| (mix(table) >> 24) + number;
        let percent = |taken: usize, line: &dyn Fn(u64, u64) -> u64| {
            let rate = conflict_rate(16, 32, 1024 * taken / 100, line);
            (rate * 1000.0).round() / 10.0
        };
        assert_eq!(percent(45, &random), 0.3);
        assert_eq!(percent(50, &random), 0.6);
        assert_eq!(percent(75, &random), 5.8);
        assert_eq!(percent(91, &random), 12.3);
        assert_eq!(percent(95, &random), 14.1);
        assert_eq!(percent(100, &random), 16.4);
        assert_eq!(percent(75, &consecutive), 0.0);
        assert_eq!(percent(91, &consecutive), 1.4);
        assert_eq!(percent(95, &consecutive), 2.8);
        assert_eq!(percent(100, &consecutive), 5.0);
    }
}
