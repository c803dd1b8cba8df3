//! How a send or a wait can end other than well.

use std::sync::Arc;

use gt_ir::Failure;
use thiserror::Error;

/// The caller's `cancel` said so while there was no room. The window was sent all the same: a stream with a hole
/// would poison everything behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("interrupted while waiting for buffer space")]
pub struct Interrupted;

/// Bytes were supplied that no window had asked for, and more of them than the session's credits allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "received {len_bytes} bytes of uploads before the work that uses them, with {held_bytes} bytes already waiting; the limit is {limit_bytes} bytes"
)]
pub struct Oversupplied {
    /// What came.
    pub len_bytes: usize,
    /// What had come before and was not used yet.
    pub held_bytes: usize,
    /// How much may wait.
    pub limit_bytes: usize,
}

/// Why a read or a synchronize gave nothing.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ReadError {
    /// The caller's `cancel` said so.
    #[error("interrupted while waiting")]
    Interrupted,
    /// The value is poisoned, or a write was skipped.
    #[error("{0}")]
    Failed(Arc<Failure>),
    /// The session was closed, or its worker shut down.
    #[error("the session was closed, or its worker shut down")]
    Stopped,
}
