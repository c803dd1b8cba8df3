//! Logarithms.
//!
//! `x = 2^e · (1 + f)` with `-1/3 ≤ f < 1/3`, so that the two terms of `e·ln 2 + log(1 + f)` never
//! cancel by more than a factor of 1.5.

use super::exp::{LN2_HI, LN2_LO};
use super::{horner_f32, horner_f64, select};

/// The bits of 2/3, where a mantissa's range starts.
const TWO_THIRDS: u32 = 0x3f2a_aaab;

/// `f` and `e` of a positive finite number; `f` is exact.
#[inline(always)]
pub(super) fn split(x: f32) -> (f32, f32) {
    let tiny = x < f32::MIN_POSITIVE;
    let bits = select(tiny, x * 8_388_608.0, x).to_bits();
    let e = (bits.wrapping_sub(TWO_THIRDS) as i32) >> 23;
    let m = f32::from_bits(bits.wrapping_sub((e as u32) << 23));
    (m - 1.0, e as f32 - select(tiny, 23.0, 0.0))
}

/// `(log(1 + f) - f) / f²`, so that the logarithm is right to 2^-27.
#[inline(always)]
fn tail(f: f32) -> f32 {
    horner_f32(
        f,
        [
            -0.5,
            0.333_332_15,
            -0.249_998_05,
            0.200_104_43,
            -0.166_801_81,
            0.140_053_76,
            -0.121_883_556,
            0.139_865_03,
            -0.128_743_78,
        ],
    )
}

/// `y`, the logarithm of `x`, put right where `x` is not positive and finite.
#[inline(always)]
fn with_specials(x: f32, y: f32) -> f32 {
    let not_positive = select(x == 0.0, f32::NEG_INFINITY, f32::NAN);
    let y = select(x < f32::INFINITY, y, x);
    select(x <= 0.0, not_positive, y)
}

/// `log(x)`, the natural logarithm.
#[inline(always)]
pub fn log_f32(x: f32) -> f32 {
    let (f, e) = split(x);
    let low = (f * f).mul_add(tail(f), e * LN2_LO);
    with_specials(x, e.mul_add(LN2_HI, f + low))
}

/// `log2(x)`; exact for powers of two.
#[inline(always)]
pub fn log2_f32(x: f32) -> f32 {
    const HI: f32 = std::f32::consts::LOG2_E;
    const LO: f32 = 1.925_963e-8;
    let (f, e) = split(x);
    let low = (f * f * tail(f)).mul_add(HI, f * LO);
    with_specials(x, e + f.mul_add(HI, low))
}

/// `log10(x)`.
#[inline(always)]
pub fn log10_f32(x: f32) -> f32 {
    const HI: f32 = std::f32::consts::LOG10_E;
    const LO: f32 = -1.010_305e-8;
    const TWO_HI: f32 = std::f32::consts::LOG10_2;
    const TWO_LO: f32 = -1.432_098_9e-8;
    let (f, e) = split(x);
    let low = (f * f * tail(f)).mul_add(HI, f.mul_add(LO, e * TWO_LO));
    with_specials(x, e.mul_add(TWO_HI, f.mul_add(HI, low)))
}

/// `log(1 + x)`.
#[inline(always)]
pub fn log1p_f32(x: f32) -> f32 {
    // The exponent comes from the rounded sum, the rest from x itself.
    let e = ((1.0 + x).to_bits().wrapping_sub(TWO_THIRDS) as i32) >> 23;
    // 2^-128 is no float, so that a huge x comes down first.
    let huge = x > 1e30;
    let scaled = select(huge, x * 0.003_906_25, x);
    let e_scaled = e.wrapping_sub(select(huge, 8, 0));
    let scale = f32::from_bits((127i32.wrapping_sub(e_scaled) as u32) << 23);
    let f = scaled.mul_add(scale, scale - 1.0);
    let e = e as f32;
    let low = (f * f).mul_add(tail(f), e * LN2_LO);
    let y = e.mul_add(LN2_HI, f + low);
    let y = select(x < f32::INFINITY, y, x);
    let at_most_minus_one = select(x == -1.0, f32::NEG_INFINITY, f32::NAN);
    let y = select(x <= -1.0, at_most_minus_one, y);
    select(x == 0.0, x, y)
}

/// `log(1 + v)` for `v ≥ 0` to 2^-35 of its size, for results that become `f32`.
#[inline(always)]
pub(super) fn log1p_of_positive(v: f64) -> f64 {
    const TWO_THIRDS: u64 = 0x3fe5_5555_5555_5555;
    let e = (1.0 + v).to_bits().wrapping_sub(TWO_THIRDS) >> 52;
    let scale = f64::from_bits(1023u64.wrapping_sub(e) << 52);
    let f = v.mul_add(scale, scale - 1.0);
    // The exponent as a double: placed in the low bits of 2^52.
    let e = f64::from_bits(e | 0x4330_0000_0000_0000) - 4_503_599_627_370_496.0;
    let p = horner_f64(
        f,
        [
            -0.499_999_999_436_574_1,
            0.333_333_331_671_286_87,
            -0.250_000_146_004_401_7,
            0.200_000_274_915_965_75,
            -0.166_656_133_516_324_83,
            0.142_841_693_490_702_91,
            -0.125_321_270_944_479_17,
            0.111_511_400_725_949_2,
            -0.095_313_009_757_854_66,
            0.085_713_960_409_462_26,
            -0.115_037_122_525_998_1,
            0.109_025_193_369_007_55,
        ],
    );
    e.mul_add(std::f64::consts::LN_2, (f * f).mul_add(p, f))
}

/// `log(x)`, the natural logarithm.
#[inline(always)]
pub fn log_f64(x: f64) -> f64 {
    const TWO_THIRDS: u64 = 0x3fe5_5555_5555_5555;
    const LN2_LO: f64 = 2.319_046_813_846_299_6e-17;
    let tiny = x < f64::MIN_POSITIVE;
    let bits = select(tiny, x * 18_014_398_509_481_984.0, x).to_bits();
    // With 1024 added the exponent is positive, so that a logical shift serves where there is no
    // arithmetic one, and the low bits of 2^52 turn it into a double.
    let biased = bits.wrapping_sub(TWO_THIRDS).wrapping_add(1024 << 52) >> 52;
    let m = f64::from_bits(bits.wrapping_sub(biased.wrapping_sub(1024) << 52));
    let e = f64::from_bits(biased | 0x4330_0000_0000_0000) - (4_503_599_627_370_496.0 + 1024.0);
    let e = e - select(tiny, 54.0, 0.0);
    let f = m - 1.0;
    // log(1 + f) = 2·atanh(s) = 2s + s·t with s = f / (2 + f), and 2s = f - s·f.
    let s = f / (2.0 + f);
    let u = s * s;
    let p = horner_f64(
        u,
        [
            0.666_666_666_666_666,
            0.400_000_000_000_565_1,
            0.285_714_285_558_896_4,
            0.222_222_242_880_961_6,
            0.181_816_664_300_027_96,
            0.153_910_927_528_752_5,
            0.131_739_338_895_521_8,
            0.138_407_214_469_294_8,
        ],
    );
    let low = s.mul_add(p.mul_add(-u, f), e * -LN2_LO);
    let y = e.mul_add(std::f64::consts::LN_2, f - low);
    let not_positive = select(x == 0.0, f64::NEG_INFINITY, f64::NAN);
    let y = select(x < f64::INFINITY, y, x);
    select(x <= 0.0, not_positive, y)
}
