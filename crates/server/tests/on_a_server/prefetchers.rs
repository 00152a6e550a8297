//! Small programs whose cycles with each prefetcher follow from arithmetic.
//!
//! All of them follow chains of pointers, one load after the other, through lines accessed for the
//! first time; the measurement is the difference between two lengths of the same program.
//!
//! Let link `i` issue at `u(i)`. Its value can be used 79 cycles after its line was requested (4
//! for the cache's look-up, 1 to the bank, 10 there, 1 to the controller, 50 of memory, 1 back, 10
//! in the bank, 1 to the core, 1 to the use), but no sooner than 4 after it has issued. Without a
//! prefetcher, `u(i + 1) = u(i) + 79`. If link `i - d` has prefetched the line of link `i`, `u(i +
//! 1) = max(u(i) + 4, u(i - d) + 79)`: then `d + 1` links take 79 cycles.

use crate::common::assembler::*;
use crate::common::servers::{at_one_gigahertz, halted, non_inclusive, read};
use fabric::{
    DataPrefetcherKind, DirectorySpec, PrefetchStatistics, PrefetcherKind, SecondLevelSpec,
    SequentialPrefetcherKind, StrideSpec,
};
use pipeline::{CoreSpec, CoreStatistics, NEVER};
use server::{Machine, ServerSpec};

const RESULTS: u64 = 0x8010_0000;
const DATA: u64 = 0x8020_0000;
const PAGE: u64 = 4096;

fn one_tile(core: &CoreSpec) -> ServerSpec {
    at_one_gigahertz(1, core)
}

fn core() -> CoreSpec {
    CoreSpec::hyperplane_table1()
}

fn with_first(kind: DataPrefetcherKind) -> CoreSpec {
    CoreSpec {
        l1_data_prefetcher: kind,
        ..core()
    }
}

/// 9 cycles more before a miss leaves.
fn with_second(kind: PrefetcherKind) -> CoreSpec {
    CoreSpec {
        l2: Some(SecondLevelSpec {
            prefetcher: kind,
            ..SecondLevelSpec::default()
        }),
        ..core()
    }
}

/// Follows `links` links through places `place(0)`, `place(1)` and so on, `loads` of them in each
/// iteration of a loop, and then makes `additions` to the last one's value. Returns the cycles, and
/// the core's counts.
fn follow(
    core: &CoreSpec,
    iterations: u64,
    iteration: (u64, u64),
    place: impl Fn(u64) -> u64,
) -> (u64, CoreStatistics) {
    let (cycles, machine) = follow_on(&one_tile(core), iterations, iteration, place);
    (cycles, machine.engine.cores[0].statistics(NEVER))
}

/// The same on a server.
fn follow_on(
    spec: &ServerSpec,
    iterations: u64,
    (loads, additions): (u64, u64),
    place: impl Fn(u64) -> u64,
) -> (u64, Machine) {
    let mut asm = Assembler::new();
    asm.load_immediate(S6, RESULTS);
    asm.load_immediate(T1, place(0));
    asm.load_immediate(T2, iterations);
    asm.fence(RW, RW);
    asm.csr_read(S10, CYCLE);
    asm.align(64);
    let again = asm.label_here();
    for _ in 0..loads {
        asm.load_double(T1, T1, 0);
    }
    for _ in 0..additions {
        asm.add_immediate(T1, T1, 0);
    }
    asm.add_immediate(T2, T2, -1);
    asm.branch(When::NotEqual, T2, ZERO, again);
    asm.fence(RW, RW);
    asm.csr_read(S11, CYCLE);
    asm.operate(SUB, S11, S11, S10);
    asm.store_double(S11, S6, 0);
    asm.halt();
    let mut pages = vec![0; 64 * PAGE as usize];
    for link in 0..iterations * loads {
        let at = (place(link) - DATA) as usize;
        pages[at..at + 8].copy_from_slice(&place(link + 1).to_le_bytes());
    }
    let machine = halted(spec, asm.finish(&[(DATA, pages)]));
    (read(&machine, RESULTS), machine)
}

/// The cycles of the links from the `short`th iteration to the `long`th.
fn between(
    core: &CoreSpec,
    (short, long): (u64, u64),
    iteration: (u64, u64),
    place: impl Fn(u64) -> u64 + Copy,
) -> u64 {
    follow(core, long, iteration, place).0 - follow(core, short, iteration, place).0
}

fn lines(stride: u64) -> impl Fn(u64) -> u64 + Copy {
    move |link| DATA + link * stride * 64
}

#[test]
fn a_strided_walk() {
    assert_eq!(between(&core(), (12, 28), (1, 0), lines(2)), 16 * 79);
    let stride = with_first(DataPrefetcherKind::Stride);
    assert_eq!(between(&stride, (12, 28), (1, 0), lines(2)), 16 / 2 * 79);
    // Downwards from the last line but one of the page.
    let down = |link| DATA + PAGE - 128 - link * 128;
    assert_eq!(between(&stride, (12, 28), (1, 0), down), 16 / 2 * 79);
    // Three strides ahead.
    let far = CoreSpec {
        l1_data_stride: StrideSpec {
            distance: 3,
            ..StrideSpec::default()
        },
        ..stride
    };
    assert_eq!(between(&far, (12, 28), (1, 0), lines(2)), 16 / 4 * 79);
    // The next line is never the one needed.
    let next = with_first(DataPrefetcherKind::NextLine);
    assert_eq!(between(&next, (12, 28), (1, 0), lines(2)), 16 * 79);
}

/// Each link prefetches the line of the next one, with every prefetcher.
#[test]
fn a_sequential_walk() {
    for kind in [DataPrefetcherKind::NextLine, DataPrefetcherKind::Stride] {
        let core = with_first(kind);
        assert_eq!(
            between(&core, (20, 60), (1, 0), lines(1)),
            40 / 2 * 79,
            "{kind:?}"
        );
    }
}

/// The first load of a stride of two lines predicts nothing. From the second on, each prefetches
/// the line of the next one, up to the end of the page, which has 32 such lines. The 30 prefetched
/// lines have not arrived when they are needed, or just have, depending on the iteration.
#[test]
fn what_a_stride_prefetcher_does_is_counted() {
    let (_, counts) = follow(
        &with_first(DataPrefetcherKind::Stride),
        32,
        (1, 0),
        lines(2),
    );
    let PrefetchStatistics {
        issued,
        useful,
        late,
        unused,
        polluting,
    } = counts.l1_prefetches;
    assert_eq!([issued, useful + late, unused, polluting], [30, 30, 0, 0]);
    assert_eq!(
        (counts.data_hits, counts.data_misses),
        (useful, 32 - useful)
    );
}

/// A line of each page, at irregular distances: nothing is predicted for long, and predictions are
/// in other pages.
#[test]
fn a_pointer_chase_gains_nothing() {
    let scattered = |link| DATA + link * PAGE + link * (link + 1) / 2 % 63 * 64;
    for kind in [DataPrefetcherKind::NextLine, DataPrefetcherKind::Stride] {
        let core = with_first(kind);
        assert_eq!(
            between(&core, (20, 60), (1, 0), scattered),
            40 * 79,
            "{kind:?}"
        );
    }
    let (_, counts) = follow(
        &with_first(DataPrefetcherKind::Stride),
        60,
        (1, 0),
        scattered,
    );
    assert_eq!(counts.l1_prefetches, PrefetchStatistics::default());
    let beyond = 79 + 9;
    let kinds = [
        PrefetcherKind::NextLine,
        PrefetcherKind::Streamer,
        PrefetcherKind::AdjacentLine,
        PrefetcherKind::StreamerAndAdjacentLine,
    ];
    for kind in kinds {
        let core = with_second(kind);
        assert_eq!(
            between(&core, (20, 60), (1, 0), scattered),
            40 * beyond,
            "{kind:?}"
        );
    }
}

/// Two alternating loads, one advancing by a line in its page, the other by two lines in another
/// page. Each prefetches its own next line two links ahead, so that three links take 79 cycles. The
/// sequence of addresses alone has no stride.
#[test]
fn a_loop_with_two_strides() {
    let place = |link: u64| match link % 2 {
        0 => DATA + link / 2 * 64,
        _ => DATA + PAGE + link / 2 * 128,
    };
    assert_eq!(between(&core(), (10, 25), (2, 0), place), 30 * 79);
    let stride = with_first(DataPrefetcherKind::Stride);
    assert_eq!(between(&stride, (10, 25), (2, 0), place), 30 / 3 * 79);
}

/// Behind a first level, a miss takes 9 cycles more, and a hit of the second level 4 + 9 + 1.
///
/// The adjacent line is requested together with a line that misses. It arrives a cycle later: the
/// load that waited for the miss has just issued, and takes its value 4 cycles later.
#[test]
fn walks_through_a_second_level() {
    let (memory, hit) = (79 + 9, 4 + 9 + 1);
    let cycles = |kind| between(&with_second(kind), (32, 48), (1, 0), lines(1));
    assert_eq!(cycles(PrefetcherKind::None), 16 * memory);
    assert_eq!(cycles(PrefetcherKind::AdjacentLine), 8 * (memory + 4));
    // 20 additions in between give the streamer time to get ahead: then every link hits.
    let streamer = with_second(PrefetcherKind::Streamer);
    let slowly = between(&streamer, (32, 48), (1, 20), lines(1));
    assert_eq!(slowly, 16 * (hit + 20));
    // The same with the adjacent-line prefetcher, which adds nothing to a stream that is
    // prefetched; but lines outside streams are fetched in pairs.
    let both = with_second(PrefetcherKind::StreamerAndAdjacentLine);
    assert_eq!(between(&both, (32, 48), (1, 20), lines(1)), slowly);
    let pairs = |link: u64| DATA + link / 2 * PAGE + (2 * (link / 2) % 64 + link % 2) * 64;
    assert_eq!(between(&both, (20, 36), (1, 0), pairs), 8 * (memory + 4));
    // A link prefetches the next one's line, like a first level's prefetcher.
    assert_eq!(cycles(PrefetcherKind::NextLine), 16 / 2 * memory);
    // Every other line: each pair is accessed once.
    let apart = |kind| between(&with_second(kind), (8, 24), (1, 0), lines(2));
    assert_eq!(apart(PrefetcherKind::AdjacentLine), 16 * memory);
    assert_eq!(apart(PrefetcherKind::NextLine), 16 * memory);
}

/// `lines` lines of instructions, 16 per line, from the beginning of a page. Returns their cycles,
/// and the core's counts.
fn straight(core: &CoreSpec, lines: u64) -> (u64, CoreStatistics) {
    let mut asm = Assembler::new();
    asm.load_immediate(S6, RESULTS);
    asm.fence(RW, RW);
    asm.csr_read(S10, CYCLE);
    let code = asm.label();
    asm.jump(code);
    asm.align(PAGE as usize);
    asm.bind(code);
    for _ in 0..16 * lines {
        asm.nop();
    }
    asm.csr_read(S11, CYCLE);
    asm.operate(SUB, S11, S11, S10);
    asm.store_double(S11, S6, 0);
    asm.halt();
    let machine = halted(&one_tile(core), asm.finish(&[]));
    (
        read(&machine, RESULTS),
        machine.engine.cores[0].statistics(NEVER),
    )
}

/// A line of instructions can be dispatched 76 cycles after it was requested: 2 for the cache's
/// look-up, and 74 as above without those of a load. Its 16 instructions take `d` cycles, the last
/// of which is that of the next look-up's line. Without a prefetcher, a line takes `76 + d` cycles.
///
/// With one, a line is requested when the previous line is looked up, whether that has arrived or
/// not: a look-up is at `l(i + 1) = max(l(i), l(i - 1) + 76) + d`. Two lines take `76 + d` cycles.
#[test]
fn a_straight_run_of_instructions() {
    let mut in_order = CoreSpec::five_stage();
    // One miss register is reserved for demand misses.
    in_order.l1_instruction.mshrs = 4;
    for (core, cycles) in [(core(), 2), (in_order, 16)] {
        let between = |core: &CoreSpec| straight(core, 40).0 - straight(core, 24).0;
        let line = 74 + core.l1_instruction.hit_latency_cycles + cycles;
        assert_eq!(between(&core), 16 * line, "{:?}", core.model);
        let next = CoreSpec {
            l1_instruction_prefetcher: SequentialPrefetcherKind::NextLine,
            ..core
        };
        assert_eq!(between(&next), 16 / 2 * line, "{:?}", next.model);
    }
}

/// Every line of the page but its first is prefetched; half of them are late, and the others arrive
/// in time.
#[test]
fn what_an_instruction_prefetcher_does_is_counted() {
    let next = CoreSpec {
        l1_instruction_prefetcher: SequentialPrefetcherKind::NextLine,
        ..core()
    };
    let (_, before) = straight(&next, 24);
    let (_, counts) = straight(&next, 40);
    let [before, counts] = [before, counts].map(|one| one.l1_instruction_prefetches);
    assert_eq!(counts.issued - before.issued, 16);
    assert_eq!(counts.useful - before.useful, 8);
    assert_eq!(counts.late - before.late, 8);
    assert_eq!(counts.polluting, 0);
}

/// With a prefetcher at the home.
fn with_last_level(mut spec: ServerSpec) -> ServerSpec {
    spec.fabric.last_level.prefetcher = SequentialPrefetcherKind::NextLine;
    spec
}

/// Let link `i` arrive at its home at `l(i)`. If its line is there, link `i + 1` arrives 17 cycles
/// and the additions later (10 in the bank, 1 to the core, 1 to the use, 4 for the cache's look-up,
/// 1 to the bank), and otherwise 79. If it prefetched the line of link `i + 1`, that arrives in the
/// last-level cache at `l(i) + 73`: 10 in the bank, 1 to the home of the next line, which is the
/// same, 10 there, 1 to the controller, 50 of memory, 1 back.
#[test]
fn walks_through_a_last_level_cache() {
    let between = |spec: &ServerSpec, additions, place: fn(u64) -> u64| {
        let cycles = |links| follow_on(spec, links, (1, additions), place).0;
        cycles(48) - cycles(32)
    };
    let none = one_tile(&core());
    let next = with_last_level(none.clone());
    let each = |link| DATA + link * 64;
    let every_other = |link| DATA + link * 128;
    // The next line arrives in time.
    assert_eq!(between(&none, 100, each), 16 * (79 + 100));
    assert_eq!(between(&next, 100, each), 16 * (17 + 100));
    // It is late: `l(i + 1) = max(l(i), l(i - 1) + 73) + 17`, and two links take 90 cycles. Every
    // other link is due at the bank in the same cycle as its line, so the bank accepts it a cycle
    // later; by then the prefetch of the next one has begun.
    assert_eq!(between(&none, 0, each), 16 * 79);
    assert_eq!(between(&next, 0, each), 16 / 2 * (73 + 17));
    // The next line is never the one needed.
    assert_eq!(between(&next, 0, every_other), 16 * 79);
}

/// From the 32nd line of a page to its end, each line is prefetched and used, except the line after
/// the 32nd, which the shorter walk has fetched, too. No line of the next page is.
#[test]
fn what_a_last_level_prefetcher_does_is_counted() {
    let mut beside = non_inclusive(one_tile(&core()));
    beside.fabric.last_level.size_bytes_per_bank = 1 << 20;
    // A line requested from memory needs an entry.
    beside.fabric.last_level.directory = Some(DirectorySpec::default());
    for spec in [one_tile(&core()), beside] {
        let spec = with_last_level(spec);
        let [before, after] = [32, 64].map(|links| {
            let (_, machine) = follow_on(&spec, links, (1, 100), lines(1));
            let counts = machine.engine.fabric.statistics();
            counts.last_level_prefetches.unwrap()
        });
        assert_eq!(after.issued - before.issued, 31);
        assert_eq!(after.useful - before.useful, 32);
        assert_eq!((after.late, after.polluting), (before.late, 0));
    }
}
