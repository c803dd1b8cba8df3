//! Other shapes of the same elements: views where strides allow it.

use gt_ir::ops::Reshape;
use gt_ir::{OpError, Shape, Steps};

use super::axes::infer_shape;
use super::axis;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

impl Tensor {
    /// The same elements in another shape: a view where strides allow it, else a copy. One extent may be -1.
    #[track_caller]
    pub fn reshape(&self, dims: &[i64]) -> Result<Tensor> {
        let shape = infer_shape(dims, self.numel())?;
        match self.view_reshape(shape)? {
            Some(view) => Ok(view),
            None => Tensor::apply1(Reshape { shape }, &[self], &[]),
        }
    }

    /// The same elements in another shape, always a view.
    #[track_caller]
    pub fn view(&self, dims: &[i64]) -> Result<Tensor> {
        let shape = infer_shape(dims, self.numel())?;
        self.view_reshape(shape)?.ok_or_else(|| {
            Error::Argument(format!(
                "view size is not compatible with input tensor's size and stride (at least one dimension spans across two \
                 contiguous subspaces: size {}, stride {}). Use .reshape(...) instead.",
                self.shape(),
                self.strides()
            ))
        })
    }

    /// Axes `start..=end` joined into one.
    #[track_caller]
    pub fn flatten(&self, start: i64, end: i64) -> Result<Tensor> {
        let (s, e) = (axis(start, self.rank())?, axis(end, self.rank())?);
        if self.rank() == 0 {
            return self.reshape(&[1]);
        }
        if s > e {
            return Err(Error::Argument("flatten() has invalid args: start_dim cannot come after end_dim".into()));
        }
        if s == e {
            return Ok(self.clone());
        }
        let shape = self.shape();
        let joined: usize = shape[s..=e].iter().product();
        let dims: Vec<i64> = shape[..s].iter().chain([&joined]).chain(&shape[e + 1..]).map(|&d| d as i64).collect();
        self.reshape(&dims)
    }

    /// An axis split into several; one extent may be -1.
    #[track_caller]
    pub fn unflatten(&self, dim: i64, sizes: &[i64]) -> Result<Tensor> {
        let a = axis(dim, self.rank())?;
        if self.rank() == 0 {
            return Err(Error::Argument(format!("unflatten: dim {dim} was given, but the tensor has no dimensions")));
        }
        let extent = self.shape()[a];
        let split = infer_shape(sizes, extent).map_err(|_| {
            OpError::shape(format!("unflatten: Provided sizes {sizes:?} don't multiply up to the size of dim {a} ({extent}) in the input tensor"))
        })?;
        let dims: Vec<i64> =
            self.shape()[..a].iter().chain(split.iter()).chain(&self.shape()[a + 1..]).map(|&d| d as i64).collect();
        self.view(&dims)
    }

    /// Axis `i` of the result is axis `dims[i]`.
    #[track_caller]
    pub fn permute(&self, dims: &[i64]) -> Result<Tensor> {
        if dims.len() != self.rank() {
            return Err(Error::Argument(format!(
                "permute: number of dimensions in the tensor input does not match the length of the desired ordering of \
                 dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
                self.rank(),
                dims.len()
            )));
        }
        let mut perm = Steps::default();
        for &d in dims {
            let a = axis(d, self.rank())? as i64;
            if perm.contains(&a) {
                return Err(Error::Argument("permute(): duplicate dims are not allowed.".into()));
            }
            perm.push(a);
        }
        self.view_permute(perm)
    }

    /// Two axes swapped.
    #[track_caller]
    pub fn transpose(&self, a: i64, b: i64) -> Result<Tensor> {
        let (a, b) = (axis(a, self.rank())?, axis(b, self.rank())?);
        let mut perm: Steps = (0..self.rank() as i64).collect();
        if self.rank() > 0 {
            perm.swap(a, b);
        }
        Ok(self.view_permute(perm)?.named("Transpose"))
    }

    /// Axes moved to other places, the rest in order.
    #[track_caller]
    pub fn movedim(&self, from: &[i64], to: &[i64]) -> Result<Tensor> {
        let rank = self.rank();
        if from.len() != to.len() {
            return Err(Error::Argument("movedim: Invalid source or destination dims: they differ in number".into()));
        }
        // A 0-d tensor takes an axis and has none.
        let mut order = vec![usize::MAX; rank.max(1)];
        let mut used = vec![false; rank.max(1)];
        for (&f, &t) in from.iter().zip(to) {
            let (f, t) = (axis(f, rank)?, axis(t, rank)?);
            if order[t] != usize::MAX || used[f] {
                return Err(Error::Argument("movedim: repeated dim in `source` or `destination`".into()));
            }
            order[t] = f;
            used[f] = true;
        }
        let mut rest = (0..rank).filter(|&a| !used[a]);
        let perm: Vec<i64> = order[..rank]
            .iter()
            .map(|&o| if o == usize::MAX { rest.next().unwrap_or(0) as i64 } else { o as i64 })
            .collect();
        self.permute(&perm)
    }

    /// Without axes of extent 1: all of them, or those named.
    #[track_caller]
    pub fn squeeze(&self, dims: &[i64]) -> Result<Tensor> {
        let named = super::axis_set(dims, self.rank())?;
        let shape: Vec<i64> = self
            .shape()
            .iter()
            .enumerate()
            .filter(|&(a, &d)| d != 1 || !named.contains(a))
            .map(|(_, &d)| d as i64)
            .collect();
        Ok(self.reshape(&shape)?.named("Squeeze"))
    }

    /// With an axis of extent 1 added.
    #[track_caller]
    pub fn unsqueeze(&self, dim: i64) -> Result<Tensor> {
        let a = axis(dim, self.rank() + 1)?;
        let mut shape: Vec<i64> = self.shape().iter().map(|&d| d as i64).collect();
        shape.insert(a, 1);
        Ok(self.reshape(&shape)?.named("Unsqueeze"))
    }

    /// Repeated along axes of extent 1 without copying; -1 keeps an extent.
    #[track_caller]
    pub fn expand(&self, dims: &[i64]) -> Result<Tensor> {
        if dims.len() < self.rank() {
            return Err(Error::Argument(format!(
                "expand({}, size={dims:?}): the number of sizes provided ({}) must be greater or equal to the number of \
                 dimensions in the tensor ({})",
                self.ty(),
                dims.len(),
                self.rank()
            )));
        }
        let lead = dims.len() - self.rank();
        let mut extents = Vec::with_capacity(dims.len());
        for (i, &d) in dims.iter().enumerate() {
            let own = if i >= lead { Some(self.shape()[i - lead]) } else { None };
            let extent = match (d, own) {
                (-1, Some(own)) => own,
                (-1, None) => {
                    return Err(Error::Argument(format!(
                        "expand({}, size={dims:?}): the expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}",
                        self.ty()
                    )));
                }
                (d, _) if d < 0 => return Err(Error::Argument(format!("expand: {d} is not a valid size"))),
                (d, Some(own)) if own != 1 && own != d as usize => {
                    return Err(OpError::shape(format!(
                        "The expanded size of the tensor ({d}) must match the existing size ({own}) at non-singleton \
                         dimension {i}. Target sizes: {dims:?}. Tensor sizes: {}",
                        self.shape()
                    ))
                    .into());
                }
                (d, _) => d as usize,
            };
            extents.push(extent);
        }
        self.view_broadcast(Shape::try_new(&extents)?)
    }
}
