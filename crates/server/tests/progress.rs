//! Every hart gets on: no access waits for ever, whatever the others do.

mod common;

use common::assembler::*;
use common::servers::{
    self, Ending, models, models_of_all_levels, read, server, with_second_level, with_small_caches,
};
use pipeline::CoreSpec;
use riscv::elf::Image;
use server::ServerSpec;

const DATA: u64 = 0x8010_0000;
/// Lines that nobody has touched.
const COLD: u64 = 0x8020_0000;

fn assert_halts(spec: &ServerSpec, image: &Image, what: &str) -> server::Machine {
    let mut machine = servers::machine(spec, image.clone());
    let ending = servers::run(&mut machine);
    assert_eq!(ending, Ending::Halted, "{what}, {:?}", spec.core.model);
    machine
}

/// Spends some cycles: two for each turn, or a few more.
fn delay(asm: &mut Assembler, turns: u64) {
    asm.load_immediate(T6, turns + 1);
    let again = asm.label_here();
    asm.add_immediate(T6, T6, -1);
    asm.branch(When::NotEqual, T6, ZERO, again);
}

/// "A" Extension, section "Eventual Success of Store-Conditional Instructions", asks that a
/// retry loop succeeds in the end; a loop of `lr` alone must not keep others from the line.
#[test]
fn a_hart_that_spins_on_a_reservation_lets_others_write() {
    let mut asm = Assembler::new();
    asm.harts(2, |asm, hart| {
        asm.load_immediate(S0, DATA);
        if hart == 0 {
            let again = asm.label_here();
            asm.load_reserved(ACQUIRE, 8, T0, S0);
            asm.branch(When::Equal, T0, ZERO, again);
        } else {
            delay(asm, 200);
            asm.add_immediate(T0, ZERO, 1);
            asm.store_double(T0, S0, 0);
        }
        asm.halt();
    });
    let image = asm.finish(&[]);
    for core in models_of_all_levels() {
        assert_halts(&server(2, &core), &image, "lr until another hart writes");
    }
}

/// The same with two lines in turn, each reservation being given up for the other.
#[test]
fn a_hart_that_spins_on_two_reservations_lets_others_write() {
    let mut asm = Assembler::new();
    asm.harts(2, |asm, hart| {
        asm.load_immediate(S0, DATA);
        asm.add_immediate(S1, S0, 64);
        if hart == 0 {
            let again = asm.label_here();
            asm.load_reserved(RELAXED, 8, T0, S0);
            asm.load_reserved(RELAXED, 8, T1, S1);
            asm.add(T0, T0, T1);
            asm.branch(When::Equal, T0, ZERO, again);
        } else {
            delay(asm, 200);
            asm.add_immediate(T0, ZERO, 1);
            asm.store_double(T0, S0, 0);
        }
        asm.halt();
    });
    let image = asm.finish(&[]);
    for core in models_of_all_levels() {
        assert_halts(&server(2, &core), &image, "lr of two lines in turn");
    }
}

/// An access that is executed alone finds every miss register taken by loads of a wrong path.
#[test]
fn an_access_executed_alone_waits_for_a_miss_register() {
    let core = CoreSpec::hyperplane_table1();
    for kind in 0..4 {
        let mut asm = Assembler::new();
        asm.load_immediate(S0, DATA);
        asm.load_immediate(S1, COLD);
        asm.load_immediate(S2, COLD + 0x1000 + 60);
        asm.add_immediate(T1, ZERO, 1);
        asm.store_double(T1, S0, 0);
        asm.fence(RW, RW);
        // The atomic waits for the divisions, and loads run ahead of it on the path that the
        // untrained predictor takes: not to the target.
        asm.load_immediate(T2, 1 << 40);
        for _ in 0..4 {
            asm.operate(DIVU, T2, T2, T1);
        }
        asm.amo(AMO_ADD, RELAXED, 8, T0, ZERO, S0);
        let over = asm.label();
        asm.branch(When::NotEqual, T0, ZERO, over);
        for line in 0..24 {
            asm.load_double(T3, S1, 64 * line);
        }
        asm.bind(over);
        match kind {
            0 => {
                asm.add_immediate(S2, S2, 4);
                asm.load_reserved(RELAXED, 8, T4, S2);
            }
            1 => asm.load_double(T4, S2, 0),
            2 => asm.store_double(T4, S2, 0),
            _ => {
                asm.add_immediate(S2, S2, 4);
                asm.amo(AMO_ADD, RELAXED, 8, T4, ZERO, S2);
            }
        }
        asm.halt();
        let image = asm.finish(&[]);
        assert_halts(&server(1, &core), &image, "miss registers are all taken");
    }
}

/// A reserved line has to make room in the cache while another hart waits for it.
#[test]
fn a_reserved_line_that_is_replaced_is_given_up() {
    let small = models().map(with_small_caches);
    let behind = small.clone().map(with_second_level);
    for core in small.into_iter().chain(behind) {
        let spec = server(2, &core);
        for turns in 0..60 {
            let mut asm = Assembler::new();
            asm.harts(2, |asm, hart| {
                asm.load_immediate(S0, DATA);
                asm.add_immediate(T1, ZERO, 40);
                let again = asm.label_here();
                if hart == 0 {
                    asm.load_reserved(RELAXED, 8, T0, S0);
                    // 8 sets of 2 ways: lines 512 bytes apart are in one set.
                    for line in 1..5 {
                        asm.load_double(T0, S0, 512 * (line % 4));
                    }
                } else {
                    delay(asm, turns);
                    asm.store_double(T1, S0, 8);
                }
                asm.add_immediate(T1, T1, -1);
                asm.branch(When::NotEqual, T1, ZERO, again);
                asm.halt();
            });
            let image = asm.finish(&[]);
            assert_halts(&spec, &image, "a reserved line is replaced");
        }
    }
}

/// Retry loops of four harts on one line: each addition takes place once.
#[test]
fn retry_loops_all_succeed() {
    const HARTS: usize = 4;
    const TIMES: u64 = 100;
    let mut asm = Assembler::new();
    asm.harts(HARTS, |asm, hart| {
        asm.load_immediate(S0, DATA);
        asm.load_immediate(T2, TIMES);
        let again = asm.label_here();
        asm.load_reserved(RELAXED, 8, T0, S0);
        asm.add_immediate(T0, T0, 1);
        asm.store_conditional(RELAXED, 8, T1, T0, S0);
        asm.branch(When::NotEqual, T1, ZERO, again);
        // A different pace on each hart.
        delay(asm, hart as u64 * 3);
        asm.add_immediate(T2, T2, -1);
        asm.branch(When::NotEqual, T2, ZERO, again);
        asm.halt();
    });
    let image = asm.finish(&[]);
    for core in models_of_all_levels() {
        let spec = server(HARTS, &core);
        let machine = assert_halts(&spec, &image, "retry loops");
        assert_eq!(read(&machine, DATA), HARTS as u64 * TIMES);
    }
}

/// A spinlock that is taken with an AMO and given back with a store: what it protects is
/// consistent, and everybody gets it.
#[test]
fn a_spinlock_excludes_and_is_given_on() {
    const HARTS: usize = 4;
    const TIMES: u64 = 50;
    let mut asm = Assembler::new();
    asm.harts(HARTS, |asm, hart| {
        asm.load_immediate(S0, DATA);
        asm.add_immediate(S1, S0, 64);
        asm.load_immediate(T2, TIMES);
        let again = asm.label_here();
        asm.add_immediate(T0, ZERO, 1);
        asm.amo(AMO_SWAP, ACQUIRE, 4, T0, T0, S0);
        asm.branch(When::NotEqual, T0, ZERO, again);
        // Two words in two lines, each read, changed and written without atomics.
        for offset in [0, 64] {
            asm.load_double(T1, S1, offset);
            asm.add_immediate(T1, T1, 1);
            asm.store_double(T1, S1, offset);
        }
        asm.fence(RW, W);
        asm.store(4, ZERO, S0, 0);
        delay(asm, hart as u64 * 5);
        asm.add_immediate(T2, T2, -1);
        asm.branch(When::NotEqual, T2, ZERO, again);
        asm.halt();
    });
    let image = asm.finish(&[]);
    for core in models_of_all_levels() {
        let spec = server(HARTS, &core);
        let machine = assert_halts(&spec, &image, "a spinlock");
        assert_eq!(read(&machine, DATA + 64), HARTS as u64 * TIMES);
        assert_eq!(read(&machine, DATA + 128), HARTS as u64 * TIMES);
    }
}
