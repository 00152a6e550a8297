//! A region as code for the interface's cores (Section 4.3).
//!
//! The interface executes a region's instructions in the order of their addresses. Other
//! instructions are left out: control falls through to the next instruction of the region, and a
//! branch goes to the first one at or after its target. Jumps to a target after the last
//! instruction, and indirect jumps, end the region. No instruction stores. An instruction whose
//! operands are unknown is left out, too ([`executable`](crate::executable())).
//!
//! A register with which the region begins is loaded where an instruction reads it as a root,
//! unless the preceding code has left its value there: an argument, a given result and a
//! PC-relative address can share a register. `READY` values come with the code; `READY-DYN` ones
//! are words of the array to which `a0` points when the code begins.

use crate::convention::{REGISTERS, result};
use crate::region::{LiveIn, Region, RegionInstruction};
use crate::register_state::RegisterState;
use riscv::{Class, Instruction, Operation, Register};

const A0: Register = 10;
const T0: Register = 5;
/// The forward reach of a branch.
const BRANCH_REACH: usize = 4094;

/// Why a region cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// Its code does not fit into a piece.
    TooLarge,
    /// It uses all registers, and one is needed as a pointer to the results of user routines.
    NoRegister,
}

/// A piece of code.
#[derive(Clone, Copy, Debug)]
enum Piece {
    /// An encoding, and its length in bytes.
    Plain(u32, usize),
    /// The upper part of a distance to literal `.1`, in register `.0`; the following load has the
    /// lower part.
    Literal(Register, usize),
    /// A branch to region instruction `.1`, or to the end; its encoding without a distance.
    Branch(u32, usize),
    /// A jump, likewise.
    Jump(usize),
}

impl Piece {
    fn bytes(self) -> usize {
        match self {
            Piece::Plain(_, bytes) => bytes,
            Piece::Literal(..) => 8,
            Piece::Branch(..) | Piece::Jump(_) => 4,
        }
    }
}

fn i_type(immediate: i64, rs1: Register, funct3: u32, rd: Register, opcode: u32) -> u32 {
    (immediate as u32) << 20 | u32::from(rs1) << 15 | funct3 << 12 | u32::from(rd) << 7 | opcode
}

fn add_immediate(rd: Register, rs1: Register, immediate: i64) -> u32 {
    i_type(immediate, rs1, 0, rd, 0x13)
}

fn load_double(rd: Register, rs1: Register, offset: i64) -> u32 {
    i_type(offset, rs1, 3, rd, 0x03)
}

const EBREAK: u32 = 0x0010_0073;

/// A branch's encoding without its distance.
fn branch(instruction: &Instruction) -> u32 {
    let funct3 = match instruction.operation {
        Operation::Beq => 0,
        Operation::Bne => 1,
        Operation::Blt => 4,
        Operation::Bge => 5,
        Operation::Bltu => 6,
        _ => 7,
    };
    u32::from(instruction.rs2) << 20 | u32::from(instruction.rs1) << 15 | funct3 << 12 | 0x63
}

/// The bits of a branch's distance.
fn branch_distance(distance: i64) -> u32 {
    let bits = |low: u32, count: u32| (distance >> low) as u32 & ((1 << count) - 1);
    bits(12, 1) << 31 | bits(5, 6) << 25 | bits(1, 4) << 8 | bits(11, 1) << 7
}

/// The encoding of a jump without a link.
fn jump(distance: i64) -> u32 {
    let bits = |low: u32, count: u32| (distance >> low) as u32 & ((1 << count) - 1);
    bits(20, 1) << 31 | bits(1, 10) << 21 | bits(11, 1) << 20 | bits(12, 8) << 12 | 0x6f
}

/// Code under construction.
struct Code<'a> {
    region: &'a Region,
    pieces: Vec<Piece>,
    /// The first piece of each of the region's instructions, and of the end.
    places: Vec<usize>,
    literals: Vec<u64>,
    /// The register that points to the results of user routines.
    base: Register,
    /// The registers that hold the values with which the region begins.
    current: [bool; REGISTERS],
}

impl Code<'_> {
    fn plain(&mut self, bits: u32) {
        self.pieces.push(Piece::Plain(bits, 4));
    }

    fn constant(&mut self, register: Register, value: u64) {
        if (-2048..2048).contains(&(value as i64)) {
            return self.plain(add_immediate(register, 0, value as i64));
        }
        let known = self.literals.iter().position(|&one| one == value);
        let literal = known.unwrap_or(self.literals.len());
        if known.is_none() {
            self.literals.push(value);
        }
        self.pieces.push(Piece::Literal(register, literal));
    }

    /// Loads the value with which the region begins into a register.
    fn begin_with(&mut self, register: Register, is_root: bool) {
        let mut registers = self.region.registers.iter();
        let is_it = |one: &&LiveIn| one.register == register && one.root.is_some() == is_root;
        let Some(live_in) = registers.find(is_it) else {
            return;
        };
        match live_in.state {
            RegisterState::Unknown => {}
            RegisterState::Ready(value) => self.constant(register, value),
            RegisterState::ReadyDyn(argument) => {
                self.plain(load_double(register, self.base, 8 * argument as i64));
            }
        }
        self.current[usize::from(register)] = is_root;
    }

    fn instruction(&mut self, one: &RegionInstruction) {
        let (pc, i) = (one.pc, &one.instruction);
        let written = result(i);
        if let (true, Some(register)) = (one.given, written) {
            return self.begin_with(register, false);
        }
        for register in one.roots.into_iter().flatten() {
            if !self.current[usize::from(register)] {
                self.begin_with(register, true);
            }
        }
        for (register, address) in one.addresses.into_iter().flatten() {
            self.constant(register, address);
            self.current[usize::from(register)] = false;
        }
        let end = self.region.instructions.len();
        match i.class {
            Class::Branch => {
                let target = self.region.place_of(i.jump_target(pc, 0));
                self.pieces.push(Piece::Branch(branch(i), target));
            }
            Class::Jump => {
                let target = self.region.place_of(i.jump_target(pc, 0));
                self.pieces.push(Piece::Jump(target));
            }
            Class::JumpRegister => self.pieces.push(Piece::Jump(end)),
            // The load is executed for its line, and the cores have no floating-point registers.
            Class::Load if written.is_none() => {
                let byte = i_type(i64::from(i.immediate), i.rs1, 0, 0, 0x03);
                self.plain(byte);
            }
            _ if i.operation == Operation::Auipc => {
                let address = pc.wrapping_add_signed(i64::from(i.immediate));
                if let Some(register) = written {
                    self.constant(register, address);
                }
            }
            _ => {
                let piece = Piece::Plain(i.bits, usize::from(i.length));
                self.pieces.push(piece);
            }
        }
        if let Some(register) = written {
            self.current[usize::from(register)] = false;
        }
    }

    /// The code in bytes, followed by its literals.
    fn bytes(&self) -> Vec<u8> {
        let mut starts = Vec::with_capacity(self.pieces.len() + 1);
        let mut at = 0usize;
        for piece in &self.pieces {
            starts.push(at);
            at += piece.bytes();
        }
        let literals = at.next_multiple_of(8);
        let mut bytes = Vec::new();
        for (piece, &start) in self.pieces.iter().zip(&starts) {
            let distance = |place: usize| starts[self.places[place]] as i64 - start as i64;
            match *piece {
                Piece::Plain(bits, length) => {
                    bytes.extend_from_slice(&bits.to_le_bytes()[..length]);
                }
                Piece::Literal(register, literal) => {
                    let offset = (literals + 8 * literal - start) as i64;
                    let upper = (offset + 0x800) >> 12 << 12;
                    let auipc = upper as u32 | u32::from(register) << 7 | 0x17;
                    bytes.extend_from_slice(&auipc.to_le_bytes());
                    let load = load_double(register, register, offset - upper);
                    bytes.extend_from_slice(&load.to_le_bytes());
                }
                Piece::Branch(bits, place) => {
                    let bits = bits | branch_distance(distance(place));
                    bytes.extend_from_slice(&bits.to_le_bytes());
                }
                Piece::Jump(place) => {
                    bytes.extend_from_slice(&jump(distance(place)).to_le_bytes());
                }
            }
        }
        bytes.resize(literals, 0);
        for literal in &self.literals {
            bytes.extend_from_slice(&literal.to_le_bytes());
        }
        bytes
    }
}

/// The code of a region in at most `room` bytes; `executable` says which of its instructions are
/// [`executable`](crate::executable()). It ends with `ebreak`.
pub fn code(region: &Region, executable: &[bool], room: usize) -> Result<Vec<u8>, Unsent> {
    let mut is_used = [false; REGISTERS];
    let instructions = || region.instructions.iter().zip(executable);
    for (one, _) in instructions().filter(|(_, can)| **can) {
        let i = &one.instruction;
        for register in [i.rd, i.rs1, i.rs2] {
            if let Some(used) = is_used.get_mut(usize::from(register)) {
                *used = true;
            }
        }
    }
    for live_in in &region.registers {
        is_used[usize::from(live_in.register)] = true;
    }
    let mut registers = region.registers.iter();
    let needs_base = registers.any(|one| matches!(one.state, RegisterState::ReadyDyn(_)));
    let mut free = [A0].into_iter().chain(T0..REGISTERS as Register);
    let base = free.find(|&register| !is_used[usize::from(register)]);
    let mut code = Code {
        region,
        pieces: Vec::new(),
        places: Vec::new(),
        literals: Vec::new(),
        base: match base {
            None if needs_base => return Err(Unsent::NoRegister),
            found => found.unwrap_or(A0),
        },
        current: [false; REGISTERS],
    };
    if needs_base && code.base != A0 {
        let copy = add_immediate(code.base, A0, 0);
        code.plain(copy);
    }
    for (one, &can) in instructions() {
        code.places.push(code.pieces.len());
        if can {
            code.instruction(one);
        }
    }
    code.places.push(code.pieces.len());
    code.plain(EBREAK);
    let bytes = code.bytes();
    match bytes.len() <= room.min(BRANCH_REACH) {
        true => Ok(bytes),
        false => Err(Unsent::TooLarge),
    }
}
