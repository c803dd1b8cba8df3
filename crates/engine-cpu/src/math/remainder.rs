//! Rounding, and division with a remainder.
//!
//! The quotient is taken in double precision, where it is off by one at most and the remainder that
//! goes with it is exact, as long as it is below 2^52. A larger quotient takes the `wide` functions.

use super::select;

/// Whether a quotient needs [`fmod_wide_f32`] or [`remainder_wide_f32`].
#[inline(always)]
pub fn is_wide_quotient_f32(x: f32, y: f32) -> bool {
    let q = x.abs() as f64 / y.abs() as f64;
    (q > 4_503_599_627_370_496.0) & (q < f64::INFINITY)
}

/// The nearest integer, an even one on a tie.
#[inline(always)]
pub fn round_ties_even_f32(x: f32) -> f32 {
    x.round_ties_even()
}

/// The nearest integer, an even one on a tie.
#[inline(always)]
pub fn round_ties_even_f64(x: f64) -> f64 {
    x.round_ties_even()
}

/// The remainder of `|x| / |y|`.
#[inline(always)]
fn remainder_of_sizes(x: f32, y: f32) -> f64 {
    let (a, b) = (x.abs() as f64, y.abs() as f64);
    let q = (a / b).trunc();
    let r = (-q).mul_add(b, a);
    let r = select(r < 0.0, r + b, r);
    let r = select(r >= b, r - b, r);
    // Infinity goes into no finite number, where the product above is 0·∞.
    select((b == f64::INFINITY) & (a < b), a, r)
}

/// The remainder with the sign of `x`; exact for quotients below 2^52.
#[inline(always)]
pub fn fmod_f32(x: f32, y: f32) -> f32 {
    (remainder_of_sizes(x, y) as f32).copysign(x)
}

/// The remainder with the sign of `y`, as in Python; from the exact one for quotients below 2^52.
#[inline(always)]
pub fn remainder_f32(x: f32, y: f32) -> f32 {
    with_sign_of_divisor_f32(fmod_f32(x, y), y)
}

#[inline(always)]
fn with_sign_of_divisor_f32(r: f32, y: f32) -> f32 {
    select((r != 0.0) & ((r < 0.0) != (y < 0.0)), r + y, r)
}

/// The quotient that goes with [`remainder_f32`], rounded: `x / y` towards minus infinity.
#[inline(always)]
pub fn floor_divide_f32(x: f32, y: f32) -> f32 {
    let (a, b) = (x as f64, y as f64);
    // Of a quotient too large for an exact remainder the remainder is no digit.
    let r = remainder_of_sizes(x, y);
    let r = select(r < b.abs(), r, 0.0).copysign(a);
    let q = ((a - r) / b).round_ties_even();
    let q = q - select((r != 0.0) & ((r < 0.0) != (b < 0.0)), 1.0, 0.0);
    let q = select(x.abs() == f32::INFINITY, f64::NAN, q);
    select(y == 0.0, x / y, q as f32)
}

/// The remainder with the sign of `x` for every quotient; an element at a time.
pub fn fmod_wide_f32(x: f32, y: f32) -> f32 {
    x % y
}

/// The remainder with the sign of `y` for every quotient; an element at a time.
pub fn remainder_wide_f32(x: f32, y: f32) -> f32 {
    with_sign_of_divisor_f32(x % y, y)
}

/// The remainder with the sign of `x`.
#[inline(always)]
pub fn fmod_f64(x: f64, y: f64) -> f64 {
    x % y
}

/// The remainder with the sign of `y`, as in Python.
#[inline(always)]
pub fn remainder_f64(x: f64, y: f64) -> f64 {
    let r = x % y;
    select((r != 0.0) & ((r < 0.0) != (y < 0.0)), r + y, r)
}

/// The quotient that goes with [`remainder_f64`]: `x / y` towards minus infinity.
#[inline(always)]
pub fn floor_divide_f64(x: f64, y: f64) -> f64 {
    let r = x % y;
    let q = ((x - r) / y).round_ties_even();
    let q = q - select((r != 0.0) & ((r < 0.0) != (y < 0.0)), 1.0, 0.0);
    let q = select(x.abs() == f64::INFINITY, f64::NAN, q);
    select(y == 0.0, x / y, q)
}
