//! The description of the network around the server, and the cluster's setup.

use super::LINE;
use crate::context::SharedContexts;
use crate::header::{MAX_CONTEXTS, MAX_NODES};
use crate::link::LinkFaults;
use fabric::AgentId;
use queues::IoSetup;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The maximum of `segment_bytes`: with the windows of all slots, the offsets still fit into a
/// header.
const MAX_SEGMENT_BYTES: u64 = 8 << 30;

/// The network between the server and the other nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSpec {
    /// Nanoseconds from a node to the server or back, without the time on the links: 50 in
    /// Novakovic et al. (ASPLOS 2014), Table 1.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub latency_ns: f64,
    /// Gigabytes a second of the link of each backend, in each direction. Daglis et al.
    /// (ASPLOS 2019) give none; as a memory channel has (their Table 1), so that it is no
    /// bottleneck.
    #[schemars(range(min = 0.01, max = 10000.0))]
    pub link_gb_per_s: f64,
    /// Whether the packets of a message arrive in random order.
    pub shuffle: bool,
    /// Faults of the links.
    pub faults: LinkFaults,
    /// The number of nodes, from the first on, that never replenish a reply.
    #[schemars(range(max = MAX_NODES))]
    pub silent_nodes: u32,
    /// Bytes of memory, a multiple of 64, that each node registers with each of its contexts. A
    /// one-sided operation beyond them gets an error. (The memory beyond them only holds messages
    /// that go by rendezvous.)
    #[schemars(range(min = LINE, max = MAX_SEGMENT_BYTES), extend("multipleOf" = LINE))]
    pub segment_bytes: u64,
    /// The number of further contexts, after those of the messaging domains, in which all nodes
    /// take part: only for one-sided operations. There are 16 contexts at most.
    #[schemars(range(max = MAX_CONTEXTS - 1))]
    pub one_sided_contexts: u32,
    /// The fraction of messages after which their node sends another into the same slot, which is
    /// in use.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub slots_used_twice: f64,
    /// The fraction of messages after which their node sends a message that is larger than a slot.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub oversized: f64,
}

impl Default for NetworkSpec {
    fn default() -> NetworkSpec {
        NetworkSpec {
            latency_ns: 50.0,
            link_gb_per_s: 25.6,
            shuffle: false,
            faults: LinkFaults::default(),
            silent_nodes: 0,
            segment_bytes: 1 << 20,
            one_sided_contexts: 0,
            slots_used_twice: 0.0,
            oversized: 0.0,
        }
    }
}

/// The information about the server that the cluster needs.
#[derive(Clone, Debug)]
pub struct ClusterSetup {
    /// The values that the program reads from the device's registers.
    pub io: IoSetup,
    /// The messaging domains, by their contexts' numbers.
    pub domains: Vec<ClusterDomain>,
    /// The agents that take packets from the network.
    pub backends: Vec<AgentId>,
    /// The context table, with the addresses of the domains' slots.
    pub contexts: SharedContexts,
    /// The network.
    pub network: NetworkSpec,
}

/// A messaging domain, from the nodes' point of view.
#[derive(Clone, Copy, Debug)]
pub struct ClusterDomain {
    /// Its nodes.
    pub nodes: u32,
    /// Slots of each node.
    pub slots: u32,
    /// Bytes of the largest message.
    pub max_message_bytes: u32,
    /// Its share of the requests, relative to the other domains' shares.
    pub share: f64,
}
