//! Trigonometric functions and their inverses.
//!
//! The angle is reduced in double precision: `|x| = n·π/2 + r` holds to 2^-58 for every float up to
//! [`ANGLE_LIMIT_F32`]. Beyond it (where π/2 would need hundreds of digits) a caller takes the `wide`
//! functions, which give the same bits below it.

use super::{horner_f32, horner_f64, select};

/// The largest angle that `sin_f32`, `cos_f32` and `tan_f32` reduce; beyond it their results are
/// numbers without meaning, and [`sin_wide_f32`] and its kin are right.
pub const ANGLE_LIMIT_F32: f32 = 281_474_976_710_656.0;

/// Whether an angle needs a `wide` function.
#[inline(always)]
pub fn is_wide_angle_f32(x: f32) -> bool {
    x.abs() > ANGLE_LIMIT_F32
}

/// `r` of `|x|`, and the quadrant in the two low bits.
#[inline(always)]
fn reduce(x: f32) -> (f64, u32) {
    // Adding it rounds to an integer, which then is in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const HALF_PI_REST: f64 = 6.123_233_995_736_766e-17;
    let z = x.abs() as f64;
    let rounded = z.mul_add(std::f64::consts::FRAC_2_PI, ROUND);
    let n = rounded - ROUND;
    let r = n.mul_add(-HALF_PI_REST, n.mul_add(-std::f64::consts::FRAC_PI_2, z));
    (r, rounded.to_bits() as u32)
}

/// `sin(r)` in even quadrants and `cos(r)` in odd ones, negated in the last two.
#[inline(always)]
fn sin_of_reduced(r: f64, quadrant: u32) -> f32 {
    let r = r as f32;
    let s = r * r;
    let p = horner_f32(s, [-0.166_666_55, 0.008_332_187, -0.000_195_179_09]);
    let sin = (p * s).mul_add(r, r);
    let cos = horner_f32(s, [1.0, -0.5, 0.041_666_646, -0.001_388_731, 2.443_233_6e-5]);
    let y = select(quadrant & 1 == 0, sin, cos);
    f32::from_bits(y.to_bits() ^ ((quadrant & 2) << 30))
}

/// `sin(x)` up to [`ANGLE_LIMIT_F32`].
#[inline(always)]
pub fn sin_f32(x: f32) -> f32 {
    let (r, quadrant) = reduce(x);
    let y = sin_of_reduced(r, quadrant);
    f32::from_bits(y.to_bits() ^ (x.to_bits() & 0x8000_0000))
}

/// `cos(x)` up to [`ANGLE_LIMIT_F32`].
#[inline(always)]
pub fn cos_f32(x: f32) -> f32 {
    let (r, quadrant) = reduce(x);
    sin_of_reduced(r, quadrant.wrapping_add(1))
}

/// `tan(x)` up to [`ANGLE_LIMIT_F32`].
#[inline(always)]
pub fn tan_f32(x: f32) -> f32 {
    let (r, quadrant) = reduce(x);
    // A quotient of rounded floats would be three roundings off; doubles make it one.
    let s = r * r;
    let p = horner_f64(
        s,
        [
            -0.166_666_666_666_298_84,
            0.008_333_333_324_997_121,
            -0.000_198_412_636_854_620_66,
            2.755_533_058_548_998e-6,
            -2.475_980_061_939_643e-8,
        ],
    );
    let sin = (p * s).mul_add(r, r);
    let cos = horner_f64(
        s,
        [
            0.999_999_999_999_933_5,
            -0.499_999_999_992_641_05,
            0.041_666_666_532_645_2,
            -0.001_388_887_988_127_310_1,
            2.479_883_339_219_330_4e-5,
            -2.716_721_084_669_290_5e-7,
        ],
    );
    let odd = quadrant & 1 != 0;
    let y = (select(odd, -cos, sin) / select(odd, sin, cos)) as f32;
    f32::from_bits(y.to_bits() ^ (x.to_bits() & 0x8000_0000))
}

/// `sin(x)` of every float; an element at a time.
pub fn sin_wide_f32(x: f32) -> f32 {
    if is_wide_angle_f32(x) { (x as f64).sin() as f32 } else { sin_f32(x) }
}

/// `cos(x)` of every float; an element at a time.
pub fn cos_wide_f32(x: f32) -> f32 {
    if is_wide_angle_f32(x) { (x as f64).cos() as f32 } else { cos_f32(x) }
}

/// `tan(x)` of every float; an element at a time.
pub fn tan_wide_f32(x: f32) -> f32 {
    if is_wide_angle_f32(x) { (x as f64).tan() as f32 } else { tan_f32(x) }
}

/// `asin(z) - z` for `0 ≤ z ≤ 1/2` with `s = z²`.
#[inline(always)]
fn asin_tail(z: f32, s: f32) -> f32 {
    let p = horner_f32(s, [0.166_666_6, 0.075_005_196, 0.044_514_194, 0.031_829_588, 0.014_358_965, 0.037_625_395]);
    p * s * z
}

/// π/2 as a float and the rest of it.
const HALF_PI_HI: f32 = std::f32::consts::FRAC_PI_2;
const HALF_PI_LO: f32 = -4.371_139e-8;

/// `asin(x)`.
#[inline(always)]
pub fn asin_f32(x: f32) -> f32 {
    let z = x.abs();
    // Near 1: π/2 - 2·asin(sqrt((1 - z) / 2)).
    let far = z > 0.5;
    let half_rest = z.mul_add(-0.5, 0.5);
    let s = select(far, half_rest, z * z);
    let w = select(far, half_rest.sqrt(), z);
    let tail = asin_tail(w, s);
    let from_top = w.mul_add(-2.0, HALF_PI_HI) - tail.mul_add(2.0, -HALF_PI_LO);
    select(far, from_top, w + tail).copysign(x)
}

/// `acos(x)`.
#[inline(always)]
pub fn acos_f32(x: f32) -> f32 {
    let z = x.abs();
    let far = z > 0.5;
    let half_rest = z.mul_add(-0.5, 0.5);
    let s = select(far, half_rest, z * z);
    let w = select(far, half_rest.sqrt(), z);
    let p = w + asin_tail(w, s);
    let near = HALF_PI_HI - (p.copysign(x) - HALF_PI_LO);
    let negative = 2.0 * (HALF_PI_HI - (p - HALF_PI_LO));
    select(far, select(x < 0.0, negative, p + p), near)
}

/// `atan(z)` for `0 ≤ z ≤ 1`.
#[inline(always)]
fn atan_poly(z: f32) -> f32 {
    let s = z * z;
    let p = horner_f32(
        s,
        [
            -0.333_333,
            0.199_985_31,
            -0.142_640_55,
            0.109_512_046,
            -0.084_005_93,
            0.057_908_915,
            -0.031_129_582,
            0.010_888_809,
            -0.001_787_876_2,
        ],
    );
    (p * s).mul_add(z, z)
}

/// `atan(x)`.
#[inline(always)]
pub fn atan_f32(x: f32) -> f32 {
    let z = x.abs();
    let far = z > 1.0;
    let p = atan_poly(select(far, 1.0 / z, z));
    select(far, HALF_PI_HI - (p - HALF_PI_LO), p).copysign(x)
}

/// `atan2(y, x)`: the angle of the point `(x, y)`.
#[inline(always)]
pub fn atan2_f32(y: f32, x: f32) -> f32 {
    let (height, width) = (y.abs(), x.abs());
    let steep = height > width;
    let near = select(steep, width, height);
    let far = select(steep, height, width);
    // Equal ones, also two infinities, make 45°; two zeros make 0.
    let ratio = select(near == far, 1.0, near / far);
    let p = atan_poly(select(far == 0.0, 0.0, ratio));
    // Counted from the axis that is nearest: up, left or right.
    let left = x.is_sign_negative();
    let quarters: f32 = select(steep, 1.0, select(left, 2.0, 0.0));
    let signed = select(steep != left, -p, p);
    let angle = quarters.mul_add(HALF_PI_HI, quarters.mul_add(HALF_PI_LO, signed)).copysign(y);
    select(x.is_nan() | y.is_nan(), f32::NAN, angle)
}

/// The largest angle that `sin_f64` and `cos_f64` reduce.
pub const ANGLE_LIMIT_F64: f64 = 68_719_476_736.0;

/// Whether an angle needs a `wide` function.
#[inline(always)]
pub fn is_wide_angle_f64(x: f64) -> bool {
    x.abs() > ANGLE_LIMIT_F64
}

/// `sin(|x| + quarters·π/2)`.
#[inline(always)]
fn sin_plus_quarters_f64(x: f64, quarters: u64) -> f64 {
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let z = x.abs();
    let rounded = z.mul_add(std::f64::consts::FRAC_2_PI, ROUND);
    let n = rounded - ROUND;
    // π/2 in three parts. The first difference is exact, and the others round to what is left.
    let r = n.mul_add(-std::f64::consts::FRAC_PI_2, z);
    let r = n.mul_add(-6.123_233_995_736_766e-17, r);
    let r = n.mul_add(1.497_384_904_859_169_8e-33, r);
    let quadrant = rounded.to_bits().wrapping_add(quarters);
    let s = r * r;
    let p = horner_f64(
        s,
        [
            -0.166_666_666_666_666_3,
            0.008_333_333_333_321_884,
            -0.000_198_412_698_294_153_16,
            2.755_731_356_373_289e-6,
            -2.505_073_900_924_275_7e-8,
            1.589_573_287_782_823_7e-10,
        ],
    );
    let sin = (p * s).mul_add(r, r);
    let cos = horner_f64(
        s,
        [
            1.0,
            -0.5,
            0.041_666_666_666_666_595,
            -0.001_388_888_888_887_330_7,
            2.480_158_728_896_518_3e-5,
            -2.755_731_420_305_039_7e-7,
            2.087_570_313_373_753e-9,
            -1.135_861_662_256_290_3e-11,
        ],
    );
    let y = select(quadrant & 1 == 0, sin, cos);
    f64::from_bits(y.to_bits() ^ ((quadrant & 2) << 62))
}

/// `sin(x)` up to [`ANGLE_LIMIT_F64`].
#[inline(always)]
pub fn sin_f64(x: f64) -> f64 {
    let y = sin_plus_quarters_f64(x, 0);
    f64::from_bits(y.to_bits() ^ (x.to_bits() & (1 << 63)))
}

/// `cos(x)` up to [`ANGLE_LIMIT_F64`].
#[inline(always)]
pub fn cos_f64(x: f64) -> f64 {
    sin_plus_quarters_f64(x, 1)
}

/// `sin(x)` of every double; an element at a time.
pub fn sin_wide_f64(x: f64) -> f64 {
    if is_wide_angle_f64(x) { x.sin() } else { sin_f64(x) }
}

/// `cos(x)` of every double; an element at a time.
pub fn cos_wide_f64(x: f64) -> f64 {
    if is_wide_angle_f64(x) { x.cos() } else { cos_f64(x) }
}
