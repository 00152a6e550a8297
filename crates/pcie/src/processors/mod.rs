//! The cores of a programmable interface (`server.dma_nic.processors`), between its port and its
//! receive rings: docs/programmable-interface.md.
//!
//! They execute firmware out of a *scratchpad* of several banks behind a crossbar, which they
//! share. Instructions come through an instruction cache of each core from the same scratchpad. A
//! free core takes the oldest frame, processes it in place, in the input buffer, and passes it to a
//! receive ring of the host or to the network. Every address outside the interface is host memory:
//! a load from there crosses PCI Express, and the core continues until it needs the value.
//!
//! They do not use the `pipeline` crate, whose cores live on the coherent fabric: these have no
//! data cache, no coherence, and a private memory of fixed latency. Both take the meaning of
//! instructions from the crate `riscv`.
//!
//! All cores advance together, with an event for each cycle in which one of them issues. The core
//! that goes first rotates, so that none always loses a bank conflict.

mod core;
mod frames;
mod instruction_cache;
mod registers;
mod scratchpad;
mod spec;

pub use self::spec::{ProcessorsEnergySpec, ProcessorsSpec};
use ::spec::SpecError;
pub(crate) use core::HostLoad;
use core::{Core, NEVER, Waits};
use fabric::{Clock, Time};
use frames::Frames;
pub(crate) use frames::{Fate, Frame};
use registers::{FRAME, REGISTERS, SCRATCHPAD, register};
use riscv::elf::{self, Image};
use schemars::JsonSchema;
use scratchpad::Scratchpad;
use serde::Serialize;

/// The address map of firmware: names and addresses, for `guest/include/interface_map.h`.
pub const INTERFACE_MAP: [(&str, u64); 3] = [
    ("SCRATCHPAD", SCRATCHPAD),
    ("REGISTERS", REGISTERS),
    ("FRAME", FRAME),
];
/// Offsets of the registers visible to firmware.
pub const INTERFACE_REGISTERS: &[(&str, u64)] = register::ALL;

/// The header that firmware includes.
pub(crate) const HEADER: system::Header = ("guest/include/interface_map.h", header);

/// The address map of firmware of a programmable network interface.
fn header() -> String {
    let ranges = INTERFACE_MAP
        .iter()
        .map(|(name, start)| (format!("{name}_START"), *start));
    let (_, registers) = INTERFACE_MAP[1];
    let of_registers = INTERFACE_REGISTERS
        .iter()
        .map(|(name, offset)| (name.to_string(), registers + offset));
    let constants: String = ranges
        .chain(of_registers)
        .map(|(name, address)| format!("#define INTERFACE_{name} {address:#010x}\n"))
        .collect();
    format!(
        "/* Written by `make docs` from crates/pcie/src/processors/registers.rs, which says what they\n   \
         are. */\n\
         #ifndef INTERFACE_MAP_H\n#define INTERFACE_MAP_H\n\n{constants}\n#endif\n"
    )
}

/// Counts of the cores of an interface, all together.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State, state::Plain,
)]
#[state(all(count))]
pub struct ProcessorsStatistics {
    /// Instructions that they have executed.
    pub instructions: u64,
    /// Lines that were not in an instruction cache.
    pub instruction_cache_misses: u64,
    /// Words of 8 bytes read from and written to the scratchpad, including instructions.
    pub scratchpad_words: u64,
    /// Cycles that accesses have waited for a bank of the scratchpad.
    pub bank_conflict_cycles: u64,
    /// Words of 8 bytes that were read and written in frames.
    pub frame_words: u64,
    /// Frames that they have taken.
    pub frames: u64,
    /// Frames that they have given to receive rings.
    pub frames_to_host: u64,
    /// Frames that they have given to the network.
    pub frames_sent: u64,
    /// Frames that they have dropped.
    pub frames_dropped: u64,
    /// Loads of host memory.
    pub host_loads: u64,
    /// Loads of host memory that carried a steering tag.
    pub host_loads_steered: u64,
    /// Loads of host memory from addresses without memory.
    pub host_load_faults: u64,
    /// Runs of untrusted code from hardware of the host.
    pub runs: u64,
    /// Runs that ended at their budget of instructions.
    pub runs_over_budget: u64,
    /// Runs that ended at a forbidden operation.
    pub runs_refused: u64,
    /// Runs that ended at a load without memory.
    pub runs_without_memory: u64,
    /// Instructions of such code, as part of `instructions`.
    pub run_instructions: u64,
    /// Loads of host memory by such code, as part of `host_loads`.
    pub run_host_loads: u64,
    /// Bytes of PCI Express for blocks from hardware of the host to the scratchpad.
    pub window_bytes: u64,
    /// Blocks from hardware of the host for which there was no room in the scratchpad.
    pub window_blocks_refused: u64,
    /// Bytes of PCI Express for notes about frames from firmware to hardware of the host.
    pub note_bytes: u64,
    /// Bytes of PCI Express for the requests of loads of host memory.
    pub host_load_request_bytes: u64,
    /// Bytes of PCI Express for the data of loads of host memory.
    pub host_load_data_bytes: u64,
}

/// Traffic of the cores on PCI Express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crossing {
    /// A block for the window.
    Window,
    /// Notes of a frame.
    Note,
    /// The request of a load of host memory.
    Request,
    /// The data of a load of host memory.
    Data,
}

/// State shared by the cores.
#[derive(state::State)]
pub(crate) struct Shared {
    #[state(fixed)]
    spec: ProcessorsSpec,
    /// Number of receive rings of the host.
    #[state(fixed)]
    queues: u32,
    /// Number of cores of the host.
    #[state(fixed)]
    host_cores: usize,
    /// Bytes of the longest frame, in whole words.
    #[state(fixed)]
    frame_bytes: u64,
    scratchpad: Scratchpad,
    frames: Frames,
    /// The window in the scratchpad for blocks from hardware of the host: its offset and its bytes.
    window: [u64; 2],
    /// The first cycle in which the port of the frames' buffer is free.
    frame_port: u64,
    /// Frames that have left the cores, and loads that have begun, in this cycle; empty between
    /// events.
    #[state(fixed)]
    left: Vec<(Fate, Frame)>,
    #[state(fixed)]
    loads: Vec<HostLoad>,
    statistics: ProcessorsStatistics,
    /// The first forbidden operation of untrusted code.
    refused_run: Option<String>,
}

impl Shared {
    /// The cycle, `cycle` or later, in which the frames' buffer, another bank behind the crossbar,
    /// accepts an access.
    fn access_frame(&mut self, cycle: u64) -> u64 {
        let at = cycle.max(self.frame_port);
        self.frame_port = at + 1;
        self.statistics.frame_words += 1;
        at
    }
}

/// The cores.
#[derive(state::State)]
pub(crate) struct Processors {
    #[state(fixed)]
    clock: Clock,
    #[state(fixed)]
    image: Image,
    #[state(slice)]
    cores: Vec<Core>,
    shared: Shared,
    /// The cycle for which a timer is set; `NEVER` if there is none.
    woken_for: u64,
    fault: Option<String>,
}

impl Processors {
    /// Cores with firmware, in an interface for frames of up to `frame_bytes` bytes, in a host with
    /// these numbers of receive rings and cores.
    pub fn new(
        spec: &ProcessorsSpec,
        firmware: &[u8],
        (frame_bytes, queues, host_cores): (u32, u32, usize),
    ) -> Result<Processors, SpecError> {
        let wrong = |why: String| {
            SpecError::new("processors.firmware", format!("{:?}", spec.firmware), why)
        };
        let image = elf::load(firmware).map_err(|error| wrong(error.to_string()))?;
        let mut shared = Shared {
            spec: spec.clone(),
            queues,
            host_cores,
            frame_bytes: u64::from(frame_bytes).next_multiple_of(8),
            scratchpad: Scratchpad::new(spec.scratchpad_bytes, spec.banks, spec.cores),
            frames: Frames::default(),
            window: [0; 2],
            frame_port: 0,
            left: Vec::new(),
            loads: Vec::new(),
            statistics: ProcessorsStatistics::default(),
            refused_run: None,
        };
        let stacks = u64::from(spec.cores * spec.stack_bytes);
        let room = shared.scratchpad.size() - stacks;
        if !shared.scratchpad.load(&image, SCRATCHPAD, room) {
            let end = image.segments.iter().map(|one| one.range().end).max();
            let begin = image.segments.iter().map(|one| one.range().start).min();
            return Err(wrong(format!(
                "it takes addresses from {:#x} to {:#x}, but firmware has {room} bytes from \
                 {SCRATCHPAD:#x} on: the scratchpad's {}, less {stacks} for the stacks of {} cores",
                begin.unwrap_or(0),
                end.unwrap_or(0),
                spec.scratchpad_bytes,
                spec.cores
            )));
        }
        let cores = (0..spec.cores as usize)
            .map(|number| Core::new(number, image.entry, &shared))
            .collect();
        Ok(Processors {
            clock: Clock::from_ghz(spec.clock_mhz / 1000.0),
            image,
            cores,
            shared,
            woken_for: 0,
            fault: None,
        })
    }

    /// Their counts.
    pub fn statistics(&self) -> ProcessorsStatistics {
        ProcessorsStatistics {
            scratchpad_words: self.shared.scratchpad.words,
            bank_conflict_cycles: self.shared.scratchpad.conflicts,
            ..self.shared.statistics
        }
    }

    /// The first forbidden operation of untrusted code, and its location.
    pub fn refused_run(&self) -> Option<String> {
        self.shared.refused_run.clone()
    }

    /// Firmware's first error and its location.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Number of frames that no core has taken.
    pub fn waiting_frames(&self) -> usize {
        self.shared.frames.waiting()
    }

    /// Adds a frame that has arrived.
    pub fn give(&mut self, now: Time, frame: Frame) {
        self.shared.frames.give(frame);
        let cycle = self.clock.cycle_at_or_after(now);
        for core in &mut self.cores {
            if core.waits == Waits::Frame {
                core.resume(cycle);
            }
        }
    }

    /// Handles the data of a load of host memory; `None` if there is no memory.
    pub fn loaded(&mut self, now: Time, number: u64, raw: Option<u64>) {
        let cycle = self.clock.cycle_at_or_after(now);
        if let Some(core) = self.cores.get_mut((number >> 8) as usize) {
            core.loaded((number & 0xff) as usize, raw, cycle, &mut self.shared);
        }
    }

    /// The word that the host loads at an offset in the scratchpad.
    pub fn read_scratchpad(&mut self, now: Time, offset: u64) -> Option<u64> {
        let word = self.shared.scratchpad.read(offset, 8)?;
        let cycle = self.clock.cycle_at_or_after(now);
        self.shared.scratchpad.access(offset, cycle, 1);
        Some(word)
    }

    /// A store of the host to the scratchpad; false if the offset is outside.
    pub fn write_scratchpad(&mut self, now: Time, offset: u64, word: u64) -> bool {
        let is_there = self.shared.scratchpad.write(offset, 8, word);
        if is_there {
            let cycle = self.clock.cycle_at_or_after(now);
            self.shared.scratchpad.access(offset, cycle, 1);
        }
        is_there
    }

    /// Handles a block from hardware of the host, for this offset of the window.
    pub fn write_window(&mut self, now: Time, offset: u64, block: &[u8]) {
        let [start, bytes] = self.shared.window;
        let has_room = offset
            .checked_add(block.len() as u64)
            .is_some_and(|end| end <= bytes);
        let place = start.checked_sub(SCRATCHPAD);
        let place = place.and_then(|place| place.checked_add(offset));
        let mut words = block.chunks_exact(8).zip((0..).step_by(8));
        let is_written = has_room
            && place.is_some_and(|place| {
                words.all(|(word, at)| {
                    let digits = word.iter().rev();
                    let word = digits.fold(0, |value, &byte| value << 8 | u64::from(byte));
                    self.write_scratchpad(now, place + at, word)
                })
            });
        self.shared.statistics.window_blocks_refused += u64::from(!is_written);
    }

    /// Counts traffic of the cores on PCI Express.
    pub fn crossed(&mut self, what: Crossing, bytes: u64) {
        let counts = &mut self.shared.statistics;
        *match what {
            Crossing::Window => &mut counts.window_bytes,
            Crossing::Note => &mut counts.note_bytes,
            Crossing::Request => &mut counts.host_load_request_bytes,
            Crossing::Data => &mut counts.host_load_data_bytes,
        } += bytes;
    }

    /// The time and cycle in which the next core issues, if a timer must be set for it.
    pub fn next_wake(&mut self) -> Option<(Time, u64)> {
        let next = self.cores.iter().map(|core| core.next).min()?;
        if next >= self.woken_for {
            return None;
        }
        self.woken_for = next;
        Some((self.clock.time(next), next))
    }

    /// Handles the timer of a cycle: the cores that are due issue. [`Processors::take_left`] and
    /// [`Processors::take_loads`] then return the results.
    pub fn step(&mut self, cycle: u64) {
        if cycle != self.woken_for {
            return; // an earlier timer was set after this one
        }
        self.woken_for = NEVER;
        let count = self.cores.len();
        for place in 0..count {
            let core = &mut self.cores[(cycle as usize + place) % count];
            if core.next != cycle {
                continue;
            }
            let pc = core.pc;
            if let Err(what) = core.issue(cycle, &mut self.shared) {
                core.next = NEVER;
                let number = (cycle as usize + place) % count;
                let function = match self.image.function_at(pc) {
                    Some((name, offset)) => {
                        format!("{}+{offset:#x}", elf::printable(name.as_bytes()))
                    }
                    None => "no function".to_string(),
                };
                self.fault.get_or_insert(format!(
                    "the firmware of the network interface fails on its core {number} at {pc:#x} \
                     ({function}): {what}"
                ));
            }
        }
    }

    /// Frames that have left the cores since the last call, and their fate.
    pub fn take_left(&mut self) -> Vec<(Fate, Frame)> {
        let left = std::mem::take(&mut self.shared.left);
        let counts = &mut self.shared.statistics;
        for (fate, _) in &left {
            match fate {
                Fate::Delivered(_) => counts.frames_to_host += 1,
                Fate::Sent(_) => counts.frames_sent += 1,
                Fate::Dropped => counts.frames_dropped += 1,
            }
        }
        left
    }

    /// Loads of host memory that have begun since the last call.
    pub fn take_loads(&mut self) -> Vec<HostLoad> {
        std::mem::take(&mut self.shared.loads)
    }
}
