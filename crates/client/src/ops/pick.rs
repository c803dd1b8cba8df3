//! Reading and writing at positions: gather, scatter and their kin.

use gt_ir::ops::{Gather, Put, PutMode, Scatter, Take};
use gt_ir::{DType, Op, OpError};

use super::{Arg, axis, check_fits};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Writes `src` to `x` at positions. Bools are added as numbers, and the sums are bools again.
#[track_caller]
pub(super) fn written_at(op: impl Into<Op>, mode: PutMode, x: &Tensor, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    if mode == PutMode::Add && x.dtype() == DType::Bool && src.dtype() == DType::Bool {
        let (x, src) = (x.to_dtype(DType::I64)?, src.to_dtype(DType::I64)?);
        return Tensor::apply1(op, &[&x, index, &src], &[])?.to_bool();
    }
    Tensor::apply1(op, &[x, index, src], &[])
}

impl Tensor {
    #[track_caller]
    fn at_least_1d(&self) -> Result<Tensor> {
        if self.rank() == 0 { self.reshape(&[1]) } else { Ok(self.clone()) }
    }

    /// `out[i][j] = x[index[i][j]][j]` for dim 0.
    #[track_caller]
    pub fn gather(&self, dim: i64, index: &Tensor) -> Result<Tensor> {
        let a = axis(dim, self.rank())?;
        if self.rank() == 0 || index.rank() == 0 {
            let out = self.at_least_1d()?.gather(0, &index.at_least_1d()?)?;
            return out.reshape(&index.shape().iter().map(|&d| d as i64).collect::<Vec<_>>());
        }
        if index.rank() != self.rank() && index.numel() > 0 {
            return Err(Error::Argument("Index tensor must have the same number of dimensions as input tensor".into()));
        }
        Tensor::apply1(Gather { axis: a as u8 }, &[self, &index.as_index()?], &[])
    }

    /// Positions as the ops take them: int32 is as good as int64, and no positions may be of any dtype.
    #[track_caller]
    fn as_index(&self) -> Result<Tensor> {
        if self.dtype() == DType::I32 || self.numel() == 0 { self.to_dtype(DType::I64) } else { Ok(self.clone()) }
    }

    /// `out[index[i][j]][j] = src[i][j]` (or `+=`) for dim 0.
    #[track_caller]
    pub fn scatter<'a>(
        &'a self,
        dim: i64,
        index: &'a Tensor,
        src: impl Into<Arg<'a>>,
        mode: PutMode,
    ) -> Result<Tensor> {
        let a = axis(dim, self.rank())?;
        let src = match src.into() {
            Arg::Tensor(t) => t.clone(),
            Arg::Number(n) => {
                check_fits(n, self.dtype())?;
                Tensor::full(index.shape(), n, Some(self.dtype()))?
            }
        };
        if self.rank() == 0 {
            let out = self.at_least_1d()?.scatter(0, &index.at_least_1d()?, &src.at_least_1d()?, mode)?;
            return out.reshape(&[]);
        }
        if index.rank() != self.rank() && index.numel() > 0 {
            return Err(Error::Argument("Index tensor must have the same number of dimensions as self tensor".into()));
        }
        let out = written_at(Scatter { axis: a as u8, mode }, mode, self, &index.as_index()?, &src)?;
        Ok(out.named(if mode == PutMode::Add { "ScatterAdd" } else { "Scatter" }))
    }

    /// Whole slices along an axis.
    #[track_caller]
    pub fn index_select(&self, dim: i64, index: &Tensor) -> Result<Tensor> {
        let a = axis(dim, self.rank())?;
        if index.rank() > 1 {
            return Err(OpError::index("index_select(): Index is supposed to be a vector").into());
        }
        if !matches!(index.dtype(), DType::I64 | DType::I32) {
            return Err(Error::Argument("index_select(): Expected dtype int32 or int64 for index".into()));
        }
        let index = index.to_dtype(DType::I64)?.at_least_1d()?;
        let out = Tensor::apply1(Take { axis: a as u8, wrap: false }, &[&self.at_least_1d()?, &index], &[])?;
        let out = if self.rank() == 0 { out.reshape(&[])? } else { out };
        Ok(out.named("IndexSelect"))
    }

    /// Rows of a table: what an embedding does.
    #[track_caller]
    pub fn take_rows(&self, index: &Tensor) -> Result<Tensor> {
        let index = index.to_dtype(DType::I64)?;
        Tensor::apply1(Take { axis: 0, wrap: false }, &[self, &index], &[])
    }

    /// Slices of `src` added (or written) at positions along an axis.
    #[track_caller]
    pub fn index_put_along(&self, dim: i64, index: &Tensor, src: &Tensor, mode: PutMode) -> Result<Tensor> {
        let a = axis(dim, self.rank())?;
        if index.rank() > 1 {
            return Err(OpError::index("index_add_(): Index is supposed to be a vector").into());
        }
        if !matches!(index.dtype(), DType::I64 | DType::I32) {
            return Err(Error::Argument(format!(
                "index_add_(): Expected dtype int32/int64 for index but got: {}",
                index.dtype().long_name()
            )));
        }
        let index = index.to_dtype(DType::I64)?.at_least_1d()?;
        let wanted = self.at_least_1d()?.shape().with_extent(a, index.numel())?;
        if src.dtype() != self.dtype() {
            return Err(OpError::dtype(format!(
                "{}: self ({}) and source ({}) must have the same scalar type",
                if mode == PutMode::Add { "index_add_()" } else { "index_copy_()" },
                self.dtype().long_name(),
                src.dtype().long_name()
            ))
            .into());
        }
        if src.numel() != wanted.numel() || src.rank() != self.rank() && self.rank() > 0 {
            return Err(Error::Argument(format!(
                "index_add_(): Number of indices ({}) should be equal to source.size(dim), and source of shape {} must fit {}",
                index.numel(),
                src.shape(),
                self.shape()
            )));
        }
        let src = src.reshape(&wanted.iter().map(|&d| d as i64).collect::<Vec<_>>())?;
        let put = Put { axis: a as u8, mode, wrap: false };
        let out = written_at(put, mode, &self.at_least_1d()?, &index, &src)?;
        let out = if self.rank() == 0 { out.reshape(&[])? } else { out };
        Ok(out.named(if mode == PutMode::Add { "IndexAdd" } else { "IndexCopy" }))
    }

    /// [`Tensor::gather`] with broadcasting of all other axes.
    #[track_caller]
    pub fn take_along_dim(&self, index: &Tensor, dim: i64) -> Result<Tensor> {
        if index.rank() != self.rank() {
            return Err(Error::Argument(format!(
                "take_along_dim(): input and indices should have the same number of dimensions, but got {} dimensions \
                 for input, and {} dimensions for indices",
                self.rank(),
                index.rank()
            )));
        }
        let a = self.own_axis(dim)?;
        let (mut own, mut other) = (**self.shape(), **index.shape());
        let both = |x: usize, y: usize| if x == 1 { y } else { x };
        for i in (0..self.rank()).filter(|&i| i != a) {
            let n = both(own[i], other[i]);
            (own[i], other[i]) = (n, n);
        }
        let dims = |s: &[usize]| s.iter().map(|&d| d as i64).collect::<Vec<_>>();
        // Positions may count from the end here, unlike those of `gather`.
        let size = self.shape()[a] as i64;
        let below = Tensor::compare(gt_ir::rows::CompareKind::Lt, index, 0)?;
        let index = Tensor::select_by(&below, &index.add(size)?, index)?;
        self.expand(&dims(&own))?.gather(a as i64, &index.expand(&dims(&other))?)
    }
}
