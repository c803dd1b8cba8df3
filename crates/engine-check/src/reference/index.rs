//! Reading and writing at positions given by a tensor. Every index is checked before anything is written.

use gt_ir::ops::{Check, Gather, Put, PutMode, Scatter, Take};
use gt_ir::{Failure, FailureKind, HostTensor, TensorType};

use super::movement::{around, offsets, read_at, write_at};
use crate::numbers::{self, Numbers};

/// The tensor, unless the condition holds.
pub(super) fn check(op: &Check, x: &HostTensor, wrong: &HostTensor) -> Result<HostTensor, Failure> {
    if numbers::ints(wrong).first() == Some(&0) { Ok(x.clone()) } else { Err(op.complaint.failure()) }
}

/// The indices, all inside an axis of `extent`; with `wrap`, negative ones count from the end.
fn checked(
    index: &HostTensor,
    axis: usize,
    extent: usize,
    wrap: bool,
    kind: FailureKind,
) -> Result<Vec<usize>, Failure> {
    let check = |i: i64| match usize::try_from(if wrap && i < 0 { i.wrapping_add(extent as i64) } else { i }) {
        Ok(at) if at < extent => Ok(at),
        // The index is the second input of every op that has one.
        _ => Err(Failure::in_input(
            kind,
            1,
            format!("index {i} is out of bounds for dimension {axis} with size {extent}"),
        )),
    };
    numbers::ints(index).into_iter().map(check).collect()
}

/// Where the slices that `index` names lie, in the order of `take`'s result.
fn slices_at(
    x: &HostTensor,
    index: &HostTensor,
    axis: usize,
    wrap: bool,
    kind: FailureKind,
) -> Result<Vec<usize>, Failure> {
    let index = checked(index, axis, x.ty.shape[axis], wrap, kind)?;
    if index.is_empty() || x.ty.numel() == 0 {
        return Ok(Vec::new());
    }
    let (before, extent, after) = around(&x.ty.shape, axis);
    let mut at = Vec::with_capacity(before * index.len() * after);
    for row in 0..before {
        for &i in &index {
            let start = (row * extent + i) * after;
            at.extend(start..start + after);
        }
    }
    Ok(at)
}

/// Where the single elements that `index` names lie, in the row-major order of the index.
fn elements_at(x: &HostTensor, index: &HostTensor, axis: usize) -> Result<Vec<usize>, Failure> {
    if index.ty.numel() == 0 {
        return Ok(Vec::new());
    }
    let mut strides = x.ty.shape.contiguous_strides();
    let along = strides[axis] as usize;
    strides[axis] = 0;
    let positions = checked(index, axis, x.ty.shape[axis], false, FailureKind::Domain)?;
    let others = offsets(&index.ty.shape, &strides, 0);
    Ok(others.into_iter().zip(positions).map(|(other, i)| other + i * along).collect())
}

/// `x` with `values` set or added at `at`, in order.
fn written(x: &HostTensor, at: &[usize], values: &HostTensor, mode: PutMode) -> HostTensor {
    match mode {
        PutMode::Set => {
            let mut out = x.clone();
            write_at(&mut out, at, values);
            out
        }
        PutMode::Add => match (Numbers::of(x), Numbers::of(values)) {
            (Numbers::Floats(mut sum), Numbers::Floats(add)) => {
                at.iter().zip(add).for_each(|(&i, v)| sum[i] += v);
                numbers::from_floats(x.ty, &sum)
            }
            (Numbers::Ints(mut sum), Numbers::Ints(add)) => {
                at.iter().zip(add).for_each(|(&i, v)| sum[i] = sum[i].wrapping_add(v));
                numbers::from_ints(x.ty, &sum)
            }
            _ => unreachable!("infer demands one dtype"),
        },
    }
}

pub(super) fn take(op: &Take, x: &HostTensor, index: &HostTensor, ty: TensorType) -> Result<HostTensor, Failure> {
    Ok(read_at(x, &slices_at(x, index, op.axis as usize, op.wrap, FailureKind::Index)?, ty))
}

pub(super) fn put(op: &Put, x: &HostTensor, index: &HostTensor, values: &HostTensor) -> Result<HostTensor, Failure> {
    let at = slices_at(x, index, op.axis as usize, op.wrap, Put::out_of_range(op.mode, op.wrap, x.ty.shape.rank()))?;
    Ok(written(x, &at, values, op.mode))
}

pub(super) fn gather(op: &Gather, x: &HostTensor, index: &HostTensor, ty: TensorType) -> Result<HostTensor, Failure> {
    Ok(read_at(x, &elements_at(x, index, op.axis as usize)?, ty))
}

pub(super) fn scatter(
    op: &Scatter,
    x: &HostTensor,
    index: &HostTensor,
    source: &HostTensor,
) -> Result<HostTensor, Failure> {
    let at = elements_at(x, index, op.axis as usize)?;
    if at.is_empty() {
        return Ok(x.clone());
    }
    // The index covers a corner of the source.
    let covered = offsets(&index.ty.shape, &source.ty.shape.contiguous_strides(), 0);
    let values = read_at(source, &covered, source.ty.with_shape(index.ty.shape));
    Ok(written(x, &at, &values, op.mode))
}
