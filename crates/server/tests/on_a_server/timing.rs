//! Small programs whose cycles follow from arithmetic.
//!
//! Every expected number is derived beside its test, from the descriptions of the core and of the
//! fabric. The measurement is the difference between two lengths of the same program, or between
//! two passes over the same code, so that beginning and end cancel.

use crate::common::assembler::*;
use crate::common::servers::{at_one_gigahertz, halted, models, read, server, with_lru};
use fabric::SocketLinkSpec;
use pipeline::{CoreSpec, Model};
use server::ServerSpec;
use std::cmp::Ordering;

const RESULTS: u64 = 0x8010_0000;
/// A line that the measured hart owns.
const OWNED: u64 = 0x8011_0000;
/// Data of the first pass; those of the second are the same distance further.
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

fn one_tile(core: &CoreSpec) -> ServerSpec {
    at_one_gigahertz(1, core)
}

/// The cycles between two reads of the cycle counter around `body`, in the first and in the second
/// of two passes over the same code. `chain`: the data of a pass is a circular chain with this
/// number of pointers at this stride in bytes.
///
/// A read waits until everything before it has committed, and later instructions are not dispatched
/// before the next cycle.
fn passes(spec: &ServerSpec, chain: (u64, u64), body: impl Fn(&mut Assembler)) -> [u64; 2] {
    passes_of(spec, chain, &body)
}

/// The same, compiled once, not for each caller.
fn passes_of(spec: &ServerSpec, chain: (u64, u64), body: &dyn Fn(&mut Assembler)) -> [u64; 2] {
    let mut asm = Assembler::new();
    asm.load_immediate(T0, FLOAT_ON);
    asm.csr_write(MSTATUS, T0);
    let idle = asm.label();
    if spec.fabric.cores > 1 {
        // A hart starts with its number in a0.
        asm.branch(When::NotEqual, A0, ZERO, idle);
    }
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
    asm.bind(idle);
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

/// The additional cycles of the second pass for a body of `long` parts compared with one of
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

/// Each operation depends on the previous one: 20 of them take 20 latencies.
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
    // Zero by zero, in order: two steps of the multiplier and two more cycles.
    chain("multiplication", MUL, 3, 4);
    chain("division", DIVU, 20, 33);
    chain("floating-point addition", FADD_D, 2, 4);
    chain("floating-point multiplication", FMUL_D, 4, 4);
    chain("floating-point division", FDIV_D, 12, 58);
    // Opcode madd, double: a multiplication with an addition.
    chain("fused multiplication", (0x43, 7, 0x01), 4, 4);
}

/// The in-order core's multiplier takes 8 bits of the first operand in a step, and one step to
/// detect that none are left, up to 8 steps; 4 for products of 32 bits. Its result can be used 2
/// cycles later.
#[test]
fn an_iterative_multiplier_ends_early() {
    let spec = one_tile(&in_order());
    let product = |operation, operand: u64| {
        let cycles = |products| {
            passes(&spec, (0, 0), |asm| {
                asm.load_immediate(T1, operand);
                asm.load_immediate(T2, 0);
                for _ in 0..products {
                    asm.operate(operation, T2, T1, T2);
                }
            })[1]
        };
        (cycles(30) - cycles(10)) / 20
    };
    assert_eq!(product(MUL, 0xff), 2 + 2);
    assert_eq!(product(MUL, 0x100), 3 + 2);
    assert_eq!(product(MUL, 0xff_ffff), 4 + 2);
    assert_eq!(product(MUL, 1 << 48), 8 + 2);
    assert_eq!(product(MUL, u64::MAX), 8 + 2);
    assert_eq!(product(MULW, 0xff), 2 + 2);
    assert_eq!(product(MULW, 0xffff_ffff), 4 + 2);
    assert_eq!(product(MULHU, 1), 8 + 2);
    // The same operand, ready earlier: the port is the bottleneck.
    let independent = |products| {
        passes(&spec, (0, 0), |asm| {
            asm.load_immediate(T1, 0xff);
            for _ in 0..products {
                asm.operate(MUL, T2, T1, T1);
            }
        })[1]
    };
    assert_eq!(independent(30) - independent(10), 20 * 4);
}

/// In order, a CSR is read and written in the write-back stage, three cycles after decode: as in
/// Rocket.
#[test]
fn csrs_are_accessed_in_the_last_stage() {
    let slope_in_order = |part: &dyn Fn(&mut Assembler)| {
        slope(&one_tile(&in_order()), 10, 30, |asm, _| part(asm)) / 20
    };
    // An instruction that uses the value is decoded in the cycle of the access, and takes one
    // itself.
    let read_and_use = slope_in_order(&|asm| {
        asm.csr_read(T1, CYCLE);
        asm.add(T2, T1, T1);
    });
    assert_eq!(read_and_use, 3 + 1);
    // Instructions after a write are fetched again from the last stage on, and decoded 2 cycles
    // later.
    assert_eq!(slope_in_order(&|asm| asm.csr_write(MIE, ZERO)), 5);
    // Only a read can observe this one.
    assert_eq!(slope_in_order(&|asm| asm.csr_write(MSCRATCH, ZERO)), 3);
}

/// From load to use takes the data cache's latency.
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

/// Independent operations are limited by ports, or by the width.
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
    // Zero by zero: two steps of the in-order core's multiplier, which processes one product at a
    // time.
    independent("multiplication", MUL, [120 / 2, 120 * 4]);
    independent("division", DIVU, [120 * 20, 120 * 33]);
    independent("floating-point addition", FADD_D, [120 / 4, 120]);
    independent("floating-point multiplication", FMUL_D, [120 / 2, 120]);
    independent("floating-point division", FDIV_D, [120 * 12, 120 * 58]);
    // Classes that share a unit: bit manipulation, remainders, sign injection, comparison, fused
    // multiplication, square root.
    independent("rotation", (0x33, 1, 0x30), [120 / 6, 120]);
    independent("remainder", REMU, [120 * 20, 120 * 33]);
    independent("sign injection", (0x53, 0, 0x11), [120 / 4, 120]);
    independent("comparison", (0x53, 2, 0x51), [120 / 4, 120]);
    independent("fused multiplication", (0x43, 7, 0x01), [120 / 2, 120]);
    assert_slopes(
        "square root",
        (60, 180),
        |asm, _| asm.emit(r_type((0x53, 7, 0x2d), T1, S2, 0)),
        [120 * 12, 120 * 58],
    );
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
        // One store port, and one store a cycle from the store queue.
        [120, 120],
    );
}

/// Six additions, two multiplications and two loads would issue in a cycle by their ports, but the
/// width is 8: ten instructions take ten eighths of a cycle. In order they take ten.
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

/// A jump ends the fetch of its cycle: one jump a cycle.
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

/// A branch with ready operands is dispatched, issued in the next cycle and resolved in the one
/// after; then the right path passes through the front end. Out of order: 1 + 1 + 8 cycles; in
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

/// Meanwhile the predicted path of a branch that waits for a load is executed. If the prediction
/// was wrong, the right path begins when the branch is resolved; if not, its instructions only have
/// to commit.
#[test]
fn a_wrong_prediction_behind_a_miss_costs_as_much() {
    let spec = one_tile(&out_of_order());
    // The word at 8 is 0, so that the branch is never taken: the predictor is right. With the
    // pass's number added, it is taken in the second pass.
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
    // Right: the instruction after the branch commits with it, a cycle after the branch is
    // resolved. Wrong: it is dispatched 8 cycles after that, issued 1 later, done 1 later, and
    // commits 1 later: 11 instead of 1.
    assert_eq!(cycles(true) - cycles(false), 10);
}

/// The second pass's chain through `links` lines, so that the second pass accesses cold memory or
/// the last-level cache for the first time while the code is in the instruction cache.
fn chase(spec: &ServerSpec, (lines, stride): (u64, u64), warm: bool) -> u64 {
    let cycles = |links: u64| {
        passes(spec, (lines, stride), |asm| {
            asm.copy(T1, DATA);
            if warm {
                // One round: all lines are in the last-level cache, the last ones in the first
                // level.
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
        // 1024 lines are twice the cache's capacity out of order, four times in order; with LRU
        // replacement, every load misses.
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

/// Two sockets of one core on one tile each: the code and the stack of hart 0 are in the memory of
/// its socket, the data of both passes in that of the other. The link takes 20 cycles and carries
/// 8 bytes a cycle.
fn two_sockets(core: &CoreSpec) -> ServerSpec {
    let mut spec = one_tile(core);
    spec.fabric.sockets = 2;
    spec.fabric.cores = 2;
    spec.fabric.socket_link = SocketLinkSpec {
        latency_ns: 20.0,
        bandwidth_gb_per_s: 8.0,
    };
    // The second half of 4 MiB begins at the address of the data.
    spec.memory_mib = 4;
    assert_eq!(PASS_DATA, 0x8000_0000 + (2 << 20));
    spec
}

/// As on one socket, plus the link in both directions: 1 cycle to its port, 1 for the 8 bytes of
/// the request or 9 for the 72 of the answer, 20, and 1 to the bank or the core.
#[test]
fn a_chase_through_the_other_socket() {
    let there = 1 + 1 + 20 + 1;
    let back = 1 + 9 + 20 + 1;
    let [cached, remote] = [(1024, true), (64, false)]
        .map(|(lines, warm)| models().map(|core| chase(&two_sockets(&core), (lines, 64), warm)));
    assert_eq!(cached, [4, 2].map(|hit| hit + there + 10 + back + 1));
    // The bank and its memory are on one socket: 1 to the controller, 50, 1 back, the bank again.
    let memory = 10 + 1 + 50 + 1 + 10;
    assert_eq!(remote, [4, 2].map(|hit| hit + there + memory + back + 1));
}

/// On a mesh of 4 x 4 tiles, with core 0 in a corner: a request of one flit takes 3 cycles a hop,
/// the answer of 72 bytes, 5 flits of 16, another 4 for its tail.
#[test]
fn a_chase_through_a_distant_bank() {
    let core = out_of_order();
    for (bank, hops) in [(1, 1), (4, 1), (5, 2), (15, 6)] {
        let mut spec = one_tile(&core);
        spec.fabric.mesh.columns = 4;
        spec.fabric.mesh.rows = 4;
        // Lines are interleaved over 16 banks: every 16th is in the same one. 128 of them map to 8
        // sets of 4 ways.
        let cycles = |links: u64| {
            passes(&spec, (128, 16 * 64), |asm| {
                // The original chain is in bank 0; the copies are 64 bytes apart, one bank each.
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
                // One round: the written lines have left the cache, because their write-backs, 5
                // flits each, would delay the requests after them.
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

/// A miss register is free again when its line arrives, and the load that waited for it continues
/// in that cycle: 12 more loads than registers take 12 more in the time from issue to fill, a cycle
/// less than from issue to use.
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
    // All of them overlap; two issue in a cycle, but the bank accepts one message in a cycle.
    assert_eq!(cycles(12) - cycles(4), 8);
    assert_eq!(cycles(24) - cycles(12), memory - 1);
}

/// The reorder buffer holds 192 instructions: four misses with 47 instructions after each. A load
/// is dispatched once the fourth before it has committed. From its dispatch to that of the fourth
/// after it: 1 cycle to issue, the miss, 1 to commit, 1 to take its place.
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
/// after them still enters; with 64 it does not until the line has arrived.
///
/// Let the miss be dispatched in cycle 0 and its value be there in 1 + M. 63 additions after it
/// issue from 1 + M on, 6 a cycle: the last in 11 + M, done in 12 + M, committed in 13 + M, after
/// the second load, which issued in 9. With 64, the first additions have issued before 3 + M, when
/// the load is dispatched in 2 + M: it issues in 3 + M, has its value in 3 + 2 M, and commits in 4
/// + 2 M.
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

/// The load queue holds 32 loads: after a miss, 31 more, the last of which may miss as well.
///
/// Let the first be dispatched in cycle 0. Two issue in a cycle, the last of 32 in 16: it has
/// its value in 16 + M and commits in 17 + M. One more waits until the first, whose value is
/// there in 1 + M and which commits in 2 + M, frees its entry in 3 + M: it issues in 4 + M, has its
/// value in 4 + 2 M, and commits in 5 + 2 M.
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

/// In order, with two miss registers: a load whose value is not used does not stall the next one.
#[test]
fn in_order_misses_overlap_until_a_value_is_used() {
    let mut core = in_order();
    core.l1_data.mshrs = 2;
    // This way no written line is evicted.
    core = with_lru(core);
    let spec = one_tile(&core);
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
    // A second load issues a cycle later, and its line arrives a cycle later.
    assert_eq!(cycles(2, false) - cycles(1, false), 1);
    // Two more: two registers again, from issue to fill.
    assert_eq!(cycles(4, false) - cycles(2, false), memory - 1);
    // If used at once: the addition issues when the value is ready, and the next load after it.
    assert_eq!(cycles(4, true) - cycles(2, true), 2 * (memory + 1));
}

/// Out of order, a store issues when its data is ready, the load after it takes the value in that
/// cycle, and has it after the cache's latency: 4 for each pair. In order, the load issues a cycle
/// after the store: 1 + 2.
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

/// A load that needs more bytes than a store supplies waits until the store has been performed. Out
/// of order: the store issues when its data is ready, is done in the next cycle, commits in the one
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

/// Code executed for the first time, with a jump in each line: the next line is requested in the
/// cycle after the jump, the request leaves after the instruction cache's latency, and the line's
/// first instruction is dispatched on arrival.
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

/// Two harts alternately take a line from each other, each when the other has finished its access.
///
/// The additional time of an atomic compared with an owned line: the request leaves after the
/// cache's latency; the request, the forward, and the line of 5 flits cross the one link, or stay
/// on the tile; the bank takes 10; the owner looks up its cache, and reads the line out.
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
            // Half an iteration apart.
            for _ in 0..if hart == 0 { 0 } else { 12 } {
                asm.operate(DIVU, T2, T2, T2);
            }
            asm.fence(RW, RW);
            let again = asm.label_here();
            for place in 0..2 {
                // The first atomic finds the line in the other cache, the second finds it here.
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

/// The classes of instructions not covered above, each with its unit's latency.
#[test]
fn a_dependent_chain_takes_the_latency_of_its_class() {
    let chain = |what, part: &dyn Fn(&mut Assembler), expected: [u64; 2]| {
        assert_slopes(what, (10, 30), |asm, _| part(asm), expected);
    };
    let operation = |operation| move |asm: &mut Assembler| asm.operate(operation, T1, T1, T1);
    // Bit manipulation is integer arithmetic; a remainder uses the divider; floating-point
    // operations without rounding use the adder, as do conversions and moves; a square root uses
    // the divider. Opcode, funct3, funct7, as in the instruction set listings.
    chain("sh1add", &operation((0x33, 2, 0x10)), [20, 20]);
    chain("rotation", &operation((0x33, 1, 0x30)), [20, 20]);
    chain("remainder", &operation(REMU), [20 * 20, 20 * 33]);
    chain(
        "upper product",
        &operation((0x33, 3, 0x01)),
        [20 * 3, 20 * 10],
    );
    chain(
        "sign injection",
        &operation((0x53, 0, 0x11)),
        [20 * 2, 20 * 4],
    );
    chain("maximum", &operation((0x53, 1, 0x15)), [20 * 2, 20 * 4]);
    chain(
        "square root",
        &|asm| asm.emit(r_type((0x53, 7, 0x2d), T1, T1, 0)),
        [20 * 12, 20 * 58],
    );
    chain(
        "conversion to an integer and back",
        &|asm| {
            asm.emit(r_type((0x53, 1, 0x61), T1, 1, 2)); // fcvt.l.d
            asm.emit(r_type((0x53, 7, 0x69), 1, T1, 2)); // fcvt.d.l
        },
        [20 * (2 + 2), 20 * (4 + 4)],
    );
    chain(
        "move to an integer and back",
        &|asm| {
            asm.emit(r_type((0x53, 0, 0x71), T1, 1, 0)); // fmv.x.d
            asm.emit(r_type((0x53, 0, 0x79), 1, T1, 0)); // fmv.d.x
        },
        [20 * (2 + 2), 20 * (4 + 4)],
    );
}

/// An indirect jump with a known target ends the fetch of its cycle, like a direct one.
#[test]
fn an_indirect_jump_ends_the_cycle_of_its_fetch() {
    // The smaller predictor has 32 entries, and distinguishes 8 instructions of 8 bytes.
    assert_slopes(
        "jump to a register",
        (2, 6),
        |asm, _| {
            asm.emit(0x17 | u32::from(T2) << 7); // auipc t2, 0
            asm.jump_register(ZERO, T2, 8);
        },
        [4, 4 * 2],
    );
}

/// An atomic is performed alone, at the head of the store queue: in the cycle after the previous
/// one has committed. Its value can be used after the cache's latency, and it commits in the cycle
/// after that. So each takes 1 + latency + 1, whether it needs the value of the previous one or
/// not.
#[test]
fn atomics_go_one_after_the_other() {
    for dependent in [false, true] {
        assert_slopes(
            "atomic on a line that is owned",
            (10, 30),
            |asm, _| {
                let source = if dependent { T1 } else { ZERO };
                asm.amo(AMO_ADD, RELAXED, 8, T1, source, OWNED_BASE);
            },
            [20 * (1 + 4 + 1), 20 * (1 + 2 + 1)],
        );
    }
}

/// Cycles that hart 0 takes for `body`, with the code in its instruction cache and with lines in
/// the last-level cache that it does not hold: hart 1 has loaded and evicted them. The base is the
/// first of 16 KiB of such lines.
///
/// No line has to be evicted from hart 0's cache for them, whose message would occupy the bank.
fn with_lines_in_the_last_level(spec: &ServerSpec, body: impl Fn(&mut Assembler)) -> u64 {
    // The lines that the body accesses in each pass, followed by twice the capacity of hart 1's
    // cache.
    const LINES: u64 = PASS_DATA;
    const PASS_LINES_BYTES: u64 = 16 << 10;
    const FLAG: u64 = OWNED + 128;
    let mut asm = Assembler::new();
    asm.harts(2, |asm, hart| {
        asm.load_immediate(T5, FLAG);
        if hart == 1 {
            asm.load_immediate(T0, LINES);
            asm.load_immediate(T1, LINES + 2 * PASS_LINES_BYTES + (64 << 10));
            let again = asm.label_here();
            asm.load_double(T2, T0, 0);
            asm.add_immediate(T0, T0, 64);
            asm.branch(When::NotEqual, T0, T1, again);
            asm.fence(RW, RW);
            asm.add_immediate(T0, ZERO, 1);
            asm.store_double(T0, T5, 0);
            return asm.halt();
        }
        let wait = asm.label_here();
        asm.load_double(T0, T5, 0);
        asm.branch(When::Equal, T0, ZERO, wait);
        asm.load_immediate(S6, RESULTS);
        asm.load_immediate(DATA, LINES);
        asm.load_immediate(S5, LINES + 2 * PASS_LINES_BYTES);
        asm.align(64);
        let again = asm.label_here();
        asm.fence(RW, RW);
        asm.csr_read(S10, CYCLE);
        body(asm);
        asm.csr_read(S11, CYCLE);
        asm.operate(SUB, S11, S11, S10);
        asm.store_double(S11, S6, 0);
        asm.load_immediate(T0, PASS_LINES_BYTES);
        asm.add(DATA, DATA, T0);
        let done = asm.label();
        asm.branch(When::Equal, DATA, S5, done);
        asm.jump(again);
        asm.bind(done);
        asm.halt();
    });
    // The second pass has overwritten the result of the first one.
    read(&halted(spec, asm.finish(&[])), RESULTS)
}

fn two_tiles(core: &CoreSpec) -> ServerSpec {
    at_one_gigahertz(2, core)
}

/// One load or store for each of `lines` lines of a bank. Lines are interleaved over two banks;
/// bank 0 is beside hart 0, bank 1 on the next tile.
fn stream(asm: &mut Assembler, lines: i64, bank: i64, store: bool) {
    // Offsets reach 2048 bytes.
    for line in 0..lines {
        if line % 16 == 0 {
            asm.load_immediate(T2, (line * 128 + bank * 64) as u64);
            asm.add(T2, T2, DATA);
        }
        if store {
            asm.store_double(ZERO, T2, line % 16 * 128);
        } else {
            asm.load_double(T1, T2, line % 16 * 128);
        }
    }
    if store {
        asm.fence(RW, RW);
    }
}

/// Loads from the last-level cache: as many outstanding as there are miss registers, and one for
/// each cycle of a bank, or for each five cycles of a link, which carries a line in five flits.
#[test]
fn the_last_level_caches_bandwidth() {
    let core = out_of_order();
    let cycles = |spec: &ServerSpec, bank, short, long| {
        let cycles =
            |lines| with_lines_in_the_last_level(spec, |asm| stream(asm, lines, bank, false));
        cycles(long) - cycles(short)
    };
    let spec = two_tiles(&core);
    // 12 registers, each occupied from issue to fill: 4 in the first-level cache, 1 to the bank on
    // the same tile, 10 in it, 1 back.
    assert_eq!(cycles(&spec, 0, 12, 60), 4 * (4 + 1 + 10 + 1));
    // More registers than are ever used: the bank limits, with a message in a cycle.
    let mut many = spec.clone();
    many.core.l1_data.mshrs = 64;
    assert_eq!(cycles(&many, 0, 30, 60), 30);
    // The other tile: the link back limits.
    assert_eq!(cycles(&many, 1, 30, 60), 30 * 5);
    // A link of 72 bytes carries a line in a cycle.
    many.fabric.mesh.link_bytes = 72;
    assert_eq!(cycles(&many, 1, 30, 60), 30);
}

/// Stores to lines of the last-level cache: ownership is requested for as many committed stores as
/// there are miss registers.
#[test]
fn the_last_level_caches_bandwidth_for_stores() {
    let spec = two_tiles(&out_of_order());
    let cycles = |lines| with_lines_in_the_last_level(&spec, |asm| stream(asm, lines, 0, true));
    assert_eq!(cycles(60) - cycles(12), 4 * (4 + 1 + 10 + 1));
}

/// Lines of memory, accessed for the first time: the channel limits, with 16 bytes a nanosecond and
/// so a line in four cycles, or the miss registers do.
#[test]
fn memorys_bandwidth() {
    let mut spec = one_tile(&out_of_order());
    let cycles = |spec: &ServerSpec, (short, long), store| {
        let cycles = |lines| passes(spec, (0, 0), |asm| stream(asm, lines, 0, store))[1];
        cycles(long) - cycles(short)
    };
    // From issue to fill: as in the chase through memory, a cycle less than to the use.
    let memory = 4 + 1 + 10 + 1 + 50 + 1 + 10 + 1;
    assert_eq!(cycles(&spec, (12, 60), false), 4 * memory);
    assert_eq!(cycles(&spec, (12, 60), true), 4 * memory);
    // 12 lines in 78 cycles are one in 6.5; with 32 outstanding, one in 2.4, the channel limits.
    spec.core.l1_data.mshrs = 32;
    spec.fabric.memory.bandwidth_gb_per_s = 16.0;
    assert_eq!(cycles(&spec, (32, 64), false), 32 * 4);
    assert_eq!(cycles(&spec, (32, 64), true), 32 * 4);
    // Two controllers, each on the tile of its lines' bank, alternate. The link back is wide enough
    // not to limit, and 64 loads are outstanding, which is more than a latency's worth.
    let mut spec = one_tile(&out_of_order());
    spec.fabric.mesh.columns = 2;
    spec.fabric.mesh.link_bytes = 72;
    spec.core.l1_data.mshrs = 64;
    spec.core.load_queue_entries = 64;
    spec.fabric.memory.bandwidth_gb_per_s = 16.0;
    spec.fabric.memory.controllers = 2;
    let cycles = |lines| {
        passes(&spec, (0, 0), |asm| {
            for line in 0..lines {
                asm.load_double(T1, DATA, line % 32 * 64);
                if line % 32 == 31 {
                    asm.add_immediate(DATA, DATA, 2047);
                    asm.add_immediate(DATA, DATA, 1);
                }
            }
        })[1]
    };
    assert_eq!(cycles(192) - cycles(128), 64 * 4 / 2);
}

/// The store queue holds 32 stores, until they are performed.
///
/// Let the first be dispatched in cycle 0. A store issues in each cycle, the last of 32 in 32; it
/// is done in the cycle after, commits in the next, requests its line in the next, and is performed
/// on the line's arrival, M later: in 35 + M. One more is dispatched when the first has been
/// performed, in 4 + M, issues in the next, and is performed in 8 + 2 M.
#[test]
fn the_store_queue_limits_how_many_stores_wait() {
    let mut spec = one_tile(&out_of_order());
    spec.core.l1_data.mshrs = 64;
    let memory = chase(&spec, (64, 64), false) - 1;
    let cycles = |stores| passes(&spec, (0, 0), |asm| stream(asm, stores, 0, true))[1];
    assert_eq!(cycles(33) - cycles(32), (8 + 2 * memory) - (35 + memory));
}

/// The distance between two tiles, on a mesh of this width, in cycles of a message's head.
fn way(columns: u64, from: u64, to: u64) -> u64 {
    let hops = (from % columns).abs_diff(to % columns) + (from / columns).abs_diff(to / columns);
    if hops == 0 { 1 } else { 3 * hops }
}

/// The direction of the first link on the path between two tiles: first along the row, then along
/// the column. `None`: they are the same tile.
fn first_link(columns: u64, from: u64, to: u64) -> Option<&'static str> {
    match (to % columns).cmp(&(from % columns)) {
        Ordering::Greater => Some("east"),
        Ordering::Less => Some("west"),
        Ordering::Equal => match to.cmp(&from) {
            Ordering::Greater => Some("south"),
            Ordering::Less => Some("north"),
            Ordering::Equal => None,
        },
    }
}

/// All harts add to one word for ever. The line goes round: the bank serves requests in order of
/// arrival, so each hart gets it once in each round, and a round takes the sum of the times that
/// moving the line takes.
///
/// The bank takes 10 cycles for a request. The forward goes to the hart that has the line, which
/// looks into its cache, reads the line out, sends it to the next hart, and tells the bank; then
/// the next request is served. If the line and this message start on the same link, the message
/// follows the five flits of the line.
#[test]
fn a_contended_line_goes_round() {
    const ITERATIONS: u64 = 32;
    for mut core in models() {
        // This way no other written line is evicted.
        core = with_lru(core);
        for (harts, columns, rows) in [(4, 2, 2), (8, 4, 2), (16, 4, 4)] {
            let mut spec = server(harts, &core);
            spec.fabric.clock_ghz = 1.0;
            spec.fabric.mesh.columns = columns;
            spec.fabric.mesh.rows = rows;
            let mut asm = Assembler::new();
            asm.harts(harts, |asm, hart| {
                asm.load_immediate(S0, OWNED); // line 0 of bank 0
                asm.load_immediate(S1, PASS_DATA + 0x1000 * hart as u64);
                asm.load_immediate(T1, ITERATIONS);
                asm.add_immediate(T2, ZERO, 1);
                // Each hart's results have their own lines, so that nothing misses later.
                for iteration in 0..ITERATIONS as i64 {
                    asm.store_double(ZERO, S1, 16 * iteration);
                }
                asm.fence(RW, RW);
                let again = asm.label_here();
                asm.amo(AMO_ADD, RELAXED, 8, T3, T2, S0);
                asm.csr_read(T4, CYCLE);
                asm.store_double(T3, S1, 0);
                asm.store_double(T4, S1, 8);
                asm.add_immediate(S1, S1, 16);
                // Long enough for the line to be taken away.
                asm.operate(DIVU, T2, T2, T2);
                asm.add_immediate(T1, T1, -1);
                asm.branch(When::NotEqual, T1, ZERO, again);
                asm.halt();
            });
            let machine = halted(&spec, asm.finish(&[]));
            let (harts, columns) = (harts as u64, columns as u64);
            assert_eq!(read(&machine, OWNED), ITERATIONS * harts);
            let result = |hart: u64, iteration: u64, word: u64| {
                read(
                    &machine,
                    PASS_DATA + 0x1000 * hart + 16 * iteration + 8 * word,
                )
            };
            // The order of harts in a round.
            let mut order: Vec<u64> = (0..harts).collect();
            order.sort_by_key(|&hart| result(hart, 12, 0) % harts);
            let look_up = core.l1_data.hit_latency_cycles;
            let round: u64 = (0..order.len())
                .map(|place| {
                    let (hart, next) = (order[place], order[(place + 1) % order.len()]);
                    let way = way(columns, 0, hart);
                    let behind = first_link(columns, hart, 0).is_some()
                        && first_link(columns, hart, 0) == first_link(columns, hart, next);
                    let behind = if behind { 5 } else { 0 };
                    10 + way + look_up + spec.fabric.forward_latency_cycles + behind + way
                })
                .sum();
            for &hart in &order {
                // The first iterations are contended irregularly, and in the last ones some harts
                // have finished.
                for iteration in 12..ITERATIONS - 8 {
                    let [found, cycles] = [0, 1].map(|word| {
                        result(hart, iteration + 1, word) - result(hart, iteration, word)
                    });
                    let what = format!(
                        "hart {hart} of {harts}, iteration {iteration}, {:?}",
                        core.model
                    );
                    assert_eq!(found, harts, "{what}: everybody once in a round");
                    // The order depends on the initial contention. If two messages of a round meet
                    // on a link after the first one, which is not counted above, one waits a cycle.
                    assert!(
                        (round..=round + 1).contains(&cycles),
                        "{what}: {cycles}, {round}"
                    );
                }
            }
        }
    }
}

/// Two harts take a line from each other, near and far on a mesh of 4 x 4: the request goes to the
/// line's home, the forward from there to the other hart, and the line from it.
#[test]
fn a_line_goes_to_and_fro_across_the_mesh() {
    let core = out_of_order();
    for (other, home) in [
        (1u64, 0u64),
        (4, 4),
        (15, 0),
        (15, 15),
        (15, 3),
        (3, 12),
        (5, 10),
    ] {
        let mut spec = server(16, &core);
        spec.fabric.clock_ghz = 1.0;
        spec.fabric.mesh.columns = 4;
        spec.fabric.mesh.rows = 4;
        let line = OWNED + 64 * home;
        const FLAG: u64 = OWNED + 0x1_0000;
        let mut asm = Assembler::new();
        asm.harts(16, |asm, hart| {
            if hart != 0 && hart as u64 != other {
                return asm.halt();
            }
            asm.load_immediate(S0, line);
            asm.load_immediate(S1, RESULTS + 1024 * u64::from(hart != 0));
            asm.load_immediate(S2, FLAG);
            asm.load_immediate(T1, 12);
            asm.add_immediate(T2, ZERO, 1);
            // Half an iteration apart.
            if hart == 0 {
                let wait = asm.label_here();
                asm.load_double(T0, S2, 0);
                asm.branch(When::Equal, T0, ZERO, wait);
            } else {
                asm.store_double(T2, S2, 0);
                for _ in 0..18 {
                    asm.operate(DIVU, T2, T2, T2);
                }
            }
            asm.fence(RW, RW);
            let again = asm.label_here();
            for place in 0..2 {
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
        let (look_up, read_out, bank, tail) = (4, 4, 10, 4);
        for (index, (me, owner)) in [(0, other), (other, 0)].into_iter().enumerate() {
            let expected = look_up
                + way(4, me, home)
                + bank
                + way(4, home, owner)
                + look_up
                + read_out
                + way(4, owner, me)
                + tail;
            let found = read(&machine, RESULTS + 1024 * index as u64);
            assert_eq!(found, expected, "hart {me} from {owner}, home {home}");
        }
    }
}
