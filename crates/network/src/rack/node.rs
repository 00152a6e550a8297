//! The members of a network other than servers: switches, and hosts of which only the network side
//! is simulated.

use super::network::Calendar;
use super::record::{MessageName, Records, Step};
use super::{LineRate, NodeId};
use crate::packet::Packet;
use fabric::Time;
use std::any::Any;

/// A switch, or a host.
pub trait Node: Any + state::State {
    /// A name for reports.
    fn name(&self) -> String;

    /// Whether it receives a packet when its first bit arrives, like a cut-through switch, rather
    /// than its last bit.
    fn cuts_through(&self) -> bool {
        false
    }

    /// A packet arrives at one of its ports.
    fn packet(&mut self, context: &mut NodeContext<'_>, port: usize, packet: Packet);

    /// The time of a [`NodeContext::wake`] has come.
    fn timer(&mut self, _context: &mut NodeContext<'_>, _token: u64) {}

    /// The link at `port` is free: returns the next packet to send, if there is one. It is called
    /// after [`NodeContext::offer`], once all events of the node at the same time have been
    /// processed, and again after each packet until there is none.
    fn next_packet(&mut self, context: &mut NodeContext<'_>, port: usize) -> Option<Packet>;
}

/// The state of the link that leaves a port.
#[derive(Clone, Copy, Debug, state::State)]
pub(super) struct Port {
    #[state(fixed)]
    pub(super) rate: LineRate,
    /// The calendar has an event that calls `next_packet` when the link is free.
    pub(super) is_offered: bool,
    /// When the link can take the next packet.
    pub(super) free_at: Time,
}

/// The interface of a node to its network.
pub struct NodeContext<'a> {
    pub(super) now: Time,
    pub(super) node: u16,
    pub(super) ports: &'a mut [Port],
    pub(super) calendar: &'a mut Calendar,
    pub(super) records: &'a mut Records,
}

impl NodeContext<'_> {
    /// The simulated time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The number of its ports.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// The rate of the link at one of its ports, in both directions.
    pub fn rate(&self, port: usize) -> LineRate {
        self.ports[port].rate
    }

    /// Calls [`Node::timer`] at `at`, or now if that is past. Timers of the same time are called in
    /// the order of these requests.
    pub fn wake(&mut self, at: Time, token: u64) {
        self.calendar.wake(at.max(self.now), self.node, token);
    }

    /// Records a step of a message, if records are kept.
    pub fn note(&mut self, message: impl Into<MessageName>, step: impl FnOnce() -> Step) {
        self.records.note(message, step);
    }

    /// Records that the node drops a packet.
    pub(super) fn note_dropped(&mut self, packet: &Packet) {
        let (by, at) = (NodeId(self.node), self.now);
        let packet_number = packet.header.packet;
        self.records.note_packet(packet, || Step::Dropped {
            packet: packet_number,
            by,
            at,
        });
    }

    /// Announces a packet for `port`: [`Node::next_packet`] is called as soon as the link is free.
    /// Within [`Node::next_packet`] it has no effect on the same port.
    pub fn offer(&mut self, port: usize) {
        let state = &mut self.ports[port];
        if !state.is_offered {
            state.is_offered = true;
            let at = state.free_at.max(self.now);
            self.calendar.free(at, self.node, port);
        }
    }
}
