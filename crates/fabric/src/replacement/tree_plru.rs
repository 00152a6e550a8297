//! Pseudo-LRU: a binary tree of bits over the ways. Each bit points to the half of its ways that
//! was not used last.
//!
//! A node splits the ways from `low` up to `high` before way `middle`, and its bit is the byte of
//! that way: each way but the first begins the upper half of one node. So any number of ways has a
//! tree; if it is not a power of two, the lower half is the larger one where they differ.

/// A bit that points to the lower half. No byte is 0: a byte does not tell whether its way was used
/// last.
const LOWER: u8 = 1;
/// A bit that points to the upper half.
const UPPER: u8 = 2;

pub(super) fn empty(_way: usize) -> u8 {
    LOWER
}

pub(super) fn touch(set: &mut [u8], way: usize) {
    let (mut low, mut high) = (0, set.len());
    while high - low > 1 {
        let middle = usize::midpoint(low, high + 1);
        if way < middle {
            set[middle] = UPPER;
            high = middle;
        } else {
            set[middle] = LOWER;
            low = middle;
        }
    }
}

/// The way that the bits point to. Halves without an evictable way are skipped.
pub(super) fn victim(set: &[u8], may_go: impl Fn(usize) -> bool) -> Option<usize> {
    let mut ways = 0..set.len();
    if !ways.clone().any(&may_go) {
        return None;
    }
    while ways.len() > 1 {
        let middle = usize::midpoint(ways.start, ways.end + 1);
        let halves = [ways.start..middle, middle..ways.end];
        let to = usize::from(set[middle] == UPPER);
        let half = [to, 1 - to].map(|half| halves[half].clone());
        ways = half.into_iter().find(|half| half.clone().any(&may_go))?;
    }
    Some(ways.start)
}
