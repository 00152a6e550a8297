//! The locations of directory entries.

use super::{Bank, EMPTY, Entry};
use crate::LineAddress;
use crate::prefetch::prefetch;

/// Sets the upper bit of each of eight bytes that equals `byte`, and of some that do not.
#[inline(always)]
fn maybe_alike(eight: u64, byte: u8) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    // Equal bytes give zero; only zero bytes, or bytes above a borrow, lose their upper bit in this
    // way.
    let differences = eight ^ (u64::from(byte) * ONES);
    differences.wrapping_sub(ONES) & !differences & (ONES << 7)
}

impl Bank {
    #[inline]
    pub(super) fn set(&self, line: LineAddress) -> usize {
        (self.banks.divide(line.0) & self.set_mask) as usize
    }

    /// The slot of the entry of a way of a set.
    #[inline]
    pub(super) fn slot(&self, set: usize, way: usize) -> usize {
        (way << self.set_bits) + set
    }

    /// Announces a message about `line`: the host prefetches the tags that locate the line's entry.
    #[inline]
    pub(crate) fn announce(&self, line: LineAddress) {
        prefetch(&self.sets[self.set(line) * self.ways * 2]);
    }

    /// Prefetches the entry, once the tags have arrived. Returns its possible location.
    #[inline]
    pub(crate) fn announce_entry(&self, line: LineAddress) -> u32 {
        let set = self.set(line);
        let byte = self.tag_byte(line);
        let (eights, _) = self.tag_bytes(set).as_chunks::<8>();
        for (eight, bytes) in eights.iter().enumerate() {
            let alike = maybe_alike(u64::from_le_bytes(*bytes), byte);
            if alike != 0 {
                let way = eight * 8 + (alike.trailing_zeros() / 8) as usize;
                let slot = self.slot(set, way);
                prefetch(&self.entries[slot]);
                return slot as u32;
            }
        }
        u32::MAX
    }

    /// The set of `slot`.
    #[inline]
    pub(super) fn set_of(&self, slot: usize) -> usize {
        slot & self.set_mask as usize
    }

    /// The way of `slot` in its set.
    #[inline]
    pub(super) fn way_of(&self, slot: usize) -> usize {
        slot >> self.set_bits
    }

    /// The entry of a set's way.
    #[inline]
    pub(super) fn entry(&self, set: usize, way: usize) -> &Entry {
        &self.entries[self.slot(set, way)]
    }

    /// The bytes of the tags of a set's ways.
    #[inline]
    pub(super) fn tag_bytes(&self, set: usize) -> &[u8] {
        let start = set * self.ways * 2;
        &self.sets[start..start + self.ways]
    }

    /// The range of the replacement policy's bytes for a set's ways.
    #[inline]
    pub(super) fn order(&self, set: usize) -> std::ops::Range<usize> {
        let start = (set * 2 + 1) * self.ways;
        start..start + self.ways
    }

    /// Records the byte of the tag of `line`, whose entry is `slot`.
    #[inline]
    pub(super) fn note_tag_byte(&mut self, slot: usize, line: LineAddress) {
        let place = self.set_of(slot) * self.ways * 2 + self.way_of(slot);
        self.sets[place] = self.tag_byte(line);
    }

    /// A byte that differs between most lines of a set.
    #[inline]
    pub(super) fn tag_byte(&self, line: LineAddress) -> u8 {
        let tag = self.banks.divide(line.0) >> self.set_bits;
        (tag ^ (tag >> 8)) as u8
    }

    #[inline]
    pub(super) fn find(&self, line: LineAddress) -> Option<usize> {
        let set = self.set(line);
        let byte = self.tag_byte(line);
        let (eights, rest) = self.tag_bytes(set).as_chunks::<8>();
        for (eight, bytes) in eights.iter().enumerate() {
            let mut alike = maybe_alike(u64::from_le_bytes(*bytes), byte);
            while alike != 0 {
                let way = eight * 8 + (alike.trailing_zeros() / 8) as usize;
                let slot = self.slot(set, way);
                if self.entries[slot].line == line.0 {
                    return Some(slot);
                }
                alike &= alike - 1;
            }
        }
        let first = eights.len() * 8;
        let found = |&(way, &other): &(usize, &u8)| {
            other == byte && self.entry(set, first + way).line == line.0
        };
        let found = rest.iter().enumerate().find(found);
        found.map(|(way, _)| self.slot(set, first + way))
    }

    /// Frees the entry at `slot`, which is in use.
    #[inline]
    pub(super) fn free_entry(&mut self, slot: usize) {
        self.entries[slot] = EMPTY;
        let set = self.set_of(slot);
        self.used[set] -= 1;
    }

    /// Records a use of the entry at `slot`.
    #[inline]
    pub(super) fn touch(&mut self, slot: usize) {
        let (order, way) = (self.order(self.set_of(slot)), self.way_of(slot));
        self.policy.touch(&mut self.sets[order], way);
    }

    /// Assigns the free entry at `slot` to `line`.
    pub(super) fn insert(&mut self, slot: usize, line: LineAddress) {
        let set = self.set_of(slot);
        self.entries[slot].line = line.0;
        if let Some(noted) = self.noted.get_mut(slot) {
            *noted = false;
        }
        self.used[set] += 1;
        self.note_tag_byte(slot, line);
        self.note_place(slot, line);
        let (order, way) = (self.order(set), self.way_of(slot));
        self.policy.insert(&mut self.sets[order], way);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// No way that may hold the line is missed.
        #[test]
        fn bytes_that_are_alike_are_found(bytes in prop::array::uniform8(0u8..4), byte in 0u8..4) {
            let alike = maybe_alike(u64::from_le_bytes(bytes), byte);
            prop_assert_eq!(alike & !(0x8080 * 0x1_0001_0001_0001), 0);
            for (place, &other) in bytes.iter().enumerate() {
                let found = alike >> (place * 8 + 7) & 1 == 1;
                prop_assert!(found || other != byte);
                // Only a byte above an equal one can be mistaken for an equal one.
                let below = bytes[..place].contains(&byte);
                prop_assert!(!found || other == byte || below);
            }
        }
    }
}
