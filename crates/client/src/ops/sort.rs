//! Orders, and what is found with their help.

use gt_ir::ops::{PutMode, ReduceKind, ScanKind, Sort};
use gt_ir::rows::{CompareKind, UnaryKind};
use gt_ir::{DType, OpError};

use super::axis;
use crate::autograd::no_grad;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// What [`Tensor::unique`] gives back.
pub struct Unique {
    /// The distinct values, ascending.
    pub values: Tensor,
    /// For each element the position of its value.
    pub inverse: Tensor,
    /// How often each value occurs.
    pub counts: Tensor,
}

impl Tensor {
    /// Sorted values and where they stood; stable.
    #[track_caller]
    pub fn sort(&self, dim: i64, descending: bool) -> Result<(Tensor, Tensor)> {
        let a = axis(dim, self.rank())?;
        if self.rank() == 0 {
            return Ok((self.alias()?, Tensor::full(&[], 0i64, Some(DType::I64))?));
        }
        let mut outs = Tensor::apply(Sort { axis: a as u8, descending }.into(), &[self], &[])?;
        let order = outs.pop().ok_or_else(|| Error::internal("sort has no order"))?;
        let values = outs.pop().ok_or_else(|| Error::internal("sort has no values"))?;
        Ok((values, order))
    }

    /// The `k` largest (or smallest) along an axis, in order.
    #[track_caller]
    pub fn topk(&self, k: usize, dim: i64, largest: bool) -> Result<(Tensor, Tensor)> {
        let a = axis(dim, self.rank())?;
        let n = self.shape().get(a).copied().unwrap_or(1);
        if k > n {
            return Err(Error::Argument(format!(
                "selected index k out of range: k is {k}, but the dimension has {n} elements"
            )));
        }
        let (values, order) = self.sort(dim, largest)?;
        if self.rank() == 0 {
            return Ok((values, order));
        }
        // Copies, so that what was sorted and not asked for can go.
        let (values, order) =
            (values.narrow(a as i64, 0, k as i64)?.copied()?, order.narrow(a as i64, 0, k as i64)?.copied()?);
        Ok((values.named("Topk"), order))
    }

    /// Positions of true elements in row-major order, as flat numbers: waits for their count.
    #[track_caller]
    fn true_positions(&self) -> Result<Tensor> {
        let flat = self.detach().to_bool()?.reshape(&[-1])?;
        // A stable descending sort of a bool puts the true elements first, in order.
        let (_, order) = flat.sort(0, true)?;
        let count = flat.sum(&[], false, None)?.item()?.as_i64();
        order.narrow(0, 0, count)?.alias()
    }

    /// Positions of elements that are not zero, one tensor per axis. Waits for their number.
    #[track_caller]
    pub fn nonzero_tuple(&self) -> Result<Vec<Tensor>> {
        let _guard = crate::autograd::GradModeGuard::new(false);
        let mut rest = self.true_positions()?;
        let mut out = Vec::new();
        for &n in self.shape().iter().rev() {
            out.push(Tensor::binary(gt_ir::rows::BinaryKind::Rem, &rest, (n as i64).max(1))?);
            rest = Tensor::binary(gt_ir::rows::BinaryKind::FloorDiv, &rest, (n as i64).max(1))?;
        }
        out.reverse();
        Ok(out)
    }

    /// Positions of elements that are not zero, one row each. Waits for their number.
    #[track_caller]
    pub fn nonzero(&self) -> Result<Tensor> {
        let axes = self.nonzero_tuple()?;
        if axes.is_empty() {
            let count = self.true_positions()?.numel();
            return Tensor::zeros(&[count, 0], Some(DType::I64));
        }
        let refs: Vec<&Tensor> = axes.iter().collect();
        Tensor::stack(&refs, 1)
    }

    /// The elements where a mask of the same (broadcast) shape is true, as a vector. Waits for their number.
    #[track_caller]
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        if mask.dtype() != DType::Bool {
            return Err(OpError::dtype(format!(
                "masked_select: expected BoolTensor for mask, got {}",
                mask.dtype().long_name()
            ))
            .into());
        }
        let shape = gt_ir::broadcast(self.shape(), mask.shape()).ok_or_else(|| {
            OpError::shape(format!(
                "masked_select: shapes {} and {} cannot be broadcast together",
                self.shape(),
                mask.shape()
            ))
        })?;
        let dims: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
        let at = no_grad(|| mask.expand(&dims)?.true_positions())?;
        self.expand(&dims)?.reshape(&[-1])?.take_rows(&at)
    }

    /// Distinct elements of the flattened tensor. Waits for their number.
    #[track_caller]
    pub fn unique(&self) -> Result<Unique> {
        let _guard = crate::autograd::GradModeGuard::new(false);
        let flat = self.detach().reshape(&[-1])?;
        let n = flat.numel();
        if n == 0 {
            let none = Tensor::zeros(&[0], Some(DType::I64))?;
            let inverse = Tensor::zeros(self.shape(), Some(DType::I64))?;
            return Ok(Unique { values: flat.alias()?, inverse, counts: none });
        }
        let (sorted, order) = flat.sort(0, false)?;
        // A value starts where an element differs from the one before.
        let (head, tail) = (sorted.narrow(0, 0, n as i64 - 1)?, sorted.narrow(0, 1, n as i64 - 1)?);
        let differs = Tensor::compare(CompareKind::Ne, &tail, &head)?;
        let starts = Tensor::cat(&[&Tensor::full(&[1], true, None)?, &differs], 0)?;
        let group = starts.scan(ScanKind::Sum, 0, None)?.sub(1i64)?;
        let at = starts.true_positions()?;
        let values = sorted.take_rows(&at)?;
        let zeros = Tensor::zeros(&[n], Some(DType::I64))?;
        let inverse = zeros.scatter(0, &order, &group, PutMode::Set)?;
        let dims: Vec<i64> = self.shape().iter().map(|&d| d as i64).collect();
        let ones = Tensor::ones(&[n], Some(DType::I64))?;
        let counts = Tensor::zeros(&[at.numel()], Some(DType::I64))?.scatter(0, &group, &ones, PutMode::Add)?;
        Ok(Unique { values, inverse: inverse.reshape(&dims)?, counts })
    }

    /// How often each number occurs, or the sum of its weights. Waits for the largest number.
    #[track_caller]
    pub fn bincount(&self, weights: Option<&Tensor>, minlength: usize) -> Result<Tensor> {
        if self.rank() != 1 || !self.dtype().is_int() {
            return Err(Error::Argument("bincount only supports 1-d non-negative integral inputs.".into()));
        }
        let index = self.to_dtype(DType::I64)?;
        let mut n = minlength;
        if index.numel() > 0 {
            let least = index.extreme(ReduceKind::Min, &[], false)?;
            let most = index.extreme(ReduceKind::Max, &[], false)?;
            let ends = Tensor::stack(&[&least, &most], 0)?.to_vec::<i64>()?;
            if ends[0] < 0 {
                return Err(Error::Argument("bincount only supports 1-d non-negative integral inputs.".into()));
            }
            n = n.max(ends[1] as usize + 1);
        }
        let (weights, dtype) = match weights {
            Some(w) if w.shape() != self.shape() => {
                return Err(Error::Argument(format!(
                    "weights of shape {} do not fit input of shape {}",
                    w.shape(),
                    self.shape()
                )));
            }
            Some(w) => {
                let dtype = if w.dtype() == DType::F32 { DType::F32 } else { DType::F64 };
                (w.to_dtype(dtype)?, dtype)
            }
            None => (Tensor::ones(self.shape(), Some(DType::I64))?, DType::I64),
        };
        Tensor::zeros(&[n], Some(dtype))?.scatter(0, &index, &weights, PutMode::Add)
    }

    /// Whether all elements are close: `|a - b| <= atol + rtol * |b|`. Waits.
    #[track_caller]
    pub fn allclose(&self, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<bool> {
        if self.numel() == 0 || other.numel() == 0 {
            return Ok(true);
        }
        Ok(self.isclose(other, rtol, atol, equal_nan)?.truth(ReduceKind::Min, &[], false)?.item()?.as_bool())
    }

    /// Which elements are close.
    #[track_caller]
    pub fn isclose(&self, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<Tensor> {
        if self.dtype() != other.dtype() {
            return Err(Error::Argument(format!(
                "{} did not match {}",
                self.dtype().long_name(),
                other.dtype().long_name()
            )));
        }
        let _guard = crate::autograd::GradModeGuard::new(false);
        let (a, b) = (self.detach(), other.detach());
        let equal = Tensor::compare(CompareKind::Eq, &a, &b)?;
        if a.dtype() == DType::Bool {
            return Ok(equal);
        }
        let (af, bf) = (a.to_float()?, b.to_float()?);
        let distance = af.sub(&bf)?.unary(UnaryKind::Abs)?;
        let room = bf.unary(UnaryKind::Abs)?.mul(rtol)?.add(atol)?;
        let near = Tensor::compare(CompareKind::Le, &distance, &room)?;
        let finite = distance.unary(UnaryKind::IsFinite)?;
        let both = |k, x: &Tensor, y: &Tensor| Tensor::binary(k, x, y);
        use gt_ir::rows::BinaryKind::{And, Or};
        let mut out = both(Or, &equal, &both(And, &near, &finite)?)?;
        if equal_nan {
            let nans = both(And, &af.unary(UnaryKind::IsNan)?, &bf.unary(UnaryKind::IsNan)?)?;
            out = both(Or, &out, &nans)?;
        }
        Ok(out)
    }

    /// Whether both have the same shape and elements. Waits.
    #[track_caller]
    pub fn equal(&self, other: &Tensor) -> Result<bool> {
        if self.shape() != other.shape() {
            return Ok(false);
        }
        let same = Tensor::compare(CompareKind::Eq, self, other)?;
        Ok(same.truth(ReduceKind::Min, &[], false)?.item()?.as_bool())
    }
}
