//! Reductions: sums, extremes, moments and norms.

use gt_ir::ops::{ArgKind, ArgReduce, Reduce, ReduceKind, Scan, ScanKind};
use gt_ir::rows::{CompareKind, UnaryKind};
use gt_ir::{DType, OpError};

use super::{axis, axis_set};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Whether totals and squares of ordinary numbers overflow in the dtype, or lose most of their digits.
fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

impl Tensor {
    #[track_caller]
    fn reduce(&self, kind: ReduceKind, dims: &[i64], keepdim: bool) -> Result<Tensor> {
        let axes = axis_set(dims, self.rank())?;
        Tensor::apply1(Reduce { kind, axes, keepdim }, &[self], &[])
    }

    /// Integers and bools are summed as int64 unless a dtype is given.
    #[track_caller]
    fn widened(&self, dtype: Option<DType>) -> Result<Tensor> {
        self.to_dtype(dtype.unwrap_or(if self.dtype().is_float() { self.dtype() } else { DType::I64 }))
    }

    /// The sum over axes; no dims means all.
    #[track_caller]
    pub fn sum(&self, dims: &[i64], keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
        if dtype == Some(DType::Bool) {
            return self.to_bool()?.reduce(ReduceKind::Max, dims, keepdim);
        }
        self.widened(dtype)?.reduce(ReduceKind::Sum, dims, keepdim)
    }

    /// The product over axes; no dims means all.
    #[track_caller]
    pub fn prod(&self, dims: &[i64], keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
        if dtype == Some(DType::Bool) {
            return self.to_bool()?.reduce(ReduceKind::Min, dims, keepdim);
        }
        self.widened(dtype)?.reduce(ReduceKind::Prod, dims, keepdim)
    }

    #[track_caller]
    fn count(&self, dims: &[i64]) -> Result<usize> {
        Ok(axis_set(dims, self.rank())?.iter().map(|a| self.shape()[a]).product())
    }

    /// The mean over axes; no dims means all.
    #[track_caller]
    pub fn mean(&self, dims: &[i64], keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
        let dtype = dtype.unwrap_or(self.dtype());
        if is_narrow(dtype) {
            // The total of many elements may be too large for the dtype although their mean is not.
            let mean = self.mean(dims, keepdim, Some(DType::F32))?.to_dtype(dtype)?;
            return Ok(mean.named(if dims.is_empty() { "Mean" } else { "MeanBackward1" }));
        }
        let x = self.to_dtype(dtype)?;
        if !dtype.is_float() {
            return Err(OpError::dtype(format!(
                "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {}",
                dtype.long_name()
            ))
            .into());
        }
        let n = x.count(dims)?;
        Ok(x.sum(dims, keepdim, None)?.div(n as f64)?.named(if dims.is_empty() { "Mean" } else { "MeanBackward1" }))
    }

    /// The largest (or smallest) value over axes; ties share the gradient.
    #[track_caller]
    pub fn extreme(&self, kind: ReduceKind, dims: &[i64], keepdim: bool) -> Result<Tensor> {
        if self.numel() == 0 && dims.is_empty() {
            let name = if kind == ReduceKind::Max { "max" } else { "min" };
            return Err(Error::Argument(format!(
                "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."
            )));
        }
        self.reduce(kind, dims, keepdim)
    }

    /// [`Tensor::extreme`] as `amax` and `amin` have it: where it is NaN it equals no element, so each gradient is NaN.
    #[track_caller]
    pub fn extreme_of_equals(&self, kind: ReduceKind, dims: &[i64], keepdim: bool) -> Result<Tensor> {
        let out = self.extreme(kind, dims, keepdim)?;
        if !out.requires_grad() {
            return Ok(out);
        }
        let nan = out.detach().unary(UnaryKind::IsNan)?;
        let one = Tensor::full(&[], 1.0, Some(out.dtype()))?;
        let name = if kind == ReduceKind::Max { "Amax" } else { "Amin" };
        Ok(out.mul(&Tensor::select_by(&nan, f64::NAN, &one)?)?.named(name))
    }

    /// Position of the largest (or smallest) element along an axis, or among all.
    #[track_caller]
    pub fn arg_extreme(&self, kind: ArgKind, dim: Option<i64>, keepdim: bool) -> Result<Tensor> {
        let name = if kind == ArgKind::Max { "argmax" } else { "argmin" };
        match dim {
            None => {
                if self.numel() == 0 {
                    return Err(OpError::index(format!(
                        "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim \
                         with the 'dim' argument."
                    ))
                    .into());
                }
                let flat = self.detach().reshape(&[-1])?;
                let out = Tensor::apply1(ArgReduce { kind, axis: 0, keepdim: false }, &[&flat], &[])?;
                if keepdim { out.reshape(&vec![1; self.rank()]) } else { Ok(out) }
            }
            Some(dim) => {
                let a = axis(dim, self.rank())?;
                if self.rank() == 0 {
                    return Tensor::full(&[], 0i64, Some(DType::I64));
                }
                Tensor::apply1(ArgReduce { kind, axis: a as u8, keepdim }, &[self], &[])
            }
        }
    }

    /// Extremes along one axis with their positions; the gradient goes to that position alone.
    #[track_caller]
    pub fn extreme_with_index(&self, kind: ArgKind, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
        let a = axis(dim, self.rank())?;
        if self.rank() == 0 {
            return Ok((self.alias()?, Tensor::full(&[], 0i64, Some(DType::I64))?));
        }
        let index = self.arg_extreme(kind, Some(a as i64), true)?;
        let values = self.gather(a as i64, &index)?;
        let name = if kind == ArgKind::Max { "Max" } else { "Min" };
        if keepdim {
            return Ok((values.named(name), index));
        }
        Ok((values.squeeze(&[a as i64])?.named(name), index.squeeze(&[a as i64])?))
    }

    /// Whether any (or, with `ReduceKind::Min`, every) element along the axes is true.
    #[track_caller]
    pub fn truth(&self, kind: ReduceKind, dims: &[i64], keepdim: bool) -> Result<Tensor> {
        let truth = self.to_bool()?.reduce(kind, dims, keepdim)?;
        // PyTorch keeps uint8, its bool of old.
        if self.dtype() == DType::U8 { truth.to_dtype(DType::U8) } else { Ok(truth) }
    }

    /// Whether each element is not zero, in the dtype [`Tensor::truth`] has.
    #[track_caller]
    pub fn truth_of_each(&self) -> Result<Tensor> {
        let truth = self.to_bool()?;
        if self.dtype() == DType::U8 { truth.to_dtype(DType::U8) } else { Ok(truth) }
    }

    /// The variance over axes, dividing by `n - correction`.
    #[track_caller]
    pub fn var(&self, dims: &[i64], correction: f64, keepdim: bool) -> Result<Tensor> {
        if !self.dtype().is_float() {
            return Err(OpError::dtype("std and var only support floating point and complex dtypes").into());
        }
        if self.is_narrow() {
            return self.to_dtype(DType::F32)?.var(dims, correction, keepdim)?.to_dtype(self.dtype());
        }
        let n = self.count(dims)? as f64;
        let mean = self.mean(dims, true, None)?;
        let centred = self.sub(&mean)?;
        let total = centred.unary(UnaryKind::Square)?.sum(dims, keepdim, None)?;
        Ok(total.div((n - correction).max(0.0))?.named("Var"))
    }

    /// The standard deviation over axes: the root of [`Tensor::var`].
    #[track_caller]
    pub fn std(&self, dims: &[i64], correction: f64, keepdim: bool) -> Result<Tensor> {
        if self.is_narrow() {
            return self.to_dtype(DType::F32)?.std(dims, correction, keepdim)?.to_dtype(self.dtype());
        }
        Ok(self.var(dims, correction, keepdim)?.safe_root()?.named("Std"))
    }

    /// Whether [`is_narrow`] says so of its dtype.
    pub(super) fn is_narrow(&self) -> bool {
        is_narrow(self.dtype())
    }

    /// The root, with a gradient of zero instead of infinity at zero.
    #[track_caller]
    fn safe_root(&self) -> Result<Tensor> {
        if !self.requires_grad() {
            return self.unary(UnaryKind::Sqrt);
        }
        let zero = Tensor::compare(CompareKind::Eq, self, 0.0)?;
        let root = Tensor::select_by(&zero, 1.0, self)?.unary(UnaryKind::Sqrt)?;
        Tensor::select_by(&zero, 0.0, &root)
    }

    /// The p-norm over axes.
    #[track_caller]
    pub fn norm(&self, p: f64, dims: &[i64], keepdim: bool) -> Result<Tensor> {
        Ok(self.norm_of_order(p, dims, keepdim)?.named("LinalgVectorNorm"))
    }

    #[track_caller]
    fn norm_of_order(&self, p: f64, dims: &[i64], keepdim: bool) -> Result<Tensor> {
        if !self.dtype().is_float() {
            return Err(OpError::dtype(format!(
                "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}",
                self.dtype().long_name()
            ))
            .into());
        }
        if self.is_narrow() {
            return self.to_dtype(DType::F32)?.norm_of_order(p, dims, keepdim)?.to_dtype(self.dtype());
        }
        let abs = |x: &Tensor| x.unary(UnaryKind::Abs);
        if p == 2.0 {
            return self.unary(UnaryKind::Square)?.sum(dims, keepdim, None)?.safe_root();
        }
        if p == 1.0 {
            return abs(self)?.sum(dims, keepdim, None);
        }
        if p == 0.0 {
            let count =
                Tensor::compare(CompareKind::Ne, self, 0.0)?.to_dtype(self.dtype())?.sum(dims, keepdim, None)?;
            return count.without_gradient("LinalgVectorNorm", &[self]);
        }
        if p.is_infinite() {
            return abs(self)?.extreme(if p > 0.0 { ReduceKind::Max } else { ReduceKind::Min }, dims, keepdim);
        }
        if p < 1.0 {
            // The power's slope is infinite at zero, where the norm has none: zeros are put in after it is applied.
            let zero = Tensor::compare(CompareKind::Eq, self, 0.0)?;
            let powers = Tensor::select_by(&zero, 1.0, &abs(self)?)?.pow(p)?;
            let powers = Tensor::select_by(&zero, if p < 0.0 { f64::INFINITY } else { 0.0 }, &powers)?;
            return powers.sum(dims, keepdim, None)?.pow(1.0 / p);
        }
        let total = abs(self)?.pow(p)?.sum(dims, keepdim, None)?;
        // Nothing has no direction: a gradient of zero, not of zero times infinity.
        let zero = Tensor::compare(CompareKind::Eq, &total, 0.0)?;
        Tensor::select_by(&zero, 0.0, &Tensor::select_by(&zero, 1.0, &total)?.pow(1.0 / p)?)
    }

    /// Running sums or products along an axis.
    #[track_caller]
    pub fn scan(&self, kind: ScanKind, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
        let x = self.widened(dtype)?;
        let a = axis(dim, x.rank())?;
        if x.rank() == 0 {
            return x.alias();
        }
        Tensor::apply1(Scan { kind, axis: a as u8, reverse: false }, &[&x], &[])
    }
}
