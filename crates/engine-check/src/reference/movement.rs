//! Elements copied from here to there, bit for bit.

use gt_ir::ops::{Concat, Pad, Permute, Slice, UpdateSlice};
use gt_ir::{Bytes, Counts, Failure, FailureKind, HostTensor, Scalar, Shape, Steps, TensorType};

use crate::numbers;

/// Where the elements of a view lie, in row-major order of `shape`.
pub(super) fn offsets(shape: &Shape, strides: &[i64], base: i64) -> Vec<usize> {
    let count = shape.numel();
    let mut out = Vec::with_capacity(count);
    let mut position = Counts::splat(shape.rank(), 0);
    let mut at = base;
    for _ in 0..count {
        out.push(at as usize);
        for axis in (0..shape.rank()).rev() {
            position[axis] += 1;
            at += strides[axis];
            if position[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis] as i64;
            position[axis] = 0;
        }
    }
    out
}

/// The strides by which a packed tensor of shape `from` is read as one of shape `to`.
pub(super) fn broadcast_strides(from: &Shape, to: &Shape) -> Steps {
    let lead = to.rank() - from.rank();
    let packed = from.contiguous_strides();
    (0..to.rank()).map(|a| if a < lead || from[a - lead] == 1 { 0 } else { packed[a - lead] }).collect()
}

/// The tensor of type `ty` whose elements are those of `x` at `at`.
pub(super) fn read_at(x: &HostTensor, at: &[usize], ty: TensorType) -> HostTensor {
    let size = ty.dtype.size();
    let mut bytes = Vec::with_capacity(ty.bytes());
    for &i in at {
        bytes.extend_from_slice(&x.bytes[i * size..(i + 1) * size]);
    }
    HostTensor { ty, bytes }
}

/// Writes the elements of `values`, in order, to the positions `at` of `x`.
pub(super) fn write_at(x: &mut HostTensor, at: &[usize], values: &HostTensor) {
    let size = x.ty.dtype.size();
    for (k, &i) in at.iter().enumerate() {
        x.bytes[i * size..(i + 1) * size].copy_from_slice(&values.bytes[k * size..(k + 1) * size]);
    }
}

/// Elements before, along and after an axis.
pub(super) fn around(shape: &Shape, axis: usize) -> (usize, usize, usize) {
    (shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product())
}

/// `x` broadcast to `ty`.
pub(super) fn repeat(x: &HostTensor, ty: TensorType) -> HostTensor {
    read_at(x, &offsets(&ty.shape, &broadcast_strides(&x.ty.shape, &ty.shape), 0), ty)
}

pub(super) fn upload(ty: TensorType, payload: Option<&Bytes>) -> Result<HostTensor, Failure> {
    let have = payload.map_or(0, |p| p.len());
    if payload.is_none() || have != ty.bytes() {
        return Err(Failure::new(
            FailureKind::Value,
            format!("an upload of {ty} needs {} bytes, got {have}", ty.bytes()),
        ));
    }
    let mut bytes = gt_ir::vec_for_bytes(have)?;
    bytes.extend_from_slice(payload.expect("checked above"));
    let tensor = HostTensor { ty, bytes };
    // A bool byte is 0 or 1 from here on, whatever came by wire.
    Ok(if ty.dtype == gt_ir::DType::Bool { numbers::from_ints(ty, &numbers::ints(&tensor)) } else { tensor })
}

pub(super) fn permute(op: &Permute, x: &HostTensor, ty: TensorType) -> HostTensor {
    let packed = x.ty.shape.contiguous_strides();
    let strides: Steps = op.perm.map(|p| packed[p as usize]);
    read_at(x, &offsets(&ty.shape, &strides, 0), ty)
}

/// The positions a slice names in a packed tensor of shape `shape`, once it lies inside.
/// The tensor with its last two axes swapped, if they are to be.
pub(super) fn turned(x: &HostTensor, turn: bool) -> HostTensor {
    if !turn {
        return x.clone();
    }
    let rank = x.ty.shape.rank();
    let mut perm: Steps = (0..rank as i64).collect();
    perm.swap(rank - 1, rank - 2);
    let ty = x.ty.with_shape(x.ty.shape.swapped(rank - 1, rank - 2));
    permute(&Permute { perm }, x, ty)
}

fn slice_offsets(
    name: &str,
    shape: &Shape,
    sizes: &Shape,
    starts: &[Scalar],
    steps: &Steps,
) -> Result<Vec<usize>, Failure> {
    if sizes.numel() == 0 {
        return Ok(Vec::new());
    }
    let packed = shape.contiguous_strides();
    let mut strides = Steps::splat(shape.rank(), 0);
    let mut base = 0;
    for axis in 0..shape.rank() {
        let (start, extent) = (starts[axis].as_i64(), shape[axis] as i64);
        let last = (sizes[axis] as i64 - 1).checked_mul(steps[axis]).and_then(|d| d.checked_add(start));
        let inside = |i: i64| (0..extent).contains(&i);
        if !inside(start) || !last.is_some_and(inside) {
            return Err(Failure::new(
                FailureKind::Value,
                format!(
                    "{name}: {} elements starting at {start} with step {} do not fit dimension {axis} with size {extent}",
                    sizes[axis], steps[axis]
                ),
            ));
        }
        base += start * packed[axis];
        // A single element may be any step from the next, which is nowhere.
        if sizes[axis] > 1 {
            strides[axis] = packed[axis] * steps[axis];
        }
    }
    Ok(offsets(sizes, &strides, base))
}

pub(super) fn slice(op: &Slice, x: &HostTensor, starts: &[Scalar], ty: TensorType) -> Result<HostTensor, Failure> {
    let at = slice_offsets("slice", &x.ty.shape, &op.sizes, starts, &op.steps)?;
    Ok(read_at(x, &at, ty))
}

pub(super) fn update_slice(
    op: &UpdateSlice,
    x: &HostTensor,
    part: &HostTensor,
    starts: &[Scalar],
) -> Result<HostTensor, Failure> {
    let sizes = op.drop.insert_into(&part.ty.shape);
    let at = slice_offsets("update_slice", &x.ty.shape, &sizes, starts, &op.steps)?;
    let mut out = x.clone();
    write_at(&mut out, &at, part);
    Ok(out)
}

pub(super) fn pad(op: &Pad, x: &HostTensor, value: Scalar, ty: TensorType) -> HostTensor {
    let mut out = repeat(&numbers::scalar_element(value, ty.dtype), ty);
    let strides = ty.shape.contiguous_strides();
    let base = op.low.iter().zip(strides.iter()).map(|(&low, &stride)| low as i64 * stride).sum();
    let at = offsets(&x.ty.shape, &strides, base);
    write_at(&mut out, &at, x);
    out
}

pub(super) fn concat(op: &Concat, ins: &[&HostTensor], ty: TensorType) -> HostTensor {
    let mut bytes = Vec::with_capacity(ty.bytes());
    if ty.numel() == 0 {
        return HostTensor { ty, bytes };
    }
    let (before, _, _) = around(&ty.shape, op.axis as usize);
    for row in 0..before {
        for x in ins {
            let len = x.bytes.len() / before;
            bytes.extend_from_slice(&x.bytes[row * len..(row + 1) * len]);
        }
    }
    HostTensor { ty, bytes }
}
