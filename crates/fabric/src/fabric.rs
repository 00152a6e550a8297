//! The fabric: puts the parts together, and processes their events in the order of time.
//!
//! # The order of events
//!
//! Events of one time are ordered by who sent them and by a count of the sender's. For what cores
//! leave in their outboxes that is the core and the core's count; everything else comes out of
//! the processing of an earlier event and is counted as it does. So the order depends on nothing
//! but what is simulated, not on when an outbox was handed over nor on how far
//! [`Fabric::run_until`] went each time.
//!
//! # Latencies
//!
//! With `way` for hops x hop latency + (flits - 1) cycles, or the local latency on one tile, and
//! without queueing, from the departure of a request to the delivery of its data (between sockets
//! `way` is that to the link, the transmission, the link's latency, and the way from there):
//!
//! - line in the last-level cache: way(request) + bank + way(data);
//! - line of another cache: way(request) + bank + way(forward) + forward latency + way(data), and
//!   the look-up in a core's cache, after which its answer departs;
//! - shared line, to be written: way(request) + bank + way(Invalidate) + way(ack) + bank +
//!   way(data), for the last acknowledgement;
//! - line in memory: way(request) + bank + way(read) + memory latency + way(data) + bank +
//!   way(data);
//! - DMA: like the above, with way(acknowledgement) last for a write. Copies that it takes away
//!   cost what they cost a cache that writes.

use crate::agent::{Effect, Way};
use crate::divisor::Divisor;
use crate::home::{Answer, Bank, BankStatistics, HomeAction, HomeWrite, TransactionId};
use crate::memory::{Memory, MemoryRequest, Ticket};
use crate::mesh::{CONTROL_BYTES, LINE_MESSAGE_BYTES, Mesh, Order, WORD_BYTES};
use crate::queue::{Alarm, Queue};
use crate::ram::overlap;
use crate::spec::MAXIMUM_CACHES;
use crate::{
    AddressRange, Agent, AgentContext, AgentId, AgentMessage, Attachment, CacheId, CacheNotice,
    CacheSpec, Clock, CoreId, DeliveryKind, FabricSpec, Grant, Inbox, LINE_BYTES, LineAddress,
    LineData, MemoryAccess, Observation, Outbox, OutgoingKind, PrivateCache, Ram, ReplyTo, Request,
    RequestKind, RequestOutcome, Source, Time, ToCache, ToHome, Transit,
};
use serde::Serialize;
use spec::{SpecError, Under};
use state::{State, Walker};
use std::collections::VecDeque;

/// What an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Memory: loads and stores go through the private caches.
    Ram,
    /// Addresses of an agent: loads and stores are requests to it.
    Device(AgentId),
    /// Nobody's: an access fault.
    Nothing,
}

/// Which addresses belong to what.
#[derive(Clone, Debug, Default)]
pub struct MemoryMap {
    ranges: Vec<Mapped>,
}

#[derive(Clone, Copy, Debug)]
struct Mapped {
    range: AddressRange,
    region: Region,
    /// See [`MemoryMap::protect`].
    protected: bool,
}

impl MemoryMap {
    /// What `address` belongs to.
    #[inline]
    pub fn classify(&self, address: u64) -> Region {
        let found = self.find(address);
        found.map_or(Region::Nothing, |mapped| mapped.region)
    }

    #[inline]
    fn find(&self, address: u64) -> Option<&Mapped> {
        self.ranges
            .iter()
            .find(|mapped| mapped.range.contains(address))
    }

    /// The range of memory that holds `address`, for those who look often. `user`: only if user mode
    /// may write there.
    pub fn memory_around(&self, address: u64, user: bool) -> Option<AddressRange> {
        self.find(address)
            .filter(|mapped| mapped.region == Region::Ram && !(user && mapped.protected))
            .map(|mapped| mapped.range)
    }

    /// Keeps user mode from writing to memory and from reaching devices in `ranges`, each of which is
    /// all that the map has at its addresses. Code and data there can still be executed and read.
    #[must_use]
    pub fn protect(mut self, ranges: &[AddressRange]) -> MemoryMap {
        for mapped in &mut self.ranges {
            mapped.protected |= ranges.iter().any(|range| overlap(range, &mapped.range));
        }
        self
    }

    /// Whether `address` is kept from user mode ([`MemoryMap::protect`]).
    pub fn is_protected(&self, address: u64) -> bool {
        self.find(address).is_some_and(|mapped| mapped.protected)
    }
}

/// What has happened on the fabric so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FabricStatistics {
    /// Requests for lines that were in the last-level cache, or that a private cache owned or
    /// another request was being served for.
    pub last_level_hits: u64,
    /// Requests for lines that had to come from memory.
    pub last_level_misses: u64,
    /// Lines that left the last-level cache to make room.
    pub last_level_evictions: u64,
    /// Lines that had to leave private caches to make room in the directory, which is in the tags
    /// of an inclusive last-level cache.
    pub recalls: u64,
    /// GetS and GetM from private caches.
    pub requests: u64,
    /// Requests that were forwarded to the owner of the line.
    pub forwards: u64,
    /// Invalidates sent.
    pub invalidations: u64,
    /// Lines that owners gave up to make room.
    pub puts: u64,
    /// Lines read at home by agents.
    pub reads_at_home: u64,
    /// Writes of agents at home.
    pub writes_at_home: u64,
    /// Lines sent from one private cache to another.
    pub transfers: u64,
    /// Grants of E or M.
    pub ownership_grants: u64,
    /// Requests of cores to agents.
    pub agent_requests: u64,
    /// Requests of cores to addresses of nobody.
    pub refused_requests: u64,
    /// Interrupt lines changed.
    pub interrupts: u64,
    /// Messages and requests that the banks of the last-level cache have looked up in the directory.
    pub bank_accesses: u64,
    /// Lines that the banks read out, to send or to write them to memory.
    pub bank_line_reads: u64,
    /// Lines, or parts of lines, that the banks were brought and took up.
    pub bank_line_writes: u64,
    /// Lines read from memory.
    pub memory_reads: u64,
    /// Lines written to memory.
    pub memory_writes: u64,
    /// Messages between units, on one tile or between tiles.
    pub mesh_messages: u64,
    /// Links passed by messages.
    pub mesh_hops: u64,
    /// Links passed by flits; a flit takes a link for a cycle.
    pub mesh_hop_cycles: u64,
    /// Time that messages waited for links, in femtoseconds.
    pub mesh_queueing_fs: u64,
    /// Messages that have crossed the link between two sockets.
    pub socket_link_messages: u64,
    /// Their bytes.
    pub socket_link_bytes: u64,
    /// Time that they waited for it, in femtoseconds.
    pub socket_link_queueing_fs: u64,
    /// Time that messages waited for their turn at a bank, in femtoseconds.
    pub bank_queueing_fs: u64,
    /// Time that reads and writes waited for a memory channel, in femtoseconds.
    pub memory_queueing_fs: u64,
    /// Answers and interrupts over wires of their own that were asked for sooner than
    /// [`Fabric::minimum_delivery_latency`] and came then.
    pub lengthened_deliveries: u64,
    /// Events processed.
    pub events: u64,
}

state::plain!(FabricStatistics {
    last_level_hits: count,
    last_level_misses: count,
    last_level_evictions: count,
    recalls: count,
    requests: count,
    forwards: count,
    invalidations: count,
    puts: count,
    reads_at_home: count,
    writes_at_home: count,
    transfers: count,
    ownership_grants: count,
    agent_requests: count,
    refused_requests: count,
    interrupts: count,
    bank_accesses: count,
    bank_line_reads: count,
    bank_line_writes: count,
    memory_reads: count,
    memory_writes: count,
    mesh_messages: count,
    mesh_hops: count,
    mesh_hop_cycles: count,
    mesh_queueing_fs: count,
    socket_link_messages: count,
    socket_link_bytes: count,
    socket_link_queueing_fs: count,
    bank_queueing_fs: count,
    memory_queueing_fs: count,
    lengthened_deliveries: count,
    events: count,
});

/// A sample point since which it is recorded what the banks of the last-level cache do.
#[derive(Debug)]
pub struct FootprintMark(Vec<usize>);

/// Something for a home that is not from a private cache.
#[derive(Clone, Copy, Debug)]
enum HomeInput {
    ReadAtHome(AgentId),
    /// What is written is with the agent's access.
    WriteAtHome(AgentId),
    Memory(TransactionId),
}

state::choice!(HomeInput { ReadAtHome(agent), WriteAtHome(agent), Memory(transaction) });

/// Where a message of a private cache is on its way to the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It leaves the cache.
    Leaving,
    /// It arrives at the bank.
    Arriving,
    /// It has its turn there.
    Admitted,
}

state::choice!(Stage {
    Leaving,
    Arriving,
    Admitted
});

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A message of a private cache to a bank. It stays one event on its whole way.
    ToHome {
        stage: Stage,
        cache: CacheId,
        bank: u32,
        line: LineAddress,
        /// Where the line's entry in the directory may be.
        entry: u32,
        message: ToHome,
    },
    /// Another message leaves a core.
    Departure { core: CoreId, kind: OutgoingKind },
    /// Something else arrives at a bank; `admitted` when it has its turn.
    Home {
        bank: u32,
        admitted: bool,
        line: LineAddress,
        input: HomeInput,
    },
    /// An agent can be given the line that it reads at home.
    ReadOut {
        bank: u32,
        transaction: TransactionId,
        agent: AgentId,
        line: LineAddress,
    },
    /// A read arrives at a memory controller.
    MemoryRead {
        controller: u32,
        ticket: Ticket,
        line: LineAddress,
    },
    /// Its answer leaves the controller.
    MemoryAnswer {
        controller: u32,
        ticket: Ticket,
        line: LineAddress,
    },
    /// A line arrives at a memory controller.
    MemoryWrite { controller: u32, line: LineAddress },
    /// A memory controller has asked for this time.
    MemoryWake { controller: u32 },
    /// A message arrives at an agent's cache.
    AgentCache {
        agent: AgentId,
        line: LineAddress,
        message: ToCache,
    },
    /// A core's request arrives at an agent.
    AgentRequest { agent: AgentId, request: Request },
    /// An agent's answer is about to go on the mesh.
    AgentReply {
        reply_to: ReplyTo,
        tile: usize,
        result: Result<u64, ()>,
    },
    /// An agent's private cache has looked an access up.
    Lookup { agent: AgentId, serial: u64 },
    /// An access that cannot be done is over.
    AccessRefused {
        agent: AgentId,
        access: MemoryAccess,
        token: u64,
    },
    /// The answer to a DMA access arrives at the agent.
    DmaDone {
        agent: AgentId,
        line: LineAddress,
        data: LineData,
    },
    /// An agent's time has come.
    Timer { agent: AgentId, token: u64 },
    /// A message arrives at an agent.
    Message {
        from: AgentId,
        to: AgentId,
        message: AgentMessage,
    },
}

state::choice!(Event {
    ToHome { stage, cache, bank, line, entry: fixed, message },
    Departure { core, kind },
    Home { bank, admitted, line, input },
    ReadOut { bank, transaction, agent, line },
    MemoryRead { controller, ticket, line },
    MemoryAnswer { controller, ticket, line },
    MemoryWrite { controller, line },
    MemoryWake { controller },
    AgentCache { agent, line, message },
    AgentRequest { agent, request },
    AgentReply { reply_to, tile, result },
    Lookup { agent, serial },
    AccessRefused { agent, access, token },
    DmaDone { agent, line, data },
    Timer { agent, token },
    Message { from, to, message }
});

impl Alarm for Event {
    fn is_alarm(&self) -> bool {
        matches!(self, Event::Timer { .. })
    }
}

/// Where the sender's number is in an event's order; below it is the sender's count.
const SENDER_SHIFT: u32 = 48;
/// The sender of what comes out of processing events; cores come before it.
const INTERNAL: u64 = 0xffff << SENDER_SHIFT;
/// The sender of what the builder of the server asks for.
const SERVER: u64 = 0xfffe << SENDER_SHIFT;

#[derive(Clone, Copy, Debug)]
enum CacheOwner {
    Core(CoreId),
    Agent(AgentId),
}

#[derive(Clone, Copy, Debug)]
struct CachePlace {
    tile: usize,
    owner: CacheOwner,
}

/// An access of an agent that is not done.
#[derive(Clone, Copy, Debug)]
struct PendingAccess {
    serial: u64,
    access: MemoryAccess,
    token: u64,
    state: PendingState,
    /// The line was on its way when others were promised that it is gone: what comes of it is new
    /// enough for this access, but not for later ones.
    in_time: bool,
}

state::plain!(PendingAccess {
    serial,
    access,
    token,
    state,
    in_time
});

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingState {
    /// In the private cache's lookup.
    LookingUp,
    /// Waits for an earlier access to its line, or for a miss status holding register.
    Ready,
    /// Waits for its line.
    Asked,
    /// On its way to the home and back.
    AtHome,
}

state::choice!(PendingState {
    LookingUp,
    Ready,
    Asked,
    AtHome
});

/// The accesses of an agent that are not done, in order.
#[derive(Default)]
struct PendingAccesses {
    /// The line of each: a list of its own, for it is searched often and may be long.
    lines: Vec<LineAddress>,
    /// The first ones are done first, as a rule.
    accesses: VecDeque<PendingAccess>,
}

state::component!(PendingAccesses { lines, accesses });

impl PendingAccesses {
    fn push(&mut self, line: LineAddress, access: PendingAccess) {
        self.lines.push(line);
        self.accesses.push_back(access);
    }

    /// The first one to `line`: the others wait for it.
    fn first(&self, line: LineAddress) -> Option<usize> {
        // Eight at a time without looking between, which the compiler does at once.
        let (eights, _) = self.lines.as_chunks::<8>();
        let without =
            |eight: &&[LineAddress; 8]| !eight.iter().fold(false, |any, &one| any | (one == line));
        let start = eights.iter().take_while(without).count() * 8;
        let found = self.lines[start..].iter().position(|&one| one == line);
        found.map(|place| start + place)
    }

    fn remove(&mut self, index: usize) -> PendingAccess {
        let access = self.accesses[index];
        self.lines.remove(index);
        self.accesses.remove(index);
        access
    }
}

/// An agent's place on the fabric, or the second one of an agent that is on both sockets.
struct Port {
    /// Taken out while one of its methods runs; none in a second place.
    agent: Option<Box<dyn Agent>>,
    /// The agent's first place.
    first: AgentId,
    /// Its place on the second socket, from where it accesses the lines of that socket.
    second: Option<AgentId>,
    tile: usize,
    cache: Option<PrivateCache>,
    hit_latency: Time,
    pending: PendingAccesses,
    next_serial: u64,
    /// Some access found no miss status holding register free.
    refused: bool,
}

impl State for Port {
    fn walk(&mut self, walker: &mut dyn Walker) {
        state::fields!(
            self,
            walker,
            Port {
                agent: fixed,
                first: fixed,
                second: fixed,
                tile: fixed,
                cache: inside,
                hit_latency: fixed,
                pending,
                next_serial,
                refused,
            }
        );
        if let Some(agent) = &mut self.agent {
            agent.walk(walker);
        }
    }
}

/// The coherent fabric of one server.
pub struct Fabric {
    clock: Clock,
    bank_latency: Time,
    bank_cycles: u64,
    forward_latency: Time,
    forward_cycles: u64,
    minimum_delivery_latency: Time,
    cores: usize,
    queue: Queue<Event>,
    /// How much each core has sent; then the server, then the fabric itself.
    core_counts: Vec<u64>,
    server_count: u64,
    internal_count: u64,
    /// Everything before this has been processed.
    done_until: Time,
    mesh: Mesh,
    memory: Memory,
    /// One for each tile.
    banks: Vec<Bank>,
    /// Of one socket.
    bank_count: Divisor,
    sockets: usize,
    ram: Ram,
    caches: Vec<CachePlace>,
    agents: Vec<Port>,
    devices: Vec<(AddressRange, AgentId)>,
    snoops: Vec<(AddressRange, AgentId)>,
    statistics: FabricStatistics,
    errors: Vec<String>,
    /// Buffers, empty between events.
    actions: Vec<HomeAction>,
    effects: Vec<Effect>,
    agent_outbox: Outbox,
    lines: Vec<LineAddress>,
    /// Cores, as bits, whose inboxes have got something.
    delivered_to: u64,
    /// The earliest of what they have got in this run.
    first_delivery: Time,
    /// How often an agent has been called, or its private cache has had something to do.
    calls: u64,
    /// What agents have written at home, and the lines as they were then.
    #[cfg(test)]
    pub(crate) written_at_home: Vec<(AgentId, LineAddress, LineData)>,
}

state::component!(Fabric {
    clock: fixed,
    bank_latency: fixed,
    bank_cycles: fixed,
    forward_latency: fixed,
    forward_cycles: fixed,
    minimum_delivery_latency: fixed,
    cores: fixed,
    queue,
    core_counts: exact slice,
    server_count: exact,
    internal_count: exact,
    done_until,
    mesh,
    memory,
    banks: slice,
    bank_count: fixed,
    sockets: fixed,
    ram: exact,
    caches: fixed,
    agents: exact slice,
    devices: fixed,
    snoops: fixed,
    statistics,
    errors,
    actions: fixed,
    effects: fixed,
    agent_outbox: fixed,
    lines: fixed,
    delivered_to: exact,
    first_delivery: fixed,
    calls: exact,
    #[cfg(test)]
    written_at_home: fixed,
});

/// Sends a message of a private cache along the way to the home's bank; returns the cycle in which it
/// arrives. `ready`: the first cycle in which it could leave, if it need not be forwarded.
#[inline]
fn send_to_bank(
    mesh: &mut Mesh,
    (now, ready): (u64, u64),
    way: (usize, usize),
    message: &ToHome,
    forward_cycles: u64,
) -> u64 {
    let (latency, bytes) = match message {
        ToHome::PutM(_) => (0, LINE_MESSAGE_BYTES),
        ToHome::ForwardAck { data: Some(_), .. } => (forward_cycles, LINE_MESSAGE_BYTES),
        ToHome::ForwardAck { data: None, .. } => (forward_cycles, CONTROL_BYTES),
        _ => (0, CONTROL_BYTES),
    };
    mesh.send_in_cycle(now, ready + latency, way, bytes, Order::ToHome)
}

fn request_bytes(kind: &RequestKind) -> u64 {
    match kind {
        RequestKind::Read { .. } => CONTROL_BYTES,
        RequestKind::Write { .. } | RequestKind::Custom { .. } => WORD_BYTES,
    }
}

impl Fabric {
    /// The fabric that `spec` describes, with the memory `ram`. Core `k` has caches `2k` and
    /// `2k + 1`.
    pub fn new(spec: &FabricSpec, ram: Ram) -> Result<Fabric, SpecError> {
        spec.check()?;
        let clock = spec.clock();
        let mesh = Mesh::of(spec, clock);
        let tiles = mesh.tiles();
        let socket_tiles = spec.tiles_of_socket();
        let ram = match spec.sockets {
            1 => ram.with_second_socket(Vec::new()),
            _ => ram,
        };
        let bank_latency = clock.time(spec.last_level.latency_cycles);
        let forward_latency = clock.time(spec.forward_latency_cycles);
        Ok(Fabric {
            clock,
            bank_latency,
            bank_cycles: spec.last_level.latency_cycles,
            forward_latency,
            forward_cycles: spec.forward_latency_cycles,
            minimum_delivery_latency: spec.minimum_delivery_latency(),
            cores: spec.cores,
            queue: Queue::new(clock),
            core_counts: vec![0; spec.cores],
            server_count: 0,
            internal_count: 0,
            done_until: Time::ZERO,
            memory: Memory::new(spec),
            banks: (0..tiles)
                .map(|_| Bank::new(&spec.last_level, socket_tiles))
                .collect(),
            bank_count: Divisor::new(socket_tiles as u64),
            sockets: spec.sockets,
            ram,
            caches: (0..spec.cores * 2)
                .map(|cache| {
                    let core = cache / 2;
                    let socket = spec.socket_of_core(core);
                    let first_core = socket * (spec.cores / spec.sockets);
                    CachePlace {
                        tile: socket * socket_tiles + core - first_core,
                        owner: CacheOwner::Core(CoreId(core as u16)),
                    }
                })
                .collect(),
            agents: Vec::new(),
            devices: Vec::new(),
            snoops: Vec::new(),
            statistics: FabricStatistics::default(),
            errors: Vec::new(),
            actions: Vec::new(),
            effects: Vec::new(),
            agent_outbox: Outbox::default(),
            lines: Vec::new(),
            delivered_to: 0,
            first_delivery: Time::NEVER,
            calls: 0,
            #[cfg(test)]
            written_at_home: Vec::new(),
            mesh,
        })
    }

    /// Puts an agent on the fabric.
    pub fn attach(
        &mut self,
        agent: Box<dyn Agent>,
        attachment: Attachment,
    ) -> Result<AgentId, SpecError> {
        let name = agent.name();
        let id = AgentId(self.agents.len() as u16);
        let Attachment {
            tile,
            owns,
            snoops,
            cache,
            on_each_socket,
        } = attachment;
        if tile >= self.mesh.tiles() {
            return Err(SpecError::new(
                format!("tile of {name}"),
                tile,
                format!("the mesh has tiles 0 to {}", self.mesh.tiles() - 1),
            ));
        }
        if let Some(range) = owns {
            let found = format!("{:#x} bytes at {:#x}", range.length, range.start);
            let key = format!("addresses of {name}");
            let error = |accepted: String| Err(SpecError::new(&key, &found, accepted));
            if range.length == 0 || range.start.checked_add(range.length).is_none() {
                return error("it must have a length and end below 2^64".to_string());
            }
            if let Some(other) = self
                .ram
                .ranges()
                .iter()
                .find(|other| overlap(&range, other))
            {
                return error(format!(
                    "memory is at {:#x} to {:#x}, and they must not overlap",
                    other.start,
                    other.end() - 1
                ));
            }
            if let Some((other, owner)) = self
                .devices
                .iter()
                .find(|(other, _)| overlap(&range, other))
            {
                return error(format!(
                    "{} is at {:#x} to {:#x}, and they must not overlap",
                    self.agent_name(*owner),
                    other.start,
                    other.end() - 1
                ));
            }
        }
        if let Some(spec) = &cache {
            spec.check().under(format_args!("cache of {name}"))?;
        }
        let is_twofold = on_each_socket && self.sockets > 1;
        let tiles = [tile, self.other_socket(tile)];
        let ids = [id, AgentId(id.0 + 1)];
        for place in 0..1 + usize::from(is_twofold) {
            let private_cache = match &cache {
                Some(spec) => Some(self.add_cache(spec, &name, ids[place], tiles[place])?),
                None => None,
            };
            self.agents.push(Port {
                agent: None,
                first: id,
                second: None,
                tile: tiles[place],
                cache: private_cache,
                hit_latency: cache
                    .as_ref()
                    .map_or(Time::ZERO, |spec| self.clock.time(spec.hit_latency_cycles)),
                pending: PendingAccesses::default(),
                next_serial: 0,
                refused: false,
            });
        }
        let port = &mut self.agents[usize::from(id.0)];
        port.agent = Some(agent);
        // The first place may be on the second socket.
        port.second = is_twofold.then_some(ids[1]);
        self.devices.extend(owns.map(|range| (range, id)));
        self.snoops.extend(snoops.map(|range| (range, id)));
        Ok(id)
    }

    /// The number that the next agent gets: for agents that have to know each other.
    pub fn next_agent(&self) -> AgentId {
        AgentId(self.agents.len() as u16)
    }

    /// The same tile of the other socket, or the tile itself if there is none.
    fn other_socket(&self, tile: usize) -> usize {
        let tiles = self.bank_count.value() as usize;
        (tile + tiles) % (tiles * self.sockets)
    }

    /// A private cache of an agent on `tile`.
    fn add_cache(
        &mut self,
        spec: &CacheSpec,
        name: &str,
        owner: AgentId,
        tile: usize,
    ) -> Result<PrivateCache, SpecError> {
        if self.caches.len() >= MAXIMUM_CACHES {
            return Err(SpecError::new(
                format!("cache of {name}"),
                format!("private cache number {}", self.caches.len() + 1),
                format!("a directory entry has a bit for each of {MAXIMUM_CACHES}"),
            ));
        }
        let cache = PrivateCache::new(spec, CacheId(self.caches.len() as u16));
        let owner = CacheOwner::Agent(owner);
        self.caches.push(CachePlace { tile, owner });
        Ok(cache)
    }

    /// From where agent `id` accesses `line`.
    fn place_of_access(&self, id: AgentId, line: LineAddress) -> AgentId {
        let port = &self.agents[usize::from(id.0)];
        match port.second {
            Some(second) if self.socket_of_tile(port.tile) != self.ram.socket_of(line) => second,
            _ => id,
        }
    }

    fn socket_of_tile(&self, tile: usize) -> usize {
        tile / self.bank_count.value() as usize
    }

    fn agent_name(&self, id: AgentId) -> String {
        let agent = self
            .agents
            .get(usize::from(id.0))
            .and_then(|port| port.agent.as_ref());
        agent.map_or_else(|| format!("agent {}", id.0), |agent| agent.name())
    }

    /// Takes what a core has left in its outbox. Nothing in it may be earlier than the time up to
    /// which the fabric has run.
    pub fn send(&mut self, core: CoreId, out: &mut Outbox) {
        let index = usize::from(core.0);
        for message in &out.messages {
            assert!(
                message.at >= self.done_until,
                "core {index} sends a message at {}, but the fabric has run until {}: the window \
                 was longer than the minimum delivery latency",
                message.at,
                self.done_until
            );
            let order = (u64::from(core.0) << SENDER_SHIFT) | self.core_counts[index];
            self.core_counts[index] += 1;
            let event = match message.kind {
                OutgoingKind::Coherence {
                    cache,
                    line,
                    message,
                } => {
                    let bank = self.bank_of(line);
                    self.banks[bank].announce(line);
                    Event::ToHome {
                        stage: Stage::Leaving,
                        cache,
                        bank: bank as u32,
                        line,
                        entry: 0,
                        message,
                    }
                }
                kind => Event::Departure { core, kind },
            };
            self.queue.push(message.at, order, event);
        }
        out.messages.clear();
    }

    /// When the next event is; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_event(&self) -> Time {
        self.queue.next_at()
    }

    /// The least time between an event of the fabric, such as the departure of a core's message,
    /// and a delivery that it causes: cores may run so far ahead of the fabric.
    pub fn minimum_delivery_latency(&self) -> Time {
        self.minimum_delivery_latency
    }

    /// Processes all events before `until`, in order; puts what they bring to core `k` into
    /// `inboxes[k]`.
    pub fn run_until(&mut self, until: Time, inboxes: &mut [Inbox]) {
        self.run_until_answered(until, Time::NEVER, inboxes);
    }

    /// The same, but only as far as no core can have answered what it brings: a core answers no
    /// sooner than `reaction` after a delivery.
    pub fn run_until_answered(&mut self, until: Time, reaction: Time, inboxes: &mut [Inbox]) {
        let mut until = until;
        self.first_delivery = Time::NEVER;
        while let Some((now, place)) = self.queue.take_before(until) {
            self.done_until = now;
            self.statistics.events += 1;
            if let Event::ToHome { .. } = self.queue.event(place) {
                self.go_on_to_home(now, place, inboxes);
            } else {
                let event = *self.queue.event(place);
                self.queue.free(place);
                self.process(now, event, inboxes);
            }
            until = until.min(self.first_delivery.saturating_add(reaction));
        }
        if until != Time::NEVER {
            self.done_until = self.done_until.max(until);
        }
    }

    #[inline(never)]
    fn push(&mut self, at: Time, event: Event) {
        let order = INTERNAL | self.internal_count;
        self.internal_count += 1;
        self.queue.push(at, order, event);
    }

    /// The cycle of the event at hand, which is at `now`, and the first that begins with it or later.
    #[inline]
    fn cycles(&self, now: Time) -> (u64, u64) {
        let cycle = self.queue.cycle();
        debug_assert_eq!(cycle, self.clock.cycle_of(now), "another event is at hand");
        (cycle, cycle + u64::from(self.clock.time(cycle) < now))
    }

    /// A message of a private cache leaves it, arrives at its line's home, or has its turn there.
    #[inline]
    fn go_on_to_home(&mut self, now: Time, place: u32, inboxes: &mut [Inbox]) {
        let (cycle, ready) = self.cycles(now);
        let Event::ToHome {
            stage,
            cache,
            bank,
            line,
            entry,
            message,
        } = self.queue.event(place)
        else {
            return;
        };
        let (cache, line, bank) = (*cache, *line, *bank);
        let home = &mut self.banks[bank as usize];
        match stage {
            Stage::Leaving => {
                *entry = home.announce_entry(line);
                *stage = Stage::Arriving;
                let way = (self.caches[usize::from(cache.0)].tile, bank as usize);
                let (cycles, forward) = ((cycle, ready), self.forward_cycles);
                let arrival = send_to_bank(&mut self.mesh, cycles, way, message, forward);
                let order = INTERNAL | self.internal_count;
                self.internal_count += 1;
                self.queue.put_back(place, arrival, order);
                return;
            }
            Stage::Arriving => {
                let turn = now.max(home.port_free);
                home.port_free = turn + self.clock.time(1);
                if turn > now {
                    self.statistics.bank_queueing_fs += (turn - now).as_fs();
                    *stage = Stage::Admitted;
                    let order = INTERNAL | self.internal_count;
                    self.internal_count += 1;
                    // What arrives does so at the beginning of a cycle.
                    self.queue.put_back(place, self.clock.cycle_of(turn), order);
                    return;
                }
            }
            Stage::Admitted => {}
        }
        self.statistics.bank_accesses += 1;
        match message {
            ToHome::GetS | ToHome::GetM => self.statistics.requests += 1,
            ToHome::PutM(_) | ToHome::ForwardAck { data: Some(_), .. } => {
                self.statistics.bank_line_writes += 1;
            }
            _ => {}
        }
        let at_once = home.answer_at_once(cache, line, message, *entry, &mut self.ram);
        let Some(answer) = at_once else {
            let mut actions = std::mem::take(&mut self.actions);
            home.message(cache, line, message, &mut self.ram, &mut actions);
            self.queue.free(place);
            self.act(now, bank, actions, inboxes);
            return;
        };
        self.queue.free(place);
        let message = match answer {
            Answer::PutAck => ToCache::PutAck,
            Answer::Grant(grant) => {
                if grant != Grant::Shared {
                    self.granted(now, line, inboxes);
                }
                self.statistics.bank_line_reads += 1;
                ToCache::Data(grant, Source::LastLevel, self.ram.read_line(line))
            }
        };
        let (latency, way) = (self.bank_cycles, (bank as usize, cache));
        self.send_to_cache(now, latency, way, line, &message, Order::FromHome, inboxes);
    }

    fn process(&mut self, now: Time, event: Event, inboxes: &mut [Inbox]) {
        match event {
            // See `run_until_answered`.
            Event::ToHome { .. } => {}
            Event::Departure { core, kind } => self.depart(now, core, &kind, inboxes),
            Event::Home {
                bank,
                admitted,
                line,
                input,
            } => {
                if !admitted {
                    let free = &mut self.banks[bank as usize].port_free;
                    let turn = now.max(*free);
                    *free = turn + self.clock.time(1);
                    if turn > now {
                        self.statistics.bank_queueing_fs += (turn - now).as_fs();
                        let admitted = true;
                        self.push(
                            turn,
                            Event::Home {
                                bank,
                                admitted,
                                line,
                                input,
                            },
                        );
                        return;
                    }
                }
                self.statistics.bank_accesses += 1;
                self.statistics.bank_line_writes +=
                    u64::from(!matches!(input, HomeInput::ReadAtHome(_)));
                let mut actions = std::mem::take(&mut self.actions);
                let write = match input {
                    HomeInput::WriteAtHome(agent) => self.home_write(agent, line),
                    _ => None,
                };
                let home = &mut self.banks[bank as usize];
                match &input {
                    HomeInput::ReadAtHome(agent) => {
                        home.read_at_home(*agent, line, &mut self.ram, &mut actions);
                    }
                    HomeInput::WriteAtHome(_) => {
                        if let Some(write) = write {
                            home.write_at_home(line, write, &mut self.ram, &mut actions);
                        }
                    }
                    HomeInput::Memory(transaction) => {
                        home.memory_answered(*transaction, &mut self.ram, &mut actions);
                    }
                }
                self.act(now, bank, actions, inboxes);
            }
            Event::ReadOut {
                bank,
                transaction,
                agent,
                line,
            } => {
                // The agent acts before anything else can be granted for this line.
                self.read_out(now, bank, agent, line, inboxes);
                let mut actions = std::mem::take(&mut self.actions);
                let home = &mut self.banks[bank as usize];
                home.read_out_done(transaction, &mut self.ram, &mut actions);
                self.act(now, bank, actions, inboxes);
            }
            Event::MemoryRead {
                controller,
                ticket,
                line,
            } => {
                let read = Some(ticket);
                self.ask_memory(now, controller, MemoryRequest { line, read });
            }
            Event::MemoryWrite { controller, line } => {
                self.ask_memory(now, controller, MemoryRequest { line, read: None });
            }
            Event::MemoryWake { controller } => {
                self.memory.wake(controller as usize, now);
                self.carry_out_memory(controller);
            }
            Event::MemoryAnswer {
                controller,
                ticket: Ticket { bank, transaction },
                line,
            } => {
                let from = self.memory.tile(controller as usize);
                let to = bank as usize;
                let arrival = self
                    .mesh
                    .send(now, now, from, to, LINE_MESSAGE_BYTES, Order::Free);
                self.push(
                    arrival,
                    Event::Home {
                        bank,
                        admitted: false,
                        line,
                        input: HomeInput::Memory(transaction),
                    },
                );
            }
            Event::AgentCache {
                agent,
                line,
                message,
            } => self.agent_cache(now, agent, line, message, inboxes),
            Event::AgentRequest { agent, request } => {
                self.call(now, agent, inboxes, |agent, context| {
                    agent.request(context, request);
                });
            }
            Event::AgentReply {
                reply_to,
                tile,
                result,
            } => self.reply_over_mesh(
                now,
                now + self.forward_latency,
                reply_to,
                tile,
                result,
                inboxes,
            ),
            Event::Lookup { agent, serial } => {
                self.calls += 1;
                let pending = &mut self.agents[usize::from(agent.0)].pending;
                let accesses = &mut pending.accesses;
                // Serial numbers go up along the list.
                if let Ok(index) = accesses.binary_search_by_key(&serial, |one| one.serial) {
                    accesses[index].state = PendingState::Ready;
                    let line = pending.lines[index];
                    self.advance(now, agent, line, false, inboxes);
                }
            }
            Event::AccessRefused {
                agent,
                access,
                token,
            } => {
                self.call(now, agent, inboxes, |agent, context| {
                    agent.access_done(context, token, access, LineData::ZERO);
                });
            }
            Event::DmaDone { agent, line, data } => {
                self.at_home_done(now, agent, line, data, inboxes);
            }
            Event::Timer { agent, token } => {
                self.call(now, agent, inboxes, |agent, context| {
                    agent.timer(context, token)
                });
            }
            Event::Message { from, to, message } => {
                self.call(now, to, inboxes, |agent, context| {
                    agent.message(context, from, message);
                });
            }
        }
    }

    fn ask_memory(&mut self, now: Time, controller: u32, request: MemoryRequest) {
        self.memory.ask(controller as usize, now, request);
        self.carry_out_memory(controller);
    }

    /// Lets what a memory controller has decided happen.
    fn carry_out_memory(&mut self, controller: u32) {
        let mut decisions = std::mem::take(&mut self.memory.decisions);
        for (at, line, ticket) in decisions.answers.drain(..) {
            let answer = Event::MemoryAnswer {
                controller,
                ticket,
                line,
            };
            self.push(at, answer);
        }
        if let Some(at) = decisions.wake.take() {
            self.push(at, Event::MemoryWake { controller });
        }
        self.memory.decisions = decisions;
    }

    /// The bank that is the line's home, which is on the tile of the same number: lines are
    /// interleaved over the banks of the socket that they belong to.
    #[inline]
    fn bank_of(&self, line: LineAddress) -> usize {
        let first = self.ram.socket_of(line) * self.bank_count.value() as usize;
        first + self.bank_count.remainder(line.0) as usize
    }

    /// A message leaves a core.
    fn depart(&mut self, now: Time, core: CoreId, kind: &OutgoingKind, inboxes: &mut [Inbox]) {
        let OutgoingKind::Request {
            agent,
            transit,
            kind,
            hart,
            token,
        } = *kind
        else {
            self.depart_coherence(now, kind, inboxes);
            return;
        };
        let owner = || {
            let (RequestKind::Read { address, .. } | RequestKind::Write { address, .. }) = kind
            else {
                return None;
            };
            let device = self
                .devices
                .iter()
                .find(|(range, _)| range.contains(address));
            device.map(|&(_, agent)| agent)
        };
        let agent = agent
            .or_else(owner)
            .filter(|agent| usize::from(agent.0) < self.agents.len());
        let Some(agent) = agent else {
            // The address decoder beside the core answers.
            self.statistics.refused_requests += 1;
            let result = Err(());
            let at = now + self.minimum_delivery_latency;
            self.bring(core, at, DeliveryKind::Reply { token, result }, inboxes);
            return;
        };
        self.statistics.agent_requests += 1;
        let from = self.core_tile(core);
        let to = match transit {
            Transit::Tile => Some(self.agents[usize::from(agent.0)].tile),
            Transit::Home(line) => Some(self.bank_of(line)),
            Transit::Fixed(_) => None,
        };
        let arrival = match (to, transit) {
            (Some(to), _) => self
                .mesh
                .send(now, now, from, to, request_bytes(&kind), Order::Free),
            (None, Transit::Fixed(latency)) => now + latency,
            (None, _) => now,
        };
        let request = Request {
            reply_to: ReplyTo {
                core,
                hart,
                token,
                tile: to,
            },
            kind,
        };
        self.push(arrival, Event::AgentRequest { agent, request });
    }

    #[inline]
    fn core_tile(&self, core: CoreId) -> usize {
        self.caches[usize::from(core.0) * 2].tile
    }

    /// A message leaves a private cache.
    #[inline]
    fn depart_coherence(&mut self, now: Time, kind: &OutgoingKind, inboxes: &mut [Inbox]) {
        match kind {
            &OutgoingKind::Coherence {
                cache,
                line,
                message,
            } => {
                let bank = self.bank_of(line);
                let entry = self.banks[bank].announce_entry(line);
                let cycles = self.cycles(now);
                let way = (self.caches[usize::from(cache.0)].tile, bank);
                let forward = self.forward_cycles;
                let arrival = send_to_bank(&mut self.mesh, cycles, way, &message, forward);
                let event = Event::ToHome {
                    stage: Stage::Arriving,
                    cache,
                    bank: bank as u32,
                    line,
                    entry,
                    message,
                };
                self.push(self.clock.time(arrival), event);
            }
            &OutgoingKind::Transfer {
                from,
                to,
                line,
                grant,
                data,
            } => {
                self.statistics.transfers += 1;
                let departure = self.forward_cycles;
                let from_tile = self.caches[usize::from(from.0)].tile;
                let message = ToCache::Data(grant, Source::Cache, data);
                let way = (from_tile, to);
                self.send_to_cache(now, departure, way, line, &message, Order::Free, inboxes);
            }
            OutgoingKind::Request { .. } => {}
        }
    }

    #[allow(clippy::too_many_arguments)]
    #[inline]
    fn send_to_cache(
        &mut self,
        now: Time,
        latency_cycles: u64,
        (from_tile, cache): (usize, CacheId),
        line: LineAddress,
        message: &ToCache,
        order: Order,
        inboxes: &mut [Inbox],
    ) {
        let CachePlace { tile, owner } = self.caches[usize::from(cache.0)];
        let bytes = match message {
            ToCache::Data(..) => LINE_MESSAGE_BYTES,
            _ => CONTROL_BYTES,
        };
        let (cycle, ready) = self.cycles(now);
        let departure = ready + latency_cycles;
        let way = (from_tile, tile);
        let arrival = self.mesh.send_in_cycle(cycle, departure, way, bytes, order);
        let arrival = self.clock.time(arrival);
        let message = *message;
        match owner {
            CacheOwner::Core(core) => {
                let kind = DeliveryKind::Cache {
                    cache,
                    line,
                    message,
                };
                self.bring(core, arrival, kind, inboxes);
            }
            CacheOwner::Agent(agent) => self.push(
                arrival,
                Event::AgentCache {
                    agent,
                    line,
                    message,
                },
            ),
        }
    }

    /// Does what a bank wants done.
    fn act(&mut self, now: Time, bank: u32, mut actions: Vec<HomeAction>, inboxes: &mut [Inbox]) {
        let departure = now + self.bank_latency;
        let tile = bank as usize;
        for action in &actions {
            match action {
                HomeAction::Send(cache, line, message) => {
                    let (latency, way) = (self.bank_cycles, (tile, *cache));
                    let order = Order::FromHome;
                    self.send_to_cache(now, latency, way, *line, message, order, inboxes);
                }
                HomeAction::Grant(cache, line, grant, source) => {
                    self.statistics.bank_line_reads += 1;
                    let message = ToCache::Data(*grant, *source, self.ram.read_line(*line));
                    let (latency, way) = (self.bank_cycles, (tile, *cache));
                    let order = Order::FromHome;
                    self.send_to_cache(now, latency, way, *line, &message, order, inboxes);
                }
                HomeAction::Granted(line) => self.granted(now, *line, inboxes),
                HomeAction::FetchFromMemory(transaction, line) => {
                    let (transaction, line) = (*transaction, *line);
                    let controller = self.memory.controller(line, self.ram.socket_of(line));
                    let to = self.memory.tile(controller);
                    let arrival =
                        self.mesh
                            .send(now, departure, tile, to, CONTROL_BYTES, Order::Free);
                    let controller = controller as u32;
                    let read = Event::MemoryRead {
                        controller,
                        ticket: Ticket { bank, transaction },
                        line,
                    };
                    self.push(arrival, read);
                }
                HomeAction::WriteToMemory(line) => {
                    self.statistics.bank_line_reads += 1;
                    let controller = self.memory.controller(*line, self.ram.socket_of(*line));
                    let to = self.memory.tile(controller);
                    let arrival =
                        self.mesh
                            .send(now, departure, tile, to, LINE_MESSAGE_BYTES, Order::Free);
                    let controller = controller as u32;
                    let line = *line;
                    self.push(arrival, Event::MemoryWrite { controller, line });
                }
                HomeAction::Written(agent, line, data) => {
                    cell!(self.written_at_home.push((*agent, *line, *data)));
                    self.answer_dma(now, departure, bank, *agent, (*line, *data), CONTROL_BYTES);
                }
                HomeAction::ReadOut(transaction, agent, line) => {
                    self.statistics.bank_line_reads += 1;
                    let (transaction, agent, line) = (*transaction, *agent, *line);
                    self.push(
                        departure,
                        Event::ReadOut {
                            bank,
                            transaction,
                            agent,
                            line,
                        },
                    );
                }
            }
        }
        actions.clear();
        self.actions = actions;
    }

    fn granted(&mut self, now: Time, line: LineAddress, inboxes: &mut [Inbox]) {
        self.statistics.ownership_grants += 1;
        for index in 0..self.snoops.len() {
            let (range, agent) = self.snoops[index];
            // A range may begin or end within the line.
            let offset = line.base().wrapping_sub(range.start);
            let near =
                offset < range.length || range.start.wrapping_sub(line.base()) < LINE_BYTES as u64;
            let snooping = self.agents[usize::from(agent.0)].agent.as_ref();
            if near && snooping.is_some_and(|agent| agent.is_snooping()) {
                self.call(now, agent, inboxes, |agent, context| {
                    agent.ownership_granted(context, line);
                });
            }
        }
    }

    /// Calls a method of an agent and carries out what it wants.
    fn call(
        &mut self,
        now: Time,
        id: AgentId,
        inboxes: &mut [Inbox],
        method: impl FnOnce(&mut dyn Agent, &mut AgentContext<'_>),
    ) {
        let id = self.agents[usize::from(id.0)].first;
        let index = usize::from(id.0);
        let Some(mut agent) = self.agents[index].agent.take() else {
            return;
        };
        self.calls += 1;
        let mut effects = std::mem::take(&mut self.effects);
        let mut context = AgentContext {
            now,
            minimum_delivery_latency: self.minimum_delivery_latency,
            ram: &self.ram,
            effects: &mut effects,
        };
        method(agent.as_mut(), &mut context);
        self.agents[index].agent = Some(agent);
        for effect in &effects {
            self.carry_out(now, id, effect, inboxes);
        }
        effects.clear();
        self.effects = effects;
    }

    fn carry_out(&mut self, now: Time, id: AgentId, effect: &Effect, inboxes: &mut [Inbox]) {
        match *effect {
            Effect::Reply {
                reply_to,
                result,
                delay,
            } => match reply_to.tile {
                None => {
                    let token = reply_to.token;
                    let kind = DeliveryKind::Reply { token, result };
                    self.deliver(now, delay, reply_to.core, kind, inboxes);
                }
                Some(tile) if delay <= self.forward_latency => {
                    let departure = now + self.forward_latency;
                    self.reply_over_mesh(now, departure, reply_to, tile, result, inboxes);
                }
                Some(tile) => self.push(
                    now + (delay - self.forward_latency),
                    Event::AgentReply {
                        reply_to,
                        tile,
                        result,
                    },
                ),
            },
            Effect::Interrupt {
                hart,
                bit,
                level,
                delay,
            } => {
                self.statistics.interrupts += 1;
                let (core, thread) = place_of(hart, inboxes);
                let kind = DeliveryKind::Interrupt { thread, bit, level };
                self.deliver(now, delay, core, kind, inboxes);
            }
            Effect::Stash { core, line } => {
                let delay = self.minimum_delivery_latency;
                self.deliver(now, delay, core, DeliveryKind::Stash { line }, inboxes);
            }
            Effect::Notify {
                hart,
                header,
                delay,
            } => {
                let (core, thread) = place_of(hart, inboxes);
                let kind = DeliveryKind::Notice { thread, header };
                self.deliver(now, delay, core, kind, inboxes);
            }
            Effect::Wake { at, token } => {
                self.push(at.max(now), Event::Timer { agent: id, token });
            }
            Effect::Access { access, token } => self.access(now, id, access, token, inboxes),
            Effect::Send { to, way, message } => self.send_to_agent(now, id, to, way, message),
            Effect::Word {
                from,
                to,
                delay,
                token,
            } => {
                let departure = now + delay;
                let (bytes, order) = (WORD_BYTES, Order::Free);
                let arrival = self.mesh.send(now, departure, from, to, bytes, order);
                self.push(arrival, Event::Timer { agent: id, token });
            }
            Effect::WarmLastLevel { range } => self.warm_last_level(range),
        }
    }

    /// Puts the lines of `range` into the last-level cache as if they had just been written.
    fn warm_last_level(&mut self, range: AddressRange) {
        let lines = LineAddress::of(range.start).0..range.end().div_ceil(LINE_BYTES as u64);
        for line in lines.map(LineAddress) {
            if self.ram.contains(line) {
                let bank = self.bank_of(line);
                self.banks[bank].warm(line);
            }
        }
    }

    /// An agent sends another a message.
    fn send_to_agent(
        &mut self,
        now: Time,
        from: AgentId,
        to: AgentId,
        way: Way,
        message: AgentMessage,
    ) {
        let Some(receiver) = self.agents.get(usize::from(to.0)) else {
            if self.errors.len() < 100 {
                let name = self.agent_name(from);
                self.errors.push(format!(
                    "{name} sends a message to agent {} at {now}, and there is none.",
                    to.0
                ));
            }
            return;
        };
        let arrival = match way {
            Way::Mesh { bytes } => {
                let (from, to) = (self.agents[usize::from(from.0)].tile, receiver.tile);
                let bytes = bytes.max(1);
                self.mesh.send(now, now, from, to, bytes, Order::Free)
            }
            Way::Wires { delay } => now.saturating_add(delay),
        };
        self.push(arrival, Event::Message { from, to, message });
    }

    /// Brings something to a core over wires of its own.
    fn deliver(
        &mut self,
        now: Time,
        delay: Time,
        core: CoreId,
        kind: DeliveryKind,
        inboxes: &mut [Inbox],
    ) {
        if delay < self.minimum_delivery_latency {
            self.statistics.lengthened_deliveries += 1;
        }
        let at = now.saturating_add(delay.max(self.minimum_delivery_latency));
        if usize::from(core.0) < inboxes.len() {
            self.bring(core, at, kind, inboxes);
        }
    }

    #[inline]
    fn bring(&mut self, core: CoreId, at: Time, kind: DeliveryKind, inboxes: &mut [Inbox]) {
        self.delivered_to |= 1 << core.0;
        self.first_delivery = self.first_delivery.min(at);
        inboxes[usize::from(core.0)].push(at, kind);
    }

    /// The cores, as bits, whose inboxes have got something since this was last asked.
    #[inline]
    pub fn take_delivered_to(&mut self) -> u64 {
        std::mem::take(&mut self.delivered_to)
    }

    fn reply_over_mesh(
        &mut self,
        now: Time,
        departure: Time,
        reply_to: ReplyTo,
        tile: usize,
        result: Result<u64, ()>,
        inboxes: &mut [Inbox],
    ) {
        let to = self.core_tile(reply_to.core);
        let at = self
            .mesh
            .send(now, departure, tile, to, WORD_BYTES, Order::Free);
        let token = reply_to.token;
        self.bring(
            reply_to.core,
            at,
            DeliveryKind::Reply { token, result },
            inboxes,
        );
    }

    /// An agent begins an access.
    fn access(
        &mut self,
        now: Time,
        id: AgentId,
        access: MemoryAccess,
        token: u64,
        inboxes: &mut [Inbox],
    ) {
        let (address, bytes) = access.bytes();
        let at_home = access.is_at_home();
        let line = LineAddress::of(address);
        let id = self.place_of_access(id, line);
        let port = &mut self.agents[usize::from(id.0)];
        let problem = if !self.ram.contains(line) {
            Some("there is no memory")
        } else if bytes == 0 {
            Some("that is nothing")
        } else if address as usize % LINE_BYTES + bytes > LINE_BYTES {
            Some("it crosses a line")
        } else if port.cache.is_none() && !at_home {
            Some("the agent has no private cache")
        } else {
            None
        };
        if let Some(problem) = problem {
            // The first ones tell what is wrong; an agent in a loop must not fill the host.
            if self.errors.len() < 100 {
                let name = self.agent_name(self.agents[usize::from(id.0)].first);
                self.errors.push(format!(
                    "{name} accesses {bytes} bytes at {address:#x} at {now}, but {problem}."
                ));
            }
            let at = now + self.minimum_delivery_latency;
            let agent = id;
            self.push(
                at,
                Event::AccessRefused {
                    agent,
                    access,
                    token,
                },
            );
            return;
        }
        let serial = port.next_serial;
        port.next_serial += 1;
        let state = if at_home {
            PendingState::Ready
        } else {
            PendingState::LookingUp
        };
        let pending = PendingAccess {
            serial,
            access,
            token,
            state,
            in_time: false,
        };
        port.pending.push(line, pending);
        if at_home {
            self.advance(now, id, line, false, inboxes);
        } else {
            let at = now + port.hit_latency;
            self.push(at, Event::Lookup { agent: id, serial });
        }
    }

    /// Does an agent's accesses to `line` in order, as far as they can be done, and asks for what
    /// the next one needs. `use_once`: only those that were in time.
    fn advance(
        &mut self,
        now: Time,
        id: AgentId,
        line: LineAddress,
        use_once: bool,
        inboxes: &mut [Inbox],
    ) {
        loop {
            let port = &mut self.agents[usize::from(id.0)];
            let Some(index) = port.pending.first(line) else {
                return;
            };
            let PendingAccess {
                access,
                token,
                state,
                in_time,
                ..
            } = port.pending.accesses[index];
            let waits = matches!(state, PendingState::Ready | PendingState::Asked);
            if !waits || use_once && !in_time {
                return;
            }
            if access.is_at_home() {
                port.pending.accesses[index].state = PendingState::AtHome;
                let tile = port.tile;
                self.send_home(now, id, tile, line, &access);
                return;
            }
            let Some(cache) = &mut port.cache else {
                return;
            };
            let write = !matches!(access, MemoryAccess::Read { .. });
            let Some(slot) = cache
                .find(line)
                .filter(|&slot| !write || cache.writable(slot))
            else {
                let outcome = cache.request(line, write, now, &mut self.agent_outbox);
                let state = &mut port.pending.accesses[index].state;
                if outcome == RequestOutcome::Full {
                    port.refused = true;
                    *state = PendingState::Ready;
                } else {
                    *state = PendingState::Asked;
                }
                self.send_agent_outbox(now, inboxes);
                return;
            };
            cache.touch(slot);
            let data = perform(cache, slot, &access);
            port.pending.remove(index);
            self.call(now, id, inboxes, |agent, context| {
                agent.access_done(context, token, access, data);
            });
        }
    }

    fn send_agent_outbox(&mut self, now: Time, inboxes: &mut [Inbox]) {
        let mut outbox = std::mem::take(&mut self.agent_outbox);
        for message in &outbox.messages {
            self.depart_coherence(now, &message.kind, inboxes);
        }
        outbox.messages.clear();
        self.agent_outbox = outbox;
    }

    /// A message arrives at an agent's private cache.
    fn agent_cache(
        &mut self,
        now: Time,
        id: AgentId,
        line: LineAddress,
        message: ToCache,
        inboxes: &mut [Inbox],
    ) {
        self.calls += 1;
        let index = usize::from(id.0);
        let port = &mut self.agents[index];
        let Some(cache) = &mut port.cache else {
            return;
        };
        if message == ToCache::Invalidate && cache.is_pending(line) {
            let PendingAccesses { lines, accesses } = &mut port.pending;
            for (_, access) in lines.iter().zip(accesses).filter(|one| *one.0 == line) {
                access.in_time = true;
            }
        }
        let notice = cache.receive(line, &message, now, &mut self.agent_outbox);
        self.send_agent_outbox(now, inboxes);
        let CacheNotice::Filled {
            evicted, use_once, ..
        } = notice
        else {
            self.line_lost(now, id, notice, inboxes);
            return;
        };
        if let Some(evicted) = evicted {
            self.line_lost(now, id, CacheNotice::Lost(evicted), inboxes);
        }
        self.advance(now, id, line, use_once, inboxes);
        let Some(cache) = &mut self.agents[index].cache else {
            return;
        };
        let notice = cache.finish_fill(line, now, &mut self.agent_outbox);
        self.send_agent_outbox(now, inboxes);
        self.line_lost(now, id, notice, inboxes);
        if use_once {
            self.advance(now, id, line, false, inboxes);
        }
        if self.agents[index].refused {
            self.retry_refused(now, id, inboxes);
        }
    }

    fn line_lost(&mut self, now: Time, id: AgentId, notice: CacheNotice, inboxes: &mut [Inbox]) {
        if let CacheNotice::Lost(line) = notice {
            self.call(now, id, inboxes, |agent, context| {
                agent.line_lost(context, line)
            });
        }
    }

    /// A miss status holding register has become free: those that wait for one go on, in order.
    fn retry_refused(&mut self, now: Time, id: AgentId, inboxes: &mut [Inbox]) {
        let port = &mut self.agents[usize::from(id.0)];
        port.refused = false;
        let mut lines = std::mem::take(&mut self.lines);
        lines.clear();
        let PendingAccesses {
            lines: all,
            accesses,
        } = &port.pending;
        let ready = accesses
            .iter()
            .map(|access| access.state == PendingState::Ready);
        lines.extend(all.iter().zip(ready).filter(|one| one.1).map(|one| one.0));
        for &line in &lines {
            self.advance(now, id, line, false, inboxes);
            if self.agents[usize::from(id.0)].refused {
                break;
            }
        }
        self.lines = lines;
    }

    /// An agent's access goes to the home of its line: from the agent's tile, or for a part of the
    /// agent beside the home from there.
    fn send_home(
        &mut self,
        now: Time,
        agent: AgentId,
        tile: usize,
        line: LineAddress,
        access: &MemoryAccess,
    ) {
        let bank = self.bank_of(line);
        let (from, bytes, input) = match *access {
            MemoryAccess::DmaRead { .. } => (tile, CONTROL_BYTES, HomeInput::ReadAtHome(agent)),
            MemoryAccess::DmaWrite { bytes, .. } => {
                let bytes = CONTROL_BYTES + u64::from(bytes);
                (tile, bytes, HomeInput::WriteAtHome(agent))
            }
            _ => (bank, CONTROL_BYTES, HomeInput::ReadAtHome(agent)),
        };
        let arrival = self.mesh.send(now, now, from, bank, bytes, Order::Free);
        self.push(
            arrival,
            Event::Home {
                bank: bank as u32,
                admitted: false,
                line,
                input,
            },
        );
    }

    /// The access to `line` that `agent` has on its way to the home and back.
    fn at_home(&self, agent: AgentId, line: LineAddress) -> Option<usize> {
        let pending = &self.agents[usize::from(agent.0)].pending;
        let index = pending.first(line)?;
        (pending.accesses[index].state == PendingState::AtHome).then_some(index)
    }

    /// What `agent` writes to `line`.
    fn home_write(&self, agent: AgentId, line: LineAddress) -> Option<HomeWrite> {
        let index = self.at_home(agent, line)?;
        match self.agents[usize::from(agent.0)].pending.accesses[index].access {
            MemoryAccess::DmaWrite {
                address,
                bytes,
                data,
                allocate,
            } => Some(HomeWrite {
                agent,
                offset: (address % LINE_BYTES as u64) as u8,
                bytes,
                allocate,
                data,
            }),
            _ => None,
        }
    }

    /// A line that an agent reads at home is there: the agent's part beside the home has it at
    /// once, a DMA engine when it has come over the mesh.
    fn read_out(
        &mut self,
        now: Time,
        bank: u32,
        agent: AgentId,
        line: LineAddress,
        inboxes: &mut [Inbox],
    ) {
        let data = self.ram.read_line(line);
        let port = &self.agents[usize::from(agent.0)];
        let index = self.at_home(agent, line);
        let access = index.map(|index| port.pending.accesses[index].access);
        if let Some(MemoryAccess::DmaRead { .. }) = access {
            self.answer_dma(now, now, bank, agent, (line, data), LINE_MESSAGE_BYTES);
        } else {
            self.at_home_done(now, agent, line, data, inboxes);
        }
    }

    /// Sends the answer to a DMA access from a bank to the agent.
    fn answer_dma(
        &mut self,
        now: Time,
        departure: Time,
        bank: u32,
        agent: AgentId,
        (line, data): (LineAddress, LineData),
        bytes: u64,
    ) {
        let (from, to) = (bank as usize, self.agents[usize::from(agent.0)].tile);
        let arrival = self.mesh.send(now, departure, from, to, bytes, Order::Free);
        self.push(arrival, Event::DmaDone { agent, line, data });
    }

    /// An access that was done at home is over.
    fn at_home_done(
        &mut self,
        now: Time,
        id: AgentId,
        line: LineAddress,
        data: LineData,
        inboxes: &mut [Inbox],
    ) {
        let Some(index) = self.at_home(id, line) else {
            return;
        };
        let pending = &mut self.agents[usize::from(id.0)].pending;
        let PendingAccess { access, token, .. } = pending.remove(index);
        self.call(now, id, inboxes, |agent, context| {
            agent.access_done(context, token, access, data);
        });
        self.advance(now, id, line, false, inboxes);
    }

    /// Which addresses belong to what, for cores. Agents attached later are not in it.
    pub fn memory_map(&self) -> MemoryMap {
        let memory = self.ram.ranges().iter().map(|&range| (range, Region::Ram));
        let devices = self
            .devices
            .iter()
            .map(|&(range, agent)| (range, Region::Device(agent)));
        let mut ranges: Vec<Mapped> = memory
            .chain(devices)
            .map(|(range, region)| Mapped {
                range,
                region,
                protected: false,
            })
            .collect();
        // The largest is asked for most.
        ranges.sort_by_key(|mapped| std::cmp::Reverse(mapped.range.length));
        MemoryMap { ranges }
    }

    /// How often an agent has been called, or its private cache has had something to do: as long as
    /// that stays, no agent has changed, nor what it has on the fabric. Two sample points at which
    /// it is the same are compared without agents.
    pub fn agent_calls(&self) -> u64 {
        self.calls
    }

    /// The first time that an agent has asked for.
    pub fn next_timer(&self) -> Time {
        self.queue.next_alarm()
    }

    /// Brings what goes by cycles up to `cycle`, before which nothing is still to happen. It changes
    /// nothing but that two sample points can be compared.
    pub fn settle(&mut self, cycle: u64) {
        self.mesh.settle(cycle);
    }

    /// Whether periods can be told from each other: only with an inclusive last-level cache, where
    /// lines that cores give up stay what they are.
    pub fn can_repeat(&self) -> bool {
        self.banks.iter().all(Bank::can_repeat)
    }

    /// This is a sample point that later ones may be compared with: what is done from now on at the
    /// banks of the last-level cache is recorded.
    pub fn mark_footprint(&mut self) -> FootprintMark {
        FootprintMark(self.banks.iter_mut().map(Bank::mark_footprint).collect())
    }

    /// Records no more.
    pub fn end_footprint(&mut self) {
        self.banks.iter_mut().for_each(Bank::end_footprint);
    }

    /// Whether the banks hold what they held at a sample point, as far as that has been of use
    /// since. What is done from now on is not recorded before the next mark.
    pub fn footprint_holds(&mut self, FootprintMark(marks): &FootprintMark) -> bool {
        let mut banks = self.banks.iter_mut().zip(marks);
        banks.all(|(bank, &mark)| bank.footprint_holds(mark))
    }

    /// The memory image.
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// The memory image, to load programs and data before the simulation begins.
    pub fn ram_mut(&mut self) -> &mut Ram {
        &mut self.ram
    }

    /// The agent `id`, if it is a `T`.
    pub fn agent_mut<T: 'static>(&mut self, id: AgentId) -> Option<&mut T> {
        self.agents
            .get_mut(usize::from(id.0))?
            .agent
            .as_mut()?
            .as_any()
            .downcast_mut()
    }

    /// Lets [`Agent::timer`] of agent `id` be called at `at`, which must not be past.
    pub fn wake_agent(&mut self, id: AgentId, at: Time, token: u64) {
        let order = SERVER | self.server_count;
        self.server_count += 1;
        let at = at.max(self.done_until);
        self.queue
            .push(at, order, Event::Timer { agent: id, token });
    }

    /// Tells every agent of a store that a core has performed to a watched address.
    pub fn observe(&mut self, observation: &Observation) {
        for agent in self
            .agents
            .iter_mut()
            .filter_map(|port| port.agent.as_mut())
        {
            agent.observe(observation);
        }
    }

    /// What has happened so far.
    pub fn statistics(&self) -> FabricStatistics {
        let crossings = self.mesh.crossings();
        let mut statistics = FabricStatistics {
            socket_link_messages: crossings.messages,
            socket_link_bytes: crossings.bytes,
            socket_link_queueing_fs: crossings.queueing.as_fs(),
            memory_reads: self.memory.reads,
            memory_writes: self.memory.writes,
            memory_queueing_fs: self.memory.queueing.as_fs(),
            mesh_messages: self.mesh.messages,
            mesh_hops: self.mesh.hops,
            mesh_hop_cycles: self.mesh.hop_cycles,
            mesh_queueing_fs: self.mesh.queueing().as_fs(),
            ..self.statistics
        };
        for bank in &self.banks {
            let BankStatistics {
                hits,
                misses,
                evictions,
                recalls,
                forwards,
                invalidations,
                reads_at_home,
                writes_at_home,
                puts,
            } = bank.statistics;
            statistics.last_level_hits += hits;
            statistics.last_level_misses += misses;
            statistics.last_level_evictions += evictions;
            statistics.recalls += recalls;
            statistics.forwards += forwards;
            statistics.invalidations += invalidations;
            statistics.reads_at_home += reads_at_home;
            statistics.writes_at_home += writes_at_home;
            statistics.puts += puts;
        }
        statistics
    }

    /// Who waits for what, one sentence each: for reports of deadlocks.
    pub fn waiting_for(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for bank in &self.banks {
            bank.waiting_for(&mut sentences);
        }
        for port in &self.agents {
            let name = self.agent_name(port.first);
            let waiting = port.agent.as_ref().map(|agent| agent.waiting_for());
            sentences.extend(
                waiting
                    .iter()
                    .flatten()
                    .map(|what| format!("{name}: {what}")),
            );
            for line in &port.pending.lines {
                let line = line.base();
                sentences.push(format!(
                    "{name} waits for an access to the line at {line:#x}."
                ));
            }
        }
        sentences
    }

    /// What agents have done wrong, one sentence each. A simulation that has any should fail.
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    #[cfg(test)]
    pub(crate) fn private_caches(&self) -> impl Iterator<Item = &PrivateCache> {
        self.agents.iter().filter_map(|port| port.cache.as_ref())
    }

    /// Lets one of four messages on the mesh take longer, by less than `cycles`.
    #[cfg(test)]
    pub(crate) fn set_jitter(&mut self, cycles: u64, seed: u64) {
        self.mesh.jitter = (cycles, seed);
    }

    /// For each line at home its sharers, its owner, and whether it is busy.
    #[cfg(test)]
    pub(crate) fn directory(
        &self,
    ) -> std::collections::BTreeMap<LineAddress, (u64, Option<CacheId>, bool)> {
        let lines = self.banks.iter().flat_map(Bank::lines);
        lines
            .map(|(line, sharers, owner, busy)| (line, (sharers, owner, busy)))
            .collect()
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// How many sockets there are; of the cores each has as many.
    pub fn sockets(&self) -> usize {
        self.sockets
    }

    /// The tile where the link of `socket` to the other one begins.
    pub fn link_tile(&self, socket: usize) -> usize {
        self.mesh.link_tile(socket)
    }

    /// The clock that the fabric's cycles are of.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

/// A hart's core, and which of its hardware threads it is.
fn place_of(hart: u16, inboxes: &[Inbox]) -> (CoreId, u8) {
    let cores = inboxes.len().max(1) as u16;
    (CoreId(hart % cores), (hart / cores) as u8)
}

/// Does an access to a line that is here with the right permission; returns the line's content for
/// the agent.
fn perform(cache: &mut PrivateCache, slot: u32, access: &MemoryAccess) -> LineData {
    match *access {
        MemoryAccess::Read { .. }
        | MemoryAccess::ReadAtHome { .. }
        | MemoryAccess::DmaRead { .. }
        | MemoryAccess::DmaWrite { .. } => *cache.line(slot),
        MemoryAccess::Write {
            address,
            bytes,
            data,
        } => {
            let offset = address as usize % LINE_BYTES;
            let bytes = usize::from(bytes);
            let line = cache.line_mut(slot);
            line.0[offset..offset + bytes].copy_from_slice(&data.0[..bytes]);
            *line
        }
        MemoryAccess::FetchAdd { address, addend } => {
            let offset = address as usize % LINE_BYTES;
            let line = cache.line_mut(slot);
            let before = *line;
            let sum = before.read(offset, 8).wrapping_add(addend);
            line.write(offset, 8, sum);
            before
        }
        MemoryAccess::Update { address, update } => {
            let offset = address as usize % LINE_BYTES;
            let line = cache.line_mut(slot);
            let before = *line;
            line.write(offset, 8, update.of(before.read(offset, 8)));
            before
        }
    }
}
