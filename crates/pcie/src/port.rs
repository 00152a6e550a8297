//! The network side of a network interface: MAC, serial I/O, and the link.

use crate::iommu::IommuStatistics;
use crate::processors::ProcessorsStatistics;
use fabric::{AgentContext, Time};
use network::packet::{FrameError, Packet};
use network::rack::{LineRate, SecondPath};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::VecDeque;

/// The rate until the port is connected: that of nanoPU's links.
const UNCONNECTED_GBIT_PER_S: f64 = 200.0;

/// Counts of a network interface. Each received frame is in memory, on its way there, or counted as
/// dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State)]
pub struct NicStatistics {
    /// Frames received from the network.
    #[state(count)]
    pub frames_received: u64,
    /// Frames that are complete in memory and announced to the program.
    #[state(count)]
    pub frames_delivered: u64,
    /// Frames for which there was no room in the input buffer.
    #[state(count)]
    pub dropped_buffer_full: u64,
    /// Frames that are longer than the interface takes.
    #[state(count)]
    pub dropped_too_long: u64,
    /// Frames for whose queue there was no descriptor.
    #[state(count)]
    pub dropped_no_descriptor: u64,
    /// Frames whose descriptor could not be used.
    #[state(count)]
    pub dropped_bad_descriptor: u64,
    /// Frames sent to the network.
    #[state(count)]
    pub frames_sent: u64,
    /// Frames that cannot be sent: without memory, empty, too long, or not in this network's
    /// format.
    #[state(count)]
    pub not_sent: u64,
    /// Bytes that have passed the port, in both directions together.
    #[state(count)]
    pub link_bytes: u64,
    /// Bytes of packets that have crossed PCI Express, in both directions together.
    #[state(count)]
    pub express_bytes: u64,
    /// Counts of the IOMMU, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iommu: Option<IommuStatistics>,
    /// Counts of its cores, if it is programmable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processors: Option<ProcessorsStatistics>,
    /// The first forbidden operation of untrusted code on its cores, as a sentence; `None` if there
    /// was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_run: Option<String>,
}

/// The purposes of the port's timers: the upper 8 bits of their tokens, two values that no other
/// part of an interface may use.
pub(crate) mod purpose {
    /// The last bit of a packet has come over the link.
    pub const ARRIVED: u64 = 254 << 56;
    /// A packet has passed through the MAC.
    pub const PASSED: u64 = 255 << 56;
}

/// The port.
#[derive(state::State)]
pub(crate) struct Port {
    /// Its number, which is in the lower bits of its tokens.
    #[state(fixed)]
    number: u64,
    #[state(fixed)]
    mac_latency: Time,
    #[state(fixed)]
    address: u32,
    #[state(fixed)]
    rate: LineRate,
    /// Packets from the network, including those still in flight.
    coming: VecDeque<Packet>,
    passing: VecDeque<Packet>,
    /// Packets that the network has not yet taken, and the departure times of their first bits.
    sent: Vec<(Time, Packet)>,
    free_at: Time,
    #[state(count)]
    bytes: u64,
    /// Its way to the link if another interface of the server has that. It then has no MAC.
    #[state(fixed)]
    path: Option<SecondPath>,
}

impl Port {
    pub fn new(mac_latency_ns: f64) -> Port {
        Port {
            number: 0,
            mac_latency: Time::from_ns(mac_latency_ns),
            address: 0,
            rate: LineRate::from_gbit_per_s(UNCONNECTED_GBIT_PER_S),
            coming: VecDeque::new(),
            passing: VecDeque::new(),
            sent: Vec::new(),
            free_at: Time::ZERO,
            bytes: 0,
            path: None,
        }
    }

    /// Sends and receives over `path` from now on: see [`Interface::follow`].
    ///
    /// [`Interface::follow`]: network::rack::Interface::follow
    pub fn follow(&mut self, path: &SecondPath) {
        path.wake_second_with(purpose::ARRIVED | self.number);
        self.path = Some(path.clone());
    }

    /// The number of links that it has: 1, or 0 if another interface has its link.
    pub fn links(&self) -> u32 {
        u32::from(self.path.is_none())
    }

    /// The port with this number, of several.
    pub fn numbered(self, number: u64) -> Port {
        Port { number, ..self }
    }

    pub fn connect(&mut self, address: u32, rate: LineRate) {
        self.address = address;
        self.rate = rate;
    }

    /// Its IPv4 address.
    pub fn address(&self) -> u32 {
        self.address
    }

    /// The rate of its link.
    pub fn rate(&self) -> LineRate {
        self.rate
    }

    /// Bytes that have passed it, in both directions together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Accepts a packet from the network; returns the token of the timer for its arrival.
    pub fn receive(&mut self, packet: Packet) -> u64 {
        self.coming.push_back(packet);
        purpose::ARRIVED | self.number
    }

    /// Handles one of the port's timers; returns the packet that is now in the interface, if any.
    pub fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) -> Option<Packet> {
        if let Some(path) = &self.path {
            return path.take();
        }
        if token == purpose::PASSED | self.number {
            return self.passing.pop_front();
        }
        let packet = self.coming.pop_front()?;
        self.bytes += packet.wire_bytes();
        if self.mac_latency == Time::ZERO {
            return Some(packet);
        }
        self.passing.push_back(packet);
        context.wake(
            context.now() + self.mac_latency,
            purpose::PASSED | self.number,
        );
        None
    }

    /// Sends a complete frame, from `start` on. When its last bit leaves, the agent's timer is called
    /// with the token `left`.
    pub fn send(
        &mut self,
        context: &mut AgentContext<'_>,
        start: Time,
        frame: &[u8],
        left: u64,
    ) -> Result<(), FrameError> {
        let packet = Packet::from_bytes(frame)?;
        if let Some(path) = &self.path {
            path.offer(context, packet, start, left);
            return Ok(());
        }
        let start = self.free_at.max(start + self.mac_latency);
        self.free_at = start + self.rate.duration(packet.wire_bytes());
        self.bytes += packet.wire_bytes();
        self.sent.push((start, packet));
        context.wake(self.free_at, left);
        Ok(())
    }

    pub fn take_sent(&mut self, sent: &mut Vec<(Time, Packet)>) {
        sent.append(&mut self.sent);
    }
}
