//! Arguments as PyTorch users write them.

use gt_client::{Arg, Scalar, Tensor};
use gt_ir::DType;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::tensor::PyTensor;

/// A Python number as a scalar; `None` if it is something else.
#[inline]
pub fn number(value: &Bound<'_, PyAny>) -> Option<Scalar> {
    if let Ok(f) = value.cast_exact::<PyFloat>() {
        return Some(Scalar::F64(f.value()));
    }
    if value.is_exact_instance_of::<PyBool>() {
        return value.extract().ok().map(Scalar::Bool);
    }
    if value.is_instance_of::<PyInt>() {
        return match value.extract::<i64>() {
            Ok(i) => Some(Scalar::I64(i)),
            Err(_) => value.extract::<f64>().ok().map(Scalar::F64),
        };
    }
    number_like(value)
}

/// NumPy scalars and other objects that convert.
#[cold]
fn number_like(value: &Bound<'_, PyAny>) -> Option<Scalar> {
    if value.is_instance_of::<PyFloat>() {
        return value.extract().ok().map(Scalar::F64);
    }
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return None;
    }
    // A NumPy scalar has a dtype and no length.
    let kind: String = value.getattr("dtype").and_then(|d| d.getattr("kind")).and_then(|k| k.extract()).ok()?;
    if value.getattr("ndim").and_then(|n| n.extract::<usize>()).ok()? != 0 {
        return None;
    }
    match kind.as_str() {
        "b" => value.is_truthy().ok().map(Scalar::Bool),
        "i" | "u" => value.call_method0("__index__").ok()?.extract().ok().map(Scalar::I64),
        "f" => value.call_method0("__float__").ok()?.extract().ok().map(Scalar::F64),
        _ => None,
    }
}

/// An operand: a tensor, a number, or an array that becomes a tensor.
pub enum Operand<'py> {
    /// A tensor whose handle was not exchanged when it was taken as an operand.
    Tensor(Bound<'py, PyTensor>),
    /// A number.
    Number(Scalar),
    /// Something array-like.
    Made(Tensor),
}

impl<'py> Operand<'py> {
    /// `None` if it is neither: the operator is not implemented.
    #[inline]
    pub fn from(value: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        if let Ok(t) = value.cast::<PyTensor>() {
            return Ok(Some(match t.get().never_exchanged() {
                Some(_) => Operand::Tensor(t.clone()),
                None => Operand::Made(t.get().held().clone()),
            }));
        }
        if let Some(n) = number(value) {
            return Ok(Some(Operand::Number(n)));
        }
        if value.hasattr("__array_interface__")? {
            return Ok(Some(Operand::Made(crate::data::from_any(value, None)?)));
        }
        Ok(None)
    }

    /// The operand, or a TypeError that names it.
    pub fn require(value: &Bound<'py, PyAny>, what: &str) -> PyResult<Self> {
        Operand::from(value)?.ok_or_else(|| {
            let kind = value.get_type().name().map(|n| n.to_string()).unwrap_or_default();
            PyTypeError::new_err(format!("{what} must be Tensor or Number, not {kind}"))
        })
    }

    /// For the client.
    #[inline]
    pub fn arg(&self) -> Arg<'_> {
        match self {
            Operand::Tensor(t) => Arg::Tensor(t.get().first_handle()),
            Operand::Number(n) => Arg::Number(*n),
            Operand::Made(t) => Arg::Tensor(t),
        }
    }
}

/// An axis or extent: an int or something with `__index__`, but not a float or a bool given by mistake.
pub fn int(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    if value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!("expected an int, not {}", value.get_type().name()?)));
    }
    value.extract::<i64>()
}

/// A list of ints: from `*args`, one list, one tuple, or one int.
pub fn ints(args: &Bound<'_, PyTuple>) -> PyResult<Vec<i64>> {
    if args.len() == 1 {
        let only = args.get_item(0)?;
        if only.is_instance_of::<PyTuple>() || only.is_instance_of::<PyList>() {
            return sequence(&only);
        }
    }
    args.iter().map(|v| int(&v)).collect()
}

/// A list of ints from a list or a tuple.
pub fn sequence(value: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    value.try_iter()?.map(|v| int(&v?)).collect()
}

/// One int or several.
pub fn int_or_ints(value: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    if value.is_instance_of::<PyTuple>() || value.is_instance_of::<PyList>() {
        sequence(value)
    } else {
        Ok(vec![int(value)?])
    }
}

/// `dim` and NumPy's `axis` are one argument; none means all.
pub fn dims(dim: Option<&Bound<'_, PyAny>>, axis: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<i64>> {
    match dim.filter(|d| !d.is_none()).or(axis.filter(|a| !a.is_none())) {
        Some(d) => int_or_ints(d),
        None => Ok(Vec::new()),
    }
}

/// One `dim` or `axis`, where given.
pub fn dim(dim: Option<&Bound<'_, PyAny>>, axis: Option<&Bound<'_, PyAny>>) -> PyResult<Option<i64>> {
    dim.filter(|d| !d.is_none()).or(axis.filter(|a| !a.is_none())).map(int).transpose()
}

/// `keepdim` and NumPy's `keepdims` are one argument.
pub fn keep(keepdim: Option<bool>, keepdims: Option<bool>) -> bool {
    keepdim.or(keepdims).unwrap_or(false)
}

/// A dtype, where given.
pub fn dtype(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<DType>> {
    value.filter(|v| !v.is_none()).map(crate::dtype::extract).transpose()
}

/// Extents: ints that are not negative.
pub fn shape(dims: &[i64]) -> PyResult<Vec<usize>> {
    dims.iter()
        .map(|&d| {
            usize::try_from(d).map_err(|_| {
                pyo3::exceptions::PyRuntimeError::new_err(format!(
                    "Trying to create tensor with negative dimension {d}: {dims:?}"
                ))
            })
        })
        .collect()
}

/// Tensors from a list or a tuple of them.
pub fn tensors(value: &Bound<'_, PyAny>) -> PyResult<Vec<Tensor>> {
    if value.is_instance_of::<PyTensor>() {
        return Err(PyTypeError::new_err("expected a tuple or list of Tensors, not a Tensor"));
    }
    value
        .try_iter()?
        .enumerate()
        .map(|(i, v)| {
            let v = v?;
            match v.cast::<PyTensor>() {
                Ok(t) => Ok(t.get().held().clone()),
                Err(_) => Err(PyTypeError::new_err(format!(
                    "expected Tensor as element {i}, but got {}",
                    v.get_type().name()?
                ))),
            }
        })
        .collect()
}
