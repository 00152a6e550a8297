//! A backend at the edge of the chip: takes packets from the network and gives packets to it, reads
//! and writes memory, and dispatches the messages of the queues that it has.

use crate::dispatch::{Load, Policy};
use crate::domain::{CLASSES, Domain, QueuePairs, SHARED_ENTRY_BYTES, SharedDomain};
use crate::spec::Latencies;
use fabric::{
    AddressRange, Agent, AgentContext, AgentId, AgentMessage, Attachment, CacheSpec, LINE_BYTES,
    LineData, MemoryAccess, Observation, RegisterAccess, Request, Time,
};
use network::header::{BLOCK_PACKET_BYTES, CONTROL_PACKET_BYTES, Header, Kind, MOST_BYTES};
use network::{Link, Random, SharedLedger};
use serde::Serialize;
use state::{State, Walker};
use std::collections::VecDeque;

const LINE: u64 = LINE_BYTES as u64;
/// Bytes of a message between parts of the network interface that carries a header alone.
pub(crate) const NOTICE_BYTES: u64 = 16;

/// What an access or a timer was for: the upper 8 bits of its token. The rest is a message in short,
/// or an index.
mod purpose {
    pub const PAYLOAD: u64 = 1 << 56;
    pub const COUNT: u64 = 2 << 56;
    pub const RESET: u64 = 3 << 56;
    pub const LOOK_INSIDE: u64 = 4 << 56;
    pub const ENQUEUE: u64 = 5 << 56;
    pub const DEQUEUE: u64 = 6 << 56;
    pub const READ_OUT: u64 = 7 << 56;
    pub const LANDED: u64 = 8 << 56;
    pub const FREE: u64 = 9 << 56;
    pub const SERVED: u64 = 10 << 56;
    pub const PROCESS: u64 = 11 << 56;
    pub const DISPATCH: u64 = 12 << 56;
    pub const MASK: u64 = 0xff << 56;
}

/// Offsets of the registers: `struct sonuma_registers` in `guest/include/sonuma.h`.
mod register {
    pub const SEND_BUFFER: u64 = 0x60;
    pub const RECEIVE_BUFFER: u64 = 0x68;
    pub const SHARED_QUEUES: u64 = 0x70;
    pub const OPEN: u64 = 0x78;
}

/// What backends have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BackendStatistics {
    /// Packets of messages from the network.
    pub packets_received: u64,
    /// Packets to the network.
    pub packets_sent: u64,
    /// Messages received as a whole.
    pub messages_received: u64,
    /// Messages sent.
    pub messages_sent: u64,
    /// Messages given to cores.
    pub dispatched: u64,
    /// Replenishes of cores.
    pub replenished: u64,
    /// Replenishes of slots without a message, which were ignored.
    pub unexpected_replenishes: u64,
    /// Packets of messages that were not taken: their slot was in use, or they did not fit.
    pub refused: u64,
    /// One-sided reads and writes of this server's cores.
    pub one_sided: u64,
    /// The most messages that have waited in one shared queue.
    pub longest_queue: u64,
    /// The most messages that a core has had at one time.
    pub most_outstanding: u64,
    /// From a message's end at its backend to its dispatch, summed, in femtoseconds: what it waited
    /// for a core, and the latency of the dispatcher.
    pub queued_fs: u64,
    /// From the notice of a message that found a core available to its dispatch, summed.
    pub unhindered_fs: u64,
    /// How many of those there were.
    pub unhindered: u64,
}

state::component!(BackendStatistics {
    packets_received: count,
    packets_sent: count,
    messages_received: count,
    messages_sent: count,
    dispatched: count,
    replenished: count,
    unexpected_replenishes: count,
    refused: count,
    one_sided: count,
    longest_queue: count,
    most_outstanding: count,
    queued_fs: count,
    unhindered_fs: count,
    unhindered: count
});

impl BackendStatistics {
    /// Both together.
    pub fn plus(self, other: BackendStatistics) -> BackendStatistics {
        BackendStatistics {
            packets_received: self.packets_received + other.packets_received,
            packets_sent: self.packets_sent + other.packets_sent,
            messages_received: self.messages_received + other.messages_received,
            messages_sent: self.messages_sent + other.messages_sent,
            dispatched: self.dispatched + other.dispatched,
            replenished: self.replenished + other.replenished,
            unexpected_replenishes: self.unexpected_replenishes + other.unexpected_replenishes,
            refused: self.refused + other.refused,
            one_sided: self.one_sided + other.one_sided,
            longest_queue: self.longest_queue.max(other.longest_queue),
            most_outstanding: self.most_outstanding.max(other.most_outstanding),
            queued_fs: self.queued_fs + other.queued_fs,
            unhindered_fs: self.unhindered_fs + other.unhindered_fs,
            unhindered: self.unhindered + other.unhindered,
        }
    }
}

/// Where a token has the queue of a message whose type is looked for: behind its length. There is room
/// for as many queues as there can be cores.
const QUEUE_AT: u32 = 50;

/// A message's place and length in a token.
fn in_short(header: Header) -> u64 {
    u64::from(header.bytes) << 32 | u64::from(header.slot) << 16 | u64::from(header.node)
}

fn at_length(token: u64) -> Header {
    Header {
        kind: Kind::Received,
        node: token as u16,
        slot: (token >> 16) as u16,
        index: 0,
        bytes: (token >> 32) as u32 & MOST_BYTES,
    }
}

/// A shared completion queue of one class of messages.
#[derive(Clone, Debug, Default)]
struct SharedQueue {
    /// Messages put in, and messages taken out.
    tail: u64,
    head: u64,
    /// Of those in it, when each came, and whether a core was available then: an instrument.
    since: VecDeque<(Time, bool)>,
}

state::component!(SharedQueue { tail, head, since });

/// What dispatches the messages of one shared queue.
#[derive(Clone, Debug)]
pub(crate) struct Dispatcher {
    /// Its number on the chip.
    pub queue: usize,
    /// Its cores' numbers.
    pub cores: Vec<usize>,
    /// Messages of each.
    pub load: Load,
    pub policy: Policy,
    /// Cores take messages out by themselves.
    pub is_software: bool,
    /// If they do: the place of each message that is in the shared queue, by its entry. An instrument.
    places: Vec<u64>,
    classes: [SharedQueue; CLASSES],
    /// It reads the entry for this core.
    reading: Option<u64>,
    /// A decision takes its time.
    free_at: Time,
}

state::component!(Dispatcher {
    queue: fixed,
    cores: fixed,
    load,
    policy,
    is_software: fixed,
    places,
    classes,
    reading,
    free_at
});

impl Dispatcher {
    pub(crate) fn new(
        queue: usize,
        cores: Vec<usize>,
        threshold: u32,
        policy: Policy,
    ) -> Dispatcher {
        Dispatcher {
            queue,
            load: Load {
                outstanding: vec![0; cores.len()],
                threshold,
            },
            cores,
            policy,
            is_software: false,
            places: Vec::new(),
            classes: Default::default(),
            reading: None,
            free_at: Time::ZERO,
        }
    }
}

/// A message or a one-sided operation of a core that is under way.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    header: Header,
    core: u64,
    local: u64,
    remote: u64,
    left: u32,
}

impl State for Transfer {
    fn walk(&mut self, walker: &mut dyn Walker) {
        state::fields!(
            self,
            walker,
            Transfer {
                header: fixed,
                core,
                local,
                remote,
                left
            }
        );
        let mut word = self.header.encode();
        word.walk(walker);
        match Header::decode(word) {
            Some(header) => self.header = header,
            None => walker.refuse("there is no such packet".to_string()),
        }
    }
}

impl state::Plain for Transfer {
    fn blank() -> Transfer {
        let header = at_length(0);
        Transfer {
            header,
            core: 0,
            local: 0,
            remote: 0,
            left: 0,
        }
    }
}

/// Who is where.
#[derive(Clone, Debug)]
pub(crate) struct Neighbours {
    pub cluster: AgentId,
    pub frontends: Vec<AgentId>,
    pub backends: Vec<AgentId>,
    /// The backend of each shared queue.
    pub homes: Vec<usize>,
}

/// A backend.
pub struct Backend {
    number: usize,
    registers: AddressRange,
    queue_pairs: QueuePairs,
    latencies: Latencies,
    network_latency: Time,
    is_static: bool,
    /// Which queue a message is given to, if that does not depend on anything.
    chance: Random,
    neighbours: Neighbours,
    domain: SharedDomain,
    ledger: SharedLedger,
    link: Link,
    /// Packets in the remote request processing pipeline, oldest first.
    processing: VecDeque<(u64, LineData)>,
    /// Decisions on their way, oldest first: header and core.
    dispatching: VecDeque<(u64, u64)>,
    dispatchers: Vec<Dispatcher>,
    /// Messages and operations under way, at their places.
    transfers: Vec<Option<Transfer>>,
    statistics: BackendStatistics,
}

impl State for Backend {
    fn walk(&mut self, walker: &mut dyn Walker) {
        state::fields!(
            self,
            walker,
            Backend {
                number: fixed,
                registers: fixed,
                queue_pairs: fixed,
                latencies: fixed,
                network_latency: fixed,
                is_static: fixed,
                chance,
                neighbours: fixed,
                domain: fixed,
                ledger: fixed,
                link,
                processing,
                dispatching,
                dispatchers: slice,
                transfers,
                statistics,
            }
        );
        // All parts have it; it is walked once.
        if self.number == 0 {
            self.domain.borrow_mut().walk(walker);
        }
    }
}

/// What a backend is made of.
pub(crate) struct Parts {
    pub number: usize,
    pub registers: AddressRange,
    pub queue_pairs: QueuePairs,
    pub latencies: Latencies,
    pub network_latency: Time,
    /// Messages are given to queues when they arrive, by `chance`.
    pub is_static: bool,
    pub chance: Random,
    pub neighbours: Neighbours,
    pub domain: SharedDomain,
    pub ledger: SharedLedger,
    pub link: Link,
    pub dispatchers: Vec<Dispatcher>,
}

impl Backend {
    pub(crate) fn new(parts: Parts) -> Backend {
        let Parts {
            number,
            registers,
            queue_pairs,
            latencies,
            network_latency,
            is_static,
            chance,
            neighbours,
            domain,
            ledger,
            link,
            dispatchers,
        } = parts;
        Backend {
            number,
            registers,
            queue_pairs,
            latencies,
            network_latency,
            is_static,
            chance,
            neighbours,
            domain,
            ledger,
            link,
            processing: VecDeque::new(),
            dispatching: VecDeque::new(),
            dispatchers,
            transfers: Vec::new(),
            statistics: BackendStatistics::default(),
        }
    }

    /// How to attach it. The first one has the registers. Its cache is for counters and shared queues.
    pub(crate) fn attachment(number: usize, tile: usize, registers: AddressRange) -> Attachment {
        Attachment {
            tile,
            owns: (number == 0).then_some(registers),
            cache: Some(CacheSpec {
                size_bytes: 4096,
                ways: 4,
                hit_latency_cycles: 2,
                mshrs: 32,
            }),
            ..Attachment::default()
        }
    }

    /// What has been counted.
    pub fn statistics(&self) -> BackendStatistics {
        self.statistics
    }

    /// Bytes of the domain in memory.
    pub(crate) fn domain_bytes(&self) -> u64 {
        self.domain.borrow().bytes()
    }

    fn read_register(&self, offset: u64) -> Option<u64> {
        let domain = self.domain.borrow();
        Some(match offset {
            0x00 => u64::from(domain.nodes),
            0x08 => u64::from(domain.slots),
            0x10 => u64::from(domain.max_message_bytes),
            0x18 => self.queue_pairs.start,
            0x20 => self.queue_pairs.stride_lines,
            0x28 => QueuePairs::WORK_ENTRIES,
            0x30 => QueuePairs::COMPLETION_ENTRIES,
            0x38 => domain.shared_bytes(),
            0x40 => domain.shared_entries(),
            0x48 => u64::from(domain.is_software),
            0x50 => self.neighbours.frontends.len() as u64,
            0x58 => self.queue_pairs.shared_head(),
            register::SEND_BUFFER => domain.send_buffer,
            register::RECEIVE_BUFFER => domain.receive_buffer,
            register::SHARED_QUEUES => domain.shared_queues,
            register::OPEN => u64::from(domain.is_open),
            _ => return None,
        })
    }

    /// Whether the register can be written, with this value.
    fn write_register(&mut self, context: &mut AgentContext<'_>, offset: u64, value: u64) -> bool {
        let mut domain = self.domain.borrow_mut();
        if domain.is_open || !value.is_multiple_of(LINE) && offset != register::OPEN {
            return false;
        }
        match offset {
            register::SEND_BUFFER => domain.send_buffer = value,
            register::RECEIVE_BUFFER => domain.receive_buffer = value,
            register::SHARED_QUEUES => domain.shared_queues = value,
            register::OPEN if value == 1 => {
                for (name, start, bytes) in domain.ranges() {
                    let last = start.checked_add(bytes - 1);
                    let is_memory = last.is_some_and(|last| context.in_memory(last));
                    if !context.in_memory(start) || !is_memory {
                        self.ledger.borrow_mut().set_fault(format!(
                            "The messaging domain's {name} of {bytes} bytes at {start:#x} is not in \
                             memory."
                        ));
                        return true;
                    }
                }
                domain.is_open = true;
                for &frontend in &self.neighbours.frontends {
                    let kind = Kind::Open;
                    let header = at_length(0).of_kind(kind).encode();
                    let data = LineData::ZERO;
                    context.send(frontend, NOTICE_BYTES, AgentMessage { header, data });
                }
            }
            _ => return false,
        }
        true
    }

    /// Sends a packet to the network.
    fn inject(&mut self, context: &mut AgentContext<'_>, header: Header, data: LineData) {
        let bytes = match header.kind {
            Kind::Send | Kind::ReadReply | Kind::Write => BLOCK_PACKET_BYTES,
            _ => CONTROL_PACKET_BYTES,
        };
        self.statistics.packets_sent += 1;
        let now = context.now();
        let delay = self.link.send(now, bytes) + self.network_latency - now;
        let header = header.encode();
        context.send_over_wires(
            self.neighbours.cluster,
            delay,
            AgentMessage { header, data },
        );
    }

    /// A packet of a message has come from the network.
    fn receive(&mut self, context: &mut AgentContext<'_>, header: Header, data: LineData) {
        self.statistics.packets_received += 1;
        let mut domain = self.domain.borrow_mut();
        let blocks = header.blocks();
        let is_possible = (1..=domain.max_message_bytes).contains(&header.bytes)
            && u32::from(header.index) < blocks
            && domain.is_open;
        let place = domain
            .place(header.node, header.slot)
            .filter(|_| is_possible);
        let guard = place.and_then(|place| domain.guard.get_mut(place as usize));
        match guard {
            Some(guard) if u32::from(*guard) < blocks => {
                *guard += 1;
                drop(domain);
                self.processing.push_back((header.encode(), data));
                context.wake(
                    context.now() + self.latencies.remote_processing,
                    purpose::PROCESS,
                );
            }
            _ => {
                drop(domain);
                self.statistics.refused += 1;
                self.inject(context, header.of_kind(Kind::Refused), LineData::ZERO);
            }
        }
    }

    /// A packet leaves the pipeline: it goes into its place in memory.
    fn process(&mut self, context: &mut AgentContext<'_>) {
        let Some((word, data)) = self.processing.pop_front() else {
            return;
        };
        let domain = self.domain.borrow();
        let Some(header) = Header::decode(word) else {
            return;
        };
        let Some(place) = domain.place(header.node, header.slot) else {
            return;
        };
        let write = MemoryAccess::DmaWrite {
            address: domain.receive_payload(place) + u64::from(header.index) * LINE,
            bytes: LINE_BYTES as u8,
            data,
            allocate: true,
        };
        context.access(write, purpose::PAYLOAD | in_short(header));
    }

    fn counter(&self, header: Header) -> u64 {
        let domain = self.domain.borrow();
        let place = domain.place(header.node, header.slot).unwrap_or(0);
        domain.receive_counter(place)
    }

    /// A packet has been counted. The counter is 0 again before anybody learns of the message.
    fn counted(&mut self, context: &mut AgentContext<'_>, header: Header, before: u64) {
        if before + 1 == u64::from(header.blocks()) {
            let write = MemoryAccess::Write {
                address: self.counter(header),
                bytes: 8,
                data: LineData::ZERO,
            };
            context.access(write, purpose::RESET | in_short(header));
        }
    }

    /// A message has been received as a whole: tells the dispatcher.
    fn completed(&mut self, context: &mut AgentContext<'_>, header: Header) {
        self.statistics.messages_received += 1;
        let queues = self.neighbours.homes.len();
        let queue = if self.is_static {
            self.chance.below(queues as u64) as usize
        } else if queues == self.neighbours.backends.len() {
            self.number
        } else {
            0
        };
        let home = self.neighbours.homes[queue];
        let header = Header {
            kind: Kind::Received,
            index: queue as u16,
            ..header
        };
        if home == self.number {
            self.notified(context, header);
        } else {
            let header = header.encode();
            let data = LineData::ZERO;
            let to = self.neighbours.backends[home];
            context.send(to, NOTICE_BYTES, AgentMessage { header, data });
        }
    }

    fn dispatcher(&mut self, queue: usize) -> Option<usize> {
        self.dispatchers.iter().position(|one| one.queue == queue)
    }

    /// The dispatcher learns of a message.
    fn notified(&mut self, context: &mut AgentContext<'_>, header: Header) {
        let Some(index) = self.dispatcher(usize::from(header.index)) else {
            return;
        };
        if self.dispatchers[index].policy.looks_inside() {
            let domain = self.domain.borrow();
            if let Some(place) = domain.place(header.node, header.slot) {
                let address = domain.receive_payload(place);
                let queue = u64::from(header.index) << QUEUE_AT;
                let token = purpose::LOOK_INSIDE | queue | in_short(header);
                context.access(MemoryAccess::DmaRead { address }, token);
            }
        } else {
            self.enqueue(context, index, header, 0);
        }
    }

    /// Puts a message into a shared queue.
    fn enqueue(
        &mut self,
        context: &mut AgentContext<'_>,
        index: usize,
        header: Header,
        class: usize,
    ) {
        let now = context.now();
        let dispatcher = &mut self.dispatchers[index];
        let load = &dispatcher.load;
        let can_go = dispatcher.classes[class].tail == dispatcher.classes[class].head
            && (0..load.outstanding.len()).any(|core| load.is_available(core));
        let queue = &mut dispatcher.classes[class];
        let domain = self.domain.borrow();
        let entry = Header {
            index: QueuePairs::phase(queue.tail, domain.shared_entries()),
            ..header
        };
        let mut data = LineData::ZERO;
        data.write(0, 8, entry.encode());
        let address = domain.shared_entry(dispatcher.queue, class, queue.tail);
        queue.tail += 1;
        if !dispatcher.is_software {
            queue.since.push_back((now, can_go));
        } else if let Some(place) = domain.place(header.node, header.slot) {
            let entries = domain.shared_entries() as usize;
            dispatcher.places.resize(entries, 0);
            dispatcher.places[(queue.tail - 1) as usize % entries] = place;
        }
        let length = queue.tail - queue.head;
        let bytes = 8;
        drop(domain);
        context.access(
            MemoryAccess::Write {
                address,
                bytes,
                data,
            },
            purpose::ENQUEUE,
        );
        if !self.dispatchers[index].is_software {
            let longest = &mut self.statistics.longest_queue;
            *longest = (*longest).max(length);
            self.dispatch(context, index);
        }
    }

    /// Gives the head of a queue to a core, if there is one for it: reads the entry.
    fn dispatch(&mut self, context: &mut AgentContext<'_>, index: usize) {
        let dispatcher = &mut self.dispatchers[index];
        if dispatcher.reading.is_some() || dispatcher.is_software {
            return;
        }
        for class in 0..CLASSES {
            let queue = &dispatcher.classes[class];
            if queue.head == queue.tail {
                continue;
            }
            let Some(core) = dispatcher.policy.choose(class, &dispatcher.load) else {
                continue;
            };
            dispatcher.load.outstanding[core] += 1;
            let most = &mut self.statistics.most_outstanding;
            *most = (*most).max(u64::from(dispatcher.load.outstanding[core]));
            dispatcher.reading = Some(core as u64);
            let domain = self.domain.borrow();
            let address = domain.shared_entry(dispatcher.queue, class, queue.head);
            let token = purpose::DEQUEUE | (index * CLASSES + class) as u64;
            context.access(MemoryAccess::Read { address }, token);
            return;
        }
    }

    /// The head of a queue has been read.
    fn dequeued(&mut self, context: &mut AgentContext<'_>, token: u64, line: &LineData) {
        let (index, class) = ((token as u32) as usize / CLASSES, token as usize % CLASSES);
        let now = context.now();
        let dispatcher = &mut self.dispatchers[index];
        let Some(core) = dispatcher.reading.take() else {
            return;
        };
        let queue = &mut dispatcher.classes[class];
        let address = self
            .domain
            .borrow()
            .shared_entry(dispatcher.queue, class, queue.head);
        queue.head += 1;
        let word = line.read((address % LINE) as usize, 8);
        let Some(header) = Header::decode(word).filter(|one| one.kind == Kind::Received) else {
            self.ledger.borrow_mut().set_fault(format!(
                "The entry of the shared completion queue at {address:#x} is {word:#x}, which the \
                 network interface has not written."
            ));
            return;
        };
        let at = now.max(dispatcher.free_at) + self.latencies.dispatch;
        dispatcher.free_at = at;
        if let Some((since, could_go)) = queue.since.pop_front() {
            let waited = (at - since).as_fs();
            self.statistics.queued_fs += waited;
            if could_go {
                self.statistics.unhindered += 1;
                self.statistics.unhindered_fs += waited;
            }
        }
        self.statistics.dispatched += 1;
        let core = dispatcher.cores[core as usize] as u64;
        let word = header.of_kind(Kind::Dispatch).encode();
        self.dispatching.push_back((word, core));
        context.wake(at, purpose::DISPATCH);
        self.dispatch(context, index);
    }

    /// A core has posted that a message is processed.
    fn replenish(&mut self, context: &mut AgentContext<'_>, header: Header, core: u64) {
        let mut domain = self.domain.borrow_mut();
        let place = domain.place(header.node, header.slot);
        let guard = place.and_then(|place| domain.guard.get_mut(place as usize));
        let Some(guard) = guard.filter(|guard| **guard > 0) else {
            self.statistics.unexpected_replenishes += 1;
            return;
        };
        *guard = 0;
        drop(domain);
        self.statistics.replenished += 1;
        let found = self
            .dispatchers
            .iter_mut()
            .enumerate()
            .find_map(|(index, dispatcher)| {
                let place = dispatcher
                    .cores
                    .iter()
                    .position(|&one| one as u64 == core)?;
                Some((index, &mut dispatcher.load.outstanding[place]))
            });
        if let Some((index, outstanding)) = found {
            *outstanding = outstanding.saturating_sub(1);
            self.dispatch(context, index);
        }
        let header = Header {
            kind: Kind::Replenish,
            index: 0,
            bytes: 0,
            ..header
        };
        self.inject(context, header, LineData::ZERO);
    }

    /// What is wrong with something that a core has posted.
    fn problem(&self, context: &AgentContext<'_>, header: Header, local: u64) -> Option<String> {
        let domain = self.domain.borrow();
        let most = if header.kind == Kind::PostSend {
            domain.max_message_bytes
        } else {
            u32::MAX
        };
        let last = local.saturating_add(u64::from(header.bytes.max(1)) - 1);
        let slots = if header.kind == Kind::PostSend {
            domain.slots
        } else {
            u32::MAX
        };
        if u32::from(header.node) >= domain.nodes {
            Some(format!(
                "node {}, and there are {}",
                header.node, domain.nodes
            ))
        } else if u32::from(header.slot) >= slots {
            Some(format!("slot {}, and each node has {slots}", header.slot))
        } else if header.bytes == 0 || header.bytes > most {
            Some(format!(
                "{} bytes, and 1 to {most} are possible",
                header.bytes
            ))
        } else if !local.is_multiple_of(LINE) {
            Some(format!(
                "a buffer at {local:#x}, which is not a multiple of 64"
            ))
        } else if !context.in_memory(local) || !context.in_memory(last) {
            Some(format!(
                "{} bytes at {local:#x}, which are not in memory",
                header.bytes
            ))
        } else {
            None
        }
    }

    /// A core has posted a message or a one-sided operation.
    fn post(&mut self, context: &mut AgentContext<'_>, header: Header, data: &LineData) {
        let (local, remote, core) = (data.read(0, 8), data.read(8, 8), data.read(16, 8));
        if let Some(problem) = self.problem(context, header, local) {
            self.ledger.borrow_mut().set_fault(format!(
                "Core {core} has posted something to the network interface that has {problem}."
            ));
            return;
        }
        let transfer = Transfer {
            header,
            core,
            local,
            remote,
            left: header.blocks(),
        };
        let free = self.transfers.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.transfers.push(None);
            self.transfers.len() - 1
        });
        self.transfers[place] = Some(transfer);
        match header.kind {
            Kind::PostSend => self.statistics.messages_sent += 1,
            _ => self.statistics.one_sided += 1,
        }
        if header.kind == Kind::PostRead {
            let first = (remote / LINE) as u32;
            let header = Header {
                kind: Kind::Read,
                slot: place as u16,
                ..header
            };
            for block in 0..transfer.left {
                self.inject(context, header.at_block(first + block), LineData::ZERO);
            }
            return;
        }
        for block in 0..u64::from(transfer.left) {
            let address = local + block * LINE;
            let token = purpose::READ_OUT | (place as u64) << 32 | block;
            context.access(MemoryAccess::DmaRead { address }, token);
        }
    }

    /// A block that a core sends or writes to a node has been read from memory.
    fn read_out(&mut self, context: &mut AgentContext<'_>, token: u64, data: LineData) {
        let place = ((token & !purpose::MASK) >> 32) as usize;
        let block = token as u32;
        let Some(Some(transfer)) = self.transfers.get_mut(place) else {
            return;
        };
        let header = transfer.header;
        if header.kind == Kind::PostWrite {
            let first = (transfer.remote / LINE) as u32;
            let header = Header {
                kind: Kind::Write,
                slot: place as u16,
                ..header
            };
            self.inject(context, header.at_block(first + block), data);
            return;
        }
        transfer.left -= 1;
        if transfer.left == 0 {
            self.transfers[place] = None;
        }
        let header = Header {
            kind: Kind::Send,
            index: block as u16,
            ..header
        };
        self.inject(context, header, data);
    }

    /// A node has answered a one-sided operation.
    fn answered(&mut self, context: &mut AgentContext<'_>, header: Header, data: LineData) {
        let place = usize::from(header.slot);
        let Some(Some(transfer)) = self.transfers.get(place) else {
            return;
        };
        if header.kind == Kind::WriteReply {
            self.one_less(context, place);
            return;
        }
        let first = (transfer.remote / LINE) as u32;
        let block = u64::from(header.block().saturating_sub(first));
        let rest = u64::from(transfer.header.bytes).saturating_sub(block * LINE);
        let write = MemoryAccess::DmaWrite {
            address: transfer.local + block * LINE,
            bytes: rest.clamp(1, LINE) as u8,
            data,
            allocate: true,
        };
        context.access(write, purpose::LANDED | place as u64);
    }

    /// A block of a one-sided operation is done.
    fn one_less(&mut self, context: &mut AgentContext<'_>, place: usize) {
        let Some(Some(transfer)) = self.transfers.get_mut(place) else {
            return;
        };
        transfer.left -= 1;
        if transfer.left > 0 {
            return;
        }
        let Transfer { header, core, .. } = *transfer;
        self.transfers[place] = None;
        if let Some(&frontend) = self.neighbours.frontends.get(core as usize) {
            let header = header.of_kind(Kind::Completed).encode();
            let data = LineData::ZERO;
            context.send(frontend, NOTICE_BYTES, AgentMessage { header, data });
        }
    }

    /// A node has taken a message of this server: its send slot is free.
    fn replenished_by_node(&mut self, context: &mut AgentContext<'_>, header: Header) {
        let domain = self.domain.borrow();
        let Some(place) = domain.place(header.node, header.slot) else {
            return;
        };
        let write = MemoryAccess::DmaWrite {
            address: domain.send_slot(place),
            bytes: 8,
            data: LineData::ZERO,
            allocate: true,
        };
        context.access(write, purpose::FREE);
    }

    /// A node reads or writes this server's memory.
    fn serve(&mut self, context: &mut AgentContext<'_>, header: Header, data: LineData) {
        let address = u64::from(header.block()) * LINE;
        if !context.in_memory(address) {
            self.statistics.refused += 1;
            self.inject(context, header.of_kind(Kind::Refused), LineData::ZERO);
            return;
        }
        let access = match header.kind {
            Kind::Read => MemoryAccess::DmaRead { address },
            _ => MemoryAccess::DmaWrite {
                address,
                bytes: LINE_BYTES as u8,
                data,
                allocate: true,
            },
        };
        let token = u64::from(header.slot) << 16 | u64::from(header.node);
        context.access(access, purpose::SERVED | token);
    }

    /// What a node has read or written is done.
    fn served(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        access: MemoryAccess,
        data: LineData,
    ) {
        let (kind, address, data) = match access {
            MemoryAccess::DmaRead { address } => (Kind::ReadReply, address, data),
            MemoryAccess::DmaWrite { address, .. } => (Kind::WriteReply, address, LineData::ZERO),
            _ => return,
        };
        let header = at_length(token & 0xffff_ffff).of_kind(kind);
        self.inject(context, header.at_block((address / LINE) as u32), data);
    }
}

impl Agent for Backend {
    fn name(&self) -> String {
        format!("backend {}", self.number)
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        let register = request.register(self.registers.start);
        let answer = register.and_then(|(offset, access)| match access {
            RegisterAccess::Read => self.read_register(offset),
            RegisterAccess::Write(value) => {
                self.write_register(context, offset, value).then_some(0)
            }
        });
        context.answer(request.reply_to, answer);
    }

    fn message(&mut self, context: &mut AgentContext<'_>, _from: AgentId, message: AgentMessage) {
        let AgentMessage { header, data } = message;
        let Some(header) = Header::decode(header) else {
            return;
        };
        match header.kind {
            Kind::Send => self.receive(context, header, data),
            Kind::Replenish => self.replenished_by_node(context, header),
            Kind::Read | Kind::Write => self.serve(context, header, data),
            Kind::ReadReply | Kind::WriteReply => self.answered(context, header, data),
            Kind::Received => self.notified(context, header),
            Kind::PostReplenish => self.replenish(context, header, data.read(16, 8)),
            Kind::PostSend | Kind::PostRead | Kind::PostWrite => self.post(context, header, &data),
            Kind::Refused | Kind::Dispatch | Kind::Completed | Kind::Open => {}
        }
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        access: MemoryAccess,
        data: LineData,
    ) {
        let header = at_length(token);
        match token & purpose::MASK {
            purpose::PAYLOAD => {
                let count = MemoryAccess::FetchAdd {
                    address: self.counter(header),
                    addend: 1,
                };
                context.access(count, purpose::COUNT | in_short(header));
            }
            purpose::COUNT => {
                let offset = (self.counter(header) % LINE) as usize;
                self.counted(context, header, data.read(offset, 8));
            }
            purpose::RESET => self.completed(context, header),
            purpose::LOOK_INSIDE => {
                let queue = ((token & !purpose::MASK) >> QUEUE_AT) as usize;
                if let Some(index) = self.dispatcher(queue) {
                    let class = self.dispatchers[index].policy.class(&data);
                    self.enqueue(context, index, header, class);
                }
            }
            purpose::DEQUEUE => self.dequeued(context, token & !purpose::MASK, &data),
            purpose::READ_OUT => self.read_out(context, token, data),
            purpose::LANDED => self.one_less(context, (token & !purpose::MASK) as usize),
            purpose::SERVED => self.served(context, token & !purpose::MASK, access, data),
            _ => {}
        }
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        if token == purpose::PROCESS {
            self.process(context);
        } else if let Some((header, core)) = self.dispatching.pop_front()
            && let Some(&frontend) = self.neighbours.frontends.get(core as usize)
        {
            let data = LineData::ZERO;
            context.send(frontend, NOTICE_BYTES, AgentMessage { header, data });
        }
    }

    /// A core takes a message off the shared queue by itself: it moves the head past its entry.
    fn observe(&mut self, observation: &Observation) {
        if observation.address != self.queue_pairs.shared_head() {
            return;
        }
        let Some(dispatcher) = self.dispatchers.iter().find(|one| one.is_software) else {
            return;
        };
        let first = self.domain.borrow().shared_entry(dispatcher.queue, 0, 0);
        // The program wrote it: it may be anything.
        let entry = observation.before.wrapping_sub(first) / SHARED_ENTRY_BYTES;
        if let Some(&place) = dispatcher.places.get(entry as usize) {
            self.ledger
                .borrow_mut()
                .given(place as usize, observation.at);
        }
    }

    fn waiting_for(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if self.number == 0 && !self.domain.borrow().is_open {
            sentences.push("The program has not opened a messaging domain.".to_string());
        }
        for dispatcher in &self.dispatchers {
            let Domain {
                shared_queue_count, ..
            } = *self.domain.borrow();
            let waiting: u64 = dispatcher
                .classes
                .iter()
                .map(|one| one.tail - one.head)
                .sum();
            if waiting > 0 && !dispatcher.is_software {
                let counts = dispatcher.cores.iter().zip(&dispatcher.load.outstanding);
                let counts: Vec<_> = counts
                    .map(|(core, messages)| format!("core {core} has {messages}"))
                    .collect();
                sentences.push(format!(
                    "{waiting} messages wait in shared queue {} of {shared_queue_count} for a core \
                     with fewer than {}: {}.",
                    dispatcher.queue,
                    dispatcher.load.threshold,
                    counts.join(", ")
                ));
            }
        }
        sentences
    }

    fn walk(&mut self, walker: &mut dyn Walker) {
        State::walk(self, walker);
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}
