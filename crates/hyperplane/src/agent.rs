//! HyperPlane as an agent on the fabric: the monitoring set at the homes of the doorbells, the
//! ready set, and the harts that wait (§III-B, Fig. 4).

use crate::spec::Latencies;
use crate::{
    ErrorCode, HyperPlaneSpec, InsertError, MonitoringSet, NO_QID, Operation, PARTITIONS, Policy,
    Qid, ReadySet,
};
use fabric::{
    AddressRange, Agent, AgentContext, AgentId, Attachment, Clock, CoreId, Fabric, LINE_BYTES,
    LineAddress, LineData, MemoryAccess, ReplyTo, Request, RequestKind, SpecError, Time,
};
use serde::Serialize;
use state::{State, Walker};
use std::collections::{BTreeMap, VecDeque};

/// What HyperPlane has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// `QWAIT`s answered with a QID.
    pub wake_ups: u64,
    /// QIDs returned whose queue `QWAIT.VERIFY` found empty.
    pub spurious_wake_ups: u64,
    /// Non-blocking `QWAIT`s that found no queue ready.
    pub not_ready: u64,
    /// Queues activated because ownership of their armed doorbell was granted.
    pub activations_by_grant: u64,
    /// Queues activated because they were not empty when they were to be armed.
    pub activations_by_reconsider: u64,
    /// Doorbells armed.
    pub arms: u64,
    /// `QWAIT.ADD`s that met a conflict in the monitoring set.
    pub conflicts: u64,
    /// `QWAIT`s that found no queue ready and halted their hart.
    pub halts: u64,
    /// Time that harts were halted for want of a ready queue, summed over harts.
    pub halted_fs: u64,
    /// Look-ups in the monitoring set: for grants of ownership in the doorbells' range, and to
    /// arm, add and remove.
    pub look_ups: u64,
    /// Harts woken out of C1.
    pub power_ups: u64,
    /// Queues monitored.
    pub monitored: usize,
    /// Queues armed.
    pub armed: usize,
}

state::plain!(Statistics {
    wake_ups: count,
    spurious_wake_ups: count,
    not_ready: count,
    activations_by_grant: count,
    activations_by_reconsider: count,
    arms: count,
    conflicts: count,
    halts: count,
    halted_fs: count,
    look_ups: count,
    power_ups: count,
    monitored,
    armed,
});

impl Statistics {
    /// Selections that the ready set was asked for: once for each `QWAIT`, and once more for one
    /// that waited.
    pub fn selections(&self) -> u64 {
        self.wake_ups + self.not_ready + self.halts
    }
}

/// A hart that waits in `QWAIT`.
#[derive(Clone, Copy, Debug)]
struct Halted {
    reply_to: ReplyTo,
    /// The partition of the ready set that it waits for.
    partition: usize,
    since: Time,
}

state::plain!(Halted {
    reply_to,
    partition,
    since
});

/// An instruction that reads a doorbell at its home in order to arm it.
#[derive(Clone, Copy, Debug)]
struct Arming {
    reply_to: ReplyTo,
    doorbell: u64,
    /// The queue that becomes ready if there is work; `None` for `QWAIT-VERIFY`, which only tells.
    qid: Option<Qid>,
}

state::plain!(Arming {
    reply_to,
    doorbell,
    qid
});

/// How a request is answered.
enum Answer {
    /// With a value, after a delay.
    Now { value: u64, delay: Time },
    /// When something else has happened.
    Later,
}

/// HyperPlane's hardware.
///
/// The ready set takes any number of requests at a time: with 12.25 ns a selection it serves some
/// hundred cores (§IV-C), more than a fabric has.
pub struct HyperPlane {
    latencies: Latencies,
    /// What the fabric shows to the monitoring set; ranges of `QWAIT.INIT` must lie inside.
    snooped: AddressRange,
    /// The range of the last `QWAIT.INIT`; empty before the first.
    doorbells: AddressRange,
    monitoring_set: MonitoringSet,
    ready_set: ReadySet,
    /// Who waits in `QWAIT`, the longest first.
    halted: VecDeque<Halted>,
    /// Instructions whose doorbell is being read, by the token of the access.
    arming: BTreeMap<u64, Arming>,
    next_token: u64,
    power_optimised: bool,
    /// How long each core has been in C1, by its number, up to when it was last woken.
    powered_down_fs: Vec<u64>,
    statistics: Statistics,
}

state::component!(HyperPlane {
    latencies: fixed,
    snooped: fixed,
    doorbells,
    monitoring_set,
    ready_set,
    halted,
    arming,
    next_token,
    power_optimised: fixed,
    powered_down_fs,
    statistics,
});

/// Builds HyperPlane and attaches it to `fabric`, which has `banks` directory banks. Doorbells can
/// be allocated in `doorbell_range`; `clock` is the cores' clock, whose cycles `spec` counts.
pub fn attach(
    fabric: &mut Fabric,
    banks: usize,
    spec: &HyperPlaneSpec,
    doorbell_range: AddressRange,
    clock: Clock,
) -> Result<AgentId, SpecError> {
    let minimum = fabric.minimum_delivery_latency();
    let hyperplane = HyperPlane::new(spec, banks, doorbell_range, clock, minimum)?;
    let attachment = Attachment {
        snoops: Some(doorbell_range),
        ..Attachment::default()
    };
    fabric.attach(Box::new(hyperplane), attachment)
}

impl HyperPlane {
    /// HyperPlane for a fabric of `banks` directory banks whose answers take no less than
    /// `minimum_delivery_latency`. [`attach`] is the easier way.
    pub fn new(
        spec: &HyperPlaneSpec,
        banks: usize,
        snooped: AddressRange,
        clock: Clock,
        minimum_delivery_latency: Time,
    ) -> Result<HyperPlane, SpecError> {
        Ok(HyperPlane {
            latencies: spec.latencies(clock, minimum_delivery_latency)?,
            snooped,
            doorbells: AddressRange::default(),
            monitoring_set: spec.monitoring_set(banks)?,
            ready_set: ReadySet::new(spec.entries, Policy::default()),
            halted: VecDeque::new(),
            arming: BTreeMap::new(),
            next_token: 0,
            power_optimised: spec.power_optimised,
            powered_down_fs: Vec::new(),
            statistics: Statistics::default(),
        })
    }

    /// What has been counted up to `now`; harts that still wait are counted up to then.
    pub fn statistics(&self, now: Time) -> Statistics {
        let waiting = self
            .halted
            .iter()
            .map(|halted| now.saturating_sub(halted.since).as_fs());
        Statistics {
            halted_fs: self.statistics.halted_fs + waiting.sum::<u64>(),
            monitored: self.monitoring_set.occupied(),
            armed: self.monitoring_set.armed(),
            ..self.statistics.clone()
        }
    }

    /// How long `core` has been in C1 up to `now`.
    pub fn powered_down(&self, core: CoreId, now: Time) -> Time {
        let before = self.powered_down_fs.get(usize::from(core.0));
        let waits = self
            .halted
            .iter()
            .find(|halted| self.power_optimised && halted.reply_to.core == core);
        let since = waits.map_or(Time::ZERO, |halted| now.saturating_sub(halted.since));
        Time::from_fs(before.copied().unwrap_or(0)) + since
    }

    /// `core`, which has waited for `time`, is woken.
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

    /// Carries out a request. `None`: it cannot be done, which is an access fault.
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
                let partition = partition(first)?;
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
                self.resume_halted(context, qid);
            }
            Operation::Partition => {
                let qid = self.qid(first)?;
                self.ready_set.set_partition(qid, partition(second)?);
                self.resume_halted(context, qid);
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
    /// that have halted before do not come short: while they wait nothing can be selected.
    fn qwait(
        &mut self,
        context: &AgentContext<'_>,
        reply_to: ReplyTo,
        partition: usize,
        blocking: bool,
    ) -> Answer {
        let delay = self.qwait_latency();
        match self.ready_set.select(partition) {
            Some(qid) => {
                self.statistics.wake_ups += 1;
                Answer::Now {
                    value: u64::from(qid.0),
                    delay,
                }
            }
            None if blocking => {
                self.statistics.halts += 1;
                self.halted.push_back(Halted {
                    reply_to,
                    partition,
                    since: context.now(),
                });
                Answer::Later
            }
            None => {
                self.statistics.not_ready += 1;
                Answer::Now {
                    value: NO_QID,
                    delay,
                }
            }
        }
    }

    /// A `QWAIT`'s latency, or what is left of it where nothing has to be selected.
    fn qwait_latency(&self) -> Time {
        match self.ready_set.policy() {
            Policy::ActivationOrder => self.latencies.update,
            _ => self.latencies.qwait,
        }
    }

    /// Something has become selectable in the partition of `changed`: gives it to a hart that waits
    /// there.
    fn resume_halted(&mut self, context: &mut AgentContext<'_>, changed: Qid) {
        let partition = self.ready_set.partition(changed);
        while let Some(place) = self
            .halted
            .iter()
            .position(|halted| halted.partition == partition)
        {
            let Some(qid) = self.ready_set.select(partition) else {
                break;
            };
            let Some(Halted {
                reply_to, since, ..
            }) = self.halted.remove(place)
            else {
                break;
            };
            let waited = context.now().saturating_sub(since);
            self.statistics.wake_ups += 1;
            self.statistics.halted_fs += waited.as_fs();
            if self.power_optimised {
                self.power_up(reply_to.core, waited);
            }
            let delay = self.latencies.wake_up + self.qwait_latency();
            context.reply(reply_to, u64::from(qid.0), delay);
        }
    }

    /// Sets a ready bit, unless the queue has been removed in the meantime.
    fn activate(&mut self, context: &mut AgentContext<'_>, qid: Qid) {
        if self.monitoring_set.contains(qid) {
            self.ready_set.activate(qid);
            self.resume_halted(context, qid);
        }
    }

    /// Activates a queue when the monitoring set's look-up is over.
    fn activate_after_lookup(&self, context: &mut AgentContext<'_>, qid: Qid) {
        context.wake(context.now() + self.latencies.lookup, u64::from(qid.0));
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

    /// `QWAIT-INIT`. Harts that wait go on waiting.
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
        self.monitoring_set.clear();
        self.ready_set = ReadySet::new(self.monitoring_set.entries(), policy);
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
        let inserted = self.monitoring_set.insert(LineAddress::of(doorbell), qid);
        self.statistics.conflicts += u64::from(inserted == Err(InsertError::Conflict));
        inserted?;
        Ok(qid)
    }

    /// `QWAIT-REMOVE`. Nothing of the queue stays for the next one with its QID.
    fn remove(&mut self, qid: u64) -> Result<(), ErrorCode> {
        let qid = self.qid(qid).ok_or(ErrorCode::QidOutOfRange)?;
        self.statistics.look_ups += 1;
        self.monitoring_set
            .remove(qid)
            .ok_or(ErrorCode::UnknownQid)?;
        self.ready_set.reset(qid);
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
        let reply_to = request.reply_to;
        match self.perform(context, request) {
            Some(Answer::Now { value, delay }) => context.reply(reply_to, value, delay),
            Some(Answer::Later) => {}
            None => context.refuse(reply_to),
        }
    }

    /// A write transaction to a doorbell, or a read that is granted the line exclusively, whose
    /// cache could write it unseen.
    fn is_snooping(&self) -> bool {
        self.monitoring_set.occupied() > 0
    }

    fn ownership_granted(&mut self, context: &mut AgentContext<'_>, line: LineAddress) {
        self.statistics.look_ups += 1;
        if let Some(qid) = self.monitoring_set.snoop(line) {
            self.statistics.activations_by_grant += 1;
            self.activate_after_lookup(context, qid);
        }
    }

    /// A doorbell to be armed has been read at its home. Nobody owns the line at this moment, and
    /// who wants to write it is seen later; so what happens here is atomic with respect to new
    /// work items.
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
        let has_work = data.read((arming.doorbell - line.base()) as usize, 8) != 0;
        self.statistics.look_ups += 1;
        if !has_work {
            self.statistics.arms += u64::from(self.monitoring_set.arm(line));
        }
        let value = match arming.qid {
            None => {
                self.statistics.spurious_wake_ups += u64::from(!has_work);
                u64::from(has_work)
            }
            Some(qid) if has_work => {
                self.statistics.activations_by_reconsider += 1;
                self.activate_after_lookup(context, qid);
                0
            }
            Some(_) => 0,
        };
        context.reply(arming.reply_to, value, self.latencies.lookup);
    }

    /// The monitoring set's look-up is over: the QID reaches the ready set.
    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        self.activate(context, Qid(token as u32));
    }

    fn waiting_for(&self) -> Vec<String> {
        let state = format!(
            "{} queues monitored, {} armed, {} ready but disabled",
            self.monitoring_set.occupied(),
            self.monitoring_set.armed(),
            self.ready_set.ready_but_disabled(),
        );
        let sentence = |halted: &Halted| {
            let core = halted.reply_to.core.0;
            format!("a hart of core {core} waits in QWAIT: no enabled queue is ready ({state})")
        };
        self.halted.iter().map(sentence).collect()
    }

    fn walk(&mut self, walker: &mut dyn Walker) {
        State::walk(self, walker);
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}
