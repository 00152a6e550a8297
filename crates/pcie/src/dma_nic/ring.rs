//! Rings of descriptors, which the interface reads ahead.

use super::{DmaNic, purpose};
use fabric::AgentContext;
use std::collections::VecDeque;

pub(super) const DESCRIPTOR_BYTES: u64 = 16;

/// The offset of the upper half of a descriptor.
pub(super) const STATUS_OFFSET: u64 = 8;

pub(super) const DONE: u16 = 1;

pub(super) const ERROR: u16 = 2;

/// A descriptor, as it was read.
#[derive(Clone, Copy, Debug, Default, state::State, state::Plain)]
pub(super) struct Descriptor {
    /// Its address.
    pub(super) at: u64,
    pub(super) address: u64,
    pub(super) bytes: u16,
}

/// A ring of descriptors.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
pub(super) struct Ring {
    pub(super) start: u64,
    /// Number of entries; 0 until the ring is started.
    pub(super) entries: u32,
    /// Number of descriptors that the program has posted.
    pub(super) given: u32,
    /// Number of descriptors that the interface has requested.
    pub(super) asked: u32,
    /// Number of descriptors that it has used.
    pub(super) used: u32,
    /// Descriptors that it has read but not used, in order.
    pub(super) ahead: VecDeque<Descriptor>,
    /// Outstanding reads of descriptors: the number of descriptors of each, and the data of those
    /// that returned out of order.
    pub(super) reading: VecDeque<(u32, Vec<u8>)>,
}

impl Ring {
    /// The address of descriptor `number`.
    pub(super) fn place(&self, number: u32) -> u64 {
        let index = number & self.entries.wrapping_sub(1);
        self.start + u64::from(index) * DESCRIPTOR_BYTES
    }

    /// The descriptors to read next, at most `ahead` beyond the used ones and within `room` bytes
    /// up to a multiple of those: the first number and the count.
    fn next_read(&self, ahead: u32, room: u64) -> Option<(u32, u32)> {
        let unread = self.given.wrapping_sub(self.asked);
        let held = self.asked.wrapping_sub(self.used);
        let start = self.place(self.asked);
        let to_boundary = (room - start % room) / DESCRIPTOR_BYTES;
        let to_end = self.entries - (self.asked & self.entries.wrapping_sub(1));
        let count = unread
            .min(ahead.saturating_sub(held))
            .min(to_boundary as u32)
            .min(to_end);
        (count > 0).then_some((self.asked, count))
    }
}

/// The upper half of a used descriptor.
pub(super) fn upper_half(bytes: u16, status: u16, hash: u32) -> Vec<u8> {
    let mut half = Vec::with_capacity(8);
    half.extend(bytes.to_le_bytes());
    half.extend(status.to_le_bytes());
    half.extend(hash.to_le_bytes());
    half
}

impl DmaNic {
    /// Reads descriptors of a ring as far ahead as allowed.
    pub(super) fn read_descriptors(&mut self, context: &mut AgentContext<'_>, number: usize) {
        let room = u64::from(self.spec.express.payload_bytes);
        let Some(ring) = self.rings.get_mut(number) else {
            return;
        };
        while let Some((first, count)) = ring.next_read(self.spec.descriptors_ahead, room) {
            ring.asked = first.wrapping_add(count);
            ring.reading.push_back((count, Vec::new()));
            let range = (ring.place(first), count * DESCRIPTOR_BYTES as u32);
            let token = purpose::DESCRIPTORS | (number as u64) << 32 | u64::from(first);
            self.express.read(context, token, range);
        }
    }

    /// Handles returned descriptors, whose reads may have overtaken earlier ones.
    pub(super) fn descriptors_read(
        &mut self,
        context: &mut AgentContext<'_>,
        index: u64,
        data: Vec<u8>,
    ) {
        let number = (index >> 32) as usize;
        let first = index as u32;
        let Some(ring) = self.rings.get_mut(number) else {
            return;
        };
        // The reads follow the used descriptors and those in `ahead`.
        let mut next = ring.used.wrapping_add(ring.ahead.len() as u32);
        let begin = next;
        for (count, came) in &mut ring.reading {
            if next == first {
                *came = data;
                break;
            }
            next = next.wrapping_add(*count);
        }
        next = begin;
        while let Some((count, came)) = ring.reading.pop_front_if(|(_, came)| !came.is_empty()) {
            for (place, bytes) in came.chunks_exact(DESCRIPTOR_BYTES as usize).enumerate() {
                let field = |range: std::ops::Range<usize>| {
                    let digits = bytes[range].iter().rev();
                    digits.fold(0u64, |value, &byte| value << 8 | u64::from(byte))
                };
                ring.ahead.push_back(Descriptor {
                    at: ring.place(next.wrapping_add(place as u32)),
                    address: field(0..8),
                    bytes: field(8..10) as u16,
                });
            }
            next = next.wrapping_add(count);
        }
        match number % 2 {
            0 => self.deliver(context, number / 2),
            _ => self.read_frames(context),
        }
    }
}
