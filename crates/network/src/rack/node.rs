//! What takes part in a network beside the servers: switches, and hosts of which only the network's
//! side is simulated.

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

    /// Whether it is told of a packet when its first bit arrives, as a switch that cuts through,
    /// and not when its last bit has.
    fn cuts_through(&self) -> bool {
        false
    }

    /// A packet arrives at one of its ports.
    fn packet(&mut self, context: &mut NodeContext<'_>, port: usize, packet: Packet);

    /// A time that it asked for has come.
    fn timer(&mut self, _context: &mut NodeContext<'_>, _token: u64) {}

    /// The link at `port` is free: the packet that goes first. This is called once after
    /// [`NodeContext::offer`], when all that happens to the node at the same time has happened, and
    /// again after each packet, until there is none.
    fn next_packet(&mut self, context: &mut NodeContext<'_>, port: usize) -> Option<Packet>;
}

/// A port of a node: what is known of the link that leaves it.
#[derive(Clone, Copy, Debug, state::State)]
pub(super) struct Port {
    #[state(fixed)]
    pub(super) rate: LineRate,
    /// Its link is asked for packets when it is next free, which is in the calendar.
    pub(super) is_offered: bool,
    /// When the link can take the next packet.
    pub(super) free_at: Time,
}

/// What a node can do.
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

    /// How many ports it has.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// The rate of the link at one of its ports, in both directions.
    pub fn rate(&self, port: usize) -> LineRate {
        self.ports[port].rate
    }

    /// Lets [`Node::timer`] be called at `at`, or now if that is past. Timers of the same time come
    /// in the order in which they were asked for.
    pub fn wake(&mut self, at: Time, token: u64) {
        self.calendar.wake(at.max(self.now), self.node, token);
    }

    /// Keeps a step on the way of a message, if anybody wants to know.
    pub fn note(&mut self, message: impl Into<MessageName>, step: impl FnOnce() -> Step) {
        self.records.note(message, step);
    }

    /// Keeps that the node drops a packet.
    pub(super) fn note_dropped(&mut self, packet: &Packet) {
        let (by, at) = (NodeId(self.node), self.now);
        let packet_number = packet.header.packet;
        self.records.note_packet(packet, || Step::Dropped {
            packet: packet_number,
            by,
            at,
        });
    }

    /// There is a packet to be sent at `port`: [`Node::next_packet`] is called as soon as its link
    /// is free. Within [`Node::next_packet`] it has no effect on the same port.
    pub fn offer(&mut self, port: usize) {
        let state = &mut self.ports[port];
        if !state.is_offered {
            state.is_offered = true;
            let at = state.free_at.max(self.now);
            self.calendar.free(at, self.node, port);
        }
    }
}
