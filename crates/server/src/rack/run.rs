//! A run of a rack: a description and programs in, measurements out.

use super::flows::{Flows, Member, Role};
use super::watchdog::Watchdog;
use super::{Rack, RackAdvance, RackClientSpec, RackDescription, RackServer, RackServerSpec};
use crate::checkpoint::{Kind, Resumable, Saver, Subject};
use crate::error::RunError;
use crate::hardware::{Hardware, SystemResults};
use crate::host::{HostClock, HostCost};
use crate::limits::{Guard, Spent};
use crate::machine::Machine;
use crate::meter::Meter;
use crate::plan::{Plan, program_doorbells};
use crate::preparation::Preparation;
use crate::program::{load_bare_metal, said};
use crate::run::Options;
use crate::schema;
use crate::totals::{CoreResult, EnergyResult, Totals};
use crate::traces::{Harts, TraceReport, Traces, run_traced};
use energy::Energy;
use fabric::{Fabric, FabricStatistics, Time};
use network::rack::{LinkCounts, Network, NodeId, PortCounts, Switch};
use network::{LoadGenerator, LoadGeneratorReport};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Range;
use system::Setting;
use workload::{Files, KindMeasurement, Measurement, Recorder};

/// The address of the first server.
const FIRST_ADDRESS: u32 = u32::from_be_bytes([10, 0, 0, 1]);
/// Between two looks at whether all is done: the run ends at a multiple of it.
const LOOK_EVERY: Time = Time::from_fs(1_000_000_000);

/// What came out of a run of a rack.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RackResult {
    /// The servers.
    pub servers: Vec<RackServerResult>,
    /// The clients.
    pub clients: Vec<RackClientResult>,
    /// What all clients have measured together: each of their measured requests counts once, and
    /// their throughputs add up. `None` if there was no response.
    pub measurement: Option<Measurement>,
    /// Throughput and latencies of the requests of each kind, by its name, of all clients together.
    pub by_kind: BTreeMap<String, KindMeasurement>,
    /// The switch; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<SwitchResult>,
    /// Instructions of all servers.
    pub instructions: u64,
    /// Simulated time.
    pub simulated_seconds: f64,
    /// What it has cost the host.
    #[serde(flatten)]
    pub host: HostCost,
    /// Version of the simulator.
    pub version: &'static str,
    /// What has become of the traces that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<TraceReport>,
}

/// A server's part of the results.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RackServerResult {
    /// The name of the server.
    pub name: String,
    /// The server's IPv4 address.
    pub address: Ipv4Addr,
    /// The exit status of the program; `None` if it still runs.
    pub exit_status: Option<u64>,
    /// What the program has written.
    pub output: String,
    /// What the network interface has counted.
    #[schemars(schema_with = "schema::interface")]
    pub interface: Value,
    /// Packets that its systems have dropped.
    #[serde(skip)]
    dropped_packets: u64,
    /// What the systems beside its interface have counted, each under its key.
    #[serde(flatten)]
    #[schemars(schema_with = "schema::systems_beside_interfaces")]
    pub systems: SystemResults,
    /// What the link has carried from the server.
    pub sent: LinkCounts,
    /// What the link has carried to the server.
    pub received: LinkCounts,
    /// The cores.
    pub cores: Vec<CoreResult>,
    /// Instructions of all cores of the server.
    pub instructions: u64,
    /// Cycles of the server's clock.
    pub cycles: u64,
    /// What the fabric has counted.
    pub fabric: FabricStatistics,
    /// What the cores, and what they share, have cost since the first client began, in nanojoules;
    /// for each response, too, if no other server serves.
    pub energy_nj: EnergyResult,
    /// The mean power in the time of `energy_nj`, in watts.
    #[schemars(with = "schema::ServerEnergy")]
    pub power_w: Energy,
}

/// A client's part of the results.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RackClientResult {
    /// The name of the client.
    pub name: String,
    /// The client's IPv4 address.
    pub address: Ipv4Addr,
    /// What it has measured and counted.
    #[serde(flatten)]
    pub report: LoadGeneratorReport,
    /// What the link has carried from the client.
    pub sent: LinkCounts,
    /// What the link has carried to the client.
    pub received: LinkCounts,
}

/// Why the servers do not serve all that they are offered, a sentence each.
fn overload(description: &RackDescription, result: &RackResult) -> Vec<String> {
    let name = |name: &str, many: usize, sentence: &str| match many {
        1 => sentence.to_string(),
        _ => format!("{name}: {sentence}"),
    };
    let mut reasons = Vec::new();
    for client in &result.clients {
        let mut tell = |sentence: &str| {
            reasons.push(name(&client.name, result.clients.len(), sentence));
        };
        match &client.report.measurement {
            Some(measurement) => measurement.overload.iter().for_each(|one| tell(one)),
            None => tell("no request was answered"),
        }
    }
    let packets = |count: u64, by: &str| match count {
        0 => None,
        1 => Some(format!("1 packet was {by}")),
        _ => Some(format!("{count} packets were {by}")),
    };
    for server in &result.servers {
        let dropped = server.dropped_packets;
        let sentence = packets(dropped, "dropped by the network interface");
        reasons.extend(sentence.map(|text| name(&server.name, result.servers.len(), &text)));
    }
    // A transport sends again what gets lost; datagrams are gone.
    let is_datagram = |client: &RackClientSpec| {
        client.load.transport.protocol == network::transport::Protocol::Datagrams
    };
    if description.rack.clients.iter().any(is_datagram) {
        let ports = result.switch.iter().flat_map(|switch| &switch.ports);
        let dropped = ports.map(|port| port.dropped).sum();
        reasons.extend(packets(dropped, "dropped by the switch"));
        let clients = result.clients.iter();
        let links = clients.map(|client| (client.sent, client.received));
        let servers = result.servers.iter();
        let links = links.chain(servers.map(|server| (server.sent, server.received)));
        let lost = links.map(|(sent, received)| sent.lost + received.lost);
        let lost = match result.switch.is_some() {
            true => lost.sum::<u64>(),
            // Both ends of the only link tell of it.
            false => lost.sum::<u64>() / 2,
        };
        reasons.extend(packets(lost, "lost on the links"));
    }
    reasons
}

/// The switch's part of the results.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SwitchResult {
    /// By port, in the order of the servers and then of the clients.
    pub ports: Vec<PortCounts>,
    /// Packets to addresses that nobody has; they were dropped.
    pub unroutable: u64,
}

/// How a server of the rack is built.
fn plan<'a>(description: &'a RackDescription, spec: &'a RackServerSpec) -> Plan<'a> {
    let memory = match spec.systems.is_empty() {
        true => Vec::new(),
        false => vec![program_doorbells()],
    };
    Plan {
        server: &spec.server,
        simulator: &description.simulator,
        wanted: spec.wanted(),
        setting: Setting::Rack,
        doorbells: program_doorbells(),
        memory,
        is_live: false,
    }
}

/// A rack, ready to run.
struct Prepared<'a> {
    rack: Rack,
    /// By server.
    specs: Vec<&'a RackServerSpec>,
    hardware: Vec<Hardware>,
    wires: Wires,
    saver: Saver,
    traces: Traces,
    flows: Option<Flows>,
    /// Instructions that a checkpoint has brought.
    brought: u64,
    /// When the first client begins.
    begin: Time,
}

/// What reads the energy of a server.
fn meter<'a>(spec: &'a RackServerSpec, hardware: &'a Hardware) -> Meter<'a> {
    Meter {
        server: &spec.server,
        shown: usize::MAX,
        hardware,
    }
}

/// Where everybody is in the network.
struct Wires {
    servers: Vec<NodeId>,
    /// With their names.
    clients: Vec<(NodeId, String)>,
    switch: Option<NodeId>,
}

impl Wires {
    fn hosts(&self) -> impl Iterator<Item = NodeId> {
        let clients = self.clients.iter().map(|&(id, _)| id);
        self.servers.iter().copied().chain(clients)
    }

    /// Who is who, by the numbers in the network.
    fn members(&self, rack: &Rack) -> Vec<Member> {
        let member = |name: &str, role| Member {
            name: name.to_string(),
            role,
        };
        let servers = rack.servers.iter().zip(&self.servers);
        let servers = servers.map(|(server, &id)| (id, member(&server.name, Role::Server)));
        let clients = self.clients.iter();
        let clients = clients.map(|(id, name)| (*id, member(name, Role::Client)));
        let switch = self.switch.map(|id| (id, member("switch", Role::Switch)));
        let mut members: Vec<(NodeId, Member)> = servers.chain(clients).chain(switch).collect();
        members.sort_by_key(|(id, _)| *id);
        members.into_iter().map(|(_, member)| member).collect()
    }

    /// What the link of a host has carried from it, and to it.
    fn counts(&self, network: &Network, host: usize) -> (LinkCounts, LinkCounts) {
        let id = |host| self.hosts().nth(host).unwrap_or(NodeId(0));
        let towards = match self.switch {
            Some(switch) => network.link_counts(switch, host),
            None => network.link_counts(id(1 - host.min(1)), 0),
        };
        (network.link_counts(id(host), 0), towards)
    }
}

fn address_of(host: usize) -> u32 {
    FIRST_ADDRESS + host as u32
}

/// One of several that are alike, or the only one.
fn name_of(name: &str, count: u32, number: u32) -> String {
    match count {
        1 => name.to_string(),
        _ => format!("{name} {number}"),
    }
}

/// The network of a rack, with places for its servers.
fn wire_up(description: &RackDescription, files: &Files) -> Result<(Network, Wires), RunError> {
    let spec = &description.rack;
    let measure = &description.measure;
    let mut network = Network::new(measure.seed);
    let hosts = spec.hosts();
    let servers: Vec<NodeId> = (0..spec.servers()).map(|_| network.add_server()).collect();
    let mut clients = Vec::new();
    for (place, client) in spec.clients.iter().enumerate() {
        let addresses: Vec<u32> = spec
            .servers_of(client)
            .into_iter()
            .map(address_of)
            .collect();
        for number in 0..client.count {
            let host = servers.len() + clients.len();
            let name = name_of(&client.name, client.count, number);
            // Far apart, as those of links.
            let seed = measure.seed.wrapping_add((host as u64) << 32);
            let recorder = Recorder::new(measure.requests, measure.warmup)
                .with_precision(measure.precision, None);
            let load_generator = LoadGenerator::new(
                name.clone(),
                client.load.clone(),
                (address_of(host), spec.link.rate()),
                addresses.clone(),
                recorder,
                seed,
                files,
            );
            let load_generator = load_generator.map_err(|sentence| {
                RunError::Description(format!("rack.clients.{place}: {sentence}"))
            })?;
            let id = network.add_node(Box::new(load_generator));
            network.wake(id, Time::from_ns(client.begin_ns), LoadGenerator::BEGIN);
            clients.push((id, name));
        }
    }
    let switch = spec.switch.as_ref().map(|switch| {
        let routes = (0..hosts).map(|port| (address_of(port), port));
        let switch = Switch::new(switch, "the switch".to_string(), hosts, routes.collect());
        network.add_node(Box::new(switch))
    });
    let wires = Wires {
        servers,
        clients,
        switch,
    };
    let ids: Vec<NodeId> = wires.hosts().collect();
    match (switch, &*ids) {
        (Some(switch), _) => {
            for &id in &ids {
                network.connect(switch, id, &spec.link);
            }
        }
        (None, &[one, other]) => {
            network.connect(one, other, &spec.link);
        }
        (None, _) => {}
    }
    Ok((network, wires))
}

/// Builds the rack of a description, and puts a checkpoint into it if one is given. `programs`: an
/// ELF file for each entry of `rack.servers`. Traces show what happens in the times of `shown`.
fn prepare<'a>(
    description: &'a RackDescription,
    programs: &[Vec<u8>],
    options: &Options,
    shown: Vec<Range<Time>>,
    guard: &mut Guard<'_>,
) -> Result<Prepared<'a>, RunError> {
    let spec = &description.rack;
    description.check()?;
    if programs.len() != spec.servers.len() {
        return Err(RunError::Program(format!(
            "there are {} programs for the {} entries of rack.servers",
            programs.len(),
            spec.servers.len()
        )));
    }
    let harts = |entry: &RackServerSpec| entry.count as usize * entry.server.harts();
    let harts = Harts {
        count: spec.servers.iter().map(harts).sum(),
        share_cores: spec
            .servers
            .iter()
            .any(|entry| entry.server.core.threads > 1),
        of: "the rack has, server by server,",
    };
    let mut images = Vec::new();
    for (entry, program) in spec.servers.iter().zip(programs) {
        images.push(load_bare_metal(program).map_err(|error| error.of(&entry.name))?);
    }
    let subject = Subject::new(Kind::Rack, description, &images, &options.files)?;
    let saver = Saver::new(&options.checkpoint, subject, false)?;
    let mut traces = Traces::new(&options.trace, shown, &harts)?;
    let (network, wires) = wire_up(description, &options.files)?;
    let (mut servers, mut specs, mut hardware) = (Vec::new(), Vec::new(), Vec::new());
    for (entry, (image, program)) in spec.servers.iter().zip(images.iter().zip(programs)) {
        let told = |error: RunError| error.of(&entry.name);
        let plan = plan(description, entry);
        // A checkpoint has what was prepared.
        let preparation = match options.checkpoint.from {
            Some(_) => None,
            None => Preparation::kept(plan.untimed(), image, None, guard).map_err(told)?,
        };
        let traced = traces.program(image, program);
        for number in 0..entry.count {
            let host = servers.len();
            // Far apart, as those of clients.
            let seed = description.measure.seed.wrapping_add((host as u64) << 32);
            let link = (address_of(host), spec.link.rate());
            let nothing = |_: &mut Fabric, _: &Hardware| Ok(());
            let (image, preparation) = (image.clone(), preparation.as_deref());
            let place = (seed, Some(link));
            let built = plan.build(image, preparation, guard, place, None, nothing);
            let (machine, systems, ()) = built.map_err(told)?;
            let name = name_of(&entry.name, entry.count, number);
            let tracer = traces.watch(Some(&name), &machine, traced.as_ref());
            let Some(wire) = systems.wire() else {
                return Err(RunError::Description("it has no link".to_string()).of(&name));
            };
            let mut server = RackServer::new(name, machine, wire, wires.servers[host]);
            server.tracer = tracer.is_wanted().then_some(tracer);
            server.connect(address_of(host), spec.link.rate())?;
            servers.push(server);
            specs.push(entry);
            hardware.push(systems);
        }
    }
    let mut rack = Rack::new(servers, network, description.simulator.lookahead_cycles)?;
    saver.restore(&options.checkpoint, &mut rack)?;
    let mut flows = None;
    if let Some(timeline) = traces.timeline() {
        rack.keep_records()?;
        let hosts = wires.hosts().enumerate();
        let hosts = hosts.map(|(host, id)| (address_of(host), id)).collect();
        flows = Some(Flows::new(timeline, wires.members(&rack), hosts));
    }
    let brought = rack
        .servers
        .iter()
        .map(|server| server.machine.instructions());
    let begins = spec.clients.iter().map(|client| client.begin_ns);
    Ok(Prepared {
        brought: brought.sum(),
        rack,
        specs,
        hardware,
        wires,
        saver,
        traces,
        flows,
        begin: Time::from_ns(begins.fold(f64::INFINITY, f64::min).min(1e9)),
    })
}

impl Prepared<'_> {
    /// Packets that have been sent so far.
    fn packets(&self) -> u64 {
        let counts = |id| self.rack.network.link_counts(id, 0).packets;
        self.wires.hosts().map(counts).sum()
    }

    /// Requests that have been answered so far.
    fn responses(&mut self) -> u64 {
        let mut responses = 0;
        for (id, _) in &self.wires.clients {
            let client = self.rack.network.node_mut::<LoadGenerator>(*id);
            responses += client.map_or(0, |client| client.responses());
        }
        responses
    }

    /// Advances by one window, and saves the checkpoint that was asked for when it is time to.
    fn advance(&mut self) -> Result<RackAdvance, RunError> {
        let advance = self.rack.advance()?;
        if self.saver.is_waiting() {
            let responses = self.responses();
            self.saver.look(&mut self.rack, responses)?;
        }
        Ok(advance)
    }

    /// What all servers together have taken of the host, each `of` its own.
    fn spent(&mut self, of: impl Fn(&mut Machine) -> Spent) -> Spent {
        let servers = self.rack.servers.iter_mut();
        let spent = servers.map(|server| of(&mut server.machine));
        spent.fold(Spent::default(), Spent::and)
    }

    /// Shows the way of requests that are over.
    fn show_flows(&mut self) -> Result<(), RunError> {
        if let Some(flows) = &mut self.flows {
            let mut records = Vec::new();
            self.rack.take_records(&mut records)?;
            flows.take(&mut records);
        }
        Ok(())
    }

    /// The run is over, or has been cut off: completes the traces.
    fn finish_traces(&mut self) -> Vec<TraceReport> {
        // What led to the end is told already.
        let _ = self.show_flows();
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

    /// Whether the interfaces have been used as they can be.
    fn check_interfaces(&mut self) -> Result<(), RunError> {
        for (server, hardware) in self.rack.servers.iter_mut().zip(&self.hardware) {
            let fabric = &mut server.machine.engine.fabric;
            if let Some(error) = fabric.errors().first() {
                let sentence = format!("a device fails: {error}");
                return Err(RunError::Guest(sentence).of(&server.name));
            }
            if let Some(fault) = hardware.fault(fabric) {
                return Err(RunError::Guest(fault).of(&server.name));
            }
        }
        Ok(())
    }

    /// The part that is done; 1 when all servers that are waited for have exited, and all clients
    /// have measured.
    fn done(&mut self) -> Result<f64, RunError> {
        let mut least: f64 = 1.0;
        for (server, spec) in self.rack.servers.iter_mut().zip(&self.specs) {
            match server.machine.exit() {
                Some((_, status)) if status != 0 => {
                    let said = said(&server.machine.output());
                    let sentence = format!("the program ended with status {status}{said}");
                    return Err(RunError::Guest(sentence).of(&server.name));
                }
                None if !spec.serves => least = 0.0,
                _ => {}
            }
        }
        for (id, _) in &self.wires.clients {
            if let Some(client) = self.rack.network.node_mut::<LoadGenerator>(*id) {
                least = least.min(client.progress());
            }
        }
        Ok(least)
    }

    /// Reads what each server has counted until now: the rack pauses at `at`.
    fn read_energy(&mut self, at: Time) {
        let parts = self.specs.iter().zip(&self.hardware);
        for (server, (spec, hardware)) in self.rack.servers.iter_mut().zip(parts) {
            if !server.has_ended {
                let machine = &mut server.machine;
                let cycle = machine.engine.clock().cycle_of(at);
                machine.engine.settle(cycle);
                machine.first_reading = Some(meter(spec, hardware).read(machine, cycle, 0));
                server.next = server.next_time();
            }
        }
    }

    /// The rack will never be done, as `summary` says: what has become of the clients' requests,
    /// which programs have ended, what was dropped, and who waits for what.
    fn stuck(&mut self, summary: &str) -> RunError {
        let mut text = summary.to_string();
        for (id, _) in &self.wires.clients {
            if let Some(client) = self.rack.network.node::<LoadGenerator>(*id) {
                text += &format!("\n{}", client.describe());
            }
        }
        for (host, (server, hardware)) in
            self.rack.servers.iter_mut().zip(&self.hardware).enumerate()
        {
            let name = &server.name;
            if let Some((_, status)) = server.machine.exit() {
                text += &format!("\n{name}: the program has ended with status {status}");
            }
            let fabric = &mut server.machine.engine.fabric;
            let dropped = hardware.dropped_packets(fabric);
            let (_, received) = self.wires.counts(&self.rack.network, host);
            if dropped > 0 {
                text += &format!(
                    "\n{name}: its interface has dropped {dropped} of {} packets that came",
                    received.packets - received.lost
                );
            }
        }
        RunError::Deadlock(self.rack.describe_waiting(&text))
    }

    /// Advances to `pause`, or until nothing happens any more: whether that is so.
    fn advance_to(&mut self, pause: Time) -> Result<bool, RunError> {
        self.rack.set_pause(pause);
        loop {
            match self.advance() {
                Ok(RackAdvance::Running) => {}
                Ok(RackAdvance::Paused) => return Ok(false),
                Ok(RackAdvance::Idle | RackAdvance::End) => return Ok(true),
                Err(error) => {
                    // What the program did with its interface may be why it crashed.
                    self.check_interfaces()?;
                    return Err(error);
                }
            }
        }
    }

    /// Advances until all is done, or nothing happens any more. The end does not depend on how far
    /// anybody runs ahead, for all that is done before it has been done when it is looked for.
    fn simulate(&mut self, guard: &mut Guard<'_>) -> Result<(), RunError> {
        let mut watchdog = Watchdog::new(self.rack.now(), self.wires.clients.len());
        let mut look_at = Time::ZERO;
        // A checkpoint may have brought what was read.
        let has_read = |server: &RackServer| server.machine.first_reading.is_some();
        let mut has_read = self.wires.clients.is_empty() || self.rack.servers.iter().any(has_read);
        loop {
            let looks = self.rack.now().as_fs() / LOOK_EVERY.as_fs();
            let next = looks.saturating_add(1).saturating_mul(LOOK_EVERY.as_fs());
            // What is left in a cycle that the last pause was in is before it.
            look_at = Time::from_fs(next).max(look_at.saturating_add(LOOK_EVERY));
            if !has_read && self.begin <= look_at {
                has_read = true;
                self.advance_to(self.begin)?;
                self.read_energy(self.begin);
            }
            let is_idle = self.advance_to(look_at)?;
            self.check_interfaces()?;
            self.show_flows()?;
            let done = self.done()?;
            if done >= 1.0 {
                self.rack.set_end(look_at);
                while self.rack.advance()? != RackAdvance::End {}
                self.check_interfaces()?;
                return self.saver.check();
            }
            if is_idle {
                let stop = "the rack has come to a stop: nothing will ever happen again";
                return Err(self.stuck(stop));
            }
            let packets = self.packets();
            let clients = self.wires.clients.iter();
            let clients =
                clients.filter_map(|(id, _)| self.rack.network.node::<LoadGenerator>(*id));
            if let Some(summary) = watchdog.look(look_at, packets, clients) {
                return Err(self.stuck(&summary));
            }
            guard.check(done, self.spent(Machine::spent))?;
        }
    }
}

/// Runs a rack: an ELF file for each entry of `rack.servers`. `progress` is told the part that is
/// done, now and then, and may stop the run by returning false.
pub fn run_rack(
    description: &RackDescription,
    programs: &[Vec<u8>],
    options: &Options,
    mut progress: impl FnMut(f64) -> bool,
) -> Result<RackResult, RunError> {
    let once = |options: &Options, shown, progress: &mut dyn FnMut(f64) -> bool| {
        run_once(description, programs, options, shown, progress)
    };
    run_traced(options, &mut progress, once, |recorders, part| {
        let recorders: Vec<&Recorder> = recorders.iter().collect();
        Recorder::slower_than_together(&recorders, part)
    })
}

/// One run, and what its clients have recorded; its traces show what happens in the times of
/// `shown`.
fn run_once(
    description: &RackDescription,
    programs: &[Vec<u8>],
    options: &Options,
    shown: Vec<Range<Time>>,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<(RackResult, Vec<Recorder>), RunError> {
    let begin = HostClock::start();
    let mut guard = Guard::new(&options.limits, progress);
    let mut prepared = prepare(description, programs, options, shown, &mut guard)?;
    let simulated = prepared.simulate(&mut guard);
    let traces = prepared.finish_traces();
    simulated?;
    guard.check_amount(prepared.spent(Machine::spent_in_all))?;
    let is_alone = prepared.specs.iter().filter(|spec| spec.serves).count() == 1;
    let responses = if is_alone { prepared.responses() } else { 0 };
    let Prepared {
        mut rack,
        specs,
        hardware,
        wires,
        brought,
        ..
    } = prepared;
    let (mut servers, mut host_skipped_cycles) = (Vec::new(), Vec::new());
    let mut simulated_seconds: f64 = 0.0;
    let parts = rack.servers.iter_mut().zip(specs.iter().zip(&hardware));
    for (host, (server, (spec, hardware))) in parts.enumerate() {
        let machine = &mut server.machine;
        let meter = meter(spec, hardware);
        let last = meter.read(machine, machine.end(), responses);
        let first = machine.first_reading.take().unwrap_or_default();
        let totals = Totals::of(machine, &meter, (begin, 0), (&first, &last));
        simulated_seconds = simulated_seconds.max(totals.simulated_seconds);
        host_skipped_cycles.extend(totals.host.host_skipped_cycles);
        let end = machine.engine.time(machine.end());
        let fabric = &mut machine.engine.fabric;
        let dropped_packets = hardware.dropped_packets(fabric);
        let mut systems = hardware.statistics(fabric, end, None);
        let interface = systems.remove(spec.interface.system().key);
        let (sent, received) = wires.counts(&rack.network, host);
        servers.push(RackServerResult {
            name: server.name.clone(),
            address: Ipv4Addr::from(address_of(host)),
            exit_status: machine.exit().map(|(_, status)| status),
            output: machine.output(),
            interface: interface.unwrap_or_default(),
            dropped_packets,
            systems,
            sent,
            received,
            cores: totals.cores,
            instructions: totals.instructions,
            cycles: totals.cycles,
            fabric: totals.fabric,
            energy_nj: totals.energy_nj,
            power_w: totals.power_w,
        });
    }
    let (mut clients, mut recorders, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    for (number, (id, name)) in wires.clients.iter().enumerate() {
        let host = servers.len() + number;
        let (sent, received) = wires.counts(&rack.network, host);
        if let Some(client) = rack.network.node_mut::<LoadGenerator>(*id) {
            recorders.push(client.recorder().clone());
            kinds.push(client.kind_names());
            clients.push(RackClientResult {
                name: name.clone(),
                address: Ipv4Addr::from(address_of(host)),
                report: client.report(),
                sent,
                received,
            });
        }
    }
    let switch = wires.switch.and_then(|id| {
        let switch = rack.network.node_mut::<Switch>(id)?;
        Some(SwitchResult {
            ports: switch.port_counts().collect(),
            unroutable: switch.unroutable(),
        })
    });
    let instructions: u64 = servers.iter().map(|server| server.instructions).sum();
    let all: Vec<&Recorder> = recorders.iter().collect();
    let mut result = RackResult {
        servers,
        clients,
        measurement: Recorder::measurement_together(&all),
        by_kind: Recorder::by_kind_together(&all, |client, kind| {
            kinds[client][usize::from(kind)].clone()
        }),
        switch,
        instructions,
        simulated_seconds,
        host: HostCost {
            host_skipped_cycles,
            ..begin.cost(Some(instructions.saturating_sub(brought)))
        },
        version: crate::VERSION,
        traces,
    };
    let reasons = overload(description, &result);
    if let Some(measurement) = &mut result.measurement {
        measurement.overload.clear();
        measurement.add_overload(reasons);
    }
    Ok((result, recorders))
}
