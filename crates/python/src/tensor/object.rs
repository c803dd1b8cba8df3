//! New tensor objects, made faster than PyO3 makes them.
//!
//! CPython 3.11 and 3.12 give every object of a class with a `__dict__` an empty one, which few tensors ever use. One that is
//! made here has none until somebody asks for it, as in later versions.

use std::ops::Deref;

use gt_client::Tensor;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::type_object::PyTypeInfo;

use super::PyTensor;
use crate::device::Device;

/// A tensor that is to become a new object of `gt.Tensor` itself: what methods and functions return.
pub struct NewTensor(PyTensor);

impl NewTensor {
    /// A tensor on the default device.
    #[inline]
    pub fn new(t: Tensor) -> Self {
        NewTensor::on(t, Device::Unset)
    }

    /// A tensor that was asked to be on a device.
    #[inline]
    pub fn on(t: Tensor, device: Device) -> Self {
        NewTensor(PyTensor::on(t, device))
    }
}

impl Deref for NewTensor {
    type Target = PyTensor;

    #[inline]
    fn deref(&self) -> &PyTensor {
        &self.0
    }
}

impl<'py> IntoPyObject<'py> for NewTensor {
    type Target = PyTensor;
    type Output = Bound<'py, PyTensor>;
    type Error = PyErr;

    #[inline]
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyTensor>> {
        /// How far behind the start of an object its tensor lies: PyO3 makes the first object and shows it.
        static PLACE: PyOnceLock<usize> = PyOnceLock::new();
        let Some(&place) = PLACE.get(py) else {
            let first = Bound::new(py, self.0)?;
            let _ = PLACE.set(py, std::ptr::from_ref(first.get()) as usize - first.as_ptr() as usize);
            return Ok(first);
        };
        // SAFETY: the object is new, of the class's size and zeroed. Everything that PyO3 keeps beside the tensor, the pointers
        // to a dict and to weak references, is empty when it is zero. Nobody knows the object before the tensor is in its place.
        unsafe {
            let object = ffi::PyType_GenericAlloc(PyTensor::type_object_raw(py), 0);
            if object.is_null() {
                return Err(PyErr::fetch(py));
            }
            object.byte_add(place).cast::<PyTensor>().write(self.0);
            Ok(Bound::from_owned_ptr(py, object).cast_into_unchecked())
        }
    }
}
