//! Common parts of the interface's queues: set-up, and completions.

use super::format::{BLOCK_BYTES, Completion};
use fabric::Time;
use std::collections::VecDeque;

/// Registers of a queue, from its half of a page on: the last one begins it.
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

/// Where a queue is in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub struct Setup {
    pub ring: u64,
    /// Bits 0 to 7: the logarithm of the strides of a buffer; 8 to 15: that of their bytes. 0: a
    /// buffer takes one packet.
    pub strides: u64,
    /// The producer's doorbell record.
    pub record: u64,
    pub completions: u64,
    /// The doorbell record of the completions' consumer.
    pub completions_record: u64,
    pub completion_entries: u32,
    /// Of a receive queue: whether its completions are compressed.
    pub compresses: bool,
    /// 0: the queue has not begun.
    pub entries: u32,
}

/// A write of a frame, or of nothing, and the completion behind it.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
pub struct Completing {
    pub token: u64,
    pub address: u64,
    pub content: Vec<u8>,
    pub completion: Vec<u8>,
}

/// The completions of a queue.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
pub struct Completions {
    /// Completions that have been written, modulo 2^32, ...
    pub produced: u32,
    /// ... and those that the program has taken, as far as it is known.
    pub consumed: u32,
    /// The consumer's doorbell record is being read.
    pub is_reading: bool,
    /// Those for which there was no room.
    pub pending: VecDeque<Completing>,
    /// There was no room for one: nothing is completed any more.
    pub has_overrun: bool,
}

/// Bits of a doorbell record of completions that count.
const CONSUMER_MASK: u32 = 0xff_ffff;

impl Completions {
    pub fn has_room(&self, setup: &Setup) -> bool {
        self.produced.wrapping_sub(self.consumed) < setup.completion_entries
    }

    /// The record says that the program has taken so many.
    pub fn taken(&mut self, record: u32) {
        let left = self.produced.wrapping_sub(record) & CONSUMER_MASK;
        self.consumed = self.produced.wrapping_sub(left);
    }

    /// Puts the next one where it belongs: its address, and its bytes with the owner bit, which is
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

/// A completion of queue `queue` now.
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
