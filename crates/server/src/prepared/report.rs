//! The results of a run.

use super::{Host, Prepared};
use crate::data_plane::DataPlaneResult;
use crate::error::RunError;
use crate::hardware::SystemResults;
use crate::host::{HostClock, HostCost};
use crate::rack::{RackDescription, RackServer};
use crate::results::{
    ExecuteResult, RackClientResult, RackResult, RackServerResult, RunResult, SwitchResult,
    overload,
};
use crate::totals::Totals;
use crate::traces::{TraceReport, Tracer};
use network::LoadGenerator;
use network::rack::Switch;
use queues::ProgramDevice;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use workload::Recorder;

/// The part of the results that every server has.
struct Reported {
    data_plane: Option<DataPlaneResult>,
    totals: Totals,
    systems: SystemResults,
}

impl Host<'_> {
    /// The results of `server`, which has served `responses` unless it has a data plane. `begin`
    /// has the start of the measurement, and the number of instructions restored from a checkpoint.
    fn report(
        &self,
        server: &mut RackServer,
        responses: u64,
        begin: (HostClock, u64),
    ) -> Result<Reported, RunError> {
        let machine = &mut server.machine;
        let of_server = server.data_plane.as_ref();
        let misses = server.tracer.as_ref().and_then(Tracer::misses);
        let data_plane = of_server.map(|one| one.result(machine, &self.hardware, misses.as_ref()));
        let data_plane = data_plane.transpose();
        let data_plane = data_plane.map_err(|error| self.told(&server.name, error))?;
        let delivered = data_plane.as_ref().map(|one| one.items.delivered);
        let totals = self.totals(machine, delivered.unwrap_or(responses), begin);
        let end = machine.engine.time(machine.end());
        let ledger = of_server.map(|one| one.ledger.borrow());
        let fabric = &mut machine.engine.fabric;
        let systems = self.hardware.statistics(fabric, end, ledger.as_deref());
        Ok(Reported {
            data_plane,
            totals,
            systems,
        })
    }
}

impl Prepared<'_> {
    /// The results of a data plane on the only server, whose run started at `begin`.
    pub fn server(
        &mut self,
        begin: HostClock,
        traces: Vec<TraceReport>,
    ) -> Result<RunResult, RunError> {
        let brought = self.brought;
        let (server, host) = self.only()?;
        let Reported {
            data_plane,
            totals,
            systems,
        } = host.report(server, 0, (begin, brought))?;
        let none = || RunError::Description("there is no data plane".to_string());
        Ok(RunResult {
            data_plane: data_plane.ok_or_else(none)?,
            totals,
            systems,
            output: server.machine.output(),
            check: None,
            traces,
        })
    }

    /// The results of a program alone, whose run started at `begin`.
    pub fn program(
        &mut self,
        begin: HostClock,
        traces: Vec<TraceReport>,
    ) -> Result<ExecuteResult, RunError> {
        let brought = self.brought;
        let (server, host) = self.only()?;
        let machine = &mut server.machine;
        if let Some(sentence) = machine.unwritten() {
            return Err(RunError::Output(sentence));
        }
        let end = machine.engine.time(machine.end());
        let systems = host.hardware.observed(&mut machine.engine.fabric, end);
        Ok(ExecuteResult {
            exit_status: machine.exit().map_or(0, |(_, status)| status),
            signal: machine.signal(),
            check: None,
            totals: host.totals(machine, 0, (begin, brought)),
            systems,
            traces,
        })
    }

    /// The results of a rack, whose run started at `begin`.
    pub fn rack(
        &mut self,
        description: &RackDescription,
        recorders: &[Recorder],
        begin: HostClock,
        traces: Vec<TraceReport>,
    ) -> Result<RackResult, RunError> {
        let responses = self.responses();
        let Prepared {
            rack,
            hosts,
            wires: Some(wires),
            brought,
            ..
        } = self
        else {
            return Err(RunError::Description("there is no network".to_string()));
        };
        let is_alone = hosts.iter().filter(|host| host.spec.serves).count() == 1;
        let (mut servers, mut host_skipped_cycles) = (Vec::new(), Vec::new());
        let mut simulated_seconds: f64 = 0.0;
        for (number, (server, host)) in rack.servers.iter_mut().zip(&*hosts).enumerate() {
            let served = if is_alone { responses } else { 0 };
            let Reported {
                data_plane,
                totals,
                mut systems,
            } = host.report(server, served, (begin, 0))?;
            simulated_seconds = simulated_seconds.max(totals.simulated_seconds);
            host_skipped_cycles.extend(totals.host.host_skipped_cycles);
            let machine = &mut server.machine;
            let fabric = &mut machine.engine.fabric;
            let dropped_packets = host.hardware.dropped_packets(fabric);
            let counters = server.counters;
            let counters = counters.and_then(|id| fabric.agent_mut::<ProgramDevice>(id));
            let counted = counters.map(|device| device.counters().iter().cloned().collect());
            let counted: BTreeMap<String, u64> = counted.unwrap_or_default();
            let interface = host.spec.interface.map(|interface| interface.system().key);
            let interface = interface.and_then(|key| systems.remove(key));
            let second = host.spec.dma_path.map(|interface| interface.system().key);
            let dma_path = second.and_then(|key| systems.remove(key));
            let (sent, received) = wires.counts(&rack.network, number);
            servers.push(RackServerResult {
                name: server.name.clone(),
                address: Ipv4Addr::from(wires.addresses[number]),
                exit_status: machine.exit().map(|(_, status)| status),
                output: machine.output(),
                data_plane,
                program_counters: counted,
                check: None,
                interface: interface.unwrap_or_default(),
                dma_path,
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
        let (mut clients, mut kinds) = (Vec::new(), Vec::new());
        for (number, (id, name)) in wires.clients.iter().enumerate() {
            let host = servers.len() + number;
            let (sent, received) = wires.counts(&rack.network, host);
            if let Some(client) = rack.network.node_mut::<LoadGenerator>(*id) {
                kinds.push(client.kind_names());
                clients.push(RackClientResult {
                    name: name.clone(),
                    address: Ipv4Addr::from(wires.addresses[host]),
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
            measurement: Recorder::measurement_together(&all),
            by_kind: match clients.is_empty() {
                true => BTreeMap::new(),
                false => Recorder::by_kind_together(&all, |client, kind| {
                    kinds[client][usize::from(kind)].clone()
                }),
            },
            clients,
            switch,
            instructions,
            simulated_seconds,
            host: HostCost {
                host_skipped_cycles,
                ..begin.cost(Some(instructions.saturating_sub(*brought)))
            },
            version: crate::VERSION,
            traces,
        };
        let reasons = overload(description, &result);
        if let Some(measurement) = &mut result.measurement {
            measurement.overload.clear();
            measurement.add_overload(reasons);
        }
        Ok(result)
    }
}
