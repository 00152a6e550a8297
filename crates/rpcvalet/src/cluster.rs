//! The cluster around a server with an integrated network interface: nodes that send it messages
//! and take its replies, as the traffic generator of Daglis et al. does (ASPLOS 2019, Section 5).
//!
//! The messaging domain determines the number of each node's send slots towards the server. A
//! message occupies a slot until the server's replenish arrives; without a free slot it waits at
//! its node. The ledger is kept here: an item is in its queue when the last packet of its message
//! has arrived at the server, and done when a core of the server has posted the replenish.
//!
//! With several domains, node numbers of the second one continue those of the first, and so on;
//! these numbers are the queues. Node 0 of two domains may be one machine, which makes no
//! difference here.

mod replies;
mod setup;

use crate::domain::{COUNTER_BYTES, SEND_SLOT_BYTES};
use crate::header::{BLOCK_PACKET_BYTES, CONTROL_PACKET_BYTES, Header, Kind, WORK_HEADER_AT};
use crate::link::{Link, LinkFaultCounts};
use fabric::{
    AddressRange, Agent, AgentContext, AgentId, AgentMessage, Attachment, LINE_BYTES, LineData,
    Observation, Request, Time,
};
use queues::{ArrivalTimer, Command, DeliveredPacket, DeviceRegisters, IoSetup, QueueDescriptor};
use queues::{ProgramSettings, SharedLedger};
use schemars::JsonSchema;
use serde::Serialize;
use state::{State, Walker};
use std::collections::{BTreeMap, VecDeque};
use workload::SLOT_HEADER_BYTES;
use workload::{Packets, Random};

pub use setup::{ClusterDomain, ClusterSetup, NetworkSpec};

/// A flag of a slot: the item is at its sender. Only its address there and its length, 8 bytes
/// each, follow the header, and the receiver reads the item.
pub const FLAG_RENDEZVOUS: u64 = 4;
/// A flag of a slot: the data plane could not process the item.
const FLAG_ERROR: u64 = 1;
/// Bytes of a window, in which a node keeps a packet that waits to be read. Each slot has a window,
/// at the end of the node's segment.
const WINDOW: u64 = 1 << 20;
const LINE: u64 = LINE_BYTES as u64;

/// A messaging domain, and the positions of its nodes and slots among all.
#[derive(Clone, Debug)]
struct DomainPlace {
    domain: ClusterDomain,
    first_node: usize,
    first_slot: usize,
    /// Its sending nodes.
    active_nodes: Vec<u32>,
    /// The cumulative share of the domains up to this one.
    up_to: f64,
}

/// Counts of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State)]
pub struct ClusterStatistics {
    /// Messages sent to the server.
    #[state(count)]
    pub messages: u64,
    /// Blocks of messages sent to the server.
    #[state(count)]
    pub packets: u64,
    /// Messages that found all slots of their node in use, and waited.
    #[state(count)]
    pub waits: u64,
    /// Time that messages waited for a slot, in femtoseconds.
    #[state(count)]
    pub waited_fs: u64,
    /// The maximum number of slots of one node in use.
    #[state(count)]
    pub max_slots_in_use: u64,
    /// Replies received.
    #[state(count)]
    pub replies: u64,
    /// Replies that belong to no message of their node.
    #[state(count)]
    pub unexpected_replies: u64,
    /// Replenishes of slots that were free.
    #[state(count)]
    pub unexpected_replenishes: u64,
    /// Messages that were sent into a slot in use, or were too large, on purpose.
    #[state(count)]
    pub violations: u64,
    /// Messages that the server refused.
    #[state(count)]
    pub refused: u64,
    /// Blocks that the server did not permit a node to read.
    #[state(count)]
    pub faults_of_reads: u64,
    /// Blocks of the nodes' memories that the server's cores could not read or write.
    #[state(count)]
    pub faults_of_nodes: u64,
    /// Faults on the links to the server.
    #[serde(flatten)]
    pub faults: LinkFaultCounts,
}

/// The purpose of an event: the upper 8 bits of its timer's token. The rest is an index.
mod purpose {
    pub const RECEIVED: u64 = 2 << 56;
    pub const MASK: u64 = 0xff << 56;
}

#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Node {
    /// Send slots towards the server; the one that has been free longest comes first.
    free: VecDeque<u16>,
    /// The arrival time of each message that waits for a slot.
    waiting: VecDeque<Time>,
}

/// A message in its slot, and a reply in the server's slot of the same number.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Slot {
    in_use: bool,
    item: u64,
    /// See [`Packets::kind_of`].
    kind: u8,
    /// The time of the core's post of the replenish, the time of its previous one, and the core's
    /// number.
    posted_at: Option<(Time, Time, u16)>,
    /// The item that the server has to read, if it did not fit into a message.
    window: Vec<u8>,
    /// Number of blocks of the reply that have arrived.
    reply_blocks: u32,
    reply_item: u64,
    reply_flags: u64,
    /// Number of blocks still to be read from the server's segment, and their position there.
    reply_to_read: u32,
    reply_offset: u64,
    reply: Vec<u8>,
}

/// The agent that is the rest of the cluster, and owns the registers of the I/O device.
#[derive(state::State)]
#[state(fields)]
pub struct Cluster {
    #[state(fixed)]
    setup: ClusterSetup,
    #[state(fixed)]
    latency: Time,
    arrivals: ArrivalTimer,
    /// Whether the last-level cache must initially have the contents that remain after a first use
    /// of all slots.
    uses_slots: bool,
    #[state(fixed)]
    domains: Vec<DomainPlace>,
    node_choice: Random,
    chance: Random,
    #[state(fixed)]
    ledger: SharedLedger,
    registers: DeviceRegisters,
    next_item: u64,
    #[state(slice)]
    nodes: Vec<Node>,
    #[state(slice)]
    slots: Vec<Slot>,
    /// Items whose replies have not arrived, and their nodes.
    unanswered: BTreeMap<u64, u32>,
    /// The contents written to the nodes' memories, by context, node and block.
    memory: BTreeMap<((u8, u16), u32), LineData>,
    /// The links to each backend.
    #[state(slice)]
    links: Vec<Link>,
    /// The time of each core's last post of a replenish: an instrument.
    #[state(slice)]
    cores_posted_at: Vec<Time>,
    #[state(fixed)]
    keep: usize,
    kept: Vec<DeliveredPacket>,
    statistics: ClusterStatistics,
    /// The message that is being assembled; kept to save allocations.
    #[state(fixed)]
    message: Vec<u8>,
}

impl State for Cluster {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        self.ledger.borrow_mut().walk(walker);
    }
}

impl Cluster {
    /// A cluster that waits for the program to write the register START. `active_nodes` are the
    /// sending nodes of each domain. `choice` chooses domains and nodes, `chance` backends and
    /// faults. The first `keep` replies are kept.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        setup: ClusterSetup,
        arrivals: ArrivalTimer,
        active_nodes: Vec<Vec<u32>>,
        (choice, chance): (Random, Random),
        packets: Packets,
        settings: ProgramSettings,
        ledger: SharedLedger,
        keep: usize,
    ) -> Cluster {
        let shares: f64 = setup.domains.iter().map(|domain| domain.share).sum();
        let (mut nodes, mut slots, mut share) = (Vec::new(), 0, 0.0);
        let mut domains = Vec::new();
        for (&domain, active_nodes) in setup.domains.iter().zip(active_nodes) {
            share += domain.share;
            domains.push(DomainPlace {
                domain,
                first_node: nodes.len(),
                first_slot: slots,
                active_nodes,
                up_to: share / shares,
            });
            let node = Node {
                free: (0..domain.slots as u16).collect(),
                waiting: VecDeque::new(),
            };
            nodes.resize(nodes.len() + domain.nodes as usize, node);
            slots += domain.nodes as usize * domain.slots as usize;
        }
        ledger.borrow_mut().allow_reordering();
        Cluster {
            latency: Time::from_ns(setup.network.latency_ns),
            links: vec![Link::new(setup.network.link_gb_per_s); setup.backends.len()],
            arrivals,
            cores_posted_at: vec![Time::ZERO; setup.io.data_plane_cores as usize],
            uses_slots: false,
            domains,
            node_choice: choice,
            chance,
            registers: DeviceRegisters::new(setup.io, settings, packets, ledger.clone()),
            ledger,
            next_item: 0,
            nodes,
            slots: vec![Slot::default(); slots],
            unanswered: BTreeMap::new(),
            memory: BTreeMap::new(),
            keep,
            kept: Vec::new(),
            statistics: ClusterStatistics::default(),
            message: Vec::new(),
            setup,
        }
    }

    /// The same cluster, for whose messages this is not the first lap of the slots, if
    /// `has_used_slots`. In a lap each node's slots are used in turn, and nodes are chosen at
    /// random, so that all are in step: slot by slot, a backend writes a message and its counter,
    /// and frees the slot of the reply. No cache shares these lines afterwards: the core that has
    /// read a message owned its lines, and has returned them by the time of reuse.
    pub fn with_used_slots(self, has_used_slots: bool) -> Cluster {
        Cluster {
            uses_slots: has_used_slots,
            ..self
        }
    }

    /// Its attachment to the fabric: it owns the registers of the I/O device.
    pub fn attachment(setup: &IoSetup, tile: usize) -> Attachment {
        Attachment {
            tile,
            owns: Some(setup.registers),
            ..Attachment::default()
        }
    }

    /// Its counts; messages that still wait are counted up to `now`.
    pub fn statistics(&self, now: Time) -> ClusterStatistics {
        let waiting = self.nodes.iter().flat_map(|node| &node.waiting);
        let waiting: u64 = waiting
            .map(|&since| now.saturating_sub(since).as_fs())
            .sum();
        ClusterStatistics {
            waited_fs: self.statistics.waited_fs + waiting,
            ..self.statistics
        }
    }

    /// The kept replies.
    pub fn delivered(&self) -> &[DeliveredPacket] {
        &self.kept
    }

    fn start(&mut self, context: &mut AgentContext<'_>) {
        let nodes = vec![QueueDescriptor::default(); self.nodes.len()];
        self.ledger.borrow_mut().start(0, nodes, context.now());
        self.arrivals.await_arrival(context);
    }

    /// The number of a slot among all, if the domain has it.
    fn place(&self, header: Header) -> Option<usize> {
        let of = self.domains.get(usize::from(header.context))?;
        let ClusterDomain { nodes, slots, .. } = of.domain;
        let is_one = u32::from(header.node) < nodes && u32::from(header.slot) < slots;
        let slot = usize::from(header.node) * slots as usize + usize::from(header.slot);
        is_one.then_some(of.first_slot + slot)
    }

    /// The domain, the node and the slot with this number, in the header of a block of a message.
    fn header_of(&self, place: usize) -> Header {
        let is_behind = |of: &&DomainPlace| of.first_slot <= place;
        let behind = self.domains.iter().take_while(is_behind).count();
        let context = behind.saturating_sub(1);
        let of = &self.domains[context];
        let (slot, slots) = (place - of.first_slot, of.domain.slots as usize);
        Header {
            kind: Kind::Send,
            node: (slot / slots) as u16,
            slot: (slot % slots) as u16,
            index: 0,
            context: context as u8,
            bytes: 64,
        }
    }

    /// The number of a node among all, which is its queue.
    fn queue(&self, header: Header) -> usize {
        self.domains[usize::from(header.context)].first_node + usize::from(header.node)
    }

    /// Draws the domain and the node of the next request: the number of the domain, and the node's
    /// number in it.
    fn draw_node(&mut self) -> (u8, u32) {
        let last = self.domains.len() - 1;
        let mut context = 0;
        if last > 0 {
            let part = self.node_choice.unit();
            let is_below = |of: &&DomainPlace| of.up_to <= part;
            context = self.domains.iter().take_while(is_below).count().min(last);
        }
        let active_nodes = &self.domains[context].active_nodes;
        let choice = self.node_choice.below(active_nodes.len() as u64);
        (context as u8, active_nodes[choice as usize])
    }

    /// Handles a request at a node.
    fn offer(&mut self, context: &mut AgentContext<'_>, of: u8, number: u32) {
        let mut header = Header {
            kind: Kind::Send,
            node: number as u16,
            slot: 0,
            index: 0,
            context: of,
            bytes: 0,
        };
        let queue = self.queue(header);
        let number = queue as u32;
        let mut ledger = self.ledger.borrow_mut();
        ledger.generated(number);
        let node = &mut self.nodes[queue];
        if let Some(slot) = node.free.pop_front() {
            drop(ledger);
            header.slot = slot;
            self.send(context, header);
        } else if node.waiting.len() < self.setup.io.queue_capacity as usize {
            node.waiting.push_back(context.now());
            self.statistics.waits += 1;
        } else {
            ledger.dropped(number);
        }
    }

    /// Fills the last-level cache with the lines that remain after a lap of the slots, for messages
    /// of `message_bytes` bytes.
    fn use_slots(&mut self, context: &mut AgentContext<'_>, message_bytes: u64) {
        let contexts = self.setup.contexts.borrow();
        let mut warm = |start: u64, length: u64| {
            context.warm_last_level(AddressRange { start, length });
        };
        for (number, of) in self.domains.iter().enumerate() {
            let Some(domain) = contexts.domain(number as u8).filter(|one| one.is_open) else {
                continue;
            };
            for slot in 0..of.domain.slots as u16 {
                for &node in &of.active_nodes {
                    let Some(place) = domain.place(node as u16, slot) else {
                        continue;
                    };
                    warm(domain.receive_payload(place), message_bytes);
                    warm(domain.receive_counter(place), COUNTER_BYTES);
                    warm(domain.send_slot(place), SEND_SLOT_BYTES);
                }
            }
        }
    }

    /// Sends the next message from the slot of this header, which has just been allocated.
    fn send(&mut self, context: &mut AgentContext<'_>, header: Header) {
        let Some(place) = self.place(header) else {
            return;
        };
        let queue = self.queue(header);
        let ClusterDomain {
            slots,
            max_message_bytes,
            ..
        } = self.domains[usize::from(header.context)].domain;
        let item = self.next_item;
        self.next_item += 1;
        let mut message = std::mem::take(&mut self.message);
        message.clear();
        message.resize(SLOT_HEADER_BYTES as usize, 0);
        let kind = self.registers.append_next(&mut message);
        let packet_bytes = message.len() as u64 - u64::from(SLOT_HEADER_BYTES);
        let state = &mut self.slots[place];
        state.in_use = true;
        state.kind = kind;
        state.item = item;
        state.posted_at = None;
        state.window.clear();
        message[0..4].copy_from_slice(&(packet_bytes as u32).to_le_bytes());
        message[8..16].copy_from_slice(&item.to_le_bytes());
        if message.len() > max_message_bytes as usize {
            let bytes = message.len() as u64;
            let offset = self.setup.network.segment_bytes + u64::from(header.slot) * WINDOW;
            let mut short = message[..SLOT_HEADER_BYTES as usize].to_vec();
            short[4..8].copy_from_slice(&(FLAG_RENDEZVOUS as u32).to_le_bytes());
            short.extend(offset.to_le_bytes());
            short.extend(bytes.to_le_bytes());
            state.window = std::mem::replace(&mut message, short);
        }
        if std::mem::take(&mut self.uses_slots) {
            self.use_slots(context, message.len() as u64);
        }
        self.unanswered.insert(item, queue as u32);

        let in_use = slots as usize - self.nodes[queue].free.len();
        let most = &mut self.statistics.max_slots_in_use;
        *most = (*most).max(in_use as u64);
        self.statistics.messages += 1;
        let header = Header {
            kind: Kind::Send,
            index: 0,
            bytes: message.len() as u32,
            ..header
        };
        // Any backend can receive it. A fixed hash of node and slot would favour some of them: of
        // 6400 slots a quarter is 1600 with a standard deviation of 35.
        let backend = self.chance.below(self.links.len() as u64) as usize;
        let received_at = self.send_blocks(context, header, &message, backend);
        self.message = message;
        context.wake(received_at, purpose::RECEIVED | place as u64);
        let network = &self.setup.network;
        if network.oversized > 0.0 && self.chance.unit() < network.oversized {
            self.statistics.violations += 1;
            let bytes = max_message_bytes + 1;
            self.send_packet(context, Header { bytes, ..header }, LineData::ZERO, backend);
        }
    }

    /// Sends all blocks of a message to one backend; returns the arrival time of the last one.
    fn send_blocks(
        &mut self,
        context: &mut AgentContext<'_>,
        header: Header,
        message: &[u8],
        backend: usize,
    ) -> Time {
        let blocks = header.blocks() as u16;
        let mut order: Vec<u16> = (0..blocks).collect();
        if self.setup.network.shuffle {
            for last in (1..order.len()).rev() {
                order.swap(last, self.chance.below(last as u64 + 1) as usize);
            }
        }
        let mut received_at = Time::ZERO;
        for index in order {
            let start = usize::from(index) * LINE_BYTES;
            let bytes = &message[start..message.len().min(start + LINE_BYTES)];
            let mut data = LineData::ZERO;
            data.0[..bytes.len()].copy_from_slice(bytes);
            self.statistics.packets += 1;
            let arrival = self.send_packet(context, Header { index, ..header }, data, backend);
            received_at = received_at.max(arrival);
        }
        received_at
    }

    /// Sends a packet to the server; returns its arrival time.
    fn send_packet(
        &mut self,
        context: &mut AgentContext<'_>,
        header: Header,
        data: LineData,
        backend: usize,
    ) -> Time {
        let bytes = match header.kind {
            Kind::Send | Kind::ReadReply | Kind::Write => BLOCK_PACKET_BYTES,
            _ => CONTROL_PACKET_BYTES,
        };
        let now = context.now();
        let counts = &mut self.statistics.faults;
        let late = self.setup.network.faults.delay(&mut self.chance, counts);
        let arrival = self.links[backend].send(now + self.latency, bytes) + late;
        let header = header.encode();
        let message = AgentMessage { header, data };
        context.send_over_wires(self.setup.backends[backend], arrival - now, message);
        arrival
    }

    /// Handles the arrival of a complete message at the server.
    fn received(&mut self, context: &mut AgentContext<'_>, place: usize) {
        let header = self.header_of(place);
        let queue = self.queue(header) as u32;
        let Slot { item, kind, .. } = self.slots[place];
        let now = context.now();
        self.ledger.borrow_mut().arrived(queue, (item, kind), now);
        let network = &self.setup.network;
        if network.slots_used_twice > 0.0 && self.chance.unit() < network.slots_used_twice {
            self.statistics.violations += 1;
            let backend = self.setup.backends[header.backend(self.links.len())];
            let (header, data) = (header.encode(), LineData::ZERO);
            context.send_over_wires(backend, Time::ZERO, AgentMessage { header, data });
        }
    }

    /// Handles the server's replenish of a message: its slot is free.
    fn replenished(&mut self, context: &mut AgentContext<'_>, header: Header) {
        let now = context.now();
        let place = self.place(header);
        let in_use = place.filter(|&place| self.slots[place].in_use);
        let Some(place) = in_use else {
            self.statistics.unexpected_replenishes += 1;
            return;
        };
        let queue = self.queue(header);
        let slot = &mut self.slots[place];
        slot.in_use = false;
        let posted_at = slot.posted_at.take().unwrap_or((now, now, 0));
        let item = (slot.item, place);
        self.ledger
            .borrow_mut()
            .completed(queue as u32, item, posted_at, now);
        let node = &mut self.nodes[queue];
        node.free.push_back(header.slot);
        if let Some(since) = node.waiting.pop_front()
            && let Some(slot) = node.free.pop_front()
        {
            self.statistics.waited_fs += (now - since).as_fs();
            self.send(context, Header { slot, ..header });
        }
    }
}

impl Agent for Cluster {
    fn name(&self) -> String {
        "cluster".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        if self.registers.answer(context, request) == Command::Start {
            self.start(context);
        }
    }

    fn message(&mut self, context: &mut AgentContext<'_>, from: AgentId, message: AgentMessage) {
        let Some(header) = Header::decode(message.header) else {
            return;
        };
        match header.kind {
            Kind::Send => self.reply_block(context, header, &message.data),
            Kind::Replenish => self.replenished(context, header),
            Kind::Read | Kind::Write => self.one_sided(context, from, header, message.data),
            Kind::ReadReply | Kind::Fault => self.reply_read(context, header, &message.data),
            Kind::Refused => self.statistics.refused += 1,
            _ => {}
        }
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        if token & purpose::MASK == purpose::RECEIVED {
            self.received(context, (token & !purpose::MASK) as usize);
            return;
        }
        let Some(messages) = self.arrivals.due(context, token, &self.ledger) else {
            return;
        };
        let (of, node) = self.draw_node();
        for _ in 0..messages {
            self.offer(context, of, node);
        }
        self.arrivals.await_arrival(context);
    }

    /// Handles a core's post to the network interface: the latency of the replenished message ends.
    /// The packet later shows whether the post was a replenish.
    fn observe(&mut self, observation: &Observation) {
        if observation.address % LINE_BYTES as u64 != WORK_HEADER_AT {
            return;
        }
        let Some(header) =
            Header::decode(observation.value).filter(|header| header.kind == Kind::PostReplenish)
        else {
            return;
        };
        let core = usize::from(observation.core.0);
        if let Some(place) = self.place(header)
            && let Some(slot) = self.slots.get_mut(place)
            && let Some(before) = self.cores_posted_at.get_mut(core)
        {
            slot.posted_at = Some((observation.at, *before, observation.core.0));
            *before = observation.at;
        }
    }

    fn waiting_for(&self) -> Vec<String> {
        if !self.registers.is_started() {
            return vec![
                "The cluster waits for the program to write the register START of its I/O device."
                    .to_string(),
            ];
        }
        let in_use = self.slots.iter().filter(|slot| slot.in_use).count();
        let waiting: usize = self.nodes.iter().map(|node| node.waiting.len()).sum();
        vec![format!(
            "{in_use} messages have not been replenished, and {waiting} wait for a send slot."
        )]
    }
}
