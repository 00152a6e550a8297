//! Random numbers that are the same on every host.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};
use state::{State, Walker};

/// The purpose of random numbers. Each purpose has its own stream, so that, for example, another
/// packet length does not change arrival times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Arrival times of items.
    Arrivals = 1,
    /// The choice of active queues.
    ActiveQueues = 2,
    /// The active queue of each item.
    Queues = 3,
    /// Contents of packets.
    Packets = 4,
    /// Service times of requests.
    ServiceTimes = 5,
    /// Arrival times during a warm start.
    WarmArrivals = 6,
    /// Faults of the network.
    Faults = 16,
    /// Random choices of message dispatchers.
    Dispatch = 17,
    /// Faults on the links of a rack.
    LinkFaults = 18,
    /// Arrivals at the ideal queues with which latencies are compared.
    ControlVariates = 19,
}

/// A random number generator, PCG64 (O'Neill 2014).
///
/// Everything here is computed from its 64-bit integers with operations that IEEE 754 defines
/// exactly: no logarithm, whose last bit differs between C libraries.
#[derive(Clone, Debug, state::State)]
#[state(fields)]
pub struct Random {
    #[state(fixed)]
    generator: Pcg64,
    /// Number of draws so far.
    #[state(fixed)]
    drawn: u64,
}

/// The seed is in the description, and a generator can jump to any position in its sequence.
impl State for Random {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        let before = self.drawn;
        self.drawn.walk(walker);
        // The sequence has a period of 2^128, so this moves backwards as well.
        let steps = u128::from(self.drawn).wrapping_sub(u128::from(before));
        self.generator.advance(steps);
    }
}

impl Random {
    /// The generator of `stream` for the seed of a description. Its 256-bit state is the output
    /// of SplitMix64 (Steele, Lea and Flood 2014), whose own state begins at the seed plus the
    /// stream's number shifted to the upper 16 bits.
    pub fn new(seed: u64, stream: Stream) -> Random {
        let mut state = seed.wrapping_add((stream as u64) << 48);
        let mut bytes = [0; 32];
        for word in bytes.chunks_exact_mut(8) {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
        }
        Random {
            generator: Pcg64::from_seed(bytes),
            drawn: 0,
        }
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.drawn += 1;
        self.generator.next_u64()
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0..`bound`, which must not be 0. The bias is below `bound` / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Exponentially distributed with mean 1, by von Neumann's method of comparisons (1951): draw
    /// while the numbers fall; if the run has odd length its first number is the fraction, if not
    /// add 1 and begin again.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        let mut whole = 0.0;
        loop {
            let first = self.unit();
            let mut last = first;
            let mut odd = true;
            loop {
                let next = self.unit();
                if next >= last {
                    break;
                }
                last = next;
                odd = !odd;
            }
            if odd {
                return whole + first;
            }
            whole += 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_never_change() {
        let mut random = Random::new(1, Stream::Arrivals);
        assert_eq!(
            [random.bits(), random.bits(), random.bits()],
            PINNED,
            "results of old runs can no longer be reproduced"
        );
        assert_ne!(Random::new(1, Stream::Queues).bits(), PINNED[0]);
        assert_ne!(Random::new(2, Stream::Arrivals).bits(), PINNED[0]);
    }

    const PINNED: [u64; 3] = [
        5_035_985_999_801_008_813,
        1_872_212_006_993_139_265,
        6_380_217_385_018_146_279,
    ];

    #[test]
    fn a_generator_goes_on_where_another_was() {
        let drawn = |numbers: usize| {
            let mut random = Random::new(1, Stream::Queues);
            for _ in 0..numbers {
                random.bits();
            }
            random
        };
        let (mut later, mut earlier) = (drawn(1000), drawn(3));
        let bytes = state::Writer::write(&mut later).unwrap();
        state::Reader::read(&mut earlier, &bytes).unwrap();
        assert_eq!(earlier.bits(), later.bits());
        let bytes = state::Writer::write(&mut drawn(3)).unwrap();
        state::Reader::read(&mut later, &bytes).unwrap();
        assert_eq!(later.bits(), drawn(3).bits());
    }

    #[test]
    fn exponential_numbers_are_exponential() {
        let mut random = Random::new(7, Stream::Arrivals);
        let count = 200_000;
        let (mut sum, mut squares, mut above_two) = (0.0, 0.0, 0);
        for _ in 0..count {
            let value = random.exponential();
            sum += value;
            squares += value * value;
            above_two += u32::from(value > 2.0);
        }
        let mean = sum / f64::from(count);
        let variance = squares / f64::from(count) - mean * mean;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((variance - 1.0).abs() < 0.03, "{variance}");
        let expected = (-2.0f64).exp();
        assert!((f64::from(above_two) / f64::from(count) - expected).abs() < 0.003);
    }

    #[test]
    fn below_is_uniform() {
        let mut random = Random::new(3, Stream::Queues);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[random.below(7) as usize] += 1;
        }
        // Chi-square with 6 degrees of freedom: below 22.5 with probability 99.9 %.
        let chi_square: f64 = counts
            .iter()
            .map(|&count| (f64::from(count) - 1e4).powi(2) / 1e4)
            .sum();
        assert!(chi_square < 22.5, "{chi_square}");
    }
}
