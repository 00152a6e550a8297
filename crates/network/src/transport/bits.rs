//! A set of packets of a message.

/// Which packets of a message something is true of.
#[derive(Clone, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub(super) struct Bits {
    words: Vec<u64>,
    count: u32,
}

impl Bits {
    /// None of so many.
    pub(super) fn none(length: u32) -> Bits {
        Bits {
            words: vec![0; length.div_ceil(64) as usize],
            count: 0,
        }
    }

    /// All of so many.
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

    /// Whether it was not there.
    pub(super) fn insert(&mut self, number: u32) -> bool {
        let is_new = !self.contains(number);
        self.words[number as usize / 64] |= 1 << (number % 64);
        self.count += u32::from(is_new);
        is_new
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, number: u32) -> bool {
        let was_there = self.contains(number);
        self.words[number as usize / 64] &= !(1 << (number % 64));
        self.count -= u32::from(was_there);
        was_there
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The lowest.
    pub(super) fn first(&self) -> Option<u32> {
        let place = self.words.iter().position(|&word| word != 0)?;
        Some(place as u32 * 64 + self.words[place].trailing_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
