//! Whether a bank has come back to what it was, so that periods can be skipped.

use super::{Bank, Entry};
use crate::LineAddress;

/// The entries of a bank that have been looked at since some sample point, as they were then.
/// Nothing else of its content has decided on what the bank has done since, as long as no line came
/// or went.
#[derive(Clone, Debug, Default)]
pub(super) struct Footprint {
    pub(super) recording: bool,
    /// Whether each entry has been looked at since the last sample point, as bits.
    pub(super) seen: Vec<u64>,
    /// Those that have been, sample point by sample point; `None` where a line came or went, or an
    /// agent asked for one.
    pub(super) looks: Vec<Option<(usize, Entry)>>,
}

impl Footprint {
    /// What comes from here on depends on more than on entries.
    #[inline]
    pub(super) fn fail(&mut self) {
        if self.recording {
            self.looks.push(None);
        }
    }

    /// Whether the entry at `slot` is seen for the first time.
    #[inline]
    pub(super) fn sees(&mut self, slot: usize) -> bool {
        let (seen, bit) = (&mut self.seen[slot / 64], 1 << (slot % 64));
        let is_first = *seen & bit == 0;
        *seen |= bit;
        is_first
    }
}

impl Bank {
    /// Whether a footprint is ever of use.
    pub(crate) fn can_repeat(&self) -> bool {
        self.lines.is_none() && self.prefetching.is_none()
    }

    /// This is a sample point that others may be compared with: what is done from now on is
    /// recorded. Returns how much had been before, to be told to [`Bank::footprint_holds`].
    pub(crate) fn mark_footprint(&mut self) -> usize {
        let footprint = &mut self.footprint;
        footprint.recording = true;
        footprint.seen.clear();
        footprint.seen.resize(self.entries.len().div_ceil(64), 0);
        footprint.looks.len()
    }

    /// Records no more.
    pub(crate) fn end_footprint(&mut self) {
        self.footprint.recording = false;
        self.footprint.looks.clear();
    }

    /// Whether the bank holds what it held at a sample point, as far as that has been of use since.
    /// This is the end of the sample point before it.
    pub(crate) fn footprint_holds(&mut self, mark: usize) -> bool {
        let footprint = &mut self.footprint;
        footprint.seen.fill(0);
        for look in mark..footprint.looks.len() {
            let Some((slot, entry)) = footprint.looks[look] else {
                return false;
            };
            // Later sample points have noted it again, as it was then.
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
