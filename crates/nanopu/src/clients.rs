//! The clients of a data plane behind the register port: a host at the other end of the server's
//! link that sends each request as a message and takes the reply.
//!
//! The published simulations have such a host, the load generator in the switch of FireSim (nanoPU,
//! Section 5.1). A queue of the data plane is one of the host's ports, so that a program knows the
//! queue from the application header, and its reply finds the way back. All messages go to one
//! context, the data plane's, and the interface chooses the core: "the NIC... dispatches messages
//! to cores" by JBSQ (Section 3.3). A context for each queue could not be: a core has four.
//!
//! A message has the words of a slot of a device ring: a core that stores them one after the other
//! has the bytes that it would have found there.
//!
//! The ledger is kept here. An item is in its queue when the last bit of its message has first come
//! through the server's MAC, and done when a core has written the last word of its reply. A queue
//! has at most `traffic.queue_capacity - 1` items that are not done, as with rings.

use crate::cable::SharedCable;
use fabric::{Agent, AgentContext, AgentId, AgentMessage, Attachment, LineData, Request, Time};
use network::packet::{DATA, Endpoint, Message, Packet, Transport, TransportAction};
use network::rack::LineRate;
use queues::{
    ArrivalTimer, Command, DeliveredPacket, DeviceRegisters, IoSetup, ProgramSettings,
    QueueDescriptor, SharedLedger,
};
use schemars::JsonSchema;
use serde::Serialize;
use state::{State, Walker};
use std::collections::{BTreeMap, VecDeque};
use workload::{Packets, Random, SLOT_HEADER_BYTES};

/// The clients' address: 10.0.0.2.
pub(crate) const CLIENTS: u32 = crate::ADDRESS_ALONE + 1;
/// The data plane's context: `NANOPU_CONTEXT` in `guest/include/notify/more/nanopu.h`.
pub const DATA_PLANE_CONTEXT: u16 = 0;
/// In the flags of a slot: the data plane could not process the item.
const FLAG_ERROR: u32 = 1;

/// What an event was for: the upper 8 bits of its timer's token. The rest is a number.
mod purpose {
    pub const RECEIVED: u64 = 2 << 56;
    pub const LINK_FREE: u64 = 3 << 56;
    pub const TRANSPORT: u64 = 4 << 56;
    pub const MASK: u64 = 0xff << 56;
}

/// Counts of the clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State)]
#[schemars(rename = "NanoPuClients")]
#[state(all(count))]
pub struct ClientStatistics {
    /// Requests that were given to the transport.
    pub requests: u64,
    /// Replies that came back.
    pub replies: u64,
    /// Requests that found no room in the clients' transport and waited.
    pub waits: u64,
    /// Packets that were sent again because the server had no buffer for them.
    pub repeated_packets: u64,
}

/// A request that waits for its reply.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Outstanding {
    item: u64,
    queue: u32,
    /// See [`Packets::kind_of`].
    kind: u8,
    has_arrived: bool,
}

/// The agent that is all clients, and owns the registers of the I/O device.
#[derive(state::State)]
#[state(fields)]
pub struct Clients {
    #[state(fixed)]
    setup: IoSetup,
    #[state(fixed)]
    server: AgentId,
    #[state(fixed)]
    rate: LineRate,
    /// From the last bit at the server's MAC until it is through.
    #[state(fixed)]
    mac: Time,
    #[state(fixed)]
    packet_bytes: u32,
    #[state(fixed)]
    transport: Box<dyn Transport>,
    #[state(fixed)]
    cable: SharedCable,
    arrivals: ArrivalTimer,
    #[state(fixed)]
    active_queues: Vec<u32>,
    queue_choice: Random,
    registers: DeviceRegisters,
    #[state(fixed)]
    ledger: SharedLedger,
    next_item: u64,
    /// How many items of each queue are not done.
    #[state(slice)]
    not_done: Vec<u32>,
    /// By slot, which is the tag of a request's message.
    slots: Vec<Outstanding>,
    free_slots: Vec<u32>,
    /// The slot of each item that is not done.
    slot_of: BTreeMap<u64, u32>,
    /// Messages that the transport has no room for, oldest first.
    waiting: VecDeque<Message>,
    /// From when on the link is free, and whether a timer will tell.
    free_at: Time,
    is_waiting: bool,
    /// Timers that the transport has asked for, by number, and their tokens.
    timers: BTreeMap<u64, u64>,
    #[state(exact)]
    next_timer: u64,
    #[state(fixed)]
    keep: usize,
    kept: Vec<DeliveredPacket>,
    statistics: ClientStatistics,
    /// Empty between events.
    #[state(fixed)]
    actions: Vec<TransportAction>,
}

impl State for Clients {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        self.transport.walk(walker);
        self.ledger.borrow_mut().walk(walker);
    }
}

/// What clients are made of.
pub(crate) struct ClientSetup {
    pub io: IoSetup,
    /// The interface of the server.
    pub server: AgentId,
    pub rate: LineRate,
    pub mac: Time,
    /// Most bytes of a message in a packet.
    pub packet_bytes: u32,
    pub transport: Box<dyn Transport>,
    pub cable: SharedCable,
    pub arrivals: ArrivalTimer,
    /// The queues that have requests.
    pub active_queues: Vec<u32>,
    pub queue_choice: Random,
    pub packets: Packets,
    pub settings: ProgramSettings,
    pub ledger: SharedLedger,
    /// How many replies to keep.
    pub keep: usize,
}

impl Clients {
    /// Clients that wait for the program to write the register START.
    pub(crate) fn new(setup: ClientSetup) -> Clients {
        setup.ledger.borrow_mut().allow_reordering();
        Clients {
            registers: DeviceRegisters::new(
                setup.io,
                setup.settings,
                setup.packets,
                setup.ledger.clone(),
            ),
            not_done: vec![0; setup.io.queues as usize],
            setup: setup.io,
            server: setup.server,
            rate: setup.rate,
            mac: setup.mac,
            packet_bytes: setup.packet_bytes,
            transport: setup.transport,
            cable: setup.cable,
            arrivals: setup.arrivals,
            active_queues: setup.active_queues,
            queue_choice: setup.queue_choice,
            ledger: setup.ledger,
            next_item: 0,
            slots: Vec::new(),
            free_slots: Vec::new(),
            slot_of: BTreeMap::new(),
            waiting: VecDeque::new(),
            free_at: Time::ZERO,
            is_waiting: false,
            timers: BTreeMap::new(),
            next_timer: 0,
            keep: setup.keep,
            kept: Vec::new(),
            statistics: ClientStatistics::default(),
            actions: Vec::new(),
        }
    }

    /// How to attach them: they own the registers of the I/O device.
    pub fn attachment(setup: &IoSetup, tile: usize) -> Attachment {
        Attachment {
            tile,
            owns: Some(setup.registers),
            ..Attachment::default()
        }
    }

    /// What they have counted.
    pub fn statistics(&self) -> ClientStatistics {
        ClientStatistics {
            repeated_packets: self.transport.statistics().repeated_packets,
            ..self.statistics
        }
    }

    /// The replies that were kept.
    pub fn delivered(&self) -> &[DeliveredPacket] {
        &self.kept
    }

    fn start(&mut self, context: &mut AgentContext<'_>) {
        let queues = vec![QueueDescriptor::default(); self.not_done.len()];
        self.ledger.borrow_mut().start(0, queues, context.now());
        self.arrivals.await_arrival(context);
    }

    /// A client has something to send.
    fn offer(&mut self, context: &mut AgentContext<'_>, queue: u32) {
        self.ledger.borrow_mut().generated(queue);
        let not_done = &mut self.not_done[queue as usize];
        if *not_done + 1 >= self.setup.queue_capacity {
            self.ledger.borrow_mut().dropped(queue);
            return;
        }
        *not_done += 1;
        let message = self.compose(queue);
        self.statistics.requests += 1;
        if !self.waiting.is_empty() || !self.send(context, &message) {
            self.statistics.waits += 1;
            self.waiting.push_back(message);
        }
        self.after_transport(context);
    }

    /// The next item, as a message of the words of a slot.
    fn compose(&mut self, queue: u32) -> Message {
        let item = self.next_item;
        self.next_item += 1;
        let mut bytes = vec![0; SLOT_HEADER_BYTES as usize];
        let kind = self.registers.append_next(&mut bytes);
        let packet_bytes = bytes.len() as u32 - SLOT_HEADER_BYTES;
        bytes[0..4].copy_from_slice(&packet_bytes.to_le_bytes());
        bytes[8..16].copy_from_slice(&item.to_le_bytes());
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(Outstanding::default());
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Outstanding {
            item,
            queue,
            kind,
            has_arrived: false,
        };
        self.slot_of.insert(item, slot);
        Message {
            from: Endpoint {
                address: CLIENTS,
                port: queue as u16,
            },
            to: Endpoint {
                address: crate::ADDRESS_ALONE,
                port: DATA_PLANE_CONTEXT,
            },
            payload: turned(&bytes),
            tag: slot.into(),
        }
    }

    fn send(&mut self, context: &AgentContext<'_>, message: &Message) -> bool {
        self.transport
            .send(context.now(), message.clone(), &mut self.actions)
    }

    /// The transport may have room, something to say, or to send.
    fn after_transport(&mut self, context: &mut AgentContext<'_>) {
        while let Some(message) = self.waiting.pop_front() {
            if !self.send(context, &message) {
                self.waiting.push_front(message);
                break;
            }
        }
        for action in std::mem::take(&mut self.actions) {
            match action {
                TransportAction::Deliver(message) => {
                    self.transport.taken(context.now(), &message);
                    self.replied(context.now(), &message);
                }
                TransportAction::Wake(at, token) => {
                    let number = self.next_timer;
                    self.next_timer += 1;
                    self.timers.insert(number, token);
                    context.wake(at, number | purpose::TRANSPORT);
                }
                TransportAction::GiveUp(_, why) => {
                    let sentence = format!("A request could not be delivered: {why}");
                    self.ledger.borrow_mut().set_fault(sentence);
                }
            }
        }
        self.pull(context);
    }

    /// Takes packets from the transport as long as there is room on the link.
    fn pull(&mut self, context: &mut AgentContext<'_>) {
        let now = context.now();
        while self.free_at <= now
            && let Some(packet) = self.transport.next_packet(now)
        {
            let duration = self.rate.duration(packet.wire_bytes());
            self.free_at = now + duration;
            self.note_arrival(context, &packet, duration + self.mac);
            self.cable.borrow_mut().to_server.push_back(packet);
            send(context, self.server, duration);
        }
        if self.free_at > now && !self.is_waiting {
            self.is_waiting = true;
            context.wake(self.free_at, purpose::LINK_FREE);
        }
    }

    /// A packet will be through the server's MAC after `delay`: notes it if it is the first time
    /// that the last one of a request comes there.
    fn note_arrival(&mut self, context: &mut AgentContext<'_>, packet: &Packet, delay: Time) {
        let header = &packet.header;
        let packets = header.message_bytes.div_ceil(self.packet_bytes).max(1);
        let is_last = u32::from(header.packet) + 1 == packets;
        if header.flags & DATA == 0 || !is_last {
            return;
        }
        if let Some(slot) = self.slots.get_mut(packet.tag as usize)
            && !slot.has_arrived
        {
            slot.has_arrived = true;
            context.wake(context.now() + delay, packet.tag | purpose::RECEIVED);
        }
    }

    /// All of a request is at the server.
    fn received(&mut self, context: &AgentContext<'_>, slot: usize) {
        let Outstanding {
            item, queue, kind, ..
        } = self.slots[slot];
        self.ledger
            .borrow_mut()
            .arrived(queue, (item, kind), context.now());
    }

    /// A reply has arrived as a whole.
    fn replied(&mut self, now: Time, message: &Message) {
        self.statistics.replies += 1;
        let bytes = turned(&message.payload);
        let word = |at: usize| {
            let word = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        };
        let number = |at| Some(u64::from(word(at + 4)?) << 32 | u64::from(word(at)?));
        let queue = u32::from(message.to.port);
        let written = self.cable.borrow_mut().written.remove(&message.tag);
        let reply = word(0).zip(word(4)).zip(number(8));
        let mut ledger = self.ledger.borrow_mut();
        let Some(((length, flags), item)) = reply else {
            let bytes = bytes.len();
            ledger.set_fault(format!(
                "Queue {queue} was sent a reply of {bytes} bytes, and that of a slot has \
                 {SLOT_HEADER_BYTES} or more."
            ));
            return;
        };
        let slot = self.slot_of.get(&item).copied();
        let Some(slot) = slot.filter(|&slot| self.slots[slot as usize].queue == queue) else {
            ledger.set_fault(format!(
                "Queue {queue} was sent a reply to item {item}, which is not in that queue."
            ));
            return;
        };
        self.slot_of.remove(&item);
        let is_error = flags & FLAG_ERROR != 0;
        if is_error {
            ledger.has_failed();
        }
        let place = (item, slot as usize);
        let at = written.unwrap_or((now, now, 0));
        ledger.completed(queue, place, at, now);
        if self.kept.len() < self.keep {
            let start = SLOT_HEADER_BYTES as usize;
            let end = (start + length as usize).min(bytes.len());
            self.kept.push(DeliveredPacket {
                queue,
                item,
                is_error,
                bytes: bytes[start..end].to_vec(),
            });
        }
        self.not_done[queue as usize] -= 1;
        self.free_slots.push(slot);
    }
}

/// Bytes of a slot as a message on the wire, and back: each word is big-endian there, and a
/// little-endian number in memory. The last word is filled with zeros.
fn turned(bytes: &[u8]) -> Vec<u8> {
    let words = bytes.chunks(8).flat_map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        word.reverse();
        word
    });
    words.collect()
}

/// Tells the other end of the cable that a packet comes, whose last bit is there after `delay`.
pub(crate) fn send(context: &mut AgentContext<'_>, to: AgentId, delay: Time) {
    let message = AgentMessage {
        header: 0,
        data: LineData::ZERO,
    };
    context.send_over_wires(to, delay, message);
}

impl Agent for Clients {
    fn name(&self) -> String {
        "clients".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        if self.registers.answer(context, request) == Command::Start {
            self.start(context);
        }
    }

    /// A packet has come.
    fn message(&mut self, context: &mut AgentContext<'_>, _from: AgentId, _message: AgentMessage) {
        let packet = self.cable.borrow_mut().to_clients.pop_front();
        if let Some(packet) = packet {
            self.transport
                .arrived(context.now(), packet, &mut self.actions);
            self.after_transport(context);
        }
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        if let Some(requests) = self.arrivals.due(context, token, &self.ledger) {
            let choice = self.queue_choice.below(self.active_queues.len() as u64);
            let queue = self.active_queues[choice as usize];
            for _ in 0..requests {
                self.offer(context, queue);
            }
            self.arrivals.await_arrival(context);
            return;
        }
        let number = token & !purpose::MASK;
        match token & purpose::MASK {
            purpose::RECEIVED => self.received(context, number as usize),
            purpose::LINK_FREE => {
                self.is_waiting = false;
                self.pull(context);
            }
            purpose::TRANSPORT => {
                if let Some(token) = self.timers.remove(&number) {
                    self.transport
                        .timer(context.now(), token, &mut self.actions);
                    self.after_transport(context);
                }
            }
            _ => {}
        }
    }

    fn waiting_for(&self) -> Vec<String> {
        if !self.registers.is_started() {
            return vec![
                "The clients wait for the program to write the register START of its I/O device."
                    .to_string(),
            ];
        }
        vec![format!("{} requests have no reply.", self.slot_of.len())]
    }
}
