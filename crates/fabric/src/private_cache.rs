//! A private cache: set-associative, MESI, with its data. `protocol.rs` has its states and events.

mod comparison;
mod protocol;
#[cfg(test)]
mod testing;

use crate::address::AlignedLine;
use crate::replacement::Policy;
use crate::{
    CacheId, CacheSpec, Grant, LineAddress, LineData, PrefetchStatistics, Source, ToCache,
};
use state::{Purpose, Walker};
use std::collections::VecDeque;

/// The index of a place for a line in a private cache.
pub type Slot = u32;

/// The state of a line that a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, state::State, state::Plain)]
pub enum State {
    /// Other caches may have it too.
    Shared,
    /// The only copy, with the same data as its home.
    Exclusive,
    /// The only copy, newer than its home.
    Modified,
}

/// The result of looking up a line.
#[derive(Clone, Copy, Debug)]
pub struct LookUp {
    /// The line.
    pub line: LineAddress,
    /// Its slot, if the cache holds it.
    pub slot: Option<Slot>,
    /// The first slot of its set.
    pub(crate) set: usize,
}

/// The outcome of a request for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// It has been sent.
    Sent,
    /// The line had already been requested.
    Pending,
    /// It is refused: all miss status holding registers are in use; or the line is in flight, but
    /// its data may be older than this request. The arrival of this or another line makes the
    /// request possible.
    Full,
}

/// The effect of a message from the fabric on a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheNotice {
    /// None that the owner of the cache must know.
    None,
    /// The line has arrived. Use it, then call [`PrivateCache::finish_fill`] before any other
    /// operation on the cache.
    Filled {
        /// Its slot.
        slot: Slot,
        /// The permission granted.
        grant: Grant,
        /// The location where it was found.
        source: Source,
        /// The evicted line.
        evicted: Option<LineAddress>,
        /// Whether it only serves the waiting accesses and is then dropped.
        use_once: bool,
    },
    /// The copy is gone.
    Lost(LineAddress),
    /// The copy has become read-only.
    Downgraded(LineAddress),
}

const INVALID: u64 = u64::MAX;

/// A bit in the tag of a line that an instruction has prefetched and that has not been used yet.
/// The fast path to the most recently used line compares all bits, and so leaves the first use to
/// the slow path, which checks the bit: counting costs nothing for lines that are not prefetched.
const UNUSED: u64 = 1 << 63;

/// A request of another cache, or of the home, for an owned line.
#[derive(Clone, Copy, Debug, Hash, state::State, state::Plain)]
struct Forward {
    /// `None`: the home.
    requester: Option<CacheId>,
    write: bool,
    /// Whether the home has no copy.
    with_data: bool,
}

impl Forward {
    fn message(self) -> ToCache {
        let Forward {
            requester,
            write,
            with_data,
        } = self;
        if write {
            ToCache::ForwardGetM { requester }
        } else {
            ToCache::ForwardGetS {
                requester,
                with_data,
            }
        }
    }
}

/// An outstanding request.
#[derive(Clone, Debug, Hash, state::State, state::Plain)]
struct Miss {
    line: LineAddress,
    write: bool,
    /// Whether an instruction has prefetched it, and nothing else has requested it yet.
    prefetched: bool,
    /// Whether an Invalidate has arrived meanwhile.
    invalidated: bool,
    /// A forward that waits for the data.
    forward: Option<Forward>,
}

impl Miss {
    /// Whether loads that are not waiting for the line yet must not use it.
    fn comes_too_late(&self) -> bool {
        self.invalidated && !self.write
    }
}

#[derive(Clone, Debug, Hash, state::State, state::Plain)]
struct Eviction {
    line: LineAddress,
    dirty: bool,
    data: LineData,
}

/// A line that was evicted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Victim {
    pub(crate) line: LineAddress,
    pub(crate) state: State,
    pub(crate) data: LineData,
}

/// The work of [`PrivateCache::finish_fill`].
#[derive(Clone, Debug, state::State, state::Plain)]
struct Fill {
    line: LineAddress,
    use_once: bool,
    forward: Option<Forward>,
}

/// A private cache. See the description of the module for its protocol.
#[derive(Clone, Debug, state::State)]
#[state(fields)]
pub struct PrivateCache {
    #[state(fixed)]
    id: CacheId,
    #[state(fixed)]
    ways: usize,
    #[state(fixed)]
    set_mask: u64,
    #[state(fixed)]
    mshrs: usize,
    /// Line numbers, set by set, some with [`UNUSED`]; [`INVALID`] in a free slot.
    #[state(exact, slice)]
    tags: Vec<u64>,
    #[state(exact, slice)]
    states: Vec<State>,
    /// Number of free ways of each set.
    #[state(fixed)]
    free: Vec<u8>,
    /// The replacement policy's byte of each way.
    #[state(exact, octets)]
    order: Vec<u8>,
    /// The most recently used slot of each set: using it again changes nothing.
    #[state(exact, slice)]
    recent: Vec<Slot>,
    #[state(exact, slice)]
    data: Vec<AlignedLine>,
    #[state(exact)]
    misses: Vec<Miss>,
    /// The number of outstanding requests by the low bits of their lines: a fast check that there
    /// is none.
    #[state(exact, slice)]
    missing: [u16; 64],
    /// Usually the oldest is acknowledged first.
    evictions: VecDeque<Eviction>,
    fill: Option<Fill>,
    #[state(count)]
    version: u64,
    /// Counts of lines that instructions have prefetched.
    prefetches: PrefetchStatistics,
    policy: Policy,
}

impl state::State for PrivateCache {
    fn walk(&mut self, walker: &mut dyn Walker) {
        if walker.purpose() == Purpose::Compare {
            self.compare(walker);
        }
        self.walk_fields(walker);
        if walker.is_restoring() {
            for (free, tags) in self.free.iter_mut().zip(self.tags.chunks(self.ways)) {
                *free = tags.iter().filter(|&&tag| tag == INVALID).count() as u8;
            }
        }
    }
}

#[inline]
fn low_bits(line: LineAddress) -> usize {
    (line.0 % 64) as usize
}

#[cold]
#[inline(never)]
fn internal_error(id: CacheId, line: LineAddress, what: &str) -> ! {
    unreachable!(
        "the coherence protocol of the simulator is broken: cache {} and the line at {:#x}: {what}",
        id.0,
        line.base()
    )
}

impl PrivateCache {
    /// An empty cache. `spec` has been validated.
    pub fn new(spec: &CacheSpec, id: CacheId) -> PrivateCache {
        let ways = spec.ways as usize;
        let sets = spec.sets();
        let policy = Policy::new(spec.replacement);
        PrivateCache {
            id,
            ways,
            set_mask: sets as u64 - 1,
            mshrs: spec.mshrs as usize,
            tags: vec![INVALID; sets * ways],
            states: vec![State::Shared; sets * ways],
            free: vec![ways as u8; sets],
            order: policy.empty_set(ways).repeat(sets),
            recent: (0..sets).map(|set| (set * ways) as Slot).collect(),
            data: vec![AlignedLine::ZERO; sets * ways],
            misses: Vec::with_capacity(spec.mshrs as usize),
            missing: [0; 64],
            evictions: VecDeque::with_capacity(spec.mshrs as usize),
            fill: None,
            version: 0,
            prefetches: PrefetchStatistics::default(),
            policy,
        }
    }

    /// Its number.
    pub fn id(&self) -> CacheId {
        self.id
    }

    #[inline]
    fn set_start(&self, line: LineAddress) -> usize {
        (line.0 & self.set_mask) as usize * self.ways
    }

    /// The slot of `line`, if this cache holds it.
    #[inline]
    pub fn find(&self, line: LineAddress) -> Option<Slot> {
        let start = self.set_start(line);
        let set = &self.tags[start..start + self.ways];
        for (way, &tag) in set.iter().enumerate() {
            if tag & !UNUSED == line.0 {
                return Some((start + way) as Slot);
            }
        }
        None
    }

    /// The same, with information for a prefetcher.
    pub fn look_up(&self, line: LineAddress) -> LookUp {
        LookUp {
            line,
            slot: self.find(line),
            set: self.set_start(line),
        }
    }

    /// The slot of `line`, if it is the most recently used one of its set.
    #[inline(always)]
    pub fn find_recent(&self, line: LineAddress) -> Option<Slot> {
        let recent = self.recent[(line.0 & self.set_mask) as usize];
        debug_assert!(
            !self.policy.is_order_of_use() || self.order[recent as usize] == 0,
            "a line is not the most recent"
        );
        (self.tags[recent as usize] == line.0).then_some(recent)
    }

    /// The slot of `line`, if this cache holds it; marks it as the most recently used one of its
    /// set.
    #[inline(always)]
    pub fn find_and_touch(&mut self, line: LineAddress) -> Option<Slot> {
        match self.find_recent(line) {
            None => self.find_another(line),
            found => found,
        }
    }

    /// The same, if the line is writable.
    #[inline]
    pub fn find_and_touch_owned(&mut self, line: LineAddress) -> Option<Slot> {
        let slot = match self.find_recent(line) {
            None => self.find(line)?,
            Some(slot) => slot,
        };
        if !self.writable(slot) {
            return None;
        }
        self.touch(slot);
        Some(slot)
    }

    #[inline(never)]
    fn find_another(&mut self, line: LineAddress) -> Option<Slot> {
        let slot = self.find(line)?;
        self.touch(slot);
        Some(slot)
    }

    /// The bytes at `slot`.
    #[inline]
    pub fn line(&self, slot: Slot) -> &LineData {
        &self.data[slot as usize].0
    }

    /// The state at `slot`, which holds a line.
    #[inline]
    pub fn state(&self, slot: Slot) -> State {
        self.states[slot as usize]
    }

    /// Whether the line at `slot` may be written.
    #[inline]
    pub fn writable(&self, slot: Slot) -> bool {
        self.states[slot as usize] != State::Shared
    }

    /// Makes `slot`, which holds a line, the most recently used of its set. Consecutive uses of a
    /// line, without other lines of its set in between, count as one.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        if self.tags[slot as usize] & UNUSED != 0 {
            self.tags[slot as usize] &= !UNUSED;
            self.prefetches.useful += 1;
        }
        if self.order[slot as usize] != 0 {
            // The line gives the set without a division, which would dominate the host's time.
            let set = (self.tags[slot as usize] & self.set_mask) as usize;
            debug_assert_eq!(
                set,
                slot as usize / self.ways,
                "a slot without a line is used"
            );
            if self.recent[set] != slot {
                let start = set * self.ways;
                let way = slot as usize - start;
                let order = &mut self.order[start..start + self.ways];
                self.policy.touch(order, way);
                self.recent[set] = slot;
            }
        }
    }

    /// The bytes at `slot`, for writing; the line must be [writable](PrivateCache::writable).
    #[inline]
    pub fn line_mut(&mut self, slot: Slot) -> &mut LineData {
        debug_assert!(self.writable(slot), "a line is written that is not owned");
        self.states[slot as usize] = State::Modified;
        self.version += 1;
        &mut self.data[slot as usize].0
    }

    /// The line that `line` would evict if it arrived now.
    pub(crate) fn would_evict(&self, line: LineAddress) -> Option<LineAddress> {
        if self.find(line).is_some() {
            return None;
        }
        let tag = self.tags[self.victim(line) as usize];
        (tag != INVALID).then_some(LineAddress(tag & !UNUSED))
    }

    /// Releases the miss register of `line`, and gives the line a slot as the most recently used
    /// one of its set. Returns the evicted line. This and the following functions are for a cache
    /// in front of another one, which communicates with the homes.
    pub(crate) fn place(
        &mut self,
        line: LineAddress,
        state: State,
        data: &LineData,
    ) -> (Slot, Option<Victim>) {
        let miss = self.miss_of(line).map(|index| self.remove_miss(index));
        let is_unused = miss.is_some_and(|miss| miss.prefetched);
        let mut tag = line.0;
        let mut victim = None;
        let slot = if let Some(slot) = self.find(line) {
            self.touch(slot);
            slot
        } else {
            let slot = self.take_way(line);
            let place = slot as usize;
            if self.tags[place] != INVALID {
                victim = Some(Victim {
                    line: self.replaced(slot),
                    state: self.states[place],
                    data: self.data[place].0,
                });
            } else {
                *self.free_ways(line) -= 1;
            }
            if is_unused {
                tag |= UNUSED;
            }
            slot
        };
        let place = slot as usize;
        self.tags[place] = tag;
        self.states[place] = state;
        self.data[place].0 = *data;
        self.version += 1;
        (slot, victim)
    }

    /// Evicts the line at `slot`.
    fn replaced(&mut self, slot: Slot) -> LineAddress {
        let tag = self.tags[slot as usize];
        self.prefetches.unused += u64::from(tag & UNUSED != 0);
        LineAddress(tag & !UNUSED)
    }

    /// Drops `line`, if present.
    pub(crate) fn drop_line(&mut self, line: LineAddress) {
        if let Some(slot) = self.find(line) {
            self.lose(slot);
        }
    }

    /// Makes `line`, if present, read-only.
    pub(crate) fn share(&mut self, line: LineAddress) {
        if let Some(slot) = self.find(line) {
            self.states[slot as usize] = State::Shared;
            self.version += 1;
        }
    }

    #[inline]
    fn free_ways(&mut self, line: LineAddress) -> &mut u8 {
        &mut self.free[(line.0 & self.set_mask) as usize]
    }

    /// The slot that `line` would take.
    #[inline]
    fn victim(&self, line: LineAddress) -> Slot {
        let start = self.set_start(line);
        let set = start..start + self.ways;
        let tags = &self.tags[set.clone()];
        let free = || match self.free[(line.0 & self.set_mask) as usize] {
            0 => None,
            _ => tags.iter().position(|&tag| tag == INVALID),
        };
        let way = self.policy.victim(&self.order[set], free, |_| true);
        (start + way.unwrap_or(0)) as Slot
    }

    /// Takes a slot for `line`, which arrives now and is used.
    fn take_way(&mut self, line: LineAddress) -> Slot {
        let slot = self.victim(line);
        let start = self.set_start(line);
        let way = slot as usize - start;
        let order = &mut self.order[start..start + self.ways];
        if self.tags[slot as usize] != INVALID {
            self.policy.evict(order, way);
        }
        self.policy.insert(order, way);
        self.recent[(line.0 & self.set_mask) as usize] = slot;
        slot
    }

    /// Number of lines that have been requested and have not arrived.
    pub fn outstanding(&self) -> usize {
        self.misses.len()
    }

    /// Records that a prefetch instruction has just requested `line`.
    pub fn note_prefetch(&mut self, line: LineAddress) {
        if let Some(index) = self.miss_of(line) {
            self.misses[index].prefetched = true;
            self.prefetches.issued += 1;
        }
    }

    /// The outcomes of lines that prefetch instructions have requested. Lines that they evicted are
    /// not tracked.
    pub fn prefetches(&self) -> PrefetchStatistics {
        self.prefetches
    }

    /// The outcome of a prefetcher's request for `line`; a present line counts as pending. One miss
    /// register is reserved for demand misses.
    pub fn may_prefetch(&self, line: LineAddress) -> RequestOutcome {
        if self.find(line).is_some() || self.is_pending(line) {
            RequestOutcome::Pending
        } else if self.misses.len() + 1 < self.mshrs {
            RequestOutcome::Sent
        } else {
            RequestOutcome::Full
        }
    }

    /// Number of places for lines, and of ways in each set.
    pub(crate) fn places(&self) -> (usize, usize) {
        (self.tags.len(), self.ways)
    }

    /// Whether all miss status holding registers are in use.
    #[inline]
    pub fn misses_full(&self) -> bool {
        self.misses.len() >= self.mshrs
    }

    /// Whether `line` is outstanding, so that a store can wait for it without another request. If a
    /// prefetch instruction has requested it, the prefetch was late.
    #[inline]
    pub fn joins_miss(&mut self, line: LineAddress) -> bool {
        let miss = self.miss_of(line);
        if let Some(index) = miss {
            self.note_late(index);
        }
        miss.is_some()
    }

    /// Records that an access waits for an outstanding line: if it was prefetched, the prefetch was
    /// late.
    #[inline]
    fn note_late(&mut self, index: usize) {
        let late = std::mem::take(&mut self.misses[index].prefetched);
        self.prefetches.late += u64::from(late);
    }

    /// Whether a read of `line` would be [refused](RequestOutcome::Full) now.
    pub fn refuses_to_read(&self, line: LineAddress) -> bool {
        if self.find(line).is_some() {
            return false;
        }
        match self.miss_of(line) {
            Some(index) => self.misses[index].comes_too_late(),
            None => self.misses_full(),
        }
    }

    /// Marks the data of `line`, if in flight, as possibly older than later requests, because the
    /// cache behind has been told to give it up.
    pub(crate) fn pending_is_old(&mut self, line: LineAddress) {
        if let Some(miss) = self.misses.iter_mut().find(|miss| miss.line == line) {
            miss.invalidated = true;
        }
    }

    /// Whether `line` has been requested and has not arrived.
    #[inline]
    pub fn is_pending(&self, line: LineAddress) -> bool {
        self.miss_of(line).is_some()
    }

    /// A number that changes with every tag, state and byte of data.
    #[inline]
    pub fn content_version(&self) -> u64 {
        self.version
    }

    /// The state that determines the next victims, as long as no line arrives, for comparing two
    /// sample points.
    pub fn replacement_order(&self) -> (&[u8], &[Slot]) {
        (&self.order, &self.recent)
    }

    /// Number of lines that it holds.
    pub fn occupied(&self) -> u64 {
        let free: u64 = self.free.iter().map(|&ways| u64::from(ways)).sum();
        self.tags.len() as u64 - free
    }

    /// The lines that the cache holds.
    pub fn lines(&self) -> impl Iterator<Item = (LineAddress, State, &LineData)> {
        self.tags
            .iter()
            .enumerate()
            .filter(|&(_, &tag)| tag != INVALID)
            .map(|(slot, &tag)| {
                let line = LineAddress(tag & !UNUSED);
                (line, self.states[slot], &self.data[slot].0)
            })
    }

    /// The lines that are newer here than at their homes.
    pub(crate) fn modified_lines(&self) -> impl Iterator<Item = (LineAddress, &LineData)> {
        let modified = self
            .lines()
            .filter(|&(_, state, _)| state == State::Modified);
        modified.map(|(line, _, data)| (line, data))
    }

    /// Modified lines whose eviction their homes have not acknowledged.
    pub(crate) fn leaving_lines(&self) -> impl Iterator<Item = (LineAddress, &LineData)> {
        let dirty = self.evictions.iter().filter(|eviction| eviction.dirty);
        dirty.map(|eviction| (eviction.line, &eviction.data))
    }

    /// Whether it is giving up what it has written of `line`.
    pub fn gives_up(&self, line: LineAddress) -> bool {
        self.leaving_lines().any(|(leaving, _)| leaving == line)
    }

    /// Changes bytes of `line`, if it has that: for a debugger, which changes all copies of a line
    /// and memory alike.
    pub fn patch(&mut self, line: LineAddress, offset: usize, bytes: &[u8]) {
        if let Some(slot) = self.find(line) {
            self.line_mut(slot).patch(offset, bytes);
        }
    }

    /// The outstanding lines, each with whether it was requested for writing.
    pub fn pending_lines(&self) -> impl Iterator<Item = (LineAddress, bool)> {
        self.misses.iter().map(|miss| (miss.line, miss.write))
    }
}
