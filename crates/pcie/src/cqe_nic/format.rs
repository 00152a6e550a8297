//! Work requests and completions in memory. All numbers are big-endian.
//!
//! The layouts are those of the "Mellanox Adapters Programmer's Reference Manual" (Revision 0.40,
//! "Work Request (WQE) Formats" and "Completion Queue Entry (CQE)"); fields that the interface does
//! not use are 0.

/// Bytes of a block of a send queue, and of a completion.
pub const BLOCK_BYTES: usize = 64;
/// Bytes of a segment of a send request, and of a whole receive request.
pub const SEGMENT_BYTES: usize = 16;

/// Operations of a send queue.
mod operation {
    pub const NOP: u8 = 0x00;
    pub const SEND: u8 = 0x0a;
    /// Each segment after the first two is a packet: `ENHANCED_MPSW`.
    pub const SEND_PACKETS: u8 = 0x29;
}

/// The kind of a completion: the upper four bits of its last byte.
pub mod completion {
    pub const SENT: u8 = 0x0;
    pub const RECEIVED: u8 = 0x2;
    pub const SEND_ERROR: u8 = 0xd;
    pub const RECEIVE_ERROR: u8 = 0xe;
}

/// Bits 2 and 3 of a completion's last byte, its format: a title of compressed completions.
const COMPRESSED: u8 = 0x0c;
/// Bytes of one of the completions that a title represents.
pub const MINI_BYTES: usize = 8;

/// The cause of a work request's failure: the syndrome of its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// The buffer is too short.
    Length = 0x01,
    /// The work request is invalid.
    Operation = 0x02,
    /// The memory does not exist.
    Protection = 0x04,
}

/// Bit 31 of a segment's length: the data follow the length.
const INLINE: u32 = 1 << 31;
/// Bits 3 and 2 of byte 11: the work request completes.
const COMPLETES: u8 = 0x08;
/// The position, in the Ethernet segment, of the length of the headers that follow.
const INLINE_HEADER_AT: usize = SEGMENT_BYTES + 12;
/// The position of a completion's byte count.
const BYTE_COUNT_AT: usize = 44;
/// Bytes of these headers that are inside the Ethernet segment.
const HEADER_INSIDE: usize = 2;

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// A buffer that a segment describes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub struct Segment {
    pub address: u64,
    pub bytes: u32,
}

impl Segment {
    /// The segment in these 16 bytes: length, key (ignored), address.
    pub fn of(bytes: &[u8]) -> Segment {
        Segment {
            address: number(&bytes[8..16]),
            bytes: number(&bytes[0..4]) as u32,
        }
    }
}

/// The first eight bytes of a send request, which a doorbell repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    pub operation: u8,
    /// The number of its first block, modulo 2^16.
    pub block: u16,
    /// Number of segments in the whole work request.
    pub segments: u8,
}

impl Control {
    pub fn of(bytes: [u8; 8]) -> Control {
        Control {
            operation: bytes[3],
            block: u16::from_be_bytes([bytes[1], bytes[2]]),
            segments: bytes[7] & 0x3f,
        }
    }

    /// Number of blocks in the work request.
    pub fn blocks(&self) -> usize {
        usize::from(self.segments)
            .div_ceil(BLOCK_BYTES / SEGMENT_BYTES)
            .max(1)
    }
}

/// A part of a frame to send.
#[derive(Clone, Debug, PartialEq, Eq, state::State, state::Plain)]
pub enum Part {
    /// In the work request.
    Inline(Vec<u8>),
    /// In memory.
    InMemory(Segment),
}

/// A decoded send request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// The parts of each of its frames.
    pub frames: Vec<Vec<Part>>,
    pub completes: bool,
}

/// Decodes the work request in these blocks; the error is the end of a sentence.
pub fn send_request(bytes: &[u8]) -> Result<SendRequest, String> {
    let mut first = [0; 8];
    first.copy_from_slice(&bytes[..8]);
    let control = Control::of(first);
    let end = usize::from(control.segments) * SEGMENT_BYTES;
    let completes = bytes[11] & COMPLETES != 0;
    let frames = match control.operation {
        operation::NOP => Vec::new(),
        operation::SEND | operation::SEND_PACKETS if end < 2 * SEGMENT_BYTES => {
            return Err(format!(
                "has {} segments; it must have at least the control and the Ethernet segment",
                control.segments
            ));
        }
        operation::SEND => {
            let header = number(&bytes[INLINE_HEADER_AT..INLINE_HEADER_AT + 2]) as usize;
            let start = INLINE_HEADER_AT + 2;
            let behind = header.saturating_sub(HEADER_INSIDE);
            let at = 2 * SEGMENT_BYTES + behind.next_multiple_of(SEGMENT_BYTES);
            if at > end {
                return Err(format!(
                    "has {header} bytes of headers, which exceed its {} segments",
                    control.segments
                ));
            }
            let mut frame = Vec::new();
            if header > 0 {
                frame.push(Part::Inline(bytes[start..start + header].to_vec()));
            }
            frame.extend(parts(&bytes[at..end])?);
            vec![frame]
        }
        operation::SEND_PACKETS => {
            let parts = parts(&bytes[2 * SEGMENT_BYTES..end])?.into_iter();
            parts.map(|part| vec![part]).collect()
        }
        other => {
            return Err(format!(
                "has the operation {other:#04x}; it must be 0x0a (send), 0x29 (send packets) or 0x00"
            ));
        }
    };
    Ok(SendRequest { frames, completes })
}

/// Decodes consecutive segments.
fn parts(mut bytes: &[u8]) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    while bytes.len() >= SEGMENT_BYTES {
        let length = number(&bytes[..4]) as u32;
        let mut taken = SEGMENT_BYTES;
        parts.push(match length & INLINE {
            0 => Part::InMemory(Segment::of(bytes)),
            _ => {
                let length = (length & !INLINE) as usize;
                taken = (4 + length).next_multiple_of(SEGMENT_BYTES);
                let data = bytes.get(4..4 + length).ok_or_else(|| {
                    format!(
                        "has {length} bytes of inline data, which extend beyond its last \
                     segment"
                    )
                })?;
                Part::Inline(data.to_vec())
            }
        });
        bytes = &bytes[taken.min(bytes.len())..];
    }
    Ok(parts)
}

/// A decoded completion.
#[derive(Clone, Copy, Debug, Default)]
pub struct Completion {
    /// Its kind, from [`completion`].
    pub kind: u8,
    /// The hash of receive-side scaling.
    pub hash: u32,
    /// Bytes of the frame; in a queue with strides, also the number of strides times 2^16.
    pub byte_count: u32,
    /// The queue's number.
    pub queue: u32,
    /// The buffer that contains the stride in `counter`.
    pub buffer: u16,
    /// The completed work request: the number of a buffer, of a stride, or of the first block of a
    /// send request.
    pub counter: u16,
    /// The cause of its failure, if it failed.
    pub syndrome: Option<Syndrome>,
    /// Nanoseconds of the interface's clock, if it has not failed.
    pub timestamp: u64,
}

impl Completion {
    /// Its encoding, without the owner bit.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK_BYTES];
        bytes[2..4].copy_from_slice(&self.buffer.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.hash.to_be_bytes());
        bytes[BYTE_COUNT_AT..BYTE_COUNT_AT + 4].copy_from_slice(&self.byte_count.to_be_bytes());
        match self.syndrome {
            None => bytes[48..56].copy_from_slice(&self.timestamp.to_be_bytes()),
            Some(syndrome) => bytes[55] = syndrome as u8,
        }
        bytes[57..60].copy_from_slice(&self.queue.to_be_bytes()[1..]);
        bytes[60..62].copy_from_slice(&self.counter.to_be_bytes());
        bytes[63] = self.kind << 4;
        bytes
    }
}

/// Makes a completion the title of `minis` completions.
pub fn compressed(title: &mut [u8], minis: u32) {
    title[BYTE_COUNT_AT..BYTE_COUNT_AT + 4].copy_from_slice(&minis.to_be_bytes());
    title[BLOCK_BYTES - 1] |= COMPRESSED;
}

/// The array element of a completion: hash and byte count.
pub fn mini(completion: &Completion) -> impl Iterator<Item = u8> + use<> {
    let words = [completion.hash, completion.byte_count];
    words.into_iter().flat_map(u32::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(operation: u8, segments: u8, completes: bool) -> Vec<u8> {
        let mut bytes = vec![0, 0x12, 0x34, operation, 0, 0, 7, segments];
        bytes.extend([0, 0, 0, if completes { 0x08 } else { 0 }, 0, 0, 0, 0]);
        bytes
    }

    fn pointer(address: u64, bytes: u32) -> Vec<u8> {
        let mut segment = bytes.to_be_bytes().to_vec();
        segment.extend([0; 4]);
        segment.extend(address.to_be_bytes());
        segment
    }

    #[test]
    fn a_request_gathers_headers_inline_data_and_buffers() {
        // 18 bytes of headers: two are in the Ethernet segment, and 16 follow it.
        let mut bytes = control(0x0a, 6, true);
        bytes.extend([0; 12]);
        bytes.extend([0, 18]);
        bytes.extend(1..=18);
        bytes.extend((INLINE | 5).to_be_bytes());
        bytes.extend([91, 92, 93, 94, 95, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(pointer(0x8000_1234, 100));
        bytes.extend(pointer(0x8000_4000, 7));
        let segment = |address, bytes| Part::InMemory(Segment { address, bytes });
        let expected = vec![
            Part::Inline((1..=18).collect()),
            Part::Inline(vec![91, 92, 93, 94, 95]),
            segment(0x8000_1234, 100),
            segment(0x8000_4000, 7),
        ];
        assert_eq!(
            send_request(&bytes),
            Ok(SendRequest {
                frames: vec![expected],
                completes: true
            })
        );
        let mut first = [0; 8];
        first.copy_from_slice(&bytes[..8]);
        let control = Control::of(first);
        assert_eq!((control.block, control.segments), (0x1234, 6));
        assert_eq!(control.blocks(), 2);
    }

    #[test]
    fn a_request_of_packets_has_one_for_each_segment() {
        let mut bytes = control(0x29, 4, false);
        bytes.extend([0; 16]);
        bytes.extend(pointer(0x8000_0000, 64));
        bytes.extend(pointer(0x8000_0800, 65));
        let request = send_request(&bytes).unwrap();
        assert_eq!(request.frames.len(), 2);
        assert!(!request.completes);
    }

    #[test]
    fn what_cannot_be_is_told() {
        let of = |operation, segments| {
            let mut bytes = control(operation, segments, false);
            bytes.resize(64, 0);
            send_request(&bytes).unwrap_err()
        };
        assert!(of(0x0b, 3).starts_with("has the operation 0x0b; it must be"));
        assert!(of(0x0a, 1).starts_with("has 1 segments; it must have"));
        let mut bytes = control(0x0a, 3, false);
        bytes.resize(28, 0);
        bytes.extend([0, 99]);
        bytes.resize(64, 0);
        assert!(
            send_request(&bytes)
                .unwrap_err()
                .starts_with("has 99 bytes of headers")
        );
        let mut bytes = control(0x29, 3, false);
        bytes.resize(32, 0);
        bytes.extend((INLINE | 40).to_be_bytes());
        bytes.resize(64, 0);
        assert!(
            send_request(&bytes)
                .unwrap_err()
                .starts_with("has 40 bytes of inline data")
        );
    }
}
