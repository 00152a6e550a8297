//! The policy that selects which of a core's harts dispatches first in a cycle.
//!
//! The policy is ICOUNT of Tullsen et al., "Exploiting Choice: Instruction Fetch and Issue on an
//! Implementable Simultaneous Multithreading Processor", ISCA 1996: the hart with the fewest
//! dispatched and unissued instructions dispatches first, the next one gets the rest of the core's
//! width, and so on. A tie goes to the next hart, in cyclic order, after the one that dispatched
//! first the last time. (The paper also counts instructions in decode; here the front end holds no
//! instructions. Its ICOUNT.2.8 takes instructions from at most two harts a cycle, because each
//! needs a port of the instruction cache; dispatch here needs none, so every hart may get a part.)
//!
//! Another policy only changes [`ThreadPolicy`] and [`order`](ThreadPolicy::order).

use crate::spec::MAX_THREADS;

/// The policy's state between cycles.
#[derive(Debug, Default, state::State)]
pub(crate) struct ThreadPolicy {
    /// The hart that dispatched first in the last cycle that several shared.
    went_first: u8,
}

/// A hart that could dispatch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Candidate {
    pub thread: u8,
    /// The number of its dispatched instructions that have not issued.
    pub waiting: u64,
}

impl ThreadPolicy {
    /// Sorts the harts that can dispatch in this cycle, of a core with so many threads, into the
    /// order in which they do.
    pub fn order(&self, candidates: &mut [Candidate], threads: u8) {
        candidates.sort_unstable_by_key(|one| (one.waiting, self.rank(one.thread, threads)));
    }

    /// The harts in `dispatched`, a bit for each, have dispatched in a cycle in which the
    /// candidates were in this order.
    pub fn shared(&mut self, candidates: &[Candidate], dispatched: u8, threads: u8) {
        let has_dispatched = |one: &&Candidate| dispatched >> one.thread & 1 != 0;
        let Some(first) = candidates.iter().find(has_dispatched) else {
            return;
        };
        // With two harts the other one goes first next time only if both have dispatched, which is
        // how the results of Figure 11(b) of HyperPlane were made. If a queue is full and one hart
        // takes each entry that becomes free, the order then stays, and that hart may get a fifth
        // more than the other. With more harts the order always changes.
        if threads > 2 || dispatched.count_ones() > 1 {
            self.went_first = first.thread;
        }
    }

    /// The number of other harts before a hart.
    fn rank(&self, thread: u8, threads: u8) -> u8 {
        (thread + threads - self.went_first - 1) % threads
    }
}

const _: () = assert!(MAX_THREADS <= u8::BITS as usize, "a bit for each hart");

#[cfg(test)]
mod tests {
    use super::*;

    /// Candidates in order, with these numbers of waiting instructions.
    fn candidates(policy: &ThreadPolicy, waiting: &[u64]) -> Vec<Candidate> {
        let mut candidates: Vec<Candidate> = waiting
            .iter()
            .zip(0..)
            .map(|(&waiting, thread)| Candidate { thread, waiting })
            .collect();
        policy.order(&mut candidates, waiting.len() as u8);
        candidates
    }

    fn order(policy: &ThreadPolicy, waiting: &[u64]) -> Vec<u8> {
        let candidates = candidates(policy, waiting);
        candidates.iter().map(|one| one.thread).collect()
    }

    #[test]
    fn fewest_go_first_and_equals_take_turns() {
        let mut policy = ThreadPolicy::default();
        assert_eq!(order(&policy, &[5, 3, 4, 3]), [1, 3, 2, 0]);
        // Hart 0 dispatched first the last time.
        assert_eq!(order(&policy, &[2, 2, 2, 2]), [1, 2, 3, 0]);
        policy.shared(&candidates(&policy, &[2, 2, 2, 2]), 0b0110, 4);
        assert_eq!(order(&policy, &[2, 2, 2, 2]), [2, 3, 0, 1]);
        // Hart 2 could not dispatch, and hart 3 took all.
        policy.shared(&candidates(&policy, &[2, 2, 2, 2]), 0b1000, 4);
        assert_eq!(order(&policy, &[2, 2, 2, 2]), [0, 1, 2, 3]);
        // No hart dispatched.
        policy.shared(&candidates(&policy, &[2, 2, 2, 2]), 0, 4);
        assert_eq!(order(&policy, &[2, 2, 2, 2]), [0, 1, 2, 3]);
    }

    #[test]
    fn of_two_the_turn_passes_when_both_have_dispatched() {
        let mut policy = ThreadPolicy::default();
        policy.shared(&candidates(&policy, &[2, 2]), 0b10, 2);
        assert_eq!(order(&policy, &[2, 2]), [1, 0]);
        policy.shared(&candidates(&policy, &[2, 2]), 0b11, 2);
        assert_eq!(order(&policy, &[2, 2]), [0, 1]);
    }
}
