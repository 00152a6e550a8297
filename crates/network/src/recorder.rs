//! The record of latencies, and what is reported of them.

use crate::statistics::{mean_interval, mser5, quantile, quantile_interval};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fabric::Time;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A 95 % confidence interval: its lower and its upper end.
pub type Interval = [f64; 2];

/// How much of the beginning of a run is not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Warmup {
    /// What the rule MSER-5 says.
    #[default]
    Auto,
    /// This many requests.
    #[serde(untagged)]
    Requests(u64),
}

/// Latencies in nanoseconds. Percentiles are exact order statistics of the samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySummary {
    /// Mean.
    pub mean: f64,
    /// Half of the requests take at most this.
    pub p50: f64,
    /// 90 % of the requests take at most this.
    pub p90: f64,
    /// 99 % of the requests take at most this.
    pub p99: f64,
    /// 99.9 % of the requests take at most this.
    pub p999: f64,
    /// The longest.
    pub max: f64,
    /// How many requests were measured.
    pub samples: u64,
    /// 95 % confidence interval of the mean, by batch means; `None` with less than 60 samples.
    pub mean_ci95: Option<Interval>,
    /// 95 % confidence interval of `p50`.
    pub p50_ci95: Option<Interval>,
    /// 95 % confidence interval of `p90`.
    pub p90_ci95: Option<Interval>,
    /// 95 % confidence interval of `p99`.
    pub p99_ci95: Option<Interval>,
    /// 95 % confidence interval of `p999`.
    pub p999_ci95: Option<Interval>,
}

/// What was measured in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// Requests that completed in the measured time, in millions a second.
    pub throughput_mrps: f64,
    /// From an item's arrival in its queue to the ring of the tenant's doorbell.
    pub latency_ns: LatencySummary,
    /// How many requests at the beginning are left out.
    pub warmup_samples: u64,
    /// Whether the rule for the warm-up found its end. If not, the run was too short, or the
    /// system does not settle: only the last `requests` are measured, and they may still change
    /// with time.
    pub steady: bool,
    /// An HdrHistogram of the latencies in nanoseconds, with four digits (1 ns up to 32 us), as
    /// in HdrHistogram's log files: V2, compressed, in base64.
    pub histogram: String,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    completed_at: Time,
    latency: Time,
}

/// Without an end of the warm-up in sight, a run is this many times as long as asked.
const PATIENCE: usize = 5;

/// Keeps the latency of every request, in the order in which the tenants took them.
///
/// Says when it has enough: `requests` of them behind the warm-up. The decision depends on the
/// samples only, not on when it is asked.
#[derive(Clone, Debug)]
pub struct Recorder {
    requests: usize,
    warmup: Warmup,
    samples: Vec<Sample>,
    next_check: usize,
    /// Where the measured part begins, and whether the system was steady from there on.
    done: Option<(usize, bool)>,
}

impl Recorder {
    /// A recorder that wants `requests` (at least 1) requests behind the warm-up.
    pub fn new(requests: u64, warmup: Warmup) -> Recorder {
        let requests = (requests as usize).max(1);
        Recorder {
            requests,
            warmup,
            samples: Vec::new(),
            next_check: match warmup {
                Warmup::Auto => requests,
                Warmup::Requests(cut) => requests.saturating_add(cut as usize),
            },
            done: None,
        }
    }

    /// Adds a request; nothing once [`Recorder::is_done`].
    pub fn record(&mut self, completed_at: Time, latency: Time) {
        if self.done.is_some() {
            return;
        }
        self.samples.push(Sample {
            completed_at,
            latency,
        });
        if self.samples.len() < self.next_check {
            return;
        }
        let recorded = self.samples.len();
        match self.cut() {
            Some(cut) if recorded - cut >= self.requests => self.done = Some((cut, true)),
            Some(cut) => self.next_check = cut + self.requests,
            None if recorded >= PATIENCE.saturating_mul(self.requests) => {
                self.done = Some((recorded - self.requests, false));
            }
            None => self.next_check = recorded + self.requests.div_ceil(2),
        }
    }

    /// The end of the warm-up in what is recorded up to now.
    fn cut(&self) -> Option<usize> {
        match self.warmup {
            Warmup::Auto => mser5(&latencies_ns(&self.samples)),
            Warmup::Requests(cut) => Some((cut as usize).min(self.samples.len())),
        }
    }

    /// Whether there are enough requests.
    pub fn is_done(&self) -> bool {
        self.done.is_some()
    }

    /// When the last request that was needed completed.
    pub fn done_at(&self) -> Option<Time> {
        self.done?;
        self.samples.last().map(|sample| sample.completed_at)
    }

    /// How many requests have been recorded.
    pub fn recorded(&self) -> u64 {
        self.samples.len() as u64
    }

    /// What there is to report; `None` if nothing was recorded. Before it is done: of what there
    /// is.
    pub fn measurement(&self) -> Option<Measurement> {
        let (cut, steady) = self.done.unwrap_or_else(|| match self.cut() {
            Some(cut) => (cut, true),
            None => (0, false),
        });
        let measured = &self.samples[cut..];
        let first = measured.iter().map(|sample| sample.completed_at).min()?;
        let last = measured.iter().map(|sample| sample.completed_at).max()?;

        let values = latencies_ns(measured);
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let interval = |probability| quantile_interval(&values, &sorted, probability);
        let seconds = (last - first).as_seconds();
        Some(Measurement {
            throughput_mrps: if seconds > 0.0 {
                (measured.len() - 1) as f64 / seconds / 1e6
            } else {
                0.0
            },
            latency_ns: LatencySummary {
                mean: values.iter().sum::<f64>() / values.len() as f64,
                p50: quantile(&sorted, 0.5),
                p90: quantile(&sorted, 0.9),
                p99: quantile(&sorted, 0.99),
                p999: quantile(&sorted, 0.999),
                max: quantile(&sorted, 1.0),
                samples: values.len() as u64,
                mean_ci95: mean_interval(&values),
                p50_ci95: interval(0.5),
                p90_ci95: interval(0.9),
                p99_ci95: interval(0.99),
                p999_ci95: interval(0.999),
            },
            warmup_samples: cut as u64,
            steady,
            histogram: histogram(&values),
        })
    }
}

fn latencies_ns(samples: &[Sample]) -> Vec<f64> {
    samples
        .iter()
        .map(|sample| sample.latency.as_ns())
        .collect()
}

/// The histogram of [`Measurement::histogram`]. Building and writing it cannot fail for the
/// constants used here; if it did, the field would be empty.
fn histogram(values_ns: &[f64]) -> String {
    let Ok(mut histogram) = Histogram::<u64>::new(4) else {
        return String::new();
    };
    for &value in values_ns {
        histogram.saturating_record(value.round() as u64);
    }
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(&histogram, &mut bytes) {
        Ok(_) => STANDARD.encode(bytes),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, Stream};
    use hdrhistogram::serialization::Deserializer;

    fn ns(nanoseconds: f64) -> Time {
        Time::from_ns(nanoseconds)
    }

    #[test]
    fn a_known_series() {
        let mut recorder = Recorder::new(1000, Warmup::Requests(10));
        for number in 0..10 {
            recorder.record(ns(f64::from(number)), ns(1e6));
        }
        for number in 1..=1000 {
            assert!(!recorder.is_done());
            recorder.record(ns(100.0 * f64::from(number)), ns(f64::from(number)));
        }
        assert!(recorder.is_done());
        recorder.record(ns(1e9), ns(1e9)); // Comes too late to count.
        let measurement = recorder.measurement().unwrap();
        assert_eq!(measurement.warmup_samples, 10);
        assert!((measurement.throughput_mrps - 10.0).abs() < 1e-9);
        let latency = &measurement.latency_ns;
        assert_eq!(
            (
                latency.mean,
                latency.p50,
                latency.p99,
                latency.p999,
                latency.max,
                latency.samples
            ),
            (500.5, 500.0, 990.0, 999.0, 1000.0, 1000)
        );

        let bytes = STANDARD.decode(&measurement.histogram).unwrap();
        let histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .unwrap();
        assert_eq!(
            (histogram.len(), histogram.value_at_quantile(0.5)),
            (1000, 500)
        );
    }

    #[test]
    fn enough_is_counted_behind_the_warmup() {
        let mut random = Random::new(1, Stream::Arrivals);
        let mut recorder = Recorder::new(5000, Warmup::Auto);
        let mut number = 0.0;
        while !recorder.is_done() {
            let base = if number < 1500.0 { 5000.0 } else { 1000.0 };
            recorder.record(ns(100.0 * number), ns(base + 100.0 * random.exponential()));
            number += 1.0;
        }
        let measurement = recorder.measurement().unwrap();
        assert!(measurement.steady);
        assert!(measurement.latency_ns.samples >= 5000);
        assert!((1500..1600).contains(&measurement.warmup_samples));
        let [low, high] = measurement.latency_ns.mean_ci95.unwrap();
        assert!(low < 1100.0 && 1100.0 < high);
    }

    #[test]
    fn what_never_settles_is_said_to_be_unsteady() {
        let mut recorder = Recorder::new(1000, Warmup::Auto);
        let mut number = 0.0;
        while !recorder.is_done() {
            recorder.record(ns(number), ns(number));
            number += 1.0;
        }
        let measurement = recorder.measurement().unwrap();
        assert_eq!(recorder.recorded(), 5000);
        assert!(!measurement.steady);
        assert_eq!(measurement.latency_ns.samples, 1000);
    }

    #[test]
    fn nothing_recorded_is_nothing_to_report() {
        assert_eq!(Recorder::new(10, Warmup::Auto).measurement(), None);
    }

    #[test]
    fn warmup_is_a_word_or_a_number() {
        assert_eq!(
            serde_json::from_str::<Warmup>("\"auto\"").unwrap(),
            Warmup::Auto
        );
        assert_eq!(
            serde_json::from_str::<Warmup>("7").unwrap(),
            Warmup::Requests(7)
        );
        assert_eq!(serde_json::to_string(&Warmup::Auto).unwrap(), "\"auto\"");
        assert_eq!(serde_json::to_string(&Warmup::Requests(7)).unwrap(), "7");
    }

    /// An M/D/1 queue: what is recorded obeys Little's law and the Pollaczek-Khinchine formula.
    #[test]
    fn littles_law_holds() {
        let service = 1000.0;
        let mut process = crate::ArrivalProcess::new(
            crate::Arrivals::Poisson,
            0.7,
            1.0,
            Random::new(5, Stream::Arrivals),
        );
        let mut recorder = Recorder::new(200_000, Warmup::Requests(1000));
        let (mut arrival, mut free_at) = (0.0f64, 0.0f64);
        let (mut in_system, mut end) = (0.0, 0.0);
        while !recorder.is_done() {
            arrival += process.next_arrival().gap.as_ns();
            free_at = arrival.max(free_at) + service;
            in_system += free_at - arrival;
            end = free_at;
            recorder.record(ns(free_at), ns(free_at - arrival));
        }
        let measurement = recorder.measurement().unwrap();
        let mean = measurement.latency_ns.mean;
        let number = in_system / end;
        let little = measurement.throughput_mrps / 1e3 * mean;
        assert!((little / number - 1.0).abs() < 0.01, "{little} {number}");
        let expected = service * (1.0 + 0.7 / (2.0 * 0.3));
        let [low, high] = measurement.latency_ns.mean_ci95.unwrap();
        assert!(low < expected && expected < high, "{low} {expected} {high}");
    }
}
