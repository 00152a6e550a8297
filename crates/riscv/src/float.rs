//! IEEE 754 arithmetic as specified by RISC-V: every rounding mode, every exception flag, one NaN.
//!
//! Values are bits in a `u64`. Each operation has a plain path that is correct for all inputs:
//! unpack the operands into integers, compute exactly (or with a sticky last bit), and round once,
//! in `round`. Add, multiply, divide and square root try the host's arithmetic first, where it is
//! certain to give the same result and flags. The plain paths are kept out of line, so that they
//! cost their callers nothing. RISC-V Unprivileged ISA, chapters "F" and "D" Extension.

mod format;

pub use format::{Double, Format, Single};

/// `fflags`: the operation has no defined result.
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

/// The result of an operation with at least one NaN operand.
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

/// Whether rounding increments the kept bits; `rest` is the discarded part, and `half` is half a
/// unit.
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

/// Discards the low `drop` bits and rounds; the second result is whether any discarded bit was set.
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
    // Beyond 126 bits all bits are discarded, and are less than half: significands stay below
    // 2^126, so discarding 127 gives the same result.
    let drop = drop.min(127);
    let kept = significand >> drop;
    let rest = significand & ((1 << drop) - 1);
    let half = 1 << (drop - 1);
    let away = rounds_away(rounding, negative, kept & 1 != 0, rest, half);
    (kept as u64 + u64::from(away), rest != 0)
}

/// Rounds the number to the format. The lowest bit of the significand may be sticky (stand for all
/// bits below it), if the significand is at least three bits longer than the precision. The
/// significand must be nonzero and below 2^126.
#[inline]
fn round<F: Format>(number: Number<u128>, rounding: u8, flags: &mut u8) -> u64 {
    let digits = F::PRECISION as i32 - 1;
    let length = 127 - number.significand.leading_zeros() as i32;
    let exponent = number.exponent + length; // of the leading bit
    let target = exponent.max(F::MIN_EXPONENT); // the same, but subnormals share the smallest one
    let drop = target - digits - number.exponent;
    let (kept, inexact) = if drop <= 0 {
        ((number.significand as u64) << -drop, false)
    } else {
        round_off(number, drop as u32, rounding)
    };
    if inexact {
        *flags |= INEXACT;
        // Tiny: below the smallest normal number, even when rounded with an unbounded exponent.
        if exponent < F::MIN_EXPONENT {
            let carries = exponent == F::MIN_EXPONENT - 1
                && round_off(number, drop as u32 - 1, rounding).0 > 2 * F::FRACTION + 1;
            if !carries {
                *flags |= UNDERFLOW;
            }
        }
    }
    let negative = sign::<F>(number.negative);
    // The hidden bit, if any, adds 1 to the exponent; so does a carry out of rounding.
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

/// Shifts the leading bit to position 124, so that two such numbers can be added.
#[inline]
fn normalize(number: Number<u128>) -> Number<u128> {
    let shift = number.significand.leading_zeros() - 3;
    Number {
        exponent: number.exponent - shift as i32,
        significand: number.significand << shift,
        ..number
    }
}

/// Shifts right with a sticky bit: the last bit is set if any discarded bit was.
#[inline]
fn shift_sticky(significand: u128, distance: u32) -> u128 {
    if distance >= 128 {
        return u128::from(significand != 0);
    }
    let shifted = significand >> distance;
    shifted | u128::from(shifted << distance != significand)
}

/// Adds two nonzero numbers of at most 106 bits, and rounds once.
///
/// Bits are lost to the sticky bit only if the exponents differ by 20 or more; then at most one
/// leading bit can cancel, and far more bits remain than rounding needs.
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
    // An even exponent can be halved; a radicand of at least 124 bits has a root of 62.
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

/// An integer that compares as the number does (with -0 just below +0).
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

/// The class of `a`, as `fclass` encodes it: one bit of ten, from negative infinity (0) over zeros
/// (3 and 4) to positive infinity (7), then signaling (8) and quiet NaN (9).
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

/// Converts the number to another format.
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

/// Converts an unsigned integer to a number.
pub fn from_u64<F: Format>(a: u64, rounding: u8, flags: &mut u8) -> u64 {
    from_parts::<F>(false, a, rounding, flags)
}

/// Converts a signed integer to a number.
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

/// Converts the number to an integer from `least` to `greatest`. Values outside are invalid and
/// give the nearer bound; a NaN gives `greatest`.
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
    // At least 64 bits to the left of 53: out of range; this includes infinities.
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

/// Converts the number to an `i32`.
pub fn to_i32<F: Format>(a: u64, rounding: u8, flags: &mut u8) -> i32 {
    to_integer::<F>(a, (i32::MIN.into(), i32::MAX.into()), rounding, flags) as i32
}

/// Converts the number to a `u32`.
pub fn to_u32<F: Format>(a: u64, rounding: u8, flags: &mut u8) -> u32 {
    to_integer::<F>(a, (0, u32::MAX.into()), rounding, flags) as u32
}

/// Converts the number to an `i64`.
pub fn to_i64<F: Format>(a: u64, rounding: u8, flags: &mut u8) -> i64 {
    to_integer::<F>(a, (i64::MIN.into(), i64::MAX.into()), rounding, flags) as i64
}

/// Converts the number to a `u64`.
pub fn to_u64<F: Format>(a: u64, rounding: u8, flags: &mut u8) -> u64 {
    to_integer::<F>(a, (0, u64::MAX.into()), rounding, flags) as u64
}

#[cfg(test)]
mod tests;
