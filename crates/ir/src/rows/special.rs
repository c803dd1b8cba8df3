//! Special functions that no library of ours has, each in Rust and in C: by the same steps, in double precision whatever the
//! dtype.
//!
//! SPECIAL-1: relative errors stay below 1e-14 where the function is not near a zero; loops end after a number of steps that
//! is bounded whatever the argument is.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

/// The polynomial with these coefficients, highest power first.
fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

/// The derivative of the logarithm of the gamma function.
pub(super) fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return -1.0 / x;
    }
    let (mut y, mut below) = (x, 0.0);
    if x < 0.0 {
        if x == x.floor() {
            return f64::NAN;
        }
        // ψ(x) = ψ(1 - x) - π / tan(πx), and whole turns of the angle only cost digits.
        below = PI / (PI * (x - x.round())).tan();
        y = 1.0 - x;
    }
    while y < 10.0 {
        below += 1.0 / y;
        y += 1.0;
    }
    let z = 1.0 / (y * y);
    let bernoulli = [1.0 / 12.0, -691.0 / 32760.0, 1.0 / 132.0, -1.0 / 240.0, 1.0 / 252.0, -1.0 / 120.0, 1.0 / 12.0];
    y.ln() - 0.5 / y - z * polynomial(z, &bernoulli) - below
}

pub(super) const DIGAMMA: &str = "\
    if (x == 0) return -1 / x; \
    double y = x, below = 0, pi = 3.14159265358979323846; \
    if (y < 0) { if (y == floor(y)) return NAN; below = pi / tan(pi * (y - round(y))); y = 1 - y; } \
    while (y < 10) { below += 1 / y; y += 1; } \
    double z = 1 / (y * y), sum = 1.0 / 12; \
    sum = sum * z - 691.0 / 32760; sum = sum * z + 1.0 / 132; sum = sum * z - 1.0 / 240; \
    sum = sum * z + 1.0 / 252; sum = sum * z - 1.0 / 120; sum = sum * z + 1.0 / 12; \
    return log(y) - 0.5 / y - z * sum - below;";

/// The largest order of [`polygamma`]: the factorial of the next one is no double.
const MOST_DERIVATIVES: f64 = 170.0;

/// The derivative of order `n` of [`digamma`], for whole `n` from 1; it has no slope along `n`, which is rounded.
pub(super) fn polygamma(n: f64, x: f64) -> f64 {
    let n = n.round_ties_even();
    if !(1.0..=MOST_DERIVATIVES).contains(&n) || x.is_nan() {
        return f64::NAN;
    }
    let order = n as usize;
    let odd = if order % 2 == 1 { 1.0 } else { -1.0 };
    let (mut y, mut reflected, mut sign) = (x, 0.0, odd);
    if x <= 0.0 {
        if x == x.floor() {
            return odd * f64::INFINITY;
        }
        // ψₙ(x) = (-1)ⁿ ψₙ(1 - x) - dⁿ/dxⁿ π cot(πx). The derivative of a polynomial p of cot(πx) = c is
        // -π (1 + c²) p'(c).
        let c = 1.0 / (PI * (x - x.round())).tan();
        let mut p = [0.0; MOST_DERIVATIVES as usize + 2];
        (p[1], reflected) = (1.0, -PI);
        for degree in 1..=order {
            for k in 0..=degree {
                p[k] = (k + 1) as f64 * p[k + 1];
            }
            p[degree] = 0.0;
            for k in (2..=degree + 1).rev() {
                p[k] += p[k - 2];
            }
            reflected *= -PI;
        }
        let mut sum = 0.0;
        for k in (0..=order + 1).rev() {
            sum = sum * c + p[k];
        }
        (reflected, y, sign) = (reflected * sum, 1.0 - x, -1.0);
    }
    let mut sum = 0.0;
    while y < n + 16.0 {
        sum += y.powf(-n - 1.0);
        y += 1.0;
    }
    // B₂ₖ / (2k)!, and beside it the product of n + 1 to n + 2k - 1.
    let (mut tail, mut power) = (1.0 / n + 0.5 / y, (n + 1.0) / (y * y));
    for (k, b) in BERNOULLI.into_iter().enumerate() {
        tail += b * power;
        let i = 2.0 * k as f64 + 2.0;
        power *= (n + i) * (n + i + 1.0) / (y * y);
    }
    sum += y.powf(-n) * tail;
    let factorial: f64 = (1..=order).map(|i| i as f64).product();
    sign * factorial * sum + reflected
}

const BERNOULLI: [f64; 9] = [
    8.333_333_333_333_333e-2,
    -1.388_888_888_888_889e-3,
    3.306_878_306_878_307e-5,
    -8.267_195_767_195_768e-7,
    2.087_675_698_786_81e-8,
    -5.284_190_138_687_493e-10,
    1.338_253_653_068_467_9e-11,
    -3.389_680_296_322_583e-13,
    8.586_062_056_277_845e-15,
];

pub(super) const POLYGAMMA: &str = "\
    double n = rint(x), v = y, pi = 3.14159265358979323846; \
    if (!(n >= 1 && n <= 170) || v != v) return NAN; \
    int order = (int)n; double odd = order % 2 ? 1 : -1, sign = odd, reflected = 0; \
    if (v <= 0) { if (v == floor(v)) return odd * INFINITY; \
      double c = 1 / tan(pi * (v - round(v))), p[172] = { 0 }, all = 0; p[1] = 1; reflected = -pi; \
      for (int degree = 1; degree <= order; degree++) { \
        for (int k = 0; k <= degree; k++) p[k] = (k + 1) * p[k + 1]; \
        p[degree] = 0; \
        for (int k = degree + 1; k >= 2; k--) p[k] += p[k - 2]; \
        reflected *= -pi; } \
      for (int k = order + 1; k >= 0; k--) all = all * c + p[k]; \
      reflected *= all; v = 1 - v; sign = -1; } \
    double sum = 0, factorial = 1; \
    while (v < n + 16) { sum += pow(v, -n - 1); v += 1; } \
    double tail = 1 / n + 0.5 / v, power = (n + 1) / (v * v); \
    static const double b[9] = { 8.333333333333333e-2, -1.388888888888889e-3, 3.306878306878307e-5, \
      -8.267195767195768e-7, 2.08767569878681e-8, -5.284190138687493e-10, 1.3382536530684679e-11, \
      -3.389680296322583e-13, 8.586062056277845e-15 }; \
    for (int k = 0; k < 9; k++) { tail += b[k] * power; power *= (n + 2 * k + 2) * (n + 2 * k + 3) / (v * v); } \
    sum += pow(v, -n) * tail; \
    for (int k = 1; k <= order; k++) factorial *= k; \
    return sign * factorial * sum + reflected;";

/// A term this small beside the sum changes no digit of it, nor do those after it.
const SMALL: f64 = 1e-17;

/// The modified Bessel function of the first kind, of order 0 or 1, for `x >= 0`.
fn bessel_i(order: f64, x: f64) -> f64 {
    if x == f64::INFINITY {
        return x;
    }
    let (mut term, mut sum) = (1.0, 1.0);
    if x > 30.0 {
        for k in 1..30 {
            let k = f64::from(k);
            term *= ((2.0 * k - 1.0) * (2.0 * k - 1.0) - 4.0 * order) / (8.0 * k * x);
            sum += term;
            if term.abs() < SMALL {
                break;
            }
        }
        // The exponential in two halves: all of it may be infinite where the result is not.
        let half = (0.5 * x).exp();
        return half * (half * sum / (2.0 * PI * x).sqrt());
    }
    let square = 0.25 * x * x;
    for k in 1..80 {
        term *= square / (f64::from(k) * (f64::from(k) + order));
        sum += term;
        if term < SMALL * sum {
            break;
        }
    }
    if order == 1.0 { 0.5 * x * sum } else { sum }
}

/// The modified Bessel function of order 0.
pub(super) fn bessel_i0(x: f64) -> f64 {
    bessel_i(0.0, x.abs())
}

/// The modified Bessel function of order 1.
pub(super) fn bessel_i1(x: f64) -> f64 {
    bessel_i(1.0, x.abs()).copysign(x)
}

macro_rules! bessel_in_c {
    ($order:literal, $result:literal) => {
        concat!(
            "double a = fabs((double)x), term = 1, sum = 1; const int order = ",
            $order,
            "; if (a == INFINITY) return x * x * (order ? x : 1); \
            if (a > 30) { \
              for (int k = 1; k < 30; k++) { \
                term *= ((2 * k - 1.0) * (2 * k - 1.0) - 4 * order) / (8.0 * k * a); sum += term; \
                if (fabs(term) < 1e-17) break; } \
              double half = exp(0.5 * a); sum = half * (half * sum / sqrt(2 * 3.14159265358979323846 * a)); \
              return order && x < 0 ? -sum : sum; } \
            for (int k = 1; k < 80; k++) { \
              term *= 0.25 * a * a / ((double)k * (k + order)); sum += term; if (term < 1e-17 * sum) break; } \
            return ",
            $result,
            ";"
        )
    };
}

pub(super) const BESSEL_I0: &str = bessel_in_c!("0", "sum");
pub(super) const BESSEL_I1: &str = bessel_in_c!("1", "0.5 * x * sum");

// Giles' approximation to single precision: of w - 2.5 and of sqrt(w) - 3, where w = -log(1 - x²).
const CENTRE: [f64; 9] = [
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
];
const TAIL: [f64; 9] = [
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
];

/// The number whose `erf` is `x`.
pub(super) fn erfinv(x: f64) -> f64 {
    let size = x.abs();
    if size >= 1.0 {
        return if size == 1.0 { x * f64::INFINITY } else { f64::NAN };
    }
    let rest = 1.0 - size;
    let w = -(rest * (1.0 + size)).ln();
    let mut y = match w {
        ..5.0 => size * polynomial(w - 2.5, &CENTRE),
        5.0..16.0 => size * polynomial(w.sqrt() - 3.0, &TAIL),
        // There is no more to single precision; from here on, erfc(y) is about exp(-y²) / (y sqrt(π)).
        _ => (-rest.ln() - 0.5 * (-PI * rest.ln()).ln()).sqrt(),
    };
    for _ in 0..2 {
        // Towards 1, what is missing to it says more than the number itself.
        let missed = if size < 0.5 { libm::erf(y) - size } else { rest - libm::erfc(y) };
        let step = missed / (FRAC_2_SQRT_PI * (-y * y).exp());
        y -= step / (1.0 + y * step);
    }
    y.copysign(x)
}

pub(super) const ERFINV: &str = "\
    double size = fabs((double)x), rest = 1 - size; \
    if (!(size < 1)) return size == 1 ? x * INFINITY : NAN; \
    static const double centre[9] = { 2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, \
      -0.00125372503, -0.00417768164, 0.246640727, 1.50140941 }; \
    static const double tail[9] = { -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, \
      -0.0076224613, 0.00943887047, 1.00167406, 2.83297682 }; \
    double w = -log(rest * (1 + size)), at = w < 5 ? w - 2.5 : sqrt(w) - 3, y = 0; \
    for (int i = 0; i < 9; i++) y = y * at + (w < 5 ? centre[i] : tail[i]); \
    y *= size; \
    if (w >= 16) y = sqrt(-log(rest) - 0.5 * log(-3.14159265358979323846 * log(rest))); \
    for (int i = 0; i < 2; i++) { \
      double missed = size < 0.5 ? erf(y) - size : rest - erfc(y); \
      double step = missed / (1.12837916709551257390 * exp(-y * y)); \
      y -= step / (1 + y * step); } \
    return x < 0 ? -y : y;";
