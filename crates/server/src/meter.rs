//! The energy of a run: what its events have been counted to be, at its beginning and at its end.

use crate::description::ServerSpec;
use crate::machine::Machine;
use energy::{Activity, CoreActivity, Energy, NotificationCounts};
use fabric::{AgentId, CoreId, FabricStatistics};
use hyperplane::HyperPlane;
use pipeline::CoreStatistics;

/// Reads the counts of a server whose energy is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Meter<'a> {
    pub server: &'a ServerSpec,
    /// The first cores are shown, so many.
    pub shown: usize,
    /// HyperPlane, if it is used.
    pub hyperplane: Option<AgentId>,
}

/// What had been counted before a cycle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub cycle: u64,
    /// Requests delivered.
    pub delivered: u64,
    /// The cores that are shown.
    pub cores: Vec<CoreStatistics>,
    /// Instructions of the harts of the cores that are shown, if a core has two, core by core.
    pub hart_instructions: Vec<u64>,
    /// Cycles in C1, of each core.
    pub c1_cycles: Vec<u64>,
    fabric: FabricStatistics,
    hyperplane: Option<hyperplane::Statistics>,
}

state::plain!(Reading {
    cycle: cycle,
    delivered: count,
    cores,
    hart_instructions,
    c1_cycles,
    fabric,
    hyperplane,
});

impl Meter<'_> {
    /// Reads everything at `cycle`, before which everything has been done.
    pub fn read(&self, machine: &mut Machine, cycle: u64, delivered: u64) -> Reading {
        let engine = &mut machine.engine;
        let (clock, now) = (engine.clock(), engine.time(cycle));
        let threads = self.server.core.threads;
        let mut c1_cycles = vec![0; engine.cores.len()];
        let mut statistics = None;
        if let Some(id) = self.hyperplane
            && let Some(hyperplane) = engine.fabric.agent_mut::<HyperPlane>(id)
        {
            statistics = Some(hyperplane.statistics(now));
            for (core, cycles) in c1_cycles.iter_mut().enumerate() {
                let time = hyperplane.powered_down(CoreId(core as u16), now);
                *cycles = clock.cycle_of(time);
            }
        }
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
            hyperplane: statistics,
        }
    }

    /// What was spent between two readings of `machine`, in nanojoules.
    pub fn energy(&self, machine: &Machine, first: &Reading, last: &Reading) -> Energy {
        let until = |reading| self.energy_until(machine, reading);
        until(last).since(&until(first))
    }

    fn energy_until(&self, machine: &Machine, reading: &Reading) -> Energy {
        let cores = reading.cores.iter().zip(&reading.c1_cycles);
        let notification = reading.hyperplane.as_ref();
        let activity = Activity {
            cycles: reading.cycle,
            seconds: machine.engine.time(reading.cycle).as_seconds(),
            cores: cores
                .map(|(statistics, &c1_cycles)| CoreActivity {
                    statistics,
                    c1_cycles,
                })
                .collect(),
            fabric: &reading.fabric,
            notification: notification.map(|counts| NotificationCounts {
                entries: self.server.hyperplane.entries,
                ways: self.server.hyperplane.ways,
                look_ups: counts.look_ups,
                selections: counts.selections(),
            }),
        };
        let server = self.server;
        Energy::of(&server.energy, &server.core, &server.fabric, &activity)
    }
}
