//! DLPack: tensors to and from other frameworks, by one copy.

use std::ffi::{CStr, c_void};

use gt_client::Tensor;
use gt_ir::{DType, HostTensor, Shape, TensorType};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::OrRaise;
use crate::host::room_for;
use crate::site::mark;
use crate::tensor::{NewTensor, PyTensor};

const NAME: &CStr = c"dltensor";
const USED: &CStr = c"used_dltensor";
const CPU: i32 = 1;

#[repr(C)]
struct DlDevice {
    kind: i32,
    id: i32,
}

#[repr(C)]
struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DlManaged {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManaged)>,
}

/// What an exported tensor owns.
struct Owner {
    host: HostTensor,
    shape: Vec<i64>,
}

fn code(dtype: DType) -> DlDataType {
    let kind = match dtype {
        DType::Bool => 6,
        DType::U8 => 1,
        d if d.is_int() => 0,
        DType::BF16 => 4,
        _ => 2,
    };
    DlDataType { code: kind, bits: dtype.size() as u8 * 8, lanes: 1 }
}

fn dtype_of(d: &DlDataType) -> Option<DType> {
    DType::ALL.into_iter().find(|&t| {
        let c = code(t);
        (c.code, c.bits, c.lanes) == (d.code, d.bits, d.lanes)
    })
}

unsafe extern "C" fn delete(managed: *mut DlManaged) {
    // SAFETY: both boxes were leaked by `__dlpack__`, and the protocol calls the deleter once.
    unsafe {
        drop(Box::from_raw((*managed).context as *mut Owner));
        drop(Box::from_raw(managed));
    }
}

unsafe extern "C" fn drop_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule that still bears its first name was not consumed, so the tensor in it is ours to delete.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            let managed = ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()) as *mut DlManaged;
            delete(managed);
        }
    }
}

#[pymethods]
impl PyTensor {
    /// A DLPack capsule with a copy of the tensor. Waits.
    #[pyo3(signature = (**_kwargs))]
    fn __dlpack__<'py>(&self, py: Python<'py>, _kwargs: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        if self.held().requires_grad() {
            return Err(PyBufferError::new_err("Can't export tensors that require gradient, use tensor.detach()"));
        }
        mark(py);
        let host = self.held().read().or_raise()?;
        let shape: Vec<i64> = host.ty.shape.iter().map(|&d| d as i64).collect();
        let mut owner = Box::new(Owner { host, shape });
        let tensor = DlTensor {
            data: owner.host.bytes.as_mut_ptr() as *mut c_void,
            device: DlDevice { kind: CPU, id: 0 },
            ndim: owner.shape.len() as i32,
            dtype: code(owner.host.ty.dtype),
            shape: owner.shape.as_mut_ptr(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        let context = Box::into_raw(owner) as *mut c_void;
        let managed = Box::into_raw(Box::new(DlManaged { tensor, context, deleter: Some(delete) }));
        // SAFETY: the capsule takes over the managed tensor; its destructor deletes what nobody consumed.
        unsafe {
            let capsule = ffi::PyCapsule_New(managed as *mut c_void, NAME.as_ptr(), Some(drop_capsule));
            if capsule.is_null() {
                delete(managed);
                return Err(PyErr::fetch(py));
            }
            Ok(Bound::from_owned_ptr(py, capsule))
        }
    }

    /// Where `__dlpack__` puts its copy: the CPU.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (CPU, 0)
    }
}

/// A tensor from an object with `__dlpack__`, or from a capsule: a copy, taken now.
///
/// >>> import numpy as np
/// >>> gt.from_dlpack(np.array([1, 2]))
/// tensor([1, 2])
#[pyfunction]
#[pyo3(signature = (ext_tensor, *, device=None, copy=None))]
fn from_dlpack(
    ext_tensor: &Bound<'_, PyAny>,
    device: Option<&Bound<'_, PyAny>>,
    copy: Option<bool>,
) -> PyResult<NewTensor> {
    let py = ext_tensor.py();
    let _ = (crate::device::optional(device)?, copy);
    mark(py);
    if let Ok(t) = ext_tensor.cast::<PyTensor>() {
        return Ok(t.get().like(t.get().held().detach().alias().or_raise()?));
    }
    let capsule =
        if ext_tensor.hasattr("__dlpack__")? { ext_tensor.call_method0("__dlpack__")? } else { ext_tensor.clone() };
    // SAFETY: the capsule's name says it holds a managed tensor nobody consumed; it is renamed before it is deleted.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), NAME.as_ptr()) != 1 {
            return Err(PyTypeError::new_err("expected an object with __dlpack__ or an unused capsule"));
        }
        let managed = ffi::PyCapsule_GetPointer(capsule.as_ptr(), NAME.as_ptr()) as *mut DlManaged;
        let made = import(&(*managed).tensor);
        ffi::PyCapsule_SetName(capsule.as_ptr(), USED.as_ptr());
        if let Some(deleter) = (*managed).deleter {
            deleter(managed);
        }
        made
    }
}

/// # Safety
/// `t` must describe readable memory.
unsafe fn import(t: &DlTensor) -> PyResult<NewTensor> {
    // 1 is the CPU, 3 and 13 are pinned memory the CPU can read.
    if !matches!(t.device.kind, 1 | 3 | 13) {
        return Err(PyBufferError::new_err(format!(
            "DLPack device type {} cannot be read by this worker; move the tensor to the CPU first",
            t.device.kind
        )));
    }
    let dtype = dtype_of(&t.dtype).ok_or_else(|| {
        PyTypeError::new_err(format!("DLPack type code {} with {} bits has no GT dtype", t.dtype.code, t.dtype.bits))
    })?;
    let n = t.ndim.max(0) as usize;
    // SAFETY: the protocol promises `ndim` extents, and as many strides where the pointer is not null.
    let (extents, strides) = unsafe {
        let extents: Vec<usize> = (0..n).map(|i| *t.shape.add(i) as usize).collect();
        let strides: Option<Vec<i64>> = (!t.strides.is_null()).then(|| (0..n).map(|i| *t.strides.add(i)).collect());
        (extents, strides)
    };
    let shape = Shape::try_new(&extents).map_err(gt_client::Error::from).or_raise()?;
    let strides = strides.unwrap_or_else(|| shape.contiguous_strides().to_vec());
    let ty = TensorType { dtype, shape };
    let (size, numel) = (dtype.size(), ty.numel());
    let mut bytes = room_for(ty.bytes())?;
    let base = t.data as *const u8;
    let mut at = vec![0usize; n];
    for _ in 0..numel {
        let offset: i64 = at.iter().zip(&strides).map(|(&i, &s)| i as i64 * s).sum();
        // SAFETY: offsets of elements inside the described tensor.
        let element = unsafe {
            std::slice::from_raw_parts(base.add(t.byte_offset as usize).offset(offset as isize * size as isize), size)
        };
        bytes.extend_from_slice(element);
        for axis in (0..n).rev() {
            at[axis] += 1;
            if at[axis] < extents[axis] {
                break;
            }
            at[axis] = 0;
        }
    }
    Tensor::from_bytes(ty, bytes.into()).or_raise().map(NewTensor::new)
}

/// Adds the function.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(from_dlpack, m)?)
}
