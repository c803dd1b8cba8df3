//! Optimizer steps: elementwise, for each parameter by itself.

use super::{Vals, axes};
use crate::ops::Update;
use crate::shard::{LocalCx, Sharding, Split, Strategy};
use crate::{Emit, TensorType, Val};

impl Sharding for Update {
    fn packed_tensors(&self, ins: usize) -> usize {
        self.tensors(ins).unwrap_or(1)
    }
    fn shard(&self, ins: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
        axes(&ins[0].shape)
            .map(|axis| Strategy {
                ins: ins.iter().map(|_| Split::shard(axis)).collect(),
                outs: outs.iter().map(|_| Split::shard(axis)).collect(),
            })
            .collect()
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}
