//! Identification of critical regions: Section 4.1, and the register values of Section 4.2.

use crate::convention::{
    REGISTERS, is_call, is_local_control, is_offloadable, is_return, operands, result,
};
use crate::instruction_cache::{ContextInstructionCache, Entry, Operand};
use crate::prediction::{Begins, ValuePredictor};
use crate::region::{Region, dead, root_result};
use crate::register_map::{Producer, RegisterMap};
use crate::register_state::RegisterStates;
use fabric::Source;
use pipeline::{Executed, Found};
use riscv::{Class, Instruction, Register};
use std::collections::VecDeque;

/// A load misses often if it causes at least one in so many misses of an epoch.
const OFTEN: u64 = 64;

/// The sizes of the structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Entries of the context instruction cache.
    pub instructions: usize,
    /// The associativity of this cache.
    pub ways: usize,
    /// Rows of the IN value table.
    pub in_values: usize,
    /// Rows of the GEN value table.
    pub gen_values: usize,
    /// Second-level misses in an epoch.
    pub epoch_misses: u64,
}

impl Sizes {
    /// The number of misses in an epoch from which a load misses "often". Section 4.1 gives no
    /// number; 64 of the paper's 4096 is chosen, since a load that misses occasionally is not worth
    /// a region.
    fn often(&self) -> u64 {
        (self.epoch_misses / OFTEN).clamp(1, OFTEN)
    }
}

impl Default for Sizes {
    /// The sizes of Sections 4 and 6.4.
    fn default() -> Sizes {
        Sizes {
            instructions: 256,
            ways: 16,
            in_values: 48,
            gen_values: 132,
            epoch_misses: 4096,
        }
    }
}

/// The result of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// The ready instructions whose registers are ready.
    pub region: Region,
    /// The addresses of all ready instructions, in order: the region if all registers were known.
    pub ready: Vec<u64>,
}

/// The number of accesses to each structure, for their energy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// The context instruction cache: a look-up for each instruction of the procedure and for each
    /// predecessor, and a write for each entry that is allocated or updated.
    pub instruction_cache: u64,
    /// Reads of tables of registers: the register-to-PC map, the checkpoint, the return stack.
    pub register_reads: u64,
    /// Writes of these tables, and of the states of registers.
    pub register_writes: u64,
    /// Rows of IN values that were compared or written.
    pub in_values: u64,
    /// Rows of GEN values that were compared or written.
    pub gen_values: u64,
}

/// The operands of an instruction; `None` if one of them is a floating-point register.
type Operands = Option<[Option<Operand>; 2]>;

/// The known values of registers, which an instruction has been seen to write.
type Values = [Option<u64>; REGISTERS];

/// The depth of the return stack, as in Intel's Nehalem. A hart that returns further is in an
/// unknown procedure.
pub const RETURN_STACK: usize = 16;

/// The address of a procedure's first instruction; `None` if its call has not been seen.
pub type Procedure = Option<u64>;

/// For each register, whether it has had its IN value, and the value's row if there was room.
type Rows = [Option<Option<usize>>; REGISTERS];

/// A transfer of control.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    pc: u64,
    instruction: Instruction,
    operands: Operands,
}

/// The state of each hart of a core.
#[derive(Clone, Debug, Default)]
struct Thread {
    /// The procedures that the hart is in, the innermost last.
    calls: VecDeque<u64>,
    /// Whether its last instruction was a call.
    is_calling: bool,
    /// Whether the region's procedure has been called in this epoch, and has not returned.
    is_entered: bool,
    map: RegisterMap,
    values: Values,
    /// For each register that has had its IN value in this pass through the region, the value's
    /// row, if there was room.
    in_rows: Rows,
    /// The same for results.
    result_rows: Rows,
    /// What user routines returned for the packet that the hart serves.
    arguments: Vec<u64>,
    /// The control flow executed last, until the next instruction.
    last_control: Option<Transfer>,
    /// The jump or taken branch that led to this basic block, until a critical instruction of the
    /// block is executed.
    led_here: Option<Transfer>,
    /// Whether a critical instruction of this basic block has been executed.
    is_block_critical: bool,
    /// A backward branch that bypassed the whole region (H in Figure 9), and the checkpoint of the
    /// registers just before it. There is at most one.
    bypass: Option<(Transfer, Box<Values>)>,
}

impl Thread {
    fn procedure(&self) -> Procedure {
        self.calls.back().copied()
    }

    /// A pass through the region begins.
    fn begin_region(&mut self) {
        self.map.begin_region();
        self.in_rows = [None; REGISTERS];
        self.result_rows = [None; REGISTERS];
    }

    /// Forgets the present basic block: control leaves the procedure, or returns to it.
    fn forget_control(&mut self) {
        self.last_control = None;
        self.led_here = None;
        self.is_block_critical = false;
        self.bypass = None;
    }
}

/// The identification hardware of a core. Its harts share all structures except those for their
/// registers.
#[derive(Clone, Debug)]
pub struct Identification {
    cache: ContextInstructionCache,
    predictor: ValuePredictor,
    states: RegisterStates,
    threads: Vec<Thread>,
    sizes: Sizes,
    misses: u64,
    /// The procedure of the epoch's first load that missed; `None` until there is one.
    region_of: Option<Procedure>,
    accesses: Accesses,
}

impl Identification {
    /// The hardware of a core with this number of harts, at the beginning of an epoch.
    pub fn new(sizes: Sizes, threads: usize) -> Identification {
        Identification {
            cache: ContextInstructionCache::new(sizes.instructions, sizes.ways),
            predictor: ValuePredictor::new(sizes.in_values, sizes.gen_values),
            states: RegisterStates::default(),
            threads: vec![Thread::default(); threads],
            sizes,
            misses: 0,
            region_of: None,
            accesses: Accesses::default(),
        }
    }

    /// Table I.
    pub fn cache(&self) -> &ContextInstructionCache {
        &self.cache
    }

    /// Table II of a hart.
    pub fn register_map(&self, thread: usize) -> &RegisterMap {
        &self.threads[thread].map
    }

    /// Table III.
    pub fn register_states(&self) -> &RegisterStates {
        &self.states
    }

    /// Tables IV and V.
    pub fn predictor(&self) -> &ValuePredictor {
        &self.predictor
    }

    /// The number of accesses to the structures.
    pub fn accesses(&self) -> Accesses {
        let (in_values, gen_values) = self.predictor.accesses();
        Accesses {
            in_values,
            gen_values,
            ..self.accesses
        }
    }

    /// The value of a hart's register, if an instruction has been seen to write it.
    pub fn value(&self, thread: usize, register: Register) -> Option<u64> {
        self.threads[thread].values[usize::from(register)]
    }

    /// Sets the values that user routines have returned for the packet that `thread` now serves.
    pub fn set_arguments(&mut self, thread: usize, arguments: &[u64]) {
        self.threads[thread].arguments = arguments.to_vec();
    }

    /// Observes a committed instruction of a hart. Returns the result of the epoch if it ends.
    pub fn committed(&mut self, thread: usize, executed: &Executed) -> Option<Epoch> {
        let missed = misses_second_level(executed);
        self.enter(thread, executed.pc);
        let of = &self.threads[thread];
        if missed && self.region_of.is_none() {
            self.region_of = Some(of.procedure());
        }
        let is_inside = self
            .region_of
            .is_none_or(|procedure| procedure == of.procedure());
        if is_inside {
            self.observe(thread, executed, missed);
        }
        let of = &mut self.threads[thread];
        if let Some(register) = result(&executed.instruction) {
            of.values[usize::from(register)] = executed.value;
        }
        of.is_calling = is_call(&executed.instruction);
        if is_return(&executed.instruction) {
            self.leave(thread);
        }
        self.misses += u64::from(missed);
        (self.misses == self.sizes.epoch_misses).then(|| self.end_epoch())
    }

    /// The hart is in the region's procedure, or the epoch has no region yet.
    fn observe(&mut self, thread: usize, executed: &Executed, missed: bool) {
        let (pc, instruction) = (executed.pc, executed.instruction);
        self.accesses.instruction_cache += 1;
        self.accesses.register_writes += u64::from(result(&instruction).is_some());
        self.follow_control(thread, pc);
        let is_control = is_local_control(&instruction);
        let originates_here = is_control && self.threads[thread].is_block_critical;
        if self.cache.get(pc).is_some() || missed || originates_here {
            self.access(thread, executed, missed);
        }
        if instruction.class.is_control() {
            let operands = self.read_operands(thread, &instruction);
            let of = &mut self.threads[thread];
            of.is_block_critical = false;
            of.led_here = None;
            of.last_control = is_control.then_some(Transfer {
                pc,
                instruction,
                operands,
            });
        }
        let of = &mut self.threads[thread];
        of.map.executed(pc, &instruction, executed.value);
    }

    /// If the hart has called a procedure, it begins at `pc`. Calls and returns are the boundaries
    /// within which chains are confined (Section 4.1): a call of the region's procedure begins a
    /// pass through the region, with the arguments as roots. Instructions of the procedures that it
    /// calls belong to other regions.
    fn enter(&mut self, thread: usize, pc: u64) {
        let of = &mut self.threads[thread];
        if !std::mem::take(&mut of.is_calling) {
            return;
        }
        self.accesses.register_writes += 1;
        of.calls.push_back(pc);
        if of.calls.len() > RETURN_STACK {
            of.calls.pop_front();
        }
        of.forget_control();
        if self.region_of.is_none_or(|procedure| procedure == Some(pc)) {
            of.begin_region();
            of.is_entered = true;
        }
    }

    /// The hart returns from a procedure.
    fn leave(&mut self, thread: usize) {
        let of = &mut self.threads[thread];
        self.accesses.register_reads += 1;
        let left = of.calls.pop_back();
        of.forget_control();
        match self.region_of {
            None => of.map = RegisterMap::default(),
            Some(procedure) if procedure == of.procedure() => of.map.return_from_call(),
            Some(procedure) if procedure == left => of.is_entered = false,
            Some(_) => {}
        }
    }

    /// The operands of an instruction, by Table II.
    fn read_operands(&mut self, thread: usize, instruction: &Instruction) -> Operands {
        let map = &self.threads[thread].map;
        let operand = |register: Register| Operand {
            register,
            producer: map.producer(register),
        };
        let registers = operands(instruction)?;
        self.accesses.register_reads += registers.iter().flatten().count() as u64;
        Some(registers.map(|one| one.map(operand)))
    }

    /// The instruction at `pc` follows: attributes the control transfer that led to it.
    fn follow_control(&mut self, thread: usize, pc: u64) {
        let of = &mut self.threads[thread];
        let Some(last) = of.last_control.take() else {
            return;
        };
        if pc == last.instruction.next(last.pc) {
            return;
        }
        of.led_here = Some(last);
        let (smallest, largest) = (self.cache.smallest(), self.cache.largest());
        if smallest.is_some_and(|smallest| pc < smallest)
            && largest.is_some_and(|largest| last.pc > largest)
        {
            of.bypass = Some((last, Box::new(of.values)));
            self.accesses.register_writes += REGISTERS as u64;
        }
    }

    /// Executes an instruction that has an entry in the cache, or gets one.
    fn access(&mut self, thread: usize, executed: &Executed, missed: bool) {
        let (pc, instruction) = (executed.pc, executed.instruction);
        let operands = self.read_operands(thread, &instruction);
        let often = self.sizes.often();
        let entry = self.entry(pc, pc);
        entry.instruction = Some(instruction);
        entry.operands = operands;
        entry.accesses += 1;
        entry.missed += u64::from(missed);
        entry.misses = entry.missed >= often;
        if !instruction.class.is_control() {
            self.reach_block(thread, pc, operands);
        }
        self.add_producers(operands, pc);
        let of = &mut self.threads[thread];
        if self.cache.smallest() == Some(pc) && !of.is_entered {
            of.begin_region();
        }
        self.track(thread, executed);
        self.check_readiness(pc);
    }

    /// The entry of the instruction at `pc`, allocated if necessary; the entry of `keep` is not
    /// evicted.
    fn entry(&mut self, pc: u64, keep: u64) -> &mut Entry {
        self.accesses.instruction_cache += 1;
        if self.cache.get(pc).is_none() {
            return self.cache.allocate(pc, keep);
        }
        self.cache.get_mut(pc).expect("it is there")
    }

    /// Allocates entries for predecessors that have none; they get their own predecessors when they
    /// are executed again.
    fn add_producers(&mut self, operands: Operands, keep: u64) {
        for operand in operands.iter().flatten().flatten() {
            if let Producer::Instruction(pc) = operand.producer {
                self.entry(pc, keep);
            }
        }
    }

    /// A critical instruction other than control flow is executed: its basic block is part of the
    /// region, and so is the control flow that led to it.
    fn reach_block(&mut self, thread: usize, pc: u64, operands: Operands) {
        let of = &mut self.threads[thread];
        of.is_block_critical = true;
        let led_here = of.led_here.take();
        let uses = operands.iter().flatten().flatten();
        let mut bypassed = None;
        if let Some((branch, checkpoint)) = &of.bypass
            && uses.clone().next().is_some()
        {
            self.accesses.register_reads += uses.clone().count() as u64;
            // The branch supplies the values that are used here if they have not changed since.
            let is_supplied = uses.map(|one| usize::from(one.register)).all(|register| {
                checkpoint[register].is_some() && checkpoint[register] == of.values[register]
            });
            bypassed = is_supplied.then_some(*branch);
            of.bypass = None;
        }
        for branch in [led_here, bypassed].into_iter().flatten() {
            let entry = self.entry(branch.pc, pc);
            entry.instruction = Some(branch.instruction);
            entry.operands = branch.operands;
            self.add_producers(branch.operands, pc);
            self.check_readiness(branch.pc);
        }
    }

    /// Tracks the values of the registers with which the region begins (Tables III to V).
    fn track(&mut self, thread: usize, executed: &Executed) {
        let Some(entry) = self.cache.get(executed.pc).copied() else {
            return;
        };
        for register in dead(&entry).map(|operand| operand.register) {
            if let Some(value) = self.threads[thread].values[usize::from(register)] {
                self.receive(thread, Begins::Operand(register), value);
            }
        }
        let Some((register, value)) = result(&executed.instruction).zip(executed.value) else {
            return;
        };
        let place = usize::from(register);
        let of = &self.threads[thread];
        let rows = [
            (Begins::Operand(register), of.in_rows[place]),
            (Begins::Result(register), of.result_rows[place]),
        ];
        for (begins, row) in rows {
            if let Some(Some(row)) = row {
                self.predictor.generate(row, value);
                self.accesses.register_writes += 1;
                self.states.update(begins, &self.predictor);
            }
        }
        if root_result(&entry).is_some() {
            let is_first = self.receive(thread, Begins::Result(register), value);
            if let Some(entry) = self.cache.get_mut(executed.pc) {
                entry.begins |= is_first;
            }
        }
    }

    /// A register has this value when the region is executed; the first value in a pass is the IN
    /// value. Returns whether it is. A register with a user routine's value is computed for each
    /// packet.
    fn receive(&mut self, thread: usize, begins: Begins, value: u64) -> bool {
        let of = &mut self.threads[thread];
        let row = match begins {
            Begins::Operand(register) => &mut of.in_rows[usize::from(register)],
            Begins::Result(register) => &mut of.result_rows[usize::from(register)],
        };
        if row.is_some() {
            return false;
        }
        let mut arguments = of.arguments.iter();
        *row = Some(self.predictor.receive(begins, value));
        self.accesses.register_writes += 1;
        self.states.update(begins, &self.predictor);
        if let Some(argument) = arguments.position(|&argument| argument == value) {
            self.states.matches_argument(begins, argument);
        }
        true
    }

    /// Whether the operands of an instruction come from ready instructions or from roots. Control
    /// flow is ready if its target is ready or outside of the region.
    fn is_ready(&self, pc: u64) -> bool {
        let Some((entry, instruction)) = self
            .cache
            .get(pc)
            .and_then(|entry| Some((entry, entry.instruction?)))
        else {
            return false;
        };
        if !is_offloadable(&instruction) {
            return false;
        }
        let is_ready = |pc| self.cache.get(pc).map(|entry| entry.ready);
        match instruction.class {
            Class::JumpRegister => true,
            Class::Branch | Class::Jump => is_ready(instruction.jump_target(pc, 0)).unwrap_or(true),
            _ => entry.operands.is_some_and(|operands| {
                operands
                    .iter()
                    .flatten()
                    .all(|operand| match operand.producer {
                        Producer::Invalid => false,
                        Producer::Dead | Producer::Address(_) => true,
                        Producer::Instruction(pc) => is_ready(pc) == Some(true),
                    })
            }),
        }
    }

    /// Updates the readiness of the instruction at `pc`, and then that of its dependents. An
    /// instruction stays ready, since its operands came from ready instructions once; control flow
    /// is ready as long as its target is.
    fn check_readiness(&mut self, pc: u64) {
        let mut candidates = vec![pc];
        while let Some(pc) = candidates.pop() {
            let is_ready = self.is_ready(pc);
            let Some(entry) = self.cache.get_mut(pc) else {
                continue;
            };
            let was_ready = entry.ready;
            entry.ready = is_ready || was_ready && !entry.is_control();
            if entry.ready && !was_ready {
                let waiting = self.cache.iter().filter(|entry| !entry.ready);
                candidates.extend(waiting.map(|entry| entry.pc));
            }
        }
    }

    /// Ends the epoch: the ready instructions with ready registers are a region, and all structures
    /// are reset.
    fn end_epoch(&mut self) -> Epoch {
        let procedure = self.region_of.take().flatten();
        let region = Region::of(&self.cache, &self.states, procedure);
        let ready = self.cache.iter().filter(|entry| entry.ready);
        let mut ready: Vec<u64> = ready.map(|entry| entry.pc).collect();
        ready.sort_unstable();
        self.cache.clear();
        self.predictor.clear();
        self.states = RegisterStates::default();
        for of in &mut self.threads {
            *of = Thread {
                calls: std::mem::take(&mut of.calls),
                is_calling: of.is_calling,
                values: of.values,
                arguments: std::mem::take(&mut of.arguments),
                ..Thread::default()
            };
        }
        self.misses = 0;
        Epoch { region, ready }
    }
}

/// Whether a load has missed the second-level cache, or the only private one. A load that finds its
/// line in flight to the first-level cache does not look up the second level.
pub fn misses_second_level(executed: &Executed) -> bool {
    matches!(executed.found, Some(Found::Line(source)) if source != Source::SecondLevel)
}
