//! Matrix products: rows, columns, batches, and the inner axis, over which the workers' products are summed.

use super::{Vals, aligned, axes};
use crate::ops::Matmul;
use crate::shard::{LocalCx, Sharding, Split, Strategy};
use crate::{Emit, Shape, TensorType, Val};

impl Sharding for Matmul {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], outs: &[TensorType]) -> Vec<Strategy> {
        let (a, b, out) = (ins[0].shape, ins[1].shape, outs[0].shape);
        let (ra, rb, ro) = (a.rank(), b.rank(), out.rank());
        // Where rows and the inner axis of the first, the inner axis and columns of the second are.
        let (rows, inner_a) = if self.turn_a { (ra - 1, ra - 2) } else { (ra - 2, ra - 1) };
        let (inner_b, columns) = if self.turn_b { (rb - 1, rb - 2) } else { (rb - 2, rb - 1) };
        let batches = |shape: &Shape| shape.leading(shape.rank() - 2);
        let (batch_a, batch_b, batch_out) = (batches(&a), batches(&b), batches(&out));
        let whole = Split::Replicate;
        let mut found: Vec<Strategy> = axes(&batch_out)
            .map(|axis| {
                let operand = |batch: &Shape| aligned(batch, &batch_out, axis, 1);
                Strategy::new(&[operand(&batch_a), operand(&batch_b)], &[Split::shard(axis)])
            })
            .collect();
        if a[rows] > 1 {
            found.push(Strategy::new(&[Split::shard(rows), whole], &[Split::shard(ro - 2)]));
        }
        if b[columns] > 1 {
            found.push(Strategy::new(&[whole, Split::shard(columns)], &[Split::shard(ro - 1)]));
        }
        if a[inner_a] > 1 {
            found.push(Strategy::new(&[Split::shard(inner_a), Split::shard(inner_b)], &[Split::SUM]));
        }
        found.push(Strategy::new(&[Split::SUM, whole], &[Split::SUM]));
        found.push(Strategy::new(&[whole, Split::SUM], &[Split::SUM]));
        found
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}
