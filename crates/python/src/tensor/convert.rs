//! To other dtypes and devices, and out of GT.

use gt_client::{Scalar, Tensor, scalar_at, signal};
use gt_ir::{DType, HostTensor};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::{NewTensor, PyTensor};
use crate::device::{self, Device};
use crate::errors::OrRaise;
use crate::host::HostBuffer;
use crate::site::mark;

/// A scalar as a Python number.
pub fn to_python(py: Python<'_>, s: Scalar) -> PyResult<Py<PyAny>> {
    Ok(match s {
        Scalar::Bool(b) => b.into_pyobject(py)?.to_owned().into_any().unbind(),
        Scalar::I64(i) => i.into_pyobject(py)?.into_any().unbind(),
        Scalar::F64(f) => f.into_pyobject(py)?.into_any().unbind(),
    })
}

fn nested(py: Python<'_>, host: &HostTensor, axis: usize, at: &mut usize) -> PyResult<Py<PyAny>> {
    if axis == host.ty.shape.rank() {
        *at += 1;
        return to_python(py, scalar_at(host, *at - 1));
    }
    let extent = host.ty.shape[axis];
    let mut items: Vec<Py<PyAny>> = Vec::new();
    let refused = || PyMemoryError::new_err(format!("out of memory: cannot allocate a list of {extent} items"));
    items.try_reserve_exact(extent).map_err(|_| refused())?;
    for _ in 0..extent {
        items.push(nested(py, host, axis + 1, at)?);
    }
    Ok(PyList::new(py, items)?.into_any().unbind())
}

macro_rules! casts {
    ($($doc:literal $name:ident $dtype:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                #[doc = $doc]
                #[pyo3(signature = (memory_format=None))]
                fn $name<'py>(slf: &Bound<'py, Self>, memory_format: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, Self>> {
                    let _ = memory_format;
                    slf.get().cast_to(slf, Some(DType::$dtype), slf.get().device(), false)
                }
            )*
        }
    };
}

casts! {
    "As float32." float F32;
    "As float64." double F64;
    "As float16." half F16;
    "As bfloat16." bfloat16 BF16;
    "As int64." long I64;
    "As int32." int I32;
    "As int8." char I8;
    "As uint8." byte U8;
    "As bool." bool Bool;
}

impl PyTensor {
    /// Refuses to be one Python number if it is none or many.
    fn require_one(&self) -> PyResult<()> {
        if self.held().numel() == 1 {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "only one element tensors can be converted to Python scalars, and the shape is {}",
            self.held().shape()
        )))
    }

    /// With another dtype, on another device, or as it is.
    pub fn cast_to<'py>(
        &self,
        slf: &Bound<'py, Self>,
        dtype: Option<DType>,
        device: Device,
        copy: bool,
    ) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let dtype = dtype.unwrap_or(self.held().dtype());
        let here = device == self.device() || matches!((device, self.device()), (Device::Cpu, Device::Unset));
        if dtype == self.held().dtype() && here && !copy {
            return Ok(slf.clone());
        }
        mark(py);
        let scope = if here { None } else { device.scope()? };
        let _there = scope.map(signal::under);
        let t = if dtype == self.held().dtype()
            && let Some(scope) = scope
        {
            self.held().laid_out(scope)
        } else if dtype == self.held().dtype() && copy {
            self.held().copied()
        } else if dtype == self.held().dtype() {
            self.held().alias()
        } else {
            self.held().to_dtype(dtype)
        };
        NewTensor::on(t.or_raise()?, device).into_pyobject(py)
    }

    /// The elements as a NumPy array of their own.
    fn to_numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.held().dtype() == DType::BF16 {
            return Err(PyTypeError::new_err("Got unsupported ScalarType BFloat16"));
        }
        mark(py);
        let host = self.held().read().or_raise()?;
        let numpy = py.import("numpy")?;
        let shape = PyTuple::new(py, host.ty.shape.iter())?;
        let name = self.held().dtype().long_name();
        if host.bytes.is_empty() {
            return numpy.call_method1("empty", (shape, name));
        }
        let buffer = Bound::new(py, HostBuffer::new(host))?;
        numpy.getattr("ndarray")?.call1((shape, name, buffer))
    }
}

#[pymethods]
impl PyTensor {
    /// Another dtype, device, or both; the tensor itself when it has them.
    #[pyo3(signature = (*args, dtype=None, device=None, non_blocking=false, copy=false, memory_format=None))]
    fn to<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        dtype: Option<&Bound<'py, PyAny>>,
        device: Option<&Bound<'py, PyAny>>,
        non_blocking: bool,
        copy: bool,
        memory_format: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let _ = (non_blocking, memory_format);
        let this = slf.get();
        let (mut dt, mut dev, mut copy) = (crate::args::dtype(dtype)?, this.device(), copy);
        if let Some(d) = device.filter(|d| !d.is_none()) {
            dev = device::extract(d)?;
        }
        let mut flags = 0;
        for arg in args.iter() {
            if let Ok(other) = arg.cast::<PyTensor>() {
                (dt, dev) = (Some(other.get().held().dtype()), other.get().device());
            } else if arg.is_exact_instance_of::<pyo3::types::PyBool>() {
                // Positional: non_blocking, then copy.
                copy = if flags == 1 { arg.extract()? } else { copy };
                flags += 1;
            } else if arg.is_none() {
            } else if let Ok(d) = crate::dtype::extract(&arg) {
                dt = Some(d);
            } else {
                dev = device::extract(&arg)?;
            }
        }
        this.cast_to(slf, dt, dev, copy)
    }

    /// As another dtype; without one, the name of the tensor's type.
    #[pyo3(signature = (dtype=None, **_kwargs))]
    fn r#type<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        _kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        match crate::args::dtype(dtype)? {
            Some(d) => Ok(this.cast_to(slf, Some(d), this.device(), false)?.into_any()),
            None => {
                let name = match this.held().dtype() {
                    DType::F32 => "FloatTensor",
                    DType::F64 => "DoubleTensor",
                    DType::F16 => "HalfTensor",
                    DType::BF16 => "BFloat16Tensor",
                    DType::I8 => "CharTensor",
                    DType::I32 => "IntTensor",
                    DType::I64 => "LongTensor",
                    DType::U8 => "ByteTensor",
                    DType::Bool => "BoolTensor",
                };
                Ok(format!("gt.{name}").into_pyobject(slf.py())?.into_any())
            }
        }
    }

    /// As another tensor's dtype.
    fn type_as<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, Self>> {
        slf.get().cast_to(slf, Some(other.get().held().dtype()), slf.get().device(), false)
    }

    /// Asked to be on the CPU; nothing moves.
    #[pyo3(signature = (memory_format=None))]
    fn cpu<'py>(slf: &Bound<'py, Self>, memory_format: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, Self>> {
        let _ = memory_format;
        let this = slf.get();
        if matches!(this.device(), Device::Unset | Device::Cpu) {
            return Ok(slf.clone());
        }
        this.cast_to(slf, None, Device::Cpu, false)
    }

    /// Asked to be on a GPU; nothing moves.
    #[pyo3(signature = (device=None, non_blocking=false, memory_format=None))]
    fn cuda<'py>(
        slf: &Bound<'py, Self>,
        device: Option<&Bound<'py, PyAny>>,
        non_blocking: bool,
        memory_format: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let _ = (non_blocking, memory_format);
        let dev = match device.filter(|d| !d.is_none()) {
            Some(d) => device::extract(d)?,
            None => {
                gt::tell_of_hint();
                Device::Cuda(None)
            }
        };
        slf.get().cast_to(slf, None, dev, false)
    }

    /// The tensor itself: pinned memory belongs to engines that copy.
    #[pyo3(signature = (device=None))]
    fn pin_memory<'py>(slf: &Bound<'py, Self>, device: Option<&Bound<'py, PyAny>>) -> Bound<'py, Self> {
        let _ = device;
        slf.clone()
    }

    /// Always false.
    #[pyo3(signature = (device=None))]
    fn is_pinned(&self, device: Option<&Bound<'_, PyAny>>) -> bool {
        let _ = device;
        false
    }

    /// The only element as a Python number. Waits.
    pub fn item(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        mark(py);
        to_python(py, self.held().item().or_raise()?)
    }

    /// The elements as nested lists. Waits.
    fn tolist(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        mark(py);
        let host = self.held().read().or_raise()?;
        nested(py, &host, 0, &mut 0)
    }

    /// The elements as a NumPy array that GT never touches again. Waits.
    #[pyo3(signature = (*, force=false))]
    fn numpy<'py>(&self, py: Python<'py>, force: bool) -> PyResult<Bound<'py, PyAny>> {
        if self.held().requires_grad() && !force {
            return Err(PyRuntimeError::new_err(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
            ));
        }
        self.to_numpy(py)
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            return Err(PyValueError::new_err("NumPy cannot use a GT tensor without a copy"));
        }
        let array = self.numpy(py, false)?;
        match dtype.filter(|d| !d.is_none()) {
            Some(d) => array.call_method1("astype", (d,)),
            None => Ok(array),
        }
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        match self.held().numel() {
            0 => Err(PyRuntimeError::new_err("Boolean value of Tensor with no values is ambiguous")),
            1 => {
                mark(py);
                Ok(self.held().item().or_raise()?.as_bool())
            }
            _ => Err(PyRuntimeError::new_err("Boolean value of Tensor with more than one value is ambiguous")),
        }
    }

    fn __int__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.require_one()?;
        self.item(py)?.bind(py).call_method0("__int__").map(Bound::unbind)
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        self.require_one()?;
        mark(py);
        Ok(self.held().item().or_raise()?.as_f64())
    }

    fn __index__(&self, py: Python<'_>) -> PyResult<i64> {
        if self.held().dtype().is_float() || self.held().numel() != 1 {
            return Err(PyTypeError::new_err("only integer tensors of a single element can be converted to an index"));
        }
        mark(py);
        Ok(self.held().item().or_raise()?.as_i64())
    }

    fn __deepcopy__<'py>(slf: &Bound<'py, Self>, memo: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if !this.held().is_leaf() {
            return Err(PyRuntimeError::new_err(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.",
            ));
        }
        let key = slf.as_ptr() as usize;
        if let Some(known) = memo.get_item(key)? {
            return Ok(known);
        }
        mark(py);
        let t = this.held().detach().alias().or_raise()?;
        if this.held().requires_grad() {
            t.set_requires_grad(true).or_raise()?;
        }
        if let Some(g) = this.held().grad() {
            t.set_grad(Some(g.detach().alias().or_raise()?)).or_raise()?;
        }
        let copy = this.like(t).into_pyobject(py)?.into_any();
        memo.set_item(key, &copy)?;
        Ok(copy)
    }

    fn __copy__(&self) -> NewTensor {
        self.like(self.held().clone())
    }

    fn __reduce_ex__<'py>(
        &self,
        py: Python<'py>,
        _protocol: i32,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyAny>, String, Vec<usize>, bool))> {
        mark(py);
        let host = self.held().detach().read().or_raise()?;
        let bytes = pyo3::types::PyBytes::new(py, &host.bytes).into_any();
        let rebuild = py.import("gt._core")?.getattr("_rebuild_tensor")?;
        let leaf = self.held().is_leaf() && self.held().requires_grad();
        Ok((rebuild, (bytes, self.held().dtype().long_name().into(), self.held().shape().to_vec(), leaf)))
    }
}

/// What unpickling calls.
#[pyfunction]
pub fn _rebuild_tensor(
    py: Python<'_>,
    bytes: &[u8],
    dtype: &str,
    shape: Vec<usize>,
    requires_grad: bool,
) -> PyResult<NewTensor> {
    mark(py);
    let dtype = DType::from_name(dtype).ok_or_else(|| PyValueError::new_err(format!("unknown dtype {dtype}")))?;
    let shape = gt_ir::Shape::try_new(&shape).map_err(gt_client::Error::from).or_raise()?;
    let t = Tensor::from_bytes(gt_ir::TensorType { dtype, shape }, bytes.into()).or_raise()?;
    if requires_grad {
        t.set_requires_grad(true).or_raise()?;
    }
    Ok(NewTensor::new(t))
}
