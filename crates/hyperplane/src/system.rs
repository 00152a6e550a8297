//! HyperPlane as a part of a server.

use crate::{HyperPlane, HyperPlaneSpec, PARTITIONS, QwaitExtension, Statistics, attach};
use energy::{Split, leaked, spent};
use fabric::{AgentId, CoreId, Fabric, Time};
use queues::Ledger;
use schemars::SchemaGenerator;
use serde_json::Value;
use spec::{SpecError, Under, require};
use system::{Attached, Hardware, Host, Kind, Mechanism, Refusal, Setting, Site, System};

/// The description of HyperPlane to a server.
pub const KIND: Kind = Kind {
    mechanisms: &[
        Mechanism {
            sleeps: true,
            ..Mechanism::new(
                "software-ready-set",
                5,
                "QWAIT feeding a list in software",
                "HyperPlane's monitoring set, with a list of ready queues that software iterates \
                 over.",
            )
        },
        Mechanism {
            shares_queues: true,
            has_weights: true,
            sleeps: true,
            ..Mechanism::new(
                "hyperplane",
                1,
                "HyperPlane",
                "It waits with HyperPlane's `QWAIT`.",
            )
        },
    ],
    statistics: Some(SchemaGenerator::subschema_for::<Statistics>),
    components: &[
        ("monitoring_set", "HyperPlane's monitoring set."),
        ("ready_set", "HyperPlane's ready set."),
    ],
    extends_cores: true,
    ..Kind::new("hyperplane")
};

energy::costs! {
    /// The energy of HyperPlane's hardware. §IV-C gives 4.1 % of a core's power for the monitoring
    /// set and 2.1 % for the ready set, and their areas. A core is 13.9 W here (McPAT's peak); the
    /// areas leak as the core's does, 141 mW a mm²; the rest is attributed to the maximum rate of
    /// operations.
    HyperPlaneEnergySpec {
        /// A look-up in the monitoring set: (570 - 30) mW at one a cycle.
        look_up_pj = 180.0,
        /// Leakage of the monitoring set, 0.21 mm².
        monitoring_set_static_mw = 29.7,
        /// A selection by the ready set: (292 - 18) mW at one in 12.25 ns.
        selection_pj = 3350.0,
        /// Leakage of the ready set, 0.13 mm².
        ready_set_static_mw = 18.4,
    }
}

impl HyperPlaneEnergySpec {
    /// The costs of sets of such a size. Both are arrays of as many cells as there are entries, of
    /// which the arbiter (a Brent-Kung network, whose gates are in proportion to its inputs, §IV-B)
    /// looks at all, and a look-up at one of each way.
    fn of_size(self, entries: usize, ways: usize) -> HyperPlaneEnergySpec {
        let entries = entries as f64 / 1024.0;
        HyperPlaneEnergySpec {
            look_up_pj: self.look_up_pj * (ways as f64 / 2.0),
            monitoring_set_static_mw: self.monitoring_set_static_mw * entries,
            selection_pj: self.selection_pj * entries,
            ready_set_static_mw: self.ready_set_static_mw * entries,
        }
    }
}

impl System for HyperPlaneSpec {
    fn check(&self, host: &Host<'_>) -> Result<(), SpecError> {
        let sockets = host.fabric.sockets;
        HyperPlaneSpec::check(self, host.fabric).under("server.hyperplane")?;
        if !host.is_used {
            return Ok(());
        }
        let threads = host.core.threads;
        require(
            threads == 1 || !self.power_optimised,
            "server.hyperplane.power_optimised",
            true,
            format!(
                "it puts a core to sleep when its hart halts in QWAIT, and with \
                 server.core.threads = {threads} another hart may run on; leave one of the two out"
            ),
        )?;
        let Setting::DataPlane(data_plane) = host.setting else {
            return Ok(());
        };
        // Only with several threads a core there can be so many.
        require(
            data_plane.clusters as usize <= PARTITIONS,
            "data_plane.organisation",
            format!("{} clusters", data_plane.clusters),
            format!(
                "a cluster has a partition of the ready set, which has {PARTITIONS}: more threads \
                 must share queues"
            ),
        )?;
        let entries = self.entries * sockets;
        require(
            data_plane.queues as usize <= entries,
            "data_plane.queues",
            data_plane.queues,
            match sockets {
                1 => format!(
                    "HyperPlane's monitoring set holds {entries} at most \
                     (server.hyperplane.entries)"
                ),
                _ => format!(
                    "HyperPlane's monitoring sets hold {entries} at most \
                     (server.hyperplane.entries on each socket)"
                ),
            },
        )
    }

    fn attach(&self, fabric: &mut Fabric, site: Site<'_>) -> Result<Attached, Refusal> {
        let banks = site.host.fabric.tiles_of_socket();
        let agent = attach(fabric, banks, self, site.doorbells, fabric.clock())?;
        let sockets = site.host.fabric.sockets as f64;
        let spec = self.clone();
        Ok(Attached {
            extension: Some(Box::new(QwaitExtension::new(agent))),
            ..Attached::new(Part {
                agent,
                spec,
                sockets,
            })
        })
    }
}

/// HyperPlane in a server.
struct Part {
    agent: AgentId,
    spec: HyperPlaneSpec,
    sockets: f64,
}

impl Part {
    fn statistics(&self, fabric: &mut Fabric, now: Time) -> Statistics {
        let agent = fabric.agent_mut::<HyperPlane>(self.agent);
        agent.map_or_else(Statistics::default, |agent| agent.statistics(now))
    }
}

impl Hardware for Part {
    fn statistics(&self, fabric: &mut Fabric, now: Time, _ledger: Option<&Ledger>) -> Value {
        serde_json::json!(self.statistics(fabric, now))
    }

    fn powered_down(&self, fabric: &mut Fabric, core: CoreId, now: Time) -> Time {
        let agent = fabric.agent_mut::<HyperPlane>(self.agent);
        agent.map_or(Time::ZERO, |agent| agent.powered_down(core, now))
    }

    fn events(&self, fabric: &mut Fabric, now: Time) -> Vec<u64> {
        let counts = self.statistics(fabric, now);
        vec![counts.look_ups, counts.selections()]
    }

    fn energy(
        &self,
        _fabric: &mut Fabric,
        events: &[u64],
        seconds: f64,
        follows_sizes: bool,
    ) -> Vec<Split> {
        let &[look_ups, selections] = events else {
            return Vec::new();
        };
        let costs = match follows_sizes {
            true => self.spec.energy.of_size(self.spec.entries, self.spec.ways),
            false => self.spec.energy,
        };
        // Of two sockets each has its own, or one ready set has all QIDs of both.
        let leaked = |milliwatts: f64| leaked(milliwatts * self.sockets, seconds);
        vec![
            Split {
                dynamic: spent(costs.look_up_pj, look_ups),
                leakage: leaked(costs.monitoring_set_static_mw),
            },
            Split {
                dynamic: spent(costs.selection_pj, selections),
                leakage: leaked(costs.ready_set_static_mw),
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_cost_in_proportion() {
        let usual = HyperPlaneEnergySpec::default();
        assert_eq!(usual.of_size(1024, 2), usual);
        let half = usual.of_size(512, 4);
        assert_eq!((half.look_up_pj, half.selection_pj), (360.0, 1675.0));
    }
}
