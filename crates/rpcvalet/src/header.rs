//! Headers of packets between nodes that write messages into each other's slots and read and write
//! each other's memory. The entries of queue pairs have the same first word.
//!
//! One-sided operations are those of Novakovic et al. (ASPLOS 2014), messages those of Daglis et
//! al. (ASPLOS 2019, Section 4.2). Each names its *context*, a global address space in which every
//! participating node has a segment.

/// Bytes of a packet with a cache block: the block, and a header of the network's and the
/// transport's fields.
pub const BLOCK_PACKET_BYTES: u64 = 80;
/// Bytes of a packet without a block.
pub const CONTROL_PACKET_BYTES: u64 = 16;

/// The position of the first word of a work-queue entry in its line: it is written last.
pub const WORK_HEADER_AT: u64 = 56;

/// The kind of a packet, or of an entry of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A block of a message.
    Send = 1,
    /// The message in this slot has been processed: the slot is free.
    Replenish = 2,
    /// Requests a block of the receiver's memory.
    Read = 3,
    /// The requested block.
    ReadReply = 4,
    /// A block for the receiver's memory.
    Write = 5,
    /// The block has been written.
    WriteReply = 6,
    /// A message was rejected: its slot is in use, or it does not fit.
    Refused = 7,
    /// A block was neither read nor written; the bytes are a [`Status`].
    Fault = 8,
    /// In a work queue: send a message.
    PostSend = 32,
    /// In a work queue: a message has been processed.
    PostReplenish = 33,
    /// In a work queue: read from a node's memory.
    PostRead = 34,
    /// In a work queue: write to a node's memory.
    PostWrite = 35,
    /// On the chip: a message has been received completely.
    Received = 36,
    /// On the chip, and in a completion queue: a message for this core.
    Dispatch = 37,
    /// On the chip, and in a completion queue: a read or a write has ended; the bytes are a
    /// [`Status`].
    Completed = 38,
    /// On the chip: a context has been opened.
    Open = 39,
}

impl Kind {
    const ALL: [Kind; 16] = [
        Kind::Send,
        Kind::Replenish,
        Kind::Read,
        Kind::ReadReply,
        Kind::Write,
        Kind::WriteReply,
        Kind::Refused,
        Kind::Fault,
        Kind::PostSend,
        Kind::PostReplenish,
        Kind::PostRead,
        Kind::PostWrite,
        Kind::Received,
        Kind::Dispatch,
        Kind::Completed,
        Kind::Open,
    ];
}

/// The result of a read or a write, the same as `enum sonuma_error` in `guest/include/sonuma.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It succeeded.
    Done = 0,
    /// The node has registered no segment with the context.
    NoContext = 1,
    /// A block of it is outside the node's segment.
    OutsideSegment = 2,
}

/// The maximum number of contexts in a header.
pub const MAX_CONTEXTS: usize = 1 << CONTEXT_BITS;
/// The maximum numbers of nodes, of slots of each node, and of bytes of a message in a header.
pub const MAX_NODES: u32 = 1 << NODE_BITS;
/// See [`MAX_NODES`].
pub const MAX_SLOTS: u32 = 1 << SLOT_BITS;
/// See [`MAX_NODES`].
pub const MAX_BYTES: u32 = (1 << BYTES_BITS) - 1;

/// The largest block number of a segment in a header.
pub const MAX_BLOCK: u32 = (1 << (INDEX_BITS + BYTES_BITS)) - 1;

/// Bits of the numbers of nodes and slots, and of the bytes of the largest message.
pub const DOMAIN_BITS: u32 = NODE_BITS + SLOT_BITS + BYTES_BITS;

const KIND_BITS: u32 = 6;
const NODE_BITS: u32 = 14;
const SLOT_BITS: u32 = 12;
const INDEX_BITS: u32 = 10;
const CONTEXT_BITS: u32 = 4;
const BYTES_BITS: u32 = 18;

/// The first word of a packet or of an entry of a queue pair: from the low bits to the high ones
/// its kind, node, slot, index, context and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its kind.
    pub kind: Kind,
    /// Its source or destination node.
    pub node: u16,
    /// The slot of the message, or the number of the one-sided operation.
    pub slot: u16,
    /// The block of the message. In entries of queue pairs its lowest bit is the phase: 1 in the
    /// first lap of the ring, 0 in the second, and so on.
    pub index: u16,
    /// The context: its number in the nodes' context tables.
    pub context: u8,
    /// Bytes of the whole message.
    pub bytes: u32,
}

impl Header {
    /// Encodes it as a number.
    pub fn encode(&self) -> u64 {
        let mut word = 0;
        for (value, bits) in [
            (u64::from(self.bytes), BYTES_BITS),
            (u64::from(self.context), CONTEXT_BITS),
            (u64::from(self.index), INDEX_BITS),
            (u64::from(self.slot), SLOT_BITS),
            (u64::from(self.node), NODE_BITS),
            (self.kind as u64, KIND_BITS),
        ] {
            word = word << bits | value & ((1u64 << bits) - 1);
        }
        word
    }

    /// Decodes a number; `None` if there is no such kind.
    pub fn decode(word: u64) -> Option<Header> {
        let mut word = word;
        let mut take = |bits: u32| {
            let value = word & ((1u64 << bits) - 1);
            word >>= bits;
            value
        };
        let code = take(KIND_BITS);
        let kind = Kind::ALL.into_iter().find(|&kind| kind as u64 == code)?;
        Some(Header {
            kind,
            node: take(NODE_BITS) as u16,
            slot: take(SLOT_BITS) as u16,
            index: take(INDEX_BITS) as u16,
            context: take(CONTEXT_BITS) as u8,
            bytes: take(BYTES_BITS) as u32,
        })
    }

    /// The same header with another kind.
    pub fn of_kind(self, kind: Kind) -> Header {
        Header { kind, ..self }
    }

    /// For one-sided operations, which need no other fields: the number of the accessed block in
    /// the segment.
    pub fn block(&self) -> u32 {
        self.bytes << INDEX_BITS | u32::from(self.index)
    }

    /// The same header with another block.
    pub fn at_block(self, block: u32) -> Header {
        Header {
            index: (block & ((1 << INDEX_BITS) - 1)) as u16,
            bytes: block >> INDEX_BITS,
            ..self
        }
    }

    /// Number of cache blocks of the message.
    pub fn blocks(&self) -> u32 {
        self.bytes.div_ceil(64)
    }

    /// A number that is unique to each message.
    fn hash(&self) -> u64 {
        // The last steps of SplitMix64 (Steele, Lea and Flood 2014).
        let place =
            u64::from(self.context) << 32 | u64::from(self.node) << 16 | u64::from(self.slot);
        let mut mixed = place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The backend, out of `backends`, for an incoming packet that is not part of a message to the
    /// server: a hash of its context, node and slot, which spreads packets almost evenly.
    pub fn backend(&self, backends: usize) -> usize {
        ((self.hash() >> 32) % backends as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_being_a_number() {
        for kind in Kind::ALL {
            let header = Header {
                kind,
                node: (MAX_NODES - 1) as u16,
                slot: (MAX_SLOTS - 2) as u16,
                index: (1 << INDEX_BITS) - 3,
                context: (MAX_CONTEXTS - 2) as u8,
                bytes: MAX_BYTES - 4,
            };
            assert_eq!(Header::decode(header.encode()), Some(header));
        }
        assert_eq!(Header::decode(0), None);
        assert_eq!(
            KIND_BITS + NODE_BITS + SLOT_BITS + INDEX_BITS + CONTEXT_BITS + BYTES_BITS,
            64
        );
        // Blocks of the largest message, and of a segment of 16 GiB.
        assert_eq!(1 << INDEX_BITS, 65536 / 64);
        let header = Header::decode(Kind::Read as u64).unwrap();
        assert_eq!(header.at_block(MAX_BLOCK).block(), MAX_BLOCK);
        assert_eq!(u64::from(MAX_BLOCK) + 1, (16 << 30) / 64);
    }

    #[test]
    fn messages_are_spread_evenly_over_backends() {
        let mut counts = [0u32; 4];
        for node in 0..200 {
            for slot in 0..32 {
                let (kind, index, context, bytes) = (Kind::Send, 0, 0, 64);
                let header = Header {
                    kind,
                    node,
                    slot,
                    index,
                    context,
                    bytes,
                };
                counts[header.backend(4)] += 1;
            }
        }
        // 6400 of 4: 1600 each, with a standard deviation of 35.
        assert!(
            counts.iter().all(|count| count.abs_diff(1600) < 140),
            "{counts:?}"
        );
    }
}
