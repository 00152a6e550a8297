//! The description of CARGO's hardware.

use crate::Storage;
use crate::convention::REGISTERS;
use crate::identification::Sizes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, require};

/// A limit far beyond realistic sizes.
const MAX_ENTRIES: usize = 1 << 16;

/// The firmware's list is one word: a byte for the number of regions, and one for each.
const MAX_REGIONS: usize = 7;

energy::costs! {
    /// The energy of the structures beside each core, from McPAT's numbers in `server.energy`.
    /// Tables of instructions and of values are its data cache at their sizes, as the tables of
    /// prefetchers are; tables of registers are files of 32 registers of 64 bits with the ports of
    /// a core of width 1.
    CriticalRegionEnergySpec {
        /// An access to the context instruction cache: 256 entries of 16 bytes as the prefetcher
        /// `stride` has, 9.08 pJ, with 16 ways instead of 4.
        instruction_cache_pj = 12.6,
        /// Leakage of the context instruction cache.
        instruction_cache_static_mw = 33.8,
        /// An access to the table of IN values, 714 bytes.
        in_value_pj = 3.81,
        /// Leakage of the table of IN values.
        in_value_static_mw = 14.4,
        /// An access to the table of GEN values, 1601 bytes.
        gen_value_pj = 5.69,
        /// Leakage of the table of GEN values.
        gen_value_static_mw = 19.3,
        /// A read of a register's entry: of the register-to-PC map, the checkpoint or the return
        /// stack.
        register_read_pj = 1.89,
        /// A write of a register's entry, also of the register states.
        register_write_pj = 2.67,
        /// Leakage of each 256 bytes of these: 32 registers of 64 bits.
        registers_static_mw = 1.30,
    }
}

/// The energy of an access to McPAT's data cache, and its leakage, with 8 KB, relative to those
/// with 32 KB (`crates/energy/src/sizes.rs`). Below 8 KB they are powers of the size.
const OF_8_KB: (f64, f64) = (0.403, 0.602);
const OF_16_KB: (f64, f64) = (0.569, 0.773);

/// The relative energy of an access and the relative leakage of a table `times` as large.
fn table(times: f64) -> (f64, f64) {
    // The host's own logarithm may differ in the last bit from another host's.
    let power = |small: f64, large: f64| libm::pow(times, libm::log2(large / small));
    (power(OF_8_KB.0, OF_16_KB.0), power(OF_8_KB.1, OF_16_KB.1))
}

impl CriticalRegionEnergySpec {
    /// The costs of structures with these sizes. They do not depend on the ways: the look-up of the
    /// context instruction cache compares the default number of ways.
    pub(crate) fn of_sizes(self, sizes: Sizes) -> CriticalRegionEnergySpec {
        let (usual, of) = (Storage::of(Sizes::default(), 1), Storage::of(sizes, 1));
        let bytes = |of: usize, usual: usize| table(of as f64 / usual as f64);
        let (access, leakage) = bytes(of.instruction_cache_bytes, usual.instruction_cache_bytes);
        let in_values = bytes(of.in_value_bytes, usual.in_value_bytes);
        let gen_values = bytes(of.gen_value_bytes, usual.gen_value_bytes);
        CriticalRegionEnergySpec {
            instruction_cache_pj: self.instruction_cache_pj * access,
            instruction_cache_static_mw: self.instruction_cache_static_mw * leakage,
            in_value_pj: self.in_value_pj * in_values.0,
            in_value_static_mw: self.in_value_static_mw * in_values.1,
            gen_value_pj: self.gen_value_pj * gen_values.0,
            gen_value_static_mw: self.gen_value_static_mw * gen_values.1,
            ..self
        }
    }
}

/// CARGO's identification of critical regions, beside each core.
///
/// Defaults: "CARGO: Context Augmented Critical Region Offload for Network-bound datacenter
/// Workloads", Sections 4.1, 4.2 and 6.4.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CriticalRegionSpec {
    /// Entries of the context instruction cache, a power of two (256 in Section 4.1).
    #[schemars(range(min = 2, max = MAX_ENTRIES))]
    pub instructions: usize,
    /// Its ways, a power of two (16 in Section 4.1). Two at least: an instruction makes room for
    /// its predecessors, but never for itself.
    #[schemars(range(min = 2, max = MAX_ENTRIES))]
    pub ways: usize,
    /// Rows of the table of IN values (48 in Section 6.4). Each of the 32 registers has a row, and
    /// the others serve whichever register has a second value; x86-64 has 16 registers, which
    /// leaves twice as many.
    #[schemars(range(min = REGISTERS, max = MAX_ENTRIES))]
    pub in_values: usize,
    /// Rows of the table of GEN values (132 in Section 6.4).
    #[schemars(range(min = 1, max = MAX_ENTRIES))]
    pub gen_values: usize,
    /// Loads that miss the second-level cache, after which an epoch ends (4096: 4K in Section 4.2).
    #[schemars(range(min = 1, max = 1_000_000_000_u64))]
    pub epoch_misses: u64,
    /// The energy of accesses, and the leakage.
    pub energy: CriticalRegionEnergySpec,
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
    #[schemars(range(min = 1, max = MAX_REGIONS))]
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
            energy: CriticalRegionEnergySpec::default(),
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

    /// Checks the description. Keys are relative to it.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `crates/energy/src/sizes.rs` has these factors for registers, and docs/energy.md the costs
    /// of the prefetchers' tables.
    #[test]
    fn defaults_follow_from_mcpat() {
        let costs = CriticalRegionEnergySpec::default();
        let storage = Storage::of(Sizes::default(), 1);
        let near = |value: f64, expected: f64| {
            assert!((value - expected).abs() < 0.005 * expected, "{expected}");
        };
        // The prefetcher `stride` has 4096 bytes.
        let table = |bytes: usize| {
            let (access, leakage) = table(bytes as f64 / 4096.0);
            (9.08 * access, 27.1 * leakage)
        };
        // 16 ways instead of 4.
        assert_eq!(storage.instruction_cache_bytes, 4096);
        near(costs.instruction_cache_pj, 9.08 * 1.385);
        near(costs.instruction_cache_static_mw, 27.1 * 1.246);
        let (access, leakage) = table(storage.in_value_bytes);
        near(costs.in_value_pj, access);
        near(costs.in_value_static_mw, leakage);
        let (access, leakage) = table(storage.gen_value_bytes);
        near(costs.gen_value_pj, access);
        near(costs.gen_value_static_mw, leakage);
        // From 64 registers to 32 is one halving.
        let halved = |smaller: f64, larger: f64| smaller * smaller / larger;
        let file = 0.243 * halved(0.453, 0.525);
        near(costs.register_read_pj, 19.9 * file);
        near(costs.register_write_pj, 28.1 * file);
        near(
            costs.registers_static_mw,
            25.6 * 0.157 * halved(0.417, 0.536),
        );
    }

    /// Each cost is a power of its structure's bytes: half of the cache's 32 KB cost 0.569 and leak
    /// 0.773, a quarter 0.403 and 0.602, so that a ratio `r` has the factors `r^0.49765` and
    /// `r^0.36070`. Tables of registers keep their size.
    #[test]
    fn each_cost_follows_its_structure() {
        let usual = CriticalRegionEnergySpec::default();
        assert_eq!(usual.of_sizes(Sizes::default()), usual);
        let cache = ["instruction_cache_pj", "instruction_cache_static_mw"];
        let in_values = ["in_value_pj", "in_value_static_mw"];
        let gen_values = ["gen_value_pj", "gen_value_static_mw"];
        let rows = [
            (
                // 128 entries of 126 bits instead of 256 of 128: predecessors have 8 bits, not 9.
                Sizes {
                    instructions: 128,
                    ..Sizes::default()
                },
                vec![(cache, 0.70273, 0.77437)],
            ),
            (
                // The ways cost nothing.
                Sizes {
                    ways: 2,
                    ..Sizes::default()
                },
                vec![],
            ),
            (
                // 96 rows of 120 bits, 1440 bytes, instead of 714.
                Sizes {
                    in_values: 96,
                    ..Sizes::default()
                },
                vec![(in_values, 1.41780, 1.28793)],
            ),
            (
                // 264 rows of 97 bits, 3201 bytes, instead of 1601. Two numbers of rows in each IN
                // value have 9 bits instead of 8: 726 bytes instead of 714.
                Sizes {
                    gen_values: 264,
                    ..Sizes::default()
                },
                vec![
                    (in_values, 1.00833, 1.00603),
                    (gen_values, 1.41169, 1.28391),
                ],
            ),
        ];
        let numbers = |costs: CriticalRegionEnergySpec| {
            let serde_json::Value::Object(numbers) = serde_json::to_value(costs).unwrap() else {
                panic!("a description is an object");
            };
            let numbers = numbers.into_iter();
            numbers.map(|(name, number)| (name, number.as_f64().unwrap()))
        };
        for (sizes, factors) in rows {
            for ((name, usual), (_, found)) in numbers(usual).zip(numbers(usual.of_sizes(sizes))) {
                let mut factors = factors
                    .iter()
                    .flat_map(|&([pj, static_mw], access, leakage)| {
                        [(pj, access), (static_mw, leakage)]
                    });
                let factor = factors
                    .find(|(one, _)| *one == name)
                    .map_or(1.0, |one| one.1);
                let error = found / usual / factor - 1.0;
                assert!(error.abs() < 1e-5, "{name} of {sizes:?}: {found}");
            }
        }
    }
}
