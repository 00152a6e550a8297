//! The advance of simulated time in several servers and the network between them.
//!
//! A server's packets arrive no sooner than the latency of the shortest link. In a window of that
//! length, the network runs first, because all earlier packets are known; then each server runs
//! alone, because all its arrivals are known. The result equals that of processing everything in
//! time order, for any shorter window as well.
//!
//! A server without events before the end of a window is not touched.

mod description;
mod flows;
mod watchdog;
mod wires;

pub use description::{RackClientSpec, RackDescription, RackServerSpec, RackSpec};
pub(crate) use flows::Flows;
pub(crate) use watchdog::Watchdog;
pub(crate) use wires::{Wires, name_of, wire_up};

use crate::checkpoint::Resumable;
use crate::data_plane::DataPlane;
use crate::engine::Advance;
use crate::error::RunError;
use crate::machine::Machine;
use crate::traces::Tracer;
use fabric::{AgentId, Time};
use network::packet::Packet;
use network::rack::{Interface, LineRate, Network, NodeId, Record};
use pipeline::NEVER;
use state::{Reader, Writer};
use system::Wire;

/// One of the servers, or the only one, without a network.
#[derive(state::State)]
pub struct RackServer {
    /// Its name in messages.
    #[state(fixed)]
    pub name: String,
    /// The server.
    pub machine: Machine,
    /// Its network interface, and its place in the network, if there is one.
    #[state(fixed)]
    wire: Option<(Wire, NodeId)>,
    /// Number of ports of its interface.
    #[state(fixed)]
    ports: usize,
    /// Its data plane, which is measured in addition to the clients' measurements.
    #[state(fixed)]
    pub(crate) data_plane: Option<DataPlane>,
    /// The device of the counters of its program without a data plane, if any.
    #[state(fixed)]
    pub(crate) counters: Option<AgentId>,
    /// The cycle at which it must pause until its energy has been read.
    #[state(fixed)]
    pub(crate) reading_due: Option<u64>,
    /// The time of its next event.
    pub(crate) next: Time,
    pub(crate) has_ended: bool,
    /// The tracer of the server, if any.
    #[state(fixed)]
    pub(crate) tracer: Option<Tracer>,
}

impl RackServer {
    /// A server with `machine`, whose interface is at `wire`, at `place` of the network.
    pub fn new(name: String, machine: Machine, wire: Wire, place: NodeId) -> RackServer {
        RackServer {
            wire: Some((wire, place)),
            ..RackServer::alone(name, machine, None)
        }
    }

    /// A server with `machine`, without a network.
    pub(crate) fn alone(
        name: String,
        machine: Machine,
        data_plane: Option<DataPlane>,
    ) -> RackServer {
        RackServer {
            name,
            machine,
            wire: None,
            ports: 0,
            data_plane,
            counters: None,
            reading_due: None,
            next: Time::ZERO,
            has_ended: false,
            tracer: None,
        }
    }

    /// Its network interface.
    fn interface(&mut self) -> Result<Option<&mut dyn Interface>, RunError> {
        let Some((wire, _)) = &self.wire else {
            return Ok(None);
        };
        let interface = wire.interface(&mut self.machine.engine.fabric);
        interface.map(Some).ok_or_else(|| {
            RunError::Description("the server has another network interface".to_string())
        })
    }

    /// Sets the address of its interface and the rate of its link.
    pub fn connect(&mut self, address: u32, rate: LineRate) -> Result<(), RunError> {
        if let Some(interface) = self.interface()? {
            interface.connect(address, rate);
            self.ports = interface.ports();
        }
        Ok(())
    }

    /// The time of its next event, which may be its end.
    fn next_time(&self) -> Time {
        let engine = &self.machine.engine;
        match (self.has_ended, self.machine.is_ending()) {
            (true, _) => Time::NEVER,
            (false, true) => engine.next_time().min(engine.time(self.machine.end())),
            (false, false) => engine.next_time(),
        }
    }

    /// Must be called after a change from outside.
    pub(crate) fn refresh(&mut self) {
        self.next = self.next_time();
    }

    fn receive(&mut self, port: u16, at: Time, packet: Packet) -> Result<(), RunError> {
        if self.has_ended {
            return Ok(());
        }
        let Some(token) = self
            .interface()?
            .map(|interface| interface.receive(usize::from(port), at, packet))
        else {
            return Ok(());
        };
        if let Some((wire, _)) = &self.wire {
            let fabric = &mut self.machine.engine.fabric;
            fabric.wake_agent(wire.agent, at, token);
        }
        self.next = self.next.min(at);
        Ok(())
    }

    /// Simulates the events before cycle `pause`, in at most `steps` steps of the engine. It
    /// returns earlier if its energy must be read, or if the host has interrupted the guest.
    fn run(&mut self, pause: u64, steps: u32) -> Result<(), RunError> {
        // Later arrivals may fall within the cycle of `pause`.
        self.machine.engine.set_pause(pause);
        for _ in 0..steps {
            // A server without remaining events never reaches a pause.
            if pause != NEVER && self.machine.engine.now() >= pause {
                break;
            }
            let due = match &self.data_plane {
                Some(data_plane) => data_plane.reading_due(&self.machine),
                None => NEVER,
            };
            match &mut self.tracer {
                Some(tracer) => tracer.prepare(&mut self.machine, pause.min(due)),
                None if self.data_plane.is_some() => self.machine.engine.set_pause(pause.min(due)),
                None => {}
            }
            if due != NEVER && self.machine.engine.now() >= due {
                self.reading_due = Some(due);
                break;
            }
            let is_running = self.machine.advance().or_else(|crash| {
                // An earlier error of the program may be the cause of the crash.
                self.data_plane.as_ref().map_or(Ok(()), DataPlane::check)?;
                Err(crash)
            })?;
            if !is_running {
                self.has_ended = true;
                break;
            }
            if self.wire.is_none() {
                let done_at = self.data_plane.as_ref().and_then(DataPlane::done_at);
                if let Some(at) = done_at {
                    let cycle = self.machine.engine.clock().cycle_at_or_after(at);
                    self.machine.end_after(cycle);
                }
                if self.machine.take_interrupted() {
                    break;
                }
            }
        }
        self.refresh();
        Ok(())
    }

    /// Simulates the events in whole cycles before `end`; of a server with a debugger, those of one
    /// step of its engine, behind which it may be asked to stop. False: some events remain.
    fn run_until(&mut self, end: Time) -> Result<bool, RunError> {
        let pause = self.machine.engine.clock().cycle_of(end);
        let is_debugged = self.machine.engine.is_debugged;
        self.run(pause, if is_debugged { 1 } else { u32::MAX })?;
        if is_debugged && !self.has_ended && self.machine.engine.now() < pause {
            return Ok(false);
        }
        let is_over = self.machine.is_ending() && pause >= self.machine.end();
        if is_over && self.reading_due.is_none() && !self.has_ended {
            self.machine.finish();
            self.has_ended = true;
        }
        self.refresh();
        Ok(true)
    }

    /// Appends the packets that it has sent at a port.
    fn take_sent(&mut self, port: usize, sent: &mut Vec<(Time, Packet)>) -> Result<(), RunError> {
        if let Some(interface) = self.interface()? {
            interface.take_sent(port, sent);
        }
        Ok(())
    }
}

/// Several servers and the network between them.
#[derive(state::State)]
pub struct Rack {
    /// The servers.
    #[state(slice)]
    pub servers: Vec<RackServer>,
    /// The network.
    pub network: Network,
    /// The server at each place of the network.
    #[state(fixed)]
    places: Vec<Option<usize>>,
    #[state(fixed)]
    window: Time,
    /// No event at this time or later is simulated.
    end: Time,
    /// No event at this time or later is simulated before the pause has been moved.
    #[state(fixed)]
    pause: Time,
    /// The time of the next check of whether the run is over, or of the last one. A run that is
    /// restored makes the next one as well, even if nothing happens before it.
    pub(crate) looks_at: Time,
    /// Windows in which a server had events, counted for each server.
    #[state(count)]
    server_windows: u64,
    #[state(fixed)]
    sent: Vec<(Time, Packet)>,
}

/// The reason that [`Rack::advance`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RackAdvance {
    /// Time has advanced.
    Running,
    /// All events in whole cycles before the pause have been handled.
    Paused,
    /// All servers have ended, or the end that was set has been reached.
    End,
    /// No event will ever happen again.
    Idle,
}

impl Rack {
    /// `lookahead_cycles`: the maximum number of the first server's cycles that servers and network
    /// run ahead of each other; 0 selects the largest exact number. It never changes a result.
    pub fn new(
        servers: Vec<RackServer>,
        network: Network,
        lookahead_cycles: u64,
    ) -> Result<Rack, RunError> {
        let clocks = || servers.iter().map(|server| server.machine.engine.clock());
        // An event within a cycle is handled with the next cycle, so two cycles always make
        // progress.
        let least = clocks().map(|clock| clock.time(2)).max();
        let least = least.unwrap_or(Time::ZERO);
        let longest = network.shortest_server_latency();
        if longest < least {
            return Err(RunError::Description(format!(
                "the shortest link takes {longest}; it must take two cycles of the slowest server \
                 at least, which are {least}"
            )));
        }
        let asked = match (lookahead_cycles, clocks().next()) {
            (0, _) | (_, None) => Time::NEVER,
            (cycles, Some(clock)) => clock.time(cycles),
        };
        let mut places = Vec::new();
        for (number, server) in servers.iter().enumerate() {
            if let Some((_, NodeId(place))) = server.wire {
                let place = usize::from(place);
                places.resize(places.len().max(place + 1), None);
                places[place] = Some(number);
            }
        }
        Ok(Rack {
            servers,
            network,
            places,
            window: longest.min(asked).max(least),
            end: Time::NEVER,
            pause: Time::NEVER,
            looks_at: Time::ZERO,
            server_windows: 0,
            sent: Vec::new(),
        })
    }

    /// Servers without a network.
    pub(crate) fn alone(servers: Vec<RackServer>) -> Rack {
        Rack {
            servers,
            network: Network::new(0),
            places: Vec::new(),
            window: Time::NEVER,
            end: Time::NEVER,
            pause: Time::NEVER,
            looks_at: Time::ZERO,
            server_windows: 0,
            sent: Vec::new(),
        }
    }

    /// Advances servers without a network by at most `steps` steps of their engines, to nothing at
    /// cycle `pause` or later.
    pub(crate) fn advance_alone(
        &mut self,
        pause: u64,
        steps: u32,
    ) -> Result<RackAdvance, RunError> {
        for server in &mut self.servers {
            server.run(pause, steps)?;
        }
        let has_ended = self.servers.iter().all(|server| server.has_ended);
        Ok(match has_ended {
            true => RackAdvance::End,
            false => RackAdvance::Running,
        })
    }

    /// Simulates no event at `end` or later; no server may have passed it.
    pub fn set_end(&mut self, end: Time) {
        self.end = self.end.min(end);
        for server in self.servers.iter_mut().filter(|server| !server.has_ended) {
            let cycle = server.machine.engine.clock().cycle_of(end);
            server.machine.end_at(cycle);
            server.next = server.next_time();
        }
    }

    /// Continues after the end, which is returned, with the servers whose programs have not exited.
    pub(crate) fn reopen(&mut self) -> Time {
        for server in &mut self.servers {
            if server.machine.exit().is_none() {
                server.machine.reopen();
                server.has_ended = false;
                server.refresh();
            }
        }
        self.pause = Time::NEVER;
        std::mem::replace(&mut self.end, Time::NEVER)
    }

    /// Simulates no event at `pause` or later until the next call. Changes no result.
    pub fn set_pause(&mut self, pause: Time) {
        self.pause = pause;
    }

    /// Windows in which a server had events, counted for each server: the cost of a rack's
    /// simulation beyond that of its servers' events.
    pub fn server_windows(&self) -> u64 {
        self.server_windows
    }

    /// Advances servers and network by one window.
    pub fn advance(&mut self) -> Result<RackAdvance, RunError> {
        if self.servers.iter().all(|server| server.has_ended) {
            return Ok(RackAdvance::End);
        }
        let now = self.now();
        if now == Time::NEVER {
            return Ok(self.look_at_idle());
        }
        if now >= self.end {
            for server in self.servers.iter_mut().filter(|server| !server.has_ended) {
                server.machine.finish();
                server.has_ended = true;
            }
            return Ok(RackAdvance::End);
        }
        if now >= self.pause {
            return Ok(RackAdvance::Paused);
        }
        let end = now.saturating_add(self.window);
        let end = end.min(self.end).min(self.pause);
        self.network.run_until(end);
        for (at, (place, port), packet) in self.network.take_arrived() {
            if let Some(Some(server)) = self.places.get(usize::from(place.0)) {
                self.servers[*server].receive(port, at, packet)?;
            }
        }
        let mut is_whole = true;
        for server in &mut self.servers {
            // An event in the cycle of the end waits for the next window.
            if server.next >= end {
                continue;
            }
            self.server_windows += 1;
            // The next window begins with what a server leaves, so it does not reach further than
            // answers to that.
            is_whole &= server
                .run_until(end)
                .map_err(|error| error.of(&server.name))?;
            if let Some((_, place)) = server.wire {
                for port in 0..server.ports {
                    server.take_sent(port, &mut self.sent)?;
                    for (at, packet) in self.sent.drain(..) {
                        self.network.enter((place, port), at, packet);
                    }
                }
            }
        }
        // The remaining events are in the cycle of the pause.
        Ok(match is_whole && end == self.pause {
            true => RackAdvance::Paused,
            false => RackAdvance::Running,
        })
    }

    /// Wakes idle servers whose cores may have received deliveries which wake no hart.
    #[cold]
    fn look_at_idle(&mut self) -> RackAdvance {
        let mut advance = RackAdvance::Idle;
        for server in self.servers.iter_mut().filter(|server| !server.has_ended) {
            if server.machine.engine.advance() == Advance::Running {
                server.next = server.next_time();
                advance = RackAdvance::Running;
            }
        }
        advance
    }

    /// Keeps a record of the steps of messages from now on.
    pub(crate) fn keep_records(&mut self) -> Result<(), RunError> {
        self.network.keep_records();
        for server in &mut self.servers {
            if let Some(interface) = server.interface()? {
                interface.keep_records();
            }
        }
        Ok(())
    }

    /// Appends the steps of messages since the last call.
    pub(crate) fn take_records(&mut self, records: &mut Vec<Record>) -> Result<(), RunError> {
        self.network.take_records(records);
        for server in &mut self.servers {
            if let Some(interface) = server.interface()? {
                interface.take_records(records);
            }
        }
        Ok(())
    }

    /// `summary`, followed by the waiting units of each server that has any.
    pub fn describe_waiting(&mut self, summary: &str) -> String {
        let mut text = summary.to_string();
        for server in self.servers.iter_mut().filter(|server| !server.has_ended) {
            text += &server
                .machine
                .describe_waiting(&format!("\n{}:", server.name));
        }
        text
    }
}

/// Valid between two windows.
impl Resumable for Rack {
    fn now(&self) -> Time {
        let servers = self.servers.iter().map(|server| server.next);
        servers
            .min()
            .unwrap_or(Time::NEVER)
            .min(self.network.next_event())
    }

    fn is_ending(&self) -> bool {
        let mut servers = self.servers.iter();
        self.end != Time::NEVER || servers.all(|server| server.machine.is_ending())
    }

    fn save(&mut self) -> Result<Vec<u8>, RunError> {
        for server in &mut self.servers {
            server.machine.engine.forget_loops();
        }
        Writer::write(self).map_err(RunError::Description)
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), String> {
        Reader::read(self, state)
    }
}
