//! Elementwise ops: along every axis of the result; sums stay apart where the function is linear.

use super::{Vals, aligned, axes, partial_kinds, sums};
use crate::ops::{Binary, Cast, Compare, ReduceKind, Select, Side, Unary};
use crate::rows::{BinaryKind, UnaryKind};
use crate::shard::{LocalCx, Sharding, Split, Strategy};
use crate::{DType, Emit, TensorType, Val};

/// Every axis of the result, the operands broadcast.
fn each_axis(ins: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
    let out = outs[0].shape;
    let along = |axis| Strategy {
        ins: ins.iter().map(|ty| aligned(&ty.shape, &out, axis, 1)).collect(),
        outs: smallvec::smallvec![Split::shard(axis)],
    };
    axes(&out).map(along).collect()
}

impl Sharding for Unary {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
        let mut found = each_axis(ins, outs);
        if self.kind == UnaryKind::Neg && sums(ins[0].dtype) {
            found.push(Strategy::new(&[Split::SUM], &[Split::SUM]));
        }
        found
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}

impl Binary {
    /// The inputs that may be parts of a reduction while the others are whole, and the reduction.
    fn partials(&self, dtype: DType) -> Vec<(Vec<Split>, Split)> {
        use BinaryKind::*;
        let (whole, sum) = (Split::Replicate, Split::SUM);
        let (max, min) = (Split::Partial(ReduceKind::Max), Split::Partial(ReduceKind::Min));
        let extremes = |part: Split| match self.scalar {
            Side::None => vec![(vec![part, part], part), (vec![part, whole], part), (vec![whole, part], part)],
            Side::Left | Side::Right => vec![(vec![part], part)],
        };
        match (self.kind, self.scalar) {
            (Max, _) => extremes(max),
            (Min, _) => extremes(min),
            _ if !sums(dtype) => Vec::new(),
            (Add | Sub, Side::None) => vec![(vec![sum, sum], sum)],
            (Mul, Side::None) => vec![(vec![sum, whole], sum), (vec![whole, sum], sum)],
            (Mul, Side::Left | Side::Right) | (Div, Side::Right) => vec![(vec![sum], sum)],
            (Div, Side::None) => vec![(vec![sum, whole], sum)],
            _ => Vec::new(),
        }
    }
}

impl Sharding for Binary {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
        let mut found = each_axis(ins, outs);
        found.extend(self.partials(ins[0].dtype).iter().map(|(ins, out)| Strategy::new(ins, &[*out])));
        found
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}

impl Sharding for Compare {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
        each_axis(ins, outs)
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}

impl Sharding for Select {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
        let mut found = each_axis(ins, outs);
        // A choice moves elements. A number on one side would count once per worker.
        if !self.a_scalar && !self.b_scalar {
            found.extend(partial_kinds(self.dtype).iter().map(|&kind| {
                let part = Split::Partial(kind);
                Strategy::new(&[Split::Replicate, part, part], &[part])
            }));
        }
        found
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}

impl Sharding for Cast {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
        let mut found = each_axis(ins, outs);
        // To a wider float nothing is lost. Integers may have wrapped: their parts are not to be widened.
        let widens = matches!(
            (ins[0].dtype, self.dtype),
            (DType::F16 | DType::BF16, DType::F32 | DType::F64) | (DType::F32, DType::F64)
        );
        if widens || (ins[0].dtype == self.dtype && sums(self.dtype)) {
            found.push(Strategy::new(&[Split::SUM], &[Split::SUM]));
        }
        found
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}
