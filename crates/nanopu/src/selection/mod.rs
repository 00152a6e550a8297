//! The selection of a core for a message.

mod jbsq;
mod rss;

use crate::spec::CoreSelection;
use network::packet::{Endpoint, Message};
use std::collections::VecDeque;

/// The cores of one context.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
pub(crate) struct Cores {
    /// Whether each core runs a thread that is bound to the context: the first table of Section
    /// 3.3.
    pub bound: Vec<bool>,
    /// Messages that each core has or is being sent: the second table.
    pub outstanding: Vec<u32>,
}

impl Cores {
    /// The core with the fewest messages of those that have fewer than `most`; of several the
    /// first.
    fn least_loaded(&self, most: u32) -> Option<usize> {
        let cores = self.bound.iter().zip(&self.outstanding).enumerate();
        let cores = cores.filter(|&(_, (&bound, &outstanding))| bound && outstanding < most);
        let least = cores.min_by_key(|&(core, (_, &outstanding))| (outstanding, core));
        least.map(|(core, _)| core)
    }
}

/// The messages of one context that wait for a core, and the cores.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
pub(crate) struct Waiting {
    pub cores: Cores,
    /// One queue, or one for each core.
    queues: Vec<VecDeque<Message>>,
    /// Messages in them.
    length: usize,
}

impl Waiting {
    /// No core of so many is bound yet.
    pub fn new(policy: CoreSelection, cores: usize) -> Waiting {
        let queues = match policy {
            CoreSelection::Jbsq => 1,
            CoreSelection::Rss => cores,
        };
        Waiting {
            cores: Cores {
                bound: vec![false; cores],
                outstanding: vec![0; cores],
            },
            queues: vec![VecDeque::new(); queues],
            length: 0,
        }
    }

    /// How many messages wait.
    pub fn length(&self) -> usize {
        self.length
    }

    /// A message waits for a core.
    pub fn push(&mut self, policy: CoreSelection, message: Message) {
        let queue = match policy {
            CoreSelection::Jbsq => 0,
            CoreSelection::Rss => rss::core(&self.cores.bound, message.from, message.to),
        };
        self.length += 1;
        self.queues[queue].push_back(message);
    }

    /// The next message that a core can be sent, and which.
    pub fn pop(&mut self, policy: CoreSelection, most: u32) -> Option<(usize, Message)> {
        if self.length == 0 {
            return None;
        }
        let (queue, core) = match policy {
            CoreSelection::Jbsq => jbsq::next(&self.cores, most)?,
            CoreSelection::Rss => rss::next(&self.cores, most, &self.queues)?,
        };
        let message = self.queues[queue].pop_front()?;
        self.length -= 1;
        self.cores.outstanding[core] += 1;
        Some((core, message))
    }

    /// A core runs a thread of the context now, or none any more.
    pub fn bind(&mut self, policy: CoreSelection, core: usize, bound: bool) {
        self.cores.bound[core] = bound;
        self.cores.outstanding[core] = 0;
        // A hash over other cores tells other ones.
        for message in self.take_all() {
            self.push(policy, message);
        }
    }

    /// All messages that wait.
    pub fn take_all(&mut self) -> Vec<Message> {
        self.length = 0;
        self.queues.iter_mut().flat_map(std::mem::take).collect()
    }
}

/// The bytes that a hash over sender and receiver is made of.
fn flow(from: Endpoint, to: Endpoint) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&from.address.to_be_bytes());
    bytes[4..8].copy_from_slice(&to.address.to_be_bytes());
    bytes[8..10].copy_from_slice(&from.port.to_be_bytes());
    bytes[10..].copy_from_slice(&to.port.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages of a core go with its thread: the next thread there has room for its own.
    #[test]
    fn a_core_that_is_bound_again_has_no_messages() {
        let policy = CoreSelection::Jbsq;
        let message = |tag| Message {
            tag,
            ..Message::default()
        };
        let mut waiting = Waiting::new(policy, 1);
        waiting.bind(policy, 0, true);
        for tag in 0..3 {
            waiting.push(policy, message(tag));
        }
        // JBSQ(1) sends the core one message at a time.
        assert_eq!(waiting.pop(policy, 1), Some((0, message(0))));
        assert_eq!(waiting.pop(policy, 1), None);
        waiting.bind(policy, 0, false);
        assert_eq!(waiting.pop(policy, 1), None);
        waiting.bind(policy, 0, true);
        assert_eq!(waiting.pop(policy, 1), Some((0, message(1))));
        assert_eq!(waiting.pop(policy, 1), None);
        assert_eq!(waiting.length(), 1);
    }
}
