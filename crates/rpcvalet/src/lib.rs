//! RPCValet (Daglis, Sutherland and Falsafi, ASPLOS 2019): messages on Scale-Out NUMA, dispatched to
//! cores by the network interface.
//!
//! The manycore network interface is in two parts (Figure 4). A [`Frontend`] beside each core reads
//! what the core posts to its work queue and writes what is for it into its completion queue, both
//! coherently. [`Backend`]s at the edge of the chip take packets from the network and give packets to
//! it, and read and write memory; some of them dispatch.
//!
//! A message's way through here: its packets are written into its receive slot and counted there
//! (`backend.rs`); once it is whole, its slot is put into a shared completion queue in memory, and a
//! policy says which core gets it (`dispatch/`); the core's frontend writes it into the core's own
//! completion queue (`frontend.rs`).

mod attach;
mod backend;
pub mod dispatch;
mod domain;
mod frontend;
mod gateway;
mod spec;

pub use attach::{Attached, Place, attach, attach_behind};
pub use backend::{Backend, BackendStatistics};
pub use domain::{Domain, QueuePairs, SharedDomain, footprint_bytes};
pub use frontend::Frontend;
pub use gateway::{Gateway, GatewaySpec, GatewayStatistics};
pub use spec::{DispatchSpec, Mode, PolicySpec, RpcValetSpec};

use network::ClusterStatistics;
use serde::Serialize;

/// What the network interface and the cluster have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// What the cluster has counted.
    pub cluster: ClusterStatistics,
    /// What the backends have counted, all together.
    pub backends: BackendStatistics,
    /// Bytes of the messaging domain's send and receive slots, as they are in memory.
    pub domain_bytes: u64,
    /// Bits that each part of the network interface keeps of the domain: where both buffers are, the
    /// numbers of nodes and slots, and the largest message.
    pub domain_state_bits: u32,
    /// Entries that the frontends have taken off the cores' work queues.
    pub work_queue_entries: u64,
    /// Entries that they have written into the cores' completion queues.
    pub completion_queue_entries: u64,
}
