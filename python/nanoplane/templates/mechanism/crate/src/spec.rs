//! The description of the hardware: the table `server.ready_list`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A device with a list of the queues that have items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReadyListSpec {
    /// Cycles from the arrival of a read at the device to its answer, if a queue is ready.
    #[schemars(range(min = 0, max = 1000))]
    pub lookup_cycles: u64,
}

impl Default for ReadyListSpec {
    fn default() -> ReadyListSpec {
        ReadyListSpec { lookup_cycles: 2 }
    }
}
