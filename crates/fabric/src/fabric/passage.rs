//! The paths of messages: from a private cache to a line's home, and to the private caches.

use super::{CacheOwner, CachePlace, Event, Fabric, Stage};
use crate::hosting::Hosted;
use crate::mesh::{CONTROL_BYTES, LINE_MESSAGE_BYTES, Mesh, Order};
use crate::{
    CacheId, CoreId, DeliveryKind, Inbox, LineAddress, OutgoingKind, Source, Time, ToCache, ToHome,
};

/// Sends a message of a private cache along the path to the home's bank; returns the cycle of its
/// arrival. `ready`: the first cycle in which it could leave, if it need not be forwarded.
#[inline]
pub(super) fn send_to_bank(
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

impl Fabric {
    /// The bank that is the line's home, on the tile of the same number: lines are interleaved over
    /// the banks of their socket.
    #[inline]
    pub(crate) fn bank_of(&self, line: LineAddress) -> usize {
        let first = self.ram.socket_of(line) * self.bank_count.value() as usize;
        first + self.bank_count.remainder(line.0) as usize
    }

    #[inline]
    pub(crate) fn core_tile(&self, core: CoreId) -> usize {
        self.caches[usize::from(core.0) * 2].tile
    }

    /// A message leaves a private cache.
    #[inline]
    pub(crate) fn depart_coherence(
        &mut self,
        now: Time,
        kind: &OutgoingKind,
        inboxes: &mut [Inbox],
    ) {
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
    pub(crate) fn send_to_cache(
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
                Event::Hosted(Hosted::AgentCache {
                    agent,
                    line,
                    message,
                }),
            ),
        }
    }

    #[inline]
    pub(crate) fn bring(
        &mut self,
        core: CoreId,
        at: Time,
        kind: DeliveryKind,
        inboxes: &mut [Inbox],
    ) {
        self.delivered_to |= 1 << core.0;
        self.first_delivery = self.first_delivery.min(at);
        inboxes[usize::from(core.0)].push(at, kind);
    }
}
