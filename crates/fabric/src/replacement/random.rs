//! Any way: a linear-feedback shift register says which.

/// A shift register of 16 bits, which goes through all numbers but 0.
#[derive(Clone, Debug, state::State)]
pub(super) struct Register {
    #[state(exact)]
    bits: u16,
}

impl Default for Register {
    /// Any number but 0 does.
    fn default() -> Register {
        Register { bits: 1 }
    }
}

impl Register {
    pub(super) fn bits(&self) -> u16 {
        self.bits
    }

    /// The way that the lowest bits say, or the next that may go.
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
