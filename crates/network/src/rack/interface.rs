//! What a network asks of the network interface of a simulated server.

use super::{LineRate, Record};
use crate::packet::Packet;
use fabric::Time;

/// A server's network interface, seen from the network. It is an [`fabric::Agent`] on the fabric of
/// its server, too.
///
/// Servers and network advance alternately, neither by more than the shortest link's latency. A
/// packet is thus known before it arrives, and collected after it was sent.
pub trait Interface {
    /// How many ports it has, each with a link. They are numbered from 0.
    fn ports(&self) -> usize {
        1
    }

    /// It has got this IPv4 address, and links of this rate.
    fn connect(&mut self, address: u32, rate: LineRate);

    /// The last bit of `packet` arrives at a port at `at`, which is still to come; the packets of a
    /// port are given in the order of time. When it has come, the agent's timer is called with the
    /// token that this returns.
    fn receive(&mut self, port: usize, at: Time, packet: Packet) -> u64;

    /// Appends the packets that a port has sent since this was last called, in the order of time:
    /// with the times at which their first bits enter the link. Between two of these is at least
    /// the time that the first of them takes ([`LineRate::duration`] of [`Packet::wire_bytes`]); if
    /// it is less, the second one waits in front of the link, and the interface does not learn of
    /// it.
    fn take_sent(&mut self, port: usize, sent: &mut Vec<(Time, Packet)>);

    /// Keeps a record of what it does with messages from now on, if it can tell.
    fn keep_records(&mut self) {}

    /// Appends what it has kept since this was last called.
    fn take_records(&mut self, _records: &mut Vec<Record>) {}
}
