//! What lies on, above and below a diagonal.

use gt_ir::rows::CompareKind;
use gt_ir::{DType, Scalar, Steps};

use super::axis;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

impl Tensor {
    /// Zero above (or, `upper`, below) a diagonal of the last two axes.
    #[track_caller]
    pub fn triangle(&self, diagonal: i64, upper: bool) -> Result<Tensor> {
        let rank = self.rank();
        if rank < 2 {
            return Err(Error::Argument(format!(
                "{}: input tensor must have at least 2 dimensions",
                if upper { "triu" } else { "tril" }
            )));
        }
        let (n, m) = (self.shape()[rank - 2], self.shape()[rank - 1]);
        // Further away than the corners makes no difference.
        let diagonal = diagonal.clamp(-(n as i64), m as i64);
        let rows = Tensor::iota(n)?.reshape(&[n as i64, 1])?.add(diagonal)?;
        let kind = if upper { CompareKind::Ge } else { CompareKind::Le };
        let keep = Tensor::compare(kind, &Tensor::iota(m)?, &rows)?;
        let zero = if self.dtype() == DType::Bool { Scalar::Bool(false) } else { Scalar::I64(0) };
        Ok(Tensor::select_by(&keep, self, zero)?.named(if upper { "Triu" } else { "Tril" }))
    }

    /// The diagonal of two axes, as the last axis: a view where the strides of the cell allow it.
    #[track_caller]
    pub fn diagonal(&self, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
        let rank = self.rank();
        let (a, b) = (axis(dim1, rank)?, axis(dim2, rank)?);
        if a == b || rank < 2 {
            return Err(Error::Argument(format!("diagonal dimensions cannot be identical {dim1}, {dim2}")));
        }
        let rest: Vec<i64> = (0..rank).filter(|&x| x != a && x != b).map(|x| x as i64).collect();
        let perm: Vec<i64> = rest.iter().copied().chain([a as i64, b as i64]).collect();
        let moved = self.permute(&perm)?;
        let (n, m) = (moved.shape()[rank - 2] as i64, moved.shape()[rank - 1] as i64);
        let (row, column) = (offset.saturating_neg().max(0), offset.max(0));
        let length = (n - row).min(m - column).max(0);
        let mut flat: Vec<i64> = moved.shape()[..rank - 2].iter().map(|&d| d as i64).collect();
        flat.push(n * m);
        // In row-major order the diagonal lies m + 1 apart.
        let flat = moved.reshape(&flat)?;
        let last = flat.rank() - 1;
        let sizes = flat.shape().shrunk(last, length as usize);
        let mut starts = vec![0; flat.rank()];
        starts[last] = if length > 0 { row * m + column } else { 0 };
        let mut steps = Steps::splat(flat.rank(), 1);
        steps[last] = m + 1;
        Ok(flat.view_slice(sizes, &starts, steps, gt_ir::AxisSet::default())?.named("Diagonal"))
    }
}
