//! The policy that selects which of a core's harts dispatches first in a cycle.
//!
//! Today's policy is ICOUNT of Tullsen et al., "Exploiting Choice: Instruction Fetch and Issue on
//! an Implementable Simultaneous Multithreading Processor", ISCA 1996: the hart with the fewest
//! dispatched and unissued instructions dispatches first, the next one gets what it leaves of the
//! core's width, and so on. A tie goes to the hart that comes soonest, in cyclic order, after the
//! one that went first the last time. (The paper also counts instructions in decode. No hart has
//! any here: the front end holds no instructions yet. Its ICOUNT.2.8 takes instructions from at
//! most two harts a cycle, because each needs a port of the instruction cache; dispatch here needs
//! none, so every hart may get a part.)
//!
//! Another policy changes [`ThreadPolicy`] and [`order`](ThreadPolicy::order), and nothing else.

use crate::spec::MAX_THREADS;

/// State of the policy from one cycle to the next.
#[derive(Debug, Default, state::State)]
pub(crate) struct ThreadPolicy {
    /// Which hart went first in the last cycle that several shared.
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
    /// Puts the harts that can dispatch in this cycle, of a core with so many, into the order in
    /// which they do.
    pub fn order(&self, candidates: &mut [Candidate], threads: u8) {
        candidates.sort_unstable_by_key(|one| (one.waiting, self.rank(one.thread, threads)));
    }

    /// The harts in `dispatched`, a bit for each, have dispatched in a cycle in which the
    /// candidates could in this order.
    pub fn shared(&mut self, candidates: &[Candidate], dispatched: u8, threads: u8) {
        let has_dispatched = |one: &&Candidate| dispatched >> one.thread & 1 != 0;
        let Some(first) = candidates.iter().find(has_dispatched) else {
            return;
        };
        // Of two harts the other one goes first next time if both have dispatched, which is how the
        // results of Figure 11(b) of HyperPlane were made. Where a queue is full and one takes each
        // entry that becomes free, the order stays then, and it may get a fifth more than
        // the other. Of more harts the order changes.
        if threads > 2 || dispatched.count_ones() > 1 {
            self.went_first = first.thread;
        }
    }

    /// How many others go before a hart.
    fn rank(&self, thread: u8, threads: u8) -> u8 {
        (thread + threads - self.went_first - 1) % threads
    }
}

const _: () = assert!(MAX_THREADS <= u8::BITS as usize, "a bit for each hart");

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of harts of which so many instructions wait.
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
        // 0 went first the last time.
        assert_eq!(order(&policy, &[2, 2, 2, 2]), [1, 2, 3, 0]);
        policy.shared(&candidates(&policy, &[2, 2, 2, 2]), 0b0110, 4);
        assert_eq!(order(&policy, &[2, 2, 2, 2]), [2, 3, 0, 1]);
        // 2 could not dispatch, and 3 took all.
        policy.shared(&candidates(&policy, &[2, 2, 2, 2]), 0b1000, 4);
        assert_eq!(order(&policy, &[2, 2, 2, 2]), [0, 1, 2, 3]);
        // Nobody did.
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
