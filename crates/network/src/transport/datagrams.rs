//! No transport: a message is one packet, which is sent once.

use super::TransportSpec;
use crate::packet::{
    CHOP, DATA, Message, NO_ECN, Packet, Transport, TransportAction, TransportHeader,
    TransportStatistics,
};
use fabric::Time;
use std::collections::VecDeque;

/// The priority of all packets: that of NDP's data.
const PRIORITY: u8 = 1;

/// Packets without acknowledgement on one host.
#[derive(Debug, state::State)]
pub struct Datagrams {
    #[state(fixed)]
    spec: TransportSpec,
    #[state(fixed)]
    address: u32,
    /// Packets that wait for the link.
    queue: VecDeque<Packet>,
    next_number: u16,
    /// Delivered messages that have not been taken.
    waiting: u64,
    statistics: TransportStatistics,
}

impl Datagrams {
    /// For the host with this address.
    pub(super) fn new(spec: TransportSpec, address: u32) -> Datagrams {
        Datagrams {
            spec,
            address,
            queue: VecDeque::new(),
            next_number: 0,
            waiting: 0,
            statistics: TransportStatistics::default(),
        }
    }
}

impl Transport for Datagrams {
    fn send(&mut self, _now: Time, message: Message, actions: &mut Vec<TransportAction>) -> bool {
        let bytes = message.payload.len();
        if bytes > self.spec.packet_bytes as usize {
            let why = format!(
                "a message of {bytes} bytes is too large for a datagram: packet_bytes is {}",
                self.spec.packet_bytes
            );
            self.statistics.given_up += 1;
            actions.push(TransportAction::GiveUp(message.tag, why));
            return true;
        }
        if self.queue.len() == self.spec.send_buffers as usize {
            return false;
        }
        self.queue.push_back(Packet {
            routed_to: None,
            padding: 0,
            ecn: NO_ECN,
            from: message.from,
            to: message.to,
            header: TransportHeader {
                flags: DATA,
                message: self.next_number,
                message_bytes: bytes as u32,
                ..TransportHeader::default()
            },
            priority: PRIORITY,
            payload: message.payload,
            tag: message.tag,
        });
        self.next_number = self.next_number.wrapping_add(1);
        true
    }

    fn arrived(&mut self, _now: Time, packet: Packet, actions: &mut Vec<TransportAction>) {
        let flags = packet.header.flags;
        if packet.to.address != self.address {
            self.statistics.malformed += 1;
        } else if flags & CHOP != 0 {
            self.statistics.trimmed += 1;
        } else if flags & DATA == 0 {
            // Control packets of another transport are ignored.
        } else if packet.header.packet != 0
            || packet.header.message_bytes as usize != packet.payload.len()
        {
            self.statistics.malformed += 1;
        } else if self.waiting == u64::from(self.spec.receive_buffers) {
            self.statistics.no_buffer += 1;
        } else {
            self.waiting += 1;
            self.statistics.delivered += 1;
            actions.push(TransportAction::Deliver(Message {
                from: packet.from,
                to: packet.to,
                payload: packet.payload,
                tag: packet.tag,
            }));
        }
    }

    fn timer(&mut self, _now: Time, _token: u64, _actions: &mut Vec<TransportAction>) {}

    fn next_packet(&mut self, _now: Time) -> Option<Packet> {
        let packet = self.queue.pop_front()?;
        self.statistics.data_packets += 1;
        self.statistics.sent += 1;
        Some(packet)
    }

    fn taken(&mut self, _now: Time, _message: &Message) {
        assert!(self.waiting > 0, "only a delivered message can be taken");
        self.waiting -= 1;
    }

    fn statistics(&self) -> TransportStatistics {
        TransportStatistics {
            sending: self.queue.len() as u64,
            waiting: self.waiting,
            ..self.statistics
        }
    }
}
