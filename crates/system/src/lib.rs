//! The door through which a paper's hardware comes into a server.
//!
//! A [`System`] is the description of that hardware: the table `server.<key>` of a description. It
//! checks itself, says which memory it needs, and attaches itself to the fabric and the cores. What
//! it leaves behind, [`Attached`], tells of it while the server runs and when the run is over:
//! statistics, energy, faults. The server knows systems by this trait alone; its registry has a
//! line for each.

mod cores;
mod port;
mod wire;

pub use cores::Cores;
pub use port::PortEnergySpec;
pub use wire::Wire;

use energy::Split;
use fabric::{AddressRange, AgentId, CoreId, Fabric, FabricSpec, NamedRange, Time};
use network::rack::LineRate;
use network::transport::Protocol;
use pipeline::{CoreSpec, Probe};
use queues::{ArrivalTimer, DeliveredPacket, IoSetup, Ledger, ProgramSettings, SharedLedger};
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;
use spec::SpecError;
use workload::{Files, Packets, TrafficSpec};

/// What a system is, whatever its description says.
#[derive(Debug)]
pub struct Kind {
    /// Its table in `server`, and its name in results.
    pub key: &'static str,
    /// The values of `data_plane.notify` that it stands for.
    pub mechanisms: &'static [Mechanism],
    /// The value of `interface` that it stands for in a rack, if it is a network interface.
    pub interface: Option<Interface>,
    /// What it reports under its key. Without: it is only a network interface.
    pub statistics: Option<Report>,
    /// Its components in the energy of a server: the name of each, and a sentence.
    pub components: &'static [Component],
    /// Whether it brings instructions or registers for the cores.
    pub extends_cores: bool,
    /// Whether it observes cores ([`Attached::probes`]): then every server that describes it has
    /// it, whatever the server is for.
    pub observes_cores: bool,
    /// Its part of the memory map.
    pub memory_map: &'static [NamedRange],
    /// Files with numbers that its programs need, which `make docs` writes.
    pub headers: &'static [Header],
}

impl Kind {
    /// A system without anything.
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

/// A file's path in the repository, and what makes its text.
pub type Header = (&'static str, fn() -> String);

/// A component in the energy of a server: its name in results, and a sentence.
pub type Component = (&'static str, &'static str);

/// Declares what [`Hardware::statistics`] reports, such as `SchemaGenerator::subschema_for::<T>`.
pub type Report = fn(&mut SchemaGenerator) -> Schema;

/// A network interface of a server in a rack: a value of `interface`.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    /// The value.
    pub name: &'static str,
    /// A sentence about it.
    pub help: &'static str,
    /// What it reports.
    pub statistics: Report,
}

/// A way in which a data plane learns of work: a value of `data_plane.notify`.
#[derive(Debug, PartialEq, Eq)]
pub struct Mechanism {
    /// The value.
    pub name: &'static str,
    /// What figures call it.
    pub label: &'static str,
    /// A sentence about it.
    pub help: &'static str,
    /// The number by which a guest knows it: `enum io_notify` in `guest/include/io.h`.
    pub code: u64,
    /// How many items a visit to a queue takes at most, if the description does not say.
    pub usual_batch: u32,
    /// Which cores share queues, if the description does not say: all, or none.
    pub shares_queues: bool,
    /// How many items of a queue whose items are in order may still be being read after they were
    /// counted down: those of a visit, or one.
    pub reads_one: bool,
    /// Whether it can serve queues by weights.
    pub has_weights: bool,
    /// Whether requests come from the system itself: then there are no queues in memory.
    pub brings_requests: bool,
    /// Why cores cannot be the sources of its traffic, if that is so.
    pub needs_device: Option<&'static str>,
    /// Whether a hart without work halts, and executes nothing.
    pub sleeps: bool,
    /// Whether a queue belongs to one hart, whatever the description says: the queues of network
    /// interfaces do.
    pub owns_queues: bool,
}

impl Mechanism {
    /// One that polls queues which each core has for itself, one item a visit.
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

/// The server that a system is to be part of.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// Its cores, all alike.
    pub core: &'a CoreSpec,
    /// What they share.
    pub fabric: &'a FabricSpec,
    /// How many cores run the data plane.
    pub data_plane_cores: usize,
    /// What it is for.
    pub setting: &'a Setting<'a>,
    /// Whether the system takes part. Otherwise the server has its table and not the system.
    pub is_used: bool,
    /// The firmware of its network interface, if that is programmable.
    pub firmware: Option<&'a str>,
}

/// What a server is for.
#[derive(Clone, Debug)]
pub enum Setting<'a> {
    /// It runs a data plane.
    DataPlane(DataPlane<'a>),
    /// It is in a rack.
    Rack,
    /// It runs a program on its own.
    Alone,
}

/// A data plane, as far as systems ask.
#[derive(Clone, Debug)]
pub struct DataPlane<'a> {
    /// The notification mechanism.
    pub mechanism: &'static Mechanism,
    /// Its queues, or the nodes that send messages.
    pub queues: u32,
    /// How many groups of harts have queues of their own.
    pub clusters: u32,
    /// How many items a visit to a queue takes at most.
    pub batch: u32,
    /// `data_plane.policy`, as it is written.
    pub policy: String,
    /// `data_plane.organisation`, as it is written, if it is given.
    pub organisation: Option<String>,
    /// The incoming traffic.
    pub traffic: &'a TrafficSpec,
}

/// Where a system is attached.
#[derive(Debug)]
pub struct Site<'a> {
    /// The server.
    pub host: Host<'a>,
    /// Where doorbells are.
    pub doorbells: AddressRange,
    /// Where the registers of the I/O device are, for a system that answers there itself.
    pub io_registers: AddressRange,
    /// The address and the rate of the server's link, in a rack.
    pub link: Option<(u32, LineRate)>,
    /// Of random choices.
    pub seed: u64,
    /// The files that the description names, with data or firmware.
    pub files: &'a Files,
    /// The requests, for a mechanism that brings them.
    pub requests: Option<Requests<'a>>,
}

/// What a mechanism that brings its requests itself does with them.
#[derive(Debug)]
pub struct Requests<'a> {
    /// The data plane.
    pub setup: &'a IoSetup,
    /// The incoming traffic.
    pub traffic: &'a TrafficSpec,
    /// The packets that they have.
    pub packets: Packets,
    /// When they come.
    pub arrivals: ArrivalTimer,
    /// What the program is told.
    pub settings: ProgramSettings,
    /// Where they are counted and measured.
    pub ledger: &'a SharedLedger,
    /// Where a message waits for a core has been used before the run.
    pub has_used_rings: bool,
    /// How many replies to keep.
    pub capture_packets: usize,
}

/// Why a system cannot be attached, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl From<SpecError> for Refusal {
    fn from(error: SpecError) -> Refusal {
        Refusal(error.to_string())
    }
}

/// A paper's hardware, or a network interface, as a description has it.
pub trait System {
    /// Whether it can be part of `host`. Keys begin at the description, or at an entry of
    /// `rack.servers`: `server.hyperplane.ways`, `data_plane.queues`.
    fn check(&self, host: &Host<'_>) -> Result<(), SpecError>;

    /// Memory that it needs beside the main memory; doorbells are there already.
    fn memory(&self, _host: &Host<'_>) -> Vec<AddressRange> {
        Vec::new()
    }

    /// What its network interface speaks. One that knows nothing of messages leaves a transport to
    /// the program.
    fn protocol(&self) -> Protocol {
        Protocol::Datagrams
    }

    /// How many ports its network interface has.
    fn ports(&self) -> usize {
        1
    }

    /// Its firmware, if it is a programmable network interface: a built-in one by its name, or a
    /// path.
    fn firmware(&self) -> Option<&str> {
        None
    }

    /// Attaches it.
    fn attach(&self, fabric: &mut Fabric, site: Site<'_>) -> Result<Attached, Refusal>;
}

/// Makes the probe of a core's hardware thread.
pub type Probes = Box<dyn Fn(CoreId, u8) -> Box<dyn Probe>>;

/// A system that is part of a server.
pub struct Attached {
    /// What tells of it.
    pub hardware: Box<dyn Hardware>,
    /// The cores that it needs, if it extends them.
    pub cores: Option<Box<dyn Cores>>,
    /// What sees the instructions of all harts, from the first one on.
    pub probes: Option<Probes>,
    /// Its link, if it is a network interface.
    pub wire: Option<Wire>,
    /// The agent that takes over at the end of a warm start, if the requests come from it.
    pub source: Option<AgentId>,
    /// The agent that takes the interrupts of devices, if there is one: of the I/O device, which
    /// tells it of queues that were empty, and of what has [`Hardware::connect_signal`]. The header
    /// of a message is the number of the source, which is that of a queue.
    pub signal: Option<AgentId>,
    /// The agent that works with the firmware of a programmable network interface, if there is one:
    /// [`Hardware::connect_listener`].
    pub listener: Option<AgentId>,
    /// Stores to these addresses begin and end the service of a request. Without: doorbells.
    pub watched: Option<AddressRange>,
}

impl Attached {
    /// Hardware that does nothing but answer its agents.
    pub fn new(hardware: impl Hardware + 'static) -> Attached {
        Attached {
            hardware: Box::new(hardware),
            cores: None,
            probes: None,
            wire: None,
            source: None,
            signal: None,
            listener: None,
            watched: None,
        }
    }
}

/// What tells of a system that is part of a server.
pub trait Hardware {
    /// Once, when all systems are attached: what it has to signal goes to this agent
    /// ([`Attached::signal`]).
    fn connect_signal(&self, _fabric: &mut Fabric, _to: AgentId) {}

    /// Once, when all systems are attached: what firmware of a programmable network interface notes
    /// of frames goes to this agent ([`Attached::listener`]), before the frames are in memory. The
    /// header of a message is the address of the frame's buffer. Its first word has the frame's
    /// bytes and, from bit 32 on, how many notes there are; the others are the notes, of which the
    /// first is the number of a core of the host. The agent may send blocks back, with the offset
    /// in the firmware's window as the header.
    fn connect_listener(&self, _fabric: &mut Fabric, _to: AgentId) {}

    /// Its part of the results: what it has counted until `now`. `ledger` has the requests of a
    /// data plane.
    fn statistics(&self, fabric: &mut Fabric, now: Time, ledger: Option<&Ledger>) -> Value;

    /// What the program has done first with it that cannot be, as a sentence.
    fn fault(&self, _fabric: &mut Fabric) -> Option<String> {
        None
    }

    /// Packets that it has dropped.
    fn dropped_packets(&self, _fabric: &mut Fabric) -> u64 {
        0
    }

    /// The replies that were to be kept, if the requests come from it.
    fn replies(&self, _fabric: &mut Fabric) -> Vec<DeliveredPacket> {
        Vec::new()
    }

    /// How long it has held a core in a state in which the core's clock stands still.
    fn powered_down(&self, _fabric: &mut Fabric, _core: CoreId, _now: Time) -> Time {
        Time::ZERO
    }

    /// What it has counted until `now` of the events that cost energy.
    fn events(&self, _fabric: &mut Fabric, _now: Time) -> Vec<u64> {
        Vec::new()
    }

    /// What each of [`Kind::components`] has cost in nanojoules, in so many `seconds` with so many
    /// `events`.
    /// `follows_sizes`: the costs are to be those of the sizes that are described
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
