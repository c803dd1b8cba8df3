//! Powers and roots.

use super::log::split;
use super::{horner_f64, select};

/// `1 / sqrt(x)`.
#[inline(always)]
pub fn rsqrt_f32(x: f32) -> f32 {
    1.0 / x.sqrt()
}

/// `1 / sqrt(x)`.
#[inline(always)]
pub fn rsqrt_f64(x: f64) -> f64 {
    1.0 / x.sqrt()
}

/// `x^y`, with the special cases of C.
#[inline(always)]
pub fn pow_f32(x: f32, y: f32) -> f32 {
    let z = x.abs();
    // 2^(y·log2 z) in double precision: the exponent is as large as 150, and its error counts whole.
    let (f, e) = split(z);
    let (f, e) = (f as f64, e as f64);
    let p = horner_f64(
        f,
        [
            1.442_695_040_892_577_4,
            -0.721_347_520_470_259,
            0.480_898_343_805_104_5,
            -0.360_673_751_647_622_83,
            0.288_539_457_967_882_8,
            -0.240_449_998_371_265_46,
            0.206_075_355_872_993_6,
            -0.180_302_012_138_891_96,
            0.160_901_866_281_009_41,
            -0.145_020_748_473_475_87,
            0.123_478_247_263_407_61,
            -0.111_682_710_337_880_77,
            0.157_794_080_946_937_14,
            -0.150_692_271_613_883_5,
        ],
    );
    let log = p.mul_add(f, e);
    let t = y as f64 * log;
    let t = select(t > 200.0, 200.0, t);
    let t = select(t < -200.0, -200.0, t);
    // Rounds to an integer and leaves the exponent field of its power in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0 + 1023.0;
    let rounded = t + ROUND;
    let r = t - (rounded - ROUND);
    let p = horner_f64(
        r,
        [
            1.0,
            0.693_147_180_548_027_2,
            0.240_226_506_981_426_72,
            0.055_504_109_360_845_37,
            0.009_618_128_610_823_331,
            0.001_333_345_404_025_267_8,
            0.000_154_038_274_602_984_62,
            1.530_938_031_178_673_4e-5,
            1.317_885_586_418_777_5e-6,
        ],
    );
    let size = (p * f64::from_bits(rounded.to_bits() << 52)) as f32;

    let whole = y.trunc() == y;
    let half = y * 0.5;
    let odd = whole & (half.trunc() != half);
    let negative = x.is_sign_negative();
    // Zero and infinity have no finite logarithm, and of 1 an infinite power is 1.
    let far = select((z == 0.0) == (y < 0.0), f32::INFINITY, 0.0);
    let size = select((z == 0.0) | (z == f32::INFINITY), far, size);
    let size = select(z == 1.0, 1.0, size);
    let signed = select(negative & odd, -size, size);
    // A negative number has no power that is not whole, except that zero and infinity do.
    let rootless = (x < 0.0) & (z < f32::INFINITY) & !whole;
    let result = select(rootless | x.is_nan() | y.is_nan(), f32::NAN, signed);
    select((x == 1.0) | (y == 0.0), 1.0, result)
}
