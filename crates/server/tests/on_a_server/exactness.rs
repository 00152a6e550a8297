//! The lookahead of cores, the skipping of spinning, and saving, rebuilding and restoring a run
//! change nothing: random programs of several harts give the same cycles, counts, caches and
//! memory.

use crate::common::assembler::*;
use crate::common::cases::check;
use crate::common::interrupter::{Interrupter, Interrupts, emit_handler};
use crate::common::servers::{self, Ending};
use fabric::{FabricStatistics, LineAddress, PagePolicy, Replacement};
use pipeline::{CoreSpec, CoreStatistics, CycleStack, Delivery, Executed, Probe};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use riscv::elf::Image;
use riscv::paging::Entry;
use server::{Machine, Resumable, ServerSpec};
use std::cell::Cell;

/// A few lines that all harts read and write.
const SHARED: u64 = 0x8010_0000;
const SHARED_LINES: u64 = 4;
/// The progress of each hart: a line each.
const PROGRESS: u64 = 0x8010_1000;
/// Memory to walk through: more than a small cache holds.
const WALKED: u64 = 0x8011_0000;
const WALKED_BYTES: u64 = 0x8000;
/// The address where each hart stores its registers and its cycle counter: 512 bytes each.
const DUMP: u64 = 0x8012_0000;
const DUMP_BYTES: u64 = 512;
/// The host-target interface, if the guest exits.
const HOST: u64 = 0x8013_0000;
/// Number of interrupts handled by each hart: a line each.
const HANDLED: u64 = 0x8013_2000;
/// Page tables, and their `satp` for Sv39.
const TABLES: u64 = 0x8014_0000;
const SATP_VALUE: u64 = 8 << 60 | 1 << 44 | TABLES >> 12;
/// Number of interrupts of each hart.
const INTERRUPTS: u64 = 40;
/// The software-interrupt registers of the CLINT, one of 4 bytes for each hart.
const CLINT: u64 = 0x0200_0000;
/// Its timers, one of 8 bytes for each hart, and its clock of microseconds.
const TIMERS: u64 = CLINT + 0x4000;
const CLOCK: u64 = CLINT + 0xbff8;
/// The timer's bit in `mie`.
const TIMER_INTERRUPT: u64 = 1 << 7;

/// Number of harts of most programs, and of those for cores with many.
const HARTS: usize = 4;
const MAXIMUM_HARTS: usize = 8;
const DATA: [Register; 6] = [A0, A1, A2, A3, A4, A5];
const SHARED_BASE: Register = S0;
const PROGRESS_BASE: Register = S1;
const WALK_BASE: Register = S2;
const COUNTER: Register = S3;
const CLINT_BASE: Register = S4;
const SCRATCH: Register = T5;
const OTHER: Register = T6;

#[derive(Clone, Debug)]
enum Op {
    Load(u8, bool, u8, u16),
    Store(u8, u8, u16),
    /// A load whose address depends on a register's value.
    Dependent(u8, u8),
    Amo(usize, u32, bool, u8, u8, u16),
    /// A retry loop that adds.
    Reserve(u32, bool, u8, u16),
    /// An `lr` without an `sc`.
    ReserveOnly(u8, u16),
    /// Halts until a hart writes the line, or for a time.
    WaitOnReservation(u8, u16),
    Fence(u32, u32),
    /// Skips the next operations of this hart if a bit of a loaded value is set.
    BranchOnLoaded(u16, u8, u8),
    Multiply(u8, u8, u8),
    Divide(u8, u8, u8),
    Float(u8, u8),
    /// Loads or stores at a stride, repeatedly.
    Walk(bool, u8, u8),
    /// A loop that only counts.
    Delay(u16),
    /// Stores its progress, which others wait for.
    Signal,
    /// Waits for another hart's latest signal so far: spins with loads, with AMOs, or with
    /// reservations, or halts on a reservation.
    Wait(u8, u8),
    /// Makes the data depend on the time.
    Cycle(u8),
    /// An access to a device.
    Clint(bool, u8),
    /// An access that crosses a line.
    Misaligned(bool, u8, u8),
    /// Halts until the timer's interrupt is pending, some microseconds later: long enough for the
    /// spinning of others to be skipped.
    Sleep(u8),
}

fn register() -> impl Strategy<Value = u8> {
    0..DATA.len() as u8
}

/// A byte of the shared lines, preferably one of the first words of a line.
fn place() -> impl Strategy<Value = u16> {
    let lines = SHARED_LINES as u16;
    prop_oneof![
        (0..lines, 0u16..2).prop_map(|(line, word)| line * 64 + word * 8),
        0..lines * 64 - 8
    ]
}

fn op(harts: u8) -> impl Strategy<Value = Op> {
    let bytes = || (0u32..4).prop_map(|log| 1u8 << log);
    prop_oneof![
        10 => (bytes(), any::<bool>(), register(), place())
            .prop_map(|(b, s, r, p)| Op::Load(b, s, r, p)),
        10 => (bytes(), register(), place()).prop_map(|(b, r, p)| Op::Store(b, r, p)),
        4 => (register(), register()).prop_map(|(d, a)| Op::Dependent(d, a)),
        5 => (0..AMO_OPERATIONS.len(), 0u32..4, any::<bool>(), register(), register(), place())
            .prop_map(|(f, o, w, d, s, p)| Op::Amo(f, o, w, d, s, p)),
        3 => (0u32..4, any::<bool>(), register(), place())
            .prop_map(|(o, w, s, p)| Op::Reserve(o, w, s, p)),
        1 => (register(), place()).prop_map(|(d, p)| Op::ReserveOnly(d, p)),
        1 => (register(), place()).prop_map(|(d, p)| Op::WaitOnReservation(d, p)),
        3 => (prop::sample::select(vec![R, W, RW]), prop::sample::select(vec![R, W, RW]))
            .prop_map(|(b, a)| Op::Fence(b, a)),
        6 => (place(), 0u8..8, 1u8..5).prop_map(|(p, b, n)| Op::BranchOnLoaded(p, b, n)),
        3 => (register(), register(), register()).prop_map(|(d, a, b)| Op::Multiply(d, a, b)),
        2 => (register(), register(), register()).prop_map(|(d, a, b)| Op::Divide(d, a, b)),
        1 => (register(), register()).prop_map(|(d, a)| Op::Float(d, a)),
        2 => (any::<bool>(), 1u8..40, 0u8..4).prop_map(|(s, n, l)| Op::Walk(s, n, l)),
        2 => (1u16..600).prop_map(Op::Delay),
        3 => Just(Op::Signal),
        4 => (0..harts, 0u8..4).prop_map(|(h, k)| Op::Wait(h, k)),
        2 => register().prop_map(Op::Cycle),
        1 => (any::<bool>(), 0..harts).prop_map(|(w, h)| Op::Clint(w, h)),
        1 => (any::<bool>(), register(), 0..SHARED_LINES as u8 - 1)
            .prop_map(|(s, r, l)| Op::Misaligned(s, r, l)),
        2 => (0u8..3).prop_map(Op::Sleep),
    ]
}

/// Operations, each with its hart. A hart waits only for signals earlier in this list, so the list
/// is a possible order of execution, and the program ends.
fn program(harts: usize) -> impl Strategy<Value = Vec<(u8, Op)>> {
    let harts = harts as u8;
    // As many for each hart.
    prop::collection::vec((0..harts, op(harts)), 1..25 * usize::from(harts))
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    harts: usize,
    /// Number of repetitions of each hart's part.
    rounds: u8,
    /// Whether hart 0 ends the run when it is done, regardless of the others.
    exits: bool,
    small_caches: bool,
    second_level: bool,
    prefetchers: Option<servers::Prefetchers>,
    /// Page walkers, if addresses are translated.
    page_walkers: Option<u8>,
    total_store_order: bool,
    /// Whether cores have small structures and few ports, and the in-order one is two-way
    /// superscalar.
    tight: bool,
    small_last_level: bool,
    non_inclusive: bool,
    /// Whether an even number of cores is on two sockets.
    two_sockets: bool,
    /// The policy of all caches, if it is not that of their descriptions.
    replacement: Option<Replacement>,
    /// DRAM with this page policy instead of a fixed memory latency.
    dram: Option<PagePolicy>,
    /// Whether all latencies are one cycle, the minimum for the engine.
    fast: bool,
    clock_ghz: f64,
    /// Cycles between interrupts of an extension.
    period: Option<u64>,
    /// Whether loads and stores are made in supervisor mode, with page tables (`MPRV`).
    page_tables: bool,
}

/// A policy for all caches, or none.
fn replacement() -> impl Strategy<Value = Option<Replacement>> {
    let policies = [
        Replacement::Random,
        Replacement::TreePlru,
        Replacement::Srrip,
    ];
    prop::option::of(prop::sample::select(policies.to_vec()))
}

/// A page policy of DRAM, or memory with a fixed latency.
fn dram() -> impl Strategy<Value = Option<PagePolicy>> {
    let policies = vec![PagePolicy::Open, PagePolicy::Closed];
    prop::option::weighted(0.3, prop::sample::select(policies))
}

/// Prefetchers, or none.
fn prefetchers() -> impl Strategy<Value = Option<servers::Prefetchers>> {
    prop::option::of(prop::sample::select(servers::PREFETCHERS.to_vec()))
}

fn shape(harts: usize) -> impl Strategy<Value = Shape> {
    (
        2..=harts,
        1u8..4,
        prop::bool::weighted(0.3),
        (
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
            prefetchers(),
        ),
        (prop::bool::weighted(0.3), any::<bool>(), any::<bool>()),
        (replacement(), dram(), prop::bool::weighted(0.3)),
        prop::bool::weighted(0.3),
        prop::sample::select(vec![3.0, 2.3, 1.0]),
    )
        .prop_map(
            |(harts, rounds, exits, private, last_level, memory, fast, clock_ghz)| {
                let (replacement, dram, page_tables) = memory;
                Shape {
                    harts,
                    rounds,
                    exits,
                    small_caches: private.0,
                    second_level: private.1,
                    prefetchers: private.4,
                    page_walkers: (harts % 2 == usize::from(rounds) % 2)
                        .then_some(1 + u8::from(last_level.1)),
                    tight: private.2,
                    total_store_order: private.3,
                    small_last_level: last_level.0,
                    non_inclusive: last_level.1,
                    two_sockets: last_level.2,
                    replacement,
                    dram,
                    fast,
                    clock_ghz,
                    period: None,
                    page_tables,
                }
            },
        )
}

/// A shape with interrupts of an extension.
fn interrupted_shape() -> impl Strategy<Value = Shape> {
    (shape(HARTS), 150u64..2000).prop_map(|(shape, period)| Shape {
        period: Some(period),
        // The handler's return would end `MPRV`.
        page_tables: false,
        ..shape
    })
}

fn data(register: u8) -> Register {
    DATA[usize::from(register)]
}

/// The program of one hart.
fn emit_hart(asm: &mut Assembler, shape: &Shape, ops: &[(u8, Op)], hart: usize) {
    asm.load_immediate(T0, FLOAT_ON);
    asm.csr_write(MSTATUS, T0);
    if shape.page_tables {
        asm.load_immediate(T0, SATP_VALUE);
        asm.csr_write(SATP, T0);
        asm.load_immediate(T0, 1 << 17 | 1 << 11); // MPRV, and MPP is supervisor mode
        asm.csr_set(MSTATUS, T0);
    }
    asm.load_immediate(T0, TIMER_INTERRUPT);
    asm.csr_write(MIE, T0);
    asm.load_immediate(SHARED_BASE, SHARED);
    asm.load_immediate(PROGRESS_BASE, PROGRESS);
    asm.load_immediate(WALK_BASE, WALKED + 0x1000 * hart as u64);
    asm.load_immediate(CLINT_BASE, CLINT);
    if let Some(period) = shape.period {
        emit_handler(asm, HANDLED + 64 * hart as u64, period);
    }
    for (index, &register) in DATA.iter().enumerate() {
        asm.load_immediate(register, (hart as u64 + 3) << (7 * index));
    }
    let mut signals = [0u64; MAXIMUM_HARTS];
    for _ in 0..shape.rounds {
        let mut skips: Vec<(Label, u8)> = Vec::new();
        for (of, op) in ops {
            let of = usize::from(*of) % shape.harts;
            if let Op::Signal = op {
                signals[of] += 1;
            }
            if of != hart {
                continue;
            }
            // A skipped signal would be awaited in vain.
            if let Op::Signal = op {
                for (label, _) in skips.drain(..) {
                    asm.bind(label);
                }
            }
            let skip = emit(asm, shape, op, hart, &signals);
            skips.retain_mut(|(label, left)| {
                *left -= 1;
                if *left == 0 {
                    asm.bind(*label);
                }
                *left > 0
            });
            skips.extend(skip);
        }
        for (label, _) in skips {
            asm.bind(label);
        }
    }
    // Time and instructions first, because the following reads change both.
    asm.csr_read(T0, CYCLE);
    asm.csr_read(T1, INSTRET);
    asm.load_immediate(OTHER, DUMP + DUMP_BYTES * hart as u64);
    for register in 1..32 {
        asm.store_double(register, OTHER, 8 * i64::from(register));
    }
    asm.csr_read(T0, CYCLE);
    asm.store_double(T0, OTHER, 8 * 32);
    if shape.exits && hart == 0 {
        asm.load_immediate(OTHER, HOST);
        asm.add_immediate(T0, ZERO, 1);
        asm.store_double(T0, OTHER, 0);
    }
    asm.halt();
}

/// Emits one operation. For a branch: its target, and the number of operations that it skips.
fn emit(
    asm: &mut Assembler,
    shape: &Shape,
    op: &Op,
    hart: usize,
    signals: &[u64; MAXIMUM_HARTS],
) -> Option<(Label, u8)> {
    // Naturally aligned, as atomics must be and as most accesses are.
    let aligned = |place: u16, bytes: u8| i64::from(place) & !(i64::from(bytes) - 1);
    let width = |double: bool| if double { 8 } else { 4 };
    match *op {
        Op::Load(bytes, signed, rd, place) => {
            asm.load(bytes, signed, data(rd), SHARED_BASE, aligned(place, bytes));
        }
        Op::Store(bytes, source, place) => {
            asm.store(bytes, data(source), SHARED_BASE, aligned(place, bytes));
        }
        Op::Dependent(rd, rs1) => {
            asm.and_immediate(SCRATCH, data(rs1), (SHARED_LINES * 64 - 8) as i64 & !7);
            asm.add(SCRATCH, SCRATCH, SHARED_BASE);
            asm.load_double(data(rd), SCRATCH, 0);
        }
        Op::Amo(function, order, double, rd, source, place) => {
            let bytes = width(double);
            asm.add_immediate(SCRATCH, SHARED_BASE, aligned(place, bytes));
            let function = AMO_OPERATIONS[function];
            asm.amo(function, order, bytes, data(rd), data(source), SCRATCH);
        }
        Op::Reserve(order, double, source, place) => {
            let bytes = width(double);
            asm.add_immediate(SCRATCH, SHARED_BASE, aligned(place, bytes));
            let again = asm.label_here();
            asm.load_reserved(order, bytes, T0, SCRATCH);
            asm.add(T0, T0, data(source));
            asm.store_conditional(order, bytes, T1, T0, SCRATCH);
            asm.branch(When::NotEqual, T1, ZERO, again);
        }
        Op::ReserveOnly(rd, place) => {
            asm.add_immediate(SCRATCH, SHARED_BASE, aligned(place, 8));
            asm.load_reserved(RELAXED, 8, data(rd), SCRATCH);
        }
        Op::WaitOnReservation(rd, place) => {
            asm.add_immediate(SCRATCH, SHARED_BASE, aligned(place, 8));
            asm.load_reserved(RELAXED, 8, data(rd), SCRATCH);
            asm.wait_shortly_on_reservation();
        }
        Op::Fence(before, after) => asm.fence(before, after),
        Op::BranchOnLoaded(place, bit, count) => {
            let over = asm.label();
            asm.load(1, false, SCRATCH, SHARED_BASE, i64::from(place));
            asm.and_immediate(SCRATCH, SCRATCH, 1 << bit);
            asm.branch(When::NotEqual, SCRATCH, ZERO, over);
            return Some((over, count));
        }
        Op::Multiply(rd, rs1, rs2) => asm.operate(MUL, data(rd), data(rs1), data(rs2)),
        Op::Divide(rd, rs1, rs2) => asm.operate(DIV, data(rd), data(rs1), data(rs2)),
        Op::Float(rd, rs1) => {
            asm.emit(r_type((0x53, 7, 0x69), 1, data(rs1), 2)); // fcvt.d.l
            asm.operate(FDIV_D, 2, 1, 1);
            asm.operate(FADD_D, 1, 1, 2);
            asm.emit(r_type((0x53, 1, 0x61), data(rd), 1, 2)); // fcvt.l.d
        }
        Op::Walk(store, count, log) => {
            asm.copy(SCRATCH, WALK_BASE);
            asm.add_immediate(COUNTER, ZERO, count.into());
            let again = asm.label_here();
            if store {
                asm.store_double(COUNTER, SCRATCH, 0);
            } else {
                asm.load_double(T0, SCRATCH, 0);
            }
            asm.add_immediate(SCRATCH, SCRATCH, 64 << log);
            asm.add_immediate(COUNTER, COUNTER, -1);
            asm.branch(When::NotEqual, COUNTER, ZERO, again);
        }
        Op::Delay(iterations) => {
            asm.load_immediate(COUNTER, iterations.into());
            let again = asm.label_here();
            asm.add_immediate(COUNTER, COUNTER, -1);
            asm.branch(When::NotEqual, COUNTER, ZERO, again);
        }
        Op::Signal => {
            asm.load_immediate(T0, signals[hart]);
            asm.store_double(T0, PROGRESS_BASE, 64 * hart as i64);
        }
        Op::Wait(of, kind) => {
            let of = usize::from(of) % shape.harts;
            if of != hart {
                asm.load_immediate(T1, signals[of]);
                asm.add_immediate(SCRATCH, PROGRESS_BASE, 64 * of as i64);
                let again = asm.label_here();
                match kind {
                    0 => asm.load_double(T0, SCRATCH, 0),
                    1 => asm.amo(AMO_ADD, RELAXED, 8, T0, ZERO, SCRATCH),
                    _ => asm.load_reserved(RELAXED, 8, T0, SCRATCH),
                }
                if kind == 3 {
                    let done = asm.label();
                    asm.branch(When::GreaterEqual, T0, T1, done);
                    asm.wait_on_reservation();
                    asm.jump(again);
                    asm.bind(done);
                } else {
                    asm.branch(When::Less, T0, T1, again);
                }
            }
        }
        Op::Cycle(rd) => {
            asm.csr_read(T0, CYCLE);
            asm.operate(XOR, data(rd), data(rd), T0);
        }
        Op::Clint(write, of) => {
            let register = 4 * (i64::from(of) % shape.harts as i64);
            if write {
                asm.store(4, ZERO, CLINT_BASE, register);
            } else {
                asm.load(4, true, T0, CLINT_BASE, register);
            }
        }
        Op::Sleep(microseconds) => sleep(asm, hart, microseconds.into()),
        Op::Misaligned(store, register, line) => {
            let offset = 64 * i64::from(line) + 61;
            if store {
                asm.store_double(data(register), SHARED_BASE, offset);
            } else {
                asm.load_double(data(register), SHARED_BASE, offset);
            }
        }
    }
    None
}

/// Halts until the clock has advanced by one microsecond and `more`.
fn sleep(asm: &mut Assembler, hart: usize, more: i64) {
    asm.load_immediate(T0, CLOCK);
    asm.load_double(T0, T0, 0);
    asm.add_immediate(T0, T0, 1 + more);
    asm.load_immediate(T1, TIMERS + 8 * hart as u64);
    asm.store_double(T0, T1, 0);
    asm.wait_for_interrupt();
    asm.add_immediate(T0, ZERO, -1);
    asm.store_double(T0, T1, 0);
}

/// Page tables that map the devices in a page of 1 GB, and 2 MB of memory in pages of 4 KB, each to
/// itself.
fn page_tables() -> Vec<u8> {
    const PAGE: u64 = Entry::VALID | Entry::READ | Entry::WRITE | Entry::ACCESSED | Entry::DIRTY;
    let mut tables = vec![[0; 512]; 3];
    let table = |number: u64| Entry::new(TABLES + 4096 * number, Entry::VALID).0;
    tables[0][0] = Entry::new(0, PAGE).0;
    tables[0][2] = table(1);
    tables[1][0] = table(2);
    for (entry, page) in tables[2].iter_mut().zip(0..) {
        *entry = Entry::new(CODE + 4096 * page, PAGE).0;
    }
    let words = tables.iter().flatten();
    words.flat_map(|word: &u64| word.to_le_bytes()).collect()
}

fn image(shape: &Shape, ops: &[(u8, Op)]) -> Image {
    let mut asm = Assembler::new();
    asm.harts(shape.harts, |asm, hart| emit_hart(asm, shape, ops, hart));
    let image = match shape.page_tables {
        true => asm.finish(&[(TABLES, page_tables())]),
        false => asm.finish(&[]),
    };
    if shape.exits {
        with_host(image, HOST)
    } else {
        image
    }
}

fn spec(shape: &Shape, core: &CoreSpec) -> ServerSpec {
    let mut core = core.clone();
    if shape.small_caches {
        core = servers::with_small_caches(core);
    }
    if shape.second_level {
        core = servers::with_second_level(core);
    }
    if let Some(prefetchers) = shape.prefetchers {
        core = servers::with_prefetchers(prefetchers, core);
    }
    if let Some(page_walkers) = shape.page_walkers {
        core = servers::with_small_tlbs(page_walkers, core);
    }
    if shape.tight {
        core = servers::tight(core);
    }
    if shape.total_store_order {
        core = servers::with_total_store_order(core);
    }
    let mut spec = if shape.small_last_level {
        servers::server_with_small_last_level(shape.harts, &core)
    } else {
        servers::server(shape.harts, &core)
    };
    if shape.non_inclusive {
        spec = servers::non_inclusive(spec);
    }
    spec.fabric.clock_ghz = shape.clock_ghz;
    if shape.two_sockets && spec.fabric.cores.is_multiple_of(2) {
        spec.fabric.sockets = 2;
        // The code is in the memory of the first socket, the data in that of the second.
        spec.memory_mib = 2;
        assert_eq!(SHARED, 0x8000_0000 + (1 << 20));
    }
    if shape.fast {
        spec.core.l1_data.hit_latency_cycles = 1;
        spec.core.l1_instruction.hit_latency_cycles = 1;
        if let Some(l2) = &mut spec.core.l2 {
            l2.hit_latency_cycles = 1;
        }
        spec.fabric.forward_latency_cycles = 1;
        spec.fabric.last_level.latency_cycles = 1;
        spec.fabric.mesh.hop_latency_cycles = 1;
        spec.fabric.memory.latency_ns = 0.4;
    }
    if let Some(page) = shape.dram {
        spec = servers::with_dram(spec, page);
    }
    match shape.replacement {
        None => spec,
        Some(replacement) => servers::with_replacement(spec, replacement),
    }
}

/// All results that must not depend on the way of simulation.
#[derive(Debug, PartialEq)]
struct Outcome {
    ending: Ending,
    end_cycle: u64,
    cores: Vec<CoreStatistics>,
    /// For each hart: its instructions, and its cycle stack.
    harts: Vec<(u64, CycleStack)>,
    pcs: Vec<u64>,
    fabric: FabricStatistics,
    /// Every line of data, in memory and in each core's cache.
    lines: Vec<(u64, Vec<u64>)>,
}

/// A server with a program.
struct Bench {
    spec: ServerSpec,
    image: Image,
    interrupts: Option<Interrupts>,
}

impl Bench {
    fn new(spec: ServerSpec, image: Image) -> Bench {
        Bench {
            spec,
            image,
            interrupts: None,
        }
    }

    fn machine(&self) -> Machine {
        let image = self.image.clone();
        match self.interrupts {
            None => servers::machine(&self.spec, image),
            Some(interrupts) => Machine::new(&self.spec, image, &[], false, |_| {
                Ok(Box::new(Interrupter::new(interrupts)))
            })
            .expect("the machine can be built"),
        }
    }
}

fn outcome(bench: &Bench, lookahead_cycles: u64, skip_spinning: bool) -> Outcome {
    let mut machine = bench.machine();
    machine.engine.set_speed(lookahead_cycles, skip_spinning);
    outcome_of(machine)
}

/// The outcome of the simplest simulation: one cycle at a time, nothing skipped, and every
/// instruction reported to a probe, so that none takes the fast path through dispatch.
fn plain_outcome(bench: &Bench) -> Outcome {
    struct Unmoved;
    impl Probe for Unmoved {
        fn executed(&mut self, _executed: &Executed) {}
    }
    let mut machine = bench.machine();
    machine.engine.set_speed(1, false);
    for core in &mut machine.engine.cores {
        for thread in 0..bench.spec.core.threads {
            core.set_probe(thread, Box::new(Unmoved));
        }
    }
    outcome_of(machine)
}

fn outcome_of(mut machine: Machine) -> Outcome {
    let ending = servers::run(&mut machine);
    end(&mut machine, ending)
}

/// As [`outcome`], with the run saved and restored into a new machine after certain numbers of
/// single steps.
fn outcome_saving(
    bench: &Bench,
    lookahead_cycles: u64,
    skip_spinning: bool,
    steps: &[u64],
) -> Outcome {
    let build = || {
        let mut machine = bench.machine();
        machine.engine.set_speed(lookahead_cycles, skip_spinning);
        machine
    };
    let mut machine = build();
    let (mut next, mut saves) = (steps[0], 0);
    let ending = servers::run_with(&mut machine, |machine, step| {
        if step < next {
            return;
        }
        saves += 1;
        next += steps[saves % steps.len()];
        let saved = machine.save().expect("the state can be written down");
        let mut other = build();
        other.restore(&saved).expect("the state fits");
        let again = other.save().expect("the state can be written down");
        assert!(again == saved, "what was restored is not what was saved");
        *machine = other;
    });
    end(&mut machine, ending)
}

/// The outcome of a run that has ended.
fn end(machine: &mut Machine, ending: Ending) -> Outcome {
    let exit = machine.exit();
    let end_cycle = match &ending {
        Ending::Exited => machine.end(),
        // If all harts have halted there is no end; use a later cycle, for counting up to it.
        _ => 1 << 40,
    };
    let cores = machine.engine.cores.iter();
    let cores = cores.map(|core| core.statistics(end_cycle)).collect();
    let threads = machine.threads();
    let each = machine
        .engine
        .cores
        .iter()
        .flat_map(|core| (0..threads).map(move |thread| (core, thread)));
    let pcs = each.clone().map(|(core, thread)| core.pc(thread)).collect();
    let harts = each
        .map(|(core, thread)| core.hart_statistics(thread, end_cycle))
        .map(|hart| (hart.instructions, hart.stack))
        .collect();
    let data = (SHARED..PROGRESS + 64 * MAXIMUM_HARTS as u64)
        .chain(WALKED..WALKED + WALKED_BYTES)
        .chain(DUMP..DUMP + DUMP_BYTES * MAXIMUM_HARTS as u64)
        .chain(HANDLED..HANDLED + 64 * MAXIMUM_HARTS as u64)
        .step_by(64);
    let words = |line: &fabric::LineData| (0..8).map(|word| line.read(8 * word, 8)).collect();
    let mut lines = vec![(0, vec![exit.map_or(0, |(at, _)| at.as_fs())])];
    for address in data {
        let line = LineAddress::of(address);
        lines.push((address, words(&machine.engine.fabric.ram().read_line(line))));
        for core in &machine.engine.cores {
            if let Some((state, data)) = core.copy_of(line) {
                let mut found: Vec<u64> = words(&data);
                found.push(state as u64);
                lines.push((address, found));
            }
        }
    }
    Outcome {
        ending,
        end_cycle,
        cores,
        harts,
        pcs,
        fabric: machine.engine.fabric.statistics(),
        lines,
    }
}

fn difference(one: &Outcome, other: &Outcome) -> String {
    if one.ending != other.ending || one.end_cycle != other.end_cycle {
        return format!(
            "{:?} at {}, {:?} at {}",
            one.ending, one.end_cycle, other.ending, other.end_cycle
        );
    }
    if let Some(hart) = (0..one.cores.len()).find(|&hart| one.cores[hart] != other.cores[hart]) {
        return format!(
            "hart {hart}: {:?}, {:?}",
            one.cores[hart], other.cores[hart]
        );
    }
    let lines = one.lines.iter().zip(&other.lines);
    match lines.into_iter().find(|(one, other)| one != other) {
        Some((one, other)) => format!("line {:#x?}, {:#x?}", one, other),
        None if one.harts != other.harts => format!("{:?}, {:?}", one.harts, other.harts),
        None if one.pcs != other.pcs => format!("at {:x?}, at {:x?}", one.pcs, other.pcs),
        None => format!("{:?}, {:?}", one.fabric, other.fabric),
    }
}

fn bench(core: &CoreSpec, shape: &Shape, ops: &[(u8, Op)]) -> Bench {
    Bench::new(spec(shape, core), image(shape, ops))
}

fn always_the_same(core: &CoreSpec, shape: &Shape, ops: &[(u8, Op)]) -> Result<(), TestCaseError> {
    is_always_the_same(&bench(core, shape, ops), shape)
}

fn is_always_the_same(bench: &Bench, shape: &Shape) -> Result<(), TestCaseError> {
    let plain = plain_outcome(bench);
    let expected = if shape.exits {
        Ending::Exited
    } else {
        Ending::Halted
    };
    prop_assert_eq!(&plain.ending, &expected);
    for (lookahead_cycles, skip_spinning) in [(0, true), (0, false), (3, true), (7, false)] {
        let other = outcome(bench, lookahead_cycles, skip_spinning);
        prop_assert!(
            plain == other,
            "one cycle at a time with probes, and with lookahead {lookahead_cycles}, skipping \
             {skip_spinning}: {}",
            difference(&plain, &other)
        );
    }
    Ok(())
}

/// Checks `cases` random programs of at most `harts` harts.
fn is_exact(core: &CoreSpec, cases: u32, harts: usize) {
    check(cases, &(shape(harts), program(harts)), |(shape, ops)| {
        always_the_same(core, &shape, &ops)
    });
}

#[test]
fn out_of_order_cores_are_exact() {
    is_exact(&CoreSpec::hyperplane_table1(), 400, HARTS);
}

#[test]
fn in_order_cores_are_exact() {
    is_exact(&CoreSpec::five_stage(), 400, HARTS);
}

#[test]
fn cores_with_two_harts_are_exact() {
    let core = servers::with_threads(2, CoreSpec::hyperplane_table1());
    is_exact(&core, 400, HARTS);
}

#[test]
fn cores_with_four_harts_are_exact() {
    let core = servers::with_threads(4, CoreSpec::hyperplane_table1());
    is_exact(&core, 120, MAXIMUM_HARTS);
}

#[test]
fn a_core_with_eight_harts_is_exact() {
    let core = servers::with_threads(8, CoreSpec::hyperplane_table1());
    is_exact(&core, 120, MAXIMUM_HARTS);
}

/// An extension interrupts repeatedly, and each kind of delivery is exact. Each hart handles at
/// least one interrupt, and none twice.
fn interrupts_are_exact(core: &CoreSpec, cases: u32) {
    let steps = prop::collection::vec(prop_oneof![1u64..40, 1u64..400], 1..6);
    let delivery = prop::sample::select(vec![
        Delivery::Flushing,
        Delivery::Tracked,
        Delivery::AtSafepoint,
    ]);
    let strategy = (interrupted_shape(), program(HARTS), delivery, steps);
    check(cases, &strategy, |(shape, ops, delivery, steps)| {
        let mut bench = bench(core, &shape, &ops);
        let count = INTERRUPTS;
        bench.interrupts = Some(Interrupts { delivery, count });
        is_always_the_same(&bench, &shape)?;
        let plain = outcome(&bench, 0, true);
        let saving = outcome_saving(&bench, 0, true, &steps);
        prop_assert!(plain == saving, "{}", difference(&plain, &saving));
        let mut machine = bench.machine();
        if servers::run(&mut machine) == Ending::Halted {
            for hart in 0..shape.harts as u64 {
                let handled = servers::read(&machine, HANDLED + 64 * hart);
                prop_assert!((1..=INTERRUPTS).contains(&handled), "{handled} handled");
            }
        }
        Ok(())
    });
}

#[test]
fn interrupts_are_exact_on_out_of_order_cores() {
    interrupts_are_exact(&CoreSpec::hyperplane_table1(), 50);
}

#[test]
fn interrupts_are_exact_on_in_order_cores() {
    interrupts_are_exact(&CoreSpec::five_stage(), 50);
}

#[test]
fn interrupts_are_exact_on_cores_with_two_harts() {
    let core = servers::with_threads(2, CoreSpec::hyperplane_table1());
    interrupts_are_exact(&core, 50);
}

/// Saves every few steps at first, so that all states in flight are covered, and seldom later.
fn saving_changes_nothing(core: &CoreSpec, harts: usize) {
    let steps = prop::collection::vec(prop_oneof![1u64..40, 1u64..400], 1..6);
    let strategy = (shape(harts), program(harts), steps, any::<bool>());
    check(40, &strategy, |(shape, ops, steps, skip_spinning)| {
        let bench = bench(core, &shape, &ops);
        let plain = outcome(&bench, 0, skip_spinning);
        let saving = outcome_saving(&bench, 0, skip_spinning, &steps);
        prop_assert!(plain == saving, "{}", difference(&plain, &saving));
        Ok(())
    });
}

#[test]
fn saving_is_exact_on_out_of_order_cores() {
    saving_changes_nothing(&CoreSpec::hyperplane_table1(), HARTS);
}

#[test]
fn saving_is_exact_on_cores_with_several_harts() {
    for (threads, harts) in [(2, HARTS), (4, MAXIMUM_HARTS), (8, MAXIMUM_HARTS)] {
        let core = servers::with_threads(threads, CoreSpec::hyperplane_table1());
        saving_changes_nothing(&core, harts);
    }
}

#[test]
fn saving_is_exact_on_in_order_cores() {
    saving_changes_nothing(&CoreSpec::five_stage(), HARTS);
}

/// Hart 1 spins while hart 0 sleeps: almost all of this time is skipped.
#[test]
fn long_spinning_is_skipped() {
    let [out_of_order, in_order] = servers::models();
    let shared = [2, 8].map(|threads| servers::with_threads(threads, out_of_order.clone()));
    let cores = [out_of_order, in_order].into_iter().chain(shared);
    // A load-acquire is a load with a fence behind it, which waits for the load on the in-order
    // core alone; the other fence waits for stores on all of them.
    let fences = [None, Some((R, RW)), Some((W, R))];
    for (core, fence) in cores.flat_map(|core| fences.map(|fence| (core.clone(), fence))) {
        let mut asm = Assembler::new();
        asm.harts(2, |asm, hart| {
            asm.load_immediate(S0, SHARED);
            if hart == 0 {
                asm.load_immediate(T0, TIMER_INTERRUPT);
                asm.csr_write(MIE, T0);
                sleep(asm, hart, 9);
                asm.add_immediate(T1, ZERO, 1);
                asm.store_double(T1, S0, 0);
            } else {
                let again = asm.label_here();
                asm.load_double(T1, S0, 0);
                if let Some((before, after)) = fence {
                    asm.fence(before, after);
                }
                asm.branch(When::Equal, T1, ZERO, again);
            }
            asm.csr_read(T0, CYCLE);
            asm.store_double(T0, S0, 64 * (1 + hart as i64));
            asm.halt();
        });
        let image = asm.finish(&[]);
        let bench = Bench::new(servers::server(2, &core), image);
        let mut machine = bench.machine();
        machine.engine.set_speed(0, true);
        assert_eq!(servers::run(&mut machine), Ending::Halted);
        let cores = machine.engine.cores.iter();
        let skipped: u64 = cores.map(|core| core.skipped_cycles()).sum();
        // 10 microseconds of 3000 cycles each, less the time until skipping starts.
        assert!(skipped > 27_000, "{skipped} cycles were skipped");
        assert_eq!(outcome(&bench, 0, true), outcome(&bench, 7, false));
    }
}

/// Hart 1 polls 64 lines in turn, one in each iteration, while hart 0 writes one of them every 2000
/// cycles. A period is a round of all lines, of about 500 cycles in order: a load and six other
/// instructions, one of them a taken branch. The loop is skipped after three rounds. A core that
/// replaced what it remembers before it compares would never be skipped. Hart 0 reads the cycle
/// meanwhile, so that the server as a whole has no period.
#[test]
fn polling_many_lines_is_skipped_between_writes() {
    const LINES: i64 = 64;
    const WRITES: i64 = 20;
    const INTERVAL: u64 = 2000;
    for core in servers::models() {
        let mut asm = Assembler::new();
        asm.harts(2, |asm, hart| {
            asm.load_immediate(S0, WALKED);
            asm.copy(T2, ZERO);
            if hart == 0 {
                asm.load_immediate(T3, INTERVAL);
                for write in 1..=WRITES {
                    asm.add(T2, T2, T3);
                    let again = asm.label_here();
                    asm.csr_read(T0, CYCLE);
                    asm.branch(When::Less, T0, T2, again);
                    // The polled word is the line's first.
                    asm.add_immediate(T1, ZERO, write);
                    asm.store_double(T1, S0, if write == WRITES { 0 } else { 8 });
                }
            } else {
                let again = asm.label_here();
                asm.shift_left(T3, T2, 6);
                asm.add(T3, S0, T3);
                asm.load_double(T1, T3, 0);
                asm.add_immediate(T2, T2, 1);
                asm.and_immediate(T2, T2, LINES - 1);
                asm.branch(When::Equal, T1, ZERO, again);
            }
            asm.halt();
        });
        let bench = Bench::new(servers::server(2, &core), asm.finish(&[]));
        let mut machine = bench.machine();
        machine.engine.set_speed(0, true);
        assert_eq!(servers::run(&mut machine), Ending::Halted);
        let skipped = machine.engine.cores[1].skipped_cycles();
        let cycles = INTERVAL * WRITES as u64;
        assert!(
            skipped > cycles / 5,
            "{skipped} of {cycles} cycles were skipped"
        );
        assert_eq!(outcome(&bench, 0, true), outcome(&bench, 7, false));
    }
}

/// Part of the body of a loop that polls.
#[derive(Clone, Debug)]
enum Poll {
    Load(u8, u16),
    Multiply(u8, u8),
    Divide(u8, u8),
    Add(u8, u8),
    /// A register that returns to its value after two to this power iterations.
    Count(u8),
    /// Skips the next parts if a bit of a register is set.
    Branch(u8, u8, u8),
    /// Calls a function that loads.
    Call(u8, u16),
    /// Walks over lines, so that the replacement order matters.
    Walk(u8),
    /// Polls a number of lines, more than a small cache holds.
    Sweep(u8),
    /// Waits for older accesses of some kinds: loads and stores of memory and devices.
    Fence(u32, u32),
}

fn poll() -> impl Strategy<Value = Poll> {
    prop_oneof![
        4 => (register(), place()).prop_map(|(d, p)| Poll::Load(d, p)),
        2 => (register(), register()).prop_map(|(d, a)| Poll::Multiply(d, a)),
        1 => (register(), register()).prop_map(|(d, a)| Poll::Divide(d, a)),
        2 => (register(), register()).prop_map(|(d, a)| Poll::Add(d, a)),
        2 => (0u8..7).prop_map(Poll::Count),
        3 => (register(), 0u8..4, 1u8..4).prop_map(|(r, b, n)| Poll::Branch(r, b, n)),
        1 => (register(), place()).prop_map(|(d, p)| Poll::Call(d, p)),
        1 => (1u8..6).prop_map(Poll::Walk),
        1 => (2u8..120).prop_map(Poll::Sweep),
        2 => (0u32..16, 0u32..16).prop_map(|(b, a)| Poll::Fence(b, a)),
    ]
}

/// Emits one part. For a branch: its target, and the number of parts that it skips.
fn emit_poll(asm: &mut Assembler, part: &Poll) -> Option<(Label, u8)> {
    let aligned = |place: u16| i64::from(place) & !7;
    match *part {
        Poll::Load(rd, place) => asm.load_double(data(rd), SHARED_BASE, aligned(place)),
        // Masked: a new value in every iteration would keep the loop from repeating.
        Poll::Multiply(rd, rs1) => {
            asm.operate(MUL, data(rd), data(rs1), COUNTER);
            asm.and_immediate(data(rd), data(rd), 15);
        }
        Poll::Divide(rd, rs1) => asm.operate(DIVU, data(rd), data(rs1), COUNTER),
        Poll::Add(rd, rs1) => {
            asm.add(data(rd), data(rs1), COUNTER);
            asm.and_immediate(data(rd), data(rd), 15);
        }
        Poll::Count(log) => {
            asm.add_immediate(COUNTER, COUNTER, 1);
            asm.and_immediate(COUNTER, COUNTER, (1 << log) - 1);
        }
        Poll::Branch(register, bit, count) => {
            let over = asm.label();
            asm.and_immediate(T0, data(register), 1 << bit);
            asm.branch(When::NotEqual, T0, ZERO, over);
            return Some((over, count));
        }
        Poll::Call(rd, place) => {
            let (function, over) = (asm.label(), asm.label());
            asm.call(RA, function);
            asm.jump(over);
            asm.bind(function);
            asm.load_double(data(rd), SHARED_BASE, aligned(place));
            asm.jump_register(ZERO, RA, 0);
            asm.bind(over);
        }
        Poll::Walk(lines) => {
            for line in 0..i64::from(lines) {
                asm.load_double(T0, WALK_BASE, 512 * line - 1024);
            }
        }
        Poll::Sweep(lines) => {
            asm.load_immediate(T3, WALKED);
            asm.load_immediate(T4, WALKED + 64 * u64::from(lines));
            let again = asm.label_here();
            asm.load_double(T0, T3, 0);
            asm.branch(When::NotEqual, T0, ZERO, again);
            asm.add_immediate(T3, T3, 64);
            asm.branch(When::NotEqual, T3, T4, again);
        }
        Poll::Fence(before, after) => asm.fence(before, after),
    }
    None
}

/// Hart 1 polls in a loop of these parts, repeatedly woken by hart 0, which sleeps in between.
fn polling(parts: &[Poll], sleeps: &[u8]) -> Image {
    let mut asm = Assembler::new();
    asm.harts(2, |asm, hart| {
        asm.load_immediate(SHARED_BASE, SHARED);
        asm.load_immediate(PROGRESS_BASE, PROGRESS);
        asm.load_immediate(WALK_BASE, WALKED + 1024);
        asm.load_immediate(T0, TIMER_INTERRUPT);
        asm.csr_write(MIE, T0);
        asm.copy(COUNTER, ZERO);
        for (number, &sleeping) in sleeps.iter().enumerate() {
            let number = number as i64 + 1;
            asm.add_immediate(OTHER, ZERO, number);
            if hart == 0 {
                sleep(asm, hart, sleeping.into());
                asm.store_double(OTHER, SHARED_BASE, 8 * number);
                asm.store_double(OTHER, PROGRESS_BASE, 0);
            } else {
                let again = asm.label_here();
                let mut skips: Vec<(Label, u8)> = Vec::new();
                for part in parts {
                    let skip = emit_poll(asm, part);
                    skips.retain_mut(|(label, left)| {
                        *left -= 1;
                        if *left == 0 {
                            asm.bind(*label);
                        }
                        *left > 0
                    });
                    skips.extend(skip);
                }
                for (label, _) in skips {
                    asm.bind(label);
                }
                asm.load_double(T1, PROGRESS_BASE, 0);
                asm.branch(When::Less, T1, OTHER, again);
            }
        }
        asm.csr_read(T0, CYCLE);
        asm.csr_read(T1, INSTRET);
        asm.load_immediate(OTHER, DUMP + DUMP_BYTES * hart as u64);
        for register in 1..32 {
            asm.store_double(register, OTHER, 8 * i64::from(register));
        }
        asm.halt();
    });
    asm.finish(&[])
}

fn skipping_changes_nothing(core: &CoreSpec) {
    let parts = prop::collection::vec(poll(), 0..12);
    let sleeps = prop::collection::vec(0u8..6, 1..4);
    let (skipped, cycles) = (Cell::new(0), Cell::new(0));
    let fabric = (
        (any::<bool>(), prefetchers()),
        prop::bool::weighted(0.3),
        any::<bool>(),
        (replacement(), dram()),
    );
    let strategy = (parts, sleeps, any::<bool>(), fabric);
    check(150, &strategy, |(parts, sleeps, small_caches, fabric)| {
        let mut core = if small_caches {
            servers::with_small_caches(core.clone())
        } else {
            core.clone()
        };
        let (second_level, small_last_level, non_inclusive, (replacement, dram)) = fabric;
        let (has_second_level, prefetchers) = second_level;
        if has_second_level {
            core = servers::with_second_level(core);
        }
        if let Some(prefetchers) = prefetchers {
            core = servers::with_prefetchers(prefetchers, core);
        }
        if sleeps.len() == 2 {
            core = servers::with_small_tlbs(1 + u8::from(non_inclusive), core);
        }
        let mut spec = if small_last_level {
            servers::server_with_small_last_level(2, &core)
        } else {
            servers::server(2, &core)
        };
        if non_inclusive {
            spec = servers::non_inclusive(spec);
        }
        if let Some(replacement) = replacement {
            spec = servers::with_replacement(spec, replacement);
        }
        if let Some(page) = dram {
            spec = servers::with_dram(spec, page);
        }
        let bench = Bench::new(spec, polling(&parts, &sleeps));
        let plain = outcome(&bench, 0, false);
        prop_assert_eq!(&plain.ending, &Ending::Halted);
        let skipping = outcome(&bench, 0, true);
        prop_assert!(plain == skipping, "{}", difference(&plain, &skipping));
        let mut machine = bench.machine();
        machine.engine.set_speed(0, true);
        servers::run(&mut machine);
        let cores = machine.engine.cores.iter();
        let cycles_skipped: u64 = cores.map(|core| core.skipped_cycles()).sum();
        skipped.set(skipped.get() + cycles_skipped);
        cycles.set(cycles.get() + servers::read(&machine, DUMP + DUMP_BYTES + 8 * 5));
        Ok(())
    });
    // The test is only significant if much is skipped.
    let (skipped, cycles) = (skipped.get(), cycles.get());
    assert!(
        skipped > cycles / 4,
        "{skipped} of {cycles} cycles were skipped"
    );
}

#[test]
fn skipping_is_exact_on_out_of_order_cores() {
    skipping_changes_nothing(&CoreSpec::hyperplane_table1());
}

#[test]
fn skipping_is_exact_beside_halted_harts() {
    for threads in [2, 4, 8] {
        let core = CoreSpec::hyperplane_table1();
        skipping_changes_nothing(&servers::with_threads(threads, core));
    }
}

#[test]
fn skipping_is_exact_on_in_order_cores() {
    skipping_changes_nothing(&CoreSpec::five_stage());
}

/// Hart 1 polls more lines than its caches hold, while hart 0 sleeps: most of this time is skipped,
/// because core and fabric return to the same state.
#[test]
fn polling_out_of_the_last_level_is_skipped() {
    for core in servers::models() {
        let mut core = servers::with_small_caches(core.clone());
        // With random replacement, a sweep does not return to an earlier state.
        core = servers::with_lru(core);
        let mut spec = servers::server(2, &core);
        spec.fabric.clock_ghz = 2.3;
        // From the second time on, the length of the period is known.
        let bench = Bench::new(spec, polling(&[Poll::Sweep(100)], &[40, 40, 10, 10]));
        let plain = outcome(&bench, 0, false);
        assert_eq!(plain.ending, Ending::Halted);
        for lookahead_cycles in [0, 7] {
            let skipping = outcome(&bench, lookahead_cycles, true);
            assert!(plain == skipping, "{}", difference(&plain, &skipping));
        }
        let mut machine = bench.machine();
        machine.engine.set_speed(0, true);
        servers::run(&mut machine);
        let skipped = machine.engine.cores[1].skipped_cycles();
        // 102 microseconds of 2300 cycles each. An iteration takes some 2000 cycles, and some five
        // of them must be simulated each time.
        assert!(
            skipped > 100_000,
            "{:?}: {skipped} cycles were skipped",
            core.model
        );
    }
}

/// Hart 1 polls more lines than its caches hold until a deadline, while hart 0 sleeps: iterations
/// differ only in the clock.
#[test]
fn a_deadline_is_kept_while_polling() {
    const DEADLINE_CYCLE: u64 = 50_000;
    for core in servers::models() {
        let mut core = servers::with_small_caches(core.clone());
        core = servers::with_lru(core);
        let spec = servers::server(2, &core);
        let mut asm = Assembler::new();
        asm.harts(2, |asm, hart| {
            if hart == 0 {
                asm.load_immediate(T0, TIMER_INTERRUPT);
                asm.csr_write(MIE, T0);
                sleep(asm, hart, 40);
            } else {
                asm.load_immediate(OTHER, DEADLINE_CYCLE);
                let again = asm.label_here();
                emit_poll(asm, &Poll::Sweep(100));
                asm.csr_read(T0, CYCLE);
                asm.operate(SLTU, T0, T0, OTHER);
                asm.branch(When::NotEqual, T0, ZERO, again);
            }
            asm.csr_read(T0, CYCLE);
            asm.load_immediate(OTHER, DUMP + DUMP_BYTES * hart as u64);
            asm.store_double(T0, OTHER, 0);
            asm.halt();
        });
        let bench = Bench::new(spec, asm.finish(&[]));
        let plain = outcome(&bench, 0, false);
        assert_eq!(plain.ending, Ending::Halted);
        let skipping = outcome(&bench, 0, true);
        assert!(plain == skipping, "{}", difference(&plain, &skipping));
        // It reads the time once per iteration, which takes less than 5000 cycles.
        let mut machine = bench.machine();
        servers::run(&mut machine);
        let ended = servers::read(&machine, DUMP + DUMP_BYTES);
        assert!(
            (DEADLINE_CYCLE..DEADLINE_CYCLE + 5000).contains(&ended),
            "{:?}: ended in cycle {ended}",
            core.model
        );
    }
}

/// Events of the fabric within the last cycle before the end are handled, whatever the earlier
/// progress: memory answers at times that are not whole cycles.
#[test]
fn the_last_cycle_is_complete() {
    const RING: u64 = 0x8014_0000;
    const RING_LINES: u64 = 8;
    /// Lines so far apart are in one set of 4 ways: each evicts another.
    const STRIDE: u64 = 8192;
    let core = CoreSpec::hyperplane_table1();
    let mut spec = servers::server(2, &core);
    spec.fabric.clock_ghz = 2.3;
    let ring: Vec<(u64, Vec<u8>)> = (0..RING_LINES)
        .map(|line| {
            let next = RING + (line + 1) % RING_LINES * STRIDE;
            (RING + line * STRIDE, next.to_le_bytes().to_vec())
        })
        .collect();
    for iterations in 0..200 {
        let mut asm = Assembler::new();
        asm.harts(2, |asm, hart| {
            if hart == 0 {
                asm.load_immediate(T1, 1 + iterations);
                let again = asm.label_here();
                asm.add_immediate(T1, T1, -1);
                asm.branch(When::NotEqual, T1, ZERO, again);
                asm.load_immediate(T0, HOST);
                asm.add_immediate(T1, ZERO, 1);
                asm.store_double(T1, T0, 0);
                // Occasional events, with idle time in between.
                asm.load_immediate(S0, RING);
                let again = asm.label_here();
                asm.load_double(S0, S0, 0);
                asm.jump(again);
            } else {
                // Consecutive misses go to memory.
                asm.load_immediate(S0, WALKED);
                let again = asm.label_here();
                asm.load_double(T0, S0, 0);
                asm.add(S0, S0, T0);
                asm.add_immediate(S0, S0, 64);
                asm.jump(again);
            }
        });
        let bench = Bench::new(spec.clone(), with_host(asm.finish(&ring), HOST));
        let plain = outcome(&bench, 1, false);
        let other = outcome(&bench, 0, false);
        assert!(
            plain == other,
            "after {iterations} iterations: {}",
            difference(&plain, &other)
        );
    }
}

/// Of two harts that crash at about the same time, the first crash is reported.
#[test]
fn the_first_crash_is_reported() {
    let core = CoreSpec::hyperplane_table1();
    let spec = servers::server(2, &core);
    for more in 0..40 {
        let mut asm = Assembler::new();
        asm.harts(2, |asm, hart| {
            // Both have fetched their instructions before one of them crashes.
            asm.load_immediate(T1, if hart == 0 { 320 } else { 300 + more });
            let again = asm.label_here();
            asm.add_immediate(T1, T1, -1);
            asm.branch(When::NotEqual, T1, ZERO, again);
            asm.ebreak();
        });
        let image = asm.finish(&[]);
        let text = |lookahead_cycles| {
            let mut machine = servers::machine(&spec, image.clone());
            machine.engine.set_speed(lookahead_cycles, false);
            servers::run(&mut machine)
        };
        assert_eq!(text(1), text(0), "hart 1 iterates {} times", 300 + more);
    }
}

/// A line arrives for one hart, and a waiting conditional store of the other is performed, which
/// ends the hold of a third line with a pending request: that request waits for the end of the
/// fill.
#[test]
fn a_hold_that_ends_during_a_fill_is_exact() {
    let core = servers::with_threads(2, CoreSpec::hyperplane_table1());
    let shape = Shape {
        harts: 4,
        rounds: 1,
        exits: false,
        small_caches: false,
        second_level: true,
        prefetchers: None,
        page_walkers: None,
        total_store_order: false,
        tight: false,
        small_last_level: false,
        non_inclusive: false,
        two_sockets: true,
        replacement: None,
        dram: None,
        fast: false,
        clock_ghz: 1.0,
        period: None,
        page_tables: false,
    };
    let ops = [
        (0, Op::Walk(false, 1, 0)),
        (1, Op::Store(1, 0, 192)),
        (1, Op::BranchOnLoaded(0, 0, 1)),
        (0, Op::BranchOnLoaded(0, 0, 1)),
        (2, Op::Reserve(0, false, 0, 192)),
        (0, Op::Load(1, false, 0, 0)),
        (0, Op::Load(1, false, 0, 0)),
        (0, Op::BranchOnLoaded(0, 0, 1)),
        (1, Op::Wait(2, 0)),
        (2, Op::Float(0, 0)),
        (0, Op::Load(1, false, 0, 0)),
        (1, Op::Load(1, false, 0, 0)),
        (0, Op::Load(1, false, 0, 0)),
        (0, Op::Dependent(0, 0)),
        (0, Op::Wait(1, 0)),
        (0, Op::BranchOnLoaded(0, 0, 1)),
    ];
    always_the_same(&core, &shape, &ops).unwrap();
}

/// Waiting instructions take the slots of some that have left the reorder buffer, and are squashed.
/// Their slots must not count as those of waiting instructions, which would decide which hart
/// dispatches first.
#[test]
fn undone_instructions_do_not_decide_which_hart_goes_first() {
    let core = servers::with_threads(2, CoreSpec::hyperplane_table1());
    let shape = Shape {
        harts: 3,
        rounds: 3,
        exits: false,
        small_caches: true,
        second_level: true,
        prefetchers: None,
        page_walkers: None,
        total_store_order: true,
        tight: true,
        small_last_level: false,
        non_inclusive: true,
        two_sockets: true,
        replacement: Some(Replacement::Random),
        dram: None,
        fast: false,
        clock_ghz: 3.0,
        period: Some(1274),
        page_tables: false,
    };
    let ops = [
        (3, Op::Signal),
        (1, Op::Wait(2, 3)),
        (3, Op::Delay(487)),
        (1, Op::Store(8, 3, 112)),
        (0, Op::Load(4, false, 0, 64)),
        (2, Op::BranchOnLoaded(0, 0, 3)),
        (2, Op::Signal),
        (0, Op::BranchOnLoaded(28, 7, 2)),
        (3, Op::BranchOnLoaded(72, 1, 3)),
        (2, Op::BranchOnLoaded(65, 7, 4)),
        (0, Op::Load(4, true, 1, 0)),
        (3, Op::Fence(3, 3)),
        (0, Op::Walk(false, 23, 0)),
        (0, Op::Fence(3, 2)),
        (3, Op::Sleep(1)),
        (3, Op::Load(4, true, 3, 92)),
        (3, Op::Misaligned(false, 0, 2)),
        (0, Op::Store(1, 3, 129)),
        (2, Op::Fence(1, 2)),
        (2, Op::Sleep(2)),
        (0, Op::Signal),
        (1, Op::Store(8, 5, 49)),
        (3, Op::Sleep(2)),
        (1, Op::Delay(385)),
        (3, Op::Reserve(0, true, 3, 33)),
        (1, Op::Load(4, false, 1, 64)),
        (1, Op::Divide(4, 5, 3)),
        (0, Op::Fence(2, 3)),
        (3, Op::Store(1, 3, 7)),
        (3, Op::Sleep(0)),
        (3, Op::Sleep(0)),
        (1, Op::Signal),
        (3, Op::Store(4, 5, 82)),
        (0, Op::Signal),
        (3, Op::Clint(true, 2)),
        (2, Op::Load(2, false, 1, 8)),
        (0, Op::Walk(true, 9, 0)),
        (0, Op::BranchOnLoaded(83, 1, 2)),
        (3, Op::BranchOnLoaded(126, 0, 4)),
        (0, Op::Misaligned(false, 5, 1)),
        (0, Op::Wait(2, 0)),
        (1, Op::Reserve(0, false, 2, 76)),
        (0, Op::Store(8, 4, 0)),
        (2, Op::Store(4, 0, 128)),
        (0, Op::Amo(1, 2, true, 3, 0, 184)),
        (2, Op::Dependent(3, 5)),
        (1, Op::Load(1, false, 0, 12)),
        (0, Op::Load(2, true, 2, 85)),
        (0, Op::Load(2, false, 3, 116)),
    ];
    let mut bench = bench(&core, &shape, &ops);
    // Random replacement displaces lines of a smaller cache, and the times are others.
    bench.spec.fabric.last_level.size_bytes_per_bank = 1 << 20;
    bench.interrupts = Some(Interrupts {
        delivery: Delivery::Flushing,
        count: INTERRUPTS,
    });
    is_always_the_same(&bench, &shape).unwrap();
}
