//! Programs that read the counters of events, whose values are arithmetic, and the same as in the
//! results.
//!
//! Each program does something so many times, reads the counters through `mhpmcounter`, and is run
//! with few and with many times: what the counters differ by is what the additional times count. So
//! is what the results differ by, where the start and the end of the program count, too.

mod common;

use common::assembler::*;
use common::servers::{
    halted, models, read, server, with_lru, with_prefetchers, with_second_level,
};
use fabric::{DataPrefetcherKind, PrefetcherKind, SecondLevelSpec};
use pipeline::{
    CoreSpec, CoreStatistics, EVENTS, FirstLevelTlbSpec, NEVER, PagingMode, StructureCachesSpec,
    TlbPagesSpec, TranslationSpec,
};

const RESULTS: u64 = 0x8010_0800;
const DATA: u64 = 0x8020_0400;
const EVENT: u32 = 0x320;
const COUNTER: u32 = 0xb00;
/// Where the counters' values are until all have been read: a store would be counted.
const VALUES: [u8; 8] = [A0, A1, A2, A3, A4, A5, A6, A7];

/// An event, what the result has of it, and how often the additional times count it.
type Event = (&'static str, fn(&CoreStatistics) -> u64, u64);

/// Compares the counters of a core with what is expected of `program` if it does something `many`
/// times instead of `few`.
fn check(
    core: &CoreSpec,
    (few, many): (u64, u64),
    events: &[Event],
    data: &[(u64, Vec<u8>)],
    program: impl Fn(&mut Assembler, u64),
) {
    let number = |name| 1 + EVENTS.iter().position(|one| one.0 == name).unwrap() as u64;
    let run = |times| {
        let mut asm = Assembler::new();
        for (counter, event) in (3..).zip(events) {
            asm.load_immediate(T0, number(event.0));
            asm.csr_write(EVENT + counter, T0);
        }
        asm.load_immediate(S6, RESULTS);
        asm.load_immediate(T1, DATA);
        program(&mut asm, times);
        asm.fence(RW, RW);
        for (counter, &value) in (3..).zip(&VALUES[..events.len()]) {
            asm.csr_read(value, COUNTER + counter);
        }
        for (offset, &value) in (0..).step_by(8).zip(&VALUES[..events.len()]) {
            asm.store_double(value, S6, offset);
        }
        asm.halt();
        let mut spec = server(1, core);
        spec.fabric.clock_ghz = 1.0;
        spec.fabric.memory.bandwidth_gb_per_s = 64_000.0;
        let machine = halted(&spec, asm.finish(data));
        let counted: Vec<u64> = (0..events.len() as u64)
            .map(|one| read(&machine, RESULTS + 8 * one))
            .collect();
        (counted, machine.engine.cores[0].statistics(NEVER))
    };
    let ((fewer, before), (more, after)) = (run(few), run(many));
    let each = |of: &dyn Fn(usize, &Event) -> u64| -> Vec<(&str, u64)> {
        let one = |(index, event): (usize, &Event)| (event.0, of(index, event));
        events.iter().enumerate().map(one).collect()
    };
    let counted = each(&|index, _| more[index] - fewer[index]);
    assert_eq!(counted, each(&|_, event| event.2), "{:?}", core.model);
    let results = each(&|_, event| (event.1)(&after) - (event.1)(&before));
    assert_eq!(counted, results, "{:?}", core.model);
}

/// So many pointers, each at a distance from the one before, which it is loaded from.
fn chain(pointers: u64, distance: u64) -> Vec<(u64, Vec<u8>)> {
    let place = |link: u64| DATA + link % pointers * distance;
    let link = |link| (place(link), place(link + 1).to_le_bytes().to_vec());
    (0..pointers).map(link).collect()
}

/// Eight loads go through eight pages, twice more often. With room for all in the first-level TLB,
/// these are 16 hits. With room for four, which have always been replaced before they come again,
/// these are 16 misses, which the second level has; or walks, if that has room for one. A walk
/// reads three entries, one after the other, from the data cache, or only the last one where a
/// cache of the upper levels has the others: 3 x 4 cycles or 4 out of order, 3 x 2 or 2 in order.
#[test]
fn pages_of_data() {
    const PAGES: u64 = 8;
    const LOADS: u64 = 2 * PAGES;
    let pages = |entries| TlbPagesSpec {
        entries,
        ways: entries,
    };
    let one_size = |entries| FirstLevelTlbSpec {
        pages_4kb: pages(entries),
        pages_2mb: pages(entries),
        pages_1gb: pages(entries),
    };
    let roomy = TranslationSpec {
        mode: PagingMode::Sv39,
        structure_caches: None,
        ..TranslationSpec::default()
    };
    let small = TranslationSpec {
        l1_data_tlb: one_size(4),
        ..roomy
    };
    let mut smaller = small;
    smaller.l2_tlb.pages_4kb_2mb = pages(1);
    let cached = TranslationSpec {
        structure_caches: Some(StructureCachesSpec::default()),
        ..smaller
    };
    for (core, hit) in models().into_iter().zip([4, 2]) {
        for (translation, [hits, misses, second, walks, structure, cycles]) in [
            (roomy, [LOADS, 0, 0, 0, 0, 0]),
            (small, [0, LOADS, LOADS, 0, 0, 0]),
            (smaller, [0, LOADS, 0, LOADS, 0, LOADS * 3 * hit]),
            (cached, [0, LOADS, 0, LOADS, LOADS, LOADS * hit]),
        ] {
            let core = CoreSpec {
                translation: Some(translation),
                ..with_lru(core.clone())
            };
            let events: [Event; 7] = [
                (
                    "L1_DATA_TLB_HITS",
                    |one| one.translation.l1_data_tlb_hits,
                    hits,
                ),
                (
                    "L1_DATA_TLB_MISSES",
                    |one| one.translation.l1_data_tlb_misses,
                    misses,
                ),
                ("L2_TLB_HITS", |one| one.translation.l2_tlb_hits, second),
                ("L2_TLB_MISSES", |one| one.translation.l2_tlb_misses, walks),
                (
                    "STRUCTURE_CACHE_HITS",
                    |one| one.translation.structure_cache_hits,
                    structure,
                ),
                (
                    "PAGE_WALK_CYCLES",
                    |one| one.translation.page_walk_cycles,
                    cycles,
                ),
                ("PAGE_FAULTS", |one| one.translation.page_faults, 0),
            ];
            // Another set for each, and a line of entries for all.
            let data = chain(PAGES, 4096 + 64);
            check(&core, (2, 4), &events, &data, |asm, rounds| {
                for _ in 0..rounds * PAGES {
                    asm.load_double(T1, T1, 0);
                }
            });
        }
    }
}

/// A jump to the next line is a fetch. Its page is that of the one before, and its line is new.
#[test]
fn pages_of_fetches() {
    for core in models() {
        let core = CoreSpec {
            translation: Some(TranslationSpec {
                mode: PagingMode::Sv39,
                ..TranslationSpec::default()
            }),
            ..with_lru(core)
        };
        let events: [Event; 3] = [
            ("L1_INSTRUCTION_MISSES", |one| one.instruction_misses, 8),
            (
                "L1_INSTRUCTION_TLB_HITS",
                |one| one.translation.l1_instruction_tlb_hits,
                8,
            ),
            (
                "L1_INSTRUCTION_TLB_MISSES",
                |one| one.translation.l1_instruction_tlb_misses,
                0,
            ),
        ];
        check(&core, (4, 12), &events, &[], |asm, jumps| {
            for _ in 0..jumps {
                let next = asm.label();
                asm.jump(next);
                asm.align(64);
                asm.bind(next);
            }
            // What follows is one fetch up to the line's end.
            asm.nop();
        });
    }
}

/// A load behind a store to the same bytes takes them from the store queue, where the store is
/// until everything older has committed.
#[test]
fn loads_behind_stores() {
    let events: [Event; 3] = [
        ("STORES", |one| one.stores, 8),
        ("FORWARDED_LOADS", |one| one.forwarded_loads, 8),
        ("L1_DATA_MISSES", |one| one.data_misses, 0),
    ];
    let core = CoreSpec::hyperplane_table1();
    check(&core, (4, 12), &events, &[], |asm, pairs| {
        for _ in 0..pairs {
            asm.store_double(S6, T1, 0);
            asm.load_double(T2, T1, 0);
        }
    });
}

/// A branch that is met for the first time is predicted not to be taken; those here are. The branch
/// of a loop is predicted rightly when it has always been taken for long.
#[test]
fn branches() {
    let counted = |mispredictions| -> [Event; 2] {
        [
            ("BRANCHES", |one| one.branches, 8),
            ("MISPREDICTIONS", |one| one.mispredictions, mispredictions),
        ]
    };
    for core in models() {
        check(&core, (8, 16), &counted(8), &[], |asm, branches| {
            for _ in 0..branches {
                let over = asm.label();
                asm.branch(When::Equal, ZERO, ZERO, over);
                asm.nop();
                asm.bind(over);
            }
        });
        check(&core, (64, 72), &counted(0), &[], |asm, iterations| {
            asm.load_immediate(S1, iterations);
            let again = asm.label_here();
            asm.add_immediate(S1, S1, -1);
            asm.branch(When::NotEqual, S1, ZERO, again);
        });
    }
}

/// Follows pointers, with so many additions to each.
fn follow(asm: &mut Assembler, links: u64, additions: u64) {
    asm.load_immediate(S1, links);
    asm.align(64);
    let again = asm.label_here();
    asm.load_double(T1, T1, 0);
    for _ in 0..additions {
        asm.add_immediate(T1, T1, 0);
    }
    asm.add_immediate(S1, S1, -1);
    asm.branch(When::NotEqual, S1, ZERO, again);
}

/// Each of 16 links, in every other line of a page, asks for the line of the next one, which comes
/// 79 cycles later (`prefetchers.rs`). Of 300 additions between two links, the reorder buffer holds
/// 192, so a link is dispatched more than 100 cycles after the one before it has its value, and the
/// line has come: 16 prefetches are useful. With 20, a link is dispatched with the one before it,
/// and looks into the cache as soon as the time of its address is known: 16 are late, and misses.
#[test]
fn prefetches_into_the_first_level() {
    let core = CoreSpec {
        l1_data_prefetcher: DataPrefetcherKind::Stride,
        ..CoreSpec::hyperplane_table1()
    };
    for (additions, useful, late) in [(300, 16, 0), (20, 0, 16)] {
        let events: [Event; 6] = [
            ("L1_PREFETCHES", |one| one.l1_prefetches.issued, 16),
            (
                "L1_PREFETCHES_USEFUL",
                |one| one.l1_prefetches.useful,
                useful,
            ),
            ("L1_PREFETCHES_LATE", |one| one.l1_prefetches.late, late),
            (
                "L1_PREFETCHES_POLLUTING",
                |one| one.l1_prefetches.polluting,
                0,
            ),
            ("L1_DATA_HITS", |one| one.data_hits, useful),
            ("L1_DATA_MISSES", |one| one.data_misses, late),
        ];
        check(&core, (6, 22), &events, &chain(32, 128), |asm, links| {
            follow(asm, links, additions)
        });
    }
}

/// Of 16 lines, one after the other, eight miss the second level, and bring those beside them,
/// which have come when they are needed.
#[test]
fn prefetches_into_the_second_level() {
    let core = CoreSpec {
        l2: Some(SecondLevelSpec {
            prefetcher: PrefetcherKind::AdjacentLine,
            ..SecondLevelSpec::default()
        }),
        ..CoreSpec::hyperplane_table1()
    };
    let events: [Event; 7] = [
        ("L2_PREFETCHES", |one| one.l2_prefetches.issued, 8),
        ("L2_PREFETCHES_USEFUL", |one| one.l2_prefetches.useful, 8),
        ("L2_PREFETCHES_LATE", |one| one.l2_prefetches.late, 0),
        (
            "L2_PREFETCHES_POLLUTING",
            |one| one.l2_prefetches.polluting,
            0,
        ),
        ("L2_HITS", |one| one.l2_hits, 8),
        ("L2_MISSES", |one| one.l2_misses, 8),
        ("L1_DATA_MISSES", |one| one.data_misses, 16),
    ];
    check(&core, (8, 24), &events, &chain(32, 64), |asm, links| {
        follow(asm, links, 100)
    });
}

/// A core counts no event of what it does not have: `mhpmevent` stays 0, so that a program does not
/// take the absence of a TLB for the absence of misses.
#[test]
fn events_of_what_a_core_does_not_have_cannot_be_selected() {
    let plain = CoreSpec::hyperplane_table1();
    let mut whole = with_prefetchers(
        (DataPrefetcherKind::Stride, PrefetcherKind::Streamer),
        with_second_level(plain.clone()),
    );
    whole.translation = Some(TranslationSpec::default());
    const OF_MORE: [&str; 5] = ["L2_", "TLB_", "PAGE_", "PREFETCHES", "STRUCTURE_CACHE_"];
    let is_of_hart = |name: &str| !OF_MORE.iter().any(|part| name.contains(part));
    for (core, has_all) in [(plain, false), (whole, true)] {
        let mut asm = Assembler::new();
        asm.load_immediate(S6, RESULTS);
        for index in 0..EVENTS.len() {
            asm.load_immediate(T0, 1 + index as u64);
            asm.csr_write(EVENT + 3, T0);
            asm.csr_read(T1, EVENT + 3);
            asm.store_double(T1, S6, 8 * index as i64);
        }
        asm.halt();
        let machine = halted(&server(1, &core), asm.finish(&[]));
        for (index, (name, _)) in EVENTS.iter().enumerate() {
            let selected = read(&machine, RESULTS + 8 * index as u64);
            let expected = match has_all || is_of_hart(name) {
                true => 1 + index as u64,
                false => 0,
            };
            assert_eq!(selected, expected, "{name}");
        }
    }
}
