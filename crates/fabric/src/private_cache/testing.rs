//! For tests: the rows and columns of the table of states and events, and changes from outside.

use super::{INVALID, Miss, PrivateCache, Slot, State, UNUSED};
use crate::{LineAddress, LineData, Outbox, Time, ToCache};

impl PrivateCache {
    /// The column of the table of states and events.
    fn column(&self, line: LineAddress) -> &'static str {
        let asked = self.pending_lines().find(|asked| asked.0 == line);
        let state = self.find(line).map(|slot| self.state(slot));
        if self.evicted_lines().any(|evicted| evicted == line) {
            return "buffer";
        }
        match (state, asked) {
            (Some(State::Exclusive | State::Modified), _) => "E or M",
            (Some(State::Shared), None) => "S",
            (Some(State::Shared), Some(_)) => "S, GetM sent",
            (None, Some((_, true))) => "I, GetM sent",
            (None, Some((_, false))) => "I, GetS sent",
            (None, None) => "I",
        }
    }

    pub(super) fn note(&self, row: &'static str, line: LineAddress) {
        let table = crate::coverage::PRIVATE_CACHE;
        crate::coverage::note(table, Some(self.id), line, row, self.column(line));
    }

    pub(super) fn note_message(&self, line: LineAddress, message: &ToCache) {
        let row = match message {
            ToCache::Data(..) => "Data",
            ToCache::Invalidate => "Invalidate",
            ToCache::ForwardGetS { .. } => "ForwardGetS",
            ToCache::ForwardGetM { .. } => "ForwardGetM",
            ToCache::PutAck => "PutAck",
        };
        self.note(row, line);
    }

    /// Hashes the state that determines the cache's behaviour.
    pub(crate) fn hash_state(&self, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        (&self.order, &self.recent).hash(hasher);
        self.lines().for_each(|line| line.hash(hasher));
        // The order in which requests are stored does not matter.
        let mut misses: Vec<&Miss> = self.misses.iter().collect();
        misses.sort_by_key(|miss| miss.line);
        misses.hash(hasher);
        self.evictions.hash(hasher);
    }

    /// Visits all data in the cache.
    pub(crate) fn each_data(&mut self, change: &mut impl FnMut(LineAddress, &mut LineData)) {
        for (&tag, data) in self.tags.iter().zip(&mut self.data) {
            if tag != INVALID {
                change(LineAddress(tag & !UNUSED), &mut data.0);
            }
        }
        for eviction in &mut self.evictions {
            change(eviction.line, &mut eviction.data);
        }
    }

    /// Evicts the line at `slot`, as a line outside the model would.
    pub(crate) fn replace(&mut self, slot: Slot, out: &mut Outbox) {
        self.evict(slot, Time::ZERO, out);
    }

    /// The lines of the eviction buffer.
    pub(crate) fn evicted_lines(&self) -> impl Iterator<Item = LineAddress> {
        self.evictions.iter().map(|eviction| eviction.line)
    }
}
