//! Bytes that left GT, as a buffer Python can look into.

use std::ffi::{c_int, c_void};

use gt_ir::HostTensor;
use pyo3::exceptions::{PyBufferError, PyMemoryError};
use pyo3::ffi;
use pyo3::prelude::*;

/// An empty vector with room for so many bytes, if the memory limit allows that: the objects that come from outside may be expanded,
/// so their extents say nothing of the memory there is.
pub fn room_for(len_bytes: usize) -> PyResult<Vec<u8>> {
    let limit_bytes = gt::memory_limit_bytes();
    if len_bytes as u64 > limit_bytes {
        let message = format!("out of memory: {len_bytes} bytes exceed the memory limit of {limit_bytes} bytes");
        return Err(PyMemoryError::new_err(message));
    }
    gt_ir::vec_for_bytes(len_bytes).map_err(|failure| PyMemoryError::new_err(failure.message))
}

/// Owns the bytes of a read. NumPy arrays made from it may write to it: GT never looks again.
#[pyclass(name = "HostBuffer", module = "gt._core")]
pub struct HostBuffer {
    bytes: Box<[u8]>,
}

impl HostBuffer {
    /// Takes over what a read gave.
    pub fn new(host: HostTensor) -> Self {
        HostBuffer { bytes: host.bytes.into_boxed_slice() }
    }
}

#[pymethods]
impl HostBuffer {
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("the buffer view is null"));
        }
        let (pointer, len) = {
            let mut this = slf.borrow_mut();
            (this.bytes.as_mut_ptr() as *mut c_void, this.bytes.len() as ffi::Py_ssize_t)
        };
        // SAFETY: `view` is valid by the buffer protocol; the view holds a reference to the owner, whose boxed bytes never move.
        let code = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), pointer, len, 0, flags) };
        if code == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }

    fn __len__(&self) -> usize {
        self.bytes.len()
    }
}
