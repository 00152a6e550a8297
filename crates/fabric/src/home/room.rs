//! Allocation and eviction in the directory and in the last-level cache.

use super::*;
use std::ops::Range;

/// The ways that a line may be filled into: for I/O the last ones, as in Intel's default mask.
#[inline]
fn fillable(ways: usize, io_ways: Option<usize>, origin: Origin) -> Range<usize> {
    match io_ways {
        Some(io_ways) if origin == Origin::Io => ways - io_ways..ways,
        _ => 0..ways,
    }
}

impl Bank {
    pub(super) fn recall_in(&self, set: usize) -> bool {
        (0..self.ways).map(|way| self.entry(set, way)).any(|entry| {
            entry.transaction != IDLE
                && matches!(
                    self.transactions[entry.transaction as usize].step,
                    Step::Recall { .. }
                )
        })
    }

    /// Whether the last-level cache has the line of an entry.
    #[inline]
    pub(super) fn has_data(&self, slot: usize, line: LineAddress) -> bool {
        match &self.lines {
            None => self.entries[slot].present,
            Some(lines) => lines.contains(self.banks.divide(line.0), line),
        }
    }

    /// Uses a line of a non-inclusive cache; false if the cache does not have it.
    #[inline(never)]
    pub(super) fn touch_line(&mut self, line: LineAddress) -> bool {
        let index = self.banks.divide(line.0);
        let lines = self.lines.as_mut();
        lines.is_some_and(|lines| lines.touch(index, line))
    }

    /// Installs the line of the entry `slot` in the last-level cache; a non-inclusive one does not
    /// need the entry.
    #[inline]
    pub(super) fn install(
        &mut self,
        slot: Option<usize>,
        line: LineAddress,
        dirty: bool,
        origin: Origin,
        out: &mut Vec<HomeAction>,
    ) {
        if self.lines.is_some() {
            self.install_line(line, dirty, origin, out);
        } else if let Some(slot) = slot {
            self.entries[slot].present = true;
            self.entries[slot].dirty |= dirty;
        }
    }

    /// Installs a line in a non-inclusive cache, which may evict another.
    #[inline(never)]
    pub(super) fn install_line(
        &mut self,
        line: LineAddress,
        dirty: bool,
        origin: Origin,
        out: &mut Vec<HomeAction>,
    ) {
        let index = self.banks.divide(line.0);
        let io_ways = self.io_ways;
        let evicted = self.lines.as_mut().and_then(|lines| {
            let ways = fillable(lines.ways(), io_ways, origin);
            lines.install(index, line, dirty, ways)
        });
        if let (Some(prefetching), Some(lines)) = (&mut self.prefetching, &self.lines)
            && let Some(slot) = lines.look_up(index, line).slot
        {
            prefetching.filled(line, slot, evicted.map(|(line, _)| line));
        }
        if let Some((evicted, dirty)) = evicted {
            cell!(self.note_eviction(evicted));
            self.statistics.evictions += 1;
            if dirty {
                out.push(HomeAction::WriteToMemory(evicted));
            }
        }
    }

    /// Frees an entry without information: the line has no holder or waiting request, and the
    /// last-level cache does not have it, or needs no entry for it.
    #[inline]
    pub(super) fn release_unused(&mut self, slot: usize) {
        let entry = &self.entries[slot];
        let unused = entry.owner == NO_OWNER && entry.sharers == 0 && !entry.present;
        if unused && entry.transaction == IDLE && entry.line != NO_LINE {
            self.free_entry(slot);
        }
    }

    /// A free way for `line`, or `None` after starting an eviction, where possible.
    pub(super) fn make_room(
        &mut self,
        line: LineAddress,
        origin: Origin,
        out: &mut Vec<HomeAction>,
    ) -> Option<usize> {
        self.footprint.fail();
        let set = self.set(line);
        let is_idle = |entry: &Entry| entry.transaction == IDLE;
        // A separate directory has no ways for I/O.
        let ways = match self.lines {
            None => fillable(self.ways, self.io_ways, origin),
            Some(_) => 0..self.ways,
        };
        let victim = self.victim(set, ways, is_idle);
        if victim.is_none() {
            reached!("miss in a set where all lines are busy");
        }
        let slot = victim?;
        if self.entries[slot].line == NO_LINE {
            return Some(slot);
        }
        self.evict(slot);
        let Entry { sharers, owner, .. } = self.entries[slot];
        if owner == NO_OWNER && sharers == 0 {
            self.drop_line(slot, out);
            return Some(slot);
        }
        self.statistics.recalls += 1;
        let old = LineAddress(self.entries[slot].line);
        let missing = sharers.count_ones();
        self.block(slot, old, Step::Recall { owner, missing });
        if owner == NO_OWNER {
            reached!("recall from sharers");
        } else {
            reached!("recall from the owner");
            self.statistics.forwards += 1;
            let forward = ToCache::ForwardGetM { requester: None };
            out.push(HomeAction::Send(CacheId(owner), old, forward));
        }
        self.invalidate(old, sharers, out);
        None
    }

    /// The entry to evict for a line that goes into one of `ways` of `set`, if possible.
    #[inline]
    pub(super) fn victim(
        &self,
        set: usize,
        ways: Range<usize>,
        may_go: impl Fn(&Entry) -> bool,
    ) -> Option<usize> {
        let is_free = |&way: &usize| self.entry(set, way).line == NO_LINE;
        let free = || match usize::from(self.used[set]) < self.ways {
            true => ways.clone().find(is_free),
            false => None,
        };
        let may_go = |way| ways.contains(&way) && may_go(self.entry(set, way));
        let way = self
            .policy
            .victim(&self.sets[self.order(set)], free, may_go);
        way.map(|way| self.slot(set, way))
    }

    /// Notes that the line of the entry `slot` has been chosen as the victim.
    pub(super) fn evict(&mut self, slot: usize) {
        let (order, way) = (self.order(self.set_of(slot)), self.way_of(slot));
        self.policy.evict(&mut self.sets[order], way);
    }

    /// Whether a private cache holds `line`, or a request waits for it.
    pub(crate) fn is_held(&self, line: LineAddress) -> bool {
        let found = self.find(line);
        found.is_some_and(|slot| self.entries[slot].is_held())
    }

    /// Installs a line in the last-level cache as if it had just been written, if the line has no
    /// holder or waiting request, and if there is room without recalling such a line.
    pub(crate) fn warm(&mut self, line: LineAddress) {
        let found = self.find(line);
        let is_held = Entry::is_held;
        if found.is_some_and(|slot| is_held(&self.entries[slot])) {
            return;
        }
        if let Some(lines) = &mut self.lines {
            // Evicted lines have been written to memory by now.
            let ways = 0..lines.ways();
            lines.install(self.banks.divide(line.0), line, true, ways);
            return;
        }
        let slot = if let Some(slot) = found {
            self.touch(slot);
            slot
        } else {
            let victim = self.victim(self.set(line), 0..self.ways, |entry| !is_held(entry));
            let Some(slot) = victim else { return };
            if self.entries[slot].line != NO_LINE {
                self.evict(slot);
                self.free_entry(slot);
            }
            self.insert(slot, line);
            slot
        };
        self.entries[slot].present = true;
        self.entries[slot].dirty = true;
    }

    /// Records in the directory that some caches share `line`, which no cache holds or waits for.
    /// Caches drop shared lines silently, so the directory may name caches that do not have it. In
    /// an inclusive cache the line must be here. A separate directory makes room by discarding
    /// earlier such records, as no cache has those lines.
    pub(crate) fn note_sharers(
        &mut self,
        line: LineAddress,
        caches: impl Iterator<Item = CacheId>,
    ) {
        let sharers = caches.fold(0, |sharers, cache| sharers | bit(cache));
        let found = self.find(line);
        if self.lines.is_none() {
            let mut found = found.map(|slot| &mut self.entries[slot]);
            if let Some(entry) = found.as_mut().filter(|entry| entry.present)
                && !entry.is_held()
            {
                entry.sharers = sharers;
            }
            return;
        }
        if self.noted.is_empty() {
            self.noted = vec![false; self.entries.len()];
        }
        let is_noted = |slot: usize| self.noted[slot] && self.entries[slot].transaction == IDLE;
        if found.is_some_and(|slot| !is_noted(slot)) {
            return;
        }
        let slot = if let Some(slot) = found {
            self.touch(slot);
            slot
        } else {
            let set = self.set(line);
            let ways = 0..self.ways;
            let is_free = |way: usize| self.entry(set, way).line == NO_LINE;
            let free = || ways.clone().find(|&way| is_free(way));
            let may_go = |way| is_free(way) || is_noted(self.slot(set, way));
            let order = self.order(set);
            let Some(way) = self.policy.victim(&self.sets[order], free, may_go) else {
                return;
            };
            let slot = self.slot(set, way);
            if self.entries[slot].line != NO_LINE {
                self.evict(slot);
                self.free_entry(slot);
            }
            self.insert(slot, line);
            slot
        };
        self.entries[slot].sharers = sharers;
        self.noted[slot] = true;
    }

    /// Removes a line without holders from the directory, and so from an inclusive cache.
    pub(super) fn drop_line(&mut self, slot: usize, out: &mut Vec<HomeAction>) {
        self.statistics.evictions += u64::from(self.lines.is_none());
        if self.entries[slot].dirty {
            out.push(HomeAction::WriteToMemory(LineAddress(
                self.entries[slot].line,
            )));
        }
        self.free_entry(slot);
    }

    /// Ends a recall when the line's last holder is gone.
    pub(super) fn finish_recall(
        &mut self,
        slot: usize,
        transaction: TransactionId,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        let line = LineAddress(self.entries[slot].line);
        let set = self.set(line);
        self.drop_line(slot, out);
        let mut waiting = std::mem::take(&mut self.transactions[transaction as usize].waiting);
        if let Some(stalled) = self.stalled.iter_mut().find(|stalled| stalled.set == set) {
            // Requests for the recalled line now miss.
            if !waiting.is_empty() {
                reached!("request for a line that is being recalled");
            }
            stalled
                .waiting
                .extend(waiting.drain(..).map(|request| (line, request)));
        }
        self.transactions[transaction as usize].waiting = waiting;
        self.free.push(transaction);
        self.retry_stalled(set, true, ram, out);
    }

    /// Retries misses when a way of `set` may have become free, or its line is no longer busy.
    pub(super) fn retry_stalled(
        &mut self,
        set: usize,
        recall_done: bool,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        let Some(index) = self.stalled.iter().position(|stalled| stalled.set == set) else {
            return;
        };
        if recall_done {
            self.stalled[index].recalling = false;
        }
        while let Some(&(line, request)) = self.stalled[index].waiting.front() {
            // One recall at a time is enough: misses are served in order. A line that is present
            // needs no way.
            if self.stalled[index].recalling && self.find(line).is_none() {
                return;
            }
            if !self.try_request(line, request, ram, out) {
                self.stalled[index].recalling = self.recall_in(set);
                return;
            }
            self.stalled[index].waiting.pop_front();
        }
        let stalled = self.stalled.swap_remove(index);
        self.spare.push(stalled.waiting);
    }
}
