//! Tests of the fabric as a whole: random traffic against the invariants of coherence, exact
//! latencies, and what agents are promised.

use crate::*;
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

thread_local! {
    static REACHED: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

pub(crate) fn note_reached(what: &'static str) {
    REACHED.with_borrow_mut(|reached| reached.insert(what));
}

/// Places of the protocol that every thorough test comes to.
pub(crate) const PLACES: [&str; 16] = [
    "Invalidate of a copy that waits to be upgraded",
    "Invalidate without a copy while the line is under way",
    "Put before the ForwardAck that makes its sender the owner",
    "Put from a cache after which another became the owner",
    "Put from a cache that is not the owner any more",
    "Put that crosses a forward",
    "data that is used once",
    "exclusive data after an Invalidate of an older copy",
    "forward answered from the eviction buffer",
    "forward before the data",
    "forward of an evicted line that has been asked for again",
    "miss in a set where all lines are busy",
    "recall from sharers",
    "recall from the owner",
    "request behind others that wait for a way",
    "request for a line that is being recalled",
];

/// The places of the protocol that this thread has come to.
pub(crate) fn places_reached() -> BTreeSet<&'static str> {
    REACHED.with_borrow(BTreeSet::clone)
}

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

pub(crate) const MEMORY: u64 = 0x8000_0000;

pub(crate) fn memory() -> Ram {
    Ram::new(vec![AddressRange {
        start: MEMORY,
        length: 1 << 20,
    }])
    .unwrap()
}

/// The same; of two sockets, every other three lines belong to the second.
pub(crate) fn memory_of_two_sockets() -> Ram {
    let second = |three: u64| AddressRange {
        start: MEMORY + (6 * three + 3) * 64,
        length: 3 * 64,
    };
    memory().with_second_socket((0..64).map(second).collect())
}

/// A write makes the count at the start of the line one more, so that a write that is lost shows
/// as a count that two writes made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    at: Time,
    line: LineAddress,
    count: u64,
    write: bool,
    /// By a load that used a line once: it may be older.
    once: bool,
}

/// A stream of accesses of a core, one at a time.
#[derive(Clone, Debug)]
struct Stream {
    cache: usize,
    random: Random,
    next_at: Time,
    line: LineAddress,
    write: bool,
    waiting: bool,
    left: u32,
}

struct TestCore {
    id: CoreId,
    caches: [PrivateCache; 2],
    streams: Vec<Stream>,
    seen: Vec<Seen>,
    deliveries: Vec<Delivery>,
    lines: u64,
    think_fs: u64,
}

impl TestCore {
    fn choose(stream: &mut Stream, now: Time, lines: u64, think_fs: u64) {
        stream.line = LineAddress::of(MEMORY + stream.random.below(lines) * 64);
        stream.write = stream.cache == 1 && stream.random.below(2) == 0;
        stream.waiting = false;
        stream.next_at = now + Time::from_fs(stream.random.below(think_fs));
    }

    /// Does the access of stream `index` if its line is here. True if it was done.
    fn attempt(&mut self, index: usize, now: Time, once: bool) -> bool {
        let stream = &mut self.streams[index];
        let cache = &mut self.caches[stream.cache];
        let Some(slot) = cache.find(stream.line) else {
            return false;
        };
        if stream.write && !cache.writable(slot) {
            return false;
        }
        cache.touch(slot);
        let mut count = cache.line(slot).read(0, 8);
        if stream.write {
            count += 1;
            cache.line_mut(slot).write(0, 8, count);
        }
        self.seen.push(Seen {
            at: now,
            line: stream.line,
            count,
            write: stream.write,
            once: once && !stream.write,
        });
        stream.left -= 1;
        TestCore::choose(stream, now, self.lines, self.think_fs);
        if stream.left == 0 {
            stream.next_at = Time::NEVER;
        }
        true
    }

    fn ask(&mut self, index: usize, now: Time, out: &mut Outbox) {
        let stream = &mut self.streams[index];
        let outcome = self.caches[stream.cache].request(stream.line, stream.write, now, out);
        stream.waiting = outcome != RequestOutcome::Full;
        // Without a free register: again in 5 ns.
        stream.next_at = if stream.waiting {
            Time::NEVER
        } else {
            now + Time::from_ns(5.0)
        };
    }

    fn next_at(&self, inbox: &Inbox) -> Time {
        let streams = self.streams.iter().map(|stream| stream.next_at);
        streams.min().unwrap_or(Time::NEVER).min(inbox.next_at())
    }

    fn run_until(&mut self, until: Time, inbox: &mut Inbox, out: &mut Outbox) {
        loop {
            let now = self.next_at(inbox);
            if now >= until {
                return;
            }
            if inbox.next_at() == now {
                let delivery = inbox.pop().unwrap();
                self.deliveries.push(delivery);
                let DeliveryKind::Cache {
                    cache,
                    line,
                    message,
                } = delivery.kind
                else {
                    continue;
                };
                assert_eq!(cache.0 / 2, self.id.0);
                let which = usize::from(cache.0 % 2);
                let notice = self.caches[which].receive(line, &message, now, out);
                let CacheNotice::Filled { use_once, .. } = notice else {
                    continue;
                };
                let mut again = Vec::new();
                for index in 0..self.streams.len() {
                    let stream = &self.streams[index];
                    let served = stream.waiting && stream.cache == which && stream.line == line;
                    if served && !self.attempt(index, now, use_once) {
                        again.push(index);
                    }
                }
                self.caches[which].finish_fill(line, now, out);
                for index in again {
                    self.ask(index, now, out);
                }
                continue;
            }
            for index in 0..self.streams.len() {
                if self.streams[index].next_at == now && !self.attempt(index, now, false) {
                    self.ask(index, now, out);
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    Granted(LineAddress),
    Armed(LineAddress, u64),
}

/// Reads, adds and arms at random.
struct TestAgent {
    random: Random,
    lines: u64,
    left: u32,
    outstanding: u32,
    think_fs: u64,
    has_cache: bool,
    seen: Vec<Seen>,
    notes: Vec<(Time, Note)>,
    lost: u64,
    /// For each line, the tokens of accesses that are not done, to check their order.
    order: BTreeMap<LineAddress, Vec<u64>>,
    next_token: u64,
}

impl Agent for TestAgent {
    fn name(&self) -> String {
        "test agent".to_string()
    }

    fn ownership_granted(&mut self, context: &mut AgentContext<'_>, line: LineAddress) {
        self.notes.push((context.now(), Note::Granted(line)));
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        access: MemoryAccess,
        data: LineData,
    ) {
        self.outstanding -= 1;
        let at = context.now();
        let count = data.read(0, 8);
        let (address, count, write) = match access {
            MemoryAccess::Read { address } => (address, count, false),
            MemoryAccess::FetchAdd { address, .. } => (address, count + 1, true),
            MemoryAccess::ReadAtHome { address } => {
                let note = Note::Armed(LineAddress::of(address), count);
                self.notes.push((at, note));
                (address, count, false)
            }
            _ => unreachable!(),
        };
        let line = LineAddress::of(address);
        assert_eq!(self.order.get_mut(&line).unwrap().remove(0), token);
        self.seen.push(Seen {
            at,
            line,
            count,
            write,
            // The agent is not told of a line that is used once.
            once: matches!(access, MemoryAccess::Read { .. }),
        });
    }

    fn line_lost(&mut self, _context: &mut AgentContext<'_>, _line: LineAddress) {
        self.lost += 1;
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, _token: u64) {
        let address = MEMORY + self.random.below(self.lines) * 64;
        let kind = if self.has_cache {
            self.random.below(4)
        } else {
            3
        };
        let access = match kind {
            0 | 1 => MemoryAccess::FetchAdd { address, addend: 1 },
            2 => MemoryAccess::Read { address },
            _ => MemoryAccess::ReadAtHome { address },
        };
        let line = LineAddress::of(address);
        self.order.entry(line).or_default().push(self.next_token);
        context.access(access, self.next_token);
        self.next_token += 1;
        self.outstanding += 1;
        self.left -= 1;
        if self.left > 0 {
            let delay = Time::from_fs(self.random.below(self.think_fs));
            context.wake(context.now() + delay, 0);
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// What a random run is made of.
#[derive(Clone, Debug)]
struct Scenario {
    seed: u64,
    sockets: usize,
    cores: usize,
    columns: usize,
    rows: usize,
    agents: usize,
    lines: u64,
    streams: usize,
    accesses: u32,
    think_ns: f64,
    last_level_lines: u64,
    last_level_ways: u32,
    cache_lines: u64,
    cache_ways: u32,
    memory_ns: f64,
    link_bytes: u64,
}

impl Scenario {
    fn random(seed: u64) -> Scenario {
        match seed % 10 {
            9 => Scenario::contended(seed),
            6..9 => Scenario::of_one_socket(seed).with_two_sockets(),
            _ => Scenario::of_one_socket(seed),
        }
    }

    /// The same on two sockets of such a mesh each.
    fn with_two_sockets(self) -> Scenario {
        Scenario {
            sockets: 2,
            cores: self.cores.next_multiple_of(2),
            ..self
        }
    }

    fn of_one_socket(seed: u64) -> Scenario {
        let mut random = Random(seed);
        let (columns, rows) =
            [(2, 2), (3, 1), (4, 2), (3, 3), (1, 2), (8, 1)][random.below(6) as usize];
        let ways = [1, 2, 4][random.below(3) as usize];
        let cache_ways = [1, 2][random.below(2) as usize];
        Scenario {
            seed,
            sockets: 1,
            cores: (2 + random.below(7) as usize).min(columns * rows),
            columns,
            rows,
            agents: random.below(4) as usize,
            lines: [2, 6, 12, 40][random.below(4) as usize],
            streams: 1 + random.below(4) as usize,
            accesses: 150,
            think_ns: [0.6, 8.0, 40.0, 200.0][random.below(4) as usize],
            last_level_lines: u64::from(ways) * [1, 2, 8][random.below(3) as usize],
            last_level_ways: ways,
            cache_lines: u64::from(cache_ways) * [1, 2][random.below(2) as usize],
            cache_ways,
            memory_ns: [1.0, 30.0][random.below(2) as usize],
            link_bytes: [4, 16, 128][random.below(3) as usize],
        }
    }

    /// Caches of one line on a long mesh, and few lines: a line moves between neighbours, and is
    /// evicted, faster than its home far away learns of it.
    fn contended(seed: u64) -> Scenario {
        Scenario {
            seed,
            sockets: 1,
            cores: 8,
            columns: 8,
            rows: 1,
            agents: 0,
            lines: 2,
            streams: 4,
            accesses: 150,
            think_ns: [0.6, 4.0, 12.0, 30.0][(seed / 10 % 4) as usize],
            last_level_lines: 8,
            last_level_ways: 4,
            cache_lines: 1,
            cache_ways: 1,
            memory_ns: 1.0,
            link_bytes: 128,
        }
    }

    fn cache(&self) -> CacheSpec {
        CacheSpec {
            size_bytes: self.cache_lines * 64,
            ways: self.cache_ways,
            hit_latency_cycles: 3,
            mshrs: 3,
            ..CacheSpec::default()
        }
    }

    fn fabric(&self) -> Fabric {
        let spec = FabricSpec {
            cores: self.cores,
            sockets: self.sockets,
            socket_link: SocketLinkSpec {
                latency_ns: 10.0,
                bandwidth_gb_per_s: 10.0,
            },
            clock_ghz: 2.0,
            forward_latency_cycles: 4,
            last_level: LastLevelSpec {
                size_bytes_per_bank: self.last_level_lines * 64,
                ways: self.last_level_ways,
                latency_cycles: 6,
                ..LastLevelSpec::default()
            },
            mesh: MeshSpec {
                columns: self.columns,
                rows: self.rows,
                hop_latency_cycles: 3,
                link_bytes: self.link_bytes,
                local_latency_cycles: 1,
            },
            memory: MemorySpec {
                controllers: 2.min(self.columns * self.rows),
                latency_ns: self.memory_ns,
                bandwidth_gb_per_s: 20.0,
                dram: None,
            },
        };
        Fabric::new(&spec, memory_of_two_sockets()).unwrap()
    }

    fn run(&self, window: Window) -> Outcome {
        let mut fabric = self.fabric();
        let think_fs = Time::from_ns(self.think_ns).as_fs();
        let mut cores: Vec<TestCore> = (0..self.cores)
            .map(|index| {
                let id = CoreId(index as u16);
                let stream = |number: usize| Stream {
                    // One instruction stream, the others of data.
                    cache: usize::from(number != 1),
                    random: Random(self.seed ^ (index * 100 + number + 1) as u64),
                    next_at: Time::ZERO,
                    line: LineAddress(0),
                    write: false,
                    waiting: false,
                    left: self.accesses,
                };
                let mut streams: Vec<Stream> = (0..self.streams).map(stream).collect();
                for stream in &mut streams {
                    TestCore::choose(stream, Time::ZERO, self.lines, think_fs);
                }
                let cache = |id| PrivateCache::new(&self.cache(), id);
                TestCore {
                    id,
                    caches: [cache(CacheId::instruction(id)), cache(CacheId::data(id))],
                    streams,
                    seen: Vec::new(),
                    deliveries: Vec::new(),
                    lines: self.lines,
                    think_fs,
                }
            })
            .collect();
        let agents: Vec<AgentId> = (0..self.agents)
            .map(|index| {
                let has_cache = index != 1;
                let agent = TestAgent {
                    random: Random(self.seed ^ (index as u64 + 7777)),
                    lines: self.lines,
                    left: self.accesses * 2,
                    outstanding: 0,
                    think_fs,
                    has_cache,
                    seen: Vec::new(),
                    notes: Vec::new(),
                    lost: 0,
                    order: BTreeMap::new(),
                    next_token: 0,
                };
                let attachment = Attachment {
                    tile: (index * 5 + 1) % (self.sockets * self.columns * self.rows),
                    snoops: Some(AddressRange {
                        start: MEMORY,
                        length: 1 << 20,
                    }),
                    cache: has_cache.then(|| self.cache()),
                    ..Attachment::default()
                };
                let id = fabric.attach(Box::new(agent), attachment).unwrap();
                fabric.wake_agent(id, Time::from_ns(1.0), 0);
                id
            })
            .collect();
        let mut inboxes: Vec<Inbox> = cores.iter().map(|_| Inbox::default()).collect();
        let mut random = Random(self.seed ^ 0xffff);
        let longest = fabric.minimum_delivery_latency();
        let mut now = Time::ZERO;
        let mut out = Outbox::default();
        loop {
            let next = cores
                .iter()
                .zip(&inboxes)
                .map(|(core, inbox)| core.next_at(inbox))
                .min()
                .unwrap()
                .min(fabric.next_event());
            if next == Time::NEVER {
                break;
            }
            assert!(
                next < Time::from_ns(3e6),
                "no end: {:?}",
                fabric.waiting_for()
            );
            now = now.max(next);
            let end = now
                + match window {
                    Window::Longest => longest,
                    Window::Shortest => Time::from_fs(1),
                    Window::Random => Time::from_fs(1 + random.below(longest.as_fs())),
                };
            for (core, inbox) in cores.iter_mut().zip(&mut inboxes) {
                core.run_until(end, inbox, &mut out);
                fabric.send(core.id, &mut out);
            }
            if let Window::Random = window {
                let part = Time::from_fs(random.below((end - now).as_fs() + 1));
                fabric.run_until(now + part, &mut inboxes);
            }
            fabric.run_until(end, &mut inboxes);
            now = end;
            if let Window::Shortest = window {
                check_invariants(&fabric, &cores);
            }
        }
        check_invariants(&fabric, &cores);
        assert!(
            fabric.waiting_for().is_empty(),
            "{:?}",
            fabric.waiting_for()
        );
        assert!(fabric.errors().is_empty());
        for core in &cores {
            assert!(core.streams.iter().all(|stream| stream.left == 0));
        }
        let mut seen: Vec<Seen> = cores.iter().flat_map(|core| core.seen.clone()).collect();
        let mut notes = Vec::new();
        for &id in &agents {
            let agent = fabric.agent_mut::<TestAgent>(id).unwrap();
            assert_eq!((agent.left, agent.outstanding), (0, 0));
            seen.extend(&agent.seen);
            notes.push(agent.notes.clone());
        }
        check_values(&seen);
        for notes in &notes {
            check_arming(notes, &seen);
        }
        Outcome {
            deliveries: cores.into_iter().map(|core| core.deliveries).collect(),
            seen,
            notes,
            statistics: fabric.statistics(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Window {
    Longest,
    Shortest,
    Random,
}

#[derive(Debug, PartialEq)]
struct Outcome {
    deliveries: Vec<Vec<Delivery>>,
    seen: Vec<Seen>,
    notes: Vec<Vec<(Time, Note)>>,
    statistics: FabricStatistics,
}

/// One writer or many readers; the last-level cache includes what private caches hold, and the
/// directory knows the holders of lines that are not busy.
fn check_invariants(fabric: &Fabric, cores: &[TestCore]) {
    let caches = cores
        .iter()
        .flat_map(|core| &core.caches)
        .chain(fabric.private_caches());
    let directory: BTreeMap<LineAddress, (u64, Option<CacheId>, bool)> = fabric.directory();
    let mut holders: BTreeMap<LineAddress, (u32, u32)> = BTreeMap::new();
    for cache in caches {
        for (line, state, _) in cache.lines() {
            let entry = directory.get(&line);
            let Some(&(sharers, owner, busy)) = entry else {
                panic!(
                    "cache {:?} holds {line:?}, which is not at its home",
                    cache.id()
                );
            };
            let counts = holders.entry(line).or_default();
            if state == State::Shared {
                counts.1 += 1;
                // As owner: its upgrade is on the way.
                let known = sharers & (1 << cache.id().0) != 0 || owner == Some(cache.id());
                assert!(busy || known);
            } else {
                counts.0 += 1;
                assert!(busy || owner == Some(cache.id()));
            }
        }
    }
    for (line, (owners, sharers)) in holders {
        assert!(
            owners == 0 || (owners == 1 && sharers == 0),
            "{line:?} has {owners} owners and {sharers} sharers"
        );
    }
}

/// No write is lost, counts are made in the order of time, and a read sees the last write before
/// it.
fn check_values(seen: &[Seen]) {
    let mut made: BTreeMap<(LineAddress, u64), Time> = BTreeMap::new();
    for seen in seen.iter().filter(|seen| seen.write) {
        let before = made.insert((seen.line, seen.count), seen.at);
        assert_eq!(before, None, "{seen:?}: another write made the same count");
    }
    for (&(line, count), &at) in &made {
        assert!(count == 1 || made[&(line, count - 1)] <= at);
    }
    for seen in seen.iter().filter(|seen| !seen.write) {
        if seen.count > 0 {
            assert!(made[&(seen.line, seen.count)] <= seen.at, "{seen:?}");
        }
        if let Some(&next) = made.get(&(seen.line, seen.count + 1)) {
            assert!(
                seen.once || seen.at <= next,
                "{seen:?} was overwritten at {next}"
            );
        }
    }
}

/// After a ReadAtHome nobody can write without being granted ownership first.
fn check_arming(notes: &[(Time, Note)], seen: &[Seen]) {
    let made: BTreeMap<(LineAddress, u64), Time> = seen
        .iter()
        .filter(|seen| seen.write)
        .map(|seen| ((seen.line, seen.count), seen.at))
        .collect();
    let mut armed: BTreeMap<LineAddress, Vec<Time>> = BTreeMap::new();
    // From the end: the next grant after each arming.
    for &(at, note) in notes.iter().rev() {
        match note {
            Note::Granted(line) => armed.entry(line).or_default().push(at),
            Note::Armed(line, count) => {
                if let Some(&written) = made.get(&(line, count + 1)) {
                    let granted = armed.get(&line).and_then(|times| times.last());
                    assert!(
                        granted.is_some_and(|&granted| at <= granted && granted < written),
                        "{line:?} was armed at {at} and written at {written}, granted {granted:?}"
                    );
                }
            }
        }
    }
}

/// Seeds of random scenarios: the same ones each time, which are known to reach every place, and a
/// fifth as many others if `NANOPLANE_TEST_SEED` chooses them. `FABRIC_SEEDS` sets how many there are.
pub(crate) fn seeds(default: u64) -> impl Iterator<Item = u64> {
    let variable = |name: &str| Some(std::env::var(name).ok()?.parse().expect("a number"));
    let count = variable("FABRIC_SEEDS").unwrap_or(default);
    let chosen = variable("NANOPLANE_TEST_SEED").filter(|&seed| seed != 0);
    let first = move |seed: u64| (1 << 32) + (seed & u64::from(u32::MAX)) * count;
    (0..count).chain(
        chosen
            .into_iter()
            .flat_map(move |seed| first(seed)..first(seed) + count / 5),
    )
}

#[test]
fn random_traffic_is_coherent_and_does_not_depend_on_the_window() {
    for seed in seeds(300) {
        let scenario = Scenario::random(seed);
        let shortest = scenario.run(Window::Shortest);
        for window in [Window::Longest, Window::Random] {
            let other = scenario.run(window);
            assert!(
                shortest == other,
                "{scenario:?} depends on the window: {window:?}"
            );
        }
    }
    let reached = places_reached();
    let missing: Vec<_> = PLACES
        .iter()
        .filter(|what| !reached.contains(*what))
        .collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}

/// 4 x 4 tiles at 1 GHz (a cycle is a nanosecond), 3 cycles a hop, 16-byte links, so that a line
/// message is 5 flits; bank 10, forward 4, local 1 cycles; memory 50 ns with 6.4 ns for a line,
/// controllers at the corners: tiles 0, 3, 15, 12.
fn quiet_spec() -> FabricSpec {
    FabricSpec {
        clock_ghz: 1.0,
        memory: MemorySpec {
            bandwidth_gb_per_s: 10.0,
            ..MemorySpec::default()
        },
        ..FabricSpec::default()
    }
}

fn quiet_fabric() -> Fabric {
    Fabric::new(&quiet_spec(), memory()).unwrap()
}

/// A fabric with a data cache for each core, driven by hand.
struct Bench {
    fabric: Fabric,
    caches: Vec<PrivateCache>,
    inboxes: Vec<Inbox>,
    replies: Vec<(Time, CoreId, DeliveryKind)>,
    now: Time,
}

fn ns(nanoseconds: f64) -> Time {
    Time::from_ns(nanoseconds)
}

impl Bench {
    fn new(fabric: Fabric) -> Bench {
        let cores = fabric.cores();
        Bench {
            caches: (0..cores as u16)
                .map(|core| PrivateCache::new(&CacheSpec::default(), CacheId::data(CoreId(core))))
                .collect(),
            inboxes: (0..cores).map(|_| Inbox::default()).collect(),
            replies: Vec::new(),
            now: Time::ZERO,
            fabric,
        }
    }

    /// Runs until nothing happens any more. Returns when `core`'s cache was filled last.
    fn settle(&mut self, watched: usize) -> Time {
        let mut filled = Time::ZERO;
        let mut out = Outbox::default();
        loop {
            let deliveries = self.inboxes.iter().map(Inbox::next_at).min().unwrap();
            let now = deliveries.min(self.fabric.next_event());
            if now == Time::NEVER {
                return filled;
            }
            self.now = now;
            for core in 0..self.caches.len() {
                while self.inboxes[core].next_at() == now {
                    let delivery = self.inboxes[core].pop().unwrap();
                    let DeliveryKind::Cache { line, message, .. } = delivery.kind else {
                        self.replies.push((now, CoreId(core as u16), delivery.kind));
                        continue;
                    };
                    let cache = &mut self.caches[core];
                    if let CacheNotice::Filled { .. } = cache.receive(line, &message, now, &mut out)
                    {
                        if core == watched {
                            filled = now;
                        }
                        cache.finish_fill(line, now, &mut out);
                    }
                    self.fabric.send(CoreId(core as u16), &mut out);
                }
            }
            self.fabric
                .run_until(now + Time::from_fs(1), &mut self.inboxes);
        }
    }

    /// How long a miss takes.
    fn miss(&mut self, core: usize, line: LineAddress, write: bool) -> Time {
        let begin = self.now + ns(1000.0);
        let mut out = Outbox::default();
        let outcome = self.caches[core].request(line, write, begin, &mut out);
        assert_eq!(outcome, RequestOutcome::Sent);
        self.fabric.send(CoreId(core as u16), &mut out);
        self.settle(core) - begin
    }

    fn ask(
        &mut self,
        core: u16,
        agent: Option<AgentId>,
        transit: Transit,
        kind: RequestKind,
    ) -> Time {
        let begin = self.now + ns(1000.0);
        let mut out = Outbox::default();
        out.push(
            begin,
            OutgoingKind::Request {
                agent,
                transit,
                kind,
                hart: core,
                token: 7,
            },
        );
        self.fabric.send(CoreId(core), &mut out);
        self.settle(0);
        begin
    }
}

/// A line whose home is `tile`.
fn line_at(tile: u64, number: u64) -> LineAddress {
    LineAddress(MEMORY / 64 + number * 16 + tile)
}

#[test]
fn latencies_are_those_described() {
    let mut bench = Bench::new(quiet_fabric());
    // The line's home is tile 5 and its controller 5 % 4 = 1, on tile 3: 5 -> 3 is 3 hops.
    // From memory: 0 -> 5 control 2 hops = 6, bank 10, 5 -> 3 control 9, memory 50,
    // 3 -> 5 data 9 + 4, bank 10, 5 -> 0 data 6 + 4.
    let line = line_at(5, 0);
    assert_eq!(
        bench.miss(0, line, false),
        ns(6.0 + 10.0 + 9.0 + 50.0 + 13.0 + 10.0 + 10.0)
    );
    // It is exclusive at core 0. Core 15: 15 -> 5 control 4 hops = 12, bank 10, 5 -> 0 control 6,
    // forward 4, 0 -> 15 data 6 hops = 18 + 4.
    assert_eq!(
        bench.miss(15, line, false),
        ns(12.0 + 10.0 + 6.0 + 4.0 + 22.0)
    );
    // Now shared by 0 and 15: the home answers. Core 5 is on its tile: 1 + 10 + 1.
    assert_eq!(bench.miss(5, line, false), ns(12.0));
    // From the last-level cache of another tile, 1 hop: 3 + 10 + 3 + 4.
    assert_eq!(bench.miss(6, line, false), ns(20.0));
    // Core 6 writes: 3, bank 10, Invalidates to 0 (6), 15 (12), 5 (1) and back, the farthest
    // 12 + 12, bank 10, data 3 + 4.
    assert_eq!(
        bench.miss(6, line, true),
        ns(3.0 + 10.0 + 24.0 + 10.0 + 7.0)
    );
    // Core 5 writes what core 6 owns: 1, bank 10, 5 -> 6 control 3, forward 4, 6 -> 5 data 7.
    assert_eq!(bench.miss(5, line, true), ns(1.0 + 10.0 + 3.0 + 4.0 + 7.0));
    let statistics = bench.fabric.statistics();
    assert_eq!(statistics.last_level_misses, 1);
    assert_eq!(statistics.last_level_hits, 5);
    assert_eq!(statistics.forwards, 2);
    assert_eq!(statistics.transfers, 2);
    assert_eq!(statistics.invalidations, 3);
    assert_eq!(statistics.memory_reads, 1);
    assert_eq!(statistics.ownership_grants, 3);
    // Each of the two ForwardAcks waits for the 5 flits of its Transfer, which takes the same
    // first link.
    assert_eq!(statistics.mesh_queueing_fs, ns(10.0).as_fs());
    // min(bank 10, forward 4) + the shortest way, on one tile.
    assert_eq!(bench.fabric.minimum_delivery_latency(), ns(5.0));
}

/// Two sockets of [`quiet_spec`], whose second half of memory is the second's. The link begins at
/// tile 2 of each mesh, takes 25 ns and carries 8 bytes a nanosecond.
fn two_quiet_sockets() -> Fabric {
    let spec = FabricSpec {
        sockets: 2,
        cores: 16,
        socket_link: SocketLinkSpec {
            latency_ns: 25.0,
            bandwidth_gb_per_s: 8.0,
        },
        ..quiet_spec()
    };
    Fabric::new(&spec, memory().with_second_socket(vec![UPPER_HALF])).unwrap()
}

const UPPER_HALF: AddressRange = AddressRange {
    start: MEMORY + (1 << 19),
    length: 1 << 19,
};

/// A line whose home is `tile` of the second socket.
fn upper_line_at(tile: u64, number: u64) -> LineAddress {
    LineAddress(line_at(tile, number).0 + (1 << 19) / 64)
}

#[test]
fn latencies_between_sockets_are_those_described() {
    let mut bench = Bench::new(two_quiet_sockets());
    // Core 8 is the first of the second socket, on its tile 0. The line's home is tile 5 there,
    // and its controller number 1, on tile 3: as within one socket.
    let line = upper_line_at(5, 0);
    assert_eq!(
        bench.miss(8, line, false),
        ns(6.0 + 10.0 + 9.0 + 50.0 + 13.0 + 10.0 + 10.0)
    );
    assert_eq!(bench.fabric.statistics().socket_link_messages, 0);
    // The same from core 0, on tile 0 of the first socket, which core 8 has to share first. To
    // the home: 0 -> 2 control 6, transmission 1, link 25, 2 -> 5 control 2 hops = 6; bank 10;
    // 5 -> 0 control 6; forward 4; back from core 8: 0 -> 2 data 6 + 4, 9 + 25, 2 -> 0 6 + 4.
    let to_home = 6.0 + 1.0 + 25.0 + 6.0;
    let from_tile_0 = 10.0 + 9.0 + 25.0 + 10.0;
    assert_eq!(
        bench.miss(0, line, false),
        ns(to_home + 10.0 + 6.0 + 4.0 + from_tile_0)
    );
    // The home answers core 2 on tile 2 of the first socket. There: local 1, 1 + 25, 6; bank 10;
    // data 6 + 4, 9 + 25, local 1. Within a socket it would be 6 + 10 + 10: 2 * 25 + 10 for the
    // transmissions and 2 for the routers of the links more.
    assert_eq!(
        bench.miss(2, line, false),
        ns(1.0 + 26.0 + 6.0 + 10.0 + 10.0 + 34.0 + 1.0)
    );
    // Core 10, on tile 2 of the home's socket, writes: 6, bank 10; the Invalidates to 0 and to 2
    // leave together, and that to core 0 comes first over the link: 5 -> 2 6, 1 + 25; then to
    // tile 0 6, and back 6 + 26 + 6; bank 10, data 6 + 4. That to core 2 is a nanosecond later
    // on the link, and there at once.
    assert_eq!(
        bench.miss(10, line, true),
        ns(6.0 + 10.0 + (6.0 + 26.0 + 6.0) * 2.0 + 10.0 + 10.0)
    );
    // Nothing but what is within a socket bounds how soon a core can be reached.
    assert_eq!(bench.fabric.minimum_delivery_latency(), ns(5.0));
}

/// The link's bandwidth is what a stream of lines from the other socket gets.
#[test]
fn a_stream_from_the_other_socket_takes_the_link_s_bandwidth() {
    let mut bench = Bench::new(two_quiet_sockets());
    // In the last-level cache of the second socket; each bank has one line of those asked for at
    // once, and each cache asks for 8.
    let lines: Vec<LineAddress> = (0..64).map(|number| upper_line_at(number, 0)).collect();
    for &line in &lines {
        bench.miss(8, line, false);
        bench.miss(9, line, false);
    }
    let begin = bench.now + ns(1000.0);
    let mut out = Outbox::default();
    for (index, &line) in lines.iter().enumerate() {
        let core = index / 8;
        bench.caches[core].request(line, false, begin, &mut out);
        if index % 8 == 7 {
            bench.fabric.send(CoreId(core as u16), &mut out);
        }
    }
    bench.settle(0);
    let last = bench.now;
    let crossed = bench.fabric.statistics();
    assert_eq!(crossed.socket_link_messages, 128);
    assert_eq!(crossed.socket_link_bytes, 64 * (8 + 72));
    // 64 lines of 72 bytes take 576 ns on the link. Before the first are its request, 1 + 25 and
    // the bank, and the ways between; behind the last 25 and the way: less than 80 ns more.
    let taken = (last - begin).as_ns();
    assert!(
        (576.0 + 26.0 + 10.0 + 25.0..656.0 + 26.0).contains(&taken),
        "{taken}"
    );
}

/// An agent on both sockets accesses each line from the socket that it belongs to.
#[test]
fn an_agent_on_each_socket_stays_on_it() {
    let mut fabric = two_quiet_sockets();
    let attachment = |on_each_socket| Attachment {
        tile: 5,
        cache: Some(CacheSpec::default()),
        on_each_socket,
        ..Attachment::default()
    };
    let both = fabric
        .attach(Box::new(Script::default()), attachment(true))
        .unwrap();
    let one = fabric
        .attach(Box::new(Script::default()), attachment(false))
        .unwrap();
    assert_eq!((both, one), (AgentId(0), AgentId(2)));
    let mut bench = Bench::new(fabric);
    let (lower, upper) = (line_at(5, 0).base(), upper_line_at(5, 0).base());
    let add = |address| MemoryAccess::FetchAdd { address, addend: 1 };
    let log = bench.script(both, &[add(lower), add(upper), add(upper)]);
    assert_eq!(log.len(), 3);
    assert_eq!(bench.fabric.statistics().socket_link_messages, 0);
    // The other one sees what it has written, over the link.
    bench.script(one, &[add(lower), add(upper)]);
    assert!(bench.fabric.statistics().socket_link_messages > 0);
    bench.miss(0, LineAddress::of(upper), false);
    let slot = bench.caches[0].find(LineAddress::of(upper)).unwrap();
    assert_eq!(bench.caches[0].line(slot).read(0, 8), 3);
}

#[test]
fn a_bank_takes_one_message_a_cycle_and_a_channel_one_line_at_a_time() {
    let mut bench = Bench::new(quiet_fabric());
    let line = |number| line_at(0, number);
    // Two misses of core 0, on the home's and the controller's own tile, at the same time.
    // The first: 1 + 10 + 1 + 50 + 1 + 10 + 1 = 74; the second 1 ns later at the bank, and then
    // 5.4 ns behind at the channel (64 bytes at 10 GB/s take 6.4 ns); its answer waits for the
    // next cycle of the mesh.
    let begin = ns(1000.0);
    let mut out = Outbox::default();
    for number in 0..2 {
        bench.caches[0].request(line(number), false, begin, &mut out);
    }
    bench.fabric.send(CoreId(0), &mut out);
    assert_eq!(bench.settle(0) - begin, ns(74.0 + 7.0));
    let statistics = bench.fabric.statistics();
    assert_eq!(statistics.bank_queueing_fs, ns(1.0).as_fs());
    assert_eq!(statistics.memory_queueing_fs, ns(5.4).as_fs());
}

/// A miss on the home's and the controller's own tile takes 74 ns, as above. With banks it takes
/// what it takes to open its row besides: 10 ns for the first row, nothing if it is open, and 30 ns
/// if another is. Rows of 8 KB of four controllers are 512 lines.
#[test]
fn rows_are_opened_and_closed() {
    let mut spec = quiet_spec();
    spec.memory.dram = Some(DramSpec {
        banks: 1,
        activate_ns: 10.0,
        precharge_ns: 20.0,
        ..DramSpec::default()
    });
    let mut bench = Bench::new(Fabric::new(&spec, memory()).unwrap());
    for (number, more) in [(0, 10.0), (1, 0.0), (32, 30.0), (33, 0.0), (2, 30.0)] {
        let took = bench.miss(0, line_at(0, number), false);
        assert_eq!(took, ns(74.0 + more), "line {number}");
    }
}

/// Does what the closures say.
#[derive(Default)]
struct Script {
    log: Vec<String>,
    requests: Vec<Request>,
    delay: Time,
    accesses: Vec<(MemoryAccess, u64)>,
    warm: Option<AddressRange>,
}

impl Agent for Script {
    fn name(&self) -> String {
        "script".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        self.log.push(format!("request at {}", context.now()));
        self.requests.push(request);
        match request.kind {
            RequestKind::Read { address, .. } => {
                context.reply(request.reply_to, address + 1, self.delay);
            }
            RequestKind::Custom { code: 1, .. } => {
                context.interrupt(2, 11, true, self.delay);
                context.reply(request.reply_to, 0, self.delay);
            }
            _ => context.refuse(request.reply_to),
        }
    }

    fn ownership_granted(&mut self, context: &mut AgentContext<'_>, line: LineAddress) {
        self.log
            .push(format!("granted {:#x} at {}", line.base(), context.now()));
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        _access: MemoryAccess,
        data: LineData,
    ) {
        let value = data.read(0, 8);
        self.log
            .push(format!("access {token} done at {}: {value}", context.now()));
    }

    fn line_lost(&mut self, context: &mut AgentContext<'_>, line: LineAddress) {
        self.log
            .push(format!("lost {:#x} at {}", line.base(), context.now()));
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, _token: u64) {
        for (access, token) in self.accesses.drain(..) {
            context.access(access, token);
        }
        if let Some(range) = self.warm.take() {
            context.warm_last_level(range);
        }
    }

    fn waiting_for(&self) -> Vec<String> {
        vec!["waits for its script".to_string()]
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

const DEVICE: AddressRange = AddressRange {
    start: 0x1000_0000,
    length: 0x1000,
};

/// A script on tile 1 with a cache, an address range, and a view of the first half of memory.
fn with_script(fabric: &mut Fabric) -> AgentId {
    let attachment = Attachment {
        tile: 1,
        owns: Some(DEVICE),
        snoops: Some(AddressRange {
            start: MEMORY,
            length: 1 << 19,
        }),
        cache: Some(CacheSpec {
            size_bytes: 256,
            ways: 2,
            hit_latency_cycles: 3,
            mshrs: 2,
            ..CacheSpec::default()
        }),
        ..Attachment::default()
    };
    fabric
        .attach(Box::new(Script::default()), attachment)
        .unwrap()
}

impl Bench {
    /// Lets the script access memory, and returns what it logged.
    fn script(&mut self, agent: AgentId, accesses: &[MemoryAccess]) -> Vec<String> {
        let script = self.fabric.agent_mut::<Script>(agent).unwrap();
        script.log.clear();
        script.accesses = accesses.iter().copied().zip(1..).collect();
        // Round numbers make the logs readable.
        let begin = ns((self.now.as_ns() / 1000.0).ceil() * 1000.0 + 1000.0);
        self.fabric.wake_agent(agent, begin, 0);
        self.settle(0);
        let script = self.fabric.agent_mut::<Script>(agent).unwrap();
        std::mem::take(&mut script.log)
    }
}

#[test]
fn requests_reach_agents_and_answers_come_back() {
    let mut fabric = quiet_fabric();
    let agent = with_script(&mut fabric);
    assert_eq!(
        fabric.memory_map().classify(DEVICE.start + 8),
        Region::Device(agent)
    );
    assert_eq!(fabric.memory_map().classify(MEMORY), Region::Ram);
    assert_eq!(fabric.memory_map().classify(0), Region::Nothing);
    let free = fabric.memory_map();
    let protected = fabric.memory_map().protect(fabric.ram().ranges());
    assert!(!free.is_protected(MEMORY) && protected.is_protected(MEMORY));
    assert!(!protected.is_protected(DEVICE.start));
    let around = |map: &MemoryMap, user| map.memory_around(MEMORY, user).is_some();
    assert!(around(&free, true) && around(&protected, false) && !around(&protected, true));
    let mut bench = Bench::new(fabric);
    let read = |address| RequestKind::Read { address, bytes: 8 };
    let answer = |at, core, result| {
        let kind = DeliveryKind::Reply { token: 7, result };
        vec![(at, CoreId(core), kind)]
    };

    // By address over the mesh: 4 -> 1 is 2 hops = 6, port 4, back 6.
    let begin = bench.ask(4, None, Transit::Tile, read(DEVICE.start));
    let expected = answer(begin + ns(16.0), 4, Ok(DEVICE.start + 1));
    assert_eq!(std::mem::take(&mut bench.replies), expected);

    // With a delay of its own, longer than the port's.
    bench.fabric.agent_mut::<Script>(agent).unwrap().delay = ns(20.0);
    let begin = bench.ask(4, None, Transit::Tile, read(DEVICE.start));
    let expected = answer(begin + ns(32.0), 4, Ok(DEVICE.start + 1));
    assert_eq!(std::mem::take(&mut bench.replies), expected);

    // At the home of a line on tile 0: 3 -> 0 is 3 hops = 9, and back.
    let home = Transit::Home(line_at(0, 1));
    let begin = bench.ask(3, Some(agent), home, read(5));
    let expected = answer(begin + ns(9.0 + 20.0 + 9.0), 3, Ok(6));
    assert_eq!(std::mem::take(&mut bench.replies), expected);

    // By wires: exactly as long as they are.
    let begin = bench.ask(3, Some(agent), Transit::Fixed(ns(7.0)), read(5));
    let expected = answer(begin + ns(27.0), 3, Ok(6));
    assert_eq!(std::mem::take(&mut bench.replies), expected);
    assert_eq!(bench.fabric.statistics().lengthened_deliveries, 0);

    // Not allowed: 4 -> 1 with a word 6, port 4, back 6.
    let write = RequestKind::Write {
        address: DEVICE.start,
        bytes: 4,
        value: 1,
    };
    let begin = bench.ask(4, None, Transit::Tile, write);
    assert_eq!(
        std::mem::take(&mut bench.replies),
        answer(begin + ns(16.0), 4, Err(()))
    );

    // Nobody there: the least delivery latency.
    let begin = bench.ask(4, None, Transit::Tile, read(0x666));
    assert_eq!(
        std::mem::take(&mut bench.replies),
        answer(begin + ns(5.0), 4, Err(()))
    );
    assert_eq!(bench.fabric.statistics().refused_requests, 1);

    // An interrupt, and wires that would be too fast, which is counted.
    bench.fabric.agent_mut::<Script>(agent).unwrap().delay = ns(1.0);
    let custom = RequestKind::Custom {
        code: 1,
        arguments: [0; 2],
    };
    let begin = bench.ask(0, Some(agent), Transit::Fixed(ns(7.0)), custom);
    let interrupt = DeliveryKind::Interrupt {
        thread: 0,
        bit: 11,
        level: true,
    };
    assert!(
        bench
            .replies
            .contains(&(begin + ns(12.0), CoreId(2), interrupt))
    );
    assert_eq!(bench.fabric.statistics().lengthened_deliveries, 2);
}

#[test]
fn grants_of_ownership_are_seen_before_they_leave() {
    let mut fabric = quiet_fabric();
    let agent = with_script(&mut fabric);
    let mut bench = Bench::new(fabric);
    let line = line_at(5, 0);
    let log = |bench: &mut Bench| {
        std::mem::take(&mut bench.fabric.agent_mut::<Script>(agent).unwrap().log)
    };
    // A read from memory that nobody else holds grants E, when the data reaches the home:
    // 20 ns before it reaches the core. See `latencies_are_those_described`.
    bench.miss(0, line, false);
    assert_eq!(log(&mut bench), ["granted 0x80000140 at 1088 ns"]);
    // The second read makes both sharers: nothing.
    bench.miss(15, line, false);
    assert!(log(&mut bench).is_empty());
    // A write by a sharer: when the acknowledgement has come, 1 + 10 + 24 after its departure.
    let begin = bench.now;
    let latency = bench.miss(15, line, true);
    let at = begin + ns(1000.0) + latency - (ns(10.0) + ns(16.0));
    assert_eq!(log(&mut bench), [format!("granted 0x80000140 at {at}")]);
    // A write of an owned line: when the home forwards it, 2 hops from core 0.
    let begin = bench.now;
    bench.miss(0, line, true);
    let at = begin + ns(1006.0);
    assert_eq!(log(&mut bench), [format!("granted 0x80000140 at {at}")]);
    // A line outside the range.
    bench.miss(0, LineAddress((MEMORY + (1 << 19)) / 64), true);
    assert!(log(&mut bench).is_empty());
}

#[test]
fn a_read_at_home_takes_ownership_away_and_grants_none() {
    let mut fabric = quiet_fabric();
    let agent = with_script(&mut fabric);
    let mut bench = Bench::new(fabric);
    let line = line_at(5, 0);
    bench.miss(0, line, true);
    let slot = bench.caches[0].find(line).unwrap();
    bench.caches[0].line_mut(slot).write(0, 8, 42);
    let address = line.base() + 8;
    let read = MemoryAccess::ReadAtHome { address };
    // On the home's tile 1, bank 10, 5 -> 0 control 6, forward 4, 0 -> 5 data 6 + 4, and the bank
    // reads it: 10.
    let log = bench.script(agent, &[read]);
    assert_eq!(log, ["access 1 done at 3041 ns: 42"]);
    assert_eq!(
        bench.caches[0].state(bench.caches[0].find(line).unwrap()),
        State::Shared
    );
    assert_eq!(bench.fabric.directory()[&line], (1 << 1, None, false));
    // Again, without an owner: 1 + 10.
    let log = bench.script(agent, &[read]);
    assert_eq!(log, ["access 1 done at 5011 ns: 42"]);
    // Writing it now needs the home.
    bench.miss(0, line, true);
    let log = std::mem::take(&mut bench.fabric.agent_mut::<Script>(agent).unwrap().log);
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].starts_with("granted 0x80000140"));
    // From memory, 5 -> 3 and back: 1 + 10 + 9 + 50 + 13 + 10.
    let address = line_at(5, 1).base();
    let log = bench.script(agent, &[MemoryAccess::ReadAtHome { address }]);
    assert_eq!(log, [format!("access 1 done at {}: 0", ns(8000.0 + 93.0))]);
}

#[test]
fn accesses_to_one_line_keep_their_order_and_others_overlap() {
    let mut fabric = quiet_fabric();
    let agent = with_script(&mut fabric);
    let mut bench = Bench::new(fabric);
    // Lines at home on tile 1, so that all ways are local, and 2 -> of other controllers: line
    // 1 % 4 = 1, at tile 3.
    let address = line_at(1, 0).base();
    let other = line_at(1, 1).base();
    let third = line_at(1, 2).base();
    let mut data = LineData::ZERO;
    data.write(0, 8, 5);
    let accesses = [
        MemoryAccess::FetchAdd { address, addend: 3 },
        MemoryAccess::Read { address: other },
        MemoryAccess::Read { address: third },
        MemoryAccess::ReadAtHome { address },
        MemoryAccess::Write {
            address,
            bytes: 8,
            data,
        },
        MemoryAccess::FetchAdd { address, addend: 1 },
        MemoryAccess::Read { address },
    ];
    let log = bench.script(agent, &accesses);
    let done: Vec<&String> = log
        .iter()
        .filter(|entry| entry.starts_with("access"))
        .collect();
    let of_line: Vec<(&str, &str)> = done
        .iter()
        .map(|entry| (&entry[7..8], entry.rsplit(' ').next().unwrap()))
        .filter(|(token, _)| !["2", "3"].contains(token))
        .collect();
    // Before the first addition 0; at home 3; after the write 5; before the second addition 5.
    assert_eq!(
        of_line,
        [("1", "0"), ("4", "3"), ("5", "5"), ("6", "5"), ("7", "6")]
    );
    // The first two overlap: lookup 3, 1 + 10, 1 -> 3 control 6, memory 50, 3 -> 1 data 6 + 4,
    // bank 10, 1. The second is a cycle behind at the bank, 5.4 more at the channel, and enters
    // the mesh with the next cycle. The third has to wait for one of the two miss status holding registers.
    assert_eq!(done[0], "access 1 done at 1091 ns: 0");
    assert_eq!(done[1], "access 2 done at 1098 ns: 0");
    let third_at: f64 = done
        .iter()
        .find(|entry| entry.starts_with("access 3"))
        .unwrap()["access 3 done at ".len()..]
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(third_at > 1091.0 + 80.0);
    assert!(bench.fabric.errors().is_empty());
    // A hit.
    let log = bench.script(agent, &[MemoryAccess::Read { address }]);
    assert!(log.last().unwrap().ends_with("3 ns: 6"), "{log:?}");
    // A core takes it away.
    bench.miss(4, line_at(1, 0), true);
    let log = std::mem::take(&mut bench.fabric.agent_mut::<Script>(agent).unwrap().log);
    assert!(
        log.iter()
            .any(|entry| entry.starts_with(&format!("lost {address:#x}"))),
        "{log:?}"
    );
}

#[test]
fn wrong_accesses_and_attachments_get_sentences() {
    let mut fabric = quiet_fabric();
    let agent = with_script(&mut fabric);
    let mut bench = Bench::new(fabric);
    let data = LineData::ZERO;
    let accesses = [
        MemoryAccess::Read { address: 16 },
        MemoryAccess::Write {
            address: MEMORY + 60,
            bytes: 8,
            data,
        },
    ];
    let log = bench.script(agent, &accesses);
    assert_eq!(
        log,
        ["access 1 done at 1005 ns: 0", "access 2 done at 1005 ns: 0"]
    );
    assert_eq!(
        bench.fabric.errors(),
        [
            "script accesses 1 bytes at 0x10 at 1000 ns, but there is no memory.",
            "script accesses 8 bytes at 0x8000003c at 1000 ns, but it crosses a line.",
        ]
    );
    assert_eq!(bench.fabric.waiting_for(), ["script: waits for its script"]);
    let mut attach = |attachment: Attachment| {
        let error = bench
            .fabric
            .attach(Box::new(Script::default()), attachment)
            .unwrap_err();
        error.to_string()
    };
    assert_eq!(
        attach(Attachment {
            tile: 16,
            ..Attachment::default()
        }),
        "tile of script is 16; the mesh has tiles 0 to 15"
    );
    assert_eq!(
        attach(Attachment {
            owns: Some(AddressRange {
                start: 0x1000_0800,
                length: 8,
            }),
            ..Attachment::default()
        }),
        "addresses of script is 0x8 bytes at 0x10000800; script is at 0x10000000 \
         to 0x10000fff, and they must not overlap"
    );
    assert!(
        attach(Attachment {
            owns: Some(AddressRange {
                start: MEMORY - 8,
                length: 16,
            }),
            ..Attachment::default()
        })
        .contains("memory is at 0x80000000")
    );
}

#[test]
fn busy_lines_say_what_they_wait_for() {
    let mut bench = Bench::new(quiet_fabric());
    let line = line_at(5, 0);
    let mut out = Outbox::default();
    bench.caches[0].request(line, false, ns(1000.0), &mut out);
    bench.fabric.send(CoreId(0), &mut out);
    bench.fabric.run_until(ns(1020.0), &mut bench.inboxes);
    assert_eq!(
        bench.fabric.waiting_for(),
        ["The line at 0x80000140 waits for memory; 0 more requests for it wait."]
    );
}

#[test]
fn data_may_come_before_the_acknowledgement_of_the_last_eviction() {
    let spec = CacheSpec {
        size_bytes: 64,
        ways: 1,
        hit_latency_cycles: 1,
        mshrs: 4,
        ..CacheSpec::default()
    };
    let mut cache = PrivateCache::new(&spec, CacheId(1));
    let mut out = Outbox::default();
    let (one, two) = (LineAddress(1), LineAddress(2));
    let mut fill = |cache: &mut PrivateCache, line, value| {
        assert_eq!(
            cache.request(line, true, Time::ZERO, &mut out),
            RequestOutcome::Sent
        );
        let mut data = LineData::ZERO;
        data.write(0, 8, value);
        let data = ToCache::Data(Grant::Modified, Source::LastLevel, data);
        let notice = cache.receive(line, &data, Time::ZERO, &mut out);
        assert!(matches!(notice, CacheNotice::Filled { .. }));
        assert_eq!(
            cache.finish_fill(line, Time::ZERO, &mut out),
            CacheNotice::None
        );
    };
    // Line one is evicted by line two, comes back from a third cache before its PutAck, and is
    // evicted again: two entries in the buffer, the older acknowledged first.
    fill(&mut cache, one, 1);
    fill(&mut cache, two, 2);
    fill(&mut cache, one, 3);
    fill(&mut cache, two, 4);
    let mut out = Outbox::default();
    cache.receive(one, &ToCache::PutAck, Time::ZERO, &mut out);
    let forward = ToCache::ForwardGetM { requester: None };
    assert_eq!(
        cache.receive(one, &forward, Time::ZERO, &mut out),
        CacheNotice::None
    );
    let OutgoingKind::Coherence {
        message:
            ToHome::ForwardAck {
                data: Some(data),
                dirty: true,
                kept: false,
            },
        ..
    } = out.messages[0].kind
    else {
        panic!("{out:?}");
    };
    assert_eq!(data.read(0, 8), 3);
    cache.receive(one, &ToCache::PutAck, Time::ZERO, &mut out);
    cache.receive(two, &ToCache::PutAck, Time::ZERO, &mut out);
}

#[test]
fn the_least_recently_used_way_is_replaced() {
    let spec = CacheSpec {
        size_bytes: 256,
        ways: 4,
        hit_latency_cycles: 1,
        mshrs: 4,
        ..CacheSpec::default()
    };
    let mut cache = PrivateCache::new(&spec, CacheId(1));
    let mut out = Outbox::default();
    let mut fill = |cache: &mut PrivateCache, number| {
        let line = LineAddress(number);
        cache.request(line, false, Time::ZERO, &mut out);
        let data = ToCache::Data(Grant::Shared, Source::LastLevel, LineData::ZERO);
        let CacheNotice::Filled { evicted, .. } = cache.receive(line, &data, Time::ZERO, &mut out)
        else {
            panic!("not filled");
        };
        cache.finish_fill(line, Time::ZERO, &mut out);
        evicted.map(|line| line.0)
    };
    for number in 0..4 {
        assert_eq!(fill(&mut cache, number), None);
    }
    let version = cache.content_version();
    let order = cache.replacement_order().0.to_vec();
    for number in [1, 0] {
        cache.touch(cache.find(LineAddress(number)).unwrap());
    }
    assert_eq!(cache.content_version(), version);
    assert_ne!(cache.replacement_order().0, order);
    assert_eq!(fill(&mut cache, 9), Some(2));
    assert_eq!(fill(&mut cache, 10), Some(3));
    assert_eq!(fill(&mut cache, 11), Some(1));
    assert_ne!(cache.content_version(), version);
}

/// The quiet fabric with a non-inclusive last-level cache. A bank's LLC has one line and its
/// directory `entries`.
fn non_inclusive_fabric(entries: u64) -> Fabric {
    let mut spec = quiet_spec();
    spec.last_level = LastLevelSpec {
        size_bytes_per_bank: 64,
        ways: 1,
        inclusion: Inclusion::NonInclusive,
        directory: Some(DirectorySpec {
            entries_per_bank: entries,
            ways: entries as u32,
            ..DirectorySpec::default()
        }),
        ..spec.last_level
    };
    Fabric::new(&spec, memory()).unwrap()
}

#[test]
fn a_line_that_left_the_last_level_cache_stays_in_private_caches() {
    let mut bench = Bench::new(non_inclusive_fabric(4));
    let line = line_at(5, 0);
    let other = line_at(5, 1);
    // From memory: see `latencies_are_those_described`.
    assert_eq!(bench.miss(0, line, false), ns(108.0));
    // Another line of the same home takes its place. Core 0 still has the first, exclusively.
    bench.miss(0, other, false);
    assert_eq!(bench.fabric.statistics().last_level_evictions, 1);
    assert_eq!(bench.fabric.statistics().recalls, 0);
    let slot = bench.caches[0].find(line).unwrap();
    assert_eq!(bench.caches[0].state(slot), State::Exclusive);
    // So core 15 gets it from core 0: 12, bank 10, 5 -> 0 control 6, forward 4, 0 -> 15 data 22.
    // The home gets a copy with the acknowledgement, and so has it for core 5: 1, 10, 1.
    assert_eq!(bench.miss(15, line, false), ns(54.0));
    assert_eq!(bench.miss(5, line, false), ns(12.0));
    // It loses its place again. Nobody owns it now, so that it comes from memory for core 6:
    // 5 -> 6 is one hop, 3 + 10, memory 9 + 50 + 13, 10, 3 + 4.
    bench.miss(6, other, false);
    // The other one came back with core 0's acknowledgement, and before that the first one had.
    assert_eq!(bench.fabric.statistics().last_level_evictions, 3);
    assert_eq!(bench.miss(6, line, false), ns(102.0));
    // All four have it: core 6 writes it without memory (see above).
    assert_eq!(bench.miss(6, line, true), ns(54.0));
    assert_eq!(bench.fabric.statistics().recalls, 0);
}

#[test]
fn a_line_that_loses_its_directory_entry_leaves_the_private_caches() {
    let mut bench = Bench::new(non_inclusive_fabric(1));
    let line = line_at(5, 0);
    bench.miss(0, line, true);
    let slot = bench.caches[0].find(line).unwrap();
    bench.caches[0].line_mut(slot).write(0, 8, 42);
    bench.miss(1, line_at(5, 1), false);
    assert_eq!(bench.fabric.statistics().recalls, 1);
    assert!(bench.caches[0].find(line).is_none());
    // What core 0 had written went into the LLC, which has one place: the other line took it when
    // it came from memory.
    assert_eq!(bench.fabric.statistics().memory_writes, 1);
    assert_eq!(bench.fabric.ram().read_line(line).read(0, 8), 42);
}

/// Banks of two ways in one set. Core 0 has read the lines `held` of tile 5, and then the last-level cache was
/// warmed with lines 0 to 4 of it.
fn warmed(inclusion: Inclusion, held: std::ops::Range<u64>) -> Bench {
    let mut spec = quiet_spec();
    spec.last_level = LastLevelSpec {
        size_bytes_per_bank: 128,
        ways: 2,
        inclusion,
        ..spec.last_level
    };
    let mut fabric = Fabric::new(&spec, memory()).unwrap();
    let agent = with_script(&mut fabric);
    let mut bench = Bench::new(fabric);
    for number in held {
        bench.miss(0, line_at(5, number), false);
    }
    // The lines of other tiles are between them.
    let start = line_at(5, 0).base();
    let script = bench.fabric.agent_mut::<Script>(agent).unwrap();
    script.warm = Some(AddressRange {
        start,
        length: line_at(5, 5).base() - start,
    });
    assert!(bench.script(agent, &[]).is_empty());
    let statistics = bench.fabric.statistics();
    assert_eq!(statistics.last_level_evictions, 0);
    assert_eq!(statistics.memory_writes, 0);
    bench
}

#[test]
fn a_warm_last_level_cache_has_what_was_written_last() {
    // From home 5 to core 6 is one hop: 3 + 10 + 3 + 4; from memory, as in
    // `latencies_are_those_described`, 3 + 10 + 9 + 50 + 13 + 10 + 7 = 102. A line that is newer than
    // memory goes there first. In an inclusive cache that is before the request: it comes 5 cycles later,
    // and waits until the 6.4 ns from 13 on are over, at 19.4 instead of 9. In the other it is when the
    // new line has come, and both take the same first link.
    let near = ns(20.0);
    let cases = [
        (Inclusion::Inclusive, ns(102.0 + 11.0)),
        (Inclusion::NonInclusive, ns(102.0 + 5.0)),
    ];
    for (inclusion, far) in cases {
        // The last two lines are there: the third to last is not, and takes the place of one.
        let mut bench = warmed(inclusion, 0..0);
        assert_eq!(bench.miss(6, line_at(5, 2), false), far);
        assert_eq!(bench.fabric.statistics().memory_writes, 1);
        assert_eq!(bench.miss(6, line_at(5, 4), false), near);
    }
    // A line that a core holds keeps its way in an inclusive cache, where another would have been
    // used less recently; the other way has the last line.
    let mut bench = warmed(Inclusion::Inclusive, 1..2);
    let slot = bench.caches[0].find(line_at(5, 1)).unwrap();
    assert_eq!(bench.caches[0].state(slot), State::Exclusive);
    assert_eq!(bench.miss(6, line_at(5, 4), false), near);
    // If all ways are held, they stay so. A miss recalls the first line then: 6 -> 5 3, bank 10,
    // 5 -> 0 control 6, forward 4, 0 -> 5 6, and from memory 10 + 9 + 50 + 13 + 10 + 7.
    let mut bench = warmed(Inclusion::Inclusive, 0..2);
    assert_eq!(bench.miss(6, line_at(5, 4), false), ns(128.0));
    assert_eq!(bench.fabric.statistics().recalls, 1);
    // A non-inclusive one loses it, and still knows who has it: 6 -> 5 3, bank 10, 5 -> 0 control 6,
    // forward 4, 0 -> 6 data 9 + 4.
    let mut bench = warmed(Inclusion::NonInclusive, 1..2);
    assert_eq!(bench.miss(6, line_at(5, 3), false), near);
    assert_eq!(bench.miss(6, line_at(5, 1), false), ns(36.0));
}

#[test]
fn dma_takes_the_ways_that_it_takes() {
    let mut fabric = quiet_fabric();
    let agent = with_script(&mut fabric);
    let mut bench = Bench::new(fabric);
    let mut data = LineData::ZERO;
    data.write(0, 8, 7);
    let write = |line: LineAddress, offset, bytes, allocate| MemoryAccess::DmaWrite {
        address: line.base() + offset,
        bytes,
        data,
        allocate,
    };
    let read = |line: LineAddress| MemoryAccess::DmaRead {
        address: line.base(),
    };
    // The script is on tile 1, the line's home is tile 5, one hop away. A whole line that nobody
    // has: 1 -> 5 of 72 bytes, 3 + 4; bank 10; acknowledgement 3. Snoopers are told at the bank.
    let line = line_at(5, 0);
    let log = bench.script(agent, &[write(line, 0, 64, true)]);
    assert_eq!(
        log,
        [
            "granted 0x80000140 at 1007 ns",
            "access 1 done at 1020 ns: 7"
        ]
    );
    let statistics = bench.fabric.statistics();
    assert_eq!((statistics.memory_reads, statistics.memory_writes), (0, 0));
    // It is in the last-level cache: core 6 reads it in 3 + 10 + 3 + 4. Nobody else holds it, so
    // that it comes exclusively.
    assert_eq!(bench.miss(6, line, false), ns(20.0));
    // A DMA read takes the ownership: 3, bank 10, 5 -> 6 control 3, forward 4, back 3, bank 10,
    // data 3 + 4. The reader keeps its copy.
    let log = bench.script(agent, &[read(line)]);
    assert_eq!(log, ["access 1 done at 4040 ns: 7"]);
    let slot = bench.caches[6].find(line).unwrap();
    assert_eq!(bench.caches[6].state(slot), State::Shared);
    // Eight bytes over a line that is shared: 16 bytes 3, bank 10, Invalidate and back 3 + 3, and
    // only then is it told and written; bank 10, acknowledgement 3.
    let log = bench.script(agent, &[write(line, 8, 8, true)]);
    assert_eq!(
        log,
        [
            "granted 0x80000140 at 6019 ns",
            "access 1 done at 6032 ns: 7"
        ]
    );
    assert!(bench.caches[6].find(line).is_none());
    assert_eq!(bench.fabric.ram().read_line(line).read(8, 8), 7);
    assert_eq!(bench.fabric.statistics().memory_reads, 0);
    // Part of a line that is not on the chip: 3, bank 10, memory 9 + 50 + 13, bank 10, 3.
    let log = bench.script(agent, &[write(line_at(5, 1), 8, 8, true)]);
    assert_eq!(log.last().unwrap(), "access 1 done at 8098 ns: 0");
    // To memory, which needs nothing of the rest: 3, bank 10, 3.
    let log = bench.script(agent, &[write(line_at(5, 2), 0, 8, false)]);
    assert_eq!(log.last().unwrap(), "access 1 done at 10016 ns: 7");
    assert_eq!(bench.fabric.statistics().memory_reads, 1);
    assert_eq!(bench.fabric.statistics().memory_writes, 1);
    // It is not in the last-level cache: a read comes from memory, as one of the first line does
    // after it has been written past the last-level cache.
    assert_eq!(bench.miss(0, line_at(5, 2), false), ns(108.0));
    bench.script(agent, &[write(line, 0, 8, false)]);
    assert_eq!(bench.miss(0, line, false), ns(108.0));
    assert_eq!(bench.fabric.statistics().writes_at_home, 5);
    assert!(bench.fabric.errors().is_empty());
}

#[test]
fn a_dma_write_takes_a_newer_line_with_it() {
    // Part of a line that a core has written: the rest is the core's.
    for inclusion in [Inclusion::Inclusive, Inclusion::NonInclusive] {
        for allocate in [false, true] {
            let mut spec = quiet_spec();
            spec.last_level.inclusion = inclusion;
            let mut fabric = Fabric::new(&spec, memory()).unwrap();
            let agent = with_script(&mut fabric);
            let mut bench = Bench::new(fabric);
            let line = line_at(5, 0);
            bench.miss(0, line, true);
            let slot = bench.caches[0].find(line).unwrap();
            bench.caches[0].line_mut(slot).write(0, 8, 42);
            let mut data = LineData::ZERO;
            data.write(0, 8, 7);
            let write = MemoryAccess::DmaWrite {
                address: line.base() + 8,
                bytes: 8,
                data,
                allocate,
            };
            bench.script(agent, &[write]);
            let now = bench.fabric.ram().read_line(line);
            assert_eq!((now.read(0, 8), now.read(8, 8)), (42, 7));
            assert!(bench.caches[0].find(line).is_none());
            let before = bench.fabric.statistics().memory_reads;
            bench.miss(1, line, false);
            let slot = bench.caches[1].find(line).unwrap();
            assert_eq!(*bench.caches[1].line(slot), now);
            let from_memory = bench.fabric.statistics().memory_reads - before;
            assert_eq!(from_memory, u64::from(!allocate));
        }
    }
}

/// Tells another agent something at each of its times, and notes what it is told.
struct Talker {
    to: AgentId,
    heard: std::rc::Rc<RefCell<Vec<(Time, AgentId, AgentMessage)>>>,
}

impl Agent for Talker {
    fn name(&self) -> String {
        "talker".to_string()
    }

    fn message(&mut self, context: &mut AgentContext<'_>, from: AgentId, message: AgentMessage) {
        self.heard.borrow_mut().push((context.now(), from, message));
    }

    /// Tokens below 100 are bytes over the mesh, others nanoseconds over wires.
    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        let mut data = LineData::ZERO;
        data.write(8, 8, token);
        let message = AgentMessage {
            header: token,
            data,
        };
        if token < 100 {
            context.send(self.to, token, message);
        } else {
            context.send_over_wires(self.to, Time::from_ns(token as f64), message);
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[test]
fn agents_tell_each_other_things_over_the_mesh_and_over_wires() {
    let spec = FabricSpec {
        clock_ghz: 1.0,
        ..FabricSpec::default()
    };
    let mut fabric = Fabric::new(&spec, memory()).unwrap();
    let heard = std::rc::Rc::default();
    let mut attach = |tile, to| {
        let heard = std::rc::Rc::clone(&heard);
        let attachment = Attachment {
            tile,
            ..Attachment::default()
        };
        fabric
            .attach(Box::new(Talker { to, heard }), attachment)
            .unwrap()
    };
    let first = AgentId(0);
    let second = attach(0, AgentId(1));
    assert_eq!(second, first);
    let last = attach(3, AgentId(7));
    assert_eq!(fabric.next_agent(), AgentId(2));
    let ns = |ns: u64| Time::from_ns(ns as f64);
    for (at, token) in [(100, 16), (200, 64), (200, 16), (300, 500)] {
        fabric.wake_agent(first, ns(at), token);
    }
    // There is nobody whom the last one could tell anything.
    fabric.wake_agent(last, ns(1000), 8);
    let mut inboxes: Vec<Inbox> = (0..16).map(|_| Inbox::default()).collect();
    fabric.run_until(ns(2000), &mut inboxes);
    // Three hops of 3 cycles; 64 bytes are four flits, behind which the next message waits.
    let expected = [(109, 16), (200 + 9 + 3, 64), (200 + 4 + 9, 16), (800, 500)];
    let heard: Vec<_> = heard.borrow().clone();
    let told = heard.iter().map(|&(at, from, message)| {
        assert_eq!(from, first);
        assert_eq!(message.data.read(8, 8), message.header);
        (at, message.header)
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        expected.map(|(at, token)| (ns(at), token))
    );
    let errors = fabric.errors();
    assert!(
        errors.len() == 1 && errors[0].contains("to agent 7"),
        "{errors:?}"
    );
}

/// Any way makes room, free or not: the one that a register of 16 bits tells, which moves on by its definition, the
/// polynomial x^16 + x^14 + x^13 + x^11 + 1, with each line that comes. It goes through all numbers but 0.
#[test]
fn a_random_way_is_replaced() {
    let spec = CacheSpec {
        size_bytes: 256,
        ways: 4,
        hit_latency_cycles: 1,
        mshrs: 4,
        replacement: Replacement::Random,
    };
    let mut cache = PrivateCache::new(&spec, CacheId(1));
    let (mut register, mut held) = (1_u32, [None; 4]);
    for number in 0..65_535 {
        let (_, victim) = cache.place(LineAddress(number), State::Shared, &LineData::ZERO);
        let way = (register & 3) as usize;
        assert_eq!(victim.map(|one| one.line.0), held[way]);
        held[way] = Some(number);
        // A hit changes nothing.
        cache.find_and_touch(LineAddress(number));
        let bit = |place: u32| register >> (16 - place) & 1;
        let next = bit(16) ^ bit(14) ^ bit(13) ^ bit(11);
        register = register >> 1 | next << 15;
    }
    assert_eq!(register, 1);
}
