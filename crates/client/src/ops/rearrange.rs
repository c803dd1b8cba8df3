//! Elements repeated, turned around or shifted along axes: copies.

use gt_ir::{OpError, Scalar};

use super::axis;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

impl Tensor {
    /// Copies laid out along each axis.
    #[track_caller]
    pub fn repeat(&self, times: &[i64]) -> Result<Tensor> {
        if times.len() < self.rank() {
            return Err(Error::Argument(
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor".into(),
            ));
        }
        if times.iter().any(|&t| t < 0) {
            return Err(Error::Argument("Trying to create tensor with negative dimension".into()));
        }
        let lead = times.len() - self.rank();
        let own: Vec<i64> =
            (0..times.len()).map(|i| if i < lead { 1 } else { self.shape()[i - lead] as i64 }).collect();
        // Axis by axis, so that the rank grows by one only.
        let mut out = self.reshape(&own)?;
        for (i, &t) in times.iter().enumerate() {
            if t == 1 {
                continue;
            }
            let shape: Vec<i64> = out.shape().iter().map(|&d| d as i64).collect();
            let mut wide = shape.clone();
            wide.insert(i, t);
            let mut joined = shape;
            joined[i] = joined[i].checked_mul(t).ok_or_else(|| {
                OpError::shape(format!("repeat: repeats {times:?} of shape {} are too many", self.shape()))
            })?;
            let (before, after) = (wide[..i].iter().product::<i64>(), wide[i + 2..].iter().product::<i64>());
            // Through at most four axes, so that the largest rank can be repeated too.
            let grid = out.reshape(&[before, 1, wide[i + 1], after])?;
            out = grid.expand(&[before, t, wide[i + 1], after])?.reshape(&joined)?;
        }
        if out.shares_cell(self) { out.alias() } else { Ok(out.named("Repeat")) }
    }

    /// Each element `times` over, along an axis.
    #[track_caller]
    pub fn repeat_interleave(&self, times: usize, dim: i64) -> Result<Tensor> {
        let a = self.own_axis(dim)?;
        let mut shape: Vec<i64> = self.shape().iter().map(|&d| d as i64).collect();
        let (before, n, after) = (shape[..a].iter().product::<i64>(), shape[a], shape[a + 1..].iter().product::<i64>());
        let grid = self.reshape(&[before, n, 1, after])?.expand(&[before, n, times as i64, after])?;
        shape[a] = shape[a].saturating_mul(times as i64);
        let out = grid.reshape(&shape)?;
        if out.shares_cell(self) { out.alias() } else { Ok(out) }
    }

    /// Backwards along axes; a copy.
    #[track_caller]
    pub fn flip(&self, dims: &[i64]) -> Result<Tensor> {
        let rank = self.rank();
        let axes = if dims.is_empty() { gt_ir::AxisSet::default() } else { super::axis_set(dims, rank)? };
        let step = |a: usize| if axes.contains(a) { -1 } else { 1 };
        let starts: Vec<Scalar> = (0..rank)
            .map(|a| Scalar::I64(if axes.contains(a) { self.shape()[a].saturating_sub(1) as i64 } else { 0 }))
            .collect();
        let op = gt_ir::ops::Slice {
            sizes: *self.shape(),
            steps: (0..rank).map(step).collect(),
            drop: gt_ir::AxisSet::default(),
        };
        Ok(Tensor::apply1(op, &[self], &starts)?.named("Flip"))
    }

    /// Shifted around the end, along an axis.
    #[track_caller]
    pub fn roll(&self, shift: i64, dim: i64) -> Result<Tensor> {
        let a = axis(dim, self.rank())?;
        let n = self.shape().get(a).copied().unwrap_or(1) as i64;
        if n == 0 || self.rank() == 0 || shift.rem_euclid(n) == 0 {
            return self.alias();
        }
        let cut = n - shift.rem_euclid(n);
        let (head, tail) = (self.narrow(a as i64, 0, cut)?, self.narrow(a as i64, cut, n - cut)?);
        Ok(Tensor::cat(&[&tail, &head], a as i64)?.named("Roll"))
    }
}
