//! The systems that a server can have: a line for each.

use crate::notify::SOFTWARE;
use energy::EnergySpec;
use fabric::FabricSpec;
use pipeline::CoreSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use system::{Interface, Kind, Mechanism, System};

fn one_thread() -> usize {
    1
}

/// Declares the description of a server with a table for each system.
macro_rules! systems {
    ($($(#[$help:meta])* $key:ident: $spec:ty = $kind:expr,)*) => {
        /// A server.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct ServerSpec {
            /// Cores that run the data plane; the others are idle.
            #[schemars(range(min = 1, max = 32))]
            pub data_plane_cores: usize,
            /// Hardware threads of each data plane core that run the data plane, its first ones;
            /// the others are idle. More than one need all cores for the data plane
            /// (`data_plane_cores` is `fabric.cores`).
            #[serde(default = "one_thread")]
            #[schemars(range(min = 1, max = 8))]
            pub data_plane_threads: usize,
            /// Main memory in mebibytes. Only what is used costs memory of the host.
            #[schemars(range(min = 16, max = 16384))]
            pub memory_mib: u64,
            /// All cores are alike.
            pub core: CoreSpec,
            /// Caches, mesh and memory that the cores share; also their number and clock.
            pub fabric: FabricSpec,
            $(
                $(#[$help])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $key: Option<$spec>,
            )*
            /// The energy of events and the leakage of components. It changes no other result.
            #[serde(default)]
            pub energy: EnergySpec,
        }

        /// The kinds of all systems, in the order of their tables.
        pub static SYSTEMS: &[Kind] = &[$($kind),*];

        impl ServerSpec {
            /// A server with no system.
            pub fn bare(
                fabric: FabricSpec,
                core: CoreSpec,
                data_plane_cores: usize,
                memory_mib: u64,
            ) -> ServerSpec {
                ServerSpec {
                    data_plane_cores,
                    data_plane_threads: one_thread(),
                    memory_mib,
                    core,
                    fabric,
                    $($key: None,)*
                    energy: EnergySpec::default(),
                }
            }

            /// The system with this key, as described, otherwise with its defaults.
            pub(crate) fn system(&self, key: &str) -> Option<Box<dyn System>> {
                $(if key == stringify!($key) {
                    return Some(Box::new(self.$key.clone().unwrap_or_default()));
                })*
                None
            }

            /// Whether the system with this key is described.
            pub(crate) fn describes(&self, key: &str) -> bool {
                $((key == stringify!($key) && self.$key.is_some()))||*
            }
        }
    };
}

systems! {
    /// HyperPlane's hardware.
    hyperplane: hyperplane::HyperPlaneSpec = hyperplane::KIND,
    /// RPCValet's network interface, for data planes that take messages from it.
    rpcvalet: rpcvalet::RpcValetSpec = rpcvalet::KIND,
    /// User-level interrupts.
    user_interrupts: user_interrupts::UserInterruptSpec = user_interrupts::KIND,
    /// nanoPU's network interface and the registers of its cores.
    nanopu: nanopu::NanoPuSpec = nanopu::KIND,
    /// CARGO's identification of critical regions.
    critical_region: critical_region::CriticalRegionSpec = critical_region::KIND,
    /// Memory controllers that execute chains of dependent loads.
    enhanced_memory_controller: enhanced_memory::EnhancedMemorySpec = enhanced_memory::KIND,
    /// Counts of accesses and lines of load instructions.
    load_sites: load_sites::LoadSitesSpec = load_sites::KIND,
    /// The network interface of kind `ice-nic`.
    ice_nic: pcie::IceNicSpec = pcie::ICE_NIC,
    /// The network interface of kind `dma-nic`.
    dma_nic: pcie::DmaNicSpec = pcie::DMA_NIC,
    /// The network interface of kind `cqe-nic`.
    cqe_nic: pcie::CqeNicSpec = pcie::CQE_NIC,
}

/// Every value of `data_plane.notify`, with the system that it needs.
pub(crate) fn mechanisms() -> impl Iterator<Item = (&'static Mechanism, Option<&'static Kind>)> {
    let of_systems = SYSTEMS.iter().flat_map(|kind| {
        let mechanisms = kind.mechanisms.iter();
        mechanisms.map(move |mechanism| (mechanism, Some(kind)))
    });
    SOFTWARE.iter().map(|one| (one, None)).chain(of_systems)
}

/// The systems that are network interfaces.
pub(crate) fn interfaces() -> impl Iterator<Item = (&'static Kind, Interface)> {
    let systems = SYSTEMS.iter();
    systems.filter_map(|kind| Some((kind, kind.interface?)))
}
