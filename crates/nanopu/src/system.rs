//! nanoPU as a part of a server.

use crate::cable::Cable;
use crate::clients::{CLIENTS, ClientSetup};
use crate::nic::Outside;
use crate::{
    ADDRESS_ALONE, ClientStatistics, Clients, DmaPathStatistics, NanoPuSpec, Nic, Statistics,
    attach, attach_nic, published_rate,
};
use energy::Split;
use fabric::{AgentId, Fabric, Time};
use network::transport::TransportSpec;
use pipeline::Model;
use queues::{DeliveredPacket, Ledger};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};
use spec::{SpecError, Under, require};
use system::{
    Attached, DataPlane, Hardware, Host, Interface, Kind, Mechanism, PortEnergySpec, Refusal,
    Requests, Setting, Sharing, Site, System, Wire,
};
use workload::{Random, Stream};

/// The description of nanoPU to a server.
pub const KIND: Kind = Kind {
    mechanisms: &[Mechanism {
        shares_queues: true,
        brings_requests: true,
        needs_device: Some("requests come from the network interface"),
        ..Mechanism::new(
            "nanopu",
            10,
            "nanoPU",
            "It gets messages from nanoPU's network interface in a register, stores them into a \
             buffer and sends what is in another. The queues are the ports of the clients.",
        )
    }],
    interface: Some(Interface {
        name: "nanopu",
        help: "nanoPU's, which gives messages to registers (`server.nanopu`).",
        statistics: SchemaGenerator::subschema_for::<InterfaceStatistics>,
        sharing: Sharing::Leads,
    }),
    statistics: Some(SchemaGenerator::subschema_for::<DataPlaneStatistics>),
    components: &[PortEnergySpec::COMPONENT],
    extends_cores: true,
    ..Kind::new("nanopu")
};

/// Whether messages can be given to such a data plane.
fn check_data_plane(
    spec: &NanoPuSpec,
    host: &Host<'_>,
    of: &DataPlane<'_>,
) -> Result<(), SpecError> {
    let with = |why: &str| format!("with data_plane.notify = \"nanopu\" {why}");
    let chosen = "it must be left out: server.nanopu.core_selection says which core gets what";
    require(
        of.organisation.is_none(),
        "data_plane.organisation",
        of.organisation.as_deref().unwrap_or_default(),
        with(chosen),
    )?;
    require(
        of.policy == "\"round-robin\"",
        "data_plane.policy",
        &of.policy,
        with(chosen),
    )?;
    require(
        of.batch == 1,
        "data_plane.batch",
        of.batch,
        with("it must be 1: a thread takes one message at a time"),
    )?;
    require(
        host.fabric.sockets == 1,
        "server.fabric.sockets",
        host.fabric.sockets,
        with("it must be 1: its network interface is beside the cores of one"),
    )?;
    require(
        of.traffic.imbalance == 0.0,
        "traffic.imbalance",
        of.traffic.imbalance,
        with("it must be 0: no core has queues of its own"),
    )?;
    let (slot, most) = (of.traffic.slot_bytes(), spec.max_message_bytes);
    require(
        slot <= most,
        "traffic.packet_bytes",
        of.traffic.packet_bytes,
        with(&format!(
            "a packet, what a program puts in front of it and a header of 16 bytes make messages \
             of up to {slot} bytes, and server.nanopu.max_message_bytes is {most}: send smaller \
             packets, or set this and server.nanopu.transport.largest_message_bytes to {slot}"
        )),
    )
}

/// Attaches the network interface, and clients at the other end of its link.
fn attach_clients(
    fabric: &mut Fabric,
    spec: &NanoPuSpec,
    host: &Host<'_>,
    requests: Requests<'_>,
    seed: u64,
) -> Result<Attached, Refusal> {
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
    if has_used_rings {
        let sentence = "measure.rings is not \"new\", and with data_plane.notify = \"nanopu\" \
                        requests wait in the network interface and not in rings: leave it out";
        return Err(Refusal(sentence.to_string()));
    }
    let (cores, rate) = (host.fabric.cores, published_rate());
    let cable = Cable::shared(cores, ledger.clone());
    let outside = Outside {
        // The interface is the next agent, and they are the one behind it.
        clients: AgentId(fabric.next_agent().0 + 1),
        cable: cable.clone(),
    };
    let link = (ADDRESS_ALONE, rate);
    let (agent, extension) =
        attach_nic(fabric, spec, cores, link, |nic| nic.with_clients(outside))?;
    let mut choice = Random::new(seed, Stream::ActiveQueues);
    let clients = Clients::new(ClientSetup {
        io: *setup,
        server: agent,
        rate,
        mac: Time::from_ns(spec.mac_and_serial_io_ns),
        packet_bytes: spec.transport.packet_bytes,
        transport: spec.transport.open(CLIENTS, rate),
        cable,
        arrivals,
        active_queues: traffic.shape.active_queues(setup.queues, &mut choice),
        queue_choice: Random::new(seed, Stream::Queues),
        packets,
        settings,
        ledger: ledger.clone(),
        keep: capture_packets,
    });
    let tile = host.fabric.mesh.columns * host.fabric.mesh.rows - 1;
    let clients = fabric.attach(Box::new(clients), Clients::attachment(setup, tile))?;
    let part = Part {
        agent,
        energy: spec.energy,
    };
    Ok(Attached {
        extension: Some(Box::new(extension)),
        source: Some(clients),
        ..Attached::new(WithClients { part, clients })
    })
}

impl System for NanoPuSpec {
    fn check(&self, host: &Host<'_>) -> Result<(), SpecError> {
        let shortest = host.fabric.minimum_delivery_latency();
        let least = host.fabric.clock().cycle_at_or_after(shortest);
        let others = if self.to_core_cycles < least {
            format!(
                ", server.core.width = 1 and server.nanopu.to_core_cycles = {least}, as the \
                 fabric needs"
            )
        } else {
            " and server.core.width = 1".to_string()
        };
        let with = |accepted| {
            format!(
                "with nanopu, whose registers nothing can undo, it must be {accepted}: take \
                 server.preset = \"nanopu-prototype\", or set server.core.model = \
                 \"in-order\"{others}"
            )
        };
        require(
            host.core.model == Model::InOrder,
            "server.core.model",
            json!(host.core.model),
            with("\"in-order\""),
        )?;
        require(
            host.core.width == 1,
            "server.core.width",
            host.core.width,
            with("1"),
        )?;
        NanoPuSpec::check(self, host.fabric.clock(), shortest).under("server.nanopu")?;
        match (host.is_used, host.setting) {
            (true, Setting::DataPlane(of)) => check_data_plane(self, host, of),
            _ => Ok(()),
        }
    }

    fn transport(&self) -> Option<&TransportSpec> {
        Some(&self.transport)
    }

    /// Without a network it gives the server what the server sends to itself.
    fn attach(&self, fabric: &mut Fabric, site: Site<'_>) -> Result<Attached, Refusal> {
        if let Some(requests) = site.requests {
            return attach_clients(fabric, self, &site.host, requests, site.seed);
        }
        let link = site.link.unwrap_or((ADDRESS_ALONE, published_rate()));
        let (agent, extension) = attach(fabric, self, site.host.fabric.cores, link)?;
        Ok(Attached {
            extension: Some(Box::new(extension)),
            wire: Some(Wire::of::<Nic>(agent)),
            ..Attached::new(Part {
                agent,
                energy: self.energy,
            })
        })
    }
}

/// The network interface in a server.
struct Part {
    agent: AgentId,
    energy: PortEnergySpec,
}

/// Counts of nanoPU's network interface.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NanoPuInterface")]
struct InterfaceStatistics<'a> {
    /// What it has counted.
    #[serde(flatten)]
    statistics: Statistics,
    /// The reasons why messages could not be delivered, a sentence each.
    failures: &'a [String],
    /// Packets on the DMA path, if the server has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    dma_path: Option<DmaPathStatistics>,
}

/// The network interface with clients at the other end of its link.
struct WithClients {
    part: Part,
    clients: AgentId,
}

/// Counts of nanoPU's network interface and its clients.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NanoPuDataPlane")]
struct DataPlaneStatistics {
    /// Counts of the interface.
    interface: Statistics,
    /// Counts of the clients.
    clients: ClientStatistics,
}

impl Hardware for WithClients {
    fn statistics(&self, fabric: &mut Fabric, _now: Time, _ledger: Option<&Ledger>) -> Value {
        let nic = fabric.agent_mut::<Nic>(self.part.agent);
        let interface = nic.map(|nic| nic.statistics()).unwrap_or_default();
        let clients = fabric.agent_mut::<Clients>(self.clients);
        let clients = clients.map(|clients| clients.statistics());
        json!(DataPlaneStatistics {
            interface,
            clients: clients.unwrap_or_default(),
        })
    }

    fn replies(&self, fabric: &mut Fabric) -> Vec<DeliveredPacket> {
        let clients = fabric.agent_mut::<Clients>(self.clients);
        clients.map_or_else(Vec::new, |clients| clients.delivered().to_vec())
    }

    fn events(&self, fabric: &mut Fabric, now: Time) -> Vec<u64> {
        self.part.events(fabric, now)
    }

    fn energy(&self, fabric: &mut Fabric, events: &[u64], seconds: f64, sizes: bool) -> Vec<Split> {
        self.part.energy(fabric, events, seconds, sizes)
    }
}

impl Hardware for Part {
    fn statistics(&self, fabric: &mut Fabric, _now: Time, _ledger: Option<&Ledger>) -> Value {
        let nic = fabric.agent_mut::<Nic>(self.agent);
        nic.map_or(Value::Null, |nic| {
            json!(InterfaceStatistics {
                statistics: nic.statistics(),
                failures: nic.failures(),
                dma_path: nic.dma_path_statistics(),
            })
        })
    }

    fn dropped_packets(&self, fabric: &mut Fabric) -> u64 {
        let nic = fabric.agent_mut::<Nic>(self.agent);
        nic.map_or(0, |nic| nic.statistics().packets_dropped)
    }

    fn events(&self, fabric: &mut Fabric, _now: Time) -> Vec<u64> {
        let nic = fabric.agent_mut::<Nic>(self.agent);
        nic.map_or_else(Vec::new, |nic| vec![nic.statistics().link_bytes])
    }

    fn energy(&self, fabric: &mut Fabric, events: &[u64], seconds: f64, _: bool) -> Vec<Split> {
        let nic = fabric.agent_mut::<Nic>(self.agent);
        let of = |(nic, &bytes): (&mut Nic, &u64)| self.energy.spent(bytes, nic.rate(), seconds);
        nic.zip(events.first()).map(of).into_iter().collect()
    }
}
