//! Prefetch instructions ("Zicbop"): small programs whose cycles follow from arithmetic, the
//! effects on lines and pages, and the absence of faults.
//!
//! A load that misses can be used 79 cycles after it has issued out of order, and 77 in order: 4 or
//! 2 for the cache's look-up, 1 to the bank, 10 there, 1 to the controller, 50 of memory, 1 back,
//! 10 in the bank, 1 to the core, 1 to the use.

use crate::common::assembler::*;
use crate::common::servers::{
    at_one_gigahertz, halted, models, read, with_second_level, with_small_tlbs, with_threads,
};
use fabric::{LineAddress, State};
use pipeline::{CoreSpec, CoreStatistics, Model, SoftwarePrefetchStatistics};
use server::{Machine, ServerSpec};

const RESULTS: u64 = 0x8010_0000;
const DATA: u64 = 0x8020_0000;
/// A cycle after the end of all programs, for counting up to it.
const MUCH_LATER: u64 = 1 << 40;
/// An unmapped address.
const NOTHING: u64 = 0x4000_0000;
/// The interrupt controller of the cores.
const DEVICE: u64 = 0x0200_0000;

/// Cores at a gigahertz, so that a nanosecond is a cycle, with unlimited memory bandwidth.
fn spec(harts: usize, core: &CoreSpec) -> ServerSpec {
    let mut core = core.clone();
    // A blocking cache would be busy with the prefetch.
    core.l1_data.mshrs = core.l1_data.mshrs.max(4);
    core.l1_instruction.mshrs = core.l1_instruction.mshrs.max(2);
    at_one_gigahertz(harts, &core)
}

fn counts(machine: &Machine) -> CoreStatistics {
    machine.engine.cores[0].statistics(MUCH_LATER)
}

/// Takes `cycles` cycles, after which `T3` is zero.
fn spend(asm: &mut Assembler, cycles: u64) {
    asm.load_immediate(T3, 0);
    for _ in 0..cycles {
        asm.add(T3, T3, ZERO);
    }
}

/// The cycles of `body` on one core, with the address of a line that is only in memory in `T1`. The
/// code is in the instruction cache: the first of two rounds uses the previous line.
fn measure(core: &CoreSpec, body: impl Fn(&mut Assembler)) -> (u64, SoftwarePrefetchStatistics) {
    let mut asm = Assembler::new();
    asm.load_immediate(S6, RESULTS);
    asm.load_immediate(T1, DATA);
    asm.load_immediate(S5, 2);
    asm.align(64);
    let again = asm.label_here();
    asm.fence(RW, RW);
    asm.csr_read(S10, CYCLE);
    body(&mut asm);
    asm.csr_read(S11, CYCLE);
    asm.operate(SUB, S11, S11, S10);
    asm.add_immediate(T1, T1, 1024);
    asm.add_immediate(S5, S5, -1);
    asm.branch(When::NotEqual, S5, ZERO, again);
    asm.store_double(S11, S6, 0);
    asm.halt();
    let machine = halted(&spec(1, core), asm.finish(&[(DATA, vec![0; 4096])]));
    (
        read(&machine, RESULTS),
        counts(&machine).software_prefetches,
    )
}

/// `wait` additions, and then a load whose address depends on them.
fn load_after(asm: &mut Assembler, wait: u64) {
    spend(asm, wait);
    asm.add(T2, T1, T3);
    asm.load_double(T2, T2, 0);
    asm.add(T2, T2, ZERO);
}

#[test]
fn a_line_is_there_when_it_is_needed() {
    for core in models() {
        // In order, the prefetch itself takes a cycle; out of order there is room for it.
        let (miss, hit, own) = match core.model {
            Model::OutOfOrder => (79, 4, 0),
            Model::InOrder => (77, 2, 1),
        };
        let (without, none) = measure(&core, |asm| load_after(asm, 200));
        assert_eq!(none, SoftwarePrefetchStatistics::default());
        for kind in [PREFETCH_R, PREFETCH_W] {
            let (with, counts) = measure(&core, |asm| {
                asm.prefetch(kind, T1, 0);
                load_after(asm, 200);
            });
            assert_eq!(without - with, miss - hit - own, "{:?}", core.model);
            let expected = SoftwarePrefetchStatistics {
                executed: 2,
                issued: 2,
                useful: 2,
                ..SoftwarePrefetchStatistics::default()
            };
            assert_eq!(counts, expected);
        }
    }
}

/// The load joins the miss after 20 additions, one setting of `T3` and one of its address: it is
/// faster by that time.
#[test]
fn a_late_line_saves_what_it_is_ahead() {
    for core in models() {
        let (without, _) = measure(&core, |asm| load_after(asm, 20));
        let (with, counts) = measure(&core, |asm| {
            asm.prefetch(PREFETCH_R, T1, 0);
            load_after(asm, 20);
        });
        assert_eq!(without - with, 20 + 2, "{:?}", core.model);
        // The load of the first round, which must fetch its code, may come after the line.
        assert_eq!((counts.issued, counts.late + counts.useful), (2, 2));
        assert!(counts.late >= 1, "{counts:?}");
    }
}

/// A store commits a few cycles after the prefetch of its line, which takes some 79: it waits for
/// the line, on the fast path and, with a second hart that computes, on the event-driven one.
#[test]
fn a_store_that_waits_for_the_line_makes_it_late() {
    let [out_of_order, in_order] = models();
    for (core, threads) in [(&out_of_order, 1), (&out_of_order, 2), (&in_order, 1)] {
        let core = with_threads(threads, core.clone());
        let mut asm = Assembler::new();
        asm.harts(threads.into(), |asm, hart| {
            asm.load_immediate(T1, DATA);
            if hart == 0 {
                asm.prefetch(PREFETCH_W, T1, 0);
                asm.store_double(T1, T1, 0);
            }
            spend(asm, 200);
            asm.halt();
        });
        let spec = spec(threads.into(), &core);
        let machine = halted(&spec, asm.finish(&[(DATA, vec![0; 64])]));
        let counts = counts(&machine).software_prefetches;
        let late = (counts.issued, counts.useful, counts.late);
        assert_eq!(late, (1, 0, 1), "{threads} threads, {:?}", core.model);
    }
}

/// With a second level the line goes through both levels, and the counts are those of the first.
#[test]
fn a_second_level_passes_it_on() {
    for core in models().map(with_second_level) {
        let (without, _) = measure(&core, |asm| load_after(asm, 200));
        let (with, counts) = measure(&core, |asm| {
            asm.prefetch(PREFETCH_R, T1, 0);
            load_after(asm, 200);
        });
        assert!(without > with + 70, "{without} {with}");
        assert_eq!((counts.issued, counts.useful, counts.late), (2, 2, 0));
    }
}

/// A prefetch outside memory, or without a free miss register, is dropped; it neither traps nor
/// waits.
#[test]
fn it_never_faults() {
    for core in models() {
        for kind in [PREFETCH_I, PREFETCH_R, PREFETCH_W] {
            let mut asm = Assembler::new();
            for address in [NOTHING, DEVICE, u64::MAX, 0] {
                asm.load_immediate(T1, address);
                asm.prefetch(kind, T1, 0);
            }
            asm.load_immediate(S6, RESULTS);
            asm.load_immediate(T1, 17);
            asm.store_double(T1, S6, 0);
            asm.halt();
            let machine = halted(&spec(1, &core), asm.finish(&[]));
            assert_eq!(read(&machine, RESULTS), 17);
            let counts = counts(&machine).software_prefetches;
            assert_eq!((counts.executed, counts.issued, counts.dropped), (4, 0, 4));
        }
        let mut asm = Assembler::new();
        asm.load_immediate(T1, DATA);
        for line in 0..31 {
            asm.prefetch(PREFETCH_R, T1, 64 * line);
        }
        asm.halt();
        let counts = counts(&halted(&spec(1, &core), asm.finish(&[])));
        let counts = counts.software_prefetches;
        assert_eq!(counts.executed, 31);
        assert_eq!(counts.issued + counts.dropped, 31);
        assert!(counts.dropped > 0, "{counts:?}");
    }
}

/// A line that two cores have read stays shared for `prefetch.r`; `prefetch.w` invalidates the
/// other copy.
#[test]
fn only_prefetch_w_asks_for_ownership() {
    for core in models() {
        for (kind, state, other) in [
            (PREFETCH_R, State::Shared, true),
            (PREFETCH_W, State::Modified, false),
        ] {
            let mut asm = Assembler::new();
            asm.harts(2, |asm, hart| {
                asm.load_immediate(T1, DATA);
                asm.load_double(T2, T1, 0);
                asm.fence(RW, RW);
                spend(asm, 400);
                if hart == 0 {
                    asm.prefetch(kind, T1, 0);
                }
                asm.halt();
            });
            let machine = halted(&spec(2, &core), asm.finish(&[(DATA, vec![7; 64])]));
            let line = LineAddress::of(DATA);
            let copies = [0, 1].map(|core: usize| machine.engine.cores[core].copy_of(line));
            assert_eq!(copies[0].as_ref().map(|copy| copy.0), Some(state));
            assert_eq!(copies[1].is_some(), other);
            assert_eq!(read(&machine, DATA), 0x0707_0707_0707_0707);
        }
    }
}

/// Instructions are prefetched into the cache from which they are executed.
#[test]
fn instructions_are_prefetched_into_their_cache() {
    for core in models() {
        let misses = |prefetches: bool| {
            let mut asm = Assembler::new();
            let far = asm.label();
            asm.load_immediate(T1, (asm.here() & !63) + 2048);
            if prefetches {
                asm.prefetch(PREFETCH_I, T1, 0);
            }
            spend(&mut asm, 200);
            asm.jump(far);
            while asm.here() % 4096 != 2048 {
                asm.nop();
            }
            asm.bind(far);
            asm.halt();
            let machine = halted(&spec(1, &core), asm.finish(&[]));
            (
                counts(&machine).instruction_misses,
                counts(&machine).software_prefetches.useful,
            )
        };
        let (without, with) = (misses(false), misses(true));
        assert_eq!((without.1, with.1), (0, 1), "{:?}", core.model);
        assert_eq!(without.0 - with.0, 1, "{:?}", core.model);
    }
}

/// A prefetch walks the page tables, so that a later load finds both page and line.
#[test]
fn a_page_is_walked_for() {
    for core in models() {
        let core = with_small_tlbs(1, core);
        let run = |prefetches: bool| {
            let mut asm = Assembler::new();
            asm.load_immediate(T1, DATA);
            if prefetches {
                asm.prefetch(PREFETCH_R, T1, 0);
            }
            spend(&mut asm, 1000);
            asm.load_double(T2, T1, 0);
            asm.halt();
            counts(&halted(&spec(1, &core), asm.finish(&[])))
        };
        let (without, with) = (run(false), run(true));
        assert_eq!(without.translation.l1_data_tlb_misses, 1);
        assert_eq!(with.translation.l1_data_tlb_misses, 1);
        assert_eq!(with.software_prefetches.useful, 1, "{:?}", core.model);
        assert_eq!((without.data_misses, with.data_misses), (1, 0));
    }
}
