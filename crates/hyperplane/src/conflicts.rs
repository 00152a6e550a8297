//! The rate of conflicts of `QWAIT-ADD`, by the occupancy of the monitoring set (§IV-A).

use crate::monitoring_set::mix;
use crate::{HyperPlaneSpec, InsertError, Qid};
use fabric::LineAddress;
use spec::SpecError;
use std::collections::BTreeSet;

/// The lines that a driver allocates to doorbells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorbellLines {
    /// At random, out of 16 GiB.
    Random,
    /// At random, but the banks have their turn one after the other: "the driver must spread
    /// doorbell addresses across banks" (§IV-A).
    RandomInTurn,
    /// One after the other, from a random one on.
    Consecutive,
}

impl DoorbellLines {
    /// The line of a driver's `number`-th doorbell.
    fn line(self, seed: u64, number: u64, banks: u64) -> LineAddress {
        let random = mix(mix(seed) ^ number) >> 36;
        LineAddress(match self {
            DoorbellLines::Random => random,
            DoorbellLines::RandomInTurn => random / banks * banks + number % banks,
            DoorbellLines::Consecutive => (mix(seed) >> 36) + number,
        })
    }
}

/// The number of conflicts of `doorbells` `QWAIT-ADD`s, each for another line, in an initially
/// empty monitoring set of `banks` banks. A doorbell in conflict is given up.
pub fn conflicts(
    spec: &HyperPlaneSpec,
    banks: usize,
    lines: DoorbellLines,
    doorbells: u32,
    seed: u64,
) -> Result<u32, SpecError> {
    let mut set = spec.monitoring_set(banks)?;
    if doorbells as usize > set.entries() {
        return Err(SpecError::new(
            "entries",
            set.entries(),
            format!("{doorbells} doorbells need as many"),
        ));
    }
    let mut tried = BTreeSet::new();
    let mut conflicts = 0;
    let mut number = 0;
    for qid in 0..doorbells {
        let line = loop {
            let line = lines.line(seed, number, banks as u64);
            number += 1;
            if tried.insert(line.0) {
                break line;
            }
        };
        conflicts += u32::from(set.insert(line, Qid(qid)) == Err(InsertError::Conflict));
    }
    Ok(conflicts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use DoorbellLines::{Consecutive, Random, RandomInTurn};

    fn percent(ways: usize, lines: DoorbellLines, doorbells: u32) -> f64 {
        let spec = HyperPlaneSpec {
            ways,
            ..HyperPlaneSpec::default()
        };
        let tables = 100;
        let met: u32 = (0..tables)
            .map(|seed| conflicts(&spec, 16, lines, doorbells, seed).unwrap())
            .sum();
        100.0 * f64::from(met) / (tables as f64 * f64::from(doorbells))
    }

    /// A Cuckoo table of two ways with one entry a row holds half of its entries (Devroye and
    /// Morin, "Cuckoo hashing: further analysis"); of four ways 97.7 % (Dietzfelbinger et al.,
    /// "Tight thresholds for cuckoo hashing via XORSAT"): if it is large. Banks of 64 entries are
    /// not.
    #[test]
    fn two_ways_hold_half_and_four_ways_nearly_all() {
        assert!(percent(2, RandomInTurn, 512) < 0.5);
        assert!(percent(2, RandomInTurn, 931) > 10.0);
        assert!(percent(4, RandomInTurn, 931) < 0.1);
    }

    /// 975 lines in 16 banks at random: a bank gets 60.9 of them with a standard deviation of 7.6,
    /// and what exceeds its 64 entries, 1.7 on average, conflicts in any case.
    #[test]
    fn banks_overflow_when_lines_are_at_random() {
        let four = percent(4, Random, 975);
        assert!((2.2..3.6).contains(&four), "{four}");
    }

    #[test]
    fn lines_one_after_the_other_conflict_less() {
        let conflicts = percent(2, Consecutive, 931);
        assert!((0.1..3.0).contains(&conflicts), "{conflicts}");
        assert_eq!(percent(2, Consecutive, 512), 0.0);
    }

    #[test]
    fn what_cannot_be_filled_is_refused() {
        let spec = HyperPlaneSpec::default();
        assert!(conflicts(&spec, 16, Random, 1024, 1).is_ok());
        assert!(conflicts(&spec, 16, Random, 1025, 1).is_err());
        assert!(conflicts(&spec, 15, Random, 1024, 1).is_err());
    }
}
