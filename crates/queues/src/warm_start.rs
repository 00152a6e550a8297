//! The end of a warm start.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long a warm start lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WarmStartLength {
    // `Settling` says when that is.
    /// Until hardly anything is used for the first time.
    #[default]
    Auto,
    /// Until so many requests have been delivered.
    #[serde(untagged)]
    Requests(#[schemars(range(min = 1, max = 1_000_000_000))] u64),
}

/// What a warm start of [`WarmStartLength::Auto`] waits for.
///
/// First for queues: all but 1/50 of those with traffic have had a request, or, if their rings
/// begin unused, all but 1/50 of the slots. Queues that the traffic or the policy of service hardly
/// ever reaches are not waited for: it is also over when requests that come to queues at random
/// would long have come to the others.
///
/// Then for the cores' data caches: since the last look at them, when requests were at most four
/// fifths of what they are now, the lines that they hold have not become more by over 1/50.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settling {
    queues: u64,
    uses: u64,
}

impl Settling {
    /// Its reciprocal is the fraction that may still be unused, or may have been added since the
    /// last check.
    const PART: u64 = 50;
    /// The maximum mean number of requests of a queue beyond the slots of its ring. With 23 for a
    /// ring of 16 slots the number of its requests, of Poisson's distribution, leaves 1/300 of the
    /// slots unused, and with 8 for one use of a queue 1/3000 of the queues.
    const MORE_ROUNDS: u64 = 7;

    /// The rule for `queues` queues with traffic, and for `uses` requests of each.
    pub fn new(queues: u64, uses: u64) -> Settling {
        Settling {
            queues: queues.max(1),
            uses: uses.max(1),
        }
    }

    /// Number of requests of each queue that are awaited.
    pub(crate) fn uses(&self) -> u64 {
        self.uses
    }

    /// Maximum number of requests for which the queues are awaited.
    pub(crate) fn most(&self) -> u64 {
        self.queues.saturating_mul(self.uses + Self::MORE_ROUNDS)
    }

    /// The unused part, in parts of 1/50, when `first_uses` requests have been among the first
    /// [`uses`](Settling::uses) of their queue.
    fn unused_parts(&self, first_uses: u64) -> u64 {
        let all = self.queues.saturating_mul(self.uses);
        let unused = all.saturating_sub(first_uses);
        unused.saturating_mul(Self::PART).div_ceil(all)
    }

    /// Whether the caches must be checked for the first time: half of the uses have occurred.
    pub(crate) fn is_half_over(&self, delivered: u64, first_uses: u64) -> bool {
        self.unused_parts(first_uses) <= Self::PART / 2 || delivered >= self.most() / 2
    }

    /// Whether enough queues have been used.
    pub(crate) fn has_used_queues(&self, delivered: u64, first_uses: u64) -> bool {
        self.unused_parts(first_uses) <= 1 || delivered >= self.most()
    }

    /// Whether caches with `before` lines at the last check, and `now` lines now, have almost
    /// stopped filling.
    pub(crate) fn have_filled(before: u64, now: u64) -> bool {
        now.saturating_sub(before).saturating_mul(Self::PART) <= now
    }

    /// The number of requests at the next check.
    pub(crate) fn next_look(delivered: u64) -> u64 {
        delivered + delivered / 4 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of requests at which the caches are first checked, and at which all queues are
    /// used, if requests go to the queues in turn.
    fn in_turn(queues: u64, uses: u64) -> (u64, u64) {
        let settling = Settling::new(queues, uses);
        let first = |requests: u64| requests.min(queues * uses);
        let half = (0..).find(|&requests| settling.is_half_over(requests, first(requests)));
        let all = (0..).find(|&requests| settling.has_used_queues(requests, first(requests)));
        (half.unwrap(), all.unwrap())
    }

    #[test]
    fn it_waits_for_queues_and_slots() {
        assert_eq!(in_turn(1000, 1), (500, 980));
        assert_eq!(in_turn(1000, 16), (8000, 15_680));
        assert_eq!(in_turn(1, 1), (1, 1));
        assert_eq!(Settling::new(0, 0), Settling::new(1, 1));
    }

    #[test]
    fn queues_that_are_never_served_are_not_waited_for() {
        let settling = Settling::new(1000, 1);
        assert!(!settling.has_used_queues(7999, 500) && settling.has_used_queues(8000, 500));
    }

    #[test]
    fn caches_that_fill_are_waited_for() {
        let looks = std::iter::successors(Some(100), |&at| Some(Settling::next_look(at)));
        let looks: Vec<u64> = looks.take(20).collect();
        // A cache of 1000 lines that gains one with each request.
        let is_settled =
            |pair: &&[u64]| Settling::have_filled(pair[0].min(1000), pair[1].min(1000));
        let settled = looks.windows(2).find(is_settled).unwrap();
        assert!((1000..1600).contains(&settled[1]), "{settled:?}");
        assert!(Settling::have_filled(0, 0) && !Settling::have_filled(0, 1));
        // Each look is after the last one.
        assert_eq!([0, 3, 4].map(Settling::next_look), [1, 4, 6]);
    }
}
