//! `gt.Tensor`: one file per family of methods.

mod arith;
pub mod convert;
mod grad;
mod held;
mod inplace;
mod linalg;
mod new;
mod object;
mod operators;
mod pick;
mod reduce;
mod shape;
mod unary;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, Weak};

use gt_client::Tensor;
use gt_client::autograd::GradSlot;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyWeakrefReference};

pub use held::Held;
pub use object::NewTensor;

use self::held::Handle;
use crate::device::{Device, PyDevice};
use crate::dtype::PyDType;
use crate::errors::{OrRaise, guarded};
use crate::site::mark;

/// A tensor. Make one with `gt.tensor`, `gt.zeros`, `gt.randn`, …
///
/// >>> import gt
/// >>> (gt.ones(2, 2) * 3).tolist()
/// [[3.0, 3.0], [3.0, 3.0]]
#[pyclass(frozen, subclass, weakref, dict, name = "Tensor", module = "gt")]
pub struct PyTensor {
    /// The client's handle.
    handle: Handle,
    /// Where it was asked to be. Assigning to `.data` changes it.
    device: AtomicU32,
    /// The object that `.grad` last gave, so that as long as somebody holds it the next one is the same.
    grad_object: Mutex<Option<Py<PyWeakrefReference>>>,
    /// Where the tensor is the gradient that was collected.
    grad_of: OnceLock<Weak<GradSlot>>,
}

impl PyTensor {
    /// A tensor that was asked to be on a device.
    #[inline]
    fn on(t: Tensor, device: Device) -> Self {
        PyTensor {
            handle: Handle::new(t),
            device: AtomicU32::new(device.code()),
            grad_object: Mutex::new(None),
            grad_of: OnceLock::new(),
        }
    }

    /// The client's handle now.
    #[inline]
    pub fn held(&self) -> Held<'_> {
        self.handle.get()
    }

    /// The client's handle as long as it was never exchanged.
    #[inline]
    pub fn never_exchanged(&self) -> Option<&Tensor> {
        self.handle.never_exchanged()
    }

    /// The client's handle the tensor was made with.
    #[inline]
    pub fn first_handle(&self) -> &Tensor {
        self.handle.first()
    }

    /// From now on the object is another tensor; a parameter whose gradient it is goes along.
    pub fn become_tensor(&self, new: Tensor) -> PyResult<()> {
        if let Some(slot) = self.grad_of.get().and_then(Weak::upgrade) {
            slot.follow(&self.held(), &new);
        }
        self.handle.exchange(new).or_raise()
    }

    /// Where the tensor was asked to be.
    #[inline]
    pub fn device(&self) -> Device {
        Device::from_code(self.device.load(Ordering::Relaxed))
    }

    /// Says where the tensor is asked to be from now on.
    pub fn set_device(&self, device: Device) {
        self.device.store(device.code(), Ordering::Relaxed);
    }

    /// A result of this tensor: asked to be where it is.
    #[inline]
    pub fn like(&self, t: Tensor) -> NewTensor {
        NewTensor::on(t, self.device())
    }

    /// Records with the user's line; the result is asked to be where this tensor is.
    #[inline]
    pub fn run(&self, py: Python<'_>, f: impl FnOnce(&Tensor) -> gt_client::Result<Tensor>) -> PyResult<NewTensor> {
        mark(py);
        guarded(|| f(&self.held())).map(|t| self.like(t))
    }

    /// The same for several results.
    pub fn run_many(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&Tensor) -> gt_client::Result<Vec<Tensor>>,
    ) -> PyResult<Py<PyTuple>> {
        mark(py);
        let parts = guarded(|| f(&self.held()))?.into_iter().map(|t| self.like(t));
        Ok(PyTuple::new(py, parts.collect::<Vec<_>>())?.unbind())
    }
}

/// `gt.Size`, a tuple that knows its product.
pub fn size<'py>(py: Python<'py>, dims: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class =
        CLASS.get_or_try_init(py, || -> PyResult<_> { Ok(py.import("gt._size")?.getattr("Size")?.unbind()) })?;
    class.bind(py).call1((PyTuple::new(py, dims)?,))
}

/// Values and where they were, under the names PyTorch returns them by: a tuple of `gt.return_types`.
pub fn named_pair<'py>(py: Python<'py>, name: &str, a: NewTensor, b: NewTensor) -> PyResult<Bound<'py, PyAny>> {
    static TYPES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let types =
        TYPES.get_or_try_init(py, || -> PyResult<_> { Ok(py.import("gt.return_types")?.into_any().unbind()) })?;
    types.bind(py).getattr(name)?.call1((a, b))
}

#[pymethods]
impl PyTensor {
    /// `gt.Tensor(data)` or `gt.Tensor(*sizes)`: the default dtype, as PyTorch's constructor.
    #[new]
    #[pyo3(signature = (*args))]
    fn py_new(args: &Bound<'_, PyTuple>) -> PyResult<Self> {
        mark(args.py());
        let unset = |t: Tensor| PyTensor::on(t, Device::Unset);
        if args.len() == 1 {
            let only = args.get_item(0)?;
            if let Ok(t) = only.cast::<PyTensor>() {
                return Ok(PyTensor::on(t.get().held().detach(), t.get().device()));
            }
            if !only.is_instance_of::<pyo3::types::PyInt>() {
                return crate::data::from_any(&only, Some(gt_client::ops::default_dtype())).map(unset);
            }
        }
        let dims = if args.is_empty() { vec![0] } else { crate::args::shape(&crate::args::ints(args)?)? };
        Tensor::zeros(&dims, None).or_raise().map(unset)
    }

    /// The extents.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        size(py, self.held().shape())
    }

    /// The extents, or one of them.
    #[pyo3(signature = (dim=None))]
    fn size<'py>(&self, py: Python<'py>, dim: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
        match dim {
            None => size(py, self.held().shape()),
            Some(d) => {
                if self.held().rank() == 0 {
                    return Err(pyo3::exceptions::PyIndexError::new_err(
                        "Dimension specified as 0 but tensor has no dimensions",
                    ));
                }
                let a = gt_client::ops::axis(d, self.held().rank()).or_raise()?;
                Ok(self.held().shape()[a].into_pyobject(py)?.into_any())
            }
        }
    }

    /// The element type.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyDType> {
        crate::dtype::object(py, self.held().dtype())
    }

    /// Where the tensor was asked to be.
    #[getter(device)]
    fn get_device_hint(&self) -> PyDevice {
        PyDevice(self.device())
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.held().rank()
    }

    /// The number of dimensions.
    fn dim(&self) -> usize {
        self.held().rank()
    }

    /// The number of dimensions.
    fn ndimension(&self) -> usize {
        self.held().rank()
    }

    /// The number of elements.
    fn numel(&self) -> usize {
        self.held().numel()
    }

    /// The number of elements.
    fn nelement(&self) -> usize {
        self.held().numel()
    }

    /// Bytes of one element.
    fn element_size(&self) -> usize {
        self.held().dtype().size()
    }

    /// Bytes of one element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.held().dtype().size()
    }

    /// Bytes of all elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.held().ty().bytes()
    }

    /// Elements between neighbours along each axis.
    #[pyo3(signature = (dim=None))]
    fn stride<'py>(&self, py: Python<'py>, dim: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
        let strides = self.held().strides();
        match dim {
            None => Ok(PyTuple::new(py, strides.iter())?.into_any()),
            Some(d) => {
                let a = self.held().own_axis(d).or_raise()?;
                Ok(strides[a].into_pyobject(py)?.into_any())
            }
        }
    }

    /// Elements before the first one in the tensor's storage.
    fn storage_offset(&self) -> i64 {
        self.held().storage_offset()
    }

    /// Whether the elements lie packed in row-major order.
    #[pyo3(signature = (memory_format=None))]
    fn is_contiguous(&self, memory_format: Option<&Bound<'_, PyAny>>) -> bool {
        let _ = memory_format;
        self.held().is_contiguous()
    }

    /// Whether elements are floats.
    fn is_floating_point(&self) -> bool {
        self.held().dtype().is_float()
    }

    /// Always false: GT has no complex numbers.
    fn is_complex(&self) -> bool {
        false
    }

    /// Whether elements may be negative.
    fn is_signed(&self) -> bool {
        !matches!(self.held().dtype(), gt_ir::DType::Bool | gt_ir::DType::U8)
    }

    /// Whether the tensor was asked to be on a GPU.
    #[getter]
    fn is_cuda(&self) -> bool {
        matches!(self.device(), Device::Cuda(_))
    }

    /// How often the tensor was written to.
    #[getter]
    fn _version(&self) -> u32 {
        self.held().version()
    }

    /// The tensor this is a view of.
    #[getter]
    fn _base(&self) -> Option<NewTensor> {
        self.held().base().map(|t| self.like(t))
    }

    /// A number that is the same for every handle of one tensor's storage.
    fn data_ptr(&self) -> usize {
        self.held().cell_key() + self.held().storage_offset() as usize * self.held().dtype().size()
    }

    fn __hash__(slf: &Bound<'_, Self>) -> usize {
        slf.as_ptr() as usize >> 4
    }

    fn __len__(&self) -> PyResult<usize> {
        self.held()
            .shape()
            .first()
            .copied()
            .ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("len() of a 0-d tensor"))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.held().rank() == 0 {
            return Err(pyo3::exceptions::PyTypeError::new_err("iteration over a 0-d tensor"));
        }
        self.run_many(py, |t| t.unbind(0))?.bind(py).call_method0("__iter__")
    }

    fn __contains__(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let operand = crate::args::Operand::require(value, "the element to look for")?;
        mark(py);
        let hit = Tensor::compare(gt_ir::rows::CompareKind::Eq, &*self.held(), operand.arg()).or_raise()?;
        let any = hit.truth(gt_ir::ops::ReduceKind::Max, &[], false).or_raise()?;
        any.item().or_raise().map(|s| s.as_bool())
    }

    fn __repr__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        mark(py);
        py.import("gt._printing")?.getattr("format_tensor")?.call1((slf,))
    }

    fn __format__<'py>(slf: &Bound<'py, Self>, spec: &str) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        if this.held().rank() == 0 {
            return this.item(slf.py())?.bind(slf.py()).call_method1("__format__", (spec,));
        }
        if spec.is_empty() {
            return Ok(slf.as_any().str()?.into_any());
        }
        Err(pyo3::exceptions::PyTypeError::new_err("unsupported format string passed to Tensor.__format__"))
    }
}
