//! The error function, and what is built on it.
//!
//! The tail of the normal distribution is an exponential times a quotient that is right to the last
//! digit wherever it is not zero, so that erfc and the negative side of gelu do not cancel.

use super::exp::{Pow2, ROUND_BIASED, expm1_poly, expm1_poly_f64, reduce_minus_square, reduce_minus_square_f64};
use super::{horner_f32, horner_f64, select};

/// `erf(x)`.
#[inline(always)]
pub fn erf_f32(x: f32) -> f32 {
    let z = x.abs();
    let s = z * z;
    let p = horner_f32(
        s,
        [0.128_379_17, -0.376_126_26, 0.112_835_79, -0.026_853_347, 0.005_187_162, -0.000_799_785_37, 7.806_910_4e-5],
    );
    let small = p.mul_add(z, z);
    // Else 1 - 2^g, with g = log2(erfc z) a polynomial; from 3.92 on that rounds to 1.
    let y = select(z > 4.0, 4.0, z);
    let g = horner_f32(
        y,
        [-0.000_477_722_7, -1.626_105_1, -0.920_553_2, -0.148_831_74, 0.031_542_83, -0.004_261_566_3, 0.000_269_775_4],
    );
    let rounded = g + ROUND_BIASED;
    let r = g - (rounded - ROUND_BIASED);
    let p = horner_f32(r, [1.0, 0.693_146_94, 0.240_222_28, 0.055_507_77, 0.009_672_495, 0.001_325_419_9]);
    let scale = f32::from_bits(rounded.to_bits() << 23);
    let large = (-p).mul_add(scale, 1.0);
    select(z < 1.0, small, large).copysign(x)
}

/// `2^n · exp(r) · times · N(z) / D(z)`. The quotient is taken in double precision: it is a product of
/// several roundings otherwise.
#[inline(always)]
fn tail(times: f32, z: f32, (r, scale): (f32, Pow2), n: [f64; 5], d: [f64; 6]) -> f32 {
    let z = z as f64;
    let numerator = horner_f64(z, n);
    let denominator = horner_f64(z, d);
    let quotient = (times as f64 * numerator / denominator) as f32;
    quotient.mul_add(expm1_poly(r), quotient) * scale.0 * scale.1
}

/// `erfc(z)·exp(z²)` for `0 ≤ z ≤ 10.1`, to 2^-27.
const ERFC_N: [f64; 5] =
    [1.0000000058357204, 1.2388820556749716, 0.7320998931474723, 0.22945582312461094, 0.0328465578348882];
const ERFC_D: [f64; 6] =
    [1.0, 2.367261809248661, 2.403259354799526, 1.32629433089222, 0.40672604187988165, 0.058218316665803335];

/// `Φ(-z)·exp(z²/2)` for `0 ≤ z ≤ 14.5`, to 2^-27.
const PHI_N: [f64; 5] =
    [0.5000000029757854, 0.43831203318629813, 0.18324831107854928, 0.040637816206414906, 0.004117033037884795];
const PHI_D: [f64; 6] =
    [1.0, 1.674509049611299, 1.2025567351996551, 0.4695055340696272, 0.10187034260993935, 0.010319751753851468];

/// `erfc(x) = 1 - erf(x)`.
#[inline(always)]
pub fn erfc_f32(x: f32) -> f32 {
    let z = x.abs();
    // erfc(10.06) rounds to zero.
    let z = select(z > 10.1, 10.1, z);
    let tail = tail(1.0, z, reduce_minus_square(z, 1.0), ERFC_N, ERFC_D);
    select(x < 0.0, 2.0 - tail, tail)
}

/// `x·Φ(x)`, with Φ the normal distribution; NaN at -∞, as the formula with erf has it.
#[inline(always)]
pub fn gelu_f32(x: f32) -> f32 {
    let z = x.abs();
    // 14.4·Φ(-14.4) rounds to zero.
    let z = select(z > 14.45, 14.45, z);
    let tail = tail(z, z, reduce_minus_square(z, 0.5), PHI_N, PHI_D);
    // x·Φ(x) is x - x·Φ(-x) for a positive x.
    let y = (select(x > 0.0, x, 0.0) - tail).copysign(x);
    select(x == f32::NEG_INFINITY, f32::NAN, y)
}

/// `erfc(y)·exp(y²)·(y + 1)` for `0 ≤ y ≤ 27.3` in powers of `(y - 4) / (y + 4)`, to 2^-54. It is flat,
/// so that an error of its argument counts for little.
const ERFC_FLAT: [f64; 25] = [
    0.684_997_288_125_306_9,
    -0.199_344_582_800_367_07,
    0.117_049_665_510_442_48,
    -0.048_080_381_221_308_16,
    0.003_962_055_681_289_495,
    0.015_312_509_679_302_555,
    -0.017_515_654_646_471_014,
    0.012_161_784_753_177_652,
    -0.006_068_735_221_011_483,
    0.002_116_421_580_414_901,
    -0.000_389_767_472_304_286_8,
    -6.013_674_096_258_16e-5,
    6.403_265_877_242_13e-5,
    -1.315_129_856_249_465_6e-5,
    -4.138_235_481_249_437_5e-6,
    2.650_811_545_266_648e-6,
    3.858_829_387_137_596e-9,
    -3.653_494_229_174_342e-7,
    5.116_484_117_608_575e-8,
    4.848_240_468_827_377e-8,
    -1.080_555_967_715_557_4e-8,
    -7.006_884_001_685_144e-9,
    1.063_241_352_525_473_1e-9,
    8.896_813_275_884_622e-10,
    9.712_361_642_248_821e-11,
];

/// `times · erfc(y)` with `y² = k·z²`; the exponential takes the exact square of `z`.
#[inline(always)]
fn tail_f64(times: f64, y: f64, z: f64, k: f64) -> f64 {
    let (r, scale) = reduce_minus_square_f64(z, k);
    let u = (y - 4.0) / (y + 4.0);
    let flat = horner_f64(u, ERFC_FLAT);
    let quotient = times * flat / (y + 1.0);
    quotient.mul_add(expm1_poly_f64(r), quotient) * scale.0 * scale.1
}

/// `erf(x)`.
#[inline(always)]
pub fn erf_f64(x: f64) -> f64 {
    let z = x.abs();
    let s = z * z;
    let p = horner_f64(
        s,
        [
            0.128_379_167_095_512_6,
            -0.376_126_389_031_840_9,
            0.112_837_916_709_707_08,
            -0.026_866_170_647_952_62,
            0.005_223_977_651_946_071,
            -0.000_854_832_849_580_664,
            0.000_120_553_848_765_677_81,
            -1.492_685_366_166_849_3e-5,
            1.648_067_779_045_230_8e-6,
            -1.655_379_149_756_927_4e-7,
            1.599_550_891_354_057_6e-8,
            -1.641_440_636_744_873_7e-9,
            1.428_869_915_856_886_6e-10,
        ],
    );
    let small = p.mul_add(z, z);
    let y = select(z > 6.5, 6.5, z);
    let large = 1.0 - tail_f64(1.0, y, y, 1.0);
    select(z < 1.0, small, large).copysign(x)
}

/// `erfc(x) = 1 - erf(x)`.
#[inline(always)]
pub fn erfc_f64(x: f64) -> f64 {
    let z = x.abs();
    let z = select(z > 27.3, 27.3, z);
    let tail = tail_f64(1.0, z, z, 1.0);
    select(x < 0.0, 2.0 - tail, tail)
}

/// `x·Φ(x)`, with Φ the normal distribution; NaN at -∞, as the formula with erf has it.
#[inline(always)]
pub fn gelu_f64(x: f64) -> f64 {
    let z = x.abs();
    let z = select(z > 38.6, 38.6, z);
    let tail = tail_f64(0.5 * z, z * std::f64::consts::FRAC_1_SQRT_2, z, 0.5);
    let y = (select(x > 0.0, x, 0.0) - tail).copysign(x);
    select(x == f64::NEG_INFINITY, f64::NAN, y)
}
