//! The description of an interface's cores.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, require};

/// Cores of a network interface, which run firmware between its port and its receive rings.
///
/// Defaults: Table 5 and Section 5 of the text of CARGO, after "An Efficient Programmable 10 Gigabit
/// Ethernet Network Interface Card" (Willmann et al., HPCA 2005). Numbers that neither gives were
/// chosen, and are marked as such.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessorsSpec {
    /// The firmware: a built-in one by its name, or the path of a `.c` or `.elf` file.
    pub firmware: String,
    /// Cores, in order and with one instruction a cycle: 6 (Table 5).
    #[schemars(range(min = 1, max = 32))]
    pub cores: u32,
    /// Clock of cores, crossbar and scratchpad in megahertz (Table 5).
    #[schemars(range(min = 1.0, max = 10000.0))]
    pub clock_mhz: f64,
    /// Bytes of each core's instruction cache: 8 KB (Section 5). Lines have 32 bytes, which is
    /// chosen, and are filled from the scratchpad.
    #[schemars(range(min = 64, max = 1 << 20))]
    pub instruction_cache_bytes: u32,
    /// Ways of it (Section 5).
    #[schemars(range(min = 1, max = 16))]
    pub instruction_cache_ways: u32,
    /// Bytes of the scratchpad: 256 KB (Section 5).
    #[schemars(range(min = 4096, max = 1 << 19))]
    pub scratchpad_bytes: u32,
    /// Its banks behind the crossbar, which have consecutive words of 8 bytes: 4 (Section 5). Each
    /// takes an access in a cycle, which is there a cycle later: "one cycle to navigate the
    /// cross-bar and another cycle to access" the bank.
    #[schemars(range(min = 1, max = 64))]
    pub banks: u32,
    /// Bytes of each core's stack, at the end of the scratchpad. Chosen.
    #[schemars(range(min = 256, max = 1 << 16))]
    pub stack_bytes: u32,
    /// The maximum number of outstanding loads of host memory of each core. Chosen: with 6 cores
    /// more than the 32 reads of an interface without extended tags.
    #[schemars(range(min = 1, max = 31))]
    pub host_loads: u32,
    /// Instructions that a core may execute without requesting a frame; beyond this, its firmware
    /// counts as an endless loop, and the run ends. Chosen: 6 ms.
    #[schemars(range(min = 1000, max = 1_000_000_000))]
    pub max_instructions: u64,
    /// The energy of cores and scratchpad.
    pub energy: ProcessorsEnergySpec,
}

energy::costs! {
    /// The cores of an interface, at 32 nm and 0.9 V (docs/energy.md).
    ProcessorsEnergySpec {
        /// An instruction of a simple in-order core, with its cache: 70 pJ at 45 nm and 0.9 V
        /// (Horowitz, "Computing's Energy Problem", ISSCC 2014), times 32/45.
        instruction_pj = 49.8,
        /// A word of 8 bytes out of a bank of 64 KB or into it: between 20 pJ from 32 KB and 100 pJ
        /// from 1 MB, at 45 nm (the same), by a power of the size, times 32/45. Frames, too.
        word_pj = 19.6,
        /// Leakage of a core and its instruction cache: McPAT's at width 1 (docs/energy.md): front
        /// end 26.4, registers 4.1, an integer unit and a multiplier 99.8, 8 KB of cache 32.7.
        core_static_mw = 163.0,
        /// Leakage of the scratchpad for each kilobyte: half of McPAT's last-level bank of 1 MB for
        /// a quarter of its size.
        scratchpad_static_mw_per_kib = 1.67,
    }
}

impl Default for ProcessorsSpec {
    fn default() -> ProcessorsSpec {
        ProcessorsSpec {
            firmware: "flow-hash".to_string(),
            cores: 6,
            clock_mhz: 166.0,
            instruction_cache_bytes: 8 * 1024,
            instruction_cache_ways: 2,
            scratchpad_bytes: 256 * 1024,
            banks: 4,
            stack_bytes: 2048,
            host_loads: 8,
            max_instructions: 1_000_000,
            energy: ProcessorsEnergySpec::default(),
        }
    }
}

impl ProcessorsSpec {
    /// Checks whether such cores are possible. Keys are relative to the interface's table.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        let powers_of_two = [
            ("instruction_cache_bytes", self.instruction_cache_bytes),
            ("instruction_cache_ways", self.instruction_cache_ways),
            ("scratchpad_bytes", self.scratchpad_bytes),
            ("banks", self.banks),
        ];
        for (key, value) in powers_of_two {
            let key = format!("processors.{key}");
            require(
                value.is_power_of_two(),
                &key,
                value,
                "it must be a power of two",
            )?;
        }
        let smallest = super::instruction_cache::LINE_BYTES as u32 * self.instruction_cache_ways;
        require(
            self.instruction_cache_bytes >= smallest,
            "processors.instruction_cache_bytes",
            self.instruction_cache_bytes,
            format!("a line for each way takes {smallest}"),
        )?;
        require(
            self.stack_bytes.is_multiple_of(16),
            "processors.stack_bytes",
            self.stack_bytes,
            "stacks are aligned to 16 bytes",
        )?;
        require(
            self.cores * self.stack_bytes < self.scratchpad_bytes,
            "processors.stack_bytes",
            self.stack_bytes,
            format!(
                "the stacks of {} cores do not leave room for firmware in a scratchpad of {} bytes",
                self.cores, self.scratchpad_bytes
            ),
        )
    }
}
