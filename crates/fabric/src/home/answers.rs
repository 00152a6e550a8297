//! The answers that busy lines wait for: acknowledgements of private caches, and lines from memory.

use super::*;

impl Bank {
    pub(super) fn busy(&mut self, line: LineAddress, what: &str) -> (usize, TransactionId) {
        match self.find(line) {
            Some(slot) if self.entries[slot].transaction != IDLE => {
                (slot, self.entries[slot].transaction)
            }
            _ => internal_error(line, what),
        }
    }

    pub(super) fn invalidate_ack(
        &mut self,
        from: CacheId,
        line: LineAddress,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        let what = "an unexpected InvalidateAck";
        let (slot, transaction) = self.busy(line, what);
        self.entries[slot].sharers &= !bit(from);
        match &mut self.transactions[transaction as usize].step {
            Step::Invalidates {
                request,
                missing,
                source,
            } => {
                *missing -= 1;
                if *missing == 0 {
                    let (request, source) = (*request, *source);
                    if let Request::Get { cache, .. } = request {
                        // It has had the data since it was served, even if another line has
                        // replaced this one in the last-level cache meanwhile.
                        self.grant(slot, line, cache, Grant::Modified, source, out);
                        self.next_request(slot, transaction, ram, out);
                    } else {
                        self.serve_again(slot, transaction, request, ram, out);
                    }
                }
            }
            Step::Recall { missing, .. } if *missing > 0 => {
                *missing -= 1;
                if *missing == 0 {
                    self.finish_recall(slot, transaction, ram, out);
                }
            }
            _ => internal_error(line, what),
        }
    }

    pub(super) fn forward_ack(
        &mut self,
        from: CacheId,
        line: LineAddress,
        data: Option<(&LineData, bool)>,
        kept: bool,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        let what = "an unexpected ForwardAck";
        let (slot, transaction) = self.busy(line, what);
        let entry = &mut self.entries[slot];
        entry.owner = NO_OWNER;
        entry.sharers = if kept { bit(from) } else { 0 };
        if let Some((data, dirty)) = data {
            ram.write_line(line, data);
            self.install(Some(slot), line, dirty, Origin::Core, out);
        }
        match self.transactions[transaction as usize].step {
            Step::Forward { owner, request } if owner == from.0 => {
                match request {
                    Request::Get { cache, write: true } => {
                        self.entries[slot].owner = cache.0;
                    }
                    Request::Get { cache, .. } => self.entries[slot].sharers |= bit(cache),
                    _ => {
                        self.serve_again(slot, transaction, request, ram, out);
                        return;
                    }
                }
                self.next_request(slot, transaction, ram, out);
            }
            Step::Recall { owner, .. } if owner == from.0 => {
                self.finish_recall(slot, transaction, ram, out);
            }
            _ => internal_error(line, what),
        }
    }

    /// Handles a line from memory.
    pub(crate) fn memory_answered(
        &mut self,
        transaction: TransactionId,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        let Transaction {
            line, slot, step, ..
        } = self.transactions[transaction as usize];
        let Step::Memory(request) = step else {
            internal_error(line, "an unexpected answer of memory");
        };
        self.footprint.fail();
        self.install(Some(slot), line, false, request.origin(), out);
        self.note_arrival(slot, line);
        self.transactions[transaction as usize].step = Step::Between;
        let before = out.len();
        self.serve(slot, line, request, ram, out);
        for action in &mut out[before..] {
            if let HomeAction::Grant(_, _, _, source) = action {
                *source = Source::Memory;
            }
        }
        match &mut self.transactions[transaction as usize].step {
            Step::Between => self.next_request(slot, transaction, ram, out),
            Step::Invalidates { source, .. } => *source = Source::Memory,
            _ => {}
        }
    }

    /// Continues with the request of a transaction.
    fn serve_again(
        &mut self,
        slot: usize,
        transaction: TransactionId,
        request: Request,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        let line = self.transactions[transaction as usize].line;
        self.transactions[transaction as usize].step = Step::Between;
        self.serve(slot, line, request, ram, out);
        if let Step::Between = self.transactions[transaction as usize].step {
            self.next_request(slot, transaction, ram, out);
        }
    }

    /// A transaction is complete: serves waiting requests for the line until one blocks it again or
    /// none waits.
    pub(super) fn next_request(
        &mut self,
        slot: usize,
        transaction: TransactionId,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        let index = transaction as usize;
        let line = self.transactions[index].line;
        while let Some(request) = self.transactions[index].waiting.pop_front() {
            self.transactions[index].step = Step::Between;
            self.serve(slot, line, request, ram, out);
            if !matches!(self.transactions[index].step, Step::Between) {
                return;
            }
        }
        self.entries[slot].transaction = IDLE;
        self.free.push(transaction);
        self.release_unused(slot);
        if !self.stalled.is_empty() {
            self.retry_stalled(self.set(line), false, ram, out);
        }
    }
}
