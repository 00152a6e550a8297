//! Compression of a receive queue's completions: several successive completions become a title and
//! an array.
//!
//! A session begins with a completion and ends with the eighth, at its timeout, when the ring wraps
//! around, or before a completion that cannot be compressed. The title is a completion with the
//! format `format::COMPRESSED`, whose byte count is the number of completions; the next slot has
//! eight bytes of each, including the title's. The slots of all these completions count as written,
//! but the remaining ones keep their old contents. A session of one is an ordinary completion.
//!
//! The real interface has longer sessions, with more arrays, and a limit on both their number and
//! their time (`cqe_compression_max_num` and `cqe_compression_timeout` of its capabilities), whose
//! values are not published. It writes packets' data on arrival, as does this model.

use super::format::{BLOCK_BYTES, Completion, MINI_BYTES, compressed, mini};
use super::queue::Completing;
use super::{CqeNic, purpose};
use fabric::{AgentContext, Time};

/// Number of completions in an array.
const MAX_MINIS: usize = BLOCK_BYTES / MINI_BYTES;
/// The position of the session's number in a timer's index; the queue's number is below it.
const SESSION_SHIFT: u32 = 16;

/// Completions of a receive queue that wait to be compressed.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
pub(super) struct Session {
    /// The group of the frames' writes.
    group: u64,
    title: Vec<u8>,
    /// Eight bytes of each completion; empty without a session.
    array: Vec<u8>,
    /// Number of sessions so far.
    begun: u64,
}

impl Session {
    fn minis(&self) -> usize {
        self.array.len() / MINI_BYTES
    }
}

impl CqeNic {
    /// Writes a frame, and adds its completion to a session, if there is room.
    pub(super) fn compress(
        &mut self,
        context: &mut AgentContext<'_>,
        number: usize,
        completing: Completing,
        completion: Completion,
    ) {
        let queue = &self.receive[number];
        let minis = queue.session.minis() as u32;
        let entries = queue.setup.completion_entries;
        let completions = &queue.completions;
        let held = completions.produced.wrapping_sub(completions.consumed) + minis;
        let slot = (completions.produced & entries.wrapping_sub(1)) + minis;
        if slot == entries || held >= entries {
            self.end_session(context, number);
        }
        let queue = &mut self.receive[number];
        if held >= entries || !queue.completions.pending.is_empty() {
            return self.complete(context, 2 * number, completing);
        }
        if queue.session.minis() == 0 {
            queue.session.group = self.express.begin_group();
            queue.session.title = completing.completion;
            queue.session.begun += 1;
            let index = queue.session.begun << SESSION_SHIFT | number as u64;
            let end = context.now() + Time::from_ns(self.spec.compression_timeout_ns);
            context.wake(end, purpose::SESSION | (index & purpose::INDEX));
        }
        queue.session.array.extend(mini(&completion));
        let frame = (completing.address, &completing.content[..]);
        self.express
            .add_to_group(context, queue.session.group, frame);
        if queue.session.minis() == MAX_MINIS {
            self.end_session(context, number);
        }
    }

    /// Ends a session at its timeout, if it has not ended.
    pub(super) fn session_timeout(&mut self, context: &mut AgentContext<'_>, index: u64) {
        let number = (index & ((1 << SESSION_SHIFT) - 1)) as usize;
        let begun = self.receive[number].session.begun << SESSION_SHIFT & purpose::INDEX;
        if begun == index - number as u64 {
            self.end_session(context, number);
        }
    }

    /// Writes the completions of the session, if any.
    pub(super) fn end_session(&mut self, context: &mut AgentContext<'_>, number: usize) {
        let queue = &mut self.receive[number];
        let minis = queue.session.minis();
        if minis == 0 {
            return;
        }
        let mut title = std::mem::take(&mut queue.session.title);
        let mut array = std::mem::take(&mut queue.session.array);
        let group = queue.session.group;
        if minis > 1 {
            compressed(&mut title, minis as u32);
        }
        let (address, title) = queue.completions.place(&queue.setup, title);
        self.statistics.completions += minis as u64;
        if minis > 1 {
            queue.completions.produced = queue.completions.produced.wrapping_add(minis as u32 - 1);
            self.statistics.compressed_completions += minis as u64;
            array.resize(BLOCK_BYTES, 0);
            // The array precedes the title, which announces it.
            let behind = address + BLOCK_BYTES as u64;
            self.express.add_to_group(context, group, (behind, &array));
        }
        let token = purpose::DELIVERED | minis as u64;
        self.express
            .end_group(context, group, token, (address, title), 0);
        self.interrupt(context, number);
    }
}
