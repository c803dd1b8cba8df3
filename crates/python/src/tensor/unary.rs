//! Functions of one tensor.

use gt_ir::rows::UnaryKind;
use pyo3::prelude::*;

use super::inplace::written;
use super::{NewTensor, PyTensor};
use crate::errors::OrRaise;
use crate::site::mark;

macro_rules! unary {
    ($($doc:literal $name:ident $inplace:ident $kind:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                #[doc = $doc]
                fn $name(&self, py: Python<'_>) -> PyResult<NewTensor> {
                    self.run(py, |t| t.unary(UnaryKind::$kind))
                }
                #[doc = concat!("In place: ", $doc)]
                fn $inplace<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
                    mark(slf.py());
                    slf.get().held().unary_(UnaryKind::$kind).or_raise()?;
                    Ok(slf.clone())
                }
            )*
        }
    };
}

unary! {
    "`-x`." neg neg_ Neg;
    "`-x`." negative negative_ Neg;
    "The distance from zero." abs abs_ Abs;
    "The distance from zero." absolute absolute_ Abs;
    "-1, 0 or 1." sign sign_ Sign;
    "`x * x`." square square_ Square;
    "`1 / x`." reciprocal reciprocal_ Reciprocal;
    "The square root." sqrt sqrt_ Sqrt;
    "`1 / sqrt(x)`." rsqrt rsqrt_ Rsqrt;
    "e to the power of x." exp exp_ Exp;
    "2 to the power of x." exp2 exp2_ Exp2;
    "`exp(x) - 1`, exact near zero." expm1 expm1_ Expm1;
    "The natural logarithm." log log_ Log;
    "The logarithm to base 2." log2 log2_ Log2;
    "The logarithm to base 10." log10 log10_ Log10;
    "`log(1 + x)`, exact near zero." log1p log1p_ Log1p;
    "The sine." sin sin_ Sin;
    "The cosine." cos cos_ Cos;
    "The tangent." tan tan_ Tan;
    "The inverse sine." asin asin_ Asin;
    "The inverse sine." arcsin arcsin_ Asin;
    "The inverse cosine." acos acos_ Acos;
    "The inverse cosine." arccos arccos_ Acos;
    "The inverse tangent." atan atan_ Atan;
    "The inverse tangent." arctan arctan_ Atan;
    "The hyperbolic sine." sinh sinh_ Sinh;
    "The hyperbolic cosine." cosh cosh_ Cosh;
    "The inverse hyperbolic sine." asinh asinh_ Asinh;
    "The inverse hyperbolic sine." arcsinh arcsinh_ Asinh;
    "The inverse hyperbolic cosine." acosh acosh_ Acosh;
    "The inverse hyperbolic cosine." arccosh arccosh_ Acosh;
    "The inverse hyperbolic tangent." atanh atanh_ Atanh;
    "The inverse hyperbolic tangent." arctanh arctanh_ Atanh;
    "The hyperbolic tangent." tanh tanh_ Tanh;
    "`1 / (1 + exp(-x))`." sigmoid sigmoid_ Sigmoid;
    "The error function." erf erf_ Erf;
    "`1 - erf(x)`." erfc erfc_ Erfc;
    "`max(x, 0)`." relu relu_ Relu;
    "`x * sigmoid(x)`." silu silu_ Silu;
    "Rounded down." floor floor_ Floor;
    "Rounded up." ceil ceil_ Ceil;
    "Rounded towards zero." trunc trunc_ Trunc;
    "Rounded towards zero." fix fix_ Trunc;
    "Whether the element is zero." logical_not logical_not_ LogicalNot;
    "All bits flipped." bitwise_not bitwise_not_ BitwiseNot;
}

macro_rules! tests {
    ($($doc:literal $name:ident $kind:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                #[doc = $doc]
                fn $name(&self, py: Python<'_>) -> PyResult<NewTensor> {
                    self.run(py, |t| t.unary(UnaryKind::$kind))
                }
            )*
        }
    };
}

tests! {
    "Which elements are not a number." isnan IsNan;
    "Which elements are infinite." isinf IsInf;
    "Which elements are neither infinite nor not a number." isfinite IsFinite;
}

#[pymethods]
impl PyTensor {
    /// Rounded to the nearest even, or to `decimals` places.
    #[pyo3(signature = (*, decimals=0))]
    fn round(&self, py: Python<'_>, decimals: i32) -> PyResult<NewTensor> {
        let scale = 10f64.powi(decimals.abs());
        self.run(py, |t| match decimals {
            0 => t.unary(UnaryKind::Round),
            d if d > 0 => t.mul(scale)?.unary(UnaryKind::Round)?.div(scale),
            _ => t.div(scale)?.unary(UnaryKind::Round)?.mul(scale),
        })
    }

    /// In place: rounded to the nearest even.
    #[pyo3(signature = (*, decimals=0))]
    fn round_<'py>(slf: &Bound<'py, Self>, decimals: i32) -> PyResult<Bound<'py, Self>> {
        written(slf, |x| x.round(slf.py(), decimals))
    }

    /// The Gaussian error linear unit, exact or by `approximate="tanh"`.
    #[pyo3(signature = (approximate="none"))]
    fn gelu(&self, py: Python<'_>, approximate: &str) -> PyResult<NewTensor> {
        match approximate {
            "none" => self.run(py, |t| t.unary(UnaryKind::Gelu)),
            "tanh" => self.run(py, |t| t.gelu_tanh()),
            other => Err(pyo3::exceptions::PyRuntimeError::new_err(format!(
                "approximate argument must be either none or tanh, not {other}"
            ))),
        }
    }

    /// `nan` and infinities replaced by numbers.
    #[pyo3(signature = (nan=0.0, posinf=None, neginf=None))]
    fn nan_to_num(
        &self,
        py: Python<'_>,
        nan: Option<f64>,
        posinf: Option<f64>,
        neginf: Option<f64>,
    ) -> PyResult<NewTensor> {
        self.run(py, |t| t.nan_to_num(nan.unwrap_or(0.0), posinf, neginf))
    }
}
