//! The interface through which a paper's hardware is added to a server.
//!
//! A [`System`] is the description of that hardware: the table `server.<key>` of a description. It
//! checks itself, declares the memory it needs, and attaches itself to the fabric and the cores.
//! The result, [`Attached`], supplies information while the server runs and after the run:
//! statistics, energy, faults. The server knows systems by this trait alone; its registry has a
//! line for each.

mod port;
mod wire;

pub use port::PortEnergySpec;
pub use wire::Wire;

use energy::Split;
use fabric::{AddressRange, AgentId, CoreId, Fabric, FabricSpec, NamedRange, Time};
use network::rack::LineRate;
use network::transport::TransportSpec;
use pipeline::{CoreSpec, Extension, Probe, Supplier};
use queues::{ArrivalTimer, DeliveredPacket, IoSetup, Ledger, ProgramSettings, SharedLedger};
use riscv::elf::Image;
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;
use spec::SpecError;
use workload::{Files, Packets, TrafficSpec};

/// The properties of a system that do not depend on its description.
#[derive(Debug)]
pub struct Kind {
    /// Its table in `server`, and its name in results.
    pub key: &'static str,
    /// The values of `data_plane.notify` that it implements.
    pub mechanisms: &'static [Mechanism],
    /// The value of `interface` that it implements in a rack, if it is a network interface.
    pub interface: Option<Interface>,
    /// The declaration of its report under its key. Without it, the system is only a network
    /// interface.
    pub statistics: Option<Report>,
    /// Its components in the energy of a server: each with a name and a sentence.
    pub components: &'static [Component],
    /// Whether it adds instructions or registers to the cores.
    pub extends_cores: bool,
    /// Whether it observes cores ([`Attached::probes`], [`Attached::suppliers`]): then it is part of
    /// every server that describes it, whatever the server's setting.
    pub observes_cores: bool,
    /// Its part of the memory map.
    pub memory_map: &'static [NamedRange],
    /// Files with numbers for programs, which `make docs` writes.
    pub headers: &'static [Header],
}

impl Kind {
    /// A kind without any of the optional parts.
    pub const fn new(key: &'static str) -> Kind {
        Kind {
            key,
            mechanisms: &[],
            interface: None,
            statistics: None,
            components: &[],
            extends_cores: false,
            observes_cores: false,
            memory_map: &[],
            headers: &[],
        }
    }
}

/// A file's path in the repository, and the function that generates its text.
pub type Header = (&'static str, fn() -> String);

/// A component in the energy of a server: its name in results, and a sentence.
pub type Component = (&'static str, &'static str);

/// Declares the report of [`Hardware::statistics`], such as `SchemaGenerator::subschema_for::<T>`.
pub type Report = fn(&mut SchemaGenerator) -> Schema;

/// A network interface of a server in a rack: a value of `interface`.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    /// The value.
    pub name: &'static str,
    /// A sentence that describes it.
    pub help: &'static str,
    /// The declaration of its report.
    pub statistics: Report,
    /// Whether two of them can share a link.
    pub sharing: Sharing,
}

/// Whether a network interface can share the link of its server with another one:
/// [`SecondPath`](network::rack::SecondPath).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It needs the link for itself.
    Never,
    /// It has the link, and takes some packets; a second interface can have the others.
    Leads,
    /// It takes any packet, and can be the second one, with one port.
    Follows,
}

/// A notification mechanism of data planes: a value of `data_plane.notify`.
#[derive(Debug, PartialEq, Eq)]
pub struct Mechanism {
    /// The value.
    pub name: &'static str,
    /// Its label in figures.
    pub label: &'static str,
    /// A sentence that describes it.
    pub help: &'static str,
    /// Its number in guests: `enum io_notify` in `guest/include/io.h`.
    pub code: u64,
    /// The default maximum number of items per visit to a queue.
    pub usual_batch: u32,
    /// Whether, by default, all cores share queues; otherwise none do.
    pub shares_queues: bool,
    /// Number of items of an in-order queue that may still be being read after they were counted
    /// down: those of a visit, or one.
    pub reads_one: bool,
    /// Whether it supports weighted queues.
    pub has_weights: bool,
    /// Whether the system itself brings requests: then there are no queues in memory.
    pub brings_requests: bool,
    /// The reason that cores cannot be the sources of its traffic, if they cannot.
    pub needs_device: Option<&'static str>,
    /// Whether a hart without work halts and executes nothing.
    pub sleeps: bool,
    /// Whether a queue always belongs to one hart, as the queues of network interfaces do.
    pub owns_queues: bool,
}

impl Mechanism {
    /// A mechanism that polls private queues of each core, one item per visit.
    pub const fn new(
        name: &'static str,
        code: u64,
        label: &'static str,
        help: &'static str,
    ) -> Mechanism {
        Mechanism {
            name,
            label,
            help,
            code,
            usual_batch: 1,
            shares_queues: false,
            reads_one: false,
            has_weights: false,
            brings_requests: false,
            needs_device: None,
            sleeps: false,
            owns_queues: false,
        }
    }
}

/// The server that a system is added to.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// Its cores, all alike.
    pub core: &'a CoreSpec,
    /// The shared part: the fabric.
    pub fabric: &'a FabricSpec,
    /// Number of cores that run the data plane.
    pub data_plane_cores: usize,
    /// The purpose of the server.
    pub setting: &'a Setting<'a>,
    /// Whether the system takes part; otherwise the server has its table but not the system.
    pub is_used: bool,
    /// The firmware of its network interface, if that is programmable.
    pub firmware: Option<&'a str>,
}

/// The purpose of a server.
#[derive(Clone, Debug)]
pub enum Setting<'a> {
    /// It runs a data plane.
    DataPlane(DataPlane<'a>),
    /// It is in a rack.
    Rack,
    /// It runs a program on its own.
    Alone,
}

/// The parameters of a data plane that systems use.
#[derive(Clone, Debug)]
pub struct DataPlane<'a> {
    /// The notification mechanism.
    pub mechanism: &'static Mechanism,
    /// Number of its queues, or of nodes that send messages.
    pub queues: u32,
    /// Number of groups of harts with queues of their own.
    pub clusters: u32,
    /// Maximum number of items per visit to a queue.
    pub batch: u32,
    /// `data_plane.policy`, as in the description.
    pub policy: String,
    /// `data_plane.organisation`, as in the description, if given.
    pub organisation: Option<String>,
    /// The incoming traffic.
    pub traffic: &'a TrafficSpec,
}

/// The place where a system is attached.
#[derive(Debug)]
pub struct Site<'a> {
    /// The server.
    pub host: Host<'a>,
    /// The addresses of doorbells.
    pub doorbells: AddressRange,
    /// The addresses of the I/O device's registers, for a system that responds there itself.
    pub io_registers: AddressRange,
    /// The address and the rate of the server's link, in a rack.
    pub link: Option<(u32, LineRate)>,
    /// The seed of random choices.
    pub seed: u64,
    /// The data and firmware files named by the description.
    pub files: &'a Files,
    /// The requests, for a mechanism that brings them.
    pub requests: Option<Requests<'a>>,
}

/// The inputs of a mechanism that brings its requests itself.
#[derive(Debug)]
pub struct Requests<'a> {
    /// The data plane.
    pub setup: &'a IoSetup,
    /// The incoming traffic.
    pub traffic: &'a TrafficSpec,
    /// The contents of requests.
    pub packets: Packets,
    /// The arrival times of requests.
    pub arrivals: ArrivalTimer,
    /// The settings passed to the program.
    pub settings: ProgramSettings,
    /// The ledger that counts and measures them.
    pub ledger: &'a SharedLedger,
    /// Whether every slot for a waiting message has been used before the run.
    pub has_used_rings: bool,
    /// Number of replies to keep.
    pub capture_packets: usize,
}

/// The reason that a system cannot be attached, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl From<SpecError> for Refusal {
    fn from(error: SpecError) -> Refusal {
        Refusal(error.to_string())
    }
}

/// The description of a paper's hardware, or of a network interface.
pub trait System {
    /// Checks whether it can be part of `host`. Keys are relative to the description, or to an
    /// entry of `rack.servers`: `server.hyperplane.ways`, `data_plane.queues`.
    fn check(&self, host: &Host<'_>) -> Result<(), SpecError>;

    /// The memory it needs besides the main memory and the doorbells.
    fn memory(&self, _host: &Host<'_>) -> Vec<AddressRange> {
        Vec::new()
    }

    /// The transport of its network interface. An interface without messages leaves it to the
    /// program, and sends datagrams.
    fn transport(&self) -> Option<&TransportSpec> {
        None
    }

    /// Number of ports of its network interface.
    fn ports(&self) -> usize {
        1
    }

    /// Its firmware, if it is a programmable network interface: the name of a built-in one, or a
    /// path.
    fn firmware(&self) -> Option<&str> {
        None
    }

    /// Attaches it to the server.
    fn attach(&self, fabric: &mut Fabric, site: Site<'_>) -> Result<Attached, Refusal>;
}

/// Creates the probe of a core's hardware thread.
pub type Probes = Box<dyn Fn(CoreId, u8) -> Box<dyn Probe>>;

/// Creates what gets values of loads of a core.
pub type Suppliers = Box<dyn Fn(CoreId) -> Box<dyn Supplier>>;

/// A system that is part of a server.
pub struct Attached {
    /// The source of information about it.
    pub hardware: Box<dyn Hardware>,
    /// Its extension of the cores, if it has one.
    pub extension: Option<Box<dyn Extension>>,
    /// Probes for the instructions of all harts, from the first one on.
    pub probes: Option<Probes>,
    /// What gets values of loads of the cores. A server has those of one system.
    pub suppliers: Option<Suppliers>,
    /// Its link, if it is a network interface.
    pub wire: Option<Wire>,
    /// The agent that takes over at the end of a warm start, if it brings the requests.
    pub source: Option<AgentId>,
    /// The agent that takes the interrupts of devices, if there is one: of the I/O device, which
    /// reports queues that were empty, and of systems with [`Hardware::connect_signal`]. The header
    /// of a message is the number of the source, which is that of a queue.
    pub signal: Option<AgentId>,
    /// The agent that cooperates with the firmware of a programmable network interface, if there is
    /// one: [`Hardware::connect_listener`].
    pub listener: Option<AgentId>,
    /// Stores to these addresses start and end the service of a request. Without them, doorbells
    /// do.
    pub watched: Option<AddressRange>,
}

impl Attached {
    /// Hardware without any of the optional parts.
    pub fn new(hardware: impl Hardware + 'static) -> Attached {
        Attached {
            hardware: Box::new(hardware),
            extension: None,
            probes: None,
            suppliers: None,
            wire: None,
            source: None,
            signal: None,
            listener: None,
            watched: None,
        }
    }
}

/// Information about a system that is part of a server.
pub trait Hardware {
    /// Called once, when all systems are attached: its signals must go to this agent
    /// ([`Attached::signal`]).
    fn connect_signal(&self, _fabric: &mut Fabric, _to: AgentId) {}

    /// Called once, when all systems are attached: notes about frames from the firmware of a
    /// programmable network interface must go to this agent ([`Attached::listener`]), before the
    /// frames are in memory. The header of a message is the address of the frame's buffer. Its
    /// first word has the frame's bytes and, from bit 32 on, the number of notes; the others are
    /// the notes, the first of which is the number of a core of the host. The agent may send blocks
    /// back, with the offset in the firmware's window as the header.
    fn connect_listener(&self, _fabric: &mut Fabric, _to: AgentId) {}

    /// Called once, when the program has been loaded, before its first instruction: for names of
    /// functions.
    fn connect_program(&self, _program: &Image) -> Result<(), Refusal> {
        Ok(())
    }

    /// Its part of the results: its counts until `now`. `ledger` has the requests of a data plane.
    fn statistics(&self, fabric: &mut Fabric, now: Time, ledger: Option<&Ledger>) -> Value;

    /// The program's first error in using it, as a sentence.
    fn fault(&self, _fabric: &mut Fabric) -> Option<String> {
        None
    }

    /// Number of packets that it has dropped.
    fn dropped_packets(&self, _fabric: &mut Fabric) -> u64 {
        0
    }

    /// The kept replies, if it brings the requests.
    fn replies(&self, _fabric: &mut Fabric) -> Vec<DeliveredPacket> {
        Vec::new()
    }

    /// The time for which it has held a core in a state with a stopped clock.
    fn powered_down(&self, _fabric: &mut Fabric, _core: CoreId, _now: Time) -> Time {
        Time::ZERO
    }

    /// Its counts until `now` of the events that consume energy.
    fn events(&self, _fabric: &mut Fabric, _now: Time) -> Vec<u64> {
        Vec::new()
    }

    /// The energy of each of [`Kind::components`] in nanojoules, for `seconds` with `events`.
    /// `follows_sizes`: the costs must be scaled to the described sizes
    /// (`server.energy.follow_sizes`).
    fn energy(
        &self,
        _fabric: &mut Fabric,
        _events: &[u64],
        _seconds: f64,
        _follows_sizes: bool,
    ) -> Vec<Split> {
        Vec::new()
    }
}
