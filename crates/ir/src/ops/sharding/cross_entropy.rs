//! Cross-entropy: along the rows. Over classes that are split its expansion is.

use super::{Vals, axes};
use crate::ops::{CrossEntropy, CrossEntropyGrad};
use crate::shard::{LocalCx, Sharding, Split, Strategy};
use crate::{Emit, TensorType, Val};

/// Everything has its rows first.
fn rows(ins: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
    let along = |axis| Strategy {
        ins: ins.iter().map(|_| Split::shard(axis)).collect(),
        outs: outs.iter().map(|_| Split::shard(axis)).collect(),
    };
    axes(&ins[1].shape).map(along).collect()
}

impl Sharding for CrossEntropy {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
        rows(ins, outs)
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}

impl Sharding for CrossEntropyGrad {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
        rows(ins, outs)
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}
