//! Records of a run for viewers.

use crate::error::RunError;
use crate::machine::Machine;
use crate::observers::Several;
use crate::output::OutputFile;
use crate::run::Options;
use crate::slowest::CoreMisses;
use fabric::{Clock, Time};
use pipeline::Probe;
use queues::{IoSetup, ItemRecord, SharedLedger};
use riscv::elf::Image;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use trace::{
    CommitLog, CoreTimeline, HartLog, Misses, PipelineLog, Profile, Program, Request, Ring,
    SharedLog, SharedProgram, SharedTimeline, Timeline,
};

/// Probes are attached this long before the shown time and removed this long after it, for
/// instructions in flight at its ends.
const MARGIN_CYCLES: u64 = 2000;

/// The requested traces of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceOptions {
    /// A timeline for the viewer Perfetto.
    pub timeline: Option<PathBuf>,
    /// The pipeline of one core for the viewer Konata.
    pub pipeline: Option<PathBuf>,
    /// The core or, with several hardware threads, the hart.
    pub pipeline_core: usize,
    /// The simulated time to show: from and until, in nanoseconds.
    pub window_ns: Option<[f64; 2]>,
    /// Shows only requests slower than this quantile: 0.999 shows those above the p99.9.
    pub slower_than: Option<f64>,
    /// The number of slowest requests in the result; files then only show the times during which
    /// they are in flight.
    pub slowest: usize,
    /// The cycles of all cores, as folded stacks.
    pub profile: Option<PathBuf>,
    /// Every instruction that a hart retires, in the format of Spike's log of commits.
    pub log: Option<PathBuf>,
}

impl TraceOptions {
    /// Whether any trace is requested.
    pub fn is_wanted(&self) -> bool {
        self.timeline.is_some()
            || self.pipeline.is_some()
            || self.profile.is_some()
            || self.log.is_some()
    }

    /// The simulated time to show.
    pub(crate) fn window(&self) -> Result<Range<Time>, RunError> {
        let Some([from, until]) = self.window_ns else {
            return Ok(Time::ZERO..Time::NEVER);
        };
        // A NaN compares as false.
        if !(from >= 0.0 && until > from) {
            return Err(RunError::Description(format!(
                "the window of the trace, {from} to {until} ns, is empty"
            )));
        }
        Ok(Time::from_ns(from)..Time::from_ns(until))
    }
}

/// One trace file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TraceReport {
    /// The path of the file.
    pub path: PathBuf,
    /// The number of entries: events of a timeline, instructions of a pipeline or of a log, cycles
    /// of a profile.
    pub entries: u64,
    /// The reason why the file is not complete; `None` if it is.
    pub error: Option<String>,
}

pub(crate) type Writer = BufWriter<File>;

/// The file of a trace, and its writer.
fn create(path: &Path) -> Result<(OutputFile, Writer), RunError> {
    let created = OutputFile::create(path).and_then(|file| {
        let writer = BufWriter::new(file.writer()?);
        Ok((file, writer))
    });
    created.map_err(|error| {
        RunError::Description(format!(
            "{}: the trace cannot be written: {error}",
            path.display()
        ))
    })
}

/// Sorts ranges, and merges overlapping and adjacent ones.
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

/// The traced requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slow {
    /// Requests above this quantile of the latencies.
    Above(f64),
    /// This number of the slowest requests.
    Count(usize),
}

/// The times at which a run is looked into.
#[derive(Clone, Debug, Default)]
pub(crate) struct LookedAt {
    /// What trace files show.
    pub shown: Vec<Range<Time>>,
    /// When cores serve requests whose misses are told.
    pub services: Vec<Range<Time>>,
}

/// Runs once, or twice to look only at the slowest requests: the first run finds them, and the
/// second repeats it exactly. `once` makes one run that is looked into at the given times;
/// `slowest` returns the times of those requests.
pub(crate) fn run_traced<R, L>(
    options: &Options,
    progress: &mut dyn FnMut(f64) -> bool,
    mut once: impl FnMut(&Options, LookedAt, &mut dyn FnMut(f64) -> bool) -> Result<(R, L), RunError>,
    slowest: impl FnOnce(&L, Option<Slow>) -> LookedAt,
) -> Result<R, RunError> {
    let trace = &options.trace;
    let slow = match trace.slower_than {
        Some(part) => Some(Slow::Above(part)),
        None if trace.slowest > 0 && trace.window_ns.is_none() => Some(Slow::Count(trace.slowest)),
        None => None,
    };
    let slow = slow.filter(|_| trace.is_wanted());
    if slow.is_none() && trace.slowest == 0 {
        let shown = LookedAt {
            shown: vec![trace.window()?],
            ..LookedAt::default()
        };
        return Ok(once(options, shown, progress)?.0);
    }
    let window = trace.window()?;
    let untraced = Options {
        trace: TraceOptions {
            slowest: trace.slowest,
            ..TraceOptions::default()
        },
        ..options.clone()
    };
    let mut first_half = |done| progress(done / 2.0);
    let (_, found) = once(&untraced, LookedAt::default(), &mut first_half)?;
    let mut traced = options.clone();
    // It has been saved already.
    traced.checkpoint.save = None;
    let mut looked_at = slowest(&found, slow);
    if slow.is_none() {
        looked_at.shown = vec![window];
    }
    let mut second_half = |done| progress(0.5 + done / 2.0);
    Ok(once(&traced, looked_at, &mut second_half)?.0)
}

/// The traceable harts, for the error message about an invalid one.
pub(crate) struct Harts {
    /// Their number.
    pub count: usize,
    /// Whether some of them share a core.
    pub share_cores: bool,
    /// The subject of the sentence.
    pub of: &'static str,
}

/// The traces of one run.
pub(crate) struct Traces {
    options: TraceOptions,
    /// The shown times; ordered and disjoint.
    shown: Vec<Range<Time>>,
    /// When the misses of data planes' cores are looked at; the same.
    services: Vec<Range<Time>>,
    timeline: Option<SharedTimeline<Writer>>,
    timeline_file: Option<OutputFile>,
    /// The writer of the pipeline log, until its core is known.
    pipeline_writer: Option<Writer>,
    pipeline: Option<Rc<RefCell<PipelineLog<Writer>>>>,
    pipeline_file: Option<OutputFile>,
    profile_file: Option<(OutputFile, Writer)>,
    profiles: Vec<Rc<RefCell<Profile>>>,
    log: Option<LogFile>,
    /// Number of traced harts.
    harts: usize,
}

impl Traces {
    /// Traces of the times `looked_at`.
    pub fn new(
        options: &TraceOptions,
        looked_at: LookedAt,
        harts: &Harts,
    ) -> Result<Traces, RunError> {
        if options.pipeline.is_some() && options.pipeline_core >= harts.count {
            let what = if harts.share_cores { "hart" } else { "core" };
            return Err(RunError::Description(format!(
                "{what} {} is to be traced, but {} {what}s 0 to {}",
                options.pipeline_core,
                harts.of,
                harts.count - 1
            )));
        }
        let shown = merge(looked_at.shown);
        let timeline = options.timeline.as_deref().map(create).transpose()?;
        let (timeline_file, timeline) = timeline.unzip();
        let timeline = timeline.map(|writer| Timeline::shared(writer, shown.clone()));
        let pipeline = options.pipeline.as_deref().map(create).transpose()?;
        let (pipeline_file, pipeline_writer) = pipeline.unzip();
        let profile_file = options.profile.as_deref().map(create).transpose()?;
        let log = options.log.as_deref().map(LogFile::create).transpose()?;
        Ok(Traces {
            options: options.clone(),
            shown,
            services: merge(looked_at.services),
            timeline,
            timeline_file,
            pipeline_writer,
            pipeline: None,
            pipeline_file,
            profile_file,
            profiles: Vec::new(),
            log,
            harts: 0,
        })
    }

    /// The timeline, if there is one.
    pub fn timeline(&self) -> Option<SharedTimeline<Writer>> {
        self.timeline.clone()
    }

    /// The symbols of the program in the ELF file `elf`, if a trace needs them.
    pub fn program(&self, image: &Image, elf: &[u8]) -> Option<SharedProgram> {
        let says = self.timeline.is_some() || self.options.profile.is_some();
        says.then(|| Program::shared(image, elf))
    }

    /// Traces `machine`, which executes `program`: a data plane, on so many cores with so many harts
    /// of each, or another one. In a rack, `server` is its name; its cores are numbered after those
    /// of earlier servers.
    pub fn watch(
        &mut self,
        server: Option<&str>,
        machine: &Machine,
        program: Option<&SharedProgram>,
        data_plane: Option<(usize, usize)>,
    ) -> Tracer {
        let (clock, cores) = (machine.engine.clock(), machine.engine.cores.len());
        let harts = cores * usize::from(machine.threads());
        let name = |hart: usize| match hart / cores {
            0 => format!("core {hart}"),
            1 => format!("core {}, second hart", hart % cores),
            2 => format!("core {}, third hart", hart % cores),
            thread => format!("core {}, {}th hart", hart % cores, thread + 1),
        };
        let in_cycles = |times: &[Range<Time>]| -> Vec<Range<u64>> {
            let times = times.iter();
            times
                .map(|window| clock.cycle_of(window.start)..clock.cycle_at_or_after(window.end))
                .collect()
        };
        let cycles = in_cycles(&self.shown);
        let mut tracer = Tracer {
            windows: Vec::new(),
            next: 0,
            active: false,
            timelines: Vec::new(),
            halted_cycles: Vec::new(),
            pipeline: None,
            profiles: Vec::new(),
            log: None,
            misses: Vec::new(),
            services: Vec::new(),
            clock,
        };
        if data_plane.is_some() {
            tracer.services = in_cycles(&self.services);
        }
        if !tracer.services.is_empty() {
            tracer.misses = each(harts, |_| Misses::default());
        }
        let first = self.harts;
        self.harts += harts;
        if let (Some(timeline), Some(program)) = (&self.timeline, program) {
            let (data_plane_cores, threads) = data_plane.unwrap_or_default();
            timeline
                .borrow_mut()
                .set_data_plane(data_plane_cores, threads);
            tracer.timelines = each(harts, |hart| {
                let (core, thread) = (hart % cores, hart / cores);
                let serves = core < data_plane_cores && thread < threads;
                CoreTimeline::new(
                    timeline.clone(),
                    clock,
                    server,
                    (&name(hart), serves.then_some(core as u16)),
                    program.clone(),
                )
            });
        }
        tracer.log = self.log.as_ref().map(|file| HartLogs {
            log: file.log.clone(),
            first,
            windows: cycles.clone(),
        });
        let pipeline_hart = self.options.pipeline_core.wrapping_sub(first);
        if pipeline_hart < harts
            && let Some(file) = self.pipeline_writer.take()
        {
            let log = PipelineLog::new(file, cycles.clone(), machine.front_end_cycles());
            let log = Rc::new(RefCell::new(log));
            self.pipeline = Some(log.clone());
            tracer.pipeline = Some((pipeline_hart, log));
        }
        if let (Some(_), Some(program)) = (&self.options.profile, program) {
            tracer.profiles = each(harts, |hart| {
                let name = match server {
                    // The server is a frame of its own, whose name must not contain the separator.
                    Some(server) => format!("{};{}", server.replace(';', ","), name(hart)),
                    None => name(hart),
                };
                Profile::new(&name, program.clone())
            });
            self.profiles.extend_from_slice(&tracer.profiles);
        }
        if !tracer.profiles.is_empty() {
            let always = 0..u64::MAX;
            tracer.windows = vec![always];
            return tracer;
        }
        let has_files =
            !tracer.timelines.is_empty() || tracer.pipeline.is_some() || tracer.log.is_some();
        let shown = cycles.iter().filter(|_| has_files);
        let windows = shown.chain(&tracer.services).map(|window| {
            window.start.saturating_sub(MARGIN_CYCLES)..window.end.saturating_add(MARGIN_CYCLES)
        });
        tracer.windows = merge(windows.collect());
        tracer
    }

    /// Adds the requests that have completed since the last call.
    pub fn requests(&self, ledger: &SharedLedger, setup: &IoSetup) {
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
                core,
                began_at,
            } = record;
            timeline.served(&Request {
                number: item,
                queue,
                arrived_at,
                done_at,
                core,
                began_at,
            });
        }
    }

    /// Completes the files after the end or interruption of the run; all tracers must have
    /// finished.
    pub fn finish(&mut self) -> Vec<TraceReport> {
        let mut reports = Vec::new();
        if let (Some(path), Some(timeline)) = (&self.options.timeline, &self.timeline) {
            let mut timeline = timeline.borrow_mut();
            let written = timeline.finish();
            let written = complete(written, self.timeline_file.take());
            reports.push(report(path, timeline.events(), written));
        }
        if let (Some(path), Some(pipeline)) = (&self.options.pipeline, &self.pipeline) {
            let mut pipeline = pipeline.borrow_mut();
            let written = pipeline.finish();
            let written = complete(written, self.pipeline_file.take());
            reports.push(report(path, pipeline.instructions(), written));
        }
        if let (Some(path), Some((file, mut writer))) =
            (&self.options.profile, self.profile_file.take())
        {
            let profiles: Vec<_> = self.profiles.iter().map(|one| one.borrow()).collect();
            let text = trace::folded(profiles.iter().map(|profile| &**profile));
            let cycles = profiles.iter().map(|profile| profile.total()).sum();
            let written = writer.write_all(text.as_bytes());
            let written = complete(written.and_then(|()| writer.flush()), Some(file));
            reports.push(report(path, cycles, written));
        }
        reports.extend(self.log.take().map(LogFile::finish));
        reports
    }
}

/// The file of a log of commits.
pub(crate) struct LogFile {
    path: PathBuf,
    file: OutputFile,
    /// What writes it.
    pub log: SharedLog<Writer>,
}

impl LogFile {
    /// An empty one.
    pub fn create(path: &Path) -> Result<LogFile, RunError> {
        let (file, writer) = create(path)?;
        Ok(LogFile {
            path: path.to_path_buf(),
            file,
            log: CommitLog::shared(writer),
        })
    }

    /// Completes the file.
    pub fn finish(self) -> TraceReport {
        let mut log = self.log.borrow_mut();
        let written = complete(log.finish(), Some(self.file));
        report(&self.path, log.lines(), written)
    }
}

/// The logs of a machine's harts.
struct HartLogs {
    log: SharedLog<Writer>,
    /// The number of the machine's first hart in the log.
    first: usize,
    windows: Vec<Range<u64>>,
}

/// Attaches the probes of traces to a machine, and removes them.
pub(crate) struct Tracer {
    /// The times with probes, in cycles; ordered and disjoint.
    windows: Vec<Range<u64>>,
    /// The next or the current window.
    next: usize,
    /// Whether the probes are attached.
    active: bool,
    /// By hart.
    timelines: Vec<Rc<RefCell<CoreTimeline<Writer>>>>,
    /// The halted cycles of each of these harts when the probes were attached.
    halted_cycles: Vec<u64>,
    /// With its hart.
    pipeline: Option<(usize, Rc<RefCell<PipelineLog<Writer>>>)>,
    /// By hart.
    profiles: Vec<Rc<RefCell<Profile>>>,
    log: Option<HartLogs>,
    /// By hart, if misses are looked at in some cycles, which are ordered and disjoint.
    misses: Vec<Rc<RefCell<Misses>>>,
    services: Vec<Range<u64>>,
    clock: Clock,
}

impl Tracer {
    /// The misses of the cores, if they have been looked at.
    pub fn misses(&self) -> Option<CoreMisses<'_>> {
        let of_cores = self.misses.iter();
        let of_cores: Vec<_> = of_cores.map(|one| one.borrow().all().to_vec()).collect();
        (!of_cores.is_empty()).then_some(CoreMisses {
            seen: &self.services,
            of_cores,
            clock: self.clock,
        })
    }

    /// Whether there is anything to trace.
    pub fn is_wanted(&self) -> bool {
        !self.windows.is_empty()
    }

    /// Attaches or removes probes, and lets the machine run until cycle `limit`; must be called
    /// before each step of the engine.
    pub fn prepare(&mut self, machine: &mut Machine, limit: u64) {
        if self.next == self.windows.len() {
            machine.engine.set_pause(limit);
            return;
        }
        let harts = machine.engine.cores.len() * usize::from(machine.threads());
        loop {
            let engine = &mut machine.engine;
            let now = engine.now();
            let pause = match self.windows.get(self.next) {
                None => u64::MAX,
                Some(window) if self.active => window.end,
                Some(window) => window.start,
            };
            engine.set_pause(pause.min(limit));
            // A server without remaining events never reaches a pause.
            if now < pause || pause == u64::MAX {
                return;
            }
            if self.active {
                machine.remove_probes(pause);
                self.probes_go(machine, pause);
                self.next += 1;
            } else {
                engine.catch_up(pause);
                for hart in 0..harts {
                    machine.set_probe(hart, self.probe(hart));
                }
                self.probes_come(machine, pause);
            }
            self.active = !self.active;
        }
    }

    /// The halted cycles of each hart with a timeline by the cycle `now`.
    fn halted_cycles(&self, machine: &Machine, now: u64) -> Vec<u64> {
        let cores = &machine.engine.cores;
        let harts = 0..self.timelines.len();
        let of = |hart: usize| {
            let thread = (hart / cores.len()) as u8;
            let statistics = cores[hart % cores.len()].hart_statistics(thread, now);
            statistics.halted_cycles
        };
        harts.map(of).collect()
    }

    fn probes_come(&mut self, machine: &Machine, now: u64) {
        for part in &self.timelines {
            part.borrow_mut().come(now);
        }
        self.halted_cycles = self.halted_cycles(machine, now);
    }

    fn probes_go(&self, machine: &Machine, now: u64) {
        let halted_cycles = self.halted_cycles(machine, now);
        let since = halted_cycles.iter().zip(&self.halted_cycles);
        for (part, (after, before)) in self.timelines.iter().zip(since) {
            part.borrow_mut().go(now, after.saturating_sub(*before));
        }
    }

    fn probe(&self, hart: usize) -> Box<dyn Probe> {
        let mut probes: Vec<Box<dyn Probe>> = Vec::new();
        if let Some(timeline) = self.timelines.get(hart) {
            probes.push(Box::new(timeline.clone()));
        }
        if let Some((of, pipeline)) = &self.pipeline
            && hart == *of
        {
            probes.push(Box::new(pipeline.clone()));
        }
        if let Some(profile) = self.profiles.get(hart) {
            probes.push(Box::new(profile.clone()));
        }
        if let Some(misses) = self.misses.get(hart) {
            probes.push(Box::new(misses.clone()));
        }
        if let Some(HartLogs {
            log,
            first,
            windows,
        }) = &self.log
        {
            let log = HartLog::new(log.clone(), first + hart, windows.clone());
            probes.push(Box::new(log));
        }
        Box::new(Several(probes))
    }

    /// Ends the traces at the end or interruption of the run.
    pub fn finish(&mut self, machine: &mut Machine) {
        let end = machine.end();
        if self.active {
            machine.remove_probes(end);
            self.probes_go(machine, end);
        }
        let engine = &mut machine.engine;
        for part in &self.timelines {
            part.borrow_mut().close(engine.clock().time(end));
        }
        let cores = engine.cores.len();
        for (hart, profile) in self.profiles.iter().enumerate() {
            let (core, thread) = (&engine.cores[hart % cores], (hart / cores) as u8);
            let halted_cycles = core.hart_statistics(thread, end).halted_cycles;
            profile
                .borrow_mut()
                .finish(core.pc(thread), end, halted_cycles);
        }
    }
}

fn each<T>(harts: usize, make: impl Fn(usize) -> T) -> Vec<Rc<RefCell<T>>> {
    (0..harts)
        .map(|hart| Rc::new(RefCell::new(make(hart))))
        .collect()
}

/// Renames a complete file to its final name.
fn complete(written: io::Result<()>, file: Option<OutputFile>) -> io::Result<()> {
    written?;
    file.map_or(Ok(()), OutputFile::finish)
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
