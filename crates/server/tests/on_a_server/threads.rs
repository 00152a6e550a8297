//! Several harts on one core: the share of each, compared with arithmetic and with a separate core.

use crate::common::assembler::*;
use crate::common::servers::{self, Ending, read};
use crate::selection::sampled;
use pipeline::CoreSpec;
use server::ServerSpec;

/// The address of hart 0's cycle count.
const RESULT: u64 = 0x8010_0000;
/// The host-target interface.
const HOST: u64 = 0x8010_1000;
/// The data read by each hart.
const DATA: u64 = 0x8020_0000;
const DATA_BYTES: u64 = 0x10_0000;
/// Unmeasured and measured iterations of a hart's loop.
const WARM_UP: u64 = 20;
const ITERATIONS: u64 = 1000;

type Body = fn(&mut Assembler);

fn spec(threads: u8) -> ServerSpec {
    let core = CoreSpec {
        threads,
        ..CoreSpec::hyperplane_table1()
    };
    servers::server(threads.into(), &core)
}

/// A loop around `body`, whose data is at s0.
fn iterate(asm: &mut Assembler, iterations: u64, body: Body) {
    asm.load_immediate(S1, iterations);
    asm.align(64);
    let again = asm.label_here();
    body(asm);
    asm.add_immediate(S1, S1, -1);
    let done = asm.label();
    asm.branch(When::Equal, S1, ZERO, done);
    asm.jump(again);
    asm.bind(done);
}

/// Cycles of hart 0's iterations on a core with `threads` threads; a hart 1, if there is one,
/// executes `other` all the time, or halts.
fn cycles(threads: u8, body: Body, other: Option<Body>) -> u64 {
    let mut asm = Assembler::new();
    asm.harts(threads.into(), |asm, hart| {
        asm.load_immediate(S0, DATA + DATA_BYTES * hart as u64);
        asm.load_immediate(S2, 1);
        if hart == 0 {
            iterate(asm, WARM_UP, body);
            asm.csr_read(S10, CYCLE);
            iterate(asm, ITERATIONS, body);
            asm.csr_read(S11, CYCLE);
            asm.operate(SUB, S11, S11, S10);
            asm.load_immediate(T0, RESULT);
            asm.store_double(S11, T0, 0);
            asm.fence(RW, RW);
            asm.load_immediate(T0, HOST);
            asm.store_double(S2, T0, 0);
        } else if let Some(other) = other {
            iterate(asm, 1 << 40, other);
        }
        asm.halt();
    });
    // A ring of pointers in each hart's data, a page and a line apart: each misses in all caches at
    // first, and always in the private ones, as 240 lines share 16 sets of 4 ways.
    let ring: Vec<(u64, Vec<u8>)> = (0..u64::from(threads) * 240)
        .map(|number| {
            let (hart, link) = (number / 240, number % 240);
            let at = |link: u64| DATA + DATA_BYTES * hart + link % 240 * 4096 + link % 16 * 64;
            (at(link), at(link + 1).to_le_bytes().to_vec())
        })
        .collect();
    let image = with_host(asm.finish(&ring), HOST);
    let mut machine = servers::machine(&spec(threads), image);
    assert_eq!(servers::run(&mut machine), Ending::Exited);
    read(&machine, RESULT)
}

/// Asserts that hart 0 takes between `least` and `most` times as long beside `other` as alone.
fn assert_slower(body: Body, other: Body, least: f64, most: f64) {
    let alone = cycles(1, body, None);
    let together = cycles(2, body, Some(other));
    let ratio = together as f64 / alone as f64;
    assert!(
        (least..=most).contains(&ratio),
        "{together} cycles beside the other hart, {alone} alone: {ratio:.3} times"
    );
}

/// 60 additions, each of which depends on the previous one.
fn chain(asm: &mut Assembler) {
    for _ in 0..60 {
        asm.add(T1, T1, S2);
    }
}

/// 60 independent loads that hit.
fn loads(asm: &mut Assembler) {
    for _ in 0..60 {
        asm.load_double(ZERO, S0, 0);
    }
}

/// 60 independent multiplications.
fn multiplications(asm: &mut Assembler) {
    for _ in 0..60 {
        asm.operate(MUL, T1, S2, S2);
    }
}

/// 60 independent additions.
fn additions(asm: &mut Assembler) {
    for _ in 0..60 {
        asm.add(T1, S2, S2);
    }
}

/// 60 stores to one line.
fn stores(asm: &mut Assembler) {
    for word in 0..60 {
        asm.store_double(S2, S0, 8 * (word % 8));
    }
}

/// A pointer that misses, and 60 additions that depend on it.
fn misses(asm: &mut Assembler) {
    asm.load_double(S0, S0, 0);
    asm.copy(T1, S0);
    for _ in 0..60 {
        asm.add(T1, T1, S2);
    }
}

/// Loads, stores, a division and a branch that depends on a loaded value, with misses.
fn mixture(asm: &mut Assembler) {
    asm.load_double(S0, S0, 0);
    asm.store_double(S1, S0, 8);
    asm.load_double(T2, S0, 8);
    asm.operate(DIVU, T2, T2, S2);
    asm.and_immediate(T2, T2, 1);
    let over = asm.label();
    asm.branch(When::NotEqual, T2, ZERO, over);
    asm.operate(MUL, T3, T2, S2);
    asm.bind(over);
}

/// Halted harts use nothing: the other one takes exactly as long as on a separate core.
#[test]
fn a_halted_hart_costs_nothing() {
    for body in [chain, loads, multiplications, misses, mixture] {
        let alone = cycles(1, body, None);
        for threads in [2, 4, 8] {
            assert_eq!(cycles(threads, body, None), alone, "{threads} threads");
        }
    }
}

/// Two chains use one port of six each, and one slot each of a width of eight: neither waits.
#[test]
fn two_chains_have_full_speed() {
    assert_slower(chain, chain, 1.0, 1.02);
}

/// Two loads issue in a cycle, and two multiplications: 60 of a hart take 30 cycles, and of both
/// 60, if both get the same. ICOUNT is not exact: 12 % are allowed for it. The first fetch adds its
/// time once.
#[test]
fn what_the_ports_limit_is_halved() {
    for body in [loads, multiplications] {
        let alone = cycles(1, body, None);
        assert!(
            (30 * ITERATIONS..31 * ITERATIONS).contains(&alone),
            "{alone} alone"
        );
        let together = cycles(2, body, Some(body));
        assert!(
            (53 * ITERATIONS..68 * ITERATIONS).contains(&together),
            "{together} together"
        );
    }
}

/// Harts that use different ports do not wait for each other: 60 instructions of each take 30
/// cycles, and 120 instructions in 30 cycles use four of eight slots in the width.
#[test]
fn different_ports_do_not_meet() {
    assert_slower(loads, multiplications, 1.0, 1.05);
    assert_slower(multiplications, loads, 1.0, 1.05);
}

/// A hart that waits for memory has many unissued instructions, so the other one has priority: a
/// chain, which needs one scheduler entry at a time, is hardly delayed, although the additions
/// after a miss would fill the 64 entries. The misses wait for memory anyway; but the chain's
/// additions that have been dispatched ahead occupy entries, so that the next pointer is dispatched
/// later, by at most the 60 cycles in which those issue.
#[test]
fn misses_and_a_chain_get_on() {
    assert_slower(chain, misses, 1.0, 1.05);
    let alone = cycles(1, misses, None);
    let together = cycles(2, misses, Some(chain));
    assert!(
        (alone..alone + 60 * ITERATIONS).contains(&together),
        "{together} cycles beside a chain, {alone} alone"
    );
}

/// Harts that execute the same code at the same time get equal shares. Two multiplications issue in
/// a cycle, so that 60 of each hart take 30 cycles times the number of harts. They do not start in
/// the same cycle, so a hart may take two or three hundredths less: when it starts, not all others
/// are multiplying yet.
#[test]
fn equal_harts_get_equal_parts() {
    for threads in [2, 4, 8] {
        let mut asm = Assembler::new();
        asm.harts(threads.into(), |asm, hart| {
            asm.load_immediate(S0, DATA + DATA_BYTES * hart as u64);
            asm.load_immediate(S2, 1);
            iterate(asm, WARM_UP, multiplications);
            asm.csr_read(S10, CYCLE);
            iterate(asm, ITERATIONS, multiplications);
            asm.csr_read(S11, CYCLE);
            asm.operate(SUB, S11, S11, S10);
            asm.load_immediate(T0, RESULT + 64 * hart as u64);
            asm.store_double(S11, T0, 0);
            asm.halt();
        });
        let machine = servers::halted(&spec(threads), asm.finish(&[]));
        let each: Vec<u64> = (0..u64::from(threads))
            .map(|hart| read(&machine, RESULT + 64 * hart))
            .collect();
        let expected = 30 * ITERATIONS * u64::from(threads);
        let near = expected * 97 / 100..=expected * 102 / 100;
        assert!(each.iter().all(|one| near.contains(one)), "{each:?} cycles");
    }
}

/// When one of them has finished, harts in equal endless loops have executed the same number of
/// instructions, to two hundredths, whatever the bottleneck: a port, the width, the store port. One
/// of two harts may get more, up to a quarter, if all entries of a queue are occupied: see
/// `pipeline/src/thread_policy.rs`.
#[test]
fn equal_harts_execute_equal_numbers_of_instructions() {
    let bodies = [multiplications, loads, additions, stores, chain];
    let pairs = [2, 4, 8].map(|threads| bodies.map(|body| (threads, body)));
    for (threads, body) in sampled(pairs.into_iter().flatten()) {
        let mut asm = Assembler::new();
        asm.harts(threads.into(), |asm, hart| {
            asm.load_immediate(S0, DATA + DATA_BYTES * hart as u64);
            asm.load_immediate(S2, 1);
            iterate(asm, if hart == 0 { 4 * ITERATIONS } else { 1 << 40 }, body);
            asm.load_immediate(T0, HOST);
            asm.store_double(S2, T0, 0);
            asm.halt();
        });
        let image = with_host(asm.finish(&[]), HOST);
        let mut machine = servers::machine(&spec(threads), image);
        assert_eq!(servers::run(&mut machine), Ending::Exited);
        let end = machine.end();
        let core = &machine.engine.cores[0];
        let each: Vec<u64> = (0..threads)
            .map(|thread| core.hart_statistics(thread, end).instructions)
            .collect();
        let (least, most) = (each.iter().min().unwrap(), each.iter().max().unwrap());
        let tolerance = if threads == 2 { 4 } else { 50 };
        assert!(
            most - least <= least / tolerance,
            "{threads} threads: {each:?}"
        );
    }
}

/// The cycles of each hart add up to those of the core.
#[test]
fn the_cycles_of_each_hart_add_up() {
    for threads in [2, 4, 8] {
        let mut asm = Assembler::new();
        asm.harts(threads.into(), |asm, hart| {
            asm.load_immediate(S0, DATA + DATA_BYTES * hart as u64);
            asm.load_immediate(S2, 1);
            let body = [multiplications, loads, chain, stores][hart % 4];
            iterate(asm, ITERATIONS, body);
            asm.halt();
        });
        let machine = servers::halted(&spec(threads), asm.finish(&[]));
        let core = &machine.engine.cores[0];
        let mut instructions = 0;
        for thread in 0..threads {
            let hart = core.hart_statistics(thread, 1 << 20);
            assert_eq!(hart.stack.total(), 1 << 20);
            instructions += hart.instructions;
        }
        let all = core.statistics(1 << 20);
        assert_eq!(all.stack.total(), u64::from(threads) << 20);
        assert_eq!(all.instructions, instructions);
    }
}

/// Ways for the harts of one core to add to a counter.
#[derive(Clone, Copy, Debug)]
enum Count {
    Atomic,
    Conditional,
    /// A word that is locked by a swap, with waiting by `WRS`.
    Locked,
}

/// Eight harts of one core that add to one counter lose no addition, with room for many
/// instructions or few.
#[test]
fn harts_of_a_core_count_together() {
    const TIMES: u64 = 200;
    let counter = DATA;
    let lock = DATA + 64;
    let core = servers::with_threads(8, CoreSpec::hyperplane_table1());
    for core in [core.clone(), servers::tight(core)] {
        for how in [Count::Atomic, Count::Conditional, Count::Locked] {
            let mut asm = Assembler::new();
            asm.harts(8, |asm, _| {
                asm.load_immediate(S0, counter);
                asm.load_immediate(S1, lock);
                asm.load_immediate(S2, 1);
                asm.load_immediate(S3, TIMES);
                let again = asm.label_here();
                match how {
                    Count::Atomic => asm.amo(AMO_ADD, RELAXED, 8, ZERO, S2, S0),
                    Count::Conditional => {
                        let retry = asm.label_here();
                        asm.load_reserved(RELAXED, 8, T0, S0);
                        asm.add(T0, T0, S2);
                        asm.store_conditional(RELAXED, 8, T1, T0, S0);
                        asm.branch(When::NotEqual, T1, ZERO, retry);
                    }
                    Count::Locked => {
                        let (retry, taken) = (asm.label_here(), asm.label());
                        asm.amo(AMO_SWAP, ACQUIRE, 8, T0, S2, S1);
                        asm.branch(When::Equal, T0, ZERO, taken);
                        let wait = asm.label_here();
                        asm.load_reserved(RELAXED, 8, T0, S1);
                        asm.branch(When::Equal, T0, ZERO, retry);
                        asm.wait_on_reservation();
                        asm.jump(wait);
                        asm.bind(taken);
                        asm.load_double(T0, S0, 0);
                        asm.add(T0, T0, S2);
                        asm.store_double(T0, S0, 0);
                        asm.fence(RW, W);
                        asm.store_double(ZERO, S1, 0);
                    }
                }
                asm.add_immediate(S3, S3, -1);
                asm.branch(When::NotEqual, S3, ZERO, again);
                asm.halt();
            });
            let machine = servers::halted(&servers::server(8, &core), asm.finish(&[]));
            assert_eq!(read(&machine, counter), 8 * TIMES, "{how:?}");
        }
    }
}

/// An impossible configuration gets an error message.
#[test]
fn an_in_order_core_has_one_thread() {
    let core = servers::with_threads(2, CoreSpec::five_stage());
    assert_eq!(
        core.check().unwrap_err().to_string(),
        "threads is 2; an in-order core has one hardware thread; more need \
         model = \"out-of-order\""
    );
}

/// Each waiting hart reports the cause and its address.
#[test]
fn each_hart_says_what_it_waits_for() {
    let mut asm = Assembler::new();
    asm.harts(4, |asm, hart| {
        asm.load_immediate(S0, DATA + 64 * hart as u64);
        if hart % 2 == 1 {
            asm.load_reserved(RELAXED, 8, T0, S0);
            asm.wait_on_reservation();
        }
        asm.halt();
    });
    let mut machine = servers::halted(&spec(4), asm.finish(&[]));
    let text = machine.describe_waiting("");
    for hart in [1, 3] {
        let reason = format!(
            "waits for a store to the line at {:#x} (WRS)",
            DATA + 64 * hart
        );
        let line = text.lines().find(|line| line.contains(&reason)).unwrap();
        assert!(
            line.trim_start().starts_with(&format!("hart {hart} at 0x")),
            "{text}"
        );
    }
    assert!(text.contains("hart 0 at 0x"), "{text}");
    assert!(
        text.contains("1 harts wait for an interrupt (WFI)"),
        "{text}"
    );
}

/// A crash of one of a core's harts names the hart, the address, and its registers.
#[test]
fn a_crash_names_its_hart() {
    for culprit in 0..4 {
        let mut asm = Assembler::new();
        asm.harts(4, |asm, hart| {
            asm.load_immediate(S3, 0x1000 + hart as u64);
            if hart == culprit {
                asm.ebreak();
            }
            asm.halt();
        });
        let mut machine = servers::machine(&spec(4), asm.finish(&[]));
        let Ending::Failed(text) = servers::run(&mut machine) else {
            panic!("it does not crash");
        };
        assert!(text.contains(&format!("hart {culprit}")), "{text}");
        let crash = machine.engine.cores[0].crash().unwrap();
        assert_eq!(crash.hart, culprit as u64);
        assert_eq!(crash.registers[usize::from(S3)], 0x1000 + culprit as u64);
    }
}

/// The memory map has stacks for 254 harts.
#[test]
fn a_server_has_as_many_harts_as_stacks() {
    let mut spec = servers::server(8, &servers::with_threads(8, CoreSpec::hyperplane_table1()));
    spec.fabric.mesh.columns = 8;
    spec.fabric.mesh.rows = 4;
    spec.fabric.cores = 31;
    spec.check().unwrap();
    spec.fabric.cores = 32;
    assert_eq!(
        spec.check().unwrap_err().to_string(),
        "core.threads is 8; with fabric.cores = 32 there are 256 harts, and the memory map has \
         stacks of 254"
    );
}
