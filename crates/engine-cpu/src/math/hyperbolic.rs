//! Hyperbolic functions and their inverses.

use super::exp::{LN2_HI, LN2_LO, ROUND_BIASED, exp_f64, exp_poly, reduce};
use super::log::log1p_of_positive;
use super::{horner_f32, horner_f64, select};

/// `tanh(x)`.
#[inline(always)]
pub fn tanh_f32(x: f32) -> f32 {
    let z = x.abs();
    // A small argument keeps all its digits in the odd series.
    let s = z * z;
    let p = horner_f32(s, [-0.333_333, 0.133_319_36, -0.053_784_717, 0.020_798_625, -0.005_897_966_7]);
    let small = (p * s).mul_add(z, z);
    // Else 1 - 2 / (exp(2z) + 1), where the error of the exponential counts for less than half.
    // From 9.02 on that rounds to 1.
    let y = select(z > 9.1, 9.1, z);
    let rounded = y.mul_add(2.0 * std::f32::consts::LOG2_E, ROUND_BIASED);
    let n = rounded - ROUND_BIASED;
    let p = exp_poly(n.mul_add(-LN2_LO, n.mul_add(-LN2_HI, y + y)));
    let scale = f32::from_bits(rounded.to_bits() << 23);
    let large = 1.0 - 2.0 / p.mul_add(scale, 1.0);
    select(z < 0.6, small, large).copysign(x)
}

/// Half of `exp(z)` for `0 ≤ z`.
#[inline(always)]
fn half_exp(z: f32) -> f32 {
    let (r, scale) = reduce(select(z > 90.0, 90.0, z));
    // Halved first: exp(z) overflows before sinh and cosh do.
    exp_poly(r) * (scale.0 * 0.5) * scale.1
}

/// `sinh(x)`.
#[inline(always)]
pub fn sinh_f32(x: f32) -> f32 {
    let z = x.abs();
    let s = z * z;
    let p = horner_f32(s, [0.166_666_67, 0.008_333_31, 0.000_198_428_9, 2.782_283e-6]);
    let small = (p * s).mul_add(z, z);
    let half = half_exp(z);
    select(z < 1.0, small, half - 0.25 / half).copysign(x)
}

/// `cosh(x)`.
#[inline(always)]
pub fn cosh_f32(x: f32) -> f32 {
    let half = half_exp(x.abs());
    half + 0.25 / half
}

/// `asinh(x)`.
#[inline(always)]
pub fn asinh_f32(x: f32) -> f32 {
    let z = x.abs() as f64;
    let s = z * z;
    // z + sqrt(z² + 1) - 1, without the cancellation.
    let v = z + s / (1.0 + (1.0 + s).sqrt());
    let y = log1p_of_positive(v) as f32;
    select(x.abs() < f32::INFINITY, y.copysign(x), x)
}

/// `acosh(x)`.
#[inline(always)]
pub fn acosh_f32(x: f32) -> f32 {
    let t = x as f64 - 1.0;
    let v = t + (t * (t + 2.0)).sqrt();
    let y = log1p_of_positive(v) as f32;
    let y = select(x < f32::INFINITY, y, x);
    select(x < 1.0, f32::NAN, y)
}

/// `atanh(x)`.
#[inline(always)]
pub fn atanh_f32(x: f32) -> f32 {
    let z = x.abs() as f64;
    let v = 2.0 * z / (1.0 - z);
    let y = (0.5 * log1p_of_positive(v)) as f32;
    let y = select(z == 1.0, f32::INFINITY, y).copysign(x);
    select(z <= 1.0, y, f32::NAN)
}

/// `tanh(x)`.
#[inline(always)]
pub fn tanh_f64(x: f64) -> f64 {
    let z = x.abs();
    let s = z * z;
    let p = horner_f64(
        s,
        [
            -0.333_333_333_333_331_26,
            0.133_333_333_332_997_66,
            -0.053_968_253_949_331_406,
            0.021_869_488_003_194_57,
            -0.008_863_226_784_014_31,
            0.003_592_037_422_083_416_6,
            -0.001_455_215_543_193_593,
            0.000_587_188_893_796_899_9,
            -0.000_230_397_630_579_745_2,
            7.931_472_348_544_74e-5,
            -1.717_903_661_048_299_2e-5,
        ],
    );
    let small = (p * s).mul_add(z, z);
    // From 19.1 on the result rounds to 1.
    let e = exp_f64(2.0 * select(z > 20.0, 20.0, z));
    let large = 1.0 - 2.0 / (e + 1.0);
    select(z < 0.6, small, large).copysign(x)
}
