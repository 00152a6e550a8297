//! How much a guest may write to files of the host.

/// Bytes that a guest may still write, its standard output and error included.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    left: u64,
    is_exceeded: bool,
}

impl Allowance {
    /// So many bytes.
    pub fn new(bytes: u64) -> Allowance {
        Allowance {
            left: bytes,
            is_exceeded: false,
        }
    }

    /// How many of the `wanted` bytes may be written. The others are lost, and so is the run.
    pub fn grant(&mut self, wanted: usize) -> usize {
        let granted = u64::try_from(wanted).unwrap_or(u64::MAX).min(self.left);
        self.is_exceeded |= granted < wanted as u64;
        granted as usize
    }

    /// So many bytes have been written.
    pub fn spend(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// How many bytes may still be written.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Whether more was to be written than is allowed.
    pub fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_is_granted_to_the_byte() {
        let mut allowance = Allowance::new(10);
        assert_eq!(allowance.grant(6), 6);
        allowance.spend(6);
        assert_eq!((allowance.grant(4), allowance.is_exceeded()), (4, false));
        assert_eq!((allowance.grant(5), allowance.is_exceeded()), (4, true));
        allowance.spend(4);
        assert_eq!((allowance.grant(1), allowance.left()), (0, 0));
    }
}
