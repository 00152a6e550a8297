//! Rings that have been used before simulated time begins.
//!
//! After a lap, each slot has been written by the source, read and answered by a hart, and its
//! result read by the tenant. The lines of the lap that remain in the last-level cache depend only
//! on the order of these accesses, which is known: all rings advance together, one slot of each in
//! a round. The lap is therefore not simulated: its lines are filled into the last-level cache in
//! this order, the directory records their sharers, and the items that a saturated source would
//! have left in full rings are written to memory. Private caches and branch predictors hold at most
//! the last thousand items, and learn from the first requests.

use super::{Completions, IoSource, LINE, ROOM_POLL, purpose};
use fabric::{
    AddressRange, AgentContext, AgentId, LINE_BYTES, LineAddress, LineData, MemoryAccess, Sharer,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The initial state of the rings of the queues with traffic.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, state::State,
)]
#[serde(rename_all = "kebab-case")]
pub enum RingsAtStart {
    /// Empty; no slot has been used.
    #[default]
    New,
    /// Empty; each slot has been used once, and the last-level cache has the resulting contents.
    Used,
    /// Full; each slot has been used once, and the last-level cache has what that leaves if the
    /// source refills each slot at once.
    Full,
}

impl IoSource {
    /// The same source with this initial state of the rings. The initial contents of full rings are
    /// put into memory without taking time, so no private cache may hold their lines: the program
    /// does not touch them before it starts the device.
    pub fn with_rings(self, rings: RingsAtStart) -> IoSource {
        if rings != RingsAtStart::New {
            // No slot will be used for the first time.
            self.ledger.borrow_mut().ring_slots = 0;
        }
        IoSource { rings, ..self }
    }

    /// Sets the agents of the source and the tenants. The directory records the sharers of the
    /// lines of used rings; for data planes that run on cores.
    pub fn set_sharers(&mut self, source: AgentId, tenants: AgentId) {
        self.sharers = Some([source, tenants]);
    }

    /// Prepares the rings, or starts at once if there is nothing to prepare. A first item shows the
    /// used part of a slot, and of a result's slot. The following steps take no time: they are
    /// alarms at the present time, so that each makes few requests to the fabric.
    pub(super) fn prepare_rings(&mut self, context: &mut AgentContext<'_>) {
        match self.rings {
            RingsAtStart::New => self.arrivals.await_arrival(context),
            RingsAtStart::Full if self.completions != Completions::None => {
                let sentence = "measure.rings is \"full\", and the program has its items announced \
                                by completions, which begin empty: leave it out, or use \"used\"";
                let sentence = sentence.to_string();
                self.ledger.borrow_mut().set_wrong_description(sentence);
            }
            _ => {
                self.offer(context, self.active_queues[0]);
                context.wake(context.now() + ROOM_POLL, purpose::LEARN);
            }
        }
    }

    /// Continues when the first item has been answered.
    pub(super) fn learn_lengths(&mut self, context: &mut AgentContext<'_>) {
        let result_bytes = self.ledger.borrow().first_result_bytes;
        if result_bytes == 0 {
            return context.wake(context.now() + ROOM_POLL, purpose::LEARN);
        }
        if !self.cores.is_empty() {
            // The following steps begin after the item that a core has written.
            self.queues[self.active_queues[0] as usize].next_slot = 1;
        }
        let lengths = [self.slot.len() as u64, result_bytes];
        self.used_bytes = lengths.map(|bytes| bytes.next_multiple_of(LINE));
        self.use_slots(context, 0);
    }

    /// Fills the last-level cache with the lines of a round: for each queue a hart reads the slot
    /// `slot` and writes the result, and a source that keeps the ring full refills the previous
    /// slot.
    pub(super) fn use_slots(&mut self, context: &mut AgentContext<'_>, slot: u32) {
        let setup = &self.setup;
        let slot_bytes = u64::from(setup.slot_bytes);
        let most = setup.queue_capacity - 1;
        let [item_bytes, result_bytes] = self.used_bytes;
        for &number in &self.active_queues {
            let descriptor = self.queues[number as usize].descriptor;
            let mut warm = |ring: u64, slot: u32, length: u64| {
                let start = ring + u64::from(slot) * slot_bytes;
                context.warm_last_level(AddressRange { start, length });
            };
            let result_slot = slot % setup.queue_capacity;
            warm(descriptor.ring, slot, item_bytes);
            warm(descriptor.tenant_ring, result_slot, result_bytes);
            if self.rings == RingsAtStart::Full {
                let refilled = (slot + most) % setup.ring_slots;
                warm(descriptor.ring, refilled, item_bytes);
            }
        }
        if slot + 1 < setup.ring_slots {
            let next = purpose::USE_SLOTS | u64::from(slot + 1);
            context.wake(context.now(), next);
        } else {
            context.wake(context.now(), purpose::SHARE_SLOTS);
        }
    }

    /// Records the sharers of a round in the directory: tenants read results that their hart has
    /// just written, so that both share the lines. In rings that are empty before an item arrives,
    /// hart and source, or the core that runs it, share the item's lines; in full rings these have
    /// been evicted to the last-level cache before the hart reads them.
    pub(super) fn share_slots(&mut self, context: &mut AgentContext<'_>, slot: u32) {
        let setup = &self.setup;
        let slot_bytes = u64::from(setup.slot_bytes);
        let [item_bytes, result_bytes] = self.used_bytes;
        let clusters = u64::from(setup.data_plane_cores / setup.cluster_cores);
        for &number in &self.active_queues {
            let descriptor = self.queues[number as usize].descriptor;
            let Some([source, tenants]) = self.sharers else {
                break;
            };
            let mut share = |ring: u64, length: u64, other: Sharer| {
                let start = ring + u64::from(slot) * slot_bytes;
                let cluster = u64::from(number) * clusters / u64::from(setup.queues);
                // Harts of a cluster take turns; which one used this slot is a matter of chance.
                let hart = cluster as u32 * setup.cluster_cores + slot % setup.cluster_cores;
                let sharers = [Sharer::Hart(hart as u16), other];
                context.note_sharers(AddressRange { start, length }, sharers);
            };
            if slot < setup.queue_capacity {
                share(descriptor.tenant_ring, result_bytes, Sharer::Agent(tenants));
            }
            if self.rings == RingsAtStart::Used {
                let writer = match self.cores.len() {
                    0 => Sharer::Agent(source),
                    _ => Sharer::Hart(
                        (setup.data_plane_cores as usize + self.core_of(number)) as u16,
                    ),
                };
                share(descriptor.ring, item_bytes, writer);
            }
        }
        if slot + 1 < setup.ring_slots {
            let next = purpose::SHARE_SLOTS | u64::from(slot + 1);
            context.wake(context.now(), next);
        } else if self.rings == RingsAtStart::Full {
            self.being_filled = self.active_queues.len() as u32;
            context.wake(context.now(), purpose::FILL);
        } else {
            self.arrivals.await_arrival(context);
        }
    }

    /// Fills the ring of an active queue and rings the doorbell for all items at once.
    pub(super) fn fill_ring(&mut self, context: &mut AgentContext<'_>, index: u32) {
        let number = self.active_queues[index as usize];
        let items = self.setup.queue_capacity - 1;
        let ring = self.queues[number as usize].descriptor.ring;
        for place in 0..items {
            let queue = &self.queues[number as usize];
            let slot = (queue.next_slot + place) % self.setup.ring_slots;
            let start = ring + u64::from(slot) * u64::from(self.setup.slot_bytes);
            let composed = self.compose(false);
            for (place, bytes) in self.slot.chunks(LINE_BYTES).enumerate() {
                let mut data = LineData::ZERO;
                data.0[..bytes.len()].copy_from_slice(bytes);
                let line = LineAddress::of(start + place as u64 * LINE);
                context.put_into_memory(line, data);
            }
            let mut ledger = self.ledger.borrow_mut();
            ledger.generated(number);
            ledger.arrived(number, composed, context.now());
        }
        let queue = &mut self.queues[number as usize];
        queue.next_slot = (queue.next_slot + items) % self.setup.ring_slots;
        queue.filled = items;
        context.access(
            MemoryAccess::FetchAdd {
                address: queue.descriptor.doorbell,
                addend: items.into(),
            },
            purpose::FILL | u64::from(number),
        );
        if index + 1 < self.active_queues.len() as u32 {
            context.wake(context.now(), purpose::FILL | u64::from(index + 1));
        }
    }

    /// Handles the announcement of a full ring, whose count was `before`. Traffic starts when all
    /// have been announced.
    pub(super) fn filled(&mut self, context: &mut AgentContext<'_>, number: u32, before: u64) {
        let items = self.setup.queue_capacity - 1;
        let queue = &mut self.queues[number as usize];
        queue.rung = (before as u32).wrapping_add(items);
        queue.count = items.into();
        if before as u32 == 0 {
            self.tell_of_first(context, number);
        }
        self.being_filled -= 1;
        if self.being_filled == 0 {
            self.arrivals.await_arrival(context);
        }
    }
}
