//! State as bytes: numbers in base 128, low digits first, with the upper bit set in all but the
//! last. Numbers are incremented by one, so that -1, which stands for "none" in many places, is as
//! short as 0.

use crate::{State, Walker};

/// Serializes state.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    refused: Option<String>,
}

impl Writer {
    /// The bytes of `state`, or the reason that it cannot be serialized.
    pub fn write(state: &mut dyn State) -> Result<Vec<u8>, String> {
        let mut writer = Writer::default();
        state.walk(&mut writer);
        match writer.refused {
            None => Ok(writer.bytes),
            Some(sentence) => Err(sentence),
        }
    }
}

impl Walker for Writer {
    #[inline]
    fn number(&mut self, value: &mut u64) {
        let mut rest = value.wrapping_add(1);
        // Nearly all numbers are this short.
        if rest < 0x80 {
            self.bytes.push(rest as u8);
            return;
        }
        let (mut digits, mut last) = ([0; 10], 0);
        while rest >= 0x80 {
            digits[last] = rest as u8 | 0x80;
            rest >>= 7;
            last += 1;
        }
        digits[last] = rest as u8;
        self.bytes.extend_from_slice(&digits[..=last]);
    }

    fn numbers(&mut self, values: &mut [u64]) {
        let (groups, rest) = values.as_chunks_mut::<8>();
        for group in groups {
            let incremented = group.map(|value| value.wrapping_add(1));
            if incremented.iter().fold(0, |all, value| all | value) < 0x80 {
                self.bytes.extend(incremented.map(|value| value as u8));
            } else {
                group.iter_mut().for_each(|value| self.number(value));
            }
        }
        rest.iter_mut().for_each(|value| self.number(value));
    }

    fn bytes(&mut self, bytes: &mut [u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn refuse(&mut self, sentence: String) {
        self.refused.get_or_insert(sentence);
    }
}

/// Restores state that a [`Writer`] has serialized.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    refused: Option<String>,
}

impl Reader<'_> {
    /// Restores `state` from `bytes`, or returns the reason that they do not fit. In that case
    /// `state` is unspecified.
    pub fn read(state: &mut dyn State, bytes: &[u8]) -> Result<(), String> {
        let mut reader = Reader {
            rest: bytes,
            refused: None,
        };
        state.walk(&mut reader);
        if !reader.rest.is_empty() {
            reader.refuse(format!("there are {} bytes too many", reader.rest.len()));
        }
        reader.refused.map_or(Ok(()), Err)
    }

    fn ends(&mut self) {
        self.refuse("it ends too early".to_string());
    }
}

impl Walker for Reader<'_> {
    #[inline]
    fn number(&mut self, value: &mut u64) {
        let (mut number, mut shift) = (0u64, 0);
        loop {
            let Some((&byte, rest)) = self.rest.split_first() else {
                self.ends();
                *value = 0;
                return;
            };
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
            shift = (shift + 7).min(63);
        }
        *value = number.wrapping_sub(1);
    }

    fn numbers(&mut self, values: &mut [u64]) {
        let (groups, rest) = values.as_chunks_mut::<8>();
        for group in groups {
            match self.rest.split_first_chunk::<8>() {
                Some((bytes, after)) if bytes.iter().fold(0, |all, byte| all | byte) < 0x80 => {
                    *group = bytes.map(|byte| u64::from(byte).wrapping_sub(1));
                    self.rest = after;
                }
                _ => group.iter_mut().for_each(|value| self.number(value)),
            }
        }
        rest.iter_mut().for_each(|value| self.number(value));
    }

    fn bytes(&mut self, bytes: &mut [u8]) {
        match self.rest.split_at_checked(bytes.len()) {
            Some((now, rest)) => {
                bytes.copy_from_slice(now);
                self.rest = rest;
            }
            None => self.ends(),
        }
    }

    fn is_restoring(&self) -> bool {
        true
    }

    fn max_items(&self) -> u64 {
        // Each takes at least a byte.
        self.rest.len() as u64
    }

    /// Input after the first failure is ignored.
    fn refuse(&mut self, sentence: String) {
        self.refused.get_or_insert(sentence);
        self.rest = &[];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, VecDeque};

    #[derive(Clone, Debug, PartialEq, crate::State, crate::Plain)]
    enum Shape {
        Nothing,
        Pair(u64, bool),
        Named {
            #[state(cycle)]
            at: u64,
            text: &'static str,
        },
    }

    #[derive(Clone, Debug, PartialEq, crate::State)]
    struct All {
        number: u64,
        small: u8,
        real: f64,
        maybe: Option<u64>,
        answer: Result<u64, ()>,
        list: Vec<(u64, Shape)>,
        ring: VecDeque<u32>,
        map: BTreeMap<u64, Shape>,
        text: String,
        array: [u16; 3],
        #[state(octets)]
        room: [u8; 4],
    }

    fn shape() -> impl Strategy<Value = Shape> {
        prop_oneof![
            Just(Shape::Nothing),
            any::<(u64, bool)>().prop_map(|(one, two)| Shape::Pair(one, two)),
            (any::<u64>(), prop::sample::select(vec!["", "one", "two"]))
                .prop_map(|(at, text)| Shape::Named { at, text }),
        ]
    }

    fn all() -> impl Strategy<Value = All> {
        let number = || prop_oneof![any::<u64>(), 0u64..300, (u64::MAX - 3)..=u64::MAX];
        (
            (number(), any::<u8>(), any::<f64>(), any::<Option<u64>>()),
            any::<Option<u64>>(),
            prop::collection::vec((number(), shape()), 0..5),
            prop::collection::vec(any::<u32>(), 0..5),
            prop::collection::btree_map(number(), shape(), 0..5),
            (".{0,5}", any::<[u16; 3]>(), any::<[u8; 4]>()),
        )
            .prop_map(|(first, answer, list, ring, map, last)| All {
                number: first.0,
                small: first.1,
                real: first.2,
                maybe: first.3,
                answer: answer.ok_or(()),
                list,
                ring: ring.into(),
                map,
                text: last.0,
                array: last.1,
                room: last.2,
            })
    }

    /// A list whose items are walked one after the other.
    struct OneByOne<T>(Vec<T>);

    impl<T: State> State for OneByOne<T> {
        fn walk(&mut self, walker: &mut dyn Walker) {
            walker.number(&mut (self.0.len() as u64));
            self.0.iter_mut().for_each(|item| item.walk(walker));
        }
    }

    fn written_together_as_one_by_one<T>(mut items: Vec<T>) -> Result<(), TestCaseError>
    where
        T: crate::Plain + Clone + PartialEq + std::fmt::Debug,
    {
        let bytes = Writer::write(&mut items).unwrap();
        let one_by_one = Writer::write(&mut OneByOne(items.clone())).unwrap();
        prop_assert_eq!(&bytes, &one_by_one);
        let mut restored: Vec<T> = Vec::new();
        Reader::read(&mut restored, &bytes).unwrap();
        prop_assert_eq!(restored, items);
        Ok(())
    }

    proptest! {
        /// Among short numbers there are long ones of any length, in many groups or in few.
        #[test]
        fn many_numbers_are_written_as_one_by_one(
            long_every in 1u64..600,
            seeds in prop::collection::vec(any::<u64>(), 0..600),
            bools in prop::collection::vec(any::<bool>(), 0..600),
        ) {
            let short = |seed: u64| ((seed >> 32) % 0x80).wrapping_sub(1);
            let long = |seed: u64| seed >> (seed % 64);
            let is_long = |seed: u64| (seed >> 6).is_multiple_of(long_every);
            let numbers = seeds.into_iter();
            let numbers: Vec<u64> = numbers
                .map(|seed| if is_long(seed) { long(seed) } else { short(seed) })
                .collect();
            written_together_as_one_by_one::<u16>(numbers.iter().map(|&one| one as u16).collect())?;
            written_together_as_one_by_one(numbers)?;
            written_together_as_one_by_one(bools)?;
        }

        /// The restored state does not depend on its earlier contents.
        #[test]
        fn what_is_written_comes_back(mut one in all(), mut other in all()) {
            let bytes = Writer::write(&mut one).unwrap();
            Reader::read(&mut other, &bytes).unwrap();
            // A NaN differs from itself, but its bits are equal.
            prop_assert_eq!(one.real.to_bits(), other.real.to_bits());
            (one.real, other.real) = (0.0, 0.0);
            prop_assert_eq!(one, other);
        }

        /// Truncated and overlong input is refused; nothing panics.
        #[test]
        fn other_lengths_are_refused(mut one in all(), mut other in all(), cut in 1usize..50) {
            let mut bytes = Writer::write(&mut one).unwrap();
            let kept = bytes.len().saturating_sub(cut);
            prop_assert!(Reader::read(&mut other, &bytes[..kept]).is_err());
            bytes.push(0);
            prop_assert!(Reader::read(&mut other, &bytes).is_err());
        }

        #[test]
        fn noise_never_panics(mut one in all(), noise in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Reader::read(&mut one, &noise);
        }
    }

    /// Where nothing that follows tells the length.
    #[test]
    fn numbers_that_are_missing_are_refused() {
        let too_early = Err("it ends too early".to_string());
        assert_eq!(Reader::read(&mut 0u64, &[]), too_early);
        // More bits are to follow.
        assert_eq!(Reader::read(&mut 0u64, &[0x80]), too_early);
    }

    #[test]
    fn none_is_short() {
        assert_eq!(Writer::write(&mut u64::MAX.clone()), Ok(vec![0]));
        assert_eq!(Writer::write(&mut 0u64.clone()), Ok(vec![1]));
        assert_eq!(Writer::write(&mut 127u64.clone()), Ok(vec![0x80, 1]));
    }
}
