//! Making random tensors.

use gt_client::Tensor;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::args;
use crate::create::{Any, extents, finish};
use crate::device;
use crate::generator::PyGenerator;
use crate::site::mark;
use crate::tensor::{NewTensor, PyTensor};

macro_rules! random {
    ($($(#[$doc:meta])* $name:ident $(#[$like_doc:meta])* $like:ident $make:ident;)*) => {$(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (*sizes, size=None, generator=None, dtype=None, device=None, requires_grad=false, pin_memory=false))]
        #[allow(clippy::too_many_arguments)]
        fn $name(sizes: &Bound<'_, PyTuple>, size: Any<'_, '_>, generator: Option<&Bound<'_, PyGenerator>>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool, pin_memory: bool) -> PyResult<NewTensor> {
            let _ = pin_memory;
            mark(sizes.py());
            let shape = extents(sizes, size)?;
            let g = generator.map(|g| &g.get().0);
            let dt = args::dtype(dtype)?;
            finish(|| Tensor::$make(&shape, dt, g), requires_grad, device::optional(device)?)
        }

        $(#[$like_doc])*
        #[pyfunction]
        #[pyo3(signature = (input, *, dtype=None, device=None, requires_grad=false, memory_format=None, generator=None))]
        fn $like(input: &Bound<'_, PyTensor>, dtype: Any<'_, '_>, device: Any<'_, '_>, requires_grad: bool, memory_format: Any<'_, '_>, generator: Option<&Bound<'_, PyGenerator>>) -> PyResult<NewTensor> {
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
    /// Uniform random numbers in `[0, 1)`.
    ///
    /// >>> x = gt.rand(1000)
    /// >>> bool((x >= 0).all() and (x < 1).all())
    /// True
    rand
    /// Uniform random numbers in `[0, 1)`. The shape and dtype are those of `input`.
    ///
    /// >>> gt.rand_like(gt.zeros(2, 3)).shape
    /// gt.Size([2, 3])
    rand_like rand;
    /// Normal random numbers with mean 0 and variance 1.
    ///
    /// >>> first = gt.randn(3, generator=gt.Generator().manual_seed(1))
    /// >>> again = gt.randn(3, generator=gt.Generator().manual_seed(1))
    /// >>> gt.equal(first, again)
    /// True
    randn
    /// Normal random numbers with mean 0 and variance 1. The shape and dtype are those of `input`.
    ///
    /// >>> gt.randn_like(gt.zeros(2, dtype=gt.float64)).dtype
    /// gt.float64
    randn_like randn;
}

/// Random integers: `randint(high, size)` or `randint(low, high, size)`.
///
/// >>> x = gt.randint(3, 5, (100,))
/// >>> sorted(set(x.tolist()))
/// [3, 4]
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
) -> PyResult<NewTensor> {
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
///
/// >>> gt.randint_like(gt.zeros(3), 1, 2)
/// tensor([1., 1., 1.])
#[pyfunction]
#[pyo3(signature = (input, low, high=None, *, dtype=None, device=None, requires_grad=false))]
fn randint_like(
    input: &Bound<'_, PyTensor>,
    low: i64,
    high: Option<i64>,
    dtype: Any<'_, '_>,
    device: Any<'_, '_>,
    requires_grad: bool,
) -> PyResult<NewTensor> {
    mark(input.py());
    let this = input.get();
    let (a, b) = high.map_or((0, low), |h| (low, h));
    let dt = args::dtype(dtype)?.unwrap_or(this.held().dtype());
    let dev = if device.is_none() { this.device() } else { device::optional(device)? };
    finish(|| Tensor::randint(a, b, this.held().shape(), Some(dt), None), requires_grad, dev)
}

/// A random order of `0, 1, …, n - 1`.
///
/// >>> gt.randperm(4).sort().values
/// tensor([0, 1, 2, 3])
#[pyfunction]
#[pyo3(signature = (n, *, generator=None, dtype=None, device=None, requires_grad=false))]
fn randperm(
    py: Python<'_>,
    n: i64,
    generator: Option<&Bound<'_, PyGenerator>>,
    dtype: Any<'_, '_>,
    device: Any<'_, '_>,
    requires_grad: bool,
) -> PyResult<NewTensor> {
    mark(py);
    let n = usize::try_from(n).map_err(|_| PyRuntimeError::new_err(format!("n must be non-negative, got {n}")))?;
    let (dt, g) = (args::dtype(dtype)?, generator.map(|g| &g.get().0));
    finish(|| Tensor::randperm(n, dt, g), requires_grad, device::optional(device)?)
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    macro_rules! add {
        ($($f:ident),*) => { $(m.add_function(wrap_pyfunction!($f, m)?)?;)* };
    }
    add!(rand, rand_like, randn, randn_like, randint, randint_like, randperm);
    Ok(())
}
