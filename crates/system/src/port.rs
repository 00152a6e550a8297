//! The energy of a network interface's port.

use crate::Component;
use energy::{Split, leaked, spent};
use network::rack::LineRate;

energy::costs! {
    /// The port of a network interface: media access control, coding, and the transceiver. McPAT
    /// 1.3 has them in its network interface unit (`iocontrollers.cc`), of 10 Gb/s at 65 nm and 1.1
    /// V.
    PortEnergySpec {
        /// A byte through media access control and coding, in either direction: 2.19 and 0.27 nJ a
        /// cycle, in which 8 bytes pass; times 32/65 and (0.9/1.1)^2.
        byte_pj = 101.3,
        /// The power of the transceiver for each Gb/s of the link, with and without traffic: 10 mW
        /// at 90 nm and 1.2 V ("A 100mW 9.6Gb/s Transceiver in 90nm CMOS", ISSCC 2006), times the
        /// root of 32/90 and (0.9/1.2)^2.
        static_mw_per_gbit_per_s = 3.354,
    }
}

impl PortEnergySpec {
    /// The port, in the energy of a server.
    pub const COMPONENT: Component = (
        "network_port",
        "The port of the network interface: media access control, coding and transceiver.",
    );

    /// The energy of the port of a link of this `rate` in `seconds`, with `bytes` in both
    /// directions together.
    pub fn spent(&self, bytes: u64, rate: LineRate, seconds: f64) -> Split {
        let milliwatts = self.static_mw_per_gbit_per_s * rate.gbit_per_s();
        Split {
            dynamic: spent(self.byte_pj, bytes),
            leakage: leaked(milliwatts, seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_follow_from_mcpat() {
        let costs = PortEnergySpec::default();
        let byte_pj: f64 = 1e3 * (2.19 + 0.27) / 8.0 * (32.0 / 65.0) * (0.9_f64 / 1.1).powi(2);
        assert!((costs.byte_pj - byte_pj).abs() < 0.05, "{byte_pj}");
        let static_mw = 10.0 * (32.0_f64 / 90.0).sqrt() * (0.9_f64 / 1.2).powi(2);
        assert!(
            (costs.static_mw_per_gbit_per_s - static_mw).abs() < 5e-4,
            "{static_mw}"
        );
        // 200 Gb/s for a microsecond: 670.8 mW, 670.8 nJ. 1000 bytes: 101.3 nJ.
        let rate = LineRate::from_gbit_per_s(200.0);
        let split = costs.spent(1000, rate, 1e-6);
        assert!((split.leakage - 670.8).abs() < 1e-6 && (split.dynamic - 101.3).abs() < 1e-9);
    }
}
