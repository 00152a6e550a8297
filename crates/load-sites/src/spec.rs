//! The description of the instrument.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An instrument that counts accesses and distinct lines of each load instruction.
///
/// It changes no other result, but makes the simulation slower. A server with it cannot be saved as
/// a checkpoint. For each distinct line of each instruction it takes some 16 bytes of the host's
/// memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoadSitesSpec {
    /// The functions whose loads are counted, by their symbols; all if there are none here.
    pub functions: Vec<String>,
    /// The maximum number of instructions in the result: those executed most often.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub sites: usize,
}

impl Default for LoadSitesSpec {
    fn default() -> Self {
        Self {
            functions: Vec::new(),
            sites: 256,
        }
    }
}
