//! The I/O sources: the device that fills the data plane's queues.
//!
//! It takes the place of the paper's "emulated I/O sources running on producer cores" (HyperPlane,
//! Section V-A): it writes like a core, coherently and through a private cache, and is as fast as
//! [`PRODUCERS`] cores, each of which writes one item at a time. Alternatively, cores of the server
//! write the items that it supplies ([`cores`]).

mod control;
mod cores;
mod doorbell_map;
mod setup;
mod used_rings;

use crate::completion::Completions;

use crate::{ArrivalTimer, DeviceRegisters, ProgramSettings, QueueDescriptor, SharedLedger};
use fabric::{
    Agent, AgentContext, AgentId, AgentMessage, Attachment, CacheSpec, LINE_BYTES, LineAddress,
    LineData, MemoryAccess, Observation, RegisterAccess, Request, Time,
};
use state::{State, Walker};
use std::collections::VecDeque;
use workload::SLOT_HEADER_BYTES;
use workload::{Packets, Random};

pub(crate) use control::descriptor_fault;
pub(crate) use cores::Coming;
pub(crate) use doorbell_map::DoorbellMap;
pub use setup::{CONSUMER_BYTES, IoSetup, register};
pub use used_rings::RingsAtStart;

const LINE: u64 = LINE_BYTES as u64;

/// The number of items that are written concurrently. Eight suffice for the tens of millions of
/// items a second that saturate several data plane cores.
const PRODUCERS: usize = 8;

/// Bytes of the message that notifies an agent of a queue: a message-signalled interrupt is a write
/// of 4 bytes (PCI Local Bus Specification, Revision 3.0, Section 6.8).
const SIGNAL_BYTES: u64 = 4;

/// Number of descriptors that are read concurrently when the device is started.
const DESCRIPTORS_AT_ONCE: u32 = 8;

/// The purpose of an access or a timer: the upper 8 bits of its token. The rest is an index. 5, 9
/// and 14 are those of [`ArrivalTimer`].
mod purpose {
    pub const READ_DESCRIPTOR: u64 = 1 << 56;
    pub const READ_DOORBELL: u64 = 2 << 56;
    pub const WRITE_ITEM: u64 = 3 << 56;
    pub const RING: u64 = 4 << 56;
    pub const READ_NEW_DESCRIPTOR: u64 = 6 << 56;
    pub const LOOK_FOR_ROOM: u64 = 7 << 56;
    pub const WAKE: u64 = 8 << 56;
    pub const USE_SLOTS: u64 = 10 << 56;
    pub const SHARE_SLOTS: u64 = 11 << 56;
    pub const FILL: u64 = 12 << 56;
    pub const LEARN: u64 = 13 << 56;
    pub const HAND_OVER: u64 = 15 << 56;
    pub const MASK: u64 = 0xff << 56;
}

/// A flag of a slot: it is the end of its queue, which the producer has closed.
pub(crate) const FLAG_LAST: u64 = 2;

/// The period at which the source checks whether a full queue that is being closed has room for its
/// end.
const ROOM_POLL: Time = Time::from_fs(1_000_000_000);

/// Whether a queue accepts items. The numbers are the values of its register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
enum QueueState {
    /// Its end has been written, and it has no tenant.
    Closed = 0,
    #[default]
    Open = 1,
    /// Arrivals are refused; its end will be written after earlier items.
    Closing = 2,
    /// Its end is being written.
    Ending = 3,
    /// Its descriptor is being read.
    Opening = 4,
}

/// A queue, from its producer's point of view.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Queue {
    state: QueueState,
    /// Number of new tenants for which it has been reopened; it is initially open for the first
    /// one.
    reopened: u64,
    descriptor: QueueDescriptor,
    /// The slot of the next item.
    next_slot: u32,
    /// An upper bound on the number of items in the queue.
    count: u64,
    /// Number of items that have entered it, if the consumer counts the items that it takes.
    rung: u32,
    /// The consumer's count of taken items when last read.
    taken: u32,
    /// Whether the cache has held the doorbell since the count was read, so that it cannot have
    /// changed.
    is_exact: bool,
    /// Items that wait for a read of the consumer's progress, because the queue seems full.
    checking: u64,
    /// Items that wait for a producer or are being written.
    entering: u64,
    /// Items being written, oldest first: indices into `IoSource::writing`.
    writing: VecDeque<u8>,
    /// Number of these that are complete, with their ring in progress.
    ringing: usize,
    /// Number of its initial items if the run began with full rings.
    filled: u32,
}

impl Queue {
    /// The address of the consumer's count of taken items.
    fn counted_at(&self) -> u64 {
        match self.descriptor.taken {
            0 => self.descriptor.doorbell,
            taken => taken,
        }
    }

    /// Handles the value read there.
    fn has_been_counted(&mut self, value: u64) {
        if self.descriptor.taken == 0 {
            // The upper half of a doorbell belongs to its consumers.
            self.count = u64::from(value as u32);
        } else {
            self.taken = value as u32;
            self.count = u64::from(self.rung.wrapping_sub(self.taken));
        }
    }
}

/// An item that a producer is writing.
#[derive(Clone, Copy, Debug, Default, state::State)]
struct Writing {
    queue: u32,
    item: u64,
    /// See [`Packets::kind_of`].
    kind: u8,
    packet_bytes: u32,
    lines_left: u32,
}

/// A static imbalance of the load (HyperPlane, Section V-C).
#[derive(Clone, Copy, Debug)]
struct Imbalance {
    /// Number of active queues that belong to the first core, or the first socket: the first ones.
    first: u64,
    /// Their share of the traffic.
    share: f64,
}

/// The agent that owns the device's registers and fills the queues.
#[derive(state::State)]
#[state(fields)]
pub struct IoSource {
    #[state(fixed)]
    setup: IoSetup,
    arrivals: ArrivalTimer,
    #[state(fixed)]
    rings: RingsAtStart,
    /// The source itself and the tenants, if rings have been used and the directory is to record
    /// their users.
    #[state(fixed)]
    sharers: Option<[AgentId; 2]>,
    /// Bytes of a slot used by an item, and by its result, in whole lines.
    used_bytes: [u64; 2],
    /// Number of initially full rings that have not been announced.
    being_filled: u32,
    #[state(fixed)]
    active_queues: Vec<u32>,
    #[state(fixed)]
    imbalance: Option<Imbalance>,
    queue_choice: Random,
    /// The place in `active_queues` of the next arrival of a warm start that ends by rule, and the
    /// distance to the one after it.
    next_in_turn: u64,
    #[state(fixed)]
    stride: u64,
    registers: DeviceRegisters,
    #[state(fixed)]
    ledger: SharedLedger,
    /// The agent that it notifies of an item in an empty queue.
    #[state(fixed)]
    signal: Option<AgentId>,

    table: u64,
    conflicts: u64,
    completions: Completions,
    descriptors: Vec<QueueDescriptor>,
    descriptors_left: u32,
    queues: Vec<Queue>,
    doorbells: DoorbellMap,
    /// The queues of items that wait for a producer, in order.
    waiting: VecDeque<u32>,
    /// The item of each producer.
    writing: [Writing; PRODUCERS],
    /// The idle producers.
    idle: Vec<u8>,
    /// The cores that write the items, if the device does not.
    cores: Vec<cores::SourceCore>,
    next_item: u64,
    /// The slot that is being assembled; kept to save allocations.
    #[state(fixed)]
    slot: Vec<u8>,
}

/// A step that is coprime to `all`, and some 0.618 of it: steps of this size visit all places, and a
/// few in sequence are spread over them. Each core has consecutive queues.
fn stride(all: u64) -> u64 {
    let is_coprime = |&stride: &u64| {
        let (mut one, mut other) = (all, stride);
        while other != 0 {
            (one, other) = (other, one % other);
        }
        one == 1
    };
    let golden = all * 618 / 1000;
    let near = (1..=all).filter(is_coprime);
    near.min_by_key(|stride| stride.abs_diff(golden))
        .unwrap_or(1)
}

impl State for IoSource {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        // The tenants share it; it is walked once.
        self.ledger.borrow_mut().walk(walker);
    }
}

impl IoSource {
    /// A source that waits for the program to write the register START. `active_queues` must not be
    /// empty.
    pub fn new(
        setup: IoSetup,
        arrivals: ArrivalTimer,
        active_queues: Vec<u32>,
        queue_choice: Random,
        (packets, settings): (Packets, ProgramSettings),
        ledger: SharedLedger,
    ) -> IoSource {
        ledger.borrow_mut().ring_slots = setup.ring_slots.into();
        IoSource {
            doorbells: DoorbellMap::new(setup.doorbells),
            setup,
            arrivals,
            rings: RingsAtStart::New,
            sharers: None,
            used_bytes: [0; 2],
            being_filled: 0,
            stride: stride(active_queues.len() as u64),
            next_in_turn: 0,
            active_queues,
            imbalance: None,
            queue_choice,
            registers: DeviceRegisters::new(setup, settings, packets, ledger.clone()),
            ledger,
            signal: None,
            table: 0,
            conflicts: 0,
            completions: Completions::None,
            descriptors: Vec::new(),
            descriptors_left: 0,
            queues: Vec::new(),
            waiting: VecDeque::new(),
            writing: [Writing::default(); PRODUCERS],
            idle: (0..PRODUCERS as u8).rev().collect(),
            cores: Vec::new(),
            next_item: 0,
            slot: Vec::new(),
        }
    }

    /// The same source, which notifies this agent of each item that has entered an empty queue,
    /// once it has rung the doorbell and, if the descriptor has one, written the queue's word. The
    /// header of the message is the queue's number.
    pub fn with_signal(self, signal: Option<AgentId>) -> IoSource {
        IoSource { signal, ..self }
    }

    /// Gives the queues of the first core, as scale-out divides them, `1 + imbalance` times an
    /// equal share of the traffic. An error is a sentence about `traffic.imbalance`.
    pub fn with_imbalance(mut self, imbalance: f64) -> Result<IoSource, String> {
        if imbalance == 0.0 {
            return Ok(self);
        }
        let cores = self.setup.data_plane_cores;
        let most = f64::from(cores) - 1.0;
        if imbalance > most {
            return Err(format!(
                "traffic.imbalance is {imbalance}, and with {cores} data plane cores (\
                 server.data_plane_cores) it can be at most {most}: then all traffic is one core's"
            ));
        }
        let first = self.first_part(cores);
        if first == 0 || first == self.active_queues.len() {
            return Err(format!(
                "traffic.imbalance is {imbalance}, but of the queues that have traffic {first} are \
                 the first core's and {} the other cores': both must have some",
                self.active_queues.len() - first
            ));
        }
        self.imbalance = Some(Imbalance {
            first: first as u64,
            share: (1.0 + imbalance) / f64::from(cores),
        });
        Ok(self)
    }

    /// Number of active queues in the first of `parts` equal parts of all queues.
    fn first_part(&self, parts: u32) -> usize {
        let end = self.setup.queues / parts;
        self.active_queues.partition_point(|&queue| queue < end)
    }

    /// Gives the queues of the first socket `1 + imbalance` times an equal share of the traffic. An
    /// error is a sentence about `traffic.socket_imbalance`.
    pub fn with_socket_imbalance(mut self, imbalance: f64) -> Result<IoSource, String> {
        if imbalance == 0.0 {
            return Ok(self);
        }
        if self.setup.second_socket.is_none() {
            return Err(format!(
                "traffic.socket_imbalance is {imbalance}, and there is one socket \
                 (server.fabric.sockets)"
            ));
        }
        let first = self.first_part(2);
        if first == 0 || first == self.active_queues.len() {
            return Err(format!(
                "traffic.socket_imbalance is {imbalance}, but of the queues that have traffic \
                 {first} are the first socket's and {} the other's: both must have some",
                self.active_queues.len() - first
            ));
        }
        self.imbalance = Some(Imbalance {
            first: first as u64,
            share: (1.0 + imbalance) / 2.0,
        });
        Ok(self)
    }

    /// The queue of the next arrival. A warm start that ends when nearly all queues have been used
    /// uses them in turn: it would take four times as long if they were chosen at random.
    fn choose_queue(&mut self) -> u32 {
        let all = self.active_queues.len() as u64;
        if self.ledger.borrow().warms_up_by_rule() {
            let place = self.next_in_turn;
            self.next_in_turn = (place + self.stride) % all;
            return self.active_queues[place as usize];
        }
        let random = &mut self.queue_choice;
        let choice = match self.imbalance {
            None => random.below(all),
            Some(Imbalance { first, share }) if random.unit() < share => random.below(first),
            Some(Imbalance { first, .. }) => first + random.below(all - first),
        };
        self.active_queues[choice as usize]
    }

    /// Its attachment to the fabric: it owns its registers. Its cache is as large as those of its
    /// producers together. With two sockets, each has such producers, which write the queues in its
    /// memory.
    pub fn attachment(setup: &IoSetup, tile: usize) -> Attachment {
        Attachment {
            tile,
            owns: Some(setup.registers),
            snoops: None,
            on_each_socket: true,
            at_memory: None,
            cache: Some(CacheSpec {
                size_bytes: PRODUCERS as u64 * CacheSpec::default().size_bytes,
                mshrs: PRODUCERS as u32 * CacheSpec::default().mshrs,
                ..CacheSpec::default()
            }),
        }
    }

    /// Number of doorbell addresses that the program reports to have given up because of conflicts
    /// (the register CONFLICTS).
    pub fn conflicts(&self) -> u64 {
        self.conflicts
    }
}

impl IoSource {
    /// Starts the traffic, once all descriptors have been read.
    fn start(&mut self, context: &mut AgentContext<'_>) {
        let descriptors = std::mem::take(&mut self.descriptors);
        for (queue, descriptor) in descriptors.iter().enumerate() {
            let fault = descriptor_fault(&self.setup, context, self.table, queue, descriptor)
                .or_else(|| self.completion_fault(context, queue, descriptor))
                .or_else(|| {
                    (!self.doorbells.insert(descriptor.doorbell, queue as u32))
                        .then(|| format!("Queue {queue} has the same doorbell as another queue."))
                });
            if let Some(fault) = fault {
                self.ledger.borrow_mut().set_fault(fault);
                return;
            }
        }
        self.queues = descriptors
            .iter()
            .map(|&descriptor| Queue {
                descriptor,
                ..Queue::default()
            })
            .collect();
        self.ledger
            .borrow_mut()
            .start(self.table, descriptors, context.now());
        self.prepare_rings(context);
    }

    /// Handles an item's arrival at the source.
    fn offer(&mut self, context: &mut AgentContext<'_>, number: u32) {
        self.ledger.borrow_mut().generated(number);
        if !self.cores.is_empty() {
            return self.hand_over(context, number);
        }
        let queue = &mut self.queues[number as usize];
        if queue.state != QueueState::Open {
            self.ledger.borrow_mut().refused(number);
        } else if has_room(&self.setup, queue) {
            self.accept(context, number);
        } else if queue.checking > 0 {
            // The pending answer serves this item, too.
            queue.checking += 1;
        } else if queue.is_exact {
            self.ledger.borrow_mut().dropped(number);
        } else {
            // The data plane may have taken items since. The item waits for the answer.
            queue.checking = 1;
            // Only losses of doorbells' lines are tracked.
            queue.is_exact = queue.descriptor.taken == 0;
            let address = queue.counted_at();
            context.access(
                MemoryAccess::Read { address },
                purpose::READ_DOORBELL | u64::from(number),
            );
        }
    }

    /// Handles the doorbell of a queue that seemed full, or its consumer's count.
    fn checked(&mut self, context: &mut AgentContext<'_>, number: u32, value: u64) {
        let queue = &mut self.queues[number as usize];
        let waiting = std::mem::take(&mut queue.checking);
        queue.has_been_counted(value);
        for _ in 0..waiting {
            if has_room(&self.setup, &self.queues[number as usize]) {
                self.accept(context, number);
            } else {
                self.ledger.borrow_mut().dropped(number);
            }
        }
        self.end_if_possible(context, number);
    }

    /// Accepts an item into its queue; it waits for a free producer.
    fn accept(&mut self, context: &mut AgentContext<'_>, number: u32) {
        self.queues[number as usize].entering += 1;
        match self.idle.pop() {
            Some(producer) => self.write_item(context, producer, number),
            None => self.waiting.push_back(number),
        }
    }

    /// Assembles the next item, or the end of a queue; returns its number and its kind.
    fn compose(&mut self, is_end: bool) -> (u64, u8) {
        let (mut item, mut kind) = (u64::MAX, 0);
        self.slot.clear();
        self.slot.resize(SLOT_HEADER_BYTES as usize, 0);
        if is_end {
            self.slot[4..8].copy_from_slice(&(FLAG_LAST as u32).to_le_bytes());
        } else {
            item = self.next_item;
            self.next_item += 1;
            kind = self.registers.append_next(&mut self.slot);
        }
        let packet_bytes = self.slot.len() as u32 - SLOT_HEADER_BYTES;
        self.slot[0..4].copy_from_slice(&packet_bytes.to_le_bytes());
        self.slot[8..16].copy_from_slice(&item.to_le_bytes());
        (item, kind)
    }

    /// Writes an item into the next slot of a queue: all its lines at once.
    fn write_item(&mut self, context: &mut AgentContext<'_>, producer: u8, number: u32) {
        let is_end = self.queues[number as usize].state == QueueState::Ending;
        let (item, kind) = self.compose(is_end);
        self.writing[usize::from(producer)] = Writing {
            queue: number,
            item,
            kind,
            packet_bytes: self.slot.len() as u32 - SLOT_HEADER_BYTES,
            lines_left: self.slot.len().div_ceil(LINE_BYTES) as u32,
        };
        let queue = &mut self.queues[number as usize];
        queue.writing.push_back(producer);
        let start =
            queue.descriptor.ring + u64::from(queue.next_slot) * u64::from(self.setup.slot_bytes);
        queue.next_slot = (queue.next_slot + 1) % self.setup.ring_slots;
        for (place, bytes) in self.slot.chunks(LINE_BYTES).enumerate() {
            let mut data = LineData::ZERO;
            data.0[..bytes.len()].copy_from_slice(bytes);
            context.access(
                MemoryAccess::Write {
                    address: start + place as u64 * LINE,
                    bytes: bytes.len() as u8,
                    data,
                },
                purpose::WRITE_ITEM | u64::from(producer),
            );
        }
    }

    /// Handles the completed write of a line of an item.
    fn line_written(&mut self, context: &mut AgentContext<'_>, producer: u32) {
        let writing = &mut self.writing[producer as usize];
        writing.lines_left -= 1;
        let number = writing.queue;
        self.announce(context, number);
    }

    /// Announces the complete items of a queue, in order: rings the doorbell, or writes a
    /// completion. Completions are written one at a time, so that they arrive in order, as writes
    /// over PCIe do.
    fn announce(&mut self, context: &mut AgentContext<'_>, number: u32) {
        let queue = &mut self.queues[number as usize];
        while let Some(&next) = queue.writing.get(queue.ringing) {
            let writing = &self.writing[usize::from(next)];
            let waits = self.completions != Completions::None && queue.ringing > 0;
            if writing.lines_left > 0 || waits {
                break;
            }
            queue.ringing += 1;
            context.access(
                self.completions.announce(
                    &queue.descriptor,
                    self.setup.ring_slots,
                    queue.rung,
                    writing.packet_bytes,
                ),
                purpose::RING | u64::from(number),
            );
        }
    }

    /// Handles an item in a queue that was empty: writes the queue's word, if it has one, and
    /// notifies the agent, if there is one.
    fn tell_of_first(&self, context: &mut AgentContext<'_>, number: u32) {
        let QueueDescriptor {
            wake, wake_addend, ..
        } = self.queues[number as usize].descriptor;
        if wake == 0 {
            return self.tell_of(context, number);
        }
        context.access(
            MemoryAccess::FetchAdd {
                address: wake,
                addend: wake_addend,
            },
            purpose::WAKE | u64::from(number),
        );
    }

    /// Notifies the agent, if there is one, of an item in a queue that was empty.
    fn tell_of(&self, context: &mut AgentContext<'_>, number: u32) {
        if let Some(agent) = self.signal {
            let message = AgentMessage {
                header: number.into(),
                data: LineData::ZERO,
            };
            context.send(agent, SIGNAL_BYTES, message);
        }
    }

    /// Frees the producer of the oldest item, which has been announced. `before` is the doorbell's
    /// previous count, if it has been rung.
    fn rung(&mut self, context: &mut AgentContext<'_>, number: u32, before: u64) {
        let queue = &mut self.queues[number as usize];
        let before = match self.completions {
            Completions::None => before,
            _ => queue.rung.into(),
        };
        // The upper half of a doorbell belongs to its consumers.
        queue.rung = (before as u32).wrapping_add(1);
        queue.count = u64::from(queue.rung.wrapping_sub(queue.taken));
        queue.entering -= 1;
        queue.ringing -= 1;
        if before as u32 == 0 {
            self.tell_of_first(context, number);
        }
        let queue = &mut self.queues[number as usize];
        let Some(producer) = queue.writing.pop_front() else {
            return;
        };
        let Writing { item, kind, .. } = self.writing[usize::from(producer)];
        if queue.state == QueueState::Ending {
            queue.state = QueueState::Closed;
        } else {
            self.ledger
                .borrow_mut()
                .arrived(number, (item, kind), context.now());
        }
        match self.waiting.pop_front() {
            Some(next) => self.write_item(context, producer, next),
            None => self.idle.push(producer),
        }
        if self.completions != Completions::None {
            self.announce(context, number);
        }
        self.end_if_possible(context, number);
    }
}

/// Whether one more item fits into a queue, to its producer's knowledge. One slot stays free,
/// because it may still be being read (see `io_take` in `guest/include/io.h`).
fn has_room(setup: &IoSetup, queue: &Queue) -> bool {
    queue.count + queue.entering + 1 < u64::from(setup.queue_capacity)
}

impl Agent for IoSource {
    fn name(&self) -> String {
        "I/O sources".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        let register = request.register(self.setup.registers.start);
        if let Some((offset, RegisterAccess::Read)) = register
            && let Some(core) = register::of_core(offset, register::SOURCE_ARRIVED)
        {
            if !self.ask_for_arrivals(context, core, request.reply_to) {
                context.refuse(request.reply_to);
            }
            return;
        }
        let answer = register.and_then(|(offset, access)| match access {
            RegisterAccess::Read => self.read_register(offset),
            RegisterAccess::Write(value) => {
                self.write_register(context, offset, value).then_some(0)
            }
        });
        context.answer(request.reply_to, answer);
    }

    fn line_lost(&mut self, _context: &mut AgentContext<'_>, line: LineAddress) {
        if let Some(queue) = self.doorbells.queue(line)
            && let Some(queue) = self.queues.get_mut(queue as usize)
        {
            queue.is_exact = false;
        }
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        _access: MemoryAccess,
        data: LineData,
    ) {
        let index = token as u32;
        match token & purpose::MASK {
            purpose::READ_DESCRIPTOR => {
                self.descriptors[index as usize] = QueueDescriptor::from_line(&data);
                self.descriptors_left -= 1;
                if index + DESCRIPTORS_AT_ONCE < self.setup.queues {
                    let next = index + DESCRIPTORS_AT_ONCE;
                    self.read_descriptor(context, purpose::READ_DESCRIPTOR, next);
                }
                if self.descriptors_left == 0 {
                    self.start(context);
                }
            }
            purpose::READ_DOORBELL => self.checked(context, index, data.read(0, 8)),
            purpose::WRITE_ITEM => self.line_written(context, index),
            purpose::READ_NEW_DESCRIPTOR => {
                self.reopen(context, index, QueueDescriptor::from_line(&data));
            }
            purpose::LOOK_FOR_ROOM => self.looked_for_room(context, index, data.read(0, 8)),
            purpose::RING => self.rung(context, index, data.read(0, 8)),
            purpose::WAKE => self.tell_of(context, index),
            purpose::FILL => self.filled(context, index, data.read(0, 8)),
            purpose::HAND_OVER => self.handed_over(context, index),
            _ => {}
        }
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        match token & purpose::MASK {
            purpose::LOOK_FOR_ROOM => return self.end_if_possible(context, token as u32),
            purpose::LEARN => return self.learn_lengths(context),
            purpose::USE_SLOTS => return self.use_slots(context, token as u32),
            purpose::SHARE_SLOTS => return self.share_slots(context, token as u32),
            purpose::FILL => return self.fill_ring(context, token as u32),
            _ => {}
        }
        let Some(items) = self.arrivals.due(context, token, &self.ledger) else {
            return;
        };
        let queue = self.choose_queue();
        for _ in 0..items {
            self.offer(context, queue);
        }
        self.arrivals.await_arrival(context);
    }

    /// Handles a hart's removal of items from a queue: it has decremented the doorbell, or
    /// incremented the consumer's count.
    fn observe(&mut self, observation: &Observation) {
        if self.setup.consumers.contains(observation.address) {
            let offset = observation.address - self.setup.consumers.start;
            let items = (observation.value as u32).wrapping_sub(observation.before as u32);
            if offset % CONSUMER_BYTES == LINE && items as i32 > 0 {
                let queue = (offset / CONSUMER_BYTES) as u32;
                self.ledger
                    .borrow_mut()
                    .claimed(queue, items, observation.at);
            }
            return;
        }
        let Some(number) = self.doorbells.queue(LineAddress::of(observation.address)) else {
            return;
        };
        let Some(queue) = self.queues.get(number as usize) else {
            return;
        };
        // The upper half of a doorbell belongs to its consumers.
        let items = (observation.before as u32).wrapping_sub(observation.value as u32);
        if queue.descriptor.doorbell != observation.address {
            return;
        }
        if items as i32 > 0 {
            let mut ledger = self.ledger.borrow_mut();
            ledger.claimed(number, items, observation.at);
        } else if items != 0 && !self.cores.is_empty() {
            self.rung_by_core(number, items.wrapping_neg(), observation.at);
        }
    }

    fn waiting_for(&self) -> Vec<String> {
        if self.registers.is_started() {
            Vec::new()
        } else {
            vec!["The I/O sources wait for the program to write their register START.".to_string()]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stride;

    #[test]
    fn places_in_turn_are_all_places_and_spread() {
        for all in [1, 2, 3, 7, 20, 100, 145, 400, 1000] {
            let step = stride(all);
            let places: Vec<u64> = (0..all).map(|number| number * step % all).collect();
            let mut sorted = places.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..all), "{all}");
            // Four cores have a quarter each: none gets more than four of eight arrivals, or none.
            for window in places.windows(8).filter(|_| all >= 20) {
                for core in 0..4 {
                    let own = window.iter().filter(|&&place| place * 4 / all == core);
                    assert!((1..=4).contains(&own.count()), "{all}: {window:?}");
                }
            }
        }
    }
}
