//! Logarithm and exponential functions with the same results on every host: they use only
//! operations that IEEE 754 defines exactly, whereas those of C libraries differ in the last bit.
//! They have no branches, so that a compiler can vectorize them. Their error is some 2^-50, far
//! below the needs of random numbers.

use std::f64::consts::{LN_2, LOG2_E};

const MANTISSA_BITS: u32 = 52;
/// Adding this to a number leaves its integral part in the low bits.
const ROUND: f64 = (1u64 << MANTISSA_BITS) as f64 * 1.5;
/// ln 2 in two parts: the first has few bits, so that small multiples of it are exact.
const LN_2_HIGH: f64 = f64::from_bits(LN_2.to_bits() & !0xffff_ffff);
const LN_2_LOW: f64 = 4.749_325_039_031_672_6e-7;

/// The natural logarithm of a normal number above 0.
#[inline]
pub fn ln(x: f64) -> f64 {
    // x = 2^exponent * mantissa, with the mantissa from sqrt(1/2) to sqrt(2).
    let bits = x.to_bits();
    let exponent =
        (bits.wrapping_sub(std::f64::consts::FRAC_1_SQRT_2.to_bits()) as i64) >> MANTISSA_BITS;
    let mantissa = f64::from_bits(bits.wrapping_sub((exponent as u64) << MANTISSA_BITS));
    let exponent = f64::from_bits(ROUND.to_bits().wrapping_add(exponent as u64)) - ROUND;
    // ln m = 2 artanh f = 2 (f + f^3 / 3 + f^5 / 5 + ...), with f^2 below 0.0295.
    let f = (mantissa - 1.0) / (mantissa + 1.0);
    let square = f * f;
    let mut series = 1.0 / 19.0;
    for odd in [17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        series = series * square + 1.0 / odd;
    }
    exponent * LN_2_HIGH + (exponent * LN_2_LOW + 2.0 * f * series)
}

/// The coefficients of the exponential's series: the remainder is below 0.35^13 / 13!, or 2^-52.
const INVERSE_FACTORIALS: [f64; 13] = {
    let mut inverses = [1.0; 13];
    let mut factorial = 1.0;
    let mut term = 1;
    while term < 13 {
        factorial *= term as f64;
        inverses[term] = 1.0 / factorial;
        term += 1;
    }
    inverses
};

/// The exponential of a number from -700 to 700.
#[inline]
pub fn exp(x: f64) -> f64 {
    // e^x = 2^whole * e^rest, with the rest from -ln 2 / 2 to ln 2 / 2.
    let rounded = x * LOG2_E + ROUND;
    let whole = rounded - ROUND;
    let rest = (x - whole * LN_2_HIGH) - whole * LN_2_LOW;
    let mut series = INVERSE_FACTORIALS[12];
    for term in (0..12).rev() {
        series = series * rest + INVERSE_FACTORIALS[term];
    }
    let power = rounded.to_bits() << MANTISSA_BITS;
    f64::from_bits(series.to_bits().wrapping_add(power))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(ours: f64, theirs: f64) -> bool {
        (ours - theirs).abs() <= 4e-15 * theirs.abs().max(1e-2)
    }

    #[test]
    fn known_values() {
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(exp(0.0), 1.0);
        assert!(near(ln(2.0), LN_2));
        assert!(near(exp(1.0), std::f64::consts::E));
        assert!(near(LN_2_HIGH + LN_2_LOW, LN_2));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn logarithms(power in -300.0f64..300.0, near_one in 0.5f64..2.0) {
            let x = 10f64.powf(power);
            prop_assert!(near(ln(x), x.ln()), "{x}: {} {}", ln(x), x.ln());
            prop_assert!(near(ln(near_one), near_one.ln()), "{near_one}");
        }

        #[test]
        fn exponentials(x in -700.0f64..700.0, small in -1.0f64..1.0) {
            prop_assert!((exp(x) / x.exp() - 1.0).abs() < 1e-13, "{x}: {} {}", exp(x), x.exp());
            prop_assert!(near(exp(small), small.exp()), "{small}");
        }
    }
}
