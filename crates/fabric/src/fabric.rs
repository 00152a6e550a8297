//! The fabric: connects the parts, and processes their events in order of time.
//!
//! # The order of events
//!
//! Simultaneous events are ordered by their sender and the sender's count. For messages in a core's
//! outbox these are the core and its count; every other event results from processing an earlier
//! event, and is counted then. The order therefore depends only on the simulated events, not on the
//! time at which an outbox was handed over, nor on how far each [`Fabric::run_until`] went.
//!
//! # Latencies
//!
//! With `way` for hops x hop latency + (flits - 1) cycles, or the local latency on one tile, and
//! without queueing, from the departure of a request to the delivery of its data (between sockets
//! `way` is that to the link, the transmission, the link's latency, and the way from there):
//!
//! - line in the last-level cache: way(request) + bank + way(data);
//! - line of another cache: way(request) + bank + way(forward) + forward latency + way(data), plus
//!   the look-up in a core's cache, after which its answer departs;
//! - write of a shared line: way(request) + bank + way(Invalidate) + way(ack) + bank + way(data),
//!   for the last acknowledgement;
//! - line in memory: way(request) + bank + way(read) + memory latency + way(data) + bank +
//!   way(data);
//! - DMA: like the above, with way(acknowledgement) last for a write. Invalidating copies costs the
//!   same as for a write by a cache.

mod ahead;
mod event;
mod passage;
mod view;

use ahead::ReadsAhead;
pub(crate) use event::{Event, HomeInput, SERVER, Stage};
pub use view::FootprintMark;

use crate::divisor::Divisor;
use crate::home::{Answer, Bank, HomeAction};
use crate::hosting::{Effect, Port};
use crate::memory::{Memory, MemoryRequest, Ticket};
use crate::mesh::{CONTROL_BYTES, LINE_MESSAGE_BYTES, Mesh, Order};
use crate::queue::Queue;
use crate::{
    AddressRange, AgentId, Clock, CoreId, FabricSpec, FabricStatistics, Grant, Inbox, LineAddress,
    Outbox, OutgoingKind, PerfectCache, Ram, SequentialPrefetcherKind, Source, Time, ToCache,
    ToHome,
};
use event::{INTERNAL, SENDER_SHIFT};
use passage::send_to_bank;
use spec::SpecError;

#[derive(Clone, Copy, Debug)]
pub(crate) enum CacheOwner {
    Core(CoreId),
    Agent(AgentId),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CachePlace {
    pub(crate) tile: usize,
    pub(crate) owner: CacheOwner,
}

/// The coherent fabric of one server.
#[derive(state::State)]
pub struct Fabric {
    #[state(fixed)]
    pub(crate) clock: Clock,
    #[state(fixed)]
    pub(crate) bank_latency: Time,
    #[state(fixed)]
    pub(crate) bank_cycles: u64,
    #[state(fixed)]
    pub(crate) forward_latency: Time,
    #[state(fixed)]
    pub(crate) forward_cycles: u64,
    #[state(fixed)]
    pub(crate) minimum_delivery_latency: Time,
    #[state(fixed)]
    pub(crate) cores: usize,
    #[state(fixed)]
    pub(crate) perfect_cache: PerfectCache,
    pub(crate) queue: Queue<Event>,
    /// The number of messages of each core; then those of the server, then of the fabric itself.
    #[state(exact, slice)]
    pub(crate) core_counts: Vec<u64>,
    #[state(exact)]
    pub(crate) server_count: u64,
    #[state(exact)]
    pub(crate) internal_count: u64,
    /// All events before this time have been processed.
    pub(crate) done_until: Time,
    pub(crate) mesh: Mesh,
    pub(crate) memory: Memory,
    /// One for each tile.
    #[state(slice)]
    pub(crate) banks: Vec<Bank>,
    /// Number of banks of one socket.
    #[state(fixed)]
    pub(crate) bank_count: Divisor,
    #[state(fixed)]
    pub(crate) sockets: usize,
    #[state(exact)]
    pub(crate) ram: Ram,
    #[state(fixed)]
    pub(crate) caches: Vec<CachePlace>,
    #[state(exact, slice)]
    pub(crate) agents: Vec<Port>,
    #[state(fixed)]
    pub(crate) devices: Vec<(AddressRange, AgentId)>,
    #[state(fixed)]
    pub(crate) snoops: Vec<(AddressRange, AgentId)>,
    /// Memory controllers with agents at them: see [`Attachment::at_memory`](crate::Attachment).
    #[state(fixed)]
    pub(crate) memory_agents: Vec<(u32, AgentId)>,
    #[state(fixed)]
    pub(crate) reads_ahead: ReadsAhead,
    pub(crate) statistics: FabricStatistics,
    pub(crate) errors: Vec<String>,
    /// Buffers, empty between events.
    #[state(fixed)]
    pub(crate) actions: Vec<HomeAction>,
    #[state(fixed)]
    pub(crate) effects: Vec<Effect>,
    #[state(fixed)]
    pub(crate) agent_outbox: Outbox,
    #[state(fixed)]
    pub(crate) lines: Vec<LineAddress>,
    /// Cores, as bits, with new messages in their inboxes.
    #[state(exact)]
    pub(crate) delivered_to: u64,
    /// The earliest of these messages in this run.
    #[state(fixed)]
    pub(crate) first_delivery: Time,
    /// The number of calls of agents and of events of their private caches.
    #[state(exact)]
    pub(crate) calls: u64,
    /// Writes of agents at home, and the resulting lines.
    #[cfg(test)]
    #[state(fixed)]
    pub(crate) written_at_home: Vec<(AgentId, LineAddress, crate::LineData)>,
}

impl Fabric {
    /// The fabric that `spec` describes, with the memory `ram`. Core `k` has caches `2k` and
    /// `2k + 1`.
    pub fn new(spec: &FabricSpec, ram: Ram) -> Result<Fabric, SpecError> {
        spec.check()?;
        let built = spec.as_built();
        let spec = &*built;
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
        let mut fabric = Fabric {
            clock,
            bank_latency,
            bank_cycles: spec.last_level.latency_cycles,
            forward_latency,
            forward_cycles: spec.forward_latency_cycles,
            minimum_delivery_latency: spec.minimum_delivery_latency(),
            cores: spec.cores,
            perfect_cache: spec.perfect_cache,
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
            memory_agents: Vec::new(),
            reads_ahead: ReadsAhead::default(),
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
        };
        if spec.last_level.prefetcher == SequentialPrefetcherKind::NextLine {
            let memory = fabric.memory_map();
            for bank in &mut fabric.banks {
                bank.attach_prefetcher(&memory);
            }
        }
        Ok(fabric)
    }

    /// Accepts the messages in a core's outbox. None of them may be earlier than the time up to
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

    /// The time of the next event; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_event(&self) -> Time {
        self.queue.next_at()
    }

    /// The minimum time between an event of the fabric, such as the departure of a core's message,
    /// and a delivery that it causes: the distance that cores may run ahead of the fabric.
    pub fn minimum_delivery_latency(&self) -> Time {
        self.minimum_delivery_latency
    }

    /// Processes all events before `until`, in order; puts messages to core `k` into `inboxes[k]`.
    pub fn run_until(&mut self, until: Time, inboxes: &mut [Inbox]) {
        self.run_until_answered(until, Time::NEVER, inboxes);
    }

    /// The same, but stops before the first event that could depend on a core's answer: a core
    /// answers no sooner than `reaction` after a delivery.
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
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        let order = INTERNAL | self.internal_count;
        self.internal_count += 1;
        self.queue.push(at, order, event);
    }

    /// The cycle of the current event, which is at `now`, and the first cycle that begins at or
    /// after it.
    #[inline]
    pub(crate) fn cycles(&self, now: Time) -> (u64, u64) {
        let cycle = self.queue.cycle();
        debug_assert_eq!(
            cycle,
            self.clock.cycle_of(now),
            "another event is being processed"
        );
        (cycle, cycle + u64::from(self.clock.time(cycle) < now))
    }

    /// A message of a private cache departs, arrives at its line's home, or is admitted there.
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
                let start = now.max(home.port_free);
                home.port_free = start + self.clock.time(1);
                if self.perfect_cache == PerfectCache::FirstLevel {
                    home.port_free = now;
                }
                if start > now {
                    self.statistics.bank_queueing_fs += (start - now).as_fs();
                    *stage = Stage::Admitted;
                    let order = INTERNAL | self.internal_count;
                    self.internal_count += 1;
                    // Messages arrive at the beginning of a cycle.
                    self.queue
                        .put_back(place, self.clock.cycle_of(start), order);
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
                    let start = now.max(*free);
                    *free = match self.perfect_cache {
                        PerfectCache::FirstLevel => now,
                        _ => start + self.clock.time(1),
                    };
                    if start > now {
                        self.statistics.bank_queueing_fs += (start - now).as_fs();
                        let admitted = true;
                        self.push(
                            start,
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
                let is_found = matches!(input, HomeInput::Memory(_))
                    && self.perfect_cache != PerfectCache::None;
                self.statistics.bank_accesses += u64::from(!is_found);
                self.statistics.bank_line_writes += u64::from(
                    matches!(input, HomeInput::WriteAtHome(_) | HomeInput::Memory(_)) && !is_found,
                );
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
                    HomeInput::Prefetch => home.prefetch(line, &mut actions),
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
                if self.reads_ahead.is_empty() || !self.is_read_ahead(now, controller, ticket, line)
                {
                    let read = Some(ticket);
                    self.ask_memory(now, controller, MemoryRequest { line, read });
                }
            }
            Event::MemoryWrite { controller, line } => {
                if !self.reads_ahead.is_empty() {
                    // What has been read is old.
                    self.end_read_ahead(line);
                }
                self.ask_memory(now, controller, MemoryRequest { line, read: None });
            }
            Event::MemoryWake { controller } => {
                self.memory.wake(controller as usize, now);
                self.carry_out_memory(controller);
            }
            Event::MemoryAnswer {
                controller,
                ticket,
                line,
            } => {
                let Some(ticket) = self.is_for(ticket, line) else {
                    return;
                };
                let Ticket { bank, transaction } = ticket;
                if !self.memory_agents.is_empty() {
                    self.tell_memory_agents(now, controller, ticket, line, inboxes);
                }
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
            Event::Hosted(event) => self.process_hosted(now, event, inboxes),
        }
    }

    fn ask_memory(&mut self, now: Time, controller: u32, request: MemoryRequest) {
        self.memory.ask(controller as usize, now, request);
        self.carry_out_memory(controller);
    }

    /// Carries out the decisions of a memory controller.
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

    /// Carries out a bank's actions.
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
                    let source = match source {
                        Source::Memory if self.perfect_cache != PerfectCache::None => {
                            Source::LastLevel
                        }
                        source => *source,
                    };
                    let message = ToCache::Data(*grant, source, self.ram.read_line(*line));
                    let (latency, way) = (self.bank_cycles, (tile, *cache));
                    let order = Order::FromHome;
                    self.send_to_cache(now, latency, way, *line, &message, order, inboxes);
                }
                HomeAction::Granted(line) => self.granted(now, *line, inboxes),
                HomeAction::FetchFromMemory(transaction, line)
                    if self.perfect_cache != PerfectCache::None =>
                {
                    let found = Event::Home {
                        bank,
                        admitted: true,
                        line: *line,
                        input: HomeInput::Memory(*transaction),
                    };
                    self.push(now, found);
                }
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
                HomeAction::WriteToMemory(_) if self.perfect_cache != PerfectCache::None => {}
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
                HomeAction::Prefetch(line) => {
                    let (line, to) = (*line, self.bank_of(*line));
                    let arrival =
                        self.mesh
                            .send(now, departure, tile, to, CONTROL_BYTES, Order::Free);
                    let prefetch = Event::Home {
                        bank: to as u32,
                        admitted: false,
                        line,
                        input: HomeInput::Prefetch,
                    };
                    self.push(arrival, prefetch);
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
}
