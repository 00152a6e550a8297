//! User-level interrupts as a part of a server.

use crate::{InterruptController, Statistics, UserInterruptSpec, attach};
use fabric::{AgentId, Fabric, Time};
use queues::Ledger;
use schemars::SchemaGenerator;
use serde_json::Value;
use spec::SpecError;
use system::{Attached, Hardware, Host, Kind, Mechanism, Refusal, Site, System};

/// What user-level interrupts are to a server.
pub const KIND: Kind = Kind {
    key: "user_interrupts",
    mechanisms: &[Mechanism::new(
        "user-interrupt",
        7,
        "It looks at a bitmap of the queues with items, and sleeps until a user-level interrupt.",
    )],
    interface: None,
    statistics: Some(SchemaGenerator::subschema_for::<Statistics>),
    components: &[],
    extends_cores: true,
    memory_map: &[],
};

impl System for UserInterruptSpec {
    fn check(&self, _host: &Host<'_>) -> Result<(), SpecError> {
        Ok(())
    }

    fn attach(&self, fabric: &mut Fabric, site: Site<'_>) -> Result<Attached, Refusal> {
        let (agent, extension) = attach(fabric, site.host.fabric, self)?;
        Ok(Attached {
            cores: Some(Box::new(extension)),
            signal: Some(agent),
            ..Attached::new(Part { agent })
        })
    }
}

/// User-level interrupts in a server.
struct Part {
    agent: AgentId,
}

impl Hardware for Part {
    fn statistics(&self, fabric: &mut Fabric, _now: Time, _ledger: Option<&Ledger>) -> Value {
        let controller = fabric.agent_mut::<InterruptController>(self.agent);
        let statistics = controller.map_or_else(Statistics::default, |one| one.statistics());
        serde_json::json!(statistics)
    }
}
