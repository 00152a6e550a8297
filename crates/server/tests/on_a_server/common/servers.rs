//! Servers for tests, and their final memory contents.

use fabric::{
    CacheSpec, DataPrefetcherKind, DirectorySpec, DramSpec, DramTimingSpec, Inclusion,
    LastLevelSpec, LineAddress, MemoryCacheSpec, MemorySpec, MeshSpec, PagePolicy, PrefetcherKind,
    Replacement, SecondLevelSpec, SequentialPrefetcherKind,
};
use pipeline::{
    CoreSpec, FirstLevelTlbSpec, MemoryModel, MisalignedAccesses, NEVER, NoExtension, PagingMode,
    SecondLevelTlbSpec, StructureCachesSpec, TlbPagesSpec, TranslationSpec,
};
use riscv::elf::Image;
use server::{Machine, RunError, ServerSpec, presets};
use std::sync::LazyLock;

/// The core models, each by its stock description.
pub fn models() -> [CoreSpec; 2] {
    [CoreSpec::hyperplane_table1(), CoreSpec::five_stage()]
}

/// The prefetchers of a first-level data cache and of a second level. The instruction cache has the
/// next-line prefetcher if the data cache does.
pub type Prefetchers = (DataPrefetcherKind, PrefetcherKind);

/// Each prefetcher of the second level, alone and with each one of the data cache.
pub const PREFETCHERS: [Prefetchers; 12] = {
    use DataPrefetcherKind as First;
    use PrefetcherKind as Second;
    [
        (First::None, Second::NextLine),
        (First::None, Second::Streamer),
        (First::None, Second::AdjacentLine),
        (First::None, Second::StreamerAndAdjacentLine),
        (First::NextLine, Second::NextLine),
        (First::NextLine, Second::Streamer),
        (First::NextLine, Second::AdjacentLine),
        (First::NextLine, Second::StreamerAndAdjacentLine),
        (First::Stride, Second::NextLine),
        (First::Stride, Second::Streamer),
        (First::Stride, Second::AdjacentLine),
        (First::Stride, Second::StreamerAndAdjacentLine),
    ]
};

/// The same core with prefetchers, and one more miss register in its data cache for them.
pub fn with_prefetchers((data, second): Prefetchers, mut core: CoreSpec) -> CoreSpec {
    core.l1_data_prefetcher = data;
    if data == DataPrefetcherKind::NextLine {
        core.l1_instruction_prefetcher = SequentialPrefetcherKind::NextLine;
        core.l1_instruction.mshrs = core.l1_instruction.mshrs.max(4);
    }
    if data != DataPrefetcherKind::None {
        core.l1_data.mshrs = core.l1_data.mshrs.max(4);
    }
    if let Some(l2) = &mut core.l2 {
        l2.prefetcher = second;
    }
    core
}

/// The same server with one replacement policy in all caches and directories.
pub fn with_replacement(mut spec: ServerSpec, replacement: Replacement) -> ServerSpec {
    spec.core.l1_data.replacement = replacement;
    spec.core.l1_instruction.replacement = replacement;
    if let Some(l2) = &mut spec.core.l2 {
        l2.replacement = replacement;
    }
    spec.fabric.last_level.replacement = replacement;
    if let Some(directory) = &mut spec.fabric.last_level.directory {
        directory.replacement = replacement;
    }
    spec
}

/// The same core with LRU first-level caches, which use free ways first.
pub fn with_lru(mut core: CoreSpec) -> CoreSpec {
    core.l1_data.replacement = Replacement::Lru;
    core.l1_instruction.replacement = Replacement::Lru;
    core
}

/// The same core with small caches, in which a small program evicts many lines.
pub fn with_small_caches(mut core: CoreSpec) -> CoreSpec {
    let small = |cache: &CacheSpec| CacheSpec {
        size_bytes: 1024,
        ways: 2,
        ..cache.clone()
    };
    core.l1_data = small(&core.l1_data);
    core.l1_instruction = small(&core.l1_instruction);
    core
}

/// The same core, which traps misaligned loads and stores.
pub fn without_misaligned_accesses(mut core: CoreSpec) -> CoreSpec {
    core.misaligned_accesses = MisalignedAccesses::Trap;
    core
}

/// The same core with small structures and few ports, but two-way superscalar if it was scalar.
pub fn tight(mut core: CoreSpec) -> CoreSpec {
    core.width = core.width.clamp(2, 3);
    core.rob_entries = 12;
    core.scheduler_entries = 5;
    core.load_queue_entries = 4;
    core.store_queue_entries = 3;
    core.units.integer.ports = 1;
    core.units.load.ports = 1;
    core
}

/// The same core with total store order.
pub fn with_total_store_order(core: CoreSpec) -> CoreSpec {
    CoreSpec {
        memory_model: MemoryModel::Tso,
        ..core
    }
}

/// The same core with this number of hardware threads.
pub fn with_threads(threads: u8, core: CoreSpec) -> CoreSpec {
    CoreSpec { threads, ..core }
}

/// The same core with a second-level cache twice as large as its first level.
pub fn with_second_level(mut core: CoreSpec) -> CoreSpec {
    core.l2 = Some(SecondLevelSpec {
        size_bytes: 2 * (core.l1_data.size_bytes + core.l1_instruction.size_bytes),
        ways: 4,
        hit_latency_cycles: 9,
        mshrs: 8,
        ..SecondLevelSpec::default()
    });
    core
}

/// The core models without and with a second-level cache.
pub fn models_of_all_levels() -> [CoreSpec; 4] {
    let [out_of_order, in_order] = models();
    [
        out_of_order.clone(),
        in_order.clone(),
        with_second_level(out_of_order),
        with_second_level(in_order),
    ]
}

/// The same server with a non-inclusive last-level cache, and a directory of a few lines.
pub fn non_inclusive(mut spec: ServerSpec) -> ServerSpec {
    spec.fabric.last_level.inclusion = Inclusion::NonInclusive;
    spec.fabric.last_level.directory = Some(DirectorySpec {
        entries_per_bank: 32,
        ways: 4,
        ..DirectorySpec::default()
    });
    spec
}

/// The same server with DRAM of two ranks of two banks, rows of two lines and low watermarks, so
/// that a small program causes row conflicts, drains and bus turnarounds; with a refresh of each
/// rank every microsecond; and, if rows are closed, a cache of eight blocks in front of each
/// channel.
pub fn with_dram(mut spec: ServerSpec, page: PagePolicy) -> ServerSpec {
    spec.fabric.memory.dram = Some(DramSpec {
        ranks: 2,
        bank_groups: Some(1),
        banks_per_group: Some(2),
        row_bytes: 128,
        page,
        write_high_watermark: 3,
        write_low_watermark: 1,
        max_overtakes: 4,
        timings: DramTimingSpec {
            trefi_cycles: Some(1333),
            ..DramTimingSpec::default()
        },
        ..DramSpec::default()
    });
    if page == PagePolicy::Closed {
        spec.fabric.memory.cache = Some(MemoryCacheSpec {
            size_bytes: 1024,
            ways: 2,
            ..MemoryCacheSpec::default()
        });
    }
    spec
}

/// The same core with TLBs of a few pages, in which a small program evicts many, and this number of
/// page walkers.
pub fn with_small_tlbs(page_walkers: u8, core: CoreSpec) -> CoreSpec {
    let pages = |entries, ways| TlbPagesSpec { entries, ways };
    let first_level = |entries, ways| FirstLevelTlbSpec {
        pages_4kb: pages(entries, ways),
        pages_2mb: pages(entries, ways),
        pages_1gb: pages(entries, ways),
    };
    let translation = TranslationSpec {
        mode: PagingMode::Sv39,
        l1_data_tlb: first_level(2, 2),
        l1_instruction_tlb: first_level(1, 1),
        l2_tlb: SecondLevelTlbSpec {
            pages_4kb_2mb: pages(4, 2),
            pages_1gb: pages(1, 1),
            hit_latency_cycles: 3,
        },
        structure_caches: Some(StructureCachesSpec {
            pde_entries: 2,
            pdpte_entries: 1,
            pml4e_entries: 1,
        }),
        page_walkers,
        ..TranslationSpec::default()
    };
    CoreSpec {
        translation: Some(translation),
        ..core
    }
}

/// The first preset's server, made once: tests copy it thousands of times.
static FIRST_PRESET: LazyLock<ServerSpec> = LazyLock::new(|| {
    let first = presets().into_iter().next();
    first.expect("there is a preset").server
});

/// A server with the paper's cores, reduced to the number needed for `harts`, on a mesh as small as
/// possible. Its last-level cache is smaller than the preset's, so that servers are quick to make and
/// to save; the working sets of tests fit unless they say otherwise.
pub fn server(harts: usize, core: &CoreSpec) -> ServerSpec {
    let cores = harts.div_ceil(core.threads.into());
    let mut spec = FIRST_PRESET.clone();
    spec.fabric.last_level.size_bytes_per_bank = 128 << 10;
    spec.core = core.clone();
    spec.memory_mib = 16;
    spec.fabric.cores = cores;
    spec.fabric.forward_latency_cycles = core.l1_data.hit_latency_cycles;
    spec.fabric.mesh = MeshSpec {
        columns: cores.min(2),
        rows: cores.div_ceil(2),
        ..spec.fabric.mesh
    };
    spec.fabric.memory = MemorySpec {
        controllers: 1,
        ..spec.fabric.memory
    };
    spec
}

/// The same at a gigahertz, so that a nanosecond is a cycle, and with the preset's last-level cache.
/// Memory has enough bandwidth that nothing ever waits for it.
pub fn at_one_gigahertz(harts: usize, core: &CoreSpec) -> ServerSpec {
    let mut spec = server(harts, core);
    spec.fabric.last_level = FIRST_PRESET.fabric.last_level.clone();
    spec.fabric.clock_ghz = 1.0;
    spec.fabric.memory.bandwidth_gb_per_s = 64_000.0;
    spec
}

/// As [`server`], with a last-level cache so small that it recalls lines from the cores.
pub fn server_with_small_last_level(harts: usize, core: &CoreSpec) -> ServerSpec {
    let mut spec = server(harts, core);
    spec.fabric.last_level = LastLevelSpec {
        size_bytes_per_bank: 2048,
        ways: 4,
        ..spec.fabric.last_level
    };
    spec
}

/// A machine with a program, and only cores, CLINT and, if the program has one, HTIF.
pub fn machine(spec: &ServerSpec, image: Image) -> Machine {
    Machine::new(spec, image, &[], false, |_| Ok(Box::new(NoExtension)))
        .expect("the machine can be built")
}

/// Steps of the engine after which a guest counts as stuck.
const PATIENCE_STEPS: u64 = 20_000_000;
/// Cycles after which it does.
const PATIENCE_CYCLES: u64 = 20_000_000;

/// The ending of a guest's run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All harts have halted.
    Halted,
    /// The guest has exited.
    Exited,
    /// It has crashed, is deadlocked, or does not end: a description of the waiting units.
    Failed(String),
}

/// Runs until the guest has ended.
pub fn run(machine: &mut Machine) -> Ending {
    run_with(machine, |_, _| {})
}

/// The same; `between` is called before each step of the engine with the machine and the step's
/// number.
pub fn run_with(machine: &mut Machine, mut between: impl FnMut(&mut Machine, u64)) -> Ending {
    for step in 0..PATIENCE_STEPS {
        between(machine, step);
        match machine.advance() {
            Ok(true) => {}
            Ok(false) => return Ending::Exited,
            Err(RunError::Deadlock(text)) => {
                return if machine.engine.cores.iter().all(|core| core.is_halted()) {
                    Ending::Halted
                } else {
                    Ending::Failed(text)
                };
            }
            Err(error) => return Ending::Failed(error.to_string()),
        }
        if step % 256 == 0 && (PATIENCE_CYCLES..NEVER).contains(&machine.engine.now()) {
            break;
        }
    }
    Ending::Failed(machine.describe_waiting("the guest does not end"))
}

/// Builds a machine and runs it until all harts have halted.
pub fn halted(spec: &ServerSpec, image: Image) -> Machine {
    let mut machine = machine(spec, image);
    assert_eq!(run(&mut machine), Ending::Halted);
    machine
}

/// The 8 bytes at the aligned `address`, as a core would read them when nothing is in flight: from
/// a private cache that holds the line, otherwise from memory.
pub fn read(machine: &Machine, address: u64) -> u64 {
    let line = LineAddress::of(address);
    let offset = (address % 64) as usize;
    for core in &machine.engine.cores {
        if let Some((_, data)) = core.copy_of(line) {
            return data.read(offset, 8);
        }
    }
    machine.engine.fabric.ram().read_line(line).read(offset, 8)
}
