//! Reductions.

use gt_ir::ops::{ArgKind, ReduceKind, ScanKind};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{NewTensor, PyTensor, named_pair};
use crate::args::{self, Operand, dims, keep};
use crate::errors::OrRaise;
use crate::site::mark;

type Any<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

impl PyTensor {
    /// `x.max()`, `x.max(dim)`, `x.max(other)`: one name, three functions.
    fn extreme_call<'py>(
        &self,
        py: Python<'py>,
        max: bool,
        first: Any<'_, 'py>,
        keepdim: bool,
        axis: Any<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (reduce, arg, binary, name) = if max {
            (ReduceKind::Max, ArgKind::Max, gt_ir::rows::BinaryKind::Max, "max")
        } else {
            (ReduceKind::Min, ArgKind::Min, gt_ir::rows::BinaryKind::Min, "min")
        };
        if let Some(other) = first
            && other.is_instance_of::<PyTensor>()
        {
            let operand = Operand::require(other, "other")?;
            let out = self.run(py, |t| gt_client::Tensor::binary(binary, t, operand.arg()))?;
            return Ok(out.into_pyobject(py)?.into_any());
        }
        match args::dim(first, axis)? {
            None => Ok(self
                .run(py, |t| {
                    Ok(t.extreme(reduce, &[], false)?.named(if max { "MaxBackward1" } else { "MinBackward1" }))
                })?
                .into_pyobject(py)?
                .into_any()),
            Some(d) => {
                mark(py);
                let (values, index) = self.held().extreme_with_index(arg, d, keepdim).or_raise()?;
                named_pair(py, name, self.like(values), self.like(index))
            }
        }
    }

    fn correction(dim: Any<'_, '_>, unbiased: Option<bool>, correction: Option<f64>) -> PyResult<(Option<bool>, f64)> {
        // The old form `x.var(False)` gives `unbiased` where `dim` stands.
        let positional = match dim {
            Some(d) if d.is_exact_instance_of::<pyo3::types::PyBool>() => Some(d.extract::<bool>()?),
            _ => None,
        };
        let unbiased = unbiased.or(positional);
        Ok((positional, correction.unwrap_or(if unbiased.unwrap_or(true) { 1.0 } else { 0.0 })))
    }
}

#[pymethods]
impl PyTensor {
    /// The sum of all elements, or along axes.
    #[pyo3(signature = (dim=None, keepdim=None, *, dtype=None, axis=None, keepdims=None, **numpy))]
    #[allow(clippy::too_many_arguments)]
    fn sum(
        &self,
        py: Python<'_>,
        dim: Any<'_, '_>,
        keepdim: Option<bool>,
        dtype: Any<'_, '_>,
        axis: Any<'_, '_>,
        keepdims: Option<bool>,
        numpy: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<NewTensor> {
        from_numpy(numpy, "sum")?;
        let (d, dt) = (dims(dim, axis)?, args::dtype(dtype)?);
        self.run(py, |t| t.sum(&d, keep(keepdim, keepdims), dt))
    }

    /// The mean of all elements, or along axes.
    #[pyo3(signature = (dim=None, keepdim=None, *, dtype=None, axis=None, keepdims=None, **numpy))]
    #[allow(clippy::too_many_arguments)]
    fn mean(
        &self,
        py: Python<'_>,
        dim: Any<'_, '_>,
        keepdim: Option<bool>,
        dtype: Any<'_, '_>,
        axis: Any<'_, '_>,
        keepdims: Option<bool>,
        numpy: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<NewTensor> {
        from_numpy(numpy, "mean")?;
        let (d, dt) = (dims(dim, axis)?, args::dtype(dtype)?);
        self.run(py, |t| t.mean(&d, keep(keepdim, keepdims), dt))
    }

    /// The product of all elements, or along an axis.
    #[pyo3(signature = (dim=None, keepdim=None, *, dtype=None, axis=None, keepdims=None, **numpy))]
    #[allow(clippy::too_many_arguments)]
    fn prod(
        &self,
        py: Python<'_>,
        dim: Any<'_, '_>,
        keepdim: Option<bool>,
        dtype: Any<'_, '_>,
        axis: Any<'_, '_>,
        keepdims: Option<bool>,
        numpy: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<NewTensor> {
        from_numpy(numpy, "prod")?;
        let (d, dt) = (dims(dim, axis)?, args::dtype(dtype)?);
        self.run(py, |t| t.prod(&d, keep(keepdim, keepdims), dt))
    }

    /// The largest element; with `dim` values and positions; with a tensor the larger of both.
    #[pyo3(signature = (dim=None, keepdim=None, *, axis=None, keepdims=None, other=None, **numpy))]
    #[allow(clippy::too_many_arguments)]
    fn max<'py>(
        &self,
        py: Python<'py>,
        dim: Any<'_, 'py>,
        keepdim: Option<bool>,
        axis: Any<'_, 'py>,
        keepdims: Option<bool>,
        other: Any<'_, 'py>,
        numpy: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // NumPy's has no positions beside the values.
        if from_numpy(numpy, "max")? {
            let d = dims(dim, axis)?;
            let out = self.run(py, |t| t.extreme(ReduceKind::Max, &d, keep(keepdim, keepdims)))?;
            return Ok(out.into_pyobject(py)?.into_any());
        }
        self.extreme_call(py, true, dim.or(other), keep(keepdim, keepdims), axis)
    }

    /// The smallest element; with `dim` values and positions; with a tensor the smaller of both.
    #[pyo3(signature = (dim=None, keepdim=None, *, axis=None, keepdims=None, other=None, **numpy))]
    #[allow(clippy::too_many_arguments)]
    fn min<'py>(
        &self,
        py: Python<'py>,
        dim: Any<'_, 'py>,
        keepdim: Option<bool>,
        axis: Any<'_, 'py>,
        keepdims: Option<bool>,
        other: Any<'_, 'py>,
        numpy: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // NumPy's has no positions beside the values.
        if from_numpy(numpy, "min")? {
            let d = dims(dim, axis)?;
            let out = self.run(py, |t| t.extreme(ReduceKind::Min, &d, keep(keepdim, keepdims)))?;
            return Ok(out.into_pyobject(py)?.into_any());
        }
        self.extreme_call(py, false, dim.or(other), keep(keepdim, keepdims), axis)
    }

    /// The largest element along axes.
    #[pyo3(signature = (dim=None, keepdim=None, *, axis=None, keepdims=None))]
    fn amax(
        &self,
        py: Python<'_>,
        dim: Any<'_, '_>,
        keepdim: Option<bool>,
        axis: Any<'_, '_>,
        keepdims: Option<bool>,
    ) -> PyResult<NewTensor> {
        let d = dims(dim, axis)?;
        self.run(py, |t| t.extreme_of_equals(ReduceKind::Max, &d, keep(keepdim, keepdims)))
    }

    /// The smallest element along axes.
    #[pyo3(signature = (dim=None, keepdim=None, *, axis=None, keepdims=None))]
    fn amin(
        &self,
        py: Python<'_>,
        dim: Any<'_, '_>,
        keepdim: Option<bool>,
        axis: Any<'_, '_>,
        keepdims: Option<bool>,
    ) -> PyResult<NewTensor> {
        let d = dims(dim, axis)?;
        self.run(py, |t| t.extreme_of_equals(ReduceKind::Min, &d, keep(keepdim, keepdims)))
    }

    /// The position of the largest element.
    #[pyo3(signature = (dim=None, keepdim=None, *, axis=None, keepdims=None))]
    fn argmax(
        &self,
        py: Python<'_>,
        dim: Any<'_, '_>,
        keepdim: Option<bool>,
        axis: Any<'_, '_>,
        keepdims: Option<bool>,
    ) -> PyResult<NewTensor> {
        let d = args::dim(dim, axis)?;
        self.run(py, |t| t.arg_extreme(ArgKind::Max, d, keep(keepdim, keepdims)))
    }

    /// The position of the smallest element.
    #[pyo3(signature = (dim=None, keepdim=None, *, axis=None, keepdims=None))]
    fn argmin(
        &self,
        py: Python<'_>,
        dim: Any<'_, '_>,
        keepdim: Option<bool>,
        axis: Any<'_, '_>,
        keepdims: Option<bool>,
    ) -> PyResult<NewTensor> {
        let d = args::dim(dim, axis)?;
        self.run(py, |t| t.arg_extreme(ArgKind::Min, d, keep(keepdim, keepdims)))
    }

    /// Whether any element is true.
    #[pyo3(signature = (dim=None, keepdim=None, *, axis=None, keepdims=None, **numpy))]
    #[allow(clippy::too_many_arguments)]
    fn any(
        &self,
        py: Python<'_>,
        dim: Any<'_, '_>,
        keepdim: Option<bool>,
        axis: Any<'_, '_>,
        keepdims: Option<bool>,
        numpy: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<NewTensor> {
        from_numpy(numpy, "any")?;
        let d = dims(dim, axis)?;
        if d.is_empty() && (dim.is_some() || axis.is_some()) {
            // No axes, and not all of them: every element for itself.
            return self.run(py, gt_client::Tensor::truth_of_each);
        }
        self.run(py, |t| t.truth(ReduceKind::Max, &d, keep(keepdim, keepdims)))
    }

    /// Whether every element is true.
    #[pyo3(signature = (dim=None, keepdim=None, *, axis=None, keepdims=None, **numpy))]
    #[allow(clippy::too_many_arguments)]
    fn all(
        &self,
        py: Python<'_>,
        dim: Any<'_, '_>,
        keepdim: Option<bool>,
        axis: Any<'_, '_>,
        keepdims: Option<bool>,
        numpy: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<NewTensor> {
        from_numpy(numpy, "all")?;
        let d = dims(dim, axis)?;
        if d.is_empty() && (dim.is_some() || axis.is_some()) {
            // No axes, and not all of them: every element for itself.
            return self.run(py, gt_client::Tensor::truth_of_each);
        }
        self.run(py, |t| t.truth(ReduceKind::Min, &d, keep(keepdim, keepdims)))
    }

    /// The variance, dividing by `n - correction`.
    #[pyo3(signature = (dim=None, unbiased=None, keepdim=None, *, correction=None, axis=None, keepdims=None, **numpy))]
    #[allow(clippy::too_many_arguments)]
    fn var(
        &self,
        py: Python<'_>,
        dim: Any<'_, '_>,
        unbiased: Option<bool>,
        keepdim: Option<bool>,
        correction: Option<f64>,
        axis: Any<'_, '_>,
        keepdims: Option<bool>,
        numpy: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<NewTensor> {
        let (ddof, dtype) = deviation_of_numpy(numpy, "var")?;
        let (positional, c) = PyTensor::correction(dim, unbiased, correction.or(ddof))?;
        let d = if positional.is_some() { Vec::new() } else { dims(dim, axis)? };
        self.run(py, |t| cast(t, dtype)?.var(&d, c, keep(keepdim, keepdims)))
    }

    /// The standard deviation: the root of `var`.
    #[pyo3(signature = (dim=None, unbiased=None, keepdim=None, *, correction=None, axis=None, keepdims=None, **numpy))]
    #[allow(clippy::too_many_arguments)]
    fn std(
        &self,
        py: Python<'_>,
        dim: Any<'_, '_>,
        unbiased: Option<bool>,
        keepdim: Option<bool>,
        correction: Option<f64>,
        axis: Any<'_, '_>,
        keepdims: Option<bool>,
        numpy: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<NewTensor> {
        let (ddof, dtype) = deviation_of_numpy(numpy, "std")?;
        let (positional, c) = PyTensor::correction(dim, unbiased, correction.or(ddof))?;
        let d = if positional.is_some() { Vec::new() } else { dims(dim, axis)? };
        self.run(py, |t| cast(t, dtype)?.std(&d, c, keep(keepdim, keepdims)))
    }

    /// The p-norm of all elements, or along axes.
    #[pyo3(signature = (p=None, dim=None, keepdim=None, dtype=None, *, axis=None, keepdims=None))]
    #[allow(clippy::too_many_arguments)]
    fn norm(
        &self,
        py: Python<'_>,
        p: Any<'_, '_>,
        dim: Any<'_, '_>,
        keepdim: Option<bool>,
        dtype: Any<'_, '_>,
        axis: Any<'_, '_>,
        keepdims: Option<bool>,
    ) -> PyResult<NewTensor> {
        let order = match p.filter(|p| !p.is_none()) {
            None => 2.0,
            Some(p) => match p.extract::<String>().as_deref() {
                Ok("fro") => 2.0,
                Ok("inf") => f64::INFINITY,
                Ok(other) => return Err(PyTypeError::new_err(format!("norm of order '{other}' is not defined"))),
                Err(_) => p.extract::<f64>()?,
            },
        };
        let (d, dt) = (dims(dim, axis)?, args::dtype(dtype)?);
        self.run(py, |t| {
            let t = match dt {
                Some(dt) => t.to_dtype(dt)?,
                None => t.clone(),
            };
            t.norm(order, &d, keep(keepdim, keepdims))
        })
    }

    /// Running sums along an axis.
    #[pyo3(signature = (dim=None, *, dtype=None, axis=None))]
    fn cumsum(&self, py: Python<'_>, dim: Any<'_, '_>, dtype: Any<'_, '_>, axis: Any<'_, '_>) -> PyResult<NewTensor> {
        self.running(py, ScanKind::Sum, dim, dtype, axis)
    }

    /// Running products along an axis.
    #[pyo3(signature = (dim=None, *, dtype=None, axis=None))]
    fn cumprod(&self, py: Python<'_>, dim: Any<'_, '_>, dtype: Any<'_, '_>, axis: Any<'_, '_>) -> PyResult<NewTensor> {
        self.running(py, ScanKind::Prod, dim, dtype, axis)
    }

    /// `log(sum(exp(x)))` along axes, without overflow.
    #[pyo3(signature = (dim=None, keepdim=None, *, axis=None, keepdims=None))]
    fn logsumexp(
        &self,
        py: Python<'_>,
        dim: Any<'_, '_>,
        keepdim: Option<bool>,
        axis: Any<'_, '_>,
        keepdims: Option<bool>,
    ) -> PyResult<NewTensor> {
        let d = dims(dim, axis)?;
        self.run(py, |t| t.logsumexp(&d, keep(keepdim, keepdims)))
    }

    /// Exponentials that sum to one along an axis.
    #[pyo3(signature = (dim=None, dtype=None, *, axis=None))]
    fn softmax(&self, py: Python<'_>, dim: Any<'_, '_>, dtype: Any<'_, '_>, axis: Any<'_, '_>) -> PyResult<NewTensor> {
        let (d, dt) = (required(args::dim(dim, axis)?, "softmax")?, args::dtype(dtype)?);
        self.run(py, |t| cast(t, dt)?.softmax(d))
    }

    /// The logarithm of `softmax`.
    #[pyo3(signature = (dim=None, dtype=None, *, axis=None))]
    fn log_softmax(
        &self,
        py: Python<'_>,
        dim: Any<'_, '_>,
        dtype: Any<'_, '_>,
        axis: Any<'_, '_>,
    ) -> PyResult<NewTensor> {
        let (d, dt) = (required(args::dim(dim, axis)?, "log_softmax")?, args::dtype(dtype)?);
        self.run(py, |t| cast(t, dt)?.log_softmax(d))
    }
}

/// What NumPy's functions hand to methods and PyTorch's do not have.
type Extra<'a, 'py> = Option<&'a Bound<'py, PyDict>>;

/// Whether NumPy's function of this name calls the method: it passes `out`, which has to be None.
fn from_numpy(extra: Extra<'_, '_>, name: &str) -> PyResult<bool> {
    let Some(extra) = extra else { return Ok(false) };
    for (key, value) in extra {
        if !key.eq("out")? {
            return Err(PyTypeError::new_err(format!("{name}() got an unexpected keyword argument {}", key.repr()?)));
        }
        if !value.is_none() {
            return Err(PyTypeError::new_err(format!(
                "the method {name}() does not support out=; use gt.{name}(x, out=...)"
            )));
        }
    }
    Ok(true)
}

/// What `extra` has under this key, which it has no longer.
fn take<'py>(extra: &Bound<'py, PyDict>, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let found = extra.get_item(key)?;
    if found.is_some() {
        extra.del_item(key)?;
    }
    Ok(found.filter(|value| !value.is_none()))
}

/// The `ddof` and the dtype of NumPy's `std` and `var`.
fn deviation_of_numpy(extra: Extra<'_, '_>, name: &str) -> PyResult<(Option<f64>, Option<gt_ir::DType>)> {
    let Some(extra) = extra else { return Ok((None, None)) };
    let rest = extra.copy()?;
    let ddof = take(&rest, "ddof")?.map(|value| value.extract::<f64>()).transpose()?;
    let dtype = take(&rest, "dtype")?.map(|value| crate::dtype::extract(&value)).transpose()?;
    from_numpy(Some(&rest), name)?;
    Ok((ddof, dtype))
}

fn required(dim: Option<i64>, name: &str) -> PyResult<i64> {
    dim.ok_or_else(|| PyTypeError::new_err(format!("{name}() missing 1 required positional argument: 'dim'")))
}

fn cast(t: &gt_client::Tensor, dtype: Option<gt_ir::DType>) -> gt_client::Result<gt_client::Tensor> {
    match dtype {
        Some(d) => t.to_dtype(d),
        None => Ok(t.clone()),
    }
}

impl PyTensor {
    fn running(
        &self,
        py: Python<'_>,
        kind: ScanKind,
        dim: Any<'_, '_>,
        dtype: Any<'_, '_>,
        axis: Any<'_, '_>,
    ) -> PyResult<NewTensor> {
        let (d, dt) = (required(args::dim(dim, axis)?, kind.name())?, args::dtype(dtype)?);
        self.run(py, |t| t.scan(kind, d, dt))
    }
}
