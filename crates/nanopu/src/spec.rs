//! The description of nanoPU.

use fabric::{Clock, Time};
use network::transport::TransportSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, Under, require};
use system::PortEnergySpec;

/// The scheduler that decides when a core changes to another thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    /// The hardware thread scheduler (HTS): whenever a thread should run that does not.
    #[default]
    Hardware,
    /// The timer-interrupt driven scheduler that the paper compares with (TIS): the same choice,
    /// but made only every so often.
    Timer,
}

/// The policy that selects the core for a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoreSelection {
    /// Join-bounded-shortest-queue: to the core with the fewest messages of this context, if they
    /// are fewer than `messages_per_core`; otherwise it waits in a queue of the context.
    #[default]
    Jbsq,
    /// Receive-side scaling: to the core that a hash of the sender tells, whatever it has.
    Rss,
}

/// The order in which the fast path and the DMA path of a server send packets. A packet that has
/// begun is finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TransmitOrder {
    /// The DMA path sends only while the fast path has nothing to send: a packet of the fast path
    /// waits for one frame at most, and the DMA path for as long as it takes.
    #[default]
    FastPathFirst,
    /// A packet of each path in turn, as long as both have some: neither waits for more than one
    /// packet of the other for each of its own.
    RoundRobin,
}

/// nanoPU's network interface and the registers of its cores.
///
/// Defaults: nanoPU's prototype (OSDI 2021). The cycles of its parts are counted in its published
/// sources, for packets of one message (`l-nic/lnic`: `Ingress_NDP.scala`, `Assemble.scala`,
/// `RxQueues.scala`, `Packetize.scala`, `Arbiter.scala`, `Egress_NDP.scala`, `Utils.scala`;
/// `l-nic/rocket-chip`: `LNICQueues.scala`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NanoPuSpec {
    /// Threads of a core: contexts that can be bound to it (4, Section 3.2).
    #[schemars(range(min = 1, max = 16))]
    pub contexts_per_core: usize,
    /// Bytes of the largest message, a multiple of 8 (2 KB, Section 3.2).
    #[schemars(range(min = 8, max = 65528), extend("multipleOf" = 8))]
    pub max_message_bytes: u32,
    /// The maximum number of messages of a context at a core or on the way to it: the n of JBSQ(n),
    /// and the capacity of its receive queue (2, Section 3.3).
    #[schemars(range(min = 1, max = 64))]
    pub messages_per_core: u32,
    /// The policy that selects the core for a message.
    pub core_selection: CoreSelection,
    /// The scheduler that decides when a core changes to another thread.
    pub scheduler: SchedulerKind,
    /// Nanoseconds between two decisions of a scheduler of kind `timer` (5 µs, Section 5.2.2).
    #[schemars(range(min = 1.0, max = 1e6))]
    pub timer_interval_ns: f64,
    /// Nanoseconds in the Ethernet MAC and serial I/O, each way. A loop-back takes 69 ns with and
    /// 17 ns without (Section 5.2.1): 26 each way.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub mac_and_serial_io_ns: f64,
    /// Cycles from a packet's last bit to its last word's leaving the ingress pipeline with the
    /// transport: 1 in the queue at the link, 6 for the parser's queue, the header's register, four
    /// stages of match and action and their queue. (The header's own 512 bits are collected
    /// meanwhile: a packet of 72 bytes is through 16 cycles after its first bit.) Each further
    /// stage that the transport's program needs takes one more.
    #[schemars(range(max = 10000))]
    pub ingress_cycles: u64,
    /// Cycles from the last packet's arrival at the reassembly buffer to the whole message in the
    /// queue of its context: the states' look-up, the write, the queue of messages, and the read.
    #[schemars(range(max = 10000))]
    pub reassembly_cycles: u64,
    /// Cycles from there to the choice of a core, by a queue of notices.
    #[schemars(range(max = 10000))]
    pub core_selection_cycles: u64,
    /// Cycles from the choice of a core until `lmsgsrdy` shows the first word: the read of the
    /// context's queue, and the write of the core's, 2. Here they cannot be below the fabric's
    /// shortest way to a core, which is 3.
    #[schemars(range(max = 10000))]
    pub to_core_cycles: u64,
    /// Cycles from the last word that a core writes, or from its command, to the interface: from
    /// the result, which is known one stage before the write-back, and the core's transmit queue.
    #[schemars(range(min = 1, max = 10000))]
    pub from_core_cycles: u64,
    /// Cycles from the last word of a message at the interface to its first packet: the queue of
    /// packets to send, and the read of the packetization buffer.
    #[schemars(range(max = 10000))]
    pub packetization_cycles: u64,
    /// Cycles in the egress pipeline with the transport: the arbiter's queue and the deparser's.
    /// Each stage beyond two that the transport's program needs takes one more.
    #[schemars(range(max = 10000))]
    pub egress_cycles: u64,
    /// The order in which the fast path and the DMA path send, in a server that has a `dma_path`.
    /// The paper does not define it. By default the fast path is first: it is there for the tail of
    /// nanoRequests, whose packets are few and short.
    pub transmit_order: TransmitOrder,
    /// The transport.
    pub transport: TransportSpec,
    /// The energy of the interface's port.
    pub energy: PortEnergySpec,
}

impl Default for NanoPuSpec {
    fn default() -> NanoPuSpec {
        NanoPuSpec {
            contexts_per_core: 4,
            max_message_bytes: 2048,
            messages_per_core: 2,
            core_selection: CoreSelection::Jbsq,
            scheduler: SchedulerKind::Hardware,
            timer_interval_ns: 5000.0,
            mac_and_serial_io_ns: 26.0,
            ingress_cycles: 7,
            reassembly_cycles: 3,
            core_selection_cycles: 1,
            to_core_cycles: 3,
            from_core_cycles: 2,
            packetization_cycles: 2,
            egress_cycles: 2,
            transmit_order: TransmitOrder::default(),
            transport: TransportSpec::default(),
            energy: PortEnergySpec::default(),
        }
    }
}

impl NanoPuSpec {
    /// Whether it can be built on a fabric of this clock, where nothing reaches a core sooner than
    /// `shortest`.
    pub fn check(&self, clock: Clock, shortest: Time) -> Result<(), SpecError> {
        spec::check(self)?;
        self.transport.check().under("transport")?;
        let most = self.transport.largest_message_bytes;
        require(
            self.max_message_bytes <= most,
            "max_message_bytes",
            self.max_message_bytes,
            format!("it must be transport.largest_message_bytes, {most}, or less"),
        )?;
        let least = clock.cycle_at_or_after(shortest);
        require(
            self.to_core_cycles >= least,
            "to_core_cycles",
            self.to_core_cycles,
            format!(
                "it must be {least} or more, for nothing reaches a core of this server sooner \
                 (fabric.last_level.latency_cycles, fabric.forward_latency_cycles and its mesh)"
            ),
        )
    }
}
