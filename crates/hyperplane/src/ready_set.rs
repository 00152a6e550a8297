//! The ready set: which queues have work, and which of them is served next (§III-B, §IV-B).

use crate::Qid;
use crate::policy::{Policy, Priority};

/// The ready set, with a bit each for every QID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadySet {
    queues: usize,
    /// The ready bits.
    ready: Vec<u64>,
    /// The mask bits: a one lets the queue's ready bit through to the arbiter.
    mask: Vec<u64>,
    weights: Vec<u32>,
    policy: Policy,
    priority: Priority,
}

state::component!(ReadySet {
    queues,
    ready,
    mask,
    weights,
    policy,
    priority
});

impl ReadySet {
    /// A ready set for QIDs below `queues`: none ready, all enabled, all of weight 1.
    pub fn new(queues: usize, policy: Policy) -> ReadySet {
        let words = queues.div_ceil(64);
        ReadySet {
            queues,
            ready: vec![0; words],
            mask: vec![u64::MAX; words],
            weights: vec![1; queues],
            policy,
            priority: Priority::default(),
        }
    }

    /// Whether `qid` is one of the set's queues. All methods ignore one that is not.
    pub fn contains(&self, qid: Qid) -> bool {
        (qid.0 as usize) < self.queues
    }

    /// Sets the ready bit of `qid`.
    pub fn activate(&mut self, qid: Qid) {
        if let Some((word, bit)) = self.place(qid) {
            self.ready[word] |= bit;
        }
    }

    /// Lets `qid` be selected (`QWAIT-ENABLE`).
    pub fn enable(&mut self, qid: Qid) {
        if let Some((word, bit)) = self.place(qid) {
            self.mask[word] |= bit;
        }
    }

    /// Keeps `qid` from being selected, ready or not (`QWAIT-DISABLE`).
    pub fn disable(&mut self, qid: Qid) {
        if let Some((word, bit)) = self.place(qid) {
            self.mask[word] &= !bit;
        }
    }

    /// Sets for how many consecutive rounds `qid` is served under weighted round-robin; it counts
    /// from when the queue next gets the priority. 0 counts as 1.
    pub fn set_weight(&mut self, qid: Qid, weight: u32) {
        if let Some(place) = self.weights.get_mut(qid.0 as usize) {
            *place = weight;
        }
    }

    /// Makes `qid` as it was at first: not ready, enabled, of weight 1.
    pub fn reset(&mut self, qid: Qid) {
        self.deactivate(qid);
        self.enable(qid);
        self.set_weight(qid, 1);
    }

    /// Selects the queue to be served next, clears its ready bit and moves the priority on.
    pub fn select(&mut self) -> Option<Qid> {
        let selected = arbitrate(&self.ready, &self.mask, self.priority.current)?;
        self.deactivate(selected);
        self.priority
            .after_selection(self.policy, selected, &self.weights, self.queues);
        Some(selected)
    }

    /// Whether the ready bit of `qid` is set.
    pub fn is_ready(&self, qid: Qid) -> bool {
        self.place(qid)
            .is_some_and(|(word, bit)| self.ready[word] & bit != 0)
    }

    /// The number of queues that are ready but disabled.
    pub fn ready_but_disabled(&self) -> usize {
        let words = self.ready.iter().zip(&self.mask);
        words
            .map(|(ready, mask)| (ready & !mask).count_ones() as usize)
            .sum()
    }

    fn deactivate(&mut self, qid: Qid) {
        if let Some((word, bit)) = self.place(qid) {
            self.ready[word] &= !bit;
        }
    }

    /// The word of `qid`, and its bit there.
    fn place(&self, qid: Qid) -> Option<(usize, u64)> {
        self.contains(qid)
            .then(|| (qid.0 as usize / 64, 1 << (qid.0 % 64)))
    }
}

/// The programmable priority arbiter: the first QID that is ready and not masked out, from
/// `current` on and wrapping around.
///
/// As in thermometer coding, the requests are split at the current priority: those at or above it
/// win over those below it, and in each part the lowest wins. This is what the paper's
/// parallel-prefix network computes, 64 bits at a time.
fn arbitrate(ready: &[u64], mask: &[u64], current: Qid) -> Option<Qid> {
    let requests = |word: usize| ready[word] & mask[word];
    let first = |word: usize, requests: u64| {
        (requests != 0).then(|| Qid(word as u32 * 64 + requests.trailing_zeros()))
    };
    let split = current.0 as usize / 64;
    let at_or_above = u64::MAX << (current.0 % 64);
    first(split, requests(split) & at_or_above)
        .or_else(|| (split + 1..ready.len()).find_map(|word| first(word, requests(word))))
        .or_else(|| (0..split).find_map(|word| first(word, requests(word))))
        .or_else(|| first(split, requests(split) & !at_or_above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The ripple-priority arbiter of Fig. 7, a bit slice at a time.
    fn ripple(ready: &[u64], mask: &[u64], current: Qid, queues: u32) -> Option<Qid> {
        let mut priority_in = false;
        // Twice around: the wrap-around connection.
        for slice in (0..queues).chain(0..queues) {
            let (word, bit) = (slice as usize / 64, slice % 64);
            let ready = (ready[word] & mask[word]) >> bit & 1 == 1;
            let priority = priority_in || slice == current.0;
            if priority && ready {
                return Some(Qid(slice));
            }
            priority_in = priority;
        }
        None
    }

    proptest! {
        #[test]
        fn arbiter_agrees_with_the_ripple(
            words in 1..17_usize,
            bits in prop::collection::vec(any::<[u64; 3]>(), 17),
            sparse in any::<bool>(),
            current in any::<prop::sample::Index>(),
        ) {
            let ready: Vec<u64> = bits[..words]
                .iter()
                .map(|[a, b, _]| if sparse { a & b & a.rotate_left(9) & b.rotate_left(5) } else { *a })
                .collect();
            let mask: Vec<u64> = bits[..words]
                .iter()
                .map(|[a, _, c]| if sparse { c & a.rotate_left(20) } else { *c })
                .collect();
            let queues = words as u32 * 64;
            let current = Qid(current.index(queues as usize) as u32);
            prop_assert_eq!(arbitrate(&ready, &mask, current), ripple(&ready, &mask, current, queues));
        }

        /// Whoever else comes and goes, a queue that stays ready waits for no more than one turn
        /// of every other queue.
        #[test]
        fn round_robin_serves_a_ready_queue_once_a_round(
            queues in 1..200_u32,
            watched in any::<prop::sample::Index>(),
            others in prop::collection::vec(any::<u32>(), 1000),
        ) {
            let watched = Qid(watched.index(queues as usize) as u32);
            let mut set = ReadySet::new(queues as usize, Policy::RoundRobin);
            let mut since = 0;
            for other in others {
                set.activate(watched);
                set.activate(Qid(other % queues));
                if set.select() == Some(watched) {
                    since = 0;
                } else {
                    since += 1;
                }
                prop_assert!(since < queues);
            }
        }

        /// Continuously ready queues get service in the ratio of their weights, each in one run.
        #[test]
        fn weighted_round_robin_shares_by_weight(
            weights in prop::collection::vec(1..9_u32, 1..150),
        ) {
            let mut set = ReadySet::new(weights.len(), Policy::WeightedRoundRobin);
            let qids = || (0..weights.len() as u32).map(Qid);
            qids().for_each(|qid| set.set_weight(qid, weights[qid.0 as usize]));
            qids().for_each(|qid| set.activate(qid));
            for _round in 0..3 {
                for qid in qids() {
                    for _ in 0..weights[qid.0 as usize] {
                        prop_assert_eq!(set.select(), Some(qid));
                        set.activate(qid);
                    }
                }
            }
        }

        #[test]
        fn strict_priority_serves_the_lowest(
            steps in prop::collection::vec((any::<bool>(), 0..130_u32), 1..300),
        ) {
            let mut set = ReadySet::new(130, Policy::StrictPriority);
            let mut ready = std::collections::BTreeSet::new();
            for (activate, qid) in steps {
                if activate {
                    set.activate(Qid(qid));
                    ready.insert(Qid(qid));
                } else {
                    prop_assert_eq!(set.select(), ready.pop_first());
                }
            }
        }
    }

    #[test]
    fn weight_left_over_is_lost_when_the_queue_is_not_ready() {
        let mut set = ReadySet::new(4, Policy::WeightedRoundRobin);
        set.set_weight(Qid(1), 3);
        set.activate(Qid(1));
        set.activate(Qid(2));
        assert_eq!(set.select(), Some(Qid(1)));
        // Another core selects before queue 1 is reconsidered.
        assert_eq!(set.select(), Some(Qid(2)));
        set.activate(Qid(1));
        set.activate(Qid(2));
        // Queue 1 has its full weight again when its turn comes.
        assert_eq!(set.select(), Some(Qid(1)));
        set.activate(Qid(1));
        assert_eq!(set.select(), Some(Qid(1)));
        set.activate(Qid(1));
        assert_eq!(set.select(), Some(Qid(1)));
        set.activate(Qid(1));
        assert_eq!(set.select(), Some(Qid(2)));
    }

    #[test]
    fn disabled_queues_wait_until_enabled() {
        let mut set = ReadySet::new(100, Policy::RoundRobin);
        set.activate(Qid(70));
        set.disable(Qid(70));
        assert_eq!(set.select(), None);
        assert_eq!(set.ready_but_disabled(), 1);
        set.enable(Qid(70));
        assert_eq!(set.select(), Some(Qid(70)));
        assert_eq!(set.select(), None);
    }

    #[test]
    fn qids_out_of_range_are_ignored() {
        let mut set = ReadySet::new(100, Policy::RoundRobin);
        for qid in [Qid(100), Qid(127), Qid(128), Qid(u32::MAX)] {
            set.activate(qid);
            set.disable(qid);
            set.set_weight(qid, 7);
            assert!(!set.is_ready(qid));
        }
        assert_eq!(set, ReadySet::new(100, Policy::RoundRobin));
    }
}
