//! The instruction cache of a core: only tags, because the scratchpad holds the bytes.

/// Bytes of a line: four words, so that a line comes out of four banks.
pub(super) const LINE_BYTES: u64 = 32;
/// The tag of an invalid line.
const NONE: u64 = u64::MAX;

#[derive(Clone, Debug, state::State)]
pub(super) struct InstructionCache {
    /// The lines of each set, most recently used first.
    #[state(slice)]
    lines: Vec<u64>,
    #[state(fixed)]
    ways: usize,
}

impl InstructionCache {
    pub fn new(bytes: u32, ways: u32) -> InstructionCache {
        InstructionCache {
            lines: vec![NONE; bytes as usize / LINE_BYTES as usize],
            ways: ways as usize,
        }
    }

    /// Whether the line of `address` is present. Fills it, and marks it as most recently used.
    pub fn look_up(&mut self, address: u64) -> bool {
        let line = address / LINE_BYTES;
        let sets = self.lines.len() / self.ways;
        let first = line as usize % sets * self.ways;
        let set = &mut self.lines[first..first + self.ways];
        let place = set.iter().position(|&one| one == line);
        set[..=place.unwrap_or(self.ways - 1)].rotate_right(1);
        set[0] = line;
        place.is_some()
    }

    /// Invalidates all lines.
    pub fn clear(&mut self) {
        self.lines.fill(NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 KB of two ways are 128 sets: lines 4096 bytes apart share one, and the least recently used
    /// one is evicted.
    #[test]
    fn the_least_recently_used_line_makes_room() {
        let mut cache = InstructionCache::new(8192, 2);
        for (address, is_there) in [
            (0, false),
            (31, true),
            (4096, false),
            (0, true),
            (8192, false),
            (0, true),
            (4096, false),
            (32, false),
        ] {
            assert_eq!(cache.look_up(address), is_there, "{address}");
        }
        cache.clear();
        assert!(!cache.look_up(0));
    }
}
