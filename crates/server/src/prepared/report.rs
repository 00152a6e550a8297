//! The results of a run.

use super::Prepared;
use crate::error::RunError;
use crate::host::{HostClock, HostCost};
use crate::rack::RackDescription;
use crate::results::{
    ExecuteResult, RackClientResult, RackResult, RackServerResult, RunResult, SwitchResult,
    overload,
};
use crate::traces::{TraceReport, Tracer};
use network::LoadGenerator;
use network::rack::Switch;
use queues::ProgramDevice;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use workload::Recorder;

impl Prepared<'_> {
    /// The results of a data plane on the only server, whose run started at `begin`.
    pub fn server(
        &mut self,
        begin: HostClock,
        traces: Vec<TraceReport>,
    ) -> Result<RunResult, RunError> {
        let brought = self.brought;
        let (server, host) = self.only()?;
        let machine = &mut server.machine;
        let Some(data_plane) = &server.data_plane else {
            return Err(RunError::Description("there is no data plane".to_string()));
        };
        let misses = server.tracer.as_ref().and_then(Tracer::misses);
        let measured = data_plane.result(machine, &host.hardware, misses.as_ref())?;
        let end = machine.engine.time(machine.end());
        let ledger = data_plane.ledger.borrow();
        let fabric = &mut machine.engine.fabric;
        let systems = host.hardware.statistics(fabric, end, Some(&ledger));
        let totals = host.totals(machine, measured.items.delivered, (begin, brought));
        Ok(RunResult {
            data_plane: measured,
            totals,
            systems,
            output: machine.output(),
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
        Ok(ExecuteResult {
            exit_status: machine.exit().map_or(0, |(_, status)| status),
            signal: machine.signal(),
            check: None,
            totals: host.totals(machine, 0, (begin, brought)),
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
            let machine = &mut server.machine;
            let data_plane = server.data_plane.as_ref();
            let misses = server.tracer.as_ref().and_then(Tracer::misses);
            let measured =
                data_plane.map(|one| one.result(machine, &host.hardware, misses.as_ref()));
            let measured = measured
                .transpose()
                .map_err(|error| error.of(&server.name))?;
            let served = match &measured {
                Some(measured) => measured.items.delivered,
                None if is_alone => responses,
                None => 0,
            };
            let totals = host.totals(machine, served, (begin, 0));
            simulated_seconds = simulated_seconds.max(totals.simulated_seconds);
            host_skipped_cycles.extend(totals.host.host_skipped_cycles);
            let end = machine.engine.time(machine.end());
            let fabric = &mut machine.engine.fabric;
            let dropped_packets = host.hardware.dropped_packets(fabric);
            let counters = server.counters;
            let counters = counters.and_then(|id| fabric.agent_mut::<ProgramDevice>(id));
            let counted = counters.map(|device| device.counters().iter().cloned().collect());
            let counted: BTreeMap<String, u64> = counted.unwrap_or_default();
            let ledger = data_plane.map(|data_plane| data_plane.ledger.borrow());
            let mut systems = host.hardware.statistics(fabric, end, ledger.as_deref());
            let interface = host.spec.interface.map(|interface| interface.system().key);
            let interface = interface.and_then(|key| systems.remove(key));
            let (sent, received) = wires.counts(&rack.network, number);
            servers.push(RackServerResult {
                name: server.name.clone(),
                address: Ipv4Addr::from(wires.addresses[number]),
                exit_status: machine.exit().map(|(_, status)| status),
                output: machine.output(),
                data_plane: measured,
                program_counters: counted,
                check: None,
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
