//! A private cache: set-associative, MESI, with its data.
//!
//! # States and events
//!
//! A line at a cache has a stable state (I, S, E, M), at most one request on its way (GetS or
//! GetM), and perhaps an entry in the eviction buffer: an owned line whose Put has not been
//! acknowledged. The home's messages to one cache arrive in the order sent; a Transfer from
//! another cache is not ordered with them. After Sorin, Hill and Wood, *A Primer on Memory
//! Consistency and Cache Coherence*, ch. 8, with MESI's silent E to M and silent eviction from S.
//!
//! | event | eviction buffer has it | E or M | S | I, GetM sent | I, GetS sent | I |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | Data | as without | error | upgrade (GetM sent), or error | fill as M | fill as S or E | error |
//! | Invalidate | never | error | drop, ack: *Lost* | ack | ack; if the data comes with S, use it once | ack |
//! | ForwardGetS | answer from buffer | send data, to S: *Downgraded* | never | keep until filled | error | error |
//! | ForwardGetM | answer from buffer | send data, to I: *Lost* | never | keep until filled | error | error |
//! | PutAck | drop the oldest entry | error | error | error | error | error |
//! | replacement | | Put, into the buffer | silent | | | |
//!
//! Why each of them is right:
//!
//! - *Forward while the buffer has the line.* The home sends a PutAck when it has seen the Put, so
//!   a forward that comes before the PutAck was sent before it, to the owner that this cache then
//!   was, even if the line has been asked for again meanwhile.
//! - *Forward with GetM sent and nothing in the buffer.* The home has made this cache the owner,
//!   and the data is on its way from the last owner. It must be used once before it is given away,
//!   or two writers could take it from each other forever.
//! - *A forward never meets GetS sent alone*: a GetS makes an owner only by Data(Exclusive) from
//!   the home, which arrives before any later forward.
//! - *A forward never meets S*: a sharer becomes owner by Data(Modified) from the home, which
//!   arrives before any later forward. Data comes from another owner only after that one's
//!   ownership has invalidated the copy here.
//! - *An Invalidate never meets the eviction buffer*: it is for sharers, and to be a sharer again
//!   the cache had to ask after its Put, so that the PutAck was sent first.
//! - *Invalidate with GetS sent.* It is for a copy that was evicted silently, or for the copy on
//!   its way from the last owner. The cache cannot tell, so it does not keep a Shared copy. The
//!   value may be used for the loads that wait: it was current after they were issued. Loads that
//!   come later must not use it, for they may follow others that have seen newer writes; they ask
//!   again when it has come. Data with E comes from the home, ordered, so the Invalidate was for an
//!   older copy.
//! - *Invalidate with GetM sent*: this cache's GetM was not first. The home does not send
//!   Invalidates to an owner, so it is never for the data on its way.

use crate::address::AlignedLine;
use crate::replacement::Policy;
use crate::{
    CacheId, CacheSpec, Grant, LineAddress, LineData, Outbox, OutgoingKind, Source, Time, ToCache,
    ToHome,
};
use std::collections::VecDeque;

use state::{Purpose, State as _, Walker};

/// A place for a line in a private cache.
pub type Slot = u32;

/// The state of a line that a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Others may have it too.
    Shared,
    /// The only copy, as at its home.
    Exclusive,
    /// The only copy, newer than at its home.
    Modified,
}

state::choice!(State {
    Shared,
    Exclusive,
    Modified
});

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

/// What another cache, or the home, wants of an owned line.
#[derive(Clone, Copy, Debug, Hash)]
struct Forward {
    /// `None`: the home.
    requester: Option<CacheId>,
    write: bool,
    /// The home has no copy.
    with_data: bool,
}

state::plain!(Forward {
    requester,
    write,
    with_data
});

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
#[derive(Clone, Debug, Hash)]
struct Miss {
    line: LineAddress,
    write: bool,
    /// An Invalidate came meanwhile.
    invalidated: bool,
    /// A forward that waits for the data.
    forward: Option<Forward>,
}

state::plain!(Miss {
    line,
    write,
    invalidated,
    forward
});

impl Miss {
    /// Loads that have not been waiting for the line yet may not use it.
    fn comes_too_late(&self) -> bool {
        self.invalidated && !self.write
    }
}

#[derive(Clone, Debug, Hash)]
struct Eviction {
    line: LineAddress,
    dirty: bool,
    data: LineData,
}

state::plain!(Eviction { line, dirty, data });

/// A line that had to make room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Victim {
    pub(crate) line: LineAddress,
    pub(crate) state: State,
    pub(crate) data: LineData,
}

/// What [`PrivateCache::finish_fill`] has to do.
#[derive(Clone, Debug)]
struct Fill {
    line: LineAddress,
    use_once: bool,
    forward: Option<Forward>,
}

state::plain!(Fill {
    line,
    use_once,
    forward
});

/// A private cache. See the description of the module for its protocol.
#[derive(Clone, Debug)]
pub struct PrivateCache {
    id: CacheId,
    ways: usize,
    set_mask: u64,
    mshrs: usize,
    /// Line numbers, set by set; [`INVALID`] where there is none.
    tags: Vec<u64>,
    states: Vec<State>,
    /// How many ways of each set have no line.
    free: Vec<u8>,
    /// The replacement policy's byte of each way.
    order: Vec<u8>,
    /// The slot of each set that was used last: to use it again changes nothing.
    recent: Vec<Slot>,
    data: Vec<AlignedLine>,
    misses: Vec<Miss>,
    /// How many of them there are for the low bits of a line: to see quickly that there is none.
    missing: [u16; 64],
    /// The oldest is acknowledged first, as a rule.
    evictions: VecDeque<Eviction>,
    fill: Option<Fill>,
    version: u64,
    policy: Policy,
}

impl state::State for PrivateCache {
    fn walk(&mut self, walker: &mut dyn Walker) {
        if walker.purpose() == Purpose::Compare {
            self.compare(walker);
        }
        state::fields!(
            self,
            walker,
            PrivateCache {
                id: fixed,
                ways: fixed,
                set_mask: fixed,
                mshrs: fixed,
                tags: exact slice,
                states: exact slice,
                free: fixed,
                order: exact octets,
                recent: exact slice,
                data: exact slice,
                misses: exact,
                missing: exact slice,
                evictions,
                fill,
                version: count,
                policy,
            }
        );
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

impl PrivateCache {
    /// The lines that are here, and what decides on which of them makes room. Where nothing has
    /// been written, they have the data that they had.
    fn compare(&mut self, walker: &mut dyn Walker) {
        if !self.policy.is_order_of_use() {
            // There it makes a difference in which way a line is.
            self.compare_order(walker);
            for (tag, state) in self.tags.iter_mut().zip(&self.states) {
                walker.number(tag);
                walker.number(&mut (*state as u64));
            }
            self.compare_misses(walker);
            return;
        }
        // Of each set the most recently used first.
        for start in (0..self.tags.len()).step_by(self.ways) {
            for place in state::by_rank(&self.order[start..start + self.ways], start) {
                if self.tags[place] != INVALID {
                    walker.number(&mut self.tags[place]);
                    walker.number(&mut (self.states[place] as u64));
                }
            }
            walker.number(&mut INVALID.clone());
        }
        self.compare_misses(walker);
    }

    /// All that the policy has.
    fn compare_order(&mut self, walker: &mut dyn Walker) {
        self.policy.compare(walker);
        for byte in &self.order {
            walker.number(&mut u64::from(*byte));
        }
        self.recent.walk(walker);
    }

    /// In which order the requests are kept makes no difference.
    fn compare_misses(&mut self, walker: &mut dyn Walker) {
        let mut misses = self.misses.clone();
        misses.sort_by_key(|miss| miss.line);
        misses.walk(walker);
    }

    /// Shows to a walker that compares how often lines have come and gone, instead of which are
    /// here and in which order they were used. Where none has come or gone the order has decided on
    /// nothing, and, unless the policy says otherwise, it is the same after each time that the same
    /// ones are used.
    pub fn compare_version(&mut self, walker: &mut dyn Walker) {
        walker.number(&mut self.version);
        if !self.policy.settles() {
            self.compare_order(walker);
        }
        self.compare_misses(walker);
        self.evictions.walk(walker);
        self.fill.walk(walker);
    }
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
            if tag == line.0 {
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

    /// Asks the home for `line`, in order to write it or only to read it. The message leaves at
    /// `at`.
    pub fn request(
        &mut self,
        line: LineAddress,
        write: bool,
        at: Time,
        out: &mut Outbox,
    ) -> RequestOutcome {
        debug_assert!(
            self.find(line)
                .is_none_or(|slot| write && !self.writable(slot)),
            "a line is asked for that is here"
        );
        let outcome = self.begin_miss(line, write);
        if outcome == RequestOutcome::Sent {
            let message = if write { ToHome::GetM } else { ToHome::GetS };
            self.to_home(line, message, at, out);
        }
        outcome
    }

    /// Takes a miss register for `line`.
    #[inline]
    pub(crate) fn begin_miss(&mut self, line: LineAddress, write: bool) -> RequestOutcome {
        if let Some(index) = self.miss_of(line) {
            if self.misses[index].comes_too_late() && !write {
                reached!("load behind an Invalidate of the line that is under way");
                return RequestOutcome::Full;
            }
            return RequestOutcome::Pending;
        }
        if self.misses.len() >= self.mshrs {
            return RequestOutcome::Full;
        }
        self.misses.push(Miss {
            line,
            write,
            invalidated: false,
            forward: None,
        });
        self.missing[low_bits(line)] += 1;
        RequestOutcome::Sent
    }

    /// Where the miss of `line` is, if there is one.
    #[inline]
    fn miss_of(&self, line: LineAddress) -> Option<usize> {
        if self.missing[low_bits(line)] == 0 {
            return None;
        }
        self.misses.iter().position(|miss| miss.line == line)
    }

    #[inline]
    fn remove_miss(&mut self, index: usize) -> Miss {
        let miss = self.misses.swap_remove(index);
        self.missing[low_bits(miss.line)] -= 1;
        miss
    }

    #[inline]
    fn to_home(&self, line: LineAddress, message: ToHome, at: Time, out: &mut Outbox) {
        let cache = self.id;
        out.push(
            at,
            OutgoingKind::Coherence {
                cache,
                line,
                message,
            },
        );
    }

    /// Takes a message of the fabric, at the time of its delivery.
    pub fn receive(
        &mut self,
        line: LineAddress,
        message: &ToCache,
        at: Time,
        out: &mut Outbox,
    ) -> CacheNotice {
        debug_assert!(self.fill.is_none(), "a fill has not been finished");
        cell!(self.note_message(line, message));
        match *message {
            ToCache::Data(grant, source, ref data) => {
                self.fill(line, (grant, source), data, at, out)
            }
            ToCache::Invalidate => self.invalidate(line, at, out),
            ToCache::ForwardGetS {
                requester,
                with_data,
            } => {
                let forward = Forward {
                    requester,
                    write: false,
                    with_data,
                };
                self.forward(line, forward, at, out)
            }
            ToCache::ForwardGetM { requester } => {
                let forward = Forward {
                    requester,
                    write: true,
                    with_data: false,
                };
                self.forward(line, forward, at, out)
            }
            ToCache::PutAck => {
                self.acknowledge(line);
                CacheNotice::None
            }
        }
    }

    /// Takes a PutAck, like [`PrivateCache::receive`].
    #[inline]
    pub fn acknowledge(&mut self, line: LineAddress) {
        let mut evictions = self.evictions.iter();
        match evictions.position(|eviction| eviction.line == line) {
            Some(0) => drop(self.evictions.pop_front()),
            Some(index) => drop(self.evictions.remove(index)),
            None => internal_error(self.id, line, "a PutAck for no Put"),
        }
    }

    fn fill(
        &mut self,
        line: LineAddress,
        (grant, source): (Grant, Source),
        data: &LineData,
        at: Time,
        out: &mut Outbox,
    ) -> CacheNotice {
        let Some(index) = self.miss_of(line) else {
            internal_error(self.id, line, "data that was not asked for");
        };
        let miss = self.remove_miss(index);
        if miss.write != (grant == Grant::Modified) {
            internal_error(
                self.id,
                line,
                "data with a permission that was not asked for",
            );
        }
        let mut evicted = None;
        // What is here can only have been asked for in order to be written.
        debug_assert!(
            miss.write || self.find(line).is_none(),
            "a line is here already"
        );
        let here = if miss.write { self.find(line) } else { None };
        let slot = match here {
            Some(slot) => {
                self.touch(slot);
                slot
            }
            None => {
                let slot = self.take_way(line);
                if self.tags[slot as usize] != INVALID {
                    evicted = Some(self.evict(slot, at, out));
                }
                *self.free_ways(line) -= 1;
                slot
            }
        };
        let place = slot as usize;
        self.tags[place] = line.0;
        self.states[place] = match grant {
            Grant::Shared => State::Shared,
            Grant::Exclusive => State::Exclusive,
            // It may come from another cache and be newer than at home.
            Grant::Modified => State::Modified,
        };
        self.data[place].0 = *data;
        self.version += 1;
        let use_once = miss.invalidated && grant == Grant::Shared;
        if use_once {
            reached!("data that is used once");
        }
        if miss.invalidated && grant == Grant::Exclusive {
            reached!("exclusive data after an Invalidate of an older copy");
        }
        if self.evictions.iter().any(|eviction| eviction.line == line) {
            reached!("data before the PutAck of the line's last eviction");
        }
        self.fill = Some(Fill {
            line,
            use_once,
            forward: miss.forward,
        });
        CacheNotice::Filled {
            slot,
            grant,
            source,
            evicted,
            use_once,
        }
    }

    /// The line that would have to make room if `line` came now.
    pub(crate) fn would_evict(&self, line: LineAddress) -> Option<LineAddress> {
        if self.find(line).is_some() {
            return None;
        }
        let tag = self.tags[self.victim(line) as usize];
        (tag != INVALID).then_some(LineAddress(tag))
    }

    /// Gives the miss register of `line` back. This and what follows is for a cache that has
    /// another one behind it, which speaks with the homes.
    pub(crate) fn end_miss(&mut self, line: LineAddress) {
        if let Some(index) = self.miss_of(line) {
            self.remove_miss(index);
        }
    }

    /// Puts a line in, as the most recently used of its set. Returns what had to make room.
    pub(crate) fn place(
        &mut self,
        line: LineAddress,
        state: State,
        data: &LineData,
    ) -> (Slot, Option<Victim>) {
        let mut victim = None;
        let slot = if let Some(slot) = self.find(line) {
            self.touch(slot);
            slot
        } else {
            let slot = self.take_way(line);
            let place = slot as usize;
            if self.tags[place] != INVALID {
                victim = Some(Victim {
                    line: LineAddress(self.tags[place]),
                    state: self.states[place],
                    data: self.data[place].0,
                });
            } else {
                *self.free_ways(line) -= 1;
            }
            slot
        };
        let place = slot as usize;
        self.tags[place] = line.0;
        self.states[place] = state;
        self.data[place].0 = *data;
        self.version += 1;
        (slot, victim)
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

    fn evict(&mut self, slot: Slot, at: Time, out: &mut Outbox) -> LineAddress {
        let place = slot as usize;
        let line = LineAddress(self.tags[place]);
        cell!(self.note("replacement", line));
        self.tags[place] = INVALID;
        *self.free_ways(line) += 1;
        let dirty = match self.states[place] {
            State::Shared => return line,
            State::Exclusive => false,
            State::Modified => true,
        };
        let data = self.data[place].0;
        self.evictions.push_back(Eviction { line, dirty, data });
        if dirty {
            self.to_home(line, ToHome::PutM(data), at, out);
        } else {
            self.to_home(line, ToHome::PutE, at, out);
        }
        line
    }

    fn invalidate(&mut self, line: LineAddress, at: Time, out: &mut Outbox) -> CacheNotice {
        self.to_home(line, ToHome::InvalidateAck, at, out);
        if let Some(slot) = self.find(line) {
            if self.writable(slot) {
                internal_error(self.id, line, "an Invalidate to its owner");
            }
            if self.is_pending(line) {
                reached!("Invalidate of a copy that waits to be upgraded");
            }
            return self.lose(slot);
        }
        if let Some(miss) = self.misses.iter_mut().find(|miss| miss.line == line) {
            reached!("Invalidate without a copy while the line is under way");
            miss.invalidated = true;
        }
        CacheNotice::None
    }

    fn lose(&mut self, slot: Slot) -> CacheNotice {
        let line = LineAddress(self.tags[slot as usize]);
        self.tags[slot as usize] = INVALID;
        *self.free_ways(line) += 1;
        self.version += 1;
        CacheNotice::Lost(line)
    }

    fn forward(
        &mut self,
        line: LineAddress,
        forward: Forward,
        at: Time,
        out: &mut Outbox,
    ) -> CacheNotice {
        if let Some(eviction) = self.evictions.iter().find(|eviction| eviction.line == line) {
            let (dirty, data) = (eviction.dirty, eviction.data);
            reached!("forward answered from the eviction buffer");
            if self.is_pending(line) {
                reached!("forward of an evicted line that has been asked for again");
            }
            self.answer_forward(line, forward, dirty, &data, false, at, out);
            return CacheNotice::None;
        }
        if let Some(slot) = self.find(line)
            && self.writable(slot)
        {
            let dirty = self.state(slot) == State::Modified;
            let data = *self.line(slot);
            let kept = !forward.write;
            self.answer_forward(line, forward, dirty, &data, kept, at, out);
            if !kept {
                return self.lose(slot);
            }
            self.states[slot as usize] = State::Shared;
            self.version += 1;
            return CacheNotice::Downgraded(line);
        }
        match self.misses.iter_mut().find(|miss| miss.line == line) {
            Some(miss) if miss.write && miss.forward.is_none() => {
                reached!("forward before the data");
                miss.forward = Some(forward);
            }
            _ => internal_error(self.id, line, "a forward to a cache that is not the owner"),
        }
        CacheNotice::None
    }

    #[allow(clippy::too_many_arguments)]
    fn answer_forward(
        &self,
        line: LineAddress,
        forward: Forward,
        dirty: bool,
        data: &LineData,
        kept: bool,
        at: Time,
        out: &mut Outbox,
    ) {
        let grant = if forward.write {
            Grant::Modified
        } else {
            Grant::Shared
        };
        if let Some(to) = forward.requester {
            let (from, data) = (self.id, *data);
            out.push(
                at,
                OutgoingKind::Transfer {
                    from,
                    to,
                    line,
                    grant,
                    data,
                },
            );
        }
        // A new owner has the data and will write it back; the home needs it otherwise.
        let home_needs = dirty && (forward.requester.is_none() || grant == Grant::Shared);
        let data = (home_needs || forward.with_data).then_some(*data);
        self.to_home(line, ToHome::ForwardAck { data, dirty, kept }, at, out);
    }

    /// Ends the use of a line that has just been [filled](CacheNotice::Filled): carries out what
    /// had to wait for the data. To be called once after each fill, at the same time.
    pub fn finish_fill(&mut self, line: LineAddress, at: Time, out: &mut Outbox) -> CacheNotice {
        let Some(fill) = self.fill.take() else {
            internal_error(self.id, line, "a fill is finished that did not begin");
        };
        debug_assert_eq!(
            fill.line, line,
            "another fill is finished than the one that began"
        );
        if let Some(forward) = fill.forward {
            return self.forward(line, forward, at, out);
        }
        if fill.use_once
            && let Some(slot) = self.find(line)
        {
            return self.lose(slot);
        }
        CacheNotice::None
    }

    /// Whether a line has been [filled](CacheNotice::Filled) and its use has not ended.
    pub fn is_filling(&self) -> bool {
        self.fill.is_some()
    }

    /// Like [`PrivateCache::finish_fill`] for a line that came with ownership, except that a
    /// forward that had to wait for the data goes on waiting: it is handed to the caller, who
    /// passes it to [`PrivateCache::receive`] a little later.
    pub fn keep_fill(&mut self) -> Option<ToCache> {
        let fill = self.fill.take()?;
        fill.forward.map(Forward::message)
    }

    /// Lines that have been asked for and have not come.
    pub fn outstanding(&self) -> usize {
        self.misses.len()
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

    /// Ways of each set.
    pub(crate) fn ways(&self) -> usize {
        self.ways
    }

    /// Places for lines.
    pub(crate) fn slots(&self) -> usize {
        self.tags.len()
    }

    /// Whether all miss status holding registers are in use.
    #[inline]
    pub fn misses_full(&self) -> bool {
        self.misses.len() >= self.mshrs
    }

    /// Whether `line` has been asked for and has not come.
    #[inline]
    pub fn is_asked_for(&self, line: LineAddress) -> bool {
        self.miss_of(line).is_some()
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

    /// What the cache holds.
    pub fn lines(&self) -> impl Iterator<Item = (LineAddress, State, &LineData)> {
        self.tags
            .iter()
            .enumerate()
            .filter(|&(_, &tag)| tag != INVALID)
            .map(|(slot, &tag)| (LineAddress(tag), self.states[slot], &self.data[slot].0))
    }

    /// The lines that have been asked for, and whether in order to write them.
    pub fn pending_lines(&self) -> impl Iterator<Item = (LineAddress, bool)> {
        self.misses.iter().map(|miss| (miss.line, miss.write))
    }
}

/// For tests.
#[cfg(test)]
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

    fn note(&self, row: &'static str, line: LineAddress) {
        let table = crate::coverage::PRIVATE_CACHE;
        crate::coverage::note(table, Some(self.id), line, row, self.column(line));
    }

    fn note_message(&self, line: LineAddress, message: &ToCache) {
        let row = match message {
            ToCache::Data(..) => "Data",
            ToCache::Invalidate => "Invalidate",
            ToCache::ForwardGetS { .. } => "ForwardGetS",
            ToCache::ForwardGetM { .. } => "ForwardGetM",
            ToCache::PutAck => "PutAck",
        };
        self.note(row, line);
    }

    /// Adds what decides on the cache's behaviour.
    pub(crate) fn hash_state(&self, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        (&self.order, &self.recent).hash(hasher);
        self.lines().for_each(|line| line.hash(hasher));
        // In which order the requests are kept makes no difference.
        let mut misses: Vec<&Miss> = self.misses.iter().collect();
        misses.sort_by_key(|miss| miss.line);
        misses.hash(hasher);
        self.evictions.hash(hasher);
    }

    /// All data that is here.
    pub(crate) fn each_data(&mut self, change: &mut impl FnMut(LineAddress, &mut LineData)) {
        for (&tag, data) in self.tags.iter().zip(&mut self.data) {
            if tag != INVALID {
                change(LineAddress(tag), &mut data.0);
            }
        }
        for eviction in &mut self.evictions {
            change(eviction.line, &mut eviction.data);
        }
    }

    /// Replaces the line at `slot`, as a line that is not modelled would.
    pub(crate) fn replace(&mut self, slot: Slot, out: &mut Outbox) {
        self.evict(slot, Time::ZERO, out);
    }

    /// The lines of the eviction buffer.
    pub(crate) fn evicted_lines(&self) -> impl Iterator<Item = LineAddress> {
        self.evictions.iter().map(|eviction| eviction.line)
    }
}
