//! Writes that are not operators.

use gt_client::Tensor;
use pyo3::prelude::*;

use super::PyTensor;
use crate::args::Operand;
use crate::errors::OrRaise;
use crate::site::mark;

#[pymethods]
impl PyTensor {
    /// Every element becomes `value`.
    fn fill_<'py>(slf: &Bound<'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        mark(slf.py());
        let operand = Operand::require(value, "value")?;
        slf.get().t.fill_(operand.arg()).or_raise()?;
        Ok(slf.clone())
    }

    /// Every element becomes zero.
    fn zero_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        mark(slf.py());
        slf.get().t.fill_(0.0).or_raise()?;
        Ok(slf.clone())
    }

    /// Takes over the elements of another tensor, broadcast and cast.
    #[pyo3(signature = (src, non_blocking=false))]
    fn copy_<'py>(slf: &Bound<'py, Self>, src: &Bound<'py, PyAny>, non_blocking: bool) -> PyResult<Bound<'py, Self>> {
        let _ = non_blocking;
        mark(slf.py());
        let source = match Operand::require(src, "src")? {
            Operand::Tensor(t) => t.get().t.clone(),
            Operand::Made(t) => t,
            Operand::Number(n) => Tensor::full(&[], n, Some(slf.get().t.dtype())).or_raise()?,
        };
        slf.get().t.copy_(&source).or_raise()?;
        Ok(slf.clone())
    }

    /// Replaces the content by a result of the same shape: what the in-place forms written in Python end in.
    fn _write<'py>(slf: &Bound<'py, Self>, new: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, Self>> {
        mark(slf.py());
        slf.get().t.write_result(&new.get().t).or_raise()?;
        Ok(slf.clone())
    }
}
