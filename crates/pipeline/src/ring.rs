//! Ring buffers whose entries are addressed by ever-increasing numbers.

use std::ops::{Index, IndexMut};

/// A ring of a power of two of entries. Numbers that differ by a multiple of the ring's length
/// share an entry.
#[derive(Clone, Debug, PartialEq, Eq, state::State)]
#[state(bound(T: state::State))]
pub struct Ring<T> {
    /// A power of two of entries.
    #[state(slice)]
    entries: Box<[T]>,
    /// The number of entries, less one.
    #[state(fixed)]
    mask: usize,
}

impl<T: Clone> Ring<T> {
    /// A ring of at least `length` equal entries.
    pub fn new(length: usize, entry: T) -> Ring<T> {
        let length = length.next_power_of_two();
        Ring {
            entries: vec![entry; length].into_boxed_slice(),
            mask: length - 1,
        }
    }
}

impl<T> Ring<T> {
    /// The number of entries.
    pub fn length(&self) -> u64 {
        self.mask as u64 + 1
    }

    /// All entries, in the order of their indices.
    #[inline(always)]
    pub fn all(&self) -> &[T] {
        &self.entries
    }

    /// All entries, mutably.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut()
    }

    /// All entries, mutably.
    pub fn all_mut(&mut self) -> &mut [T] {
        &mut self.entries
    }

    /// The index of the entry of `number`, from 0 to the length less one.
    #[inline(always)]
    pub fn place(&self, number: u64) -> usize {
        number as usize & self.mask
    }
}

impl<T> Index<u64> for Ring<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, number: u64) -> &T {
        let place = self.place(number);
        // SAFETY: only `new` makes rings, with `mask + 1` entries, and nothing changes either
        // afterwards; `place` is at most `mask`.
        unsafe { self.entries.get_unchecked(place) }
    }
}

impl<T> IndexMut<u64> for Ring<T> {
    #[inline(always)]
    fn index_mut(&mut self, number: u64) -> &mut T {
        let place = self.place(number);
        // SAFETY: as in `index`.
        unsafe { self.entries.get_unchecked_mut(place) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_share_an_entry_when_they_differ_by_the_length() {
        let mut ring = Ring::new(5, 0);
        assert_eq!(ring.length(), 8);
        for number in 0..8 {
            ring[number] = number;
        }
        assert_eq!(ring[u64::MAX], 7); // -1
        ring[8 * 1000 + 3] = 33;
        assert_eq!(ring[3], 33);
        assert_eq!(Ring::new(0, ()).length(), 1);
    }
}
