//! `wrs.nto` and `wrs.sto`: a hart halts until its reservation is lost.
//!
//! Sources: *The RISC-V Instruction Set Manual*, Volume I, chapter "Zawrs" Extension for
//! Wait-on-Reservation-Set instructions.

use crate::common::assembler::*;
use crate::common::servers::{
    self, Ending, halted, models, read, server, server_with_small_last_level, with_small_caches,
};
use pipeline::{CoreSpec, CoreStatistics};
use riscv::elf::Image;
use server::{Machine, RunError, ServerSpec};

/// The awaited flag, on its own line.
const FLAG: u64 = 0x8010_0000;
/// Results, a line each.
const RESULTS: u64 = 0x8011_0000;
/// Memory that has never been accessed.
const COLD: u64 = 0x8020_0000;
/// The software-interrupt registers of the CLINT, its timers, and its clock of microseconds.
const CLINT: u64 = 0x0200_0000;
const TIMERS: u64 = CLINT + 0x4000;
const CLOCK: u64 = CLINT + 0xbff8;
const SOFTWARE_INTERRUPT: u64 = 1 << 3;
const TIMER_INTERRUPT: u64 = 1 << 7;
const INTERRUPTS_ON: u64 = 1 << 3;
/// `mstatus.TW`: waits of user mode are bounded.
const TIMEOUT_WAIT: u64 = 1 << 21;
/// `SHORT_WAIT_CYCLES` of the pipeline.
const SHORT_WAIT_CYCLES: u64 = 1000;

const FLAG_BASE: Register = S0;
const RESULT_BASE: Register = S1;

fn begin(asm: &mut Assembler) {
    asm.load_immediate(FLAG_BASE, FLAG);
    asm.load_immediate(RESULT_BASE, RESULTS);
}

/// Takes some cycles: one or two for each iteration, or a few more.
fn delay(asm: &mut Assembler, iterations: u64) {
    asm.load_immediate(T6, iterations + 1);
    let again = asm.label_here();
    asm.add_immediate(T6, T6, -1);
    asm.branch(When::NotEqual, T6, ZERO, again);
}

/// Waits until the flag differs from `unwanted`; its value is returned in `T0`. `gap` iterations of
/// a delay are between `lr` and `wrs.nto`.
fn wait_while(asm: &mut Assembler, unwanted: Register, gap: u64) {
    let again = asm.label_here();
    let done = asm.label();
    asm.load_reserved(ACQUIRE, 8, T0, FLAG_BASE);
    asm.branch(When::NotEqual, T0, unwanted, done);
    if gap > 0 {
        delay(asm, gap);
    }
    asm.wait_on_reservation();
    asm.jump(again);
    asm.bind(done);
}

/// The counts of a hart that has halted for good.
fn counts(machine: &Machine, hart: usize) -> CoreStatistics {
    machine.engine.cores[hart].statistics(0)
}

/// Hart 0 waits for the flag, which hart 1 writes after a delay. The results are the value read by
/// hart 0, and the cycles in which hart 1 begins to write and in which hart 0 continues.
fn one_waits_for_another(gap: u64, iterations: u64, reads_before: bool) -> Image {
    let mut asm = Assembler::new();
    asm.harts(2, |asm, hart| {
        begin(asm);
        if hart == 0 {
            wait_while(asm, ZERO, gap);
            asm.csr_read(T1, CYCLE);
            asm.store_double(T0, RESULT_BASE, 0);
            asm.store_double(T1, RESULT_BASE, 8);
        } else {
            if reads_before {
                delay(asm, iterations / 2);
                asm.load_double(T1, FLAG_BASE, 0);
                delay(asm, iterations / 2);
            } else {
                delay(asm, iterations);
            }
            asm.csr_read(T1, CYCLE);
            asm.add_immediate(T0, ZERO, 7);
            asm.store_double(T0, FLAG_BASE, 0);
            asm.store_double(T1, RESULT_BASE, 64);
        }
        asm.halt();
    });
    asm.finish(&[])
}

#[test]
fn a_store_of_another_hart_ends_the_wait() {
    for core in models() {
        let spec = server(2, &core);
        let machine = halted(&spec, one_waits_for_another(0, 5000, false));
        assert_eq!(read(&machine, RESULTS), 7);
        let written = read(&machine, RESULTS + 64);
        let woken = read(&machine, RESULTS + 8);
        assert!(written > 5000, "{written}");
        assert!((written..written + 400).contains(&woken), "{woken}");
        // It halts soon after its start, and does nothing until it is woken.
        let counts = counts(&machine, 0);
        assert!(
            counts.halted_cycles > written - 1500 && counts.halted_cycles < woken,
            "{counts:?}, woken at {woken}"
        );
        assert!(counts.instructions < 40, "{counts:?}");
    }
}

/// A read takes the write permission away from the waiting hart, but not its reservation.
#[test]
fn a_load_of_another_hart_does_not_end_the_wait() {
    for core in models() {
        let spec = server(2, &core);
        let [without, with] = [false, true].map(|reads_before| {
            let machine = halted(&spec, one_waits_for_another(0, 5000, reads_before));
            assert_eq!(read(&machine, RESULTS), 7);
            counts(&machine, 0).instructions
        });
        assert_eq!(without, with, "{:?}", core.model);
    }
}

/// For every time of the store: before `lr`, between it and `wrs.nto`, or after it.
#[test]
fn no_store_is_missed() {
    for core in models() {
        let spec = server(2, &core);
        for gap in [0, 1, 5, 20, 60] {
            for iterations in (0..400).step_by(7) {
                let machine = halted(&spec, one_waits_for_another(gap, iterations, false));
                assert_eq!(
                    read(&machine, RESULTS),
                    7,
                    "gap {gap}, {iterations} iterations, {:?}",
                    core.model
                );
            }
        }
    }
}

/// Cycles that hart 1's store takes while hart 0 holds the line and executes `owner`.
fn cycles_of_a_store(core: &CoreSpec, iterations: u64, owner: impl Fn(&mut Assembler)) -> u64 {
    let mut asm = Assembler::new();
    asm.harts(2, |asm, hart| {
        begin(asm);
        if hart == 0 {
            owner(asm);
        } else {
            delay(asm, iterations);
            asm.add_immediate(T0, ZERO, 7);
            asm.csr_read(T1, CYCLE);
            asm.store_double(T0, FLAG_BASE, 0);
            asm.fence(RW, RW);
            asm.csr_read(T2, CYCLE);
            asm.operate(SUB, T2, T2, T1);
            asm.store_double(T2, RESULT_BASE, 64);
        }
        asm.halt();
    });
    read(&halted(&server(2, core), asm.finish(&[])), RESULTS + 64)
}

/// A reserved line is kept for a while so that an `sc` can succeed, but not from the awaited
/// writer.
#[test]
fn the_writer_is_not_delayed() {
    for core in models() {
        let waits = |asm: &mut Assembler| wait_while(asm, ZERO, 0);
        let owns = |asm: &mut Assembler| {
            asm.amo(AMO_ADD, RELAXED, 8, T0, ZERO, FLAG_BASE);
        };
        let usual = cycles_of_a_store(&core, 2000, owns);
        assert_eq!(cycles_of_a_store(&core, 2000, waits), usual);
        // In the worst case the store arrives with the line, and waits until the hart is at
        // `wrs.nto`.
        let longest = (0..400)
            .map(|iterations| cycles_of_a_store(&core, iterations, waits))
            .max();
        let first = (0..400)
            .map(|iterations| cycles_of_a_store(&core, iterations, owns))
            .max();
        println!("{:?}: usually {usual}, {longest:?}, {first:?}", core.model);
        assert!(longest <= first.map(|cycles| cycles + 20));
    }
}

/// Number of rounds of the token in [`ring`].
const ROUNDS: u64 = 20;

/// A token passes around among the harts, each of which waits for its turn on the same line.
fn ring(harts: usize) -> Image {
    let mut asm = Assembler::new();
    asm.harts(harts, |asm, hart| {
        begin(asm);
        asm.load_immediate(S2, hart as u64);
        asm.load_immediate(S3, hart as u64 + ROUNDS * harts as u64);
        let again = asm.label_here();
        let mine = asm.label();
        let wait = asm.label_here();
        asm.load_reserved(ACQUIRE, 8, T0, FLAG_BASE);
        asm.branch(When::Equal, T0, S2, mine);
        asm.wait_on_reservation();
        asm.jump(wait);
        asm.bind(mine);
        delay(asm, 30 + 11 * hart as u64);
        asm.add_immediate(T0, T0, 1);
        asm.store_double(T0, FLAG_BASE, 0);
        asm.add_immediate(S2, S2, harts as i64);
        asm.branch(When::NotEqual, S2, S3, again);
        asm.csr_read(T1, CYCLE);
        asm.store_double(T1, RESULT_BASE, 64 * hart as i64);
        asm.halt();
    });
    asm.finish(&[])
}

/// All counts, and the time at which each hart was done.
fn outcome(spec: &ServerSpec, image: &Image, lookahead: u64) -> (Vec<CoreStatistics>, Vec<u64>) {
    let mut machine = servers::machine(spec, image.clone());
    machine.engine.set_speed(lookahead, true);
    assert_eq!(servers::run(&mut machine), Ending::Halted);
    let harts = spec.fabric.cores;
    (
        (0..harts).map(|hart| counts(&machine, hart)).collect(),
        (0..harts as u64)
            .map(|hart| read(&machine, RESULTS + 64 * hart))
            .collect(),
    )
}

#[test]
fn a_token_goes_around() {
    for core in models() {
        for harts in 2..=4 {
            let caches = [core.clone(), with_small_caches(core.clone())];
            for core in &caches {
                let machine = halted(&server(harts, core), ring(harts));
                assert_eq!(read(&machine, FLAG), ROUNDS * harts as u64);
            }
        }
    }
}

/// The lookahead of cores changes nothing.
#[test]
fn waiting_is_exact() {
    for core in models() {
        let images = [(2, ring(2)), (4, ring(4))];
        let gaps = [0, 3, 40].map(|gap| (2, one_waits_for_another(gap, 150, true)));
        for (harts, image) in images.iter().chain(&gaps) {
            let spec = server(*harts, &core);
            let [far, step, seven] = [0, 1, 7].map(|cycles| outcome(&spec, image, cycles));
            assert_eq!(far, step, "{:?}", core.model);
            assert_eq!(far, seven, "{:?}", core.model);
        }
    }
}

/// A hart without a reservation does not wait: at the start, or after an `sc`.
#[test]
fn there_must_be_a_reservation() {
    let mut asm = Assembler::new();
    begin(&mut asm);
    asm.wait_on_reservation();
    asm.load_reserved(RELAXED, 8, T0, FLAG_BASE);
    asm.store_conditional(RELAXED, 8, T0, FLAG_BASE, FLAG_BASE);
    asm.wait_on_reservation();
    asm.add_immediate(T0, ZERO, 7);
    asm.store_double(T0, RESULT_BASE, 0);
    asm.halt();
    let image = asm.finish(&[]);
    for core in models() {
        let machine = halted(&server(1, &core), image.clone());
        assert_eq!(read(&machine, RESULTS), 7);
        assert_eq!(counts(&machine, 0).halted_cycles, 0);
    }
}

#[test]
fn a_short_wait_ends_by_itself() {
    let mut asm = Assembler::new();
    begin(&mut asm);
    asm.load_reserved(RELAXED, 8, T0, FLAG_BASE);
    asm.csr_read(T1, CYCLE);
    asm.wait_shortly_on_reservation();
    asm.csr_read(T2, CYCLE);
    asm.operate(SUB, T2, T2, T1);
    asm.store_double(T2, RESULT_BASE, 0);
    // The reservation still exists.
    asm.store_conditional(RELAXED, 8, T0, FLAG_BASE, FLAG_BASE);
    asm.add_immediate(T0, T0, 7);
    asm.store_double(T0, RESULT_BASE, 8);
    asm.halt();
    let image = asm.finish(&[]);
    for core in models() {
        let machine = halted(&server(1, &core), image.clone());
        let cycles = read(&machine, RESULTS);
        assert!(
            (SHORT_WAIT_CYCLES..SHORT_WAIT_CYCLES + 10).contains(&cycles),
            "{cycles}"
        );
        assert_eq!(counts(&machine, 0).halted_cycles, SHORT_WAIT_CYCLES);
        assert_eq!(read(&machine, RESULTS + 8), 7);
    }
}

/// A store of another hart ends a short wait, too.
#[test]
fn a_store_ends_a_short_wait() {
    let mut asm = Assembler::new();
    asm.harts(2, |asm, hart| {
        begin(asm);
        if hart == 0 {
            delay(asm, 300);
            asm.load_reserved(RELAXED, 8, T0, FLAG_BASE);
            asm.wait_shortly_on_reservation();
            asm.load_double(T0, FLAG_BASE, 0);
            asm.store_double(T0, RESULT_BASE, 0);
        } else {
            delay(asm, 500);
            asm.add_immediate(T0, ZERO, 7);
            asm.store_double(T0, FLAG_BASE, 0);
        }
        asm.halt();
    });
    let image = asm.finish(&[]);
    for core in models() {
        let machine = halted(&server(2, &core), image.clone());
        assert_eq!(read(&machine, RESULTS), 7);
        let waited = counts(&machine, 0).halted_cycles;
        assert!((1..SHORT_WAIT_CYCLES).contains(&waited), "{waited}");
    }
}

/// The timer's interrupt ends the wait, and is only taken if interrupts are enabled.
#[test]
fn an_interrupt_ends_the_wait() {
    for core in models() {
        for on in [false, true] {
            let mut asm = Assembler::new();
            let main = asm.label();
            asm.jump(main);
            let handler = asm.here();
            begin(&mut asm);
            asm.csr_read(T0, MEPC);
            asm.csr_read(T1, MCAUSE);
            asm.store_double(T0, RESULT_BASE, 0);
            asm.store_double(T1, RESULT_BASE, 8);
            asm.csr_write(MIE, ZERO);
            asm.halt();
            asm.bind(main);
            begin(&mut asm);
            asm.load_immediate(T0, handler);
            asm.csr_write(MTVEC, T0);
            asm.load_immediate(T0, TIMER_INTERRUPT);
            asm.csr_write(MIE, T0);
            asm.load_immediate(T0, if on { INTERRUPTS_ON } else { 0 });
            asm.csr_write(MSTATUS, T0);
            asm.load_immediate(T1, CLOCK);
            asm.load_double(T0, T1, 0);
            asm.add_immediate(T0, T0, 3);
            asm.load_immediate(T1, TIMERS);
            asm.store_double(T0, T1, 0);
            asm.load_reserved(RELAXED, 8, T0, FLAG_BASE);
            asm.wait_on_reservation();
            let next = asm.here();
            asm.add_immediate(T0, ZERO, 7);
            asm.store_double(T0, RESULT_BASE, 16);
            asm.csr_write(MIE, ZERO);
            asm.halt();
            let machine = halted(&server(1, &core), asm.finish(&[]));
            let results = [0, 8, 16].map(|offset| read(&machine, RESULTS + offset));
            let expected = if on {
                [next, 1 << 63 | 7, 0]
            } else {
                [0, 0, 7]
            };
            assert_eq!(results, expected, "{:?}", core.model);
            // Two to three microseconds, at two gigahertz or so.
            assert!(counts(&machine, 0).halted_cycles > 1000);
        }
    }
}

#[test]
fn an_interrupt_from_another_hart_ends_the_wait() {
    let mut asm = Assembler::new();
    asm.harts(2, |asm, hart| {
        begin(asm);
        if hart == 0 {
            asm.load_immediate(T0, SOFTWARE_INTERRUPT);
            asm.csr_write(MIE, T0);
            asm.load_reserved(RELAXED, 8, T0, FLAG_BASE);
            asm.wait_on_reservation();
            asm.add_immediate(T0, ZERO, 7);
            asm.store_double(T0, RESULT_BASE, 0);
            asm.csr_write(MIE, ZERO);
        } else {
            delay(asm, 2000);
            asm.load_immediate(T1, CLINT);
            asm.add_immediate(T0, ZERO, 1);
            asm.store(4, T0, T1, 0);
        }
        asm.halt();
    });
    let image = asm.finish(&[]);
    for core in models() {
        let machine = halted(&server(2, &core), image.clone());
        assert_eq!(read(&machine, RESULTS), 7);
        assert!(counts(&machine, 0).halted_cycles > 1000);
    }
}

/// With `mstatus.TW`, user mode may not wait for ever.
#[test]
fn user_mode_can_be_kept_from_waiting_for_ever() {
    let mut asm = Assembler::new();
    let main = asm.label();
    asm.jump(main);
    let handler = asm.here();
    for (number, csr) in [MEPC, MCAUSE, MTVAL].into_iter().enumerate() {
        asm.csr_read(T0, csr);
        asm.store_double(T0, RESULT_BASE, 8 * number as i64);
    }
    asm.halt();
    let user = asm.here();
    asm.load_reserved(RELAXED, 8, T0, FLAG_BASE);
    asm.wait_shortly_on_reservation();
    let place = asm.here();
    asm.wait_on_reservation();
    asm.ebreak();
    asm.bind(main);
    begin(&mut asm);
    for (csr, value) in [(MTVEC, handler), (MEPC, user), (MSTATUS, TIMEOUT_WAIT)] {
        asm.load_immediate(T0, value);
        asm.csr_write(csr, T0);
    }
    asm.mret();
    let image = asm.finish(&[]);
    for core in models() {
        let machine = halted(&server(1, &core), image.clone());
        let results = [0, 8, 16].map(|offset| read(&machine, RESULTS + offset));
        assert_eq!(results, [place, 2, 0x00d0_0073], "{:?}", core.model);
        assert_eq!(counts(&machine, 0).halted_cycles, 2 * SHORT_WAIT_CYCLES);
    }
}

/// The waiting hart may lose the line for other reasons than a store.
#[test]
fn a_line_that_the_last_level_takes_back_is_reserved_again() {
    let mut asm = Assembler::new();
    asm.harts(2, |asm, hart| {
        begin(asm);
        if hart == 0 {
            wait_while(asm, ZERO, 0);
            asm.store_double(T0, RESULT_BASE, 0);
        } else {
            // A walk through more lines than the last level holds.
            asm.load_immediate(T2, COLD);
            asm.load_immediate(T3, COLD + 0x8000);
            let again = asm.label_here();
            asm.load_double(T0, T2, 0);
            asm.add_immediate(T2, T2, 64);
            asm.branch(When::NotEqual, T2, T3, again);
            asm.add_immediate(T0, ZERO, 7);
            asm.store_double(T0, FLAG_BASE, 0);
        }
        asm.halt();
    });
    let image = asm.finish(&[]);
    for core in models() {
        let spec = server_with_small_last_level(2, &core);
        let machine = halted(&spec, image.clone());
        assert_eq!(read(&machine, RESULTS), 7);
        let far = outcome(&spec, &image, 0);
        assert_eq!(far, outcome(&spec, &image, 1));
        assert_eq!(far, outcome(&spec, &image, 7));
    }
}

/// A hart that will never be woken is reported, with the cause of its wait.
#[test]
fn waiting_for_ever_is_reported() {
    let mut asm = Assembler::new();
    begin(&mut asm);
    wait_while(&mut asm, ZERO, 0);
    let image = asm.finish(&[]);
    for core in models() {
        let mut machine = servers::machine(&server(1, &core), image.clone());
        let report = loop {
            match machine.advance() {
                Ok(true) => {}
                Err(RunError::Deadlock(report)) => break report,
                other => panic!("{other:?}"),
            }
        };
        assert!(
            report.contains("waits for a store to the line at 0x80100000 (WRS)"),
            "{report}"
        );
    }
}

/// Several harts that wait for the same line all halt.
#[test]
fn harts_that_wait_for_the_same_line_leave_each_other_alone() {
    for core in models() {
        let [short, long] = [2000, 12_000].map(|iterations| {
            let mut asm = Assembler::new();
            asm.harts(4, |asm, hart| {
                begin(asm);
                if hart == 3 {
                    delay(asm, iterations);
                    asm.add_immediate(T0, ZERO, 7);
                    asm.store_double(T0, FLAG_BASE, 0);
                } else {
                    wait_while(asm, ZERO, 0);
                    asm.store_double(T0, RESULT_BASE, 64 * hart as i64);
                }
                asm.halt();
            });
            let machine = halted(&server(4, &core), asm.finish(&[]));
            [0, 1, 2].map(|hart| {
                assert_eq!(read(&machine, RESULTS + 64 * hart), 7);
                counts(&machine, hart as usize).instructions
            })
        });
        assert_eq!(short, long, "{:?}", core.model);
    }
}

/// Number of times that each hart takes the lock of [`lock`].
const TIMES: u64 = 40;

/// Harts take a lock with `lr` and `sc`, and wait on its reservation while another hart has it.
fn lock(harts: usize, short: bool) -> Image {
    let mut asm = Assembler::new();
    asm.harts(harts, |asm, hart| {
        begin(asm);
        asm.load_immediate(T2, TIMES);
        let again = asm.label_here();
        let free = asm.label();
        asm.load_reserved(ACQUIRE, 8, T0, FLAG_BASE);
        asm.branch(When::Equal, T0, ZERO, free);
        if short {
            asm.wait_shortly_on_reservation();
        } else {
            asm.wait_on_reservation();
        }
        asm.jump(again);
        asm.bind(free);
        asm.add_immediate(T0, ZERO, 1);
        asm.store_conditional(ACQUIRE, 8, T0, T0, FLAG_BASE);
        asm.branch(When::NotEqual, T0, ZERO, again);
        // Read, changed and written without atomics.
        asm.load_double(T1, FLAG_BASE, 64);
        delay(asm, 300);
        asm.add_immediate(T1, T1, 1);
        asm.store_double(T1, FLAG_BASE, 64);
        asm.fence(RW, W);
        asm.store_double(ZERO, FLAG_BASE, 0);
        delay(asm, 7 * hart as u64);
        asm.add_immediate(T2, T2, -1);
        asm.branch(When::NotEqual, T2, ZERO, again);
        asm.csr_read(T1, CYCLE);
        asm.store_double(T1, RESULT_BASE, 64 * hart as i64);
        asm.halt();
    });
    asm.finish(&[])
}

#[test]
fn a_lock_excludes_and_is_given_on() {
    for core in models() {
        for (harts, short) in [(2, false), (4, false), (4, true)] {
            let image = lock(harts, short);
            let spec = server(harts, &core);
            let machine = halted(&spec, image.clone());
            assert_eq!(read(&machine, FLAG + 64), TIMES * harts as u64);
            let far = outcome(&spec, &image, 0);
            assert_eq!(far, outcome(&spec, &image, 1), "{:?}", core.model);
            assert_eq!(far, outcome(&spec, &image, 7), "{:?}", core.model);
        }
    }
}
