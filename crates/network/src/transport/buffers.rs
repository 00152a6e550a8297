//! The two buffers of a transport, for packetization and for reassembly. Each has a table of slots,
//! one for each message.

use super::TransportSpec;
use super::bits::Bits;
use super::peers::{Peers, Seen};
use crate::packet::{DATA, Message, NO_ECN, Packet, TransportHeader};
use fabric::Time;

/// A message that is being sent.
#[derive(Clone, Debug, state::State, state::Plain)]
#[state(bound(E: state::Plain))]
pub(super) struct Outgoing<E> {
    pub(super) message: Message,
    pub(super) peer: u32,
    pub(super) number: u16,
    /// Distinguishes it from earlier messages in its slot, and orders messages by age.
    pub(super) serial: u64,
    pub(super) packets: u32,
    /// Packets that are to be sent, for the first time or again.
    pub(super) to_send: Bits,
    /// The time of the last packet of it, sent or received.
    pub(super) active_at: Time,
    /// Consecutive timeouts.
    pub(super) timeouts: u32,
    /// The protocol's state.
    pub(super) own: E,
}

impl<E> Outgoing<E> {
    /// Removes the lowest packet from `to_send`; returns its number and the packet.
    pub(super) fn next_data(
        &mut self,
        spec: &TransportSpec,
        priority: u8,
    ) -> Option<(u32, Packet)> {
        let number = self.to_send.first()?;
        self.to_send.remove(number);
        let message_bytes = self.message.payload.len() as u32;
        let packet = Packet {
            routed_to: None,
            padding: 0,
            ecn: NO_ECN,
            from: self.message.from,
            to: self.message.to,
            header: TransportHeader {
                flags: DATA,
                message: self.number,
                message_bytes,
                packet: number as u16,
                ..TransportHeader::default()
            },
            priority,
            payload: self.message.payload[spec.range(message_bytes, number)].to_vec(),
            tag: self.message.tag,
        };
        Some((number, packet))
    }
}

/// The buffer for packetization.
#[derive(Clone, Debug, state::State)]
#[state(bound(E: state::Plain))]
pub(super) struct Sending<E> {
    #[state(slice)]
    pub(super) slots: Vec<Option<Outgoing<E>>>,
    free: Vec<u16>,
    next_serial: u64,
}

impl<E> Sending<E> {
    pub(super) fn new(buffers: u32) -> Sending<E> {
        Sending {
            slots: (0..buffers).map(|_| None).collect(),
            // `pop` takes the lowest slot.
            free: (0..buffers as u16).rev().collect(),
            next_serial: 0,
        }
    }

    /// Takes a message of `packets` packets, and returns its slot; `None` if there is no room.
    pub(super) fn begin(
        &mut self,
        now: Time,
        message: Message,
        packets: u32,
        peers: &mut Peers,
        own: impl FnOnce() -> E,
    ) -> Option<u16> {
        let peer = peers.find_or_add(message.to.address);
        if !peers.has_room(peer) {
            return None;
        }
        let slot = self.free.pop()?;
        let serial = self.next_serial;
        self.next_serial += 1;
        self.slots[slot as usize] = Some(Outgoing {
            message,
            peer,
            number: peers.number(peer, slot),
            serial,
            packets,
            to_send: Bits::all(packets),
            active_at: now,
            timeouts: 0,
            own: own(),
        });
        Some(slot)
    }

    /// The message in a slot that is in use.
    pub(super) fn at(&mut self, slot: u16) -> &mut Outgoing<E> {
        self.slots[slot as usize]
            .as_mut()
            .expect("a slot in use has a message")
    }

    /// The slot of the message that a packet of its receiver is about.
    pub(super) fn find(&self, packet: &Packet, peers: &Peers) -> Option<u16> {
        let peer = peers.find(packet.from.address)?;
        peers.sending(peer, packet.header.message)
    }

    /// Frees the slot of a message that has been delivered or given up.
    pub(super) fn end(&mut self, slot: u16, peers: &mut Peers) -> Outgoing<E> {
        let ended = self.slots[slot as usize]
            .take()
            .expect("a slot in use has a message");
        peers.sent(ended.peer, ended.number);
        self.free.push(slot);
        ended
    }

    /// The number of messages that are being sent.
    pub(super) fn count(&self) -> u64 {
        (self.slots.len() - self.free.len()) as u64
    }
}

/// A message in reassembly.
#[derive(Clone, Debug, state::State, state::Plain)]
#[state(bound(E: state::Plain))]
pub(super) struct Incoming<E> {
    /// Its payload is 0 where packets are missing.
    pub(super) message: Message,
    pub(super) peer: u32,
    pub(super) number: u16,
    /// Distinguishes it from earlier messages in its slot, and orders messages by age.
    pub(super) serial: u64,
    pub(super) packets: u32,
    /// Packets that have not arrived.
    pub(super) missing: Bits,
    /// When a packet of it last arrived.
    pub(super) heard_at: Time,
    /// The protocol's state.
    pub(super) own: E,
}

/// The message to which a packet of data belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The message in reassembly in this slot.
    Slot(u16),
    /// A new message, to which this slot was allocated.
    New(u16),
    /// A message that has been delivered.
    Delivered,
    /// A new message, for which no buffer is free.
    NoRoom,
}

/// The buffer for reassembly.
///
/// A message takes a buffer when its first packet arrives, and frees it when the application has
/// taken the message.
#[derive(Clone, Debug, state::State)]
#[state(bound(E: state::Plain))]
pub(super) struct Receiving<E> {
    #[state(slice)]
    pub(super) slots: Vec<Option<Incoming<E>>>,
    free: Vec<u16>,
    /// Delivered messages whose buffers are still taken.
    delivered: u64,
    next_serial: u64,
    /// Slots of messages that their senders have given up; empty between calls.
    #[state(fixed)]
    given_up: Vec<u16>,
}

impl<E> Receiving<E> {
    pub(super) fn new(buffers: u32) -> Receiving<E> {
        Receiving {
            slots: (0..buffers).map(|_| None).collect(),
            free: (0..buffers as u16).rev().collect(),
            delivered: 0,
            next_serial: 0,
            given_up: Vec::new(),
        }
    }

    /// The slot of the message that a packet of its sender is about, if it is in reassembly.
    pub(super) fn find(&mut self, packet: &Packet, peers: &mut Peers) -> Option<u16> {
        let peer = peers.find(packet.from.address)?;
        match self.look_up(peer, packet.header.message, peers) {
            Seen::At(slot) => Some(slot),
            Seen::New | Seen::Over => None,
        }
    }

    fn look_up(&mut self, peer: u32, number: u16, peers: &mut Peers) -> Seen {
        let seen = peers.look_up(peer, number, &mut self.given_up);
        while let Some(slot) = self.given_up.pop() {
            self.slots[slot as usize] = None;
            self.free.push(slot);
        }
        seen
    }

    /// Finds the message of a packet, which has `packets` packets. A new message takes a free
    /// buffer or, if there is none, that of a message whose last packet came before
    /// `forgotten_at`.
    pub(super) fn find_or_begin(
        &mut self,
        now: Time,
        packet: &Packet,
        packets: u32,
        peers: &mut Peers,
        forgotten_at: Time,
        own: impl FnOnce() -> E,
    ) -> Found {
        let peer = peers.find_or_add(packet.from.address);
        let number = packet.header.message;
        match self.look_up(peer, number, peers) {
            Seen::At(slot) => {
                self.at(slot).heard_at = now;
                return Found::Slot(slot);
            }
            Seen::Over => return Found::Delivered,
            Seen::New => {}
        }
        if !self.has_room() {
            let forgotten = |incoming: &Option<Incoming<E>>| {
                incoming
                    .as_ref()
                    .is_some_and(|incoming| incoming.heard_at < forgotten_at)
            };
            let Some(slot) = self.slots.iter().position(forgotten) else {
                return Found::NoRoom;
            };
            self.forget(slot as u16, peers);
        }
        // `has_room` implies a free slot, since there are as many slots as buffers.
        let slot = self.free.pop().expect("a free buffer has a slot");
        let serial = self.next_serial;
        self.next_serial += 1;
        self.slots[slot as usize] = Some(Incoming {
            message: Message {
                from: packet.from,
                to: packet.to,
                payload: vec![0; packet.header.message_bytes as usize],
                tag: packet.tag,
            },
            peer,
            number,
            serial,
            packets,
            missing: Bits::all(packets),
            heard_at: now,
            own: own(),
        });
        peers.begin(peer, number, slot);
        Found::New(slot)
    }

    fn has_room(&self) -> bool {
        self.free.len() as u64 > self.delivered
    }

    /// The message in a slot that is in use.
    pub(super) fn at(&mut self, slot: u16) -> &mut Incoming<E> {
        self.slots[slot as usize]
            .as_mut()
            .expect("a slot in use has a message")
    }

    /// The message in a slot, if it is still the one with this serial number.
    pub(super) fn still_at(&mut self, slot: u16, serial: u64) -> Option<&mut Incoming<E>> {
        self.slots[slot as usize]
            .as_mut()
            .filter(|incoming| incoming.serial == serial)
    }

    /// Abandons the reassembly of a message.
    pub(super) fn forget(&mut self, slot: u16, peers: &mut Peers) {
        if let Some(incoming) = self.slots[slot as usize].take() {
            peers.forget(incoming.peer, incoming.number);
            self.free.push(slot);
        }
    }

    /// Frees the slot of a whole message and returns the message, which keeps its buffer until
    /// [`Receiving::taken`].
    pub(super) fn deliver(&mut self, slot: u16, peers: &mut Peers) -> Message {
        let incoming = self.slots[slot as usize]
            .take()
            .expect("a slot in use has a message");
        peers.complete(incoming.peer, incoming.number);
        self.free.push(slot);
        self.delivered += 1;
        incoming.message
    }

    /// The application has taken a delivered message.
    pub(super) fn taken(&mut self) {
        assert!(self.delivered > 0, "only a delivered message can be taken");
        self.delivered -= 1;
    }

    /// The number of messages in reassembly.
    pub(super) fn count(&self) -> u64 {
        (self.slots.len() - self.free.len()) as u64
    }

    /// The number of messages that have been delivered and not yet taken.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }
}
