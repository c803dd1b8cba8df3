//! What is put together from parts: along the axes in which the parts agree.

use super::{Vals, axes, partials_pass};
use crate::ops::{Concat, Pad, UpdateSlice};
use crate::shard::{LocalCx, Sharding, Split, Strategy};
use crate::{Emit, TensorType, Val};

impl Sharding for UpdateSlice {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        let shape = ins[0].shape;
        let written = self.drop.insert_into(&ins[1].shape);
        axes(&shape)
            .filter(|&axis| !self.drop.contains(axis) && written[axis] == shape[axis] && self.steps[axis] == 1)
            .map(|axis| {
                let part = axis - self.drop.iter().filter(|&gone| gone < axis).count();
                Strategy::new(&[Split::shard(axis), Split::shard(part)], &[Split::shard(axis)])
            })
            .chain(partials_pass(ins[0].dtype, 2))
            .collect()
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}

impl Sharding for Pad {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        // Parts of a sum are not padded: the number would count once per worker.
        axes(&ins[0].shape)
            .filter(|&axis| self.low[axis] == 0 && self.high[axis] == 0)
            .map(|axis| Strategy::new(&[Split::shard(axis)], &[Split::shard(axis)]))
            .collect()
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}

impl Sharding for Concat {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
        axes(&outs[0].shape)
            .filter(|&axis| axis != self.axis as usize)
            .map(|axis| Strategy {
                ins: ins.iter().map(|_| Split::shard(axis)).collect(),
                outs: smallvec::smallvec![Split::shard(axis)],
            })
            .chain(partials_pass(ins[0].dtype, ins.len()))
            .collect()
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}
