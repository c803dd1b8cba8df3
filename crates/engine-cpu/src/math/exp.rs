//! Exponentials, and the logistic functions built on them.
//!
//! `exp(x) = 2^n · exp(r)` with `n` the integer nearest to `x / ln 2`: adding a constant of the size
//! `1.5·2^23` rounds to an integer and leaves that integer in the low bits, from where a shift moves
//! it to the exponent field.

use super::{horner_f32, horner_f64, select};

/// Leaves `n + 254` in the low bits: the two exponents of [`Pow2`].
const ROUND_SPLIT: f32 = 12_582_912.0 + 254.0;
/// Leaves `n + 127` in the low bits: the exponent field of `2^n`.
pub(super) const ROUND_BIASED: f32 = 12_582_912.0 + 127.0;
/// ln 2 as a float.
pub(super) const LN2_HI: f32 = std::f32::consts::LN_2;
/// What of ln 2 the float leaves.
pub(super) const LN2_LO: f32 = -1.904_654_2e-9;

/// `2^n` as two factors near its root, so that only the second product can round (to a denormal) or
/// overflow.
#[derive(Clone, Copy)]
pub(super) struct Pow2(pub f32, pub f32);

impl Pow2 {
    /// From a number to which [`ROUND_SPLIT`] was added.
    #[inline(always)]
    fn from_rounded(rounded: f32) -> Pow2 {
        let both = rounded.to_bits();
        let half = both >> 1;
        Pow2(f32::from_bits(half << 23), f32::from_bits(both.wrapping_sub(half) << 23))
    }
}

/// `x = n·ln 2 + r`: `r` and `2^n`, for `-104 ≤ x ≤ 90`.
#[inline(always)]
pub(super) fn reduce(x: f32) -> (f32, Pow2) {
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUND_SPLIT);
    let n = rounded - ROUND_SPLIT;
    (n.mul_add(-LN2_LO, n.mul_add(-LN2_HI, x)), Pow2::from_rounded(rounded))
}

/// `-k·z² = n·ln 2 + r`: `r` and `2^n`, for `0 ≤ k·z² ≤ 105` and `k` a power of two. The square is
/// never rounded, since its error would be multiplied by its size.
#[inline(always)]
pub(super) fn reduce_minus_square(z: f32, k: f32) -> (f32, Pow2) {
    // A product with any n here is exact.
    const LN2_SHORT: f32 = 0.693_145_75;
    const LN2_REST: f32 = 1.428_606_8e-6;
    let kz = -k * z;
    let rounded = (kz * z).mul_add(std::f32::consts::LOG2_E, ROUND_SPLIT);
    let n = rounded - ROUND_SPLIT;
    (n.mul_add(-LN2_REST, kz.mul_add(z, n * -LN2_SHORT)), Pow2::from_rounded(rounded))
}

/// `exp(r)` for `|r| ≤ 0.35`, to 2^-28.
#[inline(always)]
pub(super) fn exp_poly(r: f32) -> f32 {
    horner_f32(r, [1.0, 1.0, 0.499_999_94, 0.166_665_17, 0.041_668_285, 0.008_369_248, 0.001_382_043_6])
}

/// `exp(r) - 1` for `|r| ≤ 0.35`, to 2^-26 of its size.
#[inline(always)]
pub(super) fn expm1_poly(r: f32) -> f32 {
    let p = horner_f32(r, [0.499_999_97, 0.166_665_4, 0.041_667_465, 0.008_367_011, 0.001_386_885]);
    (p * r).mul_add(r, r)
}

/// `2^r` for `|r| ≤ 1/2`, to 2^-28.
#[inline(always)]
pub(super) fn exp2_poly(r: f32) -> f32 {
    horner_f32(
        r,
        [1.0, std::f32::consts::LN_2, 0.240_226_48, 0.055_503_58, 0.009_618_504, 0.001_339_189_1, 0.000_153_288_38],
    )
}

/// `exp(x)`.
#[inline(always)]
pub fn exp_f32(x: f32) -> f32 {
    // Beyond these the result is infinite, or rounds to zero. A NaN fails both tests and stays.
    let x = select(x > 89.0, 89.0, x);
    exp_negative(x)
}

/// `exp(x)` for `x ≤ 89`.
#[inline(always)]
pub(super) fn exp_negative(x: f32) -> f32 {
    let (r, scale) = reduce(select(x < -104.0, -104.0, x));
    exp_poly(r) * scale.0 * scale.1
}

/// `2^x`.
#[inline(always)]
pub fn exp2_f32(x: f32) -> f32 {
    let x = select(x > 129.0, 129.0, x);
    let x = select(x < -151.0, -151.0, x);
    let rounded = x + ROUND_SPLIT;
    let scale = Pow2::from_rounded(rounded);
    exp2_poly(x - (rounded - ROUND_SPLIT)) * scale.0 * scale.1
}

/// `exp(x) - 1`.
#[inline(always)]
pub fn expm1_f32(x: f32) -> f32 {
    let y = select(x > 89.0, 89.0, x);
    let y = select(y < -18.0, -18.0, y);
    // Half of 2^n, since 2^128 is no float.
    const ROUND_HALF: f32 = 12_582_912.0 + 126.0;
    let rounded = y.mul_add(std::f32::consts::LOG2_E, ROUND_HALF);
    let n = rounded - ROUND_HALF;
    let p = expm1_poly(n.mul_add(-LN2_LO, n.mul_add(-LN2_HI, y)));
    let half = f32::from_bits(rounded.to_bits() << 23);
    let e = half.mul_add(p, half - 0.5) * 2.0;
    // With n = 0 the polynomial is the result; halving would cost a denormal its last bit.
    select(x == 0.0, x, select(n == 0.0, p, e))
}

/// `1 / (1 + exp(-x))`.
#[inline(always)]
pub fn sigmoid_f32(x: f32) -> f32 {
    // Of a negative argument exp does not overflow, so that a tiny result keeps its digits.
    let e = exp_negative(-x.abs());
    select(x < 0.0, e, 1.0) / (1.0 + e)
}

/// `x / (1 + exp(-x))`; NaN at -∞, as the formula has it.
#[inline(always)]
pub fn silu_f32(x: f32) -> f32 {
    let z = x.abs();
    let (r, scale) = reduce(-select(z > 110.0, 110.0, z));
    let p = expm1_poly(r);
    let e = (p + 1.0) * scale.0 * scale.1;
    let sum = 1.0 + e;
    // What the sum rounded off, over the sum, taken out of the factor 1 + p.
    let lost = (e - (sum - 1.0)) * e.mul_add(-0.5, 1.0);
    let factor = (-lost).mul_add(p + 1.0, p);
    // Below -110 the result rounds to zero.
    let y = select(x < -110.0, -110.0, x);
    let negative = x < 0.0;
    let quotient = select(negative, y.mul_add(factor, y) * scale.0, x) / sum;
    // The second factor comes last, since the result may be normal where exp(x) is denormal.
    let y = quotient * select(negative, scale.1, 1.0);
    select(x == f32::NEG_INFINITY, f32::NAN, y)
}

/// `2^n` in double precision, as [`Pow2`].
#[derive(Clone, Copy)]
pub(super) struct Pow2F64(pub f64, pub f64);

/// Leaves `n + 2046` in the low bits.
const ROUND_SPLIT_F64: f64 = 6_755_399_441_055_744.0 + 2046.0;
const LN2_HI_F64: f64 = std::f64::consts::LN_2;
const LN2_LO_F64: f64 = 2.319_046_813_846_299_6e-17;

impl Pow2F64 {
    #[inline(always)]
    fn from_rounded(rounded: f64) -> Pow2F64 {
        let both = rounded.to_bits();
        let half = both >> 1;
        Pow2F64(f64::from_bits(half << 52), f64::from_bits(both.wrapping_sub(half) << 52))
    }
}

/// `r` and `2^n` of `x = n·ln 2 + r`, for `-760 ≤ x ≤ 711`.
#[inline(always)]
pub(super) fn reduce_f64(x: f64) -> (f64, Pow2F64) {
    let rounded = x.mul_add(std::f64::consts::LOG2_E, ROUND_SPLIT_F64);
    let n = rounded - ROUND_SPLIT_F64;
    (n.mul_add(-LN2_LO_F64, n.mul_add(-LN2_HI_F64, x)), Pow2F64::from_rounded(rounded))
}

/// As [`reduce_minus_square`], for `0 ≤ k·z² ≤ 760`.
#[inline(always)]
pub(super) fn reduce_minus_square_f64(z: f64, k: f64) -> (f64, Pow2F64) {
    const LN2_SHORT: f64 = 0.693_147_180_559_208_2;
    const LN2_REST: f64 = 7.371_002_565_167_799e-13;
    let kz = -k * z;
    let rounded = (kz * z).mul_add(std::f64::consts::LOG2_E, ROUND_SPLIT_F64);
    let n = rounded - ROUND_SPLIT_F64;
    (n.mul_add(-LN2_REST, kz.mul_add(z, n * -LN2_SHORT)), Pow2F64::from_rounded(rounded))
}

/// `exp(r) - 1` for `|r| ≤ 0.347`, to 2^-57 of `exp(r)`.
#[inline(always)]
pub(super) fn expm1_poly_f64(r: f64) -> f64 {
    let p = horner_f64(
        r,
        [
            0.5,
            0.166_666_666_666_664_3,
            0.041_666_666_666_603_486,
            0.008_333_333_333_502_318,
            0.001_388_888_892_700_936,
            0.000_198_412_694_616_711_67,
            2.480_150_838_884_581_7e-5,
            2.755_764_437_432_656_4e-6,
            2.762_531_331_340_213_5e-7,
            2.497_748_317_165_240_2e-8,
        ],
    );
    (p * r).mul_add(r, r)
}

/// `exp(x)`.
#[inline(always)]
pub fn exp_f64(x: f64) -> f64 {
    let x = select(x > 710.0, 710.0, x);
    exp_negative_f64(x)
}

/// `exp(x)` for `x ≤ 710`.
#[inline(always)]
pub(super) fn exp_negative_f64(x: f64) -> f64 {
    let (r, scale) = reduce_f64(select(x < -746.0, -746.0, x));
    (1.0 + expm1_poly_f64(r)) * scale.0 * scale.1
}

/// `1 / (1 + exp(-x))`.
#[inline(always)]
pub fn sigmoid_f64(x: f64) -> f64 {
    let e = exp_negative_f64(-x.abs());
    select(x < 0.0, e, 1.0) / (1.0 + e)
}

/// `x / (1 + exp(-x))`; NaN at -∞, as the formula has it.
#[inline(always)]
pub fn silu_f64(x: f64) -> f64 {
    let z = x.abs();
    let (r, scale) = reduce_f64(-select(z > 760.0, 760.0, z));
    let p = expm1_poly_f64(r);
    let e = (p + 1.0) * scale.0 * scale.1;
    let sum = 1.0 + e;
    let lost = (e - (sum - 1.0)) * e.mul_add(-0.5, 1.0);
    let factor = (-lost).mul_add(p + 1.0, p);
    let y = select(x < -760.0, -760.0, x);
    let negative = x < 0.0;
    let quotient = select(negative, y.mul_add(factor, y) * scale.0, x) / sum;
    let y = quotient * select(negative, scale.1, 1.0);
    select(x == f64::NEG_INFINITY, f64::NAN, y)
}
