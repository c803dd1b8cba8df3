//! What an edge has been given so far in a backward pass.
//!
//! A gradient that reaches only a part of a tensor (a slice of it, rows that were looked up) is spread out when the sum is
//! asked for, not when it comes: slices that are the whole together become one `concat`, and rows are added to what is
//! there. So `chunk`, `split`, a loop over `x[:, t]` and a weight that is looked up and multiplied cost no zeros.

use gt_ir::ops::{Concat, Put, PutMode, UpdateSlice};
use gt_ir::{AxisSet, Op, Scalar, Steps, TensorType};
use smallvec::SmallVec;

use crate::error::Result;
use crate::tensor::Tensor;

/// The gradients of one tensor, not yet summed.
#[derive(Default)]
pub(super) struct Gathered {
    whole: Option<Tensor>,
    parts: Vec<Part>,
}

/// A gradient of a part of a tensor.
pub(super) enum Part {
    /// Of the elements of one axis from `start` on; the axis is there, also where the slice dropped it.
    Slice { ty: TensorType, axis: usize, start: usize, grad: Tensor },
    /// Of rows, by their positions.
    Rows { ty: TensorType, put: Put, index: Tensor, grad: Tensor },
}

impl Part {
    /// The gradient of a slice along one axis, if it is one: everything of the other axes, and neighbours of this one.
    pub fn of_slice(op: &Op, ty: TensorType, starts: &[Scalar], grad: &Tensor) -> Result<Option<Part>> {
        let Op::Slice(slice) = op else { return Ok(None) };
        let is_whole = |axis: usize| slice.sizes[axis] == ty.shape[axis];
        let mut cut = (0..ty.shape.rank()).filter(|&axis| !is_whole(axis));
        let (Some(axis), None) = (cut.next(), cut.next()) else { return Ok(None) };
        if slice.steps.iter().any(|&step| step != 1) || slice.drop.iter().any(|dropped| dropped != axis) {
            return Ok(None);
        }
        let start = starts[axis].as_i64() as usize;
        let grad = if slice.drop.iter().next().is_some() { grad.unsqueeze(axis as i64)? } else { grad.clone() };
        Ok(Some(Part::Slice { ty, axis, start, grad }))
    }

    /// The gradient of rows that were looked up.
    pub fn of_rows(op: &Op, ty: TensorType, index: Tensor, grad: &Tensor) -> Option<Part> {
        let Op::Take(take) = op else { return None };
        let put = Put { axis: take.axis, mode: PutMode::Add, wrap: take.wrap };
        Some(Part::Rows { ty, put, index, grad: grad.clone() })
    }
}

impl Gathered {
    /// Adds a gradient of the whole tensor.
    pub fn add(&mut self, grad: Tensor) -> Result<()> {
        self.whole = Some(match self.whole.take() {
            Some(have) => have.add(&grad)?,
            None => grad,
        });
        Ok(())
    }

    /// Adds a gradient of a part.
    pub fn add_part(&mut self, part: Part) {
        self.parts.push(part);
    }

    /// The sum of all; none if nothing came.
    pub fn sum(mut self) -> Result<Option<Tensor>> {
        let mut rows = Vec::new();
        let mut slices: Vec<(TensorType, usize, usize, Tensor)> = Vec::new();
        for part in self.parts.drain(..) {
            match part {
                Part::Slice { ty, axis, start, grad } => slices.push((ty, axis, start, grad)),
                Part::Rows { ty, put, index, grad } => rows.push((ty, put, index, grad)),
            }
        }
        // By axis, then by place; those of one place stay in the order in which they came.
        slices.sort_by_key(|&(_, axis, start, _)| (axis, start));
        while let Some(&(ty, axis, _, _)) = slices.first() {
            let layer = take_layer(&mut slices, axis);
            let spread = spread(ty, axis, &layer)?;
            self.add(spread)?;
        }
        for (ty, put, index, grad) in rows {
            let base = match self.whole.take() {
                Some(have) => have,
                None => Tensor::full(&ty.shape, 0.0, Some(ty.dtype))?,
            };
            self.whole = Some(Tensor::apply1(put, &[&base, &index, &grad], &[])?);
        }
        Ok(self.whole)
    }
}

/// Takes slices of one axis that do not overlap out of the list.
fn take_layer(slices: &mut Vec<(TensorType, usize, usize, Tensor)>, wanted: usize) -> Vec<(usize, Tensor)> {
    let mut layer = Vec::new();
    let mut end = 0;
    slices.retain(|(_, axis, start, grad)| {
        let fits = *axis == wanted && *start >= end;
        if fits {
            end = start + grad.shape()[wanted];
            layer.push((*start, grad.clone()));
        }
        !fits
    });
    layer
}

/// Slices that do not overlap, ascending, as a tensor of the whole size.
fn spread(ty: TensorType, axis: usize, slices: &[(usize, Tensor)]) -> Result<Tensor> {
    let covered: usize = slices.iter().map(|(_, grad)| grad.shape()[axis]).sum();
    if covered == ty.shape[axis] {
        let parts: SmallVec<[&Tensor; 4]> = slices.iter().map(|(_, grad)| grad).collect();
        return Tensor::apply1(Concat { axis: axis as u8 }, &parts, &[]);
    }
    let mut whole = Tensor::full(&ty.shape, 0.0, Some(ty.dtype))?;
    let steps: Steps = (0..ty.shape.rank()).map(|_| 1).collect();
    for (start, grad) in slices {
        let starts: SmallVec<[Scalar; 8]> =
            (0..ty.shape.rank()).map(|a| Scalar::I64(if a == axis { *start as i64 } else { 0 })).collect();
        whole = Tensor::apply1(UpdateSlice { steps, drop: AxisSet::of(&[]) }, &[&whole, grad], &starts)?;
    }
    Ok(whole)
}
