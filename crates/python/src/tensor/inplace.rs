//! Writes that are not operators.

use gt_client::Tensor;
use pyo3::prelude::*;

use super::{NewTensor, PyTensor};
use crate::args::Operand;
use crate::errors::OrRaise;
use crate::site::mark;

/// In place: `compute` makes a result of the tensor as it is before the write, which the tensor then takes over.
pub(super) fn written<'py>(
    slf: &Bound<'py, PyTensor>,
    compute: impl FnOnce(&PyTensor) -> PyResult<NewTensor>,
) -> PyResult<Bound<'py, PyTensor>> {
    mark(slf.py());
    let this = slf.get();
    let source = PyTensor::on(this.held().before_write().or_raise()?, this.device());
    let new = compute(&source)?;
    this.held().write_result(&new.held()).or_raise()?;
    Ok(slf.clone())
}

#[pymethods]
impl PyTensor {
    /// Every element becomes `value`.
    fn fill_<'py>(slf: &Bound<'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        mark(slf.py());
        let operand = Operand::require(value, "value")?;
        slf.get().held().fill_(operand.arg()).or_raise()?;
        Ok(slf.clone())
    }

    /// Every element becomes zero.
    fn zero_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        mark(slf.py());
        slf.get().held().fill_(0.0).or_raise()?;
        Ok(slf.clone())
    }

    /// Takes over the elements of another tensor, broadcast and cast.
    #[pyo3(signature = (src, non_blocking=false))]
    fn copy_<'py>(slf: &Bound<'py, Self>, src: &Bound<'py, PyAny>, non_blocking: bool) -> PyResult<Bound<'py, Self>> {
        let _ = non_blocking;
        mark(slf.py());
        let source = match Operand::require(src, "src")? {
            Operand::Tensor(t) => t.get().held().clone(),
            Operand::Made(t) => t,
            Operand::Number(n) => Tensor::full(&[], n, Some(slf.get().held().dtype())).or_raise()?,
        };
        slf.get().held().copy_(&source).or_raise()?;
        Ok(slf.clone())
    }

    /// Becomes a view of itself: what the in-place changes of shape end in. `look` makes the view.
    fn _become_view<'py>(slf: &Bound<'py, Self>, look: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        mark(slf.py());
        let this = slf.get();
        let seen = |t: &Tensor| -> gt_client::Result<Tensor> {
            let shown = (|| Ok(look.call1((this.like(t.clone()),))?.cast::<PyTensor>()?.get().held().clone()))();
            shown.map_err(|e: PyErr| gt_client::Error::Callback(Box::new(e)))
        };
        let new = this.held().with_shape_of(seen).or_raise()?;
        this.become_tensor(new)?;
        Ok(slf.clone())
    }

    /// What an in-place form written in Python computes from, so that the tape may keep the content that is replaced.
    fn _before_write(&self, py: Python<'_>) -> PyResult<NewTensor> {
        self.run(py, Tensor::before_write)
    }

    /// Replaces the content by a result of the same shape: what the in-place forms written in Python end in.
    fn _write<'py>(slf: &Bound<'py, Self>, new: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, Self>> {
        mark(slf.py());
        slf.get().held().write_result(&new.get().held()).or_raise()?;
        Ok(slf.clone())
    }
}
