//! Every hart makes progress: no access waits for ever, whatever the others do.

use crate::common::assembler::*;
use crate::common::servers::{
    self, Ending, models, models_of_all_levels, read, server, with_second_level, with_small_caches,
};
use crate::selection::sampled;
use fabric::{PagePolicy, Replacement};
use pipeline::{CoreSpec, Model};
use riscv::Class;
use riscv::elf::Image;
use server::{Program, Resumable, ServerSpec};

const DATA: u64 = 0x8010_0000;
/// Lines that have never been accessed.
const COLD: u64 = 0x8020_0000;

fn assert_halts(spec: &ServerSpec, image: &Image, what: &str) -> server::Machine {
    let mut machine = servers::machine(spec, image.clone());
    let ending = servers::run(&mut machine);
    assert_eq!(ending, Ending::Halted, "{what}, {:?}", spec.core.model);
    machine
}

/// Takes some cycles: two for each iteration, or a few more.
fn delay(asm: &mut Assembler, iterations: u64) {
    asm.load_immediate(T6, iterations + 1);
    let again = asm.label_here();
    asm.add_immediate(T6, T6, -1);
    asm.branch(When::NotEqual, T6, ZERO, again);
}

/// "A" Extension, section "Eventual Success of Store-Conditional Instructions", requires that a
/// retry loop eventually succeeds; a loop of `lr` alone must not keep others from the line.
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

/// The same with two lines in turn, each reservation ending for the other.
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

/// An access that executes alone finds every miss register taken by loads on a wrong path.
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
        // untrained predictor takes, which is not to the target.
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

/// A reserved line is evicted while another hart waits for it.
#[test]
fn a_reserved_line_that_is_replaced_is_given_up() {
    let small = models().map(with_small_caches);
    let behind = small.clone().map(with_second_level);
    for core in small.into_iter().chain(behind) {
        let spec = server(2, &core);
        for iterations in 0..60 {
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
                    delay(asm, iterations);
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

/// A spinlock that is taken with an AMO and released with a store: its data are consistent, and
/// every hart gets it.
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

/// `harts` that each add 1 to a word `times` times, with `iterations` of a loop between `LR` and
/// `SC`.
fn slow_additions(harts: usize, times: u64, iterations: u64) -> Image {
    let mut asm = Assembler::new();
    asm.harts(harts, |asm, _| {
        asm.load_immediate(S0, DATA);
        asm.load_immediate(T2, times);
        let again = asm.label_here();
        asm.load_reserved(RELAXED, 8, T0, S0);
        asm.add_immediate(T0, T0, 1);
        delay(asm, iterations);
        asm.store_conditional(RELAXED, 8, T1, T0, S0);
        asm.branch(When::NotEqual, T1, ZERO, again);
        asm.add_immediate(T2, T2, -1);
        asm.branch(When::NotEqual, T2, ZERO, again);
        asm.halt();
    });
    asm.finish(&[])
}

/// Number of iterations with which two harts always take the line from each other before either has
/// written it.
fn too_slow(core: &CoreSpec) -> u64 {
    match core.model {
        Model::OutOfOrder => 100,
        Model::InOrder => 40,
    }
}

const IN_VAIN: &str = "the last 100000 store-conditionals (SC) have all failed, though each \
    load-reserved (LR) before them read the same value, 0x0 at 0x80100000: no hart makes progress. \
    The instructions between LR and SC take too long, or the hart loses the line meanwhile: make \
    it 16 instructions or fewer without other loads and stores, or use an AMO";

/// The address of hart 0's `SC`.
fn in_vain_at(image: &Image) -> String {
    let code = &image.segments[0];
    let conditional = |bytes: &[u8]| {
        let bits = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        riscv::decode(bits).class == Class::StoreConditional
    };
    let words = code.bytes.chunks_exact(4);
    let at = code.address + 4 * words.clone().take_while(|word| !conditional(word)).count() as u64;
    format!("hart 0 at {at:#x}: {IN_VAIN}")
}

/// The instructions between `LR` and `SC` take longer than the line is kept: no hart ever makes
/// progress, which is reported, at the same time if the run is saved and restored in between.
#[test]
fn attempts_that_fail_for_ever_end_with_a_sentence() {
    const STEPS: u64 = 40_000;
    for core in sampled(models_of_all_levels()) {
        let spec = server(2, &core);
        let image = slow_additions(2, 100, too_slow(&core));
        let expected = Ending::Failed(in_vain_at(&image));
        let mut whole = servers::machine(&spec, image.clone());
        assert_eq!(servers::run(&mut whole), expected);
        let mut first = servers::machine(&spec, image.clone());
        for _ in 0..STEPS {
            assert!(matches!(first.advance(), Ok(true)));
        }
        let saved = first.save().expect("it can be saved");
        let mut second = servers::machine(&spec, image);
        second.restore(&saved).expect("the state fits");
        assert_eq!(servers::run(&mut second), expected);
        assert_eq!(second.engine.now(), whole.engine.now());
    }
}

/// A single hart, or one that is fast enough, may take any time.
#[test]
fn slow_attempts_that_nobody_disturbs_succeed() {
    const TIMES: u64 = 20;
    for core in models_of_all_levels() {
        for (harts, iterations) in [(1, 5000), (2, 10), (4, 10)] {
            let image = slow_additions(harts, TIMES, iterations);
            let machine = assert_halts(&server(harts, &core), &image, "slow attempts");
            assert_eq!(read(&machine, DATA), harts as u64 * TIMES);
        }
    }
}

/// In a functional run no reservation outlasts a hart's turn of 1000 instructions.
#[test]
fn attempts_longer_than_a_turn_end_with_a_sentence() {
    const HOST: u64 = 0x8010_1000;
    let executed = |iterations: u64| {
        let image = with_host(slow_additions(2, 3, iterations), HOST);
        let program = Program {
            elf: elf(&image),
            ..Program::default()
        };
        let description = serde_json::from_value(serde_json::json!({
            "server": server(2, &CoreSpec::five_stage()).table(),
            "data_plane": { "notify": "spin", "queues": 1 },
        }));
        let description = description.expect("it is a description");
        let options = server::FunctionalOptions::default();
        let result = server::execute_functionally(&description, &program, &options, || true);
        (
            in_vain_at(&image),
            result.err().map(|error| error.to_string()),
        )
    };
    let (sentence, error) = executed(600);
    assert_eq!(error, Some(sentence));
    // Both halt in the end, and no events remain.
    let (_, error) = executed(100);
    assert!(error.is_some_and(|error| error.contains("waits for an interrupt (WFI)")));
}

/// A lock taken with `LR` and `SC` is passed on among harts that fail repeatedly.
#[test]
fn a_contended_lock_goes_on() {
    const HARTS: usize = 4;
    const TIMES: u64 = 3000;
    let mut asm = Assembler::new();
    asm.harts(HARTS, |asm, _| {
        asm.load_immediate(S0, DATA);
        asm.load_immediate(T2, TIMES);
        asm.add_immediate(T3, ZERO, 1);
        let again = asm.label_here();
        asm.load_reserved(ACQUIRE, 8, T0, S0);
        asm.branch(When::NotEqual, T0, ZERO, again);
        asm.store_conditional(RELAXED, 8, T1, T3, S0);
        asm.branch(When::NotEqual, T1, ZERO, again);
        asm.load_double(T1, S0, 64);
        asm.add_immediate(T1, T1, 1);
        asm.store_double(T1, S0, 64);
        asm.fence(RW, W);
        asm.store_double(ZERO, S0, 0);
        asm.add_immediate(T2, T2, -1);
        asm.branch(When::NotEqual, T2, ZERO, again);
        asm.halt();
    });
    let image = asm.finish(&[]);
    for core in models_of_all_levels() {
        let machine = assert_halts(&server(HARTS, &core), &image, "a lock");
        assert_eq!(read(&machine, DATA + 64), HARTS as u64 * TIMES);
    }
}

const LINES: u64 = 12;

/// Runs through lines that share a set of a last-level cache of eight sets, more lines than it has
/// ways. With `cut`, each instruction is in two lines, and all second lines share a set, too.
fn run_through_one_set(asm: &mut Assembler, cut: bool) {
    const APART_BYTES: u64 = 8 * 64;
    const COMPRESSED_NOP: u16 = 1;
    for _ in 0..LINES {
        let next = asm.label();
        asm.jump(next);
        let offset = if cut { APART_BYTES - 2 } else { 0 };
        while asm.here() % APART_BYTES != offset {
            asm.emit_half(COMPRESSED_NOP);
        }
        asm.bind(next);
        asm.add_immediate(S1, S1, 1);
        if cut {
            asm.emit_half(COMPRESSED_NOP);
        }
    }
}

/// The same with caches, wires and memory of a cycle each, so that a line may be recalled in the
/// cycle of its arrival.
fn fast(mut spec: ServerSpec) -> ServerSpec {
    spec.core.l1_data.hit_latency_cycles = 1;
    spec.core.l1_instruction.hit_latency_cycles = 1;
    spec.fabric.forward_latency_cycles = 1;
    spec.fabric.last_level.latency_cycles = 1;
    spec.fabric.mesh.hop_latency_cycles = 1;
    spec.fabric.memory.latency_ns = 0.4;
    spec
}

/// A line of instructions that arrives lets its hart execute at least one instruction, however soon
/// it is recalled.
#[test]
fn harts_whose_code_competes_for_a_set_get_on() {
    for cut in [false, true] {
        let mut asm = Assembler::new();
        asm.harts(8, |asm, hart| {
            run_through_one_set(asm, cut);
            asm.load_immediate(S0, DATA + 64 * hart as u64);
            asm.store_double(S1, S0, 0);
            asm.halt();
        });
        let image = asm.finish(&[]);
        for threads in [1, 2, 8] {
            let core = servers::with_threads(threads, CoreSpec::hyperplane_table1());
            for replacement in [Replacement::Lru, Replacement::TreePlru, Replacement::Srrip] {
                let spec = servers::server_with_small_last_level(8, &core);
                let spec = fast(servers::with_replacement(spec, replacement));
                let with_dram = servers::with_dram(spec.clone(), PagePolicy::Open);
                for spec in [spec, with_dram] {
                    let what = format!("{threads} threads, {replacement:?}, cut {cut}");
                    let machine = assert_halts(&spec, &image, &what);
                    for hart in 0..8 {
                        assert_eq!(read(&machine, DATA + 64 * hart), LINES, "{what}");
                    }
                }
            }
        }
    }
}
