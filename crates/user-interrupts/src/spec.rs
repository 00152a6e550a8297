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

/// User-level interrupts.
///
/// Defaults: Aydogmus et al., "Extended User Interrupts (xUI)", ASPLOS 2025.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UserInterruptSpec {
    /// What happens to instructions in flight when an interrupt is delivered: `tracked` lets them
    /// go on (xUI), `flushing` undoes them (Intel's processors).
    pub delivery: DeliveryKind,
    /// Whether a device's interrupt goes straight to the hart (xUI's interrupt forwarding). If not,
    /// it is posted in the descriptor in memory as an interrupt from another hart is.
    pub forwarding: bool,
}

impl Default for UserInterruptSpec {
    fn default() -> UserInterruptSpec {
        UserInterruptSpec {
            delivery: DeliveryKind::Tracked,
            forwarding: true,
        }
    }
}
