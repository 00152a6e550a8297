//! State for tests, and the cells of the tables that tests have reached.

use super::*;

impl Bank {
    /// Each line here with its sharers, its owner, and whether it is busy, for checkers.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (LineAddress, u64, Option<CacheId>, bool)> {
        self.entries
            .iter()
            .filter(|entry| entry.line != NO_LINE)
            .map(|entry| {
                (
                    LineAddress(entry.line),
                    entry.sharers,
                    (entry.owner != NO_OWNER).then_some(CacheId(entry.owner)),
                    entry.transaction != IDLE,
                )
            })
    }

    /// Handles a message as the fabric does.
    pub(crate) fn take(
        &mut self,
        from: CacheId,
        line: LineAddress,
        message: &ToHome,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        let place = self.announce_entry(line);
        match self.answer_at_once(from, line, message, place, ram) {
            None => self.message(from, line, message, ram, out),
            Some(Answer::PutAck) => out.push(HomeAction::Send(from, line, ToCache::PutAck)),
            Some(Answer::Grant(grant)) => {
                let source = Source::LastLevel;
                out.push(HomeAction::Grant(from, line, grant, source));
            }
        }
    }

    /// The column of the table of states and events.
    pub(super) fn column(&self, line: LineAddress) -> &'static str {
        let in_lines = self.lines.as_ref();
        let in_lines = in_lines.is_some_and(|one| one.contains(self.banks.divide(line.0), line));
        let Some(slot) = self.find(line) else {
            return if in_lines { "in LLC" } else { "absent" };
        };
        let entry = &self.entries[slot];
        let in_cache = entry.present || in_lines;
        match entry {
            Entry { transaction, .. } if *transaction != IDLE => "busy",
            Entry {
                owner: NO_OWNER,
                sharers: 0,
                ..
            } => "no holder",
            Entry {
                owner: NO_OWNER, ..
            } if in_cache => "sharers",
            Entry {
                owner: NO_OWNER, ..
            } => "sharers, not in LLC",
            _ if in_cache => "owner",
            _ => "owner, not in LLC",
        }
    }

    pub(super) fn note(&self, row: &'static str, line: LineAddress) {
        let table = match self.lines {
            None => crate::coverage::INCLUSIVE_HOME,
            Some(_) => crate::coverage::NON_INCLUSIVE_HOME,
        };
        crate::coverage::note(table, None, line, row, self.column(line));
    }

    pub(super) fn note_message(&self, from: CacheId, line: LineAddress, message: &ToHome) {
        let owner = self.find(line).map(|slot| self.entries[slot].owner);
        let row = match message {
            ToHome::GetS => "GetS",
            ToHome::GetM => "GetM",
            ToHome::PutM(_) | ToHome::PutE if owner == Some(from.0) => "Put from the owner",
            ToHome::PutM(_) | ToHome::PutE => "Put from another",
            ToHome::InvalidateAck => "InvalidateAck",
            ToHome::ForwardAck { .. } => "ForwardAck",
        };
        self.note(row, line);
    }

    pub(super) fn note_write(&self, line: LineAddress, write: &HomeWrite) {
        let row = match (write.allocate, write.is_whole_line()) {
            (true, true) => "WriteAtHome, whole line",
            (true, false) => "WriteAtHome, part of a line",
            (false, _) => "WriteAtHome, to memory",
        };
        self.note(row, line);
    }

    /// Notes that `line` has just been evicted from the last-level cache.
    pub(super) fn note_eviction(&self, line: LineAddress) {
        self.note("loses its place in the LLC", line);
    }

    /// Whether a non-inclusive last-level cache has `line`.
    pub(crate) fn has_line(&self, line: LineAddress) -> bool {
        let index = self.banks.divide(line.0);
        self.lines
            .as_ref()
            .is_some_and(|lines| lines.contains(index, line))
    }

    /// Another line replaces `line` in a non-inclusive last-level cache.
    pub(crate) fn replace_line(&mut self, line: LineAddress) -> bool {
        let index = self.banks.divide(line.0);
        let removed = self
            .lines
            .as_mut()
            .and_then(|lines| lines.remove(index, line));
        if removed.is_some() {
            self.note_eviction(line);
        }
        removed.is_some()
    }

    /// Hashes the state that determines the bank's behaviour, without the numbers of transactions.
    pub(crate) fn hash_state(&self, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        self.sets.hash(hasher);
        if let Some(lines) = &self.lines {
            lines.hash_state(hasher);
        }
        for entry in &self.entries {
            (entry.line, entry.sharers, entry.owner).hash(hasher);
            (entry.present, entry.dirty).hash(hasher);
            let index = entry.transaction as usize;
            let transaction = (entry.transaction != IDLE).then(|| &self.transactions[index]);
            transaction
                .map(|transaction| (transaction.step, &transaction.waiting))
                .hash(hasher);
        }
        self.stalled.hash(hasher);
    }

    /// Visits all data that waits here.
    pub(crate) fn each_data(&mut self, change: &mut impl FnMut(LineAddress, &mut LineData)) {
        let transactions = self.transactions.iter_mut().flat_map(|transaction| {
            let line = transaction.line;
            transaction.waiting.iter_mut().map(move |one| (line, one))
        });
        let stalled = self.stalled.iter_mut().flat_map(|one| &mut one.waiting);
        for (line, request) in transactions.chain(stalled.map(|(line, one)| (*line, one))) {
            if let Request::Put {
                data: Some(data), ..
            } = request
            {
                change(line, data);
            }
        }
    }

    /// The transaction of a busy line.
    pub(crate) fn transaction(&self, line: LineAddress) -> Option<TransactionId> {
        let transaction = self.entries[self.find(line)?].transaction;
        (transaction != IDLE).then_some(transaction)
    }

    /// Whether requests wait for a way, and whether a Put does, which never should.
    pub(crate) fn stalls(&self) -> (bool, bool) {
        let mut waiting = self.stalled.iter().flat_map(|stalled| &stalled.waiting);
        let put = waiting.any(|(_, request)| matches!(request, Request::Put { .. }));
        (!self.stalled.is_empty(), put)
    }

    /// Drops state that takes memory without influencing behaviour.
    pub(crate) fn shrink(&mut self) {
        self.spare.clear();
        if self.free.len() == self.transactions.len() {
            self.free.clear();
            self.transactions.clear();
        }
        self.statistics = BankStatistics::default();
    }
}
