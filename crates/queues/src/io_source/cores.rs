//! Sources that run on cores: arrivals are the device's, and cores of the server write them into
//! their queues, as the "emulated I/O sources running on producer cores" of HyperPlane's paper do
//! (Section V-A).
//!
//! Each queue belongs to one of these cores, so that its items arrive in order without locks. The
//! device writes an arriving item into a ring in its core's memory: its queue, and the contents of
//! its slot. The core reads the number of arrivals from a register, copies each into its queue and
//! rings the doorbell, all by its own loads, stores and atomics. The device therefore only supplies
//! the data that the core would generate itself, and never holds a queue's line in its cache.

use super::{IoSource, LINE, purpose};
use fabric::{AgentContext, LINE_BYTES, LineData, MemoryAccess, ReplyTo, Time};
use std::collections::VecDeque;

/// Entries of a core's ring of arrivals: `SOURCE_ENTRIES` in `guest/include/io.h`. A core that
/// falls behind has this many ready, and requests them at once.
pub(super) const ENTRIES: u32 = 16;
/// A core that has not set the address of its ring this long after the start of the traffic never
/// will.
const PATIENCE: Time = Time::from_fs(1_000_000_000_000);

/// An item that has arrived but is not yet in its queue.
#[derive(Clone, Copy, Debug, Default, state::State, state::Plain)]
pub(crate) struct Coming {
    pub queue: u32,
    pub item: u64,
    /// See [`Packets::kind_of`](workload::Packets::kind_of).
    pub kind: u8,
    /// Bytes of its slot.
    bytes: u32,
    /// Its arrival time.
    pub due: Time,
    /// The numbers of items that had arrived then, and of those in flight.
    pub offered: u64,
    pub under_way: u64,
}

/// A core that runs sources, from the device's point of view.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
pub(super) struct SourceCore {
    /// The address of its ring of arrivals; 0 until the core sets it.
    ring: u64,
    /// Items without a free entry, oldest first, and the contents of their slots.
    waiting: VecDeque<Coming>,
    bytes: VecDeque<u8>,
    /// Items in entries, oldest first, until they are in their queue or have found it full.
    in_ring: VecDeque<Coming>,
    /// The next entry to write, and the number of free ones.
    next: u32,
    free: u32,
    /// The oldest entry that is being written, the number of such entries, and the number of
    /// remaining lines of each.
    oldest: u32,
    being_written: u32,
    lines_left: [u32; ENTRIES as usize],
    /// Number of complete entries not yet reported to the core, and of those in the last report.
    ready: u32,
    told: u32,
    /// The core's pending request for a report.
    asking: Option<ReplyTo>,
}

impl IoSource {
    /// The same source with `cores` cores that write arrivals into the queues; with 0 the device
    /// does.
    pub fn with_cores(self, cores: u32) -> IoSource {
        let one = SourceCore {
            free: ENTRIES,
            ..SourceCore::default()
        };
        IoSource {
            cores: vec![one; cores as usize],
            ..self
        }
    }

    /// Number of items that wait for their core.
    pub fn waiting_for_cores(&self) -> u64 {
        let waiting = self.cores.iter().map(|core| core.waiting.len() as u64);
        waiting.sum()
    }

    /// The core that writes a queue: queues with traffic are assigned to cores in turn.
    pub(super) fn core_of(&self, queue: u32) -> usize {
        let place = self.active_queues.partition_point(|&other| other < queue);
        place % self.cores.len()
    }

    /// Hands an arrived item over to the core that writes its queue.
    pub(super) fn hand_over(&mut self, context: &mut AgentContext<'_>, queue: u32) {
        let (item, kind) = self.compose(false);
        let number = self.core_of(queue);
        let (offered, under_way) = self.ledger.borrow().offered_and_under_way();
        let core = &mut self.cores[number];
        core.waiting.push_back(Coming {
            queue,
            item,
            kind,
            bytes: self.slot.len() as u32,
            due: context.now(),
            offered,
            under_way,
        });
        core.bytes.extend(&self.slot);
        let started = self.ledger.borrow().started_at().unwrap_or_default();
        if core.ring != 0 {
            self.fill_entries(context, number);
        } else if context.now().saturating_sub(started) > PATIENCE {
            let hart = self.setup.data_plane_cores as usize + number;
            self.ledger.borrow_mut().set_wrong_description(format!(
                "traffic.sources is \"cores\", and hart {hart} does not run them: the program uses \
                 it itself"
            ));
        }
    }

    /// Writes waiting items into free entries of a core's ring.
    fn fill_entries(&mut self, context: &mut AgentContext<'_>, number: usize) {
        let entry_bytes = LINE + u64::from(self.setup.slot_bytes);
        let core = &mut self.cores[number];
        while core.free > 0
            && let Some(coming) = core.waiting.pop_front()
        {
            let entry = core.next;
            core.next = (entry + 1) % ENTRIES;
            core.free -= 1;
            core.being_written += 1;
            core.in_ring.push_back(coming);
            let mut head = LineData::ZERO;
            head.write(0, 8, coming.queue.into());
            head.write(8, 8, coming.bytes.into());
            head.write(16, 8, self.queues[coming.queue as usize].filled.into());
            let lines = 1 + (coming.bytes as usize).div_ceil(LINE_BYTES) as u32;
            core.lines_left[entry as usize] = lines;
            let token = purpose::HAND_OVER | (number as u64) << 16 | u64::from(entry);
            for line in 0..lines {
                let mut data = head;
                if line > 0 {
                    data = LineData::ZERO;
                    let left = coming.bytes as usize - (line as usize - 1) * LINE_BYTES;
                    let bytes = left.min(LINE_BYTES);
                    for (to, from) in data.0.iter_mut().zip(core.bytes.drain(..bytes)) {
                        *to = from;
                    }
                }
                context.access(
                    MemoryAccess::Write {
                        address: core.ring
                            + u64::from(entry) * entry_bytes
                            + u64::from(line) * LINE,
                        bytes: LINE as u8,
                        data,
                    },
                    token,
                );
            }
        }
    }

    /// Handles the completed write of a line of an entry.
    pub(super) fn handed_over(&mut self, context: &mut AgentContext<'_>, place: u32) {
        let (number, entry) = ((place >> 16) as usize, place & 0xffff);
        let core = &mut self.cores[number];
        core.lines_left[entry as usize] -= 1;
        while core.being_written > 0 && core.lines_left[core.oldest as usize] == 0 {
            core.oldest = (core.oldest + 1) % ENTRIES;
            core.being_written -= 1;
            core.ready += 1;
        }
        self.tell_core(context, number);
    }

    /// Reports the number of further complete entries to a core, if it has requested it and there
    /// are some.
    fn tell_core(&mut self, context: &mut AgentContext<'_>, number: usize) {
        let core = &mut self.cores[number];
        if core.ready > 0
            && let Some(reply_to) = core.asking.take()
        {
            core.told = std::mem::take(&mut core.ready);
            context.reply(reply_to, core.told.into(), Time::ZERO);
        }
    }

    /// Sets the address of a core's ring of arrivals; returns whether it is valid.
    pub(super) fn set_arrivals(
        &mut self,
        context: &mut AgentContext<'_>,
        number: usize,
        ring: u64,
    ) -> bool {
        let bytes = u64::from(ENTRIES) * (LINE + u64::from(self.setup.slot_bytes));
        let Some(core) = self.cores.get_mut(number) else {
            return false;
        };
        let fits = ring.is_multiple_of(LINE)
            && context.in_memory(ring)
            && context.in_memory(ring.saturating_add(bytes - 1));
        if core.ring != 0 || !fits {
            return false;
        }
        core.ring = ring;
        self.fill_entries(context, number);
        true
    }

    /// Handles a core's request for the number of further complete entries, after it has processed
    /// all reported ones; it is answered when there are some. Returns whether the request is valid.
    pub(super) fn ask_for_arrivals(
        &mut self,
        context: &mut AgentContext<'_>,
        number: usize,
        reply_to: ReplyTo,
    ) -> bool {
        let Some(core) = self.cores.get_mut(number) else {
            return false;
        };
        if core.ring == 0 || core.asking.is_some() {
            return false;
        }
        core.free += std::mem::take(&mut core.told);
        core.asking = Some(reply_to);
        self.fill_entries(context, number);
        self.tell_core(context, number);
        true
    }

    /// Handles a core's report that the queue of its next item is full. Returns whether it has an
    /// item.
    pub(super) fn found_full(&mut self, number: usize) -> bool {
        let core = self.cores.get_mut(number);
        let Some(coming) = core.and_then(|core| core.in_ring.pop_front()) else {
            return false;
        };
        self.ledger.borrow_mut().dropped(coming.queue);
        true
    }

    /// Handles a core's ring of a queue's doorbell.
    pub(super) fn rung_by_core(&mut self, queue: u32, items: u32, at: Time) {
        let number = self.core_of(queue);
        let next = self.cores[number].in_ring.pop_front();
        let mut ledger = self.ledger.borrow_mut();
        match next {
            Some(coming) if coming.queue == queue && items == 1 => ledger.entered(&coming, at),
            _ => ledger.set_fault(format!(
                "The doorbell of queue {queue} has been rung for an item that is not the next one \
                 of the core that writes the queue (traffic.sources = \"cores\")."
            )),
        }
    }
}
