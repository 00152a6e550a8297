//! Bitmaps of the packets of a message.

/// A set of packet numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub(super) struct Bits {
    words: Vec<u64>,
    count: u32,
}

impl Bits {
    /// The empty set, with room for the numbers below `length`.
    pub(super) fn none(length: u32) -> Bits {
        Bits {
            words: vec![0; length.div_ceil(64) as usize],
            count: 0,
        }
    }

    /// All numbers below `length`.
    pub(super) fn all(length: u32) -> Bits {
        let mut bits = Bits::none(length);
        for number in 0..length {
            bits.insert(number);
        }
        bits
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.words[number as usize / 64] >> (number % 64) & 1 != 0
    }

    /// Inserts a number; returns whether it is new.
    pub(super) fn insert(&mut self, number: u32) -> bool {
        let is_new = !self.contains(number);
        self.words[number as usize / 64] |= 1 << (number % 64);
        self.count += u32::from(is_new);
        is_new
    }

    /// Removes a number; returns whether it was in the set.
    pub(super) fn remove(&mut self, number: u32) -> bool {
        let was_there = self.contains(number);
        self.words[number as usize / 64] &= !(1 << (number % 64));
        self.count -= u32::from(was_there);
        was_there
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The number of bits, a multiple of 64.
    pub(super) fn room(&self) -> u32 {
        self.words.len() as u32 * 64
    }

    /// The number of members in `from..to`.
    pub(super) fn count_in(&self, from: u32, to: u32) -> u32 {
        let to = to.min(self.room());
        let mut count = 0;
        for word in from / 64..to.div_ceil(64) {
            count += (self.words[word as usize] & within(word, from, to)).count_ones();
        }
        count
    }

    /// The first number in `from..to` that is not a member, or `to`.
    pub(super) fn run_end(&self, from: u32, to: u32) -> u32 {
        let end = to.min(self.room());
        let mut at = from;
        while at < end {
            let run = (!(self.words[at as usize / 64] >> (at % 64))).trailing_zeros();
            let rest = 64 - at % 64;
            at += run.min(rest);
            if run < rest {
                break;
            }
        }
        at.min(to).max(from)
    }

    /// Inserts all numbers in `from..to`.
    pub(super) fn insert_range(&mut self, from: u32, to: u32) {
        let to = to.min(self.room());
        for word in from / 64..to.div_ceil(64) {
            self.put(word, within(word, from, to));
        }
    }

    /// Inserts the members below `to` of another set of the same size.
    pub(super) fn insert_all(&mut self, others: &Bits, to: u32) {
        let to = to.min(self.room());
        for word in 0..to.div_ceil(64) {
            self.put(word, others.words[word as usize] & within(word, 0, to));
        }
    }

    fn put(&mut self, word: u32, bits: u64) {
        let of = &mut self.words[word as usize];
        self.count += (bits & !*of).count_ones();
        *of |= bits;
    }

    /// The lowest member.
    pub(super) fn first(&self) -> Option<u32> {
        let place = self.words.iter().position(|&word| word != 0)?;
        Some(place as u32 * 64 + self.words[place].trailing_zeros())
    }
}

/// The numbers of a word from `from` on and below `to`, where the word has some below `to`.
fn within(word: u32, from: u32, to: u32) -> u64 {
    let start = word * 64;
    if from >= to {
        return 0;
    }
    let low = u64::MAX << from.saturating_sub(start).min(63);
    let high = u64::MAX >> (64 - (to - start).min(64));
    low & high
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_their_numbers(
            numbers in prop::collection::vec(0u32..200, 0..200),
            others in prop::collection::vec(0u32..200, 0..200),
            (from, to) in (0u32..200, 0u32..200),
        ) {
            let set = |numbers: &[u32]| {
                let mut bits = Bits::none(200);
                for &number in numbers {
                    bits.insert(number);
                }
                bits
            };
            let bits = set(&numbers);
            let inside = (from..to).filter(|&number| bits.contains(number)).count();
            prop_assert_eq!(bits.count_in(from, to), inside as u32);
            let end = (from..to).find(|&number| !bits.contains(number)).unwrap_or(to.max(from));
            prop_assert_eq!(bits.run_end(from, to), end);
            let mut ranged = bits.clone();
            ranged.insert_range(from, to);
            let all: Vec<_> = numbers.iter().copied().chain(from..to).collect();
            prop_assert_eq!(ranged, set(&all));
            let mut merged = bits.clone();
            merged.insert_all(&set(&others), to);
            let below = others.iter().copied().filter(|&number| number < to);
            let all: Vec<_> = numbers.iter().copied().chain(below).collect();
            prop_assert_eq!(merged, set(&all));
        }
    }

    #[test]
    fn it_is_a_set() {
        let mut bits = Bits::none(130);
        assert_eq!((bits.count(), bits.first()), (0, None));
        for (number, first) in [(129, 129), (63, 63), (64, 63)] {
            assert!(bits.insert(number));
            assert!(!bits.insert(number));
            assert_eq!(bits.first(), Some(first));
        }
        assert_eq!(bits.count(), 3);
        assert!(bits.remove(63));
        assert!(!bits.remove(63));
        assert_eq!((bits.first(), bits.count()), (Some(64), 2));
        assert_eq!(Bits::all(65).count(), 65);
    }
}
