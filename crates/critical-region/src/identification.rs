//! Identification of critical regions: Section 4.1, and the register values of Section 4.2.

use crate::convention::{REGISTERS, is_local_control, is_offloadable, operands, result};
use crate::instruction_cache::{ContextInstructionCache, Entry, Operand};
use crate::prediction::ValuePredictor;
use crate::region::{Region, dead, given_result};
use crate::register_map::{Producer, RegisterMap};
use crate::register_state::RegisterStates;
use fabric::Source;
use pipeline::{Executed, Found};
use riscv::{Class, Instruction, Register};

/// How large the structures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Entries of the context instruction cache.
    pub instructions: usize,
    /// Its ways.
    pub ways: usize,
    /// Rows of the IN value table.
    pub in_values: usize,
    /// Rows of the GEN value table.
    pub gen_values: usize,
    /// Misses of the second-level cache that make an epoch.
    pub epoch_misses: u64,
}

impl Default for Sizes {
    /// Those of Sections 4 and 6.4.
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

/// What an epoch ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// The ready instructions whose registers are ready.
    pub region: Region,
    /// The addresses of all ready instructions, in order: the region, if all registers were known.
    pub ready: Vec<u64>,
}

/// The operands of an instruction; `None` if one of them is a floating-point register.
type Operands = Option<[Option<Operand>; 2]>;

/// Registers, as far as instructions have been seen to write them.
type Values = [Option<u64>; REGISTERS];

/// A transfer of control.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    pc: u64,
    instruction: Instruction,
    operands: Operands,
}

/// What is kept of each hart of a core.
#[derive(Clone, Debug, Default)]
struct Thread {
    map: RegisterMap,
    values: Values,
    /// For each register that has had its IN value in this pass through the region, its row.
    in_rows: [Option<usize>; REGISTERS],
    /// What user routines returned for the packet that the hart serves.
    arguments: Vec<u64>,
    /// The control flow that was executed last, if nothing has followed it yet.
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

/// The identification hardware of a core. Its harts share all but what belongs to their registers.
#[derive(Clone, Debug)]
pub struct Identification {
    cache: ContextInstructionCache,
    predictor: ValuePredictor,
    states: RegisterStates,
    threads: Vec<Thread>,
    sizes: Sizes,
    misses: u64,
}

impl Identification {
    /// That of a core with so many harts, at the beginning of an epoch.
    pub fn new(sizes: Sizes, threads: usize) -> Identification {
        Identification {
            cache: ContextInstructionCache::new(sizes.instructions, sizes.ways),
            predictor: ValuePredictor::new(sizes.in_values, sizes.gen_values),
            states: RegisterStates::default(),
            threads: vec![Thread::default(); threads],
            sizes,
            misses: 0,
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

    /// What a register of a hart holds, if an instruction has been seen to write it.
    pub fn value(&self, thread: usize, register: Register) -> Option<u64> {
        self.threads[thread].values[usize::from(register)]
    }

    /// User routines have returned these values for the packet that `thread` serves from now on.
    pub fn set_arguments(&mut self, thread: usize, arguments: &[u64]) {
        self.threads[thread].arguments = arguments.to_vec();
    }

    /// A hart has committed an instruction. Returns what the epoch ends with, if it ends one.
    pub fn committed(&mut self, thread: usize, executed: &Executed) -> Option<Epoch> {
        let (pc, instruction) = (executed.pc, executed.instruction);
        self.follow_control(thread, pc);
        let missed = misses_second_level(executed);
        let is_control = is_local_control(&instruction);
        let originates_here = is_control && self.threads[thread].is_block_critical;
        if self.cache.get(pc).is_some() || missed || originates_here {
            self.access(thread, executed, missed);
        }
        if instruction.class.is_control() {
            let operands = self.operands(thread, &instruction);
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
        of.map.executed(pc, &instruction);
        if let Some(register) = result(&instruction) {
            of.values[usize::from(register)] = executed.value;
        }
        self.misses += u64::from(missed);
        (self.misses == self.sizes.epoch_misses).then(|| self.end_epoch())
    }

    /// The operands of an instruction, by Table II.
    fn operands(&self, thread: usize, instruction: &Instruction) -> Operands {
        let map = &self.threads[thread].map;
        let operand = |register: Register| Operand {
            register,
            producer: map.producer(register),
        };
        operands(instruction).map(|registers| registers.map(|one| one.map(operand)))
    }

    /// The instruction at `pc` follows: control flow that was not passed through has led to it.
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
        }
    }

    /// An instruction that is in the cache, or comes into it, is executed.
    fn access(&mut self, thread: usize, executed: &Executed, missed: bool) {
        let (pc, instruction) = (executed.pc, executed.instruction);
        let operands = self.operands(thread, &instruction);
        let entry = self.entry(pc, pc);
        entry.instruction = Some(instruction);
        entry.operands = operands;
        entry.accesses += 1;
        entry.misses |= missed;
        if !instruction.class.is_control() {
            self.reach_block(thread, pc, operands);
        }
        self.add_producers(operands, pc);
        if self.cache.smallest() == Some(pc) {
            let of = &mut self.threads[thread];
            of.map.begin_region();
            of.in_rows = [None; REGISTERS];
        }
        self.track(thread, executed);
        self.check_readiness(pc);
    }

    /// The entry of the instruction at `pc`, which is made if it is not there; `keep` stays.
    fn entry(&mut self, pc: u64, keep: u64) -> &mut Entry {
        if self.cache.get(pc).is_none() {
            return self.cache.allocate(pc, keep);
        }
        self.cache.get_mut(pc).expect("it is there")
    }

    /// Predecessors that are not in the cache are allocated, and get their own sources when they
    /// are executed again.
    fn add_producers(&mut self, operands: Operands, keep: u64) {
        for operand in operands.iter().flatten().flatten() {
            if let Producer::Instruction(pc) = operand.producer {
                self.entry(pc, keep);
            }
        }
    }

    /// A critical instruction that is no control flow is executed: the basic block is part of the
    /// region, and so is control flow that led to it.
    fn reach_block(&mut self, thread: usize, pc: u64, operands: Operands) {
        let of = &mut self.threads[thread];
        of.is_block_critical = true;
        let led_here = of.led_here.take();
        let uses = operands.iter().flatten().flatten();
        let mut bypassed = None;
        if let Some((branch, checkpoint)) = &of.bypass
            && uses.clone().next().is_some()
        {
            // The branch supplies the values that are used now if it left them as they are.
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

    /// Follows the values of the registers with which the region begins (Tables III to V).
    fn track(&mut self, thread: usize, executed: &Executed) {
        let Some(entry) = self.cache.get(executed.pc).copied() else {
            return;
        };
        let given = given_result(&entry);
        for register in dead(&entry).map(|operand| operand.register) {
            let Some(value) = self.threads[thread].values[usize::from(register)] else {
                continue;
            };
            match given {
                // The result is predicted in place of the operands, unless a routine computes
                // them.
                Some(_) => self.compare(thread, register, value),
                None => self.receive(thread, register, value),
            }
        }
        let Some((register, value)) = result(&executed.instruction).zip(executed.value) else {
            return;
        };
        match self.threads[thread].in_rows[usize::from(register)] {
            Some(row) => {
                self.predictor.generate(row, value);
                self.states.update(register, &self.predictor);
            }
            None if given.is_some() => self.receive(thread, register, value),
            None => {}
        }
    }

    /// A register has this value when the region is executed; its first one in a pass is the IN
    /// value.
    fn receive(&mut self, thread: usize, register: Register, value: u64) {
        let row = &mut self.threads[thread].in_rows[usize::from(register)];
        if row.is_none() {
            *row = Some(self.predictor.receive(register, value));
            self.states.update(register, &self.predictor);
            self.compare(thread, register, value);
        }
    }

    /// A register whose value a user routine returned is computed for each packet.
    fn compare(&mut self, thread: usize, register: Register, value: u64) {
        let mut arguments = self.threads[thread].arguments.iter();
        if let Some(argument) = arguments.position(|&argument| argument == value) {
            self.states.matches_argument(register, argument);
        }
    }

    /// Whether the operands of an instruction come from ready instructions or from roots. Control
    /// flow is ready if its target is, or leads out of the region.
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
                        Producer::Dead => true,
                        Producer::Instruction(pc) => is_ready(pc) == Some(true),
                    })
            }),
        }
    }

    /// The instruction at `pc` may have become ready, and then others may be. An instruction stays
    /// ready, as its operands came from ready instructions once; control flow is ready as long as
    /// its target is.
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

    /// The epoch ends: the ready instructions with ready registers are a region, and everything is
    /// as it was in the beginning.
    fn end_epoch(&mut self) -> Epoch {
        let region = Region::of(&self.cache, &self.states);
        let ready = self.cache.iter().filter(|entry| entry.ready);
        let mut ready: Vec<u64> = ready.map(|entry| entry.pc).collect();
        ready.sort_unstable();
        self.cache.clear();
        self.predictor.clear();
        self.states = RegisterStates::default();
        for of in &mut self.threads {
            *of = Thread {
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
/// line on the way to the first-level cache does not look for it in the second level.
pub fn misses_second_level(executed: &Executed) -> bool {
    matches!(executed.found, Some(Found::Line(source)) if source != Source::SecondLevel)
}
