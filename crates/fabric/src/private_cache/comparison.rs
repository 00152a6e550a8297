//! The state of a cache that determines its future behaviour, for comparing two sample points.

use super::{INVALID, PrivateCache};
use state::{State as _, Walker};

impl PrivateCache {
    /// Shows the lines present, and the state that determines the next victims. Without writes,
    /// their data has not changed.
    pub(super) fn compare(&mut self, walker: &mut dyn Walker) {
        if !self.policy.is_order_of_use() {
            // For this policy the way of each line matters.
            self.compare_order(walker);
            for (tag, state) in self.tags.iter_mut().zip(&self.states) {
                walker.number(tag);
                walker.number(&mut (*state as u64));
            }
            self.compare_misses(walker);
            return;
        }
        // Each set, most recently used line first.
        for start in (0..self.tags.len()).step_by(self.ways) {
            for place in state::by_rank(&self.order[start..start + self.ways], start) {
                if self.tags[place] != INVALID {
                    walker.number(&mut self.tags[place]);
                    walker.number(&mut (self.states[place] as u64));
                }
            }
            walker.number(&mut INVALID.clone());
        }
        self.compare_misses(walker);
    }

    /// Shows the whole state of the policy.
    fn compare_order(&mut self, walker: &mut dyn Walker) {
        self.policy.compare(walker);
        for byte in &self.order {
            walker.number(&mut u64::from(*byte));
        }
        self.recent.walk(walker);
    }

    /// The order in which requests are stored does not matter.
    fn compare_misses(&mut self, walker: &mut dyn Walker) {
        let mut misses = self.misses.clone();
        misses.sort_by_key(|miss| miss.line);
        misses.walk(walker);
    }

    /// Shows a comparing walker the number of fills and evictions, instead of the lines and their
    /// order of use. Without fills and evictions the order has determined nothing, and, unless the
    /// policy differs, it is the same after each repetition of the same uses.
    pub fn compare_version(&mut self, walker: &mut dyn Walker) {
        walker.number(&mut self.version);
        if !self.policy.settles() {
            self.compare_order(walker);
        }
        self.compare_misses(walker);
        self.evictions.walk(walker);
        self.fill.walk(walker);
    }
}
