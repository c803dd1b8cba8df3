//! What tensors can do, one family a file. Each method is checked at the call and recorded.

mod arith;
mod axes;
mod check;
mod copy;
mod create;
mod diagonal;
mod einsum;
mod index;
mod inplace;
mod join;
mod linalg;
mod nn;
mod part;
mod pick;
mod promote;
mod random;
mod rearrange;
mod reduce;
mod shape;
mod sort;
mod unary;

pub use arith::Arg;
pub use axes::{axis, axis_set};
pub use index::Index;
pub use nn::Step;
pub use promote::{check_fits, default_dtype, dtype_of_number, result_type, set_default_dtype};
pub use sort::Unique;
