//! The identification of critical regions as a part of a server.

use crate::convention::Root;
use crate::listener::Listener;
use crate::observer::{Counts, HartProbe, Observer, SharedObserver};
use crate::region::Kind as InstructionKind;
use crate::register_state::RegisterState;
use crate::{CriticalRegionSpec, Storage};
use energy::{Split, leaked, spent};
use fabric::{AgentId, Attachment, Fabric, Time};
use pipeline::Probe;
use queues::Ledger;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;
use spec::SpecError;
use std::collections::BTreeMap;
use system::{Attached, Hardware, Host, Kind, Refusal, Site, System};

/// CARGO's hardware as a component of a server.
pub const KIND: Kind = Kind {
    statistics: Some(SchemaGenerator::subschema_for::<Statistics>),
    components: &[(
        "critical_regions",
        "CARGO's structures beside the cores; what the interface executes is in its own components.",
    )],
    observes_cores: true,
    ..Kind::new("critical_region")
};

/// The prefix of the names of built-in firmware that executes regions.
const FIRMWARE: &str = "critical-regions";

/// Whether firmware is a file rather than built in.
fn is_path(firmware: &str) -> bool {
    firmware.contains('/') || [".c", ".elf"].iter().any(|end| firmware.ends_with(end))
}

/// The critical regions identified on all cores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "CriticalRegionStatistics")]
pub struct Statistics {
    /// Epochs that have ended, of all cores.
    pub epochs: u64,
    /// Loads that missed the second-level cache.
    pub misses: u64,
    /// The fraction of loads missing the second-level cache since the first region that were in the
    /// last region of their core; `None` if there were none.
    pub coverage: Option<f64>,
    /// The same fraction for the loads that were ready at the end of the last epoch: the coverage
    /// if the values of all registers were known.
    pub ready_coverage: Option<f64>,
    /// The mean number of ready instructions at the end of an epoch.
    pub ready_instructions: Option<f64>,
    /// Distinct regions: those with different instructions, and with a load that misses often and
    /// whose registers are known. Others fetch nothing, and are not counted in what follows.
    pub regions: u64,
    /// The mean number of instructions of distinct regions.
    pub instructions_per_region: Option<f64>,
    /// Instructions of each distinct region, the most executed region first.
    pub region_instructions: Vec<u64>,
    /// The number of executions of each distinct region's first instruction while the region was
    /// the last of its core; in the same order.
    pub region_executions: Vec<u64>,
    /// Arithmetic, as part of the instructions of distinct regions.
    pub alu: Option<f64>,
    /// Loads whose address depends on no other load of the region, as part of the instructions.
    pub independent_loads: Option<f64>,
    /// Loads whose address depends on another load of the region, as part of the instructions.
    pub dependent_loads: Option<f64>,
    /// Control flow and copies of registers, as part of the instructions.
    pub other: Option<f64>,
    /// Registers that are roots of all distinct regions: arguments.
    pub argument_registers: u64,
    /// Registers that are roots of all distinct regions: addresses of the stack and of frames.
    pub stack_registers: u64,
    /// Registers that are roots of all distinct regions: addresses of global and of thread-local
    /// data.
    pub data_registers: u64,
    /// Registers that are roots of all distinct regions: results of the instructions that begin
    /// chains.
    pub result_registers: u64,
    /// The number of these registers that user routines compute for each packet (READY-DYN).
    pub computed_registers: u64,
    /// Correct predicted values of the last region's registers, checked at each execution of the
    /// region's instruction that reads the register as a root, or produces it as a result.
    pub right_values: u64,
    /// Wrong predicted values, checked at the same times.
    pub wrong_values: u64,
    /// Loads of regions that harts have executed, in passes from a region's first instruction on,
    /// for which the region's code has the same address. What user routines return counts as right.
    pub right_addresses: u64,
    /// Loads for which it has another address, or none, since a value on which the address depends
    /// is wrong.
    pub wrong_addresses: u64,
    /// Entries of the context instruction cache that were replaced.
    pub evictions: u64,
    /// Bytes of the structures beside each core.
    pub storage_bytes: u64,
    /// Traffic to and from the network interface, if regions are executed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload: Option<OffloadStatistics>,
}

/// Regions sent to the network interface, and packets that it announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OffloadStatistics {
    /// Regions that were sent.
    pub regions_sent: u64,
    /// Bytes of their code, with the values of registers.
    pub code_bytes: u64,
    /// Instructions of these regions.
    pub instructions_sent: u64,
    /// Instructions of these regions that are left out of the code, because nothing provides their
    /// operands, or because they close a loop without an exit.
    pub instructions_failed: u64,
    /// Regions that were not sent, because no load of them that misses can be
    /// executed.
    pub regions_without_load: u64,
    /// Regions that were not sent, because their code is too large.
    pub regions_too_large: u64,
    /// Regions that were not sent, because they use all registers.
    pub regions_without_register: u64,
    /// Packets for which the interface sent the results of user routines.
    pub packets_told: u64,
    /// The number of these packets that a hart has begun to serve.
    pub packets_begun: u64,
}

impl Statistics {
    /// The sum over the cores.
    fn of<'a>(cores: impl Iterator<Item = &'a Counts>, storage: &Storage) -> Statistics {
        let mut told = Statistics {
            storage_bytes: storage.total_bytes() as u64,
            ..Statistics::default()
        };
        let (mut covered, mut ready, mut coverable, mut ready_instructions) = (0, 0, 0, 0);
        let mut regions = BTreeMap::new();
        for counts in cores {
            told.epochs += counts.epochs;
            told.misses += counts.misses;
            told.right_values += counts.right_values;
            told.wrong_values += counts.wrong_values;
            told.right_addresses += counts.right_addresses;
            told.wrong_addresses += counts.wrong_addresses;
            told.evictions += counts.evictions;
            covered += counts.covered;
            ready += counts.ready;
            ready_instructions += counts.ready_instructions;
            coverable += counts.misses_with_region;
            for (pcs, distinct) in &counts.regions {
                let (_, executions) = regions.entry(pcs).or_insert((&distinct.region, 0));
                *executions += distinct.executions;
            }
        }
        let part = |count: u64, of: u64| (of > 0).then(|| count as f64 / of as f64);
        told.coverage = part(covered, coverable);
        told.ready_coverage = part(ready, coverable);
        told.ready_instructions = part(ready_instructions, told.epochs);
        told.regions = regions.len() as u64;
        let mut listed: Vec<_> = regions.values().collect();
        listed.sort_by_key(|(region, executions)| {
            (std::cmp::Reverse(*executions), region.instructions.len())
        });
        for (region, executions) in &listed {
            told.region_instructions
                .push(region.instructions.len() as u64);
            told.region_executions.push(*executions);
            for live_in in &region.registers {
                *match live_in.root {
                    Some(Root::Argument) => &mut told.argument_registers,
                    Some(Root::Stack) => &mut told.stack_registers,
                    Some(Root::Data) => &mut told.data_registers,
                    None => &mut told.result_registers,
                } += 1;
                let is_computed = matches!(live_in.state, RegisterState::ReadyDyn(_));
                told.computed_registers += u64::from(is_computed);
            }
        }
        let instructions: u64 = told.region_instructions.iter().sum();
        let of_kind = |kind| {
            let counts = listed.iter().map(|(region, _)| region.count(kind) as u64);
            part(counts.sum(), instructions)
        };
        told.instructions_per_region = part(instructions, told.regions);
        told.alu = of_kind(InstructionKind::Alu);
        told.independent_loads = of_kind(InstructionKind::IndependentLoad);
        told.dependent_loads = of_kind(InstructionKind::DependentLoad);
        told.other = of_kind(InstructionKind::Other);
        told
    }
}

impl System for CriticalRegionSpec {
    fn check(&self, host: &Host<'_>) -> Result<(), SpecError> {
        CriticalRegionSpec::check(self)?;
        if self.offload.is_none() {
            return Ok(());
        }
        // Firmware in a file may or may not execute regions.
        let has_no_place = |firmware: &str| !firmware.starts_with(FIRMWARE) && !is_path(firmware);
        let why = match host.firmware {
            None => "this server has no such interface".to_string(),
            Some(firmware) if has_no_place(firmware) => {
                format!("that of this server has the firmware {firmware:?}")
            }
            Some(_) => return Ok(()),
        };
        Err(SpecError::new(
            "server.critical_region.offload",
            "given",
            format!(
                "a programmable network interface of a server in a rack executes regions, \
                 interface = \"dma-nic\" with server.dma_nic.processors.firmware = {FIRMWARE:?}, \
                 and {why}: without offload, regions are found and not executed"
            ),
        ))
    }

    fn attach(&self, fabric: &mut Fabric, site: Site<'_>) -> Result<Attached, Refusal> {
        let threads = usize::from(site.host.core.threads);
        let sizes = self.sizes();
        let packets = self.offload.as_ref().map_or(0, |offload| offload.packets);
        let regions = self.offload.clone().unwrap_or_default().regions;
        let clock = fabric.clock();
        let cores = 0..site.host.fabric.cores;
        let cores: Vec<SharedObserver> = cores
            .map(|_| Observer::shared(sizes, threads, (packets, regions), clock))
            .collect();
        let listener = match &self.offload {
            None => None,
            Some(offload) => {
                let listener = Listener::new(&cores, offload);
                Some(fabric.attach(Box::new(listener), Attachment::default())?)
            }
        };
        let watched = cores.clone();
        Ok(Attached {
            probes: Some(Box::new(move |core, thread| -> Box<dyn Probe> {
                let observer = &watched[usize::from(core.0)];
                Box::new(HartProbe::new(observer, usize::from(thread)))
            })),
            listener,
            ..Attached::new(Part {
                cores,
                listener,
                spec: self.clone(),
                storage: Storage::of(sizes, threads),
            })
        })
    }
}

/// The identification hardware of a server.
struct Part {
    cores: Vec<SharedObserver>,
    listener: Option<AgentId>,
    spec: CriticalRegionSpec,
    storage: Storage,
}

impl Hardware for Part {
    fn statistics(&self, fabric: &mut Fabric, _now: Time, _ledger: Option<&Ledger>) -> Value {
        let cores: Vec<_> = self.cores.iter().map(|core| core.borrow()).collect();
        let counts = cores.iter().map(|core| core.counts());
        let mut told = Statistics::of(counts.clone(), &self.storage);
        let listener = self
            .listener
            .and_then(|agent| fabric.agent_mut::<Listener>(agent));
        told.offload = listener.map(|listener| OffloadStatistics {
            packets_told: counts.clone().map(|one| one.packets_told).sum(),
            packets_begun: counts.map(|one| one.packets_begun).sum(),
            ..listener.statistics()
        });
        serde_json::json!(told)
    }

    fn events(&self, _fabric: &mut Fabric, _now: Time) -> Vec<u64> {
        let mut sums = [0; 5];
        for core in &self.cores {
            let of = core.borrow().accesses();
            let counts = [
                of.instruction_cache,
                of.in_values,
                of.gen_values,
                of.register_reads,
                of.register_writes,
            ];
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += count;
            }
        }
        sums.to_vec()
    }

    fn energy(
        &self,
        _fabric: &mut Fabric,
        events: &[u64],
        seconds: f64,
        follows_sizes: bool,
    ) -> Vec<Split> {
        let costs = match follows_sizes {
            true => self.spec.energy.of_sizes(self.spec.sizes()),
            false => self.spec.energy,
        };
        let of_events = [
            costs.instruction_cache_pj,
            costs.in_value_pj,
            costs.gen_value_pj,
            costs.register_read_pj,
            costs.register_write_pj,
        ];
        let dynamic = of_events
            .iter()
            .zip(events)
            .map(|(&pj, &count)| spent(pj, count));
        let milliwatts = costs.instruction_cache_static_mw
            + costs.in_value_static_mw
            + costs.gen_value_static_mw
            + costs.registers_static_mw * self.storage.register_bytes() as f64 / 256.0;
        vec![Split {
            dynamic: dynamic.sum(),
            leakage: leaked(milliwatts * self.cores.len() as f64, seconds),
        }]
    }
}
