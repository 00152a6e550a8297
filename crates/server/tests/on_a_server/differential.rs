//! Random programs give the same registers and memory on both core models, on all hardware threads
//! of a core, and in threaded code, as on the functional interpreter, which executes one
//! instruction after the other and is itself compared with qemu (`crates/riscv/tests/qemu.rs`). The
//! same holds for programs in supervisor mode with pages at other physical addresses.

use crate::common::assembler::*;
use crate::common::cases::check;
use crate::common::servers;
use crate::random::Random;
use pipeline::{CoreSpec, Executed, Halt, MisalignedAccesses, Probe, StopCause, Stops, Watch};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use riscv::elf::Image;
use riscv::interpreter::{FlatMemory, Machine, Memory, Step};
use riscv::paged::PagedMemory;
use riscv::paging::Entry;
use riscv::threaded::Threaded;
use riscv::{Class, Counters, Instruction, Operation, Privilege, SINK, csr_update};
use std::cell::RefCell;
use std::rc::Rc;

/// A few lines that most accesses go to, so that accesses overlap.
const HOT: u64 = 0x8004_0000;
const HOT_BYTES: usize = 512;
/// Lines that are accessed both directly and through pointers.
const TARGETS: u64 = 0x8004_1000;
const TARGET_BYTES: usize = 4096;
/// Pointers into `TARGETS`, on lines accessed for the first time: their loads miss.
const COLD: u64 = 0x8005_0000;
const COLD_BYTES: usize = 0x8000;
/// The address where all registers are finally stored.
const DUMP: u64 = 0x8006_0000;
const DUMP_WORDS: usize = 31 + 32 + 2;
/// The distance between the data of consecutive harts.
const HART_BYTES: u64 = 0x4_0000;
const MEMORY_BYTES: usize = 0x28_0000;
/// An unmapped address.
const NOTHING: u64 = 0x4000_0000;

/// Registers that random instructions compute with.
const DATA: [Register; 8] = [A0, A1, A2, A3, A4, A5, T0, T1];
const FLOATS: u8 = 6;
const HOT_BASE: Register = S0;
const COLD_BASE: Register = S1;
const TARGET_BASE: Register = S2;
const COUNTER: Register = S3;
const COLD_START: Register = S4;
const COLD_MASK: Register = S5;
const OUTER_COUNTER: Register = S6;
const TRAPS: Register = S11;
const POINTER: Register = T4;
const SCRATCH: Register = T5;
const HANDLER: Register = T6;

#[derive(Clone, Debug)]
enum Op {
    Integer(usize, u8, u8, u8),
    Immediate(u32, u8, u8, i16),
    /// Bit manipulation of two registers, and of one.
    Bits(usize, u8, u8, u8),
    BitsOfOne(usize, u8, u8, u8),
    Constant(u8, u64),
    /// The instruction, the rounding mode, and the registers.
    Float(usize, u8, [u8; 4]),
    /// The kind of prefetch, the base, and the offset in units of 32 bytes.
    Prefetch(u32, u8, i8),
    Hot(Access, u16),
    Target(Access, u16),
    /// Through the pointer in one of the next cold lines.
    Pointer(Access, u8, u8),
    AdvanceCold,
    /// Skips the next operations, depending on registers or on a bit of a cold line.
    Branch(When, u8, u8, u8),
    BranchOnCold(u8, u8, u8),
    Amo(usize, u32, bool, u8, u8, u16),
    /// A retry loop that adds, and a second `sc` that must fail.
    Reserve(u32, bool, u8, u8, u16),
    /// A wait for a write that never happens, which ends after a time; and one without a
    /// reservation, which ends at once.
    WaitOnReservation(u16),
    Fence(u32, u32),
    FenceInstructions,
    Csr(u32, u32, u8, u8),
    Rounding(u8),
    Trap(u8),
    Compressed(u8, u8),
    /// An instruction that is written immediately before it is executed.
    Written(u8, i16),
    Loop(u8, Vec<Op>),
    /// A direct call, or an indirect one of two functions selected by the low bit of a register.
    Call(Vec<Op>),
    IndirectCall(u8, Vec<Op>, Vec<Op>),
}

#[derive(Clone, Copy, Debug)]
enum Access {
    Load(u8, bool, u8),
    Store(u8, u8),
    FloatLoad(u8, u8),
    FloatStore(u8, u8),
}

fn register() -> impl Strategy<Value = u8> {
    0..DATA.len() as u8
}

fn access() -> impl Strategy<Value = Access> {
    let bytes = || (0u32..4).prop_map(|log| 1u8 << log);
    let float = || (2u32..4).prop_map(|log| 1u8 << log);
    prop_oneof![
        4 => (bytes(), any::<bool>(), register()).prop_map(|(b, s, r)| Access::Load(b, s, r)),
        4 => (bytes(), register()).prop_map(|(b, r)| Access::Store(b, r)),
        1 => (float(), 0..FLOATS).prop_map(|(b, r)| Access::FloatLoad(b, r)),
        1 => (float(), 0..FLOATS).prop_map(|(b, r)| Access::FloatStore(b, r)),
    ]
}

fn when() -> impl Strategy<Value = When> {
    prop::sample::select(vec![
        When::Equal,
        When::NotEqual,
        When::Less,
        When::GreaterEqual,
        When::LessUnsigned,
        When::GreaterEqualUnsigned,
    ])
}

/// Offsets that overlap often: few lines, with all their bytes.
fn hot_offset() -> impl Strategy<Value = u16> {
    prop_oneof![0u16..40, 56u16..72, 0u16..320]
}

fn target_offset() -> impl Strategy<Value = u16> {
    prop_oneof![
        (0u16..6, 0u16..8).prop_map(|(line, word)| line * 64 + word * 8),
        0u16..2040
    ]
}

fn constant() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<i64>(),
        -3i64..4,
        prop::sample::select(vec![
            i64::MIN,
            i64::MAX,
            i64::from(i32::MIN),
            0x3ff0_0000_0000_0000,        // 1.0
            0x7ff0_0000_0000_0000,        // infinity
            0x7ff0_0000_0000_0001,        // signalling NaN
            0x0000_0000_0000_0001,        // smallest subnormal
            -0x0000_0000_4080_0000,       // a boxed single
            0xbf80_0000u32 as i32 as i64, // -1.0 as a single
        ]),
    ]
    .prop_map(|value| value as u64)
}

/// All floating-point computations: opcode, `funct7`, fixed `rs2`, fixed `funct3`.
fn float_instructions() -> Vec<(u32, u32, Option<u8>, Option<u32>)> {
    const FLOAT: u32 = 0x53;
    let mut all = Vec::new();
    for width in 0..2 {
        for funct7 in [0x00, 0x04, 0x08, 0x0c] {
            all.push((FLOAT, funct7 + width, None, None));
        }
        all.push((FLOAT, 0x2c + width, Some(0), None));
        all.push((FLOAT, 0x20 + width, Some(1 - width as u8), None));
        for rs2 in 0..4 {
            all.push((FLOAT, 0x60 + width, Some(rs2), None));
            all.push((FLOAT, 0x68 + width, Some(rs2), None));
        }
        for (funct7, count) in [(0x10, 3), (0x14, 2), (0x50, 3)] {
            for funct3 in 0..count {
                all.push((FLOAT, funct7 + width, None, Some(funct3)));
            }
        }
        all.push((FLOAT, 0x70 + width, Some(0), Some(0)));
        all.push((FLOAT, 0x70 + width, Some(0), Some(1)));
        all.push((FLOAT, 0x78 + width, Some(0), Some(0)));
        for opcode in [0x43, 0x47, 0x4b, 0x4f] {
            all.push((opcode, width, None, None));
        }
    }
    all
}

fn straight() -> impl Strategy<Value = Op> {
    let order = || 0u32..4;
    let word = || any::<bool>();
    prop_oneof![
        8 => (0..INTEGER_OPERATIONS.len(), register(), register(), register())
            .prop_map(|(o, d, a, b)| Op::Integer(o, d, a, b)),
        4 => (prop::sample::select(vec![0u32, 2, 3, 4, 6, 7]), register(), register(), -2048i16..2048)
            .prop_map(|(f, d, a, i)| Op::Immediate(f, d, a, i)),
        3 => (0..BIT_OPERATIONS.len(), register(), register(), register())
            .prop_map(|(o, d, a, b)| Op::Bits(o, d, a, b)),
        3 => (0..BIT_IMMEDIATES.len(), register(), register(), 0u8..64)
            .prop_map(|(o, d, a, n)| Op::BitsOfOne(o, d, a, n)),
        3 => (register(), constant()).prop_map(|(d, v)| Op::Constant(d, v)),
        8 => (0..float_instructions().len(), prop::sample::select(vec![0u8, 1, 2, 3, 4, 7, 7, 7, 7]),
              prop::array::uniform4(0..FLOATS))
            .prop_map(|(f, m, r)| Op::Float(f, m, r)),
        4 => (prop::sample::select(vec![PREFETCH_I, PREFETCH_R, PREFETCH_W]), 0u8..5, -63i8..64)
            .prop_map(|(k, b, o)| Op::Prefetch(k, b, o)),
        10 => (access(), hot_offset()).prop_map(|(a, o)| Op::Hot(a, o)),
        6 => (access(), target_offset()).prop_map(|(a, o)| Op::Target(a, o)),
        8 => (access(), 0u8..16, 0u8..9).prop_map(|(a, l, o)| Op::Pointer(a, l, o)),
        2 => Just(Op::AdvanceCold),
        4 => (when(), register(), register(), 1u8..6).prop_map(|(w, a, b, n)| Op::Branch(w, a, b, n)),
        4 => (0u8..16, 0u8..8, 1u8..6).prop_map(|(l, b, n)| Op::BranchOnCold(l, b, n)),
        3 => (0..AMO_OPERATIONS.len(), order(), word(), register(), register(), hot_offset())
            .prop_map(|(f, o, w, d, s, at)| Op::Amo(f, o, w, d, s, at)),
        1 => (order(), word(), register(), register(), hot_offset())
            .prop_map(|(o, w, d, s, at)| Op::Reserve(o, w, d, s, at)),
        1 => hot_offset().prop_map(Op::WaitOnReservation),
        2 => (0u32..16, 0u32..16).prop_map(|(b, a)| Op::Fence(b, a)),
        1 => Just(Op::FenceInstructions),
        2 => (prop::sample::select(vec![FFLAGS, FRM, FCSR]), 1u32..8, register(), register())
            .prop_map(|(c, f, d, s)| Op::Csr(c, f, d, s)),
        1 => (0u8..7).prop_map(Op::Rounding),
        1 => (0u8..8).prop_map(Op::Trap),
        3 => (0u8..3, register()).prop_map(|(k, r)| Op::Compressed(k, r)),
        1 => (register(), -2048i16..2048).prop_map(|(r, i)| Op::Written(r, i)),
    ]
}

fn program() -> impl Strategy<Value = Vec<Op>> {
    let body = || prop::collection::vec(straight(), 1..12);
    let op = prop_oneof![
        24 => straight(),
        2 => (1u8..7, body()).prop_map(|(n, b)| Op::Loop(n, b)),
        1 => body().prop_map(Op::Call),
        1 => (register(), body(), body()).prop_map(|(r, a, b)| Op::IndirectCall(r, a, b)),
    ];
    prop::collection::vec(op, 1..80)
}

fn data(register: u8) -> Register {
    DATA[usize::from(register)]
}

fn emit_access(asm: &mut Assembler, access: Access, base: Register, offset: i64) {
    match access {
        Access::Load(bytes, signed, rd) => asm.load(bytes, signed, data(rd), base, offset),
        Access::Store(bytes, source) => asm.store(bytes, data(source), base, offset),
        Access::FloatLoad(bytes, rd) => asm.float_load(bytes, rd, base, offset),
        Access::FloatStore(bytes, source) => asm.float_store(bytes, source, base, offset),
    }
}

fn emit_all(asm: &mut Assembler, ops: &[Op]) {
    let mut skips: Vec<(usize, Label)> = Vec::new();
    for (index, op) in ops.iter().enumerate() {
        skips.retain(|&(end, label)| {
            if end == index {
                asm.bind(label);
            }
            end != index
        });
        if let Some((label, count)) = emit(asm, op) {
            skips.push(((index + 1 + usize::from(count)).min(ops.len()), label));
        }
    }
    for (_, label) in skips {
        asm.bind(label);
    }
}

/// Emits one operation. For a branch: its target, and the number of operations that it skips.
fn emit(asm: &mut Assembler, op: &Op) -> Option<(Label, u8)> {
    match *op {
        Op::Integer(operation, rd, rs1, rs2) => {
            asm.operate(
                INTEGER_OPERATIONS[operation],
                data(rd),
                data(rs1),
                data(rs2),
            );
        }
        Op::Immediate(funct3, rd, rs1, immediate) => {
            asm.emit(i_type(0x13, funct3, data(rd), data(rs1), immediate.into()));
        }
        Op::Bits(operation, rd, rs1, rs2) => {
            asm.operate(BIT_OPERATIONS[operation], data(rd), data(rs1), data(rs2));
        }
        Op::BitsOfOne(operation, rd, rs1, amount) => {
            let (opcode, funct3, immediate, mask) = BIT_IMMEDIATES[operation];
            let immediate = immediate | u32::from(amount) & mask;
            let registers = u32::from(data(rs1)) << 15 | u32::from(data(rd)) << 7;
            asm.emit(opcode | funct3 << 12 | registers | immediate << 20);
        }
        Op::Constant(rd, value) => asm.load_immediate(data(rd), value),
        Op::Float(index, rounding, registers) => emit_float(asm, index, rounding, registers),
        Op::Prefetch(kind, base, offset) => {
            let base = match base {
                0 => HOT_BASE,
                1 => TARGET_BASE,
                2 => COLD_BASE,
                3 => {
                    asm.load_double(POINTER, COLD_BASE, 0);
                    POINTER
                }
                // Anywhere.
                _ => data(offset as u8 % 8),
            };
            asm.prefetch(kind, base, i64::from(offset) * 32);
        }
        Op::Hot(access, offset) => emit_access(asm, access, HOT_BASE, offset.into()),
        Op::Target(access, offset) => {
            emit_access(asm, access, TARGET_BASE, i64::from(offset) - 2048);
        }
        Op::Pointer(access, line, offset) => {
            asm.load_double(POINTER, COLD_BASE, i64::from(line) * 64);
            emit_access(asm, access, POINTER, offset.into());
        }
        Op::AdvanceCold => {
            asm.add_immediate(COLD_BASE, COLD_BASE, 1024);
            asm.operate(AND, COLD_BASE, COLD_BASE, COLD_MASK);
            asm.operate(OR, COLD_BASE, COLD_BASE, COLD_START);
        }
        Op::Branch(when, rs1, rs2, count) => {
            let over = asm.label();
            asm.branch(when, data(rs1), data(rs2), over);
            return Some((over, count));
        }
        Op::BranchOnCold(line, bit, count) => {
            let over = asm.label();
            asm.load(1, false, SCRATCH, COLD_BASE, i64::from(line) * 64 + 8);
            asm.and_immediate(SCRATCH, SCRATCH, 1 << bit);
            asm.branch(When::NotEqual, SCRATCH, ZERO, over);
            return Some((over, count));
        }
        Op::Amo(function, order, double, rd, source, offset) => {
            let bytes = if double { 8 } else { 4 };
            // One in sixteen is misaligned, and traps.
            let offset = if offset % 16 == 1 {
                offset
            } else {
                offset & !7
            };
            asm.add_immediate(SCRATCH, HOT_BASE, offset.into());
            asm.amo(
                AMO_OPERATIONS[function],
                order,
                bytes,
                data(rd),
                data(source),
                SCRATCH,
            );
        }
        Op::Reserve(order, double, rd, source, offset) => {
            let bytes = if double { 8 } else { 4 };
            asm.add_immediate(SCRATCH, HOT_BASE, (offset & !7).into());
            let again = asm.label_here();
            asm.load_reserved(order, bytes, POINTER, SCRATCH);
            asm.add(POINTER, POINTER, data(source));
            asm.store_conditional(order, bytes, HANDLER, POINTER, SCRATCH);
            asm.branch(When::NotEqual, HANDLER, ZERO, again);
            asm.store_conditional(order, bytes, data(rd), POINTER, SCRATCH);
        }
        Op::WaitOnReservation(offset) => {
            asm.add_immediate(SCRATCH, HOT_BASE, (offset & !7).into());
            asm.load_reserved(RELAXED, 8, POINTER, SCRATCH);
            asm.wait_shortly_on_reservation();
            asm.store_conditional(RELAXED, 8, HANDLER, POINTER, SCRATCH);
            asm.wait_on_reservation();
        }
        Op::Fence(before, after) => asm.fence(before, after),
        Op::FenceInstructions => asm.fence_instructions(),
        Op::Csr(number, funct3, rd, source) => {
            let funct3 = if funct3 == 4 { 2 } else { funct3 };
            let bits = u32::from(data(source)) << 15 | u32::from(data(rd)) << 7;
            asm.emit(0x73 | funct3 << 12 | bits | number << 20);
        }
        Op::Rounding(mode) => {
            asm.add_immediate(SCRATCH, ZERO, mode.into());
            asm.csr_write(FRM, SCRATCH);
        }
        Op::Trap(kind) => match kind {
            0 => asm.ecall(),
            1 => asm.ebreak(),
            2 => asm.emit(0xffff_ffff),
            3 => asm.csr_write(CYCLE, ZERO), // read-only
            _ => {
                asm.load_immediate(SCRATCH, NOTHING);
                match kind {
                    4 => asm.load_double(A0, SCRATCH, 0),
                    5 => asm.store(4, A0, SCRATCH, 4),
                    6 => asm.amo(AMO_ADD, RELAXED, 8, A0, A1, SCRATCH),
                    _ => asm.load_reserved(RELAXED, 4, A0, SCRATCH),
                }
            }
        },
        Op::Compressed(kind, register) => {
            let register = u16::from(data(register));
            asm.emit_half(match kind {
                0 => 0x0001,                                         // c.nop
                1 => 0x0001 | register << 7 | 5 << 2,                // c.addi register, 5
                _ => 0x8002 | register << 7 | u16::from(TRAPS) << 2, // c.mv register, TRAPS
            });
        }
        Op::Written(register, immediate) => {
            let (register, immediate) = (data(register), i64::from(immediate));
            let bits = i_type(0x13, 0, register, register, immediate);
            asm.load_immediate(SCRATCH, bits.into());
            asm.emit(0x17 | u32::from(POINTER) << 7); // auipc POINTER, 0
            asm.store(4, SCRATCH, POINTER, 12);
            asm.fence_instructions();
            asm.emit(0xffff_ffff);
        }
        Op::Loop(count, ref body) => {
            asm.add_immediate(COUNTER, ZERO, count.into());
            let again = asm.label_here();
            emit_all(asm, body);
            asm.add_immediate(COUNTER, COUNTER, -1);
            asm.branch(When::NotEqual, COUNTER, ZERO, again);
        }
        Op::Call(ref body) => {
            let (function, over) = (asm.label(), asm.label());
            asm.call(RA, function);
            asm.jump(over);
            asm.bind(function);
            emit_all(asm, body);
            asm.jump_register(ZERO, RA, 0);
            asm.bind(over);
        }
        Op::IndirectCall(register, ref one, ref other) => {
            let (begin, first, second, over) = (asm.label(), asm.label(), asm.label(), asm.label());
            // Two jumps of four bytes each, selected by the low bit of the register.
            asm.align(4);
            asm.call(T2, begin);
            asm.jump(first);
            asm.jump(second);
            asm.bind(begin);
            asm.and_immediate(SCRATCH, data(register), 1);
            asm.shift_left(SCRATCH, SCRATCH, 2);
            asm.add(T2, T2, SCRATCH);
            asm.jump_register(RA, T2, 0);
            asm.jump(over);
            asm.bind(first);
            emit_all(asm, one);
            asm.jump_register(ZERO, RA, 0);
            asm.bind(second);
            emit_all(asm, other);
            asm.jump_register(ZERO, RA, 0);
            asm.bind(over);
        }
    }
    None
}

fn emit_float(asm: &mut Assembler, index: usize, rounding: u8, registers: [u8; 4]) {
    let (opcode, funct7, rs2, funct3) = float_instructions()[index];
    let [rd, rs1, other, rs3] = registers;
    let integer_destination = matches!(funct7 & !1, 0x50 | 0x60 | 0x70) && opcode == 0x53;
    let integer_source = matches!(funct7 & !1, 0x68 | 0x78) && opcode == 0x53;
    let rd = if integer_destination { data(rd) } else { rd };
    let rs1 = if integer_source { data(rs1) } else { rs1 };
    let funct7 = if opcode == 0x53 {
        funct7
    } else {
        funct7 | u32::from(rs3) << 2
    };
    let funct3 = funct3.unwrap_or(rounding.into());
    asm.emit(r_type(
        (opcode, funct3, funct7),
        rd,
        rs1,
        rs2.unwrap_or(other),
    ));
}

/// The work of a hart, and its number of repetitions.
type Work = (Vec<Op>, u8);

fn uses_reservation(ops: &[Op]) -> bool {
    ops.iter().any(|op| match op {
        Op::Reserve(..) => true,
        Op::Loop(_, body) | Op::Call(body) => uses_reservation(body),
        Op::IndirectCall(_, one, other) => uses_reservation(one) || uses_reservation(other),
        _ => false,
    })
}

fn mixed(value: u64) -> u64 {
    Random(value).next()
}

fn words(count: usize, word: impl Fn(u64) -> u64) -> Vec<u8> {
    (0..count as u64)
        .flat_map(|index| word(index).to_le_bytes())
        .collect()
}

/// Page tables of programs in supervisor mode: a root, a table of a gigabyte, and two of 2 MB.
const TABLES: u64 = 0x8026_0000;
/// The first page of data. Every two neighbouring pages are exchanged.
const FIRST_EXCHANGED: u64 = HOT;

/// The physical address of an address of a program in supervisor mode.
fn exchanged(address: u64) -> u64 {
    address ^ if address >= FIRST_EXCHANGED { 4096 } else { 0 }
}

fn unchanged(address: u64) -> u64 {
    address
}

/// The page tables, and their `satp`: all of memory below them, in Sv39.
fn page_tables() -> (u64, Vec<u8>) {
    const PAGE: u64 =
        Entry::VALID | Entry::READ | Entry::WRITE | Entry::EXECUTE | Entry::ACCESSED | Entry::DIRTY;
    let mut tables = vec![[0; 512]; 4];
    let table = |number: usize| Entry::new(TABLES + 4096 * number as u64, Entry::VALID).0;
    tables[0][(CODE >> 30) as usize] = table(1);
    for last in 0..2 {
        tables[1][last] = table(2 + last);
        let pages = (CODE + ((last as u64) << 21)..TABLES).step_by(4096);
        for (entry, address) in tables[2 + last].iter_mut().zip(pages) {
            *entry = Entry::new(exchanged(address), PAGE).0;
        }
    }
    let words = tables.iter().flatten();
    let bytes = words.flat_map(|entry: &u64| entry.to_le_bytes()).collect();
    (8 << 60 | 1 << 44 | TABLES >> 12, bytes)
}

/// Continues in supervisor mode, with page tables, and with all delegable traps delegated to its
/// handler.
fn enter_supervisor_mode(asm: &mut Assembler) {
    for (csr, value) in [
        (SATP, page_tables().0),
        (MEDELEG, 0xb3ff),
        (MCOUNTEREN, 7),
        (MSTATUS, 1 << 11), // MPP
    ] {
        asm.load_immediate(T0, value);
        asm.csr_write(csr, T0);
    }
    // The address after these four instructions.
    asm.emit(0x0000_0297); // auipc t0, 0
    asm.add_immediate(T0, T0, 16);
    asm.csr_write(MEPC, T0);
    asm.mret();
    asm.for_supervisor = true;
}

/// The program of one hart, which has its own data.
fn emit_work(asm: &mut Assembler, hart: u64, (ops, repeat): &Work) {
    let own = |address: u64| address + HART_BYTES * hart;
    let (begin, handler) = (asm.label(), asm.label());
    asm.call(T0, begin);
    // The handler accumulates the trap's values, and continues after the instruction that trapped.
    asm.bind(handler);
    asm.csr_read(HANDLER, MCAUSE);
    asm.operate(XOR, TRAPS, TRAPS, HANDLER);
    asm.csr_read(HANDLER, MTVAL);
    asm.add(TRAPS, TRAPS, HANDLER);
    asm.csr_read(HANDLER, MEPC);
    asm.operate(XOR, TRAPS, TRAPS, HANDLER);
    asm.add_immediate(HANDLER, HANDLER, 4);
    asm.csr_write(MEPC, HANDLER);
    asm.mret();
    asm.bind(begin);
    asm.csr_write(MTVEC, T0);
    asm.load_immediate(T0, 3 << 13); // floating point is on, and dirty
    asm.csr_write(MSTATUS, T0);
    asm.load_immediate(HOT_BASE, own(HOT));
    asm.load_immediate(TARGET_BASE, own(TARGETS) + 2048);
    asm.load_immediate(COLD_BASE, own(COLD));
    asm.copy(COLD_START, COLD_BASE);
    asm.load_immediate(COLD_MASK, COLD_BYTES as u64 / 2 - 1);
    asm.copy(TRAPS, ZERO);
    for (index, &register) in DATA.iter().enumerate() {
        asm.load_immediate(register, mixed(index as u64) >> (8 * index));
    }
    for register in 0..FLOATS {
        asm.emit(r_type((0x53, 0, 0x79), register, data(register), 0)); // fmv.d.x
    }
    asm.add_immediate(OUTER_COUNTER, ZERO, (*repeat).into());
    let again = asm.label_here();
    emit_all(asm, ops);
    asm.add_immediate(OUTER_COUNTER, OUTER_COUNTER, -1);
    let done = asm.label();
    asm.branch(When::Equal, OUTER_COUNTER, ZERO, done);
    asm.jump(again);
    asm.bind(done);
    // A retry loop may be repeated more often on a real core.
    if uses_reservation(ops) {
        asm.copy(HANDLER, ZERO);
    } else {
        asm.csr_read(HANDLER, INSTRET);
    }
    asm.load_immediate(SCRATCH, own(DUMP));
    for register in 1..32 {
        asm.store_double(register, SCRATCH, 8 * i64::from(register - 1));
    }
    for register in 0..32 {
        asm.float_store(8, register, SCRATCH, 8 * (31 + i64::from(register)));
    }
    asm.csr_read(T0, FCSR);
    asm.store_double(T0, SCRATCH, 8 * 63);
    asm.csr_read(T0, MEPC);
    asm.store_double(T0, SCRATCH, 8 * 64);
    asm.halt();
}

/// A program with work for each hart, in machine mode.
fn image(work: &[Work]) -> Image {
    program_of(work, false)
}

/// The same, optionally in supervisor mode.
fn program_of(work: &[Work], for_supervisor: bool) -> Image {
    let mut asm = Assembler::new();
    asm.harts(work.len(), |asm, hart| {
        if for_supervisor {
            enter_supervisor_mode(asm);
        }
        emit_work(asm, hart as u64, &work[hart]);
        asm.for_supervisor = false;
    });
    let data: Vec<(u64, Vec<u8>)> = (0..work.len() as u64)
        .flat_map(|hart| {
            let own = move |address: u64| address + HART_BYTES * hart;
            let pointer = move |index: u64| {
                let value = mixed(index);
                if index.is_multiple_of(8) {
                    // Six lines, which the direct accesses use as well.
                    own(TARGETS) + value % 6 * 64 + (value >> 16) % 8 * 8
                } else {
                    value
                }
            };
            [
                (own(HOT), words(HOT_BYTES / 8, |index| mixed(index ^ 0x55))),
                (own(TARGETS), words(TARGET_BYTES / 8, |index| mixed(!index))),
                (own(COLD), words(COLD_BYTES / 8, pointer)),
            ]
        })
        .collect();
    if !for_supervisor {
        return asm.finish(&data);
    }
    let pages = data.iter().flat_map(|(address, bytes)| {
        let pages = (*address..).step_by(4096).zip(bytes.chunks(4096));
        pages.map(|(address, page)| (exchanged(address), page.to_vec()))
    });
    let mut data: Vec<(u64, Vec<u8>)> = pages.collect();
    data.push((TABLES, page_tables().1));
    asm.finish(&data)
}

/// The compared addresses of a hart.
fn compared(hart: u64) -> impl Iterator<Item = u64> {
    let words = move |start: u64, bytes: usize| {
        let own = start + HART_BYTES * hart;
        (own..own + bytes as u64).step_by(8)
    };
    words(DUMP, DUMP_WORDS * 8)
        .chain(words(HOT, HOT_BYTES))
        .chain(words(TARGETS, TARGET_BYTES))
}

/// A retired instruction: its address, its privilege mode, and the values written to its
/// destination, to memory and to a CSR. (A log of commits has the same lines.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Retired {
    pc: u64,
    privilege: Privilege,
    instruction: Instruction,
    value: Option<u64>,
    address: Option<u64>,
    stored: Option<u64>,
    csr: Option<(u16, u64)>,
}

/// What `machine`, whose memory is at `place`, has just retired, with what it was before.
fn retired(
    machine: &mut Machine<FlatMemory>,
    instruction: Instruction,
    (pc, privilege, base): (u64, Privilege, u64),
    place: fn(u64) -> u64,
) -> Retired {
    let value = machine.registers[usize::from(instruction.rd)];
    let address = instruction
        .class
        .is_memory()
        .then(|| instruction.address(base));
    let writes = match instruction.class {
        Class::Store | Class::Atomic => true,
        Class::StoreConditional => value == 0,
        _ => false,
    };
    let stored = address.filter(|_| writes).map(|address| {
        // It may be in two pages.
        let bytes = 0..u64::from(instruction.access_bytes());
        bytes.rev().fold(0, |value, byte| {
            let read = machine.memory.read(place(address + byte), 1);
            value << 8 | read.unwrap_or_default()
        })
    });
    let csr =
        (instruction.class == Class::Csr && csr_update(&instruction, 0, 0).is_some()).then(|| {
            let number = instruction.csr_number();
            let value = machine
                .hart
                .csr_value(number, Counters::default(), &|_| None);
            (number, value.unwrap_or_default())
        });
    Retired {
        pc,
        privilege,
        instruction,
        value: (instruction.rd != SINK).then_some(value),
        address,
        stored,
        csr,
    }
}

/// The instructions that one of the harts of a core executes, and its final memory, which is at
/// `place`.
fn interpreted(
    image: &Image,
    place: fn(u64) -> u64,
    (hart, harts): (u64, u64),
    misaligned: MisalignedAccesses,
) -> (Vec<Retired>, Vec<u64>) {
    let mut memory = FlatMemory::new(CODE, MEMORY_BYTES);
    assert!(memory.load(image));
    let mut machine = Machine::new(memory, image.entry);
    machine.traps_misaligned = misaligned == MisalignedAccesses::Trap;
    machine.registers[10] = hart;
    machine.registers[11] = harts;
    machine.registers[12] = 1; // on how many cores
    let mut all = Vec::new();
    loop {
        let (pc, privilege, registers) = (machine.pc, machine.hart.privilege, machine.registers);
        match machine.step() {
            Step::Retired(instruction) => {
                let base = registers[usize::from(instruction.rs1)];
                let before = (pc, privilege, base);
                all.push(retired(&mut machine, instruction, before, place));
            }
            Step::Waiting => break,
            Step::Trapped(_) => {}
        }
        assert!(machine.retired < 1_000_000, "the program does not end");
    }
    let memory = compared(hart)
        .map(|address| machine.memory.read(place(address), 8).unwrap_or_default())
        .collect();
    (all, memory)
}

/// Records the instructions that a core executes, and checks that their times are consistent.
#[derive(Default)]
struct Witness {
    retired: Vec<Retired>,
    undone: u64,
    last_commit: u64,
    wrong: Option<Executed>,
}

impl Probe for Witness {
    fn executed(&mut self, executed: &Executed) {
        let issued = executed.issued.unwrap_or(executed.dispatched);
        let completed = executed.completed.unwrap_or(issued);
        let in_order = executed.dispatched <= issued && issued <= completed;
        if executed.undone {
            self.undone += 1;
            if !in_order {
                self.wrong = Some(*executed);
            }
            return;
        }
        if !in_order || completed > executed.ended || executed.ended < self.last_commit {
            self.wrong = Some(*executed);
        }
        self.last_commit = executed.ended;
        self.retired.push(Retired {
            pc: executed.pc,
            privilege: executed.privilege,
            instruction: executed.instruction,
            value: executed.value,
            address: executed.address,
            stored: executed.stored,
            csr: executed.csr,
        });
    }
}

/// Lets a hart execute one instruction after the other, each of which the hart has to itself, and
/// compares all its registers with the interpreter's behind each.
fn stepped(core: &CoreSpec, image: &Image, breaks: bool) -> Result<(), TestCaseError> {
    let mut machine = servers::machine(&servers::server(1, core), image.clone());
    let mut memory = FlatMemory::new(CODE, MEMORY_BYTES);
    assert!(memory.load(image));
    let mut expected = Machine::new(memory, image.entry);
    expected.traps_misaligned = core.misaligned_accesses == MisalignedAccesses::Trap;
    (expected.registers[11], expected.registers[12]) = (1, 1);
    let engine = &mut machine.engine;
    engine.cores[0].debug(Some(false));
    if breaks {
        // Everything is decoded as a place to stop at.
        let everywhere = Watch {
            address: 0,
            bytes: u64::MAX,
            reads: true,
            writes: true,
        };
        let code = (CODE..HOT).step_by(2);
        engine.cores[0].set_stops(&Stops {
            breakpoints: code.collect(),
            watches: vec![everywhere],
        });
    }
    loop {
        let steps = !breaks || expected.retired.is_multiple_of(2);
        let cycle = engine.cores[0].reached();
        engine.cores[0].go_on(0, steps, cycle);
        engine.update_next(0);
        while engine.cores[0].halt(0) == Halt::Runs {
            engine.set_pause(engine.now().saturating_add(1));
            engine.advance();
        }
        let step = expected.step();
        let Halt::Stopped(cause) = engine.cores[0].halt(0) else {
            // It halts for ever.
            prop_assert!(matches!(step, Step::Retired(i) if i.operation == Operation::Wfi));
            return Ok(());
        };
        let found = engine.cores[0].registers(0);
        if matches!(step, Step::Retired(i) if i.class == Class::StoreConditional)
            && found != expected.registers[..64]
        {
            // It may fail on a core although nobody else writes; then it is tried again.
            return Ok(());
        }
        let pc = engine.cores[0].pc(0);
        prop_assert_eq!(pc, expected.pc, "behind {:?} on {:?}", step, core.model);
        prop_assert_eq!(
            &found[..],
            &expected.registers[..64],
            "behind {:?} at {:#x}",
            step,
            pc
        );
        let accesses = matches!(step, Step::Retired(i) if i.class.is_memory());
        match cause {
            StopCause::Watch { .. } => prop_assert!(breaks && accesses),
            StopCause::Breakpoint => prop_assert!(!steps && !accesses),
            _ => prop_assert!(steps && !(breaks && accesses)),
        }
    }
}

#[test]
fn harts_that_are_stepped_compute_what_the_interpreter_does() {
    let cores = servers::models().map(servers::with_small_caches);
    check(
        300,
        &(program(), 1u8..3, any::<bool>()),
        |(ops, repeat, breaks)| {
            let image = image(&[(ops, repeat)]);
            let mut cores = cores.iter();
            cores.try_for_each(|core| stepped(core, &image, breaks))
        },
    );
}

fn describe(hart: u64, address: u64) -> String {
    match address
        .checked_sub(DUMP + HART_BYTES * hart)
        .map(|offset| offset / 8)
    {
        Some(index @ 0..=30) => riscv::register_name(index as u8 + 1).to_string(),
        Some(index @ 31..=62) => riscv::register_name(index as u8 + 1).to_string(),
        Some(63) => "fcsr".to_string(),
        Some(64) => "mepc".to_string(),
        _ => format!("memory at {address:#x}"),
    }
}

/// A cycle after the end of all programs, for counting up to it.
const MUCH_LATER: u64 = 1 << 40;

fn same(core: &CoreSpec, image: &Image, place: fn(u64) -> u64) -> Result<(), TestCaseError> {
    let harts = u64::from(core.threads);
    let spec = servers::server(core.threads.into(), core);
    let mut machine = servers::machine(&spec, image.clone());
    let witnesses: Vec<Rc<RefCell<Witness>>> = (0..harts).map(|_| Rc::default()).collect();
    for (hart, witness) in witnesses.iter().enumerate() {
        machine.engine.cores[0].set_probe(hart as u8, Box::new(witness.clone()));
    }
    let ending = servers::run(&mut machine);
    prop_assert_eq!(&ending, &servers::Ending::Halted);
    machine.engine.cores[0].remove_probes(u64::MAX);
    // Without a probe, most instructions take another path through the core.
    let mut unseen = servers::machine(&spec, image.clone());
    let ending = servers::run(&mut unseen);
    prop_assert_eq!(&ending, &servers::Ending::Halted);
    let statistics = machine.engine.cores[0].statistics(MUCH_LATER);
    let unseen_statistics = unseen.engine.cores[0].statistics(MUCH_LATER);
    let squashed = statistics.squashed_instructions;
    prop_assert_eq!(unseen_statistics, statistics, "on {:?}", core.model);
    let undone: u64 = witnesses
        .iter()
        .map(|witness| witness.borrow().undone)
        .sum();
    prop_assert_eq!(squashed, undone);
    for (hart, witness) in witnesses.iter().enumerate() {
        let (mut retired, expected) =
            interpreted(image, place, (hart as u64, harts), core.misaligned_accesses);
        // The last instruction halts the hart; on a core it never completes.
        retired.pop();
        let witness = witness.borrow();
        prop_assert!(witness.wrong.is_none(), "{:?}", witness.wrong);
        for (found, expected) in witness.retired.iter().zip(&retired) {
            if found != expected && found.instruction.class == Class::StoreConditional {
                // It may fail on a core although no other hart writes; then it is retried.
                break;
            }
            prop_assert_eq!(found, expected, "hart {} on {:?}", hart, core.model);
        }
        let statistics = machine.engine.cores[0].hart_statistics(hart as u8, MUCH_LATER);
        prop_assert_eq!(statistics.instructions, witness.retired.len() as u64);
        let hart = hart as u64;
        for (address, expected) in compared(hart).zip(expected) {
            for (machine, seen) in [(&unseen, "without"), (&machine, "with")] {
                let found = servers::read(machine, place(address));
                prop_assert!(
                    found == expected,
                    "hart {hart}, {}: {found:#x} on {:?} {seen} a probe, {expected:#x} by the \
                     interpreter",
                    describe(hart, address),
                    core.model
                );
            }
        }
    }
    Ok(())
}

fn compare(cores: &[CoreSpec]) {
    check(1_000, &(program(), 1u8..4), |work| {
        let image = image(&[work]);
        cores
            .iter()
            .try_for_each(|core| same(core, &image, unchanged))
    });
}

#[test]
fn threaded_code_computes_what_the_interpreter_does() {
    let misaligned = prop::sample::select(vec![
        MisalignedAccesses::Supported,
        MisalignedAccesses::Trap,
    ]);
    check(
        1_200,
        &((program(), 1u8..4), misaligned),
        |(work, misaligned)| {
            let image = image(&[work]);
            let (retired, expected) = interpreted(&image, unchanged, (0, 1), misaligned);
            let range = CODE..CODE + MEMORY_BYTES as u64;
            let mut memory = PagedMemory::new(vec![range]);
            for segment in &image.segments {
                memory.copy_in(segment.address, &segment.bytes);
            }
            let mut machine = Machine::new(memory, image.entry);
            machine.traps_misaligned = misaligned == MisalignedAccesses::Trap;
            machine.registers[11] = 1;
            let mut threaded = Threaded::default();
            while !machine.waiting {
                threaded.run(&mut machine, 1_000);
                threaded.step(&mut machine);
                prop_assert!(machine.retired < 1_000_000, "the program does not end");
            }
            prop_assert_eq!(machine.retired, retired.len() as u64);
            for (address, expected) in compared(0).zip(expected) {
                let found = machine.memory.read(address, 8).unwrap_or_default();
                prop_assert_eq!(found, expected, "{}", describe(0, address));
            }
            Ok(())
        },
    );
}

#[test]
fn out_of_order_computes_what_the_interpreter_does() {
    let core = CoreSpec::hyperplane_table1();
    let small = servers::with_small_caches(core.clone());
    let ordered = servers::with_total_store_order(small.clone());
    let translated = servers::with_small_tlbs(1, ordered.clone());
    let second = servers::without_misaligned_accesses(servers::with_second_level(small));
    compare(&[core, ordered, second, translated]);
}

/// In supervisor mode, with exchanged pages: on cores with the default TLBs, with TLBs of a page or
/// two, and with two harts.
#[test]
fn programs_with_page_tables_compute_what_the_interpreter_does() {
    let cores = servers::models().map(|core| {
        let small = servers::with_small_caches(core.clone());
        let ordered = servers::with_total_store_order(small.clone());
        let second = servers::without_misaligned_accesses(servers::with_second_level(small));
        let mut cores = vec![core, servers::with_small_tlbs(1, ordered)];
        cores.push(servers::with_small_tlbs(2, servers::tight(second)));
        cores
    });
    check(250, &(program(), 1u8..4), |work| {
        let image = program_of(&[work], true);
        let mut cores = cores.iter().flatten();
        cores.try_for_each(|core| same(core, &image, exchanged))
    });
    let core = servers::with_threads(2, CoreSpec::hyperplane_table1());
    let small = servers::with_small_tlbs(2, servers::with_small_caches(core.clone()));
    let work = prop::collection::vec((program(), 1u8..4), 2);
    check(60, &work, |work| {
        let image = program_of(&work, true);
        [&core, &small]
            .into_iter()
            .try_for_each(|core| same(core, &image, exchanged))
    });
}

/// All hardware threads of a core, which share everything but their registers: each computes the
/// same as alone, whatever the modes of the others, with room for many instructions or for few.
fn harts_of_a_core_compute_what_the_interpreter_does(threads: u8, cases: u32) {
    let core = servers::with_threads(threads, CoreSpec::hyperplane_table1());
    let small = servers::with_small_caches(core.clone());
    let cores = [
        core.clone(),
        servers::with_second_level(small.clone()),
        servers::with_total_store_order(servers::tight(small.clone())),
        servers::with_small_tlbs(2, small),
    ];
    let work = prop::collection::vec((program(), 1u8..4), usize::from(threads));
    check(cases, &work, |work| {
        let image = image(&work);
        cores
            .iter()
            .try_for_each(|core| same(core, &image, unchanged))
    });
}

#[test]
fn two_harts_of_a_core_compute_what_the_interpreter_does() {
    harts_of_a_core_compute_what_the_interpreter_does(2, 280);
}

#[test]
fn four_harts_of_a_core_compute_what_the_interpreter_does() {
    harts_of_a_core_compute_what_the_interpreter_does(4, 80);
}

#[test]
fn eight_harts_of_a_core_compute_what_the_interpreter_does() {
    harts_of_a_core_compute_what_the_interpreter_does(8, 40);
}

#[test]
fn in_order_computes_what_the_interpreter_does() {
    let core = CoreSpec::five_stage();
    let small = servers::with_small_caches(core.clone());
    let ordered = servers::with_total_store_order(small.clone());
    let translated = servers::with_small_tlbs(1, ordered.clone());
    let second = servers::without_misaligned_accesses(servers::with_second_level(small));
    compare(&[core, ordered, second, translated]);
}

/// A core like Rocket takes a misaligned-access trap before it checks for memory (Privileged
/// Architecture, "Machine Cause Register": causes 4 and 6; `mtval` has the address of the access).
/// Aligned accesses are executed.
#[test]
fn accesses_that_are_not_aligned_trap_where_the_description_says_so() {
    const LOAD: u64 = 4;
    const STORE: u64 = 6;
    type Access = fn(&mut Assembler);
    // Each with t0 in the middle of a line of memory; the cause, and the address of the access.
    let cases: [(Access, u64, u64); 8] = [
        (|asm| asm.load(2, false, A0, T0, 1), LOAD, DUMP + 33),
        (|asm| asm.load(4, true, A0, T0, 2), LOAD, DUMP + 34),
        (|asm| asm.load(8, true, A0, T0, 4), LOAD, DUMP + 36),
        (|asm| asm.float_load(8, 1, T0, 28), LOAD, DUMP + 60), // In two lines.
        (|asm| asm.store(2, A0, T0, 3), STORE, DUMP + 35),
        (|asm| asm.store(8, A0, T0, 1), STORE, DUMP + 33),
        // At an unmapped address.
        (
            |asm| {
                asm.load_immediate(T0, 0x10);
                asm.load(4, true, A0, T0, 1);
            },
            LOAD,
            0x11,
        ),
        // Bytes are always aligned, and so is a word at a multiple of four.
        (
            |asm| {
                asm.load(1, true, A0, T0, 3);
                asm.load(4, true, A0, T0, 4);
                asm.store(1, A0, T0, 5);
            },
            0,
            0,
        ),
    ];
    for (number, (access, cause, value)) in cases.into_iter().enumerate() {
        let mut asm = Assembler::new();
        let (handler, begin) = (asm.label(), asm.label());
        asm.jump(begin);
        asm.align(64);
        asm.bind(handler);
        let handler_address = asm.here();
        asm.load_immediate(T1, DUMP);
        for (place, csr) in [MCAUSE, MTVAL].into_iter().enumerate() {
            asm.csr_read(T2, csr);
            asm.store_double(T2, T1, 8 * place as i64);
        }
        asm.halt();
        asm.bind(begin);
        asm.load_immediate(T0, handler_address);
        asm.csr_write(MTVEC, T0);
        asm.load_immediate(T0, FLOAT_ON);
        asm.csr_write(MSTATUS, T0);
        asm.load_immediate(T0, DUMP + 32);
        access(&mut asm);
        asm.halt();
        let image = asm.finish(&[(DUMP, vec![0; 128])]);

        let mut memory = FlatMemory::new(CODE, 16 << 20);
        assert!(memory.load(&image));
        let mut machine = Machine::new(memory, image.entry);
        machine.traps_misaligned = true;
        while machine.step() != Step::Waiting {
            assert!(machine.retired < 1000, "the program does not end");
        }
        let found = [0, 8].map(|at| machine.memory.read(DUMP + at, 8).unwrap_or_default());
        assert_eq!(found, [cause, value], "case {number}");
        for core in servers::models().map(servers::without_misaligned_accesses) {
            let machine = servers::halted(&servers::server(1, &core), image.clone());
            let found = [0, 8].map(|at| servers::read(&machine, DUMP + at));
            assert_eq!(found, [cause, value], "case {number} on {:?}", core.model);
        }
    }
}

/// `mcause`, `mtval` and `mepc` of accesses that begin in memory and end outside: the first missing
/// byte (Privileged Architecture, "Machine Trap Value (mtval) Register": "the virtual address of
/// the portion of the access that caused the fault").
#[test]
fn accesses_that_run_out_of_memory_name_the_first_missing_byte() {
    // The server's 16 MiB, which are also the interpreter's whole memory.
    const END: u64 = CODE + (16 << 20);
    const LOAD: u64 = 5;
    const STORE: u64 = 7;
    const FETCH: u64 = 1;
    type Access = fn(&mut Assembler);
    // Each with t0 at the end of memory; cause and value.
    let cases: [(Access, u64, u64); 9] = [
        (|asm| asm.load(2, false, A0, T0, -1), LOAD, END),
        (|asm| asm.load(8, true, A0, T0, -7), LOAD, END),
        (|asm| asm.load(4, true, A0, T0, 0), LOAD, END),
        (|asm| asm.load(4, true, A0, T0, 5), LOAD, END + 5),
        (|asm| asm.store(8, A0, T0, -1), STORE, END),
        (|asm| asm.store(4, A0, T0, -2), STORE, END),
        (|asm| asm.float_load(8, 1, T0, -4), LOAD, END),
        // Before the beginning of memory: the first byte is missing.
        (
            |asm| {
                asm.load_immediate(T0, CODE);
                asm.load(8, true, A0, T0, -3);
            },
            LOAD,
            CODE - 3,
        ),
        // An instruction of four bytes, two of which are in memory.
        (|asm| asm.jump_register(ZERO, T0, -2), FETCH, END),
    ];
    for (number, (access, cause, value)) in cases.into_iter().enumerate() {
        let mut asm = Assembler::new();
        let (handler, begin) = (asm.label(), asm.label());
        asm.jump(begin);
        asm.align(64);
        asm.bind(handler);
        let handler_address = asm.here();
        asm.load_immediate(T1, DUMP);
        for (place, csr) in [MCAUSE, MTVAL, MEPC].into_iter().enumerate() {
            asm.csr_read(T2, csr);
            asm.store_double(T2, T1, 8 * place as i64);
        }
        asm.halt();
        asm.bind(begin);
        asm.load_immediate(T0, handler_address);
        asm.csr_write(MTVEC, T0);
        asm.load_immediate(T0, FLOAT_ON);
        asm.csr_write(MSTATUS, T0);
        asm.load_immediate(T0, END);
        asm.load_immediate(A0, 0x13); // addi, the first half of it
        asm.store(2, A0, T0, -2);
        asm.fence_instructions();
        access(&mut asm);
        let image = asm.finish(&[(DUMP, vec![0; 24])]);

        let mut memory = FlatMemory::new(CODE, 16 << 20);
        assert!(memory.load(&image));
        let mut machine = Machine::new(memory, image.entry);
        while machine.step() != Step::Waiting {
            assert!(machine.retired < 1000, "the program does not end");
        }
        let read = |word: u64| machine.memory.clone().read(DUMP + 8 * word, 8);
        let interpreted = [0u64, 1, 2].map(|word| read(word).unwrap_or_default());
        assert_eq!(interpreted[..2], [cause, value], "case {number}");
        if cause == FETCH {
            assert_eq!(interpreted[2], END - 2);
        }
        for core in servers::models() {
            let machine = servers::halted(&servers::server(1, &core), image.clone());
            let found = [0, 1, 2].map(|word| servers::read(&machine, DUMP + 8 * word));
            assert_eq!(found, interpreted, "case {number} on {:?}", core.model);
        }
    }
}
