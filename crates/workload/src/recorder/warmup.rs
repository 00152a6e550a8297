//! The warm-up: the initial part of a run that is not measured.

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
    /// Number of requests in one lap of all rings.
    pub(super) fn lap(self) -> usize {
        self.queues.saturating_mul(self.slots).max(1)
    }
}

/// The first request after which slots are no longer used for the first time, by MSER: any later
/// ones are those of queues that are hardly served. `None` while most requests are cold, which may
/// be because all are.
pub(super) fn end_of_cold(samples: &[Sample]) -> Option<usize> {
    let cold: Vec<f64> = samples
        .iter()
        .map(|sample| f64::from(u8::from(sample.is_cold)))
        .collect();
    let is_most = 2.0 * cold.iter().sum::<f64>() > cold.len() as f64;
    if is_most { None } else { min_error(&cold) }
}

/// The first request after which the times between completions have settled; `None` if that is in
/// the second half.
///
/// It is the first request if there are fewer than ten laps: MSER would choose among fewer than
/// five cuts, and means over parts of laps are not comparable.
pub(super) fn end_of_drift(samples: &[Sample], rings: Rings) -> Option<usize> {
    const MIN_LAPS: usize = 10;
    // At least the batches of MSER-5.
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
