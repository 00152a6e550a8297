//! Accesses of agents to memory: through an agent's private cache, or at the line's home.

use super::{AgentId, Hosted, MemoryAccess};
use crate::fabric::{Event, HomeInput, Stage};
use crate::home::HomeWrite;
use crate::mesh::{CONTROL_BYTES, LINE_MESSAGE_BYTES, Order};
use crate::{
    CacheNotice, Fabric, Inbox, LINE_BYTES, LineAddress, LineData, OutgoingKind, PrivateCache,
    RequestOutcome, Time, ToCache,
};
use std::collections::VecDeque;

/// An outstanding access of an agent.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
pub(crate) struct PendingAccess {
    pub(crate) serial: u64,
    pub(crate) access: MemoryAccess,
    pub(crate) token: u64,
    pub(crate) state: PendingState,
    /// The line was in flight when its invalidation was acknowledged: its data is new enough for
    /// this access, but not for later ones.
    pub(crate) in_time: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub(crate) enum PendingState {
    /// In the private cache's lookup.
    LookingUp,
    /// Waits for an earlier access to its line, or for a miss status holding register.
    Ready,
    /// Waits for its line.
    Asked,
    /// On its way to the home and back.
    AtHome,
}

/// The outstanding accesses of an agent, in order.
#[derive(Default, state::State)]
pub(crate) struct PendingAccesses {
    /// The line of each: a separate list, because it is searched often and may be long.
    pub(crate) lines: Vec<LineAddress>,
    /// In order of request; as a rule the first ones complete first.
    pub(crate) accesses: VecDeque<PendingAccess>,
}

impl PendingAccesses {
    pub(super) fn push(&mut self, line: LineAddress, access: PendingAccess) {
        self.lines.push(line);
        self.accesses.push_back(access);
    }

    /// The first access to `line`, for which the later ones wait.
    pub(super) fn first(&self, line: LineAddress) -> Option<usize> {
        // Eight at a time without early exit, which the compiler vectorizes.
        let (eights, _) = self.lines.as_chunks::<8>();
        let without =
            |eight: &&[LineAddress; 8]| !eight.iter().fold(false, |any, &one| any | (one == line));
        let start = eights.iter().take_while(without).count() * 8;
        let found = self.lines[start..].iter().position(|&one| one == line);
        found.map(|place| start + place)
    }

    pub(super) fn remove(&mut self, index: usize) -> PendingAccess {
        let access = self.accesses[index];
        self.lines.remove(index);
        self.accesses.remove(index);
        access
    }
}

impl Fabric {
    /// Begins an access of an agent.
    pub(crate) fn access(
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
            Some("it has no bytes")
        } else if address as usize % LINE_BYTES + bytes > LINE_BYTES {
            Some("it crosses a line")
        } else if port.cache.is_none() && !at_home {
            Some("the agent has no private cache")
        } else {
            None
        };
        if let Some(problem) = problem {
            // The first errors suffice; an agent in a loop must not fill the host's memory.
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
                Event::Hosted(Hosted::AccessRefused {
                    agent,
                    access,
                    token,
                }),
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
            self.push(at, Event::Hosted(Hosted::Lookup { agent: id, serial }));
        }
    }

    /// Performs an agent's accesses to `line` in order, as far as possible, and requests the
    /// permission that the next one needs. `use_once`: only those that were in time.
    pub(crate) fn advance(
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
            let is_ahead = matches!(access, MemoryAccess::ReadAhead { .. });
            let write = !is_ahead && !matches!(access, MemoryAccess::Read { .. });
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
                let from = port.tile;
                self.send_agent_outbox(now, inboxes);
                if is_ahead && outcome == RequestOutcome::Sent {
                    self.read_ahead(now, from, line);
                }
                return;
            };
            cache.touch(slot);
            let data = perform(cache, slot, &access);
            port.pending.remove(index);
            if is_ahead {
                self.end_read_ahead(line);
            }
            self.call(now, id, inboxes, |agent, context| {
                context.too_old = use_once;
                agent.access_done(context, token, access, data);
            });
        }
    }

    pub(crate) fn send_agent_outbox(&mut self, now: Time, inboxes: &mut [Inbox]) {
        let mut outbox = std::mem::take(&mut self.agent_outbox);
        for message in &outbox.messages {
            self.depart_coherence(now, &message.kind, inboxes);
        }
        outbox.messages.clear();
        self.agent_outbox = outbox;
    }

    /// The same at `at`.
    #[inline(never)]
    fn send_agent_outbox_later(&mut self, at: Time) {
        let mut outbox = std::mem::take(&mut self.agent_outbox);
        for message in outbox.messages.drain(..) {
            if let OutgoingKind::Coherence {
                cache,
                line,
                message,
            } = message.kind
            {
                let leaving = Event::ToHome {
                    stage: Stage::Leaving,
                    cache,
                    bank: self.bank_of(line) as u32,
                    line,
                    entry: 0,
                    message,
                };
                self.push(at, leaving);
            }
        }
        self.agent_outbox = outbox;
    }

    /// Handles a message for an agent's private cache.
    pub(crate) fn agent_cache(
        &mut self,
        now: Time,
        id: AgentId,
        line: LineAddress,
        message: ToCache,
        inboxes: &mut [Inbox],
    ) {
        self.calls += 1;
        let index = usize::from(id.0);
        let mut acknowledged = now;
        if message == ToCache::Invalidate && self.agents[index].at_memory {
            self.agents[index].told = now;
            self.call(now, id, inboxes, |agent, context| {
                agent.invalidated(context, line);
            });
            acknowledged = self.agents[index].told;
        }
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
        if acknowledged > now {
            self.send_agent_outbox_later(acknowledged);
        } else {
            self.send_agent_outbox(now, inboxes);
        }
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

    pub(crate) fn line_lost(
        &mut self,
        now: Time,
        id: AgentId,
        notice: CacheNotice,
        inboxes: &mut [Inbox],
    ) {
        if let CacheNotice::Lost(line) = notice {
            self.call(now, id, inboxes, |agent, context| {
                agent.line_lost(context, line)
            });
        }
    }

    /// Continues waiting accesses, in order, when a miss status holding register has become free.
    pub(crate) fn retry_refused(&mut self, now: Time, id: AgentId, inboxes: &mut [Inbox]) {
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

    /// Sends an agent's access to the home of its line: from the agent's tile or, for a part of the
    /// agent beside the home, from there.
    pub(crate) fn send_home(
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

    /// The access of `agent` to `line` that is in flight to the home or back.
    pub(crate) fn at_home(&self, agent: AgentId, line: LineAddress) -> Option<usize> {
        let pending = &self.agents[usize::from(agent.0)].pending;
        let index = pending.first(line)?;
        (pending.accesses[index].state == PendingState::AtHome).then_some(index)
    }

    /// The write of `agent` to `line`.
    pub(crate) fn home_write(&self, agent: AgentId, line: LineAddress) -> Option<HomeWrite> {
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

    /// Delivers a line that an agent reads at home: to a part of the agent beside the home at once,
    /// to a DMA engine after crossing the mesh.
    pub(crate) fn read_out(
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
    pub(crate) fn answer_dma(
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
        self.push(
            arrival,
            Event::Hosted(Hosted::DmaDone { agent, line, data }),
        );
    }

    /// Completes an access that was done at home.
    pub(crate) fn at_home_done(
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
}

/// Performs an access to a line that is present with the required permission; returns the line's
/// content for the agent.
pub(crate) fn perform(cache: &mut PrivateCache, slot: u32, access: &MemoryAccess) -> LineData {
    match *access {
        MemoryAccess::Read { .. }
        | MemoryAccess::ReadAhead { .. }
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
        MemoryAccess::Update { address, update } => {
            let offset = address as usize % LINE_BYTES;
            let line = cache.line_mut(slot);
            let before = *line;
            line.write(offset, 8, update.of(before.read(offset, 8)));
            before
        }
        MemoryAccess::FetchAdd { address, addend } => {
            let offset = address as usize % LINE_BYTES;
            let line = cache.line_mut(slot);
            let before = *line;
            let sum = before.read(offset, 8).wrapping_add(addend);
            line.write(offset, 8, sum);
            before
        }
    }
}
