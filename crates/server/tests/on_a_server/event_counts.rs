//! The inputs of the energy model: counts of events, in small programs with known counts.

use crate::common::assembler::*;
use crate::common::servers::{
    halted, machine, models, read, run, server, with_lru, with_prefetchers, with_second_level,
};
use fabric::{DataPrefetcherKind, FabricStatistics, PrefetcherKind};
use pipeline::{CoreStatistics, EVENTS, Operations};
use server::Machine;

const DATA: u64 = 0x8020_0000;
const FLAG: u64 = 0x8010_0000;
/// A cycle by which every program here has halted.
const END: u64 = 10_000_000;

fn counts(machine: &Machine, hart: usize) -> (CoreStatistics, FabricStatistics) {
    let core = machine.engine.cores[hart].statistics(END);
    (core, machine.engine.fabric.statistics())
}

/// A loop of `times` iterations of `body`.
fn repeat(asm: &mut Assembler, times: u64, body: impl Fn(&mut Assembler)) {
    asm.load_immediate(S1, times);
    let again = asm.label_here();
    body(asm);
    asm.add_immediate(S1, S1, -1);
    asm.branch(When::NotEqual, S1, ZERO, again);
}

#[test]
fn operations_are_counted_by_their_units() {
    for core in models() {
        let mut asm = Assembler::new();
        asm.harts(1, |asm, _| {
            asm.load_immediate(T0, FLOAT_ON);
            asm.csr_write(MSTATUS, T0);
            asm.load_immediate(T1, 77);
            let operations = [(MUL, 7), (DIV, 5), (FADD_D, 4), (FMUL_D, 3), (FDIV_D, 2)];
            for (operation, times) in operations {
                for _ in 0..times {
                    asm.operate(operation, 7, 6, 6);
                }
            }
            asm.halt();
        });
        let machine = halted(&server(1, &core), asm.finish(&[]));
        let expected = Operations {
            multiplications: 7,
            divisions: 5,
            float_additions: 4,
            float_multiplications: 3,
            float_divisions: 2,
        };
        assert_eq!(counts(&machine, 0).0.operations, expected);
    }
}

/// Programs read their hart's counts: 24 lines are loaded twice, of which the first time misses,
/// and three stores are performed. A counter that is set continues from there.
#[test]
fn programs_read_what_is_counted() {
    const RESULTS: u64 = FLAG;
    const SET: u64 = 1000;
    let selected = ["STORES", "L1_DATA_HITS", "L1_DATA_MISSES", "BRANCHES"];
    let number = |name| 1 + EVENTS.iter().position(|one| one.0 == name).unwrap() as u64;
    for core in models() {
        let mut asm = Assembler::new();
        asm.harts(1, |asm, _| {
            asm.load_immediate(S0, DATA);
            asm.load_immediate(S1, RESULTS);
            for (counter, name) in (3..).zip(selected) {
                asm.load_immediate(T0, number(name));
                asm.csr_write(0x320 + counter, T0);
                asm.csr_write(0xb00 + counter, ZERO);
            }
            asm.load_immediate(T0, SET);
            asm.csr_write(0xb03, T0);
            for _ in 0..2 {
                for line in 0..24 {
                    asm.load_double(T0, S0, 64 * line);
                }
                asm.fence(RW, RW);
            }
            for line in 0..3 {
                asm.store_double(ZERO, S0, 64 * line);
            }
            asm.fence(RW, RW);
            for (counter, offset) in (3..7).zip((0..).step_by(8)) {
                asm.csr_read(T0, 0xb00 + counter);
                asm.store_double(T0, S1, offset);
            }
            asm.halt();
        });
        let machine = halted(&server(1, &core), asm.finish(&[(DATA, vec![0; 64 * 24])]));
        let counted = [0, 8, 16, 24].map(|offset| read(&machine, RESULTS + offset));
        assert_eq!(counted, [SET + 3, 24, 24, 0], "{:?}", core.model);
    }
}

/// A loop that multiplies while it polls four lines, with one load instruction, is skipped, and all
/// events are counted as if it had not been. With a prefetcher, it is skipped once the prefetcher
/// returns to the same state with the same registers, and fetches nothing more.
#[test]
fn events_of_skipped_periods_are_counted() {
    const FLAGS: u64 = 4;
    let prefetchers = [
        DataPrefetcherKind::None,
        DataPrefetcherKind::NextLine,
        DataPrefetcherKind::Stride,
    ];
    let cores = models().into_iter().flat_map(|core| {
        prefetchers.map(|kind| with_prefetchers((kind, PrefetcherKind::None), core.clone()))
    });
    for core in cores {
        let spec = server(2, &core);
        let mut asm = Assembler::new();
        asm.harts(2, |asm, hart| {
            asm.load_immediate(S0, FLAG);
            if hart == 0 {
                asm.load_immediate(T1, 3);
                let again = asm.label_here();
                asm.load_immediate(S1, FLAGS);
                asm.copy(S2, S0);
                let next = asm.label_here();
                asm.operate(MUL, T2, T1, T1);
                asm.load_double(T0, S2, 0);
                asm.add_immediate(S2, S2, 64);
                asm.add_immediate(S1, S1, -1);
                asm.branch(When::NotEqual, S1, ZERO, next);
                asm.branch(When::Equal, T0, ZERO, again);
            } else {
                repeat(asm, 20_000, |_| {});
                asm.add_immediate(T0, ZERO, 1);
                asm.store_double(T0, S0, 64 * (FLAGS as i64 - 1));
            }
            asm.halt();
        });
        let image = asm.finish(&[(FLAG, vec![0; 64 * FLAGS as usize])]);
        let [skipped, plain] = [true, false].map(|skip| {
            let mut machine = machine(&spec, image.clone());
            machine.engine.set_speed(0, skip);
            run(&mut machine);
            let skipped = machine.engine.cores[0].skipped_cycles();
            assert!(
                if skip { skipped > 10_000 } else { skipped == 0 },
                "{skipped} cycles were skipped, {:?}, {:?}",
                core.model,
                core.l1_data_prefetcher
            );
            counts(&machine, 0).0
        });
        assert_eq!(skipped, plain);
        assert!(plain.operations.multiplications > 2_000, "{plain:?}");
    }
}

/// A walk that writes 1024 lines, more than the first-level cache holds.
#[test]
fn lines_come_and_go() {
    // It uses free ways first.
    let cores = models().map(with_lru);
    for spec in cores.iter().chain(&cores.clone().map(with_second_level)) {
        let mut asm = Assembler::new();
        asm.harts(1, |asm, _| {
            asm.load_immediate(S0, DATA);
            repeat(asm, 1024, |asm| {
                asm.store_double(S0, S0, 0);
                asm.add_immediate(S0, S0, 64);
            });
            asm.halt();
        });
        let machine = halted(&server(1, spec), asm.finish(&[(DATA, vec![0; 64 * 1024])]));
        let (core, fabric) = counts(&machine, 0);
        assert_eq!(core.lines_filled, 1024);
        // The cache is full at the end.
        let evicted = 1024 - spec.l1_data.size_bytes / 64;
        assert_eq!(core.lines_evicted, evicted);
        assert_eq!((core.snoops, core.lines_sent), (0, 0));
        if spec.l2.is_some() {
            continue;
        }
        // Every line comes from memory to its bank and is sent to the core. Lines evicted by the
        // core return.
        let fetched = 1024 + core.instruction_misses;
        assert_eq!(fabric.memory_reads, fetched);
        assert_eq!(fabric.bank_line_reads, fetched);
        assert_eq!(fabric.bank_line_writes, fetched + evicted);
        // A bank access for each request, each answer of memory, and each returned line.
        assert_eq!(fabric.bank_accesses, 2 * fetched + evicted);
    }
}

/// Hart 0 writes 16 lines; later hart 1 reads them; still later hart 0 writes them once more.
#[test]
fn lines_go_to_others() {
    for spec in models() {
        let mut asm = Assembler::new();
        asm.harts(2, |asm, hart| {
            asm.load_immediate(S0, DATA);
            let later = |asm: &mut Assembler, iterations| repeat(asm, iterations, |_| {});
            if hart == 0 {
                for round in 0..2 {
                    for line in 0..16 {
                        asm.store_double(S0, S0, line * 64);
                    }
                    later(asm, 20_000 * (1 - round) + 1);
                }
            } else {
                later(asm, 10_000);
                for line in 0..16 {
                    asm.load_double(T0, S0, line * 64);
                }
            }
            asm.halt();
        });
        let machine = halted(&server(2, &spec), asm.finish(&[(DATA, vec![0; 2048])]));
        // Hart 0 owns the lines and sends them; hart 1 shares them and only drops them.
        let (sender, _) = counts(&machine, 0);
        assert_eq!((sender.snoops, sender.lines_sent), (16, 16));
        let (receiver, _) = counts(&machine, 1);
        assert_eq!((receiver.snoops, receiver.lines_sent), (16, 0));
        // Lines to be written are sent again.
        assert_eq!((sender.lines_filled, receiver.lines_filled), (32, 16));
    }
}
