//! The two formats, and the cases in which the host's arithmetic is certain to give their results
//! and flags.

use super::{INEXACT, take_apart};

/// An IEEE 754 binary format.
pub trait Format {
    /// Bits of the significand, including the hidden bit.
    const PRECISION: u32;
    /// Exponent of the smallest normal number.
    const MIN_EXPONENT: i32;
    /// The bits of infinity.
    const INFINITY: u64;

    /// The sign bit.
    const SIGN: u64;
    /// The stored bits of the significand.
    const FRACTION: u64 = (1 << (Self::PRECISION - 1)) - 1;
    /// The bit that distinguishes quiet NaNs from signaling ones.
    const QUIET: u64 = 1 << (Self::PRECISION - 2);
    /// The canonical NaN.
    const NAN: u64 = Self::INFINITY | Self::QUIET;

    /// `a + b` to nearest even with its flags, if the host is certain to give them.
    fn host_add(a: u64, b: u64) -> Option<(u64, u8)>;
    /// `a * b`, likewise.
    fn host_mul(a: u64, b: u64) -> Option<(u64, u8)>;
    /// `a * b + c`, likewise.
    fn host_fused(a: u64, b: u64, c: u64) -> Option<(u64, u8)>;
    /// `a / b`, likewise.
    fn host_div(a: u64, b: u64) -> Option<(u64, u8)>;
    /// The square root of `a`, likewise.
    fn host_sqrt(a: u64) -> Option<(u64, u8)>;
}

/// binary32, in the low half of the `u64`; the high half is zero.
pub enum Single {}
/// binary64.
pub enum Double {}

impl Format for Single {
    const PRECISION: u32 = 24;
    const MIN_EXPONENT: i32 = -126;
    const INFINITY: u64 = 0x7f80_0000;
    const SIGN: u64 = 1 << 31;

    // A double holds the exact product of two singles, so narrowing shows whether rounding occurs.
    #[inline]
    fn host_add(a: u64, b: u64) -> Option<(u64, u8)> {
        let (a, b) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
        const LIMIT: f32 = 1e38;
        if !(a.abs() < LIMIT && b.abs() < LIMIT) {
            return None;
        }
        let sum = a + b;
        let b_part = sum - a;
        let error = (a - (sum - b_part)) + (b - b_part);
        Some((u64::from(sum.to_bits()), u8::from(error != 0.0)))
    }

    #[inline]
    fn host_mul(a: u64, b: u64) -> Option<(u64, u8)> {
        let (a, b) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
        narrow(f64::from(a) * f64::from(b))
    }

    #[inline]
    fn host_fused(a: u64, b: u64, c: u64) -> Option<(u64, u8)> {
        let [a, b, c] = [a, b, c].map(|x| f64::from(f32::from_bits(x as u32)));
        let product = a * b;
        let sum = product + c;
        let c_part = sum - product;
        let error = (product - (sum - c_part)) + (c - c_part);
        let (result, flags) = narrow(sum)?;
        // Double rounding is harmless unless the first result is half-way between two singles.
        const HALF_WAY: u64 = 1 << 28;
        if error == 0.0 {
            Some((result, flags))
        } else if sum.to_bits() & (2 * HALF_WAY - 1) != HALF_WAY {
            Some((result, INEXACT))
        } else {
            None
        }
    }

    #[inline]
    fn host_div(a: u64, b: u64) -> Option<(u64, u8)> {
        let (a, b) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
        let quotient = a / b;
        if !is_ordinary_single(quotient) {
            return None;
        }
        let exact = f64::from(quotient) * f64::from(b) == f64::from(a);
        Some((u64::from(quotient.to_bits()), u8::from(!exact)))
    }

    #[inline]
    fn host_sqrt(a: u64) -> Option<(u64, u8)> {
        let a = f32::from_bits(a as u32);
        let root = a.sqrt();
        if !is_ordinary_single(root) {
            return None;
        }
        let exact = f64::from(root) * f64::from(root) == f64::from(a);
        Some((u64::from(root.to_bits()), u8::from(!exact)))
    }
}

/// Finite, and well above the subnormals (so that nothing near can underflow).
fn is_ordinary_single(value: f32) -> bool {
    value.abs() > 1e-37 && value.abs() <= f32::MAX
}

fn narrow(value: f64) -> Option<(u64, u8)> {
    let result = value as f32;
    let inexact = f64::from(result) != value;
    is_ordinary_single(result).then_some((u64::from(result.to_bits()), u8::from(inexact)))
}

impl Format for Double {
    const PRECISION: u32 = 53;
    const MIN_EXPONENT: i32 = -1022;
    const INFINITY: u64 = 0x7ff0_0000_0000_0000;
    const SIGN: u64 = 1 << 63;

    // Knuth's two-sum gives the rounding error of an addition exactly, if nothing overflows.
    #[inline]
    fn host_add(a: u64, b: u64) -> Option<(u64, u8)> {
        let (a, b) = (f64::from_bits(a), f64::from_bits(b));
        const LIMIT: f64 = 1e307;
        if !(a.abs() < LIMIT && b.abs() < LIMIT) {
            return None;
        }
        let sum = a + b;
        let b_part = sum - a;
        let error = (a - (sum - b_part)) + (b - b_part);
        Some((sum.to_bits(), u8::from(error != 0.0)))
    }

    // Products, quotients and roots: the result is exact if and only if multiplying back
    // gives the same significant bits, since the two values are known to be close.
    #[inline]
    fn host_mul(a: u64, b: u64) -> Option<(u64, u8)> {
        let product = f64::from_bits(a) * f64::from_bits(b);
        if !is_ordinary_double(product) {
            return None;
        }
        let exact = significant_bits(a, b) == significant(product.to_bits()).into();
        Some((product.to_bits(), u8::from(!exact)))
    }

    #[inline]
    fn host_fused(_: u64, _: u64, _: u64) -> Option<(u64, u8)> {
        None
    }

    #[inline]
    fn host_div(a: u64, b: u64) -> Option<(u64, u8)> {
        let quotient = f64::from_bits(a) / f64::from_bits(b);
        if !is_ordinary_double(quotient) {
            return None;
        }
        let exact = significant_bits(quotient.to_bits(), b) == significant(a).into();
        Some((quotient.to_bits(), u8::from(!exact)))
    }

    #[inline]
    fn host_sqrt(a: u64) -> Option<(u64, u8)> {
        let root = f64::from_bits(a).sqrt();
        if !is_ordinary_double(root) {
            return None;
        }
        let root = root.to_bits();
        let exact = significant_bits(root, root) == significant(a).into();
        Some((root, u8::from(!exact)))
    }
}

/// Finite, and well above the subnormals.
fn is_ordinary_double(value: f64) -> bool {
    value.abs() > 1e-300 && value.abs() <= f64::MAX
}

/// The significand of a nonzero number, without trailing zeros.
fn significant(bits: u64) -> u64 {
    let significand = take_apart::<Double>(bits).significand;
    significand >> (significand.trailing_zeros() & 63)
}

/// The significand of a product, without trailing zeros.
fn significant_bits(a: u64, b: u64) -> u128 {
    u128::from(significant(a)) * u128::from(significant(b))
}
