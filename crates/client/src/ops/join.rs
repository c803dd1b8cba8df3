//! Tensors put together, and what is put around one.

use gt_ir::ops::{Concat, Pad, Reshape};
use gt_ir::{Counts, OpError, Scalar};

use super::axes::infer_shape;
use super::{Arg, axis, result_type};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

impl Tensor {
    /// Tensors behind one another along an axis.
    #[track_caller]
    pub fn cat(tensors: &[&Tensor], dim: i64) -> Result<Tensor> {
        let Some(first) = tensors.first() else {
            return Err(Error::Value("cat(): expected a non-empty list of Tensors".into()));
        };
        let args: Vec<Arg<'_>> = tensors.iter().map(|&t| t.into()).collect();
        let dtype = result_type(&args);
        // PyTorch lets an empty vector stand beside anything.
        let legacy_empty = |t: &&&Tensor| t.rank() == 1 && t.numel() == 0;
        let shaped = tensors.iter().find(|t| !legacy_empty(t)).unwrap_or(first);
        if shaped.rank() == 0 {
            return Err(Error::Argument("zero-dimensional tensor (at position 0) cannot be concatenated".into()));
        }
        let a = axis(dim, shaped.rank())?;
        let cast: Vec<Tensor> = tensors
            .iter()
            .filter(|t| shaped.rank() == 1 || !legacy_empty(t))
            .map(|t| t.to_dtype(dtype))
            .collect::<Result<_>>()?;
        if let [only] = &cast[..] {
            return only.alias();
        }
        if let Some(odd) = cast.iter().find(|t| t.rank() != shaped.rank()) {
            return Err(OpError::shape(format!(
                "Tensors must have same number of dimensions: got {} and {} (shapes {} and {})",
                shaped.rank(),
                odd.rank(),
                shaped.shape(),
                odd.shape()
            ))
            .into());
        }
        let refs: Vec<&Tensor> = cast.iter().collect();
        Tensor::apply1(Concat { axis: a as u8 }, &refs, &[])
    }

    /// Tensors of one shape beside one another along a new axis.
    #[track_caller]
    pub fn stack(tensors: &[&Tensor], dim: i64) -> Result<Tensor> {
        let Some(first) = tensors.first() else {
            return Err(Error::Argument("stack expects a non-empty TensorList".into()));
        };
        if let Some((i, odd)) = tensors.iter().enumerate().find(|(_, t)| t.shape() != first.shape()) {
            return Err(OpError::shape(format!(
                "stack expects each tensor to be equal size, but got {} at entry 0 and {} at entry {i}",
                first.shape(),
                odd.shape()
            ))
            .into());
        }
        let a = axis(dim, first.rank() + 1)? as i64;
        if (a as usize) < first.rank() && first.numel() > 0 {
            // Behind one another along the axis after the new one; the joined axis is then cut in two.
            let mut dims: Vec<i64> = first.shape().iter().map(|&d| d as i64).collect();
            dims.insert(a as usize, tensors.len() as i64);
            let joined = Tensor::cat(tensors, a)?;
            return Ok(
                Tensor::apply1(Reshape { shape: infer_shape(&dims, joined.numel())? }, &[&joined], &[])?.named("Stack")
            );
        }
        let wide: Vec<Tensor> = tensors.iter().map(|t| t.unsqueeze(a)).collect::<Result<_>>()?;
        let refs: Vec<&Tensor> = wide.iter().collect();
        Ok(Tensor::cat(&refs, a)?.named("Stack"))
    }

    /// The number around the tensor; `low` and `high` per axis.
    #[track_caller]
    pub fn pad(&self, low: &[usize], high: &[usize], value: impl Into<Scalar>) -> Result<Tensor> {
        Tensor::apply1(Pad { low: Counts::try_new(low)?, high: Counts::try_new(high)? }, &[self], &[value.into()])
    }
}
