//! A private second-level cache, unified, with the two first-level caches before it.
//!
//! The coherence point of such a core is its second level (L2): a [`PrivateCache`] that
//! communicates with the homes. It includes the first levels (L1), which are [`PrivateCache`]s too,
//! but communicate only with it, within the core's own time. So there are no messages between L1
//! and L2, only look-ups with a latency:
//!
//! | event | L2 does not have it | L2 has it to read | L2 owns it | L2 owns it, an L1 may read it | L2 owns it, the L1D may write it |
//! | --- | --- | --- | --- | --- | --- |
//! | fetch (L1I miss) | GetS | to the L1I | to the L1I | to the L1I | L1D gives up writing; to the L1I |
//! | load (L1D miss) | GetS | to the L1D | to the L1D, to write too | to the L1D, to read | |
//! | store (L1D miss, or a copy to read) | GetM | GetM | to the L1D, to write | L1I drops it; to the L1D, to write | |
//! | Invalidate | as a private cache | L1s drop it | error | error | error |
//! | ForwardGetS | as a private cache | never | as a private cache | as a private cache | L1D gives up writing; as a private cache |
//! | ForwardGetM | as a private cache | never | as a private cache | L1s drop it | its data comes from the L1D; L1s drop it |
//! | replacement in L2 | | L1s drop it | Put | L1s drop it; Put | the data comes from the L1D, L1s drop it; Put |
//! | replacement in L1D | | silent | | silent | data to L2, if it was written |
//!
//! - The L1D writes a writable line without notice. So L2's data may be old, and is brought up to
//!   date from the L1D before L2 gives the line away.
//! - A line that the L1I has is never writable in the L1D: code that is written is invalidated in
//!   the L1I, as it is between cores.
//! - A line that L2 had when an L1 requested it may be gone at the end of the look-up. Then L2
//!   requests it from its home.
//! - An L1 that has missed keeps its miss register until its line arrives. A miss for which L2 has
//!   no register waits in L2, in order.

use crate::prefetcher::Prefetching;
use crate::{
    CacheId, CacheNotice, CacheSpec, Clock, LineAddress, MemoryMap, Outbox, PrefetchStatistics,
    PrivateCache, RequestOutcome, SecondLevelSpec, Slot, Source, State, ToCache,
};

/// One of the first-level caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, state::State, state::Plain)]
pub enum Side {
    /// The instruction cache.
    Instruction,
    /// The data cache.
    Data,
}

/// The first-level caches of a core.
pub struct FirstLevel<'a> {
    /// The instruction cache.
    pub instruction: &'a mut PrivateCache,
    /// The data cache.
    pub data: &'a mut PrivateCache,
}

impl FirstLevel<'_> {
    fn side(&mut self, side: Side) -> &mut PrivateCache {
        match side {
            Side::Instruction => self.instruction,
            Side::Data => self.data,
        }
    }

    fn drop_line(&mut self, line: LineAddress) {
        self.instruction.drop_line(line);
        self.data.drop_line(line);
    }
}

/// The arrival of a line in a first-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstFill {
    /// The line.
    pub line: LineAddress,
    /// Its slot in the cache.
    pub slot: Slot,
    /// The line evicted from the same cache.
    pub evicted: Option<LineAddress>,
}

/// The effect of a message from the fabric on the caches of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondNotice {
    /// None that the core must know.
    None,
    /// The line is gone from all caches of the core.
    Lost(LineAddress),
    /// A line has arrived. Use it, then call [`SecondLevel::finish_fill`] or
    /// [`SecondLevel::keep_fill`] before any other operation on the caches.
    Filled {
        /// The location where it was found.
        source: Source,
        /// The line evicted from the second level, and so from all caches.
        evicted: Option<LineAddress>,
        /// Its arrival in the data cache, if any.
        data: Option<FirstFill>,
        /// Its arrival in the instruction cache, if any.
        instruction: Option<FirstFill>,
        /// Whether it only serves the waiting accesses and is then dropped.
        use_once: bool,
    },
}

/// Never, in cycles.
const NEVER: u64 = u64::MAX;

/// The event that a miss of a first-level cache waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
enum WaitsFor {
    /// The end of a look-up that has found the line.
    LookUp {
        #[state(cycle)]
        until: u64,
    },
    /// The line's home.
    Home,
    /// A miss register.
    Register,
}

#[derive(Clone, Copy, Debug, state::State, state::Plain)]
struct FirstMiss {
    side: Side,
    line: LineAddress,
    write: bool,
    waits_for: WaitsFor,
}

/// What a second-level cache has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State)]
#[state(all(count))]
pub struct SecondLevelStatistics {
    /// Misses of the first level for which it had the line, with the permission that was needed.
    pub hits: u64,
    /// Those for which it had to ask the line's home.
    pub misses: u64,
}

/// A private second-level cache. See the description of the module.
#[derive(Clone, Debug, state::State)]
pub struct SecondLevel {
    #[state(fixed)]
    clock: Clock,
    #[state(fixed)]
    hit_latency_cycles: u64,
    cache: PrivateCache,
    /// In order of arrival.
    misses: Vec<FirstMiss>,
    /// The line that has arrived and is being used.
    filling: Option<LineAddress>,
    statistics: SecondLevelStatistics,
    #[state(inside)]
    prefetching: Option<Box<Prefetching>>,
}

impl SecondLevel {
    /// An empty cache, number `id` on its fabric, whose cycles are of `clock`. `spec` has been
    /// validated.
    pub fn new(spec: &CacheSpec, id: CacheId, clock: Clock) -> SecondLevel {
        SecondLevel {
            clock,
            hit_latency_cycles: spec.hit_latency_cycles,
            cache: PrivateCache::new(spec, id),
            misses: Vec::new(),
            filling: None,
            statistics: SecondLevelStatistics::default(),
            prefetching: None,
        }
    }

    /// The cache described by `spec`, with its prefetcher, which fetches only lines in `memory`.
    pub fn with_prefetcher(
        spec: &SecondLevelSpec,
        id: CacheId,
        clock: Clock,
        memory: &MemoryMap,
    ) -> SecondLevel {
        let second = SecondLevel::new(&spec.cache(), id, clock);
        let prefetching = Prefetching::of_second_level(spec, &second.cache, memory);
        SecondLevel {
            prefetching: prefetching.map(Box::new),
            ..second
        }
    }

    /// The second level itself, which is the coherence point of the core. Its data may be older
    /// than the first level's.
    pub fn cache(&self) -> &PrivateCache {
        &self.cache
    }

    /// See [`PrivateCache::gives_up`].
    pub fn gives_up(&self, line: LineAddress) -> bool {
        self.cache.gives_up(line)
    }

    /// See [`PrivateCache::patch`].
    pub fn patch(&mut self, line: LineAddress, offset: usize, bytes: &[u8]) {
        self.cache.patch(line, offset, bytes);
    }

    /// Its counts so far.
    pub fn statistics(&self) -> SecondLevelStatistics {
        self.statistics
    }

    /// The prefetcher's counts so far, if there is one.
    pub fn prefetches(&self) -> Option<PrefetchStatistics> {
        self.prefetching.as_ref().map(|one| one.statistics())
    }

    /// Whether nothing is in flight.
    pub fn is_quiet(&self) -> bool {
        self.misses.is_empty() && self.cache.outstanding() == 0
    }

    /// The cycle in which [`SecondLevel::found`] has the next line for a first-level cache;
    /// `u64::MAX` if none is in flight.
    pub fn next_found(&self) -> u64 {
        let until = self.misses.iter().map(|miss| match miss.waits_for {
            WaitsFor::LookUp { until } => until,
            _ => NEVER,
        });
        until.min().unwrap_or(NEVER)
    }

    /// A first-level cache requests `line`, for writing or only for reading; the request reaches
    /// the second level in `cycle`.
    pub fn request(
        &mut self,
        first: FirstLevel<'_>,
        (side, line, write): (Side, LineAddress, bool),
        cycle: u64,
        out: &mut Outbox,
    ) -> RequestOutcome {
        let mut first = first;
        let outcome = first.side(side).begin_miss(line, write);
        if outcome == RequestOutcome::Sent {
            cell!(self.note(miss_row(side, write), line, &first));
            let mut miss = FirstMiss {
                side,
                line,
                write,
                waits_for: WaitsFor::Register,
            };
            self.look_up(&mut miss, cycle, out);
            if let WaitsFor::LookUp { .. } = miss.waits_for {
                self.statistics.hits += 1;
            } else {
                self.statistics.misses += 1;
            }
            self.misses.push(miss);
            if self.prefetching.is_some() {
                self.prefetch(&miss, cycle, out);
            }
        }
        outcome
    }

    /// Notifies the prefetcher of a look-up, and requests its lines. One miss register is reserved
    /// for demand misses.
    #[inline(never)]
    fn prefetch(&mut self, miss: &FirstMiss, cycle: u64, out: &mut Outbox) {
        let Some(prefetching) = &mut self.prefetching else {
            return;
        };
        let look_up = self.cache.look_up(miss.line);
        let is_hit = matches!(miss.waits_for, WaitsFor::LookUp { .. });
        let at = self.clock.time(cycle + self.hit_latency_cycles);
        let cache = &mut self.cache;
        prefetching.accessed(look_up, is_hit, None, |line| {
            match cache.may_prefetch(line) {
                RequestOutcome::Sent => cache.request(line, false, at, out),
                other => other,
            }
        });
    }

    /// Starts a look-up in `cycle`.
    fn look_up(&mut self, miss: &mut FirstMiss, cycle: u64, out: &mut Outbox) {
        let until = cycle + self.hit_latency_cycles;
        miss.waits_for = if self.serves(miss) {
            WaitsFor::LookUp { until }
        } else {
            let at = self.clock.time(until);
            match self.cache.request(miss.line, miss.write, at, out) {
                RequestOutcome::Sent | RequestOutcome::Pending => WaitsFor::Home,
                RequestOutcome::Full => WaitsFor::Register,
            }
        };
    }

    /// Whether the line is present with the required permission.
    fn serves(&self, miss: &FirstMiss) -> bool {
        let slot = self.cache.find(miss.line);
        slot.is_some_and(|slot| !miss.write || self.cache.writable(slot))
    }

    /// A line whose look-up ends by `cycle`, and which has been filled into the first-level cache.
    /// Must be called until it returns nothing.
    pub fn found(
        &mut self,
        first: FirstLevel<'_>,
        cycle: u64,
        out: &mut Outbox,
    ) -> Option<(Side, FirstFill)> {
        let mut first = first;
        loop {
            let over = |miss: &FirstMiss| matches!(miss.waits_for, WaitsFor::LookUp { until } if until <= cycle);
            let index = self.misses.iter().position(over)?;
            let mut miss = self.misses[index];
            if self.serves(&miss) {
                self.misses.remove(index);
                return Some((miss.side, self.fill(&mut first, &miss)));
            }
            reached!("a line that L2 had is gone when the look-up is over");
            self.look_up(&mut miss, cycle, out);
            self.misses[index] = miss;
        }
    }

    /// Fills a present line into the first-level cache that has missed.
    fn fill(&mut self, first: &mut FirstLevel<'_>, miss: &FirstMiss) -> FirstFill {
        let line = miss.line;
        let Some(second_slot) = self.cache.find(line) else {
            unreachable!("a line is given to a first-level cache that the second level has not");
        };
        let state = match miss.side {
            Side::Instruction => {
                self.bring_up_to_date(first, line);
                first.data.share(line);
                State::Shared
            }
            Side::Data => {
                if miss.write {
                    first.instruction.drop_line(line);
                }
                let alone = first.instruction.find(line).is_none();
                if self.cache.writable(second_slot) && alone {
                    State::Exclusive
                } else {
                    State::Shared
                }
            }
        };
        self.cache.touch(second_slot);
        let data = *self.cache.line(second_slot);
        let (slot, victim) = first.side(miss.side).place(line, state, &data);
        if let Some(victim) = &victim
            && victim.state == State::Modified
            && let Some(slot) = self.cache.find(victim.line)
        {
            *self.cache.line_mut(slot) = victim.data;
        }
        FirstFill {
            line,
            slot,
            evicted: victim.map(|victim| victim.line),
        }
    }

    /// Copies the data that the data cache has written to `line`.
    fn bring_up_to_date(&mut self, first: &FirstLevel<'_>, line: LineAddress) {
        if let Some(slot) = first.data.find(line)
            && first.data.state(slot) == State::Modified
            && let Some(second_slot) = self.cache.find(line)
        {
            *self.cache.line_mut(second_slot) = *first.data.line(slot);
        }
    }

    /// Handles a message of the fabric, in the cycle of its delivery.
    pub fn receive(
        &mut self,
        first: FirstLevel<'_>,
        line: LineAddress,
        message: &ToCache,
        cycle: u64,
        out: &mut Outbox,
    ) -> SecondNotice {
        let mut first = first;
        let at = self.clock.time(cycle + self.hit_latency_cycles);
        cell!(self.note_message(line, message, &first));
        if let ToCache::Data(..) = message {
            if let Some(victim) = self.cache.would_evict(line) {
                cell!(self.note("replacement", victim, &first));
                self.bring_up_to_date(&first, victim);
                first.drop_line(victim);
            }
        } else {
            self.bring_up_to_date(&first, line);
        }
        if *message == ToCache::Invalidate {
            first.instruction.pending_is_old(line);
            first.data.pending_is_old(line);
        }
        let notice = self.cache.receive(line, message, at, out);
        let CacheNotice::Filled {
            slot,
            source,
            evicted,
            use_once,
            ..
        } = notice
        else {
            return match self.tell(&mut first, notice) {
                CacheNotice::Lost(line) => SecondNotice::Lost(line),
                _ => SecondNotice::None,
            };
        };
        self.filling = Some(line);
        if let Some(prefetching) = &mut self.prefetching {
            prefetching.filled(line, slot, evicted);
        }
        let (mut data, mut instruction) = (None, None);
        // The data cache is first, because a store invalidates the line in the instruction cache.
        for side in [Side::Data, Side::Instruction] {
            let waits = |miss: &FirstMiss| {
                miss.side == side && miss.line == line && miss.waits_for == WaitsFor::Home
            };
            let Some(index) = self.misses.iter().position(waits) else {
                continue;
            };
            let miss = self.misses[index];
            let taken = data.is_some()
                && first
                    .data
                    .find(line)
                    .is_some_and(|slot| first.data.writable(slot));
            if !self.serves(&miss) || side == Side::Instruction && taken {
                continue;
            }
            self.misses.remove(index);
            let fill = self.fill(&mut first, &miss);
            match side {
                Side::Data => data = Some(fill),
                Side::Instruction => instruction = Some(fill),
            }
        }
        SecondNotice::Filled {
            source,
            evicted,
            data,
            instruction,
            use_once,
        }
    }

    /// Propagates an event of the second level to the first level.
    fn tell(&mut self, first: &mut FirstLevel<'_>, notice: CacheNotice) -> CacheNotice {
        match notice {
            CacheNotice::Lost(line) => first.drop_line(line),
            CacheNotice::Downgraded(line) => first.data.share(line),
            CacheNotice::None | CacheNotice::Filled { .. } => {}
        }
        notice
    }

    /// Ends the use of a line that has arrived in a first-level cache. Must be called once after
    /// each [`SecondNotice::Filled`] and [`SecondLevel::found`], in the same cycle, unless
    /// [`SecondLevel::keep_fill`] is. Returns whether the line is now gone.
    pub fn finish_fill(
        &mut self,
        first: FirstLevel<'_>,
        line: LineAddress,
        cycle: u64,
        out: &mut Outbox,
    ) -> bool {
        let mut first = first;
        if self.filling.take().is_none() {
            return false;
        }
        self.bring_up_to_date(&first, line);
        let at = self.clock.time(cycle + self.hit_latency_cycles);
        let notice = self.cache.finish_fill(line, at, out);
        let notice = self.tell(&mut first, notice);
        self.try_again(cycle, out);
        matches!(notice, CacheNotice::Lost(_))
    }

    /// Whether a line has arrived from the fabric and its use has not ended.
    pub fn is_filling(&self) -> bool {
        self.filling.is_some()
    }

    /// Like [`PrivateCache::keep_fill`], for a line filled by [`SecondLevel::receive`].
    pub fn keep_fill(&mut self, cycle: u64, out: &mut Outbox) -> Option<ToCache> {
        self.filling.take()?;
        let forward = self.cache.keep_fill();
        self.try_again(cycle, out);
        forward
    }

    /// Retries refused requests when a line has arrived and a miss register has become free.
    fn try_again(&mut self, cycle: u64, out: &mut Outbox) {
        for index in 0..self.misses.len() {
            let mut miss = self.misses[index];
            let again = match miss.waits_for {
                WaitsFor::LookUp { .. } => false,
                WaitsFor::Home => !self.cache.is_pending(miss.line),
                WaitsFor::Register => true,
            };
            if again {
                self.look_up(&mut miss, cycle, out);
                self.misses[index] = miss;
            }
        }
    }
}

/// For tests.
#[cfg(test)]
impl SecondLevel {
    fn note(&self, row: &'static str, line: LineAddress, first: &FirstLevel<'_>) {
        let column = match self.cache.find(line) {
            None => "not here",
            Some(slot) if !self.cache.writable(slot) => "to read",
            Some(_) => match first.data.find(line) {
                Some(slot) if first.data.writable(slot) => "owned, L1D writes",
                None if first.instruction.find(line).is_none() => "owned",
                _ => "owned, L1 reads",
            },
        };
        let table = crate::coverage::SECOND_LEVEL;
        crate::coverage::note(table, Some(self.cache.id()), line, row, column);
    }

    fn note_message(&self, line: LineAddress, message: &ToCache, first: &FirstLevel<'_>) {
        let row = match message {
            ToCache::Invalidate => "Invalidate",
            ToCache::ForwardGetS { .. } => "ForwardGetS",
            ToCache::ForwardGetM { .. } => "ForwardGetM",
            ToCache::Data(..) | ToCache::PutAck => return,
        };
        self.note(row, line, first);
    }
}

#[cfg(test)]
fn miss_row(side: Side, write: bool) -> &'static str {
    match (side, write) {
        (Side::Instruction, _) => "fetch",
        (Side::Data, false) => "load",
        (Side::Data, true) => "store",
    }
}
