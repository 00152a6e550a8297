//! The hosting of agents on the fabric: their places, requests and notifications.
//!
//! `agent` defines an agent; `access` performs its accesses to memory, through its private cache or
//! at a line's home.

mod access;
mod agent;
mod before;
mod named_range;
mod registers;
mod untimed;

pub(crate) use agent::Effect;
pub use agent::{
    Agent, AgentContext, AgentId, AgentMessage, Attachment, MemoryAccess, Observation, ReplyTo,
    Request, Sharer, Update,
};
pub use named_range::{Answers, NamedRange};
pub use registers::RegisterAccess;
pub use untimed::{LineChange, UntimedAgents, UntimedMemory};

use crate::fabric::{CacheOwner, CachePlace, Event, SERVER};
use crate::memory::Ticket;
use crate::mesh::{CONTROL_BYTES, LINE_MESSAGE_BYTES, Order, WORD_BYTES};
use crate::ram::overlap;
use crate::spec::MAXIMUM_CACHES;
use crate::{
    CacheId, CacheSpec, CoreId, DeliveryKind, Fabric, Inbox, LINE_BYTES, LineAddress, LineData,
    OutgoingKind, PrivateCache, RequestKind, Supply, Time, ToCache, Transit,
};
use access::{PendingAccesses, PendingState};
use agent::Way;
use spec::{SpecError, Under};
use state::{State, Walker};
use std::any::Any;

/// An event of an agent.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
pub(crate) enum Hosted {
    /// A message arrives at an agent's cache.
    AgentCache {
        agent: AgentId,
        line: LineAddress,
        message: ToCache,
    },
    /// A core's request arrives at an agent.
    AgentRequest { agent: AgentId, request: Request },
    /// An agent's answer is about to enter the mesh.
    AgentReply {
        reply_to: ReplyTo,
        tile: usize,
        result: Result<u64, ()>,
    },
    /// An agent's private cache has looked an access up.
    Lookup { agent: AgentId, serial: u64 },
    /// An impossible access ends.
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
    /// An agent's timer expires.
    Timer { agent: AgentId, token: u64 },
    /// A line for the agent's cache comes from another memory controller.
    FromMemory {
        agent: AgentId,
        line: LineAddress,
        reader: CacheId,
        data: LineData,
    },
    /// A message arrives at an agent.
    Message {
        from: AgentId,
        to: AgentId,
        message: AgentMessage,
    },
}

/// An agent's place on the fabric, or the second place of an agent that is on both sockets.
#[derive(state::State)]
#[state(fields)]
pub(crate) struct Port {
    /// Taken out while one of its methods runs; absent in a second place.
    #[state(fixed)]
    pub(crate) agent: Option<Box<dyn Agent>>,
    /// The agent's first place.
    #[state(fixed)]
    pub(crate) first: AgentId,
    /// The place on the second socket, from which it accesses the lines of that socket.
    #[state(fixed)]
    pub(crate) second: Option<AgentId>,
    #[state(fixed)]
    pub(crate) tile: usize,
    #[state(inside)]
    pub(crate) cache: Option<PrivateCache>,
    #[state(fixed)]
    pub(crate) hit_latency: Time,
    pub(crate) pending: PendingAccesses,
    pub(crate) next_serial: u64,
    /// Whether some access found no free miss status holding register.
    pub(crate) refused: bool,
    /// See [`Attachment::at_memory`].
    #[state(fixed)]
    pub(crate) at_memory: bool,
    /// When each core has received what the agent has supplied.
    #[state(fixed)]
    pub(crate) supplied: Vec<Time>,
    /// When all cores have been told that they have lost a line.
    #[state(fixed)]
    pub(crate) told: Time,
}

impl State for Port {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        if let Some(agent) = &mut self.agent {
            agent.walk(walker);
        }
    }
}

pub(crate) fn request_bytes(kind: &RequestKind) -> u64 {
    match kind {
        RequestKind::Read { .. } => CONTROL_BYTES,
        RequestKind::Write { .. } | RequestKind::Custom { .. } => WORD_BYTES,
    }
}

/// The core of a hart, and the hart's number among the core's hardware threads.
fn place_of(hart: u16, inboxes: &[Inbox]) -> (CoreId, u8) {
    let cores = inboxes.len().max(1) as u16;
    (CoreId(hart % cores), (hart / cores) as u8)
}

impl Fabric {
    pub(crate) fn process_hosted(&mut self, now: Time, event: Hosted, inboxes: &mut [Inbox]) {
        match event {
            Hosted::AgentCache {
                agent,
                line,
                message,
            } => self.agent_cache(now, agent, line, message, inboxes),
            Hosted::AgentRequest { agent, request } => {
                self.call(now, agent, inboxes, |agent, context| {
                    agent.request(context, request);
                });
            }
            Hosted::AgentReply {
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
            Hosted::Lookup { agent, serial } => {
                self.calls += 1;
                let pending = &mut self.agents[usize::from(agent.0)].pending;
                let accesses = &mut pending.accesses;
                // Serial numbers increase along the list.
                if let Ok(index) = accesses.binary_search_by_key(&serial, |one| one.serial) {
                    accesses[index].state = PendingState::Ready;
                    let line = pending.lines[index];
                    self.advance(now, agent, line, false, inboxes);
                }
            }
            Hosted::AccessRefused {
                agent,
                access,
                token,
            } => {
                self.call(now, agent, inboxes, |agent, context| {
                    agent.access_done(context, token, access, LineData::ZERO);
                });
            }
            Hosted::DmaDone { agent, line, data } => {
                self.at_home_done(now, agent, line, data, inboxes);
            }
            Hosted::Timer { agent, token } => {
                self.call(now, agent, inboxes, |agent, context| {
                    agent.timer(context, token)
                });
            }
            Hosted::FromMemory {
                agent,
                line,
                reader,
                data,
            } => {
                self.call(now, agent, inboxes, |agent, context| {
                    agent.line_from_memory(context, line, reader, data);
                });
            }
            Hosted::Message { from, to, message } => {
                self.call(now, to, inboxes, |agent, context| {
                    agent.message(context, from, message);
                });
            }
        }
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
            at_memory,
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
        if let Some(controller) = at_memory
            && (controller >= self.memory.controllers() || self.memory.tile(controller) != tile)
        {
            return Err(SpecError::new(
                format!("memory controller of {name}"),
                controller,
                format!(
                    "there are {}, and it must be the one on tile {tile}",
                    self.memory.controllers()
                ),
            ));
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
                at_memory: at_memory.is_some(),
                supplied: vec![Time::ZERO; if at_memory.is_some() { self.cores } else { 0 }],
                told: Time::ZERO,
            });
        }
        if let Some(controller) = at_memory {
            self.memory_agents.push((controller as u32, id));
            if let Some(cache) = &self.agents[usize::from(id.0)].cache {
                let reader = cache.id();
                self.banks
                    .iter_mut()
                    .for_each(|bank| bank.only_reads(reader));
            }
        }
        let port = &mut self.agents[usize::from(id.0)];
        port.agent = Some(agent);
        // The first place may be on the second socket.
        port.second = is_twofold.then_some(ids[1]);
        self.devices.extend(owns.map(|range| (range, id)));
        self.snoops.extend(snoops.map(|range| (range, id)));
        Ok(id)
    }

    /// The number of the next agent, for agents that refer to each other.
    pub fn next_agent(&self) -> AgentId {
        AgentId(self.agents.len() as u16)
    }

    /// The same tile of the other socket, or the tile itself if there is none.
    pub(crate) fn other_socket(&self, tile: usize) -> usize {
        let tiles = self.bank_count.value() as usize;
        (tile + tiles) % (tiles * self.sockets)
    }

    /// A private cache of an agent on `tile`.
    pub(crate) fn add_cache(
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
                format!(
                    "a directory entry has a bit for each of {MAXIMUM_CACHES} caches of cores and \
                     devices; use fewer cores"
                ),
            ));
        }
        let cache = PrivateCache::new(spec, CacheId(self.caches.len() as u16));
        let owner = CacheOwner::Agent(owner);
        self.caches.push(CachePlace { tile, owner });
        Ok(cache)
    }

    /// The place from which agent `id` accesses `line`.
    pub(crate) fn place_of_access(&self, id: AgentId, line: LineAddress) -> AgentId {
        let port = &self.agents[usize::from(id.0)];
        match port.second {
            Some(second) if self.socket_of_tile(port.tile) != self.ram.socket_of(line) => second,
            _ => id,
        }
    }

    pub(crate) fn socket_of_tile(&self, tile: usize) -> usize {
        tile / self.bank_count.value() as usize
    }

    pub(crate) fn agent_name(&self, id: AgentId) -> String {
        let agent = self
            .agents
            .get(usize::from(id.0))
            .and_then(|port| port.agent.as_ref());
        agent.map_or_else(|| format!("agent {}", id.0), |agent| agent.name())
    }

    /// A message leaves a core.
    pub(crate) fn depart(
        &mut self,
        now: Time,
        core: CoreId,
        kind: &OutgoingKind,
        inboxes: &mut [Inbox],
    ) {
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
            Transit::Tile | Transit::Message(_) => Some(self.agents[usize::from(agent.0)].tile),
            Transit::Home(line) => Some(self.bank_of(line)),
            Transit::Fixed(_) => None,
        };
        let bytes = match transit {
            Transit::Message(bytes) => bytes.max(1),
            _ => request_bytes(&kind),
        };
        let arrival = match (to, transit) {
            (Some(to), _) => self.mesh.send(now, now, from, to, bytes, Order::Free),
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
        self.push(
            arrival,
            Event::Hosted(Hosted::AgentRequest { agent, request }),
        );
    }

    pub(crate) fn granted(&mut self, now: Time, line: LineAddress, inboxes: &mut [Inbox]) {
        self.statistics.ownership_grants += 1;
        for index in 0..self.snoops.len() {
            let (range, agent) = self.snoops[index];
            // A range may begin or end within the line.
            let offset = line.base().wrapping_sub(range.start);
            let near =
                offset < range.length || range.start.wrapping_sub(line.base()) < LINE_BYTES as u64;
            if !near {
                continue;
            }
            let snooping = self.agents[usize::from(agent.0)].agent.as_ref();
            if snooping.is_some_and(|agent| agent.is_snooping()) {
                self.call(now, agent, inboxes, |agent, context| {
                    agent.ownership_granted(context, line);
                });
            }
        }
    }

    /// Calls a method of an agent and carries out its actions.
    pub(crate) fn call(
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
            too_old: false,
        };
        method(agent.as_mut(), &mut context);
        self.agents[index].agent = Some(agent);
        for effect in &effects {
            self.carry_out(now, id, effect, inboxes);
        }
        effects.clear();
        self.effects = effects;
    }

    pub(crate) fn carry_out(
        &mut self,
        now: Time,
        id: AgentId,
        effect: &Effect,
        inboxes: &mut [Inbox],
    ) {
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
                    Event::Hosted(Hosted::AgentReply {
                        reply_to,
                        tile,
                        result,
                    }),
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
            Effect::Stash {
                core,
                line,
                is_to_write,
            } => {
                let delay = self.minimum_delivery_latency;
                let kind = DeliveryKind::Stash { line, is_to_write };
                self.deliver(now, delay, core, kind, inboxes);
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
                self.push(
                    at.max(now),
                    Event::Hosted(Hosted::Timer { agent: id, token }),
                );
            }
            Effect::WakeOther { agent, at, token } => {
                self.push(at.max(now), Event::Hosted(Hosted::Timer { agent, token }));
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
                self.push(arrival, Event::Hosted(Hosted::Timer { agent: id, token }));
            }
            Effect::Supply { reply_to, supply } => {
                let (core, thread) = place_of(reply_to.hart, inboxes);
                let token = reply_to.token;
                let bytes = match supply {
                    // With its address.
                    Supply::Value { .. } => WORD_BYTES + 8,
                    _ => CONTROL_BYTES,
                };
                let kind = DeliveryKind::Supply {
                    thread,
                    token,
                    supply,
                };
                self.bring_in_order(now, id, core, bytes, kind, inboxes);
            }
            Effect::TellLineLost { core, line } => {
                let kind = DeliveryKind::SuppliedLineLost { line };
                let at = self.bring_in_order(now, id, core, CONTROL_BYTES, kind, inboxes);
                let told = &mut self.agents[usize::from(id.0)].told;
                *told = at.max(*told);
            }
            Effect::WarmLastLevel { range } => self.warm_last_level(range),
            Effect::NoteSharers { range, sharers } => {
                self.note_sharers(range, sharers, |hart| place_of(hart, inboxes).0);
            }
            Effect::PutIntoMemory { line, ref data } => self.put_into_memory(id, line, data),
        }
    }

    /// An agent sends another a message.
    pub(crate) fn send_to_agent(
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
        self.push(
            arrival,
            Event::Hosted(Hosted::Message { from, to, message }),
        );
    }

    /// Delivers a message to a core over dedicated wires.
    pub(crate) fn deliver(
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

    /// Sends a message to a core that comes behind all that the agent has sent it this way; returns
    /// when it is there.
    fn bring_in_order(
        &mut self,
        now: Time,
        from: AgentId,
        core: CoreId,
        bytes: u64,
        kind: DeliveryKind,
        inboxes: &mut [Inbox],
    ) -> Time {
        let (tile, to) = (self.agents[usize::from(from.0)].tile, self.core_tile(core));
        let departure = now + self.forward_latency;
        let arrival = self.mesh.send(now, departure, tile, to, bytes, Order::Free);
        let supplied = &mut self.agents[usize::from(from.0)].supplied;
        let at = match supplied.get_mut(usize::from(core.0)) {
            None => arrival,
            Some(last) => {
                *last = arrival.max(*last);
                *last
            }
        };
        self.bring(core, at, kind, inboxes);
        at
    }

    /// Tells agents at memory controllers that a line leaves memory for a private cache.
    #[inline(never)]
    pub(crate) fn tell_memory_agents(
        &mut self,
        now: Time,
        controller: u32,
        ticket: Ticket,
        line: LineAddress,
        inboxes: &mut [Inbox],
    ) {
        let bank = self.banks.get(ticket.bank as usize);
        let Some(reader) = bank.and_then(|bank| bank.reader(ticket.transaction)) else {
            return;
        };
        let data = self.ram.read_line(line);
        for place in 0..self.memory_agents.len() {
            let (of, agent) = self.memory_agents[place];
            let owner = self.caches[usize::from(reader.0)].owner;
            if of == controller {
                self.call(now, agent, inboxes, |agent, context| {
                    agent.line_from_memory(context, line, reader, data);
                });
            } else if matches!(owner, CacheOwner::Agent(owner) if owner == agent) {
                let from = self.memory.tile(controller as usize);
                let to = self.agents[usize::from(agent.0)].tile;
                let (bytes, order) = (LINE_MESSAGE_BYTES, Order::Free);
                let arrival = self.mesh.send(now, now, from, to, bytes, order);
                let line = Hosted::FromMemory {
                    agent,
                    line,
                    reader,
                    data,
                };
                self.push(arrival, Event::Hosted(line));
            }
        }
    }

    pub(crate) fn reply_over_mesh(
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

    /// The number of calls of agents and of events of their private caches. While it does not
    /// change, neither do the agents or their state on the fabric, so two sample points with the
    /// same number are compared without agents.
    pub fn agent_calls(&self) -> u64 {
        self.calls
    }

    /// The earliest timer of an agent.
    pub fn next_timer(&self) -> Time {
        self.queue.next_alarm()
    }

    /// The agent `id`, if it is a `T`.
    pub fn agent_mut<T: 'static>(&mut self, id: AgentId) -> Option<&mut T> {
        let hosted = self.agents.get_mut(usize::from(id.0))?;
        let agent: &mut dyn Any = hosted.agent.as_deref_mut()?;
        agent.downcast_mut()
    }

    /// Schedules a call of [`Agent::timer`] for agent `id` at `at`, which must not be past.
    pub fn wake_agent(&mut self, id: AgentId, at: Time, token: u64) {
        let order = SERVER | self.server_count;
        self.server_count += 1;
        let at = at.max(self.done_until);
        self.queue
            .push(at, order, Event::Hosted(Hosted::Timer { agent: id, token }));
    }

    /// Reports a core's completed store to a watched address to every agent.
    pub fn observe(&mut self, observation: &Observation) {
        for agent in self
            .agents
            .iter_mut()
            .filter_map(|port| port.agent.as_mut())
        {
            agent.observe(observation);
        }
    }
}
