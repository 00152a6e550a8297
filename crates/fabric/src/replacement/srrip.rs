//! Static re-reference interval prediction, with hit priority (SRRIP-HP): each line has a
//! prediction of the time until its next use. A new line has a late prediction, and a line that has
//! been used again an immediate one; the victim is the first line with the latest prediction.
//! Before the eviction, the predictions of the set are increased by the victim's distance from the
//! maximum.

/// One more than the largest prediction of two bits. No byte is 0, because another use also changes
/// which line was used last.
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
