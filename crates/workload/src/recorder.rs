//! The record of latencies, and reports from it.

mod controlled;
mod measurement;
mod sample;
mod warmup;

use crate::statistics::{mser5, quantile, quantile_precision};
use fabric::Time;
use state::{State, Walker};
use std::collections::BTreeMap;
use std::ops::Range;

use measurement::{
    histogram, latencies_ns, of_samples, offered_mrps, round_of, services_ns, slower_than,
    some_histogram, some_summary, summary, throughput_interval, throughput_mrps,
};
use warmup::{end_of_cold, end_of_drift};

pub use controlled::{ControlledLatency, Ideal};
pub use measurement::{
    Drifts, Interval, KindMeasurement, LatencySummary, Measurement, QueueLatency, lost_requests,
};
pub use sample::Sample;
pub use warmup::{Rings, Warmup};

/// A run whose warm-up does not end is at most this many times as long as requested.
const PATIENCE: usize = 5;
/// Rings are not measured in whole laps if this many times `requests` are fewer than two laps.
const MAX_FOR_LAPS: usize = 100;
/// From this precision on, whole rounds over the queues are measured instead of whole laps: the
/// throughput of five or six rounds was within 1.3 % of that of the lap (`docs/figures.md`).
const ROUNDS_SUFFICE: f64 = 0.02;
/// With a precision, at least this many requests are measured: from there on, intervals have their
/// nominal coverage (`tests/coverage.rs`).
const LEAST: usize = 200;
/// The minimum and maximum factor by which the measured part grows between two checks of the
/// precision. Checks are few, because each may stop by chance at an interval that is too short; the
/// steps are limited, because the first estimates of the length are the worst.
const GROWTH: [f64; 2] = [1.25, 2.0];

/// The estimate that a run is made for, and to which its precision applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Estimate {
    /// The throughput of an overloaded system, whose latencies only reflect the length of its
    /// queues, or of a closed loop of clients that do not think, whose latencies follow from it.
    Throughput,
    /// The 99th percentile of the latencies.
    #[default]
    P99,
    /// The 99th percentile of the requests of one kind.
    P99Of(u8),
}

/// Records the latency of every request, in the order in which the tenants took them.
///
/// It is done when it has `requests` of them after the warm-up or, with a precision, the number
/// that the precision needs. The decision depends only on the samples, not on the time of the
/// check.
#[derive(Clone, Debug, state::State)]
#[state(fields)]
pub struct Recorder {
    #[state(fixed)]
    requests: usize,
    #[state(fixed)]
    warmup: Warmup,
    #[state(fixed)]
    precision: Option<f64>,
    /// The estimate of the precision.
    #[state(fixed)]
    precision_of: Estimate,
    /// The ideal queue with which latencies are compared.
    #[state(fixed)]
    ideal: Option<Ideal>,
    /// The rings, if they are always full.
    #[state(fixed)]
    full_rings: Option<Rings>,
    /// The number needed after the warm-up, as far as is known.
    #[state(fixed)]
    wanted: usize,
    #[state(fixed)]
    samples: Vec<Sample>,
    #[state(fixed)]
    next_check: usize,
    /// The start of the measured part, and whether the system was steady from there on.
    #[state(fixed)]
    done: Option<(usize, bool)>,
}

/// The state of a recorder follows from the samples and from the requested measurement, which may
/// differ when samples are restored.
impl State for Recorder {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        let mut samples = std::mem::take(&mut self.samples);
        samples.walk(walker);
        let mut was_done = self.is_done();
        was_done.walk(walker);
        if !walker.is_restoring() {
            self.samples = samples;
            return;
        }
        *self = Recorder::new(self.requests as u64, self.warmup)
            .with_precision(self.precision, self.precision_of)
            .with_ideal(self.ideal)
            .with_full_rings(self.full_rings);
        for sample in &samples {
            self.add(*sample);
        }
        // One of several recorders may have had enough samples, and must still have enough.
        let has_less = self.samples.len() < samples.len();
        if self.is_done() && (!was_done || has_less) {
            walker.refuse(format!(
                "it has the latencies of {} requests, and no more are to be measured",
                samples.len()
            ));
        } else if was_done && !self.is_done() {
            walker.refuse(format!(
                "the latencies of {} requests were enough when it was saved, so that those of \
                 later ones are not in it, and more are to be measured",
                samples.len()
            ));
        }
    }
}

impl Recorder {
    /// A recorder that measures `requests` (at least 1) requests after the warm-up.
    pub fn new(requests: u64, warmup: Warmup) -> Recorder {
        let requests = (requests as usize).max(1);
        Recorder {
            requests,
            warmup,
            precision: None,
            precision_of: Estimate::default(),
            ideal: None,
            full_rings: None,
            wanted: requests,
            samples: Vec::new(),
            next_check: match warmup {
                Warmup::Auto => requests,
                Warmup::Requests(cut) => requests.saturating_add(cut as usize),
            },
            done: None,
        }
    }

    /// Ends as soon as half of the 95 % confidence interval of an estimate is at most this fraction
    /// of it, and after `requests` of all kinds after the warm-up at the latest. It checks after
    /// 200 of them, and then each time that the interval, which shrinks with the square root of the
    /// number, is expected to be short enough.
    pub fn with_precision(self, precision: Option<f64>, of: Estimate) -> Recorder {
        let wanted = match precision {
            Some(_) => self.requests.min(LEAST),
            None => self.wanted,
        };
        Recorder {
            precision,
            precision_of: of,
            wanted,
            next_check: self.next_check - self.wanted + wanted,
            ..self
        }
    }

    /// Compares latencies with those of an ideal queue, if requests arrive as if for a single
    /// queue.
    pub fn with_ideal(self, ideal: Option<Ideal>) -> Recorder {
        Recorder { ideal, ..self }
    }

    /// The offered load exceeds the capacity, so that latencies reflect the length of the rings,
    /// and grow while a ring fills up. With [`Warmup::Auto`] the warm-up then ends at the later of
    /// two other events:
    ///
    /// - Slots are no longer used for the first time, in memory that no cache holds: MSER on
    ///   whether each request's slot was.
    /// - The times between completions have settled: MSER on their means over laps, each once round
    ///   all rings, if there are enough laps.
    ///
    /// All rings are in step, and the cost of a request depends on its position in them. So whole
    /// laps are measured, unless a run of the maximum length has fewer than two; with a precision
    /// of 2 % or more, whole rounds over the queues.
    pub fn with_full_rings(self, rings: Option<Rings>) -> Recorder {
        let mut recorder = Recorder {
            full_rings: rings,
            ..self
        };
        if recorder.warmup == Warmup::Auto {
            recorder.wanted = recorder.whole_units(recorder.wanted);
            recorder.next_check = recorder.wanted;
        }
        recorder
    }

    /// The number of requests of which multiples are measured: those of a lap or of a round, or 1.
    fn unit(&self) -> usize {
        let Some(rings) = self.full_rings.filter(|_| self.warmup == Warmup::Auto) else {
            return 1;
        };
        let is_rough = self.precision.is_some_and(|one| one >= ROUNDS_SUFFICE);
        let unit = if is_rough { rings.queues } else { rings.lap() };
        match unit <= self.most() / 2 {
            true => unit.max(1),
            false => 1,
        }
    }

    /// Rounds `requests` up to a multiple of the unit.
    fn whole_units(&self, requests: usize) -> usize {
        requests.next_multiple_of(self.unit())
    }

    /// Whether the p99 of one kind of requests determines the precision.
    pub fn needs_kinds(&self) -> bool {
        self.precision.is_some() && matches!(self.precision_of, Estimate::P99Of(_))
    }

    /// The precision of the estimate from these requests, if `wanted` ends the run; `None` if they
    /// are too few.
    fn found_precision(&self, wanted: f64, measured: &[Sample]) -> Option<f64> {
        let only = match self.precision_of {
            Estimate::Throughput => {
                let [low, high] = throughput_interval(measured)?;
                return Some((high - low) / 2.0 / throughput_mrps(measured)?);
            }
            Estimate::P99 => None,
            Estimate::P99Of(kind) => Some(kind),
        };
        let counts = |sample: &&Sample| only.is_none_or(|kind| sample.kind == kind);
        let samples = measured.iter().filter(counts);
        let samples: Vec<Sample> = samples.copied().collect();
        let values = latencies_ns(&samples);
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        quantile_precision(&values, &sorted, (0.99, wanted), round_of(&samples))
    }

    /// Adds a request without further information: none has been lost, and it was alone.
    pub fn record(&mut self, completed_at: Time, latency: Time) {
        self.add(Sample {
            completed_at,
            latency,
            service: None,
            queue: 0,
            kind: 0,
            is_cold: false,
            offered: self.recorded() + 1,
            under_way: 1,
        });
    }

    /// Adds a request; has no effect once [`Recorder::is_done`].
    pub fn add(&mut self, sample: Sample) {
        if self.done.is_some() {
            return;
        }
        self.samples.push(sample);
        if self.samples.len() < self.next_check {
            return;
        }
        let recorded = self.samples.len();
        match self.cut() {
            Some(cut) if recorded - cut >= self.wanted => match self.more_wanted(cut) {
                Some(more) => {
                    self.wanted = self.whole_units(more);
                    self.next_check = cut + self.wanted;
                }
                None => {
                    let unit = self.unit();
                    self.done = Some((recorded - (recorded - cut) / unit * unit, true));
                }
            },
            Some(cut) => self.next_check = cut + self.wanted,
            None if recorded >= self.bound().saturating_mul(PATIENCE).min(self.most()) => {
                self.done = Some((recorded - self.bound(), false));
            }
            None => {
                // Each check processes all samples; without a precision there are few checks.
                let further = self.precision.map_or(0, |_| recorded / 4);
                self.next_check = recorded + self.wanted.div_ceil(2).max(further);
            }
        }
    }

    /// Maximum number of measured requests.
    fn bound(&self) -> usize {
        self.whole_units(self.requests)
    }

    /// Maximum number of recorded requests for whole laps or rounds.
    fn most(&self) -> usize {
        self.requests.saturating_mul(MAX_FOR_LAPS)
    }

    /// Number of samples needed after the warm-up; `None` if there are enough.
    fn more_wanted(&self, cut: usize) -> Option<usize> {
        let precision = self.precision?;
        let measured = self.samples.len() - cut;
        let found = self.found_precision(precision, &self.samples[cut..]);
        if measured >= self.bound() || found.is_some_and(|found| found <= precision) {
            return None;
        }
        let [least, largest] = GROWTH;
        let factor = found.map_or(largest, |found| (found / precision).powi(2));
        let more = (measured as f64 * factor.clamp(least, largest)).ceil() as usize;
        Some(more.min(self.bound()))
    }

    /// The end of the warm-up in the samples so far.
    fn cut(&self) -> Option<usize> {
        match self.warmup {
            Warmup::Auto => match self.full_rings {
                Some(rings) => end_of_cold(&self.samples)
                    .zip(end_of_drift(&self.samples, rings))
                    .map(|(cold, drift)| cold.max(drift)),
                None => mser5(&latencies_ns(&self.samples)),
            },
            Warmup::Requests(cut) => Some((cut as usize).min(self.samples.len())),
        }
    }

    /// Whether there are enough requests.
    pub fn is_done(&self) -> bool {
        self.done.is_some()
    }

    /// The completion time of the last request that was needed.
    pub fn done_at(&self) -> Option<Time> {
        self.done?;
        self.samples.last().map(|sample| sample.completed_at)
    }

    /// Number of recorded requests.
    pub fn recorded(&self) -> u64 {
        self.samples.len() as u64
    }

    /// The fraction of the needed requests that is recorded, as far as their number is known; at
    /// most 1. It falls when it turns out that more are needed.
    pub fn progress(&self) -> f64 {
        (self.samples.len() as f64 / self.wanted as f64).min(1.0)
    }

    /// The start of the measured part, and whether the system was steady from there on.
    fn measured(&self) -> (usize, bool) {
        self.done.unwrap_or_else(|| match self.cut() {
            Some(cut) => (cut, true),
            None => (0, false),
        })
    }

    /// Number of recorded requests before the measured part.
    pub fn warmup_samples(&self) -> u64 {
        self.measured().0 as u64
    }

    /// The intervals in which those measured requests were in flight whose latencies exceed the
    /// quantile `probability`.
    pub fn slower_than(&self, probability: f64) -> Vec<Range<Time>> {
        slower_than(self.measured_samples(), probability)
    }

    /// The same for the measured requests of several recorders together.
    pub fn slower_than_together(recorders: &[&Recorder], probability: f64) -> Vec<Range<Time>> {
        slower_than(&samples_together(recorders), probability)
    }

    /// The intervals in which the `count` slowest of the measured requests of several recorders
    /// together were in flight, slowest first.
    pub fn slowest_together(recorders: &[&Recorder], count: usize) -> Vec<Range<Time>> {
        let mut samples = samples_together(recorders);
        samples.sort_by_key(|sample| (std::cmp::Reverse(sample.latency), sample.completed_at));
        let slowest = samples.iter().take(count);
        slowest
            .map(|sample| sample.completed_at.saturating_sub(sample.latency)..sample.completed_at)
            .collect()
    }

    /// The measured requests.
    fn measured_samples(&self) -> &[Sample] {
        &self.samples[self.measured().0..]
    }

    /// The measured requests of each of `queues` queues.
    pub fn by_queue(&self, queues: usize) -> Vec<QueueLatency> {
        let mut latencies = vec![Vec::new(); queues];
        for sample in &self.samples[self.measured().0..] {
            if let Some(of) = latencies.get_mut(sample.queue as usize) {
                of.push(sample.latency.as_ns());
            }
        }
        let summary = |values: &mut Vec<f64>| {
            values.sort_unstable_by(f64::total_cmp);
            let some = !values.is_empty();
            QueueLatency {
                samples: values.len() as u64,
                mean_ns: some.then(|| values.iter().sum::<f64>() / values.len() as f64),
                p99_ns: some.then(|| quantile(values, 0.99)),
            }
        };
        latencies.iter_mut().map(summary).collect()
    }

    /// The results; `None` if nothing was recorded. Before it is done, the results so far.
    pub fn measurement(&self) -> Option<Measurement> {
        let (cut, _) = self.measured();
        let measured = &self.samples[cut..];
        let drift = Drifts::of(measured);
        let overload = self.overload();
        Some(Measurement {
            warmup_samples: cut as u64,
            steady: self.is_steady(),
            offered_mrps: offered_mrps(measured),
            drift,
            keeps_up: overload.is_empty(),
            overload,
            precise: self.is_precise(),
            latency_ns_controlled: self.controlled(),
            ..of_samples(
                measured,
                round_of(measured),
                throughput_mrps(measured)?,
                throughput_interval(measured),
            )
        })
    }

    /// Mean and p99 by the control variate of the ideal queue, if there is one.
    fn controlled(&self) -> Option<ControlledLatency> {
        let (cut, _) = self.measured();
        let round = round_of(&self.samples[cut..]);
        self.ideal?.control(&self.samples, cut, round)
    }

    /// Whether the measured part is past the warm-up and does not drift. With full rings, latencies
    /// and the number of requests in flight only reflect the length of the rings.
    fn is_steady(&self) -> bool {
        let (cut, is_settled) = self.measured();
        let drifts = || Drifts::of(&self.samples[cut..]).is_some_and(|drift| drift.is_any());
        is_settled && (self.full_rings.is_some() || !drifts())
    }

    /// The reasons why the system does not keep up with its offered load, according to the measured
    /// requests: fewer were served than arrived, or their number in flight or latency grows.
    fn overload(&self) -> Vec<String> {
        let measured = self.measured_samples();
        let Some(drift) = Drifts::of(measured) else {
            let few = measured.len();
            return vec![format!(
                "{few} requests were measured, too few to tell whether it keeps up"
            )];
        };
        let served = throughput_mrps(measured).unwrap_or_default();
        // Without an interval, "fewer were served" cannot be established, but growing waits can.
        // Equal numbers may differ in their last digits.
        let rates = throughput_interval(measured).zip(offered_mrps(measured));
        let less = rates.filter(|([_, most], offered)| *offered > most * (1.0 + 1e-9));
        let less = less.map(|([_, most], offered)| {
            format!(
                "{served:.4} million requests a second were served (at most {most:.4} with 95 % \
                 confidence), and {offered:.4} came"
            )
        });
        let growing = [
            drift.under_way.sentence("the number of requests under way"),
            drift.latency.sentence("latency"),
        ];
        less.into_iter()
            .chain(growing.into_iter().flatten())
            .collect()
    }

    /// The arrival time of the first measured request; `None` without requests.
    pub fn measures_since(&self) -> Option<Time> {
        self.measured_samples().iter().map(Sample::came_at).min()
    }

    /// The combined results of several recorders of different requests; `None` if nothing was
    /// recorded. They keep up if each does, and are steady if each is. Each of their measured
    /// requests counts once. Their throughputs are added, though each may have been measured in a
    /// different period.
    pub fn measurement_together(recorders: &[&Recorder]) -> Option<Measurement> {
        let parts = || recorders.iter().map(|recorder| recorder.measured_samples());
        let rates = || parts().filter_map(|part| Some((throughput_mrps(part)?, part)));
        let throughput_mrps = rates().map(|(rate, _)| rate).sum();
        // Errors are independent: their squares are added.
        let mut squares = Some([0.0; 2]);
        for (rate, part) in rates() {
            squares = squares
                .zip(throughput_interval(part))
                .map(|(sums, [low, high])| {
                    let [below, above] = sums;
                    [below + (rate - low).powi(2), above + (high - rate).powi(2)]
                });
        }
        let interval = squares.map(|[below, above]: [f64; 2]| {
            [
                throughput_mrps - below.sqrt(),
                throughput_mrps + above.sqrt(),
            ]
        });
        let measured = samples_together(recorders);
        if let [alone] = recorders {
            return alone.measurement();
        }
        let overload: Vec<String> = recorders.iter().flat_map(|one| one.overload()).collect();
        let offered = parts().map(offered_mrps);
        let cuts = recorders
            .iter()
            .map(|recorder| recorder.measured().0 as u64);
        (!measured.is_empty()).then(|| Measurement {
            warmup_samples: cuts.sum(),
            steady: recorders.iter().all(|recorder| recorder.is_steady()),
            offered_mrps: offered.sum(),
            keeps_up: overload.is_empty(),
            overload,
            precise: recorders.iter().all(|recorder| recorder.is_precise()),
            ..of_samples(
                &measured,
                parts().map(round_of).sum(),
                throughput_mrps,
                interval,
            )
        })
    }

    /// Whether the estimate has the requested precision.
    fn is_precise(&self) -> bool {
        self.precision.is_none_or(|precision| {
            self.found_precision(precision, self.measured_samples())
                .is_some_and(|found| found <= precision)
        })
    }

    /// The measured requests of each kind.
    pub fn by_kind(&self) -> BTreeMap<u8, KindMeasurement> {
        Recorder::by(&[self], |_, sample| sample.kind)
    }

    /// The measured requests of some queues.
    pub fn of_queues(&self, queues: Range<u32>) -> Option<KindMeasurement> {
        Recorder::by(&[self], |_, sample| queues.contains(&sample.queue)).remove(&true)
    }

    /// The combined results of several recorders for each kind of requests, as in
    /// [`Recorder::measurement_together`]. `name` gives the meaning of a kind's number in one of
    /// them.
    pub fn by_kind_together<Name: Ord>(
        recorders: &[&Recorder],
        name: impl Fn(usize, u8) -> Name,
    ) -> BTreeMap<Name, KindMeasurement> {
        Recorder::by(recorders, |number, sample| name(number, sample.kind))
    }

    /// The measured requests, grouped by a value.
    fn by<K: Ord>(
        recorders: &[&Recorder],
        value: impl Fn(usize, &Sample) -> K,
    ) -> BTreeMap<K, KindMeasurement> {
        // The rate of each value, which is its share of its recorder's; its rounds; and its
        // samples.
        let mut kinds: BTreeMap<K, (f64, usize, Vec<Sample>)> = BTreeMap::new();
        for (number, recorder) in recorders.iter().enumerate() {
            let measured = recorder.measured_samples();
            let mut parts: BTreeMap<K, Vec<Sample>> = BTreeMap::new();
            for sample in measured {
                let part = parts.entry(value(number, sample)).or_default();
                part.push(*sample);
            }
            let rate_mrps = throughput_mrps(measured).unwrap_or_default();
            for (value, samples) in parts {
                let (rate, round, all) = kinds.entry(value).or_default();
                *rate += rate_mrps * samples.len() as f64 / measured.len() as f64;
                *round += round_of(&samples);
                all.extend(samples);
            }
        }
        let measurement = |throughput_mrps, round, mut samples: Vec<Sample>| {
            if recorders.len() > 1 {
                samples.sort_by_key(|sample| sample.completed_at);
            }
            let (values, services) = (latencies_ns(&samples), services_ns(&samples));
            let mut sorted = values.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            KindMeasurement {
                throughput_mrps,
                latency_ns: summary(&values, &sorted, round),
                histogram: histogram(&values),
                service_ns: some_summary(&services, round),
                service_histogram: some_histogram(&services),
            }
        };
        kinds
            .into_iter()
            .map(|(name, (rate, round, samples))| (name, measurement(rate, round, samples)))
            .collect()
    }
}

/// The measured requests of several recorders, in order of completion.
fn samples_together(recorders: &[&Recorder]) -> Vec<Sample> {
    let parts = recorders.iter().map(|recorder| recorder.measured_samples());
    let mut samples = parts.collect::<Vec<_>>().concat();
    samples.sort_by_key(|sample| sample.completed_at);
    samples
}

#[cfg(test)]
mod tests;
