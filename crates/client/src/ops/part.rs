//! Parts of a tensor along one axis: views.

use gt_ir::{OpError, Steps};

use super::axis;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// There are as many parts of nothing as asked for: more than this is a slip of the hand, and would fill the memory.
const MOST_EMPTY_CHUNKS: usize = 1 << 20;

impl Tensor {
    /// `length` elements from `start` on, along an axis: a view.
    #[track_caller]
    pub fn narrow(&self, dim: i64, start: i64, length: i64) -> Result<Tensor> {
        if self.rank() == 0 {
            return Err(Error::Argument("narrow() cannot be applied to a 0-dim tensor.".into()));
        }
        let a = axis(dim, self.rank())?;
        let n = self.shape()[a] as i64;
        if start < -n || start > n {
            return Err(OpError::index(format!(
                "Dimension out of range (expected to be in range of [{}, {n}], but got {start})",
                -n
            ))
            .into());
        }
        let start = if start < 0 { start + n } else { start };
        if length < 0 || length > n - start {
            return Err(Error::Argument(format!("start ({start}) + length ({length}) exceeds dimension size ({n}).")));
        }
        let sizes = self.shape().shrunk(a, length as usize);
        let mut starts = vec![0; self.rank()];
        starts[a] = start;
        self.view_slice(sizes, &starts, Steps::splat(self.rank(), 1), gt_ir::AxisSet::default())
    }

    /// One position along an axis, which goes: a view.
    #[track_caller]
    pub fn select(&self, dim: i64, index: i64) -> Result<Tensor> {
        if self.rank() == 0 {
            return Err(OpError::index("select() cannot be applied to a 0-dim tensor.").into());
        }
        let a = axis(dim, self.rank())?;
        let n = self.shape()[a] as i64;
        if index < -n || index >= n {
            return Err(OpError::index(format!(
                "select(): index {index} out of range for tensor of size {} at dimension {a}",
                self.shape()
            ))
            .into());
        }
        self.select_at(a, index.rem_euclid(n))
    }

    /// [`Tensor::select`] of a position that is there.
    #[track_caller]
    pub(crate) fn select_at(&self, a: usize, at: i64) -> Result<Tensor> {
        let (sizes, mut starts) = (self.shape().shrunk(a, 1), [0; gt_ir::MAX_RANK]);
        starts[a] = at;
        let drop = gt_ir::AxisSet::of(&[a]);
        Ok(self.view_slice(sizes, &starts, Steps::splat(self.rank(), 1), drop)?.named("Select"))
    }

    /// Parts of the given sizes along an axis: views.
    #[track_caller]
    pub fn split_sizes(&self, sizes: &[usize], dim: i64) -> Result<Vec<Tensor>> {
        let a = axis(dim, self.rank())?;
        let n = self.shape().get(a).copied().unwrap_or(1);
        if sizes.iter().sum::<usize>() != n {
            return Err(Error::Argument(format!(
                "split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {a}), but got \
                 split_sizes={sizes:?}"
            )));
        }
        let mut start = 0i64;
        sizes
            .iter()
            .map(|&s| {
                let part = self.narrow(a as i64, start, s as i64)?;
                start += s as i64;
                Ok(part.named("Split"))
            })
            .collect()
    }

    /// Parts of `size` along an axis, the last one smaller: views.
    #[track_caller]
    pub fn split(&self, size: usize, dim: i64) -> Result<Vec<Tensor>> {
        let a = axis(dim, self.rank())?;
        let n = self.shape().get(a).copied().unwrap_or(1);
        if size == 0 && n > 0 {
            return Err(Error::Argument(format!(
                "split expects split_size be non-zero, but got split_size=0 for a dimension of {n}"
            )));
        }
        if n == 0 {
            return self.split_sizes(&[0], dim);
        }
        let sizes: Vec<usize> = (0..n).step_by(size).map(|s| size.min(n - s)).collect();
        self.split_sizes(&sizes, dim)
    }

    /// At most `chunks` equal parts along an axis: views.
    #[track_caller]
    pub fn chunk(&self, chunks: usize, dim: i64) -> Result<Vec<Tensor>> {
        let a = axis(dim, self.rank())?;
        if chunks == 0 {
            return Err(Error::Argument("chunk expects `chunks` to be greater than 0, got: 0".into()));
        }
        let n = self.shape().get(a).copied().unwrap_or(1);
        if n == 0 {
            if chunks > MOST_EMPTY_CHUNKS {
                return Err(Error::Argument(format!(
                    "chunk: an empty dimension can be cut into at most {MOST_EMPTY_CHUNKS} parts, got {chunks}"
                )));
            }
            return self.split_sizes(&vec![0; chunks], dim);
        }
        self.split(n.div_ceil(chunks), dim)
    }

    /// All positions along an axis, one by one: views.
    #[track_caller]
    pub fn unbind(&self, dim: i64) -> Result<Vec<Tensor>> {
        let a = axis(dim, self.rank())?;
        if self.rank() == 0 {
            return Err(OpError::index("Dimension specified as 0 but tensor has no dimensions").into());
        }
        (0..self.shape()[a] as i64).map(|i| Ok(self.select(a as i64, i)?.named("Unbind"))).collect()
    }
}
