//! The totals that every run has.

use crate::host::{HostClock, HostCost};
use crate::machine::Machine;
use crate::meter::{Meter, Reading};
use crate::schema;
use energy::Energy;
use fabric::FabricStatistics;
use pipeline::{CoreStatistics, CycleStack};
use schemars::JsonSchema;
use serde::Serialize;

/// The results of one core.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CoreResult {
    /// Instructions per cycle, over the time of `energy_nj`.
    pub ipc: f64,
    /// Cycles, including halted ones.
    pub cycles: u64,
    /// Cycles in C1, in which the core's clock is stopped.
    pub c1_cycles: u64,
    /// Everything that was counted, of all its harts together.
    #[serde(flatten)]
    pub statistics: CoreStatistics,
    /// The harts of the core, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub harts: Vec<CoreHartResult>,
}

/// The part of one of a core's harts.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CoreHartResult {
    /// The number of the hart.
    pub hart: usize,
    /// Instructions per cycle, over the time of `energy_nj`.
    pub ipc: f64,
    /// Instructions, without squashed ones.
    pub instructions: u64,
    /// Instructions that were executed on a wrong path or had to be repeated.
    pub squashed_instructions: u64,
    /// Cycles in which it had halted voluntarily.
    pub halted_cycles: u64,
    /// Conditional branches and indirect jumps.
    pub branches: u64,
    /// Mispredicted branches.
    pub mispredictions: u64,
    /// Loads that found their line.
    pub data_hits: u64,
    /// Loads that did not find their line.
    pub data_misses: u64,
    /// The hart's cycle stack.
    pub stack: CycleStack,
}

/// The energy of a run, in nanojoules.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EnergyResult {
    /// The time over which energy is counted: from the beginning of the traffic, if there is any,
    /// or from the end of the warm start, to the end.
    pub seconds: f64,
    /// The energy per request delivered in that time, including the warm-up; absent if there were
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_request: Option<f64>,
    /// All and its parts.
    #[serde(flatten)]
    #[schemars(with = "schema::ServerEnergy")]
    pub energy: Energy,
}

/// The totals that every run has.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Totals {
    /// The cores: of a data plane the cores that run it, otherwise all.
    pub cores: Vec<CoreResult>,
    /// Instructions of all cores.
    pub instructions: u64,
    /// Cycles of the server's clock.
    pub cycles: u64,
    /// Simulated time.
    pub simulated_seconds: f64,
    /// The run's use of the host.
    #[serde(flatten)]
    pub host: HostCost,
    /// Counts of the fabric.
    pub fabric: FabricStatistics,
    /// The energy of the cores shown, and of the parts that all cores share, in nanojoules.
    pub energy_nj: EnergyResult,
    /// The mean power in the time of `energy_nj`, in watts.
    #[schemars(with = "schema::ServerEnergy")]
    pub power_w: Energy,
    /// Version of the simulator.
    pub version: &'static str,
}

impl Totals {
    /// The totals of a run that `machine` has ended. `begin` has the start of the measurement, and
    /// the number of instructions restored from a checkpoint. Its energy and instructions per cycle
    /// are those between the readings `first` and `last`, per request if there are any.
    pub(crate) fn of(
        machine: &mut Machine,
        meter: &Meter<'_>,
        (begin, brought): (HostClock, u64),
        (first, last): (&Reading, &Reading),
    ) -> Totals {
        let end = machine.end();
        let all: Vec<CoreStatistics> = machine
            .engine
            .cores
            .iter()
            .map(|core| core.statistics(end))
            .collect();
        let instructions: u64 = all.iter().map(|core| core.instructions).sum();
        let cycles = (last.cycle - first.cycle) as f64;
        // What was dispatched before `first` may have been squashed since: a core that only waits
        // has fewer instructions then.
        let ipc = |now: u64, before: u64| now.saturating_sub(before) as f64 / cycles;
        let count = machine.engine.cores.len();
        let threads = usize::from(machine.threads());
        let harts = |core: usize| {
            let hart = |thread: usize| {
                let one = machine.engine.cores[core].hart_statistics(thread as u8, end);
                let before = first.hart_instructions.get(core * threads + thread);
                CoreHartResult {
                    hart: thread * count + core,
                    ipc: ipc(one.instructions, before.copied().unwrap_or(0)),
                    instructions: one.instructions,
                    squashed_instructions: one.squashed_instructions,
                    halted_cycles: one.halted_cycles,
                    branches: one.branches,
                    mispredictions: one.mispredictions,
                    data_hits: one.data_hits,
                    data_misses: one.data_misses,
                    stack: one.stack,
                }
            };
            match threads {
                1 => Vec::new(),
                _ => (0..threads).map(hart).collect(),
            }
        };
        let cores = all
            .into_iter()
            .take(meter.shown)
            .enumerate()
            .map(|(core, statistics)| {
                let before = first.cores.get(core).map_or(0, |core| core.instructions);
                CoreResult {
                    ipc: ipc(statistics.instructions, before),
                    cycles: end,
                    c1_cycles: last.c1_cycles[core],
                    statistics,
                    harts: harts(core),
                }
            })
            .collect();
        let engines = machine.engine.cores.iter();
        let host = HostCost {
            host_skipped_cycles: engines.map(|core| core.skipped_cycles()).collect(),
            ..begin.cost(Some(instructions.saturating_sub(brought)))
        };
        let energy = meter.energy(machine, first, last);
        let requests = last.delivered - first.delivered;
        let seconds =
            (machine.engine.time(last.cycle) - machine.engine.time(first.cycle)).as_seconds();
        Totals {
            cores,
            instructions,
            cycles: end,
            simulated_seconds: machine.engine.time(end).as_seconds(),
            host,
            fabric: machine.engine.fabric.statistics(),
            power_w: energy.power(seconds),
            energy_nj: EnergyResult {
                seconds,
                per_request: (requests > 0).then(|| energy.total / requests as f64),
                energy,
            },
            version: crate::VERSION,
        }
    }
}
