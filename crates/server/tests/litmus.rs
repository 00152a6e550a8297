//! Litmus tests: outcomes that the memory model forbids never come out, whatever the timing
//! (*The RISC-V Instruction Set Manual*, Volume I, chapter "RVWMO Memory Consistency Model").
//! Each is tried with many delays, and with lines that are here, elsewhere, or in memory.

mod common;

use common::assembler::*;
use common::servers::{halted, models, read, server};
use riscv::elf::Image;
use server::Machine;

const X: u64 = 0x8010_0000;
const Y: u64 = X + 64;
/// Where each hart leaves what it has seen: a line each, two words.
const SEEN: u64 = 0x8011_0000;
/// Pointers that are in memory only.
const POINTERS: u64 = 0x8012_0000;

fn seen(machine: &Machine, hart: usize, word: u64) -> u64 {
    read(machine, SEEN + 64 * hart as u64 + 8 * word)
}

/// Spends about `cycles` cycles before anything that follows.
fn delay(asm: &mut Assembler, cycles: u64) {
    asm.add_immediate(T6, ZERO, 1);
    for _ in 0..cycles / 20 {
        asm.operate(DIVU, T6, T6, T6);
    }
    for _ in 0..cycles % 20 {
        asm.add(T6, T6, ZERO);
    }
    asm.fence(RW, RW);
}

/// Brings `address` into the hart's cache, to be read or to be written.
fn warm(asm: &mut Assembler, address: Register, warmth: u64) {
    match warmth % 3 {
        0 => {}
        1 => asm.load_double(ZERO, address, 0),
        _ => asm.amo(AMO_ADD, RELAXED, 8, ZERO, ZERO, address),
    }
}

/// Runs `body` on each hart, with the addresses of x and y in s0 and s1 and a place for what it
/// sees in s2, for many delays and warmths; `judge` is told what came out.
fn try_all(
    harts: usize,
    body: impl Fn(&mut Assembler, usize),
    judge: impl Fn(&Machine) -> Result<(), String>,
) {
    for core in models() {
        let spec = server(harts, &core);
        for trial in 0..60u64 {
            let image = program(harts, trial, &body);
            let machine = halted(&spec, image);
            if let Err(outcome) = judge(&machine) {
                panic!("trial {trial} on {:?}: {outcome}", core.model);
            }
        }
    }
}

fn program(harts: usize, trial: u64, body: &impl Fn(&mut Assembler, usize)) -> Image {
    let mut asm = Assembler::new();
    asm.harts(harts, |asm, hart| {
        let number = hart as u64;
        asm.load_immediate(S0, X);
        asm.load_immediate(S1, Y);
        asm.load_immediate(S2, SEEN + 64 * number);
        asm.load_immediate(S3, POINTERS);
        warm(asm, S0, trial / 3 + number);
        warm(asm, S1, trial + 2 * number);
        delay(asm, 300 + (trial * 37 * (number + 1)) % 211);
        body(asm, hart);
        asm.halt();
    });
    let pointers = [X, Y, X, Y].map(|address| {
        let mut line = address.to_le_bytes().to_vec();
        line.resize(64, 0);
        line
    });
    asm.finish(&[(POINTERS, pointers.concat())])
}

fn store_one(asm: &mut Assembler, address: Register) {
    asm.add_immediate(T0, ZERO, 1);
    asm.store_double(T0, address, 0);
}

fn see(asm: &mut Assembler, first: Register, second: Register) {
    asm.store_double(first, S2, 0);
    asm.store_double(second, S2, 8);
}

fn forbid(machine: &Machine, what: &[(usize, u64, u64)]) -> Result<(), String> {
    let found: Vec<u64> = what
        .iter()
        .map(|&(hart, word, _)| seen(machine, hart, word))
        .collect();
    if what
        .iter()
        .zip(&found)
        .all(|(&(.., forbidden), &found)| forbidden == found)
    {
        Err(format!("seen (hart, word, value): {what:?}"))
    } else {
        Ok(())
    }
}

/// MP with fences.
#[test]
fn a_message_is_there_when_its_flag_is() {
    try_all(
        2,
        |asm, hart| {
            if hart == 0 {
                store_one(asm, S0);
                asm.fence(W, W);
                store_one(asm, S1);
            } else {
                asm.load_double(T1, S1, 0);
                asm.fence(R, R);
                asm.load_double(T2, S0, 0);
                see(asm, T1, T2);
            }
        },
        |machine| forbid(machine, &[(1, 0, 1), (1, 1, 0)]),
    );
}

/// MP, where the reader's order comes from the address of its second load.
#[test]
fn an_address_dependency_orders() {
    try_all(
        2,
        |asm, hart| {
            if hart == 0 {
                store_one(asm, S0);
                asm.fence(W, W);
                store_one(asm, S1);
            } else {
                asm.load_double(T1, S1, 0);
                asm.operate(XOR, T3, T1, T1);
                asm.add(T3, T3, S0);
                asm.load_double(T2, T3, 0);
                see(asm, T1, T2);
            }
        },
        |machine| forbid(machine, &[(1, 0, 1), (1, 1, 0)]),
    );
}

/// MP with release and acquire.
#[test]
fn release_and_acquire_order() {
    try_all(
        2,
        |asm, hart| {
            if hart == 0 {
                store_one(asm, S0);
                asm.amo(AMO_SWAP, RELEASE, 8, ZERO, T0, S1);
            } else {
                asm.amo(AMO_ADD, ACQUIRE, 8, T1, ZERO, S1);
                asm.load_double(T2, S0, 0);
                see(asm, T1, T2);
            }
        },
        |machine| forbid(machine, &[(1, 0, 1), (1, 1, 0)]),
    );
}

/// MP with `lr.aq` and `sc.rl`.
#[test]
fn reservations_order() {
    try_all(
        2,
        |asm, hart| {
            if hart == 0 {
                store_one(asm, S0);
                let again = asm.label_here();
                asm.load_reserved(RELAXED, 8, T3, S1);
                asm.store_conditional(RELEASE, 8, T3, T0, S1);
                asm.branch(When::NotEqual, T3, ZERO, again);
            } else {
                asm.load_reserved(ACQUIRE, 8, T1, S1);
                asm.load_double(T2, S0, 0);
                see(asm, T1, T2);
            }
        },
        |machine| forbid(machine, &[(1, 0, 1), (1, 1, 0)]),
    );
}

/// SB with fences.
#[test]
fn two_harts_do_not_both_miss_what_the_other_stored() {
    try_all(
        2,
        |asm, hart| {
            let (mine, other) = if hart == 0 { (S0, S1) } else { (S1, S0) };
            store_one(asm, mine);
            asm.fence(RW, RW);
            asm.load_double(T1, other, 0);
            see(asm, T1, ZERO);
        },
        |machine| forbid(machine, &[(0, 0, 0), (1, 0, 0)]),
    );
}

/// SB with atomics that acquire.
#[test]
fn two_harts_do_not_both_miss_what_the_other_swapped() {
    try_all(
        2,
        |asm, hart| {
            let (mine, other) = if hart == 0 { (S0, S1) } else { (S1, S0) };
            asm.add_immediate(T0, ZERO, 1);
            asm.amo(AMO_SWAP, ACQUIRE, 8, ZERO, T0, mine);
            asm.load_double(T1, other, 0);
            see(asm, T1, ZERO);
        },
        |machine| forbid(machine, &[(0, 0, 0), (1, 0, 0)]),
    );
}

/// LB with data dependencies.
#[test]
fn values_do_not_come_out_of_nothing() {
    try_all(
        2,
        |asm, hart| {
            let (from, to) = if hart == 0 { (S0, S1) } else { (S1, S0) };
            asm.load_double(T1, from, 0);
            asm.operate(XOR, T2, T1, T1);
            asm.add_immediate(T2, T2, 1);
            asm.store_double(T2, to, 0);
            see(asm, T1, ZERO);
        },
        |machine| forbid(machine, &[(0, 0, 1), (1, 0, 1)]),
    );
}

/// 2+2W with fences.
#[test]
fn stores_of_two_harts_have_one_order() {
    try_all(
        2,
        |asm, hart| {
            let (first, second) = if hart == 0 { (S0, S1) } else { (S1, S0) };
            store_one(asm, first);
            asm.fence(W, W);
            asm.add_immediate(T0, ZERO, 2);
            asm.store_double(T0, second, 0);
        },
        |machine| {
            // Both first stores last.
            if read(machine, X) == 1 && read(machine, Y) == 1 {
                Err("x = 1 and y = 1".to_string())
            } else {
                Ok(())
            }
        },
    );
}

/// WRC with fences: what one hart has seen, and told, is seen.
#[test]
fn causality_is_transitive() {
    try_all(
        3,
        |asm, hart| match hart {
            0 => store_one(asm, S0),
            1 => {
                asm.load_double(T1, S0, 0);
                asm.fence(RW, RW);
                store_one(asm, S1);
                see(asm, T1, ZERO);
            }
            _ => {
                asm.load_double(T1, S1, 0);
                asm.fence(R, R);
                asm.load_double(T2, S0, 0);
                see(asm, T1, T2);
            }
        },
        |machine| forbid(machine, &[(1, 0, 1), (2, 0, 1), (2, 1, 0)]),
    );
}

/// IRIW with fences: all harts agree on the order of independent stores.
#[test]
fn independent_stores_have_one_order() {
    try_all(
        4,
        |asm, hart| match hart {
            0 => store_one(asm, S0),
            1 => store_one(asm, S1),
            _ => {
                let (first, second) = if hart == 2 { (S0, S1) } else { (S1, S0) };
                asm.load_double(T1, first, 0);
                asm.fence(R, R);
                asm.load_double(T2, second, 0);
                see(asm, T1, T2);
            }
        },
        |machine| forbid(machine, &[(2, 0, 1), (2, 1, 0), (3, 0, 1), (3, 1, 0)]),
    );
}

/// Counts in t5 how often a read of x gave something older than the read before it in program
/// order, while another hart counts x up. `read_pair` reads into t1, then into t2.
fn reads_in_order(read_pair: impl Fn(&mut Assembler)) {
    try_all(
        2,
        |asm, hart| {
            asm.load_immediate(T4, 60);
            asm.add_immediate(T5, ZERO, 0);
            let again = asm.label_here();
            if hart == 0 {
                asm.add_immediate(T5, T5, 1);
                asm.store_double(T5, S0, 0);
                asm.store_double(T5, S0, 8);
            } else {
                read_pair(asm);
                asm.operate(SLTU, T3, T2, T1);
                asm.add(T5, T5, T3);
            }
            asm.add_immediate(T4, T4, -1);
            asm.branch(When::NotEqual, T4, ZERO, again);
            asm.store_double(T5, S2, 0);
        },
        |machine| match seen(machine, 1, 0) {
            0 => Ok(()),
            times => Err(format!("reads went back {times} times")),
        },
    );
}

/// CoRR.
#[test]
fn reads_of_one_address_do_not_go_back() {
    reads_in_order(|asm| {
        asm.load_double(T1, S0, 0);
        asm.load_double(T2, S0, 0);
    });
}

/// CoRR, where the older read's address comes late.
#[test]
fn a_read_does_not_overtake_one_whose_address_comes_late() {
    reads_in_order(|asm| {
        asm.add_immediate(T3, ZERO, 1);
        asm.operate(DIVU, T0, S0, T3);
        asm.load_double(T1, T0, 0);
        asm.load_double(T2, S0, 0);
    });
}

/// CoRR, where the older read's address comes out of a line that another hart writes, and so is
/// not known when the younger is carried out.
#[test]
fn a_read_does_not_overtake_one_whose_address_is_missing() {
    reads_in_order(|asm| {
        asm.load_double(T0, S0, 8);
        asm.operate(XOR, T0, T0, T0);
        asm.add(T0, T0, S0);
        asm.load_double(T1, T0, 0);
        asm.load_double(T2, S0, 0);
    });
}

/// CoRR, where the younger read takes the hart's own store and the older one, whose address
/// comes late, sees what another hart has stored after that.
#[test]
fn a_read_of_ones_own_store_is_not_older_than_the_read_before() {
    for core in models() {
        let spec = server(2, &core);
        for turns in 0..60 {
            let mut asm = Assembler::new();
            asm.harts(2, |asm, hart| {
                asm.load_immediate(S0, X);
                asm.load_immediate(S2, SEEN + 64 * hart as u64);
                asm.load_immediate(S3, POINTERS);
                if hart == 0 {
                    asm.amo(AMO_ADD, RELAXED, 8, ZERO, ZERO, S0);
                    delay(asm, 200);
                    store_one(asm, S0);
                    asm.load_double(T1, S3, 0); // from memory
                    asm.load_double(T1, T1, 0);
                    asm.load_double(T2, S0, 0);
                    see(asm, T1, T2);
                } else {
                    delay(asm, 320 + 6 * turns);
                    asm.add_immediate(T0, ZERO, 2);
                    asm.store_double(T0, S0, 0);
                }
                asm.halt();
            });
            let image = asm.finish(&[(POINTERS, X.to_le_bytes().to_vec())]);
            let machine = halted(&spec, image);
            assert_ne!(
                (seen(&machine, 0, 0), seen(&machine, 0, 1)),
                (2, 1),
                "delay {turns} on {:?}",
                core.model
            );
        }
    }
}

/// CoWR: a hart never reads something older than its own store.
#[test]
fn a_hart_sees_its_own_store() {
    try_all(
        2,
        |asm, hart| {
            asm.add_immediate(T0, ZERO, hart as i64 + 1);
            asm.store_double(T0, S0, 0);
            asm.load_double(T1, S0, 0);
            see(asm, T1, ZERO);
        },
        |machine| {
            let last = read(machine, X);
            for hart in 0..2 {
                let (own, found) = (hart as u64 + 1, seen(machine, hart, 0));
                if found == 0 || last == own && found != own && seen(machine, 1 - hart, 0) == own {
                    return Err(format!("hart {hart} read {found}, x is {last}"));
                }
            }
            Ok(())
        },
    );
}
