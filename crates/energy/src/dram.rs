//! The energy of DRAM commands, from the currents of the data sheets.
//!
//! The method is that of Micron's technical notes TN-41-01 (DDR3) and TN-40-07 (DDR4): the energy
//! of a command follows from the current of its test beyond that of standby, over the duration of
//! the test's pattern. A rank has eight chips with eight data pins each.

use crate::DramEnergySpec;
use fabric::{DramDevice, DramSpec};

/// Chips of a rank.
const CHIPS: f64 = 8.0;

/// The currents of a chip, in mA, and its supplies, in V.
struct Currents {
    vdd: f64,
    /// One bank activated and precharged every tRC.
    idd0: f64,
    /// All banks precharged.
    idd2n: f64,
    /// A row open in each bank.
    idd3n: f64,
    /// Reads without a gap.
    idd4r: f64,
    /// Writes without a gap.
    idd4w: f64,
    /// Refreshes every tRFC.
    idd5b: f64,
    /// The power of the word lines' supply in any of these, in mW.
    vpp_mw: f64,
}

impl Currents {
    /// From Micron's data sheets: MT41J512M8 (4 Gb, DDR3) and MT40A1G8 (8 Gb, DDR4, die revision
    /// B). IPP is 3 mA in standby and while banks are activated; its increase during a refresh is
    /// not counted.
    fn of(device: DramDevice) -> Currents {
        let (vdd, vpp_mw) = match device {
            DramDevice::Ddr3_1600 => (1.5, 0.0),
            _ => (1.2, 2.5 * 3.0),
        };
        let [idd0, idd2n, idd3n, idd4r, idd4w, idd5b] = match device {
            DramDevice::Ddr3_1600 => [55.0, 32.0, 38.0, 157.0, 125.0, 235.0],
            DramDevice::Ddr4_2400 => [48.0, 34.0, 43.0, 135.0, 123.0, 250.0],
            DramDevice::Ddr4_2666 => [51.0, 35.0, 46.0, 146.0, 132.0, 250.0],
            DramDevice::Ddr4_3200 => [57.0, 37.0, 52.0, 168.0, 150.0, 250.0],
        };
        Currents {
            vdd,
            idd0,
            idd2n,
            idd3n,
            idd4r,
            idd4w,
            idd5b,
            vpp_mw,
        }
    }
}

/// The energy of commands to a rank.
pub(crate) fn rank(spec: &DramSpec) -> DramEnergySpec {
    let times = spec.command_times();
    let Currents {
        vdd,
        idd0,
        idd2n,
        idd3n,
        idd4r,
        idd4w,
        idd5b,
        vpp_mw,
    } = Currents::of(spec.device);
    // mA, V and ns: picojoules.
    let chips = |ma_ns: f64| CHIPS * vdd * ma_ns;
    let precharged_ns = times.trc_ns - times.tras_ns;
    let standby = idd3n * times.tras_ns + idd2n * precharged_ns;
    DramEnergySpec {
        activate_pj: chips(idd0 * times.trc_ns - standby),
        read_pj: chips((idd4r - idd3n) * times.burst_ns),
        write_pj: chips((idd4w - idd3n) * times.burst_ns),
        refresh_pj: chips((idd5b - idd2n) * times.trfc_ns),
        standby_mw_per_rank: CHIPS * (vdd * idd2n + vpp_mw),
        row_open_mw_per_rank: CHIPS * vdd * (idd3n - idd2n),
    }
}

impl DramEnergySpec {
    /// Sets the numbers for a device or timings other than the defaults.
    pub(crate) fn follow(&mut self, spec: &DramSpec) {
        let (of, reference) = (rank(spec), rank(&DramSpec::default()));
        self.activate_pj *= of.activate_pj / reference.activate_pj;
        self.read_pj *= of.read_pj / reference.read_pj;
        self.write_pj *= of.write_pj / reference.write_pj;
        self.refresh_pj *= of.refresh_pj / reference.refresh_pj;
        self.standby_mw_per_rank *= of.standby_mw_per_rank / reference.standby_mw_per_rank;
        self.row_open_mw_per_rank *= of.row_open_mw_per_rank / reference.row_open_mw_per_rank;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The method gives the description's numbers for its default device, DDR4-2666. An activate:
    /// 51 mA for tRC, 46.5 ns, less 46 mA for tRAS, 32.25 ns, and 35 mA for the rest:
    #[test]
    fn the_default_is_ddr4_2666() {
        let (default, of) = (DramEnergySpec::default(), rank(&DramSpec::default()));
        let pairs = [
            (default.activate_pj, of.activate_pj, 389.25 * 9.6),
            (default.read_pj, of.read_pj, 100.0 * 3.0 * 9.6),
            (default.write_pj, of.write_pj, 86.0 * 3.0 * 9.6),
            (default.refresh_pj, of.refresh_pj, 215.0 * 350.25 * 9.6),
            (
                default.standby_mw_per_rank,
                of.standby_mw_per_rank,
                35.0 * 9.6 + 60.0,
            ),
            (
                default.row_open_mw_per_rank,
                of.row_open_mw_per_rank,
                11.0 * 9.6,
            ),
        ];
        for (stated, computed, expected) in pairs {
            assert!((computed / expected - 1.0).abs() < 1e-9, "{computed}");
            assert!(
                (stated / computed - 1.0).abs() < 5e-4,
                "{stated} {computed}"
            );
        }
    }

    /// Eight pins draw IDD4R for a burst, and no command of a rank has a negative cost.
    #[test]
    fn other_devices_cost_what_their_currents_say() {
        let of = |device| {
            let spec = DramSpec {
                device,
                ..DramSpec::default()
            };
            let mut costs = rank(&DramSpec::default());
            costs.follow(&spec);
            costs
        };
        // 157 less 38 mA for 5 ns at 1.5 V.
        let ddr3 = of(DramDevice::Ddr3_1600);
        assert!((ddr3.read_pj / (119.0 * 5.0 * 12.0) - 1.0).abs() < 1e-9);
        // 168 less 52 mA for 2.5 ns at 1.2 V.
        let ddr4 = of(DramDevice::Ddr4_3200);
        assert!((ddr4.read_pj / (116.0 * 2.5 * 9.6) - 1.0).abs() < 1e-9);
    }
}
