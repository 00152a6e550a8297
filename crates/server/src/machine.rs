//! A server with a program in its memory.

use crate::checkpoint::Resumable;
use crate::clint::Clint;
use crate::description::ServerSpec;
use crate::engine::{Advance, Engine};
use crate::error::RunError;
use crate::htif::Htif;
use crate::limits::Spent;
use crate::memory_map::{CLINT, FIRST_STACK, MAIN_MEMORY, PAGE_TABLES, STACK_BYTES, STACK_STRIDE};
use crate::meter::Reading;
use crate::observers::Observers;
use crate::page_tables;
use fabric::{AddressRange, AgentId, Attachment, CacheSpec, CoreId, Fabric, NewerLines, Ram, Time};
use linux::{Allowance, Ending, Fault, Linux};
use pipeline::{
    Crash, Extension, FirstLevelTlbSpec, MemoryModel, MisalignedAccesses, NoExtension, Probe,
    SecondLevelTlbSpec, TlbPagesSpec, TranslationSpec, Why, build_core,
};
use riscv::elf::Image;
use riscv::{Attempts, Cause, Class, Instruction, Names};
use state::{Reader, Writer};
use std::cell::Cell;
use system::{Probes, Suppliers};

/// The reason that the state of a server with a Linux program cannot be saved.
pub(crate) const NO_CHECKPOINTS_OF_LINUX: &str = "a Linux program has files, sockets and clocks of \
    the host, which cannot be saved; checkpoints are for data planes and for bare-metal programs";

/// The cache of devices that occasionally write memory.
pub(crate) fn device_cache() -> CacheSpec {
    CacheSpec {
        size_bytes: 4096,
        ways: 4,
        hit_latency_cycles: 4,
        mshrs: 4,
        ..CacheSpec::default()
    }
}

/// A server with a program in its memory, ready to run.
#[derive(state::State)]
pub struct Machine {
    /// Its cores and fabric.
    pub engine: Engine,
    #[state(fixed)]
    image: Image,
    #[state(fixed)]
    personality: Personality,
    #[state(fixed)]
    front_end_cycles: u8,
    #[state(fixed)]
    threads: u8,
    /// Maximum number of pages that the guest may touch.
    #[state(fixed)]
    page_limit: u64,
    /// Maximum number of instructions in the windows of all harts.
    #[state(fixed)]
    max_in_flight: u64,
    /// The systems that observe the harts.
    observers: Observers,
    /// The cycle of the end, if it is determined.
    #[state(maybe_cycle)]
    end: Option<u64>,
    /// The counts at the start of the traffic, or of its measured part, once reached.
    pub(crate) first_reading: Option<Reading>,
}

/// The agent that handles the program's calls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Personality {
    /// None.
    None,
    /// The host-target interface.
    Host(AgentId),
    /// Linux.
    Linux(AgentId),
}

/// The end of the stack of a hart.
fn stack_end(hart: u64) -> u64 {
    FIRST_STACK + hart * STACK_STRIDE
}

/// The stack of a hart, and its end.
pub(crate) fn stack_of(hart: u64) -> (AddressRange, u64) {
    let end = stack_end(hart);
    let start = end - STACK_BYTES;
    let length = STACK_BYTES;
    (AddressRange { start, length }, end)
}

/// Everything that a program can learn about its server without timing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UntimedServer {
    pub harts: usize,
    pub cores: usize,
    pub clock_ghz: f64,
    /// The cores' handling of misaligned loads and stores.
    pub misaligned_accesses: MisalignedAccesses,
    pub memory_mib: u64,
    /// Memory besides the main memory.
    pub more_memory: Vec<AddressRange>,
    /// The program's path, and further arguments of its `main()`.
    pub arguments: Vec<Vec<u8>>,
}

impl UntimedServer {
    /// The server described by `spec`, with `more_memory`.
    pub fn of(spec: &ServerSpec, more_memory: &[AddressRange]) -> UntimedServer {
        UntimedServer {
            harts: spec.harts(),
            cores: spec.fabric.cores,
            clock_ghz: spec.fabric.clock_ghz,
            misaligned_accesses: spec.core.misaligned_accesses,
            memory_mib: spec.memory_mib,
            more_memory: more_memory.to_vec(),
            arguments: Vec::new(),
        }
    }

    /// Whether its program's `main()` has arguments besides the program's path.
    pub fn has_arguments(&self) -> bool {
        self.arguments.len() > 1
    }
}

/// The ranges of main memory and stacks.
fn memory_ranges(spec: &UntimedServer) -> Vec<AddressRange> {
    let stacks = (0..spec.harts as u64).map(|hart| stack_of(hart).0);
    let mut ranges: Vec<AddressRange> = stacks.collect();
    let end = MAIN_MEMORY.start + spec.memory_mib * 1024 * 1024;
    ranges.push(AddressRange {
        start: MAIN_MEMORY.start,
        length: end - MAIN_MEMORY.start,
    });
    ranges
}

/// The start of the second half of the main memory, which is that of the second socket, if there
/// are two.
pub(crate) fn second_half(spec: &ServerSpec) -> u64 {
    MAIN_MEMORY.start + spec.memory_mib * 1024 * 1024 / 2
}

/// The second half of a range; the larger one, if the number of lines is odd.
fn upper_half(range: &AddressRange) -> AddressRange {
    let lower = range.length / 128 * 64;
    AddressRange {
        start: range.start + lower,
        length: range.length - lower,
    }
}

/// The ranges of the second of two sockets: the second half of the main memory and of each of
/// `more_memory`, and the stacks of the harts on it, which are the second half, too.
fn of_second_socket(spec: &ServerSpec, more_memory: &[AddressRange]) -> Vec<AddressRange> {
    let first = (spec.fabric.cores / 2) as u64;
    let start = second_half(spec);
    let mut ranges = vec![
        AddressRange {
            start,
            length: start - MAIN_MEMORY.start,
        },
        AddressRange {
            start: stack_end(first) - STACK_BYTES,
            length: (spec.fabric.cores as u64 - first) * STACK_STRIDE,
        },
    ];
    ranges.extend(more_memory.iter().map(upper_half));
    ranges
}

/// All memory of a server, with a bare-metal program in it.
pub(crate) fn bare_metal_ram(server: &UntimedServer, image: &Image) -> Result<Ram, RunError> {
    let mut ranges = memory_ranges(server);
    ranges.extend_from_slice(&server.more_memory);
    let mut ram = Ram::new(ranges)?;
    load(&mut ram, image)?;
    Ok(ram)
}

/// Memory with a Linux program in it.
pub(crate) fn linux_ram(image: &Image, contents: &[(u64, Vec<u8>)]) -> Result<Ram, RunError> {
    let ranges = linux::memory();
    let upper = ranges.iter().map(upper_half).collect();
    let mut ram = Ram::new(ranges)?.with_second_socket(upper);
    for segment in &image.segments {
        ram.load(segment.address, &segment.bytes)?;
    }
    for (address, bytes) in contents {
        ram.load(*address, bytes)?;
    }
    Ok(ram)
}

/// TLBs large enough not to matter, for Linux programs on cores described without TLBs: they cover
/// 256 MB, and a hit takes no time. A core walks the tables for a page at its first access, and
/// after the program has changed its mappings.
fn large_tlbs() -> TranslationSpec {
    let pages = |entries| TlbPagesSpec { entries, ways: 4 };
    let first = FirstLevelTlbSpec {
        pages_4kb: pages(1024),
        // A program's pages have 4 KB.
        pages_2mb: pages(4),
        pages_1gb: pages(4),
    };
    TranslationSpec {
        l1_data_tlb: first,
        l1_instruction_tlb: first,
        l2_tlb: SecondLevelTlbSpec {
            pages_4kb_2mb: pages(65536),
            pages_1gb: pages(4),
            hit_latency_cycles: 0,
        },
        page_walkers: 16,
        ..TranslationSpec::default()
    }
}

impl Machine {
    /// Loads `image` into the memory of the server described by `spec`.
    ///
    /// `more_memory` is memory besides the main one. `attach` adds agents other than cores, CLINT
    /// and HTIF, and returns the extension of the cores. `live`: the guest's output goes to this
    /// process's.
    pub fn new(
        spec: &ServerSpec,
        image: Image,
        more_memory: &[AddressRange],
        live: bool,
        attach: impl FnOnce(&mut Fabric) -> Result<Box<dyn Extension>, RunError>,
    ) -> Result<Machine, RunError> {
        let (mut fabric, personality) = Machine::bare_metal(spec, &image, more_memory, live)?;
        let extension = attach(&mut fabric)?;
        let entry = image.entry;
        Machine::assemble(spec, fabric, image, personality, &*extension, entry)
    }

    /// The fabric of a bare-metal program with its agents other than the system's.
    fn bare_metal(
        spec: &ServerSpec,
        image: &Image,
        more_memory: &[AddressRange],
        live: bool,
    ) -> Result<(Fabric, Personality), RunError> {
        let tables = spec.core.translation.map(|_| PAGE_TABLES);
        let all_memory: Vec<AddressRange> = more_memory.iter().copied().chain(tables).collect();
        let ram = bare_metal_ram(&UntimedServer::of(spec, &all_memory), image)?;
        let ram = ram.with_second_socket(of_second_socket(spec, more_memory));
        let mut fabric = Fabric::new(&spec.fabric, ram)?;
        let clint = Attachment {
            owns: Some(CLINT),
            ..Attachment::default()
        };
        fabric.attach(Box::new(Clint::new(spec.harts())), clint)?;
        let personality = match Htif::of(image, live) {
            Some(htif) => {
                let attachment = Attachment {
                    snoops: image.tohost.map(Htif::snoops),
                    cache: Some(device_cache()),
                    ..Attachment::default()
                };
                Personality::Host(fabric.attach(Box::new(htif), attachment)?)
            }
            None => Personality::None,
        };
        Ok((fabric, personality))
    }

    /// Lets a bare-metal program read its path and the further arguments of its `main()`.
    pub(crate) fn give(&mut self, arguments: Vec<Vec<u8>>) {
        if let Some(htif) = self.htif() {
            htif.arguments = arguments;
        }
    }

    /// Loads a Linux program into the memory of the server described by `spec`.
    pub fn with_linux(spec: &ServerSpec, prepared: linux::Prepared) -> Result<Machine, RunError> {
        let linux::Prepared {
            image,
            contents,
            agent,
        } = prepared;
        let ram = linux_ram(&image, &contents)?;
        let mut fabric = Fabric::new(&spec.fabric, ram)?;
        let page_limit = agent.pages().limit();
        let mut spec = spec.clone();
        spec.core.translation.get_or_insert(large_tlbs());
        let agent = fabric.attach(Box::new(agent), Linux::attachment())?;
        let personality = Personality::Linux(agent);
        let machine = Machine::assemble(
            &spec,
            fabric,
            image,
            personality,
            &NoExtension,
            linux::ENTRY,
        )?;
        Ok(Machine {
            page_limit,
            ..machine
        })
    }

    /// Adds the cores, which start at `entry`.
    fn assemble(
        spec: &ServerSpec,
        mut fabric: Fabric,
        image: Image,
        personality: Personality,
        extension: &dyn Extension,
        entry: u64,
    ) -> Result<Machine, RunError> {
        if image.headers.total_store_order && spec.core.memory_model != MemoryModel::Tso {
            return Err(RunError::Program(
                "this program relies on total store order (the Ztso extension), and the cores have \
                 RVWMO: set server.core.memory_model to \"tso\", or compile it with -march=rv64gc"
                    .into(),
            ));
        }
        let protected = match personality {
            Personality::Linux(_) => linux::protected(),
            _ => Vec::new(),
        };
        let mut map = fabric.memory_map().protect(&protected);
        let mut root = None;
        // A Linux program has its own page tables.
        if let Some(translation) = &spec.core.translation
            && !matches!(personality, Personality::Linux(_))
        {
            map = map.without(PAGE_TABLES);
            let ram = fabric.ram_mut();
            root = Some(page_tables::write(translation, map.ranges(), ram)?);
        }
        let count = spec.fabric.cores as u64;
        let built = spec.core.as_built(spec.fabric.perfect_cache)?;
        let cores = (0..count)
            .map(|number| {
                let id = CoreId(number as u16);
                let harts: Vec<u64> = (0..u64::from(spec.core.threads))
                    .map(|thread| thread * count + number)
                    .collect();
                let (clock, map) = (fabric.clock(), map.clone());
                let mut core = build_core(&built, id, clock, map, extension, &harts, entry);
                // a1 has the number of harts, and a2 the number of cores.
                core.set_register(11, spec.harts() as u64);
                core.set_register(12, count);
                if let Some(root) = root {
                    core.set_page_tables(root);
                }
                core
            })
            .collect();
        let departure = built.departure_cycles();
        let engine = Engine::new(cores, fabric, departure);
        Ok(Machine {
            engine,
            image,
            personality,
            front_end_cycles: spec.core.front_end_cycles,
            threads: spec.core.threads,
            page_limit: u64::MAX,
            max_in_flight: spec.harts() as u64 * u64::from(spec.core.rob_entries),
            observers: Observers::default(),
            end: None,
            first_reading: None,
        })
    }

    /// Advances by one step of the engine. `Ok(true)`: continue.
    pub fn advance(&mut self) -> Result<bool, RunError> {
        let advance = self.engine.advance();
        if self.engine.fabric.ram().is_beyond(self.page_limit) {
            self.find_memory()?;
        }
        if let Some(core) = self.engine.crashed()
            && let Some(crash) = self.engine.cores[core].crash()
        {
            if let Why::Conditionals(attempts) = crash.why {
                let hart = crash.hart as usize;
                return Err(in_vain(&self.image, hart, crash.pc, &attempts));
            }
            let Some(fault) = fault_of(crash) else {
                return Ok(true);
            };
            let mut text = self.describe_crash(&fault, self.engine.cores[core].names());
            if let Some(meaning) = self.engine.cores[core].explain(&fault.trap) {
                text += &format!("\n  {meaning}");
            }
            return Err(RunError::Guest(text));
        }
        if let Some((_, Ending::Fault(fault))) = self.linux().and_then(|linux| linux.ending()) {
            let fault = fault.clone();
            return Err(RunError::Guest(
                self.describe_crash(&fault, &Names::STANDARD),
            ));
        }
        match advance {
            Advance::Running => {
                if self.end.is_none()
                    && let Some((at, _)) = self.exit()
                {
                    self.end_after(self.engine.clock().cycle_at_or_after(at));
                }
                Ok(true)
            }
            Advance::End => Ok(self.has_ended()),
            Advance::Idle => match self.exit() {
                Some((at, _)) => {
                    self.end_after(self.engine.clock().cycle_at_or_after(at));
                    Ok(self.has_ended())
                }
                None => Err(RunError::Deadlock(self.describe_waiting(
                    "the server has come to a stop: nothing will ever happen again",
                ))),
            },
        }
    }

    /// The fault that has ended the guest.
    pub(crate) fn fault(&mut self) -> Option<Fault> {
        if let Some((_, Ending::Fault(fault))) = self.linux().and_then(|linux| linux.ending()) {
            return Some((**fault).clone());
        }
        let crash = self.engine.cores[self.engine.crashed()?].crash()?;
        fault_of(crash)
    }

    /// Discards memory that is no longer needed; an error if that is not enough.
    #[cold]
    fn find_memory(&mut self) -> Result<(), RunError> {
        let pages = self.linux().map(|linux| linux.pages());
        let ram = self.engine.fabric.ram_mut();
        let unmapped = pages.map_or(0, |pages| find_memory(&pages, |keep| ram.retain(keep)));
        let ram = self.engine.fabric.ram();
        match ram.is_beyond(self.page_limit) {
            true => Err(out_of_memory(ram.host_is_full(), self.page_limit, unmapped)),
            false => Ok(()),
        }
    }

    fn has_ended(&mut self) -> bool {
        self.finish();
        false
    }

    /// Lets the cores complete their remaining work before the end, after the last event.
    pub(crate) fn finish(&mut self) {
        let end = self.end();
        self.engine.catch_up(end);
        self.observers.end(&mut self.engine.cores, end);
    }

    /// Ends the run because of an event at `cycle`.
    pub fn end_after(&mut self, cycle: u64) {
        if self.end.is_none() {
            self.end_at(self.engine.settled_after(cycle));
        }
    }

    /// Ends the run before `cycle`, which no core has passed, unless it ends earlier.
    pub(crate) fn end_at(&mut self, cycle: u64) {
        let end = self.end.map_or(cycle, |end| end.min(cycle));
        self.end = Some(end);
        self.engine.set_end(end);
    }

    /// Continues after the end.
    pub(crate) fn reopen(&mut self) {
        self.end = None;
        self.engine.reopen();
    }

    /// Takes the memory image, and newer data in caches: correct for lines without accesses for
    /// longer than a message takes. The machine has no memory afterwards.
    pub(crate) fn take_memory(&mut self) -> (Ram, NewerLines) {
        let newer = self.newer_lines();
        (std::mem::take(self.engine.fabric.ram_mut()), newer)
    }

    /// The lines that are newer in caches than in memory.
    pub(crate) fn newer_lines(&self) -> NewerLines {
        let mut newer = NewerLines::default();
        for core in &self.engine.cores {
            core.add_newer_lines(&mut newer);
        }
        self.engine.fabric.add_newer_lines(&mut newer);
        newer
    }

    /// Whether the program is one for Linux.
    pub(crate) fn is_linux(&self) -> bool {
        matches!(self.personality, Personality::Linux(_))
    }

    /// The cycle of the end.
    pub fn end(&self) -> u64 {
        self.end.unwrap_or_else(|| self.engine.now())
    }

    /// Lets systems observe the harts from their next instruction on.
    pub(crate) fn observe(&mut self, systems: Vec<(&'static str, Probes)>) {
        self.observers = Observers::attach(&mut self.engine.cores, self.threads, systems);
    }

    /// Lets systems get values of loads of all cores. One core has one that does.
    pub(crate) fn supply(&mut self, systems: Vec<(&'static str, Suppliers)>) {
        for (key, make) in systems {
            for (core, number) in self.engine.cores.iter_mut().zip(0..) {
                core.set_supplier(make(CoreId(number)));
            }
            self.observers.note(key);
        }
    }

    /// Lets `probe` observe a hart, besides the systems that do.
    pub(crate) fn set_probe(&mut self, hart: usize, probe: Box<dyn Probe>) {
        if let Err(probe) = self.observers.add(hart, probe) {
            let cores = self.engine.cores.len();
            self.engine.cores[hart % cores].set_probe((hart / cores) as u8, probe);
        }
    }

    /// Reports all commits before `cycle` to the probes of [`Machine::set_probe`], and removes
    /// them. (With observing systems, they have been notified of the same commits as those.)
    pub(crate) fn remove_probes(&mut self, cycle: u64) {
        if !self.observers.remove_others() {
            for core in &mut self.engine.cores {
                core.remove_probes(cycle);
            }
        }
    }

    /// The loaded program.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Number of cycles of a core before dispatch.
    pub fn front_end_cycles(&self) -> u8 {
        self.front_end_cycles
    }

    /// Number of hardware threads of a core.
    pub fn threads(&self) -> u8 {
        self.threads
    }

    fn htif(&mut self) -> Option<&mut Htif> {
        match self.personality {
            Personality::Host(id) => self.engine.fabric.agent_mut::<Htif>(id),
            _ => None,
        }
    }

    fn linux(&mut self) -> Option<&mut Linux> {
        match self.personality {
            Personality::Linux(id) => self.engine.fabric.agent_mut::<Linux>(id),
            _ => None,
        }
    }

    /// The time and the status of the guest's exit; after a signal, the status that a shell shows.
    pub fn exit(&mut self) -> Option<(Time, u64)> {
        if let Some((at, ending)) = self.linux().and_then(|linux| linux.ending()) {
            return match ending {
                Ending::Exit(status) => Some((at, u64::from(*status))),
                Ending::Signal(signal) => Some((at, 128 + u64::from(*signal))),
                Ending::Fault(_) => None,
            };
        }
        self.htif().and_then(|htif| htif.exit)
    }

    /// The name of the signal that ended the guest.
    pub fn signal(&mut self) -> Option<&'static str> {
        match self.linux()?.ending()? {
            (_, Ending::Signal(signal)) => Some(linux::signal_name(*signal)),
            _ => None,
        }
    }

    /// Whether a signal of the host has interrupted a request of the guest.
    pub fn take_interrupted(&mut self) -> bool {
        self.linux().is_some_and(Linux::take_interrupted)
    }

    /// The guest's output so far, if it is not live.
    pub fn output(&mut self) -> String {
        self.htif().map_or_else(String::new, |htif| {
            String::from_utf8_lossy(&htif.output).into_owned()
        })
    }

    /// The reason that the guest's output could not be written, if it could not.
    pub fn unwritten(&mut self) -> Option<String> {
        self.htif()?.unwritten.clone()
    }

    /// Adds earlier output of the guest.
    pub(crate) fn add_output(&mut self, output: &[u8]) {
        if let Some(htif) = self.htif() {
            htif.output.extend_from_slice(output);
        }
    }

    /// Limits the total bytes that the guest may write. (A Linux program has its own limit.)
    pub(crate) fn limit_output(&mut self, bytes: u64) {
        if let Some(htif) = self.htif() {
            htif.allowance = Allowance::new(bytes);
            htif.allowance.spend(htif.output.len() as u64);
        }
    }

    /// Number of instructions that all its cores have executed so far.
    pub(crate) fn instructions(&self) -> u64 {
        let cores = self.engine.cores.iter();
        cores.map(|core| core.instructions()).sum()
    }

    /// The guest's use of the host so far; it counts only instructions that can no longer be
    /// squashed.
    pub(crate) fn spent(&mut self) -> Spent {
        Spent {
            instructions: self.instructions().saturating_sub(self.max_in_flight),
            exceeds_output: self.exceeds_output(),
        }
    }

    /// The total use of the host of a guest that has ended.
    pub(crate) fn spent_in_all(&mut self) -> Spent {
        Spent {
            instructions: self.instructions(),
            exceeds_output: self.exceeds_output(),
        }
    }

    fn exceeds_output(&mut self) -> bool {
        match self.linux() {
            Some(linux) => linux.exceeds_output(),
            None => self.htif().is_some_and(|htif| htif.allowance.is_exceeded()),
        }
    }

    fn describe_crash(&self, crash: &Fault, names: &Names) -> String {
        describe_crash(&self.image, self.is_linux(), crash, names)
    }

    /// `summary`, followed by the waiting units and their causes.
    pub fn describe_waiting(&mut self, summary: &str) -> String {
        let mut text = summary.to_string();
        let mut idle = 0;
        let cores = self.engine.cores.len();
        for hart in 0..cores * usize::from(self.threads) {
            let (core, thread) = (&mut self.engine.cores[hart % cores], (hart / cores) as u8);
            let at = place(&self.image, core.pc(thread));
            match core.waiting_for(thread) {
                Some(reason) if hart > 0 && reason.contains("WFI") => idle += 1,
                Some(reason) => text += &format!("\n  hart {hart} at {at} waits for {reason}"),
                None => text += &format!("\n  hart {hart} runs at {at}"),
            }
        }
        if idle > 0 {
            text += &format!("\n  {idle} harts wait for an interrupt (WFI)");
        }
        for sentence in self.engine.fabric.waiting_for() {
            text += &format!("\n  {sentence}");
        }
        text
    }
}

impl Resumable for Machine {
    fn now(&self) -> Time {
        self.engine.next_time()
    }

    fn is_ending(&self) -> bool {
        self.end.is_some()
    }

    fn save(&mut self) -> Result<Vec<u8>, RunError> {
        if let Personality::Linux(_) = self.personality {
            return Err(RunError::Description(NO_CHECKPOINTS_OF_LINUX.to_string()));
        }
        self.engine.forget_loops();
        Writer::write(self).map_err(RunError::Description)
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), String> {
        Reader::read(self, state)
    }
}

/// The fault that a core has crashed with.
fn fault_of(crash: &Crash) -> Option<Fault> {
    let Why::Trap(trap) = crash.why else {
        return None;
    };
    Some(Fault {
        hart: crash.hart as usize,
        trap,
        pc: crash.pc,
        registers: crash.registers,
        instruction: crash.instruction,
    })
}

/// Lets `retain` drop the pages that hold nothing for a Linux program, and returns the number of
/// remaining pages that it has not mapped.
pub(crate) fn find_memory(pages: &linux::Pages, retain: impl FnOnce(&dyn Fn(u64) -> bool)) -> u64 {
    let unmapped = Cell::new(0);
    retain(&|page| {
        let keeps = pages.holds(page);
        unmapped.set(unmapped.get() + u64::from(keeps && !pages.maps(page)));
        keeps
    });
    unmapped.get()
}

/// The error of a run whose guest has touched more pages than `limit`, of which it had not mapped
/// `unmapped`; or more than the host has memory for.
pub(crate) fn out_of_memory(host_is_full: bool, limit: u64, unmapped: u64) -> RunError {
    const PAGES_IN_MIB: u64 = 256;
    // The limit includes the machine's own pages, which the guest may have left unused.
    let unmapped_mib = unmapped.div_ceil(PAGES_IN_MIB).min(limit / PAGES_IN_MIB);
    RunError::Guest(if host_is_full {
        "the host has no memory left for what the guest writes: make the server's smaller \
         (server.memory_mib), or what else runs on the host"
            .to_string()
    } else {
        format!(
            "the guest is out of memory: the server has {} MiB (server.memory_mib), and the guest \
             has touched more; {unmapped_mib} MiB of that are at addresses that it has not mapped",
            limit / PAGES_IN_MIB
        )
    })
}

/// An address and its function.
pub(crate) fn place(image: &Image, pc: u64) -> String {
    match image.function_at(pc) {
        Some((name, 0)) => format!("{pc:#x} ({name})"),
        Some((name, offset)) => format!("{pc:#x} ({name}+{offset:#x})"),
        None => format!("{pc:#x}"),
    }
}

/// The addresses below the stack of `hart`, and the stack's size.
fn below_stack(is_linux: bool, hart: usize) -> (AddressRange, u64) {
    if is_linux {
        let length = linux::STACK.length;
        let start = linux::STACK.start - length;
        (AddressRange { start, length }, length)
    } else {
        let length = STACK_STRIDE - STACK_BYTES;
        let start = stack_end(hart as u64) - STACK_STRIDE;
        (AddressRange { start, length }, STACK_BYTES)
    }
}

/// The error of a run in which a hart's `SC` at `pc` fails for ever.
pub(crate) fn in_vain(image: &Image, hart: usize, pc: u64, attempts: &Attempts) -> RunError {
    let at = place(image, pc);
    RunError::Deadlock(format!("hart {hart} at {at}: {}", attempts.explain()))
}

/// The place and the cause of the guest's crash, and its registers.
pub(crate) fn describe_crash(
    image: &Image,
    is_linux: bool,
    crash: &Fault,
    names: &Names,
) -> String {
    let hart = crash.hart;
    let mut text = format!(
        "the guest crashed: hart {hart}, {} at pc {}",
        crash.trap.cause.name(),
        place(image, crash.pc),
    );
    let (below_stack, stack_bytes) = below_stack(is_linux, hart);
    let is_fetch = matches!(
        crash.trap.cause,
        Cause::InstructionAccess | Cause::InstructionPage
    );
    let is_access = matches!(crash.trap.cause, Cause::LoadAccess | Cause::StoreAccess);
    if is_fetch && crash.trap.value == crash.pc {
        text += ": there is no memory to execute there";
    } else if is_fetch {
        text += &format!(
            ": the instruction goes on at {:#x}, where there is no memory",
            crash.trap.value
        );
    } else if crash.trap.value != 0 && below_stack.contains(crash.trap.value) {
        text += &format!(
            ": address {:#x} is below the stack of {} KiB, which has overrun",
            crash.trap.value,
            stack_bytes / 1024
        );
    } else if !is_linux && is_access && MAIN_MEMORY.contains(crash.trap.value) {
        text += &format!(
            ": address {:#x} is beyond the main memory, whose size is server.memory_mib",
            crash.trap.value
        );
    } else if crash.trap.value != 0 {
        text += &format!(", value {:#x}", crash.trap.value);
    }
    if let Some(bits) = crash.instruction {
        let instruction = riscv::decode(bits);
        let shown = riscv::disassemble_with(&instruction, crash.pc, names);
        text += &format!("\n  instruction  {bits:08x}  {shown}");
        if crash.trap.cause == Cause::IllegalInstruction {
            text += &why_illegal(&instruction);
        }
    }
    let missing = image.headers.missing_extensions();
    if crash.trap.cause == riscv::Cause::IllegalInstruction && !missing.is_empty() {
        text += &format!(
            "\n  the program was built for extensions that the harts do not have: {}",
            missing.join(", ")
        );
    }
    for row in 0..8 {
        text += "\n ";
        for column in 0..4 {
            let register = row + column * 8;
            text += &format!(
                " {:>4} {:016x}",
                riscv::register_name(register as u8),
                crash.registers[register]
            );
        }
    }
    text
}

/// The reason why an instruction is illegal, if known, as a suffix of a message.
fn why_illegal(instruction: &Instruction) -> String {
    if let Some(extension) = riscv::absent_extension(instruction.bits)
        && instruction.class == Class::Illegal
    {
        return format!(", which needs {extension}, and the server does not have that");
    }
    match instruction.class {
        Class::Csr => {
            ", whose register does not exist, or not for this access and privilege".into()
        }
        _ if instruction.is_float() => {
            ": floating point is off (mstatus.FS), or its rounding mode is reserved (frm)".into()
        }
        _ => String::new(),
    }
}

fn load(ram: &mut Ram, image: &Image) -> Result<(), RunError> {
    for segment in &image.segments {
        let last = segment.address + segment.memory_bytes.max(1) - 1;
        let loaded = ram.load(segment.address, &segment.bytes);
        if loaded.is_err() || !ram.contains(fabric::LineAddress::of(last)) {
            return Err(outside(segment));
        }
    }
    Ok(())
}

fn outside(segment: &riscv::elf::Segment) -> RunError {
    RunError::Program(format!(
        "the program has a segment of {} bytes at {:#x}, which does not lie in the server's \
         memory (it begins at {:#x}; server.memory_mib sets its size)",
        segment.memory_bytes, segment.address, MAIN_MEMORY.start
    ))
}
