//! The energy of an event of each kind, and the leakage of each component.
//!
//! Picojoules are named `_pj`, milliwatts `_mw`. The numbers of other sizes are in `sizes.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares a table of costs in a description, each with its default and its help text. Each has a
/// range from 0 to a maximum beyond any machine. Systems use the macro for their own costs, too;
/// they need `schemars` and `serde`.
#[macro_export]
macro_rules! costs {
    ($(#[$about:meta])* $name:ident {
        $($(#[$help:meta])* $field:ident = $default:literal $(up to $most:literal)?,)*
    }) => {
        $(#[$about])*
        #[derive(
            Clone, Copy, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize,
            ::schemars::JsonSchema,
        )]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $(
                $(#[$help])*
                #[schemars(range(min = 0.0, max = $crate::maximum!($($most)?)))]
                pub $field: f64,
            )*
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)* }
            }
        }
    };
}

/// The largest cost, if a declaration names none.
#[doc(hidden)]
#[macro_export]
macro_rules! maximum {
    () => {
        1e9
    };
    ($most:literal) => {
        $most
    };
}

costs! {
    /// A core and its first-level caches.
    CoreEnergySpec {
        /// The power of an idle unit while the core's clock runs, as a fraction of its power when
        /// fully used: conditional clocking in the style "cc3" of Wattch (Brooks, Tiwari,
        /// Martonosi, ISCA 2000). In C1 no clock runs.
        idle_share = 0.1 up to 1.0,
        /// A read of the instruction cache: 32 bytes, once in each cycle that dispatches.
        instruction_fetch_pj = 50.7,
        /// A line filled into the instruction cache: as two reads.
        instruction_line_pj = 101.4,
        /// An instruction through the instruction buffer and its decoder.
        decode_pj = 42.5,
        /// A look-up and an update of the branch predictor and the table of targets.
        branch_pj = 36.7,
        /// Renaming an instruction: two look-ups, an update, the list of free registers. Not in an
        /// in-order core.
        rename_pj = 74.5,
        /// Writing the reorder buffer and reading it at commit. Not in an in-order core.
        reorder_pj = 40.8,
        /// An instruction in the scheduler: written, woken once, read. Not in an in-order core.
        schedule_pj = 20.9,
        /// A read of a register.
        register_read_pj = 19.9,
        /// A write of a register.
        register_write_pj = 28.1,
        /// A result on the bypass network.
        bypass_pj = 93.8,
        /// An operation of the integer units.
        integer_pj = 54.4,
        /// An integer multiplication.
        multiply_pj = 108.9,
        /// An integer division: 20 cycles of an integer unit (in McPAT, an operation of several
        /// cycles counts once for each cycle).
        divide_pj = 1088.0,
        /// A floating-point operation other than multiplication, division and square root.
        float_add_pj = 163.3,
        /// A floating-point multiplication, alone or fused with an addition.
        float_multiply_pj = 163.3,
        /// A floating-point division or square root: 12 cycles of an integer unit.
        float_divide_pj = 652.8,
        /// A load or store in the load and store queues: written to one, and searched for in the
        /// other.
        load_store_queue_pj = 143.9,
        /// A load's read of the data cache, 8 bytes; also the look-up for another cache's request.
        load_pj = 31.8,
        /// A store's write to the data cache, 8 bytes.
        store_pj = 42.4,
        /// A whole line written to the data cache, or read out of it.
        data_line_pj = 241.0,
        /// Pipeline registers and their clock, for each instruction.
        pipeline_pj = 22.0,
        /// Leakage of branch prediction, instruction buffer and decoder.
        front_end_static_mw = 43.2,
        /// Leakage of the instruction cache.
        l1_instruction_static_mw = 44.2,
        /// Leakage of renaming, reorder buffer and scheduler.
        window_static_mw = 20.8,
        /// Leakage of the registers and of the bypass network.
        registers_static_mw = 60.6,
        /// Leakage of the integer units, with multiplication and division.
        integer_units_static_mw = 299.5,
        /// Leakage of the floating-point units.
        float_units_static_mw = 267.6,
        /// Leakage of the load and store queues.
        load_store_queue_static_mw = 18.5,
        /// Leakage of the data cache.
        l1_data_static_mw = 57.8,
        /// Leakage of the pipeline registers, and of the part that McPAT calls "undifferentiated".
        pipeline_static_mw = 770.7,
    }
}

costs! {
    /// A second-level cache, if the cores have one.
    SecondLevelEnergySpec {
        /// A look-up, with the line read: as a bank of the last level of the same size.
        read_pj = 762.0,
        /// A line written.
        write_pj = 1002.0,
        /// Leakage of each.
        static_mw = 852.5,
    }
}

costs! {
    /// The banks of the last-level cache: 1 MB each, with 16 ways.
    LastLevelEnergySpec {
        /// A line read.
        read_pj = 762.0,
        /// A line written.
        write_pj = 1002.0,
        /// Leakage of each bank.
        static_mw_per_bank = 852.5,
    }
}

costs! {
    /// The directory: 16,384 entries of 8 bytes, 16 ways, beside each bank.
    DirectoryEnergySpec {
        /// A look-up and its update.
        access_pj = 40.6,
        /// Leakage of each bank's directory.
        static_mw_per_bank = 71.5,
    }
}

costs! {
    /// The mesh, for flits of 16 bytes.
    MeshEnergySpec {
        /// A flit through a router. Measured silicon: 924 mW at 5.1 GHz, 1.2 V, 65 nm with 4 bytes
        /// through each of five ports (Hoskote et al., IEEE Micro 27(5), 2007), which is 1.13 pJ a
        /// bit; times 32/65 for the capacitance and (0.9/1.2)^2 for the voltage.
        router_flit_pj = 40.0,
        /// A flit over a link of 4.9 mm, the pitch of McPAT's tile: 0.2 pF a mm (Ho, Mai, Horowitz,
        /// "The Future of Wires", 2001), as much again for repeaters, half of the bits changing.
        link_flit_pj = 51.0,
        /// Leakage of each router.
        static_mw_per_tile = 124.7,
    }
}

costs! {
    /// Memory controllers, and the memory itself.
    MemoryEnergySpec {
        /// A line through a controller of 25.6 GB/s and its pins.
        controller_line_pj = 3430.0,
        /// Leakage of each controller.
        static_mw_per_controller = 61.4,
        /// A line in the memory chips: eight words at 1.3 nJ (Horowitz, ISSCC 2014, gives 1.3 to
        /// 2.6 nJ; eight consecutive words share the additional cost of the first). With
        /// `server.fabric.memory.dram`, `server.energy.dram` replaces it.
        dram_line_pj = 10400.0,
    }
}

costs! {
    /// The commands of DRAM to a rank of eight chips, with `server.fabric.memory.dram`. Micron's
    /// method (technical notes TN-41-01 and TN-40-07) with the currents of its data sheet of
    /// DDR4-2666, MT40A1G8-075; those of other devices and timings follow from their data sheets.
    DramEnergySpec {
        /// An activate and its precharge: IDD0 for tRC, less IDD3N for tRAS and IDD2N for the rest.
        activate_pj = 3737.0,
        /// A line read: IDD4R less IDD3N for a burst.
        read_pj = 2880.0,
        /// A line written: IDD4W less IDD3N for a burst.
        write_pj = 2477.0,
        /// A refresh of the rank: IDD5B less IDD2N for tRFC.
        refresh_pj = 722_900.0,
        /// The constant power of a rank: IDD2N, and IPP.
        standby_mw_per_rank = 396.0,
        /// The additional power while the rank has a row open: IDD3N less IDD2N.
        row_open_mw_per_rank = 105.6,
    }
}

costs! {
    /// TLBs, if there is address translation. McPAT's data cache at the sizes of Skylake's TLBs,
    /// which are the default of `server.core.translation`: an entry has 16 bytes, a tag and the
    /// page-table entry. A fill costs as much as a look-up.
    TlbEnergySpec {
        /// A look-up in the first-level TLB of loads and stores, with its parts for all page sizes.
        l1_data_pj = 5.69,
        /// A look-up in the first-level TLB of instruction fetches.
        l1_instruction_pj = 6.82,
        /// A look-up in the second-level TLB.
        l2_pj = 25.4,
        /// A look-up in the caches of the upper levels of page tables, all levels at once; a fill
        /// costs as much. 44 entries, the default of `server.core.translation.structure_caches`,
        /// between the 32 of the prefetcher `streamer` and the 100 of the first-level TLB, by a
        /// power of the size.
        structure_caches_pj = 3.78,
        /// Leakage of the first-level TLB of loads and stores.
        l1_data_static_mw = 19.3,
        /// Leakage of the first-level TLB of instruction fetches.
        l1_instruction_static_mw = 22.0,
        /// Leakage of the second-level TLB.
        l2_static_mw = 52.1,
        /// Leakage of the caches of the upper levels of page tables.
        structure_caches_static_mw = 14.4,
    }
}

costs! {
    /// The tables of prefetchers: McPAT's data cache at the size of Intel's, which are the default,
    /// with 16 bytes an entry.
    PrefetcherEnergySpec {
        /// An access to the table of the prefetcher `stride`, by each load.
        stride_pj = 9.08,
        /// An access to the table of the prefetcher `streamer`, by each look-up of the second-level
        /// cache.
        streamer_pj = 3.23,
        /// Leakage of the table of `stride`.
        stride_static_mw = 27.1,
        /// Leakage of the table of `streamer`.
        streamer_static_mw = 12.8,
    }
}

costs! {
    /// The link between two sockets, if there are two. McPAT's numbers of its parts at 65 and 90
    /// nm, scaled as McPAT scales them.
    SocketLinkEnergySpec {
        /// A byte through the controllers of both ends: McPAT's PCIe controller, with the physical,
        /// the link and the transaction layer, 3.75 nJ a cycle of 350 MHz for eight lanes of 0.5
        /// GB/s each way at 65 nm and 1.1 V; times 32/65 and (0.9/1.1)^2.
        byte_pj = 54.1,
        /// The power of the transmitters and receivers of both ends for each GB/s that the link can
        /// carry each way, with and without traffic: two of 10 mW for each Gb/s at 90 nm and 1.2 V
        /// ("A 100mW 9.6Gb/s Transceiver in 90nm CMOS", ISSCC 2006), times the root of 32/90 and
        /// (0.9/1.2)^2.
        static_mw_per_gb_per_s = 53.7,
    }
}

/// The energy of a server's events, and the leakage of its components.
///
/// Defaults: where no other source is given, McPAT 1.3 (Li et al., MICRO 2009) computed the number
/// for the server of HyperPlane's Table I at 32 nm, 0.9 V, 3 GHz and 360 K; `docs/energy.md` has
/// McPAT's input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EnergySpec {
    /// Whether the numbers hold for the sizes of HyperPlane's Table I, and are scaled to other
    /// sizes of caches, queues, widths and units as McPAT scales them. `false`: they are those of
    /// what is described, as they stand.
    pub follow_sizes: bool,
    /// A core and its first-level caches.
    pub core: CoreEnergySpec,
    /// A second-level cache, if the cores have one.
    pub l2: SecondLevelEnergySpec,
    /// The banks of the last-level cache.
    pub last_level: LastLevelEnergySpec,
    /// The directory.
    pub directory: DirectoryEnergySpec,
    /// The mesh.
    pub mesh: MeshEnergySpec,
    /// Memory controllers, and the memory itself.
    pub memory: MemoryEnergySpec,
    /// The commands of DRAM, with `server.fabric.memory.dram`.
    pub dram: DramEnergySpec,
    /// TLBs, if there is address translation.
    pub tlb: TlbEnergySpec,
    /// The tables of prefetchers.
    pub prefetcher: PrefetcherEnergySpec,
    /// The link between two sockets.
    pub socket_link: SocketLinkEnergySpec,
}

impl Default for EnergySpec {
    fn default() -> EnergySpec {
        EnergySpec {
            follow_sizes: true,
            core: CoreEnergySpec::default(),
            l2: SecondLevelEnergySpec::default(),
            last_level: LastLevelEnergySpec::default(),
            directory: DirectoryEnergySpec::default(),
            mesh: MeshEnergySpec::default(),
            memory: MemoryEnergySpec::default(),
            dram: DramEnergySpec::default(),
            tlb: TlbEnergySpec::default(),
            prefetcher: PrefetcherEnergySpec::default(),
            socket_link: SocketLinkEnergySpec::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_keys_have_defaults_and_wrong_ones_a_sentence() {
        let spec: EnergySpec = serde_json::from_str(r#"{"mesh": {"link_flit_pj": 7.5}}"#).unwrap();
        assert_eq!(spec.mesh.link_flit_pj, 7.5);
        assert_eq!(spec.mesh.router_flit_pj, 40.0);
        assert!(serde_json::from_str::<EnergySpec>(r#"{"mesh": {"link_pj": 1}}"#).is_err());
        assert_eq!(spec::check(&spec), Ok(()));
    }
}
