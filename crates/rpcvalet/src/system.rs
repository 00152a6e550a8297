//! RPCValet as a part of a server: alone with the cluster around it, or in a rack.

use crate::attach::{Attached as Interface, Place, attach, attach_behind};
use crate::cluster::{Cluster, ClusterSetup};
use crate::{
    BackendStatistics, Gateway, GatewayStatistics, NetworkSpec, QueuePairs, RpcValetSpec,
    Statistics,
};
use energy::Split;
use fabric::{AddressRange, AgentId, Attachment, Fabric, FabricSpec, Time};
use queues::{DeliveredPacket, Ledger};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};
use spec::{SpecError, Under, require};
use system::{
    Attached, DataPlane, Hardware, Host, Kind, Mechanism, PortEnergySpec, Refusal, Requests,
    Setting, Site, System, Wire,
};
use workload::{Random, Recorder, Stream, Warmup};

fabric::named_ranges! {
    /// RPCValet's part of the memory map.
    MEMORY_MAP:

    /// Registers of RPCValet's network interface, `struct sonuma_registers` for each context.
    SONUMA_REGISTERS: Device = 0x1020_0000, 0x1000,
        "`run` and racks with `rpcvalet`", "rpcvalet/src/backend/registers.rs";

    /// Queue pairs of the harts with RPCValet's network interface.
    QUEUE_PAIRS: Memory = 0x6c00_0000, 0x10_8000,
        "`run` and racks with `rpcvalet`", "rpcvalet/src/domain.rs";
}

/// The description of RPCValet to a server.
pub const KIND: Kind = Kind {
    mechanisms: &[Mechanism {
        shares_queues: true,
        brings_requests: true,
        needs_device: Some("requests come from the network interface"),
        ..Mechanism::new(
            "rpcvalet",
            6,
            "RPCValet",
            "It gets messages from an integrated network interface, which dispatches them to \
             cores as RPCValet does. The queues are the nodes of the cluster around the server.",
        )
    }],
    interface: Some(system::Interface {
        name: "rpcvalet",
        help: "RPCValet's (`server.rpcvalet`), which writes messages to memory and gives them to \
               cores.",
        statistics: SchemaGenerator::subschema_for::<InterfaceStatistics>,
        sharing: system::Sharing::Never,
    }),
    statistics: Some(SchemaGenerator::subschema_for::<Statistics>),
    components: &[PortEnergySpec::COMPONENT],
    memory_map: MEMORY_MAP,
    ..Kind::new("rpcvalet")
};

fn mesh(fabric: &FabricSpec) -> (usize, usize) {
    (fabric.mesh.columns, fabric.mesh.rows)
}

fn queue_pairs(fabric: &FabricSpec) -> QueuePairs {
    let (columns, rows) = mesh(fabric);
    QueuePairs::new(QUEUE_PAIRS.start, columns * rows)
}

/// The lines of the queue pairs: writing them begins and ends a request.
fn queue_pair_lines(fabric: &FabricSpec) -> AddressRange {
    let pairs = queue_pairs(fabric);
    AddressRange {
        start: pairs.start,
        length: pairs.bytes(),
    }
}

/// Checks whether messages can be dispatched to such a data plane.
fn check_data_plane(
    spec: &RpcValetSpec,
    host: &Host<'_>,
    of: &DataPlane<'_>,
) -> Result<(), SpecError> {
    let checked = spec.check(of.queues, mesh(host.fabric), host.data_plane_cores);
    checked.under("server.rpcvalet")?;
    let with = |why: &str| format!("with data_plane.notify = \"rpcvalet\" {why}");
    let dispatched = "it must be left out: server.rpcvalet.dispatch says which core gets what";
    require(
        of.organisation.is_none(),
        "data_plane.organisation",
        of.organisation.as_deref().unwrap_or_default(),
        with(dispatched),
    )?;
    require(
        of.policy == "\"round-robin\"",
        "data_plane.policy",
        &of.policy,
        with(dispatched),
    )?;
    require(
        of.batch == 1,
        "data_plane.batch",
        of.batch,
        with("it must be 1: a core is given one message at a time"),
    )?;
    check_sockets(host.fabric, "data_plane.notify")?;
    require(
        of.traffic.imbalance == 0.0,
        "traffic.imbalance",
        of.traffic.imbalance,
        with("it must be 0: no core has queues of its own"),
    )
}

/// Checks the number of sockets of a server whose `key` is "rpcvalet".
fn check_sockets(fabric: &FabricSpec, key: &str) -> Result<(), SpecError> {
    require(
        fabric.sockets == 1,
        "server.fabric.sockets",
        fabric.sockets,
        format!(
            "with {key} = \"rpcvalet\" it must be 1: its network interface is part of one mesh"
        ),
    )
}

/// Checks whether it can be the interface of such a server in a rack.
fn check_rack(spec: &RpcValetSpec, host: &Host<'_>) -> Result<(), SpecError> {
    check_sockets(host.fabric, "interface")?;
    let checked = spec.check(spec.gateway.nodes, mesh(host.fabric), host.fabric.cores);
    checked.under("server.rpcvalet")?;
    require(
        spec.domains.is_empty(),
        "server.rpcvalet.domains",
        format!("a list of {}", spec.domains.len()),
        "it is for a server without a network; here the edge of the chip (gateway) has one \
         domain, so leave them out",
    )?;
    let as_usual = NetworkSpec {
        link_gb_per_s: spec.network.link_gb_per_s,
        ..NetworkSpec::default()
    };
    require(
        spec.network == as_usual,
        "server.rpcvalet.network",
        "the cluster of a server without a network",
        "here the links describe the network, and only link_gb_per_s, of the backends' links, \
         can be set",
    )
}

impl System for RpcValetSpec {
    fn check(&self, host: &Host<'_>) -> Result<(), SpecError> {
        match (host.is_used, host.setting) {
            (true, Setting::DataPlane(of)) => check_data_plane(self, host, of),
            (true, Setting::Rack) => check_rack(self, host),
            (true, Setting::Alone) | (false, _) => Ok(()),
        }
    }

    fn memory(&self, host: &Host<'_>) -> Vec<AddressRange> {
        vec![queue_pair_lines(host.fabric)]
    }

    fn attach(&self, fabric: &mut Fabric, site: Site<'_>) -> Result<Attached, Refusal> {
        let pairs = queue_pair_lines(site.host.fabric);
        match site.requests {
            Some(requests) => {
                let interface =
                    attach_cluster(fabric, self, site.host.fabric, requests, site.seed)?;
                Ok(Attached {
                    source: Some(interface.cluster),
                    watched: Some(pairs),
                    ..Attached::new(WithCluster { interface })
                })
            }
            None => {
                let interface = attach_gateway(fabric, self, &site)?;
                Ok(Attached {
                    wire: Some(Wire::of::<Gateway>(interface.cluster)),
                    ..Attached::new(WithGateway {
                        interface,
                        energy: self.gateway.energy,
                    })
                })
            }
        }
    }
}

/// Attaches the network interface and the cluster around it.
fn attach_cluster(
    fabric: &mut Fabric,
    spec: &RpcValetSpec,
    of: &FabricSpec,
    requests: Requests<'_>,
    seed: u64,
) -> Result<Interface, Refusal> {
    let Requests {
        setup,
        traffic,
        packets,
        arrivals,
        settings,
        ledger,
        has_used_rings,
        capture_packets,
    } = requests;
    let mut choice = Random::new(seed, Stream::ActiveQueues);
    let cluster = |parts: ClusterSetup| {
        let chance = Random::new(seed, Stream::Faults);
        let active = parts.domains.iter();
        let active = active.map(|of| traffic.shape.active_queues(of.nodes, &mut choice));
        let active = active.collect();
        Cluster::new(
            parts,
            arrivals,
            active,
            (Random::new(seed, Stream::Queues), chance),
            packets,
            settings,
            ledger.clone(),
            capture_packets,
        )
        .with_used_slots(has_used_rings)
    };
    let attached = attach(
        fabric,
        spec,
        setup,
        mesh(of),
        SONUMA_REGISTERS,
        queue_pairs(of),
        seed,
        ledger,
        cluster,
    )?;
    Ok(attached)
}

/// Attaches the network interface behind the edge of the chip of a server in a rack.
fn attach_gateway(
    fabric: &mut Fabric,
    spec: &RpcValetSpec,
    site: &Site<'_>,
) -> Result<Interface, Refusal> {
    let of = site.host.fabric;
    let (columns, rows) = mesh(of);
    let place = Place {
        nodes: spec.gateway.nodes,
        cores: of.cores,
        mesh: (columns, rows),
        registers: SONUMA_REGISTERS,
        queue_pairs: queue_pairs(of),
        network_latency: Time::ZERO,
        seed: site.seed,
    };
    // Nothing is recorded in it, because clients measure. The interface's parts report faults
    // there.
    let ledger = Ledger::shared(Recorder::new(1, Warmup::Auto));
    let slots = (
        spec.slots,
        spec.max_message_bytes,
        spec.network.link_gb_per_s,
    );
    let registers = site.io_registers;
    let outside = |backends, _: &_| -> (Box<dyn fabric::Agent>, Attachment) {
        let gateway = Gateway::new(&spec.gateway, slots, registers, backends, ledger.clone());
        let attachment = Gateway::attachment(registers, columns * rows - 1);
        (Box::new(gateway), attachment)
    };
    Ok(attach_behind(fabric, spec, place, &ledger, outside)?)
}

/// The network interface with the cluster around it.
struct WithCluster {
    interface: Interface,
}

impl Hardware for WithCluster {
    fn statistics(&self, fabric: &mut Fabric, now: Time, ledger: Option<&Ledger>) -> Value {
        ledger.map_or(Value::Null, |ledger| {
            json!(self.interface.statistics(fabric, now, ledger))
        })
    }

    fn replies(&self, fabric: &mut Fabric) -> Vec<DeliveredPacket> {
        let cluster = fabric.agent_mut::<Cluster>(self.interface.cluster);
        cluster.map_or_else(Vec::new, |cluster| cluster.delivered().to_vec())
    }
}

/// The network interface at the edge of a chip in a rack.
struct WithGateway {
    interface: Interface,
    energy: PortEnergySpec,
}

/// Counts of RPCValet's network interface in a rack.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RpcValetInterface")]
struct InterfaceStatistics {
    /// Counts of the edge of the chip.
    #[serde(flatten)]
    gateway: GatewayStatistics,
    /// Counts of all backends together.
    backends: BackendStatistics,
}

impl WithGateway {
    fn gateway<'a>(&self, fabric: &'a mut Fabric) -> Option<&'a mut Gateway> {
        let agent: AgentId = self.interface.cluster;
        fabric.agent_mut::<Gateway>(agent)
    }
}

impl Hardware for WithGateway {
    fn statistics(&self, fabric: &mut Fabric, _now: Time, _ledger: Option<&Ledger>) -> Value {
        let backends = self.interface.backends(fabric);
        let gateway = self.gateway(fabric).map(|gateway| gateway.statistics());
        json!(InterfaceStatistics {
            gateway: gateway.unwrap_or_default(),
            backends,
        })
    }

    fn fault(&self, fabric: &mut Fabric) -> Option<String> {
        self.gateway(fabric)?.fault()
    }

    fn dropped_packets(&self, fabric: &mut Fabric) -> u64 {
        self.gateway(fabric).map_or(0, |gateway| {
            let counts = gateway.statistics();
            counts.dropped_buffer_full + counts.dropped_too_long + counts.dropped_unexpected
        })
    }

    fn events(&self, fabric: &mut Fabric, _now: Time) -> Vec<u64> {
        let gateway = self.gateway(fabric);
        gateway.map_or_else(Vec::new, |gateway| vec![gateway.statistics().link_bytes])
    }

    fn energy(&self, fabric: &mut Fabric, events: &[u64], seconds: f64, _: bool) -> Vec<Split> {
        let of = |(gateway, &bytes): (&mut Gateway, &u64)| {
            self.energy.spent(bytes, gateway.rate(), seconds)
        };
        let gateway = self.gateway(fabric);
        gateway.zip(events.first()).map(of).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_has_room_for_the_largest_mesh() {
        let schema = schemars::schema_for!(fabric::MeshSpec);
        let columns = schema.pointer("/properties/columns/maximum");
        let tiles = columns.and_then(Value::as_f64).unwrap() as usize;
        for tiles in 1..=tiles {
            let pairs = QueuePairs::new(QUEUE_PAIRS.start, tiles);
            assert!(pairs.start + pairs.bytes() <= QUEUE_PAIRS.end());
        }
    }
}
