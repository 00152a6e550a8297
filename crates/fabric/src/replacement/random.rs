//! Random replacement: a linear-feedback shift register selects the way.

/// A shift register of 16 bits, which passes through all numbers but 0.
#[derive(Clone, Debug, state::State)]
pub(super) struct Register {
    #[state(exact)]
    bits: u16,
}

impl Default for Register {
    /// Any number but 0 is suitable.
    fn default() -> Register {
        Register { bits: 1 }
    }
}

impl Register {
    pub(super) fn bits(&self) -> u16 {
        self.bits
    }

    /// The way given by the lowest bits, or the next one that may be evicted.
    #[inline]
    pub(super) fn victim(&self, ways: usize, may_go: impl Fn(usize) -> bool) -> Option<usize> {
        let first = usize::from(self.bits) % ways;
        (first..ways).chain(0..first).find(|&way| may_go(way))
    }

    /// Its taps are bits 16, 14, 13 and 11.
    #[inline]
    pub(super) fn step(&mut self) {
        let bits = self.bits;
        let next = (bits ^ bits >> 2 ^ bits >> 3 ^ bits >> 5) & 1;
        self.bits = bits >> 1 | next << 15;
    }
}
