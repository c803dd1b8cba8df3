//! Making tensors.

use gt_client::ops::default_dtype;
use gt_client::{Scalar, Tensor, put_scalar};
use gt_ir::{DType, Shape, TensorType};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyRange, PyString, PyTuple};

use crate::args::{self, ints, number};
use crate::device;
use crate::errors::OrRaise;
use crate::generator::PyGenerator;
use crate::site::mark;
use crate::tensor::PyTensor;

type Any<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

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
            Some(&m) => return Err(PyValueError::new_err(format!("expected sequence of length {m} at dim {depth} (got {n})"))),
            None => return Err(PyTypeError::new_err("expected a number, got a sequence: the nesting is uneven")),
        }
        for item in value.try_iter()? {
            gather(&item?, depth + 1, out)?;
        }
        return Ok(());
    }
    if out.shape.len() != depth {
        return Err(PyValueError::new_err(format!("expected sequence of length {} at dim {depth} (got a number)", out.shape[depth])));
    }
    if let Some(n) = number(value) {
        if n.category() == 2 && value.is_instance_of::<PyInt>() {
            return Err(PyRuntimeError::new_err(format!("{value} does not fit into int64")));
        }
        out.numbers.push(n);
        return Ok(());
    }
    if let Ok(t) = value.cast::<PyTensor>() {
        out.tensors = true;
        out.numbers.push(t.get().t.item().or_raise()?);
        return Ok(());
    }
    if value.is_instance_of::<PyString>() {
        return Err(PyValueError::new_err("too many dimensions 'str'"));
    }
    Err(PyTypeError::new_err(format!("could not make a tensor of {}", value.get_type().name()?)))
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

/// A packed copy of an object with the buffer protocol.
fn from_buffer(value: &Bound<'_, PyAny>) -> PyResult<Option<(TensorType, Vec<u8>)>> {
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
unsafe fn copy_view(view: &ffi::Py_buffer) -> PyResult<(TensorType, Vec<u8>)> {
    // SAFETY: the buffer protocol promises `ndim` extents and strides, and a terminated format where it is not null.
    unsafe {
        let format = if view.format.is_null() { "B" } else { std::ffi::CStr::from_ptr(view.format).to_str().unwrap_or("?") };
        let (n, item) = (view.ndim as usize, view.itemsize as usize);
        let dtype = buffer_dtype(format, item)?;
        let extents: Vec<usize> = (0..n).map(|i| *view.shape.add(i) as usize).collect();
        let strides: Vec<isize> = (0..n).map(|i| *view.strides.add(i)).collect();
        let shape = Shape::try_new(&extents).map_err(gt_client::Error::from).or_raise()?;
        let ty = TensorType { dtype, shape };
        let mut bytes = Vec::with_capacity(ty.bytes());
        let base = view.buf as *const u8;
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
                        return Ok((ty, normalised(ty, bytes)));
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
        Ok((ty, normalised(ty, bytes)))
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
        let t = t.get().t.detach();
        return dtype.map_or_else(|| t.alias(), |d| if d == t.dtype() { t.alias() } else { t.to_dtype(d) }).or_raise();
    }
    let plain = value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>();
    if !plain {
        if let Some((ty, bytes)) = from_buffer(value)? {
            let t = Tensor::from_bytes(ty, bytes.into()).or_raise()?;
            return dtype.map_or(Ok(t.clone()), |d| t.to_dtype(d)).or_raise();
        }
        if value.hasattr("__array__")? && !value.hasattr("__array_interface__")? {
            return from_any(&value.call_method0("__array__")?, dtype);
        }
        if value.hasattr("__array_interface__")? {
            let array = value.py().import("numpy")?.call_method1("ascontiguousarray", (value,))?;
            return match from_buffer(&array)? {
                Some((ty, bytes)) => {
                    let t = Tensor::from_bytes(ty, bytes.into()).or_raise()?;
                    dtype.map_or(Ok(t.clone()), |d| t.to_dtype(d)).or_raise()
                }
                None => Err(PyTypeError::new_err("the array offers no buffer")),
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
        let tensors = first.cast::<PyTensor>().is_ok_and(|t| t.get().t.rank() > 0);
        if arrays || tensors {
            let parts: Vec<Tensor> = value.try_iter()?.map(|v| from_any(&v?, dtype)).collect::<PyResult<_>>()?;
            let refs: Vec<&Tensor> = parts.iter().collect();
            return Tensor::stack(&refs, 0).or_raise();
        }
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

/// Refuses an integer that a dtype cannot hold. As in PyTorch a negative one may stand for the upper half of uint8.
fn check_range(value: Scalar, dtype: DType) -> PyResult<()> {
    let range = match dtype {
        DType::U8 => -255..=255,
        DType::I8 => i8::MIN as i64..=i8::MAX as i64,
        DType::I32 => i32::MIN as i64..=i32::MAX as i64,
        DType::Bool | DType::I64 | DType::F16 | DType::BF16 | DType::F32 | DType::F64 => return Ok(()),
    };
    if range.contains(&value.as_i64()) {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(format!("value cannot be converted to type {} without overflow", dtype.long_name())))
}

/// Applies `requires_grad` and the device to a fresh tensor.
fn finish(t: gt_client::Result<Tensor>, requires_grad: bool, device: device::Device) -> PyResult<PyTensor> {
    let t = t.or_raise()?;
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
fn tensor(data: &Bound<'_, PyAny>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool, pin_memory: bool) -> PyResult<PyTensor> {
    let _ = pin_memory;
    mark(data.py());
    let dev = match (device, data.cast::<PyTensor>()) {
        (None, Ok(t)) => t.get().device,
        _ => device::optional(device)?,
    };
    finish(Ok(from_any(data, args::dtype(dtype)?)?), requires_grad, dev)
}

/// The tensor itself if it is one of that dtype, else a new one.
#[pyfunction]
#[pyo3(signature = (data, dtype=None, device=None))]
fn as_tensor<'py>(data: &Bound<'py, PyAny>, dtype: Any<'_, 'py>, device: Any<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
    let dt = args::dtype(dtype)?;
    if let Ok(t) = data.cast::<PyTensor>()
        && dt.is_none_or(|d| d == t.get().t.dtype())
        && device.is_none()
    {
        return Ok(data.clone());
    }
    if let Ok(t) = data.cast::<PyTensor>() {
        mark(data.py());
        let out = dt.map_or(Ok(t.get().t.clone()), |d| t.get().t.to_dtype(d)).or_raise()?;
        let device = if device.is_none() { t.get().device } else { device::optional(device)? };
        return Ok(PyTensor::on(out, device).into_pyobject(data.py())?.into_any());
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
            finish(Tensor::full(&shape, $value, Some(dt)), requires_grad, device::optional(device)?)
        }

        #[doc = concat!($doc, " The shape and dtype are those of `input`.")]
        #[pyfunction]
        #[pyo3(signature = (input, *, dtype=None, device=None, requires_grad=false, memory_format=None, layout=None, pin_memory=false))]
        #[allow(clippy::too_many_arguments)]
        fn $like(input: &Bound<'_, PyTensor>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool, memory_format: Any<'_, '_>, layout: Any<'_, '_>, pin_memory: bool) -> PyResult<PyTensor> {
            let _ = (memory_format, layout, pin_memory);
            mark(input.py());
            let this = input.get();
            let dt = args::dtype(dtype)?.unwrap_or(this.t.dtype());
            let dev = if device.is_none() { this.device } else { device::optional(device)? };
            finish(Tensor::full(this.t.shape(), $value, Some(dt)), requires_grad, dev)
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
fn full(size: &Bound<'_, PyAny>, fill_value: &Bound<'_, PyAny>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool) -> PyResult<PyTensor> {
    mark(size.py());
    let shape = args::shape(&args::int_or_ints(size)?)?;
    let (value, dt) = (fill(fill_value)?, args::dtype(dtype)?);
    check_range(value, dt.unwrap_or(DType::I64))?;
    finish(Tensor::full(&shape, value, dt), requires_grad, device::optional(device)?)
}

/// Every element is `fill_value`; the shape and dtype are those of `input`.
#[pyfunction]
#[pyo3(signature = (input, fill_value, *, dtype=None, device=None, requires_grad=false, memory_format=None))]
fn full_like(input: &Bound<'_, PyTensor>, fill_value: &Bound<'_, PyAny>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool, memory_format: Any<'_, '_>) -> PyResult<PyTensor> {
    let _ = memory_format;
    mark(input.py());
    let (this, value) = (input.get(), fill(fill_value)?);
    let dt = args::dtype(dtype)?.unwrap_or(this.t.dtype());
    check_range(value, dt)?;
    let dev = if device.is_none() { this.device } else { device::optional(device)? };
    finish(Tensor::full(this.t.shape(), value, Some(dt)), requires_grad, dev)
}

fn fill(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    if let Some(n) = number(value) {
        return Ok(n);
    }
    match value.cast::<PyTensor>() {
        Ok(t) => t.get().t.item().or_raise(),
        Err(_) => Err(PyTypeError::new_err("fill_value must be a number")),
    }
}

fn scalar_arg(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Scalar> {
    match number(value) {
        Some(n) => Ok(n),
        None => match value.cast::<PyTensor>() {
            Ok(t) => t.get().t.item().or_raise(),
            Err(_) => Err(PyTypeError::new_err(format!("{name} must be a number, not {}", value.get_type().name()?))),
        },
    }
}

/// Numbers from `start` up to but without `end`.
#[pyfunction]
#[pyo3(signature = (start=None, end=None, step=None, *, dtype=None, device=None, requires_grad=false))]
#[allow(clippy::too_many_arguments)]
fn arange(py: Python<'_>, start: Any<'_, '_>, end: Any<'_, '_>, step: Any<'_, '_>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool) -> PyResult<PyTensor> {
    mark(py);
    let (a, b) = match (start.filter(|s| !s.is_none()), end.filter(|e| !e.is_none())) {
        (Some(s), Some(e)) => (scalar_arg(s, "start")?, scalar_arg(e, "end")?),
        (Some(e), None) | (None, Some(e)) => (Scalar::I64(0), scalar_arg(e, "end")?),
        (None, None) => return Err(PyTypeError::new_err("arange() missing 1 required positional argument: 'end'")),
    };
    let s = step.map_or(Ok(Scalar::I64(1)), |s| scalar_arg(s, "step"))?;
    finish(Tensor::arange(a, b, s, args::dtype(dtype)?), requires_grad, device::optional(device)?)
}

/// `steps` numbers from `start` to `end`, both included.
#[pyfunction]
#[pyo3(signature = (start, end, steps, *, dtype=None, device=None, requires_grad=false))]
fn linspace(start: &Bound<'_, PyAny>, end: &Bound<'_, PyAny>, steps: i64, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool) -> PyResult<PyTensor> {
    mark(start.py());
    let n = usize::try_from(steps).map_err(|_| PyRuntimeError::new_err("number of steps must be non-negative"))?;
    let (a, b) = (scalar_arg(start, "start")?.as_f64(), scalar_arg(end, "end")?.as_f64());
    finish(Tensor::linspace(a, b, n, args::dtype(dtype)?), requires_grad, device::optional(device)?)
}

/// Ones on the diagonal.
#[pyfunction]
#[pyo3(signature = (n, m=None, *, dtype=None, device=None, requires_grad=false))]
fn eye(py: Python<'_>, n: i64, m: Option<i64>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool) -> PyResult<PyTensor> {
    mark(py);
    let extent = |name: &str, v: i64| usize::try_from(v).map_err(|_| PyRuntimeError::new_err(format!("{name} must be greater or equal to 0, got {v}")));
    let (n, m) = (extent("n", n)?, extent("m", m.unwrap_or(n))?);
    finish(Tensor::eye(n, m, args::dtype(dtype)?), requires_grad, device::optional(device)?)
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
            finish(Tensor::$make(&shape, args::dtype(dtype)?, g), requires_grad, device::optional(device)?)
        }

        #[doc = concat!($doc, " The shape and dtype are those of `input`.")]
        #[pyfunction]
        #[pyo3(signature = (input, *, dtype=None, device=None, requires_grad=false, memory_format=None, generator=None))]
        fn $like(input: &Bound<'_, PyTensor>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool, memory_format: Any<'_, '_>, generator: Option<&Bound<'_, PyGenerator>>) -> PyResult<PyTensor> {
            let _ = memory_format;
            mark(input.py());
            let this = input.get();
            let dt = args::dtype(dtype)?.unwrap_or(this.t.dtype());
            let dev = if device.is_none() { this.device } else { device::optional(device)? };
            finish(Tensor::$make(this.t.shape(), Some(dt), generator.map(|g| &g.get().0)), requires_grad, dev)
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
fn randint(bounds: &Bound<'_, PyTuple>, low: Option<i64>, high: Option<i64>, size: Any<'_, '_>, generator: Option<&Bound<'_, PyGenerator>>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool) -> PyResult<PyTensor> {
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
    finish(Tensor::randint(a, b, &args::shape(&shape)?, args::dtype(dtype)?, g), requires_grad, device::optional(device)?)
}

/// Random integers in the shape of `input`.
#[pyfunction]
#[pyo3(signature = (input, low, high=None, *, dtype=None, device=None, requires_grad=false))]
fn randint_like(input: &Bound<'_, PyTensor>, low: i64, high: Option<i64>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool) -> PyResult<PyTensor> {
    mark(input.py());
    let this = input.get();
    let (a, b) = high.map_or((0, low), |h| (low, h));
    let dt = args::dtype(dtype)?.unwrap_or(this.t.dtype());
    let dev = if device.is_none() { this.device } else { device::optional(device)? };
    finish(Tensor::randint(a, b, this.t.shape(), Some(dt), None), requires_grad, dev)
}

/// A random order of `0, 1, …, n - 1`.
#[pyfunction]
#[pyo3(signature = (n, *, generator=None, dtype=None, device=None, requires_grad=false))]
fn randperm(py: Python<'_>, n: i64, generator: Option<&Bound<'_, PyGenerator>>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool) -> PyResult<PyTensor> {
    mark(py);
    let n = usize::try_from(n).map_err(|_| PyRuntimeError::new_err(format!("n must be non-negative, got {n}")))?;
    finish(Tensor::randperm(n, args::dtype(dtype)?, generator.map(|g| &g.get().0)), requires_grad, device::optional(device)?)
}

#[pymethods]
impl PyTensor {
    /// Zeros of the same dtype.
    #[pyo3(signature = (*sizes, size=None, dtype=None, device=None, requires_grad=false))]
    fn new_zeros(&self, sizes: &Bound<'_, PyTuple>, size: Any<'_, '_>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool) -> PyResult<PyTensor> {
        self.new_filled(sizes, size, dtype, device, requires_grad, Scalar::F64(0.0))
    }

    /// Ones of the same dtype.
    #[pyo3(signature = (*sizes, size=None, dtype=None, device=None, requires_grad=false))]
    fn new_ones(&self, sizes: &Bound<'_, PyTuple>, size: Any<'_, '_>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool) -> PyResult<PyTensor> {
        self.new_filled(sizes, size, dtype, device, requires_grad, Scalar::F64(1.0))
    }

    /// A tensor of the same dtype whose content is not specified.
    #[pyo3(signature = (*sizes, size=None, dtype=None, device=None, requires_grad=false))]
    fn new_empty(&self, sizes: &Bound<'_, PyTuple>, size: Any<'_, '_>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool) -> PyResult<PyTensor> {
        self.new_filled(sizes, size, dtype, device, requires_grad, Scalar::F64(0.0))
    }

    /// One number everywhere, of the same dtype.
    #[pyo3(signature = (size, fill_value, *, dtype=None, device=None, requires_grad=false))]
    fn new_full(&self, size: &Bound<'_, PyAny>, fill_value: &Bound<'_, PyAny>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool) -> PyResult<PyTensor> {
        let none = PyTuple::empty(size.py());
        self.new_filled(&none, Some(size), dtype, device, requires_grad, fill(fill_value)?)
    }

    /// A tensor from data, of the same dtype.
    #[pyo3(signature = (data, *, dtype=None, device=None, requires_grad=false))]
    fn new_tensor(&self, data: &Bound<'_, PyAny>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool) -> PyResult<PyTensor> {
        mark(data.py());
        let dt = args::dtype(dtype)?.unwrap_or(self.t.dtype());
        let dev = if device.is_none() { self.device } else { device::optional(device)? };
        finish(Ok(from_any(data, Some(dt))?), requires_grad, dev)
    }
}

impl PyTensor {
    fn new_filled(&self, sizes: &Bound<'_, PyTuple>, size: Any<'_, '_>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool, value: Scalar) -> PyResult<PyTensor> {
        mark(sizes.py());
        let shape = extents(sizes, size)?;
        let dt = args::dtype(dtype)?.unwrap_or(self.t.dtype());
        let dev = if device.is_none() { self.device } else { device::optional(device)? };
        finish(Tensor::full(&shape, value, Some(dt)), requires_grad, dev)
    }
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    macro_rules! add {
        ($($f:ident),*) => { $(m.add_function(wrap_pyfunction!($f, m)?)?;)* };
    }
    add!(tensor, as_tensor, from_numpy, zeros, zeros_like, ones, ones_like, empty, empty_like, full, full_like, arange, linspace, eye);
    add!(rand, rand_like, randn, randn_like, randint, randint_like, randperm);
    m.add_function(wrap_pyfunction!(crate::tensor::convert::_rebuild_tensor, m)?)
}
