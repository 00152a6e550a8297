//! Litmus tests: outcomes that the memory model forbids never occur, whatever the timing, and of
//! the allowed ones those that this model claims to have do occur (*The RISC-V Instruction Set
//! Manual*, Volume I, chapter "RVWMO Memory Consistency Model"; the tests' names are those of
//! Alglave, Maranget and Tautschnig, "Herding Cats", 2014).
//!
//! Each is tried with many delays, with the lines in various caches or in memory, and with their
//! homes near and far on the mesh. docs/memory-model.md has the table, and is compared with it
//! here.

use crate::common::assembler::*;
use crate::common::servers::{
    PREFETCHERS, halted, models, non_inclusive, read, server, with_prefetchers, with_second_level,
    with_small_tlbs, with_threads, with_total_store_order,
};
use crate::selection::{effort, sampled, seed};
use fabric::{DataPrefetcherKind, PrefetcherKind};
use pipeline::{CoreSpec, MemoryModel};
use riscv::elf::Image;
use server::{Machine, ServerSpec};
use std::collections::BTreeMap;

/// The addresses of x, y and z: a line each, with homes on various tiles.
const X: u64 = 0x8010_0000;
/// The address where each hart stores what it has read: a line each, two words.
const SEEN: u64 = 0x8011_0000;
/// Lines that are only in memory.
const COLD: u64 = 0x8014_0000;
/// Pointers that are only in memory.
const POINTERS: u64 = 0x8012_0000;

fn seen(machine: &Machine, hart: usize, word: u64) -> u64 {
    read(machine, SEEN + 64 * hart as u64 + 8 * word)
}

/// Delays later instructions by about `cycles` cycles.
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

/// Brings `address` into the hart's cache, for reading or for writing.
fn warm(asm: &mut Assembler, address: Register, warmth: u64) {
    match warmth % 3 {
        0 => {}
        1 => asm.load_double(ZERO, address, 0),
        _ => asm.amo(AMO_ADD, RELAXED, 8, ZERO, ZERO, address),
    }
}

/// The values that make up the outcome.
#[derive(Clone, Copy)]
enum At {
    /// t1 or t2 of a hart.
    First(usize),
    Second(usize),
    /// The final value of x or y.
    X,
    Y,
}

/// The verdict about an outcome.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// RVWMO forbids it: it never occurs.
    Forbidden,
    /// RVWMO allows it; whether it occurs out of order, and in order.
    Allowed(bool, bool),
}

use At::{First, Second};
use Verdict::{Allowed, Forbidden};

struct Litmus {
    name: &'static str,
    /// The statements of each hart: see [`perform`].
    harts: &'static [&'static str],
    looks_at: &'static [At],
    /// The outcome in question.
    outcome: &'static [u64],
    verdict: Verdict,
    /// Sequential outcomes, which must occur for the test to be meaningful.
    common: &'static [&'static [u64]],
}

fn one(asm: &mut Assembler, address: Register) {
    value(asm, address, 1);
}

fn value(asm: &mut Assembler, address: Register, value: i64) {
    asm.add_immediate(T0, ZERO, value);
    asm.store_double(T0, address, 0);
}

/// A load whose address depends on `on`.
fn load_by(asm: &mut Assembler, on: Register, rd: Register, address: Register) {
    asm.operate(XOR, T3, on, on);
    asm.add(T3, T3, address);
    asm.load_double(rd, T3, 0);
}

/// A store of 1 whose data depends on `on`.
fn store_data_by(asm: &mut Assembler, on: Register, address: Register) {
    asm.operate(XOR, T3, on, on);
    asm.add_immediate(T3, T3, 1);
    asm.store_double(T3, address, 0);
}

/// A store of 1 whose address depends on `on`.
fn store_at_by(asm: &mut Assembler, on: Register, address: Register) {
    asm.operate(XOR, T3, on, on);
    asm.add(T3, T3, address);
    one(asm, T3);
}

/// A branch on `on` with the same path either way.
fn branch_on(asm: &mut Assembler, on: Register) {
    let next = asm.label();
    asm.branch(When::NotEqual, on, ZERO, next);
    asm.bind(next);
}

const FENCE_TSO: u32 = 0x8330_000f;

/// The register of a name. Those of x, y and z hold their addresses.
fn register(name: &str) -> Register {
    match name {
        "x" => S0,
        "y" => S1,
        "z" => S3,
        "t1" => T1,
        "t2" => T2,
        "t3" => T3,
        _ => panic!("no register or variable is called {name}"),
    }
}

/// An atomic such as `amoswap.rl`, which writes 1, or adds 0.
fn atomic(asm: &mut Assembler, name: &str, rd: Register, address: Register) {
    let (operation, order) = match name.split_once('.') {
        None => (name, RELAXED),
        Some((operation, "aq")) => (operation, ACQUIRE),
        Some((operation, _)) => (operation, RELEASE),
    };
    if operation != "lr" && operation != "amoadd" {
        asm.add_immediate(T0, ZERO, 1);
    }
    match operation {
        "lr" => asm.load_reserved(order, 8, rd, address),
        "sc" => asm.store_conditional(order, 8, rd, T0, address),
        "amoswap" => asm.amo(AMO_SWAP, order, 8, rd, T0, address),
        "amoadd" => asm.amo(AMO_ADD, order, 8, rd, ZERO, address),
        _ => panic!("no atomic is called {operation}"),
    }
}

/// Emits the statements of one hart, one after the other. Values read are left in t1 and t2, which
/// are initially 0. `addr`, `data` and `ctrl` are dependencies on a register, as in the tests'
/// names.
fn perform(asm: &mut Assembler, statements: &str) {
    let set = |name| match name {
        "r" => R,
        "w" => W,
        _ => RW,
    };
    for statement in statements.split("; ") {
        let words: Vec<&str> = statement.split(' ').collect();
        match words[..] {
            ["fence", before, after] => asm.fence(set(before), set(after)),
            ["fence.tso"] => asm.emit(FENCE_TSO),
            ["ctrl", on] => branch_on(asm, register(on)),
            ["lr-sc.rl", at] => {
                let again = asm.label_here();
                atomic(asm, "lr", T3, register(at));
                atomic(asm, "sc.rl", T3, register(at));
                asm.branch(When::NotEqual, T3, ZERO, again);
            }
            [name, at] => atomic(asm, name, ZERO, register(at)),
            [rd, "=", name, at] => atomic(asm, name, register(rd), register(at)),
            [at, "=", "1", "data", on] => store_data_by(asm, register(on), register(at)),
            [at, "=", "1", "addr", on] => store_at_by(asm, register(on), register(at)),
            [rd, "=", at, "addr", on] => load_by(asm, register(on), register(rd), register(at)),
            [at @ ("x" | "y" | "z"), "=", number] => {
                value(asm, register(at), number.parse().unwrap());
            }
            [rd, "=", at] => asm.load_double(register(rd), register(at), 0),
            _ => panic!("{statement} is no statement"),
        }
    }
}

const MP: &[At] = &[First(1), Second(1)];
const MP_COMMON: &[&[u64]] = &[&[0, 0], &[0, 1], &[1, 1]];
const SB: &[At] = &[First(0), First(1)];
const SB_COMMON: &[&[u64]] = &[&[0, 1], &[1, 0]];
const LB_COMMON: &[&[u64]] = &[&[0, 1], &[1, 0]];
const S: &[At] = &[First(1), At::X];
const S_COMMON: &[&[u64]] = &[&[0, 1], &[0, 2], &[1, 1]];
const R_TEST: &[At] = &[At::Y, First(1)];
const R_COMMON: &[&[u64]] = &[&[1, 0], &[2, 1]];
const TWO_WRITES: &[At] = &[At::X, At::Y];
const TWO_WRITES_COMMON: &[&[u64]] = &[&[1, 2], &[2, 1]];
const WRC: &[At] = &[First(1), First(2), Second(2)];
const WRC_COMMON: &[&[u64]] = &[&[0, 0, 0], &[1, 1, 1], &[0, 0, 1]];
const IRIW: &[At] = &[First(2), Second(2), First(3), Second(3)];
const IRIW_COMMON: &[&[u64]] = &[&[0, 0, 0, 0], &[1, 1, 1, 1]];

const TESTS: &[Litmus] = &[
    Litmus {
        name: "SB",
        harts: &["x = 1; t1 = y", "y = 1; t1 = x"],
        looks_at: SB,
        outcome: &[0, 0],
        verdict: Allowed(true, true),
        common: SB_COMMON,
    },
    Litmus {
        name: "SB+fence.w.r",
        harts: &["x = 1; fence w r; t1 = y", "y = 1; fence w r; t1 = x"],
        looks_at: SB,
        outcome: &[0, 0],
        verdict: Forbidden,
        common: SB_COMMON,
    },
    Litmus {
        name: "SB+fence.tso",
        harts: &["x = 1; fence.tso; t1 = y", "y = 1; fence.tso; t1 = x"],
        looks_at: SB,
        outcome: &[0, 0],
        verdict: Allowed(true, true),
        common: SB_COMMON,
    },
    Litmus {
        name: "SB+amoswap.rl",
        harts: &["amoswap.rl x; t1 = y", "amoswap.rl y; t1 = x"],
        looks_at: SB,
        outcome: &[0, 0],
        verdict: Allowed(true, true),
        common: SB_COMMON,
    },
    Litmus {
        name: "SB+amoswap.aq",
        harts: &["amoswap.aq x; t1 = y", "amoswap.aq y; t1 = x"],
        looks_at: SB,
        outcome: &[0, 0],
        verdict: Forbidden,
        common: SB_COMMON,
    },
    Litmus {
        name: "SB+amoswap.rl+lr.aq",
        harts: &["amoswap.rl x; t1 = lr.aq y", "amoswap.rl y; t1 = lr.aq x"],
        looks_at: SB,
        outcome: &[0, 0],
        verdict: Forbidden,
        common: SB_COMMON,
    },
    // A hart sees its own store before others do, and instructions that depend on it proceed.
    Litmus {
        name: "SB+rfi-addr",
        harts: &[
            "x = 1; t1 = x; t2 = y addr t1",
            "y = 1; t1 = y; t2 = x addr t1",
        ],
        looks_at: &[First(0), Second(0), First(1), Second(1)],
        outcome: &[1, 0, 1, 0],
        verdict: Allowed(true, true),
        common: &[&[1, 0, 1, 1], &[1, 1, 1, 0]],
    },
    Litmus {
        name: "MP",
        harts: &["x = 1; y = 1", "t1 = y; t2 = x"],
        looks_at: MP,
        outcome: &[1, 0],
        verdict: Allowed(true, true),
        common: MP_COMMON,
    },
    Litmus {
        name: "MP+fence.w.w+po",
        harts: &["x = 1; fence w w; y = 1", "t1 = y; t2 = x"],
        looks_at: MP,
        outcome: &[1, 0],
        verdict: Allowed(true, true),
        common: MP_COMMON,
    },
    Litmus {
        name: "MP+po+fence.r.r",
        harts: &["x = 1; y = 1", "t1 = y; fence r r; t2 = x"],
        looks_at: MP,
        outcome: &[1, 0],
        verdict: Allowed(false, false),
        common: MP_COMMON,
    },
    Litmus {
        name: "MP+fence.w.w+fence.r.r",
        harts: &["x = 1; fence w w; y = 1", "t1 = y; fence r r; t2 = x"],
        looks_at: MP,
        outcome: &[1, 0],
        verdict: Forbidden,
        common: MP_COMMON,
    },
    Litmus {
        name: "MP+fence.tso",
        harts: &["x = 1; fence.tso; y = 1", "t1 = y; fence.tso; t2 = x"],
        looks_at: MP,
        outcome: &[1, 0],
        verdict: Forbidden,
        common: MP_COMMON,
    },
    Litmus {
        name: "MP+fence.w.w+addr",
        harts: &["x = 1; fence w w; y = 1", "t1 = y; t2 = x addr t1"],
        looks_at: MP,
        outcome: &[1, 0],
        verdict: Forbidden,
        common: MP_COMMON,
    },
    // A branch does not order loads: the load after it is executed on the predicted path.
    Litmus {
        name: "MP+fence.w.w+ctrl",
        harts: &["x = 1; fence w w; y = 1", "t1 = y; ctrl t1; t2 = x"],
        looks_at: MP,
        outcome: &[1, 0],
        verdict: Allowed(true, false),
        common: MP_COMMON,
    },
    Litmus {
        name: "MP+amoswap.rl+amoadd.aq",
        harts: &["x = 1; amoswap.rl y", "t1 = amoadd.aq y; t2 = x"],
        looks_at: MP,
        outcome: &[1, 0],
        verdict: Forbidden,
        common: MP_COMMON,
    },
    Litmus {
        name: "MP+sc.rl+lr.aq",
        harts: &["x = 1; lr-sc.rl y", "t1 = lr.aq y; t2 = x"],
        looks_at: MP,
        outcome: &[1, 0],
        verdict: Forbidden,
        common: MP_COMMON,
    },
    // Stores are performed after all older loads have their values.
    Litmus {
        name: "LB",
        harts: &["t1 = x; y = 1", "t1 = y; x = 1"],
        looks_at: SB,
        outcome: &[1, 1],
        verdict: Allowed(false, false),
        common: LB_COMMON,
    },
    Litmus {
        name: "LB+datas",
        harts: &["t1 = x; y = 1 data t1", "t1 = y; x = 1 data t1"],
        looks_at: SB,
        outcome: &[1, 1],
        verdict: Forbidden,
        common: LB_COMMON,
    },
    Litmus {
        name: "LB+addrs",
        harts: &["t1 = x; y = 1 addr t1", "t1 = y; x = 1 addr t1"],
        looks_at: SB,
        outcome: &[1, 1],
        verdict: Forbidden,
        common: LB_COMMON,
    },
    Litmus {
        name: "LB+ctrls",
        harts: &["t1 = x; ctrl t1; y = 1", "t1 = y; ctrl t1; x = 1"],
        looks_at: SB,
        outcome: &[1, 1],
        verdict: Forbidden,
        common: LB_COMMON,
    },
    Litmus {
        name: "LB+fence.r.w",
        harts: &["t1 = x; fence r w; y = 1", "t1 = y; fence r w; x = 1"],
        looks_at: SB,
        outcome: &[1, 1],
        verdict: Forbidden,
        common: LB_COMMON,
    },
    // The order of both accesses, one of which would have to be reversed, is kept: load before
    // store, and store before store.
    Litmus {
        name: "S",
        harts: &["x = 2; y = 1", "t1 = y; x = 1"],
        looks_at: S,
        outcome: &[1, 2],
        verdict: Allowed(false, false),
        common: S_COMMON,
    },
    Litmus {
        name: "S+fence.w.w+data",
        harts: &["x = 2; fence w w; y = 1", "t1 = y; x = 1 data t1"],
        looks_at: S,
        outcome: &[1, 2],
        verdict: Forbidden,
        common: S_COMMON,
    },
    Litmus {
        name: "S+fence.w.w+addr",
        harts: &["x = 2; fence w w; y = 1", "t1 = y; x = 1 addr t1"],
        looks_at: S,
        outcome: &[1, 2],
        verdict: Forbidden,
        common: S_COMMON,
    },
    Litmus {
        name: "S+fence.w.w+ctrl",
        harts: &["x = 2; fence w w; y = 1", "t1 = y; ctrl t1; x = 1"],
        looks_at: S,
        outcome: &[1, 2],
        verdict: Forbidden,
        common: S_COMMON,
    },
    Litmus {
        name: "R",
        harts: &["x = 1; y = 1", "y = 2; t1 = x"],
        looks_at: R_TEST,
        outcome: &[2, 0],
        verdict: Allowed(true, true),
        common: R_COMMON,
    },
    Litmus {
        name: "R+fences",
        harts: &["x = 1; fence w w; y = 1", "y = 2; fence rw rw; t1 = x"],
        looks_at: R_TEST,
        outcome: &[2, 0],
        verdict: Forbidden,
        common: R_COMMON,
    },
    // Stores are performed in order.
    Litmus {
        name: "2+2W",
        harts: &["x = 1; y = 2", "y = 1; x = 2"],
        looks_at: TWO_WRITES,
        outcome: &[1, 1],
        verdict: Allowed(false, false),
        common: TWO_WRITES_COMMON,
    },
    Litmus {
        name: "2+2W+fence.w.w",
        harts: &["x = 1; fence w w; y = 2", "y = 1; fence w w; x = 2"],
        looks_at: TWO_WRITES,
        outcome: &[1, 1],
        verdict: Forbidden,
        common: TWO_WRITES_COMMON,
    },
    Litmus {
        name: "CoRR",
        harts: &["x = 1", "t1 = x; t2 = x"],
        looks_at: MP,
        outcome: &[1, 0],
        verdict: Forbidden,
        common: &[&[0, 0], &[1, 1]],
    },
    Litmus {
        name: "CoRR+addr late",
        harts: &["x = 1", "t3 = y; t1 = x addr t3; t2 = x"],
        looks_at: MP,
        outcome: &[1, 0],
        verdict: Forbidden,
        common: &[&[0, 0], &[1, 1]],
    },
    // One of two exchanges of the value comes first.
    Litmus {
        name: "amoswap+amoswap",
        harts: &["t1 = amoswap x", "t1 = amoswap x"],
        looks_at: SB,
        outcome: &[0, 0],
        verdict: Forbidden,
        common: SB_COMMON,
    },
    // The value written by a successful `sc` follows the value read by the `lr`: t2 is 0 if it
    // succeeds.
    Litmus {
        name: "lr-sc+amoswap",
        harts: &["t1 = lr x; t2 = sc x", "t1 = amoswap x"],
        looks_at: &[First(0), Second(0), First(1)],
        outcome: &[0, 0, 0],
        verdict: Forbidden,
        common: &[&[0, 0, 1], &[1, 0, 0]],
    },
    Litmus {
        name: "WRC",
        harts: &["x = 1", "t1 = x; y = 1", "t1 = y; t2 = x"],
        looks_at: WRC,
        outcome: &[1, 1, 0],
        verdict: Allowed(true, true),
        common: WRC_COMMON,
    },
    // A value seen by one hart, and signalled to another, is visible to it: stores become visible
    // to all others at once.
    Litmus {
        name: "WRC+data+addr",
        harts: &["x = 1", "t1 = x; y = 1 data t1", "t1 = y; t2 = x addr t1"],
        looks_at: WRC,
        outcome: &[1, 1, 0],
        verdict: Forbidden,
        common: WRC_COMMON,
    },
    Litmus {
        name: "WRC+fences",
        harts: &[
            "x = 1",
            "t1 = x; fence rw rw; y = 1",
            "t1 = y; fence r r; t2 = x",
        ],
        looks_at: WRC,
        outcome: &[1, 1, 0],
        verdict: Forbidden,
        common: WRC_COMMON,
    },
    Litmus {
        name: "RWC",
        harts: &["x = 1", "t1 = x; t2 = y", "y = 1; t1 = x"],
        looks_at: &[First(1), Second(1), First(2)],
        outcome: &[1, 0, 0],
        verdict: Allowed(true, true),
        common: &[&[1, 1, 1], &[0, 1, 0]],
    },
    Litmus {
        name: "RWC+fences",
        harts: &[
            "x = 1",
            "t1 = x; fence r r; t2 = y",
            "y = 1; fence rw rw; t1 = x",
        ],
        looks_at: &[First(1), Second(1), First(2)],
        outcome: &[1, 0, 0],
        verdict: Forbidden,
        common: &[&[1, 1, 1], &[0, 1, 0]],
    },
    Litmus {
        name: "ISA2+fence.w.w+data+addr",
        harts: &[
            "x = 1; fence w w; y = 1",
            "t1 = y; z = 1 data t1",
            "t1 = z; t2 = x addr t1",
        ],
        looks_at: WRC,
        outcome: &[1, 1, 0],
        verdict: Forbidden,
        common: &[&[0, 0, 0], &[1, 1, 1]],
    },
    Litmus {
        name: "IRIW",
        harts: &["x = 1", "y = 1", "t1 = x; t2 = y", "t1 = y; t2 = x"],
        looks_at: IRIW,
        outcome: &[1, 0, 1, 0],
        verdict: Allowed(true, true),
        common: IRIW_COMMON,
    },
    Litmus {
        name: "IRIW+addrs",
        harts: &[
            "x = 1",
            "y = 1",
            "t1 = x; t2 = y addr t1",
            "t1 = y; t2 = x addr t1",
        ],
        looks_at: IRIW,
        outcome: &[1, 0, 1, 0],
        verdict: Forbidden,
        common: IRIW_COMMON,
    },
    Litmus {
        name: "IRIW+fence.r.r",
        harts: &[
            "x = 1",
            "y = 1",
            "t1 = x; fence r r; t2 = y",
            "t1 = y; fence r r; t2 = x",
        ],
        looks_at: IRIW,
        outcome: &[1, 0, 1, 0],
        verdict: Forbidden,
        common: IRIW_COMMON,
    },
];

/// Pseudo-random numbers from a seed.
fn scatter(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// A mesh of 4 x 4 tiles; the harts are on the first row, the homes of lines on all of them.
fn spec(harts: usize, core: &CoreSpec) -> ServerSpec {
    let mut spec = server(harts, core);
    spec.fabric.mesh.columns = 4;
    spec.fabric.mesh.rows = 4;
    spec.fabric.last_level.size_bytes_per_bank = 16 << 10;
    // The last-level cache has the same kind of prefetcher as the instruction cache.
    spec.fabric.last_level.prefetcher = core.l1_instruction_prefetcher;
    spec
}

/// `body` on each hart, with the addresses of x, y and z in s0, s1 and s3 and of its results in s2;
/// and the addresses of x, y and z.
fn program(
    harts: usize,
    core: &CoreSpec,
    trial: u64,
    body: impl Fn(&mut Assembler, usize),
) -> (Image, [u64; 3]) {
    let mut below = scatter(trial);
    // With translation, each in its own page.
    let page = core.translation.map_or(0, |_| 4096);
    let places = [0, 1, 2].map(|variable| X + page * variable + 64 * (16 * variable + below(16)));
    // Some trials are close together in time, others are not.
    let spread = [20, 60, 150, 300][below(4) as usize];
    let mut asm = Assembler::new();
    asm.harts(harts, |asm, hart| {
        for (register, place) in [S0, S1, S3].into_iter().zip(places) {
            asm.load_immediate(register, place);
            warm(asm, register, below(3));
        }
        asm.load_immediate(S2, SEEN + 64 * hart as u64);
        asm.load_immediate(S4, COLD + 0x1000 * hart as u64);
        asm.fence(RW, RW);
        delay(asm, 500 + below(spread));
        // Loads that miss and are not used: later ones may find no miss register.
        let crowd = [0, 1, core.l1_data.mshrs][below(3) as usize];
        for line in 0..crowd {
            asm.load_double(ZERO, S4, 64 * i64::from(line));
        }
        if core.l1_data_prefetcher == DataPrefetcherKind::Stride {
            // A load at strides of a line, from line 0 to line 7 of x and of y: the following lines
            // are prefetched while the test runs.
            asm.load_immediate(S5, X + 1024 * (hart as u64 % 2));
            asm.load_immediate(S6, 8);
            let again = asm.label_here();
            asm.load_double(ZERO, S5, 0);
            asm.add_immediate(S5, S5, 64);
            asm.add_immediate(S6, S6, -1);
            asm.branch(When::NotEqual, S6, ZERO, again);
        }
        body(asm, hart);
        asm.halt();
    });
    (asm.finish(&[]), places)
}

/// Runs `body` on each hart, many times on each model; `judge` receives the outcome and the address
/// of x.
fn try_all(
    harts: usize,
    body: impl Fn(&mut Assembler, usize),
    judge: impl Fn(&Machine, u64) -> Result<(), String>,
) {
    // Also with a second level, and a non-inclusive last level.
    let behind = models().map(with_second_level);
    let of_all = |prefetchers| {
        behind
            .clone()
            .map(|core| with_prefetchers(prefetchers, core))
    };
    let fetching = PREFETCHERS.into_iter().flat_map(of_all);
    let first = [DataPrefetcherKind::NextLine, DataPrefetcherKind::Stride];
    let first =
        first.map(|kind| with_prefetchers((kind, PrefetcherKind::None), models()[0].clone()));
    let shared = [2, 4].map(|threads| with_threads(threads, CoreSpec::hyperplane_table1()));
    for core in models()
        .into_iter()
        .chain(behind.clone())
        .chain(fetching)
        .chain(first)
        .chain(shared)
    {
        let mut spec = spec(harts, &core);
        if core.l2.is_some() {
            spec = non_inclusive(spec);
        }
        for trial in 0..60 {
            let (image, [x, ..]) = program(harts, &core, trial, &body);
            if let Err(outcome) = judge(&halted(&spec, image), x) {
                panic!("trial {trial} on {:?}: {outcome}", core.model);
            }
        }
    }
}

/// The frequencies of outcomes in a number of trials, or more if `claimed` has not yet occurred.
fn outcomes(test: &Litmus, core: &CoreSpec, claimed: bool) -> BTreeMap<Vec<u64>, u64> {
    outcomes_behind(test, core, (0, TRIALS, claimed), |_, _| {})
}

/// The same, in trials from `first` on, `trials` or more, of harts that execute `before` ahead of
/// their bodies, with a random number each.
fn outcomes_behind(
    test: &Litmus,
    core: &CoreSpec,
    (first, trials, claimed): (u64, u64, bool),
    before: impl Fn(&mut Assembler, u64),
) -> BTreeMap<Vec<u64>, u64> {
    let mut spec = spec(test.harts.len(), core);
    if core.l2.is_some() {
        spec = non_inclusive(spec);
    }
    let mut found = BTreeMap::new();
    for trial in first..first + MAXIMUM_TRIALS {
        if trial >= first + trials && (!claimed || found.contains_key(test.outcome)) {
            break;
        }
        let (image, [x, y, _]) = program(test.harts.len(), core, trial, |asm, hart| {
            asm.add_immediate(T1, ZERO, 0);
            asm.add_immediate(T2, ZERO, 0);
            before(asm, scatter(4 * trial + hart as u64)(1 << 16));
            perform(asm, test.harts[hart]);
            asm.store_double(T1, S2, 0);
            asm.store_double(T2, S2, 8);
        });
        let machine = halted(&spec, image);
        let outcome = test.looks_at.iter().map(|&at| match at {
            First(hart) => seen(&machine, hart, 0),
            Second(hart) => seen(&machine, hart, 1),
            At::X => read(&machine, x),
            At::Y => read(&machine, y),
        });
        *found.entry(outcome.collect()).or_default() += 1;
    }
    found
}

const TRIALS: u64 = 400;
/// Trials of outcomes that must not occur: others with each seed, on a few cores and on each of 24.
const RANDOM_TRIALS: u64 = 80;
const FEWER_TRIALS: u64 = 8;
/// Outcomes that require three or four harts to coincide are rare.
const MAXIMUM_TRIALS: u64 = 20_000;

/// No outcome that the core's memory model forbids occurs, in `trials` of each test times the
/// effort, of harts that execute `before` ahead of their bodies.
fn nothing_forbidden_comes_out(
    core: &CoreSpec,
    trials: u64,
    before: impl Fn(&mut Assembler, u64) + Copy,
) {
    let is_forbidden = |test: &&Litmus| match core.memory_model {
        MemoryModel::Rvwmo => test.verdict == Forbidden,
        MemoryModel::Tso => !ALLOWED_BY_TSO.contains(&test.name),
    };
    let first = u64::from(seed().unwrap_or(0) as u32) << 20;
    let trials = trials * effort();
    for test in TESTS.iter().filter(is_forbidden) {
        let found = outcomes_behind(test, core, (first, trials, false), before);
        let comes_out = found.contains_key(test.outcome);
        assert!(!comes_out, "{} on {core:?}: {found:?}", test.name);
    }
}

/// The variables are in more pages than the TLBs hold, so that accesses wait for page walks.
#[test]
fn page_walks_allow_nothing_that_is_forbidden() {
    for core in models()
        .into_iter()
        .chain(models().map(with_total_store_order))
    {
        nothing_forbidden_comes_out(&with_small_tlbs(1, core), RANDOM_TRIALS, |_, _| {});
    }
}

/// Each prefetcher fetches lines, and takes them away from other cores, while the test runs: with
/// small TLBs, whose page walks read through the same caches, and without.
#[test]
fn prefetchers_allow_nothing_that_is_forbidden() {
    for (place, prefetchers) in PREFETCHERS.into_iter().enumerate() {
        for (model, core) in models().map(with_second_level).into_iter().enumerate() {
            let core = with_prefetchers(prefetchers, core);
            // Each prefetcher is combined with page walks on one model with one memory order, and
            // on the other model with the other.
            for core in [core.clone(), with_total_store_order(core)] {
                let is_tso = core.memory_model == MemoryModel::Tso;
                let core = match (place + model + usize::from(is_tso)) % 2 {
                    0 => core,
                    _ => with_small_tlbs(1, core),
                };
                nothing_forbidden_comes_out(&core, FEWER_TRIALS, |_, _| {});
            }
        }
    }
}

/// Prefetch instructions fetch lines and take them away from other cores while the test runs.
#[test]
fn prefetch_instructions_allow_nothing_that_is_forbidden() {
    let prefetches = |asm: &mut Assembler, random: u64| {
        for (place, variable) in [S0, S1].into_iter().enumerate() {
            match random >> (2 * place) & 3 {
                0 => asm.prefetch(PREFETCH_R, variable, 0),
                1 => asm.prefetch(PREFETCH_W, variable, 0),
                _ => {}
            }
        }
    };
    for core in models()
        .into_iter()
        .chain(models().map(with_total_store_order))
    {
        nothing_forbidden_comes_out(&core, RANDOM_TRIALS, prefetches);
    }
}

/// Outcomes that total store order allows, and that occur with it: a load overtakes an older store.
const ALLOWED_BY_TSO: [&str; 5] = ["SB", "SB+fence.tso", "SB+rfi-addr", "R", "RWC"];

fn outcomes_come_out_as_claimed(models: [CoreSpec; 2], claims: impl Fn(&Litmus) -> [bool; 2]) {
    let mut wrong = Vec::new();
    for test in sampled(TESTS) {
        for (core, claimed) in models.iter().zip(claims(test)) {
            let found = outcomes(test, core, claimed);
            let comes_out = found.contains_key(test.outcome);
            println!("{}, {:?}: {found:?}", test.name, core.model);
            if comes_out != claimed {
                wrong.push(format!(
                    "{} on {:?}: {:?} {}; seen: {found:?}",
                    test.name,
                    core.model,
                    test.outcome,
                    if comes_out {
                        "comes out"
                    } else {
                        "never comes out"
                    },
                ));
            }
            for common in test
                .common
                .iter()
                .filter(|&&common| !found.contains_key(common))
            {
                wrong.push(format!(
                    "{} on {:?}: {common:?} is never tried; seen: {found:?}",
                    test.name, core.model
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn outcomes_are_allowed_and_those_that_are_claimed_come_out() {
    outcomes_come_out_as_claimed(models(), |test| match test.verdict {
        Forbidden => [false; 2],
        Allowed(out_of_order, in_order) => [out_of_order, in_order],
    });
}

#[test]
fn with_total_store_order_only_stores_are_overtaken() {
    outcomes_come_out_as_claimed(models().map(with_total_store_order), |test| {
        [ALLOWED_BY_TSO.contains(&test.name); 2]
    });
}

/// Forbidden outcomes do not occur between the harts of one core either, nor between those of two
/// cores with two harts each.
#[test]
fn harts_of_one_core_keep_to_the_memory_model() {
    for threads in [2, 4] {
        let core = with_threads(threads, CoreSpec::hyperplane_table1());
        for core in [core.clone(), with_total_store_order(core)] {
            nothing_forbidden_comes_out(&core, RANDOM_TRIALS, |_, _| {});
        }
    }
}

/// The table in the documentation lists exactly the tests checked here.
#[test]
fn the_documented_table_is_this_one() {
    let document = include_str!("../../../../docs/memory-model.md");
    let documented: Vec<&str> = document
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let comes_out = |yes| if yes { "comes out" } else { "never" };
    let rows: Vec<String> = TESTS
        .iter()
        .map(|test| {
            let outcome: Vec<String> = test.outcome.iter().map(u64::to_string).collect();
            let (rule, models) = match test.verdict {
                Forbidden => ("forbidden", [false, false]),
                Allowed(out_of_order, in_order) => ("allowed", [out_of_order, in_order]),
            };
            let [out_of_order, in_order] = models.map(comes_out);
            let tso = comes_out(ALLOWED_BY_TSO.contains(&test.name));
            format!(
                "| `{}` | {} | {rule} | {out_of_order} | {in_order} | {tso} |",
                test.name,
                outcome.join(", ")
            )
        })
        .collect();
    assert_eq!(
        documented,
        rows,
        "the table should be:\n{}",
        rows.join("\n")
    );
}

/// Counts in t5 how often a read of x returned an older value than the previous read in program
/// order, while another hart increments x. `read_pair` reads into t1, then into t2.
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
        |machine, _| match seen(machine, 1, 0) {
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

/// CoRR, where the address of the older read is late.
#[test]
fn a_read_does_not_overtake_one_whose_address_comes_late() {
    reads_in_order(|asm| {
        asm.add_immediate(T3, ZERO, 1);
        asm.operate(DIVU, T0, S0, T3);
        asm.load_double(T1, T0, 0);
        asm.load_double(T2, S0, 0);
    });
}

/// CoRR, where the address of the older read comes from a line that another hart writes, and so is
/// unknown when the younger one is executed.
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

/// CoRR, where the younger read takes the hart's own store and the older one, whose address is
/// late, sees a later store of another hart.
#[test]
fn a_read_of_ones_own_store_is_not_older_than_the_read_before() {
    for core in models() {
        let spec = server(2, &core);
        for step in 0..60 {
            let mut asm = Assembler::new();
            asm.harts(2, |asm, hart| {
                asm.load_immediate(S0, X);
                asm.load_immediate(S2, SEEN + 64 * hart as u64);
                asm.load_immediate(S3, POINTERS);
                if hart == 0 {
                    asm.amo(AMO_ADD, RELAXED, 8, ZERO, ZERO, S0);
                    delay(asm, 200);
                    one(asm, S0);
                    asm.load_double(T1, S3, 0); // from memory
                    asm.load_double(T1, T1, 0);
                    asm.load_double(T2, S0, 0);
                    asm.store_double(T1, S2, 0);
                    asm.store_double(T2, S2, 8);
                } else {
                    delay(asm, 320 + 6 * step);
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
                "delay {step} on {:?}",
                core.model
            );
        }
    }
}

/// MP, where a younger acquire is dispatched after the reader's and is then squashed with its wrong
/// path: the older one still holds back the load.
#[test]
fn an_acquire_on_a_wrong_path_leaves_the_older_one() {
    for core in models()
        .map(with_total_store_order)
        .into_iter()
        .chain(models())
    {
        let spec = server(2, &core);
        let mut seen_both = false;
        for step in 0..60 {
            let mut asm = Assembler::new();
            asm.harts(2, |asm, hart| {
                asm.load_immediate(S0, X);
                asm.load_immediate(S1, X + 64);
                asm.load_immediate(S2, SEEN + 64 * hart as u64);
                asm.load_immediate(S3, POINTERS);
                if hart == 0 {
                    asm.load_double(ZERO, S0, 0);
                    delay(asm, 200);
                    // It is taken, which is known when the value has come from memory, and not
                    // predicted.
                    asm.load_double(T3, S3, 0);
                    asm.amo(AMO_ADD, ACQUIRE, 8, T1, ZERO, S1);
                    let behind = asm.label();
                    asm.branch(When::NotEqual, T3, ZERO, behind);
                    asm.amo(AMO_ADD, ACQUIRE, 8, ZERO, ZERO, S2);
                    asm.bind(behind);
                    asm.load_double(T2, S0, 0);
                    asm.store_double(T1, S2, 0);
                    asm.store_double(T2, S2, 8);
                } else {
                    asm.amo(AMO_ADD, RELAXED, 8, ZERO, ZERO, S1);
                    delay(asm, 260 + 6 * step);
                    one(asm, S0);
                    asm.fence(W, W);
                    one(asm, S1);
                }
                asm.halt();
            });
            let image = asm.finish(&[(POINTERS, X.to_le_bytes().to_vec())]);
            let machine = halted(&spec, image);
            let outcome = (seen(&machine, 0, 0), seen(&machine, 0, 1));
            assert_ne!(outcome, (1, 0), "delay {step} on {core:?}");
            seen_both |= outcome == (0, 0);
        }
        assert!(seen_both, "the reader always comes last");
    }
}

/// CoWR: a hart never reads an older value than its own store.
#[test]
fn a_hart_sees_its_own_store() {
    try_all(
        2,
        |asm, hart| {
            asm.add_immediate(T0, ZERO, hart as i64 + 1);
            asm.store_double(T0, S0, 0);
            asm.load_double(T1, S0, 0);
            asm.store_double(T1, S2, 0);
        },
        |machine, x| {
            let last = read(machine, x);
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
