//! The results of runs.

use crate::data_plane::DataPlaneResult;
use crate::hardware::SystemResults;
use crate::host::HostCost;
use crate::rack::{RackClientSpec, RackDescription};
use crate::schema;
use crate::totals::{CoreResult, EnergyResult, Totals};
use crate::traces::TraceReport;
use energy::Energy;
use fabric::FabricStatistics;
use network::LoadGeneratorReport;
use network::rack::{LinkCounts, PortCounts};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use workload::{KindMeasurement, Measurement};

/// The result of a run of a description.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    /// Of a server alone.
    Server(Box<RunResult>),
    /// Of several servers and a network.
    Rack(Box<RackResult>),
}

impl Outcome {
    /// The result as JSON. Not generic, so that the code for all results is compiled in this crate
    /// alone.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

/// The result of a run of a data plane on one server.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunResult {
    /// What was measured of the data plane.
    #[serde(flatten)]
    pub data_plane: DataPlaneResult,
    /// The totals that every run has.
    #[serde(flatten)]
    pub totals: Totals,
    /// What the systems that took part have counted, each under its key.
    #[serde(flatten)]
    #[schemars(schema_with = "schema::systems")]
    pub systems: SystemResults,
    /// The guest's output.
    pub output: String,
    /// The output of the program's `check_after_run()`, which has found no error; absent if the
    /// program has no such function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// The traces that were requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<TraceReport>,
}

/// The result of a program.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExecuteResult {
    /// The guest's exit status; after a signal, 128 plus its number.
    pub exit_status: u64,
    /// The signal that ended it, such as `SIGABRT`.
    pub signal: Option<&'static str>,
    /// The output of the program's `check_after_run()`, which has found no error; absent if the
    /// program has no such function, or has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// The totals that every run has.
    #[serde(flatten)]
    pub totals: Totals,
    /// What the systems that observe the cores have counted, each under its key.
    #[serde(flatten)]
    #[schemars(schema_with = "schema::observing_systems")]
    pub systems: SystemResults,
    /// The traces that were requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<TraceReport>,
}

impl ExecuteResult {
    /// The result as JSON; not generic, like [`Outcome::json`].
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

/// The result of a run of a rack.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RackResult {
    /// The servers.
    pub servers: Vec<RackServerResult>,
    /// The clients.
    pub clients: Vec<RackClientResult>,
    /// The measurements of all clients together: each measured request counts once, and throughputs
    /// add up. `None` if there was no response.
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
    /// The run's use of the host.
    #[serde(flatten)]
    pub host: HostCost,
    /// Version of the simulator.
    pub version: &'static str,
    /// The traces that were requested.
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
    /// The program's output.
    pub output: String,
    /// The measurements of its data plane, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_plane: Option<DataPlaneResult>,
    /// The counters of a program without a data plane, by name, if clients have operations for it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub program_counters: BTreeMap<String, u64>,
    /// The output of the program's `check_after_run()`, which has found no error; absent if the
    /// program has no such function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// Counts of the network interface.
    #[schemars(schema_with = "schema::interface")]
    pub interface: Value,
    /// Counts of the network interface that shares its link, if it has a DMA path.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::second_interface")]
    pub dma_path: Option<Value>,
    /// Packets that its systems have dropped.
    #[serde(skip)]
    pub(crate) dropped_packets: u64,
    /// What the systems beside its interface have counted, each under its key.
    #[serde(flatten)]
    #[schemars(schema_with = "schema::systems_beside_interfaces")]
    pub systems: SystemResults,
    /// Traffic of the link from the server.
    pub sent: LinkCounts,
    /// Traffic of the link to the server.
    pub received: LinkCounts,
    /// The cores.
    pub cores: Vec<CoreResult>,
    /// Instructions of all cores of the server.
    pub instructions: u64,
    /// Cycles of the server's clock.
    pub cycles: u64,
    /// Counts of the fabric.
    pub fabric: FabricStatistics,
    /// The energy of the cores, and of the parts that they share, since the first client began, in
    /// nanojoules; also per response if no other server serves.
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
    /// Traffic of the link from the client.
    pub sent: LinkCounts,
    /// Traffic of the link to the client.
    pub received: LinkCounts,
}

/// The reasons that the servers do not serve the offered load, a sentence each.
pub(crate) fn overload(description: &RackDescription, result: &RackResult) -> Vec<String> {
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
        let of_data_plane = server.data_plane.iter();
        let of_data_plane = of_data_plane.flat_map(|one| one.measurement.overload.clone());
        let reason = |text: String| name(&server.name, result.servers.len(), &text);
        reasons.extend(sentence.into_iter().chain(of_data_plane).map(reason));
    }
    // A transport retransmits lost packets; datagrams are lost.
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
            // Both ends of the only link count its losses.
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
    /// Packets to unknown addresses, which were dropped.
    pub unroutable: u64,
}
