//! Packets of a network of servers, links and switches, and the messages that transports cut into
//! them.

use fabric::Time;
use state::Walker;

/// Bytes of an Ethernet header.
pub const ETHERNET_BYTES: u64 = 14;
/// Bytes of an IPv4 header without options.
pub const IPV4_BYTES: u64 = 20;
/// Bytes of the transport's header, as nanoPU's published prototype has it.
pub const TRANSPORT_BYTES: u64 = 30;
/// Bytes of all headers of a packet.
pub const HEADER_BYTES: u64 = ETHERNET_BYTES + IPV4_BYTES + TRANSPORT_BYTES;

/// A flag of a packet: it carries data of a message.
pub const DATA: u8 = 1;
/// A flag of a packet: what it names has arrived.
pub const ACK: u8 = 2;
/// A flag of a packet: what it names has been trimmed, and must be sent again.
pub const NACK: u8 = 4;
/// A flag of a packet: the sender may send up to its credit.
pub const PULL: u8 = 8;
/// A flag of a packet: a switch has cut off its payload.
pub const CHOP: u8 = 16;

/// A place to which messages go: a host, and one of its layer-4 ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The host's IPv4 address.
    pub address: u32,
    /// The layer-4 port; nanoPU's name for it is context.
    pub port: u16,
}

state::plain!(Endpoint { address, port });

/// A message from one endpoint to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Whose it is.
    pub from: Endpoint,
    /// Whom it is for.
    pub to: Endpoint,
    /// What it says, without any header.
    pub payload: Vec<u8>,
    /// A name for reports and records; no hardware looks at it.
    pub tag: u64,
}

state::plain!(Message {
    from,
    to,
    payload,
    tag
});

/// What a transport writes into the header of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportHeader {
    /// [`DATA`], [`ACK`], [`NACK`], [`PULL`] and [`CHOP`].
    pub flags: u8,
    /// The message, as its sender numbers it.
    pub message: u16,
    /// Payload bytes of the whole message.
    pub message_bytes: u32,
    /// The packet's number in its message, from 0.
    pub packet: u16,
    /// Up to which packet (NDP) or byte (Homa) the sender may send.
    pub credit: u32,
    /// The priority that a receiver asks the sender to use.
    pub granted_priority: u8,
}

state::plain!(TransportHeader {
    flags,
    message,
    message_bytes,
    packet,
    credit,
    granted_priority
});

/// A packet on a link or in a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Where it comes from.
    pub from: Endpoint,
    /// Where it goes.
    pub to: Endpoint,
    /// What its transport says.
    pub header: TransportHeader,
    /// Its priority in switches, 0 first.
    pub priority: u8,
    /// What is behind the headers; none if it has been trimmed.
    pub payload: Vec<u8>,
    /// The tag of its message.
    pub tag: u64,
}

state::plain!(Packet {
    from,
    to,
    header,
    priority,
    payload,
    tag
});

impl Packet {
    /// How many bytes it is on a link.
    pub fn wire_bytes(&self) -> u64 {
        HEADER_BYTES + self.payload.len() as u64
    }

    /// Cuts off its payload, as a switch does that has no room for it (NDP).
    pub fn trim(&mut self) {
        self.header.flags |= CHOP;
        self.payload = Vec::new();
        self.priority = 0;
    }
}

/// What a transport wants of the network interface that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportAction {
    /// The message has arrived, whole.
    Deliver(Message),
    /// Calls [`Transport::timer`] with the token at that time.
    Wake(Time, u64),
    /// The message cannot be delivered: why, in a sentence.
    GiveUp(u64, String),
}

/// A transport protocol of one host: reliable one-way messages.
///
/// It is told what comes and asked for packets whenever the host's link is free. It knows the time, but
/// neither links nor how long its pipelines take.
pub trait Transport {
    /// Takes over a message that shall be sent. `false`: it has no room for it now, and has not taken it.
    fn send(&mut self, now: Time, message: Message, actions: &mut Vec<TransportAction>) -> bool;

    /// A packet has come.
    fn arrived(&mut self, now: Time, packet: Packet, actions: &mut Vec<TransportAction>);

    /// A time that it asked for has come.
    fn timer(&mut self, now: Time, token: u64, actions: &mut Vec<TransportAction>);

    /// The host's link is free: the packet that goes first, if there is one.
    fn next_packet(&mut self, now: Time) -> Option<Packet>;

    /// The application has taken a delivered message out of the host's buffers.
    fn taken(&mut self, now: Time, message: &Message);

    /// Shows its state to `walker`, for a checkpoint.
    fn walk(&mut self, walker: &mut dyn Walker);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_8_byte_message_is_a_packet_of_72_bytes() {
        // nanoPU, Figure 2: "an 8B message (72B packet)".
        let mut packet = Packet {
            payload: vec![0; 8],
            ..Packet::default()
        };
        assert_eq!(packet.wire_bytes(), 72);
        packet.trim();
        assert_eq!(packet.wire_bytes(), 64);
        assert_eq!(packet.header.flags, CHOP);
    }
}
