//! A backend at the edge of the chip: receives packets from the network and sends packets to it,
//! reads and writes memory, and dispatches the messages of its queues.
//!
//! This file contains the reception of messages; `dispatching.rs` their dispatch; `transfers.rs`
//! messages of cores, and one-sided operations in both directions; `registers.rs` the program's
//! registers.

mod dispatching;
pub(crate) mod registers;
mod statistics;
mod transfers;

pub(crate) use dispatching::Dispatcher;
pub use statistics::BackendStatistics;

use crate::context::SharedContexts;
use crate::domain::QueuePairs;
use crate::header::{
    BLOCK_PACKET_BYTES, CONTROL_PACKET_BYTES, Header, Kind, MAX_BYTES, MAX_CONTEXTS, MAX_NODES,
    MAX_SLOTS,
};
use crate::link::Link;
use crate::spec::{Latencies, Mode};
use fabric::{
    AddressRange, Agent, AgentContext, AgentId, AgentMessage, Attachment, CacheSpec, LINE_BYTES,
    LineData, MemoryAccess, Observation, RegisterAccess, Request, Time,
};
use queues::SharedLedger;
use state::{State, Walker};
use std::collections::VecDeque;
use transfers::Transfer;
use workload::Random;

const LINE: u64 = LINE_BYTES as u64;
/// Bytes of a message, between parts of the network interface, that contains only a header.
pub(crate) const NOTICE_BYTES: u64 = 16;

/// The purpose of an access or a timer: the upper 8 bits of its token. The rest is a message in
/// short form, or an index.
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

/// The position in a token of the queue of a message whose type is being read, above the message's
/// place. There is room for more queues than the maximum number of cores.
const QUEUE_AT: u32 = 48;
/// The positions of the slot, the context and the length of a message in short form.
const SLOT_AT: u32 = MAX_NODES.ilog2();
const CONTEXT_AT: u32 = SLOT_AT + MAX_SLOTS.ilog2();
const LENGTH_AT: u32 = CONTEXT_AT + MAX_CONTEXTS.ilog2();

/// A message's place and length in the form of a token.
fn in_short(header: Header) -> u64 {
    u64::from(header.bytes) << LENGTH_AT
        | u64::from(header.context) << CONTEXT_AT
        | u64::from(header.slot) << SLOT_AT
        | u64::from(header.node)
}

/// Decodes a token.
fn at_length(token: u64) -> Header {
    Header {
        kind: Kind::Received,
        node: (token & u64::from(MAX_NODES - 1)) as u16,
        slot: (token >> SLOT_AT & u64::from(MAX_SLOTS - 1)) as u16,
        index: 0,
        context: (token >> CONTEXT_AT) as u8 & (MAX_CONTEXTS - 1) as u8,
        bytes: (token >> LENGTH_AT) as u32 & MAX_BYTES,
    }
}

/// The agents of the other parts.
#[derive(Clone, Debug)]
pub(crate) struct Neighbours {
    pub cluster: AgentId,
    pub frontends: Vec<AgentId>,
    pub backends: Vec<AgentId>,
    /// The backend of each shared queue.
    pub homes: Vec<usize>,
}

/// A backend.
#[derive(state::State)]
#[state(fields)]
pub struct Backend {
    #[state(fixed)]
    pub(crate) number: usize,
    #[state(fixed)]
    pub(crate) registers: AddressRange,
    #[state(fixed)]
    pub(crate) queue_pairs: QueuePairs,
    #[state(fixed)]
    pub(crate) latencies: Latencies,
    #[state(fixed)]
    pub(crate) network_latency: Time,
    /// Assigns messages to queues, if those of a domain are assigned on arrival.
    pub(crate) chance: Random,
    #[state(fixed)]
    pub(crate) neighbours: Neighbours,
    #[state(fixed)]
    pub(crate) contexts: SharedContexts,
    #[state(fixed)]
    pub(crate) ledger: SharedLedger,
    pub(crate) link: Link,
    /// Packets in the remote request processing pipeline, oldest first.
    pub(crate) processing: VecDeque<(u64, LineData)>,
    #[state(slice)]
    pub(crate) dispatchers: Vec<Dispatcher>,
    /// Messages and operations in progress, at their places.
    pub(crate) transfers: Vec<Option<Transfer>>,
    pub(crate) statistics: BackendStatistics,
}

impl State for Backend {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        // All parts share it; it is walked once.
        if self.number == 0 {
            self.contexts.borrow_mut().walk(walker);
        }
    }
}

impl Backend {
    /// Its attachment to the fabric. The first backend has the registers. Its cache is for counters
    /// and shared queues.
    pub(crate) fn attachment(number: usize, tile: usize, registers: AddressRange) -> Attachment {
        Attachment {
            tile,
            owns: (number == 0).then_some(registers),
            cache: Some(CacheSpec {
                size_bytes: 4096,
                ways: 4,
                hit_latency_cycles: 2,
                mshrs: 32,
                ..CacheSpec::default()
            }),
            ..Attachment::default()
        }
    }

    /// Its counts.
    pub fn statistics(&self) -> BackendStatistics {
        self.statistics
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

    /// Handles a packet of a message from the network.
    fn receive(&mut self, context: &mut AgentContext<'_>, header: Header, data: LineData) {
        self.statistics.packets_received += 1;
        let mut contexts = self.contexts.borrow_mut();
        let domain = contexts.domain_mut(header.context);
        let blocks = header.blocks();
        let guard = domain.and_then(|domain| {
            let is_possible = (1..=domain.max_message_bytes).contains(&header.bytes)
                && u32::from(header.index) < blocks
                && domain.is_open;
            let place = domain
                .place(header.node, header.slot)
                .filter(|_| is_possible)?;
            domain.guard.get_mut(place as usize)
        });
        match guard {
            Some(guard) if u32::from(*guard) < blocks => {
                *guard += 1;
                drop(contexts);
                self.processing.push_back((header.encode(), data));
                context.wake(
                    context.now() + self.latencies.remote_processing,
                    purpose::PROCESS,
                );
            }
            _ => {
                drop(contexts);
                self.statistics.refused += 1;
                self.inject(context, header.of_kind(Kind::Refused), LineData::ZERO);
            }
        }
    }

    /// Handles a packet that leaves the pipeline: writes it to its place in memory.
    fn process(&mut self, context: &mut AgentContext<'_>) {
        let Some((word, data)) = self.processing.pop_front() else {
            return;
        };
        let Some(header) = Header::decode(word) else {
            return;
        };
        let contexts = self.contexts.borrow();
        let Some(domain) = contexts.domain(header.context) else {
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

    /// The address of the counter of a message's slot.
    fn counter(&self, header: Header) -> Option<u64> {
        let contexts = self.contexts.borrow();
        let domain = contexts.domain(header.context)?;
        Some(domain.receive_counter(domain.place(header.node, header.slot)?))
    }

    /// Handles a counted packet. The counter is reset to 0 before the message is announced.
    fn counted(&mut self, context: &mut AgentContext<'_>, header: Header, before: u64) {
        if before + 1 == u64::from(header.blocks())
            && let Some(address) = self.counter(header)
        {
            let write = MemoryAccess::Write {
                address,
                bytes: 8,
                data: LineData::ZERO,
            };
            context.access(write, purpose::RESET | in_short(header));
        }
    }

    /// Notifies the dispatcher of a complete message.
    fn completed(&mut self, context: &mut AgentContext<'_>, header: Header) {
        let contexts = self.contexts.borrow();
        let Some(domain) = contexts.domain(header.context) else {
            return;
        };
        let queue = domain.queues.start
            + match domain.mode {
                Mode::OneQueue | Mode::Software => 0,
                Mode::QueuePerBackend => self.number,
                Mode::QueuePerCore => self.chance.below(domain.queues.len() as u64) as usize,
            };
        drop(contexts);
        self.statistics.messages_received += 1;
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
            Kind::Fault => self.fault(context, header),
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
                if let Some(address) = self.counter(header) {
                    let count = MemoryAccess::FetchAdd { address, addend: 1 };
                    context.access(count, purpose::COUNT | in_short(header));
                }
            }
            purpose::COUNT => {
                // A counter is at the beginning of its block.
                self.counted(context, header, data.read(0, 8));
            }
            purpose::RESET => self.completed(context, header),
            purpose::LOOK_INSIDE => {
                self.looked_inside(context, token & !purpose::MASK, &data);
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
        } else {
            self.decided(context, (token & !purpose::MASK) as usize);
        }
    }

    /// Handles a core's removal of a message from a shared queue: it advances the head past its
    /// entry.
    fn observe(&mut self, observation: &Observation) {
        self.head_moved(observation);
    }

    fn waiting_for(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        let contexts = self.contexts.borrow();
        if self.number == 0 {
            let closed = contexts.domains().filter(|(_, domain)| !domain.is_open);
            sentences.extend(closed.map(|(context, _)| {
                format!("The program has not opened the messaging domain of context {context}.")
            }));
        }
        let queues = self.neighbours.homes.len();
        let waiting = self.dispatchers.iter();
        sentences.extend(waiting.filter_map(|one| one.waiting_for(queues)));
        sentences
    }
}
