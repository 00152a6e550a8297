//! The machines of the papers, and a real one.

use crate::registry::ServerSpec;
use fabric::{
    DirectorySpec, DramSpec, FabricSpec, Inclusion, LastLevelSpec, MemoryCacheSpec, MemorySpec,
    MeshSpec,
};
use hyperplane::HyperPlaneSpec;
use nanopu::NanoPuSpec;
use pcie::{DmaNicSpec, ExpressSpec};
use pipeline::{CoreSpec, MemoryModel, MisalignedAccesses};
use rpcvalet::RpcValetSpec;

/// A machine.
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Its description, in a sentence.
    pub description: &'static str,
    /// The source of its numbers.
    pub source: &'static str,
    /// The machine.
    pub server: ServerSpec,
}

/// All presets.
pub fn presets() -> Vec<Preset> {
    vec![
        hyperplane_table1(),
        rpcvalet_table1(),
        nanopu_prototype(),
        skylake_sp(),
        spin_to_win_table1(),
        cargo_table5(),
    ]
}

/// The 16-core server of HyperPlane's Table I.
///
/// The table gives the L1 caches, 1 MB of last-level cache a core with 16 ways, and MESI with a
/// directory. It does not give the memory model, the clock, the mesh or the memory. The server is
/// an x86-64 (Section V-A), which has total store order. Chosen here: 3 GHz; a mesh of 4 x 4 tiles
/// with 16-byte links and 3 cycles a hop, as in RPCValet's Table 1; 10 cycles for a bank of 1 MB; 4
/// memory channels of 25.6 GB/s and 50 ns, also as in RPCValet's Table 1.
fn hyperplane_table1() -> Preset {
    let core = CoreSpec {
        memory_model: MemoryModel::Tso,
        ..CoreSpec::hyperplane_table1()
    };
    Preset {
        name: "hyperplane-table1",
        description: "16 out-of-order cores, 8 wide, with 1 MB of shared cache each",
        source: "HyperPlane (MICRO 2020), Table I",
        server: ServerSpec {
            hyperplane: Some(HyperPlaneSpec::default()),
            ..ServerSpec::bare(
                FabricSpec {
                    cores: 16,
                    clock_ghz: 3.0,
                    forward_latency_cycles: core.l1_data.hit_latency_cycles,
                    last_level: LastLevelSpec {
                        size_bytes_per_bank: 1024 * 1024,
                        ways: 16,
                        latency_cycles: 10,
                        ..LastLevelSpec::default()
                    },
                    memory: MemorySpec {
                        bandwidth_gb_per_s: 25.6,
                        ..MemorySpec::default()
                    },
                    ..FabricSpec::default()
                },
                core,
                1,
                1024,
            )
        },
    }
}

/// The 16-core chip of RPCValet's Table 1.
///
/// The table gives the clock, the L1 caches, 2 MB of last-level cache in 16 banks of 16 ways and 6
/// cycles, the mesh, and the memory. It specifies a non-inclusive last-level cache, but not the
/// size of the directory beside it. Chosen here: as many sets and ways as the bank has, which is
/// 1.6 times the lines of a tile's private caches.
fn rpcvalet_table1() -> Preset {
    let core = CoreSpec::rpcvalet_table1();
    Preset {
        name: "rpcvalet-table1",
        description: "16 out-of-order cores like ARM's Cortex-A57, 3 wide, at 2 GHz, with 128 KB \
                      of shared cache each",
        source: "RPCValet (ASPLOS 2019), Table 1",
        server: ServerSpec {
            rpcvalet: Some(RpcValetSpec::default()),
            ..ServerSpec::bare(
                FabricSpec {
                    cores: 16,
                    clock_ghz: 2.0,
                    forward_latency_cycles: core.l1_data.hit_latency_cycles,
                    last_level: LastLevelSpec {
                        size_bytes_per_bank: 128 * 1024,
                        ways: 16,
                        latency_cycles: 6,
                        inclusion: Inclusion::NonInclusive,
                        directory: Some(DirectorySpec {
                            entries_per_bank: 128 * 16,
                            ways: 16,
                            ..DirectorySpec::default()
                        }),
                        ..LastLevelSpec::default()
                    },
                    memory: MemorySpec {
                        bandwidth_gb_per_s: 25.6,
                        ..MemorySpec::default()
                    },
                    ..FabricSpec::default()
                },
                core,
                16,
                1024,
            )
        },
    }
}

/// nanoPU's prototype: four Rocket cores.
///
/// Section 3 gives the core, "the default Rocket core configuration: 16KB L1 instruction and data
/// caches, a 512KB shared L2 cache, and 16GB of external DRAM memory"; Section 5.1 the clock.
/// Chosen here: the L2 in four banks of 8 ways, as in its generator's default; 14 cycles for a
/// bank, so that a load that misses the L1 has its value after 20; and tiles of one cycle instead
/// of a crossbar, with links of 8 bytes like the generator's buses (`beatBytes` in
/// `BaseSubsystemConfig`).
///
/// Memory is that of the published simulations, whose timings are those of DDR3-2133, in cycles of
/// the core's clock (`mm_dramTimings` of `local_firesim.py`): FireSim's timing model of that time
/// runs at that clock. An access to a row that is not open takes tRP, tRCD and tCAS, 14 each, 4
/// cycles of data and 2 of the back end: 48, which is 15 ns. Its port has 8 bytes a cycle. Real
/// memory takes some 50 ns. In front of it is their cache of 4 MB ([`MemoryCacheSpec`]; `mm_llc` of
/// the same file).
fn nanopu_prototype() -> Preset {
    let core = CoreSpec {
        misaligned_accesses: MisalignedAccesses::Trap,
        ..CoreSpec::five_stage()
    };
    Preset {
        name: "nanopu-prototype",
        description: "4 in-order cores like Rocket at 3.2 GHz, with nanoPU's network interface, \
                      registers and thread scheduler",
        source: "nanoPU (OSDI 2021), Section 3",
        server: ServerSpec {
            nanopu: Some(NanoPuSpec::default()),
            ..ServerSpec::bare(
                FabricSpec {
                    cores: 4,
                    clock_ghz: 3.2,
                    forward_latency_cycles: core.l1_data.hit_latency_cycles,
                    last_level: LastLevelSpec {
                        size_bytes_per_bank: 128 * 1024,
                        ways: 8,
                        latency_cycles: 14,
                        ..LastLevelSpec::default()
                    },
                    mesh: MeshSpec {
                        columns: 2,
                        rows: 2,
                        hop_latency_cycles: 1,
                        link_bytes: 8,
                        ..MeshSpec::default()
                    },
                    memory: MemorySpec {
                        controllers: 1,
                        latency_ns: 15.0,
                        bandwidth_gb_per_s: 25.6,
                        cache: Some(MemoryCacheSpec::default()),
                        ..MemorySpec::default()
                    },
                    ..FabricSpec::default()
                },
                core,
                4,
                16384,
            )
        },
    }
}

/// A socket of Intel's Skylake-SP: the Xeon Platinum 8160, with 24 cores.
///
/// Intel's product specification gives the cores, 33 MB of last-level cache, and six channels of
/// DDR4-2666. The clock is that of its turbo with all cores busy, 2.8 GHz ("Intel Xeon Processor
/// Scalable Family Specification Update", 336065); one core alone reaches 3.7 GHz. The last-level
/// cache has 1.375 MB with 11 ways a tile and is non-inclusive (the optimisation manual); its
/// directory is that of Yan et al. ([`DirectorySpec`]), and I/O fills two ways
/// ([`LastLevelSpec::io_ways`]).
///
/// A channel has two ranks of DDR4-2666 ([`DramSpec`]): "6x16GB" in the study of spinning is one
/// module of 16 GB a channel, which has two ranks of chips of 8 Gb.
///
/// Intel publishes neither the latency of a bank nor that of a hop or of a memory controller. Only
/// sums are published. From load to use, the last level takes 54 to 56 cycles if each load misses
/// the first-level TLB, which is 9 cycles ("Random load latency" of LMBench for 4 to 8 MB, of a
/// Xeon Platinum 8176: De Gelas and Cutress, "Sizing Up Servers: Intel's Skylake-SP Xeon versus
/// AMD's EPYC 7000", AnandTech, 2017), and 46 if TLB misses are excluded (Xeon Platinum 8280 at 2.7
/// GHz: De Gelas, "AMD Rome Second Generation EPYC Review", AnandTech, 2019). Memory takes 89 to 91
/// ns in the first, and 80.8 ns by Intel's Memory Latency Checker, with huge pages. Chosen here: 6
/// x 4 tiles, one cycle a hop with links of 32 bytes, which is the mesh's width; 22 cycles for a
/// bank, which gives both sums of the last level; and 14 ns for a memory controller, which gives
/// both of memory. `nanoplane figure substrate.latency` shows them.
///
/// Not modelled: clean evictions of the second level, which fill the last level of the real
/// machine; the mesh's own clock; the queues' partitions between threads; vector instructions. The
/// adjacent-line and next-line prefetchers are omitted.
fn skylake_sp() -> Preset {
    let core = CoreSpec::skylake_sp();
    Preset {
        name: "skylake-sp",
        description: "24 out-of-order cores of two threads at 2.8 GHz, with 1 MB of second-level \
                      and 1.375 MB of shared cache each, and six channels of DDR4-2666",
        source: "Intel's Xeon Platinum 8160: its data sheets and optimisation manual",
        server: ServerSpec {
            // 16 lanes of the third generation: twice the default's.
            dma_nic: Some(DmaNicSpec {
                express: ExpressSpec {
                    rate_gbit_per_s: 115.76,
                    ..ExpressSpec::default()
                },
                ..DmaNicSpec::default()
            }),
            ..ServerSpec::bare(
                FabricSpec {
                    cores: 24,
                    clock_ghz: 2.8,
                    forward_latency_cycles: core.l1_data.hit_latency_cycles,
                    last_level: LastLevelSpec {
                        size_bytes_per_bank: 11 * 128 * 1024,
                        ways: 11,
                        latency_cycles: 22,
                        inclusion: Inclusion::NonInclusive,
                        directory: Some(DirectorySpec::default()),
                        io_ways: Some(2),
                        ..LastLevelSpec::default()
                    },
                    mesh: MeshSpec {
                        columns: 6,
                        rows: 4,
                        hop_latency_cycles: 1,
                        link_bytes: 32,
                        ..MeshSpec::default()
                    },
                    memory: MemorySpec {
                        controllers: 6,
                        latency_ns: 50.0,
                        bandwidth_gb_per_s: 21.3,
                        dram: Some(DramSpec {
                            ranks: 2,
                            controller_latency_ns: 14.0,
                            ..DramSpec::default()
                        }),
                        ..MemorySpec::default()
                    },
                    ..FabricSpec::default()
                },
                core,
                1,
                16384,
            )
        },
    }
}

/// The machine under test of the study of spinning data planes.
///
/// Table 1 gives one Xeon Platinum 8160 with its cores, clock and caches, which is [`skylake_sp`],
/// six modules of DDR4-2666, and an interface behind 16 lanes of PCI Express 3.0. "We use only a
/// single hyperthread on each physical core" (Section 3).
///
/// DPDK's driver maps the doorbells of a ConnectX-5 as write-combining memory, whose stores are
/// posted through line fill buffers: Skylake has 12 of these, its outstanding misses.
fn spin_to_win_table1() -> Preset {
    let mut server = skylake_sp().server;
    server.core.threads = 1;
    server.core.posted_device_stores = 12;
    Preset {
        name: "spin-to-win-table1",
        description: "skylake-sp with one thread on each core, which does not wait for its doorbells",
        source: "The Impact of Spinning on Data Planes (SoCC 2019), Table 1",
        server,
    }
}

/// CARGO's server with four cores, one of its five sizes from 1 to 16.
///
/// Table 5 gives the core, 1 MB of last-level cache a core with 30 cycles and LRU, and memory with
/// 45 ns, "windowed contention": its numbers are those of Sniper's Gainestown
/// (`config/gainestown.cfg`), which are the latencies of the bank and of the DRAM alone. Gainestown
/// also supplies the 16 ways, and a memory controller with 7.6 GB/s for each four cores. Sniper
/// estimates contention by M/G/1 in windows of time; here requests wait for each other. The bus
/// between the cores is a mesh here, of one cycle a hop and links of 32 bytes, as [`skylake_sp`]'s.
/// The paper's network interface, 10 Gb/s for each four cores, is behind PCI Express Gen3 x16 with
/// 250 ns one way.
///
/// With other numbers of cores, the mesh has a tile for each, and the memory a controller for each
/// four: `docs/stores.md` has the keys.
fn cargo_table5() -> Preset {
    let core = CoreSpec::cargo_table5();
    Preset {
        name: "cargo-table5",
        description: "4 out-of-order cores of four threads at 4 GHz, with 256 KB of second-level and \
                      1 MB of shared cache each",
        source: "CARGO, Table 5",
        server: ServerSpec {
            data_plane_threads: 4,
            // For comparisons: HyperPlane's 50 cycles at 3 GHz, in cycles at 4 GHz.
            hyperplane: Some(HyperPlaneSpec {
                qwait_latency_cycles: 67,
                ..HyperPlaneSpec::default()
            }),
            dma_nic: Some(DmaNicSpec {
                express: ExpressSpec {
                    rate_gbit_per_s: 115.76,
                    latency_ns: 250.0,
                    ..ExpressSpec::default()
                },
                ..DmaNicSpec::default()
            }),
            ..ServerSpec::bare(
                FabricSpec {
                    cores: 4,
                    clock_ghz: 4.0,
                    forward_latency_cycles: core.l1_data.hit_latency_cycles,
                    last_level: LastLevelSpec {
                        size_bytes_per_bank: 1024 * 1024,
                        ways: 16,
                        latency_cycles: 30,
                        ..LastLevelSpec::default()
                    },
                    mesh: MeshSpec {
                        columns: 2,
                        rows: 2,
                        hop_latency_cycles: 1,
                        link_bytes: 32,
                        ..MeshSpec::default()
                    },
                    memory: MemorySpec {
                        controllers: 1,
                        latency_ns: 45.0,
                        bandwidth_gb_per_s: 7.6,
                        ..MemorySpec::default()
                    },
                    ..FabricSpec::default()
                },
                core,
                4,
                16384,
            )
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each number of CARGO's Table 5 that applies to a server.
    #[test]
    fn cargo_table5_is_the_papers() {
        let server = cargo_table5().server;
        server.core.check().unwrap();
        server.fabric.check().unwrap();
        let (core, fabric) = (&server.core, &server.fabric);
        // "4-wide issue/8-wide commit, 256-entry ROB, 128-entry RS, 4 GHz clock, 4 H/W
        // threads/core".
        assert_eq!((core.width, core.commit_width()), (4, 8));
        assert_eq!((core.rob_entries, core.scheduler_entries), (256, 128));
        assert_eq!((fabric.clock_ghz, core.threads), (4.0, 4));
        // "32 KB private, 8-way, 2 cycles", "256 KB unified, 8-way, 3 cycles".
        for cache in [&core.l1_data, &core.l1_instruction] {
            assert_eq!((cache.size_bytes, cache.ways), (32 << 10, 8));
            assert_eq!(cache.hit_latency_cycles, 2);
        }
        let l2 = core.l2.as_ref().unwrap();
        assert_eq!((l2.size_bytes, l2.ways), (256 << 10, 8));
        assert_eq!(l2.hit_latency_cycles, 3);
        // "1 MB per core, 30 cycles, LRU replacement": a bank for each of the cores.
        let last_level = &fabric.last_level;
        assert_eq!(fabric.mesh.columns * fabric.mesh.rows, fabric.cores);
        assert_eq!(last_level.size_bytes_per_bank, 1 << 20);
        assert_eq!(last_level.latency_cycles, 30);
        assert_eq!(last_level.replacement, fabric::Replacement::Lru);
        // "45 ns fixed latency"; "Gen3 x16 with 250 ns one way latency".
        assert_eq!(fabric.memory.latency_ns, 45.0);
        assert_eq!(server.dma_nic.unwrap().express.latency_ns, 250.0);
    }

    /// Each number of HyperPlane's Table I; and x86-64's order of memory accesses (Section V-A).
    #[test]
    fn hyperplane_table1_is_the_papers() {
        let server = hyperplane_table1().server;
        server.core.check().unwrap();
        server.fabric.check().unwrap();
        let (core, fabric) = (&server.core, &server.fabric);
        // "8-wide issue OoO, 192/32-entry ROB/LSQ".
        assert_eq!(core.model, pipeline::Model::OutOfOrder);
        assert_eq!((core.width, core.rob_entries), (8, 192));
        assert_eq!(
            (core.load_queue_entries, core.store_queue_entries),
            (32, 32)
        );
        // "Private, 32 KB, 64B lines, 4-way SA".
        for cache in [&core.l1_data, &core.l1_instruction] {
            assert_eq!((cache.size_bytes, cache.ways), (32 * 1024, 4));
        }
        assert_eq!((fabric::LINE_BYTES, &core.l2), (64, &None));
        // "1 MB per core, 64B lines, 16-way SA"; "16 cores": a bank for each.
        let last_level = &fabric.last_level;
        assert_eq!(
            (fabric.cores, fabric.mesh.columns * fabric.mesh.rows),
            (16, 16)
        );
        assert_eq!(
            (last_level.size_bytes_per_bank, last_level.ways),
            (1 << 20, 16)
        );
        // "1024-entry monitoring and ready set".
        assert_eq!(server.hyperplane.unwrap().entries, 1024);
        assert_eq!(core.memory_model, MemoryModel::Tso);
    }

    /// Intel's published numbers of the Xeon Platinum 8160.
    #[test]
    fn skylake_sp_is_intels() {
        let server = skylake_sp().server;
        server.core.check().unwrap();
        server.fabric.check().unwrap();
        let (core, fabric) = (&server.core, &server.fabric);
        let last_level = &fabric.last_level;
        let tiles = (fabric.mesh.columns * fabric.mesh.rows) as u64;
        assert_eq!((fabric.cores, tiles, core.threads), (24, 24, 2));
        assert_eq!(tiles * last_level.size_bytes_per_bank, 33 << 20);
        assert_eq!((last_level.ways, last_level.io_ways), (11, Some(2)));
        let l2 = core.l2.as_ref().unwrap();
        assert_eq!((l2.size_bytes, l2.ways), (1 << 20, 16));
        // 14 cycles from load to use: both look-ups, and one cycle.
        assert_eq!(
            core.l1_data.hit_latency_cycles + l2.hit_latency_cycles + 1,
            14
        );
        assert_eq!((core.width, core.rob_entries), (4, 224));
        assert_eq!(
            (core.load_queue_entries, core.store_queue_entries),
            (72, 56)
        );
        assert_eq!(fabric.memory.controllers, 6);
    }

    /// Each number of the machine under test in the study's Table 1.
    #[test]
    fn spin_to_win_table1_is_the_papers() {
        let server = spin_to_win_table1().server;
        server.core.check().unwrap();
        server.fabric.check().unwrap();
        let (core, fabric) = (&server.core, &server.fabric);
        // "Single-socket", "24 physical cores", "@2.10-3.70 GHz"; "only a single hyperthread".
        assert_eq!((fabric.sockets, fabric.cores, core.threads), (1, 24, 1));
        assert!((2.1..=3.7).contains(&fabric.clock_ghz));
        // "32KB L1 I-$", "32KB L1 D-$", "1024KB L2-$ (per core)", "33MB LLC".
        assert_eq!(core.l1_instruction.size_bytes, 32 << 10);
        assert_eq!(core.l1_data.size_bytes, 32 << 10);
        assert_eq!(core.l2.as_ref().unwrap().size_bytes, 1 << 20);
        let tiles = (fabric.mesh.columns * fabric.mesh.rows) as u64;
        assert_eq!(tiles * fabric.last_level.size_bytes_per_bank, 33 << 20);
        // "6x16GB", "DDR4 @2666MHz": 8 bytes at 2666 MT/s.
        assert_eq!(fabric.memory.controllers, 6);
        assert_eq!(fabric.memory.bandwidth_gb_per_s, 21.3);
        // "PCIe 3.0 x16": 8 GT/s a lane, less what framing takes.
        assert_eq!(u32::from(core.posted_device_stores), core.l1_data.mshrs);
        let rate = server.dma_nic.unwrap().express.rate_gbit_per_s;
        assert!((100.0..128.0).contains(&rate));
    }

    /// Each number of RPCValet's Table 1.
    #[test]
    fn rpcvalet_table1_is_the_papers() {
        let server = rpcvalet_table1().server;
        server.core.check().unwrap();
        server.fabric.check().unwrap();
        let (core, fabric) = (&server.core, &server.fabric);
        // "2GHz, OoO 3-wide dispatch/retirement, 128-entry ROB"; 16 cores (Section 5).
        assert_eq!((fabric.cores, fabric.clock_ghz), (16, 2.0));
        assert_eq!(core.model, pipeline::Model::OutOfOrder);
        assert_eq!((core.width, core.rob_entries), (3, 128));
        // "32KB 2-way L1d, 48KB 3-way L1i, 64-byte blocks 2 ports, 32 MSHRs, 3-cycle latency".
        for (cache, kib, ways) in [(&core.l1_data, 32, 2), (&core.l1_instruction, 48, 3)] {
            assert_eq!((cache.size_bytes, cache.ways), (kib * 1024, ways));
            assert_eq!((cache.hit_latency_cycles, cache.mshrs), (3, 32));
        }
        assert_eq!(core.units.load.ports + core.units.store.ports, 2);
        // "2MB total 16-way, 1 bank/tile, 6-cycle latency"; "Non-Inclusive MESI".
        let last_level = &fabric.last_level;
        assert_eq!(16 * last_level.size_bytes_per_bank, 2 << 20);
        assert_eq!((last_level.ways, last_level.latency_cycles), (16, 6));
        assert_eq!(last_level.inclusion, Inclusion::NonInclusive);
        // "50ns latency, 4x25.6GBps"; "2D mesh, 16B links, 3 cycles/hop".
        let memory = &fabric.memory;
        assert_eq!((memory.controllers, memory.latency_ns), (4, 50.0));
        assert_eq!(memory.bandwidth_gb_per_s, 25.6);
        let mesh = &fabric.mesh;
        assert_eq!((mesh.columns, mesh.rows), (4, 4));
        assert_eq!((mesh.link_bytes, mesh.hop_latency_cycles), (16, 3));
    }
}
