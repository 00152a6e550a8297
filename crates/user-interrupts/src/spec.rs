//! The description of user-level interrupts.

use pipeline::Delivery;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens to instructions in flight when an interrupt is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryKind {
    /// They are undone, as in Intel's processors.
    Flushing,
    /// They go on, and the interrupt follows them through the pipeline: xUI.
    #[default]
    Tracked,
}

impl From<DeliveryKind> for Delivery {
    fn from(kind: DeliveryKind) -> Delivery {
        match kind {
            DeliveryKind::Flushing => Delivery::Flushing,
            DeliveryKind::Tracked => Delivery::Tracked,
        }
    }
}

energy::costs! {
    /// The energy of user-level interrupts, from McPAT's numbers in `server.energy`, by the rules
    /// for other sizes. A hart's registers are a file of 16 of 64 bits with the ports of a core of
    /// width 1; the routes of devices' interrupts are a table of 1024 entries of 8 bytes, as the
    /// directory is. Descriptors and targets are in memory, and count as its accesses do.
    UserInterruptEnergySpec {
        /// A write of a hart's register: by an instruction, a notice or the timer. What
        /// instructions read is not counted: 1.6 pJ each.
        register_write_pj = 2.30,
        /// A delivery: two reads (handler, requests), three writes (program counter, vector,
        /// requests), and an integer operation that finds the highest of 64 vectors.
        delivery_pj = 64.6,
        /// A look-up of the route of a device's interrupt.
        look_up_pj = 11.5,
        /// A notice over a router and a link of the mesh, as a flit of 16 bytes.
        hop_pj = 91.0,
        /// Leakage of a hart's registers.
        hart_static_mw = 1.01,
        /// Leakage of the routes.
        routes_static_mw = 6.98,
    }
}

/// User-level interrupts.
///
/// Defaults: Aydogmus et al., "Extended User Interrupts (xUI)", ASPLOS 2025.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UserInterruptSpec {
    /// What happens to instructions in flight when an interrupt is delivered: `tracked` lets them
    /// continue (xUI), `flushing` squashes them (Intel's processors).
    pub delivery: DeliveryKind,
    /// Whether a device's interrupt goes straight to the hart (xUI's interrupt forwarding). If not,
    /// it is posted in the descriptor in memory as an interrupt from another hart is.
    pub forwarding: bool,
    /// The energy of its events, and its leakage.
    pub energy: UserInterruptEnergySpec,
}

impl Default for UserInterruptSpec {
    fn default() -> UserInterruptSpec {
        UserInterruptSpec {
            delivery: DeliveryKind::Tracked,
            forwarding: true,
            energy: UserInterruptEnergySpec::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `crates/energy/src/sizes.rs` has these factors of registers and of the directory. Below the
    /// smallest two sizes a cost is a power of the size, so each halving divides by the same
    /// factor.
    #[test]
    fn defaults_follow_from_mcpat() {
        let energy = UserInterruptEnergySpec::default();
        let near = |value: f64, expected: f64| {
            assert!((value - expected).abs() < 0.005 * expected, "{expected}");
        };
        // 64 registers to 16 are two halvings, and so are 4096 entries to 1024.
        let two_halvings = |smaller: f64, larger: f64| smaller * (smaller / larger).powi(2);
        let file = 0.243 * two_halvings(0.453, 0.525);
        let (read, write) = (19.9 * file, 28.1 * file);
        near(energy.register_write_pj, write);
        near(energy.delivery_pj, 2.0 * read + 3.0 * write + 54.4);
        near(energy.look_up_pj, 40.6 * two_halvings(0.501, 0.666));
        near(energy.hop_pj, 40.0 + 51.0);
        // Of 60.6 mW the registers leak 25.6, and the bypass network the rest.
        near(
            energy.hart_static_mw,
            25.6 * 0.157 * two_halvings(0.417, 0.536),
        );
        near(energy.routes_static_mw, 71.5 * two_halvings(0.362, 0.697));
    }
}
