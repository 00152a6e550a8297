//! Static re-reference interval prediction, with hit priority (SRRIP-HP): each line has a
//! prediction of how long it takes until it is used again. A line that comes is expected late, and
//! one that has been used again at once; the victim is the first that is expected last. Before it
//! goes, all of its set are moved on by as much as it lacked to the last value.

/// One more than the largest prediction of two bits. No byte is 0: to be used again changes more
/// than the byte, namely which line was used last.
const LAST: u8 = 4;
const LATE: u8 = 3;
const AT_ONCE: u8 = 1;

pub(super) fn empty(_way: usize) -> u8 {
    LAST
}

pub(super) fn touch(set: &mut [u8], way: usize) {
    set[way] = AT_ONCE;
}

pub(super) fn insert(set: &mut [u8], way: usize) {
    set[way] = LATE;
}

pub(super) fn victim(set: &[u8], may_go: impl Fn(usize) -> bool) -> Option<usize> {
    let ways = (0..set.len()).filter(|&way| may_go(way));
    ways.min_by_key(|&way| LAST - set[way])
}

pub(super) fn evict(set: &mut [u8], way: usize) {
    let lacks = LAST - set[way];
    for prediction in set {
        *prediction = LAST.min(*prediction + lacks);
    }
}
