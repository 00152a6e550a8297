//! A data plane on a server: the I/O device that fills its queues, the tenants that empty them, and
//! the measurement of its requests.

use crate::description::{DataPlaneSpec, MeasureSpec, Policy, ServerSpec, written};
use crate::error::RunError;
use crate::hardware::Hardware;
use crate::machine::{Machine, second_half};
use crate::memory_map::{CONSUMERS, DOORBELLS, IO_REGISTERS, IO_TENANTS, TENANT_DOORBELLS};
use crate::plan::doorbell_range;
use crate::preparation::Told;
use crate::program::said;
use crate::slowest::{CoreMisses, SlowRequest, select, slowest};
use fabric::{AddressRange, AgentId, Fabric, Time};
use pipeline::NEVER;
use queues::{
    ArrivalTimer, CONSUMER_BYTES, IoSetup, IoSource, ItemCounts, Ledger, ProgramPreparation,
    ProgramSettings, RingsAtStart, Settling, SharedLedger, TenantSide, WarmStartLength,
};
use schemars::JsonSchema;
use serde::Serialize;
use spec::{SpecError, Under, require};
use std::collections::BTreeMap;
use std::ops::Range;
use system::{Mechanism, Requests};
use workload::{
    Arrivals, Estimate, Files, Ideal, KindMeasurement, Measurement, Packets, Random, Recorder,
    Rings, Sources, Stream, TrafficSpec, lost_requests,
};

/// A guest that lets work wait for this long without completing any counts as stuck.
const PATIENCE_NS: f64 = 50e6;
/// While one core processes an item of a queue whose items need not be in order, each core of its
/// cluster can take this many of the same queue before they have to wait for it.
const SLOTS_APART: u32 = 4;

/// The fates of each queue's items: lists with an element for each queue.
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
    /// The number of measured requests of the queue.
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

/// Measurements of cores that are the sources of the traffic.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SourceResults {
    /// The number of these cores.
    pub cores: u32,
    /// The time from an item's arrival until it is in its queue, where its latency begins: the mean
    /// over the measured requests.
    pub mean_entering_ns: f64,
    /// The 99th percentile of these times.
    pub p99_entering_ns: f64,
    /// Items that have arrived and still wait for their core at the end of the run.
    pub waiting: u64,
}

impl SourceResults {
    /// The results of `cores` cores, with `waiting` items waiting; the first `warmup` samples are
    /// not measured.
    fn of(cores: u32, waiting: u64, ledger: &Ledger, warmup: u64) -> SourceResults {
        let times = ledger.entering_times();
        let measured = times.get(warmup as usize..).unwrap_or_default();
        let mut ns: Vec<f64> = measured.iter().map(|time| time.as_ns()).collect();
        ns.sort_unstable_by(f64::total_cmp);
        let rank = (0.99 * ns.len() as f64).ceil() as usize;
        SourceResults {
            cores,
            mean_entering_ns: ns.iter().sum::<f64>() / ns.len().max(1) as f64,
            p99_entering_ns: ns.get(rank.saturating_sub(1)).copied().unwrap_or_default(),
            waiting,
        }
    }

    /// An error message if they do not keep up: one in a hundred of the arrived items still waits
    /// for its core, which is more than chance explains.
    fn overload(&self, generated: u64) -> Option<String> {
        let waiting = self.waiting;
        let is_behind = waiting > generated / 100 && waiting > 64;
        is_behind.then(|| {
            let they = match self.cores {
                1 => "core of the sources (traffic.source_cores) does".to_string(),
                cores => format!("{cores} cores of the sources (traffic.source_cores) do"),
            };
            format!(
                "the {they} not keep up: of {generated} items that have arrived {waiting} wait to be \
                 taken"
            )
        })
    }
}

/// The measurements of a data plane.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DataPlaneResult {
    /// Throughput, latencies, their intervals and histogram.
    #[serde(flatten)]
    pub measurement: Measurement,
    /// The number of requests that the warm start delivered before (`measure.warm_start`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_start_requests: Option<u64>,
    /// Throughput and latencies of the requests of each kind, by its name, if the program takes
    /// several kinds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by_kind: BTreeMap<&'static str, KindMeasurement>,
    /// Where all items went.
    #[serde(flatten)]
    pub items: ItemCounts,
    /// The fates of each queue's items.
    pub queues: QueueResults,
    /// The program's counters, by name.
    pub program_counters: BTreeMap<String, u64>,
    /// Doorbells that got another address because of a conflict.
    pub doorbell_conflicts: u64,
    /// Delivered packets, in hexadecimal, if asked for.
    pub captured: Vec<String>,
    /// The slowest requests, the slowest first, if they are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slowest: Vec<SlowRequest>,
    /// Measurements of cores that are the sources of the traffic (`traffic.sources = "cores"`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<SourceResults>,
}

/// A data plane as described, with its server.
#[derive(Clone, Copy)]
pub(crate) struct DataPlanePlan<'a> {
    pub spec: &'a DataPlaneSpec,
    pub traffic: &'a TrafficSpec,
    pub server: &'a ServerSpec,
}

impl<'a> DataPlanePlan<'a> {
    /// Checks whether it can run on the server; keys are relative to the table that has
    /// `data_plane`.
    pub fn check(&self) -> Result<(), SpecError> {
        let server = self.server;
        self.traffic.check().under("traffic")?;
        let (running, cores) = (server.data_plane_cores, server.fabric.cores);
        require(
            running <= cores,
            "server.data_plane_cores",
            running,
            format!("it must be server.fabric.cores, {cores}, or less"),
        )?;
        self.check_threads()?;
        self.spec.check().under("data_plane")?;
        self.check_organisation()?;
        self.check_sources()
    }

    /// Checks the use of a core's hardware threads.
    fn check_threads(&self) -> Result<(), SpecError> {
        let server = self.server;
        let (threads, there) = (server.data_plane_threads, usize::from(server.core.threads));
        let (cores, all) = (server.data_plane_cores, server.fabric.cores);
        let why = if threads == 1 {
            None
        } else if threads > there {
            Some(format!("it must be server.core.threads, {there}, or less"))
        } else if cores != all {
            Some(format!(
                "with more than 1 all cores run the data plane: set server.data_plane_cores to \
                 server.fabric.cores, {all}, and not {cores}"
            ))
        } else if self.spec.co_runner.is_some() {
            Some("data_plane.co_runner has the second thread: leave one of the two out".to_string())
        } else if self.spec.notify.mechanism().brings_requests {
            let name = self.spec.notify.mechanism().name;
            Some(format!("data_plane.notify = {name:?} has one hart a core"))
        } else {
            None
        };
        if let Some(why) = why {
            return Err(SpecError::new("server.data_plane_threads", threads, why));
        }
        let Some(program) = &self.spec.co_runner else {
            return Ok(());
        };
        require(
            self.server.core.threads > 1,
            "data_plane.co_runner",
            format_args!("{program:?}"),
            "it runs on the second hardware thread of each data plane core, and the cores have \
             one: set server.core.threads = 2",
        )
    }

    /// Number of cores that are the sources of the traffic; none, if the device is the source.
    fn source_cores(&self) -> u32 {
        let others = self.server.fabric.cores - self.server.data_plane_cores;
        match self.traffic.sources {
            Sources::Device => 0,
            Sources::Cores => self.traffic.source_cores.unwrap_or(others as u32),
        }
    }

    /// Checks the sources of the traffic.
    fn check_sources(&self) -> Result<(), SpecError> {
        if self.traffic.sources == Sources::Device {
            return Ok(());
        }
        let Mechanism {
            name, needs_device, ..
        } = self.spec.notify.mechanism();
        if let Some(reason) = needs_device {
            return Err(SpecError::new(
                "traffic.sources",
                "\"cores\"",
                format!("with data_plane.notify = {name:?} {reason}: take \"device\""),
            ));
        }
        let (running, all) = (self.server.data_plane_cores, self.server.fabric.cores);
        let (key, value) = match self.traffic.source_cores {
            None => ("traffic.sources", "\"cores\"".to_string()),
            Some(cores) => ("traffic.source_cores", cores.to_string()),
        };
        let (wanted, others) = (self.source_cores() as usize, all - running);
        require(
            (1..=others).contains(&wanted),
            key,
            value,
            format!(
                "of {all} cores (server.fabric.cores) {running} run the data plane \
                 (server.data_plane_cores), and {others} are left"
            ),
        )
    }

    /// Checks the organisation of the data plane's cores.
    fn check_organisation(&self) -> Result<(), SpecError> {
        let harts = self.server.data_plane_harts() as u32;
        let cluster = self.spec.cluster_cores(harts);
        let mechanism = self.spec.notify.mechanism();
        require(
            cluster == 1 || !mechanism.owns_queues,
            "data_plane.organisation",
            format!("{cluster} cores that share queues"),
            format!(
                "with data_plane.notify = {:?} a queue belongs to one hart: use \
                 data_plane.organisation = \"scale-out\"",
                mechanism.name
            ),
        )?;
        let them = match self.server.data_plane_threads {
            1 => "cores (server.data_plane_cores)",
            _ => "threads (server.data_plane_cores times server.data_plane_threads)",
        };
        require(
            cluster <= harts && harts.is_multiple_of(cluster),
            "data_plane.organisation",
            format!("{cluster} cores that share queues"),
            format!("there are {harts} data plane {them}, and they must make whole clusters"),
        )
    }

    /// The information about it for systems.
    pub fn setting(&self) -> system::DataPlane<'a> {
        let harts = self.server.data_plane_harts() as u32;
        system::DataPlane {
            clusters: harts / self.spec.cluster_cores(harts),
            mechanism: self.spec.notify.mechanism(),
            queues: self.spec.queues,
            batch: self.spec.batch(),
            policy: written(&self.spec.policy),
            organisation: self.spec.organisation.as_ref().map(written),
            traffic: self.traffic,
        }
    }

    /// The setup of the I/O device.
    pub fn setup(&self) -> IoSetup {
        let (spec, traffic) = (self.spec, self.traffic);
        let queues = spec.queues;
        // The device and programs treat harts as cores.
        let data_plane_cores = self.server.data_plane_harts() as u32;
        let cluster_cores = spec.cluster_cores(data_plane_cores);
        let queue_capacity = traffic.queue_capacity;
        // A queue never holds more than this.
        let batch = spec.batch().min(queue_capacity - 1);
        let mechanism = spec.notify.mechanism();
        // Requests that a system brings go to the cores that it chooses.
        let in_order = (spec.in_order || cluster_cores == 1) && !mechanism.brings_requests;
        // Slots that have been counted down and may still be being read: those of one visit;
        // without order, those of all cores, which may be far apart (see `struct
        // data_plane_sharing` in the guest's `data_plane.h`).
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
            slot_bytes: traffic.slot_bytes(),
            packet_bytes: traffic.packet_bytes,
            data_plane_cores,
            cluster_cores,
            batch,
            in_order,
            notify: mechanism.code,
            policy: match spec.policy {
                Policy::RoundRobin => 0,
                Policy::WeightedRoundRobin => 1,
                Policy::StrictPriority => 2,
            },
            // Twice the necessary number, so that a conflicting doorbell can be given another
            // address.
            doorbells: doorbell_range(DOORBELLS.start, 2 * u64::from(queues)),
            tenant_doorbells: doorbell_range(TENANT_DOORBELLS.start, u64::from(queues)),
            consumers: AddressRange {
                start: CONSUMERS.start,
                length: u64::from(queues) * CONSUMER_BYTES,
            },
            second_socket: match self.server.fabric.sockets {
                1 => None,
                _ => Some(second_half(self.server)),
            },
        }
    }

    /// The program's settings from the device, without the results of `prepare()`.
    fn settings(&self) -> ProgramSettings {
        ProgramSettings {
            weights: self.spec.weights.clone(),
            parameters: self.spec.parameters.clone(),
            operations: self.traffic.operations.clone(),
            prepared: ProgramPreparation::default(),
        }
    }

    /// The input of its program's `prepare()`.
    pub fn told(&self) -> Told {
        Told::new(IO_REGISTERS, &self.settings())
    }

    /// The queues that have traffic.
    fn active_queues(&self, seed: u64) -> Vec<u32> {
        let mut choice = Random::new(seed, Stream::ActiveQueues);
        self.traffic
            .shape
            .active_queues(self.spec.queues, &mut choice)
    }

    /// The rule for the end of a warm start without a number of requests. Data planes whose
    /// requests come from a system have no rings.
    fn settling(&self, setup: &IoSetup, seed: u64, rings: RingsAtStart) -> Settling {
        let has_new_slots =
            rings == RingsAtStart::New && !self.spec.notify.mechanism().brings_requests;
        let uses = if has_new_slots {
            setup.ring_slots.into()
        } else {
            1
        };
        Settling::new(self.active_queues(seed).len() as u64, uses)
    }

    /// The queue that the cores would ideally share, if requests arrive as a Poisson process.
    fn ideal(&self) -> Option<Ideal> {
        let rate_mrps = self.traffic.rate_mrps?;
        (self.traffic.arrivals == Arrivals::Poisson).then_some(Ideal {
            rate_mrps,
            units: self.server.data_plane_harts(),
        })
    }

    /// The rings that a saturated run keeps full: those of the I/O source, if it fills the queues.
    fn full_rings(&self, setup: &IoSetup, seed: u64) -> Option<Rings> {
        let has_rings = !self.spec.notify.mechanism().brings_requests;
        (has_rings && self.traffic.saturates()).then(|| Rings {
            queues: self.active_queues(seed).len(),
            slots: setup.ring_slots as usize,
        })
    }
}

/// The traffic of a data plane before it is attached to a server.
pub(crate) struct Io<'a> {
    plan: DataPlanePlan<'a>,
    setup: IoSetup,
    ledger: SharedLedger,
    measure: &'a MeasureSpec,
    settings: ProgramSettings,
    files: &'a Files,
    seed: u64,
    capture_packets: usize,
}

impl<'a> Io<'a> {
    /// The traffic of `plan`, whose program has left `prepared`, with random choices seeded by
    /// `seed`, capturing `capture` packets.
    pub fn new(
        plan: DataPlanePlan<'a>,
        measure: &'a MeasureSpec,
        prepared: ProgramPreparation,
        (seed, files, capture_packets): (u64, &'a Files, usize),
    ) -> Io<'a> {
        let setup = plan.setup();
        let precision_of = match measure.precision_of {
            Some(kind) => Estimate::P99Of(kind as u8),
            None if plan.traffic.saturates() => Estimate::Throughput,
            None => Estimate::P99,
        };
        let recorder = Recorder::new(measure.requests, measure.warmup)
            .with_precision(measure.precision, precision_of)
            .with_ideal(plan.ideal())
            .with_full_rings(plan.full_rings(&setup, seed));
        let ledger = Ledger::shared(recorder);
        if !setup.in_order {
            ledger.borrow_mut().allow_reordering();
        }
        if let Some(warm) = &measure.warm_start {
            let mut ledger = ledger.borrow_mut();
            match warm.requests {
                WarmStartLength::Requests(requests) => ledger.warm_up(requests),
                WarmStartLength::Auto => {
                    ledger.settle(plan.settling(&setup, seed, measure.rings));
                }
            }
        }
        let settings = ProgramSettings {
            prepared,
            ..plan.settings()
        };
        Io {
            plan,
            setup,
            ledger,
            measure,
            settings,
            files,
            seed,
            capture_packets,
        }
    }

    /// The requests, for a mechanism that brings them itself.
    pub fn requests(&self) -> Result<Option<Requests<'_>>, RunError> {
        if !self.plan.spec.notify.mechanism().brings_requests {
            return Ok(None);
        }
        Ok(Some(Requests {
            setup: &self.setup,
            traffic: self.plan.traffic,
            packets: self.packets()?,
            arrivals: self.arrivals(),
            settings: self.settings.clone(),
            ledger: &self.ledger,
            has_used_rings: self.measure.rings != RingsAtStart::New,
            capture_packets: self.capture_packets,
        }))
    }

    fn packets(&self) -> Result<Packets, RunError> {
        let warm_start = self.measure.warm_start.as_ref();
        let warm_work_ns = warm_start.and_then(|warm| warm.work_ns);
        let packets = (self.plan.traffic).open_packets(self.seed, self.files, warm_work_ns);
        packets.map_err(|error| RunError::Description(error.to_string()))
    }

    fn arrivals(&self) -> ArrivalTimer {
        let warm_start = self.measure.warm_start.as_ref();
        let rate_mrps = warm_start.map(|warm| warm.rate_mrps);
        ArrivalTimer::new(self.plan.traffic, rate_mrps, self.seed)
    }

    /// Attaches the I/O device that fills the queues, and the tenants that empty them, unless
    /// `hardware` brings the requests.
    pub fn attach(&self, fabric: &mut Fabric, hardware: &Hardware) -> Result<DataPlane, RunError> {
        let (setup, ledger, plan) = (self.setup, &self.ledger, &self.plan);
        let mut data_plane = DataPlane {
            ledger: ledger.clone(),
            setup,
            source: AgentId(0),
            tenants: None,
            requests: self.measure.requests,
            source_cores: plan.source_cores(),
            delivered: 0,
            delivered_at: 0,
            threads: plan.server.data_plane_threads,
            slowest_requests: 0,
        };
        if let Some(source) = hardware.source() {
            if self.measure.rings == RingsAtStart::Full {
                let notify = plan.spec.notify.mechanism().name;
                return Err(RunError::Description(format!(
                    "measure.rings is \"full\", and data_plane.notify = {notify:?} has no rings: \
                     leave it out, or use \"used\""
                )));
            }
            data_plane.source = source;
            return Ok(data_plane);
        }
        let (traffic, seed) = (plan.traffic, self.seed);
        // Tiles of the first socket, if there are two.
        let tiles = plan.server.fabric.tiles_of_socket();
        let source = IoSource::new(
            setup,
            self.arrivals(),
            plan.active_queues(seed),
            Random::new(seed, Stream::Queues),
            (self.packets()?, self.settings.clone()),
            ledger.clone(),
        )
        .with_signal(hardware.signal())
        .with_rings(self.measure.rings)
        .with_cores(plan.source_cores())
        .with_imbalance(traffic.imbalance)
        .and_then(|source| source.with_socket_imbalance(traffic.socket_imbalance))
        .map_err(RunError::Description)?;
        // Producers and consumers are placed far from the data plane's first core.
        let source = fabric.attach(Box::new(source), IoSource::attachment(&setup, tiles - 1))?;
        let tenants = TenantSide::new(setup, ledger.clone(), self.capture_packets);
        let tenants = fabric.attach(
            Box::new(tenants),
            TenantSide::attachment(&setup, tiles.saturating_sub(2)),
        )?;
        fabric.wake_agent(tenants, Time::ZERO, 0);
        if let Some(agent) = fabric.agent_mut::<IoSource>(source) {
            agent.set_sharers(source, tenants);
        }
        Ok(DataPlane {
            source,
            tenants: Some(tenants),
            ..data_plane
        })
    }
}

/// A running data plane.
pub(crate) struct DataPlane {
    pub(crate) ledger: SharedLedger,
    pub(crate) setup: IoSetup,
    /// The source that takes over at the end of the warm start.
    source: AgentId,
    /// The tenants, unless a system brings the requests and takes the replies.
    tenants: Option<AgentId>,
    /// Number of requests to measure.
    requests: u64,
    /// Number of cores that are the sources of the traffic.
    source_cores: u32,
    /// Number of items delivered at the last check that saw progress, and its cycle.
    delivered: u64,
    delivered_at: u64,
    /// Number of hardware threads of each of its cores that serve requests.
    threads: usize,
    /// Number of slowest requests in the result.
    slowest_requests: usize,
}

impl DataPlane {
    /// Watches the stores that start and end a request's service.
    pub(crate) fn watch(&self, machine: &mut Machine, hardware: &Hardware) {
        let watched = hardware.watched();
        for core in &mut machine.engine.cores {
            core.watch(watched.unwrap_or(self.setup.all_doorbells()));
        }
    }

    /// The cycle at which the energy must be read, if that is known and not done yet: at the start
    /// of the traffic, or of the measured part after the warm start; otherwise `NEVER`.
    pub(crate) fn reading_due(&self, machine: &Machine) -> u64 {
        if machine.first_reading.is_some() {
            return NEVER;
        }
        let ledger = self.ledger.borrow();
        let at = match ledger.measures() {
            true => ledger.started_at(),
            false => ledger.warm_at(),
        };
        let engine = &machine.engine;
        at.map_or(NEVER, |at| {
            engine.settled_after(engine.clock().cycle_at_or_after(at))
        })
    }

    /// Whether the warm start may be over, and the traffic has not changed yet.
    pub(crate) fn may_end_warm_start(&self) -> bool {
        self.ledger.borrow().warm_at().is_some()
    }

    /// Whether the warm start is over at the cycle `now`; otherwise it continues.
    pub(crate) fn has_settled(&self, machine: &mut Machine, now: u64) -> bool {
        machine.engine.settle(now);
        let cores = machine.engine.cores.iter();
        let lines = cores.map(|core| core.data_lines()).sum();
        self.ledger.borrow_mut().has_settled(lines)
    }

    /// Changes the traffic at the cycle `now`, at the end of the warm start.
    pub(crate) fn end_warm_start(&self, machine: &mut Machine, now: u64) {
        // The run continues in the same way whether a checkpoint was saved or not.
        machine.engine.forget_loops();
        self.ledger.borrow_mut().end_warm_start();
        let at = machine.engine.time(now);
        let fabric = &mut machine.engine.fabric;
        fabric.wake_agent(self.source, at, ArrivalTimer::CHANGE);
    }

    /// Stops arrivals from the time `at` on.
    pub(crate) fn stop(&self, machine: &mut Machine, at: Time) {
        let fabric = &mut machine.engine.fabric;
        fabric.wake_agent(self.source, at, ArrivalTimer::STOP);
    }

    /// Number of items that have arrived and have not been delivered.
    pub(crate) fn under_way(&self) -> u64 {
        let counts = self.ledger.borrow().counts();
        counts.entering + counts.inside
    }

    /// Number of delivered items.
    pub(crate) fn delivered(&self) -> u64 {
        self.ledger.borrow().counts().delivered
    }

    /// The time at which enough had been measured.
    #[inline]
    pub(crate) fn done_at(&self) -> Option<Time> {
        self.ledger.borrow().recorder().done_at()
    }

    /// The fraction of the measurement that is complete; 1 when it is done.
    pub(crate) fn progress(&self) -> f64 {
        match self.done_at() {
            Some(_) => 1.0,
            // There may be enough samples while the warm-up is not over yet.
            None => self
                .ledger
                .borrow()
                .progress(self.requests)
                .min(1.0 - f64::EPSILON),
        }
    }

    /// Requests this number of slowest requests in the result.
    pub(crate) fn explain_slowest(&mut self, requests: usize) {
        self.slowest_requests = requests;
        if requests > 0 {
            self.ledger.borrow_mut().keep_history();
        }
    }

    /// Keeps a record of each item from now on.
    pub(crate) fn keep_records(&self) {
        self.ledger.borrow_mut().keep_records();
    }

    /// Checks that the program has used its queues and settings correctly.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        let ledger = self.ledger.borrow();
        if let Some(sentence) = ledger.wrong_description() {
            return Err(RunError::Description(sentence.to_string()));
        }
        match ledger.fault() {
            Some(fault) => Err(RunError::Guest(fault.to_string())),
            None => Ok(()),
        }
    }

    /// Checks that the program has not ended before enough was measured.
    pub(crate) fn check_exit(&self, machine: &mut Machine) -> Result<(), RunError> {
        let ledger = self.ledger.borrow();
        match machine.exit() {
            Some((_, status)) if !ledger.recorder().is_done() => Err(RunError::Guest(format!(
                "the program ended with status {status} after {} requests, before enough had been \
                 measured{}",
                ledger.recorder().recorded(),
                said(&machine.output())
            ))),
            _ => Ok(()),
        }
    }

    /// The reason why it will never be done, if it has let work wait for too long.
    pub(crate) fn look(&mut self, machine: &Machine) -> Option<String> {
        let (counts, started) = {
            let ledger = self.ledger.borrow();
            (ledger.counts(), ledger.is_started())
        };
        let now = machine.engine.now();
        if counts.delivered > self.delivered || (started && counts.inside == 0) {
            self.delivered = counts.delivered;
            self.delivered_at = now;
            return None;
        }
        let clock = machine.engine.clock();
        let patience = clock.cycle_at_or_after(Time::from_ns(PATIENCE_NS));
        let waits = || match started {
            true => format!("{} items wait in its queues", counts.inside),
            false => "it has not started its I/O device".to_string(),
        };
        (now.saturating_sub(self.delivered_at) > patience).then(|| {
            format!(
                "the data plane has done nothing for {} ms of simulated time, and {}",
                PATIENCE_NS / 1e6,
                waits()
            )
        })
    }

    /// Number of requests at the start of the history that are not measured. A run resumed from a
    /// checkpoint has only the history since then.
    fn not_measured(ledger: &Ledger, warmup_samples: u64) -> usize {
        (warmup_samples + ledger.history().len() as u64)
            .saturating_sub(ledger.recorder().recorded()) as usize
    }

    /// The times during which the slowest requests, if they are asked for, were served.
    pub(crate) fn slowest_services(&self) -> Vec<Range<Time>> {
        let ledger = self.ledger.borrow();
        let warmup_samples = ledger.recorder().warmup_samples();
        let not_measured = DataPlane::not_measured(&ledger, warmup_samples);
        let slowest = select(ledger.history(), not_measured, self.slowest_requests);
        let services = slowest
            .into_iter()
            .filter_map(|one| Some(one.began_at?..one.done_at));
        services.collect()
    }

    /// The results. `misses` are those of the cores' loads, where they have been looked at.
    pub(crate) fn result(
        &self,
        machine: &mut Machine,
        hardware: &Hardware,
        misses: Option<&CoreMisses<'_>>,
    ) -> Result<DataPlaneResult, RunError> {
        let ledger = self.ledger.borrow();
        let mut measurement = ledger.recorder().measurement().ok_or_else(|| {
            RunError::Guest(format!(
                "the program ended without delivering a single item{}",
                said(&machine.output())
            ))
        })?;
        let fabric = &mut machine.engine.fabric;
        let (doorbell_conflicts, waiting) = fabric
            .agent_mut::<IoSource>(self.source)
            .map_or((0, 0), |source| {
                (source.conflicts(), source.waiting_for_cores())
            });
        let delivered = match self.tenants {
            Some(tenants) => fabric
                .agent_mut::<TenantSide>(tenants)
                .map_or_else(Vec::new, |tenants| tenants.delivered().to_vec()),
            None => hardware.replies(fabric),
        };
        let items = ledger.counts();
        let warmup_samples = measurement.warmup_samples;
        measurement.add_overload(lost_requests(items.dropped, "dropped: the queue was full"));
        let sources = (self.source_cores > 0).then(|| {
            let warmup = measurement.warmup_samples;
            SourceResults::of(self.source_cores, waiting, &ledger, warmup)
        });
        let behind = sources
            .as_ref()
            .and_then(|sources| sources.overload(items.generated));
        measurement.add_overload(behind);
        Ok(DataPlaneResult {
            measurement,
            warm_start_requests: ledger.delivered_warm(),
            by_kind: ledger.by_kind(),
            items,
            queues: QueueResults::of(&ledger),
            program_counters: ledger.program_counters().iter().cloned().collect(),
            doorbell_conflicts,
            slowest: slowest(
                ledger.history(),
                DataPlane::not_measured(&ledger, warmup_samples),
                self.threads,
                self.slowest_requests,
                misses,
            ),
            captured: delivered.iter().map(|item| hex(&item.bytes)).collect(),
            sources,
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
