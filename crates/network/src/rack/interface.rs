//! The network's interface to the network interface of a simulated server.

use super::{LineRate, Record, SecondPath};
use crate::packet::Packet;
use fabric::Time;

/// A server's network interface, seen from the network. It is also a [`fabric::Agent`] on the
/// fabric of its server.
///
/// Servers and network advance alternately, neither by more than the shortest link's latency.
/// Packets are therefore handed over before they arrive, and collected after they were sent.
pub trait Interface {
    /// The number of its ports, each with a link, numbered from 0.
    fn ports(&self) -> usize {
        1
    }

    /// Assigns its IPv4 address, and the rate of its links.
    fn connect(&mut self, address: u32, rate: LineRate);

    /// The last bit of `packet` arrives at a port at `at`, in the future; the packets of a port
    /// come in order of time. At that time the agent's timer is called with the returned token.
    fn receive(&mut self, port: usize, at: Time, packet: Packet) -> u64;

    /// Appends the packets that a port has sent since the last call, in order of time, with the
    /// times at which their first bits enter the link. Consecutive packets should be at least the
    /// duration of the first one apart ([`LineRate::duration`] of [`Packet::wire_bytes`]);
    /// otherwise the second one waits in front of the link, and the interface is not notified.
    fn take_sent(&mut self, port: usize, sent: &mut Vec<(Time, Packet)>);

    /// Lets it share its link with a second interface of the server, which `path` leads to. False:
    /// it cannot. Packets of the second one count as sent by this one.
    fn lead(&mut self, _path: &SecondPath) -> bool {
        false
    }

    /// Makes it the second interface on another one's link, at the end of `path`: it gets and sends
    /// packets there alone, and needs no link and no MAC. False: it cannot.
    fn follow(&mut self, _path: &SecondPath) -> bool {
        false
    }

    /// Records its handling of messages from now on, if it can.
    fn keep_records(&mut self) {}

    /// Appends the records since the last call.
    fn take_records(&mut self, _records: &mut Vec<Record>) {}
}
