//! Periods: detection of two points in time with equal states except for the time, and moving the
//! state on by many periods.

use crate::{Purpose, Walker};

/// Cycles at or above this mean none.
const NO_CYCLE: u64 = 1 << 62;

/// Collects the state that determines all future behaviour, relative to a point in time. Times
/// before that point are equivalent to it.
#[derive(Debug)]
pub struct Comparer {
    cycle: u64,
    femtoseconds: u64,
    words: Vec<u64>,
    counts: Vec<u64>,
    refused: bool,
}

impl Comparer {
    /// Collects for the beginning of `cycle`, in femtoseconds. The size of `other` is used as an
    /// estimate.
    pub fn new(cycle: u64, femtoseconds: u64, other: Option<&Comparer>) -> Comparer {
        let words = other.map_or(0, |other| other.words.len() + 1024);
        Comparer {
            cycle,
            femtoseconds,
            words: Vec::with_capacity(words),
            counts: Vec::new(),
            refused: false,
        }
    }

    /// Whether the state collected by `other` at another time has the same future.
    pub fn is_equal(&self, other: &Comparer) -> bool {
        !self.refused && !other.refused && self.words == other.words
    }

    /// The collected state without counts.
    pub fn into_words(self) -> Vec<u64> {
        self.words
    }

    /// Whether the state contains something that cannot be compared.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Moves the counts and times since `earlier` on by another `times` periods, which are `cycles`
    /// cycles.
    pub fn mover(&self, earlier: &Comparer, times: u64, cycles: u64, femtoseconds: u64) -> Mover {
        let counts = self.counts.iter().zip(&earlier.counts);
        let counts: Vec<u64> = counts
            .map(|(now, before)| now.wrapping_sub(*before).wrapping_mul(times))
            .collect();
        Mover {
            cycles,
            femtoseconds,
            counts: counts.into_iter(),
        }
    }
}

impl Walker for Comparer {
    #[inline]
    fn number(&mut self, value: &mut u64) {
        self.words.push(*value);
    }

    fn numbers(&mut self, values: &mut [u64]) {
        self.words.extend_from_slice(values);
    }

    fn bytes(&mut self, bytes: &mut [u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        self.words
            .extend(words.iter().map(|&word| u64::from_le_bytes(word)));
        self.words.extend(rest.iter().map(|&byte| u64::from(byte)));
    }

    fn time(&mut self, femtoseconds: &mut u64) {
        self.words.push(match *femtoseconds {
            u64::MAX => u64::MAX,
            time => time.saturating_sub(self.femtoseconds),
        });
    }

    fn cycle(&mut self, cycle: &mut u64) {
        self.words.push(match *cycle {
            NO_CYCLE.. => *cycle,
            cycle => cycle.saturating_sub(self.cycle),
        });
    }

    fn count(&mut self, count: &mut u64) {
        self.counts.push(*count);
    }

    fn purpose(&self) -> Purpose {
        Purpose::Compare
    }

    fn refuse(&mut self, _sentence: String) {
        self.refused = true;
    }
}

/// Moves a state on by many periods: times by their length, counts by their increments.
#[derive(Debug)]
pub struct Mover {
    cycles: u64,
    femtoseconds: u64,
    counts: std::vec::IntoIter<u64>,
}

impl Walker for Mover {
    fn number(&mut self, _value: &mut u64) {}

    fn numbers(&mut self, _values: &mut [u64]) {}

    fn bytes(&mut self, _bytes: &mut [u8]) {}

    fn time(&mut self, femtoseconds: &mut u64) {
        if *femtoseconds != u64::MAX {
            *femtoseconds += self.femtoseconds;
        }
    }

    fn cycle(&mut self, cycle: &mut u64) {
        if *cycle < NO_CYCLE {
            *cycle += self.cycles;
        }
    }

    fn count(&mut self, count: &mut u64) {
        *count = count.wrapping_add(self.counts.next().unwrap_or_default());
    }

    fn purpose(&self) -> Purpose {
        Purpose::MoveOn
    }

    fn refuse(&mut self, _sentence: String) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time, a cycle, a count, and what is the same in every period.
    fn walk(state: &mut [u64; 4], walker: &mut dyn Walker) {
        walker.time(&mut state[0]);
        walker.cycle(&mut state[1]);
        walker.count(&mut state[2]);
        walker.number(&mut state[3]);
    }

    fn collected(mut state: [u64; 4], cycle: u64) -> Comparer {
        let mut comparer = Comparer::new(cycle, 1000 * cycle, None);
        walk(&mut state, &mut comparer);
        comparer
    }

    #[test]
    fn states_a_period_apart_are_equal_and_move_on_by_periods() {
        // At cycles 100 and 140: something happens 7 cycles later, and 3 more have been counted.
        let before = [107_000, 107, 20, 5];
        let now = [147_000, 147, 23, 5];
        let (earlier, later) = (collected(before, 100), collected(now, 140));
        assert!(later.is_equal(&earlier));
        // The same numbers at another time have another future.
        assert!(!collected(before, 101).is_equal(&earlier));
        assert!(!collected([107_000, 107, 20, 6], 100).is_equal(&earlier));
        // What has passed, and what never comes, is the same at all times.
        let past = |cycle| collected([u64::MAX, 90, 20, 5], cycle);
        assert!(past(140).is_equal(&past(100)));
        let mut refused = collected(before, 100);
        refused.refuse(String::new());
        assert!(!refused.is_equal(&earlier) && !earlier.is_equal(&refused));

        // Ten periods of 40 cycles more.
        let mut moved = now;
        walk(&mut moved, &mut later.mover(&earlier, 10, 400, 400_000));
        assert_eq!(moved, [547_000, 547, 53, 5]);
        let mut never = [u64::MAX, NO_CYCLE, 23, 5];
        walk(&mut never, &mut later.mover(&earlier, 10, 400, 400_000));
        assert_eq!(never, [u64::MAX, NO_CYCLE, 53, 5]);
    }
}
