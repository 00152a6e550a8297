//! The contents of items: generated ones, or the packets of a capture file.

use crate::items::{self, ItemKind};
use crate::operations::Operations;
use crate::{OperationsSpec, Random, Work};
use pcap_file::pcap::PcapParser;
use pcap_file::pcapng::{Block, PcapNgParser};
use pcap_file::{DataLink, PcapError};
use state::{State, Walker};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

pub(crate) const IPV4_HEADER_BYTES: usize = 20;
pub(crate) const UDP_HEADER_BYTES: usize = 8;
const PROTOCOL_UDP: u8 = 17;

/// The shortest item that can be generated: a packet with headers only.
pub(crate) const MINIMUM_PACKET_BYTES: u32 = (IPV4_HEADER_BYTES + UDP_HEADER_BYTES) as u32;

/// The reason that a capture file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// Its contents were not given; the sentence says so.
    #[error("{0}")]
    Missing(String),
    /// It has another format.
    #[error("{path}: this is neither a pcap file nor a pcapng file: {reason}")]
    NotPcap {
        /// The file.
        path: PathBuf,
        /// The error in its header.
        reason: String,
    },
    /// It is truncated or has a broken record.
    #[error("{path}: packet {packet}, at byte {offset}, cannot be read: {reason}")]
    Broken {
        /// The file.
        path: PathBuf,
        /// The packet's number, from 1.
        packet: u64,
        /// The offset of its record.
        offset: u64,
        /// The error.
        reason: String,
    },
    /// Its link type is neither Ethernet nor raw IP.
    #[error("{path}: its packets are of link type {link}; Ethernet and raw IP are known")]
    LinkType {
        /// The file.
        path: PathBuf,
        /// The link type found.
        link: String,
    },
    /// It has no IPv4 packet.
    #[error("{path}: there is no IPv4 packet among its {frames} frames")]
    NoPacket {
        /// The file.
        path: PathBuf,
        /// Number of frames.
        frames: u64,
    },
    /// The program uses the payload of UDP packets, and there is none.
    #[error(
        "{path}: the program takes {kind} out of UDP packets, and none of its {packets} IPv4 \
         packets is a whole one"
    )]
    NoPayload {
        /// The file.
        path: PathBuf,
        /// The kind of the program's items.
        kind: &'static str,
        /// Number of IPv4 packets.
        packets: usize,
    },
    /// Packets must state their work, but the program uses other items.
    #[error("traffic.work is written into generated IPv4 packets, and the program takes {kind}")]
    NoWork {
        /// The kind of the program's items.
        kind: &'static str,
    },
    /// The description of the items' work is invalid.
    #[error("traffic.work cannot be used: {0}")]
    Work(String),
    /// A packet does not fit into a slot.
    #[error(
        "{path}: packet {packet}, at byte {offset}, has {bytes} bytes, more than \
         traffic.packet_bytes = {maximum}"
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The packet's number, from 1.
        packet: u64,
        /// The offset of its record.
        offset: u64,
        /// Its length.
        bytes: usize,
        /// The maximum length.
        maximum: u32,
    },
}

/// An endless sequence of packets.
#[derive(Clone, Debug, state::State)]
#[state(fields)]
pub struct Packets {
    content: Content,
    /// The work to write into generated packets, if any.
    #[state(fixed)]
    work: Option<Work>,
    #[state(fixed)]
    skipped_frames: u64,
}

/// The description determines whether work is written.
impl State for Packets {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        if let Some(work) = &mut self.work {
            work.walk(walker);
        }
    }
}

#[derive(Clone, Debug)]
enum Content {
    Generated {
        kind: ItemKind,
        bytes: usize,
        operations: Operations,
        random: Random,
    },
    Captured {
        path: PathBuf,
        packets: Vec<Vec<u8>>,
        next: usize,
    },
}

/// The I/O source restores the kind of the items.
impl State for Content {
    fn walk(&mut self, walker: &mut dyn Walker) {
        match self {
            Content::Generated {
                kind: _,
                bytes: _,
                operations: _,
                random,
            } => random.walk(walker),
            Content::Captured {
                path: _,
                packets: _,
                next,
            } => next.walk(walker),
        }
    }
}

impl Packets {
    /// Items of `bytes` (28 to 65535) bytes: [`ItemKind::Packets`] until a program says otherwise.
    /// `operations` describes the items of programs that process operations.
    pub fn generated(bytes: u32, operations: &OperationsSpec, random: Random) -> Packets {
        let bytes = bytes.clamp(MINIMUM_PACKET_BYTES, 65535) as usize;
        Packets {
            content: Content::Generated {
                kind: ItemKind::Packets,
                bytes,
                operations: Operations::new(operations),
                random,
            },
            work: None,
            skipped_frames: 0,
        }
    }

    /// Makes generated packets state the time that a program takes for each.
    pub fn with_work(mut self, work: Work) -> Packets {
        self.work = Some(work);
        self
    }

    /// The IPv4 packets of a pcap or pcapng file, repeated endlessly. Other frames are skipped, and
    /// so are packets that the capture truncates. `path` is used in errors.
    pub fn from_pcap(
        path: &Path,
        content: &[u8],
        maximum_bytes: u32,
    ) -> Result<Packets, PacketError> {
        let (mut rest, mut file) =
            CaptureFile::open(content).map_err(|error| PacketError::NotPcap {
                path: path.into(),
                reason: error.to_string(),
            })?;
        let mut packets = Vec::new();
        let mut frames = 0;
        while !rest.is_empty() {
            let offset = (content.len() - rest.len()) as u64;
            let (behind, frame) = file.next(rest).map_err(|error| PacketError::Broken {
                path: path.into(),
                packet: frames + 1,
                offset,
                reason: match error {
                    PcapError::IncompleteBuffer => "the file ends in the middle of it".to_string(),
                    error => error.to_string(),
                },
            })?;
            rest = behind;
            let Some((link, frame)) = frame else {
                continue;
            };
            frames += 1;
            if !matches!(link, DataLink::ETHERNET | DataLink::RAW | DataLink::IPV4) {
                return Err(PacketError::LinkType {
                    path: path.into(),
                    link: format!("{link:?}"),
                });
            }
            let Some(packet) = ipv4_packet(link, &frame) else {
                continue;
            };
            if packet.len() > maximum_bytes as usize {
                return Err(PacketError::TooLarge {
                    path: path.into(),
                    packet: frames,
                    offset,
                    bytes: packet.len(),
                    maximum: maximum_bytes,
                });
            }
            packets.push(packet.to_vec());
        }
        if packets.is_empty() {
            return Err(PacketError::NoPacket {
                path: path.into(),
                frames,
            });
        }
        Ok(Packets {
            skipped_frames: frames - packets.len() as u64,
            work: None,
            content: Content::Captured {
                path: path.into(),
                packets,
                next: 0,
            },
        })
    }

    /// Sets the kind of items that a program processes. Items from a capture file that are not IP
    /// packets are the payloads of UDP packets; other packets are then skipped.
    pub fn set_kind(&mut self, wanted: ItemKind) -> Result<(), PacketError> {
        if self.work.is_some() && !wanted.is_ip() {
            return Err(PacketError::NoWork {
                kind: wanted.name(),
            });
        }
        match &mut self.content {
            Content::Generated { kind, .. } => *kind = wanted,
            Content::Captured { .. } if wanted.is_ip() => {}
            Content::Captured {
                path,
                packets,
                next: _,
            } => {
                let payloads: Vec<Vec<u8>> = packets
                    .iter()
                    .filter_map(|packet| udp_payload(packet).map(<[u8]>::to_vec))
                    .collect();
                if payloads.is_empty() {
                    return Err(PacketError::NoPayload {
                        path: path.clone(),
                        kind: wanted.name(),
                        packets: packets.len(),
                    });
                }
                self.skipped_frames += (packets.len() - payloads.len()) as u64;
                *packets = payloads;
            }
        }
        Ok(())
    }

    /// The subkind of an item of a program that processes `items`, by which results are separated.
    pub fn kind_of(&self, items: ItemKind, item: &[u8]) -> u8 {
        let by_time = self.work.as_ref().and_then(|work| work.kind_of(item));
        by_time.unwrap_or_else(|| items.kind_of(item))
    }

    /// Number of skipped frames of the capture file.
    pub fn skipped_frames(&self) -> u64 {
        self.skipped_frames
    }

    /// Appends the next item to `to`. `in_warm_start`: it arrives in a warm start, whose items may
    /// have work of their own.
    pub fn append_next(&mut self, to: &mut Vec<u8>, in_warm_start: bool) {
        let begin = to.len();
        match &mut self.content {
            Content::Generated {
                kind,
                bytes,
                operations,
                random,
            } => items::append_generated(*kind, *bytes, operations, random, to),
            Content::Captured { packets, next, .. } => {
                to.extend_from_slice(&packets[*next]);
                *next = (*next + 1) % packets.len();
            }
        }
        if let Some(work) = &mut self.work {
            work.write_next(&mut to[begin..], in_warm_start);
        }
    }
}

/// A capture file in one of the two formats, read block by block.
enum CaptureFile {
    Pcap(PcapParser),
    PcapNg(PcapNgParser),
}

impl CaptureFile {
    /// The first bytes of a pcapng file: the type of its first block.
    const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

    /// Reads the file's header, and returns the rest of the file.
    fn open(content: &[u8]) -> Result<(&[u8], CaptureFile), PcapError> {
        if content.starts_with(&CaptureFile::PCAPNG) {
            let (rest, parser) = PcapNgParser::new(content)?;
            Ok((rest, CaptureFile::PcapNg(parser)))
        } else {
            let (rest, parser) = PcapParser::new(content)?;
            Ok((rest, CaptureFile::Pcap(parser)))
        }
    }

    /// Reads the next block, and returns the rest. `None` in place of a frame and its link type:
    /// the block contains statistics, names or the like.
    #[allow(clippy::type_complexity)]
    fn next<'a>(
        &mut self,
        rest: &'a [u8],
    ) -> Result<(&'a [u8], Option<(DataLink, Cow<'a, [u8]>)>), PcapError> {
        match self {
            CaptureFile::Pcap(parser) => {
                let (rest, packet) = parser.next_packet(rest)?;
                Ok((rest, Some((parser.header().datalink, packet.data))))
            }
            CaptureFile::PcapNg(parser) => {
                let (rest, block) = parser.next_block(rest)?;
                let (interface, data) = match block {
                    Block::EnhancedPacket(packet) => (packet.interface_id as usize, packet.data),
                    Block::SimplePacket(packet) => (0, packet.data),
                    _ => return Ok((rest, None)),
                };
                let link = parser.interfaces().get(interface).map(|one| one.linktype);
                let link = link.ok_or(PcapError::InvalidField(
                    "no block before it describes its interface",
                ))?;
                Ok((rest, Some((link, data))))
            }
        }
    }
}

/// The IPv4 packet in a frame, without Ethernet's padding of short frames; `None` if it is
/// something else or incomplete.
fn ipv4_packet(link: DataLink, frame: &[u8]) -> Option<&[u8]> {
    let packet = if link == DataLink::ETHERNET {
        let mut type_at = 12;
        // One tag of a virtual network (IEEE 802.1Q).
        if frame.get(type_at..type_at + 2)? == [0x81, 0x00] {
            type_at += 4;
        }
        if frame.get(type_at..type_at + 2)? != [0x08, 0x00] {
            return None;
        }
        &frame[type_at + 2..]
    } else {
        frame
    };
    let total = usize::from(u16::from_be_bytes(packet.get(2..4)?.try_into().ok()?));
    (packet[0] >> 4 == 4 && total >= IPV4_HEADER_BYTES).then_some(())?;
    packet.get(..total)
}

/// The payload of a UDP packet; `None` if `packet`, an IPv4 packet with the length in its header,
/// is another one, a fragment, or incomplete.
fn udp_payload(packet: &[u8]) -> Option<&[u8]> {
    let header_bytes = 4 * usize::from(packet[0] & 0xf);
    let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff;
    let is_whole_udp =
        header_bytes >= IPV4_HEADER_BYTES && packet[9] == PROTOCOL_UDP && fragment == 0;
    is_whole_udp.then_some(())?;
    let datagram = packet.get(header_bytes..)?;
    let bytes = usize::from(u16::from_be_bytes(datagram.get(4..6)?.try_into().ok()?));
    datagram.get(UDP_HEADER_BYTES..bytes)
}

/// The Internet checksum (RFC 1071) of `parts`, of which all but the last have an even length:
/// 0 over data that contains its own checksum.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        let (words, last) = part.as_chunks::<2>();
        sum += words
            .iter()
            .map(|&word| u64::from(u16::from_be_bytes(word)))
            .sum::<u64>();
        sum += last.first().map_or(0, |&byte| u64::from(byte) << 8);
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum of the UDP packet in an IPv4 packet without options, whatever its present value: it
/// includes addresses, protocol and length (RFC 768). 0 would mean that there is none.
pub(crate) fn udp_checksum(packet: &[u8]) -> u16 {
    let (header, datagram) = packet.split_at(IPV4_HEADER_BYTES);
    let pseudo_header = [0, PROTOCOL_UDP, datagram[4], datagram[5]];
    let (before, behind) = (&datagram[..6], &datagram[UDP_HEADER_BYTES..]);
    match checksum(&[&header[12..20], &pseudo_header, before, behind]) {
        0 => 0xffff,
        sum => sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    fn random() -> Random {
        Random::new(1, Stream::Packets)
    }

    #[test]
    fn the_checksum_of_rfc_1071() {
        assert_eq!(
            checksum(&[&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]]),
            !0xddf2
        );
        assert_eq!(checksum(&[&[0x00, 0x01], &[0xf2]]), !0xf201);
    }

    fn pcap(link: u32, frames: &[&[u8]]) -> Vec<u8> {
        let mut file = Vec::new();
        file.extend(0xa1b2_c3d4u32.to_le_bytes());
        file.extend([2, 0, 4, 0]);
        file.extend([0; 8]);
        file.extend(65535u32.to_le_bytes());
        file.extend(link.to_le_bytes());
        for frame in frames {
            file.extend([0; 8]);
            file.extend((frame.len() as u32).to_le_bytes());
            file.extend((frame.len() as u32).to_le_bytes());
            file.extend_from_slice(frame);
        }
        file
    }

    /// Blocks of pcapng, each with its length before and after it.
    fn pcapng(blocks: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let mut file = Vec::new();
        for (kind, body) in blocks {
            let padding = body.len().next_multiple_of(4) - body.len();
            let length = (12 + body.len() + padding) as u32;
            file.extend(kind.to_le_bytes());
            file.extend(length.to_le_bytes());
            file.extend_from_slice(body);
            file.extend(vec![0; padding]);
            file.extend(length.to_le_bytes());
        }
        file
    }

    fn section() -> (u32, Vec<u8>) {
        let mut body = 0x1a2b_3c4du32.to_le_bytes().to_vec();
        body.extend([1, 0, 0, 0]);
        body.extend([0xff; 8]); // A length that is not given.
        (0x0a0d_0d0a, body)
    }

    fn interface(link: u16) -> (u32, Vec<u8>) {
        let mut body = link.to_le_bytes().to_vec();
        body.extend([0; 2]);
        body.extend(65535u32.to_le_bytes());
        (1, body)
    }

    fn enhanced(interface: u32, frame: &[u8]) -> (u32, Vec<u8>) {
        let mut body = interface.to_le_bytes().to_vec();
        body.extend([0; 8]); // The time.
        body.extend((frame.len() as u32).to_le_bytes());
        body.extend((frame.len() as u32).to_le_bytes());
        body.extend_from_slice(frame);
        (6, body)
    }

    fn generated(bytes: u32) -> Vec<u8> {
        let mut packet = Vec::new();
        Packets::generated(bytes, &OperationsSpec::default(), random())
            .append_next(&mut packet, false);
        packet
    }

    fn ethernet(kind: u16, content: &[u8], padding: usize) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend(kind.to_be_bytes());
        frame.extend_from_slice(content);
        frame.resize(frame.len() + padding, 0);
        frame
    }

    fn read(name: &str, content: &[u8], maximum: u32) -> Result<Packets, PacketError> {
        Packets::from_pcap(Path::new(name), content, maximum)
    }

    fn message(result: Result<Packets, PacketError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn captured_packets_come_over_and_over() {
        let (first, second) = (generated(40), generated(33));
        let mut tagged = vec![2; 12];
        tagged.extend([0x81, 0x00, 0, 7, 0x08, 0x00]);
        tagged.extend_from_slice(&second);
        let file = pcap(
            1,
            &[
                &ethernet(0x0800, &first, 6),
                &ethernet(0x0806, &[1; 28], 18),
                &tagged,
            ],
        );
        let mut packets = read("good", &file, 40).unwrap();
        assert_eq!(packets.skipped_frames(), 1);
        for expected in [&first, &second, &first] {
            let mut packet = Vec::new();
            packets.append_next(&mut packet, false);
            assert_eq!(&packet, expected);
        }
        assert_eq!(
            read("raw", &pcap(101, &[&first]), 40)
                .unwrap()
                .skipped_frames(),
            0
        );
    }

    #[test]
    fn pcapng_has_interfaces_of_several_link_types() {
        let (first, second) = (generated(40), generated(33));
        let statistics = (5, vec![0; 12]);
        let blocks = [
            section(),
            interface(1),
            interface(101),
            enhanced(1, &second),
            statistics,
            enhanced(0, &ethernet(0x0800, &first, 6)),
            enhanced(0, &ethernet(0x0806, &[1; 28], 18)),
        ];
        let file = pcapng(&blocks);
        let mut packets = read("good", &file, 40).unwrap();
        assert_eq!(packets.skipped_frames(), 1);
        for expected in [&second, &first, &second] {
            let mut packet = Vec::new();
            packets.append_next(&mut packet, false);
            assert_eq!(&packet, expected);
        }

        // The section has 28 bytes, each interface 20, and the first packet 12 + 20 + 36.
        let truncated = message(read("truncated", &file[..28 + 40 + 68 - 1], 40));
        assert!(truncated.contains("packet 1, at byte 68,"), "{truncated}");
        assert!(truncated.contains("ends in the middle"), "{truncated}");
        let orphan = pcapng(&[section(), interface(1), enhanced(1, &first)]);
        let orphan = message(read("orphan", &orphan, 40));
        assert!(orphan.contains("describes its interface"), "{orphan}");
        let wireless = pcapng(&[section(), interface(105), enhanced(0, &first)]);
        assert!(message(read("link", &wireless, 40)).contains("link type"));
        let empty = message(read("empty", &pcapng(&[section()]), 40));
        assert!(empty.contains("its 0 frames"), "{empty}");
    }

    #[test]
    fn payloads_are_those_of_whole_udp_packets() {
        let mut fragment = generated(40);
        fragment[6] = 0x20;
        let mut other = generated(40);
        other[9] = 6;
        let mut long = generated(40);
        long[25] = 21; // The datagram has 20 bytes.
        let mut short = generated(40);
        short[25] = 12; // Four bytes of payload, and eight that are not part of it.
        let frames: [&[u8]; 5] = [&fragment, &other, &long, &short, &generated(31)];

        let mut packets = read("payloads", &pcap(101, &frames), 40).unwrap();
        packets.set_kind(ItemKind::Requests).unwrap();
        assert_eq!(packets.skipped_frames(), 3);
        for expected in [&[0, 1, 2, 3][..], &[0, 1, 2], &[0, 1, 2, 3]] {
            let mut payload = Vec::new();
            packets.append_next(&mut payload, false);
            assert_eq!(payload, expected);
        }

        let mut packets = read("no payload", &pcap(101, &frames[..3]), 40).unwrap();
        packets.set_kind(ItemKind::Sessions).unwrap();
        let error = packets.set_kind(ItemKind::Blocks).unwrap_err().to_string();
        assert!(error.contains("none of its 3 IPv4 packets"), "{error}");
    }

    #[test]
    fn wrong_files_get_a_sentence() {
        let packet = generated(40);
        let good = pcap(101, &[&packet, &packet]);
        assert!(
            message(read("text", b"hello, this is no capture file", 99)).contains("neither a pcap")
        );
        assert!(message(read("empty", b"", 99)).contains("neither a pcap"));
        let truncated = message(read("truncated", &good[..good.len() - 1], 99));
        assert!(truncated.contains("packet 2, at byte 80,"), "{truncated}");
        assert!(truncated.contains("ends in the middle"), "{truncated}");
        assert!(message(read("none", &pcap(101, &[&[0x60; 40]]), 99)).contains("its 1 frames"));
        assert!(message(read("no frames", &pcap(101, &[]), 99)).contains("its 0 frames"));
        assert!(message(read("link", &pcap(105, &[&packet]), 99)).contains("link type"));
        let large = message(read("large", &good, 39));
        assert!(
            large.contains("40 bytes, more than traffic.packet_bytes = 39"),
            "{large}"
        );
    }
}
