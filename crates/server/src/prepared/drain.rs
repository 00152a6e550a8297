//! The drain before a program's final check: the run continues without new requests until all are
//! answered.

use super::{LOOK_EVERY, Prepared, STEPS};
use crate::after_run;
use crate::data_plane::DataPlane;
use crate::error::RunError;
use crate::limits::Guard;
use crate::machine::{Machine, UntimedServer};
use crate::rack::RackAdvance;
use fabric::Time;
use network::LoadGenerator;
use pipeline::NEVER;

/// Whether servers without new requests are quiescent.
struct Rest {
    /// The time of the last answer, and the number of requests in flight then.
    since: Time,
    under_way: u64,
}

enum Resting {
    Moving,
    Reached,
    Stuck,
}

impl Rest {
    /// A data plane that lets items wait for this long counts as stuck.
    const PATIENCE_NS: f64 = 50e6;
    /// A response that clients have waited for this long counts as lost: much longer than a
    /// transaction takes.
    const LOST_NS: f64 = 1e6;

    fn new(now: Time, under_way: u64) -> Rest {
        Rest {
            since: now,
            under_way,
        }
    }

    /// Checks at the time `now`, which is `NEVER` if no events remain. Requests in flight without
    /// progress for `patience` will never be done.
    fn look(&mut self, now: Time, under_way: u64, patience: Time) -> Resting {
        if under_way != self.under_way && now != Time::NEVER {
            self.since = now;
            self.under_way = under_way;
        }
        let waited = now.saturating_sub(self.since);
        match under_way {
            0 if now == Time::NEVER || waited >= after_run::SETTLE => Resting::Reached,
            0 => Resting::Moving,
            _ if now == Time::NEVER || waited > patience => Resting::Stuck,
            _ => Resting::Moving,
        }
    }
}

/// The reason that a data plane without new requests is stuck.
fn left_over(items: u64) -> String {
    format!(
        "the run is over, and {items} items are still in the queues of the data plane, which has \
         delivered none for {} ms of simulated time",
        Rest::PATIENCE_NS / 1e6
    )
}

impl Prepared<'_> {
    /// The output of each program's `check_after_run()` when all requests are answered, server by
    /// server; `None` for a program without one. All results have been read.
    pub fn check_after_run(
        &mut self,
        guard: &mut Guard<'_>,
    ) -> Result<Vec<Option<String>>, RunError> {
        let servers = self.rack.servers.iter();
        let functions: Vec<Option<u64>> = servers
            .map(|server| after_run::function(server.machine.image()))
            .collect();
        let mut servers = self.rack.servers.iter_mut().zip(&functions);
        if servers.any(|(server, function)| function.is_some() && server.machine.exit().is_none()) {
            match &self.wires {
                Some(_) => self.drain_rack(guard)?,
                None => self.drain(guard)?,
            }
        }
        let servers = self.rack.servers.iter_mut().zip(&self.hosts);
        let mut said = Vec::new();
        for ((server, host), function) in servers.zip(functions) {
            let Some(address) = function else {
                said.push(None);
                continue;
            };
            let untimed = UntimedServer::of(host.spec.server, &[]);
            let told = host.spec.told();
            let called = after_run::call(&mut server.machine, &untimed, address, told, guard);
            said.push(Some(
                called.map_err(|error| host.told(&server.name, error))?,
            ));
        }
        Ok(said)
    }

    /// Number of requests in flight, and the time by which they are done or never will be: requests
    /// of clients, and items of data planes. A client's datagrams that an interface has dropped
    /// count as done.
    fn under_way(&mut self) -> (u64, Time) {
        let of_clients: u64 = self.clients().map(LoadGenerator::under_way).sum();
        let has_transport = self.clients().any(LoadGenerator::sends_again);
        let (mut dropped, mut items) = (0, 0);
        for (server, host) in self.servers() {
            dropped += host
                .hardware
                .dropped_packets(&mut server.machine.engine.fabric);
            items += server.data_plane.as_ref().map_or(0, DataPlane::under_way);
        }
        let lost = if has_transport { 0 } else { dropped };
        let of_clients = of_clients.saturating_sub(lost);
        match items {
            0 => (of_clients, Time::from_ns(Rest::LOST_NS)),
            _ => (of_clients + items, Time::from_ns(Rest::PATIENCE_NS)),
        }
    }

    /// Continues a rack, without new requests, until all are answered or lost, and no stores
    /// remain.
    fn drain_rack(&mut self, guard: &mut Guard<'_>) -> Result<(), RunError> {
        let now = self.rack.reopen();
        for server in &mut self.rack.servers {
            if let Some(data_plane) = &server.data_plane {
                data_plane.stop(&mut server.machine, now);
                server.refresh();
            }
        }
        let clients = self.wires.iter().flat_map(|wires| &wires.clients);
        for (id, _) in clients {
            if let Some(client) = self.rack.network.node_mut::<LoadGenerator>(*id) {
                client.stop();
            }
        }
        let mut rest = Rest::new(now, self.under_way().0);
        let mut look_at = now;
        loop {
            look_at = look_at.saturating_add(LOOK_EVERY);
            let now = match self.advance_to(look_at)? {
                RackAdvance::Idle | RackAdvance::End => Time::NEVER,
                RackAdvance::Running | RackAdvance::Paused => look_at,
            };
            self.check()?;
            let (under_way, patience) = self.under_way();
            match rest.look(now, under_way, patience) {
                Resting::Moving => {}
                // The awaited responses have been lost on the way.
                Resting::Stuck if patience == Time::from_ns(Rest::LOST_NS) => return Ok(()),
                Resting::Reached => return Ok(()),
                Resting::Stuck => {
                    let summary = left_over(under_way);
                    return Err(self.stuck(&summary));
                }
            }
            guard.check(1.0, self.spent(Machine::spent))?;
        }
    }

    /// Continues, without new requests, until all are answered and no stores remain.
    fn drain(&mut self, guard: &mut Guard<'_>) -> Result<(), RunError> {
        let (server, _) = self.only()?;
        let machine = &mut server.machine;
        let Some(data_plane) = &server.data_plane else {
            return Ok(());
        };
        let stopped_at = machine.engine.time(machine.end());
        machine.reopen();
        data_plane.stop(machine, stopped_at);
        let mut rest = Rest::new(stopped_at, data_plane.under_way());
        loop {
            let (server, _) = self.only()?;
            let machine = &mut server.machine;
            let Some(data_plane) = &server.data_plane else {
                return Ok(());
            };
            let mut is_over = false;
            for _ in 0..STEPS {
                match machine.advance() {
                    Ok(true) => {}
                    Ok(false) => is_over = true,
                    // All harts wait, and no item is in flight.
                    Err(RunError::Deadlock(_)) if data_plane.under_way() == 0 => is_over = true,
                    Err(error) => return Err(error),
                }
                if is_over {
                    break;
                }
            }
            let under_way = data_plane.under_way();
            let now = match (is_over, machine.engine.now()) {
                (true, _) | (_, NEVER) => Time::NEVER,
                (false, now) => machine.engine.time(now),
            };
            match rest.look(now, under_way, Time::from_ns(Rest::PATIENCE_NS)) {
                Resting::Moving => {}
                Resting::Reached => return self.check(),
                Resting::Stuck => {
                    let summary = left_over(under_way);
                    return Err(self.stuck(&summary));
                }
            }
            self.check()?;
            guard.check(1.0, self.spent(Machine::spent))?;
        }
    }
}
