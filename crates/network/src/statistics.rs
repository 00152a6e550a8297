//! Estimates from the output of one simulation, whose samples depend on each other.

/// How many batches confidence intervals use: beyond 30, intervals hardly get shorter, and batches
/// only get more dependent (Schmeiser, Operations Research 30(3), 1982).
const BATCHES: usize = 30;
/// The 97.5 % quantile of Student's t distribution with 29 degrees of freedom.
const STUDENT_T: f64 = 2.0452;

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
/// non-overlapping batch means: batches so long that their means are nearly independent. `None`
/// with less than two values a batch.
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
    let squares: f64 = means
        .iter()
        .map(|batch| (batch - mean) * (batch - mean))
        .sum();
    let variance = squares / (BATCHES - 1) as f64;
    Some(STUDENT_T * (variance / BATCHES as f64).sqrt())
}

/// The 95 % confidence interval of the mean, by batch means and Student's t. `None` with less than
/// 60 values.
pub fn mean_interval(values: &[f64]) -> Option<[f64; 2]> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let half = half_width(values.iter().copied())?;
    Some([mean - half, mean + half])
}

/// The 95 % confidence interval of a quantile of `values`, which `sorted` has in order.
///
/// The share of values at or below the estimated quantile is a mean, of ones and zeros; batch
/// means give its standard error, and the quantiles at `probability` plus and minus that are the
/// ends (Heidelberger and Lewis, Operations Research 32(1), 1984, compare such methods). The error
/// is not taken as less than that of independent values. Where the upper end would need more
/// values than there are, it is the largest. `None` with less than 60 values.
pub fn quantile_interval(values: &[f64], sorted: &[f64], probability: f64) -> Option<[f64; 2]> {
    let estimate = quantile(sorted, probability);
    let below = values
        .iter()
        .map(|&value| f64::from(u8::from(value <= estimate)));
    let independent = (probability * (1.0 - probability) / values.len() as f64).sqrt();
    let half = half_width(below)?.max(STUDENT_T * independent);
    Some([
        quantile(sorted, (probability - half).max(0.0)),
        quantile(sorted, (probability + half).min(1.0)),
    ])
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

    /// Shares of runs whose intervals of the mean and of the 90 % quantile hold the true ones.
    fn coverage(
        mut next: impl FnMut(&mut Random, f64) -> f64,
        mean: f64,
        quantile90: f64,
    ) -> [f64; 2] {
        let runs = 400;
        let mut hits = [0.0; 2];
        for seed in 0..runs {
            let mut random = Random::new(seed, Stream::Arrivals);
            let mut last = mean;
            let values: Vec<f64> = (0..20_000)
                .map(|_| {
                    last = next(&mut random, last);
                    last
                })
                .collect();
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let intervals = [
                (mean_interval(&values).unwrap(), mean),
                (
                    quantile_interval(&values, &sorted, 0.9).unwrap(),
                    quantile90,
                ),
            ];
            for (hit, ([low, high], truth)) in hits.iter_mut().zip(intervals) {
                *hit += f64::from(u8::from(low <= truth && truth <= high)) / runs as f64;
            }
        }
        hits
    }

    #[test]
    fn intervals_of_independent_samples_hold_the_truth() {
        let shares = coverage(|random, _| random.exponential(), 1.0, 10.0f64.ln());
        assert!(
            shares.iter().all(|share| (0.92..0.99).contains(share)),
            "{shares:?}"
        );
    }

    #[test]
    fn intervals_of_autocorrelated_samples_hold_the_truth() {
        // First-order autoregression with coefficient 0.9 and normal noise: normal with mean 0 and
        // variance 1 / (1 - 0.81).
        let next = |random: &mut Random, last: f64| {
            let (first, second) = (random.unit(), random.unit());
            let normal =
                (-2.0 * (1.0 - first).ln()).sqrt() * (2.0 * std::f64::consts::PI * second).cos();
            0.9 * last + normal
        };
        let deviation = (1.0f64 / 0.19).sqrt();
        let shares = coverage(next, 0.0, 1.281_551_6 * deviation);
        assert!(
            shares.iter().all(|share| (0.91..0.99).contains(share)),
            "{shares:?}"
        );
    }

    #[test]
    fn few_samples_have_no_interval() {
        assert_eq!(mean_interval(&[1.0; 59]), None);
        assert_eq!(mean_interval(&[1.0; 60]), Some([1.0, 1.0]));
        assert_eq!(quantile_interval(&[], &[], 0.5), None);
    }
}
