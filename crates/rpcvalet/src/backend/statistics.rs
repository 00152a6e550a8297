//! Counts of backends.

use schemars::JsonSchema;
use serde::Serialize;

/// Counts of backends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State)]
#[state(all(count))]
pub struct BackendStatistics {
    /// Packets of messages from the network.
    pub packets_received: u64,
    /// Packets to the network.
    pub packets_sent: u64,
    /// Complete messages received.
    pub messages_received: u64,
    /// Messages sent.
    pub messages_sent: u64,
    /// Messages given to cores.
    pub dispatched: u64,
    /// Replenishes of cores.
    pub replenished: u64,
    /// Replenishes of slots without a message, which were ignored.
    pub unexpected_replenishes: u64,
    /// Packets of refused messages: their slot was in use, or they did not fit.
    pub refused: u64,
    /// One-sided reads and writes of this server's cores.
    pub one_sided: u64,
    /// Blocks of one-sided operations that a node has refused: it has no such context, or they are
    /// not in its segment.
    pub faults: u64,
    /// Blocks of one-sided operations of nodes outside the segment of the named context.
    pub refused_one_sided: u64,
    /// The maximum length of a shared queue, in messages.
    pub longest_queue: u64,
    /// The maximum number of messages at one core.
    pub max_outstanding: u64,
    /// Time from a message's completion at its backend to its dispatch, summed, in femtoseconds:
    /// the wait for a core, and the latency of the dispatcher.
    pub queued_fs: u64,
    /// Time from the notice to the dispatch of messages that found a core available, summed, in
    /// femtoseconds.
    pub unhindered_fs: u64,
    /// Messages that found a core available.
    pub unhindered: u64,
}

impl BackendStatistics {
    /// The sum of both.
    pub fn plus(self, other: BackendStatistics) -> BackendStatistics {
        BackendStatistics {
            packets_received: self.packets_received + other.packets_received,
            packets_sent: self.packets_sent + other.packets_sent,
            messages_received: self.messages_received + other.messages_received,
            messages_sent: self.messages_sent + other.messages_sent,
            dispatched: self.dispatched + other.dispatched,
            replenished: self.replenished + other.replenished,
            unexpected_replenishes: self.unexpected_replenishes + other.unexpected_replenishes,
            refused: self.refused + other.refused,
            one_sided: self.one_sided + other.one_sided,
            faults: self.faults + other.faults,
            refused_one_sided: self.refused_one_sided + other.refused_one_sided,
            longest_queue: self.longest_queue.max(other.longest_queue),
            max_outstanding: self.max_outstanding.max(other.max_outstanding),
            queued_fs: self.queued_fs + other.queued_fs,
            unhindered_fs: self.unhindered_fs + other.unhindered_fs,
            unhindered: self.unhindered + other.unhindered,
        }
    }
}
