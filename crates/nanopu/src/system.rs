//! nanoPU as a part of a server.

use crate::{ADDRESS_ALONE, NanoPuSpec, Nic, Statistics, attach, published_rate};
use energy::Split;
use fabric::{AgentId, Fabric, Time};
use network::transport::Protocol;
use pipeline::Model;
use queues::Ledger;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};
use spec::{SpecError, Under, require};
use system::{
    Attached, Hardware, Host, Interface, Kind, PortEnergySpec, Refusal, Site, System, Wire,
};

/// The description of nanoPU to a server.
pub const KIND: Kind = Kind {
    interface: Some(Interface {
        name: "nanopu",
        help: "nanoPU's, which gives messages to registers (`server.nanopu`).",
        statistics: SchemaGenerator::subschema_for::<InterfaceStatistics>,
    }),
    components: &[PortEnergySpec::COMPONENT],
    extends_cores: true,
    ..Kind::new("nanopu")
};

impl System for NanoPuSpec {
    fn check(&self, host: &Host<'_>) -> Result<(), SpecError> {
        let shortest = host.fabric.minimum_delivery_latency();
        NanoPuSpec::check(self, host.fabric.clock(), shortest).under("server.nanopu")?;
        let with = |accepted| {
            format!("with nanopu, whose registers nothing can undo, it must be {accepted}")
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
        )
    }

    fn protocol(&self) -> Protocol {
        self.transport.protocol
    }

    /// Without a network it gives the server what the server sends to itself.
    fn attach(&self, fabric: &mut Fabric, site: Site<'_>) -> Result<Attached, Refusal> {
        let link = site.link.unwrap_or((ADDRESS_ALONE, published_rate()));
        let (agent, extension) = attach(fabric, self, site.host.fabric.cores, link)?;
        Ok(Attached {
            cores: Some(Box::new(extension)),
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
}

impl Hardware for Part {
    fn statistics(&self, fabric: &mut Fabric, _now: Time, _ledger: Option<&Ledger>) -> Value {
        let nic = fabric.agent_mut::<Nic>(self.agent);
        nic.map_or(Value::Null, |nic| {
            json!(InterfaceStatistics {
                statistics: nic.statistics(),
                failures: nic.failures(),
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
