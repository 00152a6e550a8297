//! User-level interrupts as a part of a server.

use crate::extension::Counts;
use crate::{InterruptController, Statistics, UserInterruptEnergySpec, UserInterruptSpec, attach};
use energy::{Split, leaked, spent};
use fabric::{AgentId, Fabric, Time};
use queues::Ledger;
use schemars::SchemaGenerator;
use serde_json::Value;
use spec::SpecError;
use system::{Attached, Hardware, Host, Kind, Mechanism, Refusal, Setting, Site, System};

/// The description of user-level interrupts to a server.
pub const KIND: Kind = Kind {
    mechanisms: &[Mechanism {
        sleeps: true,
        needs_device: Some("it is the device that sends the interrupts"),
        ..Mechanism::new(
            "user-interrupt",
            7,
            "a bitmap, with user-level interrupts",
            "It looks at a bitmap of the queues with items, and sleeps until a user-level \
             interrupt.",
        )
    }],
    statistics: Some(SchemaGenerator::subschema_for::<Statistics>),
    components: &[(
        "user_interrupts",
        "User-level interrupts: the harts' registers, the routes of devices' interrupts, notices.",
    )],
    extends_cores: true,
    ..Kind::new("user_interrupts")
};

impl System for UserInterruptSpec {
    fn check(&self, _host: &Host<'_>) -> Result<(), SpecError> {
        Ok(())
    }

    fn attach(&self, fabric: &mut Fabric, site: Site<'_>) -> Result<Attached, Refusal> {
        let (agent, extension) = attach(fabric, site.host.fabric, self)?;
        // Energy is that of the cores in the results.
        let cores = match site.host.setting {
            Setting::DataPlane(_) => site.host.data_plane_cores,
            Setting::Rack | Setting::Alone => site.host.fabric.cores,
        };
        Ok(Attached {
            extension: Some(Box::new(extension)),
            signal: Some(agent),
            ..Attached::new(Part {
                agent,
                energy: self.energy,
                harts: (cores * usize::from(site.host.core.threads)) as f64,
            })
        })
    }
}

/// User-level interrupts in a server.
struct Part {
    agent: AgentId,
    energy: UserInterruptEnergySpec,
    harts: f64,
}

impl Part {
    fn counts(&self, fabric: &mut Fabric) -> Counts {
        let controller = fabric.agent_mut::<InterruptController>(self.agent);
        controller.map_or_else(Counts::default, |one| one.counts())
    }
}

impl Hardware for Part {
    fn statistics(&self, fabric: &mut Fabric, _now: Time, _ledger: Option<&Ledger>) -> Value {
        serde_json::json!(self.counts(fabric).told)
    }

    fn events(&self, fabric: &mut Fabric, _now: Time) -> Vec<u64> {
        let counts = self.counts(fabric);
        let told = counts.told;
        vec![
            counts.register_writes,
            told.delivered + told.redelivered + told.spurious,
            told.forwarded + told.posted + told.unrouted,
            counts.hops,
        ]
    }

    fn energy(
        &self,
        _fabric: &mut Fabric,
        events: &[u64],
        seconds: f64,
        _follows_sizes: bool,
    ) -> Vec<Split> {
        let &[register_writes, deliveries, look_ups, hops] = events else {
            return Vec::new();
        };
        let costs = &self.energy;
        let milliwatts = costs.hart_static_mw * self.harts + costs.routes_static_mw;
        vec![Split {
            dynamic: spent(costs.register_write_pj, register_writes)
                + spent(costs.delivery_pj, deliveries)
                + spent(costs.look_up_pj, look_ups)
                + spent(costs.hop_pj, hops),
            leakage: leaked(milliwatts, seconds),
        }]
    }
}
