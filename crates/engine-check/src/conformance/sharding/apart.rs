//! Taking values apart as a placement says, and putting them together again.

use gt_ir::ops::{Binary, Concat, ReduceKind, Side, Slice};
use gt_ir::rows::BinaryKind;
use gt_ir::shard::{Split, bounds};
use gt_ir::{AxisSet, HostTensor, Op, Scalar, Steps};

use crate::conformance::values::SplitMix;
use crate::numbers::{self, Numbers};
use crate::reference::evaluate;

/// What each worker has of `x`, last axis of the mesh fastest.
pub(super) fn taken_apart(
    x: &HostTensor,
    extents: &[usize],
    splits: &[Split],
    random: &mut SplitMix,
) -> Vec<HostTensor> {
    let (Some((&count, inner)), Some((&split, rest))) = (extents.split_first(), splits.split_first()) else {
        return vec![x.clone()];
    };
    let parts: Vec<HostTensor> = match split {
        Split::Replicate => vec![x.clone(); count],
        Split::Shard { axis, unit } => (0..count)
            .map(|i| {
                let axis = axis as usize;
                let (start, size) = bounds(x.ty.shape[axis], unit as usize, count, i);
                cut(x, axis, start, size)
            })
            .collect(),
        Split::Partial(kind) => addends(x, kind, count, random),
    };
    parts.iter().flat_map(|part| taken_apart(part, inner, rest, random)).collect()
}

fn cut(x: &HostTensor, axis: usize, start: usize, size: usize) -> HostTensor {
    let rank = x.ty.shape.rank();
    let sizes = x.ty.shape.shrunk(axis, size);
    let starts: Vec<Scalar> = (0..rank).map(|a| Scalar::I64(if a == axis { start as i64 } else { 0 })).collect();
    let op = Slice { sizes, steps: Steps::splat(rank, 1), drop: AxisSet::default() };
    evaluate(&op.into(), &[x], &starts, None).expect("bounds are inside").remove(0)
}

/// Tensors whose reduction is `x`.
fn addends(x: &HostTensor, kind: ReduceKind, count: usize, random: &mut SplitMix) -> Vec<HostTensor> {
    let identity = kind.identity(x.ty.dtype);
    match Numbers::of(x) {
        Numbers::Floats(values) => {
            let mut parts = vec![Vec::new(); count];
            for &value in &values {
                // Quarters, so that little is rounded.
                let shares: Vec<f64> = (0..count).map(|_| random.below(9) as f64 / 4.0 - 1.0).collect();
                let holder = random.below(count as u64) as usize;
                let others: f64 = shares.iter().enumerate().filter(|(i, _)| *i != holder).map(|(_, s)| s).sum();
                for (i, part) in parts.iter_mut().enumerate() {
                    part.push(match kind {
                        _ if i == holder && kind != ReduceKind::Sum => value,
                        ReduceKind::Sum => {
                            if i == holder {
                                value - others
                            } else {
                                shares[i]
                            }
                        }
                        ReduceKind::Prod => identity.as_f64(),
                        ReduceKind::Max => value - shares[i].abs(),
                        ReduceKind::Min => value + shares[i].abs(),
                    });
                }
            }
            parts.iter().map(|part| numbers::from_floats(x.ty, part)).collect()
        }
        Numbers::Ints(values) => {
            let mut parts = vec![Vec::new(); count];
            for &value in &values {
                let shares: Vec<i64> = (0..count).map(|_| random.below(5) as i64 - 2).collect();
                let holder = random.below(count as u64) as usize;
                let others: i64 = shares.iter().enumerate().filter(|(i, _)| *i != holder).map(|(_, s)| s).sum();
                for (i, part) in parts.iter_mut().enumerate() {
                    part.push(match kind {
                        ReduceKind::Sum => {
                            if i == holder {
                                value.wrapping_sub(others)
                            } else {
                                shares[i]
                            }
                        }
                        _ if i == holder || shares[i] == 0 && kind != ReduceKind::Prod => value,
                        _ => numbers::scalar_operand_int(identity, x.ty.dtype),
                    });
                }
            }
            parts.iter().map(|part| numbers::from_ints(x.ty, part)).collect()
        }
    }
}

/// Undoes [`taken_apart`].
pub(super) fn put_together(parts: &[HostTensor], extents: &[usize], splits: &[Split]) -> HostTensor {
    let (Some((&count, inner)), Some((&split, rest))) = (extents.split_first(), splits.split_first()) else {
        return parts[0].clone();
    };
    let own: Vec<HostTensor> =
        parts.chunks(parts.len() / count).map(|parts| put_together(parts, inner, rest)).collect();
    let both = |kind: BinaryKind| {
        let op: Op = Binary { kind, scalar: Side::None }.into();
        let join = |a: HostTensor, b: &HostTensor| evaluate(&op, &[&a, b], &[], None).expect("same types").remove(0);
        own[1..].iter().fold(own[0].clone(), join)
    };
    match split {
        Split::Replicate => {
            own[1..].iter().for_each(|other| assert!(*other == own[0], "what is replicated differs"));
            own[0].clone()
        }
        Split::Shard { axis, .. } => {
            let refs: Vec<&HostTensor> = own.iter().collect();
            evaluate(&Concat { axis }.into(), &refs, &[], None).expect("the parts fit").remove(0)
        }
        Split::Partial(ReduceKind::Sum) => both(BinaryKind::Add),
        Split::Partial(ReduceKind::Prod) => both(BinaryKind::Mul),
        Split::Partial(ReduceKind::Max) => both(BinaryKind::Max),
        Split::Partial(ReduceKind::Min) => both(BinaryKind::Min),
    }
}
