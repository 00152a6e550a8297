//! One core: execution and timing of its instructions.
//!
//! It has a pipeline of five stages without a branch predictor, and issues one instruction a cycle,
//! in order, as soon as its operands are ready. The text only gives the latency of the scratchpad;
//! the constants below are chosen.

use super::Shared;
use super::frames::{Fate, Frame};
use super::instruction_cache::{InstructionCache, LINE_BYTES};
use super::registers::{FRAME, NOTES, REGISTERS, SCRATCHPAD, register, run};
use super::scratchpad::WORD_BYTES;
use riscv::{
    Class, Instruction, Operation, SINK, branch_taken, decode, disassemble, evaluate_integer,
    is_compressed,
};

/// No cycle.
pub(super) const NEVER: u64 = u64::MAX;
/// Cycles lost after a jump or a taken branch, which is resolved in the third stage.
const JUMP_CYCLES: u64 = 2;
/// Cycles until a product is ready.
const MULTIPLY_CYCLES: u64 = 3;
/// Cycles until a quotient is ready and another division can begin: two bits a cycle.
const DIVIDE_CYCLES: u64 = 34;
/// The number of the stack pointer.
const STACK_POINTER: u8 = 2;
/// The number of the first argument's register, `a0`.
const ARGUMENT: usize = 10;
/// Each of the address ranges that are not host memory ends here at the latest.
const RANGE_BYTES: u64 = 0x100_0000;

/// A load of host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostLoad {
    /// Its number.
    pub number: u64,
    pub address: u64,
    pub bytes: u8,
    /// The core of the host whose first-level cache receives the line.
    pub steer: Option<u16>,
}

/// The target of an address.
enum Place {
    Scratchpad(u64),
    Register(u64),
    Frame(u64),
    Host,
}

impl Place {
    fn of(address: u64) -> Place {
        let offset = |start: u64| {
            address
                .checked_sub(start)
                .filter(|&offset| offset < RANGE_BYTES)
        };
        if let Some(offset) = offset(SCRATCHPAD) {
            Place::Scratchpad(offset)
        } else if let Some(offset) = offset(REGISTERS) {
            Place::Register(offset)
        } else if let Some(offset) = offset(FRAME) {
            Place::Frame(offset)
        } else {
            Place::Host
        }
    }
}

/// The event, other than a cycle, that a core waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
pub(super) enum Waits {
    Nothing,
    /// A frame, in a load of `NEXT`.
    Frame,
    /// Host memory: for a value, or for room for another load.
    Host,
}

#[derive(Clone, Debug, state::State)]
pub(super) struct Core {
    #[state(fixed)]
    number: usize,
    pub pc: u64,
    registers: [u64; 65],
    /// The first cycle in which each register can be read.
    ready: [u64; 32],
    /// The registers that wait for values from host memory, a bit for each.
    pending: u32,
    /// Outstanding loads of host memory, each with the encoding of its instruction.
    #[state(slice)]
    loads: Vec<Option<u32>>,
    /// The cycle in which it issues next.
    pub next: u64,
    pub waits: Waits,
    cache: InstructionCache,
    /// Its frame and the frame's number.
    frame: Option<(u64, Frame)>,
    steer: Option<u16>,
    /// Number of loads that found no host memory.
    faults: u64,
    /// Instructions since it last requested a frame.
    since: u64,
    /// The remaining instructions of the untrusted code; 0 while it executes firmware.
    budget: u64,
    /// The values of `RUN_ARGUMENT`, `RUN_BUDGET` and `RUN_ENDED`.
    run: [u64; 3],
    /// Firmware's program counter and registers while untrusted code runs: a second set of
    /// registers.
    own_pc: u64,
    own: [u64; 65],
    own_ready: [u64; 32],
}

impl Core {
    pub fn new(number: usize, entry: u64, shared: &Shared) -> Core {
        let spec = &shared.spec;
        Core {
            number,
            pc: entry,
            registers: [0; 65],
            ready: [0; 32],
            pending: 0,
            loads: vec![None; spec.host_loads as usize],
            next: 0,
            waits: Waits::Nothing,
            cache: InstructionCache::new(spec.instruction_cache_bytes, spec.instruction_cache_ways),
            frame: None,
            steer: None,
            faults: 0,
            since: 0,
            budget: 0,
            run: [0; 3],
            own_pc: entry,
            own: [0; 65],
            own_ready: [0; 32],
        }
    }

    fn wait(&mut self, waits: Waits) {
        self.waits = waits;
        self.next = NEVER;
    }

    /// Retries in `cycle` because the awaited event has happened, or may have.
    pub fn resume(&mut self, cycle: u64) {
        self.waits = Waits::Nothing;
        self.next = cycle;
    }

    /// Issues the instruction at its program counter in this cycle, if nothing stalls it. Returns
    /// the error of firmware; an error of untrusted code only ends that code.
    pub fn issue(&mut self, cycle: u64, shared: &mut Shared) -> Result<(), String> {
        let (is_running, pc) = (self.budget > 0, self.pc);
        match self.try_issue(cycle, shared) {
            Err(why) if is_running => {
                shared.statistics.runs_refused += 1;
                shared.refused_run.get_or_insert_with(|| {
                    format!("untrusted code on core {} at {pc:#x}: {why}", self.number)
                });
                self.end_run(run::REFUSED, cycle);
                Ok(())
            }
            tried => tried,
        }
    }

    /// Starts untrusted code. No firmware register is still waiting for a value.
    fn begin_run(&mut self, code: u64, cycle: u64, shared: &mut Shared) {
        let [argument, budget, _] = self.run;
        if budget == 0 {
            return;
        }
        shared.statistics.runs += 1;
        (self.own, self.own_ready) = (self.registers, self.ready);
        self.own_pc = self.pc;
        self.registers = [0; 65];
        self.registers[ARGUMENT] = argument;
        self.ready = [0; 32];
        self.budget = budget;
        self.pc = code;
        self.next = cycle + 1 + JUMP_CYCLES;
    }

    /// Returns to firmware. Values of the code's outstanding loads are discarded.
    fn end_run(&mut self, why: u64, cycle: u64) {
        self.run[2] = why;
        self.budget = 0;
        (self.registers, self.ready) = (self.own, self.own_ready);
        self.pc = self.own_pc;
        self.pending = 0;
        for load in self.loads.iter_mut().flatten() {
            *load = 0;
        }
        self.waits = Waits::Nothing;
        self.next = cycle + 1 + JUMP_CYCLES;
    }

    fn try_issue(&mut self, cycle: u64, shared: &mut Shared) -> Result<(), String> {
        let Some(i) = self.fetch(cycle, shared)? else {
            return Ok(());
        };
        if i.is_float() {
            return Err(not_its(&i, self.pc));
        }
        let is_running = self.budget > 0;
        if is_running && i.operation == Operation::Ebreak {
            self.end_run(run::DONE, cycle);
            return Ok(());
        }
        let used = [i.rs1, i.rs2, i.rd % SINK];
        if used
            .iter()
            .any(|&register| self.pending >> register & 1 != 0)
        {
            self.wait(Waits::Host);
            return Ok(());
        }
        let operands = [i.rs1, i.rs2];
        let ready = operands.map(|register| self.ready[usize::from(register)]);
        let ready = ready.into_iter().fold(cycle, u64::max);
        if ready > cycle {
            self.next = ready;
            return Ok(());
        }
        self.next = cycle + 1;
        if let Some(pc) = self.execute(&i, cycle, shared)? {
            shared.statistics.instructions += 1;
            self.since += 1;
            if is_running {
                self.pc = pc;
                shared.statistics.run_instructions += 1;
                self.budget -= 1;
                if self.budget == 0 {
                    shared.statistics.runs_over_budget += 1;
                    self.end_run(run::BUDGET, cycle);
                }
                return Ok(());
            }
            // A store to `RUN` has changed the program counter.
            if self.budget > 0 {
                self.own_pc = pc;
                return Ok(());
            }
            self.pc = pc;
            if self.since > shared.spec.max_instructions {
                return Err(format!(
                    "{} instructions without requesting a frame, which suggests an endless loop \
                     (server.dma_nic.processors.max_instructions)",
                    self.since
                ));
            }
        }
        Ok(())
    }

    /// The instruction at its program counter, unless it must first come from the scratchpad.
    fn fetch(&mut self, cycle: u64, shared: &mut Shared) -> Result<Option<Instruction>, String> {
        let half = |pc: u64, shared: &Shared| match Place::of(pc) {
            Place::Scratchpad(offset) => shared.scratchpad.read(offset, 2),
            _ => None,
        };
        let none = || "there is no instruction: firmware is in the scratchpad".to_string();
        let low = half(self.pc, shared).ok_or_else(none)? as u32;
        let (instruction, last) = match is_compressed(low as u16) {
            true => (decode(low), self.pc + 1),
            false => {
                let high = half(self.pc + 2, shared).ok_or_else(none)? as u32;
                (decode(high << 16 | low), self.pc + 3)
            }
        };
        // A line is four words, each of which takes a cycle in the crossbar.
        let mut at = cycle;
        for line in self.pc / LINE_BYTES..=last / LINE_BYTES {
            if !self.cache.look_up(line * LINE_BYTES) {
                shared.statistics.instruction_cache_misses += 1;
                let offset = line * LINE_BYTES - SCRATCHPAD;
                for word in 0..LINE_BYTES / WORD_BYTES {
                    at = shared
                        .scratchpad
                        .access(offset + word * WORD_BYTES, at + 1, 1);
                }
            }
        }
        if at > cycle {
            self.next = at + 1;
            return Ok(None);
        }
        Ok(Some(instruction))
    }

    /// Executes an instruction whose operands are ready; returns the address of the next one, or
    /// `None` if it must wait.
    fn execute(
        &mut self,
        i: &Instruction,
        cycle: u64,
        shared: &mut Shared,
    ) -> Result<Option<u64>, String> {
        let [a, b] = [i.rs1, i.rs2].map(|register| self.registers[usize::from(register)]);
        let mut pc = i.next(self.pc);
        if self.budget > 0 && !may_run(i.class) {
            return Err(format!(
                "{}, but such code only has integer arithmetic, jumps and loads",
                disassemble(i, self.pc)
            ));
        }
        let begins_run = || matches!(Place::of(i.address(a)), Place::Register(register::RUN));
        if i.class == Class::Store && self.pending != 0 && begins_run() {
            self.wait(Waits::Host);
            return Ok(None);
        }
        let (value, ready) = match i.class {
            Class::Alu => (evaluate_integer(i, self.pc, a, b), cycle + 1),
            Class::Multiply => (evaluate_integer(i, self.pc, a, b), cycle + MULTIPLY_CYCLES),
            Class::Divide => {
                self.next = cycle + DIVIDE_CYCLES;
                (evaluate_integer(i, self.pc, a, b), self.next)
            }
            Class::Branch => {
                if branch_taken(i.operation, a, b) {
                    pc = i.jump_target(self.pc, a);
                    self.next += JUMP_CYCLES;
                }
                (0, cycle)
            }
            Class::Jump | Class::JumpRegister => {
                pc = i.jump_target(self.pc, a);
                self.next += JUMP_CYCLES;
                (evaluate_integer(i, self.pc, a, b), cycle + 1)
            }
            Class::Load | Class::LoadReserved => match self.load(i, a, cycle, shared)? {
                Some(loaded) => loaded,
                None => return Ok(None),
            },
            Class::Store => {
                self.store(i, (a, b), cycle, shared)?;
                (0, cycle)
            }
            Class::Atomic | Class::StoreConditional => self.atomic(i, (a, b), cycle, shared)?,
            Class::Prefetch => {
                let address = i.address(a) / WORD_BYTES * WORD_BYTES;
                let is_data = i.operation != Operation::PrefetchI;
                if is_data && matches!(Place::of(address), Place::Host) {
                    let load = Instruction { rd: SINK, ..*i };
                    if !self.load_host(&load, (address, WORD_BYTES as u8), shared) {
                        return Ok(None);
                    }
                }
                (0, cycle)
            }
            // Accesses complete in order, one after the other.
            Class::Fence => (0, cycle),
            Class::FenceI => {
                self.cache.clear();
                (0, cycle)
            }
            _ => return Err(not_its(i, self.pc)),
        };
        // A load of host memory delivers its value later.
        if i.rd != SINK && self.pending >> i.rd & 1 == 0 {
            self.registers[usize::from(i.rd)] = value;
            // Results are written in program order.
            let before = &mut self.ready[usize::from(i.rd)];
            *before = ready.max(*before);
        }
        Ok(Some(pc))
    }

    /// The scratchpad offset of an access that lies entirely in it.
    fn in_scratchpad(
        &self,
        i: &Instruction,
        (address, offset): (u64, u64),
        shared: &Shared,
    ) -> Result<u64, String> {
        let bytes = u64::from(i.access_bytes());
        let size = shared.scratchpad.size();
        if offset + bytes > size {
            return Err(format!(
                "an access of {bytes} bytes to {address:#x}, but the scratchpad of {size} bytes \
                 ends at {:#x}",
                SCRATCHPAD + size
            ));
        }
        let stack_bytes = u64::from(shared.spec.stack_bytes);
        let stack = size - stack_bytes * (1 + self.number as u64);
        if i.rs1 == STACK_POINTER && offset < stack {
            return Err(format!(
                "an access of {bytes} bytes to {address:#x}, but the stack of {stack_bytes} bytes \
                 begins at {:#x}: it is overrun (server.dma_nic.processors.stack_bytes)",
                SCRATCHPAD + stack
            ));
        }
        Ok(offset)
    }

    /// The cycle in which all words of an access have been accepted, each by the bank of the
    /// scratchpad or by the port of the frames' buffer for `cycles` cycles. The core continues in
    /// it.
    fn access(
        &mut self,
        (is_frame, offset, bytes): (bool, u64, u8),
        cycle: u64,
        cycles: u64,
        shared: &mut Shared,
    ) -> u64 {
        let mut at = cycle;
        let last = offset + u64::from(bytes) - 1;
        for word in offset / WORD_BYTES..=last / WORD_BYTES {
            at = match is_frame {
                false => shared.scratchpad.access(word * WORD_BYTES, at + 1, cycles),
                true => shared.access_frame(at + 1),
            };
        }
        self.next = at;
        at
    }

    /// The part of its frame that an access refers to.
    fn frame_range(
        &self,
        (offset, bytes): (u64, u8),
        shared: &Shared,
    ) -> Result<std::ops::Range<usize>, String> {
        if self.frame.is_none() {
            return Err("an access to a frame, but the core has none".to_string());
        }
        let end = offset + u64::from(bytes);
        if end > shared.frame_bytes {
            return Err(format!(
                "an access of {bytes} bytes at {offset} of its frame, whose buffer has {} bytes",
                shared.frame_bytes
            ));
        }
        Ok(offset as usize..end as usize)
    }

    /// The value of a load and its cycle; `None` if it must wait.
    fn load(
        &mut self,
        i: &Instruction,
        a: u64,
        cycle: u64,
        shared: &mut Shared,
    ) -> Result<Option<(u64, u64)>, String> {
        let (address, bytes) = (i.address(a), i.access_bytes());
        let is_reserving = i.class == Class::LoadReserved;
        let place = Place::of(address);
        if is_reserving && !matches!(place, Place::Scratchpad(_)) {
            return Err(only_in_scratchpad(address));
        }
        let (raw, ready) = match place {
            Place::Scratchpad(offset) => {
                let offset = self.in_scratchpad(i, (address, offset), shared)?;
                if is_reserving {
                    check_alignment(i, address)?;
                    shared.scratchpad.reserve(self.number, offset);
                }
                let at = self.access((false, offset, bytes), cycle, 1, shared);
                (shared.scratchpad.read(offset, bytes).unwrap_or(0), at + 1)
            }
            Place::Frame(offset) => {
                let range = self.frame_range((offset, bytes), shared)?;
                let at = self.access((true, offset, bytes), cycle, 1, shared);
                let content = self
                    .frame
                    .iter()
                    .flat_map(|(_, frame)| &frame.bytes[range.clone()]);
                let raw = content
                    .rev()
                    .fold(0, |value, &byte| value << 8 | u64::from(byte));
                (raw, at + 1)
            }
            Place::Register(_) if self.budget > 0 => {
                return Err(format!("a load of register {address:#x} by untrusted code"));
            }
            Place::Register(offset) => {
                if bytes != WORD_BYTES as u8 || offset % WORD_BYTES != 0 {
                    return Err(format!(
                        "a load of {bytes} bytes from {address:#x}, but registers have 8"
                    ));
                }
                match self.read_register(offset, address, cycle, shared)? {
                    Some(value) => (value, cycle + 2),
                    None => return Ok(None),
                }
            }
            Place::Host => match self.load_host(i, (address, bytes), shared) {
                true => (0, cycle + 1),
                false => return Ok(None),
            },
        };
        Ok(Some((i.load_value(raw), ready)))
    }

    /// Begins a load of host memory; false if it must wait for room.
    fn load_host(
        &mut self,
        i: &Instruction,
        (address, bytes): (u64, u8),
        shared: &mut Shared,
    ) -> bool {
        let Some(slot) = self.loads.iter().position(Option::is_none) else {
            self.wait(Waits::Host);
            return false;
        };
        // A load without a destination register needs no instruction: zeros are not one.
        self.loads[slot] = Some(if i.rd == SINK { 0 } else { i.bits });
        if i.rd != SINK {
            self.pending |= 1 << i.rd;
        }
        shared.statistics.host_loads += 1;
        shared.statistics.host_loads_steered += u64::from(self.steer.is_some());
        shared.statistics.run_host_loads += u64::from(self.budget > 0);
        shared.loads.push(HostLoad {
            number: (self.number as u64) << 8 | slot as u64,
            address,
            bytes,
            steer: self.steer,
        });
        true
    }

    /// Handles the data of a load of host memory that has returned in this cycle or just before it;
    /// `None` if there is no memory.
    pub fn loaded(&mut self, slot: usize, raw: Option<u64>, cycle: u64, shared: &mut Shared) {
        let Some(bits) = self.loads.get_mut(slot).and_then(Option::take) else {
            return;
        };
        if raw.is_none() {
            self.faults += 1;
            shared.statistics.host_load_faults += 1;
        }
        if raw.is_none() && bits != 0 && self.budget > 0 {
            shared.statistics.runs_without_memory += 1;
            return self.end_run(run::NO_MEMORY, cycle);
        }
        if bits != 0 {
            let i = decode(bits);
            self.pending &= !(1 << i.rd);
            self.registers[usize::from(i.rd)] = i.load_value(raw.unwrap_or(0));
            self.ready[usize::from(i.rd)] = cycle;
        }
        if self.waits == Waits::Host {
            self.resume(cycle);
        }
    }

    /// A register's value; `None` if the core must wait for it.
    fn read_register(
        &mut self,
        offset: u64,
        address: u64,
        cycle: u64,
        shared: &mut Shared,
    ) -> Result<Option<u64>, String> {
        let frame = self.frame.as_ref().map(|(_, frame)| frame);
        let of_frame = |value: fn(&Frame, &Shared) -> u64| {
            let value = frame.map(|frame| value(frame, shared));
            value.ok_or_else(|| "it asks about its frame, but has none".to_string())
        };
        Ok(Some(match offset {
            register::CORE => self.number as u64,
            register::CORES => u64::from(shared.spec.cores),
            register::QUEUES => u64::from(shared.queues),
            register::HOST_CORES => shared.host_cores as u64,
            register::STACK => {
                let below = u64::from(shared.spec.stack_bytes) * self.number as u64;
                SCRATCHPAD + shared.scratchpad.size() - below
            }
            register::CYCLE => cycle,
            register::NEXT => {
                if self.frame.is_some() {
                    return Err(
                        "it requests another frame before it has delivered, sent or dropped its own"
                            .to_string(),
                    );
                }
                self.since = 0;
                let Some((number, mut frame)) = shared.frames.take() else {
                    self.wait(Waits::Frame);
                    return Ok(None);
                };
                shared.statistics.frames += 1;
                let bytes = frame.bytes.len() as u64;
                frame.bytes.resize(shared.frame_bytes as usize, 0);
                self.frame = Some((number, frame));
                bytes
            }
            register::HASH => of_frame(|frame, _| u64::from(frame.hash))?,
            register::QUEUE => {
                of_frame(|frame, shared| u64::from(crate::rss::queue(frame.hash, shared.queues)))?
            }
            register::FAULTS => std::mem::take(&mut self.faults),
            register::RUN_ENDED => self.run[2],
            register::DRAIN => {
                if self.loads.iter().any(Option::is_some) {
                    self.wait(Waits::Host);
                    return Ok(None);
                }
                0
            }
            _ => {
                return Err(format!(
                    "a load from {address:#x}, where no register can be read"
                ));
            }
        }))
    }

    fn write_register(
        &mut self,
        offset: u64,
        value: u64,
        cycle: u64,
        shared: &mut Shared,
    ) -> Result<(), String> {
        let fate = match offset {
            register::RUN_ARGUMENT => {
                self.run[0] = value;
                return Ok(());
            }
            register::RUN_BUDGET => {
                self.run[1] = value;
                return Ok(());
            }
            register::RUN => {
                self.begin_run(value, cycle, shared);
                return Ok(());
            }
            register::NOTE => {
                let Some((_, frame)) = &mut self.frame else {
                    return Err("it notes a word for its frame, but has none".to_string());
                };
                if frame.notes.len() == NOTES {
                    return Err(format!("more than {NOTES} notes of a frame"));
                }
                frame.notes.push(value);
                return Ok(());
            }
            register::WINDOW | register::WINDOW_BYTES => {
                shared.window[usize::from(offset == register::WINDOW_BYTES)] = value;
                return Ok(());
            }
            register::STEER => {
                let named = (value != u64::MAX).then_some(value);
                if let Some(core) = named.filter(|&core| core >= shared.host_cores as u64) {
                    return Err(format!(
                        "a steering tag for core {core} of the host, which has {}: it must be one \
                         of them, or -1 for none",
                        shared.host_cores
                    ));
                }
                self.steer = named.map(|core| core as u16);
                return Ok(());
            }
            register::DELIVER if value >= u64::from(shared.queues) => {
                return Err(format!(
                    "a frame for receive ring {value}, but the host has {} (server.dma_nic.queues)",
                    shared.queues
                ));
            }
            register::SEND if value == 0 || value > shared.frame_bytes => {
                return Err(format!(
                    "a frame of {value} bytes to send; it must have 1 to {}",
                    shared.frame_bytes
                ));
            }
            register::DELIVER => Fate::Delivered(value),
            register::SEND => Fate::Sent(value),
            register::DROP => Fate::Dropped,
            _ => {
                return Err(format!(
                    "a store to register {offset:#x}, which cannot be written"
                ));
            }
        };
        let Some((number, mut frame)) = self.frame.take() else {
            return Err("it finishes a frame, but has none".to_string());
        };
        let bytes = match fate {
            Fate::Sent(bytes) => bytes as usize,
            _ => frame.room as usize,
        };
        frame.bytes.truncate(bytes);
        let Shared { frames, left, .. } = shared;
        frames.finish(number, fate, frame, |fate, frame| left.push((fate, frame)));
        Ok(())
    }

    fn store(
        &mut self,
        i: &Instruction,
        (a, b): (u64, u64),
        cycle: u64,
        shared: &mut Shared,
    ) -> Result<(), String> {
        let (address, bytes) = (i.address(a), i.access_bytes());
        match Place::of(address) {
            Place::Scratchpad(offset) => {
                let offset = self.in_scratchpad(i, (address, offset), shared)?;
                self.access((false, offset, bytes), cycle, 1, shared);
                shared.scratchpad.write(offset, bytes, b);
            }
            Place::Frame(offset) => {
                let range = self.frame_range((offset, bytes), shared)?;
                self.access((true, offset, bytes), cycle, 1, shared);
                if let Some((_, frame)) = &mut self.frame {
                    frame.bytes[range].copy_from_slice(&b.to_le_bytes()[..usize::from(bytes)]);
                }
            }
            Place::Register(offset) => {
                if bytes != WORD_BYTES as u8 || offset % WORD_BYTES != 0 {
                    return Err(format!(
                        "a store of {bytes} bytes to {address:#x}, but registers have 8"
                    ));
                }
                self.write_register(offset, b, cycle, shared)?;
            }
            Place::Host => {
                return Err(format!(
                    "a store to {address:#x}: host memory can only be loaded from, data for it \
                     must go through a receive ring"
                ));
            }
        }
        Ok(())
    }

    /// An atomic, which occupies its word's bank from its read to its write; or an `sc`.
    fn atomic(
        &mut self,
        i: &Instruction,
        (a, b): (u64, u64),
        cycle: u64,
        shared: &mut Shared,
    ) -> Result<(u64, u64), String> {
        let (address, bytes) = (i.address(a), i.access_bytes());
        let Place::Scratchpad(offset) = Place::of(address) else {
            return Err(only_in_scratchpad(address));
        };
        let offset = self.in_scratchpad(i, (address, offset), shared)?;
        check_alignment(i, address)?;
        let scratchpad = &mut shared.scratchpad;
        if i.class == Class::StoreConditional {
            let succeeds = scratchpad.take_reservation(self.number, offset);
            if succeeds {
                scratchpad.write(offset, bytes, b);
            }
            let at = self.access((false, offset, bytes), cycle, 1, shared);
            return Ok((u64::from(!succeeds), at + 1));
        }
        let old = scratchpad.read(offset, bytes).unwrap_or(0);
        scratchpad.write(offset, bytes, i.atomic_result(old, b));
        let at = self.access((false, offset, bytes), cycle, 2, shared);
        Ok((i.load_value(old), at + 1))
    }
}

/// Whether untrusted code may execute such instructions: only those that change nothing but
/// registers.
fn may_run(class: Class) -> bool {
    matches!(
        class,
        Class::Alu
            | Class::Multiply
            | Class::Divide
            | Class::Branch
            | Class::Jump
            | Class::JumpRegister
            | Class::Load
            | Class::Prefetch
    )
}

fn not_its(i: &Instruction, pc: u64) -> String {
    format!(
        "{}, but its cores only have integer instructions, multiplication, division and atomics \
         (RV64IMAC)",
        disassemble(i, pc)
    )
}

fn only_in_scratchpad(address: u64) -> String {
    format!("an atomic access to {address:#x}, but only accesses to the scratchpad can be atomic")
}

fn check_alignment(i: &Instruction, address: u64) -> Result<(), String> {
    match address.is_multiple_of(u64::from(i.access_bytes())) {
        true => Ok(()),
        false => Err(format!(
            "an atomic access to {address:#x}, which is not aligned"
        )),
    }
}
