//! The service policies of the ready set (§IV-B): the priority after a selection.

use crate::Qid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The order in which ready queues are served.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub enum Policy {
    /// The selected queue has the lowest priority in the next round.
    #[default]
    RoundRobin,
    /// As round-robin, but a queue is served for up to its weight of consecutive rounds.
    WeightedRoundRobin,
    /// Lower-numbered queues always before higher-numbered ones.
    StrictPriority,
    /// In the order in which they became ready: a FIFO in place of the arbiter, for a ready set
    /// that software keeps (§V-E).
    ActivationOrder,
}

impl Policy {
    /// The policy of a number, as `QWAIT.INIT` encodes it.
    pub fn from_code(code: u64) -> Option<Policy> {
        match code {
            0 => Some(Policy::RoundRobin),
            1 => Some(Policy::WeightedRoundRobin),
            2 => Some(Policy::StrictPriority),
            3 => Some(Policy::ActivationOrder),
            _ => None,
        }
    }
}

/// The current priority and the weight counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State)]
pub(crate) struct Priority {
    /// The QID with the highest priority: the paper's one-hot vector, encoded.
    pub current: Qid,
    /// The remaining number of times that the current queue is served; 0: its weight is not loaded
    /// yet.
    counter: u32,
}

impl Priority {
    /// Moves the priority after `selected` was selected out of `queues` queues.
    ///
    /// The hardware sees only the ready bits. A current queue that is not ready "runs out of work
    /// items": another one is selected, and the rest of the weight is lost. A queue that a core has
    /// just taken is not ready until its `QWAIT_RECONSIDER`. With one core the weight therefore
    /// continues, as the core reconsiders before its next `QWAIT`; but the `QWAIT` of a second core
    /// in between passes the priority on.
    pub fn after_selection(
        &mut self,
        policy: Policy,
        selected: Qid,
        weights: &[u32],
        queues: usize,
    ) {
        let next = Qid((selected.0 + 1) % queues as u32);
        match policy {
            Policy::RoundRobin => self.current = next,
            Policy::WeightedRoundRobin => {
                if selected != self.current || self.counter == 0 {
                    self.counter = weights[selected.0 as usize];
                }
                self.counter = self.counter.saturating_sub(1);
                self.current = if self.counter == 0 { next } else { selected };
            }
            Policy::StrictPriority | Policy::ActivationOrder => {}
        }
    }
}
