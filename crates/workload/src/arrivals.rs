//! The arrival times of items.

use crate::Random;
use fabric::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::{State, Walker};

/// The kind of the arrival process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Items arrive one by one, with exponentially distributed gaps (HyperPlane, Section V-B).
    #[default]
    Poisson,
    /// Items arrive one by one, with equal gaps.
    Fixed,
    /// Bursts of items for one queue arrive with exponentially distributed gaps. All items of a
    /// burst arrive at one time; their number is geometric with mean `burst_length`.
    Bursty,
}

/// One arrival: of one item or, with [`Arrivals::Bursty`], of several for the same queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time since the previous arrival.
    pub gap: Time,
    /// Number of items, at least 1.
    pub items: u64,
}

impl State for Arrival {
    fn walk(&mut self, walker: &mut dyn Walker) {
        // A gap is a duration, not a point in time.
        let mut gap_fs = self.gap.as_fs();
        gap_fs.walk(walker);
        self.gap = Time::from_fs(gap_fs);
        self.items.walk(walker);
    }
}

/// Draws arrivals.
#[derive(Clone, Debug, state::State)]
pub struct ArrivalProcess {
    #[state(fixed)]
    arrivals: Arrivals,
    #[state(fixed)]
    mean_gap_fs: f64,
    #[state(fixed)]
    burst_length: f64,
    random: Random,
}

impl ArrivalProcess {
    /// A process in which `rate_mrps` is the rate of all items, in millions a second, above 0;
    /// `burst_length` only applies to [`Arrivals::Bursty`], and is at least 1.
    pub fn new(
        arrivals: Arrivals,
        rate_mrps: f64,
        burst_length: f64,
        random: Random,
    ) -> ArrivalProcess {
        let burst_length = if arrivals == Arrivals::Bursty {
            burst_length
        } else {
            1.0
        };
        ArrivalProcess {
            arrivals,
            mean_gap_fs: 1e9 / rate_mrps * burst_length,
            burst_length,
            random,
        }
    }

    /// The next arrival.
    pub fn next_arrival(&mut self) -> Arrival {
        let factor = match self.arrivals {
            Arrivals::Fixed => 1.0,
            Arrivals::Poisson | Arrivals::Bursty => self.random.exponential(),
        };
        let mut items = 1;
        while self.burst_length > 1.0 && self.random.unit() >= 1.0 / self.burst_length {
            items += 1;
        }
        Arrival {
            gap: Time::from_fs((self.mean_gap_fs * factor).round() as u64),
            items,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    fn process(arrivals: Arrivals) -> ArrivalProcess {
        ArrivalProcess::new(arrivals, 2.0, 8.0, Random::new(1, Stream::Arrivals))
    }

    /// Items a microsecond over many arrivals, and the squared coefficient of variation of gaps.
    fn rate_and_variation(arrivals: Arrivals) -> (f64, f64) {
        let mut process = process(arrivals);
        let count = 100_000;
        let (mut items, mut sum, mut squares) = (0, 0.0, 0.0);
        for _ in 0..count {
            let arrival = process.next_arrival();
            items += arrival.items;
            sum += arrival.gap.as_ns();
            squares += arrival.gap.as_ns().powi(2);
        }
        let mean = sum / f64::from(count);
        (
            items as f64 / sum * 1e3,
            (squares / f64::from(count) - mean * mean) / (mean * mean),
        )
    }

    #[test]
    fn rates_are_as_asked() {
        let (rate, variation) = rate_and_variation(Arrivals::Poisson);
        assert!((rate - 2.0).abs() < 0.02, "{rate}");
        assert!((variation - 1.0).abs() < 0.03, "{variation}");
        let (rate, variation) = rate_and_variation(Arrivals::Fixed);
        assert!((rate - 2.0).abs() < 1e-9, "{rate}");
        assert!(variation.abs() < 1e-9, "{variation}");
        let (rate, variation) = rate_and_variation(Arrivals::Bursty);
        assert!((rate - 2.0).abs() < 0.03, "{rate}");
        assert!((variation - 1.0).abs() < 0.03, "{variation}");
    }

    #[test]
    fn counts_in_a_microsecond_are_poisson() {
        let mut process = process(Arrivals::Poisson);
        let microseconds = 50_000;
        let mut counts = [0u32; 8]; // The last for 7 and more.
        let mut at = 0.0;
        let mut arrivals = process.next_arrival().gap.as_ns();
        for _ in 0..microseconds {
            at += 1e3;
            let mut count = 0;
            while arrivals < at {
                count += 1;
                arrivals += process.next_arrival().gap.as_ns();
            }
            counts[count.min(7)] += 1;
        }
        let mut probability = (-2.0f64).exp();
        let mut rest = 1.0;
        let mut chi_square = 0.0;
        for (count, &seen) in counts.iter().enumerate() {
            let expected = f64::from(microseconds) * if count < 7 { probability } else { rest };
            chi_square += (f64::from(seen) - expected).powi(2) / expected;
            rest -= probability;
            probability *= 2.0 / (count as f64 + 1.0);
        }
        // 7 degrees of freedom: below 24.3 with probability 99.9 %.
        assert!(chi_square < 24.3, "{chi_square}");
    }

    #[test]
    fn bursts_are_geometric() {
        let mut process = process(Arrivals::Bursty);
        let count = 100_000;
        let (mut sum, mut ones) = (0, 0);
        for _ in 0..count {
            let items = process.next_arrival().items;
            sum += items;
            ones += u32::from(items == 1);
        }
        let mean = sum as f64 / f64::from(count);
        assert!((mean - 8.0).abs() < 0.1, "{mean}");
        let single = f64::from(ones) / f64::from(count);
        assert!((single - 0.125).abs() < 0.005, "{single}");
    }
}
