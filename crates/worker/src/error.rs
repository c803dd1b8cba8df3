//! How a wait can end other than well.

use std::sync::Arc;

use gt_ir::Failure;
use thiserror::Error;

/// The caller's `cancel` said so while there was no room. The window was sent all the same: a stream with a hole
/// would poison everything behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("interrupted while waiting for room")]
pub struct Interrupted;

/// Why a read or a synchronize gave nothing.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ReadError {
    /// The caller's `cancel` said so.
    #[error("interrupted while waiting")]
    Interrupted,
    /// The value is poisoned, or a write was skipped.
    #[error("{0}")]
    Failed(Arc<Failure>),
    /// The worker has been shut down.
    #[error("the worker has been shut down")]
    Stopped,
}
