//! Rings of descriptors, which the interface reads ahead.

use super::{DmaNic, purpose};
use fabric::AgentContext;
use std::collections::VecDeque;

pub(super) const DESCRIPTOR_BYTES: u64 = 16;

/// Where the upper half of a descriptor is.
pub(super) const STATUS_OFFSET: u64 = 8;

pub(super) const DONE: u16 = 1;

pub(super) const ERROR: u16 = 2;

/// A descriptor, as it was read.
#[derive(Clone, Copy, Debug, Default, state::State, state::Plain)]
pub(super) struct Descriptor {
    /// Where it is.
    pub(super) at: u64,
    pub(super) address: u64,
    pub(super) bytes: u16,
}

/// A ring of descriptors.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
pub(super) struct Ring {
    pub(super) start: u64,
    /// 0: it has not begun.
    pub(super) entries: u32,
    /// How many descriptors the program has given, ...
    pub(super) given: u32,
    /// ... of how many the interface has asked for, ...
    pub(super) asked: u32,
    /// ... how many it has used, ...
    pub(super) used: u32,
    /// ... and those that it has and has not used, in order.
    pub(super) ahead: VecDeque<Descriptor>,
    /// Reads of descriptors that are under way: the first one's number and how many, and what has
    /// come of those that were overtaken.
    pub(super) reading: VecDeque<(u32, Vec<u8>)>,
}

impl Ring {
    /// Where descriptor `number` is.
    pub(super) fn place(&self, number: u32) -> u64 {
        let index = number & self.entries.wrapping_sub(1);
        self.start + u64::from(index) * DESCRIPTOR_BYTES
    }

    /// Which descriptors are to be read next, at most `ahead` ahead of those that have been used
    /// and within `room` bytes up to a multiple of those: the first one's number, and how many.
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

/// The upper half of a descriptor that has been used.
pub(super) fn upper_half(bytes: u16, status: u16, hash: u32) -> Vec<u8> {
    let mut half = Vec::with_capacity(8);
    half.extend(bytes.to_le_bytes());
    half.extend(status.to_le_bytes());
    half.extend(hash.to_le_bytes());
    half
}

impl DmaNic {
    /// Reads descriptors of a ring as far ahead as it may.
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

    /// Descriptors have come, perhaps before some that were asked for sooner.
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
        // The reads are behind what has been used and what is ahead.
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
