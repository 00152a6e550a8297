//! Transports of one-way messages in a network interface's hardware, behind [`Transport`]: reliable
//! ones, which are [programs](program) of rules, such as NDP and Homa, and unreliable
//! [`Datagrams`].
//!
//! A message enters a *send buffer*, is split into packets there, and stays until the receiver has
//! acknowledged all of it. The receiver reassembles it in a *receive buffer*, which is allocated
//! when the first packet arrives, and freed when the application has taken the message. If no
//! buffer is free, the packet is dropped silently, as in nanoPU's prototype, and the sender repeats
//! it after a timeout.
//!
//! No message is delivered twice: see [`peers`].

mod bits;
mod buffers;
mod datagrams;
mod peers;
pub mod program;
#[cfg(test)]
mod tests;

pub use datagrams::Datagrams;

use crate::packet::{HEADER_BYTES, Message, Packet, Transport};
use crate::rack::LineRate;
use bits::Bits;
use fabric::Time;
use peers::MAX_SLOTS;
use program::{ProgramSource, ProgramSpec, Programmed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, Under, require};
use std::sync::Arc;

/// The largest `largest_message_bytes`.
pub(crate) const MAX_MESSAGE_BYTES: u32 = 4 << 20;
/// The maximum number of buffers in each direction, below the number of slots.
const MAX_BUFFERS: u16 = 65_000;
const _: () = assert!(MAX_BUFFERS < MAX_SLOTS);

/// Match-action stages that nanoPU's `ingress_cycles` include: "four stages" in the prototype, as
/// many as its NDP needs.
pub const STAGES_IN: u32 = 4;
/// Match-action stages that nanoPU's `egress_cycles` include.
pub const STAGES_OUT: u32 = 2;
/// A packet time for checks: neither the validity of a program nor its number of stages depends on
/// the rate of the link.
const UNIT: Time = Time::from_fs(1);

/// A transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// NDP (Handley et al., SIGCOMM 2017): receivers pull packets at the rate of their link, and
    /// switches cut off the payload of what they have no room for. nanoPU's prototype has it.
    #[default]
    Ndp,
    /// Homa (Montazeri et al., SIGCOMM 2018): receivers grant bytes to the messages that have
    /// fewest left, at priorities that they choose.
    Homa,
    /// None: a message is one packet, which is sent once. For hosts that talk to a server whose
    /// network interface has no transport, as nanoPU's traditional one (Section 5.1).
    Datagrams,
}

/// The transport of a host.
///
/// Defaults: nanoPU's prototype, where it has them (the constants of its `LNIC.scala`, and Section
/// 3.2 of the paper).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TransportSpec {
    /// The protocol.
    pub protocol: Protocol,
    /// The maximum number of bytes of a message in a packet: 1024 in the prototype.
    #[schemars(range(min = 64, max = 9000))]
    pub packet_bytes: u32,
    /// Bytes of the largest message, which is also the size of a buffer: "2KB (two packets)"
    /// (Section 3.2); the prototype was tried with messages of up to 38 packets.
    #[schemars(range(min = 8, max = MAX_MESSAGE_BYTES))]
    pub largest_message_bytes: u32,
    /// The number of packets of a message that are sent before any packet from the receiver: those
    /// of a round trip. 2 in the prototype's experiments.
    #[schemars(range(min = 1, max = 65535))]
    pub rtt_packets: u32,
    /// Messages that can be outstanding from the host: the prototype has 64 buffers of one
    /// packet and 64 of two, so 128 for messages of one packet.
    #[schemars(range(min = 1, max = MAX_BUFFERS))]
    pub send_buffers: u32,
    /// Messages that can be in reassembly or wait to be taken: as many in the prototype.
    #[schemars(range(min = 1, max = MAX_BUFFERS))]
    pub receive_buffers: u32,
    /// Nanoseconds without a packet from the other side until missing packets are sent, or
    /// requested, again: 30,000 cycles at 3.2 GHz, the prototype's default before it became a
    /// parameter of each experiment.
    #[schemars(range(min = 1.0, max = 1e9))]
    pub timeout_ns: f64,
    /// The number of consecutive timeouts after which a message is given up. The prototype never
    /// gives up; 1000 are 9 ms, in which a host that lives answers.
    #[schemars(range(min = 1, max = 1000000))]
    pub max_timeouts: u32,
    /// Whether packets that a switch has trimmed are answered and sent again. If not, they are
    /// dropped, and only timeouts tell that they are missing ("when NDP is disabled", Section
    /// 5.2.3).
    pub answer_trimmed: bool,
    /// Parameters of Homa.
    pub homa: HomaSpec,
    /// A protocol of your own, in place of `protocol`: the path of a TOML file, or what is in one.
    pub program: Option<ProgramSource>,
}

/// Homa's parameters.
///
/// Defaults: nanoPU's prototype.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HomaSpec {
    /// Priorities in switches: 4 in the prototype, 8 in Homa's paper.
    #[schemars(range(min = 2, max = 8))]
    pub priorities: u8,
    /// Sizes of messages, in bytes and in ascending order, at which the priority of unscheduled
    /// packets changes: messages of up to the first size get 0, those of up to the second size 1,
    /// and so on. The scheduled packets have the rest. None in the prototype, where all have 0.
    /// Homa's receivers choose them by the sizes that they see; here they are given.
    #[schemars(inner(range(min = 1, max = MAX_MESSAGE_BYTES)))]
    pub unscheduled_up_to_bytes: Vec<u32>,
    /// The number of messages to which a receiver grants bytes concurrently: 3 in the prototype; in
    /// Homa's paper as many as there are scheduled priorities.
    #[schemars(range(min = 1, max = 65000))]
    pub overcommitment: u32,
}

impl Default for HomaSpec {
    fn default() -> HomaSpec {
        HomaSpec {
            priorities: 4,
            unscheduled_up_to_bytes: Vec::new(),
            overcommitment: 3,
        }
    }
}

impl Default for TransportSpec {
    fn default() -> TransportSpec {
        TransportSpec {
            protocol: Protocol::default(),
            packet_bytes: 1024,
            largest_message_bytes: 2048,
            rtt_packets: 2,
            send_buffers: 128,
            receive_buffers: 128,
            timeout_ns: 9375.0,
            max_timeouts: 1000,
            answer_trimmed: true,
            homa: HomaSpec::default(),
            program: None,
        }
    }
}

impl TransportSpec {
    /// Checks the description.
    pub fn check(&self) -> Result<(), SpecError> {
        spec::check(self)?;
        require(
            self.packets(self.largest_message_bytes) <= 1 << 16,
            "largest_message_bytes",
            self.largest_message_bytes,
            "it must be at most 65536 times packet_bytes",
        )?;
        let limits = &self.homa.unscheduled_up_to_bytes;
        require(
            limits.is_sorted_by(|one, next| one < next),
            "homa.unscheduled_up_to_bytes",
            format!("{limits:?}"),
            "each size must be larger than the one before",
        )?;
        require(
            limits.len() + 2 <= usize::from(self.homa.priorities),
            "homa.unscheduled_up_to_bytes",
            format!("{limits:?}"),
            "there must be at least two sizes less than homa.priorities, so that scheduled packets \
             have a priority, too",
        )?;
        match &self.program {
            None => Ok(()),
            Some(ProgramSource::Path(path)) => {
                let accepted = "the contents of the file must take the place of its path";
                Err(SpecError::new("program", format!("{path:?}"), accepted))
            }
            Some(ProgramSource::Program(program)) => {
                require(
                    self.protocol != Protocol::Datagrams,
                    "protocol",
                    "\"datagrams\"",
                    "a program takes the place of a protocol; leave it out",
                )?;
                let compiled = program::compile(program, self, UNIT);
                compiled.map(drop).under("program")
            }
        }
    }

    /// The transport of the host with this address, whose link has this rate. The description must
    /// have passed [`TransportSpec::check`].
    pub fn open(&self, address: u32, rate: LineRate) -> Box<dyn Transport> {
        let Some(program) = self.program() else {
            return Box::new(Datagrams::new(self.clone(), address));
        };
        let program = program::compile(program, self, packet_time(self.packet_bytes, rate));
        let program = Arc::new(program.expect("a program has been checked"));
        Box::new(Programmed::new(self.clone(), program, address))
    }

    /// Cycles by which the program's ingress and egress pipelines are longer than nanoPU's: one for
    /// each stage beyond [`STAGES_IN`] and [`STAGES_OUT`]. The description must have passed
    /// [`TransportSpec::check`].
    pub fn further_cycles(&self) -> (u64, u64) {
        let compiled = self
            .program()
            .map(|program| program::compile(program, self, UNIT));
        let (into, out) = match compiled {
            Some(Ok(program)) => program.packet_stages(),
            Some(Err(_)) | None => (0, 0),
        };
        let further = |stages: u32, most: u32| u64::from(stages.saturating_sub(most));
        (further(into, STAGES_IN), further(out, STAGES_OUT))
    }

    /// The program of its protocol, if it has one.
    pub fn program(&self) -> Option<&ProgramSpec> {
        match (&self.program, self.protocol) {
            (Some(ProgramSource::Program(program)), _) => Some(program),
            (Some(ProgramSource::Path(_)), _) => None,
            (None, Protocol::Ndp) => Some(program::ndp()),
            (None, Protocol::Homa) => Some(program::homa()),
            (None, Protocol::Datagrams) => None,
        }
    }

    /// The number of packets of a message; an empty one has one.
    fn packets(&self, message_bytes: u32) -> u32 {
        message_bytes.div_ceil(self.packet_bytes).max(1)
    }

    /// The byte range of a packet's payload in a message.
    fn range(&self, message_bytes: u32, packet: u32) -> std::ops::Range<usize> {
        let start = packet * self.packet_bytes;
        start as usize..(start + self.packet_bytes).min(message_bytes) as usize
    }

    /// Whether the header of a packet of data is consistent, and its message fits into a buffer.
    fn accepts(&self, packet: &Packet) -> bool {
        let header = &packet.header;
        header.message_bytes <= self.largest_message_bytes
            && u32::from(header.packet) < self.packets(header.message_bytes)
            && (header.flags & crate::packet::CHOP != 0
                || packet.payload.len()
                    == self
                        .range(header.message_bytes, u32::from(header.packet))
                        .len())
    }

    fn timeout(&self) -> Time {
        Time::from_ns(self.timeout_ns)
    }

    /// How long a receiver keeps a message of which no packet arrives: twice the longest time for
    /// which its sender repeats it, so that the sender has given it up.
    fn memory(&self) -> Time {
        // Homa's senders wait for two timeouts each time.
        let longest = 2 * (u64::from(self.max_timeouts) + 1);
        Time::from_fs(self.timeout().as_fs().saturating_mul(2 * longest))
    }

    /// The number of bytes in a set of packets of a message.
    fn bytes_of(&self, packets: &Bits, message_bytes: u32) -> u32 {
        let last = self.packets(message_bytes) - 1;
        let full = packets.count() * self.packet_bytes;
        match packets.contains(last) {
            true => full - ((last + 1) * self.packet_bytes - message_bytes),
            false => full,
        }
    }

    /// The error for a message that has been given up.
    fn given_up(&self, message: &Message) -> String {
        let [a, b, c, d] = message.to.address.to_be_bytes();
        format!(
            "a message of {} bytes to {a}.{b}.{c}.{d}, port {}, has been given up: its receiver \
             did not answer in {} consecutive timeouts of {} ns",
            message.payload.len(),
            message.to.port,
            self.max_timeouts + 1,
            self.timeout_ns
        )
    }

    /// The error for a message of this size, if it is too large.
    fn too_large(&self, bytes: usize) -> Option<String> {
        (bytes > self.largest_message_bytes as usize).then(|| {
            format!(
                "a message of {bytes} bytes is too large for the transport: largest_message_bytes \
                 is {}",
                self.largest_message_bytes
            )
        })
    }
}

/// The time that a full packet takes on a link.
fn packet_time(packet_bytes: u32, rate: LineRate) -> Time {
    rate.duration(HEADER_BYTES + u64::from(packet_bytes))
}
