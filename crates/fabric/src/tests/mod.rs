//! Tests of the fabric as a whole, and their common parts: a quiet fabric driven by hand, and
//! scripted agents.

mod agents;
mod caches;
mod latencies;
mod memory_agents;
#[path = "../../../../tests/rust/random.rs"]
mod random;
#[path = "../../../../tests/rust/selection.rs"]
pub(crate) mod selection;
mod traffic;

use crate::*;
pub(crate) use random::Random;
use std::cell::RefCell;
use std::collections::BTreeSet;

thread_local! {
    static REACHED: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

pub(crate) fn note_reached(what: &'static str) {
    REACHED.with_borrow_mut(|reached| reached.insert(what));
}

/// Points of the protocol that every thorough test reaches.
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

/// The points of the protocol that this thread has reached.
pub(crate) fn places_reached() -> BTreeSet<&'static str> {
    REACHED.with_borrow(BTreeSet::clone)
}

pub(crate) const MEMORY: u64 = 0x8000_0000;

pub(crate) fn memory() -> Ram {
    Ram::new(vec![AddressRange {
        start: MEMORY,
        length: 1 << 20,
    }])
    .unwrap()
}

/// The same with two sockets; every other three lines belong to the second.
pub(crate) fn memory_of_two_sockets() -> Ram {
    let second = |three: u64| AddressRange {
        start: MEMORY + (6 * three + 3) * 64,
        length: 3 * 64,
    };
    memory().with_second_socket((0..64).map(second).collect())
}

/// A cache in front of memory of four blocks of two lines.
pub(crate) fn small_memory_cache() -> MemoryCacheSpec {
    MemoryCacheSpec {
        size_bytes: 512,
        ways: 2,
        ..MemoryCacheSpec::default()
    }
}

/// DRAM of two banks with rows of two lines, low watermarks and frequent refreshes, so that a few
/// lines are enough for row conflicts, drains, and reads answered from the write queue.
pub(crate) fn small_dram(page: PagePolicy) -> DramSpec {
    DramSpec {
        bank_groups: Some(1),
        banks_per_group: Some(2),
        row_bytes: 128,
        page,
        controller_latency_ns: 1.0,
        write_high_watermark: 3,
        write_low_watermark: 1,
        max_overtakes: 4,
        timings: DramTimingSpec {
            trefi_cycles: Some(1333),
            ..DramTimingSpec::default()
        },
        ..DramSpec::default()
    }
}

/// Seeds of random scenarios: a fixed set, known to reach every point, and a fifth as many others
/// if `NANOPLANE_TEST_SEED` selects them; `NANOPLANE_TEST_EFFORT` times as many of both.
pub(crate) fn seeds(default: u64) -> impl Iterator<Item = u64> {
    let count = default * selection::effort();
    let chosen = selection::seed().filter(|&seed| seed != 0);
    let first = move |seed: u64| (1 << 32) + (seed & u64::from(u32::MAX)) * count;
    (0..count).chain(
        chosen
            .into_iter()
            .flat_map(move |seed| first(seed)..first(seed) + count / 5),
    )
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

    /// Runs until all activity ends. Returns the time at which `core`'s cache was last filled.
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

    /// The latency of a miss.
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

/// An agent with scripted accesses and a log.
#[derive(Default)]
struct Script {
    log: Vec<String>,
    requests: Vec<Request>,
    delay: Time,
    accesses: Vec<(MemoryAccess, u64)>,
    warm: Option<AddressRange>,
}

state::unsaved!(Script);

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
