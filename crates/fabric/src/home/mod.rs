//! The home of lines: a bank of the last-level cache with its part of the directory.
//!
//! # The directory's states and events
//!
//! A blocking directory, after Sorin, Hill and Wood, *A Primer on Memory Consistency and Cache
//! Coherence*, ch. 8.2: while a transaction on a line waits for something, the line is *busy* and
//! later requests for it wait in order. Full map: one bit a cache, and the owner.
//!
//! An *inclusive* last-level cache has every line that private caches hold, and the directory is in
//! its tags:
//!
//! | event | absent | idle, no holder | idle, sharers | idle, owner | busy |
//! | --- | --- | --- | --- | --- | --- |
//! | GetS | fetch from memory | grant E, or S to a cache that only reads | grant S | ForwardGetS; busy | wait |
//! | GetM | fetch from memory | grant M | Invalidate the others, if any; busy; grant M | ForwardGetM; busy | wait |
//! | ReadAtHome | fetch from memory | read out; busy | read out; busy | ForwardGetS for the home; busy | wait |
//! | WriteAtHome | whole line: allocate, write; part: fetch from memory | write | Invalidate; busy | ForwardGetM for the home; busy | wait |
//! | WriteAtHome, to memory | write memory | write memory, drop | Invalidate; busy | ForwardGetM for the home; busy | wait |
//! | Prefetch | fetch from memory, unless that would recall a line | drop it | drop it | drop it | drop it |
//! | Put from the owner | | | | take the data, PutAck | it has been sent a forward: PutAck, drop the data |
//! | Put from another | never | when it is served: PutAck | when it is served: PutAck | when it is served: PutAck | it is about to become owner: wait |
//! | InvalidateAck | error | error | error | error | the last one completes |
//! | ForwardAck | error | error | error | error | completes |
//!
//! - *Put from a cache that has been sent a forward.* The Put was sent before the forward arrived.
//!   The cache answers the forward from its eviction buffer, and the ForwardAck has the data; the
//!   PutAck is ordered after the forward.
//! - *Put from another while busy.* The cache has received the line by a Transfer whose ForwardAck
//!   is still in flight to the home. Its Put keeps its place in the queue. If a request before it
//!   in the queue takes the ownership away, the cache answers from its buffer as above, and when
//!   the Put is served, its sender is no longer the owner: it is only acknowledged. A Put from
//!   another cache never arrives while the line is not busy: ownership is taken away by a
//!   ForwardAck, which arrives after the Put.
//! - *WriteAtHome* is performed when no cache holds the line any more. Snoopers of ownership are
//!   notified then. A line that was dropped while requests wait for it is fetched again for them.
//! - *A miss* takes a way that is not busy, chosen by the replacement policy. Its holders are
//!   recalled first (Invalidate, or ForwardGetM for the home). Misses of a set for which there is
//!   no way yet wait in order. A later request for such a line can find it present and overtake,
//!   which is harmless: a cache has one request for a line at a time, and its Puts never wait for a
//!   way.
//! - Every answer leaves after the same latency of the bank, so that a cache receives the answers
//!   in the order of the bank's decisions.
//!
//! # A non-inclusive cache
//!
//! Its directory has tags of its own, and an entry only for a line that private caches hold or that
//! is busy. A line that loses its place in the directory is recalled as above; one that loses its
//! place in the last-level cache (LLC) is not: it is only written to memory if it is newer. So
//! there are two more states:
//!
//! | event | absent | in LLC, no entry | sharers | sharers, not in LLC | owner | owner, not in LLC |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | GetS | fetch | grant E | grant S | fetch, grant S | ForwardGetS | ForwardGetS with data |
//! | GetM | fetch | grant M | Invalidate, grant M | fetch, Invalidate, grant M | ForwardGetM | ForwardGetM |
//! | ReadAtHome | fetch | read out | read out | fetch, read out | ForwardGetS for the home | the same with data |
//! | WriteAtHome | whole line: put into the LLC; part: fetch | write | Invalidate, write | Invalidate, as absent | ForwardGetM for the home | the same |
//! | WriteAtHome, to memory | write memory | drop, write memory | Invalidate, as before | Invalidate, write memory | ForwardGetM for the home | the same |
//! | Prefetch | fetch, as above | drop it | drop it | drop it | drop it | drop it |
//! | Put from the owner | | | | | take the data | put the data into the LLC |
//! | loses its place in the LLC | | to absent | to not in LLC | | to not in LLC | |
//!
//! The LLC is filled by lines from memory, by dirty lines that a private cache evicts or shares,
//! and by lines that the home requests from an owner. An evicted clean line does not fill it (a
//! PutE carries no data): if the LLC has lost the line, memory has it. This is the non-inclusive
//! cache of Jaleel et al., "Achieving Non-Inclusive Cache Performance with Inclusive Caches", MICRO
//! 2010. A line that the LLC has lost is fetched from memory even if it has sharers, because
//! sharers drop lines silently, so the home cannot request the data from them.
//!
//! The module `exhaustive` explores all orders of events in small systems, with these tables and
//! that of the private caches.

mod agents;
mod answers;
mod directory;
mod footprint;
mod prefetches;
mod puts;
mod room;
#[cfg(test)]
mod testing;
mod transaction;
mod waiting;

use crate::divisor::Divisor;
use crate::line_array::LineArray;
use crate::prefetcher::Prefetching;
use crate::replacement::Policy;
use crate::{
    AgentId, CacheId, Grant, Inclusion, LINE_BYTES, LastLevelSpec, LineAddress, LineData, Ram,
    Source, Time, ToCache, ToHome,
};
pub(crate) use agents::HomeWrite;
use footprint::Footprint;
use state::{Purpose, State, Walker};
use std::collections::VecDeque;
use transaction::{Origin, Request, Stalled, Step, Transaction};

/// The actions of a bank, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HomeAction {
    /// A message without data to a private cache.
    Send(CacheId, LineAddress, ToCache),
    /// The line, with its contents in memory's image, to a private cache.
    Grant(CacheId, LineAddress, Grant, Source),
    /// A cache is being granted E or M; precedes the granting message.
    Granted(LineAddress),
    /// Read a line from memory and report it by [`Bank::memory_answered`].
    FetchFromMemory(TransactionId, LineAddress),
    /// A line goes to memory.
    WriteToMemory(LineAddress),
    /// Requests a [prefetch](Bank::prefetch) of the line from its home.
    Prefetch(LineAddress),
    /// After the bank's latency the agent receives its data; [`Bank::read_out_done`] continues.
    ReadOut(TransactionId, AgentId, LineAddress),
    /// An agent's write is done, with the resulting line. After the bank's latency the agent is
    /// notified.
    Written(AgentId, LineAddress, LineData),
}

/// An [immediate answer](Bank::answer_at_once) of a bank.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// The line, from the last-level cache. A grant of E or M must be reported first.
    Grant(Grant),
    /// An owner's evicted line has been accepted.
    PutAck,
}

pub(crate) type TransactionId = u32;

const NO_LINE: u64 = u64::MAX;

const NO_OWNER: u16 = u16::MAX;

const IDLE: TransactionId = TransactionId::MAX;

/// A directory entry; in an inclusive cache, also the state of the last-level cache's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
struct Entry {
    /// [`NO_LINE`] in a free way.
    line: u64,
    sharers: u64,
    owner: u16,
    /// Whether the last-level cache has the line. Always false if [`Bank::lines`] records it.
    present: bool,
    /// Whether the line is newer than memory. Always false if [`Bank::lines`] records it.
    dirty: bool,
    transaction: TransactionId,
}

const EMPTY: Entry = Entry {
    line: NO_LINE,
    sharers: 0,
    owner: NO_OWNER,
    present: false,
    dirty: false,
    transaction: IDLE,
};

impl Entry {
    /// Whether a private cache holds the line, or a request waits for it.
    fn is_held(&self) -> bool {
        self.owner != NO_OWNER || self.sharers != 0 || self.transaction != IDLE
    }

    /// Records that `cache` gets the line, which has no owner, and no other holder if it will be
    /// owned.
    #[inline]
    fn grant(&mut self, cache: CacheId, grant: Grant) {
        if grant == Grant::Shared {
            self.sharers |= bit(cache);
        } else {
            self.owner = cache.0;
            self.sharers = 0;
        }
    }
}

#[derive(Clone, Copy, Debug, Default, state::State)]
#[state(all(count))]
pub(crate) struct BankStatistics {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) evictions: u64,
    pub(crate) recalls: u64,
    pub(crate) forwards: u64,
    pub(crate) invalidations: u64,
    pub(crate) reads_at_home: u64,
    pub(crate) writes_at_home: u64,
    pub(crate) puts: u64,
}

#[derive(Clone, Debug, state::State)]
#[state(fields)]
pub(crate) struct Bank {
    #[state(fixed)]
    banks: Divisor,
    #[state(fixed)]
    ways: usize,
    /// [`LastLevelSpec::io_ways`]
    #[state(fixed)]
    io_ways: Option<usize>,
    #[state(fixed)]
    set_mask: u64,
    /// Number of bits of a line's number that select its set.
    #[state(fixed)]
    set_bits: u32,
    /// The directory: the first ways of all sets, then their second ones, and so on. Entries that
    /// are read consecutively are adjacent, and do not conflict in the host's caches, as sets a
    /// power of two apart would.
    #[state(exact, slice)]
    entries: Vec<Entry>,
    /// The number of used entries of each set, since a search for a free one reads them all.
    #[state(exact, slice)]
    used: Vec<u16>,
    /// The tags of a non-inclusive cache; those of an inclusive one are the directory's.
    #[state(inside)]
    lines: Option<LineArray>,
    /// With a non-inclusive cache, whether an entry names only sharers that [are
    /// noted](Bank::note_sharers) to have dropped the line, and has not been accessed since. Empty
    /// if there never were any.
    #[state(exact)]
    noted: Vec<bool>,
    /// For each set, a byte of each way's tag, then the replacement policy's byte of each way.
    /// Together they are on one cache line of the host, because the simulated last-level cache has
    /// far more lines than the host's caches hold.
    #[state(exact, octets)]
    sets: Vec<u8>,
    policy: Policy,
    #[state(exact)]
    transactions: Vec<Transaction>,
    #[state(exact)]
    free: Vec<TransactionId>,
    stalled: Vec<Stalled>,
    /// Unused queues, kept for their allocations.
    #[state(fixed)]
    spare: Vec<VecDeque<(LineAddress, Request)>>,
    #[state(inside)]
    prefetching: Option<Box<Prefetching>>,
    /// The caches, as bits, that are granted no ownership when they read.
    #[state(fixed)]
    readers: u64,
    /// The first time at which the bank can accept another message.
    pub(crate) port_free: Time,
    #[state(fixed)]
    footprint: Footprint,
    pub(crate) statistics: BankStatistics,
}

impl State for Bank {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        // The content of completed transactions, and the next one to be reused, do not matter.
        if walker.purpose() == Purpose::Compare && self.free.len() < self.transactions.len() {
            for (number, transaction) in self.transactions.iter_mut().enumerate() {
                if !self.free.contains(&(number as TransactionId)) {
                    number.clone().walk(walker);
                    transaction.walk(walker);
                }
            }
        }
    }
}

#[cold]
#[inline(never)]
fn internal_error(line: LineAddress, what: &str) -> ! {
    unreachable!(
        "the coherence protocol of the simulator is broken: home of the line at {:#x}: {what}",
        line.base()
    )
}

fn bit(cache: CacheId) -> u64 {
    1 << cache.0
}

impl Bank {
    pub(crate) fn new(spec: &LastLevelSpec, banks: usize) -> Bank {
        let (sets, ways, replacement, lines) = match spec.inclusion {
            Inclusion::Inclusive => (spec.sets(), spec.ways, spec.replacement, None),
            Inclusion::NonInclusive => {
                let directory = spec.directory.clone().unwrap_or_default();
                let lines = LineArray::new(spec.sets(), spec.ways as usize, spec.replacement);
                let replacement = directory.replacement;
                (directory.sets(), directory.ways, replacement, Some(lines))
            }
        };
        let ways = ways as usize;
        let policy = Policy::new(replacement);
        Bank {
            banks: Divisor::new(banks as u64),
            ways,
            io_ways: spec.io_ways.map(|ways| ways as usize),
            set_mask: sets as u64 - 1,
            set_bits: sets.trailing_zeros(),
            entries: vec![EMPTY; sets * ways],
            used: vec![0; sets],
            lines,
            noted: Vec::new(),
            sets: [vec![0; ways], policy.empty_set(ways)]
                .concat()
                .repeat(sets),
            policy,
            transactions: Vec::new(),
            free: Vec::new(),
            stalled: Vec::new(),
            spare: Vec::new(),
            prefetching: None,
            readers: 0,
            port_free: Time::ZERO,
            footprint: Footprint::default(),
            statistics: BankStatistics::default(),
        }
    }

    /// Processes a private cache's message and returns the answer, if the message needs nothing
    /// else: a request for a line that is present and not to be invalidated elsewhere, or an
    /// owner's eviction. Otherwise the caller passes it to [`Bank::message`]. `place` is a hint for
    /// the line's entry.
    #[inline]
    pub(crate) fn answer_at_once(
        &mut self,
        from: CacheId,
        line: LineAddress,
        message: &ToHome,
        place: u32,
        ram: &mut Ram,
    ) -> Option<Answer> {
        if self.lines.is_some()
            || self.footprint.recording
            || !self.stalled.is_empty()
            || self.prefetching.is_some()
        {
            return None;
        }
        let mut slot = place as usize;
        if self.entries.get(slot).is_none_or(|one| one.line != line.0) {
            slot = self.find(line)?;
        }
        let entry = &self.entries[slot];
        if entry.transaction != IDLE || !entry.present {
            return None;
        }
        let grant = match message {
            ToHome::PutE | ToHome::PutM(_) if entry.owner == from.0 => {
                cell!(self.note_message(from, line, message));
                self.entries[slot].owner = NO_OWNER;
                if let ToHome::PutM(data) = message {
                    self.entries[slot].dirty = true;
                    ram.write_line(line, data);
                }
                self.statistics.puts += 1;
                return Some(Answer::PutAck);
            }
            ToHome::GetS if entry.owner == NO_OWNER => self.grant_for_reading(from, entry.sharers),
            ToHome::GetM if entry.owner == NO_OWNER && entry.sharers & !bit(from) == 0 => {
                Grant::Modified
            }
            _ => return None,
        };
        cell!(self.note_message(from, line, message));
        self.entries[slot].grant(from, grant);
        self.statistics.hits += 1;
        self.touch(slot);
        Some(Answer::Grant(grant))
    }

    /// A message of a private cache that is not [answered at once](Bank::answer_at_once).
    pub(crate) fn message(
        &mut self,
        from: CacheId,
        line: LineAddress,
        message: &ToHome,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        cell!(self.note_message(from, line, message));
        if self.footprint.recording {
            self.record(line);
        }
        let get = |write| Request::Get { cache: from, write };
        match *message {
            ToHome::GetS => self.request(line, get(false), ram, out),
            ToHome::GetM => self.request(line, get(true), ram, out),
            ToHome::PutE => self.put(from, line, None, ram, out),
            ToHome::PutM(data) => self.put(from, line, Some(data), ram, out),
            ToHome::InvalidateAck => self.invalidate_ack(from, line, ram, out),
            ToHome::ForwardAck { data, dirty, kept } => {
                self.forward_ack(
                    from,
                    line,
                    data.as_ref().map(|data| (data, dirty)),
                    kept,
                    ram,
                    out,
                );
            }
        }
    }

    /// A request of any kind but a Put.
    fn request(
        &mut self,
        line: LineAddress,
        request: Request,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        if self.prefetching.is_some() && request.reads() {
            self.tell_prefetcher(line, out);
        }
        if !self.stalled.is_empty() && self.find(line).is_none() {
            let set = self.set(line);
            if let Some(stalled) = self.stalled.iter_mut().find(|stalled| stalled.set == set) {
                reached!("request behind others that wait for a way");
                stalled.waiting.push_back((line, request));
                return;
            }
        }
        if !self.try_request(line, request, ram, out) {
            let set = self.set(line);
            let mut waiting = self.spare.pop().unwrap_or_default();
            waiting.push_back((line, request));
            // It is determined by the victim just found busy or just recalled.
            let recalling = self.recall_in(set);
            self.stalled.push(Stalled {
                set,
                recalling,
                waiting,
            });
        }
    }

    /// Tries to serve a request; false if the line has no entry and there is no way for it yet.
    fn try_request(
        &mut self,
        line: LineAddress,
        request: Request,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) -> bool {
        let in_lines = self.lines.is_some() && self.touch_line(line);
        if let Some(slot) = self.find(line) {
            if let Some(noted) = self.noted.get_mut(slot) {
                *noted = false;
            }
            self.touch(slot);
            let transaction = self.entries[slot].transaction;
            let nearby = self.lines.is_none() || in_lines || self.entries[slot].owner != NO_OWNER;
            self.statistics.hits += u64::from(nearby || transaction != IDLE);
            if transaction == IDLE {
                self.serve(slot, line, request, ram, out);
                self.release_unused(slot);
            } else {
                self.transactions[transaction as usize]
                    .waiting
                    .push_back(request);
            }
            return true;
        }
        // The line has no holder. A write that needs no old data is done at once, unless it needs
        // room in an inclusive cache.
        let write = match request {
            Request::WriteAtHome(write) => Some(write),
            _ => None,
        };
        let complete = write.is_some_and(|write| in_lines || !write.needs_old_data());
        if let Some(write) = write
            && complete
            && (!write.allocate || self.lines.is_some())
        {
            self.statistics.hits += u64::from(in_lines);
            self.perform_write(None, line, &write, ram, out);
            return true;
        }
        let Some(slot) = self.make_room(line, request.origin(), out) else {
            return false;
        };
        self.insert(slot, line);
        if in_lines || complete {
            self.statistics.hits += u64::from(in_lines);
            self.serve(slot, line, request, ram, out);
            self.release_unused(slot);
        } else {
            self.fetch(slot, line, request, out);
        }
        true
    }

    /// Requests a line from memory for `request`.
    fn fetch(
        &mut self,
        slot: usize,
        line: LineAddress,
        request: Request,
        out: &mut Vec<HomeAction>,
    ) {
        self.statistics.misses += 1;
        let transaction = self.block(slot, line, Step::Memory(request));
        out.push(HomeAction::FetchFromMemory(transaction, line));
    }

    fn invalidate(&mut self, line: LineAddress, mut sharers: u64, out: &mut Vec<HomeAction>) {
        self.statistics.invalidations += u64::from(sharers.count_ones());
        while sharers != 0 {
            let cache = CacheId(sharers.trailing_zeros() as u16);
            out.push(HomeAction::Send(cache, line, ToCache::Invalidate));
            sharers &= sharers - 1;
        }
    }

    /// Makes the line busy, or changes the transaction with which it is busy.
    fn block(&mut self, slot: usize, line: LineAddress, step: Step) -> TransactionId {
        let mut transaction = self.entries[slot].transaction;
        if transaction != IDLE {
            self.transactions[transaction as usize].step = step;
            return transaction;
        }
        if let Some(free) = self.free.pop() {
            transaction = free;
            let reused = &mut self.transactions[free as usize];
            (reused.line, reused.slot, reused.step) = (line, slot, step);
        } else {
            transaction = self.transactions.len() as TransactionId;
            self.transactions.push(Transaction {
                line,
                slot,
                step,
                waiting: VecDeque::new(),
            });
        }
        self.entries[slot].transaction = transaction;
        transaction
    }

    /// Serves a request for a line that is present and not busy. Leaves the line busy if the
    /// request cannot complete now.
    fn serve(
        &mut self,
        slot: usize,
        line: LineAddress,
        request: Request,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        let Entry { sharers, owner, .. } = self.entries[slot];
        match request {
            Request::Put { cache, data } => self.put_now(slot, cache, line, data, ram, out),
            Request::Prefetch => {}
            Request::Get { cache, .. } if owner == cache.0 => {
                internal_error(line, "its owner asks for it")
            }
            _ if owner != NO_OWNER => {
                self.statistics.forwards += 1;
                // This way the next reader finds it here.
                let with_data = !self.has_data(slot, line);
                self.block(slot, line, Step::Forward { owner, request });
                let forward = match request {
                    Request::Get { cache, write: true } => {
                        out.push(HomeAction::Granted(line));
                        let requester = Some(cache);
                        ToCache::ForwardGetM { requester }
                    }
                    Request::Get { cache, .. } => {
                        let requester = Some(cache);
                        ToCache::ForwardGetS {
                            requester,
                            with_data,
                        }
                    }
                    Request::WriteAtHome(_) => ToCache::ForwardGetM { requester: None },
                    _ => ToCache::ForwardGetS {
                        requester: None,
                        with_data,
                    },
                };
                out.push(HomeAction::Send(CacheId(owner), line, forward));
            }
            Request::WriteAtHome(write) => {
                if sharers != 0 {
                    self.invalidate_for(slot, line, sharers, request, out);
                } else if write.needs_old_data() && !self.has_data(slot, line) {
                    self.fetch(slot, line, request, out);
                } else {
                    self.perform_write(Some(slot), line, &write, ram, out);
                }
            }
            _ if !self.has_data(slot, line) => self.fetch(slot, line, request, out),
            Request::ReadAtHome { agent } => {
                let transaction = self.block(slot, line, Step::ReadOut);
                out.push(HomeAction::ReadOut(transaction, agent, line));
            }
            Request::Get { cache, write: true } => {
                let others = sharers & !bit(cache);
                if others == 0 {
                    let source = Source::LastLevel;
                    self.grant(slot, line, cache, Grant::Modified, source, out);
                } else {
                    self.invalidate_for(slot, line, others, request, out);
                }
            }
            Request::Get { cache, .. } => {
                let grant = self.grant_for_reading(cache, sharers);
                let source = Source::LastLevel;
                self.grant(slot, line, cache, grant, source, out);
            }
        }
    }

    /// What a cache is granted that reads a line without an owner.
    #[inline]
    fn grant_for_reading(&self, cache: CacheId, sharers: u64) -> Grant {
        match sharers | self.readers & bit(cache) {
            0 => Grant::Exclusive,
            _ => Grant::Shared,
        }
    }

    /// `cache` only reads, and is not granted the ownership of a line that no other has.
    pub(crate) fn only_reads(&mut self, cache: CacheId) {
        self.readers |= bit(cache);
    }

    /// The cache that reads the line for which a transaction waits in memory, if one does.
    pub(crate) fn reader(&self, transaction: TransactionId) -> Option<CacheId> {
        match self.transactions.get(transaction as usize)?.step {
            Step::Memory(Request::Get {
                cache,
                write: false,
            }) => Some(cache),
            _ => None,
        }
    }

    /// Invalidates the copies of `holders`; `request` is served afterwards.
    fn invalidate_for(
        &mut self,
        slot: usize,
        line: LineAddress,
        holders: u64,
        request: Request,
        out: &mut Vec<HomeAction>,
    ) {
        let step = Step::Invalidates {
            request,
            missing: holders.count_ones(),
            source: Source::LastLevel,
        };
        self.block(slot, line, step);
        self.invalidate(line, holders, out);
    }

    /// Grants a line that has no owner, and no other holder if it will be owned.
    #[allow(clippy::too_many_arguments)]
    fn grant(
        &mut self,
        slot: usize,
        line: LineAddress,
        cache: CacheId,
        grant: Grant,
        source: Source,
        out: &mut Vec<HomeAction>,
    ) {
        self.entries[slot].grant(cache, grant);
        if grant != Grant::Shared {
            out.push(HomeAction::Granted(line));
        }
        out.push(HomeAction::Grant(cache, line, grant, source));
    }
}
