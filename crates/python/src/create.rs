//! Making tensors from data and by rule. Random ones: `random.rs`; those like another: `tensor/new.rs`.

use gt_client::ops::{check_fits, default_dtype, dtype_of_number};
use gt_client::{Scalar, Tensor, signal};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::args::{self, ints, number};
use crate::data::from_any;
use crate::device;
use crate::errors::OrRaise;
use crate::site::mark;
use crate::tensor::{NewTensor, PyTensor};

/// An argument that may be left out.
pub(crate) type Any<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// Makes a tensor where it was asked to be, and applies `requires_grad`.
pub(crate) fn finish(
    make: impl FnOnce() -> gt_client::Result<Tensor>,
    requires_grad: bool,
    device: device::Device,
) -> PyResult<NewTensor> {
    finish_from(|| make().or_raise(), requires_grad, device)
}

/// The same for one that Python's objects go into.
pub(crate) fn finish_from(
    make: impl FnOnce() -> PyResult<Tensor>,
    requires_grad: bool,
    device: device::Device,
) -> PyResult<NewTensor> {
    let there = device.scope()?.map(signal::under);
    let t = make()?;
    signal::check_rank(signal::current(), t.shape().len()).or_raise()?;
    drop(there);
    if requires_grad {
        t.set_requires_grad(true).or_raise()?;
    }
    Ok(NewTensor::on(t, device))
}

/// A tensor from numbers, nested lists or an array: a copy, taken now.
///
/// >>> import gt
/// >>> gt.tensor([[1, 2], [3, 4]]).dtype
/// gt.int64
#[pyfunction]
#[pyo3(signature = (data, *, dtype=None, device=None, requires_grad=false, pin_memory=false))]
fn tensor(
    data: &Bound<'_, PyAny>,
    dtype: Any<'_, '_>,
    device: Any<'_, '_>,
    requires_grad: bool,
    pin_memory: bool,
) -> PyResult<NewTensor> {
    let _ = pin_memory;
    mark(data.py());
    let dev = match (device, data.cast::<PyTensor>()) {
        (None, Ok(t)) => t.get().device(),
        _ => device::optional(device)?,
    };
    finish_from(|| from_any(data, args::dtype(dtype)?), requires_grad, dev)
}

/// The tensor itself if it is one of that dtype, else a new one.
///
/// >>> x = gt.ones(2)
/// >>> gt.as_tensor(x) is x, gt.as_tensor([1, 2])
/// (True, tensor([1, 2]))
#[pyfunction]
#[pyo3(signature = (data, dtype=None, device=None))]
fn as_tensor<'py>(data: &Bound<'py, PyAny>, dtype: Any<'_, 'py>, device: Any<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
    let dt = args::dtype(dtype)?;
    if let Ok(t) = data.cast::<PyTensor>()
        && dt.is_none_or(|d| d == t.get().held().dtype())
        && device.is_none()
    {
        return Ok(data.clone());
    }
    if let Ok(t) = data.cast::<PyTensor>() {
        mark(data.py());
        let dev = if device.is_none() { t.get().device() } else { device::optional(device)? };
        return Ok(t.get().cast_to(t, dt, dev, false)?.into_any());
    }
    Ok(tensor(data, dtype, device, false, false)?.into_pyobject(data.py())?.into_any())
}

/// A tensor from a NumPy array: a copy, taken now.
///
/// >>> import numpy as np
/// >>> gt.from_numpy(np.array([1.0, 2.0])).dtype
/// gt.float64
/// >>> gt.from_numpy(np.array([1.0, 2.0]), requires_grad=True).requires_grad
/// True
#[pyfunction]
#[pyo3(signature = (array, *, requires_grad=false))]
fn from_numpy(array: &Bound<'_, PyAny>, requires_grad: bool) -> PyResult<NewTensor> {
    mark(array.py());
    if !array.hasattr("__array_interface__")? {
        return Err(PyTypeError::new_err(format!("expected np.ndarray (got {})", array.get_type().name()?)));
    }
    let made = from_any(array, None)?;
    if requires_grad {
        made.set_requires_grad(true).or_raise()?;
    }
    Ok(NewTensor::new(made))
}

/// The shape that sizes, or one `size`, ask for.
pub(crate) fn extents(args: &Bound<'_, PyTuple>, size: Any<'_, '_>) -> PyResult<Vec<usize>> {
    let dims = match size {
        Some(s) => args::int_or_ints(s)?,
        None if args.is_empty() => return Err(PyTypeError::new_err("missing 1 required positional argument: 'size'")),
        None => ints(args)?,
    };
    args::shape(&dims)
}

macro_rules! filled {
    ($($(#[$doc:meta])* $name:ident $(#[$like_doc:meta])* $like:ident $value:expr;)*) => {$(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (*sizes, size=None, dtype=None, device=None, requires_grad=false, pin_memory=false, layout=None))]
        #[allow(clippy::too_many_arguments)]
        fn $name(sizes: &Bound<'_, PyTuple>, size: Any<'_, '_>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool, pin_memory: bool, layout: Any<'_, '_>) -> PyResult<NewTensor> {
            let _ = (pin_memory, layout);
            mark(sizes.py());
            let shape = extents(sizes, size)?;
            let dt = args::dtype(dtype)?.unwrap_or_else(default_dtype);
            finish(|| Tensor::full(&shape, $value, Some(dt)), requires_grad, device::optional(device)?)
        }

        $(#[$like_doc])*
        #[pyfunction]
        #[pyo3(signature = (input, *, dtype=None, device=None, requires_grad=false, memory_format=None, layout=None, pin_memory=false))]
        #[allow(clippy::too_many_arguments)]
        fn $like(input: &Bound<'_, PyTensor>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool, memory_format: Any<'_, '_>, layout: Any<'_, '_>, pin_memory: bool) -> PyResult<NewTensor> {
            let _ = (memory_format, layout, pin_memory);
            mark(input.py());
            let this = input.get();
            let dt = args::dtype(dtype)?.unwrap_or(this.held().dtype());
            let dev = if device.is_none() { this.device() } else { device::optional(device)? };
            finish(|| Tensor::full(this.held().shape(), $value, Some(dt)), requires_grad, dev)
        }
    )*};
}

filled! {
    /// Zeros.
    ///
    /// >>> gt.zeros(2, 3), gt.zeros((2,), dtype=gt.int64)
    /// (tensor([[0., 0., 0.],
    ///         [0., 0., 0.]]), tensor([0, 0]))
    zeros
    /// Zeros. The shape and dtype are those of `input`.
    ///
    /// >>> gt.zeros_like(gt.tensor([1, 2]))
    /// tensor([0, 0])
    zeros_like 0.0;
    /// Ones.
    ///
    /// >>> gt.ones(3)
    /// tensor([1., 1., 1.])
    ones
    /// Ones. The shape and dtype are those of `input`.
    ///
    /// >>> gt.ones_like(gt.tensor([5, 6]))
    /// tensor([1, 1])
    ones_like 1.0;
    /// A tensor whose content is not specified; here it is zeros.
    ///
    /// >>> gt.empty(2, 3).shape
    /// gt.Size([2, 3])
    empty
    /// A tensor whose content is not specified; here it is zeros. The shape and dtype are those of `input`.
    ///
    /// >>> gt.empty_like(gt.tensor([1, 2])).dtype
    /// gt.int64
    empty_like 0.0;
}

/// Every element is `fill_value`.
///
/// >>> gt.full((2, 3), 7)
/// tensor([[7, 7, 7],
///         [7, 7, 7]])
#[pyfunction]
#[pyo3(signature = (size, fill_value, *, dtype=None, device=None, requires_grad=false))]
fn full(
    size: &Bound<'_, PyAny>,
    fill_value: &Bound<'_, PyAny>,
    dtype: Any<'_, '_>,
    device: Any<'_, '_>,
    requires_grad: bool,
) -> PyResult<NewTensor> {
    mark(size.py());
    if size.is_instance_of::<pyo3::types::PyInt>() {
        return Err(pyo3::exceptions::PyTypeError::new_err(
            "full(): argument 'size' (position 1) must be tuple of ints, not int",
        ));
    }
    let shape = args::shape(&args::int_or_ints(size)?)?;
    let (value, dt) = (fill(fill_value)?, args::dtype(dtype)?);
    check_fits(value, dt.unwrap_or_else(|| dtype_of_number(value))).or_raise()?;
    finish(|| Tensor::full(&shape, value, dt), requires_grad, device::optional(device)?)
}

/// Every element is `fill_value`; the shape and dtype are those of `input`.
///
/// >>> gt.full_like(gt.zeros(3), 2)
/// tensor([2., 2., 2.])
#[pyfunction]
#[pyo3(signature = (input, fill_value, *, dtype=None, device=None, requires_grad=false, memory_format=None))]
fn full_like(
    input: &Bound<'_, PyTensor>,
    fill_value: &Bound<'_, PyAny>,
    dtype: Any<'_, '_>,
    device: Any<'_, '_>,
    requires_grad: bool,
    memory_format: Any<'_, '_>,
) -> PyResult<NewTensor> {
    let _ = memory_format;
    mark(input.py());
    let (this, value) = (input.get(), fill(fill_value)?);
    let dt = args::dtype(dtype)?.unwrap_or(this.held().dtype());
    check_fits(value, dt).or_raise()?;
    let dev = if device.is_none() { this.device() } else { device::optional(device)? };
    finish(|| Tensor::full(this.held().shape(), value, Some(dt)), requires_grad, dev)
}

/// The number to fill with, which may come in a tensor.
pub(crate) fn fill(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    if let Some(n) = number(value) {
        return Ok(n);
    }
    match value.cast::<PyTensor>() {
        Ok(t) => t.get().held().item().or_raise(),
        Err(_) => Err(PyTypeError::new_err("fill_value must be a number")),
    }
}

fn scalar_arg(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Scalar> {
    match number(value) {
        Some(n) => Ok(n),
        None => match value.cast::<PyTensor>() {
            Ok(t) => t.get().held().item().or_raise(),
            Err(_) => Err(PyTypeError::new_err(format!("{name} must be a number, not {}", value.get_type().name()?))),
        },
    }
}

/// Numbers from `start` up to but without `end`.
///
/// >>> gt.arange(5), gt.arange(1, 2, 0.25)
/// (tensor([0, 1, 2, 3, 4]), tensor([1.0000, 1.2500, 1.5000, 1.7500]))
#[pyfunction]
#[pyo3(signature = (start=None, end=None, step=None, *, dtype=None, device=None, requires_grad=false))]
#[allow(clippy::too_many_arguments)]
fn arange(
    py: Python<'_>,
    start: Any<'_, '_>,
    end: Any<'_, '_>,
    step: Any<'_, '_>,
    dtype: Any<'_, '_>,
    device: Any<'_, '_>,
    requires_grad: bool,
) -> PyResult<NewTensor> {
    mark(py);
    let (a, b) = match (start.filter(|s| !s.is_none()), end.filter(|e| !e.is_none())) {
        (Some(s), Some(e)) => (scalar_arg(s, "start")?, scalar_arg(e, "end")?),
        (Some(e), None) | (None, Some(e)) => (Scalar::I64(0), scalar_arg(e, "end")?),
        (None, None) => return Err(PyTypeError::new_err("arange() missing 1 required positional argument: 'end'")),
    };
    let s = step.map_or(Ok(Scalar::I64(1)), |s| scalar_arg(s, "step"))?;
    let dt = args::dtype(dtype)?;
    finish(|| Tensor::arange(a, b, s, dt), requires_grad, device::optional(device)?)
}

/// `steps` numbers from `start` to `end`, both included.
///
/// >>> gt.linspace(0, 1, 5)
/// tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
#[pyfunction]
#[pyo3(signature = (start, end, steps, *, dtype=None, device=None, requires_grad=false))]
fn linspace(
    start: &Bound<'_, PyAny>,
    end: &Bound<'_, PyAny>,
    steps: i64,
    dtype: Any<'_, '_>,
    device: Any<'_, '_>,
    requires_grad: bool,
) -> PyResult<NewTensor> {
    mark(start.py());
    let n = usize::try_from(steps).map_err(|_| PyRuntimeError::new_err("number of steps must be non-negative"))?;
    let (a, b) = (scalar_arg(start, "start")?.as_f64(), scalar_arg(end, "end")?.as_f64());
    let dt = args::dtype(dtype)?;
    finish(|| Tensor::linspace(a, b, n, dt), requires_grad, device::optional(device)?)
}

/// Ones on the diagonal.
///
/// >>> gt.eye(2, 3)
/// tensor([[1., 0., 0.],
///         [0., 1., 0.]])
#[pyfunction]
#[pyo3(signature = (n, m=None, *, dtype=None, device=None, requires_grad=false))]
fn eye(
    py: Python<'_>,
    n: i64,
    m: Option<i64>,
    dtype: Any<'_, '_>,
    device: Any<'_, '_>,
    requires_grad: bool,
) -> PyResult<NewTensor> {
    mark(py);
    let extent = |name: &str, v: i64| {
        usize::try_from(v)
            .map_err(|_| PyRuntimeError::new_err(format!("{name} must be greater or equal to 0, got {v}")))
    };
    let (n, m) = (extent("n", n)?, extent("m", m.unwrap_or(n))?);
    let dt = args::dtype(dtype)?;
    finish(|| Tensor::eye(n, m, dt), requires_grad, device::optional(device)?)
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    macro_rules! add {
        ($($f:ident),*) => { $(m.add_function(wrap_pyfunction!($f, m)?)?;)* };
    }
    add!(
        tensor, as_tensor, from_numpy, zeros, zeros_like, ones, ones_like, empty, empty_like, full, full_like, arange,
        linspace, eye
    );
    m.add_function(wrap_pyfunction!(crate::tensor::convert::_rebuild_tensor, m)?)
}
