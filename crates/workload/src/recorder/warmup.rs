//! How much of the beginning of a run is not measured.

use super::measurement::gaps_us;
use super::sample::Sample;
use crate::statistics::{min_error, mser};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of the beginning of a run is not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Warmup {
    /// What the rule MSER-5 says of latencies; where rings are full, what it says of slots that are
    /// used for the first time and of the times between completions.
    #[default]
    Auto,
    /// This many requests.
    #[serde(untagged)]
    Requests(#[schemars(range(max = 1_000_000_000))] u64),
}

/// The rings of the queues that have traffic, in a run that keeps them full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// How many queues have traffic.
    pub queues: usize,
    /// How many slots the ring of each has.
    pub slots: usize,
}

impl Rings {
    /// How many requests go once round all rings.
    pub(super) fn lap(self) -> usize {
        self.queues.saturating_mul(self.slots).max(1)
    }
}

/// From which request on slots are no longer used for the first time, after MSER: what may go on
/// are those of queues that are hardly served. `None` while most requests are cold, which may be
/// because all are.
pub(super) fn end_of_cold(samples: &[Sample]) -> Option<usize> {
    let cold: Vec<f64> = samples
        .iter()
        .map(|sample| f64::from(u8::from(sample.is_cold)))
        .collect();
    let is_most = 2.0 * cold.iter().sum::<f64>() > cold.len() as f64;
    if is_most { None } else { min_error(&cold) }
}

/// From which request on the times between completions have settled; `None` if that is in the
/// second half.
///
/// The first request if there are less than ten laps: of those MSER would choose among less than
/// five cuts, and over a part of a lap a mean differs from that of another.
pub(super) fn end_of_drift(samples: &[Sample], rings: Rings) -> Option<usize> {
    const MIN_LAPS: usize = 10;
    // Not less than the batches of MSER-5.
    let length = rings.lap() * 5usize.div_ceil(rings.lap());
    let laps: Vec<f64> = gaps_us(samples)
        .chunks_exact(length)
        .map(|lap| lap.iter().sum::<f64>() / length as f64)
        .collect();
    if laps.len() < MIN_LAPS {
        return Some(0);
    }
    Some(mser(&laps)? * length)
}
