//! Reductions: along a kept axis the result is cut, along a reduced one it is a reduction of the workers' results.

use super::{Vals, axes, sums};
use crate::ops::{ArgReduce, Reduce, ReduceKind};
use crate::shard::{LocalCx, Sharding, Split, Strategy};
use crate::{AxisSet, Emit, TensorType, Val};

/// Where a kept axis is in the result.
fn kept(axis: usize, reduced: AxisSet, keepdim: bool) -> usize {
    if keepdim { axis } else { axis - reduced.iter().filter(|&gone| gone < axis).count() }
}

impl Sharding for Reduce {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        let part = Split::Partial(self.kind);
        let mut found: Vec<Strategy> = axes(&ins[0].shape)
            .map(|axis| match self.axes.contains(axis) {
                true => Strategy::new(&[Split::shard(axis)], &[part]),
                false => Strategy::new(&[Split::shard(axis)], &[Split::shard(kept(axis, self.axes, self.keepdim))]),
            })
            .collect();
        let defined = sums(ins[0].dtype) || matches!(self.kind, ReduceKind::Max | ReduceKind::Min);
        if defined {
            found.push(Strategy::new(&[part], &[part]));
        }
        found
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        let size = cx.ins[0].region.size;
        let nothing = self.axes.iter().any(|axis| size[axis] == 0);
        let whole = cx.ins[0].region.is_whole(&cx.ins[0].ty.shape);
        if nothing && !whole && matches!(self.kind, ReduceKind::Max | ReduceKind::Min) {
            // A worker with no elements: there is no largest of none, but what changes no largest.
            let ty = cx.outs[0].local();
            return Ok(smallvec::smallvec![e.fill(ty, self.kind.identity(ty.dtype))?]);
        }
        cx.run(self.clone(), vals, e)
    }
}

impl Sharding for ArgReduce {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        let own = self.axis as usize;
        let to = |axis| kept(axis, AxisSet::of(&[own]), self.keepdim);
        axes(&ins[0].shape)
            .filter(|&axis| axis != own)
            .map(|axis| Strategy::new(&[Split::shard(axis)], &[Split::shard(to(axis))]))
            .collect()
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}
