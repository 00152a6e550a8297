//! The interpreter of compiled programs: the transport of one host.

use super::compile::{
    Action, BITMAPS, Expr, File, Map, Place, Program, QUEUES, REGISTERS, Rule, SELECTIONS, Waiting,
    computed,
};
use super::parse::Operator;
use super::spec::Beginning;
use crate::packet::{
    BUSY, CHOP, DATA, ECN_MARKED, Endpoint, Message, NO_ECN, Packet, Transport, TransportAction,
    TransportHeader, TransportStatistics,
};
use crate::transport::TransportSpec;
use crate::transport::bits::Bits;
use crate::transport::buffers::{Found, Incoming, Outgoing, Receiving, Sending};
use crate::transport::peers::Peers;
use fabric::Time;
use state::State;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The priority in switches of packets without data.
const CONTROL_PRIORITY: u8 = 0;
/// The priority in switches of packets of data, unless the program assigns another one.
const DATA_PRIORITY: u8 = 1;
/// The token of the timer that all messages share; the tokens of the program's timers follow.
const MESSAGE_TIMER: u64 = 0;
/// The minimum duration of a timer, so that a timer that restarts itself cannot stop time.
const SHORTEST: Time = Time::from_fs(1000);
/// The key of a message that is not in a queue.
const NOT_IN: u64 = u64::MAX;

/// A program's state of an outgoing message.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Sent {
    file: File,
    maps: [Bits; BITMAPS],
    /// When its timer expires; `NEVER` if the timer is stopped.
    due_at: Time,
    /// The timer's duration when it was last started.
    patience: Time,
    /// All packets with lower numbers have been sent at least once.
    sent_up_to: u32,
    /// The value of the program's `data.key`, or [`NOT_IN`] if the message is not ready. In a
    /// program without a key: 0 for a message in `ready`.
    key: u64,
}

/// A program's state of an incoming message.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Received {
    file: File,
    due_at: Time,
    /// Its keys in the selections; [`NOT_IN`] where it is in none.
    keys: [u64; SELECTIONS],
}

/// The metadata that passes through the pipeline with an event.
#[derive(Clone, Debug, Default)]
struct Frame {
    now: Time,
    /// The header of the packet that has arrived, or is about to be sent.
    header: TransportHeader,
    priority: u8,
    /// Source, destination and tag of the packet that has arrived.
    ends: Option<(Endpoint, Endpoint, u64)>,
    send: Option<u16>,
    receive: Option<u16>,
    peer: Option<u32>,
    trimmed: bool,
    duplicate: bool,
    /// Whether a switch has marked the arrived packet.
    marked: bool,
    rank: u64,
    active: u64,
    has_passed: bool,
    /// A packet of data is about to be sent.
    is_egress: bool,
    /// A timer of the host has expired.
    is_timer: bool,
    /// The payload of the packet that has arrived.
    payload: Vec<u8>,
    event: [u64; REGISTERS],
}

/// The transport of one host, which runs a program.
#[derive(Debug, State)]
pub struct Programmed {
    #[state(fixed)]
    spec: TransportSpec,
    #[state(fixed)]
    address: u32,
    #[state(fixed)]
    program: Arc<Program>,
    peers: Peers,
    sending: Sending<Sent>,
    receiving: Receiving<Received>,
    host: File,
    /// The registers of other hosts, by their index in `peers`.
    others: Vec<File>,
    queues: [VecDeque<Packet>; QUEUES],
    /// Packets held until `release`.
    held: [VecDeque<Packet>; QUEUES],
    /// Slots and serial numbers of incoming messages.
    lists: [VecDeque<(u16, u64)>; QUEUES],
    /// Slots of messages that may send, in the order in which they became ready; unused if the
    /// program has a key.
    ready: VecDeque<u16>,
    are_timers_set: [bool; QUEUES],
    /// When the shared timer of all messages expires; `NEVER` if it is not set.
    timeout_at: Time,
    /// `look_at_timers` is running, and sets the shared timer once, at its end.
    #[state(fixed)]
    is_looking: bool,
    statistics: TransportStatistics,
    /// Scratch space of `select`.
    #[state(fixed)]
    candidates: Vec<(u64, u64, u16)>,
}

impl Programmed {
    /// The transport of the host with this address.
    pub fn new(spec: TransportSpec, program: Arc<Program>, address: u32) -> Programmed {
        Programmed {
            sending: Sending::new(spec.send_buffers),
            receiving: Receiving::new(spec.receive_buffers),
            spec,
            address,
            peers: Peers::default(),
            host: program.host.clone(),
            program,
            others: Vec::new(),
            queues: Default::default(),
            held: Default::default(),
            lists: Default::default(),
            ready: VecDeque::new(),
            are_timers_set: [false; QUEUES],
            timeout_at: Time::NEVER,
            is_looking: false,
            statistics: TransportStatistics::default(),
            candidates: Vec::new(),
        }
    }

    /// The frame of an event without a packet.
    fn frame(&self, now: Time) -> Frame {
        Frame {
            now,
            event: self.program.event.values,
            ..Frame::default()
        }
    }

    /// The frame of a packet that has arrived.
    fn frame_of(&self, now: Time, packet: &Packet) -> Frame {
        Frame {
            header: packet.header,
            priority: packet.priority,
            marked: packet.ecn == ECN_MARKED,
            ends: Some((packet.from, packet.to, packet.tag)),
            ..self.frame(now)
        }
    }

    /// Allocates the registers of another host, unless it has them.
    fn know(&mut self, peer: u32) {
        if self.others.len() <= peer as usize {
            self.others
                .resize(peer as usize + 1, self.program.peer.clone());
        }
    }

    fn outgoing(&self, frame: &Frame) -> Option<&Outgoing<Sent>> {
        self.sending.slots[usize::from(frame.send?)].as_ref()
    }

    fn incoming(&self, frame: &Frame) -> Option<&Incoming<Received>> {
        self.receiving.slots[usize::from(frame.receive?)].as_ref()
    }

    /// A bitmap, and the length of its message in bytes.
    fn map(&self, map: Map, frame: &Frame) -> Option<(&Bits, u32)> {
        if map == Map::Missing {
            let incoming = self.incoming(frame)?;
            return Some((&incoming.missing, incoming.message.payload.len() as u32));
        }
        let outgoing = self.outgoing(frame)?;
        let bits = match map {
            Map::Own(number) => &outgoing.own.maps[usize::from(number)],
            Map::ToSend | Map::Missing => &outgoing.to_send,
        };
        Some((bits, outgoing.message.payload.len() as u32))
    }

    /// The value of a place; 0 if the event does not have its message.
    #[inline]
    fn read(&self, place: Place, frame: &Frame) -> u64 {
        match place {
            Place::Now => frame.now.as_fs(),
            Place::Flags => frame.header.flags.into(),
            Place::Packet => frame.header.packet.into(),
            Place::Credit => frame.header.credit.into(),
            Place::GrantedPriority => frame.header.granted_priority.into(),
            Place::Priority => frame.priority.into(),
            Place::Bytes => match (self.outgoing(frame), self.incoming(frame)) {
                (Some(outgoing), _) => outgoing.message.payload.len() as u64,
                (None, Some(incoming)) => incoming.message.payload.len() as u64,
                (None, None) => 0,
            },
            Place::Packets => match (self.outgoing(frame), self.incoming(frame)) {
                (Some(outgoing), _) => outgoing.packets.into(),
                (None, Some(incoming)) => incoming.packets.into(),
                (None, None) => 0,
            },
            Place::SentUpTo => self
                .outgoing(frame)
                .map_or(0, |outgoing| outgoing.own.sent_up_to.into()),
            Place::Trimmed => frame.trimmed.into(),
            Place::Duplicate => frame.duplicate.into(),
            Place::Marked => frame.marked.into(),
            Place::Rank => frame.rank,
            Place::Active => frame.active,
            Place::Host(number) => self.host.values[usize::from(number)],
            Place::Peer(number) => frame.peer.map_or(0, |peer| {
                self.others[peer as usize].values[usize::from(number)]
            }),
            Place::Send(number) => self
                .outgoing(frame)
                .map_or(0, |outgoing| outgoing.own.file.values[usize::from(number)]),
            Place::Receive(number) => self
                .incoming(frame)
                .map_or(0, |incoming| incoming.own.file.values[usize::from(number)]),
            Place::Event(number) => frame.event[usize::from(number)],
        }
    }

    /// The value of an operand: a fast path, since most operands are places or constants.
    #[inline]
    fn side(&self, expression: &Expr, frame: &Frame) -> u64 {
        match expression {
            Expr::Constant(value) => *value,
            Expr::Read(place) => self.read(*place, frame),
            other => self.value(other, frame),
        }
    }

    fn value(&self, expression: &Expr, frame: &Frame) -> u64 {
        match expression {
            Expr::Constant(value) => *value,
            Expr::Read(place) => self.read(*place, frame),
            Expr::Not(inside) => u64::from(self.value(inside, frame) == 0),
            Expr::Binary(operator, sides) => {
                let left = self.side(&sides[0], frame);
                match (operator, left) {
                    (Operator::And, 0) => return 0,
                    (Operator::Or, 1..) => return 1,
                    _ => {}
                }
                computed(*operator, left, self.side(&sides[1], frame))
            }
            Expr::Count(map) => match self.map(*map, frame) {
                Some((bits, _)) => bits.count().into(),
                None => 0,
            },
            Expr::First(map) => match self.map(*map, frame) {
                Some((bits, bytes)) => {
                    let packets = || self.spec.packets(bytes);
                    bits.first().unwrap_or_else(packets).into()
                }
                None => 0,
            },
            Expr::BytesOf(map) => match self.map(*map, frame) {
                Some((bits, bytes)) => self.spec.bytes_of(bits, bytes).into(),
                None => 0,
            },
            Expr::Has(map, number) => {
                let number = narrow(self.value(number, frame));
                let is_in = |(bits, _): (&Bits, u32)| number < bits.room() && bits.contains(number);
                self.map(*map, frame).is_some_and(is_in).into()
            }
            Expr::CountIn(map, range) => {
                let [from, to] = self.range(range, frame);
                let count = |(bits, _): (&Bits, u32)| bits.count_in(from, to);
                self.map(*map, frame).map_or(0, count).into()
            }
            Expr::RunEnd(map, range) => {
                let [from, to] = self.range(range, frame);
                let end = |(bits, _): (&Bits, u32)| bits.run_end(from, to);
                self.map(*map, frame).map_or(from, end).into()
            }
            Expr::Length(list) => self.lists[usize::from(*list)].len() as u64,
            Expr::Held(held) => self.held[usize::from(*held)].len() as u64,
            Expr::RoundUp(multiple, inside) => self
                .value(inside, frame)
                .checked_next_multiple_of(*multiple)
                .unwrap_or(u64::MAX),
            Expr::PacketsIn(bytes) => self.spec.packets(narrow(self.value(bytes, frame))).into(),
            Expr::PlaceIn(table, inside) => {
                let value = self.value(inside, frame);
                let table = &self.program.tables[usize::from(*table)];
                table.partition_point(|&limit| limit < value) as u64
            }
        }
    }

    fn range(&self, range: &[Expr; 2], frame: &Frame) -> [u32; 2] {
        range.each_ref().map(|end| narrow(self.value(end, frame)))
    }

    /// Runs the rules of an event.
    fn run(&mut self, rules: &[Rule], frame: &mut Frame, actions: &mut Vec<TransportAction>) {
        for rule in rules {
            if rule.needs_message && frame.send.is_none() && frame.receive.is_none() {
                continue;
            }
            if let Some(condition) = &rule.condition
                && self.value(condition, frame) == 0
            {
                continue;
            }
            for action in &rule.actions {
                if self.act(action, frame, actions).is_break() {
                    return;
                }
            }
        }
    }

    fn act(
        &mut self,
        action: &Action,
        frame: &mut Frame,
        actions: &mut Vec<TransportAction>,
    ) -> ControlFlow<()> {
        match action {
            Action::Assign(place, value) => {
                let value = self.value(value, frame);
                self.assign(*place, value, frame);
            }
            Action::Set(map, number) => {
                let number = narrow(self.value(number, frame));
                self.change(*map, frame, |bits, packets| {
                    if number < packets {
                        bits.insert(number);
                    }
                });
            }
            Action::Clear(map, number) => {
                let number = narrow(self.value(number, frame));
                self.change(*map, frame, |bits, packets| {
                    if number < packets {
                        bits.remove(number);
                    }
                });
            }
            Action::SetRange(map, range) => {
                let [from, to] = self.range(range, frame);
                self.change(*map, frame, |bits, packets| {
                    bits.insert_range(from, to.min(packets));
                });
            }
            Action::Merge(into, from, below) => {
                let below = narrow(self.value(below, frame));
                if let Some((others, _)) = self.map(*from, frame) {
                    let others = others.clone();
                    self.change(*into, frame, |bits, packets| {
                        bits.insert_all(&others, below.min(packets));
                    });
                }
            }
            Action::Emit(emit) => {
                let header = TransportHeader {
                    flags: self.value(&emit.flags, frame) as u8,
                    packet: match &emit.packet {
                        Some(packet) => self.value(packet, frame) as u16,
                        None => frame.header.packet,
                    },
                    credit: narrow(self.value(&emit.credit, frame)),
                    granted_priority: self.value(&emit.granted_priority, frame) as u8,
                    ..TransportHeader::default()
                };
                self.emit(emit.queue, header, frame);
            }
            Action::Release(held, queue) => {
                let packet = self.held[usize::from(*held)].pop_front();
                self.queues[usize::from(*queue)].extend(packet);
            }
            Action::Push(list) => {
                if let Some(serial) = self.incoming(frame).map(|incoming| incoming.serial) {
                    let slot = frame.receive.unwrap_or_default();
                    self.lists[usize::from(*list)].push_back((slot, serial));
                }
            }
            Action::Take(list) => {
                frame.receive = None;
                // Messages that have ended leave stale entries in the list.
                while let Some((slot, serial)) = self.lists[usize::from(*list)].pop_front() {
                    if let Some(incoming) = self.receiving.still_at(slot, serial) {
                        (frame.receive, frame.peer) = (Some(slot), Some(incoming.peer));
                        return ControlFlow::Continue(());
                    }
                }
                return ControlFlow::Break(());
            }
            Action::StartTimer(duration) => {
                let duration = Time::from_fs(self.value(duration, frame)).max(SHORTEST);
                self.start_timer(duration, frame, actions);
            }
            Action::Wake(timer, at) => {
                let soonest = match frame.is_timer {
                    true => frame.now.saturating_add(SHORTEST),
                    false => frame.now,
                };
                let at = Time::from_fs(self.value(at, frame)).max(soonest);
                let is_set = &mut self.are_timers_set[usize::from(*timer)];
                if at != Time::NEVER && !std::mem::replace(is_set, true) {
                    let token = MESSAGE_TIMER + 1 + u64::from(*timer);
                    actions.push(TransportAction::Wake(at, token));
                }
            }
            Action::Accept => self.accept(frame),
            Action::Deliver => self.deliver(frame, actions),
            Action::Finish => {
                if let Some(slot) = frame.send.take() {
                    self.end(slot);
                    self.statistics.sent += 1;
                }
            }
            Action::Heard => {
                if let Some(slot) = frame.send {
                    self.sending.at(slot).timeouts = 0;
                }
            }
            Action::TimedOut => {
                self.statistics.timeouts += 1;
                if let Some(slot) = frame.send {
                    let outgoing = self.sending.at(slot);
                    if outgoing.timeouts == self.spec.max_timeouts {
                        frame.send = None;
                        let message = self.end(slot);
                        self.statistics.given_up += 1;
                        let why = self.spec.given_up(&message);
                        actions.push(TransportAction::GiveUp(message.tag, why));
                        return ControlFlow::Break(());
                    }
                    outgoing.timeouts += 1;
                }
            }
            Action::Refuse => {
                self.statistics.malformed += 1;
                return ControlFlow::Break(());
            }
            Action::Select(selection) => self.select(*selection, frame, actions),
            Action::Pass => frame.has_passed = true,
            Action::Stop => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }
}

impl Programmed {
    fn assign(&mut self, place: Place, value: u64, frame: &mut Frame) {
        let register = match place {
            Place::Credit => {
                frame.header.credit = narrow(value);
                return;
            }
            Place::GrantedPriority => {
                frame.header.granted_priority = value as u8;
                return;
            }
            Place::Priority => {
                frame.priority = value as u8;
                return;
            }
            Place::Host(number) => Some(&mut self.host.values[usize::from(number)]),
            Place::Event(number) => Some(&mut frame.event[usize::from(number)]),
            Place::Peer(number) => frame
                .peer
                .map(|peer| &mut self.others[peer as usize].values[usize::from(number)]),
            Place::Send(number) => frame
                .send
                .map(|slot| &mut self.sending.at(slot).own.file.values[usize::from(number)]),
            Place::Receive(number) => frame
                .receive
                .map(|slot| &mut self.receiving.at(slot).own.file.values[usize::from(number)]),
            // The compiler refuses assignments to other places.
            _ => None,
        };
        if let Some(register) = register {
            *register = value;
        }
    }

    /// Changes a bitmap of the outgoing message. `change` gets it and the number of packets.
    fn change(&mut self, map: Map, frame: &Frame, change: impl FnOnce(&mut Bits, u32)) {
        let Some(slot) = frame.send else { return };
        let outgoing = self.sending.at(slot);
        let bits = match map {
            Map::Own(number) => &mut outgoing.own.maps[usize::from(number)],
            Map::ToSend | Map::Missing => &mut outgoing.to_send,
        };
        change(bits, outgoing.packets);
    }

    /// Queues a packet without data to the sender of the arrived packet or, without one, to the
    /// other end of the event's message.
    fn emit(&mut self, queue: Waiting, header: TransportHeader, frame: &Frame) {
        let (from, to, message, message_bytes, tag) = if let Some((from, to, tag)) = frame.ends {
            let header = &frame.header;
            (to, from, header.message, header.message_bytes, tag)
        } else if let Some(incoming) = self.incoming(frame) {
            let message = &incoming.message;
            let bytes = message.payload.len() as u32;
            (
                message.to,
                message.from,
                incoming.number,
                bytes,
                message.tag,
            )
        } else if let Some(outgoing) = self.outgoing(frame) {
            let message = &outgoing.message;
            let bytes = message.payload.len() as u32;
            (
                message.from,
                message.to,
                outgoing.number,
                bytes,
                message.tag,
            )
        } else {
            return;
        };
        let queue = match queue {
            Waiting::Served(number) => &mut self.queues[usize::from(number)],
            Waiting::Held(number) => &mut self.held[usize::from(number)],
        };
        queue.push_back(Packet {
            routed_to: None,
            from,
            to,
            header: TransportHeader {
                message,
                message_bytes,
                ..header
            },
            priority: CONTROL_PRIORITY,
            payload: Vec::new(),
            padding: self.program.padding,
            ecn: NO_ECN,
            tag,
        });
    }

    /// Copies the payload of a packet into its message.
    fn accept(&mut self, frame: &mut Frame) {
        if frame.trimmed || frame.duplicate {
            return;
        }
        let Some(slot) = frame.receive else { return };
        let number = u32::from(frame.header.packet);
        let range = self.spec.range(frame.header.message_bytes, number);
        let incoming = self.receiving.at(slot);
        if incoming.missing.remove(number) {
            incoming.message.payload[range].copy_from_slice(&frame.payload);
        }
    }

    /// Delivers a message to its application if no packet is missing.
    fn deliver(&mut self, frame: &mut Frame, actions: &mut Vec<TransportAction>) {
        let Some(slot) = frame.receive else { return };
        if self.receiving.at(slot).missing.count() == 0 {
            frame.receive = None;
            self.statistics.delivered += 1;
            let message = self.receiving.deliver(slot, &mut self.peers);
            actions.push(TransportAction::Deliver(message));
        }
    }

    /// Frees the slot of an outgoing message, and returns the message.
    fn end(&mut self, slot: u16) -> Message {
        let ended = self.sending.end(slot, &mut self.peers);
        if self.program.key.is_none() && ended.own.key != NOT_IN {
            self.ready.retain(|&ready| ready != slot);
        }
        ended.message
    }

    /// Restarts the timer of the frame's message.
    fn start_timer(&mut self, duration: Time, frame: &Frame, actions: &mut Vec<TransportAction>) {
        let at = frame.now.saturating_add(duration);
        match (frame.send, frame.receive) {
            (Some(slot), _) => {
                let own = &mut self.sending.at(slot).own;
                own.patience = duration;
                if frame.is_egress {
                    // A departing packet postpones a running timer, but starts none.
                    if own.due_at != Time::NEVER {
                        own.due_at = own.due_at.max(at);
                    }
                    return;
                }
                own.due_at = at;
            }
            (None, Some(slot)) => self.receiving.at(slot).own.due_at = at,
            (None, None) => return,
        }
        if !self.is_looking {
            self.set_timeout(at, actions);
        }
    }

    fn set_timeout(&mut self, at: Time, actions: &mut Vec<TransportAction>) {
        // An earlier timer replaces a later one, whose call is then ignored.
        if at < self.timeout_at {
            self.timeout_at = at;
            actions.push(TransportAction::Wake(at, MESSAGE_TIMER));
        }
    }

    /// Runs the rules of each message whose timer has expired.
    fn look_at_timers(&mut self, now: Time, actions: &mut Vec<TransportAction>) {
        let program = Arc::clone(&self.program);
        self.is_looking = true;
        let mut next = Time::NEVER;
        let forgets = !program.receive_timer.is_empty();
        for slot in 0..self.receiving.slots.len() as u16 {
            let Some(incoming) = &mut self.receiving.slots[usize::from(slot)] else {
                continue;
            };
            if forgets && now > incoming.heard_at.saturating_add(self.spec.memory()) {
                self.receiving.forget(slot, &mut self.peers);
                continue;
            }
            if now >= incoming.own.due_at {
                incoming.own.due_at = Time::NEVER;
                let peer = incoming.peer;
                let mut frame = Frame {
                    receive: Some(slot),
                    peer: Some(peer),
                    ..self.frame(now)
                };
                self.run(&program.receive_timer, &mut frame, actions);
                self.rank_received(slot);
            }
            if let Some(incoming) = &self.receiving.slots[usize::from(slot)] {
                next = next.min(incoming.own.due_at);
            }
        }
        for slot in 0..self.sending.slots.len() as u16 {
            let Some(outgoing) = &mut self.sending.slots[usize::from(slot)] else {
                continue;
            };
            // Packets that wait for the host's own link are not lost: the timer starts over.
            if outgoing.own.key != NOT_IN && outgoing.own.due_at != Time::NEVER {
                outgoing.own.due_at = now.saturating_add(outgoing.own.patience);
            }
            if now >= outgoing.own.due_at {
                outgoing.own.due_at = Time::NEVER;
                let peer = outgoing.peer;
                let mut frame = Frame {
                    send: Some(slot),
                    peer: Some(peer),
                    ..self.frame(now)
                };
                self.run(&program.send_timer, &mut frame, actions);
                self.rank_sent(&frame);
            }
            if let Some(outgoing) = &self.sending.slots[usize::from(slot)] {
                next = next.min(outgoing.own.due_at);
            }
        }
        self.is_looking = false;
        if next != Time::NEVER {
            self.set_timeout(next, actions);
        }
    }

    /// Updates the position of the frame's outgoing message among those that are ready to send.
    fn rank_sent(&mut self, frame: &Frame) {
        let Some(slot) = frame.send else { return };
        let is_ready = self.is_ready(slot, frame);
        let key = match &self.program.key {
            Some(key) if is_ready => self.value(key, frame).min(NOT_IN - 1),
            Some(_) => NOT_IN,
            None => {
                let own = &mut self.sending.at(slot).own;
                if is_ready && own.key == NOT_IN {
                    own.key = 0;
                    self.ready.push_back(slot);
                }
                return;
            }
        };
        self.sending.at(slot).own.key = key;
    }

    /// Whether a packet of a message may be sent.
    fn is_ready(&self, slot: u16, frame: &Frame) -> bool {
        let outgoing = self.sending.slots[usize::from(slot)].as_ref();
        outgoing.is_some_and(|outgoing| outgoing.to_send.count() > 0)
            && self.value(&self.program.ready, frame) != 0
    }

    /// Updates the keys of an incoming message in all selections.
    fn rank_received(&mut self, slot: u16) {
        if self.program.selections.is_empty() || self.receiving.slots[usize::from(slot)].is_none() {
            return;
        }
        let frame = Frame {
            receive: Some(slot),
            ..Frame::default()
        };
        let program = Arc::clone(&self.program);
        for (number, selection) in program.selections.iter().enumerate() {
            let key = match self.value(&selection.when, &frame) {
                0 => NOT_IN,
                _ => self.value(&selection.key, &frame).min(NOT_IN - 1),
            };
            self.receiving.at(slot).own.keys[number] = key;
        }
    }

    /// Runs the rules for the first messages of a selection.
    fn select(&mut self, selection: u8, frame: &Frame, actions: &mut Vec<TransportAction>) {
        let number = usize::from(selection);
        if let Some(slot) = frame.receive {
            self.rank_received(slot);
        }
        let program = Arc::clone(&self.program);
        let selection = &program.selections[number];
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        for (slot, incoming) in self.receiving.slots.iter().enumerate() {
            if let Some(incoming) = incoming
                && incoming.own.keys[number] != NOT_IN
            {
                candidates.push((incoming.own.keys[number], incoming.serial, slot as u16));
            }
        }
        candidates.sort_unstable();
        let active = selection.most.min(candidates.len() as u64);
        let mut rank = 0;
        for &(_, _, slot) in &candidates {
            if rank == selection.most {
                break;
            }
            let mut frame = Frame {
                receive: Some(slot),
                peer: Some(self.receiving.at(slot).peer),
                rank,
                active,
                ..self.frame(frame.now)
            };
            self.run(&selection.rules, &mut frame, actions);
            self.rank_received(slot);
            rank += u64::from(!frame.has_passed);
        }
        self.candidates = candidates;
    }

    /// Handles a packet of data, whole or trimmed.
    fn data_arrived(&mut self, now: Time, packet: Packet, actions: &mut Vec<TransportAction>) {
        let is_trimmed = packet.header.flags & CHOP != 0;
        self.statistics.trimmed += u64::from(is_trimmed);
        if is_trimmed && !self.spec.answer_trimmed {
            return;
        }
        let program = Arc::clone(&self.program);
        let found = self.receiving.find_or_begin(
            now,
            &packet,
            self.spec.packets(packet.header.message_bytes),
            &mut self.peers,
            now.saturating_sub(self.spec.memory()),
            || Received {
                file: File::of(&program.receive),
                due_at: Time::NEVER,
                keys: [NOT_IN; SELECTIONS],
            },
        );
        let mut frame = self.frame_of(now, &packet);
        frame.trimmed = is_trimmed;
        let slot = match found {
            Found::Slot(slot) | Found::New(slot) => slot,
            Found::NoRoom => {
                self.statistics.no_buffer += 1;
                return;
            }
            Found::Delivered => {
                self.statistics.duplicates += 1;
                self.run(&program.over, &mut frame, actions);
                return;
            }
        };
        let incoming = self.receiving.at(slot);
        let peer = incoming.peer;
        frame.duplicate = !incoming.missing.contains(packet.header.packet.into());
        frame.receive = Some(slot);
        frame.peer = Some(peer);
        frame.payload = packet.payload;
        self.know(peer);
        if matches!(found, Found::New(_)) {
            for (number, initial) in program.receive.initial.iter().enumerate() {
                let value = self.value(initial, &frame);
                self.receiving.at(slot).own.file.values[number] = value;
            }
        }
        self.statistics.duplicates += u64::from(frame.duplicate);
        self.run(&program.data, &mut frame, actions);
        if let Some(slot) = frame.receive {
            self.rank_received(slot);
        }
    }

    /// Handles a packet without data from the receiver of a message or, with [`BUSY`], from its
    /// sender.
    fn control_arrived(&mut self, now: Time, packet: &Packet, actions: &mut Vec<TransportAction>) {
        let program = Arc::clone(&self.program);
        let mut frame = self.frame_of(now, packet);
        // Packets about messages that have ended are ignored.
        if packet.header.flags & BUSY != 0 {
            let Some(slot) = self.receiving.find(packet, &mut self.peers) else {
                return;
            };
            let incoming = self.receiving.at(slot);
            incoming.heard_at = now;
            (frame.receive, frame.peer) = (Some(slot), Some(incoming.peer));
            self.run(&program.busy, &mut frame, actions);
            self.rank_received(slot);
        } else if let Some(slot) = self.sending.find(packet, &self.peers) {
            let peer = self.sending.at(slot).peer;
            (frame.send, frame.peer) = (Some(slot), Some(peer));
            self.run(&program.control, &mut frame, actions);
            self.rank_sent(&frame);
        }
    }

    /// The slot of the message that sends next.
    fn next_slot(&mut self) -> Option<u16> {
        if self.program.key.is_some() {
            if self.sending.count() == 0 {
                return None;
            }
            let slots = self.sending.slots.iter().enumerate();
            let first = slots.filter_map(|(slot, outgoing)| {
                let outgoing = outgoing.as_ref()?;
                let key = outgoing.own.key;
                (key != NOT_IN).then_some((key, outgoing.serial, slot as u16))
            });
            return first.min().map(|(_, _, slot)| slot);
        }
        while let Some(&slot) = self.ready.front() {
            let frame = Frame {
                send: Some(slot),
                ..Frame::default()
            };
            if self.is_ready(slot, &frame) {
                return Some(slot);
            }
            self.sending.at(slot).own.key = NOT_IN;
            self.ready.pop_front();
        }
        None
    }
}

impl Transport for Programmed {
    fn send(&mut self, now: Time, message: Message, actions: &mut Vec<TransportAction>) -> bool {
        if let Some(why) = self.spec.too_large(message.payload.len()) {
            self.statistics.given_up += 1;
            actions.push(TransportAction::GiveUp(message.tag, why));
            return true;
        }
        let program = Arc::clone(&self.program);
        let packets = self.spec.packets(message.payload.len() as u32);
        let own = || {
            let mut maps: [Bits; BITMAPS] = Default::default();
            for (map, beginning) in maps.iter_mut().zip(&program.bitmaps) {
                *map = match beginning {
                    Beginning::All => Bits::all(packets),
                    Beginning::None => Bits::none(packets),
                };
            }
            Sent {
                file: File::of(&program.send),
                maps,
                due_at: Time::NEVER,
                patience: Time::ZERO,
                sent_up_to: 0,
                key: NOT_IN,
            }
        };
        let peers = &mut self.peers;
        let Some(slot) = self.sending.begin(now, message, packets, peers, own) else {
            return false;
        };
        let peer = self.sending.at(slot).peer;
        self.know(peer);
        let mut frame = Frame {
            send: Some(slot),
            peer: Some(peer),
            ..self.frame(now)
        };
        for (number, initial) in program.send.initial.iter().enumerate() {
            let value = self.value(initial, &frame);
            self.sending.at(slot).own.file.values[number] = value;
        }
        self.run(&program.message, &mut frame, actions);
        self.rank_sent(&frame);
        true
    }

    fn arrived(&mut self, now: Time, packet: Packet, actions: &mut Vec<TransportAction>) {
        let is_data = packet.header.flags & DATA != 0;
        if packet.to.address != self.address || (is_data && !self.spec.accepts(&packet)) {
            self.statistics.malformed += 1;
        } else if is_data {
            self.data_arrived(now, packet, actions);
        } else {
            self.control_arrived(now, &packet, actions);
        }
    }

    fn timer(&mut self, now: Time, token: u64, actions: &mut Vec<TransportAction>) {
        if token == MESSAGE_TIMER {
            // An earlier timer may have replaced this one.
            if now >= self.timeout_at {
                self.timeout_at = Time::NEVER;
                self.look_at_timers(now, actions);
            }
            return;
        }
        let program = Arc::clone(&self.program);
        let timer = (token - MESSAGE_TIMER - 1) as usize;
        self.are_timers_set[timer] = false;
        let mut frame = Frame {
            is_timer: true,
            ..self.frame(now)
        };
        self.run(&program.timers[timer], &mut frame, actions);
        if let Some(slot) = frame.receive {
            self.rank_received(slot);
        }
    }

    fn next_packet(&mut self, now: Time) -> Option<Packet> {
        if let Some(packet) = self.queues.iter_mut().find_map(VecDeque::pop_front) {
            self.statistics.control_packets += 1;
            return Some(packet);
        }
        let slot = self.next_slot()?;
        let program = Arc::clone(&self.program);
        let outgoing = self.sending.at(slot);
        let peer = outgoing.peer;
        let (number, mut packet) = outgoing.next_data(&self.spec, DATA_PRIORITY)?;
        let is_new = number >= outgoing.own.sent_up_to;
        let mut frame = Frame {
            send: Some(slot),
            peer: Some(peer),
            header: packet.header,
            priority: packet.priority,
            is_egress: true,
            ..self.frame(now)
        };
        // Egress rules cannot produce transport actions.
        self.run(&program.egress, &mut frame, &mut Vec::new());
        (packet.header, packet.priority) = (frame.header, frame.priority);
        packet.ecn = program.ecn;
        let sent_up_to = &mut self.sending.at(slot).own.sent_up_to;
        *sent_up_to = number.saturating_add(1).max(*sent_up_to);
        if program.key.is_some() {
            self.rank_sent(&frame);
        }
        self.statistics.data_packets += 1;
        self.statistics.repeated_packets += u64::from(!is_new);
        Some(packet)
    }

    fn taken(&mut self, _now: Time, _message: &Message) {
        self.receiving.taken();
    }

    fn statistics(&self) -> TransportStatistics {
        TransportStatistics {
            sending: self.sending.count(),
            receiving: self.receiving.count(),
            waiting: self.receiving.delivered(),
            ..self.statistics
        }
    }
}

/// Saturates a packet number or a number of bytes to 32 bits.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
