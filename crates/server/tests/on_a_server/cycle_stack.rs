//! Every cycle of a core is attributed once, to the cause that held up dispatch.

use crate::common::assembler::*;
use crate::common::servers::{halted, models, server, with_second_level};
use pipeline::{CoreSpec, CycleStack};

const DATA: u64 = 0x8020_0000;
/// A cycle by which every program here has halted.
const END: u64 = 10_000_000;

/// A circular list of pointers at this stride in bytes.
fn chain(pointers: u64, stride: u64) -> Vec<u8> {
    let mut bytes = vec![0; (pointers * stride) as usize];
    for link in 0..pointers {
        let next = DATA + (link + 1) % pointers * stride;
        let at = (link * stride) as usize;
        bytes[at..at + 8].copy_from_slice(&next.to_le_bytes());
    }
    bytes
}

/// The stack of hart 0 of `harts`, and the cycles in which it has not halted.
fn stack(
    core: &CoreSpec,
    harts: usize,
    data: Vec<u8>,
    body: impl Fn(&mut Assembler, usize),
) -> (CycleStack, u64) {
    let mut asm = Assembler::new();
    asm.harts(harts, |asm, hart| {
        asm.load_immediate(S0, DATA);
        body(asm, hart);
        asm.halt();
    });
    let machine = halted(&server(harts, core), asm.finish(&[(DATA, data)]));
    for core in &machine.engine.cores {
        assert_eq!(core.statistics(END).stack.total(), END);
    }
    let statistics = machine.engine.cores[0].statistics(END);
    assert_eq!(statistics.stack.halted, statistics.halted_cycles);
    (statistics.stack, END - statistics.stack.halted)
}

/// `times` iterations of `body`.
fn repeat(asm: &mut Assembler, times: u64, body: impl Fn(&mut Assembler)) {
    asm.load_immediate(S1, times);
    let again = asm.label_here();
    body(asm);
    asm.add_immediate(S1, S1, -1);
    asm.branch(When::NotEqual, S1, ZERO, again);
}

fn assert_at_most(what: &str, part: u64, busy: u64) {
    assert!(part * 10 > busy * 7, "{what}: {part} of {busy} cycles");
}

#[test]
fn a_chase_through_memory_waits_for_memory() {
    for core in models() {
        let (stack, busy) = stack(&core, 1, chain(500, 4096), |asm, _| {
            repeat(asm, 500, |asm| asm.load_double(S0, S0, 0));
        });
        assert_at_most("memory", stack.memory, busy);
    }
}

/// 1500 lines exceed the private cache, and are all in the last-level cache after the first of
/// twelve passes.
#[test]
fn a_chase_through_the_last_level_waits_for_it() {
    for core in models() {
        let (stack, _) = stack(&core, 1, chain(1500, 64), |asm, _| {
            repeat(asm, 12 * 1500, |asm| asm.load_double(S0, S0, 0));
        });
        // The bank takes 10, memory 150.
        assert!(stack.last_level > 11 * 1500 * 10, "{stack:?}");
        assert!(stack.memory > 1500 * 150, "{stack:?}");
        assert_eq!(stack.remote_cache, 0);
    }
}

/// 640 lines exceed the first level, and are all in the second after the first of twelve passes.
#[test]
fn a_chase_through_the_second_level_waits_for_it() {
    for core in models().map(with_second_level) {
        let (stack, _) = stack(&core, 1, chain(640, 64), |asm, _| {
            repeat(asm, 12 * 640, |asm| asm.load_double(S0, S0, 0));
        });
        // The second level takes 9, of which dispatch of the loop may hide one; memory takes 150.
        assert!(stack.l2 > 11 * 640 * 8, "{stack:?}");
        assert!(stack.memory > 640 * 150, "{stack:?}");
        assert_eq!((stack.last_level, stack.remote_cache), (0, 0));
    }
}

/// Hart 1 writes 256 lines and halts; hart 0 reads them a little later.
#[test]
fn lines_of_another_hart_come_from_its_cache() {
    for core in models() {
        let (stack, _) = stack(&core, 2, chain(256, 64), |asm, hart| {
            if hart == 0 {
                repeat(asm, 100_000, |_| {});
                repeat(asm, 256, |asm| asm.load_double(S0, S0, 0));
            } else {
                repeat(asm, 256, |asm| {
                    asm.store_double(ZERO, S0, 8);
                    asm.add_immediate(S0, S0, 64);
                });
            }
        });
        // At least 10 for the bank, 4 or 2 for the look-up, and 4 or 2 for the forward.
        assert!(stack.remote_cache > 250 * 14, "{stack:?}");
    }
}

#[test]
fn a_burst_of_stores_waits_for_the_store_buffer() {
    for core in models() {
        let (stack, busy) = stack(&core, 1, Vec::new(), |asm, _| {
            asm.load_immediate(T0, 4096);
            repeat(asm, 500, |asm| {
                asm.store_double(ZERO, S0, 0);
                asm.add(S0, S0, T0);
            });
        });
        assert_at_most("store buffer", stack.store_buffer, busy);
    }
}

#[test]
fn a_chain_of_divisions_waits_for_their_execution() {
    for core in models() {
        let (stack, busy) = stack(&core, 1, Vec::new(), |asm, _| {
            repeat(asm, 1000, |asm| asm.operate(DIVU, S0, S0, S0));
        });
        assert_at_most("execution", stack.execution, busy);
    }
}

/// A branch on the high bits of a linear congruential sequence (Knuth's MMIX) is random. Each
/// misprediction costs at least the front end.
#[test]
fn coin_tosses_cost_mispredictions() {
    for core in models() {
        let front_end = u64::from(core.front_end_cycles);
        let (stack, busy) = stack(&core, 1, Vec::new(), |asm, _| {
            asm.load_immediate(T0, 6_364_136_223_846_793_005);
            asm.load_immediate(T1, 1_442_695_040_888_963_407);
            repeat(asm, 4000, |asm| {
                asm.operate(MUL, S0, S0, T0);
                asm.add(S0, S0, T1);
                asm.shift_right(T2, S0, 63);
                let over = asm.label();
                asm.branch(When::Equal, T2, ZERO, over);
                asm.nop();
                asm.bind(over);
            });
        });
        assert!(
            stack.branch > 4000 * 2 / 5 * front_end && stack.branch < busy,
            "{stack:?}"
        );
    }
}

#[test]
fn instructions_that_flow_are_the_base() {
    for core in models() {
        let (stack, busy) = stack(&core, 1, Vec::new(), |asm, _| {
            repeat(asm, 20_000, |asm| {
                for _ in 0..8 {
                    asm.nop();
                }
            });
        });
        assert_at_most("base", stack.base, busy);
    }
}
