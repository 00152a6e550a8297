//! The hardware, an agent on the fabric: the list, its registers, and the reads that wait.

use fabric::{Agent, AgentContext, AgentId, AgentMessage, RegisterAccess, ReplyTo, Request, Time};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::VecDeque;

/// Offsets of the registers. `guest/include/notify/more/ready-list.h` has the same.
mod register {
    /// Writing a queue's number puts the queue back.
    pub const PUT: u64 = 0x0;
    /// Writing a queue's number, and from bit 32 on its cluster, gives the queue to the cluster.
    pub const ROUTE: u64 = 0x8;
    /// Reading it takes the next queue of cluster 0; of cluster *k* 8 *k* bytes behind it.
    pub const NEXT: u64 = 0x1000;
    /// The bytes of all.
    pub const BYTES: u64 = 0x2000;
}

pub(crate) use register::BYTES;

/// The largest number of queues.
const MAX_QUEUES: usize = 8192;

/// Counts of the list.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State, state::Plain,
)]
#[schemars(rename = "ReadyListStatistics")]
pub struct Statistics {
    /// Queues that the I/O device put on the list.
    #[state(count)]
    pub told: u64,
    /// Queues that harts put back.
    #[state(count)]
    pub put_back: u64,
    /// Reads that took a queue.
    #[state(count)]
    pub taken: u64,
    /// Reads that waited for a queue, as part of `taken`.
    #[state(count)]
    pub waited: u64,
}

/// A read that waits for a queue of its cluster.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
struct Waiting {
    reply_to: ReplyTo,
    cluster: u32,
}

/// The list.
#[derive(state::State)]
pub struct ReadyList {
    #[state(fixed)]
    start: u64,
    #[state(fixed)]
    lookup: Time,
    /// The queue with the lowest number first, instead of the one that has been ready for longest.
    #[state(fixed)]
    is_strict: bool,
    /// The ready queues, in the order in which they became ready.
    ready: VecDeque<u32>,
    /// The cluster of each queue.
    clusters: Vec<u32>,
    waiting: VecDeque<Waiting>,
    statistics: Statistics,
}

impl ReadyList {
    /// A list with its registers at `start`, which answers after `lookup`.
    pub fn new(start: u64, lookup: Time, is_strict: bool) -> ReadyList {
        ReadyList {
            start,
            lookup,
            is_strict,
            ready: VecDeque::new(),
            clusters: Vec::new(),
            waiting: VecDeque::new(),
            statistics: Statistics::default(),
        }
    }

    /// What has happened so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics.clone()
    }

    /// A queue has become ready. Returns the read that it answers, if one waits.
    fn add(&mut self, queue: u32) -> Option<Waiting> {
        let cluster = self.clusters.get(queue as usize).copied();
        let place = self
            .waiting
            .iter()
            .position(|one| Some(one.cluster) == cluster);
        let found = place.and_then(|place| self.waiting.remove(place));
        match found {
            Some(_) => self.statistics.taken += 1,
            None => self.ready.push_back(queue),
        }
        found
    }

    /// Takes the next ready queue of a cluster.
    fn take(&mut self, cluster: u32) -> Option<u32> {
        let clusters = &self.clusters;
        let of_cluster = |queue: u32| clusters.get(queue as usize) == Some(&cluster);
        let mut queues = self.ready.iter().copied().enumerate();
        let (place, queue) = match self.is_strict {
            true => queues
                .filter(|&(_, queue)| of_cluster(queue))
                .min_by_key(|&(_, queue)| queue)?,
            false => queues.find(|&(_, queue)| of_cluster(queue))?,
        };
        self.ready.remove(place);
        self.statistics.taken += 1;
        Some(queue)
    }

    fn route(&mut self, queue: u32, cluster: u32) {
        let queue = queue as usize;
        if self.clusters.len() <= queue {
            self.clusters.resize(queue + 1, u32::MAX);
        }
        self.clusters[queue] = cluster;
    }

    /// Adds a queue, and answers the read that waits for it.
    fn make_ready(&mut self, context: &mut AgentContext<'_>, queue: u32) {
        if let Some(read) = self.add(queue) {
            context.reply(read.reply_to, queue.into(), self.lookup);
        }
    }
}

impl Agent for ReadyList {
    fn name(&self) -> String {
        "list of ready queues".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        // Only whole registers are read and written.
        let Some((offset, access)) = request.register(self.start) else {
            return context.refuse(request.reply_to);
        };
        match (offset, access) {
            (register::NEXT.., RegisterAccess::Read) => {
                let cluster = ((offset - register::NEXT) / 8) as u32;
                match self.take(cluster) {
                    Some(queue) => {
                        context.reply(request.reply_to, queue.into(), self.lookup);
                    }
                    None => {
                        self.statistics.waited += 1;
                        self.waiting.push_back(Waiting {
                            reply_to: request.reply_to,
                            cluster,
                        });
                    }
                }
            }
            (register::PUT, RegisterAccess::Write(queue))
                if (queue as usize) < self.clusters.len() =>
            {
                context.reply(request.reply_to, 0, Time::ZERO);
                self.statistics.put_back += 1;
                self.make_ready(context, queue as u32);
            }
            (register::ROUTE, RegisterAccess::Write(value))
                if (value as u32 as usize) < MAX_QUEUES =>
            {
                self.route(value as u32, (value >> 32) as u32);
                context.reply(request.reply_to, 0, Time::ZERO);
            }
            _ => context.refuse(request.reply_to),
        }
    }

    /// The I/O device tells of a queue that was empty; the header is the queue's number.
    fn message(&mut self, context: &mut AgentContext<'_>, _from: AgentId, message: AgentMessage) {
        self.statistics.told += 1;
        self.make_ready(context, message.header as u32);
    }

    fn waiting_for(&self) -> Vec<String> {
        let reads = self.waiting.iter();
        reads
            .map(|read| format!("core {} waits for a ready queue", read.reply_to.core.0))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(is_strict: bool) -> ReadyList {
        let mut list = ReadyList::new(0, Time::ZERO, is_strict);
        for queue in 0..8 {
            list.route(queue, queue / 4);
        }
        list
    }

    #[test]
    fn queues_are_taken_in_the_order_in_which_they_became_ready() {
        let mut list = list(false);
        for queue in [3, 5, 1] {
            assert!(list.add(queue).is_none());
        }
        let taken: Vec<_> = (0..3).map(|_| list.take(0)).collect();
        assert_eq!(taken, [Some(3), Some(1), None]);
        assert_eq!(list.take(1), Some(5));
        assert_eq!(list.statistics().taken, 3);
    }

    #[test]
    fn strict_priority_takes_the_lowest_queue_first() {
        let mut list = list(true);
        for queue in [3, 1, 2] {
            list.add(queue);
        }
        assert_eq!(
            (list.take(0), list.take(0), list.take(0)),
            (Some(1), Some(2), Some(3))
        );
    }
}
