//! A network of links, switches and hosts, at whose edge are the network interfaces of servers.
//!
//! A packet's way: the interface of a server, or a host, puts it on its link ([`Interface`],
//! [`Node::next_packet`]); a switch takes it ([`Node::packet`]), and keeps it until the link of the
//! port to which it goes is free; the last link gives it to a host, or to the interface of a
//! server.
//!
//! Everything is driven by one calendar of events ([`Network`]). Events of the same time are
//! ordered by where they happen and never by when they were put into the calendar, so that the
//! result does not depend on how far servers and network run ahead of each other.

mod interface;
mod link;
mod network;
mod node;
mod record;
mod switch;
#[cfg(test)]
mod tests;

pub use interface::Interface;
pub use link::{LineRate, LinkCounts, LinkFaultSpec, LinkSpec};
pub use network::{Network, NodeId};
pub use node::{Node, NodeContext};
pub use record::{MessageName, Record, Records, Step};
pub use switch::{Forwarding, PortCounts, Switch, SwitchSpec};
