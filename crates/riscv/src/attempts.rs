//! Attempts at `SC` that fail for ever.

/// So many in vain, one after the other, are taken for attempts that will never succeed.
const MOST: u32 = 100_000;

/// What a hart's last `SC`s have come to.
///
/// A reservation need only last for the constrained loops of "Eventual Success of Store-Conditional
/// Instructions" (Volume I). A longer body may lose it each time, and its hart, or several that
/// take the line from each other, retry for ever. If others get on, the word changes between two
/// `LR`s, as that of a lock does; if it never does, nobody gets on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub struct Attempts {
    /// What the last `LR` read, and where.
    address: u64,
    value: u64,
    /// No `SC` has come since.
    open: bool,
    /// `SC`s that have failed since the last one succeeded, and since an `LR` read anything else.
    failed: u32,
}

impl Attempts {
    /// `LR` has read `value` at `address`.
    #[inline]
    pub fn load(&mut self, address: u64, value: u64) {
        if (self.address, self.value) != (address, value) {
            self.failed = 0;
        }
        self.address = address;
        self.value = value;
        self.open = true;
    }

    /// `SC` has been carried out.
    #[inline]
    pub fn store(&mut self, address: u64, succeeded: bool) {
        // One without an `LR` of its address is there to fail: it ends a reservation.
        if succeeded {
            self.failed = 0;
        } else if self.open && self.address == address {
            self.failed += 1;
        }
        self.open = false;
    }

    /// Whether the hart will never get on.
    pub fn are_in_vain(&self) -> bool {
        self.failed >= MOST
    }

    /// What is the matter, and what to do about it, in a sentence to follow the hart and its place.
    pub fn explain(&self) -> String {
        format!(
            "the last {MOST} store-conditionals (SC) have all failed, though each load-reserved \
             (LR) before them read the same value, {:#x} at {:#x}: nobody gets on. What is between \
             LR and SC takes too long, or the hart loses the line there: make it 16 instructions \
             or fewer without other loads and stores, or use an AMO",
            self.value, self.address
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `MOST` attempts in vain, and then whether the hart has given up.
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
        // Somebody changed it once, or the hart itself did.
        assert!(!in_vain(|attempts, number| if number == 1 {
            attempts.load(64, 8);
        }));
        assert!(!in_vain(|attempts, number| if number == 1 {
            attempts.store(64, true);
        }));
        // Without a reservation, and elsewhere: neither counts.
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
