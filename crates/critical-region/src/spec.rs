//! The description of CARGO's hardware.

use crate::convention::REGISTERS;
use crate::identification::Sizes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, require};

/// Far beyond what is built beside a core.
const MAXIMUM_ENTRIES: usize = 1 << 16;

/// The firmware's list is a word: a byte for their number, and one for each.
const MAXIMUM_REGIONS: usize = 7;

/// CARGO's identification of critical regions, beside each core.
///
/// Defaults: "CARGO: Context Augmented Critical Region Offload for Network-bound datacenter
/// Workloads", Sections 4.1, 4.2 and 6.4.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CriticalRegionSpec {
    /// Entries of the context instruction cache, a power of two (256 in Section 4.1).
    #[schemars(range(min = 2, max = MAXIMUM_ENTRIES))]
    pub instructions: usize,
    /// Its ways, a power of two (16 in Section 4.1). Two at least: an instruction makes room for
    /// its predecessors, but never for itself.
    #[schemars(range(min = 2, max = MAXIMUM_ENTRIES))]
    pub ways: usize,
    /// Rows of the table of IN values (48 in Section 6.4). Each of the 32 registers has a row, and
    /// the others serve whichever register has a second value; x86-64 has 16 registers, which
    /// leaves twice as many.
    #[schemars(range(min = REGISTERS, max = MAXIMUM_ENTRIES))]
    pub in_values: usize,
    /// Rows of the table of GEN values (132 in Section 6.4).
    #[schemars(range(min = 1, max = MAXIMUM_ENTRIES))]
    pub gen_values: usize,
    /// Loads that miss the second-level cache, after which an epoch ends (4096: 4K in Section 4.2).
    #[schemars(range(min = 1, max = 1_000_000_000_u64))]
    pub epoch_misses: u64,
    /// The execution of regions on a programmable network interface, `server.dma_nic.processors`,
    /// with the firmware `critical-regions`. Without it, regions are identified but not sent.
    pub offload: Option<OffloadSpec>,
}

/// The execution of regions on a programmable network interface (Section 4.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OffloadSpec {
    /// The maximum number of instructions of each region that the interface executes for a packet:
    /// the cost of a loop whose end depends on a wrong value. Backward branches of a region are
    /// taken as in the program (Section 4.1), and a region ends behind its last instruction. The
    /// paper has no limit; chosen.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub budget: u64,
    /// Packets for which each core keeps the values that user routines have returned, until a hart
    /// loads them. The paper does not say how a core knows; chosen.
    #[schemars(range(min = 1, max = 65536))]
    pub packets: usize,
    /// Regions of each core that the interface has at a time, of different procedures, and runs for
    /// each packet of that core. The paper's "list of offloads" (Section 4.4) has no size; chosen.
    #[schemars(range(min = 1, max = MAXIMUM_REGIONS))]
    pub regions: usize,
}

impl Default for OffloadSpec {
    fn default() -> OffloadSpec {
        OffloadSpec {
            budget: 128,
            packets: 64,
            regions: 4,
        }
    }
}

impl Default for CriticalRegionSpec {
    fn default() -> CriticalRegionSpec {
        let sizes = Sizes::default();
        CriticalRegionSpec {
            instructions: sizes.instructions,
            ways: sizes.ways,
            in_values: sizes.in_values,
            gen_values: sizes.gen_values,
            epoch_misses: sizes.epoch_misses,
            offload: None,
        }
    }
}

impl CriticalRegionSpec {
    /// The sizes of the structures.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            instructions: self.instructions,
            ways: self.ways,
            in_values: self.in_values,
            gen_values: self.gen_values,
            epoch_misses: self.epoch_misses,
        }
    }

    /// Whether there can be such a cache. Keys begin at the description.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        let key = |name: &str| format!("server.critical_region.{name}");
        require(
            self.instructions.is_power_of_two(),
            &key("instructions"),
            self.instructions,
            "it must be a power of two",
        )?;
        require(
            self.ways.is_power_of_two() && self.ways <= self.instructions,
            &key("ways"),
            self.ways,
            format!(
                "it must be a power of two, and {} (instructions) or less",
                self.instructions
            ),
        )
    }
}
