//! The ready set: the queues that have work, and the selection of the next one (§III-B, §IV-B).

use crate::Qid;
use crate::policy::{Policy, Priority};
use std::collections::VecDeque;

/// The maximum number of partitions of a ready set: the maximum number of cores of a server.
pub const PARTITIONS: usize = 32;

/// The ready set, with a bit each for every QID.
///
/// A server of two sockets may have two of them. A queue is in one of the two, whose partitions
/// have the numbers from [`PARTITIONS`] times that of the ready set on.
///
/// It can be divided into *partitions*, each with the queues of some cores and a current priority
/// of its own ("we assume the ready set is partitioned", §V-C). All queues are in partition 0
/// until they are put elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, state::State)]
pub struct ReadySet {
    queues: usize,
    /// The ready bits.
    ready: Vec<u64>,
    weights: Vec<u32>,
    policy: Policy,
    /// The partition of each QID.
    partition_of: Vec<u8>,
    #[state(slice)]
    partitions: Vec<Partition>,
}

/// The inputs of an arbiter, and its current priority.
#[derive(Clone, Debug, PartialEq, Eq, state::State)]
struct Partition {
    /// The mask bits: a one lets the queue's ready bit through to the arbiter. Only queues of this
    /// partition have one.
    mask: Vec<u64>,
    priority: Priority,
    /// The queues whose ready bits are set, the longest first; kept for
    /// [`Policy::ActivationOrder`] alone.
    order: VecDeque<Qid>,
}

impl ReadySet {
    /// A ready set for QIDs below `queues`: none ready, all enabled, all of weight 1.
    pub fn new(queues: usize, policy: Policy) -> ReadySet {
        ReadySet::several(queues, policy, 1)
    }

    /// Several ready sets for QIDs below `queues`; all queues are initially in the first.
    pub(crate) fn several(queues: usize, policy: Policy, sets: usize) -> ReadySet {
        let words = queues.div_ceil(64);
        let partition = |mask| Partition {
            mask: vec![mask; words],
            priority: Priority::default(),
            order: VecDeque::new(),
        };
        let mut partitions = vec![partition(0); sets * PARTITIONS];
        partitions[0] = partition(u64::MAX);
        ReadySet {
            queues,
            ready: vec![0; words],
            weights: vec![1; queues],
            policy,
            partition_of: vec![0; queues],
            partitions,
        }
    }

    /// In which order queues are selected.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The partition that `qid` is in.
    pub fn partition(&self, qid: Qid) -> usize {
        self.partition_of
            .get(qid.0 as usize)
            .map_or(0, |&partition| usize::from(partition))
    }

    /// Puts `qid` into another partition, which is below [`PARTITIONS`], or of another ready set.
    pub fn set_partition(&mut self, qid: Qid, partition: usize) {
        debug_assert!(partition < self.partitions.len());
        let Some((word, bit)) = self.place(qid) else {
            return;
        };
        let is_ready = self.is_ready(qid);
        self.deactivate(qid);
        let old = &mut self.partitions[self.partition_of[qid.0 as usize] as usize];
        let enabled = old.mask[word] & bit;
        old.mask[word] &= !bit;
        self.partitions[partition].mask[word] |= enabled;
        self.partition_of[qid.0 as usize] = partition as u8;
        if is_ready {
            self.activate(qid);
        }
    }

    /// Whether `qid` is one of the set's queues. All methods ignore one that is not.
    pub fn contains(&self, qid: Qid) -> bool {
        (qid.0 as usize) < self.queues
    }

    /// Sets the ready bit of `qid`.
    pub fn activate(&mut self, qid: Qid) {
        if let Some((word, bit)) = self.place(qid) {
            if self.policy == Policy::ActivationOrder && self.ready[word] & bit == 0 {
                let partition = self.partition(qid);
                self.partitions[partition].order.push_back(qid);
            }
            self.ready[word] |= bit;
        }
    }

    /// Lets `qid` be selected (`QWAIT-ENABLE`).
    pub fn enable(&mut self, qid: Qid) {
        if let Some((word, bit)) = self.place(qid) {
            let partition = self.partition(qid);
            self.partitions[partition].mask[word] |= bit;
        }
    }

    /// Keeps `qid` from being selected, ready or not (`QWAIT-DISABLE`).
    pub fn disable(&mut self, qid: Qid) {
        if let Some((word, bit)) = self.place(qid) {
            let partition = self.partition(qid);
            self.partitions[partition].mask[word] &= !bit;
        }
    }

    /// Sets for how many consecutive rounds `qid` is served under weighted round-robin; it counts
    /// from when the queue next gets the priority. 0 counts as 1.
    pub fn set_weight(&mut self, qid: Qid, weight: u32) {
        if let Some(place) = self.weights.get_mut(qid.0 as usize) {
            *place = weight;
        }
    }

    /// Resets `qid` to its initial state: not ready, enabled, of weight 1, in partition 0.
    pub fn reset(&mut self, qid: Qid) {
        self.deactivate(qid);
        self.set_partition(qid, 0);
        self.enable(qid);
        self.set_weight(qid, 1);
    }

    /// Selects the queue of a partition to be served next, clears its ready bit and moves the
    /// priority on.
    pub fn select(&mut self, partition: usize) -> Option<Qid> {
        let Partition {
            mask,
            priority,
            order,
        } = self.partitions.get_mut(partition)?;
        let selected = match self.policy {
            Policy::ActivationOrder => *order
                .iter()
                .find(|qid| mask[qid.0 as usize / 64] >> (qid.0 % 64) & 1 == 1)?,
            _ => arbitrate(&self.ready, mask, priority.current)?,
        };
        priority.after_selection(self.policy, selected, &self.weights, self.queues);
        self.deactivate(selected);
        Some(selected)
    }

    /// Whether the ready bit of `qid` is set.
    pub fn is_ready(&self, qid: Qid) -> bool {
        self.place(qid)
            .is_some_and(|(word, bit)| self.ready[word] & bit != 0)
    }

    /// The number of queues that are ready but disabled.
    pub fn ready_but_disabled(&self) -> usize {
        let enabled = |word| {
            self.partitions
                .iter()
                .fold(0, |all, one| all | one.mask[word])
        };
        let words = self.ready.iter().enumerate();
        words
            .map(|(word, ready)| (ready & !enabled(word)).count_ones() as usize)
            .sum()
    }

    fn deactivate(&mut self, qid: Qid) {
        if let Some((word, bit)) = self.place(qid) {
            self.ready[word] &= !bit;
            let partition = self.partition(qid);
            let order = &mut self.partitions[partition].order;
            if let Some(place) = order.iter().position(|&one| one == qid) {
                order.remove(place);
            }
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

        /// Whatever other queues do, a queue that stays ready waits for at most one turn of every
        /// other queue.
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
                if set.select(0) == Some(watched) {
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
                        prop_assert_eq!(set.select(0), Some(qid));
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
                    prop_assert_eq!(set.select(0), ready.pop_first());
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
        assert_eq!(set.select(0), Some(Qid(1)));
        // Another core selects before queue 1 is reconsidered.
        assert_eq!(set.select(0), Some(Qid(2)));
        set.activate(Qid(1));
        set.activate(Qid(2));
        // Queue 1 has its full weight again when its turn comes.
        assert_eq!(set.select(0), Some(Qid(1)));
        set.activate(Qid(1));
        assert_eq!(set.select(0), Some(Qid(1)));
        set.activate(Qid(1));
        assert_eq!(set.select(0), Some(Qid(1)));
        set.activate(Qid(1));
        assert_eq!(set.select(0), Some(Qid(2)));
    }

    #[test]
    fn disabled_queues_wait_until_enabled() {
        let mut set = ReadySet::new(100, Policy::RoundRobin);
        set.activate(Qid(70));
        set.disable(Qid(70));
        assert_eq!(set.select(0), None);
        assert_eq!(set.ready_but_disabled(), 1);
        set.enable(Qid(70));
        assert_eq!(set.select(0), Some(Qid(70)));
        assert_eq!(set.select(0), None);
    }

    #[test]
    fn partitions_have_queues_and_priorities_of_their_own() {
        let mut set = ReadySet::new(100, Policy::RoundRobin);
        for qid in 50..100 {
            set.set_partition(Qid(qid), 1);
        }
        for qid in [3, 7, 60, 80] {
            set.activate(Qid(qid));
        }
        assert_eq!(set.select(1), Some(Qid(60)));
        assert_eq!(set.select(0), Some(Qid(3)));
        set.activate(Qid(60));
        set.activate(Qid(3));
        // Each goes on from where it was.
        assert_eq!(set.select(1), Some(Qid(80)));
        assert_eq!(set.select(0), Some(Qid(7)));
        assert_eq!(set.select(1), Some(Qid(60)));
        assert_eq!(set.select(1), None);
        // What is ready or disabled stays so when it moves.
        set.disable(Qid(3));
        set.set_partition(Qid(3), 2);
        assert_eq!((set.select(0), set.select(2)), (None, None));
        assert_eq!(set.ready_but_disabled(), 1);
        set.enable(Qid(3));
        assert_eq!(set.select(2), Some(Qid(3)));
        set.reset(Qid(3));
        assert_eq!(set.partition(Qid(3)), 0);
    }

    #[test]
    fn activation_order_is_first_in_first_out() {
        let mut set = ReadySet::new(100, Policy::ActivationOrder);
        for qid in [70, 3, 70, 99, 5] {
            set.activate(Qid(qid));
        }
        set.disable(Qid(3));
        assert_eq!(set.select(0), Some(Qid(70)));
        assert_eq!(set.select(0), Some(Qid(99)));
        set.enable(Qid(3));
        set.activate(Qid(70));
        assert_eq!(set.select(0), Some(Qid(3)));
        assert_eq!(set.select(0), Some(Qid(5)));
        assert_eq!(set.select(0), Some(Qid(70)));
        assert_eq!(set.select(0), None);
    }

    #[test]
    fn qids_out_of_range_are_ignored() {
        let mut set = ReadySet::new(100, Policy::RoundRobin);
        for qid in [Qid(100), Qid(127), Qid(128), Qid(u32::MAX)] {
            set.activate(qid);
            set.disable(qid);
            set.set_weight(qid, 7);
            set.set_partition(qid, 3);
            assert!(!set.is_ready(qid));
        }
        assert_eq!(set, ReadySet::new(100, Policy::RoundRobin));
    }
}
