//! The limit of a guest's writes to files of the host.

/// Bytes that a guest may still write, its standard output and error included.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    left: u64,
    is_exceeded: bool,
}

impl Allowance {
    /// An allowance of `bytes`.
    pub fn new(bytes: u64) -> Allowance {
        Allowance {
            left: bytes,
            is_exceeded: false,
        }
    }

    /// The number of the `wanted` bytes that may be written. The others are lost, and the run has
    /// failed.
    pub fn grant(&mut self, wanted: usize) -> usize {
        let granted = u64::try_from(wanted).unwrap_or(u64::MAX).min(self.left);
        self.is_exceeded |= granted < wanted as u64;
        granted as usize
    }

    /// Accounts for written bytes.
    pub fn spend(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// Number of bytes that may still be written.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Whether the guest tried to write more than allowed.
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
