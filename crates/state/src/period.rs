//! Periods: two points in time whose states are equal but for the time, and how all is moved on by
//! many of them.

use crate::{Purpose, Walker};

/// Cycles at or above this are none.
const NO_CYCLE: u64 = 1 << 62;

/// Gathers what decides on all that comes, relative to a point in time. What is before it is as
/// good as at it.
#[derive(Debug)]
pub struct Comparer {
    cycle: u64,
    femtoseconds: u64,
    words: Vec<u64>,
    counts: Vec<u64>,
    refused: bool,
}

impl Comparer {
    /// For the beginning of `cycle`, in femtoseconds. There will be about as much as in
    /// `other`.
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

    /// Whether what `other` has gathered at another time goes on in the same way.
    pub fn is_equal(&self, other: &Comparer) -> bool {
        !self.refused && !other.refused && self.words == other.words
    }

    /// What has been gathered but for counts.
    pub fn into_words(self) -> Vec<u64> {
        self.words
    }

    /// Whether there is something that cannot be compared.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Moves on by `times` what has been counted, as from `earlier` until now, by `cycles` cycles.
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

/// Moves a state on by many periods: times by their length, counts by what they count.
#[derive(Debug)]
pub struct Mover {
    cycles: u64,
    femtoseconds: u64,
    counts: std::vec::IntoIter<u64>,
}

impl Walker for Mover {
    fn number(&mut self, _value: &mut u64) {}

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
