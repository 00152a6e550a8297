//! The common state of the I/O source and the tenants: the queues, and each item's record.

use crate::io_source::Coming;
use crate::warm_start::Settling;
use fabric::{CoreId, LineData, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use workload::ItemKind;
use workload::{KindMeasurement, Recorder, Sample};

/// The ledger, shared by its two agents and the builder of the server.
pub type SharedLedger = Rc<RefCell<Ledger>>;

/// More requests than are possible.
const NEVER: u64 = u64::MAX;

/// The addresses of a queue: `struct io_descriptor` in `guest/include/io.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub struct QueueDescriptor {
    /// Address of the device ring's doorbell.
    pub doorbell: u64,
    /// Address of the device ring.
    pub ring: u64,
    /// Address of the tenant ring's doorbell.
    pub tenant_doorbell: u64,
    /// Address of the tenant ring.
    pub tenant_ring: u64,
    /// Address of the word that counts the items that the consumer has taken, for a doorbell that
    /// the consumer never counts down; or 0.
    pub taken: u64,
    /// Address of the word to which `wake_addend` is added when an item enters the empty queue; or
    /// 0.
    pub wake: u64,
    /// The addend for that word.
    pub wake_addend: u64,
    /// Address of the ring of completions, an entry for each slot of the device ring, if the
    /// program has asked for completions; otherwise 0.
    pub completions: u64,
}

impl QueueDescriptor {
    pub(crate) fn from_line(line: &LineData) -> QueueDescriptor {
        QueueDescriptor {
            doorbell: line.read(0, 8),
            ring: line.read(8, 8),
            tenant_doorbell: line.read(16, 8),
            tenant_ring: line.read(24, 8),
            taken: line.read(32, 8),
            wake: line.read(40, 8),
            wake_addend: line.read(48, 8),
            completions: line.read(56, 8),
        }
    }
}

/// Counts of all items. `generated` is the sum of `dropped`, `refused`, `entering`, `inside` and
/// `delivered`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, state::State,
)]
pub struct ItemCounts {
    /// Items that arrived at the source.
    pub generated: u64,
    /// Items that found their queue full.
    pub dropped: u64,
    /// Items that found their queue closed.
    pub refused: u64,
    /// Items on their way from the source into their queue.
    pub entering: u64,
    /// Items in a queue, in the data plane, or in a tenant's queue.
    pub inside: u64,
    /// Items that their tenant has taken, including those with errors.
    pub delivered: u64,
    /// Items delivered with the error flag, because the data plane could not process them.
    pub errors: u64,
    /// Items delivered before an older item of their queue.
    pub reordered: u64,
}

/// The fates of one queue's items; those missing in the sum are in flight.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, state::State, state::Plain,
)]
pub struct QueueCounts {
    /// Arrived at the source.
    pub generated: u64,
    /// Found the queue full.
    pub dropped: u64,
    /// Found the queue closed.
    pub refused: u64,
    /// Taken by the tenant.
    pub delivered: u64,
}

/// An item that has been delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemRecord {
    /// Its number.
    pub item: u64,
    /// Its queue.
    pub queue: u32,
    /// The start of its latency: the time at which it was in its queue.
    pub arrived_at: Time,
    /// The end of its latency: the time at which the tenant's doorbell was rung for it.
    pub done_at: Time,
    /// The core that processed it.
    pub core: u16,
    /// The time at which that core began to process it, if observed.
    pub began_at: Option<Time>,
}

/// An item in a queue, in the data plane, or in a tenant's queue.
#[derive(Clone, Copy, Debug, Default, state::State, state::Plain)]
struct Inside {
    item: u64,
    /// See [`Packets::kind_of`](workload::Packets::kind_of).
    kind: u8,
    /// The numbers of items that had arrived at the source when this one entered its queue, and of
    /// those in flight.
    offered: u64,
    under_way: u64,
    arrived_at: Time,
    /// The time that a core took to write it into its queue, if one did.
    entering: Option<Time>,
    /// The time at which a hart took it from its queue, if observed.
    taken_at: Option<Time>,
}

/// An item that a tenant has taken, but whose ring is not known yet.
#[derive(Clone, Copy, Debug, Default, state::State, state::Plain)]
struct Delivered {
    queue: u32,
    /// The item; `None` for the end of a queue.
    item: Option<Inside>,
    is_measured: bool,
    /// See [`Sample`].
    is_cold: bool,
}

/// A ring of a tenant's doorbell.
#[derive(Clone, Copy, Debug, Default, state::State, state::Plain)]
struct Ring {
    at: Time,
    /// The time of its hart's previous ring, before which it cannot have worked on this item.
    hart_rang_at: Time,
    core: u16,
}

/// Records of all items in flight.
#[derive(Clone, Debug, state::State)]
pub struct Ledger {
    /// Address of the descriptors, once the source is running.
    pub(crate) table: u64,
    pub(crate) queues: Vec<QueueDescriptor>,
    /// Number of slots of each queue's ring that have not been used; 0 if there are no rings.
    #[state(fixed)]
    pub(crate) ring_slots: u64,
    /// Number of tenants that have joined each queue, one after the other.
    tenants: Vec<u64>,
    /// The time at which the source started.
    started_at_fs: Option<u64>,
    /// The kind of the program's items.
    pub items: ItemKind,
    pub(crate) counts: ItemCounts,
    queue_counts: Vec<QueueCounts>,
    /// The program's counters, by name.
    pub program_counters: Vec<(String, u64)>,
    /// Items in each queue, oldest first.
    inside: Vec<VecDeque<Inside>>,
    /// For each queue, the items that tenants have taken before a hart has counted them off: where
    /// harts share queues in order, some mechanisms count an item off when it has been processed.
    uncounted: Vec<u32>,
    /// Rings of each tenant's doorbell whose items have not been recorded.
    rings: Vec<VecDeque<Ring>>,
    /// The time of each hart's last ring.
    harts_rang_at: Vec<Time>,
    /// The time at which a core was given the message in each slot of a messaging domain.
    given_at: Vec<Option<Time>>,
    /// Items that tenants have taken, in order.
    taken: VecDeque<Delivered>,
    /// Bytes used in the first result's slot; 0 before it.
    pub(crate) first_result_bytes: u64,
    recorder: Recorder,
    entering_times: Vec<Time>,
    /// Whether deliveries are measured.
    measures: bool,
    /// Number of requests to deliver in the warm start, and the time of the last one. If a rule
    /// ends the warm start: the number before the next check of the caches; [`NEVER`] until that is
    /// known.
    warm_requests: u64,
    warm_at: Option<Time>,
    /// Number of requests that had been delivered at the end of the warm start.
    delivered_warm: Option<u64>,
    /// The rule that ends the warm start, if one does; the number of first uses so far; and the
    /// number of lines in the caches at the last check.
    #[state(fixed)]
    settling: Option<Settling>,
    first_uses: u64,
    filled_lines: Option<u64>,
    /// Whether the warm start is over, or no rule determines its end.
    has_settled: bool,
    /// The latest deliveries, if requested.
    #[state(fixed)]
    records: Option<Vec<ItemRecord>>,
    /// Records of all measured requests, if requested, in the order of the recorder's samples.
    #[state(fixed)]
    history: Option<Vec<ItemRecord>>,
    #[state(fixed)]
    may_reorder: bool,
    fault: Option<String>,
    /// The error in the description, as a sentence.
    wrong_description: Option<String>,
}

impl Ledger {
    /// An empty ledger.
    pub fn new(recorder: Recorder) -> Ledger {
        Ledger {
            table: 0,
            queues: Vec::new(),
            ring_slots: 0,
            tenants: Vec::new(),
            started_at_fs: None,
            items: ItemKind::Packets,
            counts: ItemCounts::default(),
            queue_counts: Vec::new(),
            program_counters: Vec::new(),
            inside: Vec::new(),
            uncounted: Vec::new(),
            rings: Vec::new(),
            harts_rang_at: Vec::new(),
            given_at: Vec::new(),
            taken: VecDeque::new(),
            first_result_bytes: 0,
            recorder,
            entering_times: Vec::new(),
            measures: true,
            warm_requests: 0,
            warm_at: None,
            delivered_warm: None,
            settling: None,
            first_uses: 0,
            filled_lines: None,
            has_settled: true,
            records: None,
            history: None,
            may_reorder: false,
            fault: None,
            wrong_description: None,
        }
    }

    /// An empty ledger that can be shared.
    pub fn shared(recorder: Recorder) -> SharedLedger {
        Rc::new(RefCell::new(Ledger::new(recorder)))
    }

    /// Nothing is measured before [`Ledger::measure`]. The warm start lasts until `requests` have
    /// been delivered.
    pub fn warm_up(&mut self, requests: u64) {
        self.measures = false;
        self.warm_requests = requests;
    }

    /// The same, until the end according to `settling`.
    pub fn settle(&mut self, settling: Settling) {
        self.warm_up(NEVER);
        self.settling = Some(settling);
        self.has_settled = false;
    }

    /// Whether the warm start is over at [`Ledger::warm_at`], with `lines` lines in the cores' data
    /// caches. If not, it continues.
    pub fn has_settled(&mut self, lines: u64) -> bool {
        if self.has_settled {
            return true;
        }
        let before = self.filled_lines.replace(lines);
        self.has_settled = before.is_some_and(|before| Settling::have_filled(before, lines));
        if !self.has_settled {
            self.warm_at = None;
            self.warm_requests = match before {
                // This was the first check.
                None => NEVER,
                Some(_) => Settling::next_look(self.counts.delivered),
            };
        }
        self.has_settled
    }

    /// Later deliveries are measured.
    pub fn measure(&mut self) {
        self.measures = true;
        self.delivered_warm = Some(self.counts.delivered);
    }

    /// Number of requests delivered in the warm start; `None` without one.
    pub fn delivered_warm(&self) -> Option<u64> {
        self.delivered_warm
    }

    /// Whether latencies are measured: there is no warm start, or it is over.
    pub fn measures(&self) -> bool {
        self.measures
    }

    /// Whether there is a warm start that is not over, and ends by [`Settling`].
    pub fn warms_up_by_rule(&self) -> bool {
        !self.measures && self.settling.is_some()
    }

    /// The time at which the last request of the warm start was delivered, if it has been and the
    /// change of the traffic has not been requested yet.
    pub fn warm_at(&self) -> Option<Time> {
        self.warm_at
    }

    /// Records that the change of the traffic has been requested.
    pub fn end_warm_start(&mut self) {
        self.warm_at = None;
    }

    /// The fraction of the requests that has been delivered, from 0 to 1, as far as their number is
    /// known.
    pub fn progress(&self, requests: u64) -> f64 {
        let most = self.settling.map_or(NEVER, |settling| settling.most());
        let (warm, measured) = (self.warm_requests.min(most) as f64, requests as f64);
        let done = if self.measures {
            warm + self.recorder.progress() * measured
        } else {
            self.counts.delivered as f64
        };
        done / (warm + measured)
    }

    /// The recorder of latencies.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The measured requests of each kind, by name; empty if the program has only one kind.
    pub fn by_kind(&self) -> BTreeMap<&'static str, KindMeasurement> {
        let kinds = self.recorder.by_kind().into_iter();
        kinds
            .filter_map(|(kind, measurement)| Some((self.items.kind_name(kind)?, measurement)))
            .collect()
    }

    /// Keeps a record of each delivery until it is taken.
    pub fn keep_records(&mut self) {
        self.records = Some(Vec::new());
    }

    /// Keeps a record of each measured request until the end of the run.
    pub fn keep_history(&mut self) {
        self.history = Some(Vec::new());
    }

    /// The records of all measured requests, including those of the warm-up, in the order of the
    /// recorder's samples; empty if none are kept.
    pub fn history(&self) -> &[ItemRecord] {
        self.history.as_deref().unwrap_or_default()
    }

    /// The deliveries since the last call, in order; empty if none are kept.
    pub fn take_records(&mut self) -> Vec<ItemRecord> {
        self.records.as_mut().map_or_else(Vec::new, std::mem::take)
    }

    /// Permits the data plane to deliver a queue's items to its tenant in any order.
    pub fn allow_reordering(&mut self) {
        self.may_reorder = true;
    }

    /// The addresses of the queues, once the source has started.
    pub fn queues(&self) -> &[QueueDescriptor] {
        &self.queues
    }

    /// The states of all items.
    pub fn counts(&self) -> ItemCounts {
        self.counts
    }

    /// The fates of each queue's items; empty before the source has started.
    pub fn queue_counts(&self) -> &[QueueCounts] {
        &self.queue_counts
    }

    /// The program's counters: names and values, in the order of naming.
    pub fn program_counters(&self) -> &[(String, u64)] {
        &self.program_counters
    }

    /// The program's first error in the use of its queues, as a sentence. A run with a fault has no
    /// result.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// The part of the description that the program cannot use, as a sentence.
    pub fn wrong_description(&self) -> Option<&str> {
        self.wrong_description.as_deref()
    }

    /// Records that the description does not fit the program; only the first sentence counts.
    pub fn set_wrong_description(&mut self, sentence: String) {
        self.wrong_description.get_or_insert(sentence);
    }

    /// Records an error of the program; only the first sentence counts.
    pub fn set_fault(&mut self, sentence: String) {
        self.fault.get_or_insert(sentence);
    }

    /// Starts the ledger with these queues, whose descriptors are at `table`.
    pub fn start(&mut self, table: u64, queues: Vec<QueueDescriptor>, at: Time) {
        if self.recorder.needs_kinds() && self.items != ItemKind::Operations {
            let sentence = "measure.precision_of names a kind of operations, and the program takes \
                            none: leave it out";
            self.set_wrong_description(sentence.to_string());
        }
        self.table = table;
        self.tenants = vec![1; queues.len()];
        self.started_at_fs = Some(at.as_fs());
        self.inside = vec![VecDeque::new(); queues.len()];
        self.uncounted = vec![0; queues.len()];
        self.rings = vec![VecDeque::new(); queues.len()];
        self.queue_counts = vec![QueueCounts::default(); queues.len()];
        self.queues = queues;
    }

    /// Whether the source has started.
    pub fn is_started(&self) -> bool {
        self.started_at_fs.is_some()
    }

    /// The time at which it started.
    pub fn started_at(&self) -> Option<Time> {
        self.started_at_fs.map(Time::from_fs)
    }

    /// Counts an item that has arrived at the source and is to enter its queue.
    pub fn generated(&mut self, queue: u32) {
        self.counts.generated += 1;
        self.counts.entering += 1;
        self.queue_counts[queue as usize].generated += 1;
    }

    /// Counts an entering item that has found its queue full.
    pub fn dropped(&mut self, queue: u32) {
        self.counts.entering -= 1;
        self.counts.dropped += 1;
        self.queue_counts[queue as usize].dropped += 1;
    }

    /// Counts an entering item that has found its queue closed.
    pub(crate) fn refused(&mut self, queue: u32) {
        self.counts.entering -= 1;
        self.counts.refused += 1;
        self.queue_counts[queue as usize].refused += 1;
    }

    /// Number of tenants that have joined a queue, each after the previous one has left.
    pub(crate) fn tenants(&self, queue: u32) -> u64 {
        self.tenants[queue as usize]
    }

    /// Adds a new tenant to a queue whose last one has left.
    pub(crate) fn join(&mut self, queue: u32, descriptor: QueueDescriptor) {
        self.tenants[queue as usize] += 1;
        self.queues[queue as usize] = descriptor;
    }

    /// Handles a tenant that has taken the end of its queue, after which no item may follow.
    pub(crate) fn left(&mut self, queue: u32) {
        match self.inside[queue as usize].front() {
            Some(Inside { item: oldest, .. }) => self.set_fault(format!(
                "The tenant of queue {queue} was given the end of its queue, and item {oldest} is \
                 next: the data plane must give each queue's items to its tenant in order."
            )),
            None => {
                self.taken.push_back(Delivered {
                    queue,
                    ..Delivered::default()
                });
                self.close_records();
            }
        }
    }

    /// Records that an item of some kind is in its queue: its latency begins.
    pub fn arrived(&mut self, queue: u32, (item, kind): (u64, u8), at: Time) {
        self.counts.entering -= 1;
        self.counts.inside += 1;
        self.inside[queue as usize].push_back(Inside {
            item,
            kind,
            offered: self.counts.generated,
            under_way: self.counts.entering + self.counts.inside,
            arrived_at: at,
            entering: None,
            taken_at: None,
        });
    }

    /// The numbers of items that have arrived at the source, and of those in flight.
    pub(crate) fn offered_and_under_way(&self) -> (u64, u64) {
        let counts = &self.counts;
        (counts.generated, counts.entering + counts.inside)
    }

    /// Records that a core has put an item into its queue: its latency begins. The number of
    /// arrivals by then would depend on how far the core has run ahead, so the number at the item's
    /// arrival is used.
    pub(crate) fn entered(&mut self, coming: &Coming, at: Time) {
        self.counts.entering -= 1;
        self.counts.inside += 1;
        self.inside[coming.queue as usize].push_back(Inside {
            item: coming.item,
            kind: coming.kind,
            offered: coming.offered,
            under_way: coming.under_way,
            arrived_at: at,
            entering: Some(at.saturating_sub(coming.due)),
            taken_at: None,
        });
    }

    /// The time from each measured item's arrival until a core had written it into its queue;
    /// including the warm-up, in order of completion.
    pub fn entering_times(&self) -> &[Time] {
        &self.entering_times
    }

    /// Records that a hart has taken the next `items` items from a queue: their service begins,
    /// unless they have been processed already.
    pub(crate) fn claimed(&mut self, queue: u32, items: u32, at: Time) {
        let Some(inside) = self.inside.get_mut(queue as usize) else {
            return;
        };
        let uncounted = &mut self.uncounted[queue as usize];
        let processed = items.min(*uncounted);
        *uncounted -= processed;
        // The items already taken are the first ones: a queue is emptied in order.
        let next = inside.partition_point(|inside| inside.taken_at.is_some());
        let items = (items - processed) as usize;
        for inside in inside.range_mut(next..).take(items) {
            inside.taken_at = Some(at);
        }
    }

    /// Records that a tenant has taken an item.
    pub(crate) fn taken(&mut self, queue: u32, item: u64, is_error: bool, now: Time) {
        let inside = &mut self.inside[queue as usize];
        let place = if self.may_reorder {
            inside.iter().position(|inside| inside.item == item)
        } else {
            Some(0)
        };
        self.counts.reordered += u64::from(place.is_some_and(|place| place > 0));
        match place.and_then(|place| inside.remove(place)) {
            Some(inside) if inside.item == item => {
                self.uncounted[queue as usize] += u32::from(inside.taken_at.is_none());
                self.counts.inside -= 1;
                self.counts.delivered += 1;
                let delivered = &mut self.queue_counts[queue as usize].delivered;
                *delivered += 1;
                let is_cold = *delivered <= self.ring_slots;
                self.counts.errors += u64::from(is_error);
                self.taken.push_back(Delivered {
                    queue,
                    item: Some(inside),
                    is_measured: self.measures,
                    is_cold,
                });
                if let Some(settling) = self.settling.filter(|_| !self.has_settled) {
                    self.first_uses += u64::from(*delivered <= settling.uses());
                    let so_far = (self.counts.delivered, self.first_uses);
                    let looks = match self.filled_lines {
                        None => settling.is_half_over(so_far.0, so_far.1),
                        Some(_) => settling.has_used_queues(so_far.0, so_far.1),
                    };
                    if looks && self.warm_requests == NEVER {
                        self.warm_requests = self.counts.delivered;
                    }
                }
                if !self.measures && self.counts.delivered == self.warm_requests {
                    self.warm_at = Some(now);
                }
                self.close_records();
            }
            Some(Inside { item: oldest, .. }) => self.set_fault(format!(
                "The tenant of queue {queue} was given item {item}, and item {oldest} is next: the \
                 data plane must give each queue's items to its tenant in order, each once."
            )),
            None => self.set_fault(format!(
                "The tenant of queue {queue} was given item {item}, which is not in that queue."
            )),
        }
    }

    /// Records that a core has been given the message in a slot of the messaging domain.
    pub fn given(&mut self, slot: usize, at: Time) {
        if slot >= self.given_at.len() {
            self.given_at.resize(slot + 1, None);
        }
        self.given_at[slot] = Some(at);
    }

    /// Records the end of an item's latency; its slot is free again. `at` has the time of the end,
    /// the time at which the same core finished its previous item, and the core's number.
    pub fn completed(
        &mut self,
        queue: u32,
        (item, slot): (u64, usize),
        (at, hart_rang_at, core): (Time, Time, u16),
        now: Time,
    ) {
        let given_at = self.given_at.get_mut(slot).and_then(Option::take);
        let inside = &mut self.inside[queue as usize];
        if let Some(inside) = inside.iter_mut().find(|inside| inside.item == item) {
            inside.taken_at = given_at;
        }
        let ring = Ring {
            at,
            hart_rang_at,
            core,
        };
        self.rings[queue as usize].push_back(ring);
        self.taken(queue, item, false, now);
    }

    /// Counts an item whose reply reports that it could not be processed.
    pub fn has_failed(&mut self) {
        self.counts.errors += 1;
    }

    /// Handles a hart's ring of a tenant's doorbell for its next item: that item's latency ends.
    pub(crate) fn rung(&mut self, queue: u32, hart: CoreId, at: Time) {
        let core = hart.0;
        let hart = usize::from(core);
        if hart >= self.harts_rang_at.len() {
            self.harts_rang_at.resize(hart + 1, Time::ZERO);
        }
        let hart_rang_at = std::mem::replace(&mut self.harts_rang_at[hart], at);
        let ring = Ring {
            at,
            hart_rang_at,
            core,
        };
        self.rings[queue as usize].push_back(ring);
        self.close_records();
    }

    /// Records complete items in the order in which they were taken, so that the order does not
    /// depend on when rings are observed.
    fn close_records(&mut self) {
        while let Some(&delivered) = self.taken.front() {
            let queue = delivered.queue;
            let Some(ring) = self.rings[queue as usize].pop_front() else {
                return;
            };
            self.taken.pop_front();
            let Some(Inside {
                item,
                kind,
                offered,
                under_way,
                arrived_at,
                entering,
                taken_at,
            }) = delivered.item
            else {
                continue;
            };
            let done_at = ring.at;
            // An item that is counted off after its ring has no known beginning, whether its
            // tenant is observed before or after that.
            let began_at = taken_at
                .filter(|&at| at <= done_at)
                .map(|at| at.max(ring.hart_rang_at));
            let record = ItemRecord {
                item,
                queue,
                arrived_at,
                done_at,
                core: ring.core,
                began_at,
            };
            if delivered.is_measured {
                self.entering_times.extend(entering);
                if let Some(history) = &mut self.history
                    && !self.recorder.is_done()
                {
                    history.push(record);
                }
                self.recorder.add(Sample {
                    completed_at: done_at,
                    latency: done_at.saturating_sub(arrived_at),
                    service: began_at.map(|at| done_at.saturating_sub(at)),
                    queue,
                    kind,
                    is_cold: delivered.is_cold,
                    offered,
                    under_way,
                });
            }
            if let Some(records) = &mut self.records {
                records.push(record);
            }
        }
    }
}
