//! The dispatch policies: the core for the next message of a queue, and the time (Section 4.3).
//!
//! It counts the messages that each core has been given and has not replenished. A core can be
//! given one as long as it has fewer than the threshold. Each policy is a file.

mod greedy;
mod jbsq;
mod power_of_two;
mod type_aware;

pub use greedy::Greedy;
pub use jbsq::Jbsq;
pub use power_of_two::PowerOfTwo;
pub use type_aware::TypeAware;

use crate::domain::CLASSES;
use crate::spec::{DispatchSpec, PolicySpec};
use fabric::LineData;
use workload::Random;

/// A policy's knowledge of the cores of its queue.
#[derive(Clone, Debug, state::State)]
pub struct Load {
    /// Messages that each has and has not replenished.
    #[state(slice)]
    pub outstanding: Vec<u32>,
    /// As many each can have.
    #[state(fixed)]
    pub threshold: u32,
}

impl Load {
    /// Whether a core can be given a message.
    pub fn is_available(&self, core: usize) -> bool {
        self.outstanding[core] < self.threshold
    }

    /// The first of `cores` cores from `first` on, around and around, that is `wanted`.
    pub fn next(&self, first: usize, wanted: impl Fn(usize) -> bool) -> Option<usize> {
        let cores = self.outstanding.len();
        (first..first + cores)
            .map(|core| core % cores)
            .find(|&core| wanted(core))
    }
}

/// A policy.
#[derive(Clone, Debug)]
pub enum Policy {
    /// The paper's.
    Greedy(Greedy),
    /// Join-bounded-shortest-queue.
    Jbsq(Jbsq),
    /// Power of two choices.
    PowerOfTwo(PowerOfTwo),
    /// Keeps cores for the short requests.
    TypeAware(TypeAware),
}

impl state::State for Policy {
    fn walk(&mut self, walker: &mut dyn state::Walker) {
        // Which one it is follows from the description.
        match self {
            Policy::Greedy(policy) => policy.walk(walker),
            Policy::Jbsq(policy) => policy.walk(walker),
            Policy::PowerOfTwo(policy) => policy.walk(walker),
            Policy::TypeAware(policy) => policy.walk(walker),
        }
    }
}

impl Policy {
    /// The policy that `spec` describes, which draws from `random`.
    pub fn new(spec: &DispatchSpec, random: Random) -> Policy {
        match spec.policy {
            PolicySpec::Greedy => Policy::Greedy(Greedy::default()),
            PolicySpec::Jbsq => Policy::Jbsq(Jbsq::default()),
            PolicySpec::PowerOfTwo => Policy::PowerOfTwo(PowerOfTwo::new(random)),
            PolicySpec::TypeAware => Policy::TypeAware(TypeAware::new(spec)),
        }
    }

    /// Whether it has to see a message's first block.
    pub fn looks_inside(&self) -> bool {
        matches!(self, Policy::TypeAware(_))
    }

    /// In which of the [`CLASSES`] a message is; those of one class are served in their order.
    pub fn class(&self, first_block: &LineData) -> usize {
        match self {
            Policy::TypeAware(policy) => policy.class(first_block).min(CLASSES - 1),
            _ => 0,
        }
    }

    /// The core that gets the next message of a class now, if one does.
    pub fn choose(&mut self, class: usize, load: &Load) -> Option<usize> {
        match self {
            Policy::Greedy(policy) => policy.choose(load),
            Policy::Jbsq(policy) => policy.choose(load),
            Policy::PowerOfTwo(policy) => policy.choose(load),
            Policy::TypeAware(policy) => policy.choose(class, load),
        }
    }
}

#[cfg(test)]
pub(crate) fn load(outstanding: &[u32], threshold: u32) -> Load {
    Load {
        outstanding: outstanding.to_vec(),
        threshold,
    }
}
