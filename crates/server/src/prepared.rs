//! Servers and network, ready to run: their construction, run and results. A server alone is a rack
//! of one without a network.

mod course;
mod drain;
mod report;

use crate::checkpoint::{CheckpointOptions, Kind, Resumable, Saver, Subject, When};
use crate::data_plane::DataPlane;
use crate::error::RunError;
use crate::hardware::Hardware;
use crate::host::HostClock;
use crate::hosts::{Common, HostSpec, Place, Runs};
use crate::limits::{Guard, Spent};
use crate::machine::Machine;
use crate::meter::Meter;
use crate::program::said;
use crate::rack::{Flows, Rack, RackAdvance, RackDescription, RackServer, Wires, name_of, wire_up};
use crate::totals::Totals;
use crate::traces::{Harts, LookedAt, TraceOptions, TraceReport, Traces};
use course::Course;
use fabric::Time;
use network::LoadGenerator;
use pipeline::NEVER;
use serde::Serialize;
use std::ops::Range;
use workload::Recorder;

/// Steps of the engine of a server alone between two checks of whether to continue.
const STEPS: u32 = 256;
/// The time between two such checks of a rack, whose run ends at a multiple of it.
const LOOK_EVERY: Time = Time::from_fs(1_000_000_000);

/// The servers and the network to build.
pub(crate) struct Wanted<'a, 'p> {
    pub hosts: Vec<HostSpec<'a>>,
    /// The ELF file of each entry of `hosts`.
    pub programs: Vec<&'p [u8]>,
    /// The rack that connects the hosts, if there are several.
    pub rack: Option<&'a RackDescription>,
    pub common: Common<'a>,
}

/// The state of a server outside the simulation.
struct Host<'a> {
    spec: HostSpec<'a>,
    /// The number of the entry that describes it, in a rack's servers.
    entry: usize,
    hardware: Hardware,
}

impl Host<'_> {
    /// An error of the server, whose name is `name` if there are several.
    fn told(&self, name: &str, error: RunError) -> RunError {
        match self.spec.name {
            Some(_) => error.of(name),
            None => error,
        }
    }

    /// The meter of the cores in the results and of the shared components.
    fn meter(&self) -> Meter<'_> {
        let server = self.spec.server;
        Meter {
            server,
            shown: match (&self.spec.runs, self.spec.name) {
                (Runs::DataPlane(_), None) => server.data_plane_cores,
                _ => usize::MAX,
            },
            hardware: &self.hardware,
        }
    }

    /// Reads the counts of `server` before `cycle`, by which it has delivered `delivered` items.
    fn read(&self, server: &mut RackServer, cycle: u64, delivered: u64) {
        let machine = &mut server.machine;
        machine.engine.settle(cycle);
        machine.first_reading = Some(self.meter().read(machine, cycle, delivered));
        server.refresh();
    }

    /// The totals of a run that `machine` has ended, with `delivered` items. `begin` has the start
    /// of the measurement, and the number of instructions restored from a checkpoint.
    fn totals(&self, machine: &mut Machine, delivered: u64, begin: (HostClock, u64)) -> Totals {
        let meter = self.meter();
        let last = meter.read(machine, machine.end(), delivered);
        let first = machine.first_reading.take().unwrap_or_default();
        Totals::of(machine, &meter, begin, (&first, &last))
    }
}

/// Servers and network, ready to run.
pub(crate) struct Prepared<'a> {
    rack: Rack,
    /// Indexed by server.
    hosts: Vec<Host<'a>>,
    /// The positions of servers in the network, if there is one.
    wires: Option<Wires>,
    saver: Saver,
    traces: Traces,
    flows: Option<Flows>,
    /// Number of instructions restored from a checkpoint.
    brought: u64,
    course: Course,
}

impl<'a> Prepared<'a> {
    /// Builds the `wanted` servers according to the description of `subject`, and restores a
    /// checkpoint if one is given. The run is looked into at the given times.
    pub fn of(
        wanted: Wanted<'a, '_>,
        (kind, description): (Kind, &impl Serialize),
        checkpoint: &CheckpointOptions,
        (trace, looked_at): (&TraceOptions, LookedAt),
        guard: &mut Guard<'_>,
    ) -> Result<Prepared<'a>, RunError> {
        let Wanted {
            hosts: specs,
            programs,
            rack,
            common,
        } = wanted;
        if programs.len() != specs.len() {
            return Err(RunError::Program(format!(
                "there are {} programs for {} servers",
                programs.len(),
                specs.len()
            )));
        }
        let of = |spec: &HostSpec<'_>, error: RunError| match spec.name {
            Some(name) => error.of(name),
            None => error,
        };
        let mut images = Vec::new();
        for (spec, elf) in specs.iter().zip(&programs) {
            images.push(spec.load(elf).map_err(|error| of(spec, error))?);
        }
        let files = common.files;
        let subject = Subject::new(kind, description, &images, files)?;
        let has_warm_start = rack.is_none() && common.measure.warm_start.is_some();
        let saver = Saver::new(checkpoint, subject, has_warm_start)?;
        let mut traces = Traces::new(trace, looked_at, &harts(&specs))?;
        let wired = rack.map(|rack| wire_up(rack, files)).transpose()?;
        let (network, wires) = wired.unzip();
        let (mut servers, mut hosts) = (Vec::new(), Vec::new());
        for (entry, (spec, elf)) in specs.iter().zip(&programs).enumerate() {
            let image = &images[entry];
            let preparation = spec.prepare(image, &common, guard);
            let preparation = preparation.map_err(|error| of(spec, error))?;
            let mut traced = None;
            for number in 0..spec.count {
                let host = servers.len();
                let link = wires.as_ref().zip(rack);
                let place = Place {
                    name: spec
                        .name
                        .map_or_else(String::new, |name| name_of(name, spec.count, number)),
                    // The seeds are far apart, like those of clients.
                    seed: common.measure.seed.wrapping_add((host as u64) << 32),
                    link: link.map(|(wires, rack)| {
                        let address = wires.addresses[host];
                        (address, rack.rack.link.rate(), wires.servers[host])
                    }),
                };
                let preparation = preparation.as_deref();
                let built = spec.build(image, preparation, &common, place, guard);
                let (mut server, hardware) = built.map_err(|error| of(spec, error))?;
                let machine = &server.machine;
                if number == 0 {
                    traced = traces.program(machine.image(), elf);
                }
                let name = spec.name.map(|_| server.name.as_str());
                let harts = (spec.server.data_plane_cores, spec.server.data_plane_threads);
                let data_plane = server.data_plane.as_ref().map(|_| harts);
                let tracer = traces.watch(name, machine, traced.as_ref(), data_plane);
                server.tracer = tracer.is_wanted().then_some(tracer);
                if let Some(data_plane) = &mut server.data_plane {
                    data_plane.explain_slowest(trace.slowest);
                    if trace.timeline.is_some() {
                        data_plane.keep_records();
                    }
                }
                servers.push(server);
                let spec = *spec;
                hosts.push(Host {
                    spec,
                    entry,
                    hardware,
                });
            }
        }
        let lookahead_cycles = common.simulator.lookahead_cycles;
        let mut simulated = match network {
            Some(network) => Rack::new(servers, network, lookahead_cycles)?,
            None => Rack::alone(servers),
        };
        saver.restore(checkpoint, &mut simulated)?;
        let mut flows = None;
        if let (Some(timeline), Some(wires)) = (traces.timeline(), &wires) {
            simulated.keep_records()?;
            let addresses = wires.addresses.iter().copied().zip(wires.hosts()).collect();
            flows = Some(Flows::new(timeline, wires.members(&simulated), addresses));
        }
        let brought = simulated
            .servers
            .iter()
            .map(|one| one.machine.instructions());
        let clients = rack.iter().flat_map(|rack| &rack.rack.clients);
        let begin_ns = clients
            .map(|client| client.begin_ns)
            .fold(f64::INFINITY, f64::min);
        let mut prepared = Prepared {
            brought: brought.sum(),
            rack: simulated,
            hosts,
            wires,
            saver,
            traces,
            flows,
            course: Course::default(),
        };
        prepared.begin_course(Time::from_ns(begin_ns.min(1e9)));
        Ok(prepared)
    }

    /// Ends the run when a checkpoint has been saved.
    pub fn stop_after_checkpoint(&mut self) {
        self.saver.stops = true;
    }

    fn servers(&mut self) -> impl Iterator<Item = (&mut RackServer, &Host<'a>)> {
        self.rack.servers.iter_mut().zip(&self.hosts)
    }

    fn clients(&self) -> impl Iterator<Item = &LoadGenerator> {
        let clients = self.wires.iter().flat_map(|wires| &wires.clients);
        clients.filter_map(|(id, _)| self.rack.network.node::<LoadGenerator>(*id))
    }

    /// Number of packets sent so far.
    fn packets(&self) -> u64 {
        let counts = |id| self.rack.network.link_counts(id, 0).packets;
        let hosts = self.wires.iter().flat_map(Wires::hosts);
        hosts.map(counts).sum()
    }

    /// Number of requests answered so far.
    fn responses(&self) -> u64 {
        let data_planes = self.rack.servers.iter();
        let data_planes = data_planes.filter_map(|server| server.data_plane.as_ref());
        let delivered: u64 = data_planes.map(DataPlane::delivered).sum();
        delivered + self.clients().map(LoadGenerator::responses).sum::<u64>()
    }

    /// The total use of the host by all servers, with `of` giving that of each.
    fn spent(&mut self, of: impl Fn(&mut Machine) -> Spent) -> Spent {
        let servers = self.rack.servers.iter_mut();
        let spent = servers.map(|server| of(&mut server.machine));
        spent.fold(Spent::default(), Spent::and)
    }

    /// Checks that the guests, which have ended, have stayed within their limits.
    pub fn check_amount(&mut self, guard: &Guard<'_>) -> Result<(), RunError> {
        let spent = self.spent(Machine::spent_in_all);
        guard.check_amount(spent)
    }

    /// Adds completed requests to the traces.
    fn show_requests(&mut self) -> Result<(), RunError> {
        for server in &self.rack.servers {
            if let Some(data_plane) = &server.data_plane {
                self.traces.requests(&data_plane.ledger, &data_plane.setup);
            }
        }
        if let Some(flows) = &mut self.flows {
            let mut records = Vec::new();
            self.rack.take_records(&mut records)?;
            flows.take(&mut records);
        }
        Ok(())
    }

    /// Completes the traces after the end or the interruption of a run.
    pub fn finish_traces(&mut self) -> Vec<TraceReport> {
        // The cause of the end has been reported already.
        let _ = self.show_requests();
        if let Some(flows) = &mut self.flows {
            flows.finish();
        }
        for server in &mut self.rack.servers {
            if let Some(tracer) = &mut server.tracer {
                tracer.finish(&mut server.machine);
            }
        }
        self.traces.finish()
    }

    /// Checks that devices and queues have been used correctly.
    fn check(&mut self) -> Result<(), RunError> {
        for (server, host) in self.servers() {
            let fabric = &mut server.machine.engine.fabric;
            let mut checked = Ok(());
            if let Some(error) = fabric.errors().first() {
                checked = Err(RunError::Guest(format!("a device fails: {error}")));
            } else if let Some(fault) = host.hardware.fault(fabric) {
                checked = Err(RunError::Guest(fault));
            } else if let Some(data_plane) = &server.data_plane {
                checked = data_plane.check();
            }
            checked.map_err(|error| host.told(&server.name, error))?;
        }
        match self.clients().find_map(LoadGenerator::wrong) {
            Some(sentence) => Err(RunError::Guest(sentence.to_string())),
            None => Ok(()),
        }
    }

    /// The fraction done; 1 when all awaited programs have exited, and all clients and data planes
    /// have finished measuring. A server alone without a data plane is done when it ends.
    fn done(&mut self) -> Result<f64, RunError> {
        let mut least: f64 = 1.0;
        for (server, host) in self.servers() {
            let of = |error| host.told(&server.name, error);
            let exit = server.machine.exit();
            if let Some(data_plane) = &server.data_plane {
                if server.has_ended {
                    data_plane.check_exit(&mut server.machine).map_err(of)?;
                }
                least = least.min(data_plane.progress());
                continue;
            }
            match (&host.spec.runs, exit) {
                (Runs::Alone(_), _) => least = 0.0,
                (_, Some((_, status))) if status != 0 => {
                    let said = said(&server.machine.output());
                    let sentence = format!("the program ended with status {status}{said}");
                    return Err(of(RunError::Guest(sentence)));
                }
                (_, None) if !host.spec.serves => least = 0.0,
                _ => {}
            }
        }
        let progress = self.clients().map(LoadGenerator::progress);
        Ok(progress.fold(least, f64::min))
    }

    /// Reads the counts of the servers without a data plane up to now: the rack is paused at `at`.
    fn read_energy(&mut self, at: Time) {
        for (server, host) in self.rack.servers.iter_mut().zip(&self.hosts) {
            if !server.has_ended && server.data_plane.is_none() {
                let cycle = server.machine.engine.clock().cycle_of(at);
                host.read(server, cycle, 0);
            }
        }
    }

    /// Starts the measured part of each data plane whose energy must be read now; returns whether
    /// the run ends because a checkpoint of the warm start has been saved.
    fn begin_measuring(&mut self) -> Result<bool, RunError> {
        for number in 0..self.hosts.len() {
            let server = &mut self.rack.servers[number];
            let (Some(due), Some(data_plane)) = (server.reading_due.take(), &server.data_plane)
            else {
                continue;
            };
            let ends_warm_start = data_plane.may_end_warm_start();
            if ends_warm_start && !data_plane.has_settled(&mut server.machine, due) {
                server.refresh();
                continue;
            }
            let delivered = data_plane.delivered();
            if ends_warm_start && self.saver.save_at(&mut self.rack, When::WarmStartEnds)? {
                return Ok(true);
            }
            let server = &mut self.rack.servers[number];
            self.hosts[number].read(server, due, delivered);
            if let Some(data_plane) = server.data_plane.as_ref().filter(|_| ends_warm_start) {
                data_plane.end_warm_start(&mut server.machine, due);
                server.refresh();
            }
        }
        Ok(false)
    }

    /// The error of a run that will never be done, for the reason in `summary`: the state of the
    /// clients' requests, the programs that have ended, the drops, and the waiting units with their
    /// causes.
    fn stuck(&mut self, summary: &str) -> RunError {
        let Some(wires) = &self.wires else {
            let servers = self.rack.servers.iter_mut();
            let waiting = servers.map(|server| server.machine.describe_waiting(summary));
            return RunError::Deadlock(waiting.collect());
        };
        let mut text = summary.to_string();
        for client in self.clients() {
            text += &format!("\n{}", client.describe());
        }
        let servers = self.rack.servers.iter_mut().zip(&self.hosts);
        for (number, (server, host)) in servers.enumerate() {
            let name = &server.name;
            if let Some((_, status)) = server.machine.exit() {
                text += &format!("\n{name}: the program has ended with status {status}");
            }
            let fabric = &mut server.machine.engine.fabric;
            let dropped = host.hardware.dropped_packets(fabric);
            let (_, received) = wires.counts(&self.rack.network, number);
            if dropped > 0 {
                text += &format!(
                    "\n{name}: its interface has dropped {dropped} of {} packets that came",
                    received.packets - received.lost
                );
            }
        }
        RunError::Deadlock(self.rack.describe_waiting(&text))
    }

    /// Advances by a window of the network or, without a network, by at most `steps` steps before
    /// cycle `pause`, and saves the requested checkpoint when it is time to.
    fn advance(&mut self, pause: u64, steps: u32) -> Result<RackAdvance, RunError> {
        let advance = match self.wires {
            Some(_) => self.rack.advance()?,
            None => self.rack.advance_alone(pause, steps)?,
        };
        if self.begin_measuring()? {
            return Ok(RackAdvance::End);
        }
        if self.saver.is_waiting() {
            let responses = self.responses();
            self.saver.look(&mut self.rack, responses)?;
        }
        Ok(advance)
    }

    /// The number of the server of this name; without one, of the server that is alone.
    pub fn server_named(&self, name: Option<&str>) -> Result<usize, RunError> {
        let servers = &self.rack.servers;
        let Some(name) = name else {
            return match servers.as_slice() {
                [_] => Ok(0),
                _ => Err(RunError::Description(format!(
                    "a rack has several servers: say which, as in --gdb {}:3333",
                    servers.first().map_or("server", |server| &server.name)
                ))),
            };
        };
        let place = servers.iter().position(|server| server.name == name);
        place.filter(|_| self.wires.is_some()).ok_or_else(|| {
            let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
            RunError::Description(match self.wires {
                None => format!(
                    "--gdb names the server \"{name}\", and this one is alone: leave the name out"
                ),
                Some(_) => format!(
                    "--gdb names the server \"{name}\"; there are {}",
                    names.join(", ")
                ),
            })
        })
    }

    /// The number of the entry that describes a server, in a rack's servers.
    pub fn entry_of(&self, server: usize) -> Option<usize> {
        self.hosts.get(server).map(|host| host.entry)
    }

    /// A server's machine.
    pub fn machine(&mut self, server: usize) -> Result<&mut Machine, RunError> {
        let server = self.rack.servers.get_mut(server);
        let machine = server.map(|server| &mut server.machine);
        machine.ok_or_else(|| RunError::Description("there is no server".to_string()))
    }

    /// The same, without changing it.
    pub fn machine_seen(&self, server: usize) -> Option<&Machine> {
        self.rack.servers.get(server).map(|server| &server.machine)
    }

    /// Must be called after a server has been changed from outside.
    pub fn refresh(&mut self, server: usize) {
        if let Some(server) = self.rack.servers.get_mut(server) {
            server.refresh();
        }
    }

    /// Whether no event remains unless something is changed from outside.
    pub fn is_idle(&self) -> bool {
        match self.wires {
            Some(_) => self.rack.now() == Time::NEVER,
            None => {
                let mut servers = self.rack.servers.iter();
                servers.all(|server| server.machine.engine.now() == NEVER)
            }
        }
    }

    /// Whether the run may continue, given the guests' use of the host.
    pub fn check_guard(&mut self, guard: &mut Guard<'_>) -> Result<(), RunError> {
        let spent = self.spent(Machine::spent);
        guard.check(0.0, spent)
    }

    /// Advances to `pause`, or until no event remains; without a network, by some steps.
    fn advance_to(&mut self, pause: Time) -> Result<RackAdvance, RunError> {
        self.rack.set_pause(pause);
        // A checkpoint is saved as early as possible.
        let steps = if self.saver.is_waiting() { 1 } else { STEPS };
        let mut rounds = STEPS / steps;
        loop {
            match self.advance(NEVER, steps) {
                Ok(RackAdvance::Running) if self.wires.is_some() => {}
                Ok(RackAdvance::Running) if rounds > 1 => rounds -= 1,
                Ok(other) => return Ok(other),
                Err(error) => {
                    // The program's use of its interface may be the cause of its crash.
                    self.check()?;
                    return Err(error);
                }
            }
        }
    }

    /// The records of requests: by each client, or of each data plane if there are no clients.
    pub fn recorders(&self) -> Vec<Recorder> {
        let clients = self.clients().map(|client| client.recorder().clone());
        let clients: Vec<Recorder> = clients.collect();
        if !clients.is_empty() {
            return clients;
        }
        let servers = self.rack.servers.iter();
        let data_planes = servers.filter_map(|server| server.data_plane.as_ref());
        data_planes
            .map(|data_plane| data_plane.ledger.borrow().recorder().clone())
            .collect()
    }

    /// The times during which cores served the slowest requests of data planes.
    pub fn slowest_services(&self) -> Vec<Range<Time>> {
        let servers = self.rack.servers.iter();
        let data_planes = servers.filter_map(|server| server.data_plane.as_ref());
        data_planes.flat_map(DataPlane::slowest_services).collect()
    }

    /// The only server.
    fn only(&mut self) -> Result<(&mut RackServer, &Host<'a>), RunError> {
        let only = self.rack.servers.first_mut().zip(self.hosts.first());
        only.ok_or_else(|| RunError::Description("there is no server".to_string()))
    }
}

/// The traceable harts.
fn harts(specs: &[HostSpec<'_>]) -> Harts {
    let harts = |spec: &HostSpec<'_>| spec.count as usize * spec.server.harts();
    Harts {
        count: specs.iter().map(harts).sum(),
        share_cores: specs.iter().any(|spec| spec.server.core.threads > 1),
        of: match specs {
            [HostSpec { name: None, .. }] => "the server has",
            _ => "the rack has, server by server,",
        },
    }
}
