//! Queueing systems without a computer: the theory with which servers are compared.
//!
//! *Q × U* is RPCValet's notation (Section 2.2) for Q queues, each with U units that serve it,
//! first come, first served. Requests arrive as a Poisson process, and go to a queue that is drawn
//! for each.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, Under};
use workload::{Distribution, Drift, Files, Random, ServiceTimes, Stream, Units};

/// Number of batches for confidence intervals, and Student's t for 95 % and 29 degrees of freedom.
const BATCHES: u64 = Drift::BATCHES as u64;
const STUDENT_T: f64 = 2.0452;
/// The resolution of latencies, as a fraction of a mean service time.
const RESOLUTION: f64 = 1.0 / 1024.0;
/// Number of requests whose random numbers are drawn together before any is served, so that drawing
/// and serving do not wait for each other.
const TOGETHER: usize = 256;

/// A description without a server: a queueing system alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The queueing system.
    pub queueing: QueueingSystem,
}

/// A queueing system Q × U under a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueingSystem {
    /// Queues.
    #[schemars(range(min = 1, max = 1024))]
    pub queues: u32,
    /// Units that serve each queue.
    #[schemars(range(min = 1, max = 1024))]
    pub units: u32,
    /// Distribution of the service times. Their unit does not matter: results are in mean service
    /// times.
    pub service_times: ServiceTimes,
    /// The fraction of the mean service time that is the same for all requests; the distribution
    /// gives the rest (RPCValet, Section 6.3).
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub fixed_part: f64,
    /// Offered load, as a fraction of the capacity of all units.
    #[schemars(range(min = 1e-6, max = 10.0))]
    pub load: f64,
    /// Requests to measure, after a warm-up of a tenth as many.
    #[serde(default = "default_requests")]
    #[schemars(range(min = 3000, max = 100_000_000_000_u64))]
    pub requests: u64,
    /// The seed of all random numbers.
    #[serde(default = "default_seed")]
    pub seed: u64,
}

fn default_requests() -> u64 {
    1_000_000
}

fn default_seed() -> u64 {
    1
}

/// The results of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Measured {
    /// The rate of served requests, as a fraction of the capacity of all units.
    pub throughput: f64,
    /// From a request's arrival to the end of its service.
    pub latency_service_times: Latencies,
    /// The change of latency with time.
    pub drift: Drifts,
    /// Whether the latency does not grow.
    pub steady: bool,
    /// Whether the units serve the offered load, that is, `overload` is empty.
    pub keeps_up: bool,
    /// The reasons why the units do not serve the offered load, a sentence each.
    pub overload: Vec<String>,
    /// Mean time from arrival to the beginning of service, in mean service times.
    pub mean_wait_service_times: f64,
    /// Mean of the service times that were drawn, in the unit of their distribution and without the
    /// fixed part.
    pub mean_drawn_service_time: f64,
    /// All latencies in 1024ths of a mean service time, as an HdrHistogram (V2, compressed,
    /// base64).
    pub histogram: String,
}

/// Quantities that may change with time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "QueueingDrifts")]
pub struct Drifts {
    /// Latency, in the order in which requests arrive.
    pub latency: Drift,
}

/// Latencies in mean service times.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "QueueingLatencies")]
pub struct Latencies {
    /// Requests measured.
    pub samples: u64,
    /// Mean time from arrival to the end of service.
    pub mean: f64,
    /// 95 % confidence interval of `mean`.
    pub mean_ci95: [f64; 2],
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 95 % confidence interval of `p99`.
    pub p99_ci95: [f64; 2],
    /// 99.9th percentile.
    pub p999: f64,
}

/// The random draws of requests, the same as those of a server with the same seed: arrivals and
/// service times differ only in their unit.
struct Draws {
    arrivals: Random,
    choice: Random,
    service: Random,
    queues: u32,
}

/// Drawn numbers: gaps and services relative to their means, and queues.
struct Drawn {
    gaps: [f64; TOGETHER],
    services: [f64; TOGETHER],
    chosen: [u32; TOGETHER],
}

impl Draws {
    fn new(seed: u64, queues: u32) -> Draws {
        Draws {
            arrivals: Random::new(seed, Stream::Arrivals),
            choice: Random::new(seed, Stream::Queues),
            service: Random::new(seed, Stream::ServiceTimes),
            queues,
        }
    }

    /// Draws the numbers of `together` requests.
    #[inline]
    fn next(&mut self, service_times: &Distribution, together: usize) -> Drawn {
        let mut gaps = [0.0; TOGETHER];
        let mut services = [0.0; TOGETHER];
        let mut chosen = [0u32; TOGETHER];
        for gap in &mut gaps[..together] {
            *gap = self.arrivals.exponential();
        }
        service_times.fill(&mut self.service, &mut services[..together]);
        if self.queues > 1 {
            for queue in &mut chosen[..together] {
                *queue = self.choice.below(u64::from(self.queues)) as u32;
            }
        }
        Drawn {
            gaps,
            services,
            chosen,
        }
    }
}

/// The 95 % confidence interval of a nonnegative number, from its variation between batches. It is
/// centred at the value over all of them: few batches contain rare events of a tail.
fn interval(value: f64, batches: &[f64]) -> [f64; 2] {
    let count = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / count;
    let squares = batches.iter().map(|batch| (batch - mean).powi(2));
    let variance = squares.sum::<f64>() / (count - 1.0);
    let half = STUDENT_T * (variance / count).sqrt();
    [(value - half).max(0.0), value + half]
}

impl QueueingSystem {
    /// Checks whether it can be simulated.
    pub fn check(&self) -> Result<(), SpecError> {
        spec::check(self)?;
        self.service_times.check().under("service_times")
    }

    /// Simulates the system. `goes_on` is called at intervals with the fraction done; if it returns
    /// false, there is no result.
    pub fn simulate(
        &self,
        files: &Files,
        mut goes_on: impl FnMut(f64) -> bool,
    ) -> Result<Option<Measured>, String> {
        let checked = self.check().under("queueing");
        checked.map_err(|error| error.to_string())?;
        let service_times = self.service_times.open(files)?;
        let mut draws = Draws::new(self.seed, self.queues);
        let all_units = f64::from(self.queues) * f64::from(self.units);
        let mean_gap = 1.0 / (self.load * all_units);
        let scale = (1.0 - self.fixed_part) / service_times.mean();
        let mut queues: Vec<Units> = (0..self.queues)
            .map(|_| Units::new(self.units as usize))
            .collect();

        let batch_requests = self.requests / BATCHES;
        let total = self.requests / 10 + batch_requests * BATCHES;
        let mut done = 0;
        let mut all = histogram()?;
        let mut means = [0.0; Drift::BATCHES];
        let mut p99s = Vec::new();
        let (mut now, mut waits, mut all_drawn, mut begin) = (0.0, 0.0, 0.0, 0.0);
        // The batch before the first one is the warm-up.
        for batch in 0..=BATCHES {
            let mut latencies = histogram()?;
            let (mut sum, mut wait, mut drawn) = (0.0, 0.0, 0.0);
            let mut left = if batch == 0 {
                self.requests / 10
            } else {
                batch_requests
            };
            while left > 0 {
                let together = left.min(TOGETHER as u64) as usize;
                let Drawn {
                    gaps,
                    services,
                    chosen,
                } = draws.next(&service_times, together);
                for place in 0..together {
                    now += mean_gap * gaps[place];
                    let service = self.fixed_part + scale * services[place];
                    let latency = queues[chosen[place] as usize].serve(now, service) - now;
                    sum += latency;
                    drawn += services[place];
                    wait += latency - service;
                    latencies.saturating_record((latency / RESOLUTION + 0.5) as u64);
                }
                left -= together as u64;
                done += together as u64;
                if !goes_on(done as f64 / total as f64) {
                    return Ok(None);
                }
            }
            if batch == 0 {
                begin = now;
                continue;
            }
            waits += wait;
            all_drawn += drawn;
            means[batch as usize - 1] = sum / batch_requests as f64;
            p99s.push(latencies.value_at_quantile(0.99) as f64 * RESOLUTION);
            all.add(&latencies).map_err(|error| error.to_string())?;
        }
        let samples = batch_requests * BATCHES;
        let quantile = |share| all.value_at_quantile(share) as f64 * RESOLUTION;
        let mean = means.iter().sum::<f64>() / BATCHES as f64;
        let p99 = quantile(0.99);
        let latency = Drift::of_means(&means);
        let growing = latency.sentence("latency").into_iter();
        let capacity = (self.load >= 1.0)
            .then(|| format!("the load is {}, and all units can serve 1", self.load));
        let overload: Vec<String> = capacity.into_iter().chain(growing).collect();
        Ok(Some(Measured {
            throughput: samples as f64 / (now - begin) / all_units,
            drift: Drifts { latency },
            steady: !latency.grows() && !latency.falls(),
            keeps_up: overload.is_empty(),
            overload,
            latency_service_times: Latencies {
                samples,
                mean,
                mean_ci95: interval(mean, &means),
                p50: quantile(0.5),
                p90: quantile(0.9),
                p99,
                p99_ci95: interval(p99, &p99s),
                p999: quantile(0.999),
            },
            mean_wait_service_times: waits / samples as f64,
            mean_drawn_service_time: all_drawn / samples as f64,
            histogram: written(&all)?,
        }))
    }
}

fn written(histogram: &Histogram<u64>) -> Result<String, String> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .map_err(|error| error.to_string())?;
    Ok(STANDARD.encode(bytes))
}

/// Three digits of latencies, up to four million mean service times.
fn histogram() -> Result<Histogram<u64>, String> {
    Histogram::new_with_bounds(1, 1 << 32, 3).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::{ArrivalProcess, Arrivals};

    /// 1, 2 and 3 have the mean 2 and the variance 1 (of a sample: divided by 2).
    #[test]
    fn an_interval_follows_from_the_variance_of_a_sample() {
        let half = STUDENT_T / 3.0f64.sqrt();
        let [low, high] = interval(9.0, &[1.0, 2.0, 3.0]);
        assert!((low - (9.0 - half)).abs() < 1e-12 && (high - (9.0 + half)).abs() < 1e-12);
        assert_eq!(interval(0.5, &[1.0, 2.0, 3.0])[0], 0.0);
    }

    /// 16 units of a mean service time of 0.5 us at a load of 0.8 are a server that is offered 25.6
    /// million requests a second.
    #[test]
    fn a_server_with_the_same_seed_gets_the_same_requests() {
        let (seed, rate_mrps, mean_us) = (7, 25.6, 0.5);
        let mean_gap = 1.0 / (0.8 * 16.0);
        let random = Random::new(seed, Stream::Arrivals);
        let mut server = ArrivalProcess::new(Arrivals::Poisson, rate_mrps, 1.0, random);
        let times = ServiceTimes::Exponential.open(&Files::default()).unwrap();
        let mut services = Random::new(seed, Stream::ServiceTimes);
        let mut draws = Draws::new(seed, 1);
        for _ in 0..4 {
            let drawn = draws.next(&times, TOGETHER);
            for place in 0..TOGETHER {
                let gap_us = server.next_arrival().gap.as_ns() / 1e3;
                // A server's times are whole femtoseconds.
                assert!((mean_us * mean_gap * drawn.gaps[place] - gap_us).abs() < 1e-9);
                assert_eq!(drawn.services[place], times.draw(&mut services));
            }
        }
    }
}
