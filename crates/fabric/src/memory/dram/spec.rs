//! The description of a channel of DRAM: a device by name, and what differs from it.

use crate::{LINE_BYTES, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, require};

/// Clock cycles of a line on the data bus: eight beats of 64 bits at two beats a cycle.
pub(super) const BURST_CYCLES: u64 = 4;

/// Idle cycles of the data bus between a read and a write: in JESD79-3 and JESD79-4 the write
/// command follows the read command after CL + BL/2 + 2 tCK - CWL.
pub(super) const TURNAROUND_CYCLES: u64 = 2;

const MAX_CYCLES: u64 = 100_000;

/// A DRAM device with eight data pins and a page of 1 KB. Eight of them make a rank of 64 bits.
///
/// Timings are those of the JEDEC speed bins (JESD79-3F for DDR3, JESD79-4B for DDR4) and of
/// Micron's data sheets (MT41J512M8 of 4 Gb, MT40A1G8 of 8 Gb), rounded up to clock cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DramDevice {
    /// DDR3-1600K, 11-11-11, 4 Gb (MT41J512M8-125).
    #[serde(rename = "ddr3-1600")]
    Ddr3_1600,
    /// DDR4-2400T, 17-17-17, 8 Gb (MT40A1G8-083).
    #[serde(rename = "ddr4-2400")]
    Ddr4_2400,
    /// DDR4-2666V, 19-19-19, 8 Gb (MT40A1G8-075).
    #[default]
    #[serde(rename = "ddr4-2666")]
    Ddr4_2666,
    /// DDR4-3200AA, 22-22-22, 8 Gb (MT40A1G8-062E).
    #[serde(rename = "ddr4-3200")]
    Ddr4_3200,
}

impl DramDevice {
    #[cfg(test)]
    pub(crate) const ALL: [DramDevice; 4] = [
        DramDevice::Ddr3_1600,
        DramDevice::Ddr4_2400,
        DramDevice::Ddr4_2666,
        DramDevice::Ddr4_3200,
    ];

    /// The clock period in nanoseconds, the bank groups, and the banks of each group.
    fn organisation(self) -> (f64, usize, usize) {
        match self {
            DramDevice::Ddr3_1600 => (1.25, 1, 8),
            DramDevice::Ddr4_2400 => (0.833_333, 4, 4),
            DramDevice::Ddr4_2666 => (0.75, 4, 4),
            DramDevice::Ddr4_3200 => (0.625, 4, 4),
        }
    }
}

/// When a row that no request waits for is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PagePolicy {
    /// When another row of its bank is needed, or its rank is refreshed.
    #[default]
    Open,
    /// As soon as the timings allow.
    Closed,
}

/// Declares the timings that can be overridden, with the values of each device.
macro_rules! timings {
    ($($(#[$meta:meta])* $field:ident: $ddr3_1600:literal, $ddr4_2400:literal, $ddr4_2666:literal,
       $ddr4_3200:literal;)*) => {
        /// Timings in place of the device's, in clock cycles.
        ///
        /// Defaults: those of the device.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct DramTimingSpec {
            $(
                $(#[$meta])*
                #[schemars(range(min = 1, max = MAX_CYCLES))]
                pub $field: Option<u64>,
            )*
        }

        /// All timings, in cycles.
        #[derive(Clone, Copy, Debug)]
        pub(super) struct Cycles {
            $(pub $field: u64,)*
        }

        impl Cycles {
            fn new(device: DramDevice, overrides: &DramTimingSpec) -> Cycles {
                Cycles {
                    $($field: overrides.$field.unwrap_or(match device {
                        DramDevice::Ddr3_1600 => $ddr3_1600,
                        DramDevice::Ddr4_2400 => $ddr4_2400,
                        DramDevice::Ddr4_2666 => $ddr4_2666,
                        DramDevice::Ddr4_3200 => $ddr4_3200,
                    }),)*
                }
            }
        }
    };
}

// In the order of the devices. The data sheet's minimum is in brackets where it is a time.
timings! {
    /// Read command to its first data (CL).
    tcl_cycles: 11, 17, 19, 22;
    /// Write command to its first data (CWL; the lower of the two that DDR4 allows).
    tcwl_cycles: 8, 12, 14, 16;
    /// Activate to read or write (tRCD).
    trcd_cycles: 11, 17, 19, 22;
    /// Precharge to activate (tRP).
    trp_cycles: 11, 17, 19, 22;
    /// Activate to precharge (tRAS: 35 ns for DDR3, 32 ns for DDR4).
    tras_cycles: 28, 39, 43, 52;
    /// Activate to activate of the same bank (tRC: tRAS and tRP).
    trc_cycles: 39, 56, 62, 74;
    /// Activate to activate in different bank groups (tRRD_S), or banks of DDR3 (tRRD: 6 ns).
    trrd_s_cycles: 5, 4, 4, 4;
    /// Activate to activate in the same bank group (tRRD_L: 4.9 ns).
    trrd_l_cycles: 5, 6, 7, 8;
    /// Window in which a rank takes at most four activates (tFAW: 30 ns for DDR3, 21 ns for DDR4).
    tfaw_cycles: 24, 26, 28, 34;
    /// Read to read, or write to write, in different bank groups (tCCD_S), or of DDR3 (tCCD).
    tccd_s_cycles: 4, 4, 4, 4;
    /// Read to read, or write to write, in the same bank group (tCCD_L: 5 ns).
    tccd_l_cycles: 4, 6, 7, 8;
    /// Last data of a write to precharge (tWR: 15 ns).
    twr_cycles: 12, 18, 20, 24;
    /// Last data of a write to a read of another bank group of the rank (tWTR_S: 2.5 ns), or of
    /// DDR3 (tWTR: 7.5 ns).
    twtr_s_cycles: 6, 3, 4, 4;
    /// Last data of a write to a read of the same bank group (tWTR_L: 7.5 ns).
    twtr_l_cycles: 6, 9, 10, 12;
    /// Read to precharge (tRTP: 7.5 ns).
    trtp_cycles: 6, 9, 10, 12;
    /// Refresh to activate (tRFC: 260 ns for 4 Gb, 350 ns for 8 Gb).
    trfc_cycles: 208, 420, 467, 560;
    /// Average interval between the refreshes of a rank (tREFI: 7.8 us up to 85 degrees Celsius).
    trefi_cycles: 6240, 9360, 10400, 12480;
    /// Data of one rank to data of another (tRTRS). Not in a standard; two cycles as gem5's `tCS`.
    trtrs_cycles: 2, 2, 2, 2;
}

/// Times of commands, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DramCommandTimes {
    /// From an activate to the precharge.
    pub tras_ns: f64,
    /// From an activate to the next one of the bank.
    pub trc_ns: f64,
    /// Of a line on the data bus.
    pub burst_ns: f64,
    /// Of a refresh of a rank.
    pub trfc_ns: f64,
    /// Between two refreshes of a rank.
    pub trefi_ns: f64,
}

/// A channel of DRAM behind each controller: ranks, bank groups, banks and rows, and the scheduling
/// of commands. It replaces the controller's `latency_ns` and `bandwidth_gb_per_s`.
///
/// Defaults: one rank of DDR4-2666. Queues, watermarks and latency are those of gem5's `MemCtrl`:
/// 32 reads, 64 writes, a drain from 85 % to 50 %, and 10 ns each before the queues and after the
/// data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DramSpec {
    /// `ddr3-1600`, `ddr4-2400`, `ddr4-2666` or `ddr4-3200`: gives the clock, banks and timings.
    pub device: DramDevice,
    /// Ranks of each channel.
    #[schemars(range(min = 1, max = 4))]
    pub ranks: usize,
    /// Bank groups of each rank, if not the device's.
    #[schemars(range(min = 1, max = 4))]
    pub bank_groups: Option<usize>,
    /// Banks of each bank group, if not the device's.
    #[schemars(range(min = 1, max = 8))]
    pub banks_per_group: Option<usize>,
    /// Bytes of a row, over all devices of a rank: a multiple of 64.
    #[schemars(range(min = LINE_BYTES, max = 1 << 20))]
    pub row_bytes: u64,
    /// Clock period in nanoseconds, if not the device's. A line takes the data bus for 4 cycles.
    #[schemars(range(min = 0.01, max = 100.0))]
    pub clock_ns: Option<f64>,
    /// Timings that differ from the device's.
    pub timings: DramTimingSpec,
    /// Whether a row without waiting requests stays `open` or is `closed`.
    pub page: PagePolicy,
    /// Nanoseconds that a read spends in the controller and its pins, besides the DRAM's own.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub controller_latency_ns: f64,
    /// The number of reads among which the scheduler chooses; further ones wait behind them.
    #[schemars(range(min = 1, max = 256))]
    pub read_queue: usize,
    /// The number of writes among which the scheduler chooses; further ones wait behind them.
    #[schemars(range(min = 1, max = 256))]
    pub write_queue: usize,
    /// The number of waiting writes that starts a drain after the next read. With fewer, writes are
    /// issued when no read waits.
    #[schemars(range(min = 1, max = 256))]
    pub write_high_watermark: usize,
    /// The number of remaining writes at which a drain ends; it also ends after
    /// `write_high_watermark` writes.
    #[schemars(range(min = 0, max = 256))]
    pub write_low_watermark: usize,
    /// The maximum number of younger requests of its queue that may delay a request, by keeping
    /// another row of its bank open, or by taking the data bus when its row is open.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_overtakes: u64,
}

impl Default for DramSpec {
    fn default() -> DramSpec {
        DramSpec {
            device: DramDevice::default(),
            ranks: 1,
            bank_groups: None,
            banks_per_group: None,
            row_bytes: 8192,
            clock_ns: None,
            timings: DramTimingSpec::default(),
            page: PagePolicy::Open,
            controller_latency_ns: 20.0,
            read_queue: 32,
            write_queue: 64,
            write_high_watermark: 54,
            write_low_watermark: 32,
            max_overtakes: 64,
        }
    }
}

impl DramSpec {
    /// Checks the relations between parameters.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        require(
            self.row_bytes.is_multiple_of(LINE_BYTES as u64),
            "row_bytes",
            self.row_bytes,
            format!("a row has whole lines of {LINE_BYTES} bytes"),
        )?;
        let (low, high) = (self.write_low_watermark, self.write_high_watermark);
        require(
            low < high,
            "write_low_watermark",
            low,
            format!("it must be below write_high_watermark, which is {high}"),
        )?;
        let of = self.cycles();
        let gaps = [
            ("timings.tccd_s_cycles", of.tccd_s_cycles),
            ("timings.tccd_l_cycles", of.tccd_l_cycles),
        ];
        for (key, cycles) in gaps {
            require(
                cycles >= BURST_CYCLES,
                key,
                cycles,
                format!("a line takes the data bus for {BURST_CYCLES} cycles"),
            )?;
        }
        // From a refresh to the end of a write whose row must be opened first.
        let access = of.trfc_cycles
            + of.trc_cycles.max(of.tras_cycles + of.trp_cycles)
            + of.trcd_cycles
            + of.tcl_cycles.max(of.tcwl_cycles)
            + BURST_CYCLES
            + of.twr_cycles
            + of.tfaw_cycles;
        require(
            of.trefi_cycles > access,
            "timings.trefi_cycles",
            of.trefi_cycles,
            format!("between two refreshes there must be time for an access: more than {access}"),
        )
    }

    /// Nanoseconds of an activate and its precharge, as tRAS and tRC, of a burst, of a refresh, and
    /// between refreshes: what the energy of the commands depends on.
    pub fn command_times(&self) -> DramCommandTimes {
        let of = self.cycles();
        let ns = |cycles: u64| cycles as f64 * self.clock().as_ns();
        DramCommandTimes {
            tras_ns: ns(of.tras_cycles),
            trc_ns: ns(of.trc_cycles),
            burst_ns: ns(BURST_CYCLES),
            trfc_ns: ns(of.trfc_cycles),
            trefi_ns: ns(of.trefi_cycles),
        }
    }

    pub(super) fn cycles(&self) -> Cycles {
        Cycles::new(self.device, &self.timings)
    }

    pub(super) fn clock(&self) -> Time {
        Time::from_ns(self.clock_ns.unwrap_or(self.device.organisation().0))
    }

    pub(super) fn bank_groups(&self) -> usize {
        self.bank_groups.unwrap_or(self.device.organisation().1)
    }

    pub(super) fn banks_per_group(&self) -> usize {
        let of_device = self.device.organisation().2;
        self.banks_per_group.unwrap_or(of_device)
    }
}
