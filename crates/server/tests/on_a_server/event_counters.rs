//! Programs that read event counters, whose values are computed by arithmetic and equal those in
//! the results.
//!
//! Each program repeats an operation, reads the counters through `mhpmcounter`, and is run with few
//! and with many repetitions: the difference between the counters is due to the additional ones.
//! The same holds for the results, which also include the start and the end of the program.

use crate::common::assembler::*;
use crate::common::servers::{
    at_one_gigahertz, halted, models, models_of_all_levels, read, server, with_lru,
    with_prefetchers, with_second_level, with_total_store_order,
};
use fabric::{DataPrefetcherKind, PrefetcherKind, SecondLevelSpec};
use pipeline::{
    CoreSpec, CoreStatistics, EVENTS, FirstLevelTlbSpec, Model, NEVER, PagingMode,
    StructureCachesSpec, TlbPagesSpec, TranslationSpec,
};

const RESULTS: u64 = 0x8010_0800;
const DATA: u64 = 0x8020_0400;
const EVENT: u32 = 0x320;
const COUNTER: u32 = 0xb00;
/// The registers that hold the counters' values until all have been read: a store would be counted.
const VALUES: [u8; 8] = [A0, A1, A2, A3, A4, A5, A6, A7];

/// An event, its count in the results, and its number in the additional repetitions.
type Event = (&'static str, fn(&CoreStatistics) -> u64, u64);

/// The program of a core: an operation with a number of repetitions.
type Program<'a> = &'a dyn Fn(&mut Assembler, u64);

/// Compares the counters of a core with the expected effect on `program` of `many` instead of `few`
/// repetitions.
fn check(
    core: &CoreSpec,
    times: (u64, u64),
    events: &[Event],
    data: &[(u64, Vec<u8>)],
    program: impl Fn(&mut Assembler, u64),
) {
    check_beside(None, core, times, events, data, &program);
}

/// The same beside another core, with its own program.
fn check_beside(
    other: Option<Program<'_>>,
    core: &CoreSpec,
    (few, many): (u64, u64),
    events: &[Event],
    data: &[(u64, Vec<u8>)],
    program: Program<'_>,
) {
    let number = |name| 1 + EVENTS.iter().position(|one| one.0 == name).unwrap() as u64;
    let cores = 1 + usize::from(other.is_some());
    let measured = |asm: &mut Assembler, times| {
        for (counter, event) in (3..).zip(events) {
            asm.load_immediate(T0, number(event.0));
            asm.csr_write(EVENT + counter, T0);
        }
        asm.load_immediate(S6, RESULTS);
        asm.load_immediate(T1, DATA);
        program(asm, times);
        asm.fence(RW, RW);
        for (counter, &value) in (3..).zip(&VALUES[..events.len()]) {
            asm.csr_read(value, COUNTER + counter);
        }
        for (offset, &value) in (0..).step_by(8).zip(&VALUES[..events.len()]) {
            asm.store_double(value, S6, offset);
        }
        asm.halt();
    };
    let run = |times| {
        let mut asm = Assembler::new();
        asm.harts(cores, |asm, hart| match other {
            Some(other) if hart == 1 => {
                other(asm, times);
                asm.halt();
            }
            _ => measured(asm, times),
        });
        let machine = halted(&at_one_gigahertz(cores, core), asm.finish(data));
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

/// A list of pointers, each at a distance from the previous one, from which it is loaded.
fn chain(pointers: u64, distance: u64) -> Vec<(u64, Vec<u8>)> {
    let place = |link: u64| DATA + link % pointers * distance;
    let link = |link| (place(link), place(link + 1).to_le_bytes().to_vec());
    (0..pointers).map(link).collect()
}

/// Eight loads access eight pages, two more rounds of them. If all fit into the first-level TLB,
/// these are 16 hits. If it holds four, which are always evicted before reuse, these are 16 misses,
/// which hit in the second level; or walks, if that holds one. A walk reads three entries, one
/// after the other, from the data cache, or only the last one if a cache of the upper levels has
/// the others: 3 x 4 cycles or 4 out of order, 3 x 2 or 2 in order.
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
            // Each in another set, and one line of entries for all.
            let data = chain(PAGES, 4096 + 64);
            check(&core, (2, 4), &events, &data, |asm, rounds| {
                for _ in 0..rounds * PAGES {
                    asm.load_double(T1, T1, 0);
                }
            });
        }
    }
}

/// A jump to the next line is a fetch. Its page is that of the previous one, and its line is new.
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
            // The following instructions are one fetch up to the line's end.
            asm.nop();
        });
    }
}

/// A loop in one line is one fetch per iteration, and a loop in two lines, of which the first ends
/// with or without a jump, is two. Its lines arrive in the first iteration.
#[test]
fn fetches_of_a_loop() {
    let counted = |hits| -> [Event; 2] {
        [
            ("L1_INSTRUCTION_HITS", |one| one.instruction_hits, hits),
            ("L1_INSTRUCTION_MISSES", |one| one.instruction_misses, 0),
        ]
    };
    // The number of instructions in the loop's first line, besides the branch or the jump.
    for (fetches, in_line, jumps) in [(1, 4, false), (2, 4, true), (2, 16, false)] {
        for core in models_of_all_levels() {
            check(&core, (64, 72), &counted(8 * fetches), &[], |asm, times| {
                asm.load_immediate(S1, times);
                asm.align(64);
                let again = asm.label_here();
                for _ in 0..in_line {
                    asm.add_immediate(T1, T1, 0);
                }
                if jumps {
                    let next = asm.label();
                    asm.jump(next);
                    asm.align(64);
                    asm.bind(next);
                }
                asm.add_immediate(S1, S1, -1);
                asm.branch(When::NotEqual, S1, ZERO, again);
            });
        }
    }
}

/// A load after a store to the same bytes takes them from the store queue, where the store stays
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

/// A branch is predicted not taken at its first occurrence; those here are taken. The branch of a
/// loop is predicted correctly once it has been taken for long.
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

/// Follows pointers, with a number of additions for each.
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

/// Each of 16 links, in every other line of a page, prefetches the line of the next one, which
/// arrives 79 cycles later (`prefetchers.rs`). Of 300 additions between two links, the reorder
/// buffer holds 192, so a link is dispatched more than 100 cycles after the previous one has its
/// value, and its line has arrived: 16 prefetches are useful. With 20, a link is dispatched
/// together with the previous one, and looks up the cache as soon as its address is known: 16
/// prefetches are late, and the accesses are misses.
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

/// Of 16 consecutive lines, eight miss the second level, and prefetch their neighbours, which have
/// arrived when they are needed.
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

/// Both levels of the core, of four ways or fewer, have the pointers in one set, and always evict
/// them before reuse; the last-level cache, of 16 ways, has room for 16 in two sets. Another 16
/// links are misses of the core that it serves. Links to lines that were never loaded before come
/// from memory.
#[test]
fn lines_of_the_last_level() {
    const LINKS: u64 = 16;
    for mut core in models_of_all_levels().map(with_lru) {
        if let Some(l2) = &mut core.l2 {
            l2.replacement = core.l1_data.replacement;
        }
        let of_second = match core.l2 {
            Some(_) => LINKS,
            None => 0,
        };
        // 32 KB: the size of a way of the second level, or of four of the first.
        for (pointers, distance, last) in [(LINKS, 32 << 10, [LINKS, 0]), (64, 64, [0, LINKS])] {
            let events: [Event; 5] = [
                ("L1_DATA_MISSES", |one| one.data_misses, LINKS),
                ("LAST_LEVEL_HITS", |one| one.last_level_hits, last[0]),
                ("LAST_LEVEL_MISSES", |one| one.last_level_misses, last[1]),
                ("REMOTE_CACHE_HITS", |one| one.remote_cache_hits, 0),
                ("L2_MISSES", |one| one.l2_misses, of_second),
            ];
            let events = match core.l2 {
                Some(_) => &events[..],
                None => &events[..4],
            };
            let times = (2 * LINKS, 3 * LINKS);
            check(
                &core,
                times,
                events,
                &chain(pointers, distance),
                |asm, links| follow(asm, links, 0),
            );
        }
    }
}

/// Another core writes a number of lines long before this one loads them, and owns them: each is
/// sent from its cache. When this core writes them afterwards, the last-level cache grants the
/// permission. Eight lines more are 16 instructions more, which are one line of code from memory.
#[test]
fn lines_of_another_core() {
    for core in models_of_all_levels() {
        let events: [Event; 4] = [
            ("L1_DATA_MISSES", |one| one.data_misses, 8),
            ("REMOTE_CACHE_HITS", |one| one.remote_cache_hits, 8),
            ("LAST_LEVEL_HITS", |one| one.last_level_hits, 8),
            ("LAST_LEVEL_MISSES", |one| one.last_level_misses, 1),
        ];
        let writes = |asm: &mut Assembler, lines: u64| {
            for line in 0..lines as i64 {
                asm.store_double(ZERO, T1, 64 * line);
            }
        };
        let other = |asm: &mut Assembler, lines| {
            asm.load_immediate(T1, DATA);
            writes(asm, lines);
        };
        check_beside(Some(&other), &core, (8, 16), &events, &[], &|asm, lines| {
            wait(asm, 10_000);
            for line in 0..lines as i64 {
                asm.load_double(T2, T1, 64 * line);
            }
            asm.fence(RW, RW);
            writes(asm, lines);
        });
    }
}

/// Loops for a number of iterations without other work.
fn wait(asm: &mut Assembler, iterations: u64) {
    asm.load_immediate(S1, iterations);
    let again = asm.label_here();
    asm.add_immediate(S1, S1, -1);
    asm.branch(When::NotEqual, S1, ZERO, again);
}

/// Later instructions are dispatched when everything older has committed.
fn alone(asm: &mut Assembler) {
    asm.csr_read(ZERO, COUNTER);
}

/// The lines that have never been loaded before, one for each repetition.
const COLD: u64 = DATA + 0x1000;

fn cold_lines(times: u64, value: u64) -> Vec<(u64, Vec<u8>)> {
    let line = |time| (COLD + 64 * time, value.to_le_bytes().to_vec());
    (0..times).map(line).collect()
}

/// A branch is predicted not taken at its first occurrence. Its outcome depends on a load from
/// memory, and meanwhile the five instructions after the branch are dispatched, up to one that
/// executes alone and therefore is not: five are squashed each time. In order, the branch waits for
/// its operand, and no later instruction is dispatched.
#[test]
fn squashes_of_wrong_paths() {
    for core in models() {
        let squashed = match core.model {
            Model::OutOfOrder => 8 * 5,
            Model::InOrder => 0,
        };
        let events: [Event; 3] = [
            ("MISPREDICTIONS", |one| one.mispredictions, 8),
            (
                "SQUASHED_INSTRUCTIONS",
                |one| one.squashed_instructions,
                squashed,
            ),
            ("MEMORY_ORDER_SQUASHES", |one| one.memory_order_squashes, 0),
        ];
        check(&core, (4, 12), &events, &cold_lines(12, 1), |asm, times| {
            asm.load_immediate(T1, COLD);
            for _ in 0..times {
                let over = asm.label();
                asm.align(64);
                alone(asm);
                asm.load_double(T2, T1, 0);
                asm.add_immediate(T1, T1, 64);
                asm.branch(When::NotEqual, T2, ZERO, over);
                for _ in 0..5 {
                    asm.nop();
                }
                alone(asm);
                asm.bind(over);
            }
            alone(asm);
        });
    }
}

/// The address of a store is loaded from memory, and a later load, at its first occurrence, does
/// not wait for it: it takes its value from the cache. When the store turns out to be to the same
/// bytes, the load is squashed with the three instructions after it, up to one that executes alone.
/// In order, a load does not overtake a store whose address is not known.
#[test]
fn squashes_of_loads_before_older_stores() {
    for core in models() {
        let times = match core.model {
            Model::OutOfOrder => 8,
            Model::InOrder => 0,
        };
        let events: [Event; 3] = [
            (
                "MEMORY_ORDER_SQUASHES",
                |one| one.memory_order_squashes,
                times,
            ),
            (
                "SQUASHED_INSTRUCTIONS",
                |one| one.squashed_instructions,
                times * 4,
            ),
            ("MISPREDICTIONS", |one| one.mispredictions, 0),
        ];
        check(
            &core,
            (4, 12),
            &events,
            &cold_lines(12, DATA),
            |asm, times| {
                asm.load_immediate(T2, COLD);
                asm.load_double(T0, T1, 0);
                for _ in 0..times {
                    asm.align(64);
                    alone(asm);
                    asm.load_double(S2, T2, 0);
                    asm.add_immediate(T2, T2, 64);
                    asm.store_double(S6, S2, 0);
                    asm.load_double(T0, T1, 0);
                    for _ in 0..3 {
                        asm.nop();
                    }
                    alone(asm);
                }
            },
        );
    }
}

/// A load completes while 16 older ones, each with its address from the previous one, wait for
/// memory, and meanwhile another core writes its line. It is squashed, with the three instructions
/// after it: with total store order, because older loads are not done, and with the weak memory
/// model, because one whose address is not known may be of the same line.
#[test]
fn squashes_of_loads_before_stores_of_another_core() {
    let weak = CoreSpec::hyperplane_table1();
    for core in [with_total_store_order(weak.clone()), weak] {
        let mut asm = Assembler::new();
        asm.harts(2, |asm, hart| {
            asm.load_immediate(S6, DATA);
            if hart == 0 {
                asm.load_immediate(T1, COLD);
                asm.load_double(T0, S6, 0);
                asm.align(64);
                alone(asm);
                for _ in 0..16 {
                    asm.load_double(T1, T1, 0);
                }
                asm.load_double(T0, S6, 0);
                for _ in 0..3 {
                    asm.nop();
                }
                alone(asm);
            } else {
                wait(asm, 800);
                asm.store_double(S6, S6, 0);
            }
            asm.halt();
        });
        let link = |line: u64| {
            (
                COLD + 64 * line,
                (COLD + 64 * (line + 1)).to_le_bytes().to_vec(),
            )
        };
        let data: Vec<_> = (0..17).map(link).collect();
        let machine = halted(&server(2, &core), asm.finish(&data));
        let counted = machine.engine.cores[0].statistics(NEVER);
        assert_eq!(
            (counted.memory_order_squashes, counted.squashed_instructions),
            (1, 4),
            "{:?}",
            core.memory_model
        );
    }
}

/// A core has no events of absent hardware: `mhpmevent` stays 0, so that a program does not mistake
/// a missing TLB for one without misses.
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
