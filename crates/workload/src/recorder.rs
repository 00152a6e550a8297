//! The record of latencies, and what is reported of them.

use crate::drift::Drift;
use crate::statistics::{
    mean_interval, min_error, mser, mser5, quantile, quantile_interval, quantile_precision,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fabric::Time;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::{Plain, State, Walker};
use std::collections::BTreeMap;
use std::ops::Range;

/// A 95 % confidence interval: its lower and its upper end.
pub type Interval = [f64; 2];

/// How much of the beginning of a run is not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Warmup {
    /// What the rule MSER-5 says of latencies; with [`Recorder::with_full_rings`], what it says of
    /// slots that are used for the first time and of the times between completions.
    #[default]
    Auto,
    /// This many requests.
    #[serde(untagged)]
    Requests(#[schemars(range(max = 1_000_000_000))] u64),
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

/// What was measured in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// Requests that completed in the measured time, in millions a second.
    pub throughput_mrps: f64,
    /// 95 % confidence interval of `throughput_mrps`, by means of batches of the times between
    /// completions; `None` with less than 61 samples, or less than five rounds over the queues.
    pub throughput_mrps_ci95: Option<Interval>,
    /// From an item's arrival in its queue to the ring of the tenant's doorbell.
    pub latency_ns: LatencySummary,
    /// How many requests at the beginning are left out.
    pub warmup_samples: u64,
    /// How many of the measured requests were in a slot of their queue's ring in which there had
    /// been none before, that is, in memory that no cache had. Only the rings of I/O sources count.
    pub cold_samples: u64,
    /// Whether the rule for the warm-up found its end, and neither latency nor the number of
    /// requests under way drifts behind it. If not, the run was too short, or the system does not
    /// settle: what was measured may still change with time. If the rule found no end, only the
    /// last `requests` are measured. Drift means nothing where rings are kept full: latencies say
    /// how long these are.
    pub steady: bool,
    /// Requests that came, those that were dropped included, in millions a second: from the first
    /// to the last of those that were measured. `None` if they came all at once.
    pub offered_mrps: Option<f64>,
    /// How latency and the number of requests under way have changed with time; `None` with less
    /// than 60 samples, or of several recorders together.
    pub drift: Option<Drifts>,
    /// Whether the system serves what it is offered: nothing is said in `overload`. Not of one that
    /// is offered more than it can take on purpose.
    pub keeps_up: bool,
    /// Why the system does not keep up, a sentence each: requests were lost, fewer were served than
    /// came, or they are under way for longer and longer.
    pub overload: Vec<String>,
    /// Whether the 95 % confidence interval of the p99 is as narrow as `measure.precision` asks;
    /// true if it asks for nothing. If not, the run was given up at 100 times `measure.requests`,
    /// or because it was not steady.
    pub precise: bool,
    /// An HdrHistogram of the latencies in nanoseconds, with four digits (1 ns up to 32 us), as
    /// in HdrHistogram's log files: V2, compressed, in base64.
    pub histogram: String,
    /// How long harts worked on the requests: from the take of an item, when it is counted off its
    /// queue, to the ring of the tenant's doorbell; for the later ones of a batch, from the ring
    /// before. `None` if no take was seen.
    pub service_ns: Option<LatencySummary>,
    /// A histogram of the times of `service_ns`, in the form of `histogram`.
    pub service_histogram: Option<String>,
}

impl Measurement {
    /// Adds reasons why the system does not keep up with what it is offered.
    pub fn add_overload(&mut self, reasons: impl IntoIterator<Item = String>) {
        self.overload.extend(reasons);
        self.keeps_up = self.overload.is_empty();
    }
}

/// "1 request was dropped", "2 requests were dropped": nothing of none.
pub fn lost_requests(count: u64, what: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 request was {what}")),
        _ => Some(format!("{count} requests were {what}")),
    }
}

/// What may change with time in the measured part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drifts {
    /// Latency, in the order in which requests completed.
    pub latency: Drift,
    /// How many requests were under way when each of them came, itself included.
    pub under_way: Drift,
}

impl Drifts {
    fn of(measured: &[Sample]) -> Option<Drifts> {
        Some(Drifts {
            latency: Drift::of(measured.iter().map(|sample| sample.latency.as_ns()))?,
            under_way: Drift::of(measured.iter().map(|sample| sample.under_way as f64))?,
        })
    }

    /// Whether something changes.
    fn is_any(&self) -> bool {
        let both = [self.latency, self.under_way];
        both.iter().any(|drift| drift.grows() || drift.falls())
    }
}

/// A request that has completed.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When.
    pub completed_at: Time,
    /// How long it took from its arrival on.
    pub latency: Time,
    /// How long a hart worked on it, if that is known.
    pub service: Option<Time>,
    /// Its queue.
    pub queue: u32,
    /// What kind of request it was: a number that whoever made it understands.
    pub kind: u8,
    /// Whether it was in a slot of its queue's ring in which there had been none before.
    pub is_cold: bool,
    /// How many requests had come when it did, itself included, whatever became of them.
    pub offered: u64,
    /// How many of them were under way then, itself included.
    pub under_way: u64,
}

impl Sample {
    /// When it came.
    fn came_at(&self) -> Time {
        self.completed_at.saturating_sub(self.latency)
    }
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
    fn lap(self) -> usize {
        self.queues.saturating_mul(self.slots).max(1)
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
    /// How long harts worked on the requests; `None` if no take was seen.
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

impl State for Sample {
    fn walk(&mut self, walker: &mut dyn Walker) {
        state::fields!(
            self,
            walker,
            Sample {
                completed_at,
                latency: fixed,
                service: fixed,
                queue,
                kind,
                is_cold,
                offered,
                under_way,
            }
        );
        // Lengths of time, not points in it.
        let mut latency_fs = self.latency.as_fs();
        latency_fs.walk(walker);
        self.latency = Time::from_fs(latency_fs);
        let mut service_fs = self.service.map(Time::as_fs);
        service_fs.walk(walker);
        self.service = service_fs.map(Time::from_fs);
    }
}

impl Plain for Sample {
    fn blank() -> Sample {
        Sample {
            completed_at: Time::ZERO,
            latency: Time::ZERO,
            service: None,
            queue: 0,
            kind: 0,
            is_cold: false,
            offered: 0,
            under_way: 0,
        }
    }
}

/// Without an end of the warm-up in sight, a run is this many times as long as asked.
const PATIENCE: usize = 5;
/// For the precision that is asked, this many times `requests` are measured at most.
const MAX_FOR_PRECISION: usize = 100;
/// From one check of the precision to the next the measured part grows by these factors at least
/// and at most. Few checks, because each is a chance to stop at an interval that is too short; not
/// too far at once, because the first estimates of the length are the worst.
const GROWTH: [f64; 2] = [1.25, 2.0];

/// Keeps the latency of every request, in the order in which the tenants took them.
///
/// Says when it has enough: `requests` of them behind the warm-up, and then as many as the
/// precision needs, if one is asked for. The decision depends on the samples only, not on when it
/// is asked.
#[derive(Clone, Debug)]
pub struct Recorder {
    requests: usize,
    warmup: Warmup,
    precision: Option<f64>,
    /// The only kind of requests whose p99 that is; `None`: all.
    precision_of: Option<u8>,
    /// The rings, if they are always full.
    full_rings: Option<Rings>,
    /// How many are needed behind the warm-up, as far as is known.
    wanted: usize,
    samples: Vec<Sample>,
    next_check: usize,
    /// Where the measured part begins, and whether the system was steady from there on.
    done: Option<(usize, bool)>,
}

/// All that a recorder knows follows from the samples and from what it was asked for, which may be
/// something else when they are put back.
impl State for Recorder {
    fn walk(&mut self, walker: &mut dyn Walker) {
        state::fields!(
            self,
            walker,
            Recorder {
                requests: fixed,
                warmup: fixed,
                precision: fixed,
                precision_of: fixed,
                full_rings: fixed,
                wanted: fixed,
                samples: fixed,
                next_check: fixed,
                done: fixed,
            }
        );
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
            .with_full_rings(self.full_rings);
        for sample in &samples {
            self.add(*sample);
        }
        // One of several recorders may have had enough, and must still have that.
        let has_less = self.samples.len() < samples.len();
        if self.is_done() && (!was_done || has_less) {
            walker.refuse(format!(
                "it has the latencies of {} requests, and no more are to be measured",
                samples.len()
            ));
        } else if was_done && !self.is_done() {
            walker.refuse(format!(
                "the latencies of {} requests were enough when it was saved, so that those of later ones are \
                 not in it, and more are to be measured",
                samples.len()
            ));
        }
    }
}

impl Recorder {
    /// A recorder that wants `requests` (at least 1) requests behind the warm-up.
    pub fn new(requests: u64, warmup: Warmup) -> Recorder {
        let requests = (requests as usize).max(1);
        Recorder {
            requests,
            warmup,
            precision: None,
            precision_of: None,
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

    /// Goes on until half of the 95 % confidence interval of the p99 is at most this part of the
    /// p99. It looks at `requests` behind the warm-up, and then each time that the interval, which
    /// gets shorter with the square root of the number, should be short enough. The p99 may be that
    /// of the requests of one kind alone; `requests` are of all kinds.
    pub fn with_precision(self, precision: Option<f64>, of: Option<u8>) -> Recorder {
        Recorder {
            precision,
            precision_of: of,
            ..self
        }
    }

    /// The source offers more than can be taken, so that latencies say how long the rings are, and
    /// those of a ring that fills up get longer and longer. With [`Warmup::Auto`] something else
    /// ends the warm-up then, the later of two:
    ///
    /// - Slots are no longer used for the first time, in memory that no cache has: MSER on whether
    ///   each request's slot was.
    /// - The times between completions have settled: MSER on their means over laps, each once round
    ///   all rings, if there are as many laps as it takes.
    ///
    /// All rings are in step, and what a request costs depends on where in them it is. So whole
    /// laps are measured. Rings that a run of the longest length goes round less than twice are not
    /// gone round.
    pub fn with_full_rings(self, rings: Option<Rings>) -> Recorder {
        let mut recorder = Recorder {
            full_rings: rings,
            ..self
        };
        if recorder.warmup == Warmup::Auto {
            recorder.wanted = recorder.whole_laps(recorder.requests);
            recorder.next_check = recorder.wanted;
        }
        recorder
    }

    /// The laps that are to be measured whole, if any.
    fn lap(&self) -> Option<usize> {
        let lap = self.full_rings?.lap();
        (self.warmup == Warmup::Auto && lap <= self.most() / 2).then_some(lap)
    }

    /// So many requests at least.
    fn whole_laps(&self, requests: usize) -> usize {
        requests.next_multiple_of(self.lap().unwrap_or(1))
    }

    /// Whether the p99 of one kind of requests is to be precise.
    pub fn needs_kinds(&self) -> bool {
        self.precision.is_some() && self.precision_of.is_some()
    }

    /// How precise the p99 of some requests is, of those that are to be precise.
    fn found_precision(&self, measured: &[Sample]) -> Option<f64> {
        let counts = |sample: &&Sample| self.precision_of.is_none_or(|kind| sample.kind == kind);
        let samples = measured.iter().filter(counts);
        let samples: Vec<Sample> = samples.copied().collect();
        let values = latencies_ns(&samples);
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        quantile_precision(&values, &sorted, 0.99, round_of(&samples))
    }

    /// Adds a request of which no more is known: none has been lost, and it was alone.
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

    /// Adds a request; nothing once [`Recorder::is_done`].
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
                    self.wanted = self.whole_laps(more);
                    self.next_check = cut + self.wanted;
                }
                None => {
                    let lap = self.lap().unwrap_or(1);
                    self.done = Some((recorded - (recorded - cut) / lap * lap, true));
                }
            },
            Some(cut) => self.next_check = cut + self.wanted,
            None if recorded >= self.wanted.saturating_mul(PATIENCE).min(self.most()) => {
                self.done = Some((recorded - self.wanted, false));
            }
            None => self.next_check = recorded + self.wanted.div_ceil(2),
        }
    }

    /// How many requests are recorded at most, if the precision decides.
    fn most(&self) -> usize {
        self.requests.saturating_mul(MAX_FOR_PRECISION)
    }

    /// How many are needed behind the warm-up; `None` if there are enough.
    fn more_wanted(&self, cut: usize) -> Option<usize> {
        let precision = self.precision?;
        let measured = self.samples.len() - cut;
        let found = self.found_precision(&self.samples[cut..]);
        if measured >= self.most() || found.is_some_and(|found| found <= precision) {
            return None;
        }
        let [least, largest] = GROWTH;
        let factor = found.map_or(largest, |found| (found / precision).powi(2));
        let more = (measured as f64 * factor.clamp(least, largest)).ceil() as usize;
        Some(more.min(self.most()))
    }

    /// The end of the warm-up in what is recorded up to now.
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

    /// When the last request that was needed completed.
    pub fn done_at(&self) -> Option<Time> {
        self.done?;
        self.samples.last().map(|sample| sample.completed_at)
    }

    /// How many requests have been recorded.
    pub fn recorded(&self) -> u64 {
        self.samples.len() as u64
    }

    /// The part of the requests that is recorded, as far as is known how many are needed; from 0 to
    /// 1. It falls when it turns out that more are needed.
    pub fn progress(&self) -> f64 {
        (self.samples.len() as f64 / self.wanted as f64).min(1.0)
    }

    /// Where the measured part begins, and whether the system was steady from there on.
    fn measured(&self) -> (usize, bool) {
        self.done.unwrap_or_else(|| match self.cut() {
            Some(cut) => (cut, true),
            None => (0, false),
        })
    }

    /// When those of the measured requests were under way that took longer than the quantile
    /// `probability` of their latencies.
    pub fn slower_than(&self, probability: f64) -> Vec<Range<Time>> {
        slower_than(self.measured_samples(), probability)
    }

    /// The same of the measured requests of several recorders together.
    pub fn slower_than_together(recorders: &[&Recorder], probability: f64) -> Vec<Range<Time>> {
        slower_than(&samples_together(recorders), probability)
    }

    /// The requests that are measured.
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
            values.sort_by(f64::total_cmp);
            let some = !values.is_empty();
            QueueLatency {
                samples: values.len() as u64,
                mean_ns: some.then(|| values.iter().sum::<f64>() / values.len() as f64),
                p99_ns: some.then(|| quantile(values, 0.99)),
            }
        };
        latencies.iter_mut().map(summary).collect()
    }

    /// What there is to report; `None` if nothing was recorded. Before it is done: of what there
    /// is.
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
            ..of_samples(
                measured,
                round_of(measured),
                throughput_mrps(measured)?,
                throughput_interval(measured),
            )
        })
    }

    /// Whether the measured part is past the warm-up and does not drift. With full rings, latencies
    /// and the number of requests in flight only reflect the length of the rings.
    fn is_steady(&self) -> bool {
        let (cut, is_settled) = self.measured();
        let drifts = || Drifts::of(&self.samples[cut..]).is_some_and(|drift| drift.is_any());
        is_settled && (self.full_rings.is_some() || !drifts())
    }

    /// Why the system does not keep up with what it is offered, as far as the measured requests
    /// show it: fewer were served than came, or they are under way for longer and longer.
    fn overload(&self) -> Vec<String> {
        let measured = self.measured_samples();
        let Some(drift) = Drifts::of(measured) else {
            let few = measured.len();
            return vec![format!(
                "{few} requests were measured, too few to tell whether it keeps up"
            )];
        };
        let served = throughput_mrps(measured).unwrap_or_default();
        // Without an interval nobody can say that fewer were served; that they wait for longer
        // shows all the same. Equal numbers may differ in their last digits.
        let rates = throughput_interval(measured).zip(offered_mrps(measured));
        let less = rates.filter(|([_, most], offered)| *offered > most * (1.0 + 1e-9));
        let less = less.map(|([_, most], offered)| {
            format!(
                "{served:.4} million requests a second were served (at most {most:.4} with 95 % confidence), \
                 and {offered:.4} came"
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

    /// When the first of the measured requests came; `None` of none.
    pub fn measures_since(&self) -> Option<Time> {
        self.measured_samples().iter().map(Sample::came_at).min()
    }

    /// What several recorders, each of requests of its own, have to report together; `None` if
    /// nothing was recorded. They keep up if each does, and are steady if each is. Each of their
    /// measured requests counts once. Their throughputs add up, though each may have been measured
    /// in a time of its own.
    pub fn measurement_together(recorders: &[&Recorder]) -> Option<Measurement> {
        let parts = || recorders.iter().map(|recorder| recorder.measured_samples());
        let rates = || parts().filter_map(|part| Some((throughput_mrps(part)?, part)));
        let throughput_mrps = rates().map(|(rate, _)| rate).sum();
        // Independent errors: their squares add up.
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

    /// Whether the p99 is as precise as was asked for.
    fn is_precise(&self) -> bool {
        self.precision.is_none_or(|precision| {
            self.found_precision(self.measured_samples())
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

    /// What several recorders, each of requests of its own, have measured of each kind of requests,
    /// together as in [`Recorder::measurement_together`]. `name` says what a number of a kind means
    /// to one of them.
    pub fn by_kind_together<Name: Ord>(
        recorders: &[&Recorder],
        name: impl Fn(usize, u8) -> Name,
    ) -> BTreeMap<Name, KindMeasurement> {
        Recorder::by(recorders, |number, sample| name(number, sample.kind))
    }

    /// The measured requests of each value that they have.
    fn by<K: Ord>(
        recorders: &[&Recorder],
        value: impl Fn(usize, &Sample) -> K,
    ) -> BTreeMap<K, KindMeasurement> {
        // The rate of each value, which has its part of its recorder's, its rounds, and its
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
            sorted.sort_by(f64::total_cmp);
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

/// So many requests, of which the first began the time and the last ended it.
fn rate_mrps(requests: usize, time: Time) -> f64 {
    let seconds = time.as_seconds();
    if seconds > 0.0 {
        (requests - 1) as f64 / seconds / 1e6
    } else {
        0.0
    }
}

/// The rate at which some requests completed; `None` of none.
fn throughput_mrps(measured: &[Sample]) -> Option<f64> {
    let times = || measured.iter().map(|sample| sample.completed_at);
    Some(rate_mrps(measured.len(), times().max()? - times().min()?))
}

/// The rate at which requests came; `None` if they came at one time.
fn offered_mrps(measured: &[Sample]) -> Option<f64> {
    let first = measured.iter().min_by_key(|sample| sample.offered)?;
    let last = measured.iter().max_by_key(|sample| sample.offered)?;
    let seconds = last.came_at().saturating_sub(first.came_at()).as_seconds();
    (seconds > 0.0).then(|| (last.offered - first.offered) as f64 / seconds / 1e6)
}

/// The measured requests of several recorders, in the order in which they completed.
fn samples_together(recorders: &[&Recorder]) -> Vec<Sample> {
    let parts = recorders.iter().map(|recorder| recorder.measured_samples());
    let mut samples = parts.collect::<Vec<_>>().concat();
    samples.sort_by_key(|sample| sample.completed_at);
    samples
}

/// When those requests were under way that took longer than the quantile `probability` of all.
fn slower_than(measured: &[Sample], probability: f64) -> Vec<Range<Time>> {
    let mut sorted = latencies_ns(measured);
    sorted.sort_by(f64::total_cmp);
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

/// A load is light when at most one in so many requests finds another one under way: by PASTA a
/// server is busy for a tenth of the time then, and the mean wait of M/D/1 is 0.06 of a service
/// time. Neighbouring latencies hardly depend on each other, and the intervals allow for what is
/// left.
const SELDOM: usize = 10;

/// How many requests make a round: as many as there are queues that they were in, for a data plane
/// that has work everywhere goes round its queues and serves each at its own cost. One at light
/// load: requests come to queues at random and find an idle data plane, so that they do not depend
/// on one another.
fn round_of(samples: &[Sample]) -> usize {
    let met = samples.iter().filter(|sample| sample.under_way > 1).count();
    if met * SELDOM <= samples.len() {
        return 1;
    }
    let mut queues: Vec<u32> = samples.iter().map(|sample| sample.queue).collect();
    queues.sort_unstable();
    queues.dedup();
    queues.len()
}

/// What there is to report of some requests with rounds of so many, beside how they were chosen;
/// not of none.
fn of_samples(
    measured: &[Sample],
    round: usize,
    throughput_mrps: f64,
    throughput_mrps_ci95: Option<Interval>,
) -> Measurement {
    let values = latencies_ns(measured);
    let mut sorted = values.clone();
    sorted.sort_by(f64::total_cmp);
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

/// Of values in the order of their requests, with rounds of so many, and sorted; not of none.
fn summary(values: &[f64], sorted: &[f64], round: usize) -> LatencySummary {
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

fn some_summary(values: &[f64], round: usize) -> Option<LatencySummary> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (!values.is_empty()).then(|| summary(values, &sorted, round))
}

fn some_histogram(values: &[f64]) -> Option<String> {
    (!values.is_empty()).then(|| histogram(values))
}

fn services_ns(samples: &[Sample]) -> Vec<f64> {
    samples
        .iter()
        .filter_map(|sample| Some(sample.service?.as_ns()))
        .collect()
}

/// From which request on slots are no longer used for the first time, after MSER: what may go on
/// are those of queues that are hardly served. `None` while most requests are cold, which may be
/// because all are.
fn end_of_cold(samples: &[Sample]) -> Option<usize> {
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
fn end_of_drift(samples: &[Sample], rings: Rings) -> Option<usize> {
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

/// The times between completions.
fn gaps_us(samples: &[Sample]) -> Vec<f64> {
    let mut completed: Vec<Time> = samples.iter().map(|sample| sample.completed_at).collect();
    completed.sort_unstable();
    completed
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_ns() / 1e3)
        .collect()
}

/// The interval of the mean time between completions, as a rate.
fn throughput_interval(samples: &[Sample]) -> Option<Interval> {
    let gaps_us = gaps_us(samples);
    let [low, high] = mean_interval(&gaps_us, round_of(samples))?;
    (low > 0.0).then(|| [1.0 / high, 1.0 / low])
}

fn latencies_ns(samples: &[Sample]) -> Vec<f64> {
    samples
        .iter()
        .map(|sample| sample.latency.as_ns())
        .collect()
}

/// The histogram of [`Measurement::histogram`]. It grows with its values; building and writing it
/// cannot fail for times; if it did, the field would be empty.
fn histogram(values_ns: &[f64]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, Stream};
    use hdrhistogram::serialization::Deserializer;
    use std::cell::RefCell;

    fn ns(nanoseconds: f64) -> Time {
        Time::from_ns(nanoseconds)
    }

    #[test]
    fn queues_are_told_apart() {
        let mut recorder = Recorder::new(300, Warmup::Requests(100));
        for number in 0..400 {
            let latency = if number < 100 { 1e6 } else { f64::from(number) };
            recorder.add(Sample {
                completed_at: ns(f64::from(number)),
                latency: ns(latency),
                service: None,
                queue: number % 2,
                kind: 0,
                is_cold: false,
                offered: u64::from(number),
                under_way: 1,
            });
        }
        let [even, odd, none] = recorder.by_queue(3)[..] else {
            panic!("three queues were asked for");
        };
        // 100, 102, … 398: 150 numbers, of which the 149th is 99 %.
        assert_eq!(
            (even.samples, even.mean_ns, even.p99_ns),
            (150, Some(249.0), Some(396.0))
        );
        assert_eq!(
            (odd.samples, odd.mean_ns, odd.p99_ns),
            (150, Some(250.0), Some(397.0))
        );
        assert_eq!(none, QueueLatency::default());
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
        let [low, high] = measurement.throughput_mrps_ci95.unwrap();
        assert!((low - 10.0).abs() < 1e-9 && (high - 10.0).abs() < 1e-9);
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
    fn the_histogram_has_long_latencies_too() {
        let text = histogram(&[5.0, 1e9]);
        let histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut STANDARD.decode(&text).unwrap().as_slice())
            .unwrap();
        assert!(histogram.equivalent(histogram.max(), 1_000_000_000));
        assert_eq!((histogram.min(), histogram.len()), (5, 2));
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

    /// A saturated data plane that goes round 100 rings of 16 slots. Slots cost 100 ns each, and 2
    /// ns more or less in the two halves of a ring; those that are used for the first time cost 20
    /// less. Latencies are those of a ring that fills up.
    fn saturated(requests: u64, cost: impl Fn(u32) -> f64) -> Recorder {
        let rings = Rings {
            queues: 100,
            slots: 16,
        };
        let mut recorder = Recorder::new(requests, Warmup::Auto).with_full_rings(Some(rings));
        let (mut now, mut number) = (0.0, 0u32);
        while !recorder.is_done() {
            // Not all queues are in step.
            let is_cold = number < 1595 || (1600..1605).contains(&number);
            let of_slot = if number / 100 % 16 < 8 { 2.0 } else { -2.0 };
            now += cost(number) + of_slot - if is_cold { 20.0 } else { 0.0 };
            recorder.add(Sample {
                completed_at: ns(now),
                latency: ns(now.min(1.6e6)),
                service: None,
                queue: number % 100,
                kind: 0,
                is_cold,
                offered: u64::from(number) + 1,
                under_way: 1,
            });
            number += 1;
        }
        recorder
    }

    /// 300 requests would be less than a lap, all in cold slots, 20 % too fast. One lap is left out
    /// and one measured, whose mean is 100 ns: 10 million a second. Its 1599 gaps lack one, of 102
    /// ns.
    #[test]
    fn a_saturated_run_is_measured_over_whole_laps() {
        for requests in [300, 1600] {
            let measurement = saturated(requests, |_| 100.0).measurement().unwrap();
            assert!(measurement.steady);
            assert_eq!(measurement.warmup_samples, 1605);
            assert_eq!(measurement.latency_ns.samples, 1600);
            assert_eq!(measurement.cold_samples, 0);
            assert!((measurement.throughput_mrps - 10.0).abs() < 2e-4);
            let [low, high] = measurement.throughput_mrps_ci95.unwrap();
            assert!(low < 10.0 && 10.0 < high, "{low} {high}");
        }
        let measurement = saturated(1601, |_| 100.0).measurement().unwrap();
        assert_eq!(measurement.latency_ns.samples, 3200);
    }

    /// What gets slower with a time constant of 4000 requests, from 70 ns to 100, is found where a
    /// run has enough laps. 40 runs with exponential noise: 38 of 40 intervals of 95 % are right on
    /// average, and at least 34 with probability 99.5 %; the bias that is left at four time
    /// constants is 0.5 ns, and half an interval is about as long.
    #[test]
    fn a_slow_transient_is_left_out() {
        let (mut hits, mut first) = (0, 0);
        for seed in 0..40 {
            let random = RefCell::new(Random::new(seed, Stream::Arrivals));
            let recorder = saturated(64_000, |number| {
                let settled = 100.0 - 30.0 * (-f64::from(number) / 4000.0).exp();
                settled + 50.0 * (random.borrow_mut().exponential() - 1.0)
            });
            let measurement = recorder.measurement().unwrap();
            assert!(measurement.steady);
            assert!(
                (8000..40_000).contains(&measurement.warmup_samples),
                "{}",
                measurement.warmup_samples
            );
            let [low, high] = measurement.throughput_mrps_ci95.unwrap();
            hits += u32::from(low <= 10.0 && 10.0 <= high);
            // Of the first lap alone the mean is far off.
            let early = 1e3 * 1600.0 / recorder.samples[1599].completed_at.as_ns();
            first += u32::from(low <= early && early <= high);
        }
        assert!(hits >= 34, "{hits}");
        assert_eq!(first, 0);
    }

    /// Rings of which the longest run, of 100 times as many requests as asked, goes round one and a
    /// half times: it is given up early, and says so.
    #[test]
    fn rings_that_are_too_large_are_not_gone_round() {
        let rings = Rings {
            queues: 1000,
            slots: 20,
        };
        let mut recorder = Recorder::new(300, Warmup::Auto).with_full_rings(Some(rings));
        for number in 0..20_000 {
            recorder.add(Sample {
                completed_at: ns(f64::from(number)),
                latency: ns(1.0),
                service: None,
                queue: number % 1000,
                kind: 0,
                is_cold: true,
                offered: u64::from(number) + 1,
                under_way: 1,
            });
        }
        let measurement = recorder.measurement().unwrap();
        assert_eq!(recorder.recorded(), 1500);
        assert!(!measurement.steady);
        assert_eq!(measurement.cold_samples, 300);
    }

    /// A request each microsecond is served, and one is dropped; each waits for as long as a full
    /// queue takes.
    #[test]
    fn a_full_queue_is_steady_and_does_not_keep_up() {
        let fill = |offered: u64| {
            let mut recorder = Recorder::new(1000, Warmup::Requests(0));
            for number in 0..1000u32 {
                recorder.add(Sample {
                    completed_at: ns(1000.0 * f64::from(number + 5)),
                    latency: ns(5000.0),
                    service: None,
                    queue: 0,
                    kind: 0,
                    is_cold: false,
                    offered: offered * u64::from(number) + 1,
                    under_way: 5,
                });
            }
            recorder
        };
        let measurement = fill(2).measurement().unwrap();
        assert!(measurement.steady && !measurement.keeps_up);
        // 999 microseconds from the first to the last.
        let offered = measurement.offered_mrps.unwrap();
        assert!((offered - 2.0).abs() < 1e-9);
        assert_eq!(
            measurement.overload,
            [
                "1.0000 million requests a second were served (at most 1.0000 with 95 % confidence), and 2.0000 came"
            ]
        );
        let measurement = fill(1).measurement().unwrap();
        assert!(measurement.keeps_up && measurement.overload.is_empty());
        // Together they keep up if each does.
        let both = [&fill(1), &fill(2)];
        let together = Recorder::measurement_together(&both).unwrap();
        assert!(together.steady && !together.keeps_up);
        assert!((together.offered_mrps.unwrap() - 3.0).abs() < 1e-9);
    }

    /// The number of those under way grows by one with each request, though their latencies do not:
    /// some are never served.
    #[test]
    fn requests_that_stay_under_way_are_noticed() {
        let mut recorder = Recorder::new(1000, Warmup::Requests(0));
        for number in 0..1000u32 {
            recorder.add(Sample {
                completed_at: ns(1000.0 * f64::from(number + 5)),
                latency: ns(5000.0),
                service: None,
                queue: 0,
                kind: 0,
                is_cold: false,
                offered: u64::from(number) + 1,
                under_way: u64::from(number) + 5,
            });
        }
        let measurement = recorder.measurement().unwrap();
        assert!(!measurement.steady && !measurement.keeps_up);
        let [reason] = &measurement.overload[..] else {
            panic!("{:?}", measurement.overload);
        };
        assert!(reason.starts_with("the number of requests under way grew by 19"));
    }

    #[test]
    fn nothing_recorded_is_nothing_to_report() {
        let recorder = Recorder::new(10, Warmup::Auto);
        assert_eq!(recorder.measurement(), None);
        assert_eq!(Recorder::measurement_together(&[&recorder; 2]), None);
    }

    /// Two recorders that number their kinds differently: what is called the same is one kind.
    #[test]
    fn kinds_of_the_same_name_are_reported_together() {
        let fill = |latencies: [f64; 2]| {
            let mut recorder = Recorder::new(1000, Warmup::Requests(0));
            for number in 0..1000u32 {
                let kind = (number % 4 == 0) as u8;
                recorder.add(Sample {
                    completed_at: ns(100.0 * f64::from(number)),
                    latency: ns(latencies[usize::from(kind)]),
                    service: None,
                    queue: 0,
                    kind,
                    is_cold: false,
                    offered: u64::from(number),
                    under_way: 1,
                });
            }
            recorder
        };
        let (one, other) = (fill([10.0, 20.0]), fill([30.0, 40.0]));
        let names = [["get", "put"], ["put", "scan"]];
        let together = Recorder::by_kind_together(&[&one, &other], |recorder, kind| {
            names[recorder][usize::from(kind)]
        });
        // 10 million a second each, three quarters of kind 0.
        let expected = [
            ("get", 750, 7.5, 10.0, 10.0),
            (
                "put",
                250 + 750,
                2.5 + 7.5,
                (250.0 * 20.0 + 750.0 * 30.0) / 1000.0,
                30.0,
            ),
            ("scan", 250, 2.5, 40.0, 40.0),
        ];
        assert_eq!(together.len(), expected.len());
        for (name, samples, rate_mrps, mean, longest) in expected {
            let KindMeasurement {
                throughput_mrps,
                ref latency_ns,
                ..
            } = together[name];
            assert_eq!((latency_ns.samples, latency_ns.max), (samples, longest));
            assert!((latency_ns.mean - mean).abs() < 1e-9);
            assert!((throughput_mrps - rate_mrps).abs() < 1e-9);
        }
        // Alone it is what the recorder says of itself.
        let alone = Recorder::by_kind_together(&[&one], |_, kind| kind);
        assert_eq!(alone, one.by_kind());
    }

    /// One of 1000 requests that take 1 to 1000 ns, 100 ns apart, and one of 3000 that take 2000
    /// ns, 50 ns apart, both behind a warm-up.
    #[test]
    fn recorders_report_together() {
        let fill = |requests: u32, gap: f64, latency: &dyn Fn(u32) -> f64| {
            let mut recorder = Recorder::new(requests.into(), Warmup::Requests(10));
            for number in 0..requests + 10 {
                let latency = if number < 10 {
                    1e6
                } else {
                    latency(number - 9)
                };
                recorder.record(ns(gap * f64::from(number)), ns(latency));
            }
            recorder
        };
        let one = fill(1000, 100.0, &f64::from);
        let other = fill(3000, 50.0, &|_| 2000.0);
        let both = [&one, &other];
        let together = Recorder::measurement_together(&both).unwrap();
        let latency = &together.latency_ns;
        assert_eq!((latency.samples, together.warmup_samples), (4000, 20));
        // A quarter takes at most 1000 ns; the sum is 1000 * 1001 / 2 and 3000 * 2000.
        assert_eq!(
            (latency.p50, latency.p999, latency.max),
            (2000.0, 2000.0, 2000.0)
        );
        assert!((latency.mean - (500_500.0 + 6_000_000.0) / 4000.0).abs() < 1e-9);
        // 10 and 20 million a second, without any error.
        assert!((together.throughput_mrps - 30.0).abs() < 1e-9);
        let [low, high] = together.throughput_mrps_ci95.unwrap();
        assert!((low - 30.0).abs() < 1e-6 && (high - 30.0).abs() < 1e-6);
        let bytes = STANDARD.decode(&together.histogram).unwrap();
        let histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .unwrap();
        assert_eq!(
            (histogram.len(), histogram.min(), histogram.count_at(2000)),
            (4000, 1, 3000)
        );
        // The slowest tenth of the first alone, and of both none: three quarters take equally long.
        assert_eq!(one.slower_than(0.9).len(), 100);
        assert_eq!(Recorder::slower_than_together(&both, 0.9).len(), 0);
        assert_eq!(Recorder::slower_than_together(&both, 0.2).len(), 200 + 3000);
        let alone = Recorder::measurement_together(&both[..1]).unwrap();
        assert_eq!(alone.latency_ns, one.measurement().unwrap().latency_ns);
        assert_eq!(alone.histogram, one.measurement().unwrap().histogram);
    }

    /// What was enough may have been saved, as another recorder had not got enough; it has to be
    /// enough again, and no more.
    #[test]
    fn a_recorder_that_has_enough_can_be_put_back() {
        let fill = |requests| {
            let mut recorder = Recorder::new(requests, Warmup::Requests(0));
            (0..100).for_each(|number| recorder.record(ns(f64::from(number)), ns(1.0)));
            recorder
        };
        let saved = state::Writer::write(&mut fill(100)).unwrap();
        let not_enough = state::Writer::write(&mut fill(101)).unwrap();
        let put_back = |requests, saved: &[u8]| {
            let mut recorder = Recorder::new(requests, Warmup::Requests(0));
            state::Reader::read(&mut recorder, saved).map(|()| recorder.is_done())
        };
        assert_eq!(put_back(100, &saved), Ok(true));
        assert_eq!(put_back(102, &not_enough), Ok(false));
        for (requests, saved, why) in [
            (99, &saved, "no more are to be measured"),
            (101, &saved, "and more are to be measured"),
            (100, &not_enough, "no more are to be measured"),
        ] {
            let error = put_back(requests, saved).unwrap_err();
            assert!(error.starts_with(if requests == 101 {
                "the latencies of 100"
            } else {
                "it has"
            }));
            assert!(error.ends_with(why), "{error}");
        }
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

    /// Latencies that are exponential with mean 1000 ns.
    fn exponential(requests: u64, precision: f64, seed: u64) -> Recorder {
        let mut random = Random::new(seed, Stream::Arrivals);
        let mut recorder =
            Recorder::new(requests, Warmup::Requests(100)).with_precision(Some(precision), None);
        let mut number = 0.0;
        while !recorder.is_done() {
            recorder.record(ns(100.0 * number), ns(1000.0 * random.exponential()));
            number += 1.0;
        }
        recorder
    }

    fn width_of_p99(latency: &LatencySummary) -> f64 {
        let [low, high] = latency.p99_ci95.unwrap();
        (high - low) / 2.0 / latency.p99
    }

    /// Independent values: the p99's standard error is 1000 ns sqrt(0.99 / 0.01 / n), and 5 % of
    /// 4605 ns half an interval, so n is about 2.05^2 x 99 x 1000^2 / 230^2 = 7800.
    #[test]
    fn a_run_goes_on_until_the_p99_is_precise() {
        let (mut hits, mut samples, mut unsteady, runs) = (0, 0, 0, 400);
        for seed in 0..runs {
            let measurement = exponential(1000, 0.05, seed).measurement().unwrap();
            let latency = &measurement.latency_ns;
            assert!(measurement.precise);
            unsteady += u32::from(!measurement.steady);
            assert!(width_of_p99(latency) <= 0.05);
            samples += latency.samples;
            let [low, high] = latency.p99_ci95.unwrap();
            let truth = 1000.0 * 100.0f64.ln();
            hits += u32::from(low <= truth && truth <= high);
        }
        // Two series, each of which one in 500 says to drift: 1.6 of 400, and nearly surely at
        // most 7.
        assert!(unsteady <= 7, "{unsteady}");
        // 95 % of 400, as far as chance goes; stopping when the interval is short costs little.
        assert!((364..=393).contains(&hits), "{hits}");
        assert!((7_800..15_600).contains(&(samples / runs)), "{samples}");
    }

    /// Nine tenths of the requests take equally long, and are precise at once; the rest are
    /// exponential, so that 7800 of them are needed as above, and 78,000 in all.
    #[test]
    fn one_kind_of_requests_can_be_what_is_precise() {
        let run = |of| {
            let mut random = Random::new(1, Stream::Arrivals);
            let mut recorder =
                Recorder::new(1000, Warmup::Requests(0)).with_precision(Some(0.05), of);
            let mut number = 0u32;
            while !recorder.is_done() {
                let kind = u8::from(number.is_multiple_of(10));
                let latency = match kind {
                    1 => 1000.0 * random.exponential(),
                    _ => 10_000.0,
                };
                recorder.add(Sample {
                    completed_at: ns(100.0 * f64::from(number)),
                    latency: ns(latency),
                    service: None,
                    queue: 0,
                    kind,
                    is_cold: false,
                    offered: u64::from(number),
                    under_way: 1,
                });
                number += 1;
            }
            recorder
        };
        let (frequent, rare) = (run(Some(0)), run(Some(1)));
        assert!(frequent.measurement().unwrap().precise);
        assert!(frequent.recorded() <= 2000, "{}", frequent.recorded());
        assert!(rare.measurement().unwrap().precise);
        assert!(
            (60_000..=100_000).contains(&rare.recorded()),
            "{}",
            rare.recorded()
        );
        assert!(width_of_p99(&rare.by_kind()[&1].latency_ns) <= 0.05);
    }

    #[test]
    fn requests_are_the_least_that_is_measured() {
        let measurement = exponential(50_000, 0.05, 1).measurement().unwrap();
        assert!(measurement.precise);
        assert_eq!(measurement.latency_ns.samples, 50_000);
    }

    #[test]
    fn a_run_that_would_take_too_long_is_given_up() {
        let measurement = exponential(100, 0.001, 1).measurement().unwrap();
        assert!(measurement.steady && !measurement.precise);
        assert_eq!(measurement.latency_ns.samples, 10_000);
        assert!(width_of_p99(&measurement.latency_ns) > 0.001);
    }

    #[test]
    fn a_run_that_is_not_steady_is_given_up_early() {
        let mut recorder = Recorder::new(1000, Warmup::Auto).with_precision(Some(1e-6), None);
        let mut number = 0.0;
        while !recorder.is_done() {
            recorder.record(ns(number), ns(number));
            number += 1.0;
        }
        let measurement = recorder.measurement().unwrap();
        assert!(!measurement.steady && !measurement.precise);
        assert_eq!(recorder.recorded(), 5000);
    }

    #[test]
    fn equal_latencies_are_precise_at_once() {
        let mut recorder =
            Recorder::new(100, Warmup::Requests(0)).with_precision(Some(0.001), None);
        for number in 0..2000 {
            recorder.record(ns(f64::from(number)), ns(10.0));
        }
        let measurement = recorder.measurement().unwrap();
        assert!(measurement.precise);
        assert!(recorder.recorded() < 1000, "{}", recorder.recorded());
    }

    /// Five rounds over 400 queues have an interval, and less do not; with 8 queues, and where one
    /// request in ten meets another, 60 requests are the fewest.
    #[test]
    fn intervals_need_five_rounds_over_the_queues() {
        let latency = |requests: u32, queues, meets_each: u32| {
            let mut recorder = Recorder::new(requests.into(), Warmup::Requests(0));
            for number in 0..requests {
                recorder.add(Sample {
                    completed_at: ns(100.0 * f64::from(number)),
                    latency: ns(f64::from(number % 7)),
                    service: None,
                    queue: number % queues,
                    kind: 0,
                    is_cold: false,
                    offered: u64::from(number) + 1,
                    under_way: 1 + u64::from(number.is_multiple_of(meets_each)),
                });
            }
            recorder.measurement().unwrap().latency_ns
        };
        for (requests, queues, meets_each, has_one) in [
            (2000, 400, 1, true),
            (1999, 400, 1, false),
            (60, 8, 1, true),
            (59, 8, 1, false),
            (100, 400, 9, false),
            (100, 400, 10, true),
        ] {
            let found = latency(requests, queues, meets_each);
            assert_eq!(found.mean_ci95.is_some(), has_one, "{requests} {queues}");
            assert_eq!(found.p99_ci95.is_some(), has_one, "{requests} {queues}");
        }
    }

    /// Of a Poisson process of 2 Mrps: 3000 gaps have a relative standard error of 1 / sqrt(3000),
    /// 1.8 %, which Student's t for 30 batches makes 3.7 %. 95 of 100 intervals have the rate in
    /// them, give or take three times sqrt(100 * 0.95 * 0.05), which is 2.2.
    #[test]
    fn the_interval_of_the_throughput_has_the_rate_in_it() {
        let (mut hits, mut halves) = (0, 0.0);
        for seed in 0..100 {
            let mut random = Random::new(seed, Stream::Arrivals);
            let mut recorder = Recorder::new(3001, Warmup::Requests(0));
            let mut now = 0.0;
            while !recorder.is_done() {
                now += 500.0 * random.exponential();
                recorder.record(ns(now), ns(1.0));
            }
            let [low, high] = recorder
                .measurement()
                .unwrap()
                .throughput_mrps_ci95
                .unwrap();
            hits += i32::from(low <= 2.0 && 2.0 <= high);
            halves += (high - low) / 2.0 / 2.0 / 100.0;
        }
        assert!((88..=100).contains(&hits), "{hits}");
        assert!((0.033..0.045).contains(&halves), "{halves}");
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
