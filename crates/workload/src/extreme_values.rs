//! Generalised extreme values, drawn from a table.

use crate::Random;
use crate::elementary::{exp, ln};

/// The binary logarithm of the number of strips, which have equal probability.
const STRIP_BITS: u32 = 9;
const STRIPS: usize = 1 << STRIP_BITS;
/// The remaining bits of a random number.
const REST_BITS: u32 = u64::BITS - STRIP_BITS;
const RESTS: f64 = (1u64 << REST_BITS) as f64;

/// The distribution F(x) = exp(-t), with t = (1 + shape (x - location) / scale)^(-1 / shape), which
/// has the density t^(shape + 1) exp(-t) / scale.
///
/// Values are cut into strips of equal probability. A random number's first bits choose a strip.
/// The part below the minimum density of a strip is uniform, and is drawn from the remaining bits:
/// these are 98 % of all values, and need no logarithm. The others, above the minimum density, are
/// drawn by rejection (von Neumann 1951). In the first and the last strip, where the density falls
/// to zero, all are drawn by inversion. So the distribution is exact, up to the precision of
/// numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtremeValues {
    location: f64,
    scale: f64,
    shape: f64,
    strips: Vec<Strip>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Strip {
    /// The start of the strip.
    begin: f64,
    /// If the rest of a random number is below this, it is uniform in the strip.
    even: u64,
    /// Its width, divided by `even`.
    step: f64,
}

impl ExtremeValues {
    /// The scale must be above 0, and the shape above 0 and below 1.
    pub(crate) fn new(location: f64, scale: f64, shape: f64) -> ExtremeValues {
        let mut values = ExtremeValues {
            location,
            scale,
            shape,
            strips: Vec::new(),
        };
        // The first strip starts at the minimum.
        let first = Strip {
            begin: location - scale / shape,
            even: 0,
            step: 0.0,
        };
        let others = (1..STRIPS).map(|strip| {
            let begin = values.at(exponent_of(strip));
            if strip + 1 == STRIPS {
                return Strip { begin, ..first };
            }
            let width = values.at(exponent_of(strip + 1)) - begin;
            let (least, _) = values.densities(strip);
            let even = (least * width * STRIPS as f64).min(1.0) * RESTS;
            Strip {
                begin,
                even: even as u64,
                step: width / even,
            }
        });
        values.strips = std::iter::once(first).chain(others).collect();
        values
    }

    /// The mean: location + scale (Gamma(1 - shape) - 1) / shape.
    pub(crate) fn mean(&self) -> f64 {
        self.location + self.scale * (libm::tgamma(1.0 - self.shape) - 1.0) / self.shape
    }

    /// Draws a value.
    #[inline]
    pub(crate) fn draw(&self, random: &mut Random) -> f64 {
        let bits = random.bits();
        let strip = (bits >> REST_BITS) as usize;
        let rest = bits & ((1 << REST_BITS) - 1);
        let Strip { begin, even, step } = self.strips[strip];
        if rest < even {
            return begin + step * rest as i64 as f64;
        }
        self.draw_rarely(strip, rest, random)
    }

    #[cold]
    fn draw_rarely(&self, strip: usize, rest: u64, random: &mut Random) -> f64 {
        if strip == 0 {
            return self.at(-ln((rest as f64 + 1.0) / (RESTS * STRIPS as f64)));
        }
        if strip + 1 == STRIPS {
            // -ln(1 - part), by its series: part is at most 1 / STRIPS, and 1 - part would lose the
            // last digits of what makes values large.
            let part = (RESTS - rest as f64) / (RESTS * STRIPS as f64);
            let mut series = 1.0 / 7.0;
            for power in [6.0, 5.0, 4.0, 3.0, 2.0, 1.0] {
                series = series * part + 1.0 / power;
            }
            return self.at(part * series);
        }
        let begin = self.strips[strip].begin;
        let width = self.strips[strip + 1].begin - begin;
        let (least, most) = self.densities(strip);
        loop {
            let value = begin + width * random.unit();
            let height = least + (most - least) * random.unit();
            if height < self.density(self.exponent(value)) {
                return value;
            }
        }
    }

    /// The value x for a t.
    fn at(&self, exponent: f64) -> f64 {
        let power = exp(-self.shape * ln(exponent));
        self.location + self.scale / self.shape * (power - 1.0)
    }

    /// The t for a value x.
    fn exponent(&self, value: f64) -> f64 {
        let base = 1.0 + self.shape * (value - self.location) / self.scale;
        exp(-ln(base) / self.shape)
    }

    fn density(&self, exponent: f64) -> f64 {
        exp((self.shape + 1.0) * ln(exponent) - exponent) / self.scale
    }

    /// The minimum and maximum density in a strip that is neither the first nor the last. The density
    /// has one maximum, where t is shape + 1.
    fn densities(&self, strip: usize) -> (f64, f64) {
        let (begin, end) = (exponent_of(strip), exponent_of(strip + 1));
        let (one, other) = (self.density(begin), self.density(end));
        let top = self.shape + 1.0;
        let most = if end < top && top < begin {
            self.density(top)
        } else {
            one.max(other)
        };
        (one.min(other), most)
    }
}

/// The t at the start of a strip.
fn exponent_of(strip: usize) -> f64 {
    -ln(strip as f64 / STRIPS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    const VALUES: usize = 1_000_000;

    /// The one of Daglis et al. (ASPLOS 2019, Section 5), one close to Gumbel's, and one almost
    /// without a mean.
    fn several() -> [ExtremeValues; 3] {
        [(363.0, 100.0, 0.65), (200.0, 10.0, 0.05), (1.0, 0.9, 0.95)]
            .map(|(location, scale, shape)| ExtremeValues::new(location, scale, shape))
    }

    fn draws(values: &ExtremeValues) -> Vec<f64> {
        let mut random = Random::new(1, Stream::ServiceTimes);
        (0..VALUES).map(|_| values.draw(&mut random)).collect()
    }

    fn probability(values: &ExtremeValues, at: f64) -> f64 {
        let base: f64 = 1.0 + values.shape * (at - values.location) / values.scale;
        (-base.powf(-1.0 / values.shape)).exp()
    }

    #[test]
    fn the_mean_is_the_paper_s() {
        // "A mean of 600 cycles."
        let mean = several()[0].mean();
        assert!((mean - 600.0).abs() < 1.0, "{mean}");
    }

    /// Kolmogorov-Smirnov test: the maximum difference between the empirical distribution of n
    /// values and the true one is above 1.95 / sqrt(n) once in a thousand times.
    #[test]
    fn values_follow_their_distribution() {
        for values in several() {
            let mut drawn = draws(&values);
            drawn.sort_unstable_by(f64::total_cmp);
            let count = VALUES as f64;
            let difference = drawn.iter().enumerate().map(|(place, &at)| {
                let expected = probability(&values, at);
                (expected - place as f64 / count)
                    .abs()
                    .max((expected - (place + 1) as f64 / count).abs())
            });
            let most = difference.fold(0.0, f64::max);
            assert!(most < 1.95 / count.sqrt(), "{most}");
        }
    }

    /// The frequencies of values at both ends, which do not come from the table, and in a strip in
    /// the middle.
    #[test]
    fn rare_values_come_as_often_as_they_should() {
        for values in several() {
            let drawn = draws(&values);
            for share in [1e-4, 1e-3, 0.999, 0.9999, 0.99999] {
                let at = values.at(-f64::ln(share));
                let found = drawn.iter().filter(|&&value| value <= at).count() as f64;
                // Four standard deviations.
                let error = 4.0 * (share * (1.0 - share) * VALUES as f64).sqrt();
                assert!(
                    (found - share * VALUES as f64).abs() < error,
                    "{share}: {found}"
                );
            }
        }
    }

    /// Shares of tenths of one strip: uniform values and those drawn by rejection, together.
    #[test]
    fn a_strip_has_its_slope() {
        let values = &several()[0];
        let strip = STRIPS - 3;
        let (begin, end) = (values.strips[strip].begin, values.strips[strip + 1].begin);
        let mut random = Random::new(2, Stream::ServiceTimes);
        let mut counts = [0u32; 10];
        let mut all = 0;
        while all < 20_000 {
            // Only this strip.
            let rest = random.bits() >> STRIP_BITS;
            let Strip { even, step, .. } = values.strips[strip];
            let value = if rest < even {
                begin + step * rest as f64
            } else {
                values.draw_rarely(strip, rest, &mut random)
            };
            let tenth = (10.0 * (value - begin) / (end - begin)) as usize;
            counts[tenth.min(9)] += 1;
            all += 1;
        }
        for (tenth, &count) in counts.iter().enumerate() {
            let from = begin + (end - begin) * tenth as f64 / 10.0;
            let to = begin + (end - begin) * (tenth + 1) as f64 / 10.0;
            let share = (probability(values, to) - probability(values, from)) * STRIPS as f64;
            let error = 4.0 * (share * (1.0 - share) * 20_000.0).sqrt();
            let found = f64::from(count);
            assert!((found - share * 20_000.0).abs() < error, "{tenth}: {found}");
        }
    }

    #[test]
    fn nearly_all_values_come_from_the_table() {
        for values in several() {
            let even = values.strips.iter().map(|strip| strip.even as f64 / RESTS);
            let share = even.sum::<f64>() / STRIPS as f64;
            assert!((0.97..0.99).contains(&share), "{share}");
        }
    }
}
