//! Functional runs: a program's results, without timing.
//!
//! The harts take turns. In a round each executes the same number of instructions, one per cycle of
//! the server's clock, so programs see the time of a machine on which nothing waits. Devices are
//! the agents of timed runs, and their actions take no time.

use crate::clint::{Clint, TICK};
use crate::error::RunError;
use crate::htif::{Htif, main_variables};
use crate::limits::Spent;
use crate::machine::{
    Personality, UntimedServer, bare_metal_ram, describe_crash, find_memory, in_vain, linux_ram,
    out_of_memory, place, stack_of,
};
use crate::memory_map::CLINT;
use crate::traces::Writer;
use fabric::{
    AddressRange, Agent, AgentId, Clock, CoreId, LineAddress, Ram, RequestKind, Time,
    UntimedAgents, UntimedMemory,
};
use linux::{Allowance, Ending, Fault, Linux};
use pipeline::MisalignedAccesses;
use riscv::elf::Image;
use riscv::interpreter::{Machine, Memory, Registers, Step};
use riscv::paged::{Behind, PAGE_BYTES, PageTable, Paged, PagedMemory};
use riscv::threaded::Threaded;
use riscv::{
    Cause, Class, Counters, Hart, Instruction, Names, Operation, Privilege, SINK, Trap, csr_update,
};
use std::sync::Arc;
use trace::{Retired, SharedLog};

/// The alignment of the stack pointer at function calls.
const STACK_ALIGNMENT: u64 = 16;
/// The initial `mstatus.FS` of a program: initial.
const FLOATING_POINT_IS_ON: u64 = 1 << 13;
/// Instructions of each hart in a round. A hart that spins does so until the end of its round, so
/// long rounds delay the harts that others wait for; short rounds switch more often.
const ROUND_CYCLES: u64 = 1000;
/// The same if only one hart is active. The user can stop the run between rounds.
const LONE_ROUND_CYCLES: u64 = 100_000;

/// Memory shared with agents.
#[derive(Default)]
struct SharedMemory(PagedMemory);

impl UntimedMemory for SharedMemory {
    fn read(&mut self, address: u64, bytes: &mut [u8]) {
        self.0.copy_out(address, bytes);
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        self.0.copy_in(address, bytes);
    }
}

/// The current hart's view beyond its registers.
#[derive(Default)]
struct Bus {
    memory: SharedMemory,
    agents: UntimedAgents,
    hart: usize,
    /// The cycle of the instruction that is executed singly, and its time.
    cycle: u64,
    now: Time,
    /// Whether the hart has accessed an agent in this round, or has used up its memory.
    ends_round: bool,
    /// Whether an agent has not answered a hart, and never will.
    unanswered: bool,
    /// Maximum number of pages that the guest may touch.
    page_limit: u64,
    /// The value that the interpreter wrote last.
    written: u64,
}

impl Bus {
    /// Memory at the addresses of `ram`, with its contents in some ranges. Stores to other ranges
    /// are observed.
    fn with(
        ram: &Ram,
        loaded: &[(u64, u64)],
        protected: &[AddressRange],
        observed: &[AddressRange],
    ) -> Result<Bus, RunError> {
        let ranges = |ranges: &[AddressRange]| {
            let ranges = ranges.iter().map(|range| range.start..range.end());
            ranges.collect()
        };
        let mut memory = PagedMemory::new(ranges(ram.ranges()))
            .protect(ranges(protected))
            .observe(ranges(observed));
        for &(address, length) in loaded.iter().filter(|(_, length)| *length > 0) {
            let (first, last) = (
                LineAddress::of(address),
                LineAddress::of(address + length - 1),
            );
            for line in first.0..=last.0 {
                let line = LineAddress(line);
                memory.copy_in(line.base(), &ram.read_line(line).0);
            }
        }
        // The agents only ask where memory is.
        let map = Ram::new(ram.ranges().to_vec())?;
        Ok(Bus {
            memory: SharedMemory(memory),
            agents: UntimedAgents::new(map),
            page_limit: u64::MAX,
            ..Bus::default()
        })
    }

    /// Accesses the agent at an address, if there is one: returns its answer, or `None` if it
    /// refuses.
    fn ask(&mut self, address: u64, bytes: u8, kind: RequestKind) -> Option<Option<u64>> {
        let agent = self.agents.owner(address)?;
        if !address.is_multiple_of(u64::from(bytes)) {
            return Some(None);
        }
        self.ends_round = true;
        let core = CoreId(self.hart as u16);
        let memory = &mut self.memory;
        let answer = self.agents.request(self.now, core, agent, kind, memory);
        self.unanswered |= answer.is_none();
        Some(answer.unwrap_or(Ok(0)).ok())
    }
}

impl Memory for Bus {
    fn read(&mut self, address: u64, bytes: u8) -> Option<u64> {
        match self.ask(address, bytes, RequestKind::Read { address, bytes }) {
            Some(answer) => answer,
            None => {
                let read = self.memory.0.read(address, bytes);
                self.ends_round |= self.memory.0.is_beyond(self.page_limit);
                read
            }
        }
    }

    fn write(&mut self, address: u64, bytes: u8, value: u64) -> bool {
        self.written = value;
        let kind = RequestKind::Write {
            address,
            bytes,
            value,
        };
        match self.ask(address, bytes, kind) {
            Some(answer) => answer.is_some(),
            None => {
                let written = self.memory.0.write(address, bytes, value);
                self.ends_round |= self.memory.0.is_beyond(self.page_limit);
                if self.agents.is_snooped(address) {
                    self.ends_round = true;
                    self.agents.stored(self.now, address, &mut self.memory);
                }
                written
            }
        }
    }

    fn fetch(&mut self, address: u64) -> Option<u16> {
        self.memory.0.fetch(address)
    }

    fn is_protected(&self, address: u64) -> bool {
        self.memory.0.is_protected(address)
    }

    fn exists(&mut self, address: u64) -> bool {
        self.memory.0.contains(address)
    }

    fn counters(&self, retired: u64) -> Counters {
        Counters {
            cycle: self.cycle,
            time: self.now.as_fs() / TICK.as_fs(),
            instret: retired,
        }
    }
}

impl Paged for Bus {
    #[inline]
    fn pages(&mut self) -> &mut PageTable {
        self.memory.0.pages()
    }
}

/// The instruction that `hart` retired last, in `privilege` and with the registers `before` it.
fn retired(
    hart: &Machine<Bus>,
    pc: u64,
    privilege: Privilege,
    i: &Instruction,
    before: &Registers,
) -> Retired {
    let [a, b] = [i.rs1, i.rs2].map(|register| before[usize::from(register)]);
    let value = hart.registers[usize::from(i.rd)];
    let stored = match i.class {
        Class::Store => Some(i.store_value(b)),
        Class::StoreConditional => (value == 0).then(|| i.store_value(b)),
        Class::Atomic => Some(hart.memory.written),
        _ => None,
    };
    Retired {
        privilege,
        pc,
        instruction: *i,
        names: &Names::STANDARD,
        value: (i.rd != SINK).then_some(value),
        csr: csr_update(i, 0, 0).and_then(|_| {
            let counters = hart.memory.counters(hart.retired);
            let value = hart.hart.csr_value(i.csr_number(), counters, &|_| None)?;
            Some((i.csr_number(), value))
        }),
        address: i.class.is_memory().then(|| i.address(a)),
        stored,
    }
}

/// A server without timing, with a program in its memory.
pub(crate) struct FunctionalMachine {
    harts: Vec<Machine<Bus>>,
    /// Present between rounds.
    bus: Bus,
    code: Threaded<Bus>,
    clock: Clock,
    /// The start of the next round.
    cycle: u64,
    image: Image,
    personality: Personality,
    /// Everything that the harts retire.
    log: Option<SharedLog<Writer>>,
}

impl FunctionalMachine {
    /// Loads a bare-metal program into the server's memory. `live`: the guest's output goes to this
    /// process's.
    pub fn bare_metal(
        server: &UntimedServer,
        image: Image,
        live: bool,
    ) -> Result<FunctionalMachine, RunError> {
        let ram = bare_metal_ram(server, &image)?;
        let snoops = image.tohost.map(Htif::snoops);
        let segments = image.segments.iter();
        let loaded: Vec<(u64, u64)> = segments
            .map(|segment| (segment.address, segment.bytes.len() as u64))
            .collect();
        let bus = Bus::with(&ram, &loaded, &[], snoops.as_slice())?;
        FunctionalMachine::with_host(server, bus, image, live)
    }

    /// A server whose memory, at these ranges, has been used by a bare-metal program: `behind` has
    /// its contents. Hart 0 calls the function at `address`, on a stack of its own.
    pub fn calling(
        server: &UntimedServer,
        image: Image,
        (behind, mut ranges): (Arc<dyn Behind>, Vec<AddressRange>),
        address: u64,
    ) -> Result<FunctionalMachine, RunError> {
        // It consists of whole pages, which the interpreter reaches without a call.
        let (mut stack, mut stack_end) = stack_of(server.harts as u64);
        stack_end -= stack_end % PAGE_BYTES as u64;
        stack.start = stack_end - stack.length;
        ranges.push(stack);
        let snoops = image.tohost.map(Htif::snoops);
        let mut bus = Bus::with(&Ram::new(ranges)?, &[], &[], snoops.as_slice())?;
        bus.memory.0 = std::mem::take(&mut bus.memory.0).before(behind);
        let global_pointer = image.symbol("__global_pointer$").unwrap_or(0);
        let mut machine = FunctionalMachine::with_host(server, bus, image, false)?;
        let hart = &mut machine.harts[0];
        hart.pc = address;
        // The state in which _start calls main().
        hart.hart.csrs.mstatus |= FLOATING_POINT_IS_ON;
        hart.registers[2] = stack_end;
        hart.registers[3] = global_pointer;
        for hart in &mut machine.harts[1..] {
            hart.waiting = true;
        }
        Ok(machine)
    }

    /// Makes hart 0 return to `address` from the function that it is about to call.
    pub fn return_to(&mut self, address: u64) {
        self.harts[0].registers[1] = address;
    }

    /// A server with this memory, its CLINT and its host interface.
    fn with_host(
        server: &UntimedServer,
        mut bus: Bus,
        image: Image,
        live: bool,
    ) -> Result<FunctionalMachine, RunError> {
        let snoops = image.tohost.map(Htif::snoops);
        let clint = Clint::new(server.harts);
        bus.agents.attach(Box::new(clint), Some(CLINT));
        let personality = match (Htif::of(&image, live), snoops) {
            (Some(mut htif), Some(snoops)) => {
                htif.arguments.clone_from(&server.arguments);
                let id = bus.agents.attach(Box::new(htif), None);
                bus.agents.snoop(snoops, id);
                Personality::Host(id)
            }
            _ => Personality::None,
        };
        let entry = image.entry;
        Ok(FunctionalMachine::new(
            server,
            bus,
            image,
            personality,
            entry,
        ))
    }

    /// Loads a Linux program into memory.
    pub fn with_linux(
        server: &UntimedServer,
        prepared: linux::Prepared,
    ) -> Result<FunctionalMachine, RunError> {
        let linux::Prepared {
            image,
            contents,
            agent,
        } = prepared;
        let ram = linux_ram(&image, &contents)?;
        let segments = image.segments.iter();
        let loaded: Vec<(u64, u64)> = segments
            .map(|segment| (segment.address, segment.bytes.len() as u64))
            .chain(contents.iter().map(|(at, bytes)| (*at, bytes.len() as u64)))
            .collect();
        let mut bus = Bus::with(&ram, &loaded, &linux::protected(), &[])?;
        bus.page_limit = agent.pages().limit();
        let owns = Linux::attachment().owns;
        let personality = Personality::Linux(bus.agents.attach(Box::new(agent), owns));
        let entry = linux::ENTRY;
        Ok(FunctionalMachine::new(
            server,
            bus,
            image,
            personality,
            entry,
        ))
    }

    fn new(
        server: &UntimedServer,
        bus: Bus,
        image: Image,
        personality: Personality,
        entry: u64,
    ) -> FunctionalMachine {
        let harts = (0..server.harts as u64).map(|number| {
            let mut machine = Machine::new(Bus::default(), entry);
            machine.hart.csrs.mhartid = number;
            machine.traps_misaligned = server.misaligned_accesses == MisalignedAccesses::Trap;
            // As in a timed run: the number of this hart, of all harts, and of cores.
            machine.registers[10] = number;
            machine.registers[11] = server.harts as u64;
            machine.registers[12] = server.cores as u64;
            machine
        });
        FunctionalMachine {
            harts: harts.collect(),
            bus,
            code: Threaded::default(),
            clock: Clock::from_ghz(server.clock_ghz),
            cycle: 0,
            image,
            personality,
            log: None,
        }
    }

    /// Writes everything that the harts retire from now on into `log`.
    pub fn log_to(&mut self, log: SharedLog<Writer>) {
        self.log = Some(log);
    }

    /// Adds a device that owns some addresses.
    pub fn attach(&mut self, agent: Box<dyn Agent>, owns: AddressRange) -> AgentId {
        self.bus.agents.attach(agent, Some(owns))
    }

    /// The device, if it is of this type.
    pub fn agent_mut<A: 'static>(&mut self, id: AgentId) -> Option<&mut A> {
        self.bus.agents.agent_mut(id)
    }

    /// The memory.
    pub fn memory(&mut self) -> &mut PagedMemory {
        &mut self.bus.memory.0
    }

    /// Hart 0: its CSRs, its program counter, `x0` to `x31` and `f0` to `f31`; and whether it has
    /// halted.
    pub fn first_hart(&self) -> (&Hart, u64, [u64; 64], bool) {
        let hart = &self.harts[0];
        let mut registers = [0; 64];
        registers.copy_from_slice(&hart.registers[..64]);
        (&hart.hart, hart.pc, registers, hart.waiting)
    }

    /// Makes hart 0 continue at `pc`, in code that may have changed.
    pub fn go_on_at(&mut self, pc: u64) {
        self.code = Threaded::default();
        self.harts[0].pc = pc;
        self.harts[0].waiting = false;
    }

    /// Puts the arguments of `main()`, where hart 0 is, on its stack and into its registers.
    pub fn hand_over(&mut self, arguments: &[Vec<u8>]) {
        let bytes = main_variables(0, arguments).len() as u64;
        let registers = &mut self.harts[0].registers;
        let address = (registers[2] - bytes) & !(STACK_ALIGNMENT - 1);
        registers[2] = address;
        registers[10] = arguments.len() as u64;
        // argv follows argc.
        registers[11] = address + 8;
        let variables = main_variables(address, arguments);
        self.bus.memory.0.copy_in(address, &variables);
    }

    /// The guest's output, if it is not live.
    pub fn output(&mut self) -> Vec<u8> {
        match self.personality {
            Personality::Host(id) => self
                .bus
                .agents
                .agent_mut::<Htif>(id)
                .map(|htif| std::mem::take(&mut htif.output))
                .unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Limits the total bytes that the guest may write. (A Linux program has its own limit.)
    pub fn limit_output(&mut self, bytes: u64) {
        if let Personality::Host(id) = self.personality
            && let Some(htif) = self.bus.agents.agent_mut::<Htif>(id)
        {
            htif.allowance = Allowance::new(bytes);
        }
    }

    /// The guest's use of the host so far.
    pub fn spent(&mut self) -> Spent {
        let exceeds_output = match self.personality {
            Personality::Linux(_) => self.linux().is_some_and(|linux| linux.exceeds_output()),
            Personality::Host(id) => {
                let htif = self.bus.agents.agent_mut::<Htif>(id);
                htif.is_some_and(|htif| htif.allowance.is_exceeded())
            }
            Personality::None => false,
        };
        Spent {
            instructions: self.harts.iter().map(|hart| hart.retired).sum(),
            exceeds_output,
        }
    }

    /// Number of instructions that each hart has executed.
    pub fn instructions(&self) -> Vec<u64> {
        self.harts.iter().map(|hart| hart.retired).collect()
    }

    /// Advances by one round. `Ok(true)`: continue.
    pub fn advance(&mut self) -> Result<bool, RunError> {
        let awake: Vec<usize> = (0..self.harts.len())
            .filter(|&hart| !self.is_asleep(hart))
            .collect();
        let alarm = self.bus.agents.next_alarm();
        let alarm = alarm.map(|at| self.clock.cycle_at_or_after(at));
        let cycles = match (awake.as_slice(), alarm) {
            ([], None) => return Err(RunError::Deadlock(self.describe_waiting())),
            ([], Some(alarm)) => alarm.saturating_sub(self.cycle),
            ([_], alarm) => alarm.map_or(LONE_ROUND_CYCLES, |at| {
                at.saturating_sub(self.cycle).clamp(1, LONE_ROUND_CYCLES)
            }),
            (_, alarm) => alarm.map_or(ROUND_CYCLES, |at| {
                at.saturating_sub(self.cycle).clamp(1, ROUND_CYCLES)
            }),
        };
        let mut passed = 0;
        for &hart in &awake {
            passed = passed.max(self.take_turn(hart, cycles)?);
            if self.bus.memory.0.is_beyond(self.bus.page_limit) {
                self.find_memory()?;
            }
            self.deliver_interrupts();
            if self.has_ended()? {
                return Ok(false);
            }
            if self.bus.unanswered {
                return Err(RunError::Deadlock(self.describe_waiting()));
            }
        }
        // A lone hart that has accessed a device may have woken others, which must not wait for the
        // end of a long round.
        self.cycle += if awake.len() == 1 { passed } else { cycles };
        let now = self.clock.time(self.cycle);
        self.bus.agents.ring_alarms(now, &mut self.bus.memory);
        self.deliver_interrupts();
        Ok(!self.has_ended()?)
    }

    /// See [`crate::machine::Machine`].
    #[cold]
    fn find_memory(&mut self) -> Result<(), RunError> {
        let pages = self.linux().map(|linux| linux.pages());
        let memory = &mut self.bus.memory.0;
        let unmapped = pages.map_or(0, |pages| find_memory(&pages, |keep| memory.retain(keep)));
        match memory.is_beyond(self.bus.page_limit) {
            true => Err(out_of_memory(
                memory.host_is_full(),
                self.bus.page_limit,
                unmapped,
            )),
            false => Ok(()),
        }
    }

    fn is_asleep(&self, hart: usize) -> bool {
        let hart = &self.harts[hart];
        hart.waiting && !hart.hart.wakes_from_wait()
    }

    /// Lets a hart execute `cycles` instructions, or fewer if it accesses a device or waits;
    /// returns the cycles used.
    fn take_turn(&mut self, number: usize, cycles: u64) -> Result<u64, RunError> {
        let hart = &mut self.harts[number];
        std::mem::swap(&mut hart.memory, &mut self.bus);
        hart.memory.hart = number;
        hart.memory.ends_round = false;
        let mut used = 0;
        let mut crash = None;
        let mut in_vain_at = None;
        while used < cycles && !hart.memory.ends_round {
            let is_logged = self.log.is_some();
            if !is_logged && !hart.waiting && hart.hart.pending_interrupt().is_none() {
                used += self.code.run(hart, cycles - used);
                if used == cycles {
                    break;
                }
            }
            hart.memory.cycle = self.cycle + used;
            hart.memory.now = self.clock.time(self.cycle + used);
            let (pc, privilege) = (hart.pc, hart.hart.privilege);
            used += 1;
            let before = match is_logged {
                true => Some(hart.registers),
                false => None,
            };
            let step = self.code.step(hart);
            if let (Some(log), Some(before), Step::Retired(i)) = (&self.log, before, step) {
                let retired = retired(hart, pc, privilege, &i, &before);
                log.borrow_mut().retired(number, &retired);
            }
            match step {
                Step::Trapped(trap) if hart.pc == 0 => {
                    // The instruction is fetched in the privilege before the trap, by its virtual
                    // address.
                    hart.hart.privilege = privilege;
                    crash = Some((trap, pc, hart.instruction_at(pc).ok()));
                    break;
                }
                Step::Trapped(_) => {}
                // The other harts continue, and then this one.
                Step::Retired(i)
                    if matches!(i.operation, Operation::WrsNto | Operation::WrsSto) =>
                {
                    break;
                }
                Step::Retired(_) if hart.waiting => break,
                Step::Retired(i)
                    if i.class == Class::StoreConditional && hart.attempts.are_in_vain() =>
                {
                    in_vain_at = Some(pc);
                    break;
                }
                Step::Retired(_) => {}
                Step::Waiting => break,
            }
        }
        std::mem::swap(&mut hart.memory, &mut self.bus);
        if self.harts.len() > 1 {
            // Others may write before the next round. A retry loop succeeds within a round.
            self.harts[number].reservation = None;
        }
        if let Some(pc) = in_vain_at {
            return Err(in_vain(
                &self.image,
                number,
                pc,
                &self.harts[number].attempts,
            ));
        }
        match crash {
            Some((trap, pc, fetched)) => Err(self.crashed(number, trap, pc, fetched)),
            None => Ok(used),
        }
    }

    fn crashed(&self, hart: usize, trap: Trap, pc: u64, fetched: Option<Instruction>) -> RunError {
        let mut registers = [0; 32];
        registers.copy_from_slice(&self.harts[hart].registers[..32]);
        let executed = trap.cause != Cause::InstructionAccess && !trap.cause.is_interrupt();
        let instruction = fetched.filter(|_| executed);
        let fault = Fault {
            hart,
            trap,
            pc,
            registers,
            instruction: instruction.map(|instruction| instruction.bits),
        };
        let mut text = describe_crash(&self.image, self.is_linux(), &fault, &Names::STANDARD);
        if instruction.is_some_and(|instruction| instruction.class == Class::Custom) {
            text += "\n  instructions of hardware beside the harts need a timed run: \
                     leave --functional out";
        }
        RunError::Guest(text)
    }

    fn deliver_interrupts(&mut self) {
        for change in self.bus.agents.take_changes() {
            if let Some(hart) = self.harts.get_mut(usize::from(change.hart)) {
                hart.hart.set_interrupt(change.bit, change.level);
            }
        }
    }

    fn is_linux(&self) -> bool {
        matches!(self.personality, Personality::Linux(_))
    }

    fn linux(&mut self) -> Option<&mut Linux> {
        match self.personality {
            Personality::Linux(id) => self.bus.agents.agent_mut(id),
            _ => None,
        }
    }

    fn has_ended(&mut self) -> Result<bool, RunError> {
        if let Some((_, Ending::Fault(fault))) = self.linux().and_then(|linux| linux.ending()) {
            let fault = fault.clone();
            return Err(RunError::Guest(describe_crash(
                &self.image,
                true,
                &fault,
                &Names::STANDARD,
            )));
        }
        let unwritten = match self.personality {
            Personality::Host(id) => self.bus.agents.agent_mut::<Htif>(id),
            _ => None,
        };
        if let Some(sentence) = unwritten.and_then(|htif| htif.unwritten.clone()) {
            return Err(RunError::Output(sentence));
        }
        Ok(self.exit().is_some())
    }

    /// The guest's exit status, and the signal that ended it.
    pub fn exit(&mut self) -> Option<(u64, Option<&'static str>)> {
        match self.personality {
            Personality::None => None,
            Personality::Host(id) => {
                let htif = self.bus.agents.agent_mut::<Htif>(id)?;
                htif.exit.map(|(_, status)| (status, None))
            }
            Personality::Linux(_) => match self.linux()?.ending()?.1 {
                Ending::Exit(status) => Some((u64::from(*status), None)),
                Ending::Signal(signal) => {
                    let name = linux::signal_name(*signal);
                    Some((128 + u64::from(*signal), Some(name)))
                }
                Ending::Fault(_) => None,
            },
        }
    }

    /// Whether a signal of the host has interrupted a request of the guest.
    pub fn take_interrupted(&mut self) -> bool {
        self.linux().is_some_and(Linux::take_interrupted)
    }

    fn describe_waiting(&self) -> String {
        let mut text = "the server has come to a stop: nothing will ever happen again".to_string();
        let mut halted = 0;
        for (number, hart) in self.harts.iter().enumerate() {
            if !self.is_asleep(number) {
                let at = place(&self.image, hart.pc);
                text += &format!("\n  hart {number} at {at} waits for the answer of a device");
            } else if number == 0 {
                // The hart is past its WFI, which has four bytes.
                let at = place(&self.image, hart.pc.wrapping_sub(4));
                text += &format!("\n  hart 0 at {at} waits for an interrupt (WFI)");
            } else {
                halted += 1;
            }
        }
        if halted > 0 {
            text += &format!("\n  {halted} harts wait for an interrupt (WFI)");
        }
        for sentence in self.bus.agents.waiting_for() {
            text += &format!("\n  {sentence}");
        }
        text
    }
}
