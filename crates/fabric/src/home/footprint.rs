//! Detects whether a bank has returned to an earlier state, so that periods can be skipped.

use super::{Bank, Entry};
use crate::LineAddress;

/// The entries of a bank that have been accessed since a sample point, with their values at that
/// time. No other contents have influenced the bank since, as long as no line was filled or
/// evicted.
#[derive(Clone, Debug, Default)]
pub(super) struct Footprint {
    pub(super) recording: bool,
    /// Whether each entry has been accessed since the last sample point, as bits.
    pub(super) seen: Vec<u64>,
    /// The accessed entries, sample point by sample point; `None` where a line was filled or
    /// evicted, or an agent requested one.
    pub(super) looks: Vec<Option<(usize, Entry)>>,
}

impl Footprint {
    /// Records that the behaviour depends on more than the entries from here on.
    #[inline]
    pub(super) fn fail(&mut self) {
        if self.recording {
            self.looks.push(None);
        }
    }

    /// Whether the entry at `slot` is accessed for the first time.
    #[inline]
    pub(super) fn sees(&mut self, slot: usize) -> bool {
        let (seen, bit) = (&mut self.seen[slot / 64], 1 << (slot % 64));
        let is_first = *seen & bit == 0;
        *seen |= bit;
        is_first
    }
}

impl Bank {
    /// Whether a footprint can be used.
    pub(crate) fn can_repeat(&self) -> bool {
        self.lines.is_none() && self.prefetching.is_none()
    }

    /// Starts a sample point for later comparisons: operations are recorded from now on. Returns
    /// the number of earlier records, for [`Bank::footprint_holds`].
    pub(crate) fn mark_footprint(&mut self) -> usize {
        let footprint = &mut self.footprint;
        footprint.recording = true;
        footprint.seen.clear();
        footprint.seen.resize(self.entries.len().div_ceil(64), 0);
        footprint.looks.len()
    }

    /// Stops recording.
    pub(crate) fn end_footprint(&mut self) {
        self.footprint.recording = false;
        self.footprint.looks.clear();
    }

    /// Whether the bank's contents used since a sample point are the same as then. Ends the
    /// previous sample point.
    pub(crate) fn footprint_holds(&mut self, mark: usize) -> bool {
        let footprint = &mut self.footprint;
        footprint.seen.fill(0);
        for look in mark..footprint.looks.len() {
            let Some((slot, entry)) = footprint.looks[look] else {
                return false;
            };
            // Later sample points have recorded it again, with its value then.
            if footprint.sees(slot) && self.entries[slot] != entry {
                return false;
            }
        }
        true
    }

    #[cold]
    pub(super) fn record(&mut self, line: LineAddress) {
        match self.find(line) {
            None => self.footprint.fail(),
            Some(slot) if self.footprint.sees(slot) => {
                self.footprint.looks.push(Some((slot, self.entries[slot])));
            }
            Some(_) => {}
        }
    }
}
