//! Every function of `math` against the double-precision library, over patterns of the whole range.
//!
//! About 200 000 arguments a function: steps through all bit patterns, a dense part around zero, and the
//! neighbourhood of every place where a formula changes. The exhaustive check of all 2^32 arguments
//! takes minutes a function; [`PATTERNS`] set to 2^32 would be that check.

use std::f32::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, PI, SQRT_2};

use gt_engine_cpu::math::*;
use gt_ir::rows::UnaryKind;

/// How many patterns of a unary `f32` function are tried.
const PATTERNS: u64 = 130_000;

/// Places where a formula changes or a result leaves the range.
const EDGES: &[f32] = &[
    0.0,
    f32::MIN_POSITIVE,
    f32::MAX,
    f32::INFINITY,
    f32::NAN,
    1e-45,
    1e-40,
    1e-20,
    1e-8,
    3e-4,
    0.1,
    0.25,
    0.333_333_34,
    0.346_573_6,
    0.5,
    0.6,
    0.666_666_7,
    LN_2,
    FRAC_PI_4,
    1.0,
    1.333_333_4,
    SQRT_2,
    FRAC_PI_2,
    2.0,
    3.0,
    PI,
    3.92,
    4.0,
    8.0,
    9.01,
    9.1,
    10.05,
    10.1,
    14.2,
    14.4,
    14.45,
    16.6,
    17.3,
    18.0,
    20.0,
    87.336_54,
    88.722_84,
    89.0,
    89.415_98,
    90.0,
    103.278_93,
    103.972_08,
    104.0,
    110.0,
    126.0,
    127.0,
    128.0,
    129.0,
    149.0,
    150.0,
    151.0,
    1e5,
    16_777_216.0,
    1e10,
    2.814_749_8e14,
    1e15,
    1.8e19,
    1e30,
    1.7e38,
];

/// Where a float is in the order of all floats.
fn rank(x: f32) -> i64 {
    let magnitude = (x.to_bits() & 0x7fff_ffff) as i64;
    if x.is_sign_negative() { -magnitude } else { magnitude }
}

fn rank_f64(x: f64) -> i128 {
    let magnitude = (x.to_bits() & (u64::MAX >> 1)) as i128;
    if x.is_sign_negative() { -magnitude } else { magnitude }
}

/// The arguments that unary functions are tried on.
fn arguments() -> Vec<f32> {
    let mut all: Vec<f32> = Vec::new();
    let step = (1u64 << 32) / PATTERNS;
    all.extend((0..PATTERNS).map(|i| f32::from_bits((i * step + i % step) as u32)));
    all.extend((0..60_000).map(|i| (i as f32 - 30_000.0) * (1.0 / 1024.0)));
    for &edge in EDGES {
        let near = (-4i32..=4).map(|k| f32::from_bits(edge.to_bits().wrapping_add(k as u32)));
        all.extend(near.flat_map(|x| [x, -x]));
    }
    all
}

/// `got` against `want`: both NaN, or of the same sign and at most `limit` apart.
fn check(name: &str, at: &dyn std::fmt::Debug, got: f32, want: f64, limit: i64) {
    let rounded = want as f32;
    if rounded.is_nan() || got.is_nan() {
        assert!(rounded.is_nan() && got.is_nan(), "{name}({at:?}) = {got:e}, not {rounded:e}");
        return;
    }
    let apart = (rank(got) - rank(rounded)).abs();
    let same_sign = got.is_sign_negative() == rounded.is_sign_negative();
    assert!(apart <= limit && same_sign, "{name}({at:?}) = {got:e}, not {rounded:e}: {apart} ulp");
}

#[test]
fn unary_f32_is_within_its_bound() {
    let row = |kind: UnaryKind| kind.row().f64;
    // The row's formula for gelu cancels for negative arguments.
    let gelu = |x: f64| {
        let erfc = UnaryKind::Erfc.row().f64;
        0.5 * x * erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
    };
    type Function = (&'static str, fn(f32) -> f32, fn(f64) -> f64, i64);
    let functions: &[Function] = &[
        ("exp", exp_f32, f64::exp, 1),
        ("exp2", exp2_f32, f64::exp2, 1),
        ("expm1", expm1_f32, f64::exp_m1, 2),
        ("log", log_f32, f64::ln, 1),
        ("log2", log2_f32, f64::log2, 2),
        ("log10", log10_f32, f64::log10, 2),
        ("log1p", log1p_f32, f64::ln_1p, 2),
        ("sin", sin_wide_f32, f64::sin, 2),
        ("cos", cos_wide_f32, f64::cos, 2),
        ("tan", tan_wide_f32, f64::tan, 1),
        ("asin", asin_f32, f64::asin, 2),
        ("acos", acos_f32, f64::acos, 1),
        ("atan", atan_f32, f64::atan, 1),
        ("sinh", sinh_f32, f64::sinh, 2),
        ("cosh", cosh_f32, f64::cosh, 1),
        ("tanh", tanh_f32, f64::tanh, 1),
        ("asinh", asinh_f32, f64::asinh, 1),
        ("acosh", acosh_f32, f64::acosh, 1),
        ("atanh", atanh_f32, f64::atanh, 1),
        ("sigmoid", sigmoid_f32, row(UnaryKind::Sigmoid), 2),
        ("silu", silu_f32, row(UnaryKind::Silu), 2),
        ("erf", erf_f32, row(UnaryKind::Erf), 1),
        ("erfc", erfc_f32, row(UnaryKind::Erfc), 2),
        ("gelu", gelu_f32, gelu, 2),
        ("rsqrt", rsqrt_f32, row(UnaryKind::Rsqrt), 1),
        ("round_ties_even", round_ties_even_f32, f64::round_ties_even, 0),
    ];
    let arguments = arguments();
    for &(name, function, reference, limit) in functions {
        for &x in &arguments {
            check(name, &x, function(x), reference(x as f64), limit);
        }
    }
}

/// Numbers whose pairs cover the special cases of functions of two.
const PAIRED: &[f32] = &[
    0.0,
    1.0,
    2.0,
    3.0,
    0.5,
    1.5,
    5.0,
    7.0,
    0.1,
    0.3,
    1e-3,
    10.0,
    127.0,
    149.0,
    1e-45,
    f32::MIN_POSITIVE,
    1e-20,
    1e10,
    16_777_215.0,
    16_777_216.0,
    33_554_430.0,
    1.000_000_1,
    0.999_999_94,
    1e20,
    f32::MAX,
    f32::INFINITY,
    f32::NAN,
];

/// Pairs of specials, of patterns, and of numbers of a common size.
fn pairs() -> Vec<(f32, f32)> {
    let signed: Vec<f32> = PAIRED.iter().flat_map(|&x| [x, -x]).collect();
    let mut all: Vec<(f32, f32)> = signed.iter().flat_map(|&x| signed.iter().map(move |&y| (x, y))).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for i in 0..150_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (a, b) = ((state >> 32) as u32, (state >> 8) as u32);
        all.push(match i % 3 {
            0 => (f32::from_bits(a), f32::from_bits(b)),
            1 => (a as f32 / 4e8 - 5.0, b as f32 / 1e8 - 20.0),
            _ => ((a >> 20) as f32 - 2048.0, ((b >> 22) as f32 - 512.0) * 0.25),
        });
    }
    all
}

#[test]
fn binary_f32_is_within_its_bound() {
    let python_remainder = |x: f32, y: f32| {
        let r = x % y;
        if r != 0.0 && (r < 0.0) != (y < 0.0) { r + y } else { r }
    };
    let floor_quotient = |x: f64, y: f64| {
        if y == 0.0 {
            return x / y;
        }
        let (r, whole) = (x % y, (x - x % y) / y);
        let q = whole.round_ties_even() - (r != 0.0 && (r < 0.0) != (y < 0.0)) as u8 as f64;
        if x.is_infinite() { f64::NAN } else { q }
    };
    for (x, y) in pairs() {
        let (wx, wy) = (x as f64, y as f64);
        check("pow", &(x, y), pow_f32(x, y), wx.powf(wy), 1);
        check("atan2", &(x, y), atan2_f32(x, y), wx.atan2(wy), 1);
        let wide = is_wide_quotient_f32(x, y);
        let fmod = if wide { fmod_wide_f32(x, y) } else { fmod_f32(x, y) };
        let remainder = if wide { remainder_wide_f32(x, y) } else { remainder_f32(x, y) };
        check("fmod", &(x, y), fmod, (x % y) as f64, 0);
        check("remainder", &(x, y), remainder, python_remainder(x, y) as f64, 0);
        check("floor_divide", &(x, y), floor_divide_f32(x, y), floor_quotient(wx, wy), 0);
    }
}

#[test]
fn f64_is_within_its_bound() {
    let row = |kind: UnaryKind| kind.row().f64;
    // Exact where the row's formula overflows on the way.
    let sigmoid = |x: f64| if x < -700.0 { x.exp() } else { 1.0 / (1.0 + (-x).exp()) };
    type Function = (&'static str, fn(f64) -> f64, fn(f64) -> f64, i128);
    let functions: &[Function] = &[
        ("exp", exp_f64, f64::exp, 2),
        ("log", log_f64, f64::ln, 2),
        ("tanh", tanh_f64, f64::tanh, 3),
        ("sigmoid", sigmoid_f64, sigmoid, 4),
        ("sin", sin_wide_f64, f64::sin, 2),
        ("cos", cos_wide_f64, f64::cos, 2),
        ("erf", erf_f64, row(UnaryKind::Erf), 2),
        ("erfc", erfc_f64, row(UnaryKind::Erfc), 5),
    ];
    let mut arguments: Vec<f64> = arguments().into_iter().step_by(3).map(f64::from).collect();
    arguments.extend((0..60_000).map(|i| (i as f64 - 30_000.0) * 0.026_1));
    arguments.extend((0..60_000u64).map(|i| f64::from_bits(i.wrapping_mul(0x0001_1357_9bdf_0246))));
    arguments.extend([
        5e-324,
        -5e-324,
        f64::MIN_POSITIVE,
        f64::MAX,
        f64::MIN,
        709.782_712_893_384,
        -745.133_219_101_941,
    ]);
    for &(name, function, reference, limit) in functions {
        for &x in &arguments {
            let (got, want) = (function(x), reference(x));
            if want.is_nan() || got.is_nan() {
                assert!(want.is_nan() && got.is_nan(), "{name}({x:e}) = {got:e}, not {want:e}");
                continue;
            }
            let apart = (rank_f64(got) - rank_f64(want)).abs();
            let same_sign = got.is_sign_negative() == want.is_sign_negative();
            assert!(apart <= limit && same_sign, "{name}({x:e}) = {got:e}, not {want:e}: {apart} ulp");
        }
    }
    // The row's formulas lose digits in the tails: there the functions are tied to others of the table.
    for i in -4_000..4_000 {
        let x = i as f64 / 110.0;
        let (silu, gelu) = (silu_f64(x), gelu_f64(x));
        let by_erfc = 0.5 * x * erfc_f64(-x * std::f64::consts::FRAC_1_SQRT_2);
        assert!((silu - x * sigmoid_f64(x)).abs() <= 8.0 * f64::EPSILON * silu.abs(), "silu({x}) = {silu:e}");
        assert!((gelu - by_erfc).abs() <= (8.0 + x * x) * f64::EPSILON * gelu.abs(), "gelu({x}) = {gelu:e}");
    }
    assert!(silu_f64(f64::NEG_INFINITY).is_nan() && gelu_f64(f64::NEG_INFINITY).is_nan());
    assert_eq!((silu_f64(f64::INFINITY), gelu_f64(f64::INFINITY)), (f64::INFINITY, f64::INFINITY));
    assert!(gelu_f64(-50.0) == 0.0 && gelu_f64(-50.0).is_sign_negative());
    assert!(silu_f64(-740.0) < 0.0 && silu_f64(-1e300) == 0.0);
}

#[test]
fn floor_division_of_doubles_goes_down() {
    assert_eq!(floor_divide_f64(7.0, 2.0), 3.0);
    assert_eq!(floor_divide_f64(-7.0, 2.0), -4.0);
    assert_eq!(floor_divide_f64(-1.0, f64::INFINITY), -1.0);
    assert_eq!(floor_divide_f64(1.0, 0.0), f64::INFINITY);
    assert_eq!(remainder_f64(-7.0, 3.0), 2.0);
    assert_eq!(fmod_f64(-7.0, 3.0), -1.0);
    assert_eq!(round_ties_even_f64(2.5), 2.0);
}

#[cfg(target_arch = "x86_64")]
type VectorLoop = unsafe fn(&mut [f32], &[f32], &[f32]);

/// A loop of each function, compiled for more than the machine's least.
#[cfg(target_arch = "x86_64")]
macro_rules! vector_loops {
    ($features:literal: $($name:ident $operands:tt;)*) => {
        $(#[target_feature(enable = $features)]
        fn $name(dst: &mut [f32], x: &[f32], y: &[f32]) {
            for ((d, &x), &y) in dst.iter_mut().zip(x).zip(y) {
                *d = call!($name $operands, x, y);
            }
        })*
        /// Every loop by name, and the function.
        pub fn all() -> Vec<(&'static str, super::VectorLoop, fn(f32, f32) -> f32)> {
            vec![$((stringify!($name), $name as super::VectorLoop, |x, y| call!($name $operands, x, y)),)*]
        }
    };
}
#[cfg(target_arch = "x86_64")]
macro_rules! call {
    ($name:ident (a), $x:ident, $y:ident) => {{
        let _ = $y;
        gt_engine_cpu::math::$name($x)
    }};
    ($name:ident (a, b), $x:ident, $y:ident) => {
        gt_engine_cpu::math::$name($x, $y)
    };
}
#[cfg(target_arch = "x86_64")]
macro_rules! level {
    ($module:ident, $features:literal) => {
        mod $module {
            vector_loops! { $features:
                exp_f32(a); exp2_f32(a); expm1_f32(a); log_f32(a); log2_f32(a); log10_f32(a); log1p_f32(a);
                sin_f32(a); cos_f32(a); tan_f32(a); asin_f32(a); acos_f32(a); atan_f32(a); sinh_f32(a);
                cosh_f32(a); tanh_f32(a); asinh_f32(a); acosh_f32(a); atanh_f32(a); sigmoid_f32(a);
                silu_f32(a); erf_f32(a); erfc_f32(a); gelu_f32(a); rsqrt_f32(a); pow_f32(a, b);
                atan2_f32(a, b); fmod_f32(a, b); remainder_f32(a, b); floor_divide_f32(a, b);
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
level!(avx2, "avx2,fma");
#[cfg(target_arch = "x86_64")]
level!(avx512, "avx512f,avx512vl,avx512dq,avx512bw,fma");

/// MATH-1: the vector loops, their tails and the plain functions give the same bits.
#[cfg(target_arch = "x86_64")]
#[test]
fn bits_do_not_depend_on_the_instruction_set() {
    let mut x: Vec<f32> = arguments().into_iter().step_by(11).collect();
    // Not a multiple of a vector, so that there is a tail.
    x.truncate(x.len() / 64 * 64 - 27);
    let y: Vec<f32> = x.iter().rev().map(|&v| v * 0.5).collect();
    let mut levels = Vec::new();
    if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
        levels.push(("avx2", avx2::all()));
    }
    if std::is_x86_feature_detected!("avx512f")
        && std::is_x86_feature_detected!("avx512vl")
        && std::is_x86_feature_detected!("avx512dq")
        && std::is_x86_feature_detected!("avx512bw")
    {
        levels.push(("avx512", avx512::all()));
    }
    let mut got = vec![0.0f32; x.len()];
    for (level, loops) in levels {
        for (name, run, function) in loops {
            // SAFETY: the processor has the features of this level.
            unsafe { run(&mut got, &x, &y) };
            for i in 0..x.len() {
                let want = function(x[i], y[i]);
                let same = got[i].to_bits() == want.to_bits() || (got[i].is_nan() && want.is_nan());
                assert!(same, "{level} {name}({:e}, {:e}): {:e}, not {want:e}", x[i], y[i], got[i]);
            }
        }
    }
}

#[test]
fn wide_functions_agree_with_the_near_ones_on_near_arguments() {
    for x in arguments().into_iter().step_by(7).filter(|&x| x.is_finite() && !is_wide_angle_f32(x)) {
        let near = [sin_f32(x), cos_f32(x), tan_f32(x)].map(f32::to_bits);
        assert_eq!(near, [sin_wide_f32(x), cos_wide_f32(x), tan_wide_f32(x)].map(f32::to_bits), "{x:e}");
    }
    assert!(is_wide_angle_f32(1e15) && !is_wide_angle_f32(-2e14) && is_wide_quotient_f32(1e30, 3.0));
    assert_eq!(remainder_wide_f32(-1e30, 7.0), 7.0 - 1e30f32 % 7.0);
    assert_eq!(fmod_wide_f32(-1e30, 7.0), -(1e30f32 % 7.0));
}
