//! Numbers from Python: nested lists, arrays and buffers, each by one copy.

use gt_client::ops::{check_fits, default_dtype};
use gt_client::{Scalar, Tensor, put_scalar};
use gt_ir::{DType, Shape, TensorType};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyRange, PyString, PyTuple};
use smallvec::SmallVec;

use crate::args::number;
use crate::errors::OrRaise;
use crate::host::room_for;
use crate::tensor::PyTensor;

/// Numbers of nested lists, in order.
struct Gathered {
    numbers: Vec<Scalar>,
    shape: Vec<usize>,
    tensors: bool,
}

/// Walks nested lists; the first path down fixes the shape, every other must fit it.
fn gather(value: &Bound<'_, PyAny>, depth: usize, out: &mut Gathered) -> PyResult<()> {
    if depth > gt_ir::MAX_RANK {
        return Err(PyValueError::new_err(format!("too many dimensions: GT tensors have at most {}", gt_ir::MAX_RANK)));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() || value.is_instance_of::<PyRange>() {
        let n = value.len()?;
        match out.shape.get(depth) {
            None if out.numbers.is_empty() => out.shape.push(n),
            Some(&m) if m == n => {}
            Some(&m) => {
                return Err(PyValueError::new_err(format!("expected sequence of length {m} at dim {depth} (got {n})")));
            }
            None => return Err(PyTypeError::new_err("expected a number, got a sequence: the nested lists are uneven")),
        }
        for item in value.try_iter()? {
            gather(&item?, depth + 1, out)?;
        }
        return Ok(());
    }
    if out.shape.len() != depth {
        return Err(PyValueError::new_err(format!(
            "expected sequence of length {} at dim {depth} (got a number)",
            out.shape[depth]
        )));
    }
    if let Some(n) = number(value) {
        if n.category() == 2 && value.is_instance_of::<PyInt>() {
            return Err(PyRuntimeError::new_err(format!("{value} is out of range for int64")));
        }
        out.numbers.push(n);
        return Ok(());
    }
    if let Ok(t) = value.cast::<PyTensor>() {
        out.tensors = true;
        out.numbers.push(t.get().held().item().or_raise()?);
        return Ok(());
    }
    if value.is_instance_of::<PyString>() {
        return Err(match depth {
            0 => PyTypeError::new_err("new(): invalid data type 'str'"),
            _ => PyValueError::new_err("too many dimensions 'str'"),
        });
    }
    Err(PyRuntimeError::new_err(format!("Could not infer dtype of {}", value.get_type().name()?)))
}

/// The dtype of a buffer's format character.
fn buffer_dtype(format: &str, itemsize: usize) -> PyResult<DType> {
    let code = format.trim_start_matches(['@', '=', '<', '|']);
    let dtype = match (code, itemsize) {
        ("?", 1) => DType::Bool,
        ("b", 1) => DType::I8,
        ("B" | "c", 1) => DType::U8,
        ("i" | "l", 4) => DType::I32,
        ("l" | "q", 8) => DType::I64,
        ("e", 2) => DType::F16,
        ("f", 4) => DType::F32,
        ("d", 8) => DType::F64,
        _ => {
            return Err(PyTypeError::new_err(format!(
                "can't convert an array of format '{format}'. The only supported types are: float64, float32, float16, int64, int32, int8, uint8, and bool."
            )));
        }
    };
    Ok(dtype)
}

/// A tensor from a copy of an object with the buffer protocol.
fn from_buffer(value: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    let mut view = std::mem::MaybeUninit::<ffi::Py_buffer>::uninit();
    // SAFETY: the view is filled by a successful call and released below on every path.
    unsafe {
        if ffi::PyObject_GetBuffer(value.as_ptr(), view.as_mut_ptr(), ffi::PyBUF_FORMAT | ffi::PyBUF_STRIDES) != 0 {
            let _ = PyErr::take(value.py());
            return Ok(None);
        }
        let mut view = view.assume_init();
        let result = copy_view(&view);
        ffi::PyBuffer_Release(&mut view);
        result.map(Some)
    }
}

/// # Safety
/// `view` must be a filled buffer view with shape, strides and format.
unsafe fn copy_view(view: &ffi::Py_buffer) -> PyResult<Tensor> {
    // SAFETY: the buffer protocol promises `ndim` extents and strides, and a terminated format where it is not null.
    unsafe {
        let format =
            if view.format.is_null() { "B" } else { std::ffi::CStr::from_ptr(view.format).to_str().unwrap_or("?") };
        let (n, item) = (view.ndim as usize, view.itemsize as usize);
        let dtype = buffer_dtype(format, item)?;
        let extents: Vec<usize> = (0..n).map(|i| *view.shape.add(i) as usize).collect();
        let strides: Vec<isize> = (0..n).map(|i| *view.strides.add(i)).collect();
        let shape = Shape::try_new(&extents).map_err(gt_client::Error::from).or_raise()?;
        let ty = TensorType { dtype, shape };
        let base = view.buf as *const u8;
        if ffi::PyBuffer_IsContiguous(view, b'C' as _) != 0 && dtype != DType::Bool && ty.numel() > 0 {
            return Tensor::from_lent(ty, std::slice::from_raw_parts(base, ty.bytes())).or_raise();
        }
        let mut bytes = room_for(ty.bytes())?;
        if ffi::PyBuffer_IsContiguous(view, b'C' as _) != 0 {
            bytes.extend_from_slice(std::slice::from_raw_parts(base, ty.bytes()));
        } else if ty.numel() > 0 {
            let mut at = vec![0usize; n];
            let inner = extents[n - 1];
            loop {
                let start: isize = at.iter().zip(&strides).map(|(&i, &s)| i as isize * s).sum();
                for i in 0..inner as isize {
                    let p = base.offset(start + i * strides[n - 1]);
                    bytes.extend_from_slice(std::slice::from_raw_parts(p, item));
                }
                let mut axis = n - 1;
                loop {
                    if axis == 0 {
                        return Tensor::from_bytes(ty, normalised(ty, bytes).into()).or_raise();
                    }
                    axis -= 1;
                    at[axis] += 1;
                    if at[axis] < extents[axis] {
                        break;
                    }
                    at[axis] = 0;
                }
            }
        }
        Tensor::from_bytes(ty, normalised(ty, bytes).into()).or_raise()
    }
}

/// Bools from outside may be any byte; inside they are 0 or 1.
fn normalised(ty: TensorType, mut bytes: Vec<u8>) -> Vec<u8> {
    if ty.dtype == DType::Bool {
        bytes.iter_mut().for_each(|b| *b = (*b != 0) as u8);
    }
    bytes
}

/// A tensor from a number, nested lists, an array or another tensor: always by one copy.
pub fn from_any(value: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Tensor> {
    if let Ok(t) = value.cast::<PyTensor>() {
        let t = t.get().held().detach();
        return dtype.map_or_else(|| t.alias(), |d| if d == t.dtype() { t.alias() } else { t.to_dtype(d) }).or_raise();
    }
    let plain = value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>();
    if !plain {
        if let Some(t) = from_buffer(value)? {
            return dtype.map_or(Ok(t.clone()), |d| t.to_dtype(d)).or_raise();
        }
        if value.hasattr("__array__")? && !value.hasattr("__array_interface__")? {
            return from_any(&value.call_method0("__array__")?, dtype);
        }
        if value.hasattr("__array_interface__")? {
            let array = value.py().import("numpy")?.call_method1("ascontiguousarray", (value,))?;
            return match from_buffer(&array)? {
                Some(t) => dtype.map_or(Ok(t.clone()), |d| t.to_dtype(d)).or_raise(),
                None => Err(PyTypeError::new_err(format!(
                    "can't convert an array of {}. The only supported types are: float64, float32, float16, int64, int32, int8, uint8, and bool.",
                    array.getattr("dtype")?
                ))),
            };
        }
    }
    // A list of arrays or of tensors is stacked.
    if (value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>()) && value.len()? > 0 {
        let first = value.get_item(0)?;
        // Plain numbers and nested lists, by far the most common, are not asked: a missing attribute costs an exception.
        let ordinary = first.is_instance_of::<PyInt>()
            || first.is_instance_of::<PyFloat>()
            || first.is_instance_of::<PyList>()
            || first.is_instance_of::<PyTuple>();
        let arrays = !ordinary && first.hasattr("__array_interface__")? && first.len().is_ok();
        let tensors = first.cast::<PyTensor>().is_ok_and(|t| t.get().held().rank() > 0 && t.get().held().numel() != 1);
        if arrays || tensors {
            let parts: Vec<Tensor> = value.try_iter()?.map(|v| from_any(&v?, dtype)).collect::<PyResult<_>>()?;
            let refs: Vec<&Tensor> = parts.iter().collect();
            return Tensor::stack(&refs, 0).or_raise();
        }
    }
    if let (None, Ok(list)) = (dtype, value.cast_exact::<PyList>())
        && let Some(bytes) = plain_integers(list)
    {
        let ty = TensorType::new(DType::I64, &[list.len()]);
        return Tensor::from_bytes(ty, bytes[..].into()).or_raise();
    }
    let mut out = Gathered { numbers: Vec::new(), shape: Vec::new(), tensors: false };
    gather(value, 0, &mut out)?;
    let category = out.numbers.iter().map(|n| n.category()).max();
    let dtype = dtype.unwrap_or(match category {
        Some(0) => DType::Bool,
        Some(1) => DType::I64,
        _ => default_dtype(),
    });
    let shape = Shape::try_new(&out.shape).map_err(gt_client::Error::from).or_raise()?;
    if shape.numel() != out.numbers.len() {
        return Err(PyValueError::new_err("the nested lists are not all of the same length"));
    }
    let mut bytes = Vec::with_capacity(out.numbers.len() * dtype.size());
    for &n in &out.numbers {
        check_range(n, dtype)?;
        put_scalar(&mut bytes, dtype, n);
    }
    Tensor::from_bytes(TensorType { dtype, shape }, bytes.into()).or_raise()
}

/// The bytes of a list of nothing but integers that fit int64: the common case of index tensors made in a loop.
fn plain_integers(list: &Bound<'_, PyList>) -> Option<SmallVec<[u8; 64]>> {
    if list.is_empty() {
        return None;
    }
    let mut bytes = SmallVec::with_capacity(list.len() * 8);
    for item in list.iter() {
        let number: i64 = item.cast_exact::<PyInt>().ok()?.extract().ok()?;
        bytes.extend_from_slice(&number.to_ne_bytes());
    }
    Some(bytes)
}

/// Refuses a number that an integer dtype cannot hold; floats take any number as infinity at worst.
fn check_range(value: Scalar, dtype: DType) -> PyResult<()> {
    if dtype.is_float() { Ok(()) } else { check_fits(value, dtype).or_raise() }
}
