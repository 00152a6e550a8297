//! Instructions decoded once, with all that does not change worked out.

use crate::ports::{Calendar, Need, Unit};
use crate::serial::FenceEffect;
use fabric::{LINE_BYTES, LineData};
use riscv::{Class, Instruction, decode, is_compressed};
use state::{State, Walker};

const TABLE_ENTRIES: usize = 4096;
/// When this many instructions are held, all are forgotten and decoded again as they are met.
const CAPACITY: usize = 1 << 18;

/// The way that an instruction takes through dispatch. Those that do not enter the window come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Route {
    /// Integer operands in, a result out.
    Integer,
    /// Arithmetic that may raise floating-point flags.
    Float,
    Jump,
    Branch,
    JumpRegister,
    Load,
    /// Stores, and atomics except `LR`.
    Store,
    /// Executed alone: see [`crate::serial`].
    Serial,
    /// No instruction: the end of a block.
    End,
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug)]
pub struct Decoded {
    pub instruction: Instruction,
    pub route: Route,
    pub unit: Unit,
    pub need: Need,
    /// It is of the F or D extension.
    pub float: bool,
}

impl Decoded {
    fn new(instruction: Instruction, calendar: &Calendar) -> Decoded {
        let (route, unit) = match instruction.class {
            Class::Illegal
            | Class::Csr
            | Class::System
            | Class::FenceI
            | Class::LoadReserved
            | Class::Custom => (Route::Serial, Unit::Integer),
            // What a fence without effect orders is in order anyway; it passes like an `addi`.
            Class::Fence if FenceEffect::of(&instruction) == FenceEffect::None => {
                (Route::Integer, Unit::Integer)
            }
            Class::Fence => (Route::Serial, Unit::Integer),
            Class::Alu => (Route::Integer, Unit::Integer),
            Class::Jump => (Route::Jump, Unit::Integer),
            Class::Branch => (Route::Branch, Unit::Integer),
            Class::JumpRegister => (Route::JumpRegister, Unit::Integer),
            Class::Multiply => (Route::Integer, Unit::Multiply),
            Class::Divide => (Route::Integer, Unit::Divide),
            Class::FloatAdd | Class::FloatMisc | Class::FloatConvert | Class::FloatMove => {
                (Route::Float, Unit::FloatAdd)
            }
            Class::FloatMultiply | Class::FloatFused => (Route::Float, Unit::FloatMultiply),
            Class::FloatDivide | Class::FloatSqrt => (Route::Float, Unit::FloatDivide),
            Class::Load => (Route::Load, Unit::Load),
            Class::Store | Class::Atomic | Class::StoreConditional => (Route::Store, Unit::Store),
        };
        Decoded {
            instruction,
            route,
            unit,
            need: calendar.need(unit),
            float: instruction.is_float(),
        }
    }

    fn end(calendar: &Calendar) -> Decoded {
        Decoded {
            route: Route::End,
            ..Decoded::new(Instruction::illegal(0, 4), calendar)
        }
    }
}

/// A straight run of instructions that begins at `pc` and ends with a jump or branch, or with
/// its cache line.
#[derive(Clone, Copy, Debug)]
struct Block {
    pc: u64,
    start: u32,
}

state::component!(Block { pc, start });

const NO_BLOCK: Block = Block { pc: 1, start: 0 };

/// Where instructions of no block are: there is only an end.
pub const NOWHERE: u32 = 0;

/// A hart's decoded blocks, found by their first address.
pub struct Blocks {
    table: Box<[Block]>,
    /// Block after block, with an end before the first and behind each.
    instructions: Vec<Decoded>,
}

impl Blocks {
    /// What has been decoded may be older than what is in memory, so it is part of the state. Of
    /// an instruction its encoding tells all; `None` is an end.
    pub(crate) fn walk(&mut self, calendar: &Calendar, walker: &mut dyn Walker) {
        state::fields!(
            self,
            walker,
            Blocks {
                table: slice,
                instructions: fixed
            }
        );
        let instructions = self.instructions.iter();
        let mut encodings: Vec<Option<u32>> = instructions
            .map(|one| (one.route != Route::End).then_some(one.instruction.bits))
            .collect();
        encodings.walk(walker);
        if walker.is_restoring() {
            let decoded = |encoding: &Option<u32>| match encoding {
                Some(bits) => Decoded::new(decode(*bits), calendar),
                None => Decoded::end(calendar),
            };
            self.instructions = encodings.iter().map(decoded).collect();
        }
    }
}

impl Blocks {
    pub fn new(calendar: &Calendar) -> Blocks {
        Blocks {
            table: vec![NO_BLOCK; TABLE_ENTRIES].into_boxed_slice(),
            instructions: vec![Decoded::end(calendar)],
        }
    }

    #[inline]
    fn place(pc: u64) -> usize {
        ((pc >> 1) ^ (pc >> 13)) as usize % TABLE_ENTRIES
    }

    /// Where the block is that begins at `pc`, if it has been decoded.
    #[inline]
    pub fn find(&self, pc: u64) -> Option<u32> {
        let block = self.table[Self::place(pc)];
        (block.pc == pc).then_some(block.start)
    }

    /// The `index`th instruction of all that are held.
    #[inline(always)]
    pub fn instruction(&self, index: u32) -> &Decoded {
        &self.instructions[index as usize]
    }

    /// Decodes the block at `pc` out of its line and, when its first instruction continues
    /// there, the `next` line; says where it is. `None`: the next line is needed and missing.
    pub fn decode(
        &mut self,
        pc: u64,
        line: &LineData,
        next: Option<&LineData>,
        calendar: &Calendar,
    ) -> Option<u32> {
        if self.instructions.len() + LINE_BYTES > CAPACITY {
            self.clear();
        }
        let start = self.instructions.len();
        let mut offset = pc as usize % LINE_BYTES;
        while offset + 2 <= LINE_BYTES {
            let low = line.read(offset, 2) as u16;
            let bits = if is_compressed(low) {
                u32::from(low)
            } else if offset + 4 <= LINE_BYTES {
                line.read(offset, 4) as u32
            } else if self.instructions.len() == start {
                u32::from(low) | (next?.read(0, 2) as u32) << 16
            } else {
                break;
            };
            let instruction = decode(bits);
            self.instructions.push(Decoded::new(instruction, calendar));
            offset += usize::from(instruction.length);
            if ends_block(&instruction) {
                break;
            }
        }
        self.instructions.push(Decoded::end(calendar));
        let start = start as u32;
        self.table[Self::place(pc)] = Block { pc, start };
        Some(start)
    }

    /// Forgets everything: `FENCE.I`.
    pub fn clear(&mut self) {
        self.table.fill(NO_BLOCK);
        self.instructions.truncate(1);
    }
}

fn ends_block(instruction: &Instruction) -> bool {
    matches!(
        instruction.class,
        Class::Branch | Class::Jump | Class::JumpRegister | Class::System | Class::FenceI
    )
}
