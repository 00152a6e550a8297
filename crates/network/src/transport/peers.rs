//! The hosts that a host exchanges messages with, and the numbers of the messages.
//!
//! A sender numbers its messages to each other host from 0, in 16 bits, and never has more than
//! [`WINDOW`] of them outstanding: the next one waits until the oldest has been acknowledged or
//! given up. A receiver that has seen a number therefore knows that all messages a window or more
//! before it have ended, and remembers only one window. That makes retransmissions harmless,
//! however late they arrive.
//!
//! Numbers are compared modulo 2^16. A packet is mistaken for one of another message only if it is
//! in flight while its sender sends 2^15 - 256 other messages to the same receiver, and has them
//! acknowledged. With the smallest packets, 64 bytes, that takes at least 83 us at 200 Gb/s; the
//! buffer of a switch's port drains in a few.

/// The maximum number of outstanding messages from one host to another. A power of two.
pub(super) const WINDOW: u16 = 256;
/// A window's entry without a message.
const NONE: u16 = u16::MAX;
/// A window's entry whose message has been delivered.
const COMPLETE: u16 = u16::MAX - 1;
/// Slot numbers are below this.
pub(super) const MAX_SLOTS: u16 = COMPLETE;

/// A receiver's record of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing.
    New,
    /// It is in reassembly in this slot.
    At(u16),
    /// It has been delivered, or is more than a window old.
    Over,
}

#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Peer {
    /// The number of the next message to it.
    next: u16,
    /// All messages before this number have been acknowledged or given up.
    oldest: u16,
    /// The slots of the messages to it, by number modulo the window.
    sending: Vec<u16>,
    /// The highest number of a message from it so far.
    newest: u16,
    /// The slots of the messages from it, by number modulo the window.
    receiving: Vec<u16>,
}

/// All hosts that messages have been exchanged with, in the order of their first message.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
pub(super) struct Peers {
    peers: Vec<Peer>,
    /// Addresses and indices in `peers`, sorted by address.
    directory: Vec<(u32, u32)>,
}

fn place(number: u16) -> usize {
    usize::from(number % WINDOW)
}

impl Peers {
    /// The index of the host with an address.
    pub(super) fn find(&self, address: u32) -> Option<u32> {
        let found = self
            .directory
            .binary_search_by_key(&address, |&(address, _)| address);
        found.ok().map(|index| self.directory[index].1)
    }

    /// The index of the host with an address, which is added if it is new.
    pub(super) fn find_or_add(&mut self, address: u32) -> u32 {
        let index = match self
            .directory
            .binary_search_by_key(&address, |&(address, _)| address)
        {
            Ok(index) => return self.directory[index].1,
            Err(index) => index,
        };
        let peer = self.peers.len() as u32;
        self.directory.insert(index, (address, peer));
        self.peers.push(Peer {
            next: 0,
            oldest: 0,
            sending: vec![NONE; WINDOW as usize],
            newest: u16::MAX,
            receiving: vec![NONE; WINDOW as usize],
        });
        peer
    }

    /// Whether the window has room for another message to it.
    pub(super) fn has_room(&self, peer: u32) -> bool {
        let peer = &self.peers[peer as usize];
        peer.next.wrapping_sub(peer.oldest) < WINDOW
    }

    /// Numbers a message to it that is in a slot. There must be room.
    pub(super) fn number(&mut self, peer: u32, slot: u16) -> u16 {
        let peer = &mut self.peers[peer as usize];
        let number = peer.next;
        peer.sending[place(number)] = slot;
        peer.next = number.wrapping_add(1);
        number
    }

    /// The slot of an outstanding message to it.
    pub(super) fn sending(&self, peer: u32, number: u16) -> Option<u16> {
        let peer = &self.peers[peer as usize];
        let slot = peer.sending[place(number)];
        let under_way = peer.next.wrapping_sub(peer.oldest);
        let is_under_way = number.wrapping_sub(peer.oldest) < under_way;
        (is_under_way && slot != NONE).then_some(slot)
    }

    /// A message to it has been acknowledged or given up.
    pub(super) fn sent(&mut self, peer: u32, number: u16) {
        let peer = &mut self.peers[peer as usize];
        peer.sending[place(number)] = NONE;
        while peer.oldest != peer.next && peer.sending[place(peer.oldest)] == NONE {
            peer.oldest = peer.oldest.wrapping_add(1);
        }
    }

    /// Looks up a message from it. Adds to `given_up` the slots of messages that it must have given
    /// up, because they are a window or more before this one.
    pub(super) fn look_up(&mut self, peer: u32, number: u16, given_up: &mut Vec<u16>) -> Seen {
        let peer = &mut self.peers[peer as usize];
        let ahead = number.wrapping_sub(peer.newest);
        if ahead < 1 << 15 {
            for step in 1..=ahead.min(WINDOW) {
                let place = place(number.wrapping_sub(ahead.min(WINDOW) - step));
                let slot = std::mem::replace(&mut peer.receiving[place], NONE);
                if slot < MAX_SLOTS {
                    given_up.push(slot);
                }
            }
            peer.newest = number;
        } else if peer.newest.wrapping_sub(number) >= WINDOW {
            return Seen::Over;
        }
        match peer.receiving[place(number)] {
            NONE => Seen::New,
            COMPLETE => Seen::Over,
            slot => Seen::At(slot),
        }
    }

    /// Records that a message from it is in reassembly in a slot.
    pub(super) fn begin(&mut self, peer: u32, number: u16, slot: u16) {
        self.peers[peer as usize].receiving[place(number)] = slot;
    }

    /// Records that a message from it has been delivered.
    pub(super) fn complete(&mut self, peer: u32, number: u16) {
        self.peers[peer as usize].receiving[place(number)] = COMPLETE;
    }

    /// Removes the record of a message from it.
    pub(super) fn forget(&mut self, peer: u32, number: u16) {
        self.peers[peer as usize].receiving[place(number)] = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_a_window_is_under_way() {
        let mut peers = Peers::default();
        assert_eq!(peers.find(7), None);
        let peer = peers.find_or_add(7);
        assert_eq!((peers.find_or_add(3), peers.find(7)), (1, Some(peer)));
        // Far enough that numbers wrap.
        for _ in 0..70_000 {
            let number = peers.number(peer, 5);
            assert_eq!(peers.sending(peer, number), Some(5));
            peers.sent(peer, number);
            assert_eq!(peers.sending(peer, number), None);
        }
        let first = peers.number(peer, 0);
        for slot in 1..WINDOW {
            assert!(peers.has_room(peer));
            let number = peers.number(peer, slot);
            // The oldest one holds the window back.
            if slot > 1 {
                peers.sent(peer, number);
            }
        }
        assert!(!peers.has_room(peer));
        assert_eq!(peers.sending(peer, first), Some(0));
        peers.sent(peer, first);
        assert!(peers.has_room(peer));
        assert_eq!(peers.sending(peer, first), None);
    }

    #[test]
    fn what_is_over_is_known_for_half_of_all_numbers() {
        let mut peers = Peers::default();
        let peer = peers.find_or_add(1);
        let mut given_up = Vec::new();
        let mut look_up = |peers: &mut Peers, number: u16| {
            given_up.clear();
            (peers.look_up(peer, number, &mut given_up), given_up.clone())
        };
        // Number 2 comes before 1 and 0.
        assert_eq!(look_up(&mut peers, 2), (Seen::New, vec![]));
        peers.begin(peer, 2, 9);
        assert_eq!(look_up(&mut peers, 0), (Seen::New, vec![]));
        peers.complete(peer, 0);
        assert_eq!(look_up(&mut peers, 2), (Seen::At(9), vec![]));
        assert_eq!(look_up(&mut peers, 0), (Seen::Over, vec![]));
        // 255 is the last with which 0 is in the window; 258 the first with which 2 is not.
        assert_eq!(look_up(&mut peers, 255), (Seen::New, vec![]));
        assert_eq!(look_up(&mut peers, 0), (Seen::Over, vec![]));
        assert_eq!(look_up(&mut peers, 257), (Seen::New, vec![]));
        assert_eq!(look_up(&mut peers, 2), (Seen::At(9), vec![]));
        assert_eq!(look_up(&mut peers, 258), (Seen::New, vec![9]));
        for number in [0, 1, 2, 258u16.wrapping_sub(1 << 15).wrapping_add(1)] {
            assert_eq!(look_up(&mut peers, number), (Seen::Over, vec![]));
        }
        assert_eq!(look_up(&mut peers, 258 + (1 << 14)), (Seen::New, vec![]));
        assert_eq!(look_up(&mut peers, 258), (Seen::Over, vec![]));
    }
}
