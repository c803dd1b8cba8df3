//! Functions of doubles that come from the platform's library, an element at a time: they are rare,
//! and their results then are those of every other program on the machine.

macro_rules! platform {
    ($($(#[$doc:meta])* $name:ident = $method:ident;)*) => {
        $($(#[$doc])* #[inline(always)] pub fn $name(x: f64) -> f64 { x.$method() })*
    };
}

platform! {
    /// `2^x`.
    exp2_f64 = exp2;
    /// `exp(x) - 1`.
    expm1_f64 = exp_m1;
    /// `log2(x)`.
    log2_f64 = log2;
    /// `log10(x)`.
    log10_f64 = log10;
    /// `log(1 + x)`.
    log1p_f64 = ln_1p;
    /// `tan(x)`.
    tan_f64 = tan;
    /// `asin(x)`.
    asin_f64 = asin;
    /// `acos(x)`.
    acos_f64 = acos;
    /// `atan(x)`.
    atan_f64 = atan;
    /// `sinh(x)`.
    sinh_f64 = sinh;
    /// `cosh(x)`.
    cosh_f64 = cosh;
    /// `asinh(x)`.
    asinh_f64 = asinh;
    /// `acosh(x)`.
    acosh_f64 = acosh;
    /// `atanh(x)`.
    atanh_f64 = atanh;
}

/// `x^y`, with the special cases of C.
#[inline(always)]
pub fn pow_f64(x: f64, y: f64) -> f64 {
    x.powf(y)
}

/// `atan2(y, x)`: the angle of the point `(x, y)`.
#[inline(always)]
pub fn atan2_f64(y: f64, x: f64) -> f64 {
    y.atan2(x)
}
