//! How each op may be split over workers, one family a file.
//!
//! Strategies speak of one axis of a mesh; what a worker then runs is made from regions alone (SHARD-3), mostly the same
//! op with the attributes that its part needs.
//!
//! SHARDING-1: an axis is offered where the result has at least two elements along it.
//! SHARDING-2: what moves elements without looking at them keeps every kind of partial value; arithmetic keeps sums where
//! it is linear.

mod attention;
mod create;
mod cross_entropy;
mod elementwise;
mod index;
mod matmul;
mod movement;
mod reduce;
mod scan;
mod update;
mod view;
mod write;

use smallvec::SmallVec;

use super::ReduceKind;
use crate::shard::{Split, Strategy};
use crate::{DType, OpError, Shape, Val};

/// The parts of the outputs.
type Vals = Result<SmallVec<[Val; 2]>, OpError>;

/// The axes that are worth cutting.
fn axes(shape: &Shape) -> impl Iterator<Item = usize> + '_ {
    (0..shape.rank()).filter(|&axis| shape[axis] > 1)
}

/// What is cut of an operand that is broadcast to `out`, when `out` is cut along `axis`: nothing where it is repeated.
fn aligned(shape: &Shape, out: &Shape, axis: usize, unit: u32) -> Split {
    let lead = out.rank() - shape.rank();
    match axis.checked_sub(lead) {
        Some(own) if shape[own] == out[axis] => Split::Shard { axis: own as u8, unit },
        _ => Split::Replicate,
    }
}

/// What elements of a dtype can be the reduction of.
fn partial_kinds(dtype: DType) -> &'static [ReduceKind] {
    match dtype {
        DType::Bool => &[ReduceKind::Max, ReduceKind::Min],
        _ => ReduceKind::ALL,
    }
}

/// Whether sums are defined.
fn sums(dtype: DType) -> bool {
    dtype != DType::Bool
}

/// What workers contribute of which one has the element and the others have zero, or false.
fn from_one(dtype: DType) -> Split {
    if sums(dtype) { Split::SUM } else { Split::Partial(ReduceKind::Max) }
}

/// All of `ins` inputs and the output are parts of the same kind of reduction (SHARDING-2).
fn partials_pass(dtype: DType, ins: usize) -> impl Iterator<Item = Strategy> {
    partial_kinds(dtype).iter().map(move |&kind| {
        let part = Split::Partial(kind);
        Strategy { ins: (0..ins).map(|_| part).collect(), outs: SmallVec::from_slice(&[part]) }
    })
}
