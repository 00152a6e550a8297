//! A run of a data plane: a description and a program in, measurements out.

use crate::checkpoint::{CheckpointOptions, Kind, Saver, Subject, When};
use crate::description::{Description, Policy, ServerSpec, written};
use crate::error::RunError;
use crate::hardware::{Hardware, SystemResults, Wanted};
use crate::host::HostClock;
use crate::limits::{Guard, Limits};
use crate::machine::{Machine, second_half};
use crate::memory_map::{CONSUMERS, DOORBELLS, IO_REGISTERS, IO_TENANTS, TENANT_DOORBELLS};
use crate::meter::Meter;
use crate::plan::{Plan, doorbell_range};
use crate::preparation::{Preparation, Told};
use crate::program::{check_bare_metal, load, said};
use crate::schema;
use crate::totals::Totals;
use crate::traces::{TraceOptions, TraceReport, Watched, run_traced};
use fabric::{AddressRange, AgentId, Fabric, Time};
use pipeline::NEVER;
use queues::{
    CONSUMER_BYTES, IoSetup, IoSource, ItemCounts, Ledger, ProgramPreparation, ProgramSettings,
    SharedLedger, TenantSide,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, Under, require};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use system::{DataPlane, Requests, Setting};
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

/// What became of each queue's items: lists with an element for each queue.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct QueueResults {
    /// Items that arrived at the I/O source.
    pub generated: Vec<u64>,
    /// Items that found the queue full.
    pub dropped: Vec<u64>,
    /// Items that found the queue closed.
    pub refused: Vec<u64>,
    /// Items that the tenant has taken.
    pub delivered: Vec<u64>,
    /// How many of the measured requests were in the queue.
    pub samples: Vec<u64>,
    /// The mean latency of the measured requests; `None` without any.
    pub mean_latency_ns: Vec<Option<f64>>,
    /// The 99th percentile of the latencies of the measured requests; `None` without any.
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
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunResult {
    /// Throughput, latencies, their intervals and histogram.
    #[serde(flatten)]
    pub measurement: Measurement,
    /// Throughput and latencies of the requests of each kind, by its name, if the program takes
    /// several kinds.
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
    #[schemars(schema_with = "schema::systems")]
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
    wanted(description).check(server, &setting(description), "data_plane.notify")
}

/// The system that the data plane's mechanism needs.
fn wanted(description: &Description) -> Wanted {
    let system = description.data_plane.notify.system();
    Wanted::of(&description.server, system.map(|kind| kind.key))
}

/// What systems are told of the data plane.
fn setting(description: &Description) -> Setting<'_> {
    let data_plane = &description.data_plane;
    Setting::DataPlane(DataPlane {
        mechanism: data_plane.notify.mechanism(),
        queues: data_plane.queues,
        batch: data_plane.batch(),
        policy: written(&data_plane.policy),
        organisation: data_plane.organisation.as_ref().map(written),
        traffic: &description.traffic,
    })
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
        "it runs on the second hardware thread of each data plane core, and the cores have one: \
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

/// Attaches the I/O device that fills the queues, and the tenants that empty them; unless
/// `hardware` brings the requests.
fn attach_io(
    fabric: &mut Fabric,
    description: &Description,
    setup: &IoSetup,
    ledger: &SharedLedger,
    options: &Options,
    settings: ProgramSettings,
    hardware: &Hardware,
) -> Result<(AgentId, Option<AgentId>), RunError> {
    if let Some(source) = hardware.source() {
        return Ok((source, None));
    }
    let (traffic, seed) = (&description.traffic, description.measure.seed);
    // Of the first socket, if there are two.
    let tiles = description.server.fabric.tiles_of_socket();
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
    .with_signal(hardware.signal())
    .with_imbalance(traffic.imbalance)
    .and_then(|source| source.with_socket_imbalance(traffic.socket_imbalance))
    .map_err(RunError::Description)?;
    if let Some(warm) = &description.measure.warm_start {
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
    Ok((source, Some(tenants)))
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
    if let Some(warm) = &measure.warm_start {
        ledger.borrow_mut().warm_up(warm.requests);
    }
    let plan = Plan {
        server: &description.server,
        simulator: &description.simulator,
        wanted: wanted(description),
        setting: setting(description),
        doorbells: setup.doorbells,
        memory: vec![setup.doorbells, setup.consumers, setup.tenant_doorbells],
        is_live: false,
    };
    // A checkpoint has what was prepared.
    let mut settings = ProgramSettings {
        weights: description.data_plane.weights.clone(),
        parameters: description.data_plane.parameters.clone(),
        operations: description.traffic.operations.clone(),
        prepared: ProgramPreparation::default(),
    };
    let mut preparation = None;
    if options.checkpoint.from.is_none() {
        let server = plan.untimed();
        let told = Told::new(IO_REGISTERS, &settings);
        preparation = Preparation::kept(server, &image, Some(told), guard)?;
    }
    if let Some(preparation) = &preparation {
        settings.prepared = preparation.program.clone();
    }
    let mechanism = description.data_plane.notify.mechanism();
    let requests = mechanism.brings_requests.then(|| Requests {
        setup: &setup,
        traffic: &description.traffic,
        files: &options.files,
        settings: settings.clone(),
        ledger: &ledger,
        warm_start_mrps: measure.warm_start.as_ref().map(|warm| warm.rate_mrps),
        capture_packets: options.capture_packets,
    });
    let (mut machine, hardware, (source, tenants)) = plan.build(
        image,
        preparation.as_deref(),
        guard,
        (measure.seed, None),
        requests,
        |fabric, hardware| {
            attach_io(
                fabric,
                description,
                &setup,
                &ledger,
                options,
                settings,
                hardware,
            )
        },
    )?;
    let watched = hardware.watched();
    for core in &mut machine.engine.cores {
        // What begins and ends a request's service.
        core.watch(watched.unwrap_or(setup.all_doorbells()));
    }
    let attached = Attached {
        source,
        tenants,
        hardware,
    };
    let has_warm_start = measure.warm_start.is_some();
    let saver = Saver::new(&options.checkpoint, subject, has_warm_start)?;
    saver.restore(&options.checkpoint, &mut machine)?;
    Ok(Prepared {
        brought: machine.instructions(),
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
    let totals = Totals::of(&mut machine, &meter, (begin, brought), (&first, &last));
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
