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

/// A place for a line in a private cache.
pub type Slot = u32;

/// The state of a line that a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, state::State, state::Plain)]
pub enum State {
    /// Others may have it too.
    Shared,
    /// The only copy, as at its home.
    Exclusive,
    /// The only copy, newer than at its home.
    Modified,
}

/// A line has been looked up.
#[derive(Clone, Copy, Debug)]
pub struct LookUp {
    /// Which line.
    pub line: LineAddress,
    /// Where it is, if the cache holds it.
    pub slot: Option<Slot>,
    /// The first place of its set.
    pub(crate) set: usize,
}

/// What became of a request for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// On its way.
    Sent,
    /// The line had been asked for already.
    Pending,
    /// Not now: all miss status holding registers are in use; or the line is on its way, but what
    /// comes may be older than this request. Another line that comes, or this one, makes it
    /// possible.
    Full,
}

/// What a message from the fabric did to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheNotice {
    /// Nothing that the owner of the cache must know.
    None,
    /// The line has come. Use it, then call [`PrivateCache::finish_fill`] before anything else
    /// happens to the cache.
    Filled {
        /// Where it is.
        slot: Slot,
        /// With which permission.
        grant: Grant,
        /// Where it was found.
        source: Source,
        /// The line that had to make room.
        evicted: Option<LineAddress>,
        /// It serves what waits for it now and then goes away.
        use_once: bool,
    },
    /// The copy is gone.
    Lost(LineAddress),
    /// The copy may only be read from now on.
    Downgraded(LineAddress),
}

const INVALID: u64 = u64::MAX;

/// A bit of the tag of a line that an instruction has prefetched and that has not been used yet.
/// The short way to a line that was used last compares all bits, and so leaves the first use to the
/// long way, which sees the bit: counting costs lines that are not prefetched nothing.
const UNUSED: u64 = 1 << 63;

/// What another cache, or the home, wants of an owned line.
#[derive(Clone, Copy, Debug, Hash, state::State, state::Plain)]
struct Forward {
    /// `None`: the home.
    requester: Option<CacheId>,
    write: bool,
    /// The home has no copy.
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

/// A request on its way.
#[derive(Clone, Debug, Hash, state::State, state::Plain)]
struct Miss {
    line: LineAddress,
    write: bool,
    /// An instruction has prefetched it, and nothing else has asked for it yet.
    prefetched: bool,
    /// An Invalidate came meanwhile.
    invalidated: bool,
    /// A forward that waits for the data.
    forward: Option<Forward>,
}

impl Miss {
    /// Loads that have not been waiting for the line yet may not use it.
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

/// A line that had to make room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Victim {
    pub(crate) line: LineAddress,
    pub(crate) state: State,
    pub(crate) data: LineData,
}

/// What [`PrivateCache::finish_fill`] has to do.
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
    /// Line numbers, set by set, some with [`UNUSED`]; [`INVALID`] where there is none.
    #[state(exact, slice)]
    tags: Vec<u64>,
    #[state(exact, slice)]
    states: Vec<State>,
    /// How many ways of each set have no line.
    #[state(fixed)]
    free: Vec<u8>,
    /// The replacement policy's byte of each way.
    #[state(exact, octets)]
    order: Vec<u8>,
    /// The slot of each set that was used last: to use it again changes nothing.
    #[state(exact, slice)]
    recent: Vec<Slot>,
    #[state(exact, slice)]
    data: Vec<AlignedLine>,
    #[state(exact)]
    misses: Vec<Miss>,
    /// How many of them there are for the low bits of a line: to see quickly that there is none.
    #[state(exact, slice)]
    missing: [u16; 64],
    /// The oldest is acknowledged first, as a rule.
    evictions: VecDeque<Eviction>,
    fill: Option<Fill>,
    #[state(count)]
    version: u64,
    /// Of lines that instructions have prefetched.
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

    /// Where `line` is, if this cache holds it.
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

    /// The same with what a prefetcher has to know.
    pub fn look_up(&self, line: LineAddress) -> LookUp {
        LookUp {
            line,
            slot: self.find(line),
            set: self.set_start(line),
        }
    }

    /// Where `line` is, if it is the most recently used of its set.
    #[inline(always)]
    pub fn find_recent(&self, line: LineAddress) -> Option<Slot> {
        let recent = self.recent[(line.0 & self.set_mask) as usize];
        debug_assert!(
            !self.policy.is_order_of_use() || self.order[recent as usize] == 0,
            "a line is not the most recent"
        );
        (self.tags[recent as usize] == line.0).then_some(recent)
    }

    /// Where `line` is, if this cache holds it; then it becomes the most recently used of its set.
    #[inline(always)]
    pub fn find_and_touch(&mut self, line: LineAddress) -> Option<Slot> {
        match self.find_recent(line) {
            None => self.find_another(line),
            found => found,
        }
    }

    /// The same, if it may be written.
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

    /// Makes `slot`, which holds a line, the most recently used of its set. A line that is used
    /// several times, and no other of its set meanwhile, counts as used once.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        if self.tags[slot as usize] & UNUSED != 0 {
            self.tags[slot as usize] &= !UNUSED;
            self.prefetches.useful += 1;
        }
        if self.order[slot as usize] != 0 {
            // The set as the line tells it: a division would take the host longer than all else.
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

    /// The bytes at `slot`, to be written; the line must be [writable](PrivateCache::writable).
    #[inline]
    pub fn line_mut(&mut self, slot: Slot) -> &mut LineData {
        debug_assert!(self.writable(slot), "a line is written that is not owned");
        self.states[slot as usize] = State::Modified;
        self.version += 1;
        &mut self.data[slot as usize].0
    }

    /// The line that would have to make room if `line` came now.
    pub(crate) fn would_evict(&self, line: LineAddress) -> Option<LineAddress> {
        if self.find(line).is_some() {
            return None;
        }
        let tag = self.tags[self.victim(line) as usize];
        (tag != INVALID).then_some(LineAddress(tag & !UNUSED))
    }

    /// Gives the miss register of `line` back, whose place it takes as the most recently used of
    /// its set. Returns what had to make room. This and what follows is for a cache that has
    /// another one behind it, which speaks with the homes.
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

    /// The line at `slot`, which makes room for another.
    fn replaced(&mut self, slot: Slot) -> LineAddress {
        let tag = self.tags[slot as usize];
        self.prefetches.unused += u64::from(tag & UNUSED != 0);
        LineAddress(tag & !UNUSED)
    }

    /// Drops `line`, if it is here.
    pub(crate) fn drop_line(&mut self, line: LineAddress) {
        if let Some(slot) = self.find(line) {
            self.lose(slot);
        }
    }

    /// `line`, if it is here, may only be read from now on.
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

    /// The place that `line` would take.
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

    /// The place that `line`, which comes now and is used, takes.
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

    /// Lines that have been asked for and have not come.
    pub fn outstanding(&self) -> usize {
        self.misses.len()
    }

    /// `line` has just been asked for by a prefetch instruction.
    pub fn note_prefetch(&mut self, line: LineAddress) {
        if let Some(index) = self.miss_of(line) {
            self.misses[index].prefetched = true;
            self.prefetches.issued += 1;
        }
    }

    /// What has become of lines that prefetch instructions have asked for. What they have replaced
    /// is not followed.
    pub fn prefetches(&self) -> PrefetchStatistics {
        self.prefetches
    }

    /// What comes of it if a prefetcher asks for `line`, which is pending also if it is here. One
    /// miss register is kept for what is needed.
    pub fn may_prefetch(&self, line: LineAddress) -> RequestOutcome {
        if self.find(line).is_some() || self.is_pending(line) {
            RequestOutcome::Pending
        } else if self.misses.len() + 1 < self.mshrs {
            RequestOutcome::Sent
        } else {
            RequestOutcome::Full
        }
    }

    /// Places for lines, and ways of each set.
    pub(crate) fn places(&self) -> (usize, usize) {
        (self.tags.len(), self.ways)
    }

    /// Whether all miss status holding registers are in use.
    #[inline]
    pub fn misses_full(&self) -> bool {
        self.misses.len() >= self.mshrs
    }

    /// Whether `line` is outstanding, so that a store can wait for it without asking again. If a
    /// prefetch instruction has asked for it, that was late.
    #[inline]
    pub fn joins_miss(&mut self, line: LineAddress) -> bool {
        let miss = self.miss_of(line);
        if let Some(index) = miss {
            self.note_late(index);
        }
        miss.is_some()
    }

    /// Something waits for a line that is outstanding: if it has been prefetched, that was late.
    #[inline]
    fn note_late(&mut self, index: usize) {
        let late = std::mem::take(&mut self.misses[index].prefetched);
        self.prefetches.late += u64::from(late);
    }

    /// Whether a request to read `line` would be [refused](RequestOutcome::Full) now.
    pub fn refuses_to_read(&self, line: LineAddress) -> bool {
        if self.find(line).is_some() {
            return false;
        }
        match self.miss_of(line) {
            Some(index) => self.misses[index].comes_too_late(),
            None => self.misses_full(),
        }
    }

    /// What comes of `line`, if it is on its way, may be older than what is asked from now on: its
    /// cache behind has been told to give it up.
    pub(crate) fn pending_is_old(&mut self, line: LineAddress) {
        if let Some(miss) = self.misses.iter_mut().find(|miss| miss.line == line) {
            miss.invalidated = true;
        }
    }

    /// Whether `line` has been asked for and has not come.
    #[inline]
    pub fn is_pending(&self, line: LineAddress) -> bool {
        self.miss_of(line).is_some()
    }

    /// A number that changes whenever a tag, a state or a byte of data does.
    #[inline]
    pub fn content_version(&self) -> u64 {
        self.version
    }

    /// What decides on the next victims, as long as no line comes: to compare two sample points.
    pub fn replacement_order(&self) -> (&[u8], &[Slot]) {
        (&self.order, &self.recent)
    }

    /// How many lines it holds.
    pub fn occupied(&self) -> u64 {
        let free: u64 = self.free.iter().map(|&ways| u64::from(ways)).sum();
        self.tags.len() as u64 - free
    }

    /// What the cache holds.
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

    /// The lines that it holds newer than their homes.
    pub(crate) fn modified_lines(&self) -> impl Iterator<Item = (LineAddress, &LineData)> {
        let modified = self
            .lines()
            .filter(|&(_, state, _)| state == State::Modified);
        modified.map(|(line, _, data)| (line, data))
    }

    /// The lines that it has written and is giving up, as long as their homes have not said that
    /// they have them.
    pub(crate) fn leaving_lines(&self) -> impl Iterator<Item = (LineAddress, &LineData)> {
        let dirty = self.evictions.iter().filter(|eviction| eviction.dirty);
        dirty.map(|eviction| (eviction.line, &eviction.data))
    }

    /// The lines that have been asked for, and whether in order to write them.
    pub fn pending_lines(&self) -> impl Iterator<Item = (LineAddress, bool)> {
        self.misses.iter().map(|miss| (miss.line, miss.write))
    }
}
