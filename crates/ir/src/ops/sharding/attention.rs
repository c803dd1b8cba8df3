//! Attention: batches, and heads: a key head goes with the query heads that read it.

use smallvec::SmallVec;

use super::{Vals, aligned};
use crate::ops::{Attention, AttentionGrad};
use crate::shard::{LocalCx, Sharding, Split, Strategy};
use crate::{Emit, TensorType, Val};

/// Along batches, then along heads: what queries, keys and the mask are cut into. Whatever has a row per query goes with the
/// queries.
struct Cut {
    queries: Split,
    keys: Split,
    mask: Option<Split>,
    /// What the gradients of keys and values are.
    key_grads: Split,
}

fn cuts(ins: &[TensorType], masked: bool) -> Vec<Cut> {
    let (q, k) = (ins[0].shape, ins[1].shape);
    let scores = q.with_extent(3, k[2]).expect("infer made sure that scores fit");
    let mask = |axis, unit| masked.then(|| aligned(&ins[3].shape, &scores, axis, unit));
    let mut found = Vec::new();
    if q[0] > 1 {
        let cut = Split::shard(0);
        found.push(Cut { queries: cut, keys: cut, mask: mask(0, 1), key_grads: cut });
    }
    if k[1] > 1 {
        let (keys, unit) = (Split::shard(1), (q[1] / k[1]).max(1) as u32);
        found.push(Cut { queries: Split::Shard { axis: 1, unit }, keys, mask: mask(1, unit), key_grads: keys });
    } else if q[1] > 1 {
        // All query heads read the one key head.
        let queries = Split::shard(1);
        found.push(Cut { queries, keys: Split::Replicate, mask: mask(1, 1), key_grads: Split::SUM });
    }
    found
}

impl Sharding for Attention {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        let strategy = |cut: Cut| {
            let mut ins: SmallVec<[Split; 3]> = SmallVec::from_slice(&[cut.queries, cut.keys, cut.keys]);
            ins.extend(cut.mask);
            Strategy { ins, outs: SmallVec::from_slice(&[cut.queries; 2]) }
        };
        cuts(ins, self.masked).into_iter().map(strategy).collect()
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}

impl Sharding for AttentionGrad {
    fn packed_tensors(&self, _: usize) -> usize {
        1
    }
    fn shard(&self, ins: &[TensorType], _: &[TensorType]) -> Vec<Strategy> {
        let strategy = |cut: Cut| {
            let mut ins: SmallVec<[Split; 3]> = SmallVec::from_slice(&[cut.queries, cut.keys, cut.keys]);
            ins.extend(cut.mask);
            ins.extend([cut.queries; 3]);
            Strategy { ins, outs: SmallVec::from_slice(&[cut.queries, cut.key_grads, cut.key_grads]) }
        };
        cuts(ins, self.masked).into_iter().map(strategy).collect()
    }
    fn local(&self, cx: &LocalCx<'_>, vals: &[Val], e: &mut dyn Emit) -> Vals {
        cx.run(self.clone(), vals, e)
    }
}
