//! Power of two choices (Mitzenmacher 2001; Bramson, Lu and Prabhakar 2010): of two random cores,
//! the one with fewer messages gets the next one. It needs no view of all cores.

use super::Load;
use workload::Random;

/// Power of two choices.
#[derive(Clone, Debug, state::State)]
pub struct PowerOfTwo {
    random: Random,
    /// The cores drawn for the waiting message, if both have reached the threshold.
    drawn: Option<(usize, usize)>,
}

impl PowerOfTwo {
    /// The policy, which draws from `random`.
    pub fn new(random: Random) -> PowerOfTwo {
        PowerOfTwo {
            random,
            drawn: None,
        }
    }

    /// The core that gets the next message.
    pub fn choose(&mut self, load: &Load) -> Option<usize> {
        let (first, second) = self.drawn.take().unwrap_or_else(|| {
            let cores = load.outstanding.len() as u64;
            let first = self.random.below(cores);
            // A different core, if there is one.
            let second = (first + 1 + self.random.below((cores - 1).max(1))) % cores;
            (first as usize, second as usize)
        });
        let is_second = load.outstanding[second] < load.outstanding[first];
        let core = if is_second { second } else { first };
        if load.is_available(core) {
            return Some(core);
        }
        self.drawn = Some((first, second));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::load;
    use workload::Stream;

    fn policy() -> PowerOfTwo {
        PowerOfTwo::new(Random::new(1, Stream::Dispatch))
    }

    #[test]
    fn of_two_different_cores_the_shorter_queue_is_joined() {
        let mut policy = policy();
        let mut counts = [0; 4];
        for _ in 0..12_000 {
            let core = policy.choose(&load(&[0, 1, 2, 3], 16)).unwrap();
            counts[core] += 1;
        }
        // The longest queue is never the shorter of two. Of six pairs, three contain core 0, two
        // more contain core 1, and one is left for core 2; the standard deviation of each count is
        // some 50.
        assert_eq!(counts[3], 0);
        for (count, expected) in counts.into_iter().zip([6000, 4000, 2000]) {
            assert!(
                count > expected - 250 && count < expected + 250,
                "{counts:?}"
            );
        }
    }

    #[test]
    fn a_message_waits_for_its_two_cores() {
        let mut policy = policy();
        assert_eq!(policy.choose(&load(&[2, 2], 2)), None);
        assert_eq!(policy.choose(&load(&[2, 1], 2)), Some(1));
        // With one core there is no other.
        assert_eq!(policy.choose(&load(&[1], 2)), Some(0));
    }
}
