//! Scans and sorts: along every axis but their own.

use super::{Vals, axes};
use crate::ops::{Scan, ScanKind, Sort};
use crate::shard::{LocalCx, Sharding, Split, Strategy};
use crate::{Emit, TensorType, Val};

impl Sharding for Scan {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        let others = axes(&ins[0].shape).filter(|&axis| axis != self.axis as usize);
        let mut found: Vec<Strategy> =
            others.map(|axis| Strategy::new(&[Split::shard(axis)], &[Split::shard(axis)])).collect();
        if self.kind == ScanKind::Sum {
            found.push(Strategy::new(&[Split::SUM], &[Split::SUM]));
        }
        found
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}

impl Sharding for Sort {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        axes(&ins[0].shape)
            .filter(|&axis| axis != self.axis as usize)
            .map(|axis| Strategy::new(&[Split::shard(axis)], &[Split::shard(axis); 2]))
            .collect()
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}
