//! Cache lines and ranges of physical addresses.

use serde::{Deserialize, Serialize};
use state::{Plain, State, Walker};

/// Bytes in a cache line (64 in every paper).
pub const LINE_BYTES: usize = 64;

/// The bytes of one cache line.
///
/// Messages contain it beside other fields, so its alignment is no larger than a register's. Arrays
/// of lines contain an `AlignedLine` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, state::Plain)]
#[repr(C, align(8))]
pub struct LineData(pub [u8; LINE_BYTES]);

/// A line aligned to a cache line of the host.
#[derive(Clone, Copy, Debug, state::State)]
#[repr(C, align(64))]
pub(crate) struct AlignedLine(pub(crate) LineData);

impl AlignedLine {
    pub(crate) const ZERO: AlignedLine = AlignedLine(LineData::ZERO);
}

impl LineData {
    /// A line of zeros.
    pub const ZERO: LineData = LineData([0; LINE_BYTES]);

    /// The little-endian value of `bytes` (1 to 8) at `offset`; they must lie inside the line.
    #[inline]
    pub fn read(&self, offset: usize, bytes: usize) -> u64 {
        self.read_from(offset) & u64::MAX >> (64 - bytes * 8)
    }

    /// The little-endian value of up to eight bytes from `offset` on, within the line.
    #[inline]
    pub fn read_from(&self, offset: usize) -> u64 {
        let start = offset.min(LINE_BYTES - 8);
        let eight = self.0[start..start + 8].try_into().unwrap_or_default();
        u64::from_le_bytes(eight) >> ((offset - start) * 8)
    }

    /// Writes the low `bytes` (1 to 8) bytes of `value` at `offset`, little-endian.
    #[inline]
    pub fn write(&mut self, offset: usize, bytes: usize, value: u64) {
        let value = value.to_le_bytes();
        match bytes {
            8 => self.0[offset..offset + 8].copy_from_slice(&value),
            4 => self.0[offset..offset + 4].copy_from_slice(&value[..4]),
            2 => self.0[offset..offset + 2].copy_from_slice(&value[..2]),
            1 => self.0[offset] = value[0],
            _ => self.0[offset..offset + bytes].copy_from_slice(&value[..bytes]),
        }
    }

    /// Writes some bytes, as many as there are places for.
    pub fn patch(&mut self, offset: usize, bytes: &[u8]) {
        for (place, byte) in self.0.iter_mut().skip(offset).zip(bytes) {
            *place = *byte;
        }
    }
}

/// The number of a cache line: its physical address divided by [`LINE_BYTES`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct LineAddress(pub u64);

impl LineAddress {
    /// The line that holds the byte at `address`.
    #[inline]
    pub const fn of(address: u64) -> LineAddress {
        LineAddress(address / LINE_BYTES as u64)
    }

    /// The address of the line's first byte.
    #[inline]
    pub const fn base(self) -> u64 {
        self.0 * LINE_BYTES as u64
    }
}

impl State for LineAddress {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.0.walk(walker);
    }
}

impl Plain for LineAddress {
    fn blank() -> LineAddress {
        LineAddress(0)
    }
}

impl State for LineData {
    fn walk(&mut self, walker: &mut dyn Walker) {
        walker.bytes(&mut self.0);
    }
}

/// Addresses from `start` up to, not including, `start + length`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, state::State, state::Plain,
)]
pub struct AddressRange {
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
}

impl AddressRange {
    /// Whether `address` lies inside.
    #[inline]
    pub const fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.length
    }

    /// The first address after the range.
    pub const fn end(&self) -> u64 {
        self.start + self.length
    }
}
