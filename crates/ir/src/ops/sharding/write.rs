//! Writes and checks: what passes through may lie in any way.

use super::{Vals, axes, partial_kinds, partials_pass};
use crate::ops::{Check, Write};
use crate::shard::{LocalCx, Sharding, Split, Strategy};
use crate::{Emit, TensorType, Val};

impl Sharding for Write {
    fn packed_tensors(&self, ins: usize) -> usize {
        ins / 2
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        axes(&ins[0].shape)
            .map(|axis| Strategy::new(&[Split::shard(axis); 2], &[Split::shard(axis)]))
            .chain(partials_pass(ins[0].dtype, 2))
            .collect()
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}

impl Sharding for Check {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        // Every worker has the answer, so that all fail or none.
        let passed = |split| Strategy::new(&[split, Split::Replicate], &[split]);
        let cuts = axes(&ins[0].shape).map(Split::shard);
        let partials = partial_kinds(ins[0].dtype).iter().map(|&kind| Split::Partial(kind));
        cuts.chain(partials).map(passed).collect()
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}
