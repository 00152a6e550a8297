//! Instructions decoded once, with all invariant properties precomputed.

use crate::debug::Stops;
use crate::extension::PortRegisters;
use crate::ports::{Calendar, Need, Unit};
use crate::serializing::FenceEffect;
use crate::spec::MemoryModel;
use crate::window::{SlotKind, Tags};
use fabric::{LINE_BYTES, LineData};
use riscv::{Class, Evaluator, Instruction, Operation, decode, evaluator, is_compressed};
use state::{Purpose, State, Walker};

const TABLE_ENTRIES: usize = 4096;
/// The maximum number of decoded instructions; when it is reached, all are dropped.
const CAPACITY: usize = 1 << 18;

/// The path of an instruction through dispatch. Routes that do not enter the window come last.
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
    /// Prefetch instructions.
    Prefetch,
    /// Executed alone: see [`crate::serializing`].
    Serializing,
    /// Not an instruction: the end of a block.
    End,
}

/// The path of an instruction through [`crate::quick`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quick {
    Integer,
    /// Loads without sign extension.
    Load,
    /// Loads with sign extension.
    SignedLoad,
    Store,
    Branch,
    Jump,
    JumpRegister,
    /// Instructions on the integer path that need a unit that is not [frequent](Need::is_frequent),
    /// or that take an in-order core longer than a cycle.
    Rare,
    /// The end of a block.
    End,
    /// Not handled there.
    No,
}

const _: () = assert!(size_of::<Decoded>() == 64, "one line of the host's caches");

/// A decoded instruction.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Decoded {
    pub instruction: Instruction,
    /// Computes the value of instructions on the integer and branch paths.
    pub evaluate: Evaluator,
    pub need: Need,
    /// The initial tags of its slot in the window.
    pub tags: Tags,
    pub quick: Quick,
    pub route: Route,
    /// The size of its memory access in bytes.
    pub bytes: u8,
    /// It belongs to the F or D extension.
    pub float: bool,
    /// It names a register that is the end of a queue of the core's extension.
    pub port: bool,
    /// It begins a block that another one has replaced in the table.
    is_replaced: bool,
    /// See [`Blocks::find_behind`].
    next: u16,
}

impl Decoded {
    fn new(
        instruction: Instruction,
        pc: u64,
        calendar: &Calendar,
        port: PortRegisters,
        memory_model: MemoryModel,
    ) -> Decoded {
        let (route, unit) = match instruction.class {
            Class::Illegal
            | Class::Csr
            | Class::System
            | Class::FenceI
            | Class::LoadReserved
            | Class::Custom => (Route::Serializing, Unit::Integer),
            // The fence's order always holds here; the fence passes like an `addi`.
            Class::Fence if FenceEffect::is_none(&instruction, memory_model) => {
                (Route::Integer, Unit::Integer)
            }
            Class::Fence => (Route::Serializing, Unit::Integer),
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
            Class::Prefetch => (Route::Prefetch, Unit::Load),
            Class::Store | Class::Atomic | Class::StoreConditional => (Route::Store, Unit::Store),
        };
        let need = calendar.need(unit);
        let float = instruction.is_float();
        let port = port.takes(&instruction) || port.gives(&instruction);
        // Such a core relies on plain integer operations never stalling: see `crate::quick`.
        let is_slow = unit == Unit::Integer && need.latency != 1 && calendar.is_single();
        let quick = match route {
            _ if float || port => Quick::No,
            // Its latency depends on its operand.
            Route::Integer if unit == Unit::Multiply && calendar.multiplier_bits_per_cycle != 0 => {
                Quick::No
            }
            Route::Integer if need.is_frequent() && !is_slow => Quick::Integer,
            Route::Integer => Quick::Rare,
            _ if !need.is_frequent() || is_slow => Quick::No,
            Route::Jump => Quick::Jump,
            Route::Branch => Quick::Branch,
            Route::JumpRegister => Quick::JumpRegister,
            Route::Load => match instruction.operation {
                Operation::Lb | Operation::Lh | Operation::Lw => Quick::SignedLoad,
                _ => Quick::Load,
            },
            Route::Store if instruction.class == Class::Store => Quick::Store,
            Route::Store | Route::Float | Route::Prefetch | Route::Serializing | Route::End => {
                Quick::No
            }
        };
        Decoded {
            instruction,
            evaluate: evaluator(instruction.operation),
            need,
            tags: Tags {
                pc,
                rd: instruction.rd,
                flags: 0,
                kind: match route {
                    Route::Load => SlotKind::Load,
                    Route::Store if instruction.class == Class::Store => SlotKind::Store,
                    Route::Store => SlotKind::Atomic,
                    _ => SlotKind::Plain,
                },
                unit,
            },
            quick,
            route,
            bytes: instruction.access_bytes(),
            float,
            port,
            is_replaced: false,
            next: 0,
        }
    }

    /// The result of a load, extended from the low bytes of `value`.
    #[inline(always)]
    pub fn extended(&self, value: u64) -> u64 {
        let unused = 64 - 8 * u32::from(self.bytes);
        let value = value << unused;
        if self.quick == Quick::SignedLoad {
            (value as i64 >> unused) as u64
        } else {
            value >> unused
        }
    }

    fn end(pc: u64, calendar: &Calendar) -> Decoded {
        Decoded {
            route: Route::End,
            quick: Quick::End,
            ..Decoded::new(
                Instruction::illegal(0, 4),
                pc,
                calendar,
                PortRegisters::NONE,
                MemoryModel::Rvwmo,
            )
        }
    }
}

/// A straight run of instructions that begins at `pc` and ends with a jump or branch, or with
/// its cache line.
#[derive(Clone, Copy, Debug, state::State)]
struct Block {
    /// Bit 0, which no address has set, marks translated addresses.
    pc: u64,
    /// The physical address, if they are translated.
    physical: u64,
    start: u32,
}

const NO_BLOCK: Block = Block {
    pc: 1,
    physical: u64::MAX,
    start: 0,
};

/// The index of an end, for addresses without a block.
pub const NOWHERE: u32 = 0;

/// A hart's decoded blocks, found by their first address.
#[derive(state::State)]
#[state(fields)]
pub struct Blocks {
    #[state(fixed)]
    table: Box<[Block; TABLE_ENTRIES]>,
    /// The blocks in sequence, with an end before the first and after each.
    #[state(fixed)]
    instructions: Vec<Decoded>,
    /// The number of times that all blocks have been dropped.
    #[state(fixed)]
    cleared: u64,
    /// The registers that are ends of the extension's queues.
    #[state(fixed)]
    port: PortRegisters,
    /// Determines which fences have an effect.
    #[state(fixed)]
    memory_model: MemoryModel,
    /// A debugger's breakpoints.
    #[state(fixed)]
    pub stops: Option<Box<Stops>>,
}

impl Blocks {
    /// Decoded instructions may be older than memory, so they are part of the state. The encoding
    /// and the address of an instruction determine the rest; `None` is an end.
    pub(crate) fn walk(&mut self, calendar: &Calendar, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        if walker.purpose() != Purpose::Exact {
            // Within a run the number of instructions only increases, until all are dropped.
            walker.number(&mut self.cleared);
            walker.number(&mut (self.instructions.len() as u64));
            return;
        }
        self.port.input.walk(walker);
        self.port.output.walk(walker);
        state::slice(self.table.as_mut_slice(), walker);
        let instructions = self.instructions.iter();
        let mut encodings: Vec<Option<u32>> = instructions
            .map(|one| (one.route != Route::End).then_some(one.instruction.bits))
            .collect();
        encodings.walk(walker);
        let mut addresses: Vec<u64> = self.instructions.iter().map(|one| one.tags.pc).collect();
        addresses.walk(walker);
        if walker.is_restoring() {
            if encodings.len() != addresses.len() {
                walker.refuse(format!(
                    "it has {} decoded instructions, but addresses of {}",
                    encodings.len(),
                    addresses.len()
                ));
                return;
            }
            let decoded = |(encoding, &pc): (&Option<u32>, &u64)| match encoding {
                Some(bits) => {
                    Decoded::new(decode(*bits), pc, calendar, self.port, self.memory_model)
                }
                None => Decoded::end(pc, calendar),
            };
            self.instructions = encodings.iter().zip(&addresses).map(decoded).collect();
        }
    }
}

impl Blocks {
    pub fn new(calendar: &Calendar, memory_model: MemoryModel) -> Blocks {
        Blocks {
            table: Box::new([NO_BLOCK; TABLE_ENTRIES]),
            instructions: vec![Decoded::end(0, calendar)],
            cleared: 0,
            port: PortRegisters::NONE,
            memory_model,
            stops: None,
        }
    }

    #[inline]
    fn place(pc: u64) -> usize {
        ((pc >> 1) ^ (pc >> 13)) as usize % TABLE_ENTRIES
    }

    /// The block that begins at `pc`, if it has been decoded.
    #[inline]
    pub fn find(&self, pc: u64) -> Option<u32> {
        let block = self.table[Self::place(pc)];
        (block.pc == pc).then_some(block.start)
    }

    /// The same for translated addresses: two address spaces may have different instructions at the
    /// same address.
    #[inline]
    pub fn find_translated(&self, pc: u64, physical: u64) -> Option<u32> {
        let block = self.table[Self::place(pc)];
        (block.pc == pc | 1 && block.physical == physical).then_some(block.start)
    }

    /// The block at `pc`, whose address is not translated, and which follows the end, jump or branch
    /// at index `before` of the lent `code`; [`NOWHERE`] is none. That instruction knows the block that last followed it, without
    /// a look into the table.
    #[inline(always)]
    pub fn find_behind(&self, code: &mut [Decoded], before: u32, pc: u64) -> Option<u32> {
        let next = u32::from(code[before as usize].next);
        let first = &code[next as usize];
        if next != NOWHERE && first.tags.pc == pc && !first.is_replaced {
            return Some(next);
        }
        let found = self.find(pc)?;
        if before != NOWHERE {
            code[before as usize].next = u16::try_from(found).unwrap_or_default();
        }
        Some(found)
    }

    /// Marks the block at `pc`, which has just been decoded, as located at `physical` and not valid
    /// in other address spaces. If it continues in another page, it is not reused.
    pub fn translate(&mut self, pc: u64, physical: Option<u64>) {
        let block = &mut self.table[Self::place(pc)];
        block.pc = pc | 1;
        block.physical = physical.unwrap_or(u64::MAX);
    }

    /// Lends all decoded instructions to a caller that changes other state meanwhile.
    #[inline(always)]
    pub fn lend(&mut self) -> Vec<Decoded> {
        std::mem::take(&mut self.instructions)
    }

    /// Takes them back.
    #[inline(always)]
    pub fn take_back(&mut self, instructions: Vec<Decoded>) {
        self.instructions = instructions;
    }

    /// The number of decoded instructions. It falls only when all are dropped.
    pub fn length(&self) -> usize {
        self.instructions.len()
    }

    /// The decoded instruction at `index`.
    #[inline(always)]
    pub fn instruction(&self, index: u32) -> &Decoded {
        &self.instructions[index as usize]
    }

    /// Decodes the block at `pc` out of its line and, when its first instruction continues
    /// there, the `next` line; returns its index. `None`: the next line is needed and missing.
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
        let first = pc as usize % LINE_BYTES;
        let mut offset = first;
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
            let place = pc.wrapping_add((offset - first) as u64);
            let instruction = match &self.stops {
                Some(stops) => stops.replace(place, decode(bits)),
                None => decode(bits),
            };
            self.instructions.push(Decoded::new(
                instruction,
                place,
                calendar,
                self.port,
                self.memory_model,
            ));
            offset += usize::from(instruction.length);
            if ends_block(&instruction) {
                break;
            }
        }
        let behind = pc.wrapping_add((offset - first) as u64);
        self.instructions.push(Decoded::end(behind, calendar));
        let start = start as u32;
        let replaced = self.table[Self::place(pc)].start;
        self.instructions[replaced as usize].is_replaced = true;
        self.table[Self::place(pc)] = Block {
            pc,
            physical: 0,
            start,
        };
        Some(start)
    }

    /// Decodes the original instruction at `pc`, which a breakpoint replaces.
    pub fn original(&self, i: Instruction, pc: u64, calendar: &Calendar) -> Decoded {
        Decoded::new(i, pc, calendar, self.port, self.memory_model)
    }

    /// The registers that are ends of the extension's queues.
    pub fn port(&self) -> PortRegisters {
        self.port
    }

    /// Makes these registers ends of the extension's queues, and drops all decoded instructions.
    pub fn set_port(&mut self, port: PortRegisters) {
        self.port = port;
        self.clear();
    }

    /// Drops all blocks: `FENCE.I`.
    pub fn clear(&mut self) {
        self.cleared += 1;
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
