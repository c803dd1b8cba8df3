//! GT's client: tensors that record.
//!
//! A [`Tensor`] is a handle on the stream. Its methods check shapes and dtypes at the call, record instructions into the
//! thread's lane and return at once; only reads wait. Gradients are worked out here, from the op table's rules.
//!
//! The client does not know where instructions run: see [`link::Link`]. The `gt` crate links an embedded worker.

pub mod autograd;
mod error;
mod host;
mod known;
mod lane;
pub mod link;
mod loading;
pub mod ops;
pub mod rng;
mod run_ahead;
mod seat;
pub mod session;
mod shown;
pub mod signal;
pub mod site;
mod stretch;
mod tensor;
mod thread;
mod value;
mod view;
mod warning;

pub use error::{Error, Failed, Result};
pub use gt_ir::{DType, HostTensor, Scalar, Shape, TensorType};
pub use host::{Element, put_scalar, scalar_at};
pub use lane::{LoopOptions, cut, hand_over, idle_cut};
pub use link::{AnnouncedBatch, WantedLoader};
pub use loading::Loader;
pub use ops::{Arg, Index};
pub use rng::{Generator, manual_seed};
pub use run_ahead::RunAhead;
pub use seat::Seat;
pub use session::synchronize;
pub use tensor::Tensor;
pub use warning::{set_warning_hook, warn_once};
