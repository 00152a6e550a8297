//! Records of messages in the network, for timelines. No simulated component depends on them.

use super::NodeId;
use crate::packet::{ACK, BUSY, DATA, Message, NACK, PULL, Packet};
use fabric::Time;

/// The identity of a message: its sender, its receiver, and the tag that its sender gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageName {
    /// Address of the sender.
    pub from: u32,
    /// Address of the receiver.
    pub to: u32,
    /// Distinguishes messages of the same sender and receiver, if the sender chooses distinct tags.
    pub tag: u64,
}

impl From<&Message> for MessageName {
    fn from(message: &Message) -> MessageName {
        MessageName {
            from: message.from.address,
            to: message.to.address,
            tag: message.tag,
        }
    }
}

/// An event of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// One of its packets is put on a link.
    OnLink {
        /// The packet's number in the message.
        packet: u16,
        /// A switch has cut off its payload.
        is_trimmed: bool,
        /// It does not arrive.
        is_lost: bool,
        /// The node that sends it.
        from: NodeId,
        /// The end of the link.
        to: NodeId,
        /// When its first bit enters the link.
        enters: Time,
        /// When it arrives: its first bit at a cut-through switch, otherwise its last bit.
        arrives: Time,
    },
    /// A switch drops one of its packets.
    Dropped {
        /// The packet's number in the message.
        packet: u16,
        /// The switch.
        by: NodeId,
        /// When.
        at: Time,
    },
    /// A network interface has given it to a core.
    Given {
        /// The core.
        core: usize,
        /// When the core has it.
        at: Time,
    },
    /// A core has given it to a network interface.
    Sent {
        /// The core.
        core: usize,
        /// When the interface has it.
        at: Time,
    },
    /// It answers a request of a client.
    Answers {
        /// The request.
        request: MessageName,
        /// When it was made.
        made_at: Time,
        /// When the client has the answer.
        done_at: Time,
    },
}

/// A step of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which message.
    pub message: MessageName,
    /// What happens to it.
    pub step: Step,
}

/// Records, if they are kept.
#[derive(Debug, Default)]
pub struct Records(Option<Vec<Record>>);

impl Records {
    /// Keeps records from now on.
    pub fn keep(&mut self) {
        self.0.get_or_insert_default();
    }

    /// Records a step of a message.
    #[inline]
    pub fn note(&mut self, message: impl Into<MessageName>, step: impl FnOnce() -> Step) {
        if let Some(records) = &mut self.0 {
            let message = message.into();
            let step = step();
            records.push(Record { message, step });
        }
    }

    /// Records a step of a packet, unless it only carries control information about another
    /// message.
    #[inline]
    pub(super) fn note_packet(&mut self, packet: &Packet, step: impl FnOnce() -> Step) {
        let flags = packet.header.flags;
        if self.0.is_some() && (flags & DATA != 0 || flags & (ACK | NACK | PULL | BUSY) == 0) {
            let message = MessageName {
                from: packet.from.address,
                to: packet.to.address,
                tag: packet.tag,
            };
            self.note(message, step);
        }
    }

    /// Moves the records to the end of `records`.
    pub fn take(&mut self, records: &mut Vec<Record>) {
        if let Some(kept) = &mut self.0 {
            records.append(kept);
        }
    }
}
