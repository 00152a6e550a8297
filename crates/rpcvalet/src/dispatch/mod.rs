//! The dispatch policies: they choose the core for the next message of a queue, and the time
//! (Section 4.3).
//!
//! A dispatcher counts each core's messages that have not been replenished. A core can be given a
//! message as long as it has fewer than the threshold. Each policy has its own file.

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

/// The numbers of messages at the cores of a queue.
#[derive(Clone, Debug, state::State)]
pub struct Load {
    /// Number of messages at each core that it has not replenished.
    #[state(slice)]
    pub outstanding: Vec<u32>,
    /// The maximum for each core.
    #[state(fixed)]
    pub threshold: u32,
}

impl Load {
    /// Whether a core can be given a message.
    pub fn is_available(&self, core: usize) -> bool {
        self.outstanding[core] < self.threshold
    }

    /// The first of `cores` cores that is `wanted`, cyclically from `first` on.
    pub fn next(&self, first: usize, wanted: impl Fn(usize) -> bool) -> Option<usize> {
        let cores = self.outstanding.len();
        (first..first + cores)
            .map(|core| core % cores)
            .find(|&core| wanted(core))
    }
}

/// A dispatch policy.
#[derive(Clone, Debug)]
pub enum Policy {
    /// The paper's policy.
    Greedy(Greedy),
    /// Join-bounded-shortest-queue.
    Jbsq(Jbsq),
    /// Power of two choices.
    PowerOfTwo(PowerOfTwo),
    /// Reserves cores for short requests.
    TypeAware(TypeAware),
}

impl state::State for Policy {
    fn walk(&mut self, walker: &mut dyn state::Walker) {
        // The description determines the variant.
        match self {
            Policy::Greedy(policy) => policy.walk(walker),
            Policy::Jbsq(policy) => policy.walk(walker),
            Policy::PowerOfTwo(policy) => policy.walk(walker),
            Policy::TypeAware(policy) => policy.walk(walker),
        }
    }
}

impl Policy {
    /// The policy described by `spec`, which draws from `random`.
    pub fn new(spec: &DispatchSpec, random: Random) -> Policy {
        match spec.policy {
            PolicySpec::Greedy => Policy::Greedy(Greedy::default()),
            PolicySpec::Jbsq => Policy::Jbsq(Jbsq::default()),
            PolicySpec::PowerOfTwo => Policy::PowerOfTwo(PowerOfTwo::new(random)),
            PolicySpec::TypeAware => Policy::TypeAware(TypeAware::new(spec)),
        }
    }

    /// Whether it needs a message's first block.
    pub fn looks_inside(&self) -> bool {
        matches!(self, Policy::TypeAware(_))
    }

    /// The class of a message, among [`CLASSES`]; messages of a class are served in order.
    pub fn class(&self, first_block: &LineData) -> usize {
        match self {
            Policy::TypeAware(policy) => policy.class(first_block).min(CLASSES - 1),
            _ => 0,
        }
    }

    /// The core for the next message of a class, if one is available.
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
