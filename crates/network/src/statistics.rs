//! Estimates from the output of one simulation, whose samples depend on each other.

/// How many batches confidence intervals use: beyond 30, intervals hardly get shorter, and batches
/// only get more dependent (Schmeiser, Operations Research 30(3), 1982).
const BATCHES: usize = 30;
/// The 97.5 % quantile of Student's t distribution with 29 degrees of freedom.
const STUDENT_T: f64 = 2.0452;
/// More than this says that the run is too short for any interval.
const LARGEST_CORRELATION: f64 = 0.9;

/// How many values at the beginning to leave out, by the rule MSER-5 (White, Simulation 69(6),
/// 1997): over the means of batches of 5, the cut that minimises the squared standard error of what
/// remains. `None` if that is more than half of the values: then there are too few to tell.
pub fn mser5(values: &[f64]) -> Option<usize> {
    let batches: Vec<f64> = values
        .chunks_exact(5)
        .map(|batch| batch.iter().sum::<f64>() / 5.0)
        .collect();
    // The last cuts leave so few batches that they may be equal by chance.
    let last_cut = batches.len().checked_sub(5)?;
    // Around their mean, so that the difference of the squares keeps its digits.
    let center = batches.iter().sum::<f64>() / batches.len() as f64;
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
    (best_cut <= batches.len() / 2).then_some(best_cut * 5)
}

/// The smallest value that at least the share `probability` of `sorted` does not exceed, and 0 if
/// there are no values.
pub fn quantile(sorted: &[f64], probability: f64) -> f64 {
    let rank = (probability * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted
        .get(rank.min(sorted.len()).wrapping_sub(1))
        .copied()
        .unwrap_or(0.0)
}

/// Half the length of the 95 % confidence interval of the mean of `values`, by the method of
/// non-overlapping batch means: batches so long that their means are nearly independent. Where
/// neighbouring means still go together, the variance is taken as that of a first-order
/// autoregression, (1 + r) / (1 - r) times as large, with r their correlation (the method Skart:
/// Tafazzoli, Wilson, Lada and Steiger, INFORMS Journal on Computing 23(2), 2011). A correlation
/// below 0 is chance here, and does not make intervals shorter. `None` with less than two values a
/// batch.
fn half_width(values: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let length = values.len() / BATCHES;
    if length < 2 {
        return None;
    }
    let mut means = [0.0; BATCHES];
    for (place, value) in values.take(length * BATCHES).enumerate() {
        means[place / length] += value / length as f64;
    }
    let mean = means.iter().sum::<f64>() / BATCHES as f64;
    let deviations = means.map(|batch| batch - mean);
    let squares: f64 = deviations.iter().map(|one| one * one).sum();
    if squares == 0.0 {
        return Some(0.0);
    }
    let products: f64 = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let correlation = (products / squares).clamp(0.0, LARGEST_CORRELATION);
    let variance = squares / (BATCHES - 1) as f64 * (1.0 + correlation) / (1.0 - correlation);
    Some(STUDENT_T * (variance / BATCHES as f64).sqrt())
}

/// The 95 % confidence interval of the mean, by batch means and Student's t. `None` with less than
/// 60 values.
pub fn mean_interval(values: &[f64]) -> Option<[f64; 2]> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let half = half_width(values.iter().copied())?;
    Some([mean - half, mean + half])
}

/// By how much the share of values at or below the estimated quantile may be off, with 95 %
/// confidence.
///
/// That share is a mean, of ones and zeros; batch means give its standard error. It is not taken
/// as less than that of independent values.
fn share_half_width(values: &[f64], sorted: &[f64], probability: f64) -> Option<f64> {
    let estimate = quantile(sorted, probability);
    let below = values
        .iter()
        .map(|&value| f64::from(u8::from(value <= estimate)));
    let independent = (probability * (1.0 - probability) / values.len() as f64).sqrt();
    Some(half_width(below)?.max(STUDENT_T * independent))
}

/// The 95 % confidence interval of a quantile of `values`, which `sorted` has in order.
///
/// Its ends are the quantiles at `probability` plus and minus what the share of values below it may
/// be off (Heidelberger and Lewis, Operations Research 32(1), 1984, compare such methods). Where
/// the upper end would need more values than there are, it is the largest. `None` with less than 60
/// values.
pub fn quantile_interval(values: &[f64], sorted: &[f64], probability: f64) -> Option<[f64; 2]> {
    let half = share_half_width(values, sorted, probability)?;
    Some([
        quantile(sorted, (probability - half).max(0.0)),
        quantile(sorted, (probability + half).min(1.0)),
    ])
}

/// Half the length of a quantile's 95 % confidence interval, as a part of the quantile. `None` where
/// there are too few values for one with both ends.
pub fn quantile_precision(values: &[f64], sorted: &[f64], probability: f64) -> Option<f64> {
    let half = share_half_width(values, sorted, probability)?;
    if probability + half >= 1.0 {
        return None;
    }
    let length =
        quantile(sorted, probability + half) - quantile(sorted, (probability - half).max(0.0));
    if length == 0.0 {
        return Some(0.0);
    }
    Some(length / 2.0 / quantile(sorted, probability))
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
    fn mser5_finds_where_a_step_ends() {
        // Exact: zeros, then a pattern around 10. Cutting anything but the zeros is worse.
        let mut values = vec![0.0; 50];
        values.extend((0..950).map(|place| 10.0 + f64::from(place % 5) + f64::from(place / 5 % 2)));
        assert_eq!(mser5(&values), Some(50));
    }

    #[test]
    fn mser5_cuts_a_slow_start() {
        let mut random = Random::new(1, Stream::Arrivals);
        let values: Vec<f64> = (0..10_000)
            .map(|place| 100.0 * (1.0 - (-f64::from(place) / 300.0).exp()) + random.exponential())
            .collect();
        let cut = mser5(&values).unwrap();
        // At 5 time constants the start is still off by 0.7, about the noise.
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

    /// Shares of 400 runs whose intervals of the mean, the 90 % and the 99 % quantile hold the true
    /// ones, `truth`. `start` makes a process, whose first value is drawn as all others are.
    fn coverage<Next: FnMut(&mut Random) -> f64>(
        length: usize,
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
            sorted.sort_by(f64::total_cmp);
            let intervals = [
                mean_interval(&values),
                quantile_interval(&values, &sorted, 0.9),
                quantile_interval(&values, &sorted, 0.99),
            ];
            for ((hit, interval), truth) in hits.iter_mut().zip(intervals).zip(truth) {
                let [low, high] = interval.unwrap();
                *hit += f64::from(u8::from(low <= truth && truth <= high)) / runs as f64;
            }
        }
        hits
    }

    /// Of 400 runs with 95 % intervals, 364 to 393 are right with probability 99.8 %.
    fn assert_is_95_percent(shares: [f64; 3]) {
        assert!(
            shares.iter().all(|share| (0.91..=0.983).contains(share)),
            "{shares:?}"
        );
    }

    #[test]
    fn intervals_of_independent_samples_hold_the_truth() {
        let truth = [1.0, 10.0f64.ln(), 100.0f64.ln()];
        assert_is_95_percent(coverage(20_000, truth, |_| Random::exponential));
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
        assert_is_95_percent(coverage(20_000, truth, |random| {
            let mut value = deviation * normal(random);
            move |random| {
                value = 0.9 * value + normal(random);
                value
            }
        }));
    }

    /// Times in an M/M/1 queue with mean service time 1: exponential with mean 1 / (1 - load), and
    /// so is each one by itself, if the first is.
    fn queueing(load: f64, length: usize) -> [f64; 3] {
        let mean = 1.0 / (1.0 - load);
        let truth = [mean, mean * 10.0f64.ln(), mean * 100.0f64.ln()];
        coverage(length, truth, |random| {
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

    /// At a load of 0.8, 20 000 times are worth some 200 independent ones, two of which are beyond
    /// the p99. Intervals are then as long as 15 to 30 % of the value, and not quite long enough.
    #[test]
    fn intervals_of_short_runs_at_high_load_are_nearly_long_enough() {
        let shares = queueing(0.8, 20_000);
        assert!(
            shares.iter().all(|share| (0.87..=0.983).contains(share)),
            "{shares:?}"
        );
    }

    #[test]
    fn precision_needs_both_ends_of_the_interval() {
        let values: Vec<f64> = (0..1000).map(|place| f64::from(place * 7 % 100)).collect();
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        // Batches have nearly equal shares, so the error is that of independent values: 0.0323 for
        // the median, whose interval is then from 46 to 53, and 0.0064 for the p99.
        let half = quantile_precision(&values, &sorted, 0.5).unwrap();
        assert!((half - 3.5 / 49.0).abs() < 1e-9, "{half}");
        assert!(quantile_precision(&values, &sorted, 0.99).is_some());
        assert_eq!(quantile_precision(&values, &sorted, 0.998), None);
        assert_eq!(quantile_precision(&[0.0; 600], &[0.0; 600], 0.9), Some(0.0));
        assert_eq!(quantile_precision(&[1.0; 59], &[1.0; 59], 0.5), None);
    }

    #[test]
    fn few_samples_have_no_interval() {
        assert_eq!(mean_interval(&[1.0; 59]), None);
        assert_eq!(mean_interval(&[1.0; 60]), Some([1.0, 1.0]));
        assert_eq!(quantile_interval(&[], &[], 0.5), None);
    }
}
