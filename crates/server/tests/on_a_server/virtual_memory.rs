//! Random accesses through random page tables give the same values, faults and tables on the
//! functional interpreter, in threaded code, on both core models, and on `qemu-system-riscv64`.
//!
//! A program in machine mode takes one step after the other from a table. A step loads, stores or
//! adds as user or supervisor mode would (`MPRV`), jumps there, or changes an entry of the page
//! tables and flushes its cached translations, as narrowly as permitted. The value read by each
//! step, or its trap, goes into a log.
//!
//! There are three address spaces, of both modes, with pages of all sizes. They share the tables of
//! the highest addresses, whose pages are global. The address spaces differ in their identifiers,
//! so nothing is flushed when a step uses another one than the previous step.
//!
//! qemu sets bits A and D itself (Svadu). In its runs, traps of the interpreter that only require
//! these bits are handled here, by setting them. The comparison is skipped, with a message, if
//! there is no `qemu-system-riscv64`.

use crate::common::assembler::*;
use crate::common::cases::check;
use crate::common::servers;
use crate::random::Random;
use crate::selection::seed;
use pipeline::{CoreSpec, Model};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use riscv::elf::Image;
use riscv::interpreter::{FlatMemory, Machine, Memory, Step};
use riscv::paged::PagedMemory;
use riscv::paging::{Access, Entry, Space, TABLE_BYTES, Walk};
use riscv::threaded::Threaded;
use riscv::{Cause, Trap};
use std::process::{Command, Stdio};

/// A word for each parameter of a step.
const STEPS: u64 = 0x8001_0000;
const STEP_BYTES: u64 = 64;
/// Cause, value, `mepc`, and the value read.
const LOG: u64 = 0x8004_0000;
const LOG_BYTES: u64 = 32;
const TABLES: u64 = 0x8010_0000;
/// Frames that are read and written, and frames that are executed; each group begins 2 MB.
const DATA: u64 = 0x8020_0000;
const CODE_FRAMES: u64 = 0x8040_0000;
const FRAMES: u64 = 4;
const MEMORY_BYTES: usize = 16 << 20;

/// The console of qemu's machine `virt`.
const UART: u64 = 0x1000_0000;

const MPRV: u64 = 1 << 17;
const SUM: u64 = 1 << 18;
const MXR: u64 = 1 << 19;
const MPP: u64 = 3 << 11;
const SUPERVISOR: u64 = 1 << 11;
/// The logged cause if there was no trap.
const NO_TRAP: u64 = 64;

const ECALL: u32 = 0x0000_0073;
/// The lower half of an instruction whose upper half is zero, which is also the upper half of an
/// invalid word.
const HALF_ECALL: u16 = 0x0073;

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Load(u8),
    Store(u8),
    Add,
    Fetch,
    /// Writes 8 bytes of the tables, and flushes with or without an address and an address space.
    Change {
        address: bool,
        asid: bool,
    },
    /// Reads 8 bytes of the tables.
    Look,
}

const KINDS: [Kind; 15] = {
    const fn change(address: bool, asid: bool) -> Kind {
        Kind::Change { address, asid }
    }
    [
        Kind::Load(1),
        Kind::Load(2),
        Kind::Load(4),
        Kind::Load(8),
        Kind::Store(1),
        Kind::Store(2),
        Kind::Store(4),
        Kind::Store(8),
        Kind::Add,
        Kind::Fetch,
        change(false, false),
        change(true, false),
        change(false, true),
        change(true, true),
        Kind::Look,
    ]
};

#[derive(Clone, Copy, Debug)]
struct OneStep {
    kind: Kind,
    address: u64,
    value: u64,
    status: u64,
    satp: u64,
    /// Operands of the flush.
    flushed: (u64, u64),
}

impl Random {
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// An entry of the tables that steps may change.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Its address.
    at: u64,
    /// An address that it maps.
    address: u64,
    /// The binary logarithm of the size that it maps.
    bits: u32,
    /// Its address space; `None` for all, if it is in a shared table.
    asid: Option<u64>,
    kind: Mapped,
}

/// The target of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mapped {
    Data,
    Code,
    /// A gigabyte that contains both.
    Both,
    /// A table.
    Table(u64),
}

/// Page tables and steps.
struct Scenario {
    tables: Vec<[u64; 512]>,
    places: Vec<Place>,
    satps: Vec<u64>,
    random: Random,
    /// Whether hardware sets A and D in one of the compared machines.
    with_qemu: bool,
}

impl Scenario {
    fn new(seed: u64, with_qemu: bool) -> Scenario {
        let mut scenario = Scenario {
            tables: Vec::new(),
            places: Vec::new(),
            satps: Vec::new(),
            random: Random(seed),
            with_qemu,
        };
        let shared = scenario.table();
        scenario.fill(shared, u64::MAX << 30, None);
        for (asid, mode) in [(1, 8), (2, 8), (3, 9)] {
            let root = scenario.table();
            let mut top = root;
            if mode == 9 {
                top = scenario.table();
                let high = scenario.table();
                scenario.tables[root][0] = Self::pointer(top);
                scenario.tables[root][511] = Self::pointer(high);
                scenario.tables[high][511] = Self::pointer(shared);
            } else {
                scenario.tables[top][511] = Self::pointer(shared);
            }
            let low = scenario.table();
            scenario.tables[top][0] = Self::pointer(low);
            scenario.fill(low, 0, Some(asid));
            scenario.map((top, 1), (1 << 30, 30), Some(asid), Mapped::Both);
            let satp = mode << 60 | asid << 44 | Self::base(root) >> 12;
            scenario.satps.push(satp);
        }
        scenario
    }

    fn base(table: usize) -> u64 {
        TABLES + table as u64 * TABLE_BYTES
    }

    fn pointer(table: usize) -> u64 {
        Entry::new(Self::base(table), Entry::VALID).0
    }

    fn table(&mut self) -> usize {
        self.tables.push([0; 512]);
        self.tables.len() - 1
    }

    /// Pages of 4 KB and of 2 MB below a table of a gigabyte.
    fn fill(&mut self, table: usize, start: u64, asid: Option<u64>) {
        for (index, kind) in [(0, Mapped::Data), (3, Mapped::Code)] {
            let last = self.table();
            self.tables[table][index] = Self::pointer(last);
            let start = start + ((index as u64) << 21);
            self.places.push(Place {
                at: Self::base(table) + 8 * index as u64,
                address: start,
                bits: 21,
                asid,
                kind: Mapped::Table(Self::base(last)),
            });
            for page in 0..6 {
                let address = start + (page as u64 * TABLE_BYTES);
                self.map((last, page), (address, 12), asid, kind);
            }
        }
        for (index, kind) in [(1, Mapped::Data), (2, Mapped::Data), (4, Mapped::Code)] {
            let address = start + ((index as u64) << 21);
            self.map((table, index), (address, 21), asid, kind);
        }
    }

    fn map(
        &mut self,
        (table, index): (usize, usize),
        (address, bits): (u64, u32),
        asid: Option<u64>,
        kind: Mapped,
    ) {
        let place = Place {
            at: Self::base(table) + 8 * index as u64,
            address,
            bits,
            asid,
            kind,
        };
        self.tables[table][index] = self.entry(&place);
        self.places.push(place);
    }

    /// A random entry, usually one that maps a page.
    fn entry(&mut self, place: &Place) -> u64 {
        let random = &mut self.random;
        if let Mapped::Table(base) = place.kind {
            // "For non-leaf PTEs, the D, A, and U bits are reserved."
            let wrong = match random.one_in(8) {
                true => random.one_of(&[Entry::DIRTY, Entry::ACCESSED, Entry::USER]),
                false => 0,
            };
            let valid = if random.one_in(8) { 0 } else { Entry::VALID };
            return Entry::new(base, valid | wrong).0;
        }
        let bits = random.next();
        let permissions = match random.below(3) {
            0 => Entry::READ | Entry::WRITE | Entry::EXECUTE,
            _ => bits & (Entry::READ | Entry::WRITE | Entry::EXECUTE),
        };
        let often = |random: &mut Random, bit| if random.one_in(6) { 0 } else { bit };
        let mut flags = permissions | bits & Entry::USER;
        flags |= often(random, Entry::VALID);
        flags |= often(random, Entry::ACCESSED) | often(random, Entry::DIRTY);
        if place.asid.is_none() {
            flags |= Entry::GLOBAL;
        }
        let frame = random.below(FRAMES) << 12;
        let base = match (place.kind, place.bits) {
            (Mapped::Data, 12) => DATA + frame,
            (Mapped::Code, 12) => CODE_FRAMES + frame,
            (Mapped::Both, _) => 0x8000_0000,
            (Mapped::Code, _) => CODE_FRAMES,
            _ => DATA,
        };
        // A large page that is not aligned to its size.
        let misaligned = match place.bits > 12 && random.one_in(8) {
            true => 1 << 12,
            false => 0,
        };
        Entry::new(base + misaligned, flags).0
    }

    /// A mapped address, or one near it.
    fn address(&mut self, for_code: bool) -> u64 {
        let candidates: Vec<Place> = self
            .places
            .iter()
            .filter(|place| match place.kind {
                Mapped::Data => !for_code,
                Mapped::Code => for_code,
                Mapped::Both => true,
                Mapped::Table(_) => false,
            })
            .copied()
            .collect();
        let random = &mut self.random;
        let place = random.one_of(&candidates);
        let frame = match place.bits {
            12 => 0,
            _ => random.below(FRAMES) << 12,
        };
        let both = match (place.kind, for_code) {
            (Mapped::Both, true) => CODE_FRAMES - 0x8000_0000,
            (Mapped::Both, false) => DATA - 0x8000_0000,
            _ => 0,
        };
        let offset = match random.below(4) {
            0 => 0xff8 + random.below(8),
            1 => random.below(0x1000),
            _ => random.below(0x200) * 8,
        };
        let address = place.address + both + frame + offset;
        let wrong = match random.below(24) {
            0 => 1 << 38,
            1 => 1 << 45,
            2 if !for_code => 5 << 21,
            _ => 0,
        };
        (address ^ wrong) & if for_code { !1 } else { u64::MAX }
    }

    fn step(&mut self) -> OneStep {
        let kind = match self.random.below(20) {
            0..=5 => Kind::Load(self.random.one_of(&[1, 2, 4, 8, 8])),
            6..=9 => Kind::Store(self.random.one_of(&[1, 2, 4, 8, 8])),
            10 => Kind::Add,
            11..=14 => Kind::Fetch,
            15..=18 => Kind::Change {
                address: false,
                asid: false,
            },
            _ => Kind::Look,
        };
        let mut step = OneStep {
            kind,
            address: 0,
            value: self.random.next(),
            status: self.random.one_of(&[0, SUPERVISOR]) | self.random.next() & (SUM | MXR),
            satp: self.random.one_of(&self.satps.clone()),
            flushed: (0, 0),
        };
        match kind {
            Kind::Load(_) => {
                let for_code = self.random.one_in(4);
                step.address = self.address(for_code);
                step.status |= MPRV;
            }
            Kind::Store(_) | Kind::Add => {
                step.address = self.address(false);
                step.status |= MPRV;
                if kind == Kind::Add && !self.random.one_in(8) {
                    step.address &= !7;
                }
            }
            Kind::Fetch => step.address = self.address(true),
            Kind::Look => step.address = self.random.one_of(&self.places.clone()).at,
            Kind::Change { .. } => {
                let place = self.random.one_of(&self.places.clone());
                step.address = place.at;
                step.value = self.entry(&place);
                // An address suffices for entries that map pages, and an address space for those
                // that are not global.
                let is_page = !matches!(place.kind, Mapped::Table(_));
                step.kind = Kind::Change {
                    address: is_page && self.random.one_in(2),
                    asid: place.asid.is_some() && self.random.one_in(2),
                };
                let within = self.random.below(1 << place.bits);
                step.flushed = (place.address + within, place.asid.unwrap_or(0));
            }
        }
        step
    }

    fn steps(&mut self, count: usize) -> Vec<OneStep> {
        (0..count).map(|_| self.step()).collect()
    }

    /// The program for these steps; at its end it halts, or writes to qemu's console.
    fn program(&self, steps: &[OneStep]) -> Image {
        let count = steps.len();
        let mut asm = Assembler::new();
        let (trap, begin, next, log, end, idle) = (
            asm.label(),
            asm.label(),
            asm.label(),
            asm.label(),
            asm.label(),
            asm.label(),
        );
        asm.jump(begin);
        asm.align(64);
        asm.bind(trap);
        let trap_address = asm.here();
        // A step may have executed an entry of a table as an instruction, which changes registers.
        asm.csr_read(S0, MSCRATCH);
        asm.csr_read(T0, MCAUSE);
        asm.csr_read(T1, MTVAL);
        asm.csr_read(T2, MEPC);
        asm.bind(log);
        asm.load_immediate(T3, MPRV);
        asm.csr_clear(MSTATUS, T3);
        asm.load_double(S1, S0, -8);
        for (place, register) in [T0, T1, T2, A0].into_iter().enumerate() {
            asm.store_double(register, S1, 8 * place as i64);
        }

        asm.bind(next);
        asm.load_immediate(T0, STEPS + count as u64 * STEP_BYTES);
        asm.branch(When::Equal, S0, T0, end);
        asm.load_double(T0, S0, 0);
        for (place, register) in [A1, A2, A3, A4, A5, A6].into_iter().enumerate() {
            asm.load_double(register, S0, 8 * (place as i64 + 1));
        }
        asm.add_immediate(S0, S0, STEP_BYTES as i64);
        asm.csr_write(MSCRATCH, S0);
        asm.load_immediate(T1, MPP | SUM | MXR);
        asm.csr_clear(MSTATUS, T1);
        asm.csr_write(SATP, A4);
        asm.load_immediate(A0, 0);
        asm.jump_register(ZERO, T0, 0);

        let handlers: Vec<u64> = KINDS
            .iter()
            .map(|kind| {
                let at = asm.here();
                asm.csr_set(MSTATUS, A3);
                match *kind {
                    Kind::Load(bytes) => asm.load(bytes, true, A0, A1, 0),
                    Kind::Store(bytes) => asm.store(bytes, A2, A1, 0),
                    Kind::Add => asm.amo(AMO_ADD, RELAXED, 8, A0, A2, A1),
                    Kind::Fetch => {
                        asm.csr_write(MEPC, A1);
                        asm.mret();
                    }
                    Kind::Change { address, asid } => {
                        asm.store_double(A2, A1, 0);
                        let operand = |given, register| if given { register } else { ZERO };
                        asm.flush_translations(operand(address, A5), operand(asid, A6));
                    }
                    Kind::Look => asm.load_double(A0, A1, 0),
                }
                asm.load_immediate(T3, MPRV);
                asm.csr_clear(MSTATUS, T3);
                asm.load_immediate(T0, NO_TRAP);
                asm.load_immediate(T1, 0);
                asm.load_immediate(T2, 0);
                asm.jump(log);
                at
            })
            .collect();

        asm.bind(begin);
        asm.csr_read(T0, MHARTID);
        asm.branch(When::NotEqual, T0, ZERO, idle);
        asm.load_immediate(T0, trap_address);
        asm.csr_write(MTVEC, T0);
        // All of memory is open to supervisor and user mode.
        asm.load_immediate(T0, u64::MAX);
        asm.csr_write(PMPADDR0, T0);
        asm.load_immediate(T0, 0x1f);
        asm.csr_write(PMPCFG0, T0);
        asm.load_immediate(S0, STEPS);
        asm.jump(next);

        asm.bind(end);
        if self.with_qemu {
            tell_console(&mut asm, LOG + count as u64 * LOG_BYTES);
        }
        asm.bind(idle);
        asm.halt();

        let handler = |kind: Kind| {
            let place = KINDS.iter().position(|&other| other == kind);
            handlers[place.expect("all kinds have handlers")]
        };
        let words = steps.iter().zip(0..).flat_map(|(step, number)| {
            let (address, asid) = step.flushed;
            [
                handler(step.kind),
                step.address,
                step.value,
                step.status,
                step.satp,
                address,
                asid,
                LOG + number * LOG_BYTES,
            ]
        });
        let words: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let tables: Vec<u8> = self
            .tables
            .iter()
            .flatten()
            .flat_map(|entry| entry.to_le_bytes())
            .collect();
        let data = (0..FRAMES * TABLE_BYTES / 8).map(|word| Random(word).next());
        let data: Vec<u8> = data.flat_map(u64::to_le_bytes).collect();
        // Every executed instruction traps, and one instruction continues in the next frame.
        let mut code = vec![0; (FRAMES * TABLE_BYTES) as usize];
        for word in code.chunks_exact_mut(4) {
            word.copy_from_slice(&ECALL.to_le_bytes());
        }
        for frame in code.chunks_exact_mut(TABLE_BYTES as usize) {
            let last = frame.len() - 2;
            frame[last..].copy_from_slice(&HALF_ECALL.to_le_bytes());
        }
        let log = vec![0; count * LOG_BYTES as usize];
        asm.finish(&[
            (STEPS, words),
            (LOG, log),
            (TABLES, tables),
            (DATA, data),
            (CODE_FRAMES, code),
        ])
    }
}

/// Writes the log, which ends at `end`, to the console of qemu's machine `virt`, a 16550 UART, and
/// ends the emulation by its test device (`hw/riscv/virt.c`: `virt_memmap`; `hw/misc/sifive_test.c`:
/// FINISHER_PASS).
fn tell_console(asm: &mut Assembler, end: u64) {
    const TEST_DEVICE: u64 = 0x10_0000;
    asm.load_immediate(T0, UART);
    asm.load_immediate(T1, LOG);
    asm.load_immediate(T3, end);
    let again = asm.label_here();
    asm.load(1, false, T2, T1, 0);
    asm.store(1, T2, T0, 0);
    asm.add_immediate(T1, T1, 1);
    asm.branch(When::NotEqual, T1, T3, again);
    asm.load_immediate(T0, TEST_DEVICE);
    asm.load_immediate(T1, 0x5555);
    asm.store(4, T1, T0, 0);
}

/// The compared memory: the log, the tables and the data.
fn compared(count: usize) -> impl Iterator<Item = u64> {
    let words = |start: u64, bytes: u64| (start..start + bytes).step_by(8);
    words(LOG, count as u64 * LOG_BYTES)
        .chain(words(TABLES, 16 * TABLE_BYTES))
        .chain(words(DATA, FRAMES * TABLE_BYTES))
}

/// A short description of a word of memory.
fn describe(address: u64) -> String {
    match address {
        LOG..TABLES => {
            let (step, word) = ((address - LOG) / LOG_BYTES, (address - LOG) % LOG_BYTES / 8);
            let what = ["cause", "value", "mepc", "what is read"][word as usize];
            format!("step {step}: {what}")
        }
        _ => format!("memory at {address:#x}"),
    }
}

/// The memory after execution by the interpreter.
fn interpreted(image: &Image, sets_bits: bool) -> FlatMemory {
    let mut memory = FlatMemory::new(CODE, MEMORY_BYTES);
    assert!(memory.load(image));
    let mut machine = Machine::new(memory, image.entry);
    loop {
        let before = (machine.hart.clone(), machine.pc);
        match machine.step() {
            Step::Waiting => return machine.memory,
            Step::Retired(_) => {}
            Step::Trapped(trap) => {
                if sets_bits && set_bits(&before.0, trap, &mut machine.memory) {
                    (machine.hart, machine.pc) = before;
                }
            }
        }
        // The console is not memory.
        if machine.hart.csrs.mcause == 7 && machine.hart.csrs.mtval == UART {
            return machine.memory;
        }
        assert!(machine.retired < 1_000_000, "the program does not end");
    }
}

/// Sets A and D, as hardware may, if a page fault requires nothing else.
fn set_bits(hart: &riscv::Hart, trap: Trap, memory: &mut FlatMemory) -> bool {
    let access = match trap.cause {
        Cause::InstructionPage => Access::Fetch,
        Cause::LoadPage => Access::Load,
        Cause::StorePage => Access::Store,
        _ => return false,
    };
    let space: Option<Space> = match access {
        Access::Fetch => hart.fetch_space(),
        _ => hart.data_space(),
    };
    let Some(space) = space else { return false };
    let Some(mut walk) = Walk::new(space.mode, space.root, trap.value) else {
        return false;
    };
    loop {
        let at = walk.entry_address();
        let Some(entry) = memory.read(at, 8) else {
            return false;
        };
        match walk.step(entry) {
            riscv::paging::Step::Next => {}
            riscv::paging::Step::Fault => return false,
            riscv::paging::Step::Page(page) => {
                let mut bits = Entry::ACCESSED;
                if access == Access::Store {
                    bits |= Entry::DIRTY;
                }
                let entry = Entry(page.entry.0 | bits);
                return entry.allows(access, space.accessor) && memory.write(at, 8, entry.0);
            }
        }
    }
}

/// The same in threaded code.
fn threaded(image: &Image) -> PagedMemory {
    let range = CODE..CODE + MEMORY_BYTES as u64;
    let mut memory = PagedMemory::new(vec![range]);
    for segment in &image.segments {
        memory.copy_in(segment.address, &segment.bytes);
    }
    let mut machine = Machine::new(memory, image.entry);
    let mut threaded = Threaded::default();
    while !machine.waiting {
        threaded.run(&mut machine, 1_000);
        threaded.step(&mut machine);
        assert!(machine.retired < 1_000_000, "the program does not end");
    }
    machine.memory
}

fn same(
    count: usize,
    expected: &FlatMemory,
    mut found: impl FnMut(u64) -> u64,
) -> Result<(), TestCaseError> {
    let mut expected = expected.clone();
    for address in compared(count) {
        let expected = expected.read(address, 8).unwrap_or_default();
        let found = found(address);
        prop_assert!(
            found == expected,
            "{}: {found:#x} instead of {expected:#x}",
            describe(address)
        );
    }
    Ok(())
}

#[test]
fn threaded_code_translates_as_the_interpreter_does() {
    check(200, &any::<u64>(), |seed| {
        let image = program(seed, 200);
        let expected = interpreted(&image, false);
        let mut found = threaded(&image);
        same(200, &expected, |at| found.read(at, 8).unwrap_or_default())
    });
}

/// A program of `count` steps.
fn program(seed: u64, count: usize) -> Image {
    let mut scenario = Scenario::new(seed, false);
    let steps = scenario.steps(count);
    scenario.program(&steps)
}

/// With large TLBs, and with TLBs of a page or two; with the latter, machine mode's addresses are
/// translated as well.
#[test]
fn cores_translate_as_the_interpreter_does() {
    let cores = servers::models().into_iter().flat_map(|core| {
        let small = servers::with_small_caches(core.clone());
        let harts = servers::with_threads(2, core.clone());
        let tight = servers::tight(small.clone());
        let translated = [1, 2].map(|entries| servers::with_small_tlbs(entries, small.clone()));
        let mut cores = vec![core.clone(), tight];
        cores.extend(translated);
        if core.model == Model::OutOfOrder {
            cores.push(harts);
        }
        cores
    });
    let cores: Vec<CoreSpec> = cores.collect();
    check(24, &any::<u64>(), |seed| {
        let image = program(seed, 120);
        let expected = interpreted(&image, false);
        cores.iter().try_for_each(|core| {
            let spec = servers::server(core.threads.into(), core);
            let mut machine = servers::machine(&spec, image.clone());
            let ending = servers::run(&mut machine);
            prop_assert_eq!(&ending, &servers::Ending::Halted, "{:?}", core.model);
            same(120, &expected, |at| servers::read(&machine, at))
        })
    });
}

const QEMU: &str = "qemu-system-riscv64";

#[test]
fn qemu_translates_as_the_interpreter_does() {
    let version = Command::new(QEMU).arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        println!("skipped: {QEMU} is not installed");
        return;
    }
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("page-tables.bin");
    let mut causes = std::collections::BTreeSet::new();
    // The first seeds reach every cause of a trap; others are tried in addition.
    let first = 20 * seed().unwrap_or(0);
    for seed in (0..20).chain(first.max(20)..first + 20) {
        let count = 2000;
        let mut scenario = Scenario::new(seed, true);
        let steps = scenario.steps(count);
        let image = scenario.program(&steps);
        let mut bytes = vec![0; (CODE_FRAMES - CODE) as usize];
        for segment in &image.segments {
            let start = (segment.address - CODE) as usize;
            bytes.resize(bytes.len().max(start + segment.bytes.len()), 0);
            bytes[start..start + segment.bytes.len()].copy_from_slice(&segment.bytes);
        }
        std::fs::write(&path, &bytes).unwrap();
        let output = Command::new(QEMU)
            // With one processor, qemu executes atomics as a load and a store, of which the first
            // may set A before the second fails. The second processor halts at once.
            .args(["-accel", "tcg,thread=multi", "-smp", "2"])
            .args(["-machine", "virt", "-m", "16M", "-display", "none"])
            .args(["-monitor", "none", "-serial", "stdio", "-bios"])
            .arg(&path)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let mut expected = interpreted(&image, true);
        let expected = expected
            .slice(LOG, count * LOG_BYTES as usize)
            .expect("the log is in memory");
        let logs = [&output.stdout[..], expected].map(|log| {
            let words = log
                .chunks(8)
                .map(|word| word.try_into().unwrap_or_default());
            words.map(u64::from_le_bytes).collect::<Vec<u64>>()
        });
        let [found, expected] = logs;
        for (number, step) in steps.iter().enumerate() {
            let words = number * 4..number * 4 + 4;
            let expected = &expected[words.clone()];
            let found = &found[words];
            causes.insert(expected[0]);
            // qemu 7 has no Zawrs, and an entry of a page table may look like `wrs.nto` (or `.sto`).
            if found[0] == 2 && matches!(found[1], 0x00d0_0073 | 0x01d0_0073) {
                continue;
            }
            // For a misaligned access outside memory, qemu reports the address below it that is
            // aligned to the size of the access.
            let mut found = found.to_vec();
            if let (5 | 7, Kind::Load(bytes) | Kind::Store(bytes)) = (expected[0], step.kind)
                && found[1] == expected[1] & !(u64::from(bytes) - 1)
            {
                found[1] = expected[1];
            }
            assert!(
                found == expected,
                "seed {seed}, step {number} {step:x?}: {found:x?}, by the interpreter {expected:x?}"
            );
        }
        assert_eq!(output.stdout.len(), count * LOG_BYTES as usize);
    }
    // Illegal instructions, loads outside memory, misaligned atomics, calls from both modes, and
    // page faults of each kind.
    let expected = [2, 5, 6, 8, 9, 12, 13, 15, NO_TRAP];
    assert_eq!(Vec::from_iter(causes), expected);
}
