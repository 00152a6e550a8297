use proptest::prelude::*;
use std::hint::black_box;

use super::*;

/// Bit patterns of a format with `digits` stored digits of `width` bits, biased towards exponents
/// and significands where rounding, overflow and underflow occur.
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

/// The host's result, but with the canonical NaN. `value` is hidden from the compiler, which may
/// fold the root of a negative number to a number (LLVM 22, if a whole crate is one unit).
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

/// The plain path agrees with the host; the fast path, where there is one, agrees with the plain
/// path, including flags.
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
    /// inexact, and rounding towards zero gives one of them.
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
    // 2^-1022 * (1 - 2^-53) has 53 digits below 2^-1022: it is tiny in every mode.
    assert_eq!(mul(NEAREST_EVEN), (MIN_NORMAL_D, UNDERFLOW | INEXACT));
    assert_eq!(mul(TOWARDS_ZERO), (MIN_NORMAL_D - 1, UNDERFLOW | INEXACT));
    // 2^-1022 * (1 + 2^-52)(1 - 2^-52) needs 104 digits. If 53 of them round to 2^-1022, the result
    // is not tiny, although the exact product is.
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
        let sum =
            |sign| with_flags(|flags| add::<Single>(largest | sign, largest | sign, mode, flags));
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
