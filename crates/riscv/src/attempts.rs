//! Attempts at `SC` that fail for ever.

/// After this many consecutive failures, the attempts are assumed never to succeed.
const MOST: u32 = 100_000;

/// The outcomes of a hart's last `SC`s.
///
/// A reservation need only last for the constrained loops of "Eventual Success of Store-Conditional
/// Instructions" (Volume I). A longer loop body may lose it each time, so that its hart, or several
/// harts that take the line from each other, retry for ever. If another hart makes progress, the
/// word changes between two `LR`s, as that of a lock does; if the word never changes, no hart makes
/// progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub struct Attempts {
    /// The address and the value of the last `LR`.
    address: u64,
    value: u64,
    /// Whether no `SC` has followed it yet.
    open: bool,
    /// `SC`s that have failed since the last success, and since an `LR` last read a different
    /// value.
    failed: u32,
}

impl Attempts {
    /// Records that `LR` has read `value` at `address`.
    #[inline]
    pub fn load(&mut self, address: u64, value: u64) {
        if (self.address, self.value) != (address, value) {
            self.failed = 0;
        }
        self.address = address;
        self.value = value;
        self.open = true;
    }

    /// Records the outcome of an `SC`.
    #[inline]
    pub fn store(&mut self, address: u64, succeeded: bool) {
        // An `SC` without an `LR` of its address is meant to fail: it ends a reservation.
        if succeeded {
            self.failed = 0;
        } else if self.open && self.address == address {
            self.failed += 1;
        }
        self.open = false;
    }

    /// Whether the hart will never make progress.
    pub fn are_in_vain(&self) -> bool {
        self.failed >= MOST
    }

    /// The problem and its remedy, as a sentence that follows the hart and its location.
    pub fn explain(&self) -> String {
        format!(
            "the last {MOST} store-conditionals (SC) have all failed, though each load-reserved \
             (LR) before them read the same value, {:#x} at {:#x}: no hart makes progress. The \
             instructions between LR and SC take too long, or the hart loses the line meanwhile: \
             make it 16 instructions or fewer without other loads and stores, or use an AMO",
            self.value, self.address
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes `MOST` failing attempts; returns whether they count as in vain.
    fn in_vain(mut between: impl FnMut(&mut Attempts, u32)) -> bool {
        let mut attempts = Attempts::default();
        for number in 0..MOST {
            assert!(!attempts.are_in_vain());
            between(&mut attempts, number);
            attempts.load(64, 7);
            attempts.store(64, false);
        }
        attempts.are_in_vain()
    }

    #[test]
    fn only_a_word_that_stays_as_it_is_is_given_up() {
        assert!(in_vain(|_, _| {}));
        // Another hart changed the word once, or the hart itself did.
        assert!(!in_vain(|attempts, number| if number == 1 {
            attempts.load(64, 8);
        }));
        assert!(!in_vain(|attempts, number| if number == 1 {
            attempts.store(64, true);
        }));
        // `SC`s without a reservation or at another address do not count.
        assert!(in_vain(|attempts, _| {
            attempts.store(64, false);
            attempts.store(128, false);
        }));
    }

    #[test]
    fn what_ends_a_reservation_is_no_attempt() {
        let mut attempts = Attempts::default();
        for _ in 0..2 * MOST {
            attempts.load(64, 7);
            attempts.store(128, false);
        }
        assert!(!attempts.are_in_vain());
    }
}
