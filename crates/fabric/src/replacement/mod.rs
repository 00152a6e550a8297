//! Replacement: the choice of the line of a set to evict. Each policy has its own file.
//!
//! A policy keeps one byte for each way of a set. The cache stores these bytes beside its tags, and
//! notifies the policy of the events of a way: a line is [inserted](Policy::insert), it is
//! [used](Policy::touch), or it has been [chosen](Policy::victim) and is [evicted](Policy::evict).
//! Invalidations by the coherence protocol are not reported.
//!
//! A new policy is a file with these four functions, a variant of [`Replacement`], and an arm in
//! each `match` below.

mod lru;
mod random;
mod srrip;
mod tree_plru;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::Walker;

/// Which line of a set makes room for another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The least recently used one, if no way is free.
    #[default]
    Lru,
    /// That of any way, free or not, as in Rocket: a linear-feedback shift register of 16 bits says
    /// which, and moves on with each line that comes (`RandomReplacement` in `Replacement.scala`).
    Random,
    /// The one that a tree of bits points to, if no way is free. Each bit points away from the half
    /// that was used last.
    TreePlru,
    /// One that is expected to be used again in the most distant future, if no way is free: static
    /// re-reference interval prediction with two bits and hit priority (Jaleel et al., "High
    /// Performance Cache Replacement Using Re-Reference Interval Prediction (RRIP)", ISCA 2010).
    Srrip,
}

#[cfg(test)]
impl Replacement {
    pub(crate) const ALL: [Replacement; 4] = [
        Replacement::Lru,
        Replacement::Random,
        Replacement::TreePlru,
        Replacement::Srrip,
    ];
}

/// The policy of one cache, with its state for the cache as a whole.
#[derive(Clone, Debug, state::State)]
pub(crate) struct Policy {
    #[state(fixed)]
    replacement: Replacement,
    /// The register of [`Replacement::Random`].
    register: random::Register,
}

impl Policy {
    pub(crate) fn new(replacement: Replacement) -> Policy {
        Policy {
            replacement,
            register: random::Register::default(),
        }
    }

    /// The bytes of an empty set.
    pub(crate) fn empty_set(&self, ways: usize) -> Vec<u8> {
        let first = match self.replacement {
            Replacement::Lru | Replacement::Random => lru::empty,
            Replacement::TreePlru => tree_plru::empty,
            Replacement::Srrip => srrip::empty,
        };
        (0..ways).map(first).collect()
    }

    /// Shows the state for the cache as a whole to a comparing walker.
    pub(crate) fn compare(&self, walker: &mut dyn Walker) {
        walker.number(&mut u64::from(self.register.bits()));
    }

    /// Whether the bytes of a set are the order of use of its ways, and nothing else determines the
    /// victim. Then the way of a line does not matter.
    #[inline]
    pub(crate) fn is_order_of_use(&self) -> bool {
        self.replacement == Replacement::Lru
    }

    /// Whether the bytes of a set are the same after each repetition of the same uses, if no line
    /// arrives meanwhile.
    pub(crate) fn settles(&self) -> bool {
        match self.replacement {
            // A byte depends only on the last uses.
            Replacement::Lru | Replacement::Random | Replacement::TreePlru => true,
            // A line used first and last in each iteration counts as used again only in the second
            // one.
            Replacement::Srrip => false,
        }
    }

    /// Records a use of the line of `way`. A byte of 0 stays 0, so a caller that has seen it need
    /// not call this.
    #[inline]
    pub(crate) fn touch(&self, set: &mut [u8], way: usize) {
        match self.replacement {
            // The random policy ignores the order of use, but the cache reads the last-used line
            // from it.
            Replacement::Lru | Replacement::Random => lru::touch(set, way),
            Replacement::TreePlru => tree_plru::touch(set, way),
            Replacement::Srrip => srrip::touch(set, way),
        }
    }

    /// Records the arrival of a line in `way`.
    #[inline]
    pub(crate) fn insert(&mut self, set: &mut [u8], way: usize) {
        match self.replacement {
            Replacement::Lru => lru::touch(set, way),
            Replacement::Random => {
                self.register.step();
                lru::touch(set, way);
            }
            Replacement::TreePlru => tree_plru::touch(set, way),
            Replacement::Srrip => srrip::insert(set, way),
        }
    }

    /// The way that a new line would take: a `free` one, or the victim among those that `may_go`.
    /// This changes no state.
    #[inline]
    pub(crate) fn victim(
        &self,
        set: &[u8],
        free: impl FnOnce() -> Option<usize>,
        may_go: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        match self.replacement {
            Replacement::Lru => free().or_else(|| lru::victim(set, may_go)),
            Replacement::Random => self.register.victim(set.len(), may_go),
            Replacement::TreePlru => free().or_else(|| tree_plru::victim(set, may_go)),
            Replacement::Srrip => free().or_else(|| srrip::victim(set, may_go)),
        }
    }

    /// Evicts the line of `way`, which was the victim.
    #[inline]
    pub(crate) fn evict(&self, set: &mut [u8], way: usize) {
        if self.replacement == Replacement::Srrip {
            srrip::evict(set, way);
        }
    }
}

#[cfg(test)]
mod tests;
