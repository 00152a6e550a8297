//! Prefetches into the last-level cache.
//!
//! The home of a line that a cache or an agent reads asks the home of the next line to fetch it
//! from memory, by one message from bank to bank, like any other request. That home fetches the
//! line only if it is neither present nor held, and if there is room without recalling a line from
//! its holders: prefetches never recall anything. Until memory has answered, the line is busy with
//! a request without a requester.

use super::*;
use crate::prefetcher::Prefetching;
use crate::{LookUp, MemoryMap, PrefetchStatistics, RequestOutcome, Slot};

impl Bank {
    /// Gives the bank a prefetcher for the lines of `memory`.
    pub(crate) fn attach_prefetcher(&mut self, memory: &MemoryMap) {
        let places = match &self.lines {
            None => (self.entries.len(), self.ways),
            Some(lines) => lines.places(),
        };
        self.prefetching = Some(Box::new(Prefetching::next_line(places, memory)));
    }

    /// The counts of the prefetcher, if there is one.
    pub(crate) fn prefetches(&self) -> Option<PrefetchStatistics> {
        self.prefetching.as_ref().map(|one| one.statistics())
    }

    /// The position of the entry `slot` among those of an inclusive cache, set by set.
    fn place(&self, slot: usize) -> Slot {
        (self.set_of(slot) * self.ways + self.way_of(slot)) as Slot
    }

    /// A request reads `line`: notifies the prefetcher.
    #[inline(never)]
    pub(super) fn tell_prefetcher(&mut self, line: LineAddress, out: &mut Vec<HomeAction>) {
        let Some(mut prefetching) = self.prefetching.take() else {
            return;
        };
        let entry = self.find(line);
        let look_up = match &self.lines {
            None => LookUp {
                line,
                slot: entry
                    .filter(|&slot| self.entries[slot].present)
                    .map(|slot| self.place(slot)),
                set: self.set(line) * self.ways,
            },
            Some(lines) => lines.look_up(self.banks.divide(line.0), line),
        };
        let is_nearby = |slot: usize| {
            let entry = &self.entries[slot];
            entry.owner != NO_OWNER || entry.transaction != IDLE
        };
        let is_hit = look_up.slot.is_some() || entry.is_some_and(is_nearby);
        // The line's home decides whether to fetch it.
        prefetching.accessed(look_up, is_hit, None, |next| {
            out.push(HomeAction::Prefetch(next));
            RequestOutcome::Pending
        });
        self.prefetching = Some(prefetching);
    }

    /// Handles a request of the previous line's home to prefetch `line`.
    pub(crate) fn prefetch(&mut self, line: LineAddress, out: &mut Vec<HomeAction>) {
        cell!(self.note("Prefetch", line));
        self.footprint.fail();
        let (set, index) = (self.set(line), self.banks.divide(line.0));
        let in_lines = self
            .lines
            .as_ref()
            .is_some_and(|one| one.contains(index, line));
        let is_stalled = self.stalled.iter().any(|stalled| stalled.set == set);
        if in_lines || is_stalled || self.find(line).is_some() {
            return;
        }
        let Some(slot) = self.victim(set, 0..self.ways, |entry| !entry.is_held()) else {
            reached!("prefetch into a set where all lines are held");
            return;
        };
        let old = LineAddress(self.entries[slot].line);
        let replaced = (old.0 != NO_LINE).then_some(old);
        if replaced.is_some() {
            self.evict(slot);
            self.drop_line(slot, out);
        }
        self.insert(slot, line);
        let transaction = self.block(slot, line, Step::Memory(Request::Prefetch));
        out.push(HomeAction::FetchFromMemory(transaction, line));
        let place = self.place(slot);
        if let Some(prefetching) = &mut self.prefetching {
            prefetching.began(line);
            if self.lines.is_none() {
                prefetching.placed(line, place, replaced);
            }
        }
    }

    /// Notes that `line` has been given the entry `slot`, which is its place in an inclusive cache.
    #[inline]
    pub(super) fn note_place(&mut self, slot: usize, line: LineAddress) {
        if self.prefetching.is_some() && self.lines.is_none() {
            let place = self.place(slot);
            if let Some(prefetching) = &mut self.prefetching {
                prefetching.placed(line, place, None);
            }
        }
    }

    /// Notes that `line`, whose entry is `slot`, has arrived from memory in an inclusive cache.
    #[inline]
    pub(super) fn note_arrival(&mut self, slot: usize, line: LineAddress) {
        if self.prefetching.is_some() && self.lines.is_none() {
            let place = self.place(slot);
            if let Some(prefetching) = &mut self.prefetching {
                prefetching.came(line, place);
            }
        }
    }
}
