//! A run: a description and a program in, measurements out.

use crate::checkpoint::{CheckpointOptions, Kind, Saver, Subject, When};
use crate::description::{Description, Policy, ServerSpec, written};
use crate::error::RunError;
use crate::functional::FunctionalMachine;
use crate::hardware::{Hardware, SystemResults, Wanted};
use crate::host::{HostClock, HostCost};
use crate::limits::{Guard, Limits};
use crate::machine::{Machine, NO_CHECKPOINTS_OF_LINUX, UntimedServer, second_half};
use crate::memory_map::{
    CONSUMERS, DOORBELLS, EXECUTED_DOORBELLS, IO_REGISTERS, IO_TENANTS, MAIN_MEMORY,
    TENANT_DOORBELLS,
};
use crate::meter::{Meter, Reading};
use crate::preparation::{Preparation, Told};
use crate::traces::{Harts, TraceOptions, TraceReport, Tracer, Traces, run_traced};
use energy::Energy;
use fabric::{AddressRange, AgentId, Fabric, FabricStatistics, Time};
use pipeline::{CoreStatistics, CycleStack, NEVER};
use queues::{
    CONSUMER_BYTES, IoSetup, IoSource, ItemCounts, Ledger, ProgramPreparation, ProgramSettings,
    SharedLedger, TenantSide,
};
use riscv::elf;
use serde::{Deserialize, Serialize};
use spec::{SpecError, Under, require};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use system::{DataPlane, Requests, Setting, Site};
use workload::{
    Files, KindMeasurement, Measurement, Random, Recorder, Rings, Stream, lost_requests,
};

/// A guest that has let work wait for this long without finishing any is stuck.
const PATIENCE_NS: f64 = 50e6;
/// While one core processes an item of a queue whose items need not be in order, each core of its
/// cluster can take this many of the same queue before they have to wait for it.
const SLOTS_APART: u32 = 4;
/// Steps of the engine between two looks at whether it is time to stop or to report.
const STEPS: u32 = 256;
/// The same in rounds of a functional run.
const ROUNDS: u32 = 64;

/// What the caller wants beside the measurements.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Keep the bytes of this many delivered packets; of a rack none are kept.
    pub capture_packets: usize,
    /// Write these traces.
    pub trace: TraceOptions,
    /// Save and begin from these checkpoints.
    pub checkpoint: CheckpointOptions,
    /// The contents of the files with data that the description names.
    #[serde(skip)]
    pub files: Files,
    /// How much the run may take of the host.
    pub limits: Limits,
}

/// One core's part of the results.
#[derive(Clone, Debug, Serialize)]
pub struct CoreResult {
    /// Instructions in a cycle, in the time in which the energy was spent.
    pub ipc: f64,
    /// Cycles, halted ones included.
    pub cycles: u64,
    /// Those of them in C1, the core's clock standing still.
    pub c1_cycles: u64,
    /// Everything that was counted, of all its harts together.
    #[serde(flatten)]
    pub statistics: CoreStatistics,
    /// Its harts, if they are two.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub harts: Vec<CoreHartResult>,
}

/// The part of one of a core's two harts.
#[derive(Clone, Debug, Serialize)]
pub struct CoreHartResult {
    /// Its number.
    pub hart: usize,
    /// Instructions in a cycle, as that of the core.
    pub ipc: f64,
    /// Instructions, without those that were undone.
    pub instructions: u64,
    /// Instructions that were executed on a wrong path or had to be done again.
    pub squashed_instructions: u64,
    /// Cycles in which it had halted of its own will.
    pub halted_cycles: u64,
    /// Conditional branches and indirect jumps.
    pub branches: u64,
    /// Those predicted wrongly.
    pub mispredictions: u64,
    /// Loads that found their line.
    pub data_hits: u64,
    /// Loads that did not.
    pub data_misses: u64,
    /// Where its cycles went.
    pub stack: CycleStack,
}

/// What a run has cost, in nanojoules.
#[derive(Clone, Debug, Serialize)]
pub struct EnergyResult {
    /// The time in which that was: from the beginning of the traffic, if there is any, or from the
    /// end of the warm start, to the end.
    pub seconds: f64,
    /// For each request that was delivered in it, those of the warm-up included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_request: Option<f64>,
    /// All and its parts.
    #[serde(flatten)]
    pub energy: Energy,
}

/// What every run has.
#[derive(Clone, Debug, Serialize)]
pub struct Totals {
    /// The cores: of a data plane its own, otherwise all.
    pub cores: Vec<CoreResult>,
    /// Instructions of all cores.
    pub instructions: u64,
    /// Cycles of the server's clock.
    pub cycles: u64,
    /// Simulated time.
    pub simulated_seconds: f64,
    /// What it has cost the host.
    #[serde(flatten)]
    pub host: HostCost,
    /// What the fabric counted.
    pub fabric: FabricStatistics,
    /// What the cores shown, and what all cores share, have cost.
    pub energy_nj: EnergyResult,
    /// Their mean power.
    pub power_w: Energy,
    /// Version of the simulator.
    pub version: &'static str,
}

impl Totals {
    /// The totals of a run that `machine` has ended. It had begun at `begin` with so many
    /// instructions, which a checkpoint had brought. Its energy and instructions in a cycle are those
    /// from the reading `first` to the reading `last`, of requests if there are any.
    pub(crate) fn of(
        machine: &Machine,
        meter: &Meter<'_>,
        (begin, brought): (HostClock, u64),
        (first, last): (&Reading, &Reading),
    ) -> Totals {
        let end = machine.end();
        let all: Vec<CoreStatistics> = machine
            .engine
            .cores
            .iter()
            .map(|core| core.statistics(end))
            .collect();
        let instructions: u64 = all.iter().map(|core| core.instructions).sum();
        let cycles = (last.cycle - first.cycle) as f64;
        let count = machine.engine.cores.len();
        let threads = usize::from(machine.threads());
        let harts = |core: usize| {
            let hart = |thread: usize| {
                let one = machine.engine.cores[core].hart_statistics(thread as u8, end);
                let before = first.hart_instructions.get(core * threads + thread);
                CoreHartResult {
                    hart: thread * count + core,
                    ipc: (one.instructions - before.copied().unwrap_or(0)) as f64 / cycles,
                    instructions: one.instructions,
                    squashed_instructions: one.squashed_instructions,
                    halted_cycles: one.halted_cycles,
                    branches: one.branches,
                    mispredictions: one.mispredictions,
                    data_hits: one.data_hits,
                    data_misses: one.data_misses,
                    stack: one.stack,
                }
            };
            match threads {
                1 => Vec::new(),
                _ => (0..threads).map(hart).collect(),
            }
        };
        let cores = all
            .into_iter()
            .take(meter.shown)
            .enumerate()
            .map(|(core, statistics)| {
                let before = first.cores.get(core).map_or(0, |core| core.instructions);
                CoreResult {
                    ipc: (statistics.instructions - before) as f64 / cycles,
                    cycles: end,
                    c1_cycles: last.c1_cycles[core],
                    statistics,
                    harts: harts(core),
                }
            })
            .collect();
        let engines = machine.engine.cores.iter();
        let host = HostCost {
            host_skipped_cycles: engines.map(|core| core.skipped_cycles()).collect(),
            ..begin.cost(Some(instructions.saturating_sub(brought)))
        };
        let energy = meter.energy(machine, first, last);
        let requests = last.delivered - first.delivered;
        let seconds =
            (machine.engine.time(last.cycle) - machine.engine.time(first.cycle)).as_seconds();
        Totals {
            cores,
            instructions,
            cycles: end,
            simulated_seconds: machine.engine.time(end).as_seconds(),
            host,
            fabric: machine.engine.fabric.statistics(),
            power_w: energy.power(seconds),
            energy_nj: EnergyResult {
                seconds,
                per_request: (requests > 0).then(|| energy.total / requests as f64),
                energy,
            },
            version: crate::VERSION,
        }
    }
}

/// What became of each queue's items: lists with an element for each queue.
#[derive(Clone, Debug, Default, Serialize)]
pub struct QueueResults {
    /// Arrived at the I/O source.
    pub generated: Vec<u64>,
    /// Found the queue full.
    pub dropped: Vec<u64>,
    /// Found the queue closed.
    pub refused: Vec<u64>,
    /// Taken by the tenant.
    pub delivered: Vec<u64>,
    /// Of the measured requests, those of this queue.
    pub samples: Vec<u64>,
    /// The mean of their latencies, in nanoseconds.
    pub mean_latency_ns: Vec<Option<f64>>,
    /// 99 % of them take at most this, in nanoseconds.
    pub p99_latency_ns: Vec<Option<f64>>,
}

impl QueueResults {
    fn of(ledger: &Ledger) -> QueueResults {
        let counts = ledger.queue_counts();
        let latencies = ledger.recorder().by_queue(counts.len());
        // Picoseconds are enough, and keep a thousand queues short.
        let rounded = |ns: Option<f64>| ns.map(|ns| (ns * 1e3).round() / 1e3);
        QueueResults {
            generated: counts.iter().map(|queue| queue.generated).collect(),
            dropped: counts.iter().map(|queue| queue.dropped).collect(),
            refused: counts.iter().map(|queue| queue.refused).collect(),
            delivered: counts.iter().map(|queue| queue.delivered).collect(),
            samples: latencies.iter().map(|queue| queue.samples).collect(),
            mean_latency_ns: latencies
                .iter()
                .map(|queue| rounded(queue.mean_ns))
                .collect(),
            p99_latency_ns: latencies
                .iter()
                .map(|queue| rounded(queue.p99_ns))
                .collect(),
        }
    }
}

/// What came out of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// Throughput, latencies, their intervals and histogram.
    #[serde(flatten)]
    pub measurement: Measurement,
    /// The same for the requests of each kind, by its name, if the program takes several kinds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by_kind: BTreeMap<&'static str, KindMeasurement>,
    /// Where all items went.
    #[serde(flatten)]
    pub items: ItemCounts,
    /// Where the items of each queue went.
    pub queues: QueueResults,
    /// What the program has counted, by the names that it gave.
    pub program_counters: BTreeMap<String, u64>,
    /// What every run has.
    #[serde(flatten)]
    pub totals: Totals,
    /// What the systems that took part have counted, each under its key.
    #[serde(flatten)]
    pub systems: SystemResults,
    /// Doorbells that were given another address because of a conflict.
    pub doorbell_conflicts: u64,
    /// What the guest printed.
    pub output: String,
    /// Delivered packets, in hexadecimal, if asked for.
    pub captured: Vec<String>,
    /// What has become of the traces that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<TraceReport>,
}

pub(crate) fn doorbell_range(start: u64, lines: u64) -> AddressRange {
    AddressRange {
        start,
        length: lines * 64,
    }
}

fn setup(description: &Description) -> IoSetup {
    let queues = description.data_plane.queues;
    let data_plane = &description.data_plane;
    let data_plane_cores = description.server.data_plane_cores as u32;
    let cluster_cores = data_plane.cluster_cores(data_plane_cores);
    let queue_capacity = description.traffic.queue_capacity;
    // A queue never holds more.
    let batch = data_plane.batch().min(queue_capacity - 1);
    let mechanism = data_plane.notify.mechanism();
    // Requests that a system brings go to whichever core it says.
    let in_order = (data_plane.in_order || cluster_cores == 1) && !mechanism.brings_requests;
    // Slots that are counted down and may still be being read: those of one visit; without order,
    // those of all cores, which may be far apart (see `struct data_plane_sharing` in the guest's
    // `data_plane.h`).
    let reading = if in_order {
        match mechanism.reads_one {
            true => 1,
            false => batch,
        }
    } else {
        SLOTS_APART * cluster_cores * batch
    };
    IoSetup {
        registers: IO_REGISTERS,
        tenant_registers: IO_TENANTS.start,
        queues,
        queue_capacity,
        ring_slots: (queue_capacity - 1 + reading).next_power_of_two(),
        slot_bytes: description.traffic.slot_bytes(),
        packet_bytes: description.traffic.packet_bytes,
        data_plane_cores,
        cluster_cores,
        batch,
        in_order,
        notify: mechanism.code,
        policy: match data_plane.policy {
            Policy::RoundRobin => 0,
            Policy::WeightedRoundRobin => 1,
            Policy::StrictPriority => 2,
        },
        // Twice what is needed, so that a doorbell in conflict can be given another address.
        doorbells: doorbell_range(DOORBELLS.start, 2 * u64::from(queues)),
        tenant_doorbells: doorbell_range(TENANT_DOORBELLS.start, u64::from(queues)),
        consumers: AddressRange {
            start: CONSUMERS.start,
            length: u64::from(queues) * CONSUMER_BYTES,
        },
        second_socket: match description.server.fabric.sockets {
            1 => None,
            _ => Some(second_half(&description.server)),
        },
    }
}

/// The queues that have traffic.
fn active_queues(description: &Description) -> Vec<u32> {
    let mut choice = Random::new(description.measure.seed, Stream::ActiveQueues);
    let shape = description.traffic.shape;
    shape.active_queues(description.data_plane.queues, &mut choice)
}

/// The rings that a saturated run keeps full: those of the I/O source, if it fills the queues.
fn full_rings(description: &Description, setup: &IoSetup) -> Option<Rings> {
    let has_rings = !description.data_plane.notify.mechanism().brings_requests;
    (has_rings && description.traffic.saturates()).then(|| Rings {
        queues: active_queues(description).len(),
        slots: setup.ring_slots as usize,
    })
}

/// Whether a run can be made of `description`.
pub fn check(description: &Description) -> Result<(), SpecError> {
    spec::check(description)?;
    let Description {
        server,
        data_plane,
        traffic,
        ..
    } = description;
    server.check().under("server")?;
    traffic.check().under("traffic")?;
    let (running, cores) = (server.data_plane_cores, server.fabric.cores);
    require(
        running <= cores,
        "server.data_plane_cores",
        running,
        format!("it must be server.fabric.cores, {cores}, or less"),
    )?;
    check_threads(description)?;
    data_plane.check().under("data_plane")?;
    check_organisation(description)?;
    with_setting(description, |setting| {
        wanted(description).check(server, setting, "data_plane.notify")
    })
}

/// The system that the data plane's mechanism needs.
fn wanted(description: &Description) -> Wanted {
    let system = description.data_plane.notify.system();
    Wanted::of(&description.server, system.map(|kind| kind.key))
}

/// Calls `with` with what systems are told of the data plane.
fn with_setting<T>(description: &Description, with: impl FnOnce(Setting<'_>) -> T) -> T {
    let data_plane = &description.data_plane;
    let organisation = data_plane.organisation.as_ref().map(written);
    with(Setting::DataPlane(DataPlane {
        mechanism: data_plane.notify.mechanism(),
        queues: data_plane.queues,
        batch: data_plane.batch(),
        policy: &written(&data_plane.policy),
        organisation: organisation.as_deref(),
        traffic: &description.traffic,
    }))
}

/// Whether what is asked of a core's hardware threads is possible.
fn check_threads(description: &Description) -> Result<(), SpecError> {
    let threads = description.server.core.threads;
    let Some(program) = &description.data_plane.co_runner else {
        return Ok(());
    };
    require(
        threads > 1,
        "data_plane.co_runner",
        format_args!("{program:?}"),
        "it runs on the other hardware thread of each data plane core, and the cores have one: \
         set server.core.threads = 2",
    )
}

/// Whether the data plane's cores can be organised so.
fn check_organisation(description: &Description) -> Result<(), SpecError> {
    let cores = description.server.data_plane_cores as u32;
    let cluster = description.data_plane.cluster_cores(cores);
    require(
        cluster <= cores && cores.is_multiple_of(cluster),
        "data_plane.organisation",
        format!("{cluster} cores that share queues"),
        format!(
            "there are {cores} data plane cores (server.data_plane_cores), and they must make whole \
             clusters"
        ),
    )
}

struct Attached {
    /// Who takes over at the end of the warm start.
    source: AgentId,
    /// The tenants, unless a system brings the requests and takes the replies.
    tenants: Option<AgentId>,
    hardware: Hardware,
}

fn attach(
    fabric: &mut Fabric,
    description: &Description,
    setup: &IoSetup,
    ledger: &SharedLedger,
    options: &Options,
    settings: ProgramSettings,
) -> Result<Attached, RunError> {
    let (traffic, seed) = (&description.traffic, description.measure.seed);
    // Of the first socket, if there are two.
    let tiles = description.server.fabric.tiles_of_socket();
    let warm_start = description.measure.warm_start.as_ref();
    if let Some(warm) = warm_start {
        ledger.borrow_mut().warm_up(warm.requests);
    }
    let mechanism = description.data_plane.notify.mechanism();
    let hardware = with_setting(description, |setting| {
        wanted(description).attach(fabric, || Site {
            host: description.server.host(setting, true),
            doorbells: setup.doorbells,
            io_registers: setup.registers,
            link: None,
            seed,
            requests: mechanism.brings_requests.then(|| Requests {
                setup,
                traffic,
                files: &options.files,
                settings: settings.clone(),
                ledger,
                warm_start_mrps: warm_start.map(|warm| warm.rate_mrps),
                capture_packets: options.capture_packets,
            }),
        })
    })?;
    if let Some(source) = hardware.source() {
        return Ok(Attached {
            source,
            tenants: None,
            hardware,
        });
    }
    let mut source = IoSource::new(
        *setup,
        traffic.arrival_process(seed),
        active_queues(description),
        Random::new(seed, Stream::Queues),
        traffic
            .open_packets(seed, &options.files)
            .map_err(|error| RunError::Description(error.to_string()))?,
        ledger.clone(),
    )
    .with_settings(settings)
    .with_imbalance(traffic.imbalance)
    .and_then(|source| source.with_socket_imbalance(traffic.socket_imbalance))
    .map_err(RunError::Description)?;
    if let Some(warm) = warm_start {
        source = source.with_warm_start(traffic.warm_arrivals(warm.rate_mrps, seed));
    }
    // Producers and consumers are far from the data plane's first core.
    let source = fabric.attach(Box::new(source), IoSource::attachment(setup, tiles - 1))?;
    let tenants = TenantSide::new(*setup, ledger.clone(), options.capture_packets);
    let tenants = fabric.attach(
        Box::new(tenants),
        TenantSide::attachment(setup, tiles.saturating_sub(2)),
    )?;
    fabric.wake_agent(tenants, fabric::Time::ZERO, 0);
    Ok(Attached {
        source,
        tenants: Some(tenants),
        hardware,
    })
}

fn load(program: &[u8]) -> Result<elf::Image, RunError> {
    elf::load(program).map_err(|error| {
        RunError::Program(format!(
            "the program is no ELF file that can be run: {error}"
        ))
    })
}

/// Whether a program can run without an operating system.
fn check_bare_metal(image: &elf::Image) -> Result<(), RunError> {
    if image.headers.position_independent {
        return Err(RunError::Program(
            "the program is position-independent, and nobody moves a bare-metal program to its \
             place: link it with -no-pie"
                .to_string(),
        ));
    }
    Ok(())
}

/// A program that can run without an operating system and end.
pub(crate) fn load_bare_metal(program: &[u8]) -> Result<elf::Image, RunError> {
    let image = load(program)?;
    check_given(&image, &Program::default())?;
    Ok(image)
}

/// Runs `program`, an ELF file, as `description` says. `progress` is told the part that is done,
/// now and then, and may stop the run by returning false.
pub fn run(
    description: &Description,
    program: &[u8],
    options: &Options,
    mut progress: impl FnMut(f64) -> bool,
) -> Result<RunResult, RunError> {
    let once = |options: &Options, shown, progress: &mut dyn FnMut(f64) -> bool| {
        run_once(description, program, options, shown, progress)
    };
    run_traced(options, &mut progress, once, |ledger, part| {
        ledger.borrow().recorder().slower_than(part)
    })
}

/// Runs the warm start of `description` alone, and saves a checkpoint of its end.
pub fn warm_up(
    description: &Description,
    program: &[u8],
    checkpoint: &Path,
    files: Files,
    mut progress: impl FnMut(f64) -> bool,
) -> Result<(), RunError> {
    let options = Options {
        checkpoint: CheckpointOptions {
            save: Some(checkpoint.to_path_buf()),
            ..CheckpointOptions::default()
        },
        files,
        ..Options::default()
    };
    let mut guard = Guard::new(&options.limits, &mut progress);
    let mut prepared = prepare(description, program, &options, &mut guard)?;
    prepared.saver.stops = true;
    let mut watched = Watched::new(&options.trace, Vec::new(), &prepared.machine, program)?;
    simulate(&mut prepared, &mut watched, &mut guard)
}

/// The traces of the run of one server.
struct Watched {
    traces: Traces,
    tracer: Tracer,
}

impl Watched {
    /// Of `machine` with the program in the ELF file `elf`: what happens in the times of `shown`.
    fn new(
        options: &TraceOptions,
        shown: Vec<Range<Time>>,
        machine: &Machine,
        elf: &[u8],
    ) -> Result<Watched, RunError> {
        let threads = usize::from(machine.threads());
        let harts = Harts {
            count: machine.engine.cores.len() * threads,
            share_cores: threads > 1,
            of: "the server has",
        };
        let mut traces = Traces::new(options, shown, &harts)?;
        let program = traces.program(machine.image(), elf);
        let tracer = traces.watch(None, machine, program.as_ref());
        Ok(Watched { traces, tracer })
    }

    /// The run is over, or has been cut off.
    fn finish(&mut self, machine: &mut Machine) -> Vec<TraceReport> {
        self.tracer.finish(machine);
        self.traces.finish()
    }
}

/// A server, ready to run.
struct Prepared<'a> {
    machine: Machine,
    server: &'a ServerSpec,
    ledger: SharedLedger,
    attached: Attached,
    setup: IoSetup,
    saver: Saver,
    /// How many requests are to be measured.
    requests: u64,
    begin: HostClock,
    /// Instructions that a checkpoint has brought.
    brought: u64,
}

/// Builds a server, and puts a checkpoint into it if one is given.
fn prepare<'a>(
    description: &'a Description,
    program: &[u8],
    options: &Options,
    guard: &mut Guard<'_>,
) -> Result<Prepared<'a>, RunError> {
    check(description)?;
    let begin = HostClock::start();
    let image = load(program)?;
    check_bare_metal(&image)?;
    let subject = Subject::new(Kind::DataPlane, description, [&image], &options.files)?;
    let setup = setup(description);
    let measure = &description.measure;
    let recorder = Recorder::new(measure.requests, measure.warmup)
        .with_precision(
            measure.precision,
            measure.precision_of.map(|kind| kind as u8),
        )
        .with_full_rings(full_rings(description, &setup));
    let ledger = Ledger::shared(recorder);
    if !setup.in_order {
        ledger.borrow_mut().allow_reordering();
    }
    let mut attached = None;
    let mut memory = vec![setup.doorbells, setup.consumers, setup.tenant_doorbells];
    memory.extend(with_setting(description, |setting| {
        wanted(description).memory(&description.server, setting)
    }));
    // A checkpoint has what was prepared.
    let mut settings = ProgramSettings {
        weights: description.data_plane.weights.clone(),
        parameters: description.data_plane.parameters.clone(),
        operations: description.traffic.operations.clone(),
        prepared: ProgramPreparation::default(),
    };
    let mut preparation = None;
    if options.checkpoint.from.is_none() {
        let server = UntimedServer::of(&description.server, &memory);
        let told = Told::new(IO_REGISTERS, &settings);
        preparation = Preparation::kept(server, &image, Some(told), guard)?;
    }
    if let Some(preparation) = &preparation {
        settings.prepared = preparation.program.clone();
    }
    let mut machine = Machine::new(&description.server, image, &memory, false, |fabric| {
        let mut agents = attach(fabric, description, &setup, &ledger, options, settings)?;
        let cores = agents.hardware.take_cores();
        attached = Some(agents);
        Ok(cores)
    })?;
    machine.engine.set_speed(
        description.simulator.lookahead_cycles,
        description.simulator.skip_spinning,
    );
    let Some(attached) = attached else {
        return Err(RunError::Description("the server has no I/O".to_string()));
    };
    let watched = attached.hardware.watched();
    for core in &mut machine.engine.cores {
        // What begins and ends a request's service.
        core.watch(watched.unwrap_or(setup.all_doorbells()));
    }
    if let Some(preparation) = preparation {
        preparation.begin(&mut machine);
    }
    machine.limit_output(guard.output_bytes());
    let has_warm_start = measure.warm_start.is_some();
    let saver = Saver::new(&options.checkpoint, subject, has_warm_start)?;
    saver.restore(&options.checkpoint, &mut machine)?;
    Ok(Prepared {
        brought: instructions(&machine),
        machine,
        server: &description.server,
        ledger,
        attached,
        setup,
        saver,
        requests: measure.requests,
        begin,
    })
}

/// What reads the energy of the data plane's cores, and of what all cores share.
fn meter<'a>(server: &'a ServerSpec, attached: &'a Attached) -> Meter<'a> {
    Meter {
        server,
        shown: server.data_plane_cores,
        hardware: &attached.hardware,
    }
}

/// Instructions that all its cores have executed so far.
pub(crate) fn instructions(machine: &Machine) -> u64 {
    let cores = machine.engine.cores.iter();
    cores.map(|core| core.instructions()).sum()
}

/// One run; its traces show what happens in the times of `shown`.
fn run_once(
    description: &Description,
    program: &[u8],
    options: &Options,
    shown: Vec<Range<Time>>,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<(RunResult, SharedLedger), RunError> {
    let mut guard = Guard::new(&options.limits, progress);
    let mut prepared = prepare(description, program, options, &mut guard)?;
    let mut watched = Watched::new(&options.trace, shown, &prepared.machine, program)?;
    if options.trace.timeline.is_some() {
        prepared.ledger.borrow_mut().keep_records();
    }
    let simulated = simulate(&mut prepared, &mut watched, &mut guard);
    let traces = watched.finish(&mut prepared.machine);
    simulated?;
    guard.check_amount(prepared.machine.spent_in_all())?;
    let Prepared {
        mut machine,
        server,
        ledger,
        attached,
        begin,
        brought,
        ..
    } = prepared;
    let end = machine.end();
    let mut measurement = ledger.borrow().recorder().measurement().ok_or_else(|| {
        RunError::Guest(format!(
            "the program ended without delivering a single item{}",
            said(&machine.output())
        ))
    })?;
    let end_time = machine.engine.time(end);
    let fabric = &mut machine.engine.fabric;
    let systems = attached
        .hardware
        .statistics(fabric, end_time, Some(&ledger.borrow()));
    let doorbell_conflicts = fabric
        .agent_mut::<IoSource>(attached.source)
        .map_or(0, |source| source.conflicts());
    let delivered = match attached.tenants {
        Some(tenants) => fabric
            .agent_mut::<TenantSide>(tenants)
            .map_or_else(Vec::new, |tenants| tenants.delivered().to_vec()),
        None => attached.hardware.replies(fabric),
    };
    let captured = delivered.iter().map(|item| hex(&item.bytes)).collect();
    let (items, queues, by_kind, program_counters) = {
        let ledger = ledger.borrow();
        let counters = ledger.program_counters().iter().cloned().collect();
        let queues = QueueResults::of(&ledger);
        (ledger.counts(), queues, ledger.by_kind(), counters)
    };
    measurement.add_overload(lost_requests(items.dropped, "dropped: the queue was full"));
    let first = machine.first_reading.take().unwrap_or_default();
    let meter = meter(server, &attached);
    let last = meter.read(&mut machine, end, items.delivered);
    let totals = Totals::of(&machine, &meter, (begin, brought), (&first, &last));
    let result = RunResult {
        measurement,
        by_kind,
        items,
        queues,
        program_counters,
        totals,
        systems,
        doorbell_conflicts,
        output: machine.output(),
        captured,
        traces,
    };
    Ok((result, ledger))
}

/// The cycle at which the energy is to be read, if that is known and has not been done: when the
/// traffic has begun, or what is measured of it after the warm start.
fn reading_due(machine: &Machine, ledger: &SharedLedger) -> Option<u64> {
    if machine.first_reading.is_some() {
        return None;
    }
    let ledger = ledger.borrow();
    let at = if ledger.measures() {
        ledger.started_at()?
    } else {
        ledger.warm_at()?
    };
    let engine = &machine.engine;
    Some(engine.settled_after(engine.clock().cycle_at_or_after(at)))
}

/// Advances until enough has been measured.
fn simulate(
    prepared: &mut Prepared<'_>,
    Watched { traces, tracer }: &mut Watched,
    guard: &mut Guard<'_>,
) -> Result<(), RunError> {
    let Prepared {
        machine,
        server,
        ledger,
        attached,
        setup,
        saver,
        requests,
        ..
    } = prepared;
    let patience = machine
        .engine
        .clock()
        .cycle_at_or_after(fabric::Time::from_ns(PATIENCE_NS));
    let mut delivered = 0;
    let mut delivered_at = machine.engine.now();
    loop {
        for _ in 0..STEPS {
            let due = reading_due(machine, ledger);
            tracer.prepare(machine, due.unwrap_or(NEVER));
            if let Some(due) = due.filter(|&due| machine.engine.now() >= due) {
                let warm_start_ends = ledger.borrow().warm_at().is_some();
                if warm_start_ends && saver.save_at(machine, When::WarmStartEnds)? {
                    return Ok(());
                }
                machine.engine.settle(due);
                let delivered = ledger.borrow().counts().delivered;
                let reading = meter(server, attached).read(machine, due, delivered);
                machine.first_reading = Some(reading);
                if warm_start_ends {
                    // Saved or not, the run goes on in the same way.
                    machine.engine.forget_loops();
                    ledger.borrow_mut().end_warm_start();
                    let at = machine.engine.time(due);
                    let fabric = &mut machine.engine.fabric;
                    fabric.wake_agent(attached.source, at, IoSource::CHANGE);
                }
                continue;
            }
            let is_running = machine.advance().or_else(|crash| {
                // What the program has done wrong before is why it crashes now.
                check_ledger(&ledger.borrow())?;
                Err(crash)
            })?;
            if !is_running {
                traces.requests(ledger, setup);
                finish(machine, ledger)?;
                return saver.check();
            }
            let done_at = ledger.borrow().recorder().done_at();
            if let Some(at) = done_at {
                machine.end_after(machine.engine.clock().cycle_at_or_after(at));
            }
            if saver.is_waiting() {
                let delivered = ledger.borrow().counts().delivered;
                saver.look(machine, delivered)?;
            }
        }
        traces.requests(ledger, setup);
        let (counts, part, started) = {
            if let Some(error) = machine.engine.fabric.errors().first() {
                return Err(RunError::Guest(format!("a device fails: {error}")));
            }
            let ledger = ledger.borrow();
            check_ledger(&ledger)?;
            let part = ledger.progress(*requests);
            (ledger.counts(), part, ledger.is_started())
        };
        let now = machine.engine.now();
        if counts.delivered > delivered || (started && counts.inside == 0) {
            delivered = counts.delivered;
            delivered_at = now;
        } else if now.saturating_sub(delivered_at) > patience {
            let waits = if started {
                format!("{} items wait in its queues", counts.inside)
            } else {
                "it has not started its I/O device".to_string()
            };
            return Err(RunError::Deadlock(machine.describe_waiting(&format!(
                "the data plane has done nothing for {} ms of simulated time, and {waits}",
                PATIENCE_NS / 1e6
            ))));
        }
        guard.check(part, machine.spent())?;
    }
}

/// Whether what the program has done with its queues and its settings is right.
fn check_ledger(ledger: &Ledger) -> Result<(), RunError> {
    if let Some(sentence) = ledger.wrong_description() {
        return Err(RunError::Description(sentence.to_string()));
    }
    match ledger.fault() {
        Some(fault) => Err(RunError::Guest(fault.to_string())),
        None => Ok(()),
    }
}

fn finish(machine: &mut Machine, ledger: &SharedLedger) -> Result<(), RunError> {
    check_ledger(&ledger.borrow())?;
    let recorded = ledger.borrow().recorder().recorded();
    match machine.exit() {
        Some((_, status)) if !ledger.borrow().recorder().is_done() => {
            Err(RunError::Guest(format!(
                "the program ended with status {status} after {recorded} requests, before enough \
                 had been measured{}",
                said(&machine.output())
            )))
        }
        _ => Ok(()),
    }
}

pub(crate) fn said(output: &str) -> String {
    let lines: Vec<String> = output
        .trim()
        .lines()
        .map(|line| elf::printable(line.as_bytes()))
        .collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("; it said: {}", lines.join("\n")),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What came out of [`execute`].
#[derive(Clone, Debug, Serialize)]
pub struct ExecuteResult {
    /// The guest's exit status; after a signal 128 and its number.
    pub exit_status: u64,
    /// The signal that ended it, such as `SIGABRT`.
    pub signal: Option<&'static str>,
    /// What every run has.
    #[serde(flatten)]
    pub totals: Totals,
    /// What has become of the traces that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<TraceReport>,
}

/// A program to execute, and what it is given.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its ELF file.
    pub elf: Vec<u8>,
    /// Its path, which is its first argument.
    pub path: Vec<u8>,
    /// Its other arguments.
    pub arguments: Vec<Vec<u8>>,
    /// Its environment, as `NAME=VALUE`.
    pub environment: Vec<Vec<u8>>,
    /// Which files it reaches.
    pub access: linux::Access,
}

/// Whether a bare-metal program can be run with what it is given.
fn check_given(image: &elf::Image, program: &Program) -> Result<(), RunError> {
    if image.tohost.is_none() {
        return Err(RunError::Program(format!(
            "the program has no symbol `tohost`, so that it could never end; bare-metal programs \
             are built with `nanoplane build`, and Linux programs begin below {:#x}",
            MAIN_MEMORY.start
        )));
    }
    if !program.arguments.is_empty() || !program.environment.is_empty() {
        return Err(RunError::Program(
            "a bare-metal program takes no arguments and no environment".to_string(),
        ));
    }
    if program.access != linux::Access::default() {
        return Err(RunError::Program(
            "a bare-metal program has no files: leave --root, --read-only and --host-files out"
                .to_string(),
        ));
    }
    check_bare_metal(image)
}

/// A bare-metal program without I/O, on a server that has every system which `description` describes
/// and which needs no network.
fn bare_metal(
    description: &Description,
    image: elf::Image,
    program: &Program,
    is_restored: bool,
    guard: &mut Guard<'_>,
) -> Result<(Machine, Hardware), RunError> {
    check_given(&image, program)?;
    let spec = &description.server;
    let wanted = Wanted::described(spec);
    wanted.check(spec, Setting::Alone, "server")?;
    let doorbells = doorbell_range(DOORBELLS.start, EXECUTED_DOORBELLS);
    let mut memory = vec![doorbells];
    memory.extend(wanted.memory(spec, Setting::Alone));
    let preparation = if is_restored {
        None
    } else {
        Preparation::live(&UntimedServer::of(spec, &memory), &image, guard)?
    };
    let mut hardware = Hardware::default();
    let mut machine = Machine::new(spec, image, &memory, true, |fabric| {
        hardware = wanted.attach(fabric, || Site {
            host: spec.host(Setting::Alone, true),
            doorbells,
            io_registers: IO_REGISTERS,
            link: None,
            seed: description.measure.seed,
            requests: None,
        })?;
        Ok(hardware.take_cores())
    })?;
    if let Some(preparation) = preparation {
        preparation.begin(&mut machine);
    }
    Ok((machine, hardware))
}

/// A Linux program with what it is given.
fn prepare_linux(
    description: &Description,
    image: elf::Image,
    program: &Program,
    output_bytes: u64,
) -> Result<linux::Prepared, RunError> {
    let spec = &description.server;
    let mut arguments = vec![program.path.clone()];
    arguments.extend_from_slice(&program.arguments);
    let setup = linux::Setup {
        arguments,
        environment: program.environment.clone(),
        harts: spec.harts(),
        memory_bytes: spec.memory_mib * 1024 * 1024,
        seed: description.measure.seed,
        access: program.access.clone(),
        output_bytes,
    };
    linux::prepare(image, &setup).map_err(|error| RunError::Program(error.to_string()))
}

/// What the caller of [`execute`] wants beside the program's output.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExecuteOptions {
    /// Write these traces.
    pub trace: TraceOptions,
    /// Save and begin from these checkpoints.
    pub checkpoint: CheckpointOptions,
    /// How much the run may take of the host.
    pub limits: Limits,
}

/// Runs any program on the server that `description` names: bare-metal, or for Linux. What it
/// writes goes to the standard output as it comes.
pub fn execute(
    description: &Description,
    program: &Program,
    options: &ExecuteOptions,
    mut go_on: impl FnMut() -> bool,
) -> Result<ExecuteResult, RunError> {
    description.server.check().under("server")?;
    let begin = HostClock::start();
    let ExecuteOptions {
        trace,
        checkpoint,
        limits,
    } = options;
    let mut progress = |_| go_on();
    let mut guard = Guard::new(limits, &mut progress);
    let image = load(&program.elf)?;
    let is_linux = linux::is_linux(&image, MAIN_MEMORY.start);
    if is_linux && *checkpoint != CheckpointOptions::default() {
        return Err(RunError::Description(NO_CHECKPOINTS_OF_LINUX.to_string()));
    }
    let subject = Subject::new(Kind::Program, description, [&image], &Files::default())?;
    let (mut machine, hardware) = if is_linux {
        let prepared = prepare_linux(description, image, program, guard.output_bytes())?;
        let machine = Machine::with_linux(&description.server, prepared)?;
        (machine, Hardware::default())
    } else {
        let is_restored = checkpoint.from.is_some();
        bare_metal(description, image, program, is_restored, &mut guard)?
    };
    machine.engine.set_speed(
        description.simulator.lookahead_cycles,
        description.simulator.skip_spinning,
    );
    machine.limit_output(guard.output_bytes());
    let mut saver = Saver::new(checkpoint, subject, false)?;
    saver.restore(checkpoint, &mut machine)?;
    let brought = instructions(&machine);
    let window = trace.window()?;
    let mut watched = Watched::new(trace, vec![window], &machine, &program.elf)?;
    let mut steps = 0u32;
    let ended = loop {
        watched.tracer.prepare(&mut machine, u64::MAX);
        match machine.advance() {
            Ok(true) => {}
            other => break other.and_then(|_| saver.check()),
        }
        if saver.is_waiting()
            && let Err(error) = saver.look(&mut machine, 0)
        {
            break Err(error);
        }
        steps = steps.wrapping_add(1);
        if (steps.is_multiple_of(STEPS) || machine.take_interrupted())
            && let Err(error) = guard.check(0.0, machine.spent())
        {
            break Err(error);
        }
    };
    let traces = watched.finish(&mut machine);
    ended?;
    if let Some(sentence) = machine.unwritten() {
        return Err(RunError::Output(sentence));
    }
    guard.check_amount(machine.spent_in_all())?;
    let meter = Meter {
        server: &description.server,
        shown: usize::MAX,
        hardware: &hardware,
    };
    let end = machine.end();
    let last = meter.read(&mut machine, end, 0);
    let readings = (&Reading::default(), &last);
    let totals = Totals::of(&machine, &meter, (begin, brought), readings);
    Ok(ExecuteResult {
        exit_status: machine.exit().map_or(0, |(_, status)| status),
        signal: machine.signal(),
        totals,
        traces,
    })
}

/// One hart's part of a functional run.
#[derive(Clone, Debug, Serialize)]
pub struct HartResult {
    /// Instructions that it executed.
    pub instructions: u64,
}

/// What came out of [`execute_functionally`].
#[derive(Clone, Debug, Serialize)]
pub struct FunctionalResult {
    /// The guest's exit status; after a signal 128 and its number.
    pub exit_status: u64,
    /// The signal that ended it, such as `SIGABRT`.
    pub signal: Option<&'static str>,
    /// The harts.
    pub cores: Vec<HartResult>,
    /// Instructions of all harts.
    pub instructions: u64,
    /// What it has cost the host.
    #[serde(flatten)]
    pub host: HostCost,
    /// Version of the simulator.
    pub version: &'static str,
}

/// Runs any program as [`execute`] does, but only for what it computes: no time is simulated. Of
/// the description the number of cores, the clock, the size of memory and the seed count.
pub fn execute_functionally(
    description: &Description,
    program: &Program,
    limits: &Limits,
    mut go_on: impl FnMut() -> bool,
) -> Result<FunctionalResult, RunError> {
    description.server.check().under("server")?;
    let begin = HostClock::start();
    let mut progress = |_| go_on();
    let mut guard = Guard::new(limits, &mut progress);
    let image = load(&program.elf)?;
    let doorbells = doorbell_range(DOORBELLS.start, EXECUTED_DOORBELLS);
    let server = UntimedServer::of(&description.server, &[doorbells]);
    let mut machine = if linux::is_linux(&image, MAIN_MEMORY.start) {
        let prepared = prepare_linux(description, image, program, guard.output_bytes())?;
        FunctionalMachine::with_linux(&server, prepared)?
    } else {
        check_given(&image, program)?;
        FunctionalMachine::bare_metal(&server, image, true)?
    };
    machine.limit_output(guard.output_bytes());
    let mut rounds = 0u32;
    while machine.advance()? {
        rounds = rounds.wrapping_add(1);
        if rounds.is_multiple_of(ROUNDS) || machine.take_interrupted() {
            guard.check(0.0, machine.spent())?;
        }
    }
    guard.check_amount(machine.spent())?;
    let cores: Vec<HartResult> = machine
        .instructions()
        .into_iter()
        .map(|instructions| HartResult { instructions })
        .collect();
    let instructions = cores.iter().map(|hart| hart.instructions).sum();
    let (exit_status, signal) = machine.exit().unwrap_or_default();
    Ok(FunctionalResult {
        exit_status,
        signal,
        cores,
        instructions,
        host: begin.cost(Some(instructions)),
        version: crate::VERSION,
    })
}
