//! Small programs whose cycles are arithmetic.
//!
//! Every expected number is derived where it stands, from the descriptions of the core and of the
//! fabric. What is measured is a difference, between two lengths of the same program or between
//! two passes over the same code, so that beginning and end cancel.

mod common;

use common::assembler::*;
use common::servers::{halted, models, read, server};
use pipeline::{CoreSpec, Model};
use server::ServerSpec;

const RESULTS: u64 = 0x8010_0000;
/// A line that the measured hart owns.
const OWNED: u64 = 0x8011_0000;
/// Data of the first pass; that of the second is as far again behind it.
const PASS_DATA: u64 = 0x8020_0000;
const PASS_BYTES: u64 = 0x10_0000;

/// The address of the pass's data.
const DATA: Register = S8;
/// The number of the pass: 0 or 1.
const PASS: Register = S9;
const OWNED_BASE: Register = S7;

fn out_of_order() -> CoreSpec {
    CoreSpec::hyperplane_table1()
}

fn in_order() -> CoreSpec {
    CoreSpec::five_stage()
}

/// One core on one tile, at a gigahertz, so that a nanosecond is a cycle. Memory has bandwidth
/// enough for nothing ever to wait for it.
fn one_tile(core: &CoreSpec) -> ServerSpec {
    let mut spec = server(1, core);
    spec.fabric.clock_ghz = 1.0;
    spec.fabric.memory.bandwidth_gb_per_s = 64_000.0;
    spec
}

/// The cycles between two readings of the cycle counter with `body` between them, in the first
/// and in the second of two passes over the same code. `chain`: the data of a pass is a chain of
/// so many pointers at this stride in bytes, and the last leads to the first.
///
/// A reading waits until everything before it has committed, and nothing behind it is dispatched
/// before the next cycle.
fn passes(spec: &ServerSpec, chain: (u64, u64), body: impl Fn(&mut Assembler)) -> [u64; 2] {
    let mut asm = Assembler::new();
    asm.load_immediate(T0, FLOAT_ON);
    asm.csr_write(MSTATUS, T0);
    asm.load_immediate(OWNED_BASE, OWNED);
    asm.store_double(ZERO, OWNED_BASE, 0);
    asm.load_immediate(DATA, PASS_DATA);
    asm.load_immediate(PASS, 0);
    asm.load_immediate(S6, RESULTS);
    asm.load_immediate(S5, 2);
    asm.align(64);
    let again = asm.label_here();
    asm.csr_read(S10, CYCLE);
    body(&mut asm);
    asm.csr_read(S11, CYCLE);
    asm.operate(SUB, S11, S11, S10);
    asm.store_double(S11, S6, 0);
    asm.fence(RW, RW);
    asm.add_immediate(S6, S6, 8);
    asm.load_immediate(T0, PASS_BYTES);
    asm.add(DATA, DATA, T0);
    asm.add_immediate(PASS, PASS, 1);
    let done = asm.label();
    asm.branch(When::Equal, PASS, S5, done);
    asm.jump(again);
    asm.bind(done);
    asm.halt();
    let (pointers, stride) = chain;
    let data: Vec<(u64, Vec<u8>)> = (0..2)
        .map(|pass| {
            let start = PASS_DATA + pass * PASS_BYTES;
            let mut bytes = vec![0; (pointers * stride).max(64) as usize];
            for link in 0..pointers {
                let next = start + (link + 1) % pointers * stride;
                let at = (link * stride) as usize;
                bytes[at..at + 8].copy_from_slice(&next.to_le_bytes());
            }
            (start, bytes)
        })
        .collect();
    let machine = halted(spec, asm.finish(&data));
    [read(&machine, RESULTS), read(&machine, RESULTS + 8)]
}

/// How many cycles more the second pass takes over a body of `long` parts than over one of
/// `short`.
fn slope(spec: &ServerSpec, short: u64, long: u64, part: impl Fn(&mut Assembler, u64)) -> u64 {
    let cycles = |parts| {
        passes(spec, (0, 0), |asm| {
            for number in 0..parts {
                part(asm, number);
            }
        })[1]
    };
    cycles(long) - cycles(short)
}

/// The same for both models: cycles out of order, cycles in order.
fn assert_slopes(
    what: &str,
    (short, long): (u64, u64),
    part: impl Fn(&mut Assembler, u64),
    expected: [u64; 2],
) {
    let found = models().map(|core| slope(&one_tile(&core), short, long, &part));
    assert_eq!(found, expected, "{what}, {} times", long - short);
}

/// Each operation waits for the one before: 20 of them take 20 latencies.
#[test]
fn a_dependent_chain_takes_the_latencies() {
    let chain = |what, operation, out_of_order: u64, in_order: u64| {
        assert_slopes(
            what,
            (10, 30),
            |asm, _| asm.operate(operation, T1, T1, T1),
            [20 * out_of_order, 20 * in_order],
        );
    };
    chain("addition", ADD, 1, 1);
    chain("multiplication", MUL, 3, 4);
    chain("division", DIVU, 20, 33);
    chain("floating-point addition", FADD_D, 2, 4);
    chain("floating-point multiplication", FMUL_D, 4, 4);
    chain("floating-point division", FDIV_D, 12, 25);
    // Opcode madd, double: a multiplication with an addition.
    chain("fused multiplication", (0x43, 7, 0x01), 4, 4);
}

/// A load to use takes the data cache's latency.
#[test]
fn a_chain_of_hits_takes_the_caches_latency() {
    // One pointer to itself: 4 cycles out of order, 2 in order, for each of 20.
    let found = models().map(|core| {
        let spec = one_tile(&core);
        let cycles = |loads| {
            passes(&spec, (1, 64), |asm| {
                asm.load_double(T1, DATA, 0);
                asm.fence(RW, RW);
                for _ in 0..loads {
                    asm.load_double(T1, T1, 0);
                }
            })[1]
        };
        cycles(30) - cycles(10)
    });
    assert_eq!(found, [20 * 4, 20 * 2]);
}

/// Operations that do not depend on each other are limited by ports, or by the width.
#[test]
fn independent_operations_take_the_ports() {
    let independent = |what, operation, expected| {
        assert_slopes(
            what,
            (60, 180),
            |asm, number| {
                asm.operate(operation, T1 + (number % 2) as u8, S2, S3);
            },
            expected,
        );
    };
    // 120 of them. Out of order: 6, 2 and 4 ports and so on, each taking one a cycle; dividers
    // take one for each latency. In order: one instruction a cycle; dividers likewise.
    independent("addition", ADD, [120 / 6, 120]);
    independent("multiplication", MUL, [120 / 2, 120]);
    independent("division", DIVU, [120 * 20, 120 * 33]);
    independent("floating-point addition", FADD_D, [120 / 4, 120]);
    independent("floating-point multiplication", FMUL_D, [120 / 2, 120]);
    independent("floating-point division", FDIV_D, [120 * 12, 120 * 25]);
    assert_slopes(
        "load",
        (60, 180),
        |asm, _| asm.load_double(T1, OWNED_BASE, 0),
        // Two load ports, or one. In order a load keeps its entry of the load queue for 5 cycles
        // (issued 1 after its dispatch, done 2 later, commits 1 later, gone 1 later), of which
        // there are 8.
        [120 / 2, 120],
    );
    assert_slopes(
        "store",
        (60, 180),
        |asm, _| asm.store_double(T1, OWNED_BASE, 0),
        // One store port, and one store a cycle out of the store queue.
        [120, 120],
    );
}

/// Six additions, two multiplications and two loads want a cycle by their ports, but the width
/// is 8: ten instructions take ten eighths of a cycle. In order they take ten.
#[test]
fn the_width_limits_what_the_ports_would_take() {
    assert_slopes(
        "ten different instructions",
        (8, 16),
        |asm, _| {
            for _ in 0..2 {
                asm.operate(ADD, T1, S2, S3);
                asm.operate(ADD, T1, S2, S3);
                asm.operate(ADD, T1, S2, S3);
                asm.operate(MUL, T2, S2, S3);
                asm.load_double(T3, OWNED_BASE, 0);
            }
        },
        [10, 80],
    );
}

/// A jump ends what is fetched in its cycle: one a cycle.
#[test]
fn a_jump_ends_the_cycle_of_its_fetch() {
    assert_slopes(
        "jump to the next instruction",
        (10, 50),
        |asm, _| {
            let next = asm.label();
            asm.jump(next);
            asm.bind(next);
        },
        [40, 40],
    );
}

/// A branch whose operands are there is dispatched, issued in the next cycle and done in the one
/// after; then the right path goes through the front end. Out of order: 1 + 1 + 8 cycles; in
/// order: 1 + 1 + 2.
#[test]
fn a_wrong_prediction_costs_the_front_end() {
    // Not taken in the first pass, which the predictor learns; taken in the second.
    let found = models().map(|core| {
        let spec = one_tile(&core);
        let cycles = |branches| {
            passes(&spec, (0, 0), |asm| {
                for _ in 0..branches {
                    let next = asm.label();
                    asm.branch(When::NotEqual, PASS, ZERO, next);
                    asm.nop();
                    asm.bind(next);
                }
            })[1]
        };
        cycles(12) - cycles(4)
    });
    assert_eq!(found, [8 * 10, 8 * 4]);
}

/// A branch that waits for a load is followed as predicted meanwhile. If that was wrong, the
/// right path begins when the branch is done; if not, its instructions only have to commit.
#[test]
fn a_wrong_prediction_behind_a_miss_costs_as_much() {
    let spec = one_tile(&out_of_order());
    // The word at 8 is 0, so that the branch is never taken: the predictor is right. With the
    // pass's number added it is taken in the second pass.
    let cycles = |wrong: bool| {
        passes(&spec, (1, 64), |asm| {
            asm.load_double(T1, DATA, 8);
            if wrong {
                asm.add(T1, T1, PASS);
            } else {
                asm.add(T1, T1, ZERO);
            }
            let next = asm.label();
            asm.branch(When::NotEqual, T1, ZERO, next);
            asm.nop();
            asm.bind(next);
            asm.nop();
        })[1]
    };
    // Right: the instruction behind the branch commits with it, a cycle after the branch is done.
    // Wrong: it is dispatched 8 cycles after that, issued 1 later, done 1 later, and commits 1
    // later: 11 instead of 1.
    assert_eq!(cycles(true) - cycles(false), 10);
}

/// The second pass's chain through `links` lines, so that cold memory or the last-level cache is
/// met for the first time by the second pass while the code is in the instruction cache.
fn chase(spec: &ServerSpec, (lines, stride): (u64, u64), warm: bool) -> u64 {
    let cycles = |links: u64| {
        passes(spec, (lines, stride), |asm| {
            asm.copy(T1, DATA);
            if warm {
                // Once round: all lines are in the last-level cache, the last ones in the first.
                asm.load_immediate(T2, lines);
                let again = asm.label_here();
                asm.load_double(T1, T1, 0);
                asm.add_immediate(T2, T2, -1);
                asm.branch(When::NotEqual, T2, ZERO, again);
                asm.fence(RW, RW);
                asm.csr_read(S10, CYCLE);
            }
            for _ in 0..links {
                asm.load_double(T1, T1, 0);
            }
        })[1]
    };
    let (short, long) = (cycles(10), cycles(30));
    assert_eq!((long - short) % 20, 0, "links differ");
    (long - short) / 20
}

/// Issue to departure: the cache's latency. Then, on one tile, 1 cycle to the bank, 10 in it,
/// 1 back; the value can be used in the cycle after.
#[test]
fn a_chase_through_the_last_level_cache() {
    let found = models().map(|core| {
        // 1024 lines are twice what the cache holds out of order, four times what it does in
        // order; in the order of least recent use, every load misses.
        chase(&one_tile(&core), (1024, 64), true)
    });
    assert_eq!(found, [4 + 1 + 10 + 1 + 1, 2 + 1 + 10 + 1 + 1]);
}

/// As before, and after the bank 1 to the controller, 50 of memory, 1 back, and the bank again.
#[test]
fn a_chase_through_memory() {
    let found = models().map(|core| chase(&one_tile(&core), (64, 64), false));
    let beyond = 1 + 10 + 1 + 50 + 1 + 10 + 1 + 1;
    assert_eq!(found, [4 + beyond, 2 + beyond]);
}

/// On a mesh of 4 x 4 tiles, core 0 in a corner: a request of one flit takes 3 cycles a hop, the
/// answer of 72 bytes, 5 flits of 16, another 4 for its tail.
#[test]
fn a_chase_through_a_distant_bank() {
    let core = out_of_order();
    for (bank, hops) in [(1, 1), (4, 1), (5, 2), (15, 6)] {
        let mut spec = one_tile(&core);
        spec.fabric.mesh.columns = 4;
        spec.fabric.mesh.rows = 4;
        // Lines are interleaved over 16 banks: every 16th is in the same one. 128 of them go to
        // 8 sets of 4 ways.
        let cycles = |links: u64| {
            passes(&spec, (128, 16 * 64), |asm| {
                // The chain as it is laid out is in bank 0; the copy is 64 bytes a bank further.
                asm.copy(T1, DATA);
                asm.load_immediate(T2, 128);
                let copy = asm.label_here();
                asm.load_double(T3, T1, 0);
                asm.add_immediate(T3, T3, 64 * bank);
                asm.store_double(T3, T1, 64 * bank);
                asm.add_immediate(T1, T1, 1024);
                asm.add_immediate(T2, T2, -1);
                asm.branch(When::NotEqual, T2, ZERO, copy);
                asm.add_immediate(T1, DATA, 64 * bank);
                // Once round: the lines that were written have left the cache, or their way back
                // home, 5 flits each, would delay the requests behind them.
                asm.load_immediate(T2, 128);
                let again = asm.label_here();
                asm.load_double(T1, T1, 0);
                asm.add_immediate(T2, T2, -1);
                asm.branch(When::NotEqual, T2, ZERO, again);
                asm.fence(RW, RW);
                asm.csr_read(S10, CYCLE);
                for _ in 0..links {
                    asm.load_double(T1, T1, 0);
                }
            })[1]
        };
        let way = 3 * hops;
        let expected = 4 + way + 10 + way + 4 + 1;
        assert_eq!(cycles(30) - cycles(10), 20 * expected, "bank {bank}");
    }
}

/// A miss register is free again when its line comes, and the load that waited for it goes on in
/// that cycle: 12 more loads than there are registers take 12 more in the time from issue to fill,
/// a cycle less than from issue to use.
#[test]
fn miss_registers_limit_how_many_misses_overlap() {
    let spec = one_tile(&out_of_order());
    let memory = chase(&spec, (64, 64), false);
    let cycles = |loads: i64| {
        passes(&spec, (0, 0), |asm| {
            for line in 0..loads {
                asm.load_double(T1, DATA, 64 * line);
            }
        })[1]
    };
    // All of them overlap; two issue in a cycle, but the bank takes one message in a cycle.
    assert_eq!(cycles(12) - cycles(4), 8);
    assert_eq!(cycles(24) - cycles(12), memory - 1);
}

/// The reorder buffer holds 192 instructions: four misses with 47 instructions behind each. A
/// load waits to be dispatched until the fourth before it has committed. From its dispatch to
/// that of the fourth behind it: 1 cycle to issue, the miss, 1 to commit, 1 to take its place.
#[test]
fn the_reorder_buffer_limits_how_many_misses_overlap() {
    let spec = one_tile(&out_of_order());
    let memory = chase(&spec, (64, 64), false);
    let cycles = |groups: i64| {
        passes(&spec, (0, 0), |asm| {
            for line in 0..groups {
                asm.load_double(T1, DATA, 64 * line);
                for _ in 0..47 {
                    asm.operate(ADD, T2, S2, S3);
                }
            }
        })[1]
    };
    assert_eq!(cycles(16) - cycles(8), 2 * (1 + memory + 1 + 1));
}

/// The scheduler holds 64 instructions that have not issued. With 63 that wait for a miss, a load
/// behind them still gets in; with 64 it does not until the line has come.
///
/// Let the miss be dispatched in cycle 0 and its value be there in 1 + M. 63 additions behind it
/// issue from 1 + M on, 6 a cycle: the last in 11 + M, done in 12 + M, committed in 13 + M, after
/// the second load, which issued in 9. With 64, the first additions have issued before 3 + M,
/// when the load is dispatched in 2 + M: it issues in 3 + M, has its value in 3 + 2 M, and commits
/// in 4 + 2 M.
#[test]
fn the_scheduler_limits_how_much_waits() {
    let spec = one_tile(&out_of_order());
    let memory = chase(&spec, (64, 64), false);
    let cycles = |waiting| {
        passes(&spec, (0, 0), |asm| {
            asm.load_double(T1, DATA, 0);
            for _ in 0..waiting {
                asm.operate(ADD, T2, T1, S3);
            }
            asm.load_double(T1, DATA, 64);
        })[1]
    };
    assert_eq!(cycles(64) - cycles(63), (4 + 2 * memory) - (13 + memory));
}

/// The load queue holds 32 loads: behind a miss, 31 more, the last of which may miss as well.
///
/// Let the first be dispatched in cycle 0. Two issue in a cycle, the last of 32 in 16: it has
/// its value in 16 + M and commits in 17 + M. One more waits until the first, whose value is
/// there in 1 + M and which commits in 2 + M, gives up its entry in 3 + M: it issues in 4 + M, has
/// its value in 4 + 2 M, and commits in 5 + 2 M.
#[test]
fn the_load_queue_limits_how_many_loads_wait() {
    let spec = one_tile(&out_of_order());
    let memory = chase(&spec, (64, 64), false);
    let cycles = |hits| {
        passes(&spec, (0, 0), |asm| {
            asm.load_double(T1, DATA, 0);
            for _ in 0..hits {
                asm.load_double(T2, OWNED_BASE, 0);
            }
            asm.load_double(T1, DATA, 64);
        })[1]
    };
    assert_eq!(cycles(31) - cycles(30), (5 + 2 * memory) - (17 + memory));
}

/// In order, two miss registers: a load that is not used does not stall the next.
#[test]
fn in_order_misses_overlap_until_a_value_is_used() {
    let spec = one_tile(&in_order());
    let memory = chase(&spec, (64, 64), false);
    let cycles = |loads: i64, used: bool| {
        passes(&spec, (0, 0), |asm| {
            for line in 0..loads {
                asm.load_double(T1, DATA, 64 * line);
                if used {
                    asm.add(T2, T1, T1);
                }
            }
        })[1]
    };
    // A second load issues a cycle later, and its line comes a cycle later.
    assert_eq!(cycles(2, false) - cycles(1, false), 1);
    // Two more: two registers again, from issue to fill.
    assert_eq!(cycles(4, false) - cycles(2, false), memory - 1);
    // Used at once: the addition issues when the value is there, and the next load after it.
    assert_eq!(cycles(4, true) - cycles(2, true), 2 * (memory + 1));
}

/// Out of order, a store issues when its data is there, the load behind it takes the value in
/// that cycle, and has it after the cache's latency: 4 for each pair. In order, the load issues a
/// cycle after the store: 1 + 2.
#[test]
fn a_value_goes_through_the_store_queue() {
    assert_slopes(
        "store and load",
        (8, 24),
        |asm, _| {
            asm.store_double(T1, OWNED_BASE, 0);
            asm.load_double(T1, OWNED_BASE, 0);
        },
        [16 * 4, 16 * 3],
    );
}

/// A load that needs more than a store gives waits until the store has been performed. Out of
/// order: the store issues when its data is there, is done in the next cycle, commits in the one
/// after, and is performed in the one after that; then the load takes the cache's latency.
#[test]
fn a_value_that_the_store_queue_cannot_give_waits_for_the_cache() {
    assert_slopes(
        "store of 4 bytes and load of 8",
        (8, 24),
        |asm, _| {
            asm.store(4, T1, OWNED_BASE, 0);
            asm.load_double(T1, OWNED_BASE, 0);
        },
        [16 * (1 + 1 + 1 + 4), 16 * (1 + 1 + 1 + 2)],
    );
}

/// Code that is met for the first time, a jump in each line: the next line is asked for in the
/// cycle after the jump, the request leaves after the instruction cache's latency, and the line's
/// first instruction is dispatched when it comes.
#[test]
fn instructions_come_from_memory() {
    let found = models().map(|core| {
        let spec = one_tile(&core);
        let cycles = |lines| {
            passes(&spec, (0, 0), |asm| {
                for _ in 0..lines {
                    let next = asm.label();
                    asm.jump(next);
                    asm.align(64);
                    asm.bind(next);
                }
            })[0]
        };
        cycles(30) - cycles(10)
    });
    let beyond = 1 + 10 + 1 + 50 + 1 + 10 + 1;
    assert_eq!(found, [20 * (1 + 2 + beyond), 20 * (1 + 1 + beyond)]);
}

/// Two harts take a line from each other in turn, each when the other is done with it.
///
/// What an atomic takes more than on a line that is owned: the request leaves after the cache's
/// latency; it, the forward, and the line of 5 flits cross the one link, or stay on the tile; the
/// bank takes 10; the owner looks into its cache, and reads the line out of it.
#[test]
fn a_line_goes_to_and_fro_between_two_harts() {
    for core in models() {
        let mut spec = server(2, &core);
        spec.fabric.clock_ghz = 1.0;
        let mut asm = Assembler::new();
        asm.harts(2, |asm, hart| {
            asm.load_immediate(S0, OWNED); // line 0 of bank 0, beside hart 0
            asm.load_immediate(S1, RESULTS + 64 * hart as u64);
            asm.load_immediate(T1, 12);
            asm.add_immediate(T2, ZERO, 1);
            // Half a turn apart.
            for _ in 0..if hart == 0 { 0 } else { 12 } {
                asm.operate(DIVU, T2, T2, T2);
            }
            asm.fence(RW, RW);
            let again = asm.label_here();
            for place in 0..2 {
                // The first atomic finds the line elsewhere, the second finds it here.
                asm.csr_read(S10, CYCLE);
                asm.amo(AMO_ADD, RELAXED, 8, T3, T2, S0);
                asm.csr_read(S11, CYCLE);
                asm.operate(SUB, S2 + place, S11, S10);
            }
            for _ in 0..24 {
                asm.operate(DIVU, T2, T2, T2);
            }
            asm.fence(RW, RW);
            asm.add_immediate(T1, T1, -1);
            asm.branch(When::NotEqual, T1, ZERO, again);
            asm.operate(SUB, S2, S2, S3);
            asm.store_double(S2, S1, 0);
            asm.halt();
        });
        let machine = halted(&spec, asm.finish(&[]));
        assert_eq!(read(&machine, OWNED), 2 * 2 * 12);
        let look_up = match core.model {
            Model::OutOfOrder => 4,
            Model::InOrder => 2,
        };
        let read_out = spec.fabric.forward_latency_cycles;
        let (hop, local, tail) = (3, 1, 4);
        // Hart 0: to the bank on its tile, on to hart 1, and back. Hart 1: over to the bank, to
        // hart 0 beside it, and back.
        let expected = look_up + local + 10 + hop + look_up + read_out + hop + tail;
        for hart in 0..2 {
            let found = read(&machine, RESULTS + 64 * hart);
            assert_eq!(found, expected, "hart {hart}, {:?}", core.model);
        }
    }
}
