//! The description of enhanced memory controllers.

use fabric::{CacheSpec, FabricSpec, LINE_BYTES, PerfectCache, Replacement};
use pipeline::{CoreSpec, Model};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, require};

/// Tokens have six bits for the number of an instruction.
const MAXIMUM_INSTRUCTIONS: usize = 64;

const MAXIMUM_CACHE_BYTES: u64 = 1 << 20;

energy::costs! {
    /// The energy of each enhanced memory controller, at 32 nm and 0.9 V.
    EnhancedMemoryEnergySpec {
        /// An instruction of a chain: one of a simple in-order core as in
        /// `server.dma_nic.processors.energy`, which is fetched and decoded besides.
        instruction_pj = 49.8,
        /// An access to its cache of 4 KB: McPAT's data cache at this size with 4 ways, as the
        /// table of the prefetcher `stride`.
        access_pj = 9.08,
        /// Leakage of the cache.
        cache_static_mw = 27.1,
        /// Leakage of the rest: McPAT's integer unit and registers at width 1, 99.8 and 4.1, as in
        /// `server.dma_nic.processors.energy`, twice.
        controller_static_mw = 207.8,
    }
}

/// Memory controllers that execute chains of dependent loads.
///
/// Defaults: M. Hashemi, Khubaib, E. Ebrahimi, O. Mutlu and Y. N. Patt, "Accelerating Dependent
/// Cache Misses with an Enhanced Memory Controller", ISCA 2016; CARGO, which compares with it, gives
/// no parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EnhancedMemorySpec {
    /// The maximum number of instructions of a chain (16).
    #[schemars(range(min = 1, max = MAXIMUM_INSTRUCTIONS))]
    pub chain_instructions: usize,
    /// Chains that each controller holds at a time (2).
    #[schemars(range(min = 1, max = 64))]
    pub contexts: usize,
    /// Instructions that each controller issues in a cycle (2).
    #[schemars(range(min = 1, max = 16))]
    pub width: u8,
    /// Reservation stations (8). Taken as those of each chain.
    #[schemars(range(min = 1, max = MAXIMUM_INSTRUCTIONS))]
    pub reservation_stations: usize,
    /// Bytes of each controller's cache (4096): its ways times 64 times a power of two.
    #[schemars(range(min = 64, max = MAXIMUM_CACHE_BYTES))]
    pub cache_bytes: u64,
    /// The cache's ways (4).
    #[schemars(range(min = 1, max = 64))]
    pub cache_ways: u32,
    /// Cycles of a look-up in the cache (2).
    #[schemars(range(min = 1, max = 1000))]
    pub cache_latency_cycles: u64,
    /// Outstanding misses of the cache. Chosen: as many as both chains have instructions.
    #[schemars(range(min = 1, max = 1024))]
    pub cache_misses: u32,
    /// Whether a chain is sent only if dependent loads are likely to miss the last-level cache, by
    /// the counter of three bits beside each core. Otherwise each chain with a load is.
    pub only_likely: bool,
    /// Counters of three bits for each core that predict from the program counter of a load whether
    /// it misses the last-level cache. The number is chosen.
    #[schemars(range(min = 1, max = 65536))]
    pub miss_counters: usize,
    /// The energy of instructions and accesses, and the leakage.
    pub energy: EnhancedMemoryEnergySpec,
}

impl Default for EnhancedMemorySpec {
    fn default() -> EnhancedMemorySpec {
        EnhancedMemorySpec {
            chain_instructions: 16,
            contexts: 2,
            width: 2,
            reservation_stations: 8,
            cache_bytes: 4096,
            cache_ways: 4,
            cache_latency_cycles: 2,
            cache_misses: 32,
            only_likely: true,
            miss_counters: 256,
            energy: EnhancedMemoryEnergySpec::default(),
        }
    }
}

impl EnhancedMemorySpec {
    /// The cache of each controller.
    pub fn cache(&self) -> CacheSpec {
        CacheSpec {
            size_bytes: self.cache_bytes,
            ways: self.cache_ways,
            replacement: Replacement::Lru,
            hit_latency_cycles: self.cache_latency_cycles,
            mshrs: self.cache_misses,
        }
    }

    /// Whether there can be such controllers. Keys begin at the description.
    pub(crate) fn check(&self, core: &CoreSpec, fabric: &FabricSpec) -> Result<(), SpecError> {
        let key = "server.enhanced_memory_controller";
        let set = u64::from(self.cache_ways) * LINE_BYTES as u64;
        require(
            self.cache_bytes.is_multiple_of(set) && (self.cache_bytes / set).is_power_of_two(),
            &format!("{key}.cache_bytes"),
            self.cache_bytes,
            format!("it must be a power of two times {set} (a set of cache_ways lines)"),
        )?;
        require(
            core.model == Model::OutOfOrder,
            "server.core.model",
            "in-order",
            format!("{key} takes chains out of the window of an out-of-order core"),
        )?;
        require(
            fabric.sockets == 1,
            "server.fabric.sockets",
            fabric.sockets,
            format!("{key} is for servers of one socket"),
        )?;
        require(
            fabric.perfect_cache == PerfectCache::None,
            "server.fabric.perfect_cache",
            "given",
            format!("with {key} lines must come from memory"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_that_cannot_be_are_refused() {
        let usual = EnhancedMemorySpec::default();
        let (core, fabric) = (CoreSpec::hyperplane_table1(), FabricSpec::default());
        usual.check(&core, &fabric).unwrap();
        let error = |spec: &EnhancedMemorySpec, core: &CoreSpec, fabric: &FabricSpec| {
            spec.check(core, fabric).unwrap_err().to_string()
        };
        let odd = EnhancedMemorySpec {
            cache_bytes: 4000,
            ..usual.clone()
        };
        assert_eq!(
            error(&odd, &core, &fabric),
            "server.enhanced_memory_controller.cache_bytes is 4000; it must be a power of two times \
             256 (a set of cache_ways lines)"
        );
        let in_order = error(&usual, &CoreSpec::five_stage(), &fabric);
        assert!(
            in_order.starts_with("server.core.model is in-order; "),
            "{in_order}"
        );
        let two = FabricSpec {
            sockets: 2,
            ..FabricSpec::default()
        };
        let two = error(&usual, &core, &two);
        assert!(two.starts_with("server.fabric.sockets is 2; "), "{two}");
        let perfect = FabricSpec {
            perfect_cache: PerfectCache::LastLevel,
            ..FabricSpec::default()
        };
        let perfect = error(&usual, &core, &perfect);
        assert!(
            perfect.starts_with("server.fabric.perfect_cache is given; "),
            "{perfect}"
        );
    }
}
