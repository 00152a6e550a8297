//! Control variates: the behaviour of an ideal queue under a run's own arrivals and service times.
//!
//! A run whose arrivals were close together by chance, or whose requests were long, has latencies
//! above those of a longer run, and so has an ideal queue of as many units with the same arrivals
//! and services. For the ideal queue the result of a very long run is known, so the difference can
//! be subtracted, times a regression coefficient (Lavenberg and Welch, Management Science 27(3),
//! 1981). A percentile has no batch means; the share of each batch below it replaces them.
//!
//! The services of the very long run are drawn from the measured ones, which are a sample
//! themselves. The influence of each batch of them on the ideal queue's result is found by leaving
//! the batch out (the jackknife), and is part of the interval.

use super::measurement::{Interval, latencies_ns, services_ns};
use super::sample::Sample;
use crate::elementary::{exp, ln};
use crate::ideal::Units;
use crate::statistics::{Batches, ascending_quantiles, quantile_interval, with_control};
use crate::{Random, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of batches into which requests are divided. With 30, as for other intervals, those of a
/// p99 were a fifth too short (`tests/controlled.rs`): the requests of the tail are concentrated in
/// few batches.
const BATCHES: usize = 10;
/// With fewer requests a p99 depends on fewer than ten.
const LEAST_REQUESTS: usize = 1000;
/// The ratio of the requests in the very long run to the measured ones, which makes its own error
/// negligible, and the maximum number of requests.
const LONGER: usize = 50;
const LONGEST: usize = 1 << 20;
/// Number of batches of the very long run.
const LONG_BATCHES: usize = 30;
/// Number of requests in the runs that leave out a batch of services.
const LEFT_OUT: usize = 40_000;
/// Number of quantiles that represent the services in those runs.
const QUANTILES: usize = 2048;
/// Above this load, an ideal queue takes too long to forget its initial state.
const LARGEST_LOAD: f64 = 0.97;
/// Candidates for the additional time that a core is busy with a request, as a fraction of the mean
/// service.
const BUSY: [f64; 9] = [0.0, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4];
/// The 97.5 % quantile of the normal distribution.
const NORMAL: f64 = 1.96;

/// The ideal queue with which latencies are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ideal {
    /// The rate of the Poisson process by which requests come, in millions a second.
    pub rate_mrps: f64,
    /// Number of units that serve it.
    pub units: usize,
}

/// Estimates of mean and 99th percentile of the latency with less variance, by an ideal queue that
/// serves the run's own arrivals for the run's own service times: what it gives more or less than
/// in a very long run is taken off, times a coefficient of regression. In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ControlledLatency {
    /// Mean.
    pub mean: f64,
    /// 95 % confidence interval of `mean`.
    pub mean_ci95: Interval,
    /// 99 % of the requests take at most this.
    pub p99: f64,
    /// 95 % confidence interval of `p99`.
    pub p99_ci95: Interval,
    /// Mean of the ideal queue with the run's own arrivals and service times.
    pub ideal_mean: f64,
    /// That of a very long run of it.
    pub ideal_mean_expected: f64,
    /// 99th percentile of the ideal queue with the run's own arrivals and service times.
    pub ideal_p99: f64,
    /// That of a very long run of it.
    pub ideal_p99_expected: f64,
}

impl Ideal {
    /// The estimates from the samples after `cut`, with rounds of `round`; `None` if services are
    /// unknown, there are too few requests, or the ideal queue is saturated.
    pub(super) fn control(
        self,
        samples: &[Sample],
        cut: usize,
        round: usize,
    ) -> Option<ControlledLatency> {
        let measured = &samples[cut..];
        let length = measured.len() / round.max(1) / BATCHES * round;
        let services = services_ns(measured);
        if measured.len() < LEAST_REQUESTS || length == 0 || services.len() < measured.len() {
            return None;
        }
        let batches = Batches {
            count: BATCHES,
            length,
        };
        let mean_service = services.iter().sum::<f64>() / services.len() as f64;
        let load = self.rate_mrps * mean_service / 1e3 / self.units as f64;
        if !(load > 0.0 && load < LARGEST_LOAD) {
            return None;
        }
        let values = latencies_ns(measured);
        let times = batches.means(values.iter().copied());
        // The additional busy time of a core is unknown: it is chosen for the highest correlation
        // of the two queues.
        let own = |busy: f64| {
            self.own(samples, mean_service, busy * mean_service)
                .split_off(cut)
        };
        let alike = |busy: f64| correlation(&times, &batches.means(own(busy).into_iter()));
        let bearable = |busy: &f64| load * (1.0 + busy) < LARGEST_LOAD;
        let more_busy = BUSY.into_iter().filter(bearable);
        let (_, busy) = more_busy
            .map(|busy| (alike(busy), busy))
            .fold(
                (0.0, 0.0),
                |best, one| if one.0 > best.0 { one } else { best },
            );
        let own = own(busy);
        let services: Vec<f64> = services
            .iter()
            .map(|service| service + busy * mean_service)
            .collect();
        let expected = self.expected(&services);
        let influences = self.influences(&services, batches);
        let minus = |values: Vec<f64>, influences: &[f64]| -> Vec<f64> {
            let pairs = values.iter().zip(influences);
            pairs.map(|(value, influence)| value - influence).collect()
        };

        let all = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let controls = minus(batches.means(own.iter().copied()), &influences.mean);
        let (coefficient, half) = with_control(&times, &controls, expected.mean);
        let half = together(half, NORMAL * coefficient * expected.mean_error);
        let ideal_mean = all(&own);
        let mean = all(&values) - coefficient * (ideal_mean - expected.mean);
        let mean_ci95 = [mean - half, mean + half];

        // By logarithms: a p99 varies by a fraction of itself, upwards more than downwards.
        let (plain, parts) = log_p99(&values, batches);
        let (own_p99, ideal_parts) = log_p99(&own, batches);
        let controls = minus(ideal_parts, &influences.p99);
        let (coefficient, half) = with_control(&parts, &controls, expected.p99);
        let half = together(half, NORMAL * coefficient * expected.p99_error);
        let p99 = plain - coefficient * (own_p99 - expected.p99);
        // Not shorter than the interval without control times the unexplained part of its
        // regression: that interval extends further up than down, like the tail.
        let left = unexplained(&parts, &controls, coefficient).sqrt();
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let [low, high] = quantile_interval(&values, &sorted, 0.99, round)?;
        let p99_ci95 = [
            p99 - half.max(left * (plain - ln(low))),
            p99 + half.max(left * (ln(high) - plain)),
        ];
        Some(ControlledLatency {
            mean,
            mean_ci95,
            p99: exp(p99),
            p99_ci95: p99_ci95.map(exp),
            ideal_mean,
            ideal_mean_expected: expected.mean,
            ideal_p99: exp(own_p99),
            ideal_p99_expected: exp(expected.p99),
        })
    }

    /// The latencies of the ideal queue with the arrivals and services of all samples, in order;
    /// each service is prolonged by `longer`.
    fn own(self, samples: &[Sample], mean_service: f64, longer: f64) -> Vec<f64> {
        let mut arrivals: Vec<usize> = (0..samples.len()).collect();
        arrivals.sort_by_key(|&place| (samples[place].came_at(), samples[place].offered));
        let begin = arrivals.first().map(|&place| samples[place].came_at());
        let mut units = Units::new(self.units);
        let mut latencies = vec![0.0; samples.len()];
        for place in arrivals {
            let sample = &samples[place];
            let since = begin.map_or(sample.came_at(), |begin| {
                sample.came_at().saturating_sub(begin)
            });
            let now = since.as_ns();
            // Requests in flight at the start of the measurement may lack a service time.
            let service = sample.service.map_or(mean_service, |time| time.as_ns()) + longer;
            latencies[place] = units.serve(now, service) - now;
        }
        latencies
    }

    /// The results of a very long run of the ideal queue, with services drawn from `services`.
    fn expected(self, services: &[f64]) -> Expected {
        let gap_ns = 1e3 / self.rate_mrps;
        let batch = (LONGER * services.len()).min(LONGEST) / LONG_BATCHES;
        let mut random = Random::new(1, Stream::ControlVariates);
        let mut units = Units::new(self.units);
        let mut latencies = Vec::with_capacity(LONG_BATCHES * batch);
        let mut now = 0.0;
        for number in 0..LONG_BATCHES * batch + batch {
            now += gap_ns * random.exponential();
            let service = services[random.below(services.len() as u64) as usize];
            let latency = units.serve(now, service) - now;
            // The first batch is the warm-up.
            if number >= batch {
                latencies.push(latency);
            }
        }
        let means: Vec<f64> = latencies
            .chunks_exact(batch)
            .map(|batch| batch.iter().sum::<f64>() / batch.len() as f64)
            .collect();
        let error = |parts: &[f64]| {
            let count = parts.len() as f64;
            let mean = parts.iter().sum::<f64>() / count;
            let squares: f64 = parts.iter().map(|part| (part - mean).powi(2)).sum();
            (squares / (count - 1.0) / count).sqrt()
        };
        let batches = Batches {
            count: LONG_BATCHES,
            length: batch,
        };
        let (p99, parts) = log_p99(&latencies, batches);
        Expected {
            mean: means.iter().sum::<f64>() / means.len() as f64,
            mean_error: error(&means),
            p99,
            p99_error: error(&parts),
        }
    }

    /// The influence of each batch's services on the ideal queue's mean and on the logarithm of its
    /// p99: the difference between the results with all batches and without this one. All of these
    /// queues have the same arrivals, and services of the same rank.
    fn influences(self, services: &[f64], batches: Batches) -> Influences {
        let gap_ns = 1e3 / self.rate_mrps;
        let mut order: Vec<usize> = (0..batches.count * batches.length).collect();
        order.sort_by(|&one, &other| services[one].total_cmp(&services[other]));
        let without = |batch: usize| {
            let kept = order.iter().filter(|&&at| at / batches.length != batch);
            let kept: Vec<f64> = kept.map(|&at| services[at]).collect();
            quantile_means(&kept)
        };
        // The last one uses all batches.
        let quantiles: Vec<Vec<f64>> = (0..=batches.count).map(without).collect();
        let mut systems = vec![Units::new(self.units); quantiles.len()];
        let requests = LEFT_OUT.min(LONGER * services.len());
        let warmup = requests / 10;
        let mut latencies = vec![Vec::with_capacity(requests); quantiles.len()];
        let mut random = Random::new(2, Stream::ControlVariates);
        let mut now = 0.0;
        for number in 0..requests + warmup {
            now += gap_ns * random.exponential();
            let rank = random.unit();
            for ((of, units), latencies) in quantiles.iter().zip(&mut systems).zip(&mut latencies) {
                let service = of[(rank * of.len() as f64) as usize];
                let latency = units.serve(now, service) - now;
                if number >= warmup {
                    latencies.push(latency);
                }
            }
        }
        let others = batches.count as f64 - 1.0;
        let influence = |values: Vec<f64>| -> Vec<f64> {
            let all = values[batches.count];
            let each = values[..batches.count].iter();
            each.map(|one| others * (all - one)).collect()
        };
        let means = latencies.iter().map(|of| of.iter().sum::<f64>());
        let mean = influence(means.map(|sum| sum / requests as f64).collect());
        let rank = (0.99 * requests as f64).ceil() as usize - 1;
        let p99s = latencies
            .iter_mut()
            .map(|of| ln(*of.select_nth_unstable_by(rank, f64::total_cmp).1));
        Influences {
            mean,
            p99: influence(p99s.collect()),
        }
    }
}

/// Half the interval of a sum of two numbers with these half intervals. Not `hypot`, whose last bit
/// depends on the C library.
fn together(one: f64, other: f64) -> f64 {
    (one * one + other * other).sqrt()
}

/// The logarithm of the p99 of values, and that of each batch: the deviation of its share within
/// the p99 from 99 %, divided by the density there.
fn log_p99(values: &[f64], batches: Batches) -> (f64, Vec<f64>) {
    let [below, p99, above] = ascending_quantiles(values, [0.985, 0.99, 0.995]);
    let inverse_density = (ln(above) - ln(below)) / 0.01;
    let within = values
        .iter()
        .map(|&value| f64::from(u8::from(value <= p99)));
    let shares = batches.means(within);
    let parts = shares
        .iter()
        .map(|share| ln(p99) + (0.99 - share) * inverse_density);
    (ln(p99), parts.collect())
}

/// The correlation of two series; 0 if one of them is constant.
fn correlation(ones: &[f64], others: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (one_mean, other_mean) = (mean(ones), mean(others));
    let (mut products, mut squares) = (0.0, [0.0; 2]);
    for (one, other) in ones.iter().zip(others) {
        let (one, other) = (one - one_mean, other - other_mean);
        products += one * other;
        squares[0] += one * one;
        squares[1] += other * other;
    }
    let [one, other] = squares;
    if one > 0.0 && other > 0.0 {
        products / (one * other).sqrt()
    } else {
        0.0
    }
}

/// The fraction of the variance of batches that the control does not explain; 1 if they do not vary.
fn unexplained(values: &[f64], controls: &[f64], coefficient: f64) -> f64 {
    let variance = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|one| (one - mean).powi(2)).sum::<f64>()
    };
    let pairs = values.iter().zip(controls);
    let left: Vec<f64> = pairs
        .map(|(one, other)| one - coefficient * other)
        .collect();
    let all = variance(values);
    if all > 0.0 {
        variance(&left) / all
    } else {
        1.0
    }
}

/// At most `QUANTILES` numbers that represent sorted ones: means of equal parts.
fn quantile_means(sorted: &[f64]) -> Vec<f64> {
    let count = sorted.len().min(QUANTILES);
    let end = |part: usize| part * sorted.len() / count;
    (0..count)
        .map(|part| {
            let of = &sorted[end(part)..end(part + 1)];
            of.iter().sum::<f64>() / of.len() as f64
        })
        .collect()
}

/// The results of a very long run of the ideal queue, and their standard errors.
struct Expected {
    mean: f64,
    mean_error: f64,
    /// The logarithm of the p99.
    p99: f64,
    p99_error: f64,
}

/// The influence of each batch's services on the ideal queue's results.
struct Influences {
    mean: Vec<f64>,
    p99: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::unexplained;

    #[test]
    fn a_control_leaves_what_it_does_not_follow() {
        // The control is half of the values: nothing is left.
        assert_eq!(unexplained(&[2.0, 4.0, 6.0], &[1.0, 2.0, 3.0], 2.0), 0.0);
        // Without the control all of it is.
        assert_eq!(unexplained(&[2.0, 4.0, 6.0], &[1.0, 2.0, 3.0], 0.0), 1.0);
    }

    #[test]
    fn a_control_shortens_no_interval_of_batches_that_do_not_vary() {
        assert_eq!(unexplained(&[5.0, 5.0, 5.0], &[1.0, 2.0, 3.0], 0.0), 1.0);
    }
}
