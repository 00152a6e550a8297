//! What targets make of the bytes that they are given.

use serde_json::{Number, Value};

/// Bytes that are taken one after the other; behind the last one are zeros.
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// One of these.
    pub fn choice<T: Copy>(&mut self, items: &[T]) -> T {
        items[usize::from(self.byte()) % items.len()]
    }

    /// A number of 16 bits.
    pub fn half(&mut self) -> u64 {
        u64::from(self.byte()) | u64::from(self.byte()) << 8
    }

    /// A number of any size: small ones, powers of two and those near them, negative ones, and any.
    pub fn number(&mut self) -> u64 {
        match self.byte() % 8 {
            0 => 0,
            1 => u64::from(self.byte()),
            2 => 1 << (self.byte() % 64),
            3 => (1u64 << (self.byte() % 64)).wrapping_sub(1),
            4 => (self.byte() as i8) as u64,
            5 => self.half(),
            6 => self.half() * 64,
            _ => (0..8).fold(0, |bits, _| bits << 8 | u64::from(self.byte())),
        }
    }

    /// At most so many bytes.
    pub fn bytes(&mut self, most: usize) -> &[u8] {
        let (first, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        first
    }
}

/// Puts a number, taken from the bytes that are left, in the place of some of those in `value`.
pub fn replace_numbers(value: &mut Value, bytes: &mut impl Iterator<Item = u8>) {
    match value {
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|one| replace_numbers(one, bytes)),
        Value::Array(items) => items.iter_mut().for_each(|one| replace_numbers(one, bytes)),
        Value::Number(number) => {
            let (Some(kind), whole) = (bytes.next(), number.is_u64()) else {
                return;
            };
            let mut next = || u64::from(bytes.next().unwrap_or(0));
            let small = |low: u64, high: u64| low | high << 8;
            *number = match (kind % 16, whole) {
                (0, true) => small(next(), next()).into(),
                (1, true) => (1u64 << (next() % 64)).into(),
                (2, true) => (u64::MAX - small(next(), 0)).into(),
                (3, true) => (next() % 16).into(),
                (0..=3, false) => {
                    let bits = (0..8).fold(0, |bits, _| bits << 8 | next());
                    Number::from_f64(f64::from_bits(bits)).unwrap_or_else(|| 0.into())
                }
                (4, false) => (next() % 16).into(),
                _ => return,
            };
        }
        _ => {}
    }
}
