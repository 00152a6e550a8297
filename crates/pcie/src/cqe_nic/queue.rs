//! Common parts of the interface's queues: setup and completions.

use super::format::{BLOCK_BYTES, Completion};
use fabric::Time;
use std::collections::VecDeque;

/// Registers of a queue, as offsets in its half of a page; the last one starts the queue.
pub mod register {
    fabric::registers! { u64:
        RING = 0x00;
        STRIDES = 0x08;
        RECORD = 0x10;
        COMPLETIONS = 0x18;
        COMPLETIONS_RECORD = 0x20;
        COMPLETION_ENTRIES = 0x28;
        ENTRIES = 0x30;
        COMPRESSION = 0x38;
    }
}

/// The location of a queue in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub struct Setup {
    pub ring: u64,
    /// Bits 0 to 7: the binary logarithm of the number of strides in a buffer; 8 to 15: that of
    /// their size in bytes. 0: a buffer takes one packet.
    pub strides: u64,
    /// The address of the producer's doorbell record.
    pub record: u64,
    pub completions: u64,
    /// The address of the doorbell record of the completions' consumer.
    pub completions_record: u64,
    pub completion_entries: u32,
    /// For a receive queue, whether its completions are compressed.
    pub compresses: bool,
    /// Number of entries; 0 until the queue starts.
    pub entries: u32,
}

/// A write of a frame, or of nothing, and the completion that follows it.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
pub struct Completing {
    pub token: u64,
    pub address: u64,
    pub content: Vec<u8>,
    pub completion: Vec<u8>,
}

/// The completion queue of a queue.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
pub struct Completions {
    /// Number of completions written, modulo 2^32.
    pub produced: u32,
    /// Number of completions that the program is known to have taken.
    pub consumed: u32,
    /// Whether the consumer's doorbell record is being read.
    pub is_reading: bool,
    /// Completions that wait for room.
    pub pending: VecDeque<Completing>,
    /// Whether the queue has overrun: nothing is completed any more.
    pub has_overrun: bool,
}

/// The significant bits of a doorbell record of completions.
const CONSUMER_MASK: u32 = 0xff_ffff;

impl Completions {
    pub fn has_room(&self, setup: &Setup) -> bool {
        self.produced.wrapping_sub(self.consumed) < setup.completion_entries
    }

    /// Updates the number of completions that the program has taken.
    pub fn taken(&mut self, record: u32) {
        let left = self.produced.wrapping_sub(record) & CONSUMER_MASK;
        self.consumed = self.produced.wrapping_sub(left);
    }

    /// Places the next completion: returns its address, and its bytes with the owner bit, which is
    /// the parity of the passes over the ring.
    pub fn place(&mut self, setup: &Setup, mut completion: Vec<u8>) -> (u64, Vec<u8>) {
        let entry = self.produced & setup.completion_entries.wrapping_sub(1);
        let pass = self.produced / setup.completion_entries.max(1);
        completion[BLOCK_BYTES - 1] |= (pass & 1) as u8;
        self.produced = self.produced.wrapping_add(1);
        let address = setup.completions + u64::from(entry) * BLOCK_BYTES as u64;
        (address, completion)
    }
}

/// A completion of queue `queue` at this time.
pub fn completion(now: Time, queue: usize) -> Completion {
    Completion {
        queue: queue as u32,
        timestamp: now.as_fs() / 1_000_000,
        ..Completion::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_bit_changes_with_each_pass() {
        let setup = Setup {
            completions: 0x1000,
            completion_entries: 4,
            ..Setup::default()
        };
        let mut completions = Completions::default();
        let placed: Vec<_> = (0..9)
            .map(|_| {
                let (address, bytes) = completions.place(&setup, vec![0x20; BLOCK_BYTES]);
                (address, bytes[63])
            })
            .collect();
        let entry = |number: u64| 0x1000 + 64 * number;
        let expected: Vec<_> = (0..9u64)
            .map(|number| (entry(number % 4), 0x20 | (number / 4 % 2) as u8))
            .collect();
        assert_eq!(placed, expected);
        assert!(!completions.has_room(&setup));
        // 24 bits of the consumer's count.
        completions.taken(0xff00_0007);
        assert_eq!(completions.consumed, 7);
        assert!(completions.has_room(&setup));
    }
}
