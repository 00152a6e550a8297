//! The I/O sources: the device that fills the data plane's queues.
//!
//! It stands for the paper's "emulated I/O sources running on producer cores" (HyperPlane, Section
//! V-A): it writes like a core, coherently and through a private cache, and is as fast as
//! [`PRODUCERS`] cores, each of which writes one item at a time.

use crate::program::{ProgramRegisters, ProgramSettings, write_counter};
use crate::{QueueDescriptor, SharedLedger};
use fabric::{
    AddressRange, Agent, AgentContext, AgentId, AgentMessage, Attachment, CacheSpec, LINE_BYTES,
    LineAddress, LineData, MemoryAccess, Observation, RegisterAccess, Request, Time,
};
use state::{State, Walker};
use std::collections::VecDeque;
use workload::SLOT_HEADER_BYTES;
use workload::{Arrival, ArrivalProcess, ItemKind, Packets, Random};

const LINE: u64 = LINE_BYTES as u64;

/// How many items are written at one time. With eight, the tens of millions of items a second that
/// saturate several data plane cores can be written.
const PRODUCERS: usize = 8;

/// Bytes of the message that tells an agent of a queue: a message-signalled interrupt is a write of
/// 4 bytes (PCI Local Bus Specification, Revision 3.0, Section 6.8).
const SIGNAL_BYTES: u64 = 4;

/// How many descriptors are read at one time when the device is started.
const DESCRIPTORS_AT_ONCE: u32 = 8;

/// What the program reads from the device's registers (`struct io_registers` in
/// `guest/include/io.h`).
#[derive(Clone, Copy, Debug)]
pub struct IoSetup {
    /// Where the registers are.
    pub registers: AddressRange,
    /// Where those of the tenants begin, 8 bytes for each queue: whether it has a tenant; 2 while
    /// one joins. A program writes 1 for a tenant that joins a queue whose last one has left.
    pub tenant_registers: u64,
    /// How many queues there are.
    pub queues: u32,
    /// Slots in each tenant ring, a power of two. A device queue holds one item less.
    pub queue_capacity: u32,
    /// Slots in each device ring, a power of two: what the queue holds, and what may still be being
    /// read after it was counted down.
    pub ring_slots: u32,
    /// Bytes in a slot, a multiple of 64.
    pub slot_bytes: u32,
    /// Bytes of the longest item.
    pub packet_bytes: u32,
    /// How many harts run the data plane.
    pub data_plane_cores: u32,
    /// How many of them share their queues.
    pub cluster_cores: u32,
    /// How many items a visit to a queue takes at most.
    pub batch: u32,
    /// Whether items of one queue are processed one after the other.
    pub in_order: bool,
    /// How they learn of work. Its meaning is the program's.
    pub notify: u64,
    /// Which of several queues is next. Its meaning is the program's.
    pub policy: u64,
    /// Where device doorbells can be.
    pub doorbells: AddressRange,
    /// Where tenant doorbells can be.
    pub tenant_doorbells: AddressRange,
    /// Memory for the consumers of queues whose doorbells are never counted down: two lines for
    /// each queue. The second begins with how many items have been taken.
    pub consumers: AddressRange,
    /// Where the main memory of the second socket begins, if there is one. The second half of the
    /// doorbells of each kind is in its memory, too, and that of the queues should be.
    pub second_socket: Option<u64>,
}

impl IoSetup {
    /// From the first device doorbell to the last tenant doorbell; in between are only the
    /// consumers.
    pub fn all_doorbells(&self) -> AddressRange {
        AddressRange {
            start: self.doorbells.start,
            length: self.tenant_doorbells.end() - self.doorbells.start,
        }
    }
}

/// Bytes of the memory of a queue's consumer: `struct io_consumer` in `guest/include/io.h`.
pub const CONSUMER_BYTES: u64 = 2 * LINE;

/// Offsets of the registers: `struct io_registers` in `guest/include/io.h`.
pub mod register {
    fabric::registers! { u64:
        /// How many queues there are.
        QUEUES = 0x00;
        /// Slots in each tenant ring.
        CAPACITY = 0x08;
        /// Bytes in a slot.
        SLOT_BYTES = 0x10;
        /// How many harts run the data plane.
        DATA_PLANE_CORES = 0x18;
        /// How they learn of work.
        NOTIFY = 0x20;
        /// Which of several queues is next.
        POLICY = 0x28;
        /// Where device doorbells can be ...
        DOORBELL_START = 0x30;
        /// ... and in how many bytes.
        DOORBELL_BYTES = 0x38;
        /// Where tenant doorbells can be ...
        TENANT_DOORBELL_START = 0x40;
        /// ... and in how many bytes.
        TENANT_DOORBELL_BYTES = 0x48;
        /// The table of descriptors.
        TABLE = 0x50;
        /// 1: begin.
        START = 0x58;
        /// Doorbell addresses that were given up.
        CONFLICTS = 0x60;
        /// Slots in each device ring.
        RING_SLOTS = 0x68;
        /// How many harts share their queues.
        CLUSTER_CORES = 0x70;
        /// Items that a visit to a queue takes, at most.
        BATCH = 0x78;
        /// 1: items of a queue are processed one after the other.
        IN_ORDER = 0x80;
        /// A name, eight bytes at a time.
        NAME = 0x88;
        /// The value of the parameter of that name.
        PARAMETER = 0x90;
        /// The number of the counter of that name.
        COUNTER = 0x98;
        /// What the items are: [`workload::ItemKind`].
        ITEMS = 0xa0;
        /// Where memory begins that is to be as if it had been cleared.
        CLEARED = 0xa8;
        /// How many bytes of it; clears them.
        CLEARED_BYTES = 0xb0;
        /// Where the memory of the second socket begins; 0: there is none.
        SECOND_SOCKET = 0xb8;
        /// Memory for the consumers of queues.
        CONSUMERS = 0xc0;
        /// The counters, 8 bytes each.
        COUNTERS = 0x800;
        /// The weights of the queues, 8 bytes each.
        WEIGHTS = 0x1_0000;
        /// The states of the queues, 8 bytes each.
        STATES = 0x2_0000;
    }

    /// How many counters a program can have.
    pub const MAX_COUNTERS: u64 = 128;

    /// Which counter a register is, if it is one.
    pub fn counter(offset: u64) -> Option<usize> {
        let number = offset.checked_sub(COUNTERS)? / 8;
        (number < MAX_COUNTERS).then_some(number as usize)
    }
}

/// What an access or a timer was for: the upper 8 bits of its token. The rest is an index.
mod purpose {
    pub const READ_DESCRIPTOR: u64 = 1 << 56;
    pub const READ_DOORBELL: u64 = 2 << 56;
    pub const WRITE_ITEM: u64 = 3 << 56;
    pub const RING: u64 = 4 << 56;
    pub const ARRIVAL: u64 = 5 << 56;
    pub const READ_NEW_DESCRIPTOR: u64 = 6 << 56;
    pub const LOOK_FOR_ROOM: u64 = 7 << 56;
    pub const WAKE: u64 = 8 << 56;
    pub const CHANGE: u64 = 9 << 56;
    pub const MASK: u64 = 0xff << 56;
}

/// In the flags of a slot: it is the end of its queue, behind which the producer has closed it.
pub(crate) const FLAG_LAST: u64 = 2;

/// How often the source looks whether a full queue that is to be closed has room for its end.
const ROOM_POLL: Time = Time::from_fs(1_000_000_000);

/// Whether a queue takes items. The numbers are what its register says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum QueueState {
    /// Its end has been written: there is no queue.
    Closed = 0,
    #[default]
    Open = 1,
    /// What comes is refused; its end is to be written behind what came before.
    Closing = 2,
    /// Its end is being written.
    Ending = 3,
    /// Its descriptor is being read.
    Opening = 4,
}

/// A queue, as its producer knows it.
#[derive(Clone, Debug, Default)]
struct Queue {
    state: QueueState,
    /// For how many new tenants it has been opened: the first one found it open.
    reopened: u64,
    descriptor: QueueDescriptor,
    /// The slot that the next item goes to.
    next_slot: u32,
    /// The queue has at most this many items.
    count: u64,
    /// How many have come into it, if the consumer counts those that it takes.
    rung: u32,
    /// How many of them it had taken when that was last read.
    taken: u32,
    /// The cache has held the doorbell since the count was read: nobody can have changed it.
    is_exact: bool,
    /// Items that wait for what its consumer has taken, which is being read because the queue looks
    /// full.
    checking: u64,
    /// Items on their way into the queue: those that wait for a producer, and those being written.
    entering: u64,
    /// Items being written, oldest first: indices into `IoSource::writing`.
    writing: VecDeque<u8>,
    /// Of those, how many are whole, and their ring is on its way.
    ringing: usize,
}

state::choice!(QueueState {
    Closed,
    Open,
    Closing,
    Ending,
    Opening
});

state::plain!(Queue {
    state,
    reopened,
    descriptor,
    next_slot,
    count,
    rung,
    taken,
    is_exact,
    checking,
    entering,
    writing,
    ringing,
});

impl Queue {
    /// Where the consumer says how many items it has taken.
    fn counted_at(&self) -> u64 {
        match self.descriptor.taken {
            0 => self.descriptor.doorbell,
            taken => taken,
        }
    }

    /// What was read there.
    fn has_been_counted(&mut self, value: u64) {
        if self.descriptor.taken == 0 {
            // The upper half of a doorbell is its consumers'.
            self.count = u64::from(value as u32);
        } else {
            self.taken = value as u32;
            self.count = u64::from(self.rung.wrapping_sub(self.taken));
        }
    }
}

/// A producer's item.
#[derive(Clone, Copy, Debug, Default)]
struct Writing {
    queue: u32,
    item: u64,
    /// See [`ItemKind::kind_of`].
    kind: u8,
    lines_left: u32,
}

state::component!(Writing {
    queue,
    item,
    kind,
    lines_left
});

/// A static imbalance of the load (HyperPlane, Section V-C).
#[derive(Clone, Copy, Debug)]
struct Imbalance {
    /// How many of the active queues are the first core's, or the first socket's: the first ones.
    first: u64,
    /// The part of the traffic that goes to them.
    share: f64,
}

/// The agent that owns the device's registers and fills the queues.
pub struct IoSource {
    setup: IoSetup,
    arrivals: ArrivalProcess,
    /// The arrivals of the warm start, if there is one.
    warm_arrivals: Option<ArrivalProcess>,
    /// The warm start is over, or there is none.
    is_warm: bool,
    active_queues: Vec<u32>,
    imbalance: Option<Imbalance>,
    queue_choice: Random,
    packets: Packets,
    ledger: SharedLedger,
    program: ProgramRegisters,
    /// Whom it tells of an item that came into an empty queue.
    signal: Option<AgentId>,

    table: u64,
    is_started: bool,
    conflicts: u64,
    /// Where the memory begins that is to be as if it had been cleared.
    cleared: u64,
    items: ItemKind,
    descriptors: Vec<QueueDescriptor>,
    descriptors_left: u32,
    queues: Vec<Queue>,
    doorbells: DoorbellMap,
    next_arrival: Arrival,
    /// The queues of items that wait for a producer.
    waiting: VecDeque<u32>,
    /// What each producer writes.
    writing: [Writing; PRODUCERS],
    /// The producers that have nothing to do.
    idle: Vec<u8>,
    next_item: u64,
    /// The slot that is being put together; kept to save allocations.
    slot: Vec<u8>,
}

impl State for IoSource {
    fn walk(&mut self, walker: &mut dyn Walker) {
        let items = self.items;
        state::fields!(
            self,
            walker,
            IoSource {
                setup: fixed,
                arrivals,
                warm_arrivals: inside,
                is_warm,
                active_queues: fixed,
                imbalance: fixed,
                queue_choice,
                packets,
                items,
                ledger: fixed,
                program,
                signal: fixed,
                table,
                is_started,
                conflicts,
                cleared,
                descriptors,
                descriptors_left,
                queues,
                doorbells,
                next_arrival,
                waiting,
                writing,
                idle,
                next_item,
                slot: fixed,
            }
        );
        if self.items != items
            && let Err(error) = self.packets.set_kind(self.items)
        {
            walker.refuse(error.to_string());
        }
        // The tenants have it, too; it is walked once.
        self.ledger.borrow_mut().walk(walker);
    }
}

impl IoSource {
    /// A source that waits for the program to write the register START. `active_queues` may not be
    /// empty.
    pub fn new(
        setup: IoSetup,
        arrivals: ArrivalProcess,
        active_queues: Vec<u32>,
        queue_choice: Random,
        packets: Packets,
        ledger: SharedLedger,
    ) -> IoSource {
        ledger.borrow_mut().ring_slots = setup.ring_slots.into();
        IoSource {
            doorbells: DoorbellMap::new(setup.doorbells),
            setup,
            arrivals,
            warm_arrivals: None,
            is_warm: true,
            active_queues,
            imbalance: None,
            queue_choice,
            packets,
            ledger,
            program: ProgramRegisters::default(),
            signal: None,
            table: 0,
            is_started: false,
            conflicts: 0,
            cleared: 0,
            items: ItemKind::Packets,
            descriptors: Vec::new(),
            descriptors_left: 0,
            queues: Vec::new(),
            next_arrival: Arrival {
                gap: Time::ZERO,
                items: 0,
            },
            waiting: VecDeque::new(),
            writing: [Writing::default(); PRODUCERS],
            idle: (0..PRODUCERS as u8).rev().collect(),
            next_item: 0,
            slot: Vec::new(),
        }
    }

    /// The same source, whose program is given `settings`.
    pub fn with_settings(self, settings: ProgramSettings) -> IoSource {
        self.ledger.borrow_mut().program_counters = settings.prepared.counters.clone();
        IoSource {
            program: ProgramRegisters::new(settings),
            ..self
        }
    }

    /// The same source, which tells this agent of each item that came into an empty queue, once it
    /// has rung the doorbell and, if the descriptor has one, written the queue's word. The header
    /// of the message is the queue's number.
    pub fn with_signal(self, signal: Option<AgentId>) -> IoSource {
        IoSource { signal, ..self }
    }

    /// Begins with these arrivals, until its timer is set to [`IoSource::CHANGE`].
    pub fn with_warm_start(self, arrivals: ArrivalProcess) -> IoSource {
        IoSource {
            warm_arrivals: Some(arrivals),
            is_warm: false,
            ..self
        }
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

    /// How many of the active queues are in the first of so many equal parts of all.
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

    /// The queue of the next arrival.
    fn choose_queue(&mut self) -> u32 {
        let all = self.active_queues.len() as u64;
        let random = &mut self.queue_choice;
        let choice = match self.imbalance {
            None => random.below(all),
            Some(Imbalance { first, share }) if random.unit() < share => random.below(first),
            Some(Imbalance { first, .. }) => first + random.below(all - first),
        };
        self.active_queues[choice as usize]
    }

    /// The token of the timer at which the warm start is over: the arrivals change, and what is
    /// delivered from then on is measured.
    pub const CHANGE: u64 = purpose::CHANGE;

    /// How to attach it: it owns its registers. Its cache is as large as those of its producers
    /// together. Of two sockets each has such producers, which write the queues in its memory.
    pub fn attachment(setup: &IoSetup, tile: usize) -> Attachment {
        Attachment {
            tile,
            owns: Some(setup.registers),
            snoops: None,
            on_each_socket: true,
            cache: Some(CacheSpec {
                size_bytes: PRODUCERS as u64 * CacheSpec::default().size_bytes,
                mshrs: PRODUCERS as u32 * CacheSpec::default().mshrs,
                ..CacheSpec::default()
            }),
        }
    }

    /// How many doorbell addresses the program gave up because they conflicted, by its own account
    /// (the register CONFLICTS).
    pub fn conflicts(&self) -> u64 {
        self.conflicts
    }

    fn read_register(&mut self, offset: u64) -> Option<u64> {
        let setup = &self.setup;
        Some(match offset {
            register::QUEUES => u64::from(setup.queues),
            register::CAPACITY => u64::from(setup.queue_capacity),
            register::SLOT_BYTES => u64::from(setup.slot_bytes),
            register::DATA_PLANE_CORES => u64::from(setup.data_plane_cores),
            register::NOTIFY => setup.notify,
            register::POLICY => setup.policy,
            register::DOORBELL_START => setup.doorbells.start,
            register::DOORBELL_BYTES => setup.doorbells.length,
            register::TENANT_DOORBELL_START => setup.tenant_doorbells.start,
            register::TENANT_DOORBELL_BYTES => setup.tenant_doorbells.length,
            register::TABLE => self.table,
            register::START => u64::from(self.is_started),
            register::CONFLICTS => self.conflicts,
            register::RING_SLOTS => u64::from(setup.ring_slots),
            register::CLUSTER_CORES => u64::from(setup.cluster_cores),
            register::BATCH => u64::from(setup.batch),
            register::IN_ORDER => u64::from(setup.in_order),
            register::ITEMS => self.items as u64,
            register::CONSUMERS => setup.consumers.start,
            register::SECOND_SOCKET => setup.second_socket.unwrap_or(0),
            register::PARAMETER => self.program.parameter()?,
            register::COUNTER => self
                .program
                .add_counter(&mut self.ledger.borrow_mut().program_counters)?,
            _ if offset >= register::STATES => {
                let number = ((offset - register::STATES) / 8) as usize;
                let state = self.queues.get(number).map(|queue| queue.state);
                // Before their descriptors are read all are on the way to be open.
                (number < setup.queues as usize)
                    .then_some(state.unwrap_or(QueueState::Opening) as u64)?
            }
            _ if offset >= register::WEIGHTS => {
                let queue = (offset - register::WEIGHTS) / 8;
                (queue < u64::from(setup.queues)).then(|| self.program.weight(queue))?
            }
            _ => return None,
        })
    }

    /// Whether the register can be written, with this value.
    fn write_register(&mut self, context: &mut AgentContext<'_>, offset: u64, value: u64) -> bool {
        match offset {
            register::TABLE if !self.is_started && value.is_multiple_of(LINE) => {
                self.table = value;
            }
            register::START if !self.is_started && value == 1 => {
                let last_line = self.table + (u64::from(self.setup.queues) - 1) * LINE;
                if !context.in_memory(self.table) || !context.in_memory(last_line) {
                    return false;
                }
                if let Some(sentence) = self.program.unknown_parameter() {
                    self.ledger.borrow_mut().set_wrong_description(sentence);
                }
                self.is_started = true;
                self.descriptors = vec![QueueDescriptor::default(); self.setup.queues as usize];
                self.descriptors_left = self.setup.queues;
                for queue in 0..DESCRIPTORS_AT_ONCE.min(self.setup.queues) {
                    self.read_descriptor(context, purpose::READ_DESCRIPTOR, queue);
                }
            }
            register::CONFLICTS => self.conflicts = value,
            register::NAME => return self.program.add_to_name(value),
            register::CLEARED => self.cleared = value,
            register::CLEARED_BYTES => {
                let (start, length) = (self.cleared, value);
                let last = start.checked_add(length).and_then(|end| end.checked_sub(1));
                if length == 0
                    || !context.in_memory(start)
                    || !last.is_some_and(|last| context.in_memory(last))
                {
                    return false;
                }
                context.warm_last_level(AddressRange { start, length });
            }
            _ if register::counter(offset).is_some() => {
                let counters = &mut self.ledger.borrow_mut().program_counters;
                return write_counter(counters, offset, value);
            }
            _ if offset >= register::STATES => {
                return self.set_state(context, ((offset - register::STATES) / 8) as u32, value);
            }
            // Once: out of a capture file, the payloads take the place of their packets.
            register::ITEMS if !self.is_started && self.items == ItemKind::Packets => {
                let Some(kind) = ItemKind::from_register(value) else {
                    return false;
                };
                self.items = kind;
                self.ledger.borrow_mut().items = kind;
                self.check_room();
                if let Err(error) = self.packets.set_kind(kind) {
                    self.ledger.borrow_mut().set_fault(error.to_string());
                }
            }
            _ => return false,
        }
        true
    }

    /// Whether requests and replies of a key-value store fit into the slots.
    fn check_room(&mut self) {
        let operations = self.program.operations();
        let packet_bytes = self.setup.packet_bytes;
        let (request, reply) = (
            operations.longest_request_bytes(),
            operations.longest_reply_bytes(),
        );
        let longest = request.max(reply);
        if self.items == ItemKind::Operations && longest > packet_bytes {
            let which = if request > reply { "request" } else { "reply" };
            self.ledger.borrow_mut().set_wrong_description(format!(
                "traffic.packet_bytes is {packet_bytes}, and with traffic.operations the longest \
                 {which} has {longest} bytes; it must be at least as many"
            ));
        }
    }

    /// The program closes a queue that is open, or opens one that is closed.
    fn set_state(&mut self, context: &mut AgentContext<'_>, number: u32, value: u64) -> bool {
        let Some(queue) = self.queues.get_mut(number as usize) else {
            return false;
        };
        match (queue.state, value) {
            (QueueState::Open, 0) => {
                queue.state = QueueState::Closing;
                self.end_if_possible(context, number);
                true
            }
            (QueueState::Closed, 1) => {
                queue.state = QueueState::Opening;
                self.read_descriptor(context, purpose::READ_NEW_DESCRIPTOR, number);
                true
            }
            _ => false,
        }
    }

    /// Writes the end of a queue that is to be closed, when all that came before is in it and there
    /// is room.
    fn end_if_possible(&mut self, context: &mut AgentContext<'_>, number: u32) {
        let queue = &mut self.queues[number as usize];
        if queue.state != QueueState::Closing || queue.entering > 0 || queue.checking > 0 {
            return;
        }
        if has_room(&self.setup, queue) {
            queue.state = QueueState::Ending;
            self.accept(context, number);
        } else {
            let address = queue.counted_at();
            context.access(
                MemoryAccess::Read { address },
                purpose::LOOK_FOR_ROOM | u64::from(number),
            );
        }
    }

    /// The doorbell of a full queue that is to be closed has been read, or what its consumer has
    /// taken.
    fn looked_for_room(&mut self, context: &mut AgentContext<'_>, number: u32, value: u64) {
        let queue = &mut self.queues[number as usize];
        queue.has_been_counted(value);
        if has_room(&self.setup, queue) {
            self.end_if_possible(context, number);
        } else {
            context.wake(
                context.now() + ROOM_POLL,
                purpose::LOOK_FOR_ROOM | u64::from(number),
            );
        }
    }

    /// The descriptor of a queue that is opened again has been read.
    fn reopen(&mut self, context: &AgentContext<'_>, number: u32, descriptor: QueueDescriptor) {
        let queue = &mut self.queues[number as usize];
        self.doorbells.remove(queue.descriptor.doorbell);
        *queue = Queue {
            descriptor,
            reopened: queue.reopened + 1,
            ..Queue::default()
        };
        let has_new_tenant = self.ledger.borrow().tenants(number) > queue.reopened;
        let mut fault = descriptor_fault(
            &self.setup,
            context,
            self.table,
            number as usize,
            &descriptor,
        );
        if fault.is_none() && !self.doorbells.insert(descriptor.doorbell, number) {
            fault = Some(format!(
                "Queue {number} has the same doorbell as another queue."
            ));
        }
        if fault.is_none() && !has_new_tenant {
            fault = Some(format!(
                "Queue {number} is opened, and no new tenant has joined it."
            ));
        }
        if let Some(fault) = fault {
            self.ledger.borrow_mut().set_fault(fault);
        }
    }

    fn read_descriptor(&self, context: &mut AgentContext<'_>, purpose: u64, queue: u32) {
        let address = self.table + u64::from(queue) * LINE;
        context.access(MemoryAccess::Read { address }, purpose | u64::from(queue));
    }
}

/// What is wrong with a descriptor in the table at `table`.
pub(crate) fn descriptor_fault(
    setup: &IoSetup,
    context: &AgentContext<'_>,
    table: u64,
    queue: usize,
    descriptor: &QueueDescriptor,
) -> Option<String> {
    let bytes_of = |slots| u64::from(slots) * u64::from(setup.slot_bytes);
    let (ring, tenant_ring) = (bytes_of(setup.ring_slots), bytes_of(setup.queue_capacity));
    let doorbells = (Some(setup.doorbells), Some(setup.tenant_doorbells));
    for (name, address, alignment, bytes, range) in [
        ("doorbell", descriptor.doorbell, LINE, LINE, doorbells.0),
        ("ring", descriptor.ring, LINE, ring, None),
        (
            "tenant_doorbell",
            descriptor.tenant_doorbell,
            LINE,
            LINE,
            doorbells.1,
        ),
        (
            "tenant_ring",
            descriptor.tenant_ring,
            LINE,
            tenant_ring,
            None,
        ),
        ("taken", descriptor.taken, 8, 8, None),
        ("wake", descriptor.wake, 8, 8, None),
    ] {
        if alignment == 8 && address == 0 {
            continue; // It is not used.
        }
        let problem = if !address.is_multiple_of(alignment) {
            if alignment == LINE {
                "is not a multiple of 64"
            } else {
                "is not a multiple of 8"
            }
        } else if range.is_some_and(|range| !range.contains(address)) {
            "is not in the range that the device's registers give for it"
        } else if !context.in_memory(address)
            || !address
                .checked_add(bytes - 1)
                .is_some_and(|last| context.in_memory(last))
        {
            "is not in memory"
        } else {
            continue;
        };
        return Some(format!(
            "The descriptor of queue {queue}, at {:#x}, is wrong: {name} = {address:#x} {problem}.",
            table + queue as u64 * LINE
        ));
    }
    None
}

impl IoSource {
    /// All descriptors are read: begin.
    fn start(&mut self, context: &mut AgentContext<'_>) {
        let descriptors = std::mem::take(&mut self.descriptors);
        for (queue, descriptor) in descriptors.iter().enumerate() {
            let fault = descriptor_fault(&self.setup, context, self.table, queue, descriptor)
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
        self.await_arrival(context);
    }

    fn await_arrival(&mut self, context: &mut AgentContext<'_>) {
        let arrivals = match &mut self.warm_arrivals {
            Some(arrivals) if !self.is_warm => arrivals,
            _ => &mut self.arrivals,
        };
        self.next_arrival = arrivals.next_arrival();
        let token = purpose::ARRIVAL | u64::from(self.is_warm);
        context.wake(context.now() + self.next_arrival.gap, token);
    }

    /// An item arrives at the source.
    fn offer(&mut self, context: &mut AgentContext<'_>, number: u32) {
        self.ledger.borrow_mut().generated(number);
        let queue = &mut self.queues[number as usize];
        if queue.state != QueueState::Open {
            self.ledger.borrow_mut().refused(number);
        } else if has_room(&self.setup, queue) {
            self.accept(context, number);
        } else if queue.checking > 0 {
            // The answer that is awaited tells of this one, too.
            queue.checking += 1;
        } else if queue.is_exact {
            self.ledger.borrow_mut().dropped(number);
        } else {
            // The data plane may have taken something since. The item waits for the answer.
            queue.checking = 1;
            // Only the losses of doorbells' lines are followed.
            queue.is_exact = queue.descriptor.taken == 0;
            let address = queue.counted_at();
            context.access(
                MemoryAccess::Read { address },
                purpose::READ_DOORBELL | u64::from(number),
            );
        }
    }

    /// The doorbell of a queue that looked full has been read, or what its consumer has taken.
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

    /// An item goes into its queue, as soon as a producer can write it.
    fn accept(&mut self, context: &mut AgentContext<'_>, number: u32) {
        self.queues[number as usize].entering += 1;
        match self.idle.pop() {
            Some(producer) => self.write_item(context, producer, number),
            None => self.waiting.push_back(number),
        }
    }

    /// Writes an item into the next slot of a queue: all its lines at once.
    fn write_item(&mut self, context: &mut AgentContext<'_>, producer: u8, number: u32) {
        let mut item = u64::MAX;
        self.slot.clear();
        self.slot.resize(SLOT_HEADER_BYTES as usize, 0);
        if self.queues[number as usize].state == QueueState::Ending {
            self.slot[4..8].copy_from_slice(&(FLAG_LAST as u32).to_le_bytes());
        } else {
            item = self.next_item;
            self.next_item += 1;
            self.packets.append_next(&mut self.slot);
        }
        let packet_bytes = self.slot.len() as u32 - SLOT_HEADER_BYTES;
        self.slot[0..4].copy_from_slice(&packet_bytes.to_le_bytes());
        self.slot[8..16].copy_from_slice(&item.to_le_bytes());

        self.writing[usize::from(producer)] = Writing {
            queue: number,
            item,
            kind: self.items.kind_of(&self.slot[SLOT_HEADER_BYTES as usize..]),
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

    /// A line of an item is written. Rings the doorbell for every item that is whole, in order.
    fn line_written(&mut self, context: &mut AgentContext<'_>, producer: u32) {
        let writing = &mut self.writing[producer as usize];
        writing.lines_left -= 1;
        let number = writing.queue;
        let queue = &mut self.queues[number as usize];
        while let Some(&next) = queue.writing.get(queue.ringing) {
            if self.writing[usize::from(next)].lines_left > 0 {
                break;
            }
            queue.ringing += 1;
            context.access(
                MemoryAccess::FetchAdd {
                    address: queue.descriptor.doorbell,
                    addend: 1,
                },
                purpose::RING | u64::from(number),
            );
        }
    }

    /// Tells whoever wants to know that there is an item in a queue that was empty.
    fn tell_of(&self, context: &mut AgentContext<'_>, number: u32) {
        if let Some(agent) = self.signal {
            let message = AgentMessage {
                header: number.into(),
                data: LineData::ZERO,
            };
            context.send(agent, SIGNAL_BYTES, message);
        }
    }

    /// The doorbell has been rung for the oldest item being written: its producer is free.
    fn rung(&mut self, context: &mut AgentContext<'_>, number: u32, before: u64) {
        let queue = &mut self.queues[number as usize];
        // The upper half of a doorbell is its consumers'.
        queue.rung = (before as u32).wrapping_add(1);
        queue.count = u64::from(queue.rung.wrapping_sub(queue.taken));
        let QueueDescriptor {
            wake, wake_addend, ..
        } = queue.descriptor;
        let was_empty = before as u32 == 0;
        if wake != 0 && was_empty {
            context.access(
                MemoryAccess::FetchAdd {
                    address: wake,
                    addend: wake_addend,
                },
                purpose::WAKE | u64::from(number),
            );
        }
        queue.entering -= 1;
        queue.ringing -= 1;
        if wake == 0 && was_empty {
            self.tell_of(context, number);
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
        self.end_if_possible(context, number);
    }
}

/// Whether one more item fits into a queue, for all that its producer knows. One slot stays free:
/// it may still be being read (see `io_take` in `guest/include/io.h`).
fn has_room(setup: &IoSetup, queue: &Queue) -> bool {
    queue.count + queue.entering + 1 < u64::from(setup.queue_capacity)
}

impl Agent for IoSource {
    fn name(&self) -> String {
        "I/O sources".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        let register = request.register(self.setup.registers.start);
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
            _ => {}
        }
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        if token == purpose::CHANGE {
            self.is_warm = true;
            self.ledger.borrow_mut().measure();
            self.await_arrival(context);
            return;
        }
        if token & purpose::MASK == purpose::LOOK_FOR_ROOM {
            self.end_if_possible(context, token as u32);
            return;
        }
        if token != purpose::ARRIVAL | u64::from(self.is_warm) {
            // The next arrival of a warm start that is over.
            return;
        }
        let queue = self.choose_queue();
        for _ in 0..self.next_arrival.items {
            self.offer(context, queue);
        }
        self.await_arrival(context);
    }

    /// A hart takes items off a queue by counting its doorbell down, or its consumer's word up.
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
        // The upper half of a doorbell is its consumers'.
        let items = (observation.before as u32).wrapping_sub(observation.value as u32);
        if queue.descriptor.doorbell == observation.address && items as i32 > 0 {
            let mut ledger = self.ledger.borrow_mut();
            ledger.claimed(number, items, observation.at);
        }
    }

    fn waiting_for(&self) -> Vec<String> {
        if self.is_started {
            Vec::new()
        } else {
            vec!["The I/O sources wait for the program to write their register START.".to_string()]
        }
    }

    fn walk(&mut self, walker: &mut dyn Walker) {
        State::walk(self, walker);
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// Which queue a doorbell's line belongs to.
pub(crate) struct DoorbellMap {
    first: LineAddress,
    queues: Vec<u32>,
}

state::component!(DoorbellMap {
    first: fixed,
    queues: slice
});

impl DoorbellMap {
    const NONE: u32 = u32::MAX;

    pub(crate) fn new(range: AddressRange) -> DoorbellMap {
        DoorbellMap {
            first: LineAddress::of(range.start),
            queues: vec![Self::NONE; (range.length / LINE) as usize],
        }
    }

    /// Notes a queue's doorbell; `false` if its line has a queue already or is out of range.
    pub(crate) fn insert(&mut self, address: u64, queue: u32) -> bool {
        let line = LineAddress::of(address).0.wrapping_sub(self.first.0);
        match self.queues.get_mut(line as usize) {
            Some(place) if *place == Self::NONE => {
                *place = queue;
                true
            }
            _ => false,
        }
    }

    /// Forgets the queue of a doorbell.
    pub(crate) fn remove(&mut self, address: u64) {
        let line = LineAddress::of(address).0.wrapping_sub(self.first.0);
        if let Some(place) = self.queues.get_mut(line as usize) {
            *place = Self::NONE;
        }
    }

    pub(crate) fn queue(&self, line: LineAddress) -> Option<u32> {
        let line = line.0.wrapping_sub(self.first.0);
        self.queues
            .get(line as usize)
            .copied()
            .filter(|&queue| queue != Self::NONE)
    }
}
