//! Division by an invariant number.

/// A divisor. The division is a multiplication with the reciprocal, rounded up, in fixed point
/// (Granlund and Montgomery, "Division by Invariant Integers using Multiplication", 1994).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    reciprocal: u64,
    shift: u32,
    value: u64,
}

impl Divisor {
    /// `value` is from 1 to 2^62.
    pub const fn new(value: u64) -> Divisor {
        let bits = if value <= 1 {
            0
        } else {
            64 - (value - 1).leading_zeros()
        };
        // From 2^63 to 2^64 - 1. For n below 2^63 the rounding adds less than 1/value to n/value.
        let reciprocal = (1u128 << (63 + bits)).div_ceil(value as u128) as u64;
        Divisor {
            reciprocal,
            shift: bits,
            value,
        }
    }

    pub const fn value(self) -> u64 {
        self.value
    }

    /// `n / value`, for `n` below 2^63.
    #[inline(always)]
    pub const fn divide(self, n: u64) -> u64 {
        debug_assert!(n < 1 << 63);
        // Twice n, so that the upper half of the product is used for every shift.
        (((n * 2) as u128 * self.reciprocal as u128) >> 64) as u64 >> self.shift
    }

    /// `n % value`, for `n` below 2^63.
    #[inline(always)]
    pub const fn remainder(self, n: u64) -> u64 {
        n - self.divide(n) * self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_exact(value in 1u64..1 << 62, n in 0u64..1 << 63, near in -1i64..2) {
            let divisor = Divisor::new(value);
            prop_assert_eq!(divisor.divide(n), n / value);
            prop_assert_eq!(divisor.remainder(n), n % value);
            let small = Divisor::new(value % 1_000_000 + 1);
            prop_assert_eq!(small.divide(n), n / small.value());
            // Beside a multiple, where an error would be visible.
            let multiple = (n / small.value() * small.value()).saturating_add_signed(near);
            let multiple = multiple.min((1 << 63) - 1);
            prop_assert_eq!(small.divide(multiple), multiple / small.value());
        }
    }

    #[test]
    fn powers_of_two_and_the_largest() {
        for bits in 0..62 {
            let divisor = Divisor::new(1 << bits);
            assert_eq!(divisor.divide((1 << 63) - 1), ((1 << 63) - 1) >> bits);
        }
        assert_eq!(Divisor::new(3).divide((1 << 63) - 1), ((1 << 63) - 1) / 3);
    }
}
