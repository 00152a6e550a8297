//! Exhaustive exploration of the coherence protocol in small configurations: every order in which
//! messages can arrive, with the code of [`Bank`] and [`PrivateCache`] itself.
//!
//! Explicit-state model checking, after Dill, Drexler, Hu and Yang, "Protocol Verification as a
//! Hardware Design Aid", ICCD 1992 (Murphi): a breadth-first search, so that a violation comes with
//! its shortest trace. It identifies states by a hash of 64 bits; among ten million states, the
//! probability of a collision is one in 300 000.
//!
//! # The model
//!
//! - Time is not modelled. Messages from the home to one cache arrive in order, and so do those
//!   from one cache to the home; Transfers, answers of memory and read-outs arrive at any time.
//! - A cache may at any time request a line for reading or writing, write a line that it owns, and
//!   replace a line. A requested write is performed when the line arrives. A cache may hold a line
//!   that it has received (as a core does between LR and SC).
//! - An agent may read a line at the home, or write a line or a part of it there, for the
//!   last-level cache or for memory.
//! - A home may be requested to prefetch a line at any time.
//! - A non-inclusive last-level cache may lose a line at any time.
//! - A cache sends no requests while [`Configuration::buffered`] of its Puts are unacknowledged.
//!   Without this bound the number of states would be infinite: Transfers can overtake PutAcks
//!   forever.
//! - The register of random replacement is not part of a state: if a state is reached with several
//!   register values, the search continues with the first.
//! - Two lines have the same home, and recall each other. Lines with different homes only replace
//!   each other in caches, which is covered by replacement of a line at any time.
//!
//! # What is checked
//!
//! - In every state: one writer or many readers; each copy in a cache is the line's last write;
//!   the directory knows the holders of lines that are not busy; no Put waits for a way.
//! - With every message: it has a cell in the two tables of states and events that is not "error";
//!   loads, and an agent's reads at home, read the last write; a load of a line that is used once
//!   reads the last write at the time of sending.
//! - No deadlock and no livelock: in every order of message delivery, without further requests of
//!   caches, activity ends, and then nothing is waiting.
//! - Every cell and every point marked with `reached!` is reached.
//!
//! A line's data is reduced to two bytes, each of which records whether it is the last write. A
//! part of a line is the first byte.

use crate::coverage::{INCLUSIVE_HOME, NON_INCLUSIVE_HOME, PRIVATE_CACHE, report};
use crate::home::{Bank, HomeAction, HomeWrite};
use crate::tests::{PLACES, places_reached};
use crate::*;
use std::collections::VecDeque;
use std::collections::hash_map::{DefaultHasher, Entry, HashMap};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

#[derive(Clone, Copy, Debug)]
struct Configuration {
    caches: usize,
    /// Number of lines. They map to one set of one way in private caches.
    lines: usize,
    inclusion: Inclusion,
    /// Ways of the directory, which has one set.
    ways: u32,
    /// The replacement policy of the directory and of the caches.
    replacement: Replacement,
    mshrs: u32,
    /// Maximum number of unacknowledged Puts of a cache when it requests a line.
    buffered: usize,
    /// Whether lines can be replaced without another line of the model.
    replace: bool,
    /// Whether caches hold lines and delay other requests for them.
    hold: bool,
    agent: AgentDoes,
    /// Whether the home prefetches lines.
    prefetch: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgentDoes {
    Nothing,
    ReadAtHome,
    /// Reads and writes.
    Dma,
}

impl Configuration {
    /// Memory for the lines, whose data the model keeps elsewhere.
    fn ram(&self) -> Ram {
        let length = (LINE_BYTES * self.lines) as u64;
        Ram::new(vec![AddressRange { start: 0, length }]).unwrap()
    }
}

/// Possible events.
#[derive(Clone, Copy, Debug)]
enum Action {
    Load(usize, LineAddress),
    Store(usize, LineAddress),
    Replace(usize, LineAddress),
    ReadAtHome(LineAddress),
    /// Whether it allocates, and whether it is a whole line.
    WriteAtHome(LineAddress, bool, bool),
    /// The non-inclusive last-level cache evicts the line.
    LoseLine(LineAddress),
    Prefetch(LineAddress),
    ToHome(usize),
    /// With `true`, a forward that waits for the data continues to wait.
    ToCache(usize, bool),
    Transfer(usize, bool),
    Hold(usize),
    Release(usize),
    Memory(usize),
    ReadOut,
}

impl Action {
    /// Whether the event completes or advances something in flight.
    fn is_delivery(self) -> bool {
        !matches!(
            self,
            Action::Load(..)
                | Action::Store(..)
                | Action::Replace(..)
                | Action::ReadAtHome(_)
                | Action::WriteAtHome(..)
                | Action::LoseLine(_)
                | Action::Prefetch(_)
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum AtHome {
    Nothing,
    Asked,
    ReadOut(LineAddress),
}

/// The first two bytes of line data that is the line's last write. They are 0 in older data.
const LAST: [u8; 2] = [1, 1];

fn is_last(data: &LineData) -> bool {
    data.0[..2] == LAST
}

/// As the last write.
fn last() -> LineData {
    let mut data = LineData::ZERO;
    data.0[..2].copy_from_slice(&LAST);
    data
}

#[derive(Clone, Debug)]
struct World {
    bank: Rc<Bank>,
    caches: Vec<Rc<PrivateCache>>,
    memory: Vec<LineData>,
    to_home: Vec<VecDeque<(LineAddress, ToHome)>>,
    to_cache: Vec<VecDeque<(LineAddress, ToCache)>>,
    /// Sorted: destination, line and message.
    transfers: Vec<(usize, LineAddress, ToCache)>,
    /// The line and message that each cache delays.
    held: Vec<Option<(LineAddress, ToCache)>>,
    /// Sorted.
    fetches: Vec<LineAddress>,
    at_home: AtHome,
}

impl World {
    fn new(configuration: Configuration) -> World {
        let spec = LastLevelSpec {
            size_bytes_per_bank: u64::from(configuration.ways) * 64,
            ways: configuration.ways,
            replacement: configuration.replacement,
            inclusion: configuration.inclusion,
            directory: Some(DirectorySpec {
                entries_per_bank: u64::from(configuration.ways),
                ways: configuration.ways,
                replacement: configuration.replacement,
            }),
            ..LastLevelSpec::default()
        };
        let cache = CacheSpec {
            size_bytes: 64,
            ways: 1,
            mshrs: configuration.mshrs,
            replacement: configuration.replacement,
            ..CacheSpec::default()
        };
        let caches = configuration.caches;
        World {
            bank: Rc::new(Bank::new(&spec, 1)),
            caches: (0..caches as u16)
                .map(|id| Rc::new(PrivateCache::new(&cache, CacheId(id))))
                .collect(),
            memory: vec![last(); configuration.lines],
            to_home: vec![VecDeque::new(); caches],
            to_cache: vec![VecDeque::new(); caches],
            transfers: Vec::new(),
            held: vec![None; caches],
            fetches: Vec::new(),
            at_home: AtHome::Nothing,
        }
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.bank.hash_state(&mut hasher);
        for cache in &self.caches {
            cache.hash_state(&mut hasher);
        }
        (&self.memory, &self.to_home, &self.to_cache).hash(&mut hasher);
        (&self.transfers, &self.held, &self.fetches, self.at_home).hash(&mut hasher);
        hasher.finish()
    }

    fn lines(&self) -> impl Iterator<Item = LineAddress> + use<> {
        (0..self.memory.len() as u64).map(LineAddress)
    }

    fn actions(&self, configuration: Configuration, out: &mut Vec<Action>) {
        for cache in 0..self.caches.len() {
            let (private, held) = (&self.caches[cache], self.held[cache]);
            let may_ask =
                !private.misses_full() && private.evicted_lines().count() < configuration.buffered;
            for line in self.lines() {
                let here = private.find(line);
                let may_ask = may_ask && !private.is_pending(line);
                let writable = here.is_some_and(|slot| private.writable(slot));
                if may_ask && here.is_none() {
                    out.push(Action::Load(cache, line));
                }
                if writable || may_ask {
                    out.push(Action::Store(cache, line));
                }
                if configuration.replace && here.is_some() {
                    out.push(Action::Replace(cache, line));
                }
            }
            if !self.to_home[cache].is_empty() {
                out.push(Action::ToHome(cache));
            }
            if let Some((line, message)) = self.to_cache[cache].front() {
                out.push(Action::ToCache(cache, false));
                let grant = matches!(message, ToCache::Data(Grant::Modified, ..));
                if configuration.hold && held.is_none() && grant {
                    out.push(Action::ToCache(cache, true));
                }
                let answer = matches!(message, ToCache::Data(..) | ToCache::PutAck);
                if configuration.hold && held.is_none() && !answer && private.find(*line).is_some()
                {
                    out.push(Action::Hold(cache));
                }
            }
            if held.is_some() {
                out.push(Action::Release(cache));
            }
        }
        for (index, &(to, _, message)) in self.transfers.iter().enumerate() {
            out.push(Action::Transfer(index, false));
            let grant = matches!(message, ToCache::Data(Grant::Modified, ..));
            if configuration.hold && self.held[to].is_none() && grant {
                out.push(Action::Transfer(index, true));
            }
        }
        out.extend((0..self.fetches.len()).map(Action::Memory));
        match self.at_home {
            AtHome::Nothing if configuration.agent != AgentDoes::Nothing => {
                out.extend(self.lines().map(Action::ReadAtHome));
                if configuration.agent == AgentDoes::Dma {
                    for line in self.lines() {
                        out.push(Action::WriteAtHome(line, true, true));
                        out.push(Action::WriteAtHome(line, true, false));
                        out.push(Action::WriteAtHome(line, false, false));
                    }
                }
            }
            AtHome::ReadOut(_) => out.push(Action::ReadOut),
            _ => {}
        }
        if configuration.inclusion == Inclusion::NonInclusive {
            let here = self.lines().filter(|&line| self.bank.has_line(line));
            out.extend(here.map(Action::LoseLine));
        }
        if configuration.prefetch {
            out.extend(self.lines().map(Action::Prefetch));
        }
    }

    /// Marks all copies of `line` except that in memory as older than a write.
    fn overwrite(&mut self, line: LineAddress) {
        let mut change = |other: LineAddress, data: &mut LineData| {
            if other == line {
                data.0[..2].fill(0);
            }
        };
        Rc::make_mut(&mut self.bank).each_data(&mut change);
        for cache in &mut self.caches {
            Rc::make_mut(cache).each_data(&mut change);
        }
        for (line, message) in self.to_home.iter_mut().flatten() {
            if let ToHome::PutM(data)
            | ToHome::ForwardAck {
                data: Some(data), ..
            } = message
            {
                change(*line, data);
            }
        }
        let transfers = self.transfers.iter_mut();
        let transfers = transfers.map(|(_, line, message)| (*line, message));
        let from_home = self.to_cache.iter_mut().flatten();
        let from_home = from_home.map(|(line, message)| (*line, message));
        for (line, message) in transfers.chain(from_home) {
            if let ToCache::Data(_, _, data) = message {
                change(line, data);
            }
        }
    }

    fn cache(&mut self, cache: usize) -> &mut PrivateCache {
        Rc::make_mut(&mut self.caches[cache])
    }

    fn store(&mut self, cache: usize, slot: Slot, line: LineAddress) {
        assert!(
            is_last(self.caches[cache].line(slot)),
            "a write upon data that is not the last write"
        );
        self.overwrite(line);
        self.memory[line.0 as usize].0[..2].fill(0);
        *self.cache(cache).line_mut(slot) = last();
    }

    fn ask(&mut self, cache: usize, line: LineAddress, write: bool) {
        let mut out = Outbox::default();
        let outcome = self.cache(cache).request(line, write, Time::ZERO, &mut out);
        assert_eq!(outcome, RequestOutcome::Sent);
        self.send(cache, out);
    }

    fn send(&mut self, cache: usize, out: Outbox) {
        for message in out.messages {
            match message.kind {
                OutgoingKind::Coherence { line, message, .. } => {
                    self.to_home[cache].push_back((line, message));
                }
                OutgoingKind::Transfer {
                    to,
                    line,
                    grant,
                    data,
                    ..
                } => {
                    assert!(is_last(&data), "an older write is sent");
                    let message = ToCache::Data(grant, Source::Cache, data);
                    self.transfers.push((usize::from(to.0), line, message));
                    self.transfers.sort_by_key(|&(to, line, _)| (to, line));
                }
                OutgoingKind::Request { .. } => unreachable!(),
            }
        }
    }

    /// Calls the bank, with its memory, and carries out its actions.
    fn bank(
        &mut self,
        ram: &mut Ram,
        call: impl FnOnce(&mut Bank, &mut Ram, &mut Vec<HomeAction>),
    ) {
        for line in self.lines() {
            ram.write_line(line, &self.memory[line.0 as usize]);
        }
        let mut actions = Vec::new();
        let bank = Rc::make_mut(&mut self.bank);
        call(bank, ram, &mut actions);
        bank.shrink();
        for line in self.lines() {
            self.memory[line.0 as usize] = ram.read_line(line);
        }
        // A write at home precedes the messages of the same step that depend on its data.
        for action in &actions {
            if let HomeAction::Written(_, line, data) = action {
                assert!(
                    is_last(data),
                    "a write upon data that is not the last write"
                );
                assert_eq!(self.at_home, AtHome::Asked);
                self.overwrite(*line);
                self.at_home = AtHome::Nothing;
            }
        }
        for action in actions {
            match action {
                HomeAction::Send(cache, line, message) => {
                    self.to_cache[usize::from(cache.0)].push_back((line, message));
                }
                HomeAction::Grant(cache, line, grant, _) => {
                    let data = self.memory[line.0 as usize];
                    assert!(is_last(&data), "an older write is sent");
                    // The source is only used in reports.
                    let message = ToCache::Data(grant, Source::LastLevel, data);
                    self.to_cache[usize::from(cache.0)].push_back((line, message));
                }
                HomeAction::FetchFromMemory(transaction, line) => {
                    assert_eq!(self.bank.transaction(line), Some(transaction));
                    self.fetches.push(line);
                    self.fetches.sort();
                }
                HomeAction::ReadOut(transaction, _, line) => {
                    assert_eq!(self.bank.transaction(line), Some(transaction));
                    assert_eq!(self.at_home, AtHome::Asked);
                    self.at_home = AtHome::ReadOut(line);
                }
                HomeAction::Granted(_)
                | HomeAction::WriteToMemory(_)
                | HomeAction::Prefetch(_)
                | HomeAction::Written(..) => {}
            }
        }
    }

    fn arrive_home(&mut self, from: usize, ram: &mut Ram) {
        let Some((line, message)) = self.to_home[from].pop_front() else {
            return;
        };
        let from = CacheId(from as u16);
        self.bank(ram, |bank, ram, out| {
            bank.take(from, line, &message, ram, out);
        });
    }

    fn receive(&mut self, cache: usize, line: LineAddress, message: ToCache, keep: bool) {
        let mut out = Outbox::default();
        let notice = self
            .cache(cache)
            .receive(line, &message, Time::ZERO, &mut out);
        let CacheNotice::Filled {
            slot,
            grant,
            evicted,
            use_once,
            ..
        } = notice
        else {
            self.send(cache, out);
            return;
        };
        // The messages must be where a store finds their data.
        self.send(cache, std::mem::take(&mut out));
        if grant == Grant::Modified {
            self.store(cache, slot, line);
        } else {
            // A line that is used once was the last write when it was sent, after the load's issue.
            let last = is_last(self.caches[cache].line(slot));
            assert!(last || use_once, "a load reads an older write");
        }
        if keep {
            let forward = self.cache(cache).keep_fill();
            self.held[cache] = forward.map(|forward| (line, forward));
        } else {
            self.cache(cache).finish_fill(line, Time::ZERO, &mut out);
            self.send(cache, out);
        }
        self.release_evicted(cache, evicted);
    }

    /// A cache that has evicted a line releases its hold.
    fn release_evicted(&mut self, cache: usize, evicted: Option<LineAddress>) {
        if let Some((line, message)) = self.held[cache]
            && Some(line) == evicted
        {
            self.held[cache] = None;
            self.receive(cache, line, message, false);
        }
    }

    fn act(&mut self, action: Action, ram: &mut Ram) {
        match action {
            Action::Load(cache, line) => self.ask(cache, line, false),
            Action::Store(cache, line) => {
                let private = &self.caches[cache];
                match private.find(line).filter(|&slot| private.writable(slot)) {
                    Some(slot) => self.store(cache, slot, line),
                    None => self.ask(cache, line, true),
                }
            }
            Action::Replace(cache, line) => {
                let mut out = Outbox::default();
                if let Some(slot) = self.caches[cache].find(line) {
                    self.cache(cache).replace(slot, &mut out);
                }
                self.send(cache, out);
                self.release_evicted(cache, Some(line));
            }
            Action::ReadAtHome(line) => {
                self.at_home = AtHome::Asked;
                self.bank(ram, |bank, ram, out| {
                    bank.read_at_home(AgentId(0), line, ram, out);
                });
            }
            Action::WriteAtHome(line, allocate, whole) => {
                self.at_home = AtHome::Asked;
                let write = HomeWrite {
                    agent: AgentId(0),
                    offset: 0,
                    bytes: if whole { 64 } else { 1 },
                    allocate,
                    data: last(),
                };
                self.bank(ram, |bank, ram, out| {
                    bank.write_at_home(line, write, ram, out);
                });
            }
            Action::LoseLine(line) => {
                let lost = Rc::make_mut(&mut self.bank).replace_line(line);
                assert!(lost, "a line is lost that is not there");
            }
            Action::Prefetch(line) => self.bank(ram, |bank, _, out| bank.prefetch(line, out)),
            Action::ToHome(from) => self.arrive_home(from, ram),
            Action::ToCache(cache, keep) => {
                if let Some((line, message)) = self.to_cache[cache].pop_front() {
                    self.receive(cache, line, message, keep);
                }
            }
            Action::Transfer(index, keep) => {
                let (to, line, message) = self.transfers.remove(index);
                self.receive(to, line, message, keep);
            }
            Action::Hold(cache) => self.held[cache] = self.to_cache[cache].pop_front(),
            Action::Release(cache) => {
                if let Some((line, message)) = self.held[cache].take() {
                    self.receive(cache, line, message, false);
                }
            }
            Action::Memory(index) => {
                let line = self.fetches.remove(index);
                let transaction = self.bank.transaction(line).unwrap();
                self.bank(ram, |bank, ram, out| {
                    bank.memory_answered(transaction, ram, out);
                });
            }
            Action::ReadOut => {
                let AtHome::ReadOut(line) = self.at_home else {
                    return;
                };
                let data = &self.memory[line.0 as usize];
                assert!(is_last(data), "a ReadAtHome reads an older write");
                self.at_home = AtHome::Nothing;
                let transaction = self.bank.transaction(line).unwrap();
                self.bank(ram, |bank, ram, out| {
                    bank.read_out_done(transaction, ram, out);
                });
            }
        }
    }

    fn check(&self) {
        for line in self.lines() {
            let entry = self.bank.lines().find(|entry| entry.0 == line);
            let (mut owners, mut sharers) = (0, 0);
            for cache in &self.caches {
                let Some(slot) = cache.find(line) else {
                    continue;
                };
                let id = cache.id();
                let Some((_, known, owner, busy)) = entry else {
                    panic!("{id:?} holds {line:?}, which is not in the directory");
                };
                assert!(
                    is_last(cache.line(slot)),
                    "{id:?} has an older write of {line:?}"
                );
                let writable = cache.writable(slot);
                *(if writable { &mut owners } else { &mut sharers }) += 1;
                // As owner: its upgrade is in flight.
                let known = owner == Some(id) || !writable && known & (1 << id.0) != 0;
                assert!(
                    busy || known,
                    "the home does not know that {id:?} has {line:?}"
                );
            }
            assert!(
                owners == 0 || owners == 1 && sharers == 0,
                "{line:?} has {owners} writers and {sharers} readers"
            );
        }
        let (_, put) = self.bank.stalls();
        assert!(!put, "a Put waits for a way");
    }

    /// Whether nothing is in flight.
    fn is_quiet(&self) -> bool {
        let nothing = self.to_home.iter().all(VecDeque::is_empty)
            && self.to_cache.iter().all(VecDeque::is_empty)
            && self.transfers.is_empty()
            && self.fetches.is_empty()
            && self.held.iter().all(Option::is_none);
        let caches = self.caches.iter();
        let mut caches = caches.map(|one| one.outstanding() + one.evicted_lines().count());
        nothing
            && self.at_home == AtHome::Nothing
            && caches.all(|waits| waits == 0)
            && !self.bank.stalls().0
            && self.bank.lines().all(|(.., busy)| !busy)
    }
}

/// The states found by a search, in the order of their discovery.
struct Search {
    configuration: Configuration,
    known: HashMap<u64, u32>,
    /// The predecessor and the event by which a state was found first.
    origin: Vec<(u32, Action)>,
    /// The states that deliveries lead to; those of state `k` begin at `delivery_start[k]`.
    deliveries: Vec<u32>,
    delivery_start: Vec<usize>,
}

impl Search {
    /// Explores all states. Panics with the shortest trace to a violation.
    fn run(configuration: Configuration) -> Search {
        let mut ram = configuration.ram();
        let initial = World::new(configuration);
        let mut search = Search {
            configuration,
            known: HashMap::from([(initial.hash(), 0)]),
            origin: vec![(0, Action::ReadOut)],
            deliveries: Vec::new(),
            delivery_start: vec![0],
        };
        let mut frontier = VecDeque::from([initial]);
        let mut actions = Vec::new();
        let mut state = 0;
        while let Some(world) = frontier.pop_front() {
            actions.clear();
            world.actions(configuration, &mut actions);
            if !actions.iter().any(|action| action.is_delivery()) && !world.is_quiet() {
                search.print_trace(state, None);
                panic!("deadlock");
            }
            for &action in &actions {
                let mut next = world.clone();
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    next.act(action, &mut ram);
                    next.check();
                }));
                if let Err(panic) = outcome {
                    search.print_trace(state, Some(action));
                    resume_unwind(panic);
                }
                let number = search.origin.len() as u32;
                let number = match search.known.entry(next.hash()) {
                    Entry::Occupied(entry) => *entry.get(),
                    Entry::Vacant(entry) => {
                        entry.insert(number);
                        search.origin.push((state, action));
                        frontier.push_back(next);
                        number
                    }
                };
                if action.is_delivery() {
                    search.deliveries.push(number);
                }
            }
            search.delivery_start.push(search.deliveries.len());
            state += 1;
        }
        search
    }

    fn path(&self, mut state: u32) -> Vec<Action> {
        let mut path = Vec::new();
        while state != 0 {
            let (before, action) = self.origin[state as usize];
            path.push(action);
            state = before;
        }
        path.reverse();
        path
    }

    fn print_trace(&self, state: u32, last: Option<Action>) {
        let mut world = World::new(self.configuration);
        let mut ram = self.configuration.ram();
        println!("{:?}", self.configuration);
        for action in self.path(state) {
            println!("{}", world.sentence(action));
            world.act(action, &mut ram);
        }
        if let Some(action) = last {
            println!("{}", world.sentence(action));
        }
        println!("{world:#?}");
    }

    /// A state from which deliveries can continue forever, if there is one: removes states whose
    /// deliveries all end, until none can be removed.
    fn endless(&self) -> Option<u32> {
        let states = self.origin.len();
        let ends = |state: usize| self.delivery_start[state]..self.delivery_start[state + 1];
        let mut before = vec![0_usize; states + 1];
        for &to in &self.deliveries {
            before[to as usize + 1] += 1;
        }
        for state in 0..states {
            before[state + 1] += before[state];
        }
        let mut place = before.clone();
        let mut from = vec![0_u32; self.deliveries.len()];
        for state in 0..states {
            for &to in &self.deliveries[ends(state)] {
                from[place[to as usize]] = state as u32;
                place[to as usize] += 1;
            }
        }
        let mut open: Vec<usize> = (0..states).map(|state| ends(state).len()).collect();
        let mut done: Vec<usize> = (0..states).filter(|&state| open[state] == 0).collect();
        while let Some(state) = done.pop() {
            for &earlier in &from[before[state]..before[state + 1]] {
                open[earlier as usize] -= 1;
                if open[earlier as usize] == 0 {
                    done.push(earlier as usize);
                }
            }
        }
        (0..states as u32).find(|&state| open[state as usize] > 0)
    }
}

impl World {
    fn sentence(&self, action: Action) -> String {
        let what = match action {
            Action::ToHome(from) => format!("{:?}", self.to_home[from].front()),
            Action::ToCache(to, _) | Action::Hold(to) => format!("{:?}", self.to_cache[to].front()),
            Action::Transfer(index, _) => format!("{:?}", self.transfers[index]),
            Action::Memory(index) => format!("{:?}", self.fetches[index]),
            Action::Release(cache) => format!("{:?}", self.held[cache]),
            _ => String::new(),
        };
        format!("{action:?} {}", what.replace(", 0", ""))
    }
}

/// Two caches with all their operations, on one line.
const PAIR: Configuration = Configuration {
    caches: 2,
    lines: 1,
    inclusion: Inclusion::Inclusive,
    ways: 1,
    replacement: Replacement::Lru,
    mshrs: 1,
    buffered: 2,
    replace: true,
    hold: true,
    agent: AgentDoes::ReadAtHome,
    prefetch: false,
};

const TRIPLE: Configuration = Configuration {
    caches: 3,
    buffered: 1,
    hold: false,
    agent: AgentDoes::Nothing,
    ..PAIR
};

/// Two lines recall each other from the directory.
const RECALLS: Configuration = Configuration {
    lines: 2,
    buffered: 1,
    hold: false,
    agent: AgentDoes::Nothing,
    ..PAIR
};

/// Two lines replace each other in the private caches.
const REPLACEMENTS: Configuration = Configuration {
    ways: 2,
    replace: false,
    ..RECALLS
};

/// Three lines recall each other from a set of two ways.
const VICTIMS: Configuration = Configuration {
    caches: 1,
    lines: 3,
    ways: 2,
    mshrs: 2,
    replace: false,
    ..RECALLS
};

/// Writes at home with all operations of two caches on one line.
const WRITES: Configuration = Configuration {
    buffered: 1,
    hold: false,
    agent: AgentDoes::Dma,
    ..PAIR
};

/// Writes at home meet recalls.
const RECALLED_WRITES: Configuration = Configuration {
    caches: 1,
    agent: AgentDoes::Dma,
    ..RECALLS
};

/// Prefetches meet recalls.
const PREFETCHES: Configuration = Configuration {
    prefetch: true,
    ..RECALLS
};

/// Prefetches meet writes at home, and recalls.
const PREFETCHED_WRITES: Configuration = Configuration {
    prefetch: true,
    ..RECALLED_WRITES
};

const DEFAULT: [Configuration; 8] = [
    PAIR,
    TRIPLE,
    RECALLS,
    REPLACEMENTS,
    WRITES,
    RECALLED_WRITES,
    PREFETCHES,
    PREFETCHED_WRITES,
];

const fn non_inclusive(configuration: Configuration) -> Configuration {
    Configuration {
        inclusion: Inclusion::NonInclusive,
        ..configuration
    }
}

/// With a last-level cache that may lose lines at any time.
const NON_INCLUSIVE: [Configuration; 6] = [
    non_inclusive(Configuration {
        buffered: 1,
        ..PAIR
    }),
    non_inclusive(RECALLS),
    non_inclusive(WRITES),
    non_inclusive(RECALLED_WRITES),
    non_inclusive(PREFETCHES),
    non_inclusive(PREFETCHED_WRITES),
];

/// With `FABRIC_EXHAUSTIVE` set; about seven minutes.
const LARGE: [Configuration; 11] = [
    Configuration {
        caches: 3,
        ..RECALLS
    },
    Configuration {
        buffered: 3,
        ..PAIR
    },
    Configuration {
        hold: true,
        agent: AgentDoes::ReadAtHome,
        ..TRIPLE
    },
    Configuration {
        buffered: 2,
        ..TRIPLE
    },
    Configuration {
        buffered: 2,
        hold: true,
        agent: AgentDoes::ReadAtHome,
        ..RECALLS
    },
    Configuration {
        mshrs: 2,
        replace: false,
        hold: true,
        agent: AgentDoes::ReadAtHome,
        ..RECALLS
    },
    Configuration {
        agent: AgentDoes::Dma,
        ..RECALLS
    },
    non_inclusive(PAIR),
    non_inclusive(TRIPLE),
    non_inclusive(REPLACEMENTS),
    non_inclusive(Configuration {
        agent: AgentDoes::Dma,
        ..RECALLS
    }),
];

#[test]
fn all_interleavings_are_coherent() {
    let mut configurations = DEFAULT.to_vec();
    configurations.extend(NON_INCLUSIVE);
    let is_large = std::env::var_os("FABRIC_EXHAUSTIVE").is_some();
    for replacement in Replacement::ALL {
        let victims = Configuration {
            replacement,
            ..VICTIMS
        };
        configurations.push(victims);
        if is_large {
            configurations.push(non_inclusive(victims));
        }
    }
    if is_large {
        configurations.extend(LARGE);
    }
    for configuration in configurations {
        let begin = std::time::Instant::now();
        let search = Search::run(configuration);
        if let Some(state) = search.endless() {
            search.print_trace(state, None);
            panic!("messages can be delivered forever");
        }
        println!(
            "{configuration:?}: {} states, {} deliveries, {:.1} s",
            search.origin.len(),
            search.deliveries.len(),
            begin.elapsed().as_secs_f64()
        );
    }
    let missing = report(&[INCLUSIVE_HOME, NON_INCLUSIVE_HOME, PRIVATE_CACHE]);
    assert!(missing.is_empty(), "never reached: {missing:#?}");
    let reached = places_reached();
    let rare = "data before the PutAck of the line's last eviction";
    let prefetch = "prefetch into a set where all lines are held";
    for place in PLACES.into_iter().chain([rare, prefetch]) {
        assert!(reached.contains(place), "never reached: {place}");
    }
}
