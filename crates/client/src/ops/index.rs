//! `x[…]` and `x[…] = v`.
//!
//! Ints, slices, `None` and `...` make a view. Integer tensors then pick from it, all at once, as NumPy does: the axes they
//! index are joined into one and read by `take`. A bool tensor is turned into positions, which waits for their number;
//! writing through a mask does not wait.

use gt_ir::ops::{Complaint, Put, PutMode, Take};
use gt_ir::rows::{BinaryKind, CompareKind};
use gt_ir::{AxisSet, DType, OpError, Shape, Steps, TensorType};

use super::pick::written_at;
use super::{Arg, check_fits};
use crate::autograd::no_grad;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// One entry between the brackets.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Index {
    Int(i64),
    Slice {
        start: Option<i64>,
        stop: Option<i64>,
        step: i64,
    },
    Ellipsis,
    NewAxis,
    /// Integers, or bools as a mask.
    Tensor(Tensor),
    /// A bare `True` or `False`: a new axis of extent 1 or 0.
    Bool(bool),
}

/// A tensor that picks along one axis of the view.
#[derive(Clone)]
struct Pick {
    axis: usize,
    index: Tensor,
}

impl Pick {
    /// Whether it picks by one number, which need not be known yet.
    fn is_single(&self) -> bool {
        self.index.rank() == 0
    }
}

/// First position, length and step of a Python slice.
fn slice_bounds(start: Option<i64>, stop: Option<i64>, step: i64, n: i64) -> (i64, i64) {
    let wrap = |i: i64| if i < 0 { i + n } else { i };
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let first = start.map_or(if step > 0 { 0 } else { n - 1 }, |s| wrap(s).clamp(low, high));
    let end = stop.map_or(if step > 0 { n } else { -1 }, |s| wrap(s).clamp(low, high));
    let length = if step > 0 { (end - first + step - 1) / step } else { (first - end - step - 1) / -step };
    (first, length.max(0))
}

impl Tensor {
    /// The axes an index list covers.
    #[track_caller]
    fn covered(index: &[Index]) -> usize {
        index
            .iter()
            .map(|i| match i {
                Index::Int(_) | Index::Slice { .. } => 1,
                Index::Ellipsis | Index::NewAxis | Index::Bool(_) => 0,
                Index::Tensor(t) if t.dtype() == DType::Bool || t.dtype() == DType::U8 => t.rank(),
                Index::Tensor(_) => 1,
            })
            .sum()
    }

    /// The view that the plain entries make, and what the tensors pick from it. Masks stay masks, on their first axis.
    #[track_caller]
    fn basic(&self, index: &[Index]) -> Result<(Tensor, Vec<Pick>)> {
        let covered = Tensor::covered(index);
        if covered > self.rank() {
            return Err(OpError::index(format!("too many indices for tensor of dimension {}", self.rank())).into());
        }
        if index.iter().filter(|i| matches!(i, Index::Ellipsis)).count() > 1 {
            return Err(OpError::index("an index can only have a single ellipsis ('...')").into());
        }
        let (rank, shape) = (self.rank(), *self.shape());
        let (mut sizes, mut starts, mut steps) = (shape, vec![0i64; rank], Steps::splat(rank, 1));
        let mut dims: Vec<i64> = Vec::new();
        let mut picks = Vec::new();
        let mut axis = 0;
        let mut selected = AxisSet::default();
        let mut fill = rank - covered;
        let keep = |dims: &mut Vec<i64>, axis: &mut usize, n: usize| {
            for _ in 0..n {
                dims.push(shape[*axis] as i64);
                *axis += 1;
            }
        };
        for entry in index {
            match entry {
                Index::Int(i) => {
                    let n = shape[axis] as i64;
                    if *i < -n || *i >= n {
                        return Err(OpError::index(format!(
                            "index {i} is out of bounds for dimension {axis} with size {n}"
                        ))
                        .into());
                    }
                    (starts[axis], sizes) = (i.rem_euclid(n.max(1)), sizes.shrunk(axis, 1));
                    selected.0 |= 1 << axis;
                    axis += 1;
                }
                Index::Slice { start, stop, step } => {
                    if *step == 0 {
                        return Err(Error::Value("slice step cannot be zero".into()));
                    }
                    let (first, length) = slice_bounds(*start, *stop, *step, shape[axis] as i64);
                    sizes = sizes.shrunk(axis, length as usize);
                    starts[axis] = if length == 0 { 0 } else { first };
                    steps[axis] = if length <= 1 { step.signum() } else { *step };
                    dims.push(length);
                    axis += 1;
                }
                Index::Ellipsis => keep(&mut dims, &mut axis, std::mem::take(&mut fill)),
                Index::NewAxis => dims.push(1),
                Index::Bool(on) => {
                    let mask = Tensor::full(&[1], *on, Some(DType::Bool))?;
                    picks.push(Pick { axis: dims.len(), index: mask });
                    dims.push(1);
                }
                Index::Tensor(t) if matches!(t.dtype(), DType::Bool | DType::U8) => {
                    for a in 0..t.rank() {
                        if t.shape()[a] != shape[axis + a] {
                            return Err(OpError::index(format!(
                                "The shape of the mask {} at index {a} does not match the shape of the indexed tensor {shape} at index {}",
                                t.shape(),
                                axis + a
                            ))
                            .into());
                        }
                    }
                    let mask = t.to_dtype(DType::Bool)?;
                    if mask.rank() == 0 {
                        picks.push(Pick { axis: dims.len(), index: mask.reshape(&[1])? });
                        dims.push(1);
                    } else {
                        picks.push(Pick { axis: dims.len(), index: mask });
                        keep(&mut dims, &mut axis, t.rank());
                    }
                }
                Index::Tensor(t) => {
                    if !matches!(t.dtype(), DType::I64 | DType::I32) {
                        return Err(
                            OpError::index("tensors used as indices must be long, int, byte or bool tensors").into()
                        );
                    }
                    picks.push(Pick { axis: dims.len(), index: t.to_dtype(DType::I64)? });
                    keep(&mut dims, &mut axis, 1);
                }
            }
        }
        let left = rank - axis;
        keep(&mut dims, &mut axis, left);
        let mut view = self.clone();
        if sizes != shape || !selected.is_empty() || steps.iter().any(|&s| s != 1) {
            view = view.view_slice(sizes, &starts, steps, selected)?;
        }
        if !view.shape().iter().map(|&d| d as i64).eq(dims.iter().copied()) {
            let shape: Vec<usize> = dims.iter().map(|&d| d as usize).collect();
            view =
                view.view_reshape(Shape::try_new(&shape)?)?.ok_or_else(|| Error::internal("indexing lost a view"))?;
        } else if view.is(self) && picks.is_empty() {
            // `x[...]` is a view of its own.
            view = view.view_reshape(*self.shape())?.unwrap_or(view);
        }
        if !selected.is_empty() {
            view = view.named("Select");
        }
        Ok((view, picks))
    }

    /// Masks become positions; everything is broadcast to one shape.
    #[track_caller]
    fn resolve(picks: Vec<Pick>) -> Result<Vec<Pick>> {
        let mut out: Vec<Pick> = Vec::new();
        for pick in picks {
            if pick.index.dtype() == DType::Bool {
                for (i, positions) in pick.index.nonzero_tuple()?.into_iter().enumerate() {
                    out.push(Pick { axis: pick.axis + i, index: positions });
                }
            } else {
                out.push(pick);
            }
        }
        let shapes: Vec<Shape> = out.iter().map(|p| *p.index.shape()).collect();
        let mut shape = Shape::default();
        for s in &shapes {
            shape = gt_ir::broadcast(&shape, s).ok_or_else(|| {
                let all: Vec<String> = shapes.iter().map(|s| s.to_string()).collect();
                OpError::index(format!(
                    "shape mismatch: indexing tensors could not be broadcast together with shapes {}",
                    all.join(", ")
                ))
            })?;
        }
        let dims: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
        for pick in out.iter_mut().filter(|p| *p.index.shape() != shape) {
            pick.index = pick.index.expand(&dims)?;
        }
        Ok(out)
    }

    /// Brings the picked axes together and joins them: (joined tensor, joined axis, linear index, the permutation used).
    #[track_caller]
    fn joined(view: &Tensor, picks: &[Pick]) -> Result<(Tensor, usize, Tensor, Option<Steps>)> {
        let rank = view.rank();
        let axes: Vec<usize> = picks.iter().map(|p| p.axis).collect();
        let adjacent = axes.windows(2).all(|w| w[1] == w[0] + 1);
        let (moved, at, perm) = if adjacent {
            (view.clone(), axes[0], None)
        } else {
            // NumPy's rule: picked axes apart from each other put the result in front.
            let perm: Steps =
                axes.iter().copied().chain((0..rank).filter(|a| !axes.contains(a))).map(|a| a as i64).collect();
            (view.view_permute(perm)?, 0, Some(perm))
        };
        let extents = &moved.shape()[at..at + axes.len()];
        let mut linear: Option<Tensor> = None;
        for (pick, &n) in picks.iter().zip(extents) {
            // Read through a ruler of the axis, an index is wrapped, and named if out of range, before it is mixed with others.
            let checked = if picks.len() > 1 {
                Tensor::apply1(Take { axis: 0, wrap: true }, &[&Tensor::iota(n)?, &pick.index], &[])?
            } else {
                pick.index.clone()
            };
            linear = Some(match linear {
                None => checked,
                Some(l) => l.mul(n as i64)?.add(&checked)?,
            });
        }
        let linear = linear.ok_or_else(|| Error::internal("an index list has no tensors"))?;
        if picks.len() == 1 {
            return Ok((moved, at, linear, perm));
        }
        let joined_extent: usize = extents.iter().product();
        let dims: Vec<i64> = moved.shape()[..at]
            .iter()
            .chain([&joined_extent])
            .chain(&moved.shape()[at + axes.len()..])
            .map(|&d| d as i64)
            .collect();
        Ok((moved.reshape(&dims)?, at, linear, perm))
    }

    /// Picks by a single number beside picks by lists: they select like numbers, before the others, and so do not count
    /// where it matters whether the lists stand side by side.
    #[track_caller]
    fn singles_first(self, picks: Vec<Pick>) -> Result<(Tensor, Vec<Pick>)> {
        let singles = picks.iter().filter(|pick| pick.is_single()).count();
        if singles == 0 || singles == picks.len() {
            return Ok((self, picks));
        }
        let mut view = self;
        let mut rest = Vec::with_capacity(picks.len() - singles);
        let mut gone = 0;
        for Pick { axis, index } in picks {
            let pick = Pick { axis: axis - gone, index };
            if pick.is_single() {
                view = Tensor::apply1(Take { axis: pick.axis as u8, wrap: true }, &[&view, &pick.index], &[])?;
                gone += 1;
            } else {
                rest.push(pick);
            }
        }
        Ok((view, rest))
    }

    /// `x[index]`.
    #[track_caller]
    pub fn index(&self, index: &[Index]) -> Result<Tensor> {
        // By far the most common: one position, or rows by number.
        match index {
            [Index::Int(i)] if self.rank() > 0 => {
                let n = self.shape()[0] as i64;
                if (-n..n).contains(i) {
                    return self.select_at(0, if *i < 0 { i + n } else { *i });
                }
            }
            [Index::Tensor(rows)] if self.rank() > 0 && rows.dtype() == DType::I64 => {
                let take = Take { axis: 0, wrap: true };
                // Rows by a list of numbers: the type is known.
                if rows.rank() == 1 {
                    let ty = TensorType { dtype: self.dtype(), shape: self.shape().with_extent(0, rows.numel())? };
                    return Tensor::apply_known(take.into(), [self, rows], &[], &ty);
                }
                return Tensor::apply1(take, &[self, rows], &[]);
            }
            _ => {}
        }
        let (view, picks) = self.basic(index)?;
        if picks.is_empty() {
            return Ok(view);
        }
        let (view, picks) = view.singles_first(picks)?;
        let picks = no_grad(|| Tensor::resolve(picks))?;
        let (flat, at, linear, _) = Tensor::joined(&view, &picks)?;
        Tensor::apply1(Take { axis: at as u8, wrap: true }, &[&flat, &linear], &[])
    }

    /// `x[index] = value`, with broadcasting.
    #[track_caller]
    pub fn set_index<'a>(&'a self, index: &[Index], value: impl Into<Arg<'a>>) -> Result<()> {
        let (view, picks) = self.basic(index)?;
        let value = match value.into() {
            Arg::Tensor(t) => {
                // Slices take any dtype, and so do single elements and a mask that is filled with one number.
                let filled = matches!(&picks[..], [only] if only.index.dtype() == DType::Bool) && t.numel() == 1;
                if t.dtype() != self.dtype() && !filled && picks.iter().any(|pick| pick.index.rank() > 0) {
                    return Err(OpError::dtype(format!(
                        "Index put requires the source and destination dtypes match, got {} for the destination and {} \
                         for the source.",
                        self.dtype().long_name(),
                        t.dtype().long_name()
                    ))
                    .into());
                }
                t.to_dtype(self.dtype())?
            }
            Arg::Number(n) if picks.is_empty() => return view.fill_(n),
            Arg::Number(n) => {
                check_fits(n, self.dtype())?;
                Tensor::full(&[], n, Some(self.dtype()))?
            }
        };
        view.set_picked(picks, &value)
    }

    #[track_caller]
    fn set_picked(&self, picks: Vec<Pick>, value: &Tensor) -> Result<()> {
        match &picks[..] {
            [] => self.assign(&self.replaced_by(value.expand_for_write(self.shape())?)?),
            [only] if only.index.dtype() == DType::Bool => self.set_masked(only, value),
            _ => {
                let singles: Vec<Pick> = picks.iter().filter(|pick| pick.is_single()).cloned().collect();
                if !singles.is_empty() && singles.len() < picks.len() {
                    // A copy of what the numbers select is written to, and put back as a whole.
                    let (part, rest) = self.clone().singles_first(picks)?;
                    part.set_picked(rest, value)?;
                    return self.set_picked(singles, &part);
                }
                let picks = no_grad(|| Tensor::resolve(picks))?;
                self.put_at(&picks, value, PutMode::Set)
            }
        }
    }

    /// Adds to (or replaces) the elements integer tensors pick, one tensor per leading axis.
    #[track_caller]
    pub fn index_put(&self, indices: &[Tensor], value: &Tensor, accumulate: bool) -> Result<Tensor> {
        let index: Vec<Index> = indices.iter().cloned().map(Index::Tensor).collect();
        let (view, picks) = self.basic(&index)?;
        let picks = no_grad(|| Tensor::resolve(picks))?;
        let mode = if accumulate { PutMode::Add } else { PutMode::Set };
        view.put_value(&picks, &value.to_dtype(self.dtype())?, mode)
    }

    #[track_caller]
    fn put_value(&self, picks: &[Pick], value: &Tensor, mode: PutMode) -> Result<Tensor> {
        let (flat, at, linear, perm) = Tensor::joined(self, picks)?;
        let wanted: Vec<usize> =
            flat.shape()[..at].iter().chain(linear.shape().iter()).chain(&flat.shape()[at + 1..]).copied().collect();
        let src = value.expand_for_write(&Shape::try_new(&wanted)?)?;
        let put = written_at(Put { axis: at as u8, mode, wrap: true }, mode, &flat, &linear, &src)?;
        let own = *self.shape();
        match perm {
            None if *put.shape() == own => Ok(put),
            None => put.reshape(&own.iter().map(|&d| d as i64).collect::<Vec<_>>()),
            Some(perm) => {
                let moved: Vec<i64> = perm.iter().map(|&p| own[p as usize] as i64).collect();
                let back: Vec<i64> = gt_ir::ops::inverse_permutation(&perm).iter().copied().collect();
                put.reshape(&moved)?.permute(&back)
            }
        }
    }

    #[track_caller]
    fn put_at(&self, picks: &[Pick], value: &Tensor, mode: PutMode) -> Result<()> {
        let new = self.put_value(picks, value, mode)?;
        self.assign(&new)
    }

    /// A write through one mask, without waiting for the number of its elements.
    #[track_caller]
    fn set_masked(&self, pick: &Pick, value: &Tensor) -> Result<()> {
        let mask = &pick.index;
        let (at, end) = (pick.axis, pick.axis + mask.rank());
        let mut wide = vec![1i64; self.rank()];
        wide[at..end].iter_mut().zip(mask.shape().iter()).for_each(|(w, &d)| *w = d as i64);
        let spread = mask.reshape(&wide)?;
        // What is written has the mask's axes as one, of unknown length; where that axis is absent or 1 it is the same for all.
        let tail = self.rank() - end;
        let one_for_all = value.rank() <= tail || value.shape()[value.rank() - tail - 1] == 1;
        let new = if one_for_all {
            // Give the joined axis its extent-1 axes back.
            let mut dims: Vec<i64> = value.shape().iter().map(|&d| d as i64).collect();
            if value.rank() > tail {
                let joined = value.rank() - tail - 1;
                dims.splice(joined..joined + 1, std::iter::repeat_n(1, mask.rank()));
            }
            Tensor::select_by(&spread, &value.reshape(&dims)?, self)?
        } else {
            // The k-th true element takes row k.
            let axis_of_value = value.rank() - tail - 1;
            // No rows for no true elements: one to read in vain, before those that count.
            let spare = (value.shape()[axis_of_value] == 0) as i64;
            let mut low = vec![0; value.rank()];
            low[axis_of_value] = spare as usize;
            let padded = if spare == 0 { value.clone() } else { value.pad(&low, &vec![0; value.rank()], 0.0)? };
            let order = no_grad(|| -> Result<Tensor> {
                let running = mask.reshape(&[-1])?.scan(gt_ir::ops::ScanKind::Sum, 0, None)?.sub(1 - spare)?;
                let unused = Tensor::compare(CompareKind::Lt, &running, 0i64)?;
                let flat_mask = mask.reshape(&[-1])?;
                // Elements beyond the last row read that one: what is wrong then is said by the check.
                let last = (padded.shape()[axis_of_value] - 1) as i64;
                let index = Tensor::select_by(&unused, 0i64, &running)?;
                let index = Tensor::binary(BinaryKind::Min, &index, last)?;
                // Rows are read for true elements only; false ones read row 0.
                let index = Tensor::select_by(&flat_mask, &index, 0i64)?
                    .reshape(&mask.shape().iter().map(|&d| d as i64).collect::<Vec<_>>())?;
                let taken = mask.sum(&[], false, None)?;
                let rows = value.shape()[axis_of_value] as i64;
                index.checked(&Tensor::compare(CompareKind::Ne, &taken, rows)?, Complaint::Rows)
            })?;
            let rows = Tensor::apply1(Take { axis: axis_of_value as u8, wrap: false }, &[&padded, &order], &[])?;
            Tensor::select_by(&spread, &rows, self)?
        };
        self.assign(&new.expand_for_write(self.shape())?)
    }

    /// The tensor broadcast to what a write needs; leading axes of extent 1 may go, as in PyTorch.
    #[track_caller]
    pub(crate) fn expand_for_write(&self, shape: &Shape) -> Result<Tensor> {
        if self.shape() == shape {
            return Ok(self.clone());
        }
        let mut from = *self.shape();
        while from.rank() > shape.rank() && from[0] == 1 {
            from = from.without(0);
        }
        if gt_ir::broadcast(&from, shape) != Some(*shape) {
            return Err(OpError::shape(format!(
                "shape mismatch: value tensor of shape {} cannot be broadcast to indexing result of shape {shape}",
                self.shape()
            ))
            .into());
        }
        let dims = |s: &Shape| s.iter().map(|&d| d as i64).collect::<Vec<_>>();
        self.reshape(&dims(&from))?.expand(&dims(shape))
    }
}
