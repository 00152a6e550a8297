//! The distribution of the traffic over the queues.

use crate::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The traffic shapes of HyperPlane, Section II-C.
///
/// A shape chooses the *active* queues; each arrival goes to one of them, all equally likely. The
/// paper's "passes through the rest with a probability of 5%" is drawn once a run for each queue:
/// so about a fifth of all polls find work in the proportionally concentrated shape, as the
/// paper counts, at saturation too, where a queue with any arrivals at all would soon be full.
/// Queues that are active in any case are spread evenly over the queue numbers, so that cores
/// which divide the queues have equal shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// All queues.
    #[default]
    FullyBalanced,
    /// 20 % of the queues (at least one), and each other queue with probability 5 %.
    ProportionallyConcentrated,
    /// 100 queues, and each other queue with probability 5 %.
    NonProportionallyConcentrated,
    /// Queue 0.
    SingleQueue,
}

impl Shape {
    /// The active queues among `queues`, in order.
    pub fn active_queues(self, queues: u32, random: &mut Random) -> Vec<u32> {
        match self {
            Shape::FullyBalanced => (0..queues).collect(),
            Shape::ProportionallyConcentrated => concentrated(
                queues,
                (f64::from(queues) / 5.0).round().max(1.0) as u32,
                random,
            ),
            Shape::NonProportionallyConcentrated => concentrated(queues, queues.min(100), random),
            Shape::SingleQueue => vec![0],
        }
    }
}

/// `always` queues at even distances, and the others with probability 5 %.
fn concentrated(queues: u32, always: u32, random: &mut Random) -> Vec<u32> {
    let place = |number: u32| (u64::from(number) * u64::from(queues) / u64::from(always)) as u32;
    let mut number = 0;
    (0..queues)
        .filter(|&queue| {
            if number < always && queue == place(number) {
                number += 1;
                true
            } else {
                random.unit() < 0.05
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    fn active(shape: Shape, queues: u32, seed: u64) -> Vec<u32> {
        shape.active_queues(queues, &mut Random::new(seed, Stream::ActiveQueues))
    }

    #[test]
    fn all_and_one() {
        assert_eq!(active(Shape::FullyBalanced, 3, 1), [0, 1, 2]);
        assert_eq!(active(Shape::SingleQueue, 1000, 1), [0]);
    }

    #[test]
    fn a_fifth_and_some_of_the_rest() {
        let mut others = 0;
        for seed in 0..100 {
            let queues = active(Shape::ProportionallyConcentrated, 1000, seed);
            assert!(queues.is_sorted());
            assert_eq!(queues.iter().filter(|&&queue| queue % 5 == 0).count(), 200);
            others += queues.len() - 200;
        }
        // 80,000 draws with probability 5 %: 4000, standard deviation 62.
        assert!((4000 - 200..4000 + 200).contains(&others), "{others}");
    }

    #[test]
    fn a_hundred_and_some_of_the_rest() {
        let mut others = 0;
        for seed in 0..100 {
            let queues = active(Shape::NonProportionallyConcentrated, 1000, seed);
            assert_eq!(queues.iter().filter(|&&queue| queue % 10 == 0).count(), 100);
            others += queues.len() - 100;
        }
        assert!((4500 - 210..4500 + 210).contains(&others), "{others}");
        assert_eq!(
            active(Shape::NonProportionallyConcentrated, 64, 1).len(),
            64
        );
    }

    #[test]
    fn few_queues_leave_at_least_one() {
        for queues in 1..10 {
            assert!(!active(Shape::ProportionallyConcentrated, queues, 1).is_empty());
        }
    }

    #[test]
    fn every_core_gets_an_equal_share() {
        let queues = active(Shape::NonProportionallyConcentrated, 400, 1);
        for core in 0..4 {
            let share = (0..100)
                .filter(|number| queues.contains(&(number * 400 / 100)))
                .filter(|number| number * 4 / 100 == core)
                .count();
            assert_eq!(share, 25);
        }
    }
}
