//! IEEE 754 arithmetic as RISC-V has it: every rounding mode, every exception flag, one NaN.
//!
//! Values travel as bits in a `u64`. Each operation has a plain path that is right for all
//! inputs: take the operands apart into integers, compute exactly (or with a sticky last bit),
//! and round once, in `round`. Add, multiply, divide and square root try the host's
//! arithmetic first, where it is certain to give both the same result and the flags. The
//! plain paths are kept out of line, so that they cost their callers nothing.
//! RISC-V Unprivileged ISA, chapters "F" and "D" Extension.

/// `fflags`: the operation has no answer.
pub const INVALID: u8 = 16;
/// `fflags`: a finite number was divided by zero.
pub const DIVIDE_BY_ZERO: u8 = 8;
/// `fflags`: the rounded result is too large.
pub const OVERFLOW: u8 = 4;
/// `fflags`: the result is tiny after rounding, and inexact.
pub const UNDERFLOW: u8 = 2;
/// `fflags`: the result was rounded.
pub const INEXACT: u8 = 1;

/// Rounding mode: to nearest, ties to even.
pub const NEAREST_EVEN: u8 = 0;
/// Rounding mode: towards zero.
pub const TOWARDS_ZERO: u8 = 1;
/// Rounding mode: down.
pub const DOWN: u8 = 2;
/// Rounding mode: up.
pub const UP: u8 = 3;
/// Rounding mode: to nearest, ties away from zero.
pub const NEAREST_AWAY: u8 = 4;

/// An IEEE 754 binary format.
pub trait Format {
    /// Bits of significand, the hidden one included.
    const PRECISION: u32;
    /// Exponent of the smallest normal number.
    const MIN_EXPONENT: i32;
    /// The bits of infinity.
    const INFINITY: u64;

    /// The sign bit.
    const SIGN: u64;
    /// The stored bits of the significand.
    const FRACTION: u64 = (1 << (Self::PRECISION - 1)) - 1;
    /// The bit that tells quiet NaNs from signaling ones.
    const QUIET: u64 = 1 << (Self::PRECISION - 2);
    /// The NaN that every operation gives.
    const NAN: u64 = Self::INFINITY | Self::QUIET;

    /// `a + b` to nearest even with its flags, if the host is certain to know them.
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

    // A double holds the exact product of two singles, and tells whether narrowing rounds.
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
        // Rounding twice is harmless unless the first lands half-way between two singles.
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
    // gives the same significant bits, since they are known to be close.
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

/// The significand without trailing zeros, of a number that is not zero.
fn significant(bits: u64) -> u64 {
    let significand = take_apart::<Double>(bits).significand;
    significand >> (significand.trailing_zeros() & 63)
}

/// The same of a product.
fn significant_bits(a: u64, b: u64) -> u128 {
    u128::from(significant(a)) * u128::from(significant(b))
}

/// A finite number: `significand * 2^exponent`, negated if `negative`.
#[derive(Clone, Copy)]
struct Number<T> {
    negative: bool,
    exponent: i32,
    significand: T,
}

#[inline]
fn take_apart<F: Format>(bits: u64) -> Number<u64> {
    let fraction = bits & F::FRACTION;
    let biased = ((bits & F::INFINITY) >> (F::PRECISION - 1)) as i32;
    let least = F::MIN_EXPONENT - (F::PRECISION as i32 - 1);
    let negative = bits & F::SIGN != 0;
    match biased {
        0 => Number {
            negative,
            exponent: least,
            significand: fraction,
        },
        _ => {
            let significand = fraction | (F::FRACTION + 1);
            Number {
                negative,
                exponent: least + biased - 1,
                significand,
            }
        }
    }
}

fn is_nan<F: Format>(bits: u64) -> bool {
    bits & !F::SIGN > F::INFINITY
}

fn is_signaling<F: Format>(bits: u64) -> bool {
    is_nan::<F>(bits) && bits & F::QUIET == 0
}

fn is_infinite<F: Format>(bits: u64) -> bool {
    bits & !F::SIGN == F::INFINITY
}

fn is_zero<F: Format>(bits: u64) -> bool {
    bits & !F::SIGN == 0
}

/// NaN or infinity.
fn is_special<F: Format>(bits: u64) -> bool {
    bits & F::INFINITY == F::INFINITY
}

fn sign<F: Format>(negative: bool) -> u64 {
    if negative { F::SIGN } else { 0 }
}

/// The result of an operation of which some operand is a NaN.
fn nan<F: Format>(operands: &[u64], flags: &mut u8) -> u64 {
    if operands.iter().any(|&x| is_signaling::<F>(x)) {
        *flags |= INVALID;
    }
    F::NAN
}

fn invalid<F: Format>(flags: &mut u8) -> u64 {
    *flags |= INVALID;
    F::NAN
}

/// What rounding does to the kept bits, given what was cut off compared with half a unit.
#[inline]
fn rounds_away(rounding: u8, negative: bool, odd: bool, rest: u128, half: u128) -> bool {
    match rounding {
        TOWARDS_ZERO => false,
        DOWN => negative && rest != 0,
        UP => !negative && rest != 0,
        NEAREST_AWAY => rest >= half,
        _ => rest > half || rest == half && odd,
    }
}

/// Cuts the low `drop` bits off and rounds; the second is whether anything was lost.
#[inline]
fn round_off(number: Number<u128>, drop: u32, rounding: u8) -> (u64, bool) {
    let Number {
        negative,
        significand,
        ..
    } = number;
    if drop == 0 {
        return (significand as u64, false);
    }
    // Beyond 126 bits everything is cut off, and is less than half: significands stay below
    // 2^126, so cutting 127 says the same.
    let drop = drop.min(127);
    let kept = significand >> drop;
    let rest = significand & ((1 << drop) - 1);
    let half = 1 << (drop - 1);
    let away = rounds_away(rounding, negative, kept & 1 != 0, rest, half);
    (kept as u64 + u64::from(away), rest != 0)
}

/// The number in the format, rounded. The lowest bit of the significand may be sticky (stand
/// for any bits below it), if the significand is at least three bits longer than the
/// precision. The significand must not be zero, and must be below 2^126.
#[inline]
fn round<F: Format>(number: Number<u128>, rounding: u8, flags: &mut u8) -> u64 {
    let digits = F::PRECISION as i32 - 1;
    let length = 127 - number.significand.leading_zeros() as i32;
    let exponent = number.exponent + length; // of the leading bit
    let target = exponent.max(F::MIN_EXPONENT); // same, but subnormals share the least one
    let drop = target - digits - number.exponent;
    let (kept, inexact) = if drop <= 0 {
        ((number.significand as u64) << -drop, false)
    } else {
        round_off(number, drop as u32, rounding)
    };
    if inexact {
        *flags |= INEXACT;
        // Tiny: below the least normal number, even when rounded as if exponents had no end.
        if exponent < F::MIN_EXPONENT {
            let carries = exponent == F::MIN_EXPONENT - 1
                && round_off(number, drop as u32 - 1, rounding).0 > 2 * F::FRACTION + 1;
            if !carries {
                *flags |= UNDERFLOW;
            }
        }
    }
    let negative = sign::<F>(number.negative);
    // The hidden bit, if there is one, adds 1 to the exponent; a carry out of rounding too.
    let field = (target - F::MIN_EXPONENT) as u64;
    if field >= F::INFINITY >> digits {
        return overflow::<F>(number.negative, rounding, flags);
    }
    let magnitude = (field << digits) + kept;
    if magnitude >= F::INFINITY {
        return overflow::<F>(number.negative, rounding, flags);
    }
    negative | magnitude
}

#[cold]
fn overflow<F: Format>(negative: bool, rounding: u8, flags: &mut u8) -> u64 {
    *flags |= OVERFLOW | INEXACT;
    let to_largest = match rounding {
        TOWARDS_ZERO => true,
        DOWN => !negative,
        UP => negative,
        _ => false,
    };
    sign::<F>(negative) | (F::INFINITY - u64::from(to_largest))
}

/// Moves the leading bit to position 124, so that two such numbers can be added.
#[inline]
fn normalize(number: Number<u128>) -> Number<u128> {
    let shift = number.significand.leading_zeros() - 3;
    Number {
        exponent: number.exponent - shift as i32,
        significand: number.significand << shift,
        ..number
    }
}

/// Shifts right; the last bit says whether any bit was lost.
#[inline]
fn shift_sticky(significand: u128, distance: u32) -> u128 {
    if distance >= 128 {
        return u128::from(significand != 0);
    }
    let shifted = significand >> distance;
    shifted | u128::from(shifted << distance != significand)
}

/// Adds two numbers of at most 106 bits that are not zero, and rounds once.
///
/// Bits are lost to the sticky one only when the exponents differ by 20 or more; then at most
/// one leading bit can cancel, and far more remain than rounding needs.
#[inline]
fn add_numbers<F: Format>(x: Number<u128>, y: Number<u128>, rounding: u8, flags: &mut u8) -> u64 {
    let (x, y) = (normalize(x), normalize(y));
    let (large, small) = if x.exponent >= y.exponent {
        (x, y)
    } else {
        (y, x)
    };
    let addend = shift_sticky(small.significand, (large.exponent - small.exponent) as u32);
    let (negative, significand) = if large.negative == small.negative {
        (large.negative, large.significand + addend)
    } else if large.significand >= addend {
        (large.negative, large.significand - addend)
    } else {
        (small.negative, addend - large.significand)
    };
    if significand == 0 {
        return sign::<F>(rounding == DOWN);
    }
    round::<F>(
        Number {
            negative,
            exponent: large.exponent,
            significand,
        },
        rounding,
        flags,
    )
}

fn widen(number: Number<u64>) -> Number<u128> {
    Number {
        negative: number.negative,
        exponent: number.exponent,
        significand: u128::from(number.significand),
    }
}

/// `a + b`.
#[inline]
pub fn add<F: Format>(a: u64, b: u64, rounding: u8, flags: &mut u8) -> u64 {
    if rounding == NEAREST_EVEN
        && let Some((result, raised)) = F::host_add(a, b)
    {
        *flags |= raised;
        return result;
    }
    soft_add::<F>(a, b, rounding, flags)
}

/// `a - b`.
#[inline]
pub fn sub<F: Format>(a: u64, b: u64, rounding: u8, flags: &mut u8) -> u64 {
    add::<F>(a, b ^ F::SIGN, rounding, flags)
}

#[inline(never)]
pub(crate) fn soft_add<F: Format>(a: u64, b: u64, rounding: u8, flags: &mut u8) -> u64 {
    if is_special::<F>(a) || is_special::<F>(b) {
        return match () {
            () if is_nan::<F>(a) || is_nan::<F>(b) => nan::<F>(&[a, b], flags),
            () if is_infinite::<F>(a) && is_infinite::<F>(b) && a != b => invalid::<F>(flags),
            () if is_infinite::<F>(a) => a,
            () => b,
        };
    }
    match (is_zero::<F>(a), is_zero::<F>(b)) {
        (true, true) if a == b => a,
        (true, true) => sign::<F>(rounding == DOWN),
        (true, false) => b,
        (false, true) => a,
        (false, false) => {
            let (x, y) = (take_apart::<F>(a), take_apart::<F>(b));
            add_numbers::<F>(widen(x), widen(y), rounding, flags)
        }
    }
}

fn multiply(x: Number<u64>, y: Number<u64>) -> Number<u128> {
    Number {
        negative: x.negative != y.negative,
        exponent: x.exponent + y.exponent,
        significand: u128::from(x.significand) * u128::from(y.significand),
    }
}

/// `a * b`.
#[inline]
pub fn mul<F: Format>(a: u64, b: u64, rounding: u8, flags: &mut u8) -> u64 {
    if rounding == NEAREST_EVEN
        && let Some((result, raised)) = F::host_mul(a, b)
    {
        *flags |= raised;
        return result;
    }
    soft_mul::<F>(a, b, rounding, flags)
}

#[inline(never)]
pub(crate) fn soft_mul<F: Format>(a: u64, b: u64, rounding: u8, flags: &mut u8) -> u64 {
    let negative = (a ^ b) & F::SIGN;
    if is_special::<F>(a) || is_special::<F>(b) {
        return match () {
            () if is_nan::<F>(a) || is_nan::<F>(b) => nan::<F>(&[a, b], flags),
            () if is_zero::<F>(a) || is_zero::<F>(b) => invalid::<F>(flags),
            () => negative | F::INFINITY,
        };
    }
    if is_zero::<F>(a) || is_zero::<F>(b) {
        return negative;
    }
    round::<F>(
        multiply(take_apart::<F>(a), take_apart::<F>(b)),
        rounding,
        flags,
    )
}

/// `a * b + c`, rounded once.
#[inline]
pub fn fused<F: Format>(a: u64, b: u64, c: u64, rounding: u8, flags: &mut u8) -> u64 {
    if rounding == NEAREST_EVEN
        && let Some((result, raised)) = F::host_fused(a, b, c)
    {
        *flags |= raised;
        return result;
    }
    soft_fused::<F>(a, b, c, rounding, flags)
}

#[inline(never)]
pub(crate) fn soft_fused<F: Format>(a: u64, b: u64, c: u64, rounding: u8, flags: &mut u8) -> u64 {
    let negative = (a ^ b) & F::SIGN;
    if is_special::<F>(a) || is_special::<F>(b) || is_special::<F>(c) {
        let no_product =
            is_infinite::<F>(a) && is_zero::<F>(b) || is_zero::<F>(a) && is_infinite::<F>(b);
        let infinite_product = is_infinite::<F>(a) || is_infinite::<F>(b);
        return match () {
            () if no_product => invalid::<F>(flags), // even if `c` is a quiet NaN
            () if [a, b, c].into_iter().any(is_nan::<F>) => nan::<F>(&[a, b, c], flags),
            () if !infinite_product => c,
            () if is_infinite::<F>(c) && negative != c & F::SIGN => invalid::<F>(flags),
            () => negative | F::INFINITY,
        };
    }
    if is_zero::<F>(a) || is_zero::<F>(b) {
        return match is_zero::<F>(c) {
            false => c,
            true if negative == c => c,
            true => sign::<F>(rounding == DOWN),
        };
    }
    let product = multiply(take_apart::<F>(a), take_apart::<F>(b));
    if is_zero::<F>(c) {
        return round::<F>(product, rounding, flags);
    }
    add_numbers::<F>(product, widen(take_apart::<F>(c)), rounding, flags)
}

/// `a / b`.
#[inline]
pub fn div<F: Format>(a: u64, b: u64, rounding: u8, flags: &mut u8) -> u64 {
    if rounding == NEAREST_EVEN
        && let Some((result, raised)) = F::host_div(a, b)
    {
        *flags |= raised;
        return result;
    }
    soft_div::<F>(a, b, rounding, flags)
}

#[inline(never)]
pub(crate) fn soft_div<F: Format>(a: u64, b: u64, rounding: u8, flags: &mut u8) -> u64 {
    let negative = (a ^ b) & F::SIGN;
    if is_special::<F>(a) || is_special::<F>(b) {
        return match () {
            () if is_nan::<F>(a) || is_nan::<F>(b) => nan::<F>(&[a, b], flags),
            () if is_infinite::<F>(a) && is_infinite::<F>(b) => invalid::<F>(flags),
            () if is_infinite::<F>(a) => negative | F::INFINITY,
            () => negative,
        };
    }
    match (is_zero::<F>(a), is_zero::<F>(b)) {
        (true, true) => return invalid::<F>(flags),
        (true, false) => return negative,
        (false, true) => {
            *flags |= DIVIDE_BY_ZERO;
            return negative | F::INFINITY;
        }
        (false, false) => {}
    }
    // The dividend has 125 bits and the divisor at most 53: the quotient has at least 72.
    let (x, y) = (normalize(widen(take_apart::<F>(a))), take_apart::<F>(b));
    let divisor = u128::from(y.significand);
    let quotient = x.significand / divisor;
    let sticky = u128::from(quotient * divisor != x.significand);
    let quotient = Number {
        negative: x.negative != y.negative,
        exponent: x.exponent - y.exponent,
        significand: quotient | sticky,
    };
    round::<F>(quotient, rounding, flags)
}

/// The square root of `a`.
#[inline]
pub fn sqrt<F: Format>(a: u64, rounding: u8, flags: &mut u8) -> u64 {
    if rounding == NEAREST_EVEN
        && let Some((result, raised)) = F::host_sqrt(a)
    {
        *flags |= raised;
        return result;
    }
    soft_sqrt::<F>(a, rounding, flags)
}

#[inline(never)]
pub(crate) fn soft_sqrt<F: Format>(a: u64, rounding: u8, flags: &mut u8) -> u64 {
    match () {
        () if is_nan::<F>(a) => return nan::<F>(&[a], flags),
        () if is_zero::<F>(a) => return a,
        () if a & F::SIGN != 0 => return invalid::<F>(flags),
        () if is_infinite::<F>(a) => return a,
        () => {}
    }
    // An even exponent halves; a radicand of at least 124 bits has a root of 62.
    let x = normalize(widen(take_apart::<F>(a)));
    let odd = x.exponent & 1;
    let radicand = x.significand >> odd; // its low bits are zeros
    let root = radicand.isqrt();
    let sticky = u128::from(root * root != radicand);
    let exponent = (x.exponent + odd) / 2 - 1; // one less, to make room for the sticky bit
    let significand = root << 1 | sticky;
    round::<F>(
        Number {
            negative: false,
            exponent,
            significand,
        },
        rounding,
        flags,
    )
}

/// The smaller of two numbers; -0 is below +0, and a NaN counts as missing.
pub fn min<F: Format>(a: u64, b: u64, flags: &mut u8) -> u64 {
    choose::<F>(a, b, flags, key::<F>(a) <= key::<F>(b))
}

/// The larger of two numbers; +0 is above -0, and a NaN counts as missing.
pub fn max<F: Format>(a: u64, b: u64, flags: &mut u8) -> u64 {
    choose::<F>(a, b, flags, key::<F>(a) >= key::<F>(b))
}

fn choose<F: Format>(a: u64, b: u64, flags: &mut u8, first: bool) -> u64 {
    if is_signaling::<F>(a) || is_signaling::<F>(b) {
        *flags |= INVALID;
    }
    match (is_nan::<F>(a), is_nan::<F>(b)) {
        (true, true) => F::NAN,
        (true, false) => b,
        (false, true) => a,
        (false, false) if first => a,
        (false, false) => b,
    }
}

/// An integer in the order of the numbers (with -0 just below +0).
fn key<F: Format>(bits: u64) -> i64 {
    let magnitude = (bits & !F::SIGN) as i64;
    if bits & F::SIGN != 0 {
        !magnitude
    } else {
        magnitude
    }
}

/// `a == b`; only signaling NaNs are invalid.
pub fn equal<F: Format>(a: u64, b: u64, flags: &mut u8) -> bool {
    if is_nan::<F>(a) || is_nan::<F>(b) {
        nan::<F>(&[a, b], flags);
        return false;
    }
    a == b || is_zero::<F>(a) && is_zero::<F>(b)
}

/// `a < b`; any NaN is invalid.
pub fn less<F: Format>(a: u64, b: u64, flags: &mut u8) -> bool {
    if is_nan::<F>(a) || is_nan::<F>(b) {
        *flags |= INVALID;
        return false;
    }
    key::<F>(a) < key::<F>(b) && !(is_zero::<F>(a) && is_zero::<F>(b))
}

/// `a <= b`; any NaN is invalid.
pub fn less_or_equal<F: Format>(a: u64, b: u64, flags: &mut u8) -> bool {
    if is_nan::<F>(a) || is_nan::<F>(b) {
        *flags |= INVALID;
        return false;
    }
    key::<F>(a) <= key::<F>(b) || is_zero::<F>(a) && is_zero::<F>(b)
}

/// The kind of number `a` is, as `fclass` tells it: one bit of ten, from negative infinity (0)
/// over zeros (3 and 4) to positive infinity (7), then signaling (8) and quiet NaN (9).
pub fn class<F: Format>(a: u64) -> u64 {
    let negative = a & F::SIGN != 0;
    let bit = match () {
        () if is_signaling::<F>(a) => 8,
        () if is_nan::<F>(a) => 9,
        () => {
            let above_zero = match () {
                () if is_infinite::<F>(a) => 3,
                () if is_zero::<F>(a) => 0,
                () if a & F::INFINITY == 0 => 1,
                () => 2,
            };
            if negative {
                3 - above_zero
            } else {
                4 + above_zero
            }
        }
    };
    1 << bit
}

/// The number in another format.
#[inline(never)]
pub fn convert<From: Format, To: Format>(a: u64, rounding: u8, flags: &mut u8) -> u64 {
    let negative = a & From::SIGN != 0;
    match () {
        () if is_nan::<From>(a) => {
            nan::<From>(&[a], flags);
            To::NAN
        }
        () if is_infinite::<From>(a) => sign::<To>(negative) | To::INFINITY,
        () if is_zero::<From>(a) => sign::<To>(negative),
        () => round::<To>(widen(take_apart::<From>(a)), rounding, flags),
    }
}

/// The unsigned integer as a number.
pub fn from_u64<F: Format>(a: u64, rounding: u8, flags: &mut u8) -> u64 {
    from_parts::<F>(false, a, rounding, flags)
}

/// The signed integer as a number.
pub fn from_i64<F: Format>(a: i64, rounding: u8, flags: &mut u8) -> u64 {
    from_parts::<F>(a < 0, a.unsigned_abs(), rounding, flags)
}

#[inline(never)]
fn from_parts<F: Format>(negative: bool, magnitude: u64, rounding: u8, flags: &mut u8) -> u64 {
    if magnitude == 0 {
        return 0;
    }
    let significand = u128::from(magnitude);
    round::<F>(
        Number {
            negative,
            exponent: 0,
            significand,
        },
        rounding,
        flags,
    )
}

/// The number as an integer from `least` to `greatest`: what lies outside is invalid and gives
/// the nearer of the two, and a NaN the greatest.
#[inline(never)]
fn to_integer<F: Format>(
    a: u64,
    (least, greatest): (i128, i128),
    rounding: u8,
    flags: &mut u8,
) -> i128 {
    let number = take_apart::<F>(a);
    let bound = if number.negative { least } else { greatest };
    if is_nan::<F>(a) {
        *flags |= INVALID;
        return greatest;
    }
    // 64 bits or more to the left of 53: out of range, infinities included.
    if number.exponent >= 64 {
        *flags |= INVALID;
        return bound;
    }
    let (magnitude, inexact) = if number.exponent >= 0 {
        (i128::from(number.significand) << number.exponent, false)
    } else {
        let (kept, inexact) = round_off(widen(number), number.exponent.unsigned_abs(), rounding);
        (i128::from(kept), inexact)
    };
    let value = if number.negative {
        -magnitude
    } else {
        magnitude
    };
    if value < least || value > greatest {
        *flags |= INVALID;
        return bound;
    }
    *flags |= u8::from(inexact);
    value
}

/// The number as an `i32`.
pub fn to_i32<F: Format>(a: u64, rounding: u8, flags: &mut u8) -> i32 {
    to_integer::<F>(a, (i32::MIN.into(), i32::MAX.into()), rounding, flags) as i32
}

/// The number as a `u32`.
pub fn to_u32<F: Format>(a: u64, rounding: u8, flags: &mut u8) -> u32 {
    to_integer::<F>(a, (0, u32::MAX.into()), rounding, flags) as u32
}

/// The number as an `i64`.
pub fn to_i64<F: Format>(a: u64, rounding: u8, flags: &mut u8) -> i64 {
    to_integer::<F>(a, (i64::MIN.into(), i64::MAX.into()), rounding, flags) as i64
}

/// The number as a `u64`.
pub fn to_u64<F: Format>(a: u64, rounding: u8, flags: &mut u8) -> u64 {
    to_integer::<F>(a, (0, u64::MAX.into()), rounding, flags) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::hint::black_box;

    use super::*;

    /// Bits of a format with `digits` stored digits of `width` bits, biased to the exponents
    /// and significands where rounding, overflow and underflow happen.
    fn bits(digits: u32, width: u32) -> impl Strategy<Value = u64> {
        let greatest = (1_u64 << (width - 1 - digits)) - 1;
        let exponent = prop_oneof![
            0..=greatest,
            0..=u64::from(digits) + 3,
            greatest - 3..=greatest,
            greatest / 2 - 60..=greatest / 2 + 60,
        ];
        let few = (0..digits, 0_u64..3).prop_map(|(at, less)| (1_u64 << at).wrapping_sub(less));
        let many = (0..digits).prop_map(|at| u64::MAX << at);
        let fraction = prop_oneof![any::<u64>(), few, many];
        (any::<bool>(), exponent, fraction).prop_map(move |(negative, exponent, fraction)| {
            u64::from(negative) << (width - 1) | exponent << digits | fraction & ((1 << digits) - 1)
        })
    }

    fn single() -> impl Strategy<Value = u64> {
        bits(23, 32)
    }

    fn double() -> impl Strategy<Value = u64> {
        bits(52, 64)
    }

    /// What the host computes, but with the one NaN. `value` is hidden from the compiler, which may
    /// take the root of a negative number for a number (LLVM 22, if a whole crate is one unit).
    fn of_host_s(value: f32) -> u64 {
        let value = black_box(value);
        if value.is_nan() {
            Single::NAN
        } else {
            value.to_bits().into()
        }
    }

    fn of_host_d(value: f64) -> u64 {
        let value = black_box(value);
        if value.is_nan() {
            Double::NAN
        } else {
            value.to_bits()
        }
    }

    fn s(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
    }

    fn d(bits: u64) -> f64 {
        f64::from_bits(bits)
    }

    fn with_flags<T>(operation: impl FnOnce(&mut u8) -> T) -> (T, u8) {
        let mut flags = 0;
        let result = operation(&mut flags);
        (result, flags)
    }

    /// The plain path gives what the host gives; and the quick path, where there is one, gives
    /// what the plain path gives, flags included.
    macro_rules! agree {
        ($format:ty, $host:expr, $quick:expr, $soft:ident($($operand:expr),*)) => {
            let soft = with_flags(|flags| $soft::<$format>($($operand,)* NEAREST_EVEN, flags));
            prop_assert_eq!(soft.0, $host);
            if let Some(quick) = $quick {
                prop_assert_eq!(quick, soft);
            }
        };
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn singles_agree_with_the_host(a in single(), b in single(), c in single()) {
            agree!(Single, of_host_s(s(a) + s(b)), Single::host_add(a, b), soft_add(a, b));
            agree!(Single, of_host_s(s(a) * s(b)), Single::host_mul(a, b), soft_mul(a, b));
            agree!(Single, of_host_s(s(a) / s(b)), Single::host_div(a, b), soft_div(a, b));
            agree!(Single, of_host_s(s(a).sqrt()), Single::host_sqrt(a), soft_sqrt(a));
            let fused = of_host_s(s(a).mul_add(s(b), s(c)));
            agree!(Single, fused, Single::host_fused(a, b, c), soft_fused(a, b, c));
            let near = of_host_s(-(s(a) * s(b))) ^ c & 3;
            let fused = of_host_s(s(a).mul_add(s(b), s(near)));
            agree!(Single, fused, Single::host_fused(a, b, near), soft_fused(a, b, near));
        }

        #[test]
        fn doubles_agree_with_the_host(a in double(), b in double(), c in double()) {
            agree!(Double, of_host_d(d(a) + d(b)), Double::host_add(a, b), soft_add(a, b));
            agree!(Double, of_host_d(d(a) * d(b)), Double::host_mul(a, b), soft_mul(a, b));
            agree!(Double, of_host_d(d(a) / d(b)), Double::host_div(a, b), soft_div(a, b));
            agree!(Double, of_host_d(d(a).sqrt()), Double::host_sqrt(a), soft_sqrt(a));
            let fused = of_host_d(d(a).mul_add(d(b), d(c)));
            agree!(Double, fused, Double::host_fused(a, b, c), soft_fused(a, b, c));
            let near = of_host_d(-(d(a) * d(b))) ^ c & 3;
            let fused = of_host_d(d(a).mul_add(d(b), d(near)));
            agree!(Double, fused, Double::host_fused(a, b, near), soft_fused(a, b, near));
        }

        #[test]
        fn conversions_agree_with_the_host(a in double(), b in single(), n in any::<u64>(), by in 0..64) {
            let n = n >> by;
            let flags = &mut 0;
            prop_assert_eq!(convert::<Double, Single>(a, NEAREST_EVEN, flags), of_host_s(d(a) as f32));
            prop_assert_eq!(convert::<Single, Double>(b, NEAREST_EVEN, flags), of_host_d(s(b).into()));
            prop_assert_eq!(from_u64::<Double>(n, NEAREST_EVEN, flags), of_host_d(n as f64));
            prop_assert_eq!(from_u64::<Single>(n, NEAREST_EVEN, flags), of_host_s(n as f32));
            prop_assert_eq!(from_i64::<Double>(n as i64, NEAREST_EVEN, flags), of_host_d(n as i64 as f64));
            prop_assert_eq!(from_i64::<Single>(n as i64, NEAREST_EVEN, flags), of_host_s(n as i64 as f32));
            // The host's casts truncate and saturate too, but take a NaN for 0.
            if !d(a).is_nan() {
                prop_assert_eq!(to_i32::<Double>(a, TOWARDS_ZERO, flags), d(a) as i32);
                prop_assert_eq!(to_u32::<Double>(a, TOWARDS_ZERO, flags), d(a) as u32);
                prop_assert_eq!(to_i64::<Double>(a, TOWARDS_ZERO, flags), d(a) as i64);
                prop_assert_eq!(to_u64::<Double>(a, TOWARDS_ZERO, flags), d(a) as u64);
                prop_assert_eq!(to_i64::<Double>(a, NEAREST_EVEN, flags), d(a).round_ties_even() as i64);
                prop_assert_eq!(to_i64::<Double>(a, NEAREST_AWAY, flags), d(a).round() as i64);
                prop_assert_eq!(to_i64::<Double>(a, DOWN, flags), d(a).floor() as i64);
                prop_assert_eq!(to_i64::<Double>(a, UP, flags), d(a).ceil() as i64);
            }
        }

        #[test]
        fn comparisons_agree_with_the_host(a in double(), b in double()) {
            let flags = &mut 0;
            prop_assert_eq!(equal::<Double>(a, b, flags), d(a) == d(b));
            prop_assert_eq!(less::<Double>(a, b, flags), d(a) < d(b));
            prop_assert_eq!(less_or_equal::<Double>(a, b, flags), d(a) <= d(b));
            if d(a) != d(b) {
                prop_assert_eq!(min::<Double>(a, b, flags), of_host_d(d(a).min(d(b))));
                prop_assert_eq!(max::<Double>(a, b, flags), of_host_d(d(a).max(d(b))));
            }
        }

        /// Rounding down and up bracket the exact result: they differ by one unit if it is
        /// inexact, and towards zero is one of them.
        #[test]
        fn directed_rounding_brackets(a in double(), b in double()) {
            for soft in [soft_add::<Double>, soft_mul::<Double>, soft_div::<Double>] {
                let [zero, down, up] = [TOWARDS_ZERO, DOWN, UP]
                    .map(|mode| with_flags(|flags| soft(a, b, mode, flags)));
                if d(up.0).is_nan() || d(up.0) == 0.0 || d(down.0) == 0.0 {
                    continue;
                }
                let inexact = up.1 & INEXACT;
                prop_assert_eq!(key::<Double>(up.0) - key::<Double>(down.0), inexact.into());
                prop_assert_eq!(zero.0, if d(up.0) > 0.0 { down.0 } else { up.0 });
            }
        }
    }

    const ONE_D: u64 = 0x3ff0_0000_0000_0000;
    const MIN_NORMAL_D: u64 = 0x0010_0000_0000_0000;

    #[test]
    fn underflow_is_found_after_rounding() {
        let below_one = ONE_D - 1;
        let mul = |mode| with_flags(|flags| mul::<Double>(MIN_NORMAL_D, below_one, mode, flags));
        // 2^-1022 * (1 - 2^-53) has 53 digits below 2^-1022: it is tiny whatever the mode.
        assert_eq!(mul(NEAREST_EVEN), (MIN_NORMAL_D, UNDERFLOW | INEXACT));
        assert_eq!(mul(TOWARDS_ZERO), (MIN_NORMAL_D - 1, UNDERFLOW | INEXACT));
        // 2^-1022 * (1 + 2^-52)(1 - 2^-52) needs 104 digits. Where 53 of them round to 2^-1022,
        // the result is not tiny, although the exact product is.
        let (x, y) = (ONE_D + 1, MIN_NORMAL_D - 1);
        assert_eq!(
            with_flags(|flags| soft_mul::<Double>(x, y, UP, flags)),
            (MIN_NORMAL_D, INEXACT)
        );
        assert_eq!(
            with_flags(|flags| soft_mul::<Double>(x, y, NEAREST_EVEN, flags)),
            (MIN_NORMAL_D, INEXACT)
        );
        assert_eq!(
            with_flags(|flags| soft_mul::<Double>(x, y, TOWARDS_ZERO, flags)),
            (MIN_NORMAL_D - 1, UNDERFLOW | INEXACT)
        );
        // Exact subnormals do not underflow.
        assert_eq!(
            with_flags(|flags| mul_half(MIN_NORMAL_D, flags)),
            (MIN_NORMAL_D / 2, 0)
        );
    }

    fn mul_half(a: u64, flags: &mut u8) -> u64 {
        mul::<Double>(a, 0.5_f64.to_bits(), NEAREST_EVEN, flags)
    }

    #[test]
    fn overflow_depends_on_the_rounding_mode() {
        let largest = f32::MAX.to_bits().into();
        let infinity = Single::INFINITY;
        let cases = [
            (NEAREST_EVEN, infinity, infinity),
            (TOWARDS_ZERO, largest, largest),
            (DOWN, largest, infinity),
            (UP, infinity, largest),
            (NEAREST_AWAY, infinity, infinity),
        ];
        for (mode, above, below) in cases {
            let sum = |sign| {
                with_flags(|flags| add::<Single>(largest | sign, largest | sign, mode, flags))
            };
            assert_eq!(sum(0), (above, OVERFLOW | INEXACT), "mode {mode}");
            assert_eq!(
                sum(Single::SIGN),
                (below | Single::SIGN, OVERFLOW | INEXACT)
            );
        }
    }

    #[test]
    fn ties() {
        let add = |a: f32, b: f32, mode| {
            let (a, b) = (a.to_bits().into(), b.to_bits().into());
            s(with_flags(|flags| add::<Single>(a, b, mode, flags)).0)
        };
        let (even, next, half) = (8_388_608.0, 8_388_609.0, 0.5); // 2^23: units are 1
        assert_eq!(add(even, half, NEAREST_EVEN), even);
        assert_eq!(add(next, half, NEAREST_EVEN), next + 1.0);
        assert_eq!(add(even, half, NEAREST_AWAY), next);
        assert_eq!(add(-even, -half, NEAREST_AWAY), -next);
        assert_eq!(add(-even, -half, UP), -even);
        assert_eq!(add(-even, -half, DOWN), -next);
    }

    #[test]
    fn signs_of_zero() {
        let (plus, minus) = (0, Double::SIGN);
        for mode in 0..5 {
            let exact = if mode == DOWN { minus } else { plus };
            assert_eq!(add::<Double>(ONE_D, ONE_D | minus, mode, &mut 0), exact);
            assert_eq!(add::<Double>(plus, minus, mode, &mut 0), exact);
            assert_eq!(add::<Double>(minus, minus, mode, &mut 0), minus);
            assert_eq!(
                fused::<Double>(ONE_D, ONE_D, ONE_D | minus, mode, &mut 0),
                exact
            );
            assert_eq!(sqrt::<Double>(minus, mode, &mut 0), minus);
        }
        assert_eq!(min::<Double>(plus, minus, &mut 0), minus);
        assert_eq!(min::<Double>(minus, plus, &mut 0), minus);
        assert_eq!(max::<Double>(minus, plus, &mut 0), plus);
        assert_eq!(max::<Double>(plus, minus, &mut 0), plus);
    }

    #[test]
    fn invalid_operations() {
        let infinity = Double::INFINITY;
        let minus = Double::SIGN;
        let quiet = Double::NAN | 5;
        let signaling = infinity | 1;
        let canonical = Double::NAN;
        let mode = NEAREST_EVEN;
        let invalid = (canonical, INVALID);
        assert_eq!(
            with_flags(|f| add::<Double>(infinity, infinity | minus, mode, f)),
            invalid
        );
        assert_eq!(
            with_flags(|f| sub::<Double>(infinity, infinity, mode, f)),
            invalid
        );
        assert_eq!(
            with_flags(|f| mul::<Double>(infinity, minus, mode, f)),
            invalid
        );
        assert_eq!(with_flags(|f| div::<Double>(0, minus, mode, f)), invalid);
        assert_eq!(
            with_flags(|f| div::<Double>(infinity, infinity, mode, f)),
            invalid
        );
        assert_eq!(
            with_flags(|f| sqrt::<Double>(ONE_D | minus, mode, f)),
            invalid
        );
        assert_eq!(
            with_flags(|f| add::<Double>(signaling, ONE_D, mode, f)),
            invalid
        );
        assert_eq!(
            with_flags(|f| add::<Double>(quiet, ONE_D, mode, f)),
            (canonical, 0)
        );
        assert_eq!(
            with_flags(|f| fused::<Double>(infinity, 0, quiet, mode, f)),
            invalid
        );
        assert_eq!(
            with_flags(|f| fused::<Double>(quiet, 0, ONE_D, mode, f)),
            (canonical, 0)
        );
        assert_eq!(with_flags(|f| min::<Double>(quiet, ONE_D, f)), (ONE_D, 0));
        assert_eq!(
            with_flags(|f| min::<Double>(signaling, ONE_D, f)),
            (ONE_D, INVALID)
        );
        assert_eq!(with_flags(|f| max::<Double>(quiet, signaling, f)), invalid);
        assert_eq!(with_flags(|f| equal::<Double>(quiet, ONE_D, f)), (false, 0));
        assert_eq!(
            with_flags(|f| equal::<Double>(signaling, ONE_D, f)),
            (false, INVALID)
        );
        assert_eq!(
            with_flags(|f| less::<Double>(quiet, ONE_D, f)),
            (false, INVALID)
        );
        assert_eq!(
            with_flags(|f| convert::<Double, Single>(signaling, mode, f)),
            (Single::NAN, INVALID)
        );
        let by_zero = with_flags(|f| div::<Double>(ONE_D | minus, 0, mode, f));
        assert_eq!(by_zero, (infinity | minus, DIVIDE_BY_ZERO));
    }

    #[test]
    fn conversions_to_integers_saturate() {
        let of = |value: f64| value.to_bits();
        let mode = TOWARDS_ZERO;
        for (value, result) in [
            (2_147_483_647.5, (i32::MAX, INEXACT)),
            (2_147_483_648.0, (i32::MAX, INVALID)),
            (-2_147_483_648.9, (i32::MIN, INEXACT)),
            (-2_147_483_649.0, (i32::MIN, INVALID)),
            (f64::NAN, (i32::MAX, INVALID)),
            (-f64::NAN, (i32::MAX, INVALID)),
            (f64::INFINITY, (i32::MAX, INVALID)),
            (f64::NEG_INFINITY, (i32::MIN, INVALID)),
            (1e300, (i32::MAX, INVALID)),
            (-0.0, (0, 0)),
            (-1e-300, (0, INEXACT)),
        ] {
            assert_eq!(
                with_flags(|f| to_i32::<Double>(of(value), mode, f)),
                result,
                "{value}"
            );
        }
        assert_eq!(
            with_flags(|f| to_u32::<Double>(of(-0.9), mode, f)),
            (0, INEXACT)
        );
        assert_eq!(
            with_flags(|f| to_u32::<Double>(of(-0.9), DOWN, f)),
            (0, INVALID)
        );
        assert_eq!(
            with_flags(|f| to_u64::<Double>(of(-1.0), mode, f)),
            (0, INVALID)
        );
        assert_eq!(
            with_flags(|f| to_u64::<Double>(of(f64::NAN), mode, f)),
            (u64::MAX, INVALID)
        );
        let two63 = of(9_223_372_036_854_775_808.0);
        assert_eq!(
            with_flags(|f| to_u64::<Double>(two63, mode, f)),
            (1 << 63, 0)
        );
        assert_eq!(
            with_flags(|f| to_i64::<Double>(two63, mode, f)),
            (i64::MAX, INVALID)
        );
    }

    #[test]
    fn classes() {
        let values = [
            f64::NEG_INFINITY.to_bits(),
            ONE_D | Double::SIGN,
            1 | Double::SIGN,
            Double::SIGN,
            0,
            1,
            ONE_D,
            Double::INFINITY,
            Double::INFINITY | 1,
            Double::NAN,
        ];
        for (bit, value) in values.into_iter().enumerate() {
            assert_eq!(class::<Double>(value), 1 << bit);
        }
    }
}
