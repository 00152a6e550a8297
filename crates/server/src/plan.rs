//! The construction of every bare-metal server: alone, with a data plane, or in a rack.

use crate::description::{ServerSpec, SimulatorSpec};
use crate::error::RunError;
use crate::hardware::{Hardware, Wanted};
use crate::limits::Guard;
use crate::machine::{Machine, UntimedServer};
use crate::memory_map::{DOORBELLS, EXECUTED_DOORBELLS, IO_REGISTERS};
use crate::preparation::Preparation;
use fabric::{AddressRange, Fabric};
use network::rack::LineRate;
use riscv::elf::Image;
use system::{Requests, Site};
use workload::Files;

/// A range of `lines` doorbells, each on its own line.
pub(crate) fn doorbell_range(start: u64, lines: u64) -> AddressRange {
    AddressRange {
        start,
        length: lines * 64,
    }
}

/// The doorbells of a program without an I/O device that would give their number.
pub(crate) fn program_doorbells() -> AddressRange {
    doorbell_range(DOORBELLS.start, EXECUTED_DOORBELLS)
}

/// The plan of a server.
pub(crate) struct Plan<'a> {
    pub server: &'a ServerSpec,
    pub simulator: &'a SimulatorSpec,
    /// Its systems.
    pub wanted: Wanted<'a>,
    /// The addresses of doorbells.
    pub doorbells: AddressRange,
    /// Memory besides the main memory and that of systems.
    pub memory: Vec<AddressRange>,
    /// The files named by the description.
    pub files: &'a Files,
    /// Whether the program's output goes to this process's.
    pub is_live: bool,
    /// The program's path, and further arguments of its `main()`.
    pub arguments: Vec<Vec<u8>>,
}

impl Plan<'_> {
    /// All memory besides the main memory.
    fn more_memory(&self) -> Vec<AddressRange> {
        let of_systems = self.wanted.memory();
        self.memory.iter().copied().chain(of_systems).collect()
    }

    /// The same server without timing.
    pub fn untimed(&self) -> UntimedServer {
        UntimedServer {
            arguments: self.arguments.clone(),
            ..UntimedServer::of(self.server, &self.more_memory())
        }
    }

    /// Builds it with the program `image`, which starts in the state left by `preparation`. `seed`
    /// is that of random choices, `link` its address and the rate of its link. `attach` adds agents
    /// other than its systems.
    pub fn build<T>(
        &self,
        image: Image,
        preparation: Option<&Preparation>,
        guard: &Guard<'_>,
        (seed, link): (u64, Option<(u32, LineRate)>),
        requests: Option<Requests<'_>>,
        attach: impl FnOnce(&mut Fabric, &Hardware) -> Result<T, RunError>,
    ) -> Result<(Machine, Hardware, T), RunError> {
        let mut built = None;
        let memory = self.more_memory();
        let mut machine = Machine::new(self.server, image, &memory, self.is_live, |fabric| {
            let mut requests = requests;
            let mut hardware = self.wanted.attach(fabric, |host| Site {
                host,
                doorbells: self.doorbells,
                io_registers: IO_REGISTERS,
                link,
                seed,
                files: self.files,
                requests: requests.take(),
            })?;
            let extension = hardware.take_extension();
            let beside = attach(fabric, &hardware)?;
            built = Some((hardware, beside));
            Ok(extension)
        })?;
        let Some((mut hardware, beside)) = built else {
            return Err(RunError::Description("nothing was attached".to_string()));
        };
        hardware.connect_program(machine.image())?;
        self.simulator.apply(&mut machine);
        machine.give(self.arguments.clone());
        if let Some(preparation) = preparation {
            preparation.begin(&mut machine);
        }
        machine.limit_output(guard.output_bytes());
        machine.observe(hardware.take_probes());
        machine.supply(hardware.take_suppliers());
        Ok((machine, hardware, beside))
    }
}
