//! Functions of one number.

use super::{Accepts, CBodies};
use crate::attr::choice;
use crate::rows::{BinaryKind, CompareKind};
use crate::{Emit, OpError, Val};

choice! {
    /// A function of one number.
    #[allow(missing_docs)]
    pub enum UnaryKind {
        Neg = "neg", Abs = "abs", Sign = "sign", Square = "square", Reciprocal = "reciprocal",
        Sqrt = "sqrt", Rsqrt = "rsqrt", Exp = "exp", Exp2 = "exp2", Expm1 = "expm1", Log = "log",
        Log2 = "log2", Log10 = "log10", Log1p = "log1p", Sin = "sin", Cos = "cos", Tan = "tan",
        Asin = "asin", Acos = "acos", Atan = "atan", Sinh = "sinh", Cosh = "cosh", Asinh = "asinh",
        Acosh = "acosh", Atanh = "atanh", Tanh = "tanh", Sigmoid = "sigmoid", Erf = "erf",
        Erfc = "erfc", Relu = "relu", Silu = "silu", Gelu = "gelu", Floor = "floor", Ceil = "ceil",
        Round = "round", Trunc = "trunc", LogicalNot = "logical_not", BitwiseNot = "bitwise_not",
        IsNan = "isnan", IsInf = "isinf", IsFinite = "isfinite",
    }
}

/// What the gradient of a unary function is written in terms of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Neither the input nor the output.
    Nothing,
    /// The input.
    Input,
    /// The output.
    Output,
}

/// `(emitter, gradient of the output, the kept value) → gradient of the input`.
pub type UnaryGrad = fn(&mut dyn Emit, Val, Val) -> Result<Val, OpError>;

/// One row.
pub struct UnaryRow {
    /// On floats.
    pub f64: fn(f64) -> f64,
    /// On integers, where the function is defined on them.
    pub i64: Option<fn(i64) -> i64>,
    /// In C.
    pub c: CBodies,
    /// The dtypes it takes.
    pub accepts: Accepts,
    /// Whether the result is bool whatever the input is.
    pub to_bool: bool,
    /// What the backward pass needs.
    pub keeps: Keeps,
    /// The gradient; `None` where there is none (the result is not a float).
    pub grad: Option<UnaryGrad>,
    /// Arithmetic operations an element costs, roughly.
    pub flops: u64,
}

impl UnaryKind {
    /// The row of this function.
    pub fn row(self) -> UnaryRow {
        use Keeps::*;
        use UnaryKind::*;
        let float = |f64, c, keeps, flops, grad: UnaryGrad| UnaryRow {
            f64,
            i64: None,
            c: CBodies::float(c),
            accepts: Accepts::Floats,
            to_bool: false,
            keeps,
            grad: Some(grad),
            flops,
        };
        let number = |f64, i64, c: [_; 2], keeps, grad: UnaryGrad| UnaryRow {
            f64,
            i64: Some(i64),
            c: CBodies::both(c[0], c[1]),
            accepts: Accepts::Numbers,
            to_bool: false,
            keeps,
            grad: Some(grad),
            flops: 1,
        };
        let test = |f64, i64, c: [_; 2]| UnaryRow {
            f64,
            i64: Some(i64),
            c: CBodies::both(c[0], c[1]),
            accepts: Accepts::All,
            to_bool: true,
            keeps: Nothing,
            grad: None,
            flops: 1,
        };
        match self {
            Neg => number(
                |x| -x,
                |x| x.wrapping_neg(),
                ["return -x;", "return (int64_t)(0 - (uint64_t)x);"],
                Nothing,
                |e, g, _| e.neg(g),
            ),
            Abs => number(
                f64::abs,
                |x| x.wrapping_abs(),
                ["return fabs(x);", "return x < 0 ? (int64_t)(0 - (uint64_t)x) : x;"],
                Input,
                |e, g, x| {
                    let s = e.unary(Sign, x)?;
                    e.mul(g, s)
                },
            ),
            Sign => number(
                |x| {
                    if x > 0.0 {
                        1.0
                    } else if x < 0.0 {
                        -1.0
                    } else {
                        0.0
                    }
                },
                |x| x.signum(),
                ["return (x > 0) - (x < 0);", "return (x > 0) - (x < 0);"],
                Nothing,
                |e, g, _| zeros(e, g),
            ),
            Square => number(
                |x| x * x,
                |x| x.wrapping_mul(x),
                ["return x * x;", "return (int64_t)((uint64_t)x * (uint64_t)x);"],
                Input,
                |e, g, x| {
                    let gx = e.mul(g, x)?;
                    e.mul(gx, 2.0)
                },
            ),
            Reciprocal => float(
                |x| 1.0 / x,
                "return 1 / x;",
                Output,
                4,
                |e, g, y| {
                    let yy = e.mul(y, y)?;
                    let gyy = e.mul(g, yy)?;
                    e.neg(gyy)
                },
            ),
            Sqrt => float(f64::sqrt, "return sqrt(x);", Output, 4, |e, g, y| {
                let half = e.mul(g, 0.5)?;
                e.div(half, y)
            }),
            Rsqrt => float(
                |x| 1.0 / x.sqrt(),
                "return 1 / sqrt(x);",
                Output,
                6,
                |e, g, y| {
                    let yy = e.mul(y, y)?;
                    let yyy = e.mul(yy, y)?;
                    let gy = e.mul(g, yyy)?;
                    e.mul(gy, -0.5)
                },
            ),
            Exp => float(f64::exp, "return exp(x);", Output, 12, |e, g, y| e.mul(g, y)),
            Exp2 => float(f64::exp2, "return exp2(x);", Output, 12, |e, g, y| {
                let gy = e.mul(g, y)?;
                e.mul(gy, std::f64::consts::LN_2)
            }),
            Expm1 => float(f64::exp_m1, "return expm1(x);", Output, 14, |e, g, y| {
                let y1 = e.add(y, 1.0)?;
                e.mul(g, y1)
            }),
            Log => float(f64::ln, "return log(x);", Input, 12, |e, g, x| e.div(g, x)),
            Log2 => float(f64::log2, "return log2(x);", Input, 12, |e, g, x| {
                let d = e.mul(x, std::f64::consts::LN_2)?;
                e.div(g, d)
            }),
            Log10 => float(f64::log10, "return log10(x);", Input, 12, |e, g, x| {
                let d = e.mul(x, std::f64::consts::LN_10)?;
                e.div(g, d)
            }),
            Log1p => float(f64::ln_1p, "return log1p(x);", Input, 14, |e, g, x| {
                let d = e.add(x, 1.0)?;
                e.div(g, d)
            }),
            Sin => float(f64::sin, "return sin(x);", Input, 16, |e, g, x| {
                let c = e.unary(Cos, x)?;
                e.mul(g, c)
            }),
            Cos => float(f64::cos, "return cos(x);", Input, 16, |e, g, x| {
                let s = e.unary(Sin, x)?;
                let gs = e.mul(g, s)?;
                e.neg(gs)
            }),
            Tan => float(f64::tan, "return tan(x);", Output, 20, |e, g, y| {
                let yy = e.mul(y, y)?;
                let d = e.add(yy, 1.0)?;
                e.mul(g, d)
            }),
            Asin => float(f64::asin, "return asin(x);", Input, 20, |e, g, x| {
                let d = one_minus_square(e, x)?;
                let r = e.unary(Rsqrt, d)?;
                e.mul(g, r)
            }),
            Acos => float(f64::acos, "return acos(x);", Input, 20, |e, g, x| {
                let d = one_minus_square(e, x)?;
                let r = e.unary(Rsqrt, d)?;
                let gr = e.mul(g, r)?;
                e.neg(gr)
            }),
            Atan => float(f64::atan, "return atan(x);", Input, 20, |e, g, x| {
                let xx = e.mul(x, x)?;
                let d = e.add(xx, 1.0)?;
                e.div(g, d)
            }),
            Sinh => float(f64::sinh, "return sinh(x);", Input, 20, |e, g, x| {
                let c = e.unary(Cosh, x)?;
                e.mul(g, c)
            }),
            Cosh => float(f64::cosh, "return cosh(x);", Input, 20, |e, g, x| {
                let s = e.unary(Sinh, x)?;
                e.mul(g, s)
            }),
            Asinh => float(f64::asinh, "return asinh(x);", Input, 20, |e, g, x| {
                let xx = e.mul(x, x)?;
                let d = e.add(xx, 1.0)?;
                let r = e.unary(Rsqrt, d)?;
                e.mul(g, r)
            }),
            Acosh => float(f64::acosh, "return acosh(x);", Input, 20, |e, g, x| {
                let xx = e.mul(x, x)?;
                let d = e.sub(xx, 1.0)?;
                let r = e.unary(Rsqrt, d)?;
                e.mul(g, r)
            }),
            Atanh => float(f64::atanh, "return atanh(x);", Input, 20, |e, g, x| {
                let d = one_minus_square(e, x)?;
                e.div(g, d)
            }),
            Tanh => float(f64::tanh, "return tanh(x);", Output, 20, |e, g, y| {
                let d = one_minus_square(e, y)?;
                e.mul(g, d)
            }),
            Sigmoid => float(
                |x| 1.0 / (1.0 + (-x).exp()),
                "return 1 / (1 + exp(-x));",
                Output,
                16,
                |e, g, y| {
                    let d = e.sub(1.0, y)?;
                    let yd = e.mul(y, d)?;
                    e.mul(g, yd)
                },
            ),
            Erf => float(libm::erf, "return erf(x);", Input, 20, |e, g, x| erf_slope(e, g, x, 1.0)),
            Erfc => float(libm::erfc, "return erfc(x);", Input, 20, |e, g, x| erf_slope(e, g, x, -1.0)),
            Relu => number(
                |x| if x > 0.0 || x.is_nan() { x } else { 0.0 },
                |x| x.max(0),
                ["return x > 0 || x != x ? x : 0;", "return x > 0 ? x : 0;"],
                Output,
                |e, g, y| {
                    // NaN passes the gradient, as in PyTorch: it is not below zero.
                    let off = e.compare(CompareKind::Le, y, 0.0)?;
                    let dtype = e.ty(g).dtype;
                    e.select(off, 0.0, g, dtype)
                },
            ),
            Silu => float(
                |x| x / (1.0 + (-x).exp()),
                "return x / (1 + exp(-x));",
                Input,
                17,
                |e, g, x| {
                    let s = e.unary(Sigmoid, x)?;
                    let off = e.sub(1.0, s)?;
                    let xo = e.mul(x, off)?;
                    let d = e.add(xo, 1.0)?;
                    let sd = e.mul(s, d)?;
                    e.mul(g, sd)
                },
            ),
            Gelu => float(
                |x| 0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2)),
                "return (T)0.5 * x * (1 + erf(x * (T)0.70710678118654752440));",
                Input,
                24,
                |e, g, x| {
                    let z = e.mul(x, std::f64::consts::FRAC_1_SQRT_2)?;
                    let erf = e.unary(Erf, z)?;
                    let erf1 = e.add(erf, 1.0)?;
                    let cdf = e.mul(erf1, 0.5)?;
                    let xx = e.mul(x, x)?;
                    let h = e.mul(xx, -0.5)?;
                    let ex = e.unary(Exp, h)?;
                    let pdf = e.mul(ex, 0.398_942_280_401_432_7)?;
                    let xp = e.mul(x, pdf)?;
                    let d = e.add(cdf, xp)?;
                    e.mul(g, d)
                },
            ),
            Floor => number(f64::floor, |x| x, ["return floor(x);", "return x;"], Nothing, |e, g, _| zeros(e, g)),
            Ceil => number(f64::ceil, |x| x, ["return ceil(x);", "return x;"], Nothing, |e, g, _| zeros(e, g)),
            Round => {
                number(f64::round_ties_even, |x| x, ["return rint(x);", "return x;"], Nothing, |e, g, _| zeros(e, g))
            }
            Trunc => number(f64::trunc, |x| x, ["return trunc(x);", "return x;"], Nothing, |e, g, _| zeros(e, g)),
            LogicalNot => test(|x| (x == 0.0) as u8 as f64, |x| (x == 0) as i64, ["return x == 0;", "return x == 0;"]),
            BitwiseNot => UnaryRow {
                f64: |x| x,
                i64: Some(|x| !x),
                c: CBodies::int("return ~x;"),
                accepts: Accepts::Bits,
                to_bool: false,
                keeps: Nothing,
                grad: None,
                flops: 1,
            },
            IsNan => test(|x| x.is_nan() as u8 as f64, |_| 0, ["return x != x;", "return 0;"]),
            IsInf => test(|x| x.is_infinite() as u8 as f64, |_| 0, ["return isinf(x) != 0;", "return 0;"]),
            IsFinite => test(|x| x.is_finite() as u8 as f64, |_| 1, ["return isfinite(x) != 0;", "return 1;"]),
        }
    }
}

fn zeros(e: &mut dyn Emit, g: Val) -> Result<Val, OpError> {
    let ty = e.ty(g);
    e.fill(ty, 0.0)
}

fn one_minus_square(e: &mut dyn Emit, x: Val) -> Result<Val, OpError> {
    let xx = e.mul(x, x)?;
    e.binary(BinaryKind::Sub, 1.0, xx)
}

fn erf_slope(e: &mut dyn Emit, g: Val, x: Val, sign: f64) -> Result<Val, OpError> {
    let xx = e.mul(x, x)?;
    let minus = e.neg(xx)?;
    let ex = e.unary(UnaryKind::Exp, minus)?;
    let slope = e.mul(ex, sign * std::f64::consts::FRAC_2_SQRT_PI)?;
    e.mul(g, slope)
}
