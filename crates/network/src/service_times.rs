//! How long requests take to process.

use crate::Random;
use crate::elementary::{exp, ln};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A distribution of service times, apart from its unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "distribution", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ServiceTimes {
    /// All requests take the same time.
    Fixed,
    /// Uniform from nothing to twice the mean.
    Uniform,
    /// Exponential.
    Exponential,
    /// Generalised extreme value: few requests take very long. The defaults are RPCValet's
    /// (Section 5), in cycles.
    GeneralizedExtremeValue {
        /// Where most values are.
        #[serde(default = "gev_location")]
        location: f64,
        /// How far they spread; above 0.
        #[serde(default = "gev_scale")]
        scale: f64,
        /// How heavy the tail is: above 0 and below 1, where there is a mean.
        #[serde(default = "gev_shape")]
        shape: f64,
    },
}

fn gev_location() -> f64 {
    363.0
}

fn gev_scale() -> f64 {
    100.0
}

fn gev_shape() -> f64 {
    0.65
}

impl ServiceTimes {
    /// RPCValet's generalised extreme values (Section 5).
    pub fn rpcvalet_gev() -> ServiceTimes {
        ServiceTimes::GeneralizedExtremeValue {
            location: gev_location(),
            scale: gev_scale(),
            shape: gev_shape(),
        }
    }

    /// What is wrong with the parameters, if anything.
    pub fn check(&self) -> Result<(), String> {
        match *self {
            ServiceTimes::GeneralizedExtremeValue {
                location,
                scale,
                shape,
            } => {
                let finite = scale.is_finite() && location.is_finite();
                if !(finite && scale > 0.0 && shape > 0.0 && shape < 1.0) {
                    return Err(format!(
                        "generalised extreme values with scale {scale} and shape {shape}: the scale \
                         must be above 0, and the shape above 0 and below 1"
                    ));
                }
                // The least value: no request takes less than nothing.
                let least = location - scale / shape;
                if least.is_nan() || least < 0.0 {
                    return Err(format!(
                        "generalised extreme values with location {location}, scale {scale} and \
                         shape {shape} go down to {least}: the location must be at least scale / \
                         shape, {}",
                        scale / shape
                    ));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The mean of [`ServiceTimes::draw`].
    pub fn mean(&self) -> f64 {
        match *self {
            ServiceTimes::GeneralizedExtremeValue {
                location,
                scale,
                shape,
            } => location + scale * (libm::tgamma(1.0 - shape) - 1.0) / shape,
            _ => 1.0,
        }
    }

    /// A value, in the unit in which the mean is [`ServiceTimes::mean`].
    ///
    /// Each takes one random number.
    pub fn draw(&self, random: &mut Random) -> f64 {
        let mut value = [0.0];
        self.fill(random, &mut value);
        value[0]
    }

    /// As many values as there is room for.
    #[inline]
    pub fn fill(&self, random: &mut Random, values: &mut [f64]) {
        // In (0, 1]: the logarithm of 0 is none.
        for value in values.iter_mut() {
            *value = random.unit() + 1.0 / (1u64 << 53) as f64;
        }
        match *self {
            ServiceTimes::Fixed => values.fill(1.0),
            ServiceTimes::Uniform => {
                for value in values {
                    *value *= 2.0;
                }
            }
            ServiceTimes::Exponential => {
                for value in values {
                    *value = -ln(*value);
                }
            }
            ServiceTimes::GeneralizedExtremeValue {
                location,
                scale,
                shape,
            } => {
                for value in values {
                    // By inversion of exp(-(1 + shape (x - location) / scale)^(-1 / shape)). The
                    // smallest number in place of 0, which comes once in 2^53 times.
                    let exponential = (-ln(*value)).max(f64::EPSILON);
                    let power = exp(-shape * ln(exponential));
                    *value = location + scale * (power - 1.0) / shape;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    const ALL: [ServiceTimes; 3] = [
        ServiceTimes::Fixed,
        ServiceTimes::Uniform,
        ServiceTimes::Exponential,
    ];

    fn draws(times: ServiceTimes, count: usize) -> Vec<f64> {
        let mut random = Random::new(1, Stream::ServiceTimes);
        (0..count).map(|_| times.draw(&mut random)).collect()
    }

    #[test]
    fn means_and_variances_are_those_of_the_distributions() {
        // Variances of mean 1: none, (2 - 0)^2 / 12, 1.
        for (times, variance) in ALL.into_iter().zip([0.0, 1.0 / 3.0, 1.0]) {
            let values = draws(times, 100_000);
            let mean = values.iter().sum::<f64>() / 1e5;
            let squares = values.iter().map(|value| (value - mean).powi(2));
            assert!((mean - 1.0).abs() < 0.01, "{times:?}: {mean}");
            assert!((squares.sum::<f64>() / 1e5 - variance).abs() < 0.03);
        }
    }

    #[test]
    fn extreme_values_follow_their_distribution() {
        let times = ServiceTimes::rpcvalet_gev();
        // Section 5: "a mean of 600 cycles".
        assert!((times.mean() - 600.0).abs() < 1.0, "{}", times.mean());
        let values = draws(times, 100_000);
        for at in [250.0, 363.0, 500.0, 1000.0, 5000.0f64] {
            // F(x) = exp(-(1 + shape (x - location) / scale)^(-1 / shape)).
            let base: f64 = 1.0 + 0.65 * (at - 363.0) / 100.0;
            let expected = (-base.powf(-1.0 / 0.65)).exp();
            let share = values.iter().filter(|&&value| value <= at).count() as f64 / 1e5;
            // Four standard deviations of a share of 100,000.
            let error = 4.0 * (expected * (1.0 - expected) / 1e5).sqrt();
            assert!((share - expected).abs() < error, "{at}: {share} {expected}");
        }
    }

    #[test]
    fn wrong_parameters_get_a_sentence() {
        let of = |location, scale, shape| ServiceTimes::GeneralizedExtremeValue {
            location,
            scale,
            shape,
        };
        assert_eq!(of(363.0, 100.0, 0.65).check(), Ok(()));
        for wrong in [
            of(363.0, 0.0, 0.65),
            of(363.0, 100.0, 1.0),
            of(363.0, 100.0, 0.0),
            of(f64::INFINITY, 100.0, 0.65),
        ] {
            assert!(wrong.check().unwrap_err().contains("the scale must be"));
        }
        let error = of(100.0, 100.0, 0.65).check().unwrap_err();
        assert!(error.contains("go down to -53.8"), "{error}");
        assert!(of(f64::NAN, 1.0, 0.5).check().is_err());
    }
}
