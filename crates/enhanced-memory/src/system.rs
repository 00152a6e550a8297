//! Enhanced memory controllers as a part of a server.

use crate::controller::Controller;
use crate::core_port::CorePort;
use crate::counts::{Counts, SharedCommon};
use crate::spec::EnhancedMemorySpec;
use energy::{Split, leaked, spent};
use fabric::{AgentId, CacheId, Fabric, Time};
use pipeline::Supplier;
use queues::Ledger;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;
use spec::SpecError;
use system::{Attached, Hardware, Host, Kind, Refusal, Site, System};

/// What enhanced memory controllers are to a server.
pub const KIND: Kind = Kind {
    statistics: Some(SchemaGenerator::subschema_for::<Statistics>),
    components: &[(
        "enhanced_memory_controllers",
        "What executes chains at the memory controllers, with its caches.",
    )],
    observes_cores: true,
    ..Kind::new("enhanced_memory_controller")
};

/// Chains that cores have sent to memory controllers, of all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "EnhancedMemoryControllerStatistics")]
pub struct Statistics {
    /// Windows that were full behind a load that waited for its line.
    pub full_windows: u64,
    /// Full windows in which no load depended on that load.
    pub windows_without_loads: u64,
    /// Full windows whose dependent loads were not likely to miss the last-level cache.
    pub windows_unlikely: u64,
    /// Chains that were sent.
    pub chains: u64,
    /// Instructions of these chains.
    pub chain_instructions: u64,
    /// Loads of these chains.
    pub chain_loads: u64,
    /// Values of registers that were sent with chains.
    pub chain_values: u64,
    /// Bytes of these messages.
    pub chain_bytes: u64,
    /// Chains that were refused, because the controller held as many as it can.
    pub chains_refused: u64,
    /// Chains that were withdrawn before they began: the line did not come from memory, or it came
    /// before the chain.
    pub chains_too_late: u64,
    /// Chains that began.
    pub chains_begun: u64,
    /// Chains that were executed to their end.
    pub chains_completed: u64,
    /// Chains that were withdrawn after they had begun, because the core had undone their
    /// instructions.
    pub chains_undone: u64,
    /// Chains that ended at a branch that was not as predicted.
    pub chains_mispredicted: u64,
    /// Chains that ended at a load without memory, or in two lines.
    pub chains_without_memory: u64,
    /// Chains that ended at a load whose line was invalidated on its way.
    pub chains_invalidated: u64,
    /// Instructions executed at memory controllers.
    pub instructions: u64,
    /// Loads executed at memory controllers.
    pub loads: u64,
    /// Loads that found their line in the controller's own cache.
    pub loads_cache_hits: u64,
    /// Loads that found their line elsewhere on the chip.
    pub loads_on_chip: u64,
    /// Loads whose line came from memory.
    pub loads_from_memory: u64,
    /// Loads that were predicted to miss the last-level cache, and went to memory at once unless
    /// the controller's own cache had their line.
    pub loads_ahead: u64,
    /// The number of these whose line was elsewhere on the chip.
    pub loads_ahead_on_chip: u64,
    /// Values that cores have taken.
    pub values_taken: u64,
    /// Values that were not taken, because the load had another address.
    pub values_of_other_address: u64,
    /// Loads of chains that found their value at the core.
    pub values_found_by_core: u64,
    /// Loads of chains that the core has undone.
    pub values_undone: u64,
    /// Values that had come, and whose line was written or evicted before the load had its address.
    pub values_lost: u64,
    /// Loads of chains that ended without their value.
    pub values_not_supplied: u64,
    /// Loads of chains that had not begun when the core could go on.
    pub values_too_late: u64,
}

impl std::convert::From<Counts> for Statistics {
    fn from(counts: Counts) -> Statistics {
        Statistics {
            full_windows: counts.full_windows,
            windows_without_loads: counts.without_loads,
            windows_unlikely: counts.unlikely,
            chains: counts.chains,
            chain_instructions: counts.instructions,
            chain_loads: counts.loads_sent,
            chain_values: counts.values_sent,
            chain_bytes: counts.bytes,
            chains_refused: counts.refused,
            chains_too_late: counts.too_late,
            chains_begun: counts.begun,
            chains_completed: counts.completed,
            chains_undone: counts.undone,
            chains_mispredicted: counts.mispredicted,
            chains_without_memory: counts.without_memory,
            chains_invalidated: counts.invalidated,
            instructions: counts.executed,
            loads: counts.loads,
            loads_cache_hits: counts.cache_hits,
            loads_on_chip: counts.on_chip,
            loads_from_memory: counts.from_memory,
            loads_ahead: counts.ahead,
            loads_ahead_on_chip: counts.ahead_on_chip,
            values_taken: counts.taken,
            values_of_other_address: counts.other_address,
            values_found_by_core: counts.found_by_core,
            values_undone: counts.loads_undone,
            values_lost: counts.line_lost,
            values_not_supplied: counts.not_supplied,
            values_too_late: counts.loads_too_late,
        }
    }
}

/// Attaches a controller to each memory controller of a server with so many cores; returns their
/// agents.
pub fn attach_controllers(
    spec: &EnhancedMemorySpec,
    common: &SharedCommon,
    cores: usize,
    fabric: &mut Fabric,
) -> Result<Vec<AgentId>, SpecError> {
    let mut agents = Vec::new();
    for number in 0..fabric.memory_controllers() {
        let cache = CacheId(fabric.next_cache());
        let clock = fabric.clock();
        let controller = Controller::new(spec, common, (number, cores), clock, cache);
        let attachment = Controller::attachment(spec, number, fabric.memory_tile(number));
        agents.push(fabric.attach(Box::new(controller), attachment)?);
    }
    Ok(agents)
}

impl System for EnhancedMemorySpec {
    fn check(&self, host: &Host<'_>) -> Result<(), SpecError> {
        EnhancedMemorySpec::check(self, host.core, host.fabric)
    }

    fn attach(&self, fabric: &mut Fabric, site: Site<'_>) -> Result<Attached, Refusal> {
        let common = SharedCommon::default();
        let threads = usize::from(site.host.core.threads);
        let agents = attach_controllers(self, &common, site.host.fabric.cores, fabric)?;
        let (spec, of_cores) = (self.clone(), common.clone());
        let controllers = agents.clone();
        Ok(Attached {
            suppliers: Some(Box::new(move |core| -> Box<dyn Supplier> {
                let controllers = controllers.clone();
                Box::new(CorePort::new(
                    &spec,
                    &of_cores,
                    core.0,
                    threads,
                    controllers,
                ))
            })),
            ..Attached::new(Part {
                common,
                controllers: agents.len(),
                spec: self.clone(),
            })
        })
    }
}

/// The controllers of a server.
struct Part {
    common: SharedCommon,
    controllers: usize,
    spec: EnhancedMemorySpec,
}

impl Hardware for Part {
    fn statistics(&self, _fabric: &mut Fabric, _now: Time, _ledger: Option<&Ledger>) -> Value {
        serde_json::json!(Statistics::from(self.common.borrow().counts))
    }

    fn events(&self, _fabric: &mut Fabric, _now: Time) -> Vec<u64> {
        let counts = self.common.borrow().counts;
        // A line that misses is looked up and filled.
        let filled = counts.loads - counts.cache_hits.min(counts.loads);
        vec![counts.executed, counts.loads + filled]
    }

    fn energy(
        &self,
        _fabric: &mut Fabric,
        events: &[u64],
        seconds: f64,
        _follows_sizes: bool,
    ) -> Vec<Split> {
        let costs = self.spec.energy;
        let of_events = [costs.instruction_pj, costs.access_pj];
        let dynamic = of_events
            .iter()
            .zip(events)
            .map(|(&pj, &count)| spent(pj, count));
        let milliwatts = costs.cache_static_mw + costs.controller_static_mw;
        vec![Split {
            dynamic: dynamic.sum(),
            leakage: leaked(milliwatts * self.controllers as f64, seconds),
        }]
    }
}
