//! The agent's work in progress for a thread.

use super::COPY;
use crate::kernel::{Call, Effect};
use crate::space::SharedSpace;
use crate::user::Write;
use fabric::{LINE_BYTES, LineData, MemoryAccess};
use std::collections::VecDeque;

/// The current activity of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Activity {
    /// It runs the program, or its answer is about to be delivered.
    #[default]
    Away,
    /// Its arguments are being read.
    Arguments,
    /// Its handler waits until another thread's call has changed their shared address space.
    Waiting(Job),
    /// Its handler waits for bytes.
    Reading(Job),
    /// Its handler waits for the floating-point registers.
    Saving(Job),
    /// The handler's writes are being performed; then this is the answer.
    Writing(u64),
    /// Other harts must discard translations; then this is the answer.
    Fencing(u64),
    /// The call is blocked.
    Blocked,
}

/// The reason for running a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// A call of the program.
    Call,
    /// A trap that is not a call.
    Fault,
    /// A signal to deliver; without it the answer would have been this.
    Signal(u64),
}

/// A thread, from the agent's point of view.
#[derive(Default)]
pub(super) struct Task {
    pub(super) activity: Activity,
    pub(super) call: Call,
    /// The number of the current wait, if the call is blocked; alarms of earlier waits are ignored.
    pub(super) wait: Option<u64>,
    /// The answer to deliver to its hart.
    pub(super) answer: Option<u64>,
    /// The thread ends as soon as nothing is in progress for it.
    pub(super) is_doomed: bool,
    /// Pending writes, which precede the reads of lines.
    pub(super) writes: VecDeque<Write>,
    pub(super) reads: VecDeque<u64>,
    /// Lines that have been read and are to be written: destination address and data.
    pub(super) copied: VecDeque<(u64, LineData)>,
    /// Lines to read for copies: source and destination.
    pub(super) copies: Vec<(u64, u64)>,
    pub(super) under_way: usize,
    /// The address space that the first of the pending writes changes.
    pub(super) changes: Option<SharedSpace>,
    /// The last loss of its address space that all harts must know of when its call is answered.
    pub(super) known_loss: u64,
    /// Harts that have not yet discarded translations.
    pub(super) fences: Vec<usize>,
    /// Effects to carry out when all writes are done.
    pub(super) effects: Vec<Effect>,
}

impl Task {
    /// Whether it has accesses in flight or still to begin.
    pub(super) fn has_accesses(&self) -> bool {
        self.under_way > 0
            || !self.writes.is_empty()
            || !self.reads.is_empty()
            || !self.copied.is_empty()
    }

    /// The next access that the call needs, and the mark in its token.
    pub(super) fn next_access(&mut self) -> Option<(MemoryAccess, u64)> {
        if let Some((address, data)) = self.copied.pop_front() {
            let bytes = LINE_BYTES as u8;
            let write = MemoryAccess::Write {
                address,
                bytes,
                data,
            };
            return Some((write, 0));
        }
        while self.writes.front().is_some_and(Write::is_barrier) {
            if self.under_way > 0 {
                return None;
            }
            self.writes.pop_front();
        }
        let Some(write) = self.writes.front_mut() else {
            let address = self.reads.pop_front()?;
            return Some((MemoryAccess::ReadAtHome { address }, 0));
        };
        let address = write.address;
        if let Some(source) = write.take_source() {
            self.copies.push((source, address));
            if write.left() == 0 {
                self.writes.pop_front();
            }
            return Some((MemoryAccess::ReadAtHome { address: source }, COPY));
        }
        let in_line = LINE_BYTES as u64 - address % LINE_BYTES as u64;
        let bytes = in_line.min(write.left());
        let data = write.take(bytes);
        if write.left() == 0 {
            self.writes.pop_front();
        }
        let write = MemoryAccess::Write {
            address,
            bytes: bytes as u8,
            data,
        };
        Some((write, 0))
    }
}
