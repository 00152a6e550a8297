//! What items contain: generated packets, or those of a capture file.

use crate::Random;
use pcap_file::DataLink;
use pcap_file::pcap::PcapParser;
use state::{State, Walker};
use std::fs;
use std::path::{Path, PathBuf};

const IPV4_HEADER_BYTES: usize = 20;
const UDP_HEADER_BYTES: usize = 8;

/// The shortest packet that can be generated: headers only.
pub(crate) const MINIMUM_PACKET_BYTES: u32 = (IPV4_HEADER_BYTES + UDP_HEADER_BYTES) as u32;

/// A capture file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// It cannot be read.
    #[error("{path}: the capture file cannot be read: {reason}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// It is something else.
    #[error(
        "{path}: this is not a pcap file: {reason}. Files in the newer pcapng format can be converted with `editcap -F pcap`"
    )]
    NotPcap {
        /// The file.
        path: PathBuf,
        /// What is wrong with its header.
        reason: String,
    },
    /// It ends early or has a broken record.
    #[error("{path}: packet {packet}, at byte {offset}, cannot be read: {reason}")]
    Broken {
        /// The file.
        path: PathBuf,
        /// The packet's number, from 1.
        packet: u64,
        /// Where its record begins.
        offset: u64,
        /// What is wrong with it.
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
        /// How many frames there are.
        frames: u64,
    },
    /// A packet does not fit into a slot.
    #[error(
        "{path}: packet {packet}, at byte {offset}, has {bytes} bytes, more than traffic.packet_bytes = {maximum}"
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The packet's number, from 1.
        packet: u64,
        /// Where its record begins.
        offset: u64,
        /// Its length.
        bytes: usize,
        /// The largest that is accepted.
        maximum: u32,
    },
}

/// A sequence of packets without end.
#[derive(Clone, Debug)]
pub struct Packets {
    content: Content,
    skipped_frames: u64,
}

state::component!(Packets {
    content,
    skipped_frames: fixed
});

#[derive(Clone, Debug)]
enum Content {
    Generated { bytes: usize, random: Random },
    Captured { packets: Vec<Vec<u8>>, next: usize },
}

impl State for Content {
    fn walk(&mut self, walker: &mut dyn Walker) {
        match self {
            Content::Generated { bytes: _, random } => random.walk(walker),
            Content::Captured { packets: _, next } => next.walk(walker),
        }
    }
}

impl Packets {
    /// IPv4 packets of `bytes` (28 to 65535) bytes with UDP in them: valid checksums, and
    /// random addresses, ports and identification. The payload counts upwards.
    pub fn generated(bytes: u32, random: Random) -> Packets {
        let bytes = bytes.clamp(MINIMUM_PACKET_BYTES, 65535) as usize;
        Packets {
            content: Content::Generated { bytes, random },
            skipped_frames: 0,
        }
    }

    /// The IPv4 packets of a pcap file, over and over. Other frames are skipped, and so are
    /// packets of which the capture has only the beginning.
    pub fn from_pcap(path: &Path, maximum_bytes: u32) -> Result<Packets, PacketError> {
        let content = fs::read(path).map_err(|error| PacketError::Unreadable {
            path: path.into(),
            reason: error.to_string(),
        })?;
        Packets::from_pcap_bytes(path, &content, maximum_bytes)
    }

    /// As [`Packets::from_pcap`], out of the contents of a file whose name is used in errors.
    pub fn from_pcap_bytes(
        path: &Path,
        content: &[u8],
        maximum_bytes: u32,
    ) -> Result<Packets, PacketError> {
        let (mut rest, parser) =
            PcapParser::new(content).map_err(|error| PacketError::NotPcap {
                path: path.into(),
                reason: error.to_string(),
            })?;
        let link = parser.header().datalink;
        if !matches!(link, DataLink::ETHERNET | DataLink::RAW | DataLink::IPV4) {
            return Err(PacketError::LinkType {
                path: path.into(),
                link: format!("{link:?}"),
            });
        }

        let mut packets = Vec::new();
        let mut frames = 0;
        while !rest.is_empty() {
            let offset = (content.len() - rest.len()) as u64;
            frames += 1;
            let (behind, frame) =
                parser
                    .next_packet(rest)
                    .map_err(|error| PacketError::Broken {
                        path: path.into(),
                        packet: frames,
                        offset,
                        reason: match error {
                            pcap_file::PcapError::IncompleteBuffer => {
                                "the file ends in the middle of it".to_string()
                            }
                            error => error.to_string(),
                        },
                    })?;
            rest = behind;
            let Some(packet) = ipv4_packet(link, &frame.data) else {
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
            content: Content::Captured { packets, next: 0 },
        })
    }

    /// How many frames of the capture file were skipped.
    pub fn skipped_frames(&self) -> u64 {
        self.skipped_frames
    }

    /// Appends the next packet to `to`.
    pub fn append_next(&mut self, to: &mut Vec<u8>) {
        match &mut self.content {
            Content::Generated { bytes, random } => append_generated(*bytes, random, to),
            Content::Captured { packets, next } => {
                to.extend_from_slice(&packets[*next]);
                *next = (*next + 1) % packets.len();
            }
        }
    }
}

/// The IPv4 packet in a frame, without what Ethernet adds to short ones; `None` if it is something
/// else or not whole.
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

fn append_generated(bytes: usize, random: &mut Random, to: &mut Vec<u8>) {
    let start = to.len();
    to.resize(start + bytes, 0);
    let (header, datagram) = to[start..].split_at_mut(IPV4_HEADER_BYTES);

    let flow = random.bits().to_be_bytes();
    let ports = random.bits().to_be_bytes();
    header[0] = 0x45; // Version 4, five words of header.
    header[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
    header[4..6].copy_from_slice(&ports[4..6]); // Identification.
    header[8] = 64; // Time to live.
    header[9] = 17; // UDP.
    header[12] = 10; // From 10.0.0.0/8 to 10.0.0.0/8: private addresses (RFC 1918).
    header[13..16].copy_from_slice(&flow[0..3]);
    header[16] = 10;
    header[17..20].copy_from_slice(&flow[3..6]);
    let sum = checksum(&[header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());

    let datagram_bytes = (datagram.len() as u16).to_be_bytes();
    datagram[0..4].copy_from_slice(&ports[0..4]);
    datagram[4..6].copy_from_slice(&datagram_bytes);
    for (place, byte) in datagram[UDP_HEADER_BYTES..].iter_mut().enumerate() {
        *byte = place as u8;
    }
    // Over addresses, protocol and length too (RFC 768). 0 would mean that there is none.
    let pseudo_header = [0, 17, datagram_bytes[0], datagram_bytes[1]];
    let sum = match checksum(&[&header[12..20], &pseudo_header, datagram]) {
        0 => 0xffff,
        sum => sum,
    };
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    fn random() -> Random {
        Random::new(1, Stream::Packets)
    }

    #[test]
    fn generated_packets_are_valid() {
        for bytes in [28, 29, 64, 1024, 65535] {
            let mut packets = Packets::generated(bytes, random());
            let mut flows = std::collections::BTreeSet::new();
            for _ in 0..50 {
                let mut packet = Vec::new();
                packets.append_next(&mut packet);
                assert_eq!(packet.len(), bytes as usize);
                assert_eq!(packet[0], 0x45);
                assert_eq!(u16::from_be_bytes([packet[2], packet[3]]) as u32, bytes);
                assert_eq!(checksum(&[&packet[..20]]), 0);
                let pseudo_header = [0, 17, packet[24], packet[25]];
                assert_eq!(
                    checksum(&[&packet[12..20], &pseudo_header, &packet[20..]]),
                    0
                );
                flows.insert(packet[12..24].to_vec());
            }
            assert!(flows.len() > 45);
        }
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

    fn generated(bytes: u32) -> Vec<u8> {
        let mut packet = Vec::new();
        Packets::generated(bytes, random()).append_next(&mut packet);
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
        let path = std::env::temp_dir().join(format!("nanoplane-{}-{name}", std::process::id()));
        fs::write(&path, content).unwrap();
        let result = Packets::from_pcap(&path, maximum);
        fs::remove_file(&path).unwrap();
        result
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
            packets.append_next(&mut packet);
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
    fn wrong_files_get_a_sentence() {
        let packet = generated(40);
        let good = pcap(101, &[&packet, &packet]);
        assert!(
            message(read("text", b"hello, this is no capture file", 99)).contains("not a pcap")
        );
        assert!(message(read("empty", b"", 99)).contains("not a pcap"));
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
        let missing = Packets::from_pcap(Path::new("/nowhere/trace.pcap"), 1);
        assert!(message(missing).starts_with("/nowhere/trace.pcap: "));
    }
}
