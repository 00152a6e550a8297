//! RPCValet (Daglis, Sutherland and Falsafi, ASPLOS 2019): messages on Scale-Out NUMA, dispatched
//! to cores by the network interface.
//!
//! The manycore network interface has two parts (Figure 4). A [`Frontend`] beside each core reads
//! the core's posts from its work queue and writes completions into its completion queue, both
//! coherently. [`Backend`]s at the edge of the chip receive packets from the network and send
//! packets to it, and read and write memory; some of them dispatch.
//!
//! The path of a message: its packets are written into its receive slot and counted there
//! (`backend/`); once it is complete, its slot is put into a shared completion queue in memory, and
//! a policy chooses a core for it (`dispatch/`); the core's frontend writes it into the core's own
//! completion queue (`frontend.rs`).
//!
//! Every operation belongs to a *context*, a global address space in which each node has a segment
//! (`context.rs`). A context may have a messaging domain (`domain.rs`), with slots, shared queues
//! and cores of its own.

mod attach;
mod backend;
mod cluster;
mod context;
pub mod dispatch;
mod domain;
mod frontend;
mod gateway;
pub mod header;
mod link;
mod spec;
mod system;

pub use crate::spec::{DispatchSpec, DomainPlan, DomainSpec, Mode, PolicySpec, RpcValetSpec};
pub use crate::system::{KIND, MEMORY_MAP, QUEUE_PAIRS, SONUMA_REGISTERS};
pub use attach::{Attached, Place, attach, attach_behind};
pub use backend::{Backend, BackendStatistics};
pub use cluster::{Cluster, ClusterDomain, ClusterSetup, ClusterStatistics, NetworkSpec};
pub use context::{Context, ContextTable, MAX_SEGMENT_BYTES, Registered, Segment, SharedContexts};
pub use domain::{Domain, QueuePairs, footprint_bytes};
pub use frontend::Frontend;
pub use gateway::{Gateway, GatewaySpec, GatewayStatistics};
pub use link::{LinkFaultCounts, LinkFaults};

use queues::{Ledger, QueueCounts};
use schemars::JsonSchema;
use serde::Serialize;
use workload::KindMeasurement;

/// Offsets of the registers in a context's block, by their names in `guest/include/sonuma.h`.
pub const REGISTERS: &[(&str, u64)] = backend::registers::register::ALL;
/// Bytes of a context's block.
pub const REGISTERS_BYTES: u64 = backend::registers::BLOCK_BYTES;

/// Counts of the network interface and the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "RpcValetStatistics")]
pub struct Statistics {
    /// Counts of the cluster.
    pub cluster: ClusterStatistics,
    /// Counts of all backends together.
    pub backends: BackendStatistics,
    /// Bytes of the messaging domains' send and receive slots, as they are in memory.
    pub domain_bytes: u64,
    /// Bits of a domain's state in each part of the network interface: the addresses of both
    /// buffers, the numbers of nodes and slots, and the largest message.
    pub domain_state_bits: u32,
    /// Entries taken by the frontends from the cores' work queues.
    pub work_queue_entries: u64,
    /// Entries written by the frontends into the cores' completion queues.
    pub completion_queue_entries: u64,
    /// The results of each messaging domain.
    pub domains: Vec<DomainStatistics>,
}

/// A messaging domain's part of the results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct DomainStatistics {
    /// The number of the domain's context.
    pub context: usize,
    /// Nodes of the domain.
    pub nodes: u32,
    /// Slots of each node.
    pub slots: u32,
    /// Bytes of the largest message.
    pub max_message_bytes: u32,
    /// The first core of the domain.
    pub first_core: usize,
    /// The number of the domain's cores.
    pub cores: usize,
    /// Bytes of the domain's send and receive slots, as they are in memory.
    pub bytes: u64,
    /// Requests of the domain's nodes.
    pub generated: u64,
    /// Requests dropped because too many were waiting at their node.
    pub dropped: u64,
    /// Requests that have been served.
    pub delivered: u64,
    /// Throughput, latencies and service times of the domain's measured requests; `None` without
    /// any.
    pub measured: Option<KindMeasurement>,
}

impl DomainStatistics {
    fn of(context: usize, domain: &Domain, ledger: &Ledger) -> DomainStatistics {
        let queues = domain.first_node..domain.first_node + domain.nodes;
        let counts = ledger.queue_counts().iter();
        let counts = counts.skip(queues.start as usize).take(queues.len());
        let sum = |of: fn(&QueueCounts) -> u64| counts.clone().map(of).sum();
        DomainStatistics {
            context,
            nodes: domain.nodes,
            slots: domain.slots,
            max_message_bytes: domain.max_message_bytes,
            first_core: domain.cores.start,
            cores: domain.cores.len(),
            bytes: domain.bytes(),
            generated: sum(|queue| queue.generated),
            dropped: sum(|queue| queue.dropped),
            delivered: sum(|queue| queue.delivered),
            measured: ledger.recorder().of_queues(queues),
        }
    }
}
