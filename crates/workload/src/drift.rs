//! Detection of drift during a measurement.
//!
//! A line is fitted to the means of batches. Its slope is tested with Student's t, with the error
//! of dependent means: neighbouring batches of a queue rise and fall together. Of series without
//! drift, one in 1000 is reported to grow, and one in 1000 to fall; the tests below count them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The 99.9 % quantile of Student's t distribution with 28 degrees of freedom: a line has two
/// parameters.
const STUDENT_T: f64 = 3.4082;
/// Above this, the run is too short to determine the dependence of its batches.
const LARGEST_CORRELATION: f64 = 0.9;
/// A smaller change, as a fraction of the mean, does not matter, however significant: response
/// times that are nearly equal differ by the phases of two clocks, which drift.
const MIN_CHANGE: f64 = 0.01;

/// The change of a quantity from the beginning to the end of the measurement, by a straight line
/// through its course.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// The growth, as a fraction of the mean.
    pub change: f64,
    /// The error of `change`: with a probability of 99.9 % on either side, the change of the
    /// underlying process does not differ by more.
    pub error: f64,
}

impl Drift {
    /// The number of batches of confidence intervals.
    pub const BATCHES: usize = 30;

    /// The drift of `values`, in order of time. `None` with fewer than 60 of them.
    pub fn of(values: impl ExactSizeIterator<Item = f64>) -> Option<Drift> {
        let length = values.len() / Drift::BATCHES;
        if length < 2 {
            return None;
        }
        let mut means = [0.0; Drift::BATCHES];
        for (place, value) in values.take(length * Drift::BATCHES).enumerate() {
            means[place / length] += value / length as f64;
        }
        Some(Drift::of_means(&means))
    }

    /// The drift of a quantity whose means in equally long batches are `means`.
    pub fn of_means(means: &[f64; Drift::BATCHES]) -> Drift {
        let count = Drift::BATCHES as f64;
        let middle = (count - 1.0) / 2.0;
        let mean = means.iter().sum::<f64>() / count;
        if mean == 0.0 {
            return Drift::default();
        }
        let places = || (0..Drift::BATCHES).map(|place| place as f64 - middle);
        let spread: f64 = places().map(|place| place * place).sum();
        let products = places().zip(means).map(|(place, one)| place * one);
        let slope = products.sum::<f64>() / spread;
        let residuals = places().zip(means);
        let residuals: Vec<f64> = residuals
            .map(|(place, one)| one - mean - slope * place)
            .collect();
        let squares: f64 = residuals.iter().map(|one| one * one).sum();
        let change = slope * count / mean;
        if squares == 0.0 {
            return Drift { change, error: 0.0 };
        }
        let neighbours: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
        // Residuals of a fitted line correlate by (2 + 4 r) / n less than the errors themselves
        // (Shaman and Stine, Journal of the American Statistical Association 83, 1988).
        let found = neighbours / squares;
        let correlation = (found + (2.0 + 4.0 * found) / count).clamp(0.0, LARGEST_CORRELATION);
        // As in `statistics.rs`: the variance is that of a first-order autoregression.
        let variance = squares / (count - 2.0) * (1.0 + correlation) / (1.0 - correlation);
        Drift {
            change,
            error: STUDENT_T * (variance / spread).sqrt() * count / mean,
        }
    }

    /// Whether the quantity grows significantly, and by more than one part in a hundred.
    pub fn grows(&self) -> bool {
        self.change > self.error.max(MIN_CHANGE)
    }

    /// Whether it falls.
    pub fn falls(&self) -> bool {
        -self.change > self.error.max(MIN_CHANGE)
    }

    /// A sentence, without its full stop, that `what` grows, if it does.
    pub fn sentence(&self, what: &str) -> Option<String> {
        self.grows().then(|| {
            format!(
                "{what} grew by {:.0} % of its mean (± {:.0} %) while it was measured",
                100.0 * self.change,
                100.0 * self.error
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, Stream};

    /// Times in an M/M/1 queue with mean service time 1 (Lindley's recursion). The first request
    /// finds the steady state if there is one, and otherwise an empty queue.
    fn queue(load: f64, requests: usize, seed: u64) -> Drift {
        let mut random = Random::new(seed, Stream::Arrivals);
        let mut time = match load < 1.0 {
            true => random.exponential() / (1.0 - load),
            false => random.exponential(),
        };
        let mut times = Vec::with_capacity(requests);
        for _ in 0..requests {
            times.push(time);
            time = (time - random.exponential() / load).max(0.0) + random.exponential();
        }
        Drift::of(times.into_iter()).expect("there are enough")
    }

    fn count(runs: u64, is: impl Fn(u64) -> bool) -> usize {
        (0..runs).filter(|&seed| is(seed)).count()
    }

    /// One in 500 drifts up or down by chance, so of 1000 runs 2, and with probability 99.9 % at
    /// most 8. At a load of 0.9, times are correlated over 380 service times: 2000 requests are six
    /// times that.
    #[test]
    fn a_queue_in_a_steady_state_does_not_drift() {
        for (load, requests) in [(0.5, 2000), (0.8, 2000), (0.9, 2000), (0.9, 20_000)] {
            let drifting = count(1000, |seed| {
                let drift = queue(load, requests, seed);
                drift.grows() || drift.falls()
            });
            assert!(drifting <= 8, "{load}, {requests}: {drifting} of 1000");
        }
    }

    /// With a load of 1.3, times in the queue grow by 0.3 a request, which 2000 requests always
    /// show; with
    #[test]
    fn an_overloaded_queue_grows() {
        for (load, requests, least) in [(1.3, 2000, 200), (1.1, 2000, 140), (1.05, 20_000, 195)] {
            let growing = count(200, |seed| queue(load, requests, seed).grows());
            assert!(growing >= least, "{load}, {requests}: {growing} of 200");
            assert_eq!(count(200, |seed| queue(load, requests, seed).falls()), 0);
        }
    }

    #[test]
    fn a_line_is_found_exactly() {
        // From 100 to 200 in 3000 steps: a change of 100 around a mean of 150, less half a batch at
        // each end.
        let values = (0..3000u32).map(|place| 100.0 + f64::from(place) / 30.0);
        let drift = Drift::of(values).expect("there are enough");
        assert!((drift.change - 100.0 / 150.0).abs() < 1e-3, "{drift:?}");
        assert!(drift.grows() && !drift.falls());
        let text = drift.sentence("latency").expect("it grows");
        assert_eq!(
            text,
            "latency grew by 67 % of its mean (± 0 %) while it was measured"
        );
        let back = (0..3000u32).map(|place| 200.0 - f64::from(place) / 30.0);
        let drift = Drift::of(back).expect("there are enough");
        assert!(drift.falls() && !drift.grows() && drift.sentence("latency").is_none());
    }

    #[test]
    fn what_hardly_changes_does_not_drift() {
        let drift = |step: f64| {
            let values = (0..3000u32).map(|place| 100.0 + step * f64::from(place));
            Drift::of(values).expect("there are enough").grows()
        };
        // In 3000 steps it changes by 0.9 and 1.2, of 100.
        assert!(!drift(0.0) && !drift(0.0003) && drift(0.0004));
        assert_eq!(Drift::of([0.0; 60].into_iter()), Some(Drift::default()));
        assert_eq!(Drift::of([1.0; 59].into_iter()), None);
    }
}
