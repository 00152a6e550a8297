//! Frames in memory, split into lines.

use fabric::{AgentContext, LINE_BYTES, LineData, MemoryAccess};

/// A part of a range of memory, on one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its first byte in memory.
    pub address: u64,
    /// Its offset from the start of the range.
    pub offset: usize,
    pub bytes: usize,
}

impl Piece {
    /// The access that writes the piece of the range's `content`.
    pub fn write(&self, content: &[u8], allocate: bool) -> MemoryAccess {
        let mut data = LineData::ZERO;
        data.0[..self.bytes].copy_from_slice(&content[self.offset..self.offset + self.bytes]);
        MemoryAccess::DmaWrite {
            address: self.address,
            bytes: self.bytes as u8,
            data,
            allocate,
        }
    }

    /// Copies the piece from its line to its place in `content`.
    pub fn read(&self, line: &LineData, content: &mut [u8]) {
        let start = (self.address % LINE_BYTES as u64) as usize;
        content[self.offset..self.offset + self.bytes]
            .copy_from_slice(&line.0[start..start + self.bytes]);
    }
}

/// The pieces of a range, each up to the next multiple of `boundary`, which is a power of two.
pub(crate) fn pieces(address: u64, bytes: usize, boundary: u64) -> impl Iterator<Item = Piece> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let start = address + offset as u64;
        let piece = Piece {
            address: start,
            offset,
            bytes: ((boundary - start % boundary) as usize).min(bytes - offset),
        };
        offset += piece.bytes;
        (piece.bytes > 0).then_some(piece)
    })
}

/// The pieces of a range, line by line.
pub(crate) fn lines(address: u64, bytes: usize) -> impl Iterator<Item = Piece> {
    pieces(address, bytes, LINE_BYTES as u64)
}

/// Whether all of a range is memory, and its addresses do not overflow.
pub(crate) fn is_memory(context: &AgentContext<'_>, address: u64, bytes: usize) -> bool {
    address.checked_add(bytes as u64).is_some()
        && lines(address, bytes).all(|piece| context.in_memory(piece.address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_its_lines() {
        let found: Vec<_> = lines(0x1038, 80).collect();
        let piece = |address, offset, bytes| Piece {
            address,
            offset,
            bytes,
        };
        let expected = [
            piece(0x1038, 0, 8),
            piece(0x1040, 8, 64),
            piece(0x1080, 72, 8),
        ];
        assert_eq!(found, expected);
        assert_eq!(lines(0x1000, 0).count(), 0);
        let packets: Vec<_> = pieces(0x1038, 300, 256).map(|piece| piece.bytes).collect();
        assert_eq!(packets, [200, 100]);
    }

    proptest::proptest! {
        /// Writing pieces and reading them back gives the same content.
        #[test]
        fn pieces_make_the_whole(start in 0u64..4096, content in proptest::collection::vec(0u8.., 1..600)) {
            let mut memory = vec![0; 8192];
            for piece in lines(start, content.len()) {
                if let MemoryAccess::DmaWrite { address, bytes, data, .. } = piece.write(&content, true) {
                    let at = address as usize;
                    memory[at..at + usize::from(bytes)].copy_from_slice(&data.0[..usize::from(bytes)]);
                }
            }
            let mut back = vec![0; content.len()];
            for piece in lines(start, content.len()) {
                let line = (piece.address / 64 * 64) as usize;
                let mut data = LineData::ZERO;
                data.0.copy_from_slice(&memory[line..line + 64]);
                piece.read(&data, &mut back);
            }
            proptest::prop_assert_eq!(back, content);
        }
    }
}
