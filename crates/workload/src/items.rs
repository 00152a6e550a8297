//! The items of programs, and their generation.

use crate::Random;
use crate::operations::{self, Operations};
use crate::packets::{IPV4_HEADER_BYTES, UDP_HEADER_BYTES, checksum, udp_checksum};
use crate::work;

/// The kind of a program's items. The program declares it before it starts the device (`enum
/// io_items` in `guest/include/io.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub enum ItemKind {
    /// IPv4 packets with UDP: valid checksums, and random addresses, ports and identification. The
    /// payload counts upwards.
    Packets = 0,
    /// The same, but each packet belongs to one of [`SESSIONS`] sessions with a service.
    Sessions = 1,
    /// Data to store: random bytes.
    Blocks = 2,
    /// Remote procedure calls in MessagePack-RPC: one of [`METHODS`] with a key and a value.
    Requests = 3,
    /// Operations on the keys of a store: [`crate::OperationsSpec`].
    Operations = 4,
}

/// Number of sessions of [`ItemKind::Sessions`].
const SESSIONS: u64 = 128;
/// The address and port of their service: an address for documentation (RFC 5737), and the port of
/// HTTP/3.
const SERVICE: ([u8; 4], u16) = ([192, 0, 2, 1], 443);

/// The methods of generated requests: a store, an index, users and their feeds.
const METHODS: [&str; 16] = [
    "get", "set", "delete", "scan", "search", "suggest", "index", "rank", "login", "logout",
    "profile", "friends", "post", "feed", "like", "follow",
];

impl ItemKind {
    /// The kind for the `value` that a program writes; `None` for other numbers.
    pub fn from_register(value: u64) -> Option<ItemKind> {
        [
            ItemKind::Packets,
            ItemKind::Sessions,
            ItemKind::Blocks,
            ItemKind::Requests,
            ItemKind::Operations,
        ]
        .into_iter()
        .find(|&kind| kind as u64 == value)
    }

    /// Whether an item is an IPv4 packet.
    pub(crate) fn is_ip(self) -> bool {
        matches!(self, ItemKind::Packets | ItemKind::Sessions)
    }

    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            ItemKind::Packets | ItemKind::Sessions => "packets",
            ItemKind::Blocks => "blocks",
            ItemKind::Requests => "requests",
            ItemKind::Operations => "operations",
        }
    }

    /// The subkind of an item of this kind, by which results are separated.
    pub(crate) fn kind_of(self, item: &[u8]) -> u8 {
        match self {
            ItemKind::Operations => operations::kind_of(item),
            _ => u8::MAX,
        }
    }

    /// The name of a subkind, if it has one.
    pub fn kind_name(self, kind: u8) -> Option<&'static str> {
        match self {
            ItemKind::Operations => operations::kind_name(kind),
            _ => work::kind_name(kind),
        }
    }
}

/// Appends an item of `bytes` bytes, at least 28, to `to`; operations have lengths of their own.
pub(crate) fn append_generated(
    kind: ItemKind,
    bytes: usize,
    operations: &Operations,
    random: &mut Random,
    to: &mut Vec<u8>,
) {
    match kind {
        ItemKind::Packets => {
            let addresses = random.bits().to_be_bytes();
            let ports = random.bits().to_be_bytes();
            // From 10.0.0.0/8 to 10.0.0.0/8: private addresses (RFC 1918).
            let flow = Flow {
                source: [10, addresses[0], addresses[1], addresses[2]],
                destination: [10, addresses[3], addresses[4], addresses[5]],
                ports: [ports[0], ports[1], ports[2], ports[3]],
            };
            append_packet(bytes, &flow, [ports[4], ports[5]], to);
        }
        ItemKind::Sessions => {
            // The factor is odd: different sessions have different addresses.
            let session = random.below(SESSIONS) as u32;
            let client = session.wrapping_mul(0x9e37_79b1).to_be_bytes();
            let (destination, port) = (SERVICE.0, SERVICE.1.to_be_bytes());
            let flow = Flow {
                source: [10, client[0], client[1], client[2]],
                destination,
                ports: [0xc0 | client[1], session as u8, port[0], port[1]],
            };
            let identification = random.bits().to_be_bytes();
            append_packet(bytes, &flow, [identification[0], identification[1]], to);
        }
        ItemKind::Blocks => {
            let end = to.len() + bytes;
            while to.len() < end {
                to.extend(random.bits().to_le_bytes());
            }
            to.truncate(end);
        }
        ItemKind::Requests => append_request(bytes, random, to),
        ItemKind::Operations => operations.append_next(random, to),
    }
}

/// The endpoints of a packet.
struct Flow {
    source: [u8; 4],
    destination: [u8; 4],
    /// The source's port, then the destination's.
    ports: [u8; 4],
}

fn append_packet(bytes: usize, flow: &Flow, identification: [u8; 2], to: &mut Vec<u8>) {
    let start = to.len();
    to.resize(start + bytes, 0);
    let (header, datagram) = to[start..].split_at_mut(IPV4_HEADER_BYTES);

    header[0] = 0x45; // Version 4, five words of header.
    header[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
    header[4..6].copy_from_slice(&identification);
    header[8] = 64; // Time to live.
    header[9] = 17; // UDP.
    header[12..16].copy_from_slice(&flow.source);
    header[16..20].copy_from_slice(&flow.destination);
    let sum = checksum(&[header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());

    let datagram_bytes = (datagram.len() as u16).to_be_bytes();
    datagram[0..4].copy_from_slice(&flow.ports);
    datagram[4..6].copy_from_slice(&datagram_bytes);
    for (place, byte) in datagram[UDP_HEADER_BYTES..].iter_mut().enumerate() {
        *byte = place as u8;
    }
    let sum = udp_checksum(&to[start..]);
    to[start + IPV4_HEADER_BYTES + 6..][..2].copy_from_slice(&sum.to_be_bytes());
}

/// `[0, number, method, [key, value]]` in MessagePack; the value fills the remaining length.
fn append_request(bytes: usize, random: &mut Random, to: &mut Vec<u8>) {
    let end = to.len() + bytes;
    let method = METHODS[random.below(METHODS.len() as u64) as usize];
    let (number, key) = (random.bits(), random.bits());

    to.extend([0x94, 0x00, 0xce]); // An array of four, 0, an integer of 32 bits.
    to.extend(&number.to_be_bytes()[..4]);
    to.push(0xa0 | method.len() as u8); // A text of fewer than 32 bytes.
    to.extend(method.as_bytes());
    to.extend([0x92, 0xa8]); // An array of two, a text of eight bytes.
    to.extend(format!("{:08x}", key as u32).as_bytes());
    // `bytes` is at least 28, and the part before the value takes at most 25.
    let value_bytes = match end - to.len() {
        left @ 2..258 => {
            to.extend([0xc4, (left - 2) as u8]); // Up to 255 bytes.
            left - 2
        }
        left => {
            to.push(0xc5); // Up to 65535 bytes.
            to.extend(((left - 3) as u16).to_be_bytes());
            left - 3
        }
    };
    to.extend((0..value_bytes).map(|place| place as u8));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OperationsSpec, Packets, Stream};
    use std::collections::BTreeSet;

    fn generated(kind: ItemKind, bytes: u32, count: usize) -> Vec<Vec<u8>> {
        let random = Random::new(1, Stream::Packets);
        let mut packets = Packets::generated(bytes, &OperationsSpec::default(), random);
        packets.set_kind(kind).unwrap();
        let next = |_| {
            let mut item = Vec::new();
            packets.append_next(&mut item, false);
            assert_eq!(item.len(), bytes as usize);
            item
        };
        (0..count).map(next).collect()
    }

    fn is_valid_packet(packet: &[u8]) -> bool {
        let pseudo_header = [0, 17, packet[24], packet[25]];
        packet[0] == 0x45
            && usize::from(u16::from_be_bytes([packet[2], packet[3]])) == packet.len()
            && checksum(&[&packet[..20]]) == 0
            && checksum(&[&packet[12..20], &pseudo_header, &packet[20..]]) == 0
    }

    #[test]
    fn generated_packets_are_valid() {
        for bytes in [28, 29, 64, 1024, 65535] {
            let packets = generated(ItemKind::Packets, bytes, 50);
            assert!(packets.iter().all(|packet| is_valid_packet(packet)));
            let flows: BTreeSet<&[u8]> = packets.iter().map(|packet| &packet[12..24]).collect();
            assert!(flows.len() > 45);
        }
    }

    #[test]
    fn sessions_come_again() {
        let packets = generated(ItemKind::Sessions, 64, 5000);
        assert!(packets.iter().all(|packet| is_valid_packet(packet)));
        let flows: BTreeSet<&[u8]> = packets.iter().map(|packet| &packet[12..24]).collect();
        // All of them occur: the probability to miss one in 5000 draws is 128 * (127 / 128)^5000 <
        // 1e-14.
        assert_eq!(flows.len() as u64, SESSIONS);
        assert!(packets.iter().all(|packet| packet[16..20] == SERVICE.0));
    }

    #[test]
    fn blocks_are_random() {
        for bytes in [28, 31, 1024] {
            let blocks = generated(ItemKind::Blocks, bytes, 2);
            assert_ne!(blocks[0], blocks[1]);
        }
    }

    #[test]
    fn requests_end_where_they_should() {
        // Around each change of the value's encoding, and with the longest method.
        for bytes in (28..40).chain(270..300).chain([1024, 9000]) {
            for request in generated(ItemKind::Requests, bytes, 40) {
                let method = usize::from(request[7] & 0x1f);
                let name = std::str::from_utf8(&request[8..8 + method]).unwrap();
                assert!(METHODS.contains(&name));
                let value = 8 + method + 10;
                let end = match request[value] {
                    0xc4 => value + 2 + usize::from(request[value + 1]),
                    0xc5 => {
                        let bytes = [request[value + 1], request[value + 2]];
                        value + 3 + usize::from(u16::from_be_bytes(bytes))
                    }
                    other => panic!("{other:#x} is no binary value"),
                };
                assert_eq!(end, bytes as usize);
            }
        }
    }
}
