//! A transport that does nothing but to cut messages and put them together: for links that lose nothing.

use fabric::Time;
use network::packet::{
    DATA, Endpoint, Message, Packet, Transport, TransportAction, TransportHeader,
    TransportStatistics,
};
use state::{State, Walker};
use std::collections::{BTreeMap, VecDeque};

/// Payload bytes of a packet, at most.
const PACKET_BYTES: usize = 1024;

/// A message of which not all has come.
#[derive(Clone, Debug, Default)]
struct Partial {
    message: Message,
    has_come: Vec<bool>,
}

state::plain!(Partial { message, has_come });

/// No acknowledgements, no windows, nothing sent again.
#[derive(Clone, Debug, Default)]
pub struct PassThrough {
    sending: VecDeque<Packet>,
    next_message: u16,
    /// By sender and number.
    receiving: BTreeMap<(u32, u16, u16), Partial>,
}

impl State for PassThrough {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.sending.walk(walker);
        self.next_message.walk(walker);
        self.receiving.walk(walker);
    }
}

fn key(from: Endpoint, message: u16) -> (u32, u16, u16) {
    (from.address, from.port, message)
}

impl Transport for PassThrough {
    fn send(&mut self, _now: Time, message: Message, _actions: &mut Vec<TransportAction>) -> bool {
        let number = self.next_message;
        self.next_message = self.next_message.wrapping_add(1);
        for (packet, payload) in message.payload.chunks(PACKET_BYTES).enumerate() {
            self.sending.push_back(Packet {
                from: message.from,
                to: message.to,
                header: TransportHeader {
                    flags: DATA,
                    message: number,
                    message_bytes: message.payload.len() as u32,
                    packet: packet as u16,
                    ..TransportHeader::default()
                },
                payload: payload.to_vec(),
                tag: message.tag,
                ..Packet::default()
            });
        }
        true
    }

    fn arrived(&mut self, _now: Time, packet: Packet, actions: &mut Vec<TransportAction>) {
        let key = key(packet.from, packet.header.message);
        let bytes = packet.header.message_bytes as usize;
        let partial = self.receiving.entry(key).or_insert_with(|| Partial {
            message: Message {
                from: packet.from,
                to: packet.to,
                payload: vec![0; bytes],
                tag: packet.tag,
            },
            has_come: vec![false; bytes.div_ceil(PACKET_BYTES)],
        });
        let number = usize::from(packet.header.packet);
        let start = number * PACKET_BYTES;
        let place = partial.message.payload.get_mut(start..);
        if let Some(place) = place.and_then(|rest| rest.get_mut(..packet.payload.len()))
            && let Some(has_come) = partial.has_come.get_mut(number)
        {
            place.copy_from_slice(&packet.payload);
            *has_come = true;
        }
        if partial.has_come.iter().all(|&has_come| has_come)
            && let Some(partial) = self.receiving.remove(&key)
        {
            actions.push(TransportAction::Deliver(partial.message));
        }
    }

    fn timer(&mut self, _now: Time, _token: u64, _actions: &mut Vec<TransportAction>) {}

    fn next_packet(&mut self, _now: Time) -> Option<Packet> {
        self.sending.pop_front()
    }

    fn taken(&mut self, _now: Time, _message: &Message) {}

    fn statistics(&self) -> TransportStatistics {
        TransportStatistics {
            sending: self.sending.len() as u64,
            receiving: self.receiving.len() as u64,
            ..TransportStatistics::default()
        }
    }

    fn walk(&mut self, walker: &mut dyn Walker) {
        State::walk(self, walker);
    }
}
