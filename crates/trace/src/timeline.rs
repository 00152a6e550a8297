//! A timeline for the viewer Perfetto: cores, and requests with their path through queues, cores
//! and tenants.
//!
//! The file is a sequence of packets of Perfetto's `trace.proto` (TrackEvent), so a truncated file
//! can be read up to its end.

use crate::calls::{CallTree, ROOT};
use crate::misses::Miss;
use crate::pipeline_log::place;
use crate::program::SharedProgram;
use fabric::{Clock, Source, Time};
use pipeline::{Executed, Probe};
use prost::Message;
use riscv::Class;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::ops::Range;
use std::rc::Rc;

/// The Perfetto messages that are written, with the fields in use.
mod message {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct TracePacket {
        #[prost(uint64, optional, tag = "8")]
        pub timestamp: Option<u64>,
        #[prost(uint32, tag = "10")]
        pub trusted_packet_sequence_id: u32,
        #[prost(message, optional, tag = "11")]
        pub track_event: Option<TrackEvent>,
        #[prost(message, optional, tag = "60")]
        pub track_descriptor: Option<TrackDescriptor>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct TrackEvent {
        #[prost(message, repeated, tag = "4")]
        pub debug_annotations: Vec<DebugAnnotation>,
        #[prost(enumeration = "Type", tag = "9")]
        pub r#type: i32,
        #[prost(uint64, tag = "11")]
        pub track_uuid: u64,
        #[prost(string, optional, tag = "23")]
        pub name: Option<String>,
        #[prost(fixed64, repeated, packed = "false", tag = "47")]
        pub flow_ids: Vec<u64>,
        #[prost(fixed64, repeated, packed = "false", tag = "48")]
        pub terminating_flow_ids: Vec<u64>,
        #[prost(int64, optional, tag = "30")]
        pub counter_value: Option<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct DebugAnnotation {
        #[prost(string, tag = "10")]
        pub name: String,
        #[prost(double, optional, tag = "5")]
        pub double_value: Option<f64>,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
    pub enum Type {
        Unspecified = 0,
        SliceBegin = 1,
        SliceEnd = 2,
        Instant = 3,
        Counter = 4,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct TrackDescriptor {
        #[prost(uint64, tag = "1")]
        pub uuid: u64,
        #[prost(uint64, optional, tag = "5")]
        pub parent_uuid: Option<u64>,
        #[prost(string, tag = "2")]
        pub name: String,
        #[prost(message, optional, tag = "3")]
        pub process: Option<ProcessDescriptor>,
        #[prost(message, optional, tag = "4")]
        pub thread: Option<ThreadDescriptor>,
        #[prost(message, optional, tag = "8")]
        pub counter: Option<CounterDescriptor>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct CounterDescriptor {}

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ProcessDescriptor {
        #[prost(int32, tag = "1")]
        pub pid: i32,
        #[prost(string, tag = "6")]
        pub process_name: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ThreadDescriptor {
        #[prost(int32, tag = "1")]
        pub pid: i32,
        #[prost(int32, tag = "2")]
        pub tid: i32,
        #[prost(string, tag = "5")]
        pub thread_name: String,
    }
}

use message::{
    CounterDescriptor, DebugAnnotation, ProcessDescriptor, ThreadDescriptor, TracePacket,
    TrackDescriptor, TrackEvent, Type,
};

/// All packets belong to one sequence.
const SEQUENCE: u32 = 1;
/// The field number of packets in `Trace`.
const PACKET_TAG: u32 = 1;

/// Smaller numbers are those of track groups.
const FIRST_TRACK: u64 = 1 << 16;

/// The groups of tracks of a single server.
const CORES: &str = "cores";
const REQUESTS: &str = "requests";

/// The location of a queue's elements.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    /// Address of the first element.
    pub start: u64,
    /// Bytes of each element.
    pub slot_bytes: u64,
    /// Number of elements.
    pub slots: u64,
}

/// A request that has been served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number.
    pub number: u64,
    /// Its queue.
    pub queue: u32,
    /// Its arrival time in the queue.
    pub arrived_at: Time,
    /// The time at which its tenant was notified of its completion.
    pub done_at: Time,
    /// The core that served it.
    pub core: u16,
    /// The time at which that core began to serve it, if known.
    pub began_at: Option<Time>,
}

/// The arguments of a request by where the lines were: the number of loads that waited for one
/// from there, and the sum of their waits.
const BY_SOURCE: [(Source, &str, &str); 4] = [
    (
        Source::SecondLevel,
        "misses_to_second_level",
        "second_level_waited_ns",
    ),
    (
        Source::LastLevel,
        "misses_to_last_level",
        "last_level_waited_ns",
    ),
    (
        Source::Cache,
        "misses_to_another_cache",
        "another_cache_waited_ns",
    ),
    (Source::Memory, "misses_to_memory", "memory_waited_ns"),
];

/// Counters over the simulated time.
const COUNTERS: [&str; 6] = [
    "requests that wait",
    "queues in which a request waits",
    "requests that cores serve",
    "loads that wait for a line",
    "harts that halt",
    "harts that spin",
];

/// A change of the counted numbers.
#[derive(Clone, Copy, Debug)]
enum Change {
    Waiting { queue: u32, more: i64 },
    Served { core: u16, more: i64 },
    Missing(i64),
    Halted { core: Option<u16>, more: i64 },
}

/// The harts of a core that run a data plane.
#[derive(Clone, Copy, Default)]
struct CoreHarts {
    /// The number that has not halted.
    running: i64,
    /// Number of requests that they serve.
    served: i64,
}

impl CoreHarts {
    /// The number of harts that look for requests. Several requests at a time may be one hart's.
    fn spinning(self) -> i64 {
        (self.running - self.served).max(0)
    }
}

/// The counted numbers at a time.
#[derive(Default)]
struct Counted {
    waiting: i64,
    /// Keyed by queue.
    waiting_in: HashMap<u32, i64>,
    queues: i64,
    served: i64,
    missing: i64,
    halted: i64,
    /// By core.
    cores: Vec<CoreHarts>,
    spinning: i64,
}

impl Counted {
    fn change_core(&mut self, core: u16, change: impl FnOnce(&mut CoreHarts)) {
        if let Some(core) = self.cores.get_mut(usize::from(core)) {
            let before = core.spinning();
            change(core);
            self.spinning += core.spinning() - before;
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Waiting { queue, more } => {
                let of_queue = self.waiting_in.entry(queue).or_default();
                let was_ready = *of_queue > 0;
                *of_queue += more;
                self.queues += i64::from(*of_queue > 0) - i64::from(was_ready);
                self.waiting += more;
            }
            Change::Served { core, more } => {
                self.served += more;
                self.change_core(core, |core| core.served += more);
            }
            Change::Missing(more) => self.missing += more,
            Change::Halted { core, more } => {
                self.halted += more;
                if let Some(core) = core {
                    self.change_core(core, |core| core.running -= more);
                }
            }
        }
    }

    /// In the order of [`COUNTERS`].
    fn values(&self) -> [i64; COUNTERS.len()] {
        [
            self.waiting,
            self.queues,
            self.served,
            self.missing,
            self.halted,
            self.spinning,
        ]
    }
}

/// An event or slice on its own track, which may overlap with others. The viewer merges tracks of
/// one group and name.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The group of the track.
    pub group: &'a str,
    /// The name of the track.
    pub track: &'a str,
    /// Its own name.
    pub name: &'a str,
    /// Its start time.
    pub from: Time,
    /// Its end time; if equal to the start, it is an instant.
    pub until: Time,
    /// The flow that it belongs to.
    pub flow: Option<u64>,
    /// Whether the flow ends here.
    pub is_last: bool,
    /// Its arguments, by name.
    pub notes: &'a [(&'static str, f64)],
}

/// Writes the timeline of a run.
pub struct Timeline<W: Write> {
    out: W,
    /// Ordered and disjoint.
    windows: Vec<Range<Time>>,
    /// The numbers of the groups described so far.
    groups: HashMap<String, i32>,
    threads: i32,
    next_uuid: u64,
    /// The queues' rings, by start address.
    rings: BTreeMap<u64, (u32, Ring)>,
    /// The core that first read each slot's contents, and the time.
    first_read: HashMap<(u32, u64), (Rc<str>, Time)>,
    /// Number of served requests of each queue.
    served: HashMap<u32, u64>,
    /// The changes of the counters.
    changes: Vec<(Time, Change)>,
    /// Number of cores that run a data plane, and of harts on each that do.
    data_plane: (usize, usize),
    /// For each core, the times at which loads that waited for a line received their values, their
    /// waits, and where the lines were.
    misses: HashMap<Rc<str>, Vec<(Time, Time, Source)>>,
    events: u64,
    error: Option<io::Error>,
}

/// A timeline shared by several probes.
pub type SharedTimeline<W> = Rc<RefCell<Timeline<W>>>;

impl<W: Write> Timeline<W> {
    /// A timeline of `windows`, which are ordered and disjoint.
    pub fn shared(out: W, windows: Vec<Range<Time>>) -> SharedTimeline<W> {
        Rc::new(RefCell::new(Timeline {
            out,
            windows,
            groups: HashMap::new(),
            threads: 0,
            next_uuid: FIRST_TRACK,
            rings: BTreeMap::new(),
            first_read: HashMap::new(),
            served: HashMap::new(),
            changes: Vec::new(),
            data_plane: (0, 0),
            misses: HashMap::new(),
            events: 0,
            error: None,
        }))
    }

    /// Number of written events.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Says how many cores, which are the first ones, run a data plane, and how many harts of each.
    pub fn set_data_plane(&mut self, cores: usize, threads: usize) {
        self.data_plane = (cores, threads);
    }

    /// Sets the location of the requests of `queue`.
    pub fn set_ring(&mut self, queue: u32, ring: Ring) {
        self.rings.insert(ring.start, (queue, ring));
    }

    /// Whether the location of any ring is known.
    pub fn has_rings(&self) -> bool {
        !self.rings.is_empty()
    }

    /// Writes the counters in the windows. Only served requests count.
    fn count(&mut self) {
        let mut changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return;
        }
        changes.sort_by_key(|&(at, _)| at);
        let pid = self.group(REQUESTS);
        let tracks = COUNTERS.map(|name| {
            let uuid = self.new_uuid();
            self.describe(TrackDescriptor {
                uuid,
                parent_uuid: Some(pid as u64),
                name: name.to_string(),
                counter: Some(CounterDescriptor {}),
                ..TrackDescriptor::default()
            });
            uuid
        });
        let (cores, threads) = self.data_plane;
        let harts = CoreHarts {
            running: threads as i64,
            served: 0,
        };
        let mut counted = Counted {
            cores: vec![harts; cores],
            spinning: (cores * threads) as i64,
            ..Counted::default()
        };
        let (mut window, mut written) = (None, None);
        for (place, &(at, change)) in changes.iter().enumerate() {
            counted.change(change);
            let is_over = changes.get(place + 1).is_none_or(|&(next, _)| next > at);
            let now = self.window(at);
            if !is_over || now.is_none() {
                continue;
            }
            if std::mem::replace(&mut window, now) != now {
                written = None;
            }
            let values = counted.values();
            for (number, (track, value)) in tracks.into_iter().zip(values).enumerate() {
                let before = written.map(|before: [i64; COUNTERS.len()]| before[number]);
                if before != Some(value) {
                    self.event(
                        at,
                        TrackEvent {
                            r#type: Type::Counter.into(),
                            track_uuid: track,
                            counter_value: Some(value),
                            ..TrackEvent::default()
                        },
                    );
                }
            }
            written = Some(values);
        }
    }

    /// Writes the remaining events.
    pub fn finish(&mut self) -> io::Result<()> {
        self.count();
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn packet(&mut self, packet: &TracePacket) {
        if self.error.is_some() {
            return;
        }
        let mut bytes = Vec::with_capacity(packet.encoded_len() + 8);
        prost::encoding::message::encode(PACKET_TAG, packet, &mut bytes);
        self.error = self.out.write_all(&bytes).err();
    }

    fn describe(&mut self, descriptor: TrackDescriptor) {
        self.packet(&TracePacket {
            trusted_packet_sequence_id: SEQUENCE,
            track_descriptor: Some(descriptor),
            ..TracePacket::default()
        });
    }

    fn new_uuid(&mut self) -> u64 {
        self.next_uuid += 1;
        self.next_uuid
    }

    /// The number of a group of tracks, which the viewer treats as a process.
    fn group(&mut self, name: &str) -> i32 {
        if let Some(&pid) = self.groups.get(name) {
            return pid;
        }
        let pid = self.groups.len() as i32 + 1;
        self.groups.insert(name.to_string(), pid);
        self.describe(TrackDescriptor {
            uuid: pid as u64,
            name: name.to_string(),
            process: Some(ProcessDescriptor {
                pid,
                process_name: name.to_string(),
            }),
            ..TrackDescriptor::default()
        });
        pid
    }

    /// A track for a core, which the viewer treats as a thread.
    fn core_track(&mut self, group: &str, name: &str) -> u64 {
        let (pid, uuid) = (self.group(group), self.new_uuid());
        self.threads += 1;
        self.describe(TrackDescriptor {
            uuid,
            parent_uuid: Some(pid as u64),
            name: name.to_string(),
            thread: Some(ThreadDescriptor {
                pid,
                tid: self.threads,
                thread_name: name.to_string(),
            }),
            ..TrackDescriptor::default()
        });
        uuid
    }

    /// Writes one event or slice.
    pub fn show(&mut self, shown: &Shown<'_>) {
        let (pid, uuid) = (self.group(shown.group), self.new_uuid());
        self.describe(TrackDescriptor {
            uuid,
            parent_uuid: Some(pid as u64),
            name: shown.track.to_string(),
            ..TrackDescriptor::default()
        });
        let is_moment = shown.from == shown.until;
        let (flows, last_flows) = match shown.is_last {
            false => (shown.flow, None),
            true => (None, shown.flow),
        };
        self.event(
            shown.from,
            TrackEvent {
                r#type: match is_moment {
                    true => Type::Instant.into(),
                    false => Type::SliceBegin.into(),
                },
                track_uuid: uuid,
                name: Some(shown.name.to_string()),
                flow_ids: flows.into_iter().collect(),
                terminating_flow_ids: last_flows.into_iter().collect(),
                debug_annotations: shown.notes.iter().map(annotation).collect(),
                counter_value: None,
            },
        );
        if !is_moment {
            self.end(uuid, shown.until);
        }
    }

    fn event(&mut self, at: Time, event: TrackEvent) {
        self.events += 1;
        self.packet(&TracePacket {
            timestamp: Some(at.as_fs() / 1_000_000),
            trusted_packet_sequence_id: SEQUENCE,
            track_event: Some(event),
            ..TracePacket::default()
        });
    }

    fn begin(&mut self, track: u64, at: Time, name: &str) {
        self.event(
            at,
            TrackEvent {
                r#type: Type::SliceBegin.into(),
                track_uuid: track,
                name: Some(name.to_string()),
                ..TrackEvent::default()
            },
        );
    }

    fn end(&mut self, track: u64, at: Time) {
        self.event(
            at,
            TrackEvent {
                r#type: Type::SliceEnd.into(),
                track_uuid: track,
                ..TrackEvent::default()
            },
        );
    }

    /// The window that contains `at`.
    fn window(&self, at: Time) -> Option<usize> {
        let next = self.windows.partition_point(|window| window.end <= at);
        let window = self.windows.get(next)?;
        window.contains(&at).then_some(next)
    }

    /// Whether any part of this interval is in a window.
    pub fn shows(&self, from: Time, until: Time) -> bool {
        self.window(from).is_some() || self.window(until).is_some()
    }

    /// Handles a committed load of the core called `core`.
    fn loaded(&mut self, core: &Rc<str>, address: u64, at: Time) {
        if let Some((_, &(queue, ring))) = self.rings.range(..=address).next_back() {
            let slot = (address - ring.start) / ring.slot_bytes;
            if slot < ring.slots {
                self.first_read
                    .entry((queue, slot))
                    .or_insert_with(|| (core.clone(), at));
            }
        }
    }

    /// Handles a load of the core called `core` that waited for a line from `source`, with its
    /// address.
    fn missed(
        &mut self,
        group: &str,
        core: &Rc<str>,
        (from, until): (Time, Time),
        source: Source,
        address: u64,
    ) {
        if self.window(until).is_none() {
            return;
        }
        let waited = until.saturating_sub(from);
        // Request tracks and counters exist only for a single server.
        if group == CORES {
            self.changes.push((from, Change::Missing(1)));
            self.changes.push((until, Change::Missing(-1)));
            let misses = self.misses.entry(core.clone()).or_default();
            // In the order of their ends: nearly that in which they are told.
            let before = misses.iter().rposition(|&(at, ..)| at <= until);
            let place = before.map_or(0, |place| place + 1);
            misses.insert(place, (until, waited, source));
        }
        self.show(&Shown {
            group,
            track: &format!("misses of {core}"),
            name: place(source),
            from,
            until,
            flow: None,
            is_last: false,
            // Every memory address is exactly representable as a double.
            notes: &[("waited_ns", waited.as_ns()), ("address", address as f64)],
        });
    }

    /// Counts a halt of a hart, which runs a data plane on `core` or something else.
    fn halted(&mut self, core: Option<u16>, from: Time, until: Time) {
        self.changes.push((from, Change::Halted { core, more: 1 }));
        self.changes
            .push((until, Change::Halted { core, more: -1 }));
    }

    /// Handles a served request. Those of one queue must be reported in order.
    pub fn served(&mut self, request: &Request) {
        let Request {
            number,
            queue,
            arrived_at,
            done_at,
            core,
            began_at,
        } = *request;
        let began = began_at.unwrap_or(done_at).max(arrived_at);
        let waits = |more| Change::Waiting { queue, more };
        self.changes.extend([
            (arrived_at, waits(1)),
            (began, waits(-1)),
            (began, Change::Served { core, more: 1 }),
            (done_at.max(began), Change::Served { core, more: -1 }),
        ]);
        let count = self.served.entry(queue).or_default();
        let before = *count;
        *count += 1;
        let ring = self.rings.values().find(|(of, _)| *of == queue);
        let slot = ring.map(|(_, ring)| before % ring.slots);
        let read = slot.and_then(|slot| self.first_read.remove(&(queue, slot)));
        if !self.shows(arrived_at, done_at) {
            return;
        }
        let name = format!("request {number}");
        let ns = |from: Time, until: Time| until.saturating_sub(from).as_ns();
        let mut notes = vec![
            ("latency_ns", ns(arrived_at, done_at)),
            ("queue", queue.into()),
            ("core", core.into()),
        ];
        if let Some(began_at) = began_at {
            notes.push(("waited_ns", ns(arrived_at, began_at)));
            notes.push(("service_ns", ns(began_at, done_at)));
            let of_core: Rc<str> = format!("core {core}").into();
            let misses = self.misses.get(&of_core).map_or(&[][..], Vec::as_slice);
            let start = misses.partition_point(|&(at, ..)| at <= began_at);
            let end = misses.partition_point(|&(at, ..)| at <= done_at);
            let of = |of: Option<Source>| {
                let misses = misses[start..end].iter();
                let misses = misses.filter(|&&(.., source)| of.is_none_or(|of| of == source));
                let waits = misses.map(|&(_, waited, _)| waited);
                waits.fold((0.0, Time::ZERO), |(count, sum), one| {
                    (count + 1.0, sum.saturating_add(one))
                })
            };
            let (count, waited) = of(None);
            notes.push(("misses", count));
            notes.push(("misses_waited_ns", waited.as_ns()));
            for (source, number, waits) in BY_SOURCE {
                let (count, waited) = of(Some(source));
                if count > 0.0 {
                    notes.extend([(number, count), (waits, waited.as_ns())]);
                }
            }
        }
        let mut show = |track: &str, from, until, is_last| {
            self.show(&Shown {
                group: REQUESTS,
                track,
                name: &name,
                from,
                until,
                // Flows are numbered from 1.
                flow: Some(number + 1),
                is_last,
                notes: &notes,
            });
        };
        // A message is not read from a ring.
        let read = read.or_else(|| Some((format!("core {core}").into(), began_at?)));
        let taken_at = read
            .as_ref()
            .map_or(done_at, |&(_, at)| at.max(arrived_at).min(done_at));
        show(&format!("queue {queue}"), arrived_at, taken_at, false);
        if let Some((core, _)) = read {
            show(&format!("requests of {core}"), taken_at, done_at, false);
        }
        show(&format!("tenant {queue}"), done_at, done_at, true);
    }
}

fn annotation(&(name, value): &(&'static str, f64)) -> DebugAnnotation {
    DebugAnnotation {
        name: name.to_string(),
        double_value: Some(value),
    }
}

/// One core's part of a timeline, as a probe: the executed functions, and in them the instructions
/// that may halt it.
pub struct CoreTimeline<W: Write> {
    timeline: SharedTimeline<W>,
    clock: Clock,
    group: String,
    name: Rc<str>,
    /// The core, if the hart runs a data plane.
    data_plane: Option<u16>,
    /// Its track, once described.
    track: Option<u64>,
    tree: CallTree,
    /// The function whose slices are open, and the window that contains it.
    open: usize,
    window: Option<usize>,
    /// The commit time of the last instruction.
    last: Time,
    /// The cycle since which it is attached as a probe, and the halted cycles of completed
    /// instructions since then.
    since: u64,
    halted_cycles: u64,
}

impl<W: Write> CoreTimeline<W> {
    /// The part of the core, or of one of its harts, with this clock and name. `server`
    /// distinguishes several servers; `data_plane` is the core, if the hart runs a data plane.
    pub fn new(
        timeline: SharedTimeline<W>,
        clock: Clock,
        server: Option<&str>,
        (name, data_plane): (&str, Option<u16>),
        program: SharedProgram,
    ) -> CoreTimeline<W> {
        CoreTimeline {
            timeline,
            clock,
            group: server.unwrap_or(CORES).to_string(),
            name: name.into(),
            data_plane,
            track: None,
            tree: CallTree::new(program),
            open: ROOT,
            window: None,
            last: Time::ZERO,
            since: 0,
            halted_cycles: 0,
        }
    }

    /// Attaches it as a probe from the cycle `now` on.
    pub fn come(&mut self, now: u64) {
        (self.since, self.halted_cycles) = (now, 0);
    }

    /// Detaches it. `halted_cycles` are those of the hart since its attachment, the last of them in
    /// an instruction that has not completed.
    pub fn go(&mut self, now: u64, halted_cycles: u64) {
        let cycles = halted_cycles.saturating_sub(self.halted_cycles);
        self.halted(now.saturating_sub(cycles), now);
    }

    /// Counts a halt of the hart from one cycle to another.
    fn halted(&mut self, from: u64, until: u64) {
        if from < until {
            self.halted_cycles += until.saturating_sub(from.max(self.since));
            if self.group == CORES {
                let times = (self.clock.time(from), self.clock.time(until));
                let mut timeline = self.timeline.borrow_mut();
                timeline.halted(self.data_plane, times.0, times.1);
            }
        }
    }

    /// Closes the open slices at the end of the run or of a window.
    pub fn close(&mut self, at: Time) {
        self.go_to(ROOT, at);
        self.window = None;
    }

    /// The number of its track, which it describes if necessary.
    fn track(&mut self) -> u64 {
        let describe = || {
            let mut timeline = self.timeline.borrow_mut();
            timeline.core_track(&self.group, &self.name)
        };
        *self.track.get_or_insert_with(describe)
    }

    fn go_to(&mut self, function: usize, at: Time) {
        let track = self.track();
        let mut timeline = self.timeline.borrow_mut();
        let (common, ends) = self.tree.common(self.open, function);
        for _ in 0..ends {
            timeline.end(track, at);
        }
        for name in self.tree.path(common, function) {
            timeline.begin(track, at, name);
        }
        self.open = function;
    }
}

impl<W: Write> Probe for CoreTimeline<W> {
    fn executed(&mut self, executed: &Executed) {
        if executed.undone {
            return;
        }
        self.halted(executed.ended - executed.halted_cycles, executed.ended);
        let function = self.tree.executed(executed);
        let (now, window, began) = {
            let mut timeline = self.timeline.borrow_mut();
            let now = self.clock.time(executed.ended);
            if let (Class::Load, Some(address)) = (executed.instruction.class, executed.address) {
                timeline.loaded(&self.name, address, now);
                if let Some(Miss {
                    from,
                    until,
                    source,
                }) = Miss::of(executed)
                {
                    let times = (self.clock.time(from), self.clock.time(until));
                    timeline.missed(&self.group, &self.name, times, source, address);
                }
            }
            let began = self.clock.time(executed.dispatched);
            (now, timeline.window(now), began)
        };
        // The time since then was spent on this instruction.
        let since = std::mem::replace(&mut self.last, now);
        if self.window.is_some() && self.window != window {
            self.close(since);
        }
        if window.is_none() {
            return;
        }
        self.window = window;
        if function != self.open {
            self.go_to(function, since);
        }
        if matches!(executed.instruction.class, Class::Custom | Class::System) {
            let track = self.track();
            let mut timeline = self.timeline.borrow_mut();
            let text = executed.text();
            timeline.begin(track, began.max(since), &text);
            timeline.end(track, now);
        }
    }
}
