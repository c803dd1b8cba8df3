//! Other shapes of the same elements.

use gt_ir::ops::{Concat, Pad, Reshape};
use gt_ir::rows::CompareKind;
use gt_ir::{DType, OpError, Scalar, Shape, Steps};

use super::axes::infer_shape;
use super::{Arg, axis, result_type};
use crate::autograd::{Edge, Node, grad_enabled};
use crate::error::{Error, Result};
use crate::tensor::{History, Tensor};

impl Tensor {
    /// A tensor of its own with the same elements: a new cell, no copy until one of them is written to.
    #[track_caller]
    pub fn alias(&self) -> Result<Tensor> {
        let value = self.value()?;
        let history = if grad_enabled() && self.requires_grad() {
            let op = Reshape { shape: *self.shape() };
            let cell = crate::value::Cell::new(value.clone());
            let ty = self.ty();
            let node =
                Node::for_op(op.into(), &[], &[self], std::slice::from_ref(&value), &[ty], &[(value.clone(), cell)]);
            node.set_label("Clone");
            History::Node(Edge::Node(node, 0), None)
        } else {
            History::None
        };
        Ok(Tensor::from_value(value, history))
    }

    /// A tensor of its own that keeps no more alive than its own elements.
    #[track_caller]
    pub fn copied(&self) -> Result<Tensor> {
        let whole = self.0.cell.read().0.ty().numel();
        if self.numel() * 2 > whole || self.numel() == 0 {
            return self.alias();
        }
        // A small part of something large may share its memory: gathering it anew lets go of the rest.
        let row = if self.rank() == 0 { self.reshape(&[1])? } else { self.clone() };
        let copy = Tensor::apply1(Concat { axis: 0 }, &[&row], &[])?;
        let copy = if self.rank() == 0 { copy.reshape(&[])?.alias()? } else { copy };
        Ok(copy.named("Clone"))
    }

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
            Error::State(format!(
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
            return Err(Error::State("flatten() has invalid args: start_dim cannot come after end_dim".into()));
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
        let extent = self.shape().get(a).copied().unwrap_or(1);
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
            return Err(Error::State(format!(
                "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired \
                 ordering of dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
                self.rank(),
                dims.len()
            )
            .replace("(sparse_coo)", "")));
        }
        let mut perm = Steps::default();
        for &d in dims {
            let a = axis(d, self.rank())? as i64;
            if perm.contains(&a) {
                return Err(Error::State("permute(): duplicate dims are not allowed.".into()));
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
            return Err(Error::State("movedim: Invalid source or destination dims: they differ in number".into()));
        }
        let mut order = vec![usize::MAX; rank];
        let mut used = vec![false; rank];
        for (&f, &t) in from.iter().zip(to) {
            let (f, t) = (axis(f, rank)?, axis(t, rank)?);
            if order[t] != usize::MAX || used[f] {
                return Err(Error::State("movedim: repeated dim in `source` or `destination`".into()));
            }
            order[t] = f;
            used[f] = true;
        }
        let mut rest = (0..rank).filter(|&a| !used[a]);
        let perm: Vec<i64> =
            order.iter().map(|&o| if o == usize::MAX { rest.next().unwrap_or(0) as i64 } else { o as i64 }).collect();
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
            return Err(Error::State(format!(
                "expand({}, size={dims:?}): the number of sizes provided ({}) must be greater or equal to the number of \
                 dimensions in the tensor ({})",
                self.ty(),
                dims.len(),
                self.rank()
            )));
        }
        let lead = dims.len() - self.rank();
        let mut shape = Shape::default();
        for (i, &d) in dims.iter().enumerate() {
            let own = if i >= lead { Some(self.shape()[i - lead]) } else { None };
            let extent = match (d, own) {
                (-1, Some(own)) => own,
                (-1, None) => {
                    return Err(Error::State(format!(
                        "expand({}, size={dims:?}): the expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}",
                        self.ty()
                    )));
                }
                (d, _) if d < 0 => return Err(Error::State(format!("expand: {d} is not an extent"))),
                (d, Some(own)) if own != 1 && own != d as usize => {
                    return Err(OpError::shape(format!(
                        "The expanded size of the tensor ({d}) must match the existing size ({own}) at non-singleton \
                         dimension {i}.  Target sizes: {dims:?}.  Tensor sizes: {}",
                        self.shape()
                    ))
                    .into());
                }
                (d, _) => d as usize,
            };
            if i >= gt_ir::MAX_RANK {
                return Err(OpError::shape(format!("a tensor may have at most {} dimensions", gt_ir::MAX_RANK)).into());
            }
            shape.push(extent);
        }
        self.view_broadcast(shape)
    }

    /// Copies laid out along each axis.
    #[track_caller]
    pub fn repeat(&self, times: &[i64]) -> Result<Tensor> {
        if times.len() < self.rank() {
            return Err(Error::State(
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor".into(),
            ));
        }
        if times.iter().any(|&t| t < 0) {
            return Err(Error::State("Trying to create tensor with negative dimension".into()));
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
            joined[i] *= t;
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
        let a = axis(dim, self.rank())?;
        let mut shape: Vec<i64> = self.shape().iter().map(|&d| d as i64).collect();
        let (before, n, after) = (shape[..a].iter().product::<i64>(), shape[a], shape[a + 1..].iter().product::<i64>());
        let grid = self.reshape(&[before, n, 1, after])?.expand(&[before, n, times as i64, after])?;
        shape[a] *= times as i64;
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

    /// `length` elements from `start` on, along an axis: a view.
    #[track_caller]
    pub fn narrow(&self, dim: i64, start: i64, length: i64) -> Result<Tensor> {
        if self.rank() == 0 {
            return Err(Error::State("narrow() cannot be applied to a 0-dim tensor.".into()));
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
        if length < 0 || start + length > n {
            return Err(Error::State(format!("start ({start}) + length ({length}) exceeds dimension size ({n}).")));
        }
        let mut sizes = *self.shape();
        sizes[a] = length as usize;
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
        let (mut sizes, mut starts) = (*self.shape(), [0; gt_ir::MAX_RANK]);
        (sizes[a], starts[a]) = (1, at);
        let drop = gt_ir::AxisSet::of(&[a]);
        Ok(self.view_slice(sizes, &starts, Steps::splat(self.rank(), 1), drop)?.named("Select"))
    }

    /// Parts of the given sizes along an axis: views.
    #[track_caller]
    pub fn split_sizes(&self, sizes: &[usize], dim: i64) -> Result<Vec<Tensor>> {
        let a = axis(dim, self.rank())?;
        let n = self.shape().get(a).copied().unwrap_or(1);
        if sizes.iter().sum::<usize>() != n {
            return Err(Error::State(format!(
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
            return Err(Error::State(format!(
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
            return Err(Error::State("chunk expects `chunks` to be greater than 0, got: 0".into()));
        }
        let n = self.shape().get(a).copied().unwrap_or(1);
        if n == 0 {
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

    /// Tensors behind one another along an axis.
    #[track_caller]
    pub fn cat(tensors: &[&Tensor], dim: i64) -> Result<Tensor> {
        let Some(first) = tensors.first() else {
            return Err(Error::Value("torch.cat(): expected a non-empty list of Tensors".into()));
        };
        let args: Vec<Arg<'_>> = tensors.iter().map(|&t| t.into()).collect();
        let dtype = result_type(&args);
        // PyTorch lets an empty vector stand beside anything.
        let legacy_empty = |t: &&&Tensor| t.rank() == 1 && t.numel() == 0;
        let shaped = tensors.iter().find(|t| !legacy_empty(t)).unwrap_or(first);
        if shaped.rank() == 0 {
            return Err(Error::State("zero-dimensional tensor (at position 0) cannot be concatenated".into()));
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
            return Err(Error::State("stack expects a non-empty TensorList".into()));
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
        Tensor::apply1(Pad { low: Shape::try_new(low)?, high: Shape::try_new(high)? }, &[self], &[value.into()])
    }

    /// Zero above (or, `upper`, below) a diagonal of the last two axes.
    #[track_caller]
    pub fn triangle(&self, diagonal: i64, upper: bool) -> Result<Tensor> {
        let rank = self.rank();
        if rank < 2 {
            return Err(Error::State(format!(
                "{}: input tensor must have at least 2 dimensions",
                if upper { "triu" } else { "tril" }
            )));
        }
        let (n, m) = (self.shape()[rank - 2], self.shape()[rank - 1]);
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
            return Err(Error::State(format!("diagonal dimensions cannot be identical {dim1}, {dim2}")));
        }
        let rest: Vec<i64> = (0..rank).filter(|&x| x != a && x != b).map(|x| x as i64).collect();
        let perm: Vec<i64> = rest.iter().copied().chain([a as i64, b as i64]).collect();
        let moved = self.permute(&perm)?;
        let (n, m) = (moved.shape()[rank - 2] as i64, moved.shape()[rank - 1] as i64);
        let (row, column) = ((-offset).max(0), offset.max(0));
        let length = (n - row).min(m - column).max(0);
        let mut flat: Vec<i64> = moved.shape()[..rank - 2].iter().map(|&d| d as i64).collect();
        flat.push(n * m);
        // In row-major order the diagonal lies m + 1 apart.
        let flat = moved.reshape(&flat)?;
        let last = flat.rank() - 1;
        let mut sizes = *flat.shape();
        sizes[last] = length as usize;
        let mut starts = vec![0; flat.rank()];
        starts[last] = if length > 0 { row * m + column } else { 0 };
        let mut steps = Steps::splat(flat.rank(), 1);
        steps[last] = m + 1;
        Ok(flat.view_slice(sizes, &starts, steps, gt_ir::AxisSet::default())?.named("Diagonal"))
    }
}
