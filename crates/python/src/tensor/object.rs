//! New tensor objects, made faster than PyO3 makes them.
//!
//! CPython 3.11 and 3.12 give every object of a class with a `__dict__` an empty one, which few tensors ever use. One that is
//! made here has none until somebody asks for it, as in later versions.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::type_object::PyTypeInfo;

use super::PyTensor;

/// A tensor as a new object of `gt.Tensor` itself.
#[inline]
pub fn new_object(py: Python<'_>, tensor: PyTensor) -> PyResult<Py<PyTensor>> {
    /// How far behind the start of an object its tensor lies: PyO3 makes the first object and shows it.
    static PLACE: PyOnceLock<usize> = PyOnceLock::new();
    let Some(&place) = PLACE.get(py) else {
        let first = Py::new(py, tensor)?;
        let _ = PLACE.set(py, std::ptr::from_ref(first.get()) as usize - first.as_ptr() as usize);
        return Ok(first);
    };
    // SAFETY: the object is new, of the class's size and zeroed. Everything that PyO3 keeps beside the tensor, the pointers to
    // a dict and to weak references, is empty when it is zero. Nobody knows the object before the tensor is in its place.
    unsafe {
        let object = ffi::PyType_GenericAlloc(PyTensor::type_object_raw(py), 0);
        if object.is_null() {
            return Err(PyErr::fetch(py));
        }
        object.byte_add(place).cast::<PyTensor>().write(tensor);
        Ok(Bound::from_owned_ptr(py, object).cast_into_unchecked().unbind())
    }
}
