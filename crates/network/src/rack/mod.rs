//! A network of links, switches and hosts, with servers' network interfaces at its edge.
//!
//! The path of a packet: the interface of a server, or a host, puts it on its link ([`Interface`],
//! [`Node::next_packet`]). A switch receives it ([`Node::packet`]), and keeps it until the link of
//! the output port is free. The last link delivers it to a host, or to the interface of a server.
//!
//! One calendar drives all events ([`Network`]). Events of the same time are ordered by where they
//! happen and never by when they were scheduled, so that the result does not depend on how far
//! servers and network run ahead of each other.

mod interface;
mod link;
mod network;
mod node;
mod record;
mod second_path;
mod switch;
#[cfg(test)]
mod tests;

pub use interface::Interface;
pub use link::{LineRate, LinkCounts, LinkFaultSpec, LinkSpec};
pub use network::{Network, NodeId};
pub use node::{Node, NodeContext};
pub use record::{MessageName, Record, Records, Step};
pub use second_path::SecondPath;
pub use switch::{Forwarding, PortCounts, Switch, SwitchSpec};
