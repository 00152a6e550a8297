//! The fast variant of the functional interpreter: plain instructions, decoded once, with a
//! function for each.
//!
//! Instructions are decoded into *traces*: sequences that are likely to be executed one after the
//! other, across jumps and branches that are probably taken. Each instruction has the address of
//! the function that executes it, specialised for its operation, and that function calls the
//! function of the next one. The compiler turns these calls into jumps; if it did not, they would
//! nest no deeper than the length of a trace. The functions compute with the functions that the
//! [interpreter](crate::interpreter) calls, and the interpreter executes everything that is not
//! plain (CSRs, atomics, traps, devices, misaligned accesses).
//!
//! Modified instructions may be executed in their old form until the next `fence.i`, and stale
//! translations used until the next `sfence.vma`, as the manual allows.
//!
//! ```
//! use riscv::interpreter::{Machine, Memory};
//! use riscv::paged::PagedMemory;
//! use riscv::threaded::Threaded;
//!
//! let mut memory = PagedMemory::new(vec![0x8000_0000..0x8000_1000]);
//! memory.write(0x8000_0000, 4, 0x0015_0513); // addi a0, a0, 1
//! memory.write(0x8000_0004, 4, 0xffdf_f06f); // j -4
//! let mut machine = Machine::new(memory, 0x8000_0000);
//! assert_eq!(Threaded::default().run(&mut machine, 1001), 1001);
//! assert_eq!(machine.registers[10], 501);
//! ```

use crate::execute::manipulate_bits;
use crate::instruction::TABLE;
use crate::interpreter::{Machine, Step};
use crate::paged::{PAGE_BYTES, Paged};
use crate::paging::Access;
use crate::{
    Class, Instruction, Operation, Register, branch_taken, evaluate, evaluate_integer,
    illegal_rounding,
};

/// Maximum number of instructions in a trace: enough to amortize its beginning and its end.
const TRACE_LIMIT: usize = 64;
/// Number of traces that can be found at a time, each at an index derived from its address.
const ENTRIES: usize = 4096;
/// When traces contain this many instructions, all are discarded. They take 8 MiB then.
const OPERATIONS_LIMIT: usize = 1 << 18;

/// Executes the first of a sequence of instructions, and then the others.
type Handler<M> = fn(&[Threadlet<M>], &mut Machine<M>) -> Stop;

/// The position in a trace where execution stopped: twice the number of unexecuted instructions,
/// plus one if `pc` has been set. (It is one word: a larger value would not be returned in a
/// register, and calls could not become jumps.)
#[derive(Clone, Copy)]
struct Stop(u64);

impl Stop {
    /// After the last instruction.
    const END: Stop = Stop(0);

    /// Before the first of these, which the interpreter must execute.
    #[inline(always)]
    fn before<M>(rest: &[Threadlet<M>]) -> Stop {
        Stop((rest.len() as u64) << 1)
    }

    /// At a jump out of the trace, before these.
    #[inline(always)]
    fn jumped<M>(rest: &[Threadlet<M>]) -> Stop {
        Stop((rest.len() as u64) << 1 | 1)
    }

    fn left(self) -> u64 {
        self.0 >> 1
    }

    fn has_jumped(self) -> bool {
        self.0 & 1 != 0
    }
}

/// One instruction of a trace.
struct Threadlet<M> {
    handler: Handler<M>,
    pc: u64,
    immediate: i32,
    rd: Register,
    rs1: Register,
    rs2: Register,
    rs3: Register,
    operation: Operation,
    rounding: u8,
    length: u8,
}

impl<M> Threadlet<M> {
    fn new(i: &Instruction, pc: u64, handler: Handler<M>) -> Threadlet<M> {
        Threadlet {
            handler,
            pc,
            immediate: i.immediate,
            rd: i.rd,
            rs1: i.rs1,
            rs2: i.rs2,
            rs3: i.rs3,
            operation: i.operation,
            rounding: i.rounding,
            length: i.length,
        }
    }

    /// The instruction, for functions that do not use its encoding.
    #[inline(always)]
    fn instruction(&self, operation: Operation) -> Instruction {
        Instruction {
            operation,
            class: TABLE[operation as usize].class,
            rd: self.rd,
            rs1: self.rs1,
            rs2: self.rs2,
            rs3: self.rs3,
            length: self.length,
            rounding: self.rounding,
            immediate: self.immediate,
            bits: 0,
        }
    }

    /// The instruction with an operation that is known at compile time.
    #[inline(always)]
    fn known<const O: u8>(&self) -> Instruction {
        self.instruction(const { TABLE[O as usize].operation })
    }

    #[inline(always)]
    fn sources(&self, machine: &Machine<M>) -> [u64; 2] {
        [
            machine.registers[usize::from(self.rs1)],
            machine.registers[usize::from(self.rs2)],
        ]
    }
}

#[inline(always)]
fn go_on<M>(rest: &[Threadlet<M>], machine: &mut Machine<M>) -> Stop {
    match rest {
        [first, ..] => (first.handler)(rest, machine),
        [] => Stop::END,
    }
}

fn integer<const O: u8, M>(ops: &[Threadlet<M>], machine: &mut Machine<M>) -> Stop {
    let [op, rest @ ..] = ops else {
        return Stop::END;
    };
    let [a, b] = op.sources(machine);
    machine.registers[usize::from(op.rd)] = evaluate_integer(&op.known::<O>(), op.pc, a, b);
    go_on(rest, machine)
}

fn bits<const O: u8, M>(ops: &[Threadlet<M>], machine: &mut Machine<M>) -> Stop {
    let [op, rest @ ..] = ops else {
        return Stop::END;
    };
    let [a, b] = op.sources(machine);
    machine.registers[usize::from(op.rd)] = manipulate_bits(&op.known::<O>(), a, b);
    go_on(rest, machine)
}

/// A branch whose trace continues with the fall-through path.
fn forward<const O: u8, M>(ops: &[Threadlet<M>], machine: &mut Machine<M>) -> Stop {
    let [op, rest @ ..] = ops else {
        return Stop::END;
    };
    let [a, b] = op.sources(machine);
    let i = op.known::<O>();
    if branch_taken(i.operation, a, b) {
        machine.pc = i.jump_target(op.pc, a);
        return Stop::jumped(rest);
    }
    go_on(rest, machine)
}

/// A branch whose trace continues at its target.
fn backward<const O: u8, M>(ops: &[Threadlet<M>], machine: &mut Machine<M>) -> Stop {
    let [op, rest @ ..] = ops else {
        return Stop::END;
    };
    let [a, b] = op.sources(machine);
    let i = op.known::<O>();
    if !branch_taken(i.operation, a, b) {
        machine.pc = i.next(op.pc);
        return Stop::jumped(rest);
    }
    go_on(rest, machine)
}

fn jump_register<M>(ops: &[Threadlet<M>], machine: &mut Machine<M>) -> Stop {
    let [op, rest @ ..] = ops else {
        return Stop::END;
    };
    let i = op.instruction(Operation::Jalr);
    let [a, b] = op.sources(machine);
    machine.registers[usize::from(op.rd)] = evaluate_integer(&i, op.pc, a, b);
    machine.pc = i.jump_target(op.pc, a);
    Stop::jumped(rest)
}

/// The bytes at an address, if they are aligned and in a present page. `VIRTUAL`: the address is
/// translated, and the translation must be cached.
#[inline(always)]
fn place<const BYTES: usize, const VIRTUAL: bool, M: Paged>(
    machine: &mut Machine<M>,
    address: u64,
    access: Access,
) -> Option<&mut [u8; BYTES]> {
    if !address.is_multiple_of(BYTES as u64) {
        return None;
    }
    let address = match VIRTUAL {
        true => machine.virtual_pages.find(address, access)?,
        false => address,
    };
    let pages = machine.memory.pages();
    let page = pages.get_mut(usize::try_from(address / PAGE_BYTES as u64).ok()?)?;
    let (places, _) = page.as_mut()?.as_chunks_mut();
    places.get_mut((address % PAGE_BYTES as u64) as usize / BYTES)
}

fn load<const O: u8, M: Paged>(ops: &[Threadlet<M>], machine: &mut Machine<M>) -> Stop {
    load_from::<O, false, M>(ops, machine)
}

fn virtual_load<const O: u8, M: Paged>(ops: &[Threadlet<M>], machine: &mut Machine<M>) -> Stop {
    load_from::<O, true, M>(ops, machine)
}

#[inline(always)]
fn load_from<const O: u8, const VIRTUAL: bool, M: Paged>(
    ops: &[Threadlet<M>],
    machine: &mut Machine<M>,
) -> Stop {
    let [op, rest @ ..] = ops else {
        return Stop::END;
    };
    let i = op.known::<O>();
    if i.is_float() && !machine.hart.float_enabled() {
        return Stop::before(ops);
    }
    let [a, _] = op.sources(machine);
    let address = i.address(a);
    let raw = match i.access_bytes() {
        1 => place::<1, VIRTUAL, M>(machine, address, Access::Load)
            .map(|&mut raw| u8::from_le_bytes(raw).into()),
        2 => place::<2, VIRTUAL, M>(machine, address, Access::Load)
            .map(|&mut raw| u16::from_le_bytes(raw).into()),
        4 => place::<4, VIRTUAL, M>(machine, address, Access::Load)
            .map(|&mut raw| u32::from_le_bytes(raw).into()),
        _ => place::<8, VIRTUAL, M>(machine, address, Access::Load)
            .map(|&mut raw| u64::from_le_bytes(raw)),
    };
    let Some(raw) = raw else {
        return Stop::before(ops);
    };
    machine.registers[usize::from(op.rd)] = i.load_value(raw);
    if i.is_float() {
        machine.hart.set_float_dirty();
    }
    go_on(rest, machine)
}

fn store<const O: u8, M: Paged>(ops: &[Threadlet<M>], machine: &mut Machine<M>) -> Stop {
    store_to::<O, false, M>(ops, machine)
}

fn virtual_store<const O: u8, M: Paged>(ops: &[Threadlet<M>], machine: &mut Machine<M>) -> Stop {
    store_to::<O, true, M>(ops, machine)
}

#[inline(always)]
fn store_to<const O: u8, const VIRTUAL: bool, M: Paged>(
    ops: &[Threadlet<M>],
    machine: &mut Machine<M>,
) -> Stop {
    let [op, rest @ ..] = ops else {
        return Stop::END;
    };
    let i = op.known::<O>();
    if i.is_float() && !machine.hart.float_enabled() {
        return Stop::before(ops);
    }
    let [a, b] = op.sources(machine);
    let address = i.address(a);
    let done = match i.access_bytes() {
        1 => place::<1, VIRTUAL, M>(machine, address, Access::Store)
            .map(|place| *place = (b as u8).to_le_bytes()),
        2 => place::<2, VIRTUAL, M>(machine, address, Access::Store)
            .map(|place| *place = (b as u16).to_le_bytes()),
        4 => place::<4, VIRTUAL, M>(machine, address, Access::Store)
            .map(|place| *place = (b as u32).to_le_bytes()),
        _ => place::<8, VIRTUAL, M>(machine, address, Access::Store)
            .map(|place| *place = b.to_le_bytes()),
    };
    if done.is_none() {
        return Stop::before(ops);
    }
    go_on(rest, machine)
}

fn float<M>(ops: &[Threadlet<M>], machine: &mut Machine<M>) -> Stop {
    let [op, rest @ ..] = ops else {
        return Stop::END;
    };
    if evaluate_float(op, machine) {
        go_on(rest, machine)
    } else {
        Stop::before(ops)
    }
}

/// Whether the instruction is legal; then it has been executed. (Out of line: a function with
/// variables on the stack cannot end in a jump.)
#[inline(never)]
fn evaluate_float<M>(op: &Threadlet<M>, machine: &mut Machine<M>) -> bool {
    let i = op.instruction(op.operation);
    let mode = machine.hart.rounding_mode();
    if !machine.hart.float_enabled() || illegal_rounding(&i, mode) {
        return false;
    }
    let [a, b] = op.sources(machine);
    let c = machine.registers[usize::from(op.rs3)];
    let mut flags = 0;
    machine.registers[usize::from(op.rd)] = evaluate(&i, op.pc, a, b, c, mode, &mut flags);
    machine.hart.add_flags(flags);
    if i.writes_float() {
        machine.hart.set_float_dirty();
    }
    true
}

/// Only one hart runs at a time, and there are no caches.
fn nothing<M>(ops: &[Threadlet<M>], machine: &mut Machine<M>) -> Stop {
    match ops {
        [_, rest @ ..] => go_on(rest, machine),
        [] => Stop::END,
    }
}

fn not_plain<M>(ops: &[Threadlet<M>], _: &mut Machine<M>) -> Stop {
    Stop::before(ops)
}

/// The function that executes an operation, chosen from the lists of operations for each function.
macro_rules! choose {
    ($operation:expr; $($function:ident: $($listed:ident)*;)*) => {
        match $operation {
            $($(Operation::$listed => $function::<{ Operation::$listed as u8 }, M>,)*)*
            _ => not_plain,
        }
    };
}

fn handler<M: Paged>(i: &Instruction, is_virtual: bool) -> Handler<M> {
    match i.class {
        Class::Load | Class::Store if is_virtual => choose! { i.operation;
            virtual_load: Lb Lh Lw Ld Lbu Lhu Lwu Flw Fld;
            virtual_store: Sb Sh Sw Sd Fsw Fsd;
        },
        Class::JumpRegister => jump_register,
        Class::Fence | Class::Prefetch => nothing,
        Class::Branch if is_likely(i) => choose! { i.operation;
            backward: Beq Bne Blt Bge Bltu Bgeu;
        },
        class if class.is_float() => float,
        _ => choose! { i.operation;
            integer: Lui Auipc Jal Addi Slti Sltiu Xori Ori Andi Slli Srli Srai
                Addiw Slliw Srliw Sraiw Add Sub Sll Slt Sltu Xor Srl Sra Or And
                Addw Subw Sllw Srlw Sraw Mul Mulh Mulhsu Mulhu Mulw
                Div Divu Rem Remu Divw Divuw Remw Remuw;
            bits: AddUw Sh1add Sh2add Sh3add Sh1addUw Sh2addUw Sh3addUw SlliUw Andn Orn Xnor
                Clz Ctz Cpop Clzw Ctzw Cpopw Min Minu Max Maxu SextB SextH ZextH
                Rol Ror Rori Rolw Rorw Roriw OrcB Rev8
                Bset Bclr Binv Bext Bseti Bclri Binvi Bexti;
            load: Lb Lh Lw Ld Lbu Lhu Lwu Flw Fld;
            store: Sb Sh Sw Sd Fsw Fsd;
            forward: Beq Bne Blt Bge Bltu Bgeu;
        },
    }
}

/// Whether a branch is probably taken: if it goes backward, as that of a loop does.
fn is_likely(i: &Instruction) -> bool {
    i.class == Class::Branch && i.immediate < 0
}

/// A trace and its start.
#[derive(Clone, Copy)]
struct Trace {
    start: u64,
    /// The number of the space in which its addresses are translated; 0 for physical addresses.
    space: u64,
    first: usize,
    length: usize,
    /// The address after its last instruction.
    end: u64,
}

impl Trace {
    /// No trace: instructions never have odd addresses.
    const NONE: Trace = Trace {
        start: 1,
        space: 0,
        first: 0,
        length: 0,
        end: 0,
    };
}

/// Executes plain instructions of harts that share a memory.
pub struct Threaded<M> {
    traces: Box<[Trace; ENTRIES]>,
    operations: Vec<Threadlet<M>>,
}

impl<M: Paged> Default for Threaded<M> {
    fn default() -> Threaded<M> {
        Threaded {
            traces: Box::new([Trace::NONE; ENTRIES]),
            operations: Vec::new(),
        }
    }
}

impl<M: Paged> Threaded<M> {
    /// Executes at most `limit` plain instructions; returns their number. If it is below `limit`,
    /// the next instruction is not plain and needs [`Threaded::step`]. Takes no interrupts, and
    /// does not check whether the hart waits.
    pub fn run(&mut self, machine: &mut Machine<M>, limit: u64) -> u64 {
        let (fetches, data) = (machine.hart.fetch_space(), machine.hart.data_space());
        if fetches.is_none() && data.is_some() {
            // Machine mode temporarily accesses memory as another mode (MPRV).
            return 0;
        }
        machine.virtual_pages.enter(data);
        let space = fetches.map_or(0, |space| space.key());
        let mut executed = 0;
        while executed < limit {
            let trace = self.trace(machine, space);
            let all = &self.operations[trace.first..trace.first + trace.length];
            let within = usize::try_from(limit - executed).unwrap_or(usize::MAX);
            let operations = &all[..all.len().min(within)];
            let stop = go_on(operations, machine);
            let done = operations.len() as u64 - stop.left();
            executed += done;
            machine.retired += done;
            if !stop.has_jumped() {
                machine.pc = all.get(done as usize).map_or(trace.end, |next| next.pc);
                if done < operations.len() as u64 || all.is_empty() {
                    break;
                }
            }
        }
        executed
    }

    /// [`Machine::step`]; a `fence.i` makes changed instructions visible, and an `sfence.vma`
    /// changed page tables.
    pub fn step(&mut self, machine: &mut Machine<M>) -> Step {
        let step = machine.step();
        if let Step::Retired(i) = step
            && (i.class == Class::FenceI || i.operation == Operation::SfenceVma)
        {
            self.forget();
        }
        step
    }

    fn forget(&mut self) {
        self.operations.clear();
        self.traces.fill(Trace::NONE);
    }

    #[inline]
    fn trace(&mut self, machine: &mut Machine<M>, space: u64) -> Trace {
        let place = (machine.pc / 2) as usize % ENTRIES;
        let found = self.traces[place];
        if found.start == machine.pc && found.space == space {
            return found;
        }
        if self.operations.len() > OPERATIONS_LIMIT {
            self.forget();
        }
        self.traces[place] = self.decode(machine, space);
        self.traces[place]
    }

    #[cold]
    fn decode(&mut self, machine: &mut Machine<M>, space: u64) -> Trace {
        let start = machine.pc;
        let first = self.operations.len();
        let mut pc = start;
        while self.operations.len() - first < TRACE_LIMIT
            && let Ok(i) = machine.instruction_at(pc)
        {
            let handler = handler(&i, space != 0);
            self.operations.push(Threadlet::new(&i, pc, handler));
            match i.class {
                Class::Jump => pc = i.jump_target(pc, 0),
                Class::Branch if is_likely(&i) => pc = i.jump_target(pc, 0),
                _ => pc = i.next(pc),
            }
            if i.class == Class::JumpRegister || (i.class.ends_block() && !i.class.is_control()) {
                break;
            }
        }
        Trace {
            start,
            space,
            first,
            length: self.operations.len() - first,
            end: pc,
        }
    }
}

#[cfg(test)]
mod tests;
