//! Shapes and views.

use gt_client::Tensor;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::{NewTensor, PyTensor};
use crate::args::{self, int_or_ints, ints};
use crate::errors::OrRaise;
use crate::site::mark;

/// `*sizes`, one list, or the keyword.
fn sizes(args: &Bound<'_, PyTuple>, keyword: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<i64>> {
    match keyword {
        Some(k) => int_or_ints(k),
        None if args.is_empty() => {
            Err(PyTypeError::new_err("missing 1 required positional argument: the sizes or dimensions"))
        }
        None => ints(args),
    }
}

fn dims_of(t: &Tensor) -> Vec<i64> {
    t.shape().iter().map(|&d| d as i64).collect()
}

#[pymethods]
impl PyTensor {
    /// The same elements in another shape; a view where possible. One extent may be -1.
    #[pyo3(signature = (*sizes_, shape=None))]
    fn reshape(&self, sizes_: &Bound<'_, PyTuple>, shape: Option<&Bound<'_, PyAny>>) -> PyResult<NewTensor> {
        let d = sizes(sizes_, shape)?;
        self.run(sizes_.py(), |t| t.reshape(&d))
    }

    /// The same elements in another shape, always a view; with a dtype of the same size, another reading is not defined.
    #[pyo3(signature = (*sizes_, size=None))]
    fn view(&self, sizes_: &Bound<'_, PyTuple>, size: Option<&Bound<'_, PyAny>>) -> PyResult<NewTensor> {
        if sizes_.len() == 1 && sizes_.get_item(0)?.is_instance_of::<crate::dtype::PyDType>() {
            let dtype = crate::dtype::extract(&sizes_.get_item(0)?)?;
            if dtype == self.held().dtype() {
                return Ok(self.like(self.held().clone()));
            }
            return Err(PyRuntimeError::new_err(
                "view(dtype) is not supported: GT tensors cannot be reinterpreted as another dtype; use to(dtype) to convert",
            ));
        }
        let d = sizes(sizes_, size)?;
        self.run(sizes_.py(), |t| t.view(&d))
    }

    /// A view in the shape of another tensor.
    fn view_as(&self, other: &Bound<'_, PyTensor>) -> PyResult<NewTensor> {
        self.run(other.py(), |t| t.view(&dims_of(&other.get().held())))
    }

    /// Reshaped like another tensor.
    fn reshape_as(&self, other: &Bound<'_, PyTensor>) -> PyResult<NewTensor> {
        self.run(other.py(), |t| t.reshape(&dims_of(&other.get().held())))
    }

    /// Axes `start_dim..=end_dim` joined into one.
    #[pyo3(signature = (start_dim=0, end_dim=-1))]
    fn flatten(&self, py: Python<'_>, start_dim: i64, end_dim: i64) -> PyResult<NewTensor> {
        self.run(py, |t| t.flatten(start_dim, end_dim))
    }

    /// All elements as a vector.
    fn ravel(&self, py: Python<'_>) -> PyResult<NewTensor> {
        self.run(py, |t| t.reshape(&[-1]))
    }

    /// An axis split into several.
    fn unflatten(&self, py: Python<'_>, dim: i64, sizes: &Bound<'_, PyAny>) -> PyResult<NewTensor> {
        let s = int_or_ints(sizes)?;
        self.run(py, |t| t.unflatten(dim, &s))
    }

    /// Axes in another order: a view.
    #[pyo3(signature = (*dims, **kwargs))]
    fn permute(&self, dims: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<NewTensor> {
        let named = match kwargs {
            Some(k) => k.get_item("dims")?,
            None => None,
        };
        let d = sizes(dims, named.as_ref())?;
        self.run(dims.py(), |t| t.permute(&d))
    }

    /// Two axes swapped: a view.
    fn transpose(&self, py: Python<'_>, dim0: i64, dim1: i64) -> PyResult<NewTensor> {
        self.run(py, |t| t.transpose(dim0, dim1))
    }

    /// Two axes swapped: a view.
    fn swapaxes(&self, py: Python<'_>, axis0: i64, axis1: i64) -> PyResult<NewTensor> {
        self.run(py, |t| t.transpose(axis0, axis1))
    }

    /// Two axes swapped: a view.
    fn swapdims(&self, py: Python<'_>, dim0: i64, dim1: i64) -> PyResult<NewTensor> {
        self.run(py, |t| t.transpose(dim0, dim1))
    }

    /// The transpose of a matrix: a view.
    fn t(&self, py: Python<'_>) -> PyResult<NewTensor> {
        match self.held().rank() {
            0 | 1 => Ok(self.like(self.held().clone())),
            2 => self.run(py, |t| Ok(t.transpose(0, 1)?.named("T"))),
            n => Err(PyRuntimeError::new_err(format!("t() expects a tensor with <= 2 dimensions, but self is {n}D"))),
        }
    }

    /// All axes in reverse order: a view.
    #[getter(T)]
    fn all_reversed(&self, py: Python<'_>) -> PyResult<NewTensor> {
        let d: Vec<i64> = (0..self.held().rank() as i64).rev().collect();
        self.run(py, |t| t.permute(&d))
    }

    /// The last two axes swapped: a view.
    #[getter(mT)]
    fn last_swapped(&self, py: Python<'_>) -> PyResult<NewTensor> {
        if self.held().rank() < 2 {
            return Err(PyRuntimeError::new_err(format!(
                "tensor.mT is only supported on matrices or batches of matrices. Got {}-D tensor.",
                self.held().rank()
            )));
        }
        self.run(py, |t| t.transpose(-2, -1))
    }

    /// The transpose of a matrix: a view.
    #[getter(H)]
    fn adjoint_matrix(&self, py: Python<'_>) -> PyResult<NewTensor> {
        if self.held().rank() != 2 && self.held().rank() != 0 {
            return Err(PyRuntimeError::new_err(format!(
                "tensor.H is only supported on matrices (2-D tensors). Got {}-D tensor.",
                self.held().rank()
            )));
        }
        self.all_reversed(py)
    }

    /// Axes moved to other places: a view.
    fn movedim(
        &self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        destination: &Bound<'_, PyAny>,
    ) -> PyResult<NewTensor> {
        let (s, d) = (int_or_ints(source)?, int_or_ints(destination)?);
        self.run(py, |t| t.movedim(&s, &d))
    }

    /// Axes moved to other places: a view.
    fn moveaxis(
        &self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        destination: &Bound<'_, PyAny>,
    ) -> PyResult<NewTensor> {
        self.movedim(py, source, destination)
    }

    /// Without axes of extent 1: a view.
    #[pyo3(signature = (dim=None))]
    fn squeeze(&self, py: Python<'_>, dim: Option<&Bound<'_, PyAny>>) -> PyResult<NewTensor> {
        match dim {
            None => self.run(py, |t| t.squeeze(&[])),
            Some(d) => {
                let d = int_or_ints(d)?;
                if d.is_empty() {
                    return Ok(self.like(self.held().clone()));
                }
                self.run(py, |t| t.squeeze(&d))
            }
        }
    }

    /// With an axis of extent 1 added: a view.
    fn unsqueeze(&self, py: Python<'_>, dim: i64) -> PyResult<NewTensor> {
        self.run(py, |t| t.unsqueeze(dim))
    }

    /// Repeated along axes of extent 1 without copying: a view.
    #[pyo3(signature = (*sizes_, size=None))]
    fn expand(&self, sizes_: &Bound<'_, PyTuple>, size: Option<&Bound<'_, PyAny>>) -> PyResult<NewTensor> {
        let d = sizes(sizes_, size)?;
        self.run(sizes_.py(), |t| t.expand(&d))
    }

    /// Expanded like another tensor: a view.
    fn expand_as(&self, other: &Bound<'_, PyTensor>) -> PyResult<NewTensor> {
        self.run(other.py(), |t| t.expand(&dims_of(&other.get().held())))
    }

    /// Expanded to a shape: a view.
    #[pyo3(signature = (*size))]
    fn broadcast_to(&self, size: &Bound<'_, PyTuple>) -> PyResult<NewTensor> {
        let d = ints(size)?;
        self.run(size.py(), |t| t.expand(&d))
    }

    /// Copies laid out along each axis.
    #[pyo3(signature = (*sizes_, repeats=None))]
    fn repeat(&self, sizes_: &Bound<'_, PyTuple>, repeats: Option<&Bound<'_, PyAny>>) -> PyResult<NewTensor> {
        let d = sizes(sizes_, repeats)?;
        self.run(sizes_.py(), |t| t.repeat(&d))
    }

    /// Copies laid out along each axis, missing ones counted as 1.
    #[pyo3(signature = (*dims))]
    fn tile(&self, dims: &Bound<'_, PyTuple>) -> PyResult<NewTensor> {
        let mut d = ints(dims)?;
        while d.len() < self.held().rank() {
            d.insert(0, 1);
        }
        self.run(dims.py(), |t| t.repeat(&d))
    }

    /// Each element several times over; without `repeats`, each position as often as its element says.
    #[pyo3(signature = (repeats=None, dim=None, *, output_size=None))]
    fn repeat_interleave(
        &self,
        py: Python<'_>,
        repeats: Option<&Bound<'_, PyAny>>,
        dim: Option<i64>,
        output_size: Option<i64>,
    ) -> PyResult<NewTensor> {
        let _ = output_size;
        mark(py);
        let Some(repeats) = repeats else {
            let times = self.held();
            return self.run(py, |_| {
                let places = Tensor::arange(0.into(), (times.numel() as i64).into(), 1.into(), None)?;
                repeat_by(&places, &times, 0)?.to_dtype(times.dtype())
            });
        };
        let source = match dim {
            None => self.held().reshape(&[-1]).or_raise()?,
            Some(_) => self.held().clone(),
        };
        let d = dim.unwrap_or(0);
        if let Ok(r) = repeats.cast::<PyTensor>() {
            let r = &r.get().held();
            if r.numel() != 1 {
                return repeat_by(&source, r, d).or_raise().map(|t| self.like(t));
            }
            let n = r.item().or_raise()?.as_i64();
            return self.run(py, |_| source.repeat_interleave(n.max(0) as usize, d));
        }
        let n = args::int(repeats)?;
        if n < 0 {
            return Err(PyRuntimeError::new_err("repeats can not be negative"));
        }
        self.run(py, |_| source.repeat_interleave(n as usize, d))
    }

    /// Backwards along axes; a copy.
    #[pyo3(signature = (*dims, **kwargs))]
    fn flip(&self, dims: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<NewTensor> {
        let named = match kwargs {
            Some(k) => k.get_item("dims")?,
            None => None,
        };
        let d = sizes(dims, named.as_ref())?;
        self.run(dims.py(), |t| t.flip(&d))
    }

    /// Shifted around the end.
    #[pyo3(signature = (shifts, dims=None))]
    fn roll(&self, py: Python<'_>, shifts: &Bound<'_, PyAny>, dims: Option<&Bound<'_, PyAny>>) -> PyResult<NewTensor> {
        let s = int_or_ints(shifts)?;
        let d = match dims.filter(|d| !d.is_none()) {
            Some(d) => int_or_ints(d)?,
            None => Vec::new(),
        };
        self.run(py, |t| {
            if d.is_empty() {
                let n = s.iter().sum();
                return t.reshape(&[-1])?.roll(n, 0)?.reshape(&dims_of(t));
            }
            if s.len() != d.len() {
                return Err(gt_client::Error::Argument(format!(
                    "shifts and dimensions must align. shifts: {}, dims:{}",
                    s.len(),
                    d.len()
                )));
            }
            let mut out = t.clone();
            for (s, d) in s.iter().zip(&d) {
                out = out.roll(*s, *d)?;
            }
            Ok(out)
        })
    }

    /// Parts of a size, or of the sizes given, along an axis: views.
    #[pyo3(signature = (split_size, dim=0))]
    fn split(&self, split_size: &Bound<'_, PyAny>, dim: i64) -> PyResult<Py<PyTuple>> {
        let py = split_size.py();
        if split_size.is_instance_of::<pyo3::types::PyInt>() {
            let n = args::int(split_size)?;
            let n = usize::try_from(n).map_err(|_| {
                PyRuntimeError::new_err(format!("split expects split_size be non-negative, but got split_size={n}"))
            })?;
            return self.run_many(py, |t| t.split(n, dim));
        }
        let s = args::shape(&int_or_ints(split_size)?)?;
        self.run_many(py, |t| t.split_sizes(&s, dim))
    }

    /// At most `chunks` equal parts along an axis: views.
    #[pyo3(signature = (chunks, dim=0))]
    fn chunk(&self, py: Python<'_>, chunks: i64, dim: i64) -> PyResult<Py<PyTuple>> {
        if chunks <= 0 {
            return Err(PyRuntimeError::new_err(format!("chunk expects `chunks` to be greater than 0, got: {chunks}")));
        }
        self.run_many(py, |t| t.chunk(chunks as usize, dim))
    }

    /// All positions along an axis, one by one: views.
    #[pyo3(signature = (dim=0))]
    fn unbind(&self, py: Python<'_>, dim: i64) -> PyResult<Py<PyTuple>> {
        self.run_many(py, |t| t.unbind(dim))
    }

    /// `length` elements from `start` on, along an axis: a view.
    fn narrow(&self, py: Python<'_>, dim: i64, start: &Bound<'_, PyAny>, length: i64) -> PyResult<NewTensor> {
        let start: i64 = start.extract()?;
        self.run(py, |t| t.narrow(dim, start, length))
    }

    /// One position along an axis, which goes: a view.
    fn select(&self, py: Python<'_>, dim: i64, index: i64) -> PyResult<NewTensor> {
        self.run(py, |t| t.select(dim, index))
    }

    /// The lower triangle of the last two axes, zero elsewhere.
    #[pyo3(signature = (diagonal=0))]
    fn tril(&self, py: Python<'_>, diagonal: i64) -> PyResult<NewTensor> {
        self.run(py, |t| t.triangle(diagonal, false))
    }

    /// The upper triangle of the last two axes, zero elsewhere.
    #[pyo3(signature = (diagonal=0))]
    fn triu(&self, py: Python<'_>, diagonal: i64) -> PyResult<NewTensor> {
        self.run(py, |t| t.triangle(diagonal, true))
    }

    /// The diagonal of two axes: a view.
    #[pyo3(signature = (offset=0, dim1=0, dim2=1))]
    fn diagonal(&self, py: Python<'_>, offset: i64, dim1: i64, dim2: i64) -> PyResult<NewTensor> {
        self.run(py, |t| t.diagonal(offset, dim1, dim2))
    }

    /// The tensor with its elements packed in row-major order: itself if they are.
    #[pyo3(signature = (memory_format=None))]
    fn contiguous<'py>(
        slf: &Bound<'py, Self>,
        memory_format: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let _ = memory_format;
        let this = slf.get();
        if this.held().is_contiguous() {
            return Ok(slf.clone());
        }
        this.run(slf.py(), |t| t.copied())?.into_pyobject(slf.py())
    }

    /// A copy.
    #[pyo3(signature = (*, memory_format=None))]
    fn clone(&self, py: Python<'_>, memory_format: Option<&Bound<'_, PyAny>>) -> PyResult<NewTensor> {
        let _ = memory_format;
        self.run(py, |t| t.copied())
    }
}

/// Rows repeated by counts of their own: waits for their sum.
fn repeat_by(source: &Tensor, counts: &Tensor, dim: i64) -> gt_client::Result<Tensor> {
    let a = source.own_axis(dim)?;
    if counts.rank() != 1 || counts.numel() != source.shape()[a] {
        return Err(gt_client::Error::Argument(format!(
            "repeats must have the same size as input along dim, but got repeats of shape {} and input of shape {}",
            counts.shape(),
            source.shape()
        )));
    }
    let host = counts.to_dtype(gt_ir::DType::I64)?.to_vec::<i64>()?;
    if host.iter().any(|&c| c < 0) {
        return Err(gt_client::Error::Argument("repeats can not be negative".into()));
    }
    let index: Vec<i64> =
        host.iter().enumerate().flat_map(|(i, &c)| std::iter::repeat_n(i as i64, c as usize)).collect();
    source.index_select(a as i64, &Tensor::from_slice(&index, &[index.len()])?)
}
