//! A small assembler for RV64 (*The RISC-V Instruction Set Manual*, Volume I, version 20240411,
//! chapter "RV32/64G Instruction Set Listings"), and the ELF file around its output.

use riscv::elf::{Headers, Image, Segment, Symbol};

/// The start of code: the start of main memory.
pub const CODE: u64 = 0x8000_0000;

pub type Register = u8;

pub const ZERO: Register = 0;
pub const RA: Register = 1;
pub const SP: Register = 2;
pub const GP: Register = 3;
pub const TP: Register = 4;
pub const T0: Register = 5;
pub const T1: Register = 6;
pub const T2: Register = 7;
pub const S0: Register = 8;
pub const S1: Register = 9;
pub const A0: Register = 10;
pub const A1: Register = 11;
pub const A2: Register = 12;
pub const A3: Register = 13;
pub const A4: Register = 14;
pub const A5: Register = 15;
pub const A6: Register = 16;
pub const A7: Register = 17;
pub const S2: Register = 18;
pub const S3: Register = 19;
pub const S4: Register = 20;
pub const S5: Register = 21;
pub const S6: Register = 22;
pub const S7: Register = 23;
pub const S8: Register = 24;
pub const S9: Register = 25;
pub const S10: Register = 26;
pub const S11: Register = 27;
pub const T3: Register = 28;
pub const T4: Register = 29;
pub const T5: Register = 30;
pub const T6: Register = 31;

pub const FFLAGS: u32 = 0x001;
pub const FRM: u32 = 0x002;
pub const FCSR: u32 = 0x003;
pub const SATP: u32 = 0x180;
pub const MSTATUS: u32 = 0x300;
pub const MEDELEG: u32 = 0x302;
pub const MIE: u32 = 0x304;
pub const MTVEC: u32 = 0x305;
pub const MCOUNTEREN: u32 = 0x306;
pub const MSCRATCH: u32 = 0x340;
pub const MEPC: u32 = 0x341;
pub const MCAUSE: u32 = 0x342;
pub const MTVAL: u32 = 0x343;
pub const MHARTID: u32 = 0xf14;
pub const PMPCFG0: u32 = 0x3a0;
pub const PMPADDR0: u32 = 0x3b0;
pub const CYCLE: u32 = 0xc00;
pub const INSTRET: u32 = 0xc02;

/// `mstatus.FS` = Initial: floating point is enabled.
pub const FLOAT_ON: u64 = 1 << 13;

/// Sets of accesses of a `fence`.
pub const R: u32 = 2;
pub const W: u32 = 1;
pub const RW: u32 = 3;
pub const O: u32 = 4;

/// Conditions of branches, as in `funct3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum When {
    Equal = 0,
    NotEqual = 1,
    Less = 4,
    GreaterEqual = 5,
    LessUnsigned = 6,
    GreaterEqualUnsigned = 7,
}

/// Register-register operations: opcode, `funct3`, `funct7`.
pub type Operation = (u32, u32, u32);

pub const ADD: Operation = (0x33, 0, 0x00);
pub const SUB: Operation = (0x33, 0, 0x20);
pub const XOR: Operation = (0x33, 4, 0x00);
pub const OR: Operation = (0x33, 6, 0x00);
pub const AND: Operation = (0x33, 7, 0x00);
pub const SLTU: Operation = (0x33, 3, 0x00);
pub const MUL: Operation = (0x33, 0, 0x01);
pub const MULHU: Operation = (0x33, 3, 0x01);
pub const MULW: Operation = (0x3b, 0, 0x01);
pub const DIV: Operation = (0x33, 4, 0x01);
pub const DIVU: Operation = (0x33, 5, 0x01);
pub const REMU: Operation = (0x33, 7, 0x01);
pub const FADD_D: Operation = (0x53, 7, 0x01);
pub const FMUL_D: Operation = (0x53, 7, 0x09);
pub const FDIV_D: Operation = (0x53, 7, 0x0d);

/// All integer register-register operations of "I" and "M".
pub const INTEGER_OPERATIONS: [Operation; 28] = [
    (0x33, 0, 0x00),
    (0x33, 0, 0x20),
    (0x33, 1, 0x00),
    (0x33, 2, 0x00),
    (0x33, 3, 0x00),
    (0x33, 4, 0x00),
    (0x33, 5, 0x00),
    (0x33, 5, 0x20),
    (0x33, 6, 0x00),
    (0x33, 7, 0x00),
    (0x33, 0, 0x01),
    (0x33, 1, 0x01),
    (0x33, 2, 0x01),
    (0x33, 3, 0x01),
    (0x33, 4, 0x01),
    (0x33, 5, 0x01),
    (0x33, 6, 0x01),
    (0x33, 7, 0x01),
    (0x3b, 0, 0x00),
    (0x3b, 0, 0x20),
    (0x3b, 1, 0x00),
    (0x3b, 5, 0x00),
    (0x3b, 5, 0x20),
    (0x3b, 0, 0x01),
    (0x3b, 4, 0x01),
    (0x3b, 5, 0x01),
    (0x3b, 6, 0x01),
    (0x3b, 7, 0x01),
];

/// The register-register operations of "Zba", "Zbb" and "Zbs".
pub const BIT_OPERATIONS: [Operation; 25] = [
    (0x33, 2, 0x10), // sh1add, sh2add, sh3add
    (0x33, 4, 0x10),
    (0x33, 6, 0x10),
    (0x3b, 0, 0x04), // add.uw, sh1add.uw, sh2add.uw, sh3add.uw
    (0x3b, 2, 0x10),
    (0x3b, 4, 0x10),
    (0x3b, 6, 0x10),
    (0x33, 7, 0x20), // andn, orn, xnor
    (0x33, 6, 0x20),
    (0x33, 4, 0x20),
    (0x33, 4, 0x05), // min, minu, max, maxu
    (0x33, 5, 0x05),
    (0x33, 6, 0x05),
    (0x33, 7, 0x05),
    (0x33, 1, 0x30), // rol, ror, rolw, rorw
    (0x33, 5, 0x30),
    (0x3b, 1, 0x30),
    (0x3b, 5, 0x30),
    (0x33, 1, 0x24), // bclr, bext, binv, bset
    (0x33, 5, 0x24),
    (0x33, 1, 0x34),
    (0x33, 1, 0x14),
    (0x33, 1, 0x00), // sll, srl, sra: beside the rotations
    (0x33, 5, 0x00),
    (0x33, 5, 0x20),
];

/// Operations with one operand, and an immediate that is part of the encoding: opcode, `funct3`,
/// immediate, and a mask of its bits that are a shift amount.
pub const BIT_IMMEDIATES: [(u32, u32, u32, u32); 22] = [
    (0x13, 1, 0x600, 0), // clz, ctz, cpop, sext.b, sext.h
    (0x13, 1, 0x601, 0),
    (0x13, 1, 0x602, 0),
    (0x13, 1, 0x604, 0),
    (0x13, 1, 0x605, 0),
    (0x1b, 1, 0x600, 0), // clzw, ctzw, cpopw
    (0x1b, 1, 0x601, 0),
    (0x1b, 1, 0x602, 0),
    (0x13, 5, 0x287, 0), // orc.b, rev8
    (0x13, 5, 0x6b8, 0),
    (0x13, 5, 0x600, 63), // rori, roriw
    (0x1b, 5, 0x600, 31),
    (0x13, 1, 0x480, 63), // bclri, bexti, binvi, bseti
    (0x13, 5, 0x480, 63),
    (0x13, 1, 0x680, 63),
    (0x13, 1, 0x280, 63),
    (0x1b, 1, 0x080, 63), // slli.uw
    (0x13, 1, 0x000, 63), // slli, srai, slliw, srliw, sraiw
    (0x13, 5, 0x400, 63),
    (0x1b, 1, 0x000, 31),
    (0x1b, 5, 0x000, 31),
    (0x1b, 5, 0x400, 31),
];

/// `funct5` of all AMOs: swap, add, xor, and, or, min, max, minu, maxu.
pub const AMO_OPERATIONS: [u32; 9] = [0x01, 0x00, 0x04, 0x0c, 0x08, 0x10, 0x14, 0x18, 0x1c];
pub const AMO_SWAP: u32 = 0x01;
pub const AMO_ADD: u32 = 0x00;

/// The `aq` and `rl` bits of atomics.
/// Kinds of prefetches.
pub const PREFETCH_I: u32 = 0;
pub const PREFETCH_R: u32 = 1;
pub const PREFETCH_W: u32 = 3;

pub const RELAXED: u32 = 0;
pub const RELEASE: u32 = 1;
pub const ACQUIRE: u32 = 2;

fn field(value: impl Into<u32>, at: u32) -> u32 {
    value.into() << at
}

fn low_bits(value: i64, bits: u32) -> u32 {
    assert!(
        value >= -(1 << (bits - 1)) && value < 1 << (bits - 1),
        "{value} does not fit into {bits} bits"
    );
    (value as u32) & (u32::MAX >> (32 - bits))
}

pub fn r_type(operation: Operation, rd: Register, rs1: Register, rs2: Register) -> u32 {
    let (opcode, funct3, funct7) = operation;
    opcode | field(rd, 7) | field(funct3, 12) | field(rs1, 15) | field(rs2, 20) | field(funct7, 25)
}

pub fn i_type(opcode: u32, funct3: u32, rd: Register, rs1: Register, immediate: i64) -> u32 {
    opcode | field(rd, 7) | field(funct3, 12) | field(rs1, 15) | low_bits(immediate, 12) << 20
}

pub fn s_type(opcode: u32, funct3: u32, rs1: Register, rs2: Register, immediate: i64) -> u32 {
    let immediate = low_bits(immediate, 12);
    opcode
        | (immediate & 0x1f) << 7
        | field(funct3, 12)
        | field(rs1, 15)
        | field(rs2, 20)
        | (immediate >> 5) << 25
}

fn b_type(when: When, rs1: Register, rs2: Register, offset: i64) -> u32 {
    let offset = low_bits(offset, 13);
    0x63 | (offset >> 11 & 1) << 7
        | (offset >> 1 & 0xf) << 8
        | field(when as u32, 12)
        | field(rs1, 15)
        | field(rs2, 20)
        | (offset >> 5 & 0x3f) << 25
        | (offset >> 12) << 31
}

fn j_type(rd: Register, offset: i64) -> u32 {
    let offset = low_bits(offset, 21);
    0x6f | field(rd, 7)
        | (offset & 0xf_f000)
        | (offset >> 11 & 1) << 20
        | (offset >> 1 & 0x3ff) << 21
        | (offset >> 20) << 31
}

/// A position in the code, which may still be ahead.
#[derive(Clone, Copy, Debug)]
pub struct Label(usize);

#[derive(Clone, Copy)]
enum Fix {
    Branch(When, Register, Register),
    Jump(Register),
}

/// Code under construction.
#[derive(Default)]
pub struct Assembler {
    /// Whether the names of machine mode's trap CSRs mean those of supervisor mode.
    pub for_supervisor: bool,
    bytes: Vec<u8>,
    labels: Vec<Option<usize>>,
    fixes: Vec<(usize, Label, Fix)>,
    symbols: Vec<(String, u64)>,
}

impl Assembler {
    pub fn new() -> Assembler {
        Assembler::default()
    }

    /// The address of the next instruction.
    pub fn here(&self) -> u64 {
        CODE + self.bytes.len() as u64
    }

    pub fn emit(&mut self, bits: u32) {
        self.bytes.extend(bits.to_le_bytes());
    }

    /// A compressed instruction.
    pub fn emit_half(&mut self, bits: u16) {
        self.bytes.extend(bits.to_le_bytes());
    }

    /// Pads with `c.nop` or `nop` to a multiple of `bytes`.
    pub fn align(&mut self, bytes: usize) {
        if self.bytes.len() % 4 == 2 {
            self.emit_half(1);
        }
        while !self.bytes.len().is_multiple_of(bytes) {
            self.nop();
        }
    }

    /// Names the next instruction in the ELF file.
    pub fn name(&mut self, name: &str) {
        self.symbols.push((name.to_string(), self.here()));
    }

    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    pub fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.bytes.len());
    }

    /// A label for the next instruction.
    pub fn label_here(&mut self) -> Label {
        let label = self.label();
        self.bind(label);
        label
    }

    pub fn branch(&mut self, when: When, rs1: Register, rs2: Register, to: Label) {
        self.fixes
            .push((self.bytes.len(), to, Fix::Branch(when, rs1, rs2)));
        self.emit(0);
    }

    pub fn jump(&mut self, to: Label) {
        self.call(ZERO, to);
    }

    /// `jal`.
    pub fn call(&mut self, rd: Register, to: Label) {
        self.fixes.push((self.bytes.len(), to, Fix::Jump(rd)));
        self.emit(0);
    }

    pub fn jump_register(&mut self, rd: Register, rs1: Register, offset: i64) {
        self.emit(i_type(0x67, 0, rd, rs1, offset));
    }

    pub fn operate(&mut self, operation: Operation, rd: Register, rs1: Register, rs2: Register) {
        self.emit(r_type(operation, rd, rs1, rs2));
    }

    pub fn add(&mut self, rd: Register, rs1: Register, rs2: Register) {
        self.operate(ADD, rd, rs1, rs2);
    }

    pub fn add_immediate(&mut self, rd: Register, rs1: Register, immediate: i64) {
        self.emit(i_type(0x13, 0, rd, rs1, immediate));
    }

    pub fn and_immediate(&mut self, rd: Register, rs1: Register, immediate: i64) {
        self.emit(i_type(0x13, 7, rd, rs1, immediate));
    }

    pub fn shift_left(&mut self, rd: Register, rs1: Register, by: i64) {
        self.emit(i_type(0x13, 1, rd, rs1, by));
    }

    pub fn shift_right(&mut self, rd: Register, rs1: Register, by: i64) {
        self.emit(i_type(0x13, 5, rd, rs1, by));
    }

    pub fn copy(&mut self, rd: Register, rs1: Register) {
        self.add_immediate(rd, rs1, 0);
    }

    pub fn nop(&mut self) {
        self.add_immediate(ZERO, ZERO, 0);
    }

    /// Loads any constant, in as many instructions as necessary.
    pub fn load_immediate(&mut self, rd: Register, value: u64) {
        let value = value as i64;
        let low = value << 52 >> 52;
        if value == low {
            self.add_immediate(rd, ZERO, value);
        } else if i64::from(value as i32) == value {
            let high = (value.wrapping_sub(low) as u32) & 0xffff_f000;
            self.emit(0x37 | field(rd, 7) | high);
            self.emit(i_type(0x1b, 0, rd, rd, low));
        } else {
            self.load_immediate(rd, (value.wrapping_sub(low) >> 12) as u64);
            self.shift_left(rd, rd, 12);
            self.add_immediate(rd, rd, low);
        }
    }

    /// A load of 1, 2, 4 or 8 bytes.
    pub fn load(&mut self, bytes: u8, signed: bool, rd: Register, base: Register, offset: i64) {
        let width = bytes.trailing_zeros() | if signed || bytes == 8 { 0 } else { 4 };
        self.emit(i_type(0x03, width, rd, base, offset));
    }

    /// A store of 1, 2, 4 or 8 bytes.
    pub fn store(&mut self, bytes: u8, source: Register, base: Register, offset: i64) {
        self.emit(s_type(0x23, bytes.trailing_zeros(), base, source, offset));
    }

    /// "Zicbop" Extension for Cache-Block Prefetch; `offset` is a multiple of 32.
    pub fn prefetch(&mut self, kind: u32, base: Register, offset: i64) {
        self.emit(s_type(0x13, 6, base, kind as Register, offset));
    }

    pub fn load_double(&mut self, rd: Register, base: Register, offset: i64) {
        self.load(8, true, rd, base, offset);
    }

    pub fn store_double(&mut self, source: Register, base: Register, offset: i64) {
        self.store(8, source, base, offset);
    }

    /// `flw` or `fld`.
    pub fn float_load(&mut self, bytes: u8, rd: Register, base: Register, offset: i64) {
        self.emit(i_type(0x07, bytes.trailing_zeros(), rd, base, offset));
    }

    /// `fsw` or `fsd`.
    pub fn float_store(&mut self, bytes: u8, source: Register, base: Register, offset: i64) {
        self.emit(s_type(0x27, bytes.trailing_zeros(), base, source, offset));
    }

    fn atomic(
        &mut self,
        funct5: u32,
        order: u32,
        bytes: u8,
        rd: Register,
        source: Register,
        address: Register,
    ) {
        self.emit(r_type(
            (0x2f, bytes.trailing_zeros(), funct5 << 2 | order),
            rd,
            address,
            source,
        ));
    }

    pub fn amo(
        &mut self,
        funct5: u32,
        order: u32,
        bytes: u8,
        rd: Register,
        source: Register,
        address: Register,
    ) {
        self.atomic(funct5, order, bytes, rd, source, address);
    }

    pub fn load_reserved(&mut self, order: u32, bytes: u8, rd: Register, address: Register) {
        self.atomic(0x02, order, bytes, rd, ZERO, address);
    }

    pub fn store_conditional(
        &mut self,
        order: u32,
        bytes: u8,
        rd: Register,
        source: Register,
        address: Register,
    ) {
        self.atomic(0x03, order, bytes, rd, source, address);
    }

    /// `fence before, after`.
    pub fn fence(&mut self, before: u32, after: u32) {
        self.emit(0x0f | (before << 4 | after) << 20);
    }

    pub fn fence_instructions(&mut self) {
        self.emit(0x100f);
    }

    fn csr(&mut self, funct3: u32, rd: Register, number: u32, source: Register) {
        let number = match number {
            0x300..0x345 if self.for_supervisor => number - 0x200,
            _ => number,
        };
        self.emit(0x73 | field(rd, 7) | field(funct3, 12) | field(source, 15) | number << 20);
    }

    pub fn csr_write(&mut self, number: u32, source: Register) {
        self.csr(1, ZERO, number, source);
    }

    pub fn csr_set(&mut self, number: u32, source: Register) {
        self.csr(2, ZERO, number, source);
    }

    pub fn csr_clear(&mut self, number: u32, source: Register) {
        self.csr(3, ZERO, number, source);
    }

    pub fn csr_read(&mut self, rd: Register, number: u32) {
        self.csr(2, rd, number, ZERO);
    }

    pub fn wait_for_interrupt(&mut self) {
        self.emit(0x1050_0073);
    }

    pub fn ecall(&mut self) {
        self.emit(0x0000_0073);
    }

    pub fn ebreak(&mut self) {
        self.emit(0x0010_0073);
    }

    /// `sfence.vma`; [`ZERO`] stands for all addresses or address spaces.
    pub fn flush_translations(&mut self, address: Register, asid: Register) {
        self.emit(r_type((0x73, 0, 0x09), ZERO, address, asid));
    }

    pub fn mret(&mut self) {
        self.emit(if self.for_supervisor {
            0x1020_0073 // sret
        } else {
            0x3020_0073
        });
    }

    /// Halts for good: no interrupt that would end the wait is ever enabled.
    pub fn halt(&mut self) {
        let again = self.label_here();
        self.wait_for_interrupt();
        self.jump(again);
    }

    /// Branches each hart to its own code; `a0` holds the hart's number.
    pub fn harts(&mut self, count: usize, mut code: impl FnMut(&mut Assembler, usize)) {
        self.harts_of(count, &mut code);
    }

    /// The same, compiled once, not for each caller.
    fn harts_of(&mut self, count: usize, code: &mut dyn FnMut(&mut Assembler, usize)) {
        let labels: Vec<Label> = (0..count).map(|_| self.label()).collect();
        for (hart, &label) in labels.iter().enumerate() {
            let other = self.label();
            self.load_immediate(T0, hart as u64);
            self.branch(When::NotEqual, A0, T0, other);
            self.jump(label);
            self.bind(other);
        }
        self.halt();
        for (hart, &label) in labels.iter().enumerate() {
            self.align(64);
            self.bind(label);
            code(self, hart);
        }
    }

    /// Puts the code and `data` into an image. All labels must have been bound.
    pub fn finish(mut self, data: &[(u64, Vec<u8>)]) -> Image {
        for &(at, label, fix) in &self.fixes {
            let target = self.labels[label.0].expect("a label was not bound");
            let offset = target as i64 - at as i64;
            let bits = match fix {
                Fix::Branch(when, rs1, rs2) => b_type(when, rs1, rs2, offset),
                Fix::Jump(rd) => j_type(rd, offset),
            };
            self.bytes[at..at + 4].copy_from_slice(&bits.to_le_bytes());
        }
        let segment = |address, bytes: Vec<u8>, executable| Segment {
            address,
            virtual_address: address,
            memory_bytes: bytes.len() as u64,
            bytes,
            executable,
            writable: true,
        };
        let mut segments = vec![segment(CODE, self.bytes, true)];
        segments.extend(
            data.iter()
                .map(|(address, bytes)| segment(*address, bytes.clone(), false)),
        );
        let symbols = self
            .symbols
            .into_iter()
            .map(|(name, address)| Symbol {
                name,
                address,
                size: 0,
                code: true,
            })
            .collect();
        Image {
            entry: CODE,
            segments,
            symbols,
            tohost: None,
            fromhost: None,
            headers: Headers::default(),
        }
    }
}

/// An image with a host-target interface at `tohost`; `fromhost` follows it.
pub fn with_host(mut image: Image, tohost: u64) -> Image {
    image.tohost = Some(tohost);
    image.fromhost = Some(tohost + 8);
    image
}

/// The file of an executable (*System V ABI*, chapter "Object Files").
pub fn elf(image: &Image) -> Vec<u8> {
    const HEADER: usize = 64;
    const PROGRAM_HEADER: usize = 56;
    const SECTION_HEADER: usize = 64;
    const SYMBOL: usize = 24;
    let mut symbols: Vec<(String, u64, bool)> = image
        .symbols
        .iter()
        .map(|symbol| (symbol.name.clone(), symbol.address, symbol.code))
        .collect();
    symbols.extend(image.tohost.map(|at| ("tohost".to_string(), at, false)));
    symbols.extend(image.fromhost.map(|at| ("fromhost".to_string(), at, false)));
    let mut names = vec![0];
    let mut table = vec![0; SYMBOL];
    for (name, address, code) in &symbols {
        table.extend((names.len() as u32).to_le_bytes());
        // Global; function or object; in section 1 or absolute.
        table.push(0x10 | if *code { 2 } else { 1 });
        table.push(0);
        table.extend(if *code { 1u16 } else { 0xfff1 }.to_le_bytes());
        table.extend(address.to_le_bytes());
        table.extend(0u64.to_le_bytes());
        names.extend(name.as_bytes());
        names.push(0);
    }
    let contents: usize = image.segments.iter().map(|one| one.bytes.len()).sum();
    let first = HEADER + PROGRAM_HEADER * image.segments.len();
    let table_at = first + contents;
    let names_at = table_at + table.len();
    let sections_at = names_at + names.len();

    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    file.resize(16, 0);
    file.extend(2u16.to_le_bytes()); // executable
    file.extend(243u16.to_le_bytes()); // RISC-V
    file.extend(1u32.to_le_bytes());
    file.extend(image.entry.to_le_bytes());
    file.extend((HEADER as u64).to_le_bytes());
    file.extend((sections_at as u64).to_le_bytes());
    file.extend(5u32.to_le_bytes()); // RVC, double-float ABI
    for half in [
        HEADER,
        PROGRAM_HEADER,
        image.segments.len(),
        SECTION_HEADER,
        4,
        3,
    ] {
        file.extend((half as u16).to_le_bytes());
    }
    let mut offset = first;
    for segment in &image.segments {
        file.extend(1u32.to_le_bytes()); // to be loaded
        file.extend(if segment.executable { 7u32 } else { 6 }.to_le_bytes());
        for word in [
            offset as u64,
            segment.address,
            segment.address,
            segment.bytes.len() as u64,
            segment.memory_bytes,
            64,
        ] {
            file.extend(word.to_le_bytes());
        }
        offset += segment.bytes.len();
    }
    for segment in &image.segments {
        file.extend(&segment.bytes);
    }
    file.extend(&table);
    file.extend(&names);
    // Nothing, code, symbols, names: kind, flags, offset, size, link, size of an entry.
    let code = image.segments.first().map_or(0, |one| one.bytes.len());
    for (kind, flags, offset, size, link, entry) in [
        (0u32, 0u64, 0, 0, 0u32, 0u64),
        (1, 6, first, code, 0, 0),
        (2, 0, table_at, table.len(), 3, SYMBOL as u64),
        (3, 0, names_at, names.len(), 0, 0),
    ] {
        file.extend(0u32.to_le_bytes());
        file.extend(kind.to_le_bytes());
        for word in [flags, 0, offset as u64, size as u64] {
            file.extend(word.to_le_bytes());
        }
        file.extend(link.to_le_bytes());
        file.extend(0u32.to_le_bytes());
        file.extend(1u64.to_le_bytes());
        file.extend(entry.to_le_bytes());
    }
    file
}

/// "Zawrs" Extension for Wait-on-Reservation-Set instructions.
impl Assembler {
    /// `wrs.nto`.
    pub fn wait_on_reservation(&mut self) {
        self.emit(0x00d0_0073);
    }

    /// `wrs.sto`.
    pub fn wait_shortly_on_reservation(&mut self) {
        self.emit(0x01d0_0073);
    }
}
