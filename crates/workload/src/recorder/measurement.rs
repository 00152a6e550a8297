//! Reports about requests: rates, latencies with their intervals, histograms.

use super::controlled::ControlledLatency;
use super::sample::Sample;
use crate::drift::Drift;
use crate::statistics::{mean_interval, quantile, quantile_interval};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fabric::Time;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A 95 % confidence interval: its lower and its upper end.
pub type Interval = [f64; 2];

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
    /// The number of measured requests.
    pub samples: u64,
    /// 95 % confidence interval of the mean, by means of batches of whole rounds over the queues;
    /// `None` with less than 60 samples, or less than five rounds.
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

/// The measurements of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// Requests that completed in the measured time, in millions a second.
    pub throughput_mrps: f64,
    /// 95 % confidence interval of `throughput_mrps`, by means of batches of the times between
    /// completions; `None` with less than 61 samples, or less than five rounds over the queues.
    pub throughput_mrps_ci95: Option<Interval>,
    /// From an item's arrival in its queue to the ring of the tenant's doorbell.
    pub latency_ns: LatencySummary,
    /// Mean and p99 of the latency with less variance, by an ideal queue with the run's own arrivals
    /// and service times: one queue for all cores, which Poisson arrivals come to. `None` where
    /// requests come in another way, the service times are not known or the ideal queue would be
    /// saturated.
    pub latency_ns_controlled: Option<ControlledLatency>,
    /// The number of requests omitted as warm-up.
    pub warmup_samples: u64,
    /// The number of measured requests in slots of their queue's ring that were used for the first
    /// time, that is, in memory that no cache had. Only the rings of I/O sources count.
    pub cold_samples: u64,
    /// Whether the rule found the end of the warm-up, and neither latency nor the number of
    /// requests in flight drifts after it. If not, the run was too short, or the system does not
    /// settle: the measurements may still change with time. If the rule found no end, only the last
    /// `requests` are measured. Drift means nothing where rings are kept full: latencies then
    /// reflect their length.
    pub steady: bool,
    /// Requests that arrived, including dropped ones, in millions a second, between the first and
    /// the last measured request. `None` if they all arrived at one time.
    pub offered_mrps: Option<f64>,
    /// The change of latency and of the number of requests in flight with time; `None` with fewer
    /// than 60 samples, or for several recorders together.
    pub drift: Option<Drifts>,
    /// Whether the system serves the offered load, that is, `overload` is empty. False if the
    /// system is saturated on purpose.
    pub keeps_up: bool,
    /// The reasons why the system does not keep up, a sentence each: requests were lost, fewer were
    /// served than arrived, or their number or latency grows.
    pub overload: Vec<String>,
    /// Whether the 95 % confidence interval is as narrow as `measure.precision` asks: that of the
    /// throughput of a saturated data plane or of a closed loop of clients that do not think, and
    /// otherwise that of the p99; true without this key. If false, more than `measure.requests` are
    /// needed, or the run was not steady.
    pub precise: bool,
    /// An HdrHistogram of the latencies in nanoseconds, with four digits (1 ns up to 32 us), as
    /// in HdrHistogram's log files: V2, compressed, in base64.
    pub histogram: String,
    /// The time that harts worked on the requests: from the take of an item, when it is counted off
    /// its queue, to the ring of the tenant's doorbell; for later items of a batch, from the
    /// previous ring. `None` if no take was observed.
    pub service_ns: Option<LatencySummary>,
    /// A histogram of the times of `service_ns`, in the form of `histogram`.
    pub service_histogram: Option<String>,
}

impl Measurement {
    /// Adds reasons why the system does not keep up with its offered load.
    pub fn add_overload(&mut self, reasons: impl IntoIterator<Item = String>) {
        self.overload.extend(reasons);
        self.keeps_up = self.overload.is_empty();
    }
}

/// "1 request was dropped", "2 requests were dropped"; `None` if there are none.
pub fn lost_requests(count: u64, what: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 request was {what}")),
        _ => Some(format!("{count} requests were {what}")),
    }
}

/// Quantities that may change with time in the measured part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drifts {
    /// Latency, in the order in which requests completed.
    pub latency: Drift,
    /// The number of requests in flight at the arrival of each, including itself.
    pub under_way: Drift,
}

impl Drifts {
    pub(super) fn of(measured: &[Sample]) -> Option<Drifts> {
        Some(Drifts {
            latency: Drift::of(measured.iter().map(|sample| sample.latency.as_ns()))?,
            under_way: Drift::of(measured.iter().map(|sample| sample.under_way as f64))?,
        })
    }

    /// Whether any of them drifts.
    pub(super) fn is_any(&self) -> bool {
        let both = [self.latency, self.under_way];
        both.iter().any(|drift| drift.grows() || drift.falls())
    }
}

/// The requests of one kind, or of some queues.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindMeasurement {
    /// Requests of the kind that completed in the measured time, in millions a second.
    pub throughput_mrps: f64,
    /// From an item's arrival in its queue to the ring of the tenant's doorbell.
    pub latency_ns: LatencySummary,
    /// An HdrHistogram of the latencies in nanoseconds: V2, compressed, in base64.
    pub histogram: String,
    /// The time that harts worked on the requests; `None` if no take was observed.
    pub service_ns: Option<LatencySummary>,
    /// A histogram of the times of `service_ns`, in the form of `histogram`.
    pub service_histogram: Option<String>,
}

/// One queue's part of the measured requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueLatency {
    /// How many of the measured requests were in it.
    pub samples: u64,
    /// The mean of their latencies, in nanoseconds; `None` without samples.
    pub mean_ns: Option<f64>,
    /// 99 % of them take at most this, in nanoseconds.
    pub p99_ns: Option<f64>,
}

/// The rate of requests, of which the first begins the period and the last ends it.
fn rate_mrps(requests: usize, time: Time) -> f64 {
    let seconds = time.as_seconds();
    if seconds > 0.0 {
        (requests - 1) as f64 / seconds / 1e6
    } else {
        0.0
    }
}

/// The rate at which requests completed; `None` without requests.
pub(super) fn throughput_mrps(measured: &[Sample]) -> Option<f64> {
    let times = || measured.iter().map(|sample| sample.completed_at);
    Some(rate_mrps(measured.len(), times().max()? - times().min()?))
}

/// The rate at which requests arrived; `None` if they arrived at one time.
pub(super) fn offered_mrps(measured: &[Sample]) -> Option<f64> {
    let first = measured.iter().min_by_key(|sample| sample.offered)?;
    let last = measured.iter().max_by_key(|sample| sample.offered)?;
    let seconds = last.came_at().saturating_sub(first.came_at()).as_seconds();
    (seconds > 0.0).then(|| (last.offered - first.offered) as f64 / seconds / 1e6)
}

/// The intervals in which those requests were in flight whose latencies exceed the quantile
/// `probability`.
pub(super) fn slower_than(measured: &[Sample], probability: f64) -> Vec<Range<Time>> {
    let mut sorted = latencies_ns(measured);
    sorted.sort_unstable_by(f64::total_cmp);
    if sorted.is_empty() {
        return Vec::new();
    }
    let limit = quantile(&sorted, probability);
    measured
        .iter()
        .filter(|sample| sample.latency.as_ns() > limit)
        .map(|sample| sample.completed_at.saturating_sub(sample.latency)..sample.completed_at)
        .collect()
}

/// A load is light if at most one request in this many finds another one in flight: by PASTA a
/// server is then busy for a tenth of the time, and the mean wait of M/D/1 is 0.06 of a service
/// time. Neighbouring latencies are then almost independent, and the intervals allow for the
/// remaining correlation.
const SELDOM: usize = 10;

/// Number of requests in a round: the number of queues that they were in, because a loaded data
/// plane visits its queues in turn and serves each at its own cost. It is one at light load:
/// requests arrive at queues at random and find an idle data plane, so that they are independent.
pub(super) fn round_of(samples: &[Sample]) -> usize {
    let met = samples.iter().filter(|sample| sample.under_way > 1).count();
    if met * SELDOM <= samples.len() {
        return 1;
    }
    let mut queues: Vec<u32> = samples.iter().map(|sample| sample.queue).collect();
    queues.sort_unstable();
    queues.dedup();
    queues.len()
}

/// The results of requests with rounds of `round`, apart from their selection; `None` without
/// requests.
pub(super) fn of_samples(
    measured: &[Sample],
    round: usize,
    throughput_mrps: f64,
    throughput_mrps_ci95: Option<Interval>,
) -> Measurement {
    let values = latencies_ns(measured);
    let mut sorted = values.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let services = services_ns(measured);
    Measurement {
        throughput_mrps,
        throughput_mrps_ci95,
        latency_ns: summary(&values, &sorted, round),
        cold_samples: measured.iter().filter(|sample| sample.is_cold).count() as u64,
        histogram: histogram(&values),
        service_ns: some_summary(&services, round),
        service_histogram: some_histogram(&services),
        ..Measurement::default()
    }
}

/// The summary of values in the order of their requests, with rounds of `round`, and sorted; there
/// must be at least one.
pub(super) fn summary(values: &[f64], sorted: &[f64], round: usize) -> LatencySummary {
    let interval = |probability| quantile_interval(values, sorted, probability, round);
    LatencySummary {
        mean: values.iter().sum::<f64>() / values.len() as f64,
        p50: quantile(sorted, 0.5),
        p90: quantile(sorted, 0.9),
        p99: quantile(sorted, 0.99),
        p999: quantile(sorted, 0.999),
        max: quantile(sorted, 1.0),
        samples: values.len() as u64,
        mean_ci95: mean_interval(values, round),
        p50_ci95: interval(0.5),
        p90_ci95: interval(0.9),
        p99_ci95: interval(0.99),
        p999_ci95: interval(0.999),
    }
}

pub(super) fn some_summary(values: &[f64], round: usize) -> Option<LatencySummary> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    (!values.is_empty()).then(|| summary(values, &sorted, round))
}

pub(super) fn some_histogram(values: &[f64]) -> Option<String> {
    (!values.is_empty()).then(|| histogram(values))
}

pub(super) fn services_ns(samples: &[Sample]) -> Vec<f64> {
    samples
        .iter()
        .filter_map(|sample| Some(sample.service?.as_ns()))
        .collect()
}

/// The times between completions.
pub(super) fn gaps_us(samples: &[Sample]) -> Vec<f64> {
    let mut completed: Vec<Time> = samples.iter().map(|sample| sample.completed_at).collect();
    completed.sort_unstable();
    completed
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_ns() / 1e3)
        .collect()
}

/// The interval of the mean time between completions, as a rate.
pub(super) fn throughput_interval(samples: &[Sample]) -> Option<Interval> {
    let gaps_us = gaps_us(samples);
    let [low, high] = mean_interval(&gaps_us, round_of(samples))?;
    (low > 0.0).then(|| [1.0 / high, 1.0 / low])
}

pub(super) fn latencies_ns(samples: &[Sample]) -> Vec<f64> {
    samples
        .iter()
        .map(|sample| sample.latency.as_ns())
        .collect()
}

/// The histogram of [`Measurement::histogram`]. It grows with its values; building and writing it
/// cannot fail for times; otherwise the field would be empty.
pub(super) fn histogram(values_ns: &[f64]) -> String {
    let Ok(mut histogram) = Histogram::<u64>::new(4) else {
        return String::new();
    };
    for &value in values_ns {
        if histogram.record(value.round() as u64).is_err() {
            return String::new();
        }
    }
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(&histogram, &mut bytes) {
        Ok(_) => STANDARD.encode(bytes),
        Err(_) => String::new(),
    }
}
