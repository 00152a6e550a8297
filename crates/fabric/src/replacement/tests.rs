//! Each policy, compared with a textbook implementation that stores no bytes.

use super::*;
use crate::line_array::LineArray;
use crate::{CacheId, CacheSpec, LineAddress, LineData, PrivateCache, State};
use proptest::prelude::*;

/// An event of a set.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A line is accessed, and filled if absent.
    Access(u64),
    /// A line is invalidated.
    Remove(u64),
    /// An access for which only the ways of this mask may be evicted.
    Restricted(u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let line = 0..100_u64;
    let step = prop_oneof![
        12 => line.clone().prop_map(Step::Access),
        1 => line.clone().prop_map(Step::Remove),
        2 => (line, any::<u64>()).prop_map(|(line, mask)| Step::Restricted(line, mask)),
    ];
    prop::collection::vec(step, 1..400)
}

/// The textbook implementation of a policy, for one set.
trait Textbook {
    fn hit(&mut self, way: usize);
    /// Evicts a way and returns it.
    fn victim(&mut self, may_go: &dyn Fn(usize) -> bool) -> Option<usize>;
    fn come(&mut self, way: usize);
    /// Whether a free way is used before a line is evicted.
    fn takes_free_ways(&self) -> bool {
        true
    }
}

/// Performs the steps with both, and compares the way of each filled line.
fn compare(replacement: Replacement, ways: usize, steps: &[Step], book: &mut dyn Textbook) {
    let mut policy = Policy::new(replacement);
    let mut set = policy.empty_set(ways);
    let mut lines = vec![None; ways];
    for &step in steps {
        let (line, mask) = match step {
            Step::Access(line) => (line, u64::MAX),
            Step::Restricted(line, mask) => (line, mask),
            Step::Remove(line) => {
                let here = lines.iter().position(|&one| one == Some(line));
                if let Some(way) = here {
                    lines[way] = None;
                }
                continue;
            }
        };
        if let Some(way) = lines.iter().position(|&one| one == Some(line)) {
            policy.touch(&mut set, way);
            book.hit(way);
            continue;
        }
        let free = lines.iter().position(|one| one.is_none());
        // A way without a line may always be taken.
        let may_go = |way: usize| mask >> way & 1 == 1 || lines[way].is_none();
        let expected = match free {
            Some(way) if book.takes_free_ways() => Some(way),
            _ => book.victim(&may_go),
        };
        let before = set.clone();
        assert_eq!(policy.victim(&set, || free, may_go), expected);
        assert_eq!(set, before, "asking for the victim has changed the set");
        let Some(way) = expected else { continue };
        if lines[way].is_some() {
            policy.evict(&mut set, way);
        }
        policy.insert(&mut set, way);
        book.come(way);
        lines[way] = Some(line);
    }
}

/// The ways in order of use, most recent first.
struct Order(Vec<usize>);

impl Textbook for Order {
    fn hit(&mut self, way: usize) {
        self.0.retain(|&other| other != way);
        self.0.insert(0, way);
    }

    fn victim(&mut self, may_go: &dyn Fn(usize) -> bool) -> Option<usize> {
        self.0.iter().rev().copied().find(|&way| may_go(way))
    }

    fn come(&mut self, way: usize) {
        self.hit(way);
    }
}

/// A shift register by its polynomial, x^16 + x^14 + x^13 + x^11 + 1.
struct ShiftRegister {
    /// The first element is bit 1.
    bits: [bool; 16],
    ways: usize,
}

impl Textbook for ShiftRegister {
    fn hit(&mut self, _way: usize) {}

    fn victim(&mut self, may_go: &dyn Fn(usize) -> bool) -> Option<usize> {
        // Bit 16 is the lowest bit of the number.
        let number = self
            .bits
            .iter()
            .fold(0, |sum, &bit| sum * 2 + usize::from(bit));
        // The ways after the first are tried in turn.
        let mut ways = (0..self.ways).map(|way| (number + way) % self.ways);
        ways.find(|&way| may_go(way))
    }

    fn come(&mut self, _way: usize) {
        let next = [16, 14, 13, 11].map(|bit| self.bits[bit - 1]);
        let next = next.into_iter().fold(false, |sum, bit| sum ^ bit);
        self.bits.rotate_right(1);
        self.bits[0] = next;
    }

    fn takes_free_ways(&self) -> bool {
        false
    }
}

/// A tree with a pointer at each node; of two unequal halves the lower one is the larger.
enum Tree {
    Way(usize),
    Node {
        halves: [Box<Tree>; 2],
        to_upper: bool,
    },
}

impl Tree {
    fn of(ways: &[usize]) -> Tree {
        if let [way] = ways {
            return Tree::Way(*way);
        }
        let (lower, upper) = ways.split_at(ways.len().div_ceil(2));
        Tree::Node {
            halves: [lower, upper].map(|half| Box::new(Tree::of(half))),
            to_upper: false,
        }
    }

    /// Points away from `way`; false if it is not in this tree.
    fn use_way(&mut self, way: usize) -> bool {
        match self {
            Tree::Way(other) => *other == way,
            Tree::Node { halves, to_upper } => {
                let [lower, upper] = halves;
                let in_lower = lower.use_way(way);
                let found = in_lower || upper.use_way(way);
                if found {
                    *to_upper = in_lower;
                }
                found
            }
        }
    }

    fn leaf(&self, may_go: &dyn Fn(usize) -> bool) -> Option<usize> {
        match self {
            Tree::Way(way) => Some(*way).filter(|&way| may_go(way)),
            Tree::Node { halves, to_upper } => {
                let [first, second] = match to_upper {
                    true => [&halves[1], &halves[0]],
                    false => [&halves[0], &halves[1]],
                };
                first.leaf(may_go).or_else(|| second.leaf(may_go))
            }
        }
    }
}

impl Textbook for Tree {
    fn hit(&mut self, way: usize) {
        assert!(self.use_way(way));
    }

    fn victim(&mut self, may_go: &dyn Fn(usize) -> bool) -> Option<usize> {
        self.leaf(may_go)
    }

    fn come(&mut self, way: usize) {
        self.hit(way);
    }
}

/// Figure 4b of the paper: predictions of two bits.
struct Predictions(Vec<u32>);

impl Textbook for Predictions {
    fn hit(&mut self, way: usize) {
        self.0[way] = 0;
    }

    /// Searches for the first 3 from the left; if there is none, increments all and searches again.
    fn victim(&mut self, may_go: &dyn Fn(usize) -> bool) -> Option<usize> {
        let ways = 0..self.0.len();
        if !ways.clone().any(may_go) {
            return None;
        }
        loop {
            let distant = ways.clone().find(|&way| may_go(way) && self.0[way] == 3);
            if distant.is_some() {
                return distant;
            }
            for prediction in &mut self.0 {
                *prediction = 3.min(*prediction + 1);
            }
        }
    }

    fn come(&mut self, way: usize) {
        self.0[way] = 2;
    }
}

proptest! {
    #[test]
    fn least_recently_used(ways in 1usize..=64, steps in steps()) {
        compare(Replacement::Lru, ways, &steps, &mut Order((0..ways).collect()));
    }

    #[test]
    fn random(ways in 1usize..=64, steps in steps()) {
        let mut bits = [false; 16];
        // The number 1.
        bits[15] = true;
        compare(Replacement::Random, ways, &steps, &mut ShiftRegister { bits, ways });
    }

    #[test]
    fn tree_pseudo_lru(ways in 1usize..=64, steps in steps()) {
        let all: Vec<usize> = (0..ways).collect();
        compare(Replacement::TreePlru, ways, &steps, &mut Tree::of(&all));
    }

    #[test]
    fn re_reference_interval_prediction(ways in 1usize..=64, steps in steps()) {
        compare(Replacement::Srrip, ways, &steps, &mut Predictions(vec![3; ways]));
    }
}

/// Four ways filled in order and used in the order 0, 2, 1: LRU's victim is 3. The tree's bits
/// point away from 1 within the lower half, and at the root away from the lower half; in the upper
/// half away from 2: at 3. Then 3 is filled and used: the root points to the lower half, and there
/// to 0, although 0 was used before 2, which the tree does not record. The prediction of 3 is the
/// largest.
#[test]
fn victims_of_four_ways() {
    let victims = |replacement| {
        let mut policy = Policy::new(replacement);
        let mut set = policy.empty_set(4);
        for way in 0..4 {
            policy.insert(&mut set, way);
        }
        for way in [0, 2, 1] {
            policy.touch(&mut set, way);
        }
        let first = policy.victim(&set, || None, |_| true).unwrap();
        policy.evict(&mut set, first);
        policy.insert(&mut set, first);
        [first, policy.victim(&set, || None, |_| true).unwrap()]
    };
    assert_eq!(victims(Replacement::Lru), [3, 0]);
    assert_eq!(victims(Replacement::TreePlru), [3, 0]);
    // All others were increased from 0 to 1, and 3 arrived with 2.
    assert_eq!(victims(Replacement::Srrip), [3, 3]);
}

/// A cache of one set of four lines, of which the first is used again. Then lines arrive.
///
/// With predictions the first has 0 and the others 2. The first arrival finds no 3, and makes it 1
/// and the others 3, so that they go in turn, while arrivals have 2. The second round makes it 2,
/// and the third 3: it is then the first 3 in the set. A cache that evicted without increasing the
/// predictions would keep it for ever.
#[test]
fn a_private_cache_ages_the_lines_that_stay() {
    let victims = |replacement| {
        let spec = CacheSpec {
            size_bytes: 4 * 64,
            ways: 4,
            replacement,
            ..CacheSpec::default()
        };
        let mut cache = PrivateCache::new(&spec, CacheId(0));
        let place = |cache: &mut PrivateCache, line| {
            let placed = cache.place(LineAddress(line), State::Shared, &LineData::ZERO);
            placed.1.map(|victim| victim.line.0)
        };
        for line in 0..4 {
            assert_eq!(place(&mut cache, line), None);
        }
        assert!(cache.find_and_touch(LineAddress(0)).is_some());
        let victims: Vec<u64> = (4..12)
            .map(|line| place(&mut cache, line).unwrap())
            .collect();
        victims
    };
    assert_eq!(victims(Replacement::Lru), [1, 2, 3, 0, 4, 5, 6, 7]);
    assert_eq!(victims(Replacement::Srrip), [1, 2, 3, 4, 5, 6, 0, 7]);
}

/// A line that takes the way of an invalidated one evicts nothing, and the others do not age: all
/// have a prediction of 2, and the new line, in the first way, is the next victim. If the others
/// had aged by the 3 that the lost line lacked, the second would be.
#[test]
fn a_free_way_of_a_private_cache_ages_nothing() {
    let spec = CacheSpec {
        size_bytes: 4 * 64,
        ways: 4,
        replacement: Replacement::Srrip,
        ..CacheSpec::default()
    };
    let mut cache = PrivateCache::new(&spec, CacheId(0));
    for line in 0..4 {
        cache.place(LineAddress(line), State::Shared, &LineData::ZERO);
    }
    assert!(cache.find_and_touch(LineAddress(0)).is_some());
    cache.drop_line(LineAddress(0));
    cache.place(LineAddress(4), State::Shared, &LineData::ZERO);
    assert_eq!(cache.would_evict(LineAddress(5)), Some(LineAddress(4)));
}

fn textbook(replacement: Replacement, ways: usize) -> Box<dyn Textbook> {
    let all: Vec<usize> = (0..ways).collect();
    let mut bits = [false; 16];
    bits[15] = true;
    match replacement {
        Replacement::Lru => Box::new(Order(all)),
        Replacement::Random => Box::new(ShiftRegister { bits, ways }),
        Replacement::TreePlru => Box::new(Tree::of(&all)),
        Replacement::Srrip => Box::new(Predictions(vec![3; ways])),
    }
}

/// A textbook cache of one set.
struct Set {
    lines: Vec<Option<u64>>,
    book: Box<dyn Textbook>,
    last: Option<usize>,
    /// Whether consecutive uses of a line count as one.
    once: bool,
}

impl Set {
    fn new(replacement: Replacement, ways: usize, once: bool) -> Set {
        Set {
            lines: vec![None; ways],
            book: textbook(replacement, ways),
            last: None,
            once,
        }
    }

    fn way(&self, line: Option<u64>) -> Option<usize> {
        self.lines.iter().position(|&other| other == line)
    }

    /// Returns whether the line was present and, if not, the evicted line.
    fn access(&mut self, line: u64) -> (bool, Option<u64>) {
        if let Some(way) = self.way(Some(line)) {
            if !self.once || self.last != Some(way) {
                self.book.hit(way);
            }
            self.last = Some(way);
            return (true, None);
        }
        let free = self.way(None).filter(|_| self.book.takes_free_ways());
        let way = free.or_else(|| self.book.victim(&|_| true)).unwrap();
        self.book.come(way);
        self.last = Some(way);
        (false, self.lines[way].replace(line))
    }
}

proptest! {
    /// Hits and victims of a private cache, whose sets are independent except for the register of
    /// random replacement, are those of a textbook cache.
    #[test]
    fn private_caches(bits in 0u32..=6, more in 0u32..=3, steps in steps()) {
        for replacement in Replacement::ALL {
            // One set, or two, which share the random register.
            let sets = if replacement == Replacement::Random { 1 } else { 2 };
            let ways = (1 << bits) - more.min((1 << bits) - 1);
            let spec = CacheSpec {
                size_bytes: u64::from(ways) * sets * 64,
                ways,
                replacement,
                ..CacheSpec::default()
            };
            let mut cache = PrivateCache::new(&spec, CacheId(0));
            let set = || Set::new(replacement, ways as usize, true);
            let mut books = [set(), set()];
            for &step in &steps {
                let (Step::Access(line) | Step::Remove(line) | Step::Restricted(line, _)) = step;
                let book = &mut books[(line % sets) as usize];
                let address = LineAddress(line);
                if let Step::Remove(_) = step {
                    cache.drop_line(address);
                    if let Some(way) = book.way(Some(line)) {
                        book.lines[way] = None;
                    }
                    continue;
                }
                let would = cache.would_evict(address).map(|one| one.0);
                let is_hit = cache.find_and_touch(address).is_some();
                let mut victim = None;
                if !is_hit {
                    let placed = cache.place(address, State::Shared, &LineData::ZERO);
                    victim = placed.1.map(|one| one.line.0);
                    prop_assert_eq!(victim, would);
                }
                prop_assert_eq!((is_hit, victim), book.access(line));
            }
        }
    }

    /// The same for a non-inclusive last-level cache.
    #[test]
    fn line_arrays(ways in 1usize..=64, steps in steps()) {
        for replacement in Replacement::ALL {
            let mut array = LineArray::new(1, ways, replacement);
            let mut book = Set::new(replacement, ways, false);
            for &step in &steps {
                let (Step::Access(line) | Step::Remove(line) | Step::Restricted(line, _)) = step;
                let address = LineAddress(line);
                if let Step::Remove(_) = step {
                    array.remove(line, address);
                    if let Some(way) = book.way(Some(line)) {
                        book.lines[way] = None;
                    }
                    continue;
                }
                let is_hit = array.contains(line, address);
                let victim = array.install(line, address, false, 0..ways);
                let found = (is_hit, victim.map(|one| one.0.0));
                prop_assert_eq!(found, book.access(line));
            }
        }
    }
}
