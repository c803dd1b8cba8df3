//! Picking, masking, sorting.

use gt_client::Tensor;
use gt_client::ops::check_fits;
use gt_ir::ops::PutMode;
use gt_ir::{DType, Scalar};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};

use super::inplace::written;
use super::{NewTensor, PyTensor, named_pair};
use crate::args::{self, Operand};
use crate::errors::OrRaise;
use crate::site::mark;

fn masked_fill(t: &Tensor, mask: &Tensor, value: &Operand<'_>) -> gt_client::Result<Tensor> {
    if mask.dtype() != DType::Bool {
        return Err(gt_client::Error::Argument(format!(
            "masked_fill only supports boolean masks, but got mask with dtype {}",
            mask.dtype().long_name()
        )));
    }
    // The result keeps the tensor's dtype, whatever the value is.
    match value.arg() {
        gt_client::Arg::Number(n) => {
            check_fits(n, t.dtype())?;
            let n = match t.dtype().category() {
                0 => Scalar::Bool(n.as_bool()),
                1 => Scalar::I64(n.as_i64()),
                _ => n,
            };
            Ok(Tensor::select_by(mask, n, t)?.named("MaskedFill"))
        }
        gt_client::Arg::Tensor(v) if v.rank() == 0 => {
            Ok(Tensor::select_by(mask, &v.to_dtype(t.dtype())?, t)?.named("MaskedFill"))
        }
        gt_client::Arg::Tensor(v) => Err(gt_client::Error::Argument(format!(
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
            v.rank()
        ))),
    }
}

fn scatter_mode(reduce: Option<&str>) -> PyResult<PutMode> {
    match reduce {
        None => Ok(PutMode::Set),
        Some("add") => Ok(PutMode::Add),
        Some(other) => {
            Err(PyRuntimeError::new_err(format!("reduce argument must be either add or multiply, got {other}")))
        }
    }
}

#[pymethods]
impl PyTensor {
    fn __getitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> PyResult<NewTensor> {
        mark(py);
        let part = if index.is_exact_instance_of::<PyInt>() {
            self.held().index(&[gt_client::Index::Int(index.extract()?)])
        } else {
            self.held().index(&crate::index::parse(index)?)
        };
        Ok(self.like(part.or_raise()?))
    }

    fn __setitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        mark(py);
        let index = crate::index::parse(index)?;
        let operand = match Operand::from(value)? {
            Some(o) => o,
            None => Operand::Made(crate::data::from_any(value, None)?),
        };
        self.held().set_index(&index, operand.arg()).or_raise()
    }

    fn __delitem__(&self, _index: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyTypeError::new_err("Tensor does not support deleting items"))
    }

    /// `self` where `condition`, else `other`.
    fn r#where(&self, condition: &Bound<'_, PyTensor>, other: &Bound<'_, PyAny>) -> PyResult<NewTensor> {
        let operand = Operand::require(other, "other")?;
        self.run(other.py(), |t| Tensor::select_by(&condition.get().held(), t, operand.arg()))
    }

    /// `value` where the mask is true.
    fn masked_fill(&self, mask: &Bound<'_, PyTensor>, value: &Bound<'_, PyAny>) -> PyResult<NewTensor> {
        let operand = Operand::require(value, "value")?;
        self.run(value.py(), |t| masked_fill(t, &mask.get().held(), &operand))
    }

    /// In place: `value` where the mask is true.
    fn masked_fill_<'py>(
        slf: &Bound<'py, Self>,
        mask: &Bound<'py, PyTensor>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        written(slf, |x| x.masked_fill(mask, value))
    }

    /// The elements where the mask is true, as a vector. Waits for their number.
    fn masked_select(&self, mask: &Bound<'_, PyTensor>) -> PyResult<NewTensor> {
        self.run(mask.py(), |t| t.masked_select(&mask.get().held()))
    }

    /// Single elements: `out[i][j] = self[index[i][j]][j]` for dim 0.
    #[pyo3(signature = (dim, index, *, sparse_grad=false))]
    fn gather(&self, py: Python<'_>, dim: i64, index: &Bound<'_, PyTensor>, sparse_grad: bool) -> PyResult<NewTensor> {
        let _ = sparse_grad;
        self.run(py, |t| t.gather(dim, &index.get().held()))
    }

    /// Single elements written: `out[index[i][j]][j] = src[i][j]` for dim 0.
    #[pyo3(signature = (dim, index, src=None, *, value=None, reduce=None))]
    fn scatter(
        &self,
        py: Python<'_>,
        dim: i64,
        index: &Bound<'_, PyTensor>,
        src: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        reduce: Option<&str>,
    ) -> PyResult<NewTensor> {
        let given = src
            .or(value)
            .ok_or_else(|| PyTypeError::new_err("scatter() missing 1 required argument: 'src' or 'value'"))?;
        let operand = Operand::require(given, "src")?;
        if reduce == Some("multiply") {
            let this = self.like(self.held().clone()).into_pyobject(py)?;
            let source = match operand {
                Operand::Tensor(t) => t,
                Operand::Made(t) => self.like(t).into_pyobject(py)?,
                Operand::Number(n) => {
                    let all = Tensor::full(index.get().held().shape(), n, Some(self.held().dtype())).or_raise()?;
                    self.like(all).into_pyobject(py)?
                }
            };
            let made = this.call_method1("scatter_reduce", (dim, index, source, "prod"))?;
            return Ok(self.like(made.cast::<PyTensor>()?.get().held().clone()));
        }
        let mode = scatter_mode(reduce)?;
        self.run(py, |t| t.scatter(dim, &index.get().held(), operand.arg(), mode))
    }

    /// In place: single elements written.
    #[pyo3(signature = (dim, index, src=None, *, value=None, reduce=None))]
    fn scatter_<'py>(
        slf: &Bound<'py, Self>,
        dim: i64,
        index: &Bound<'py, PyTensor>,
        src: Option<&Bound<'py, PyAny>>,
        value: Option<&Bound<'py, PyAny>>,
        reduce: Option<&str>,
    ) -> PyResult<Bound<'py, Self>> {
        written(slf, |x| x.scatter(slf.py(), dim, index, src, value, reduce))
    }

    /// Single elements added: `out[index[i][j]][j] += src[i][j]` for dim 0.
    fn scatter_add(
        &self,
        py: Python<'_>,
        dim: i64,
        index: &Bound<'_, PyTensor>,
        src: &Bound<'_, PyTensor>,
    ) -> PyResult<NewTensor> {
        self.run(py, |t| t.scatter(dim, &index.get().held(), &*src.get().held(), PutMode::Add))
    }

    /// In place: single elements added.
    fn scatter_add_<'py>(
        slf: &Bound<'py, Self>,
        dim: i64,
        index: &Bound<'py, PyTensor>,
        src: &Bound<'py, PyTensor>,
    ) -> PyResult<Bound<'py, Self>> {
        written(slf, |x| x.scatter_add(slf.py(), dim, index, src))
    }

    /// Whole slices along an axis.
    fn index_select(&self, py: Python<'_>, dim: i64, index: &Bound<'_, PyTensor>) -> PyResult<NewTensor> {
        self.run(py, |t| t.index_select(dim, &index.get().held()))
    }

    /// Slices of `source` added at positions along an axis.
    #[pyo3(signature = (dim, index, source, *, alpha=1.0))]
    fn index_add(
        &self,
        py: Python<'_>,
        dim: i64,
        index: &Bound<'_, PyTensor>,
        source: &Bound<'_, PyTensor>,
        alpha: f64,
    ) -> PyResult<NewTensor> {
        self.run(py, |t| {
            let source = source.get().held();
            let factor = Scalar::F64(alpha).for_dtype(source.dtype());
            let scaled = if alpha == 1.0 { source.clone() } else { source.mul(factor)? };
            t.index_put_along(dim, &index.get().held(), &scaled, PutMode::Add)
        })
    }

    /// In place: slices added at positions along an axis.
    #[pyo3(signature = (dim, index, source, *, alpha=1.0))]
    fn index_add_<'py>(
        slf: &Bound<'py, Self>,
        dim: i64,
        index: &Bound<'py, PyTensor>,
        source: &Bound<'py, PyTensor>,
        alpha: f64,
    ) -> PyResult<Bound<'py, Self>> {
        written(slf, |x| x.index_add(slf.py(), dim, index, source, alpha))
    }

    /// Slices of `source` written at positions along an axis.
    fn index_copy(
        &self,
        py: Python<'_>,
        dim: i64,
        index: &Bound<'_, PyTensor>,
        source: &Bound<'_, PyTensor>,
    ) -> PyResult<NewTensor> {
        self.run(py, |t| t.index_put_along(dim, &index.get().held(), &source.get().held(), PutMode::Set))
    }

    /// Elements at positions given by one tensor per axis replaced, or added to.
    #[pyo3(signature = (indices, values, accumulate=false))]
    fn index_put(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        values: &Bound<'_, PyTensor>,
        accumulate: bool,
    ) -> PyResult<NewTensor> {
        let indices = args::tensors(indices)?;
        let (own, given) = (self.held().dtype(), values.get().held().dtype());
        if own != given {
            return Err(PyRuntimeError::new_err(format!(
                "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
                own.long_name(),
                given.long_name()
            )));
        }
        self.run(py, |t| t.index_put(&indices, &values.get().held(), accumulate))
    }

    /// In place: elements at positions given by one tensor per axis replaced, or added to.
    #[pyo3(signature = (indices, values, accumulate=false))]
    fn index_put_<'py>(
        slf: &Bound<'py, Self>,
        indices: &Bound<'py, PyAny>,
        values: &Bound<'py, PyTensor>,
        accumulate: bool,
    ) -> PyResult<Bound<'py, Self>> {
        written(slf, |x| x.index_put(slf.py(), indices, values, accumulate))
    }

    /// `gather` with broadcasting of the other axes; without a dim, from the flattened tensor.
    #[pyo3(signature = (indices, dim=None))]
    fn take_along_dim(&self, py: Python<'_>, indices: &Bound<'_, PyTensor>, dim: Option<i64>) -> PyResult<NewTensor> {
        self.run(py, |t| match dim {
            Some(d) => t.take_along_dim(&indices.get().held(), d),
            None => t.reshape(&[-1])?.take_along_dim(&indices.get().held().reshape(&[-1])?, 0),
        })
    }

    /// The `k` largest (or smallest) along an axis, with their positions.
    #[pyo3(signature = (k, dim=-1, largest=true, sorted=true))]
    fn topk<'py>(&self, py: Python<'py>, k: i64, dim: i64, largest: bool, sorted: bool) -> PyResult<Bound<'py, PyAny>> {
        let _ = sorted;
        mark(py);
        let k = usize::try_from(k).map_err(|_| PyRuntimeError::new_err("selected index k out of range"))?;
        let (v, i) = self.held().topk(k, dim, largest).or_raise()?;
        named_pair(py, "topk", self.like(v), self.like(i))
    }

    /// Sorted along an axis, with where the elements stood.
    #[pyo3(signature = (dim=-1, descending=false, stable=None))]
    fn sort<'py>(
        &self,
        py: Python<'py>,
        dim: i64,
        descending: bool,
        stable: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = stable;
        mark(py);
        let (v, i) = self.held().sort(dim, descending).or_raise()?;
        named_pair(py, "sort", self.like(v), self.like(i))
    }

    /// Where the elements of the sorted tensor stood.
    #[pyo3(signature = (dim=-1, descending=false, stable=None))]
    fn argsort(&self, py: Python<'_>, dim: i64, descending: bool, stable: Option<bool>) -> PyResult<NewTensor> {
        let _ = stable;
        self.run(py, |t| Ok(t.sort(dim, descending)?.1))
    }

    /// Positions of elements that are not zero. Waits for their number.
    #[pyo3(signature = (*, as_tuple=false))]
    fn nonzero<'py>(&self, py: Python<'py>, as_tuple: bool) -> PyResult<Bound<'py, PyAny>> {
        if as_tuple {
            let source =
                if self.held().rank() == 0 { self.held().reshape(&[1]).or_raise()? } else { self.held().clone() };
            return Ok(self.run_many(py, |_| source.nonzero_tuple())?.into_bound(py).into_any());
        }
        Ok(self.run(py, |t| t.nonzero())?.into_pyobject(py)?.into_any())
    }

    /// The distinct elements, ascending. Waits for their number.
    #[pyo3(signature = (sorted=true, return_inverse=false, return_counts=false, dim=None))]
    fn unique<'py>(
        &self,
        py: Python<'py>,
        sorted: bool,
        return_inverse: bool,
        return_counts: bool,
        dim: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = sorted;
        if dim.is_some() && self.held().rank() != 1 {
            return Err(PyRuntimeError::new_err("unique: dim is supported on vectors only"));
        }
        mark(py);
        let u = self.held().unique().or_raise()?;
        let mut out = vec![self.like(u.values)];
        if return_inverse {
            out.push(self.like(u.inverse));
        }
        if return_counts {
            out.push(self.like(u.counts));
        }
        if out.len() == 1 {
            return Ok(out.remove(0).into_pyobject(py)?.into_any());
        }
        Ok(PyTuple::new(py, out)?.into_any())
    }

    /// How often each number occurs. Waits for the largest.
    #[pyo3(signature = (weights=None, minlength=0))]
    fn bincount(&self, py: Python<'_>, weights: Option<&Bound<'_, PyTensor>>, minlength: i64) -> PyResult<NewTensor> {
        if minlength < 0 {
            return Err(PyRuntimeError::new_err("minlength should be >= 0"));
        }
        let weights = weights.map(|w| w.get().held());
        self.run(py, |t| t.bincount(weights.as_deref(), minlength as usize))
    }

    /// Positions drawn with the weights of the last axis.
    #[pyo3(signature = (num_samples, replacement=false, *, generator=None))]
    fn multinomial(
        &self,
        py: Python<'_>,
        num_samples: i64,
        replacement: bool,
        generator: Option<&Bound<'_, crate::generator::PyGenerator>>,
    ) -> PyResult<NewTensor> {
        self.run(py, |t| t.multinomial(num_samples.max(0) as usize, replacement, generator.map(|g| &g.get().0)))
    }

    /// One with the probability each element (or `p`) gives, else zero.
    #[pyo3(signature = (p=None, *, generator=None))]
    fn bernoulli(
        &self,
        py: Python<'_>,
        p: Option<f64>,
        generator: Option<&Bound<'_, crate::generator::PyGenerator>>,
    ) -> PyResult<NewTensor> {
        self.run(py, |t| {
            let source = match p {
                Some(p) => Tensor::full(t.shape(), p, Some(if t.dtype().is_float() { t.dtype() } else { DType::F32 }))?,
                None => t.clone(),
            };
            source.bernoulli(generator.map(|g| &g.get().0))?.to_dtype(t.dtype())
        })
    }
}
