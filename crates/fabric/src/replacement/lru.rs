//! Least recently used. The bytes are the order of use of a set's ways: 0 for the most recently
//! used, up to ways - 1. There are at most 64 ways, so the upper bit of each byte is free.

const ONES: u64 = u64::MAX / 255;
const UPPER: u64 = ONES << 7;

pub(super) fn empty(way: usize) -> u8 {
    way as u8
}

/// Makes `way` the most recently used.
#[inline]
pub(super) fn touch(ranks: &mut [u8], way: usize) {
    let rank = ranks[way];
    if rank == 0 {
        return;
    }
    // Common numbers of ways are special cases, because a loop would cost more than its body.
    if let Ok(eight) = <&mut [u8; 8]>::try_from(&mut *ranks) {
        age_eight(eight, rank);
    } else if let ([one, two], []) = ranks.as_chunks_mut::<8>() {
        age_eight(one, rank);
        age_eight(two, rank);
    } else {
        for other in ranks.iter_mut() {
            *other += u8::from(*other < rank);
        }
    }
    ranks[way] = 0;
}

/// Increments the ranks below `rank`.
#[inline(always)]
fn age_eight(ranks: &mut [u8; 8], rank: u8) {
    let bytes = u64::from_le_bytes(*ranks);
    // The upper bit of each byte that is not below `rank`: no byte borrows from the next.
    let not_below = (bytes | UPPER) - u64::from(rank) * ONES;
    let below = !not_below & UPPER;
    *ranks = (bytes + (below >> 7)).to_le_bytes();
}

/// The least recently used way among those that may be evicted; usually all may.
#[inline]
pub(super) fn victim(ranks: &[u8], may_go: impl Fn(usize) -> bool) -> Option<usize> {
    let last = last(ranks);
    if may_go(last) {
        return Some(last);
    }
    let others = (0..ranks.len()).filter(|&way| may_go(way));
    others.max_by_key(|&way| ranks[way])
}

/// The least recently used way.
#[inline]
fn last(ranks: &[u8]) -> usize {
    let rank = ranks.len() as u8 - 1;
    if let Ok(&eight) = <&[u8; 8]>::try_from(ranks) {
        // The lowest set upper bit is that of the first zero byte.
        let differences = u64::from_le_bytes(eight) ^ (u64::from(rank) * ONES);
        let alike = differences.wrapping_sub(ONES) & !differences & UPPER;
        return (alike.trailing_zeros() / 8) as usize;
    }
    let found = ranks.iter().position(|&other| other == rank);
    found.unwrap_or(0)
}
