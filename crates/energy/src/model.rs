//! The calculation of energy from counts.

use crate::{CoreEnergySpec, EnergySpec};
use fabric::{DataPrefetcherKind, FabricSpec, FabricStatistics, PerfectCache, PrefetcherKind};
use pipeline::{CoreSpec, CoreStatistics, Model};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Energy in nanojoules, or power in watts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Split {
    /// The dynamic part: events and clocks.
    pub dynamic: f64,
    /// The static part: leakage, and power that does not depend on activity.
    #[serde(rename = "static")]
    pub leakage: f64,
}

impl Split {
    /// Both together.
    pub fn sum(self, other: Split) -> Split {
        Split {
            dynamic: self.dynamic + other.dynamic,
            leakage: self.leakage + other.leakage,
        }
    }

    fn minus(self, other: Split) -> Split {
        Split {
            dynamic: self.dynamic - other.dynamic,
            leakage: self.leakage - other.leakage,
        }
    }

    fn times(self, factor: f64) -> Split {
        Split {
            dynamic: self.dynamic * factor,
            leakage: self.leakage * factor,
        }
    }

    /// Whether it belongs to absent hardware.
    fn is_nothing(&self) -> bool {
        *self == Split::default()
    }
}

/// Declares a structure of the components of a core or a server, and iteration over them.
macro_rules! components {
    ($(#[$about:meta])* $name:ident { $($(#[$attribute:meta])* $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
        pub struct $name {
            $($(#[$attribute])* pub $field: Split,)*
        }

        impl $name {
            /// The sum, always in the same order.
            fn sum(&self) -> Split {
                Split::default()$(.sum(self.$field))*
            }

            fn minus(&self, other: &$name) -> $name {
                $name { $($field: self.$field.minus(other.$field),)* }
            }

            fn times(&self, factor: f64) -> $name {
                $name { $($field: self.$field.times(factor),)* }
            }
        }
    };
}

components! {
    /// The components of a core.
    CoreComponents {
        /// Branch prediction, instruction buffer, decoder.
        front_end,
        /// Renaming, reorder buffer, scheduler. Zero in an in-order core.
        window,
        /// Registers and the bypass network.
        registers,
        /// Integer units.
        integer_units,
        /// Floating-point units.
        float_units,
        /// The load and store queues.
        load_store_queue,
        /// The first-level instruction cache.
        l1_instruction,
        /// The first-level data cache.
        l1_data,
        /// The second-level cache; zero without one.
        l2,
        /// TLBs, and the reads of the data cache by page walks, if there is address translation.
        #[serde(skip_serializing_if = "Split::is_nothing")]
        translation,
        /// Tables of prefetchers, and their look-ups in the caches, if there are any.
        #[serde(skip_serializing_if = "Split::is_nothing")]
        prefetchers,
        /// Pipeline registers and their clock, and the remainder.
        pipeline,
    }
}

components! {
    /// What the cores share.
    SharedComponents {
        /// The banks of the last-level cache.
        last_level,
        /// The directory.
        directory,
        /// Routers and links.
        mesh,
        /// Memory controllers and their pins.
        memory_controllers,
        /// Accesses to the memory chips, without their background power; zero if the commands of
        /// DRAM are modelled.
        dram,
        /// Activates and precharges, if the commands of DRAM are modelled.
        #[serde(skip_serializing_if = "Split::is_nothing")]
        dram_activate,
        /// Lines read by commands of DRAM.
        #[serde(skip_serializing_if = "Split::is_nothing")]
        dram_read,
        /// Lines written by commands of DRAM.
        #[serde(skip_serializing_if = "Split::is_nothing")]
        dram_write,
        /// Refreshes: one in each tREFI for each rank, whatever else happens.
        #[serde(skip_serializing_if = "Split::is_nothing")]
        dram_refresh,
        /// Standby of the memory chips, and their additional power while a row is open.
        #[serde(skip_serializing_if = "Split::is_nothing")]
        dram_background,
        /// The link between two sockets; zero with one socket.
        socket_link,
    }
}

/// A core's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CoreEnergy {
    /// The sum of all parts.
    pub total: f64,
    /// The parts of it.
    #[serde(flatten)]
    pub components: CoreComponents,
}

/// The energy of a server's work, in nanojoules; or its mean power, in watts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Energy {
    /// The sum of all parts.
    pub total: f64,
    /// The dynamic part: events and clocks.
    pub dynamic: f64,
    /// The static part: leakage, and power that does not depend on activity.
    #[serde(rename = "static")]
    pub leakage: f64,
    /// The cores that the result shows.
    pub cores: Vec<CoreEnergy>,
    /// What they share.
    #[serde(flatten)]
    pub shared: SharedComponents,
    /// The components of the systems that take part, by their names.
    #[serde(flatten)]
    pub systems: BTreeMap<&'static str, Split>,
}

/// The activity of a core.
#[derive(Clone, Copy, Debug)]
pub struct CoreActivity<'a> {
    /// Its counts.
    pub statistics: &'a CoreStatistics,
    /// Cycles in C1, with its clock stopped.
    pub c1_cycles: u64,
}

/// The activity of a server.
#[derive(Clone, Debug)]
pub struct Activity<'a> {
    /// Cycles of its clock.
    pub cycles: u64,
    /// Simulated time, in seconds.
    pub seconds: f64,
    /// Its cores.
    pub cores: Vec<CoreActivity<'a>>,
    /// The counts of shared components.
    pub fabric: &'a FabricStatistics,
    /// The energy of the participating systems' components, in nanojoules.
    pub systems: BTreeMap<&'static str, Split>,
}

/// Events of one kind, with equal energy.
struct Events {
    pj: f64,
    count: u64,
    /// The maximum number in a cycle.
    most: u64,
}

/// The dynamic energy of a unit of a core whose clock has run for `clocked` cycles, in nanojoules.
/// An idle unit draws `idle_share` of its full power.
fn clocked_unit(events: &[Events], clocked: u64, idle_share: f64) -> f64 {
    let cost = |events: &Events| {
        let idle = (events.most * clocked).saturating_sub(events.count);
        events.pj * (events.count as f64 + idle_share * idle as f64)
    };
    events.iter().map(cost).sum::<f64>() / 1e3
}

/// The energy that leaks in `seconds` at `milliwatts`, in nanojoules.
pub fn leaked(milliwatts: f64, seconds: f64) -> f64 {
    milliwatts * seconds * 1e6
}

/// The energy of `count` events of `pj` picojoules each, in nanojoules.
pub fn spent(pj: f64, count: u64) -> f64 {
    pj * count as f64 / 1e3
}

/// The activity of a core, as the events of the energy model.
struct CoreEvents {
    dispatched: u64,
    fetches: u64,
    loads: u64,
    integer: u64,
    reads: u64,
    writes: u64,
}

impl CoreEvents {
    /// An operation of the integer units, a branch, a store and any other operation read two
    /// registers, a load or a prefetch one; all but branches, stores and prefetches write one.
    /// These are maximums; instructions with an immediate operand read less.
    fn of(statistics: &CoreStatistics, width: u64) -> CoreEvents {
        let CoreStatistics {
            branches, stores, ..
        } = *statistics;
        let dispatched = statistics.instructions + statistics.squashed_instructions;
        let values = statistics.data_hits + statistics.data_misses + statistics.forwarded_loads;
        // A prefetch looks up the data cache as a load does.
        let loads = values + statistics.software_prefetches.executed;
        let rare = statistics.operations.total();
        let arithmetic = dispatched.saturating_sub(loads + stores + branches + rare);
        CoreEvents {
            dispatched,
            // One in each cycle that dispatches, and on wrong paths the minimum number.
            fetches: statistics.stack.base + statistics.squashed_instructions.div_ceil(width),
            loads,
            integer: arithmetic + branches,
            reads: 2 * (arithmetic + branches + stores + rare) + loads,
            writes: arithmetic + rare + values,
        }
    }
}

fn core_components(
    spec: &EnergySpec,
    core: &CoreSpec,
    activity: &CoreActivity<'_>,
    cycles: u64,
    seconds: f64,
) -> CoreComponents {
    let CoreEnergySpec { idle_share, .. } = spec.core;
    let (cost, units) = (&spec.core, &core.units);
    let counts = activity.statistics;
    let width = u64::from(core.width);
    let done = CoreEvents::of(counts, width);
    let operations = &counts.operations;
    let clocked = cycles.saturating_sub(activity.c1_cycles);
    let unit = |events: &[Events], milliwatts: f64| Split {
        dynamic: clocked_unit(events, clocked, idle_share),
        leakage: leaked(milliwatts, seconds),
    };
    let events = |pj: f64, count: u64, most: u64| Events { pj, count, most };
    let ports = |unit: &pipeline::UnitSpec| u64::from(unit.ports);
    // A unit that is not pipelined accepts an operation whenever it has finished one.
    let memory_ports = ports(&units.load) + ports(&units.store);
    let window = if core.model == Model::InOrder {
        Split::default()
    } else {
        let pj = cost.rename_pj + cost.reorder_pj + cost.schedule_pj;
        unit(&[events(pj, done.dispatched, width)], cost.window_static_mw)
    };
    let l2 = if core.l2.is_some() {
        let look_ups = counts.l2_hits + counts.l2_misses;
        let reads = spent(spec.l2.read_pj, look_ups + counts.lines_sent);
        // Lines filled from outside, demanded or prefetched, and lines evicted by the first level.
        let lines = counts.l2_misses + counts.l2_prefetches.issued + counts.lines_evicted;
        let writes = spent(spec.l2.write_pj, lines);
        Split {
            dynamic: reads + writes,
            leakage: leaked(spec.l2.static_mw, seconds),
        }
    } else {
        Split::default()
    };
    let lines_sent = if core.l2.is_some() {
        0
    } else {
        counts.lines_sent
    };
    let lines = counts.lines_filled + counts.lines_evicted + lines_sent;
    CoreComponents {
        front_end: unit(
            &[
                events(cost.decode_pj, done.dispatched, width),
                events(cost.branch_pj, counts.branches, 1),
            ],
            cost.front_end_static_mw,
        ),
        window,
        registers: unit(
            &[
                events(cost.register_read_pj, done.reads, 2 * width),
                events(cost.register_write_pj, done.writes, width),
                events(cost.bypass_pj, done.writes, width),
            ],
            cost.registers_static_mw,
        ),
        integer_units: unit(
            &[
                events(cost.integer_pj, done.integer, ports(&units.integer)),
                events(
                    cost.multiply_pj,
                    operations.multiplications,
                    ports(&units.multiply),
                ),
                events(cost.divide_pj, operations.divisions, 0),
            ],
            cost.integer_units_static_mw,
        ),
        float_units: unit(
            &[
                events(
                    cost.float_add_pj,
                    operations.float_additions,
                    ports(&units.float_add),
                ),
                events(
                    cost.float_multiply_pj,
                    operations.float_multiplications,
                    ports(&units.float_multiply),
                ),
                events(cost.float_divide_pj, operations.float_divisions, 0),
            ],
            cost.float_units_static_mw,
        ),
        load_store_queue: unit(
            &[events(
                cost.load_store_queue_pj,
                done.loads + counts.stores,
                memory_ports,
            )],
            cost.load_store_queue_static_mw,
        ),
        l1_instruction: unit(
            &[
                events(cost.instruction_fetch_pj, done.fetches, 1),
                events(cost.instruction_line_pj, counts.instruction_misses, 0),
            ],
            cost.l1_instruction_static_mw,
        ),
        l1_data: unit(
            &[
                events(cost.load_pj, done.loads, ports(&units.load)),
                events(cost.store_pj, counts.stores, ports(&units.store)),
                events(cost.load_pj, counts.snoops, 0),
                events(cost.data_line_pj, lines, 0),
            ],
            cost.l1_data_static_mw,
        ),
        l2,
        translation: match core.translation {
            None => Split::default(),
            Some(translation) => {
                let (tlb, counts) = (&spec.tlb, &counts.translation);
                let first_misses = counts.l1_data_tlb_misses + counts.l1_instruction_tlb_misses;
                let data = done.loads + activity.statistics.stores;
                // Each walk looks them up.
                let (structure_uses, structure_mw) = match translation.structure_caches {
                    None => (0, 0.0),
                    Some(_) => (
                        counts.l2_tlb_misses + counts.structure_cache_fills,
                        tlb.structure_caches_static_mw,
                    ),
                };
                unit(
                    &[
                        events(tlb.l1_data_pj, data, memory_ports),
                        events(tlb.l1_data_pj, counts.l1_data_tlb_misses, 0),
                        events(tlb.l1_instruction_pj, done.fetches, 1),
                        events(tlb.l1_instruction_pj, counts.l1_instruction_tlb_misses, 0),
                        events(tlb.l2_pj, first_misses + counts.l2_tlb_misses, 0),
                        events(tlb.structure_caches_pj, structure_uses, 0),
                        events(cost.load_pj, counts.page_walk_loads, 0),
                    ],
                    tlb.l1_data_static_mw
                        + tlb.l1_instruction_static_mw
                        + tlb.l2_static_mw
                        + structure_mw,
                )
            }
        },
        prefetchers: {
            let of = &spec.prefetcher;
            let stride = match core.l1_data_prefetcher {
                DataPrefetcherKind::Stride => {
                    (spent(of.stride_pj, done.loads), of.stride_static_mw)
                }
                DataPrefetcherKind::None | DataPrefetcherKind::NextLine => (0.0, 0.0),
            };
            let streamer = match core.l2.as_ref().map(|l2| l2.prefetcher) {
                Some(PrefetcherKind::Streamer | PrefetcherKind::StreamerAndAdjacentLine) => {
                    let look_ups = counts.l2_hits + counts.l2_misses;
                    (spent(of.streamer_pj, look_ups), of.streamer_static_mw)
                }
                _ => (0.0, 0.0),
            };
            Split {
                dynamic: stride.0
                    + streamer.0
                    + spent(cost.load_pj, counts.l1_prefetches.issued)
                    + spent(
                        cost.instruction_fetch_pj,
                        counts.l1_instruction_prefetches.issued,
                    ),
                leakage: leaked(stride.1 + streamer.1, seconds),
            }
        },
        pipeline: unit(
            &[events(cost.pipeline_pj, done.dispatched, width)],
            cost.pipeline_static_mw,
        ),
    }
}

fn shared_components(
    spec: &EnergySpec,
    fabric: &FabricSpec,
    activity: &Activity<'_>,
) -> SharedComponents {
    let counts = activity.fabric;
    let sockets = fabric.sockets as f64;
    let tiles = fabric.tiles_of_socket() as f64 * sockets;
    let leaked = |milliwatts: f64| leaked(milliwatts, activity.seconds);
    let (last_level, memory) = (&spec.last_level, &spec.memory);
    let memory_lines = counts.memory_reads + counts.memory_writes;
    let dynamic = |dynamic: f64| Split {
        dynamic,
        leakage: 0.0,
    };
    let commands = counts.dram.unwrap_or_default();
    // The number of ranks, and of their refreshes. An idle channel counts its refreshes with its
    // next request, so they follow from the time.
    let (ranks, refreshes) = match &fabric.memory.dram {
        None => (0.0, 0.0),
        Some(dram) => {
            let ranks = (dram.ranks * fabric.memory.controllers) as f64 * sockets;
            let interval_ns = dram.command_times().trefi_ns;
            (ranks, ranks * activity.seconds * 1e9 / interval_ns)
        }
    };
    // The mechanism that fills a perfect first level is not hardware.
    let is_used = f64::from(fabric.perfect_cache != PerfectCache::FirstLevel);
    SharedComponents {
        last_level: Split {
            dynamic: is_used
                * (spent(last_level.read_pj, counts.bank_line_reads)
                    + spent(last_level.write_pj, counts.bank_line_writes)),
            leakage: leaked(last_level.static_mw_per_bank * tiles),
        },
        directory: Split {
            dynamic: is_used * spent(spec.directory.access_pj, counts.bank_accesses),
            leakage: leaked(spec.directory.static_mw_per_bank * tiles),
        },
        mesh: Split {
            dynamic: spent(spec.mesh.router_flit_pj, counts.mesh_hop_cycles)
                + spent(spec.mesh.link_flit_pj, counts.mesh_hop_cycles),
            leakage: leaked(spec.mesh.static_mw_per_tile * tiles),
        },
        memory_controllers: Split {
            dynamic: spent(memory.controller_line_pj, memory_lines),
            leakage: leaked(
                memory.static_mw_per_controller * fabric.memory.controllers as f64 * sockets,
            ),
        },
        dram: match counts.dram {
            Some(_) => Split::default(),
            None => dynamic(spent(memory.dram_line_pj, memory_lines)),
        },
        dram_activate: dynamic(spent(spec.dram.activate_pj, commands.activates)),
        dram_read: dynamic(spent(spec.dram.read_pj, commands.reads)),
        dram_write: dynamic(spent(spec.dram.write_pj, commands.writes)),
        dram_refresh: Split {
            dynamic: 0.0,
            leakage: spec.dram.refresh_pj * refreshes / 1e3,
        },
        dram_background: Split {
            dynamic: spec.dram.row_open_mw_per_rank * commands.row_open_fs as f64 / 1e9,
            leakage: leaked(spec.dram.standby_mw_per_rank * ranks),
        },
        socket_link: if fabric.sockets > 1 {
            let link = &spec.socket_link;
            let bandwidth = fabric.socket_link.bandwidth_gb_per_s;
            Split {
                dynamic: spent(link.byte_pj, counts.socket_link_bytes),
                leakage: leaked(link.static_mw_per_gb_per_s * bandwidth),
            }
        } else {
            Split::default()
        },
    }
}

impl Energy {
    /// The energy of `activity` on a server with such cores and fabric, in nanojoules.
    pub fn of(
        spec: &EnergySpec,
        core: &CoreSpec,
        fabric: &FabricSpec,
        activity: &Activity<'_>,
    ) -> Energy {
        let spec = &spec.for_structures(core, fabric);
        let cores = activity.cores.iter();
        let cores = cores
            .map(|one| core_components(spec, core, one, activity.cycles, activity.seconds))
            .collect();
        let shared = shared_components(spec, fabric, activity);
        Energy::sum(cores, shared, activity.systems.clone())
    }

    fn sum(
        cores: Vec<CoreComponents>,
        shared: SharedComponents,
        systems: BTreeMap<&'static str, Split>,
    ) -> Energy {
        let mut all = systems.values().copied().fold(shared.sum(), Split::sum);
        let cores = cores
            .into_iter()
            .map(|components| {
                let sum = components.sum();
                all = all.sum(sum);
                CoreEnergy {
                    total: sum.dynamic + sum.leakage,
                    components,
                }
            })
            .collect();
        Energy {
            total: all.dynamic + all.leakage,
            dynamic: all.dynamic,
            leakage: all.leakage,
            cores,
            shared,
            systems,
        }
    }

    /// The difference from an `earlier` reading.
    pub fn since(&self, earlier: &Energy) -> Energy {
        let nothing = CoreEnergy::default();
        let before = earlier.cores.iter().chain(std::iter::repeat(&nothing));
        let cores = self.cores.iter().zip(before);
        Energy::sum(
            cores
                .map(|(now, before)| now.components.minus(&before.components))
                .collect(),
            self.shared.minus(&earlier.shared),
            self.each_system(|name, now| {
                now.minus(earlier.systems.get(name).copied().unwrap_or_default())
            }),
        )
    }

    /// The mean power over `seconds`, in watts.
    pub fn power(&self, seconds: f64) -> Energy {
        let factor = 1e-9 / seconds;
        let cores = self.cores.iter();
        Energy::sum(
            cores.map(|core| core.components.times(factor)).collect(),
            self.shared.times(factor),
            self.each_system(|_, energy| energy.times(factor)),
        )
    }

    fn each_system(&self, change: impl Fn(&str, Split) -> Split) -> BTreeMap<&'static str, Split> {
        let systems = self.systems.iter();
        systems
            .map(|(&name, &energy)| (name, change(name, energy)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In 100 cycles a unit that can have two events a cycle has 30, and is idle for the rest of
    /// 200: 10 pJ each, and a tenth for what did not happen.
    #[test]
    fn a_unit_is_idle_for_what_did_not_happen() {
        let events = |count| Events {
            pj: 10.0,
            count,
            most: 2,
        };
        assert_eq!(clocked_unit(&[events(30)], 100, 0.1), 10.0 * 47.0 / 1e3);
        // Counts of a clock that had begun before may exceed the maximum.
        assert_eq!(clocked_unit(&[events(210)], 100, 0.1), 10.0 * 210.0 / 1e3);
    }
}
