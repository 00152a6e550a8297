//! Homa (Montazeri et al., SIGCOMM 2018) for one-way messages.
//!
//! The first bytes of a message, those of a round trip, are sent *unscheduled*: at once, and with a
//! priority that depends on the message's size. For the rest the sender waits for grants. The
//! receiver grants to the few messages that have fewest bytes left, as many at once as its
//! `overcommitment`, so much that the bytes of a round trip are always under way of each; and says
//! at which priority they are to be sent: the fewer bytes are left, the higher, but never higher
//! than is needed to tell the active messages apart, so that a shorter one that comes later finds a
//! higher one free (Section 3.4). The sender sends packets of the message first that has fewest
//! bytes left to be sent (SRPT).
//!
//! When nothing comes for `timeout_ns` of what a receiver has granted, it asks for what is missing,
//! in a `NACK` (Homa's RESEND); the sender sends it again, or says that it is `BUSY` with other
//! messages.
//!
//! Homa is made of remote procedure calls, in which the response acknowledges the request. Here
//! messages go one way, so that the receiver acknowledges each one when it is whole, and a sender
//! that hears nothing for twice `timeout_ns` sends again: what it has sent, if it has never heard
//! of the message, and else one packet, which a receiver that has it all answers with an
//! acknowledgement. nanoPU's Homa has such acknowledgements, too. A packet that has been trimmed is
//! asked for at once, as there.

use super::TransportSpec;
use super::buffers::{Found, Outgoing, Receiving, Sending};
use super::peers::Peers;
use crate::packet::{
    ACK, BUSY, CHOP, DATA, Message, NACK, PULL, Packet, Transport, TransportAction,
    TransportHeader, TransportStatistics,
};
use fabric::Time;
use std::collections::VecDeque;

/// The priority in switches of all that is not data.
const CONTROL_PRIORITY: u8 = 0;

/// What Homa knows of a message that is sent.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Granted {
    /// Bytes that may be sent.
    bytes: u32,
    /// The priority of unscheduled packets.
    unscheduled_priority: u8,
    /// The priority of all others.
    priority: u8,
    /// All packets before have been sent at least once.
    sent_up_to: u32,
    /// Whether the receiver has said something about it.
    is_known: bool,
}

/// What Homa knows of a message that is put together.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Granting {
    /// Bytes that its sender may send.
    granted: u32,
    /// The priority at which it may.
    priority: u8,
    /// When missing bytes were last asked for.
    asked_at: Time,
}

/// Homa on one host.
#[derive(Debug, state::State)]
pub struct Homa {
    #[state(fixed)]
    spec: TransportSpec,
    #[state(fixed)]
    address: u32,
    peers: Peers,
    sending: Sending<Granted>,
    receiving: Receiving<Granting>,
    /// What goes before all data.
    control: VecDeque<Packet>,
    /// When the timer goes off that looks for timeouts; never, if it is not set.
    timeout_at: Time,
    statistics: TransportStatistics,
    /// Messages that wait for grants, by remaining bytes and age; only used inside a call.
    #[state(fixed)]
    candidates: Vec<(u32, u64, u16)>,
}

impl Homa {
    /// For the host with this address.
    pub(super) fn new(spec: TransportSpec, address: u32) -> Homa {
        Homa {
            sending: Sending::new(spec.send_buffers),
            receiving: Receiving::new(spec.receive_buffers),
            spec,
            address,
            peers: Peers::default(),
            control: VecDeque::new(),
            timeout_at: Time::NEVER,
            statistics: TransportStatistics::default(),
            candidates: Vec::new(),
        }
    }

    /// Bytes that are sent unscheduled of a message, and are under way of each that is granted to.
    fn rtt_bytes(&self) -> u32 {
        self.spec.rtt_packets.saturating_mul(self.spec.packet_bytes)
    }

    /// How many priorities unscheduled packets have.
    fn unscheduled_priorities(&self) -> u8 {
        // The description allows no more of them than there are priorities.
        self.spec.homa.unscheduled_up_to_bytes.len() as u8 + 1
    }

    /// The priority of the message with this rank among so many active ones, the one with fewest
    /// bytes left first. The last one has the lowest of all; if there are more messages than
    /// priorities, those at the end share it.
    fn scheduled_priority(&self, rank: usize, active: usize) -> u8 {
        let first = self.unscheduled_priorities();
        let levels = usize::from(self.spec.homa.priorities - first);
        first + (levels.saturating_sub(active) + rank).min(levels - 1) as u8
    }

    fn set_timeout(&mut self, at: Time, actions: &mut Vec<TransportAction>) {
        // Messages that are received time out sooner than those that are sent: an earlier timer
        // takes the place of a later one, which then finds nothing to do.
        if at < self.timeout_at {
            self.timeout_at = at;
            actions.push(TransportAction::Wake(at, 0));
        }
    }

    /// A packet of data has come, whole or trimmed.
    fn data_arrived(&mut self, now: Time, packet: &Packet, actions: &mut Vec<TransportAction>) {
        let is_trimmed = packet.header.flags & CHOP != 0;
        self.statistics.trimmed += u64::from(is_trimmed);
        if is_trimmed && !self.spec.answer_trimmed {
            return;
        }
        let bytes = packet.header.message_bytes;
        let own = Granting {
            granted: self.rtt_bytes().min(bytes),
            priority: self.unscheduled_priorities(),
            asked_at: now,
        };
        let found = self.receiving.find_or_begin(
            now,
            packet,
            self.spec.packets(bytes),
            &mut self.peers,
            now.saturating_sub(self.spec.memory()),
            own,
        );
        let slot = match found {
            Found::Slot(slot) => slot,
            Found::NoRoom => {
                self.statistics.no_buffer += 1;
                return;
            }
            Found::Delivered => {
                self.statistics.duplicates += 1;
                self.acknowledge(packet);
                return;
            }
        };
        let number = u32::from(packet.header.packet);
        let incoming = self.receiving.at(slot);
        if !incoming.missing.contains(number) {
            // Its sender may not have heard of the message for long: it is told what it knows
            // already.
            self.statistics.duplicates += 1;
            let granted = incoming.own.granted;
            self.tell(slot, PULL, 0, granted);
        } else if is_trimmed {
            self.ask_for(slot, number, number + 1);
        } else {
            incoming.missing.remove(number);
            let range = self.spec.range(bytes, number);
            incoming.message.payload[range].copy_from_slice(&packet.payload);
            if incoming.missing.count() == 0 {
                self.acknowledge(packet);
                self.statistics.delivered += 1;
                let message = self.receiving.deliver(slot, &mut self.peers);
                actions.push(TransportAction::Deliver(message));
            }
        }
        self.grant();
        if self.receiving.count() > 0 {
            self.set_timeout(now + self.spec.timeout(), actions);
        }
    }

    /// Says to its sender that the message of a packet is here.
    fn acknowledge(&mut self, packet: &Packet) {
        self.control.push_back(Packet {
            routed_to: None,
            from: packet.to,
            to: packet.from,
            header: TransportHeader {
                flags: ACK,
                ..packet.header
            },
            priority: CONTROL_PRIORITY,
            payload: Vec::new(),
            tag: packet.tag,
        });
    }

    /// Says to the sender of a message what it may send, or (with `NACK`) has to send again from a
    /// packet on, up to so many bytes.
    fn tell(&mut self, slot: u16, flags: u8, packet: u32, bytes: u32) {
        let incoming = self.receiving.at(slot);
        let packet = Packet {
            routed_to: None,
            from: incoming.message.to,
            to: incoming.message.from,
            header: TransportHeader {
                flags,
                message: incoming.number,
                message_bytes: incoming.message.payload.len() as u32,
                packet: packet as u16,
                credit: bytes,
                granted_priority: incoming.own.priority,
            },
            priority: CONTROL_PRIORITY,
            payload: Vec::new(),
            tag: incoming.message.tag,
        };
        self.control.push_back(packet);
    }

    /// Asks for packets again.
    fn ask_for(&mut self, slot: u16, from: u32, to: u32) {
        let bytes = self.receiving.at(slot).message.payload.len() as u32;
        let end = to.saturating_mul(self.spec.packet_bytes).min(bytes);
        self.tell(slot, NACK, from, end);
    }

    /// Grants bytes to the messages that have fewest left.
    fn grant(&mut self) {
        let rtt_bytes = self.rtt_bytes();
        if self.spec.largest_message_bytes <= rtt_bytes {
            return;
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        for (slot, incoming) in self.receiving.slots.iter().enumerate() {
            let Some(incoming) = incoming else { continue };
            let bytes = incoming.message.payload.len() as u32;
            if incoming.own.granted < bytes {
                let left = self.spec.bytes_of(&incoming.missing, bytes);
                candidates.push((left, incoming.serial, slot as u16));
            }
        }
        candidates.sort_unstable();
        let most = self.spec.homa.overcommitment as usize;
        let active = candidates.len().min(most);
        let packet_bytes = self.spec.packet_bytes;
        let mut rank = 0;
        for &(left, _, slot) in &candidates {
            if rank == most {
                break;
            }
            let priority = self.scheduled_priority(rank.min(active - 1), active);
            let incoming = self.receiving.at(slot);
            let bytes = incoming.message.payload.len() as u32;
            let granted = (bytes - left).saturating_add(rtt_bytes).min(bytes);
            let granted = granted.next_multiple_of(packet_bytes).min(bytes);
            incoming.own.priority = priority;
            if granted > incoming.own.granted {
                incoming.own.granted = granted;
                self.tell(slot, PULL, 0, granted);
            }
            // One that has all its grants makes room for the next one.
            rank += usize::from(granted < bytes);
        }
        self.candidates = candidates;
    }

    /// The receiver of a message has said something about it.
    fn control_arrived(&mut self, now: Time, packet: &Packet) {
        // Of a message that is over, there is nothing to be told.
        let Some(slot) = self.sending.find(packet, &self.peers) else {
            return;
        };
        let header = &packet.header;
        if header.flags & ACK != 0 {
            self.sending.end(slot, &mut self.peers);
            self.statistics.sent += 1;
            return;
        }
        let packet_bytes = self.spec.packet_bytes;
        let outgoing = self.sending.at(slot);
        if header.credit as usize > outgoing.message.payload.len() {
            self.statistics.malformed += 1;
            return;
        }
        outgoing.active_at = now;
        outgoing.timeouts = 0;
        outgoing.own.is_known = true;
        if header.credit >= outgoing.own.bytes {
            outgoing.own.bytes = header.credit;
            outgoing.own.priority = header.granted_priority;
        }
        if header.flags & NACK != 0 {
            let end = header.credit.div_ceil(packet_bytes).max(1);
            let range = u32::from(header.packet)..end;
            let mut is_waiting = false;
            for number in range {
                if number < outgoing.own.sent_up_to {
                    is_waiting |= !outgoing.to_send.insert(number);
                } else {
                    is_waiting = true;
                }
            }
            if is_waiting {
                let answer = Packet {
                    routed_to: None,
                    from: packet.to,
                    to: packet.from,
                    header: TransportHeader {
                        flags: BUSY,
                        ..packet.header
                    },
                    priority: CONTROL_PRIORITY,
                    payload: Vec::new(),
                    tag: packet.tag,
                };
                self.control.push_back(answer);
            }
        }
    }

    /// Does something about each message of which nothing has been heard for too long.
    fn look_for_timeouts(&mut self, now: Time, actions: &mut Vec<TransportAction>) {
        let timeout = self.spec.timeout();
        let mut next = Time::NEVER;
        for slot in 0..self.receiving.slots.len() as u16 {
            let Some(incoming) = &mut self.receiving.slots[slot as usize] else {
                continue;
            };
            if now > incoming.heard_at.saturating_add(self.spec.memory()) {
                self.receiving.forget(slot, &mut self.peers);
                continue;
            }
            let since = incoming.heard_at.max(incoming.own.asked_at);
            if now < since + timeout {
                next = next.min(since + timeout);
                continue;
            }
            next = next.min(now + timeout);
            incoming.own.asked_at = now;
            // What has not been granted does not come.
            let expected = incoming.own.granted.div_ceil(self.spec.packet_bytes).max(1);
            let first = incoming.missing.first().filter(|&first| first < expected);
            if let Some(first) = first {
                let mut end = first + 1;
                while end < expected && incoming.missing.contains(end) {
                    end += 1;
                }
                self.statistics.timeouts += 1;
                self.ask_for(slot, first, end);
            }
        }
        let timeout = timeout + timeout;
        for slot in 0..self.sending.slots.len() as u16 {
            let Some(outgoing) = &mut self.sending.slots[slot as usize] else {
                continue;
            };
            // What waits for the host's own link is not lost.
            if may_send(outgoing, self.spec.packet_bytes) {
                outgoing.active_at = now;
            }
            if now < outgoing.active_at + timeout {
                next = next.min(outgoing.active_at + timeout);
                continue;
            }
            self.statistics.timeouts += 1;
            if outgoing.timeouts == self.spec.max_timeouts {
                let message = self.sending.end(slot, &mut self.peers).message;
                self.statistics.given_up += 1;
                let why = self.spec.given_up(&message);
                actions.push(TransportAction::GiveUp(message.tag, why));
                continue;
            }
            outgoing.timeouts += 1;
            outgoing.active_at = now;
            next = next.min(now + timeout);
            let from = match outgoing.own.is_known {
                true => outgoing.own.sent_up_to - 1,
                false => 0,
            };
            for number in from..outgoing.own.sent_up_to {
                outgoing.to_send.insert(number);
            }
        }
        if next != Time::NEVER {
            self.set_timeout(next, actions);
        }
    }
}

/// Whether the lowest packet of a message that has to be sent may be.
fn may_send(outgoing: &Outgoing<Granted>, packet_bytes: u32) -> bool {
    let first = outgoing.to_send.first();
    first.is_some_and(|first| first == 0 || first * packet_bytes < outgoing.own.bytes)
}

impl Transport for Homa {
    fn send(&mut self, now: Time, message: Message, actions: &mut Vec<TransportAction>) -> bool {
        if let Some(why) = self.spec.too_large(message.payload.len()) {
            self.statistics.given_up += 1;
            actions.push(TransportAction::GiveUp(message.tag, why));
            return true;
        }
        let bytes = message.payload.len() as u32;
        let packets = self.spec.packets(bytes);
        let limits = &self.spec.homa.unscheduled_up_to_bytes;
        let own = Granted {
            bytes: self.rtt_bytes().min(bytes),
            unscheduled_priority: limits.partition_point(|&limit| limit < bytes) as u8,
            priority: self.unscheduled_priorities(),
            sent_up_to: 0,
            is_known: false,
        };
        let peers = &mut self.peers;
        if self
            .sending
            .begin(now, message, packets, peers, own)
            .is_none()
        {
            return false;
        }
        let timeout = self.spec.timeout();
        self.set_timeout(now + timeout + timeout, actions);
        true
    }

    fn arrived(&mut self, now: Time, packet: Packet, actions: &mut Vec<TransportAction>) {
        let is_data = packet.header.flags & DATA != 0;
        if packet.to.address != self.address || (is_data && !self.spec.accepts(&packet)) {
            self.statistics.malformed += 1;
        } else if is_data {
            self.data_arrived(now, &packet, actions);
        } else if packet.header.flags & BUSY != 0 {
            if let Some(slot) = self.receiving.find(&packet, &mut self.peers) {
                self.receiving.at(slot).heard_at = now;
            }
        } else {
            self.control_arrived(now, &packet);
        }
    }

    fn timer(&mut self, now: Time, _token: u64, actions: &mut Vec<TransportAction>) {
        // A timer whose place an earlier one has taken has nothing to do.
        if now >= self.timeout_at {
            self.timeout_at = Time::NEVER;
            self.look_for_timeouts(now, actions);
        }
    }

    fn next_packet(&mut self, now: Time) -> Option<Packet> {
        if let Some(packet) = self.control.pop_front() {
            self.statistics.control_packets += 1;
            return Some(packet);
        }
        if self.sending.count() == 0 {
            return None;
        }
        let spec = &self.spec;
        let left = |(slot, outgoing): (usize, &Option<Outgoing<Granted>>)| {
            let outgoing = outgoing.as_ref()?;
            let bytes = outgoing.message.payload.len() as u32;
            may_send(outgoing, spec.packet_bytes).then(|| {
                let left = spec.bytes_of(&outgoing.to_send, bytes);
                (left, outgoing.serial, slot as u16)
            })
        };
        let slots = self.sending.slots.iter().enumerate();
        let (_, _, slot) = slots.filter_map(left).min()?;
        let rtt_packets = self.spec.rtt_packets;
        let outgoing = self.sending.at(slot);
        let first = outgoing.to_send.first()?;
        let is_new = first >= outgoing.own.sent_up_to;
        let priority = match is_new && first < rtt_packets {
            true => outgoing.own.unscheduled_priority,
            false => outgoing.own.priority,
        };
        let (number, packet) = outgoing.next_data(&self.spec, priority)?;
        outgoing.active_at = now;
        outgoing.own.sent_up_to = outgoing.own.sent_up_to.max(number + 1);
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
