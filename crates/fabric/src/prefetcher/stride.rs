//! A reference prediction table: Baer and Chen, "An Effective On-Chip Preloading Scheme to Reduce
//! Data Access Penalty", Supercomputing 1991.
//!
//! An entry has the last address and the stride of one load instruction. Its prediction for the
//! next address is their sum:
//!
//! | state | the prediction was right | it was wrong |
//! | --- | --- | --- |
//! | initial | steady | transient, with the new stride |
//! | transient | steady | no prediction, with the new stride |
//! | steady | steady | initial, with the same stride |
//! | no prediction | transient | no prediction, with the new stride |
//!
//! In every state but the last one, lines are fetched. A number of strides, the distance, replaces
//! the look-ahead program counter.

use super::{DemandAccess, LoadInstruction, Prefetcher};
use crate::{LINE_BYTES, LineAddress};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reference prediction table of the prefetcher `stride`.
///
/// Defaults: 256 entries, as in Intel's Core (Doweck, "Inside Intel Core Microarchitecture and
/// Smart Memory Access", 2006); one line at a time, and the next one, as in Baer and Chen's basic
/// scheme (Supercomputing 1991).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StrideSpec {
    /// Load instructions in the table, which is direct-mapped by program counter.
    #[schemars(range(min = 1, max = 4096))]
    pub entries: u32,
    /// The maximum number of prefetches at each load.
    #[schemars(range(min = 1, max = 16))]
    pub degree: u32,
    /// The distance of the first of them, in strides. A stride of less than a line counts as a
    /// line.
    #[schemars(range(min = 1, max = 64))]
    pub distance: u32,
}

impl Default for StrideSpec {
    fn default() -> StrideSpec {
        StrideSpec {
            entries: 256,
            degree: 1,
            distance: 1,
        }
    }
}

impl StrideSpec {
    /// Whether it is the default.
    pub fn is_default(&self) -> bool {
        *self == StrideSpec::default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, state::State, state::Plain)]
enum Prediction {
    Initial,
    Transient,
    Steady,
    None,
}

/// Odd, unlike every program counter.
const NOBODY: u64 = 1;

#[derive(Clone, Copy, Debug, state::State, state::Plain)]
struct Entry {
    /// [`NOBODY`] if the entry is unused.
    pc: u64,
    address: u64,
    /// Modulo 2^64.
    stride: u64,
    prediction: Prediction,
}

#[derive(Clone, Debug, state::State)]
pub(super) struct Stride {
    #[state(fixed)]
    spec: StrideSpec,
    #[state(slice)]
    entries: Vec<Entry>,
}

impl Stride {
    pub(super) fn new(spec: StrideSpec) -> Stride {
        let empty = Entry {
            pc: NOBODY,
            address: 0,
            stride: 0,
            prediction: Prediction::Initial,
        };
        Stride {
            spec,
            entries: vec![empty; spec.entries as usize],
        }
    }

    /// Appends all entries in use.
    pub(super) fn append_words(&self, words: &mut Vec<u64>) {
        for (index, entry) in self.entries.iter().enumerate() {
            if entry.pc != NOBODY {
                let prediction = entry.prediction as u64;
                let [pc, address, stride] = [entry.pc, entry.address, entry.stride];
                words.extend([index as u64, pc, address, stride, prediction]);
            }
        }
    }

    /// The predicted stride of the load, if any.
    fn predict(&mut self, load: LoadInstruction) -> Option<u64> {
        let index = (load.pc >> 1) % u64::from(self.spec.entries);
        let entry = &mut self.entries[index as usize];
        if entry.pc != load.pc {
            *entry = Entry {
                pc: load.pc,
                address: load.address,
                stride: 0,
                prediction: Prediction::Initial,
            };
            return None;
        }
        let stride = load.address.wrapping_sub(entry.address);
        let is_right = stride == entry.stride;
        let before = entry.prediction;
        entry.address = load.address;
        entry.prediction = match (before, is_right) {
            (Prediction::None, true) | (Prediction::Initial, false) => Prediction::Transient,
            (_, true) => Prediction::Steady,
            (Prediction::Steady, false) => Prediction::Initial,
            (Prediction::Transient | Prediction::None, false) => Prediction::None,
        };
        if before != Prediction::Steady {
            entry.stride = stride;
        }
        (entry.prediction != Prediction::None).then_some(entry.stride)
    }
}

impl Prefetcher for Stride {
    fn accessed(&mut self, access: &DemandAccess, wanted: &mut Vec<LineAddress>) {
        let Some(load) = access.load else {
            return;
        };
        let stride = match self.predict(load).map(|stride| stride as i64) {
            None | Some(0) => return,
            Some(stride) if stride.unsigned_abs() < LINE_BYTES as u64 => {
                stride.signum() * LINE_BYTES as i64
            }
            Some(stride) => stride,
        };
        for ahead in self.spec.distance..self.spec.distance + self.spec.degree {
            let by = stride.wrapping_mul(i64::from(ahead));
            wanted.push(LineAddress::of(load.address.wrapping_add_signed(by)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that are fetched after each load, one instruction at `pc`.
    fn fetched(table: &mut Stride, pc: u64, addresses: &[u64]) -> Vec<Vec<u64>> {
        let loads = addresses.iter().map(|&address| {
            let mut wanted = Vec::new();
            let access = DemandAccess {
                line: LineAddress::of(address),
                is_hit: true,
                is_first_use: false,
                load: Some(LoadInstruction { pc, address }),
            };
            table.accessed(&access, &mut wanted);
            wanted.into_iter().map(|line| line.0).collect()
        });
        loads.collect()
    }

    /// The entry is initial; a stride of 256 bytes makes it transient, which fetches 4 lines ahead;
    /// the next one steady. Another address makes it initial, with the same stride; it continues
    /// from there.
    #[test]
    fn a_stride_is_predicted_from_the_second_load_on() {
        let mut table = Stride::new(StrideSpec::default());
        let line = |number: u64| number * 64;
        let found = fetched(&mut table, 0x1000, &[0, 4, 8, 100, 104, 108].map(line));
        let expected: [&[u64]; 6] = [&[], &[8], &[12], &[104], &[108], &[112]];
        assert_eq!(found, expected);
    }

    /// Strides of 1, 2, 4 lines: transient, then none. A stride seen twice in a row, 4, makes it
    /// transient, and the third time steady.
    #[test]
    fn an_irregular_load_is_not_predicted() {
        let mut table = Stride::new(StrideSpec::default());
        let found = fetched(&mut table, 0x1000, &[0, 1, 3, 7, 11, 15].map(|n| n * 64));
        let expected: [&[u64]; 6] = [&[], &[2], &[], &[], &[15], &[19]];
        assert_eq!(found, expected);
    }

    /// Descending words: one line at a time, at the distance, and up to the degree.
    #[test]
    fn small_strides_count_as_lines() {
        let mut table = Stride::new(StrideSpec {
            entries: 2,
            degree: 2,
            distance: 3,
        });
        let found = fetched(&mut table, 0x1000, &[6408, 6400]);
        let expected: [&[u64]; 2] = [&[], &[97, 96]];
        assert_eq!(found, expected);
        // 0x1004 maps to the same entry in a table of two; 0x1002 does not.
        fetched(&mut table, 0x1002, &[0]);
        assert_eq!(fetched(&mut table, 0x1000, &[6392]), [[96, 95]]);
        fetched(&mut table, 0x1004, &[0]);
        assert_eq!(fetched(&mut table, 0x1000, &[6384]), [[0_u64; 0]]);
    }
}
