//! What of a cache decides on what it does next: to compare two sample points.

use super::{INVALID, PrivateCache};
use state::{State as _, Walker};

impl PrivateCache {
    /// The lines that are here, and what decides on which of them makes room. Where nothing has
    /// been written, they have the data that they had.
    pub(super) fn compare(&mut self, walker: &mut dyn Walker) {
        if !self.policy.is_order_of_use() {
            // There it makes a difference in which way a line is.
            self.compare_order(walker);
            for (tag, state) in self.tags.iter_mut().zip(&self.states) {
                walker.number(tag);
                walker.number(&mut (*state as u64));
            }
            self.compare_misses(walker);
            return;
        }
        // Of each set the most recently used first.
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

    /// All that the policy has.
    fn compare_order(&mut self, walker: &mut dyn Walker) {
        self.policy.compare(walker);
        for byte in &self.order {
            walker.number(&mut u64::from(*byte));
        }
        self.recent.walk(walker);
    }

    /// In which order the requests are kept makes no difference.
    fn compare_misses(&mut self, walker: &mut dyn Walker) {
        let mut misses = self.misses.clone();
        misses.sort_by_key(|miss| miss.line);
        misses.walk(walker);
    }

    /// Shows to a walker that compares how often lines have come and gone, instead of which are
    /// here and in which order they were used. Where none has come or gone the order has decided on
    /// nothing, and, unless the policy says otherwise, it is the same after each time that the same
    /// ones are used.
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
