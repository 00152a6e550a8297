//! Descriptions of cores.

use crate::translation::{PageSize, StructureCachesSpec, TranslationSpec};
use fabric::{
    CacheSpec, DataPrefetcherKind, PerfectCache, PrefetcherKind, Replacement, SecondLevelSpec,
    SequentialPrefetcherKind, StrideSpec,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, Under, require};

/// How a core orders its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// A window of instructions in flight, each issued when its operands and a port are ready.
    OutOfOrder,
    /// Instructions issue in program order; one whose operand is missing stalls all that follow.
    InOrder,
}

/// The order in which other harts see the loads and stores of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryModel {
    /// RISC-V's weak memory order: loads may go ahead of older loads and stores.
    #[default]
    Rvwmo,
    /// Total store order, as RISC-V's extension Ztso has it: loads may go ahead of older stores,
    /// and of nothing else; atomic operations are in order with everything.
    Tso,
}

/// What a core does with a load or a store whose address is not a multiple of its bytes. Atomics
/// trap always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MisalignedAccesses {
    /// It executes them. One in two lines is executed alone, a part at a time.
    #[default]
    Supported,
    /// It takes a trap, as Rocket does ("misaligned load address", "misaligned store or atomic
    /// address").
    Trap,
}

impl MisalignedAccesses {
    /// The bits that must be zero in the address of an access of 2^n bytes, among its lowest n.
    pub(crate) fn alignment_mask(self) -> u64 {
        match self {
            MisalignedAccesses::Supported => 0,
            MisalignedAccesses::Trap => u64::MAX,
        }
    }
}

/// Execution units of one kind: the operations that start in each cycle, and their latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnitSpec {
    /// Operations that may start in one cycle.
    #[schemars(range(min = 1, max = 8))]
    pub ports: u8,
    /// Cycles from issue until a dependent instruction can issue.
    #[schemars(range(min = 1, max = 200))]
    pub latency_cycles: u8,
    /// Whether a port takes a new operation each cycle; if not, it is busy for the latency.
    pub pipelined: bool,
}

/// The execution units of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnitsSpec {
    /// Integer arithmetic, branches, jumps.
    pub integer: UnitSpec,
    /// Integer multiplication.
    pub multiply: UnitSpec,
    /// Bits of the first operand that an iterative multiplier consumes per cycle. It ends one cycle
    /// after the cycle that leaves no set bits, at the latest when all 64 bits have been consumed,
    /// which takes `latency_cycles`. 0: every product takes `latency_cycles`. Only in-order cores
    /// with an unpipelined multiplier accept another value.
    #[serde(default)]
    #[schemars(range(max = 32))]
    pub multiplier_bits_per_cycle: u8,
    /// Integer division.
    pub divide: UnitSpec,
    /// Floating-point addition, comparison, conversion, moves.
    pub float_add: UnitSpec,
    /// Floating-point multiplication, alone and fused with an addition.
    pub float_multiply: UnitSpec,
    /// Floating-point division and square root.
    pub float_divide: UnitSpec,
    /// Load ports. The latency is that of the data cache, not this one.
    pub load: UnitSpec,
    /// Store ports: address and data.
    pub store: UnitSpec,
}

/// The branch predictor: a chooser between per-address and history-indexed two-bit counters
/// (McFarling, "Combining Branch Predictors", 1993), a return-address stack, and a table of
/// targets for indirect jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PredictorSpec {
    /// Each of the three tables has two to the power of this many counters.
    #[schemars(range(min = 4, max = 16))]
    pub table_bits: u8,
    /// Outcomes of past branches that index the history table.
    #[schemars(range(min = 1, max = 16))]
    pub history_bits: u8,
    /// Two to the power of this many targets of indirect jumps.
    #[schemars(range(min = 2, max = 14))]
    pub target_bits: u8,
}

/// A core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreSpec {
    /// `out-of-order` or `in-order`.
    pub model: Model,
    /// `rvwmo` or `tso`: the memory order that programs can rely on.
    #[serde(default)]
    pub memory_model: MemoryModel,
    /// `supported` or `trap`: loads and stores whose address is not a multiple of their bytes.
    #[serde(default)]
    pub misaligned_accesses: MisalignedAccesses,
    /// Hardware threads (harts). With several, which only an out-of-order core can have, they share
    /// everything but registers, program counter, branch history and return-address stack. Nothing
    /// is divided between them in advance, so any number goes with queues of any size.
    #[serde(default = "one_thread")]
    #[schemars(range(min = 1, max = MAX_THREADS))]
    pub threads: u8,
    /// The maximum number of instructions dispatched, issued and committed in one cycle.
    #[schemars(range(min = 1, max = 16))]
    pub width: u8,
    /// The maximum number of instructions committed in one cycle, if it differs from `width`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16))]
    pub commit_width: Option<u8>,
    /// Entries of the reorder buffer.
    #[schemars(range(min = 2, max = 1024))]
    pub rob_entries: u16,
    /// The maximum number of dispatched instructions that have not issued.
    #[schemars(range(min = 1, max = 1024))]
    pub scheduler_entries: u16,
    /// The maximum number of loads in flight.
    #[schemars(range(min = 1, max = 256))]
    pub load_queue_entries: u16,
    /// The maximum number of stores in flight or waiting in the store buffer.
    #[schemars(range(min = 1, max = 256))]
    pub store_queue_entries: u16,
    /// The maximum number of unanswered stores to devices. Below it, the core continues without
    /// waiting for the answer. The next device store waits for room; a device load and a fence that
    /// orders output wait for all answers. 0: the core waits for each store.
    #[serde(default)]
    #[schemars(range(max = 64))]
    pub posted_device_stores: u8,
    /// Cycles from the fetch of an instruction to its dispatch: the cost of a misprediction beyond
    /// the time until the branch is resolved.
    #[schemars(range(min = 1, max = 40))]
    pub front_end_cycles: u8,
    /// Execution units.
    pub units: UnitsSpec,
    /// Branch predictor.
    pub predictor: PredictorSpec,
    /// Private instruction cache.
    pub l1_instruction: CacheSpec,
    /// `none` or `next-line`: the lines that the instruction cache fetches before they are
    /// executed.
    #[serde(default)]
    pub l1_instruction_prefetcher: SequentialPrefetcherKind,
    /// Private data cache.
    pub l1_data: CacheSpec,
    /// `none`, `next-line` or `stride`: the lines that the data cache fetches before a load
    /// requests them. Only loads are observed.
    #[serde(default)]
    pub l1_data_prefetcher: DataPrefetcherKind,
    /// The table of the prefetcher `stride`.
    #[serde(default)]
    pub l1_data_stride: StrideSpec,
    /// Private second-level cache, if there is one.
    #[serde(default)]
    pub l2: Option<SecondLevelSpec>,
    /// TLBs and page walks, if addresses are translated. `{}` selects those of a Skylake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub translation: Option<TranslationSpec>,
    /// Every access hits in the first level: see [`CoreSpec::as_built`].
    #[serde(skip)]
    pub perfect_first_level: bool,
}

/// The maximum number of hardware threads of a core.
pub(crate) const MAX_THREADS: usize = 8;

fn one_thread() -> u8 {
    1
}

const fn unit(ports: u8, latency_cycles: u8) -> UnitSpec {
    UnitSpec {
        ports,
        latency_cycles,
        pipelined: true,
    }
}

const fn unpipelined(ports: u8, latency_cycles: u8) -> UnitSpec {
    UnitSpec {
        ports,
        latency_cycles,
        pipelined: false,
    }
}

impl CoreSpec {
    /// Whether the core can be built.
    pub fn check(&self) -> Result<(), SpecError> {
        spec::check(self)?;
        require(
            self.threads == 1 || self.model == Model::OutOfOrder,
            "threads",
            self.threads,
            "an in-order core has one hardware thread; more need model = \"out-of-order\"",
        )?;
        self.check_multiplier()?;
        self.l1_instruction.check().under("l1_instruction")?;
        self.l1_data.check().under("l1_data")?;
        if let Some(translation) = &self.translation {
            translation.check().under("translation")?;
        }
        let Some(l2) = &self.l2 else {
            return Ok(());
        };
        l2.cache().check().under("l2")?;
        let first_level = self.l1_instruction.size_bytes + self.l1_data.size_bytes;
        require(
            l2.size_bytes >= first_level,
            "l2.size_bytes",
            l2.size_bytes,
            format!(
                "the second-level cache includes both first-level caches, and must be as large as \
                 they are together, {first_level} bytes, or larger"
            ),
        )
    }

    /// The core as it is built on a fabric with this perfect cache. With a perfect first level, a
    /// miss leaves when the access begins, and the fabric delivers the line before the access ends.
    pub fn as_built(&self, perfect: PerfectCache) -> Result<CoreSpec, SpecError> {
        let mut built = self.clone();
        if perfect == PerfectCache::FirstLevel {
            require(
                self.l1_data.hit_latency_cycles >= 2,
                "l1_data.hit_latency_cycles",
                self.l1_data.hit_latency_cycles,
                "fabric.perfect_cache = \"first-level\" brings a line in the cycle after the one in \
                 which it is looked for; it needs 2 cycles or more",
            )?;
            built.perfect_first_level = true;
            built.l2 = None;
            for cache in [&mut built.l1_instruction, &mut built.l1_data] {
                cache.mshrs = 1024;
            }
            built.l1_instruction_prefetcher = SequentialPrefetcherKind::None;
            built.l1_data_prefetcher = DataPrefetcherKind::None;
        }
        Ok(built)
    }

    /// The maximum number of instructions that commit in one cycle.
    pub fn commit_width(&self) -> u8 {
        self.commit_width.unwrap_or(self.width)
    }

    /// Cycles between an action of the core and the departure of its message: at least the latency
    /// of the cache look-up.
    pub fn departure_cycles(&self) -> u64 {
        if self.perfect_first_level {
            return 0;
        }
        let second_level = self.l2.as_ref();
        self.l1_instruction
            .hit_latency_cycles
            .min(self.l1_data.hit_latency_cycles)
            .min(second_level.map_or(u64::MAX, |l2| l2.hit_latency_cycles))
    }

    fn check_multiplier(&self) -> Result<(), SpecError> {
        let bits = self.units.multiplier_bits_per_cycle;
        if bits == 0 {
            return Ok(());
        }
        let UnitSpec {
            latency_cycles,
            pipelined,
            ..
        } = self.units.multiply;
        let iterations = 64_u8.div_ceil(bits);
        let why = if !bits.is_power_of_two() {
            "it must be 0, or a power of two from 1 to 32".to_string()
        } else if self.model != Model::InOrder || pipelined {
            "it must be 0, unless model = \"in-order\" and units.multiply.pipelined = false"
                .to_string()
        } else if latency_cycles < iterations {
            format!(
                "64 bits take {iterations} cycles, and units.multiply.latency_cycles is \
                 {latency_cycles}"
            )
        } else {
            return Ok(());
        };
        let key = "units.multiplier_bits_per_cycle";
        Err(SpecError::new(key, bits, why))
    }

    /// The core of HyperPlane's Table I: 8-wide, 192-entry ROB, 32-entry load/store queues, L1
    /// caches of 32 KB with 4 ways.
    ///
    /// The table gives no more. The paper used gem5, whose out-of-order core has 192 ROB entries, a
    /// scheduler of 64, queues of 32 loads and 32 stores, and the same arithmetic units. Loads and
    /// stores are those of a server core of that time (Skylake, Intel's optimisation manual,
    /// section 2.2): two loads and one store a cycle, four cycles from load to use, twelve
    /// outstanding misses, some eight stages from fetch to dispatch.
    pub fn hyperplane_table1() -> CoreSpec {
        CoreSpec {
            model: Model::OutOfOrder,
            memory_model: MemoryModel::Rvwmo,
            misaligned_accesses: MisalignedAccesses::Supported,
            threads: 1,
            width: 8,
            commit_width: None,
            rob_entries: 192,
            scheduler_entries: 64,
            load_queue_entries: 32,
            store_queue_entries: 32,
            posted_device_stores: 0,
            front_end_cycles: 8,
            units: UnitsSpec {
                integer: unit(6, 1),
                multiply: unit(2, 3),
                multiplier_bits_per_cycle: 0,
                divide: unpipelined(1, 20),
                float_add: unit(4, 2),
                float_multiply: unit(2, 4),
                float_divide: unpipelined(1, 12),
                load: unit(2, 4),
                store: unit(1, 1),
            },
            predictor: PredictorSpec {
                table_bits: 13,
                history_bits: 13,
                target_bits: 9,
            },
            l1_instruction: CacheSpec {
                size_bytes: 32 * 1024,
                ways: 4,
                hit_latency_cycles: 2,
                mshrs: 4,
                ..CacheSpec::default()
            },
            l1_data: CacheSpec {
                size_bytes: 32 * 1024,
                ways: 4,
                hit_latency_cycles: 4,
                mshrs: 12,
                ..CacheSpec::default()
            },
            l1_instruction_prefetcher: SequentialPrefetcherKind::None,
            l1_data_prefetcher: DataPrefetcherKind::None,
            l1_data_stride: StrideSpec::default(),
            l2: None,
            translation: None,
            perfect_first_level: false,
        }
    }

    /// The core of RPCValet's Table 1, "ARM Cortex-A57-like": 3-wide, 128-entry ROB, TSO, L1 caches
    /// of 32 KB with 2 ways and 48 KB with 3, 3 cycles and 32 misses each, two ports.
    ///
    /// The other parameters are those of the Cortex-A57 (ARM's "Cortex-A57 Software Optimization
    /// Guide", UAN 0015B): eight pipelines, of which two are for integers and one for branches
    /// (`integer` here), one for multi-cycle operations, two for floating point, one for loads, one
    /// for stores (the table's two ports). A product of 64 bits takes 5 cycles, a sum or product of
    /// floating point 5. Quotients take 4 to 35 cycles (64 bits) and 7 to 32 (double): 20 is in the
    /// middle of both ranges. LLVM's model of it (AArch64SchedA57.td) has a queue of eight for each
    /// pipeline, 64 in all, and 14 cycles for a misprediction: 12 until dispatch, one to issue, one
    /// in the branch's pipeline. Not published, and chosen: as many loads and stores in flight as
    /// misses, so that all miss registers can be used; the branch predictor of
    /// [`CoreSpec::hyperplane_table1`].
    pub fn rpcvalet_table1() -> CoreSpec {
        CoreSpec {
            memory_model: MemoryModel::Tso,
            misaligned_accesses: MisalignedAccesses::Supported,
            width: 3,
            rob_entries: 128,
            scheduler_entries: 64,
            load_queue_entries: 32,
            store_queue_entries: 32,
            front_end_cycles: 12,
            units: UnitsSpec {
                integer: unit(3, 1),
                multiply: unit(1, 5),
                multiplier_bits_per_cycle: 0,
                divide: unpipelined(1, 20),
                float_add: unit(2, 5),
                float_multiply: unit(2, 5),
                float_divide: unpipelined(1, 20),
                load: unit(1, 3),
                store: unit(1, 1),
            },
            l1_instruction: CacheSpec {
                size_bytes: 48 * 1024,
                ways: 3,
                hit_latency_cycles: 3,
                mshrs: 32,
                ..CacheSpec::default()
            },
            l1_data: CacheSpec {
                size_bytes: 32 * 1024,
                ways: 2,
                hit_latency_cycles: 3,
                mshrs: 32,
                ..CacheSpec::default()
            },
            ..CoreSpec::hyperplane_table1()
        }
    }

    /// A core of Intel's Skylake server, with both of its hardware threads.
    ///
    /// From Intel's "64 and IA-32 Architectures Optimization Reference Manual" (248966, the chapter
    /// on the Skylake microarchitectures): four micro-operations renamed a cycle, 97 scheduler and
    /// 224 reorder-buffer entries, 72 loads and 56 stores in flight, four integer and two
    /// floating-point ports of 4 cycles, two loads and one store a cycle; caches of 32 KB with 8
    /// ways, 4 cycles from load to use, and of 1 MB with 16 ways, 14 cycles; a streamer into the
    /// second level. Products and quotients: Fog, "Instruction tables" (3 cycles; 64-bit DIV 35 to
    /// 88, here 40; double DIVSD 13 to 14). A wrong prediction costs some 16 cycles (Fog, "The
    /// microarchitecture of Intel, AMD and VIA CPUs"): 14 until dispatch, one to issue, one to
    /// execute. Outstanding misses: 12 line fill buffers, and 16 of the second level, as the manual
    /// has it for the client part. Not published, and chosen: the branch predictor, twice as large
    /// as [`CoreSpec::hyperplane_table1`]'s; the table of the prefetcher by program counter, which
    /// fetches one stride ahead; 4 cycles and 8 outstanding misses of the instruction cache.
    ///
    /// Addresses are translated by Skylake's TLBs ([`TranslationSpec`]), with caches of the upper
    /// levels of page tables, in pages of 2 MB: DPDK's "Getting Started Guide for Linux" requires
    /// huge pages for packets and rings. A description can have 4 KB or 1 GB instead.
    ///
    /// Its instructions are RISC-V's, one for each micro-operation here.
    pub fn skylake_sp() -> CoreSpec {
        CoreSpec {
            memory_model: MemoryModel::Tso,
            misaligned_accesses: MisalignedAccesses::Supported,
            threads: 2,
            width: 4,
            rob_entries: 224,
            scheduler_entries: 97,
            load_queue_entries: 72,
            store_queue_entries: 56,
            front_end_cycles: 14,
            units: UnitsSpec {
                integer: unit(4, 1),
                multiply: unit(1, 3),
                multiplier_bits_per_cycle: 0,
                divide: unpipelined(1, 40),
                float_add: unit(2, 4),
                float_multiply: unit(2, 4),
                float_divide: unpipelined(1, 14),
                load: unit(2, 4),
                store: unit(1, 1),
            },
            predictor: PredictorSpec {
                table_bits: 14,
                history_bits: 14,
                target_bits: 10,
            },
            l1_instruction: CacheSpec {
                mshrs: 8,
                ..CacheSpec::default()
            },
            l1_data: CacheSpec {
                mshrs: 12,
                ..CacheSpec::default()
            },
            l1_data_prefetcher: DataPrefetcherKind::Stride,
            l2: Some(SecondLevelSpec {
                prefetcher: PrefetcherKind::Streamer,
                ..SecondLevelSpec::default()
            }),
            translation: Some(TranslationSpec {
                page: PageSize::Large,
                structure_caches: Some(StructureCachesSpec::default()),
                ..TranslationSpec::default()
            }),
            ..CoreSpec::hyperplane_table1()
        }
    }

    /// A core of CARGO's Table 5: 4-wide issue, 8-wide commit, 256-entry ROB, 128-entry RS, four
    /// hardware threads; L1 caches of 32 KB, 8 ways and 2 cycles, and 256 KB of second level, 8
    /// ways and 3 cycles.
    ///
    /// The paper's simulator is Sniper, and the other parameters are those of its Gainestown
    /// (`config/gainestown.cfg` and `nehalem.cfg`: a Xeon X5550): 48 loads and 32 stores in flight,
    /// and 8 cycles for a misprediction. Ten line fill buffers, one load and one store a cycle, the
    /// ports for arithmetic and their latencies are Nehalem's (Intel's "64 and IA-32 Architectures
    /// Optimization Reference Manual", 248966; Fog, "Instruction tables": 64-bit DIV 28 to 90
    /// cycles, here 40; DIVSD 7 to 22, here 14). Not published, and chosen: 16 outstanding misses
    /// of the second level; the branch predictor of [`CoreSpec::hyperplane_table1`]. The order is
    /// x86-64's, total store order.
    ///
    /// Sniper's caches have separate tag and data latencies; the table has one number a level. Here
    /// a miss leaves a level after the level's cycles, so that a hit in the second level takes both
    /// and one more, 6 cycles from load to use.
    pub fn cargo_table5() -> CoreSpec {
        CoreSpec {
            memory_model: MemoryModel::Tso,
            misaligned_accesses: MisalignedAccesses::Supported,
            threads: 4,
            width: 4,
            commit_width: Some(8),
            rob_entries: 256,
            scheduler_entries: 128,
            load_queue_entries: 48,
            store_queue_entries: 32,
            front_end_cycles: 8,
            units: UnitsSpec {
                integer: unit(3, 1),
                multiply: unit(1, 3),
                multiplier_bits_per_cycle: 0,
                divide: unpipelined(1, 40),
                float_add: unit(1, 3),
                float_multiply: unit(1, 5),
                float_divide: unpipelined(1, 14),
                load: unit(1, 2),
                store: unit(1, 1),
            },
            l1_instruction: CacheSpec {
                hit_latency_cycles: 2,
                mshrs: 4,
                ..CacheSpec::default()
            },
            l1_data: CacheSpec {
                hit_latency_cycles: 2,
                mshrs: 10,
                ..CacheSpec::default()
            },
            l2: Some(SecondLevelSpec {
                size_bytes: 256 * 1024,
                ways: 8,
                hit_latency_cycles: 3,
                ..SecondLevelSpec::default()
            }),
            ..CoreSpec::hyperplane_table1()
        }
    }

    /// A five-stage in-order core like Rocket (Asanović et al., "The Rocket Chip Generator", 2016):
    /// one instruction a cycle, a scoreboard that stalls only at the first use of a missing
    /// operand, two cycles from load to use, branches resolved in the third stage. Its data cache
    /// continues after a store to a device, and accepts the next access to a device when that store
    /// is answered (`nMMIOs = 1` in `HellaCache.scala`, `uncachedInFlight` in `DCache.scala`).
    ///
    /// Products and quotients are those of the commonly used configuration, `WithNBigCores`: a
    /// multiplier of 8 bits a cycle that ends early (`mulUnroll`, `mulEarlyOut`), whose result can
    /// be used two cycles after its last one (`MulDiv` in `Multiplier.scala`); sums and products of
    /// double precision in 4 cycles (`dfmaLatency`); and a quotient or root of one bit a cycle, 55
    /// for the 53 of double precision, beginning in the memory stage (hardfloat's
    /// `DivSqrtRecFN_small`; `FPU.scala`). Its data cache requests one line at a time (`nMSHRs =
    /// 0`), and both caches have random replacement.
    pub fn five_stage() -> CoreSpec {
        CoreSpec {
            model: Model::InOrder,
            memory_model: MemoryModel::Rvwmo,
            misaligned_accesses: MisalignedAccesses::Supported,
            width: 1,
            rob_entries: 16,
            scheduler_entries: 1,
            load_queue_entries: 8,
            store_queue_entries: 4,
            posted_device_stores: 1,
            front_end_cycles: 2,
            units: UnitsSpec {
                integer: unit(1, 1),
                multiply: unpipelined(1, 10),
                multiplier_bits_per_cycle: 8,
                divide: unpipelined(1, 33),
                float_add: unit(1, 4),
                float_multiply: unit(1, 4),
                float_divide: unpipelined(1, 58),
                load: unit(1, 2),
                store: unit(1, 1),
            },
            predictor: PredictorSpec {
                table_bits: 9,
                history_bits: 8,
                target_bits: 5,
            },
            l1_instruction: CacheSpec {
                size_bytes: 16 * 1024,
                ways: 4,
                hit_latency_cycles: 1,
                mshrs: 1,
                replacement: Replacement::Random,
            },
            l1_data: CacheSpec {
                size_bytes: 16 * 1024,
                ways: 4,
                hit_latency_cycles: 2,
                mshrs: 1,
                replacement: Replacement::Random,
            },
            ..CoreSpec::hyperplane_table1()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_level_includes_the_first() {
        let with = |l2: SecondLevelSpec| CoreSpec {
            l2: Some(l2),
            ..CoreSpec::hyperplane_table1()
        };
        with(SecondLevelSpec::default()).check().unwrap();
        let small = SecondLevelSpec {
            size_bytes: 32 * 1024,
            ..SecondLevelSpec::default()
        };
        assert_eq!(
            with(small).check().unwrap_err().to_string(),
            "l2.size_bytes is 32768; the second-level cache includes both \
             first-level caches, and must be as large as they are together, 65536 bytes, or larger"
        );
        let odd = SecondLevelSpec {
            ways: 3,
            ..SecondLevelSpec::default()
        };
        assert_eq!(
            with(odd).check().unwrap_err().to_string(),
            "l2.size_bytes is 1048576; it must be a power of two times 3 ways \
             of 64 bytes, such as 1572864"
        );
    }
}
