//! The servers of a run, one alone or those of a rack: checks and construction.

use crate::data_plane::{DataPlanePlan, Io};
use crate::description::{Description, MeasureSpec, ServerSpec, SimulatorSpec, written};
use crate::error::RunError;
use crate::hardware::{Hardware, Wanted};
use crate::limits::Guard;
use crate::machine::Machine;
use crate::memory_map::{IO_REGISTERS, MAIN_MEMORY};
use crate::notify::InterfaceKind;
use crate::plan::{Plan, program_doorbells};
use crate::preparation::{Preparation, Told};
use crate::program::{Program, check_bare_metal, check_given, load};
use crate::rack::RackServer;
use crate::registry::{SYSTEMS, interfaces};
use fabric::{AgentId, Attachment, Fabric, NamedRange};
use network::rack::{LineRate, NodeId};
use network::transport::program::ProgramSource;
use network::transport::{Protocol, TransportSpec};
use queues::{ProgramDevice, ProgramPreparation, ProgramRegisters, ProgramSettings};
use riscv::elf::Image;
use spec::{SpecError, Under, require};
use std::collections::BTreeMap;
use std::sync::Arc;
use system::{Setting, Sharing};
use workload::{Files, OperationsSpec};

/// The program of a server.
#[derive(Clone, Copy)]
pub(crate) enum Runs<'a> {
    /// A data plane with its own traffic.
    DataPlane(DataPlanePlan<'a>),
    /// A bare-metal program that uses the network.
    Networked(Given<'a>),
    /// A program alone, with its inputs.
    Alone(&'a Program),
}

/// The inputs of a program that uses the network.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    /// Its name or path.
    pub program: &'a str,
    /// Further arguments of its `main()`.
    pub arguments: &'a [String],
    /// Numbers that it reads.
    pub parameters: &'a BTreeMap<String, f64>,
    /// The operations of clients on its store, if any.
    pub operations: Option<&'a OperationsSpec>,
}

impl Given<'_> {
    /// Its settings, without the results of `prepare()`.
    fn settings(&self) -> ProgramSettings {
        ProgramSettings {
            parameters: self.parameters.clone(),
            operations: self.operations.cloned().unwrap_or_default(),
            ..ProgramSettings::default()
        }
    }

    /// All arguments of its `main()`.
    fn all(&self) -> Vec<Vec<u8>> {
        let arguments = self.arguments.iter().map(String::as_str);
        let all = std::iter::once(self.program).chain(arguments);
        all.map(|one| one.as_bytes().to_vec()).collect()
    }
}

/// A server, or several identical ones.
#[derive(Clone, Copy)]
pub(crate) struct HostSpec<'a> {
    /// Its name, if there is a network.
    pub name: Option<&'a str>,
    pub count: u32,
    pub server: &'a ServerSpec,
    pub runs: Runs<'a>,
    /// Whether the run ends without waiting for its program to exit.
    pub serves: bool,
    /// Its network interface, if there is a network.
    pub interface: Option<InterfaceKind>,
    /// The network interface that shares the link of that one, if there is one.
    pub dma_path: Option<InterfaceKind>,
    /// The keys of its systems besides those of the interface and the data plane.
    pub systems: &'a [String],
}

/// The common inputs of all servers of a run when they are built.
#[derive(Clone, Copy)]
pub(crate) struct Common<'a> {
    pub measure: &'a MeasureSpec,
    pub simulator: &'a SimulatorSpec,
    pub files: &'a Files,
    /// Number of packets to capture.
    pub capture_packets: usize,
    /// Whether a checkpoint supplies the prepared state.
    pub is_restored: bool,
}

/// The place of one server.
pub(crate) struct Place {
    pub name: String,
    /// The seed of its random choices.
    pub seed: u64,
    /// Its address, the rate of its link, and its place in the network.
    pub link: Option<(u32, LineRate, NodeId)>,
}

impl Description {
    /// The servers.
    pub(crate) fn hosts(&self) -> Vec<HostSpec<'_>> {
        let rack = &self.tables.rack;
        let servers = rack.servers.iter().enumerate();
        let hosts = servers.map(|(place, server)| server.host_with(rack.operations_of(place)));
        hosts.collect()
    }
}

impl<'a> HostSpec<'a> {
    /// `program` alone on `server`.
    pub fn alone(server: &'a ServerSpec, program: &'a Program) -> HostSpec<'a> {
        HostSpec {
            name: None,
            count: 1,
            server,
            runs: Runs::Alone(program),
            serves: false,
            interface: None,
            dma_path: None,
            systems: &[],
        }
    }

    /// Checks whether such a server is possible. Keys are relative to the table that has `server`.
    pub fn check(&self) -> Result<(), SpecError> {
        self.server.check().under("server")?;
        for (place, key) in self.systems.iter().enumerate() {
            let known = SYSTEMS
                .iter()
                .filter(|kind| kind.interface.is_none() && !kind.observes_cores);
            let known: Vec<&str> = known.map(|kind| kind.key).collect();
            require(
                known.contains(&&**key) && !self.systems[..place].contains(key),
                &format!("systems.{place}"),
                written(key),
                format!("each of {} can be in it once", written(&known)),
            )?;
        }
        self.check_dma_path()?;
        let key = match &self.runs {
            Runs::DataPlane(plan) => {
                plan.check()?;
                self.check_own_system(plan)?;
                "data_plane.notify"
            }
            Runs::Networked(_) => "systems",
            Runs::Alone(_) => "server",
        };
        self.wanted().check(key)
    }

    /// Checks that the system of a data plane's mechanism has no other role in the server.
    fn check_own_system(&self, plan: &DataPlanePlan<'_>) -> Result<(), SpecError> {
        let own = plan.spec.notify.system().map(|kind| kind.key);
        let interface = self.interface.map(|interface| interface.system().key);
        let is_taken = |own| interface == Some(own) || self.systems.iter().any(|key| key == own);
        require(
            !own.is_some_and(is_taken),
            "data_plane.notify",
            written(&plan.spec.notify),
            "it is the interface or one of the systems already, and a server has each of them once",
        )
    }

    /// Checks that its two interfaces, if it has two, can share a link.
    fn check_dma_path(&self) -> Result<(), SpecError> {
        let Some(second) = self.dma_path else {
            return Ok(());
        };
        let sharing = |of: InterfaceKind| of.system().interface.map(|one| one.sharing);
        let names = |sharing: Sharing| {
            let all = interfaces().filter(|(_, one)| one.sharing == sharing);
            let names: Vec<&str> = all.map(|(_, one)| one.name).collect();
            names.join(" or ")
        };
        require(
            self.interface.and_then(sharing) == Some(Sharing::Leads),
            "dma_path",
            written(&second),
            format!(
                "it shares the link of an interface that leaves packets to it: interface must be {}",
                names(Sharing::Leads)
            ),
        )?;
        require(
            sharing(second) == Some(Sharing::Follows),
            "dma_path",
            written(&second),
            format!(
                "it must be a conventional interface: {}",
                names(Sharing::Follows)
            ),
        )?;
        let ports = self.server.system(second.system().key);
        let ports = ports.map_or(1, |system| system.ports());
        require(
            ports == 1,
            "dma_path",
            written(&second),
            format!(
                "it has {ports} ports, and there is one link: set server.{}.ports to 1",
                second.system().key
            ),
        )
    }

    /// Its systems, each with its setting. A network interface that shares the link of another one
    /// is the second one with a link.
    fn wanted(&self) -> Wanted<'a> {
        let (setting, own) = match &self.runs {
            Runs::DataPlane(plan) => {
                let own = plan.spec.notify.system().map(|kind| kind.key);
                (Setting::DataPlane(plan.setting()), own)
            }
            Runs::Networked(_) => (Setting::Rack, None),
            Runs::Alone(_) => return Wanted::described(self.server, Setting::Alone),
        };
        let interface = self.interface.map(|interface| interface.system().key);
        let dma_path = self.dma_path.map(|interface| interface.system().key);
        let others = interface
            .into_iter()
            .chain(dma_path)
            .chain(self.systems.iter().map(String::as_str));
        let wanted = Wanted::none(self.server, setting.clone());
        let wanted = own
            .into_iter()
            .fold(wanted, |wanted, key| wanted.and(key, &setting));
        let wanted = others.fold(wanted, |wanted, key| wanted.and(key, &Setting::Rack));
        wanted.and_observers(&setting)
    }

    /// Whether its queues, if any, are always full.
    pub fn fills_its_rings(&self) -> bool {
        match &self.runs {
            Runs::DataPlane(plan) => plan.traffic.saturates(),
            Runs::Networked(_) | Runs::Alone(_) => true,
        }
    }

    /// Whether its items, if any, state the time that a program takes for each.
    pub fn has_work(&self) -> bool {
        match &self.runs {
            Runs::DataPlane(plan) => plan.traffic.work.is_some(),
            Runs::Networked(_) | Runs::Alone(_) => true,
        }
    }

    /// Number of ports of its interface.
    pub fn ports(&self) -> usize {
        let system = self.interface.map(|interface| interface.system().key);
        let system = system.and_then(|key| self.server.system(key));
        system.map_or(1, |system| system.ports())
    }

    /// The protocol of its interface.
    pub fn protocol(&self) -> Protocol {
        let transport = self.transport();
        transport.map_or(Protocol::Datagrams, |transport| transport.protocol)
    }

    /// The program that its interface has in place of a protocol.
    pub fn transport_program(&self) -> Option<ProgramSource> {
        self.transport()?.program
    }

    fn transport(&self) -> Option<TransportSpec> {
        let system = self.interface.map(|interface| interface.system().key);
        let system = system.and_then(|key| self.server.system(key));
        system.and_then(|system| system.transport().cloned())
    }

    /// The plan for building it.
    fn plan(&self, common: &Common<'a>) -> Plan<'a> {
        let mut plan = Plan {
            server: self.server,
            simulator: common.simulator,
            files: common.files,
            wanted: self.wanted(),
            doorbells: program_doorbells(),
            memory: vec![program_doorbells()],
            is_live: false,
            arguments: Vec::new(),
        };
        match &self.runs {
            Runs::DataPlane(data_plane) => {
                let setup = data_plane.setup();
                plan.doorbells = setup.doorbells;
                plan.memory = vec![setup.doorbells, setup.consumers, setup.tenant_doorbells];
            }
            Runs::Networked(given) => {
                if self.systems.is_empty() {
                    plan.memory.clear();
                }
                plan.arguments = given.all();
            }
            Runs::Alone(program) => {
                plan.is_live = true;
                plan.arguments = program.given();
            }
        }
        plan
    }

    /// Reads the ELF file of its program.
    pub fn load(&self, elf: &[u8]) -> Result<Image, RunError> {
        let image = load(elf)?;
        match &self.runs {
            Runs::DataPlane(_) => check_bare_metal(&image)?,
            Runs::Networked(_) => check_given(&image, &Program::default())?,
            Runs::Alone(_) if is_linux(&image) => {}
            Runs::Alone(program) => check_given(&image, program)?,
        }
        Ok(image)
    }

    /// The state after its program's `prepare()`, if it has one.
    pub fn prepare(
        &self,
        image: &Image,
        common: &Common<'a>,
        guard: &mut Guard<'_>,
    ) -> Result<Option<Arc<Preparation>>, RunError> {
        if common.is_restored || is_linux(image) {
            return Ok(None);
        }
        let server = self.plan(common).untimed();
        match &self.runs {
            Runs::DataPlane(plan) => Preparation::kept(server, image, Some(plan.told()), guard),
            Runs::Networked(given) => {
                let settings = given.settings();
                let preparation = Preparation::kept(server, image, Some(self.told()), guard)?;
                let prepared = preparation.as_ref().map(|made| made.program.clone());
                let registers = ProgramRegisters::new(ProgramSettings {
                    prepared: prepared.unwrap_or_default(),
                    ..settings
                });
                match registers.unknown_parameter("parameters") {
                    Some(sentence) => Err(RunError::Description(sentence)),
                    None => Ok(preparation),
                }
            }
            Runs::Alone(_) => Ok(Preparation::live(&server, image, guard)?.map(Arc::new)),
        }
    }

    /// The input of its program in `prepare()` and in `check_after_run()`.
    pub fn told(&self) -> Told {
        match &self.runs {
            Runs::DataPlane(plan) => plan.told(),
            Runs::Networked(given) => Told::new(IO_REGISTERS, &given.settings()),
            Runs::Alone(_) => Told::new(IO_REGISTERS, &ProgramSettings::default()),
        }
    }

    /// Builds one such server with the program `image`, which starts in the state left by
    /// `preparation`.
    pub fn build(
        &self,
        image: &Image,
        preparation: Option<&Preparation>,
        common: &Common<'a>,
        place: Place,
        guard: &Guard<'_>,
    ) -> Result<(RackServer, Hardware), RunError> {
        let image = image.clone();
        if let Runs::Alone(program) = &self.runs
            && is_linux(&image)
        {
            let output_bytes = guard.output_bytes();
            let linux = prepare_linux(self.server, image, program, place.seed, output_bytes)?;
            let mut machine = Machine::with_linux(self.server, linux)?;
            common.simulator.apply(&mut machine);
            let server = RackServer::alone(place.name, machine, None);
            return Ok((server, Hardware::default()));
        }
        let plan = self.plan(common);
        let link = place.link.map(|(address, rate, _)| (address, rate));
        let position = (place.seed, link);
        let mut counters = None;
        let (machine, hardware, data_plane) = match &self.runs {
            Runs::DataPlane(of) => {
                let prepared = preparation.map(|preparation| preparation.program.clone());
                let begin = (place.seed, common.files, common.capture_packets);
                let io = Io::new(*of, common.measure, prepared.unwrap_or_default(), begin);
                let attach = |fabric: &mut Fabric, hardware: &Hardware| io.attach(fabric, hardware);
                let built = plan.build(image, preparation, guard, position, io.requests()?, attach);
                let (mut machine, hardware, data_plane) = built?;
                data_plane.watch(&mut machine, &hardware);
                (machine, hardware, Some(data_plane))
            }
            Runs::Networked(_) | Runs::Alone(_) => {
                let prepared = preparation.map(|preparation| &preparation.program);
                let attach = |fabric: &mut Fabric, _: &Hardware| self.count(fabric, prepared);
                let built = plan.build(image, preparation, guard, position, None, attach);
                let (machine, hardware, device) = built?;
                counters = device;
                (machine, hardware, None)
            }
        };
        let Some((address, rate, id)) = place.link else {
            return Ok((RackServer::alone(place.name, machine, data_plane), hardware));
        };
        let Some(wire) = hardware.wire() else {
            return Err(RunError::Description("it has no link".to_string()));
        };
        let mut server = RackServer::new(place.name, machine, wire, id);
        server.data_plane = data_plane;
        server.counters = counters;
        server.connect(address, rate)?;
        if let Some(second) = hardware.second_wire()
            && let Some(second) = second.interface(&mut server.machine.engine.fabric)
        {
            second.connect(address, rate);
        }
        Ok((server, hardware))
    }
}

impl HostSpec<'_> {
    /// Attaches the device of a store's counters, if clients have operations for it. An interface
    /// with registers at the same addresses leaves no place for it.
    fn count(
        &self,
        fabric: &mut Fabric,
        prepared: Option<&ProgramPreparation>,
    ) -> Result<Option<AgentId>, RunError> {
        let Runs::Networked(given) = &self.runs else {
            return Ok(None);
        };
        let interfaces = self.interface.iter().chain(&self.dma_path);
        let mut taken = interfaces.flat_map(|interface| interface.system().memory_map);
        let is_there = |taken: &NamedRange| taken.range.start == IO_REGISTERS.start;
        if given.operations.is_none() || taken.any(is_there) {
            return Ok(None);
        }
        let settings = ProgramSettings {
            prepared: prepared.cloned().unwrap_or_default(),
            ..given.settings()
        };
        let attachment = Attachment {
            // The same tile as the I/O device.
            tile: self.server.fabric.tiles_of_socket() - 1,
            owns: Some(IO_REGISTERS),
            ..Attachment::default()
        };
        let device = ProgramDevice::new(IO_REGISTERS, settings);
        Ok(Some(fabric.attach(Box::new(device), attachment)?))
    }
}

/// Whether a program is one for Linux.
pub(crate) fn is_linux(image: &Image) -> bool {
    linux::is_linux(image, MAIN_MEMORY.start)
}

/// A Linux program with its inputs.
pub(crate) fn prepare_linux(
    server: &ServerSpec,
    image: Image,
    program: &Program,
    seed: u64,
    output_bytes: u64,
) -> Result<linux::Prepared, RunError> {
    let setup = linux::Setup {
        arguments: program.given(),
        environment: program.environment.clone(),
        harts: server.harts(),
        memory_bytes: server.memory_mib * 1024 * 1024,
        seed,
        access: program.access.clone(),
        output_bytes,
    };
    linux::prepare(image, &setup).map_err(|error| RunError::Program(error.to_string()))
}
