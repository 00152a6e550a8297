//! Puts: private caches give lines back.

use super::*;

impl Bank {
    /// Handles a Put.
    pub(super) fn put(
        &mut self,
        cache: CacheId,
        line: LineAddress,
        data: Option<LineData>,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        self.statistics.puts += 1;
        let Some(slot) = self.find(line) else {
            out.push(HomeAction::Send(cache, line, ToCache::PutAck));
            return;
        };
        let transaction = self.entries[slot].transaction;
        if transaction != IDLE {
            let transaction = &mut self.transactions[transaction as usize];
            let forwarded_to = match transaction.step {
                Step::Forward { owner, .. } | Step::Recall { owner, .. } => owner,
                _ => NO_OWNER,
            };
            if forwarded_to == cache.0 {
                reached!("Put that crosses a forward");
                out.push(HomeAction::Send(cache, line, ToCache::PutAck));
            } else {
                reached!("Put before the ForwardAck that makes its sender the owner");
                transaction.waiting.push_back(Request::Put { cache, data });
            }
            return;
        }
        self.put_now(slot, cache, line, data, ram, out);
        self.release_unused(slot);
    }

    pub(super) fn put_now(
        &mut self,
        slot: usize,
        cache: CacheId,
        line: LineAddress,
        data: Option<LineData>,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        let entry = &mut self.entries[slot];
        if entry.owner == cache.0 {
            entry.owner = NO_OWNER;
            if let Some(data) = data {
                ram.write_line(line, &data);
                self.install(Some(slot), line, true, Origin::Core, out);
            }
        } else if entry.owner == NO_OWNER {
            reached!("Put from a cache that is not the owner any more");
        } else {
            reached!("Put from a cache after which another became the owner");
        }
        out.push(HomeAction::Send(cache, line, ToCache::PutAck));
    }
}
