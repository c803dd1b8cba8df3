//! Functions of one number.

use super::{Accepts, CBodies, Surface, special, surface_setters};
use crate::rows::{BinaryKind, CompareKind};
use crate::{Domain, Emit, OpError, Val};

/// Every function of one number, in the order of the wire codes: hands the list to the macro of that name.
///
/// A line is the variant, its name in the text form, the names users call it by, each with the method that works in place,
/// and then what it does with an example, which become documentation. A line without names has its bindings written by
/// hand; one without an example is a method only; a name with an underscore in front is a function of `gt.special` only.
#[macro_export]
macro_rules! unary_rows {
    ($each:ident) => { $each! {
        Neg "neg" [neg neg_, negative negative_] "The negated elements",
            "gt.neg(gt.tensor([1, -2]))" => "tensor([-1,  2])";
        Abs "abs" [abs abs_, absolute absolute_] "The absolute values",
            "gt.abs(gt.tensor([-1, 2]))" => "tensor([1, 2])";
        Sign "sign" [sign sign_] "-1, 0 or 1", "gt.sign(gt.tensor([-3.0, 0.0]))" => "tensor([-1.,  0.])";
        Square "square" [square square_] "The square", "gt.square(gt.tensor([3]))" => "tensor([9])";
        Reciprocal "reciprocal" [reciprocal reciprocal_] "1 / input",
            "gt.reciprocal(gt.tensor([4.0]))" => "tensor([0.2500])";
        Sqrt "sqrt" [sqrt sqrt_] "The square root", "gt.sqrt(gt.tensor([4.0]))" => "tensor([2.])";
        Rsqrt "rsqrt" [rsqrt rsqrt_] "1 / sqrt(input)", "gt.rsqrt(gt.tensor([4.0]))" => "tensor([0.5000])";
        Exp "exp" [exp exp_] "e to the power of each element",
            "gt.exp(gt.tensor([0.0, 1.0]))" => "tensor([1.0000, 2.7183])";
        Exp2 "exp2" [exp2 exp2_] "2 to the power of each element", "gt.exp2(gt.tensor([3.0]))" => "tensor([8.])";
        Expm1 "expm1" [expm1 expm1_] "exp(input) - 1, exact near zero",
            "gt.expm1(gt.tensor([1.0]))" => "tensor([1.7183])";
        Log "log" [log log_] "The natural logarithm", "gt.log(gt.tensor([1.0]))" => "tensor([0.])";
        Log2 "log2" [log2 log2_] "The logarithm to base 2", "gt.log2(gt.tensor([8.0]))" => "tensor([3.])";
        Log10 "log10" [log10 log10_] "The logarithm to base 10", "gt.log10(gt.tensor([100.0]))" => "tensor([2.])";
        Log1p "log1p" [log1p log1p_] "log(1 + input), exact near zero",
            "gt.log1p(gt.tensor([1.0]))" => "tensor([0.6931])";
        Sin "sin" [sin sin_] "The sine", "gt.sin(gt.tensor([0.0]))" => "tensor([0.])";
        Cos "cos" [cos cos_] "The cosine", "gt.cos(gt.tensor([0.0]))" => "tensor([1.])";
        Tan "tan" [tan tan_] "The tangent", "gt.tan(gt.tensor([0.0]))" => "tensor([0.])";
        Asin "asin" [asin asin_, arcsin arcsin_] "The inverse sine", "gt.asin(gt.tensor([1.0]))" => "tensor([1.5708])";
        Acos "acos" [acos acos_, arccos arccos_] "The inverse cosine", "gt.acos(gt.tensor([1.0]))" => "tensor([0.])";
        Atan "atan" [atan atan_, arctan arctan_] "The inverse tangent",
            "gt.atan(gt.tensor([1.0]))" => "tensor([0.7854])";
        Sinh "sinh" [sinh sinh_] "The hyperbolic sine", "gt.sinh(gt.tensor([0.0]))" => "tensor([0.])";
        Cosh "cosh" [cosh cosh_] "The hyperbolic cosine", "gt.cosh(gt.tensor([0.0]))" => "tensor([1.])";
        Asinh "asinh" [asinh asinh_, arcsinh arcsinh_] "The inverse hyperbolic sine",
            "gt.asinh(gt.tensor([1.0]))" => "tensor([0.8814])";
        Acosh "acosh" [acosh acosh_, arccosh arccosh_] "The inverse hyperbolic cosine",
            "gt.acosh(gt.tensor([1.0]))" => "tensor([0.])";
        Atanh "atanh" [atanh atanh_, arctanh arctanh_] "The inverse hyperbolic tangent",
            "gt.atanh(gt.tensor([0.5]))" => "tensor([0.5493])";
        Tanh "tanh" [tanh tanh_] "The hyperbolic tangent", "gt.tanh(gt.tensor([0.0]))" => "tensor([0.])";
        Sigmoid "sigmoid" [sigmoid sigmoid_] "1 / (1 + exp(-input))",
            "gt.sigmoid(gt.tensor([0.0]))" => "tensor([0.5000])";
        Erf "erf" [erf erf_] "The error function", "gt.erf(gt.tensor([0.5]))" => "tensor([0.5205])";
        Erfc "erfc" [erfc erfc_] "1 - erf(input), exact where that is small",
            "gt.erfc(gt.tensor([0.5]))" => "tensor([0.4795])";
        Relu "relu" [relu relu_] "max(input, 0)", "gt.relu(gt.tensor([-1.0, 2.0]))" => "tensor([0., 2.])";
        Silu "silu" [silu silu_] "input * sigmoid(input)";
        Gelu "gelu" [];
        Floor "floor" [floor floor_] "Rounded down", "gt.floor(gt.tensor([1.7]))" => "tensor([1.])";
        Ceil "ceil" [ceil ceil_] "Rounded up", "gt.ceil(gt.tensor([1.2]))" => "tensor([2.])";
        Round "round" [];
        Trunc "trunc" [trunc trunc_, fix fix_] "Rounded towards zero", "gt.trunc(gt.tensor([-1.7]))" => "tensor([-1.])";
        LogicalNot "logical_not" [logical_not logical_not_] "Whether an element is zero",
            "gt.logical_not(gt.tensor([0, 2]))" => "tensor([ True, False])";
        BitwiseNot "bitwise_not" [bitwise_not bitwise_not_] "All bits flipped",
            "gt.bitwise_not(gt.tensor([0, 1]))" => "tensor([-1, -2])";
        IsNan "isnan" [isnan] "Whether an element is NaN",
            "gt.isnan(gt.tensor([gt.nan, 1.0]))" => "tensor([ True, False])";
        IsInf "isinf" [isinf] "Whether an element is infinite",
            "gt.isinf(gt.tensor([gt.inf, 1.0]))" => "tensor([ True, False])";
        IsFinite "isfinite" [isfinite] "Whether an element is finite",
            "gt.isfinite(gt.tensor([1.0, gt.inf]))" => "tensor([ True, False])";
        LGamma "lgamma" [lgamma lgamma_] "The logarithm of the magnitude of the gamma function",
            "gt.lgamma(gt.tensor([1.0, 4.0]))" => "tensor([0.0000, 1.7918])";
        Digamma "digamma" [digamma digamma_] "The derivative of `lgamma`",
            "gt.digamma(gt.tensor([1.0]))" => "tensor([-0.5772])";
        I0 "i0" [i0 i0_] "The modified Bessel function of the first kind, of order 0",
            "gt.i0(gt.tensor([0.0, 1.0]))" => "tensor([1.0000, 1.2661])";
        I1 "i1" [_i1] "The modified Bessel function of the first kind, of order 1",
            "gt.special.i1(gt.tensor([0.0, 1.0]))" => "tensor([0.0000, 0.5652])";
        Erfinv "erfinv" [erfinv erfinv_] "The number whose `erf` is `input`",
            "gt.erfinv(gt.tensor([0.0, 0.5]))" => "tensor([0.0000, 0.4769])";
    } };
}

macro_rules! unary_kinds {
    ($($rows:tt)*) => {
        kinds!(UnaryKind "A function of one number." $($rows)*);
    };
}

unary_rows!(unary_kinds);

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
#[derive(Clone, Copy)]
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
    /// Where tests take its operands from.
    pub domain: Domain,
    /// Exact values, where NumPy does not have the function.
    pub points: &'static [(f64, f64)],
    /// What users see of it besides its names, and how it is tested.
    pub surface: Surface,
}

const fn float(f64: fn(f64) -> f64, c: &'static str, keeps: Keeps, flops: u64, grad: UnaryGrad) -> UnaryRow {
    UnaryRow {
        f64,
        i64: None,
        c: CBodies::float(c),
        accepts: Accepts::Floats,
        to_bool: false,
        keeps,
        grad: Some(grad),
        flops,
        domain: Domain::Any,
        points: &[],
        surface: Surface::near(4.0, 0.5),
    }
}

const fn number(
    f64: fn(f64) -> f64,
    i64: fn(i64) -> i64,
    c: [&'static str; 2],
    keeps: Keeps,
    grad: UnaryGrad,
) -> UnaryRow {
    UnaryRow {
        i64: Some(i64),
        c: CBodies::both(c[0], c[1]),
        accepts: Accepts::Numbers,
        ..float(f64, "", keeps, 1, grad).exact()
    }
}

const fn test(f64: fn(f64) -> f64, i64: fn(i64) -> i64, c: [&'static str; 2]) -> UnaryRow {
    UnaryRow {
        accepts: Accepts::All,
        to_bool: true,
        grad: None,
        ..number(f64, i64, c, Keeps::Nothing, |e, g, _| zeros(e, g))
    }
}

impl UnaryRow {
    /// Whether floats of every dtype give floats of the same dtype.
    #[inline]
    pub const fn keeps_floats(&self) -> bool {
        self.accepts.takes_every_float() && !self.to_bool
    }
    const fn on(self, domain: Domain) -> Self {
        UnaryRow { domain, ..self }
    }
    const fn points(self, points: &'static [(f64, f64)]) -> Self {
        UnaryRow { points, ..self }
    }
    /// Every engine gives the same number: it is one IEEE operation or a choice between operands.
    const fn exact(self) -> Self {
        self.with(Surface { ulps: 0.0, absolute: 0.0, ..self.surface })
    }
    const fn slack(self, slack: f64) -> Self {
        self.with(Surface { slack, ..self.surface })
    }
    const fn special(self, special: &'static [&'static str]) -> Self {
        self.with(Surface { special, ..self.surface })
    }
    const fn with(self, surface: Surface) -> Self {
        UnaryRow { surface, ..self }
    }
    surface_setters!();
}

table!(UnaryKind, UnaryRow);

impl UnaryKind {
    const fn make(self) -> UnaryRow {
        use Domain::{AboveOne, NonZero, Positive, Unit};
        use Keeps::*;
        use UnaryKind::*;
        match self {
            Neg => number(
                |x| -x,
                |x| x.wrapping_neg(),
                ["return -x;", "return (int64_t)(0 - (uint64_t)x);"],
                Nothing,
                |e, g, _| e.neg(g),
            )
            .numpy("np.negative(x)"),
            Abs => number(
                f64::abs,
                |x| x.wrapping_abs(),
                ["return fabs(x);", "return x < 0 ? (int64_t)(0 - (uint64_t)x) : x;"],
                Input,
                |e, g, x| {
                    let s = e.unary(Sign, x)?;
                    e.mul(g, s)
                },
            )
            .on(NonZero),
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
            )
            .on(NonZero)
            .numpy("np.where(np.isnan(x), 0.0, np.sign(x))"),
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
            )
            .on(NonZero)
            .numpy("1 / x")
            .exact(),
            Sqrt => float(f64::sqrt, "return sqrt(x);", Output, 4, |e, g, y| {
                let half = e.mul(g, 0.5)?;
                e.div(half, y)
            })
            .on(Positive)
            .exact(),
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
            )
            .on(Positive)
            .numpy("1 / np.sqrt(x)")
            .autocast(),
            Exp => float(f64::exp, "return exp(x);", Output, 12, |e, g, y| e.mul(g, y)).autocast(),
            Exp2 => float(f64::exp2, "return exp2(x);", Output, 12, |e, g, y| {
                let gy = e.mul(g, y)?;
                e.mul(gy, std::f64::consts::LN_2)
            })
            .slack(4.0)
            .special(&["exp2"]),
            Expm1 => float(f64::exp_m1, "return expm1(x);", Output, 14, |e, g, y| {
                let y1 = e.add(y, 1.0)?;
                e.mul(g, y1)
            })
            .autocast()
            .special(&["expm1"]),
            Log => float(f64::ln, "return log(x);", Input, 12, |e, g, x| e.div(g, x)).on(Positive).autocast().cancels(),
            Log2 => float(f64::log2, "return log2(x);", Input, 12, |e, g, x| {
                let d = e.mul(x, std::f64::consts::LN_2)?;
                e.div(g, d)
            })
            .on(Positive)
            .autocast()
            .cancels(),
            Log10 => float(f64::log10, "return log10(x);", Input, 12, |e, g, x| {
                let d = e.mul(x, std::f64::consts::LN_10)?;
                e.div(g, d)
            })
            .on(Positive)
            .autocast()
            .cancels(),
            Log1p => float(f64::ln_1p, "return log1p(x);", Input, 14, |e, g, x| {
                let d = e.add(x, 1.0)?;
                e.div(g, d)
            })
            .on(Positive)
            .autocast()
            .slack(8.0)
            .special(&["log1p"]),
            Sin => float(f64::sin, "return sin(x);", Input, 16, |e, g, x| {
                let c = e.unary(Cos, x)?;
                e.mul(g, c)
            })
            .cancels(),
            Cos => float(f64::cos, "return cos(x);", Input, 16, |e, g, x| {
                let s = e.unary(Sin, x)?;
                let gs = e.mul(g, s)?;
                e.neg(gs)
            })
            .cancels(),
            Tan => float(f64::tan, "return tan(x);", Output, 20, |e, g, y| {
                let yy = e.mul(y, y)?;
                let d = e.add(yy, 1.0)?;
                e.mul(g, d)
            })
            .on(Unit)
            .autocast()
            .cancels()
            .slack(8.0),
            Asin => float(f64::asin, "return asin(x);", Input, 20, |e, g, x| {
                let d = one_minus_square(e, x)?;
                let r = e.unary(Rsqrt, d)?;
                e.mul(g, r)
            })
            .on(Unit)
            .numpy("np.arcsin(x)")
            .autocast(),
            Acos => float(f64::acos, "return acos(x);", Input, 20, |e, g, x| {
                let d = one_minus_square(e, x)?;
                let r = e.unary(Rsqrt, d)?;
                let gr = e.mul(g, r)?;
                e.neg(gr)
            })
            .on(Unit)
            .numpy("np.arccos(x)")
            .autocast(),
            Atan => float(f64::atan, "return atan(x);", Input, 20, |e, g, x| {
                let xx = e.mul(x, x)?;
                let d = e.add(xx, 1.0)?;
                e.div(g, d)
            })
            .numpy("np.arctan(x)"),
            Sinh => float(f64::sinh, "return sinh(x);", Input, 20, |e, g, x| {
                let c = e.unary(Cosh, x)?;
                e.mul(g, c)
            })
            .autocast()
            .slack(4.0),
            Cosh => float(f64::cosh, "return cosh(x);", Input, 20, |e, g, x| {
                let s = e.unary(Sinh, x)?;
                e.mul(g, s)
            })
            .autocast(),
            Asinh => float(f64::asinh, "return asinh(x);", Input, 20, |e, g, x| {
                let xx = e.mul(x, x)?;
                let d = e.add(xx, 1.0)?;
                let r = e.unary(Rsqrt, d)?;
                e.mul(g, r)
            })
            .numpy("np.arcsinh(x)"),
            Acosh => float(f64::acosh, "return acosh(x);", Input, 20, |e, g, x| {
                let xx = e.mul(x, x)?;
                let d = e.sub(xx, 1.0)?;
                let r = e.unary(Rsqrt, d)?;
                e.mul(g, r)
            })
            .on(AboveOne)
            .numpy("np.arccosh(x)")
            .slack(8.0),
            Atanh => float(f64::atanh, "return atanh(x);", Input, 20, |e, g, x| {
                let d = one_minus_square(e, x)?;
                e.div(g, d)
            })
            .on(Unit)
            .numpy("np.arctanh(x)")
            .slack(8.0),
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
            )
            .numpy("1 / (1 + np.exp(-x))")
            .special(&["expit"]),
            Erf => float(libm::erf, "return erf(x);", Input, 20, |e, g, x| erf_slope(e, g, x, 1.0))
                .numpy("each(math.erf)(x)")
                .cancels()
                .special(&["erf"]),
            Erfc => float(libm::erfc, "return erfc(x);", Input, 20, |e, g, x| erf_slope(e, g, x, -1.0))
                .numpy("each(math.erfc)(x)")
                .cancels()
                .special(&["erfc"]),
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
            )
            .on(NonZero)
            .numpy("np.maximum(x, np.zeros_like(x))"),
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
            )
            .numpy("x / (1 + np.exp(-x))"),
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
            )
            .cancels(),
            Floor => {
                number(f64::floor, |x| x, ["return floor(x);", "return x;"], Nothing, |e, g, _| zeros(e, g)).on(NonZero)
            }
            Ceil => {
                number(f64::ceil, |x| x, ["return ceil(x);", "return x;"], Nothing, |e, g, _| zeros(e, g)).on(NonZero)
            }
            Round => {
                number(f64::round_ties_even, |x| x, ["return rint(x);", "return x;"], Nothing, |e, g, _| zeros(e, g))
                    .on(NonZero)
                    .numpy("np.round(x)")
            }
            Trunc => {
                number(f64::trunc, |x| x, ["return trunc(x);", "return x;"], Nothing, |e, g, _| zeros(e, g)).on(NonZero)
            }
            LogicalNot => test(|x| (x == 0.0) as u8 as f64, |x| (x == 0) as i64, ["return x == 0;", "return x == 0;"]),
            BitwiseNot => UnaryRow {
                i64: Some(|x| !x),
                c: CBodies::int("return ~x;"),
                accepts: Accepts::Bits,
                grad: None,
                ..number(|x| x, |x| x, ["", ""], Nothing, |e, g, _| zeros(e, g))
            },
            IsNan => test(|x| x.is_nan() as u8 as f64, |_| 0, ["return x != x;", "return 0;"]),
            IsInf => test(|x| x.is_infinite() as u8 as f64, |_| 0, ["return isinf(x) != 0;", "return 0;"]),
            IsFinite => test(|x| x.is_finite() as u8 as f64, |_| 1, ["return isfinite(x) != 0;", "return 1;"]),
            LGamma => float(libm::lgamma, "return lgamma(x);", Input, 40, |e, g, x| {
                let slope = e.unary(Digamma, x)?;
                e.mul(g, slope)
            })
            .on(Positive)
            .cancels()
            .special(&["gammaln"])
            .points(&LGAMMA_POINTS),
            Digamma => float(special::digamma, special::DIGAMMA, Input, 60, |e, g, x| {
                let slope = e.binary(BinaryKind::Polygamma, 1.0, x)?;
                e.mul(g, slope)
            })
            .on(Positive)
            .cancels()
            .special(&["digamma", "psi"])
            .points(&DIGAMMA_POINTS),
            I0 => float(special::bessel_i0, special::BESSEL_I0, Input, 100, |e, g, x| {
                let slope = e.unary(I1, x)?;
                e.mul(g, slope)
            })
            .special(&["i0"])
            .points(&I0_POINTS),
            I1 => float(special::bessel_i1, special::BESSEL_I1, Input, 100, |e, g, x| {
                // I1'(x) = I0(x) - I1(x) / x, and 1/2 at zero.
                let i0 = e.unary(I0, x)?;
                let i1 = e.unary(I1, x)?;
                let quotient = e.div(i1, x)?;
                let zero = e.compare(CompareKind::Eq, x, 0.0)?;
                let dtype = e.ty(x).dtype;
                let quotient = e.select(zero, 0.5, quotient, dtype)?;
                let slope = e.sub(i0, quotient)?;
                e.mul(g, slope)
            })
            .special(&["i1"])
            .points(&I1_POINTS),
            Erfinv => float(special::erfinv, special::ERFINV, Output, 80, |e, g, y| {
                let yy = e.mul(y, y)?;
                let ex = e.unary(Exp, yy)?;
                let slope = e.mul(ex, std::f64::consts::FRAC_2_SQRT_PI.recip())?;
                e.mul(g, slope)
            })
            .on(Unit)
            .autocast()
            .special(&["erfinv"])
            .points(&ERFINV_POINTS),
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

// Exact values, rounded, of functions that NumPy does not have.
#[rustfmt::skip]
const LGAMMA_POINTS: [(f64, f64); 22] = [
    (0.001, 6.907178885383853), (0.5, 0.5723649429247001), (0.9, 0.06637623973474295), (1.5, -0.12078223763524522),
    (2.0, 0.0), (2.5, 0.2846828704729192), (4.0, 1.791759469228055), (7.25, 7.0521854507385395),
    (30.5, 72.9534711841694), (170.0, 701.437263808737), (10000000000.0, 220258509288.81058),
    (-0.5, 1.2655121234846454), (-1.5, 0.860047015376481), (-3.25, -0.6231534513209986),
    (-10.125, -13.29384514038954), (0.0, f64::INFINITY), (-0.0, f64::INFINITY), (-1.0, f64::INFINITY), (1.0, 0.0),
    (f64::INFINITY, f64::INFINITY), (f64::NEG_INFINITY, f64::INFINITY), (f64::NAN, f64::NAN),
];

#[rustfmt::skip]
const DIGAMMA_POINTS: [(f64, f64); 22] = [
    (1e-05, -100000.57719921567), (0.1, -10.423754940411076), (0.5, -1.9635100260214235), (1.0, -0.5772156649015329),
    (1.5, 0.03648997397857652), (2.0, 0.42278433509846713), (3.75, 1.1825373886117962), (9.5, 2.1977378764029494),
    (10.0, 2.251752589066721), (100.0, 4.600161852738087), (100000000.0, 18.420680738952367),
    (-0.25, 2.9141391202135276), (-1.5, 0.7031566406452432), (-2.75, -1.959055264977997),
    (-20.125, 10.611077432912593), (0.0, f64::NEG_INFINITY), (-0.0, f64::INFINITY), (-1.0, f64::NAN),
    (-3.0, f64::NAN), (f64::INFINITY, f64::INFINITY), (f64::NEG_INFINITY, f64::NAN), (f64::NAN, f64::NAN),
];

#[rustfmt::skip]
const I0_POINTS: [(f64, f64); 15] = [
    (0.0, 1.0), (0.25, 1.015686141223608), (-0.5, 1.0634833707413236), (1.0, 1.2660658777520084),
    (2.0, 2.2795853023360673), (-4.0, 11.30192195213633), (8.0, 427.5641157218048), (15.5, 550722.1203144138),
    (29.5, 478144163888.0398), (31.0, 2089962966491.9038), (50.0, 2.9325537838493362e+20),
    (80.0, 2.4751784043341704e+33), (f64::INFINITY, f64::INFINITY), (f64::NEG_INFINITY, f64::INFINITY),
    (f64::NAN, f64::NAN),
];

#[rustfmt::skip]
const I1_POINTS: [(f64, f64); 15] = [
    (0.0, 0.0), (0.25, 0.12597910894546793), (-0.5, -0.2578943053908963), (1.0, 0.565159103992485),
    (2.0, 1.590636854637329), (-4.0, -9.75946515370445), (8.0, 399.8731367825601), (15.5, 532649.7023984405),
    (29.5, 469968885416.2773), (31.0, 2055972795294.5647), (50.0, 2.903078590103557e+20),
    (80.0, 2.459659579567541e+33), (f64::INFINITY, f64::INFINITY), (f64::NEG_INFINITY, f64::NEG_INFINITY),
    (f64::NAN, f64::NAN),
];

#[rustfmt::skip]
const ERFINV_POINTS: [(f64, f64); 16] = [
    (0.0, 0.0), (1e-10, 8.862269254527581e-11), (0.1, 0.08885599049425769), (-0.25, -0.2253120550121781),
    (0.5, 0.4769362762044699), (0.75, 0.8134198475976185), (-0.9, -1.1630871536766743), (0.99, 1.8213863677184494),
    (0.9990234375, 2.331467773621948), (0.9999999403953552, 3.832506856900711),
    (-0.999755859375, -2.5939005131344874), (1.0, f64::INFINITY), (-1.0, f64::NEG_INFINITY), (1.5, f64::NAN),
    (-2.0, f64::NAN), (f64::NAN, f64::NAN),
];
