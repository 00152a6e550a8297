//! Completions, which the device writes for each item instead of ringing a doorbell, as network
//! interfaces do.

use crate::QueueDescriptor;
use fabric::{LINE_BYTES, LineData, MemoryAccess};

const LINE: u64 = LINE_BYTES as u64;

/// The way in which items are announced: `enum io_completions` in `guest/include/io.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub(crate) enum Completions {
    /// Its queue's doorbell is rung.
    #[default]
    None = 0,
    /// A completion of 64 bytes with an owner bit is written.
    OwnerBit = 1,
    /// A descriptor of 16 bytes with a done bit is written back.
    DoneBit = 2,
}

impl Completions {
    pub(crate) fn from_register(value: u64) -> Option<Completions> {
        [
            Completions::None,
            Completions::OwnerBit,
            Completions::DoneBit,
        ]
        .into_iter()
        .find(|&format| format as u64 == value)
    }

    /// Bytes of an entry of the ring.
    pub(crate) fn entry_bytes(self) -> u64 {
        match self {
            Completions::None => 0,
            Completions::OwnerBit => LINE,
            Completions::DoneBit => 16,
        }
    }

    /// The write that announces the item with this index in a queue; the item has `bytes` bytes.
    pub(crate) fn announce(
        self,
        descriptor: &QueueDescriptor,
        slots: u32,
        index: u32,
        packet_bytes: u32,
    ) -> MemoryAccess {
        let mut data = LineData::ZERO;
        let bytes = &mut data.0;
        match self {
            Completions::None => {
                return MemoryAccess::FetchAdd {
                    address: descriptor.doorbell,
                    addend: 1,
                };
            }
            // A completion of ConnectX: the length at byte 44 and the index of the receive entry
            // at byte 60, big-endian; in the last byte the opcode, 2 for a receive, above the
            // owner bit, which changes with each lap of the ring ("Adapters Programmer's Reference
            // Manual", completion queue entry). No program here reads its other fields.
            Completions::OwnerBit => {
                bytes[44..48].copy_from_slice(&packet_bytes.to_be_bytes());
                bytes[60..62].copy_from_slice(&(index as u16).to_be_bytes());
                bytes[63] = 2 << 4 | (index / slots % 2) as u8;
            }
            // An advanced receive descriptor in its write-back format: the status at byte 8, with
            // bit 0 for done and bit 1 for the end of the packet, and the length at byte 12 (Intel,
            // "82599 10 GbE Controller Datasheet", Section 7.1.6.2).
            Completions::DoneBit => {
                bytes[8] = 3;
                bytes[12..14].copy_from_slice(&(packet_bytes as u16).to_le_bytes());
            }
        }
        MemoryAccess::Write {
            address: descriptor.completions + u64::from(index % slots) * self.entry_bytes(),
            bytes: self.entry_bytes() as u8,
            data,
        }
    }
}
