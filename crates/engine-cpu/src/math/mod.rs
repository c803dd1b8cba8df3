//! Elementwise mathematics as scalar functions that vectorise.
//!
//! Each function is `#[inline(always)]` straight-line code: a loop over it, inside a function compiled
//! for AVX-512, AVX2 with FMA, or NEON, becomes vector code without calls. There is no table, no branch
//! and no state; both sides of a choice are computed and one is taken.
//!
//! MATH-1: the result depends on the arguments only, on every instruction set. Every step is an IEEE
//! operation, and `mul_add` is asked for where it is wanted and rounds once everywhere (without FMA in
//! the hardware it is slow, not different).
//! MATH-2: zeros keep their sign, denormal arguments and results are exact to the same bound as others,
//! overflow is infinite, and a NaN gives a NaN (of unspecified bits), but `pow(1, NaN)` and
//! `pow(NaN, 0)` are 1.
//! MATH-3: no result is further from the true one, rounded, than the table says. Distances count
//! representable numbers ("ulp"). Functions of one f32 were checked on every argument from 2^-30 to where
//! the result saturates, and on every 37th outside; the others are the largest distances seen in samples,
//! for f64 against a library that is itself within 1.
//!
//! | function | f32 | f64 | f64 vectorises |
//! |---|---|---|---|
//! | exp | 1 | 1 | yes |
//! | log | 1 | 1 | yes |
//! | tanh | 1 | 2 | yes |
//! | sigmoid | 2 | 4 | yes |
//! | silu | 2 | 3 | yes |
//! | sin, cos | 2 | 2 | yes |
//! | erf | 1 | 1 | yes |
//! | erfc, gelu | 2 | 4 | yes |
//! | exp2, tan, acos, atan, atan2, cosh, pow | 1 | platform | no |
//! | asinh, acosh, atanh | 1 | platform | no |
//! | expm1, log2, log10, log1p, asin, sinh | 2 | platform | no |
//! | rsqrt | 1 | 1 | yes |
//! | fmod, remainder | 0 | 0 | no |
//! | floor_divide | 0 | 1 | no |
//! | round_ties_even | 0 | 0 | yes |
//!
//! "Platform" is the row's own function, which calls the C library of the machine, an element at a time.
//!
//! Two families have a range beyond which they need more digits than a vector lane has: the angle of
//! sin, cos and tan ([`is_wide_angle_f32`], [`is_wide_angle_f64`]) and the quotient of fmod and
//! remainder ([`is_wide_quotient_f32`]). A loop redoes the elements beyond it, and only them, by the
//! function of the same name with `wide`.

mod erf;
mod exp;
mod hyperbolic;
mod log;
mod pow;
mod remainder;
mod trig;
pub use erf::*;
pub use exp::*;
pub use hyperbolic::*;
pub use log::*;
pub use pow::*;
pub use remainder::*;
pub use trig::*;

/// `if c { a } else { b }` on values, which compiles to a blend.
#[inline(always)]
fn select<T>(c: bool, a: T, b: T) -> T {
    if c { a } else { b }
}

/// The polynomial with these coefficients, constant first.
#[inline(always)]
fn horner_f32<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut p = coefficients[N - 1];
    for i in (0..N - 1).rev() {
        p = p.mul_add(x, coefficients[i]);
    }
    p
}

/// The polynomial with these coefficients, constant first.
#[inline(always)]
fn horner_f64<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut p = coefficients[N - 1];
    for i in (0..N - 1).rev() {
        p = p.mul_add(x, coefficients[i]);
    }
    p
}
