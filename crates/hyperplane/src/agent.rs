//! HyperPlane as an agent on the fabric: the monitoring set at the homes of the doorbells, the
//! ready set, and the waiting harts (§III-B, Fig. 4). Each of two sockets has its own;
//! [`sockets`](crate::sockets) describes how they cooperate.

use crate::sockets::{Message, Sockets, Waiting};
use crate::spec::Latencies;
use crate::{
    ErrorCode, HyperPlaneSpec, InsertError, MonitoringSet, NO_QID, Operation, PARTITIONS, Policy,
    Qid, ReadySet,
};
use fabric::{
    AddressRange, Agent, AgentContext, AgentId, Attachment, Clock, CoreId, Fabric, LINE_BYTES,
    LineAddress, LineData, MemoryAccess, ReplyTo, Request, RequestKind, Time,
};
use schemars::JsonSchema;
use serde::Serialize;
use spec::SpecError;
use std::collections::{BTreeMap, VecDeque};

/// Counts of HyperPlane.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State, state::Plain,
)]
#[schemars(rename = "HyperPlaneStatistics")]
pub struct Statistics {
    /// `QWAIT`s answered with a QID.
    #[state(count)]
    pub wake_ups: u64,
    /// Returned QIDs whose queue `QWAIT.VERIFY` found empty.
    #[state(count)]
    pub spurious_wake_ups: u64,
    /// Non-blocking `QWAIT`s that found no queue ready.
    #[state(count)]
    pub not_ready: u64,
    /// Queues activated because ownership of their armed doorbell was granted.
    #[state(count)]
    pub activations_by_grant: u64,
    /// Queues activated because they were not empty when they would have been armed.
    #[state(count)]
    pub activations_by_reconsider: u64,
    /// Doorbells armed.
    #[state(count)]
    pub arms: u64,
    /// `QWAIT.ADD`s that met a conflict in the monitoring set.
    #[state(count)]
    pub conflicts: u64,
    /// `QWAIT`s that found no queue ready and halted their hart.
    #[state(count)]
    pub halts: u64,
    /// Time that harts were halted because no queue was ready, summed over harts.
    #[state(count)]
    pub halted_fs: u64,
    /// Look-ups in the monitoring set: for grants of ownership in the doorbells' range, and to
    /// arm, add and remove.
    #[state(count)]
    pub look_ups: u64,
    /// Harts woken out of C1.
    #[state(count)]
    pub power_ups: u64,
    /// `QWAIT`s answered with a queue of the other socket's ready set, as part of `wake_ups`.
    #[state(count)]
    pub steals: u64,
    /// Queues that were offered to the other socket and returned, because no hart waited there any
    /// more.
    #[state(count)]
    pub offers_returned: u64,
    /// Time that the ready sets' arbiters spent selecting, summed over ready sets.
    #[state(count)]
    pub selecting_fs: u64,
    /// Time that selections waited for earlier ones.
    #[state(count)]
    pub selections_waited_fs: u64,
    /// Queues monitored.
    pub monitored: usize,
    /// Queues armed.
    pub armed: usize,
}

impl Statistics {
    /// Selections requested from the ready sets: one for each `QWAIT`, another for a `QWAIT` that
    /// waited, and one for each returned offer.
    pub fn selections(&self) -> u64 {
        self.wake_ups + self.not_ready + self.halts + self.offers_returned
    }
}

/// A hart that waits in `QWAIT`.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
struct Halted {
    reply_to: ReplyTo,
    /// The partition of the ready set that it waits for.
    partition: usize,
    since: Time,
}

/// An instruction that reads a doorbell at its home in order to arm it.
#[derive(Clone, Copy, Debug, state::State, state::Plain)]
struct Arming {
    reply_to: ReplyTo,
    doorbell: u64,
    /// The queue that becomes ready if there is work; `None` for `QWAIT-VERIFY`, which only
    /// reports.
    qid: Option<Qid>,
}

/// How a request is answered.
enum Answer {
    /// With a value, after a delay.
    Now { value: u64, delay: Time },
    /// After a later event.
    Later,
}

/// HyperPlane's hardware.
///
/// A ready set has a single arbiter, with its partitions as masks in front of it. Selections are
/// made one at a time, each in 12.25 ns with 1024 entries (§IV-C). The queue is chosen when the
/// selection is requested; the answer waits for earlier selections.
#[derive(state::State)]
pub struct HyperPlane {
    #[state(fixed)]
    latencies: Latencies,
    /// The range whose grants the monitoring set snoops; ranges of `QWAIT.INIT` must lie inside.
    #[state(fixed)]
    snooped: AddressRange,
    /// The range of the last `QWAIT.INIT`; empty before the first.
    doorbells: AddressRange,
    /// One for each socket.
    #[state(slice)]
    monitoring_sets: Vec<MonitoringSet>,
    /// All of them: see [`ReadySet`].
    ready_set: ReadySet,
    /// The harts that wait in `QWAIT`, the longest waiting first.
    halted: VecDeque<Halted>,
    #[state(fixed)]
    sockets: Sockets,
    /// The time from which the arbiter of each ready set is idle.
    #[state(slice)]
    arbiter_free_at: Vec<Time>,
    /// For each partition of the ready sets, the number of harts at the other one that wait for its
    /// queues.
    #[state(slice)]
    waiting_elsewhere: Vec<Waiting>,
    /// The number of the last offer of each queue that has not been removed since; 0 for none.
    #[state(slice)]
    offers: Vec<u64>,
    next_offer: u64,
    /// Messages in flight from one socket to the other, by the token of their arrival.
    under_way: BTreeMap<u64, Message>,
    /// Instructions whose doorbell is being read, by the token of the access.
    arming: BTreeMap<u64, Arming>,
    next_token: u64,
    #[state(fixed)]
    power_optimised: bool,
    /// The time that each core has spent in C1, by its number, up to its last wake-up.
    powered_down_fs: Vec<u64>,
    statistics: Statistics,
}

/// The tokens of arrivals from the other socket; those below are QIDs.
const MESSAGES: u64 = 1 << 32;

/// Builds HyperPlane and attaches it to `fabric`, which has `banks` directory banks on each socket.
/// Doorbells can be allocated in `doorbell_range`; `clock` is the cores' clock, whose cycles `spec`
/// counts.
pub fn attach(
    fabric: &mut Fabric,
    banks: usize,
    spec: &HyperPlaneSpec,
    doorbell_range: AddressRange,
    clock: Clock,
) -> Result<AgentId, SpecError> {
    let minimum = fabric.minimum_delivery_latency();
    let (ready_sets, are_stolen) = spec.ready_sets(fabric.sockets())?;
    let sockets = Sockets::of(fabric, ready_sets, are_stolen);
    let hyperplane = HyperPlane::new(spec, sockets, banks, doorbell_range, clock, minimum)?;
    let attachment = Attachment {
        snoops: Some(doorbell_range),
        ..Attachment::default()
    };
    fabric.attach(Box::new(hyperplane), attachment)
}

impl HyperPlane {
    /// HyperPlane for a fabric of `banks` directory banks a socket whose answers take no less than
    /// `minimum_delivery_latency`.
    fn new(
        spec: &HyperPlaneSpec,
        sockets: Sockets,
        banks: usize,
        snooped: AddressRange,
        clock: Clock,
        minimum_delivery_latency: Time,
    ) -> Result<HyperPlane, SpecError> {
        let monitoring_set = spec.monitoring_set(banks)?;
        let qids = spec.entries * sockets.count;
        let ready_set = ReadySet::several(qids, Policy::default(), sockets.ready_sets);
        Ok(HyperPlane {
            latencies: spec.latencies(
                clock,
                minimum_delivery_latency,
                qids / sockets.ready_sets,
            )?,
            arbiter_free_at: vec![Time::ZERO; sockets.ready_sets],
            snooped,
            doorbells: AddressRange::default(),
            monitoring_sets: vec![monitoring_set.for_qids(qids); sockets.count],
            ready_set,
            halted: VecDeque::new(),
            waiting_elsewhere: vec![Waiting::default(); sockets.ready_sets * PARTITIONS],
            offers: vec![0; qids],
            next_offer: 1,
            under_way: BTreeMap::new(),
            sockets,
            arming: BTreeMap::new(),
            next_token: 0,
            power_optimised: spec.power_optimised,
            powered_down_fs: Vec::new(),
            statistics: Statistics::default(),
        })
    }

    /// The counts up to `now`, including the time of harts that still wait.
    pub fn statistics(&self, now: Time) -> Statistics {
        let waiting = self
            .halted
            .iter()
            .map(|halted| now.saturating_sub(halted.since).as_fs());
        Statistics {
            halted_fs: self.statistics.halted_fs + waiting.sum::<u64>(),
            monitored: self.monitored(),
            armed: self.armed(),
            ..self.statistics.clone()
        }
    }

    fn monitored(&self) -> usize {
        let sets = self.monitoring_sets.iter();
        sets.map(MonitoringSet::occupied).sum()
    }

    fn armed(&self) -> usize {
        let sets = self.monitoring_sets.iter();
        sets.map(MonitoringSet::armed).sum()
    }

    /// The time that `core` has spent in C1 up to `now`.
    pub fn powered_down(&self, core: CoreId, now: Time) -> Time {
        let before = self.powered_down_fs.get(usize::from(core.0));
        let waits = self
            .halted
            .iter()
            .find(|halted| self.power_optimised && halted.reply_to.core == core);
        let since = waits.map_or(Time::ZERO, |halted| now.saturating_sub(halted.since));
        Time::from_fs(before.copied().unwrap_or(0)) + since
    }

    /// Wakes `core`, which has waited for `time`.
    fn power_up(&mut self, core: CoreId, time: Time) {
        self.statistics.power_ups += 1;
        let core = usize::from(core.0);
        if self.powered_down_fs.len() <= core {
            self.powered_down_fs.resize(core + 1, 0);
        }
        self.powered_down_fs[core] += time.as_fs();
    }

    /// The QID in an operand, if there is such a queue.
    fn qid(&self, operand: u64) -> Option<Qid> {
        let qid = Qid(u32::try_from(operand).ok()?);
        self.ready_set.contains(qid).then_some(qid)
    }

    /// The ready set that a queue is in: that of its doorbell's socket, and the first before it has
    /// one.
    fn set_of(&self, qid: Qid) -> usize {
        self.ready_set.partition(qid) / PARTITIONS
    }

    /// The ready set that carries out a request which came over a core's wires.
    fn set_of_request(&self, request: &Request) -> usize {
        let RequestKind::Custom { code, arguments } = request.kind else {
            return 0;
        };
        match Operation::from_code(code) {
            Some(Operation::Qwait | Operation::QwaitNonBlocking) => {
                self.sockets.set_of_core(request.reply_to.core)
            }
            // Of all queues.
            Some(Operation::Init) => 0,
            _ => self.qid(arguments[0]).map_or(0, |qid| self.set_of(qid)),
        }
    }

    /// Sends a message from a socket to the other one, after `delay`.
    fn send(
        &mut self,
        context: &mut AgentContext<'_>,
        (from, to): (usize, usize),
        delay: Time,
        message: Message,
    ) {
        let token = MESSAGES + self.next_token;
        self.next_token += 1;
        self.under_way.insert(token, message);
        self.sockets.send(context, (from, to), delay, token);
    }

    /// A message from the other socket has arrived.
    fn receive(&mut self, context: &mut AgentContext<'_>, message: Message) {
        match message {
            Message::Request { request } => self.carry_out(context, request),
            Message::Answer {
                reply_to,
                result: Ok(value),
                delay,
            } => context.reply(reply_to, value, delay),
            Message::Answer { reply_to, .. } => context.refuse(reply_to),
            Message::Ask { partition } => {
                self.waiting_elsewhere[partition].ask();
                self.give_out(context, partition);
            }
            Message::Cancel { partition } => self.waiting_elsewhere[partition].serve(),
            Message::Offer {
                qid,
                partition,
                number,
            } => match self.longest_waiting(partition) {
                Some(place) => {
                    self.statistics.steals += 1;
                    // It has been selected where it was.
                    self.resume(context, place, qid, self.latencies.update);
                }
                None => {
                    self.statistics.offers_returned += 1;
                    let to = self.sockets.other_partition(partition);
                    let message = Message::Return {
                        qid,
                        partition: to,
                        number,
                    };
                    let way = (partition / PARTITIONS, to / PARTITIONS);
                    self.send(context, way, Time::ZERO, message);
                }
            },
            Message::Return {
                qid,
                partition,
                number,
            } => {
                self.waiting_elsewhere[partition].take_back();
                if self.offers[qid.0 as usize] == number {
                    self.activate(context, qid);
                }
                // The hart that is counted again may get another queue.
                self.give_out(context, partition);
            }
        }
    }

    /// Answers a core, from the ready set that has carried out its request.
    fn answer(
        &mut self,
        context: &mut AgentContext<'_>,
        set: usize,
        reply_to: ReplyTo,
        result: Result<u64, ()>,
        delay: Time,
    ) {
        let socket = self.sockets.of_core(reply_to.core);
        if socket != set && reply_to.tile.is_none() {
            // The wires are at the core's end.
            let after = delay.min(self.latencies.update + self.latencies.wake_up);
            let message = Message::Answer {
                reply_to,
                result,
                delay: after,
            };
            self.send(context, (set, socket), delay - after, message);
            return;
        }
        match result {
            Ok(value) => context.reply(reply_to, value, delay),
            Err(()) => context.refuse(reply_to),
        }
    }

    /// Carries out a request at its ready set, and answers it if that is possible now.
    fn carry_out(&mut self, context: &mut AgentContext<'_>, request: Request) {
        let set = self.set_of_request(&request);
        let reply_to = request.reply_to;
        match self.perform(context, request) {
            Some(Answer::Now { value, delay }) => {
                self.answer(context, set, reply_to, Ok(value), delay);
            }
            Some(Answer::Later) => {}
            None => self.answer(context, set, reply_to, Err(()), Time::ZERO),
        }
    }

    /// Carries out a request. `None` if it is impossible, which is an access fault.
    fn perform(&mut self, context: &mut AgentContext<'_>, request: Request) -> Option<Answer> {
        let RequestKind::Custom { code, arguments } = request.kind else {
            return None;
        };
        let operation = Operation::from_code(code)?;
        let reply_to = request.reply_to;
        let [first, second] = arguments;
        let mut value = 0;
        match operation {
            Operation::Qwait | Operation::QwaitNonBlocking => {
                let set = self.sockets.set_of_core(reply_to.core);
                let partition = set * PARTITIONS + partition(first)?;
                let blocking = operation == Operation::Qwait;
                return Some(self.qwait(context, reply_to, partition, blocking));
            }
            Operation::Verify | Operation::Reconsider => {
                let (doorbell, qid) = match operation {
                    Operation::Verify => (first, None),
                    _ => (second, Some(self.qid(first)?)),
                };
                if !self.is_doorbell(context, doorbell) {
                    return None;
                }
                return Some(self.arm_if_empty(context, reply_to, doorbell, qid));
            }
            Operation::Add => {
                return Some(match self.add(context, first, second) {
                    Ok(qid) => self.arm_if_empty(context, reply_to, second, Some(qid)),
                    Err(error) => Answer::Now {
                        value: error.value(),
                        delay: self.latencies.lookup,
                    },
                });
            }
            Operation::Init => {
                if let Err(error) = self.init(first, second) {
                    value = error.value();
                }
            }
            Operation::Remove => {
                if let Err(error) = self.remove(first) {
                    value = error.value();
                }
            }
            Operation::Weight => {
                let weight = u32::try_from(second).ok().filter(|&weight| weight > 0)?;
                self.ready_set.set_weight(self.qid(first)?, weight);
            }
            Operation::Enable => {
                let qid = self.qid(first)?;
                self.ready_set.enable(qid);
                self.give_out(context, self.ready_set.partition(qid));
            }
            Operation::Partition => {
                let qid = self.qid(first)?;
                let partition = self.set_of(qid) * PARTITIONS + partition(second)?;
                self.ready_set.set_partition(qid, partition);
                self.give_out(context, partition);
            }
            Operation::Disable => self.ready_set.disable(self.qid(first)?),
            Operation::Activate => {
                let qid = self.qid(first)?;
                self.statistics.activations_by_reconsider += 1;
                self.activate(context, qid);
            }
        }
        Some(Answer::Now {
            value,
            delay: self.latencies.update,
        })
    }

    /// `QWAIT`: the selection is made at once, the answer takes the instruction's latency. Harts
    /// that have halted before are not overtaken: while they wait, no queue can be selected.
    fn qwait(
        &mut self,
        context: &mut AgentContext<'_>,
        reply_to: ReplyTo,
        partition: usize,
        blocking: bool,
    ) -> Answer {
        let delay = self.selection(context.now(), partition / PARTITIONS);
        let answered_after = delay + self.latencies.update;
        match self.ready_set.select(partition) {
            Some(qid) => {
                self.statistics.wake_ups += 1;
                Answer::Now {
                    value: u64::from(qid.0),
                    delay: answered_after,
                }
            }
            None if blocking => {
                self.statistics.halts += 1;
                self.halted.push_back(Halted {
                    reply_to,
                    partition,
                    since: context.now(),
                });
                if self.sockets.are_stolen {
                    let partition = self.sockets.other_partition(partition);
                    self.tell_other(context, delay, Message::Ask { partition }, partition);
                }
                Answer::Later
            }
            None => {
                self.statistics.not_ready += 1;
                Answer::Now {
                    value: NO_QID,
                    delay: answered_after,
                }
            }
        }
    }

    /// A selection requested from the arbiter of a ready set: the time until its end, including
    /// earlier selections; zero if there is nothing to select.
    fn selection(&mut self, now: Time, set: usize) -> Time {
        if self.ready_set.policy() == Policy::ActivationOrder {
            return Time::ZERO;
        }
        let begin = now.max(self.arbiter_free_at[set]);
        let end = begin + self.latencies.selection;
        self.arbiter_free_at[set] = end;
        self.statistics.selecting_fs += self.latencies.selection.as_fs();
        self.statistics.selections_waited_fs += (begin - now).as_fs();
        end - now
    }

    /// Sends the other ready set, that of `partition`, a message that follows a selection, which
    /// takes `delay`.
    fn tell_other(
        &mut self,
        context: &mut AgentContext<'_>,
        delay: Time,
        message: Message,
        partition: usize,
    ) {
        let to = partition / PARTITIONS;
        self.send(context, (1 - to, to), delay, message);
    }

    /// The position in the list of the hart that has waited longest in a partition.
    fn longest_waiting(&self, partition: usize) -> Option<usize> {
        let mut halted = self.halted.iter();
        halted.position(|halted| halted.partition == partition)
    }

    /// Called when a queue may have become selectable in a partition: gives queues to the harts
    /// that wait there, and then to those of the other socket.
    fn give_out(&mut self, context: &mut AgentContext<'_>, partition: usize) {
        while let Some(place) = self.longest_waiting(partition) {
            let Some(qid) = self.ready_set.select(partition) else {
                return;
            };
            let delay = self.selection(context.now(), partition / PARTITIONS);
            self.resume(context, place, qid, delay + self.latencies.update);
            if self.sockets.are_stolen {
                let partition = self.sockets.other_partition(partition);
                self.tell_other(context, delay, Message::Cancel { partition }, partition);
            }
        }
        while self.waiting_elsewhere[partition].is_any() {
            let Some(qid) = self.ready_set.select(partition) else {
                return;
            };
            self.waiting_elsewhere[partition].serve();
            let number = self.next_offer;
            self.next_offer += 1;
            self.offers[qid.0 as usize] = number;
            let delay = self.selection(context.now(), partition / PARTITIONS);
            let partition = self.sockets.other_partition(partition);
            let offer = Message::Offer {
                qid,
                partition,
                number,
            };
            self.tell_other(context, delay, offer, partition);
        }
    }

    /// Gives a queue to a hart that waits, after `delay` and its wake-up.
    fn resume(&mut self, context: &mut AgentContext<'_>, place: usize, qid: Qid, delay: Time) {
        let Some(Halted {
            reply_to,
            partition,
            since,
        }) = self.halted.remove(place)
        else {
            return;
        };
        let waited = context.now().saturating_sub(since);
        self.statistics.wake_ups += 1;
        self.statistics.halted_fs += waited.as_fs();
        if self.power_optimised {
            self.power_up(reply_to.core, waited);
        }
        let delay = self.latencies.wake_up + delay;
        let set = partition / PARTITIONS;
        self.answer(context, set, reply_to, Ok(u64::from(qid.0)), delay);
    }

    /// Sets a ready bit, unless the queue has been removed in the meantime.
    fn activate(&mut self, context: &mut AgentContext<'_>, qid: Qid) {
        if self.monitoring_sets.iter().any(|set| set.contains(qid)) {
            self.ready_set.activate(qid);
            self.give_out(context, self.ready_set.partition(qid));
        }
    }

    /// Activates a queue when the look-up in the monitoring set of `socket` has ended and the ready
    /// set has been notified.
    fn activate_after_lookup(&self, context: &mut AgentContext<'_>, socket: usize, qid: Qid) {
        let (delay, token) = (self.latencies.lookup, u64::from(qid.0));
        let set = self.sockets.set_of_socket(socket);
        if set == socket {
            context.wake(context.now() + delay, token);
        } else {
            self.sockets.send(context, (socket, set), delay, token);
        }
    }

    /// Reads a doorbell at its home, so that the line has no owner (§III-B: "a coherence read
    /// transaction (i.e., GetS) is issued"). What follows is in `access_done`.
    fn arm_if_empty(
        &mut self,
        context: &mut AgentContext<'_>,
        reply_to: ReplyTo,
        doorbell: u64,
        qid: Option<Qid>,
    ) -> Answer {
        let arming = Arming {
            reply_to,
            doorbell,
            qid,
        };
        let token = self.next_token;
        self.next_token += 1;
        self.arming.insert(token, arming);
        context.access(MemoryAccess::ReadAtHome { address: doorbell }, token);
        Answer::Later
    }

    /// Whether there can be a doorbell at `address`.
    fn is_doorbell(&self, context: &AgentContext<'_>, address: u64) -> bool {
        self.doorbells.contains(address) && address.is_multiple_of(8) && context.in_memory(address)
    }

    /// `QWAIT-INIT`. Waiting harts continue to wait.
    fn init(&mut self, start: u64, length_and_policy: u64) -> Result<(), ErrorCode> {
        // Lengths are whole lines, so that the low bits are free for the policy.
        let code = length_and_policy % LINE_BYTES as u64;
        let policy = Policy::from_code(code).ok_or(ErrorCode::UnknownPolicy)?;
        let length = length_and_policy - code;
        let offset = start.wrapping_sub(self.snooped.start);
        let inside = offset <= self.snooped.length && length <= self.snooped.length - offset;
        if length == 0 || !inside || !start.is_multiple_of(LINE_BYTES as u64) {
            return Err(ErrorCode::RangeNotSnooped);
        }
        self.doorbells = AddressRange { start, length };
        self.monitoring_sets
            .iter_mut()
            .for_each(MonitoringSet::clear);
        let qids = self.offers.len();
        self.ready_set = ReadySet::several(qids, policy, self.sockets.ready_sets);
        self.offers.fill(0);
        Ok(())
    }

    /// The first half of `QWAIT-ADD`: a disarmed entry.
    fn add(
        &mut self,
        context: &AgentContext<'_>,
        qid: u64,
        doorbell: u64,
    ) -> Result<Qid, ErrorCode> {
        let qid = self.qid(qid).ok_or(ErrorCode::QidOutOfRange)?;
        if !doorbell.is_multiple_of(8) {
            return Err(ErrorCode::DoorbellMisaligned);
        }
        if !self.is_doorbell(context, doorbell) {
            return Err(ErrorCode::DoorbellOutsideRange);
        }
        self.statistics.look_ups += 1;
        if self.monitoring_sets.iter().any(|set| set.contains(qid)) {
            return Err(ErrorCode::DuplicateQid);
        }
        let socket = context.socket_of(doorbell);
        let inserted = self.monitoring_sets[socket].insert(LineAddress::of(doorbell), qid);
        self.statistics.conflicts += u64::from(inserted == Err(InsertError::Conflict));
        inserted?;
        let set = self.sockets.set_of_socket(socket);
        let partition = self.ready_set.partition(qid) % PARTITIONS;
        self.ready_set
            .set_partition(qid, set * PARTITIONS + partition);
        Ok(qid)
    }

    /// `QWAIT-REMOVE`. Clears all state of the queue, so that the next queue with its QID starts
    /// afresh.
    fn remove(&mut self, qid: u64) -> Result<(), ErrorCode> {
        let qid = self.qid(qid).ok_or(ErrorCode::QidOutOfRange)?;
        self.statistics.look_ups += 1;
        self.monitoring_sets
            .iter_mut()
            .find_map(|set| set.remove(qid))
            .ok_or(ErrorCode::UnknownQid)?;
        self.ready_set.reset(qid);
        self.offers[qid.0 as usize] = 0;
        Ok(())
    }
}

/// The partition in an operand, if there is such a one.
fn partition(operand: u64) -> Option<usize> {
    usize::try_from(operand)
        .ok()
        .filter(|&partition| partition < PARTITIONS)
}

impl Agent for HyperPlane {
    fn name(&self) -> String {
        "HyperPlane".to_owned()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        let set = self.set_of_request(&request);
        let socket = self.sockets.of_core(request.reply_to.core);
        // A request to a doorbell's home has already crossed the link.
        if request.reply_to.tile.is_none() && set != socket {
            let message = Message::Request { request };
            self.send(context, (socket, set), Time::ZERO, message);
        } else {
            self.carry_out(context, request);
        }
    }

    fn is_snooping(&self) -> bool {
        self.monitored() > 0
    }

    /// A write transaction to a doorbell, or a read that gets the line exclusively, so that its
    /// cache could write the line without a further transaction.
    fn ownership_granted(&mut self, context: &mut AgentContext<'_>, line: LineAddress) {
        self.statistics.look_ups += 1;
        let socket = context.socket_of(line.base());
        if let Some(qid) = self.monitoring_sets[socket].snoop(line) {
            self.statistics.activations_by_grant += 1;
            self.activate_after_lookup(context, socket, qid);
        }
    }

    /// A doorbell to be armed has been read at its home. No cache owns the line at this time, and
    /// any later writer is snooped, so this step is atomic with respect to new work items.
    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        _access: MemoryAccess,
        data: LineData,
    ) {
        let Some(arming) = self.arming.remove(&token) else {
            return;
        };
        let line = LineAddress::of(arming.doorbell);
        let socket = context.socket_of(arming.doorbell);
        let has_work = data.read((arming.doorbell - line.base()) as usize, 8) != 0;
        self.statistics.look_ups += 1;
        if !has_work {
            let set = &mut self.monitoring_sets[socket];
            self.statistics.arms += u64::from(set.arm(line));
        }
        let value = match arming.qid {
            None => {
                self.statistics.spurious_wake_ups += u64::from(!has_work);
                u64::from(has_work)
            }
            Some(qid) if has_work => {
                self.statistics.activations_by_reconsider += 1;
                self.activate_after_lookup(context, socket, qid);
                0
            }
            Some(_) => 0,
        };
        context.reply(arming.reply_to, value, self.latencies.lookup);
    }

    /// The monitoring set's look-up is over and the QID reaches the ready set, or a message has
    /// come from the other socket.
    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        if token < MESSAGES {
            self.activate(context, Qid(token as u32));
        } else if let Some(message) = self.under_way.remove(&token) {
            self.receive(context, message);
        }
    }

    fn waiting_for(&self) -> Vec<String> {
        let state = format!(
            "{} queues monitored, {} armed, {} ready but disabled",
            self.monitored(),
            self.armed(),
            self.ready_set.ready_but_disabled(),
        );
        let sentence = |halted: &Halted| {
            let core = halted.reply_to.core.0;
            format!("a hart of core {core} waits in QWAIT: no enabled queue is ready ({state})")
        };
        self.halted.iter().map(sentence).collect()
    }
}
