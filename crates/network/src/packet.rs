//! Messages, and the packets that carry them over links and through switches.

use fabric::Time;
use schemars::JsonSchema;
use serde::Serialize;
use workload::checksum;

/// Bytes of an Ethernet header.
pub const ETHERNET_BYTES: u64 = 14;
/// Bytes of an IPv4 header without options.
pub const IPV4_BYTES: u64 = 20;
/// Bytes of the transport's header, which is that of nanoPU's published prototype.
pub const TRANSPORT_BYTES: u64 = 30;
/// Bytes of all headers of a packet.
pub const HEADER_BYTES: u64 = ETHERNET_BYTES + IPV4_BYTES + TRANSPORT_BYTES;

/// Where the IPv4 header is in a packet, and the transport's.
const IPV4_AT: usize = ETHERNET_BYTES as usize;
const TRANSPORT_AT: usize = IPV4_AT + IPV4_BYTES as usize;

/// A flag of a packet: it carries data of a message.
pub const DATA: u8 = 1;
/// A flag of a packet: the packet that it names has arrived.
pub const ACK: u8 = 2;
/// A flag of a packet: the packet that it names was trimmed, and must be sent again.
pub const NACK: u8 = 4;
/// A flag of a packet: the sender may send up to its credit.
pub const PULL: u8 = 8;
/// A flag of a packet: a switch has cut off its payload.
pub const CHOP: u8 = 16;
/// A flag of a packet: its sender still has the message, and sends others first (Homa).
pub const BUSY: u8 = 32;

/// A flag of a packet: the acknowledged packet was marked by a switch.
pub const ECHO: u8 = 64;

/// Explicit congestion notification of a packet (RFC 3168): not used by its transport.
pub const NO_ECN: u8 = 0;
/// Explicit congestion notification of a packet: used by its transport; a switch may mark it.
pub const ECN_CAPABLE: u8 = 2;
/// Explicit congestion notification of a packet: a switch has marked it.
pub const ECN_MARKED: u8 = 3;

/// The largest priority that a code point of differentiated services can encode.
const MAX_PRIORITY: u8 = 63;
/// The type of a frame that carries IPv4.
const ETHERTYPE_IPV4: u16 = 0x0800;
/// The IPv4 protocol number of the transport, as nanoPU's published prototype has it.
const TRANSPORT_PROTOCOL: u8 = 0x99;
/// The first byte of the IPv4 header: version 4, and a header of five words.
const VERSION_AND_LENGTH: u8 = 0x45;
/// Links that an IPv4 packet may still cross.
const TIME_TO_LIVE: u8 = 64;
/// Hardware addresses begin with this and end with the host's IPv4 address: bit 1 of the first byte
/// says that they are not a manufacturer's (IEEE 802).
const HARDWARE_PREFIX: u16 = 0x0200;

/// The Ethernet address of a host: six bytes, the first one on the wire in bits 47 to 40.
pub fn hardware_address(address: u32) -> u64 {
    u64::from(HARDWARE_PREFIX) << 32 | u64::from(address)
}

/// Why a frame is not a packet of this network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It has fewer bytes than the headers.
    #[error("the frame has {0} bytes; the headers alone have {HEADER_BYTES}")]
    TooShort(usize),
    /// It does not carry IPv4.
    #[error("the frame has the type {0:#06x}; only IPv4, 0x0800, goes over this network")]
    EtherType(u16),
    /// An Ethernet address belongs to no host.
    #[error(
        "{0:#014x} is no host's Ethernet address; those are 0x0200 and the host's IPv4 address"
    )]
    HardwareAddress(u64),
    /// The IPv4 header has options, or is of another version.
    #[error("the IPv4 header begins with {0:#04x}; it must be 0x45, without options")]
    Version(u8),
    /// It carries another protocol.
    #[error("the packet has the protocol {0:#04x}; only 0x99 goes over this network")]
    Protocol(u8),
}

/// A place to which messages go: a host, and one of its layer-4 ports.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, state::State, state::Plain,
)]
pub struct Endpoint {
    /// The host's IPv4 address.
    pub address: u32,
    /// The layer-4 port; nanoPU's name for it is context.
    pub port: u16,
}

/// A message from one endpoint to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub struct Message {
    /// Its source.
    pub from: Endpoint,
    /// Its destination.
    pub to: Endpoint,
    /// Its contents, without any header.
    pub payload: Vec<u8>,
    /// Its identity in reports and records; no hardware reads it.
    pub tag: u64,
}

/// The transport's fields in the header of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub struct TransportHeader {
    /// [`DATA`], [`ACK`], [`NACK`], [`PULL`], [`CHOP`], [`BUSY`] and [`ECHO`].
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

/// A packet on a link or in a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub struct Packet {
    /// Its source.
    pub from: Endpoint,
    /// Its destination.
    pub to: Endpoint,
    /// Its IPv4 destination if that is not `to`, which is then a router on the path. The network
    /// forwards by Ethernet addresses and does not read it.
    pub routed_to: Option<u32>,
    /// The transport's fields.
    pub header: TransportHeader,
    /// Its priority in switches, 0 first.
    pub priority: u8,
    /// [`NO_ECN`], [`ECN_CAPABLE`] or [`ECN_MARKED`].
    pub ecn: u8,
    /// The bytes after the headers; empty if it has been trimmed.
    pub payload: Vec<u8>,
    /// Bytes of padding, in packets without data that are longer than their headers.
    pub padding: u16,
    /// The tag of its message.
    pub tag: u64,
}

impl Packet {
    /// Its IPv4 destination.
    pub fn ipv4_destination(&self) -> u32 {
        self.routed_to.unwrap_or(self.to.address)
    }

    /// Its number of bytes on a link.
    pub fn wire_bytes(&self) -> u64 {
        HEADER_BYTES + self.payload.len() as u64 + u64::from(self.padding)
    }

    /// Its bytes on the wire, without preamble and checksum, which the hardware adds. All numbers
    /// are big-endian.
    ///
    /// | bytes | field |
    /// | --- | --- |
    /// | 0, 6 | Ethernet addresses of receiver and sender: [`hardware_address`] |
    /// | 12 | 0x0800 |
    /// | 14 | IPv4: 0x45, type of service, length, 0, 0, 64, 0x99, checksum, sender, receiver |
    /// | 34 | flags |
    /// | 35, 37 | ports of sender and receiver |
    /// | 39 | bytes of the message, lower 16 bits |
    /// | 41 | number of the packet, lower 8 bits |
    /// | 42 | credit, lower 16 bits |
    /// | 44 | number of the message |
    /// | 46, 48 | buffer and its size class, which only the published receiver uses; 0 |
    /// | 49, 51, 52 | bytes of the message, number of the packet, credit: their upper bits |
    /// | 54 | granted priority |
    /// | 55 | 0 |
    /// | 56 | tag |
    /// | 64 | payload |
    ///
    /// Up to byte 48 this is the published prototype's header (`lnichdr` of its load generator).
    /// The 15 bytes that it leaves empty hold the upper bits of fields that are wider here, and the
    /// tag for reports. The priority, at most 63, is in the type of service, in the code point of
    /// differentiated services (RFC 2474), followed by the two bits of explicit congestion
    /// notification (RFC 3168).
    pub fn to_bytes(&self) -> Vec<u8> {
        let header = &self.header;
        let mut bytes = Vec::with_capacity(self.wire_bytes() as usize);
        bytes.extend(&hardware_address(self.to.address).to_be_bytes()[2..]);
        bytes.extend(&hardware_address(self.from.address).to_be_bytes()[2..]);
        bytes.extend(ETHERTYPE_IPV4.to_be_bytes());
        bytes.extend([
            VERSION_AND_LENGTH,
            self.priority.min(MAX_PRIORITY) << 2 | self.ecn,
        ]);
        let length = self.wire_bytes() - ETHERNET_BYTES;
        bytes.extend((length as u16).to_be_bytes());
        bytes.extend([0, 0, 0, 0, TIME_TO_LIVE, TRANSPORT_PROTOCOL, 0, 0]);
        bytes.extend(self.from.address.to_be_bytes());
        bytes.extend(self.ipv4_destination().to_be_bytes());
        let sum = checksum(&[&bytes[IPV4_AT..TRANSPORT_AT]]);
        bytes[IPV4_AT + 10..IPV4_AT + 12].copy_from_slice(&sum.to_be_bytes());
        bytes.push(header.flags);
        bytes.extend(self.from.port.to_be_bytes());
        bytes.extend(self.to.port.to_be_bytes());
        bytes.extend((header.message_bytes as u16).to_be_bytes());
        bytes.push(header.packet as u8);
        bytes.extend((header.credit as u16).to_be_bytes());
        bytes.extend(header.message.to_be_bytes());
        bytes.extend([0, 0, 0]);
        bytes.extend(((header.message_bytes >> 16) as u16).to_be_bytes());
        bytes.push((header.packet >> 8) as u8);
        bytes.extend(((header.credit >> 16) as u16).to_be_bytes());
        bytes.extend([header.granted_priority, 0]);
        bytes.extend(self.tag.to_be_bytes());
        bytes.extend(&self.payload);
        bytes.resize(bytes.len() + usize::from(self.padding), 0);
        bytes
    }

    /// Parses a packet's bytes; padding becomes payload. Its source and destination are the Ethernet
    /// addresses, by which switches forward. An IPv4 destination that is one of these two hosts is
    /// ignored, so that a program can answer by exchanging the Ethernet addresses alone, as those of
    /// nanoPU's traditional network interface do. Neither checksum nor lengths are checked.
    pub fn from_bytes(bytes: &[u8]) -> Result<Packet, FrameError> {
        if (bytes.len() as u64) < HEADER_BYTES {
            return Err(FrameError::TooShort(bytes.len()));
        }
        // The length has been checked: every range below is inside.
        let number = |range: std::ops::Range<usize>| {
            let digits = bytes[range].iter();
            digits.fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        let host = |at: usize| {
            let address = number(at..at + 6);
            match address >> 32 == u64::from(HARDWARE_PREFIX) {
                true => Ok(address as u32),
                false => Err(FrameError::HardwareAddress(address)),
            }
        };
        let (to, from) = (host(0)?, host(6)?);
        let ether_type = number(12..14) as u16;
        if ether_type != ETHERTYPE_IPV4 {
            return Err(FrameError::EtherType(ether_type));
        }
        if bytes[IPV4_AT] != VERSION_AND_LENGTH {
            return Err(FrameError::Version(bytes[IPV4_AT]));
        }
        if bytes[IPV4_AT + 9] != TRANSPORT_PROTOCOL {
            return Err(FrameError::Protocol(bytes[IPV4_AT + 9]));
        }
        let destination = number(30..34) as u32;
        Ok(Packet {
            routed_to: (destination != to && destination != from).then_some(destination),
            from: Endpoint {
                address: from,
                port: number(35..37) as u16,
            },
            to: Endpoint {
                address: to,
                port: number(37..39) as u16,
            },
            header: TransportHeader {
                flags: bytes[TRANSPORT_AT],
                message: number(44..46) as u16,
                message_bytes: (number(49..51) << 16 | number(39..41)) as u32,
                packet: u16::from_be_bytes([bytes[51], bytes[41]]),
                credit: (number(52..54) << 16 | number(42..44)) as u32,
                granted_priority: bytes[54],
            },
            priority: bytes[IPV4_AT + 1] >> 2,
            ecn: bytes[IPV4_AT + 1] & 3,
            tag: number(56..64),
            payload: bytes[HEADER_BYTES as usize..].to_vec(),
            padding: 0,
        })
    }

    /// Removes its payload, as a switch without room for it does (NDP).
    pub fn trim(&mut self) {
        self.header.flags |= CHOP;
        self.payload = Vec::new();
        self.priority = 0;
    }
}

/// A request of a transport to its network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportAction {
    /// Deliver this message, which is whole.
    Deliver(Message),
    /// Call [`Transport::timer`] with the token at this time.
    Wake(Time, u64),
    /// Report that the message with this tag cannot be delivered: why, in a sentence.
    GiveUp(u64, String),
}

/// Counts of a transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State)]
#[state(all(count))]
pub struct TransportStatistics {
    /// Messages that are being sent now.
    pub sending: u64,
    /// Messages in reassembly now.
    pub receiving: u64,
    /// Delivered messages that wait to be taken.
    pub waiting: u64,
    /// Messages whose receivers have acknowledged all of them.
    pub sent: u64,
    /// Messages that have been delivered.
    pub delivered: u64,
    /// Messages that have been given up.
    pub given_up: u64,
    /// Packets of data sent, for the first time or again.
    pub data_packets: u64,
    /// Packets of data sent again.
    pub repeated_packets: u64,
    /// Packets sent that are not data.
    pub control_packets: u64,
    /// Duplicate packets of data.
    pub duplicates: u64,
    /// Packets that arrived without their payload.
    pub trimmed: u64,
    /// Packets of new messages that were dropped because no buffer was free.
    pub no_buffer: u64,
    /// Packets that were dropped because they are malformed, or are for another host.
    pub malformed: u64,
    /// Timeouts: periods without a packet of a message that caused a reaction.
    pub timeouts: u64,
}

/// A transport protocol of one host: reliable one-way messages.
///
/// The interface calls `next_packet` whenever the host's link is free: when the link becomes free
/// and, as long as it is, after each call of `send`, `arrived` and `timer`. The transport knows the
/// time, but neither the link nor the latency of its own pipelines. The times of calls never
/// decrease.
pub trait Transport: state::State {
    /// Takes a message to send. `false`: it has no room, and has not taken the message; there may
    /// be room after a call of `arrived` or `timer`.
    fn send(&mut self, now: Time, message: Message, actions: &mut Vec<TransportAction>) -> bool;

    /// A packet has arrived.
    fn arrived(&mut self, now: Time, packet: Packet, actions: &mut Vec<TransportAction>);

    /// The time of a [`TransportAction::Wake`] with this token has come.
    fn timer(&mut self, now: Time, token: u64, actions: &mut Vec<TransportAction>);

    /// The host's link is free: returns the next packet to send, if there is one.
    fn next_packet(&mut self, now: Time) -> Option<Packet>;

    /// The application has taken a delivered message out of the host's buffers.
    fn taken(&mut self, now: Time, message: &Message);

    /// The counters.
    fn statistics(&self) -> TransportStatistics;
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
        packet.padding = 56;
        assert_eq!(packet.wire_bytes(), 128);
        assert_eq!(packet.to_bytes().len(), 128);
        packet.padding = 0;
        packet.trim();
        assert_eq!(packet.wire_bytes(), 64);
        assert_eq!(packet.header.flags, CHOP);
    }

    /// The published load generator's header, field by field.
    #[test]
    fn a_packet_has_the_published_bytes() {
        let packet = Packet {
            from: Endpoint {
                address: 0x0a00_0002,
                port: 0x1234,
            },
            to: Endpoint {
                address: 0x0a00_0003,
                port: 1,
            },
            routed_to: None,
            padding: 0,
            header: TransportHeader {
                flags: DATA,
                message: 0x5678,
                message_bytes: 8,
                packet: 3,
                credit: 0x0102,
                granted_priority: 0,
            },
            priority: 0,
            ecn: 0,
            payload: vec![1, 2, 3, 4, 5, 6, 7, 8],
            tag: 9,
        };
        let bytes = packet.to_bytes();
        assert_eq!(bytes.len(), 72);
        let ethernet = [2, 0, 10, 0, 0, 3, 2, 0, 10, 0, 0, 2, 8, 0];
        assert_eq!(bytes[..14], ethernet);
        assert_eq!(bytes[14..24], [0x45, 0, 0, 58, 0, 0, 0, 0, 64, 0x99]);
        assert_eq!(checksum(&[&bytes[14..34]]), 0);
        assert_eq!(bytes[26..34], [10, 0, 0, 2, 10, 0, 0, 3]);
        let transport = [1, 0x12, 0x34, 0, 1, 0, 8, 3, 1, 2, 0x56, 0x78, 0, 0, 0];
        assert_eq!(bytes[34..49], transport);
        assert_eq!(bytes[64..], [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn bytes_that_are_no_packet_are_told() {
        let good = Packet::default().to_bytes();
        let wrong = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            Packet::from_bytes(&bytes).unwrap_err().to_string()
        };
        assert_eq!(Packet::from_bytes(&good), Ok(Packet::default()));
        assert!(wrong(0, 0).starts_with("0x000000000000 is no host's"));
        assert!(wrong(6, 0xff).starts_with("0xff0000000000 is no host's"));
        assert!(wrong(13, 6).starts_with("the frame has the type 0x0806"));
        assert!(wrong(14, 0x60).starts_with("the IPv4 header begins with 0x60"));
        assert!(wrong(23, 17).starts_with("the packet has the protocol 0x11"));
        let short = Packet::from_bytes(&good[..63]).unwrap_err();
        assert_eq!(
            short.to_string(),
            "the frame has 63 bytes; the headers alone have 64"
        );
    }

    /// The published loopback exchanges the Ethernet addresses alone.
    #[test]
    fn an_answer_goes_where_its_ethernet_addresses_say() {
        let host = |address| Endpoint { address, port: 7 };
        let request = Packet {
            from: host(1),
            to: host(2),
            tag: 5,
            ..Packet::default()
        };
        let mut bytes = request.to_bytes();
        let (receiver, sender) = bytes[..12].split_at_mut(6);
        receiver.swap_with_slice(sender);
        let answer = Packet::from_bytes(&bytes).unwrap();
        assert_eq!(
            (answer.from.address, answer.to.address, answer.tag),
            (2, 1, 5)
        );
    }

    proptest::proptest! {
        #[test]
        fn bytes_and_back(
            (from, to, routed_to) in (0u32.., 0u32.., proptest::option::of(0u32..)),
            ports in (0u16.., 0u16..),
            (flags, message, message_bytes) in (0u8.., 0u16.., 0u32..),
            (packet, credit, granted_priority) in (0u16.., 0u32.., 0u8..),
            (priority, ecn) in (0..=MAX_PRIORITY, 0u8..4),
            payload in proptest::collection::vec(0u8.., 0..1500),
            tag in 0u64..,
        ) {
            let packet = Packet {
                from: Endpoint { address: from, port: ports.0 },
                to: Endpoint { address: to, port: ports.1 },
                routed_to: routed_to.filter(|&address| address != to && address != from),
                header: TransportHeader {
                    flags,
                    message,
                    message_bytes,
                    packet,
                    credit,
                    granted_priority,
                },
                priority,
                ecn,
                payload,
                padding: 0,
                tag,
            };
            let bytes = packet.to_bytes();
            proptest::prop_assert_eq!(bytes.len() as u64, packet.wire_bytes());
            proptest::prop_assert_eq!(Packet::from_bytes(&bytes), Ok(packet));
        }
    }
}
