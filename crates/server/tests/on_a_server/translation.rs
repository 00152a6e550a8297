//! Small programs whose cycles with address translation follow from arithmetic, and programs that
//! must not be affected by it.
//!
//! Chains of accesses, each with its address from the previous one, go through pages whose lines
//! and tables are in the data cache. One round of many is measured, and compared with the same core
//! without translation.

use crate::common::assembler::*;
use crate::common::servers::{self, at_one_gigahertz, halted, models, read, with_lru};
use pipeline::{
    CoreSpec, FirstLevelTlbSpec, Model, NEVER, PageSize, PagingMode, StructureCachesSpec,
    TlbPagesSpec, TranslationSpec, TranslationStatistics,
};
use server::ServerSpec;

const RESULTS: u64 = 0x8010_0800;
/// The start of chains: neither tables nor results are in the same sets.
const DATA: u64 = 0x8020_0400;
/// The distance to the next page, and to another set.
const STRIDE: u64 = 4096 + 64;
/// Pages of a chain, which its tables map with one line of entries.
const PAGES: u64 = 8;
/// Cycles of a hit in the second-level TLB.
const SECOND: u64 = 9;
const ROUNDS: u64 = 3;

fn one_tile(core: &CoreSpec) -> ServerSpec {
    at_one_gigahertz(1, core)
}

fn pages(entries: u32, ways: u32) -> TlbPagesSpec {
    TlbPagesSpec { entries, ways }
}

/// A first-level TLB with this number of entries for pages of each size, in one set.
fn first_level(entries: u32) -> FirstLevelTlbSpec {
    FirstLevelTlbSpec {
        pages_4kb: pages(entries, entries),
        pages_2mb: pages(entries, entries),
        pages_1gb: pages(entries, entries),
    }
}

/// Sv39 with pages of 4 KB, otherwise as in Skylake.
fn sv39() -> TranslationSpec {
    TranslationSpec {
        mode: PagingMode::Sv39,
        ..TranslationSpec::default()
    }
}

/// No data access of a chain hits in the first level.
fn misses_first() -> TranslationSpec {
    TranslationSpec {
        l1_data_tlb: first_level(4),
        ..sv39()
    }
}

/// Each data access of a chain causes a page walk.
fn misses_both() -> TranslationSpec {
    let mut spec = misses_first();
    spec.l2_tlb.pages_4kb_2mb = pages(1, 1);
    spec.l2_tlb.pages_1gb = pages(1, 1);
    spec
}

/// The cycles of the last round of a program that executes `body` in each round, with pointers in a
/// chain of this length and stride and the first in `T1`; and the core's counts.
fn last_round(
    core: &CoreSpec,
    translation: Option<TranslationSpec>,
    (pointers, stride): (u64, u64),
    body: impl Fn(&mut Assembler),
) -> (u64, TranslationStatistics) {
    let core = CoreSpec {
        translation,
        ..with_lru(core.clone())
    };
    let mut asm = Assembler::new();
    asm.load_immediate(S6, RESULTS);
    asm.load_immediate(S5, ROUNDS);
    asm.align(64);
    let again = asm.label_here();
    asm.load_immediate(T1, DATA);
    asm.fence(RW, RW);
    asm.csr_read(S10, CYCLE);
    body(&mut asm);
    asm.csr_read(S11, CYCLE);
    asm.operate(SUB, S11, S11, S10);
    asm.store_double(S11, S6, 0);
    asm.add_immediate(S5, S5, -1);
    let done = asm.label();
    asm.branch(When::Equal, S5, ZERO, done);
    asm.jump(again);
    asm.bind(done);
    asm.halt();
    let data: Vec<(u64, Vec<u8>)> = (0..pointers)
        .map(|link| {
            let next = DATA + (link + 1) % pointers * stride;
            (DATA + link * stride, next.to_le_bytes().to_vec())
        })
        .collect();
    let machine = halted(&one_tile(&core), asm.finish(&data));
    let statistics = machine.engine.cores[0].statistics(NEVER);
    (read(&machine, RESULTS), statistics.translation)
}

/// The additional cycles of a chain compared with a core without translation.
fn more(
    core: &CoreSpec,
    translation: TranslationSpec,
    chain: (u64, u64),
    body: impl Fn(&mut Assembler),
) -> u64 {
    let with = last_round(core, Some(translation), chain, &body).0;
    with - last_round(core, None, chain, &body).0
}

fn loads(asm: &mut Assembler) {
    for _ in 0..PAGES {
        asm.load_double(T1, T1, 0);
    }
}

/// A hit in the first level costs nothing; a miss costs the second level's latency; and a page walk
/// additionally costs as many hits of the data cache as there are levels above the page. The
/// caches' hits take 4 cycles out of order, 2 in order.
#[test]
fn a_chain_of_loads_waits_for_each_page() {
    let chain = (PAGES, STRIDE);
    for (core, hit) in models().into_iter().zip([4, 2]) {
        let more = |translation, chain| more(&core, translation, chain, loads);
        assert_eq!(more(sv39(), chain), 0);
        assert_eq!(more(misses_first(), chain), PAGES * SECOND);
        assert_eq!(more(misses_both(), chain), PAGES * (SECOND + 3 * hit));
        let four_levels = TranslationSpec {
            mode: PagingMode::Sv48,
            ..misses_both()
        };
        assert_eq!(more(four_levels, chain), PAGES * (SECOND + 4 * hit));
        // Six pages of 2 MB are in memory; each is two levels deep.
        let large = TranslationSpec {
            page: PageSize::Large,
            ..misses_both()
        };
        let far = (6, (2 << 20) + 64);
        // The last two of eight loads are in the pages with which the next round begins.
        assert_eq!(more(large, far), 6 * (SECOND + 2 * hit));
        assert_eq!(more(large, chain), 0, "all of it is in one page");
        let huge = TranslationSpec {
            page: PageSize::Huge,
            ..misses_both()
        };
        assert_eq!(more(huge, far), 0);
    }
}

/// Entries in the caches of upper levels are not read again: with entries for the 2 MB of the chain
/// and of the results, a walk reads only the last level; with one for their gigabyte, two; with one
/// for the 512 GB of Sv48, three.
#[test]
fn structure_caches_shorten_walks() {
    let caches = |pde_entries, pdpte_entries, pml4e_entries| StructureCachesSpec {
        pde_entries,
        pdpte_entries,
        pml4e_entries,
    };
    for (core, hit) in models().into_iter().zip([4, 2]) {
        for (mode, levels) in [(PagingMode::Sv39, 3), (PagingMode::Sv48, 4)] {
            let more = |structure_caches| {
                let translation = TranslationSpec {
                    mode,
                    structure_caches: Some(structure_caches),
                    ..misses_both()
                };
                more(&core, translation, (PAGES, STRIDE), loads)
            };
            let walks = |loads: u64| PAGES * (SECOND + loads * hit);
            assert_eq!(more(caches(0, 0, 0)), walks(levels));
            assert_eq!(more(caches(2, 0, 0)), walks(1));
            assert_eq!(more(caches(0, 1, 0)), walks(2));
            // Sv39 has no such level.
            assert_eq!(more(caches(0, 0, 1)), walks(3));
            assert_eq!(more(StructureCachesSpec::default()), walks(1));
        }
    }
}

/// A load of a page with a pending look-up waits for that look-up: the chain goes through the
/// second of two loads, which issues a cycle later than the first.
#[test]
fn a_second_load_of_a_page_waits_with_the_first() {
    let core = CoreSpec::hyperplane_table1();
    let more = |translation| {
        more(&core, translation, (PAGES, STRIDE), |asm| {
            for _ in 0..PAGES {
                asm.load_double(T2, T1, 0);
                asm.add_immediate(T1, T1, 0);
                asm.load_double(T1, T1, 0);
            }
        })
    };
    assert_eq!(more(misses_first()), PAGES * (SECOND - 1));
    assert_eq!(more(misses_both()), PAGES * (SECOND + 3 * 4 - 1));
}

/// An atomic is performed when its page is known, and so is every instruction that executes alone.
/// All atomics but the first have a cycle for that anyway: the previous one commits a cycle after
/// its value can be used.
#[test]
fn atomics_and_reservations_wait_for_their_pages() {
    let chain = (PAGES, STRIDE);
    let atomics = |asm: &mut Assembler| {
        for _ in 0..PAGES {
            asm.amo(AMO_ADD, RELAXED, 8, T1, ZERO, T1);
        }
    };
    let reservations = |asm: &mut Assembler| {
        for _ in 0..PAGES {
            asm.load_reserved(RELAXED, 8, T1, T1);
        }
    };
    for (core, hit) in models().into_iter().zip([4, 2]) {
        for (body, spare) in [
            (&atomics as &dyn Fn(&mut Assembler), PAGES - 1),
            (&reservations, 0),
        ] {
            let more = |translation| more(&core, translation, chain, body);
            assert_eq!(more(sv39()), 0);
            assert_eq!(more(misses_first()), PAGES * SECOND - spare);
            assert_eq!(more(misses_both()), PAGES * (SECOND + 3 * hit) - spare);
        }
    }
}

/// Independent loads share the walkers: a walk of 12 cycles begins every 12 cycles with one walker,
/// every 6 with two.
#[test]
fn walks_are_limited_by_walkers() {
    let core = CoreSpec::hyperplane_table1();
    let cycles = |page_walkers, count: u64| {
        let translation = TranslationSpec {
            page_walkers,
            ..misses_both()
        };
        let found = last_round(&core, Some(translation), (0, 0), |asm| {
            asm.load_immediate(T3, STRIDE);
            for _ in 0..count {
                asm.load_double(T2, T1, 0);
                asm.add(T1, T1, T3);
            }
            asm.fence(R, R);
        });
        found.0
    };
    for (walkers, each) in [(1, 12), (2, 6)] {
        assert_eq!(
            cycles(walkers, 16) - cycles(walkers, 8),
            8 * each,
            "{walkers}"
        );
    }
}

/// A jump into each page of code.
#[test]
fn fetches_wait_for_their_pages() {
    let body = |asm: &mut Assembler| {
        for _ in 0..PAGES {
            let next = asm.label();
            asm.jump(next);
            asm.align(4096);
            for _ in 0..16 {
                asm.nop();
            }
            asm.bind(next);
        }
    };
    for core in models() {
        let misses = TranslationSpec {
            l1_instruction_tlb: first_level(4),
            ..sv39()
        };
        assert_eq!(more(&core, sv39(), (0, 0), body), 0);
        // The page in which the round begins is one more, and its end is in the last one.
        let first = last_round(&core, Some(misses), (0, 0), body).1;
        assert_eq!(more(&core, misses, (0, 0), body), PAGES * SECOND);
        assert_eq!(first.l1_instruction_tlb_misses, ROUNDS * (PAGES + 1));
        // With enough entries these misses hit: a core in order makes the same fetches.
        let roomy = last_round(&core, Some(sv39()), (0, 0), body).1;
        let more_hits = roomy.l1_instruction_tlb_hits - first.l1_instruction_tlb_hits;
        assert!(
            more_hits >= (ROUNDS - 1) * PAGES,
            "all but the first round's"
        );
        if core.model == Model::InOrder {
            let fetches = [first, roomy]
                .map(|one| one.l1_instruction_tlb_hits + one.l1_instruction_tlb_misses);
            assert_eq!(fetches[0], fetches[1]);
        }
    }
}

/// An access that crosses a page looks up both pages.
#[test]
fn an_access_in_two_pages_waits_for_both() {
    for core in models() {
        let body = |asm: &mut Assembler| {
            // From 4 bytes before the end of a page into the next page.
            asm.load_immediate(T1, DATA & !4095);
            asm.load_immediate(T3, 4096);
            for _ in 0..PAGES {
                asm.add(T1, T1, T3);
                asm.load_double(T2, T1, -4);
            }
        };
        // Each page but the first is used twice, and was used immediately before.
        let expected = (PAGES + 1) * SECOND;
        assert_eq!(more(&core, misses_first(), (0, 0), body), expected);
        // With one entry, the other page is evicted each time.
        let one = TranslationSpec {
            l1_data_tlb: first_level(1),
            ..sv39()
        };
        assert_eq!(more(&core, one, (0, 0), body), expected);
    }
}

/// A working set of more pages than the second level holds: each round misses for each of them.
/// Both levels hold all of the larger pages.
#[test]
fn misses_are_counted() {
    let chain = (2000, STRIDE);
    let count = |page| {
        let translation = TranslationSpec { page, ..sv39() };
        let body = |asm: &mut Assembler| {
            asm.load_immediate(T2, chain.0);
            let again = asm.label_here();
            asm.load_double(T1, T1, 0);
            asm.add_immediate(T2, T2, -1);
            asm.branch(When::NotEqual, T2, ZERO, again);
        };
        let core = CoreSpec::hyperplane_table1();
        last_round(&core, Some(translation), chain, body).1
    };
    let small = count(PageSize::Small);
    // A page for the results, and one of code.
    assert!(small.l1_data_tlb_misses >= ROUNDS * chain.0);
    assert!(small.l2_tlb_misses >= ROUNDS * chain.0);
    assert_eq!(small.page_walk_loads, 3 * small.l2_tlb_misses);
    assert!(small.page_walk_cycles >= 4 * small.page_walk_loads);
    assert_eq!(small.l2_tlb_hits, 0, "they are used in turn");
    let huge = count(PageSize::Huge);
    // Each load of a round and the store of its result, less the first one, which has missed. Loads
    // on wrong paths also use pages: one at the end of a loop, when its branch was mispredicted.
    let hits = ROUNDS * (chain.0 + 1) - 1;
    assert!((hits..=hits + ROUNDS).contains(&huge.l1_data_tlb_hits));
    assert_eq!(huge.l2_tlb_hits, 1);
    // Code and data are in the same gigabyte: it is walked once, and found once in the second
    // level.
    let found = (
        huge.l1_data_tlb_misses,
        huge.l1_instruction_tlb_misses,
        huge.l2_tlb_misses,
        huge.page_walk_loads,
    );
    assert_eq!(found, (1, 1, 1, 1));
}

/// To a program there is no memory at the addresses of its page tables.
#[test]
fn programs_do_not_reach_their_page_tables() {
    let core = CoreSpec {
        translation: Some(sv39()),
        ..CoreSpec::five_stage()
    };
    let mut asm = Assembler::new();
    asm.load_immediate(T1, 0x6d00_0000);
    asm.load_double(T1, T1, 0);
    asm.halt();
    let mut machine = servers::machine(&one_tile(&core), asm.finish(&[]));
    let servers::Ending::Failed(text) = servers::run(&mut machine) else {
        panic!("it has been read");
    };
    assert!(
        text.contains("load access fault") && text.contains("value 0x6d000000"),
        "{text}"
    );
}
