//! Chains of dependent loads that memory controllers execute: nothing in memory changes, and the
//! cycles follow from arithmetic.

use crate::common::assembler::*;
use crate::common::cases::check;
use crate::common::servers::{
    Ending, at_one_gigahertz, non_inclusive, read, run, server_with_small_last_level, tight,
    with_dram, with_lru, with_second_level, with_small_caches, with_threads,
    with_total_store_order,
};
use enhanced_memory::{CorePort, EnhancedMemorySpec, SharedCommon, Statistics, attach_controllers};
use fabric::{LineAddress, LineData, PagePolicy};
use pipeline::{CoreSpec, NoExtension};
use proptest::prelude::*;
use riscv::elf::Image;
use server::{Machine, ServerSpec};
use std::cell::RefCell;

/// A machine with enhanced memory controllers, and what they count.
fn machine(
    spec: &ServerSpec,
    image: Image,
    emc: Option<&EnhancedMemorySpec>,
) -> (Machine, SharedCommon) {
    let common = SharedCommon::default();
    let mut controllers = Vec::new();
    let machine = Machine::new(spec, image, &[], false, |fabric| {
        if let Some(emc) = emc {
            controllers = attach_controllers(emc, &common, spec.fabric.cores, fabric)?;
        }
        Ok(Box::new(NoExtension))
    });
    let mut machine = machine.expect("the machine can be built");
    if let Some(emc) = emc {
        let threads = usize::from(spec.core.threads);
        for (number, core) in (0..).zip(&mut machine.engine.cores) {
            let port = CorePort::new(emc, &common, number, threads, controllers.clone());
            core.set_supplier(Box::new(port));
        }
    }
    (machine, common)
}

const TABLE: u64 = 0x8040_0000;
const LINES: u64 = 512;
const RESULTS: u64 = 0x8050_0000;

/// What a hart does. Each has a word of each line of the table, which holds the address of another
/// of its words, and registers with such addresses. So the harts share lines, but no word, and what
/// is in memory in the end does not depend on their timing.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The next word of a chain, and some instructions that wait for nothing.
    Follow(usize, u8),
    /// The word in the line that two addresses make.
    Jump(usize, usize, usize),
    /// A word becomes another address.
    Store(usize, usize),
    /// A part of a word is added to a number.
    Part(usize, usize, u8),
    /// The next steps are passed over if a number is odd.
    Skip(usize, usize),
    /// An atomic addition to a word that the hart has alone, with this order.
    Atomic(usize, u32),
    Fence,
}

const POINTERS: [Register; 4] = [A2, A3, A4, A5];
const NUMBERS: [Register; 3] = [S2, S3, S4];

fn any_step() -> impl Strategy<Value = Step> {
    let pointer = || 0..POINTERS.len();
    let number = || 0..NUMBERS.len();
    prop_oneof![
        8 => (pointer(), 0..12u8).prop_map(|(of, others)| Step::Follow(of, others)),
        3 => (pointer(), pointer(), pointer()).prop_map(|(to, a, b)| Step::Jump(to, a, b)),
        2 => (pointer(), pointer()).prop_map(|(what, at)| Step::Store(what, at)),
        3 => (number(), pointer(), 0..4u8).prop_map(|(to, of, size)| Step::Part(to, of, size)),
        2 => (number(), 1..4usize).prop_map(|(of, steps)| Step::Skip(of, steps)),
        1 => (number(), prop_oneof![Just(RELAXED), Just(ACQUIRE), Just(RELEASE)])
            .prop_map(|(with, order)| Step::Atomic(with, order)),
        1 => Just(Step::Fence),
    ]
}

fn code(asm: &mut Assembler, hart: u64, steps: &[Step]) {
    let base = TABLE + 8 * hart;
    asm.load_immediate(S8, base);
    asm.load_immediate(S9, (LINES - 1) * 64);
    asm.load_immediate(S10, RESULTS + 4096 + 64 * hart);
    for (place, register) in (0..).zip(POINTERS) {
        asm.load_immediate(register, base + 64 * (place * 131 % LINES));
    }
    asm.load_immediate(S7, 12);
    let again = asm.label_here();
    let starts: Vec<Label> = steps.iter().map(|_| asm.label()).collect();
    let end = asm.label();
    for (place, &step) in steps.iter().enumerate() {
        asm.bind(starts[place]);
        match step {
            Step::Follow(of, others) => {
                asm.load_double(POINTERS[of], POINTERS[of], 0);
                for _ in 0..others {
                    asm.add_immediate(T1, ZERO, 1);
                }
            }
            Step::Jump(to, a, b) => {
                asm.operate(XOR, T6, POINTERS[a], POINTERS[b]);
                asm.operate(AND, T6, T6, S9);
                asm.add(T6, T6, S8);
                asm.load_double(POINTERS[to], T6, 0);
            }
            Step::Store(what, at) => asm.store_double(POINTERS[what], POINTERS[at], 0),
            Step::Part(to, of, size) => {
                let bytes = 1 << size;
                asm.load(bytes, size % 2 == 0, T6, POINTERS[of], 0);
                asm.add(NUMBERS[to], NUMBERS[to], T6);
            }
            Step::Skip(of, steps) => {
                let to = starts.get(place + 1 + steps).copied().unwrap_or(end);
                asm.shift_right(T6, NUMBERS[of], 6);
                asm.and_immediate(T6, T6, 1);
                asm.branch(When::NotEqual, T6, ZERO, to);
            }
            Step::Atomic(with, order) => {
                asm.amo(AMO_ADD, order, 8, NUMBERS[with], NUMBERS[with], S10);
            }
            Step::Fence => asm.fence(RW, RW),
        }
    }
    asm.bind(end);
    asm.add_immediate(S7, S7, -1);
    let done = asm.label();
    asm.branch(When::Equal, S7, ZERO, done);
    asm.jump(again);
    asm.bind(done);
    asm.load_immediate(S6, RESULTS + 64 * hart);
    for (place, register) in (0..).zip(POINTERS.into_iter().chain(NUMBERS)) {
        asm.store_double(register, S6, 8 * place);
    }
    asm.halt();
}

fn program(work: &[Vec<Step>]) -> Image {
    let mut asm = Assembler::new();
    asm.harts(work.len(), |asm, hart| code(asm, hart as u64, &work[hart]));
    // 37 is odd, so that a chain leads through all lines.
    let words = (0..LINES * 8).map(|word| {
        let (line, hart) = (word / 8, word % 8);
        TABLE + (37 * line + 11 + hart) % LINES * 64 + 8 * hart
    });
    let table = words.flat_map(u64::to_le_bytes).collect();
    asm.finish(&[(TABLE, table)])
}

/// A line as a core would read it now that no hart runs.
fn line(machine: &Machine, line: LineAddress) -> LineData {
    let mut cores = machine.engine.cores.iter();
    let copy = cores.find_map(|core| core.copy_of(line));
    copy.map_or_else(
        || machine.engine.fabric.ram().read_line(line),
        |(_, data)| data,
    )
}

/// The first address at which the memories of two machines differ.
fn difference(spec: &ServerSpec, one: &Machine, other: &Machine) -> Option<u64> {
    let lines = (0..spec.memory_mib << 20 >> 6).map(|number| 0x8000_0000 + 64 * number);
    lines.into_iter().find(|&at| {
        let at = LineAddress::of(at);
        line(one, at).0 != line(other, at).0
    })
}

#[derive(Clone, Debug)]
struct Server {
    threads: u8,
    cores: usize,
    is_tight: bool,
    has_second_level: bool,
    is_ordered: bool,
    is_inclusive: bool,
    has_dram: bool,
    controllers: usize,
}

fn any_server() -> impl Strategy<Value = Server> {
    let flags = any::<[bool; 5]>();
    (1..3u8, 1..4usize, flags, 1..3usize).prop_map(|(threads, cores, flags, controllers)| {
        let [
            is_tight,
            has_second_level,
            is_ordered,
            is_inclusive,
            has_dram,
        ] = flags;
        Server {
            threads,
            cores,
            is_tight,
            has_second_level,
            is_ordered,
            is_inclusive,
            has_dram,
            controllers: controllers.min(cores),
        }
    })
}

impl Server {
    fn spec(&self) -> ServerSpec {
        let mut core = with_small_caches(CoreSpec::hyperplane_table1());
        if self.is_tight {
            core = tight(core);
        } else {
            core.rob_entries = 40;
        }
        if self.has_second_level {
            core = with_second_level(core);
        }
        if self.is_ordered {
            core = with_total_store_order(core);
        }
        let harts = self.cores * usize::from(self.threads);
        let mut spec = server_with_small_last_level(harts, &with_threads(self.threads, core));
        spec.fabric.memory.controllers = self.controllers;
        if !self.is_inclusive {
            spec = non_inclusive(spec);
        }
        match self.has_dram {
            true => with_dram(spec, PagePolicy::Closed),
            false => spec,
        }
    }
}

#[test]
fn chains_at_memory_controllers_change_nothing_in_memory() {
    let sums = RefCell::new(Statistics::default());
    let emc = (1..17usize, 1..3usize, 1..9usize, any::<bool>()).prop_map(
        |(chain_instructions, contexts, reservation_stations, only_likely)| EnhancedMemorySpec {
            only_likely,
            chain_instructions,
            contexts,
            reservation_stations,
            miss_counters: 64,
            ..EnhancedMemorySpec::default()
        },
    );
    let steps = || prop::collection::vec(any_step(), 4..24);
    let work = prop::collection::vec(steps(), 6);
    check(
        60,
        &(any_server(), emc, work),
        |(described, emc, mut work)| {
            let spec = described.spec();
            work.truncate(described.cores * usize::from(described.threads));
            let (mut plain, _) = machine(&spec, program(&work), None);
            let (mut with, common) = machine(&spec, program(&work), Some(&emc));
            for one in [&mut plain, &mut with] {
                prop_assert_eq!(run(one), Ending::Halted);
            }
            prop_assert_eq!(difference(&spec, &plain, &with), None);
            let of = Statistics::from(common.borrow().counts);
            let mut sum = sums.borrow_mut();
            sum.values_taken += of.values_taken;
            sum.values_of_other_address += of.values_of_other_address;
            sum.values_found_by_core += of.values_found_by_core;
            sum.values_undone += of.values_undone;
            sum.values_lost += of.values_lost;
            sum.values_not_supplied += of.values_not_supplied;
            sum.chains_undone += of.chains_undone;
            sum.chains_refused += of.chains_refused;
            sum.chains_mispredicted += of.chains_mispredicted;
            sum.loads_cache_hits += of.loads_cache_hits;
            sum.loads_on_chip += of.loads_on_chip;
            sum.loads_from_memory += of.loads_from_memory;
            sum.loads_ahead_on_chip += of.loads_ahead_on_chip;
            prop_assert!(of.chains >= of.chains_begun + of.chains_refused);
            Ok(())
        },
    );
    // It would be no test if nothing of this happened.
    let sum = sums.into_inner();
    let counts = [
        sum.values_taken,
        sum.values_found_by_core,
        sum.values_undone,
        sum.values_not_supplied,
        sum.chains_refused,
        sum.loads_cache_hits,
        sum.loads_on_chip,
        sum.loads_from_memory,
        sum.loads_ahead_on_chip,
    ];
    assert!(counts.iter().all(|&count| count > 0), "{sum:?}");
}

const COLD: u64 = 0x8060_0000;
const FLAG: u64 = 0x8061_0000;
const DATA: u64 = 0x8062_0040;

/// What a reader looks at behind a load that misses, while another hart writes `DATA`, then `FLAG`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    /// The flag, then the data.
    Both,
    /// The same; the second address depends on what is read first.
    Dependent,
    /// The flag twice.
    Twice,
}

/// The reader's two values, and how many values it has taken from the controller.
fn message_passing(core: &CoreSpec, reads: Reads, trial: u64) -> ([u64; 2], u64) {
    let mut spec = server_with_small_last_level(2, core);
    spec.fabric.last_level.size_bytes_per_bank = 65536;
    let mut asm = Assembler::new();
    let (warmth, delay) = (trial % 4, trial / 4);
    let wait = |asm: &mut Assembler, quotients: u64| {
        asm.load_immediate(T6, 1);
        asm.load_immediate(T5, quotients);
        let again = asm.label_here();
        asm.operate(DIVU, T6, T6, T6);
        asm.add_immediate(T5, T5, -1);
        asm.branch(When::NotEqual, T5, ZERO, again);
        asm.fence(RW, RW);
    };
    asm.harts(2, |asm, hart| {
        asm.load_immediate(S0, FLAG);
        asm.load_immediate(S1, DATA);
        asm.load_immediate(S2, RESULTS + 64 * hart as u64);
        if warmth & 1 != 0 && hart == 1 {
            asm.amo(AMO_ADD, RELAXED, 8, ZERO, ZERO, S0);
            asm.amo(AMO_ADD, RELAXED, 8, ZERO, ZERO, S1);
        }
        if warmth & 2 != 0 && hart == 0 {
            asm.load_double(ZERO, S1, 0);
        }
        asm.fence(RW, RW);
        if hart == 1 {
            // While the other one is in its second pass.
            wait(asm, 150);
            for _ in 0..delay {
                asm.operate(MUL, T6, T6, T6);
                asm.operate(MUL, T6, T6, T6);
            }
            asm.fence(RW, RW);
            asm.store_double(T6, S1, 0);
            asm.fence(RW, RW);
            asm.store_double(T6, S0, 0);
            asm.halt();
            return;
        }
        // Two passes, so that the second finds its code in the cache. Each begins with an address:
        // the first with that of another line.
        asm.load_immediate(S4, COLD + 64);
        let twice = reads == Reads::Twice;
        asm.load_immediate(S3, if twice { 0 } else { DATA - FLAG });
        asm.load_immediate(S5, 2);
        asm.align(64);
        let again = asm.label_here();
        wait(asm, 75);
        asm.load_double(T3, S4, 0);
        asm.add(T4, T3, S3);
        asm.load_double(T1, T3, 0);
        if reads == Reads::Dependent {
            asm.operate(XOR, T5, T1, T1);
            asm.add(T4, T4, T5);
        }
        asm.load_double(T2, T4, 0);
        for _ in 0..24 {
            asm.add_immediate(T5, ZERO, 1);
        }
        asm.add_immediate(S4, S4, -64);
        asm.add_immediate(S5, S5, -1);
        let done = asm.label();
        asm.branch(When::Equal, S5, ZERO, done);
        asm.jump(again);
        asm.bind(done);
        asm.store_double(T1, S2, 0);
        asm.store_double(T2, S2, 8);
        asm.halt();
    });
    let mut lines = vec![0; 128];
    for (place, address) in [(0, FLAG), (64, COLD + 256)] {
        lines[place..place + 8].copy_from_slice(&address.to_le_bytes());
    }
    let image = asm.finish(&[(COLD, lines)]);
    let emc = EnhancedMemorySpec {
        only_likely: false,
        ..EnhancedMemorySpec::default()
    };
    let (mut machine, common) = machine(&spec, image, Some(&emc));
    assert_eq!(run(&mut machine), Ending::Halted);
    let values = [0, 8].map(|word| read(&machine, RESULTS + word));
    let taken = Statistics::from(common.borrow().counts).values_taken;
    (values, taken)
}

/// With total store order, or a dependent address, or the same address, a read is not older than
/// the one before it.
#[test]
fn supplied_values_keep_to_the_memory_model() {
    let core = tight(CoreSpec::hyperplane_table1());
    let ordered = with_total_store_order(core.clone());
    let several = |core: &CoreSpec| CoreSpec {
        rob_entries: 20,
        load_queue_entries: 8,
        scheduler_entries: 12,
        ..with_threads(2, core.clone())
    };
    let cases = [
        (ordered.clone(), Reads::Both),
        (with_second_level(ordered.clone()), Reads::Both),
        (several(&ordered), Reads::Both),
        (core.clone(), Reads::Dependent),
        (core.clone(), Reads::Twice),
        (ordered, Reads::Twice),
    ];
    for (core, reads) in cases {
        let mut seen = std::collections::BTreeMap::new();
        let mut taken = 0;
        for trial in 0..480 {
            let (values, of_trial) = message_passing(&core, reads, trial);
            *seen.entry(values).or_insert(0) += 1;
            taken += of_trial;
        }
        assert!(!seen.contains_key(&[1, 0]), "{reads:?}: {seen:?}");
        assert!(
            seen.contains_key(&[0, 0]) && seen.contains_key(&[1, 1]),
            "{seen:?}"
        );
        assert!(taken > 100, "{reads:?}: {taken} values, {seen:?}");
    }
}

/// The cycles of a chain of loads out of memory in a window of 12 instructions, in the second of two
/// passes over the same code, and what the controllers count.
fn chase(links: u64, emc: Option<&EnhancedMemorySpec>) -> (u64, Statistics) {
    let core = with_lru(tight(CoreSpec::hyperplane_table1()));
    let spec = at_one_gigahertz(1, &core);
    let mut asm = Assembler::new();
    asm.load_immediate(S0, COLD);
    asm.load_immediate(S6, RESULTS);
    asm.load_immediate(S5, 2);
    asm.fence(RW, RW);
    asm.align(64);
    let again = asm.label_here();
    asm.copy(T1, S0);
    asm.csr_read(S10, CYCLE);
    for _ in 0..links {
        asm.load_double(T1, T1, 0);
    }
    for _ in 0..16 {
        asm.add_immediate(T2, ZERO, 1);
    }
    asm.csr_read(S11, CYCLE);
    asm.operate(SUB, S11, S11, S10);
    asm.store_double(S11, S6, 0);
    asm.fence(RW, RW);
    asm.load_immediate(T0, 0x1000);
    asm.add(S0, S0, T0);
    asm.add_immediate(S5, S5, -1);
    let done = asm.label();
    asm.branch(When::Equal, S5, ZERO, done);
    asm.jump(again);
    asm.bind(done);
    asm.halt();
    let chain = (0..128u64).map(|link| {
        let mut line = vec![0; 64];
        line[..8].copy_from_slice(&(COLD + 64 * (link + 1)).to_le_bytes());
        line
    });
    let image = asm.finish(&[(COLD, chain.flatten().collect())]);
    let (mut machine, common) = machine(&spec, image, emc);
    assert_eq!(run(&mut machine), Ending::Halted);
    let counted = Statistics::from(common.borrow().counts);
    (read(&machine, RESULTS), counted)
}

#[test]
fn a_dependent_miss_at_the_controller_takes_this_long() {
    let emc = EnhancedMemorySpec::default();
    // Look-up 4, to the bank 1, 10, to memory 1, 50, back 1, 10, to the core 1, and the value can
    // be used in the next cycle. 12 cycles are those of the program around it.
    let plain = |links: u64| 12 + 79 * links;
    // The first line leaves memory after 4 + 1 + 10 + 1 + 50. Each further load looks into the
    // controller's cache for 2 cycles, and its line leaves memory 50 later; the home has asked for
    // it after 1 + 10 + 1. The last value leaves after 4, comes after 1, and can be used then.
    let chained = |links: u64| 12 + 66 + 52 * (links - 1) + 4 + 1 + 1;
    // There are four entries for loads: the fifth load follows the chain.
    let expected = [
        plain(1),
        chained(2),
        chained(3),
        chained(4),
        chained(4) + 79,
    ];
    for (links, expected) in (1..).zip(expected) {
        let (without, _) = chase(links, None);
        let (with, counted) = chase(links, Some(&emc));
        assert_eq!((without, with), (plain(links), expected), "{links} links");
        // In both passes.
        let loads = 2 * (links.min(4) - 1);
        let found = (
            counted.chain_loads,
            counted.loads_from_memory,
            counted.values_taken,
        );
        assert_eq!(found, (loads, loads, loads), "{links} links");
    }
}
