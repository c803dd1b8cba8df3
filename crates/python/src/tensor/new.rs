//! The methods that make a tensor of the same dtype and on the same device: `new_zeros` and its kin.

use gt_client::ops::check_fits;
use gt_client::{Scalar, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::{NewTensor, PyTensor};
use crate::args;
use crate::create::{Any, extents, fill, finish, finish_from};
use crate::data::from_any;
use crate::device;
use crate::errors::OrRaise;
use crate::site::mark;

#[pymethods]
impl PyTensor {
    /// Zeros of the same dtype.
    #[pyo3(signature = (*sizes, size=None, dtype=None, device=None, requires_grad=false))]
    fn new_zeros(
        &self,
        sizes: &Bound<'_, PyTuple>,
        size: Any<'_, '_>,
        dtype: Any<'_, '_>,
        device: Any<'_, '_>,
        requires_grad: bool,
    ) -> PyResult<NewTensor> {
        self.new_filled(sizes, size, dtype, device, requires_grad, Scalar::F64(0.0))
    }

    /// Ones of the same dtype.
    #[pyo3(signature = (*sizes, size=None, dtype=None, device=None, requires_grad=false))]
    fn new_ones(
        &self,
        sizes: &Bound<'_, PyTuple>,
        size: Any<'_, '_>,
        dtype: Any<'_, '_>,
        device: Any<'_, '_>,
        requires_grad: bool,
    ) -> PyResult<NewTensor> {
        self.new_filled(sizes, size, dtype, device, requires_grad, Scalar::F64(1.0))
    }

    /// A tensor of the same dtype whose content is not specified.
    #[pyo3(signature = (*sizes, size=None, dtype=None, device=None, requires_grad=false))]
    fn new_empty(
        &self,
        sizes: &Bound<'_, PyTuple>,
        size: Any<'_, '_>,
        dtype: Any<'_, '_>,
        device: Any<'_, '_>,
        requires_grad: bool,
    ) -> PyResult<NewTensor> {
        self.new_filled(sizes, size, dtype, device, requires_grad, Scalar::F64(0.0))
    }

    /// One number everywhere, of the same dtype.
    #[pyo3(signature = (size, fill_value, *, dtype=None, device=None, requires_grad=false))]
    fn new_full(
        &self,
        size: &Bound<'_, PyAny>,
        fill_value: &Bound<'_, PyAny>,
        dtype: Any<'_, '_>,
        device: Any<'_, '_>,
        requires_grad: bool,
    ) -> PyResult<NewTensor> {
        let (none, value) = (PyTuple::empty(size.py()), fill(fill_value)?);
        check_fits(value, args::dtype(dtype)?.unwrap_or(self.held().dtype())).or_raise()?;
        self.new_filled(&none, Some(size), dtype, device, requires_grad, value)
    }

    /// A tensor from data, of the same dtype.
    #[pyo3(signature = (data, *, dtype=None, device=None, requires_grad=false))]
    fn new_tensor(
        &self,
        data: &Bound<'_, PyAny>,
        dtype: Any<'_, '_>,
        device: Any<'_, '_>,
        requires_grad: bool,
    ) -> PyResult<NewTensor> {
        mark(data.py());
        let dt = args::dtype(dtype)?.unwrap_or(self.held().dtype());
        let dev = if device.is_none() { self.device() } else { device::optional(device)? };
        finish_from(|| from_any(data, Some(dt)), requires_grad, dev)
    }
}

impl PyTensor {
    fn new_filled(
        &self,
        sizes: &Bound<'_, PyTuple>,
        size: Any<'_, '_>,
        dtype: Any<'_, '_>,
        device: Any<'_, '_>,
        requires_grad: bool,
        value: Scalar,
    ) -> PyResult<NewTensor> {
        mark(sizes.py());
        let shape = extents(sizes, size)?;
        let dt = args::dtype(dtype)?.unwrap_or(self.held().dtype());
        let dev = if device.is_none() { self.device() } else { device::optional(device)? };
        finish(|| Tensor::full(&shape, value, Some(dt)), requires_grad, dev)
    }
}
