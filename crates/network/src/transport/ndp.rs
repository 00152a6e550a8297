//! NDP (Handley et al., SIGCOMM 2017), with the state that nanoPU's prototype keeps for a message.
//!
//! The sender of a message sends the packets of the first round trip at once, and then one for each
//! credit that the receiver gives it. The receiver acknowledges each packet that comes whole, says
//! of each that comes trimmed that it must be sent again, and for both gives a credit, as long as
//! packets are missing: in the same packet if it may, and if not in a `PULL` that waits for its
//! turn. It gives no more than one credit in the time that the largest packet takes on its link, so
//! that what it pulls comes as fast as its link can carry it. Credits are numbered, so that a
//! `PULL` that is lost is made good by the next one.
//!
//! Only when nothing has been heard of a message for `timeout_ns` does its sender send again what
//! has not been acknowledged, without waiting for credit.

use super::bits::Bits;
use super::buffers::{Found, Receiving, Sending};
use super::peers::Peers;
use super::{TransportSpec, packet_time};
use crate::packet::{
    ACK, CHOP, DATA, Message, NACK, PULL, Packet, Transport, TransportAction, TransportHeader,
    TransportStatistics,
};
use crate::rack::LineRate;
use fabric::Time;
use std::collections::VecDeque;

/// Priorities in switches: headers first (NDP, Section 3.2.1).
const CONTROL_PRIORITY: u8 = 0;
const DATA_PRIORITY: u8 = 1;

/// What timers are for.
mod token {
    /// To look for messages of which nothing has been heard for long.
    pub const TIMEOUT: u64 = 0;
    /// To give the next credit.
    pub const PULL: u64 = 1;
}

/// What NDP knows of a message that is sent.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Pulled {
    /// Packets that have not been acknowledged.
    unacknowledged: Bits,
    /// The highest credit that was heard of.
    credit: u32,
    /// How many packets may be sent now.
    allowance: u32,
    /// All before have been sent at least once.
    sent_up_to: u32,
    /// Whether it is in [`Ndp::ready`].
    is_ready: bool,
}

/// What NDP knows of a message that is put together.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Pulling {
    /// How many packets have come trimmed, and come again.
    trimmed: u32,
    /// The credit that it has, with what waits in [`Ndp::pulls`].
    promised: u32,
    /// The credit that its sender has been told of.
    given: u32,
}

/// NDP on one host.
#[derive(Debug, state::State)]
pub struct Ndp {
    #[state(fixed)]
    spec: TransportSpec,
    #[state(fixed)]
    address: u32,
    /// The time from one credit to the next.
    #[state(fixed)]
    pull_gap: Time,
    peers: Peers,
    sending: Sending<Pulled>,
    receiving: Receiving<Pulling>,
    /// Packets with credits, which go first, so that they leave as far apart as they are given.
    credits: VecDeque<Packet>,
    /// What else goes before all data.
    control: VecDeque<Packet>,
    /// Messages of which packets may be sent.
    ready: VecDeque<u16>,
    /// Credits that wait for their turn: the slots and serial numbers of their messages.
    pulls: VecDeque<(u16, u64)>,
    next_pull_at: Time,
    is_pull_timer_set: bool,
    /// When the timer goes off that looks for timeouts; never, if it is not set.
    timeout_at: Time,
    statistics: TransportStatistics,
}

impl Ndp {
    /// For the host with this address, whose link has this rate.
    pub(super) fn new(spec: TransportSpec, address: u32, rate: LineRate) -> Ndp {
        Ndp {
            pull_gap: packet_time(spec.packet_bytes, rate),
            sending: Sending::new(spec.send_buffers),
            receiving: Receiving::new(spec.receive_buffers),
            spec,
            address,
            peers: Peers::default(),
            credits: VecDeque::new(),
            control: VecDeque::new(),
            ready: VecDeque::new(),
            pulls: VecDeque::new(),
            next_pull_at: Time::ZERO,
            is_pull_timer_set: false,
            timeout_at: Time::NEVER,
            statistics: TransportStatistics::default(),
        }
    }

    fn set_timeout(&mut self, at: Time, actions: &mut Vec<TransportAction>) {
        if self.timeout_at == Time::NEVER {
            self.timeout_at = at;
            actions.push(TransportAction::Wake(at, token::TIMEOUT));
        }
    }

    /// Puts a message into the queue for the link, if something of it may be sent.
    fn make_ready(&mut self, slot: u16) {
        let outgoing = self.sending.at(slot);
        let may_send = outgoing.own.allowance > 0 && outgoing.to_send.count() > 0;
        if may_send && !outgoing.own.is_ready {
            outgoing.own.is_ready = true;
            self.ready.push_back(slot);
        }
    }

    /// A packet of data has come, whole or trimmed.
    fn data_arrived(&mut self, now: Time, packet: &Packet, actions: &mut Vec<TransportAction>) {
        let is_trimmed = packet.header.flags & CHOP != 0;
        self.statistics.trimmed += u64::from(is_trimmed);
        if is_trimmed && !self.spec.answer_trimmed {
            return;
        }
        let packets = self.spec.packets(packet.header.message_bytes);
        let first_window = self.spec.rtt_packets.min(packets);
        let found = self.receiving.find_or_begin(
            now,
            packet,
            packets,
            &mut self.peers,
            now.saturating_sub(self.spec.memory()),
            Pulling {
                trimmed: 0,
                promised: first_window,
                given: first_window,
            },
        );
        let slot = match found {
            Found::Slot(slot) => slot,
            Found::NoRoom => {
                self.statistics.no_buffer += 1;
                return;
            }
            Found::Delivered => {
                self.statistics.duplicates += 1;
                self.answer(packet, ACK, 0);
                return;
            }
        };
        let number = u32::from(packet.header.packet);
        let incoming = self.receiving.at(slot);
        if !incoming.missing.contains(number) {
            // Whole or trimmed: it is here, and the acknowledgement was lost or is on its way.
            self.statistics.duplicates += 1;
            self.answer(packet, ACK, 0);
            return;
        }
        let flags = if is_trimmed {
            incoming.own.trimmed += 1;
            NACK
        } else {
            incoming.missing.remove(number);
            let range = self.spec.range(packet.header.message_bytes, number);
            incoming.message.payload[range].copy_from_slice(&packet.payload);
            ACK
        };
        if incoming.missing.count() == 0 {
            self.answer(packet, ACK, 0);
            self.statistics.delivered += 1;
            let message = self.receiving.deliver(slot, &mut self.peers);
            actions.push(TransportAction::Deliver(message));
            return;
        }
        // Each packet of the message is sent once, and once more each time that it is trimmed.
        let own = &mut incoming.own;
        if own.promised == incoming.packets + own.trimmed {
            self.answer(packet, flags, 0);
            return;
        }
        own.promised += 1;
        if now >= self.next_pull_at && self.pulls.is_empty() {
            own.given = own.promised;
            let credit = own.given;
            self.next_pull_at = now + self.pull_gap;
            self.answer(packet, flags | PULL, credit);
            return;
        }
        self.pulls.push_back((slot, incoming.serial));
        self.answer(packet, flags, 0);
        self.set_pull_timer(now, actions);
    }

    /// Queues what the receiver of a packet says about it.
    fn answer(&mut self, packet: &Packet, flags: u8, credit: u32) {
        let queue = match flags & PULL {
            0 => &mut self.control,
            _ => &mut self.credits,
        };
        queue.push_back(Packet {
            routed_to: None,
            from: packet.to,
            to: packet.from,
            header: TransportHeader {
                flags,
                credit,
                granted_priority: 0,
                ..packet.header
            },
            priority: CONTROL_PRIORITY,
            payload: Vec::new(),
            tag: packet.tag,
        });
    }

    fn set_pull_timer(&mut self, now: Time, actions: &mut Vec<TransportAction>) {
        if !self.is_pull_timer_set && !self.pulls.is_empty() {
            self.is_pull_timer_set = true;
            let at = self.next_pull_at.max(now);
            actions.push(TransportAction::Wake(at, token::PULL));
        }
    }

    /// Gives the credit that has waited for longest, if its message still wants it.
    fn pull(&mut self, now: Time) {
        while let Some((slot, serial)) = self.pulls.pop_front() {
            let Some(incoming) = self.receiving.still_at(slot, serial) else {
                continue;
            };
            incoming.own.given += 1;
            self.credits.push_back(Packet {
                routed_to: None,
                from: incoming.message.to,
                to: incoming.message.from,
                header: TransportHeader {
                    flags: PULL,
                    message: incoming.number,
                    message_bytes: incoming.message.payload.len() as u32,
                    credit: incoming.own.given,
                    ..TransportHeader::default()
                },
                priority: CONTROL_PRIORITY,
                payload: Vec::new(),
                tag: incoming.message.tag,
            });
            self.next_pull_at = now + self.pull_gap;
            return;
        }
    }

    /// The receiver of a message has said something about it.
    fn control_arrived(&mut self, now: Time, packet: &Packet) {
        // Of a message that is over, there is nothing to be told.
        let Some(slot) = self.sending.find(packet, &self.peers) else {
            return;
        };
        let header = &packet.header;
        let number = u32::from(header.packet);
        let outgoing = self.sending.at(slot);
        if number >= outgoing.packets {
            self.statistics.malformed += 1;
            return;
        }
        outgoing.active_at = now;
        outgoing.timeouts = 0;
        if header.flags & ACK != 0 {
            outgoing.own.unacknowledged.remove(number);
            outgoing.to_send.remove(number);
            if outgoing.own.unacknowledged.count() == 0 {
                self.end(slot);
                self.statistics.sent += 1;
                return;
            }
        }
        if header.flags & NACK != 0 && outgoing.own.unacknowledged.contains(number) {
            outgoing.to_send.insert(number);
        }
        if header.flags & PULL != 0 && header.credit > outgoing.own.credit {
            let more = header.credit - outgoing.own.credit;
            outgoing.own.allowance = outgoing.own.allowance.saturating_add(more);
            outgoing.own.credit = header.credit;
        }
        self.make_ready(slot);
    }

    fn end(&mut self, slot: u16) -> Message {
        let ended = self.sending.end(slot, &mut self.peers);
        if ended.own.is_ready {
            self.ready.retain(|&ready| ready != slot);
        }
        ended.message
    }

    /// Does something about each message of which nothing has been heard for too long.
    fn look_for_timeouts(&mut self, now: Time, actions: &mut Vec<TransportAction>) {
        let timeout = self.spec.timeout();
        let mut next = Time::NEVER;
        for slot in 0..self.sending.slots.len() as u16 {
            let Some(outgoing) = &mut self.sending.slots[slot as usize] else {
                continue;
            };
            // What waits for the host's own link is not lost.
            if outgoing.own.is_ready {
                outgoing.active_at = now;
            }
            if now < outgoing.active_at + timeout {
                next = next.min(outgoing.active_at + timeout);
                continue;
            }
            self.statistics.timeouts += 1;
            if outgoing.timeouts == self.spec.max_timeouts {
                let message = self.end(slot);
                self.statistics.given_up += 1;
                let why = self.spec.given_up(&message);
                actions.push(TransportAction::GiveUp(message.tag, why));
                continue;
            }
            outgoing.timeouts += 1;
            outgoing.active_at = now;
            let mut lost = 0;
            for number in 0..outgoing.own.sent_up_to {
                let is_lost = outgoing.own.unacknowledged.contains(number);
                lost += u32::from(is_lost && outgoing.to_send.insert(number));
            }
            // If all that was sent has come, a credit is lost: one more packet asks for it.
            outgoing.own.allowance = outgoing.own.allowance.max(lost).max(1);
            next = next.min(now + timeout);
            self.make_ready(slot);
        }
        if next != Time::NEVER {
            self.set_timeout(next, actions);
        }
    }
}

impl Transport for Ndp {
    fn send(&mut self, now: Time, message: Message, actions: &mut Vec<TransportAction>) -> bool {
        if let Some(why) = self.spec.too_large(message.payload.len()) {
            self.statistics.given_up += 1;
            actions.push(TransportAction::GiveUp(message.tag, why));
            return true;
        }
        let packets = self.spec.packets(message.payload.len() as u32);
        let first_window = self.spec.rtt_packets.min(packets);
        let own = Pulled {
            unacknowledged: Bits::all(packets),
            credit: first_window,
            allowance: first_window,
            sent_up_to: 0,
            is_ready: false,
        };
        let peers = &mut self.peers;
        let Some(slot) = self.sending.begin(now, message, packets, peers, own) else {
            return false;
        };
        self.make_ready(slot);
        self.set_timeout(now + self.spec.timeout(), actions);
        true
    }

    fn arrived(&mut self, now: Time, packet: Packet, actions: &mut Vec<TransportAction>) {
        let is_data = packet.header.flags & DATA != 0;
        if packet.to.address != self.address || (is_data && !self.spec.accepts(&packet)) {
            self.statistics.malformed += 1;
        } else if is_data {
            self.data_arrived(now, &packet, actions);
        } else {
            self.control_arrived(now, &packet);
        }
    }

    fn timer(&mut self, now: Time, token: u64, actions: &mut Vec<TransportAction>) {
        if token == token::PULL {
            self.is_pull_timer_set = false;
            self.pull(now);
            self.set_pull_timer(now, actions);
        } else {
            self.timeout_at = Time::NEVER;
            self.look_for_timeouts(now, actions);
        }
    }

    fn next_packet(&mut self, now: Time) -> Option<Packet> {
        let control = self.credits.pop_front();
        if let Some(packet) = control.or_else(|| self.control.pop_front()) {
            self.statistics.control_packets += 1;
            return Some(packet);
        }
        while let Some(&slot) = self.ready.front() {
            let outgoing = self.sending.at(slot);
            let next = match outgoing.own.allowance {
                0 => None,
                _ => outgoing.next_data(&self.spec, DATA_PRIORITY),
            };
            let Some((number, packet)) = next else {
                outgoing.own.is_ready = false;
                self.ready.pop_front();
                continue;
            };
            outgoing.active_at = now;
            outgoing.own.allowance -= 1;
            let is_new = number >= outgoing.own.sent_up_to;
            outgoing.own.sent_up_to = outgoing.own.sent_up_to.max(number + 1);
            self.statistics.data_packets += 1;
            self.statistics.repeated_packets += u64::from(!is_new);
            return Some(packet);
        }
        None
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
