//! Join-bounded-shortest-queue (Kogias et al., R2P2, USENIX ATC 2019; nanoPU, Section 3.3).

use super::Cores;

/// The queue to take from, of which there is one, and the core: the one with the fewest messages,
/// if they are fewer than `most`.
pub fn next(cores: &Cores, most: u32) -> Option<(usize, usize)> {
    Some((0, cores.least_loaded(most)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_queue_is_joined_and_none_is_longer_than_its_bound() {
        let cores = |bound: &[bool], outstanding: &[u32]| Cores {
            bound: bound.to_vec(),
            outstanding: outstanding.to_vec(),
        };
        let all = [true; 4];
        // "It will immediately forward the message to the core with the smallest message count."
        assert_eq!(next(&cores(&all, &[1, 1, 0, 1]), 2), Some((0, 2)));
        assert_eq!(next(&cores(&all, &[1, 1, 1, 1]), 2), Some((0, 0)));
        // "If all target cores are holding two or more messages", it waits.
        assert_eq!(next(&cores(&all, &[2, 2, 2, 2]), 2), None);
        // A core without a thread of the application is no target.
        assert_eq!(
            next(&cores(&[false, true, true, false], &[0, 2, 1, 0]), 2),
            Some((0, 2))
        );
        // JBSQ(1) sends a core nothing that has a message.
        assert_eq!(next(&cores(&all, &[1, 1, 1, 0]), 1), Some((0, 3)));
    }
}
