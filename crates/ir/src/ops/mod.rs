//! The ops, one family a file. To add one, see `docs/adding-an-op.md`.

mod attention;
mod check;
mod create;
mod cross_entropy;
mod elementwise;
mod index;
mod matmul;
mod movement;
mod reduce;
mod scan;
mod sharding;
mod sort;
mod update;
mod view;
mod write;

pub use attention::{Attention, AttentionGrad};
pub use check::{Check, Complaint};
pub use create::{Fill, Iota, Random, RandomKind, Upload};
pub use cross_entropy::{CrossEntropy, CrossEntropyGrad};
pub use elementwise::{Binary, Cast, Compare, Select, Side, Unary};
pub use index::{Gather, Put, PutMode, Scatter, Take};
pub use matmul::Matmul;
pub use movement::{Concat, Pad, UpdateSlice};
pub use reduce::{ArgKind, ArgReduce, Reduce, ReduceKind};
pub use scan::{Scan, ScanKind};
pub use sort::Sort;
pub use update::{Update, UpdateKind};
pub use view::{Broadcast, Permute, Reshape, Slice, inverse_permutation};
pub use write::Write;

use crate::{OpError, TensorType, Types};

/// One output type.
#[inline]
fn one(ty: TensorType) -> Result<Types, OpError> {
    Ok(Types::from_buf([ty]))
}
