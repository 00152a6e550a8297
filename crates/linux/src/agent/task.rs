//! What the agent has under way for a thread.

use super::COPY;
use crate::kernel::{Call, Effect};
use crate::space::SharedSpace;
use crate::user::Write;
use fabric::{LINE_BYTES, LineData, MemoryAccess};
use std::collections::VecDeque;

/// What a thread is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Activity {
    /// It runs the program, or is to be told an answer.
    #[default]
    Away,
    /// Its arguments are being read.
    Arguments,
    /// A handler waits until the call of another thread has changed their address space.
    Waiting(Job),
    /// A handler waits for bytes.
    Reading(Job),
    /// A handler waits for the floating-point registers.
    Saving(Job),
    /// What a handler wrote is being written; then this is the answer.
    Writing(u64),
    /// Other harts are to forget translations; then this is the answer.
    Fencing(u64),
    /// The call waits for something.
    Blocked,
}

/// What a handler is run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// A call of the program.
    Call,
    /// A trap that is no call.
    Fault,
    /// A signal is to be delivered; without it the answer would have been this.
    Signal(u64),
}

/// A thread, as the agent sees it.
#[derive(Default)]
pub(super) struct Task {
    pub(super) activity: Activity,
    pub(super) call: Call,
    /// Which wait this is, if the call has to; so that the alarm of an older one is known.
    pub(super) wait: Option<u64>,
    /// What its hart is to be told.
    pub(super) answer: Option<u64>,
    /// It ends as soon as nothing is under way for it.
    pub(super) is_doomed: bool,
    /// What to write, and then lines to read.
    pub(super) writes: VecDeque<Write>,
    pub(super) reads: VecDeque<u64>,
    /// Lines that have been read and are to be written: to which address, and what.
    pub(super) copied: VecDeque<(u64, LineData)>,
    /// Lines that are read to be copied, and where to.
    pub(super) copies: Vec<(u64, u64)>,
    pub(super) under_way: usize,
    /// The address space that the first of what it writes changes.
    pub(super) changes: Option<SharedSpace>,
    /// The last loss of its address space that all harts know of when its call is answered.
    pub(super) known_loss: u64,
    /// Harts that have not yet come to forget translations.
    pub(super) fences: Vec<usize>,
    /// What is done when everything has been written.
    pub(super) effects: Vec<Effect>,
}

impl Task {
    /// Whether it has accesses under way, or to be begun.
    pub(super) fn has_accesses(&self) -> bool {
        self.under_way > 0
            || !self.writes.is_empty()
            || !self.reads.is_empty()
            || !self.copied.is_empty()
    }

    /// The next access that the call needs, and the mark of its token.
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
