//! Making tensors.

use gt_client::ops::default_dtype;
use gt_client::{Scalar, Tensor, signal};
use gt_ir::DType;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::args::{self, ints, number};
use crate::data::{check_range, from_any};
use crate::device;
use crate::errors::OrRaise;
use crate::generator::PyGenerator;
use crate::site::mark;
use crate::tensor::PyTensor;

type Any<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// Makes a tensor where it was asked to be, and applies `requires_grad`.
fn finish(
    make: impl FnOnce() -> gt_client::Result<Tensor>,
    requires_grad: bool,
    device: device::Device,
) -> PyResult<PyTensor> {
    finish_from(|| make().or_raise(), requires_grad, device)
}

/// The same for one that Python's objects go into.
fn finish_from(
    make: impl FnOnce() -> PyResult<Tensor>,
    requires_grad: bool,
    device: device::Device,
) -> PyResult<PyTensor> {
    let there = device.scope()?.map(signal::under);
    let t = make()?;
    signal::check_rank(signal::current(), t.shape().len()).or_raise()?;
    drop(there);
    if requires_grad {
        t.set_requires_grad(true).or_raise()?;
    }
    Ok(PyTensor::on(t, device))
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
) -> PyResult<PyTensor> {
    let _ = pin_memory;
    mark(data.py());
    let dev = match (device, data.cast::<PyTensor>()) {
        (None, Ok(t)) => t.get().device(),
        _ => device::optional(device)?,
    };
    finish_from(|| from_any(data, args::dtype(dtype)?), requires_grad, dev)
}

/// The tensor itself if it is one of that dtype, else a new one.
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
#[pyfunction]
fn from_numpy(array: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
    mark(array.py());
    if !array.hasattr("__array_interface__")? {
        return Err(PyTypeError::new_err(format!("expected np.ndarray (got {})", array.get_type().name()?)));
    }
    Ok(PyTensor::new(from_any(array, None)?))
}

fn extents(args: &Bound<'_, PyTuple>, size: Any<'_, '_>) -> PyResult<Vec<usize>> {
    let dims = match size {
        Some(s) => args::int_or_ints(s)?,
        None if args.is_empty() => return Err(PyTypeError::new_err("missing 1 required positional argument: 'size'")),
        None => ints(args)?,
    };
    args::shape(&dims)
}

macro_rules! filled {
    ($($doc:literal $name:ident $like:ident $value:expr;)*) => {$(
        #[doc = $doc]
        #[pyfunction]
        #[pyo3(signature = (*sizes, size=None, dtype=None, device=None, requires_grad=false, pin_memory=false, layout=None))]
        #[allow(clippy::too_many_arguments)]
        fn $name(sizes: &Bound<'_, PyTuple>, size: Any<'_, '_>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool, pin_memory: bool, layout: Any<'_, '_>) -> PyResult<PyTensor> {
            let _ = (pin_memory, layout);
            mark(sizes.py());
            let shape = extents(sizes, size)?;
            let dt = args::dtype(dtype)?.unwrap_or_else(default_dtype);
            finish(|| Tensor::full(&shape, $value, Some(dt)), requires_grad, device::optional(device)?)
        }

        #[doc = concat!($doc, " The shape and dtype are those of `input`.")]
        #[pyfunction]
        #[pyo3(signature = (input, *, dtype=None, device=None, requires_grad=false, memory_format=None, layout=None, pin_memory=false))]
        #[allow(clippy::too_many_arguments)]
        fn $like(input: &Bound<'_, PyTensor>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool, memory_format: Any<'_, '_>, layout: Any<'_, '_>, pin_memory: bool) -> PyResult<PyTensor> {
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
    "Zeros." zeros zeros_like 0.0;
    "Ones." ones ones_like 1.0;
    "A tensor whose content is not specified; here it is zeros." empty empty_like 0.0;
}

/// Every element is `fill_value`.
#[pyfunction]
#[pyo3(signature = (size, fill_value, *, dtype=None, device=None, requires_grad=false))]
fn full(
    size: &Bound<'_, PyAny>,
    fill_value: &Bound<'_, PyAny>,
    dtype: Any<'_, '_>,
    device: Any<'_, '_>,
    requires_grad: bool,
) -> PyResult<PyTensor> {
    mark(size.py());
    if size.is_instance_of::<pyo3::types::PyInt>() {
        return Err(pyo3::exceptions::PyTypeError::new_err(
            "full(): argument 'size' (position 1) must be tuple of ints, not int",
        ));
    }
    let shape = args::shape(&args::int_or_ints(size)?)?;
    let (value, dt) = (fill(fill_value)?, args::dtype(dtype)?);
    check_range(value, dt.unwrap_or(DType::I64))?;
    finish(|| Tensor::full(&shape, value, dt), requires_grad, device::optional(device)?)
}

/// Every element is `fill_value`; the shape and dtype are those of `input`.
#[pyfunction]
#[pyo3(signature = (input, fill_value, *, dtype=None, device=None, requires_grad=false, memory_format=None))]
fn full_like(
    input: &Bound<'_, PyTensor>,
    fill_value: &Bound<'_, PyAny>,
    dtype: Any<'_, '_>,
    device: Any<'_, '_>,
    requires_grad: bool,
    memory_format: Any<'_, '_>,
) -> PyResult<PyTensor> {
    let _ = memory_format;
    mark(input.py());
    let (this, value) = (input.get(), fill(fill_value)?);
    let dt = args::dtype(dtype)?.unwrap_or(this.held().dtype());
    check_range(value, dt)?;
    let dev = if device.is_none() { this.device() } else { device::optional(device)? };
    finish(|| Tensor::full(this.held().shape(), value, Some(dt)), requires_grad, dev)
}

fn fill(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
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
) -> PyResult<PyTensor> {
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
#[pyfunction]
#[pyo3(signature = (start, end, steps, *, dtype=None, device=None, requires_grad=false))]
fn linspace(
    start: &Bound<'_, PyAny>,
    end: &Bound<'_, PyAny>,
    steps: i64,
    dtype: Any<'_, '_>,
    device: Any<'_, '_>,
    requires_grad: bool,
) -> PyResult<PyTensor> {
    mark(start.py());
    let n = usize::try_from(steps).map_err(|_| PyRuntimeError::new_err("number of steps must be non-negative"))?;
    let (a, b) = (scalar_arg(start, "start")?.as_f64(), scalar_arg(end, "end")?.as_f64());
    let dt = args::dtype(dtype)?;
    finish(|| Tensor::linspace(a, b, n, dt), requires_grad, device::optional(device)?)
}

/// Ones on the diagonal.
#[pyfunction]
#[pyo3(signature = (n, m=None, *, dtype=None, device=None, requires_grad=false))]
fn eye(
    py: Python<'_>,
    n: i64,
    m: Option<i64>,
    dtype: Any<'_, '_>,
    device: Any<'_, '_>,
    requires_grad: bool,
) -> PyResult<PyTensor> {
    mark(py);
    let extent = |name: &str, v: i64| {
        usize::try_from(v)
            .map_err(|_| PyRuntimeError::new_err(format!("{name} must be greater or equal to 0, got {v}")))
    };
    let (n, m) = (extent("n", n)?, extent("m", m.unwrap_or(n))?);
    let dt = args::dtype(dtype)?;
    finish(|| Tensor::eye(n, m, dt), requires_grad, device::optional(device)?)
}

macro_rules! random {
    ($($doc:literal $name:ident $like:ident $make:ident;)*) => {$(
        #[doc = $doc]
        #[pyfunction]
        #[pyo3(signature = (*sizes, size=None, generator=None, dtype=None, device=None, requires_grad=false, pin_memory=false))]
        #[allow(clippy::too_many_arguments)]
        fn $name(sizes: &Bound<'_, PyTuple>, size: Any<'_, '_>, generator: Option<&Bound<'_, PyGenerator>>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool, pin_memory: bool) -> PyResult<PyTensor> {
            let _ = pin_memory;
            mark(sizes.py());
            let shape = extents(sizes, size)?;
            let g = generator.map(|g| &g.get().0);
            let dt = args::dtype(dtype)?;
            finish(|| Tensor::$make(&shape, dt, g), requires_grad, device::optional(device)?)
        }

        #[doc = concat!($doc, " The shape and dtype are those of `input`.")]
        #[pyfunction]
        #[pyo3(signature = (input, *, dtype=None, device=None, requires_grad=false, memory_format=None, generator=None))]
        fn $like(input: &Bound<'_, PyTensor>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool, memory_format: Any<'_, '_>, generator: Option<&Bound<'_, PyGenerator>>) -> PyResult<PyTensor> {
            let _ = memory_format;
            mark(input.py());
            let this = input.get();
            let dt = args::dtype(dtype)?.unwrap_or(this.held().dtype());
            let dev = if device.is_none() { this.device() } else { device::optional(device)? };
            finish(|| Tensor::$make(this.held().shape(), Some(dt), generator.map(|g| &g.get().0)), requires_grad, dev)
        }
    )*};
}

random! {
    "Uniform random numbers in `[0, 1)`." rand rand_like rand;
    "Normal random numbers with mean 0 and variance 1." randn randn_like randn;
}

/// Random integers: `randint(high, size)` or `randint(low, high, size)`.
#[pyfunction]
#[pyo3(signature = (*bounds, low=None, high=None, size=None, generator=None, dtype=None, device=None, requires_grad=false))]
#[allow(clippy::too_many_arguments)]
fn randint(
    bounds: &Bound<'_, PyTuple>,
    low: Option<i64>,
    high: Option<i64>,
    size: Any<'_, '_>,
    generator: Option<&Bound<'_, PyGenerator>>,
    dtype: Any<'_, '_>,
    device: Any<'_, '_>,
    requires_grad: bool,
) -> PyResult<PyTensor> {
    mark(bounds.py());
    let mut numbers = Vec::new();
    let mut shape = size.map(args::int_or_ints).transpose()?;
    for b in bounds.iter() {
        if b.is_instance_of::<PyTuple>() || b.is_instance_of::<PyList>() {
            shape = Some(args::sequence(&b)?);
        } else {
            numbers.push(args::int(&b)?);
        }
    }
    let (a, b) = match (&numbers[..], low, high) {
        ([], l, Some(h)) => (l.unwrap_or(0), h),
        ([h], None, None) => (0, *h),
        ([l], None, Some(h)) => (*l, h),
        ([h], Some(l), None) => (l, *h),
        ([l, h], None, None) => (*l, *h),
        _ => return Err(PyTypeError::new_err("randint() takes (high, size) or (low, high, size)")),
    };
    let shape = shape.ok_or_else(|| PyTypeError::new_err("randint() missing 1 required argument: 'size'"))?;
    let g = generator.map(|g| &g.get().0);
    let (shape, dt) = (args::shape(&shape)?, args::dtype(dtype)?);
    finish(|| Tensor::randint(a, b, &shape, dt, g), requires_grad, device::optional(device)?)
}

/// Random integers in the shape of `input`.
#[pyfunction]
#[pyo3(signature = (input, low, high=None, *, dtype=None, device=None, requires_grad=false))]
fn randint_like(
    input: &Bound<'_, PyTensor>,
    low: i64,
    high: Option<i64>,
    dtype: Any<'_, '_>,
    device: Any<'_, '_>,
    requires_grad: bool,
) -> PyResult<PyTensor> {
    mark(input.py());
    let this = input.get();
    let (a, b) = high.map_or((0, low), |h| (low, h));
    let dt = args::dtype(dtype)?.unwrap_or(this.held().dtype());
    let dev = if device.is_none() { this.device() } else { device::optional(device)? };
    finish(|| Tensor::randint(a, b, this.held().shape(), Some(dt), None), requires_grad, dev)
}

/// A random order of `0, 1, …, n - 1`.
#[pyfunction]
#[pyo3(signature = (n, *, generator=None, dtype=None, device=None, requires_grad=false))]
fn randperm(
    py: Python<'_>,
    n: i64,
    generator: Option<&Bound<'_, PyGenerator>>,
    dtype: Any<'_, '_>,
    device: Any<'_, '_>,
    requires_grad: bool,
) -> PyResult<PyTensor> {
    mark(py);
    let n = usize::try_from(n).map_err(|_| PyRuntimeError::new_err(format!("n must be non-negative, got {n}")))?;
    let (dt, g) = (args::dtype(dtype)?, generator.map(|g| &g.get().0));
    finish(|| Tensor::randperm(n, dt, g), requires_grad, device::optional(device)?)
}

#[pymethods]
impl PyTensor {
    /// Zeros of the same dtype.
    #[pyo3(signature = (*sizes, size=None, dtype=None, device=None, requires_grad=false))]
    fn new_zeros(
        &self,
        sizes: &Bound<'_, PyTuple>,
        size: Any<'_, '_>,
        dtype: Any<'_, '_>,
        device: Any<'_, '_>,
        requires_grad: bool,
    ) -> PyResult<PyTensor> {
        self.new_filled(sizes, size, dtype, device, requires_grad, Scalar::F64(0.0))
    }

    /// Ones of the same dtype.
    #[pyo3(signature = (*sizes, size=None, dtype=None, device=None, requires_grad=false))]
    fn new_ones(
        &self,
        sizes: &Bound<'_, PyTuple>,
        size: Any<'_, '_>,
        dtype: Any<'_, '_>,
        device: Any<'_, '_>,
        requires_grad: bool,
    ) -> PyResult<PyTensor> {
        self.new_filled(sizes, size, dtype, device, requires_grad, Scalar::F64(1.0))
    }

    /// A tensor of the same dtype whose content is not specified.
    #[pyo3(signature = (*sizes, size=None, dtype=None, device=None, requires_grad=false))]
    fn new_empty(
        &self,
        sizes: &Bound<'_, PyTuple>,
        size: Any<'_, '_>,
        dtype: Any<'_, '_>,
        device: Any<'_, '_>,
        requires_grad: bool,
    ) -> PyResult<PyTensor> {
        self.new_filled(sizes, size, dtype, device, requires_grad, Scalar::F64(0.0))
    }

    /// One number everywhere, of the same dtype.
    #[pyo3(signature = (size, fill_value, *, dtype=None, device=None, requires_grad=false))]
    fn new_full(
        &self,
        size: &Bound<'_, PyAny>,
        fill_value: &Bound<'_, PyAny>,
        dtype: Any<'_, '_>,
        device: Any<'_, '_>,
        requires_grad: bool,
    ) -> PyResult<PyTensor> {
        let none = PyTuple::empty(size.py());
        self.new_filled(&none, Some(size), dtype, device, requires_grad, fill(fill_value)?)
    }

    /// A tensor from data, of the same dtype.
    #[pyo3(signature = (data, *, dtype=None, device=None, requires_grad=false))]
    fn new_tensor(
        &self,
        data: &Bound<'_, PyAny>,
        dtype: Any<'_, '_>,
        device: Any<'_, '_>,
        requires_grad: bool,
    ) -> PyResult<PyTensor> {
        mark(data.py());
        let dt = args::dtype(dtype)?.unwrap_or(self.held().dtype());
        let dev = if device.is_none() { self.device() } else { device::optional(device)? };
        finish_from(|| from_any(data, Some(dt)), requires_grad, dev)
    }
}

impl PyTensor {
    fn new_filled(
        &self,
        sizes: &Bound<'_, PyTuple>,
        size: Any<'_, '_>,
        dtype: Any<'_, '_>,
        device: Any<'_, '_>,
        requires_grad: bool,
        value: Scalar,
    ) -> PyResult<PyTensor> {
        mark(sizes.py());
        let shape = extents(sizes, size)?;
        let dt = args::dtype(dtype)?.unwrap_or(self.held().dtype());
        let dev = if device.is_none() { self.device() } else { device::optional(device)? };
        finish(|| Tensor::full(&shape, value, Some(dt)), requires_grad, dev)
    }
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
    add!(rand, rand_like, randn, randn_like, randint, randint_like, randperm);
    m.add_function(wrap_pyfunction!(crate::tensor::convert::_rebuild_tensor, m)?)
}
