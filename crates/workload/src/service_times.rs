//! The service times of requests.

use crate::elementary::ln;
use crate::extreme_values::ExtremeValues;
use crate::{Files, Random};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, require};

/// The first line of a recorded histogram.
const HEADER: &str = "service_time_ns,count";
/// The maximum location of generalised extreme values, in scales: it is far from a loss of
/// precision, and from the needs of any unit of time.
const MAX_LOCATION_SCALES: f64 = 1e9;
/// Maximum number of bins of a histogram.
const MAX_BINS: usize = 1_000_000;

/// A description of a distribution of service times, apart from its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "distribution", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ServiceTimes {
    /// All requests take the same time.
    Fixed,
    /// Uniform from nothing to twice the mean.
    Uniform,
    /// Exponential.
    Exponential,
    /// Generalised extreme value: few requests take very long.
    ///
    /// Defaults: Daglis et al. (ASPLOS 2019, Section 5), in cycles.
    GeneralizedExtremeValue {
        /// The location parameter: the position of the peak.
        #[serde(default = "gev_location")]
        #[schemars(range(min = 0.0, max = 1e12))]
        location: f64,
        /// The scale parameter: the spread.
        #[serde(default = "gev_scale")]
        #[schemars(range(min = 1e-9, max = 1e12))]
        scale: f64,
        /// The shape parameter: the weight of the tail; from 1 on there is no mean.
        #[serde(default = "gev_shape")]
        #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
        shape: f64,
    },
    /// Recorded times: each time of a histogram as often as it was counted.
    Recorded {
        /// The path of a CSV file: the line `service_time_ns,count`, and then a line for each bin.
        file: String,
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
    /// Checks that no time is negative.
    pub fn check(&self) -> Result<(), SpecError> {
        let ServiceTimes::GeneralizedExtremeValue {
            location,
            scale,
            shape,
        } = *self
        else {
            return Ok(());
        };
        require(
            location <= scale * MAX_LOCATION_SCALES,
            "location",
            location,
            format!("it must be at most {MAX_LOCATION_SCALES:e} times the scale, {scale}"),
        )?;
        let below = scale / shape;
        require(
            location - below >= 0.0,
            "location",
            location,
            format!(
                "values go down to {} so; it must be scale / shape, {below}, or more",
                location - below
            ),
        )
    }

    /// The distribution, with the file if there is one; the description must have passed
    /// [`ServiceTimes::check`]. An error message if the file is invalid.
    pub fn open(&self, files: &Files) -> Result<Distribution, String> {
        Ok(match *self {
            ServiceTimes::Fixed => Distribution::Fixed,
            ServiceTimes::Uniform => Distribution::Uniform,
            ServiceTimes::Exponential => Distribution::Exponential,
            ServiceTimes::GeneralizedExtremeValue {
                location,
                scale,
                shape,
            } => Distribution::GeneralizedExtremeValue(ExtremeValues::new(location, scale, shape)),
            ServiceTimes::Recorded { ref file } => {
                let text = std::str::from_utf8(files.get(file)?)
                    .map_err(|error| format!("{file}: this is not text in UTF-8: {error}"))?;
                Distribution::Recorded(Histogram::parse(text, file)?)
            }
        })
    }
}

/// A distribution from which service times are drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// [`ServiceTimes::Fixed`].
    Fixed,
    /// [`ServiceTimes::Uniform`].
    Uniform,
    /// [`ServiceTimes::Exponential`].
    Exponential,
    /// [`ServiceTimes::GeneralizedExtremeValue`].
    GeneralizedExtremeValue(ExtremeValues),
    /// [`ServiceTimes::Recorded`].
    Recorded(Histogram),
}

impl Distribution {
    /// The mean of [`Distribution::draw`].
    pub fn mean(&self) -> f64 {
        match *self {
            Distribution::GeneralizedExtremeValue(ref values) => values.mean(),
            Distribution::Recorded(ref histogram) => histogram.mean,
            _ => 1.0,
        }
    }

    /// Draws a value, in the unit of [`Distribution::mean`].
    pub fn draw(&self, random: &mut Random) -> f64 {
        let mut value = [0.0];
        self.fill(random, &mut value);
        value[0]
    }

    /// Fills `values` with drawn values.
    #[inline]
    pub fn fill(&self, random: &mut Random, values: &mut [f64]) {
        if let Distribution::GeneralizedExtremeValue(ref extreme) = *self {
            for value in values {
                *value = extreme.draw(random);
            }
            return;
        }
        // In (0, 1]: the logarithm of 0 is undefined.
        for value in values.iter_mut() {
            *value = random.unit() + 1.0 / (1u64 << 53) as f64;
        }
        match *self {
            Distribution::GeneralizedExtremeValue(_) => {}
            Distribution::Fixed => values.fill(1.0),
            Distribution::Uniform => {
                for value in values {
                    *value *= 2.0;
                }
            }
            Distribution::Exponential => {
                for value in values {
                    *value = -ln(*value);
                }
            }
            Distribution::Recorded(ref histogram) => {
                for value in values {
                    *value = histogram.at(*value);
                }
            }
        }
    }
}

/// A recorded histogram, from which a value is drawn by one look-up: the alias method (Walker 1977,
/// Vose 1991). Each bin has an equal share of the random numbers; it keeps a part of them, and
/// gives the rest to one bin with an above-average count.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bins: Vec<Bin>,
    mean: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Bin {
    /// The fraction of its numbers that it keeps.
    kept: f64,
    value: f64,
    /// The value for the rest of its numbers.
    other: f64,
}

impl Histogram {
    /// The histogram in a CSV file of this name; an error message if it is invalid.
    fn parse(text: &str, file: &str) -> Result<Histogram, String> {
        let mut lines = text.trim_start_matches('\u{feff}').lines();
        let header = lines.next().unwrap_or_default().trim();
        if header != HEADER {
            return Err(format!(
                "{file}, line 1: this is {header:?}; it must be {HEADER:?}"
            ));
        }
        let mut counted = Vec::new();
        for (number, line) in (2..).zip(lines) {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let wrong = |what: &str| Err(format!("{file}, line {number}: {line:?} {what}"));
            let Some((time, count)) = line.split_once(',') else {
                return wrong("is no bin; it must be a time in nanoseconds, a comma and a count");
            };
            let Some(time) = nanoseconds(time.trim()) else {
                return wrong("has no time; it must be a number of nanoseconds from 0 to 1e12");
            };
            let Ok(count) = count.trim().parse::<u32>() else {
                return wrong("has no count; it must be a whole number from 0 to 4294967295");
            };
            if count > 0 {
                counted.push((time, u64::from(count)));
            }
            if counted.len() > MAX_BINS {
                return wrong("is one bin too many; a histogram has at most 1000000");
            }
        }
        if counted.iter().all(|&(time, _)| time == 0.0) {
            return Err(format!(
                "{file}: no time above 0 has been counted; at least one must be"
            ));
        }
        Ok(Histogram::new(&counted))
    }

    /// A histogram of values and their counts, which are never 0.
    fn new(counted: &[(f64, u64)]) -> Histogram {
        let total: u64 = counted.iter().map(|&(_, count)| count).sum();
        let sum: f64 = counted
            .iter()
            .map(|&(value, count)| value * count as f64)
            .sum();
        // A bin's share, in whole numbers so that nothing is lost: `total` is the equal share.
        let share = u128::from(total);
        let bins = counted.len() as u128;
        let mut left: Vec<u128> = counted
            .iter()
            .map(|&(_, count)| u128::from(count) * bins)
            .collect();
        let (mut few, mut many): (Vec<usize>, Vec<usize>) =
            (0..counted.len()).partition(|&bin| left[bin] < share);
        let mut table: Vec<Bin> = counted
            .iter()
            .map(|&(value, _)| Bin {
                kept: 1.0,
                value,
                other: value,
            })
            .collect();
        while let (Some(one), Some(&giver)) = (few.pop(), many.last()) {
            table[one].kept = left[one] as f64 / share as f64;
            table[one].other = counted[giver].0;
            left[giver] -= share - left[one];
            if left[giver] < share {
                many.pop();
                few.push(giver);
            }
        }
        Histogram {
            bins: table,
            mean: sum / total as f64,
        }
    }

    /// The value for a random number in (0, 1].
    #[inline]
    fn at(&self, random: f64) -> f64 {
        let place = random * self.bins.len() as f64;
        let bin = (place as usize).min(self.bins.len() - 1);
        let Bin { kept, value, other } = self.bins[bin];
        if place - bin as f64 <= kept {
            value
        } else {
            other
        }
    }
}

fn nanoseconds(text: &str) -> Option<f64> {
    let time: f64 = text.parse().ok()?;
    (0.0..=1e12).contains(&time).then_some(time)
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

    fn draws(times: &Distribution, count: usize) -> Vec<f64> {
        let mut random = Random::new(1, Stream::ServiceTimes);
        (0..count).map(|_| times.draw(&mut random)).collect()
    }

    #[test]
    fn means_and_variances_are_those_of_the_distributions() {
        // Variances of mean 1: none, (2 - 0)^2 / 12, 1.
        for (times, variance) in ALL.into_iter().zip([0.0, 1.0 / 3.0, 1.0]) {
            let values = draws(&times.open(&Files::default()).unwrap(), 100_000);
            let mean = values.iter().sum::<f64>() / 1e5;
            let squares = values.iter().map(|value| (value - mean).powi(2));
            assert!((mean - 1.0).abs() < 0.01, "{times:?}: {mean}");
            assert!((squares.sum::<f64>() / 1e5 - variance).abs() < 0.03);
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
        assert_eq!(
            of(100.0, 100.0, 0.5).check().unwrap_err().to_string(),
            "location is 100; values go down to -100 so; it must be scale / shape, 200, or more"
        );
        assert_eq!(of(200.0, 100.0, 0.5).check(), Ok(()));
        // Draws with a scale that vanishes beside the location would never end.
        assert_eq!(
            of(1e12, 100.0, 0.5).check().unwrap_err().to_string(),
            "location is 1000000000000; it must be at most 1e9 times the scale, 100"
        );
        for (location, scale, shape) in [
            (1e9, 1.0, 0.65),
            (1.0, 1e-9, 0.65),
            (1e8, 1.0, 1e-8),
            (4e7, 1e7, 1.0 - 1e-12),
        ] {
            let times = of(location, scale, shape);
            assert_eq!(times.check(), Ok(()));
            let times = times.open(&Files::default()).unwrap();
            assert!(times.mean().is_finite());
            assert!(draws(&times, 10_000).iter().all(|value| *value >= 0.0));
        }
    }

    #[test]
    fn recorded_times_come_as_often_as_they_were_counted() {
        let counts = [(200.0, 10), (330.0, 70), (400.5, 0), (900.0, 15), (5e4, 5)];
        let lines = counts.map(|(time, count)| format!("{time},{count}\n"));
        let text = format!("{HEADER}\n{}\n", lines.concat());
        let histogram = Histogram::parse(&text, "times.csv").unwrap();
        let times = Distribution::Recorded(histogram.clone());
        // (200 * 10 + 330 * 70 + 900 * 15 + 50000 * 5) / 100.
        assert_eq!(times.mean(), 2886.0);
        let values = draws(&times, 100_000);
        for (time, percent) in counts {
            let found = values.iter().filter(|&&value| value == time).count() as f64 / 1e5;
            let expected = f64::from(percent) / 100.0;
            // Four standard deviations of a share of 100,000 draws.
            let error = 4.0 * (expected * (1.0 - expected) / 1e5).sqrt();
            assert!((found - expected).abs() <= error, "{time}: {found}");
        }
        // Each bin's share of the numbers, exactly.
        let part = |wanted: f64| {
            let of = |bin: &Bin| {
                f64::from(bin.value == wanted) * bin.kept
                    + f64::from(bin.other == wanted) * (1.0 - bin.kept)
            };
            histogram.bins.iter().map(of).sum::<f64>() / histogram.bins.len() as f64
        };
        for (time, percent) in counts {
            assert!((part(time) - f64::from(percent) / 100.0).abs() < 1e-15);
        }
    }

    #[test]
    fn wrong_files_get_a_sentence() {
        for (text, sentence) in [
            (
                "",
                "line 1: this is \"\"; it must be \"service_time_ns,count\"",
            ),
            ("time,count\n", "line 1: this is \"time,count\""),
            (
                "service_time_ns,count\n",
                "no time above 0 has been counted",
            ),
            (
                "service_time_ns,count\n0,7\n",
                "no time above 0 has been counted",
            ),
            (
                "service_time_ns,count\n5,1\n\n7\n",
                "line 4: \"7\" is no bin",
            ),
            (
                "service_time_ns,count\n-5,1\n",
                "line 2: \"-5,1\" has no time",
            ),
            ("service_time_ns,count\nnan,1\n", "has no time"),
            (
                "service_time_ns,count\n5,1.5\n",
                "line 2: \"5,1.5\" has no count",
            ),
            ("service_time_ns,count\n5,1,2\n", "has no count"),
        ] {
            let error = Histogram::parse(text, "times.csv").unwrap_err();
            assert!(error.starts_with("times.csv"), "{error}");
            assert!(error.contains(sentence), "{error}");
        }
        let recorded = ServiceTimes::Recorded {
            file: "times.csv".to_string(),
        };
        let error = recorded.open(&Files::default()).unwrap_err();
        assert!(error.starts_with("times.csv: the contents"), "{error}");
        let contents = [("times.csv".to_string(), vec![0xff])];
        let error = recorded.open(&Files::new(contents.into())).unwrap_err();
        assert!(error.starts_with("times.csv: this is not text"), "{error}");
    }
}
