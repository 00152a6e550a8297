//! The edge of the chip towards a network of frames: each message is a frame on the network, and
//! blocks on the chip.
//!
//! It replaces the other nodes of a cluster. An arriving frame becomes a message: it takes one of
//! the send slots of a node, or waits in the input buffer for one, and goes to a backend block by
//! block. The reply's blocks become a frame, and its slot is replenished at once. This takes no
//! time except on the links of the backends, and in MAC and serial I/O.
//!
//! It implements the registers of the I/O device that [`sonuma.h`](../../../guest/include/sonuma.h)
//! uses.

use crate::header::{BLOCK_PACKET_BYTES, CONTROL_PACKET_BYTES, Header, Kind, Status};
use crate::link::Link;
use fabric::{
    AddressRange, Agent, AgentContext, AgentId, AgentMessage, Attachment, LINE_BYTES, LineData,
    RegisterAccess, Request, Time,
};
use network::packet::{CHOP, DATA, Endpoint, Packet, TransportHeader};
use network::rack::{Interface, LineRate};
use queues::{SharedLedger, register};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::{State, Walker};
use std::collections::VecDeque;
use system::PortEnergySpec;

/// Bytes before the payload in a slot: `struct io_slot` in `guest/include/io.h`.
const SLOT_HEADER_BYTES: usize = 16;
/// The context of the messages: the only one with a messaging domain.
const CONTEXT: u8 = 0;
/// The value of the register NOTIFY: `IO_NOTIFY_RPCVALET`.
const NOTIFY_RPCVALET: u64 = 6;

/// The purpose of a timer.
mod purpose {
    /// The last bit of a frame has come over the link.
    pub const ARRIVED: u64 = 0;
    /// A frame has passed through MAC and serial I/O.
    pub const PASSED: u64 = 1;
}

/// The edge of a server of a rack that has RPCValet's network interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GatewaySpec {
    /// Nodes of the messaging domain. A request's node is its sender's address and port, modulo
    /// this.
    #[schemars(range(min = 1, max = 4096))]
    pub nodes: u32,
    /// Bytes of frames that can wait for a send slot: as many as in a conventional interface.
    #[schemars(range(min = 1520, max = 16777216))]
    pub input_buffer_bytes: u32,
    /// Nanoseconds in the MAC and serial I/O in each direction: as of a conventional interface.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub mac_latency_ns: f64,
    /// The energy of its port.
    pub energy: PortEnergySpec,
}

impl Default for GatewaySpec {
    fn default() -> GatewaySpec {
        GatewaySpec {
            nodes: 64,
            input_buffer_bytes: 512 * 1024,
            mac_latency_ns: 26.0,
            energy: PortEnergySpec::default(),
        }
    }
}

/// What has been counted at the edge. Each frame that has come has become a message, waits for a
/// slot, or is one of those that were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State)]
#[state(all(count))]
pub struct GatewayStatistics {
    /// Frames received from the network.
    pub frames_received: u64,
    /// Frames that were sent to the backends.
    pub messages: u64,
    /// Frames that have waited for a send slot.
    pub waits: u64,
    /// Frames for which there was no room in the input buffer.
    pub dropped_buffer_full: u64,
    /// Frames that do not fit into a message.
    pub dropped_too_long: u64,
    /// Frames that are not a complete message, or arrived before the program had started its
    /// device.
    pub dropped_unexpected: u64,
    /// Replies sent to the network.
    pub frames_sent: u64,
    /// Replies without a request, and malformed ones.
    pub not_sent: u64,
    /// Messages that a backend has refused.
    pub refused: u64,
    /// Bytes of frames that have crossed the link, in both directions together.
    pub link_bytes: u64,
}

#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Node {
    /// Send slots towards the server; the one that has been free longest comes first.
    free: VecDeque<u16>,
    /// Requests that wait for a slot.
    waiting: VecDeque<Packet>,
}

/// A reply whose blocks are arriving.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Reply {
    blocks: u32,
    bytes: Vec<u8>,
}

/// The address for a reply.
#[derive(Clone, Copy, Debug, Default, state::State, state::Plain)]
struct Asked {
    from: Endpoint,
    to: Endpoint,
    tag: u64,
}

/// The agent.
#[derive(state::State)]
#[state(fields)]
pub struct Gateway {
    #[state(fixed)]
    registers: AddressRange,
    #[state(fixed)]
    slots: usize,
    #[state(fixed)]
    max_message_bytes: u32,
    #[state(fixed)]
    input_buffer_bytes: u32,
    #[state(fixed)]
    mac_latency: Time,
    #[state(fixed)]
    backends: Vec<AgentId>,
    #[state(fixed)]
    ledger: SharedLedger,
    #[state(fixed)]
    address: u32,
    #[state(fixed)]
    rate: LineRate,
    is_started: bool,
    /// The start of the memory that counts as cleared.
    cleared: u64,
    coming: VecDeque<Packet>,
    passing: VecDeque<Packet>,
    #[state(slice)]
    nodes: Vec<Node>,
    waiting_bytes: u32,
    /// Indexed by the slots that the server replies into.
    #[state(slice)]
    replies: Vec<Reply>,
    /// Unanswered requests, indexed by the item numbers of their messages.
    asked: Vec<Option<Asked>>,
    free_numbers: Vec<u64>,
    /// The links to each backend.
    #[state(slice)]
    links: Vec<Link>,
    sent: Vec<(Time, Packet)>,
    free_at: Time,
    next_message: u16,
    statistics: GatewayStatistics,
}

impl State for Gateway {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        self.ledger.borrow_mut().walk(walker);
    }
}

impl Gateway {
    /// An edge with these backends, which waits for the program to write the register START.
    pub fn new(
        spec: &GatewaySpec,
        (slots, max_message_bytes, link_gb_per_s): (u32, u32, f64),
        registers: AddressRange,
        backends: Vec<AgentId>,
        ledger: SharedLedger,
    ) -> Gateway {
        let node = Node {
            free: (0..slots as u16).collect(),
            waiting: VecDeque::new(),
        };
        Gateway {
            registers,
            slots: slots as usize,
            max_message_bytes,
            input_buffer_bytes: spec.input_buffer_bytes,
            mac_latency: Time::from_ns(spec.mac_latency_ns),
            links: vec![Link::new(link_gb_per_s); backends.len()],
            backends,
            ledger,
            address: 0,
            rate: LineRate::from_gbit_per_s(200.0),
            is_started: false,
            cleared: 0,
            coming: VecDeque::new(),
            passing: VecDeque::new(),
            nodes: vec![node; spec.nodes as usize],
            waiting_bytes: 0,
            replies: vec![Reply::default(); spec.nodes as usize * slots as usize],
            asked: Vec::new(),
            free_numbers: Vec::new(),
            sent: Vec::new(),
            free_at: Time::ZERO,
            next_message: 0,
            statistics: GatewayStatistics::default(),
        }
    }

    /// Its attachment to the fabric: it owns registers of the I/O device.
    pub fn attachment(registers: AddressRange, tile: usize) -> Attachment {
        Attachment {
            tile,
            owns: Some(registers),
            ..Attachment::default()
        }
    }

    /// Its counts.
    pub fn statistics(&self) -> GatewayStatistics {
        self.statistics
    }

    /// The rate of its link.
    pub(crate) fn rate(&self) -> LineRate {
        self.rate
    }

    /// The program's first error, as a sentence.
    pub fn fault(&self) -> Option<String> {
        self.ledger.borrow().fault().map(str::to_string)
    }

    fn write_register(&mut self, context: &mut AgentContext<'_>, offset: u64, value: u64) -> bool {
        match offset {
            register::START if value == 1 => self.is_started = true,
            register::CLEARED => self.cleared = value,
            register::CLEARED_BYTES => {
                let (start, length) = (self.cleared, value);
                let last = start.checked_add(length.saturating_sub(1));
                if !last.is_some_and(|last| context.in_memory(start) && context.in_memory(last)) {
                    return false;
                }
                context.warm_last_level(AddressRange { start, length });
            }
            _ => return false,
        }
        true
    }

    /// Handles a frame that has passed through MAC and serial I/O.
    fn frame_came(&mut self, context: &mut AgentContext<'_>, packet: Packet) {
        self.statistics.frames_received += 1;
        let bytes = packet.payload.len() as u32;
        let header = packet.header;
        let is_whole = header.flags & (DATA | CHOP) == DATA
            && header.packet == 0
            && header.message_bytes == bytes
            && packet.to.address == self.address;
        if !is_whole || !self.is_started {
            self.statistics.dropped_unexpected += 1;
            return;
        }
        if bytes + SLOT_HEADER_BYTES as u32 > self.max_message_bytes {
            self.statistics.dropped_too_long += 1;
            return;
        }
        let sender = packet
            .from
            .address
            .wrapping_add(u32::from(packet.from.port));
        let number = sender as usize % self.nodes.len();
        if let Some(slot) = self.nodes[number].free.pop_front() {
            self.send(context, number as u16, slot, packet);
        } else if bytes > self.input_buffer_bytes - self.waiting_bytes {
            self.statistics.dropped_buffer_full += 1;
        } else {
            self.statistics.waits += 1;
            self.waiting_bytes += bytes;
            self.nodes[number].waiting.push_back(packet);
        }
    }

    /// Sends a request into a slot.
    fn send(&mut self, context: &mut AgentContext<'_>, node: u16, slot: u16, packet: Packet) {
        let Packet {
            from,
            to,
            payload,
            tag,
            ..
        } = packet;
        let item = self.free_numbers.pop().unwrap_or(self.asked.len() as u64);
        if item == self.asked.len() as u64 {
            self.asked.push(None);
        }
        self.asked[item as usize] = Some(Asked { from, to, tag });
        let mut message = Vec::with_capacity(SLOT_HEADER_BYTES + payload.len());
        message.extend((payload.len() as u32).to_le_bytes());
        message.extend([0; 4]);
        message.extend(item.to_le_bytes());
        message.extend(payload);
        self.statistics.messages += 1;
        let header = Header {
            kind: Kind::Send,
            node,
            slot,
            index: 0,
            context: CONTEXT,
            bytes: message.len() as u32,
        };
        for (index, block) in message.chunks(LINE_BYTES).enumerate() {
            let mut data = LineData::ZERO;
            data.0[..block.len()].copy_from_slice(block);
            let header = Header {
                index: index as u16,
                ..header
            };
            self.send_packet(context, header, data, BLOCK_PACKET_BYTES);
        }
    }

    fn send_packet(
        &mut self,
        context: &mut AgentContext<'_>,
        header: Header,
        data: LineData,
        bytes: u64,
    ) {
        let backend = header.backend(self.links.len());
        self.send_to(context, backend, (header, data), bytes);
    }

    fn send_to(
        &mut self,
        context: &mut AgentContext<'_>,
        backend: usize,
        (header, data): (Header, LineData),
        bytes: u64,
    ) {
        let now = context.now();
        let arrival = self.links[backend].send(now, bytes);
        let header = header.encode();
        let message = AgentMessage { header, data };
        context.send_over_wires(self.backends[backend], arrival - now, message);
    }

    /// Handles the replenish of a message that the server has processed: its slot is free.
    fn replenished(&mut self, context: &mut AgentContext<'_>, header: Header) {
        let Some(node) = self.nodes.get_mut(usize::from(header.node)) else {
            return;
        };
        match node.waiting.pop_front() {
            Some(packet) => {
                self.waiting_bytes -= packet.payload.len() as u32;
                self.send(context, header.node, header.slot, packet);
            }
            None => node.free.push_back(header.slot),
        }
    }

    /// Handles a block of a reply.
    fn reply_block(&mut self, context: &mut AgentContext<'_>, header: Header, data: &LineData) {
        let place = usize::from(header.node) * self.slots + usize::from(header.slot);
        let Some(reply) = self.replies.get_mut(place) else {
            return;
        };
        let blocks = header.blocks();
        reply.blocks += 1;
        reply.bytes.resize(blocks as usize * LINE_BYTES, 0);
        let start = usize::from(header.index) * LINE_BYTES;
        if let Some(bytes) = reply.bytes.get_mut(start..start + LINE_BYTES) {
            bytes.copy_from_slice(&data.0);
        }
        if reply.blocks < blocks {
            return;
        }
        let reply = std::mem::take(reply);
        self.replied(context.now(), header, &reply.bytes);
        let header = Header {
            kind: Kind::Replenish,
            index: 0,
            bytes: 0,
            ..header
        };
        self.send_packet(context, header, LineData::ZERO, CONTROL_PACKET_BYTES);
    }

    /// Sends a complete reply as a frame.
    fn replied(&mut self, now: Time, header: Header, bytes: &[u8]) {
        let number = |at: usize, count: usize| {
            let digits = bytes[at..at + count].iter().rev();
            digits.fold(0u64, |value, &byte| value << 8 | u64::from(byte))
        };
        let (length, item) = (number(0, 4) as usize, number(8, 8));
        let end = SLOT_HEADER_BYTES.saturating_add(length);
        let asked = self.asked.get_mut(item as usize).and_then(Option::take);
        let Some(Asked { from, to, tag }) = asked.filter(|_| end <= header.bytes as usize) else {
            self.statistics.not_sent += 1;
            return;
        };
        self.free_numbers.push(item);
        let packet = Packet {
            from: to,
            to: from,
            header: TransportHeader {
                flags: DATA,
                message: self.next_message,
                message_bytes: length as u32,
                ..TransportHeader::default()
            },
            payload: bytes[SLOT_HEADER_BYTES..end].to_vec(),
            tag,
            ..Packet::default()
        };
        self.next_message = self.next_message.wrapping_add(1);
        let start = self.free_at.max(now + self.mac_latency);
        self.free_at = start + self.rate.duration(packet.wire_bytes());
        self.statistics.link_bytes += packet.wire_bytes();
        self.sent.push((start, packet));
        self.statistics.frames_sent += 1;
    }
}

impl Agent for Gateway {
    fn name(&self) -> String {
        "the edge of the chip".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        let register = request.register(self.registers.start);
        let answer = register.and_then(|(offset, access)| match (offset, access) {
            (register::NOTIFY, RegisterAccess::Read) => Some(NOTIFY_RPCVALET),
            (register::START, RegisterAccess::Read) => Some(u64::from(self.is_started)),
            (_, RegisterAccess::Read) => None,
            (_, RegisterAccess::Write(value)) => {
                self.write_register(context, offset, value).then_some(0)
            }
        });
        context.answer(request.reply_to, answer);
    }

    fn message(&mut self, context: &mut AgentContext<'_>, from: AgentId, message: AgentMessage) {
        let Some(header) = Header::decode(message.header) else {
            return;
        };
        match header.kind {
            Kind::Send => self.reply_block(context, header, &message.data),
            Kind::Replenish => self.replenished(context, header),
            Kind::Refused => self.statistics.refused += 1,
            // The edge has no memory of its own that the server's cores could read or write.
            Kind::Read | Kind::Write => {
                if let Some(backend) = self.backends.iter().position(|&one| one == from) {
                    let bytes = Status::NoContext as u32;
                    let header = header.of_kind(Kind::Fault);
                    let header = Header { bytes, ..header };
                    let packet = (header, LineData::ZERO);
                    self.send_to(context, backend, packet, CONTROL_PACKET_BYTES);
                }
            }
            _ => self.statistics.not_sent += 1,
        }
    }

    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        if token == purpose::PASSED {
            if let Some(packet) = self.passing.pop_front() {
                self.frame_came(context, packet);
            }
        } else if let Some(packet) = self.coming.pop_front() {
            self.statistics.link_bytes += packet.wire_bytes();
            self.passing.push_back(packet);
            context.wake(context.now() + self.mac_latency, purpose::PASSED);
        }
    }

    fn waiting_for(&self) -> Vec<String> {
        if !self.is_started {
            return vec![
                "The edge of the chip waits for the program to write the register START of its I/O \
                 device."
                    .to_string(),
            ];
        }
        let waiting: usize = self.nodes.iter().map(|node| node.waiting.len()).sum();
        let unanswered = self.asked.iter().flatten().count();
        vec![format!(
            "{unanswered} messages have not been answered, and {waiting} wait for a send slot."
        )]
    }
}

impl Interface for Gateway {
    fn connect(&mut self, address: u32, rate: LineRate) {
        self.address = address;
        self.rate = rate;
    }

    fn receive(&mut self, _port: usize, _at: Time, packet: Packet) -> u64 {
        self.coming.push_back(packet);
        purpose::ARRIVED
    }

    fn take_sent(&mut self, _port: usize, sent: &mut Vec<(Time, Packet)>) {
        sent.append(&mut self.sent);
    }
}
