//! What is written down of a run for viewers.

use crate::error::RunError;
use crate::machine::Machine;
use fabric::Time;
use network::{IoSetup, ItemRecord, SharedLedger};
use pipeline::Probe;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use trace::{CoreTimeline, PipelineLog, Profile, Program, Request, Ring, SharedTimeline, Timeline};

/// Probes come this much before what is to be seen, and go as much after it: for instructions that
/// are in flight then.
const MARGIN_CYCLES: u64 = 2000;

/// What is to be written down of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceOptions {
    /// A timeline for the viewer Perfetto.
    pub timeline: Option<PathBuf>,
    /// The pipeline of one core for the viewer Konata.
    pub pipeline: Option<PathBuf>,
    /// Which core that is, and with two hardware threads which hart.
    pub pipeline_core: usize,
    /// Only what happens in this simulated time: from and until, in nanoseconds.
    pub window_ns: Option<[f64; 2]>,
    /// Only requests of which this part of all is faster: 0.999 shows those above the p99.9.
    pub slower_than: Option<f64>,
    /// Where the cycles of all cores went, as folded stacks.
    pub profile: Option<PathBuf>,
}

impl TraceOptions {
    /// Whether there is something to do.
    pub fn is_wanted(&self) -> bool {
        self.timeline.is_some() || self.pipeline.is_some() || self.profile.is_some()
    }

    /// The simulated time to show.
    pub(crate) fn window(&self) -> Result<Range<Time>, RunError> {
        let Some([from, until]) = self.window_ns else {
            return Ok(Time::ZERO..Time::NEVER);
        };
        // A number that is none is in no order.
        if !(from >= 0.0 && until > from) {
            return Err(RunError::Description(format!(
                "the window of the trace, {from} to {until} ns, is empty"
            )));
        }
        Ok(Time::from_ns(from)..Time::from_ns(until))
    }
}

/// What has become of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceReport {
    /// Where it is.
    pub path: PathBuf,
    /// What it has: events of a timeline, instructions of a pipeline, cycles of a profile.
    pub entries: u64,
    /// Why it is not whole, if it is not.
    pub error: Option<String>,
}

type Writer = BufWriter<File>;

fn create(path: &Path) -> Result<Writer, RunError> {
    File::create(path).map(BufWriter::new).map_err(|error| {
        RunError::Description(format!(
            "{}: the trace cannot be written: {error}",
            path.display()
        ))
    })
}

/// Several probes of one core.
struct Both(Vec<Box<dyn Probe>>);

impl Probe for Both {
    fn executed(&mut self, executed: &pipeline::Executed) {
        for probe in &mut self.0 {
            probe.executed(executed);
        }
    }
}

/// Writes the traces of one run.
pub(crate) struct Tracer {
    options: TraceOptions,
    /// When the probes are there, in cycles; in order, and apart from each other.
    windows: Vec<Range<u64>>,
    /// The window that comes next, or is there now.
    next: usize,
    /// The probes are there.
    active: bool,
    timeline: Option<SharedTimeline<Writer>>,
    timelines: Vec<Rc<RefCell<CoreTimeline<Writer>>>>,
    pipeline: Option<Rc<RefCell<PipelineLog<Writer>>>>,
    profiles: Vec<Rc<RefCell<Profile>>>,
}

/// Ranges in order, and those that touch made one.
fn merge<T: Copy + Ord>(mut ranges: Vec<Range<T>>) -> Vec<Range<T>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<T>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

impl Tracer {
    /// For a run of `machine` with the program in the ELF file `elf`, of which is to be seen what
    /// happens in the times of `shown`.
    pub fn new(
        options: &TraceOptions,
        shown: Vec<Range<Time>>,
        machine: &Machine,
        elf: &[u8],
    ) -> Result<Tracer, RunError> {
        let (clock, cores) = (machine.engine.clock(), machine.engine.cores.len());
        let harts = cores * usize::from(machine.threads());
        if options.pipeline.is_some() && options.pipeline_core >= harts {
            let what = if harts > cores { "hart" } else { "core" };
            return Err(RunError::Description(format!(
                "{what} {} is to be traced, but the server has {what}s 0 to {}",
                options.pipeline_core,
                harts - 1
            )));
        }
        let name = |hart: usize| match hart.checked_sub(cores) {
            Some(core) => format!("core {core}, second hart"),
            None => format!("core {hart}"),
        };
        let shown = merge(shown);
        let cycles: Vec<Range<u64>> = shown
            .iter()
            .map(|window| clock.cycle_of(window.start)..clock.cycle_at_or_after(window.end))
            .collect();
        let program = Program::shared(machine.image(), elf);
        let mut tracer = Tracer {
            options: options.clone(),
            windows: Vec::new(),
            next: 0,
            active: false,
            timeline: None,
            timelines: Vec::new(),
            pipeline: None,
            profiles: Vec::new(),
        };
        if let Some(path) = &options.timeline {
            let timeline = Timeline::shared(create(path)?, clock, shown);
            tracer.timelines = each(harts, |hart| {
                CoreTimeline::new(timeline.clone(), hart, &name(hart), program.clone())
            });
            tracer.timeline = Some(timeline);
        }
        if let Some(path) = &options.pipeline {
            let front_end = machine.front_end_cycles();
            let log = PipelineLog::new(create(path)?, cycles.clone(), front_end);
            tracer.pipeline = Some(Rc::new(RefCell::new(log)));
        }
        if !options.is_wanted() {
            return Ok(tracer);
        }
        tracer.windows = if let Some(path) = &options.profile {
            create(path)?;
            tracer.profiles = each(harts, |hart| Profile::new(&name(hart), program.clone()));
            let always = 0..u64::MAX;
            vec![always]
        } else {
            let with_margin = |window: &Range<u64>| {
                window.start.saturating_sub(MARGIN_CYCLES)..window.end.saturating_add(MARGIN_CYCLES)
            };
            merge(cycles.iter().map(with_margin).collect())
        };
        Ok(tracer)
    }

    /// Lets probes come and go, and lets the machine run until cycle `limit`; to be called before
    /// each step of the engine.
    pub fn prepare(&mut self, machine: &mut Machine, limit: u64) {
        if self.next == self.windows.len() {
            machine.engine.set_pause(limit);
            return;
        }
        let threads = machine.threads();
        let engine = &mut machine.engine;
        loop {
            let now = engine.now();
            let pause = match self.windows.get(self.next) {
                None => u64::MAX,
                Some(window) if self.active => window.end,
                Some(window) => window.start,
            };
            engine.set_pause(pause.min(limit));
            // A server in which nothing will ever happen again never comes to a pause.
            if now < pause || pause == u64::MAX {
                return;
            }
            let cores = engine.cores.len();
            for (number, core) in engine.cores.iter_mut().enumerate() {
                if self.active {
                    core.remove_probes(pause);
                } else {
                    core.catch_up(pause);
                    for thread in 0..threads {
                        let hart = usize::from(thread) * cores + number;
                        core.set_probe(thread, self.probe(hart));
                    }
                }
            }
            if self.active {
                self.next += 1;
            }
            self.active = !self.active;
        }
    }

    fn probe(&self, hart: usize) -> Box<dyn Probe> {
        let mut probes: Vec<Box<dyn Probe>> = Vec::new();
        if let Some(timeline) = self.timelines.get(hart) {
            probes.push(Box::new(timeline.clone()));
        }
        if let Some(pipeline) = &self.pipeline
            && hart == self.options.pipeline_core
        {
            probes.push(Box::new(pipeline.clone()));
        }
        if let Some(profile) = self.profiles.get(hart) {
            probes.push(Box::new(profile.clone()));
        }
        Box::new(Both(probes))
    }

    /// Writes down what has become of requests since it was called last.
    pub fn requests(&mut self, ledger: &SharedLedger, setup: &IoSetup) {
        let Some(timeline) = &self.timeline else {
            return;
        };
        let mut timeline = timeline.borrow_mut();
        let mut ledger = ledger.borrow_mut();
        if !timeline.has_rings() {
            for (queue, descriptor) in ledger.queues().iter().enumerate() {
                let ring = Ring {
                    start: descriptor.ring,
                    slot_bytes: setup.slot_bytes.into(),
                    slots: setup.queue_capacity.into(),
                };
                timeline.set_ring(queue as u32, ring);
            }
        }
        for record in ledger.take_records() {
            let ItemRecord {
                item,
                queue,
                arrived_at,
                done_at,
            } = record;
            timeline.served(&Request {
                number: item,
                queue,
                arrived_at,
                done_at,
            });
        }
    }

    /// The run is over, or has been cut off: completes the files.
    pub fn finish(&mut self, machine: &mut Machine) -> Vec<TraceReport> {
        let end = machine.end();
        let engine = &mut machine.engine;
        if self.active {
            for core in &mut engine.cores {
                core.remove_probes(end);
            }
        }
        let mut reports = Vec::new();
        if let (Some(path), Some(timeline)) = (&self.options.timeline, &self.timeline) {
            for part in &self.timelines {
                part.borrow_mut().close(engine.clock().time(end));
            }
            let mut timeline = timeline.borrow_mut();
            let error = timeline.finish();
            reports.push(report(path, timeline.events(), error));
        }
        if let (Some(path), Some(pipeline)) = (&self.options.pipeline, &self.pipeline) {
            let mut pipeline = pipeline.borrow_mut();
            let error = pipeline.finish();
            reports.push(report(path, pipeline.instructions(), error));
        }
        if let Some(path) = &self.options.profile {
            let cores = engine.cores.len();
            for (hart, profile) in self.profiles.iter().enumerate() {
                let (core, thread) = (&engine.cores[hart % cores], (hart / cores) as u8);
                let halted_cycles = core.hart_statistics(thread, end).halted_cycles;
                profile
                    .borrow_mut()
                    .finish(core.pc(thread), end, halted_cycles);
            }
            let profiles: Vec<_> = self.profiles.iter().map(|one| one.borrow()).collect();
            let text = trace::folded(profiles.iter().map(|profile| &**profile));
            let cycles = profiles.iter().map(|profile| profile.total()).sum();
            reports.push(report(path, cycles, std::fs::write(path, text)));
        }
        reports
    }
}

fn each<T>(harts: usize, make: impl Fn(usize) -> T) -> Vec<Rc<RefCell<T>>> {
    (0..harts)
        .map(|hart| Rc::new(RefCell::new(make(hart))))
        .collect()
}

fn report(path: &Path, entries: u64, written: io::Result<()>) -> TraceReport {
    TraceReport {
        path: path.to_path_buf(),
        entries,
        error: written.err().map(|error| {
            format!(
                "{}: the trace could not be written to its end: {error}",
                path.display()
            )
        }),
    }
}
