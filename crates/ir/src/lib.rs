//! GT's instruction stream.
//!
//! Everything GT does is a stream of pure instructions over named values. This crate defines them:
//! the op table ([`Op`], one file per family in [`ops`]), their shapes and gradients, the elementwise
//! rows, the text form, the binary form and the hash. It does no I/O and runs nothing.
//!
//! ```
//! use gt_ir::Instr;
//! let add: Instr = "%3 = binary(%1, %2) kind=add scalar=none".parse().unwrap();
//! assert_eq!(add.op.display_name(), "add");
//! assert_eq!(add.to_string().parse::<Instr>().unwrap(), add);
//! ```

pub mod attr;
mod axis_set;
mod bytes;
pub mod codec;
mod composite;
mod dims;
mod dtype;
mod error;
mod failure;
mod grad;
pub mod hash;
mod host;
mod id_map;
mod instr;
mod op;
pub mod ops;
pub mod philox;
mod primitive;
pub mod rows;
mod scalar;
mod shape;
pub mod shard;
pub mod text;
mod window;

pub use axis_set::AxisSet;
pub use bytes::{Bytes, Companion, HostAllocator, HostBlock, HostBuffer};
pub use composite::Composite;
pub use dims::{Counts, Dims, MAX_RANK, Steps};
pub use dtype::DType;
pub use error::OpError;
pub use failure::{Cause, Failure, FailureKind, SkippedWrite};
pub use grad::{Emit, GradCx, Grads, Operand, Saves, Val};
pub use hash::{Digest, StreamHasher};
pub use host::{HostTensor, vec_for_bytes};
pub use id_map::{IdHasher, IdMap};
pub use instr::{INSTR_BYTES, Ins, Instr, Outs, Scalars, ScopeId, SiteId, TensorId, TensorType};
pub use op::{Op, OpKind};
pub use primitive::{
    Cost, Domain, Primitive, Sample, SampleIn, Types, arity, check_axis, elementwise_cost, input, moved_bytes,
};
pub use scalar::Scalar;
pub use shape::{Shape, broadcast};
pub use window::{ExternalValue, Payload, Window};
