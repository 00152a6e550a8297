//! Random traffic, checked against the invariants of coherence.

use super::*;
use std::collections::BTreeMap;

/// A write increments the count at the start of the line, so that a lost write shows as two writes
/// with the same count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    at: Time,
    line: LineAddress,
    count: u64,
    write: bool,
    /// Whether it was a load that used a line once: it may be older.
    once: bool,
}

/// A stream of accesses of a core, with one outstanding.
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

    /// Performs the access of stream `index` if its line is present. Returns whether it was done.
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
        // Without a free register: retry in 5 ns.
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
    /// For each line, the tokens of outstanding accesses, to check their order.
    order: BTreeMap<LineAddress, Vec<u64>>,
    next_token: u64,
}

state::unsaved!(TestAgent);

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
            // The agent is not notified of a line that is used once.
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
}

/// The parameters of a random run.
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
    dram: Option<PagePolicy>,
}

impl Scenario {
    fn random(seed: u64) -> Scenario {
        match seed % 10 {
            9 => Scenario::contended(seed),
            6..9 => Scenario::of_one_socket(seed).with_two_sockets(),
            _ => Scenario::of_one_socket(seed),
        }
    }

    /// The same with two sockets, each with such a mesh.
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
            dram: [None, None, Some(PagePolicy::Open), Some(PagePolicy::Closed)]
                [random.below(4) as usize],
        }
    }

    /// Caches of one line on a long mesh, and few lines: a line moves between neighbours, and is
    /// evicted, before its distant home is notified.
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
            ..Scenario::of_one_socket(seed)
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
                dram: self.dram.map(small_dram),
                cache: (self.seed % 10 == 3).then(small_memory_cache),
            },
            perfect_cache: match self.seed % 16 {
                5 => PerfectCache::LastLevel,
                6 if self.sockets == 1 => PerfectCache::FirstLevel,
                _ => PerfectCache::None,
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
                    // One instruction stream; the others are data.
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
                // As owner: its upgrade is in flight.
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

/// No write is lost, counts increase in order of time, and a read returns the last write before it.
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

/// After a ReadAtHome no cache can write without first being granted ownership.
fn check_arming(notes: &[(Time, Note)], seen: &[Seen]) {
    let made: BTreeMap<(LineAddress, u64), Time> = seen
        .iter()
        .filter(|seen| seen.write)
        .map(|seen| ((seen.line, seen.count), seen.at))
        .collect();
    let mut armed: BTreeMap<LineAddress, Vec<Time>> = BTreeMap::new();
    // Backwards: the next grant after each arming.
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
