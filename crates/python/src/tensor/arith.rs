//! The methods of arithmetic and comparison, with their in-place forms.

use gt_client::autograd::no_grad;
use gt_client::ops::check_fits;
use gt_client::{Arg, Scalar, Tensor};
use gt_ir::DType;
use gt_ir::rows::{BinaryKind, CompareKind, UnaryKind};
use pyo3::exceptions::{PyDeprecationWarning, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;

use super::inplace::written;
use super::{NewTensor, PyTensor};
use crate::args::Operand;
use crate::errors::OrRaise;
use crate::site::mark;

/// `a ** b`.
pub(super) fn power(a: Arg<'_>, b: Arg<'_>) -> gt_client::Result<Tensor> {
    match a {
        Arg::Tensor(t) => t.pow(b),
        Arg::Number(_) => Tensor::binary(BinaryKind::Pow, a, b),
    }
}

/// In place: the operator, then a write into the tensor itself.
pub(super) fn augmented<'py>(
    slf: &Bound<'py, PyTensor>,
    other: &Bound<'py, PyAny>,
    f: fn(Arg<'_>, Arg<'_>) -> gt_client::Result<Tensor>,
) -> PyResult<()> {
    mark(slf.py());
    let operand = Operand::require(other, "other")?;
    let this = &slf.get().held();
    let source = this.before_write().or_raise()?;
    this.write_result(&f(Arg::Tensor(&source), operand.arg()).or_raise()?).or_raise()
}

/// `kind(a, b)`; a power that another function gives is that function.
#[inline(always)]
fn of_two(kind: BinaryKind, a: Arg<'_>, b: Arg<'_>) -> gt_client::Result<Tensor> {
    if kind == BinaryKind::Pow { power(a, b) } else { Tensor::binary(kind, a, b) }
}

/// The methods of a row: one for each of its names, and that which works in place.
macro_rules! methods {
    ($of:path, $kind:expr, [$($name:ident $in_place:ident),*] (any $operand:ident) $says:literal) => {
        #[pymethods]
        impl PyTensor {
            $(
                #[doc = concat!($says, ".")]
                fn $name(&self, $operand: &Bound<'_, PyAny>) -> PyResult<NewTensor> {
                    let operand = Operand::require($operand, stringify!($operand))?;
                    self.run($operand.py(), |t| $of($kind, Arg::Tensor(t), operand.arg()))
                }
                #[doc = concat!("In place: ", $says, ".")]
                fn $in_place<'py>(slf: &Bound<'py, Self>, $operand: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
                    augmented(slf, $operand, |a, b| $of($kind, a, b))?;
                    Ok(slf.clone())
                }
            )*
        }
    };
    // PyTorch takes no numbers here.
    ($of:path, $kind:expr, [$($name:ident $in_place:ident),*] (tensor $operand:ident) $says:literal) => {
        #[pymethods]
        impl PyTensor {
            $(
                #[doc = concat!($says, ".")]
                fn $name(&self, $operand: &Bound<'_, PyTensor>) -> PyResult<NewTensor> {
                    self.run($operand.py(), |t| $of($kind, Arg::Tensor(t), Arg::Tensor(&$operand.get().held())))
                }
                #[doc = concat!("In place: ", $says, ".")]
                fn $in_place<'py>(
                    slf: &Bound<'py, Self>,
                    $operand: &Bound<'py, PyTensor>,
                ) -> PyResult<Bound<'py, Self>> {
                    written(slf, |x| x.$name($operand))
                }
            )*
        }
    };
    ($of:path, $kind:expr, []) => {};
}

macro_rules! binary_methods {
    ($($kind:ident $text:literal $names:tt $(
        ($takes:ident $operand:ident) $says:literal, $example:literal => $result:literal
    )?;)*) => {
        $(methods!(of_two, BinaryKind::$kind, $names $(($takes $operand) $says)?);)*
    };
}

macro_rules! compare_methods {
    ($($kind:ident $text:literal $names:tt $operand:tt $says:literal, $example:literal => $result:literal;)*) => {
        $(methods!(Tensor::compare, CompareKind::$kind, $names $operand $says);)*
    };
}

gt_ir::binary_rows!(binary_methods);
gt_ir::compare_rows!(compare_methods);

/// PyTorch's old forms have the factor first and no keyword: `x.add_(2, y)` is `x.add_(y, alpha=2)`.
fn factor_first(name: &str, factor: &Bound<'_, PyAny>, keyword: bool) -> PyResult<Scalar> {
    let py = factor.py();
    let (tensors, word) = if name.starts_with("addc") { ("tensor1, tensor2", "value") } else { ("other", "alpha") };
    let factor = crate::args::number(factor).filter(|_| !keyword).ok_or_else(|| {
        PyTypeError::new_err(format!("{name}() takes ({tensors}, *, {word}=1), or in the old form ({word}, {tensors})"))
    })?;
    let text = format!("{name}({word}, {tensors}) is deprecated: write {name}({tensors}, {word}={word})");
    let text = std::ffi::CString::new(text)?;
    PyErr::warn(py, &py.get_type::<PyDeprecationWarning>(), &text, 1)?;
    Ok(factor)
}

/// The second term of `to + alpha * operand`.
fn scaled<'a>(
    to: &Tensor,
    operand: &'a Operand<'_>,
    alpha: Option<Scalar>,
    keep: &'a mut Option<Tensor>,
) -> gt_client::Result<Arg<'a>> {
    let Some(alpha) = alpha else { return Ok(operand.arg()) };
    Ok(match operand.arg() {
        // Integers wrap; of floats the product may be larger than any integer.
        Arg::Number(Scalar::I64(n)) if alpha.category() < 2 && !to.dtype().is_float() => {
            Arg::Number(Scalar::I64(n.wrapping_mul(alpha.as_i64())))
        }
        Arg::Number(n) => Arg::Number(Scalar::F64(n.as_f64() * alpha.as_f64())),
        Arg::Tensor(t) => {
            *keep = Some(t.mul(alpha)?);
            Arg::Tensor(keep.as_ref().expect("it was just put there"))
        }
    })
}

fn rounded(quotient: (Arg<'_>, Arg<'_>), mode: Option<&str>) -> gt_client::Result<Tensor> {
    let (a, b) = quotient;
    let whole = match mode {
        None => return Tensor::binary(BinaryKind::Div, a, b),
        Some("floor") => no_grad(|| Tensor::binary(BinaryKind::FloorDiv, a, b))?,
        Some("trunc") => {
            let dtype = gt_client::ops::result_type(&[a, b]);
            if dtype.is_int() {
                // Without the remainder the division is exact, whichever way it rounds.
                let remainder = Tensor::binary(BinaryKind::Fmod, a, b)?;
                let whole = match a {
                    // A bool cannot be subtracted from before it is a number.
                    Arg::Tensor(t) => Tensor::binary(BinaryKind::Sub, &t.to_dtype(dtype)?, &remainder)?,
                    Arg::Number(_) => Tensor::binary(BinaryKind::Sub, a, &remainder)?,
                };
                return Tensor::binary(BinaryKind::FloorDiv, &whole, b);
            }
            no_grad(|| Tensor::binary(BinaryKind::Div, a, b)?.unary(UnaryKind::Trunc)?.to_dtype(dtype))?
        }
        Some(other) => {
            return Err(gt_client::Error::Argument(format!(
                "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{other}'"
            )));
        }
    };
    let operands = [a, b].into_iter().filter_map(|arg| if let Arg::Tensor(t) = arg { Some(t) } else { None });
    whole.with_zero_gradient("Div", &operands.collect::<Vec<_>>())
}

/// The factor of the second operand; 1 needs none. Integers take an integer only.
fn alpha_of(alpha: Option<&Bound<'_, PyAny>>, operands: &[Arg<'_>]) -> PyResult<Option<Scalar>> {
    let Some(alpha) = alpha else { return Ok(None) };
    let alpha = crate::args::number(alpha).ok_or_else(|| PyTypeError::new_err("alpha must be a Number"))?;
    checked_alpha(alpha, operands)
}

fn checked_alpha(s: Scalar, operands: &[Arg<'_>]) -> PyResult<Option<Scalar>> {
    let dtype = gt_client::ops::result_type(operands);
    if s.category() == 2 && !dtype.is_float() {
        return Err(PyRuntimeError::new_err(
            "For integral input tensors, argument alpha must not be a floating point number.",
        ));
    }
    if s.category() == 0 && dtype != DType::Bool {
        return Err(PyRuntimeError::new_err("Boolean alpha only supported for Boolean results."));
    }
    check_fits(s, dtype).or_raise()?;
    let s = if dtype == DType::Bool { Scalar::Bool(s.as_bool()) } else { s };
    Ok(if s.as_f64() == 1.0 { None } else { Some(s) })
}

#[pymethods]
impl PyTensor {
    /// `self + alpha * other`.
    #[pyo3(signature = (other, of_factor=None, *, alpha=None))]
    fn add(
        &self,
        other: &Bound<'_, PyAny>,
        of_factor: Option<&Bound<'_, PyAny>>,
        alpha: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<NewTensor> {
        let (operand, mut keep) = (Operand::require(of_factor.unwrap_or(other), "other")?, None);
        let operands = [Arg::Tensor(&self.held()), operand.arg()];
        let alpha = match of_factor {
            None => alpha_of(alpha, &operands)?,
            Some(_) => checked_alpha(factor_first("add", other, alpha.is_some())?, &operands)?,
        };
        self.run(other.py(), |t| t.add(scaled(t, &operand, alpha, &mut keep)?))
    }

    /// In place: `self + alpha * other`.
    #[pyo3(signature = (other, of_factor=None, *, alpha=None))]
    fn add_<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        of_factor: Option<&Bound<'py, PyAny>>,
        alpha: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        written(slf, |x| x.add(other, of_factor, alpha))
    }

    /// `self - alpha * other`.
    #[pyo3(signature = (other, of_factor=None, *, alpha=None))]
    fn sub(
        &self,
        other: &Bound<'_, PyAny>,
        of_factor: Option<&Bound<'_, PyAny>>,
        alpha: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<NewTensor> {
        let (operand, mut keep) = (Operand::require(of_factor.unwrap_or(other), "other")?, None);
        let operands = [Arg::Tensor(&self.held()), operand.arg()];
        let alpha = match of_factor {
            None => alpha_of(alpha, &operands)?,
            Some(_) => checked_alpha(factor_first("sub", other, alpha.is_some())?, &operands)?,
        };
        self.run(other.py(), |t| t.sub(scaled(t, &operand, alpha, &mut keep)?))
    }

    /// In place: `self - alpha * other`.
    #[pyo3(signature = (other, of_factor=None, *, alpha=None))]
    fn sub_<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        of_factor: Option<&Bound<'py, PyAny>>,
        alpha: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        written(slf, |x| x.sub(other, of_factor, alpha))
    }

    /// `self - alpha * other`.
    #[pyo3(signature = (other, *, alpha=None))]
    fn subtract(&self, other: &Bound<'_, PyAny>, alpha: Option<&Bound<'_, PyAny>>) -> PyResult<NewTensor> {
        self.sub(other, None, alpha)
    }

    /// `alpha`-scaled self taken from other: `other - alpha * self`.
    #[pyo3(signature = (other, *, alpha=None))]
    fn rsub(&self, other: &Bound<'_, PyAny>, alpha: Option<&Bound<'_, PyAny>>) -> PyResult<NewTensor> {
        let operand = Operand::require(other, "other")?;
        let alpha = alpha_of(alpha, &[Arg::Tensor(&self.held()), operand.arg()])?;
        self.run(other.py(), |t| {
            let t = match alpha {
                Some(a) => t.mul(a)?,
                None => t.clone(),
            };
            Tensor::binary(BinaryKind::Sub, operand.arg(), &t)
        })
    }

    /// `self / other`, rounded as `rounding_mode` says: `None`, `"floor"` or `"trunc"`.
    #[pyo3(signature = (other, *, rounding_mode=None))]
    fn div(&self, other: &Bound<'_, PyAny>, rounding_mode: Option<&str>) -> PyResult<NewTensor> {
        let operand = Operand::require(other, "other")?;
        self.run(other.py(), |t| rounded((Arg::Tensor(t), operand.arg()), rounding_mode))
    }

    /// In place: `self / other`.
    #[pyo3(signature = (other, *, rounding_mode=None))]
    fn div_<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        rounding_mode: Option<&str>,
    ) -> PyResult<Bound<'py, Self>> {
        written(slf, |x| x.div(other, rounding_mode))
    }

    /// `self / other`, rounded as `rounding_mode` says.
    #[pyo3(signature = (other, *, rounding_mode=None))]
    fn divide(&self, other: &Bound<'_, PyAny>, rounding_mode: Option<&str>) -> PyResult<NewTensor> {
        self.div(other, rounding_mode)
    }

    /// `self` limited from below and above.
    #[pyo3(signature = (min=None, max=None))]
    fn clamp(
        &self,
        py: Python<'_>,
        min: Option<&Bound<'_, PyAny>>,
        max: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<NewTensor> {
        let low = min.filter(|m| !m.is_none()).map(|m| Operand::require(m, "min")).transpose()?;
        let high = max.filter(|m| !m.is_none()).map(|m| Operand::require(m, "max")).transpose()?;
        self.run(py, |t| t.clamp(low.as_ref().map(Operand::arg), high.as_ref().map(Operand::arg)))
    }

    /// `self` limited from below and above.
    #[pyo3(signature = (min=None, max=None))]
    fn clip(
        &self,
        py: Python<'_>,
        min: Option<&Bound<'_, PyAny>>,
        max: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<NewTensor> {
        self.clamp(py, min, max)
    }

    /// In place: limited from below and above.
    #[pyo3(signature = (min=None, max=None))]
    fn clamp_<'py>(
        slf: &Bound<'py, Self>,
        min: Option<&Bound<'py, PyAny>>,
        max: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        written(slf, |x| x.clamp(slf.py(), min, max))
    }

    /// `self + weight * (end - self)`.
    fn lerp(&self, end: &Bound<'_, PyTensor>, weight: &Bound<'_, PyAny>) -> PyResult<NewTensor> {
        let weight_arg = Operand::require(weight, "weight")?;
        self.run(weight.py(), |t| t.lerp(&end.get().held(), weight_arg.arg()))
    }

    /// `self + value * tensor1 * tensor2`.
    #[pyo3(signature = (tensor1, tensor2, of_factor=None, *, value=None))]
    fn addcmul(
        &self,
        tensor1: &Bound<'_, PyAny>,
        tensor2: &Bound<'_, PyTensor>,
        of_factor: Option<&Bound<'_, PyTensor>>,
        value: Option<f64>,
    ) -> PyResult<NewTensor> {
        let (a, b, value) = match of_factor {
            None => (tensor1.cast::<PyTensor>()?, tensor2, Scalar::F64(value.unwrap_or(1.0))),
            Some(last) => (tensor2, last, factor_first("addcmul", tensor1, value.is_some())?),
        };
        self.run(tensor1.py(), |t| t.addc(BinaryKind::Mul, &a.get().held(), &b.get().held(), value))
    }

    /// `self + value * tensor1 / tensor2`.
    #[pyo3(signature = (tensor1, tensor2, of_factor=None, *, value=None))]
    fn addcdiv(
        &self,
        tensor1: &Bound<'_, PyAny>,
        tensor2: &Bound<'_, PyTensor>,
        of_factor: Option<&Bound<'_, PyTensor>>,
        value: Option<f64>,
    ) -> PyResult<NewTensor> {
        let (a, b, value) = match of_factor {
            None => (tensor1.cast::<PyTensor>()?, tensor2, Scalar::F64(value.unwrap_or(1.0))),
            Some(last) => (tensor2, last, factor_first("addcdiv", tensor1, value.is_some())?),
        };
        self.run(tensor1.py(), |t| t.addc(BinaryKind::Div, &a.get().held(), &b.get().held(), value))
    }

    /// The derivative of order `n` of `digamma`, for whole `n` from 1.
    fn _polygamma(&self, py: Python<'_>, n: f64) -> PyResult<NewTensor> {
        self.run(py, |t| Tensor::binary(BinaryKind::Polygamma, n, t))
    }

    /// Whether all elements are close. Waits.
    #[pyo3(signature = (other, rtol=1e-5, atol=1e-8, equal_nan=false))]
    fn allclose(&self, other: &Bound<'_, PyTensor>, rtol: f64, atol: f64, equal_nan: bool) -> PyResult<bool> {
        mark(other.py());
        self.held().allclose(&other.get().held(), rtol, atol, equal_nan).or_raise()
    }

    /// Which elements are close.
    #[pyo3(signature = (other, rtol=1e-5, atol=1e-8, equal_nan=false))]
    fn isclose(&self, other: &Bound<'_, PyTensor>, rtol: f64, atol: f64, equal_nan: bool) -> PyResult<NewTensor> {
        if rtol < 0.0 || atol < 0.0 {
            return Err(PyRuntimeError::new_err(format!(
                "rtol and atol must be greater than or equal to zero, but got {rtol} and {atol}"
            )));
        }
        self.run(other.py(), |t| t.isclose(&other.get().held(), rtol, atol, equal_nan))
    }

    /// Whether both have the same shape and elements. Waits.
    fn equal(&self, other: &Bound<'_, PyTensor>) -> PyResult<bool> {
        mark(other.py());
        self.held().equal(&other.get().held()).or_raise()
    }
}
