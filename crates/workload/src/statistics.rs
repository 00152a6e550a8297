//! Estimates from the correlated samples of one simulation.

/// The maximum number of batches for confidence intervals: beyond 30, intervals hardly become
/// shorter, and batches only become more dependent (Schmeiser, Operations Research 30(3), 1982).
const MAX_BATCHES: usize = 30;
/// The minimum number. Student's t is exact for any number of independent normal means, but with
/// fewer than five it is so large (3.2 for four) that the interval has little value.
const MIN_BATCHES: usize = 5;
/// Fewer values than two for each of 30 batches have no interval.
const MIN_VALUES: usize = 2 * MAX_BATCHES;
/// The 97.5 % quantiles of Student's t distribution with 4 to 29 degrees of freedom: for 5 to 30
/// batches.
const STUDENT_T: [f64; MAX_BATCHES - MIN_BATCHES + 1] = [
    2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314,
    2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518,
    2.0484, 2.0452,
];
/// The 97.5 % quantile of the normal distribution, for a known standard error.
const NORMAL: f64 = 1.96;
/// Above this, the run is too short for any interval.
const LARGEST_CORRELATION: f64 = 0.9;

/// Number of initial values to omit, by the rule MSER-5 (White, Simulation 69(6), 1997): [`mser`]
/// over the means of batches of 5.
pub fn mser5(values: &[f64]) -> Option<usize> {
    let batches: Vec<f64> = values
        .chunks_exact(5)
        .map(|batch| batch.iter().sum::<f64>() / 5.0)
        .collect();
    Some(mser(&batches)? * 5)
}

/// Number of batch means to omit: [`min_error`]. `None` if it is more than half of them: then there
/// are too few to decide.
pub(crate) fn mser(batches: &[f64]) -> Option<usize> {
    min_error(batches).filter(|&cut| cut <= batches.len() / 2)
}

/// Number of batch means to omit for the minimum squared standard error of the rest. `None` with
/// fewer than five batches.
pub(crate) fn min_error(batches: &[f64]) -> Option<usize> {
    // The last cuts leave few batches, which may be equal by chance.
    let last_cut = batches.len().checked_sub(5)?;
    // Values are taken relative to the last one, so that the difference of the squares keeps its
    // precision, and is exactly 0 for values equal to it.
    let center = batches.last()?;
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    let (mut best_cut, mut least) = (0, f64::INFINITY);
    for (cut, batch) in batches.iter().enumerate().rev() {
        let deviation = batch - center;
        sum += deviation;
        squares += deviation * deviation;
        count += 1.0;
        let error = (squares - sum * sum / count) / (count * count);
        if cut <= last_cut && error <= least {
            (best_cut, least) = (cut, error);
        }
    }
    Some(best_cut)
}

/// The smallest value such that at least the share `probability` of `sorted` does not exceed it; 0
/// if there are no values.
pub fn quantile(sorted: &[f64], probability: f64) -> f64 {
    sorted
        .get(place_of(sorted.len(), probability))
        .copied()
        .unwrap_or(0.0)
}

/// The place of a quantile among as many sorted values.
fn place_of(values: usize, probability: f64) -> usize {
    let rank = (probability * values as f64).ceil().max(1.0) as usize;
    rank.min(values).wrapping_sub(1)
}

/// The same quantiles as [`quantile`], of values in any order; `probabilities` ascend. Does not sort
/// the values.
pub(crate) fn ascending_quantiles<const N: usize>(
    values: &[f64],
    probabilities: [f64; N],
) -> [f64; N] {
    let mut values = values.to_vec();
    // Values before this place are at most as large as all others.
    let mut from = 0;
    let length = values.len();
    probabilities.map(|probability| {
        let place = place_of(length, probability);
        if place >= length {
            return 0.0;
        }
        let (_, value, _) = values[from..].select_nth_unstable_by(place - from, f64::total_cmp);
        from = place;
        *value
    })
}

/// The division of values into batches of equal length, for confidence intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batches {
    pub(crate) count: usize,
    pub(crate) length: usize,
}

impl Batches {
    /// Divides `values` values into batches of whole rounds of `round`: a data plane that visits
    /// its queues in turn serves each at its own cost, so that the mean of a partial round is the
    /// mean of only some queues. `None` with fewer than 60 values or fewer than five rounds.
    pub(crate) fn of(values: usize, round: usize) -> Option<Batches> {
        let rounds = values.checked_div(round)?;
        if values < MIN_VALUES || rounds < MIN_BATCHES {
            return None;
        }
        let rounds_each = rounds.div_ceil(MAX_BATCHES);
        Some(Batches {
            count: rounds / rounds_each,
            length: rounds_each * round,
        })
    }

    /// The factor between the standard error of the mean of the batches and half of its interval.
    fn student_t(self) -> f64 {
        STUDENT_T[self.count - MIN_BATCHES]
    }

    /// The mean of the values in batches, and half the length of its 95 % confidence interval, by
    /// the method of non-overlapping batch means: batches so long that their means are almost
    /// independent. If neighbouring means are still correlated, the variance is assumed to be that
    /// of a first-order autoregression, (1 + r) / (1 - r) times as large, with r their correlation
    /// (the method Skart: Tafazzoli, Wilson, Lada and Steiger, INFORMS Journal on Computing 23(2),
    /// 2011). A negative correlation is due to chance here, and does not shorten intervals.
    fn mean(self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let count = self.count as f64;
        let means = self.means(values);
        let mean = means.iter().sum::<f64>() / count;
        let deviations: Vec<f64> = means.iter().map(|batch| batch - mean).collect();
        let squares: f64 = deviations.iter().map(|one| one * one).sum();
        if squares == 0.0 {
            return (mean, 0.0);
        }
        let variance = squares / (count - 1.0) * correlated(&deviations, squares);
        (mean, self.student_t() * (variance / count).sqrt())
    }

    /// The mean of the values in each batch.
    pub(crate) fn means(self, values: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut means = vec![0.0; self.count];
        for (place, value) in values.take(self.count * self.length).enumerate() {
            means[place / self.length] += value / self.length as f64;
        }
        means
    }
}

/// The factor (1 + r) / (1 - r) of [`Batches::mean`], with r the correlation of neighbouring
/// deviations, whose squares have the sum `squares`.
fn correlated(deviations: &[f64], squares: f64) -> f64 {
    let products: f64 = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let correlation = (products / squares).clamp(0.0, LARGEST_CORRELATION);
    (1.0 + correlation) / (1.0 - correlation)
}

/// The regression coefficient of batch means on those of a control variate with the known mean
/// `expected`, and half the length of the 95 % confidence interval of the corrected mean (Lavenberg
/// and Welch, Management Science 27(3), 1981). There must be 6 to 30 batches.
pub(crate) fn with_control(values: &[f64], controls: &[f64], expected: f64) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let (value, control) = (mean(values), mean(controls));
    let both = || values.iter().zip(controls);
    let squares: f64 = controls.iter().map(|one| (one - control).powi(2)).sum();
    let products: f64 = both()
        .map(|(one, other)| (one - value) * (other - control))
        .sum();
    let coefficient = if squares > 0.0 {
        products / squares
    } else {
        0.0
    };
    let left: Vec<f64> = both()
        .map(|(one, other)| one - value - coefficient * (other - control))
        .collect();
    let rest: f64 = left.iter().map(|one| one * one).sum();
    if rest == 0.0 {
        return (coefficient, 0.0);
    }
    // The coefficient is one more estimated parameter.
    let variance = rest / (count - 2.0) * correlated(&left, rest);
    let away = if squares > 0.0 {
        (control - expected).powi(2) / squares
    } else {
        0.0
    };
    let student_t = STUDENT_T[values.len() - 1 - MIN_BATCHES];
    (
        coefficient,
        student_t * (variance * (1.0 / count + away)).sqrt(),
    )
}

/// The 95 % confidence interval of the mean, by batch means and Student's t. Batches are whole
/// rounds of `round` values, the number of queues that are served in turn. The interval is centred
/// at the mean of whole rounds, and extended to contain that of all values. `None` with fewer than
/// 60 values or fewer than five rounds.
pub fn mean_interval(values: &[f64], round: usize) -> Option<[f64; 2]> {
    let all = values.iter().sum::<f64>() / values.len() as f64;
    let (mean, half) = Batches::of(values.len(), round)?.mean(values.iter().copied());
    Some([(mean - half).min(all), (mean + half).max(all)])
}

/// The probabilities whose quantiles are the ends of the 95 % confidence interval of a quantile.
///
/// The share of values at or below the estimated quantile is a mean of ones and zeros, whose error
/// follows from batch means. Its standard error is not assumed to be less than that of independent
/// values.
fn share_interval(
    values: &[f64],
    sorted: &[f64],
    probability: f64,
    round: usize,
) -> Option<[f64; 2]> {
    let batches = Batches::of(values.len(), round)?;
    let estimate = quantile(sorted, probability);
    let below = || {
        values
            .iter()
            .map(|&value| f64::from(u8::from(value <= estimate)))
    };
    let length = values.len() as f64;
    let (share, half) = batches.mean(below());
    let independent = (probability * (1.0 - probability) / length).sqrt();
    let half = half.max(NORMAL * independent);
    // The share in whole rounds may differ from that of all values.
    let offset = below().sum::<f64>() / length - share;
    Some([
        probability + (offset - half).min(0.0),
        probability + (offset + half).max(0.0),
    ])
}

/// The 95 % confidence interval of a quantile of `values`; `sorted` has them in order.
///
/// Its ends are the quantiles at `probability` plus and minus the error of the share of values
/// below it (Heidelberger and Lewis, Operations Research 32(1), 1984, compare such methods). If the
/// upper end would need more values than there are, it is the maximum. Batches and `None` are those
/// of [`mean_interval`].
pub fn quantile_interval(
    values: &[f64],
    sorted: &[f64],
    probability: f64,
    round: usize,
) -> Option<[f64; 2]> {
    let [low, high] = share_interval(values, sorted, probability, round)?;
    Some([
        quantile(sorted, low.max(0.0)),
        quantile(sorted, high.min(1.0)),
    ])
}

/// To end a run by its precision, this fraction of the batches of an interval must reach the
/// quantile.
///
/// Values beyond it are concentrated in a few busy periods. A run that ends when the interval is
/// short ends too often after a chance lack of such periods: with times of an M/M/1 queue at a load
/// of 0.5 and half an interval of 15 %, only 80 % of the intervals contained the true value. If n
/// such periods fall into 30 batches by chance, a fifth of the batches contain none for n = 48.
const BATCHES_IN_TAIL: f64 = 0.8;
/// An interval this many times as short as it need be ends a run although fewer batches reach the
/// quantile: by chance a third of its length may be missing, but hardly two thirds. Times of which
/// a tenth is exponential then need 2200 requests instead of 6700, and 97 % of their intervals
/// contain the true value, and 93.5 to 96 % of those of queues. It is 85 to 93 % of those if half
/// the length is enough, however few batches reach the quantile.
const AMPLE: f64 = 3.0;
/// The batches are then joined to at most this many. Of ten, a fifth contain none of 16 periods.
const JOINED_BATCHES: usize = 10;

/// Half the length of a quantile's 95 % confidence interval, as a fraction of the quantile. `None`
/// if there are too few values for both ends, or if too few batches reach the quantile for a
/// reliable interval: fewer suffice if `wanted`, the precision that ends the run, is much coarser.
pub fn quantile_precision(
    values: &[f64],
    sorted: &[f64],
    (probability, wanted): (f64, f64),
    round: usize,
) -> Option<f64> {
    let [low, high] = share_interval(values, sorted, probability, round)?;
    if high >= 1.0 {
        return None;
    }
    let estimate = quantile(sorted, probability);
    let length = quantile(sorted, high) - quantile(sorted, low.max(0.0));
    let found = match length == 0.0 {
        true => 0.0,
        false => length / 2.0 / estimate,
    };
    let batches = Batches::of(values.len(), round)?;
    let are_enough_in_tail = |joined: usize| {
        let count = batches.count / joined;
        let all = values.chunks_exact(joined * batches.length).take(count);
        let in_tail = all.filter(|batch| batch.iter().any(|&value| value >= estimate));
        in_tail.count() as f64 >= BATCHES_IN_TAIL * count as f64
    };
    let is_ample = found <= wanted / AMPLE;
    let is_reliable = are_enough_in_tail(1)
        || is_ample && are_enough_in_tail(batches.count.div_ceil(JOINED_BATCHES));
    is_reliable.then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, Stream};

    #[test]
    fn quantiles_are_those_of_nearest_rank() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantile(&sorted, 0.5), 50.0);
        assert_eq!(quantile(&sorted, 0.99), 99.0);
        assert_eq!(quantile(&sorted, 0.999), 100.0);
        assert_eq!(quantile(&sorted, 0.0), 1.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn quantiles_of_unsorted_values_are_the_same() {
        let mut random = Random::new(1, Stream::ControlVariates);
        for length in [0, 1, 2, 100, 1001] {
            let values: Vec<f64> = (0..length).map(|_| random.unit()).collect();
            let mut sorted = values.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            let shares = [0.0, 0.5, 0.985, 0.99, 0.99, 0.995, 1.0];
            let expected = shares.map(|share| quantile(&sorted, share));
            assert_eq!(ascending_quantiles(&values, shares), expected);
        }
    }

    #[test]
    fn mser5_finds_where_a_step_ends() {
        // Exact: zeros, then a pattern around 10. Every other cut is worse.
        let mut values = vec![0.0; 50];
        values.extend((0..950).map(|place| 10.0 + f64::from(place % 5) + f64::from(place / 5 % 2)));
        assert_eq!(mser5(&values), Some(50));
    }

    /// Neither these numbers nor their sums are exact in binary.
    #[test]
    fn equal_values_have_no_error() {
        let values: Vec<f64> = (0..3000)
            .map(|place| if place < 1000 { 0.1 } else { 0.7 })
            .collect();
        assert_eq!(mser5(&values), Some(1000));
        assert_eq!(min_error(&values[500..1400]), Some(500));
        assert_eq!(mser(&values[500..1400]), None);
    }

    #[test]
    fn mser5_cuts_a_slow_start() {
        let mut random = Random::new(1, Stream::Arrivals);
        let values: Vec<f64> = (0..10_000)
            .map(|place| 100.0 * (1.0 - (-f64::from(place) / 300.0).exp()) + random.exponential())
            .collect();
        let cut = mser5(&values).unwrap();
        // At 5 time constants the initial bias is still 0.7, about the noise.
        assert!((1000..3000).contains(&cut), "{cut}");
    }

    #[test]
    fn mser5_keeps_nearly_all_of_a_steady_series() {
        for seed in 0..20 {
            let mut random = Random::new(seed, Stream::Arrivals);
            let values: Vec<f64> = (0..10_000).map(|_| random.exponential()).collect();
            assert!(mser5(&values).is_some_and(|cut| cut < 5000));
        }
        assert_eq!(mser5(&[1.0; 100]), Some(0));
    }

    #[test]
    fn mser5_does_not_know_where_a_ramp_ends() {
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        assert_eq!(mser5(&values), None);
        assert_eq!(mser5(&[1.0; 24]), None);
        assert_eq!(mser5(&[]), None);
    }

    /// Shares of 400 runs whose intervals of the mean, the 90 % and the 99 % quantile contain the
    /// true values `truth`. `start` makes a process whose first value has the same distribution as
    /// all others.
    fn coverage<Next: FnMut(&mut Random) -> f64>(
        (length, round): (usize, usize),
        truth: [f64; 3],
        start: impl Fn(&mut Random) -> Next,
    ) -> [f64; 3] {
        let runs = 400;
        let mut hits = [0.0; 3];
        for seed in 0..runs {
            let mut random = Random::new(seed, Stream::Arrivals);
            let mut next = start(&mut random);
            let values: Vec<f64> = (0..length).map(|_| next(&mut random)).collect();
            let mut sorted = values.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            let intervals = [
                mean_interval(&values, round),
                quantile_interval(&values, &sorted, 0.9, round),
                quantile_interval(&values, &sorted, 0.99, round),
            ];
            for ((hit, interval), truth) in hits.iter_mut().zip(intervals).zip(truth) {
                let [low, high] = interval.unwrap();
                *hit += f64::from(u8::from(low <= truth && truth <= high)) / runs as f64;
            }
        }
        hits
    }

    /// Of 400 runs with 95 % intervals, 364 to 393 contain the true value with probability 99.8 %.
    fn assert_is_95_percent(shares: [f64; 3]) {
        assert!(
            shares.iter().all(|share| (0.91..=0.983).contains(share)),
            "{shares:?}"
        );
    }

    #[test]
    fn intervals_of_independent_samples_hold_the_truth() {
        let truth = [1.0, 10.0f64.ln(), 100.0f64.ln()];
        assert_is_95_percent(coverage((20_000, 1), truth, |_| Random::exponential));
    }

    #[test]
    fn intervals_of_autocorrelated_samples_hold_the_truth() {
        // First-order autoregression with coefficient 0.9 and normal noise: normal with mean 0 and
        // variance 1 / (1 - 0.81).
        let normal = |random: &mut Random| {
            let (first, second) = (random.unit(), random.unit());
            (-2.0 * (1.0 - first).ln()).sqrt() * (2.0 * std::f64::consts::PI * second).cos()
        };
        let deviation = (1.0f64 / 0.19).sqrt();
        let truth = [0.0, 1.281_551_6 * deviation, 2.326_347_9 * deviation];
        assert_is_95_percent(coverage((20_000, 1), truth, |random| {
            let mut value = deviation * normal(random);
            move |random| {
                value = 0.9 * value + normal(random);
                value
            }
        }));
    }

    /// Times in an M/M/1 queue with mean service time 1: each is exponential with mean 1 / (1 -
    /// load), if the first one is.
    fn queueing(load: f64, length: usize) -> [f64; 3] {
        let mean = 1.0 / (1.0 - load);
        let truth = [mean, mean * 10.0f64.ln(), mean * 100.0f64.ln()];
        coverage((length, 1), truth, |random| {
            let mut time = mean * random.exponential();
            move |random| {
                let waiting = (time - random.exponential() / load).max(0.0);
                time = waiting + random.exponential();
                time
            }
        })
    }

    #[test]
    fn intervals_of_times_in_a_queue_hold_the_truth() {
        assert_is_95_percent(queueing(0.5, 20_000));
    }

    /// At a load of 0.8, 20 000 times are equivalent to some 200 independent ones, two of which are
    /// beyond the p99. Intervals then are 15 to 30 % of the value, and not quite long enough.
    #[test]
    fn intervals_of_short_runs_at_high_load_are_nearly_long_enough() {
        let shares = queueing(0.8, 20_000);
        assert!(
            shares.iter().all(|share| (0.87..=0.983).contains(share)),
            "{shares:?}"
        );
    }

    /// Queues served in turn, each with exponential times of its own mean, from 1 for the first to
    /// 3 for the last; the first queue is random.
    fn in_rounds(queues: u32, length: usize) -> [f64; 3] {
        let mean = move |queue| 1.0 + 2.0 * f64::from(queue) / f64::from(queues - 1);
        let above = |value: f64| {
            let shares = (0..queues).map(|queue| (-value / mean(queue)).exp());
            shares.sum::<f64>() / f64::from(queues)
        };
        let quantile_of = |probability: f64| {
            let (mut low, mut high) = (0.0, 100.0);
            for _ in 0..60 {
                let middle = (low + high) / 2.0;
                if above(middle) > 1.0 - probability {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            low
        };
        let truth = [2.0, quantile_of(0.9), quantile_of(0.99)];
        coverage((length, queues as usize), truth, |random| {
            let mut queue = random.below(u64::from(queues)) as u32;
            move |random| {
                queue = (queue + 1) % queues;
                mean(queue) * random.exponential()
            }
        })
    }

    /// 41.5 rounds: 20 batches of two, and 1.5 rounds that are in no batch.
    #[test]
    fn intervals_of_queues_that_are_served_in_turn_hold_the_truth() {
        assert_is_95_percent(in_rounds(200, 8300));
    }

    /// With five rounds, and half a round outside the batches, intervals of quantiles are longer
    /// than necessary: the error from five batches is often overestimated, and never
    /// underestimated.
    #[test]
    fn intervals_of_five_rounds_are_long_enough() {
        let shares = in_rounds(400, 2200);
        assert!((0.91..=0.983).contains(&shares[0]), "{shares:?}");
        assert!(shares.iter().all(|&share| share >= 0.91), "{shares:?}");
    }

    /// Queues differ only in their costs: whole rounds have the same mean, and the interval
    /// contains it, though the mean of all values is not in its middle. 5.5 rounds of ones and
    /// threes, the ones first: (5 x 2 + 0.5) / 5.5 = 1.909.
    #[test]
    fn a_part_of_a_round_does_not_move_the_interval() {
        let values: Vec<f64> = (0..550)
            .map(|place| if place % 100 < 50 { 1.0 } else { 3.0 })
            .collect();
        let [low, high] = mean_interval(&values, 100).unwrap();
        assert!((low - 10.5 / 5.5).abs() < 1e-9, "{low}");
        assert!((high - 2.0).abs() < 1e-9, "{high}");
    }

    #[test]
    fn batches_are_whole_rounds() {
        let of = |values, round| {
            Batches::of(values, round).map(|batches| (batches.count, batches.length))
        };
        // Up to 30 rounds, each is a batch; 31 of them make 15 batches of two.
        assert_eq!(of(3000, 100), Some((30, 100)));
        assert_eq!(of(3100, 100), Some((15, 200)));
        assert_eq!(of(599, 100), Some((5, 100)));
        assert_eq!(of(499, 100), None);
        assert_eq!(of(60, 1), Some((30, 2)));
        assert_eq!(of(59, 1), None);
        assert_eq!(of(20_000, 1), Some((29, 667)));
        assert_eq!(of(0, 0), None);
    }

    #[test]
    fn precision_needs_both_ends_of_the_interval() {
        let values: Vec<f64> = (0..1000).map(|place| f64::from(place * 7 % 100)).collect();
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        // Batches have almost equal shares, so the error is that of independent values: 0.0323 for
        // the median, whose interval is then from 46 to 53, and 0.0193 for the p90.
        let half = quantile_precision(&values, &sorted, (0.5, 0.0), 1).unwrap();
        assert!((half - 3.5 / 49.0).abs() < 1e-9, "{half}");
        assert!(quantile_precision(&values, &sorted, (0.9, 0.0), 1).is_some());
        // One value in a hundred reaches the p99: ten of 1000 values, so at most ten of the 30
        // batches, which are fewer than four fifths.
        assert_eq!(quantile_precision(&values, &sorted, (0.99, 0.0), 1), None);
        // Joined to nine they all have one, and the interval is from 98 to 99: half of it is a
        // third of 1.6 % of the p99.
        let ample = quantile_precision(&values, &sorted, (0.99, 0.016), 1);
        assert_eq!(ample, Some(0.5 / 98.0));
        assert_eq!(quantile_precision(&values, &sorted, (0.99, 0.015), 1), None);
        assert_eq!(quantile_precision(&values, &sorted, (0.998, 0.0), 1), None);
        assert_eq!(
            quantile_precision(&[0.0; 600], &[0.0; 600], (0.9, 0.0), 1),
            Some(0.0)
        );
        assert_eq!(
            quantile_precision(&[1.0; 59], &[1.0; 59], (0.5, 0.0), 1),
            None
        );
    }

    #[test]
    fn few_samples_have_no_interval() {
        assert_eq!(mean_interval(&[1.0; 59], 1), None);
        assert_eq!(mean_interval(&[1.0; 60], 1), Some([1.0, 1.0]));
        assert_eq!(quantile_interval(&[], &[], 0.5, 1), None);
    }
}
