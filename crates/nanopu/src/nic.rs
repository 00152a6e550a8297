//! The network interface: the path of packets and messages between a link and the cores.

use crate::cable::SharedCable;
use crate::clients::{CLIENTS, send};
use crate::extension::{code, notice};
use crate::mailbox::{SharedMailbox, Words};
use crate::selection::Waiting;
use crate::spec::{CoreSelection, NanoPuSpec, TransmitOrder};
use fabric::{Agent, AgentContext, AgentId, AgentMessage, Clock, Request, RequestKind, Time};
use network::packet::{DATA, Endpoint, Message, Packet, Transport, TransportAction};
use network::rack::{Interface, LineRate, Record, Records, SecondPath, Step};
use schemars::JsonSchema;
use serde::Serialize;
use state::{State, Walker};
use std::collections::{BTreeMap, VecDeque};

/// What a timer was for: the lowest bits of its token. Behind them is the number of a packet or of
/// a transport's timer.
mod purpose {
    pub const ARRIVED: u64 = 0;
    pub const THROUGH_INGRESS: u64 = 1;
    pub const REASSEMBLED: u64 = 2;
    pub const PACKETIZED: u64 = 3;
    pub const LINK_FREE: u64 = 4;
    pub const TRANSPORT: u64 = 5;
    pub const FRAME_WAITS: u64 = 6;
    pub const BITS: u32 = 3;
}

/// Counts of the interface.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State, state::Plain,
)]
#[schemars(rename = "NanoPuStatistics")]
pub struct Statistics {
    /// Packets from the network.
    #[state(count)]
    pub packets_received: u64,
    /// Packets from the network for another address, or with data for a context that no core has
    /// bound in a server without a DMA path.
    #[state(count)]
    pub packets_dropped: u64,
    /// Packets to the network, on both paths.
    #[state(count)]
    pub packets_sent: u64,
    /// Messages that were given to cores.
    #[state(count)]
    pub messages_received: u64,
    /// Messages that cores have sent.
    #[state(count)]
    pub messages_sent: u64,
    /// Messages that the transport could not deliver.
    #[state(count)]
    pub messages_given_up: u64,
    /// The maximum number of messages of one context that waited for a core.
    pub longest_queue: u64,
    /// Bytes of packets that have crossed the link, in both directions together.
    #[state(count)]
    pub link_bytes: u64,
}

/// Packets on the DMA path: a part of those of the interface.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State, state::Plain,
)]
#[state(all(count))]
pub struct DmaPathStatistics {
    /// Packets from the network that went to the conventional interface.
    pub packets_received: u64,
    /// Packets that the conventional interface has sent.
    pub packets_sent: u64,
}

/// The DMA path: a conventional interface behind the ingress pipeline, and in front of the egress
/// pipeline.
#[derive(state::State)]
struct DmaPath {
    path: SecondPath,
    /// Whether it sent the last packet.
    #[state(exact)]
    was_last: bool,
    statistics: DmaPathStatistics,
}

/// The latencies of packets and messages.
#[derive(Clone, Copy, Debug)]
struct Latencies {
    mac: Time,
    ingress: Time,
    /// Of reassembly and of the choice of a core.
    reassembly: Time,
    to_core: Time,
    packetization: Time,
    egress: Time,
    from_core: Time,
}

/// The clients at the other end of the link of a server that is alone.
#[derive(Clone, Debug)]
pub(crate) struct Outside {
    pub clients: AgentId,
    pub cable: SharedCable,
}

/// A message of a core that the transport has not taken.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Refused {
    core: usize,
    message: Message,
}

/// The network interface of a server.
#[derive(state::State)]
#[state(fields)]
pub struct Nic {
    #[state(fixed)]
    latencies: Latencies,
    #[state(fixed)]
    policy: CoreSelection,
    #[state(fixed)]
    most: u32,
    #[state(fixed)]
    cores: usize,
    #[state(fixed)]
    address: u32,
    #[state(fixed)]
    rate: LineRate,
    #[state(fixed)]
    transport: Box<dyn Transport>,
    #[state(fixed)]
    mailbox: SharedMailbox,
    /// The match-action table: the contexts on the fast path, and their messages.
    contexts: BTreeMap<u16, Waiting>,
    /// What is on its way through the parts that take the same time for all, oldest first.
    arriving: VecDeque<Packet>,
    /// Packets in the ingress pipeline or on the way to it from the egress pipeline, by number.
    in_ingress: BTreeMap<u64, Packet>,
    in_reassembly: VecDeque<Message>,
    in_packetization: VecDeque<Refused>,
    /// Messages that the transport has no room for, oldest first.
    refused: VecDeque<Refused>,
    /// From when on the egress pipeline can take a packet, and whether a timer will tell.
    free_at: Time,
    is_waiting: bool,
    /// Timers that the transport has asked for, by number, and their tokens.
    timers: BTreeMap<u64, u64>,
    #[state(exact)]
    next_number: u64,
    sent: VecDeque<(Time, Packet)>,
    statistics: Statistics,
    /// Why messages were given up.
    failures: Vec<String>,
    #[state(fixed)]
    records: Records,
    #[state(fixed)]
    outside: Option<Outside>,
    #[state(fixed)]
    order: TransmitOrder,
    #[state(inside)]
    dma_path: Option<DmaPath>,
    /// Empty between events.
    #[state(fixed)]
    actions: Vec<TransportAction>,
}

impl State for Nic {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        self.transport.walk(walker);
        self.mailbox.borrow_mut().walk(walker);
        if let Some(outside) = &self.outside {
            outside.cable.borrow_mut().walk(walker);
        }
    }
}

impl Nic {
    pub(crate) fn new(
        spec: &NanoPuSpec,
        clock: Clock,
        cores: usize,
        (address, rate): (u32, LineRate),
        mailbox: SharedMailbox,
    ) -> Nic {
        let (further_in, further_out) = spec.transport.further_cycles();
        Nic {
            latencies: Latencies {
                mac: Time::from_ns(spec.mac_and_serial_io_ns),
                ingress: clock.time(spec.ingress_cycles + further_in),
                reassembly: clock.time(spec.reassembly_cycles + spec.core_selection_cycles),
                to_core: clock.time(spec.to_core_cycles),
                packetization: clock.time(spec.packetization_cycles),
                egress: clock.time(spec.egress_cycles + further_out),
                from_core: clock.time(spec.from_core_cycles),
            },
            policy: spec.core_selection,
            most: spec.messages_per_core,
            cores,
            address,
            rate,
            transport: spec.transport.open(address, rate),
            mailbox,
            contexts: BTreeMap::new(),
            arriving: VecDeque::new(),
            in_ingress: BTreeMap::new(),
            in_reassembly: VecDeque::new(),
            in_packetization: VecDeque::new(),
            refused: VecDeque::new(),
            free_at: Time::ZERO,
            is_waiting: false,
            timers: BTreeMap::new(),
            next_number: 0,
            sent: VecDeque::new(),
            statistics: Statistics::default(),
            failures: Vec::new(),
            records: Records::default(),
            outside: None,
            order: spec.transmit_order,
            dma_path: None,
            actions: Vec::new(),
        }
    }

    /// With clients at the other end of its link.
    pub(crate) fn with_clients(self, outside: Outside) -> Nic {
        Nic {
            outside: Some(outside),
            ..self
        }
    }

    /// What it has counted.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// The counts of its DMA path, if it has one.
    pub fn dma_path_statistics(&self) -> Option<DmaPathStatistics> {
        self.dma_path.as_ref().map(|one| one.statistics)
    }

    /// The rate of its link.
    pub(crate) fn rate(&self) -> LineRate {
        self.rate
    }

    /// The reasons why messages could not be delivered, a sentence each.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// A packet enters the ingress pipeline in so much time.
    fn enter(&mut self, context: &mut AgentContext<'_>, delay: Time, packet: Packet) {
        let number = self.next_number;
        self.next_number += 1;
        self.in_ingress.insert(number, packet);
        let at = context.now() + delay + self.latencies.ingress;
        context.wake(at, number << purpose::BITS | purpose::THROUGH_INGRESS);
    }

    /// A packet has passed the ingress pipeline: its destination port decides about its path
    /// (Section 2, step 1 of Figure 1). Without a DMA path, the transport knows what to do with
    /// packets without data, which only it can have caused.
    fn through_ingress(&mut self, context: &mut AgentContext<'_>, number: u64) {
        let Some(packet) = self.in_ingress.remove(&number) else {
            return;
        };
        self.statistics.packets_received += 1;
        let has_data = packet.header.flags & DATA != 0;
        let is_ours = packet.to.address == self.address;
        let is_bound = self.contexts.contains_key(&packet.to.port);
        match &mut self.dma_path {
            Some(dma) if is_ours && !is_bound => {
                dma.statistics.packets_received += 1;
                return dma.path.hand_over(context, packet);
            }
            _ if !is_ours || has_data && !is_bound => {
                self.statistics.packets_dropped += 1;
                return;
            }
            _ => {}
        }
        self.transport
            .arrived(context.now(), packet, &mut self.actions);
        self.after_transport(context);
    }

    /// A message is whole and in the queue of its context.
    fn reassembled(&mut self, context: &mut AgentContext<'_>) {
        let Some(message) = self.in_reassembly.pop_front() else {
            return;
        };
        let port = message.to.port;
        let Some(waiting) = self.contexts.get_mut(&port) else {
            // It has been removed meanwhile.
            self.transport.taken(context.now(), &message);
            return;
        };
        waiting.push(self.policy, message);
        self.statistics.longest_queue = self.statistics.longest_queue.max(waiting.length() as u64);
        self.give_out(context, port);
    }

    /// Gives cores what waits for them.
    fn give_out(&mut self, context: &mut AgentContext<'_>, port: u16) {
        while let Some(waiting) = self.contexts.get_mut(&port)
            && let Some((core, message)) = waiting.pop(self.policy, self.most)
        {
            self.transport.taken(context.now(), &message);
            self.statistics.messages_received += 1;
            let at = context.now() + self.latencies.to_core;
            self.records.note(&message, || Step::Given { core, at });
            // Another program of the server has tags of its own.
            if let Some(outside) = &self.outside
                && message.from.address == CLIENTS
            {
                outside.cable.borrow().given(message.tag, at);
            }
            self.mailbox
                .borrow_mut()
                .send_to_core(core, received_words(&message));
            context.notify(
                core as u16,
                notice::encode(notice::MESSAGE, port),
                self.latencies.to_core,
            );
        }
    }

    /// The words of a message have come from a core.
    fn sent_by_core(&mut self, context: &mut AgentContext<'_>, core: usize) {
        let Some(words) = self.mailbox.borrow_mut().take_from_core(core) else {
            return;
        };
        self.statistics.messages_sent += 1;
        let message = sent_message(self.address, &words, self.statistics.messages_sent);
        self.records.note(&message, || Step::Sent {
            core,
            at: context.now(),
        });
        if let Some(outside) = &self.outside
            && message.to.address == CLIENTS
        {
            let written_at = context.now() - self.latencies.from_core;
            let mut cable = outside.cable.borrow_mut();
            cable.wrote(core, message.tag, written_at);
        }
        self.in_packetization.push_back(Refused { core, message });
        let at = context.now() + self.latencies.packetization;
        context.wake(at, purpose::PACKETIZED);
    }

    /// A message of a core is for the transport.
    fn packetized(&mut self, context: &mut AgentContext<'_>) {
        let Some(one) = self.in_packetization.pop_front() else {
            return;
        };
        if self.refused.is_empty() && self.offer(context, &one) {
            return self.after_transport(context);
        }
        let port = one.message.from.port;
        let key = (one.core, port);
        let mut others = self.refused.iter();
        if others.all(|other| (other.core, other.message.from.port) != key) {
            self.tell(context, one.core, notice::STOP, port);
        }
        self.refused.push_back(one);
        self.after_transport(context);
    }

    fn offer(&mut self, context: &AgentContext<'_>, one: &Refused) -> bool {
        let message = one.message.clone();
        self.transport
            .send(context.now(), message, &mut self.actions)
    }

    fn tell(&self, context: &mut AgentContext<'_>, core: usize, kind: u64, port: u16) {
        let header = notice::encode(kind, port);
        context.notify(core as u16, header, self.latencies.to_core);
    }

    /// The transport may have failures to report, messages to accept, or packets to send.
    fn after_transport(&mut self, context: &mut AgentContext<'_>) {
        while let Some(first) = self.refused.pop_front() {
            if !self.offer(context, &first) {
                self.refused.push_front(first);
                break;
            }
            let key = (first.core, first.message.from.port);
            let mut others = self.refused.iter();
            if others.all(|other| (other.core, other.message.from.port) != key) {
                self.tell(context, key.0, notice::GO, key.1);
            }
        }
        for action in self.actions.drain(..) {
            match action {
                TransportAction::Deliver(message) => {
                    self.in_reassembly.push_back(message);
                    let at = context.now() + self.latencies.reassembly;
                    context.wake(at, purpose::REASSEMBLED);
                }
                TransportAction::Wake(at, token) => {
                    let number = self.next_number;
                    self.next_number += 1;
                    self.timers.insert(number, token);
                    context.wake(at, number << purpose::BITS | purpose::TRANSPORT);
                }
                TransportAction::GiveUp(_, why) => {
                    self.statistics.messages_given_up += 1;
                    self.failures.push(why);
                }
            }
        }
        self.pull(context);
    }

    /// The next packet for the link, which is free. One of the DMA path comes with the token for
    /// its departure. A path is asked only when it may send: the transport chooses among all that it
    /// has at that time.
    fn next_packet(&mut self, now: Time) -> Option<(Packet, Option<u64>)> {
        let Some(dma) = &mut self.dma_path else {
            return Some((self.transport.next_packet(now)?, None));
        };
        let dma_is_first = self.order == TransmitOrder::RoundRobin && !dma.was_last;
        for is_dma in [dma_is_first, !dma_is_first] {
            let next = match is_dma {
                true => dma
                    .path
                    .next_packet(now)
                    .map(|(one, left)| (one, Some(left))),
                false => self.transport.next_packet(now).map(|one| (one, None)),
            };
            if next.is_some() {
                dma.was_last = is_dma;
                dma.statistics.packets_sent += u64::from(is_dma);
                return next;
            }
        }
        None
    }

    /// Takes packets from the paths as long as there is room on the link.
    fn pull(&mut self, context: &mut AgentContext<'_>) {
        let now = context.now();
        while self.free_at <= now
            && let Some((packet, left)) = self.next_packet(now)
        {
            self.statistics.packets_sent += 1;
            let duration = self.rate.duration(packet.wire_bytes());
            self.free_at = now + duration;
            if let (Some(dma), Some(left)) = (&self.dma_path, left) {
                dma.path.leaves(context, self.free_at, left);
            }
            if packet.to.address == self.address {
                // From one core to another: it turns round in front of the MAC.
                self.enter(context, self.latencies.egress + duration, packet);
            } else {
                self.statistics.link_bytes += packet.wire_bytes();
                let latency = self.latencies.egress + self.latencies.mac;
                match &self.outside {
                    None => self.sent.push_back((now + latency, packet)),
                    Some(outside) => {
                        outside.cable.borrow_mut().to_clients.push_back(packet);
                        send(context, outside.clients, latency + duration);
                    }
                }
            }
        }
        if self.free_at > now && !self.is_waiting {
            self.is_waiting = true;
            context.wake(self.free_at, purpose::LINK_FREE);
        }
    }

    fn bind(&mut self, context: &mut AgentContext<'_>, core: usize, port: u16, bound: bool) {
        let (policy, cores) = (self.policy, self.cores);
        let waiting = self
            .contexts
            .entry(port)
            .or_insert_with(|| Waiting::new(policy, cores));
        waiting.bind(policy, core, bound);
        if waiting.cores.bound.contains(&true) {
            self.give_out(context, port);
        } else if let Some(mut waiting) = self.contexts.remove(&port) {
            for message in waiting.take_all() {
                self.transport.taken(context.now(), &message);
            }
        }
    }
}

/// What a core reads of a message: its application header and big-endian words.
fn received_words(message: &Message) -> Words {
    let from = message.from;
    let header = u64::from(from.address) << 32
        | u64::from(from.port) << 16
        | message.payload.len() as u64 & 0xffff;
    let payload = message.payload.chunks(8).map(|chunk| {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        u64::from_be_bytes(bytes)
    });
    Words {
        context: message.to.port,
        words: std::iter::once(header).chain(payload).collect(),
    }
}

/// The message that a core at `address` has written.
fn sent_message(address: u32, words: &Words, tag: u64) -> Message {
    let header = words.words.first().copied().unwrap_or_default();
    let payload = words.words.iter().skip(1);
    let mut payload: Vec<u8> = payload.flat_map(|word| word.to_be_bytes()).collect();
    payload.truncate((header & 0xffff) as usize);
    Message {
        from: Endpoint {
            address,
            port: words.context,
        },
        to: Endpoint {
            address: (header >> 32) as u32,
            port: (header >> 16) as u16,
        },
        payload,
        tag,
    }
}

impl Interface for Nic {
    fn connect(&mut self, address: u32, rate: LineRate) {
        self.address = address;
        self.rate = rate;
    }

    fn receive(&mut self, _port: usize, _at: Time, packet: Packet) -> u64 {
        self.arriving.push_back(packet);
        purpose::ARRIVED
    }

    fn take_sent(&mut self, _port: usize, sent: &mut Vec<(Time, Packet)>) {
        sent.extend(self.sent.drain(..));
    }

    fn lead(&mut self, path: &SecondPath) -> bool {
        path.wake_first_with(purpose::FRAME_WAITS);
        self.dma_path = Some(DmaPath {
            path: path.clone(),
            was_last: false,
            statistics: DmaPathStatistics::default(),
        });
        true
    }

    fn keep_records(&mut self) {
        self.records.keep();
    }

    fn take_records(&mut self, records: &mut Vec<Record>) {
        self.records.take(records);
    }
}

impl Agent for Nic {
    fn name(&self) -> String {
        "nanoPU's network interface".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        let core = usize::from(request.reply_to.core.0);
        let RequestKind::Custom { code, arguments } = request.kind else {
            return context.refuse(request.reply_to);
        };
        let port = arguments[0] as u16;
        // Cores do not wait for an answer.
        match code {
            code::MESSAGE => self.sent_by_core(context, core),
            code::DONE => {
                if let Some(waiting) = self.contexts.get_mut(&port) {
                    let outstanding = &mut waiting.cores.outstanding[core];
                    *outstanding = outstanding.saturating_sub(1);
                    self.give_out(context, port);
                }
            }
            code::BIND => self.bind(context, core, port, true),
            code::REMOVE => self.bind(context, core, port, false),
            _ => context.refuse(request.reply_to),
        }
    }

    /// A packet of the clients has come.
    fn message(&mut self, context: &mut AgentContext<'_>, _from: AgentId, _message: AgentMessage) {
        let outside = self.outside.as_ref();
        let packet = outside.and_then(|outside| outside.cable.borrow_mut().to_server.pop_front());
        if let Some(packet) = packet {
            self.statistics.link_bytes += packet.wire_bytes();
            self.enter(context, self.latencies.mac, packet);
        }
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        let number = token >> purpose::BITS;
        match token & ((1 << purpose::BITS) - 1) {
            purpose::ARRIVED => {
                if let Some(packet) = self.arriving.pop_front() {
                    self.statistics.link_bytes += packet.wire_bytes();
                    self.enter(context, self.latencies.mac, packet);
                }
            }
            purpose::THROUGH_INGRESS => self.through_ingress(context, number),
            purpose::REASSEMBLED => self.reassembled(context),
            purpose::PACKETIZED => self.packetized(context),
            purpose::FRAME_WAITS => self.pull(context),
            purpose::LINK_FREE => {
                self.is_waiting = false;
                self.pull(context);
            }
            _ => {
                if let Some(token) = self.timers.remove(&number) {
                    self.transport
                        .timer(context.now(), token, &mut self.actions);
                    self.after_transport(context);
                }
            }
        }
    }
}
