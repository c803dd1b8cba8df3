//! What stands between the brackets.

use gt_client::Index;
use gt_ir::DType;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PyRange, PySlice, PyString, PyTuple};

use crate::tensor::PyTensor;

/// The entries of an index expression.
pub fn parse(index: &Bound<'_, PyAny>) -> PyResult<Vec<Index>> {
    match index.cast::<PyTuple>() {
        Ok(entries) => entries.iter().map(|e| entry(&e)).collect(),
        Err(_) => match index.cast::<PyList>() {
            Ok(entries) if stands_for_a_tuple(entries) => entries.iter().map(|e| entry(&e)).collect(),
            _ => Ok(vec![entry(index)?]),
        },
    }
}

/// A short list that holds more than numbers is an index expression, as it was in NumPy of old and is in PyTorch.
fn stands_for_a_tuple(entries: &Bound<'_, PyList>) -> bool {
    entries.len() < 32
        && entries.iter().any(|e| {
            e.is_instance_of::<PyList>()
                || e.is_instance_of::<PyTuple>()
                || e.is_instance_of::<PySlice>()
                || e.is_instance_of::<PyEllipsis>()
                || e.is_none()
                || e.cast::<PyTensor>().is_ok_and(|t| t.get().held().rank() > 0)
        })
}

fn bound(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if value.is_none() {
        return Ok(None);
    }
    // Python's own slices take any integer however large: what is out of range is cut off.
    match value.extract::<i64>() {
        Ok(i) => Ok(Some(i)),
        Err(e) if value.is_instance_of::<PyInt>() => {
            let _ = e;
            Ok(Some(if value.lt(0)? { i64::MIN / 4 } else { i64::MAX / 4 }))
        }
        Err(e) => Err(e),
    }
}

fn entry(value: &Bound<'_, PyAny>) -> PyResult<Index> {
    if value.is_exact_instance_of::<PyInt>() {
        return Ok(Index::Int(value.extract()?));
    }
    if let Ok(slice) = value.cast::<PySlice>() {
        let part = |name| bound(&slice.getattr(name)?);
        let clamp = |v: Option<i64>| v.map(|v| v.clamp(i64::MIN / 4, i64::MAX / 4));
        let step = part("step")?.unwrap_or(1);
        return Ok(Index::Slice { start: clamp(part("start")?), stop: clamp(part("stop")?), step });
    }
    if value.is_none() {
        return Ok(Index::NewAxis);
    }
    if value.is_instance_of::<PyEllipsis>() {
        return Ok(Index::Ellipsis);
    }
    if let Ok(t) = value.cast::<PyTensor>() {
        return Ok(Index::Tensor(t.get().held().clone()));
    }
    if value.is_exact_instance_of::<PyBool>() {
        return Ok(Index::Bool(value.extract()?));
    }
    if value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PyRange>()
        || value.hasattr("__array_interface__")?
    {
        let t = crate::data::from_any(value, None)?;
        // An empty list has no dtype of its own; as an index it is integers.
        let t = if t.numel() == 0 && t.dtype() == DType::F32 {
            t.to_dtype(DType::I64).map_err(crate::errors::to_py)?
        } else {
            t
        };
        return Ok(Index::Tensor(t));
    }
    if value.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("new(): invalid data type 'str'"));
    }
    if value.hasattr("__index__")? {
        return Ok(Index::Int(value.call_method0("__index__")?.extract()?));
    }
    Err(PyIndexError::new_err(format!(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})",
        value.get_type().name()?
    )))
}
