//! Laws of energies that hold for all coefficients.

use energy::{Activity, CoreActivity, Energy, EnergySpec, Split};
use fabric::{
    DataPrefetcherKind, DramSpec, DramStatistics, FabricSpec, FabricStatistics, Inclusion,
    LastLevelSpec, MemorySpec, MeshSpec, PerfectCache, PrefetchStatistics, PrefetcherKind,
    SecondLevelSpec, SocketLinkSpec,
};
use pipeline::{
    CoreSpec, CoreStatistics, CycleStack, Model, Operations, StructureCachesSpec, TranslationSpec,
    TranslationStatistics,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A mesh of six tiles with three memory controllers.
fn fabric() -> FabricSpec {
    FabricSpec {
        cores: 6,
        sockets: 1,
        socket_link: SocketLinkSpec::default(),
        clock_ghz: 2.0,
        forward_latency_cycles: 4,
        last_level: LastLevelSpec {
            size_bytes_per_bank: 1024 * 1024,
            ways: 16,
            latency_cycles: 10,
            inclusion: Inclusion::Inclusive,
            directory: None,
            ..LastLevelSpec::default()
        },
        mesh: MeshSpec {
            columns: 3,
            rows: 2,
            hop_latency_cycles: 3,
            link_bytes: 16,
            local_latency_cycles: 1,
        },
        memory: MemorySpec {
            controllers: 3,
            latency_ns: 50.0,
            bandwidth_gb_per_s: 25.6,
            dram: None,
            cache: None,
        },
        perfect_cache: PerfectCache::None,
    }
}

/// A core with a second-level cache.
fn core() -> CoreSpec {
    CoreSpec {
        l2: Some(SecondLevelSpec::default()),
        ..CoreSpec::hyperplane_table1()
    }
}

/// Additionally with address translation and prefetchers.
fn whole_core() -> CoreSpec {
    CoreSpec {
        translation: Some(TranslationSpec {
            structure_caches: Some(StructureCachesSpec::default()),
            ..TranslationSpec::default()
        }),
        l1_data_prefetcher: DataPrefetcherKind::Stride,
        l2: Some(SecondLevelSpec {
            prefetcher: PrefetcherKind::Streamer,
            ..SecondLevelSpec::default()
        }),
        ..core()
    }
}

/// With two ranks of DDR4-2666 behind each of the three controllers.
fn with_dram() -> FabricSpec {
    let mut fabric = fabric();
    fabric.memory.dram = Some(DramSpec {
        ranks: 2,
        ..DramSpec::default()
    });
    fabric
}

/// Some of everything.
fn busy() -> CoreStatistics {
    CoreStatistics {
        instructions: 900_000,
        squashed_instructions: 100_001,
        branches: 120_000,
        data_hits: 200_000,
        data_misses: 5_000,
        forwarded_loads: 7_000,
        stores: 60_000,
        instruction_misses: 300,
        l2_hits: 4_000,
        l2_misses: 1_500,
        lines_filled: 5_100,
        lines_evicted: 4_900,
        snoops: 800,
        lines_sent: 500,
        l1_prefetches: PrefetchStatistics {
            issued: 700,
            ..PrefetchStatistics::default()
        },
        l2_prefetches: PrefetchStatistics {
            issued: 900,
            ..PrefetchStatistics::default()
        },
        translation: TranslationStatistics {
            l1_data_tlb_misses: 3_000,
            l1_instruction_tlb_misses: 200,
            l2_tlb_misses: 100,
            structure_cache_fills: 150,
            page_walk_loads: 400,
            page_walk_cycles: 9_000,
            ..TranslationStatistics::default()
        },
        operations: Operations {
            multiplications: 1_100,
            divisions: 120,
            float_additions: 1_300,
            float_multiplications: 1_400,
            float_divisions: 150,
        },
        stack: CycleStack {
            base: 300_000,
            ..CycleStack::default()
        },
        ..CoreStatistics::default()
    }
}

fn fabric_counts() -> FabricStatistics {
    FabricStatistics {
        bank_accesses: 9_000,
        bank_line_reads: 3_000,
        bank_line_writes: 2_000,
        mesh_hop_cycles: 70_000,
        memory_reads: 1_000,
        memory_writes: 700,
        socket_link_bytes: 40_000,
        ..FabricStatistics::default()
    }
}

fn dram_counts() -> DramStatistics {
    DramStatistics {
        activates: 600,
        precharges: 590,
        reads: 980,
        writes: 650,
        // Fewer than the time implies, as in idle channels.
        refreshes: 300,
        // 400 us of the 500 us in which each of six ranks could have had one.
        row_open_fs: 6 * 400 * 1_000_000_000,
        ..DramStatistics::default()
    }
}

const SYSTEM: Split = Split {
    dynamic: 1_340.0,
    leakage: 14_850.0,
};
const CYCLES: u64 = 1_000_000;
/// A million cycles at 2 GHz.
const SECONDS: f64 = 500e-6;

fn energy_of(spec: &EnergySpec, core: &CoreSpec, cores: &[(CoreStatistics, u64)]) -> Energy {
    energy_on(&fabric(), spec, core, cores)
}

fn energy_on(
    fabric: &FabricSpec,
    spec: &EnergySpec,
    core: &CoreSpec,
    cores: &[(CoreStatistics, u64)],
) -> Energy {
    let activity = Activity {
        cycles: CYCLES,
        seconds: SECONDS,
        cores: cores
            .iter()
            .map(|(statistics, c1_cycles)| CoreActivity {
                statistics,
                c1_cycles: *c1_cycles,
            })
            .collect(),
        fabric: &FabricStatistics {
            dram: fabric.memory.dram.as_ref().map(|_| dram_counts()),
            ..fabric_counts()
        },
        systems: BTreeMap::from([("a system", SYSTEM)]),
    };
    Energy::of(spec, core, fabric, &activity)
}

/// The energy of a run with every event.
fn eventful(spec: &EnergySpec) -> Energy {
    let two = FabricSpec {
        sockets: 2,
        ..fabric()
    };
    energy_on(&two, spec, &whole_core(), &[(busy(), 200_000), (busy(), 0)])
}

/// With and without the commands of DRAM.
fn eventful_total(spec: &EnergySpec) -> f64 {
    let with_dram = energy_on(&with_dram(), spec, &core(), &[]);
    eventful(spec).total + with_dram.total
}

/// The parts of a result: tables with only `dynamic` and `static`.
fn parts(of: &Value) -> Vec<(f64, f64)> {
    match of {
        Value::Object(table) if table.len() == 2 && table.contains_key("static") => {
            let number = |name: &str| table[name].as_f64().unwrap();
            vec![(number("dynamic"), number("static"))]
        }
        Value::Object(table) => table.values().flat_map(parts).collect(),
        Value::Array(values) => values.iter().flat_map(parts).collect(),
        _ => Vec::new(),
    }
}

fn assert_near(found: f64, expected: f64, what: &str) {
    let error = (found - expected).abs() / expected.abs().max(1e-9);
    assert!(error < 1e-9, "{what}: {found} and not {expected}");
}

#[test]
fn the_total_is_the_sum_of_the_parts() {
    let energy = eventful(&EnergySpec::default());
    let document = serde_json::to_value(&energy).unwrap();
    let parts = parts(&document);
    // Twelve of each core, six shared ones, and a system's.
    assert_eq!(parts.len(), 2 * 12 + 6 + 1);
    let dynamic: f64 = parts.iter().map(|part| part.0).sum();
    let leakage: f64 = parts.iter().map(|part| part.1).sum();
    assert_near(energy.dynamic, dynamic, "dynamic");
    assert_near(energy.leakage, leakage, "static");
    assert_eq!(energy.total, energy.dynamic + energy.leakage);
    assert!(parts.iter().all(|part| part.0 > 0.0));
    let shared = &document;
    let of_cores: f64 = energy.cores.iter().map(|core| core.total).sum();
    let of_shared: f64 = shared
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| *name != "cores")
        .flat_map(|(_, part)| crate::parts(part))
        .map(|part| part.0 + part.1)
        .sum();
    assert_near(
        energy.total,
        of_cores + of_shared,
        "cores and shared components",
    );
}

/// Shared components exist twice, and leak twice as much for the same work; and there is a link.
#[test]
fn two_sockets_leak_twice() {
    let two = FabricSpec {
        sockets: 2,
        ..fabric()
    };
    let spec = EnergySpec::default();
    let (once, twice) = (
        energy_of(&spec, &core(), &[]),
        energy_on(&two, &spec, &core(), &[]),
    );
    assert!(once.leakage > 0.0);
    // 41.6 GB/s at 53.7 mW each, for 500 us: 1.117 mJ of leakage. 40,000 bytes at 54.1 pJ: 2164 nJ.
    let link = 41.6 * 53.7 * 500.0;
    // A system declares its parts on each socket itself.
    let shared = once.leakage - SYSTEM.leakage;
    assert_near(twice.leakage, once.leakage + shared + link, "leakage");
    assert_eq!(once.shared.socket_link, Split::default());
    assert_near(twice.dynamic, once.dynamic + 2164.0, "dynamic");
}

/// Each coefficient by its path, such as `mesh.link_flit_pj`.
fn coefficients() -> Vec<(String, String)> {
    let Value::Object(tables) = json!(EnergySpec::default()) else {
        panic!("a description is a table");
    };
    let keys = tables.iter().flat_map(|(table, numbers)| {
        // `follow_sizes` is not a table.
        let names = numbers
            .as_object()
            .into_iter()
            .flat_map(|names| names.keys());
        names.map(|name| (table.clone(), name.clone()))
    });
    keys.collect()
}

/// The energy is linear in each coefficient, and depends on each.
#[test]
fn a_coefficient_twice_as_large_doubles_its_part() {
    let usual = EnergySpec::default();
    let with = |table: &str, name: &str, factor: f64| {
        let mut document = json!(usual);
        let number = document[table][name].as_f64().unwrap();
        document[table][name] = json!(number * factor);
        eventful_total(&serde_json::from_value(document).unwrap())
    };
    let once = eventful_total(&usual);
    let coefficients = coefficients();
    assert!(coefficients.len() > 40);
    for (table, name) in coefficients {
        let without = with(&table, &name, 0.0);
        assert!(without < once, "{table}.{name} costs nothing");
        let part = once - without;
        let added = with(&table, &name, 2.0) - once;
        // This is the difference of two sums that are some thousand times as large.
        assert!((added - part).abs() < 1e-9 * once, "{table}.{name}");
    }
}

/// A core that is always in C1, on a server without activity, only leaks.
#[test]
fn a_core_in_c1_only_leaks() {
    let idle = [(CoreStatistics::default(), CYCLES)];
    let energy = energy_of(
        &EnergySpec::default(),
        &CoreSpec::hyperplane_table1(),
        &idle,
    );
    let parts = parts(&json!(energy.cores[0]));
    assert!(parts.iter().all(|part| part.0 == 0.0));
    // 43.2 + 44.2 + 20.8 + 60.6 + 299.5 + 267.6 + 18.5 + 57.8 + 770.7 = 1582.9 mW for 500 us are
    // 791,450 nJ.
    assert_near(energy.cores[0].total, 791_450.0, "leakage");
    let power = energy.power(SECONDS);
    assert_near(power.cores[0].total, 1.5829, "watts");
    // Every second cycle in C1: the other half of the cycles draws the idle share of everything.
    let half = [(CoreStatistics::default(), CYCLES / 2)];
    let spec = EnergySpec::default();
    let halted = [(CoreStatistics::default(), 0)];
    let dynamic = |cores| {
        let energy = energy_of(&spec, &CoreSpec::hyperplane_table1(), cores);
        energy.cores[0].total - 791_450.0
    };
    assert_near(dynamic(&half), dynamic(&halted) / 2.0, "half of the time");
}

/// A core that has halted without C1 draws a tenth of its units' full power.
#[test]
fn idle_units_draw_their_share() {
    let halted = [(CoreStatistics::default(), 0)];
    let energy = energy_of(
        &EnergySpec::default(),
        &CoreSpec::hyperplane_table1(),
        &halted,
    );
    let components = &energy.cores[0].components;
    let nj = |pj_per_cycle: f64| 0.1 * pj_per_cycle * CYCLES as f64 / 1e3;
    // Eight instructions and a branch.
    let front_end = 8.0 * 42.5 + 36.7;
    assert_near(components.front_end.dynamic, nj(front_end), "front end");
    let window = 8.0 * (74.5 + 40.8 + 20.9);
    assert_near(components.window.dynamic, nj(window), "window");
    let registers = 16.0 * 19.9 + 8.0 * (28.1 + 93.8);
    assert_near(components.registers.dynamic, nj(registers), "registers");
    // Six integer units and two multipliers; four adders and two multipliers; two loads and a
    // store.
    let integer = 6.0 * 54.4 + 2.0 * 108.9;
    assert_near(components.integer_units.dynamic, nj(integer), "integer");
    assert_near(components.float_units.dynamic, nj(6.0 * 163.3), "float");
    let queue = components.load_store_queue.dynamic;
    assert_near(queue, nj(3.0 * 143.9), "load and store queues");
    assert_near(components.l1_instruction.dynamic, nj(50.7), "L1I");
    let l1_data = 2.0 * 31.8 + 42.4;
    assert_near(components.l1_data.dynamic, nj(l1_data), "L1D");
    assert_near(components.pipeline.dynamic, nj(8.0 * 22.0), "pipeline");
    assert_eq!(components.l2, Split::default());
}

/// The energy of each event, with units that draw nothing while idle.
#[test]
fn events_cost_what_is_said() {
    let mut spec = EnergySpec::default();
    spec.core.idle_share = 0.0;
    let energy = energy_of(&spec, &core(), &[(busy(), 0)]);
    let components = &energy.cores[0].components;
    // 900,000 instructions and 100,001 on wrong paths; 212,000 loads, 60,000 stores, 120,000
    // branches, 4,070 operations of rarer units; the rest is integer arithmetic.
    let dispatched = 1_000_001.0;
    let (loads, stores, branches, rare) = (212_000.0, 60_000.0, 120_000.0, 4_070.0);
    let arithmetic = dispatched - loads - stores - branches - rare;
    let front_end = dispatched * 42.5 + branches * 36.7;
    assert_near(components.front_end.dynamic, front_end / 1e3, "front end");
    let reads = 2.0 * (arithmetic + branches + stores + rare) + loads;
    let writes = arithmetic + rare + loads;
    let registers = reads * 19.9 + writes * (28.1 + 93.8);
    assert_near(components.registers.dynamic, registers / 1e3, "registers");
    let integer = (arithmetic + branches) * 54.4 + 1_100.0 * 108.9 + 120.0 * 1088.0;
    assert_near(components.integer_units.dynamic, integer / 1e3, "integer");
    let float = (1_300.0 + 1_400.0) * 163.3 + 150.0 * 652.8;
    assert_near(components.float_units.dynamic, float / 1e3, "float");
    // Eight instructions of a wrong path at a time: 12,501 fetches.
    let l1_instruction = (300_000.0 + 12_501.0) * 50.7 + 300.0 * 101.4;
    assert_near(
        components.l1_instruction.dynamic,
        l1_instruction / 1e3,
        "L1I",
    );
    // The second level sends the lines, and looks up the misses of the first level.
    let l1_data = loads * 31.8 + stores * 42.4 + 800.0 * 31.8 + (5_100.0 + 4_900.0) * 241.0;
    assert_near(components.l1_data.dynamic, l1_data / 1e3, "L1D");
    let l2 = (5_500.0 + 500.0) * 762.0 + (1_500.0 + 900.0 + 4_900.0) * 1002.0;
    assert_near(components.l2.dynamic, l2 / 1e3, "L2");
    let shared = &energy.shared;
    assert_near(shared.mesh.dynamic, 70_000.0 * (40.0 + 51.0) / 1e3, "mesh");
    // Six tiles and three controllers, for 500 us.
    assert_near(shared.mesh.leakage, 6.0 * 124.7 * 500e-6 * 1e6, "routers");
    assert_near(
        shared.memory_controllers.leakage,
        3.0 * 61.4 * 500.0,
        "controllers",
    );
    assert_near(shared.dram.dynamic, 1_700.0 * 10.4, "memory");
    assert_eq!(energy.systems["a system"], SYSTEM);
}

/// TLBs of Skylake's size and the tables of its prefetchers have the described costs; absent
/// hardware costs nothing, and is not in the results.
#[test]
fn translation_and_prefetching_cost_what_is_said() {
    let mut spec = EnergySpec::default();
    spec.core.idle_share = 0.0;
    let energy = energy_of(&spec, &whole_core(), &[(busy(), 0)]);
    let components = &energy.cores[0].components;
    // 212,000 loads and 60,000 stores look up a page, and 312,501 fetches; a miss fills an entry.
    // 3,200 misses look up the second level, with 100 fills. 100 walks look up the caches of upper
    // levels, with 150 fills. 400 entries are read.
    let look_ups = (272_000.0 + 3_000.0) * 5.69 + (312_501.0 + 200.0) * 6.82;
    let behind = 3_300.0 * 25.4 + 250.0 * 3.78 + 400.0 * 31.8;
    let translation = components.translation;
    assert_near(translation.dynamic, (look_ups + behind) / 1e3, "TLBs");
    let leakage = (19.3 + 22.0 + 52.1 + 14.4) * 500.0;
    assert_near(translation.leakage, leakage, "TLBs");
    // 5,500 look-ups of the second level. Lines prefetched into the first level were looked up
    // there before.
    let prefetching = 212_000.0 * 9.08 + 5_500.0 * 3.23 + 700.0 * 31.8;
    let prefetchers = components.prefetchers;
    assert_near(prefetchers.dynamic, prefetching / 1e3, "prefetchers");
    assert_near(prefetchers.leakage, (27.1 + 12.8) * 500.0, "prefetchers");
    // In addition, 900 lines are written into the second level.
    let l2 = (5_500.0 + 500.0) * 762.0 + (1_500.0 + 900.0 + 4_900.0) * 1002.0;
    assert_near(components.l2.dynamic, l2 / 1e3, "L2");

    let without = energy_of(
        &spec,
        &CoreSpec::hyperplane_table1(),
        &[(CoreStatistics::default(), 0)],
    );
    let without = json!(without);
    assert!(without["cores"][0].get("translation").is_none());
    assert!(without["cores"][0].get("prefetchers").is_none());
    assert!(without.get("dram_read").is_none());
    assert!(without.get("dram").is_some());
}

/// Caches of the upper levels of page tables cost nothing if the core has none, or if they have no
/// entries, and less if they have fewer.
#[test]
fn structure_caches_cost_by_their_entries() {
    let of = |caches: Option<StructureCachesSpec>| {
        let mut core = whole_core();
        core.translation = Some(TranslationSpec {
            structure_caches: caches,
            ..TranslationSpec::default()
        });
        let energy = energy_of(&EnergySpec::default(), &core, &[(busy(), 0)]);
        energy.cores[0].components.translation
    };
    let entries = |pde_entries, pdpte_entries, pml4e_entries| {
        Some(StructureCachesSpec {
            pde_entries,
            pdpte_entries,
            pml4e_entries,
        })
    };
    let (none, empty) = (of(None), of(entries(0, 0, 0)));
    assert_near(empty.dynamic, none.dynamic, "no entries");
    assert_near(empty.leakage, none.leakage, "no entries");
    let usual = of(entries(32, 8, 4));
    for fewer in [entries(4, 8, 4), entries(32, 4, 4), entries(32, 8, 2)] {
        let small = of(fewer);
        assert!(none.dynamic < small.dynamic && small.dynamic < usual.dynamic);
        assert!(none.leakage < small.leakage && small.leakage < usual.leakage);
    }
}

/// A TLB of half as many entries costs less, and leaks less.
#[test]
fn tlbs_cost_by_their_entries() {
    let mut small = whole_core();
    let mut translation = TranslationSpec::default();
    translation.l2_tlb.pages_4kb_2mb.entries /= 2;
    small.translation = Some(translation);
    let of = |core: &CoreSpec| {
        let energy = energy_of(&EnergySpec::default(), core, &[(busy(), 0)]);
        energy.cores[0].components.translation
    };
    let (small, usual) = (of(&small), of(&whole_core()));
    assert!(small.dynamic < usual.dynamic && small.leakage < usual.leakage);
}

/// Commands by their counts; refreshes and standby by the time; two ranks at each of three
/// controllers.
#[test]
fn commands_of_dram_cost_what_is_said() {
    let spec = EnergySpec::default();
    let shared = energy_on(&with_dram(), &spec, &core(), &[]).shared;
    assert_eq!(shared.dram, Split::default());
    assert_near(shared.dram_activate.dynamic, 600.0 * 3.737, "activates");
    assert_near(shared.dram_read.dynamic, 980.0 * 2.88, "reads");
    assert_near(shared.dram_write.dynamic, 650.0 * 2.477, "writes");
    // 500 us by 10,400 cycles of 0.75 ns, of six ranks.
    let refreshes = 6.0 * 500e3 / 7_800.0;
    assert_near(shared.dram_refresh.leakage, refreshes * 722.9, "refreshes");
    assert_near(
        shared.dram_background.leakage,
        6.0 * 396.0 * 500.0,
        "standby",
    );
    // 105.6 mW for 400 us of six ranks.
    let open = 6.0 * 105.6 * 400.0;
    assert_near(shared.dram_background.dynamic, open, "rows open");
}

#[test]
fn an_in_order_core_has_no_window() {
    let core = CoreSpec {
        model: Model::InOrder,
        ..CoreSpec::hyperplane_table1()
    };
    let energy = energy_of(&EnergySpec::default(), &core, &[(busy(), 0)]);
    assert_eq!(energy.cores[0].components.window, Split::default());
}

/// Counts since a reading are the differences of each part.
#[test]
fn energy_since_a_reading_is_a_difference() {
    let spec = EnergySpec::default();
    let earlier = energy_of(&spec, &core(), &[(CoreStatistics::default(), 0)]);
    let later = energy_of(&spec, &core(), &[(busy(), 0)]);
    let added = later.since(&earlier);
    let [front_end, before, after] =
        [&added, &earlier, &later].map(|energy| energy.cores[0].components.front_end.dynamic);
    assert_near(front_end, after - before, "front end");
    assert_near(added.total, later.total - earlier.total, "total");
    assert_eq!(later.since(&Energy::default()), later);
    assert_eq!(later.since(&later).total, 0.0);
}

#[test]
fn power_is_energy_over_time() {
    let energy = eventful(&EnergySpec::default());
    let power = energy.power(SECONDS);
    // A nanojoule in 500 us is 2 uW.
    assert_near(power.total, energy.total * 2e-6, "all");
    assert_near(power.cores[1].total, energy.cores[1].total * 2e-6, "core");
    let (directory, in_nj) = (power.shared.directory, energy.shared.directory);
    assert_near(directory.dynamic, in_nj.dynamic * 2e-6, "directory");
}
