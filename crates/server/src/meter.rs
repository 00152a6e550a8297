//! The energy of a run, from the counts of its events at the beginning and at the end.

use crate::description::ServerSpec;
use crate::hardware::Hardware;
use crate::machine::Machine;
use energy::{Activity, CoreActivity, Energy};
use fabric::{CoreId, FabricStatistics};
use pipeline::CoreStatistics;

/// Reads the counts of a server for its energy.
#[derive(Clone, Copy)]
pub(crate) struct Meter<'a> {
    pub server: &'a ServerSpec,
    /// Number of cores in the results: the first ones.
    pub shown: usize,
    /// The participating systems.
    pub hardware: &'a Hardware,
}

/// The counts before a cycle.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
pub(crate) struct Reading {
    #[state(cycle)]
    pub cycle: u64,
    /// Number of delivered requests.
    #[state(count)]
    pub delivered: u64,
    /// Counts of the cores in the results.
    pub cores: Vec<CoreStatistics>,
    /// Instructions of the harts of these cores, if a core has two, core by core.
    pub hart_instructions: Vec<u64>,
    /// Cycles in C1, of each core.
    pub c1_cycles: Vec<u64>,
    fabric: FabricStatistics,
    /// Counts of each system of the events that consume energy.
    events: Vec<Vec<u64>>,
}

impl Meter<'_> {
    /// Reads everything at `cycle`, before which all events have been handled.
    pub fn read(&self, machine: &mut Machine, cycle: u64, delivered: u64) -> Reading {
        let engine = &mut machine.engine;
        let (clock, now) = (engine.clock(), engine.time(cycle));
        let threads = self.server.core.threads;
        let events = self.hardware.events(&mut engine.fabric, now);
        let c1_cycles = (0..engine.cores.len() as u16).map(|core| {
            let fabric = &mut engine.fabric;
            clock.cycle_of(self.hardware.powered_down(fabric, CoreId(core), now))
        });
        let c1_cycles = c1_cycles.collect();
        let cores = engine.cores.iter().take(self.shown);
        let harts = cores
            .clone()
            .flat_map(|core| (0..threads).map(|thread| core.hart_statistics(thread, cycle)));
        let hart_instructions = if threads > 1 {
            harts.map(|hart| hart.instructions).collect()
        } else {
            Vec::new()
        };
        Reading {
            cycle,
            delivered,
            cores: cores.map(|core| core.statistics(cycle)).collect(),
            hart_instructions,
            c1_cycles,
            fabric: engine.fabric.statistics(),
            events,
        }
    }

    /// The energy between two readings of `machine`, in nanojoules.
    pub fn energy(&self, machine: &mut Machine, first: &Reading, last: &Reading) -> Energy {
        let before = self.energy_until(machine, first);
        self.energy_until(machine, last).since(&before)
    }

    fn energy_until(&self, machine: &mut Machine, reading: &Reading) -> Energy {
        let cores = reading.cores.iter().zip(&reading.c1_cycles);
        let costs = &self.server.energy;
        let seconds = machine.engine.time(reading.cycle).as_seconds();
        let fabric = &mut machine.engine.fabric;
        let systems = self
            .hardware
            .energy(fabric, costs, &reading.events, seconds);
        let activity = Activity {
            cycles: reading.cycle,
            seconds,
            cores: cores
                .map(|(statistics, &c1_cycles)| CoreActivity {
                    statistics,
                    c1_cycles,
                })
                .collect(),
            fabric: &reading.fabric,
            systems,
        };
        Energy::of(costs, &self.server.core, &self.server.fabric, &activity)
    }
}
